//! Resets of a device: it drops its commands, and goes on.

use std::sync::Arc;

use super::command::{CommandId, Failure, Outcome};
use super::configuration::DeviceId;
use super::image::Image;
use super::simulation::{HostError, Phase, Simulation};

impl Simulation {
    /// Resets a device: commands in its slots, or running, fail with [`Failure::Reset`], its image
    /// is gone, and it is usable again at once. The memory of its space stays as it is: other
    /// devices may work in it.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is lost.
    pub fn reset_device(&mut self, id: DeviceId) -> Result<(), HostError> {
        self.living(id)?;
        let device = &mut self.devices[id.index()];
        // An image that is being built is done in its time, and then lacks whatever is asked for.
        device.image = Image::new(device.configuration.image.capacity);
        let failure = Arc::new(Failure::Reset { device: id });
        let ended: Vec<CommandId> = self
            .commands
            .iter()
            .filter(|(_, flight)| {
                flight.command.device == id
                    && matches!(
                        flight.phase,
                        Phase::Travelling | Phase::Waiting | Phase::Running
                    )
            })
            .map(|(command, _)| *command)
            .collect();
        for command in ended {
            self.end(command, Outcome::Failed(Arc::clone(&failure)), true);
        }
        Ok(())
    }
}

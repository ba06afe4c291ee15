//! The machine as others see it while it is the driver's.

use crate::engine::{CommandId, DeviceId, HostError, Machine, Mode, Progress, RunEnd, Simulation};

/// The machine of a driver: everything about it can be looked at, and it can be moved on. Its
/// commands, statuses and memory are the driver's: code that uploaded a command there, set a status
/// slot or freed memory could have a command end, or start, before its turn.
///
/// ```compile_fail,E0599
/// use quipu_driver_sim::{SimDriver, engine::{Command, DeviceId}};
/// fn end_others_commands(driver: &SimDriver) {
///     let _ = driver.machine().try_upload(Command::marker(DeviceId(0)));
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MachineView<'a>(pub(crate) &'a Machine);

impl<'a> MachineView<'a> {
    /// The threads that step it.
    #[must_use]
    pub fn mode(self) -> Mode {
        self.0.mode()
    }

    /// Looks at the simulation, under its lock: `look` must not call the machine.
    pub fn with<R>(self, look: impl FnOnce(&Simulation) -> R) -> R {
        self.0.with(|simulation| look(simulation))
    }

    /// As [`Machine::step`].
    pub fn step(self) -> Progress {
        self.0.step()
    }

    /// As [`Machine::run_while`].
    pub fn run_while(self, pending: impl FnMut() -> bool) -> RunEnd {
        self.0.run_while(pending)
    }

    /// As [`Machine::is_asleep`].
    #[must_use]
    pub fn is_asleep(self) -> bool {
        self.0.is_asleep()
    }

    /// As [`Machine::callback_panics`].
    #[must_use]
    pub fn callback_panics(self) -> u64 {
        self.0.callback_panics()
    }

    /// As [`Machine::recall`]: the driver uploads the command again.
    pub fn recall(self, command: CommandId) -> bool {
        self.0.recall(command)
    }

    /// As [`Machine::lose_device`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lose_device(self, device: DeviceId) -> Result<(), HostError> {
        self.0.lose_device(device)
    }

    /// The machine itself.
    ///
    /// # Safety
    /// The caller does nothing there that the driver relies on that nobody else does: it uploads no
    /// command, sets and releases no status slot, and frees and writes no memory.
    #[must_use]
    pub unsafe fn whole(self) -> &'a Machine {
        self.0
    }
}

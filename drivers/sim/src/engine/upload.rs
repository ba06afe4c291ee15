//! Uploads: the host puts a command into a free slot of its device, or gets it back with the
//! reason.

use super::agenda::Event;
use super::command::{Command, CommandId};
use super::configuration::DeviceId;
use super::log::Occurrence;
use super::memory::MemoryError;
use super::order::Used;
use super::simulation::{HostError, InFlight, Phase, Simulation};
use super::status::{StatusError, StatusSlot};
use super::time::Times;

/// The reason for which a command was not uploaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalReason {
    /// All slots are taken. A [`Notice::SlotsFree`](super::Notice::SlotsFree) follows when one is
    /// free.
    #[error("all {slots} command slots of {device} are taken: upload again when one is free")]
    NoFreeSlot {
        /// The device.
        device: DeviceId,
        /// The number of slots that it has.
        slots: usize,
    },
    /// The device does not exist or is lost.
    #[error(transparent)]
    Device(#[from] HostError),
    /// A status slot cannot be used so.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Memory cannot be used so.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The command would wait for its own end.
    #[error("a command waits for {slot}, which it signals itself: it would never start")]
    WaitsForItself {
        /// The slot.
        slot: StatusSlot,
    },
    /// The machine was shut down.
    #[error("the simulated machine was shut down")]
    ShutDown,
}

/// A command that was not uploaded, and why.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The command, untouched.
    pub command: Box<Command>,
    /// The reason.
    pub reason: RefusalReason,
}

impl Simulation {
    /// Uploads a command to its device.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that holds the command: nothing was changed.
    pub fn try_upload(&mut self, command: Command) -> Result<CommandId, Refusal> {
        match self.accept(&command) {
            Ok((slot, backings)) => Ok(self.put(command, slot, backings)),
            Err(reason) => {
                if matches!(reason, RefusalReason::NoFreeSlot { .. }) {
                    self.devices[command.device.index()].refused = true;
                    self.record(Occurrence::UploadRefused {
                        device: command.device,
                    });
                }
                Err(Refusal {
                    command: Box::new(command),
                    reason,
                })
            }
        }
    }

    /// The slot and the memory for a command, if all about it is right.
    fn accept(
        &mut self,
        command: &Command,
    ) -> Result<(usize, Vec<super::memory::Backing>), RefusalReason> {
        if self.shut_down {
            return Err(RefusalReason::ShutDown);
        }
        let device = self.living(command.device)?;
        let space = device.configuration.space;
        let slot = device.free_slots.first().copied();
        let slots = device.configuration.slots;
        let own_space = |slot: StatusSlot| {
            if slot.space == space {
                Ok(())
            } else {
                Err(StatusError::WrongSpace {
                    slot,
                    needed: space,
                })
            }
        };
        let area = &mut self.areas[space.index()];
        for wait in &command.waits {
            own_space(wait.slot)?;
            area.check_wait(wait.slot)?;
            if command.signals == Some(wait.slot) {
                return Err(RefusalReason::WaitsForItself { slot: wait.slot });
            }
        }
        if let Some(signal) = command.signals {
            own_space(signal)?;
            area.check_signal(signal)?;
        }
        let slot = slot.ok_or(RefusalReason::NoFreeSlot {
            device: command.device,
            slots,
        })?;
        let backings = self.spaces[space.index()].take_into_use(&command.accesses)?;
        Ok((slot, backings))
    }

    fn put(
        &mut self,
        command: Command,
        slot: usize,
        backings: Vec<super::memory::Backing>,
    ) -> CommandId {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        let device = &mut self.devices[command.device.index()];
        device.free_slots.remove(&slot);
        device.statistics.uploads += 1;
        self.interactions.uploads += 1;
        let used = Used {
            space: device.configuration.space,
            accesses: command.accesses.clone(),
            rows: command.rows.clone(),
        };
        self.order.uploaded(id, used);
        let area = &mut self.areas[device.configuration.space.index()];
        for wait in &command.waits {
            area.hold(wait.slot);
        }
        if let Some(signal) = command.signals {
            area.hold(signal);
            area.own(signal, id);
        }
        self.record(Occurrence::Uploaded {
            command: id,
            device: command.device,
            slot,
        });
        let times = Times {
            queued: self.now,
            ..Times::default()
        };
        let arrives = self.after_latency(1);
        self.agenda.plan(arrives, Event::Arrive(id));
        self.commands.insert(
            id,
            InFlight {
                command,
                slot,
                phase: Phase::Travelling,
                times,
                backings,
                doomed: None,
                publication: None,
                slowed_by: 1,
                misreport: None,
            },
        );
        id
    }

    /// Ends the upload that [`put`](Self::put) began: the host has its slot, memory and statuses
    /// back.
    pub(crate) fn take_out(&mut self, id: CommandId) -> Option<InFlight> {
        let flight = self.commands.remove(&id)?;
        let device = &mut self.devices[flight.command.device.index()];
        device.free_slots.insert(flight.slot);
        let space = device.configuration.space;
        self.spaces[space.index()].end_use(&flight.backings);
        let area = &mut self.areas[space.index()];
        for wait in &flight.command.waits {
            area.unhold(wait.slot);
        }
        if let Some(signal) = flight.command.signals {
            area.disown(signal, id);
            area.unhold(signal);
        }
        Some(flight)
    }

    /// Tells the host of slots that are free again, if it asked in vain before.
    pub(crate) fn notice_free_slots(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.index()];
        if device.refused && !device.lost {
            device.refused = false;
            let credits = device.free_slots.len();
            self.notices.push_back(super::command::Notice::SlotsFree {
                device: id,
                credits,
            });
        }
        let space = self.devices[id.index()].configuration.space;
        self.notice_free_statuses(space);
    }
}

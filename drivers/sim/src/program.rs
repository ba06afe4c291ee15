//! The plan of a command on the machine: its kind, its unit, its cost and its memory; and its
//! effect when the device starts it.
//!
//! # Protocol of an effect
//!
//! 1. It starts the command. If that must not run (it was cancelled, or an event outside the
//!    machine that it needs failed), it fails instead, and with it the commands that wait for it on
//!    the machine.
//! 2. It reads device memory and host memory as they are then. It writes device memory through the
//!    engine, which publishes at the command's end. Bytes for the host are kept, and written there
//!    at the end as well: a command that fails leaves the host's memory as it was.
//! 3. An error is kept in the ledger; the engine hears its text.

use crate::Shared;
use crate::engine::{
    self, Access, Cost, DeviceAddress, KernelId, Kind, MemoryAccess, MemoryError, Region, Unit,
};
use crate::error::of_device;
use crate::queue::{Inside, SimQueue};
use quipu_scheduler::access::Argument;
use quipu_scheduler::clock;
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::operation::{Endpoint, Migration, Operation};
use quipu_scheduler::{Command, RawArgument, Region as Rows, SpaceId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The numbers of kernels: one for each type of body, in the order in which they came, so that they
/// are the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Kernels(HashMap<usize, KernelId>);

impl Kernels {
    /// The kernel of a command, if it is a launch.
    pub(crate) fn of(&mut self, command: &Command) -> Option<KernelId> {
        if !matches!(command.operation(), Operation::Launch { .. }) {
            return None;
        }
        let next = KernelId(self.0.len() as u64);
        Some(*self.0.entry(command.body_key()).or_insert(next))
    }
}

/// The plan of a command on the machine.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) unit: Unit,
    pub(crate) cost: Cost,
    /// One for each argument, in order.
    pub(crate) accesses: Vec<Access>,
    /// See [`engine::Command::rows`](crate::engine::Command::rows).
    pub(crate) rows: Vec<(usize, Rows)>,
}

impl Plan {
    /// The plan of a command that is about to be uploaded. Makes the allocations that it needs.
    ///
    /// # Errors
    /// If the device's memory has no room for them.
    pub(crate) fn of(command: &Command, kernel: Option<KernelId>) -> Result<Self> {
        let space = space_of(command);
        let brings =
            matches!(command.operation(), Operation::Migrate(migration) if migration.to == space);
        // Of a migration, the second argument is looked at if it is taken from the same space as
        // the first.
        let arguments = match command.operation() {
            Operation::Migrate(migration) if migration.content != Some(space) => {
                &command.arguments()[..1]
            }
            _ => command.arguments(),
        };
        let accesses: Vec<Access> = arguments
            .iter()
            .map(|argument| {
                let region = region(argument, space)?;
                Ok(if argument.mode().writes() || brings {
                    Access::write(region)
                } else {
                    Access::read(region)
                })
            })
            .collect::<Result<_>>()?;
        let rows = arguments.iter().enumerate().filter_map(|(at, argument)| {
            let base = accesses[at].region.address.to_raw() - argument.offset();
            Some((at, command.region(at)?.moved(base)))
        });
        let rows = rows.collect();
        let touched = || {
            accesses.iter().fold(0_u64, |sum, access| {
                sum.saturating_add(access.region.length)
            })
        };
        let (kind, unit, cost) = match command.operation() {
            Operation::Launch { groups } => (
                kernel.map_or(Kind::Native, Kind::Kernel),
                Unit::Compute,
                Cost {
                    groups: u64::from(groups),
                    bytes: touched(),
                    extra: 0,
                },
            ),
            Operation::Transfer(transfer) => match (&transfer.source, &transfer.destination) {
                (Endpoint::Host(_), _) => (Kind::Copy, Unit::CopyIn, Cost::bytes(transfer.bytes())),
                (_, Endpoint::Host(_)) => {
                    (Kind::Copy, Unit::CopyOut, Cost::bytes(transfer.bytes()))
                }
                // Within the device's memory: each byte is read and written.
                _ => (
                    Kind::Copy,
                    Unit::Compute,
                    Cost::bytes(transfer.bytes().saturating_mul(2)),
                ),
            },
            // The most that it can be: the number of bytes in use is known when it runs.
            Operation::Migrate(_) => {
                let unit = if brings { Unit::CopyIn } else { Unit::CopyOut };
                (
                    Kind::Copy,
                    unit,
                    Cost::bytes(command.arguments()[0].length()),
                )
            }
            Operation::Fill(fill) => {
                let bytes = fill.bytes(command.arguments()[0].length());
                (Kind::Fill, Unit::Compute, Cost::bytes(bytes))
            }
            // The host's work: no unit of the device does it.
            _ => (Kind::Native, Unit::Immediate, Cost::default()),
        };
        Ok(Self {
            kind,
            unit,
            cost,
            accesses,
            rows,
        })
    }
}

fn space_of(command: &Command) -> SpaceId {
    command
        .queue()
        .device()
        .map_or(SpaceId::HOST, quipu_scheduler::Device::space)
}

/// An argument's bytes in a space of the machine, allocated if need be.
fn region(argument: &Argument<'_>, space: SpaceId) -> Result<Region> {
    // SAFETY: only the thread that pumps makes a plan of a command, which it hands over next, and
    // it is the one that hands commands to the machine.
    let allocation = unsafe { argument.memory().allocation(space) }?;
    let address = DeviceAddress::from_raw(allocation.address).add(argument.offset());
    Ok(Region::new(address, argument.length()))
}

/// The facts that an effect needs of its command.
pub(crate) struct Started {
    /// Gone when the driver is.
    pub(crate) shared: Weak<Shared>,
    /// The command's number in the ledger.
    pub(crate) sequence: u64,
    /// The command.
    pub(crate) held: CommandRef,
    /// Its device.
    pub(crate) device: usize,
    /// Its arguments on the machine.
    pub(crate) accesses: Vec<Access>,
}

impl Started {
    /// The work of the device when it starts the command.
    pub(crate) fn run(self, memory: &mut MemoryAccess<'_>) -> Result<(), String> {
        let shared = self.shared.upgrade().ok_or("the driver is gone")?;
        let _inside = Inside::enter(shared.machine.mode());
        let now = shared.machine.with(|simulation| simulation.now());
        // Commands that ended before on the machine were mapped by this offset or a smaller one, so
        // they have not ended later.
        let offset = shared.ledger().note_start(self.sequence);
        // Never in the host's future.
        let time = crate::queue::on_process_clock(now, offset).min(clock::now_ns());
        let look = |command: &Command| {
            command.start_at(Some(time))?;
            self.perform(command, &shared, &mut *memory)
        };
        // SAFETY: it is finished only after the engine has reported its end, which comes after
        // this. The body is run here only, and its waits are over: on the machine the device waited
        // for them, the others let it start.
        unsafe { self.held.with(look) }.map_err(|error| {
            let text = error.to_string();
            shared.ledger().keep_error(self.sequence, error);
            text
        })?;
        let (shared, sequence) = (self.shared.clone(), self.sequence);
        // Commands that the machine starts after this end must not seem to have started before it.
        memory.at_publication(move || {
            if let Some(shared) = shared.upgrade() {
                shared.ledger().keep_end(sequence, clock::now_ns());
            }
        });
        Ok(())
    }

    fn perform(
        &self,
        command: &Command,
        shared: &Arc<Shared>,
        memory: &mut MemoryAccess<'_>,
    ) -> Result<()> {
        let refused = |error: MemoryError| of_device(self.device, "use its memory", &error);
        match command.operation() {
            Operation::Launch { groups: 0 } => Ok(()),
            Operation::Launch { groups } => {
                let arguments = self.resolve(memory).map_err(refused)?;
                // SAFETY: started; the arguments are declared, so the engine made them valid and
                // this command's own for the effect's time; each group is run once.
                unsafe { command.run_native(&arguments, 0..groups) }
            }
            Operation::HostTask => {
                let arguments = self.resolve(memory).map_err(refused)?;
                // SAFETY: as above.
                unsafe { command.run_native(&arguments, 0..1) }
            }
            Operation::NativeEnqueue(enqueue) => {
                let arguments = self.resolve(memory).map_err(refused)?;
                // Its number is that of one of the machine's.
                let Some(device) = shared.device_id(self.device) else {
                    return Ok(());
                };
                let queue = SimQueue::new(Arc::clone(shared), device);
                enqueue.call_with(command, &queue, &arguments)
            }
            Operation::Transfer(transfer) => {
                if matches!(transfer.destination, Endpoint::Host(_)) {
                    return self.read_to_host(memory).map_err(refused);
                }
                let arguments = self.resolve(memory).map_err(refused)?;
                // SAFETY: as above; the host's side is the transfer's to read until it is over.
                unsafe { transfer.copy(&arguments) };
                Ok(())
            }
            Operation::Fill(fill) => {
                let arguments = self.resolve(memory).map_err(refused)?;
                // SAFETY: started; the arguments are valid and this command's own for the effect's
                // time; it is one group, run once.
                unsafe { fill.fill(arguments[0]) };
                Ok(())
            }
            Operation::Migrate(migration) => {
                let here = space_of(command);
                let used = self.used(command, migration, memory)?;
                let host = command.arguments()[0].on_host()?;
                if migration.from == SpaceId::HOST && migration.to == here {
                    let to = memory.write(self.accesses[0].region).map_err(refused)?;
                    // SAFETY: the host's copy has these bytes, and while this migration reads them
                    // nobody writes them: the hazards see to that.
                    let from = unsafe { std::slice::from_raw_parts(host.pointer, used) };
                    let (content, rest) = to.split_at_mut(used);
                    content.copy_from_slice(from);
                    rest.fill(0);
                    Ok(())
                } else if migration.from == here && migration.to == SpaceId::HOST {
                    self.bring_to_host(used, memory).map_err(refused)
                } else {
                    Err(ErrorKind::Unsupported {
                        driver: "sim",
                        what: format!(
                            "bring bytes from {:?} to {:?}",
                            migration.from, migration.to
                        ),
                        instead: "they go through the host",
                    }
                    .into())
                }
            }
            Operation::Nothing => Ok(()),
            _ => Err(command.unsupported("sim")),
        }
    }

    /// The arguments as native code sees them: device memory as the engine shows it.
    fn resolve(&self, memory: &mut MemoryAccess<'_>) -> Result<Vec<RawArgument>, MemoryError> {
        self.accesses
            .iter()
            .map(|access| {
                let pointer = match access.mode {
                    engine::AccessMode::Read => memory.read_pointer(access.region)?.cast_mut(),
                    engine::AccessMode::Write => memory.write_pointer(access.region)?,
                };
                Ok(RawArgument {
                    pointer,
                    // Device memory is backed by the host's, so lengths fit.
                    length: access.region.length as usize,
                })
            })
            .collect()
    }

    /// A transfer to the host: the bytes that are read now are written there when the command ends.
    fn read_to_host(&self, memory: &mut MemoryAccess<'_>) -> Result<(), MemoryError> {
        let mut kept: Vec<Vec<u8>> = self
            .accesses
            .iter()
            .map(|access| memory.read(access.region).map(<[u8]>::to_vec))
            .collect::<Result<_, _>>()?;
        let held = self.held;
        memory.at_publication(move || {
            let arguments: Vec<RawArgument> = kept
                .iter_mut()
                .map(|bytes| RawArgument {
                    pointer: bytes.as_mut_ptr(),
                    length: bytes.len(),
                })
                .collect();
            let look = |command: &Command| {
                if let Operation::Transfer(transfer) = command.operation() {
                    // SAFETY: the arguments are the bytes kept above; the host's side is the
                    // transfer's to write until it is over.
                    unsafe { transfer.copy(&arguments) };
                }
            };
            // SAFETY: a publication comes before the end that the engine reports, and the command
            // is finished after.
            unsafe { held.with(look) };
        });
        Ok(())
    }

    /// The number of bytes that a migration moves: those in use, if there is a content size, which
    /// is read now. Only they are paid for.
    fn used(
        &self,
        command: &Command,
        migration: &Migration,
        memory: &mut MemoryAccess<'_>,
    ) -> Result<usize> {
        let [argument, rest @ ..] = command.arguments() else {
            return Ok(0);
        };
        let size: [u8; 8] = match (migration.content, rest) {
            (Some(SpaceId::HOST), [size]) => {
                let size = size.on_host()?;
                // SAFETY: eight bytes that are valid on the host; the hazards see to it that nobody
                // writes them.
                unsafe { size.pointer.cast::<[u8; 8]>().read() }
            }
            (Some(_), [_]) => {
                let size = memory
                    .read(self.accesses[1].region)
                    .map_err(|error| of_device(self.device, "read a content size", &error))?;
                let mut bytes = [0; 8];
                bytes.copy_from_slice(size);
                bytes
            }
            _ => return Ok(argument.length() as usize),
        };
        let used = Migration::used(argument, size);
        memory.recost(Cost::bytes(used as u64));
        Ok(used)
    }

    /// A migration to the host: as [`Started::read_to_host`].
    fn bring_to_host(&self, used: usize, memory: &mut MemoryAccess<'_>) -> Result<(), MemoryError> {
        let kept = memory.read(self.accesses[0].region)?[..used].to_vec();
        let held = self.held;
        memory.at_publication(move || {
            let look = |command: &Command| {
                let host = command.arguments()[0]
                    .on_host()
                    .expect("the host's copy was allocated when the migration started");
                // SAFETY: the host's copy has room for its argument's bytes, and nobody else
                // touches them until the migration is over: the hazards see to that.
                unsafe {
                    std::ptr::copy_nonoverlapping(kept.as_ptr(), host.pointer, kept.len());
                    let rest = host.length - kept.len();
                    host.pointer.add(kept.len()).write_bytes(0, rest);
                }
            };
            // SAFETY: as in `read_to_host`.
            unsafe { held.with(look) };
        });
        Ok(())
    }
}

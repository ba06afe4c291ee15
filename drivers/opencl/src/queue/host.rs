//! What a thread of the host does for a device's queue: host tasks and native calls, transfers in more pieces than are
//! worth a call each, migrations of what is in use.
//!
//! The bytes of its arguments are copied to the host before and what it has written is copied back after: a mapping
//! would keep the device from the rest of the memory object, which others may be using meanwhile.

use super::forward::{bytes_in, space_of};
use crate::Shared;
use crate::device::Device;
use crate::native::CallError;
use crate::workers::Running;
use quipu_core::driver::Held;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::operation::{Migration, Operation, drop_panic};
use quipu_core::{Command, RawArgument, SpaceId};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes as aligned as a buffer's on the host.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A copy of an argument's bytes.
struct Copied {
    lines: Vec<Line>,
    length: usize,
}

impl Copied {
    fn new(length: usize) -> Self {
        Self {
            lines: vec![Line([0; 64]); length.div_ceil(64)],
            length,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let all = self.lines.as_flattened_bytes();
        &mut all[..self.length]
    }
}

/// Lines as bytes.
trait Flattened {
    fn as_flattened_bytes(&mut self) -> &mut [u8];
}

impl Flattened for Vec<Line> {
    fn as_flattened_bytes(&mut self) -> &mut [u8] {
        let length = self.len() * 64;
        // SAFETY: a line is 64 bytes, all of them initialised.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), length) }
    }
}

impl Shared {
    /// Does a command that is the host's.
    pub(super) fn do_here(&self, device: &Device, held: Held) -> Result<()> {
        let run = |command: &Command| {
            let _running = Running::enter(command.id());
            match command.operation() {
                Operation::Migrate(migration) => self.migrate_here(device, command, migration),
                _ => run_here(device, command),
            }
        };
        // SAFETY: the command is ready, and finished only when this has returned; it is run here only.
        unsafe { held.with(run) }
    }

    /// A migration of what is in use, with zeros for the rest.
    fn migrate_here(
        &self,
        device: &Device,
        command: &Command,
        migration: &Migration,
    ) -> Result<()> {
        let failed = |error: CallError| device.failed("move a buffer's content", &error);
        let [argument, size] = command.arguments() else {
            return Ok(());
        };
        let mut used = [0; 8];
        match migration.content {
            Some(SpaceId::HOST) => {
                let size = size.on_host()?;
                // SAFETY: eight bytes that are valid on the host; the hazards see to it that nobody writes them.
                used = unsafe { size.pointer.cast::<[u8; 8]>().read() };
            }
            Some(space) => {
                let holder = self.device_of_space(space).unwrap_or(device);
                let size = bytes_in(size, space)?;
                let read = size.allocation.read(holder, size.offset, &mut used);
                read.map_err(failed)?;
            }
            None => used = argument.length().to_le_bytes(),
        }
        let used = Migration::used(argument, used);
        let length = argument.length() as usize;
        // A device's bytes come by way of the host, which has a copy of its own of the whole.
        let mut copy = Copied::new(length);
        let bytes = copy.bytes();
        if migration.from == SpaceId::HOST {
            let host = argument.on_host()?;
            // SAFETY: the host's copy has these bytes, and while this migration reads them nobody writes them.
            bytes[..used].copy_from_slice(unsafe {
                std::slice::from_raw_parts(host.pointer, used)
            });
        } else {
            let holder = self.device_of_space(migration.from).unwrap_or(device);
            let from = bytes_in(argument, migration.from)?;
            let read = from.allocation.read(holder, from.offset, &mut bytes[..used]);
            read.map_err(failed)?;
        }
        if migration.to == SpaceId::HOST {
            let host = argument.on_host()?;
            // SAFETY: the host's copy has room for its argument's bytes, and nobody else touches them until the
            // migration is over: the hazards see to that.
            unsafe { std::slice::from_raw_parts_mut(host.pointer, length) }.copy_from_slice(bytes);
            return Ok(());
        }
        let holder = self.device_of_space(migration.to).unwrap_or(device);
        let to = bytes_in(argument, migration.to)?;
        let written = to.allocation.write(holder, to.offset, bytes);
        written.map_err(failed)
    }
}

/// A host task or a transfer.
fn run_here(device: &Device, command: &Command) -> Result<()> {
    let space = space_of(command);
    let failed = |error: CallError| device.failed("copy what a host task uses", &error);
    let mut copies = Vec::with_capacity(command.arguments().len());
    for argument in command.arguments() {
        let mut copy = Copied::new(argument.length() as usize);
        if argument.mode().reads() {
            let from = bytes_in(argument, space)?;
            let read = from.allocation.read(device, from.offset, copy.bytes());
            read.map_err(failed)?;
        }
        copies.push(copy);
    }
    let arguments: Vec<RawArgument> = copies
        .iter_mut()
        .map(|copy| RawArgument {
            pointer: copy.bytes().as_mut_ptr(),
            length: copy.length,
        })
        .collect();
    match command.operation() {
        // SAFETY: the arguments are copies of the command's, in order; the host's side is the transfer's to use.
        Operation::Transfer(transfer) => unsafe { transfer.copy(&arguments) },
        _ => {
            // SAFETY: started, the arguments are copies that nobody else has, and it is run once.
            let run = AssertUnwindSafe(|| unsafe { command.run_native(&arguments, 0..1) });
            catch_unwind(run).unwrap_or_else(|panic| Err(panicked(command, panic)))?;
        }
    }
    for (argument, copy) in command.arguments().iter().zip(&mut copies) {
        if argument.mode().writes() {
            let to = bytes_in(argument, space)?;
            let written = to.allocation.write(device, to.offset, copy.bytes());
            written.map_err(failed)?;
        }
    }
    Ok(())
}

fn panicked(command: &Command, panic: Box<dyn Any + Send>) -> quipu_core::Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    drop_panic(panic);
    ErrorKind::Panicked {
        what: format!("'{}'", command.label()),
        message,
    }
    .into()
}

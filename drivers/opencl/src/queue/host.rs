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
use quipu_core::access::Argument;
use quipu_core::driver::Held;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::memory::Memory;
use quipu_core::operation::{Migration, Operation, drop_panic};
use quipu_core::{Command, RawArgument, SpaceId};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// Bytes as aligned as a buffer's on the host.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

const LINE: usize = 64;

/// A copy of a range of a memory object, as aligned as the range is in the object.
struct Copied {
    lines: Vec<Line>,
    range: Range<u64>,
}

impl Copied {
    fn new(range: Range<u64>) -> Self {
        let length = (range.end - range.start) as usize + Self::skipped(&range);
        Self {
            lines: vec![Line([0; LINE]); length.div_ceil(LINE)],
            range,
        }
    }

    fn skipped(range: &Range<u64>) -> usize {
        (range.start % LINE as u64) as usize
    }

    /// A part of the range; `of` lies within it.
    fn bytes(&mut self, of: &Range<u64>) -> &mut [u8] {
        let start = (of.start - self.range.start) as usize + Self::skipped(&self.range);
        let length = self.lines.len() * LINE;
        // SAFETY: a line is so many bytes, all of them initialised.
        let all =
            unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<u8>(), length) };
        &mut all[start..start + (of.end - of.start) as usize]
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
        let mut copy = Copied::new(argument.range());
        let bytes = copy.bytes(&argument.range());
        if migration.from == SpaceId::HOST {
            let host = argument.on_host()?;
            // SAFETY: the host's copy has these bytes, and while this migration reads them nobody writes them.
            bytes[..used]
                .copy_from_slice(unsafe { std::slice::from_raw_parts(host.pointer, used) });
        } else {
            let holder = self.device_of_space(migration.from).unwrap_or(device);
            let from = bytes_in(argument, migration.from)?;
            let read = from
                .allocation
                .read(holder, from.offset, &mut bytes[..used]);
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

/// What a command's arguments are copied to: one copy for those that overlap.
struct Copies(Vec<(NonNull<Memory>, Copied)>);

impl Copies {
    fn of(arguments: &[Argument]) -> Self {
        let mut ranges: Vec<(NonNull<Memory>, Range<u64>)> = arguments
            .iter()
            .map(|argument| (NonNull::from(argument.memory()), argument.range()))
            .collect();
        ranges.sort_unstable_by_key(|(memory, range)| (memory.addr(), range.start));
        let mut joined: Vec<(NonNull<Memory>, Range<u64>)> = Vec::new();
        for (memory, range) in ranges {
            match joined.last_mut() {
                Some((last, before)) if *last == memory && range.start < before.end => {
                    before.end = before.end.max(range.end);
                }
                _ => joined.push((memory, range)),
            }
        }
        let copies = joined.into_iter();
        Self(
            copies
                .map(|(memory, range)| (memory, Copied::new(range)))
                .collect(),
        )
    }

    /// An argument's bytes.
    fn bytes(&mut self, argument: &Argument) -> &mut [u8] {
        let memory = NonNull::from(argument.memory());
        let range = argument.range();
        let has = |(of, copy): &&mut (NonNull<Memory>, Copied)| {
            *of == memory && copy.range.start <= range.start && range.end <= copy.range.end
        };
        let copy = self.0.iter_mut().find(has);
        copy.map_or(&mut [], |(_, copy)| copy.bytes(&range))
    }
}

/// A host task or a transfer.
fn run_here(device: &Device, command: &Command) -> Result<()> {
    let space = space_of(command);
    let failed = |error: CallError| device.failed("copy what a host task uses", &error);
    let mut copies = Copies::of(command.arguments());
    for argument in command.arguments() {
        if argument.mode().reads() {
            let from = bytes_in(argument, space)?;
            let read = from
                .allocation
                .read(device, from.offset, copies.bytes(argument));
            read.map_err(failed)?;
        }
    }
    let mut resolve = |argument: &Argument| {
        let bytes = copies.bytes(argument);
        RawArgument {
            pointer: bytes.as_mut_ptr(),
            length: bytes.len(),
        }
    };
    let arguments: Vec<RawArgument> = command.arguments().iter().map(&mut resolve).collect();
    match command.operation() {
        // SAFETY: the arguments are copies of the command's, in order; the host's side is the transfer's to use.
        Operation::Transfer(transfer) => unsafe { transfer.copy(&arguments) },
        _ => {
            // SAFETY: started, the arguments are copies that nobody else has, and it is run once.
            let run = AssertUnwindSafe(|| unsafe { command.run_native(&arguments, 0..1) });
            catch_unwind(run).unwrap_or_else(|panic| Err(panicked(command, panic)))?;
        }
    }
    for argument in command.arguments() {
        if argument.mode().writes() {
            let to = bytes_in(argument, space)?;
            let written = to
                .allocation
                .write(device, to.offset, copies.bytes(argument));
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
        .unwrap_or_else(|| "a panic without a message".to_owned());
    drop_panic(panic);
    ErrorKind::Panicked {
        what: format!("'{}'", command.label()),
        message,
    }
    .into()
}

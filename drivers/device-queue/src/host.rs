//! Work of host threads for a device's queue: host tasks and native calls, transfers in too many
//! pieces for a call each, and migrations with a content size.
//!
//! The bytes of its arguments are copied to the host before, and those that it has written are
//! copied back after. A mapping would keep the device from the rest of the memory object, which
//! others may be using meanwhile.

use crate::copies::{Copied, Copies};
use crate::error::of_call;
use crate::vendor::{Vendor, VendorDevice};
use crate::work::Work;
use quipu_scheduler::error::Result;
use quipu_scheduler::native::panicked;
use quipu_scheduler::operation::{Migration, Operation};
use quipu_scheduler::{ErrorKind, RawArgument, SpaceId};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<V: Vendor> Work<'_, V> {
    /// Does a command that is the host's.
    pub(crate) fn do_here(&self) -> Result<()> {
        self.command().run_inside(|| {
            if let Some(done) = self.vendor().do_here(self) {
                return done;
            }
            match self.command().operation() {
                Operation::Migrate(migration) => self.migrate_here(migration),
                _ => self.run_here(),
            }
        })
    }

    /// A migration of the bytes in use, with zeros for the rest.
    fn migrate_here(&self, migration: &Migration) -> Result<()> {
        let failed = |failure: V::Failure| {
            of_call(self.device().name(), "move a buffer's content", &failure)
        };
        let [argument, size] = self.command().arguments() else {
            return Err(ErrorKind::InvalidArgument {
                what: "move a buffer",
                problem: "it has no content size, and is the device's to move; please report this"
                    .to_owned(),
            }
            .into());
        };
        let mut used = [0; 8];
        match migration.content {
            Some(SpaceId::HOST) => {
                let size = size.on_host()?;
                // SAFETY: eight bytes that are valid on the host; the hazards see to it that nobody
                // writes them.
                used = unsafe { size.pointer.cast::<[u8; 8]>().read() };
            }
            Some(space) => {
                let (size, holder) = self.bytes_in(size, space)?;
                let read = self
                    .vendor()
                    .read(holder, size.allocation, size.offset, &mut used);
                read.map_err(failed)?;
            }
            None => used = argument.length().to_le_bytes(),
        }
        let used = Migration::used(argument, used);
        let from_device = |bytes: &mut [u8]| {
            if bytes.is_empty() {
                return Ok(());
            }
            let (from, holder) = self.bytes_in(argument, migration.from)?;
            let vendor = self.vendor();
            let read = vendor.read(holder, from.allocation, from.offset, bytes);
            read.map_err(failed)
        };
        if migration.to == SpaceId::HOST {
            let host = argument.on_host()?;
            // SAFETY: the host's copy has room for its argument's bytes, and nobody else touches
            // them until the migration is over: the hazards see to that. All of them were written
            // before, if only with zeros.
            let bytes = unsafe { std::slice::from_raw_parts_mut(host.pointer, host.length) };
            let (content, rest) = bytes.split_at_mut(used);
            from_device(content)?;
            rest.fill(0);
            return Ok(());
        }
        let (to, holder) = self.bytes_in(argument, migration.to)?;
        let to_device = |bytes: &[u8]| {
            if bytes.is_empty() {
                return Ok(());
            }
            let written = self.vendor().write(holder, to.allocation, to.offset, bytes);
            written.map_err(failed)
        };
        if migration.from == SpaceId::HOST {
            let host = argument.on_host()?;
            // SAFETY: the host's copy has these bytes, and while this migration reads them nobody
            // writes them.
            to_device(unsafe { std::slice::from_raw_parts(host.pointer, used) })?;
        } else {
            // They come by way of the host.
            let mut copy = Copied::new(0..used as u64);
            let bytes = copy.bytes(&(0..used as u64));
            from_device(bytes)?;
            to_device(bytes)?;
        }
        let rest = argument.length() - used as u64;
        if rest == 0 {
            return Ok(());
        }
        let (vendor, start) = (self.vendor(), to.offset + used as u64);
        let cleared = vendor.clear(holder, to.allocation, start, rest);
        cleared.map_err(failed)
    }

    /// A host task or a transfer.
    fn run_here(&self) -> Result<()> {
        let (command, device) = (self.command(), self.device());
        let failed =
            |failure: V::Failure| of_call(device.name(), "copy what a host task uses", &failure);
        let mut copies = Copies::of(command.arguments());
        for argument in command.arguments() {
            if argument.mode().reads() {
                let from = self.bytes(argument)?;
                let to = copies.bytes(argument);
                let read = self.vendor().read(device, from.allocation, from.offset, to);
                read.map_err(failed)?;
            }
        }
        let all = command.arguments().iter();
        let arguments: Vec<RawArgument> = all.map(|argument| copies.raw(argument)).collect();
        match command.operation() {
            // SAFETY: the arguments are copies of the command's, in order; the host's side is the
            // transfer's to use.
            Operation::Transfer(transfer) => unsafe { transfer.copy(&arguments) },
            _ => {
                // SAFETY: started, the arguments are copies that nobody else has, and it is run
                // once.
                let run = AssertUnwindSafe(|| unsafe { command.run_native(&arguments, 0..1) });
                catch_unwind(run).unwrap_or_else(|panic| Err(panicked(command.label(), panic)))?;
            }
        }
        for (at, argument) in command.arguments().iter().enumerate() {
            if !argument.mode().writes() {
                continue;
            }
            let to = self.bytes(argument)?;
            let from = copies.bytes(argument);
            let write = |range: Range<usize>| {
                let (offset, bytes) = (to.offset + range.start as u64, &from[range]);
                let written = self.vendor().write(device, to.allocation, offset, bytes);
                written.map_err(failed)
            };
            let Some(region) = command.region(at) else {
                let all = 0..argument.length() as usize;
                write(all)?;
                continue;
            };
            // The bytes between the rows may be another command's meanwhile.
            let start = argument.offset();
            let mut rows = region.rows();
            rows.try_for_each(|row| {
                write((row.start - start) as usize..(row.end - start) as usize)
            })?;
        }
        Ok(())
    }
}

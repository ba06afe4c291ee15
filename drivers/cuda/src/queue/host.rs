//! What a thread of the host does for a device's queue: host tasks and native calls, transfers in more pieces than are
//! worth a call each, migrations of what is in use, and large copies from and to the host, in pieces through pinned
//! memory, of which one is copied while another is on its way.
//!
//! The bytes of its arguments are copied to the host before and what it has written is copied back after: a mapping
//! would keep the device from the rest of the memory object, which others may be using meanwhile.

use super::forward::{Bytes, Side, bytes_in, put_part, sides, space_of};
use crate::Shared;
use crate::device::{Device, Live};
use crate::native::{CallError, Called, Event, Stream, named};
use crate::region::Shape;
use crate::staging::PIECE;
use crate::workers::Running;
use cudarc::driver::sys::{self, CUdeviceptr};
use quipu_core::access::Argument;
use quipu_core::driver::Held;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::memory::Memory;
use quipu_core::operation::{Migration, Operation, Transfer, drop_panic};
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
                Operation::Migrate(migration) if migration.content.is_none() => {
                    self.migrate_large(device, command, migration)
                }
                Operation::Migrate(migration) => self.migrate_here(device, command, migration),
                Operation::Transfer(transfer) if Shape::of(transfer).is_for_a_device() => {
                    transfer_large(device, command, transfer)
                }
                _ => run_here(device, command),
            }
        };
        // SAFETY: the command is ready, and finished only when this has returned; it is run here only.
        unsafe { held.with(run) }
    }

    /// A migration between a device and the host, of many bytes.
    fn migrate_large(
        &self,
        device: &Device,
        command: &Command,
        migration: &Migration,
    ) -> Result<()> {
        let failed = |error: CallError| device.failed("move a buffer", &error);
        let argument = &command.arguments()[0];
        let host = argument.on_host()?;
        let is_upload = migration.from == SpaceId::HOST;
        let space = if is_upload {
            migration.to
        } else {
            migration.from
        };
        let holder = self.device_of_space(space).unwrap_or(device);
        let bytes = bytes_in(argument, space)?;
        move_large(holder, &bytes, host.pointer, argument.length(), is_upload).map_err(failed)
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

/// Copies of fewer bytes are not shared out among threads.
const WORTH_A_THREAD: u64 = 8 << 20;
/// The most threads that share a copy: more do not make it faster.
const MOST_THREADS: u64 = 4;

/// A transfer between a device and the host, of many bytes or of rows.
fn transfer_large(device: &Device, command: &Command, transfer: &Transfer) -> Result<()> {
    let failed = |error: CallError| device.failed("copy bytes", &error);
    let (source, destination) = sides(command, transfer)?;
    let shape = Shape::of(transfer);
    if let Some(length) = shape.row_alone() {
        let moved = match (&source, &destination) {
            (Side::Host(from), Side::Device(to)) => move_large(device, to, *from, length, true),
            (Side::Device(from), Side::Host(to)) => move_large(device, from, *to, length, false),
            _ => Ok(()),
        };
        return moved.map_err(failed);
    }
    let copy = |live: &Live| {
        let _entered = live.context.enter()?;
        live.with_stream(|stream| {
            for side in [&source, &destination] {
                if let Side::Device(bytes) = side
                    && let Some(ready) = bytes.allocation.ready()
                {
                    stream.wait(&ready)?;
                }
            }
            for part in shape.parts() {
                put_part(stream, &source, &destination, &part)?;
            }
            stream.synchronize()
        })
    };
    device.live().and_then(copy).map_err(failed)
}

/// The host's side of a large copy, for the threads that share it.
#[derive(Clone, Copy)]
struct HostSide(*mut u8);
// SAFETY: each thread has its own part.
unsafe impl Send for HostSide {}

/// Moves bytes between a device and the host.
fn move_large(
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    is_upload: bool,
) -> Called<()> {
    let live = device.live()?;
    let threads = (length / WORTH_A_THREAD).clamp(1, MOST_THREADS);
    let share = length.div_ceil(threads).next_multiple_of(PIECE as u64);
    let (ready, first) = (bytes.allocation.ready(), bytes.address());
    let host = HostSide(host);
    let part = |number: u64| {
        let start = (number * share).min(length);
        let length = share.min(length - start) as usize;
        let host = HostSide(host.0.wrapping_add(start as usize));
        let ready = ready.clone();
        move || {
            // The whole of it, not its field, is the thread's.
            let side = host;
            let _entered = live.context.enter()?;
            live.with_stream(|stream| {
                if let Some(ready) = &ready {
                    stream.wait(ready)?;
                }
                let there = first + start;
                // SAFETY: so many bytes on both sides, which are the command's, and of it this thread's.
                unsafe {
                    if is_upload {
                        upload(live, stream, side.0, there, length)
                    } else {
                        download(live, stream, there, side.0, length)
                    }
                }
            })
        }
    };
    if threads == 1 {
        return part(0)();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, part(number))
                    .map_err(|_| number)
            })
            .collect();
        let mut outcome = part(0)();
        for other in others {
            let moved = match other {
                Ok(thread) => thread.join().unwrap_or(Ok(())),
                // The system gives no thread: then this one.
                Err(number) => part(number)(),
            };
            outcome = outcome.and(moved);
        }
        outcome
    })
}

/// # Safety
/// So many bytes on both sides, which nobody else writes.
unsafe fn upload(
    live: &Live,
    stream: &Stream,
    from: *const u8,
    to: CUdeviceptr,
    length: usize,
) -> Called<()> {
    let blocks = [live.staging.piece()?, live.staging.piece()?];
    let mut sent: [Option<Event>; 2] = [None, None];
    let mut copy = || {
        for (number, start) in (0..length).step_by(PIECE).enumerate() {
            let (block, sent) = (&blocks[number % 2], &mut sent[number % 2]);
            if let Some(sent) = sent.take() {
                sent.synchronize()?;
            }
            let bytes = PIECE.min(length - start);
            // SAFETY: so many bytes on both sides; what was in the block is sent.
            let code = unsafe {
                block
                    .pointer()
                    .copy_from_nonoverlapping(from.add(start), bytes);
                sys::cuMemcpyHtoDAsync_v2(
                    to + start as u64,
                    block.pointer().cast(),
                    bytes,
                    stream.raw(),
                )
            };
            named("cuMemcpyHtoDAsync", code)?;
            *sent = Some(Event::record(stream, false)?);
        }
        Ok(())
    };
    let copied = copy();
    // Whatever has failed, nothing is on its way when the blocks are others'.
    copied.and(stream.synchronize())
}

/// # Safety
/// So many bytes on both sides, of which nobody else touches the host's.
unsafe fn download(
    live: &Live,
    stream: &Stream,
    from: CUdeviceptr,
    to: *mut u8,
    length: usize,
) -> Called<()> {
    let blocks = [live.staging.piece()?, live.staging.piece()?];
    let ask = |number: usize| {
        let start = number * PIECE;
        let bytes = PIECE.min(length - start);
        // SAFETY: so many bytes on both sides; what was in the block is copied.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                blocks[number % 2].pointer().cast(),
                from + start as u64,
                bytes,
                stream.raw(),
            )
        };
        named("cuMemcpyDtoHAsync", code)?;
        Event::record(stream, false)
    };
    let copy = || {
        let pieces = length.div_ceil(PIECE);
        let mut coming = if pieces > 0 { Some(ask(0)?) } else { None };
        for number in 0..pieces {
            let come = coming.take();
            if number + 1 < pieces {
                coming = Some(ask(number + 1)?);
            }
            if let Some(come) = come {
                come.synchronize()?;
            }
            let start = number * PIECE;
            // SAFETY: so many bytes on both sides.
            unsafe {
                to.add(start).copy_from_nonoverlapping(
                    blocks[number % 2].pointer(),
                    PIECE.min(length - start),
                );
            }
        }
        Ok(())
    };
    let copied = copy();
    // Whatever has failed, nothing is on its way when the blocks are others'.
    copied.and(stream.synchronize())
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

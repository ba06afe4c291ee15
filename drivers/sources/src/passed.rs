//! The arguments of a kernel, checked against its signature.

use quipu_scheduler::{
    AccessMode, BuiltInKernel, Command, ErrorKind, Passed, PassedParameter, RawArgument, Result,
};
use std::mem::MaybeUninit;

/// One argument.
enum One<'a> {
    Value(u64),
    Read(&'a [u8]),
    Written(&'a mut [u8], AccessMode),
}

/// A kernel's arguments, in the order of its signature.
pub(crate) struct Arguments<'a>(Vec<One<'a>>);

impl<'a> Arguments<'a> {
    /// The arguments of a launch of this kernel.
    ///
    /// # Errors
    /// If they are not those of the kernel, or one that is written overlaps another.
    ///
    /// # Safety
    /// The command is ready, and not finished while these are there.
    pub(crate) unsafe fn of(
        command: &'a Command,
        kernel: &BuiltInKernel,
        passed: &Passed,
    ) -> Result<Self> {
        let arguments = command.arguments();
        kernel.check(passed, arguments.iter().map(|argument| argument.mode()))?;
        let mut memories = Vec::new();
        for argument in arguments {
            memories.push((argument.on_host()?, argument.mode()));
        }
        for (number, (one, mode)) in memories.iter().enumerate() {
            let bytes = |of: &RawArgument| of.pointer.addr()..of.pointer.addr() + of.length;
            for (other, other_mode) in &memories[number + 1..] {
                let (one, other) = (bytes(one), bytes(other));
                let overlap = one.start < other.end && other.start < one.end;
                if overlap && (mode.writes() || other_mode.writes()) {
                    return Err(refused(kernel, "memory twice of which it writes some"));
                }
            }
        }
        let mut memories = memories.into_iter();
        let mut all = Vec::new();
        for passed in &passed.parameters {
            all.push(match passed {
                PassedParameter::Value(bytes) => One::Value(value(bytes)),
                PassedParameter::Local(_) => {
                    return Err(refused(kernel, "local memory, which it does not take"));
                }
                PassedParameter::Memory { .. } => {
                    let memory = memories.next();
                    let (RawArgument { pointer, length }, mode) =
                        memory.ok_or_else(|| refused(kernel, "less memory than it takes"))?;
                    // SAFETY: the host's copy of an argument of a command that is ready and not
                    // over; the hazards keep other commands away from it, and of two that overlap
                    // none is written, as just checked.
                    unsafe {
                        if mode.writes() {
                            One::Written(std::slice::from_raw_parts_mut(pointer, length), mode)
                        } else {
                            One::Read(std::slice::from_raw_parts(pointer, length))
                        }
                    }
                }
            });
        }
        Ok(Self(all))
    }

    /// The value of this parameter.
    pub(crate) fn value(&self, at: usize) -> u64 {
        match self.0.get(at) {
            Some(One::Value(value)) => *value,
            _ => 0,
        }
    }

    /// The bytes of this parameter's memory that are read.
    pub(crate) fn bytes(&self, at: usize) -> &[u8] {
        match self.0.get(at) {
            Some(One::Read(bytes)) => bytes,
            Some(One::Written(bytes, AccessMode::ReadWrite)) => bytes,
            _ => &[],
        }
    }

    /// The first number of this parameter's memory.
    pub(crate) fn number(&self, at: usize) -> u64 {
        let bytes = self.bytes(at).first_chunk();
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Memory that is read, as many bytes of it as the number of the next parameter says.
    pub(crate) fn content(&self, at: usize) -> std::result::Result<&[u8], String> {
        let (bytes, used) = (self.bytes(at), self.number(at + 1));
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        bytes.get(..used).ok_or_else(|| {
            format!(
                "its size says {used} bytes, and the buffer has {}",
                bytes.len()
            )
        })
    }

    /// Two parameters at once: memory that is read, as [`content`](Self::content), and memory that
    /// is written.
    pub(crate) fn content_and_room(
        &mut self,
        from: usize,
        to: usize,
    ) -> std::result::Result<(&[u8], &mut [u8]), String> {
        self.content(from)?;
        let used = self.number(from + 1) as usize;
        debug_assert!(from < to);
        let (before, after) = self.0.split_at_mut(to);
        match (before.get(from), after.first_mut()) {
            (Some(One::Read(bytes)), Some(One::Written(room, _))) => Ok((&bytes[..used], room)),
            _ => Err("it was passed other memory".to_owned()),
        }
    }

    /// The room that this parameter's memory has.
    pub(crate) fn room(&mut self, at: usize) -> &mut [u8] {
        match self.0.get_mut(at) {
            Some(One::Written(room, _)) => room,
            _ => &mut [],
        }
    }

    /// Notes that so many bytes have been written to this parameter's memory: zeros come behind
    /// them where every byte has to be written.
    pub(crate) fn wrote(&mut self, at: usize, bytes: usize) {
        if let Some(One::Written(room, AccessMode::Overwrite)) = self.0.get_mut(at) {
            room[bytes..].fill(0);
        }
    }

    /// Writes numbers to this parameter's memory, as many as there is room for, but for the first,
    /// which there has to be.
    pub(crate) fn write_numbers<const N: usize>(
        &mut self,
        at: usize,
        numbers: &[[u8; N]],
    ) -> std::result::Result<(), String> {
        let room = self.room(at);
        if room.len() < N {
            return Err(format!(
                "a buffer of {} bytes has no room for a number",
                room.len()
            ));
        }
        let mut written = 0;
        for (number, room) in numbers.iter().zip(room.chunks_exact_mut(N)) {
            room.copy_from_slice(number);
            written += N;
        }
        self.wrote(at, written);
        Ok(())
    }
}

fn refused(kernel: &BuiltInKernel, problem: &str) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what: "launch a built-in kernel",
        problem: format!("'{}' was passed {problem}", kernel.name),
    }
    .into()
}

/// A value's bytes as a number.
fn value(bytes: &[MaybeUninit<u8>]) -> u64 {
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(bytes) {
        // SAFETY: the types of values in signatures are numbers, which have no gaps; the front end
        // has passed one, and a node makes them of bytes that it has received.
        *to = unsafe { from.assume_init() };
    }
    u64::from_le_bytes(number)
}

//! What the graphs' kernels do: the same code on the device's bytes and on the
//! model's.

use super::plan::{Fate, Id};
use super::random::scramble;
use crate::support::boom;
use quipu_core::operation::NativeKernel;
use quipu_core::{AccessMode, RawArgument, Result};
use std::ops::Range;

/// Mixes all that it reads into all that it writes. Group `g` of `n` writes the
/// g-th n-th of each output.
pub(super) struct Mix {
    pub(super) id: Id,
    pub(super) modes: Vec<AccessMode>,
    pub(super) groups: u32,
    pub(super) fate: Fate,
    pub(super) spin: u32,
}

/// What a kernel or task of a step says when it fails.
pub(super) fn message(id: Id) -> String {
    format!("step {id}")
}

impl Mix {
    /// Runs groups, and ends as it is fated to.
    pub(super) fn end(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        for turn in 0..self.spin {
            std::hint::black_box(turn);
            std::hint::spin_loop();
        }
        if self.fate != Fate::FailEarly {
            // SAFETY: the driver resolved the arguments for these groups.
            unsafe { self.work(arguments, groups) };
        }
        match self.fate {
            Fate::Fine => Ok(()),
            Fate::FailEarly | Fate::FailLate => Err(boom(&message(self.id))),
            // Without the panic hook: there will be thousands.
            Fate::Panic => std::panic::resume_unwind(Box::new(message(self.id))),
        }
    }

    /// # Safety
    /// `arguments` are the step's regions, in order, valid for their modes;
    /// nobody else writes what these groups read and write.
    pub(super) unsafe fn work(&self, arguments: &[RawArgument], groups: Range<u32>) {
        let mut hash = scramble(u64::from(self.id));
        for (argument, mode) in arguments.iter().zip(&self.modes) {
            if *mode == AccessMode::Read {
                for index in 0..argument.length {
                    // SAFETY: within the argument.
                    let byte = unsafe { argument.pointer.add(index).read() };
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
                }
            }
        }
        let hash = scramble(hash);
        for group in groups {
            for (number, (argument, mode)) in arguments.iter().zip(&self.modes).enumerate() {
                if *mode == AccessMode::Read {
                    continue;
                }
                for index in piece(argument.length, group, self.groups) {
                    // SAFETY: within the argument, and this group's.
                    let byte = unsafe { argument.pointer.add(index) };
                    let old = if *mode == AccessMode::ReadWrite {
                        // SAFETY: as above.
                        unsafe { byte.read() }
                    } else {
                        0
                    };
                    let place = (number as u64) << 40 | (index as u64) << 8 | u64::from(old);
                    // SAFETY: as above.
                    unsafe { byte.write(scramble(hash ^ place) as u8) };
                }
            }
        }
    }
}

/// The group's share of so many bytes.
fn piece(length: usize, group: u32, groups: u32) -> Range<usize> {
    let at = |n: u32| length * n as usize / groups as usize;
    at(group)..at(group + 1)
}

impl NativeKernel for Mix {
    fn name(&self) -> &'static str {
        "mix"
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        self.end(arguments, groups)
    }
}

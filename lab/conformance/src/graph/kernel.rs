//! The work of the graphs' kernels: the same code on the device's bytes and on the
//! model's.

use super::plan::{Fate, Id, Region, Rows};
use super::random::scramble;
use crate::printed::{Printed, mix, number_of, passed};
use crate::support::boom;
use quipu_kernel_ir::Module;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{AccessMode, RawArgument, Result};
use std::ops::Range;

/// Mixes all that it reads into all that it writes. Group `g` of `n` writes the
/// g-th n-th of each output.
pub(super) struct Mix {
    pub(super) id: Id,
    pub(super) modes: Vec<AccessMode>,
    /// For each of its arguments, if it touches rows alone. Empty if none does.
    pub(super) rows: Vec<Option<Rows>>,
    pub(super) groups: u32,
    pub(super) fate: Fate,
    pub(super) spin: u32,
}

/// The error of a step's kernel or task.
pub(super) fn message(id: Id) -> String {
    format!("step {id}")
}

impl Mix {
    /// The same as code, too, if it ends well and no region that it writes overlaps
    /// another: printed kernels take arguments to be apart.
    pub(super) fn printed(
        self,
        regions: &[Region],
    ) -> std::result::Result<Printed<Self, impl Fn() -> Module + Send + Sync + 'static>, Self> {
        let overlap = regions.iter().enumerate().any(|(at, one)| {
            regions[at + 1..].iter().any(|other| {
                one.buffer == other.buffer
                    && (one.mode.writes() || other.mode.writes())
                    && one.range.start < other.range.end
                    && other.range.start < one.range.end
            })
        });
        let Some(number) = number_of(&self.modes) else {
            return Err(self);
        };
        let has_rows = regions.iter().any(|region| region.rows.is_some());
        if overlap || has_rows || self.fate != Fate::Fine {
            return Err(self);
        }
        let seed = scramble(u64::from(self.id));
        let modes = self.modes.clone();
        Ok(Printed {
            number,
            passed: passed(self.groups, &[seed], modes.len(), 1),
            module: move || mix(&modes),
            native: self,
        })
    }

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
        // SAFETY: as the caller promises.
        unsafe { self.mix(scramble(u64::from(self.id)), arguments, groups) };
    }

    /// # Safety
    /// As [`Mix::work`].
    unsafe fn mix(&self, seed: u64, arguments: &[RawArgument], groups: Range<u32>) {
        let mut hash = seed;
        let is_touched = |number: usize, index: &usize| {
            let rows = self.rows.get(number).copied().flatten();
            rows.is_none_or(|rows| rows.have(*index))
        };
        for (number, (argument, mode)) in arguments.iter().zip(&self.modes).enumerate() {
            if *mode == AccessMode::Read {
                for index in (0..argument.length).filter(|index| is_touched(number, index)) {
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
                let own = piece(argument.length, group, self.groups);
                for index in own.filter(|index| is_touched(number, index)) {
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

/// A kernel that mixes, of what is passed to it: as a step's that ends well.
pub(crate) fn mix_natively(seed: u64, modes: Vec<AccessMode>, groups: u32) -> impl NativeKernel {
    let mix = Mix {
        id: 0,
        modes,
        rows: Vec::new(),
        groups,
        fate: Fate::Fine,
        spin: 0,
    };
    Seeded(seed, mix)
}

/// A kernel whose seed is known, and not its step.
struct Seeded(u64, Mix);

impl NativeKernel for Seeded {
    fn name(&self) -> &'static str {
        "mix"
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        // SAFETY: `NativeKernel::run` asks its caller for the same.
        unsafe { self.1.mix(self.0, arguments, groups) };
        Ok(())
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

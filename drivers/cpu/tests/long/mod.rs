//! A kernel that takes long.

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{RawArgument, Result};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Does this, and takes so long that those that become ready together are shared.
pub(crate) struct Long<F>(pub(crate) F);

impl<F: Fn() + Send + Sync + 'static> NativeKernel for Long<F> {
    fn name(&self) -> &'static str {
        "long"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        (self.0)();
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

//! Benchmarks of devices: each through Quipu, and through the device's own interface in the same
//! run.
//!
//! 1. [`targets`] finds the devices that the user chose, or every real one.
//! 2. A benchmark makes the [`Side`]s of a comparison: ours, enqueued through a queue, and theirs,
//!    hand-written kernels launched through OpenCL or CUDA
//!    ([`reference::raw`](crate::reference::raw)), or loops on rayon where the device is the
//!    processor's cores.
//! 3. [`rates`] times so many launches of each, back to back, round after round, and writes rows.
//!    Where a device has no interface of its own, or that has no compiler, rows have no reference
//!    and a note says why.
//! 4. The benchmark reads the results of both sides back and verifies them.

mod babelstream;
mod block_size;
mod costs;
mod gemm;
mod mandelbrot;
mod matmul;
mod nbody;
mod overlap;
mod peers;
mod reduce;
mod saxpy;
mod side;
mod stream;
mod target;
mod transfers;

pub(super) use babelstream::run as babelstream;
pub(super) use block_size::run as block_size;
pub(super) use costs::run as device_costs;
pub(super) use gemm::run as gemm;
pub(super) use mandelbrot::run as mandelbrot;
pub(super) use matmul::run as matmul;
pub(super) use nbody::run as nbody;
pub(super) use overlap::run as device_overlap;
pub(super) use peers::run as device_peers;
pub(super) use reduce::run as reduce;
pub(super) use saxpy::run as saxpy;
pub(super) use stream::run as stream;
pub(super) use transfers::run as device_transfers;

pub(super) use target::id;

use side::{Comparison, Side, gate_by_hand, rates};
use target::{Need, Sizes, Target, targets};

use crate::error::{BenchError, SubjectError};
use quipu::Completion;

/// The way of hearing of ends for kernels that are compared with hand-written ones. Those are
/// waited for by a thread that stays awake, as polling does. A callback after each kernel takes an
/// H200 some microseconds between two of them, which would be measured as the kernel's.
/// `device-costs` measures the cost of the modes.
const COMPARED: Completion = Completion::Polling;

/// Says what we were doing when our runtime failed.
trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, BenchError>;
}

impl<T> Doing<T> for quipu::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, BenchError> {
        self.map_err(|error| SubjectError::failed(what, error).into())
    }
}

/// Numbers from 0 up to but not including 1, the same in every run: an xorshift generator's upper
/// bits.
pub(super) fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// True if two numbers are the same but for rounding.
pub(super) fn near(expected: f64, found: f64, relative: f64) -> bool {
    (expected - found).abs() <= relative * expected.abs().max(1.0)
}

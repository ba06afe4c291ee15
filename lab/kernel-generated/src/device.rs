//! Device functions that generated kernels call.

use quipu_kernel::{bf16, device, f16};

/// `x`, or 0 for a NaN: what a kernel may look at the sign and the bits of.
#[device(crate = quipu_kernel)]
pub fn settled_f32(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x }
}

/// `x`, or 0 for a NaN: what a kernel may look at the sign and the bits of.
#[device(crate = quipu_kernel)]
pub fn settled_f64(x: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x }
}

/// `x`, or 0 for a NaN: what a kernel may look at the sign and the bits of.
#[device(crate = quipu_kernel)]
pub fn settled_f16(x: f16) -> f16 {
    if x.is_nan() { f16::ZERO } else { x }
}

/// `x`, or 0 for a NaN: what a kernel may look at the sign and the bits of.
#[device(crate = quipu_kernel)]
pub fn settled_bf16(x: bf16) -> bf16 {
    if x.is_nan() { bf16::ZERO } else { x }
}

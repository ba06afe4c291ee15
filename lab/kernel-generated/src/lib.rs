//! Generated kernels, compiled by rustc; run natively in every way, and as printed C99; and
//! compared.
//!
//! Which kernels these are the build script says: some tens of them by default, which `cargo test`
//! runs, or those of a file, which the generator's program `kernels` writes, by the thousand.

mod case;
mod compare;
pub mod device;
mod native;

pub use case::{Case, Data, Element, Given, Kind, Layout};
pub use compare::{Difference, compare, kind};
pub use native::{Failure, Way, text};

#[allow(
    warnings,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    arithmetic_overflow,
    unconditional_panic,
    unreachable_patterns,
    overflowing_literals,
    unconditional_recursion,
    reason = "nobody has written this"
)]
mod kernels {
    use quipu_kernel::*;

    use crate::case::{enumeration, structure};
    use crate::device::{settled_bf16, settled_f16, settled_f32, settled_f64};
    use crate::{Case, Element, Given, Kind, Layout};
    use quipu_kernel_generator::Shape;

    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// The kernels that were compiled.
pub const CASES: &[Case] = kernels::CASES;

//! Modules of a kernel's crate that stand where macros look for the standard library's.

use quipu_kernel::{
    Block, BlockAccelerator, KernelData, OwnElements, SharedWrite, Threads, WorkDivision, kernel,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// All that macros name, but for functions and types that say something else.
mod library {
    pub mod __macro {
        pub use quipu_kernel::__macro::*;

        pub fn known(index: Option<usize>) -> usize {
            index.unwrap_or_default() + (1 << 40)
        }
        pub fn sum(_: Option<usize>, _: Option<usize>) -> Option<usize> {
            Some(0)
        }
    }
}

#[kernel(crate = crate::modules::library)]
async fn reads(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    mut y: OwnElements<f32>,
    #[shared(128)] mut a: SharedWrite<f32>,
) {
    let t = acc.index(Block, Threads)[0];
    a.own()[0] = 1.0;
    let read = acc.sync(a).await;
    let mut sum = 0.0;
    for i in 0..n {
        sum += read[t + i];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// The conversion is by a trait that is of this crate where macros look for `core`.
#[kernel(crate = quipu_kernel)]
async fn reads_by_cast(
    acc: &impl BlockAccelerator<1>,
    n: u32,
    mut y: OwnElements<f32>,
    #[shared(128)] mut a: SharedWrite<f32>,
) {
    let t = acc.index(Block, Threads)[0];
    a.own()[0] = 1.0;
    let read = acc.sync(a).await;
    let mut sum = 0.0;
    for i in 0..n {
        sum += read[t + i as usize];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn a_module_stands_for_no_library() {
    let division = || WorkDivision::new(1, 64, 1).unwrap();
    let mut y = vec![0.0_f32; 64];
    reads(8, &mut y).run(division()).unwrap();
    assert_eq!(y, [4.0; 64]);
    reads_by_cast(8, &mut y).run(division()).unwrap();
    assert_eq!(y, [4.0; 64]);
    let far = catch_unwind(AssertUnwindSafe(|| {
        reads_by_cast(1 << 28, &mut y).run(division())
    }));
    assert!(far.is_err());
}

#[derive(Clone, Copy, Debug, PartialEq, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u16)]
enum Side {
    Left = 256,
    Right = 257,
}

#[test]
fn a_variant_has_the_number_of_the_languages_type() {
    const { assert!(!<Side as KernelData>::HAS_ZERO) };
    assert!(
        <Side as KernelData>::is_value(&256_u32.to_ne_bytes()[..2]) || cfg!(target_endian = "big")
    );
    assert!(!<Side as KernelData>::is_value(&[0]));
    assert_ne!(Side::Left, Side::Right);
}

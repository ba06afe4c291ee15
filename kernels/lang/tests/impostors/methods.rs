//! Traits of a kernel's crate that have methods of the names that phases of threads side by side
//! ask and do, for the types that these are asked of. Each says that all is well.

use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, GlobalRef, OwnElements, SharedRead, SharedWrite, Threads,
    WorkDivision, kernel,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The number of times that a length has been asked for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

/// What a length is, for as many questions as a check of threads side by side has; then far away.
fn answer(usual: usize) -> usize {
    let asked = ASKED.get();
    ASKED.set(asked + 1);
    if asked < 2 { usual } else { 1 << 40 }
}

/// By value, which is found before by reference.
trait ByValue: Sized {
    fn is_single(self, _: usize) -> bool {
        true
    }
    fn index(self) -> Option<usize> {
        Some(answer(0))
    }
    fn extent(self) -> [usize; 2] {
        [answer(0), 0]
    }
    fn min(self, _: usize) -> usize {
        1 << 40
    }
}
impl<T> ByValue for SharedWrite<'_, T> {}
impl<T> ByValue for GlobalRef<'_, T, 2> {}

/// By reference, which is found before what the type dereferences to.
trait ByReference {
    fn lanes_have(&self, _: [usize; 1]) -> bool {
        true
    }
    fn has(&self, _: [usize; 1]) -> bool {
        true
    }
    fn len(&self) -> usize {
        answer(64)
    }
}
impl<T> ByReference for SharedRead<'_, T> {}

/// Of the block's own type, or of all.
trait OfAll: Sized {
    fn until(self, _: usize) -> usize {
        1 << 40
    }
    fn is_wide(&self, _: usize) -> bool {
        true
    }
    fn number(self, _: usize, _: usize) -> usize {
        1 << 40
    }
    fn known(self, _: Option<usize>) -> usize {
        1 << 40
    }
    fn raw_has<T>(self, _: &T, _: usize) -> bool {
        true
    }
    fn sum(self, _: Option<usize>, _: Option<usize>) -> Option<usize> {
        Some(0)
    }
}
impl<T> OfAll for T {}

#[kernel(crate = quipu_kernel)]
async fn reads_far(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    mut y: OwnElements<f32>,
    #[shared(64)] mut a: SharedWrite<f32>,
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

#[kernel(crate = quipu_kernel)]
async fn reads_by_length(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<f32>,
    #[shared(128)] mut a: SharedWrite<f32>,
) {
    let t = acc.index(Block, Threads)[0];
    a.own()[0] = 1.0;
    let read = acc.sync(a).await;
    let mut sum = 0.0;
    for i in 0..1 {
        sum += read[t + i + read.len() - 64];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[kernel(crate = quipu_kernel)]
async fn reads_by_extent(
    acc: &impl BlockAccelerator<1>,
    x: GlobalRef<f32, 2>,
    mut y: OwnElements<f32>,
) {
    let t = acc.index(Block, Threads)[0];
    let mut sum = 0.0;
    for i in 0..4 {
        sum += x[[x.extent()[0], t + i]];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[kernel(crate = quipu_kernel)]
async fn writes_far(
    acc: &impl BlockAccelerator<1>,
    _n: usize,
    x: &[f32],
    mut y: OwnElements<f32>,
    #[shared(_n)] mut a: SharedWrite<f32>,
) {
    let t = acc.index(Block, Threads)[0];
    a.own()[0] += x[t];
    let read = acc.sync(a).await;
    for (_, y) in y.each() {
        *y = read[t];
    }
}

/// A launch that panics, as the index is outside.
fn is_refused(launch: impl FnOnce()) -> bool {
    ASKED.set(0);
    catch_unwind(AssertUnwindSafe(launch)).is_err()
}

#[test]
fn a_traits_methods_are_not_asked() {
    const { assert!(UNOPTIMISED || <reads_far as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <reads_by_length as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <reads_by_extent as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <writes_far as BlockKernel<1>>::IN_PHASES) };
    let division = |threads| WorkDivision::new(1, threads, 1).unwrap();
    let mut y = vec![0.0_f32; 64];
    assert!(is_refused(|| {
        let _ = reads_far(1 << 24, &mut y).run(division(64));
    }));
    assert!(is_refused(|| {
        let _ = reads_by_length(&mut y).run(division(64));
    }));
    let x = vec![1.0_f32; 256];
    let x = GlobalRef::from(&x).in_strides([2, 128], [128, 1]).unwrap();
    assert!(is_refused(|| {
        let _ = reads_by_extent(x, &mut y).run(division(64));
    }));
    let x = vec![1.0_f32; 4096];
    let mut y = vec![0.0_f32; 4096];
    assert!(is_refused(|| {
        let _ = writes_far(64, &x, &mut y).run(division(4096));
    }));
}

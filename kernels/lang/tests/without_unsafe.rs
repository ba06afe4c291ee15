//! A crate that forbids `unsafe` has kernels of all kinds: code that macros write for it does not
//! count as its own.

#![forbid(unsafe_code)]

use quipu_kernel::{Block, BlockAccelerator, OwnElements, SharedWrite, Threads, kernel};

#[kernel(crate = quipu_kernel)]
async fn reverse(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut block: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for (_, y) in y.each() {
        own += *y;
    }
    block.own()[0] = own;
    let read = acc.sync(block).await;
    for (_, y) in y.each() {
        *y = 10 * own + read[read.len() - 1 - thread];
    }
}

#[test]
fn kernels_run_without_unsafe() {
    let mut y = vec![1, 2, 3, 4, 5, 6];
    let division = quipu_kernel::WorkDivision::new(2, 3, 1).unwrap();
    reverse(&mut y).run(division).unwrap();
    assert_eq!(y, [13, 22, 31, 46, 55, 64]);
}

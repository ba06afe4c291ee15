//! Barriers that only some of a block's threads come to.

use quipu_kernel::{Block, BlockAccelerator, OwnElements, SharedWrite, Threads, device, kernel};

#[kernel(crate = quipu_kernel)]
pub async fn first(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(3)] sums: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    if thread == 0 {
        let sums = acc.sync(sums).await; //~ every thread of a block has to come to a barrier
        for (_, y) in y.each() {
            *y = sums[0];
        }
    }
}

#[device(crate = quipu_kernel)]
pub async fn early(acc: &impl BlockAccelerator<1>) {
    if acc.lane() > 3 {
        return;
    }
    acc.sync_block_threads().await; //~ unsafe { acc.assume_uniform(…) }
    acc.warp_any(true).await; //~ every thread of a warp has to come to a function of a warp
}

#[kernel(crate = quipu_kernel)]
pub async fn vouched(acc: &impl BlockAccelerator<1>) {
    if acc.assume_uniform(acc.lane() > 3) { //~ unsafe
        acc.sync_block_threads().await;
    }
}

fn main() {}

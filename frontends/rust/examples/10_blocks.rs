//! A kernel whose threads share memory and wait for each other at barriers: the
//! sum of each block's part of `x`.

use quipu::prelude::*;

#[kernel]
async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[u64],
    sum: OwnBlock<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    sums.own()[0] = own;
    let mut half = acc.extent(Block, Threads)[0] / 2; // of a power of two
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    // A block has one element of the sums: its first thread's.
    for sum in sum {
        *sum = sums.own()[0];
    }
}

/// Sums a million numbers in 64 blocks, and those on the host.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;

    let x = context.buffer_from((1..=1_000_000).collect::<Vec<u64>>())?;
    let mut sums = context.allocate::<u64>(64)?;
    let division = WorkDivision::new(64, 128, 123);
    queue.launch(division, block_sum(&x, sums.overwrite()))?;
    let sum = queue
        .host_task_with((&sums,), |(sums,)| sums.iter().sum::<u64>())?
        .wait()?;
    println!("{sum}");
    assert_eq!(sum, 500_000_500_000);
    Ok(())
}

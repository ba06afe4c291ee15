//! A kernel whose threads share memory and wait for each other at barriers: the
//! sum of each block's part of `x`.

use quipu::prelude::*;

struct BlockSum<'a> {
    x: GlobalRef<'a, u64>,
}

impl BlockKernel<1> for BlockSum<'_> {
    type Output = ByBlock<u64>;
    type Shared = SharedArray<u64>;

    fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u64> {
        SharedArray::new(division.threads_per_block())
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        sum: &mut [u64],
        mut sums: SharedWrite<'_, u64>,
    ) {
        let thread = acc.index(Block, Threads)[0];
        sums.own()[0] = acc.elements(self.x.len()).map(|i| self.x[i]).sum();

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
        if let [sum] = sum {
            *sum = sums.own()[0];
        }
    }
}

fn block_sum(x: GlobalRef<'_, u64>, sums: GlobalMut<'_, u64>) -> impl Bound<1> {
    bind_blocks(BlockSum { x }, sums)
}

/// Sums a million numbers in 64 blocks, and those on the host.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;

    let x = context.buffer_from((1..=1_000_000).collect::<Vec<u64>>())?;
    let mut sums = context.allocate::<u64>(64)?;
    let division = WorkDivision::new(64, 128, 123);
    queue.launch(division, block_sum, (&x, sums.overwrite()))?;
    let sum = queue
        .host_task_with((&sums,), |(sums,)| sums.iter().sum::<u64>())?
        .wait()?;
    println!("{sum}");
    assert_eq!(sum, 500_000_500_000);
    Ok(())
}

//! Pinned memory of the user's, which CUDA is told of with the first large copy.

mod support;

use quipu::prelude::*;
use support::cuda_or_skip;

/// Elements: more bytes than go through a staging block.
const COUNT: usize = 1 << 20;

#[test]
fn pinned_memory_goes_and_comes_back_as_it_was() -> quipu::Result<()> {
    if !cuda_or_skip() {
        return Ok(());
    }
    let platform = Platform::builder().cuda(true).build_available();
    let device = platform.device("cuda")?;
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    let buffer = context.allocate::<u32>(COUNT)?;
    // Each time the memory is new to CUDA, wherever it is.
    for round in 0..3 {
        let mut sent = Pinned::<u32>::new(COUNT)?;
        for (number, element) in sent.iter_mut().enumerate() {
            *element = number as u32 * 3 + round;
        }
        let sent = queue.write(&buffer, sent)?.wait()?;
        let sent = queue.write(&buffer, sent)?.wait()?;
        let back = queue.read_to(&buffer, Pinned::<u32>::new(COUNT)?)?.wait()?;
        assert!(back[..] == sent[..], "round {round}");
        // And what is not pinned, as ever.
        let back = queue.read(&buffer)?.wait()?;
        assert!(back[..] == sent[..], "round {round}");
    }
    Ok(())
}

//! Pinned memory of the user's, which CUDA is told of with the first copy; and memory that is not
//! pinned.

mod support;

use quipu::prelude::*;
use support::cuda_or_skip;

/// Elements: few, as many bytes as go through one staging block and through several, more, and of
/// several threads' worth.
const COUNTS: [usize; 6] = [
    16,
    64 << 10,
    (64 << 10) + 1,
    256 << 10,
    1 << 20,
    (4 << 20) + 3,
];

#[test]
fn pinned_memory_goes_and_comes_back_as_it_was() -> quipu::Result<()> {
    if !cuda_or_skip() {
        return Ok(());
    }
    let platform = Platform::builder().cuda(true).build_available();
    let device = platform.device("cuda")?;
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    let rounds = (0..3).flat_map(|round| COUNTS.map(|count| (round, count)));
    // Each time the memory is new to CUDA, wherever it is.
    for (round, count) in rounds {
        let buffer = context.allocate::<u32>(count)?;
        let mut sent = Pinned::<u32>::new(count)?;
        for (number, element) in sent.iter_mut().enumerate() {
            *element = number as u32 * 3 + round;
        }
        let sent = queue.write(&buffer, sent)?.wait()?;
        let sent = queue.write(&buffer, sent)?.wait()?;
        let back = queue.read_to(&buffer, Pinned::<u32>::new(count)?)?.wait()?;
        // The second time CUDA knows it.
        let back = queue.read_to(&buffer, back)?.wait()?;
        assert!(back[..] == sent[..], "{count} elements, round {round}");
        // And memory that is not pinned, as ever.
        let back = queue.read(&buffer)?.wait()?;
        assert!(back[..] == sent[..], "{count} elements, round {round}");
        let kept = sent.to_vec();
        let kept = queue.write(&buffer, kept)?.wait()?;
        let back = queue.read(&buffer)?.wait()?;
        assert!(back == kept, "{count} elements, round {round}");
    }
    Ok(())
}

#[test]
fn pinned_memory_is_not_written_by_what_depends_on_a_failure() -> quipu::Result<()> {
    if !cuda_or_skip() {
        return Ok(());
    }
    let platform = Platform::builder().cuda(true).build_available();
    let device = platform.device("cuda")?;
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    let x = context.buffer(&[1_u32; 4])?;
    let mut y = context.allocate::<u32>(8)?;
    let mut back = Pinned::<u32>::new(8)?;
    back.fill(7);
    let back = queue.read_to(&y, back)?.wait()?;
    assert_eq!(back[..], [0; 8]);
    let event = queue.launch(8, beyond(&x, &mut y))?;
    // CUDA knows the memory by now, and would write there itself.
    let pending = queue.read_to(&y, back)?;
    assert!(event.wait().is_err());
    assert!(pending.wait().is_err());
    Ok(())
}

/// Reads beyond its input, which is shorter.
#[kernel]
fn beyond(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i];
    }
}

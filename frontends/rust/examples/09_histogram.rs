//! Atomics: all threads count in the same bins.

use quipu::prelude::*;

#[kernel]
fn histogram(acc: &impl Accelerator<1>, bytes: &[u8], counts: Atomics<u32>) {
    for i in acc.elements(bytes.len()) {
        counts.add(bytes[i] as usize, 1);
    }
}

/// Counts the bytes of a text, many times over.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;

    let bytes = context.buffer_from(b"one task graph over every device ".repeat(1000))?;
    let mut counts = context.allocate(256)?;
    queue.fill(&counts, 0)?;
    queue.launch(bytes.len(), histogram(&bytes, &mut counts))?;

    let counts = queue.read(&counts)?.wait()?;
    for letter in [b'a', b'e', b'v'] {
        println!("{}: {}", char::from(letter), counts[usize::from(letter)]);
    }
    assert_eq!(counts[usize::from(b'e')], 6000);
    assert_eq!(counts.iter().sum::<u32>() as usize, bytes.len());
    Ok(())
}

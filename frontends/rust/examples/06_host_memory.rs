//! Memory of the host: borrowed in a scope, mapped, pinned, used by kernels where it is, and
//! buffers that say how much of them is in use.

use quipu::prelude::*;

/// Goes through the ways in which the host reaches a buffer.
pub fn main() -> quipu::Result<()> {
    let platform = Platform::new()?;
    let context = platform.context()?;
    let queue = context.queue(&platform.device("cpu")?)?;
    let buffer = context.allocate::<f32>(4)?;

    // A scope lends slices to commands and waits for them at its end.
    let mut doubled = [0.0; 4];
    queue.scope(|scope| {
        scope.write(&buffer, &[1.0, 2.0, 3.0, 4.0])?;
        queue.for_each(&mut buffer.clone(), (), |_, number, ()| *number *= 2.0)?;
        scope.read(&buffer, &mut doubled)
    })??;
    println!("{doubled:?}");

    // A mapping is the host's turn at the buffer itself.
    let mut mapped = queue.map_mut(&buffer)?.wait()?;
    mapped.reverse();
    if let Err(error) = queue.fill(&buffer, 0.0) {
        println!("{error}");
    }
    drop(mapped);
    assert_eq!(queue.read(&buffer)?.wait()?, [8.0, 6.0, 4.0, 2.0]);

    // Pinned memory is what devices read and write fastest.
    let pinned = queue.read_to(&buffer, Pinned::new(4)?)?.wait()?;
    println!("{pinned:?}");

    // A mapped buffer is pinned memory that kernels use where it is, on devices that can. Taken
    // back, it is the program's again.
    let mut counts = context.mapped_from(pinned)?;
    queue.for_each(&mut counts, (), |number, count, ()| *count += number as f32)?;
    println!("{:?}", queue.take(counts)?.wait()?);
    println!("{}", queue.device().uses_host_memory());

    // Of a message of unknown length, only what is in use moves.
    let (message, length) = (
        context.allocate::<u8>(1 << 20)?,
        context.allocate::<u64>(1)?,
    );
    message.set_content_size(Some(&length))?;
    let start = message.slice(..8)?;
    queue.fill(&length, 5)?;
    drop(queue.write(&start, *b"to whom?")?);
    assert_eq!(queue.read(&start)?.wait()?, *b"to wh\0\0\0");
    Ok(())
}

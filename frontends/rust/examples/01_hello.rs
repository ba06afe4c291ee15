//! The smallest program: a list of the devices, and a task for the processor.

use quipu::prelude::*;

/// Prints the devices and the squares of some numbers.
pub fn main() -> quipu::Result<()> {
    quipu::init_logging_from_env()?;
    let platform = Platform::new()?;
    for device in platform.devices() {
        println!("{device}");
    }

    let context = platform.context()?;
    // A closure is native code, for processors; kernels, which come next, run on every device.
    let queue = context.queue(&platform.device("cpu")?)?;
    let mut numbers = context.buffer(&[1, 2, 3, 4, 5])?;
    queue.for_each(&mut numbers, (), |_, number, ()| *number *= *number)?;

    let squares = queue.read(&numbers)?.wait()?;
    println!("{squares:?}");
    assert_eq!(squares, [1, 4, 9, 16, 25]);
    Ok(())
}

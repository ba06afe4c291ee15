//! A kernel: `y += a * x`, written once for every device.

use quipu::prelude::*;

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

/// Runs it on every device of the platform, on the same buffers.
pub fn main() -> quipu::Result<()> {
    let platform = Platform::new()?;
    let context = platform.context()?;
    let x = context.buffer(&[1.0; 100_000])?;
    let mut y = context.allocate(x.len())?;

    // Each launch waits for the one before it, because of `y`.
    for device in platform.devices() {
        let queue = context.queue(device)?;
        queue.launch(x.len(), saxpy(2.0, &x, &mut y))?;
    }

    let queue = context.queue(&context.fastest())?;
    let y = queue.read(&y)?.wait()?;
    println!("{:?}", &y[..4]);
    assert!(
        y.iter()
            .all(|&y| y == 2.0 * platform.devices().len() as f32)
    );
    Ok(())
}

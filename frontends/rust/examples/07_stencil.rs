//! A stencil on a view of two dimensions: heat that spreads over a plate.

use quipu::prelude::*;

/// One step: each element becomes the average of its four neighbours. Beyond the border it is as
/// warm as on it.
#[kernel]
fn spread(_acc: &impl Accelerator<2>, before: GlobalRef<f32, 2>, mut after: OwnElements<f32, 2>) {
    let last_row = before.extent()[0] - 1;
    let last_column = before.extent()[1] - 1;
    for (position, part) in after.rows() {
        let i = position[0];
        for (k, after) in part.iter_mut().enumerate() {
            let j = position[1] + k;
            let above = before[[i.saturating_sub(1), j]];
            let below = before[[(i + 1).min(last_row), j]];
            let left = before[[i, j.saturating_sub(1)]];
            let right = before[[i, (j + 1).min(last_column)]];
            *after = (above + below + left + right) / 4.0;
        }
    }
}

/// Two plates take turns at being before and after.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;

    let extent = [64, 100];
    let mut before = context.allocate_padded::<f32, 2>(extent)?;
    let mut after = context.allocate_padded::<f32, 2>(extent)?;
    queue.fill_nd(&before, 0.0)?;
    queue.fill_nd(&before.region([20..40, 30..60])?, 100.0)?;
    for _ in 0..50 {
        queue.launch(extent, spread(&before, &mut after))?;
        std::mem::swap(&mut before, &mut after);
    }

    let plate = queue.read_nd(&before)?.wait()?;
    let heat: f32 = plate.iter().sum();
    println!("the middle has {:.1} degrees", plate[30 * 100 + 45]);
    // What leaves an element goes to its neighbours, so that none is lost.
    assert!((heat - 20.0 * 30.0 * 100.0).abs() < 1.0, "{heat}");
    assert!(plate[30 * 100 + 45] > plate[19 * 100 + 29]);
    Ok(())
}

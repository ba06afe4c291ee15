//! A recorded graph: steps of a simulation on two devices are recorded once and launched many
//! times. Data that one device leaves and the other needs is moved each time by itself.

use quipu::prelude::*;

/// Steps of the simulation.
const STEPS: usize = 100;

/// Heat flows along a rod, of which this computes the elements from `first` on.
#[kernel]
fn flow(_acc: &impl Accelerator<1>, first: u32, old: &[f32], mut new: OwnElements<f32>) {
    for (i, new) in new.each() {
        let at = first as usize + i;
        let left = old[at.saturating_sub(1)];
        let right = old[(at + 1).min(old.len() - 1)];
        *new = old[at] + 0.25 * (left - 2.0 * old[at] + right);
    }
}

/// One half of the rod is computed by the fastest device, the other by the last in the list.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let fastest = context.queue(&context.fastest())?;
    let last = context.queue(context.devices().last().expect("a context has devices"))?;

    let n = 1 << 10;
    let rod: Vec<f32> = (0..n)
        .map(|i| if i < n / 4 { 100.0 } else { 0.0 })
        .collect();
    let (now, next) = (context.buffer(&rod)?, context.allocate::<f32>(n)?);

    let recording = context.record();
    for (from, to) in [(&now, &next), (&next, &now)] {
        for (queue, half) in [(&fastest, 0..n / 2), (&last, n / 2..n)] {
            let (first, length) = (half.start as u32, half.len());
            let mut half = to.slice(half)?;
            let step = recording.on(queue);
            step.launch(length, flow(first, from, &mut half))?;
        }
    }
    let two_steps = recording.finish()?;
    println!("{} commands for two steps", two_steps.len());

    for _ in 0..STEPS / 2 {
        fastest.post_graph(&two_steps)?;
    }
    let rod = fastest.read(&now)?.wait()?;

    let heat: f32 = rod.iter().sum();
    println!("a quarter along the rod has {:.1} degrees", rod[n / 4]);
    // None is lost, and what was the end of the warm part is half as warm.
    assert!((heat - 100.0 * n as f32 / 4.0).abs() < 1.0, "{heat}");
    assert!((rod[n / 4] + rod[n / 4 - 1] - 100.0).abs() < 0.1);
    assert!(rod[n / 4 + 5] > 10.0 && rod[n / 4 + 200] < 1e-3);
    Ok(())
}

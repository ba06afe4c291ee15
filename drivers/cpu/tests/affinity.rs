//! The worth of running commands where their data were last written. Measures, and asserts nothing:
//! `cargo test --release -p quipu-driver-cpu --test affinity -- --ignored --nocapture`

use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// Passes of each thread over each size; the median of them counts.
const ROUNDS: usize = 400;

/// Two threads update arrays in step: each its own, or each the one that the other has just written.
fn nanoseconds(elements: usize, in_turns: bool) -> f64 {
    let arrays = [0, 1].map(|_| Mutex::new(vec![0.0_f64; elements]));
    let barrier = Barrier::new(2);
    let medians = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (arrays, barrier) = (&arrays, &barrier);
            scope.spawn(move || {
                let mut times = Vec::with_capacity(ROUNDS);
                for round in 0..ROUNDS {
                    let array = if in_turns {
                        (thread + round) % 2
                    } else {
                        thread
                    };
                    barrier.wait();
                    let mut array = arrays[array].lock().expect("no thread panics");
                    let started = Instant::now();
                    array.iter_mut().for_each(|x| *x = *x * 1.0001 + 1.0);
                    times.push(started.elapsed().as_nanos() as f64);
                }
                times.sort_by(f64::total_cmp);
                times[ROUNDS / 2]
            })
        };
        [run(0), run(1)].map(|thread| thread.join().expect("no thread panics"))
    });
    medians[0].midpoint(medians[1])
}

#[test]
#[ignore = "measures and asserts nothing"]
fn what_affinity_would_be_worth() {
    for kib in [4, 16, 64, 256, 1024] {
        let elements = kib * 1024 / size_of::<f64>();
        let [own, others] = [false, true].map(|in_turns| nanoseconds(elements, in_turns));
        println!("{kib} KiB: {own:.0} ns where it was written, {others:.0} ns on the other core");
    }
}

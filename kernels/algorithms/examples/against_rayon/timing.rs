//! Times two ways to do the same, in turn, and prints how they compare.

use std::time::Instant;

/// How often each is run, and which rows.
pub(crate) struct Table {
    pub(crate) rounds: usize,
    pub(crate) filter: String,
}

/// The median and the least.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) least: f64,
}

fn times(seconds: impl Iterator<Item = f64>) -> Times {
    let mut seconds: Vec<f64> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    Times {
        median: seconds[seconds.len() / 2],
        least: seconds[0],
    }
}

/// Something that is timed, after something that is not.
pub(crate) struct Timed<'t> {
    prepare: Box<dyn FnMut() + 't>,
    run: Box<dyn FnMut() + 't>,
}

/// Only what is timed.
pub(crate) fn run<'t>(run: impl FnMut() + 't) -> Timed<'t> {
    after(|| {}, run)
}

/// With what comes before, each time.
pub(crate) fn after<'t>(prepare: impl FnMut() + 't, run: impl FnMut() + 't) -> Timed<'t> {
    Timed {
        prepare: Box::new(prepare),
        run: Box::new(run),
    }
}

impl Timed<'_> {
    fn seconds(&mut self) -> f64 {
        (self.prepare)();
        let start = Instant::now();
        (self.run)();
        start.elapsed().as_secs_f64()
    }
}

impl Table {
    pub(crate) fn has(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Medians in milliseconds, and the ratios of the medians and of the least times: above 1 the first is faster. With
    /// `bytes`, the rate at which the first goes through so many, in the median.
    pub(crate) fn row(&self, name: &str, bytes: usize, mut ours: Timed<'_>, mut other: Timed<'_>) {
        if !self.has(name) {
            return;
        }
        ours.seconds();
        other.seconds();
        let pairs: Vec<_> = (0..self.rounds)
            .map(|_| (ours.seconds(), other.seconds()))
            .collect();
        let ours = times(pairs.iter().map(|pair| pair.0));
        let other = times(pairs.iter().map(|pair| pair.1));
        let rate = if bytes > 0 {
            format!("{:6.2} GB/s", bytes as f64 / ours.median * 1e-9)
        } else {
            String::new()
        };
        println!(
            "{name:34} {:8.3} ms against {:8.3} ms, ratio {:.3}, of the least {:.3}  {rate}",
            ours.median * 1e3,
            other.median * 1e3,
            other.median / ours.median,
            other.least / ours.least,
        );
    }

    /// The times of one alone.
    pub(crate) fn alone(&self, mut timed: Timed<'_>) -> Times {
        timed.seconds();
        times((0..self.rounds).map(|_| timed.seconds()))
    }
}

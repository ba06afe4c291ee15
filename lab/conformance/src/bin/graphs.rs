//! Random command graphs by the hundred thousand.
//!
//! `cargo run --release -p quipu-conformance --bin graphs -- --count 100000`
//! `[--seed N] [--devices cpu,serial,islands,sim] [--only SEED]`

use quipu_conformance::fixture::of_kinds;
use quipu_conformance::graph;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "graphs [--count N] [--seed N] [--devices cpu,serial,islands,sim] [--only SEED]
  --count N     graphs in all, shared by the devices (100000)
  --seed N      another sequence of graphs (1)
  --devices L   cpu: pools of 1, 2 and 4 workers and a part of one; serial, alone and
                beside a pool; islands: devices with memory of their own, alone and beside a pool;
                sim: simulated accelerators: one, with shared memory, with
                memory of their own, with few slots, beside a pool, with little
                memory, and with one that goes wrong
  --only SEED   one graph, as a failure named it (0x...), over each";

struct Options {
    count: u64,
    seed: u64,
    devices: Vec<String>,
    only: Option<u64>,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number"))
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        count: 100_000,
        seed: 1,
        devices: ["cpu", "serial", "islands", "sim"]
            .map(str::to_owned)
            .to_vec(),
        only: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--count" => options.count = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--only" => options.only = Some(number(&value()?)?),
            "--devices" => options.devices = value()?.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("'{argument}' is no option")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let parsed = options(std::env::args().skip(1))
        .and_then(|options| Ok((of_kinds(&options.devices)?, options)));
    let (fixtures, options) = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (mut passed, mut failed) = (0, 0);
    let start = Instant::now();
    let share = options.count.div_ceil(fixtures.len() as u64);
    let mut left = options.count;
    for (index, fixture) in fixtures.iter().enumerate() {
        let name = fixture.name();
        if let Some(seed) = options.only {
            match graph::one(seed, &**fixture) {
                None => passed += 1,
                Some(failure) => {
                    eprintln!("{failure}");
                    failed += 1;
                }
            }
            continue;
        }
        let count = share.min(left);
        left -= count;
        let mut shown = Instant::now();
        let mut progress = |done: u64| {
            if shown.elapsed().as_millis() > 500 || done == count {
                shown = Instant::now();
                eprint!("\r{name}: {done} of {count}");
                let _ = std::io::stderr().flush();
            }
        };
        let seed = options.seed.wrapping_add((index as u64) << 32);
        let summary = graph::run(count, seed, 5, &**fixture, &mut progress);
        eprintln!();
        passed += summary.passed;
        failed += summary.failures.len();
        for failure in summary.failures {
            eprintln!("{name}: {failure}");
        }
    }
    println!(
        "{passed} passed, {failed} failed in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

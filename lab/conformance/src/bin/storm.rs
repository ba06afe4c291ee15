//! Storms by the million commands: see `quipu_conformance::storm`.
//!
//! `cargo run --release -p quipu-conformance --bin storm -- --commands 10000000`
//! `[--seed N] [--devices cpu,serial,islands,sim] [--only SEED]`

use quipu_conformance::fixture::{Graphs, of_kinds};
use quipu_conformance::storm::{self, raise_many};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "storm [--commands N] [--seed N] [--devices cpu,serial,islands,sim] [--only SEED]
  --commands N  commands in all, shared by the devices (1000000)
  --seed N      another sequence of storms (1)
  --devices L   as of `graphs`
  --only SEED   one storm, as a failure named it (0x...), over each; which thread comes first may differ";

struct Options {
    commands: u64,
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
        commands: 1_000_000,
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
            "--commands" => options.commands = number(&value()?)?,
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
        Ok((mut fixtures, options)) => {
            // In a storm everything goes well: devices that fail, or have no room for all buffers,
            // have none.
            fixtures.retain(|fixture| fixture.graphs() == Graphs::default());
            (fixtures, options)
        }
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let share = options.commands.div_ceil(fixtures.len() as u64);
    let mut all = 0;
    for (index, fixture) in fixtures.iter().enumerate() {
        let name = fixture.name();
        if let Some(seed) = options.only {
            all += storm::one(seed, &**fixture);
            continue;
        }
        let mut done = 0;
        let seed = options.seed.wrapping_add((index as u64) << 32);
        raise_many(share, seed, &**fixture, &mut |commands| {
            done = commands;
            eprint!("\r{name}: {commands} of {share}");
            let _ = std::io::stderr().flush();
        });
        eprintln!();
        all += done;
    }
    println!(
        "{all} commands ran as they must in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

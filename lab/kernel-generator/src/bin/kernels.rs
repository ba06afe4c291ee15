//! Generated kernels by the thousand, natively and as printed C99; with `--opencl` also as OpenCL
//! C, with `--optimised` as a release has them.
//!
//! `cargo run -p quipu-kernel-generator --bin kernels -- --count 10000` `[--seed N] [--batch N]
//! [--shrink N] [--only SEED] [--print SEED] [--seconds N] [--opencl] [--optimised]`

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use quipu_kernel_generator::{Kernel, batch, kernel, shrink};

const USAGE: &str =
    "kernels [--count N] [--seed N] [--batch N] [--shrink N] [--only SEED] [--print SEED] [--seconds N] [--opencl] [--optimised]
  --count N     how many kernels (10000)
  --seed N      the first of as many seeds (1)
  --batch N     how many kernels are compiled at a time (200)
  --shrink N    how many of the kernels that show a difference are made smaller (3)
  --only SEED   one kernel, as a difference named it
  --print SEED  the source of one kernel, and nothing else
  --seconds N   no batch is begun after that
  --opencl      also as OpenCL C, on the first device of the system's OpenCL; several times as slow
  --optimised   natively as a release has them, at every feature level; a little slower";

/// The options with which cargo builds them then.
const OPTIMISED: &str = "--release";

struct Options {
    count: u64,
    seed: u64,
    batch: usize,
    shrink: usize,
    print: bool,
    seconds: u64,
    opencl: bool,
    optimised: bool,
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
        count: 10_000,
        seed: 1,
        batch: 200,
        shrink: 3,
        print: false,
        seconds: u64::MAX,
        opencl: false,
        optimised: false,
    };
    while let Some(argument) = arguments.next() {
        if argument == "--opencl" {
            options.opencl = true;
            continue;
        }
        if argument == "--optimised" {
            options.optimised = true;
            continue;
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{argument} needs a value"))?;
        let value = number(&value)?;
        match argument.as_str() {
            "--count" => options.count = value,
            "--seed" => options.seed = value,
            "--seconds" => options.seconds = value,
            "--batch" => options.batch = (value as usize).max(1),
            "--shrink" => options.shrink = value as usize,
            "--only" | "--print" => {
                options.seed = value;
                options.count = 1;
                options.print = argument == "--print";
            }
            _ => return Err(format!("'{argument}' is no option")),
        }
    }
    Ok(options)
}

/// Compiles and compares kernels.
struct Runner {
    folder: PathBuf,
    runs: usize,
    opencl: bool,
    optimised: bool,
}

/// The results of kernels, by their places among those that were run.
type Differences = BTreeMap<usize, String>;

impl Runner {
    fn new(opencl: bool, optimised: bool) -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("quipu-kernels-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            runs: 0,
            opencl,
            optimised,
        })
    }

    /// The differences. Kernels that rustc refuses are reported as such, and the others run without
    /// them.
    fn run(&mut self, kernels: &[Kernel]) -> Result<Differences, Box<dyn Error>> {
        let mut differences = Differences::new();
        let mut left: Vec<usize> = (0..kernels.len()).collect();
        while !left.is_empty() {
            let chosen: Vec<Kernel> = left.iter().map(|&at| kernels[at].clone()).collect();
            match self.compile_and_run(&chosen)? {
                Ok(found) => {
                    differences.extend(found.into_iter().map(|(at, what)| (left[at], what)));
                    break;
                }
                Err(refused) => {
                    differences.extend(refused.iter().map(|(at, what)| (left[*at], what.clone())));
                    let mut number = 0;
                    left.retain(|_| {
                        number += 1;
                        !refused.contains_key(&(number - 1))
                    });
                }
            }
        }
        Ok(differences)
    }

    /// The difference, or the refusal.
    fn compile_and_run(
        &mut self,
        kernels: &[Kernel],
    ) -> Result<Result<Differences, Differences>, Box<dyn Error>> {
        let batch = batch(kernels);
        self.runs += 1;
        let file = self.folder.join(format!("batch-{}.rs", self.runs));
        std::fs::write(&file, &batch.source)?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let output = Command::new(cargo)
            .args(["run", "--quiet", "--message-format", "short"])
            .args(["-p", "quipu-kernel-generated"])
            .args(self.optimised.then_some(OPTIMISED))
            .args(
                self.opencl
                    .then_some(["--", "--opencl"])
                    .into_iter()
                    .flatten(),
            )
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
            .env("QUIPU_GENERATED_SOURCE", &file)
            .output()?;
        std::fs::remove_file(&file)?;
        let (said, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        if output.status.success() {
            let mut found = Differences::new();
            let mut current = None;
            for line in said.lines() {
                if let Some(report) = line.strip_prefix("@ ") {
                    let name = report.split(' ').next().unwrap_or_default();
                    current = kernels.iter().position(|kernel| kernel.name == name);
                    let what = report[name.len()..].trim_start();
                    if let Some(at) = current {
                        found.insert(at, what.to_owned());
                    }
                } else if let Some(text) = current.and_then(|at| found.get_mut(&at)) {
                    text.push('\n');
                    text.push_str(line);
                }
            }
            return Ok(Ok(found));
        }
        let mut refused = Differences::new();
        for line in errors.lines() {
            let mut parts = line.splitn(4, ':');
            if let (Some(file), Some(number), Some(_), Some(message)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
                && file.ends_with("kernels.rs")
                && message.starts_with(" error")
                && let Ok(number) = number.parse()
                && let Some(at) = batch.kernel_at(number)
            {
                let text = batch.source.lines().nth(number - 1).unwrap_or_default();
                refused
                    .entry(at)
                    .or_insert_with(|| format!("refused:{message}\n{text}"));
            }
        }
        if refused.is_empty() {
            return Err(format!("the kernels did not run:\n{said}\n{errors}").into());
        }
        Ok(Err(refused))
    }

    /// The smallest kernel found that shows the same as a kernel, and what it shows.
    fn smallest(
        &mut self,
        kernel: &Kernel,
        what: &str,
    ) -> Result<(Kernel, String), Box<dyn Error>> {
        const CANDIDATES: usize = 60;
        let (mut best, mut shown) = (kernel.clone(), what.to_owned());
        loop {
            let mut candidates = shrink::smaller(&best, CANDIDATES);
            let found = self.run(&candidates)?;
            let same = found
                .iter()
                .find(|(_, other)| class(other) == class(what))
                .map(|(at, other)| (*at, other.clone()));
            let Some((at, other)) = same else {
                return Ok((best, shown));
            };
            best = candidates.swap_remove(at);
            best.name.clone_from(&kernel.name);
            shown = other;
            eprintln!("  {} parts left", best.size());
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // A file that cannot be removed stays among the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The kind of a difference: its words, without the kernel's own.
fn class(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    if line.contains(" differ: ") {
        return "differ".into();
    }
    let end = line.rsplit(": ").next().unwrap_or_default();
    let words = end.split(['`', '(']).step_by(2).collect::<String>();
    words.chars().filter(|one| !one.is_ascii_digit()).collect()
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    if options.print {
        println!("{}", kernel(options.seed).source());
        return Ok(true);
    }
    let mut runner = Runner::new(options.opencl, options.optimised)?;
    let start = Instant::now();
    let seeds: Vec<u64> = (0..options.count)
        .map(|at| options.seed.wrapping_add(at))
        .collect();
    let (mut done, mut different) = (0, 0);
    let mut to_shrink = options.shrink;
    let mut classes = Vec::new();
    for part in seeds.chunks(options.batch) {
        if start.elapsed().as_secs() >= options.seconds {
            break;
        }
        let kernels: Vec<Kernel> = part.iter().copied().map(kernel).collect();
        let found = runner.run(&kernels)?;
        done += kernels.len();
        different += found.len();
        println!(
            "{done} kernels, {different} of them differ, {:.0} s",
            start.elapsed().as_secs_f64()
        );
        for (at, what) in found {
            let seed = kernels[at].seed;
            println!(
                "seed {seed:#x}: {}",
                what.lines().next().unwrap_or_default()
            );
            if to_shrink > 0 && !classes.contains(&class(&what)) {
                to_shrink -= 1;
                classes.push(class(&what));
                let (kernel, shown) = runner.smallest(&kernels[at], &what)?;
                println!("{}\n{shown}\n", kernel.source());
            }
        }
    }
    Ok(different == 0)
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

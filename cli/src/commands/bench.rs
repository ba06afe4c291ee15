//! `quipu bench`: benchmarks, each beside a reference in the same run.

use crate::error::CommandError;
use quipu_bench::harness::{self, Scale};
use quipu_bench::ours::Quipu;
use quipu_bench::{Benchmark, Measures, find, list, publish};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The benchmarks to run; `all` runs every one, `list` names them.
    #[arg(value_name = "NAME", required_unless_present = "session")]
    names: Vec<String>,

    /// Run the same shapes with fewer repetitions: at most ten seconds for each benchmark.
    #[arg(long)]
    quick: bool,

    /// How many workers the device has; powers of two up to the number of cores without it.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    workers: Vec<usize>,

    /// The devices that benchmarks of devices measure, as `quipu devices` names them (`cuda:0`, or `cuda` for the first of
    /// a driver's); every real one without it.
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    device: Vec<String>,

    /// Fail if a target is missed, after all have run.
    #[arg(long)]
    gates: bool,

    /// How many nodes benchmarks of several have; three without it, or one for each device.
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,

    /// Keep the sessions of nodes in this process: they have processes of their own without it, where the system has such.
    #[arg(long)]
    one_process: bool,

    /// Serve a session of one of these nodes, which has started this process for it.
    #[arg(long, hide = true, value_name = "OFFER", conflicts_with = "names")]
    session: Option<String>,

    /// How many rounds are kept.
    #[arg(long, value_name = "N")]
    runs: Option<usize>,

    /// Where to write the results as JSON. Of several benchmarks each gets a file of its own:
    /// results.json becomes results-in-order.json.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Where to write a page with the figures; of several benchmarks as for --json.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Where to write a trace of all that runs, which `quipu trace` shows; the figures are then those of a traced program.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Runs the benchmarks and prints a table of each.
pub(crate) fn run(options: Options) -> Result<(), CommandError> {
    if let Some(offer) = &options.session {
        match quipu_bench::serve_session(offer)? {}
    }
    if options.names.iter().any(|name| name == "list") {
        return print_list();
    }
    let benchmarks = options.benchmarks()?;
    if let Some(path) = &options.trace {
        quipu_core::trace::start(path)?;
    }
    let quipu = Quipu::new();
    let mut stdout = io::stdout();
    let mut missed = 0;
    for (number, benchmark) in benchmarks.iter().enumerate() {
        let options = options.of(benchmark, benchmarks.len() > 1);
        let report = quipu_bench::run(benchmark.name(), &quipu, &options)?;
        if number > 0 {
            writeln!(stdout)?;
        }
        publish(&report, &options, &mut stdout)?;
        missed += report.gates.iter().filter(|gate| !gate.met).count();
    }
    match missed {
        missed if options.gates && missed > 0 => Err(CommandError::Missed { missed }),
        _ => Ok(()),
    }
}

fn print_list() -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    let names = list().iter().map(|benchmark| benchmark.name().len());
    let width = names.max().unwrap_or(0);
    for benchmark in list() {
        writeln!(
            stdout,
            "{:width$}  {}",
            benchmark.name(),
            benchmark.summary()
        )?;
    }
    Ok(())
}

impl Options {
    /// The benchmarks that were asked for. An unknown name is found before anything runs.
    fn benchmarks(&self) -> Result<Vec<&'static Benchmark>, CommandError> {
        let mut benchmarks = Vec::new();
        for name in &self.names {
            if name == "all" {
                benchmarks.extend(list());
            } else {
                let benchmark = find(name)?;
                if !self.device.is_empty() && benchmark.measures() == Measures::Subject {
                    return Err(CommandError::NotOfDevices {
                        benchmark: benchmark.name(),
                    });
                }
                benchmarks.push(benchmark);
            }
        }
        Ok(benchmarks)
    }

    /// The options of one benchmark's run.
    fn of(&self, benchmark: &Benchmark, several: bool) -> harness::Options {
        let file = |path: &Option<PathBuf>| {
            let path = path.as_deref()?;
            Some(if several {
                named(path, benchmark.name())
            } else {
                path.to_owned()
            })
        };
        harness::Options {
            scale: if self.quick {
                Scale::Quick
            } else {
                Scale::Full
            },
            runs: self.runs,
            workers: self.workers.clone(),
            devices: self.device.clone(),
            nodes: self.nodes,
            sessions: (!self.one_process)
                .then(|| ["bench", "--session"].map(OsString::from).to_vec()),
            json: file(&self.json),
            html: file(&self.html),
        }
    }
}

/// The file's name with the benchmark's before its extension.
fn named(path: &Path, benchmark: &str) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push("-");
    name.push(benchmark);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_gets_a_file_of_its_own() {
        let name = |path: &str| named(Path::new(path), "no-op");
        assert_eq!(name("r.json"), Path::new("r-no-op.json"));
        assert_eq!(name("out/r.v2.json"), Path::new("out/r.v2-no-op.json"));
        assert_eq!(name("out/r"), Path::new("out/r-no-op"));
    }

    fn asked(names: &[&str]) -> Options {
        Options {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            quick: true,
            workers: vec![],
            device: vec![],
            gates: false,
            nodes: None,
            one_process: false,
            session: None,
            runs: None,
            json: None,
            html: None,
            trace: None,
        }
    }

    #[test]
    fn all_is_every_benchmark() {
        let all = asked(&["all"]).benchmarks().expect("they are all known");
        assert_eq!(all.len(), list().len());
        let two = asked(&["no-op", "idle"]).benchmarks().expect("known");
        assert_eq!(two.len(), 2);
        assert!(asked(&["no-op", "nope"]).benchmarks().is_err());
    }

    #[test]
    fn a_device_is_refused_where_it_would_be_ignored() {
        let of_a_device = |name| Options {
            device: vec!["cuda".to_owned()],
            ..asked(&[name])
        };
        let refused = of_a_device("babelstream").benchmarks();
        let error = refused.err().expect("it measures the pool").to_string();
        assert!(error.contains("device-babelstream"), "{error}");
        for name in ["device-babelstream", "distributed-matmul", "all"] {
            assert!(of_a_device(name).benchmarks().is_ok(), "{name}");
        }
    }
}

//! `quipu-bench`: benchmarks, each beside a reference in the same run. `quipu bench` runs this
//! program.
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 for
//! success, 1 for a run that failed and 2 for a command line that makes no sense.

use clap::Parser;
use quipu::Platform;
use quipu_bench::harness::{self, Scale};
use quipu_bench::ours::Quipu;
use quipu_bench::{BenchError, Benchmark, Measures, find, list, publish};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The reason for missing results, or for others than were wanted.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// Standard output did not take what was written.
    #[error("cannot print the results: {0}")]
    Print(#[from] io::Error),
    /// `QUIPU_LOG` makes no sense.
    #[error(transparent)]
    Log(quipu::Error),
    /// A benchmark gave no report.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// `--device` or `--node` names what a benchmark does not measure.
    #[error(
        "{benchmark} measures {subject} and takes no {option}; \"quipu bench list\" names the benchmarks of devices \
         (device-babelstream, say)"
    )]
    NotOfDevices {
        /// The benchmark.
        benchmark: &'static str,
        /// Its subject.
        subject: &'static str,
        /// The option that it would ignore.
        option: &'static str,
    },
    /// A node of `--node` has no devices for this program.
    #[error(transparent)]
    Node(quipu::Error),
    /// Benchmarks have missed targets, and were to fail then.
    #[error("{missed} targets were missed: the lines above that begin with MISSED")]
    Missed {
        /// The number.
        missed: usize,
    },
    /// There is no trace to be written.
    #[error(transparent)]
    StartTrace(#[from] quipu_scheduler::trace::TraceError),
}

impl CommandError {
    /// True if a reader of our output has gone: it has had enough.
    fn is_broken_pipe(&self) -> bool {
        let (Self::Print(error) | Self::Bench(BenchError::Print(error))) = self else {
            return false;
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }

    /// The error and its causes, as far as it does not name them itself, in one line.
    fn line(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        // Messages may quote what somebody else wrote.
        text.replace(char::is_control, " ")
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let logging = quipu::init_logging_from_env().map_err(CommandError::Log);
    match logging.and_then(|_| run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if that fails.
            let _ = writeln!(io::stderr(), "error: {}", error.line());
            ExitCode::FAILURE
        }
    }
}

/// Run benchmarks, each beside a reference in the same run.
#[derive(Parser)]
#[command(name = "quipu bench", version)]
struct Options {
    /// The benchmarks to run; `all` runs every one, `list` names them.
    #[arg(value_name = "NAME", required_unless_present_any = ["session", "platform"])]
    names: Vec<String>,

    /// Run the same shapes with fewer repetitions: at most ten seconds for each benchmark.
    #[arg(long)]
    quick: bool,

    /// The number of workers that the device has; powers of two up to the number of cores without
    /// it.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    workers: Vec<usize>,

    /// The devices that benchmarks of devices measure, as `quipu devices` names them (`cuda:0`, or
    /// `cuda` for the first of a driver's); every real one without it.
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    device: Vec<String>,

    /// Measure the devices of this paired node, by its name or address, and no others; can be given
    /// several times. `all` is then every benchmark of devices.
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,

    /// Fail if a target is missed, after all have run.
    #[arg(long)]
    gates: bool,

    /// The number of nodes that benchmarks of several have; three without it, or one for each
    /// device.
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,

    /// Keep the sessions of nodes in this process: they have processes of their own without it,
    /// where the system has such.
    #[arg(long)]
    one_process: bool,

    /// Serve a session of one of these nodes, which has started this process for it.
    #[arg(long, hide = true, value_name = "OFFER", conflicts_with = "names")]
    session: Option<String>,

    /// Serve an OpenCL platform to the benchmark that has started this process for it.
    #[arg(long, hide = true, value_name = "PLATFORM", conflicts_with = "names")]
    platform: Option<String>,

    /// The cases of `opencl-kernels` and `opencl-calls` to run; all without it.
    #[arg(long, value_name = "CASE,...", value_delimiter = ',')]
    case: Vec<String>,

    /// The number of rounds that are kept.
    #[arg(long, value_name = "N")]
    runs: Option<usize>,

    /// The file for the results as JSON. Of several benchmarks each gets a file of its own:
    /// results.json becomes results-in-order.json.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The file for a trace of all that runs, which `quipu trace` shows; the figures are then those
    /// of a traced program.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Runs the benchmarks and prints a table of each.
fn run(options: Options) -> Result<(), CommandError> {
    if let Some(offer) = &options.session {
        match quipu_bench::serve_session(offer)? {}
    }
    if let Some(platform) = &options.platform {
        match quipu_bench::serve_platform(platform)? {}
    }
    if options.names.iter().any(|name| name == "list") {
        return print_list();
    }
    let benchmarks = options.benchmarks()?;
    let of_nodes = options.of_nodes()?;
    if let Some(path) = &options.trace {
        quipu_scheduler::trace::start(path)?;
    }
    let quipu = Quipu::new();
    let mut stdout = io::stdout();
    let mut missed = 0;
    for (number, benchmark) in benchmarks.iter().enumerate() {
        let options = harness::Options {
            of_nodes: of_nodes.clone(),
            ..options.of(benchmark, benchmarks.len() > 1)
        };
        let mut report = quipu_bench::run(benchmark.name(), &quipu, &options)?;
        if options.scale == Scale::Full && !is_dist() {
            let note = match cfg!(debug_assertions) {
                true => {
                    "this is a debug build: measure with cargo run --profile dist -p quipu-bench -- NAME"
                }
                false => {
                    "the profile `dist` is a little faster: cargo run --profile dist -p quipu-bench -- NAME"
                }
            };
            report.notes.push(note.to_owned());
        }
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

/// True if this program was built with the profile `dist`, as far as its folder tells.
fn is_dist() -> bool {
    let own = std::env::current_exe();
    own.is_ok_and(|own| own.parent().is_some_and(|folder| folder.ends_with("dist")))
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
                let all = list().iter();
                benchmarks.extend(all.filter(|benchmark| {
                    self.node.is_empty() || benchmark.measures() == Measures::Devices
                }));
            } else {
                let benchmark = find(name)?;
                self.check(benchmark)?;
                benchmarks.push(benchmark);
            }
        }
        Ok(benchmarks)
    }

    /// Checks that a benchmark does not ignore the chosen devices and nodes.
    fn check(&self, benchmark: &Benchmark) -> Result<(), CommandError> {
        let (subject, takes_devices) = match benchmark.measures() {
            Measures::Devices => return Ok(()),
            Measures::Subject => ("the processor's pool", false),
            Measures::Implementations => ("this machine's processor", false),
            Measures::Nodes => ("nodes of its own", true),
            Measures::Networks => ("nodes and networks of its own", true),
        };
        let option = match (&self.node[..], &self.device[..]) {
            ([_, ..], _) => "--node",
            (_, [_, ..]) if !takes_devices => "--device",
            _ => return Ok(()),
        };
        Err(CommandError::NotOfDevices {
            benchmark: benchmark.name(),
            subject,
            option,
        })
    }

    /// The devices of the chosen nodes, if there are any.
    fn of_nodes(&self) -> Result<Option<Platform>, CommandError> {
        if self.node.is_empty() {
            return Ok(None);
        }
        let builder = Platform::builder().without_embedded();
        let nodes = self.node.iter();
        let builder = nodes.fold(builder, |builder, node| builder.node(node));
        builder.build().map(Some).map_err(CommandError::Node)
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
            of_nodes: None,
            nodes: self.nodes,
            sessions: (!self.one_process).then(|| vec![OsString::from("--session")]),
            platforms: Some(vec![OsString::from("--platform")]),
            cases: self.case.clone(),
            json: file(&self.json),
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
            node: vec![],
            gates: false,
            nodes: None,
            one_process: false,
            session: None,
            platform: None,
            case: vec![],
            runs: None,
            json: None,
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
        assert!(of_a_device("opencl-calls").benchmarks().is_err());
    }

    #[test]
    fn a_node_is_refused_where_it_would_be_ignored() {
        let of_a_node = |name| Options {
            node: vec!["lab".to_owned()],
            ..asked(&[name])
        };
        for name in ["in-order", "opencl-kernels", "noop", "distributed-matmul"] {
            let refused = of_a_node(name).benchmarks();
            let error = refused.err().expect(name).to_string();
            assert!(error.contains(&format!("{name} measures ")), "{error}");
            assert!(error.contains("takes no --node"), "{error}");
        }
        assert!(of_a_node("saxpy").benchmarks().is_ok());
        let all = of_a_node("all").benchmarks().expect("those of devices");
        let are_of_devices = |it: &&Benchmark| it.measures() == Measures::Devices;
        assert!(all.len() > 5 && all.iter().all(are_of_devices));
    }
}

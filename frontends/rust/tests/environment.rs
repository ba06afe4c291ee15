//! The effects of environment variables: a log, a trace, checked kernels. Each runs in a process of
//! its own, which runs one of the tests below that are ignored otherwise. Another test compares the
//! variables with their documentation.

use quipu::drivers::{CpuDriver, Options, SerialDriver, SimDriver};
use quipu::prelude::*;
use quipu::simulation::Configuration;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// Runs a test of this file with a variable of the environment set.
fn run(test: &str, variable: &str, value: &str) -> Output {
    let program = std::env::current_exe().expect("a test has an executable");
    let mut command = Command::new(program);
    command.env_remove("QUIPU_LOG").env_remove("QUIPU_TRACE");
    command.args([
        test,
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = command
        .env(variable, value)
        .output()
        .expect("the test can be run again");
    assert!(output.status.success(), "{output:?}");
    output
}

fn work() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;
    let mut buffer = context.allocate::<u32>(1000)?;
    queue
        .named("count up")
        .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)?;
    assert_eq!(queue.read(&buffer)?.wait()?[999], 999);
    queue.wait()
}

#[test]
#[ignore = "run by `the_log_is_what_the_variable_asks_for`"]
fn log() {
    let started = quipu::init_logging_from_env();
    println!("logging: {started:?}");
    if started.is_err() {
        return;
    }
    work().unwrap();
    let again = quipu::init_logging_from_env();
    assert!(!matches!(again, Ok(true)), "there is one already");
}

#[test]
fn the_log_is_what_the_variable_asks_for() {
    let output = run("log", "QUIPU_LOG", "quipu_scheduler=trace");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(out.contains("logging: Ok(true)"), "{out}");
    assert!(
        err.contains("allocated on the host") && err.contains("bytes=4000"),
        "{err}"
    );
    let output = run("log", "QUIPU_LOG", "");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(out.contains("logging: Ok(false)"), "{out}");
    assert!(!err.contains("allocated"), "{err}");
    let output = run("log", "QUIPU_LOG", "verbose");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("logging: Err("), "{out}");
    assert!(out.contains("QUIPU_LOG=verbose"), "{out}");
}

#[test]
#[ignore = "run by `a_trace_is_complete_when_the_last_context_is_gone`"]
fn trace() {
    let path = std::env::var("QUIPU_TRACE").unwrap();
    let keep = Platform::new().unwrap().context().unwrap();
    work().unwrap();
    drop(keep);
    // Not at the end of the process, but now.
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.trim_end().ends_with(']'), "{text}");
    for name in ["count up", "read"] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
}

#[test]
fn a_trace_is_complete_when_the_last_context_is_gone() {
    let file = std::env::temp_dir().join(format!("quipu-trace-{}.json", std::process::id()));
    run("trace", "QUIPU_TRACE", file.to_str().unwrap());
    std::fs::remove_file(file).unwrap();
}

#[kernel]
fn next(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i + 1]; // outside
    }
}

/// Without a barrier between what a thread writes and what its neighbour reads.
#[kernel]
async fn neighbours(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(4)] numbers: SharedWrite<u32>,
) {
    let (thread, numbers) = (acc.index(Block, Threads)[0], numbers.into_raw());
    // SAFETY: there is none, and so this is run where it is found out alone.
    let next = unsafe {
        numbers.write(thread, 3); // the write
        numbers.read((thread + 1) % 4) // the read
    };
    for (_, y) in y.each() {
        *y = next;
    }
}

#[kernel]
async fn leaves(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    // SAFETY: there is none, as above.
    if unsafe { acc.assume_uniform(acc.index(Block, Threads)[0] == 2) } {
        return;
    }
    acc.sync_block_threads().await; // the barrier
    for (_, y) in y.each() {
        *y = 3;
    }
}

#[kernel]
fn same(acc: &impl Accelerator<1>, n: usize, y: RawMut<u32>) {
    for i in acc.elements(n) {
        // SAFETY: there is none, as above.
        unsafe { y.write(0, i as u32) } // all of them
    }
}

/// The place in this file where a line ends with a mark.
fn place(mark: &str) -> String {
    let mut lines = include_str!("environment.rs").lines().zip(1..);
    let line = lines.find(|(line, _)| line.ends_with(mark));
    let (_, line) = line.expect("a line has the mark");
    format!("environment.rs:{line}:")
}

#[test]
#[ignore = "run by `mistakes_of_kernels_are_told_by_thread_and_line`"]
fn check() {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    // Without CUDA and OpenCL, which have no such mode.
    let pool = CpuDriver::start(Options::new()).unwrap();
    let machine = Configuration::separate_memory(1, 1 << 24);
    let machine = SimDriver::start(machine).unwrap();
    let context = Platform::builder()
        .without_embedded()
        .driver(pool.clone())
        .driver(Arc::new(SerialDriver::new()))
        .driver(machine.clone())
        .build()
        .unwrap()
        .context()
        .unwrap();
    for driver in ["cpu", "serial", "sim"] {
        let mut devices = context.devices().iter();
        let device = devices.find(|device| device.driver_name() == driver);
        let queue = context.queue(device.unwrap()).unwrap();
        let x = context.buffer(&[1_u32; 8]).unwrap();
        let mut y = context.allocate::<u32>(8).unwrap();
        let told = |launched: quipu::Result<Event>, words: &[&str]| {
            let error = launched.and_then(|event| event.wait()).unwrap_err();
            let text = error.to_string();
            for words in words {
                assert!(text.contains(words), "{driver}: {words} is not in: {text}");
            }
        };
        told(
            queue.launch(WorkDivision::new(2, 4, 1), next(&x, y.overwrite())),
            &[
                "environment::next",
                "thread 3 of work-group 1",
                "the len is 8 but the index is 8",
                &place("// outside"),
            ],
        );
        // Thread 0 has read what thread 1 then writes.
        told(
            queue.launch(WorkDivision::new(1, 4, 1), neighbours(y.overwrite())),
            &[
                "environment::neighbours races for element 1",
                "thread 0 of work-group 0 reads",
                &place("// the read"),
                "thread 1 of work-group 0 writes",
                &place("// the write"),
            ],
        );
        told(
            queue.launch(WorkDivision::new(1, 4, 1), leaves(y.overwrite())),
            &[
                "environment::leaves: 3 threads of work-group 0 wait",
                "1 that have finished",
                "thread 2",
                &place("// the barrier"),
            ],
        );
        // Of blocks of one thread, of which a pool would run many at a time.
        told(
            queue.launch(WorkDivision::new(8, 1, 3750), same(30_000, y.overwrite())),
            &[
                "environment::same races for element 0",
                &place("// all of them"),
            ],
        );
        // Nobody asks how this ends.
        drop(
            queue
                .launch(WorkDivision::new(2, 4, 1), next(&x, y.overwrite()))
                .unwrap(),
        );
        queue.wait().unwrap();
        println!("{driver} has told");
    }
    // The thread that ends a command prints its error a moment later, if nobody asks for it. The
    // process waits for these threads. They end after their driver.
    drop((context, pool, machine));
    while threads() > before {
        std::thread::yield_now();
    }
}

#[test]
fn mistakes_of_kernels_are_told_by_thread_and_line() {
    let output = run("check", "QUIPU_CHECK", "1");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        ["cpu", "serial", "sim"]
            .iter()
            .all(|driver| out.contains(&format!("{driver} has told"))),
        "{out}"
    );
    // Once for each device: of what is asked for, who asks is told.
    let err = String::from_utf8_lossy(&output.stderr);
    let lines = err.lines().filter(|line| line.starts_with("quipu: "));
    let unheard: Vec<_> = lines.collect();
    assert_eq!(unheard.len(), 3, "{err}");
    for line in unheard {
        assert!(
            line.contains("environment::next") && line.contains(&place("// outside")),
            "{line}"
        );
    }
}

/// Has no source: to the barrier come those threads of which the input says so.
#[kernel]
async fn for_processors(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    if x[acc.index(Block, Threads)[0]] == 0 {
        acc.sync_block_threads().await; // some threads
    }
    for (_, y) in y.each() {
        *y += 1;
    }
}

#[test]
#[ignore = "run by `a_kernel_that_other_devices_refuse_is_told_where_it_runs`"]
fn portable() {
    let platform = Platform::builder().cuda(false).opencl(false);
    let context = platform.build().unwrap().context().unwrap();
    for driver in ["cpu", "serial"] {
        let mut devices = context.devices().iter();
        let device = devices.find(|device| device.driver_name() == driver);
        let queue = context.queue(device.unwrap()).unwrap();
        let x = context.buffer(&[0_u32; 4]).unwrap();
        let mut y = context.allocate::<u32>(4).unwrap();
        for _ in 0..2 {
            let division = WorkDivision::new(1, 4, 1);
            match queue.launch(division, for_processors(&x, &mut y)) {
                Ok(_) => println!("{driver} has {:?}", queue.read(&y).unwrap().wait().unwrap()),
                Err(error) => println!("{driver} refuses {error}"),
            }
        }
    }
}

#[test]
fn a_kernel_that_other_devices_refuse_is_told_where_it_runs() {
    let at = place("// some threads");
    let output = run("portable", "QUIPU_CHECK", "");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    for driver in ["cpu", "serial"] {
        assert!(out.contains(&format!("{driver} has [2, 2, 2, 2]")), "{out}");
    }
    let told = err.lines().filter(|line| line.contains("quipu: warning: "));
    let told: Vec<_> = told.collect();
    let [one] = told[..] else {
        panic!("it is told once: {err}");
    };
    assert!(
        one.contains("'for_processors'") && one.contains(&at),
        "{one}"
    );

    let output = run("portable", "QUIPU_CHECK", "0");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("quipu: warning: "), "{err}");

    let output = run("portable", "QUIPU_CHECK", "1");
    let out = String::from_utf8_lossy(&output.stdout);
    for driver in ["cpu", "serial"] {
        let refuses = format!("{driver} refuses ");
        let lines: Vec<_> = out.lines().filter(|line| line.contains(&refuses)).collect();
        assert_eq!(lines.len(), 2, "{out}");
        assert!(lines.iter().all(|line| line.contains(&at)), "{out}");
    }
}

/// Variables that are no user's: by which a program knows itself as a session that it has started.
const OWN: [&str; 1] = ["QUIPU_SERVES_SESSION"];

/// The words between two of these characters that begin with `QUIPU_`.
fn variables(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).filter(|part| {
        let name = part.strip_prefix("QUIPU_");
        let is_letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        name.is_some_and(|name| name.chars().all(is_letter) && !name.starts_with("TEST_"))
    })
}

/// The variables of the page for people.
fn documented() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/environment.md")).expect("the page is there");
    variables(&page, '`').map(str::to_owned).collect()
}

/// The use of the environment by the sources in a folder: the variables that they name, and files
/// that read others than these.
#[derive(Default)]
struct Said {
    names: BTreeSet<String>,
    reading: Vec<(PathBuf, String)>,
}

impl Said {
    fn read(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                self.read(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !path.ends_with("tests.rs")
            {
                let text = fs::read_to_string(&path).expect("sources are text");
                self.names.extend(variables(&text, '"').map(str::to_owned));
                let lines = text.lines().map(str::trim);
                let reads = lines.filter(|line| {
                    !line.starts_with("//")
                        && (line.contains("env::var") || line.contains("env::vars"))
                });
                self.reading
                    .extend(reads.map(|line| (path.clone(), line.to_owned())));
            }
        }
    }
}

/// Of each variable of the system's that is read, how that is written.
const OF_THE_SYSTEM: [&str; 14] = [
    "\"PATH\"",
    "\"HOME\"",
    "\"XDG_CACHE_HOME\"",
    "\"LD_LIBRARY_PATH\"",
    "\"NO_COLOR\"",
    "\"HOSTNAME\"",
    "QUIPU_TEST_",
    // What the table's variables and the system's folders are read by.
    "resolve(|name| std::env::var_os(name))",
    "read(|variable| std::env::var_os(variable))",
    "std::env::var_os(name).filter(|value| !value.is_empty())",
    // Where OpenCL's loader looks.
    "var_os(\"OCL_ICD_VENDORS\")",
    // Where `cl3` looks for that loader.
    "var_os(CL3_LOADER)",
    // The toolkits of CUDA, and where libraries are.
    ".filter_map(std::env::var_os)",
    "std::env::var_os(IS_SESSION)",
];

#[test]
fn every_variable_is_in_the_table_and_on_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut said = Said::default();
    for folder in [
        "core/src",
        "core/choice/src",
        "kernels/clc/src",
        "kernels/lang/src",
        "frontends/rust/src",
        "frontends/node/src",
        "cli/src",
    ] {
        said.read(&root.join(folder));
    }
    for crates in ["drivers", "net"] {
        for folder in fs::read_dir(root.join(crates)).expect("it has crates") {
            let folder = folder.expect("it can be read").path().join("src");
            if folder.is_dir() {
                said.read(&folder);
            }
        }
    }
    // A variable that is named there has been read past the table.
    assert_eq!(said.names, BTreeSet::from(OWN.map(str::to_owned)));
    for (path, line) in said.reading {
        assert!(
            OF_THE_SYSTEM.iter().any(|known| line.contains(known)),
            "{} reads the environment past the table: {line}",
            path.display()
        );
    }
    let table: BTreeSet<String> = quipu_environment::ALL
        .iter()
        .map(|variable| variable.name().to_owned())
        .collect();
    assert_eq!(table, documented());
}

#[test]
#[ignore = "run by `nonsense_is_refused_of_every_variable`"]
fn platform() {
    println!("new: {}", Platform::new().unwrap_err());
    let available = Platform::builder().build_available();
    for unavailable in available.unavailable() {
        println!("available: {}", unavailable.error);
    }
    println!("logging: {:?}", quipu::init_logging_from_env());
}

#[test]
fn nonsense_is_refused_of_every_variable() {
    let program = std::env::current_exe().expect("a test has an executable");
    let program = program.to_str().expect("its path is text");
    let within = format!("{program}/trace.json");
    let nonsense = |name: &str| match name {
        "QUIPU_CPU_WORKERS" => vec!["none", "0", "257"],
        "QUIPU_CPU_PIN" => vec!["first", "3-1"],
        "QUIPU_CUDA" => vec!["1", "maybe", "OFF"],
        "QUIPU_OPENCL" => vec!["maybe", "false"],
        "QUIPU_OPENCL_DEVICES" => vec!["cpu,,remote", ","],
        "QUIPU_DISCOVERY" => vec!["no", "0"],
        "QUIPU_OPENCL_VENDORS" => vec!["/nowhere/vendors"],
        "QUIPU_NVRTC" => vec!["/nowhere/libnvrtc.so", "yes"],
        "QUIPU_NODES" => vec!["nobody"],
        "QUIPU_HOME" | "QUIPU_CACHE" | "QUIPU_DUMP" | "QUIPU_LLVM" => vec![program],
        "QUIPU_CLC" => vec!["/nowhere/quipu-clc"],
        "QUIPU_SPIN" => vec!["long", "1000001", "-1"],
        "QUIPU_COMPRESSION" => vec!["gzip", "on"],
        "QUIPU_CHECK" => vec!["yes", "2"],
        "QUIPU_EXECUTION" => vec!["fast", "lockstep:65", "native:5"],
        "QUIPU_FEATURE_LEVEL" => vec!["avx", "v5"],
        "QUIPU_LOG" => vec!["verbose", "quipu_scheduler=loud"],
        "QUIPU_WATCH" => vec!["soon", "0", "-1"],
        "QUIPU_TRACE" => vec![within.as_str()],
        "QUIPU_TRACE_LIMIT" => vec!["much", "-1"],
        _ => panic!("{name} is on the page, and here is no nonsense for it"),
    };
    for name in documented() {
        let variable = quipu_environment::ALL.iter();
        let takes = variable.map(|known| (known.name(), known.takes()));
        let takes = takes
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1;
        for value in nonsense(&name) {
            let output = run("platform", &name, value);
            let out = String::from_utf8_lossy(&output.stdout);
            for from in ["new: ", "available: "] {
                let is_told = out.lines().any(|line| {
                    line.contains(from)
                        && line.contains(&format!("{name}={value}: expected {takes}"))
                });
                assert!(is_told, "{name}={value} is not refused by {from}{out}");
            }
        }
    }
}

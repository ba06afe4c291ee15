//! What the environment can ask for: a log, a trace, and that kernels are checked. Each in a process of its
//! own, which runs one of the tests below that are ignored otherwise. And that all it can ask for is documented.

use quipu::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
    println!("logging: {:?}", quipu::init_logging_from_env());
    work().unwrap();
    let again = quipu::init_logging_from_env();
    assert!(!matches!(again, Ok(true)), "there is one already");
}

#[test]
fn the_log_is_what_the_variable_asks_for() {
    let output = run("log", "QUIPU_LOG", "quipu_core=trace");
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

/// Where in this file a line ends with a mark.
fn place(mark: &str) -> String {
    let mut lines = include_str!("environment.rs").lines().zip(1..);
    let line = lines.find(|(line, _)| line.ends_with(mark));
    let (_, line) = line.expect("a line has the mark");
    format!("environment.rs:{line}:")
}

#[test]
#[ignore = "run by `mistakes_of_kernels_are_told_by_thread_and_line`"]
fn check() {
    // Without CUDA and OpenCL, which have no such mode.
    let platform = Platform::builder().cuda(false).opencl(false).build();
    let context = platform.unwrap().context().unwrap();
    for driver in ["cpu", "serial"] {
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
        println!("{driver} has told");
    }
}

#[test]
fn mistakes_of_kernels_are_told_by_thread_and_line() {
    let output = run("check", "QUIPU_CHECK", "1");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        out.contains("cpu has told") && out.contains("serial has told"),
        "{out}"
    );
}

/// Variables that are no user's: by which a program knows itself as a session that it has started.
const OWN: [&str; 1] = ["QUIPU_SERVES_SESSION"];

/// What is between these two characters and begins with `QUIPU_`.
fn variables(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).filter(|part| {
        let name = part.strip_prefix("QUIPU_");
        let is_letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        name.is_some_and(|name| name.chars().all(is_letter) && !name.starts_with("TEST_"))
    })
}

/// The variables that are named in the sources in a folder.
fn named_in(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            named_in(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            names.extend(variables(&text, '"').map(str::to_owned));
        }
    }
}

#[test]
fn every_variable_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named = BTreeSet::new();
    for folder in [
        "core/src",
        "kernels/lang/src",
        "frontends/rust/src",
        "cli/src",
    ] {
        named_in(&root.join(folder), &mut named);
    }
    for crates in ["drivers", "wire"] {
        for folder in fs::read_dir(root.join(crates)).expect("it has crates") {
            let folder = folder.expect("it can be read").path().join("src");
            // What tests have networks from is theirs.
            if folder.is_dir() && !folder.starts_with(root.join("wire/lab")) {
                named_in(&folder, &mut named);
            }
        }
    }
    for own in OWN {
        assert!(named.remove(own), "{own}");
    }
    let page = fs::read_to_string(root.join("docs/environment.md")).expect("the page is there");
    let documented: BTreeSet<String> = variables(&page, '`').map(str::to_owned).collect();
    assert_eq!(named, documented);
}

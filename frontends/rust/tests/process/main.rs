//! The edges of a process: its exit, and its children. Each test has a process of its own, which is
//! this program, started anew. It has no harness, because the tests need the thread that runs
//! `main`.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

#[cfg(unix)]
mod exiting;
#[cfg(unix)]
mod forking;
#[cfg(unix)]
mod logging;
#[cfg(unix)]
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "../serve/loopback.rs"]
mod loopback;
#[cfg(unix)]
mod place;

/// The part of a process: the name of a function, and of a driver.
#[cfg(unix)]
const PART: &str = "QUIPU_TEST_PART";

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let Ok(part) = std::env::var(PART) else {
        return run_all();
    };
    // Whatever hangs is killed by this.
    // SAFETY: the call takes a number.
    unsafe { libc::alarm(900) };
    let (part, driver) = part.split_once(' ').unwrap();
    if part == "log" {
        return logging::start_within_the_log();
    }
    quipu::init_logging_from_env().unwrap();
    match part {
        "exit" => exiting::exit(driver),
        "exit_early" => exiting::exit_early(driver),
        "fork" => forking::fork(driver),
        "fork_first" => forking::fork_first(driver),
        _ => panic!("no part is called {part}"),
    }
}

/// Runs each part with each driver that there is.
#[cfg(unix)]
fn run_all() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let parts = [
        ("exit", ""),
        ("exit", "trace"),
        ("exit_early", ""),
        ("fork", ""),
        ("fork_first", ""),
    ];
    let each = place::DRIVERS.into_iter();
    let each = each.flat_map(|driver| parts.map(|(part, log)| (part, driver, log)));
    {
        for (part, driver, log) in each.chain([("log", "all", "")]) {
            let name = format!("{part} {driver}");
            if wanted
                .iter()
                .any(|wanted| !name.contains(wanted.as_str()) && !wanted.starts_with('-'))
            {
                continue;
            }
            let program = std::env::current_exe().unwrap();
            let mut command = std::process::Command::new(program);
            // What prints the log has thread-locals, too.
            command.env(PART, &name).env("QUIPU_LOG", log);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{name}: {output:?}\n{text}");
            if text.contains(place::NOT_HERE) {
                println!("{name}: {}", text.trim());
                let is_allowed = std::env::var("QUIPU_TEST_WITHOUT_OPENCL");
                assert!(is_allowed.is_ok_and(|value| value == "1"), "{name}: {text}");
                continue;
            }
            for line in match part {
                "exit" => &["a thread-local has waited", "a handler has waited"][..],
                "exit_early" => &["a handler was told"],
                "log" => &["drivers were started within the log"],
                _ => &["the parent goes on"],
            } {
                assert!(
                    text.contains(line),
                    "{name} does not say '{line}': {output:?}"
                );
            }
            println!("{name}: ok");
        }
    }
}

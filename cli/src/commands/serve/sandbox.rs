//! `quipu serve --check-sandbox`: the devices that sessions find in their sandbox, and the parts of
//! it that hide the others.
//!
//! 1. The program is started anew without the sandbox, within all of it, and within each of its
//!    parts alone.
//! 2. Each time it writes a line for each device, and one for each driver that has none, with the
//!    reason.
//! 3. A part hides the devices that are found without the sandbox and not within that part.

use super::{Extra, Options, platform};
use crate::commands::print;
use crate::error::CommandError;
use quipu_cli::escape;
use quipu_node::Restriction;
use quipu_node::limits::Limits;
use quipu_node::process::{Trial, enter_trial, trials};
use std::fmt::Write as _;

/// The beginning of a line about a device.
const DEVICE: &str = "device ";
/// The beginning of a line about a driver that has none.
const DRIVER: &str = "driver ";

/// The arguments that each trial's process is started with.
#[derive(clap::Args)]
pub(crate) struct TrialOptions {
    /// Bytes that a session may have.
    #[arg(long)]
    bytes: u64,

    #[command(flatten)]
    extra: Extra,

    /// The parts of the sandbox, with commas between them.
    within: String,
}

/// Prints the devices that can be found within a part of the sandbox.
pub(crate) fn run_trial(options: &TrialOptions) -> Result<(), CommandError> {
    let (_, files) = options.extra.read()?;
    let limits = Limits {
        process_bytes: options.bytes,
        ..Limits::default()
    };
    enter_trial(&options.within, &limits, &files).map_err(CommandError::Session)?;
    let (driver, _) = options.extra.start()?;
    let platform = platform(driver);
    let mut text = String::new();
    for device in quipu::serve::offered(&platform) {
        let selector = device.selector();
        let name = one_line(device.name());
        let _ = writeln!(text, "{DEVICE}{selector}, {name}");
    }
    for driver in platform.unavailable() {
        let reason = one_line(&driver.error.to_string());
        let _ = writeln!(text, "{DRIVER}{}: {reason}", driver.driver);
    }
    print(&text)
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// The findings of a trial.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    within: Vec<Restriction>,
    devices: Vec<String>,
    /// The reasons for which there are no others.
    reasons: Vec<String>,
}

impl Found {
    fn of(trial: &Trial) -> Self {
        let text = String::from_utf8_lossy(&trial.output.stdout);
        let of = |beginning: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(beginning));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut reasons = of(DRIVER);
        if !trial.output.status.success() {
            let said = String::from_utf8_lossy(&trial.output.stderr);
            reasons.push(format!(
                "{}: {}",
                trial.output.status,
                one_line(said.trim())
            ));
        }
        Self {
            within: trial.within.clone(),
            devices: of(DEVICE),
            reasons,
        }
    }

    fn names(&self) -> String {
        match &self.within[..] {
            [] => "without the sandbox".to_owned(),
            [one] => format!("within its {} alone", one.name()),
            _ => "in the sandbox".to_owned(),
        }
    }
}

/// The verdict of all trials, in words; and true if sessions find everything.
fn verdict(all: &[Found]) -> (String, bool) {
    let mut text = String::new();
    let Some((free, restricted)) = all.split_first() else {
        return (text, false);
    };
    let _ = writeln!(text, "without the sandbox:");
    for device in &free.devices {
        let _ = writeln!(text, "  {}", escape::terminal(device));
    }
    let mut whole = true;
    for found in restricted {
        let is_missing = |device: &&String| !found.devices.contains(device);
        let missing: Vec<&String> = free.devices.iter().filter(is_missing).collect();
        whole &= missing.is_empty() || found.within.len() == 1;
        if missing.is_empty() {
            let _ = writeln!(text, "{}: all of them", found.names());
            continue;
        }
        let _ = writeln!(text, "{}: not", found.names());
        for device in missing {
            let _ = writeln!(text, "  {}", escape::terminal(device));
        }
        let is_new = |reason: &&String| !free.reasons.contains(reason);
        for reason in found.reasons.iter().filter(is_new) {
            let _ = writeln!(text, "  because {}", escape::terminal(reason));
        }
    }
    (text, whole)
}

/// Tries and prints.
pub(super) fn check(options: &Options) -> Result<(), CommandError> {
    let bytes = options.limits().process_bytes.to_string();
    let spawn = options.extra.spawn(&["sandboxed", "--bytes", &bytes])?;
    let trials = trials(&spawn).map_err(CommandError::Session)?;
    let found: Vec<Found> = trials.iter().map(Found::of).collect();
    let (text, whole) = verdict(&found);
    print(&text)?;
    match whole {
        true => Ok(()),
        false => Err(CommandError::Sandbox),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(within: &[Restriction], devices: &[&str], reasons: &[&str]) -> Found {
        Found {
            within: within.to_vec(),
            devices: devices.iter().map(ToString::to_string).collect(),
            reasons: reasons.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn what_hides_a_device_is_named_with_its_reason() {
        let hidden = "cuda: cuInit failed: an operating system call failed";
        let none = "opencl: there is no library";
        let [limits, namespaces, rights, files, calls] = Restriction::ALL;
        let all = [
            found(&[], &["cpu:0", "cuda:0"], &[none]),
            found(&Restriction::ALL, &["cpu:0"], &[none, hidden]),
            found(&[limits], &["cpu:0", "cuda:0"], &[none]),
            found(&[namespaces], &["cpu:0", "cuda:0"], &[none]),
            found(&[rights], &["cpu:0", "cuda:0"], &[none]),
            found(&[files], &["cpu:0", "cuda:0"], &[none]),
            found(&[calls], &["cpu:0"], &[none, hidden]),
        ];
        let (text, whole) = verdict(&all);
        assert!(!whole);
        let expected = "without the sandbox:\n  cpu:0\n  cuda:0\n\
             in the sandbox: not\n  cuda:0\n  because cuda: cuInit failed: an operating system call failed\n\
             within its limits alone: all of them\n\
             within its namespaces alone: all of them\n\
             within its rights alone: all of them\n\
             within its files alone: all of them\n\
             within its calls alone: not\n  cuda:0\n  because cuda: cuInit failed: an operating system call failed\n";
        assert_eq!(text, expected);
        assert!(verdict(&all[..1]).1);
    }
}

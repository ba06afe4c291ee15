//! Failures that a node reports, and the loss of a node.

use crate::locked;
use quipu_device_queue::Failure as _;
use quipu_protocol::message::{Failed, Failure};
use quipu_scheduler::error::{BufferName, Unit};
use quipu_scheduler::{Error, ErrorKind};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;

/// The reason for which a node gives nothing more, or a command could not be sent.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The connection is lost. Says which node's, and why.
    Lost(String),
    /// There is no room for it now.
    Full(String),
    /// It makes no sense to the protocol.
    NotSent(String),
}

impl quipu_device_queue::Failure for Refusal {
    fn is_loss(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    fn text(&self) -> String {
        let (Self::Lost(text) | Self::Full(text) | Self::NotSent(text)) = self;
        text.clone()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// Names of operations and drivers that nodes have said: errors take such as live for ever, and a
/// node may say anything.
struct Names(Mutex<BTreeSet<&'static str>>);

static NAMES: Names = Names(Mutex::new(BTreeSet::new()));

impl Names {
    /// So many are kept, of so many bytes each.
    const MOST: usize = 256;
    const LONGEST: usize = 256;

    /// A name that lives for ever; another, if there are too many.
    fn kept(&self, name: &str, else_: &'static str) -> &'static str {
        if name.is_empty() {
            return else_;
        }
        let mut names = locked(&self.0);
        if let Some(known) = names.get(name) {
            return known;
        }
        if names.len() >= Self::MOST || name.len() > Self::LONGEST {
            return else_;
        }
        let kept: &'static str = Box::leak(Box::from(name));
        names.insert(kept);
        kept
    }
}

/// The core's error for a node's failure of a command: the one that the node had, and the node's
/// name.
fn of_node(node: &str, failed: &Failed<'_>) -> Error {
    let [asked, free, capacity] = failed.numbers;
    let text = failed.text.to_owned();
    let or = |what: &str, else_: &str| {
        if what.is_empty() {
            else_.to_owned()
        } else {
            what.to_owned()
        }
    };
    let on_node = |what: &str| format!("{} on node '{node}'", or(what, "a command"));
    let device = || format!("{} on node '{node}'", or(failed.what, "a device"));
    let of_command = |message| ErrorKind::Kernel {
        what: on_node(failed.what),
        message,
    };
    match failed.failure {
        Failure::Cancelled => ErrorKind::Cancelled {
            what: on_node(failed.what),
        },
        Failure::Dependency => ErrorKind::Dependency {
            cause: of_command(text).into(),
        },
        Failure::Kernel => of_command(text),
        Failure::Panicked => ErrorKind::Panicked {
            what: on_node(failed.what),
            message: text,
        },
        Failure::Device => {
            // A node that is older says the message alone.
            let said = text.split_once(": ");
            let (what, message) = said.unwrap_or(("run a command", &text));
            ErrorKind::Device {
                device: device(),
                what: what.to_owned(),
                message: message.to_owned(),
            }
        }
        Failure::DeviceLost => ErrorKind::DeviceLost {
            device: format!("{} on {node}", or(failed.what, "a device")),
            reason: text,
        },
        Failure::OutOfMemory => ErrorKind::OutOfMemory {
            device: device(),
            asked,
            free,
            capacity,
        },
        Failure::Unsupported => {
            // As in the error's text: the thing that the driver cannot do, and the remedy.
            let said = text.strip_prefix(&format!("{} cannot ", failed.what));
            match said.and_then(|said| said.split_once("; ")) {
                Some((what, instead)) => ErrorKind::Unsupported {
                    driver: NAMES.kept(failed.what, "remote"),
                    what: format!("{what} on node '{node}'"),
                    instead: NAMES.kept(instead, "use another device"),
                },
                None => ErrorKind::Unsupported {
                    driver: "remote",
                    what: format!(
                        "do that on node '{node}': {}",
                        or(&text, "it does not say why")
                    ),
                    instead: "use another device",
                },
            }
        }
        Failure::InvalidArgument => {
            let what = NAMES.kept(failed.what, "run a command");
            let invalid = || ErrorKind::InvalidArgument {
                what,
                problem: format!("{text} (node '{node}')"),
            };
            out_of_bounds(node, what, &text).unwrap_or_else(invalid)
        }
        Failure::InvalidSize => ErrorKind::InvalidSize {
            what: NAMES.kept(failed.what, "run a command"),
            problem: format!("{text} (node '{node}')"),
        },
        Failure::Other => of_command(text),
    }
    .into()
}

/// A node's last messages on commands that have failed. A later failure names one of them as its
/// cause. These are not the errors themselves: an error that no one asks for is reported when it is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Failures(VecDeque<Said>);

#[derive(Debug)]
struct Said {
    event: u64,
    failure: Failure,
    numbers: [u64; 3],
    what: String,
    text: String,
}

impl Failures {
    const MOST: usize = 64;

    /// The core's error for a node's failure of a command. It is remembered.
    pub(crate) fn error(&mut self, node: &str, failed: &Failed<'_>) -> Error {
        if failed.failure != Failure::Dependency {
            self.0.truncate(Self::MOST - 1);
            self.0.push_front(Said {
                event: failed.event,
                failure: failed.failure,
                numbers: failed.numbers,
                what: failed.what.to_owned(),
                text: failed.text.to_owned(),
            });
            return of_node(node, failed);
        }
        match self.0.iter().find(|said| said.event == failed.cause) {
            Some(said) => of_node(node, &said.failed()).for_dependant(),
            None => of_node(node, failed),
        }
    }
}

impl Said {
    fn failed(&self) -> Failed<'_> {
        Failed {
            event: self.event,
            cause: 0,
            failure: self.failure,
            numbers: self.numbers,
            what: &self.what,
            text: &self.text,
        }
    }
}

/// The error whose text this is, if it says of a range that it lies outside of its buffer. The
/// protocol has no failure of its own for that.
fn out_of_bounds(node: &str, what: &'static str, text: &str) -> Option<ErrorKind> {
    let (unit, rest) = text.split_once(' ')?;
    let (range, rest) = rest.split_once(" lie outside of '")?;
    let (start, end) = range.split_once("..")?;
    let (rest, size) = rest.rsplit_once(", which has ")?;
    let size = size.strip_suffix("; use a range within it")?;
    let (label, argument) = rest.rsplit_once('\'')?;
    let argument = argument.strip_prefix(" (argument ");
    let argument = argument.and_then(|rest| rest.split(',').next());
    let error = |label: String| {
        Some(ErrorKind::OutOfBounds {
            what,
            buffer: BufferName {
                label,
                argument: argument.map(str::parse).transpose().ok()?,
            },
            unit: [Unit::Bytes, Unit::Elements]
                .into_iter()
                .find(|known| known.to_string() == unit)?,
            start: start.parse().ok()?,
            end: end.parse().ok()?,
            size: size.parse().ok()?,
        })
    };
    // It is that error only if that says just this.
    let is_it = error(label.to_owned())?.to_string() == format!("{what}: {text}");
    is_it.then(|| error(format!("{label} on node '{node}'")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of each kind as a node says it, and its form here.
    #[test]
    fn an_error_over_a_node_is_the_one_that_it_has_and_the_nodes_name() {
        let cases = [
            (
                (
                    Failure::Device,
                    "a pool",
                    "run 'k': clSetKernelArg: -51",
                    [0; 3],
                ),
                "device 'a pool on node 'attic'' failed to run 'k': clSetKernelArg: -51",
            ),
            (
                (Failure::Kernel, "'k'", "a bad index", [0; 3]),
                "'k' on node 'attic' failed: a bad index",
            ),
            (
                (Failure::Panicked, "'k'", "an assertion", [0; 3]),
                "'k' on node 'attic' panicked: an assertion",
            ),
            (
                (Failure::Dependency, "", "'k' failed: a bad index", [0; 3]),
                "not run, because a command that it depends on failed: a command on node 'attic' failed: 'k' failed: a bad index",
            ),
            (
                (Failure::DeviceLost, "a pool", "it was pulled out", [0; 3]),
                "device 'a pool on attic' is lost: it was pulled out; other devices go on, also in a context without it. Write a buffer whose only copy was there as a whole to use it again",
            ),
            (
                (Failure::OutOfMemory, "a pool", "as below", [8, 4, 6]),
                "a pool on node 'attic' has no memory for 8 bytes: 4 of 6 bytes are free; free buffers or split the work",
            ),
            (
                (
                    Failure::Unsupported,
                    "opencl",
                    "opencl cannot run that; use a simpler kernel",
                    [0; 3],
                ),
                "opencl cannot run that on node 'attic'; use a simpler kernel",
            ),
            (
                (
                    Failure::InvalidArgument,
                    "copy",
                    "the sides overlap",
                    [0; 3],
                ),
                "copy: the sides overlap (node 'attic')",
            ),
            (
                (
                    Failure::InvalidArgument,
                    "copy",
                    "bytes 3..9 lie outside of 'one', which has 8; use a range within it",
                    [0; 3],
                ),
                "copy: bytes 3..9 lie outside of 'one on node 'attic'', which has 8; use a range within it",
            ),
            (
                (
                    Failure::InvalidArgument,
                    "copy",
                    "elements 3..9 lie outside of 'a, b' (argument 1, counted from 0), which has 8; use a range within it",
                    [0; 3],
                ),
                "copy: elements 3..9 lie outside of 'a, b on node 'attic'' (argument 1, counted from 0), which has 8; use \
                 a range within it",
            ),
            (
                (
                    Failure::InvalidArgument,
                    "copy",
                    "rows 3..9 lie outside of 'one', which has 8; use a range within it",
                    [0; 3],
                ),
                "copy: rows 3..9 lie outside of 'one', which has 8; use a range within it (node 'attic')",
            ),
            (
                (Failure::InvalidSize, "fill", "it is zero", [0; 3]),
                "fill: it is zero (node 'attic')",
            ),
            (
                (Failure::Other, "", "the context is lost", [0; 3]),
                "a command on node 'attic' failed: the context is lost",
            ),
        ];
        for ((failure, what, text, numbers), expected) in cases {
            let failed = Failed {
                event: 3,
                cause: 0,
                failure,
                numbers,
                what,
                text,
            };
            let error = of_node("attic", &failed);
            assert_eq!(error.to_string(), expected);
            let is_kept = match failure {
                Failure::InvalidArgument
                    if text.contains("s 3..9 lie") && !text.starts_with("rows") =>
                {
                    matches!(
                        error.kind(),
                        ErrorKind::OutOfBounds {
                            start: 3,
                            end: 9,
                            size: 8,
                            ..
                        }
                    )
                }
                Failure::InvalidArgument => {
                    matches!(error.kind(), ErrorKind::InvalidArgument { .. })
                }
                Failure::InvalidSize => matches!(error.kind(), ErrorKind::InvalidSize { .. }),
                Failure::Unsupported => matches!(error.kind(), ErrorKind::Unsupported { .. }),
                Failure::Device => matches!(error.kind(), ErrorKind::Device { .. }),
                _ => true,
            };
            assert!(is_kept, "{error:?}");
        }
    }

    #[test]
    fn what_fails_for_another_command_has_its_error_as_the_cause() {
        let mut failures = Failures::default();
        let mut fails = |event, cause, failure, what, text| {
            let failed = Failed {
                event,
                cause,
                failure,
                numbers: [0; 3],
                what,
                text,
            };
            failures.error("attic", &failed)
        };
        let first = fails(3, 0, Failure::Device, "a pool", "run 'k': it is broken");
        let text = "device 'a pool' failed to run 'k': it is broken";
        let next = fails(4, 3, Failure::Dependency, "", text);
        assert!(matches!(
            next.first_cause().kind(),
            ErrorKind::Device { .. }
        ));
        assert_eq!(next.to_string(), first.for_dependant().to_string());
        // Of one that is not remembered any more, the node's text is left.
        for event in 5..100 {
            fails(event, 0, Failure::Kernel, "'k'", "a bad index");
        }
        let late = fails(100, 3, Failure::Dependency, "", text);
        assert!(late.to_string().ends_with(text), "{late}");
    }

    #[test]
    fn a_node_that_says_ever_new_names_fills_no_memory() {
        let names = Names(Mutex::default());
        for number in 0..10 * Names::MOST {
            names.kept(&format!("operation {number}"), "something");
        }
        assert_eq!(locked(&names.0).len(), Names::MOST);
        assert_eq!(names.kept("operation 3", "something"), "operation 3");
        for name in ["one more", ""] {
            assert_eq!(names.kept(name, "something"), "something");
        }
        let names = Names(Mutex::default());
        let long = "x".repeat(Names::LONGEST + 1);
        assert_eq!(names.kept(&long, "something"), "something");
    }

    #[test]
    fn what_was_cancelled_is_named_if_the_node_has_named_it() {
        let said = |what| {
            let failed = Failed {
                event: 3,
                cause: 0,
                failure: Failure::Cancelled,
                numbers: [0; 3],
                what,
                text: "",
            };
            let error = of_node("attic", &failed);
            assert!(error.is_cancelled());
            error.to_string()
        };
        assert_eq!(
            said("'sum' on 'a pool'"),
            "'sum' on 'a pool' on node 'attic' was cancelled before it started"
        );
        assert!(said("").starts_with("a command on node 'attic' was cancelled"));
    }
}

//! Errors in the protocol's words.

use quipu_protocol::limits::{MAX_NAME, MAX_TEXT};
use quipu_protocol::message::{Failed, Failure, presentable};
use quipu_scheduler::{Error, ErrorKind};

/// A failure as it is sent.
#[derive(Debug)]
pub(crate) struct Told {
    failure: Failure,
    numbers: [u64; 3],
    what: String,
    text: String,
}

impl Told {
    /// An error's.
    pub(crate) fn of(error: &Error) -> Self {
        let mut numbers = [0; 3];
        // Which of its buffers a node's device had the only copy of, clients know by names of their
        // own.
        let error = match error.kind() {
            ErrorKind::ContentLost { cause, .. } => cause,
            _ => error,
        };
        let all = || error.to_string();
        let (failure, what, text) = match error.kind() {
            ErrorKind::Cancelled { what } => (Failure::Cancelled, what.as_str(), String::new()),
            ErrorKind::Dependency { cause } => (Failure::Dependency, "", cause.to_string()),
            ErrorKind::Kernel { what, message } => {
                (Failure::Kernel, what.as_str(), message.clone())
            }
            ErrorKind::Panicked { what, message } => {
                (Failure::Panicked, what.as_str(), message.clone())
            }
            // What it failed to do comes first of the text, as in the error itself.
            ErrorKind::Device {
                device,
                what,
                message,
            } => (
                Failure::Device,
                device.as_str(),
                format!("{what}: {message}"),
            ),
            ErrorKind::DeviceLost { device, reason } => {
                (Failure::DeviceLost, device.as_str(), reason.clone())
            }
            ErrorKind::OutOfMemory {
                device,
                asked,
                free,
                capacity,
            } => {
                numbers = [*asked, *free, *capacity];
                (Failure::OutOfMemory, device.as_str(), all())
            }
            ErrorKind::Unsupported { driver, .. } => (Failure::Unsupported, *driver, all()),
            ErrorKind::InvalidArgument { what, problem } => {
                (Failure::InvalidArgument, *what, problem.clone())
            }
            ErrorKind::InvalidSize { what, problem } => {
                (Failure::InvalidSize, *what, problem.clone())
            }
            ErrorKind::OutOfBounds { what, .. } => {
                let all = all();
                // The operation is said beside it.
                let problem = all.strip_prefix(&format!("{what}: ")).unwrap_or(&all);
                (Failure::InvalidArgument, *what, problem.to_owned())
            }
            _ => (Failure::Other, "", all()),
        };
        Self {
            failure,
            numbers,
            what: presentable(what, MAX_NAME),
            text: presentable(&text, MAX_TEXT),
        }
    }

    /// The message, of a command, and of the one whose failure was the first.
    pub(crate) fn message(&self, event: u64, cause: u64) -> Failed<'_> {
        let is_caused = self.failure == Failure::Dependency;
        Failed {
            event,
            cause: if is_caused { cause } else { 0 },
            failure: self.failure,
            numbers: self.numbers,
            what: &self.what,
            text: &self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_scheduler::error::{BufferName, Unit};

    fn told(kind: ErrorKind) -> (Failure, String, String) {
        let told = Told::of(&kind.into());
        (told.failure, told.what, told.text)
    }

    /// `drivers/remote` tests its errors of these.
    #[test]
    fn nothing_of_an_error_is_left_out_and_nothing_said_twice() {
        let text = str::to_owned;
        let device = ErrorKind::Device {
            device: text("a pool"),
            what: text("run 'k'"),
            message: text("clSetKernelArg: error -51"),
        };
        let expected = (
            Failure::Device,
            text("a pool"),
            text("run 'k': clSetKernelArg: error -51"),
        );
        assert_eq!(told(device), expected);
        let one = || BufferName {
            label: text("one"),
            argument: None,
        };
        let cause = || ErrorKind::FailedByHost { reason: text("no") }.into();
        for (kind, failure, what, said) in [
            (
                ErrorKind::Kernel {
                    what: text("'k'"),
                    message: text("a bad index"),
                },
                Failure::Kernel,
                "'k'",
                "a bad index",
            ),
            (
                ErrorKind::Panicked {
                    what: text("'k'"),
                    message: text("an assertion"),
                },
                Failure::Panicked,
                "'k'",
                "an assertion",
            ),
            (
                ErrorKind::Dependency { cause: cause() },
                Failure::Dependency,
                "",
                "failed by the host: no",
            ),
            (
                ErrorKind::DeviceLost {
                    device: text("a pool"),
                    reason: text("it was pulled out"),
                },
                Failure::DeviceLost,
                "a pool",
                "it was pulled out",
            ),
            (
                ErrorKind::ContentLost {
                    buffer: text("one"),
                    cause: cause(),
                },
                Failure::Other,
                "",
                "failed by the host: no",
            ),
            (
                ErrorKind::Unsupported {
                    driver: "opencl",
                    what: text("run that"),
                    instead: "use a simpler kernel",
                },
                Failure::Unsupported,
                "opencl",
                "opencl cannot run that; use a simpler kernel",
            ),
            (
                ErrorKind::InvalidArgument {
                    what: "copy",
                    problem: text("the sides overlap"),
                },
                Failure::InvalidArgument,
                "copy",
                "the sides overlap",
            ),
            (
                ErrorKind::Mapped {
                    what: "copy",
                    buffer: one(),
                    guard: text("view"),
                    unit: Unit::Bytes,
                    start: 0,
                    end: 8,
                },
                Failure::Other,
                "",
                "copy: 'one' is mapped at bytes 0..8 by 'view'; drop that guard first",
            ),
        ] {
            assert_eq!(told(kind), (failure, text(what), text(said)));
        }
        let memory = Told::of(
            &ErrorKind::OutOfMemory {
                device: text("a pool"),
                asked: 8,
                free: 4,
                capacity: 6,
            }
            .into(),
        );
        assert_eq!(
            (memory.failure, &*memory.what),
            (Failure::OutOfMemory, "a pool")
        );
        assert_eq!(memory.numbers, [8, 4, 6]);
        let bounds = ErrorKind::OutOfBounds {
            what: "copy",
            buffer: one(),
            unit: Unit::Bytes,
            start: 3,
            end: 9,
            size: 8,
        };
        let (failure, what, problem) = told(bounds);
        assert_eq!((failure, &*what), (Failure::InvalidArgument, "copy"));
        assert!(
            problem.starts_with("bytes 3..9 lie outside of 'one', which has 8"),
            "{problem}"
        );
        let size = ErrorKind::InvalidSize {
            what: "fill",
            problem: text("it is zero"),
        };
        let expected = (Failure::InvalidSize, text("fill"), text("it is zero"));
        assert_eq!(told(size), expected);
    }

    #[test]
    fn what_was_cancelled_is_named() {
        let what = "'sum' on 'a pool'".to_owned();
        let told = Told::of(&ErrorKind::Cancelled { what }.into());
        let message = told.message(3, 0);
        assert_eq!(
            (message.failure, message.what),
            (Failure::Cancelled, "'sum' on 'a pool'")
        );
    }
}

//! Errors in the protocol's words.

use quipu_core::{Error, ErrorKind};
use quipu_wire::limits::{MAX_NAME, MAX_TEXT};
use quipu_wire::message::{Failed, Failure, presentable};

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
        // Which of its buffers a node's device had the only copy of, clients know by names of their own.
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
            ErrorKind::Device {
                device, message, ..
            } => (Failure::Device, device.as_str(), message.clone()),
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
            ErrorKind::OutOfBounds { what, .. } => (Failure::InvalidArgument, *what, all()),
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

//! What can go wrong, said for people: what was asked, what was wrong, what to
//! do about it.

use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The result of Quipu's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the core. Cheap to clone: one failure may end many commands.
#[derive(Clone)]
pub struct Error(Arc<ErrorKind>);

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A size of zero, or one that overflows, was asked for.
    #[error("{what}: {problem}")]
    InvalidSize {
        /// The operation.
        what: &'static str,
        /// What is wrong with the size.
        problem: String,
    },
    /// A byte range lies outside of its buffer.
    #[error(
        "{what}: bytes {start}..{end} lie outside of a buffer of {size} bytes; use a range within it"
    )]
    OutOfBounds {
        /// The operation.
        what: &'static str,
        /// First byte of the range.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of the buffer.
        size: u64,
    },
    /// An argument is not what the operation needs.
    #[error("{what}: {problem}")]
    InvalidArgument {
        /// The operation.
        what: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A buffer or event belongs to another context.
    #[error("{what}: the {object} belongs to another context; create it in this queue's context")]
    WrongContext {
        /// The operation.
        what: &'static str,
        /// What belongs elsewhere.
        object: &'static str,
    },
    /// The command was cancelled before it started.
    #[error("{what} was cancelled before it started")]
    Cancelled {
        /// What was not done: of a command its label or kind, and its device.
        what: String,
    },
    /// A user event was dropped without being completed.
    #[error(
        "the user event made at {made_at} was dropped before it was completed; keep it until `complete` or `fail` has been called"
    )]
    Abandoned {
        /// Where in the program it was made.
        made_at: &'static Location<'static>,
    },
    /// A user event was completed as failed.
    #[error("failed by the host: {reason}")]
    FailedByHost {
        /// The reason given.
        reason: String,
    },
    /// A command was not run because one that it depends on failed.
    #[error("not run, because a command that it depends on failed: {cause}")]
    Dependency {
        /// The first cause.
        cause: Error,
    },
    /// A kernel or host task panicked.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// The kernel or task.
        what: String,
        /// The panic's message.
        message: String,
    },
    /// A kernel reported an error of its own.
    #[error("{what} failed: {message}")]
    Kernel {
        /// The kernel or task.
        what: String,
        /// Its message.
        message: String,
    },
    /// A closure of the user's returned an error.
    #[error("{what} failed: {error}")]
    Returned {
        /// What kind of closure.
        what: &'static str,
        /// What it returned.
        error: Returned,
    },
    /// The device is gone.
    #[error(
        "device '{device}' is lost: {reason}; other devices go on, buffers whose only copy was there are lost"
    )]
    DeviceLost {
        /// The device's name.
        device: String,
        /// Why.
        reason: String,
    },
    /// What a buffer held was in the memory of a device that is gone, and nowhere else. Written again as a whole, it can be
    /// used again.
    #[error("the only copy of what '{buffer}' held is lost: {cause}")]
    ContentLost {
        /// The buffer's label, or a name made of its id.
        buffer: String,
        /// That the device is lost, and why.
        #[source]
        cause: Error,
    },
    /// The context was marked as lost.
    #[error("the context is lost: {reason}; create a new one")]
    ContextLost {
        /// Why.
        reason: String,
    },
    /// Memory could not be had.
    #[error(
        "{device} has no memory for {asked} bytes: {free} of {capacity} bytes are free; free buffers or split the work"
    )]
    OutOfMemory {
        /// The device or space.
        device: String,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free, as far as known.
        free: u64,
        /// Bytes in all, as far as known.
        capacity: u64,
    },
    /// A driver cannot do what was asked.
    #[error("{driver} cannot {what}; {instead}")]
    Unsupported {
        /// The driver's name.
        driver: &'static str,
        /// What was asked.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// A driver's device reported a failure.
    #[error("device '{device}' failed to {what}: {message}")]
    Device {
        /// The device's name.
        device: String,
        /// The operation.
        what: String,
        /// Its report.
        message: String,
    },
    /// Waiting here could never end.
    #[error("waiting would never end: {why}")]
    WouldDeadlock {
        /// Why, and what to do.
        why: &'static str,
    },
    /// A wait ran out of time. The command goes on.
    #[error("not complete within the time given; the command goes on")]
    TimedOut,
    /// The buffer is covered by a live mapping.
    #[error(
        "{what}: the buffer is mapped at bytes {start}..{end} by '{guard}'; drop that guard first"
    )]
    Mapped {
        /// The operation.
        what: &'static str,
        /// The mapping guard's label.
        guard: String,
        /// First byte mapped.
        start: u64,
        /// One past the last byte mapped.
        end: u64,
    },
}

/// What a closure of the user's returned as its error, as it was.
pub struct Returned(Box<dyn Told>);

/// Of any type that can be told to people.
trait Told: fmt::Display + Any + Send + Sync {}
impl<E: fmt::Display + Any + Send + Sync> Told for E {}

impl Returned {
    /// This error.
    pub fn new(error: impl fmt::Display + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }

    /// The error, if it is of this type.
    #[must_use]
    pub fn get<E: 'static>(&self) -> Option<&E> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The failure that started it: the cause of a dependency failure, that the device is lost which had a buffer's only
    /// copy, or the error itself.
    #[must_use]
    pub fn first_cause(&self) -> &Error {
        match &*self.0 {
            ErrorKind::Dependency { cause } | ErrorKind::ContentLost { cause, .. } => {
                cause.first_cause()
            }
            _ => self,
        }
    }

    /// The error that a closure of the user's returned, if it is the [first cause](Error::first_cause) of this one and of this
    /// type.
    #[must_use]
    pub fn returned<E: 'static>(&self) -> Option<&E> {
        match self.first_cause().kind() {
            ErrorKind::Returned { error, .. } => error.get(),
            _ => None,
        }
    }

    /// The error that a dependant of a command with this error ends with.
    #[must_use]
    pub fn for_dependant(&self) -> Error {
        match &*self.0 {
            ErrorKind::Dependency { .. } => self.clone(),
            _ => ErrorKind::Dependency {
                cause: self.clone(),
            }
            .into(),
        }
    }

    /// True if the command was cancelled, itself and not a dependency.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind(), ErrorKind::Cancelled { .. })
    }

    pub(crate) fn into_raw(self) -> u64 {
        Arc::into_raw(self.0) as u64
    }

    /// # Safety
    /// `raw` came from [`Error::into_raw`] and is used once.
    pub(crate) unsafe fn from_raw(raw: u64) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { Arc::from_raw(raw as *const ErrorKind) })
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Arc::new(kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            ErrorKind::Dependency { cause } => Some(cause),
            other => std::error::Error::source(other),
        }
    }
}

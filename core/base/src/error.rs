//! Errors of the scheduler. Their texts are for people: the request, the fault, and the remedy.

use crate::panics::{drop_panic, quietly};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of Quipu's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the core. Cheap to clone: one failure may end many commands.
#[derive(Clone)]
pub struct Error(Arc<Failure>);

/// A fault, and a flag: somebody still has to hear of it.
struct Failure {
    kind: ErrorKind,
    /// A kernel failed, and no event has been asked how it ended.
    unheard: AtomicBool,
}

/// A kernel's mistake is told in the end, even if every event of its launch was dropped.
impl Drop for Failure {
    fn drop(&mut self) {
        if *self.unheard.get_mut() {
            tell(&self.kind);
        }
    }
}

/// Tells of a failure that nobody asked for, as a panic does.
#[cold]
fn tell(kind: &ErrorKind) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "quipu: {kind}");
}

/// The memory that is left, in words, if that is known.
fn left(free: u64, capacity: u64) -> String {
    match capacity {
        0 => String::new(),
        capacity => format!(": {free} of {capacity} bytes are free"),
    }
}

/// The kind of an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A size of zero, or one that overflows, was asked for.
    #[error("{what}: {problem}")]
    InvalidSize {
        /// The operation.
        what: &'static str,
        /// The fault of the size.
        problem: String,
    },
    /// A range lies outside of its buffer.
    #[error(
        "{what}: {unit} {start}..{end} lie outside of {buffer}, which has {size}; use a range within it"
    )]
    OutOfBounds {
        /// The operation.
        what: &'static str,
        /// The buffer.
        buffer: BufferName,
        /// The unit of the range.
        unit: Unit,
        /// The first of the range.
        start: u64,
        /// One past the last.
        end: u64,
        /// The number of units that the buffer has.
        size: u64,
    },
    /// The operation cannot use an argument.
    #[error("{what}: {problem}")]
    InvalidArgument {
        /// The operation.
        what: &'static str,
        /// The fault and the remedy.
        problem: String,
    },
    /// A buffer, or another object that is used together with it, belongs to another context.
    #[error("{what}: {object} belongs to another context; create it in this queue's context")]
    WrongContext {
        /// The operation.
        what: &'static str,
        /// The object of the other context.
        object: Foreign,
    },
    /// The command was cancelled before it started.
    #[error("{what} was cancelled before it started")]
    Cancelled {
        /// The work that was not done: a command's label or kind, and its device.
        what: String,
    },
    /// A user event was dropped without being completed.
    #[error(
        "the user event made at {made_at} was dropped before it was completed; keep it until `complete` or `fail` has been called"
    )]
    Abandoned {
        /// The place in the program that made it.
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
        /// The kind of closure.
        what: &'static str,
        /// The error that it returned.
        error: Returned,
    },
    /// The device is gone.
    #[error(
        "device '{device}' is lost: {reason}; other devices go on, also in a context without it. Write a buffer whose only copy was \
         there as a whole to use it again"
    )]
    DeviceLost {
        /// The device's name.
        device: String,
        /// The reason.
        reason: String,
    },
    /// The content of a buffer was in the memory of a device that is gone, and nowhere else.
    /// Written again as a whole, the buffer can be used again.
    #[error(
        "the only copy of what '{buffer}' held is lost; write it as a whole to use it again: {cause}"
    )]
    ContentLost {
        /// The buffer's label, or a name made of its id.
        buffer: String,
        /// The loss of the device, with its reason.
        #[source]
        cause: Error,
    },
    /// This process was forked from one that used Quipu already.
    #[error(
        "this process is a child of fork, and its parent, process {parent}, had begun to use Quipu: none of the parent's threads \
         and devices are here. Fork before the first platform is made, or start a program instead (`std::process::Command`)"
    )]
    Forked {
        /// The number of the process that had begun to use it.
        parent: u32,
    },
    /// The context was marked as lost.
    #[error("the context is lost: {reason}; create a new one")]
    ContextLost {
        /// The reason.
        reason: String,
    },
    /// Memory could not be had.
    #[error("{device} has no memory for {asked} bytes{}; free buffers or split the work", left(*free, *capacity))]
    OutOfMemory {
        /// The device or space.
        device: String,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free, as far as known.
        free: u64,
        /// Bytes in all, as far as known; zero if not at all.
        capacity: u64,
    },
    /// A driver cannot do the request.
    #[error("{driver} cannot {what}; {instead}")]
    Unsupported {
        /// The driver's name.
        driver: &'static str,
        /// The request.
        what: String,
        /// The remedy.
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
        /// The reason and the remedy.
        why: Cow<'static, str>,
    },
    /// A wait ran out of time. The command goes on.
    #[error("not complete within the time given; the command goes on")]
    TimedOut,
    /// The buffer is covered by a live mapping.
    #[error(
        "{what}: {buffer} is mapped at {unit} {start}..{end} by '{guard}'; drop that guard first"
    )]
    Mapped {
        /// The operation.
        what: &'static str,
        /// The buffer.
        buffer: BufferName,
        /// The mapping guard's label.
        guard: String,
        /// The unit of the range.
        unit: Unit,
        /// The first that is mapped.
        start: u64,
        /// One past the last that is mapped.
        end: u64,
    },
}

/// The unit of a range of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Elements of the type that the buffer was made for.
    Elements,
    /// Bytes: of a buffer of no type, or of a range that does not begin or end with an element.
    Bytes,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elements => "elements",
            Self::Bytes => "bytes",
        })
    }
}

/// The name of a buffer in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferName {
    /// Its label, or a name made of its id.
    pub label: String,
    /// Its place among several arguments of a call, counted from 0.
    pub argument: Option<usize>,
}

impl fmt::Display for BufferName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.label)?;
        match self.argument {
            Some(argument) => write!(f, " (argument {argument}, counted from 0)"),
            None => Ok(()),
        }
    }
}

/// An object of another context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// A buffer.
    Buffer(BufferName),
    /// A device of this name.
    Device(String),
    /// A queue, described.
    Queue(String),
    /// A graph.
    Graph,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(name) => name.fmt(f),
            Self::Device(name) => write!(f, "device '{name}'"),
            Self::Queue(name) => f.write_str(name),
            Self::Graph => f.write_str("the graph"),
        }
    }
}

/// The error that a closure of the user's returned, as it was. The thread that drops the last
/// [`Error`] with it drops it, possibly in the middle of a command's end: a panic of its destructor
/// is contained.
pub struct Returned(ManuallyDrop<Box<dyn ReturnedError>>);

/// An error of any type that can be shown to people.
trait ReturnedError: fmt::Display + Any + Send + Sync {}
impl<E: fmt::Display + Any + Send + Sync> ReturnedError for E {}

impl Returned {
    /// Keeps this error.
    pub fn new(error: impl fmt::Display + Send + Sync + 'static) -> Self {
        Self(ManuallyDrop::new(Box::new(error)))
    }

    /// The error, if it is of this type.
    #[must_use]
    pub fn get<E: 'static>(&self) -> Option<&E> {
        let any: &dyn Any = &**self.0;
        any.downcast_ref()
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        // SAFETY: it is not used again, as `self` is being dropped.
        let error = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(error))) {
            drop_panic(panic);
            quietly(|| tracing::error!("an error panicked as it was dropped"));
        }
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
    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The failure that started it: the cause of a dependency failure, that the device is lost
    /// which had a buffer's only copy, or the error itself.
    #[must_use]
    pub fn first_cause(&self) -> &Error {
        match self.kind() {
            ErrorKind::Dependency { cause } | ErrorKind::ContentLost { cause, .. } => {
                cause.first_cause()
            }
            _ => self,
        }
    }

    /// The error that a closure of the user's returned, if it is the [first
    /// cause](Error::first_cause) of this one and of this type.
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
        match self.kind() {
            ErrorKind::Dependency { .. } => self.clone(),
            _ => ErrorKind::Dependency {
                cause: self.clone(),
            }
            .into(),
        }
    }

    /// The error of work that was not done, because it was cancelled before it started. `what`
    /// names the work.
    #[must_use]
    pub fn cancelled(what: impl Into<String>) -> Self {
        ErrorKind::Cancelled { what: what.into() }.into()
    }

    /// True if the command was cancelled, itself and not a dependency.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind(), ErrorKind::Cancelled { .. })
    }

    /// The same error with the buffer that it names as another argument of the call, if it names
    /// one. `place` is given which of the buffers that the call uses it is, and says which of the
    /// arguments.
    #[must_use]
    pub fn with_argument(mut self, place: impl FnOnce(usize) -> Option<usize>) -> Self {
        let name = match Arc::get_mut(&mut self.0).map(|failure| &mut failure.kind) {
            Some(
                ErrorKind::OutOfBounds { buffer, .. }
                | ErrorKind::Mapped { buffer, .. }
                | ErrorKind::WrongContext {
                    object: Foreign::Buffer(buffer),
                    ..
                },
            ) => buffer,
            _ => return self,
        };
        name.argument = place(name.argument.unwrap_or(0));
        self
    }

    /// A command ends with it, whose events nobody has any more if it is `unobserved`. If it is of
    /// a kernel, it is to be told once that is over, if this is true, or, if no event is asked
    /// until then, as it is dropped. (A panic has been told already.)
    #[doc(hidden)]
    #[must_use]
    pub fn ends_command(&self, unobserved: bool) -> bool {
        let is_of_kernel = matches!(self.kind(), ErrorKind::Kernel { .. });
        if is_of_kernel && !unobserved {
            self.0.unheard.store(true, Ordering::Relaxed);
        }
        is_of_kernel && unobserved
    }

    /// Tells people of it. That may take time: nobody may read the output.
    #[doc(hidden)]
    pub fn tell(&self) {
        tell(self.kind());
    }

    /// An event has been asked, and gives it.
    #[doc(hidden)]
    pub fn is_heard(&self) {
        self.first_cause().0.unheard.store(false, Ordering::Relaxed);
    }

    /// As a word, to be kept in an atomic.
    #[doc(hidden)]
    #[must_use]
    pub fn into_raw(self) -> u64 {
        Arc::into_raw(self.0) as u64
    }

    /// The error back from its word.
    ///
    /// # Safety
    /// `raw` came from [`Error::into_raw`] and is used once.
    #[doc(hidden)]
    pub unsafe fn from_raw(raw: u64) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { Arc::from_raw(raw as *const Failure) })
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Arc::new(Failure {
            kind,
            unheard: AtomicBool::new(false),
        }))
    }
}

impl From<quipu_environment::Misused> for Error {
    fn from(misused: quipu_environment::Misused) -> Self {
        ErrorKind::InvalidArgument {
            what: "read the environment",
            problem: misused.to_string(),
        }
        .into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

/// The message, as [`Display`](fmt::Display) has it: it is what a program prints whose `main`
/// returns an error. `{:#?}` shows the [`ErrorKind`] with its fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return fmt::Debug::fmt(self.kind(), f);
        }
        fmt::Display::fmt(self.kind(), f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::Dependency { cause } => Some(cause),
            other => std::error::Error::source(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_main_returns_an_error_prints_its_message() {
        let error = Error::from(ErrorKind::InvalidSize {
            what: "make a buffer",
            problem: "use one element or more".to_owned(),
        });
        let printed = format!("{:?}", Err::<(), _>(error.clone()));
        assert_eq!(printed, "Err(make a buffer: use one element or more)");
        assert!(format!("{error:#?}").starts_with("InvalidSize {"));
    }

    #[test]
    fn how_much_memory_is_left_is_said_where_it_is_known() {
        let said = |capacity| {
            let error = ErrorKind::OutOfMemory {
                device: "a node".to_owned(),
                asked: 8,
                free: 0,
                capacity,
            };
            error.to_string()
        };
        let rest = "free buffers or split the work";
        assert_eq!(
            said(6),
            format!("a node has no memory for 8 bytes: 0 of 6 bytes are free; {rest}")
        );
        assert_eq!(said(0), format!("a node has no memory for 8 bytes; {rest}"));
    }
}

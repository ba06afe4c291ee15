//! Native enqueues: closures that put work of their own into a driver's queue. The work is one
//! command.
//!
//! 1. A driver with such queues names their type ([`NativeQueue`], [`Driver::takes_native`]).
//! 2. A front end makes a [`NativeEnqueue`] of a closure for that type, and enqueues it with its
//!    accesses ([`Queue::native_enqueue`](crate::Queue::native_enqueue)). It is ordered, cancelled
//!    and failed as any command.
//! 3. The driver hands the closure its queue and the command's memory once, when all work before it
//!    is in that queue too or over. The closure's own work ends before the command does.
//!
//! [`Driver::takes_native`]: crate::Driver::takes_native

use crate::access::{AccessMode, RawArgument};
use crate::command::Command;
use crate::error::{ErrorKind, Result};
use std::any::{Any, TypeId, type_name};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// A queue of a vendor's own, as a driver hands it to closures.
pub trait NativeQueue: Any + Send {
    /// The form in which the closure gets the bytes of an argument.
    type Memory: Any;
}

/// The bytes of an argument, on a device whose memory this process addresses: a processor, or a
/// simulated device. Valid until the closure that is handed it returns.
#[derive(Debug)]
pub struct NativeBytes {
    pointer: *mut u8,
    length: usize,
    mode: AccessMode,
}

impl NativeBytes {
    /// The first byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The mode in which the closure may use them.
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.mode
    }
}

type Call<Q> = Box<dyn FnOnce(&Q, Vec<<Q as NativeQueue>::Memory>) -> Result<()> + Send>;

/// The work of a native enqueue: a closure, for a type of queue.
pub struct NativeEnqueue {
    of: TypeId,
    of_name: &'static str,
    /// A [`Call`]; none when it has been called.
    call: Mutex<Option<Box<dyn Any + Send>>>,
}

impl NativeEnqueue {
    /// A closure that is handed a queue, and the memory of each of the command's arguments, in
    /// order.
    pub fn new<Q: NativeQueue>(
        call: impl FnOnce(&Q, Vec<Q::Memory>) -> Result<()> + Send + 'static,
    ) -> Self {
        let call: Call<Q> = Box::new(call);
        Self {
            of: TypeId::of::<Q>(),
            of_name: type_name::<Q>(),
            call: Mutex::new(Some(Box::new(call))),
        }
    }

    /// The type of queue that it is for.
    #[must_use]
    pub fn queue_type(&self) -> TypeId {
        self.of
    }

    /// The name of that type.
    #[must_use]
    pub fn queue_type_name(&self) -> &'static str {
        self.of_name
    }

    /// Calls the closure. Also after an error there may be work in the queue.
    ///
    /// # Errors
    /// The closure's error; an error if it panicked, is for another type of queue, or has been
    /// called before.
    pub fn call<Q: NativeQueue>(
        &self,
        label: &str,
        queue: &Q,
        memories: Vec<Q::Memory>,
    ) -> Result<()> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = call.take();
        drop(call);
        let call = taken.and_then(|call| call.downcast::<Call<Q>>().ok());
        let Some(call) = call else {
            return Err(ErrorKind::InvalidArgument {
                what: "call a native enqueue",
                problem: format!(
                    "it is for a {}, once; this is an error of the device's driver",
                    self.of_name
                ),
            }
            .into());
        };
        let called = catch_unwind(AssertUnwindSafe(|| call(queue, memories)));
        called.unwrap_or_else(|panic| Err(panicked(label, panic)))
    }

    /// As [`call`](Self::call), for a driver whose devices' memory this process addresses: with its
    /// command's arguments, as they are resolved.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_with<Q: NativeQueue<Memory = NativeBytes>>(
        &self,
        command: &Command,
        queue: &Q,
        arguments: &[RawArgument],
    ) -> Result<()> {
        let declared = command.arguments().iter().zip(arguments);
        let bytes = declared.map(|(argument, raw)| NativeBytes {
            pointer: raw.pointer,
            length: raw.length,
            mode: argument.mode(),
        });
        command.run_inside(|| self.call(command.label(), queue, bytes.collect()))
    }
}

impl std::fmt::Debug for NativeEnqueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NativeEnqueue({})", self.of_name)
    }
}

/// The error of a command whose code has panicked.
pub fn panicked(label: &str, panic: Box<dyn Any + Send>) -> crate::Error {
    ErrorKind::Panicked {
        what: format!("'{label}'"),
        message: crate::panics::text_of(panic),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mine;
    struct Other;
    impl NativeQueue for Mine {
        type Memory = u32;
    }
    impl NativeQueue for Other {
        type Memory = u32;
    }

    #[test]
    fn it_is_called_once_with_what_it_is_for() {
        let enqueue = NativeEnqueue::new(|_: &Mine, memories| {
            assert_eq!(memories, [1, 2]);
            Ok(())
        });
        assert_eq!(enqueue.queue_type(), TypeId::of::<Mine>());
        enqueue.call("a", &Mine, vec![1, 2]).unwrap();
        let again = enqueue.call("a", &Mine, vec![1, 2]).unwrap_err();
        assert!(again.to_string().contains("once"), "{again}");
        let enqueue = NativeEnqueue::new(|_: &Mine, _| Ok(()));
        let error = enqueue.call("a", &Other, vec![]).unwrap_err();
        assert!(error.to_string().contains("Mine"), "{error}");
    }

    #[test]
    fn a_panic_is_an_error() {
        let enqueue = NativeEnqueue::new(|_: &Mine, _| panic!("by {}", "design"));
        let error = enqueue.call("sgemm", &Mine, vec![]).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Panicked { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("'sgemm'") && error.to_string().contains("by design"));
    }
}

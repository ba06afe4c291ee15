//! The commands whose code a thread is inside of.
//!
//! A thread is inside of a command while it runs the command's body. It may be inside of several:
//! a body that waits can have its thread run another one. The commands form a list on the thread's
//! stack, innermost first. None of them ends before the thread has left it.

use super::slot::Slot;
use std::cell::Cell;
use std::ptr::{NonNull, null};

/// One command that this thread is inside of. Lives on the stack of the call that runs it.
struct Frame {
    command: NonNull<Slot>,
    outer: *const Frame,
}

thread_local! {
    static INNERMOST: Cell<*const Frame> = const { Cell::new(null()) };
}

/// Leaves the innermost command when it is dropped, also by a panic. The code may have forked this
/// process.
struct Leave(*const Frame);

impl Drop for Leave {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.set(self.0);
        crate::process::end_child(std::thread::panicking());
    }
}

/// Calls `run` inside of a command.
#[inline]
pub(super) fn within<R>(command: NonNull<Slot>, run: impl FnOnce() -> R) -> R {
    let frame = Frame {
        command,
        outer: INNERMOST.get(),
    };
    let _leave = Leave(frame.outer);
    INNERMOST.set(&raw const frame);
    run()
}

/// True if this thread is inside of a command. For drivers: commands that it makes ready now wait
/// for a user's code to return.
#[inline]
#[must_use]
pub fn is_inside() -> bool {
    !INNERMOST.get().is_null()
}

/// The commands that this thread is inside of, innermost first.
pub(crate) fn commands() -> impl Iterator<Item = NonNull<Slot>> {
    let mut frame = INNERMOST.get();
    std::iter::from_fn(move || {
        // SAFETY: a frame is in the list only while the call that made it runs (`Leave`).
        let this = unsafe { frame.as_ref() }?;
        frame = this.outer;
        Some(this.command)
    })
}

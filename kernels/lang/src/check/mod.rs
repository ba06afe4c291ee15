//! The checking mode: mistakes that a kernel can make, found where they are made.
//!
//! * A panic of a thread (an index out of bounds is one, with the index in its message) becomes an
//!   error that names the kernel, the thread and the line. A plain panic leaves these to the panic
//!   hook.
//! * Raw memory ([`RawMut`](crate::RawMut), [`SharedRaw`](crate::SharedRaw)) has a *shadow*: for
//!   each element, the threads that last wrote and read it, the places in the source, and the
//!   number of barriers that the block had passed then (the *epoch*). Two threads of a block that
//!   reach an element in the same epoch, or of different blocks in any epoch, race if one of them
//!   writes: nothing orders them. Unless both threads have come to a fence for the device since the
//!   first access: then it is assumed that the one has signalled the other by an atomic.
//! * Steps of [`Atomics`](crate::Atomics) have one, too: they race as plain accesses do with
//!   threads that their [`Scope`] leaves out. Memory of neither kind cannot race.
//!
//! The shadow is of one call of [`run_groups`](crate::GroupKernel::run_groups), so races are seen
//! between the blocks of one call. A front end that checks has all blocks of a launch run in one
//! call, whatever parts a driver splits it into.
//!
//! The watch is kept per thread of the operating system: a mode sets the thread of the kernel that
//! runs ([`contained`]), and accesses of views that are watched come to [`note`].

mod panics;
mod shadow;

pub(crate) use shadow::{Access, Shadow, Watched};

use std::cell::Cell;

use crate::barrier::Site;
use crate::error::KernelError;

/// The threads for which a step of [`Atomics`](crate::Atomics) is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Thread,
    Block,
    Device,
}

thread_local! {
    /// The kernel's thread that runs on this thread, and the shadow that it leaves traces in.
    static RUNS: Cell<Option<(*const Shadow, Watched)>> = const { Cell::new(None) };
}

/// Puts back the previous entry of `RUNS`, also when a panic unwinds.
struct Restore(Option<(*const Shadow, Watched)>);

impl Drop for Restore {
    fn drop(&mut self) {
        RUNS.set(self.0);
    }
}

/// Runs a step of a thread, and reports a panic of it.
pub(crate) fn contained<R>(
    shadow: &Shadow,
    watched: Watched,
    step: impl FnOnce() -> R,
) -> Result<R, KernelError> {
    let _restore = Restore(RUNS.replace(Some((shadow, watched))));
    panics::catch(step).map_err(|caught| KernelError::Panicked {
        kernel: shadow.kernel(),
        group: watched.group,
        thread: watched.thread,
        message: caught.message,
        place: caught.place,
    })
}

/// The thread that runs here has passed so many barriers.
pub(crate) fn enter_epoch(epoch: u64) {
    if let Some((shadow, watched)) = RUNS.get() {
        RUNS.set(Some((shadow, Watched { epoch, ..watched })));
    }
}

/// The thread that runs here reaches an element at an address, in a step if it has a scope.
#[cold]
pub(crate) fn note(address: usize, index: usize, writes: bool, scope: Option<Scope>, site: Site) {
    if let Some((shadow, watched)) = RUNS.get() {
        // SAFETY: it is borrowed by the `contained` that this is inside of.
        let shadow = unsafe { &*shadow };
        shadow.note(address, index, Access::new(watched, writes, scope, site));
    }
}

/// The thread that runs here has come to a fence for the device.
#[cold]
pub(crate) fn fence() {
    if let Some((shadow, watched)) = RUNS.get() {
        // SAFETY: as in `note`.
        let shadow = unsafe { &*shadow };
        shadow.fence(watched);
    }
}

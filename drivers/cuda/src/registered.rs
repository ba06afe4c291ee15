//! Memory of the host's that stays where it is, as CUDA knows it: told of it once, with the first
//! copy, and told when it goes. If CUDA does not take it, copies go the way of all others.

use crate::device::Live;
use crate::native::{Called, Context, named};
use cudarc::driver::sys;
use quipu_scheduler::memory::pinned::PinnedRange;
use quipu_scheduler::panics::quietly;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// The object that is kept with a range: one for all devices, which all reach it.
pub(crate) struct Registered {
    /// The range's first byte, if CUDA has taken it.
    start: Option<usize>,
    context: Arc<Context>,
}

/// The name under which that is kept: the address of something of this driver's.
static NAME: u8 = 0;

impl Registered {
    /// True if CUDA knows these bytes, told of them now if need be.
    pub(crate) fn is(live: &Live, host: *const u8, length: u64) -> bool {
        let Some(range) = PinnedRange::of(host, length as usize) else {
            return false;
        };
        let name = std::ptr::from_ref(&NAME).addr();
        let mut refused = None;
        let make = || {
            let taken = register(&live.context, &range.bytes());
            let taken = taken.map_err(|error| refused = Some(error));
            Self {
                start: taken.is_ok().then_some(range.bytes().start),
                context: live.context.clone(),
            }
        };
        let is_taken = range.keep(name, make, |kept: &Self| kept.start.is_some());
        // Other threads wait inside of `keep`, and a subscriber of the log may wait for them.
        if let Some(error) = refused {
            let bytes = range.bytes().len();
            quietly(|| tracing::debug!(?error, bytes, "CUDA does not take pinned memory"));
        }
        is_taken.unwrap_or(false)
    }

    /// True if CUDA knows these bytes; none if they are no such memory, or it was not told of them
    /// yet.
    pub(crate) fn known(host: *const u8, length: u64) -> Option<bool> {
        let range = PinnedRange::of(host, length as usize)?;
        let name = std::ptr::from_ref(&NAME).addr();
        range.kept_as(name, |kept: &Self| kept.start.is_some())
    }

    /// True if these bytes stay where they are, and CUDA was not told of them yet.
    pub(crate) fn is_to_be(host: *const u8, length: u64) -> bool {
        PinnedRange::of(host, length as usize).is_some() && Self::known(host, length).is_none()
    }
}

fn pointer(start: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(start)
}

fn register(context: &Context, bytes: &Range<usize>) -> Called<()> {
    let _entered = context.enter()?;
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
    // SAFETY: mapped until the range gives this up, which it does first.
    let code = unsafe { sys::cuMemHostRegister_v2(pointer(bytes.start), bytes.len(), flags) };
    named("cuMemHostRegister", code)
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(start) = self.start else {
            return;
        };
        let _entered = self.context.enter();
        // SAFETY: registered so, once; no copy uses it any more.
        let code = unsafe { sys::cuMemHostUnregister(pointer(start)) };
        if let Err(error) = named("cuMemHostUnregister", code) {
            quietly(|| tracing::debug!(?error, "pinned memory was not given back"));
        }
    }
}

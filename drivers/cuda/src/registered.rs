//! Memory of the host's that stays where it is, as CUDA knows it: told of it once, with the first
//! copy or the first kernel that uses it in place, and told when it goes. If CUDA does not take it,
//! copies go the way of all others, and kernels that use it in place fail. Managed memory is
//! CUDA's own, and needs no telling.

use crate::device::Live;
use crate::native::{CallError, Called, Context, named};
use cudarc::driver::sys::{self, CUdeviceptr, CUresult};
use quipu_device_queue::Failure;
use quipu_scheduler::memory::pinned::PinnedRange;
use quipu_scheduler::panics::quietly;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The object that is kept with a range: one for all devices, which all reach it.
pub(crate) struct Registered {
    /// The range's first byte.
    start: usize,
    state: State,
    context: Arc<Context>,
}

/// The state of a range in CUDA.
#[derive(Clone, Copy)]
enum State {
    /// CUDA was told of it.
    Taken,
    /// CUDA has allocated it.
    Managed,
    /// CUDA does not take it.
    Refused(CallError),
}

impl State {
    fn is_known(self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// The name under which that is kept: the address of something of this driver's.
static NAME: u8 = 0;

impl Registered {
    /// True if CUDA knows these bytes, told of them now if need be.
    pub(crate) fn is(live: &Live, host: *const u8, length: u64) -> bool {
        Self::state(live, host, length).is_some_and(State::is_known)
    }

    /// The state of these bytes, of which CUDA is told now if need be; none if they are no such
    /// memory.
    fn state(live: &Live, host: *const u8, length: u64) -> Option<State> {
        let range = PinnedRange::of(host, length as usize)?;
        let name = std::ptr::from_ref(&NAME).addr();
        let mut refused = None;
        let make = || {
            let taken = register(&live.context, &range.bytes());
            Self {
                start: range.bytes().start,
                state: taken.map_or_else(
                    |error| {
                        refused = Some(error);
                        State::Refused(error)
                    },
                    |()| State::Taken,
                ),
                context: live.context.clone(),
            }
        };
        let state = range.keep(name, make, |kept: &Self| kept.state);
        // Other threads wait inside of `keep`, and a subscriber of the log may wait for them.
        if let Some(error) = refused {
            let bytes = range.bytes().len();
            quietly(|| tracing::debug!(?error, bytes, "CUDA does not take pinned memory"));
        }
        state
    }

    /// The device's address of these bytes, of which CUDA is told now if need be. The device's
    /// context is current.
    pub(crate) fn address(live: &Live, host: NonNull<u8>, length: u64) -> Called<CUdeviceptr> {
        let refused = |call, code| CallError { call, code };
        let unknown = CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        match Self::state(live, host.as_ptr(), length) {
            None => return Err(refused("cuMemHostRegister", unknown)),
            // Kept with the range, so it says nothing of this device.
            Some(State::Refused(error)) if error.is_loss() => {
                return Err(refused(error.call, unknown));
            }
            Some(State::Refused(error)) => return Err(error),
            Some(State::Managed) => return Ok(host.as_ptr().expose_provenance() as u64),
            Some(State::Taken) => {}
        }
        let mut address = 0;
        // SAFETY: CUDA knows the memory, and the call writes one address into `address`.
        let code =
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, host.as_ptr().cast(), 0) };
        named("cuMemHostGetDevicePointer", code).map(|()| address)
    }

    /// Notes that this range, which was just pinned, is managed memory.
    pub(crate) fn note_managed(context: &Arc<Context>, start: NonNull<u8>, length: usize) {
        let Some(range) = PinnedRange::of(start.as_ptr(), length) else {
            return;
        };
        let name = std::ptr::from_ref(&NAME).addr();
        let make = || Self {
            start: start.addr().get(),
            state: State::Managed,
            context: context.clone(),
        };
        range.keep(name, make, |_: &Self| ());
    }

    /// True if CUDA knows these bytes; none if they are no such memory, or it was not told of them
    /// yet.
    pub(crate) fn known(host: *const u8, length: u64) -> Option<bool> {
        let range = PinnedRange::of(host, length as usize)?;
        let name = std::ptr::from_ref(&NAME).addr();
        range.kept_as(name, |kept: &Self| kept.state.is_known())
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
    // For copies and kernels of all devices.
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    // SAFETY: mapped until the range gives this up, which it does first.
    let code = unsafe { sys::cuMemHostRegister_v2(pointer(bytes.start), bytes.len(), flags) };
    named("cuMemHostRegister", code)
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !matches!(self.state, State::Taken) {
            return;
        }
        let _entered = self.context.enter();
        // SAFETY: registered so, once; no copy and no kernel uses it any more.
        let code = unsafe { sys::cuMemHostUnregister(pointer(self.start)) };
        if let Err(error) = named("cuMemHostUnregister", code) {
            quietly(|| tracing::debug!(?error, "pinned memory was not given back"));
        }
    }
}

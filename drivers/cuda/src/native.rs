//! CUDA's objects, released when they are dropped, and the calls that more than one file makes.
//! Every failed call gives its name and CUDA's code ([`CallError`]).

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUevent, CUresult, CUstream};
use quipu_device_queue::is_own_thread;
use quipu_scheduler::panics::quietly;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call that CUDA refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The function.
    pub(crate) call: &'static str,
    /// CUDA's code.
    pub(crate) code: CUresult,
}

/// The result of a call.
pub(crate) type Called<T> = Result<T, CallError>;

/// Says which call it was.
pub(crate) fn named(call: &'static str, code: CUresult) -> Called<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(CallError { call, code }),
    }
}

/// The version of the system's CUDA driver, as `12040` for 12.4.
pub(crate) fn version() -> Called<c_int> {
    let mut version = 0;
    // SAFETY: the call writes one number into `version`, a local variable.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    named("cuDriverGetVersion", code).map(|()| version)
}

/// A failure as an object is dropped is of no consequence: its device is lost, or the process ends.
fn released(call: &'static str, code: CUresult) {
    if let Err(error) = named(call, code) {
        quietly(|| tracing::debug!(?error, "an object of CUDA was not released"));
    }
}

/// A device's primary context: its streams, events, modules and memory belong to it.
#[derive(Debug)]
pub(crate) struct Context {
    device: CUdevice,
    raw: CUcontext,
    /// Events that nobody uses; with timestamps, and without.
    spare: [Mutex<Vec<RawEvent>>; 2],
}

// SAFETY: CUDA's objects may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: and by several at a time.
unsafe impl Sync for Context {}

#[derive(Clone, Copy, Debug)]
struct RawEvent(CUevent);
// SAFETY: as above.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

/// Has calls of this thread go to a context, while it lives; then to the one from before.
#[must_use]
pub(crate) struct Entered(Option<CUcontext>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: it was this thread's context, or there was none.
            released("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(before) });
        }
    }
}

impl Context {
    /// The device's primary context, which it shares with others in the process that use CUDA.
    pub(crate) fn of(device: CUdevice) -> Called<Arc<Self>> {
        let mut raw = null_mut();
        // SAFETY: the device is one that CUDA has named.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        named("cuDevicePrimaryCtxRetain", code)?;
        Ok(Arc::new(Self {
            device,
            raw,
            spare: Default::default(),
        }))
    }

    /// The context, for calls.
    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }

    /// Has calls of this thread be for this context.
    pub(crate) fn enter(&self) -> Called<Entered> {
        let mut before = null_mut();
        // SAFETY: the call writes one pointer into `before`, a local variable.
        let code = unsafe { sys::cuCtxGetCurrent(&raw mut before) };
        named("cuCtxGetCurrent", code)?;
        if before == self.raw {
            return Ok(Entered(None));
        }
        // SAFETY: `self` holds the primary context, which is released when `self` is dropped.
        named("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw) })?;
        // A thread of ours need not have none again: it asks each time. But this may be within
        // calls for another context.
        let is_left = is_own_thread() && before.is_null();
        Ok(Entered((!is_left).then_some(before)))
    }

    fn spare(&self, timed: bool) -> MutexGuard<'_, Vec<RawEvent>> {
        let spare = &self.spare[usize::from(timed)];
        spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for timed in [false, true] {
            for event in self.spare(timed).drain(..) {
                // SAFETY: nobody else knows it.
                released("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event.0) });
            }
        }
        // SAFETY: this reference is given up once.
        let code = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        released("cuDevicePrimaryCtxRelease", code);
    }
}

/// A stream: its commands are done in order.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: CUstream,
    context: Arc<Context>,
}

// SAFETY: as for contexts.
unsafe impl Send for Stream {}
// SAFETY: as for contexts.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, which does not wait for the context's default one.
    pub(crate) fn of(context: &Arc<Context>) -> Called<Self> {
        let _entered = context.enter()?;
        let mut raw = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current.
        named("cuStreamCreate", unsafe {
            sys::cuStreamCreate(&raw mut raw, flags)
        })?;
        Ok(Self {
            raw,
            context: context.clone(),
        })
    }

    /// The stream, for calls.
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Has later commands wait for an event, of this context or another.
    pub(crate) fn wait(&self, event: &Event) -> Called<()> {
        // SAFETY: both are alive; the event is recorded.
        let code = unsafe { sys::cuStreamWaitEvent(self.raw, event.raw(), 0) };
        named("cuStreamWaitEvent", code)
    }

    /// Waits until all is done that was put into it.
    pub(crate) fn synchronize(&self) -> Called<()> {
        // SAFETY: `self` owns the stream, which is destroyed when `self` is dropped.
        named("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.raw)
        })
    }

    /// Has a function called once all commands of the stream are done; not if the device is lost.
    ///
    /// # Safety
    /// The function calls nothing of CUDA's, and `data` is its argument.
    pub(crate) unsafe fn call(
        &self,
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Called<()> {
        // SAFETY: as the caller promises.
        let code = unsafe { sys::cuLaunchHostFunc(self.raw, Some(function), data) };
        named("cuLaunchHostFunc", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _entered = self.context.enter();
        // SAFETY: nobody else knows it; its commands are still done.
        released("cuStreamDestroy", unsafe {
            sys::cuStreamDestroy_v2(self.raw)
        });
    }
}

/// A point in a stream. Made by recording it, so one that was never recorded is never waited for.
#[derive(Clone, Debug)]
pub(crate) struct Event(Arc<Occurrence>);

#[derive(Debug)]
struct Occurrence {
    raw: RawEvent,
    timed: bool,
    context: Arc<Context>,
}

impl Event {
    /// All that was put into a stream so far; the stream's context is current.
    pub(crate) fn record(stream: &Stream, timed: bool) -> Called<Self> {
        let context = &stream.context;
        let known = context.spare(timed).pop();
        let raw = match known {
            Some(known) => known,
            None => {
                let flags = match timed {
                    true => sys::CUevent_flags::CU_EVENT_DEFAULT,
                    false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
                };
                let mut raw = null_mut();
                // SAFETY: the context is current.
                named("cuEventCreate", unsafe {
                    sys::cuEventCreate(&raw mut raw, flags as u32)
                })?;
                RawEvent(raw)
            }
        };
        let event = Self(Arc::new(Occurrence {
            raw,
            timed,
            context: context.clone(),
        }));
        // SAFETY: both are alive, and of one context. Nobody waits for the event's use before.
        named("cuEventRecord", unsafe {
            sys::cuEventRecord(raw.0, stream.raw)
        })?;
        Ok(event)
    }

    fn raw(&self) -> CUevent {
        self.0.raw.0
    }

    /// True if it has happened.
    pub(crate) fn has_happened(&self) -> Called<bool> {
        // SAFETY: `self` owns the event, which is given back when its last reference is dropped.
        match unsafe { sys::cuEventQuery(self.raw()) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => named("cuEventQuery", code).map(|()| true),
        }
    }

    /// Waits until it has happened.
    pub(crate) fn synchronize(&self) -> Called<()> {
        // SAFETY: `self` owns the event, which is given back when its last reference is dropped.
        named("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(self.raw())
        })
    }

    /// Nanoseconds between two events that have timestamps and have happened.
    pub(crate) fn nanoseconds_to(&self, later: &Self) -> Option<i64> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: `self` and `later` own their events. The call writes one number into
        // `milliseconds`.
        let code =
            unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, self.raw(), later.raw()) };
        named("cuEventElapsedTime", code).ok()?;
        Some((f64::from(milliseconds) * 1e6) as i64)
    }
}

impl Drop for Occurrence {
    fn drop(&mut self) {
        // Waits that were put into streams have taken all that they need of it.
        self.context.spare(self.timed).push(self.raw);
    }
}

/// Host memory that devices reach by themselves.
#[derive(Debug)]
pub(crate) struct Pinned {
    pointer: NonNull<u8>,
    length: usize,
    context: Arc<Context>,
}

// SAFETY: it owns its bytes as a box does.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Pins so many bytes, all zero.
    pub(crate) fn of(context: &Arc<Context>, length: usize) -> Called<Self> {
        let _entered = context.enter()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut pointer = null_mut();
        let call = "cuMemHostAlloc";
        // SAFETY: the context is current.
        named(call, unsafe {
            sys::cuMemHostAlloc(&raw mut pointer, length, flags)
        })?;
        let pointer = NonNull::new(pointer.cast::<u8>()).ok_or(CallError {
            call,
            code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        })?;
        // SAFETY: so many bytes, ours alone.
        unsafe { pointer.write_bytes(0, length) };
        Ok(Self {
            pointer,
            length,
            context: context.clone(),
        })
    }

    /// The first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _entered = self.context.enter();
        // SAFETY: made by `of`, freed once; no device uses it any more.
        released("cuMemFreeHost", unsafe {
            sys::cuMemFreeHost(self.pointer.as_ptr().cast())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls are made on a GPU. The tests have to be told of it, as those of the driver.
    #[test]
    fn events_are_used_again() {
        if std::env::var("QUIPU_TEST_CUDA").as_deref() != Ok("1") {
            eprintln!(
                "\n*** NOT TESTED: that CUDA's events are used again; QUIPU_TEST_CUDA=1 says that there is a GPU.\n"
            );
            return;
        }
        // SAFETY: may be called by any thread, any number of times.
        named("cuInit", unsafe { sys::cuInit(0) }).expect("CUDA");
        let context = Context::of(0).expect("a context");
        let stream = Stream::of(&context).expect("a stream");
        let _entered = context.enter().expect("a context");
        for timed in [false, true] {
            let record = || Event::record(&stream, timed).expect("an event");
            let first = record();
            let raw = first.raw();
            // One that is in use is not.
            let (second, again) = (record(), first.clone());
            assert_ne!(second.raw(), raw);
            drop((first, second));
            assert_ne!(record().raw(), raw);
            drop(again);
            for _ in 0..1000 {
                assert_eq!(record().raw(), raw);
            }
            assert_eq!(context.spare(timed).len(), 2);
        }
        stream.synchronize().expect("the stream");
    }
}

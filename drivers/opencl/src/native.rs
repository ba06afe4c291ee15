//! OpenCL's objects, counted by OpenCL and released when they are dropped, and the calls that more
//! than one file makes. Every failed call gives its name and OpenCL's code ([`CallError`]).

use cl3::types::{
    cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_kernel, cl_mem, cl_program,
    cl_ulong,
};
use quipu_scheduler::panics::quietly;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A call that OpenCL refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The function.
    pub(crate) call: &'static str,
    /// OpenCL's code.
    pub(crate) code: cl_int,
}

/// The result of a call.
pub(crate) type Called<T> = Result<T, CallError>;

/// Says which call it was.
pub(crate) fn named<T>(call: &'static str, result: Result<T, cl_int>) -> Called<T> {
    result.map_err(|code| CallError { call, code })
}

macro_rules! objects {
    ($($(#[$meta:meta])* $name:ident($raw:ty): $retain:path, $release:path;)*) => {$(
        $(#[$meta])*
        #[allow(unreachable_pub, reason = "the driver's types name some of them")]
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name($raw);

        // SAFETY: OpenCL's objects may be used by any thread.
        unsafe impl Send for $name {}
        // SAFETY: and by several at a time; the one exception, setting a kernel's arguments, is
        // minded where it is done.
        unsafe impl Sync for $name {}

        impl $name {
            /// Takes over a reference.
            #[allow(dead_code, reason = "some are only made by the calls here")]
            pub(crate) fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// The object, for calls.
            pub(crate) fn raw(&self) -> $raw {
                self.0
            }
        }

        impl Clone for $name {
            fn clone(&self) -> Self {
                // SAFETY: alive, for this is a reference. It can only fail for objects that are
                // not.
                let counted = unsafe { $retain(self.0) };
                debug_assert!(counted.is_ok(), "a live object can be retained");
                Self(self.0)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this reference is given up once.
                if let Err(code) = unsafe { $release(self.0) } {
                    quietly(|| tracing::error!(code, object = stringify!($name), "an OpenCL object was not released"));
                }
            }
        }
    )*};
}

objects! {
    /// Devices that share memory objects, programs and events.
    Context(cl_context): cl3::context::retain_context, cl3::context::release_context;
    /// A queue for commands of a device.
    Queue(cl_command_queue): cl3::command_queue::retain_command_queue, cl3::command_queue::release_command_queue;
    /// A command's end, as OpenCL counts it.
    RawEvent(cl_event): cl3::event::retain_event, cl3::event::release_event;
    /// Memory.
    Memory(cl_mem): cl3::memory::retain_mem_object, cl3::memory::release_mem_object;
    /// Code, compiled or not.
    Program(cl_program): cl3::program::retain_program, cl3::program::release_program;
    /// A function of a program, with arguments.
    Kernel(cl_kernel): cl3::kernel::retain_kernel, cl3::kernel::release_kernel;
}

/// A command's end, as the device knows it. Counted here: OpenCL takes a lock to count.
#[derive(Clone, Debug)]
pub struct Event(Arc<RawEvent>);

impl Event {
    /// Takes over a reference.
    pub(crate) fn new(raw: cl_event) -> Self {
        Self(Arc::new(RawEvent::new(raw)))
    }

    /// The event, for calls.
    pub(crate) fn raw(&self) -> cl_event {
        self.0.raw()
    }
}

impl Context {
    /// A context of these devices of one platform.
    pub(crate) fn of(devices: &[cl_device_id]) -> Called<Self> {
        let made = cl3::context::create_context(devices, null(), None, null_mut());
        named("clCreateContext", made).map(Self)
    }
}

impl Queue {
    /// A queue of a device of the context.
    pub(crate) fn of(
        context: &Context,
        device: cl_device_id,
        out_of_order: bool,
        profiling: bool,
    ) -> Called<Self> {
        let mut properties = 0;
        if out_of_order {
            properties |= cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        }
        if profiling {
            properties |= cl3::command_queue::CL_QUEUE_PROFILING_ENABLE;
        }
        // The call of OpenCL 1: drivers of 1.2 have no other, and those of 2 and 3 have kept it.
        #[allow(deprecated)]
        // SAFETY: the device is one of the context's.
        let made =
            unsafe { cl3::command_queue::create_command_queue(context.0, device, properties) };
        named("clCreateCommandQueue", made).map(Self)
    }

    /// Has the device begin with the commands of the queue.
    pub(crate) fn flush(&self) -> Called<()> {
        named("clFlush", cl3::command_queue::flush(self.0))
    }

    /// Has all later commands begin after these.
    pub(crate) fn barrier(&self, waits: &[cl_event]) -> Called<Event> {
        // SAFETY: as many events as said, of the queue's context.
        let made = unsafe {
            cl3::command_queue::enqueue_barrier_with_wait_list(
                self.0,
                waits.len() as u32,
                list(waits),
            )
        };
        named("clEnqueueBarrierWithWaitList", made).map(Event::new)
    }

    /// Waits until all is done that was put into it.
    pub(crate) fn finish(&self) -> Called<()> {
        named("clFinish", cl3::command_queue::finish(self.0))
    }

    /// A command that does nothing, after these; after all that is there, if there are none.
    pub(crate) fn marker(&self, waits: &[cl_event]) -> Called<Event> {
        // SAFETY: as many events as said, of the queue's context.
        let made = unsafe {
            cl3::command_queue::enqueue_marker_with_wait_list(
                self.0,
                waits.len() as u32,
                list(waits),
            )
        };
        named("clEnqueueMarkerWithWaitList", made).map(Event::new)
    }
}

impl Event {
    /// The command's status in OpenCL, which is negative if it failed, 0 if it is complete.
    pub(crate) fn status(&self) -> Called<cl_int> {
        let info =
            cl3::event::get_event_info(self.raw(), cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS);
        named("clGetEventInfo", info).map(|info| info.to_int())
    }

    /// Waits until it is over.
    pub(crate) fn wait(&self) -> Called<()> {
        named(
            "clWaitForEvents",
            cl3::event::wait_for_events(&[self.raw()]),
        )
    }

    /// A time of the device, in nanoseconds of its own clock.
    pub(crate) fn time(&self, which: u32) -> Option<u64> {
        let info = cl3::event::get_event_profiling_info(self.raw(), which).ok()?;
        let time: cl_ulong = info.to_ulong();
        Some(time)
    }
}

impl Memory {
    /// Memory of so many bytes, undefined.
    pub(crate) fn allocate(context: &Context, bytes: usize) -> Called<Self> {
        Self::of(context, cl3::memory::CL_MEM_READ_WRITE, bytes)
    }

    /// The same, which the host can map where devices reach it.
    pub(crate) fn pinned(context: &Context, bytes: usize) -> Called<Self> {
        let flags = cl3::memory::CL_MEM_READ_WRITE | cl3::memory::CL_MEM_ALLOC_HOST_PTR;
        Self::of(context, flags, bytes)
    }

    /// Over so many bytes of the host's.
    ///
    /// # Safety
    /// They are there as long as this is.
    pub(crate) unsafe fn over(context: &Context, start: *mut c_void, bytes: usize) -> Called<Self> {
        let flags = cl3::memory::CL_MEM_READ_WRITE | cl3::memory::CL_MEM_USE_HOST_PTR;
        // SAFETY: as the caller says.
        let made = unsafe { cl3::memory::create_buffer(context.0, flags, bytes, start) };
        named("clCreateBuffer", made).map(Self)
    }

    fn of(context: &Context, flags: cl3::types::cl_mem_flags, bytes: usize) -> Called<Self> {
        // SAFETY: no host memory is given.
        let made =
            unsafe { cl3::memory::create_buffer(context.0, flags, bytes, null_mut::<c_void>()) };
        named("clCreateBuffer", made).map(Self)
    }
}

/// A list of events as calls take it: none is null.
pub(crate) fn list(events: &[cl_event]) -> *const cl_event {
    if events.is_empty() {
        null()
    } else {
        events.as_ptr()
    }
}

/// A text for a call; zeros in it are left out.
pub(crate) fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

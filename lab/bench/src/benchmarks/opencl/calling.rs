//! Calls of the C interface in the process of one implementation, each timed as often as it is
//! told.
//!
//! The functions are the loader's, found by their names when the process runs, as a program in C
//! finds them. So no wrapper is between them and the clock. Chains and enqueues check how many
//! kernels ran.

use super::player::{Device, called};
use cl3::types::{
    cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_kernel, cl_mem, cl_program,
    cl_uint,
};
use libloading::Library;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// The calls, by the names of cases.
pub(super) const CALLS: &[&str] = &[
    "chain-in-order",
    "chain-out-of-order",
    "enqueue-held-back",
    "enqueue-contended",
    "no-op",
    "independent-in-order",
    "independent-out-of-order",
    "ask-device",
    "ask-queue",
    "ask-memory",
    "ask-kernel",
    "ask-event",
];

const SOURCE: &str = "
kernel void count(global int *to) { to[0] += 1; }
kernel void work(global const float *from, global float *to) {
    float value = from[0];
    for (int turn = 0; turn < 4000; turn++)
        value = value * 0.999f + 0.5f;
    to[0] = value;
}";

type Info<T> = unsafe extern "C" fn(T, cl_uint, usize, *mut c_void, *mut usize) -> cl_int;

/// The functions that are timed, and those between which they stand.
struct Functions {
    enqueue: unsafe extern "C" fn(
        cl_command_queue,
        cl_kernel,
        cl_uint,
        *const usize,
        *const usize,
        *const usize,
        cl_uint,
        *const cl_event,
        *mut cl_event,
    ) -> cl_int,
    set_argument: unsafe extern "C" fn(cl_kernel, cl_uint, usize, *const c_void) -> cl_int,
    flush: unsafe extern "C" fn(cl_command_queue) -> cl_int,
    finish: unsafe extern "C" fn(cl_command_queue) -> cl_int,
    user_event: unsafe extern "C" fn(cl_context, *mut cl_int) -> cl_event,
    set_status: unsafe extern "C" fn(cl_event, cl_int) -> cl_int,
    release_event: unsafe extern "C" fn(cl_event) -> cl_int,
    device_info: Info<cl_device_id>,
    queue_info: Info<cl_command_queue>,
    memory_info: Info<cl_mem>,
    event_info: Info<cl_event>,
    kernel_info: unsafe extern "C" fn(
        cl_kernel,
        cl_device_id,
        cl_uint,
        usize,
        *mut c_void,
        *mut usize,
    ) -> cl_int,
    /// Dropped last.
    _library: Library,
}

impl Functions {
    fn load() -> Result<Self, String> {
        let told = |error: libloading::Error| format!("there is no loader of OpenCL: {error}");
        // SAFETY: the loader runs no code of a program's when it is loaded.
        let library = unsafe { Library::new("libOpenCL.so.1") }.map_err(told)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: functions of these names have these types, as the standard says.
                *unsafe { library.get($name) }.map_err(told)?
            };
        }
        Ok(Functions {
            enqueue: function!(b"clEnqueueNDRangeKernel"),
            set_argument: function!(b"clSetKernelArg"),
            flush: function!(b"clFlush"),
            finish: function!(b"clFinish"),
            user_event: function!(b"clCreateUserEvent"),
            set_status: function!(b"clSetUserEventStatus"),
            release_event: function!(b"clReleaseEvent"),
            device_info: function!(b"clGetDeviceInfo"),
            queue_info: function!(b"clGetCommandQueueInfo"),
            memory_info: function!(b"clGetMemObjectInfo"),
            event_info: function!(b"clGetEventInfo"),
            kernel_info: function!(b"clGetKernelWorkGroupInfo"),
            _library: library,
        })
    }
}

fn checked(call: &str, code: cl_int) -> Result<(), String> {
    called(call, if code == 0 { Ok(()) } else { Err(code) })
}

/// Objects for all calls. They are kept until the process ends.
pub(super) struct Calling {
    functions: Functions,
    device: cl_device_id,
    context: cl_context,
    in_order: cl_command_queue,
    out_of_order: [cl_command_queue; 2],
    count: cl_kernel,
    work: cl_kernel,
    counter: cl_mem,
    from: cl_mem,
    /// Memory of each independent kernel.
    own: Vec<cl_mem>,
}

impl Calling {
    pub(super) fn open(device: &Device) -> Result<Self, String> {
        let (own, context) = (device.device, device.context);
        let queue = |properties| {
            // The call of OpenCL 1, which all have.
            #[allow(deprecated)]
            // SAFETY: the device is the context's.
            let queue =
                unsafe { cl3::command_queue::create_command_queue(context, own, properties) };
            called("clCreateCommandQueue", queue)
        };
        let out_of_order = cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        let program: cl_program = called(
            "clCreateProgramWithSource",
            cl3::program::create_program_with_source(context, &[SOURCE]),
        )?;
        let built = cl3::program::build_program(program, &[own], c"", None, null_mut());
        called("clBuildProgram", built)?;
        let kernel = |name| called("clCreateKernel", cl3::kernel::create_kernel(program, name));
        let calling = Calling {
            functions: Functions::load()?,
            device: own,
            context,
            in_order: queue(0)?,
            out_of_order: [queue(out_of_order)?, queue(out_of_order)?],
            count: kernel(c"count")?,
            work: kernel(c"work")?,
            counter: buffer(context)?,
            from: buffer(context)?,
            own: Vec::new(),
        };
        calling.set(calling.count, 0, calling.counter)?;
        calling.set(calling.work, 0, calling.from)?;
        device.write(calling.from, &1_f32.to_le_bytes())?;
        Ok(calling)
    }

    /// Calls what has this name so many times; how many seconds that took.
    pub(super) fn call(
        &mut self,
        device: &Device,
        name: &str,
        count: usize,
    ) -> Result<f64, String> {
        device.write(self.counter, &0_i32.to_le_bytes())?;
        let time = match name {
            "chain-in-order" => self.in_order(count, true)?[1],
            "enqueue-held-back" => self.in_order(count, true)?[0],
            "enqueue-contended" => self.in_order(count, false)?[0],
            "chain-out-of-order" => self.out_of_order(count)?,
            "no-op" => self.no_op(count)?,
            "independent-in-order" => self.independent(self.in_order, count)?,
            "independent-out-of-order" => self.independent(self.out_of_order[0], count)?,
            "ask-device" | "ask-queue" | "ask-memory" | "ask-kernel" | "ask-event" => {
                self.ask(name, count)?
            }
            _ => return Err(format!("there is no call {name}")),
        };
        if name.starts_with("chain") || name.starts_with("enqueue") || name == "no-op" {
            let found = device.number(self.counter)?;
            if usize::try_from(found) != Ok(count) {
                return Err(format!("{name}: {found} of {count} kernels ran"));
            }
        }
        Ok(time.as_secs_f64())
    }

    fn set(&self, kernel: cl_kernel, index: cl_uint, memory: cl_mem) -> Result<(), String> {
        // SAFETY: a handle of memory, as the kernel takes there.
        let set = unsafe {
            (self.functions.set_argument)(
                kernel,
                index,
                size_of::<cl_mem>(),
                (&raw const memory).cast(),
            )
        };
        checked("clSetKernelArg", set)
    }

    /// One work-item of a kernel whose arguments are set.
    fn enqueue(
        &self,
        queue: cl_command_queue,
        kernel: cl_kernel,
        after: Option<&cl_event>,
        event: *mut cl_event,
    ) -> Result<(), String> {
        let one = 1_usize;
        let (count, waits) = after.map_or((0, null()), |after| (1, &raw const *after));
        // SAFETY: sizes of one axis, a list as long as it says, and place for an event or none.
        let enqueued = unsafe {
            (self.functions.enqueue)(
                queue,
                kernel,
                1,
                null(),
                &raw const one,
                &raw const one,
                count,
                waits,
                event,
            )
        };
        checked("clEnqueueNDRangeKernel", enqueued)
    }

    fn finish(&self, queue: cl_command_queue) -> Result<(), String> {
        // SAFETY: a queue that is kept.
        checked("clFinish", unsafe { (self.functions.finish)(queue) })
    }

    fn flush(&self, queue: cl_command_queue) -> Result<(), String> {
        // SAFETY: a queue that is kept.
        checked("clFlush", unsafe { (self.functions.flush)(queue) })
    }

    fn release(&self, event: cl_event) -> Result<(), String> {
        // SAFETY: an event of the caller's, which it does not use any more.
        let released = unsafe { (self.functions.release_event)(event) };
        checked("clReleaseEvent", released)
    }

    /// An event that holds back all that waits for it.
    fn hold(&self) -> Result<cl_event, String> {
        let mut code = 0;
        // SAFETY: the context is kept.
        let event = unsafe { (self.functions.user_event)(self.context, &raw mut code) };
        checked("clCreateUserEvent", code).map(|()| event)
    }

    fn let_go(&self, event: cl_event) -> Result<(), String> {
        // SAFETY: an event of the program's own, which has no status yet.
        let set = unsafe { (self.functions.set_status)(event, 0) };
        checked("clSetUserEventStatus", set)
    }

    /// Kernels of one in-order queue: the time of their enqueues, and from then on to the last
    /// one's end.
    fn in_order(&self, count: usize, held: bool) -> Result<[Duration; 2], String> {
        let gate = held.then(|| self.hold()).transpose()?;
        let start = Instant::now();
        self.enqueue(self.in_order, self.count, gate.as_ref(), null_mut())?;
        for _ in 1..count {
            self.enqueue(self.in_order, self.count, None, null_mut())?;
        }
        let enqueued = start.elapsed();
        self.flush(self.in_order)?;
        let start = Instant::now();
        if let Some(gate) = gate {
            self.let_go(gate)?;
        }
        self.finish(self.in_order)?;
        let ran = start.elapsed();
        gate.map_or(Ok(()), |gate| self.release(gate))?;
        Ok([enqueued, ran])
    }

    /// Kernels of two out-of-order queues in turn, each of which waits for the one before: from
    /// their release to the end.
    fn out_of_order(&self, count: usize) -> Result<Duration, String> {
        let gate = self.hold()?;
        let mut last = gate;
        for number in 0..count {
            let mut event = null_mut();
            let queue = self.out_of_order[number % 2];
            self.enqueue(queue, self.count, Some(&last), &raw mut event)?;
            if last != gate {
                self.release(last)?;
            }
            last = event;
        }
        for queue in self.out_of_order {
            self.flush(queue)?;
        }
        let start = Instant::now();
        self.let_go(gate)?;
        for queue in self.out_of_order {
            self.finish(queue)?;
        }
        let ran = start.elapsed();
        self.release(gate)?;
        if last != gate {
            self.release(last)?;
        }
        Ok(ran)
    }

    fn no_op(&self, count: usize) -> Result<Duration, String> {
        let start = Instant::now();
        for _ in 0..count {
            self.enqueue(self.in_order, self.count, None, null_mut())?;
            self.finish(self.in_order)?;
        }
        Ok(start.elapsed())
    }

    /// Kernels that read the same memory, and write each its own.
    fn independent(&mut self, queue: cl_command_queue, count: usize) -> Result<Duration, String> {
        while self.own.len() < count {
            self.own.push(buffer(self.context)?);
        }
        let start = Instant::now();
        for own in &self.own[..count] {
            self.set(self.work, 1, *own)?;
            self.enqueue(queue, self.work, None, null_mut())?;
        }
        self.finish(queue)?;
        Ok(start.elapsed())
    }

    fn ask(&self, name: &str, count: usize) -> Result<Duration, String> {
        use cl3::command_queue::CL_QUEUE_CONTEXT;
        use cl3::device::CL_DEVICE_MAX_COMPUTE_UNITS;
        use cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS;
        use cl3::kernel::CL_KERNEL_WORK_GROUP_SIZE;
        use cl3::memory::CL_MEM_SIZE;
        let mut event = null_mut();
        self.enqueue(self.in_order, self.count, None, &raw mut event)?;
        self.finish(self.in_order)?;
        let functions = &self.functions;
        let mut answer = 0_u64;
        let into = (&raw mut answer).cast::<c_void>();
        let (four, eight) = (4, size_of::<usize>());
        // SAFETY: the objects are kept, and there is place for each answer.
        let asked = |info: &str| unsafe {
            match info {
                "ask-device" => {
                    let what = CL_DEVICE_MAX_COMPUTE_UNITS;
                    (functions.device_info)(self.device, what, four, into, null_mut())
                }
                "ask-queue" => {
                    let what = CL_QUEUE_CONTEXT;
                    (functions.queue_info)(self.in_order, what, eight, into, null_mut())
                }
                "ask-memory" => {
                    let what = CL_MEM_SIZE;
                    (functions.memory_info)(self.counter, what, eight, into, null_mut())
                }
                "ask-kernel" => {
                    let (kernel, what) = (self.count, CL_KERNEL_WORK_GROUP_SIZE);
                    (functions.kernel_info)(kernel, self.device, what, eight, into, null_mut())
                }
                _ => {
                    let what = CL_EVENT_COMMAND_EXECUTION_STATUS;
                    (functions.event_info)(event, what, four, into, null_mut())
                }
            }
        };
        let start = Instant::now();
        let mut failed = 0;
        for _ in 0..count {
            failed |= asked(std::hint::black_box(name));
        }
        let time = start.elapsed();
        self.release(event)?;
        checked(name, failed)?;
        Ok(time)
    }
}

/// Memory of a few numbers.
fn buffer(context: cl_context) -> Result<cl_mem, String> {
    let flags = cl3::memory::CL_MEM_READ_WRITE;
    // SAFETY: no host memory is given.
    let made = unsafe { cl3::memory::create_buffer(context, flags, 64, null_mut()) };
    called("clCreateBuffer", made)
}

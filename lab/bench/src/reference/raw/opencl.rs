//! OpenCL, through `cl3`.

use super::signal::Signal;
use super::{Argument, Grid, Language, Launch, Memory, Raw, RawError, RawResult, Waiting, Way};
use cl3::types::{
    cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_kernel, cl_mem, cl_program,
};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::time::Instant;

/// A context and an in-order queue of one device.
///
/// `cl3` has every enqueue make an event; the last one is kept to wait for, others are released at
/// once.
pub struct OpenCl {
    device: cl_device_id,
    context: cl_context,
    queue: cl_command_queue,
    /// Another one, with timestamps.
    profiled: Option<cl_command_queue>,
    memory: Vec<Option<cl_mem>>,
    program: Option<cl_program>,
    launches: Vec<(cl_kernel, Grid)>,
    last: Option<cl_event>,
    pinned: Option<Pinned>,
}

/// A buffer of the host's memory that the implementation has allocated, mapped.
struct Pinned {
    buffer: cl_mem,
    pointer: *mut u8,
    bytes: usize,
}

fn called<T>(call: &'static str, result: Result<T, cl_int>) -> RawResult<T> {
    result.map_err(|code| RawError::Call { call, code })
}

fn text(text: &str) -> RawResult<CString> {
    CString::new(text).map_err(|_| RawError::Compile("there is a zero in a text".into()))
}

extern "C" fn notify(_: cl_event, _: cl_int, data: *mut c_void) {
    // SAFETY: what `wait` handed over; callbacks are called once.
    unsafe { Signal::raise(data) }
}

impl OpenCl {
    /// A context of a device, and a queue.
    ///
    /// # Errors
    /// If the platform refuses.
    pub(super) fn open(device: cl_device_id) -> RawResult<Self> {
        let context = cl3::context::create_context(&[device], null(), None, null_mut());
        let context = called("clCreateContext", context)?;
        // The call of OpenCL 1, which all have.
        #[allow(deprecated)]
        // SAFETY: the device is the context's.
        let queue = unsafe { cl3::command_queue::create_command_queue(context, device, 0) };
        let queue = called("clCreateCommandQueue", queue).inspect_err(|_| {
            // SAFETY: made above, nobody else's.
            let _ = unsafe { cl3::context::release_context(context) };
        })?;
        Ok(OpenCl {
            device,
            context,
            queue,
            profiled: None,
            memory: Vec::new(),
            program: None,
            launches: Vec::new(),
            last: None,
            pinned: None,
        })
    }

    fn profiled(&mut self) -> RawResult<cl_command_queue> {
        if let Some(queue) = self.profiled {
            return Ok(queue);
        }
        let profiling = cl3::command_queue::CL_QUEUE_PROFILING_ENABLE;
        // As of the other.
        #[allow(deprecated)]
        // SAFETY: the device is the context's.
        let queue = unsafe {
            cl3::command_queue::create_command_queue(self.context, self.device, profiling)
        };
        let queue = called("clCreateCommandQueue", queue)?;
        self.profiled = Some(queue);
        Ok(queue)
    }

    fn enqueue_in(&self, queue: cl_command_queue, launch: Launch) -> RawResult<cl_event> {
        let (kernel, grid) = self.launches[launch.0];
        let (all, each) = sizes(grid);
        // SAFETY: three sizes each; all arguments are set.
        let event = unsafe {
            cl3::command_queue::enqueue_nd_range_kernel(
                queue,
                kernel,
                3,
                null(),
                all.as_ptr(),
                each.as_ptr(),
                0,
                null(),
            )
        };
        called("clEnqueueNDRangeKernel", event)
    }

    fn buffer(&self, memory: Memory) -> RawResult<cl_mem> {
        self.memory[memory.0].ok_or_else(|| RawError::Absent("this memory was released".into()))
    }

    fn allocate(&self, flags: u64, bytes: usize) -> RawResult<cl_mem> {
        // SAFETY: no host memory is given.
        let made = unsafe { cl3::memory::create_buffer(self.context, flags, bytes, null_mut()) };
        called("clCreateBuffer", made)
    }

    /// Waits for the event of what was enqueued last in a queue.
    fn wait_for(queue: cl_command_queue, event: cl_event, waiting: Waiting) -> RawResult<()> {
        let flushed = || called("clFlush", cl3::command_queue::flush(queue));
        match waiting {
            Waiting::Synchronise => called("clFinish", cl3::command_queue::finish(queue))?,
            Waiting::Poll => {
                flushed()?;
                while Self::status(event)? != 0 {
                    std::hint::spin_loop();
                }
            }
            Waiting::Callback => {
                let signal = Signal::new();
                let complete = cl3::event::CL_COMPLETE;
                let set = cl3::event::set_event_callback(event, complete, notify, signal.handed());
                called("clSetEventCallback", set)?;
                flushed()?;
                signal.wait();
            }
        }
        Self::status(event).map(drop)
    }

    /// Keeps an event to wait for in place of the last.
    fn keep(&mut self, event: cl_event) {
        if let Some(before) = self.last.replace(event) {
            // SAFETY: given up once.
            let _ = unsafe { cl3::event::release_event(before) };
        }
    }

    fn program(&mut self) -> RawResult<cl_program> {
        if let Some(known) = self.program {
            return Ok(known);
        }
        let source = self.language().kernels();
        let made = cl3::program::create_program_with_source(self.context, &[source]);
        let program = called("clCreateProgramWithSource", made)?;
        self.program = Some(program);
        let options = c"-cl-std=CL1.2";
        let built = cl3::program::build_program(program, &[self.device], options, None, null_mut());
        if let Err(code) = built {
            let which = cl3::program::CL_PROGRAM_BUILD_LOG;
            let log = cl3::program::get_program_build_info(program, self.device, which);
            let log = log.map(|log| log.to_string()).unwrap_or_default();
            return Err(RawError::Compile(format!("code {code}\n{log}")));
        }
        Ok(program)
    }

    /// The status of the last command: 0 when it is over.
    fn status(event: cl_event) -> RawResult<cl_int> {
        let which = cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS;
        let status = called("clGetEventInfo", cl3::event::get_event_info(event, which))?.to_int();
        if status < 0 {
            return Err(RawError::Call {
                call: "a command",
                code: status,
            });
        }
        Ok(status)
    }
}

impl OpenCl {
    /// # Safety
    /// So many bytes can be read from there until this was waited for.
    unsafe fn enqueue_write(
        &mut self,
        memory: Memory,
        from: *const u8,
        bytes: usize,
        blocking: cl3::types::cl_bool,
    ) -> RawResult<()> {
        let buffer = self.buffer(memory)?;
        // SAFETY: as the caller says; OpenCL minds the buffer's size.
        let event = unsafe {
            cl3::command_queue::enqueue_write_buffer(
                self.queue,
                buffer,
                blocking,
                0,
                bytes,
                from.cast(),
                0,
                null(),
            )
        };
        self.keep(called("clEnqueueWriteBuffer", event)?);
        Ok(())
    }

    /// # Safety
    /// So many bytes can be written there until this was waited for.
    unsafe fn enqueue_read(
        &mut self,
        memory: Memory,
        to: *mut u8,
        bytes: usize,
        blocking: cl3::types::cl_bool,
    ) -> RawResult<()> {
        let buffer = self.buffer(memory)?;
        // SAFETY: as the caller says; OpenCL minds the buffer's size.
        let event = unsafe {
            cl3::command_queue::enqueue_read_buffer(
                self.queue,
                buffer,
                blocking,
                0,
                bytes,
                to.cast(),
                0,
                null(),
            )
        };
        self.keep(called("clEnqueueReadBuffer", event)?);
        Ok(())
    }
}

/// The launch's sizes as OpenCL wants them: threads of all blocks, and of one.
fn sizes(grid: Grid) -> ([usize; 3], [usize; 3]) {
    let of = |dimension: usize| {
        (
            grid.blocks[dimension] as usize,
            grid.threads[dimension] as usize,
        )
    };
    let threads = std::array::from_fn(|dimension| of(dimension).1);
    (
        std::array::from_fn(|dimension| of(dimension).0 * of(dimension).1),
        threads,
    )
}

impl Raw for OpenCl {
    fn language(&self) -> Language {
        Language::OpenClC
    }

    fn memory(&mut self, bytes: usize) -> RawResult<Memory> {
        let buffer = self.allocate(cl3::memory::CL_MEM_READ_WRITE, bytes)?;
        self.memory.push(Some(buffer));
        Ok(Memory(self.memory.len() - 1))
    }

    fn release(&mut self, memory: Memory) -> RawResult<()> {
        let buffer = self.buffer(memory)?;
        self.memory[memory.0] = None;
        // SAFETY: given up once.
        let released = unsafe { cl3::memory::release_mem_object(buffer) };
        called("clReleaseMemObject", released)
    }

    fn write(&mut self, memory: Memory, bytes: &[u8]) -> RawResult<()> {
        // SAFETY: the call waits.
        unsafe { self.enqueue_write(memory, bytes.as_ptr(), bytes.len(), cl3::types::CL_TRUE) }
    }

    fn read(&mut self, memory: Memory, bytes: &mut [u8]) -> RawResult<()> {
        // SAFETY: as above.
        unsafe { self.enqueue_read(memory, bytes.as_mut_ptr(), bytes.len(), cl3::types::CL_TRUE) }
    }

    fn copy(&mut self, from: Memory, to: Memory, bytes: usize) -> RawResult<()> {
        let (from, to) = (self.buffer(from)?, self.buffer(to)?);
        // SAFETY: both are alive; OpenCL minds their sizes.
        let event = unsafe {
            cl3::command_queue::enqueue_copy_buffer(self.queue, from, to, 0, 0, bytes, 0, null())
        };
        self.keep(called("clEnqueueCopyBuffer", event)?);
        Ok(())
    }

    fn prepare(&mut self, kernel: &str, grid: Grid, arguments: &[Argument]) -> RawResult<Launch> {
        let program = self.program()?;
        let made = cl3::kernel::create_kernel(program, &text(kernel)?);
        let kernel = called("clCreateKernel", made)?;
        self.launches.push((kernel, grid));
        for (place, argument) in arguments.iter().enumerate() {
            let buffer: cl_mem;
            let (size, pointer): (usize, *const c_void) = match argument {
                Argument::Memory(memory) => {
                    buffer = self.buffer(*memory)?;
                    (size_of::<cl_mem>(), (&raw const buffer).cast())
                }
                Argument::U32(number) => (4, std::ptr::from_ref(number).cast()),
                Argument::F32(number) => (4, std::ptr::from_ref(number).cast()),
                Argument::F64(number) => (8, std::ptr::from_ref(number).cast()),
            };
            // SAFETY: the pointer is to so many bytes.
            let set = unsafe { cl3::kernel::set_kernel_arg(kernel, place as u32, size, pointer) };
            called("clSetKernelArg", set)?;
        }
        Ok(Launch(self.launches.len() - 1))
    }

    fn enqueue(&mut self, launch: Launch) -> RawResult<()> {
        let event = self.enqueue_in(self.queue, launch)?;
        self.keep(event);
        Ok(())
    }

    fn beyond_kernel(&mut self, launch: Launch, waiting: Waiting) -> RawResult<f64> {
        use cl3::event::{CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_START};
        called("clFinish", cl3::command_queue::finish(self.queue))?;
        let queue = self.profiled()?;
        let started = Instant::now();
        let event = self.enqueue_in(queue, launch)?;
        let over = Self::wait_for(queue, event, waiting);
        let took = started.elapsed().as_secs_f64() * 1e6;
        let at = |what| {
            let time = cl3::event::get_event_profiling_info(event, what);
            called("clGetEventProfilingInfo", time).map(u64::from)
        };
        let beyond = over.and_then(|()| {
            let (begun, over) = (
                at(CL_PROFILING_COMMAND_START)?,
                at(CL_PROFILING_COMMAND_END)?,
            );
            Ok(took - over.saturating_sub(begun) as f64 / 1e3)
        });
        // SAFETY: given up once.
        let _ = unsafe { cl3::event::release_event(event) };
        beyond
    }

    fn wait(&mut self, waiting: Waiting) -> RawResult<()> {
        let Some(event) = self.last.take() else {
            return Ok(());
        };
        let over = Self::wait_for(self.queue, event, waiting);
        // SAFETY: given up once.
        let _ = unsafe { cl3::event::release_event(event) };
        over
    }

    fn pin(&mut self, bytes: usize, value: u8) -> RawResult<()> {
        let flags = cl3::memory::CL_MEM_ALLOC_HOST_PTR | cl3::memory::CL_MEM_READ_WRITE;
        let buffer = self.allocate(flags, bytes)?;
        let mut pointer = null_mut();
        // SAFETY: the buffer is alive and has so many bytes.
        let event = unsafe {
            cl3::command_queue::enqueue_map_buffer(
                self.queue,
                buffer,
                cl3::types::CL_TRUE,
                cl3::memory::CL_MAP_READ | cl3::memory::CL_MAP_WRITE,
                0,
                bytes,
                &mut pointer,
                0,
                null(),
            )
        };
        self.unpin();
        self.keep(called("clEnqueueMapBuffer", event)?);
        let pointer = pointer.cast::<u8>();
        // SAFETY: mapped to be written.
        unsafe { pointer.write_bytes(value, bytes) };
        self.pinned = Some(Pinned {
            buffer,
            pointer,
            bytes,
        });
        Ok(())
    }

    fn start_pinned(&mut self, memory: Memory, way: Way) -> RawResult<()> {
        let absent = || RawError::Absent("nothing is pinned".into());
        let pinned = self.pinned.as_ref().ok_or_else(absent)?;
        let (pointer, bytes) = (pinned.pointer, pinned.bytes);
        // SAFETY: it stays mapped while it is pinned, and nobody else touches it meanwhile.
        unsafe {
            match way {
                Way::Up => self.enqueue_write(memory, pointer, bytes, cl3::types::CL_FALSE)?,
                Way::Down => self.enqueue_read(memory, pointer, bytes, cl3::types::CL_FALSE)?,
            }
        }
        called("clFlush", cl3::command_queue::flush(self.queue))
    }

    fn pinned(&self) -> &[u8] {
        self.pinned.as_ref().map_or(&[], |pinned| {
            // SAFETY: mapped, of so many bytes.
            unsafe { std::slice::from_raw_parts(pinned.pointer, pinned.bytes) }
        })
    }
}

impl OpenCl {
    fn unpin(&mut self) {
        let Some(pinned) = self.pinned.take() else {
            return;
        };
        let (queue, pointer) = (self.queue, pinned.pointer.cast());
        // SAFETY: unmapped once, released once.
        unsafe {
            if let Ok(event) = cl3::command_queue::enqueue_unmap_mem_object(
                queue,
                pinned.buffer,
                pointer,
                0,
                null(),
            ) {
                self.keep(event);
            }
            let _ = cl3::memory::release_mem_object(pinned.buffer);
        }
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        self.unpin();
        let _ = cl3::command_queue::finish(self.queue);
        // SAFETY: all are given up once, after all that uses them is over.
        unsafe {
            if let Some(event) = self.last.take() {
                let _ = cl3::event::release_event(event);
            }
            for (kernel, _) in self.launches.drain(..) {
                let _ = cl3::kernel::release_kernel(kernel);
            }
            if let Some(program) = self.program.take() {
                let _ = cl3::program::release_program(program);
            }
            for buffer in self.memory.drain(..).flatten() {
                let _ = cl3::memory::release_mem_object(buffer);
            }
            if let Some(queue) = self.profiled.take() {
                let _ = cl3::command_queue::release_command_queue(queue);
            }
            let _ = cl3::command_queue::release_command_queue(self.queue);
            let _ = cl3::context::release_context(self.context);
        }
    }
}

//! CUDA's driver interface, through `cudarc`'s declarations.

use super::nvrtc;
use super::signal::Signal;
use super::{Argument, Grid, Language, Launch, Memory, Raw, RawError, RawResult, Waiting, Way};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute, CUdeviceptr, CUevent,
    CUfunction, CUgraphExec, CUmodule, CUresult, CUstream,
};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::time::Instant;

/// A device's primary context, a stream and an event.
pub struct Cuda {
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    event: CUevent,
    memory: Vec<CUdeviceptr>,
    module: Option<CUmodule>,
    launches: Vec<Prepared>,
    pinned: Option<(*mut u8, usize)>,
}

/// A function, and its arguments in 8 bytes each.
struct Prepared {
    function: CUfunction,
    grid: Grid,
    arguments: Box<[u64]>,
}

fn called(call: &'static str, code: CUresult) -> RawResult<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(RawError::Call {
            call,
            code: code as i32,
        }),
    }
}

unsafe extern "C" fn notify(data: *mut c_void) {
    // SAFETY: what `wait` handed over; a host function is called once.
    unsafe { Signal::raise(data) }
}

impl Cuda {
    /// The device with this number, of a process in which CUDA is loaded.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn open(device: CUdevice) -> RawResult<Self> {
        let mut context = null_mut();
        // SAFETY: asks for a device's context; CUDA minds the number.
        called("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut context, device)
        })?;
        let mut cuda = Cuda {
            device,
            context,
            stream: null_mut(),
            event: null_mut(),
            memory: Vec::new(),
            module: None,
            launches: Vec::new(),
            pinned: None,
        };
        cuda.enter()?;
        let stream = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let event = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current.
        unsafe {
            called(
                "cuStreamCreate",
                sys::cuStreamCreate(&raw mut cuda.stream, stream),
            )?;
            called(
                "cuEventCreate",
                sys::cuEventCreate(&raw mut cuda.event, event),
            )?;
        }
        Ok(cuda)
    }

    /// Has calls of this thread be for this device.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn enter(&self) -> RawResult<()> {
        // SAFETY: `self` owns the context.
        called("cuCtxSetCurrent", unsafe {
            sys::cuCtxSetCurrent(self.context)
        })
    }

    fn capability(&self) -> RawResult<i32> {
        let ask = |attribute| {
            let mut number = 0;
            // SAFETY: the call writes one number into `number`, a local variable.
            let code =
                unsafe { sys::cuDeviceGetAttribute(&raw mut number, attribute, self.device) };
            called("cuDeviceGetAttribute", code).map(|()| number)
        };
        let major = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(10 * major + minor)
    }

    fn module(&mut self) -> RawResult<CUmodule> {
        if let Some(known) = self.module {
            return Ok(known);
        }
        let code = nvrtc::compile(self.language().kernels(), self.capability()?)?;
        let mut module = null_mut();
        // SAFETY: the context is current; the code is what the compiler gave.
        called("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&raw mut module, code.as_ptr().cast())
        })?;
        self.module = Some(module);
        Ok(module)
    }

    fn synchronise(&self) -> RawResult<()> {
        // SAFETY: `self` owns the stream.
        called("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.stream)
        })
    }

    /// Enqueues a copy to another device's memory.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn copy_to(&self, from: Memory, other: &Cuda, to: Memory, bytes: usize) -> RawResult<()> {
        let (from, to) = (self.memory[from.0], other.memory[to.0]);
        // SAFETY: both are alive, as are their contexts.
        called("cuMemcpyPeerAsync", unsafe {
            sys::cuMemcpyPeerAsync(to, other.context, from, self.context, bytes, self.stream)
        })
    }

    /// Lets this device reach the other's memory; false where it cannot.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn reach(&self, other: &Cuda) -> RawResult<bool> {
        let mut can = 0;
        // SAFETY: the call writes one number into `can`, a local variable.
        called("cuDeviceCanAccessPeer", unsafe {
            sys::cuDeviceCanAccessPeer(&raw mut can, self.device, other.device)
        })?;
        if can == 0 {
            return Ok(false);
        }
        self.enter()?;
        // SAFETY: the other's context is alive.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            code => called("cuCtxEnablePeerAccess", code).map(|()| true),
        }
    }

    /// A graph of what `enqueue` enqueues to this queue, ready to be replayed.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn graph(&mut self, enqueue: impl FnOnce(&mut Self) -> RawResult<()>) -> RawResult<Graph> {
        self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is this object's alone.
        called("cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(self.stream, mode)
        })?;
        let enqueued = enqueue(self);
        let mut graph = null_mut();
        // SAFETY: begun above.
        let ended = unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) };
        enqueued?;
        called("cuStreamEndCapture", ended)?;
        let mut ready = null_mut();
        // SAFETY: captured above; the executable graph keeps what it needs of it.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0);
            sys::cuGraphDestroy(graph);
            made
        };
        called("cuGraphInstantiate", made)?;
        let graph = Graph(ready);
        // SAFETY: as in `replay`. Uploaded beforehand, as a careful programmer does.
        called("cuGraphUpload", unsafe {
            sys::cuGraphUpload(graph.0, self.stream)
        })?;
        self.synchronise()?;
        Ok(graph)
    }

    /// Enqueues all of a graph.
    ///
    /// # Errors
    /// If CUDA refuses.
    pub fn replay(&self, graph: &Graph) -> RawResult<()> {
        // SAFETY: `graph` and `self` own what is passed.
        called("cuGraphLaunch", unsafe {
            sys::cuGraphLaunch(graph.0, self.stream)
        })
    }
}

/// Launches that are enqueued with one call.
pub struct Graph(CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: destroyed once; what is enqueued goes on.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// An event with a timestamp, of the context that is current.
struct Timed(CUevent);

impl Timed {
    fn new() -> RawResult<Self> {
        let mut event = null_mut();
        // SAFETY: a context is current, or this is refused.
        let code = unsafe { sys::cuEventCreate(&raw mut event, 0) };
        called("cuEventCreate", code)?;
        Ok(Timed(event))
    }

    fn record(&self, stream: CUstream) -> RawResult<()> {
        // SAFETY: both are alive, and of one context.
        called("cuEventRecord", unsafe {
            sys::cuEventRecord(self.0, stream)
        })
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        // SAFETY: made above, given up once.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

impl Raw for Cuda {
    fn language(&self) -> Language {
        Language::CudaC
    }

    fn memory(&mut self, bytes: usize) -> RawResult<Memory> {
        self.enter()?;
        let mut pointer = 0;
        // SAFETY: the context is current.
        called("cuMemAlloc", unsafe {
            sys::cuMemAlloc_v2(&raw mut pointer, bytes)
        })?;
        self.memory.push(pointer);
        Ok(Memory(self.memory.len() - 1))
    }

    fn release(&mut self, memory: Memory) -> RawResult<()> {
        self.enter()?;
        let pointer = std::mem::take(&mut self.memory[memory.0]);
        // SAFETY: allocated by `memory`; CUDA minds what is zero.
        called("cuMemFree", unsafe { sys::cuMemFree_v2(pointer) })
    }

    fn write(&mut self, memory: Memory, bytes: &[u8]) -> RawResult<()> {
        // SAFETY: it is waited for.
        unsafe { self.start_write(memory, bytes.as_ptr(), bytes.len()) }?;
        self.synchronise()
    }

    fn read(&mut self, memory: Memory, bytes: &mut [u8]) -> RawResult<()> {
        // SAFETY: as above.
        unsafe { self.start_read(memory, bytes.as_mut_ptr(), bytes.len()) }?;
        self.synchronise()
    }

    fn copy(&mut self, from: Memory, to: Memory, bytes: usize) -> RawResult<()> {
        let (from, to) = (self.memory[from.0], self.memory[to.0]);
        // SAFETY: both are alive; CUDA minds their sizes.
        called("cuMemcpyDtoDAsync", unsafe {
            sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream)
        })
    }

    fn prepare(&mut self, kernel: &str, grid: Grid, arguments: &[Argument]) -> RawResult<Launch> {
        self.enter()?;
        let module = self.module()?;
        let name = CString::new(kernel)
            .map_err(|_| RawError::Compile("there is a zero in a name".into()))?;
        let mut function = null_mut();
        // SAFETY: the module is alive, the name ends with zero.
        called("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr())
        })?;
        // Little-endian, as all hosts of GPUs are: a smaller number is in the first bytes.
        let bits = arguments.iter().map(|argument| match argument {
            Argument::Memory(memory) => self.memory[memory.0],
            Argument::U32(number) => u64::from(*number),
            Argument::F32(number) => u64::from(number.to_bits()),
            Argument::F64(number) => number.to_bits(),
        });
        let arguments = bits.collect();
        self.launches.push(Prepared {
            function,
            grid,
            arguments,
        });
        Ok(Launch(self.launches.len() - 1))
    }

    /// The device's context is current: see [`enter`](Cuda::enter).
    fn enqueue(&mut self, launch: Launch) -> RawResult<()> {
        let Prepared {
            function,
            grid,
            arguments,
        } = &mut self.launches[launch.0];
        let mut pointers: [*mut c_void; 8] = [null_mut(); 8];
        for (pointer, argument) in pointers.iter_mut().zip(arguments.iter_mut()) {
            *pointer = std::ptr::from_mut(argument).cast();
        }
        let Grid {
            blocks: [x, y, z],
            threads: [width, height, depth],
        } = *grid;
        // SAFETY: as many arguments as the kernel has, at most eight, each of its size or longer.
        called("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                *function,
                x,
                y,
                z,
                width,
                height,
                depth,
                0,
                self.stream,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        })
    }

    fn wait(&mut self, waiting: Waiting) -> RawResult<()> {
        match waiting {
            Waiting::Synchronise => self.synchronise(),
            Waiting::Poll => {
                // SAFETY: both are alive, and of one context.
                called("cuEventRecord", unsafe {
                    sys::cuEventRecord(self.event, self.stream)
                })?;
                loop {
                    // SAFETY: `self` owns the event.
                    match unsafe { sys::cuEventQuery(self.event) } {
                        CUresult::CUDA_ERROR_NOT_READY => std::hint::spin_loop(),
                        code => return called("cuEventQuery", code),
                    }
                }
            }
            Waiting::Callback => {
                let signal = Signal::new();
                // SAFETY: the function calls nothing of CUDA's.
                called("cuLaunchHostFunc", unsafe {
                    sys::cuLaunchHostFunc(self.stream, Some(notify), signal.handed())
                })?;
                signal.wait();
                Ok(())
            }
        }
    }

    fn beyond_kernel(&mut self, launch: Launch, waiting: Waiting) -> RawResult<f64> {
        self.enter()?;
        let (begun, over) = (Timed::new()?, Timed::new()?);
        let started = Instant::now();
        begun.record(self.stream)?;
        self.enqueue(launch)?;
        over.record(self.stream)?;
        self.wait(waiting)?;
        let took = started.elapsed().as_secs_f64() * 1e6;
        let mut milliseconds = 0.0;
        // SAFETY: both are alive, were recorded, and are over.
        called("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime_v2(&raw mut milliseconds, begun.0, over.0)
        })?;
        Ok(took - f64::from(milliseconds) * 1e3)
    }

    fn pin(&mut self, bytes: usize, value: u8) -> RawResult<()> {
        self.enter()?;
        self.unpin();
        let mut pointer = null_mut();
        // SAFETY: the context is current.
        called("cuMemHostAlloc", unsafe {
            sys::cuMemHostAlloc(&raw mut pointer, bytes, 0)
        })?;
        let pointer = pointer.cast::<u8>();
        // SAFETY: so many bytes, ours alone.
        unsafe { pointer.write_bytes(value, bytes) };
        self.pinned = Some((pointer, bytes));
        Ok(())
    }

    fn start_pinned(&mut self, memory: Memory, way: Way) -> RawResult<()> {
        let absent = || RawError::Absent("nothing is pinned".into());
        let (pointer, bytes) = self.pinned.ok_or_else(absent)?;
        // SAFETY: pinned until this is dropped, which waits; nobody else touches it meanwhile.
        unsafe {
            match way {
                Way::Up => self.start_write(memory, pointer, bytes),
                Way::Down => self.start_read(memory, pointer, bytes),
            }
        }
    }

    fn pinned(&self) -> &[u8] {
        self.pinned.map_or(&[], |(pointer, bytes)| {
            // SAFETY: ours, of so many bytes.
            unsafe { std::slice::from_raw_parts(pointer, bytes) }
        })
    }
}

impl Cuda {
    /// # Safety
    /// So many bytes can be read from there until the stream was waited for.
    unsafe fn start_write(&self, memory: Memory, from: *const u8, bytes: usize) -> RawResult<()> {
        self.enter()?;
        // SAFETY: as the caller says; CUDA minds the memory's size.
        called("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(self.memory[memory.0], from.cast(), bytes, self.stream)
        })
    }

    /// # Safety
    /// So many bytes can be written there until the stream was waited for.
    unsafe fn start_read(&self, memory: Memory, to: *mut u8, bytes: usize) -> RawResult<()> {
        self.enter()?;
        // SAFETY: as the caller says; CUDA minds the memory's size.
        called("cuMemcpyDtoHAsync", unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.cast(), self.memory[memory.0], bytes, self.stream)
        })
    }

    fn unpin(&mut self) {
        if let Some((pointer, _)) = self.pinned.take() {
            // SAFETY: made by `pin`, freed once.
            unsafe { sys::cuMemFreeHost(pointer.cast()) };
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        let _ = self.synchronise();
        self.unpin();
        // SAFETY: all are given up once, after all that uses them is over.
        unsafe {
            for pointer in self.memory.drain(..).filter(|pointer| *pointer != 0) {
                sys::cuMemFree_v2(pointer);
            }
            if let Some(module) = self.module.take() {
                sys::cuModuleUnload(module);
            }
            if !self.event.is_null() {
                sys::cuEventDestroy_v2(self.event);
            }
            if !self.stream.is_null() {
                sys::cuStreamDestroy_v2(self.stream);
            }
            sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

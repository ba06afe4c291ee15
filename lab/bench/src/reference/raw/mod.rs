//! A device's own interface, without Quipu: OpenCL or CUDA, from the library that the system has
//! when the program runs.
//!
//! Benchmarks compare with careful code by hand: kernels compiled and arguments set beforehand, one
//! in-order queue (a stream), no futures. [`open`] gives the interface of the device that a queue
//! of ours is on, so both sides run on the same one, with memory, queue and programs of their own.
//!
//! | file | contents |
//! |---|---|
//! | here | the interface that both have, and its errors |
//! | `opencl` | OpenCL, through `cl3` |
//! | `cuda` | CUDA's driver interface, through `cudarc`'s declarations |
//! | `nvrtc` | the compiler of CUDA C |
//! | `signal` | the signal by which a callback wakes a thread |

mod cuda;
mod nvrtc;
mod opencl;
mod signal;

use quipu::driver::{CudaQueue, OpenClQueue};
use thiserror::Error;

pub use cuda::{Cuda, Graph};
pub use opencl::OpenCl;

/// The reason for which an interface did not do as it was asked.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RawError {
    /// The device has none.
    #[error("{0}")]
    Absent(String),
    /// A call failed.
    #[error("{call} failed with code {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// The interface's code.
        code: i32,
    },
    /// A hand-written text was refused.
    #[error("the compiler refuses the hand-written kernels: {0}")]
    Compile(String),
}

/// The result of a call.
pub type RawResult<T> = Result<T, RawError>;

/// A language that kernels are written in by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// OpenCL C.
    OpenClC,
    /// CUDA C.
    CudaC,
}

impl Language {
    /// Its name, for the column of references.
    pub fn name(self) -> &'static str {
        match self {
            Language::OpenClC => "OpenCL C",
            Language::CudaC => "CUDA C",
        }
    }

    /// The hand-written kernels in it.
    pub fn kernels(self) -> &'static str {
        match self {
            Language::OpenClC => crate::kernels::OPENCL_C,
            Language::CudaC => crate::kernels::CUDA_C,
        }
    }

    /// The interface that goes with it.
    pub fn interface(self) -> &'static str {
        match self {
            Language::OpenClC => "OpenCL",
            Language::CudaC => "CUDA",
        }
    }
}

/// Blocks, and threads of each, fastest dimension first.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
}

impl Grid {
    /// So many blocks of so many threads in one dimension.
    pub fn line(blocks: usize, threads: usize) -> Self {
        Grid::plane([blocks, 1], [threads, 1])
    }

    /// Blocks and threads in two dimensions, fastest first.
    ///
    /// # Panics
    /// If there are more than 2^32 in one of them.
    pub fn plane(blocks: [usize; 2], threads: [usize; 2]) -> Self {
        let both = |[x, y]: [usize; 2]| {
            [x, y, 1].map(|count| u32::try_from(count).expect("a grid of fewer than 2^32"))
        };
        Grid {
            blocks: both(blocks),
            threads: both(threads),
        }
    }
}

/// Memory of the device. Its interface frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(usize);

/// A compiled kernel with its arguments and grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch(usize);

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// A pointer to memory of the device.
    Memory(Memory),
    /// A number.
    U32(u32),
    /// A number.
    F32(f32),
    /// A number.
    F64(f64),
}

/// The way in which a thread finds out that its commands are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// By the interface's own wait: `clFinish`, `cuStreamSynchronize`.
    Synchronise,
    /// By asking an event again and again.
    Poll,
    /// Asleep, woken by a callback: `clSetEventCallback`, `cuLaunchHostFunc`.
    Callback,
}

impl Waiting {
    /// Its name in the column of references.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Synchronise => "synchronise",
            Waiting::Poll => "poll an event",
            Waiting::Callback => "callback",
        }
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the host to the device.
    Up,
    /// From the device to the host.
    Down,
}

/// One in-order queue of a device, and what belongs to it.
///
/// Handles are those that this queue gave; others are an error or a panic. What is enqueued goes on
/// when the queue is dropped; memory and programs are freed then, after it.
pub trait Raw {
    /// The language of its kernels.
    fn language(&self) -> Language;

    /// So many bytes, undefined.
    ///
    /// # Errors
    /// If there is no room.
    fn memory(&mut self, bytes: usize) -> RawResult<Memory>;

    /// Frees memory that nothing enqueued uses.
    ///
    /// # Errors
    /// If the interface refuses.
    fn release(&mut self, memory: Memory) -> RawResult<()>;

    /// Moves bytes between host and device, and waits.
    ///
    /// # Errors
    /// If the interface refuses.
    fn write(&mut self, memory: Memory, bytes: &[u8]) -> RawResult<()>;

    /// As [`write`](Raw::write), the other way.
    ///
    /// # Errors
    /// If the interface refuses.
    fn read(&mut self, memory: Memory, bytes: &mut [u8]) -> RawResult<()>;

    /// Enqueues a copy on the device.
    ///
    /// # Errors
    /// If the interface refuses.
    fn copy(&mut self, from: Memory, to: Memory, bytes: usize) -> RawResult<()>;

    /// Compiles the hand-written kernels, if they are not yet, and sets the arguments of one.
    ///
    /// # Errors
    /// The compiler's messages.
    fn prepare(&mut self, kernel: &str, grid: Grid, arguments: &[Argument]) -> RawResult<Launch>;

    /// Enqueues a launch.
    ///
    /// # Errors
    /// If the interface refuses.
    fn enqueue(&mut self, launch: Launch) -> RawResult<()>;

    /// Waits for all that was enqueued.
    ///
    /// # Errors
    /// If the interface refuses, or what was enqueued has failed.
    fn wait(&mut self, waiting: Waiting) -> RawResult<()>;

    /// Launches once, with timestamps, and waits. Gives the microseconds that both took beyond the
    /// kernel's own time by these.
    ///
    /// # Errors
    /// As [`wait`](Raw::wait).
    fn beyond_kernel(&mut self, launch: Launch, waiting: Waiting) -> RawResult<f64>;

    /// As many bytes of host memory that the device reaches at full speed, for transfers with
    /// memory of as many bytes. It is filled with `value`.
    ///
    /// # Errors
    /// If the system gives none.
    fn pin(&mut self, bytes: usize, value: u8) -> RawResult<()>;

    /// Begins to move all of the pinned bytes to memory, or back: nobody touches either until that
    /// is waited for.
    ///
    /// # Errors
    /// If nothing is pinned, or the interface refuses.
    fn start_pinned(&mut self, memory: Memory, way: Way) -> RawResult<()>;

    /// As [`start_pinned`](Raw::start_pinned), and waits.
    ///
    /// # Errors
    /// As there.
    fn move_pinned(&mut self, memory: Memory, way: Way) -> RawResult<()> {
        self.start_pinned(memory, way)?;
        self.wait(Waiting::Synchronise)
    }

    /// The pinned bytes.
    fn pinned(&self) -> &[u8];
}

/// The interface of the device that a queue is on.
///
/// # Errors
/// [`RawError::Absent`] if the queue's driver is none of a device with an interface of its own,
/// else if a call fails.
pub fn open(queue: &quipu::Queue) -> RawResult<Box<dyn Raw>> {
    match queue.device().driver_name() {
        "cuda" => Ok(Box::new(open_cuda(queue)?)),
        "opencl" => {
            let call = |native: &OpenClQueue| native.device() as usize;
            let device = ours(queue.native_call(call).and_then(quipu::Pending::wait))?;
            Ok(Box::new(OpenCl::open(device as _)?))
        }
        other => Err(RawError::Absent(format!(
            "devices of the driver '{other}' have no interface of their own"
        ))),
    }
}

/// CUDA, for what OpenCL has not.
///
/// # Errors
/// As [`open`].
pub fn open_cuda(queue: &quipu::Queue) -> RawResult<Cuda> {
    let call = |native: &CudaQueue| native.device();
    let device = ours(queue.native_call(call).and_then(quipu::Pending::wait))?;
    Cuda::open(device)
}

/// New memory with these elements.
///
/// # Errors
/// If there is no room.
pub fn upload<T: bytemuck::NoUninit>(raw: &mut dyn Raw, elements: &[T]) -> RawResult<Memory> {
    let memory = raw.memory(size_of_val(elements))?;
    raw.write(memory, bytemuck::cast_slice(elements))?;
    Ok(memory)
}

/// So many elements of memory.
///
/// # Errors
/// If there are fewer.
pub fn download<T: bytemuck::Pod>(
    raw: &mut dyn Raw,
    memory: Memory,
    length: usize,
) -> RawResult<Vec<T>> {
    let mut elements = vec![T::zeroed(); length];
    raw.read(memory, bytemuck::cast_slice_mut(&mut elements))?;
    Ok(elements)
}

/// The runtime's message about its own native calls.
fn ours<T>(result: quipu::Result<T>) -> RawResult<T> {
    result.map_err(|error| RawError::Absent(format!("its driver gives no native queue: {error}")))
}

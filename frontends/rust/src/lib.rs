//! One task graph over every compute device you can reach.
//!
//! A [`Platform`] lists devices, a [`Context`] makes some of them share buffers, a [`Queue`] takes
//! commands for one of them. Commands on different queues and devices run in parallel where they
//! can, and in the order that the data they touch demands where they must. Each enqueued command
//! gives a future.
//!
//! ```
//! use quipu::prelude::*;
//!
//! #[kernel]
//! fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
//!     for (i, y) in y.each() {
//!         *y += a * x[i]; // this thread's own elements: no other can reach them
//!     }
//! }
//!
//! fn main() -> quipu::Result<()> {
//!     let context = Platform::new()?.context()?;
//!     let queue = context.queue(&context.fastest())?;
//!
//!     let x = context.buffer(&[1.0, 2.0, 3.0])?;
//!     let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
//!     queue.launch(x.len(), saxpy(2.0, &x, &mut y))?;
//!
//!     assert_eq!(queue.read(&y)?.wait()?, [12.0, 24.0, 36.0]); // or `.await?`
//!     Ok(())
//! }
//! ```
//!
//! | module or type | contents |
//! |---|---|
//! | [`Platform`], [`Device`], [`Context`] | devices, and groups of them |
//! | [`Queue`] | launches, transfers, tasks and mappings for one device |
//! | [`Buffer`], [`View`], [`Layout`] | memory, its parts, its shapes |
//! | [`HostView`], [`Source`], [`Pinned`] | memory of the host |
//! | [`record`] | graphs that are recorded once and launched many times |
//! | [`kernel`] | kernels and their arguments |
//! | [`Event`], [`Pending`], [`when_all`], [`when_any`] | futures |
#![cfg_attr(
    feature = "serve",
    doc = "| [`serve`] | programs whose kernels others launch over the network |"
)]
//! | [`driver`] | the types for a driver from elsewhere |
//! | [`drivers`], [`simulation`] | the drivers of this project, and the simulated machine |
//!
//! # What safe code cannot do
//!
//! * *Race.* Commands that touch the same bytes, one of them writing, are ordered on all queues of
//!   a context. A launch is refused if its arguments overlap and one of them is written. A command
//!   on a mapped buffer is refused.
//! * *Touch memory that is gone.* A command owns its arguments, or borrows them in a scope that
//!   waits. A buffer's memory is freed after the last command that uses it.
//! * *Get bits that are no value of their type.* Reads and mappings check them.
//!
//! `unsafe` kernels can break each of these promises.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `cuda` (default) | NVIDIA's GPUs, by CUDA's driver |
//! | `opencl` (default) | the devices of the machine's OpenCL |
//! | `remote` (default) | devices of other machines, over TLS |
//! | `sim` (default) | simulated accelerators, for tests |
//! | `serve` | programs whose kernels others launch over the network |
//! | `sources` | cameras and decoders as devices of this program |
//! | `discovery` | nodes that have moved are looked for on the local network |
//!
//! Without any, a program has the CPU alone. Libraries of vendors are loaded when a program runs.
//!
//! # Without hidden state
//!
//! There is no default device, queue or context. Platforms share one thing: a process has one CPU
//! pool, unless a platform asks for [one of its own](PlatformBuilder::cpu). The log is off until a
//! program calls [`init_logging_from_env`]. `QUIPU_TRACE=file.json` in the environment writes a
//! trace of any program. The trace is complete when the last context is dropped.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

/// The program in the project's README is one that works.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// So is the one in this crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct CrateReadme;

/// So are those in the page on running nodes.
#[cfg(all(doctest, feature = "serve"))]
#[doc = include_str!("../../../docs/nodes.md")]
pub struct NodesPage;

/// So are those in the guide to kernels.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
pub struct KernelGuide;

/// The programs in the pages for people who come from CUDA or OpenCL.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels-from-cuda.md")]
pub struct CudaPage;

/// The other of them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels-from-opencl.md")]
pub struct OpenClPage;

mod buffer;
mod context;
mod device;
mod element;
mod future;
mod host;
pub mod kernel;
mod layout;
mod log;
mod parcel;
mod pinned;
mod platform;
mod queue;
pub mod record;
#[cfg(feature = "serve")]
pub mod serve;
mod variable;

pub use buffer::{Buffer, Overwrite};
pub use context::Context;
pub use device::Device;
pub use element::Element;
pub use future::{Combined, First, Pending, Waitable, WhenAll, WhenAny, when_all, when_any};
pub use host::{HostView, Source};
pub use kernel::{Bound, BuiltIn, Value, bind, bind_blocks, native};
pub use layout::{Layout, View};
pub use log::{init_logging_from_env, init_logging_from_env_or};
pub use pinned::Pinned;
pub use platform::{Platform, PlatformBuilder, Unavailable};
pub use queue::{
    Guard, IntoDivision, MapRead, MapReadNd, MapWrite, MapWriteNd, Mapping, Queue, Scope, Scratch,
};
pub use record::{Graph, Node, Recorder, Recording};
pub use variable::{Constant, Variable};

#[cfg(feature = "sim")]
pub use quipu_driver_sim::engine as simulation;
pub use quipu_kernel::{
    self as kernels, AcceleratorLimits, Extent, GlobalMut, GlobalRef, KernelError, Subdivision,
    WorkDivision,
};
pub use quipu_scheduler::built_in::{BuiltInKernel, BuiltInParameter};
pub use quipu_scheduler::error::{BufferName, Foreign, Returned, Unit};
pub use quipu_scheduler::event::Profile;
pub use quipu_scheduler::{
    Completion, DeviceKind, DeviceProperties, Error, ErrorKind, Event, KernelAttributes, Kind,
    Partition, Phase, Polling, Priority, QueueOptions, Result, UserEvent,
};

/// The items that the macros' code names.
#[doc(hidden)]
pub mod __macro {
    pub use crate::kernel::{Call, Pass, PassAll};
    pub use crate::queue::launch::compiled_here;
    pub use quipu_kernel::__macro::*;
}

pub mod diagnostics {
    //! Questions to a program that stands still.
    //!
    //! [`wait_graph`] lists the threads and commands that wait, and for which: for a thread of your
    //! own that watches the others, or a debugger. With `QUIPU_WATCH=10` in the environment, and a
    //! log (`QUIPU_LOG=warn`), each wait that takes longer than ten seconds logs it by itself;
    //! [`log_waits_longer_than`] does the same from within a program.
    //!
    //! ```
    //! # use quipu::prelude::*;
    //! # fn main() -> quipu::Result<()> {
    //! # let context = Platform::new()?.context()?;
    //! # let queue = context.queue(&context.fastest())?;
    //! let gate = UserEvent::new();
    //! let task = queue.named("behind the gate").after([gate.event()]).host_task(|| 1)?;
    //! std::thread::scope(|scope| {
    //!     scope.spawn(|| {
    //!         while !quipu::diagnostics::wait_graph().contains("for 'behind the gate'") {
    //!             std::thread::yield_now();
    //!         }
    //!         gate.complete();
    //!     });
    //!     task.wait()
    //! })?;
    //! # Ok(())
    //! # }
    //! ```

    pub use quipu_scheduler::event::{log_waits_longer_than, wait_graph};
}

pub mod driver {
    //! The items that a driver is made with, also one from outside of this project: see
    //! [`PlatformBuilder::driver`](crate::PlatformBuilder::driver), and the example `12_driver`,
    //! whose driver is in `lab/abacus`. The contract is [`Driver`]'s.
    //!
    //! | a driver's duty | types for it |
    //! |---|---|
    //! | describes its devices | [`DeviceProperties`](crate::DeviceProperties), [`MemorySpace`], [`MAX_GROUPS`] |
    //! | is handed commands | [`Notification`], [`Submission`], [`DomainWait`], [`CommandRef`] |
    //! | finds out a command's work | [`Command`], [`Kind`], [`Operation`], [`Argument`], [`AccessMode`], [`Allocation`] |
    //! | ends commands | [`Command::finish`] with [`ToDrivers`] or a [`ReadySink`] of its own |
    //! | lets a thread of its own sleep | [`slab::flush`] before it does |
    //! | lets a thread of the host wait | [`Waiter`], [`Armed`] |
    //! | keeps users' code on a thread of its own from waiting | [`refuse_waits`] |
    //! | hands out a queue of its own | [`Driver::native_queue`]; [`Driver::takes_native`] with a [`NativeQueue`], to [`NativeEnqueue`]s |
    //! | loses a device | [`Context::device_lost`] with the queue's [`Device`] |
    //!
    //! [`Context`] and [`Device`] here are the core's.

    pub use quipu_driver_cpu::CpuQueue;
    #[cfg(feature = "cuda")]
    pub use quipu_driver_cuda::{CudaMemory, CudaQueue};
    #[cfg(feature = "opencl")]
    pub use quipu_driver_opencl::{OpenClMemory, OpenClQueue};
    #[cfg(feature = "sim")]
    pub use quipu_driver_sim::SimQueue;
    pub use quipu_scheduler::access::Argument;
    pub use quipu_scheduler::clock::now_ns;
    pub use quipu_scheduler::command::{Gather, ReadySink, ToDrivers, slab};
    pub use quipu_scheduler::driver::{
        CommandRef, DomainWait, Driver, Notification, Resolved, Submission,
    };
    pub use quipu_scheduler::event::{Armed, Waiter, refuse_waits};
    pub use quipu_scheduler::front::MAX_GROUPS;
    pub use quipu_scheduler::memory::{Allocation, Memory};
    pub use quipu_scheduler::native::{NativeBytes, NativeEnqueue, NativeQueue};
    pub use quipu_scheduler::operation::{
        Endpoint, Fill, HostMemory, Migration, Operation, Step, Transfer,
    };
    pub use quipu_scheduler::portable::{
        CodeKey, Extents, Passed, PassedParameter, PortableKernel,
    };
    pub use quipu_scheduler::queue::{QueueShared, route_to};
    pub use quipu_scheduler::{
        AccessMode, Command, Context, Device, EventId, Kind, MemorySpace, RawArgument, SpaceId,
    };
}

pub mod drivers {
    //! The drivers of this project, for programs that start one themselves: with
    //! options, or to speak to it later. A started driver is added with
    //! [`PlatformBuilder::driver`](crate::PlatformBuilder::driver).

    pub use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
    #[cfg(feature = "cuda")]
    pub use quipu_driver_cuda::CudaDriver;
    #[cfg(feature = "opencl")]
    pub use quipu_driver_opencl::OpenClDriver;
    #[cfg(feature = "remote")]
    pub use quipu_driver_remote::{self as remote, RemoteDriver};
    #[cfg(feature = "sim")]
    pub use quipu_driver_sim::{MachineView, SimDriver};
    #[cfg(feature = "sources")]
    pub use quipu_driver_sources as sources;
}

pub mod prelude {
    //! The items that most programs use.

    pub use crate::{
        Bound, Buffer, Constant, Context, Device, Element, Event, Extent, Graph, HostView, Layout,
        Partition, Pending, Pinned, Platform, Priority, Queue, QueueOptions, UserEvent, Value,
        Variable, View, Waitable, WorkDivision, bind, bind_blocks, native, when_all, when_any,
    };
    pub use quipu_kernel::{
        Accelerator, Atomically, Atomics, Block, BlockAccelerator, BlockKernel, Blocks, ByBlock,
        ByElement, Elements, GlobalMut, GlobalRef, Grid, GridAccelerator, Kernel, KernelData,
        OwnBlock, OwnBlockTile, OwnElements, OwnRows, OwnTile, RawMut, SharedArray, SharedAtomics,
        SharedRaw, SharedRead, SharedWrite, Thread, Threads, device, kernel, kernel_closure,
    };
}

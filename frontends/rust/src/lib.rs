//! One task graph over every compute device you can reach.
//!
//! A [`Platform`] lists devices, a [`Context`] makes some of them share buffers,
//! a [`Queue`] takes commands for one of them. Commands on different queues and
//! devices run in parallel where they can, and in the order that the data they
//! touch demands where they must. Whatever is enqueued gives a future.
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
//! | module or type | what it is |
//! |---|---|
//! | [`Platform`], [`Device`], [`Context`] | what there is to compute on |
//! | [`Queue`] | what can be enqueued: launches, transfers, tasks, mappings |
//! | [`Buffer`], [`View`], [`Layout`] | memory, its parts, its shapes |
//! | [`HostView`], [`Source`], [`Pinned`] | memory of the host |
//! | [`record`] | graphs that are recorded once and launched many times |
//! | [`kernel`] | kernels and their arguments |
//! | [`Event`], [`Pending`], [`when_all`], [`when_any`] | futures |
#![cfg_attr(
    feature = "serve",
    doc = "| [`serve`] | programs whose kernels others launch over the network |"
)]
//! | [`driver`] | what a driver from elsewhere is made with |
//! | [`drivers`], [`simulation`] | the drivers of this project, and the simulated machine |
//!
//! # What safe code cannot do
//!
//! Race: commands of which one writes what another touches are ordered, on all
//! queues of a context; a launch whose arguments overlap where one is written is
//! refused; so is a command on a buffer that is mapped. Read or write what is
//! gone: a command owns what it uses, or borrows it in a scope that waits, and a
//! buffer's memory is freed after the last command that uses it. Be given bits
//! that are no value of their type by a read or a mapping: these are checked.
//! (What a kernel writes is of the right type, unless its `unsafe` code is wrong.)
//!
//! # Without hidden state
//!
//! There is no default device, queue or context. One thing is shared behind the
//! scenes, the CPU pool of platforms that do not ask for
//! [one of their own](PlatformBuilder::cpu). The log is off unless a program turns
//! it on with [`init_logging_from_env`]. `QUIPU_TRACE=file.json` in the
//! environment writes a trace of any program; it is complete when the last
//! context is gone, with the queues that keep it.

/// The program in the project's README is one that works.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// So are those in the page on running nodes.
#[cfg(all(doctest, feature = "serve"))]
#[doc = include_str!("../../../docs/nodes.md")]
pub struct NodesPage;

/// So are those in the guide to kernels.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
pub struct KernelGuide;

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
pub use log::init_logging_from_env;
pub use pinned::Pinned;
pub use platform::{Platform, PlatformBuilder, Unavailable};
pub use queue::{
    Guard, IntoDivision, MapRead, MapReadNd, MapWrite, MapWriteNd, Mapping, Queue, Scope,
};
pub use record::{Graph, Node, Recorder, Recording};
pub use variable::{Constant, Variable};

pub use quipu_core::built_in::{BuiltInKernel, BuiltInParameter};
pub use quipu_core::error::Returned;
pub use quipu_core::event::Profile;
pub use quipu_core::{
    Completion, DeviceKind, DeviceProperties, Error, ErrorKind, Event, KernelAttributes, Kind,
    Partition, Phase, Polling, Priority, QueueOptions, Result, UserEvent,
};
pub use quipu_driver_sim::engine as simulation;
pub use quipu_kernel::{
    self as kernels, AcceleratorLimits, Extent, GlobalMut, GlobalRef, KernelError, Subdivision,
    WorkDivision,
};

/// What the macros' code names.
#[doc(hidden)]
pub mod __macro {
    pub use crate::kernel::{Call, Pass, PassAll};
    pub use crate::queue::launch::compiled_here;
    pub use quipu_kernel::__macro::*;
}

pub mod driver {
    //! What a driver is made with, also one from outside of this project: see
    //! [`PlatformBuilder::driver`](crate::PlatformBuilder::driver), and the
    //! example `12_driver`, whose driver is in `contrib/abacus`. The contract is [`Driver`]'s.
    //!
    //! | what a driver does | with |
    //! |---|---|
    //! | says what its devices are | [`DeviceProperties`](crate::DeviceProperties), [`MemorySpace`], [`MAX_GROUPS`] |
    //! | is handed commands | [`Notification`], [`Submission`], [`DomainWait`], [`Held`] |
    //! | finds out what to do | [`Command`], [`Kind`], [`Operation`], [`Argument`], [`AccessMode`], [`Allocation`] |
    //! | ends commands | [`Command::finish`] with [`ToDrivers`] or a [`ReadySink`] of its own |
    //! | lets a thread of its own sleep | [`slab::flush`] before it does |
    //! | lets a thread of the host wait | [`Waiter`], [`Armed`] |
    //! | hands out a queue of its own | [`Driver::native_queue`]; [`Driver::takes_native`] with a [`NativeQueue`], to [`NativeEnqueue`]s |
    //! | loses a device | [`Context::device_lost`] with the queue's [`Device`] |
    //!
    //! [`Context`] and [`Device`] here are the core's.

    pub use quipu_core::access::Argument;
    pub use quipu_core::clock::now_ns;
    pub use quipu_core::command::{ReadySink, ToDrivers, slab};
    pub use quipu_core::driver::{DomainWait, Driver, Held, Notification, Submission};
    pub use quipu_core::event::{Armed, Waiter};
    pub use quipu_core::front::MAX_GROUPS;
    pub use quipu_core::memory::{Allocation, Memory};
    pub use quipu_core::native::{NativeBytes, NativeEnqueue, NativeQueue};
    pub use quipu_core::operation::{
        Endpoint, Fill, HostMemory, Migration, Operation, Step, Transfer,
    };
    pub use quipu_core::portable::{CodeKey, Extents, Passed, PassedParameter, PortableKernel};
    pub use quipu_core::queue::{QueueShared, route_to};
    pub use quipu_core::{
        AccessMode, Command, Context, Device, EventId, Kind, MemorySpace, RawArgument, SpaceId,
    };
    pub use quipu_driver_cpu::CpuQueue;
    pub use quipu_driver_cuda::{CudaMemory, CudaQueue};
    pub use quipu_driver_opencl::{OpenClMemory, OpenClQueue};
    pub use quipu_driver_sim::SimQueue;
}

pub mod drivers {
    //! The drivers of this project, for programs that start one themselves: with
    //! options, or to speak to it later. A started driver is added with
    //! [`PlatformBuilder::driver`](crate::PlatformBuilder::driver).

    pub use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
    pub use quipu_driver_cuda::CudaDriver;
    pub use quipu_driver_opencl::OpenClDriver;
    pub use quipu_driver_remote::{self as remote, RemoteDriver};
    pub use quipu_driver_sim::SimDriver;
    #[cfg(feature = "sources")]
    pub use quipu_driver_sources as sources;
}

pub mod prelude {
    //! What most programs use.

    pub use crate::{
        Bound, Buffer, Constant, Context, Device, Element, Event, Extent, Graph, HostView, Layout,
        Partition, Pending, Pinned, Platform, Priority, Queue, QueueOptions, UserEvent, Value,
        Variable, View, Waitable, WorkDivision, bind, bind_blocks, native, when_all, when_any,
    };
    pub use quipu_kernel::{
        Accelerator, Atomically, Atomics, Block, BlockAccelerator, BlockKernel, Blocks, ByBlock,
        ByElement, Elements, GlobalMut, GlobalRef, Grid, Kernel, KernelData, OwnBlock,
        OwnBlockTile, OwnElements, OwnRows, OwnTile, RawMut, SharedArray, SharedAtomics, SharedRaw,
        SharedRead, SharedWrite, Thread, Threads, device, kernel, kernel_closure,
    };
}

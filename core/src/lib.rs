//! Quipu's core: one task graph over any number of devices.
//!
//! The core decides when and where each command runs, and where its bytes are. Front ends enqueue
//! commands, through [`Context`], [`Queue`] and [`Event`]; drivers run them, behind the
//! [`driver::Driver`] trait; the core names neither.
//!
//! | module | content |
//! |---|---|
//! | [`context`] | sets of devices that share buffers and events |
//! | [`device`] | devices: their properties, and handles to them |
//! | [`command`] | commands and events: slots, state, notify lists |
//! | [`event`] | events as users hold them: futures, callbacks, user events; threads that wait for them |
//! | [`queue`] | queues: order, barriers, progress, the enqueue |
//! | [`access`] | the ranges of memory that commands use, and how |
//! | [`memory`] | memory objects: hazards, validity, migration, spaces |
//! | [`graph`] | commands recorded once and launched many times |
//! | [`operation`] | the work of commands: kernels, transfers, fills, host tasks |
//! | `check` | checks of launches, fills and copies before they are enqueued |
//! | `fill` | fills: memory in which a pattern is repeated |
//! | [`region`] | rows of bytes with gaps between them, and a test whether two such regions share a byte |
//! | [`overlap`] | copies whose two sides share bytes |
//! | [`panics`] | the text and the place of a contained panic |
//! | [`native`] | closures that put work of their own into a driver's queue |
//! | [`portable`] | launches that bring their code along |
//! | [`built_in`] | kernels that devices have by themselves |
//! | [`polling`] | users that look for ended commands themselves |
//! | [`process`] | children of `fork`, which cannot use their parent's devices |
//! | [`driver`] | the contract with drivers |
//! | `router` | the part of that contract that lower floors use |
//! | [`front`] | the interface of front ends |
//! | [`trace`] | a record of when and where each command ran; `tracing_records`: made from finished commands |

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod access;
pub mod built_in;
mod check;
pub mod command;
pub mod context;
pub mod device;
pub mod driver;
pub mod event;
mod fill;
pub mod front;
pub mod graph;
pub mod memory;
pub mod native;
pub mod operation;
pub mod overlap;
pub mod polling;
pub mod portable;
pub mod queue;
pub mod region;
mod router;
mod tracing_records;

pub(crate) use quipu_scheduler_base::{
    bias, flush_demand, limits, notify, observers, shown, state,
};
pub use quipu_scheduler_base::{clock, error, hash, panics, process, said, sync, trace};

pub use access::{AccessMode, RawArgument};
pub use built_in::{BuiltIn, BuiltInKernel, BuiltInParameter};
pub use command::{Command, CommandView, EventId, Kind, Phase};
pub use context::{Context, Failures};
pub use device::{Device, DeviceKind, DeviceProperties, MemorySpace, Partition};
pub use driver::Driver;
pub use error::{Error, ErrorKind, Result};
pub use event::{Clock, Event, Profile, SystemClock, UserEvent};
pub use graph::{Graph, Recording};
pub use memory::access::Access;
pub use memory::{MemoryRef, SpaceId};
pub use native::{NativeBytes, NativeEnqueue, NativeQueue};
pub use polling::Polling;
pub use portable::{
    CodeKey, KernelAttributes, MemoryCache, Passed, PassedParameter, PortableKernel, TextFeatures,
};
pub use queue::enqueue::Request;
pub use queue::{Completion, Hazards, Priority, Queue, QueueOptions};
pub use region::Region;

//! Quipu's driver for every device of every platform that the system's OpenCL loader offers.
//!
//! | module | content |
//! |---|---|
//! | `device` | the devices: their properties, their contexts |
//! | `queues` | a device's queues, and the choice of one for a command |
//! | `partition` | devices that are parts of others |
//! | `vendors` | platforms: the loader's, or those that a folder lists |
//! | `vendor` | the verbs that [`quipu_device_queue`] makes a driver of |
//! | `forward` | calls of commands |
//! | `program` | code that launches bring along: compiled, launched |
//! | `memory` | allocations of the devices' memory |
//! | `pinned` | the host's memory that OpenCL has pinned |
//! | `registered` | the user's pinned memory, as OpenCL knows it |
//! | `staging` | large copies, through pinned memory |
//! | `native` | OpenCL's objects |
//! | `error` | OpenCL's refusals in words |
//!
//! # The loader
//!
//! OpenCL is loaded when the program runs, through [`cl3`], with its feature `dynamic`: nothing of
//! a vendor's is needed to build, and a machine without a loader has no devices and is told why.
//! `opencl3` stands on top of `cl3`, and its types own a context, a queue and a kernel each in
//! their own way. This driver needs OpenCL's objects bare, with the numbers of its errors. `cl3` is
//! kept up with OpenCL's releases, and every function of it says what it needs.
//!
//! # Order
//!
//! The devices of a platform share one OpenCL context and are one sync domain: their commands wait
//! for each other by OpenCL's events, without the host. Queues are out-of-order where a device has
//! them, so that OpenCL knows no order but that of the waits. Otherwise there are several in-order
//! ones, and a command is put behind one that it waits for if that is the last of its queue.
//! NVIDIA's are out of order in name only: its queues are streams of CUDA. Independent kernels in
//! one such queue run one after the other, and in several in-order ones at the same time. Copies to
//! and from the host have queues of their own. Waits outside the domain are resolved by the host
//! first.
//!
//! Events are OpenCL's to make, a new one for each command, and cannot be used again: so none are
//! pooled.
//!
//! # Native code
//!
//! These devices run none: a launch brings its code along, or fails and says so. Host tasks run on
//! threads of the host, with copies of their declared accesses.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod device;
mod error;
mod forward;
mod memory;
mod native;
mod partition;
mod pinned;
mod program;
mod queues;
mod registered;
mod staging;
mod vendor;
mod vendors;

pub use vendor::{OpenCl, OpenClMemory, OpenClQueue};

/// The driver. Its devices' contexts and queues are made when they are first used.
pub type OpenClDriver = quipu_device_queue::VendorDriver<OpenCl>;

//! Quipu's driver for every device of every platform that the system's OpenCL loader offers.
//!
//! | module | what it is |
//! |---|---|
//! | `device` | the devices: what they are, their contexts |
//! | `queues` | a device's queues, and which of them a command is put into |
//! | `partition` | devices that are parts of others |
//! | `vendor` | the verbs that [`quipu_device_queue`] makes a driver of |
//! | `forward` | how commands become calls |
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
//! OpenCL is loaded when the program runs, through [`cl3`], with its feature `dynamic`: nothing of a vendor's is needed to
//! build, and a machine without a loader has no devices and is told why. `cl3` and not `opencl3`, which stands on top of
//! it: its types own a context, a queue and a kernel each in their own way, where this driver needs OpenCL's objects bare,
//! with the numbers of its errors. It is kept up with OpenCL's releases, and every function of it says what it needs.
//!
//! # Order
//!
//! The devices of a platform share one OpenCL context and are one sync domain: their commands wait for each other by
//! OpenCL's events, without the host. Queues are out-of-order where a device has them, so that OpenCL knows no order but
//! what commands wait for; else there are several in-order ones, and a command is put behind what it waits for if that is
//! the last of its queue. NVIDIA's have none that are out of order in more than name: its queues are streams of CUDA, and
//! eight kernels of a block each took 7.9 times as long as one in such a queue of an H100, 1.05 times in eight in-order ones. Copies
//! to and from the host have queues of their own.
//! What a command waits for outside the domain is resolved by the host first.
//!
//! Events are OpenCL's to make, a new one for each command, and cannot be used again: so none are pooled.
//!
//! # Native code
//!
//! These devices run none: a launch brings its code along, or fails and says so. Host tasks run on threads of the host,
//! with copies of what they declare.

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

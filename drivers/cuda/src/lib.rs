//! Quipu's driver for NVIDIA's GPUs, on CUDA's driver API and NVRTC.
//!
//! | module | content |
//! |---|---|
//! | `device` | the devices: their properties, their contexts and streams |
//! | `vendor` | the verbs that [`quipu_device_queue`] makes a driver of |
//! | `forward` | calls of commands; `transfer`: regions |
//! | `graph` | recorded graphs and batches, as CUDA's; `mark`: reports of ends within batches |
//! | `host` | large copies from and to the host |
//! | `peer` | devices that reach each other's memory |
//! | `registered` | the user's pinned memory, as CUDA knows it |
//! | `staging` | pinned memory, through which the host's bytes go |
//! | `program` | code that launches bring along: compiled, launched |
//! | `memory` | allocations of the devices' memory |
//! | `grid_barrier` | the memory of barriers between blocks |
//! | `native` | CUDA's objects |
//! | `error` | CUDA's refusals in words |
//!
//! # The libraries
//!
//! CUDA's driver library is loaded when the program runs, through [`cudarc`]. Only its declarations
//! (`sys`) are used: its safe layer keeps an order of its own among streams and buffers, which here
//! is the core's to decide. Nothing of NVIDIA's is needed to build, and a machine without the
//! library has no devices and is told why. NVRTC, the compiler, is loaded when the first kernel is
//! compiled.
//!
//! # Order
//!
//! All devices are one sync domain: their commands wait for each other by CUDA's events, without
//! the host. A device has several streams for kernels, so that commands that do not wait for each
//! other overlap, and half as many for copies in each direction. A stream keeps its order, and a
//! wait for an event that was never recorded is none. So a command is put into a stream only when
//! all its waits are over, or are for commands in a stream already. A command that waits for the
//! last one of a stream goes into the same, where it needs no event.
//!
//! # Recorded graphs
//!
//! A recorded graph of launches, fills and copies on one device is made a graph of CUDA's when it
//! is first launched, and each launch of it is one call. It is made anew if memory that it uses has
//! moved. If a kernel in it can fail by itself, a launch is put on the device only when all its
//! waits are over: its fault records are those of the graph, and are looked at before they are used
//! again.
//!
//! # The host's memory
//!
//! A copy from memory that is not pinned reads it when it is put into a stream, not when its turn
//! has come. So the host's bytes go through pinned memory, and bytes that another command writes
//! are read only when that is over. Bytes that come from a device are handed to the user when the
//! command ends, and so never those of one that failed.
//!
//! # Native code
//!
//! These devices run none: a launch brings its code along, or fails and says so. Host tasks run on
//! threads of the host, with copies of their declared accesses.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod device;
mod error;
mod forward;
mod graph;
mod grid_barrier;
mod host;
mod mark;
mod memory;
mod native;
mod peer;
mod program;
mod registered;
mod staging;
mod transfer;
mod vendor;

pub use vendor::{Cuda, CudaMemory, CudaQueue};

/// The driver. Its devices' contexts and streams are made when they are first used.
pub type CudaDriver = quipu_device_queue::VendorDriver<Cuda>;

//! OpenCL's C interface: `libquipu_opencl.so`.
//!
//! A thin translation. Arguments are checked here, in the standard's order, and become OpenCL's
//! error codes; everything else is the core's. There is one platform, with devices of all kinds,
//! and one context may have any of them.
//!
//! The library is found by an ICD loader (`clIcdGetPlatformIDsKHR`), or takes a loader's place: it
//! exports the API's own names. It starts nothing before a program asks for devices, has no global
//! constructor and handles no signal.
//!
//! | file | contents |
//! |---|---|
//! | `handle` | handles: how a pointer of the program's becomes an object, or an error |
//! | `code` | error codes, and the frame of every entry point |
//! | `info` | answers to `clGet…Info` |
//! | `dispatch` | the table of functions that loaders call through |
//! | `icd` | a platform's functions for loaders |
//! | `platform`, `device`, `context`, `queue` | devices, groups of them, and queues |
//! | `memory`, `mapped` | buffers, and the common part of buffers and images; their mappings |
//! | `address`, `content_size` | buffers whose addresses programs know; sizes of their contents in use |
//! | `image`, `sampler` | images: their formats and layout, and how kernels read them |
//! | `program`, `kernel` | programs and their kernels |
//! | `enqueue` | commands, a file for each kind |
//! | `command_buffer` | commands that are recorded once and enqueued many times |
//! | `svm`, `unified` | shared virtual memory, and unified shared memory |
//! | `semaphore` | semaphores |
//! | `event`, `callbacks` | events, waiting, profiling; functions of the program that are called at the end |
//! | `graphics` | objects shared with graphics, which are refused |
//! | `absent` | features that no device has |
//!
//! An entry point is a function of the C interface. Its safety contract is the standard's: pointers
//! are null or valid for what is read and written, and memory that is lent to a command stays so
//! until the command is over. Handles need no promise: each is looked at before it is used.

#![warn(clippy::disallowed_methods)]
#![cfg_attr(not(test), warn(clippy::disallowed_macros))]
#![allow(
    clippy::too_many_arguments,
    reason = "the signatures are the standard's"
)]

mod absent;
mod address;
mod callbacks;
mod code;
mod command_buffer;
mod content_size;
mod context;
mod device;
mod dispatch;
mod enqueue;
mod event;
mod graphics;
mod handle;
mod icd;
mod image;
mod info;
mod kernel;
mod mapped;
mod memory;
mod platform;
mod program;
mod queue;
mod sampler;
mod semaphore;
mod svm;
mod unified;

//! Programs: code that launches bring along, compiled for a device.
//!
//! | file | content |
//! |---|---|
//! | `compile` | from code to a kernel: printing, compiling, build logs |
//! | `nvrtc` | the compiler |
//! | `text` | kernels in OpenCL C |
//! | `launch` | from a launch's parameters to calls; faults |

mod compile;
mod launch;
mod nvrtc;
mod text;

pub(crate) use compile::{Compiled, compile};
pub(crate) use launch::{Call, FaultRead, Launch, Values};
pub(crate) use text::describe;

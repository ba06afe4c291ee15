//! Programs: code that launches bring along, compiled for a device.
//!
//! | file | content |
//! |---|---|
//! | `compile` | from code to a kernel: printing, compiling, build logs |
//! | `description` | OpenCL's description of a program that it compiles |
//! | `grids` | grids that must not be in use at once |
//! | `launch` | from a launch's parameters to calls; faults |

mod compile;
mod description;
mod grids;
mod launch;

pub(crate) use compile::{Compiled, compile};
pub(crate) use description::describe;
pub(crate) use grids::{Whereabouts, forget};
pub(crate) use launch::{FaultRead, FaultRecord, Launch};

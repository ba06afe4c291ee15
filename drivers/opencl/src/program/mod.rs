//! Programs: code that launches bring along, compiled for a device.
//!
//! | file | what it is |
//! |---|---|
//! | `compile` | from code to a kernel: printing, compiling, build logs |
//! | `grids` | grids that must not be in use at once |
//! | `launch` | from what a launch passes to calls; faults |

mod compile;
mod grids;
mod launch;

pub(crate) use compile::{Compiled, compile};
pub(crate) use grids::{Whereabouts, forget};
pub(crate) use launch::{FaultRead, FaultRecord, Launch};

//! Kernels that the node's program has itself: clients name them, and no compiler is needed.

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{AccessMode, Device, Passed, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The name of a native kernel: the hash of its code and of the layout of its arguments.
pub type Name = [u8; 32];

/// A launch of a kernel by a client. It was checked against the protocol, and not against the
/// kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The device that is to run it.
    pub device: &'a Device,
    /// All that is passed.
    pub passed: &'a Passed,
    /// The same, parameter by parameter, with what the command does to the node's memory. It is
    /// within its buffers.
    pub parameters: &'a [Parameter<'a>],
}

/// A client's argument for a parameter.
#[derive(Clone, Debug)]
pub enum Parameter<'a> {
    /// The bytes of a value.
    Value(&'a [u8]),
    /// Memory: the next of the command's accesses.
    Memory {
        /// The access by which the command is ordered. A kernel must not do more to the memory.
        mode: AccessMode,
        /// Of the client's numbers: two parameters of different buffers do not overlap.
        buffer: u64,
        /// Bytes of the buffer.
        range: Range<u64>,
        /// Bytes of an element.
        element: u64,
        /// Elements, and how many neighbours are apart, along each dimension; in one without gaps,
        /// none.
        shape: Option<&'a (Extents, Extents)>,
    },
}

/// Makes a launch's kernel. The maker checks the arguments against the kernel's parameters. It
/// checks the access modes, that written parameters overlap no other, and that the device can run
/// the division of work.
///
/// A kernel that says that it [serves many launches](NativeKernel::serves_many_launches) may be
/// kept for those that pass the same later.
///
/// On a device that does not run native code, the kernel is what its
/// [`portable`](NativeKernel::portable) says, if the device takes that.
pub type Maker = Arc<dyn Fn(&Launch<'_>) -> Result<Box<dyn NativeKernel>> + Send + Sync>;

/// The kernels that a node has itself.
pub trait Natives: Send + Sync {
    /// The maker of a kernel, if the node has it.
    fn find(&self, name: &Name) -> Option<Maker>;
}

impl Natives for HashMap<Name, Maker> {
    fn find(&self, name: &Name) -> Option<Maker> {
        self.get(name).cloned()
    }
}

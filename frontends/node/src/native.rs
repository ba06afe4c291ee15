//! Kernels that the node's program has natively: clients name them, and no compiler is needed.

use quipu_core::operation::NativeKernel;
use quipu_core::{Passed, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// What a native kernel is called: the hash of its code and of the layout of what is passed to it.
pub type Name = [u8; 32];

/// Makes a launch's kernel of what the client passes to it. That was checked against the protocol, and not against the
/// kernel's parameters, which is the maker's to do.
pub type Maker = Arc<dyn Fn(&Passed) -> Result<Box<dyn NativeKernel>> + Send + Sync>;

/// The kernels that a node has natively.
pub trait Natives: Send + Sync {
    /// The maker of a kernel, if the node has it.
    fn find(&self, name: &Name) -> Option<Maker>;
}

impl Natives for HashMap<Name, Maker> {
    fn find(&self, name: &Name) -> Option<Maker> {
        self.get(name).cloned()
    }
}

//! Recorded graphs that a vendor puts on a device whole: the check for them, and the code of their
//! launches.
//!
//! A launch of such a graph is to the rest of this crate a command as any. It is held until the
//! code of all the graph's launches is compiled, which is the first time only: the graph keeps it.

use crate::launch::Code;
use crate::vendor::Vendor;
use quipu_scheduler::operation::{Endpoint, Operation};
use quipu_scheduler::{CommandView, Graph};
use std::any::Any;
use std::sync::OnceLock;

/// The object that a driver keeps with a graph that it has taken; its kernels are compiled to a
/// `C`.
pub struct TakenGraph<C> {
    device: usize,
    codes: OnceLock<Box<[Option<Code<C>>]>>,
    made: Box<dyn Any + Send + Sync>,
}

impl<C: Send + Sync + 'static> TakenGraph<C> {
    /// The object that the driver keeps with a graph, if it has taken it.
    #[must_use]
    pub fn of(graph: &Graph) -> Option<&Self> {
        graph.taken()
    }

    /// The number of the device that all its commands are of.
    #[must_use]
    pub fn device(&self) -> usize {
        self.device
    }

    /// The code of each of its commands that is a launch with any groups, by the commands' numbers.
    /// Empty until all of it is compiled, which it is before a launch of the graph is
    /// [put](Vendor::put) on its device.
    #[must_use]
    pub fn codes(&self) -> &[Option<Code<C>>] {
        self.codes.get().map_or(&[], |codes| codes)
    }

    /// The object that the vendor keeps, if it is a `T`.
    #[must_use]
    pub fn made<T: Any>(&self) -> Option<&T> {
        self.made.downcast_ref()
    }

    pub(crate) fn has_codes(&self) -> bool {
        self.codes.get().is_some()
    }

    pub(crate) fn keep(&self, codes: Vec<Option<Code<C>>>) {
        // Only the thread that pumps does this, once.
        let _ = self.codes.set(codes.into());
    }

    /// Takes a graph, if its commands are such that a vendor may, and this one does.
    pub(crate) fn take<V: Vendor<Compiled = C>>(
        vendor: &V,
        graph: &Graph,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let device = device_of(vendor, graph)?;
        let made = vendor.take_graph(vendor.devices().get(device)?, graph)?;
        Some(Box::new(Self {
            device,
            codes: OnceLock::new(),
            made,
        }))
    }
}

/// The number of the device that all commands of a graph are of, if each is one that may be put
/// there with the others.
fn device_of<V: Vendor>(vendor: &V, graph: &Graph) -> Option<usize> {
    let (mut device, mut is_whole) = (None, true);
    graph.for_each_command(|command, _| {
        if !is_whole || command.needs_no_device() {
            return;
        }
        let number = command.queue().device_index();
        is_whole = *device.get_or_insert(number) == number && may_be_within(vendor, command);
    });
    device.filter(|_| is_whole)
}

/// True if a command may be put on its device with the others of its graph. One whose times are
/// asked for may not: they are known of the whole only.
pub(crate) fn may_be_within(vendor: &impl Vendor, command: &CommandView) -> bool {
    if command.queue().options().profiling || quipu_scheduler::trace::enabled() {
        return false;
    }
    let is_argument = |side: &Endpoint| matches!(side, Endpoint::Argument(_));
    match command.operation() {
        Operation::Launch { groups } => {
            let code = command.portable().map(|portable| portable.code_type());
            groups == 0 || code.is_some_and(|code| vendor.takes_code(code))
        }
        Operation::Fill(fill) => fill.is_dense(),
        Operation::Transfer(transfer) => {
            is_argument(&transfer.source) && is_argument(&transfer.destination)
        }
        _ => false,
    }
}

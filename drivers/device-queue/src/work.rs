//! A command that is being worked on, and its bytes.

use crate::Shared;
use crate::error::of_device;
use crate::vendor::{Vendor, VendorDevice};
use crate::workers::Workers;
use quipu_scheduler::access::Argument;
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::{Command, Result, SpaceId};
use std::ops::Range;
use std::sync::Arc;

/// A command on its way to a device, or away from it.
pub struct Work<'a, V: Vendor> {
    shared: &'a Shared<V>,
    device: usize,
    held: CommandRef,
    command: &'a Command,
}

/// An argument's bytes on a device.
pub struct Bytes<'a, V: Vendor> {
    /// The memory that they are in.
    pub allocation: &'a V::Allocation,
    /// The place in there at which they begin.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl<V: Vendor> Bytes<'_, V> {
    /// A part of them.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Self {
        Self {
            allocation: self.allocation,
            offset: self.offset + range.start,
            length: range.end - range.start,
        }
    }
}

impl<'a, V: Vendor> Work<'a, V> {
    /// A command of a device of this driver.
    pub(crate) fn new(
        shared: &'a Shared<V>,
        device: usize,
        held: CommandRef,
        command: &'a Command,
    ) -> Self {
        Self {
            shared,
            device,
            held,
            command,
        }
    }

    /// The vendor's part of the driver.
    #[must_use]
    pub fn vendor(&self) -> &'a V {
        &self.shared.vendor
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &'a Command {
        self.command
    }

    /// The same, for code that looks at it again before it is over.
    #[must_use]
    pub fn held(&self) -> CommandRef {
        self.held
    }

    /// The command's device.
    #[must_use]
    pub fn device(&self) -> &'a V::Device {
        self.shared.device(self.device)
    }

    /// Threads for work of the host.
    #[must_use]
    pub fn workers(&self) -> &'a Arc<Workers> {
        &self.shared.workers
    }

    /// The bytes of an argument of the command on its device, allocated if need be.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn bytes(&self, argument: &Argument<'a>) -> Result<Bytes<'a, V>> {
        match self.command.queue().device() {
            Some(device) => self.located(argument, device.space()),
            None => Err(of_device(
                self.device().name(),
                "use its memory",
                "the command has no device".to_owned(),
            )),
        }
    }

    /// The bytes of an argument of the command, or of one of the graph that it launches, on the
    /// device of a space, allocated if need be; and that device.
    ///
    /// # Errors
    /// If there is no memory for it, or the space is another driver's.
    pub fn bytes_in(
        &self,
        argument: &Argument<'a>,
        space: SpaceId,
    ) -> Result<(Bytes<'a, V>, &'a V::Device)> {
        let Some(holder) = self.shared.device_of_space(space) else {
            let what = "use its memory";
            let problem = format!("{space:?} is not a space of the {} driver's", V::TITLE);
            return Err(of_device(self.device().name(), what, problem));
        };
        Ok((self.located(argument, space)?, holder))
    }

    /// `space` is one of this driver's.
    fn located(&self, argument: &Argument<'a>, space: SpaceId) -> Result<Bytes<'a, V>> {
        // SAFETY: the space is this driver's, and the thread that pumps hands over a command that
        // uses the memory.
        let address = unsafe { argument.memory().allocation(space) }?.address;
        let allocation = std::ptr::with_exposed_provenance::<V::Allocation>(address as usize);
        Ok(Bytes {
            // SAFETY: the core has it from `Shared::allocate`, for the space is ours, and keeps it
            // for as long as a command that uses it is not over, and so the command and its
            // arguments are there.
            allocation: unsafe { &*allocation },
            offset: argument.offset(),
            length: argument.length(),
        })
    }
}

//! Buffers of a node, and their bytes at once.

use crate::bulk::HostRegion;
use crate::device::Device;
use crate::failure::Refusal;
use crate::link::{Route, Task};
use crate::point::Point;
use crate::receive::is_receiver;
use quipu_protocol::limits::MAX_PATTERN;
use quipu_protocol::message::{Fill, Operation, Read, Write};
use quipu_threads::LeaveUnparked;

/// A buffer of the node.
#[derive(Debug)]
pub struct Allocation {
    pub(crate) buffer: u64,
    pub(crate) size: u64,
}

impl Device {
    /// The route of commands that are done at once.
    pub(crate) fn here(&self) -> Route {
        Route {
            device: self.number,
            ..Route::default()
        }
    }

    /// Reads bytes, at once.
    pub(crate) fn read(
        &self,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), Refusal> {
        let read = Read {
            buffer: allocation.buffer,
            offset,
            row: bytes.len() as u64,
            steps: &[],
            transfer: 0,
        };
        // SAFETY: the bytes are there, and ours, until this returns, which is when the command is
        // over.
        let region = unsafe { HostRegion::new(bytes.as_mut_ptr(), bytes.len(), Vec::new()) };
        self.do_now(Task::Read(read, region))
    }

    /// Writes bytes, at once.
    pub(crate) fn write(
        &self,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let write = Write {
            buffer: allocation.buffer,
            offset,
            row: bytes.len() as u64,
            steps: &[],
            transfer: 0,
            bytes: &[],
        };
        // SAFETY: as above; they are only read.
        let region = unsafe { HostRegion::new(bytes.as_ptr().cast_mut(), bytes.len(), Vec::new()) };
        self.do_now(Task::Write(write, region))
    }

    /// Sets bytes to zero, at once: none of them is sent.
    pub(crate) fn clear(
        &self,
        allocation: &Allocation,
        offset: u64,
        length: u64,
    ) -> Result<(), Refusal> {
        self.do_now(Task::Plain(Operation::Fill(Fill {
            buffer: allocation.buffer,
            offset,
            length,
            pattern: [0; MAX_PATTERN],
            pattern_length: 1,
        })))
    }

    /// Sends a command, and waits for its end.
    fn do_now(&self, task: Task<'_>) -> Result<(), Refusal> {
        if let Task::Read(_, region) | Task::Write(_, region) = &task
            && region.len() == 0
        {
            return Ok(());
        }
        if is_receiver() {
            let text = "the thread that hears of the node's ends would have to wait for one";
            return Err(Refusal::Full(text.to_owned()));
        }
        let point = self.link.send(&self.here(), &[], task)?;
        self.wait(&point)
    }

    /// Waits for the end of a command of this device's that was sent.
    pub(crate) fn wait(&self, point: &Point) -> Result<(), Refusal> {
        self.wait_for_end(point)?;
        match point.take_failure() {
            None => Ok(()),
            Some(error) => Err(Refusal::NotSent(error.to_string())),
        }
    }

    /// The same, whether or not the command has failed.
    pub(crate) fn wait_for_end(&self, point: &Point) -> Result<(), Refusal> {
        let _unparked = LeaveUnparked::new();
        point.wake_here();
        self.link.flush();
        self.link.flush_others();
        // This thread was not about to wait for it.
        self.link.leave_to_keeper();
        loop {
            if point.is_finished() {
                return Ok(());
            }
            // Not before nothing touches the bytes any more.
            if let Some(lost) = self.link.loss() {
                return Err(lost);
            }
            std::thread::park();
        }
    }
}

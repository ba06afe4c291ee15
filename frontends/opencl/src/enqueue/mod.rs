//! The enqueue functions of the C interface: one file for each kind of command.

mod image;
mod kernel;
mod launch;
mod map;
mod native;
mod order;
mod transfer;

pub(crate) use image::*;
pub(crate) use kernel::*;
pub(crate) use launch::{Launch, Shape};
pub(crate) use map::*;
pub(crate) use native::*;
pub(crate) use order::*;
pub(crate) use transfer::*;

use crate::code::{Code, Result, ensure};
use crate::event::{Event, Waits, wait_list};
use crate::handle::Ref;
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::{Phase, UserEvent};

/// The common arguments of every enqueue: its queue, its waits, and the place for its event.
pub(crate) struct Command<'q> {
    pub(crate) queue: &'q Ref<Queue>,
    /// Those of the queue itself come first.
    waits: Waits,
    /// The number of events that come from the queue itself.
    own_waits: usize,
    event: *mut cl_event,
}

impl<'q> Command<'q> {
    /// # Safety
    /// The list has so many handles; `event` is null or valid for a write.
    pub(crate) unsafe fn new(
        queue: &'q Ref<Queue>,
        count: cl_uint,
        events: *const cl_event,
        event: *mut cl_event,
    ) -> Result<Self> {
        // SAFETY: as the caller promises.
        let (waits, own_waits) = unsafe { wait_list(queue, count, events) }?;
        Ok(Self {
            queue,
            waits,
            own_waits,
            event,
        })
    }

    /// Has the command wait for another event, which is not the queue's own.
    pub(crate) fn wait_for(&mut self, event: quipu_scheduler::Event) {
        self.waits.push(event);
    }

    /// True if an event that the command waits for has failed.
    pub(crate) fn has_failed_wait(&self) -> bool {
        let mut waits = self.waits.iter();
        waits.any(|event| matches!(event.phase(), Phase::Failed))
    }

    /// Enqueues the command with a function that is given the events to wait for. Later commands of
    /// an in-order queue are held back until those of them that are not the queue's own are over. A
    /// command that is refused holds back none.
    pub(crate) fn enqueue<T>(
        &self,
        enqueue: impl FnOnce(&[quipu_scheduler::Event]) -> Result<T>,
    ) -> Result<T> {
        let enqueued = enqueue(&self.waits)?;
        let foreign = &self.waits[self.own_waits..];
        if !foreign.is_empty() {
            self.queue.hold_back(foreign);
        }
        Ok(enqueued)
    }

    /// True if the event of the command is wanted: by the program, or because the program is told
    /// of failures.
    fn wants_event(&self) -> bool {
        !self.event.is_null() || self.queue.context.tells_errors()
    }

    /// Enqueues a command that reads or writes the host's memory. Such accesses are not tracked, so
    /// an in-order queue makes them in order.
    pub(crate) fn with_host_memory(
        &self,
        enqueue: impl FnOnce(&[quipu_scheduler::Event]) -> Result<quipu_scheduler::Event>,
    ) -> Result<quipu_scheduler::Event> {
        if self.queue.is_out_of_order() {
            return self.enqueue(enqueue);
        }
        self.enqueue(|waits| {
            // The lock keeps the order of these commands that of the queue. No command runs under
            // it: a function of the program may be run next, and come here again.
            let runs_here = self.queue.device.core.properties().caller_runs;
            let gate = runs_here.then(UserEvent::new);
            let mut waits = Waits::from(waits);
            waits.extend(gate.iter().map(UserEvent::event));
            let enqueued = {
                let mut last = self.queue.last_of_host_memory();
                waits.extend(last.iter().map(quipu_scheduler::Event::as_order));
                enqueue(&waits).inspect(|event| *last = Some(event.clone()))
            };
            // After an error, too: a part of the command may be enqueued.
            if let Some(gate) = gate {
                gate.complete();
            }
            enqueued
        })
    }

    /// Enqueues a command that the host carries out in the queue's order. Gives its event also
    /// here.
    pub(crate) fn on_host(
        &self,
        access: quipu_scheduler::Access<'_>,
        kind: cl_command_type,
        blocking: cl_bool,
    ) -> Result<quipu_scheduler::Event> {
        let mut timed = Waits::new();
        let core = self.with_host_memory(|waits| {
            let request = quipu_scheduler::Request {
                accesses: &[access],
                waits,
                ..quipu_scheduler::Request::default()
            };
            let host = self.queue.context.host(self.queue.is_profiled())?;
            let turn = host.run(&self.queue.core, &request, |_| Ok(()))?;
            timed.push(turn.event);
            Ok(turn.in_queue)
        })?;
        if blocking != CL_FALSE {
            wait(&core)?;
        }
        self.give_timed(core.clone(), timed, kind)?;
        Ok(core)
    }

    /// Enqueues a command that does nothing.
    pub(crate) fn core_nothing(&self) -> Result<quipu_scheduler::Event> {
        self.enqueue(|waits| {
            let request = quipu_scheduler::Request {
                waits,
                ..quipu_scheduler::Request::default()
            };
            Ok(self.queue.core.host_task(|_| Ok(()), &request)?)
        })
    }

    /// As [`core_nothing`](Self::core_nothing), and gives its event.
    fn nothing(&self, kind: cl_command_type, blocking: cl_bool) -> Result<()> {
        self.give_and_wait(self.core_nothing()?, kind, blocking)
    }

    /// Gives the event of what was enqueued to the program, if it wants it.
    pub(crate) fn give(&self, core: quipu_scheduler::Event, kind: cl_command_type) -> Result<()> {
        self.give_timed(core, Waits::new(), kind)
    }

    /// As [`give`](Self::give), where other events tell the times, if there are any.
    fn give_timed(
        &self,
        core: quipu_scheduler::Event,
        timed: Waits,
        kind: cl_command_type,
    ) -> Result<()> {
        if self.event.is_null() {
            self.queue.context.tell_failure_of(&core);
            return Ok(());
        }
        let event = Event::of_command(core, timed, self.queue, kind)?;
        // SAFETY: `new` was promised that it is valid for a write.
        unsafe { self.event.write(event.give()) };
        Ok(())
    }

    /// As [`give`](Self::give), once the command is over if the program waits for it: a call that
    /// fails gives no event.
    pub(crate) fn give_and_wait(
        &self,
        core: quipu_scheduler::Event,
        kind: cl_command_type,
        blocking: cl_bool,
    ) -> Result<()> {
        if blocking != CL_FALSE {
            wait(&core)?;
        }
        self.give(core, kind)
    }
}

/// Waits for a command, as blocking calls do.
fn wait(event: &quipu_scheduler::Event) -> Result<()> {
    event.wait().map_err(Code::from)
}

/// A buffer that a program means, of the queue's context.
fn buffer(queue: &Ref<Queue>, handle: cl_mem) -> Result<Ref<Memory>> {
    let memory = Ref::<Memory>::of(handle)?;
    ensure(memory.image.is_none(), CL_INVALID_MEM_OBJECT)?;
    ensure(memory.context.is(&queue.context), CL_INVALID_CONTEXT)?;
    Ok(memory)
}

/// A buffer or image that a program means, of the queue's context.
fn memory(queue: &Ref<Queue>, handle: cl_mem) -> Result<Ref<Memory>> {
    let memory = Ref::<Memory>::of(handle)?;
    ensure(memory.context.is(&queue.context), CL_INVALID_CONTEXT)?;
    Ok(memory)
}

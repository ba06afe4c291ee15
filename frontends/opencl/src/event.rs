//! Events: of commands, and of the program's own.

use crate::callbacks::{self, Data};
use crate::code::{Code, Result, code_of, create, ensure, entry, fail, list};
use crate::context::Context;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use crate::platform::is_on_host;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::{Phase, UserEvent};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) struct Event {
    pub(crate) core: quipu_scheduler::Event,
    /// The events that tell its times, where those are other events: of all the pieces that the
    /// command is made of.
    timed: Waits,
    /// For commands of other queues: over when all before it in its queue are, too.
    turn: OnceLock<quipu_scheduler::Event>,
    context: Ref<Context>,
    /// The queue of its command.
    queue: Option<Ref<Queue>>,
    command: cl_command_type,
    /// The event that completes it, while nobody has; of an event of the program's own.
    user: Mutex<Option<UserEvent>>,
    /// The status that the program has set.
    status: AtomicI32,
    /// The program knows that its command is submitted.
    is_known_submitted: AtomicBool,
}

object!(Event, CL_INVALID_EVENT);

/// Events of a list of waits.
pub(crate) type Waits = SmallVec<[quipu_scheduler::Event; 4]>;

impl Event {
    /// The event of a command that was just enqueued.
    pub(crate) fn of_command(
        core: quipu_scheduler::Event,
        timed: Waits,
        queue: &Ref<Queue>,
        command: cl_command_type,
    ) -> Result<Ref<Self>> {
        Ref::new(Self {
            core,
            timed,
            turn: OnceLock::new(),
            context: queue.context.clone(),
            queue: Some(queue.clone()),
            command,
            user: Mutex::new(None),
            status: AtomicI32::new(CL_COMPLETE),
            is_known_submitted: AtomicBool::new(false),
        })
    }

    /// The event that a command of another queue waits for if this event is in its list: of a
    /// command of an in-order queue, all commands before it are over then.
    fn awaited(&self) -> quipu_scheduler::Event {
        if self.queue.as_ref().is_none_or(|own| own.is_out_of_order()) {
            return self.core.clone();
        }
        if let Some(turn) = self.turn.get() {
            return turn.clone();
        }
        // It may be over at once, and what it makes ready may run here and ask for the turn itself.
        let turn = self.context.core.in_turn(&self.core);
        self.turn.get_or_init(|| turn).clone()
    }

    /// True if this process knows when the command starts.
    fn is_started_here(&self) -> bool {
        let device = self.queue.as_ref().map(|queue| &queue.device.core);
        device.is_none_or(is_on_host)
    }

    /// `CL_EVENT_COMMAND_EXECUTION_STATUS`. A program may ask again and again until the command is
    /// over, so a command that waits in its queue is flushed.
    fn execution_status(&self) -> cl_int {
        let mut phase = self.core.phase();
        if !matches!(phase, Phase::Complete | Phase::Failed) {
            let _ = self.core.is_complete();
            phase = self.core.phase();
        }
        match phase {
            Phase::Queued if !self.is_known_submitted.load(Ordering::Relaxed) => CL_QUEUED,
            Phase::Queued | Phase::Submitted => CL_SUBMITTED,
            // A device of its own starts commands by itself, when those are over that they wait for
            // there.
            Phase::Running if !self.is_started_here() => CL_SUBMITTED,
            Phase::Running => CL_RUNNING,
            Phase::Complete => CL_COMPLETE,
            Phase::Failed => self.failure(),
        }
    }

    /// True if its command has come to a status that the program may ask to be told of.
    ///
    /// The device has every command at once, and looks itself what it waits for. So a program that
    /// asks for `CL_SUBMITTED` is told at once, and has that status from then on.
    fn has_come_to(&self, status: cl_int) -> bool {
        if status == CL_SUBMITTED {
            self.is_known_submitted.store(true, Ordering::Relaxed);
        }
        (0..=status).contains(&self.execution_status())
    }

    /// The status of an event that has failed: negative.
    fn failure(&self) -> cl_int {
        match (self.status.load(Ordering::Acquire), self.core.result()) {
            (set, _) if set < 0 => set,
            (_, Some(Err(error))) => code_of(&error),
            _ => CL_OUT_OF_RESOURCES,
        }
    }
}

/// The events that a command of a queue is to wait for: first those of the queue itself, of which
/// there are as many as the number that is given beside them.
///
/// # Safety
/// The pointer is null, or valid for reads of so many handles.
pub(crate) unsafe fn wait_list(
    by: &Ref<Queue>,
    count: cl_uint,
    events: *const cl_event,
) -> Result<(Waits, usize)> {
    // SAFETY: as the caller promises.
    let events = unsafe { list(count as usize, events) };
    let events = events.ok_or(Code(CL_INVALID_EVENT_WAIT_LIST))?;
    let (mut waits, mut own) = (Waits::new(), 0);
    for event in events {
        let event = Ref::<Event>::of(*event).map_err(|_| Code(CL_INVALID_EVENT_WAIT_LIST))?;
        ensure(event.context.is(&by.context), CL_INVALID_CONTEXT)?;
        if event.queue.as_ref().is_some_and(|queue| queue.is(by)) {
            waits.insert(own, event.core.clone());
            own += 1;
        } else {
            waits.push(event.awaited());
        }
    }
    Ok((waits, own))
}

#[unsafe(export_name = "clWaitForEvents")]
pub(crate) unsafe extern "C" fn wait_for_events(count: cl_uint, events: *const cl_event) -> cl_int {
    entry(|| {
        // SAFETY: the program passes so many handles.
        let events = unsafe { list(count as usize, events) };
        let events = events
            .filter(|events| !events.is_empty())
            .ok_or(Code(CL_INVALID_VALUE))?;
        let mut known: SmallVec<[Ref<Event>; 4]> = SmallVec::new();
        for event in events {
            let event = Ref::<Event>::of(*event)?;
            let context = &known.first().unwrap_or(&event).context;
            ensure(context.is(&event.context), CL_INVALID_CONTEXT)?;
            known.push(event);
        }
        for event in &known {
            event.core.wait_over()?;
        }
        let has_failed = known.iter().any(|event| event.execution_status() < 0);
        ensure(!has_failed, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    })
}

#[unsafe(export_name = "clGetEventInfo")]
pub(crate) unsafe extern "C" fn get_event_info(
    event: cl_event,
    name: cl_event_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let event = Ref::<Event>::of(event)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_EVENT_COMMAND_QUEUE => answer.value(
                event
                    .queue
                    .as_ref()
                    .map_or(std::ptr::null_mut(), Ref::handle),
            ),
            CL_EVENT_CONTEXT => answer.value(event.context.handle()),
            CL_EVENT_COMMAND_TYPE => answer.value(event.command),
            CL_EVENT_COMMAND_EXECUTION_STATUS => answer.value(event.execution_status()),
            CL_EVENT_REFERENCE_COUNT => answer.value(event.references()),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clRetainEvent")]
pub(crate) unsafe extern "C" fn retain_event(event: cl_event) -> cl_int {
    entry(|| retain::<Event>(event))
}

#[unsafe(export_name = "clReleaseEvent")]
pub(crate) unsafe extern "C" fn release_event(event: cl_event) -> cl_int {
    entry(|| release::<Event>(event))
}

#[unsafe(export_name = "clCreateUserEvent")]
pub(crate) unsafe extern "C" fn create_user_event(
    context: cl_context,
    code: *mut cl_int,
) -> cl_event {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        let user = UserEvent::new();
        let event = Ref::new(Event {
            core: user.event(),
            timed: Waits::new(),
            turn: OnceLock::new(),
            context,
            queue: None,
            command: CL_COMMAND_USER,
            user: Mutex::new(Some(user)),
            status: AtomicI32::new(CL_SUBMITTED),
            is_known_submitted: AtomicBool::new(true),
        })?;
        Ok(event.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clSetUserEventStatus")]
pub(crate) unsafe extern "C" fn set_user_event_status(event: cl_event, status: cl_int) -> cl_int {
    entry(|| {
        let event = Ref::<Event>::of(event)?;
        ensure(event.queue.is_none(), CL_INVALID_EVENT)?;
        ensure(status <= CL_COMPLETE, CL_INVALID_VALUE)?;
        let user = {
            let mut user = event.user.lock().unwrap_or_else(PoisonError::into_inner);
            user.take().ok_or(Code(CL_INVALID_OPERATION))?
        };
        event.status.store(status, Ordering::Release);
        if status == CL_COMPLETE {
            user.complete();
        } else {
            user.fail(&format!("clSetUserEventStatus({status})"));
        }
        Ok(())
    })
}

#[unsafe(export_name = "clSetEventCallback")]
pub(crate) unsafe extern "C" fn set_event_callback(
    event: cl_event,
    kind: cl_int,
    call: Option<unsafe extern "C" fn(cl_event, cl_int, *mut c_void)>,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        let event = Ref::<Event>::of(event)?;
        let call = call.ok_or(Code(CL_INVALID_VALUE))?;
        ensure(
            matches!(kind, CL_SUBMITTED | CL_RUNNING | CL_COMPLETE),
            CL_INVALID_VALUE,
        )?;
        let data = Data::new(data);
        let of = event.clone();
        let tell = move |status| {
            callbacks::later(move || {
                // The program may have released its last reference. Until the call is over there is
                // one more.
                let handle = of.give();
                // SAFETY: the program gave the function to be called so.
                unsafe { call(handle, status, data.get()) };
                let _ = release::<Event>(handle);
            });
        };
        if kind != CL_COMPLETE && event.has_come_to(kind) {
            tell(kind);
            return Ok(());
        }
        // Whatever it is that the program waits for has been reached at the end.
        let of = event.clone();
        event.core.on_complete(move |result| {
            tell(if result.is_ok() { kind } else { of.failure() });
        });
        Ok(())
    })
}

#[unsafe(export_name = "clGetEventProfilingInfo")]
pub(crate) unsafe extern "C" fn get_event_profiling_info(
    event: cl_event,
    name: cl_profiling_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let event = Ref::<Event>::of(event)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let is_profiled = event
            .queue
            .as_ref()
            .is_some_and(|queue| queue.is_profiled());
        let pieces = match &event.timed[..] {
            [] => std::slice::from_ref(&event.core),
            pieces => pieces,
        };
        let profiles = pieces.iter().map(quipu_scheduler::Event::profile);
        let profiles: Option<SmallVec<[_; 4]>> = profiles.collect();
        let profiles = profiles
            .filter(|_| is_profiled && event.execution_status() == CL_COMPLETE)
            .ok_or(Code(CL_PROFILING_INFO_NOT_AVAILABLE))?;
        let profiles = profiles.iter();
        // From the first piece that starts to the last that ends.
        let time = match name {
            CL_PROFILING_COMMAND_QUEUED => profiles.map(|piece| piece.queued_ns).min(),
            CL_PROFILING_COMMAND_SUBMIT => profiles.map(|piece| piece.submitted_ns).min(),
            CL_PROFILING_COMMAND_START => profiles.map(|piece| piece.started_ns).min(),
            CL_PROFILING_COMMAND_END | CL_PROFILING_COMMAND_COMPLETE => {
                profiles.map(|piece| piece.ended_ns).max()
            }
            _ => return fail(CL_INVALID_VALUE),
        };
        answer.value::<cl_ulong>(time.unwrap_or_default())
    })
}

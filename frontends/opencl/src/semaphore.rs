//! Semaphores (`cl_khr_semaphore`): signals that commands wait for, and that are used up by it.
//!
//! A signal is the event of the command that gives it. A wait takes the signal that was enqueued
//! before it. Without one it waits for an event of its own, which the next signal completes. So the
//! program may enqueue either first, and no call blocks. Semaphores of other systems are neither
//! imported nor exported.

use crate::code::{Code, Result, create, ensure, entry, fail, list};
use crate::context::Context;
use crate::device::Device;
use crate::enqueue::Command;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::{Phase, UserEvent};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kinds of semaphores that there are.
pub(crate) const TYPES: [cl_semaphore_type_khr; 1] = [CL_SEMAPHORE_TYPE_BINARY_KHR];

struct Semaphore {
    context: Ref<Context>,
    /// Those whose queues may wait for it and signal it.
    devices: Vec<Ref<Device>>,
    /// As the program said them.
    properties: Vec<cl_semaphore_properties_khr>,
    state: Mutex<State>,
}

object!(Semaphore, CL_INVALID_SEMAPHORE_KHR);

#[derive(Default)]
struct State {
    /// The last signal, until a wait takes it.
    signal: Option<quipu_scheduler::Event>,
    /// Events of waits that were enqueued before their signals: each is completed by its signal. A
    /// semaphore that goes fails them.
    waiting: VecDeque<UserEvent>,
}

impl Semaphore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The semaphores that a command of a queue means.
    ///
    /// # Safety
    /// The pointer is null, or valid for reads of so many handles.
    unsafe fn of_queue(
        queue: &Ref<Queue>,
        count: cl_uint,
        handles: *const cl_semaphore_khr,
    ) -> Result<Vec<Ref<Self>>> {
        // SAFETY: as the caller promises.
        let handles = unsafe { list(count as usize, handles) };
        let handles = handles
            .filter(|handles| !handles.is_empty())
            .ok_or(Code(CL_INVALID_VALUE))?;
        let all: Result<Vec<_>> = handles.iter().map(|one| Ref::<Self>::of(*one)).collect();
        let all = all?;
        for one in &all {
            let is_known = one.devices.iter().any(|device| device.is(&queue.device));
            ensure(is_known, CL_INVALID_COMMAND_QUEUE)?;
            ensure(one.context.is(&queue.context), CL_INVALID_CONTEXT)?;
        }
        Ok(all)
    }

    /// The event that a wait waits for that is enqueued now.
    fn take(&self) -> quipu_scheduler::Event {
        let mut state = self.state();
        state.signal.take().unwrap_or_else(|| {
            let user = UserEvent::new();
            let event = user.event();
            state.waiting.push_back(user);
            event
        })
    }

    /// It is signalled once an event is over.
    fn signal(&self, event: &quipu_scheduler::Event) {
        let waiting = {
            let mut state = self.state();
            let waiting = state.waiting.pop_front();
            if waiting.is_none() {
                state.signal = Some(event.clone());
            }
            waiting
        };
        if let Some(user) = waiting {
            event.on_complete(move |result| match result {
                Ok(()) => user.complete(),
                Err(error) => user.fail(&error.to_string()),
            });
        }
    }

    /// `CL_SEMAPHORE_PAYLOAD_KHR`. A program may ask again and again until there is a signal, so
    /// the command that gives it is flushed.
    fn payload(&self) -> cl_semaphore_payload_khr {
        // Not under the lock: commands that the flush runs may use the semaphore.
        let signal = self.state().signal.clone();
        let is_signalled = |signal: quipu_scheduler::Event| {
            signal.is_complete() && matches!(signal.phase(), Phase::Complete)
        };
        signal.is_some_and(is_signalled).into()
    }
}

/// The properties of a semaphore that a program asks for.
struct Said {
    /// The devices that it names, if it does.
    devices: Option<Vec<Ref<Device>>>,
    /// The whole list.
    properties: Vec<cl_semaphore_properties_khr>,
}

/// Reads what a program says of a semaphore.
///
/// # Safety
/// The list ends with a zero, and so does each list in it.
unsafe fn said(context: &Context, first: *const cl_semaphore_properties_khr) -> Result<Said> {
    const TYPE: cl_semaphore_properties_khr = CL_SEMAPHORE_TYPE_KHR as _;
    const DEVICES: cl_semaphore_properties_khr = CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR as _;
    ensure(!first.is_null(), CL_INVALID_VALUE)?;
    let mut said = Vec::new();
    let mut next = || {
        // SAFETY: no zero that ends the list has been read, as the caller promises of it.
        let value = unsafe { first.add(said.len()).read() };
        said.push(value);
        value
    };
    let (mut has_type, mut devices) = (false, None);
    loop {
        match next() {
            0 => break,
            TYPE if !has_type => {
                has_type = true;
                let kind = next();
                let is_known = TYPES.iter().any(|one| kind == u64::from(*one));
                ensure(is_known, CL_INVALID_PROPERTY)?;
            }
            DEVICES if devices.is_none() => {
                let mut handles = Vec::new();
                loop {
                    match next() {
                        0 => break,
                        handle => handles.push(handle),
                    }
                }
                let [handle] = handles[..] else {
                    return fail(CL_INVALID_DEVICE);
                };
                let address = usize::try_from(handle).unwrap_or_default();
                devices = Some(vec![
                    context
                        .device(std::ptr::without_provenance_mut(address))?
                        .clone(),
                ]);
            }
            _ => return fail(CL_INVALID_PROPERTY),
        }
    }
    ensure(has_type, CL_INVALID_VALUE)?;
    Ok(Said {
        devices,
        properties: said,
    })
}

pub(crate) unsafe extern "C" fn create_semaphore(
    context: cl_context,
    properties: *const cl_semaphore_properties_khr,
    code: *mut cl_int,
) -> cl_semaphore_khr {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        // SAFETY: the program passes such a list.
        let Said {
            devices,
            properties,
        } = unsafe { said(&context, properties) }?;
        let all = || match &context.devices[..] {
            [only] => Ok(vec![only.clone()]),
            _ => fail(CL_INVALID_PROPERTY),
        };
        let semaphore = Ref::new(Semaphore {
            devices: devices.map_or_else(all, Ok)?,
            context,
            properties,
            state: Mutex::default(),
        })?;
        Ok(semaphore.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

pub(crate) unsafe extern "C" fn retain_semaphore(semaphore: cl_semaphore_khr) -> cl_int {
    entry(|| retain::<Semaphore>(semaphore))
}

pub(crate) unsafe extern "C" fn release_semaphore(semaphore: cl_semaphore_khr) -> cl_int {
    entry(|| release::<Semaphore>(semaphore))
}

pub(crate) unsafe extern "C" fn get_semaphore_info(
    semaphore: cl_semaphore_khr,
    name: cl_semaphore_info_khr,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let semaphore = Ref::<Semaphore>::of(semaphore)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_SEMAPHORE_CONTEXT_KHR => answer.value(semaphore.context.handle()),
            CL_SEMAPHORE_REFERENCE_COUNT_KHR => answer.value(semaphore.references()),
            CL_SEMAPHORE_PROPERTIES_KHR => answer.slice(&semaphore.properties),
            CL_SEMAPHORE_TYPE_KHR => answer.value(CL_SEMAPHORE_TYPE_BINARY_KHR),
            CL_SEMAPHORE_PAYLOAD_KHR => answer.value(semaphore.payload()),
            CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR => {
                let devices: Vec<_> = semaphore.devices.iter().map(Ref::handle).collect();
                answer.slice(&devices)
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

pub(crate) unsafe extern "C" fn get_semaphore_handle_for_type(
    semaphore: cl_semaphore_khr,
    device: cl_device_id,
    _kind: cl_external_semaphore_handle_type_khr,
    _size: usize,
    _handle: *mut c_void,
    _size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let semaphore = Ref::<Semaphore>::of(semaphore)?;
        semaphore.context.device(device)?;
        // It was made to be exported as no type, for none is taken.
        fail(CL_INVALID_VALUE)
    })
}

/// A command on semaphores that may be enqueued.
///
/// # Safety
/// The lists have so many handles; `event` is null or valid for a write.
unsafe fn command<'q>(
    queue: &'q Ref<Queue>,
    semaphores: cl_uint,
    handles: *const cl_semaphore_khr,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> Result<(Vec<Ref<Semaphore>>, Command<'q>)> {
    // SAFETY: as the caller promises.
    let semaphores = unsafe { Semaphore::of_queue(queue, semaphores, handles) }?;
    // SAFETY: as the caller promises.
    let command = unsafe { Command::new(queue, count, events, event) }?;
    ensure(
        !command.has_failed_wait(),
        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
    )?;
    Ok((semaphores, command))
}

pub(crate) unsafe extern "C" fn enqueue_wait_semaphores(
    queue: cl_command_queue,
    semaphores: cl_uint,
    handles: *const cl_semaphore_khr,
    _payloads: *const cl_semaphore_payload_khr,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let made = unsafe { command(&queue, semaphores, handles, count, events, event) }?;
        let (semaphores, mut command) = made;
        for one in semaphores {
            command.wait_for(one.take());
        }
        let core = command.core_nothing()?;
        command.give(core, CL_COMMAND_SEMAPHORE_WAIT_KHR)
    })
}

pub(crate) unsafe extern "C" fn enqueue_signal_semaphores(
    queue: cl_command_queue,
    semaphores: cl_uint,
    handles: *const cl_semaphore_khr,
    _payloads: *const cl_semaphore_payload_khr,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let made = unsafe { command(&queue, semaphores, handles, count, events, event) }?;
        let (semaphores, command) = made;
        let core = command.core_nothing()?;
        // What came before it in an in-order queue is over, too, when the signal is there.
        let signal = match command.queue.is_out_of_order() {
            true => core.clone(),
            false => command.queue.context.core.in_turn(&core),
        };
        for semaphore in &semaphores {
            semaphore.signal(&signal);
        }
        command.give(core, CL_COMMAND_SEMAPHORE_SIGNAL_KHR)
    })
}

//! Command queues.

use crate::code::{Code, Result, create, ensure, entry, fail};
use crate::context::{Context, is_finished, pairs};
use crate::device::Device;
use crate::event::Waits;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use opencl_sys::*;
use quipu_scheduler::{EventId, Priority, QueueOptions};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) struct Queue {
    pub(crate) core: quipu_scheduler::Queue,
    pub(crate) context: Ref<Context>,
    pub(crate) device: Ref<Device>,
    pub(crate) properties: cl_command_queue_properties,
    /// As the program said them.
    said: Vec<cl_queue_properties>,
    /// Of its context's queues.
    number: u64,
    /// The last command that reads or writes the host's memory, of an in-order queue.
    last_of_host_memory: Mutex<Option<quipu_scheduler::Event>>,
    held_back: Mutex<HeldBack>,
}

/// Events that all later commands of an in-order queue wait for already.
#[derive(Default)]
struct HeldBack {
    by: BTreeMap<EventId, quipu_scheduler::Event>,
    /// Events that are over are forgotten when there are so many.
    compact_at: usize,
}

impl HeldBack {
    fn add(&mut self, events: Waits) {
        self.by
            .extend(events.into_iter().map(|event| (event.id(), event)));
        if self.by.len() > self.compact_at {
            self.by.retain(|_, event| !is_finished(event));
            self.compact_at = 2 * self.by.len();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(end) = self.context.queues.remove(self.number) {
            // Commands in flight may use shared memory, which is the context's.
            let context = self.context.clone();
            end.on_complete(move |_| drop(context));
        }
    }
}

object!(Queue, CL_INVALID_COMMAND_QUEUE);

impl Queue {
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0
    }

    pub(crate) fn last_of_host_memory(&self) -> MutexGuard<'_, Option<quipu_scheduler::Event>> {
        self.last_of_host_memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds back all later commands of an in-order queue until these events of other queues are
    /// over, however they end. A command that was just enqueued has them in its list, and a later
    /// command must not come before it. Otherwise the later one would read the host's memory, or
    /// memory that the other queue uses, before that queue has done its part.
    ///
    /// The events are held by a barrier of the core. It does not wait for earlier commands, so the
    /// later ones may still run beside them.
    pub(crate) fn hold_back(&self, events: &[quipu_scheduler::Event]) {
        // Commands of a queue with profiling run one at a time.
        if self.is_out_of_order() || self.is_profiled() {
            return;
        }
        let open: Waits = {
            let held = self.held_back();
            let is_new = |event: &&quipu_scheduler::Event| {
                !held.by.contains_key(&event.id()) && !is_finished(event)
            };
            let new = events.iter().filter(is_new);
            new.map(quipu_scheduler::Event::as_order).collect()
        };
        // A device that is lost takes no barrier, and no command that it would hold back.
        if !open.is_empty() && self.core.barrier(&open).is_ok() {
            self.held_back().add(open);
        }
    }

    /// An event of a command that does nothing, and is where a command would be that is enqueued
    /// now. It only orders: if it fails, what waits for it does not.
    pub(crate) fn place(&self) -> Result<quipu_scheduler::Event> {
        let nothing = self
            .core
            .host_task(|_| Ok(()), &quipu_scheduler::Request::default());
        Ok(nothing?.as_order())
    }

    /// Has another queue's command be a command of this one, too, which is enqueued now.
    pub(crate) fn follow(&self, event: &quipu_scheduler::Event) -> Result<()> {
        self.core.marker(&[event.as_order()])?;
        self.hold_back(std::slice::from_ref(event));
        Ok(())
    }

    fn held_back(&self) -> MutexGuard<'_, HeldBack> {
        self.held_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_profiled(&self) -> bool {
        self.properties & CL_QUEUE_PROFILING_ENABLE != 0
    }
}

fn make(
    context: cl_context,
    device: cl_device_id,
    properties: cl_command_queue_properties,
    priority: Priority,
    said: Vec<cl_queue_properties>,
) -> Result<*mut c_void> {
    let context = Ref::<Context>::of(context)?;
    let device = context.device(device)?.clone();
    const KNOWN: cl_command_queue_properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
        | CL_QUEUE_PROFILING_ENABLE
        | CL_QUEUE_ON_DEVICE
        | CL_QUEUE_ON_DEVICE_DEFAULT;
    ensure(properties & !KNOWN == 0, CL_INVALID_VALUE)?;
    ensure(
        properties & (CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT) == 0,
        CL_INVALID_QUEUE_PROPERTIES,
    )?;
    let in_order = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0;
    let options = QueueOptions {
        in_order,
        profiling: properties & CL_QUEUE_PROFILING_ENABLE != 0,
        // Programs subtract one command's times from another's.
        one_at_a_time: properties & CL_QUEUE_PROFILING_ENABLE != 0,
        priority,
        hazards: context.hazards,
        ..QueueOptions::default()
    };
    let core = context.core.queue(&device.core, options)?;
    let queue = Ref::new(Queue {
        number: context.queues.add(&core),
        last_of_host_memory: Mutex::default(),
        held_back: Mutex::default(),
        core,
        context,
        device,
        properties,
        said,
    })?;
    Ok(queue.give())
}

#[unsafe(export_name = "clCreateCommandQueue")]
pub(crate) unsafe extern "C" fn create_command_queue(
    context: cl_context,
    device: cl_device_id,
    properties: cl_command_queue_properties,
    code: *mut cl_int,
) -> cl_command_queue {
    let body = || make(context, device, properties, Priority::Normal, Vec::new());
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateCommandQueueWithProperties")]
pub(crate) unsafe extern "C" fn create_command_queue_with_properties(
    context: cl_context,
    device: cl_device_id,
    properties: *const cl_queue_properties,
    code: *mut cl_int,
) -> cl_command_queue {
    let body = || {
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        let (mut bits, mut priority) = (0, Priority::Normal);
        for (key, value) in pairs {
            if key == CL_QUEUE_PRIORITY_KHR {
                priority = match u32::try_from(value).unwrap_or(0) {
                    CL_QUEUE_PRIORITY_HIGH_KHR => Priority::High,
                    CL_QUEUE_PRIORITY_MED_KHR => Priority::Normal,
                    CL_QUEUE_PRIORITY_LOW_KHR => Priority::Low,
                    _ => return fail(CL_INVALID_VALUE),
                };
                continue;
            }
            match u32::try_from(key).unwrap_or(0) {
                CL_QUEUE_PROPERTIES => bits = value,
                CL_QUEUE_SIZE => return fail(CL_INVALID_QUEUE_PROPERTIES),
                _ => return fail(CL_INVALID_VALUE),
            }
        }
        make(context, device, bits, priority, said)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainCommandQueue")]
pub(crate) unsafe extern "C" fn retain_command_queue(queue: cl_command_queue) -> cl_int {
    entry(|| retain::<Queue>(queue))
}

#[unsafe(export_name = "clReleaseCommandQueue")]
pub(crate) unsafe extern "C" fn release_command_queue(queue: cl_command_queue) -> cl_int {
    entry(|| {
        // Releasing a queue flushes it.
        Ref::<Queue>::of(queue)?.core.flush();
        release::<Queue>(queue)
    })
}

#[unsafe(export_name = "clGetCommandQueueInfo")]
pub(crate) unsafe extern "C" fn get_command_queue_info(
    queue: cl_command_queue,
    name: cl_command_queue_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_QUEUE_CONTEXT => answer.value(queue.context.handle()),
            CL_QUEUE_DEVICE => answer.value(queue.device.handle()),
            CL_QUEUE_REFERENCE_COUNT => answer.value(queue.references()),
            CL_QUEUE_PROPERTIES => answer.value(queue.properties),
            CL_QUEUE_PROPERTIES_ARRAY => answer.slice(&queue.said),
            // Queues are the host's.
            CL_QUEUE_SIZE => fail(CL_INVALID_COMMAND_QUEUE),
            CL_QUEUE_DEVICE_DEFAULT => answer.value(std::ptr::null_mut::<c_void>()),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clSetCommandQueueProperty")]
pub(crate) unsafe extern "C" fn set_command_queue_property(
    queue: cl_command_queue,
    _properties: cl_command_queue_properties,
    _enable: cl_bool,
    _old: *mut cl_command_queue_properties,
) -> cl_int {
    // Deprecated by OpenCL 1.1.
    entry(|| {
        Ref::<Queue>::of(queue)?;
        fail(CL_INVALID_OPERATION)
    })
}

#[unsafe(export_name = "clSetDefaultDeviceCommandQueue")]
pub(crate) unsafe extern "C" fn set_default_device_command_queue(
    context: cl_context,
    device: cl_device_id,
    _queue: cl_command_queue,
) -> cl_int {
    entry(|| {
        Ref::<Context>::of(context)?.device(device)?;
        // No device has queues of its own.
        fail(CL_INVALID_OPERATION)
    })
}

#[unsafe(export_name = "clFlush")]
pub(crate) unsafe extern "C" fn flush(queue: cl_command_queue) -> cl_int {
    entry(|| {
        Ref::<Queue>::of(queue)?.core.flush();
        Ok(())
    })
}

#[unsafe(export_name = "clFinish")]
pub(crate) unsafe extern "C" fn finish(queue: cl_command_queue) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        queue.core.wait().map_err(Code::from)
    })
}

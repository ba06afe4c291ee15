//! Command buffers (`cl_khr_command_buffer` and its extensions): commands that are recorded once,
//! and enqueued many times.
//!
//! A command buffer keeps its commands as a list, and a recorded graph of the core's that was made
//! of them. An update changes the list and drops the graph; the next enqueue records it anew. A
//! graph that is in flight stays what it was, so a command buffer may be enqueued and updated while
//! earlier enqueues still run.
//!
//! | file | contents |
//! |---|---|
//! | `record` | the functions that record a command |
//! | `update` | kernels that are changed between two enqueues |
//!
//! Devices of all kinds may have commands in one buffer: the core orders them.

mod record;
mod update;

use record::Work;
pub(crate) use record::*;
pub(crate) use update::*;

use crate::code::{Code, Result, create, ensure, entry, fail, list};
use crate::context::{Context, pairs};
use crate::enqueue::Command;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::graph::{Graph, Node, Recording};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CL_COMMAND_BUFFER_MUTABLE_DISPATCH_ASSERTS_KHR`.
const ASSERTS: cl_command_buffer_properties_khr = 0x12B7;
/// `CL_COMMAND_BUFFER_STATE_FINALIZED_KHR`.
const STATE_FINALIZED: cl_command_buffer_state_khr = 2;

/// The capabilities of all devices for command buffers.
pub(crate) const CAPABILITIES: cl_device_command_buffer_capabilities_khr =
    CL_COMMAND_BUFFER_CAPABILITY_KERNEL_PRINTF_KHR
        | CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR
        | CL_COMMAND_BUFFER_CAPABILITY_MULTIPLE_QUEUE_KHR;
/// The properties of queues that a command buffer may be enqueued on.
pub(crate) const QUEUE_PROPERTIES: cl_command_queue_properties =
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
/// The capabilities of the platform for command buffers of several devices.
pub(crate) const PLATFORM_CAPABILITIES: cl_platform_command_buffer_capabilities_khr =
    CL_COMMAND_BUFFER_PLATFORM_UNIVERSAL_SYNC_KHR | CL_COMMAND_BUFFER_PLATFORM_REMAP_QUEUES_KHR;

pub(crate) struct CommandBuffer {
    context: Ref<Context>,
    /// The queues that commands are recorded for, and enqueued on unless the program says
    /// otherwise.
    queues: Vec<Ref<Queue>>,
    flags: cl_command_buffer_flags_khr,
    asserts: cl_mutable_dispatch_asserts_khr,
    /// As the program said them.
    said: Vec<cl_command_buffer_properties_khr>,
    state: Mutex<State>,
}

object!(CommandBuffer, CL_INVALID_COMMAND_BUFFER_KHR);

#[derive(Default)]
struct State {
    commands: Vec<Recorded>,
    is_finalized: bool,
    /// The recorded graph of the commands since they last changed.
    graph: Option<Graph>,
}

/// A command of a command buffer.
#[derive(Clone)]
struct Recorded {
    /// Its queue, by its place in the buffer's list.
    queue: usize,
    /// Commands that it waits for, by their places.
    after: SmallVec<[u32; 4]>,
    work: Work,
    /// The handle that the program has of it, or 0.
    handle: usize,
}

impl State {
    /// True if all arguments of all kernels are set.
    fn is_complete(&self) -> bool {
        self.commands
            .iter()
            .all(|command| command.work.is_complete())
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for command in state.commands.iter().filter(|command| command.handle != 0) {
            let handle = std::ptr::with_exposed_provenance(command.handle);
            // The program may have released it: then there is nothing to do.
            let _ = release::<MutableCommand>(handle);
        }
    }
}

impl CommandBuffer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the commands as a graph of the core's.
    fn record(&self, commands: &[Recorded]) -> Result<Graph> {
        let recording = Recording::new(&self.context.core);
        let mut nodes: Vec<Node> = Vec::with_capacity(commands.len());
        for command in commands {
            let after = command.after.iter().map(|place| nodes[*place as usize]);
            let after: SmallVec<[Node; 4]> = after.collect();
            let queue = &self.queues[command.queue];
            nodes.push(command.work.record(&recording, queue, &after)?);
            // As where commands are enqueued one by one: see `Queue::hold_back`.
            let foreign = command.after.iter().map(|place| *place as usize);
            let foreign = foreign.filter(|place| commands[*place].queue != command.queue);
            let foreign: SmallVec<[Node; 4]> = foreign.map(|place| nodes[place]).collect();
            if !foreign.is_empty() && !queue.is_out_of_order() {
                recording.barrier(&queue.core, &foreign)?;
            }
        }
        Ok(recording.finish()?)
    }

    /// The graph of the commands as they are now.
    fn graph(&self, state: &mut State) -> Result<Graph> {
        ensure(
            state.is_finalized && state.is_complete(),
            CL_INVALID_OPERATION,
        )?;
        if let Some(graph) = &state.graph {
            return Ok(graph.clone());
        }
        let graph = self.record(&state.commands)?;
        state.graph = Some(graph.clone());
        Ok(graph)
    }
}

/// Queues of one context that a program passes.
///
/// # Safety
/// The pointer is null, or valid for reads of so many handles.
unsafe fn queues(count: cl_uint, first: *const cl_command_queue) -> Result<Vec<Ref<Queue>>> {
    // SAFETY: as the caller promises.
    let handles = unsafe { list(count as usize, first) };
    let handles = handles.filter(|handles| !handles.is_empty());
    let handles = handles.ok_or(Code(CL_INVALID_VALUE))?;
    let queues: Result<Vec<_>> = handles
        .iter()
        .map(|handle| Ref::<Queue>::of(*handle))
        .collect();
    let queues = queues?;
    let mut all = queues.iter();
    ensure(
        all.all(|queue| queue.context.is(&queues[0].context)),
        CL_INVALID_CONTEXT,
    )?;
    Ok(queues)
}

#[unsafe(export_name = "clCreateCommandBufferKHR")]
pub(crate) unsafe extern "C" fn create_command_buffer(
    count: cl_uint,
    first: *const cl_command_queue,
    properties: *const cl_command_buffer_properties_khr,
    code: *mut cl_int,
) -> cl_command_buffer_khr {
    let body = || {
        // SAFETY: the program passes so many handles.
        let queues = unsafe { queues(count, first) }?;
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        let (mut flags, mut asserts) = (None, None);
        for (key, value) in pairs {
            let (place, known) = match key {
                CL_COMMAND_BUFFER_FLAGS_KHR => (
                    &mut flags,
                    CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR
                        | CL_COMMAND_BUFFER_MUTABLE_KHR
                        | CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR,
                ),
                ASSERTS => (
                    &mut asserts,
                    CL_MUTABLE_DISPATCH_ASSERT_NO_ADDITIONAL_WORK_GROUPS_KHR,
                ),
                _ => return fail(CL_INVALID_VALUE),
            };
            let is_new = place.replace(value).is_none();
            ensure(is_new && value & !known == 0, CL_INVALID_VALUE)?;
        }
        let flags = flags.unwrap_or(0);
        // Devices are synchronised by the host.
        let is_one_device = queues
            .iter()
            .all(|queue| queue.device.is(&queues[0].device));
        ensure(
            flags & CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR == 0 || is_one_device,
            CL_INCOMPATIBLE_COMMAND_QUEUE_KHR,
        )?;
        let buffer = Ref::new(CommandBuffer {
            context: queues[0].context.clone(),
            queues,
            flags,
            asserts: asserts.unwrap_or(0),
            said,
            state: Mutex::default(),
        })?;
        Ok(buffer.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainCommandBufferKHR")]
pub(crate) unsafe extern "C" fn retain_command_buffer(buffer: cl_command_buffer_khr) -> cl_int {
    entry(|| retain::<CommandBuffer>(buffer))
}

#[unsafe(export_name = "clReleaseCommandBufferKHR")]
pub(crate) unsafe extern "C" fn release_command_buffer(buffer: cl_command_buffer_khr) -> cl_int {
    entry(|| release::<CommandBuffer>(buffer))
}

#[unsafe(export_name = "clFinalizeCommandBufferKHR")]
pub(crate) unsafe extern "C" fn finalize_command_buffer(buffer: cl_command_buffer_khr) -> cl_int {
    entry(|| {
        let buffer = Ref::<CommandBuffer>::of(buffer)?;
        let mut state = buffer.state();
        ensure(!state.is_finalized, CL_INVALID_OPERATION)?;
        if state.is_complete() {
            state.graph = Some(buffer.record(&state.commands)?);
        }
        state.is_finalized = true;
        Ok(())
    })
}

/// The queues to use in the place of others: of the same devices and context.
fn check_substitutes(of: &CommandBuffer, queues: &[Ref<Queue>]) -> Result<()> {
    ensure(queues.len() == of.queues.len(), CL_INVALID_VALUE)?;
    for (queue, own) in queues.iter().zip(&of.queues) {
        ensure(queue.device.is(&own.device), CL_INVALID_DEVICE)?;
        ensure(queue.context.is(&own.context), CL_INVALID_CONTEXT)?;
    }
    Ok(())
}

#[unsafe(export_name = "clEnqueueCommandBufferKHR")]
pub(crate) unsafe extern "C" fn enqueue_command_buffer(
    queue_count: cl_uint,
    first: *mut cl_command_queue,
    buffer: cl_command_buffer_khr,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let buffer = Ref::<CommandBuffer>::of(buffer)?;
        let graph = buffer.graph(&mut buffer.state())?;
        let used = if queue_count == 0 && first.is_null() {
            buffer.queues.clone()
        } else {
            // SAFETY: the program passes so many handles.
            let queues = unsafe { queues(queue_count, first) }?;
            check_substitutes(&buffer, &queues)?;
            queues
        };
        let queue = &used[0];
        // SAFETY: as the program promises.
        let mut command = unsafe { Command::new(queue, count, events, event) }?;
        // The core has it as a command of the first queue. It is one of each other, too.
        let mut others: Vec<&Ref<Queue>> = Vec::new();
        for other in &used[1..] {
            if !other.is(queue) && !others.iter().any(|known| known.is(other)) {
                others.push(other);
            }
        }
        for other in &others {
            command.wait_for(other.place()?);
        }
        let core = command.enqueue(|waits| Ok(queue.core.launch_graph(&graph, waits, None)?))?;
        for other in &others {
            other.follow(&core)?;
        }
        command.give(core, CL_COMMAND_COMMAND_BUFFER_KHR)
    })
}

#[unsafe(export_name = "clGetCommandBufferInfoKHR")]
pub(crate) unsafe extern "C" fn get_command_buffer_info(
    buffer: cl_command_buffer_khr,
    name: cl_command_buffer_info_khr,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let buffer = Ref::<CommandBuffer>::of(buffer)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_COMMAND_BUFFER_NUM_QUEUES_KHR => answer.value(buffer.queues.len() as cl_uint),
            CL_COMMAND_BUFFER_QUEUES_KHR => {
                let queues: Vec<_> = buffer.queues.iter().map(Ref::handle).collect();
                answer.slice(&queues)
            }
            CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR => answer.value(buffer.references()),
            CL_COMMAND_BUFFER_STATE_KHR => {
                let state = buffer.state();
                answer.value(match (state.is_finalized, state.is_complete()) {
                    (false, _) => CL_COMMAND_BUFFER_STATE_RECORDING_KHR,
                    (true, false) => STATE_FINALIZED,
                    (true, true) => CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR,
                })
            }
            CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR => answer.slice(&buffer.said),
            CL_COMMAND_BUFFER_CONTEXT_KHR => answer.value(buffer.context.handle()),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clRemapCommandBufferKHR")]
pub(crate) unsafe extern "C" fn remap_command_buffer(
    buffer: cl_command_buffer_khr,
    automatic: cl_bool,
    count: cl_uint,
    first: *const cl_command_queue,
    handle_count: cl_uint,
    handles: *const cl_mutable_command_khr,
    handles_ret: *mut cl_mutable_command_khr,
    code: *mut cl_int,
) -> cl_command_buffer_khr {
    let body = || {
        let of = Ref::<CommandBuffer>::of(buffer)?;
        // SAFETY: the program passes so many handles.
        let queues = unsafe { queues(count, first) }?;
        ensure(automatic == CL_FALSE, CL_INVALID_OPERATION)?;
        ensure(queues.len() == of.queues.len(), CL_INVALID_VALUE)?;
        ensure(queues[0].context.is(&of.context), CL_INVALID_CONTEXT)?;
        // SAFETY: the program passes so many handles.
        let handles = unsafe { list(handle_count as usize, handles) };
        let handles = handles.filter(|handles| handles.is_empty() == handles_ret.is_null());
        let handles = handles.ok_or(Code(CL_INVALID_VALUE))?;
        let (mut commands, is_finalized) = {
            let state = of.state();
            (state.commands.clone(), state.is_finalized)
        };
        let places: Result<Vec<usize>> = handles
            .iter()
            .map(|handle| {
                let mut all = commands.iter();
                let place =
                    all.position(|command| command.handle != 0 && command.handle == handle.addr());
                place.ok_or(Code(CL_INVALID_VALUE))
            })
            .collect();
        let places = places?;
        for command in &mut commands {
            command.handle = 0;
            command.work.move_to(&queues[command.queue])?;
        }
        let new = Ref::new(CommandBuffer {
            context: of.context.clone(),
            queues,
            flags: of.flags,
            asserts: of.asserts,
            said: of.said.clone(),
            state: Mutex::default(),
        })?;
        // What the new devices refuse is found out here.
        if commands.iter().all(|command| command.work.is_complete()) {
            new.record(&commands)?;
        }
        let mut given = Vec::with_capacity(places.len());
        for place in places {
            let command = &mut commands[place];
            if command.handle == 0 {
                let handle = MutableCommand::give(new.handle(), place)?;
                command.handle = handle.expose_provenance();
            }
            given.push(std::ptr::with_exposed_provenance_mut(command.handle));
        }
        *new.state() = State {
            commands,
            is_finalized,
            graph: None,
        };
        for (number, handle) in given.into_iter().enumerate() {
            // SAFETY: the program passes room for as many.
            unsafe { handles_ret.add(number).write(handle) };
        }
        Ok(new.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

//! Kernels of a command buffer that are changed between two enqueues
//! (`cl_khr_command_buffer_mutable_dispatch`).

use super::CommandBuffer;
use super::record::Work;
use crate::code::{Code, Result, ensure, entry, fail, list};
use crate::enqueue::{Launch, Prepared, Shape, sizes};
use crate::handle::{Ref, object};
use crate::info::Answer;
use crate::kernel::{Argument, Kernel};
use crate::queue::Queue;
use crate::svm::reach;
use opencl_sys::*;
use quipu_scheduler::graph::{Node, Recording};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// `CL_MUTABLE_DISPATCH_ASSERTS_KHR`.
pub(super) const ASSERTS_OF_KERNEL: cl_command_properties_khr = 0x12B8;

/// A command that programs have a handle of. It goes with its command buffer.
pub(crate) struct MutableCommand {
    /// The handle of its command buffer.
    buffer: usize,
    place: usize,
}

object!(MutableCommand, CL_INVALID_MUTABLE_COMMAND_KHR);

impl MutableCommand {
    /// A handle of a command of a command buffer, which has to release it.
    pub(super) fn give(
        buffer: cl_command_buffer_khr,
        place: usize,
    ) -> Result<cl_mutable_command_khr> {
        let buffer = buffer.expose_provenance();
        Ok(Ref::new(Self { buffer, place })?.give())
    }

    fn buffer(&self) -> Result<Ref<CommandBuffer>> {
        let handle: *const c_void = std::ptr::with_exposed_provenance(self.buffer);
        Ref::<CommandBuffer>::of(handle).map_err(|_| Code(CL_INVALID_MUTABLE_COMMAND_KHR))
    }
}

/// A launch of a kernel in a command buffer.
#[derive(Clone)]
pub(super) struct Dispatch {
    kernel: Ref<Kernel>,
    shape: Shape,
    /// The kernel's arguments as they were when this was recorded, or what they were changed to.
    arguments: Vec<Option<Argument>>,
    follows_pointers: bool,
    /// The fields that may be changed.
    fields: cl_mutable_dispatch_fields_khr,
    /// As the program said them.
    said: Vec<cl_command_properties_khr>,
    /// The launch, where all arguments are set; of an empty range there is none.
    prepared: Option<Prepared>,
}

impl Dispatch {
    pub(super) fn new(
        kernel: &Ref<Kernel>,
        shape: Shape,
        fields: cl_mutable_dispatch_fields_khr,
        said: Vec<cl_command_properties_khr>,
    ) -> Self {
        Self {
            kernel: kernel.clone(),
            shape,
            arguments: kernel.arguments().set.clone(),
            follows_pointers: kernel.follows_pointers(),
            fields,
            said,
            prepared: None,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.arguments.iter().all(Option::is_some)
    }

    /// Looks at the launch as it is now, for a queue's device.
    pub(super) fn prepare(&mut self, queue: &Ref<Queue>) -> Result<()> {
        self.prepared = None;
        if !self.is_complete() || self.shape.global.contains(&0) {
            return Ok(());
        }
        let (code, device) = (self.kernel.code_for(&queue.device)?, &queue.device);
        let launch = Arc::new(Launch::new(code, device, self.shape, &self.arguments)?);
        self.prepared = Some(Prepared::new(queue, launch, self.follows_pointers)?);
        Ok(())
    }

    pub(super) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        match &self.prepared {
            Some(prepared) => prepared.record(recording, queue, after),
            None => Ok(recording.marker(&queue.core, after)?),
        }
    }

    /// Changes what a program says.
    ///
    /// # Safety
    /// Each list has as many elements as is said beside it, and each size as many as there are
    /// dimensions.
    unsafe fn update(&mut self, config: &cl_mutable_dispatch_config_khr) -> Result<()> {
        let may = |field: cl_mutable_dispatch_fields_khr, is_asked: bool| {
            ensure(!is_asked || self.fields & field != 0, CL_INVALID_OPERATION)
        };
        ensure(
            [0, self.shape.dimensions].contains(&config.work_dim),
            CL_INVALID_OPERATION,
        )?;
        may(
            CL_MUTABLE_DISPATCH_GLOBAL_OFFSET_KHR,
            !config.global_work_offset.is_null(),
        )?;
        may(
            CL_MUTABLE_DISPATCH_GLOBAL_SIZE_KHR,
            !config.global_work_size.is_null(),
        )?;
        may(
            CL_MUTABLE_DISPATCH_LOCAL_SIZE_KHR,
            !config.local_work_size.is_null(),
        )?;
        may(
            CL_MUTABLE_DISPATCH_ARGUMENTS_KHR,
            config.num_args != 0 || config.num_svm_args != 0,
        )?;
        may(
            CL_MUTABLE_DISPATCH_EXEC_INFO_KHR,
            config.num_exec_infos != 0,
        )?;
        // SAFETY: each list has as many elements as is said beside it: the contract of `update`.
        let (arguments, addresses, infos) = unsafe {
            (
                list(config.num_args as usize, config.arg_list),
                list(config.num_svm_args as usize, config.arg_svm_list),
                list(config.num_exec_infos as usize, config.exec_info_list),
            )
        };
        let (Some(arguments), Some(addresses), Some(infos)) = (arguments, addresses, infos) else {
            return fail(CL_INVALID_VALUE);
        };
        for argument in arguments {
            let (index, size) = (argument.arg_index, argument.arg_size);
            // SAFETY: the program passes so many bytes.
            let set = unsafe { self.kernel.argument(index, size, argument.arg_value) }?;
            self.arguments[index as usize] = Some(set);
        }
        for address in addresses {
            let index = address.arg_index;
            let set = self.kernel.address_argument(index, address.arg_value)?;
            self.arguments[index as usize] = Some(set);
        }
        for info in infos {
            let (size, value) = (info.param_value_size, info.param_value);
            // SAFETY: the program passes so many bytes beside the name.
            let (_, reaches) = unsafe { reach(&self.kernel, info.param_name, size, value) }?;
            self.follows_pointers |= reaches;
        }
        let dimensions = self.shape.dimensions as usize;
        let said = |pointer: *const usize, otherwise| {
            // SAFETY: each size has as many numbers as there are dimensions: the contract of
            // `update`.
            (!pointer.is_null()).then(|| unsafe { sizes(dimensions, pointer, otherwise) })
        };
        let shape = &mut self.shape;
        shape.offset = said(config.global_work_offset, 0).unwrap_or(shape.offset);
        shape.global = said(config.global_work_size, 1).unwrap_or(shape.global);
        shape.local = said(config.local_work_size, 1).or(shape.local);
        Ok(())
    }
}

#[unsafe(export_name = "clUpdateMutableCommandsKHR")]
pub(crate) unsafe extern "C" fn update_mutable_commands(
    buffer: cl_command_buffer_khr,
    count: cl_uint,
    kinds: *const cl_command_buffer_update_type_khr,
    configs: *mut *const c_void,
) -> cl_int {
    entry(|| {
        let buffer = Ref::<CommandBuffer>::of(buffer)?;
        let mut state = buffer.state();
        ensure(
            state.is_finalized && buffer.flags & CL_COMMAND_BUFFER_MUTABLE_KHR != 0,
            CL_INVALID_OPERATION,
        )?;
        // SAFETY: the program passes so many of each.
        let (kinds, configs) = unsafe {
            (
                list(count as usize, kinds),
                list(count as usize, configs.cast_const()),
            )
        };
        let (Some(kinds), Some(configs)) = (kinds, configs) else {
            return fail(CL_INVALID_VALUE);
        };
        let known = |kind: &_| *kind == CL_STRUCTURE_TYPE_MUTABLE_DISPATCH_CONFIG_KHR;
        ensure(
            kinds.iter().all(known) && configs.iter().all(|config| !config.is_null()),
            CL_INVALID_VALUE,
        )?;
        // All of them, or none.
        let mut changed: BTreeMap<usize, Box<Dispatch>> = BTreeMap::new();
        for config in configs {
            // SAFETY: the program passes what the kind says.
            let config = unsafe {
                config
                    .cast::<cl_mutable_dispatch_config_khr>()
                    .read_unaligned()
            };
            let command = Ref::<MutableCommand>::of(config.command)?;
            let is_ours = command.buffer == buffer.handle().addr();
            let recorded = state.commands.get(command.place).filter(|_| is_ours);
            let Some(Work::Dispatch(dispatch)) = recorded.map(|recorded| &recorded.work) else {
                return fail(CL_INVALID_MUTABLE_COMMAND_KHR);
            };
            let dispatch = changed
                .entry(command.place)
                .or_insert_with(|| dispatch.clone());
            // SAFETY: as the program promises.
            unsafe { dispatch.update(&config) }?;
        }
        for (place, dispatch) in &mut changed {
            dispatch.prepare(&buffer.queues[state.commands[*place].queue])?;
        }
        for (place, dispatch) in changed {
            state.commands[place].work = Work::Dispatch(dispatch);
            state.graph = None;
        }
        Ok(())
    })
}

#[unsafe(export_name = "clGetMutableCommandInfoKHR")]
pub(crate) unsafe extern "C" fn get_mutable_command_info(
    command: cl_mutable_command_khr,
    name: cl_mutable_command_info_khr,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let command = Ref::<MutableCommand>::of(command)?;
        let buffer = command.buffer()?;
        let state = buffer.state();
        let invalid = Code(CL_INVALID_MUTABLE_COMMAND_KHR);
        let recorded = state.commands.get(command.place).ok_or(invalid)?;
        let Work::Dispatch(dispatch) = &recorded.work else {
            return Err(invalid);
        };
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let shape = &dispatch.shape;
        let sizes = |all: [u64; 3]| {
            let along = all.into_iter().take(shape.dimensions as usize);
            along.map(|size| size as usize).collect::<Vec<usize>>()
        };
        match name {
            CL_MUTABLE_COMMAND_COMMAND_QUEUE_KHR => {
                answer.value(buffer.queues[recorded.queue].handle())
            }
            CL_MUTABLE_COMMAND_COMMAND_BUFFER_KHR => answer.value(buffer.handle()),
            CL_MUTABLE_COMMAND_COMMAND_TYPE_KHR => answer.value(CL_COMMAND_NDRANGE_KERNEL),
            CL_MUTABLE_COMMAND_PROPERTIES_ARRAY_KHR => answer.slice(&dispatch.said),
            CL_MUTABLE_DISPATCH_KERNEL_KHR => answer.value(dispatch.kernel.handle()),
            CL_MUTABLE_DISPATCH_DIMENSIONS_KHR => answer.value(shape.dimensions),
            CL_MUTABLE_DISPATCH_GLOBAL_WORK_OFFSET_KHR => answer.slice(&sizes(shape.offset)),
            CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR => answer.slice(&sizes(shape.global)),
            CL_MUTABLE_DISPATCH_LOCAL_WORK_SIZE_KHR => {
                answer.slice(&sizes(shape.local.unwrap_or_default()))
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

//! A kernel with its arguments and its size, as commands run it.
//!
//! Looking at all that costs more than enqueueing. A kernel keeps its last launch until an argument
//! is set, so launches that say the same share it.

use super::kernel::chosen_local_size;
use crate::code::{Code, Result, ensure};
use crate::device::Device;
use crate::handle::Ref;
use crate::image::Image;
use crate::kernel::{Argument, KernelCode, Value};
use crate::platform::is_on_host;
use opencl_sys::*;
use quipu_clc::{Grid, ParameterKind};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::front::MAX_GROUPS;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{CodeKey, ErrorKind, Passed, PassedParameter, PortableKernel, RawArgument};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;

/// The part of an argument that a launch keeps.
enum Kept {
    Value(Value),
    /// The next of the command's accesses.
    Memory,
    /// The next of the command's accesses, and the next of its images.
    Image,
    /// An address that means the same to the host: null, or one of shared memory.
    Address(usize),
    Local(u64),
}

/// The shape of a launch: the program's wishes for it beside its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dimensions: u32,
    pub(crate) global: [u64; 3],
    pub(crate) offset: [u64; 3],
    /// The size of work-group, if the program says one.
    pub(crate) local: Option<[u64; 3]>,
}

/// Memory that a launch reaches.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub(super) handle: usize,
    pub(super) writes: bool,
    pub(super) is_image: bool,
}

/// A launch that was looked at and can be enqueued, as often as the program says the same.
pub(crate) struct Launch {
    shape: Shape,
    device: Ref<Device>,
    code: Arc<KernelCode>,
    /// The kernel that runs it, on devices that run native code.
    compiled: Option<Arc<quipu_clc::Kernel>>,
    grid: Grid,
    groups: u64,
    arguments: Vec<Kept>,
    /// The memory among the arguments.
    pub(super) memories: SmallVec<[Reached; 4]>,
    /// It may reach memory by pointers that it finds, and not only by its arguments.
    pub(super) follows_pointers: bool,
}

/// The number of a launch's groups that the core counts as one: it counts fewer than there may be.
fn batch(groups: u64) -> u64 {
    groups.div_ceil(MAX_GROUPS).max(1)
}

impl Launch {
    /// Its groups, as the core counts them.
    pub(super) fn batches(&self) -> u64 {
        match self.device.is_native() {
            true => self.groups.div_ceil(batch(self.groups)),
            false => self.groups,
        }
    }

    /// Those of its groups that the core means, on devices that run native code.
    fn numbers(&self, batches: Range<u32>) -> Range<u64> {
        let number = |at: u32| self.groups.min(u64::from(at) * batch(self.groups));
        number(batches.start)..number(batches.end)
    }

    /// Those of its arguments that are memory of the command's.
    fn reached(&self) -> impl Iterator<Item = &Kept> {
        let arguments = self.arguments.iter();
        arguments.filter(|argument| matches!(argument, Kept::Memory | Kept::Image))
    }

    /// True if it is what the program says now.
    pub(crate) fn is(&self, shape: &Shape, device: &Ref<Device>) -> bool {
        self.shape == *shape && self.device.is(device)
    }

    pub(crate) fn new(
        code: &Arc<KernelCode>,
        device: &Ref<Device>,
        shape: Shape,
        set: &[Option<Argument>],
    ) -> Result<Self> {
        let local = chosen_local_size(code, device, shape.global, shape.local)?;
        let mut grid = Grid::new(shape.dimensions, shape.global, local);
        grid.offset = shape.offset;
        let mut launch = Self {
            shape,
            device: device.clone(),
            code: code.clone(),
            compiled: None,
            grid,
            groups: 0,
            arguments: Vec::with_capacity(set.len()),
            memories: SmallVec::new(),
            follows_pointers: code.info.reaches_beyond,
        };
        let mut local_bytes = code.info.local_bytes;
        for (set, parameter) in set.iter().zip(&code.info.parameters) {
            let kept = match set.as_ref().ok_or(Code(CL_INVALID_KERNEL_ARGS))? {
                Argument::Value(bytes) => Kept::Value(bytes.clone()),
                Argument::Local(bytes) => {
                    local_bytes = local_bytes.saturating_add(*bytes);
                    Kept::Local(*bytes)
                }
                Argument::Address(address) => {
                    let is_reached = *address == 0 || is_on_host(&device.core);
                    ensure(is_reached, CL_INVALID_OPERATION)?;
                    launch.follows_pointers = true;
                    Kept::Address(*address)
                }
                Argument::Memory(0) => Kept::Address(0),
                Argument::Memory(handle) => {
                    let (writes, is_image) = match parameter.kind {
                        ParameterKind::Memory(access) => (access.writes(), false),
                        ParameterKind::Image(access) => (access.writes(), true),
                        _ => (false, false),
                    };
                    ensure(!is_image || device.has_images(), CL_INVALID_OPERATION)?;
                    launch.memories.push(Reached {
                        handle: *handle,
                        writes,
                        is_image,
                    });
                    if is_image { Kept::Image } else { Kept::Memory }
                }
            };
            launch.arguments.push(kept);
        }
        ensure(local_bytes <= device.local_bytes(), CL_OUT_OF_RESOURCES)?;
        let groups = grid
            .groups()
            .into_iter()
            .try_fold(1_u64, |all, along| all.checked_mul(along));
        launch.groups = groups.ok_or(Code(CL_INVALID_GLOBAL_WORK_SIZE))?;
        let has_room = |axis: usize| shape.global[axis].checked_add(shape.offset[axis]).is_some();
        ensure((0..3).all(has_room), CL_INVALID_GLOBAL_OFFSET)?;
        // A node may be an older one, whose compiler counts work-items with 31 bits.
        let is_narrow = device.has_own_compiler() && !device.is_native();
        let fits = |axis: usize| shape.global[axis] <= i32::MAX as u64 || !is_narrow;
        ensure(
            (0..3).all(fits) && launch.batches() <= MAX_GROUPS,
            CL_INVALID_GLOBAL_WORK_SIZE,
        )?;
        if device.is_native() {
            let compiled = code.compiled(&grid)?;
            let locals = launch
                .arguments
                .iter()
                .filter_map(|argument| match argument {
                    Kept::Local(bytes) => Some(*bytes),
                    _ => None,
                });
            compiled.check_room(&grid, locals).map_err(|error| {
                tracing::error!("{error}");
                Code(CL_OUT_OF_RESOURCES)
            })?;
            launch.compiled = Some(compiled);
        }
        Ok(launch)
    }
}

/// A launch as its command keeps it, with the images that it has.
pub(super) struct Launching(pub(super) Arc<Launch>, pub(super) Box<[Image]>);

impl NativeKernel for Launching {
    fn name(&self) -> &'static str {
        self.0.code.name
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        let failed = |message: String| {
            quipu_scheduler::Error::from(ErrorKind::Kernel {
                what: format!("kernel '{}'", self.0.code.name),
                message,
            })
        };
        let compiled = self.0.compiled.as_ref();
        let compiled =
            compiled.ok_or_else(|| failed("it was compiled for another device".to_owned()))?;
        let mut memories = arguments.iter();
        let nothing = quipu_clc::Argument::Address(std::ptr::null_mut());
        let mut next = || {
            memories.next().map_or(nothing, |memory| {
                quipu_clc::Argument::Memory(memory.pointer, memory.length)
            })
        };
        let mut images: SmallVec<[quipu_clc::Image; 4]> = SmallVec::new();
        let mut places = self.1.iter().map(Image::passed);
        for (argument, memory) in self.0.reached().zip(arguments) {
            if let Kept::Image = argument
                && let Some(mut image) = places.next()
            {
                image.texels = memory.pointer;
                images.push(image);
            }
        }
        let mut images = images.iter();
        let passed: SmallVec<[quipu_clc::Argument<'_>; 8]> = self
            .0
            .arguments
            .iter()
            .map(|argument| match argument {
                Kept::Value(bytes) => quipu_clc::Argument::Value(bytes),
                Kept::Memory => next(),
                Kept::Image => {
                    let memory = next();
                    images.next().map_or(memory, quipu_clc::Argument::Image)
                }
                Kept::Address(address) => {
                    quipu_clc::Argument::Address(std::ptr::with_exposed_provenance_mut(*address))
                }
                Kept::Local(bytes) => quipu_clc::Argument::Local(*bytes),
            })
            .collect();
        let groups = self.0.numbers(groups);
        // SAFETY: the program answers for what its kernel does, as OpenCL has it; no group runs
        // twice, as the caller promises.
        unsafe { compiled.run(&self.0.grid, &passed, groups) }
            .map_err(|error| failed(error.to_string()))
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }
}

// SAFETY: the program answers for what its kernel does, as OpenCL has it. What is passed was
// checked against the kernel's parameters as the program set it, and each code has a number of its
// own.
unsafe impl PortableKernel for Launching {
    fn key(&self) -> CodeKey {
        self.0.code.key()
    }

    fn code_type(&self) -> TypeId {
        self.0.code.code_type()
    }

    fn code(&self) -> quipu_scheduler::Result<Arc<dyn Any + Send + Sync>> {
        self.0.code.code()
    }

    fn pass(
        &self,
        _arguments: &[PackedArgument<'_>],
        passed: &mut Passed,
    ) -> quipu_scheduler::Result<()> {
        let grid = &self.0.grid;
        // The core counts the slowest dimension first.
        let axes = || (0..grid.dimensions as usize).rev();
        let groups = grid.groups();
        passed.blocks = axes().map(|axis| groups[axis]).collect();
        let (global, local) = (grid.global_size(), grid.local_size());
        passed.threads = axes().map(|axis| u64::from(local[axis])).collect();
        passed.elements = axes().map(|_| 1).collect();
        passed.offset = match grid.offset {
            [0, 0, 0] => SmallVec::new(),
            offset => axes().map(|axis| offset[axis]).collect(),
        };
        if !grid.is_uniform() {
            passed.all_threads = axes().map(|axis| global[axis]).collect();
        }
        let mut images = self.1.iter();
        for argument in &self.0.arguments {
            passed.parameters.push(match argument {
                Kept::Value(bytes) => PassedParameter::Value(bytes.clone()),
                Kept::Memory | Kept::Image => PassedParameter::Memory {
                    element: 1,
                    shape: None,
                },
                Kept::Address(address) => PassedParameter::value(address),
                Kept::Local(bytes) => PassedParameter::Local(*bytes),
            });
            if let Kept::Image = argument
                && let Some(image) = images.next()
            {
                let layout = image.passed().layout();
                passed.parameters.push(PassedParameter::value(&layout));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_counts_several_groups_as_one_where_there_are_too_many() {
        for (groups, each) in [
            (1, 1),
            (MAX_GROUPS, 1),
            (MAX_GROUPS + 1, 2),
            (3 * MAX_GROUPS, 3),
            (u64::MAX, 1 << 33),
        ] {
            assert_eq!(batch(groups), each);
            let batches = groups.div_ceil(each);
            assert!(batches <= MAX_GROUPS && batches * (each - 1) < groups);
        }
    }
}

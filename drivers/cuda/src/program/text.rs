//! Kernels in OpenCL C and SPIR-V, by way of PTX.
//!
//! The compiler for processors reads the program, and makes PTX of a kernel. Such a kernel is
//! launched as the program says: its blocks are the program's work-groups, and it has no loop for
//! more. Behind its own parameters it takes the offset of the launch along three axes, and the
//! number of its dimensions. Memory that a block shares, of sizes that a launch says, is one piece:
//! a parameter has the place where its own begins.

use super::Compiled;
use super::compile::load;
use super::launch::{Call, Launch, MOST_BLOCKS, Values};
use crate::device::Device;
use quipu_clc::{
    ClcError, Description, Image, LinkedKernel, ParameterKind, Program, ProgramParts,
    SHARED_VARIABLES,
};
use quipu_device_queue::VendorDevice;
use quipu_device_queue::error::{of_device, refused, unread};
use quipu_device_queue::launch::{axes, check_shared};
use quipu_kernel_ir::{IndexWidth, KernelText, Printed, TextLanguage};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::{Error, PassedParameter};
use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

/// The alignment of the places of a block's memory that a launch asks for: enough for every type.
const ALIGNED: u64 = 128;

/// A kernel of a program in OpenCL C, or of one that is linked of texts and modules of SPIR-V.
pub(super) enum Source<'c> {
    Text(&'c KernelText),
    Linked(&'c LinkedKernel),
}

impl<'c> Source<'c> {
    /// The code of a launch, if it is such a kernel.
    pub(super) fn of(code: &'c (dyn Any + Send + Sync)) -> Option<Self> {
        if let Some(text) = code.downcast_ref::<KernelText>() {
            return (text.language == TextLanguage::OpenClC).then_some(Self::Text(text));
        }
        code.downcast_ref().map(Self::Linked)
    }

    fn entry(&self) -> &'c str {
        match self {
            Self::Text(text) => &text.entry,
            Self::Linked(kernel) => &kernel.entry,
        }
    }

    fn read(&self) -> std::result::Result<Program, ClcError> {
        let program = match self {
            Self::Text(text) => Program::new(&text.source, &text.options),
            Self::Linked(kernel) => Program::of_parts(&kernel.parts),
        }?;
        // Each kernel is a module of its own there.
        match program.variable_bytes() {
            0 => Ok(program),
            _ => Err(ClcError::Refused(SHARED_VARIABLES.to_owned())),
        }
    }
}

/// Reads a program, for [`Driver::describe`](quipu_scheduler::Driver::describe).
///
/// # Errors
/// If it is none that this driver reads; the compiler's error.
pub(crate) fn describe(device: &Device, program: &(dyn Any + Send + Sync)) -> Result<Description> {
    let Some(parts) = program.downcast_ref::<ProgramParts>() else {
        return Err(unread("cuda"));
    };
    parts.read().map_err(|error| match error {
        ClcError::Refused(log) => ErrorKind::Kernel {
            what: "compiling OpenCL C".to_owned(),
            message: log,
        }
        .into(),
        other => of_device(device.name(), "read a program for it", other.to_string()),
    })
}

/// Compiles a kernel of a program for a device.
///
/// # Errors
/// The compiler's error, with the user's lines; if the machine has no compiler.
pub(super) fn compile(
    device: &Device,
    code: &Arc<dyn Any + Send + Sync>,
    source: &Source<'_>,
) -> Result<Compiled> {
    let entry = source.entry();
    let failed = |error: ClcError| match error {
        ClcError::Refused(log) => refused(device.name(), entry, &log),
        other => {
            let what = format!("compile kernel '{entry}' for it");
            of_device(device.name(), &what, other.to_string())
        }
    };
    let program = source.read().map_err(failed)?;
    let info = program.kernel(entry).map_err(failed)?;
    let parameters: Vec<ParameterKind> = info.parameters.iter().map(|one| one.kind).collect();
    let ptx = program.ptx(entry, device.capability).map_err(failed)?;
    let prints = ptx.contains("vprintf");
    let mut image = ptx.into_bytes();
    image.push(0);
    let printed = Printed {
        language: "PTX",
        source: String::new(),
        entry: entry.to_owned(),
        compiler_options: Vec::new(),
        parameters: Vec::new(),
        shared: Vec::new(),
        dimensions: 0,
        index_width: IndexWidth::Bits64,
        barriers: true,
        grid_barriers: false,
        reads_ahead: false,
        sites: Vec::new(),
    };
    let mut compiled = load(device, code, printed, &image)?;
    compiled.text = Some(parameters);
    compiled.prints = prints;
    Ok(compiled)
}

impl Launch<'_> {
    /// A launch of a kernel of a text, which has parameters of these kinds; gathers its arguments
    /// in `values`, which is empty.
    pub(super) fn call_of_text(
        &self,
        kinds: &[ParameterKind],
        values: &mut Values,
    ) -> Result<Call> {
        let passed = self.passed;
        let threads = axes(&passed.threads);
        self.check_threads(threads)?;
        let blocks = axes(&passed.blocks);
        // Along x, y and z, as the last is the fastest.
        let along = |axis: usize| passed.offset.iter().rev().nth(axis).copied();
        let offset: [u64; 3] = std::array::from_fn(|axis| along(axis).unwrap_or(0));
        if blocks
            .iter()
            .zip(MOST_BLOCKS)
            .any(|(asked, most)| *asked > most)
        {
            return Err(invalid(format!(
                "it has {blocks:?} work-groups along x, y and z, and device '{}' takes {MOST_BLOCKS:?}; use larger ones",
                self.device.name()
            )));
        }
        let reaches = |axis: usize| {
            let items = blocks[axis].checked_mul(threads[axis]);
            items.and_then(|items| items.checked_add(offset[axis]))
        };
        if (0..3).any(|axis| reaches(axis).is_none_or(|end| end > u64::from(u32::MAX))) {
            return Err(invalid(
                "it numbers work-items from 2^32 on; launch it in pieces".to_owned(),
            ));
        }
        if !passed.all_threads.is_empty() {
            return Err(invalid(
                "its work-items are no whole number of work-groups; make them a multiple"
                    .to_owned(),
            ));
        }
        // An image is its memory, and then its layout.
        let is_image = |kind: &&ParameterKind| matches!(kind, ParameterKind::Image(_));
        let images = kinds.iter().filter(is_image).count();
        if passed.parameters.len() != kinds.len() + images {
            return Err(invalid(format!(
                "kernel '{}' takes {} arguments and is passed {}",
                self.compiled.printed.entry,
                kinds.len(),
                passed.parameters.len().saturating_sub(images)
            )));
        }
        let (mut memories, mut shared) = (0, 0_u64);
        let mut parameters = passed.parameters.iter();
        for (number, kind) in kinds.iter().enumerate() {
            let Some(parameter) = parameters.next() else {
                break;
            };
            let place = match (parameter, kind) {
                (PassedParameter::Value(bytes), ParameterKind::Sampler)
                    if bytes.len() == size_of::<u32>() =>
                {
                    values.push(bytes);
                    continue;
                }
                (PassedParameter::Memory { .. }, ParameterKind::Image(_)) => {
                    let argument = self.arguments.get(memories);
                    let memory = self.memories.get(memories).zip(argument);
                    memories += 1;
                    let layout = match parameters.next() {
                        // SAFETY: a value that is passed where an image is wanted is its layout.
                        Some(PassedParameter::Value(bytes)) => unsafe {
                            Image::passed_layout(bytes)
                        },
                        _ => None,
                    };
                    if let Some(((start, argument), layout)) = memory.zip(layout) {
                        values.push(&image(
                            start + argument.offset(),
                            argument.length(),
                            &layout,
                        )?);
                        continue;
                    }
                    None
                }
                (PassedParameter::Value(bytes), ParameterKind::Value { size, .. })
                    if bytes.len() == *size as usize =>
                {
                    values.push(bytes);
                    continue;
                }
                // An address that the program has itself, such as null.
                (PassedParameter::Value(bytes), ParameterKind::Memory(_))
                    if bytes.len() == size_of::<u64>() =>
                {
                    values.push(bytes);
                    continue;
                }
                (PassedParameter::Memory { .. }, ParameterKind::Memory(_)) => {
                    let memory = self
                        .memories
                        .get(memories)
                        .zip(self.arguments.get(memories));
                    memories += 1;
                    memory.map(|(start, argument)| start + argument.offset())
                }
                (PassedParameter::Local(bytes), ParameterKind::Local) => {
                    let start = shared.next_multiple_of(ALIGNED);
                    shared = start.saturating_add(*bytes);
                    Some(start)
                }
                _ => None,
            };
            let place = place.ok_or_else(|| {
                invalid(format!(
                    "argument {number} of kernel '{}', counted from 0, is passed something else",
                    self.compiled.printed.entry
                ))
            })?;
            values.push(&place.to_le_bytes().map(MaybeUninit::new));
        }
        check_shared(self.device, self.compiled.shared.saturating_add(shared))?;
        for along in offset {
            values.push(&(along as u32).to_le_bytes().map(MaybeUninit::new));
        }
        let dimensions = passed.blocks.len() as u32;
        values.push(&dimensions.to_le_bytes().map(MaybeUninit::new));
        Ok(Call {
            function: self.compiled.function(),
            grid: blocks.map(|blocks| blocks as u32),
            threads: threads.map(|threads| threads as u32),
            shared: shared as u32,
            together: false,
        })
    }
}

/// Bytes of an image as a kernel's argument.
const IMAGE_BYTES: usize = size_of::<u64>() + Image::LAYOUT_BYTES;

/// The argument for an image whose memory begins at an address and has so many bytes.
fn image(
    start: u64,
    length: u64,
    layout: &[u8; Image::LAYOUT_BYTES],
) -> Result<[MaybeUninit<u8>; IMAGE_BYTES]> {
    Image::new(layout, null_mut(), length).map_err(|error| invalid(error.to_string()))?;
    let mut bytes = [MaybeUninit::new(0); IMAGE_BYTES];
    let all = start
        .to_le_bytes()
        .into_iter()
        .chain(layout.iter().copied());
    for (to, byte) in bytes.iter_mut().zip(all) {
        to.write(byte);
    }
    Ok(bytes)
}

#[cold]
fn invalid(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "launch a kernel",
        problem,
    }
    .into()
}

//! From what a launch passes to a kernel's arguments and a call; and what its fault record says.

use super::Compiled;
use crate::device::Device;
use crate::memory::Allocation;
use crate::native::{CallError, Stream, named};
use crate::staging::Record;
use cudarc::driver::sys::{self, CUfunction};
use quipu_core::access::Argument;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::{Error, Passed, PassedParameter};
use quipu_kernel_ir::print::EntryKind;
use quipu_kernel_ir::{IndexWidth, Module, SharedLength};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

/// A kernel's fault record, which it writes where the host sees it.
#[derive(Debug)]
pub(crate) struct FaultRead {
    compiled: Arc<Compiled>,
    record: Record,
}

impl FaultRead {
    /// What the record says, once the kernel is over.
    pub(crate) fn outcome(self, kernel: &str) -> Result<()> {
        match self.compiled.printed.fault(&self.record.words()) {
            None => Ok(()),
            Some(fault) => Err(ErrorKind::Kernel {
                what: format!("kernel '{kernel}'"),
                message: fault.to_string(),
            }
            .into()),
        }
    }
}

/// What goes wrong with a launch.
#[derive(Debug)]
pub(crate) enum Refusal {
    Call(CallError),
    Error(Error),
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Numbers from here on need wide indices.
const NARROW: u64 = 1 << 31;

/// The width of indices that a launch needs.
pub(crate) fn width_of(arguments: &[Argument], passed: &Passed) -> IndexWidth {
    let mut memories = arguments.iter();
    let narrow = |number: Option<u64>| number.is_some_and(|number| number < NARROW);
    let parameters = passed.parameters.iter().all(|parameter| match parameter {
        PassedParameter::Value(_) => true,
        PassedParameter::Memory { element, shape } => {
            let bytes = memories.next().map_or(0, |argument| argument.length());
            narrow(Some(bytes / (*element).max(1)))
                && shape.as_deref().is_none_or(|(extents, strides)| {
                    let both = extents.iter().zip(strides);
                    both.into_iter()
                        .all(|(extent, stride)| narrow(extent.checked_mul(*stride)))
                })
        }
    });
    let grid = (0..passed.blocks.len()).all(|dimension| {
        let all = passed.blocks[dimension]
            .checked_mul(passed.threads[dimension])
            .and_then(|threads| threads.checked_mul(passed.elements[dimension]));
        narrow(all)
    });
    if parameters && grid && passed.shared.iter().all(|length| *length < NARROW) {
        IndexWidth::Bits32
    } else {
        IndexWidth::Bits64
    }
}

/// An extent along the hardware's axes: the last dimension, the last but one, all others.
fn axes(extent: &[u64]) -> [u64; 3] {
    let from_last = |d: usize| extent.len().checked_sub(d + 1).map_or(1, |at| extent[at]);
    let others = extent.len().saturating_sub(2);
    [
        from_last(0),
        from_last(1),
        extent[..others].iter().product(),
    ]
}

/// The most blocks along an axis that a call launches; kernels loop over the rest.
const MOST_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// A kernel's arguments: their bytes one after the other, each where any type could be.
#[derive(Default)]
struct Values {
    bytes: Vec<MaybeUninit<u128>>,
    starts: Vec<usize>,
}

impl Values {
    fn push(&mut self, bytes: &[MaybeUninit<u8>]) {
        let start = self.bytes.len();
        self.starts.push(start);
        let words = bytes.len().div_ceil(size_of::<u128>());
        self.bytes.resize(start + words, MaybeUninit::uninit());
        // SAFETY: as many words as the bytes take were just added.
        unsafe {
            let to = self.bytes.as_mut_ptr().add(start).cast::<MaybeUninit<u8>>();
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Where each is.
    fn pointers(&mut self) -> Vec<*mut c_void> {
        let first = self.bytes.as_mut_ptr();
        let place = |start: &usize| {
            // SAFETY: within the bytes, or at their end if it has none.
            unsafe { first.add(*start).cast() }
        };
        self.starts.iter().map(place).collect()
    }
}

/// What a launch is made with.
pub(crate) struct Launch<'a> {
    pub(crate) device: &'a Device,
    pub(crate) stream: &'a Stream,
    pub(crate) compiled: &'a Arc<Compiled>,
    pub(crate) passed: &'a Passed,
    /// The command's accesses, with their memory on the device, in order.
    pub(crate) memories: Vec<(&'a Argument, &'a Allocation)>,
}

impl Launch<'_> {
    /// Puts it into the stream.
    pub(crate) fn put(self, record: Record) -> std::result::Result<FaultRead, Refusal> {
        let module = self.compiled.module().ok_or_else(|| mismatch("its code"))?;
        let printed = &self.compiled.printed;
        let arrays = printed.shared.iter().zip(&self.passed.shared);
        let lengths: Vec<u64> = arrays
            .filter(|(array, _)| array.length == SharedLength::Launch)
            .map(|(_, length)| *length)
            .collect();
        let (starts, dynamic) = printed.dynamic_shared(&lengths);
        self.check_shared(dynamic)?;
        let threads = axes(&self.passed.threads);
        self.check_threads(threads)?;
        let mut values = self.values(module, &starts, record.address())?;
        let blocks = axes(&self.passed.blocks);
        let grid: [u32; 3] = std::array::from_fn(|axis| blocks[axis].min(MOST_BLOCKS[axis]) as u32);
        let threads = threads.map(|threads| threads as u32);
        let mut pointers = values.pointers();
        let function: CUfunction = self.compiled.function();
        // SAFETY: as many arguments as the function takes, of the sizes that it was printed with, which the call copies.
        // Their memory is the command's until it is over.
        let code = unsafe {
            sys::cuLaunchKernel(
                function,
                grid[0],
                grid[1],
                grid[2],
                threads[0],
                threads[1],
                threads[2],
                dynamic as u32,
                self.stream.raw(),
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        named("cuLaunchKernel", code)?;
        Ok(FaultRead {
            compiled: self.compiled.clone(),
            record,
        })
    }

    fn check_shared(&self, dynamic: u64) -> Result<()> {
        let asked = self.compiled.shared.saturating_add(dynamic);
        let there = self.device.properties.shared_memory_per_block;
        if asked <= there {
            return Ok(());
        }
        Err(ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: format!(
                "its blocks share {asked} bytes, and device '{}' has {there} for each; use smaller blocks",
                self.device.name()
            ),
        }
        .into())
    }

    fn check_threads(&self, threads: [u64; 3]) -> Result<()> {
        let asked = threads
            .iter()
            .fold(1, |all: u64, one| all.saturating_mul(*one));
        let most = self.compiled.most_threads;
        if asked <= most {
            return Ok(());
        }
        Err(ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: format!(
                "its blocks have {asked} threads, and device '{}' takes {most} of this kernel, for the registers that it \
                 uses; use smaller blocks",
                self.device.name()
            ),
        }
        .into())
    }

    /// What is passed for each parameter of a printed kernel.
    fn values(&self, module: &Module, starts: &[u64], record: u64) -> Result<Values> {
        let printed = &self.compiled.printed;
        let width = printed.index_width;
        let index = |number: u64| bytes_of(&number.to_le_bytes()[..width.bytes() as usize]);
        // The how-manyeth of those whose length a launch gives.
        let launched = |number: u32| {
            let before = printed.shared.get(..number as usize)?;
            let is_launched = |length: SharedLength| length == SharedLength::Launch;
            is_launched(printed.shared.get(number as usize)?.length).then(|| {
                before
                    .iter()
                    .filter(|array| is_launched(array.length))
                    .count()
            })
        };
        let mut values = Values::default();
        for entry in &printed.parameters {
            let value = match entry.kind {
                EntryKind::Uniform { parameter } => match self.passed.parameters.get(parameter) {
                    Some(PassedParameter::Value(bytes)) => module.uniform(parameter, bytes, width),
                    _ => None,
                },
                EntryKind::Pointer { parameter } => self.memory(parameter).map(|memory| {
                    let address = memory.allocation.address + memory.argument.offset();
                    bytes_of(&address.to_le_bytes())
                }),
                EntryKind::Length { parameter } => {
                    self.memory(parameter).map(|memory| index(memory.length()))
                }
                EntryKind::Extent {
                    parameter,
                    dimension,
                } => self
                    .memory(parameter)
                    .and_then(|memory| memory.extent(dimension))
                    .map(index),
                EntryKind::Stride {
                    parameter,
                    dimension,
                } => self
                    .memory(parameter)
                    .and_then(|memory| memory.stride(dimension))
                    .map(index),
                EntryKind::SharedOffset { shared } => launched(shared.0)
                    .and_then(|number| starts.get(number))
                    .map(|start| bytes_of(&(*start as u32).to_le_bytes())),
                EntryKind::SharedLength { shared } => {
                    let length = self.passed.shared.get(shared.0 as usize);
                    length.map(|length| index(*length))
                }
                EntryKind::Launch => {
                    let division = [
                        &self.passed.blocks,
                        &self.passed.threads,
                        &self.passed.elements,
                    ];
                    let numbers = division.into_iter().flatten();
                    Some(numbers.flat_map(|number| index(*number)).collect())
                }
                EntryKind::Fault => Some(bytes_of(&record.to_le_bytes())),
                // OpenCL C's.
                EntryKind::Start { .. } | EntryKind::SharedPointer { .. } => None,
            };
            let fits = |value: &Vec<MaybeUninit<u8>>| value.len() as u64 == entry.size;
            let value = value.filter(fits).ok_or_else(|| mismatch(&entry.name))?;
            values.push(&value);
        }
        Ok(values)
    }

    /// What is passed for a parameter that is memory.
    fn memory(&self, parameter: usize) -> Option<Passing<'_>> {
        let before = self.passed.parameters.get(..parameter)?;
        let is_memory =
            |passed: &&PassedParameter| matches!(passed, PassedParameter::Memory { .. });
        let number = before.iter().filter(is_memory).count();
        let PassedParameter::Memory { element, shape } = self.passed.parameters.get(parameter)?
        else {
            return None;
        };
        let (argument, allocation) = self.memories.get(number)?;
        Some(Passing {
            argument,
            allocation,
            element: (*element).max(1),
            shape: shape.as_deref(),
        })
    }
}

fn bytes_of(bytes: &[u8]) -> Vec<MaybeUninit<u8>> {
    bytes.iter().map(|byte| MaybeUninit::new(*byte)).collect()
}

/// What is passed for a parameter that is memory.
struct Passing<'a> {
    argument: &'a Argument,
    allocation: &'a Allocation,
    element: u64,
    shape: Option<&'a (quipu_core::portable::Extents, quipu_core::portable::Extents)>,
}

impl Passing<'_> {
    fn length(&self) -> u64 {
        self.argument.length() / self.element
    }

    fn extent(&self, dimension: usize) -> Option<u64> {
        match self.shape {
            Some((extents, _)) => extents.get(dimension).copied(),
            None => (dimension == 0).then(|| self.length()),
        }
    }

    fn stride(&self, dimension: usize) -> Option<u64> {
        match self.shape {
            Some((_, strides)) => strides.get(dimension).copied(),
            None => (dimension == 0).then_some(1),
        }
    }
}

/// What is passed is not what the kernel takes.
fn mismatch(parameter: &str) -> Error {
    ErrorKind::InvalidArgument {
        what: "launch a kernel",
        problem: format!(
            "what is passed for '{parameter}' is not what the kernel was printed for; this is an error of the front end"
        ),
    }
    .into()
}

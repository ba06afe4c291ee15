//! Launches: from the passed values to a kernel's arguments and the call; and the fault records.

use super::Compiled;
use crate::device::{Device, Live};
use crate::grid_barrier::GridBarrier;
use crate::native::{CallError, Called, Stream, named};
use crate::staging::Record;
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdeviceptr, CUfunction, CUgraph, CUgraphNode,
};
use quipu_device_queue::launch::{Passing, Value, ValueBytes, axes, check_shared, mismatch};
use quipu_device_queue::{Obstacle, VendorDevice, error};
use quipu_kernel_ir::{Module, SharedLength};
use quipu_scheduler::Passed;
use quipu_scheduler::access::PackedAccess;
use quipu_scheduler::error::{ErrorKind, Result};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

/// The memory that a launch has to itself until it is over.
#[derive(Debug, Default)]
pub(crate) struct OwnMemory {
    /// The fault record; none if the kernel cannot fail.
    record: Option<Record>,
    /// The words of barriers of the grid, if the kernel has any.
    grid_barrier: Option<GridBarrier>,
}

impl OwnMemory {
    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.record.is_none() && self.grid_barrier.is_none()
    }
}

/// A kernel's fault record, which it writes where the host sees it.
#[derive(Debug)]
pub(crate) struct FaultRead {
    /// Loaded until the kernel is over.
    compiled: Arc<Compiled>,
    /// The launch's memory, with the record.
    own: OwnMemory,
}

impl FaultRead {
    /// True if the record says anything, once the kernel is over.
    pub(crate) fn is_written(&self) -> bool {
        let record = self.own.record.as_ref();
        record.is_some_and(|record| self.compiled.printed.fault(&record.words()).is_some())
    }

    /// Empties the record, for the kernel to run again.
    pub(crate) fn clear(&self) {
        if let Some(record) = &self.own.record {
            record.clear();
        }
    }

    /// The result in the record, once the kernel is over.
    pub(crate) fn outcome(&self, kernel: &str) -> Result<()> {
        let words = self.own.record.as_ref().map(Record::words);
        match words.and_then(|words| self.compiled.printed.fault(&words)) {
            None => Ok(()),
            Some(fault) => Err(error::fault(kernel, fault.to_string())),
        }
    }
}

/// The most blocks along an axis that a call launches; kernels loop over the rest.
pub(super) const MOST_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// A kernel's arguments: their bytes one after the other, each where any type could be.
#[derive(Default)]
pub(crate) struct Values {
    bytes: SmallVec<[MaybeUninit<u128>; INLINE]>,
    starts: SmallVec<[usize; INLINE]>,
}

/// Kernels of so many parameters are launched without an allocation.
const INLINE: usize = 16;

impl Values {
    pub(crate) fn push(&mut self, bytes: &[MaybeUninit<u8>]) {
        let start = self.bytes.len();
        self.starts.push(start);
        let words = bytes.len().div_ceil(size_of::<u128>());
        self.bytes.reserve(words);
        // SAFETY: there is room for so many words, which need not be initialised, and hold so many
        // bytes.
        unsafe {
            self.bytes.set_len(start + words);
            let to = self.bytes.as_mut_ptr().add(start);
            to.cast::<MaybeUninit<u8>>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// The address of each.
    fn pointers(&mut self) -> SmallVec<[*mut c_void; INLINE]> {
        let first = self.bytes.as_mut_ptr();
        let place = |start: &usize| {
            // SAFETY: within the bytes, or at their end if it has none.
            unsafe { first.add(*start).cast() }
        };
        self.starts.iter().map(place).collect()
    }
}

/// The parts of a launch.
pub(crate) struct Launch<'a> {
    pub(crate) device: &'a Device,
    pub(crate) compiled: &'a Arc<Compiled>,
    pub(crate) passed: &'a Passed,
    /// The command's accesses, in order.
    pub(crate) arguments: &'a [PackedAccess],
    /// The start of their memory on the device.
    pub(crate) memories: SmallVec<[CUdeviceptr; 4]>,
}

/// A launch as CUDA takes it, but for its arguments.
pub(crate) struct Call {
    pub(super) function: CUfunction,
    pub(super) grid: [u32; 3],
    pub(super) threads: [u32; 3],
    /// Bytes that its blocks share, of those that a launch asks for.
    pub(super) shared: u32,
    /// All blocks run at once, as they wait for each other.
    pub(super) together: bool,
}

impl Call {
    /// Of a single thread.
    pub(crate) fn single(function: CUfunction) -> Self {
        Self {
            function,
            grid: [1; 3],
            threads: [1; 3],
            shared: 0,
            together: false,
        }
    }

    /// Puts it into a stream.
    fn put(self, values: &mut Values, stream: &Stream) -> Called<()> {
        let mut pointers = values.pointers();
        if self.together {
            // SAFETY: as many arguments as the function takes, of the sizes that it was printed
            // with, which the call copies. Their memory is the command's until it is over.
            let code = unsafe {
                sys::cuLaunchCooperativeKernel(
                    self.function,
                    self.grid[0],
                    self.grid[1],
                    self.grid[2],
                    self.threads[0],
                    self.threads[1],
                    self.threads[2],
                    self.shared,
                    stream.raw(),
                    pointers.as_mut_ptr(),
                )
            };
            return named("cuLaunchCooperativeKernel", code);
        }
        // SAFETY: as many arguments as the function takes, of the sizes that it was printed with,
        // and memory of the command.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.function,
                self.grid[0],
                self.grid[1],
                self.grid[2],
                self.threads[0],
                self.threads[1],
                self.threads[2],
                self.shared,
                stream.raw(),
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        named("cuLaunchKernel", code)
    }

    /// Adds it to a graph, in this context, after these nodes.
    pub(crate) fn add(
        self,
        values: &mut Values,
        graph: CUgraph,
        context: CUcontext,
        after: &[CUgraphNode],
    ) -> Called<CUgraphNode> {
        let mut pointers = values.pointers();
        let parameters = CUDA_KERNEL_NODE_PARAMS {
            func: self.function,
            gridDimX: self.grid[0],
            gridDimY: self.grid[1],
            gridDimZ: self.grid[2],
            blockDimX: self.threads[0],
            blockDimY: self.threads[1],
            blockDimZ: self.threads[2],
            sharedMemBytes: self.shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: context,
        };
        let mut node = null_mut();
        // SAFETY: as many arguments as the function takes, of the sizes that it was printed with,
        // which the call copies; the nodes are the graph's.
        let code = unsafe {
            sys::cuGraphAddKernelNode_v2(
                &raw mut node,
                graph,
                after.as_ptr(),
                after.len(),
                &raw const parameters,
            )
        };
        named("cuGraphAddKernelNode", code)?;
        if self.together {
            let which = sys::CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            let value = sys::CUkernelNodeAttrValue { cooperative: 1 };
            // SAFETY: a node of the graph's, and the value of this attribute.
            let code = unsafe { sys::cuGraphKernelNodeSetAttribute(node, which, &raw const value) };
            named("cuGraphKernelNodeSetAttribute", code)?;
        }
        Ok(node)
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl Launch<'_> {
    /// Puts it into a stream.
    pub(crate) fn put(
        self,
        live: &Live,
        stream: &Stream,
    ) -> std::result::Result<FaultRead, Obstacle<CallError>> {
        let own = self.own_memory(live)?;
        let mut values = Values::default();
        self.call(&own, &mut values)?.put(&mut values, stream)?;
        if self.compiled.prints {
            // CUDA writes out what kernels have printed before it calls a function of the host.
            // SAFETY: the function calls nothing, and takes no argument.
            unsafe { stream.call(nothing, null_mut()) }?;
        }
        Ok(self.fault(own))
    }

    /// The memory that it needs beside its arguments.
    pub(crate) fn own_memory(&self, live: &Live) -> Called<OwnMemory> {
        let printed = &self.compiled.printed;
        let can_fail = !printed.sites.is_empty();
        let grid_barrier = || live.grid_barriers.take(live);
        Ok(OwnMemory {
            record: can_fail.then(|| live.staging.record()).transpose()?,
            grid_barrier: printed.grid_barriers.then(grid_barrier).transpose()?,
        })
    }

    /// Its fault record, once it is where it will run.
    pub(crate) fn fault(&self, own: OwnMemory) -> FaultRead {
        FaultRead {
            compiled: self.compiled.clone(),
            own,
        }
    }

    /// As CUDA takes it, with the memory of its own; gathers its arguments in `values`, which is
    /// empty.
    pub(crate) fn call(&self, own: &OwnMemory, values: &mut Values) -> Result<Call> {
        if let Some(kinds) = &self.compiled.text {
            return self.call_of_text(kinds, values);
        }
        let module = self.compiled.module().ok_or_else(|| mismatch("its code"))?;
        let printed = &self.compiled.printed;
        let arrays = printed.shared.iter().zip(&self.passed.shared);
        let lengths: SmallVec<[u64; 4]> = arrays
            .filter(|(array, _)| array.length == SharedLength::Launch)
            .map(|(_, length)| *length)
            .collect();
        let (starts, dynamic) = printed.dynamic_shared(&lengths);
        check_shared(self.device, self.compiled.shared.saturating_add(dynamic))?;
        let threads = axes(&self.passed.threads);
        self.check_threads(threads)?;
        self.pass(module, &starts, own, values)?;
        let blocks = axes(&self.passed.blocks);
        if printed.grid_barriers {
            self.check_blocks(blocks, threads, dynamic)?;
        }
        Ok(Call {
            function: self.compiled.function(),
            grid: std::array::from_fn(|axis| blocks[axis].min(MOST_BLOCKS[axis]) as u32),
            threads: threads.map(|threads| threads as u32),
            shared: dynamic as u32,
            together: printed.grid_barriers,
        })
    }

    /// Refuses a launch of more blocks than run at once, if they wait for each other.
    fn check_blocks(&self, blocks: [u64; 3], threads: [u64; 3], shared: u64) -> Result<()> {
        let asked = blocks
            .iter()
            .fold(1, |all: u64, one| all.saturating_mul(*one));
        let threads = threads.iter().product();
        let most = self
            .compiled
            .blocks_at_once(self.device, threads, shared)
            .map_err(|error| {
                self.device
                    .failed("ask how many blocks it runs at once", &error)
            })?;
        if asked <= most {
            return Ok(());
        }
        let name = &self.compiled.printed.entry;
        Err(ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: format!(
                "the {asked} blocks of '{name}' wait for each other at a barrier of the grid, and device '{}' runs at most {most} \
                 of {threads} threads at once; launch fewer blocks, with more elements for each thread",
                self.device.name()
            ),
        }
        .into())
    }

    pub(super) fn check_threads(&self, threads: [u64; 3]) -> Result<()> {
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

    /// Gathers the value of each parameter of a printed kernel.
    fn pass(
        &self,
        module: &Module,
        starts: &[u64],
        own: &OwnMemory,
        values: &mut Values,
    ) -> Result<()> {
        let printed = &self.compiled.printed;
        let passing = Passing {
            module,
            printed,
            passed: self.passed,
            arguments: self.arguments,
        };
        for (value, entry) in passing.values().zip(&printed.parameters) {
            let number = match value? {
                Value::Bytes(bytes) => {
                    values.push(bytes);
                    continue;
                }
                Value::Division => {
                    let division = passing.division().into_iter();
                    values.push(&division.map(MaybeUninit::new).collect::<ValueBytes>());
                    continue;
                }
                Value::Number(number) => Some(number),
                Value::Memory(number) => {
                    let memory = self.memories.get(number).zip(self.arguments.get(number));
                    memory.map(|(start, argument)| start + argument.offset())
                }
                Value::SharedStart(number) => starts.get(number).copied(),
                Value::Fault => own.record.as_ref().map(Record::address),
                Value::GridBarrier => own.grid_barrier.as_ref().map(GridBarrier::address),
                // OpenCL C's.
                Value::Shared(_) => None,
            };
            let bytes = number.ok_or_else(|| mismatch(&entry.name))?.to_le_bytes();
            let bytes = bytes.map(MaybeUninit::new);
            let bytes = bytes.get(..entry.size as usize);
            values.push(bytes.ok_or_else(|| mismatch(&entry.name))?);
        }
        Ok(())
    }
}

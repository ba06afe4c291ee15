//! Marks: numbers in pinned memory. A device sets a mark when it has done the commands before it.
//! The host reads the mark, and calls the library only if the mark is not set.
//!
//! In a [batch](crate::graph::Batch) a kernel of one thread sets the mark. That is faster than an
//! event or a stream's write, and a graph that is one line stays one: CUDA takes far longer to make
//! a graph that has marks beside the line.
//!
//! The kernel that sets a mark has no fence, for speed. It needs none: a kernel that
//! [writes](quipu_kernel_ir::print) a fault record has a fence of its own. Other streams see a
//! kernel's writes when its node of the graph ends, which is before the mark's node begins. The
//! host need not see then what was written to its own memory: so no mark is set after a kernel that
//! uses such memory (`Planned::is_told`).

use crate::device::Live;
use crate::native::{Called, Context, named};
use crate::program::{Call, Values};
use crate::staging::Block;
use cudarc::driver::sys::{self, CUfunction, CUgraph, CUgraphNode, CUmodule};
use quipu_scheduler::panics::quietly;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sets a mark.
const TEXT: &std::ffi::CStr = c"
.version 6.0
.target sm_50
.address_size 64
.visible .entry quipu_mark(.param .u64 place)
{
    .reg .u64 %to, %set;
    ld.param.u64 %to, [place];
    mov.u64 %set, 1;
    st.volatile.u64 [%to], %set;
    ret;
}
";

/// A number in pinned memory, which a device sets.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    block: Arc<Block>,
    number: usize,
}

impl Mark {
    /// Makes so many marks that are not set.
    pub(crate) fn several(live: &Live, count: usize) -> Called<Vec<Self>> {
        let block = Arc::new(live.staging.block((count * size_of::<u64>()) as u64)?);
        let marks = (0..count).map(|number| {
            let mark = Self {
                block: block.clone(),
                number,
            };
            mark.word().store(0, Ordering::Relaxed);
            mark
        });
        Ok(marks.collect())
    }

    fn word(&self) -> &AtomicU64 {
        let first = self.block.pointer().cast::<AtomicU64>();
        // SAFETY: within the block, which is aligned as a page is.
        unsafe { &*first.add(self.number) }
    }

    /// True if the device has come so far.
    pub(crate) fn is_set(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }
}

/// The module that sets marks.
#[derive(Debug)]
pub(crate) struct Marker {
    module: CUmodule,
    function: CUfunction,
    context: Arc<Context>,
}

// SAFETY: CUDA's objects may be used by any thread, by several at a time.
unsafe impl Send for Marker {}
// SAFETY: as above.
unsafe impl Sync for Marker {}

impl Marker {
    pub(crate) fn of(context: &Arc<Context>) -> Called<Self> {
        let _entered = context.enter()?;
        let mut marker = Self {
            module: null_mut(),
            function: null_mut(),
            context: context.clone(),
        };
        // SAFETY: PTX, which ends with a zero.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut marker.module, TEXT.as_ptr().cast()) };
        named("cuModuleLoadData", loaded)?;
        let name = c"quipu_mark";
        // SAFETY: the name ends with a zero.
        let found = unsafe {
            sys::cuModuleGetFunction(&raw mut marker.function, marker.module, name.as_ptr())
        };
        named("cuModuleGetFunction", found)?;
        Ok(marker)
    }

    /// Adds to a graph, after these of its nodes, that a mark is set, which is kept until launches
    /// of the graph are over.
    pub(crate) fn add(
        &self,
        mark: &Mark,
        graph: CUgraph,
        after: &[CUgraphNode],
    ) -> Called<CUgraphNode> {
        let place = std::ptr::from_ref(mark.word()).expose_provenance() as u64;
        let mut values = Values::default();
        values.push(&place.to_ne_bytes().map(MaybeUninit::new));
        let call = Call::single(self.function);
        call.add(&mut values, graph, self.context.raw(), after)
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        if self.module.is_null() {
            return;
        }
        let _entered = self.context.enter();
        // SAFETY: loaded once, unloaded once; the kernels that use it are over.
        let unloaded = unsafe { sys::cuModuleUnload(self.module) };
        if let Err(error) = named("cuModuleUnload", unloaded) {
            quietly(|| tracing::debug!(?error, "a module was not released"));
        }
    }
}

//! Words of barriers of the grid, in the device's memory. A launch that needs them has them to
//! itself until it is over. Each launch leaves them ready for the next one, so they are set to zero
//! once.

use crate::device::Live;
use crate::native::{CallError, Called, Context, named};
use cudarc::driver::sys::{self, CUdeviceptr, CUresult};
use quipu_scheduler::panics::quietly;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Launches whose words are allocated at a time.
const LAUNCHES: usize = 64;
/// Bytes between their words: a cache line.
const STRIDE: usize = 128;

/// The words of a device.
#[derive(Debug)]
pub(crate) struct GridBarriers {
    context: Arc<Context>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    spare: Vec<CUdeviceptr>,
    pages: Vec<CUdeviceptr>,
}

/// The words of a launch.
#[derive(Debug)]
pub(crate) struct GridBarrier {
    address: CUdeviceptr,
    of: Arc<GridBarriers>,
}

impl GridBarriers {
    pub(crate) fn of(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            places: Mutex::default(),
        })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Words that no other launch uses.
    pub(crate) fn take(self: &Arc<Self>, live: &Live) -> Called<GridBarrier> {
        let mut places = self.places();
        if places.spare.is_empty() {
            let page = self.page(live)?;
            places.pages.push(page);
            let starts = (0..LAUNCHES).map(|number| page + (number * STRIDE) as u64);
            places.spare.extend(starts);
        }
        let address = places.spare.pop().ok_or(CallError {
            call: "cuMemAlloc",
            code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        })?;
        Ok(GridBarrier {
            address,
            of: self.clone(),
        })
    }

    /// Allocates words for some launches, all zero.
    fn page(&self, live: &Live) -> Called<CUdeviceptr> {
        let _entered = self.context.enter()?;
        let (bytes, mut page) = (LAUNCHES * STRIDE, 0);
        // SAFETY: the context is current.
        named("cuMemAlloc", unsafe {
            sys::cuMemAlloc_v2(&raw mut page, bytes)
        })?;
        let zeroed = live.with_stream(|stream| {
            // SAFETY: so many bytes were allocated.
            let code = unsafe { sys::cuMemsetD8Async(page, 0, bytes, stream.raw()) };
            named("cuMemsetD8Async", code)?;
            stream.synchronize()
        });
        zeroed.inspect_err(|_| free(page)).map(|()| page)
    }
}

fn free(page: CUdeviceptr) {
    // SAFETY: allocated by `page`, freed once; no launch uses it.
    if let Err(error) = named("cuMemFree", unsafe { sys::cuMemFree_v2(page) }) {
        quietly(|| tracing::debug!(?error, "memory of barriers was not freed"));
    }
}

impl Drop for GridBarriers {
    fn drop(&mut self) {
        let _entered = self.context.enter();
        for page in std::mem::take(&mut self.places().pages) {
            free(page);
        }
    }
}

impl GridBarrier {
    /// The address of the first word.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for GridBarrier {
    fn drop(&mut self) {
        self.of.places().spare.push(self.address);
    }
}

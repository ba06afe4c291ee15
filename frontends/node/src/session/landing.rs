//! Bytes of the node's own between a device and the network.

use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Error, ErrorKind};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that one side writes and then the other reads: zeros, which take no memory before they are
/// written.
pub(crate) struct Landing {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its bytes; who touches them when is what its users promise.
unsafe impl Send for Landing {}
// SAFETY: as above.
unsafe impl Sync for Landing {}

impl Landing {
    /// So many bytes, at least one.
    pub(crate) fn new(length: u64) -> Result<Arc<Self>, Error> {
        let out_of_memory = || {
            Error::from(ErrorKind::OutOfMemory {
                device: "the node".to_owned(),
                asked: length,
                free: 0,
                capacity: 0,
            })
        };
        let length = usize::try_from(length).map_err(|_| out_of_memory())?;
        let layout = Layout::from_size_align(length.max(1), 16).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has a size.
        let pointer = unsafe { alloc_zeroed(layout) };
        let pointer = NonNull::new(pointer).ok_or_else(out_of_memory)?;
        Ok(Arc::new(Self { pointer, layout }))
    }

    /// These bytes as it has them.
    pub(crate) fn holding(bytes: &[u8]) -> Result<Arc<Self>, Error> {
        let landing = Self::new(bytes.len() as u64)?;
        // SAFETY: nobody else has it yet.
        unsafe { landing.write(0, bytes) };
        Ok(landing)
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// A part of it for a transfer, which keeps it.
    ///
    /// # Safety
    /// Nobody else writes that part, or reads what the transfer writes, until the transfer is over.
    pub(crate) unsafe fn part(self: &Arc<Self>, range: Range<usize>) -> HostMemory {
        assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: within the bytes, as just checked; kept by the transfer; the rest is the caller's
        // promise.
        unsafe {
            let pointer = self.pointer.add(range.start).as_ptr();
            HostMemory::new(pointer, range.len(), Some(self.clone()))
        }
    }

    /// Writes bytes.
    ///
    /// # Safety
    /// Nobody else touches them meanwhile.
    pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len()));
        // SAFETY: within the bytes, as just checked; for the rest the caller vouches.
        unsafe {
            let to = self.pointer.add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Bytes that were written.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: within the bytes, as just checked, all of which are initialised; for the rest the
        // caller vouches.
        unsafe {
            let from = self.pointer.add(range.start).as_ptr();
            std::slice::from_raw_parts(from, range.len())
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // SAFETY: allocated so, freed once.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

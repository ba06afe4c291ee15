//! Pinned memory that the host's bytes go through: blocks of a few sizes, used again and again; and
//! fault records, which kernels write only if something goes wrong, and which so need not be
//! copied.

use crate::native::{Called, Context, Pinned};
use quipu_device_queue::staging::PIECE;
use quipu_kernel_ir::print::FAULT_WORDS;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of blocks.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 256 << 10];
/// The most bytes that a command moves through one block.
pub(crate) const MOST_IN_BLOCK: u64 = 256 << 10;
/// The most bytes that a command moves through blocks on its way: more are worth waking a thread
/// for.
pub(crate) const MOST_STAGED: u64 = 1 << 20;
/// Fault records that are made at a time.
const RECORDS: usize = 64;
/// Bytes between fault records.
const RECORD: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Staging {
    context: Arc<Context>,
    /// Free blocks by size, and pieces of large copies.
    spare: Mutex<[Vec<Pinned>; SIZES.len() + 1]>,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    spare: Vec<NonNull<[u32; FAULT_WORDS]>>,
    pages: Vec<Pinned>,
}

// SAFETY: the records are in the pages, which are owned beside them.
unsafe impl Send for Records {}

/// A block in use.
#[derive(Debug)]
pub(crate) struct Block {
    memory: Option<Pinned>,
    class: usize,
    staging: Arc<Staging>,
}

/// A fault record in use: empty at first.
#[derive(Debug)]
pub(crate) struct Record {
    words: NonNull<[u32; FAULT_WORDS]>,
    staging: Arc<Staging>,
}

// SAFETY: it owns its record, as a box does.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Staging {
    pub(crate) fn of(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            spare: Mutex::default(),
            records: Mutex::default(),
        })
    }

    fn spare(&self) -> MutexGuard<'_, [Vec<Pinned>; SIZES.len() + 1]> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least so many bytes, at most [`MOST_IN_BLOCK`].
    pub(crate) fn block(self: &Arc<Self>, bytes: u64) -> Called<Block> {
        let fits = |size: &usize| bytes <= *size as u64;
        self.of_class(SIZES.iter().position(fits).unwrap_or(SIZES.len()))
    }

    /// A block of [`PIECE`] bytes.
    pub(crate) fn piece(self: &Arc<Self>) -> Called<Block> {
        self.of_class(SIZES.len())
    }

    fn of_class(self: &Arc<Self>, class: usize) -> Called<Block> {
        let known = self.spare()[class].pop();
        let size = SIZES.get(class).copied().unwrap_or(PIECE);
        let memory = match known {
            Some(known) => known,
            None => Pinned::of(&self.context, size)?,
        };
        Ok(Block {
            memory: Some(memory),
            class,
            staging: self.clone(),
        })
    }

    /// An empty fault record.
    pub(crate) fn record(self: &Arc<Self>) -> Called<Record> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.spare.is_empty() {
            let page = Pinned::of(&self.context, RECORDS * RECORD)?;
            for number in 0..RECORDS {
                // SAFETY: within the page.
                let place = unsafe { page.pointer().add(number * RECORD) };
                records.spare.extend(NonNull::new(place.cast()));
            }
            records.pages.push(page);
        }
        let words = records.spare.pop();
        let words = words.ok_or(crate::native::CallError {
            call: "cuMemHostAlloc",
            code: cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        })?;
        Ok(Record {
            words,
            staging: self.clone(),
        })
    }
}

impl Block {
    /// The first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(std::ptr::null_mut(), Pinned::pointer)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, Pinned::len)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.staging.spare()[self.class].push(memory);
        }
    }
}

impl Record {
    /// Its address, the same on the device.
    pub(crate) fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    /// Empties it, while no kernel uses it.
    pub(crate) fn clear(&self) {
        // SAFETY: nobody else uses it: the kernel is over, or its device is lost.
        unsafe { self.words.write_volatile([0; FAULT_WORDS]) };
    }

    /// Its content, once the kernel is over.
    pub(crate) fn words(&self) -> [u32; FAULT_WORDS] {
        // SAFETY: the record's words, which only the kernel writes, and that is over.
        unsafe { self.words.read_volatile() }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.clear();
        let mut records = self
            .staging
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        records.spare.push(self.words);
    }
}

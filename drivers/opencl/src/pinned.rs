//! Host memory that OpenCL has pinned. A device with memory of its own reaches it without a copy.
//! Fault records of kernels are written to it, and small reads pass through it.

use crate::OpenCl;
use crate::device::Device;
use crate::native::{Called, Event, Memory, Queue, named};
use crate::staging::Staged;
use cl3::types::CL_TRUE;
use quipu_device_queue::Vendor;
use quipu_scheduler::panics::quietly;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Pinned memory, mapped for as long as it is there.
#[derive(Debug)]
pub(crate) struct Block {
    queue: Queue,
    memory: Memory,
    start: *mut c_void,
}

// SAFETY: it is memory of the process, and each byte of it is one owner's at a time.
unsafe impl Send for Block {}
// SAFETY: as above; nothing is done through a shared block but to compute where a place is.
unsafe impl Sync for Block {}

impl Block {
    /// Pins so many bytes. They are given back in this queue, an in-order one, behind the commands
    /// that use them there; nothing else may use them by then.
    pub(crate) fn of(device: &Device, queue: &Queue, bytes: usize) -> Called<Self> {
        let memory = Memory::pinned(device.platform.context()?, bytes)?;
        let mut start = null_mut();
        let flags = cl3::memory::CL_MAP_READ | cl3::memory::CL_MAP_WRITE;
        // SAFETY: the whole of the object, which is there as long as this is; the call returns when
        // it is mapped.
        let event = unsafe {
            cl3::command_queue::enqueue_map_buffer(
                queue.raw(),
                memory.raw(),
                CL_TRUE,
                flags,
                0,
                bytes,
                &mut start,
                0,
                null(),
            )
        };
        drop(Event::new(named("clEnqueueMapBuffer", event)?));
        let queue = queue.clone();
        Ok(Self {
            queue,
            memory,
            start,
        })
    }

    /// The address of its first byte.
    pub(crate) fn start(&self) -> *mut c_void {
        self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: mapped there, and nothing uses it any more: every copy waits for its end.
        let unmapped = unsafe {
            let (memory, start) = (self.memory.raw(), self.start);
            cl3::command_queue::enqueue_unmap_mem_object(self.queue.raw(), memory, start, 0, null())
        };
        let unmapped = named("clEnqueueUnmapMemObject", unmapped).map(Event::new);
        if let Err(error) = unmapped.and_then(|_| self.queue.finish()) {
            quietly(|| tracing::debug!(?error, "pinned memory was not unmapped"));
        }
    }
}

/// Places of a device in pinned memory, once they were made.
#[derive(Debug)]
pub(crate) struct Places {
    /// The number of pieces, and the bytes of each.
    size: (usize, usize),
    /// A thread makes them, or has made them.
    begun: AtomicBool,
    /// The pool; none if no memory could be pinned.
    pool: OnceLock<Option<Arc<Pool>>>,
}

#[derive(Debug)]
struct Pool {
    block: Block,
    /// Bytes of a place.
    bytes: usize,
    /// The numbers of those that nobody has.
    free: Mutex<Vec<usize>>,
}

impl Pool {
    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of the place of a record: as many as processors and devices write at once.
const RECORD: usize = 128;

/// A place on the host for a few bytes.
#[derive(Debug)]
pub(crate) enum Place<const WORDS: usize> {
    /// In pinned memory.
    Pinned(Pinned),
    /// In any.
    Own(Box<[u32; WORDS]>),
}

/// A place in pinned memory. Nothing is on its way there when this goes.
#[derive(Debug)]
pub(crate) struct Pinned {
    pool: Arc<Pool>,
    number: usize,
}

impl Pinned {
    fn start(&self) -> *mut u8 {
        // SAFETY: the block has so many places.
        unsafe {
            let start = self.pool.block.start().cast::<u8>();
            start.add(self.number * self.pool.bytes)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.pool.free().push(self.number);
    }
}

impl<const WORDS: usize> Place<WORDS> {
    const FITS: () = assert!(WORDS * size_of::<u32>() <= RECORD);

    /// One of these places, if there is one.
    pub(crate) fn of(places: &Places) -> Self {
        const { Self::FITS };
        match places.take() {
            Some(pinned) => Self::Pinned(pinned),
            None => Self::Own(Box::new([0; WORDS])),
        }
    }

    /// The address of its first byte.
    pub(crate) fn start(&mut self) -> *mut c_void {
        match self {
            Self::Pinned(pinned) => pinned.start().cast(),
            Self::Own(words) => words.as_mut_ptr().cast(),
        }
    }

    /// The words there, when none of them is on its way any more.
    pub(crate) fn words(&self) -> [u32; WORDS] {
        match self {
            // SAFETY: so many are there, of memory that OpenCL has aligned for any type, at a
            // multiple of their size; nobody else has this place, and nothing writes it now.
            Self::Pinned(pinned) => unsafe { pinned.start().cast::<[u32; WORDS]>().read() },
            Self::Own(words) => **words,
        }
    }
}

/// Bytes of the device's that come to the host by a place there.
#[derive(Debug)]
pub(crate) struct Landing {
    place: LandingPlace,
    to: *mut u8,
    length: usize,
}

#[derive(Debug)]
enum LandingPlace {
    Pinned(Pinned),
    Own(Vec<u8>),
}

// SAFETY: where they are to be is the command's, whoever ends it.
unsafe impl Send for Landing {}
// SAFETY: nothing is done through a shared one.
unsafe impl Sync for Landing {}

impl Landing {
    /// The most bytes of one.
    pub(crate) const MOST: usize = 256 << 10;

    /// A landing of so many bytes, no more than [`Landing::MOST`], in one of these places if there
    /// is one.
    pub(crate) fn of(places: &Places, to: *mut u8, length: usize) -> Self {
        let place = match places.take() {
            Some(pinned) => LandingPlace::Pinned(pinned),
            None => LandingPlace::Own(vec![0; length]),
        };
        Self { place, to, length }
    }

    /// The address to which the device brings them.
    pub(crate) fn start(&mut self) -> *mut u8 {
        match &mut self.place {
            LandingPlace::Pinned(pinned) => pinned.start(),
            LandingPlace::Own(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// Brings them to their destination.
    ///
    /// # Safety
    /// They have come, and nobody else uses so many bytes there.
    pub(crate) unsafe fn land(mut self) {
        let (from, to) = (self.start(), self.to);
        // SAFETY: so many on both sides, by the contract.
        unsafe { to.copy_from_nonoverlapping(from, self.length) };
    }
}

impl Places {
    /// Places for records of faults: one for each command that the device is given at once, of the
    /// size that processors and devices write at once.
    pub(crate) fn of_records() -> Self {
        Self::new(OpenCl::CREDIT, RECORD)
    }

    /// Places for reads. If more are on their way at once, the rest comes to any memory.
    pub(crate) fn of_landings() -> Self {
        Self::new(32, Landing::MOST)
    }

    fn new(count: usize, bytes: usize) -> Self {
        Self {
            size: (count, bytes),
            begun: AtomicBool::new(false),
            pool: OnceLock::new(),
        }
    }

    /// True if there are any; none if nobody has made them yet.
    pub(crate) fn are_there(&self) -> Option<bool> {
        self.pool.get().map(Option::is_some)
    }

    /// Makes them, on a device with memory of its own, unless there are any. That may wait for
    /// commands on the device, so it is not done while one is put there.
    pub(crate) fn make(&self, device: &Device) {
        if device.staged == Staged::Nothing {
            return;
        }
        self.begun.store(true, Ordering::Relaxed);
        let (count, bytes) = self.size;
        let made = || {
            let block = Block::of(device, &device.own_queue()?, count * bytes)?;
            let free = Mutex::new((0..count).collect());
            Called::Ok(Arc::new(Pool { block, bytes, free }))
        };
        let mut refused = None;
        self.pool
            .get_or_init(|| made().map_err(|error| refused = Some(error)).ok());
        if let Some(error) = refused {
            quietly(|| tracing::debug!(?error, "no memory was pinned"));
        }
    }

    /// The same, unless another thread is at it, which is not waited for.
    pub(crate) fn make_alone(&self, device: &Device) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            self.make(device);
        }
    }

    fn take(&self) -> Option<Pinned> {
        let pool = self.pool.get()?.as_ref()?;
        let number = pool.free().pop()?;
        let pool = pool.clone();
        Some(Pinned { pool, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::any;
    use std::collections::HashSet;

    #[test]
    fn what_is_read_comes_to_places_and_where_there_are_none_to_others() {
        let Some(mut device) = any("memory that OpenCL pins") else {
            return;
        };
        device.staged = Staged::All;
        assert_eq!(device.landings.are_there(), None);
        device.landings.make(&device);
        assert_eq!(device.landings.are_there(), Some(true));
        let count = device.landings.size.0;
        let mut back = vec![[0_u8; 3]; count + 1];
        let mut landings: Vec<_> = back
            .iter_mut()
            .map(|back| Landing::of(&device.landings, back.as_mut_ptr(), 3))
            .collect();
        let is_pinned = |landing: &Landing| matches!(landing.place, LandingPlace::Pinned(_));
        assert!(landings[..count].iter().all(is_pinned) && !is_pinned(&landings[count]));
        for (number, landing) in (0..).zip(&mut landings) {
            // SAFETY: each has so many bytes of its own.
            unsafe { landing.start().cast::<[u8; 3]>().write([number, 1, 2]) };
        }
        for landing in landings {
            // SAFETY: their destination is there, and nobody else's.
            unsafe { landing.land() };
        }
        let expected: Vec<_> = (0..=count).map(|number| [number as u8, 1, 2]).collect();
        assert_eq!(back, expected);
        assert!(is_pinned(&Landing::of(
            &device.landings,
            back[0].as_mut_ptr(),
            3
        )));
    }

    #[test]
    fn places_are_pinned_and_had_again() {
        let Some(mut device) = any("memory that OpenCL pins") else {
            return;
        };
        let place = |device: &Device| Place::<8>::of(&device.places);
        let is_pinned = |place: &Place<8>| matches!(place, Place::Pinned(_));
        device.staged = Staged::Nothing;
        device.places.make(&device);
        assert!(!is_pinned(&place(&device)), "its memory is the host's");
        device.staged = Staged::All;
        device.places.make(&device);
        let mut all: Vec<_> = (0..OpenCl::CREDIT).map(|_| place(&device)).collect();
        assert!(all.iter().all(is_pinned));
        let starts: HashSet<_> = all.iter_mut().map(Place::start).collect();
        assert_eq!(starts.len(), OpenCl::CREDIT);
        let mut other = place(&device);
        assert!(!is_pinned(&other), "there are no more");
        let given_back = all.swap_remove(7);
        drop(given_back);
        all.push(place(&device));
        assert!(all.iter().all(is_pinned));
        all.push(std::mem::replace(&mut other, place(&device)));
        for (number, place) in (0..).zip(&mut all) {
            // SAFETY: each has so many words of its own.
            unsafe { place.start().cast::<[u32; 8]>().write([number; 8]) };
        }
        for (number, place) in (0..).zip(&all) {
            assert_eq!(place.words(), [number; 8]);
        }
    }
}

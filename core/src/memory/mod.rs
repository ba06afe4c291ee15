//! Memory objects: the core's part of buffers.
//!
//! A memory object has at most one allocation per memory space, made when a command that needs it
//! is handed over, and zeroed. For each range of bytes the tracker knows the spaces with a valid
//! copy, and the commands that use it.
//!
//! Lifetime: handles ([`MemoryRef`]) are counted; commands are not handles. When the last handle
//! goes, the object is freed by a command that waits for all its users. So a running command's
//! memory never goes away, and a command pays nothing per argument to keep it.

pub(crate) mod access;
pub(crate) mod eviction;
#[cfg(all(test, unix, not(miri)))]
mod forked_tests;
mod handle;
pub mod mapping;
pub(crate) mod owner;
pub mod pinned;
pub(crate) mod space;
pub(crate) mod space_id;
pub(crate) mod tracker;

pub use handle::MemoryRef;
pub(crate) use handle::Unused;
pub use space_id::SpaceId;

use crate::access::MAX_MEMORY_BYTES;
use crate::bias::Bias;
use crate::command::EventId;
use crate::error::{BufferName, Error, ErrorKind, Foreign, Result, Unit};
use crate::panics::quietly;
use crate::queue::place::Head;
use crate::sync::{Backoff, lock};
use owner::{Failures, Owner};
use space::Allocator;
use std::any::Any;
use std::ops::{Deref, Range};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use tracker::{Poisoned, Tracker};

/// Bytes that hold a content size: a little-endian number.
pub(crate) const CONTENT_SIZE_BYTES: u64 = 8;

/// The bit in [`Memory::unusual`] of an object with a content size.
const HAS_CONTENT_SIZE: u32 = 1;
/// The bit in [`Memory::unusual`] of an object whose host memory devices use where it is, if they
/// can.
const IS_IN_PLACE: u32 = 2;
/// One mapping, in [`Memory::unusual`].
const ONE_MAPPING: u32 = 4;

/// An allocation in a device's space: the driver's own address for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The driver's address or handle.
    pub address: u64,
    /// Bytes of the space that it takes: none, if it is the host's memory.
    pub size: u64,
}

/// A live mapping of a byte range to the host.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    id: u64,
    range: Range<u64>,
    label: String,
}

/// Cold facts of a memory object.
#[derive(Default)]
struct Cold {
    allocations: Vec<Placed>,
    /// Allocations that had to make room while nothing was at work on them: the bytes
    /// that the next command finds there.
    swapped: Vec<(SpaceId, Box<[u8]>)>,
    /// Spaces between whose allocation and the host bytes are on their way.
    moving: Vec<SpaceId>,
    label: Option<String>,
    /// Bytes of the unit in which a user counts the object; zero, or one, if that is bytes.
    element: u64,
    /// The size and the start of the host allocation, if it is the object's own to free.
    owned_host: Option<(usize, usize)>,
    /// Keeps memory alive that the user brought.
    keep: Option<Box<dyn Any + Send + Sync>>,
    content_size: Option<MemoryRef>,
}

impl Cold {
    fn allocation(&self, space: SpaceId) -> Option<Allocation> {
        Some(self.placed(space)?.allocation)
    }

    fn placed(&self, space: SpaceId) -> Option<&Placed> {
        self.allocations.iter().find(|placed| placed.space == space)
    }
}

/// An object's allocation in a device's space, and the driver of that. A driver ends after all
/// allocations there are freed, even if the user keeps a buffer for longer than everything else.
#[derive(Clone)]
struct Placed {
    space: SpaceId,
    allocation: Allocation,
    driver: Arc<dyn Allocator>,
    /// The driver's for the space.
    key: u32,
}

impl Placed {
    /// True if it is the host's memory, which a device uses in place.
    fn is_of_host(&self) -> bool {
        self.allocation.size == 0
    }

    /// # Safety
    /// It was taken out of [`Cold::allocations`], or never was there. No clone of it is used
    /// afterwards, and no command uses it.
    unsafe fn free(&self) {
        let Allocation { address, size } = self.allocation;
        // SAFETY: the driver allocated it (`Memory::allocate_in`); nobody finds it any more, and
        // nothing uses it.
        unsafe { self.driver.free_bytes(self.key, address, size) };
    }
}

/// A memory object. Aligned to 64 bytes, so that its address has room for an
/// access's mode.
#[repr(C, align(64))]
pub struct Memory {
    // Read by every command that runs.
    host: AtomicPtr<u8>,
    size: u64,
    context_id: u32,
    /// Facts that every enqueue has to look at, in one word: [`HAS_CONTENT_SIZE`],
    /// [`IS_IN_PLACE`], and the number of live mappings times [`ONE_MAPPING`].
    unusual: AtomicU32,
    context: Weak<dyn Owner>,
    // Written by every enqueue.
    tracked: Tracked,
    handles: AtomicU64,
    id: u64,
    cold: Mutex<Cold>,
    /// The live mappings. Nothing is locked under this lock.
    mappings: Mutex<Vec<Mapping>>,
    /// Told when no more bytes are on their way.
    moved: Condvar,
}

#[repr(align(64))]
struct Tracked {
    /// The bias to the one thread that locks it, as long as there is one.
    bias: Bias,
    /// True if one of several threads has locked it; never while it has an owner.
    locked: AtomicBool,
    tracker: std::cell::UnsafeCell<Tracker>,
}

impl Tracked {
    /// Locks it, unless another thread has; for one of several threads.
    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

// SAFETY: the tracker is reached only under its lock; the rest is atomic,
// locked or immutable. Memory the user brought is `Send + Sync`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory {} ({} bytes)", self.id, self.size)
    }
}

/// The locked tracker.
pub(crate) struct TrackerGuard<'a>(&'a Tracked);

impl Deref for TrackerGuard<'_> {
    type Target = Tracker;
    #[inline]
    fn deref(&self) -> &Tracker {
        // SAFETY: locked by this guard.
        unsafe { &*self.0.tracker.get() }
    }
}

impl std::ops::DerefMut for TrackerGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Tracker {
        // SAFETY: locked by this guard.
        unsafe { &mut *self.0.tracker.get() }
    }
}

impl Drop for TrackerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.locked.load(Ordering::Relaxed) {
            self.0.locked.store(false, Ordering::Release);
        } else {
            self.0.bias.exit();
        }
    }
}

impl Memory {
    /// A new object of `size` bytes in `context`.
    ///
    /// # Errors
    /// If the size is zero or over [`MAX_MEMORY_BYTES`].
    pub(crate) fn create(context: &Arc<dyn Owner>, size: u64) -> Result<MemoryRef> {
        Self::check_size(size)?;
        let tracker = Tracker::new(size);
        let object = Self::boxed(Arc::downgrade(context), context.number(), size, tracker);
        context.objects().remember(&object);
        Ok(object)
    }

    pub(crate) fn check_size(size: u64) -> Result<()> {
        crate::process::check()?;
        let problem = if size == 0 {
            "a buffer needs at least one byte".to_owned()
        } else if size > MAX_MEMORY_BYTES {
            format!("{size} bytes exceed the largest buffer, {MAX_MEMORY_BYTES} bytes; split it")
        } else {
            return Ok(());
        };
        Err(ErrorKind::InvalidSize {
            what: "create a buffer",
            problem,
        }
        .into())
    }

    fn boxed(context: Weak<dyn Owner>, context_id: u32, size: u64, tracker: Tracker) -> MemoryRef {
        let object = Box::new(Self {
            host: AtomicPtr::new(null_mut()),
            size,
            context_id,
            unusual: AtomicU32::new(0),
            context,
            tracked: Tracked {
                bias: Bias::new(),
                locked: AtomicBool::new(false),
                tracker: std::cell::UnsafeCell::new(tracker),
            },
            handles: AtomicU64::new(1),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            cold: Mutex::new(Cold::default()),
            mappings: Mutex::default(),
            moved: Condvar::new(),
        });
        MemoryRef(NonNull::from(Box::leak(object)))
    }

    /// A new object over host memory that the user brought: its host copy is
    /// that memory, valid from the start. Devices that can use it [in place](Self::space_on), if it
    /// is to be so.
    ///
    /// # Errors
    /// If the size is zero or over [`MAX_MEMORY_BYTES`].
    ///
    /// # Safety
    /// `pointer` is valid for reads and writes of `size` bytes while `keep`
    /// lives, and nobody else touches those bytes while the object or a command
    /// that uses it does. Memory that is used in place is [pinned] by `keep`, in whole pages.
    pub(crate) unsafe fn create_over(
        context: &Arc<dyn Owner>,
        (pointer, size): (NonNull<u8>, u64),
        keep: Box<dyn Any + Send + Sync>,
        is_in_place: bool,
    ) -> Result<MemoryRef> {
        Self::check_size(size)?;
        let mut tracker = Tracker::new(size);
        tracker.enter(SpaceId::HOST);
        tracker.record(
            0..size,
            crate::access::AccessMode::Overwrite,
            SpaceId::HOST,
            EventId::NONE,
            &mut Ignore,
        );
        let object = Self::boxed(Arc::downgrade(context), context.number(), size, tracker);
        object.cold().keep = Some(keep);
        object.host.store(pointer.as_ptr(), Ordering::Release);
        if is_in_place {
            object.unusual.fetch_or(IS_IN_PLACE, Ordering::Relaxed);
        }
        context.objects().remember(&object);
        Ok(object)
    }

    /// True if devices that can use host memory where it is do so with this object's.
    #[inline]
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.unusual.load(Ordering::Relaxed) & IS_IN_PLACE != 0
    }

    /// The space in which a command of a queue uses the object: the device's, or the host's if the
    /// device uses the host's memory where it is. Then nothing is ever brought there.
    #[inline]
    pub(crate) fn space_on(&self, head: &Head) -> SpaceId {
        match head.maps_host_memory && self.is_in_place() {
            true => SpaceId::HOST,
            false => head.space,
        }
    }

    #[cfg(test)]
    pub(crate) fn detached_for_tests(size: u64) -> MemoryRef {
        Self::boxed(Weak::<owner::NoOwner>::new(), 0, size, Tracker::new(size))
    }

    fn cold(&self) -> std::sync::MutexGuard<'_, Cold> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`cold`](Self::cold); none in a child of `fork` whose parent had it locked, for there it
    /// is never unlocked.
    fn cold_or_forked(&self) -> Option<std::sync::MutexGuard<'_, Cold>> {
        match crate::process::is_forked() {
            true => self.cold.try_lock().ok(),
            false => Some(self.cold()),
        }
    }

    /// Waits for the last users of an object whose context has ended: for their queues they are
    /// over, and the threads that end them are about to close their lists.
    #[cold]
    fn is_idle_soon(&self) -> bool {
        /// Far more than it takes, unless something is wrong.
        const TURNS: u32 = 1 << 22;
        (0..TURNS).any(|_| {
            std::thread::yield_now();
            self.tracker().is_idle()
        })
    }

    /// Locks the tracker. Held for nanoseconds, by threads that hold nothing
    /// else but trackers of lower addresses; to take it from its only thread takes
    /// microseconds, once.
    #[inline]
    pub(crate) fn tracker(&self) -> TrackerGuard<'_> {
        self.lock_tracker();
        TrackerGuard(&self.tracked)
    }

    /// Locks the tracker without a guard; the caller unlocks by making one.
    #[inline]
    pub(crate) fn lock_tracker(&self) {
        if !self.tracked.bias.enter() && !self.tracked.try_lock_shared() {
            self.lock_contended();
        }
    }

    /// # Safety
    /// The caller holds the lock and gives it up with the guard.
    #[inline]
    pub(crate) unsafe fn locked_tracker(&self) -> TrackerGuard<'_> {
        TrackerGuard(&self.tracked)
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let mut backoff = Backoff::default();
        loop {
            while self.tracked.locked.load(Ordering::Relaxed) {
                backoff.pause();
            }
            if self.tracked.try_lock_shared() {
                return;
            }
        }
    }

    /// The commands that use it and are not over.
    pub(crate) fn users(&self) -> Vec<EventId> {
        let mut users = Vec::new();
        self.tracker().for_each_user(|user| {
            if !user.is_finished() {
                users.push(user);
            }
        });
        users
    }

    /// Another handle, unless the last has just gone.
    pub(crate) fn handle_if_any(&self) -> Option<MemoryRef> {
        let more = |handles: u64| (handles > 0).then_some(handles + 1);
        self.handles
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(MemoryRef(NonNull::from(self)))
    }

    /// Keeps the object for good, and its bytes on the host. For a driver whose device may use them
    /// after the end of a command that is lost with the device. The command has not ended yet.
    /// Memory in place counts as mapped from now on, so that nobody else uses it.
    pub fn keep_for_good(&self) {
        if self.is_in_place() {
            self.add_mapping(Mapping {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                range: 0..self.size,
                label: "a lost device".to_owned(),
            });
        }
        loop {
            if let Some(handle) = self.handle_if_any() {
                return std::mem::forget(handle);
            }
            // A thread that has given up the last handle finds the object in use, and gives it
            // another one.
            std::thread::yield_now();
        }
    }

    /// Another handle, for a caller that has been lent one.
    pub(crate) fn handle(&self) -> MemoryRef {
        self.handles.fetch_add(1, Ordering::Relaxed);
        MemoryRef(NonNull::from(self))
    }

    /// Bytes.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A number that identifies the object in logs and traces.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn context_id(&self) -> u32 {
        self.context_id
    }

    /// Sets the label shown in errors and traces.
    pub fn set_label(&self, label: &str) {
        if let Some(mut cold) = self.cold_or_forked() {
            cold.label = Some(label.to_owned());
        }
    }

    /// Has errors count the content in elements of so many bytes.
    pub fn set_element_size(&self, bytes: u64) {
        if let Some(mut cold) = self.cold_or_forked() {
            cold.element = bytes;
        }
    }

    /// The object's name for errors.
    pub(crate) fn name(&self, argument: Option<usize>) -> BufferName {
        BufferName {
            label: self.label(),
            argument,
        }
    }

    /// Byte numbers, in elements if they are all where elements begin or end.
    fn counted<const N: usize>(element: u64, bytes: [u64; N]) -> (Unit, [u64; N]) {
        if element > 1 && bytes.iter().all(|byte| byte % element == 0) {
            return (Unit::Elements, bytes.map(|byte| byte / element));
        }
        (Unit::Bytes, bytes)
    }

    /// The label, or a name made of the id.
    #[must_use]
    pub fn label(&self) -> String {
        let label = self.cold_or_forked().and_then(|cold| cold.label.clone());
        label.unwrap_or_else(|| format!("buffer {}", self.id))
    }

    /// Names another object whose first eight bytes hold, little-endian, the number of this
    /// object's bytes that are in use. A migration from one memory space to another brings that
    /// many, with zeros for the rest. The other object lives as long as this one does, or until
    /// this is taken back.
    ///
    /// # Errors
    /// If the other object has fewer than eight bytes or belongs to another context, or its own
    /// content size is, directly or through others, in this object: each would keep the other for
    /// ever.
    pub fn set_content_size(&self, size: Option<MemoryRef>) -> Result<()> {
        crate::process::check()?;
        // Each may be the last handle to its object by now, which keeps a user's memory: dropped
        // with nothing locked.
        let mut looked_at: Vec<MemoryRef> = Vec::new();
        // Two threads must not close a circle from both ends.
        static SETTING: Mutex<()> = Mutex::new(());
        let setting = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(size) = size.as_ref().filter(|size| size.size < CONTENT_SIZE_BYTES) {
            return Err(ErrorKind::InvalidSize {
                what: "set a content size",
                problem: format!(
                    "a content size is a number of {CONTENT_SIZE_BYTES} bytes, and {} has {}",
                    size.label(),
                    size.size
                ),
            }
            .into());
        }
        if let Some(size) = size
            .as_ref()
            .filter(|size| size.context_id != self.context_id)
        {
            return Err(ErrorKind::WrongContext {
                what: "set a content size",
                object: Foreign::Buffer(size.name(None)),
            }
            .into());
        }
        let mut next = size.clone();
        while let Some(one) = next {
            if one.id == self.id {
                let problem = if size.as_ref().is_some_and(|size| size.id == self.id) {
                    format!("{} cannot hold its own content size", self.label())
                } else {
                    let holder = size.as_ref().map_or_else(String::new, |size| size.label());
                    format!(
                        "the content size of {holder}, which is to hold that of {this}, is itself \
                         in {this}, directly or through others",
                        this = self.label()
                    )
                };
                return Err(ErrorKind::InvalidArgument {
                    what: "set a content size",
                    problem: format!("{problem}; use a buffer whose own content size is not set"),
                }
                .into());
            }
            next = one.content_size();
            looked_at.push(one);
        }
        let mut cold = self.cold();
        if size.is_some() {
            self.unusual.fetch_or(HAS_CONTENT_SIZE, Ordering::Relaxed);
        } else {
            self.unusual.fetch_and(!HAS_CONTENT_SIZE, Ordering::Relaxed);
        }
        let before = std::mem::replace(&mut cold.content_size, size);
        drop(cold);
        drop(setting);
        // This may free it.
        drop(before);
        Ok(())
    }

    /// True if there is an object that holds the number of bytes in use.
    #[inline]
    #[must_use]
    pub fn has_content_size(&self) -> bool {
        self.unusual.load(Ordering::Relaxed) & HAS_CONTENT_SIZE != 0
    }

    /// The object that holds the number of bytes in use, if one is set. None in a child of `fork`
    /// whose parent was at it.
    #[must_use]
    pub fn content_size(&self) -> Option<MemoryRef> {
        self.cold_or_forked()?.content_size.clone()
    }

    /// The object's bytes in the host's space, allocated (zeroed) if need be.
    ///
    /// # Errors
    /// If the host has no memory for it; if there is none yet in a child of `fork`.
    #[inline]
    pub fn host_pointer(&self) -> Result<NonNull<u8>> {
        match NonNull::new(self.host.load(Ordering::Acquire)) {
            Some(pointer) => Ok(pointer),
            None => self.allocate_host(),
        }
    }

    #[cold]
    fn allocate_host(&self) -> Result<NonNull<u8>> {
        crate::process::check()?;
        let pointer = self.allocate_host_in(&mut self.cold())?;
        // With nothing locked: a subscriber is a user's code.
        quietly(|| {
            tracing::trace!(buffer = self.id, bytes = self.size, pointer = ?pointer, "allocated on the host");
        });
        Ok(pointer)
    }

    /// As [`Memory::host_pointer`], for a caller that has locked the cold facts.
    fn allocate_host_in(&self, cold: &mut Cold) -> Result<NonNull<u8>> {
        if let Some(pointer) = NonNull::new(self.host.load(Ordering::Acquire)) {
            return Ok(pointer);
        }
        // From calloc, which hands out untouched zero pages, and put in its
        // place by hand: an aligned zeroed allocation would touch every page.
        let (align, place) = place_of(self.id, self.size);
        let out_of_memory = || {
            Error::from(ErrorKind::OutOfMemory {
                device: "the host".to_owned(),
                asked: self.size,
                free: 0,
                capacity: 0,
            })
        };
        let bytes = usize::try_from(self.size)
            .ok()
            .and_then(|size| size.checked_add(align))
            .ok_or_else(out_of_memory)?;
        let layout = std::alloc::Layout::from_size_align(bytes, 16).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has a size.
        let raw =
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        cold.owned_host = Some((raw.as_ptr().expose_provenance(), bytes));
        let offset = place.wrapping_sub(raw.as_ptr().addr()) % align;
        // SAFETY: less than `align`, and so many bytes were added for this.
        let pointer = unsafe { raw.add(offset) };
        self.host.store(pointer.as_ptr(), Ordering::Release);
        Ok(pointer)
    }

    /// A command that wrote these bytes failed.
    #[must_use = "what was replaced is a user's code, and dropped with nothing in hand"]
    pub(crate) fn poison(&self, range: Range<u64>, id: EventId, cause: &Error) -> Poisoned {
        let stays = self.failures_stay_with_events();
        let is_loss = matches!(
            cause.kind(),
            ErrorKind::DeviceLost { .. } | ErrorKind::ContextLost { .. }
        );
        if stays && !is_loss {
            self.tracker().forget_copies_of(&range, id);
            Poisoned::default()
        } else {
            let cause = cause.for_dependant();
            self.tracker().poison(&range, id, &cause)
        }
    }

    fn failures_stay_with_events(&self) -> bool {
        let context = self.context.upgrade();
        context.is_some_and(|context| context.failures() == Failures::StayWithEvents)
    }

    /// Notes that a migration of these bytes failed. If their source was lost meanwhile, it was to
    /// bring their last copy.
    #[must_use = "what was replaced is a user's code, and dropped with nothing in hand"]
    pub(crate) fn not_brought(&self, range: Range<u64>, id: EventId, cause: &Error) -> Poisoned {
        let buffer = self.label();
        let lost = ErrorKind::ContentLost {
            buffer: buffer.clone(),
            cause: cause.first_cause().clone(),
        };
        let fails_all = !self.failures_stay_with_events();
        let mut tracker = self.tracker();
        let poisoned = tracker.not_brought(&range, id, fails_all, &lost.into());
        drop(tracker);
        if poisoned.any {
            quietly(|| tracing::error!(buffer, "its only copy is lost"));
        }
        poisoned
    }

    /// True if [`check`](Memory::check) has nothing against the range, for it
    /// lies within the object, nothing is mapped, and there is no content size.
    #[inline]
    pub(crate) fn is_open_for(&self, offset: u64, length: u64) -> bool {
        let end = offset.checked_add(length);
        length != 0
            && end.is_some_and(|end| end <= self.size)
            && self.unusual.load(Ordering::Relaxed) == 0
    }

    /// Checks that a range, which may be empty, lies within the object and under no mapping. True
    /// if the object has a content size.
    ///
    /// # Errors
    /// Says why it does not.
    #[inline]
    pub(crate) fn check(&self, what: &'static str, offset: u64, length: u64) -> Result<bool> {
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.size) {
            return Err(self.out_of_bounds(what, offset, length));
        }
        if self.is_mapped() {
            self.check_mappings(what, &(offset..offset + length))?;
        }
        Ok(self.has_content_size())
    }

    /// True if some of its bytes are mapped.
    #[inline]
    pub(crate) fn is_mapped(&self) -> bool {
        self.unusual.load(Ordering::Relaxed) >= ONE_MAPPING
    }

    /// The mapping of some of these bytes, if there is one. For a caller that has locked anything.
    #[cold]
    pub(crate) fn mapping_of(&self, range: &Range<u64>) -> Option<Mapping> {
        let mappings = lock(&self.mappings);
        let shares_bytes = |mapping: &&Mapping| {
            let mapped = &mapping.range;
            mapped.start.max(range.start) < mapped.end.min(range.end)
        };
        mappings.iter().find(shares_bytes).cloned()
    }

    #[cold]
    fn out_of_bounds(&self, what: &'static str, offset: u64, length: u64) -> Error {
        let range = [offset, offset.saturating_add(length), self.size];
        let element = self.cold().element;
        let (unit, [start, end, size]) = Self::counted(element, range);
        ErrorKind::OutOfBounds {
            what,
            buffer: self.name(None),
            unit,
            start,
            end,
            size,
        }
        .into()
    }

    #[cold]
    fn check_mappings(&self, what: &'static str, range: &Range<u64>) -> Result<()> {
        let Some(mapping) = self.mapping_of(range) else {
            return Ok(());
        };
        let (guard, mapped) = (mapping.label, mapping.range);
        let element = self.cold().element;
        let (unit, [start, end]) = Self::counted(element, [mapped.start, mapped.end]);
        Err(ErrorKind::Mapped {
            what,
            buffer: self.name(None),
            guard,
            unit,
            start,
            end,
        }
        .into())
    }

    /// True if the object has an allocation in a space, which takes bytes there.
    pub(crate) fn is_allocated_in(&self, space: SpaceId) -> bool {
        match space {
            SpaceId::HOST => !self.host.load(Ordering::Relaxed).is_null(),
            _ => self.cold().placed(space).is_some_and(|it| !it.is_of_host()),
        }
    }

    /// The object's address in a space, for the log. It never waits, so `None` may also mean that
    /// another thread just looks.
    pub(crate) fn address_in(&self, space: SpaceId) -> Option<u64> {
        if space == SpaceId::HOST {
            // The memory is there, or about to be.
            let pointer = self.host_pointer().ok()?;
            return Some(pointer.as_ptr().addr() as u64);
        }
        let cold = self.cold.try_lock().ok()?;
        Some(cold.allocation(space)?.address)
    }

    /// The spaces in which the object has an allocation. In a child of `fork` some may be missing.
    #[must_use]
    pub fn allocated_in(&self) -> Vec<SpaceId> {
        let host = (!self.host.load(Ordering::Relaxed).is_null()).then_some(SpaceId::HOST);
        let mut spaces: Vec<SpaceId> = host.into_iter().collect();
        if let Some(cold) = self.cold_or_forked() {
            spaces.extend(cold.allocations.iter().map(|placed| placed.space));
        }
        spaces
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let cold = self.cold.get_mut().unwrap_or_else(PoisonError::into_inner);
        for placed in cold.allocations.drain(..) {
            // SAFETY: taken out; commands keep the object, so none uses it.
            unsafe { placed.free() };
        }
        if let Some((raw, bytes)) = cold.owned_host.take() {
            let layout = std::alloc::Layout::from_size_align(bytes, 16)
                .expect("the layout was valid when the memory was allocated");
            // SAFETY: allocated by `allocate_host` with this layout, freed once.
            unsafe {
                std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(raw), layout);
            }
        }
    }
}

/// The place of the host's bytes of an object: the size of a stretch (a power of two), and the
/// offset in it.
///
/// All are in lines of their own, and begin where the largest type of OpenCL C may. An allocator
/// would put each large one at the same place of a page. So large ones have places in a page that
/// differ from those of the objects with neighbouring numbers. A processor takes a load for one of
/// bytes that were just stored if the twelve lowest bits of their addresses agree, and waits, as in
/// a stencil from one object to another.
fn place_of(id: u64, size: u64) -> (usize, usize) {
    const LINE: usize = 128;
    const PAGE: usize = 4096;
    const PLACES: u64 = 16;
    /// For less than this a page more would be too much.
    const LARGE: u64 = 64 * PAGE as u64;
    if size < LARGE {
        return (LINE, 0);
    }
    // Neighbours are five places apart, and sixteen in a row at places of their own.
    let place = id.wrapping_mul(5) % PLACES;
    (PAGE, place as usize * (PAGE / PLACES as usize))
}

/// A recorder for accesses that depend on nothing.
struct Ignore;

impl tracker::Recorder for Ignore {
    fn wait(&mut self, _: EventId, _: bool) {}
    fn poisoned(&mut self, _: &Error) {}
    fn discard(&mut self, _: Error) {}
    fn recording(&self) -> EventId {
        EventId::NONE
    }
    fn join(&mut self, _: &[EventId]) -> EventId {
        EventId::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_large_objects_are_at_their_places_in_a_page() {
        for size in [1, 64, (1 << 18) - 1, 1 << 18, 1 << 20, (1 << 20) + 1] {
            for _ in 0..8 {
                let memory = Memory::detached_for_tests(size);
                let (stretch, place) = place_of(memory.id, size);
                let address = memory.host_pointer().unwrap().addr().get();
                assert_eq!(address % stretch, place, "{size} bytes");
            }
        }
    }

    #[test]
    fn neighbours_are_apart_in_a_page_in_both_directions() {
        for id in 0..64 {
            for distance in 1..16 {
                let places = [id, id + distance].map(|id| place_of(id, 1 << 18));
                let [(page, one), (_, other)] = places;
                let apart = one.abs_diff(other);
                assert!(
                    apart >= 256 && page - apart >= 256,
                    "{id} and {distance} on: {places:?}"
                );
            }
        }
        assert_eq!(place_of(3, (1 << 18) - 1), (128, 0));
    }

    #[test]
    fn content_sizes_that_would_keep_each_other_are_refused() {
        let alive = Arc::new(());
        let make = || {
            let memory = Memory::detached_for_tests(64);
            memory.cold().keep = Some(Box::new(alive.clone()));
            memory
        };
        let (a, b, c) = (make(), make(), make());
        a.set_content_size(Some(b.clone())).unwrap();
        b.set_content_size(Some(c.clone())).unwrap();
        c.set_label("third");
        for (holder, size) in [(&a, &a), (&b, &a), (&c, &a), (&c, &b), (&c, &c)] {
            let error = holder.set_content_size(Some(size.clone())).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
                "{error}"
            );
        }
        let error = c.set_content_size(Some(a.clone())).unwrap_err();
        assert!(error.to_string().contains("is itself in third"), "{error}");
        assert!(c.content_size().is_none());
        // Once the circle is open elsewhere, it is none.
        b.set_content_size(None).unwrap();
        c.set_content_size(Some(a.clone())).unwrap();
        drop((a, b, c));
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

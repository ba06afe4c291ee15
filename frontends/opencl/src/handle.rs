//! Handles: the objects that a program has pointers to.
//!
//! A handle is the address of a [`Slot`]. Slots lie in slabs that are never freed, one slab for
//! each type of object. So any pointer can be looked at without being followed: a handle is valid
//! if it is the address of a slot of the right slab, and there is an object in it. A wild, released
//! or mixed-up handle gives the error code of its type.
//!
//! A slot counts two kinds of references in one word:
//!
//! | holder | references |
//! |---|---|
//! | the program | those that it created or retained, and has not released. The API reports this count |
//! | the library | a [`Ref`]: during a call, and in objects that need this one |
//!
//! The object is dropped with the last of both. A context that a queue needs is there for as long
//! as the queue, though the program has released it: programs ask the queue for it, and retain what
//! they get. A program can release no more than it holds. A [`Ref`] can only be taken while the
//! count is not zero, so a slot that is free stays free until it is given out again.

use crate::code::{Code, Result};
use crate::dispatch::{DISPATCH, Table};
use crate::icd;
use opencl_sys::{CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, cl_int, cl_uint};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A type of object that programs have handles of.
pub(crate) trait Object: Sized + Send + Sync + 'static {
    /// The code for what is no handle of such an object.
    const INVALID: cl_int;

    /// The slab of all of them.
    fn slab() -> &'static Slab<Self>;
}

/// One reference of the library's, in a slot's count.
const OURS: u64 = 1 << 32;
/// The references of the program, in a slot's count.
const THEIRS: u64 = OURS - 1;

/// An object, as loaders see it: a pointer to the table of functions comes first, and what the
/// loader has for the platform second.
#[repr(C)]
pub(crate) struct Slot<T> {
    dispatch: &'static Table,
    data: AtomicPtr<c_void>,
    count: AtomicU64,
    body: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the body is reached through references alone, and is `Sync`; the thread that drops it has
// the last one.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// Slots of the first chunk; each further one has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 26;

/// All objects of a type.
pub(crate) struct Slab<T> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    free: Mutex<Free<T>>,
}

struct Free<T> {
    slots: Vec<NonNull<Slot<T>>>,
    chunks: usize,
}

// SAFETY: the list has addresses of slots, which are `Sync`.
unsafe impl<T: Send + Sync> Send for Free<T> {}

impl<T: Object> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            free: Mutex::new(Free {
                slots: Vec::new(),
                chunks: 0,
            }),
        }
    }

    /// The slot at an address, if one is there.
    fn find(&self, address: *const c_void) -> Option<&'static Slot<T>> {
        let size = size_of::<Slot<T>>();
        for (number, chunk) in self.chunks.iter().enumerate() {
            let first = chunk.load(Ordering::Acquire);
            if first.is_null() {
                return None;
            }
            let offset = address.addr().wrapping_sub(first.addr());
            if offset < (FIRST << number) * size {
                let index = offset / size;
                // SAFETY: within the chunk, which is never freed, and whose slots are all
                // initialised.
                return (offset % size == 0).then(|| unsafe { &*first.add(index) });
            }
        }
        None
    }

    /// A slot that is nobody's.
    fn take(&self) -> Result<NonNull<Slot<T>>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.slots.is_empty() {
            let number = free.chunks;
            let place = self.chunks.get(number).ok_or(Code(CL_OUT_OF_RESOURCES))?;
            let length = FIRST << number;
            let mut slots = Vec::new();
            let reserved = slots.try_reserve_exact(length);
            reserved.map_err(|_| Code(CL_OUT_OF_HOST_MEMORY))?;
            slots.extend((0..length).map(|_| Slot {
                dispatch: &DISPATCH,
                data: AtomicPtr::new(null_mut()),
                count: AtomicU64::new(0),
                body: UnsafeCell::new(MaybeUninit::uninit()),
            }));
            let slots = slots.leak();
            // The lowest is given out first.
            let all = slots.iter().rev().map(NonNull::from);
            free.slots.extend(all);
            free.chunks += 1;
            place.store(slots.as_mut_ptr(), Ordering::Release);
        }
        free.slots.pop().ok_or(Code(CL_OUT_OF_RESOURCES))
    }

    fn give_back(&self, slot: &'static Slot<T>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.slots.push(NonNull::from(slot));
    }
}

/// A reference of the library's to an object.
pub(crate) struct Ref<T: Object>(&'static Slot<T>);

impl<T: Object> Ref<T> {
    /// The object that a program means by a handle.
    pub(crate) fn of(handle: *const c_void) -> Result<Self> {
        let slot = T::slab().find(handle).ok_or(Code(T::INVALID))?;
        let held = |count: u64| (count != 0).then(|| count + OURS);
        let taken = slot
            .count
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, held);
        taken.map(|_| Self(slot)).map_err(|_| Code(T::INVALID))
    }

    /// Puts an object into a slot. The program has no reference to it yet: see
    /// [`give`](Self::give).
    pub(crate) fn new(body: T) -> Result<Self> {
        let taken = T::slab().take()?;
        // SAFETY: the slot was in the list, so nobody has a reference to what is in it.
        unsafe { (*taken.as_ref().body.get()).write(body) };
        // SAFETY: slots are never freed.
        let slot: &'static Slot<T> = unsafe { taken.as_ref() };
        slot.data.store(icd::data(), Ordering::Relaxed);
        slot.count.store(OURS, Ordering::Release);
        Ok(Self(slot))
    }

    /// A reference for the program, as a handle.
    pub(crate) fn give(&self) -> *mut c_void {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.handle()
    }

    /// The handle, without a reference for the program.
    pub(crate) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self.0).cast_mut().cast()
    }

    /// Has it point to what the loader has for the platform.
    pub(crate) fn set_data(&self, data: *mut c_void) {
        self.0.data.store(data, Ordering::Release);
    }

    /// The references that the program holds.
    pub(crate) fn references(&self) -> cl_uint {
        (self.0.count.load(Ordering::Relaxed) & THEIRS) as cl_uint
    }

    /// True if both are the same object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

/// Adds a reference of the program's.
pub(crate) fn retain<T: Object>(handle: *const c_void) -> Result<()> {
    let slot = T::slab().find(handle).ok_or(Code(T::INVALID))?;
    let more = |count: u64| (count != 0 && count & THEIRS < THEIRS).then(|| count + 1);
    let changed = slot
        .count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    changed.map(drop).map_err(|_| Code(T::INVALID))
}

/// Gives a reference of the program's up.
pub(crate) fn release<T: Object>(handle: *const c_void) -> Result<()> {
    // What the object keeps alive is dropped by this reference.
    let object = Ref::<T>::of(handle)?;
    let less = |count: u64| (count & THEIRS != 0).then(|| count - 1);
    let changed = object
        .0
        .count
        .fetch_update(Ordering::Release, Ordering::Relaxed, less);
    changed.map(drop).map_err(|_| Code(T::INVALID))
}

impl<T: Object> Deref for Ref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the slot has an object while there is a reference.
        unsafe { (*self.0.body.get()).assume_init_ref() }
    }
}

impl<T: Object> Clone for Ref<T> {
    fn clone(&self) -> Self {
        self.0.count.fetch_add(OURS, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<T: Object> Drop for Ref<T> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(OURS, Ordering::AcqRel) != OURS {
            return;
        }
        // SAFETY: that was the last reference of both kinds, and none can be made of a count of
        // zero.
        unsafe { (*self.0.body.get()).assume_init_drop() };
        T::slab().give_back(self.0);
    }
}

/// Names a type's slab.
macro_rules! object {
    ($type:ty, $invalid:expr) => {
        impl $crate::handle::Object for $type {
            const INVALID: opencl_sys::cl_int = $invalid;

            fn slab() -> &'static $crate::handle::Slab<Self> {
                static SLAB: $crate::handle::Slab<$type> = $crate::handle::Slab::new();
                &SLAB
            }
        }
    };
}
pub(crate) use object;

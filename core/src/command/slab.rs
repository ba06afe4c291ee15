//! Slabs: slots of 192 bytes for commands, in chunks of 16 KiB, for the whole process.
//!
//! Invariants:
//!
//! * A chunk is aligned to its size, so a slot's chunk is its address rounded
//!   down; a slot is aligned to 64 bytes, so an inline edge's command is the
//!   edge's address rounded down. Addresses are below 2^48.
//! * Chunks are never unmapped while the process runs: a stale handle may
//!   always read its slot's notify word (type-stable memory).
//! * A free slot is marked by a bit in its chunk. Slots are handed out in
//!   address order, by the thread that owns the chunk: a graph enqueued in one
//!   go is laid out in enqueue order and streams through the cache.
//! * A slot whose generation has reached `RETIRE_AT` is not marked free but retired, so a handle
//!   never matches a later use of its slot. Retired slots come back through `recycle_retired`, once
//!   nothing remembers a handle to a finished command: trackers, gates and joined lists of waits.
//!
//! Protocol:
//!
//! 1. A thread takes a whole chunk with free slots from the shared list and
//!    claims all its free bits at once (one exchange for up to 85 commands).
//! 2. A thread that frees a slot collects bits of one chunk in a thread-local mask and gives them
//!    back with one read-modify-write when it moves to another chunk or goes idle ([`flush`]).
//! 3. A chunk is *listed* (in the shared list) or *owned* (by a thread) or
//!    neither; giving bits back to a chunk that is neither lists it.
//! 4. A [child of `fork`](crate::process) leaves the shared lists alone: another thread may have
//!    had them locked. It takes the slots that its thread owns, and new chunks.

use super::slot::Slot;
use crate::limits::RETIRE_AT;
use crate::notify::ADDRESS_BITS;
use crate::process::is_forked;
use crate::sync::{lock, prefetch_for_writing};
use std::alloc::{Layout, alloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Bytes of a chunk, and its alignment.
const CHUNK_BYTES: usize = 16 * 1024;
/// Slots in a chunk: the number that fits behind a header of one cache line.
const SLOTS: usize = (CHUNK_BYTES - 64) / size_of::<Slot>();
const WORDS: usize = SLOTS.div_ceil(64);
const ALL: Mask = {
    let mut mask = [u64::MAX; WORDS];
    mask[WORDS - 1] = (1 << (SLOTS - 64 * (WORDS - 1))) - 1;
    mask
};

type Mask = [u64; WORDS];

/// The number of slots between the one handed out and the one that is fetched.
const AHEAD: usize = 6;

const IDLE: u8 = 0;
const LISTED: u8 = 1;
const OWNED: u8 = 2;

#[repr(C, align(64))]
struct Header {
    free: [AtomicU64; WORDS],
    place: AtomicU8,
}

#[repr(C, align(64))]
struct Chunk {
    header: Header,
    slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Slot>() == 192 && size_of::<Chunk>() <= CHUNK_BYTES);

#[derive(Clone, Copy)]
struct ChunkRef(NonNull<Chunk>);

// SAFETY: a chunk is shared by design: its header is atomic, and each slot is
// touched only by the protocol of `Slot`.
unsafe impl Send for ChunkRef {}

impl ChunkRef {
    fn header(&self) -> &Header {
        // SAFETY: chunks are never freed.
        unsafe { &self.0.as_ref().header }
    }

    fn slot(self, index: usize) -> NonNull<Slot> {
        debug_assert!(index < SLOTS);
        // SAFETY: the index is within the chunk; no reference is made.
        unsafe {
            NonNull::new_unchecked(
                (&raw mut (*self.0.as_ptr()).slots)
                    .cast::<Slot>()
                    .add(index),
            )
        }
    }

    fn of(slot: NonNull<Slot>) -> (Self, usize) {
        let base = slot.addr().get() & !(CHUNK_BYTES - 1);
        let offset = slot.addr().get() - base - size_of::<Header>();
        // SAFETY: the slot lies in a chunk aligned to its size; provenance is
        // that of the whole chunk allocation, which the slot pointer has.
        let chunk = unsafe {
            NonNull::new_unchecked(slot.as_ptr().cast::<u8>().sub(slot.addr().get() - base))
        };
        (Self(chunk.cast()), offset / size_of::<Slot>())
    }

    fn new() -> Self {
        let memory = fresh_chunk();
        assert!(
            memory.addr().get() + CHUNK_BYTES <= 1 << ADDRESS_BITS,
            "the allocator returned an address above 2^48, which handles cannot hold"
        );
        let chunk = memory.cast::<Chunk>();
        // SAFETY: the memory is fresh and large enough; every field is written
        // before it is read.
        unsafe {
            (&raw mut (*chunk.as_ptr()).header).write(Header {
                free: ALL.map(AtomicU64::new),
                place: AtomicU8::new(IDLE),
            });
            let slots = (&raw mut (*chunk.as_ptr()).slots).cast::<Slot>();
            for index in 0..SLOTS {
                slots.add(index).write(Slot::new());
            }
        }
        CHUNKS.fetch_add(1, Ordering::Relaxed);
        Self(chunk)
    }
}

/// Memory for one more chunk, from a region of many: an allocation for each
/// would waste half as much again on its alignment.
fn fresh_chunk() -> NonNull<u8> {
    if is_forked() {
        return fresh_memory(1);
    }
    let mut region = lock(&REGION);
    if region.left == 0 {
        *region = Region {
            next: fresh_memory(REGION_CHUNKS).as_ptr().expose_provenance(),
            left: REGION_CHUNKS,
        };
    }
    let chunk = std::ptr::with_exposed_provenance_mut(region.next);
    region.next += CHUNK_BYTES;
    region.left -= 1;
    // SAFETY: within a region, which is not at address zero.
    unsafe { NonNull::new_unchecked(chunk) }
}

/// Memory for so many chunks.
fn fresh_memory(chunks: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(chunks * CHUNK_BYTES, CHUNK_BYTES)
        .expect("a power of two is a valid alignment");
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Chunks that are allocated together: 4 MiB.
const REGION_CHUNKS: usize = 256;

/// The unused rest of the last region.
struct Region {
    next: usize,
    left: usize,
}

static REGION: Mutex<Region> = Mutex::new(Region { next: 0, left: 0 });

/// Chunks with free slots that no thread owns. Kept sorted so that memory is
/// used from low addresses up: a heap of addresses, smallest first.
static LISTED_CHUNKS: Mutex<std::collections::BinaryHeap<std::cmp::Reverse<Listed>>> =
    Mutex::new(std::collections::BinaryHeap::new());
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());
static RETIRED_COUNT: AtomicUsize = AtomicUsize::new(0);
static CHUNKS: AtomicUsize = AtomicUsize::new(0);

struct Listed(ChunkRef);
impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }
}
impl Eq for Listed {}
impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Listed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.0.cmp(&other.0.0)
    }
}

struct Retired(NonNull<Slot>);
// SAFETY: a retired slot belongs to this list alone.
unsafe impl Send for Retired {}

/// The chunk that this thread takes slots from, with the claimed bits.
struct Source {
    chunk: Cell<Option<ChunkRef>>,
    free: LocalMask,
}

/// Bits that this thread has freed in one chunk and not yet given back.
struct Sink {
    chunk: Cell<Option<ChunkRef>>,
    freed: LocalMask,
}

/// A mask of this thread's, word by word: a word just written is read again at
/// once, which is only quick if both are of the same width.
struct LocalMask([Cell<u64>; WORDS]);

impl LocalMask {
    const fn empty() -> Self {
        Self([const { Cell::new(0) }; WORDS])
    }

    /// Takes the lowest bit.
    #[inline]
    fn take_first(&self) -> Option<usize> {
        self.0.iter().enumerate().find_map(|(word, cell)| {
            let bits = cell.get();
            (bits != 0).then(|| {
                cell.set(bits & (bits - 1));
                word * 64 + bits.trailing_zeros() as usize
            })
        })
    }

    #[inline]
    fn add(&self, index: usize) {
        let cell = &self.0[index / 64];
        cell.set(cell.get() | 1 << (index % 64));
    }

    fn take_all(&self) -> Mask {
        std::array::from_fn(|word| self.0[word].take())
    }
}

struct Local {
    source: Source,
    sink: Sink,
}

/// Gives back the chunks and slots of a thread when it ends.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            local.flush();
            if let Some(chunk) = local.source.chunk.take() {
                release(chunk, local.source.free.take_all());
            }
        });
    }
}

thread_local! {
    // No destructor of its own: usable while a thread's other locals are dropped. `EXIT` gives back
    // its content.
    static LOCAL: std::mem::ManuallyDrop<Local> = const {
        std::mem::ManuallyDrop::new(Local {
            source: Source { chunk: Cell::new(None), free: LocalMask::empty() },
            sink: Sink { chunk: Cell::new(None), freed: LocalMask::empty() },
        })
    };
    static EXIT: Exit = const { Exit };
}

impl Local {
    #[inline]
    fn take(&self) -> NonNull<Slot> {
        if let Some(chunk) = self.source.chunk.get()
            && let Some(index) = self.source.free.take_first()
        {
            // The slots after this one come next, and were last written by the core that ran the
            // commands in them.
            let ahead = chunk.0.as_ptr().cast::<Slot>().wrapping_add(index + AHEAD);
            for line in 0..3 {
                prefetch_for_writing(ahead.wrapping_byte_add(64 + 64 * line));
            }
            return chunk.slot(index);
        }
        self.take_slow()
    }

    #[cold]
    fn take_slow(&self) -> NonNull<Slot> {
        // Registers the thread's exit hook; harmless if it is already exiting.
        let _ = EXIT.try_with(|_| ());
        // The slots that this thread has just freed may be all there are.
        self.flush();
        if let Some(old) = self.source.chunk.take() {
            release(old, [0; WORDS]);
        }
        loop {
            let chunk = claim();
            for (mine, bits) in self.source.free.0.iter().zip(&chunk.header().free) {
                mine.set(bits.swap(0, Ordering::Acquire));
            }
            if let Some(index) = self.source.free.take_first() {
                self.source.chunk.set(Some(chunk));
                return chunk.slot(index);
            }
            // Listed for slots that an owner in between has taken.
            release(chunk, [0; WORDS]);
        }
    }

    #[inline]
    fn give(&self, slot: NonNull<Slot>) {
        let (chunk, index) = ChunkRef::of(slot);
        if self.sink.chunk.get().map(|held| held.0) != Some(chunk.0) {
            self.flush();
            self.sink.chunk.set(Some(chunk));
        }
        self.sink.freed.add(index);
    }

    fn flush(&self) {
        if let Some(chunk) = self.sink.chunk.take() {
            give_back(chunk, self.sink.freed.take_all());
        }
    }
}

fn claim() -> ChunkRef {
    let listed = match is_forked() {
        true => None,
        false => lock(&LISTED_CHUNKS).pop(),
    };
    match listed {
        Some(std::cmp::Reverse(Listed(chunk))) => {
            chunk.header().place.store(OWNED, Ordering::SeqCst);
            chunk
        }
        None => {
            let chunk = ChunkRef::new();
            chunk.header().place.store(OWNED, Ordering::SeqCst);
            chunk
        }
    }
}

/// Returns the bits to the chunk, and lists the chunk if nobody else has it.
fn give_back(chunk: ChunkRef, freed: Mask) {
    for (bits, freed) in chunk.header().free.iter().zip(freed) {
        if freed != 0 {
            bits.fetch_or(freed, Ordering::SeqCst);
        }
    }
    list(chunk);
}

/// Ends this thread's ownership of a chunk.
fn release(chunk: ChunkRef, unused: Mask) {
    for (bits, unused) in chunk.header().free.iter().zip(unused) {
        bits.fetch_or(unused, Ordering::SeqCst);
    }
    chunk.header().place.store(IDLE, Ordering::SeqCst);
    // A slot freed meanwhile found the chunk owned and did not list it.
    if chunk
        .header()
        .free
        .iter()
        .any(|bits| bits.load(Ordering::SeqCst) != 0)
    {
        list(chunk);
    }
}

fn list(chunk: ChunkRef) {
    if is_forked() {
        return;
    }
    let place = &chunk.header().place;
    if place.load(Ordering::SeqCst) == IDLE
        && place
            .compare_exchange(IDLE, LISTED, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    {
        lock(&LISTED_CHUNKS).push(std::cmp::Reverse(Listed(chunk)));
    }
}

/// Takes a free slot.
#[inline]
pub(crate) fn take() -> NonNull<Slot> {
    LOCAL.with(|local| local.take())
}

/// Frees a slot, or retires it if its generations are used up.
///
/// # Safety
/// The slot came from [`take`], nothing refers to its current use any more, and
/// the caller does not touch it again.
#[inline]
pub(crate) unsafe fn give(slot: NonNull<Slot>) {
    // SAFETY: slots are never unmapped.
    if unsafe { slot.as_ref() }.notify.generation() >= RETIRE_AT {
        return retire(slot);
    }
    LOCAL.with(|local| local.give(slot));
}

#[cold]
fn retire(slot: NonNull<Slot>) {
    if is_forked() {
        return;
    }
    lock(&RETIRED).push(Retired(slot));
    RETIRED_COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Gives back the slots that this thread has freed and still holds. Called
/// before a thread sleeps.
pub fn flush() {
    LOCAL.with(|local| local.flush());
}

/// Slots that wait for [`recycle_retired`].
#[inline]
pub(crate) fn retired() -> usize {
    RETIRED_COUNT.load(Ordering::Relaxed)
}

/// Makes retired slots usable again, after `forget` has removed every stored
/// handle to a command that is over. Handles that `forget` leaves belong to
/// commands that are not over, whose slots are not retired.
pub(crate) fn recycle_retired(forget: impl FnOnce()) {
    let retired = std::mem::take(&mut *lock(&RETIRED));
    RETIRED_COUNT.fetch_sub(retired.len(), Ordering::Relaxed);
    forget();
    for Retired(slot) in retired {
        // SAFETY: a retired slot is in nobody's use.
        unsafe { slot.as_ref() }.notify.restart();
        LOCAL.with(|local| local.give(slot));
    }
    flush();
}

/// Bytes that the slab holds from the allocator.
#[must_use]
pub fn reserved_bytes() -> usize {
    CHUNKS.load(Ordering::Relaxed) * CHUNK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slots_come_in_address_order_and_once() {
        std::thread::spawn(|| {
            let mut seen = HashSet::new();
            let mut last = None;
            let mut breaks = 0;
            let taken: Vec<_> = (0..1000).map(|_| take()).collect();
            for slot in &taken {
                assert!(seen.insert(slot.addr()), "a slot was handed out twice");
                if last.is_some_and(|last| *slot < last) {
                    breaks += 1;
                }
                last = Some(*slot);
            }
            assert!(breaks <= 1000 / SLOTS, "order broken {breaks} times");
            for slot in taken {
                // SAFETY: each was taken above and is used by nobody.
                unsafe { give(slot) };
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn memory_is_reused_across_threads() {
        // So many that the slots that other tests take meanwhile are few beside it.
        let rounds = if cfg!(miri) { 100 } else { 1000 };
        let before = reserved_bytes();
        for _ in 0..rounds {
            let taken: Vec<_> = (0..500).map(|_| take().addr().get()).collect();
            std::thread::spawn(move || {
                for address in taken {
                    let slot = NonNull::new(address as *mut Slot).unwrap();
                    // SAFETY: taken above, used by nobody.
                    unsafe { give(slot) };
                }
            })
            .join()
            .unwrap();
        }
        let grown = reserved_bytes() - before;
        assert!(
            grown < rounds * 500 * size_of::<Slot>() / 10,
            "the slab grew by {grown} bytes"
        );
    }

    #[test]
    fn a_retired_slot_comes_back_with_a_new_life() {
        let slot = take();
        // SAFETY: the slot was just taken.
        unsafe { slot.as_ref() }.notify.open(RETIRE_AT);
        // SAFETY: as above.
        let _ = unsafe { slot.as_ref() }.notify.close(false);
        let before = retired();
        // SAFETY: as above; nothing refers to it.
        unsafe { give(slot) };
        assert_eq!(retired(), before + 1);
        let mut forgot = false;
        recycle_retired(|| forgot = true);
        assert!(forgot);
        // SAFETY: slots are never unmapped.
        assert_eq!(unsafe { slot.as_ref() }.notify.generation(), 0);
    }
}

//! The notify list of an event: the commands and observers that wait for it.
//!
//! A lock-free stack whose head word also says whether the list is still open
//! and which use of the slot it belongs to:
//!
//! ```text
//!  63 ........ 48   47 ............. 3   2 .. 0
//!  generation (16)  entry address >> 3   tag
//! ```
//!
//! The tag is the kind of the entry that the word points to ([`Tag`]); with no
//! address it says that the list is open and empty, or closed, and how the
//! event ended. Every entry is an 8-byte word holding the address and tag of
//! the next one, so an edge costs a dependant 8 bytes of its own slot.
//!
//! Protocol:
//!
//! 1. The thread that enqueues the command [opens](NotifyList::open) the list for a generation. It
//!    does so only after it has locked the trackers of all the command's buffers. So a command that
//!    finds the list open in a tracker can never be one that this command is about to wait for.
//! 2. Anyone who holds that generation [pushes](NotifyList::push) entries. A
//!    push that finds the list closed, or of another generation, changes
//!    nothing and says so: the event is over, the wait is already resolved.
//!    The entry's `next` is stored before the releasing exchange.
//! 3. The command's owner [closes](NotifyList::close) it once, taking all entries. Closing is the
//!    moment the event is over: everything the command did happens before it, and before any code
//!    that observes it. It is sequentially consistent. So a waiter that raises a flag and then
//!    finds the list open is seen by the closer (the queue's `watching` count relies on this).
//! 4. A recycled slot's list stays closed under its old generation until it is
//!    opened under the next. Sixteen bits of generation can wrap, so a slot is
//!    retired before they do (see the slab).

use crate::limits::LAST_GENERATION;
use crate::sync::{AtomicU64, Ordering};

const TAG: u64 = 0b111;
/// Bits of an address: as many as the processors with the largest processes have, such as 64-bit
/// Arm. (x86-64 has 47.)
pub const ADDRESS_BITS: u32 = 48;
const GENERATION_SHIFT: u32 = ADDRESS_BITS;
const ADDRESS: u64 = ((1 << ADDRESS_BITS) - 1) & !TAG;
const _: () = assert!(LAST_GENERATION < 1 << (64 - GENERATION_SHIFT));

const OPEN: u64 = 0;
const CLOSED_COMPLETE: u64 = 6;
const CLOSED_FAILED: u64 = 7;

/// The kind of an entry of a notify list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Tag {
    /// A dependant's inline edge; a failure here does not fail the dependant.
    Order = 0,
    /// A dependant's inline edge; a failure here fails the dependant.
    Propagate = 1,
    /// As `Order`, an overflow edge, which names its dependant.
    OverflowOrder = 2,
    /// As `Propagate`, an overflow edge, which names its dependant.
    OverflowPropagate = 3,
    /// The event's list of observers on the host.
    Observers = 4,
}

/// The state in which a failed push found a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The event is complete.
    Complete,
    /// The event failed.
    Failed,
    /// The slot has been used again since: the event is over, and how it ended
    /// is no longer known here.
    Recycled,
}

/// An entry taken from a closed list.
#[derive(Clone, Copy, Debug)]
pub struct Entry(u64);

impl Entry {
    /// The first entry of the list that `word` was the head of.
    #[inline]
    fn of(word: u64) -> Option<Self> {
        (word & ADDRESS != 0).then_some(Self(word & (ADDRESS | TAG)))
    }

    /// The entry's kind.
    #[inline]
    #[must_use]
    pub fn tag(self) -> Tag {
        match self.0 & TAG {
            0 => Tag::Order,
            1 => Tag::Propagate,
            2 => Tag::OverflowOrder,
            3 => Tag::OverflowPropagate,
            _ => Tag::Observers,
        }
    }

    /// The entry's word.
    #[inline]
    #[must_use]
    pub fn address(self) -> *const AtomicU64 {
        (self.0 & ADDRESS) as *const AtomicU64
    }

    /// The entry after this one. Read it before the entry is released to its
    /// owner, who may free it at once.
    ///
    /// # Safety
    /// The entry's word must be alive.
    #[inline]
    #[must_use]
    pub unsafe fn next(self) -> Option<Self> {
        // SAFETY: the caller promises that the word is alive; its `next` was
        // stored before the push that published it.
        Self::of(unsafe { (*self.address()).load(Ordering::Relaxed) })
    }
}

/// The head word of a notify list. See the module for its protocol.
#[derive(Debug)]
pub struct NotifyList(AtomicU64);

impl NotifyList {
    /// A list that has never been opened: closed, of generation zero.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(CLOSED_COMPLETE))
    }

    /// The generation under which the list is or was last open.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u32
    }

    /// Starts over at generation zero, closed.
    pub fn restart(&self) {
        self.0.store(CLOSED_COMPLETE, Ordering::Relaxed);
    }

    /// Opens the list for `generation`.
    #[inline]
    pub fn open(&self, generation: u32) {
        debug_assert!(generation <= LAST_GENERATION);
        self.0.store(
            u64::from(generation) << GENERATION_SHIFT | OPEN,
            Ordering::Release,
        );
    }

    /// Adds the entry at `word`, of kind `tag`, if the list is open for
    /// `generation`.
    ///
    /// # Errors
    /// Says how the event ended if it is over; then nothing was added.
    ///
    /// # Safety
    /// `word` must stay alive and untouched until the list's closer has read
    /// it, and be aligned to 8 bytes below 2^48.
    #[inline]
    pub unsafe fn push(
        &self,
        generation: u32,
        word: *const AtomicU64,
        tag: Tag,
    ) -> Result<(), Closed> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            if (head >> GENERATION_SHIFT) as u32 != generation {
                return Err(Closed::Recycled);
            }
            match head & (ADDRESS | TAG) {
                CLOSED_COMPLETE => return Err(Closed::Complete),
                CLOSED_FAILED => return Err(Closed::Failed),
                _ => {}
            }
            // SAFETY: the caller promises that the word is alive; it is not in
            // any list yet, so nobody else reads it.
            unsafe { (*word).store(head & (ADDRESS | TAG), Ordering::Relaxed) };
            let new = (head & !(ADDRESS | TAG)) | (word as u64 & ADDRESS) | tag as u64;
            // Sequentially consistent success: an observer that registers and
            // then looks again must not miss a concurrent close.
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// The entries of a list that nobody closes meanwhile. Others may add entries, which the caller
    /// then sees or not. For a command of a recorded graph, whose list is made once and gone
    /// through in each launch; and for a search among commands that cannot end meanwhile.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> Option<Entry> {
        // Acquiring: the dependants are seen as they were before their entries were pushed.
        Entry::of(self.0.load(Ordering::Acquire))
    }

    /// Renames the list's generation, of a list as [`NotifyList::entries`] is for.
    pub fn rename(&self, generation: u32) {
        debug_assert!(generation <= LAST_GENERATION);
        let entries = self.0.load(Ordering::Relaxed) & (ADDRESS | TAG);
        self.0.store(
            u64::from(generation) << GENERATION_SHIFT | entries,
            Ordering::Relaxed,
        );
    }

    /// Closes the list, marking how the event ended, and takes its entries.
    #[inline]
    pub fn close(&self, failed: bool) -> Option<Entry> {
        let generation = self.0.load(Ordering::Relaxed) & !(ADDRESS | TAG);
        let mark = if failed {
            CLOSED_FAILED
        } else {
            CLOSED_COMPLETE
        };
        Entry::of(self.0.swap(generation | mark, Ordering::SeqCst))
    }

    /// The way in which the event of `generation` ended, or `None` while it is open.
    #[inline]
    #[must_use]
    pub fn closed(&self, generation: u32) -> Option<Closed> {
        let word = self.0.load(Ordering::Acquire);
        if (word >> GENERATION_SHIFT) as u32 != generation {
            return Some(Closed::Recycled);
        }
        match word & (ADDRESS | TAG) {
            CLOSED_COMPLETE => Some(Closed::Complete),
            CLOSED_FAILED => Some(Closed::Failed),
            _ => None,
        }
    }
}

impl Default for NotifyList {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The highest address of a process on 64-bit Arm. This machine need not have it.
    #[test]
    fn the_highest_address_and_generation_fit() {
        let list = NotifyList::new();
        list.open(LAST_GENERATION);
        let word = AtomicU64::new(0);
        let high = (1 << ADDRESS_BITS) - 8;
        // SAFETY: the word is alive until the list is closed.
        unsafe { list.push(LAST_GENERATION, &raw const word, Tag::Propagate) }.unwrap();
        assert_eq!(list.generation(), LAST_GENERATION);
        let entry =
            Entry::of(u64::from(LAST_GENERATION) << GENERATION_SHIFT | high | Tag::Order as u64);
        let entry = entry.expect("it has an address");
        assert_eq!(
            (entry.address().addr() as u64, entry.tag()),
            (high, Tag::Order)
        );
        let first = list.close(false).expect("it was pushed");
        assert_eq!(
            (first.address(), first.tag()),
            (&raw const word, Tag::Propagate)
        );
        assert_eq!(list.closed(LAST_GENERATION), Some(Closed::Complete));
    }
}

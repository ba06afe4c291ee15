//! Barriers: the threads of a block meet at them.
//!
//! A thread meets the others of its block through its [`Port`]: it *arrives*, with the place in the
//! source, with the arrays that it turns and with a vote, and then asks whether all have. Each way
//! to run a block has its own: in [`polled`], the native way, the threads are state machines on one
//! core; the test modes of [`launch`](crate::launch) have one that is slow and watches.
//!
//! All of them make one promise, on which alone the safety of shared arrays rests: an arrival
//! becomes ready only after *every* thread of the block came to the same place with the same
//! arrays, without another arrival since the last time. That holds whatever else a kernel does with
//! these futures: polls them by hand, also from a destructor, drops them, leaks them, joins two of
//! them. So a block that has failed, by a panic, an error or a refused arrival, makes no arrival
//! ready any more, not even one that all threads came to. A thread cannot hand a future to another,
//! as it borrows the thread's accelerator, whose lifetime has no name.

mod polled;

pub(crate) use polled::{BarrierState, Polling};

/// A block of a launch, for errors that name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockOf {
    /// The kernel's type.
    pub(crate) kernel: &'static str,
    /// The work-group, counted in row-major order.
    pub(crate) group: u64,
}

impl BlockOf {
    /// The error of a thread that awaits something else than a barrier or a warp function.
    #[cold]
    pub(crate) fn foreign(self, thread: usize) -> KernelError {
        let Self { kernel, group } = self;
        KernelError::ForeignAwait {
            kernel,
            group,
            thread,
        }
    }
}

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::KernelError;

/// A place in the source.
pub type Site = &'static Location<'static>;

/// The shared arrays that turn at a barrier, and their directions: two bits for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns(u64);

impl Turns {
    /// The most shared arrays that a block may have.
    pub(crate) const MOST_ARRAYS: u32 = 31;
    /// No array turns.
    pub(crate) const NONE: Self = Self(0);
    /// No array turns, and the barrier is one of the grid.
    pub(crate) const GRID: Self = Self(1 << 62);
    /// Never equal to the turns of another thread: arrays of another block are being turned.
    pub(crate) const FOREIGN: Self = Self(u64::MAX);

    #[inline(always)]
    pub(crate) const fn to_read(array: u32) -> Self {
        Self(1 << (2 * array))
    }

    #[inline(always)]
    pub(crate) const fn to_write(array: u32) -> Self {
        Self(2 << (2 * array))
    }

    /// The turns of two sets of arrays together. An array cannot be in both.
    #[inline(always)]
    pub(crate) const fn and(self, other: Self) -> Self {
        if self.0 & other.0 == 0 {
            Self(self.0 | other.0)
        } else {
            Self::FOREIGN
        }
    }
}

/// The values that the lanes of a warp gave each other.
#[derive(Debug, Clone, Copy)]
pub struct Exchanged {
    /// A bit for each lane that takes part.
    pub active: u64,
    /// A bit for each of them whose vote was yes.
    pub ballot: u64,
}

/// One thread's way to the others of its block.
///
/// # Safety
/// A thread's meeting with the others of its block. It keeps the promise at the head of this file.
pub unsafe trait Port {
    /// The handle that a thread keeps while it waits.
    type Ticket<'p>: Copy + Unpin
    where
        Self: 'p;

    /// Arrives at a barrier.
    fn arrive(&self, site: Site, turns: Turns, vote: bool) -> Self::Ticket<'_>;

    /// Ready once all have arrived there.
    fn poll(ticket: Self::Ticket<'_>) -> Poll<()>;

    /// The number of yes votes at the barrier that was complete last.
    fn outcome(&self) -> usize;

    /// Arrives at a warp function with a word for the other lanes.
    fn exchange(&self, site: Site, word: u64, vote: bool);

    /// The values of the warp's lanes, once all have arrived.
    fn exchanged(&self, vote: bool) -> Poll<Exchanged>;

    /// The word of another lane, or, of a lane that does not take part, this one's `own`.
    fn word(&self, lane: u32, own: u64) -> u64;

    /// The address of its block; not to be read.
    fn block(&self) -> *const ();
}

/// One thread's arrival at a barrier, which is also the wait for all others.
#[must_use = "a thread that arrives at a barrier has to wait there: await it"]
pub struct Barrier<'b, P: Port + 'b> {
    ticket: P::Ticket<'b>,
    /// Not to be sent to another thread: the ticket is of this one.
    port: PhantomData<(&'b P, *const ())>,
}

impl<'b, P: Port> Barrier<'b, P> {
    /// Arrives. (Not only when it is polled first: so there is less to keep while waiting.)
    #[inline(always)]
    pub(crate) fn new(port: &'b P, site: Site, turns: Turns, vote: bool) -> Self {
        Self {
            ticket: port.arrive(site, turns, vote),
            port: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn is_complete(&self) -> Poll<()> {
        P::poll(self.ticket)
    }
}

impl<P: Port> fmt::Debug for Barrier<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Barrier")
    }
}

impl<P: Port> Future for Barrier<'_, P> {
    type Output = ();

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        self.is_complete()
    }
}

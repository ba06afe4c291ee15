//! Functions that the threads of a warp do together.
//!
//! A *warp* is some neighbouring threads of a block that a GPU runs in lockstep; its threads are
//! its *lanes*. Natively a warp has one thread, so that each function has its answer at once and
//! costs nothing. In the test mode [`Execution::Lockstep`](crate::Execution) warps of 4 to 64
//! threads really exchange values.
//!
//! Every thread of the warp comes to the same warp function, at the same place of the source, as it
//! does with barriers; then all go on together. A block's last warp may have fewer threads, which
//! are the *active* ones. So the functions are methods of the
//! [`BlockAccelerator`](crate::BlockAccelerator), and awaited: a kernel that uses them is a block
//! kernel, whose threads can wait for each other.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::barrier::{Exchanged, Port, Site};
use crate::emit::ValueParameter;
use crate::{BlockAccelerator, device};

/// One thread's arrival at a warp function, and its wait for the others.
#[derive(Debug)]
#[must_use = "a thread that arrives at a warp function has to wait there: await it"]
pub(crate) struct Exchange<'b, P> {
    port: &'b P,
    vote: bool,
}

impl<'b, P: Port> Exchange<'b, P> {
    #[inline(always)]
    pub(crate) fn new(port: &'b P, site: Site, word: u64, vote: bool) -> Self {
        port.exchange(site, word, vote);
        Self { port, vote }
    }
}

impl<P: Port> Future for Exchange<'_, P> {
    type Output = Exchanged;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Exchanged> {
        self.port.exchanged(self.vote)
    }
}

/// Exchanges a value with the lane that `from` gives; where there is none, the value stays. A value
/// of several words is exchanged word by word.
#[inline(always)]
pub(crate) fn shuffle<T: ValueParameter, P: Port>(
    port: &P,
    site: Site,
    value: T,
    from: Option<u32>,
) -> impl Future<Output = T> {
    let word = if T::WORDS > 0 { value.word(0) } else { 0 };
    let first = Exchange::new(port, site, word, false);
    async move {
        first.await;
        let mut there = value;
        for at in 0..T::WORDS {
            let word = value.word(at);
            if at > 0 {
                Exchange::new(port, site, word, false).await;
            }
            if let Some(lane) = from {
                there.set_word(at, port.word(lane, word));
            }
        }
        there
    }
}

/// Lanes of a group: as many as are asked for, and as the warp has.
#[device(crate = crate)]
fn group_width<const D: usize>(acc: &impl BlockAccelerator<D>, width: u32) -> u32 {
    width.max(1).min(acc.warp_size())
}

/// The `value` of a lane of this thread's *group*. A group is `width` neighbouring lanes, and a
/// warp has a whole number of them. Lanes are counted from the group's first one, and wrap around
/// at its end. A warp of fewer lanes is one group.
#[device(crate = crate)]
pub async fn warp_shuffle_within<T: ValueParameter, const D: usize>(
    acc: &impl BlockAccelerator<D>,
    value: T,
    lane: u32,
    width: u32,
) -> T {
    let width = group_width(acc, width);
    let first = acc.lane() - acc.lane() % width;
    acc.warp_shuffle(value, first + lane % width).await
}

/// The `value` of the lane so many below; the thread's own one if that lane is in another
/// [group](warp_shuffle_within).
#[device(crate = crate)]
pub async fn warp_shuffle_up_within<T: ValueParameter, const D: usize>(
    acc: &impl BlockAccelerator<D>,
    value: T,
    distance: u32,
    width: u32,
) -> T {
    let own = acc.lane();
    let from = if distance <= own % group_width(acc, width) {
        own - distance
    } else {
        own
    };
    acc.warp_shuffle(value, from).await
}

/// The `value` of the lane so many above; the thread's own one if that lane is in another
/// [group](warp_shuffle_within).
#[device(crate = crate)]
pub async fn warp_shuffle_down_within<T: ValueParameter, const D: usize>(
    acc: &impl BlockAccelerator<D>,
    value: T,
    distance: u32,
    width: u32,
) -> T {
    let own = acc.lane();
    let width = group_width(acc, width);
    let from = if distance < width - own % width {
        own + distance
    } else {
        own
    };
    acc.warp_shuffle(value, from).await
}

/// The `value` of the lane whose number differs in these bits; the thread's own one if that lane is
/// in another [group](warp_shuffle_within).
#[device(crate = crate)]
pub async fn warp_shuffle_xor_within<T: ValueParameter, const D: usize>(
    acc: &impl BlockAccelerator<D>,
    value: T,
    bits: u32,
    width: u32,
) -> T {
    let own = acc.lane();
    let width = group_width(acc, width);
    let other = own ^ bits;
    let from = if other / width == own / width {
        other
    } else {
        own
    };
    acc.warp_shuffle(value, from).await
}

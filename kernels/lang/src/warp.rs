//! What the threads of a warp do together.
//!
//! A *warp* is some neighbouring threads of a block that a GPU runs in lockstep; its threads are its *lanes*. Natively a
//! warp has one thread, so that each function has its answer at once and costs nothing. In the test mode
//! [`Execution::Lockstep`](crate::Execution) warps of 4 to 64 threads really exchange what they say.
//!
//! Every thread of the warp comes to the same warp function, at the same place of the source, as it does with barriers;
//! then all go on together. A block's last warp may have fewer threads, which are the *active* ones. So the functions
//! are methods of the [`BlockAccelerator`](crate::BlockAccelerator), and awaited: a kernel that uses them is a block
//! kernel, whose threads can wait for each other.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::barrier::{Exchanged, Port, Site};
use crate::number::Scalar;

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

/// Exchanges a value with the lane that `from` gives; where there is none, the value stays.
#[inline(always)]
pub(crate) fn shuffle<T: Scalar, P: Port>(
    port: &P,
    site: Site,
    value: T,
    from: Option<u32>,
) -> impl Future<Output = T> {
    let exchange = Exchange::new(port, site, value.to_word(), false);
    async move {
        exchange.await;
        match from {
            Some(lane) => T::from_word(port.word(lane, value.to_word())),
            None => value,
        }
    }
}

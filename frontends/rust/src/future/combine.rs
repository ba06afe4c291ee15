//! Several futures as one.

use super::Waitable;
use quipu_core::event::Clock;
use quipu_core::{ErrorKind, Event, Result};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// A future of the end of all of `futures`: their values in order, or the first
/// error in their order. It waits for all of them in either case.
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let buffers = [context.buffer(&[1u8, 2])?, context.buffer(&[3u8, 4])?];
/// let reads = buffers.iter().map(|buffer| queue.read(buffer)).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(when_all(reads).wait()?, [[1, 2], [3, 4]]);
/// # Ok(()) }
/// ```
pub fn when_all<F: Waitable>(futures: impl IntoIterator<Item = F>) -> WhenAll<F> {
    let parts = futures.into_iter().map(Part::Running).collect();
    WhenAll { parts }
}

enum Part<F: Waitable> {
    Running(F),
    Over(Result<F::Value>),
}

/// See [`when_all`].
#[must_use = "a future does nothing unless it is waited for"]
pub struct WhenAll<F: Waitable> {
    parts: Vec<Part<F>>,
}

impl<F: Waitable> Unpin for WhenAll<F> {}

impl<F: Waitable> WhenAll<F> {
    /// True if all are over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Running(future) => future.event().is_complete(),
            Part::Over(_) => true,
        })
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// The first error in their order, or that waiting here could never end.
    pub fn wait(mut self) -> Result<Vec<F::Value>> {
        for part in &self.parts {
            if let Part::Running(future) = part {
                future.event().wait_over()?;
            }
        }
        match self.poll_all(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<F::Value>>> {
        let mut all_over = true;
        for part in &mut self.parts {
            if let Part::Running(future) = part {
                match Pin::new(future).poll(context) {
                    Poll::Ready(result) => *part = Part::Over(result),
                    Poll::Pending => all_over = false,
                }
            }
        }
        if !all_over {
            return Poll::Pending;
        }
        let results = self.parts.drain(..).filter_map(|part| match part {
            Part::Over(result) => Some(result),
            Part::Running(_) => None,
        });
        Poll::Ready(results.collect())
    }
}

impl<F: Waitable> Future for WhenAll<F> {
    type Output = Result<Vec<F::Value>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_all(context)
    }
}

impl<F: Waitable> fmt::Debug for WhenAll<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WhenAll({} futures)", self.parts.len())
    }
}

/// A future of the end of whichever of `futures` is over first. The others come
/// back with it, unlinked from whatever waited: no waker of them is left behind
/// in their events.
///
/// # Errors
/// If there are none: none would ever be over.
pub fn when_any<F: Waitable>(futures: impl IntoIterator<Item = F>) -> Result<WhenAny<F>> {
    let futures: Vec<F> = futures.into_iter().collect();
    if futures.is_empty() {
        return Err(ErrorKind::InvalidArgument {
            what: "when_any",
            problem: "of no futures none is ever over first; pass at least one".to_owned(),
        }
        .into());
    }
    Ok(WhenAny { futures })
}

/// See [`when_any`].
#[must_use = "a future does nothing unless it is waited for"]
pub struct WhenAny<F> {
    futures: Vec<F>,
}

/// What [`when_any`] gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct First<F: Waitable> {
    /// Which of them was over.
    pub index: usize,
    /// How it ended.
    pub result: Result<F::Value>,
    /// The others, in order.
    pub rest: Vec<F>,
}

impl<F> Unpin for WhenAny<F> {}

impl<F: Waitable> WhenAny<F> {
    /// Waits for the first.
    ///
    /// # Errors
    /// That waiting here could never end.
    pub fn wait(mut self) -> Result<First<F>> {
        let signal = Arc::new(Signal {
            raised: AtomicBool::new(false),
            thread: std::thread::current(),
        });
        let waker = Waker::from(signal.clone());
        loop {
            signal.raised.store(false, Ordering::Relaxed);
            if let Poll::Ready(first) = self.poll_any(&mut Context::from_waker(&waker)) {
                return Ok(first);
            }
            // Wait for one as its driver does, which may be to help; the signal
            // ends that when any other is over.
            let Some(one) = self.futures.first().map(F::event) else {
                return Err(ErrorKind::Cancelled.into());
            };
            match one.wait_with_clock(FOREVER, &*signal) {
                Err(error) if !one.is_complete() && !signal.raised.load(Ordering::Acquire) => {
                    return Err(error);
                }
                _ => {}
            }
        }
    }

    fn poll_any(&mut self, context: &mut Context<'_>) -> Poll<First<F>> {
        let over = self
            .futures
            .iter_mut()
            .enumerate()
            .find_map(|(index, future)| match Pin::new(future).poll(context) {
                Poll::Ready(result) => Some((index, result)),
                Poll::Pending => None,
            });
        let Some((index, result)) = over else {
            return Poll::Pending;
        };
        let mut rest = std::mem::take(&mut self.futures);
        rest.remove(index);
        rest.iter_mut()
            .for_each(|future| unlink(future.event_mut()));
        Poll::Ready(First {
            index,
            result,
            rest,
        })
    }
}

/// Takes an event's waker out again: a clone has none, and the drop of the
/// original does it.
fn unlink(event: &mut Event) {
    *event = event.clone();
}

impl<F: Waitable> Future for WhenAny<F> {
    type Output = First<F>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<First<F>> {
        self.get_mut().poll_any(context)
    }
}

impl<F> fmt::Debug for WhenAny<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WhenAny({} futures)", self.futures.len())
    }
}

/// Longer than anybody waits, on a clock that stands still until the signal is
/// raised.
const FOREVER: Duration = Duration::from_secs(3600);

/// Ends a wait from a waker: as a clock, it says that time is up.
struct Signal {
    raised: AtomicBool,
    thread: Thread,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raised.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Clock for Signal {
    fn now(&self) -> Duration {
        if self.raised.load(Ordering::Acquire) {
            Duration::MAX
        } else {
            Duration::ZERO
        }
    }
}

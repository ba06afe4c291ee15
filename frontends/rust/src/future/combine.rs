//! Several futures as one.

use super::Waitable;
use quipu_scheduler::{Clock, ErrorKind, Event, Result, SystemClock, UserEvent};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
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
///
/// Futures of different types are combined as a tuple, of up to eight, and give one of
/// their values:
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let buffer = context.buffer(&[1u8, 2])?;
/// let (read, task) = (queue.read(&buffer)?, queue.host_task(|| "done")?);
/// let (numbers, word, ()) = when_all((read, task, queue.marker()?)).wait()?;
/// assert_eq!((numbers, word), (vec![1, 2], "done"));
/// # Ok(()) }
/// ```
pub fn when_all<C: Combined>(futures: C) -> WhenAll<C::Parts> {
    WhenAll {
        parts: futures.into_parts(),
        taken: false,
    }
}

/// The argument of [`when_all`]: a vector or an array of futures of one type, or a tuple of futures
/// of any types.
pub trait Combined: sealed::Combined {}

impl<C: sealed::Combined> Combined for C {}

mod sealed {
    use quipu_scheduler::{Event, Result};
    use std::task::Context;

    /// Futures that can be made the parts of one.
    #[diagnostic::on_unimplemented(
        message = "`when_all` takes a vector, an array or a tuple of futures, not `{Self}`",
        note = "collect what an iterator gives to a vector"
    )]
    pub trait Combined {
        type Parts: Parts;

        fn into_parts(self) -> Self::Parts;
    }

    /// Several futures, each of which may be over.
    pub trait Parts {
        /// Their values.
        type Values;

        /// Calls `look` with the events of those that were not seen to be over.
        fn running<'a>(&'a self, look: &mut dyn FnMut(&'a Event));

        /// Asks that none of their commands be run.
        fn cancel(&self);

        /// Polls those that were not seen to be over; true if all are now.
        fn poll(&mut self, context: &mut Context<'_>) -> bool;

        /// Their values in order, or the first error, when all are over.
        fn take(&mut self) -> Result<Self::Values>;

        /// Their number.
        fn count(&self) -> usize;
    }
}

use sealed::Parts;

/// A future that may be over.
pub enum Part<F: Waitable> {
    /// Not seen to be over.
    Running(F),
    /// Its result.
    Over(Result<F::Value>),
    /// The value was given.
    Taken,
}

impl<F: Waitable> Part<F> {
    fn running(&self) -> Option<&F> {
        match self {
            Self::Running(future) => Some(future),
            _ => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Self::Running(future) = self else {
            return true;
        };
        match Pin::new(future).poll(context) {
            Poll::Ready(result) => {
                *self = Self::Over(result);
                true
            }
            Poll::Pending => false,
        }
    }

    fn take(&mut self) -> Result<F::Value> {
        match std::mem::replace(self, Self::Taken) {
            Self::Over(result) => result,
            _ => Err(taken_before("when_all")),
        }
    }
}

impl<F: Waitable> sealed::Combined for Vec<F> {
    type Parts = Vec<Part<F>>;

    fn into_parts(self) -> Self::Parts {
        self.into_iter().map(Part::Running).collect()
    }
}

impl<F: Waitable, const N: usize> sealed::Combined for [F; N] {
    type Parts = Vec<Part<F>>;

    fn into_parts(self) -> Self::Parts {
        self.into_iter().map(Part::Running).collect()
    }
}

impl<F: Waitable> Parts for Vec<Part<F>> {
    type Values = Vec<F::Value>;

    fn running<'a>(&'a self, look: &mut dyn FnMut(&'a Event)) {
        let running = self.iter().filter_map(Part::running);
        running.for_each(|future| look(future.event()));
    }

    fn cancel(&self) {
        let running = self.iter().filter_map(Part::running);
        running.for_each(F::cancel);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        // Each has to leave its waker.
        let over = self.iter_mut().map(|part| part.poll(context));
        over.fold(true, |all, over| all & over)
    }

    fn take(&mut self) -> Result<Self::Values> {
        self.iter_mut().map(Part::take).collect()
    }

    fn count(&self) -> usize {
        self.len()
    }
}

macro_rules! tuples {
    ($($future:ident $index:tt),+) => {
        impl<$($future: Waitable),+> sealed::Combined for ($($future,)+) {
            type Parts = ($(Part<$future>,)+);

            fn into_parts(self) -> Self::Parts {
                ($(Part::Running(self.$index),)+)
            }
        }

        impl<$($future: Waitable),+> Parts for ($(Part<$future>,)+) {
            type Values = ($($future::Value,)+);

            fn running<'a>(&'a self, look: &mut dyn FnMut(&'a Event)) {
                $(if let Some(future) = self.$index.running() {
                    look(future.event());
                })+
            }

            fn cancel(&self) {
                $(if let Some(future) = self.$index.running() {
                    future.cancel();
                })+
            }

            fn poll(&mut self, context: &mut Context<'_>) -> bool {
                // Each has to leave its waker.
                let over = [$(self.$index.poll(context)),+];
                over.iter().all(|over| *over)
            }

            fn take(&mut self) -> Result<Self::Values> {
                Ok(($(self.$index.take()?,)+))
            }

            fn count(&self) -> usize {
                [$($index),+].len()
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// See [`when_all`].
#[must_use = "a future does nothing unless it is waited for"]
pub struct WhenAll<P: Parts> {
    parts: P,
    /// The values were given.
    taken: bool,
}

impl<P: Parts> Unpin for WhenAll<P> {}

impl<P: Parts> WhenAll<P> {
    /// True if all are over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.running().iter().all(|event| event.is_complete())
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// The first error in their order, or that waiting here could never end.
    pub fn wait(mut self) -> Result<P::Values> {
        for event in self.running() {
            event.wait_over()?;
        }
        self.take()
    }

    /// As [`WhenAll::wait`], for so long at most. After a timeout the future is
    /// as it was.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if not all are over by then; else as
    /// [`WhenAll::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<P::Values> {
        let deadline = SystemClock.now().saturating_add(timeout);
        for event in self.running() {
            let left = deadline.saturating_sub(SystemClock.now());
            if let Err(error) = event.wait_timeout(left)
                && !event.is_complete()
            {
                return Err(error);
            }
        }
        self.take()
    }

    /// Calls `callback` with the values, or the first error, when all are over, or
    /// now if they are; on whichever thread ends the last, with no lock held.
    pub fn on_complete(self, callback: impl FnOnce(Result<P::Values>) + Send + 'static)
    where
        P: Send + 'static,
    {
        let mut events: Vec<Event> = self.running().into_iter().cloned().collect();
        if events.is_empty() {
            events.push(over_already());
        }
        // The last is called when all have been asked: each calls once.
        let left = Arc::new(AtomicUsize::new(events.len()));
        let all = Arc::new(Mutex::new(Some((self, callback))));
        let over = move || {
            if left.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some((mut all, callback)) = take_out(&all)
            {
                callback(all.take());
            }
        };
        for event in events {
            let over = over.clone();
            event.on_complete(move |_| over());
        }
    }

    /// Asks that none of their commands be run, as [`Event::cancel`].
    pub fn cancel(&self) {
        self.parts.cancel();
    }

    /// The events of those that were not seen to be over.
    fn running(&self) -> Vec<&Event> {
        let mut events = Vec::with_capacity(self.parts.count());
        self.parts.running(&mut |event| events.push(event));
        events
    }

    /// The values, when all are over.
    fn take(&mut self) -> Result<P::Values> {
        match self.poll_all(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<Result<P::Values>> {
        if self.taken {
            return Poll::Ready(Err(taken_before("when_all")));
        }
        if !self.parts.poll(context) {
            return Poll::Pending;
        }
        self.taken = true;
        Poll::Ready(self.parts.take())
    }
}

impl<P: Parts> Future for WhenAll<P> {
    type Output = Result<P::Values>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_all(context)
    }
}

impl<P: Parts> fmt::Debug for WhenAll<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WhenAll({} futures)", self.parts.count())
    }
}

fn taken_before(what: &'static str) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what,
        problem: "its value was taken before; a future gives it once".to_owned(),
    }
    .into()
}

/// An event that is over. Its callbacks are called as those of any event: a panic of one ends in
/// there, and they do not nest without bound.
fn over_already() -> Event {
    let over = UserEvent::new();
    let event = over.event();
    over.complete();
    event
}

/// Takes the value, if no other call has taken it yet.
fn take_out<T>(shared: &Mutex<Option<T>>) -> Option<T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A future of the end of whichever of `futures` is over first. The others come
/// back with it, unlinked from whatever waited: no waker of them is left behind
/// in their events.
///
/// Of futures of different types the events are of one, and say which it was:
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let (gate, buffer) = (UserEvent::new(), context.buffer(&[1u8, 2])?);
/// let (read, task) = (queue.read(&buffer)?, queue.after([gate.event()]).host_task(|| "done")?);
/// match when_any([read.event().clone(), task.event().clone()])?.wait()?.index {
///     0 => assert_eq!(read.wait()?, [1, 2]),
///     _ => println!("{}", task.wait()?),
/// }
/// # gate.complete();
/// # Ok(()) }
/// ```
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

/// The value of [`when_any`].
#[derive(Debug)]
#[non_exhaustive]
pub struct First<F: Waitable> {
    /// The index of the one that was over.
    pub index: usize,
    /// Its result.
    pub result: Result<F::Value>,
    /// The others, in order.
    pub rest: Vec<F>,
}

impl<F> Unpin for WhenAny<F> {}

impl<F: Waitable> WhenAny<F> {
    /// True if one of them is over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let mut events = self.futures.iter().map(F::event);
        self.is_taken() || events.any(Event::is_complete)
    }

    /// Waits for the first.
    ///
    /// # Errors
    /// If waiting here could never end, for any of them, or the first was given before.
    pub fn wait(mut self) -> Result<First<F>> {
        self.wait_first(None)
    }

    /// As [`WhenAny::wait`], for so long at most. After a timeout the future is
    /// as it was.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if none is over by then; else as
    /// [`WhenAny::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<First<F>> {
        self.wait_first(Some(timeout))
    }

    /// Calls `callback` with the first when it is over, or now if one is; on
    /// whichever thread ends it, with no lock held. With an error if it was given
    /// before.
    pub fn on_complete(self, callback: impl FnOnce(Result<First<F>>) + Send + 'static)
    where
        F: Send + 'static,
    {
        if self.is_taken() {
            return over_already().on_complete(|_| callback(Err(taken_before("when_any"))));
        }
        let events: Vec<_> = self.futures.iter().map(F::event).cloned().collect();
        let any = Arc::new(Mutex::new(Some((self, callback))));
        for event in events {
            let any = any.clone();
            event.on_complete(move |_| {
                if let Some((mut any, callback)) = take_out(&any) {
                    callback(any.take());
                }
            });
        }
    }

    /// Asks that none of their commands be run, as [`Event::cancel`].
    pub fn cancel(&self) {
        self.futures.iter().for_each(F::cancel);
    }

    /// True if the first was given: the others went with it.
    fn is_taken(&self) -> bool {
        self.futures.is_empty()
    }

    fn wait_first(&mut self, timeout: Option<Duration>) -> Result<First<F>> {
        if !self.is_taken() {
            let events: Vec<&Event> = self.futures.iter().map(F::event).collect();
            Event::wait_for_first(&events, timeout)?;
        }
        self.take()
    }

    /// The first, when one is over.
    fn take(&mut self) -> Result<First<F>> {
        match self.poll_any(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(first) => first,
            Poll::Pending => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn poll_any(&mut self, context: &mut Context<'_>) -> Poll<Result<First<F>>> {
        if self.is_taken() {
            return Poll::Ready(Err(taken_before("when_any")));
        }
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
        rest.iter_mut().for_each(Waitable::forget_waker);
        Poll::Ready(Ok(First {
            index,
            result,
            rest,
        }))
    }
}

impl<F: Waitable> Future for WhenAny<F> {
    type Output = Result<First<F>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<First<F>>> {
        self.get_mut().poll_any(context)
    }
}

impl<F> fmt::Debug for WhenAny<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WhenAny({} futures)", self.futures.len())
    }
}

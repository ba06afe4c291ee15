//! Futures of commands.
//!
//! Each enqueued command gives one: an [`Event`], or a [`Pending`] value. It works under any
//! executor and without one. Dropping it neither stops its command nor frees the command's
//! resources; [`cancel`](Pending::cancel) asks for it not to be run.

mod combine;

pub use combine::{Combined, First, WhenAll, WhenAny, when_all, when_any};

use quipu_scheduler::{ErrorKind, Event, Result};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A future of a command, as [`when_all`] and [`when_any`] take it.
pub trait Waitable: Future<Output = Result<Self::Value>> + Unpin {
    /// Its value.
    type Value;

    /// The event that it is over with.
    fn event(&self) -> &Event;

    /// Takes out the waker that it was polled with last. Of one that holds an event:
    /// [`Event::forget_waker`].
    fn forget_waker(&mut self);

    /// Asks that its command not be run, as [`Event::cancel`].
    fn cancel(&self) {
        self.event().cancel();
    }
}

impl Waitable for Event {
    type Value = ();

    fn event(&self) -> &Event {
        self
    }

    fn forget_waker(&mut self) {
        Event::forget_waker(self);
    }
}

type Outcome<V> = Box<dyn FnOnce() -> Result<V> + Send + Sync>;

/// The future of a command that gives a value: of a read the elements, of a write the container
/// that was written from, of a host task the closure's value.
#[must_use = "what a command gives comes through this; drop it explicitly if nobody wants it"]
pub struct Pending<V> {
    event: Event,
    outcome: Option<Outcome<V>>,
}

impl<V> Pending<V> {
    /// `outcome` gives the value, once, after the command has succeeded.
    pub(crate) fn new(
        event: Event,
        outcome: impl FnOnce() -> Result<V> + Send + Sync + 'static,
    ) -> Self {
        Self {
            event,
            outcome: Some(Box::new(outcome)),
        }
    }

    fn take(&mut self) -> Result<V> {
        match self.outcome.take() {
            Some(outcome) => outcome(),
            None => Err(ErrorKind::InvalidArgument {
                what: "take what a command gives",
                problem: "it was taken before; a future gives its value once".to_owned(),
            }
            .into()),
        }
    }

    /// The command's event.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// True if the command is over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.event.is_complete()
    }

    /// Waits for the command's end and gives its value.
    ///
    /// # Errors
    /// The command's error, or that waiting here could never end.
    pub fn wait(mut self) -> Result<V> {
        self.event.wait()?;
        self.take()
    }

    /// As [`Pending::wait`], for so long at most. After a timeout the future is
    /// as it was.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if the command is not over by then (it goes on);
    /// else as [`Pending::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<V> {
        self.event.wait_timeout(timeout)?;
        self.take()
    }

    /// Calls `callback` with the value when the command is over, or now if it
    /// is; on whichever thread ends the command, with no lock held. It may wait, as
    /// [`Event::on_complete`] says.
    pub fn on_complete(mut self, callback: impl FnOnce(Result<V>) + Send + 'static)
    where
        V: 'static,
    {
        let event = self.event.clone();
        event.on_complete(move |result| callback(result.and_then(|()| self.take())));
    }

    /// Asks that the command not be run, as [`Event::cancel`].
    pub fn cancel(&self) {
        self.event.cancel();
    }
}

impl<V> Future for Pending<V> {
    type Output = Result<V>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<V>> {
        let this = self.get_mut();
        Pin::new(&mut this.event)
            .poll(context)
            .map(|result| result.and_then(|()| this.take()))
    }
}

impl<V> Waitable for Pending<V> {
    type Value = V;

    fn event(&self) -> &Event {
        &self.event
    }

    fn forget_waker(&mut self) {
        self.event.forget_waker();
    }
}

impl<V> fmt::Debug for Pending<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({:?})", self.event)
    }
}

//! Wakers are a user's code: they are cloned, woken and dropped with nothing locked.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_scheduler::UserEvent;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A waker that completes an event as it is dropped.
struct Completes(Mutex<Option<UserEvent>>);

impl Wake for Completes {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Completes {
    fn drop(&mut self) {
        if let Some(event) = self.0.lock().unwrap().take() {
            event.complete();
        }
    }
}

#[test]
fn a_waker_that_is_replaced_may_end_what_it_waited_for() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let user = UserEvent::new();
        let mut event = user.event();
        let mut poll = |waker: &Waker| {
            let mut context = Context::from_waker(waker);
            Pin::new(&mut event).poll(&mut context)
        };
        let first = Waker::from(Arc::new(Completes(Mutex::new(Some(user)))));
        assert!(poll(&first).is_pending());
        drop(first);
        let second = poll(Waker::noop());
        tell.send(matches!(second, Poll::Ready(Ok(())))).unwrap();
    });
    let is_finished = told.recv_timeout(Duration::from_secs(60));
    assert!(is_finished.expect("it waits for itself"));
}

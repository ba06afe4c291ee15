//! Tasks and callbacks that fork. The child's only thread is the one that runs them, which may be a
//! driver's own: the child ends when the user's code has returned. On a thread of the program's it
//! goes on after the wait or call that has run the task.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::{Event, Queue, Request, UserEvent};
use std::panic::resume_unwind;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

cases! {
    Anything:
        a_child_of_a_task_ends_with_it,
        a_child_of_a_callback_ends_with_it;
}

const PANICKED: libc::c_int = 101;
/// Another task was run in a child.
const WENT_ON: libc::c_int = 9;
/// A wait in a child has not said why it is none.
const NOT_TOLD: libc::c_int = 8;

/// The process that forks. In its child, nothing of the test is done that could wait.
#[derive(Clone, Copy)]
struct Parent(u32);

impl Parent {
    fn new() -> Self {
        Self(process::id())
    }

    fn is_here(self) -> bool {
        process::id() == self.0
    }

    /// Forks, and tells the parent of the child, by an atomic: a child that dropped a channel's end
    /// could wait for the channel's lock. The child panics, or returns.
    fn fork(self, panics: bool, tell: &AtomicI32) {
        // SAFETY: the child calls Quipu alone, which takes care of that.
        match unsafe { libc::fork() } {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                // It ends a child that hangs, also on a thread that takes no signals.
                // SAFETY: a set that is made whole before it is used, and a number.
                unsafe {
                    let mut alarm = std::mem::zeroed();
                    libc::sigemptyset(&raw mut alarm);
                    libc::sigaddset(&raw mut alarm, libc::SIGALRM);
                    let unblock = libc::SIG_UNBLOCK;
                    libc::pthread_sigmask(unblock, &raw const alarm, std::ptr::null_mut());
                    libc::alarm(60);
                }
                if panics {
                    // No hook is called, which might wait for a lock.
                    resume_unwind(Box::new("in a child"));
                }
            }
            child => tell.store(child, Ordering::SeqCst),
        }
    }

    /// Ends a child that has come back to the program's own thread, as if its task had ended it.
    fn end_child(self, panics: bool, waited: &Result<()>) {
        if self.is_here() {
            return;
        }
        let is_told = |error: &quipu_scheduler::Error| {
            // If its task has failed by then, that is known, too.
            matches!(
                error.kind(),
                ErrorKind::Forked { .. } | ErrorKind::Panicked { .. }
            )
        };
        let status = match waited {
            Err(error) if !is_told(error) => NOT_TOLD,
            _ if panics => PANICKED,
            _ => 0,
        };
        // SAFETY: the call takes a number.
        unsafe { libc::_exit(status) }
    }
}

/// A task that is run in no child.
fn follower(queue: &Queue, parent: Parent) -> Event {
    let body = move |_: &[_]| {
        if !parent.is_here() {
            // SAFETY: the call takes a number.
            unsafe { libc::_exit(WENT_ON) };
        }
        Ok(())
    };
    queue.host_task(body, &Request::default()).unwrap()
}

fn assert_ends(child: libc::pid_t, panics: bool) {
    let mut status = 0;
    // SAFETY: the status is there until the call returns.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let ended = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    assert_eq!(
        ended,
        Some(if panics { PANICKED } else { 0 }),
        "{status:#x}"
    );
}

/// `begin` enqueues what forks, behind an event. A waiting thread may run it itself, and one that
/// does not wait leaves it to others.
fn forks(
    fixture: &dyn Fixture,
    begin: impl Fn(&Queue, &[Event], Box<dyn FnOnce() + Send>) -> Event,
) {
    for (panics, waits) in [(false, false), (false, true), (true, false), (true, true)] {
        let stage = Stage::new(fixture);
        let (queue, gate, parent) = (stage.in_order(), UserEvent::new(), Parent::new());
        let child = Arc::new(AtomicI32::new(0));
        let tell = child.clone();
        let fork = Box::new(move || parent.fork(panics, &tell));
        let event = begin(&queue, &[gate.event()], fork);
        let behind = follower(&queue, parent);
        gate.complete();
        parent.end_child(panics, &Ok(()));
        if waits {
            let waited = behind.wait();
            parent.end_child(panics, &waited);
            waited.unwrap();
        }
        queue.flush();
        parent.end_child(panics, &Ok(()));
        while child.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_ends(child.load(Ordering::SeqCst), panics);
        let waited = event.wait();
        parent.end_child(panics, &waited);
        waited.unwrap();
    }
}

fn a_child_of_a_task_ends_with_it(fixture: &dyn Fixture) {
    forks(fixture, |queue, waits, fork| {
        let request = Request {
            waits,
            ..Request::default()
        };
        let body = move |_: &[_]| {
            fork();
            Ok(())
        };
        queue.host_task(body, &request).unwrap()
    });
}

fn a_child_of_a_callback_ends_with_it(fixture: &dyn Fixture) {
    forks(fixture, |queue, waits, fork| {
        let event = nothing(queue, &[], waits);
        event.on_complete(move |_| fork());
        event
    });
}

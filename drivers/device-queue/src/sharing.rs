//! Work that a thread shares with other threads of the driver: parked ones that exist anyway, so
//! that no thread is spawned for a copy that takes a millisecond.
//!
//! 1. A thread that shares asks so many [`Workers`] to come, and begins at once itself.
//! 2. One that comes while there is work takes part; one that comes later finds the door closed,
//!    and touches nothing. So nobody waits for a thread that does not come, as when all are at
//!    work.
//! 3. When the first is done it closes the door, and waits for those that are inside.

use crate::workers::Workers;
use quipu_scheduler::operation::drop_panic;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The count of threads that take part.
#[derive(Default)]
struct Door {
    state: Mutex<State>,
    empty: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    inside: usize,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> bool {
        let mut state = self.state();
        state.inside += usize::from(!state.closed);
        !state.closed
    }

    fn leave(&self) {
        let mut state = self.state();
        state.inside -= 1;
        if state.inside == 0 {
            self.empty.notify_all();
        }
    }
}

/// Closes the door as it is dropped, and waits until nobody is inside.
struct Closing<'a>(&'a Door);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let empty = &self.0.empty;
        let waited = empty.wait_while(state, |state| state.inside > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The call that others are handed: used between entering and leaving only.
struct Part(*const (dyn Fn() + Sync));

// SAFETY: the function that it points to may be called by any thread.
unsafe impl Send for Part {}

impl Workers {
    /// Calls this on this thread, and meanwhile on so many others at most; returns when all calls
    /// have. A call takes its share of the work from an object that all look at, and returns when
    /// there is none left.
    ///
    /// # Panics
    /// If the call on this thread does, when the others have returned. Panics of the others are
    /// dropped.
    pub fn share(self: &Arc<Self>, others: usize, part: &(dyn Fn() + Sync)) {
        let door = Arc::new(Door::default());
        // SAFETY: its life is made longer in name only: a thread that calls it is inside, and this
        // does not return before the door is closed and no thread is inside.
        let lasting =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(part) };
        let closing = Closing(&door);
        for _ in 0..others {
            let (door, part) = (door.clone(), Part(lasting));
            let stranded = self.run_on_another(Box::new(move || {
                // The whole of it, not its field, is the task's.
                let part = part;
                if door.enter() {
                    // SAFETY: the task has entered the door, and the caller waits for all that are
                    // inside.
                    let call = || unsafe { (*part.0)() };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
                        drop_panic(panic);
                    }
                    door.leave();
                }
            }));
            if stranded.is_some() {
                // The system gives no thread.
                break;
            }
        }
        part();
        drop(closing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn all_is_done_once_however_many_come() {
        let workers = Workers::new("sharing");
        for others in [0, 1, 3, 40] {
            for pieces in [0, 1, 1000] {
                let next = AtomicUsize::new(0);
                let done: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                workers.share(others, &|| {
                    while let Some(piece) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                        piece.fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn others_take_part() {
        let workers = Workers::new("sharing");
        let (send, receive) = channel();
        let (send, receive) = (Mutex::new(send), Mutex::new(receive));
        let first = std::thread::current().id();
        // The first is done when the other was here.
        workers.share(1, &|| {
            if std::thread::current().id() == first {
                let receive = receive.lock().expect("nobody panics with it");
                assert_ne!(receive.recv(), Ok(first));
            } else {
                let send = send.lock().expect("nobody panics with it");
                send.send(std::thread::current().id())
                    .expect("it is awaited");
            }
        });
    }

    #[test]
    fn it_returns_when_no_thread_comes() {
        let workers = Workers::new("sharing");
        let (hold, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let begun = Arc::new(AtomicUsize::new(0));
        let most = workers.most();
        for _ in 0..most {
            let (held, begun) = (held.clone(), begun.clone());
            workers.run(Box::new(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let held = held.lock().expect("nobody panics with it");
                let _ = held.recv();
            }));
        }
        while begun.load(Ordering::SeqCst) < most {
            std::thread::yield_now();
        }
        let calls = AtomicUsize::new(0);
        workers.share(2, &|| {
            calls.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        drop(hold);
        // Those that come now find the door closed.
        while !workers.is_idle() {
            std::thread::yield_now();
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_here_waits_for_the_others() {
        let workers = Workers::new("sharing");
        let (is_finished, first) = (AtomicBool::new(false), std::thread::current().id());
        let (send, receive) = channel::<()>();
        let (send, receive) = (Mutex::new(Some(send)), Mutex::new(receive));
        let share = || {
            workers.share(1, &|| {
                if std::thread::current().id() == first {
                    let _ = receive.lock().expect("nobody panics with it").recv();
                    panic!("here");
                }
                drop(send.lock().expect("nobody panics with it").take());
                (0..1000).for_each(|_| std::thread::yield_now());
                is_finished.store(true, Ordering::SeqCst);
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(share)).is_err());
        assert!(is_finished.load(Ordering::SeqCst));
    }
}

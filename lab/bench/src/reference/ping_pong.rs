//! Two threads that sleep and wake each other: the floor of every wait.
//!
//! A round trip is: the caller wakes the partner and sleeps; the partner wakes, wakes the caller
//! and sleeps. No side ever spins. The standard library offers two ways, parking and a condition
//! variable; benchmarks report the better.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// The side whose turn it is.
const CALLER: usize = 0;
const PARTNER: usize = 1;
const STOP: usize = 2;

/// A partner thread to exchange wake-ups with. Stays on the thread that made it: the partner wakes
/// that thread.
pub struct PingPong {
    method: Method,
    partner: Option<JoinHandle<()>>,
    /// The time at which the partner last woke, in nanoseconds after `origin`.
    woke: Arc<AtomicU64>,
    /// The number of times that the partner woke.
    wakes: Arc<AtomicUsize>,
    origin: Instant,
    not_send: PhantomData<*const ()>,
}

enum Method {
    Parked(Arc<AtomicUsize>),
    Condition(Arc<(Mutex<usize>, Condvar)>),
}

/// The cost of one wake.
#[derive(Clone, Copy, Debug)]
pub struct WakeCost {
    /// The time for which the thread that wakes is busy with it.
    pub waker: Duration,
    /// From the start of the wake to the sleeper running.
    pub one_way: Duration,
}

impl PingPong {
    /// Partners that park and unpark each other.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn parked() -> Result<Self, BenchError> {
        let turn = Arc::new(AtomicUsize::new(CALLER));
        let theirs = Arc::clone(&turn);
        let caller = std::thread::current();
        PingPong::start(Method::Parked(turn), move |woken| {
            partner_parks(&theirs, &caller, &woken);
        })
    }

    /// Partners that wait on one condition variable.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn condition() -> Result<Self, BenchError> {
        let turn = Arc::new((Mutex::new(CALLER), Condvar::new()));
        let theirs = Arc::clone(&turn);
        PingPong::start(Method::Condition(turn), move |woken| {
            partner_waits(&theirs, &woken);
        })
    }

    fn start(
        method: Method,
        partner: impl FnOnce(Box<dyn Fn()>) + Send + 'static,
    ) -> Result<Self, BenchError> {
        let woke = Arc::new(AtomicU64::new(0));
        let origin = Instant::now();
        let stamp = Arc::clone(&woke);
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        let partner = std::thread::Builder::new()
            .name("ping-pong".into())
            .spawn(move || {
                partner(Box::new(move || {
                    stamp.store(nanoseconds(origin.elapsed()), Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                }));
            })
            .map_err(|source| BenchError::Threads {
                reference: "ping-pong",
                workers: 1,
                source: Box::new(source),
            })?;
        Ok(PingPong {
            method,
            partner: Some(partner),
            woke,
            wakes,
            origin,
            not_send: PhantomData,
        })
    }

    /// The method's name.
    pub fn name(&self) -> &'static str {
        match self.method {
            Method::Parked(_) => "ping-pong (park)",
            Method::Condition(_) => "ping-pong (condition variable)",
        }
    }

    /// One round trip.
    pub fn trip(&mut self) -> Duration {
        let started = Instant::now();
        self.wake(PARTNER);
        self.sleep();
        started.elapsed()
    }

    /// One round trip, of which the way there is reported: the partner should be asleep.
    pub fn wake_cost(&mut self) -> WakeCost {
        let started = Instant::now();
        let before = nanoseconds(self.origin.elapsed());
        self.wake(PARTNER);
        let waker = started.elapsed();
        self.sleep();
        let woke = self.woke.load(Ordering::Relaxed);
        WakeCost {
            waker,
            one_way: Duration::from_nanos(woke.saturating_sub(before)),
        }
    }

    /// The number of trips that have reached the partner.
    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Relaxed)
    }

    fn wake(&self, turn: usize) {
        match &self.method {
            Method::Parked(shared) => {
                shared.store(turn, Ordering::Release);
                if let Some(partner) = &self.partner {
                    partner.thread().unpark();
                }
            }
            Method::Condition(shared) => {
                *shared.0.lock().unwrap_or_else(PoisonError::into_inner) = turn;
                shared.1.notify_one();
            }
        }
    }

    fn sleep(&self) {
        match &self.method {
            Method::Parked(shared) => {
                while shared.load(Ordering::Acquire) != CALLER {
                    std::thread::park();
                }
            }
            Method::Condition(shared) => {
                let mut turn = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
                while *turn != CALLER {
                    turn = shared.1.wait(turn).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.wake(STOP);
        if let Some(partner) = self.partner.take() {
            // The partner runs no code of others: it does not panic.
            let _ = partner.join();
        }
    }
}

fn partner_parks(turn: &AtomicUsize, caller: &Thread, woken: &dyn Fn()) {
    loop {
        match turn.load(Ordering::Acquire) {
            CALLER => std::thread::park(),
            PARTNER => {
                woken();
                turn.store(CALLER, Ordering::Release);
                caller.unpark();
            }
            _ => return,
        }
    }
}

fn partner_waits(shared: &(Mutex<usize>, Condvar), woken: &dyn Fn()) {
    let mut turn = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match *turn {
            CALLER => turn = shared.1.wait(turn).unwrap_or_else(PoisonError::into_inner),
            PARTNER => {
                woken();
                *turn = CALLER;
                shared.1.notify_one();
            }
            _ => return,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trip_reaches_the_partner_once_and_partners_stop() {
        for make in [PingPong::parked, PingPong::condition] {
            let mut partners = make().expect("one thread");
            for trip in 1..=100 {
                partners.trip();
                assert_eq!(partners.wakes(), trip);
            }
        }
    }

    #[test]
    fn the_way_there_is_part_of_the_round_trip() {
        let mut partners = PingPong::parked().expect("one thread");
        for _ in 0..20 {
            let started = Instant::now();
            let cost = partners.wake_cost();
            assert!(cost.one_way <= started.elapsed());
        }
    }
}

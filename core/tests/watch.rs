//! A wait that takes long is logged, once, with the waiting threads and their goals.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::{log_waits_longer_than, wait_graph};
use quipu_scheduler::{Clock, UserEvent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps log records that are warnings.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<String>>>);

impl Visit for &Keeper {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }
}

/// Time passes while somebody sleeps, and only then. In milliseconds.
struct Asleep(AtomicU64);

impl Clock for Asleep {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn park(&self, timeout: Duration) {
        let timeout = timeout.as_millis().max(1) as u64;
        self.0.fetch_add(timeout, Ordering::Relaxed);
    }
}

#[test]
fn a_long_wait_is_logged_once_and_a_short_one_is_not() {
    let keeper = Keeper::default();
    let never = UserEvent::new();
    let clock = Asleep(AtomicU64::new(77));
    let wait = |seconds| {
        let event = never.event();
        let waited = tracing::subscriber::with_default(keeper.clone(), || {
            event.wait_with_clock(Duration::from_secs(seconds), &clock)
        });
        let error = waited.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
        std::mem::take(&mut *keeper.0.lock().unwrap())
    };
    assert_eq!(wait(100), [""; 0], "nobody has asked for it");
    log_waits_longer_than(Some(Duration::from_secs(10)));
    assert_eq!(wait(9), [""; 0]);
    let logged = wait(100);
    let [logged] = &logged[..] else {
        panic!("logged more than once, or not at all: {logged:?}");
    };
    for part in [
        "has taken 10.0s by now",
        "1 thread waits",
        "a_long_wait_is_logged_once",
        "for a user event made at ",
        file!(),
    ] {
        assert!(logged.contains(part), "'{part}' is not in: {logged}");
    }
    log_waits_longer_than(None);
    assert_eq!(wait(100), [""; 0]);
    assert!(wait_graph().starts_with("no thread waits"));
}

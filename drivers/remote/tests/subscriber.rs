//! A log's subscriber is the program's code: one that panics costs a session nothing.
// Elsewhere the system does not say within a known time that a connection is lost, and sessions end
// with it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]
#![allow(dead_code, reason = "other tests use the rest of it")]

mod support;

use quipu_conformance::Watchdog;
use quipu_node::Limits;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, QueueOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Rig, pool};
use tracing::{Metadata, Subscriber, span};

/// The lost connections that it was told of before it panicked.
static TOLD: AtomicUsize = AtomicUsize::new(0);

struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quipu")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if event
            .metadata()
            .target()
            .starts_with("quipu_driver_remote::resume")
        {
            TOLD.fetch_add(1, Ordering::SeqCst);
        }
        panic!("a subscriber that panics");
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_session_goes_on_though_the_log_panics() {
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "a log that panics".to_owned());
    let rig = Rig::new(pool(1), Limits::default());
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let access = |mode| Access {
        memory: &memory,
        offset: 0,
        length: 64,
        mode,
    };
    tracing::subscriber::set_global_default(Panics).unwrap();
    for number in 1..=8 {
        let before = TOLD.load(Ordering::SeqCst);
        // Each side may find the loss first.
        if number % 2 == 0 {
            rig.node.cut();
        } else {
            remote.vendor().cut();
        }
        let fill = queue.fill(access(AccessMode::Overwrite), &[number], &[]);
        fill.unwrap().wait().expect("the session ends with the log");
        let mut back = [0; 64];
        // SAFETY: kept, and not looked at, until the command is over.
        let host = unsafe { HostMemory::new(back.as_mut_ptr(), back.len(), None) };
        let read = queue.read(access(AccessMode::Read), host, 64, &[], &[]);
        read.unwrap().wait().unwrap();
        assert_eq!(back, [number; 64]);
        while TOLD.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
    }
}

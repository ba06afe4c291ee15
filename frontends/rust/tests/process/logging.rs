//! A subscriber of the log that uses Quipu itself, as drivers start: it does not wait for the
//! thread that it runs on.

use quipu::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Starts all drivers again with the first events of the log.
struct Starts {
    events: AtomicU32,
}

impl Subscriber for Starts {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        if self.events.fetch_add(1, Ordering::Relaxed) < 20 {
            drop(Platform::builder().without_nodes().build_available());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

pub(crate) fn start_within_the_log() {
    // One platform of OpenCL's is missing, which the log says.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("missing.icd"), "libmissing-opencl.so\n").unwrap();
    // SAFETY: the process has one thread.
    unsafe { std::env::set_var("QUIPU_OPENCL_VENDORS", folder.path()) };
    let starts = Starts {
        events: AtomicU32::new(0),
    };
    tracing::subscriber::set_global_default(starts).unwrap();
    let platform = Platform::builder().without_nodes().build_available();
    assert!(!platform.devices().is_empty());
    println!("drivers were started within the log");
}

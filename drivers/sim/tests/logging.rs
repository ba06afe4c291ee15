//! The log shows every command that is enqueued, on any driver, with the places of its arguments.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_scheduler::{AccessMode, Context, Device, Driver, QueueOptions, Request};
use std::fmt::Write;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{all, part, read, update, write};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static EVERYTHING: AtomicBool = AtomicBool::new(false);

/// Keeps Quipu's log, one line a record: `message field=value ...`.
struct Keeper;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}{}", self.0);
        } else {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Some(*metadata.level()) <= self.max_level_hint().and_then(LevelFilter::into_level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if EVERYTHING.load(Ordering::Relaxed) {
            LevelFilter::TRACE
        } else {
            LevelFilter::DEBUG
        })
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
}

/// One command of each kind that moves or computes, and a host task; gives the log from meanwhile.
fn work(device: &Device, context: &Context) -> Vec<String> {
    LINES.lock().unwrap().clear();
    let queue = context.queue(device, QueueOptions::default()).unwrap();
    let (a, b) = (
        context.memory(8 * 100).unwrap(),
        context.memory(8 * 100).unwrap(),
    );
    write(&queue, &a, &[7; 100]);
    update(&queue, &a, 1, &[]);
    queue
        .fill(part(&b, 10, 20, AccessMode::Overwrite), &[3; 8], &[])
        .unwrap();
    queue
        .copy(
            part(&a, 0, 50, AccessMode::Read),
            part(&b, 50, 50, AccessMode::Overwrite),
            400,
            &[],
            &[],
        )
        .unwrap();
    let accesses = [all(&a, AccessMode::Read)];
    let request = Request {
        accesses: &accesses,
        label: Some("look at it"),
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap();
    assert_eq!(read(&queue, &b).unwrap()[99], 22);
    queue.wait().unwrap();
    std::mem::take(&mut *LINES.lock().unwrap())
}

fn has(lines: &[String], parts: &[&str]) -> bool {
    lines
        .iter()
        .any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn the_log_shows_what_is_enqueued_and_where_its_arguments_are() {
    tracing::subscriber::set_global_default(Keeper).unwrap();
    let drivers: [Arc<dyn Driver>; 3] = [
        Arc::new(SerialDriver::new()),
        CpuDriver::start(Options::new().workers(NonZero::new(2).unwrap())).unwrap(),
        SimDriver::start(Configuration::separate_memory(1, 1 << 20)).unwrap(),
    ];
    for everything in [false, true] {
        EVERYTHING.store(everything, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
        for driver in &drivers {
            let devices = Device::all_of(driver).unwrap();
            let context = Context::new(&devices).unwrap();
            let lines = work(&devices[0], &context);
            let on = format!("device=\"{}\"", devices[0].name());
            for (kind, name, bytes) in [
                ("write", "write", 800),
                ("launch", "update", 800),
                ("fill", "fill", 160),
                ("copy", "copy", 400),
                ("host task", "look at it", 800),
                ("read", "read", 800),
            ] {
                let parts = [
                    "enqueued ".to_owned(),
                    format!("name=\"{name}\""),
                    format!("kind=\"{kind}\""),
                    format!("bytes={bytes} "),
                    "groups=1 ".to_owned(),
                    "queue=".to_owned(),
                    on.clone(),
                ];
                let parts = parts.each_ref().map(String::as_str);
                assert!(has(&lines, &parts), "{parts:?}: {lines:#?}");
                let started = format!("started name=\"{name}\"");
                assert_eq!(has(&lines, &[&started]), everything, "{lines:#?}");
            }
            let copied = ["with ", "offset=400 bytes=400 mode=Overwrite", "pointer=0x"];
            assert_eq!(has(&lines, &copied), everything, "{lines:#?}");
        }
    }
}

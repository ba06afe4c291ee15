//! A session whose client has not come back in time is fenced: commands that it has held back never
//! take effect, whoever lets them go.
// Elsewhere the system does not say within a known time that a connection is lost, and sessions end
// with it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::Watchdog;
use quipu_link::LinkError;
use quipu_link::session::Place;
use quipu_link::timer::ManualTimer;
use quipu_node::{Limits, Maker};
use quipu_protocol::message::{
    CreateProgram, Message, Operation, Placeholder, ProgramFormat, Refusal, Wait, Write,
};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{RawArgument, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use support::{Client, Rig, buffer, command, fill, one_thread};

/// The kernels' data. Each kernel keeps it until it has run, or never will.
#[derive(Default)]
struct Seen {
    /// A kernel waits until it is opened.
    is_open: Mutex<bool>,
    opened: Condvar,
    waits: AtomicBool,
    /// The number of times that the other has run.
    ran: AtomicU64,
}

struct Waits(Arc<Seen>);

impl NativeKernel for Waits {
    fn name(&self) -> &'static str {
        "waits"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        self.0.waits.store(true, Ordering::SeqCst);
        let is_open = self.0.is_open.lock().unwrap();
        drop(self.0.opened.wait_while(is_open, |open| !*open).unwrap());
        Ok(())
    }
}

struct Counts(Arc<Seen>);

impl NativeKernel for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

const WAITS: u64 = 1;
const COUNTS: u64 = 2;

fn programs() -> [Message<'static>; 2] {
    [(WAITS, &[1; 32]), (COUNTS, &[2; 32])].map(|(program, name)| {
        Message::CreateProgram(CreateProgram {
            program,
            format: ProgramFormat::Native,
            source: name,
            entry: "kernel",
            options: "",
        })
    })
}

/// A node whose kernels these are.
fn rig(seen: &Arc<Seen>, timer: &Arc<ManualTimer>) -> Rig {
    let limits = Limits {
        // Time passes for nothing but patience.
        run_time: Duration::ZERO,
        compile_time: Duration::ZERO,
        ..Limits::default()
    };
    let (waits, counts) = (seen.clone(), seen.clone());
    let waits: Maker = Arc::new(move |_| Ok(Box::new(Waits(waits.clone())) as _));
    let counts: Maker = Arc::new(move |_| Ok(Box::new(Counts(counts.clone())) as _));
    Rig::with_folder(limits, |options, _| {
        options.timer = timer.clone();
        options.natives = Arc::new(HashMap::from([([1; 32], waits), ([2; 32], counts)]));
    })
}

#[test]
fn what_is_held_back_when_its_session_is_fenced_never_takes_effect() {
    let _watchdog = Watchdog::start(Duration::from_secs(600), "fencing".to_owned());
    let (seen, timer) = (Arc::<Seen>::default(), Arc::new(ManualTimer::default()));
    let rig = rig(&seen, &timer);
    let kept = Arc::strong_count(&seen);
    for round in 0..20_u64 {
        *seen.is_open.lock().unwrap() = false;
        seen.waits.store(false, Ordering::SeqCst);
        let begun = rig.dial(0).begin(support::PATIENCE).unwrap();
        let (session, patience) = (begun.terms.session.0, begun.terms.patience);
        assert!(patience > Duration::ZERO && patience < support::PATIENCE);
        let mut client = Client::over(begun.connection, &begun.terms, 0);
        client.send(&programs());
        // What the client would say some time, bytes that it would send, and a kernel that goes on
        // for as long as somebody likes.
        let bytes = Operation::Write(Write {
            buffer: 1,
            offset: 0,
            row: 1 << 20,
            steps: &[],
            transfer: 1,
            bytes: &[],
        });
        client.send(&[
            buffer(1, 1 << 20),
            Message::Placeholder(Placeholder { event: 1, peer: 0 }),
            command(2, &[], bytes),
            command(3, &[], one_thread(WAITS)),
        ]);
        let mut event = 3;
        for other in 0..=round % 4 {
            for held in 1..=3 {
                // Behind its success, or its end.
                for wait in [Wait::needs(held), Wait::after(held)] {
                    event += 1;
                    let mut counts =
                        command(event, std::slice::from_ref(&wait), one_thread(COUNTS));
                    if let Message::Command(command) = &mut counts {
                        command.queue = other as u32;
                    }
                    client.send(&[counts]);
                }
            }
        }
        while !seen.waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // It has all of it: what comes last is over.
        event += 1;
        client.send(&[command(event, &[], Operation::Nothing)]);
        assert_eq!(client.end_of(event), None);
        // Nobody is told that it is gone.
        rig.node.cut();
        drop(client);
        // Its stream waits, and the thread that looks after the node.
        let wait = || {
            while timer.waiting() < 2 {
                std::thread::yield_now();
            }
        };
        wait();
        timer.advance(patience - Duration::from_nanos(1));
        wait();
        assert_eq!(rig.node.sessions(), 1);
        timer.advance(Duration::from_nanos(1));
        while rig.node.sessions() > 0 {
            std::thread::yield_now();
        }
        // Its client comes too late to say any of it.
        let place = Place {
            session: (session, 2),
            received: 0,
            patience: support::PATIENCE,
            key: None,
            alone: false,
        };
        match rig.dial(0).resume(false, &place).unwrap_err() {
            LinkError::Refused { refusal, .. } => assert_eq!(refusal, Refusal::NoSession),
            other => panic!("{other}"),
        }
        // Others go on, also while that kernel does.
        let mut other = rig.client_of(1);
        other.send(&[buffer(1, 64), command(1, &[], fill(1, 64))]);
        assert_eq!(other.end_of(1), None);
        drop(other);
        *seen.is_open.lock().unwrap() = true;
        seen.opened.notify_all();
        rig.is_empty();
        // Nobody has a kernel any more, which might still run.
        while Arc::strong_count(&seen) > kept {
            std::thread::yield_now();
        }
        assert_eq!(seen.ran.load(Ordering::SeqCst), 0, "round {round}");
    }
    // As the same does where nobody is fenced.
    let mut client = rig.client();
    client.send(&programs());
    client.send(&[command(1, &[], one_thread(COUNTS))]);
    assert_eq!(client.end_of(1), None);
    assert_eq!(seen.ran.load(Ordering::SeqCst), 1);
}

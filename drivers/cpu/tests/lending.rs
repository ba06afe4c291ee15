//! A thread that lends itself runs the brief ones of its own commands, and nothing else; and bytes
//! that are lent to the host.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::driver::InlineExecutor;
use quipu_scheduler::memory::mapping::{HostLease, HostQueue};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions,
    RawArgument, Request, Result, UserEvent,
};
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::ThreadId;

/// The threads on which launches ran, in order.
type Ran = Arc<Mutex<Vec<ThreadId>>>;

/// A kernel that says where it ran, and adds one.
struct Where {
    ran: Ran,
    brief: bool,
}

impl NativeKernel for Where {
    fn name(&self) -> &'static str {
        "where"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> Result<()> {
        self.ran.lock().unwrap().push(std::thread::current().id());
        if let Some(number) = arguments.first() {
            // SAFETY: a byte is there, which this command alone writes.
            unsafe { *number.pointer = (*number.pointer).wrapping_add(1) };
        }
        Ok(())
    }

    fn is_brief(&self, _: u32) -> bool {
        self.brief
    }
}

struct Rig {
    driver: Arc<dyn Driver>,
    context: Context,
    queue: Queue,
    ran: Ran,
}

impl Rig {
    fn new() -> Self {
        let options = Options::new().workers(NonZero::new(2).unwrap());
        let driver: Arc<dyn Driver> = CpuDriver::start(options).unwrap();
        let devices = Device::all_of(&driver).unwrap();
        let context = Context::new(&devices).unwrap();
        let options = QueueOptions {
            in_order: false,
            ..QueueOptions::default()
        };
        let queue = context.queue(&devices[0], options).unwrap();
        Self {
            driver,
            context,
            queue,
            ran: Ran::default(),
        }
    }

    fn launch(&self, brief: bool, memory: Option<&MemoryRef>, waits: &[Event]) -> Event {
        let access = memory.map(|memory| Access::whole(memory, AccessMode::ReadWrite));
        let request = Request {
            accesses: access.as_slice(),
            waits,
            ..Request::default()
        };
        let ran = self.ran.clone();
        self.queue
            .launch(Where { ran, brief }, 1, &request)
            .unwrap()
    }

    fn inline_executor(&self) -> Box<dyn InlineExecutor> {
        self.driver
            .inline_executor()
            .expect("the pool has use for that")
    }

    fn ran(&self) -> Vec<ThreadId> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }
}

#[test]
fn what_is_brief_runs_on_the_thread_and_only_when_it_says_so() {
    let rig = Rig::new();
    let me = std::thread::current().id();
    let mut inline_executor = rig.inline_executor();
    for _ in 0..100 {
        inline_executor.begin();
        let brief = rig.launch(true, None, &[]);
        assert!(!brief.is_complete() && rig.ran().is_empty());
        inline_executor.run();
        assert!(brief.is_complete());
        assert_eq!(rig.ran(), [me]);
        inline_executor.end();
        // After that, it is as ever.
        rig.launch(true, None, &[]).wait().unwrap();
        assert_eq!(rig.ran().len(), 1);
    }
}

#[test]
fn what_is_kept_is_the_workers_while_a_callback_blocks() {
    let rig = Rig::new();
    let me = std::thread::current().id();
    let mut inline_executor = rig.inline_executor();
    inline_executor.begin();
    let (tell, told) = mpsc::channel();
    let kept = rig.launch(true, None, &[]);
    let first = rig.launch(true, None, &[]);
    let after = rig.launch(true, None, std::slice::from_ref(&first));
    for event in [&kept, &after] {
        let tell = tell.clone();
        event.on_complete(move |_| tell.send(()).unwrap());
    }
    let (heard, hears) = mpsc::channel();
    first.on_complete(move |_| {
        let patience = std::time::Duration::from_secs(60);
        let both = [(); 2].map(|()| told.recv_timeout(patience));
        heard.send(both).unwrap();
    });
    inline_executor.run();
    assert_eq!(hears.recv().unwrap(), [Ok(()), Ok(())]);
    inline_executor.end();
    let ran = rig.ran();
    assert_eq!(ran.len(), 3);
    // The pool may be quicker than this thread, and run all.
    assert!(ran.iter().filter(|thread| **thread == me).count() <= 1);
}

#[test]
fn what_may_take_long_is_never_run_there() {
    let rig = Rig::new();
    let me = std::thread::current().id();
    let mut inline_executor = rig.inline_executor();
    inline_executor.begin();
    let long: Vec<Event> = (0..50).map(|_| rig.launch(false, None, &[])).collect();
    // Released by a brief command, it goes to a worker all the same.
    let brief = rig.launch(true, None, &[]);
    let after = rig.launch(false, None, &[brief]);
    inline_executor.run();
    // While this thread is a guest still; one that waits for commands would run some of them.
    let (said, hears) = mpsc::channel();
    for event in long.iter().chain([&after]) {
        let said = said.clone();
        event.on_complete(move |outcome| said.send(outcome).unwrap());
    }
    for _ in 0..51 {
        hears.recv().unwrap().unwrap();
    }
    inline_executor.end();
    let ran = rig.ran();
    assert_eq!(ran.len(), 52);
    assert_eq!(ran.iter().filter(|thread| **thread == me).count(), 1);
}

#[test]
fn a_chain_runs_in_order_whoever_runs_it() {
    let rig = Rig::new();
    let memory = rig.context.memory(1).unwrap();
    let mut inline_executor = rig.inline_executor();
    for round in 1..=20_u32 {
        inline_executor.begin();
        let mut last = None;
        for _ in 0..1000 {
            last = Some(rig.launch(true, Some(&memory), &[]));
        }
        inline_executor.run();
        inline_executor.end();
        last.unwrap().wait().unwrap();
        assert_eq!(rig.ran().len(), 1000);
        assert_eq!(u32::from(byte(&rig, &memory)), round * 1000 % 256);
    }
}

fn byte(rig: &Rig, memory: &MemoryRef) -> u8 {
    let mut byte = [0];
    // SAFETY: it is there until the read is over, which is waited for.
    let to = unsafe { quipu_scheduler::operation::HostMemory::new(byte.as_mut_ptr(), 1, None) };
    let from = Access::whole(memory, AccessMode::Read);
    rig.queue
        .read(from, to, 1, &[], &[])
        .unwrap()
        .wait()
        .unwrap();
    byte[0]
}

#[test]
fn what_was_kept_is_run_by_others_if_the_thread_does_not() {
    let rig = Rig::new();
    let me = std::thread::current().id();
    let mut inline_executor = rig.inline_executor();
    inline_executor.begin();
    let kept: Vec<Event> = (0..10).map(|_| rig.launch(true, None, &[])).collect();
    inline_executor.end();
    kept.iter().for_each(|event| event.wait().unwrap());
    // A thread that waits may run some as a guest, as ever.
    assert_eq!(rig.ran().len(), 10);
    inline_executor.begin();
    let kept = rig.launch(true, None, &[]);
    drop(inline_executor);
    let (said, hears) = mpsc::channel();
    kept.on_complete(move |outcome| said.send(outcome).unwrap());
    hears.recv().unwrap().unwrap();
    assert!(!rig.ran().contains(&me));
}

#[test]
fn a_wait_does_not_keep_what_was_kept_from_others() {
    let rig = Rig::new();
    let mut inline_executor = rig.inline_executor();
    inline_executor.begin();
    let kept = rig.launch(true, None, &[]);
    // Of another driver's command that only comes about with kept ones.
    let gate = UserEvent::new();
    let opened = gate.event();
    kept.on_complete(move |_| gate.complete());
    opened.wait().unwrap();
    inline_executor.end();
    // It lends itself again.
    inline_executor.begin();
    let kept = rig.launch(true, None, &[]);
    inline_executor.run();
    assert!(kept.is_complete());
}

#[test]
fn of_two_threads_one_lends_itself_and_the_other_enqueues_as_ever() {
    let rig = Arc::new(Rig::new());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let rig = rig.clone();
            std::thread::spawn(move || {
                let mut inline_executor = rig.inline_executor();
                for _ in 0..300 {
                    inline_executor.begin();
                    let events: Vec<Event> = (0..5).map(|_| rig.launch(true, None, &[])).collect();
                    inline_executor.run();
                    inline_executor.end();
                    events.iter().for_each(|event| event.wait().unwrap());
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(rig.ran().len(), 4 * 300 * 5);
}

#[test]
fn bytes_that_are_lent_have_their_turn_among_commands() {
    let rig = Rig::new();
    let host = HostQueue::new(&rig.context).unwrap();
    let memory = rig.context.memory(1).unwrap();
    let gate = UserEvent::new();
    let before = rig.launch(false, Some(&memory), &[gate.event()]);
    let (said, hears) = mpsc::channel::<Option<HostLease>>();
    let lent = host
        .lend(
            Access::whole(&memory, AccessMode::ReadWrite),
            &[],
            move |lent| {
                said.send(lent).unwrap();
            },
        )
        .unwrap();
    // No enqueue is refused.
    let after = rig.launch(false, Some(&memory), &[]);
    assert!(hears.try_recv().is_err());
    gate.complete();
    let bytes = hears.recv().unwrap().unwrap();
    assert!(before.is_complete() && !lent.is_complete() && !after.is_complete());
    // SAFETY: it is lent to be written.
    unsafe {
        assert_eq!(*bytes.bytes().pointer, 1);
        *bytes.bytes().pointer = 40;
    }
    bytes.finish(Ok(()));
    after.wait().unwrap();
    lent.wait().unwrap();
    assert_eq!(byte(&rig, &memory), 41);
}

#[test]
fn bytes_that_are_given_up_are_void_and_a_turn_that_never_comes_is_told() {
    let rig = Rig::new();
    let host = HostQueue::new(&rig.context).unwrap();
    let memory = rig.context.memory(1).unwrap();
    let lend = |waits: &[Event]| {
        let (said, hears) = mpsc::channel::<Option<HostLease>>();
        let to = Access::whole(&memory, AccessMode::Overwrite);
        let event = host.lend(to, waits, move |lent| said.send(lent).unwrap());
        (event.unwrap(), hears)
    };
    let (given_up, hears) = lend(&[]);
    let reader = rig.launch(false, Some(&memory), &[]);
    drop(hears.recv().unwrap().unwrap());
    assert!(given_up.wait().unwrap_err().is_cancelled());
    assert!(reader.wait().is_err());
    let gate = UserEvent::new();
    let (never, hears) = lend(&[gate.event()]);
    gate.fail("it was not to be");
    assert!(hears.recv().unwrap().is_none());
    let text = never.wait().unwrap_err().to_string();
    assert!(text.contains("it was not to be"), "{text}");
    let gate = UserEvent::new();
    let (cancelled, hears) = lend(&[gate.event()]);
    cancelled.cancel();
    gate.complete();
    assert!(hears.recv().unwrap().is_none());
    assert!(cancelled.wait().unwrap_err().is_cancelled());
}

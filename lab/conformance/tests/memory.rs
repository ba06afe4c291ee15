//! The memory of commands: a pending one takes at most 256 bytes in all, and many that are over
//! none, however many there have been. The only test of this process, for it counts all that
//! anybody allocates.

use quipu_conformance::{Fixture, fixture};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, Context, Event, MemoryRef, Queue, QueueOptions, RawArgument, Request,
    Result, UserEvent,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The system's memory, counted.
struct Counted;

/// Bytes that were allocated and not freed.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The size of an allocation by the usual allocators: they round it up, and keep its size beside
/// it.
const fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16)
}

// SAFETY: the system's, with nothing changed.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Commands that are pending at once: so many that what is allocated for many together makes no
/// difference.
const COMMANDS: usize = 400_000;

/// Bytes that one of them may take, whatever they are for.
const PENDING: usize = 256;

/// Bytes that it takes at least: fewer were not looked at when they should have been.
const LEAST: usize = 128;

/// Bytes that are no growth, which would be some for each command: what a worker keeps, who has not
/// had so much to do before.
const GROWTH: usize = 64 << 10;

static RAN: AtomicU64 = AtomicU64::new(0);

/// Counts its runs.
struct Count;

impl NativeKernel for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A queue, the buffers that all of its commands read and write, and the events of the last two.
struct Chain {
    queue: Queue,
    memories: Vec<MemoryRef>,
    last: Option<[Event; 2]>,
}

impl Chain {
    fn new(fixture: &dyn Fixture) -> Self {
        let devices = fixture.devices();
        let context = Context::new(&devices).expect("a context over fresh devices");
        let memory = |_| context.memory(8).expect("a small buffer");
        Self {
            queue: context
                .queue(&devices[0], QueueOptions::default())
                .expect("a queue of the context's device"),
            memories: (0..4).map(memory).collect(),
            last: None,
        }
    }

    /// Enqueues commands, each with four arguments and two events to wait for.
    fn enqueue(&mut self, commands: usize) {
        let memories = self.memories.iter();
        let accesses: Vec<Access<'_>> = memories
            .map(|memory| Access {
                memory,
                offset: 0,
                length: 8,
                mode: AccessMode::ReadWrite,
            })
            .collect();
        for _ in 0..commands {
            let request = Request {
                accesses: &accesses,
                waits: self.last.as_ref().map_or(&[], |last| &last[..]),
                ..Request::default()
            };
            let launched = self.queue.launch(Count, 1, &request);
            let event = launched.expect("a valid launch");
            self.last = Some(match self.last.take() {
                Some([_, before]) => [before, event],
                None => [event.clone(), event],
            });
        }
    }

    /// Enqueues them behind an event that is completed then, and waits for them. How many bytes
    /// each of them has taken while all waited.
    fn hold_back(&mut self, commands: usize) -> usize {
        let gate = UserEvent::new();
        self.last = Some([gate.event(), gate.event()]);
        // Objects that are made with the first few commands are no part of a command.
        self.enqueue(commands / 16);
        let before = in_use();
        self.enqueue(commands);
        let each = in_use().saturating_sub(before) / commands;
        gate.complete();
        self.finish(commands / 16 + commands);
        each
    }

    /// Waits for so many commands to be over.
    fn finish(&mut self, commands: usize) {
        self.queue.wait().expect("a queue of commands that succeed");
        self.last = None;
        assert_eq!(RAN.swap(0, Ordering::Relaxed), commands as u64);
    }
}

/// Nothing is kept of commands that are over, but for their slots, which are there for the next.
fn nothing_grows(fixture: &dyn Fixture) {
    let mut chain = Chain::new(fixture);
    // What is kept for the next time is there after the first, with some slots more, which threads
    // may keep at hand.
    chain.hold_back(COMMANDS + COMMANDS / 100);
    let before = in_use();
    for round in 0..3 {
        let each = chain.hold_back(COMMANDS);
        assert_eq!(each, 0, "bytes for a slot, round {round}");
        chain.enqueue(COMMANDS);
        chain.finish(COMMANDS);
        let growth = in_use().saturating_sub(before);
        let name = fixture.name();
        assert!(growth < GROWTH, "{growth} bytes in round {round}, {name}");
    }
}

#[test]
fn pending_commands_take_at_most_256_bytes_each_and_are_forgotten() {
    let pool = fixture::pool(2);
    // Before there are slots of commands that are over.
    let each = Chain::new(&pool).hold_back(COMMANDS);
    assert!((LEAST..=PENDING).contains(&each), "{each} bytes each");
    nothing_grows(&pool);
    nothing_grows(&fixture::serial());
}

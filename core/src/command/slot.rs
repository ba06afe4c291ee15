//! The slot: a command and its event in three cache lines.
//!
//! | bytes | field | written by | read by |
//! |---|---|---|---|
//! | 0..4 | `state` | enqueuer, then the threads that resolve waits or poison | owner; a driver that was told of it; anyone, through a `Glance` |
//! | 4..8 | `references` | enqueuer, owner, holders of an [`Event`](crate::Event) | the same |
//! | 8..16 | `notify` | see [`notify`](crate::notify) | anyone, at any time |
//! | 16..40 | `vtable`, `queue`, `done` | enqueuer, before the waits are registered | owner, holders; `vtable` and `queue` also anyone, through a `Glance` |
//! | 40..64 | `edges` | pusher of the edge; then the list it is in | closer of that list |
//! | 64..72 | `link` | owner | owner |
//! | 72..80 | `extension` | enqueuer, before a driver is told of it; its atomic times also owner, or a driver that was told of it | owner; driver; holders, the times |
//! | 80..88 | `observers` | the first observer | closer, observers |
//! | 88..96 | `work` | enqueuer (launch counters); the first poisoner (the cause); owner, as it takes the cause | owner; a driver that was told of it |
//! | 96..104 | `sequence`: the command's number in its queue | enqueuer | holders; anyone, through a `Glance` |
//! | 104..112 | `phase` | enqueuer, then owner, or a driver that was told of it | anyone |
//! | | `argument_count`, `in_order`, `recorded` | enqueuer | owner, holders; a driver that was told of it |
//! | | `cancelled` | enqueuer, holders | anyone |
//! | 112..192 | `payload`: arguments, then the body's state; after a failure, the error | enqueuer, then owner | owner; a driver that was told of it; holders, once failed |
//!
//! The *owner* is the thread that brought the state's count to zero, and then the thread that it
//! hands the [`Command`](super::Command) to. A driver is *told of* a command by `Driver::submit`,
//! before it owns the command, if the device has a sync domain.
//!
//! An [`EventId`](super::EventId) does not keep its slot. The slot may get another command at any
//! time. So an id leads to a [`Glance`], which reads atomic fields only. [`Glance::of`] returns a
//! value only if the slot still has the id's command.
//!
//! A command of a [recorded graph](crate::graph) stays in its slot from launch to launch. It has no
//! number in its queue. So `done` points to its graph, and `sequence` holds its index there and its
//! state at the start of a launch ([`Slot::place`]). Its notify list is never closed.

use super::id::EventId;
use super::owned::{Command, ReadySink};
use super::recorded::Shared;
use crate::access::{Argument, PackedAccess, RawArgument};
use crate::error::{Error, Result};
use crate::notify::NotifyList;
use crate::observers::Observers;
use crate::portable::PortableKernel;
use crate::queue::place::{Place, QueueShared};
use crate::region::Region;
use crate::shown::{Number, Reference, look_while_open};
use crate::state::State;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Words of a slot's payload.
const PAYLOAD_WORDS: usize = 10;
/// Arguments that fit inline; more are kept in the extension.
pub(crate) const INLINE_ARGUMENTS: usize = 4;
/// Bytes of the payload.
pub(crate) const PAYLOAD_BYTES: usize = 8 * PAYLOAD_WORDS;
/// Edges that fit inline; more are kept in the extension.
pub(crate) const INLINE_EDGES: usize = 3;

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Enqueued; waits are unresolved.
    Queued = 0,
    /// Handed to its device.
    Submitted = 1,
    /// Running.
    Running = 2,
    /// Over, successfully.
    Complete = 3,
    /// Over, with an error.
    Failed = 4,
}

impl Phase {
    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Queued,
            1 => Self::Submitted,
            2 => Self::Running,
            3 => Self::Complete,
            _ => Self::Failed,
        }
    }
}

/// The kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A kernel over a range of work-groups.
    Launch,
    /// A copy between buffers.
    Copy,
    /// A repeated pattern written to a buffer.
    Fill,
    /// Host memory written to a buffer.
    Write,
    /// A buffer read to host memory.
    Read,
    /// A buffer's content brought to another memory space.
    Migrate,
    /// Does nothing, after its waits.
    Marker,
    /// Nothing, after all before it; all after it wait for it.
    Barrier,
    /// A closure on the host.
    HostTask,
    /// A closure that is handed the driver's own queue.
    NativeCall,
    /// A closure that puts work of its own into the driver's queue.
    NativeEnqueue,
    /// Completed by the host.
    UserEvent,
    /// A mapping of a buffer to the host, until it is given back.
    Map,
    /// A recorded graph.
    Graph,
}

impl Kind {
    /// The kind in a word, as traces show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Write => "write",
            Self::Read => "read",
            Self::Migrate => "migrate",
            Self::Marker => "marker",
            Self::Barrier => "barrier",
            Self::HostTask => "host task",
            Self::NativeCall => "native",
            Self::NativeEnqueue => "native enqueue",
            Self::UserEvent => "user event",
            Self::Map => "map",
            Self::Graph => "graph",
        }
    }
}

/// Runs work-groups of a body's state.
pub(crate) type Run =
    unsafe fn(*mut u8, &[crate::access::RawArgument], std::ops::Range<u32>) -> Result<(), Error>;

/// The functions of a kind of command's body: one static table per body type.
pub(crate) struct Vtable {
    /// The command's kind.
    pub(crate) kind: Kind,
    /// True if any thread can do and end it: no device is told of it, and none
    /// can wait for it by itself.
    pub(crate) needs_no_device: bool,
    /// The body's name.
    pub(crate) name: unsafe fn(*const u8) -> &'static str,
    /// Runs a range of work-groups, or the whole command.
    pub(crate) run: Run,
    /// The kernel as code for other devices, if it has any: alive for as long as
    /// the state is.
    pub(crate) portable: unsafe fn(*const u8) -> Option<*const dyn PortableKernel>,
    /// Tells whether a launch of so many work-groups is known to end within a few microseconds.
    pub(crate) brief: unsafe fn(*const u8, u32) -> bool,
    /// The functions that few kinds have.
    pub(crate) rare: Rare,
    /// Drops the state, if that does anything.
    pub(crate) drop: Option<unsafe fn(*mut u8)>,
}

/// Finds the user event that a command opens, in its state.
pub(crate) type Opens = unsafe fn(*const u8) -> Option<NonNull<Slot>>;

/// Looks at the arguments of a launch, before its work-groups are run.
pub(crate) type Look = unsafe fn(*const u8, &[RawArgument]) -> Result<()>;

/// The functions of few kinds of commands: a launch of several groups, a reservation of the host's,
/// and a graph.
pub(crate) struct Rare {
    /// See [`NativeKernel::begin`](crate::operation::NativeKernel::begin).
    pub(crate) look: Option<Look>,
    /// The user event that the command completes once its waits are over, if there is one. The
    /// command is not started.
    pub(crate) opens: Option<Opens>,
    /// Does a command that needs no device, which ends later; the others end at once.
    pub(crate) begin: Option<fn(Command, &mut dyn ReadySink)>,
    /// The command fails; its state is still there.
    pub(crate) fail: Option<unsafe fn(*const u8, EventId, &Error)>,
}

impl Rare {
    /// As most.
    pub(crate) const NONE: Self = Self {
        look: None,
        opens: None,
        begin: None,
        fail: None,
    };
}

/// An edge that did not fit into the slot.
#[repr(C)]
pub(crate) struct OverflowEdge {
    /// The notify list's word. First, so that its address is the edge's.
    pub(crate) next: AtomicU64,
    pub(crate) dependant: NonNull<Slot>,
}

/// The fields that few commands have, kept out of the slot.
#[derive(Default)]
pub(crate) struct Extension {
    /// All arguments, when there are more than fit inline.
    pub(crate) arguments: Option<Box<[PackedAccess]>>,
    /// The arguments that have rows with gaps between them, by index, with these rows.
    pub(crate) regions: Box<[(usize, Region)]>,
    /// Overflow edges.
    pub(crate) edges: Box<[OverflowEdge]>,
    /// Timestamps, when profiling or tracing.
    pub(crate) times: Option<Box<Times>>,
    /// The user's label.
    pub(crate) label: Option<Arc<str>>,
    /// True if the start is to be logged.
    pub(crate) logged: bool,
}

/// Nanoseconds on the process's clock; zero for a state that the command has not reached.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) queued: AtomicU64,
    pub(crate) submitted: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// Ids of the events that the command waits for, for the trace.
    pub(crate) waits: std::sync::Mutex<Vec<u64>>,
    /// The lane of the device that ran the command.
    pub(crate) lane: AtomicU32,
    /// The command's number in the trace.
    pub(crate) number: AtomicU64,
    /// The body's name.
    pub(crate) name: &'static str,
    /// Bytes it touches or moves.
    pub(crate) bytes: u64,
}

/// See the module.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) references: AtomicU32,
    pub(crate) notify: NotifyList,
    pub(crate) vtable: Reference<Vtable>,
    pub(crate) queue: Reference<Place>,
    pub(crate) done: Cell<*const AtomicU8>,
    pub(crate) edges: [AtomicU64; INLINE_EDGES],

    pub(crate) link: AtomicU64,
    pub(crate) extension: Cell<Option<NonNull<Extension>>>,
    pub(crate) observers: Observers,
    pub(crate) work: AtomicU64,
    pub(crate) sequence: Number,
    pub(crate) phase: AtomicU8,
    pub(crate) argument_count: Cell<u8>,
    pub(crate) in_order: Cell<bool>,
    pub(crate) cancelled: AtomicBool,
    /// True if it belongs to a recorded graph.
    pub(crate) recorded: Cell<bool>,
    pub(crate) payload: UnsafeCell<MaybeUninit<[u64; PAYLOAD_WORDS]>>,
}

const _: () = assert!(size_of::<Slot>() == 192 && std::mem::offset_of!(Slot, link) == 64);

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            state: State::new(),
            references: AtomicU32::new(0),
            notify: NotifyList::new(),
            vtable: Reference::none(),
            queue: Reference::none(),
            done: Cell::new(null()),
            edges: [const { AtomicU64::new(0) }; INLINE_EDGES],
            link: AtomicU64::new(0),
            extension: Cell::new(None),
            observers: Observers::new(),
            work: AtomicU64::new(0),
            sequence: Number::new(),
            phase: AtomicU8::new(0),
            argument_count: Cell::new(0),
            in_order: Cell::new(false),
            cancelled: AtomicBool::new(false),
            recorded: Cell::new(false),
            payload: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Sets the small fields, not cancelled; one store where the compiler sees
    /// that they are neighbours.
    #[inline]
    pub(crate) fn set_small(&self, phase: Phase, arguments: u8, in_order: bool) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.argument_count.set(arguments);
        self.in_order.set(in_order);
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// True if the command must not run: a wait failed, or it was cancelled.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.state.is_poisoned() || self.cancelled.load(Ordering::Relaxed)
    }

    /// The extension, made if there is none.
    ///
    /// # Safety
    /// The caller is the enqueuer, before a driver is told of the command, and before its waits are
    /// registered.
    #[cold]
    #[expect(
        clippy::mut_from_ref,
        reason = "the enqueuer is the only one to reach it"
    )]
    pub(crate) unsafe fn extend(&self) -> &mut Extension {
        let pointer = self.extension.get().unwrap_or_else(|| {
            let fresh = NonNull::from(Box::leak(Box::<Extension>::default()));
            self.extension.set(Some(fresh));
            fresh
        });
        // SAFETY: the extension lives until the slot is freed, and only the
        // enqueuer reaches it mutably.
        unsafe { &mut *pointer.as_ptr() }
    }

    /// The extension, if there is one.
    #[inline]
    pub(crate) fn extension(&self) -> Option<&Extension> {
        // SAFETY: it lives until the slot is freed, and after construction it
        // is only read (its times are atomic).
        self.extension.get().map(|e| unsafe { &*e.as_ptr() })
    }

    #[inline]
    pub(crate) fn times(&self) -> Option<&Times> {
        self.extension().and_then(|e| e.times.as_deref())
    }

    /// The arguments.
    ///
    /// # Safety
    /// The slot is in use by the caller and its payload still holds them: the
    /// command is under construction or owned, and not over.
    #[inline]
    pub(crate) unsafe fn arguments(&self) -> &[Argument<'_>] {
        let count = usize::from(self.argument_count.get());
        let packed = if count <= INLINE_ARGUMENTS {
            // SAFETY: the enqueuer wrote that many at the payload's start (`construct::take`), and
            // they are there still.
            unsafe { std::slice::from_raw_parts(self.payload.get().cast::<PackedAccess>(), count) }
        } else {
            self.extension()
                .and_then(|e| e.arguments.as_deref())
                .unwrap_or(&[])
        };
        // SAFETY: the command is not over, as the caller promises.
        unsafe { Argument::all_of_live_command(packed) }
    }

    /// The address of the body's state.
    #[inline]
    pub(crate) fn state_pointer(&self) -> *mut u8 {
        let count = usize::from(self.argument_count.get());
        let inline = if count <= INLINE_ARGUMENTS { count } else { 0 };
        // SAFETY: within the payload.
        unsafe {
            self.payload
                .get()
                .cast::<u8>()
                .add(inline * size_of::<PackedAccess>())
        }
    }

    /// The error of a failed command.
    ///
    /// # Safety
    /// The notify list is closed as failed, and the caller holds a reference.
    pub(crate) unsafe fn error(&self) -> Error {
        // SAFETY: a failed command's payload starts with its error, written
        // before the list was closed; it lives as long as the slot's use.
        unsafe { (*self.payload.get().cast::<Error>()).clone() }
    }

    /// Takes the command's number in its queue.
    #[inline]
    pub(crate) fn take_number(&self, queue: &QueueShared) -> u64 {
        let (sequence, done) = queue.progress.next();
        self.sequence.set(sequence);
        self.done.set(done);
        sequence
    }

    /// Makes this the command `index` of a recorded graph, whose state word starts
    /// as `state`.
    pub(crate) fn set_place(&self, graph: *const Shared, index: u32, state: u32) {
        self.recorded.set(true);
        self.done.set(graph.cast());
        self.sequence.set(u64::from(index) << 32 | u64::from(state));
    }

    /// The place of a command of a recorded graph: the graph, the command's index there, and the
    /// first value of its state word.
    #[inline]
    pub(crate) fn place(&self) -> (*const Shared, u32, u32) {
        debug_assert!(self.recorded.get());
        let place = self.sequence.get();
        (self.done.get().cast(), (place >> 32) as u32, place as u32)
    }

    /// The name shown for the command.
    ///
    /// Only for those of whom the command cannot end meanwhile: its owner, the recorded graph that
    /// keeps it, and who holds the lock of the registry that it must leave first
    /// (`event::blocked`), for a name that is no user's code.
    pub(crate) fn label(&self) -> &str {
        if let Some(label) = self.extension().and_then(|e| e.label.as_deref()) {
            return label;
        }
        match self.vtable.get() {
            // SAFETY: name functions look at the state only of launches. It is alive until the
            // command is over, which it does not become during this call, as only those call it
            // that are named above. (That `phase` was less once would be no reason. It tells an
            // owner whether the state is gone already.)
            Some(vtable) if self.phase.load(Ordering::Relaxed) < Phase::Complete as u8 => unsafe {
                (vtable.name)(self.state_pointer())
            },
            Some(vtable) => vtable.kind.name(),
            None => "user event",
        }
    }
}

/// A view of a slot for a caller that keeps nothing in it alive: see the module.
#[derive(Clone, Copy)]
pub(crate) struct Glance(&'static Slot);

impl Glance {
    /// The slot at an address.
    #[inline]
    pub(super) fn at(slot: &'static Slot) -> Self {
        Self(slot)
    }

    /// The list of the event, and of those before and after it in the slot.
    #[inline]
    pub(crate) fn notify(self) -> &'static NotifyList {
        &self.0.notify
    }

    /// The queue of a command that is or was in the slot.
    #[inline]
    pub(crate) fn queue(self) -> Option<&'static Place> {
        self.0.queue.get()
    }

    /// The number in its queue of a command that is or was in the slot.
    #[inline]
    pub(crate) fn sequence(self) -> u64 {
        self.0.sequence.get()
    }

    /// The functions of a command that is or was in the slot.
    #[inline]
    pub(crate) fn vtable(self) -> Option<&'static Vtable> {
        self.0.vtable.get()
    }

    /// True if a command that is or was in the slot must not run.
    #[inline]
    pub(crate) fn is_refused(self) -> bool {
        self.0.is_refused()
    }

    /// The result of `look` on the event of this generation. None if the event is over: then the
    /// fields may be another's.
    pub(crate) fn of<R>(self, generation: u32, look: impl FnOnce(Self) -> R) -> Option<R> {
        look_while_open(&self.0.notify, generation, || look(self))
    }

    /// The slot.
    ///
    /// # Safety
    /// The caller holds a reference to the slot's command.
    #[inline]
    pub(crate) unsafe fn held(self) -> &'static Slot {
        self.0
    }
}

//! Mappings: the host's turns at a memory object's bytes.
//!
//! A turn is a command like any other: hazards order it, and missing bytes are brought to the host
//! before it. It is different in that no thread runs it: when its waits are over, the bytes are the
//! host's until the host gives them back.
//!
//! 1. [`HostQueue::reserve`] enqueues the *holder*, a command in the host's space with the turn's
//!    access. It registers the mapping while the memory's tracker is still locked for that. A
//!    command that touches the range and comes later is refused: its thread could be the one that
//!    has the mapping, and wait for itself. Then it enqueues the *grant*, a marker that a user
//!    event holds back.
//! 2. When the holder's waits are over, its driver, which is this module, puts
//!    it into the ticket unfinished and completes the user event.
//! 3. A thread that has seen the grant takes the [`Hold`]. Dropping that removes the mapping, then
//!    finishes the holder, and the commands that wait for it go on.
//!
//! So nobody else ever touches the bytes of a hold, and no command is enqueued meanwhile that waits
//! for its end. A hold that is leaked keeps its bytes for good.

use super::{Mapping, Memory, MemoryRef, NEXT_ID, ONE_MAPPING};
use crate::access::{AccessMode, RawArgument};
use crate::command::slot::{Kind, Rare, Vtable};
use crate::command::{Command, ToDrivers};
use crate::context::Context;
use crate::device::{Device, DeviceKind, DeviceProperties};
use crate::driver::{CommandRef, Driver, Notification};
use crate::error::{Error, ErrorKind, Result};
use crate::event::blocked::EndsByHost;
use crate::event::{Event, UserEvent, Waiter};
use crate::memory::access::Access;
use crate::native::panicked;
use crate::operation::{Body, MarkerBody, data_body, drop_state, no_run};
use crate::queue::enqueue::Request;
use crate::queue::{Queue, QueueOptions};
use crate::sync::lock;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

impl Memory {
    /// Registers a mapping; commands that touch the range are refused until it
    /// is removed.
    pub(super) fn add_mapping(&self, mapping: Mapping) {
        lock(&self.mappings).push(mapping);
        self.unusual.fetch_add(ONE_MAPPING, Ordering::Relaxed);
    }

    /// Removes a mapping, if it was registered.
    fn remove_mapping(&self, id: u64) {
        let mut mappings = lock(&self.mappings);
        let before = mappings.len();
        mappings.retain(|mapping| mapping.id != id);
        if mappings.len() < before {
            self.unusual.fetch_sub(ONE_MAPPING, Ordering::Relaxed);
        }
    }
}

/// The queue on which a context's turns of the host are enqueued.
#[derive(Clone, Debug)]
pub struct HostQueue {
    queue: Queue,
    /// An event that is over: a marker that waits for it waits for nothing but
    /// the last barrier.
    over: Event,
}

impl HostQueue {
    /// The host queue of a context.
    ///
    /// # Errors
    /// If there are too many memory spaces in the process.
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_options(context, QueueOptions::default())
    }

    /// As [`HostQueue::new`], with these options. The queue is out-of-order.
    ///
    /// # Errors
    /// As there.
    pub fn with_options(context: &Context, options: QueueOptions) -> Result<Self> {
        let options = QueueOptions {
            in_order: false,
            ..options
        };
        let over = UserEvent::new();
        let event = over.event();
        over.complete();
        Ok(Self {
            queue: Queue::new(context.shared(), &HostDriver::device(context)?, options),
            over: event,
        })
    }

    /// Reserves the bytes of `access` for the host: after every command that hazards order before
    /// it, after `waits`, and after the last barrier of `after`. `label` names the mapping in the
    /// errors of commands that touch the range meanwhile.
    ///
    /// # Errors
    /// If the range is out of bounds or mapped already, or belongs to another
    /// context, or the context or the queue's device is lost.
    pub fn reserve(
        &self,
        after: &Queue,
        memory: &MemoryRef,
        range: Range<u64>,
        mode: AccessMode,
        waits: &[Event],
        label: &str,
    ) -> Result<Reservation> {
        let access = Access {
            memory,
            offset: range.start,
            length: range.end.saturating_sub(range.start),
            mode,
        };
        // Before the turn, which is in the queue then.
        self.queue.check_accesses(&[access])?;
        let mut all = waits.to_vec();
        all.push(self.over.clone());
        let turn = after.marker(&all)?;
        // If anything below fails, the turn is given up with this.
        let ticket = Turn(Arc::new(Mutex::new(Ticket::Waiting)));
        let begin = UserEvent::internal();
        let begun = begin.event();
        let body = Reserved(Box::new((ticket.0.clone(), Some(begin))));
        let request = Request {
            accesses: &[access],
            waits: &[turn],
            ..Request::default()
        };
        let mapped = Registered {
            memory: memory.clone(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        };
        let mapping = Mapping {
            id: mapped.id,
            range,
            label: label.to_owned(),
        };
        let mut mapping = Some(mapping);
        let mut register = || {
            mapping
                .take()
                .into_iter()
                .for_each(|it| memory.add_mapping(it))
        };
        let holder = self.queue.enqueue_and(body, &request, &mut register)?;
        let granted = self.queue.marker(&[begun])?;
        Ok(Reservation {
            granted,
            holder,
            ticket,
            mapped,
        })
    }
}

impl HostQueue {
    /// Lends the bytes of `access` to the host, without registering a mapping. It is a command like
    /// any other: others wait for its end, and may be enqueued at once. So a thread that enqueues
    /// need not be the one to give the bytes back. `begin` gets the bytes when the command's turn
    /// has come, on any thread, with no lock held; or nothing, if the turn will never come. It runs
    /// inside of the command, which ends when it has returned at the earliest, and must not wait:
    /// other commands that became ready with this one may come after it. If it panics, the command
    /// fails.
    ///
    /// # Errors
    /// If the range is out of bounds or mapped, or belongs to another context, or the context is
    /// lost; in a child of `fork`.
    pub fn lend(
        &self,
        access: Access<'_>,
        waits: &[Event],
        begin: impl FnOnce(Option<HostLease>) + Send + 'static,
    ) -> Result<Event> {
        crate::process::check()?;
        let request = Request {
            accesses: &[access],
            waits,
            ..Request::default()
        };
        // From before the enqueue: a command that is enqueued later may be needed for the end, and
        // a wait must know that when it flushes.
        let ends = EndsByHost::of(self.queue.shared().context_number());
        let begin = |mut lent: Option<HostLease>| {
            if let Some(lent) = &mut lent {
                lent.ends = Some(ends);
            }
            begin(lent);
        };
        let body = Lending(Box::new(Some(Box::new(begin))));
        self.queue.enqueue(body, 1, &request)
    }

    /// Has `task` run on the host with all accesses of the request, which are
    /// [resolved](HostLease::argument) there. It comes after the waits of the request and the last
    /// barrier of `queue`, which takes it for one of its own commands. It runs on the thread that
    /// ends its last wait, so it must not wait for anything. In an in-order queue that has its
    /// [hazards to itself](crate::Hazards::within_queue) it comes between two barriers. A command
    /// that another thread enqueues meanwhile may run beside it.
    ///
    /// # Errors
    /// If a range is out of bounds or belongs to another context, or the context or the queue's
    /// device is lost; of a blocking queue also if waiting here could never end, and then the task
    /// is cancelled.
    pub fn run(
        &self,
        queue: &Queue,
        request: &Request<'_>,
        task: impl FnOnce(&HostLease) -> Result<()> + Send + 'static,
    ) -> Result<HostTurn> {
        let mut waits = request.waits.to_vec();
        waits.push(self.over.clone());
        let marker = |waits: &[Event]| {
            let request = Request {
                waits,
                unknown_access: queue.shared().options().hazards.are_within_queue(),
                ..Request::default()
            };
            queue.enqueue(MarkerBody(()), 1, &request)
        };
        // Before the turn, which is in the queue then.
        self.queue.check_accesses(request.accesses)?;
        let turn = marker(&waits)?;
        let waits = [turn];
        let request = Request {
            waits: &waits,
            ..*request
        };
        let begin = move |lent: Option<HostLease>| {
            if let Some(lent) = lent {
                let result = task(&lent);
                lent.finish(result);
            }
        };
        let body = Lending(Box::new(Some(Box::new(begin))));
        let event = self.queue.enqueue(body, 1, &request)?;
        // As of any command of the queue, which may be a blocking one.
        let marked = marker(std::slice::from_ref(&event));
        let in_queue = marked.inspect_err(|_| event.cancel())?;
        Ok(HostTurn { event, in_queue })
    }
}

/// A turn of the host that a queue takes for one of its commands.
#[derive(Clone, Debug)]
pub struct HostTurn {
    /// The turn's own event: how it ended, and when it ran.
    pub event: Event,
    /// The queue's: over when the turn is and, as the queue shows its events, when all before it
    /// are. It fails with the turn.
    pub in_queue: Event,
}

/// Bytes that are the host's until it says how that went. Dropped without that, the command has
/// failed.
pub struct HostLease {
    bytes: RawArgument,
    command: Option<Command>,
    begun: Arc<Mutex<Begun>>,
    /// None of a lease that its function cannot keep.
    ends: Option<EndsByHost>,
}

/// True if what a lease was given to still runs. It runs inside of the command, which does not end
/// before.
enum Begun {
    Inside,
    /// The lease was given back meanwhile.
    GivenBack(Command, Result<()>),
    /// It has returned.
    Left,
}

// SAFETY: the pointer is to bytes that are the command's alone (or, for a read, that nobody
// writes), on whichever thread.
unsafe impl Send for HostLease {}

impl HostLease {
    /// The bytes on the host. As for a [`Hold`], nobody else writes them, nor reads bytes that are
    /// lent to be written.
    #[must_use]
    pub fn bytes(&self) -> RawArgument {
        self.bytes
    }

    /// The bytes of the access of this number.
    ///
    /// # Errors
    /// If there is no such access, or no memory for its bytes.
    pub fn argument(&self, number: usize) -> Result<RawArgument> {
        let arguments = self
            .command
            .as_ref()
            .map_or(&[][..], |command| command.arguments());
        match arguments.get(number) {
            Some(argument) => argument.on_host(),
            None => Err(Error::cancelled("a turn of the host")),
        }
    }

    /// Gives them back, and says how it went. The command is over, at the latest when what the
    /// lease was given to has returned.
    pub fn finish(mut self, result: Result<()>) {
        self.give_back(result);
    }

    fn give_back(&mut self, result: Result<()>) {
        let Some(command) = self.command.take() else {
            return;
        };
        if crate::process::is_forked() {
            // Another thread may have had the lock.
            return std::mem::forget((command, result));
        }
        let mut begun = lock(&self.begun);
        if matches!(*begun, Begun::Inside) {
            *begun = Begun::GivenBack(command, result);
        } else {
            drop(begun);
            end(command, result);
        }
    }
}

impl Drop for HostLease {
    fn drop(&mut self) {
        self.give_back(Err(Error::cancelled("a turn of the host")));
    }
}

impl std::fmt::Debug for HostLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes lent to the host", self.bytes.length)
    }
}

/// A mapping, once it is registered; dropping it removes it.
struct Registered {
    memory: MemoryRef,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Another thread may have had the memory's lock.
            return;
        }
        self.memory.remove_mapping(self.id);
    }
}

/// A turn of the host that may not have come yet. Dropping it gives it up.
pub struct Reservation {
    granted: Event,
    holder: Event,
    // In this order: a command that is enqueued after the mapping is removed
    // waits for the holder, if that is not over yet.
    mapped: Registered,
    ticket: Turn,
}

impl Reservation {
    /// Over when the bytes are the host's, or will never be.
    #[must_use]
    pub fn granted(&self) -> &Event {
        &self.granted
    }

    /// As [`Reservation::granted`], to be polled.
    pub fn granted_mut(&mut self) -> &mut Event {
        &mut self.granted
    }

    /// Takes the bytes.
    ///
    /// # Errors
    /// The reason for which they will never be the host's: the command that should have written
    /// them failed, the reservation was cancelled, or there is no memory for them.
    /// [`ErrorKind::TimedOut`] if it is not known yet, and then the turn is given up.
    pub fn take(self) -> Result<Hold> {
        if !self.granted.is_complete() {
            return Err(ErrorKind::TimedOut.into());
        }
        let taken = std::mem::replace(&mut *lock(&self.ticket.0), Ticket::GivenUp);
        match taken {
            Ticket::Granted(command, bytes) => Ok(Hold {
                bytes,
                _mapped: self.mapped,
                _holder: FinishOnDrop(Some(command)),
            }),
            _ => {
                self.holder.wait()?;
                Err(Error::cancelled("a mapping"))
            }
        }
    }

    /// Asks that the turn not be taken, as [`Event::cancel`].
    pub fn cancel(&self) {
        self.holder.cancel();
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reservation of {:?}", self.mapped.memory)
    }
}

/// Bytes that are the host's until this is dropped.
pub struct Hold {
    bytes: RawArgument,
    // In this order, as in `Reservation`.
    _mapped: Registered,
    _holder: FinishOnDrop,
}

// SAFETY: the pointer is to bytes that are this hold's alone (or, for a read,
// that nobody writes), on whichever thread it is.
unsafe impl Send for Hold {}
// SAFETY: a shared hold gives nothing but the address.
unsafe impl Sync for Hold {}

impl Hold {
    /// The bytes on the host. While the hold lives, nobody else writes them; if its access writes,
    /// nobody else reads them either.
    #[must_use]
    pub fn bytes(&self) -> RawArgument {
        self.bytes
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "hold of {} bytes of {:?}",
            self.bytes.length, self._mapped.memory
        )
    }
}

/// A holder that is unfinished; dropping this finishes it.
struct FinishOnDrop(Option<Command>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        if let Some(command) = self.0.take() {
            end(command, Ok(()));
        }
    }
}

/// Ends a command that was the host's. In a child of fork it is kept: other threads may have had
/// the locks of its dependants.
fn end(command: Command, result: Result<()>) {
    if crate::process::is_forked() {
        std::mem::forget((command, result));
    } else {
        command.finish(result, &mut ToDrivers);
    }
}

/// The state of a holder.
enum Ticket {
    /// Its waits are not over.
    Waiting,
    /// The bytes are the host's.
    Granted(Command, RawArgument),
    /// Nobody wants them, or they were taken.
    GivenUp,
}

// SAFETY: the pointer is only used by whoever takes the command, which is
// `Send`.
unsafe impl Send for Ticket {}

/// The reservation's side of a ticket.
struct Turn(Arc<Mutex<Ticket>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Another thread may have had the ticket's lock.
            return;
        }
        let ticket = std::mem::replace(&mut *lock(&self.0), Ticket::GivenUp);
        if let Ticket::Granted(command, _) = ticket {
            drop(FinishOnDrop(Some(command)));
        }
    }
}

/// The function that gets bytes that are lent.
type Begin = Box<dyn FnOnce(Option<HostLease>) + Send>;

/// The body of a reservation's holder.
struct Reserved(Box<(Arc<Mutex<Ticket>>, Option<UserEvent>)>);
impl Body for Reserved {
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::Map,
        needs_no_device: false,
        name: |_| "map",
        run: no_run,
        portable: |_| None,
        brief: |_, _| false,
        rare: Rare {
            // SAFETY: the state is a `Reserved`, which nobody touches before the command is
            // started.
            opens: Some(|state| unsafe {
                (*state.cast::<Self>()).0.1.as_ref().map(UserEvent::slot)
            }),
            ..Rare::NONE
        },
        drop: drop_state::<Self>(),
    };
}

/// The body of a command that lends bytes. In a box of its own, so that there is room for four
/// arguments beside it.
struct Lending(Box<Option<Begin>>);
data_body!(Lending, Kind::HostTask, "turn of the host");

/// Hands bytes to the function that they are lent to.
fn lend(command: Command, bytes: Result<RawArgument>, begin: Option<Begin>) {
    let inside = CommandRef::new(&command);
    let begun = Arc::new(Mutex::new(Begun::Inside));
    let lease = match bytes {
        Ok(bytes) => Some(HostLease {
            bytes,
            command: Some(command),
            begun: begun.clone(),
            ends: None,
        }),
        Err(error) => {
            *lock(&begun) = Begun::GivenBack(command, Err(error));
            None
        }
    };
    let begin = || {
        let run = |command: &Command| command.run_inside(|| begin.map(|begin| begin(lease)));
        // SAFETY: the command is in the lease or in `begun`. Neither gives it away to be ended
        // before `begun` says so, below.
        unsafe { inside.with(run) }
    };
    let began = catch_unwind(AssertUnwindSafe(begin));
    let given_back = std::mem::replace(&mut *lock(&begun), Begun::Left);
    match (given_back, began) {
        (Begun::GivenBack(command, result), Ok(_)) => end(command, result),
        (Begun::GivenBack(command, _), Err(panic)) => {
            let error = panicked(command.label(), panic);
            end(command, Err(error));
        }
        // The lease is elsewhere, and ends the command when it is given back.
        (_, Err(panic)) => resume_unwind(panic),
        _ => {}
    }
}

/// The driver of holders: hands each to its ticket. A wait for a holder depends on the context's
/// devices, so the first of them waits in its own way, which may be to help.
struct HostDriver {
    waits: Option<Arc<dyn Driver>>,
}

impl HostDriver {
    /// The device of a context's holders: the host itself.
    fn device(context: &Context) -> Result<Device> {
        let waits = context
            .devices()
            .first()
            .map(|first| first.driver().clone());
        let driver: Arc<dyn Driver> = Arc::new(Self { waits });
        Device::all_of(&driver)?.pop().ok_or_else(|| {
            Error::from(ErrorKind::InvalidArgument {
                what: "map",
                problem: "the host's driver lists no device".to_owned(),
            })
        })
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for HostDriver {
    fn name(&self) -> &'static str {
        "host"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties::new(DeviceKind::Cpu, "host")]
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        match &self.waits {
            Some(driver) => driver.join(waiter),
            None => {
                waiter.sleep();
                Ok(())
            }
        }
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        let started = command.start();
        let bytes = started.and_then(|()| {
            let Some(access) = command.arguments().first() else {
                return Err(Error::cancelled("a turn of the host"));
            };
            access.on_host()
        });
        let state = command.state_pointer();
        if command.kind() != Kind::Map {
            // SAFETY: holders are the only commands of host queues that need a
            // driver, this one is owned and not over, and no reservation's.
            let begin = unsafe { (*state.cast::<Lending>()).0.take() };
            return lend(command, bytes, begin);
        }
        // SAFETY: as above, and a reservation's.
        let reserved = unsafe { &mut (*state.cast::<Reserved>()).0 };
        let (ticket, begin) = (reserved.0.clone(), reserved.1.take());
        match bytes {
            Err(error) => command.finish(Err(error), &mut ToDrivers),
            Ok(bytes) => {
                let mut state = lock(&ticket);
                if matches!(*state, Ticket::Waiting) {
                    *state = Ticket::Granted(command, bytes);
                } else {
                    drop(state);
                    drop(FinishOnDrop(Some(command)));
                }
            }
        }
        // After a refused holder is over, so that its error is there to be seen.
        if let Some(begin) = begin {
            begin.complete();
        }
    }
}

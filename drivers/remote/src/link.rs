//! The connection to a node: commands in flight, ids, ends, loss.
//!
//! Ids are given and messages pushed under one lock, under which ends are noted too. So ids rise in
//! the order of messages; and a command whose end is not known is named before the message that
//! acknowledges its end, which is how the node knows that it may be. Its end may be known, and not
//! be named any more, before its bytes have travelled and it is over.

use crate::bulk::{Bytes, HostRegion, Job, Jobs};
use crate::clock::LinkClock;
use crate::description::Answer;
use crate::failure::{Failures, Refusal};
use crate::flights::{Flights, Flying, Rare};
use crate::locked;
use crate::peers::{After, Pairs};
use crate::point::{Point, Times};
use crate::printed::Text;
use crate::reading::Reading;
use crate::resume::Resumption;
use crate::{Options, RemoteDriver};
use quipu_link::Fingerprint;
use quipu_link::compression::{Compression, Traffic};
use quipu_link::session::Terms;
use quipu_link::stream::{Incoming, Outgoing};
use quipu_link::timer::{Timer, deadline_after};
use quipu_protocol::limits::MAX_WAITS;
use quipu_protocol::message::{
    Command, ContentSize, ContentSizes, CreateBuffer, Failed, FreeBuffer, GoodbyeReason, Message,
    Operation, Priority, Wait,
};
use quipu_scheduler::ErrorKind;
use quipu_scheduler::event::refuse_waits;
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use smallvec::{SmallVec, smallvec};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Commands that are worth a write of their own, while there are more to come.
const AHEAD: u64 = 256;

/// Threads of a connection that touch the host's memory.
const THREADS: usize = 3;
/// The reason for which none of them waits for commands.
const WHY: &str = "this thread sees to the connection to a node, whose commands end only when it goes on; wait on another thread";

/// The commands that a command waits for on the node: mostly few, so they are kept without an
/// allocation.
pub(crate) type Waits = SmallVec<[Wait; 4]>;

/// The work of a thread of a connection.
type Run = Box<dyn FnOnce(&Link) + Send>;

/// See the module.
pub(crate) struct Link {
    /// The number of its node among the driver's, from 0.
    pub(crate) number: usize,
    /// The node's name here, and its address.
    pub(crate) node: String,
    address: String,
    /// The key that the session proves to other nodes that dial it.
    pub(crate) proves: Fingerprint,
    /// Connections from this node to others.
    pub(crate) pairs: Mutex<Pairs>,
    /// The time that one may take to be made.
    pub(crate) peer_patience: Duration,
    pub(crate) timer: Arc<dyn Timer>,
    /// The time that the node may take to receive goodbye.
    pub(crate) goodbye: Duration,
    /// All nodes of the driver, if there are others.
    pub(crate) siblings: OnceLock<Vec<Weak<Link>>>,
    /// Something was pushed for the sake of another node's command.
    soiled: AtomicBool,
    /// The last command with which a node was to begin before others were there.
    ahead: AtomicU64,
    pub(crate) terms: Terms,
    pub(crate) out: Outgoing,
    pub(crate) bulk_out: Outgoing,
    pub(crate) jobs: Jobs,
    pub(crate) compression: Compression,
    /// Bytes that were sent in bulk.
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) reading: Reading,
    pub(crate) clock: LinkClock,
    /// The output of kernels.
    pub(crate) text: Text,
    /// The means to come back after a loss; none if the session ends with its connection.
    pub(crate) resumption: Option<Resumption>,
    state: Mutex<State>,
    /// Commands on the node. Changed with the state locked.
    in_flight: AtomicUsize,
    /// Destinations of bytes on the bulk stream, by transfer. Locked after the state, or alone.
    pub(crate) sinks: Mutex<HashMap<u64, Sink>>,
    /// Goodbye was said, or is of no use. A thread that closes while another does waits for it.
    closed: OnceLock<()>,
    /// The reason for which the connection ends, as soon as it is known.
    ending: OnceLock<String>,
    /// The same, once nothing touches the host's memory any more.
    lost: OnceLock<String>,
    threads: AtomicUsize,
    driver: OnceLock<Weak<RemoteDriver>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) last_event: u64,
    last_buffer: u64,
    pub(crate) last_program: u64,
    pub(crate) last_transfer: u64,
    pub(crate) flying: Flights,
    /// Events of other nodes' commands.
    pub(crate) placeholders: HashSet<u64>,
    /// The consequences of ends, to be carried out when this is not locked.
    after: Vec<After>,
    buffers: u32,
    bytes: u64,
    /// Programs on the node, and those that it reads.
    pub(crate) programs: u32,
    /// The last failures: others fail for it.
    failures: Failures,
    /// Ends since something was last sent, and with it acknowledged.
    unacknowledged: usize,
}

/// The destination of a transfer's bytes.
pub(crate) enum Sink {
    /// To memory of the host's.
    Here {
        event: u64,
        region: HostRegion,
        received: usize,
    },
    /// To another node, if they cannot go there straight.
    Onwards {
        point: Point,
        to: usize,
        transfer: u64,
        received: usize,
        length: usize,
    },
}

/// The route of a command: its device and queue, and the sizes that go with it.
#[derive(Default)]
pub(crate) struct Route {
    pub(crate) device: u32,
    pub(crate) queue: u32,
    pub(crate) priority: Option<Priority>,
    pub(crate) profiled: bool,
    /// The sizes of the bytes in use of its buffers.
    pub(crate) sizes: Vec<ContentSize>,
}

/// The work of a command, as far as others than the link know it.
pub(crate) enum Task<'a> {
    /// An operation without bytes of the host's.
    Plain(Operation<'a>),
    /// Several, each of which needs the one before. At least one.
    Several(&'a [Operation<'a>]),
    /// A write of a region of the host's.
    Write(quipu_protocol::message::Write<'a>, HostRegion),
    /// A read to a region of the host's.
    Read(quipu_protocol::message::Read<'a>, HostRegion),
    /// The same of the bytes in use: zeros take the place of the rest. The region has no gaps.
    ReadContent(quipu_protocol::message::ReadContent, HostRegion),
}

/// A command whose end was not told. It is told once: a repetition would pass for another part that
/// the command takes, as the bytes that this machine still sends from its user's memory, or puts
/// there.
fn untold(state: &mut State, event: u64) -> Option<&mut Flying> {
    let flying = state.flying.get_mut(event)?;
    (!flying.told).then_some(flying)
}

impl Link {
    pub(crate) fn new(
        number: usize,
        options: &Options,
        terms: Terms,
        (incoming, out): (Incoming, Outgoing),
        bulk_out: Outgoing,
        resumption: Option<Resumption>,
    ) -> Self {
        Self {
            reading: Reading::new(incoming),
            clock: LinkClock::default(),
            text: Text::default(),
            in_flight: AtomicUsize::new(0),
            number,
            node: options.name.clone(),
            address: options.address.clone(),
            proves: terms.key.unwrap_or(options.node),
            pairs: Mutex::default(),
            peer_patience: options.peer_patience,
            timer: options.timer.clone(),
            goodbye: options.goodbye,
            siblings: OnceLock::new(),
            soiled: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
            terms,
            out,
            bulk_out,
            jobs: Jobs::default(),
            compression: options.compression,
            traffic: Arc::default(),
            resumption,
            state: Mutex::default(),
            sinks: Mutex::default(),
            closed: OnceLock::new(),
            ending: OnceLock::new(),
            lost: OnceLock::new(),
            threads: AtomicUsize::new(THREADS),
            driver: OnceLock::new(),
        }
    }

    /// Starts the threads that see to the streams, and to a driver's commands.
    pub(crate) fn run(
        self: &Arc<Self>,
        driver: Weak<RemoteDriver>,
        bulk: Incoming,
    ) -> Result<(), String> {
        // Set once, here.
        let _ = self.driver.set(driver);
        crate::exit::note(self);
        let threads: [(&str, Run); THREADS] = [
            ("quipu-ends", Box::new(Self::keep_reading)),
            (
                "quipu-bulk-in",
                Box::new(move |link| link.receive_bulk(bulk)),
            ),
            ("quipu-bulk-out", Box::new(Self::send_bulk)),
        ];
        let mut failed = None;
        for (name, run) in threads {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().name(name.to_owned());
            let started = thread.start(move || {
                // A subscriber of the log may wait for work of this very thread.
                refuse_waits(Some(WHY));
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&own)));
                if ended.is_err() {
                    own.fail("one of the driver's threads has panicked");
                }
                own.thread_is_over();
            });
            if let Err(error) = started {
                failed.get_or_insert(format!("the system gives no thread: {error}"));
                self.fail("the system gives no thread");
                self.thread_is_over();
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The connection ends, for this reason, if it is the first.
    pub(crate) fn fail(&self, reason: &str) {
        let (node, address) = (&self.node, &self.address);
        let reason = format!("the connection to node '{node}' at '{address}' is lost: {reason}");
        if self.ending.set(reason).is_ok() {
            quietly(|| tracing::warn!(node = self.node, reason = self.ending.get(), "lost"));
        }
        self.out.abort("the connection is given up");
        self.bulk_out.abort("the connection is given up");
        self.stop();
    }

    /// True if the connection ends, or has.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get().is_some()
    }

    /// No thread waits for anything any more.
    fn stop(&self) {
        self.jobs.close();
        self.reading.end();
        if let Some(resumption) = &self.resumption {
            resumption.give_up();
        }
    }

    /// Cuts both connections, as a network may.
    pub(crate) fn cut(&self) {
        self.out.cut("it was cut");
        self.bulk_out.cut("it was cut");
    }

    /// Says goodbye. Returns when the node has heard it, or after a while.
    pub(crate) fn close(&self) {
        self.closed.get_or_init(|| {
            if self.ending.set("its driver is gone".to_owned()).is_ok() {
                let until = deadline_after(self.goodbye);
                self.out.close(GoodbyeReason::Done, "", self.goodbye);
                // A process that exits before may have its system throw away bytes that the node
                // has not got. So may the end of the bulk stream, whose sender ends both.
                self.out.wait_for_end(until);
                let left = until.saturating_duration_since(Instant::now());
                self.bulk_out.close(GoodbyeReason::Done, "", left);
            }
            self.out.abort("its driver is gone");
            self.bulk_out.abort("its driver is gone");
            self.stop();
        });
    }

    /// A thread does not touch the host's memory any more; with the last, the commands in flight
    /// fail.
    fn thread_is_over(&self) {
        self.fail("one of its streams has ended");
        if self.threads.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let reason = self.ending.get().cloned().unwrap_or_default();
        let state = locked(&self.state);
        // Set once, here.
        let _ = self.lost.set(reason.clone());
        let mut after = Vec::new();
        for flying in state.flying.values() {
            flying.point.wake();
            if flying.point.home() == self.number {
                // It never will be over, and nothing of another node's has to wait for it.
                after.push(After::Over(flying.point.clone()));
            } else {
                // The half of a migration from a node that is there.
                let error = ErrorKind::Device {
                    device: format!("of node '{}'", self.node),
                    what: "receive bytes".to_owned(),
                    message: reason.clone(),
                };
                if flying.point.end(self.number, Some(error.into()), None) {
                    after.push(After::Over(flying.point.clone()));
                }
            }
        }
        // The end of a command that sends says nothing of its bytes: they may be on their way, and
        // never arrive. What has all come here is passed on.
        let mut sinks = locked(&self.sinks);
        after.extend(sinks.drain().filter_map(|(_, sink)| match sink {
            Sink::Onwards {
                to,
                transfer,
                received,
                length,
                ..
            } if received < length => Some(After::Failed(to, transfer)),
            Sink::Onwards { .. } | Sink::Here { .. } => None,
        }));
        drop(sinks);
        drop(state);
        self.follow_up(after);
        self.part();
        self.look();
    }

    /// The loss, once nothing touches the host's memory any more.
    pub(crate) fn loss(&self) -> Option<Refusal> {
        self.lost.get().map(|reason| Refusal::Lost(reason.clone()))
    }

    /// Has the driver act on ended commands.
    pub(crate) fn look(&self) {
        if let Some(driver) = self.driver.get().and_then(Weak::upgrade) {
            driver.look();
        }
    }

    /// Sends a command, after these, and gives the point of its end.
    pub(crate) fn send(
        &self,
        route: &Route,
        waits: &[Point],
        task: Task<'_>,
    ) -> Result<Point, Refusal> {
        let held = match self.siblings.get() {
            Some(_) => self.placeholders(waits)?,
            None => Vec::new(),
        };
        let mut state = locked(&self.state);
        self.check_room(&state)?;
        let after = self.after(&state, waits, &held);
        let after = self.joined(&mut state, route, after)?;
        let point = |event| Point::new(self.number, event);
        match task {
            Task::Plain(operation) => {
                let point = point(self.push(&mut state, route, &after, operation)?);
                self.fly(&mut state, Flying::new(point.clone(), 1));
                Ok(point)
            }
            Task::Several(operations) => {
                let mut after = after;
                let mut last = None;
                for operation in operations {
                    let point = point(self.push(&mut state, route, &after, *operation)?);
                    self.fly(&mut state, Flying::new(point.clone(), 1));
                    after = smallvec![Wait::needs(point.event())];
                    last = Some(point);
                }
                last.ok_or_else(|| Refusal::NotSent("a command of no operations".to_owned()))
            }
            Task::Write(write, region) => self.send_write(&mut state, route, &after, write, region),
            Task::Read(read, region) => {
                self.send_read(&mut state, route, &after, region, false, |transfer| {
                    Operation::Read(quipu_protocol::message::Read { transfer, ..read })
                })
            }
            Task::ReadContent(read, region) => {
                self.send_read(&mut state, route, &after, region, true, |transfer| {
                    Operation::ReadContent(quipu_protocol::message::ReadContent {
                        transfer,
                        ..read
                    })
                })
            }
        }
    }

    /// True if the bytes of a region go with a message of the command stream.
    fn is_small(&self, region: &HostRegion) -> bool {
        let most = u64::from(self.terms.max_inline).min(u64::from(self.out.max_frame()) - 8192);
        region.len() as u64 <= most
    }

    /// Sends a write. The bytes of a small one go with its message, and those of others as a
    /// transfer.
    fn send_write(
        &self,
        state: &mut State,
        route: &Route,
        after: &[Wait],
        write: quipu_protocol::message::Write<'_>,
        region: HostRegion,
    ) -> Result<Point, Refusal> {
        if self.is_small(&region) {
            let event = region.gather(0, region.len(), |bytes| {
                let write = Operation::Write(quipu_protocol::message::Write { bytes, ..write });
                self.push(state, route, after, write)
            })?;
            let point = Point::new(self.number, event);
            self.fly(state, Flying::new(point.clone(), 1));
            return Ok(point);
        }
        let transfer = state.last_transfer + 1;
        let write = Operation::Write(quipu_protocol::message::Write { transfer, ..write });
        let point = Point::new(self.number, self.push(state, route, after, write)?);
        state.last_transfer = transfer;
        self.fly(state, Flying::new(point.clone(), 2));
        self.jobs.add(Job {
            transfer,
            event: Some(point.event()),
            offset: 0,
            has_rest: false,
            bytes: Bytes {
                region,
                _kept: Vec::new(),
            },
        });
        Ok(point)
    }

    /// Sends a read, which `operation` makes of the number of its transfer. The bytes of a small
    /// one come with a message, without a transfer: its number is zero. `awaits_content`: the node
    /// also tells how much is in use.
    fn send_read<'a>(
        &self,
        state: &mut State,
        route: &Route,
        after: &[Wait],
        region: HostRegion,
        awaits_content: bool,
        operation: impl FnOnce(u64) -> Operation<'a>,
    ) -> Result<Point, Refusal> {
        let is_small = self.is_small(&region);
        let transfer = if is_small { 0 } else { state.last_transfer + 1 };
        let event = self.push(state, route, after, operation(transfer))?;
        let mut rare = Rare {
            transfer,
            awaits_content,
            ..Rare::default()
        };
        let parts = if is_small {
            rare.region = Some(region);
            1
        } else {
            state.last_transfer = transfer;
            let sink = Sink::Here {
                event,
                region,
                received: 0,
            };
            locked(&self.sinks).insert(transfer, sink);
            2
        };
        let point = Point::new(self.number, event);
        self.fly(state, Flying::new(point.clone(), parts).with(rare));
        Ok(point)
    }

    /// Fails if no command can be sent for now.
    pub(crate) fn check_room(&self, state: &State) -> Result<(), Refusal> {
        if let Some(lost) = self.loss() {
            return Err(lost);
        }
        if state.flying.len() >= (self.terms.max_commands / 2).max(1) as usize {
            return Err(Refusal::Full(format!(
                "node '{}' takes no more commands for now",
                self.node
            )));
        }
        Ok(())
    }

    /// The commands that a command waits for, with other commands between where these are more than
    /// one may wait for.
    pub(crate) fn joined(
        &self,
        state: &mut State,
        route: &Route,
        mut after: Waits,
    ) -> Result<Waits, Refusal> {
        while after.len() > MAX_WAITS {
            let rest = after.drain(MAX_WAITS - 1..).collect();
            let join = self.push(state, route, &after, Operation::Nothing)?;
            self.fly(state, Flying::new(Point::new(self.number, join), 1));
            after = rest;
            after.push(Wait::after(join));
        }
        Ok(after)
    }

    /// Puts a command among those that are to be sent; its event. If the connection is being lost,
    /// it fails when that is known.
    pub(crate) fn push(
        &self,
        state: &mut State,
        route: &Route,
        waits: &[Wait],
        operation: Operation<'_>,
    ) -> Result<u64, Refusal> {
        let event = state.last_event + 1;
        if !route.sizes.is_empty() && matches!(operation, Operation::Launch(_) | Operation::Copy(_))
        {
            self.put(&Message::ContentSizes(ContentSizes {
                event,
                sizes: &route.sizes,
            }))?;
            // They are this command's, also if it cannot be sent.
            state.last_event = event;
        }
        let message = Message::Command(Command {
            event,
            device: route.device,
            queue: route.queue,
            priority: route.priority.unwrap_or(Priority::Normal),
            profiled: route.profiled,
            waits,
            operation,
        });
        self.put(&message)?;
        state.last_event = event;
        Ok(event)
    }

    /// Puts a message among those that are to be sent.
    pub(crate) fn put(&self, message: &Message<'_>) -> Result<(), Refusal> {
        match self.out.push(message) {
            Ok(_) => Ok(()),
            Err(quipu_link::LinkError::NotSent(error)) => Err(Refusal::NotSent(error.to_string())),
            // The receiving thread learns it, too.
            Err(_) => Ok(()),
        }
    }

    /// Has a node begin, now and then, with commands that will be flushed when all have been put
    /// there.
    pub(crate) fn send_ahead(&self, last: &Point) {
        // Two threads that do it at a time do no harm.
        if last.event() >= self.ahead.load(Ordering::Relaxed) + AHEAD {
            self.ahead.store(last.event(), Ordering::Relaxed);
            self.out.flush();
        }
    }

    /// Has everything sent that is to be.
    pub(crate) fn flush(&self) {
        self.out.flush();
        self.attend();
    }

    /// The state of the commands in flight.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Something is to be sent for the sake of another node's command.
    pub(crate) fn soil(&self) {
        self.soiled.store(true, Ordering::SeqCst);
    }

    /// True if something was, since this was last asked.
    pub(crate) fn is_soiled(&self) -> bool {
        self.soiled.swap(false, Ordering::SeqCst)
    }

    /// True if commands are on the node.
    pub(crate) fn is_flying(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// The address of the driver.
    pub(crate) fn driver_address(&self) -> *const () {
        let driver = self.driver.get();
        driver.map_or(std::ptr::null(), |driver| driver.as_ptr().cast())
    }

    /// A new buffer.
    pub(crate) fn create_buffer(&self, size: u64) -> Result<u64, Refusal> {
        let mut state = locked(&self.state);
        if let Some(lost) = self.loss() {
            return Err(lost);
        }
        let bytes = state.bytes.saturating_add(size);
        if state.buffers >= self.terms.max_buffers {
            return Err(Refusal::NotSent(format!(
                "node '{}' takes at most {} buffers of a program at once; free some, or use fewer that are larger",
                self.node, self.terms.max_buffers
            )));
        }
        if size > self.terms.max_buffer_bytes || bytes > self.terms.max_session_bytes {
            return Err(Refusal::Full(format!(
                "node '{}' gives this program no more memory",
                self.node
            )));
        }
        let buffer = state.last_buffer + 1;
        self.put(&Message::CreateBuffer(CreateBuffer { buffer, size }))?;
        state.last_buffer = buffer;
        state.buffers += 1;
        state.bytes = bytes;
        Ok(buffer)
    }

    /// A buffer is not used any more.
    pub(crate) fn free_buffer(&self, buffer: u64, size: u64) {
        let mut state = locked(&self.state);
        state.buffers -= 1;
        state.bytes -= size;
        // It frees all when the connection is lost.
        let _ = self.put(&Message::FreeBuffer(FreeBuffer { buffer }));
        drop(state);
        self.flush();
    }

    /// The ids of transfers that there were so far.
    pub(crate) fn last_transfer(&self) -> u64 {
        locked(&self.state).last_transfer
    }

    /// Commands have ended well. False if one is none.
    pub(crate) fn completed(&self, events: impl Iterator<Item = (u64, Option<Times>)>) -> bool {
        let mut state = locked(&self.state);
        for (event, times) in events {
            let Some(flying) = untold(&mut state, event) else {
                return false;
            };
            let rare = flying.rare.as_deref();
            let lacks = |rare: &Rare| {
                let is_whole = rare.answer.as_ref().is_none_or(Answer::is_whole);
                rare.region.is_some() || rare.awaits_content || !is_whole
            };
            if rare.is_some_and(lacks) {
                // Its bytes, or the rest of its answer, should have come before.
                return false;
            }
            if times.is_some() {
                flying.rare().times = times;
            }
            flying.told = true;
            self.end_part(&mut state, event);
        }
        self.acknowledge(state);
        true
    }

    /// A command has failed. False if it is none.
    pub(crate) fn failed(&self, failed: &Failed<'_>) -> bool {
        let event = failed.event;
        let mut state = locked(&self.state);
        let error = state.failures.error(&self.node, failed);
        let Some(flying) = untold(&mut state, event) else {
            return false;
        };
        let is_of_other = flying.point.home() != self.number;
        flying.told = true;
        let rare = flying.rare();
        rare.failure = Some(match error.kind() {
            // It is the loss of another device than that of the command.
            ErrorKind::DeviceLost { device, reason } if is_of_other => ErrorKind::Device {
                device: device.clone(),
                what: "receive bytes".to_owned(),
                message: reason.clone(),
            }
            .into(),
            _ => error,
        });
        rare.region = None;
        let transfer = rare.transfer;
        if transfer != 0 && locked(&self.sinks).remove(&transfer).is_some() {
            // Nothing comes of it any more.
            self.end_part(&mut state, event);
        }
        self.end_part(&mut state, event);
        self.acknowledge(state);
        true
    }

    /// Has ends acknowledged before they are as many as the node takes commands.
    fn acknowledge(&self, mut state: MutexGuard<'_, State>) {
        let due = state.unacknowledged >= (self.terms.max_commands / 4) as usize;
        if due {
            state.unacknowledged = 0;
        }
        let after = std::mem::take(&mut state.after);
        drop(state);
        self.follow_up(after);
        if due {
            self.flush();
        }
    }

    /// Takes the bytes of a read. False if no read asked for just so many bytes.
    pub(crate) fn read_bytes(&self, event: u64, bytes: &[u8]) -> bool {
        let mut state = locked(&self.state);
        let Some(flying) = state.flying.get_mut(event) else {
            return false;
        };
        let region = flying.rare.as_mut().and_then(|rare| rare.region.take());
        let Some(region) = region.filter(|region| region.len() == bytes.len()) else {
            return false;
        };
        region.scatter(0, bytes);
        true
    }

    /// Takes the number of bytes of a read that are in use. False if no read asked for it, or it is
    /// more than there is, or less than has come.
    pub(crate) fn content(&self, event: u64, length: u64) -> bool {
        let mut state = locked(&self.state);
        let Some(flying) = state.flying.get_mut(event) else {
            return false;
        };
        let rare = flying.rare();
        if !std::mem::take(&mut rare.awaits_content) {
            return false;
        }
        let transfer = rare.transfer;
        if transfer == 0 {
            let region = rare.region.take();
            let Some((used, rest)) = region.and_then(|region| region.split(length)) else {
                return false;
            };
            rest.clear();
            rare.region = (length > 0).then_some(used);
            return true;
        }
        let mut sinks = locked(&self.sinks);
        let Some(Sink::Here {
            region, received, ..
        }) = sinks.get_mut(&transfer)
        else {
            // All of it has come, so all of it is in use.
            return true;
        };
        let received = *received;
        let split = region.split(length);
        let Some((used, rest)) = split.filter(|(used, _)| received <= used.len()) else {
            return false;
        };
        rest.clear();
        let is_all = received == used.len();
        *region = used;
        if is_all {
            sinks.remove(&transfer);
            drop(sinks);
            // The other part is its end, which comes next.
            self.end_part(&mut state, event);
        }
        true
    }

    /// One of the things that a command takes has come about; true if that was the last.
    pub(crate) fn part_is_over(&self, event: u64) -> bool {
        let mut state = locked(&self.state);
        let is_finished = self.end_part(&mut state, event);
        let after = std::mem::take(&mut state.after);
        drop(state);
        self.follow_up(after);
        is_finished
    }

    pub(crate) fn fly(&self, state: &mut State, flying: Flying) {
        state.flying.insert(flying);
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    fn end_part(&self, state: &mut State, event: u64) -> bool {
        let Some(flying) = state.flying.get_mut(event) else {
            return false;
        };
        flying.parts -= 1;
        if flying.parts > 0 {
            return false;
        }
        if let Some(flying) = state.flying.remove(event) {
            if self.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
                // Before any thread is told, for it may send the next.
                self.reading.nothing_flies();
            }
            let (failure, times) = match flying.rare {
                Some(rare) => {
                    if let Some((node, transfer)) = rare.carries
                        && rare.failure.is_some()
                    {
                        state.after.push(After::Failed(node, transfer));
                    }
                    let brings = rare.brings;
                    let arrived = |(node, transfer)| After::Arrived(node, transfer);
                    state.after.extend(brings.map(arrived));
                    (rare.failure, rare.times)
                }
                None => (None, None),
            };
            if flying.point.end(self.number, failure, times) {
                state.after.push(After::Over(flying.point));
            }
        }
        state.unacknowledged += 1;
        true
    }
}

//! [Batches](crate::batch) in the ledger: their commands, and whether each may leave. Bookkeeping
//! only, as all of the ledger.
//!
//! ```text
//!  Gathering ──▶ Making ──▶ Made ──▶ Away ──▶ gone
//!      └───────────┴──────────┴──▶ dissolved: its commands go one by one
//! ```
//!
//! 1. A command is *blocked* if it waits for something outside the domain, or for a command that
//!    is. Blocked commands of a device that come one after the other are a batch, as long as each
//!    waits for others of the batch, or for commands before its first. So no command that a batch
//!    waits for waits for a part of it. Commands that are known to take long are not part of a
//!    batch, and the longer commands take the fewer a batch has: a command that waits for one of
//!    them on the device waits for all.
//! 2. The drain thread gathers the plan of a batch. When it has caught up and the batch is full, or
//!    no command has come for a while, the batch is closed and made elsewhere.
//! 3. When the turn of any of its commands comes, a batch either leaves whole, at once, or is
//!    dissolved. It stays only while it is not made and its device has other batches to do.

use super::ledger::{Ended, Entry, Job, Key, Lane, Ledger, Place};
use super::slab::Slab;
use crate::batch::{Counts, FEWEST, MOST, MOST_NS, Plan};
use crate::vendor::{Executor, Flight, Vendor};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::{Error, Priority, clock};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

/// Commands of a device in batches that are gathered, made or ready.
const MOST_AHEAD: usize = 64 * MOST;
/// For so long nothing has to have come before a batch is made that has room for more, in
/// nanoseconds.
const SETTLED_NS: u64 = 50_000;
/// Batches that a device has to do while the next is made.
const BACKLOG: usize = 2;
/// Batches that are over and kept while a device has others to do.
const MOST_UNUSED: usize = 64;
/// Commands that are gathered at a time.
const AT_A_TIME: usize = 16;

/// The name of a batch.
pub(super) type BatchKey = Key;

/// A batch that can be put on its device.
pub(super) struct Made<V: Vendor> {
    pub(super) plan: Plan<V>,
    pub(super) batch: V::Batch,
}

enum Stage<V: Vendor> {
    /// So many of its commands are in the plan, which the thread that gathers has.
    Gathering(usize, Option<Plan<V>>),
    Making,
    Made(Arc<Made<V>>),
    /// It is on its device, and so many of its commands are not over.
    Away(usize, Arc<Made<V>>),
}

pub(super) struct Batch<V: Vendor> {
    device: usize,
    priority: Priority,
    /// The number of its first command.
    first: u64,
    members: Vec<Key>,
    /// The time that they take together, in nanoseconds.
    takes: u64,
    stage: Stage<V>,
    /// The time at which the last joined it, on the process's clock.
    grown: u64,
    /// The turn of one of its commands has come.
    is_due: bool,
}

/// The batches of a device.
#[derive(Debug, Default)]
pub(super) struct OfDevice {
    /// The batch that more commands may join.
    open: Option<BatchKey>,
    /// The batches that are not made, oldest first.
    gathering: VecDeque<BatchKey>,
    /// The number of commands in batches that are not on the device.
    here: usize,
    /// The number of batches on the device.
    away: usize,
}

/// The way on which a command goes whose turn it is.
pub(super) enum Forwarding {
    Alone,
    Whole(BatchKey),
    Later,
}

/// The parts that are needed to put a batch on its device.
pub(super) struct Whole<V: Vendor> {
    pub(super) batch: BatchKey,
    pub(super) device: usize,
    pub(super) members: Vec<(Key, CommandRef)>,
    pub(super) made: Arc<Made<V>>,
    /// The signals that its commands wait for on the device, outside of it.
    pub(super) waits: SmallVec<[V::Signal; 4]>,
    /// The line whose last command one of them waits for.
    pub(super) line: Option<usize>,
}

/// The next commands of a batch to be gathered, each with those of the batch that it waits for.
pub(super) struct Ungathered<V: Vendor> {
    pub(super) device: usize,
    pub(super) plan: Plan<V>,
    pub(super) commands: Vec<(CommandRef, SmallVec<[u32; 2]>)>,
}

/// All batches.
pub(super) type Batches<V> = Slab<Batch<V>>;

impl<V: Vendor> Ledger<V> {
    /// The counts of batches.
    pub(crate) fn counts(&self) -> Counts {
        let ready = self.batches.iter().map(|(_, batch)| match batch.stage {
            Stage::Made(_) => batch.members.len() as u64,
            _ => 0,
        });
        Counts {
            ready: ready.sum(),
            ..self.batch_counts
        }
    }

    /// True if a command that is about to be noted is blocked.
    pub(super) fn is_blocked(&self, entry: &Entry<V>) -> bool {
        let blocks = |key: Option<Key>| key.and_then(|key| self.entries.get(key));
        let mut waits = entry.waits.iter().filter(|wait| !wait.met);
        entry.host_waits > 0 || waits.any(|wait| blocks(wait.key).is_some_and(|it| it.blocked))
    }

    /// A blocked command that was just noted, and takes so many nanoseconds, becomes one of a
    /// batch.
    pub(super) fn join_batch(&mut self, key: Key, takes: u64) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        debug_assert_eq!(entry.executor, Executor::Device);
        let (device, (Reverse(priority), number, _)) = (entry.device, entry.turn);
        let open = self.lanes[device].batches.open;
        let fits = |batch: &Batch<V>| {
            let mut waits = entry.waits.iter().filter(|wait| !wait.met);
            batch.priority == priority
                && batch.takes + takes <= MOST_NS
                && entry.host_waits == 0
                && waits.all(|wait| {
                    let other = wait.key.and_then(|key| self.entries.get(key));
                    other.is_some_and(|it| it.batch == open || it.turn.1 < batch.first)
                })
        };
        let joined = open.filter(|open| self.batches.get(*open).is_some_and(fits));
        let batch = match joined {
            Some(batch) => batch,
            None => {
                self.close(device);
                let of_device = &mut self.lanes[device].batches;
                if of_device.here >= MOST_AHEAD {
                    return;
                }
                let batch = self.batches.insert(Batch {
                    device,
                    priority,
                    first: number,
                    members: Vec::new(),
                    takes: 0,
                    stage: Stage::Gathering(0, Some(Plan::default())),
                    grown: 0,
                    is_due: false,
                });
                of_device.open = Some(batch);
                of_device.gathering.push_back(batch);
                batch
            }
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.batch = Some(batch);
        }
        let Some(known) = self.batches.get_mut(batch) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place_in_batch = known.members.len() as u32;
        }
        known.members.push(key);
        known.takes += takes;
        known.grown = clock::now_ns();
        self.lanes[device].batches.here += 1;
        if known.members.len() == MOST {
            self.close(device);
        }
    }

    /// Lets nothing join a device's open batch any more.
    fn close(&mut self, device: usize) {
        if let Some(batch) = self.lanes[device].batches.open.take()
            && self
                .batches
                .get(batch)
                .is_some_and(|it| it.members.len() < FEWEST)
        {
            self.dissolve(batch);
        }
    }

    /// The next thing to do for batches that are not made.
    pub(super) fn next_gathering(&mut self) -> Option<Job<V>> {
        for device in 0..self.lanes.len() {
            let gathering = &mut self.lanes[device].batches.gathering;
            while gathering
                .front()
                .is_some_and(|batch| self.batches.get(*batch).is_none())
            {
                gathering.pop_front();
            }
            let Some(batch) = gathering.front().copied() else {
                continue;
            };
            let Some(known) = self.batches.get_mut(batch) else {
                continue;
            };
            let Stage::Gathering(gathered, plan) = &mut known.stage else {
                continue;
            };
            if known.members.len() < FEWEST {
                continue;
            }
            if *gathered == known.members.len() {
                let is_open = self.lanes[device].batches.open == Some(batch);
                if is_open && clock::now_ns() < known.grown + SETTLED_NS {
                    continue;
                }
                let plan = plan.take();
                known.stage = Stage::Making;
                let batches = &mut self.lanes[device].batches;
                batches.gathering.pop_front();
                batches.open = batches.open.filter(|open| *open != batch);
                return plan.map(|plan| Job::Make(batch, device, plan));
            }
            // Code that is being compiled is known to be so.
            let rest = known.members[*gathered..].iter().take(AT_A_TIME);
            let built = |key: &&Key| self.entries.get(**key).is_some_and(|it| !it.building);
            let next: Vec<Key> = rest.take_while(built).copied().collect();
            if next.is_empty() {
                continue;
            }
            let plan = plan.take().unwrap_or_default();
            *gathered += next.len();
            let commands = next.into_iter().map(|key| self.ungathered(batch, key));
            let commands = commands.collect();
            return Some(Job::Gather(
                batch,
                Ungathered {
                    device,
                    plan,
                    commands,
                },
            ));
        }
        None
    }

    /// The time at which a gathered batch will be closed, if no command joins it.
    pub(super) fn settles(&self) -> Option<u64> {
        let open = self.lanes.iter().filter_map(|lane| {
            // Others are gathered first.
            let mut batches = lane.batches.gathering.iter().copied();
            let first = batches.find(|batch| self.batches.get(*batch).is_some());
            first.filter(|first| lane.batches.open == Some(*first))
        });
        let open = open.filter_map(|batch| self.batches.get(batch));
        let open = open.filter(|batch| batch.members.len() >= FEWEST);
        let open = open.filter(|batch| match batch.stage {
            Stage::Gathering(gathered, _) => gathered == batch.members.len(),
            _ => false,
        });
        open.map(|batch| batch.grown + SETTLED_NS).min()
    }

    /// True if there is something that [`Ledger::next_gathering`] would be, or will.
    pub(super) fn has_gathering(&self) -> bool {
        let mut lanes = self.lanes.iter();
        let is_gathering = |lane: &Lane| {
            let mut batches = lane.batches.gathering.iter();
            let first = batches.find_map(|batch| self.batches.get(*batch));
            first.is_some_and(|batch| match batch.stage {
                Stage::Gathering(gathered, _) if batch.members.len() >= FEWEST => {
                    let next = batch.members.get(gathered).copied();
                    let next = next.and_then(|key| self.entries.get(key));
                    next.is_none_or(|entry| !entry.building)
                }
                _ => false,
            })
        };
        !self.batches.is_empty() && lanes.any(is_gathering)
    }

    fn ungathered(&self, batch: BatchKey, key: Key) -> (CommandRef, SmallVec<[u32; 2]>) {
        // The caller has just seen it.
        let entry = &self.entries.get(key);
        let entry = entry.unwrap_or_else(|| unreachable!("a command of a batch is noted"));
        let within = |other: Key| {
            let other = self.entries.get(other)?;
            (other.batch == Some(batch)).then_some(other.place_in_batch)
        };
        let waits = entry.waits.iter().filter(|wait| !wait.resolved);
        let after = waits.filter_map(|wait| within(wait.key?)).collect();
        (entry.held, after)
    }

    /// Keeps the gathered plan of a batch, unless it was dissolved meanwhile.
    pub(super) fn gathered(&mut self, batch: BatchKey, gathered: Plan<V>) {
        if let Some(known) = self.batches.get_mut(batch)
            && let Stage::Gathering(_, plan) = &mut known.stage
        {
            *plan = Some(gathered);
        }
    }

    /// A batch is made. It comes back if it was dissolved meanwhile.
    pub(super) fn made(&mut self, batch: BatchKey, made: Made<V>) -> Option<Made<V>> {
        let Some(known) = self.batches.get_mut(batch) else {
            return Some(made);
        };
        known.stage = Stage::Made(Arc::new(made));
        self.batch_counts.made += 1;
        self.recall(batch);
        None
    }

    /// A batch cannot be made.
    pub(super) fn unmade(&mut self, batch: BatchKey) {
        self.batch_counts.failed += 1;
        self.dissolve(batch);
    }

    /// If the turn of one of a batch's commands has come, it comes again.
    fn recall(&mut self, batch: BatchKey) {
        let Some(known) = self.batches.get_mut(batch) else {
            return;
        };
        if std::mem::take(&mut known.is_due) {
            let members = known.members.clone();
            members.into_iter().for_each(|key| self.consider(key));
        }
    }

    /// True if a device's commands are in batches that have not left.
    pub(super) fn has_batches(&self, device: usize) -> bool {
        self.lanes[device].batches.here > 0
    }

    /// True if a command's batch is made.
    pub(super) fn is_of_made(&self, key: Key) -> bool {
        let batch = self.entries.get(key).and_then(|entry| entry.batch);
        let batch = batch.and_then(|batch| self.batches.get(batch));
        batch.is_some_and(|batch| matches!(batch.stage, Stage::Made(_)))
    }

    /// True if batches that are over are to be given up: when their devices have none to do, for it
    /// takes a library a while, in which it may let nobody else call.
    pub(super) fn may_discard(&self) -> bool {
        let is_doing = |lane: &Lane| lane.batches.away > 0;
        match self.unused.len() {
            0 => false,
            1..MOST_UNUSED => !self.lanes.iter().any(is_doing),
            _ => true,
        }
    }

    /// The way on which a command goes whose turn it is.
    pub(super) fn forwarding_of(&mut self, key: Key) -> Forwarding {
        let entry = self.entries.get(key);
        let Some(batch) = entry.and_then(|entry| entry.batch) else {
            return Forwarding::Alone;
        };
        let is_whole = self.is_whole(batch);
        let Some(known) = self.batches.get_mut(batch) else {
            return Forwarding::Alone;
        };
        let lane = &self.lanes[known.device];
        match known.stage {
            Stage::Made(_) if is_whole && !lane.lost => return Forwarding::Whole(batch),
            Stage::Gathering(..) | Stage::Making if !lane.lost && lane.batches.away >= BACKLOG => {
                known.is_due = true;
                return Forwarding::Later;
            }
            _ => {}
        }
        self.dissolve(batch);
        Forwarding::Alone
    }

    /// True if all of a batch may leave now.
    fn is_whole(&self, batch: BatchKey) -> bool {
        let Some(known) = self.batches.get(batch) else {
            return false;
        };
        known.members.iter().all(|key| {
            self.entries.get(*key).is_some_and(|entry| {
                let within = |key: Option<Key>| {
                    let other = key.and_then(|key| self.entries.get(key));
                    other.is_some_and(|other| other.batch == Some(batch))
                };
                let mut waits = entry.waits.iter();
                entry.place == Place::Held
                    && !entry.building
                    && !entry.alone
                    && entry.host_waits == 0
                    && !entry.event.is_refused()
                    && waits.all(|wait| wait.met || within(wait.key))
            })
        })
    }

    /// Begins the departure of a batch. Gives the parts that this needs.
    pub(super) fn begin_whole(&mut self, batch: BatchKey) -> Option<Whole<V>> {
        let known = self.batches.get(batch)?;
        let Stage::Made(made) = &known.stage else {
            return None;
        };
        let (made, device, keys) = (made.clone(), known.device, known.members.clone());
        let mut waits: SmallVec<[V::Signal; 4]> = SmallVec::new();
        // Those with a signal that all of their commands share.
        let (mut seen, mut line) = (SmallVec::<[(Option<BatchKey>, Key); 4]>::new(), None);
        let mut members = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(entry) = self.entries.get(key) else {
                continue;
            };
            let mut sure = !entry.fallible;
            for wait in entry.waits.iter().filter(|wait| !wait.resolved) {
                let Some((other, awaited)) = wait
                    .key
                    .and_then(|other| Some((other, self.entries.get(other)?)))
                else {
                    continue;
                };
                sure &= !wait.propagates || awaited.sure;
                if awaited.batch == Some(batch) {
                    continue;
                }
                let Some(signal) = &awaited.signal else {
                    continue;
                };
                let is_last = self.lanes[device].lines.get(awaited.line) == Some(&Some(other));
                if awaited.is_on(device) && is_last {
                    line = Some(awaited.line);
                }
                let name = (awaited.batch, awaited.batch.map_or(other, |_| 0));
                if !seen.contains(&name) {
                    seen.push(name);
                    waits.push(signal.clone());
                }
            }
            members.push((key, entry.held));
            if let Some(entry) = self.entries.get_mut(key) {
                entry.place = Place::Leaving;
                entry.eligible = false;
                entry.sure = sure;
            }
            self.note_handed(key);
        }
        Some(Whole {
            batch,
            device,
            members,
            made,
            waits,
            line,
        })
    }

    /// A batch is on its device, where it waits for the last command of `line`. The line that each
    /// of its commands is in.
    pub(super) fn forwarded_whole(
        &mut self,
        batch: BatchKey,
        flights: Vec<Flight<V>>,
        mut line: Option<usize>,
    ) -> Vec<usize> {
        let Some(known) = self.batches.get_mut(batch) else {
            return Vec::new();
        };
        let (device, members) = (known.device, known.members.clone());
        if let Stage::Made(made) = &known.stage {
            known.stage = Stage::Away(members.len(), made.clone());
        }
        self.batch_counts.put += 1;
        self.batch_counts.commands += members.len() as u64;
        let batches = &mut self.lanes[device].batches;
        batches.here -= members.len();
        batches.away += 1;
        let mut lines = Vec::with_capacity(members.len());
        let last = members.last().copied();
        for (key, flight) in members.into_iter().zip(flights) {
            if let Some(entry) = self.entries.get_mut(key) {
                // They are one call, which is over when the last of them is.
                entry.is_counted = Some(key) == last;
            }
            line = self.forwarded(key, flight, line);
            lines.extend(line);
        }
        lines
    }

    /// Has the commands of a batch that is not on its device go one by one.
    pub(super) fn dissolve(&mut self, batch: BatchKey) {
        let Some(Batch {
            device,
            members,
            stage,
            ..
        }) = self.batches.remove(batch)
        else {
            return;
        };
        let batches = &mut self.lanes[device].batches;
        batches.here -= members.len();
        batches.open = batches.open.filter(|open| *open != batch);
        if let Stage::Made(made) = stage {
            self.unused.push(made);
        }
        for key in members {
            let Some(entry) = self.entries.get_mut(key) else {
                continue;
            };
            entry.batch = None;
            if entry.place == Place::Leaving {
                entry.place = Place::Held;
            }
            self.consider(key);
        }
    }

    /// A batch can neither be put on its device nor be dissolved.
    pub(super) fn end_whole(&mut self, batch: BatchKey, error: &Error) {
        let known = self.batches.get(batch);
        if let Some(Stage::Made(made)) = known.map(|known| &known.stage) {
            // Its device may be at it.
            std::mem::forget(made.clone());
        }
        let members = known.map(|known| known.members.clone());
        self.dissolve(batch);
        for key in members.unwrap_or_default() {
            self.end(key, Some(Ended::Here(Err(error.clone()))));
        }
    }

    /// A command of a batch is over before that has left, or over on its device.
    pub(super) fn leave_batch(&mut self, key: Key, ended: Option<&Ended<V::Failure>>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Some(batch) = entry.batch else {
            return;
        };
        let Some(known) = self.batches.get_mut(batch) else {
            return;
        };
        let Stage::Away(left, _) = &mut known.stage else {
            return self.dissolve(batch);
        };
        entry.batch = None;
        *left -= 1;
        if *left > 0 {
            return;
        }
        let device = known.device;
        if let Some(Batch {
            stage: Stage::Away(_, made),
            ..
        }) = self.batches.remove(batch)
        {
            if matches!(ended, Some(Ended::Here(_))) {
                // Its device is lost, and may still be at it.
                std::mem::forget(made);
            } else {
                self.unused.push(made);
            }
        }
        self.lanes[device].batches.away -= 1;
        let due = self.batches.iter();
        let due = due.filter(|(_, other)| other.device == device && other.is_due);
        let due: Vec<BatchKey> = due.map(|(batch, _)| batch).collect();
        due.into_iter().for_each(|batch| self.recall(batch));
    }
}

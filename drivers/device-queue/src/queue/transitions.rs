//! A command's way through the ledger: it leaves, is on its device, ends, is forgotten, or comes
//! back to be held.

use super::ledger::{Arrival, Departure, Ended, Key, Lane, Ledger, Place, Turn, is_met_by};
use crate::vendor::{Executor, Failure, Flight, Vendor};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::{Error, EventId};
use smallvec::SmallVec;

impl Lane {
    /// Enters a command into the line whose last command it waits for, or into an empty one. Gives
    /// that line.
    ///
    /// No end may be noted between the choice of that line ([`Ledger::begin`]) and this. It would
    /// free the line, and another command there would be taken to be over by the end of one that it
    /// has nothing to do with.
    fn enter(&mut self, line: Option<usize>, key: Key) -> usize {
        debug_assert!(
            line.is_none_or(|line| self.lines[line].is_some()),
            "line {line:?} was freed before a command entered it"
        );
        let line = line.or_else(|| self.free_lines.pop()).unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        self.lines[line] = Some(key);
        line
    }

    /// A command has left its line.
    fn leave(&mut self, line: usize, key: Key) {
        if let Some(last) = self.lines.get_mut(line)
            && *last == Some(key)
        {
            *last = None;
            self.free_lines.push(line);
        }
    }
}

impl<V: Vendor> Ledger<V> {
    /// Begins the departure of a command. Gives the parts that this needs, unless the command must
    /// not run.
    pub(super) fn begin(&mut self, key: Key) -> Option<Departure<V>> {
        self.room_before = self.room;
        let entry = self.entries.get_mut(key)?;
        if entry.place != Place::Held {
            return None;
        }
        if entry.event.is_refused() {
            // It ends here, once it is ours.
            if entry.command.is_some() {
                self.end(key, None);
            }
            return None;
        }
        entry.place = Place::Leaving;
        self.note_handed(key);
        let entry = self.entries.get(key)?;
        let (held, device, executor) = (entry.held, entry.device, entry.executor);
        let seen_to = entry.seen_to;
        let mut sure = !entry.fallible;
        let (mut waits, mut line) = (SmallVec::new(), None);
        let entry = self.entries.get(key)?;
        for wait in entry.waits.iter().filter(|wait| !wait.resolved) {
            let other = wait.key;
            let Some((other, awaited)) =
                other.and_then(|other| Some((other, self.entries.get(other)?)))
            else {
                continue;
            };
            sure &= !wait.propagates || awaited.sure;
            if let Some(signal) = awaited.signal.as_ref().filter(|_| !entry.alone) {
                waits.push(signal.clone());
                let is_last = self.lanes[device].lines.get(awaited.line) == Some(&Some(other));
                if awaited.is_on(device) && is_last {
                    line = Some(awaited.line);
                }
            }
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.sure = sure;
        }
        Some(Departure {
            held,
            device,
            executor,
            lost: self.lanes[device].lost,
            waits,
            line,
            seen_to,
        })
    }

    /// Notes that a command is on its device, where it waits for the last command of `line`. Gives
    /// its own line.
    pub(super) fn forwarded(
        &mut self,
        key: Key,
        flight: Flight<V>,
        line: Option<usize>,
    ) -> Option<usize> {
        let entry = self.entries.get_mut(key)?;
        let lane = &mut self.lanes[entry.device];
        lane.away += usize::from(entry.is_counted);
        lane.dirty = V::FLUSHES;
        entry.line = match flight.line {
            Some(line) => line,
            None => lane.enter(line, key),
        };
        entry.place = Place::Away;
        entry.sure &= flight.failure.is_none() && flight.error.is_none();
        entry.signal = Some(flight.signal.clone());
        entry.flight = Some(flight);
        let (event, sure, line) = (entry.event, entry.sure, entry.line);
        let dependants = std::mem::take(&mut entry.dependants);
        for dependant in &dependants {
            self.meet(*dependant, event, sure);
        }
        // They are needed again if it comes back.
        if let Some(entry) = self.entries.get_mut(key) {
            entry.dependants = dependants;
        }
        Some(line)
    }

    /// A thread of the host does a command.
    pub(super) fn taken(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place = Place::Away;
            self.lanes[entry.device].here += 1;
        }
    }

    /// A thread of the host has done a command.
    pub(super) fn done_here(&mut self, key: Key, result: Result<(), Error>) {
        if let Some(entry) = self.entries.get(key) {
            self.lanes[entry.device].here -= 1;
            self.made_room();
        }
        self.end(key, Some(Ended::Here(result)));
    }

    /// Notes that a command that this one waits for is on its device.
    fn meet(&mut self, key: Key, event: EventId, sure: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        for wait in &mut entry.waits {
            if wait.event == event && !wait.met && is_met_by(entry.executor, wait.propagates, sure)
            {
                wait.met = true;
                entry.missing -= 1;
            }
        }
        self.consider(key);
    }

    /// A command was not forwarded, because something that it waits for there has failed: once the
    /// core knows of all its waits, it is forwarded without them, or not at all.
    pub(super) fn hold_alone(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.place = Place::Held;
        entry.alone = true;
        entry.flight = None;
        if entry.signal.take().is_some() {
            let (event, dependants) = (entry.event, entry.dependants.clone());
            for dependant in dependants {
                self.unmeet(dependant, event);
            }
        }
        self.consider(key);
    }

    /// Notes that a command that this one waits for is on its device no more, and has no signal
    /// there.
    fn unmeet(&mut self, key: Key, event: EventId) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if entry.place != Place::Held {
            return;
        }
        for wait in &mut entry.waits {
            if wait.event == event && wait.met && !wait.resolved {
                wait.met = false;
                entry.missing += 1;
            }
        }
        if entry.missing > 0 {
            entry.eligible = false;
        }
    }

    /// True if a command waits for nothing on its device.
    pub(super) fn is_alone(&self, key: Key) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.alone)
    }

    /// A command was not forwarded, because its device has no memory; false if that will not change
    /// by itself. So many host tasks wait.
    pub(super) fn hold_for_memory(&mut self, key: Key, waiting: usize) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let device = entry.device;
        entry.place = Place::Held;
        // A host thread's work may have ended since, and there was room too late: then it is tried
        // again.
        if self.room == self.room_before {
            if !self.is_moving(waiting) {
                return false;
            }
            self.lanes[device].starved = true;
        }
        self.consider(key);
        true
    }

    /// A command must not run after all: it ends here, once it is ours.
    pub(super) fn hold_refused(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.place = Place::Held;
        if entry.command.is_some() {
            self.end(key, None);
        }
    }

    /// A command that is on its device.
    pub(super) fn away(&self, key: Key) -> Option<CommandRef> {
        let entry = self.entries.get(key)?;
        (entry.place == Place::Away).then_some(entry.held)
    }

    /// The points of a command that is on its device, one of which may say why it has failed.
    pub(super) fn points(&self, key: Key) -> Vec<V::Signal> {
        let entry = self.entries.get(key);
        let Some(flight) = entry.and_then(|entry| entry.flight.as_ref()) else {
            return Vec::new();
        };
        let points = V::earlier(&flight.cargo).iter().chain([&flight.signal]);
        points.cloned().collect()
    }

    /// A command has ended on its device, with this status, which was seen then.
    pub(super) fn noted(&mut self, key: Key, result: Result<(), V::Failure>, seen: u64) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if entry.place != Place::Away {
            return;
        }
        let lane = &mut self.lanes[entry.device];
        lane.away -= usize::from(std::mem::replace(&mut entry.is_counted, true));
        lane.leave(entry.line, key);
        let is_of_a_wait = matches!(&result, Err(failure) if failure.is_of_a_wait());
        let goes_again = is_of_a_wait && !entry.alone && entry.executor != Executor::DeviceOnce;
        self.made_room();
        if goes_again {
            self.leave_batch(key, None);
            return self.hold_alone(key);
        }
        self.end(key, Some(Ended::There { result, seen }));
    }

    /// A command is over, and finished as soon as it is ours.
    pub(super) fn end(&mut self, key: Key, ended: Option<Ended<V::Failure>>) {
        self.leave_batch(key, ended.as_ref());
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.eligible = false;
        entry.place = Place::Over;
        entry.ended = ended;
        if entry.command.is_some() {
            self.over.push_back(key);
        }
    }

    /// Takes the parts that are needed to finish a command.
    pub(super) fn arrive(&mut self, key: Key) -> Option<Arrival<V>> {
        let entry = self.entries.get_mut(key)?;
        Some(Arrival {
            command: entry.command.take()?,
            held: entry.held,
            device: entry.device,
            flight: entry.flight.take(),
            ended: entry.ended.take(),
        })
    }

    /// Forgets a command that is finished.
    pub(super) fn forget(&mut self, key: Key) {
        let event = self.entries.get(key).map(|entry| entry.event);
        if let Some(event) = event {
            self.entries.forget(key);
            self.keys.remove(&event);
            self.made_room();
        }
    }

    /// Notes that a device is lost, and with it the commands there.
    pub(super) fn lose(&mut self, device: usize, error: &Error) {
        if std::mem::replace(&mut self.lanes[device].lost, true) {
            return;
        }
        let there = self.entries.iter();
        let there = there.filter(|(_, entry)| entry.is_on(device));
        let mut there: Vec<Turn> = there.map(|(_, entry)| entry.turn).collect();
        there.sort_unstable();
        for (_, _, key) in there {
            let counted = self.entries.get(key).is_some_and(|it| it.is_counted);
            self.lanes[device].away -= usize::from(counted);
            self.end(key, Some(Ended::Here(Err(error.clone()))));
        }
    }
}

//! Usage of memory by commands that are on a device, on a thread of the host, or on their way
//! there. Memory that only held commands use may be moved to the host, to make room. It is moved
//! back when the first of these commands is handed over, because that asks for its allocation.
//!
//! 1. A command is *handed over* from where it begins to leave until its end is noted. Its memory
//!    stays where it is.
//! 2. A thread that hands a command over has all of its memory allocated before anything of it is
//!    put anywhere. If there is no room, it is held until another that was handed over has ended,
//!    on any device: that may have used this one's memory. If nothing else will end, apart from
//!    host tasks that wait for others, it fails.
//!
//! A thread that makes room on a device waits for the bytes that leave it. It holds no lock, so
//! other threads enqueue. But it pumps, so the driver forwards nothing, also to its other devices,
//! until the bytes have arrived or the device is given up.

use super::ledger::{Entry, Key, Ledger, Place};
use super::pump::Caller;
use crate::Shared;
use crate::vendor::Vendor;
use crate::work::Work;
use quipu_scheduler::memory::Memory;
use quipu_scheduler::operation::Operation;
use quipu_scheduler::{Command, CommandView, Result, SpaceId};
use std::sync::Arc;

/// Calls this with the memory that a command uses and the space in which it does, for each.
fn each_use(command: &Command, mut uses: impl FnMut(&Memory, SpaceId)) {
    let mut all = |command: &CommandView| {
        if let Some(device) = command.queue().device() {
            let space = device.space();
            for argument in command.arguments() {
                uses(argument.memory(), space);
            }
        }
    };
    match command.operation() {
        Operation::Graph(graph) => graph.for_each_command(|command, _| all(command)),
        Operation::Migrate(migration) => {
            let spaces = [Some(migration.from), Some(migration.to), migration.content];
            for argument in command.arguments() {
                for space in spaces.into_iter().flatten() {
                    uses(argument.memory(), space);
                }
            }
        }
        _ => all(command),
    }
}

impl<V: Vendor> Ledger<V> {
    /// A command is handed over.
    pub(super) fn note_handed(&mut self, key: Key) {
        self.handed.push(key);
        if self.handed.len() >= self.handed_most {
            let entries = &self.entries;
            self.handed
                .retain(|key| entries.get(*key).is_some_and(is_handed));
            self.handed_most = 2 * self.handed.len() + 64;
        }
    }

    /// True if something is handed over that will end without anybody's doing, if so many of those
    /// that threads of the host do wait for others.
    pub(super) fn is_moving(&self, waiting: usize) -> bool {
        let here: usize = self.lanes.iter().map(|lane| lane.here).sum();
        here > waiting || self.lanes.iter().any(|lane| lane.away > 0)
    }

    /// Notes that there may be room in the devices' memory now.
    pub(super) fn made_room(&mut self) {
        self.room += 1;
        for lane in &mut self.lanes {
            lane.starved = false;
        }
    }
}

fn is_handed<V: Vendor>(entry: &Entry<V>) -> bool {
    matches!(entry.place, Place::Leaving | Place::Away)
}

impl<V: Vendor> Shared<V> {
    /// True if a command that is handed over uses a memory object in a space for which `is_there`
    /// is true.
    pub(crate) fn is_in_use(&self, memory: &Memory, is_there: impl Fn(SpaceId) -> bool) -> bool {
        let ledger = self.ledger();
        let entries = ledger.handed.iter();
        let mut handed = entries
            .filter_map(|key| ledger.entries.get(*key))
            .filter(|entry| is_handed(entry));
        handed.any(|entry| {
            let mut found = false;
            let look = |command: &Command| {
                each_use(command, |used, space| {
                    found |= std::ptr::eq(used, memory) && is_there(space);
                });
            };
            // SAFETY: a command that is handed over is finished only after its end is noted, under
            // the lock that is held.
            unsafe { entry.held.with(look) };
            found
        })
    }
}

impl<V: Vendor> Shared<V> {
    /// Notes that a host task waits: perhaps for a command that lacks the memory that the task
    /// keeps, and then has to fail.
    pub(crate) fn waits_inside(self: &Arc<Self>) {
        {
            let mut ledger = self.ledger();
            if ledger.lanes.iter().all(|lane| !lane.starved) {
                return;
            }
            ledger.made_room();
        }
        self.pump(Caller::Host);
    }
}

impl<V: Vendor> Work<'_, V> {
    /// Has all memory allocated that the command uses on devices.
    ///
    /// # Errors
    /// If there is no memory for some of it.
    pub(crate) fn take_memory(&self) -> Result<()> {
        let command = self.command();
        let mut taken = Ok(());
        let mut take = |argument, space: SpaceId| {
            if taken.is_ok() && space != SpaceId::HOST {
                taken = self.bytes_in(argument, space).map(drop);
            }
        };
        match command.operation() {
            Operation::Migrate(migration) => {
                let [content, size] = match command.arguments() {
                    [content, size] => [Some(content), Some(size)],
                    arguments => [arguments.first(), None],
                };
                for (argument, space) in [
                    (content, Some(migration.from)),
                    (content, Some(migration.to)),
                    (size, migration.content),
                ] {
                    if let (Some(argument), Some(space)) = (argument, space) {
                        take(argument, space);
                    }
                }
            }
            _ => {
                if let Some(device) = command.queue().device() {
                    for argument in command.arguments() {
                        take(argument, device.space());
                    }
                }
            }
        }
        taken
    }
}

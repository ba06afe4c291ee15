//! The mappings of a memory object.
//!
//! A mapping is there from the call that maps to the call that gives the bytes back. A command of
//! either call may fail later. So a mapping keeps its command until that is over, and each look at
//! the mappings drops those whose first command has failed. A mapping whose second command has
//! failed is the program's again.

use crate::code::{Code, Result, ensure};
use crate::context::is_finished;
use opencl_sys::*;
use quipu_scheduler::{Event, Phase};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that the program has mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Map {
    /// The address that the program was given.
    pub(crate) address: usize,
    /// The first byte, counted from the beginning of the buffer.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// True if the program may write there.
    pub(crate) writes: bool,
}

impl Map {
    /// True if both have bytes in common.
    fn shares(&self, other: &Self) -> bool {
        self.offset < other.offset + other.length && other.offset < self.offset + self.length
    }
}

/// The last call for a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Map,
    Unmap,
}

struct Mapping {
    map: Map,
    call: Call,
    /// The command of that call, unless it is known to have succeeded. None also while the call
    /// enqueues it.
    command: Option<Event>,
    /// The command that maps, while the mapping is given back, unless it is known to have
    /// succeeded.
    mapped: Option<Event>,
}

impl Mapping {
    /// The program has the mapping again, if it ever had it.
    fn keep(&mut self) {
        self.call = Call::Map;
        self.command = self.mapped.take();
    }

    /// Looks at how the command ended; false if the mapping is gone.
    fn stays(&mut self) -> bool {
        let Some(command) = self.command.take_if(|command| is_finished(command)) else {
            return true;
        };
        let has_failed = matches!(command.phase(), Phase::Failed);
        match self.call {
            Call::Map => !has_failed,
            Call::Unmap => {
                self.keep();
                has_failed && self.stays()
            }
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Mapped(Mutex<Vec<Mapping>>);

impl Mapped {
    fn known(&self) -> MutexGuard<'_, Vec<Mapping>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain_mut(Mapping::stays);
        known
    }

    /// The number of mappings that the program may give back.
    pub(crate) fn count(&self) -> usize {
        let known = self.known();
        known.iter().filter(|one| one.call == Call::Map).count()
    }

    /// Adds a mapping whose command is about to be enqueued. If it is `apart`, it may share no
    /// bytes with another one that writes.
    pub(crate) fn add(&self, map: Map, apart: bool) -> Result<()> {
        let mut known = self.known();
        let mut others = known.iter().filter(|one| one.call == Call::Map);
        ensure(
            !(apart && others.any(|one| one.map.writes && one.map.shares(&map))),
            CL_INVALID_OPERATION,
        )?;
        known.push(Mapping {
            map,
            call: Call::Map,
            command: None,
            mapped: None,
        });
        Ok(())
    }

    /// The program is about to give back the mapping that has this address.
    pub(crate) fn begin_unmap(&self, address: usize) -> Result<Map> {
        let mut known = self.known();
        let is_meant = |one: &Mapping| one.call == Call::Map && one.map.address == address;
        // Of several, one that writes: what was written is to be seen.
        let place = known
            .iter()
            .rposition(|one| is_meant(one) && one.map.writes);
        let place = place.or_else(|| known.iter().rposition(is_meant));
        let meant = &mut known[place.ok_or(Code(CL_INVALID_VALUE))?];
        meant.call = Call::Unmap;
        meant.mapped = meant.command.take();
        Ok(meant.map)
    }

    /// The command of a mapping that was added was enqueued, or was refused.
    pub(crate) fn mapped(&self, map: &Map, command: Option<Event>) {
        let mut known = self.known();
        // The program may have been told of its end, and have given it back.
        let Some(place) = Self::under_way(&known, map, Call::Map) else {
            return;
        };
        match command {
            Some(command) => known[place].command = Some(command),
            None => drop(known.remove(place)),
        }
    }

    /// The command that gives a mapping back was enqueued. If it was refused, the program may try
    /// again.
    pub(crate) fn unmapped(&self, map: &Map, command: Option<Event>) {
        let mut known = self.known();
        if let Some(place) = Self::under_way(&known, map, Call::Unmap) {
            match command {
                Some(command) => known[place].command = Some(command),
                None => known[place].keep(),
            }
        }
    }

    /// A mapping whose command the call enqueues.
    fn under_way(known: &[Mapping], map: &Map, call: Call) -> Option<usize> {
        let is_meant = |one: &Mapping| one.map == *map && one.call == call && one.command.is_none();
        known.iter().rposition(is_meant)
    }
}

//! The events of a session that may still be named in waits.

use quipu_scheduler::{Event, Phase};
use std::collections::VecDeque;

/// The known state of an event.
pub(crate) enum Known {
    /// The core's event.
    Live(Event),
    /// It was over, and well, before anybody could wait for it.
    Done,
    /// It must not be named any more.
    Gone,
}

/// The number of the session's line in which a command is counted.
pub(crate) type LineNumber = u16;

/// That of events that are no commands.
pub(crate) const NO_LINE: LineNumber = LineNumber::MAX;

/// A command that runs.
pub(crate) struct Running {
    pub(crate) id: u64,
    pub(crate) line: LineNumber,
    /// True if it is a kernel, and no transfer nor anything else that is the device's own.
    pub(crate) is_kernel: bool,
}

/// Events that are gone and stay in the list before it is gone through for them.
const SPARE: usize = 1024;

/// An event that there was.
struct Entry {
    id: u64,
    known: Known,
    line: LineNumber,
    is_kernel: bool,
}

/// Events by their ids, which only rise.
#[derive(Default)]
pub(crate) struct Events {
    /// In the order of ids. The first is not gone, and of all at most half and [`SPARE`] are.
    known: VecDeque<Entry>,
    live: usize,
    last: u64,
}

impl Events {
    /// The largest id that there was.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The number of events that are not gone.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// A new event, whose id is larger than all before. Its line, and whether it is that of a
    /// kernel.
    pub(crate) fn add(&mut self, id: u64, known: Known, line: LineNumber, is_kernel: bool) {
        debug_assert!(id > self.last);
        self.last = id;
        self.live += 1;
        self.known.push_back(Entry {
            id,
            known,
            line,
            is_kernel,
        });
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.known.binary_search_by_key(&id, |entry| entry.id).ok()
    }

    /// The known state of an event, unless it never was or is gone.
    pub(crate) fn get(&self, id: u64) -> Option<&Known> {
        let entry = match self.known.back() {
            // What was sent last is what is waited for most.
            Some(last) if last.id == id => last,
            _ => self.known.get(self.position(id)?)?,
        };
        (!matches!(entry.known, Known::Gone)).then_some(&entry.known)
    }

    /// An event must not be named any more.
    pub(crate) fn forget(&mut self, id: u64) {
        let Some(at) = self.position(id) else {
            return;
        };
        if !matches!(self.known[at].known, Known::Gone) {
            self.known[at].known = Known::Gone;
            self.live -= 1;
        }
        while matches!(self.known.front(), Some(entry) if matches!(entry.known, Known::Gone)) {
            self.known.pop_front();
        }
        // One that stays for long does not keep all that have come since.
        if self.known.len() > 2 * self.live + SPARE {
            self.known
                .retain(|entry| !matches!(entry.known, Known::Gone));
        }
    }

    /// The core's events.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Event> {
        self.known.iter().filter_map(|entry| match &entry.known {
            Known::Live(event) => Some(event),
            Known::Done | Known::Gone => None,
        })
    }

    /// Commands that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = Running> {
        self.known.iter().filter_map(|entry| match &entry.known {
            Known::Live(event) if event.phase() == Phase::Running => Some(Running {
                id: entry.id,
                line: entry.line,
                is_kernel: entry.is_kernel,
            }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_until_they_are_forgotten() {
        let mut events = Events::default();
        for id in [1, 2, 5, 9] {
            events.add(id, Known::Done, NO_LINE, false);
        }
        assert!(events.get(5).is_some() && events.get(3).is_none());
        events.forget(5);
        events.forget(3);
        assert!(events.get(5).is_none() && events.get(9).is_some());
        assert_eq!((events.len(), events.last()), (3, 9));
        for id in [1, 2, 9] {
            events.forget(id);
        }
        assert_eq!((events.len(), events.known.len()), (0, 0));
    }

    #[test]
    fn one_that_stays_does_not_keep_those_that_have_come_since() {
        let mut events = Events::default();
        events.add(1, Known::Done, NO_LINE, false);
        for id in 2..100_000 {
            events.add(id, Known::Done, NO_LINE, false);
            if id > 10 {
                events.forget(id - 5);
            }
            assert!(events.known.len() <= 2 * events.len() + SPARE);
            assert!(events.get(1).is_some() && events.get(id - 1).is_some());
        }
    }
}

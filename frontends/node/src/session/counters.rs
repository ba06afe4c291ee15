//! Counters of a session's commands: a *line* for each queue of the client's on a device.
//!
//! A command is one that is held from where it has come to its end. Whether it runs its event
//! knows, so who wants to know looks at all events that there are.

use super::events::{Events, LineNumber};
use crate::load::QueueCount;
use crate::locked;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The most queues of a session that are counted apart; it may name any number of them.
const APART: usize = 256;

/// The line of a device for queues that are not counted apart.
pub(crate) const OTHERS: u32 = u32::MAX;

/// Counts of one queue on one device.
pub(crate) struct Line {
    number: LineNumber,
    device: u32,
    queue: u32,
    /// Commands that have come, as the thread says that receives them.
    begun: AtomicU64,
    over: AtomicU64,
}

impl Line {
    pub(super) fn number(&self) -> LineNumber {
        self.number
    }

    /// A command has come. Said by one thread.
    pub(super) fn begun(&self) {
        let before = self.begun.load(Ordering::Relaxed);
        self.begun.store(before + 1, Ordering::Relaxed);
    }

    /// It is over.
    pub(super) fn ended(&self) {
        self.over.fetch_add(1, Ordering::Release);
    }

    /// Commands that are not over, and those that are.
    fn counts(&self) -> [u64; 2] {
        // In this order: what is over had come.
        let over = self.over.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        [begun.saturating_sub(over), over]
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Counters {
    /// Those that there are to wait for.
    pub(super) events: Mutex<Events>,
    lines: Mutex<HashMap<(u32, u32), Arc<Line>>>,
}

impl Counters {
    /// The line in which commands of a queue on a device are counted.
    pub(super) fn line(&self, (device, queue): (u32, u32)) -> Arc<Line> {
        let mut lines = locked(&self.lines);
        let known = lines.contains_key(&(device, queue));
        let queue = match known || lines.len() < APART {
            true => queue,
            false => OTHERS,
        };
        // One for each device, at most, beyond those that are counted apart.
        let number = lines.len() as LineNumber;
        let new = || {
            Arc::new(Line {
                number,
                device,
                queue,
                begun: AtomicU64::new(0),
                over: AtomicU64::new(0),
            })
        };
        lines.entry((device, queue)).or_insert_with(new).clone()
    }

    /// The counts, in the order of devices and queues.
    pub(crate) fn counts(&self) -> Vec<(u32, QueueCount)> {
        let lines = self.lines();
        let mut running = vec![0; lines.len()];
        for command in locked(&self.events).running() {
            if let Some(running) = running.get_mut(usize::from(command.line)) {
                *running += 1;
            }
        }
        let count = |(line, running): (&Arc<Line>, u64)| {
            let [held, over] = line.counts();
            let count = QueueCount {
                queue: line.queue,
                waiting: held.saturating_sub(running),
                running,
                over,
            };
            (line.device, count)
        };
        let mut counts: Vec<_> = lines.iter().zip(running).map(count).collect();
        counts.sort_unstable_by_key(|(device, count)| (*device, count.queue));
        counts
    }

    /// Commands that are not over, and those that are, of all queues.
    pub(crate) fn commands(&self) -> [u64; 2] {
        let lines = locked(&self.lines);
        let counts = lines.values().map(|line| line.counts());
        counts.fold([0; 2], |sum, line| [sum[0] + line[0], sum[1] + line[1]])
    }

    /// All lines, in the order of their numbers.
    fn lines(&self) -> Vec<Arc<Line>> {
        let mut lines: Vec<_> = locked(&self.lines).values().cloned().collect();
        lines.sort_unstable_by_key(|line| line.number);
        lines
    }

    /// The commands that run on these devices, and whether they are kernels.
    pub(crate) fn running_on(&self, devices: &[bool]) -> Vec<(u64, bool)> {
        let lines = self.lines();
        let is_there = |number: LineNumber| {
            let line = lines.get(usize::from(number));
            line.is_some_and(|line| devices.get(line.device as usize) == Some(&true))
        };
        let events = locked(&self.events);
        let running = events.running();
        running
            .filter(|command| is_there(command.line))
            .map(|command| (command.id, command.is_kernel))
            .collect()
    }

    /// Notes on which devices something runs.
    pub(crate) fn note_running(&self, devices: &mut [bool]) {
        let lines = self.lines();
        for command in locked(&self.events).running() {
            let line = lines.get(usize::from(command.line));
            if let Some(runs) = line.and_then(|line| devices.get_mut(line.device as usize)) {
                *runs = true;
            }
            if devices.iter().all(|runs| *runs) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_without_number_are_counted_together() {
        let counters = Counters::default();
        for queue in 0..10 * APART as u32 {
            let line = counters.line((queue % 2, queue));
            assert_eq!(line.device, queue % 2);
            line.begun();
            line.ended();
        }
        let counts = counters.counts();
        assert_eq!(counts.len(), APART + 2);
        let of = |queue| {
            let counts = counts.iter().filter(move |(_, count)| count.queue == queue);
            counts
                .map(|(device, count)| (*device, count.over))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(7), [(1, 1)]);
        let others = (10 - 1) * APART as u64 / 2;
        assert_eq!(of(OTHERS), [(0, others), (1, others)]);
        // A queue that was there before is still counted apart.
        let again = counters.line((1, 7));
        assert_eq!((again.device, again.queue), (1, 7));
    }
}

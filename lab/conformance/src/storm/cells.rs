//! The contents of a buffer, and the commands that use them.

use quipu_scheduler::RawArgument;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a cell.
pub(super) const CELL: usize = 8;

/// A fault that was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Notes a problem, if there are not many already.
    pub(super) fn note(&self, problem: impl FnOnce() -> String) {
        let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < 10 {
            problems.push(problem());
        }
    }

    pub(super) fn check(&self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.note(problem);
        }
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Eight bytes of a buffer, as the host knows them. Commands change them as they run, so what they
/// say is exact only if hazards hold, which is what they check.
pub(super) struct Cell {
    value: AtomicU64,
    writers: AtomicU32,
    readers: AtomicU32,
    /// For each thread of the host, the last of its commands that wrote here, and the last that was
    /// here.
    wrote: Vec<AtomicU64>,
    used: Vec<AtomicU64>,
}

/// The thread that enqueued a command, and the number of commands that it had enqueued by then.
/// Nobody, for commands of a task or a graph: in which order they run is not known.
pub(super) type Author = Option<(usize, u64)>;

/// The cells of a buffer.
pub(super) struct Cells {
    name: String,
    cells: Vec<Cell>,
    log: Log,
}

impl Cells {
    pub(super) fn new(name: String, count: usize, threads: usize, log: Log) -> Self {
        let zeros = || (0..threads).map(|_| AtomicU64::new(0)).collect();
        let cell = |_| Cell {
            value: AtomicU64::new(0),
            writers: AtomicU32::new(0),
            readers: AtomicU32::new(0),
            wrote: zeros(),
            used: zeros(),
        };
        Self {
            name,
            cells: (0..count).map(cell).collect(),
            log,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// A command is at these cells; `raw` is their bytes. If it writes, it adds one to each.
    pub(super) fn visit(
        &self,
        range: Range<usize>,
        writes: bool,
        author: Author,
        turns: u32,
        raw: &RawArgument,
    ) {
        let log = &self.log;
        let cells = &self.cells[range.clone()];
        log.check(raw.length == cells.len() * CELL, || {
            format!("{} bytes for cells {range:?} of {}", raw.length, self.name)
        });
        for cell in cells {
            let before = if writes {
                cell.writers.fetch_add(1, Ordering::SeqCst) + cell.readers.load(Ordering::SeqCst)
            } else {
                cell.readers.fetch_add(1, Ordering::SeqCst);
                cell.writers.load(Ordering::SeqCst)
            };
            log.check(before == 0, || {
                format!("{before} others are at cells {range:?} of {}", self.name)
            });
        }
        for _ in 0..turns {
            std::hint::spin_loop();
        }
        for (index, cell) in cells.iter().enumerate() {
            self.look(index, cell, writes, author, raw);
        }
        for cell in cells {
            let left = if writes {
                cell.writers.fetch_sub(1, Ordering::SeqCst) - 1
                    + cell.readers.load(Ordering::SeqCst)
            } else {
                cell.readers.fetch_sub(1, Ordering::SeqCst);
                cell.writers.load(Ordering::SeqCst)
            };
            log.check(left == 0, || {
                format!(
                    "{left} others have come to cells {range:?} of {}",
                    self.name
                )
            });
        }
    }

    fn look(&self, index: usize, cell: &Cell, writes: bool, author: Author, raw: &RawArgument) {
        // SAFETY: within the argument, whose length was checked; valid while the command runs.
        let place = unsafe { raw.pointer.add(index * CELL) }.cast::<u64>();
        // SAFETY: as above.
        let found = unsafe { place.read_unaligned() };
        let value = cell.value.load(Ordering::SeqCst);
        self.log.check(found == value, || {
            format!("{found} in cell {index} of {}, not {value}", self.name)
        });
        if writes {
            cell.value.store(value + 1, Ordering::SeqCst);
            // SAFETY: as above; the command said that it writes.
            unsafe { place.write_unaligned(value + 1) };
        }
        if let Some((thread, number)) = author {
            let last = if writes { &cell.used } else { &cell.wrote };
            let last = last[thread].load(Ordering::SeqCst);
            self.log.check(last < number, || {
                format!(
                    "cell {index} of {}: command {number} of thread {thread} came after its {last}",
                    self.name
                )
            });
            cell.used[thread].fetch_max(number, Ordering::SeqCst);
            if writes {
                cell.wrote[thread].fetch_max(number, Ordering::SeqCst);
            }
        }
    }

    /// Compares the bytes of the whole buffer.
    pub(super) fn compare(&self, bytes: &[u8]) {
        for (index, (cell, bytes)) in self.cells.iter().zip(bytes.chunks_exact(CELL)).enumerate() {
            let found = u64::from_le_bytes(bytes.try_into().expect("of a cell's length"));
            let value = cell.value.load(Ordering::SeqCst);
            self.log.check(found == value, || {
                format!("cell {index} of {} ends as {found}, not {value}", self.name)
            });
        }
    }
}

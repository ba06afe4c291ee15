//! The recorder: blocks of records in front of one writer.
//!
//! Lock order: the writer, then any one block. A thread never holds a block's lock while it takes
//! the writer's, and only the output is called with a lock held.

use super::error::TraceError;
use super::flow::Flows;
use super::format::{self, QUEUE_ROWS};
use super::record::{CommandRecord, Detour, NodeClock};
use crate::sync::lock;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of blocks. Threads take them in turn: up to this many never meet in one.
const BLOCKS: usize = 64;
/// The number of records that fill a block.
const BLOCK_RECORDS: usize = 256;
/// The time that a block may span before it is written, so that a slow program's file is not far
/// behind.
const BLOCK_NS: u64 = 1_000_000_000;
/// The bytes that complete the file.
const CLOSING: &[u8] = b"\n]\n";

/// The size in bytes at which a trace ends unless it is told otherwise.
pub const DEFAULT_LIMIT: u64 = 2 << 30;

/// The output of a trace: a file, or anything like one.
trait Output: Write + Seek + Send {}
impl<T: Write + Seek + Send> Output for T {}

/// Writes one trace. The functions of [the module](super) use the process's own; tests have theirs.
///
/// It holds at most 64 blocks of 256 records, the places of the last 65,536 commands (2 MiB) and
/// 32,768 dependencies whose other end has not been seen. Besides that it grows with the number of
/// devices, lanes and queues, and with nothing else. Dropping it completes the file.
pub struct Recorder {
    path: PathBuf,
    blocks: Box<[Block]>,
    writer: Mutex<Writer>,
    /// The trace has ended: the output failed or is full. Set under the writer's lock.
    ended: AtomicBool,
}

/// The records of one thread; on a cache line of its own, because every thread writes to its block
/// all the time.
#[repr(align(128))]
struct Block(Mutex<Vec<CommandRecord>>);

/// The content of the lock: the output, and the names that it has so far.
struct Writer {
    output: Box<dyn Output>,
    /// The number of bytes of the events; the closing bracket, when it is there, comes after them.
    length: u64,
    limit: u64,
    closed: bool,
    flows: Flows,
    /// The devices that have been introduced by name.
    devices: HashSet<u32>,
    /// Devices of other machines.
    distant: HashSet<u32>,
    lanes: HashSet<(u32, u32)>,
    queues: HashMap<u32, QueueRows>,
    /// Kept for their capacity.
    records: Vec<CommandRecord>,
    text: String,
}

/// The rows on which a queue is shown.
struct QueueRows {
    name: String,
    /// The time until which each row is taken.
    taken_ns: [u64; QUEUE_ROWS],
    /// The number of them that have been used, and therefore named.
    used: usize,
}

thread_local! {
    /// The block of this thread, in every recorder. Has no destructor: it can be used to the
    /// thread's very end.
    static BLOCK: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The next thread's block.
static NEXT_BLOCK: AtomicUsize = AtomicUsize::new(0);

fn own_block() -> usize {
    BLOCK.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT_BLOCK.fetch_add(1, Ordering::Relaxed) % BLOCKS);
        }
        own.get()
    })
}

impl Recorder {
    /// A trace into a new file; one that is there is written over.
    ///
    /// # Errors
    ///
    /// [`TraceError::Create`] when the file cannot be created, [`TraceError::Write`] when it cannot
    /// be written or has no positions to go back to (a pipe).
    pub fn create(path: impl AsRef<Path>) -> Result<Recorder, TraceError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|source| TraceError::Create {
            path: path.to_owned(),
            source,
        })?;
        Recorder::into_output(file, path)
    }

    /// A trace into `output`; `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// [`TraceError::Write`] when the output refuses the first bytes, or has no positions to go
    /// back to (a pipe).
    pub fn into_output(
        mut output: impl Write + Seek + Send + 'static,
        path: impl Into<PathBuf>,
    ) -> Result<Recorder, TraceError> {
        let path = path.into();
        if let Err(source) = output.rewind() {
            return Err(TraceError::Write { path, source });
        }
        let recorder = Recorder {
            path,
            blocks: (0..BLOCKS).map(|_| Block(Mutex::new(Vec::new()))).collect(),
            writer: Mutex::new(Writer::new(Box::new(output))),
            ended: AtomicBool::new(false),
        };
        // Shows at once that the place can be written, and leaves a complete file if nothing ever
        // happens.
        format::header(&mut lock(&recorder.writer).text);
        recorder.finish()?;
        Ok(recorder)
    }

    /// Ends the trace when the file has this many bytes, or slightly more: it ends at a record.
    pub fn set_limit(&mut self, bytes: u64) {
        lock(&self.writer).limit = bytes;
    }

    /// The path or name with which the trace was created.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a record. Writes to the output when that fills a block.
    ///
    /// # Errors
    ///
    /// [`TraceError::Write`] or [`TraceError::Full`] from the one call that ended the trace; after
    /// that, records are dropped.
    pub fn record(&self, record: CommandRecord) -> Result<(), TraceError> {
        if self.ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        let record = record.in_order();
        let ended_ns = record.ended_ns;
        let is_full = {
            let mut block = lock(&self.blocks[own_block()].0);
            block.push(record);
            block.len() >= BLOCK_RECORDS || ended_ns.saturating_sub(block[0].ended_ns) >= BLOCK_NS
        };
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Names a device. Names go out with the next block.
    pub fn name_device(&self, device: u32, name: &str) {
        let writer = &mut *lock(&self.writer);
        writer.devices.insert(device);
        format::device(&mut writer.text, device, name);
    }

    /// Says how far the clock of a device's machine is ahead of this one's, as is known by now.
    pub fn note_clock(&self, device: u32, clock: &NodeClock<'_>) {
        let writer = &mut *lock(&self.writer);
        writer.introduce_device(device);
        writer.distant.insert(device);
        format::clock(&mut writer.text, device, clock);
    }

    /// Says that bytes for a device went a longer way than they should.
    pub fn note_detour(&self, device: u32, detour: &Detour<'_>) {
        let writer = &mut *lock(&self.writer);
        writer.introduce_device(device);
        format::detour(&mut writer.text, device, detour);
    }

    /// Names a lane of a device.
    pub fn name_lane(&self, device: u32, lane: u32, name: &str) {
        let writer = &mut *lock(&self.writer);
        writer.introduce_device(device);
        writer.lanes.insert((device, lane));
        format::lane(&mut writer.text, device, lane, name);
    }

    /// Names a queue.
    pub fn name_queue(&self, queue: u32, name: &str) {
        let writer = &mut *lock(&self.writer);
        let rows = writer
            .queues
            .entry(queue)
            .or_insert_with(|| QueueRows::new(String::new()));
        name.clone_into(&mut rows.name);
        rows.used = rows.used.max(1);
        for row in 0..rows.used {
            format::queue(&mut writer.text, queue, row, name);
        }
    }

    /// Writes out the records of all threads and completes the JSON. Recording may go on
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`TraceError::Write`] when the output fails.
    pub fn finish(&self) -> Result<(), TraceError> {
        match self.flush() {
            // The file that is full is as complete as one that is not.
            Ok(()) | Err(TraceError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut writer = lock(&self.writer);
        let closed = writer.close();
        self.end_on_error(closed)
    }

    /// Writes out the records of all threads.
    fn flush(&self) -> Result<(), TraceError> {
        let mut writer = lock(&self.writer);
        if self.ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut records = std::mem::take(&mut writer.records);
        for block in &self.blocks {
            records.append(&mut lock(&block.0));
        }
        // All blocks together, in the order in which commands ended: the rows of the queues are
        // filled from left to right, and most dependencies have been seen when their dependants
        // come.
        records.sort_by_key(|record| (record.ended_ns, record.id));
        for record in records.drain(..) {
            writer.add(&record);
        }
        writer.records = records;
        let written = writer.write();
        self.end_on_error(written)?;
        if writer.length >= writer.limit {
            self.ended.store(true, Ordering::Relaxed);
            return Err(TraceError::Full {
                path: self.path.clone(),
                limit: writer.limit,
            });
        }
        Ok(())
    }

    fn end_on_error(&self, result: io::Result<()>) -> Result<(), TraceError> {
        result.map_err(|source| {
            self.ended.store(true, Ordering::Relaxed);
            TraceError::Write {
                path: self.path.clone(),
                source,
            }
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A caller that wants to know of an error calls `finish`.
        let _ = self.finish();
    }
}

impl Writer {
    fn new(output: Box<dyn Output>) -> Self {
        Writer {
            output,
            length: 0,
            limit: DEFAULT_LIMIT,
            closed: false,
            flows: Flows::new(),
            devices: HashSet::new(),
            distant: HashSet::new(),
            lanes: HashSet::new(),
            queues: HashMap::new(),
            records: Vec::new(),
            text: String::new(),
        }
    }

    /// Formats a record, and introduces first the names that it mentions.
    fn add(&mut self, record: &CommandRecord) {
        self.introduce_device(record.device);
        if self.lanes.insert((record.device, record.worker)) {
            format::lane(
                &mut self.text,
                record.device,
                record.worker,
                &format!("lane {}", record.worker),
            );
        }
        format::command(&mut self.text, record);
        let queue = record.queue;
        let rows = self
            .queues
            .entry(queue)
            .or_insert_with(|| QueueRows::new(format!("queue {queue}")));
        if let Some((row, from_ns)) = rows.place(record.queued_ns, record.ended_ns) {
            while rows.used <= row {
                format::queue(&mut self.text, queue, rows.used, &rows.name);
                rows.used += 1;
            }
            format::queued(&mut self.text, record, row, from_ns);
            if self.distant.contains(&record.device) && from_ns <= record.started_ns {
                format::sent(&mut self.text, record, row, from_ns);
            }
        }
        let text = &mut self.text;
        self.flows.add(record, |arrow| format::arrow(text, &arrow));
    }

    fn introduce_device(&mut self, device: u32) {
        if self.devices.insert(device) {
            format::device(&mut self.text, device, &format!("device {device}"));
        }
    }

    /// Sends the text to the output, over the closing bracket if there is one.
    fn write(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        if self.closed {
            self.output.seek(SeekFrom::Start(self.length))?;
            self.closed = false;
        }
        self.output.write_all(self.text.as_bytes())?;
        self.length += self.text.len() as u64;
        self.text.clear();
        self.output.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        self.output.write_all(CLOSING)?;
        self.closed = true;
        self.output.flush()
    }
}

impl QueueRows {
    fn new(name: String) -> Self {
        QueueRows {
            name,
            taken_ns: [0; QUEUE_ROWS],
            used: 0,
        }
    }

    /// The row for a command, and from when it is shown there. None if it ended before every row
    /// was free, which happens only when two threads record at the same moment.
    fn place(&mut self, queued_ns: u64, ended_ns: u64) -> Option<(usize, u64)> {
        let free = (0..QUEUE_ROWS).find(|&row| self.taken_ns[row] <= queued_ns);
        // Rows are never none, so there is a minimum.
        let row = free.or_else(|| (0..QUEUE_ROWS).min_by_key(|&row| self.taken_ns[row]))?;
        let from_ns = queued_ns.max(self.taken_ns[row]);
        (from_ns <= ended_ns).then(|| {
            self.taken_ns[row] = ended_ns;
            (row, from_ns)
        })
    }
}

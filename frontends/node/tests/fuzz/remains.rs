//! Remains of sessions in a process: threads, files, memory, and panics of its threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's memory, counted.
struct Counted;

static IN_USE: AtomicI64 = AtomicI64::new(0);

// SAFETY: the system's, with nothing changed.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the system's allocator asks its caller for the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// Bytes that were allocated and not freed.
pub(crate) fn bytes_in_use() -> i64 {
    IN_USE.load(Ordering::Relaxed)
}

/// By how many bytes a process may have grown: tables that have become larger, commands' slots,
/// which are kept for the next.
const GROWTH: i64 = 4 << 20;

/// Threads, files and memory at a moment when there is no session.
pub(crate) struct Remains {
    threads: BTreeMap<String, usize>,
    files: usize,
    bytes: i64,
}

/// The number of threads of each name that a session's threads have.
fn threads() -> BTreeMap<String, usize> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // It may be gone by now.
        let name = std::fs::read_to_string(task.unwrap().path().join("comm"));
        let name = name.unwrap_or_default().trim().to_owned();
        let is_sessions = ["quipu-session", "quipu-ends", "quipu-bulk", "quipu-peer"];
        if is_sessions.iter().any(|known| name.starts_with(known)) {
            *threads.entry(name).or_default() += 1;
        }
    }
    threads
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

impl Remains {
    pub(crate) fn now() -> Self {
        while !threads().is_empty() {
            std::thread::yield_now();
        }
        Self {
            threads: threads(),
            files: files(),
            bytes: bytes_in_use(),
        }
    }

    /// Returns when there is no more than at that moment.
    pub(crate) fn are_all(&self) {
        while threads() != self.threads || files() > self.files {
            std::thread::yield_now();
        }
        let more = bytes_in_use() - self.bytes;
        assert!(more < GROWTH, "{more} bytes more are in use");
    }
}

/// Panics of any thread, also of those that are caught.
pub(crate) mod panics {
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Notes all from here on but those that say this.
    pub(crate) fn count(but: &'static str) {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            if !text.contains(but) {
                SEEN.lock().unwrap().push(text);
                before(info);
            }
        }));
    }

    /// Those that were noted.
    pub(crate) fn seen() -> Vec<String> {
        SEEN.lock().unwrap().clone()
    }
}

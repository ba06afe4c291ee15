//! Arrays between pages that nothing may touch, for `QUIPU_CHECK=1`.
//!
//! 1. Each array lies at the end of a page, in a block of memory that is much larger.
//! 2. The pages before and behind it are closed.
//! 3. A kernel that leaves the array touches such a page, and the system sends a signal.
//! 4. The signal's handler finds the nearest array, says which one it is, and ends the process.
//!
//! The end of an array is exact. Bytes before its start are noticed from the page before it on.
//! The blocks live until the process ends, so the handler may read their list at any time.

use quipu::{Buffer, Context};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes before and behind an array, at least. Each array has a block of its own from the system.
const CLOSED: usize = 1 << 30;

/// An array that is guarded.
struct Guarded {
    array: Range<usize>,
    block: Range<usize>,
    /// The text that names it.
    name: String,
    /// The array that was guarded before it.
    before: *const Guarded,
}

/// The last array of the list.
static LAST: AtomicPtr<Guarded> = AtomicPtr::new(std::ptr::null_mut());

/// A buffer that holds these bytes, and that kernels do not leave without being told. Its end is
/// exact if there is a whole number of elements of `element` bytes.
pub(super) fn buffer(
    context: &Context,
    bytes: &[u8],
    element: Option<usize>,
    name: String,
) -> quipu::Result<Buffer<u8>> {
    // SAFETY: a question that has an answer on each system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    // An element of unknown size may want any alignment.
    let room = bytes.len().next_multiple_of(element.unwrap_or(128));
    let inner = room.next_multiple_of(page);
    let mut block = vec![0; inner + 2 * (CLOSED + page)];
    let first = block.as_ptr().addr();
    let open = (first + CLOSED).next_multiple_of(page) - first;
    let start = open + inner - room;
    let array = start..start + bytes.len();
    block[array.clone()].copy_from_slice(bytes);
    let ends = first.next_multiple_of(page) - first..(first + block.len()) / page * page - first;
    for closed in [ends.start..open, open + inner..ends.end] {
        // SAFETY: whole pages of the block, which only its buffer owns. The buffer is never freed,
        // and commands use the array's part of it alone.
        let code = unsafe {
            let start = block.as_mut_ptr().add(closed.start);
            libc::mprotect(start.cast(), closed.len(), libc::PROT_NONE)
        };
        if code != 0 {
            tracing::warn!("no pages are closed: {}", std::io::Error::last_os_error());
        }
    }
    list(Guarded {
        array: first + array.start..first + array.end,
        block: first..first + block.len(),
        name,
        before: std::ptr::null(),
    });
    let whole = context.buffer_from(block)?;
    let part = whole.slice(array);
    std::mem::forget(whole);
    part
}

/// Adds an array to the list, and has the handler called.
fn list(mut guarded: Guarded) {
    static ADDING: Mutex<()> = Mutex::new(());
    let adding = ADDING.lock();
    guarded.before = LAST.load(Ordering::Acquire);
    if guarded.before.is_null() {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: an empty set of signals, and a handler of the type that the flags say.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
    LAST.store(Box::into_raw(Box::new(guarded)), Ordering::Release);
    drop(adding);
}

/// A line that needs no allocation, which a handler of signals cannot have.
struct Line {
    bytes: [u8; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Names the array that a kernel has left. A fault elsewhere ends the process as without it.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes the signal's description.
    let at = unsafe { (*info).si_addr() }.addr();
    let mut next = LAST.load(Ordering::Acquire).cast_const();
    // SAFETY: arrays of the list are never freed.
    while let Some(guarded) = unsafe { next.as_ref() } {
        if guarded.block.contains(&at) {
            let mut line = Line {
                bytes: [0; 1024],
                length: 0,
            };
            let bytes = guarded.array.len();
            let name = &guarded.name;
            let _ = match at.checked_sub(guarded.array.start) {
                Some(byte) => writeln!(
                    line,
                    "error: {name} has {bytes} bytes, and the kernel touches byte {byte}, behind its end"
                ),
                None => writeln!(
                    line,
                    "error: {name} has {bytes} bytes, and the kernel touches byte {} before its start",
                    guarded.array.start - at
                ),
            };
            // SAFETY: as many bytes as the line has; both calls are allowed in handlers.
            unsafe {
                libc::write(2, line.bytes.as_ptr().cast(), line.length);
                libc::_exit(1);
            }
        }
        next = guarded.before;
    }
    // SAFETY: the usual action, which the instruction meets when it is tried again.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

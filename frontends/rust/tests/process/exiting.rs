//! A process that exits still waits for the commands that it enqueues in destructors of its first
//! thread's thread-locals, and in functions that `atexit` calls.

use crate::place::Place;
use quipu::prelude::*;
use std::cell::RefCell;
use std::sync::Mutex;

static PLACE: Mutex<Option<Place>> = Mutex::new(None);

/// Fills and reads.
fn work(context: &Context, queue: &Queue, number: u32) -> quipu::Result<()> {
    let buffer = context.allocate::<u32>(100)?;
    queue.fill(&buffer, number)?.wait()?;
    let host = queue.host_task(move || number)?;
    assert_eq!(queue.read(&buffer)?.wait()?, vec![number; 100]);
    assert_eq!(host.wait()?, number);
    queue.wait()
}

extern "C" fn at_exit() {
    // The process's last use of all of it.
    let place = PLACE.lock().unwrap().take().unwrap();
    work(&place.context, &place.queue, 3).unwrap();
    println!("a handler has waited");
    drop(place);
}

extern "C" fn at_early_exit() {
    // What a vendor's library does after its own handlers is not known: so it is not asked for a
    // result.
    let place = PLACE.lock().unwrap().take().unwrap();
    println!("a handler was told: {:?}", place.queue.is_empty());
    std::mem::forget(place);
}

struct Last(Context, Queue);

impl Drop for Last {
    fn drop(&mut self) {
        work(&self.0, &self.1, 5).unwrap();
        println!("a thread-local has waited");
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

pub(crate) fn exit(driver: &str) {
    // Before Quipu's own of this thread, and so dropped after them.
    LAST.set(None);
    let place = Place::of(driver);
    work(&place.context, &place.queue, 1).unwrap();
    LAST.set(Some(Last(place.context.clone(), place.queue.clone())));
    *PLACE.lock().unwrap() = Some(place);
    // SAFETY: the handler unwinds into nobody, as it ends the process if it panics, and what it
    // uses is never destroyed.
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
}

/// A handler that was there before any library was loaded.
pub(crate) fn exit_early(driver: &str) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::atexit(at_early_exit) }, 0);
    let place = Place::of(driver);
    work(&place.context, &place.queue, 1).unwrap();
    *PLACE.lock().unwrap() = Some(place);
}

//! The `serial` device: the caller's thread, one command after another.
//!
//! Whoever makes a command ready runs it: the thread that enqueues it, or that
//! ends what it waited for. Deterministic in a program of one thread; for
//! debugging. A thread that waits here while nothing can make progress gets an
//! error and does not hang: after a quarter of a second if other threads use the
//! device, too. It calls back when it has run all that it has, or when
//! one of its commands waits.

use crate::device;
use crate::pool::Arguments;
use crate::pool::worker::{panicked, resolve};
use crate::queue::CpuQueue;
use quipu_core::command::{KeptCallbacks, ToDrivers};
use quipu_core::driver::Notification;
use quipu_core::error::{Error, ErrorKind, Result};
use quipu_core::event::{Joiner, Waiter, replace_joiner};
use quipu_core::operation::Operation;
use quipu_core::queue::QueueShared;
use quipu_core::{Command, DeviceProperties, Driver};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The driver of the serial device.
#[derive(Debug, Default)]
pub struct SerialDriver {
    users: Users,
}

/// Which threads have run commands of a device: none, one, or several.
#[derive(Debug, Default)]
struct Users(AtomicUsize);

impl Users {
    const SEVERAL: usize = usize::MAX;

    /// A number of this thread's, which no other has meanwhile.
    fn this_thread() -> usize {
        BUSY_HERE.with(|busy| std::ptr::from_ref(busy).addr())
    }

    /// This thread is one.
    fn note(&self) {
        let (this, known) = (Self::this_thread(), self.0.load(Ordering::Relaxed));
        if known == this || known == Self::SEVERAL {
            return;
        }
        let first = self
            .0
            .compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_err() {
            self.0.store(Self::SEVERAL, Ordering::SeqCst);
        }
    }

    /// True if others than this thread are.
    fn are_others(&self) -> bool {
        let known = self.0.load(Ordering::SeqCst);
        known != 0 && known != Self::this_thread()
    }
}

thread_local! {
    /// What this thread has made ready; `Some` while it runs it.
    // Without a destructor, and none when nothing is run: a thread-local that is dropped may wait.
    static READY: ManuallyDrop<RefCell<Option<VecDeque<Command>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Threads that run commands of the serial device now.
static BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if this is one of them.
    static BUSY_HERE: Cell<bool> = const { Cell::new(false) };
    /// How it waited before.
    static OUTER: Cell<Option<Joiner>> = const { Cell::new(None) };
    /// Who uses the device whose commands it runs, as long as it runs them.
    static USERS: Cell<*const Users> = const { Cell::new(std::ptr::null()) };
}

/// Counts a thread as running commands.
struct Busy<'a>(PhantomData<&'a Users>);

impl<'a> Busy<'a> {
    fn enter(users: &'a Users) -> Self {
        BUSY.fetch_add(1, Ordering::SeqCst);
        USERS.set(users);
        BUSY_HERE.set(true);
        OUTER.set(replace_joiner(Some(join_inside)));
        Self(PhantomData)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        replace_joiner(OUTER.take());
        BUSY_HERE.set(false);
        USERS.set(std::ptr::null());
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How a thread that runs commands waits for those of other devices, which may wait for what it has to run next.
fn join_inside(waiter: &Waiter<'_>) -> Result<()> {
    if let Some(joiner) = OUTER.get() {
        return joiner(waiter);
    }
    if READY.with(|ready| {
        ready
            .borrow()
            .as_ref()
            .is_some_and(|ready| !ready.is_empty())
    }) {
        // SAFETY: null, or of the driver whose commands this thread runs further out, as `Busy` says, which has borrowed them.
        if let Some(users) = unsafe { USERS.get().as_ref() } {
            return join(waiter, users);
        }
    }
    waiter.rest()
}

/// Looks, a millisecond apart, at all of which nothing moves where nothing ever will, of a device that several threads use. One look
/// does not tell there: a thread that is about to run what it has enqueued, or to hand over what an event has made ready, is
/// seen by nobody, and the system may have it wait for long.
const LOOKS: u32 = 250;

/// How many looks there were since something moved.
#[derive(Default)]
struct Quiet(u32);

impl Quiet {
    /// A look, while other threads use the device, or none does; true if nothing ever will move.
    fn look(&mut self, nothing_moves: bool, is_shared: bool) -> bool {
        self.0 = if nothing_moves { self.0 + 1 } else { 0 };
        self.0 >= if is_shared { LOOKS } else { 1 }
    }
}

/// Waits for what others bring about; when they too have nothing to do, nobody will.
fn join(waiter: &Waiter<'_>, users: &Users) -> Result<()> {
    let Some(armed) = waiter.arm() else {
        return Ok(());
    };
    let mut quiet = Quiet::default();
    while !armed.is_done() && !waiter.is_late() {
        // Others may have come to use it since this began to wait.
        if quiet.look(waiter.nothing_moves(), users.are_others()) && !armed.is_done() {
            return Err(ErrorKind::WouldDeadlock {
                why: "the serial device runs on the waiting thread, no other device has \
                      anything to do, and what is waited for depends on a user event that \
                      nobody has completed, or on what this thread is to run next; complete \
                      the event first, or use a pool device",
            }
            .into());
        }
        waiter.doze();
    }
    Ok(())
}

impl SerialDriver {
    /// The driver.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Driver for SerialDriver {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let name = format!("{} (serial)", device::model());
        vec![device::properties(name, 1, true)]
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.take([command]);
        }
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        self.take(commands.drain(..));
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        if waiter.is_done() {
            return Ok(());
        }
        // All that this thread could run, it has run.
        join(waiter, &self.users)
    }

    fn runs_on_waiting_threads(&self) -> bool {
        true
    }

    fn native_queue(&self, _queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(CpuQueue { workers: 0..0 }))
    }

    fn takes_native(&self, queue: TypeId) -> bool {
        queue == TypeId::of::<CpuQueue>()
    }

    fn is_idle(&self) -> bool {
        BUSY.load(Ordering::SeqCst) <= usize::from(BUSY_HERE.get())
    }

    fn free_memory(&self, _device: usize) -> Option<u64> {
        Some(device::memory().1)
    }
}

impl SerialDriver {
    /// Runs what is ready, or has this thread do so when it is through with what it runs.
    fn take(&self, commands: impl IntoIterator<Item = Command>) {
        self.users.note();
        let nested = READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            let nested = ready.is_some();
            ready.get_or_insert_default().extend(commands);
            nested
        });
        if nested {
            return;
        }
        let kept = KeptCallbacks::new();
        let busy = Busy::enter(&self.users);
        // One after another, without recursion: what a command makes ready
        // joins the end of the list.
        while let Some(command) =
            READY.with(|ready| ready.borrow_mut().as_mut().and_then(VecDeque::pop_front))
        {
            run(command);
        }
        READY.with(|ready| drop(ready.take()));
        drop(busy);
        // They may wait as this thread does elsewhere.
        drop(kept);
    }
}

fn run(command: Command) {
    let result = command.start().and_then(|()| perform(&command));
    command.finish(result, &mut ToDrivers);
}

fn perform(command: &Command) -> Result<(), Error> {
    let mut arguments = Arguments::new();
    resolve(command, &mut arguments)?;
    let groups = match command.operation() {
        Operation::Transfer(transfer) => {
            // SAFETY: the arguments were just resolved; hazards keep others away.
            unsafe { transfer.copy(&arguments) };
            return Ok(());
        }
        Operation::Fill(fill) => {
            // SAFETY: as above.
            unsafe { fill.fill(arguments[0]) };
            return Ok(());
        }
        Operation::Launch { groups: 0 } => return Ok(()),
        Operation::Launch { groups } => groups,
        Operation::HostTask => 1,
        Operation::NativeEnqueue(enqueue) => {
            return enqueue.call_with(command, &CpuQueue { workers: 0..0 }, &arguments);
        }
        _ => return Ok(()),
    };
    // SAFETY: started, resolved, each group once.
    catch_unwind(AssertUnwindSafe(|| unsafe {
        command.run_native(&arguments, 0..groups)
    }))
    .unwrap_or_else(|panic| Err(panicked(command, panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_in_which_nothing_moves_is_no_deadlock_where_others_may_move() {
        let mut quiet = Quiet::default();
        for _ in 0..3 {
            assert!((1..LOOKS).all(|_| !quiet.look(true, true)));
            assert!(!quiet.look(false, true));
        }
        assert!((1..LOOKS).all(|_| !quiet.look(true, true)) && quiet.look(true, true));
        let mut quiet = Quiet::default();
        assert!(!quiet.look(false, false) && quiet.look(true, false));
        // Another comes between two looks.
        let mut quiet = Quiet::default();
        assert!(!quiet.look(false, false) && !quiet.look(true, true));
    }

    #[test]
    fn others_are_seen_once_they_run_something() {
        let users = Users::default();
        assert!(!users.are_others());
        users.note();
        assert!(!users.are_others());
        std::thread::scope(|scope| {
            let other = || {
                assert!(users.are_others(), "it has not run anything");
                users.note();
                users.note();
                assert!(users.are_others());
            };
            scope.spawn(other);
        });
        assert!(users.are_others());
        users.note();
        assert!(users.are_others());
    }
}

//! Commands whose end is held up: the byte in their queue is set, their list is still open. No
//! caller may see both.

use super::{Command, ToDrivers};
use crate::driver::Notification;
use crate::error::{Error, ErrorKind};
use crate::limits::JOIN_WAITS;
use crate::memory::eviction::{Evicted, Eviction};
use crate::memory::mapping::HostQueue;
use crate::{
    Access, AccessMode, Context, Device, DeviceKind, DeviceProperties, Driver, Event, MemorySpace,
    Queue, QueueOptions, Request, Result, UserEvent,
};
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The number of times that each test is repeated. The thread that ends a command cannot be told
/// that another looks at it, only be kept waiting for some turns after.
const ROUNDS: u32 = 10;
const TURNS: u32 = if cfg!(miri) { 100 } else { 500 };

/// Keeps ready commands for the test to end, or panics if the test says so.
#[derive(Default)]
struct Hoard(Mutex<Vec<Command>>, AtomicBool);

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Hoard {
    fn name(&self) -> &'static str {
        "hoard"
    }

    /// Two: the second has a memory of its own.
    fn devices(&self) -> Vec<DeviceProperties> {
        let device = |memory| DeviceProperties {
            memory,
            ..DeviceProperties::new(DeviceKind::Simulated, "hoard")
        };
        vec![device(MemorySpace::Host), device(MemorySpace::Own(0))]
    }

    fn notify(&self, notification: Notification) {
        assert!(!self.1.load(Ordering::Relaxed), "it is to panic");
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().push(command);
        }
    }

    fn allocate(&self, _key: u32, _size: u64) -> Result<u64> {
        Ok(64)
    }

    unsafe fn free(&self, _key: u32, _address: u64, _size: u64) {}
}

pub(super) struct Stage {
    hoard: Arc<Hoard>,
    devices: Vec<Device>,
    pub(super) context: Context,
    pub(super) queue: Queue,
}

impl Stage {
    pub(super) fn new(in_order: bool) -> Self {
        let hoard = Arc::new(Hoard::default());
        let driver: Arc<dyn Driver> = hoard.clone();
        let devices = Device::all_of(&driver).unwrap();
        let options = QueueOptions {
            in_order,
            ..QueueOptions::default()
        };
        let context = Context::new(&devices).unwrap();
        let queue = context.queue(&devices[0], options).unwrap();
        Self {
            hoard,
            devices,
            context,
            queue,
        }
    }

    /// A command that is ready, and its event.
    pub(super) fn command(&self) -> (Command, Event) {
        self.command_of(&[])
    }

    /// A queue of the device that has a memory of its own.
    pub(super) fn far_queue(&self) -> Queue {
        let options = QueueOptions::default();
        self.context.queue(&self.devices[1], options).unwrap()
    }

    /// The number of ready commands that the driver has.
    pub(super) fn ready(&self) -> usize {
        self.hoard.0.lock().unwrap().len()
    }

    /// Ends all ready commands, and those that become ready by that.
    pub(super) fn end_all(&self) {
        let next = || self.hoard.0.lock().unwrap().pop();
        while let Some(command) = next() {
            let result = command.start();
            command.finish(result, &mut ToDrivers);
        }
    }

    /// Ends all ready commands, and those that become ready by that, with this error.
    pub(super) fn fail_all(&self, error: impl Fn() -> Error) {
        let next = || self.hoard.0.lock().unwrap().pop();
        while let Some(command) = next() {
            command.finish(Err(error()), &mut ToDrivers);
        }
    }

    pub(super) fn command_of(&self, accesses: &[Access<'_>]) -> (Command, Event) {
        let request = Request {
            accesses,
            ..Request::default()
        };
        let event = self.queue.host_task(|_| Ok(()), &request);
        let command = self.hoard.0.lock().unwrap().pop();
        (command.unwrap(), event.unwrap())
    }
}

fn boom() -> Result<()> {
    Err(ErrorKind::Kernel {
        what: "test".to_owned(),
        message: "boom".to_owned(),
    }
    .into())
}

/// Calls `look` while another thread, which has set the command's byte, is about
/// to go on with its end.
fn while_it_ends(command: Command, result: Result<()>, look: impl FnOnce()) {
    // SAFETY: the page lives until the byte is set and seen.
    unsafe { (*command.slot().done.get()).store(1, Ordering::Release) };
    let looks = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !looks.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            (0..TURNS).for_each(|_| std::thread::yield_now());
            command.finish(result, &mut ToDrivers);
        });
        looks.store(true, Ordering::Release);
        look();
    });
}

#[test]
fn a_wait_does_not_time_out() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(true);
        let (command, event) = stage.command();
        while_it_ends(command, Ok(()), || {
            event.wait_timeout(Duration::from_secs(3600)).unwrap();
        });
    }
}

#[test]
fn a_wait_is_told_of_the_failure() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(true);
        let (command, event) = stage.command();
        while_it_ends(command, boom(), || drop(event.wait().unwrap_err()));
    }
}

#[test]
fn a_callback_is_told_of_the_failure() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(true);
        let (command, event) = stage.command();
        let (tell, told) = mpsc::channel();
        while_it_ends(command, boom(), || {
            event.on_complete(move |result| tell.send(result).unwrap());
            told.recv().unwrap().unwrap_err();
        });
    }
}

#[test]
fn a_future_is_told_of_the_failure() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(true);
        let (command, event) = stage.command();
        while_it_ends(command, boom(), || {
            let mut context = std::task::Context::from_waker(Waker::noop());
            let mut event = pin!(event);
            let result = loop {
                match event.as_mut().poll(&mut context) {
                    Poll::Ready(result) => break result,
                    // Nobody was told yet that it is over.
                    Poll::Pending => std::thread::yield_now(),
                }
            };
            result.unwrap_err();
        });
    }
}

#[test]
fn an_event_is_over_when_its_queue_is_empty() {
    for in_order in [true, false] {
        for _ in 0..ROUNDS {
            let stage = Stage::new(in_order);
            let (command, event) = stage.command();
            while_it_ends(command, Ok(()), || {
                stage.queue.wait().unwrap();
                assert!(event.is_complete());
            });
        }
    }
}

#[test]
fn an_event_is_over_when_a_marker_after_it_is() {
    for in_order in [true, false] {
        for _ in 0..ROUNDS {
            let stage = Stage::new(in_order);
            let (command, event) = stage.command();
            while_it_ends(command, Ok(()), || {
                stage.queue.marker(&[]).unwrap().wait().unwrap();
                assert!(event.is_complete());
            });
        }
    }
}

#[test]
fn events_are_seen_in_program_order() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(true);
        let (first, event) = stage.command();
        let (second, after) = stage.command();
        second.finish(Ok(()), &mut ToDrivers);
        while_it_ends(first, Ok(()), || {
            while !after.is_complete() {
                std::thread::yield_now();
            }
            assert!(event.is_complete());
        });
    }
}

#[test]
fn an_event_does_not_look_for_its_driver_in_a_queue_that_is_gone() {
    for in_order in [true, false] {
        for _ in 0..ROUNDS {
            let stage = Stage::new(in_order);
            let (command, event) = stage.command();
            while_it_ends(command, Ok(()), || {
                drop(stage.queue);
                event.wait().unwrap();
            });
        }
    }
}

#[test]
fn a_buffer_is_freed_after_its_context() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(false);
        let alive = Arc::new(());
        let mut byte = 0_u8;
        let memory = {
            let (bytes, keep) = (NonNull::from(&mut byte), Box::new(alive.clone()));
            // SAFETY: nobody touches the byte, and it outlives the command.
            unsafe { stage.context.memory_over(bytes, 1, keep) }.unwrap()
        };
        let (command, event) = stage.command_of(&[Access {
            memory: &memory,
            offset: 0,
            length: 1,
            mode: AccessMode::ReadWrite,
        }]);
        while_it_ends(command, Ok(()), || {
            drop(stage);
            drop(memory);
            assert_eq!(Arc::strong_count(&alive), 1);
            event.wait().unwrap();
        });
    }
}

#[test]
fn memory_that_an_ended_command_used_is_evicted() {
    for _ in 0..ROUNDS {
        let stage = Stage::new(false);
        let space = stage.devices[1].space();
        let memory = stage.context.memory(8).unwrap();
        let (command, event) = stage.command_of(&[Access {
            memory: &memory,
            offset: 0,
            length: 8,
            mode: AccessMode::ReadWrite,
        }]);
        // SAFETY: nothing is on a device.
        unsafe { memory.allocation(space) }.unwrap();
        assert_eq!(memory.evict(space, Eviction::Idle), Evicted::Nothing);
        while_it_ends(command, Ok(()), || {
            stage.queue.wait().unwrap();
            assert_eq!(memory.evict(space, Eviction::Idle), Evicted::Freed);
        });
        event.wait().unwrap();
    }
}

/// Ids of commands that are over come again once their slots' generations are used up. By then
/// nothing may know them.
#[test]
fn what_remembers_ids_forgets_those_that_are_over_before_slots_come_back() {
    let stage = Stage::new(true);
    let user: Vec<UserEvent> = (0..2 * JOIN_WAITS).map(|_| UserEvent::new()).collect();
    let waits: Vec<Event> = user.iter().map(UserEvent::event).collect();
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    let joining = stage.queue.host_task(|_| Ok(()), &request).unwrap();
    let barrier = stage.queue.barrier(&[]).unwrap();
    let shared = stage.context.shared();
    assert!(shared.has_joined() && stage.queue.shared().remembered_barriers() > 0);
    crate::context::recycle_slots();
    assert!(shared.has_joined(), "nothing of it is over");
    assert!(stage.queue.shared().remembered_barriers() > 0);

    user.into_iter().for_each(UserEvent::complete);
    let ready = stage.hoard.0.lock().unwrap().pop();
    ready.unwrap().finish(Ok(()), &mut ToDrivers);
    assert!(joining.is_complete() && barrier.is_complete());
    crate::context::recycle_slots();
    assert!(!shared.has_joined());
    assert_eq!(stage.queue.shared().remembered_barriers(), 0);
}

/// A driver that panics as it is told of a command does so in the middle of another's end, and on a
/// thread that is to hand over more.
#[test]
fn a_driver_that_panics_keeps_nothing_from_being_handed_over() {
    let stage = Stage::new(true);
    let wait_for = |user: &UserEvent| {
        let request = Request {
            waits: &[user.event()],
            ..Request::default()
        };
        stage.queue.host_task(|_| Ok(()), &request).unwrap()
    };
    let (first, second) = (UserEvent::new(), UserEvent::new());
    let events = [wait_for(&first), wait_for(&second)];
    stage.hoard.1.store(true, Ordering::Relaxed);
    first.complete();
    stage.hoard.1.store(false, Ordering::Relaxed);
    let error = events[0].wait().unwrap_err();
    assert!(error.to_string().contains("unfinished"), "{error}");
    second.complete();
    let ready = stage.hoard.0.lock().unwrap().pop();
    let ready = ready.expect("this thread hands over what is ready, as before");
    ready.finish(Ok(()), &mut ToDrivers);
    events[1].wait().unwrap();
}

/// In a child of fork a lock stays as it was: here, as another thread of the parent may have had
/// it.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_of_fork_looks_at_events_and_queues_without_a_lock() {
    let stage = Stage::new(true);
    let (command, event) = stage.command();
    // The frontier has not moved since, so whoever wants to know has to move it.
    command.finish(Ok(()), &mut ToDrivers);
    let held = stage.queue.shared().progress.hold();
    // SAFETY: the child looks at atomics alone, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that hangs is ended by the signal.
        unsafe { libc::alarm(20) };
        let _ = (event.is_complete(), event.phase(), stage.queue.is_empty());
        // SAFETY: it always is.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: the status lives until the call returns.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    drop(held);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "it hangs"
    );
    assert!(event.is_complete());
}

/// The turn comes after the command, and the grant after the turn, by way of an event that the
/// turn's command completes.
#[test]
fn a_wait_inside_of_a_command_for_a_mapping_behind_it_is_refused() {
    let stage = Stage::new(true);
    let host = HostQueue::new(&stage.context).unwrap();
    let memory = stage.context.memory(8).unwrap();
    let (command, event) = stage.command_of(&[Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::Overwrite,
    }]);
    command.start().unwrap();
    command.run_inside(|| {
        let read = AccessMode::Read;
        let mapping = host.reserve(&stage.queue, &memory, 0..8, read, &[], "a test");
        let mapping = mapping.unwrap();
        let error = mapping.granted().wait_timeout(Duration::from_secs(60));
        let error = error.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        // And it keeps nobody.
        drop(mapping);
    });
    command.finish(Ok(()), &mut ToDrivers);
    event.wait().unwrap();
}

//! Launches whose division was left to the device are divided as suits the kernel as it was
//! compiled; others as they are.

use crate::library::started;
use quipu_device_queue::batch::FEWEST;
use quipu_kernel_ir::{FunctionBuilder, Module, ModuleBuilder};
use quipu_scheduler::access::Argument;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, CodeKey, Context, Device, Driver, Error, Event, Passed, PassedParameter,
    PortableKernel, QueueOptions, RawArgument, Request, UserEvent,
};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A launch over 1000 positions, in blocks of 50 threads.
#[derive(Default)]
struct Positions {
    automatic: bool,
    /// Its parameters are computed by code that panics.
    panics: bool,
}

impl NativeKernel for Positions {
    fn name(&self) -> &'static str {
        "positions"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<(), Error> {
        Ok(())
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }
}

// SAFETY: the kernel does nothing, on a device that only counts.
unsafe impl PortableKernel for Positions {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> quipu_scheduler::Result<Arc<dyn Any + Send + Sync>> {
        let kernel = FunctionBuilder::new("positions").kernel(1);
        Ok(Arc::new(ModuleBuilder::new().finish(kernel)))
    }

    fn pass(&self, _: &[Argument<'_>], passed: &mut Passed) -> quipu_scheduler::Result<()> {
        assert!(!self.panics, "a length that panics");
        *passed = Passed {
            blocks: [20].into_iter().collect(),
            threads: [50].into_iter().collect(),
            elements: [1].into_iter().collect(),
            parameters: [PassedParameter::Memory {
                element: 8,
                shape: None,
            }]
            .into_iter()
            .collect(),
            automatic: self.automatic,
            ..Passed::default()
        };
        Ok(())
    }
}

#[test]
fn the_compiled_kernel_is_asked_where_the_division_is_free() {
    let (driver, faults) = started(true, 5);
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&dynamic).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(8).unwrap();
    let accesses = [Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    faults.leave_room_for(32);
    for (automatic, threads) in [(true, 32), (false, 50)] {
        // One by one.
        let positions = || Positions {
            automatic,
            ..Positions::default()
        };
        let launch = || queue.launch(positions(), 20, &request).unwrap();
        launch().wait().unwrap();
        assert_eq!(faults.launched(), [[threads]]);
        // In a batch.
        let gate = UserEvent::new();
        let waits = [gate.event()];
        let first = Request {
            waits: &waits,
            ..request
        };
        let before = driver.batches().put;
        queue.launch(positions(), 20, &first).unwrap();
        let events: Vec<_> = (0..2 * FEWEST).map(|_| launch()).collect();
        queue.flush();
        while driver.batches().ready == 0 {
            std::thread::yield_now();
        }
        gate.complete();
        events.last().unwrap().wait().unwrap();
        assert!(driver.batches().put > before);
        let launched = faults.launched();
        assert!(launched.len() > FEWEST);
        assert!(launched.iter().all(|it| *it == [threads]), "{launched:?}");
    }
    // A kernel that has room for all is divided as it was.
    faults.leave_room_for(64);
    let positions = Positions {
        automatic: true,
        ..Positions::default()
    };
    let launch = queue.launch(positions, 20, &request);
    launch.unwrap().wait().unwrap();
    assert_eq!(faults.launched(), [[50]]);
    assert_eq!(faults.violations(), [""; 0]);
}

/// A user's code may compute a kernel's parameters; the thread that pumps calls it.
#[test]
fn a_launch_that_panics_as_it_says_what_it_passes_fails_alone_and_in_a_batch() {
    let (driver, faults) = started(true, 6);
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&dynamic).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(8).unwrap();
    let accesses = [Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    let launch = |panics, request: &Request<'_>| {
        let positions = Positions {
            panics,
            ..Positions::default()
        };
        queue.launch(positions, 20, request).unwrap()
    };
    let fails = |event: Event| {
        let error = event.wait().unwrap_err();
        let kind = error.first_cause().kind();
        assert!(matches!(kind, ErrorKind::Panicked { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("a length that panics"), "{text}");
    };
    // From now on its code is there.
    launch(false, &request).wait().unwrap();
    // By itself.
    fails(launch(true, &Request::default()));
    // In a batch, which comes to nothing.
    let before = driver.batches().failed;
    let gate = UserEvent::new();
    let waits = [gate.event()];
    let gated = Request {
        waits: &waits,
        ..request
    };
    let mut events = vec![launch(true, &gated)];
    events.extend((0..2 * FEWEST).map(|_| launch(true, &request)));
    queue.flush();
    while driver.batches().failed == before {
        std::thread::yield_now();
    }
    gate.complete();
    events.into_iter().for_each(fails);
    // Others go on.
    launch(false, &Request::default()).wait().unwrap();
    queue.wait().unwrap();
    assert_eq!(faults.violations(), [""; 0]);
}

/// Host tasks are a user's code: they may block until something happens that needs the driver's own
/// work.
#[test]
fn host_tasks_that_block_keep_no_kernel_from_being_compiled() {
    let (driver, faults) = started(true, 7);
    let devices = Device::all_of(&(driver as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    let most = std::thread::available_parallelism().map_or(4, |cores| cores.get().max(4));
    let (tell, told) = mpsc::channel();
    let blocked: Vec<_> = (0..most)
        .map(|_| {
            let (tell, (end, ends)) = (tell.clone(), mpsc::channel::<()>());
            let run = move |_: &[RawArgument]| {
                tell.send(()).unwrap();
                assert!(ends.recv().is_err(), "nothing is ever sent");
                Ok(())
            };
            let event = queue.host_task(run, &Request::default()).unwrap();
            queue.flush();
            told.recv().unwrap();
            (end, event)
        })
        .collect();
    let launch = queue.launch(Positions::default(), 20, &Request::default());
    launch
        .unwrap()
        .wait_timeout(Duration::from_secs(60))
        .unwrap();
    for (end, event) in blocked {
        drop(end);
        event.wait().unwrap();
    }
    assert_eq!(faults.violations(), [""; 0]);
}

//! Launches whose division was left to the device are divided as suits the kernel as it was compiled; others as they are.

use crate::library::started;
use quipu_core::access::Argument;
use quipu_core::operation::NativeKernel;
use quipu_core::{
    Access, AccessMode, CodeKey, Context, Device, Driver, Error, Passed, PassedParameter,
    PortableKernel, QueueOptions, RawArgument, Request, UserEvent,
};
use quipu_driver_vendor::batch::FEWEST;
use quipu_kernel_ir::{FunctionBuilder, Module, ModuleBuilder};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;

/// A launch over 1000 positions, in blocks of 50 threads.
struct Positions {
    automatic: bool,
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

impl PortableKernel for Positions {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> quipu_core::Result<Arc<dyn Any + Send + Sync>> {
        let kernel = FunctionBuilder::new("positions").kernel(1);
        Ok(Arc::new(ModuleBuilder::new().finish(kernel)))
    }

    fn pass(&self, _: &[Argument], passed: &mut Passed) -> quipu_core::Result<()> {
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
        let launch = || queue.launch(Positions { automatic }, 20, &request).unwrap();
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
        queue.launch(Positions { automatic }, 20, &first).unwrap();
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
    let launch = queue.launch(Positions { automatic: true }, 20, &request);
    launch.unwrap().wait().unwrap();
    assert_eq!(faults.launched(), [[50]]);
    assert_eq!(faults.violations(), [""; 0]);
}

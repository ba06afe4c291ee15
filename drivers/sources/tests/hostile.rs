//! Launches that no front end of ours would make, as a node's client may: each is refused or run,
//! and nothing else happens.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_sources::{Options, Source};
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, BuiltIn, CodeKey, Context, Device, Driver, ErrorKind, Event, MemoryRef,
    Passed, PassedParameter, PortableKernel, Queue, QueueOptions, RawArgument, Request, Result,
    UserEvent,
};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A launch of whatever it says.
struct Launched {
    name: Option<String>,
    passed: Passed,
}

impl NativeKernel for Launched {
    fn name(&self) -> &'static str {
        "anything"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        panic!("native code was run");
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        self.name.is_some().then_some(self as _)
    }
}

// SAFETY: the driver's built-in kernels check all that is passed to them, which this test is about.
unsafe impl PortableKernel for Launched {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<BuiltIn>()
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        Ok(Arc::new(BuiltIn(self.name.clone().unwrap_or_default())))
    }

    fn pass(&self, _: &[Argument<'_>], passed: &mut Passed) -> Result<()> {
        passed.clone_from(&self.passed);
        Ok(())
    }
}

/// A source's queue and a decoder's.
fn queues() -> (Context, [Queue; 2]) {
    let frames = vec![vec![1; 10], vec![2; 20]];
    let source = Source::frames("camera", frames).rate(100_000.0);
    let driver: Arc<dyn Driver> = Options::new().source(source).decoder().start().unwrap();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
    let queues = [queue(&devices[0]), queue(&devices[1])];
    (context, queues)
}

#[test]
fn a_callback_that_waits_for_its_source_is_told_that_it_must_not() {
    let (context, [queue, _]) = queues();
    let memory = context.memory(64).unwrap();
    let fill = move |waits: &[Event]| {
        let access = Access::whole(&memory, AccessMode::Overwrite);
        queue.fill(access, &[1], waits).unwrap()
    };
    let gate = UserEvent::new();
    let first = fill(&[gate.event()]);
    let (tell, told) = std::sync::mpsc::channel();
    first.on_complete(move |_| tell.send(fill(&[]).wait()).unwrap());
    gate.complete();
    let outcome = told.recv_timeout(Duration::from_secs(60));
    let error = outcome.expect("it waits for its own thread").unwrap_err();
    let is_refusal = matches!(error.kind(), ErrorKind::WouldDeadlock { .. });
    assert!(is_refusal, "{error}");
}

/// Bytes of memory, and how they are passed.
type Part<'a> = (&'a MemoryRef, Range<u64>, AccessMode, u64);

fn launch(queue: &Queue, name: Option<&str>, parts: &[Part<'_>]) -> Result<()> {
    let parameters = parts.iter().map(|part| PassedParameter::Memory {
        element: part.3,
        shape: None,
    });
    let kernel = Launched {
        name: name.map(str::to_owned),
        passed: Passed {
            parameters: parameters.collect(),
            ..Passed::default()
        },
    };
    let accesses: Vec<Access<'_>> = parts
        .iter()
        .map(|(memory, range, mode, _)| Access {
            memory,
            offset: range.start,
            length: range.end - range.start,
            mode: *mode,
        })
        .collect();
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(kernel, 1, &request)?.wait()
}

use AccessMode::{Overwrite, Read, ReadWrite};

#[test]
fn what_is_no_launch_of_a_built_in_kernel_is_refused() {
    let (context, [camera, _]) = queues();
    let memory = context.memory(100).unwrap();
    for name in [None, Some(""), Some("next"), Some("decode_jpeg")] {
        let error = launch(&camera, name, &[]).unwrap_err();
        assert!(error.to_string().contains("next_frame"), "{error}");
    }
    let good: [Part<'_>; 3] = [
        (&memory, 0..8, ReadWrite, 8),
        (&memory, 8..40, Overwrite, 1),
        (&memory, 40..48, Overwrite, 8),
    ];
    launch(&camera, Some("next_frame"), &good).unwrap();
    let cases: [(usize, Range<u64>, AccessMode, u64); 6] = [
        (0, 0..8, Read, 8),
        (0, 0..8, Overwrite, 8),
        (0, 0..8, ReadWrite, 1),
        (1, 8..40, Read, 1),
        // Written memory overlaps, by a byte.
        (1, 7..40, Overwrite, 1),
        (2, 39..47, Overwrite, 8),
    ];
    for (at, range, mode, element) in cases {
        let mut parts = good.clone();
        parts[at] = (&memory, range, mode, element);
        let error = launch(&camera, Some("next_frame"), &parts).unwrap_err();
        // Bytes that are read may have been written by a launch that has failed.
        let is_refused = matches!(error.kind(), ErrorKind::InvalidArgument { .. });
        assert!(is_refused, "{error}");
        let zeros = Access {
            memory: &memory,
            offset: 0,
            length: 100,
            mode: Overwrite,
        };
        camera.fill(zeros, &[0], &[]).unwrap().wait().unwrap();
    }
    launch(&camera, Some("next_frame"), &good[..2]).unwrap_err();
}

/// Random launches on both devices: none of them panics, and a good one is done after all of them.
#[test]
fn whatever_is_launched_the_device_goes_on() {
    let (context, queues) = queues();
    let mut random = 7_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) % end
    };
    let names = [
        "next_frame",
        "frame",
        "stream_info",
        "decode_jpeg",
        "decode_png",
        "decode_lz4",
        "nothing",
    ];
    for _ in 0..2000 {
        // Fresh, so that a failure is its own.
        let memory = context.memory(256).unwrap();
        let parts: Vec<Part<'_>> = (0..below(7))
            .map(|_| {
                let start = below(255);
                let end = start + 1 + below(256 - start);
                let mode = [Read, ReadWrite, Overwrite][below(3) as usize];
                (&memory, start..end, mode, [1, 2, 4, 8][below(4) as usize])
            })
            .collect();
        let name = names[below(7) as usize];
        if let Err(error) = launch(&queues[below(2) as usize], Some(name), &parts) {
            assert!(
                !matches!(error.kind(), ErrorKind::Panicked { .. }),
                "{error}"
            );
        }
    }
    let memory = context.memory(100).unwrap();
    let good: [Part<'_>; 3] = [
        (&memory, 1..9, ReadWrite, 8),
        (&memory, 9..41, Overwrite, 1),
        (&memory, 43..51, Overwrite, 8),
    ];
    launch(&queues[0], Some("next_frame"), &good).unwrap();
}

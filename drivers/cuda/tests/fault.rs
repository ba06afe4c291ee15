//! A kernel that touches memory that is not its own: its command fails, its device is lost in
//! words, and the process and the devices of its other drivers live on. In a process of its own, as
//! CUDA is of no use to a process after that, on any device.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use cudarc::driver::sys::{self, CUresult};
use quipu_conformance::folding;
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_driver_cuda::{CudaMemory, CudaQueue};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, NativeEnqueue, Queue,
    QueueOptions, Request,
};
use std::ptr::null_mut;
use std::sync::Arc;
use support::{cuda_or_skip, devices};

/// Says that this is the process of its own.
const CHILD: &str = "QUIPU_FAULT_CHILD";

/// Writes to an address that nobody has.
const FAULTY: &str = "
.version 6.3
.target sm_75
.address_size 64
.visible .entry faulty()
{
    .reg .b32 %value;
    .reg .b64 %address;
    mov.u32 %value, 1;
    mov.u64 %address, 16;
    st.global.u32 [%address], %value;
    ret;
}
\0";

fn part(memory: &MemoryRef) -> [Access<'_>; 1] {
    [Access {
        memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }]
}

fn launch_faulty(queue: &Queue, memory: &MemoryRef) -> Event {
    let call = |native: &CudaQueue, _: Vec<CudaMemory>| {
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the text ends in a zero; the kernel has no parameters. The module is left to the
        // process's end.
        let codes = unsafe {
            [
                sys::cuModuleLoadData(&raw mut module, FAULTY.as_ptr().cast()),
                sys::cuModuleGetFunction(&raw mut function, module, c"faulty".as_ptr()),
                sys::cuLaunchKernel(
                    function,
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    native.stream(),
                    null_mut(),
                    null_mut(),
                ),
            ]
        };
        assert_eq!(codes, [CUresult::CUDA_SUCCESS; 3]);
        Ok(())
    };
    let accesses = part(memory);
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    // SAFETY: the fault is the object of the test; the process has no other use for the device.
    unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request) }.unwrap()
}

fn fold(queue: &Queue, memory: &MemoryRef) -> quipu_scheduler::Result<Event> {
    let accesses = part(memory);
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(7), 1, &request)
}

#[test]
fn a_kernel_that_faults_fails_and_its_device_is_lost_in_words_while_others_live_on() {
    if !cuda_or_skip() {
        return;
    }
    if std::env::var(CHILD).is_ok() {
        return child();
    }
    let name = "a_kernel_that_faults_fails_and_its_device_is_lost_in_words_while_others_live_on";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    assert!(text.contains("the others live on"), "{text}\n{error}");
}

fn child() {
    let mut all = devices().unwrap();
    let pool: Arc<dyn Driver> = CpuDriver::start(Options::new()).unwrap();
    all.extend(Device::all_of(&pool).unwrap());
    let context = Context::new(&all).unwrap();
    let queues: Vec<Queue> = all
        .iter()
        .map(|device| context.queue(device, QueueOptions::default()).unwrap())
        .collect();
    let memories: Vec<MemoryRef> = all.iter().map(|_| context.memory(8).unwrap()).collect();
    for (queue, memory) in queues.iter().zip(&memories) {
        fold(queue, memory).unwrap().wait().unwrap();
    }
    let faulty = launch_faulty(&queues[0], &memories[0]);
    let error = faulty.wait().unwrap_err();
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
        "{error}"
    );
    println!("{error}");
    let lost = all[0].lost().unwrap().to_string();
    assert!(lost.contains(all[0].name()), "{lost}");
    assert!(lost.contains("no use to this process"), "{lost}");
    fold(&queues[0], &memories[0]).map(drop).unwrap_err();
    for ((queue, memory), device) in queues.iter().zip(&memories).zip(&all).skip(1) {
        let folded = fold(queue, memory).and_then(|event| event.wait());
        if device.driver().name() != "cuda" {
            assert!(device.lost().is_none(), "{device:?}");
            folded.unwrap();
        } else if let Err(error) = folded {
            // Every GPU of the process is lost with one, whether they reach each other or not, as
            // CUDA documents.
            assert!(
                error.to_string().contains("no use to this process"),
                "{error}"
            );
            assert!(device.lost().is_some(), "{device:?}");
        }
    }
    println!("the others live on");
}

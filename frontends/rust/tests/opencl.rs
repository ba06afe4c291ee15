//! The front end on OpenCL devices: the tests of all devices, texts in OpenCL C, and refusals.
//!
//! Without a device these tests fail, or are left out if `QUIPU_TEST_WITHOUT_OPENCL=1`, and say so.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod clblast;
mod devices;
#[cfg(unix)]
mod kept;
mod natives;
mod texts;

use quipu::prelude::*;
use quipu::{DeviceKind, ErrorKind};
use quipu_device_queue::Vendor;
use quipu_driver_opencl::{OpenCl, OpenClDriver};
#[cfg(unix)]
use std::cell::Cell;

devices::all_tests!(each_queue);

/// A context of all devices and a queue of each OpenCL device.
fn each_queue(test: &dyn Fn(&Context, &Queue)) {
    let platform = Platform::builder().opencl(true).build_available();
    if let Err(why) = devices::each_queue_of("opencl", &platform, test) {
        assert!(
            std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
            "{why}\nInstall one (Debian: pocl-opencl-icd ocl-icd-libopencl1), or set QUIPU_TEST_WITHOUT_OPENCL=1"
        );
        eprintln!("\n*** NOT TESTED: the front end on OpenCL devices. {why}\n");
    }
}

/// The same, with faults recorded in pinned memory of the host, as on devices with memory of their
/// own.
fn each_queue_that_pins(test: &dyn Fn(&Context, &Queue)) {
    let Ok(devices) = OpenCl::open() else {
        // Whether that is a failure is up to the others.
        return;
    };
    let driver = OpenClDriver::over(devices.staged(true)).unwrap();
    let builder = Platform::builder().opencl(false).driver(driver);
    devices::each_queue_of("opencl", &builder.build().unwrap(), test).unwrap();
}

#[test]
fn faults_are_told_by_way_of_pinned_memory() {
    devices::a_fault_fails_its_command_with_kernel_index_and_line(each_queue_that_pins);
    devices::each_of_many_launches_fails_by_its_own_fault(each_queue_that_pins);
}

#[test]
fn kernels_may_be_texts() {
    texts::kernels_may_be_texts(each_queue);
}

#[test]
fn a_text_sees_the_whole_of_its_grid() {
    texts::a_text_sees_the_whole_of_its_grid(each_queue);
}

#[test]
fn what_is_wrong_with_a_text_is_said() {
    each_queue(&|context, queue| {
        let x = context.buffer(&[1.0f32; 4]).unwrap();
        let fails = |source: &str, name: &str, arguments: usize| {
            let kernel = context.program(source).kernel(name);
            let launched = match arguments {
                // SAFETY: none of these runs.
                1 => queue.launch(4, unsafe { kernel.call((&x,)) }),
                // SAFETY: as above.
                _ => queue.launch(4, unsafe { kernel.call((&x, 1u32)) }),
            };
            launched.unwrap().wait().unwrap_err().to_string()
        };
        let error = fails(
            "\n\nkernel void f(global float *x) { x[0] = undeclared; }",
            "f",
            1,
        );
        assert!(
            error.contains("undeclared") && error.contains(":3:"),
            "{error}"
        );
        for empty in ["", " \n", "\0"] {
            let error = fails(empty, "f", 1);
            assert!(error.contains("the text of kernel 'f' is empty"), "{error}");
        }
        let error = fails("kernel void f(global float *x) {}", "g", 1);
        assert!(
            error.contains("no kernel 'g'") && error.contains("it has: f"),
            "{error}"
        );
        let error = fails("kernel void f(global float *x) {}", "f", 2);
        assert!(
            error.contains("it has 1 parameter, and is passed 2"),
            "{error}"
        );
        // Devices without a compiler for it refuse it at once; processors have one where LLVM is.
        let kernel = context
            .program("kernel void f(global float *x) {}")
            .kernel("f");
        let pool = context.queue(&devices::pool_of(context)).unwrap();
        // SAFETY: it does nothing.
        match pool.launch(4, unsafe { kernel.call((&x,)) }) {
            Ok(event) => event.wait().unwrap(),
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Unsupported { .. }),
                    "{error}"
                );
                assert!(error.to_string().contains("no compiler"), "{error}");
                assert!(error.to_string().contains("clang-19"), "{error}");
            }
        }
    });
}

#[test]
fn an_opencl_cpu_is_not_silently_the_fastest() {
    each_queue(&|context, queue| {
        if queue.device().kind() == DeviceKind::Cpu {
            // A GPU of OpenCL's may be.
            let fastest = context.fastest();
            assert!(fastest.kind() != DeviceKind::Cpu || fastest.driver_name() != "opencl");
        }
    });
}

#[test]
fn native_calls_are_handed_the_queue() {
    each_queue(&|_, queue| {
        let call = |native: &quipu::driver::OpenClQueue| {
            !native.queue().is_null() && !native.context().is_null() && !native.device().is_null()
        };
        assert!(queue.native_call(call).unwrap().wait().unwrap());
    });
}

#[cfg(unix)]
#[test]
fn compiled_kernels_are_found_again() {
    let first = Cell::new(true);
    each_queue(&|_, _| {
        if first.replace(false) {
            kept::compiled_kernels_are_found_again("opencl", "compiled_kernels_are_found_again");
        }
    });
}

//! Arithmetic of floating-point numbers, which a program may have changed for itself.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use support::*;

/// Enqueues a kernel of one dimension.
fn launch(setup: &Setup, kernel: cl_kernel, global: usize, local: Option<usize>) -> cl_int {
    let local = local.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: one dimension.
    unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            local,
            0,
            null(),
            null_mut(),
        )
    }
}

/// The register by which this thread's arithmetic is changed.
fn arithmetic() -> u32 {
    let mut word = 0_u32;
    // SAFETY: writes the register to the number.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
    word
}

fn set_arithmetic(word: u32) {
    // SAFETY: bits that the register has.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
}

#[test]
fn kernels_have_the_usual_arithmetic_whatever_the_program_has() {
    if !compiles() {
        return;
    }
    // Before there is a pool, whose threads would inherit it: divisions by zero raise a signal,
    // results are rounded up, and denormal numbers are zeros.
    let usual = arithmetic();
    let other = usual & !0x200 | 0x4000 | 0x8000 | 0x40;
    set_arithmetic(other);
    let setup = Setup::new();
    let text = "kernel void k(global float *x, float zero, float small) {
        int i = get_global_id(0);
        x[4 * i] = (i + 1) / zero;
        x[4 * i + 1] = small * 0.5f + i;
        x[4 * i + 2] = small * 0.5f;
        x[4 * i + 3] = (1 + zero) / 3.0f;
    }";
    let kernel = setup.kernel(text, "k");
    const ITEMS: usize = 1 << 14;
    let buffer = setup.buffer(&vec![0_f32; 4 * ITEMS]);
    ok(set(kernel, 0, &buffer));
    ok(set(kernel, 1, &0.0_f32));
    ok(set(kernel, 2, &f32::MIN_POSITIVE));
    // By the thread that waits, and by the pool's.
    let mut results = Vec::new();
    for _ in 0..20 {
        ok(launch(&setup, kernel, ITEMS, Some(64)));
        results.push(setup.read::<f32>(buffer, 4 * ITEMS));
        ok(launch(&setup, kernel, 64, Some(64)));
        setup.finish();
    }
    let after = arithmetic();
    set_arithmetic(usual);
    assert_eq!(after & !0x3f, other & !0x3f);
    for result in results {
        for (i, of_item) in result.chunks(4).enumerate() {
            assert_eq!(of_item[0], f32::INFINITY, "{i}");
            assert_eq!(of_item[1], i as f32 + f32::MIN_POSITIVE * 0.5, "{i}");
            assert_eq!(
                of_item[2].to_bits(),
                (f32::MIN_POSITIVE * 0.5).to_bits(),
                "{i}"
            );
            assert_eq!(of_item[3].to_bits(), (1.0_f32 / 3.0).to_bits(), "{i}");
        }
    }
}

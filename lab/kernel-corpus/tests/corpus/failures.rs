//! Faults in kernels: checked natively and printed, each is reported for the same thread at the
//! same line.

use super::{Passed, division, line_of};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, BlockScratch, Complex, Execution, Grid, KernelError,
    OwnElements, RawMut, RunOptions, SharedWrite, Threads, f16, kernel,
};
use quipu_kernel_ir::print::{Fault, FaultKind};
use quipu_kernel_ir::{Dialect, IndexWidth, Module, OpenClFeatures, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch, OpenClProgram, opencl_or_skip};

fn checked() -> BlockScratch {
    let mut options = RunOptions::new();
    options.check = true;
    BlockScratch::with_options(options)
}

/// The faults of a launch of 2 blocks, 3 threads and 2 elements, as C99 and as OpenCL C.
fn faults(module: &Module, arguments: &[Argument]) -> Vec<Fault> {
    let launch = || Launch::new(Division::new([2], [3], [2]), arguments.to_vec());
    let print = |dialect| {
        let options = Options::new(dialect, IndexWidth::Bits32);
        module.print(dialect, &options).unwrap()
    };
    let program = C99Program::compile(&print(Dialect::C99)).unwrap();
    let mut all = vec![program.run(&mut launch()).unwrap().unwrap()];
    if opencl_or_skip() {
        let printed = print(Dialect::OpenCl(OpenClFeatures::USUAL));
        let program = OpenClProgram::compile(&printed).unwrap();
        all.push(program.run(&mut launch()).unwrap().unwrap());
    }
    all
}

#[kernel(crate = quipu_kernel)]
fn wrong(_acc: &impl Accelerator<1>, how: u32, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        if i == 9 {
            let mut own = [1, 2, 3];
            *y = match how {
                0 => x[i + 3],
                1 => x[i] / (x[i] - x[9]),
                2 => x[i..].len() as i32 + x[i + 5..].len() as i32,
                3 => (i32::MIN + x[0]) % (x[9] - 10),
                4 => {
                    own[x[9] as usize] = 1;
                    own[1]
                }
                5 => (x[i] - x[9]).ilog2() as i32,
                _ => {
                    assert!(x[i] < 9, "numbers are small");
                    x[i]
                }
            };
        }
    }
}

#[test]
fn what_is_wrong_is_told_by_thread_and_line_everywhere() {
    let x: Vec<i32> = (0..12).collect();
    // Element 9 is the fourth's of the threads that have two each.
    for (how, kind, words) in [
        (0, FaultKind::Read, "the len is 12 but the index is 12"),
        (1, FaultKind::Division, "divide by zero"),
        (2, FaultKind::Range, "14"),
        (3, FaultKind::Division, "overflow"),
        (4, FaultKind::Write, "the len is 3 but the index is 9"),
        (5, FaultKind::Assertion, "argument of integer logarithm"),
        (6, FaultKind::Assertion, "numbers are small"),
    ] {
        let mut y = vec![0; 12];
        let arguments = [how.argument(), (&x).argument(), (&mut y).argument()];
        let call = wrong(how, &x, &mut y);
        let module = call.module().unwrap();
        let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
        let KernelError::Panicked {
            kernel,
            group,
            thread,
            message,
            place,
        } = &error
        else {
            panic!("{how}: {error}");
        };
        assert!(
            kernel.contains("wrong") && message.contains(words),
            "{error}"
        );
        assert_eq!((*group, *thread), (1, 1), "{error}");
        for (at, fault) in faults(&module, &arguments).iter().enumerate() {
            assert_eq!(fault.site.kind, kind, "{fault}");
            // Elsewhere the elements of a thread are apart.
            assert_eq!(fault.thread, [4, 3][at], "{fault}");
            assert_eq!(fault.site.function, "wrong");
            let line = fault.site.location.unwrap().line;
            let native = place.split(':').nth(1).unwrap();
            assert_eq!(native, line.to_string(), "{fault}: {error}");
        }
    }
}

/// One thread of block 1 reaches something that is not there, before a barrier or behind it.
#[kernel(crate = quipu_kernel)]
async fn strays(
    acc: &impl BlockAccelerator<1>,
    how: u32,
    x: &[i32],
    raw: RawMut<i32>,
    mut y: OwnElements<i32>,
    #[shared(3)] mut sums: SharedWrite<i32>,
) {
    let at = acc.index(Grid, Threads)[0];
    let far = if at == 4 { 12 } else { 0 };
    let mut own = [1, 2, 3];
    if how == 0 {
        own[0] = x[far + at]; // strays 0
    } else if how == 1 {
        own[far] = 2; // strays 1
    } else if how == 2 {
        sums.own()[far] = 3; // strays 2
    }
    let sums = acc.sync(sums).await;
    if how == 3 {
        own[0] = sums[far]; // strays 3
    } else if how == 4 {
        // SAFETY: nobody writes it, and of what is not there the check comes first.
        own[0] = unsafe { raw.read(far) }; // strays 4
    } else if how == 5 {
        let part = &x[..far + 1]; // strays 5
        own[0] = part[0];
    } else if how == 6 {
        assert!(far == 0, "{far} is far"); // strays 6
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = own[0] + own[1];
    }
}

#[test]
fn what_is_wrong_between_barriers_is_told_by_thread_and_line_in_every_way() {
    let x: Vec<i32> = (0..12).collect();
    for execution in [
        Execution::Native,
        Execution::Lockstep { warp_size: 1 },
        Execution::Lockstep { warp_size: 32 },
        Execution::OsThreads { warp_size: 1 },
    ] {
        let mut options = RunOptions::new();
        (options.check, options.execution) = (true, execution);
        let mut scratch = BlockScratch::with_options(options);
        for (how, words) in [
            (0, "the len is 12 but the index is 16"),
            (1, "the len is 3 but the index is 12"),
            (2, "the len is 1 but the index is 12"),
            (3, "the len is 3 but the index is 12"),
            (4, "the index is 12"),
            (5, "13"),
            (6, "12 is far"),
        ] {
            let (mut raw, mut y) = (vec![0; 12], vec![0; 12]);
            let call = strays(how, &x, &mut raw, &mut y);
            let error = call.run_in(division(2, 3, 2), &mut scratch).unwrap_err();
            let KernelError::Panicked {
                kernel,
                group: 1,
                thread: 1,
                message,
                place,
            } = &error
            else {
                panic!("{execution:?}, {how}: {error}");
            };
            assert!(kernel.ends_with("strays"), "{error}");
            assert!(message.contains(words), "{error}");
            let line = line_of(include_str!("failures.rs"), &format!("// strays {how}"));
            let told = format!("failures.rs:{line}:");
            assert!(place.contains(&told), "{execution:?}, {how}: {error}");
        }
    }
}

/// A thread does not come to the second barrier.
#[kernel(crate = quipu_kernel)]
async fn divergent(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<i32>,
    #[shared(3)] sums: SharedWrite<i32>,
) {
    let sums = acc.sync(sums).await;
    // SAFETY: there is none, and so this is run where it is found out alone.
    if unsafe { acc.assume_uniform(acc.index(Block, Threads)[0] == 1) } {
        return;
    }
    acc.sync_block_threads().await;
    for (i, y) in y.each() {
        *y = i as i32 + sums[0];
    }
}

#[test]
fn a_barrier_that_a_thread_never_comes_to_is_found_natively_and_in_c99() {
    let mut y = vec![0; 12];
    let argument = (&mut y).argument();
    let call = divergent(&mut y);
    let module = call.module().unwrap();
    let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
    let KernelError::DivergentBarrier {
        kernel,
        group: 0,
        finished: 1,
        thread: 1,
        waiting: 2,
        barrier,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(kernel.ends_with("divergent"), "{error}");
    let text = error.to_string();
    for said in [kernel, "thread 1", &barrier.to_string()] {
        assert!(text.contains(said), "{text}");
    }
    let printed = module
        .print(
            Dialect::C99,
            &Options::new(Dialect::C99, IndexWidth::Bits64),
        )
        .unwrap();
    let program = C99Program::compile(&printed).unwrap();
    let mut launch = Launch::new(Division::new([2], [3], [2]), [argument]);
    let fault = program.run(&mut launch).unwrap().unwrap();
    assert_eq!(fault.site.kind, FaultKind::Divergence, "{fault}");
    assert_eq!(fault.site.function, "divergent");
    let line = fault.site.location.unwrap().line;
    assert_eq!(barrier.line(), line, "{fault}: {error}");
    assert!(barrier.file().ends_with("failures.rs"), "{error}");
}

const BEFORE_STEPS: u32 = line!();

#[kernel(crate = quipu_kernel)]
fn zero_steps(_acc: &impl Accelerator<1>, how: u32, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        // Of one thread's element it is zero.
        let step = if i == 9 { 0 } else { 2 };
        let v = x[i];
        let mut sum = 0;
        if how == 0 {
            for a in (0..v).step_by(step) {
                sum += a;
            }
        } else if how == 1 {
            for a in (0..=v).step_by(step) {
                sum += a;
            }
        } else if how == 2 {
            for a in (0..v).rev().step_by(step) {
                sum += a;
            }
        } else if how == 3 {
            for a in (0..=v).rev().step_by(step) {
                sum += a;
            }
        } else if how == 4 {
            for a in (0..v).step_by(step).rev() {
                sum += a;
            }
        } else if how == 5 {
            for a in (0..=v as u8).step_by(step).rev() {
                sum += a as i32;
            }
        } else if how == 6 {
            let steps = (0..v).step_by(step);
            // Nothing goes over it.
            sum += if v > 99 { steps.sum() } else { 0 };
        }
        *y = sum;
    }
}

#[test]
fn ranges_in_steps_of_zero_are_faults_and_end_everywhere() {
    let x: Vec<i32> = (0..12).collect();
    for how in 0..7u32 {
        let mut y = vec![0; 12];
        let arguments = [how.argument(), (&x).argument(), (&mut y).argument()];
        let call = zero_steps(how, &x, &mut y);
        let module = call.module().unwrap();
        let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
        let KernelError::Panicked {
            kernel,
            group: 1,
            thread: 1,
            message,
            ..
        } = &error
        else {
            panic!("{how}: {error}");
        };
        assert!(kernel.contains("zero_steps"), "{error}");
        assert!(message.contains("step != 0"), "{error}");
        // There are four lines for each.
        let line = BEFORE_STEPS + 10 + 4 * how;
        for fault in faults(&module, &arguments) {
            assert_eq!(fault.site.kind, FaultKind::Assertion, "{fault}");
            let location = fault.site.location.unwrap();
            assert_eq!(location.line, line, "{fault}");
            assert!(fault.to_string().contains("the step is zero"), "{fault}");
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn beside(acc: &impl Accelerator<1>, how: u32, mut v: OwnElements<i32>, mut p: OwnElements<i32>) {
    if how == 0 {
        v.each().zip(p.each()).for_each(|((_, v), (_, p))| *v += *p); // numbered
    } else if how == 1 {
        let n = v.extent();
        let all = v.iter_mut().zip(acc.elements(n)).zip(p.iter_mut()); // all three
        all.for_each(|((v, _), p)| *p += *v);
    } else {
        let n = p.extent();
        let all = acc.elements(n).zip(v.iter_mut()); // with numbers
        for (i, v) in all {
            *v += i as i32;
        }
    }
}

#[test]
fn own_elements_of_different_extents_are_no_pairs_anywhere() {
    for (how, mark) in (0u32..).zip(["// numbered", "// all three", "// with numbers"]) {
        let line = line_of(include_str!("failures.rs"), mark);
        for (long, short) in [(12, 11), (5, 12)] {
            let (mut v, mut p) = (vec![1; long], vec![2; short]);
            let arguments = [how.argument(), (&mut v).argument(), (&mut p).argument()];
            let call = beside(how, &mut v, &mut p);
            let module = call.module().unwrap();
            let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
            let KernelError::Panicked { message, place, .. } = &error else {
                panic!("{how}: {error}");
            };
            let words = "`zip` of a thread's own elements of different extents";
            assert!(message.contains(words), "{error}");
            assert!(format!("{place:?}").contains(&line.to_string()), "{error}");
            for fault in faults(&module, &arguments) {
                let location = fault.site.location.unwrap();
                assert_eq!(location.line, line, "{fault}");
                assert!(fault.to_string().contains(words), "{fault}");
            }
        }
    }
}

/// As `zero_steps`, in a kernel with barriers.
#[kernel(crate = quipu_kernel)]
async fn zero_step_of_a_block(
    acc: &impl BlockAccelerator<1>,
    step: u32,
    mut y: OwnElements<i32>,
    #[shared(3)] mut sums: SharedWrite<i32>,
) {
    for a in (0..5).step_by(step as usize) {
        sums.own()[0] += a;
    }
    let sums = acc.sync(sums).await;
    for (_, y) in y.each() {
        *y = sums[0];
    }
}

#[test]
fn a_step_of_zero_is_a_fault_in_every_way_to_run_blocks() {
    for execution in [
        Execution::Native,
        Execution::Lockstep { warp_size: 4 },
        Execution::OsThreads { warp_size: 1 },
    ] {
        let mut options = RunOptions::new();
        options.check = true;
        options.execution = execution;
        let mut scratch = BlockScratch::with_options(options);
        let mut y = vec![0; 12];
        let call = zero_step_of_a_block(0, &mut y);
        let error = call.run_in(division(2, 3, 2), &mut scratch).unwrap_err();
        assert!(
            matches!(&error, KernelError::Panicked { message, .. } if message.contains("step != 0")),
            "{execution:?}: {error}"
        );
    }
    let mut y = vec![0; 12];
    let arguments = [0u32.argument(), (&mut y).argument()];
    let module = zero_step_of_a_block(0, &mut y).module().unwrap();
    for fault in faults(&module, &arguments) {
        assert!(fault.to_string().contains("the step is zero"), "{fault}");
    }
}

#[kernel(crate = quipu_kernel)]
fn asserts(_acc: &impl Accelerator<1>, how: u32, x: &[f32], n: &[i32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let (value, number) = (x[i], n[i]);
        let (is_small, half) = (value < 2.0, f16::from_f32(value));
        if how == 0 {
            assert!(is_small, "element {i} is {value}, {{not}} small");
        } else if how == 1 {
            assert!(number > -9, "{number} of {}", number as u8);
        } else if how == 2 {
            assert!(is_small, "{half}, {is_small}");
        } else if how == 3 {
            assert_eq!(i + 2, i.max(9));
        } else if how == 4 {
            assert_ne!(number, -10, "a number is {number}");
        } else {
            assert_eq!(Complex::new(value, 1.0), Complex::new(0.5, 1.0));
        }
        *y = value;
    }
}

#[test]
fn assertions_show_their_values_everywhere() {
    let x: Vec<f32> = (0..12u8).map(|i| if i == 7 { 2.5 } else { 0.5 }).collect();
    let n: Vec<i32> = (0..12).map(|i| if i == 8 { -10 } else { i }).collect();
    for (how, expected, elsewhere) in [
        (0u32, "element 7 is 2.5, {not} small", ""),
        (1, "-10 of 246", ""),
        (2, "2.5, false", ""),
        (4, "a number is -10", ""),
        // Of std's words only these are in one line.
        (3, "`left == right` failed", "i + 2 == i.max(9), of 2 and 9"),
        (
            5,
            "`left == right` failed",
            "Complex :: new(value, 1.0) == Complex :: new(0.5, 1.0)",
        ),
    ] {
        let elsewhere = if elsewhere.is_empty() {
            expected
        } else {
            elsewhere
        };
        let mut y = vec![0.0f32; 12];
        let call = asserts(how, &x, &n, &mut y);
        let module = call.module().unwrap();
        let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let arguments = [
            how.argument(),
            (&x).argument(),
            (&n).argument(),
            (&y).argument(),
        ];
        for fault in faults(&module, &arguments) {
            assert!(
                fault
                    .to_string()
                    .contains(&format!("assertion failed: {elsewhere}, in")),
                "{fault}"
            );
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn bad_bounds(_acc: &impl Accelerator<1>, how: u32, x: &[f64], mut y: OwnElements<f64>) {
    for (i, y) in y.each() {
        let (min, max) = (x[2 * i], x[2 * i + 1]);
        *y = if how == 0 {
            3.5_f64.clamp(min, max) // bounds 0
        } else if how == 1 {
            f32::clamp(3.5, min as f32, max as f32) as f64 // bounds 1
        } else if how == 2 {
            let (min, max) = (f16::from_f32(min as f32), f16::from_f32(max as f32));
            f16::ONE.clamp(min, max).to_f32() as f64 // bounds 2
        } else if how == 3 {
            3_i32.clamp(min as i32, max as i32) as f64 // bounds 3
        } else if how == 4 {
            (i as u8).clamp(min as u8, max as u8) as f64 // bounds 4
        } else if how == 5 {
            i64::clamp(i as i64, min as i64, max as i64) as f64 // bounds 5
        } else {
            i.clamp(min as usize, max as usize) as f64 // bounds 6
        };
    }
}

#[test]
fn bounds_in_the_wrong_order_are_faults_everywhere() {
    let ordered = [1.0, 7.0].repeat(12);
    for how in 0..7u32 {
        for bounds in [[7.0, 1.0], [f64::NAN, 1.0], [1.0, f64::NAN]] {
            let is_float = how < 3;
            if !is_float && bounds != [7.0, 1.0] {
                continue;
            }
            let mut x = ordered.clone();
            x[18..20].copy_from_slice(&bounds);
            let mut y = vec![0.0; 12];
            let arguments = [how.argument(), (&x).argument(), (&mut y).argument()];
            let call = bad_bounds(how, &x, &mut y);
            let module = call.module().unwrap();
            let error = call.run_in(division(2, 3, 2), &mut checked()).unwrap_err();
            assert!(
                matches!(&error, KernelError::Panicked { group: 1, thread: 1, message, .. } if message.contains("min")),
                "{how}, {bounds:?}: {error}"
            );
            let line = line_of(include_str!("failures.rs"), &format!("// bounds {how}"));
            for fault in faults(&module, &arguments) {
                assert_eq!(fault.site.kind, FaultKind::Assertion, "{fault}");
                assert_eq!(fault.site.location.unwrap().line, line, "{fault}");
                let text = fault.to_string();
                assert!(text.contains("min <= max, of `clamp` with"), "{text}");
            }
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn constant_bounds(_acc: &impl Accelerator<1>, x: &[f64], mut y: OwnElements<f64>) {
    for (i, y) in y.each() {
        *y = x[i].clamp(-1.5, 2.5) + (x[i] as i32).clamp(-3, 4) as f64;
    }
}

#[test]
fn constant_bounds_in_the_right_order_are_not_checked() {
    let (x, mut y) = (vec![1.0; 12], vec![0.0; 12]);
    let module = constant_bounds(&x, &mut y).module().unwrap();
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let printed = module.print(Dialect::C99, &options).unwrap();
    let is_check = |site: &quipu_kernel_ir::print::Site| site.kind == FaultKind::Assertion;
    assert!(!printed.sites.iter().any(is_check), "{}", printed.source);
}

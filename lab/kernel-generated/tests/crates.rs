//! Device functions of another crate, in every way to run a kernel; and that a difference is seen,
//! of values and of faults.

use quipu_kernel::{Accelerator, Entry, OwnElements, WorkDivision, kernel};
use quipu_kernel_generated::device::{self, settled_f32};
use quipu_kernel_generated::{Case, Element, Given, compare, kind, text};
use quipu_kernel_testing::opencl_or_skip;

#[kernel(crate = quipu_kernel)]
fn bits(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let double = device::settled_f64(x[i] as f64 * 1e300);
        *y = settled_f32(x[i]).to_bits() as u64 ^ double.to_bits();
    }
}

const CASE: Case = Case {
    name: "bits",
    seed: 4,
    is_block: false,
    is_wide: false,
    may_fail: false,
    is_ordered: false,
    division: [&[3], &[2], &[4]],
    shared: &[],
    given: &[
        Given::Elements(f32::LAYOUT, 40),
        Given::Elements(u64::LAYOUT, 40),
    ],
    module: || <bits as Entry<1>>::module(),
    run: |data, way| {
        let x = data.elements::<f32>(0);
        let mut y = data.elements::<u64>(1);
        let result = way.run::<bits, _, 1>((&x, &mut y), [[3], [2], [4]]);
        data.keep(1, &y);
        result
    },
};

#[test]
fn device_functions_of_another_crate_are_called_everywhere() {
    let (x, mut y) = ([1.5, f32::NAN], [0, 1]);
    let division = WorkDivision::new(1, 1, 2).expect("a division");
    bits(&x, &mut y).run(division).expect("nothing goes wrong");
    assert_eq!(y, [0x3fc0_0000 ^ (1.5 * 1e300_f64).to_bits(), 0]);
    let differences = compare(&[CASE], false);
    assert!(differences.is_empty(), "{}", differences[0].text());
}

#[test]
fn what_differs_natively_and_printed_is_seen() {
    // Natively one element is changed afterwards.
    let wrong = Case {
        run: |data, way| {
            let result = (CASE.run)(data, way);
            let mut y = data.elements::<u64>(1);
            y[7] ^= u64::from(way.name == "x86-64-v2");
            data.keep(1, &y);
            result
        },
        ..CASE
    };
    let differences = compare(&[CASE, wrong], false);
    assert_eq!(differences.len(), 1);
    let what = &differences[0].what;
    assert!(
        what.contains("x86-64-v2") && what.contains("element 7 of argument 1"),
        "{what}"
    );
    // And in all ways.
    let wrong = Case {
        run: |data, way| {
            let result = (CASE.run)(data, way);
            data.keep(1, &[0_u64; 40]);
            result
        },
        ..CASE
    };
    let differences = compare(&[wrong], false);
    assert!(
        differences[0].what.contains("C99"),
        "{}",
        differences[0].what
    );
}

#[kernel(crate = quipu_kernel)]
#[allow(dead_code, reason = "it is run by its type")]
fn carried(_acc: &impl Accelerator<1>, _x: &[f32], mut y: OwnElements<u64>) {
    let mut before = 0;
    for (i, y) in y.each() {
        *y = before;
        before = i as u64;
    }
}

#[test]
fn what_elements_leave_for_the_next_is_seen_in_strides() {
    let ordered = Case {
        is_ordered: true,
        module: || <carried as Entry<1>>::module(),
        run: |data, way| {
            let x = data.elements::<f32>(0);
            let mut y = data.elements::<u64>(1);
            let result = way.run::<carried, _, 1>((&x, &mut y), [[3], [2], [4]]);
            data.keep(1, &y);
            result
        },
        ..CASE
    };
    assert!(compare(&[ordered], false).is_empty());
    let wrong = Case {
        is_ordered: false,
        ..ordered
    };
    let differences = compare(&[wrong], false);
    let what = &differences[0].what;
    assert!(what.contains("C99 in strides differ"), "{what}");
}

#[test]
fn what_differs_as_opencl_c_is_seen() {
    if !opencl_or_skip() {
        return;
    }
    assert!(compare(&[CASE], true).is_empty());
    // Indices of another width, and a kernel that is not the one that runs natively.
    let wrong = Case {
        module: || <bits as Entry<1>>::module(),
        run: |data, _| {
            data.keep(1, &[0_u64; 40]);
            Ok(())
        },
        ..CASE
    };
    assert_eq!(compare(&[wrong], true).len(), 1);
}

#[test]
fn what_is_wrong_is_told_from_both_texts() {
    let said = |index: usize| {
        let numbers = [0_u32; 4];
        let read = std::panic::catch_unwind(|| numbers[std::hint::black_box(index)]);
        text(&*read.expect_err("there is no such element"))
    };
    for (native, printed) in [
        (said(9).as_str(), "read of element 9 of 4"),
        (
            "range end index 9 out of range for slice of length 4",
            "range 2..9 outside of the slice",
        ),
        ("attempt to divide by zero", "division by zero"),
        (
            "attempt to calculate the remainder with a divisor of zero",
            "division by zero",
        ),
        (
            "attempt to divide with overflow",
            "division of the smallest number by -1",
        ),
    ] {
        assert!(kind(native).is_some(), "{native}");
        assert_eq!(kind(native), kind(printed), "{native}");
    }
    assert_ne!(kind("attempt to divide by zero"), kind(&said(4)));
}

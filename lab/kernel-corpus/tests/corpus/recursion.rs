//! Functions that call themselves: their source has no end, and is refused before the host's stack
//! has one.

use quipu_kernel::{Accelerator, Grid, KernelData, OwnElements, Threads, device, kernel};

use super::{check, division};

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
struct Steps;

#[device(crate = quipu_kernel)]
impl Steps {
    fn by_value(n: u32) -> u32 {
        if n == 0 { 0 } else { n + Self::by_value(n - 1) }
    }

    fn by_reference(x: &mut u32, n: u32) {
        if n > 0 {
            *x += n;
            Self::by_reference(x, n - 1);
            Self::by_reference(x, n - 1);
        }
    }

    fn of_threads(acc: &impl Accelerator<1>, n: u32) -> u32 {
        if n == 0 {
            acc.extent(Grid, Threads)[0] as u32
        } else {
            Self::of_threads(acc, n - 1)
        }
    }

    fn of_a_closure(f: impl Fn(u32) -> u32, n: u32) -> u32 {
        if n == 0 { f(n) } else { Self::again(n - 1) }
    }

    fn again(n: u32) -> u32 {
        Self::of_a_closure(|m| m + 1, n) + Self::of_a_closure(|m| m + 2, n)
    }
}

#[device(crate = quipu_kernel)]
fn even(x: &mut u32, n: u32) {
    if n > 0 {
        odd(x, n - 1);
    }
}

#[device(crate = quipu_kernel)]
fn odd(x: &mut u32, n: u32) {
    *x += 1;
    if n > 0 {
        even(x, n - 1);
    }
}

/// A function that is written into its caller, and one that is not.
#[device(crate = quipu_kernel)]
fn whole(n: u32) -> u32 {
    let mut x = n;
    if n > 0 {
        part(&mut x, n);
    }
    x
}

#[device(crate = quipu_kernel)]
fn part(x: &mut u32, n: u32) {
    *x += whole(n - 1);
}

macro_rules! recursive {
    ($($name:ident: |$acc:ident, $y:ident| $body:expr;)*) => {$(
        #[test]
        fn $name() {
            #[kernel(crate = quipu_kernel)]
            fn recursive($acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
                for (_, $y) in y.each() {
                    $body;
                }
            }
            let mut y = vec![3; 4];
            let error = recursive(&mut y).module().unwrap_err().to_string();
            assert!(error.contains("write a loop"), "{error}");
            assert!(error.contains("recursion.rs"), "{error}");
        }
    )*};
}

recursive! {
    recursion_by_value_is_refused: |_acc, y| *y = Steps::by_value(*y);
    recursion_with_a_reference_is_refused: |_acc, y| Steps::by_reference(y, 3);
    recursion_with_the_accelerator_is_refused: |acc, y| *y = Steps::of_threads(acc, 3);
    recursion_through_another_function_is_refused: |_acc, y| even(y, 3);
    recursion_through_one_written_into_its_caller_is_refused: |_acc, y| *y = whole(*y);
    recursion_with_a_closure_is_refused: |_acc, y| *y = Steps::again(*y);
}

#[device(crate = quipu_kernel)]
fn twice(f: impl Fn(u32) -> u32, x: u32) -> u32 {
    f(f(x))
}

#[kernel(crate = quipu_kernel)]
fn nested(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    let one = |k: u32| k + 1;
    let two = |k: u32| twice(one, k);
    let four = |k: u32| twice(two, k);
    for (_, y) in y.each() {
        *y = twice(four, *y) + twice(|n| twice(|m| twice(|k| k * 2, m), n), *y);
    }
}

#[test]
fn a_function_is_called_in_what_is_passed_to_it() {
    let mut y = vec![1; 20];
    check!(nested => (&mut y), division(2, 5, 2));
    assert_eq!(y[4], 1 + 8 + 256);
}

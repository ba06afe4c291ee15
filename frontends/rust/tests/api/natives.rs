//! Closures that get a driver's own queue and the memory that they declare, on devices whose memory
//! this process addresses. (Those of vendors' libraries: `tests/natives`, `tests/cublas`.)

use super::{each_queue, pool};
use quipu::driver::{AccessMode, CpuQueue, NativeBytes, NativeQueue, SimQueue};
use quipu::prelude::*;
use quipu::{ErrorKind, Pending, Result};
use std::num::ParseIntError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[kernel]
fn fold(_acc: &impl Accelerator<1>, with: u32, mut x: OwnElements<u32>) {
    for (_, x) in x.each() {
        *x = x.wrapping_mul(31).wrapping_add(with);
    }
}

fn folded(x: u32, with: u32) -> u32 {
    x.wrapping_mul(31).wrapping_add(with)
}

/// A test of a queue whose native queues are of a type.
trait Test {
    fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue);
}

/// Runs a test on every kind of device, with the type of queue that it hands out.
fn each(test: impl Test) {
    each_queue(|context, queue| match queue.device().driver_name() {
        "sim" => test.of::<SimQueue>(context, queue),
        _ => test.of::<CpuQueue>(context, queue),
    });
}

/// The elements of what a closure was handed.
///
/// # Safety
/// They are elements of this type, and nobody else changes them meanwhile.
unsafe fn elements<'a, T>(bytes: &NativeBytes) -> &'a [T] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(bytes.pointer().cast(), bytes.length() / size_of::<T>()) }
}

/// As [`elements`], to be changed.
///
/// # Safety
/// As there, and nobody else uses them meanwhile.
unsafe fn elements_mut<'a, T>(bytes: &NativeBytes) -> &'a mut [T] {
    // SAFETY: as the caller promises.
    unsafe {
        std::slice::from_raw_parts_mut(bytes.pointer().cast(), bytes.length() / size_of::<T>())
    }
}

/// Writes the sums of what is before an element, and of itself: what no kernel does so.
fn sums<N: NativeQueue<Memory = NativeBytes>>(
    queue: &Queue,
    from: &Buffer<u32>,
    to: &mut Buffer<u32>,
) -> Pending<u32> {
    let call = |_: &N, [from, to]: [NativeBytes; 2]| {
        assert_eq!(
            (from.mode(), to.mode()),
            (AccessMode::Read, AccessMode::Overwrite)
        );
        // SAFETY: declared so.
        let (from, to) = unsafe { (elements::<u32>(&from), elements_mut::<u32>(&to)) };
        let mut sum = 0_u32;
        for (from, to) in from.iter().zip(to) {
            sum = sum.wrapping_add(*from);
            *to = sum;
        }
        Ok::<_, String>(sum)
    };
    // SAFETY: it reads the one and writes all of the other, and is over when it returns.
    unsafe { queue.async_execute((from, to.overwrite()), call) }.unwrap()
}

#[test]
fn calls_are_commands_between_kernels() {
    struct Between;
    impl Test for Between {
        fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue) {
            let gate = UserEvent::new();
            let mut x = context.buffer(&[1u32; 1000]).unwrap();
            let mut y = context.allocate::<u32>(1000).unwrap();
            let held = queue.after([gate.event()]);
            held.launch(1000, fold(5, &mut x)).unwrap();
            let sum = sums::<N>(queue, &x, &mut y);
            queue.launch(1000, fold(7, &mut y)).unwrap();
            // A part of a buffer, where others lie before and behind it.
            let (part, mut of_y) = (x.slice(3..13).unwrap(), y.slice(990..).unwrap());
            let last = sums::<N>(queue, &part, &mut of_y);
            let y = queue.read(&y).unwrap();
            assert!(!sum.is_complete());
            gate.complete();
            let x = folded(1, 5);
            let all = x.wrapping_mul(1000);
            assert_eq!(sum.wait().unwrap(), all);
            assert_eq!(last.wait().unwrap(), x * 10);
            let y = y.wait().unwrap();
            for (n, y) in (1_u32..).zip(&y[..990]) {
                assert_eq!(*y, folded(x.wrapping_mul(n), 7));
            }
            for (n, y) in (1..).zip(&y[990..]) {
                assert_eq!(*y, x * n);
            }
        }
    }
    each(Between);
}

#[test]
fn an_error_is_had_back_as_it_was() {
    struct Fails;
    impl Test for Fails {
        fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue) {
            let mut x = context.buffer(&[1u32; 4]).unwrap();
            let call = |_: &N, [_]: [NativeBytes; 1]| "seven".parse::<u32>();
            // SAFETY: it touches nothing.
            let failed = unsafe { queue.async_execute((&mut x,), call) }.unwrap();
            let read = queue.read(&x).unwrap();
            let error = failed.wait().unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Returned { .. }),
                "{error}"
            );
            assert!(error.to_string().contains("invalid digit"), "{error}");
            assert!(error.returned::<ParseIntError>().is_some());
            assert!(error.returned::<String>().is_none());
            // What depends on it says the same.
            let error = read.wait().unwrap_err();
            assert!(error.returned::<ParseIntError>().is_some(), "{error}");
            // Whatever can be told to people is had back: a library's code.
            let mut y = context.buffer(&[1u32; 4]).unwrap();
            let call = |_: &N, [_]: [NativeBytes; 1]| Err::<(), i32>(-54);
            // SAFETY: as above.
            let failed = unsafe { queue.async_execute((&mut y,), call) }.unwrap();
            let error = failed.wait().unwrap_err();
            assert_eq!(error.returned::<i32>(), Some(&-54));
        }
    }
    each(Fails);
}

#[test]
fn a_panic_fails_the_command_alone() {
    struct Panics;
    impl Test for Panics {
        fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue) {
            let x = context.buffer(&[1u32; 4]).unwrap();
            let call = |_: &N, [_]: [NativeBytes; 1]| -> Result<(), String> { panic!("by design") };
            // SAFETY: it touches nothing.
            let failed = unsafe { queue.async_execute((&x,), call) }.unwrap();
            let error = failed.wait().unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Panicked { message, .. } if message.starts_with("by design, at ")),
                "{error}"
            );
            assert_eq!(queue.read(&x).unwrap().wait().unwrap(), [1; 4]);
        }
    }
    each(Panics);
}

#[test]
fn one_that_is_cancelled_is_not_called() {
    struct Cancels;
    impl Test for Cancels {
        fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue) {
            let gate = UserEvent::new();
            let x = context.buffer(&[1u32; 4]).unwrap();
            let called = Arc::new(AtomicBool::new(false));
            let call = {
                let called = called.clone();
                move |_: &N, [_]: [NativeBytes; 1]| {
                    called.store(true, Ordering::SeqCst);
                    Ok::<_, String>(())
                }
            };
            // SAFETY: it touches nothing.
            let held = unsafe { queue.after([gate.event()]).async_execute((&x,), call) }.unwrap();
            held.cancel();
            gate.complete();
            assert!(held.wait().unwrap_err().is_cancelled());
            queue.wait().unwrap();
            assert!(!called.load(Ordering::SeqCst));
        }
    }
    each(Cancels);
}

#[test]
fn one_way_calls_run_in_order() {
    struct Posts;
    impl Test for Posts {
        fn of<N: NativeQueue<Memory = NativeBytes>>(&self, context: &Context, queue: &Queue) {
            let mut x = context.buffer(&[1u32; 4]).unwrap();
            for with in 0..100 {
                let call = move |_: &N, [x]: [NativeBytes; 1]| {
                    // SAFETY: declared so.
                    let x = unsafe { elements_mut::<u32>(&x) };
                    x.iter_mut().for_each(|x| *x = folded(*x, with));
                    Ok::<_, String>(())
                };
                // SAFETY: as declared.
                unsafe { queue.post((&mut x,), call) }.unwrap();
            }
            let expected = (0..100).fold(1, folded);
            assert_eq!(queue.read(&x).unwrap().wait().unwrap(), [expected; 4]);
        }
    }
    each(Posts);
}

/// A wait for another command goes on, as in a host task: the pool runs others meanwhile.
#[test]
fn a_call_on_the_pool_may_wait() {
    let (context, queue) = pool();
    let x = context.buffer(&[3u32; 4]).unwrap();
    let other = context.queue(queue.device()).unwrap();
    let call = move |native: &CpuQueue, [x]: [NativeBytes; 1]| {
        assert!(!native.workers.is_empty());
        // SAFETY: declared so.
        let three = unsafe { elements::<u32>(&x) }[0];
        other.host_task(move || three * 2)?.wait()
    };
    // SAFETY: it reads what it declares.
    let six = unsafe { queue.async_execute((&x,), call) }.unwrap();
    assert_eq!(six.wait().unwrap(), 6);
}

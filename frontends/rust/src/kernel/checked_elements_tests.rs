//! Tests: bits that are no value of their type, in memory that a kernel writes.

use crate::buffer::Buffer;
use crate::prelude::*;

/// Negates every element.
struct Negate;

impl Kernel<1> for Negate {
    type Output = ByElement<bool>;

    fn run<A: Accelerator<1>>(&self, _: &A, mut own: OwnElements<'_, bool>) {
        own.each().for_each(|(_, element)| *element = !*element);
    }
}

fn negate(output: GlobalMut<'_, bool>) -> impl Bound<1> {
    bind(Negate, output)
}

fn negate_rows(output: GlobalMut<'_, bool, 2>) -> impl Bound<2> {
    struct Rows;
    impl Kernel<2> for Rows {
        type Output = ByElement<bool>;
        fn run<A: Accelerator<2>>(&self, _: &A, mut own: OwnElements<'_, bool, 2>) {
            own.each().for_each(|(_, element)| *element = !*element);
        }
    }
    bind(Rows, output)
}

/// So many that a launch is run in pieces, by several threads.
const LENGTH: usize = 1 << 16;

/// A queue of each device on which Rust runs, and a buffer of `bool` there with the bits of these
/// bytes.
fn on_each_device(byte: u8, look: impl Fn(&Queue, Buffer<bool>)) {
    let platform = Platform::new().unwrap();
    let context = platform.context().unwrap();
    for device in context.devices() {
        if !["cpu", "serial"].contains(&device.driver_name()) {
            continue;
        }
        let queue = context.queue(device).unwrap();
        let bytes = context.buffer(&vec![byte; LENGTH]).unwrap();
        queue.wait().unwrap();
        look(&queue, Buffer::whole(bytes.memory().clone(), LENGTH));
    }
}

#[test]
fn a_kernel_gets_no_reference_to_bits_that_are_no_value() {
    on_each_device(2, |queue, mut flags| {
        // SAFETY: the function binds its output, always in the same way.
        let launched = queue.launch(LENGTH, unsafe { native(negate, (&mut flags,)) });
        let error = launched.unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("no value of bool"), "{error}");
    });
}

#[test]
fn the_rows_of_a_view_are_looked_at_and_what_is_between_them_is_not() {
    on_each_device(2, |queue, flags| {
        let columns = LENGTH / 64;
        let all = flags.shaped([64, columns]).unwrap();
        let mut part = all.region([0..64, 8..columns]).unwrap();
        let extent = [64, columns - 8];
        queue.fill_nd(&part, true).unwrap();
        // SAFETY: the function binds its output, always in the same way.
        let launched = queue.launch(extent, unsafe { native(negate_rows, (&mut part,)) });
        launched.unwrap().wait().unwrap();
        assert!(
            queue
                .read_nd(&part)
                .unwrap()
                .wait()
                .unwrap()
                .iter()
                .all(|flag| !flag)
        );
        let mut others = flags.shaped([64, columns]).unwrap();
        others = others.region([0..64, 0..8]).unwrap();
        // SAFETY: the function binds its output, always in the same way.
        let launched = queue.launch([64, 8], unsafe { native(negate_rows, (&mut others,)) });
        let error = launched.unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("no value of bool"), "{error}");
    });
}

#[test]
fn what_is_overwritten_has_values_whatever_was_there() {
    on_each_device(2, |queue, mut flags| {
        // SAFETY: the function binds its output, always in the same way.
        let launched = queue.launch(LENGTH, unsafe { native(negate, (flags.overwrite(),)) });
        launched.unwrap().wait().unwrap();
        let found = queue.read(&flags).unwrap().wait().unwrap();
        assert!(
            found.iter().all(|flag| *flag),
            "they were false, which is zero, and negated"
        );
    });
}

//! Commands on rows of one matrix.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::operation::{NativeKernel, Step};
use quipu_scheduler::{
    Access, AccessMode, Event, MemoryRef, Queue, QueueOptions, RawArgument, Region, Request,
    Result, UserEvent,
};
use std::ops::Range;
use std::sync::{Arc, Mutex};

cases! {
    Anything:
        halves_of_a_matrix_do_not_wait_for_each_other,
        a_failure_reaches_no_other_rows,
        rectangles_from_many_threads;
}

/// Bytes of a row of the matrix, and rows.
const PITCH: u64 = 24;
const HEIGHT: u64 = 16;

#[derive(Clone, Debug)]
struct Rectangle {
    rows: Range<u64>,
    columns: Range<u64>,
}

impl Rectangle {
    fn width(&self) -> u64 {
        self.columns.end - self.columns.start
    }

    fn height(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    fn start(&self) -> u64 {
        self.rows.start * PITCH + self.columns.start
    }

    fn access<'a>(&self, memory: &'a MemoryRef, mode: AccessMode) -> Access<'a> {
        let length = (self.height() - 1) * PITCH + self.width();
        part(memory, self.start()..self.start() + length, mode)
    }

    fn region(&self) -> Region {
        Region::new(self.start(), self.width(), [(self.height(), PITCH)])
    }

    fn step(&self) -> Step {
        Step {
            count: self.height(),
            source_stride: PITCH,
            destination_stride: PITCH,
        }
    }
}

/// A kernel's result for a byte. Two in another order give another byte.
fn changed(byte: u8, number: u8) -> u8 {
    byte.wrapping_mul(5).wrapping_add(number).rotate_left(3)
}

/// Changes each byte of its rows.
struct Change {
    width: u64,
    height: u64,
    number: u8,
    fails: bool,
}

impl NativeKernel for Change {
    fn name(&self) -> &'static str {
        "change rows"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> Result<()> {
        if self.fails {
            return Err(boom("as asked"));
        }
        for row in 0..self.height {
            for column in 0..self.width {
                let at = (row * PITCH + column) as usize;
                let old = load_byte(&arguments[0], at);
                store_byte(&arguments[0], at, changed(old, self.number));
            }
        }
        Ok(())
    }
}

fn change(
    queue: &Queue,
    memory: &MemoryRef,
    rectangle: &Rectangle,
    number: u8,
    waits: &[Event],
    fails: bool,
) -> Event {
    let region = rectangle.region();
    let regions = [(0, region)];
    let request = Request {
        accesses: &[rectangle.access(memory, AccessMode::ReadWrite)],
        regions: if regions[0].1.has_gaps() {
            &regions
        } else {
            &[]
        },
        waits,
        ..Request::default()
    };
    let kernel = Change {
        width: rectangle.width(),
        height: rectangle.height(),
        number,
        fails,
    };
    launch_native(queue, kernel, 1, &request).expect("a launch on rows")
}

fn halves() -> [Rectangle; 2] {
    [0..PITCH / 2, PITCH / 2..PITCH].map(|columns| Rectangle {
        rows: 0..HEIGHT,
        columns,
    })
}

fn halves_of_a_matrix_do_not_wait_for_each_other(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let [left, right] = halves();
    let matrix = stage.memory(PITCH * HEIGHT);
    write_all(&queue, &matrix, &[1; (PITCH * HEIGHT) as usize]);
    let gate = UserEvent::new();
    let of_left = left.access(&matrix, AccessMode::ReadWrite);
    let held = queue.fill_rows(of_left, &[5], left.width(), &[left.step()], &[gate.event()]);
    let held = held.unwrap();
    // Kernels, fills, reads and writes of the other half are over before.
    if queue.shared().driver().runs_native_code() {
        change(&queue, &matrix, &right, 2, &[], false)
            .wait()
            .unwrap();
    }
    let of_right = right.access(&matrix, AccessMode::ReadWrite);
    let steps = [right.step()];
    let fill = queue.fill_rows(of_right, &[7], right.width(), &steps, &[]);
    fill.unwrap().wait().unwrap();
    let host = HostBytes::new(&[9; (PITCH * HEIGHT) as usize]);
    let write = queue.write(host.memory(), of_right, right.width(), &steps, &[]);
    write.unwrap().wait().unwrap();
    let read = HostBytes::new(&[0; (PITCH * HEIGHT) as usize]);
    let reading = queue.read(of_right, read.memory(), right.width(), &steps, &[]);
    reading.unwrap().wait().unwrap();
    assert_eq!(read.bytes()[0], 9);
    assert!(!held.is_complete());
    gate.complete();
    held.wait().unwrap();
    let bytes = read_all(&queue, &matrix);
    for (at, byte) in (0_u64..).zip(bytes) {
        let is_left = at % PITCH < PITCH / 2;
        assert_eq!(byte, if is_left { 5 } else { 9 }, "byte {at}");
    }
}

fn a_failure_reaches_no_other_rows(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    if !queue.shared().driver().runs_native_code() {
        // There it is a host task, which has all that is between its rows.
        return;
    }
    let [left, right] = halves();
    let matrix = stage.memory(PITCH * HEIGHT);
    write_all(&queue, &matrix, &[1; (PITCH * HEIGHT) as usize]);
    let gate = UserEvent::new();
    let failing = change(&queue, &matrix, &left, 1, &[gate.event()], true);
    let before = change(&queue, &matrix, &right, 2, &[], false);
    gate.complete();
    assert!(failing.wait().is_err());
    before.wait().unwrap();
    change(&queue, &matrix, &right, 3, &[], false)
        .wait()
        .unwrap();
    assert!(
        change(&queue, &matrix, &left, 4, &[], false)
            .wait()
            .is_err()
    );
    let row = read_range(&queue, &matrix, PITCH / 2..PITCH).unwrap();
    assert!(row.iter().all(|byte| *byte == changed(changed(1, 2), 3)));
    assert!(read_range(&queue, &matrix, 0..PITCH).is_err());
}

/// A thread's command, and what the model does of it.
struct Done {
    rectangle: Rectangle,
    number: u8,
}

/// Several threads change rectangles of one matrix, each on a queue of its own. What is enqueued
/// first comes first, byte by byte.
fn rectangles_from_many_threads(fixture: &dyn Fixture) {
    const THREADS: u64 = 4;
    const EACH: u64 = 400;
    let stage = Stage::new(fixture);
    let matrix = stage.memory(PITCH * HEIGHT);
    let order: Arc<Mutex<Vec<Done>>> = Arc::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = thread as usize % stage.devices.len();
            let in_order = thread % 2 == 0;
            let queue = stage.queue_on(
                device,
                QueueOptions {
                    in_order,
                    ..OUT_OF_ORDER
                },
            );
            let (matrix, order) = (&matrix, order.clone());
            scope.spawn(move || {
                let mut state = thread + 1;
                let mut random = move |below: u64| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) % below
                };
                for _ in 0..EACH {
                    let [top, left] = [random(HEIGHT), random(PITCH)];
                    let rectangle = Rectangle {
                        rows: top..top + 1 + random(HEIGHT - top),
                        columns: left..left + 1 + random(PITCH - left),
                    };
                    let number = random(256) as u8;
                    // Held so that the model knows the order.
                    let mut order = order.lock().unwrap();
                    change(&queue, matrix, &rectangle, number, &[], false);
                    order.push(Done { rectangle, number });
                }
                queue.wait().unwrap();
            });
        }
    });
    let mut expected = vec![0; (PITCH * HEIGHT) as usize];
    for Done { rectangle, number } in order.lock().unwrap().iter() {
        for row in rectangle.rows.clone() {
            for column in rectangle.columns.clone() {
                let byte = &mut expected[(row * PITCH + column) as usize];
                *byte = changed(*byte, *number);
            }
        }
    }
    assert_eq!(read_all(&stage.in_order(), &matrix), expected);
}

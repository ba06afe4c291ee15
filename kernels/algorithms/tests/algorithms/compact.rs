//! Compaction.

use crate::printed::{compare, run_printed};
use crate::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{count_kept, write_kept};
use quipu_algorithms::{Function, compact};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Divides {
    by: u32,
}

#[device]
impl Function<u32, bool> for Divides {
    fn apply(self, x: u32) -> bool {
        x % self.by == 0
    }
}

#[test]
fn keeps_what_is_asked_for() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            for by in [1, 3, u32::MAX] {
                let x: Vec<u32> = numbers(length).map(|x| x + 1).collect();
                let from = buffer(context, &x);
                let mut y = buffer(context, &vec![9_u32; length]);
                let mut count = allocate(context, 1);
                compact(queue, Divides { by }, &from, &mut y, &mut count).unwrap();
                let mut model: Vec<u32> = x.into_iter().filter(|x| x % by == 0).collect();
                let kept = queue.read(&count).unwrap().wait().unwrap()[0];
                assert_eq!(kept, model.len() as u64);
                model.resize(length, 9);
                assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
            }
        }
    });
}

#[test]
fn leaves_out_what_has_no_place() {
    on_each_device(|context, queue| {
        let x: Vec<u32> = (0..50_000).collect();
        let from = buffer(context, &x);
        let (mut y, mut count) = (allocate::<u32>(context, 100), allocate(context, 1));
        compact(queue, Divides { by: 2 }, &from, &mut y, &mut count).unwrap();
        assert_eq!(queue.read(&count).unwrap().wait().unwrap(), [25_000]);
        let model: Vec<u32> = (0..100).map(|i| 2 * i).collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
    });
}

#[test]
fn prints() {
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let x: Vec<u32> = (0..100).collect();
    let before = [0_u64, 12, 24];
    let (from, offsets) = (buffer(&context, &x), buffer(&context, &before));
    let mut counts = allocate::<u64>(&context, 3);
    let (mut y, mut count) = (allocate::<u32>(&context, 40), allocate::<u64>(&context, 1));
    let division = WorkDivision::new(3, 1, 1).unwrap();
    let keep = Divides { by: 3 };
    let given = [Argument::uniform(3_u32), Argument::buffer(&x)];

    let module = count_kept(keep, &from, &mut counts).module().unwrap();
    queue
        .launch(division, count_kept(keep, &from, &mut counts))
        .unwrap();
    let mut arguments = given.to_vec();
    arguments.push(Argument::buffer(&[0_u64; 3]));
    run_printed(&module, &division, &arguments, &[], |launch| {
        let native = queue.read(&counts).unwrap().wait().unwrap();
        assert_eq!(native, [12, 11, 11]);
        compare(&native, &launch.elements(2));
    });

    let call = write_kept(keep, &from, &offsets, &mut y, &mut count);
    let module = call.module().unwrap();
    queue.launch(division, call).unwrap();
    let mut arguments = given.to_vec();
    arguments.extend([
        Argument::buffer(&before),
        Argument::buffer(&[0_u32; 40]),
        Argument::buffer(&[0_u64]),
    ]);
    run_printed(&module, &division, &arguments, &[], |launch| {
        let native = queue.read(&y).unwrap().wait().unwrap();
        compare(&native, &launch.elements(3));
        let native = queue.read(&count).unwrap().wait().unwrap();
        compare(&native, &launch.elements(4));
    });
}

//! Compaction.

use crate::tests::modes::{Given, Input, Output, Value, everywhere, run_without_fences};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::kernel::print;
use quipu::prelude::*;
use quipu_algorithms::kernels::{compact_neighbours, compact_tiles};
use quipu_algorithms::{Function, compact};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
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
fn keeps_the_same_in_every_mode() {
    let x: Vec<u32> = (0..500).map(|i| i * 7 % 301).collect();
    let model: Vec<u32> = x.iter().copied().filter(|x| x % 3 == 0).collect();
    for (threads, elements, places) in [(1, 64, 500), (4, 7, 500), (8, 9, 40)] {
        let tiles = x.len().div_ceil(threads * elements);
        let shared = threads as u64;
        let (.., y, count) = everywhere!(
            compact_tiles<u32, Divides>, WorkDivision::new(tiles, threads, elements), [shared, shared];
            keep = Value(Divides { by: 3 }),
            x = Input(x.clone()),
            states = Output(vec![0_u32; 2 * tiles + 1]),
            totals = Output(vec![0_u64; tiles]),
            prefixes = Output(vec![0_u64; tiles]),
            y = Output(vec![9_u32; places]),
            count = Output(vec![0_u64]),
        );
        let mut model = model.clone();
        assert_eq!(count.0, [model.len() as u64]);
        model.resize(places, 9);
        assert_eq!(y.0, model);

        let arguments = [
            Value(Divides { by: 3 }).argument(),
            Argument::buffer(&x),
            Argument::buffer(&vec![0_u32; 2 * tiles + 1]),
            Argument::buffer(&vec![0_u64; tiles]),
            Argument::buffer(&vec![0_u64; tiles]),
            Argument::buffer(&vec![9_u32; places]),
            Argument::buffer(&[0_u64]),
        ];
        let module = print::module::<compact_tiles<u32, Divides>, _>().unwrap();
        let division = [tiles, threads, elements];
        run_without_fences(&module, division, &arguments, &[shared; 2], |launch| {
            assert_eq!(launch.elements::<u32>(5), y.0);
            assert_eq!(launch.elements::<u64>(6), count.0);
        });
    }
}

#[test]
fn neighbours_keep_the_same_in_every_mode() {
    let x: Vec<u32> = (0..500).map(|i| i * 7 % 301).collect();
    let model: Vec<u32> = x.iter().copied().filter(|x| x % 3 == 0).collect();
    for (elements, places) in [(64, 500), (500, 500), (36, 40), (1000, 1)] {
        let tiles = x.len().div_ceil(elements);
        let (.., y, count) = everywhere!(
            compact_neighbours<u32, Divides>, WorkDivision::new(tiles, 1, elements), [];
            keep = Value(Divides { by: 3 }),
            x = Input(x.clone()),
            states = Output(vec![0_u32; 2 * tiles + 1]),
            totals = Output(vec![0_u64; tiles]),
            prefixes = Output(vec![0_u64; tiles]),
            y = Output(vec![9_u32; places]),
            count = Output(vec![0_u64]),
        );
        let mut model = model.clone();
        assert_eq!(count.0, [model.len() as u64]);
        model.resize(places, 9);
        assert_eq!(y.0, model);
    }
}

/// `keep` may answer otherwise when it is asked again. Places come from the totals that were found
/// first, and no tile writes to those of another.
#[test]
fn a_tile_has_the_places_that_others_leave_it() {
    let x: Vec<u32> = (1..=40).collect();
    // Of four tiles of ten elements one is said to have 3 kept ones, and one 12.
    let mut states = vec![0_u32; 9];
    (states[5], states[7]) = (1 + 3, 1 + 12);
    let parts = [
        (1..4).collect(),
        (11..31).collect(),
        vec![9, 9],
        (31..41).collect(),
    ];
    let model: Vec<u32> = parts.concat();
    // From the third ticket on blocks look back in vain, and total the tiles before themselves.
    for ticket in [0, 2] {
        states[0] = ticket;
        let (.., y, count) = everywhere!(
            compact_neighbours<u32, Divides>, WorkDivision::new(4, 1, 10), [];
            keep = Value(Divides { by: 1 }),
            x = Input(x.clone()),
            states = Output(states.clone()),
            totals = Output(vec![0_u64; 4]),
            prefixes = Output(vec![0_u64; 4]),
            y = Output(vec![9_u32; 35]),
            count = Output(vec![0_u64]),
        );
        assert_eq!((y.0, count.0), (model.clone(), vec![35]));
        let (.., y, count) = everywhere!(
            compact_tiles<u32, Divides>, WorkDivision::new(4, 2, 5), [2, 2];
            keep = Value(Divides { by: 1 }),
            x = Input(x.clone()),
            states = Output(states.clone()),
            totals = Output(vec![0_u64; 4]),
            prefixes = Output(vec![0_u64; 4]),
            y = Output(vec![9_u32; 35]),
            count = Output(vec![0_u64]),
        );
        assert_eq!((y.0, count.0), (model.clone(), vec![35]));
    }
}

//! Scans.

use crate::tests::modes::{Input, Output, compare, everywhere, prepare, run_without_fences};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::kernel::print;
use quipu::kernels::{BlockScratch, GroupKernel, RunOptions};
use quipu::prelude::*;
use quipu_algorithms::kernels::{scan_neighbours, scan_tiles};
use quipu_algorithms::{Item, Maximum, Operator, Sum, exclusive_scan, inclusive_scan};
use quipu_kernel_testing::Argument;

/// `x -> a x + b` modulo 2^32, one after the other: associative, not commutative.
#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Then {
    nothing: u32,
}

#[device]
impl Operator<[u32; 2]> for Then {
    fn identity() -> [u32; 2] {
        [1, 0]
    }
    fn combine(left: [u32; 2], right: [u32; 2]) -> [u32; 2] {
        [
            left[0].wrapping_mul(right[0]),
            left[1].wrapping_mul(right[0]).wrapping_add(right[1]),
        ]
    }
}

#[test]
fn scans_sums() {
    on_each_device(|context, queue| {
        for length in LENGTHS.into_iter().chain([400_009]) {
            let x: Vec<u64> = numbers(length).map(u64::from).collect();
            let from = buffer(context, &x);
            let mut y = allocate::<u64>(context, length);
            let mut sum = 0;
            let model: Vec<(u64, u64)> = x
                .iter()
                .map(|x| {
                    let before = sum;
                    sum += x;
                    (before, sum)
                })
                .collect();
            exclusive_scan::<Sum, _>(queue, &from, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            assert!(read.iter().eq(model.iter().map(|(before, _)| before)));
            inclusive_scan::<Sum, _>(queue, &from, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            assert!(read.iter().eq(model.iter().map(|(_, with)| with)));
        }
    });
}

#[test]
fn scans_maxima_of_floats() {
    on_each_device(|context, queue| {
        let x: Vec<f32> = numbers(20_001).map(|x| x as f32 * -0.5).collect();
        let from = buffer(context, &x);
        let mut y = allocate(context, x.len());
        inclusive_scan::<Maximum, _>(queue, &from, &mut y).unwrap();
        let mut most = f32::MIN;
        let model: Vec<f32> = x
            .iter()
            .map(|&x| {
                most = most.max(x);
                most
            })
            .collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
    });
}

#[test]
fn keeps_the_order() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<[u32; 2]> = numbers(length).map(|x| [x | 1, x >> 3]).collect();
            let from = buffer(context, &x);
            let mut y = allocate(context, x.len());
            inclusive_scan::<Then, _>(queue, &from, &mut y).unwrap();
            let mut total = Then::identity();
            let model: Vec<[u32; 2]> = x
                .iter()
                .map(|&x| {
                    total = Then::combine(total, x);
                    total
                })
                .collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn refuses_other_lengths() {
    on_each_device(|context, queue| {
        let x = allocate::<u32>(context, 3);
        let mut y = allocate(context, 2);
        assert!(exclusive_scan::<Sum, _>(queue, &x, &mut y).is_err());
    });
}

/// A scan in tiles of `threads` threads of `elements` elements, in every mode.
fn everywhere_in_tiles<O, T, const INCLUSIVE: bool>(
    x: &[T],
    threads: usize,
    elements: usize,
    zero: T,
) -> Vec<T>
where
    T: Item + bytemuck::NoUninit + bytemuck::AnyBitPattern,
    O: Operator<T> + KernelData,
{
    let length = x.len();
    let tiles = length.div_ceil(threads * elements);
    let division = WorkDivision::new(tiles, threads, elements);
    let shared = threads as u64;
    let (.., y) = everywhere!(
        scan_tiles<T, O, INCLUSIVE>, division, [shared, shared];
        x = Input(x.to_vec()),
        states = Output(vec![0_u32; tiles + 1]),
        totals = Output(vec![zero; tiles]),
        prefixes = Output(vec![zero; tiles]),
        y = Output(vec![zero; length]),
    );
    y.0
}

#[test]
fn gives_the_same_bits_without_fences() {
    let x: Vec<f32> = numbers(1003).map(|x| x as f32 * 0.1).collect();
    for (threads, elements) in [(1, 64), (4, 7), (8, 200)] {
        let tiles = x.len().div_ceil(threads * elements);
        let with = everywhere_in_tiles::<Sum, f32, true>(&x, threads, elements, 0.0);
        let zeros = Argument::buffer(&vec![0.0_f32; tiles]);
        let arguments = [
            Argument::buffer(&x),
            Argument::buffer(&vec![0_u32; tiles + 1]),
            zeros.clone(),
            zeros,
            Argument::buffer(&vec![0.0_f32; x.len()]),
        ];
        let module = print::module::<scan_tiles<f32, Sum, true>, _>().unwrap();
        let shared = [threads as u64; 2];
        let division = [tiles, threads, elements];
        run_without_fences(&module, division, &arguments, &shared, |launch| {
            compare(&with, &launch.elements::<f32>(4));
        });
    }
}

#[test]
fn gives_the_same_bits_in_every_mode() {
    let x: Vec<f32> = numbers(1003).map(|x| x as f32 * 0.1).collect();
    for (threads, elements) in [(1, 64), (4, 7), (32, 3), (8, 200)] {
        everywhere_in_tiles::<Sum, f32, true>(&x, threads, elements, 0.0);
    }
    let before = everywhere_in_tiles::<Sum, f32, false>(&x, 4, 7, 0.0);
    assert_eq!(before[..2], [0.0, x[0]]);
}

#[test]
fn keeps_the_order_in_every_mode() {
    let x: Vec<[u32; 2]> = numbers(301).map(|x| [x | 1, x >> 3]).collect();
    let mut total = Then::identity();
    let (before, with): (Vec<_>, Vec<_>) = x
        .iter()
        .map(|&x| {
            let before = total;
            total = Then::combine(total, x);
            (before, total)
        })
        .unzip();
    let y = everywhere_in_tiles::<Then, [u32; 2], true>(&x, 4, 5, [0; 2]);
    assert_eq!(y, with);
    let y = everywhere_in_tiles::<Then, [u32; 2], false>(&x, 4, 5, [0; 2]);
    assert_eq!(y, before);
}

/// A scan in tiles of one thread, in every mode.
fn everywhere_in_neighbours<O, T, const INCLUSIVE: bool>(
    x: &[T],
    elements: usize,
    zero: T,
) -> Vec<T>
where
    T: Item + bytemuck::NoUninit + bytemuck::AnyBitPattern,
    O: Operator<T> + KernelData,
{
    let length = x.len();
    let tiles = length.div_ceil(elements);
    let division = WorkDivision::new(tiles, 1, elements);
    let (.., y) = everywhere!(
        scan_neighbours<T, O, INCLUSIVE>, division, [];
        x = Input(x.to_vec()),
        states = Output(vec![0_u32; tiles + 1]),
        totals = Output(vec![zero; tiles]),
        prefixes = Output(vec![zero; tiles]),
        y = Output(vec![zero; length]),
    );
    y.0
}

#[test]
fn neighbours_give_the_same_bits_in_every_mode() {
    // The last tile has one element, fewer than the others, and a tenth of them.
    for (length, elements) in [(301, 100), (17_000, 8_320), (21_000, 10_000)] {
        let x: Vec<f32> = numbers(length).map(|x| x as f32 * 0.1).collect();
        let with = everywhere_in_neighbours::<Sum, f32, true>(&x, elements, 0.0);
        let before = everywhere_in_neighbours::<Sum, f32, false>(&x, elements, 0.0);
        assert_eq!(before[0], 0.0);
        assert_eq!(with[0], x[0]);
    }
}

#[test]
fn neighbours_keep_the_order_in_every_mode() {
    let x: Vec<[u32; 2]> = numbers(25_000).map(|x| [x | 1, x >> 3]).collect();
    let mut total = Then::identity();
    let (before, with): (Vec<_>, Vec<_>) = x
        .iter()
        .map(|&x| {
            let before = total;
            total = Then::combine(total, x);
            (before, total)
        })
        .unzip();
    assert_eq!(
        everywhere_in_neighbours::<Then, _, true>(&x, 8_320, [0; 2]),
        with
    );
    assert_eq!(
        everywhere_in_neighbours::<Then, _, false>(&x, 12_000, [0; 2]),
        before
    );
}

/// A tile of one thread whose predecessors never say anything.
#[test]
fn neighbours_end_without_their_predecessors() {
    let x: Vec<f32> = numbers(40_000).map(|x| x as f32 * 0.1).collect();
    let division = WorkDivision::new(4, 1, 10_000).unwrap();
    let run = |taken: u32, groups: u64| {
        let mut states = [0_u32; 5];
        states[0] = taken;
        let (mut totals, mut prefixes) = (vec![0.0; 4], vec![0.0; 4]);
        let mut y = vec![0.0; x.len()];
        let arguments = (
            &x[..],
            &mut states[..],
            &mut totals[..],
            &mut prefixes[..],
            &mut y[..],
        );
        let launch = prepare::<scan_neighbours<f32, Sum, true>, _, _>(arguments, division);
        let mut scratch = BlockScratch::with_options(RunOptions::new());
        // SAFETY: nobody else runs its groups, and the memory is borrowed by the launch.
        unsafe { launch.run_groups(0..groups, &mut scratch) }.unwrap();
        drop(launch);
        y
    };
    let (late, all) = (run(3, 1), run(0, 4));
    compare(&late[30_000..], &all[30_000..]);
    assert!(late[..30_000].iter().all(|y| *y == 0.0));
}

#[test]
fn floats_come_to_the_same_whoever_is_first() {
    on_each_device(|context, queue| {
        let x: Vec<f32> = numbers(300_007).map(|x| x as f32 * 0.1).collect();
        let from = buffer(context, &x);
        let scanned = || {
            let mut y = allocate::<f32>(context, x.len());
            inclusive_scan::<Sum, _>(queue, &from, &mut y).unwrap();
            queue.read(&y).unwrap().wait().unwrap()
        };
        let first = scanned();
        for _ in 0..20 {
            compare(&scanned(), &first);
        }
    });
}

/// Blocks whose predecessors say nothing, or not all that there is to be said: what they need of
/// them they compute themselves.
#[test]
fn ends_without_its_predecessors() {
    const TILES: usize = 24;
    let x: Vec<f64> = numbers(100 * TILES).map(|x| f64::from(x) * 0.1).collect();
    let division = WorkDivision::new(TILES, 2, 50).unwrap();
    let run = |states: &mut [u32], groups: u64, totals: &mut [f64], prefixes: &mut [f64]| {
        let mut y = vec![0.0; x.len()];
        let arguments = (&x[..], states, totals, prefixes, &mut y[..]);
        let launch = prepare::<scan_tiles<f64, Sum, false>, _, _>(arguments, division);
        let mut scratch = BlockScratch::with_options(RunOptions::new());
        // SAFETY: nobody else runs its groups, and the memory is borrowed by the launch.
        unsafe { launch.run_groups(0..groups, &mut scratch) }.unwrap();
        drop(launch);
        y
    };
    let mut all_states = [0; TILES + 1];
    let (mut totals, mut prefixes) = ([0.0; TILES], [0.0; TILES]);
    let all = run(&mut all_states, TILES as u64, &mut totals, &mut prefixes);
    let [total, prefix] = [1, 2];
    assert_eq!(
        all_states,
        [&[TILES as u32][..], &[prefix; TILES]].concat()[..]
    );

    // As if tiles 0 to 19 had been taken by blocks that failed: at once, after their totals, or
    // after their prefixes. Of some predecessors several times as many as are looked at together
    // are in between.
    let nothing = [0; 20];
    let mut totals_alone = [total; 20];
    let mut some_prefixes = totals_alone;
    some_prefixes[..3].fill(prefix);
    let mut with_gaps = some_prefixes;
    [with_gaps[9], with_gaps[15]] = [0, 0];
    totals_alone[0] = 0;
    for known in [nothing, totals_alone, some_prefixes, with_gaps] {
        let mut states = [0; TILES + 1];
        states[0] = 20;
        states[1..21].copy_from_slice(&known);
        let (mut totals, mut prefixes) = (totals, prefixes);
        for tile in 0..TILES {
            let known = states[tile + 1];
            // What is not said to be known must not be read.
            if known < total {
                totals[tile] = f64::NAN;
            }
            if known < prefix {
                prefixes[tile] = f64::NAN;
            }
        }
        let late = run(&mut states, 4, &mut totals, &mut prefixes);
        compare(&late[2000..], &all[2000..]);
        assert_eq!(late[..2000], [0.0; 2000]);
    }
}

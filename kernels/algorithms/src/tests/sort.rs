//! Sorts, against the stable sort of std.

use crate::tests::modes::{Index, Input, Output, Value, compare, everywhere};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{
    choose_sides, count_digits, merge_runs, move_digits, move_digits_in_lines, settle, sort_tiles,
};
use quipu_algorithms::{
    Ascending, Descending, Item, Order, RadixKey, merge_sort, merge_sort_by_key, radix_sort,
    radix_sort_by_key,
};
use std::cmp::Ordering;
use std::fmt::Debug;

/// By the last digit, so that many are equal and only a stable sort gives one result.
#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct LastDigit {
    base: u32,
}

#[device]
impl Order<u32> for LastDigit {
    fn precedes(self, left: u32, right: u32) -> bool {
        left % self.base < right % self.base
    }
}

/// Before everything, itself too: no order at all.
#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Always {
    nothing: u32,
}

#[device]
impl Order<u32> for Always {
    fn precedes(self, _left: u32, _right: u32) -> bool {
        self.nothing == 0
    }
}

/// Orders in which keys may already be, and lengths around the borders of runs, tiles and parts.
fn arrangements(length: usize) -> Vec<Vec<u32>> {
    let random: Vec<u32> = numbers(length).map(|x| x ^ (x << 11)).collect();
    let (mut sorted, mut reversed) = (random.clone(), random.clone());
    sorted.sort_unstable();
    reversed.sort_unstable_by(|a, b| b.cmp(a));
    let few = random.iter().map(|x| x % 3).collect();
    vec![random, sorted, reversed, few, vec![7; length]]
}

const MORE_LENGTHS: [usize; 6] = [7, 8, 9, 4096, 4097, 70_001];

fn lengths() -> impl Iterator<Item = usize> {
    LENGTHS.into_iter().chain(MORE_LENGTHS)
}

fn places(length: usize) -> Vec<u32> {
    (0..length as u32).collect()
}

/// Keys and values as std sorts them.
fn sorted_by_key<K: Copy>(keys: &[K], by: impl Fn(&K, &K) -> Ordering) -> (Vec<K>, Vec<u32>) {
    let mut pairs: Vec<(K, u32)> = keys.iter().copied().zip(0..).collect();
    pairs.sort_by(|a, b| by(&a.0, &b.0));
    pairs.into_iter().unzip()
}

fn radix_sorted<K: Item + RadixKey>(
    context: &Context,
    queue: &Queue,
    keys: &[K],
) -> (Vec<K>, Vec<u32>) {
    let (mut keys, mut values) = (buffer(context, keys), buffer(context, &places(keys.len())));
    radix_sort_by_key(queue, &mut keys, &mut values).unwrap();
    (
        queue.read(&keys).unwrap().wait().unwrap(),
        queue.read(&values).unwrap().wait().unwrap(),
    )
}

#[test]
fn radix_sorts_stably() {
    on_each_device(|context, queue| {
        for length in lengths() {
            for keys in arrangements(length) {
                let sorted = radix_sorted(context, queue, &keys);
                assert_eq!(sorted, sorted_by_key(&keys, u32::cmp), "{length}");
                let mut alone = buffer(context, &keys);
                radix_sort(queue, &mut alone).unwrap();
                let alone = queue.read(&alone).unwrap().wait().unwrap();
                assert_eq!(alone, sorted.0, "{length}");
            }
        }
    });
}

/// The beginnings of each part's elements of each value of the lowest byte, of so many parts.
fn places_of_digits(keys: &[u32], parts: usize) -> Vec<u64> {
    let mut counts = vec![0_u64; 256 * parts];
    let share = keys.len().div_ceil(parts);
    for (part, keys) in keys.chunks(share).enumerate() {
        for key in keys {
            counts[(key % 256) as usize * parts + part] += 1;
        }
    }
    let mut sum = 0;
    for count in &mut counts {
        sum += std::mem::replace(count, sum);
    }
    counts
}

#[test]
fn in_lines_all_comes_to_the_same_places() {
    on_each_device(|context, queue| {
        // One thread of a GPU is slow.
        for length in lengths().filter(|length| *length < 10_000) {
            for keys in arrangements(length) {
                let parts = 3;
                let division = WorkDivision::new(parts, 1, length.div_ceil(parts));
                let places_of_digits = buffer(context, &places_of_digits(&keys, parts));
                let sides = buffer(context, &[0, 1]);
                let mut from = buffer(context, &keys);
                let mut values = buffer(context, &places(length));
                let [mut to, mut to_values] =
                    [allocate(context, length), allocate(context, length)];
                let call = move_digits_in_lines(
                    0,
                    &sides,
                    &places_of_digits,
                    &mut from,
                    &mut to,
                    &mut values,
                    &mut to_values,
                );
                queue.launch(division, call).unwrap();
                let moved = [&to, &to_values].map(|read| queue.read(read).unwrap().wait().unwrap());
                let (_, order) = sorted_by_key(&keys, |a, b| (a % 256).cmp(&(b % 256)));
                let keys: Vec<u32> = order.iter().map(|i| keys[*i as usize]).collect();
                assert_eq!(moved, [keys, order], "{length}");
            }
        }
    });
}

/// Sorts by digits as the type orders its numbers.
fn radix_sorts_type<K: Item + RadixKey + PartialEq + Debug>(
    context: &Context,
    queue: &Queue,
    make: impl Fn(u64) -> K,
    special: &[K],
    by: impl Fn(&K, &K) -> Ordering,
) {
    let mut keys: Vec<K> = numbers(20_011)
        .map(|x| make(u64::from(x).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    for (at, special) in special.iter().enumerate() {
        keys[1 + at * 97] = *special;
    }
    let sorted = radix_sorted(context, queue, &keys);
    let model = sorted_by_key(&keys, by);
    compare(&sorted.0, &model.0);
    assert_eq!(sorted.1, model.1);
}

#[test]
fn radix_sorts_every_type_of_key() {
    on_each_device(|context, queue| {
        radix_sorts_type(context, queue, |x| x as u8, &[], u8::cmp);
        radix_sorts_type(context, queue, |x| x, &[0, u64::MAX], u64::cmp);
        radix_sorts_type(context, queue, |x| x as i16, &[-1, i16::MIN], i16::cmp);
        radix_sorts_type(context, queue, |x| x as i64, &[0, i64::MIN, -1], i64::cmp);
        let special = [
            f32::NAN,
            -f32::NAN,
            -0.0,
            0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0xff80_0001),
        ];
        let make = |x: u64| f32::from_bits(x as u32);
        radix_sorts_type(context, queue, make, &special, f32::total_cmp);
        let special = special.map(f64::from);
        radix_sorts_type(context, queue, f64::from_bits, &special, f64::total_cmp);
    });
}

/// Keys of every type: the integers by which they are sorted rise between neighbours in its order.
#[test]
fn integers_have_the_order_of_keys() {
    fn rises<K: RadixKey>(keys: &[K]) {
        let integers: Vec<u64> = keys.iter().map(|key| key.ordered()).collect();
        assert!(integers.is_sorted_by(|a, b| a < b), "{integers:?}");
        let end = integers.iter().max().unwrap();
        assert!(size_of::<K>() == 8 || end >> (8 * size_of::<K>()) == 0);
    }
    rises(&[0, 1, u8::MAX]);
    rises(&[0, 1, u16::MAX]);
    rises(&[0, 1, u32::MAX]);
    rises(&[0, 1, u64::MAX]);
    rises(&[i8::MIN, -1, 0, 1, i8::MAX]);
    rises(&[i16::MIN, -1, 0, 1, i16::MAX]);
    rises(&[i32::MIN, -1, 0, 1, i32::MAX]);
    rises(&[i64::MIN, -1, 0, 1, i64::MAX]);
    let (infinity, least) = (f32::INFINITY, f32::from_bits(1));
    rises(&[
        -f32::NAN,
        -infinity,
        -1.0,
        -least,
        -0.0,
        0.0,
        least,
        1.0,
        infinity,
        f32::NAN,
    ]);
    let (infinity, least) = (f64::INFINITY, f64::from_bits(1));
    rises(&[
        -f64::NAN,
        -infinity,
        -1.0,
        -least,
        -0.0,
        0.0,
        least,
        1.0,
        infinity,
        f64::NAN,
    ]);
}

/// Keys whose digits are the same everywhere but in some places.
#[test]
fn leaves_out_passes() {
    on_each_device(|context, queue| {
        for mask in [0, 0xff, 0xff00, 0xff_0000, 0xff00_00ff, 0x00ff_ff00] {
            let keys: Vec<u32> = numbers(10_007)
                .map(|x| x.wrapping_mul(0x9e37_79b9) & mask | 0x0102_0304 & !mask)
                .collect();
            let sorted = radix_sorted(context, queue, &keys);
            assert_eq!(sorted, sorted_by_key(&keys, u32::cmp), "{mask:x}");
        }
    });
}

fn merge_sorted<K: Item, O: Order<K> + KernelData>(
    context: &Context,
    queue: &Queue,
    order: O,
    keys: &[K],
) -> (Vec<K>, Vec<u32>) {
    let (mut keys, mut values) = (buffer(context, keys), buffer(context, &places(keys.len())));
    merge_sort_by_key(queue, order, &mut keys, &mut values).unwrap();
    (
        queue.read(&keys).unwrap().wait().unwrap(),
        queue.read(&values).unwrap().wait().unwrap(),
    )
}

#[test]
fn merge_sorts_stably() {
    on_each_device(|context, queue| {
        for length in lengths() {
            for keys in arrangements(length) {
                let sorted = merge_sorted(context, queue, Ascending::default(), &keys);
                assert_eq!(sorted, sorted_by_key(&keys, u32::cmp), "{length}");
                let mut alone = buffer(context, &keys);
                merge_sort(queue, Ascending::default(), &mut alone).unwrap();
                let alone = queue.read(&alone).unwrap().wait().unwrap();
                assert_eq!(alone, sorted.0, "{length}");
                let sorted = merge_sorted(context, queue, LastDigit { base: 10 }, &keys);
                let model = sorted_by_key(&keys, |a, b| (a % 10).cmp(&(b % 10)));
                assert_eq!(sorted, model, "{length}");
            }
        }
    });
}

#[test]
fn merge_sorts_floats() {
    on_each_device(|context, queue| {
        let mut keys: Vec<f64> = numbers(30_011).map(|x| f64::from(x) - 1e7).collect();
        keys[5] = f64::INFINITY;
        keys[77] = -0.0;
        keys[78] = 0.0;
        let sorted = merge_sorted(context, queue, Ascending::default(), &keys);
        let model = sorted_by_key(&keys, |a, b| a.partial_cmp(b).unwrap());
        compare(&sorted.0, &model.0);
        assert_eq!(sorted.1, model.1);
    });
}

#[test]
fn merge_sorts_downwards() {
    on_each_device(|context, queue| {
        let x: Vec<i16> = numbers(9001).map(|x| x as i16).collect();
        let mut keys = buffer(context, &x);
        merge_sort(queue, Descending::default(), &mut keys).unwrap();
        let mut model = x;
        model.sort_by(|a, b| b.cmp(a));
        assert_eq!(queue.read(&keys).unwrap().wait().unwrap(), model);
    });
}

/// A comparison that is no order gives anything, but ends, without an error.
#[test]
fn ends_without_an_order() {
    on_each_device(|context, queue| {
        let keys: Vec<u32> = numbers(70_001).collect();
        let (sorted, _) = merge_sorted(context, queue, Always { nothing: 0 }, &keys);
        assert_eq!(sorted.len(), keys.len());
        let floats: Vec<f32> = numbers(70_001)
            .map(|x| if x % 3 == 0 { f32::NAN } else { x as f32 })
            .collect();
        let (sorted, _) = merge_sorted(context, queue, Ascending::default(), &floats);
        assert_eq!(sorted.len(), floats.len());
    });
}

#[test]
fn refuses_other_lengths() {
    on_each_device(|context, queue| {
        let (mut keys, mut values) = (allocate::<u32>(context, 3), allocate::<u8>(context, 4));
        assert!(radix_sort_by_key(queue, &mut keys, &mut values).is_err());
        assert!(merge_sort_by_key(queue, Ascending::default(), &mut keys, &mut values).is_err());
    });
}

#[test]
fn radix_sorts_the_same_in_every_mode() {
    let keys: Vec<f32> = numbers(99).map(|x| x as f32 * 0.5 - 1e5).collect();
    let division = WorkDivision::new(2, 3, 20);
    let threads = 6;
    for (pass, sides) in [(0, [0_u32; 5]), (2, [0, 1, 1, 0, 1])] {
        let (.., counts, differing) = everywhere!(
            count_digits<f32>, division, [];
            pass = Value(pass), sides = Input(sides.to_vec()),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            counts = Output(vec![0_u64; 256 * threads]), differing = Output(vec![0_u64; threads]),
        );
        assert_eq!(counts.0.iter().sum::<u64>(), 99);
        assert_eq!(differing.0[0] > 0, pass == 0);
        let mut sum = 0;
        let before = |count: &u64| {
            sum += count;
            sum - count
        };
        let places: Vec<u64> = counts.0.iter().map(before).collect();
        let (.., with, other_with, _, _) = everywhere!(
            move_digits<f32, u16, true>, division, [];
            pass = Value(pass), sides = Input(vec![0, 1, 1, 0, 1]),
            places = Input(places.clone()),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            values = Output((0..99_u16).collect()), other_values = Output(vec![0_u16; 99]),
        );
        let (.., in_lines, other_in_lines, _, _) = everywhere!(
            move_digits_in_lines<f32, u16>, division, [];
            pass = Value(pass), sides = Input(vec![0, 1, 1, 0, 1]),
            places = Input(places.clone()),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            values = Output((0..99_u16).collect()), other_values = Output(vec![0_u16; 99]),
        );
        assert_eq!(
            (in_lines.0, other_in_lines.0),
            (with.0.clone(), other_with.0.clone())
        );
        // Without values what stands for them stays as it is.
        let (.., without, other_without, values, other_values) = everywhere!(
            move_digits<f32, u8, false>, division, [];
            pass = Value(pass), sides = Input(vec![0, 1, 1, 0, 1]),
            places = Input(places),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            values = Output(vec![3_u8]), other_values = Output(vec![5_u8]),
        );
        assert_eq!((without.0, other_without.0), (with.0, other_with.0));
        assert_eq!((values.0, other_values.0), (vec![3], vec![5]));
    }
    let own = vec![-1.0_f32; 99];
    for (side, expected) in [(0, &own), (1, &keys)] {
        let (.., settled) = everywhere!(
            settle<f32>, division, [];
            sides = Input(vec![0_u32, 1 - side, side]), other = Input(keys.clone()), y = Output(own.clone()),
        );
        assert_eq!(settled.0, *expected);
    }
    let (_, sides) = everywhere!(
        choose_sides, WorkDivision::new(1, 1, 1), [];
        differing = Input(vec![0x0100_u64, 0, 0xff00_0000]), sides = Output(vec![9_u32; 5]),
    );
    assert_eq!(sides.0, [0, 0, 1, 1, 0]);
}

#[test]
fn merge_sorts_the_same_in_every_mode() {
    let keys: Vec<u32> = numbers(99).collect();
    let order = LastDigit { base: 50 };
    for (moves, tile) in [(false, 16), (false, 32), (true, 16), (true, 32)] {
        let (.., first, second, _, _) = everywhere!(
            sort_tiles<u32, u16, LastDigit, true>, WorkDivision::new(1, 3, 40), [];
            order = Value(order), moves = Value(moves), tile = Index(tile),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            values = Output((0..99_u16).collect()), other_values = Output(vec![0_u16; 99]),
        );
        let (.., first_alone, second_alone, values, other_values) = everywhere!(
            sort_tiles<u32, u8, LastDigit, false>, WorkDivision::new(1, 3, 40), [];
            order = Value(order), moves = Value(moves), tile = Index(tile),
            keys = Output(keys.clone()), other = Output(keys.clone()),
            values = Output(vec![3_u8]), other_values = Output(vec![5_u8]),
        );
        assert_eq!((&first_alone.0, &second_alone.0), (&first.0, &second.0));
        assert_eq!((values.0, other_values.0), (vec![3], vec![5]));
        let sorted = if moves == (tile == 32) { first } else { second };
        for (tile, keys) in sorted.0.chunks(tile).zip(keys.chunks(tile)) {
            assert_eq!(tile, sorted_by_key(keys, |a, b| (a % 50).cmp(&(b % 50))).0);
        }
        let (.., with, _, _) = everywhere!(
            merge_runs<u32, u16, LastDigit, true>, WorkDivision::new(2, 3, 20), [];
            order = Value(order), width = Index(tile),
            keys = Output(sorted.0.clone()), to = Output(vec![0_u32; 99]),
            values = Output((0..99_u16).collect()), to_values = Output(vec![0_u16; 99]),
        );
        let (.., without, values, to_values) = everywhere!(
            merge_runs<u32, u8, LastDigit, false>, WorkDivision::new(2, 3, 20), [];
            order = Value(order), width = Index(tile),
            keys = Output(sorted.0), to = Output(vec![0_u32; 99]),
            values = Output(vec![3_u8]), to_values = Output(vec![5_u8]),
        );
        assert_eq!(without.0, with.0);
        assert_eq!((values.0, to_values.0), (vec![3], vec![5]));
    }
}

//! Radix sort: by one digit of the key after the other, the least significant first.
//!
//! A digit is a byte. The elements are in *parts* of neighbours, one for each thread, and each pass
//! goes so:
//!
//! 1. Each part counts how often it has each digit.
//! 2. The counts are scanned, digit by digit and part by part in each: that gives where each part's
//!    elements of each digit begin.
//! 3. Each part goes through its elements in order, and puts each to the next place of its digit.
//!    So elements of the same digit stay in their order.
//!
//! A pass moves the elements from one buffer to another. One whose digit is the same everywhere is
//! left out: the first count also finds the bits that differ, and the passes that are left out are
//! noted in `sides`, on the device. So the host need not know; and where the elements are in the
//! wrong buffer at the end, they are copied.

use crate::division::{BLOCKS_PER_CORE, parts, same_length, threads};
use crate::function::{Item, Sum};
use crate::key::RadixKey;
use crate::scan::exclusive_scan;
use quipu::kernels::{Accelerator, Grid, OwnBlock, OwnElements, RawMut, Threads, device, kernel};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Values of a digit.
const DIGITS: usize = 256;
/// Bits of a digit.
const BITS: u32 = 8;
/// Threads of a block, of which each has a table of all digits.
const MOST_THREADS: usize = 32;
/// Places that are written at once where elements are gathered.
const LINE: usize = 32;
/// Bytes of a key and its value, of which so many lines fit on a thread's stack.
const MOST_GATHERED: usize = 16;
/// Bytes that are more than caches have.
const BEYOND_CACHES: usize = 32 << 20;

/// A digit of a key.
#[device]
fn digit<K: RadixKey>(key: K, pass: u32) -> usize {
    (key.ordered() >> (pass * BITS)) as usize % DIGITS
}

/// The part of `length` elements that is this thread's: where it starts and ends.
#[device]
fn own_part(acc: &impl Accelerator<1>, length: usize) -> (usize, usize) {
    let share = length.div_ceil(acc.extent(Grid, Threads)[0]);
    let start = (acc.index(Grid, Threads)[0] * share).min(length);
    (start, (start + share).min(length))
}

/// Counts the digits from `start` to `end`, and gives the bits in which keys differ from the first
/// one, in pass 0.
#[device]
fn count_part<K: RadixKey>(
    pass: u32,
    keys: RawMut<K>,
    start: usize,
    end: usize,
    counts: &mut [u64; DIGITS],
) -> u64 {
    // SAFETY: nobody writes keys while they are counted.
    let own = unsafe { keys.slice(start..end) };
    let mut differing = 0;
    if pass == 0 && start < end {
        // SAFETY: as above.
        let first = unsafe { keys.read(0) }.ordered();
        for key in own {
            differing |= key.ordered() ^ first;
            counts[digit(*key, 0)] += 1;
        }
    } else {
        for key in own {
            counts[digit(*key, pass)] += 1;
        }
    }
    differing
}

/// Counts each thread's digits of a pass: those of value `d` of thread `t` of `n` in
/// `counts[d * n + t]`. In pass 0 also the bits in which its keys differ from the first one.
#[kernel]
pub fn count_digits<K: RadixKey>(
    acc: &impl Accelerator<1>,
    pass: u32,
    sides: &[u32],
    keys: RawMut<K>,
    other_keys: RawMut<K>,
    counts: RawMut<u64>,
    differing: RawMut<u64>,
) {
    let side = sides[pass as usize];
    if pass > 0 && side == sides[pass as usize + 1] {
        return;
    }
    let thread = acc.index(Grid, Threads)[0];
    let threads = acc.extent(Grid, Threads)[0];
    let (start, end) = own_part(acc, keys.len());
    let mut own = [0; DIGITS];
    let from = if side == 0 { keys } else { other_keys };
    let bits = count_part(pass, from, start, end, &mut own);
    // SAFETY: these places are this thread's.
    unsafe {
        for digit in 0..DIGITS {
            counts.write(digit * threads + thread, own[digit]);
        }
        if pass == 0 {
            differing.write(thread, bits);
        }
    }
}

/// Says for each pass on which side the elements are before it: on the other one after each pass
/// whose digit is not the same everywhere. One thread.
#[kernel]
pub fn choose_sides(_acc: &impl Accelerator<1>, differing: &[u64], sides: OwnBlock<u32>) {
    let mut bits = 0;
    for part in differing {
        bits |= *part;
    }
    let mut side = 0;
    for (pass, chosen) in sides.iter_mut().enumerate() {
        *chosen = side;
        // Behind the last pass there may be no more bits to shift.
        if pass < 8 && (bits >> (pass as u32 * BITS)) & 0xff != 0 {
            side = 1 - side;
        }
    }
}

/// Moves the elements from `start` to `end`, each to the next of its digit's places.
#[device]
fn move_part<K: RadixKey, V: Copy, const VALUES: bool>(
    pass: u32,
    start: usize,
    end: usize,
    places: &mut [u64; DIGITS],
    from: RawMut<K>,
    to: RawMut<K>,
    from_values: RawMut<V>,
    to_values: RawMut<V>,
) {
    // SAFETY: places of different parts and digits are apart, and the source of the move is not
    // written.
    unsafe {
        let own = from.slice(start..end);
        if VALUES {
            let own_values = from_values.slice(start..end);
            for (i, key) in own.iter().enumerate() {
                let digit = digit(*key, pass);
                let place = places[digit] as usize;
                places[digit] += 1;
                to.write(place, *key);
                to_values.write(place, own_values[i]);
            }
        } else {
            for key in own {
                let digit = digit(*key, pass);
                let place = places[digit] as usize;
                places[digit] += 1;
                to.write(place, *key);
            }
        }
    }
}

/// As [`move_part`], with values. The elements of a digit are gathered at hand until they are a
/// line of places, which is written at once. One by one they would go to as many lines and pages as
/// there are digits, keys and values, and to each again long after the one before.
#[device]
fn move_part_in_lines<K: RadixKey, V: Copy>(
    pass: u32,
    start: usize,
    end: usize,
    places: &mut [u64; DIGITS],
    from: RawMut<K>,
    to: RawMut<K>,
    from_values: RawMut<V>,
    to_values: RawMut<V>,
) {
    if start == end {
        return;
    }
    // SAFETY: the source of the move is not written.
    let own = unsafe { from.slice(start..end) };
    // SAFETY: as above.
    let own_values = unsafe { from_values.slice(start..end) };
    let first = *places;
    let mut keys = [[own[0]; LINE]; DIGITS];
    let mut values = [[own_values[0]; LINE]; DIGITS];
    for (i, key) in own.iter().enumerate() {
        let digit = digit(*key, pass);
        let place = places[digit] as usize;
        keys[digit][place % LINE] = *key;
        values[digit][place % LINE] = own_values[i];
        places[digit] += 1;
        if place % LINE == LINE - 1 {
            put_line(&keys[digit], first[digit], place + 1, to);
            put_line(&values[digit], first[digit], place + 1, to_values);
        }
    }
    for digit in 0..DIGITS {
        if places[digit] > first[digit] {
            let end = places[digit] as usize;
            put_line(&keys[digit], first[digit], end, to);
            put_line(&values[digit], first[digit], end, to_values);
        }
    }
}

/// Writes the elements gathered for the line of places before `end`, but for those before the
/// `first` of the part's digit.
#[device]
fn put_line<T: Copy>(gathered: &[T; LINE], first: u64, end: usize, to: RawMut<T>) {
    let start = (end - 1) / LINE * LINE;
    let first = first as usize;
    // SAFETY: places of different parts and digits are apart.
    unsafe {
        if end - start == LINE && first <= start {
            let line = to.slice_mut(start..start + LINE);
            for i in 0..LINE {
                line[i] = gathered[i];
            }
        } else {
            for place in start.max(first)..end {
                to.write(place, gathered[place % LINE]);
            }
        }
    }
}

/// The places at which this thread's elements of each digit begin.
#[device]
fn own_places(acc: &impl Accelerator<1>, places: &[u64]) -> [u64; DIGITS] {
    let thread = acc.index(Grid, Threads)[0];
    let threads = acc.extent(Grid, Threads)[0];
    let mut own = [0; DIGITS];
    for digit in 0..DIGITS {
        own[digit] = places[digit * threads + thread];
    }
    own
}

/// Moves each thread's elements to where `places`, the scanned counts of [`count_digits`], says;
/// the values too, if there are `VALUES`.
#[kernel]
pub(crate) fn move_digits<K: RadixKey, V, const VALUES: bool>(
    acc: &impl Accelerator<1>,
    pass: u32,
    sides: &[u32],
    places: &[u64],
    keys: RawMut<K>,
    other_keys: RawMut<K>,
    values: RawMut<V>,
    other_values: RawMut<V>,
) {
    let side = sides[pass as usize];
    if side == sides[pass as usize + 1] {
        return;
    }
    let (start, end) = own_part(acc, keys.len());
    let mut own = own_places(acc, places);
    let (from, to, from_values, to_values) = if side == 0 {
        (keys, other_keys, values, other_values)
    } else {
        (other_keys, keys, other_values, values)
    };
    move_part::<K, V, VALUES>(pass, start, end, &mut own, from, to, from_values, to_values);
}

/// As [`move_digits`], with values and in lines.
#[kernel]
pub(crate) fn move_digits_in_lines<K: RadixKey, V>(
    acc: &impl Accelerator<1>,
    pass: u32,
    sides: &[u32],
    places: &[u64],
    keys: RawMut<K>,
    other_keys: RawMut<K>,
    values: RawMut<V>,
    other_values: RawMut<V>,
) {
    let side = sides[pass as usize];
    if side == sides[pass as usize + 1] {
        return;
    }
    let (start, end) = own_part(acc, keys.len());
    let mut own = own_places(acc, places);
    let (from, to, from_values, to_values) = if side == 0 {
        (keys, other_keys, values, other_values)
    } else {
        (other_keys, keys, other_values, values)
    };
    move_part_in_lines(pass, start, end, &mut own, from, to, from_values, to_values);
}

/// Copies the elements from the other side, if they are there.
#[kernel]
pub fn settle<T>(_acc: &impl Accelerator<1>, sides: &[u32], other: &[T], mut y: OwnElements<T>) {
    if sides[sides.len() - 1] == 1 {
        for (position, row) in y.rows() {
            let from = &other[position[0]..position[0] + row.len()];
            for (i, y) in row.iter_mut().enumerate() {
                *y = from[i];
            }
        }
    }
}

/// Sorts, the smallest first: by the least significant digit first (Knuth, "The Art of Computer
/// Programming", 5.2.5).
///
/// Floats are sorted as [`RadixKey`] says, NaN too. The same bits on every device. Of a key of b
/// bytes b passes, of which each reads the keys twice and writes them once; passes whose digit is
/// the same everywhere are left out. Takes memory for as many keys again.
///
/// # Errors
/// As [`Queue::launch`].
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::radix_sort;
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let mut x = context.buffer(&[3.5, -1.0, f32::INFINITY, 0.0, -7.5])?;
/// radix_sort(&queue, &mut x)?;
/// assert_eq!(queue.read(&x)?.wait()?, [-7.5, -1.0, 0.0, 3.5, f32::INFINITY]);
/// # Ok(()) }
/// ```
pub fn radix_sort<K: Item + RadixKey>(queue: &Queue, keys: &mut Buffer<K>) -> Result<Event> {
    let (mut none, mut other_none) = (queue.allocate::<u8>(1)?, queue.allocate::<u8>(1)?);
    let mut other_keys = queue.allocate::<K>(keys.len())?;
    let sides = sort::<K, u8, false>(queue, keys, &mut other_keys, &mut none, &mut other_none)?;
    queue.launch(keys.len(), settle(&sides, &other_keys, keys))
}

/// Sorts keys as [`radix_sort`] does, and each value along with its key. Values of equal keys stay
/// in their order: it is stable.
///
/// # Errors
/// If there are not as many values as keys; as [`Queue::launch`].
pub fn radix_sort_by_key<K: Item + RadixKey, V: Item>(
    queue: &Queue,
    keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
) -> Result<Event> {
    same_length("sort by key", keys.len(), values.len())?;
    let mut other_keys = queue.allocate::<K>(keys.len())?;
    let mut other_values = queue.allocate::<V>(keys.len())?;
    let sides = sort::<K, V, true>(queue, keys, &mut other_keys, values, &mut other_values)?;
    queue.launch(keys.len(), settle(&sides, &other_keys, &mut *keys))?;
    queue.launch(values.len(), settle(&sides, &other_values, values))
}

/// Sorts from side to side, and gives where the elements are: on the side that the last element
/// says.
fn sort<K: Item + RadixKey, V: Item, const VALUES: bool>(
    queue: &Queue,
    keys: &mut Buffer<K>,
    other_keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
    other_values: &mut Buffer<V>,
) -> Result<Buffer<u32>> {
    let limits = queue.limits();
    let (blocks, threads) = (
        parts(keys.len(), limits, BLOCKS_PER_CORE),
        threads(limits).min(MOST_THREADS),
    );
    let share = keys.len().div_ceil(blocks * threads).max(1);
    let division = || WorkDivision::new(blocks, threads, share);
    let passes = size_of::<K>();
    let mut sides = queue.allocate::<u32>(passes + 1)?;
    queue.fill(&sides, 0)?;
    let mut differing = queue.allocate::<u64>(blocks * threads)?;
    let mut counts = queue.allocate::<u64>(DIGITS * blocks * threads)?;
    let mut places = queue.allocate::<u64>(DIGITS * blocks * threads)?;
    let moved = size_of::<K>() + size_of::<V>();
    let in_lines =
        VALUES && threads == 1 && moved <= MOST_GATHERED && 2 * moved * keys.len() > BEYOND_CACHES;
    for pass in 0..passes as u32 {
        queue.launch(
            division(),
            count_digits(
                pass,
                &sides,
                &mut *keys,
                &mut *other_keys,
                &mut counts,
                &mut differing,
            ),
        )?;
        if pass == 0 {
            let one = WorkDivision::new(1, 1, 1);
            queue.launch(one, choose_sides(&differing, sides.overwrite()))?;
        }
        exclusive_scan::<Sum, _>(queue, &counts, &mut places)?;
        let (keys, other_keys) = (&mut *keys, &mut *other_keys);
        let (values, other_values) = (&mut *values, &mut *other_values);
        if in_lines {
            queue.launch(
                division(),
                move_digits_in_lines(
                    pass,
                    &sides,
                    &places,
                    keys,
                    other_keys,
                    values,
                    other_values,
                ),
            )?;
        } else {
            queue.launch(
                division(),
                move_digits::<K, V, VALUES>(
                    pass,
                    &sides,
                    &places,
                    keys,
                    other_keys,
                    values,
                    other_values,
                ),
            )?;
        }
    }
    Ok(sides)
}

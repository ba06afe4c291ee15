//! Parts of the kernel language that only a device's own compiler can test: threads that exchange
//! values, and floats of 16 bits.

use super::{EachQueue, pool_of};
use quipu::kernels::{Float, Signed, bf16, f16};
use quipu::prelude::*;

/// The sum of each warp's values, how many are odd, whether all or any are, and the neighbour's
/// value.
#[kernel]
async fn exchange(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    warps: Atomics<u32>,
    mut y: OwnElements<u32>,
) {
    warps.max(2, acc.warp_size());
    let own = x[acc.index(Grid, Threads)[0]];
    let mut sum = own;
    let mut distance = acc.warp_size() / 2;
    while distance > 0 {
        sum += acc.warp_shuffle_xor(sum, distance).await;
        distance /= 2;
    }
    let odd = acc.warp_ballot(own % 2 == 1).await.count_ones();
    let any = acc.warp_any(own > 1000).await;
    let all = acc.warp_all(own < 5000).await;
    let active = acc.warp_active_mask().await.count_ones();
    let first = acc.warp_shuffle(own, 0).await;
    if acc.lane() == 0 {
        warps.add(0, 1);
        warps.add(1, active);
    }
    for (_, y) in y.each() {
        *y = (sum ^ (first << 16)) + odd + 1000 * any as u32 + 2000 * all as u32;
    }
}

pub(crate) fn threads_of_a_warp_exchange_values(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let sizes = &queue.device().properties().warp_sizes;
        let most = sizes.iter().copied().max().unwrap_or(32) as usize;
        let threads = (4 * most).min(queue.limits().block_thread_count);
        let blocks = 3;
        let x: Vec<u32> = (0..blocks * threads)
            .map(|i| (i * i % 1999) as u32)
            .collect();
        let buffer = context.buffer(&x).unwrap();
        let mut counts = context.buffer(&[0_u32; 3]).unwrap();
        let mut y = context.allocate::<u32>(x.len()).unwrap();
        let division = WorkDivision::new(blocks, threads, 1);
        let call = exchange(&buffer, &mut counts, y.overwrite());
        queue.launch(division, call).unwrap();
        let counts = queue.read(&counts).unwrap().wait().unwrap();
        // What the device says that they can be, if it says something.
        let size = counts[2];
        assert!(
            sizes.is_empty() || sizes.contains(&size),
            "{size} of {sizes:?}"
        );
        // In warps of one thread nothing would be exchanged.
        let has_more = sizes.is_empty() || sizes.iter().any(|size| *size > 1);
        assert_eq!(size > 1, has_more, "{size} of {sizes:?}");
        let size = size as usize;
        let name = queue.device().name();
        println!("{name}: warps of {size} threads");
        if size == 1 {
            eprintln!("\n*** NOT TESTED: exchanges in warps of '{name}', which have one thread.\n");
        }
        assert_eq!(threads % size, 0, "blocks of whole warps");
        let expected: Vec<u32> = x
            .chunks(size)
            .flat_map(|warp| {
                let sum: u32 = warp.iter().sum();
                let odd = warp.iter().filter(|x| **x % 2 == 1).count() as u32;
                let any = u32::from(warp.iter().any(|x| *x > 1000));
                let all = u32::from(warp.iter().all(|x| *x < 5000));
                let each = (sum ^ (warp[0] << 16)) + odd + 1000 * any + 2000 * all;
                std::iter::repeat_n(each, warp.len())
            })
            .collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), expected);
        assert_eq!(counts[..2], [(x.len() / size) as u32, x.len() as u32]);
    });
}

/// The faults that a pair of blocks can see of each other.
const SEEN: [&str; 2] = [
    "a flag before what was written before it",
    "neither of two writes",
];

/// Blocks in pairs, each of one thread. `x` and `y` have a place for each step of each pair, all
/// zero at first.
///
/// *Message passing*: the one block writes a step's number to `x`, and then to `y`; the other looks
/// at `y`, and then at `x`, which cannot be behind. *Store buffering*, in the second half of the
/// steps: each writes one and then reads the other, of which both cannot be as they were.
#[kernel]
fn litmus(
    acc: &impl Accelerator<1>,
    steps: u32,
    x: Atomics<u32>,
    y: Atomics<u32>,
    seen: Atomics<u32>,
    fails: Atomics<u32>,
) {
    if acc.has_device_fence() {
        let block = acc.index(Grid, Blocks)[0];
        let (first, is_second) = (block / 2 * steps as usize, block % 2 == 1);
        for i in 0..steps as usize / 2 {
            let at = first + i;
            if is_second {
                let flag = y.load(at);
                acc.fence_device();
                if x.load(at) < flag {
                    fails.add(0, 1);
                }
            } else {
                x.store(at, 1);
                acc.fence_device();
                y.store(at, 1);
            }
        }
        for i in steps as usize / 2..steps as usize {
            let at = first + i;
            // One more than is read, so that zero says that the other was not there yet.
            if is_second {
                x.store(at, 1);
                acc.fence_device();
                seen.add(at, 1 + 2 * y.load(at));
            } else {
                y.store(at, 1);
                acc.fence_device();
                seen.add(at, 4 + 8 * x.load(at));
            }
        }
    } else {
        fails.store(1, 1);
    }
}

pub(crate) fn a_fence_orders_what_blocks_do_to_memory(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let (pairs, steps, rounds) = (64_usize, 2048_u32, 8);
        let places = pairs * steps as usize;
        for _ in 0..rounds {
            let mut cells = [0; 3].map(|zero| context.buffer_from(vec![zero; places]).unwrap());
            let [x, y, seen] = &mut cells;
            let mut fails = context.buffer(&[0_u32; 2]).unwrap();
            let division = WorkDivision::new(2 * pairs, 1, 1);
            let event = queue.launch(division, litmus(steps, x, y, &mut *seen, &mut fails));
            event.unwrap().wait().unwrap();
            let fails = queue.read(&fails).unwrap().wait().unwrap();
            if fails[1] == 1 {
                assert!(!queue.device().has_device_fence());
                let name = queue.device().name();
                eprintln!("\n*** NOT TESTED: fences of '{name}', which has none for the device.\n");
                return;
            }
            assert!(queue.device().has_device_fence());
            assert_eq!(fails[0], 0, "{}", SEEN[0]);
            let seen = queue.read(seen).unwrap().wait().unwrap();
            // Both have written, and neither has seen the other's.
            let neither = seen.iter().filter(|seen| **seen == 1 + 4).count();
            assert_eq!(neither, 0, "{}", SEEN[1]);
            for (at, seen) in seen.iter().enumerate() {
                let is_second_half = at % steps as usize >= steps as usize / 2;
                assert_eq!(seen & 5, if is_second_half { 5 } else { 0 }, "{at}");
            }
        }
    });
}

#[kernel]
fn halves(
    _acc: &impl Accelerator<1>,
    a: &[f16],
    b: &[bf16],
    mut c: OwnElements<f16>,
    mut d: OwnElements<bf16>,
) {
    for (i, c) in c.each() {
        let next = a[(i * 7 + 3) % a.len()];
        let value = (a[i] * next + f16::ONE) / (next.abs() + f16::ONE) - a[i].mul_add(next, a[i]);
        *c = if value.is_nan() { f16::ZERO } else { value };
    }
    for (i, d) in d.each() {
        let next = b[(i * 5 + 1) % b.len()];
        let value = (b[i] * next + bf16::ONE).abs().sqrt() - b[i].min(next);
        *d = if value.is_nan() { bf16::ZERO } else { value };
    }
}

pub(crate) fn floats_of_16_bits_are_the_same_everywhere(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        // Every 13th of all there are: subnormal ones, infinities and those that overflow among
        // them.
        let all = (0..=u16::MAX).step_by(13);
        let a: Vec<f16> = all
            .clone()
            .map(f16::from_bits)
            .filter(|x| !x.is_nan())
            .collect();
        let b: Vec<bf16> = all.map(bf16::from_bits).filter(|x| !x.is_nan()).collect();
        let on = |queue: &Queue| {
            let (a, b) = (context.buffer(&a).unwrap(), context.buffer(&b).unwrap());
            let mut c = context.allocate::<f16>(a.len()).unwrap();
            let mut d = context.allocate::<bf16>(b.len()).unwrap();
            let call = halves(&a, &b, c.overwrite(), d.overwrite());
            // The outputs differ in length.
            let division = WorkDivision::for_elements(a.len().max(b.len()), queue.limits());
            queue.launch(division, call).unwrap();
            let c = queue.read(&c).unwrap().wait().unwrap();
            let d = queue.read(&d).unwrap().wait().unwrap();
            let c: Vec<u16> = c.into_iter().map(f16::to_bits).collect();
            let d: Vec<u16> = d.into_iter().map(bf16::to_bits).collect();
            (c, d)
        };
        assert_eq!(on(queue), on(&context.queue(&pool_of(context)).unwrap()));
    });
}

/// The number of each thread that has an element, and where across from it another one is.
#[kernel]
fn places<const D: usize>(
    acc: &impl Accelerator<D>,
    x: GlobalRef<u32, D>,
    mut y: OwnElements<u32, D>,
) {
    let threads = acc.extent(Grid, Threads);
    let thread = threads.number_of(acc.index(Grid, Threads)) as u32;
    let extent = y.extent();
    for (i, y) in y.each() {
        let mut across = extent.position_of(i);
        for d in 0..D {
            across[d] = extent[d] - 1 - across[d];
        }
        *y = x[across] * 1000 + thread;
    }
}

pub(crate) fn a_grid_has_more_dimensions_than_devices_have_axes(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let extent = [3, 8, 2, 6];
        let x = context.allocate_padded::<u32, 4>(extent).unwrap();
        let mut y = context.allocate_nd::<u32, 4>(extent).unwrap();
        let numbers: Vec<u32> = (0..3 * 8 * 2 * 6).collect();
        let dense = quipu::Layout::dense(extent).unwrap();
        let written = queue.write_nd(&x, numbers.clone(), &dense).unwrap();
        written.wait().unwrap();
        // Blocks and threads along all of those that have to share an axis.
        let division = WorkDivision::new([2, 2, 1, 2], [1, 2, 2, 3], [2, 1, 1, 1]);
        queue.launch(division, places(&x, &mut y)).unwrap();
        let read = queue.read_nd(&y).unwrap().wait().unwrap();
        let across = read.iter().map(|y| y / 1000);
        assert!(across.eq(numbers.iter().rev().copied()));
        // Which elements are whose is the device's choice.
        let threads: std::collections::BTreeSet<_> = read.iter().map(|y| y % 1000).collect();
        assert!(threads.into_iter().eq(0..2 * 4 * 2 * 6));

        // And as the device would have it.
        queue.launch(extent, places(&x, &mut y)).unwrap();
        let divided = queue.read_nd(&y).unwrap().wait().unwrap();
        let across = divided.iter().map(|y| y / 1000);
        assert!(across.eq(numbers.into_iter().rev()));
    });
}

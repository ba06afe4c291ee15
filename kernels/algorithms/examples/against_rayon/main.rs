//! Times algorithms against the same written by hand with rayon, one after the other, many times:
//! `cargo run --release -p quipu-algorithms --example against_rayon`, with part of a row's name for
//! some rows, and how many rounds there are at least.
//!
//! A ratio of 1 is equally fast, more is faster than what it is compared with. Rows that stream
//! have the rate at which they go through their data. Those of `… / bandwidth` are beside a loop of
//! as many reads and writes and of nothing else, which each thread runs over one part of the data:
//! the rate of the machine's memory for that mix.

#![allow(
    clippy::unwrap_used,
    clippy::manual_is_multiple_of,
    reason = "an example that measures; kernels have no `is_multiple_of`"
)]

mod by_hand;
mod guide;
mod timing;

use by_hand::PART;
use quipu::kernels::philox4x32;
use quipu::prelude::*;
use quipu_algorithms::*;
use rayon::prelude::*;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::process::ExitCode;
use timing::{Both, Table, after, run};

const LENGTH: usize = 1 << 24;
const BYTES: usize = 4 * LENGTH;
const SIDE: usize = 4096;

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Axpy {
    a: f32,
}

#[device]
impl Function2<f32, f32, f32> for Axpy {
    fn apply(self, x: f32, y: f32) -> f32 {
        self.a * x + y
    }
}

#[device]
impl Function<f32, f32> for Axpy {
    fn apply(self, x: f32) -> f32 {
        self.a * x + 1.0
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Bins {
    count: u32,
}

#[device]
impl Function<u32, bool> for Bins {
    fn apply(self, x: u32) -> bool {
        (x >> 7) % self.count == 0
    }
}

/// The highest byte.
#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Highest(());

#[device]
impl Function<u32, u32> for Highest {
    fn apply(self, x: u32) -> u32 {
        x >> 24
    }
}

/// Numbers without order.
fn random_words(length: usize) -> Vec<u32> {
    (0..length as u32 / 4)
        .flat_map(|i| philox4x32([i, 0, 0, 0], [1, 2]))
        .collect()
}

fn wait(done: quipu::Result<Event>) {
    done.and_then(|event| event.wait()).expect("it runs");
}

fn main() -> quipu::Result<ExitCode> {
    let (flags, arguments): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| *flag != "--gates") {
        eprintln!(
            "`{unknown}` is no option; there is `--gates`, to fail if a row is below its gate"
        );
        return Ok(ExitCode::from(2));
    }
    let mut arguments = arguments.into_iter();
    let table = Table::new(
        arguments.next().unwrap_or_default(),
        arguments
            .next()
            .map_or(25, |rounds| rounds.parse().unwrap()),
    );
    // Beside the same on the same cores, also where there is a GPU.
    let cpu = Platform::new()?.device("cpu")?;
    let context = Context::new(std::slice::from_ref(&cpu))?;
    let queue = context.queue(&cpu)?;
    streams(&table, &context, &queue)?;
    others(&table, &context, &queue)?;
    sorts(&table, &context, &queue)?;
    guide::loops(&table, &context, &queue)?;
    guide::blocks(&table, &context, &queue)?;
    bandwidths(&table, &context, &queue)?;
    products(&table, &context)?;
    let is_reached = table.print_missed();
    Ok(if is_reached || flags.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn streams(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    // So that all sums are exact, in any order.
    let a: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32 - 499.5).collect();
    let a = Both::new(table, context, &a)?;
    let b = Both::new(table, context, &vec![1.0_f32; LENGTH])?;
    let y = Both::new(table, context, &vec![0.0_f32; LENGTH])?;
    let mut sum = context.allocate::<f32>(1)?;
    let fill_by_hand = || {
        y.by_hand_mut()
            .par_chunks_mut(PART)
            .for_each(|y| y.fill(3.0));
    };
    let copy_by_hand = || {
        let (y, a) = (y.by_hand_mut(), a.by_hand());
        let parts = y.par_chunks_mut(PART).zip(a.par_chunks(PART));
        parts.for_each(|(y, a)| {
            for (y, a) in y.iter_mut().zip(a) {
                *y = black_box(2.0) * a;
            }
        });
    };
    let total_by_hand = Cell::new(0.0);
    let sum_by_hand = || {
        let total: f32 = a
            .by_hand()
            .par_chunks(PART)
            .map(|a| {
                let mut lanes = [0.0_f32; 64];
                for a in a.chunks_exact(64) {
                    for (lane, a) in lanes.iter_mut().zip(a) {
                        *lane += a;
                    }
                }
                lanes.iter().sum::<f32>()
            })
            .sum();
        total_by_hand.set(total);
    };
    table.row_into(
        &y,
        "fill",
        BYTES,
        run(|| wait(fill(queue, 3.0, &mut y.buffer()))),
        run(fill_by_hand),
    );
    table.row_into(
        &y,
        "queue.fill",
        BYTES,
        run(|| wait(queue.fill(&y.buffer(), 3.0))),
        run(fill_by_hand),
    );
    table.row_into(
        &y,
        "queue.copy",
        2 * BYTES,
        run(|| wait(queue.copy(&a.buffer(), &y.buffer()))),
        run(|| {
            let (y, a) = (y.by_hand_mut(), a.by_hand());
            let parts = y.par_chunks_mut(PART).zip(a.par_chunks(PART));
            parts.for_each(|(y, a)| y.copy_from_slice(a));
        }),
    );
    table.row_into(
        &y,
        "iota",
        BYTES,
        run(|| wait(iota(queue, 3.0, 0.5, &mut y.buffer()))),
        run(|| {
            let y = y.by_hand_mut();
            y.par_chunks_mut(PART).enumerate().for_each(|(part, y)| {
                for (i, y) in y.iter_mut().enumerate() {
                    *y = 3.0 + 0.5 * (part * PART + i) as f32;
                }
            });
        }),
    );
    table.row_into(
        &y,
        "transform (a x + 1)",
        2 * BYTES,
        run(|| {
            wait(transform(
                queue,
                Axpy { a: 2.0 },
                &a.buffer(),
                &mut y.buffer(),
            ));
        }),
        run(|| {
            let (y, a) = (y.by_hand_mut(), a.by_hand());
            let parts = y.par_chunks_mut(PART).zip(a.par_chunks(PART));
            parts.for_each(|(y, a)| {
                for (y, a) in y.iter_mut().zip(a) {
                    *y = 2.0 * a + 1.0;
                }
            });
        }),
    );
    table.row_into(
        &y,
        "zip (a x + y)",
        3 * BYTES,
        run(|| {
            let f = Axpy { a: 2.0 };
            wait(zip(queue, f, &a.buffer(), &b.buffer(), &mut y.buffer()));
        }),
        run(|| {
            let (y, a) = (y.by_hand_mut(), a.by_hand());
            let inputs = a.par_chunks(PART).zip(b.by_hand().par_chunks(PART));
            y.par_chunks_mut(PART).zip(inputs).for_each(|(y, (a, b))| {
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = 2.0 * a + b;
                }
            });
        }),
    );
    table.row(
        "reduce (sum)",
        BYTES,
        run(|| wait(reduce::<Sum, _>(queue, &a.buffer(), &mut sum))),
        run(sum_by_hand),
    );
    table.compare(
        "reduce (sum)",
        &queue.read(&sum)?.wait()?,
        &[total_by_hand.get()],
    );
    let inclusive = || {
        run(|| {
            wait(inclusive_scan::<Sum, _>(
                queue,
                &a.buffer(),
                &mut y.buffer(),
            ));
        })
    };
    table.row_into(
        &y,
        "inclusive scan",
        2 * BYTES,
        inclusive(),
        run(|| by_hand::scan::<true>(a.by_hand(), y.by_hand_mut())),
    );
    table.row(
        "inclusive scan / a loop",
        2 * BYTES,
        inclusive(),
        run(copy_by_hand),
    );
    table.row_into(
        &y,
        "exclusive scan",
        2 * BYTES,
        run(|| {
            wait(exclusive_scan::<Sum, _>(
                queue,
                &a.buffer(),
                &mut y.buffer(),
            ));
        }),
        run(|| by_hand::scan::<false>(a.by_hand(), y.by_hand_mut())),
    );
    let weights = [[0.1, 0.2, 0.1], [0.2, 0.4, 0.2], [0.1, 0.2, 0.1]];
    let stenciled = || {
        run(|| {
            wait(stencil(queue, weights, SIDE, &a.buffer(), &mut y.buffer()));
        })
    };
    table.row_into(
        &y,
        "stencil",
        2 * BYTES,
        stenciled(),
        run(|| by_hand::stencil(weights, SIDE, a.by_hand(), y.by_hand_mut())),
    );
    table.row(
        "stencil / a loop",
        2 * BYTES,
        stenciled(),
        run(copy_by_hand),
    );
    table.row_into(
        &y,
        "transpose",
        2 * BYTES,
        run(|| wait(transpose(queue, SIDE, &a.buffer(), &mut y.buffer()))),
        // How long rows are is only told as it runs, as ours is.
        run(|| by_hand::transpose(black_box(SIDE), a.by_hand(), y.by_hand_mut())),
    );
    Ok(())
}

fn bandwidths(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let a: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let a = Both::new(table, context, &a)?;
    let b = Both::new(table, context, &vec![1.0_f32; LENGTH])?;
    let y = Both::new(table, context, &vec![0.0_f32; LENGTH])?;
    let mut sum = context.allocate::<f32>(1)?;
    let f = Axpy { a: 2.0 };
    let write = || run(|| by_hand::write_at_bandwidth(y.by_hand_mut()));
    let copy = || run(|| by_hand::copy_at_bandwidth(a.by_hand(), y.by_hand_mut()));
    table.row(
        "fill / bandwidth",
        BYTES,
        run(|| wait(fill(queue, 3.0, &mut y.buffer()))),
        write(),
    );
    table.row(
        "queue.fill / bandwidth",
        BYTES,
        run(|| wait(queue.fill(&y.buffer(), 3.0))),
        write(),
    );
    table.row(
        "iota / bandwidth",
        BYTES,
        run(|| wait(iota(queue, 3.0, 0.5, &mut y.buffer()))),
        write(),
    );
    table.row(
        "queue.copy / bandwidth",
        2 * BYTES,
        run(|| wait(queue.copy(&a.buffer(), &y.buffer()))),
        copy(),
    );
    table.row(
        "transform / bandwidth",
        2 * BYTES,
        run(|| wait(transform(queue, f, &a.buffer(), &mut y.buffer()))),
        copy(),
    );
    table.row(
        "zip / bandwidth",
        3 * BYTES,
        run(|| wait(zip(queue, f, &a.buffer(), &b.buffer(), &mut y.buffer()))),
        run(|| by_hand::add_at_bandwidth(a.by_hand(), b.by_hand(), y.by_hand_mut())),
    );
    table.row(
        "reduce / bandwidth",
        BYTES,
        run(|| wait(reduce::<Sum, _>(queue, &a.buffer(), &mut sum))),
        run(|| {
            black_box(by_hand::read_at_bandwidth(a.by_hand()));
        }),
    );
    Ok(())
}

fn others(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let x = random_words(LENGTH);
    let from = context.buffer(&x)?;
    let mut to = context.allocate::<u32>(LENGTH)?;
    let mut y = vec![0_u32; LENGTH];
    let mut count = context.allocate::<u64>(1)?;
    let mut bins = context.allocate::<u32>(256)?;
    let bins_by_hand = RefCell::default();
    table.row(
        "histogram (256 bins)",
        BYTES,
        run(|| wait(histogram(queue, Highest(()), &from, &mut bins))),
        run(|| {
            bins_by_hand.replace(by_hand::histogram(black_box(256), &x));
        }),
    );
    let counted = queue.read(&bins)?.wait()?;
    table.compare("histogram (256 bins)", &counted, &bins_by_hand.borrow());
    for divisor in [2, 10] {
        let keep = Bins { count: divisor };
        let name = format!("compact (1 of {divisor})");
        let mut kept = 0;
        table.row(
            &name,
            BYTES,
            run(|| wait(compact(queue, keep, &from, &mut to, &mut count))),
            run(|| {
                let keep = |x: u32| (x >> 7) % black_box(divisor) == 0;
                kept = by_hand::compact(&x, &mut y, keep);
            }),
        );
        let read = queue.read(&to)?.wait()?;
        table.compare(&name, &queue.read(&count)?.wait()?, &[kept as u64]);
        table.compare(&name, &read[..kept], &y[..kept]);
    }

    let mut words = context.allocate::<[u32; 4]>(LENGTH / 4)?;
    let mut words_by_hand = vec![[0_u32; 4]; LENGTH / 4];
    table.row(
        "random",
        BYTES,
        run(|| wait(random(queue, 1, 2, &mut words))),
        run(|| {
            let parts = words_by_hand.par_chunks_mut(PART).enumerate();
            parts.for_each(|(part, words)| {
                for (i, words) in words.iter_mut().enumerate() {
                    let block = (part * PART + i) as u64;
                    let counter = [block as u32, (block >> 32) as u32, 2, 0];
                    *words = philox4x32(counter, [1, 0]);
                }
            });
        }),
    );

    table.compare("random", &queue.read(&words)?.wait()?, &words_by_hand);
    let mut floats = context.allocate::<f32>(LENGTH)?;
    let mut floats_by_hand = vec![0.0_f32; LENGTH];
    table.row(
        "random (uniform)",
        BYTES,
        run(|| wait(random_uniform(queue, 1, 2, &mut floats))),
        run(|| by_hand::draw(&mut floats_by_hand, |words| words.map(by_hand::unit))),
    );
    let drawn = queue.read(&floats)?.wait()?;
    table.compare("random (uniform)", &drawn, &floats_by_hand);
    table.row(
        "random (normal)",
        BYTES,
        run(|| wait(random_normal(queue, 1, 2, &mut floats))),
        run(|| {
            by_hand::draw(&mut floats_by_hand, |[a, b, c, d]| {
                let [first, second] = [[a, b], [c, d]].map(by_hand::normal_pair);
                [first[0], first[1], second[0], second[1]]
            });
        }),
    );
    let drawn = queue.read(&floats)?.wait()?;
    table.compare("random (normal)", &drawn, &floats_by_hand);

    let bodies: Vec<[f32; 4]> = (0..4096)
        .map(|i| [0, 1, 2, 3].map(|d| (x[4 * i + d] >> 8) as f32 * 1e-7))
        .collect();
    let from = context.buffer(&bodies)?;
    let mut accelerations = context.allocate::<[f32; 4]>(bodies.len())?;
    let mut by_hand = vec![[0.0; 4]; bodies.len()];
    table.row(
        "attract (4096 bodies)",
        0,
        run(|| wait(attract(queue, 0.01, &from, &mut accelerations))),
        run(|| by_hand::attract(0.01, &bodies, &mut by_hand)),
    );
    let attracted = queue.read(&accelerations)?.wait()?;
    table.compare("attract (4096 bodies)", &attracted, &by_hand);
    Ok(())
}

fn sorts(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let length = LENGTH / 4;
    let x = random_words(length);
    let from = context.buffer(&x)?;
    let keys = RefCell::new(context.allocate::<u32>(length)?);
    let mut values = context.buffer(&x)?;
    let fresh = || wait(queue.copy(&from, &keys.borrow()));
    let by_hand = RefCell::new(x.clone());
    let fresh_by_hand = || by_hand.borrow_mut().copy_from_slice(&x);

    table.row(
        "radix sort",
        0,
        after(fresh, || wait(radix_sort(queue, &mut keys.borrow_mut()))),
        after(fresh_by_hand, || {
            by_hand::radix_sort(&mut by_hand.borrow_mut(), &mut Vec::new());
        }),
    );
    let sorted = queue.read(&keys.borrow())?.wait()?;
    table.compare("radix sort", &sorted, &by_hand.borrow());
    table.row(
        "radix sort / par_sort_unstable",
        0,
        after(fresh, || wait(radix_sort(queue, &mut keys.borrow_mut()))),
        after(fresh_by_hand, || by_hand.borrow_mut().par_sort_unstable()),
    );
    let mut values_by_hand = x.clone();
    table.row(
        "radix sort by key",
        0,
        after(fresh, || {
            wait(radix_sort_by_key(
                queue,
                &mut keys.borrow_mut(),
                &mut values,
            ));
        }),
        after(fresh_by_hand, || {
            by_hand::radix_sort(&mut by_hand.borrow_mut(), &mut values_by_hand);
        }),
    );
    table.compare(
        "radix sort by key",
        &queue.read(&values)?.wait()?,
        &values_by_hand,
    );
    let order = Ascending::default();
    table.row(
        "merge sort",
        0,
        after(fresh, || {
            wait(merge_sort(queue, order, &mut keys.borrow_mut()))
        }),
        after(fresh_by_hand, || {
            by_hand::merge_sort::<false>(&mut by_hand.borrow_mut(), &mut Vec::new());
        }),
    );
    let sorted = queue.read(&keys.borrow())?.wait()?;
    table.compare("merge sort", &sorted, &by_hand.borrow());
    table.row(
        "merge sort by key",
        0,
        after(fresh, || {
            wait(merge_sort_by_key(
                queue,
                order,
                &mut keys.borrow_mut(),
                &mut values,
            ));
        }),
        after(fresh_by_hand, || {
            by_hand::merge_sort::<true>(&mut by_hand.borrow_mut(), &mut values_by_hand);
        }),
    );
    table.compare(
        "merge sort by key",
        &queue.read(&values)?.wait()?,
        &values_by_hand,
    );
    table.row(
        "merge sort / par_sort",
        0,
        after(fresh, || {
            wait(merge_sort(queue, order, &mut keys.borrow_mut()))
        }),
        after(fresh_by_hand, || by_hand.borrow_mut().par_sort()),
    );
    Ok(())
}

fn products(table: &Table, context: &Context) -> quipu::Result<()> {
    if !table.has("matrix product") {
        return Ok(());
    }
    let side = 1024;
    let elements = side * side;
    let (a, b) = (context.allocate(elements)?, context.allocate(elements)?);
    let mut c = context.allocate::<f32>(elements)?;
    for device in context.devices() {
        let queue = context.queue(device)?;
        queue.fill(&a, 1.0)?;
        queue.fill(&b, 0.5)?;
        queue.fill(&c, 0.0)?;
        let times = table.alone(run(|| {
            wait(matrix_product(&queue, [side; 3], &a, &b, &mut c));
        }));
        let product = queue.read(&c)?.wait()?;
        table.compare("matrix product", &product, &vec![512.0; elements]);
        let rate = |seconds: f64| 2.0 * (side as f64).powi(3) / seconds * 1e-9;
        println!(
            "matrix product of {side} on {}: {:.1} GFLOP/s, at best {:.1}",
            device.name(),
            rate(times.median),
            rate(times.least)
        );
    }
    Ok(())
}

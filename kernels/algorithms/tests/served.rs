//! The algorithms on a node that has their kernels natively: the same bits as here.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu::drivers::Options;
use quipu::drivers::remote::paired;
use quipu::prelude::*;
use quipu::serve::{Kernels, Server};
use quipu_algorithms::{
    Ascending, Descending, Function, Function2, Sum, attract, compact, exclusive_scan, fill,
    histogram, inclusive_scan, iota, matrix_product, merge_sort, merge_sort_by_key, radix_sort,
    radix_sort_by_key, random, random_normal, random_uniform, reduce, served, stencil, transform,
    transpose, zip,
};
use std::num::NonZero;
use std::time::Duration;

/// As long as a machine may be stopped for.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Mixed {
    by: u32,
}

#[device]
impl Function<u32, u32> for Mixed {
    fn apply(self, x: u32) -> u32 {
        (x ^ self.by) % 100
    }
}

#[device]
impl Function<u32, bool> for Mixed {
    fn apply(self, x: u32) -> bool {
        x % 3 == self.by % 3
    }
}

#[device]
impl Function2<u32, f32, f32> for Mixed {
    fn apply(self, x: u32, y: f32) -> f32 {
        (x + self.by) as f32 * y
    }
}

fn kernels() -> Kernels {
    served::fill::<f32>()
        .and(served::iota::<u64>())
        .and(served::transform::<u32, u32, Mixed>())
        .and(served::zip::<u32, f32, f32, Mixed>())
        .and(served::reduce::<Sum, f32>())
        .and(served::inclusive_scan::<Sum, f32>())
        .and(served::exclusive_scan::<Sum, u32>())
        .and(served::histogram::<u32, Mixed>())
        .and(served::compact::<u32, Mixed>())
        .and(served::radix_sort::<u32>())
        .and(served::radix_sort_by_key::<u32, f32>())
        .and(served::merge_sort::<f32, Ascending>())
        .and(served::merge_sort_by_key::<u32, u32, Descending>())
        .and(served::transpose::<u32>())
        .and(served::stencil::<f32>())
        .and(served::random())
        .and(served::random_uniform::<f64>())
        .and(served::random_normal::<f32>())
        .and(served::attract::<f32>())
        .and(served::matrix_product::<f32>())
        .and(served::matrix_product::<f64>())
}

fn pool() -> quipu::Result<Vec<Device>> {
    let workers = NonZero::new(2).unwrap();
    let platform = Platform::builder().without_embedded();
    let platform = platform.cpu(Options::new().workers(workers)).build()?;
    Ok(platform.devices().to_vec())
}

fn numbers(length: usize) -> Vec<u32> {
    let all = 0..length as u32;
    all.map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect()
}

fn floats(length: usize) -> Vec<f32> {
    let all = numbers(length).into_iter();
    all.map(|number| number as f32 / 1000.0 - 9000.0).collect()
}

#[test]
fn a_node_leaves_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(kernels())
        .address("127.0.0.1:0")
        .folder(folder.path().join("node"));
    let serving = server.devices(pool).one_process().start().unwrap();
    let own = folder.path().join("client");
    let node = paired::pair(&own, &serving.invite().unwrap(), PATIENCE).unwrap();
    let driver = paired::connect_from(&own, &node, PATIENCE).unwrap();
    let platform = Platform::builder().without_embedded().driver(driver);
    let there = platform.build().unwrap().device("remote").unwrap();
    let context = &Context::new(&[there.clone(), pool().unwrap().remove(0)]).unwrap();
    let devices = [pool().unwrap().remove(0), there];
    let here = Context::new(&devices[..1]).unwrap();
    let both = [
        (&here, here.queue(&devices[0]).unwrap()),
        (context, context.queue(&devices[1]).unwrap()),
    ];
    for length in [1, 1000, 70_001] {
        let [here, there] = both
            .each_ref()
            .map(|(context, queue)| all(context, queue, length).unwrap());
        assert!(!here.is_empty());
        for ((name, here), (_, there)) in here.iter().zip(&there) {
            assert!(here == there, "{name} of {length} elements");
        }
    }
}

/// The results of each algorithm.
fn all(
    context: &Context,
    queue: &Queue,
    length: usize,
) -> quipu::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut left = Vec::new();
    macro_rules! leave {
        ($name:literal, $buffer:expr) => {
            left.push((
                $name,
                bytemuck::cast_slice(&queue.read(&$buffer)?.wait()?).to_vec(),
            ))
        };
    }
    let x = context.buffer_from(numbers(length))?;
    let floats_x = context.buffer_from(floats(length))?;
    let mixed = Mixed { by: 7 };

    let mut y = context.allocate::<f32>(length)?;
    fill(queue, 2.5, &mut y)?;
    leave!("fill", y);
    let mut y = context.allocate::<u64>(length)?;
    iota(queue, 3, 5, &mut y)?;
    leave!("iota", y);
    let mut y = context.allocate::<u32>(length)?;
    transform(queue, mixed, &x, &mut y)?;
    leave!("transform", y);
    let mut y = context.allocate::<f32>(length)?;
    zip(queue, mixed, &x, &floats_x, &mut y)?;
    leave!("zip", y);

    let mut sum = context.allocate::<f32>(1)?;
    reduce::<Sum, _>(queue, &floats_x, &mut sum)?;
    leave!("reduce", sum);
    let mut y = context.allocate::<f32>(length)?;
    inclusive_scan::<Sum, _>(queue, &floats_x, &mut y)?;
    leave!("inclusive_scan", y);
    let mut y = context.allocate::<u32>(length)?;
    let small = context.buffer_from(
        numbers(length)
            .into_iter()
            .map(|x| x % 1000)
            .collect::<Vec<_>>(),
    )?;
    exclusive_scan::<Sum, _>(queue, &small, &mut y)?;
    leave!("exclusive_scan", y);
    for bins in [100, 5000] {
        let mut bins = context.allocate::<u32>(bins)?;
        histogram(queue, mixed, &x, &mut bins)?;
        leave!("histogram", bins);
    }
    let (mut y, mut count) = (
        context.allocate::<u32>(length)?,
        context.allocate::<u64>(1)?,
    );
    compact(queue, mixed, &x, &mut y, &mut count)?;
    leave!("compact", y);
    leave!("compact", count);

    let mut keys = context.buffer_from(numbers(length))?;
    radix_sort(queue, &mut keys)?;
    leave!("radix_sort", keys);
    let mut keys = context.buffer_from(numbers(length))?;
    let mut values = context.buffer_from(floats(length))?;
    radix_sort_by_key(queue, &mut keys, &mut values)?;
    leave!("radix_sort_by_key", values);
    let mut keys = context.buffer_from(floats(length))?;
    merge_sort(queue, Ascending::default(), &mut keys)?;
    leave!("merge_sort", keys);
    let mut keys = context.buffer_from(numbers(length))?;
    let mut values = context.buffer_from(numbers(length))?;
    merge_sort_by_key(queue, Descending::default(), &mut keys, &mut values)?;
    leave!("merge_sort_by_key", values);

    let rows = if length == 1 { 1 } else { 20 };
    let plane = context.buffer_from(numbers(rows * 50))?;
    let mut y = context.allocate::<u32>(rows * 50)?;
    transpose(queue, rows, &plane, &mut y)?;
    leave!("transpose", y);
    let plane = context.buffer_from(floats(rows * 50))?;
    let mut y = context.allocate::<f32>(rows * 50)?;
    let weights = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]];
    stencil(queue, weights, 50, &plane, &mut y)?;
    leave!("stencil", y);
    let mut y = context.allocate::<[u32; 4]>(length)?;
    random(queue, 1, 2, &mut y)?;
    leave!("random", y);
    let mut y = context.allocate::<f64>(length)?;
    random_uniform(queue, 1, 2, &mut y)?;
    leave!("random_uniform", y);
    let mut y = context.allocate::<f32>(length)?;
    random_normal(queue, 1, 2, &mut y)?;
    leave!("random_normal", y);
    let bodies: Vec<_> = floats(64)
        .into_iter()
        .map(|x| [x, -x, x * 0.5, 1.0])
        .collect();
    let bodies = context.buffer_from(bodies)?;
    let mut y = context.allocate::<[f32; 4]>(64)?;
    attract(queue, 0.01, &bodies, &mut y)?;
    leave!("attract", y);

    let sides = [rows * 3, 41, 33];
    let (a, b) = (floats(sides[0] * sides[1]), floats(sides[1] * sides[2]));
    let (wide_a, wide_b) = (
        a.iter().map(|x| f64::from(*x)),
        b.iter().map(|x| f64::from(*x)),
    );
    let (wide_a, wide_b) = (
        context.buffer_from(wide_a.collect::<Vec<_>>())?,
        context.buffer_from(wide_b.collect::<Vec<_>>())?,
    );
    let (a, b) = (context.buffer_from(a)?, context.buffer_from(b)?);
    let mut c = context.allocate::<f32>(sides[0] * sides[2])?;
    matrix_product(queue, sides, &a, &b, &mut c)?;
    leave!("matrix_product", c);
    let mut c = context.allocate::<f64>(sides[0] * sides[2])?;
    matrix_product(queue, sides, &wide_a, &wide_b, &mut c)?;
    leave!("matrix_product", c);
    Ok(left)
}

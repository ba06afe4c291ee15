//! The kernels of the guide and of the front end's examples: the timed ones are those of the text,
//! and all give the same in every mode.

use crate::tests::modes::{Input, InputView, Output, OutputView, Struct, Value, everywhere};
use crate::tests::numbers;
use bytemuck::{AnyBitPattern, NoUninit};
use quipu::kernels::Complex;
use quipu::prelude::*;
use std::ops::{Add, Mul};

include!("../../examples/against_rayon/guide_kernels.rs");
include!("guide_kernels.rs");

/// Lengths that no block's part divides.
const LENGTH: usize = 1003;

/// The guide's promise for them: a barrier costs little on a processor.
#[test]
fn its_kernels_with_barriers_are_loops_over_threads() {
    const { assert!(<block_sum as BlockKernel<1>>::IN_PHASES) };
    const { assert!(<matrix_product as BlockKernel<2>>::IN_PHASES) };
}

/// The words of a text, without comments of code: each file has lines of its own width.
fn words(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// Fractions of both signs.
fn fractions(length: usize) -> Vec<f32> {
    numbers(length)
        .map(|x| (x % 2048) as f32 / 1024.0 - 1.0)
        .collect()
}

/// The guide, and the examples whose kernels are not the guide's.
const SOURCES: [&str; 4] = [
    include_str!("../../../../docs/kernels.md"),
    include_str!("../../../../frontends/rust/examples/08_generic.rs"),
    include_str!("../../../../frontends/rust/examples/13_recorded_graph.rs"),
    include_str!("../../../../frontends/rust/examples/14_native_opencl.rs"),
];

/// The kernels that are timed.
const TIMED: &str = include_str!("../../examples/against_rayon/guide_kernels.rs");

/// The other ones that are run in every mode.
const RUN: &str = include_str!("guide_kernels.rs");

/// The kernels of the guide that are neither, as their names and first words, each with why.
const LEFT_OUT: [(&str, &str); 7] = [
    (
        "fn shift(acc: &impl Accelerator<1>, x: &[f32], y: OwnElements<f32>) {",
        "it does not compile, which the guide's own test sees",
    ),
    (
        "fn clip( _acc: &impl Accelerator<1>, mut y: OwnElements<f32>, #[variable(LIMIT)] limit: &[f32],",
        "its variables are a context's, of which the modes know nothing",
    ),
    (
        "async fn early(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {",
        "it does not compile, which the guide's own test sees",
    ),
    (
        "fn next(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {",
        "it reads out of bounds",
    ),
    (
        "async fn early(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {",
        "its barrier is one that some threads never come to",
    ),
    (
        "fn scatter(acc: &impl Accelerator<1>, to: &[u32], y: RawMut<u32>) {",
        "its threads race",
    ),
    (
        "async fn prefix_sums(acc: &impl GridAccelerator<1>,",
        "the corpus of kernels runs it, for not all devices have barriers of the grid",
    ),
];

/// The items that are kernels: from their attribute to the brace that begins the line of their end.
fn kernels(source: &str) -> Vec<String> {
    let mut kernels = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[kernel") {
            let mut item = vec![line];
            item.extend(lines.by_ref().take_while(|line| *line != "}"));
            item.push("}");
            kernels.push(words(&item.join("\n")));
        }
    }
    kernels
}

#[test]
fn kernels_of_the_guide_are_timed_or_run_or_left_out_for_a_reason() {
    let known = [TIMED, RUN].map(kernels).concat();
    let mut left_out = LEFT_OUT.to_vec();
    for kernel in SOURCES.iter().flat_map(|source| kernels(source)) {
        if known.contains(&kernel) {
            continue;
        }
        let is_it = |(first, _): &(&str, &str)| kernel.starts_with(&format!("#[kernel] {first}"));
        let at = left_out.iter().position(is_it);
        let Some(at) = at else {
            panic!(
                "this kernel is in no list: add it to `guide_kernels.rs`, or to `LEFT_OUT`:\n{kernel}"
            );
        };
        left_out.remove(at);
    }
    assert!(
        left_out.is_empty(),
        "the guide has these no more: {left_out:?}"
    );
}

/// Each item of this file is one of the guide's or of an example's. There are so many kernels.
fn are_of_the_guide(file: &str, kernels: usize) {
    let sources = SOURCES.map(words);
    // Items end where a line begins with a brace, or are a line.
    let mut item = String::new();
    let mut items = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with("// ")) {
        item.push_str(line);
        item.push('\n');
        if line == "}" || line.starts_with("const ") {
            items.push(words(&std::mem::take(&mut item)));
        }
    }
    assert_eq!(words(&item), "");
    assert_eq!(
        items
            .iter()
            .filter(|item| item.contains("#[kernel]"))
            .count(),
        kernels
    );
    for item in items {
        assert!(
            sources.iter().any(|source| source.contains(&item)),
            "neither `docs/kernels.md` nor an example has this any more:\n{item}"
        );
    }
}

#[test]
fn kernels_that_are_timed_are_those_of_the_guide() {
    are_of_the_guide(TIMED, 11);
}

#[test]
fn kernels_that_are_run_are_those_of_the_guide() {
    are_of_the_guide(RUN, 9);
}

/// In one dimension, without barriers.
#[test]
fn on_lines_everywhere() {
    // Blocks of three threads with five elements, of which some have none.
    let division = WorkDivision::new(70, 3, 5);
    let (x, y) = (fractions(LENGTH), fractions(LENGTH));
    everywhere!(saxpy, division, []; a = Value(0.3_f32), x = Input(x.clone()), y = Output(y.clone()));
    everywhere!(shift, division, []; x = Input(x.clone()), y = Output(y.clone()));
    everywhere!(normalise, division, []; shares = OutputView(vec![1.5_f32; 7 * 31], [31, 7]));
    let line = Line {
        slope: 0.5_f32,
        offset: 0.1,
    };
    everywhere!(parabola<f32>, division, []; line = Struct(line, [0.5_f32, 0.1]), y = Output(y.clone()));
    let (from, step) = (Vector { x: -2.0, y: -0.3 }, Vector { x: 0.003, y: 0.001 });
    everywhere!(
        mandelbrot, division, [];
        from = Struct(from, [-2.0_f32, -0.3]), step = Struct(step, [0.003_f32, 0.001]),
        steps = Output(vec![0_u32; LENGTH]),
    );
    let clip = Clip {
        low: 3.0,
        high: 30.0,
    };
    let squares: Vec<f32> = numbers(LENGTH).map(|x| (x % 2000) as f32).collect();
    everywhere!(
        Clip_roots, division, [];
        clip = Struct(clip, [3.0_f32, 30.0]), x = Input(squares), y = Output(y.clone()),
    );
    let bytes: Vec<u8> = numbers(LENGTH).map(|x| x as u8).collect();
    everywhere!(histogram, division, []; bytes = Input(bytes), counts = Output(vec![0_u32; 256]));
    let ball = |x: &f32| Ball {
        height: x.abs(),
        speed: *x,
    };
    let balls = Output(x.iter().map(ball).collect());
    everywhere!(fall, division, []; seconds = Value(0.5_f32), balls = balls);
    everywhere!(halves, division, []; x = Input(numbers(LENGTH).collect()), y = Output(y.clone()));
    everywhere!(clear, division, []; y = Output(y.clone()));
    everywhere!(add_one, division, []; x = Output(y.clone()));
    let half = Output(vec![0.0_f32; LENGTH / 2]);
    everywhere!(flow, division, []; first = Value(7_u32), old = Input(x), new = half);
}

#[test]
fn threads_are_told_where_they_are_everywhere() {
    let division = WorkDivision::new(9, 3, 1);
    let (blocks, _) = everywhere!(
        places, division, [];
        blocks = Output(vec![0_u32; 26]), threads = Output(vec![0_u32; 26]),
    );
    assert!(blocks.0.iter().copied().eq((0..26).map(|i| i / 3)));
}

#[test]
fn on_tables_everywhere() {
    let division = WorkDivision::new([3, 5], [4, 2], [2, 3]);
    let extent = [37, 41];
    let warm = fractions(37 * 41);
    everywhere!(
        spread, division, [];
        before = InputView(warm.clone(), extent), after = OutputView(vec![0.0_f32; 37 * 41], extent),
    );
    let disc = |radius| Disc {
        centre: [0.5, 0.4],
        radius,
    };
    let ring = Ring {
        outer: disc(0.3),
        inner: disc(0.2),
    };
    let fields = [0.5_f32, 0.4, 0.3, 0.5, 0.4, 0.2];
    let (_, picture) = everywhere!(
        draw<Ring>, division, [];
        shape = Struct(ring, fields), picture = OutputView(vec![0_u8; 37 * 41], extent),
    );
    assert!(picture.0.contains(&1) && picture.0.contains(&0));
    let extent = [3, 5, 2, 7];
    let division = WorkDivision::new([2, 1, 2, 2], [1, 2, 1, 3], [1, 2, 1, 1]);
    let (_, turned) = everywhere!(
        across<4>, division, [];
        x = InputView((0..210).collect(), extent), y = OutputView(vec![0_u32; 210], extent),
    );
    assert!(turned.0.into_iter().eq((0..210).rev()));
}

#[test]
fn with_barriers_everywhere() {
    let division = WorkDivision::new(4, 32, 8);
    let (_, sums) = everywhere!(
        contiguous block_sum, division, [32];
        x = Input((1..=1000).collect()), result = Output(vec![0_u64; 4]),
    );
    assert_eq!(sums.0.iter().sum::<u64>(), 500_500);
    let division = WorkDivision::new(2, 4, 1);
    let (_, y) = everywhere!(
        rounds, division, [];
        equal = Input(vec![3_u32; 8]), y = Output(vec![0_u32; 8]),
    );
    assert_eq!(y.0, [3; 8]);
    let division = WorkDivision::new(10, 64, 16);
    let (_, total) = everywhere!(
        count_even, division, [];
        x = Input((0..10_000).collect()), total = Output(vec![0_u32]),
    );
    assert_eq!(total.0, [5_000]);
    let division = WorkDivision::new([4, 3], [TILE, TILE], [1, 1]);
    everywhere!(
        matrix_product, division, [];
        a = InputView(fractions(50 * 70), [50, 70]), b = InputView(fractions(70 * 40), [70, 40]),
        c = OutputView(vec![0.0_f32; 50 * 40], [50, 40]),
    );
}

//! `device-babelstream`: memory bandwidth of five kernels, beside hand-written ones and the
//! device's own copy.
//!
//! Kernels, values, counted bytes and verification are those of `babelstream`. Each kernel can be
//! run any number of times without changing what comes out, so so many launches go back to back.

use super::{COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, rates, targets};
use crate::error::BenchError;
use crate::harness::{Gate, Plan, Report, Session};
use crate::kernels;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, Waiting};
use crate::reference::raw::{download, upload};
use crate::reference::stream::{
    Element, Gold, INITIAL_A, INITIAL_B, INITIAL_C, Precision, RayonStream, SCALAR, StreamArray,
    StreamKernel,
};
use quipu::kernels::{Float, KernelData};
use quipu::{Buffer, Completion, Queue, WorkDivision};
use quipu_algorithms::Item;
use std::cell::{Cell, RefCell};

const THREADS: usize = 256;
const UNIT: &str = "GB/s";
/// The least share of the device's copy.
const COPY: f64 = 0.9;
/// Bytes of an array: BabelStream's own of `f64`, and as many of `f32`, as caches hold no array
/// then, and starting a kernel is nothing beside running it.
const SIZES: Sizes = Sizes {
    gpu: [64 << 20, 128 << 20, 256 << 20],
    other: [64 << 20, 16 << 20],
    tiny: 16 << 10,
};

/// The benchmark `device-babelstream`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::Any)?;
    let cases = SIZES.cases(session, &targets);
    let plan = session.begin(10 * cases.len());
    for (target, bytes) in cases {
        let modes = modes(target);
        // Smaller arrays with the way that all benchmarks compare alone.
        let modes = if bytes < SIZES.gpu[2] {
            &modes[..1]
        } else {
            modes
        };
        for completion in modes {
            let way = (target, *completion);
            precision::<f64>(session, report, &plan, way, Precision::Double, bytes)?;
            precision::<f32>(session, report, &plan, way, Precision::Single, bytes)?;
        }
    }
    Ok(())
}

/// The ways of hearing of ends that are compared: all, where a callback of the device takes
/// bandwidth.
fn modes(target: &Target) -> &'static [Completion] {
    match target.is_wide() {
        true => &[COMPARED, Completion::Callback],
        false => &[COMPARED],
    }
}

/// The contents of the arrays.
trait Streamed: Float + KernelData + Item + Element + bytemuck::Pod {
    fn argument(self) -> Argument;
}

impl Streamed for f32 {
    fn argument(self) -> Argument {
        Argument::F32(self)
    }
}

impl Streamed for f64 {
    fn argument(self) -> Argument {
        Argument::F64(self)
    }
}

/// Our arrays.
struct Arrays<T: Streamed> {
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<T>,
    sums: Buffer<T>,
    blocks: usize,
    is_wide: bool,
}

impl<T: Streamed> Arrays<T> {
    fn new(target: &Target, queue: &Queue, length: usize, blocks: usize) -> quipu::Result<Self> {
        let context = target.context();
        let array = |value: f64| -> quipu::Result<Buffer<T>> {
            let array = context.allocate::<T>(length)?;
            queue.fill(&array, T::from_f64(value))?.wait()?;
            Ok(array)
        };
        Ok(Arrays {
            a: array(INITIAL_A)?,
            b: array(INITIAL_B)?,
            c: array(INITIAL_C)?,
            sums: context.allocate(blocks)?,
            blocks,
            is_wide: target.is_wide(),
        })
    }

    fn enqueue(&mut self, queue: &Queue, kernel: StreamKernel) -> quipu::Result<()> {
        let Arrays { a, b, c, sums, .. } = self;
        let (length, scalar) = (a.len(), T::from_f64(SCALAR));
        match kernel {
            StreamKernel::Copy => queue.post_launch(length, kernels::copy_each(&*a, c.overwrite())),
            StreamKernel::Mul => {
                queue.post_launch(length, kernels::scale_each(scalar, &*c, b.overwrite()))
            }
            StreamKernel::Add => {
                queue.post_launch(length, kernels::add_each(&*a, &*b, c.overwrite()))
            }
            StreamKernel::Triad => {
                queue.post_launch(length, kernels::triad_each(scalar, &*b, &*c, a.overwrite()))
            }
            StreamKernel::Dot if self.is_wide => {
                let division = WorkDivision::new(self.blocks, THREADS, 1);
                if size_of::<T>() == 4 {
                    let dot = kernels::dot_blocks::<T, 2>(&*a, &*b, sums.overwrite());
                    return queue.post_launch(division, dot);
                }
                let dot = kernels::dot_blocks::<T, 1>(&*a, &*b, sums.overwrite());
                queue.post_launch(division, dot)
            }
            StreamKernel::Dot => {
                let division = WorkDivision::new(self.blocks, 1, 1);
                let dot = kernels::dot_blocks::<T, 32>(&*a, &*b, sums.overwrite());
                queue.post_launch(division, dot)
            }
        }
    }
}

/// The same by hand.
struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    /// In the order of [`StreamKernel::ALL`].
    launches: [Launch; 5],
    arrays: [Memory; 3],
    sums: Memory,
    /// The data of a copy.
    spare: [Memory; 2],
}

fn by_hand<T: Streamed>(
    target: &Target,
    precision: Precision,
    length: usize,
    blocks: usize,
) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let raw_ = &mut *raw;
    let mut array = |value: f64| upload(raw_, &vec![T::from_f64(value); length]);
    let arrays = [array(INITIAL_A)?, array(INITIAL_B)?, array(INITIAL_C)?];
    let spare = [array(INITIAL_A)?, array(INITIAL_B)?];
    let sums = upload(raw_, &vec![T::from_f64(0.0); blocks])?;
    let [a, b, c] = arrays.map(Argument::Memory);
    let (scalar, n) = (T::from_f64(SCALAR).argument(), Argument::U32(length as u32));
    let grid = Grid::line(length.div_ceil(THREADS), THREADS);
    let mut prepare = |kernel: &str, grid, arguments: &[Argument]| {
        let name = format!("{kernel}_{}", precision.name());
        raw_.prepare(&name, grid, arguments)
    };
    let launches = [
        prepare("copy", grid, &[a, c, n])?,
        prepare("mul", grid, &[scalar, c, b, n])?,
        prepare("add", grid, &[a, b, c, n])?,
        prepare("triad", grid, &[scalar, b, c, a, n])?,
        prepare(
            "dot",
            Grid::line(blocks, THREADS),
            &[a, b, Argument::Memory(sums), n],
        )?,
    ];
    Ok(ByHand {
        raw: RefCell::new(raw),
        launches,
        arrays,
        sums,
        spare,
    })
}

fn precision<T: Streamed>(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    (target, completion): (&Target, Completion),
    precision: Precision,
    bytes: usize,
) -> Result<(), BenchError> {
    let length = bytes / size_of::<T>();
    // So many, too, that no sum of a thread's is long enough to lose digits.
    let blocks = (8 * target.workers()).max(length >> 16);
    let queue = target.queue(completion)?;
    let arrays = Arrays::<T>::new(target, &queue, length, blocks).doing("making the arrays")?;
    let ours = RefCell::new(arrays);
    let rayon = match target.is_pool() {
        true => Some(RefCell::new(RayonStream::<T>::new(
            target.workers(),
            length,
        )?)),
        false => None,
    };
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand::<T>(target, precision, length, blocks), report),
    };
    let mut gold = Gold::default();
    for (place, kernel) in StreamKernel::ALL.into_iter().enumerate() {
        let mode = match completion == COMPARED {
            true => "",
            false => ", callback",
        };
        let (name, of, mebibytes) = (kernel.name(), precision.name(), bytes >> 20);
        let case = format!("{name} {of}, {mebibytes} MiB{mode}");
        let rayon_sum = Cell::new(None);
        let mut sides = vec![Side::ours(&queue, || {
            ours.borrow_mut().enqueue(&queue, kernel)
        })];
        if let Some(by_hand) = &by_hand {
            sides.push(Side::raw(&by_hand.raw, by_hand.launches[place]));
            sides.push(device_copy(by_hand, bytes, kernel.arrays()));
        }
        if let Some(rayon) = &rayon {
            sides.push(Side::function("rayon", || {
                rayon_sum.set(rayon.borrow_mut().run(kernel).1);
            }));
        }
        let comparison = Comparison {
            case: &case,
            unit: UNIT,
            amount: (kernel.arrays() * bytes) as f64 / 1e9,
        };
        let ratios = rates(session, report, plan, target, &comparison, &mut sides)?;
        drop(sides);
        gate_by_hand(report, target, &case, &ratios);
        if target.is_wide()
            && let [_, against_copy] = ratios[..]
        {
            let what = format!("{case}, {}, against the device's copy", target.id());
            report
                .gates
                .push(Gate::at_least(what, against_copy, COPY, "x"));
        }
        gold.run(kernel);
        if kernel == StreamKernel::Dot {
            let check = |side: &str, sum: f64| {
                let checked = gold.check_dot(precision, length, sum);
                checked.map_err(|(expected, found)| {
                    let what = format!("the dot product on {}, {side}", target.id());
                    session.wrong(&case, what, expected, found)
                })
            };
            let sums = queue
                .read(&ours.borrow().sums)
                .and_then(quipu::Pending::wait);
            check("ours", total(&sums.doing("reading a buffer")?))?;
            if let Some(by_hand) = &by_hand {
                let raw = &mut *by_hand.raw.borrow_mut();
                let sums = download::<T>(&mut **raw, by_hand.sums, blocks)?;
                check("by hand", total(&sums))?;
            }
            if let Some(sum) = rayon_sum.get() {
                check("rayon", sum)?;
            }
        }
    }
    let ours = ours.into_inner();
    let which = [StreamArray::A, StreamArray::B, StreamArray::C];
    for (place, (array, buffer)) in which
        .into_iter()
        .zip([&ours.a, &ours.b, &ours.c])
        .enumerate()
    {
        let check = |side: &str, elements: &[T]| {
            let elements: Vec<f64> = elements.iter().map(|element| element.to_f64()).collect();
            let checked = gold.check_array(array, precision, &elements);
            checked.map_err(|(expected, found)| {
                let what = format!("the mean of array {array:?} on {}, {side}", target.id());
                session.wrong(precision.name(), what, expected, found)
            })
        };
        let found = queue.read(buffer).and_then(quipu::Pending::wait);
        check("ours", &found.doing("reading a buffer")?)?;
        if let Some(by_hand) = &by_hand {
            let raw = &mut *by_hand.raw.borrow_mut();
            let found = download::<T>(&mut **raw, by_hand.arrays[place], length)?;
            check("by hand", &found)?;
        }
    }
    Ok(())
}

fn total<T: Element>(sums: &[T]) -> f64 {
    sums.iter().map(|sum| sum.to_f64()).sum()
}

/// The device's own copy of one spare array to the other: two arrays' bytes, as they are counted.
fn device_copy(by_hand: &ByHand, bytes: usize, counted: usize) -> Side<'_> {
    let [from, to] = by_hand.spare;
    let copy = Side::new(
        "the device's copy",
        move || Ok(by_hand.raw.borrow_mut().copy(from, to, bytes)?),
        || Ok(by_hand.raw.borrow_mut().wait(Waiting::Synchronise)?),
    );
    copy.doing_only(2.0 / counted as f64)
}

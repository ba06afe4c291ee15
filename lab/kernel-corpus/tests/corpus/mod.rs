//! Kernels that between them use everything that the language accepts. Each runs natively in every
//! mode, on a pool of workers and on the serial device, and printed with indices of both widths and
//! elements in both orders, and has to give the same bits. Printed it is C99 for two of these four,
//! and OpenCL C for the other two. (Without an OpenCL platform: see `opencl_or_skip`.) As CUDA C it
//! is compiled, where there is NVRTC.
//!
//! An optimised build prints the same source. It runs each kernel natively as a user's release
//! does, and printed only once.

mod arithmetic;
mod blocks;
mod bounds;
mod chains;
mod closures;
mod combined;
mod composed;
mod control;
mod data;
mod devices;
mod dimensions;
mod everyday;
mod exchanged;
mod failures;
mod functions;
mod functions_of_std;
mod grids;
mod half_operations;
mod halves;
mod iterators;
mod lanes;
mod language;
mod library;
mod loops;
mod operators;
mod options;
mod own;
mod patterns;
mod phases;
mod pieces;
mod properties;
mod ranges;
mod raw_arrays;
mod recursion;
mod refused;
mod taken_apart;
mod textbook;
mod together;
mod traits_of_std;
mod transcendental;
mod variants;
mod views;
mod warps;
mod widths;

use std::any::Any;
use std::fmt::Debug;

use bytemuck::{AnyBitPattern, NoUninit};
use devices::CpuDevice;
use quipu_kernel::{
    BlockScratch, Execution, FeatureLevel, GroupKernel, RunOptions, WorkDivision, bf16, f16,
};
use quipu_kernel_ir::ElementOrder::{Contiguous, Strided};
use quipu_kernel_ir::IndexWidth::{Bits32, Bits64};
use quipu_kernel_ir::print::PrintError;
use quipu_kernel_ir::{Dialect, Module, Options};
use quipu_kernel_testing::{
    Argument, C99Program, CudaProgram, Division, Launch, OpenClProgram, opencl_features,
    opencl_or_skip,
};

/// A division of so many blocks, threads and elements.
pub(crate) fn division(blocks: usize, threads: usize, elements: usize) -> WorkDivision<1> {
    WorkDivision::new(blocks, threads, elements).unwrap()
}

/// The number of the line of a file that ends with a mark.
pub(crate) fn line_of(file: &str, mark: &str) -> u32 {
    let mut lines = file.lines().zip(1..);
    let (_, line) = lines.find(|(line, _)| line.ends_with(mark)).unwrap();
    line
}

/// A test's argument, as a launch of printed code gets it, and as it is compared afterwards.
pub(crate) trait Passed {
    fn argument(&self) -> Argument;
    fn compare(&self, _launch: &Launch, _at: usize) {}

    /// Puts back what was passed at first.
    fn reset(self, _argument: &Argument)
    where
        Self: Sized,
    {
    }
}

/// A way to run a kernel natively.
#[derive(Debug)]
pub(crate) enum Way {
    /// On this thread.
    Here(BlockScratch),
    /// On a device of the CPU's driver.
    On(&'static CpuDevice),
}

impl Way {
    pub(crate) fn run(&mut self, mut launch: impl GroupKernel) {
        match self {
            Way::Here(scratch) => launch.run_all(scratch).unwrap(),
            Way::On(device) => device.run(launch),
        }
    }
}

/// Every way to run a kernel natively: its results do not depend on that.
pub(crate) fn ways_and_devices() -> impl Iterator<Item = Way> {
    let devices = CpuDevice::all().iter().map(Way::On);
    ways().map(Way::Here).chain(devices)
}

/// Runs a kernel in all of these, of the same output each time: all give what the first gives, but
/// that a NaN is any.
pub(crate) fn natively<T: Clone + Debug>(
    y: &mut Vec<T>,
    mut run: impl FnMut(&mut Vec<T>, &mut Way),
) {
    let given = y.clone();
    let mut first = None;
    for mut way in ways_and_devices() {
        y.clone_from(&given);
        run(y, &mut way);
        // As text, in which a NaN has neither sign nor bits.
        let written = format!("{y:?}");
        assert_eq!(
            *first.get_or_insert_with(|| written.clone()),
            written,
            "{way:?}"
        );
    }
}

/// Those of one thread that calls.
pub(crate) fn ways() -> impl Iterator<Item = BlockScratch> {
    let way = |execution, level, check| {
        let mut options = RunOptions::new();
        options.execution = execution;
        options.level = level;
        options.check = check;
        BlockScratch::with_options(options)
    };
    let levels = FeatureLevel::ALL.map(|level| way(Execution::Native, level, false));
    let best = FeatureLevel::V4;
    let tests = [
        Execution::Native,
        Execution::Lockstep { warp_size: 1 },
        Execution::Lockstep { warp_size: 4 },
        Execution::Lockstep { warp_size: 32 },
        Execution::Lockstep { warp_size: 64 },
        Execution::OsThreads { warp_size: 1 },
    ];
    let checks = tests.map(|execution| way(execution, best, true));
    let without = tests.map(|execution| way(execution, best, false));
    levels.into_iter().chain(checks).chain(without)
}

macro_rules! values {
    ($($value:ty),*) => {$(
        impl Passed for $value {
            fn argument(&self) -> Argument {
                Argument::uniform(*self)
            }
        }
    )*};
}

values!(
    f32,
    f64,
    u32,
    i32,
    u8,
    control::Mode,
    data::Pair<f32>,
    data::Body,
    functions::Square
);

impl Passed for usize {
    fn argument(&self) -> Argument {
        Argument::index(*self as u64)
    }
}

impl<T: NoUninit> Passed for &Vec<T> {
    fn argument(&self) -> Argument {
        Argument::buffer(self)
    }
}

impl<T: NoUninit + AnyBitPattern + 'static> Passed for &mut Vec<T> {
    fn argument(&self) -> Argument {
        Argument::buffer(self)
    }

    fn compare(&self, launch: &Launch, at: usize) {
        compare(self, &launch.elements::<T>(at));
    }

    fn reset(self, argument: &Argument) {
        if let Argument::Elements { bytes, .. } = argument {
            let elements = bytes.chunks_exact(size_of::<T>());
            *self = elements.map(bytemuck::pod_read_unaligned).collect();
        }
    }
}

/// Compares bits, of which zeros have a sign; any NaN is as good as any other, as no language says
/// which an operation gives, and GPUs give another than processors.
pub(crate) fn compare<T: NoUninit + 'static>(native: &[T], printed: &[T]) {
    for (at, (native, printed)) in native.iter().zip(printed).enumerate() {
        let (one, other) = (bytemuck::bytes_of(native), bytemuck::bytes_of(printed));
        let same = one == other || is_nan(native) && is_nan(printed);
        assert!(
            same,
            "element {at}: natively {one:?}, and printed {other:?}"
        );
    }
    assert_eq!(native.len(), printed.len());
}

/// True of a float that is none.
fn is_nan<T: 'static>(value: &T) -> bool {
    let value: &dyn Any = value;
    value
        .downcast_ref()
        .is_some_and(|value: &f32| value.is_nan())
        || value
            .downcast_ref()
            .is_some_and(|value: &f64| value.is_nan())
        || value
            .downcast_ref()
            .is_some_and(|value: &f16| value.is_nan())
        || value
            .downcast_ref()
            .is_some_and(|value: &bf16| value.is_nan())
}

/// The kernels that are not run as OpenCL C, each with what that lacks. All others are.
const NOT_IN_OPENCL: [(&str, &str); 6] = {
    const ATOMICS: &str = "an atomic operation for the host and other devices";
    const GRID: &str = "a barrier of the grid: its blocks need not run at the same time; launch a kernel for each step, or ask \
                        `acc.has_grid_barrier()`";
    [
        ("prefix_sums", GRID),
        ("rod", GRID),
        ("system_u32", ATOMICS),
        ("system_u64", ATOMICS),
        ("system_f64", ATOMICS),
        ("bits_i64", ATOMICS),
    ]
};

/// The kernels whose results depend on which elements a thread has, each with how. All others are
/// run for elements that are contiguous, as threads have them natively, and that are strided.
const ORDERED: [(&str, &str); 12] = {
    const SHOWN: &str = "an element shows what its thread is or has read";
    const BEFORE: &str = "an element shows what came of those before it";
    [
        (
            "block_sum",
            "a block has the sum of what its threads have read",
        ),
        ("bordered", BEFORE),
        ("calls", SHOWN),
        ("changed_in_macros", BEFORE),
        (
            "cut_off",
            "an element shows that it is not on a GPU, where elements are in strides",
        ),
        ("early", "some threads leave their elements as they are"),
        ("elements", SHOWN),
        ("in_order", SHOWN),
        ("steps", BEFORE),
        ("summed_without_numbers", SHOWN),
        ("sums", SHOWN),
        ("votes", SHOWN),
    ]
};

/// Says that a kernel is not run as OpenCL C.
///
/// # Panics
/// If it is not known to be left out for that.
fn left_out(kernel: &str, what: &str) {
    assert!(
        NOT_IN_OPENCL.contains(&(kernel, what)),
        "`{kernel}` is not run as OpenCL C, which cannot do {what}: ask the accelerator, or add it to `NOT_IN_OPENCL`"
    );
    eprintln!(
        "\n*** NOT TESTED as OpenCL C: `{kernel}`, one of {} left out: {what}.\n",
        NOT_IN_OPENCL.len()
    );
}

/// Runs the printed source of a module.
pub(crate) fn run_printed<const D: usize>(
    module: &Module,
    division: &WorkDivision<D>,
    arguments: &[Argument],
    shared: &[u64],
    mut check: impl FnMut(&Launch),
) {
    if let Err(error) = module.verify() {
        panic!("{error}\n{module:#?}");
    }
    let extent = |extent: [usize; D]| extent.map(|component| component as u64);
    let division = Division::new(
        extent(division.grid_blocks().components()),
        extent(division.block_threads().components()),
        extent(division.thread_elements().components()),
    );
    let launch =
        || Launch::new(division.clone(), arguments.to_vec()).with_shared(shared.iter().copied());
    let name = &module.kernel.function.name;
    let ordered = ORDERED.iter().any(|(kernel, _)| kernel == name);
    let is_left_out = NOT_IN_OPENCL.iter().any(|(kernel, _)| kernel == name);
    let mut contiguous = None;
    for (width, order) in [
        (Bits32, Contiguous),
        (Bits64, Contiguous),
        (Bits32, Strided),
        (Bits64, Strided),
    ] {
        // Compilers take most of the time. So each pair of a width and an order is for one of them,
        // unless elements show the order.
        let is_for_c99 = (width == Bits32) == (order == Contiguous);
        let (in_c99, in_opencl) = if cfg!(debug_assertions) {
            (
                ordered || is_for_c99 || is_left_out || !opencl_or_skip(),
                (ordered || !is_for_c99) && opencl_or_skip(),
            )
        } else {
            ((width, order) == (Bits32, Contiguous), false)
        };
        let print = |dialect| {
            let mut options = Options::new(dialect, width);
            options.elements = order;
            module.print(dialect, &options)
        };
        let printed = print(Dialect::Cuda).unwrap();
        let on_gpu =
            CudaProgram::compile_or_skip(&printed).unwrap_or_else(|error| panic!("{error}"));
        if in_c99 {
            let printed = print(Dialect::C99).unwrap();
            if std::env::var_os("QUIPU_PRINT").is_some() {
                println!("{}", printed.source);
            }
            let program = C99Program::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
            let mut launched = launch();
            let fault = program.run(&mut launched).unwrap();
            assert_eq!(fault, None);
            if ordered && order == Strided {
                let is_same = contiguous == Some(launched);
                assert!(!is_same, "take `{name}` out of `ORDERED`");
                continue;
            }
            check(&launched);
            contiguous = Some(launched);
        }
        if let Some(program) = on_gpu.filter(|_| CudaProgram::can_run().unwrap()) {
            let mut launched = launch();
            let fault = program.run(&mut launched).unwrap();
            assert_eq!(fault, None, "CUDA C");
            check(&launched);
        }
        if !in_opencl {
            continue;
        }
        let printed = match print(Dialect::OpenCl(opencl_features())) {
            Err(PrintError::Unsupported { what, kernel, .. }) => {
                left_out(&kernel, &what);
                continue;
            }
            printed => printed.unwrap(),
        };
        assert!(
            !is_left_out,
            "OpenCL C has what `{name}` needs: take it out of `NOT_IN_OPENCL`"
        );
        if std::env::var_os("QUIPU_PRINT").is_some() {
            println!("{}", printed.source);
        }
        let program = OpenClProgram::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
        let mut launched = launch();
        let fault = program.run(&mut launched).unwrap();
        assert_eq!(fault, None);
        check(&launched);
    }
}

/// Runs a kernel natively and printed, and compares what it has written:
/// `check!(kernel => (arguments), division)`, and the lengths of shared arrays that depend on the
/// launch.
///
/// And of a method: `check!(value.kernel => (arguments), division)`.
macro_rules! check {
    ($this:ident.$method:ident => ($($argument:expr),*), $division:expr $(, $shared:expr)*) => {
        check!(@ $this.$method($($argument),*), [$this], [$($argument),*], $division $(, $shared)*)
    };
    ($kernel:expr => ($($argument:expr),*), $division:expr $(, $shared:expr)*) => {
        check!(@ $kernel($($argument),*), [], [$($argument),*], $division $(, $shared)*)
    };
    (@ $call:expr, [$($this:ident)?], [$($argument:expr),*], $division:expr $(, $shared:expr)*) => {{
        use $crate::corpus::Passed as _;
        let arguments = [$($this.argument(),)? $(($argument).argument()),*];
        let mut ways = Vec::new();
        for mut way in $crate::corpus::ways_and_devices() {
            way.run($call.prepare($division).unwrap());
            ways.push((way, [$(($argument).argument()),*]));
            let mut given = arguments.iter();
            $(
                let _ = ($this, given.next());
            )?
            $(($argument).reset(given.next().unwrap());)*
        }
        let call = $call;
        let module = call.module().unwrap();
        call.run($division).unwrap();
        for (way, written) in ways {
            assert_eq!(written, [$(($argument).argument()),*], "{way:?}");
        }
        $crate::corpus::run_printed(&module, &$division, &arguments, &[$($shared),*], |launch| {
            let mut at = 0;
            $(
                let _ = $this;
                at += 1;
            )?
            $(
                ($argument).compare(launch, at);
                at += 1;
            )*
            assert_eq!(at, arguments.len());
        });
    }};
}

pub(crate) use check;

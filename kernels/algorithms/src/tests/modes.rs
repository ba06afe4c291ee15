//! Runs a kernel in every way that there is, and compares the bits of its results: natively at each
//! feature level, its blocks shared by threads in an odd order, checked, in lockstep, on threads of
//! the operating system, and printed as C99, OpenCL C and, where there is a GPU, CUDA C.

use bytemuck::{AnyBitPattern, NoUninit};
use quipu::WorkDivision;
use quipu::kernels::{
    BlockScratch, Entry, Execution, FeatureLevel, GlobalMut, GlobalRef, GroupKernel, PassAll,
    RunOptions,
};
use quipu_kernel_ir::print::SharedMemory;
use quipu_kernel_ir::{Dialect, ElementOrder, IndexWidth, Module, OpenClFeatures, Options};
use quipu_kernel_testing::{
    Argument, C99Program, CudaProgram, Division, Launch, OpenClProgram, opencl_features,
    opencl_or_skip,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Compares bits, of which NaN has some, too.
pub(crate) fn compare<T: NoUninit>(one: &[T], other: &[T]) {
    compare_in("in both", one, other);
}

pub(crate) fn compare_in<T: NoUninit>(how: &str, one: &[T], other: &[T]) {
    assert_eq!(one.len(), other.len(), "{how}");
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        let (one, other) = (bytemuck::bytes_of(one), bytemuck::bytes_of(other));
        assert_eq!(one, other, "{how}: element {at}");
    }
}

/// A kernel's argument for a parameter, which keeps the kernel's results.
pub(crate) trait Given: Clone {
    /// As a native launch takes it.
    type Passed<'b>
    where
        Self: 'b;
    fn pass(&mut self) -> Self::Passed<'_>;
    /// As a printed launch takes it.
    fn argument(&self) -> Argument;
    /// That another has the same bits.
    fn compare(&self, how: &str, other: &Self);
    /// That a printed launch has written the same bits.
    fn compare_printed(&self, how: &str, launch: &Launch, at: usize);
}

/// A kernel's arguments for all parameters.
pub(crate) trait GivenAll {
    /// That others have the same bits.
    fn compare(&self, how: &str, other: &Self);
}

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => {$(
        impl<$($name: Given),+> GivenAll for ($($name,)+) {
            fn compare(&self, how: &str, other: &Self) {
                $(self.$at.compare(how, &other.$at);)+
            }
        }
    )*};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, E 3;
    A 0, B 1, C 2, E 3, F 4;
    A 0, B 1, C 2, E 3, F 4, G 5;
    A 0, B 1, C 2, E 3, F 4, G 5, H 6;
    A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7;
}

/// A value.
#[derive(Clone)]
pub(crate) struct Value<T>(pub(crate) T);

/// A struct, and its fields' bytes, which it does not show.
#[derive(Clone)]
pub(crate) struct Struct<S, F>(pub(crate) S, pub(crate) F);

/// A length.
#[derive(Clone)]
pub(crate) struct Index(pub(crate) usize);

/// An input.
#[derive(Clone)]
pub(crate) struct Input<T>(pub(crate) Vec<T>);

/// An input of several dimensions.
#[derive(Clone)]
pub(crate) struct InputView<T, const D: usize>(pub(crate) Vec<T>, pub(crate) [usize; D]);

/// An output.
#[derive(Clone)]
pub(crate) struct Output<T>(pub(crate) Vec<T>);

/// An output of several dimensions.
#[derive(Clone)]
pub(crate) struct OutputView<T, const D: usize>(pub(crate) Vec<T>, pub(crate) [usize; D]);

impl<T: NoUninit> Given for Value<T> {
    type Passed<'b> = T;
    fn pass(&mut self) -> T {
        self.0
    }
    fn argument(&self) -> Argument {
        Argument::uniform(self.0)
    }
    fn compare(&self, _: &str, _: &Self) {}
    fn compare_printed(&self, _: &str, _: &Launch, _: usize) {}
}

impl<S: Copy, F: NoUninit> Given for Struct<S, F> {
    type Passed<'b>
        = S
    where
        Self: 'b;
    fn pass(&mut self) -> S {
        self.0
    }
    fn argument(&self) -> Argument {
        assert_eq!(size_of::<S>(), size_of::<F>());
        Argument::uniform(self.1)
    }
    fn compare(&self, _: &str, _: &Self) {}
    fn compare_printed(&self, _: &str, _: &Launch, _: usize) {}
}

impl Given for Index {
    type Passed<'b> = usize;
    fn pass(&mut self) -> usize {
        self.0
    }
    fn argument(&self) -> Argument {
        Argument::index(self.0 as u64)
    }
    fn compare(&self, _: &str, _: &Self) {}
    fn compare_printed(&self, _: &str, _: &Launch, _: usize) {}
}

impl<T: NoUninit> Given for Input<T> {
    type Passed<'b> = &'b [T];
    fn pass(&mut self) -> &[T] {
        &self.0
    }
    fn argument(&self) -> Argument {
        Argument::buffer(&self.0)
    }
    fn compare(&self, _: &str, _: &Self) {}
    fn compare_printed(&self, _: &str, _: &Launch, _: usize) {}
}

/// The distance of neighbours along each dimension, without gaps.
fn strides<const D: usize>(extent: [usize; D]) -> [usize; D] {
    let mut strides = [1; D];
    for d in (1..D).rev() {
        strides[d - 1] = strides[d] * extent[d];
    }
    strides
}

/// Elements in several dimensions, as a printed launch takes them.
fn view<T: NoUninit, const D: usize>(elements: &[T], extent: [usize; D]) -> Argument {
    let strides = strides(extent).map(|stride| stride as u64);
    Argument::view(elements, &extent.map(|extent| extent as u64), &strides)
}

impl<T: NoUninit, const D: usize> Given for InputView<T, D> {
    type Passed<'b>
        = GlobalRef<'b, T, D>
    where
        T: 'b;
    fn pass(&mut self) -> GlobalRef<'_, T, D> {
        GlobalRef::from(&self.0[..])
            .in_strides(self.1, strides(self.1))
            .unwrap()
    }
    fn argument(&self) -> Argument {
        view(&self.0, self.1)
    }
    fn compare(&self, _: &str, _: &Self) {}
    fn compare_printed(&self, _: &str, _: &Launch, _: usize) {}
}

impl<T: NoUninit + AnyBitPattern> Given for Output<T> {
    type Passed<'b> = &'b mut [T];
    fn pass(&mut self) -> &mut [T] {
        &mut self.0
    }
    fn argument(&self) -> Argument {
        Argument::buffer(&self.0)
    }
    fn compare(&self, how: &str, other: &Self) {
        compare_in(how, &self.0, &other.0);
    }
    fn compare_printed(&self, how: &str, launch: &Launch, at: usize) {
        compare_in(how, &self.0, &launch.elements(at));
    }
}

impl<T: NoUninit + AnyBitPattern, const D: usize> Given for OutputView<T, D> {
    type Passed<'b> = GlobalMut<'b, T, D>;
    fn pass(&mut self) -> GlobalMut<'_, T, D> {
        GlobalMut::from(&mut self.0).in_extent(self.1).unwrap()
    }
    fn argument(&self) -> Argument {
        view(&self.0, self.1)
    }
    fn compare(&self, how: &str, other: &Self) {
        compare_in(how, &self.0, &other.0);
    }
    fn compare_printed(&self, how: &str, launch: &Launch, at: usize) {
        compare_in(how, &self.0, &launch.elements(at));
    }
}

/// A way to run a launch natively.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// All groups on this thread.
    Alone(RunOptions),
    /// By so many threads, that take a group at a time; from the last one on.
    Shared(u64),
}

pub(crate) fn modes() -> Vec<Mode> {
    let options = |execution, check, level| {
        let mut options = RunOptions::new();
        options.execution = execution;
        options.check = check;
        options.level = level;
        Mode::Alone(options)
    };
    let mut modes: Vec<_> = FeatureLevel::ALL
        .into_iter()
        .map(|level| options(Execution::Native, false, level))
        .collect();
    modes.extend([Mode::Shared(1), Mode::Shared(2), Mode::Shared(5)]);
    for check in [false, true] {
        for execution in [
            Execution::Native,
            Execution::Lockstep { warp_size: 4 },
            Execution::Lockstep { warp_size: 32 },
            Execution::OsThreads { warp_size: 1 },
        ] {
            modes.push(options(execution, check, FeatureLevel::V4));
        }
    }
    modes
}

/// A launch of a kernel.
pub(crate) fn prepare<'b, K, A, const D: usize>(
    arguments: A,
    division: WorkDivision<D>,
) -> impl GroupKernel + 'b
where
    K: Entry<D>,
    A: PassAll<'b, K::Parameters, D>,
{
    K::prepare(arguments.views(), division).unwrap()
}

/// A kernel's source, for a grid of as many dimensions as the division has.
pub(crate) fn source<K: Entry<D>, const D: usize>(_: &WorkDivision<D>) -> Module {
    K::module().unwrap()
}

/// Runs a launch.
pub(crate) fn run(mut launch: impl GroupKernel, mode: Mode) {
    match mode {
        Mode::Alone(options) => {
            let mut scratch = BlockScratch::with_options(options);
            launch
                .run_all(&mut scratch)
                .unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        }
        Mode::Shared(threads) => {
            let (next, count) = (AtomicU64::new(0), launch.group_count());
            let work = || {
                let mut scratch = BlockScratch::with_options(RunOptions::new());
                loop {
                    let taken = next.fetch_add(1, Ordering::Relaxed);
                    if taken >= count {
                        break;
                    }
                    let group = count - 1 - taken;
                    // SAFETY: each number is taken once; the memory is borrowed by the launch.
                    unsafe { launch.run_groups(group..group + 1, &mut scratch) }
                        .unwrap_or_else(|error| panic!("{mode:?}: {error}"));
                }
            };
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(work);
                }
            });
        }
    }
}

/// Bytes that a block's threads can share on a GPU, as far as they are known when a kernel is
/// compiled.
const SHARED_ON_GPUS: u64 = 48 << 10;

/// Runs the printed source of a module, and calls `check` with what it has written: as C99 with
/// indices of 32 bits, and as OpenCL C with indices of 64. (The corpus of the kernel language has
/// each of them with both, and devices run algorithms with 32.) An optimised build prints the same
/// source, so it has C99 alone. `shared` are the lengths of shared arrays that depend on the
/// launch; `order` is how elements are shared out, if not in the language's own way.
pub(crate) fn run_printed<const D: usize>(
    module: &Module,
    division: &WorkDivision<D>,
    arguments: &[Argument],
    shared: &[u64],
    order: Option<ElementOrder>,
    check: impl Fn(&str, &Launch),
) {
    module.verify().unwrap();
    let extent = |extent: [usize; D]| extent.map(|component| component as u64);
    let division = Division::new(
        extent(division.grid_blocks().components()),
        extent(division.block_threads().components()),
        extent(division.thread_elements().components()),
    );
    let launch =
        || Launch::new(division.clone(), arguments.to_vec()).with_shared(shared.iter().copied());
    crate::tests::look_for_devices();
    let opencl = Dialect::OpenCl(opencl_features());
    let is_optimised = !cfg!(debug_assertions);
    let in_opencl = !is_optimised && opencl_or_skip();
    for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
        if width == IndexWidth::Bits32 || !is_optimised && !in_opencl {
            let how = format!("C99, {width:?}");
            let printed = module
                .print(Dialect::C99, &Options::new(Dialect::C99, width))
                .unwrap();
            let program = C99Program::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
            let mut written = launch();
            assert_eq!(program.run(&mut written).unwrap(), None, "{how}");
            check(&how, &written);
        }

        if CudaProgram::can_run().unwrap() {
            let how = format!("CUDA C, {width:?}");
            let mut options = Options::new(Dialect::Cuda, width);
            options.elements = order.unwrap_or(options.elements);
            let printed = module.print(Dialect::Cuda, &options).unwrap();
            // Kernels for processors have tiles that no GPU has room for.
            let shared: u64 = printed.shared.iter().filter_map(SharedMemory::bytes).sum();
            if shared <= SHARED_ON_GPUS {
                let program = CudaProgram::compile_or_skip(&printed);
                let program = program.unwrap_or_else(|error| panic!("{error}"));
                let mut written = launch();
                assert_eq!(program.unwrap().run(&mut written).unwrap(), None, "{how}");
                check(&how, &written);
            }
        }

        if in_opencl && width == IndexWidth::Bits64 {
            let how = format!("OpenCL C, {width:?}");
            let mut options = Options::new(opencl, width);
            options.elements = order.unwrap_or(options.elements);
            let printed = module.print(opencl, &options).unwrap();
            let program =
                OpenClProgram::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
            let mut written = launch();
            assert_eq!(program.run(&mut written).unwrap(), None, "{how}");
            check(&how, &written);
        }
    }
}

/// Runs the printed source of a module that looks back as a device without fences between blocks
/// does: launched twice. An optimised build does not.
pub(crate) fn run_without_fences(
    module: &Module,
    [blocks, threads, elements]: [usize; 3],
    arguments: &[Argument],
    shared: &[u64],
    check: impl Fn(&Launch),
) {
    crate::tests::look_for_devices();
    if !cfg!(debug_assertions) || !opencl_or_skip() {
        return;
    }
    let dialect = Dialect::OpenCl(OpenClFeatures {
        device_fence: false,
        ptx: false,
        ..opencl_features()
    });
    let printed = module.print(dialect, &Options::new(dialect, IndexWidth::Bits32));
    let printed = printed.unwrap_or_else(|error| panic!("{error}"));
    let program = OpenClProgram::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
    let extents = [blocks, threads, elements].map(|extent| [extent as u64]);
    let [blocks, threads, elements] = extents;
    let division = Division::new(blocks, threads, elements);
    let launch = Launch::new(division, arguments.to_vec());
    let mut launch = launch.with_shared(shared.iter().copied());
    for _ in 0..2 {
        assert_eq!(program.run(&mut launch).unwrap(), None);
    }
    check(&launch);
}

/// Runs a kernel in every way: `everywhere!(kernel, division, [lengths of shared arrays]; name =
/// given, …)`. Gives what there is natively, as a tuple. With `contiguous` in front, where a kernel
/// is one of neighbouring elements.
macro_rules! everywhere {
    (contiguous $($rest:tt)*) => {
        $crate::tests::modes::everywhere!(@ Some(quipu_kernel_ir::ElementOrder::Contiguous), $($rest)*)
    };
    (@ $order:expr, $kernel:ty, $division:expr, [$($shared:expr),*]; $($name:ident = $given:expr),* $(,)?) => {{
        use $crate::tests::modes::Given as _;
        let division = *$division.as_ref().unwrap();
        let ($($name,)*) = ($($given,)*);
        let run = |mode| {
            $(let mut $name = $name.clone();)*
            let launch = $crate::tests::modes::prepare::<$kernel, _, _>(($($name.pass(),)*), division);
            $crate::tests::modes::run(launch, mode);
            ($($name,)*)
        };
        let arguments = [$($name.argument()),*];
        let mut modes = $crate::tests::modes::modes().into_iter();
        let native = run(modes.next().unwrap());
        for mode in modes {
            let how = format!("{mode:?}");
            let other = run(mode);
            $crate::tests::modes::GivenAll::compare(&native, &how, &other);
        }
        let module = $crate::tests::modes::source::<$kernel, _>(&division);
        let shared = [$($shared),*];
        $crate::tests::modes::run_printed(&module, &division, &arguments, &shared, $order, |how, launch| {
            let ($($name,)*) = &native;
            let mut at = 0;
            $(
                $name.compare_printed(how, launch, at);
                at += 1;
            )*
            assert_eq!(at, arguments.len());
        });
        native
    }};
    ($($rest:tt)*) => {
        $crate::tests::modes::everywhere!(@ None, $($rest)*)
    };
}

pub(crate) use everywhere;

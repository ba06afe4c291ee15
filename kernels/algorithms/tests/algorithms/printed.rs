//! Runs the printed source of a kernel.

use bytemuck::NoUninit;
use quipu::WorkDivision;
use quipu_kernel_ir::{Dialect, IndexWidth, Module, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch};

/// Compares bits, of which NaN has some, too.
pub(crate) fn compare<T: NoUninit>(native: &[T], printed: &[T]) {
    assert_eq!(native.len(), printed.len());
    for (at, (native, printed)) in native.iter().zip(printed).enumerate() {
        let (native, printed) = (bytemuck::bytes_of(native), bytemuck::bytes_of(printed));
        assert_eq!(native, printed, "element {at}: natively, and printed");
    }
}

/// Runs the C99 of a module with indices of both widths, and calls `check` with what it has written. `shared` are the
/// lengths of shared arrays that depend on the launch.
pub(crate) fn run_printed<const D: usize>(
    module: &Module,
    division: &WorkDivision<D>,
    arguments: &[Argument],
    shared: &[u64],
    check: impl Fn(&Launch),
) {
    module.verify().unwrap();
    let extent = |extent: [usize; D]| extent.map(|component| component as u64);
    let division = Division::new(
        extent(division.grid_blocks().components()),
        extent(division.block_threads().components()),
        extent(division.thread_elements().components()),
    );
    for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
        let printed = module
            .print(Dialect::C99, &Options::new(Dialect::C99, width))
            .unwrap();
        let program = C99Program::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
        let mut launch =
            Launch::new(division.clone(), arguments.to_vec()).with_shared(shared.iter().copied());
        assert_eq!(program.run(&mut launch).unwrap(), None);
        check(&launch);
    }
}

//! Arguments of launches in the core's form, for kernels that the compiler for processors has made.

use crate::client::ClcError;
use crate::image::Image;
use crate::metadata::ParameterKind;
use crate::program::Program;
use crate::run::{Argument, Grid, Kernel};
use quipu_scheduler::{Passed, PassedParameter, RawArgument};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

/// The division of a launch.
fn grid(passed: &Passed) -> Result<Grid, ClcError> {
    let dimensions = passed.blocks.len();
    if dimensions > 3 {
        return Err(ClcError::Launch(format!(
            "OpenCL C has up to three dimensions, and not {dimensions}"
        )));
    }
    // The core counts the slowest dimension first.
    let axes = |extents: &[u64], otherwise: u64| -> [u64; 3] {
        std::array::from_fn(|axis| extents.iter().rev().nth(axis).copied().unwrap_or(otherwise))
    };
    let local = axes(&passed.threads, 1);
    let mut local_size = [0; 3];
    for (small, size) in local_size.iter_mut().zip(local) {
        *small = u32::try_from(size).map_err(|_| {
            ClcError::Launch(format!(
                "a work-group of {size} work-items along an axis is too large"
            ))
        })?;
    }
    let groups = axes(&passed.blocks, 1);
    let global_size = match passed.all_threads.is_empty() {
        true => std::array::from_fn(|axis| groups[axis].saturating_mul(local[axis])),
        false => axes(&passed.all_threads, 1),
    };
    let mut grid = Grid::new(dimensions as u32, global_size, local_size);
    grid.offset = axes(&passed.offset, 0);
    match grid.groups() == groups {
        true => Ok(grid),
        false => Err(ClcError::Launch(
            "the numbers of work-items and of work-groups do not fit each other".to_owned(),
        )),
    }
}

impl Program {
    /// The kernel for a launch, compiled if it is not yet.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_for(&self, name: &str, passed: &Passed) -> Result<Arc<Kernel>, Arc<ClcError>> {
        self.compile_for_grid(name, &grid(passed)?)
    }
}

impl Kernel {
    /// Runs work-groups of a launch that was [compiled for](Program::compile_for). `memories` are
    /// its memory, in order. A value of as many zeros as a pointer has bytes, where the kernel
    /// takes a pointer, is the null pointer. An image is its memory, and then a value, which is its
    /// [layout](Image::layout).
    ///
    /// # Errors
    /// As [`check`](Self::check); if an image does not lie in its memory.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    pub unsafe fn run_passed(
        &self,
        passed: &Passed,
        memories: &[RawArgument],
        groups: Range<u64>,
    ) -> Result<(), ClcError> {
        let images = self.images(passed, memories)?;
        let (mut images, mut memories) = (images.iter(), memories.iter());
        let mut kinds = self
            .info()
            .parameters
            .iter()
            .map(|parameter| parameter.kind);
        let mut parameters = passed.parameters.iter();
        let mut arguments = Vec::with_capacity(passed.parameters.len());
        while let Some(parameter) = parameters.next() {
            let kind = kinds.next();
            arguments.push(match parameter {
                PassedParameter::Value(bytes)
                    if matches!(kind, Some(ParameterKind::Memory(_))) && is_null(bytes) =>
                {
                    Argument::Address(std::ptr::null_mut())
                }
                PassedParameter::Value(bytes) => Argument::Value(bytes),
                PassedParameter::Memory { .. } => {
                    let memory = memories.next();
                    match kind {
                        Some(ParameterKind::Image(_)) if let Some(image) = images.next() => {
                            // Its layout.
                            parameters.next();
                            Argument::Image(image)
                        }
                        _ => memory.map_or(Argument::Address(std::ptr::null_mut()), |memory| {
                            Argument::Memory(memory.pointer, memory.length)
                        }),
                    }
                }
                PassedParameter::Local(bytes) => Argument::Local(*bytes),
            });
        }
        // SAFETY: the memory is the launch's, and each group is run once: this function asks its
        // caller for what `run` does.
        unsafe { self.run(&grid(passed)?, &arguments, groups) }
    }
}

impl Kernel {
    /// The images that a launch passes, in order.
    fn images(&self, passed: &Passed, memories: &[RawArgument]) -> Result<Vec<Image>, ClcError> {
        let mut images = Vec::new();
        let (mut parameters, mut memories) = (passed.parameters.iter(), memories.iter());
        for parameter in &self.info().parameters {
            let memory = match parameters.next() {
                Some(PassedParameter::Memory { .. }) => memories.next(),
                _ => None,
            };
            if !matches!(parameter.kind, ParameterKind::Image(_)) {
                continue;
            }
            let layout = match parameters.next() {
                // SAFETY: a value that is passed where an image is wanted is its layout.
                Some(PassedParameter::Value(bytes)) => unsafe { Image::passed_layout(bytes) },
                _ => None,
            };
            let (Some(memory), Some(layout)) = (memory, layout) else {
                return Err(ClcError::Launch(format!(
                    "kernel '{}' takes an image as `{}`, and something else is passed",
                    self.info().name,
                    parameter.name
                )));
            };
            images.push(Image::new(&layout, memory.pointer, memory.length as u64)?);
        }
        Ok(images)
    }
}

impl Image {
    /// The layout that is passed as a value; none if the value has another size.
    ///
    /// # Safety
    /// All bytes are initialised, as those of [`layout`](Self::layout) are.
    #[must_use]
    pub unsafe fn passed_layout(bytes: &[MaybeUninit<u8>]) -> Option<[u8; Self::LAYOUT_BYTES]> {
        let bytes: &[MaybeUninit<u8>; Self::LAYOUT_BYTES] = bytes.try_into().ok()?;
        // SAFETY: the caller promises it.
        Some(bytes.map(|byte| unsafe { byte.assume_init() }))
    }
}

/// True if the bytes are those of a null pointer.
fn is_null(bytes: &[MaybeUninit<u8>]) -> bool {
    // Whoever passes a value where a pointer is wanted passes a number, all of whose bytes are
    // something. SAFETY: as said; a structure's gaps are passed for no pointer, for its size would
    // be another.
    bytes.len() == size_of::<*mut u8>()
        && bytes.iter().all(|byte| unsafe { byte.assume_init() } == 0)
}

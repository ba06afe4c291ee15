//! Launches: from the passed values to the arguments of a printed kernel.

use crate::error::of_device;
use crate::vendor::VendorDevice;
use quipu_kernel_ir::print::{EntryKind, EntryParameter};
use quipu_kernel_ir::{Dialect, IndexWidth, Module, Options, Printed, SharedLength};
use quipu_scheduler::access::{Argument, PackedAccess};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{Error, Passed, PassedParameter};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A launch's code, and its parameters.
pub struct Code<C> {
    /// The kernel.
    pub compiled: Arc<C>,
    /// The rest.
    pub passed: Passed,
}

/// The same, borrowed.
pub struct CodeRef<'a, C> {
    /// The kernel.
    pub compiled: &'a Arc<C>,
    /// The rest.
    pub passed: &'a Passed,
}

impl<C> Clone for CodeRef<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for CodeRef<'_, C> {}

/// Numbers from here on need wide indices.
const NARROW: u64 = 1 << 31;

/// The width of indices that a launch likely needs, as long as its parameters are not known.
#[must_use]
pub(crate) fn likely_width(arguments: &[Argument<'_>]) -> IndexWidth {
    let mut arguments = arguments.iter();
    if arguments.all(|argument| argument.length() < NARROW) {
        IndexWidth::Bits32
    } else {
        IndexWidth::Bits64
    }
}

/// The width of indices that a launch needs.
#[must_use]
pub(crate) fn width_of(arguments: &[Argument<'_>], passed: &Passed) -> IndexWidth {
    width_with(arguments.iter().map(|argument| argument.length()), passed)
}

/// The same, of memory of so many bytes.
fn width_with(mut lengths: impl Iterator<Item = u64>, passed: &Passed) -> IndexWidth {
    let narrow = |number: Option<u64>| number.is_some_and(|number| number < NARROW);
    let parameters = passed.parameters.iter().all(|parameter| match parameter {
        PassedParameter::Value(_) | PassedParameter::Local(_) => true,
        PassedParameter::Memory { element, shape } => {
            let bytes = lengths.next().unwrap_or(0);
            narrow(Some(bytes / (*element).max(1)))
                && shape.as_deref().is_none_or(|(extents, strides)| {
                    let both = extents.iter().zip(strides);
                    both.into_iter()
                        .all(|(extent, stride)| narrow(extent.checked_mul(*stride)))
                })
        }
    });
    // Along each dimension, as there may be nothing along another; and all together, as a kernel
    // numbers them in a grid.
    let mut positions = Some(1_u64);
    let grid = (0..passed.blocks.len()).all(|dimension| {
        let along = passed.blocks[dimension]
            .checked_mul(passed.threads[dimension])
            .and_then(|threads| threads.checked_mul(passed.elements[dimension]));
        positions = positions.and_then(|before| before.checked_mul(along?));
        narrow(along)
    }) && narrow(positions);
    let sizes = narrow(Some(passed.largest_size));
    if parameters && grid && sizes && passed.shared.iter().all(|length| *length < NARROW) {
        IndexWidth::Bits32
    } else {
        IndexWidth::Bits64
    }
}

/// Has every thread have one element, if its division was left to the device, the grid may have so
/// many blocks, and indices of the same width do. Threads whose elements take different times then
/// wait for none but each other.
pub(crate) fn one_element_each(
    passed: &mut Passed,
    arguments: &[Argument<'_>],
    most_blocks: [u64; 3],
) {
    let dimensions = passed.threads.len();
    // More than three share an axis.
    if !passed.automatic || dimensions > most_blocks.len() {
        return;
    }
    let mut divided = passed.clone();
    for d in 0..dimensions {
        let most = most_blocks[most_blocks.len() - dimensions + d];
        let elements = std::mem::replace(&mut divided.elements[d], 1);
        match divided.blocks[d].checked_mul(elements) {
            Some(blocks) if blocks <= most => divided.blocks[d] = blocks,
            _ => return,
        }
    }
    if width_of(arguments, &divided) == width_of(arguments, passed) {
        *passed = divided;
    }
}

/// Limits the blocks to so many, if the division was left to the device. Threads then have more
/// elements.
pub(crate) fn limit_blocks(passed: &mut Passed, most: u64) {
    if !passed.automatic {
        return;
    }
    let mut left = most.max(1);
    for blocks in passed.blocks.iter_mut().rev() {
        *blocks = (*blocks).min(left);
        left /= (*blocks).max(1);
    }
}

/// Limits the threads of blocks to the kernel's best number, if its division was left to the device
/// and indices of the same width do. `fitting` gives that number for the number that is asked for.
pub(crate) fn fit(
    passed: &mut Passed,
    arguments: &[Argument<'_>],
    most: [u64; 3],
    fitting: impl FnOnce(u64) -> u64,
) {
    let dimensions = passed.threads.len();
    // More than three share an axis.
    if !passed.automatic || dimensions > most.len() {
        return;
    }
    let product = |numbers: &Extents| {
        numbers
            .iter()
            .try_fold(1_u64, |all, it| all.checked_mul(*it))
    };
    let (Some(asked), Some(blocks)) = (product(&passed.threads), product(&passed.blocks)) else {
        return;
    };
    let wanted = fitting(asked).max(1);
    if blocks == 0 || wanted == asked || (wanted > asked && blocks == 1) {
        return;
    }
    let (mut divided, mut left) = (passed.clone(), wanted);
    for d in (0..dimensions).rev() {
        let Some(threads) = passed.blocks[d].checked_mul(passed.threads[d]) else {
            return;
        };
        let most = most[most.len() - dimensions + d];
        let of_block = threads.min(left).min(most).max(1);
        divided.threads[d] = of_block;
        divided.blocks[d] = threads.div_ceil(of_block);
        left /= of_block;
    }
    if width_of(arguments, &divided) == width_of(arguments, passed) {
        *passed = divided;
    }
}

/// Prints a kernel for a device.
///
/// # Errors
/// If the dialect has no form for something in it.
pub fn print(
    device: &impl VendorDevice,
    module: &Module,
    dialect: Dialect,
    options: &Options,
) -> Result<Printed> {
    module.print(dialect, options).map_err(|error| {
        let what = format!("print kernel '{}' for it", module.kernel.function.name);
        of_device(device.name(), &what, error.to_string())
    })
}

/// An extent along the hardware's axes: the last dimension, the last but one, all others.
#[must_use]
pub fn axes(extent: &[u64]) -> [u64; 3] {
    let from_last = |d: usize| extent.len().checked_sub(d + 1).map_or(1, |at| extent[at]);
    let others = extent.len().saturating_sub(2);
    [
        from_last(0),
        from_last(1),
        extent[..others].iter().product(),
    ]
}

/// A launch asks for more memory that a block shares than there is.
///
/// # Errors
/// If so.
pub fn check_shared(device: &impl VendorDevice, asked: u64) -> Result<()> {
    let there = device.properties().shared_memory_per_block;
    if asked <= there {
        return Ok(());
    }
    Err(ErrorKind::InvalidArgument {
        what: "launch a kernel",
        problem: format!(
            "its blocks share {asked} bytes, and device '{}' has {there} for each; use smaller blocks",
            device.name()
        ),
    }
    .into())
}

/// The error of a launch whose parameters are not those of the kernel.
#[must_use]
pub fn mismatch(parameter: &str) -> Error {
    ErrorKind::InvalidArgument {
        what: "launch a kernel",
        problem: format!(
            "what is passed for '{parameter}' is not what the kernel was printed for; this is an error of the front end"
        ),
    }
    .into()
}

/// The bytes of a value that is passed.
pub type ValueBytes = SmallVec<[MaybeUninit<u8>; 24]>;

/// The bytes of numbers that are passed.
pub type NumberBytes = SmallVec<[u8; 24]>;

/// The value of one parameter of a printed kernel.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// These bytes.
    Bytes(&'a [MaybeUninit<u8>]),
    /// This number, in as many bytes as the parameter has, little-endian, as on every device that
    /// there is a driver for.
    Number(u64),
    /// The [division](Passing::division) of the work.
    Division,
    /// The memory of the command's argument of this number; OpenCL's from its memory object's first
    /// byte on.
    Memory(usize),
    /// Memory of so many bytes that a block shares.
    Shared(usize),
    /// The start of the array of this number in the memory that a block shares. A launch gives the
    /// lengths of these arrays.
    SharedStart(usize),
    /// The kernel's fault record.
    Fault,
    /// The words of the kernel's barriers of the grid.
    GridBarrier,
}

/// The parameters of a launch, and its kernel.
pub struct Passing<'a> {
    /// The kernel.
    pub module: &'a Module,
    /// The same, printed.
    pub printed: &'a Printed,
    /// The parameters.
    pub passed: &'a Passed,
    /// The command's arguments.
    pub arguments: &'a [PackedAccess],
}

impl Passing<'_> {
    /// The value of each parameter; an error if the kernel was printed for another one.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'_>>> {
        let parameters = self.printed.parameters.iter();
        parameters.map(|entry| self.value(entry))
    }

    /// The division of the work, as printed kernels take it.
    #[must_use]
    pub fn division(&self) -> NumberBytes {
        let passed = self.passed;
        let numbers = [&passed.blocks, &passed.threads, &passed.elements];
        let width = self.printed.index_width.bytes() as usize;
        let mut bytes = NumberBytes::new();
        for number in numbers.into_iter().flatten() {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        bytes
    }

    fn value(&self, entry: &EntryParameter) -> Result<Value<'_>> {
        let width = self.printed.index_width;
        let index = |number: u64| (entry.size == width.bytes()).then_some(Value::Number(number));
        let shared = |number: u32| self.passed.shared.get(number as usize).copied();
        let value = match entry.kind {
            EntryKind::Uniform { parameter } => match self.passed.parameters.get(parameter) {
                Some(PassedParameter::Value(bytes)) => {
                    let bytes = self.module.uniform(parameter, bytes, width);
                    let bytes = bytes.filter(|bytes| bytes.len() as u64 == entry.size);
                    bytes.map(Value::Bytes)
                }
                _ => None,
            },
            EntryKind::Pointer { parameter } => {
                let memory = self.memory(parameter);
                memory.map(|memory| Value::Memory(memory.number))
            }
            EntryKind::Start { parameter } => self.memory(parameter).and_then(|memory| {
                let start = memory.argument.offset() / memory.element;
                (entry.size == size_of::<u64>() as u64).then_some(Value::Number(start))
            }),
            EntryKind::Length { parameter } => {
                let memory = self.memory(parameter);
                memory.and_then(|memory| index(memory.length()))
            }
            EntryKind::Extent {
                parameter,
                dimension,
            } => {
                let memory = self.memory(parameter);
                let extent = memory.and_then(|memory| memory.extent(dimension));
                extent.and_then(index)
            }
            EntryKind::Stride {
                parameter,
                dimension,
            } => {
                let memory = self.memory(parameter);
                let stride = memory.and_then(|memory| memory.stride(dimension));
                stride.and_then(index)
            }
            EntryKind::SharedPointer { shared: array } => shared(array.0).map(|length| {
                let size = self.printed.shared[array.0 as usize].element_size;
                Value::Shared(length.saturating_mul(size).max(1) as usize)
            }),
            EntryKind::SharedOffset { shared: array } => {
                self.launched(array.0).map(Value::SharedStart)
            }
            EntryKind::SharedLength { shared: array } => shared(array.0).and_then(index),
            EntryKind::Launch => {
                let passed = self.passed;
                let numbers = passed.blocks.len() + passed.threads.len() + passed.elements.len();
                (numbers as u64 * width.bytes() == entry.size).then_some(Value::Division)
            }
            EntryKind::Fault => Some(Value::Fault),
            EntryKind::GridBarrier => Some(Value::GridBarrier),
        };
        value.ok_or_else(|| mismatch(&entry.name))
    }

    /// The how-manyeth an array is of those whose length a launch gives, if it is one.
    fn launched(&self, number: u32) -> Option<usize> {
        let (before, from) = self.printed.shared.split_at_checked(number as usize)?;
        let is_launched = |length: SharedLength| length == SharedLength::Launch;
        let before = before.iter().filter(|array| is_launched(array.length));
        is_launched(from.first()?.length).then(|| before.count())
    }

    /// The memory of a parameter.
    fn memory(&self, parameter: usize) -> Option<PassedMemory<'_>> {
        let before = self.passed.parameters.get(..parameter)?;
        let is_memory =
            |passed: &&PassedParameter| matches!(passed, PassedParameter::Memory { .. });
        let number = before.iter().filter(is_memory).count();
        let PassedParameter::Memory { element, shape } = self.passed.parameters.get(parameter)?
        else {
            return None;
        };
        Some(PassedMemory {
            number,
            argument: self.arguments.get(number)?,
            element: (*element).max(1),
            shape: shape.as_deref(),
        })
    }
}

/// The memory of a parameter.
struct PassedMemory<'a> {
    number: usize,
    argument: &'a PackedAccess,
    element: u64,
    shape: Option<&'a (Extents, Extents)>,
}

impl PassedMemory<'_> {
    fn length(&self) -> u64 {
        self.argument.length() / self.element
    }

    fn extent(&self, dimension: usize) -> Option<u64> {
        match self.shape {
            Some((extents, _)) => extents.get(dimension).copied(),
            None => (dimension == 0).then(|| self.length()),
        }
    }

    fn stride(&self, dimension: usize) -> Option<u64> {
        match self.shape {
            Some((_, strides)) => strides.get(dimension).copied(),
            None => (dimension == 0).then_some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(blocks: &[u64], threads: &[u64]) -> Passed {
        Passed {
            blocks: blocks.iter().copied().collect(),
            threads: threads.iter().copied().collect(),
            elements: threads.iter().map(|_| 4).collect(),
            automatic: true,
            ..Passed::default()
        }
    }

    #[test]
    fn indices_are_wide_where_a_number_is() {
        use IndexWidth::{Bits32, Bits64};
        const LAST: u64 = NARROW - 1;
        let width = |lengths: &[u64], passed: &Passed| width_with(lengths.iter().copied(), passed);
        let memory = |element, shape: Option<([u64; 2], [u64; 2])>| {
            let shape = shape.map(|(extents, strides)| {
                let numbers = |numbers: [u64; 2]| numbers.into_iter().collect();
                Box::new((numbers(extents), numbers(strides)))
            });
            Passed {
                parameters: [PassedParameter::Memory { element, shape }]
                    .into_iter()
                    .collect(),
                ..Passed::default()
            }
        };
        // Elements, not bytes.
        assert_eq!(width(&[4 * LAST], &memory(4, None)), Bits32);
        assert_eq!(width(&[4 * NARROW], &memory(4, None)), Bits64);
        for (extents, strides, expected) in [
            ([3, LAST], [LAST / 3, 1], Bits32),
            ([3, 5], [NARROW / 3 + 1, 1], Bits64),
            ([1, NARROW], [1, 1], Bits64),
            ([u64::MAX, 1], [2, 1], Bits64),
        ] {
            let view = memory(4, Some((extents, strides)));
            assert_eq!(width(&[0], &view), expected, "{extents:?} {strides:?}");
        }
        // In threads of 4 by 4 elements.
        for (blocks, threads, expected) in [
            ([1, 1 << 20], [1, (1 << 7) - 1], Bits32),
            ([1, 1 << 20], [1, 1 << 9], Bits64),
            ([1 << 20, 1], [1 << 9, 1], Bits64),
            ([u64::MAX, 1], [2, 1], Bits64),
            // A kernel numbers the elements of all dimensions together.
            ([1 << 8, 1 << 8], [1 << 6, (1 << 5) - 1], Bits32),
            ([1 << 8, 1 << 8], [1 << 6, 1 << 5], Bits64),
            ([1 << 12, 1 << 12], [1 << 4, 1 << 4], Bits64),
            ([1 << 28, 1 << 28], [1, 1], Bits64),
            ([0, 1 << 28], [1, 1], Bits32),
            ([0, 1 << 29], [1, 1], Bits64),
        ] {
            let grid = divided(&blocks, &threads);
            assert_eq!(width(&[], &grid), expected, "{blocks:?} {threads:?}");
        }
        for (number, expected) in [(LAST, Bits32), (NARROW, Bits64), (u64::MAX, Bits64)] {
            let shared = Passed {
                shared: [1, number].into_iter().collect(),
                ..Passed::default()
            };
            assert_eq!(width(&[], &shared), expected, "{number} shared");
            let size = Passed {
                largest_size: number,
                ..Passed::default()
            };
            assert_eq!(width(&[], &size), expected, "a value of {number}");
        }
    }

    const MOST: [u64; 3] = [64, 1024, 1024];

    fn fit(passed: &Passed, wanted: u64) -> (Vec<u64>, Vec<u64>) {
        let mut fitted = passed.clone();
        super::fit(&mut fitted, &[], MOST, |_| wanted);
        assert_eq!(fitted.elements, passed.elements);
        (fitted.blocks.to_vec(), fitted.threads.to_vec())
    }

    #[test]
    fn blocks_have_as_many_threads_as_fit() {
        let line = divided(&[100], &[256]);
        assert_eq!(fit(&line, 256), (vec![100], vec![256]));
        assert_eq!(fit(&line, 96), (vec![267], vec![96]));
        assert_eq!(fit(&line, 512), (vec![50], vec![512]));
        assert_eq!(fit(&line, 0), (vec![25_600], vec![1]));
        assert_eq!(fit(&line, 4096), (vec![25], vec![1024]));
        // There is no more to be done.
        assert_eq!(fit(&divided(&[1], &[100]), 256), (vec![1], vec![100]));
        assert_eq!(fit(&divided(&[1], &[100]), 32), (vec![4], vec![32]));
        assert_eq!(fit(&divided(&[0], &[1]), 32), (vec![0], vec![1]));
        let plane = divided(&[64, 2], &[4, 64]);
        assert_eq!(fit(&plane, 1024), (vec![32, 1], vec![8, 128]));
        assert_eq!(fit(&plane, 32), (vec![256, 4], vec![1, 32]));
    }

    #[test]
    fn threads_have_one_element_where_the_grid_may_be_so_large() {
        let most = [65_535, 65_535, u32::MAX.into()];
        let of = |passed: &Passed| {
            let mut divided = passed.clone();
            super::one_element_each(&mut divided, &[], most);
            (divided.blocks.to_vec(), divided.elements.to_vec())
        };
        let given = |blocks: &[u64], elements: &[u64]| Passed {
            elements: elements.iter().copied().collect(),
            ..divided(blocks, &vec![32; blocks.len()])
        };
        assert_eq!(of(&given(&[100], &[4])), (vec![400], vec![1]));
        assert_eq!(of(&given(&[7, 5], &[2, 4])), (vec![14, 20], vec![1, 1]));
        assert_eq!(of(&given(&[0], &[4])), (vec![0], vec![1]));
        // There are not so many blocks along the first axis, or in all.
        assert_eq!(
            of(&given(&[40_000, 1], &[2, 1])),
            (vec![40_000, 1], vec![2, 1])
        );
        assert_eq!(of(&given(&[u64::MAX], &[2])), (vec![u64::MAX], vec![2]));
        let chosen = Passed {
            automatic: false,
            ..given(&[100], &[4])
        };
        assert_eq!(of(&chosen), (vec![100], vec![4]));
    }

    #[test]
    fn every_position_has_a_thread() {
        for blocks in [1, 2, 7, 64] {
            for threads in [1, 3, 32, 256] {
                for wanted in 1..300 {
                    let before = divided(&[blocks, 5], &[2, threads]);
                    let (blocks, threads) = fit(&before, wanted);
                    for d in 0..2 {
                        let covered = blocks[d] * threads[d];
                        let needed = before.blocks[d] * before.threads[d];
                        assert!(covered >= needed && covered - needed < threads[d]);
                    }
                    let asked = before.threads.iter().product::<u64>();
                    assert!(threads.iter().product::<u64>() <= wanted.max(asked));
                }
            }
        }
    }

    #[test]
    fn what_a_user_has_chosen_stays() {
        let mut chosen = divided(&[100], &[256]);
        chosen.automatic = false;
        assert_eq!(fit(&chosen, 32), (vec![100], vec![256]));
        // Rounded up, it would need wide indices.
        let near = divided(&[(1 << 31) / 4 - 1], &[1]);
        assert_eq!(fit(&near, 1024), (vec![(1 << 31) / 4 - 1], vec![1]));
        let deep = divided(&[2, 2, 2, 2], &[1, 1, 1, 8]);
        assert_eq!(fit(&deep, 4).1, [1, 1, 1, 8]);
    }

    #[test]
    fn blocks_are_limited_where_the_device_divides() {
        for (blocks, most, expected) in [
            (&[10, 20][..], 1000, [10, 20]),
            (&[10, 20], 100, [5, 20]),
            (&[10, 20], 30, [1, 20]),
            (&[10, 20], 7, [1, 7]),
            (&[10, 20], 0, [1, 1]),
        ] {
            let mut passed = divided(blocks, &[1, 1]);
            limit_blocks(&mut passed, most);
            assert_eq!(passed.blocks[..], expected);
            passed = divided(blocks, &[1, 1]);
            passed.automatic = false;
            limit_blocks(&mut passed, most);
            assert_eq!(passed.blocks[..], *blocks);
        }
    }
}

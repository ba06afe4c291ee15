//! Arguments for code that a driver compiles, gathered parameter by parameter.

use super::argument::ExtentsAndStrides;
use quipu_kernel::{Shape, ValueParameter, WorkDivision};
use quipu_scheduler::access::Argument;
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{ErrorKind, Passed, PassedParameter, Result};
use std::any::Any;
use std::mem::MaybeUninit;

/// The lengths of a kernel's shared arrays, from the values that are passed to it.
pub(crate) type Lengths<const D: usize> = fn(&[&dyn Any], WorkDivision<D>) -> Option<Vec<usize>>;

/// The parameters that have been gathered so far.
#[doc(hidden)]
pub struct Passing<'a> {
    arguments: std::slice::Iter<'a, Argument<'a>>,
    passed: &'a mut Passed,
    /// The values that lengths of shared arrays may depend on, if there are any.
    known: Option<Vec<Box<dyn Any>>>,
}

impl<'a> Passing<'a> {
    /// Nothing yet, of a launch with these arguments; gathered in `passed`, which is empty.
    pub(crate) fn new(
        arguments: &'a [Argument<'a>],
        has_shared: bool,
        passed: &'a mut Passed,
    ) -> Self {
        Self {
            arguments: arguments.iter(),
            passed,
            known: has_shared.then(Vec::new),
        }
    }

    /// A value.
    pub(crate) fn value<T: Copy + 'static>(&mut self, value: T) {
        self.passed.parameters.push(PassedParameter::value(&value));
        if let Some(known) = &mut self.known {
            known.push(Box::new(value));
        }
    }

    /// A value, by its bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let bytes = bytes.iter().copied().map(MaybeUninit::new).collect();
        self.passed.parameters.push(PassedParameter::Value(bytes));
    }

    /// So many bytes of each block's memory.
    pub(crate) fn local(&mut self, bytes: u64) {
        self.passed.parameters.push(PassedParameter::Local(bytes));
    }

    /// A value of a kernel that `#[kernel]` made, whose indices have to have room for it if it is a
    /// size.
    pub(crate) fn parameter<T: ValueParameter>(&mut self, value: T) {
        self.passed.largest_size = self.passed.largest_size.max(value.index());
        self.value(value);
    }

    /// The next argument, with elements of so many bytes.
    pub(crate) fn memory(&mut self, element: usize, shape: ExtentsAndStrides<'_>) {
        let bytes = self
            .arguments
            .next()
            .map_or(0, |argument| argument.length());
        if let Some(known) = &mut self.known {
            known.push(Box::new(match shape {
                Some((extents, _)) => Shape::new(extents),
                None => Shape::new([bytes as usize / element.max(1)]),
            }));
        }
        self.passed.parameters.push(PassedParameter::Memory {
            element: element as u64,
            shape: shape.map(|(extents, strides)| Box::new((wide(extents), wide(strides)))),
        });
    }

    /// Adds how the work is divided. (`lengths` is a function, and no closure, so that this is
    /// compiled once, and not again for each kernel.)
    pub(crate) fn finish<const D: usize>(
        self,
        division: WorkDivision<D>,
        lengths: Lengths<D>,
    ) -> Result<()> {
        let passed = self.passed;
        passed.blocks = wide(&division.grid_blocks().components());
        passed.threads = wide(&division.block_threads().components());
        passed.elements = wide(&division.thread_elements().components());
        if let Some(known) = self.known {
            let known: Vec<&dyn Any> = known.iter().map(|known| &**known).collect();
            let lengths = lengths(&known, division).ok_or_else(|| ErrorKind::InvalidArgument {
                what: "launch a kernel",
                problem: "the lengths of its shared arrays cannot be computed from its arguments"
                    .to_owned(),
            })?;
            passed.shared = lengths.into_iter().map(|length| length as u64).collect();
        }
        Ok(())
    }
}

#[inline]
fn wide(numbers: &[usize]) -> Extents {
    let mut few = [0; 3];
    if numbers.len() > few.len() {
        return numbers.iter().map(|number| *number as u64).collect();
    }
    for (wide, number) in few.iter_mut().zip(numbers) {
        *wide = *number as u64;
    }
    Extents::from_buf_and_len(few, numbers.len())
}

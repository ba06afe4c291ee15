//! Overlaps of the bytes that the arguments of one command touch.

use quipu_scheduler::region::Region;
use quipu_scheduler::{Access, ErrorKind, Passed, PassedParameter, Result};

/// Refuses accesses if one writes bytes that another touches. `pass` says how they are seen, if
/// anything overlaps from its first byte to its last.
#[inline]
pub(crate) fn refuse_overlap(
    what: &'static str,
    accesses: &[Access<'_>],
    pass: impl FnOnce(&mut Passed),
) -> Result<()> {
    match accesses_overlap(accesses, |_, _| true) {
        None => Ok(()),
        Some(_) => refuse_shared_bytes(what, accesses, pass),
    }
}

/// The first two accesses for which this holds, and of which one writes bytes between the first and
/// the last byte of the other.
#[inline]
fn accesses_overlap(
    accesses: &[Access<'_>],
    holds: impl Fn(usize, usize) -> bool,
) -> Option<(usize, usize)> {
    for (index, one) in accesses.iter().enumerate() {
        for (other_index, other) in accesses.iter().enumerate().skip(index + 1) {
            if std::ptr::eq(one.memory, other.memory)
                && (one.mode.writes() || other.mode.writes())
                && one.offset < other.offset + other.length
                && other.offset < one.offset + one.length
                && holds(index, other_index)
            {
                return Some((index, other_index));
            }
        }
    }
    None
}

/// As [`refuse_overlap`], row by row.
#[cold]
fn refuse_shared_bytes(
    what: &'static str,
    accesses: &[Access<'_>],
    pass: impl FnOnce(&mut Passed),
) -> Result<()> {
    let regions = regions_of(accesses, pass);
    match accesses_overlap(accesses, |one, other| regions[one].meets(&regions[other])) {
        None => Ok(()),
        Some((one, other)) => Err(overlap(what, &accesses[one], &accesses[other])),
    }
}

/// The region of each of its accesses that a kernel touches. `pass` says how they are seen.
fn regions_of(accesses: &[Access<'_>], pass: impl FnOnce(&mut Passed)) -> Vec<Region> {
    let mut passed = Passed::default();
    pass(&mut passed);
    let mut shapes = passed
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            PassedParameter::Memory { element, shape } => Some((*element, shape.as_deref())),
            _ => None,
        });
    let region = |access: &Access<'_>| match shapes.next() {
        Some((element, Some((extents, strides)))) => {
            region_of(access.offset, element, extents, strides)
        }
        _ => Region::new(access.offset, access.length, []),
    };
    accesses.iter().map(region).collect()
}

/// The rows of those accesses that have gaps, as a [`Request`](quipu_scheduler::Request) names
/// them.
#[cold]
pub(crate) fn rows_with_gaps(
    accesses: &[Access<'_>],
    pass: impl FnOnce(&mut Passed),
) -> Vec<(usize, Region)> {
    let regions = regions_of(accesses, pass).into_iter().enumerate();
    regions.filter(|(_, region)| region.has_gaps()).collect()
}

/// An array from `start` on whose elements have so many bytes, and whose neighbours along each
/// dimension are so many elements apart.
pub(crate) fn region_of(start: u64, element: u64, extents: &[u64], strides: &[u64]) -> Region {
    let row = extents.last().map_or(0, |row| row.saturating_mul(element));
    let outer = extents.len().saturating_sub(1);
    let steps = extents.iter().zip(strides).take(outer);
    let steps = steps.map(|(extent, stride)| (*extent, stride.saturating_mul(element)));
    Region::new(start, row, steps)
}

#[cold]
fn overlap(what: &'static str, one: &Access<'_>, other: &Access<'_>) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what,
        problem: format!(
            "bytes {}..{} and {}..{} of {} overlap, and one of the arguments is written; pass parts that do not overlap, or a copy",
            one.offset,
            one.offset + one.length,
            other.offset,
            other.offset + other.length,
            one.memory.label()
        ),
    }
    .into()
}

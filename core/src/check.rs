//! Checks of launches, fills and copies, before they are enqueued or recorded.

use crate::access::AccessMode;
use crate::error::{ErrorKind, Result};
use crate::memory::access::Access;
use crate::operation::{Fill, Step};
use crate::overlap::refuse_overlap;
use crate::region::Region;
use smallvec::SmallVec;

/// The most work-groups of one launch.
pub const MAX_GROUPS: u64 = 1 << 31;

#[inline]
pub(crate) fn check_groups(groups: u64) -> Result<u32> {
    match u32::try_from(groups) {
        Ok(small) if groups <= MAX_GROUPS => Ok(small),
        _ => Err(ErrorKind::InvalidSize {
            what: "launch a kernel",
            problem: format!(
                "{groups} work-groups exceed the most of one launch, {MAX_GROUPS}; use larger groups"
            ),
        }
        .into()),
    }
}

/// True if a region has no bytes: a command on it does nothing.
pub(crate) fn is_empty_region(row: u64, steps: &[Step]) -> bool {
    row == 0 || steps.iter().any(|step| step.count == 0)
}

/// An access of no bytes where this one begins. It is still checked that the place is in its memory
/// and context.
pub(crate) fn empty_access(access: Access<'_>) -> Access<'_> {
    Access {
        length: 0,
        mode: AccessMode::Read,
        ..access
    }
}

/// Checks a pattern against the bytes that it is to fill.
pub(crate) fn check_fill(length: u64, pattern: &[u8]) -> Result<Fill> {
    let fill = Fill::new(pattern)
        .filter(|_| length.is_multiple_of(pattern.len() as u64))
        .ok_or_else(|| ErrorKind::InvalidSize {
            what: "fill a buffer",
            problem: format!(
                "a pattern of {} bytes for a range of {length}; use 1 to 16 bytes that divide it",
                pattern.len(),
            ),
        })?;
    Ok(fill)
}

/// Checks a pattern against the rows that it is to fill, at least one, and gives the access that
/// the fill takes.
pub(crate) fn check_fill_rows<'a>(
    destination: Access<'a>,
    pattern: &[u8],
    row: u64,
    steps: &[Step],
) -> Result<(Fill, Access<'a>)> {
    let fill = check_fill(row, pattern)?;
    let bad = |problem: String| ErrorKind::InvalidSize {
        what: "fill a buffer",
        problem,
    };
    let too_long = || {
        bad(format!(
            "rows that do not fit into the {} bytes that are accessed",
            destination.length
        ))
    };
    let fits = |span: &u64| *span <= destination.length;
    let mut span = Some(row).filter(fits).ok_or_else(too_long)?;
    let mut bytes = row;
    for step in steps.iter().rev().filter(|step| step.count > 1) {
        if step.destination_stride < span {
            return Err(bad(format!(
                "rows that overlap: {} steps of {} bytes over what spans {span}; fill them one by one",
                step.count, step.destination_stride
            ))
            .into());
        }
        let further = step.destination_stride.checked_mul(step.count - 1);
        let whole = further.and_then(|further| span.checked_add(further));
        span = whole.filter(fits).ok_or_else(too_long)?;
        // No more than what they span.
        bytes *= step.count;
    }
    let is_dense = bytes == destination.length;
    let access = write_access(destination, is_dense);
    Ok((
        if is_dense {
            fill
        } else {
            fill.of_rows(row, steps)
        },
        access,
    ))
}

/// Checks a region that has bytes against the sides of a copy; true if it covers the destination.
pub(crate) fn check_copy(
    source: &Access<'_>,
    destination: &Access<'_>,
    row: u64,
    steps: &[Step],
) -> Result<bool> {
    let dense = check_region("copy", row, steps, source.length, destination.length)?;
    refuse_overlap(source, destination, row, steps)?;
    Ok(dense)
}

/// The access of a region that is written. A region that is written wholly need not be brought to
/// the device first.
pub(crate) fn write_access(access: Access<'_>, dense: bool) -> Access<'_> {
    let mode = match dense {
        true => AccessMode::Overwrite,
        false => AccessMode::ReadWrite,
    };
    Access { mode, ..access }
}

/// The rows of a copy's or fill's side that starts at an access's first byte, as the access `at`;
/// none if they have no gaps.
pub(crate) fn rows_of(
    at: usize,
    access: &Access<'_>,
    row: u64,
    steps: &[Step],
    stride: fn(&Step) -> u64,
) -> Option<(usize, Region)> {
    let steps = steps.iter().map(|step| (step.count, stride(step)));
    let region = Region::new(access.offset, row, steps);
    region.has_gaps().then_some((at, region))
}

/// As [`rows_of`], of both sides of a copy.
pub(crate) fn rows_of_copy(
    accesses: &[Access<'_>; 2],
    row: u64,
    steps: &[Step],
) -> SmallVec<[(usize, Region); 2]> {
    let source = rows_of(0, &accesses[0], row, steps, |step| step.source_stride);
    let destination = rows_of(1, &accesses[1], row, steps, |step| step.destination_stride);
    source.into_iter().chain(destination).collect()
}

/// Checks a region that has bytes against its sides; true if it covers the destination.
pub(crate) fn check_region(
    what: &'static str,
    row: u64,
    steps: &[Step],
    source: u64,
    destination: u64,
) -> Result<bool> {
    let bad = |problem: String| ErrorKind::InvalidSize { what, problem };
    let span = |stride: fn(&Step) -> u64| {
        steps.iter().try_fold(row, |span, step| {
            span.checked_add(stride(step).checked_mul(step.count - 1)?)
        })
    };
    let bytes = steps
        .iter()
        .try_fold(row, |bytes, step| bytes.checked_mul(step.count));
    match (
        span(|s| s.source_stride),
        span(|s| s.destination_stride),
        bytes,
    ) {
        (Some(from), Some(to), Some(bytes)) if from <= source && to <= destination => {
            // Each step starts where the one inside of it ends: no gaps, and no
            // row on top of another.
            let mut size = row;
            let gapless = steps.iter().rev().all(|step| {
                let adjoins = step.count == 1 || step.destination_stride == size;
                size *= step.count;
                adjoins
            });
            Ok(gapless && bytes == destination)
        }
        (Some(from), Some(to), Some(_)) => Err(bad(format!(
            "the region spans {from} bytes of the source's {source} and {to} of the destination's {destination}"
        ))
        .into()),
        _ => Err(bad("the region's extents overflow 64 bits".to_owned()).into()),
    }
}

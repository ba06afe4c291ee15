//! Whether a copy within one memory object writes what it reads.
//!
//! Two regions may share no byte though the bytes from the first to the last of one lie among those of the other: the
//! halves of an image, each of whose rows is one row of the left half and one of the right.
//!
//! Of regions whose rows are equally far apart that is found out exactly. They share a byte if, and only if, their starts
//! are as far apart as two bytes of *one* of them are: by so many steps along each dimension, fewer than it has, and by
//! less than a row. Of others it is not looked at whether rows miss each other: they overlap if their spans do.

use crate::error::{ErrorKind, Result};
use crate::memory::access::Access;
use crate::operation::Step;

/// Refuses a copy between regions that share bytes. They lie within their accesses, each from its first byte on.
///
/// # Errors
/// If they overlap.
pub fn refuse_overlap(
    source: &Access<'_>,
    destination: &Access<'_>,
    row: u64,
    steps: &[Step],
) -> Result<()> {
    if !std::ptr::eq(source.memory, destination.memory) {
        return Ok(());
    }
    let apart = i128::from(destination.offset) - i128::from(source.offset);
    // With no step, a region is its span.
    let spans_meet = -i128::from(destination.length) < apart && apart < i128::from(source.length);
    if !spans_meet || (steps_are_alike(row, steps) && !meet(apart, row, steps)) {
        return Ok(());
    }
    Err(ErrorKind::InvalidArgument {
        what: "copy",
        problem: "source and destination overlap; copy through another buffer".to_owned(),
    }
    .into())
}

/// True if rows are as far apart in the source as in the destination, and each step leads past what lies within it.
fn steps_are_alike(row: u64, steps: &[Step]) -> bool {
    let mut span = row;
    steps
        .iter()
        .rev()
        .filter(|step| step.count > 1)
        .all(|step| {
            let alike = step.source_stride == step.destination_stride && step.source_stride >= span;
            span = span.saturating_add(step.source_stride.saturating_mul(step.count - 1));
            alike
        })
}

/// True if two regions of these rows share a byte, the second of which starts `apart` bytes after the first.
fn meet(apart: i128, row: u64, steps: &[Step]) -> bool {
    let Some((step, inner)) = steps.split_first() else {
        return apart.unsigned_abs() < u128::from(row);
    };
    if step.count == 1 {
        return meet(apart, row, inner);
    }
    // What lies within a step is shorter than it: only the multiples on either side are near enough.
    let stride = i128::from(step.source_stride);
    let below = apart.div_euclid(stride);
    [below, below + 1].into_iter().any(|times| {
        times.unsigned_abs() < u128::from(step.count) && meet(apart - times * stride, row, inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The bytes of a region that starts at `start`.
    fn bytes(start: i128, row: u64, steps: &[Step]) -> BTreeSet<i128> {
        let rows = steps.iter().fold(vec![start], |starts, step| {
            let times = || (0..step.count).map(|times| i128::from(times * step.source_stride));
            let further = starts
                .iter()
                .flat_map(|start| times().map(move |by| start + by));
            further.collect()
        });
        let row = i128::from(row);
        rows.into_iter()
            .flat_map(|start| start..start + row)
            .collect()
    }

    #[test]
    fn regions_meet_where_they_share_a_byte() {
        let step = |count, stride| Step {
            count,
            source_stride: stride,
            destination_stride: stride,
        };
        let shapes: [(u64, Vec<Step>); 6] = [
            (5, vec![]),
            (3, vec![step(4, 7)]),
            (1, vec![step(3, 1)]),
            (4, vec![step(1, 0), step(3, 4)]),
            (2, vec![step(3, 31), step(4, 7)]),
            (1, vec![step(2, 23), step(3, 7), step(2, 2)]),
        ];
        for (row, steps) in shapes {
            assert!(steps_are_alike(row, &steps));
            let first = bytes(0, row, &steps);
            for apart in -120..120 {
                let share = !first.is_disjoint(&bytes(apart, row, &steps));
                assert_eq!(
                    meet(apart, row, &steps),
                    share,
                    "{row} in {steps:?}, {apart}"
                );
            }
        }
    }

    #[test]
    fn steps_that_differ_or_lead_into_each_other_are_not_alike() {
        let step = |source_stride, destination_stride| Step {
            count: 2,
            source_stride,
            destination_stride,
        };
        assert!(!steps_are_alike(4, &[step(8, 9)]));
        assert!(!steps_are_alike(4, &[step(3, 3)]));
        assert!(!steps_are_alike(4, &[step(9, 9), step(8, 8)]));
        assert!(steps_are_alike(4, &[step(u64::MAX, u64::MAX)]));
    }
}

//! Overlap: a check whether two regions of one memory object share a byte.
//!
//! They may share none though the bytes from the first to the last of one lie among those of the other: the halves of an image,
//! each of whose rows is one row of the left half and one of the right.
//!
//! Of regions whose rows are equally far apart that is found out exactly. A row of one starts so many steps of each kind after a row of
//! the other, and the rows share a byte if less than a row is left then. Of regions whose steps lead into each other it is not looked
//! at whether rows miss each other: they overlap if their spans do.

use crate::error::{ErrorKind, Result};
use crate::memory::access::Access;
use crate::operation::Step;
use smallvec::SmallVec;

/// Rows of bytes of a memory object, equally far apart along each of some dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    start: u64,
    row: u64,
    /// How many rows there are along a dimension, and how many bytes they are apart. Each has several.
    steps: SmallVec<[(u64, u64); 3]>,
}

impl Region {
    /// One row of so many bytes from `start` on, for each of these: `count` of them, `stride` bytes apart.
    pub fn new(start: u64, row: u64, steps: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let steps = steps.into_iter().filter(|(count, _)| *count > 1).collect();
        Self { start, row, steps }
    }

    /// How many of its rows are so far apart.
    fn count(&self, stride: u64) -> u64 {
        let step = self.steps.iter().find(|(_, own)| *own == stride);
        step.map_or(1, |(count, _)| *count)
    }

    /// From its first byte to its last.
    fn span(&self) -> u64 {
        let steps = self.steps.iter();
        let further = steps.map(|(count, stride)| stride.saturating_mul(count - 1));
        further.fold(self.row, u64::saturating_add)
    }

    /// Whether it shares a byte with another, as far as is looked at.
    pub fn meets(&self, other: &Self) -> bool {
        if self.row == 0 || other.row == 0 {
            return false;
        }
        let apart = i128::from(other.start) - i128::from(self.start);
        let spans = [self, other].map(|region| i128::from(region.span()));
        let spans_meet = -spans[1] < apart && apart < spans[0];
        spans_meet
            && together(self, other).is_none_or(|steps| meet(apart, [self.row, other.row], &steps))
    }
}

/// A step of two regions: how far it leads, and how many rows along it each of them has.
struct Both {
    stride: u64,
    counts: [u64; 2],
}

/// The steps of both, the longest first; none if one does not lead past what lies within it.
fn together(one: &Region, other: &Region) -> Option<SmallVec<[Both; 3]>> {
    let mut strides: SmallVec<[u64; 6]> = [one, other]
        .iter()
        .flat_map(|region| region.steps.iter().map(|(_, stride)| *stride))
        .collect();
    strides.sort_unstable();
    strides.dedup();
    let mut spans = [one.row, other.row];
    let mut steps: SmallVec<[Both; 3]> = SmallVec::new();
    for stride in strides {
        if spans.iter().any(|span| *span > stride) {
            return None;
        }
        let counts = [one, other].map(|region| region.count(stride));
        for (span, count) in spans.iter_mut().zip(counts) {
            *span = span.saturating_add(stride.saturating_mul(count - 1));
        }
        steps.insert(0, Both { stride, counts });
    }
    // Two steps of one region that are equally long lead into each other.
    let is_whole = |which: usize, region: &Region| {
        let own = steps.iter().filter(|step| step.counts[which] > 1);
        own.count() == region.steps.len()
    };
    (is_whole(0, one) && is_whole(1, other)).then_some(steps)
}

/// True if two regions of such rows share a byte, the second of which starts `apart` bytes after the first.
fn meet(apart: i128, rows: [u64; 2], steps: &[Both]) -> bool {
    let Some((step, inner)) = steps.split_first() else {
        return -i128::from(rows[1]) < apart && apart < i128::from(rows[0]);
    };
    // What lies within a step is no longer than it: only the multiples on either side are near enough.
    let stride = i128::from(step.stride);
    let counts = step.counts.map(i128::from);
    let below = apart.div_euclid(stride);
    [below, below + 1].into_iter().any(|times| {
        -counts[1] < times && times < counts[0] && meet(apart - times * stride, rows, inner)
    })
}

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
    let from = steps.iter().map(|step| (step.count, step.source_stride));
    let to = steps
        .iter()
        .map(|step| (step.count, step.destination_stride));
    let from = Region::new(source.offset, row, from);
    if !from.meets(&Region::new(destination.offset, row, to)) {
        return Ok(());
    }
    Err(ErrorKind::InvalidArgument {
        what: "copy",
        problem: "source and destination overlap; copy through another buffer".to_owned(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A row's length, and the steps between rows.
    type Rows = (u64, &'static [(u64, u64)]);

    /// The bytes of a region.
    fn bytes(region: &Region) -> BTreeSet<u64> {
        let rows = region
            .steps
            .iter()
            .fold(vec![region.start], |starts, (count, stride)| {
                let further = starts
                    .iter()
                    .flat_map(|start| (0..*count).map(move |times| start + times * stride));
                further.collect()
            });
        let row = region.row;
        rows.into_iter()
            .flat_map(|start| start..start + row)
            .collect()
    }

    #[test]
    fn regions_meet_where_they_share_a_byte() {
        // Of each group, steps are as long or lead past each other.
        let groups: [&[Rows]; 3] = [
            &[(5, &[]), (1, &[])],
            &[
                (3, &[(4, 7)]),
                (4, &[(2, 7)]),
                (7, &[(3, 7)]),
                (1, &[(1, 9), (5, 7)]),
                (2, &[]),
                (20, &[]),
            ],
            &[
                (2, &[(3, 31), (4, 7)]),
                (1, &[(2, 31), (3, 7), (2, 2)]),
                (5, &[(4, 31)]),
                (1, &[(3, 7)]),
            ],
        ];
        for group in groups {
            for ((row, steps), (other_row, other_steps)) in group
                .iter()
                .flat_map(|one| group.iter().map(move |other| (*one, *other)))
            {
                let one = Region::new(150, row, steps.iter().copied());
                let own = bytes(&one);
                let is_exact = |other: &Region| together(&one, other).is_some();
                for start in 0..300 {
                    let other = Region::new(start, other_row, other_steps.iter().copied());
                    let share = !own.is_disjoint(&bytes(&other));
                    let meets = one.meets(&other);
                    assert!(meets || !share, "{one:?}, {other:?}");
                    assert!(meets == share || !is_exact(&other), "{one:?}, {other:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_looked_at_meets_where_spans_do() {
        let region = |start, row, stride| Region::new(start, row, [(2, stride)]);
        // Rows that are not equally far apart, and rows that lead into each other.
        for (one, other) in [
            (region(0, 4, 8), region(4, 1, 9)),
            (region(0, 4, 3), region(2, 4, 3)),
            (Region::new(0, 1, [(2, 7), (2, 7)]), region(14, 1, 7)),
        ] {
            assert!(one.meets(&other));
            let beyond = Region {
                start: 100,
                ..other
            };
            assert!(!one.meets(&beyond));
        }
        // Rows without bytes share none, however they lie.
        let empty = Region::new(0, 0, [(2, 0), (2, 10)]);
        assert!(!empty.meets(&empty));
        let far = region(0, 4, u64::MAX);
        assert!(far.meets(&far) && !far.meets(&region(4, 4, u64::MAX)));
    }
}

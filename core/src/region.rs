//! Regions of a memory object: rows of bytes with gaps between them, and a test whether two regions
//! share a byte.
//!
//! They may share none though the bytes from the first to the last of one lie among those of the
//! other. An example is the halves of an image: each of its rows is one row of the left half and
//! one of the right.
//!
//! The test is exact for regions whose rows are equally far apart. A row of one starts so many
//! steps of each kind after a row of the other, and the rows share a byte if less than a row is
//! left then. For regions whose steps lead into each other the test does not look at rows: they
//! overlap if their spans do. The steps of one region never do: see [`Region::new`].
//!
//! Rows of one distance are rectangles of a matrix. The difference of two rectangles is at most
//! four rectangles. So the bytes of a region that a later one leaves alone are known
//! (`Region::without`).

use smallvec::SmallVec;
use std::ops::Range;

/// Rows of bytes of a memory object, equally far apart along each of some dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    start: u64,
    row: u64,
    /// The number of rows along each dimension, and their distance in bytes. Each dimension has
    /// several rows.
    steps: SmallVec<[(u64, u64); 3]>,
}

impl Region {
    /// One row of so many bytes from `start` on, for each of these: `count` of them, `stride` bytes
    /// apart. If rows overlap, or lie between those of another step, it is all from the first byte
    /// to the last.
    pub fn new(start: u64, row: u64, steps: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut steps: SmallVec<[(u64, u64); 3]> =
            steps.into_iter().filter(|(count, _)| *count != 1).collect();
        if row == 0 || steps.iter().any(|(count, _)| *count == 0) {
            return Self::of(start..start);
        }
        // Rows that touch are one.
        let mut row = row;
        while let Some(touching) = steps.iter().position(|(_, stride)| *stride == row) {
            row = row.saturating_mul(steps.remove(touching).0);
        }
        steps.sort_unstable_by_key(|(_, stride)| std::cmp::Reverse(*stride));
        let region = Self { start, row, steps };
        // The longest step first, and each leads past all that lies within it.
        let mut span = row;
        for (count, stride) in region.steps.iter().rev() {
            let further = stride.checked_mul(count - 1);
            let whole = further.and_then(|further| span.checked_add(further));
            match whole {
                Some(whole) if *stride >= span => span = whole,
                _ => return Self::of(region.range()),
            }
        }
        if start.checked_add(span).is_none() {
            return Self::of(region.range());
        }
        region
    }

    /// The bytes of a range.
    pub(crate) fn of(range: Range<u64>) -> Self {
        Self {
            start: range.start,
            row: range.end - range.start,
            steps: SmallVec::new(),
        }
    }

    /// The same rows, so many bytes further on.
    #[must_use]
    pub fn moved(&self, by: u64) -> Self {
        Self {
            start: self.start + by,
            ..self.clone()
        }
    }

    /// True if there are bytes between its rows that are not its own.
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The bytes from its first to its last, with all bytes between its rows.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.span())
    }

    /// The bytes of this region that the other does not have, as regions that share none. `None` if
    /// that cannot be said so: it can be where the other has all of this, and where both are
    /// rectangles of one matrix.
    pub(crate) fn without(&self, other: &Self) -> Option<Regions> {
        let (own, others) = (self.range(), other.range());
        let is_within = others.start <= own.start && own.end <= others.end;
        if self == other || (is_within && !other.has_gaps()) {
            return Some(Regions::new());
        }
        let stride = match (&self.steps[..], &other.steps[..]) {
            // Of two ranges, one row of a matrix is as long as both.
            ([], []) => own.end.max(others.end),
            ([], [(_, stride)]) | ([(_, stride)], []) => *stride,
            ([(_, stride)], [(_, same)]) if stride == same => *stride,
            _ => return None,
        };
        let mut left = self.rectangles(stride)?;
        for hole in other.rectangles(stride)? {
            left = left.iter().flat_map(|one| one.without(&hole)).collect();
        }
        Some(left.iter().map(|one| one.region(stride)).collect())
    }

    /// True if all bytes of the other are known to be its own.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let (own, others) = (self.range(), other.range());
        own.start <= others.start
            && others.end <= own.end
            && other.without(self).is_some_and(|left| left.is_empty())
    }

    /// The ranges of its rows.
    pub fn rows(&self) -> impl Iterator<Item = Range<u64>> {
        let count: u64 = self.steps.iter().map(|(count, _)| count).product();
        (0..count).map(|number| {
            let mut left = number;
            let further = self.steps.iter().map(|(count, stride)| {
                let at = left % count;
                left /= count;
                at * stride
            });
            let start = self.start + further.sum::<u64>();
            start..start + self.row
        })
    }

    /// True if one of its bytes is in a range.
    fn touches(&self, range: &Range<u64>) -> bool {
        /// The rows from `start` on, of these steps.
        fn rows_touch(start: u64, row: u64, steps: &[(u64, u64)], range: &Range<u64>) -> bool {
            let further = steps.iter().map(|(count, stride)| stride * (count - 1));
            let span = row + further.sum::<u64>();
            if range.end <= start || start + span <= range.start {
                return false;
            }
            let Some((&(count, stride), inner)) = steps.split_first() else {
                return true;
            };
            // Of the parts that reach the range, those between the first and the last lie within
            // it.
            let part = span - stride * (count - 1);
            let first = (range.start + 1)
                .saturating_sub(start + part)
                .div_ceil(stride);
            let last = ((range.end - 1 - start) / stride).min(count - 1);
            first + 1 < last
                || (first..=last).any(|at| rows_touch(start + at * stride, row, inner, range))
        }
        let own = self.range();
        let spans_meet = own.start < range.end && range.start < own.end;
        spans_meet && rows_touch(self.start, self.row, &self.steps, range)
    }

    /// The same bytes as rectangles, `most` at most. If they are more, all bytes from its first to
    /// its last.
    #[must_use]
    pub fn in_rectangles(&self, most: u64) -> Regions {
        let span = || Regions::from_iter([Self::of(self.range())]);
        let Some((inner, outer)) = self.steps.split_last().filter(|_| most > 0) else {
            return span();
        };
        let mut starts: SmallVec<[u64; 4]> = SmallVec::from_slice(&[self.start]);
        for (count, stride) in outer {
            if *count > most || starts.len() as u64 * count > most {
                return span();
            }
            let further = |start: &u64| {
                let start = *start;
                (0..*count).map(move |at| start + at * stride)
            };
            starts = starts.iter().flat_map(further).collect();
        }
        let rectangles = starts.into_iter();
        rectangles
            .map(|start| Self::new(start, self.row, [*inner]))
            .collect()
    }

    /// The same bytes as rectangles of a matrix with rows of `stride` bytes, which begins with the
    /// object. None if its rows are further apart, or longer, than that.
    fn rectangles(&self, stride: u64) -> Option<Rectangles> {
        if stride == 0 {
            return None;
        }
        let (first, column) = (self.start / stride, self.start % stride);
        let mut rectangles = Rectangles::new();
        let mut add = |rows: Range<u64>, columns: Range<u64>| {
            if !rows.is_empty() && !columns.is_empty() {
                rectangles.push(Rectangle { rows, columns });
            }
        };
        match &self.steps[..] {
            // The end of a row, whole rows, and the beginning of another.
            [] => {
                let end = column + self.row;
                if end <= stride {
                    add(first..first + 1, column..end);
                } else {
                    let (last, rest) = (first + end / stride, end % stride);
                    let whole = first + u64::from(column > 0);
                    add(first..whole, column..stride);
                    add(whole..last, 0..stride);
                    add(last..last + 1, 0..rest);
                }
            }
            // Rows of the region may go on in the matrix's next row.
            &[(count, own)] if own == stride && self.row <= stride => {
                let end = column + self.row;
                add(first..first + count, column..end.min(stride));
                add(first + 1..first + 1 + count, 0..end.saturating_sub(stride));
            }
            _ => return None,
        }
        Some(rectangles)
    }

    /// The number of its rows along the dimension of this stride.
    fn count(&self, stride: u64) -> u64 {
        let step = self.steps.iter().find(|(_, own)| *own == stride);
        step.map_or(1, |(count, _)| *count)
    }

    /// The number of bytes from its first to its last.
    fn span(&self) -> u64 {
        let steps = self.steps.iter();
        let further = steps.map(|(count, stride)| stride.saturating_mul(count - 1));
        further.fold(self.row, u64::saturating_add)
    }

    /// True if it shares a byte with another. Two regions whose steps lead into each other count as
    /// sharing one if their spans do.
    pub fn meets(&self, other: &Self) -> bool {
        if self.row == 0 || other.row == 0 {
            return false;
        }
        if !self.has_gaps() || !other.has_gaps() {
            let (range, rows) = if self.has_gaps() {
                (other, self)
            } else {
                (self, other)
            };
            return rows.touches(&range.range());
        }
        let apart = i128::from(other.start) - i128::from(self.start);
        let spans = [self, other].map(|region| i128::from(region.span()));
        let spans_meet = -spans[1] < apart && apart < spans[0];
        spans_meet
            && together(self, other).is_none_or(|steps| meet(apart, [self.row, other.row], &steps))
    }
}

/// Rectangles that a command's region may be recorded as.
pub const MOST_RECTANGLES: u64 = 16;

/// A few regions.
pub type Regions = SmallVec<[Region; 4]>;

/// Some columns, in bytes, of some rows of a matrix.
#[derive(Clone, Debug)]
struct Rectangle {
    rows: Range<u64>,
    columns: Range<u64>,
}

type Rectangles = SmallVec<[Rectangle; 4]>;

impl Rectangle {
    /// The rows above and below the hole, and the columns on both sides of it.
    fn without(&self, hole: &Self) -> Rectangles {
        let within = |all: &Range<u64>, part: &Range<u64>| {
            let start = part.start.clamp(all.start, all.end);
            start..part.end.clamp(start, all.end)
        };
        let rows = within(&self.rows, &hole.rows);
        let columns = within(&self.columns, &hole.columns);
        if rows.is_empty() || columns.is_empty() {
            return Rectangles::from_iter([self.clone()]);
        }
        let all = self.columns.clone();
        [
            (self.rows.start..rows.start, all.clone()),
            (rows.clone(), self.columns.start..columns.start),
            (rows.clone(), columns.end..self.columns.end),
            (rows.end..self.rows.end, all),
        ]
        .into_iter()
        .filter(|(rows, columns)| !rows.is_empty() && !columns.is_empty())
        .map(|(rows, columns)| Self { rows, columns })
        .collect()
    }

    fn region(&self, stride: u64) -> Region {
        let row = self.columns.end - self.columns.start;
        let count = self.rows.end - self.rows.start;
        Region::new(
            self.rows.start * stride + self.columns.start,
            row,
            [(count, stride)],
        )
    }
}

/// A step of two regions: its length, and the number of rows along it in each of them.
struct Both {
    stride: u64,
    counts: [u64; 2],
}

/// The steps of both, the longest first; none if one does not lead past the rows within it.
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

/// True if two regions of such rows share a byte. The second one starts `apart` bytes after the
/// first.
fn meet(apart: i128, rows: [u64; 2], steps: &[Both]) -> bool {
    let Some((step, inner)) = steps.split_first() else {
        return -i128::from(rows[1]) < apart && apart < i128::from(rows[0]);
    };
    // The span within a step is no longer than it: only the multiples on either side are near
    // enough.
    let stride = i128::from(step.stride);
    let counts = step.counts.map(i128::from);
    let below = apart.div_euclid(stride);
    [below, below + 1].into_iter().any(|times| {
        -counts[1] < times && times < counts[0] && meet(apart - times * stride, rows, inner)
    })
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
        let no_rows = Region::new(8, 4, [(0, 16), (3, 4)]);
        assert!(!no_rows.has_gaps() && !no_rows.meets(&Region::of(0..100)));
        // Rows that end beyond all addresses are all bytes up to there.
        let far = region(0, 4, u64::MAX);
        assert!(far.meets(&far) && far.meets(&Region::of(9..10)) && !far.has_gaps());
    }

    #[test]
    fn what_is_left_of_a_region_are_its_bytes_without_those_of_the_other() {
        let shapes: [(u64, &[(u64, u64)]); 6] = [
            (3, &[(4, 7)]),
            (5, &[(3, 7)]),
            (7, &[(3, 7)]),
            (1, &[(5, 7)]),
            (2, &[]),
            (20, &[]),
        ];
        for (row, steps) in shapes {
            for (other_row, other_steps) in shapes {
                for (start, other_start) in (30..37).flat_map(|a| (0..70).map(move |b| (a, b))) {
                    let one = Region::new(start, row, steps.iter().copied());
                    let other = Region::new(other_start, other_row, other_steps.iter().copied());
                    let left = one.without(&other).expect("rectangles of one matrix");
                    let wanted = &bytes(&one) - &bytes(&other);
                    let count: usize = left.iter().map(|piece| bytes(piece).len()).sum();
                    assert_eq!(count, wanted.len(), "{one:?}, {other:?}: {left:?}");
                    let all: BTreeSet<u64> = left.iter().flat_map(bytes).collect();
                    assert_eq!(all, wanted, "{one:?}, {other:?}: {left:?}");
                }
            }
        }
    }

    #[test]
    fn of_others_it_is_known_whether_nothing_is_left() {
        let box_of = |start| Region::new(start, 2, [(3, 40), (3, 8)]);
        assert_eq!(box_of(3).without(&box_of(3)), Some(Regions::new()));
        assert_eq!(box_of(3).without(&box_of(4)), None);
        let all = Region::of(0..200);
        assert_eq!(box_of(3).without(&all), Some(Regions::new()));
        assert_eq!(all.without(&box_of(3)), None);
        let other_matrix = Region::new(0, 2, [(3, 9)]);
        assert_eq!(Region::new(0, 2, [(3, 8)]).without(&other_matrix), None);
    }

    #[test]
    fn rows_that_touch_or_overlap_are_one() {
        assert_eq!(Region::new(1, 2, [(3, 0)]), Region::of(1..3));
        assert_eq!(Region::new(1, 2, [(3, 4), (2, 7)]), Region::of(1..18));
        let whole = Region::new(5, 4, [(3, 24), (6, 4)]);
        assert_eq!(whole, Region::of(5..77));
        assert_eq!(Region::new(5, 4, [(3, 25), (6, 4)]).steps.len(), 1);
    }

    #[test]
    fn ranges_meet_what_they_share_a_byte_with() {
        for region in [
            Region::new(10, 2, [(3, 40), (3, 8)]),
            Region::new(10, 1, [(2, 90), (2, 30), (2, 7)]),
            Region::new(10, 3, [(4, 7)]),
        ] {
            let own = bytes(&region);
            assert_eq!(own, region.rows().flatten().collect());
            let rectangles = region.in_rectangles(16);
            assert_eq!(own, rectangles.iter().flat_map(bytes).collect());
            assert!(rectangles.iter().all(|one| one.steps.len() == 1));
            for (start, end) in (0..160).flat_map(|a| (a + 1..170).map(move |b| (a, b))) {
                let range = Region::of(start..end);
                let share = own.range(start..end).next().is_some();
                assert_eq!(range.meets(&region), share, "{range:?}, {region:?}");
                assert_eq!(region.meets(&range), share, "{range:?}, {region:?}");
            }
        }
        let boxes = Region::new(10, 2, [(3, 40), (3, 8)]);
        assert_eq!(boxes.in_rectangles(2)[..], [Region::of(boxes.range())]);
    }
}

//! Regions of transfers as vendors' calls take them: rows, and rectangles of up to three
//! dimensions. A region of more dimensions, or with rows that lie on top of each other, is several
//! of these.

use quipu_scheduler::operation::{Step, Transfer};

/// The most calls that one transfer is made of. One that would need more is done by the host, with
/// a copy of its bytes.
const MOST_PARTS: u64 = 64;

/// A region, in the simplest form: steps that lead on at the end of the one inside of them are one.
#[derive(Debug)]
pub struct Shape {
    row: u64,
    /// Outermost first; each is taken by calls of its own.
    outer: Vec<Step>,
    /// Outermost first, at most two: those of a rectangle.
    inner: Vec<Step>,
}

/// The bytes that one call moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes from the region's first to this one's, in the source.
    pub source: u64,
    /// The same in the destination.
    pub destination: u64,
    /// Bytes of a row.
    pub row: u64,
    /// Rows, and layers of rows.
    counts: [u64; 2],
    /// Bytes from row to row and from layer to layer.
    pub source_pitch: [usize; 2],
    /// The same in the destination.
    pub destination_pitch: [usize; 2],
}

impl Part {
    /// True if it is one row.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        self.counts == [1, 1]
    }

    /// Bytes, rows, layers.
    #[must_use]
    pub fn region(&self) -> [usize; 3] {
        [
            self.row as usize,
            self.counts[0] as usize,
            self.counts[1] as usize,
        ]
    }

    /// True if both sides are boxes that touch each other nowhere, in a memory object that is taken
    /// for layers of rows. Each box is within a row, and within a layer, and beyond the other's end
    /// along a dimension. So a library that compares them as boxes, and not byte by byte, finds
    /// them apart. They begin at these [origins](origin), and are equally far apart.
    #[must_use]
    pub fn is_apart(&self, source: [usize; 3], destination: [usize; 3]) -> bool {
        let region = self.region();
        let [row, layer] = self.source_pitch;
        let is_within = |origin: [usize; 3]| {
            origin[0] + region[0] <= row && (layer == 0 || (origin[1] + region[1]) * row <= layer)
        };
        let is_beyond = |dimension: usize| {
            source[dimension].abs_diff(destination[dimension]) >= region[dimension]
        };
        is_within(source) && is_within(destination) && (0..3).any(is_beyond)
    }

    /// Bytes from the first of a side to the place at which a row, or layer, after the last would
    /// begin.
    #[must_use]
    pub fn whole_rows(&self, pitch: [usize; 2]) -> u64 {
        let rows = (pitch[0] as u64).saturating_mul(self.counts[0]);
        (pitch[1] as u64).max(rows).saturating_mul(self.counts[1])
    }

    /// All but its last layer, or row, and that; none if it is one row.
    #[must_use]
    pub fn without_last(&self) -> Option<(Self, Self)> {
        let outer = (0..2).rev().find(|&dimension| self.counts[dimension] > 1)?;
        let (mut most, mut last) = (self.clone(), self.clone());
        let before = self.counts[outer] - 1;
        most.counts[outer] = before;
        last.counts[outer] = 1;
        last.source += before * self.source_pitch[outer] as u64;
        last.destination += before * self.destination_pitch[outer] as u64;
        for part in [&mut most, &mut last] {
            if part.counts[1] == 1 {
                // A library that looks at the end of a side does not use the distance of the next
                // layer.
                part.source_pitch[1] = 0;
                part.destination_pitch[1] = 0;
            }
        }
        Some((most, last))
    }
}

impl Shape {
    /// The region of a transfer.
    #[must_use]
    pub fn of(transfer: &Transfer) -> Self {
        let mut row = transfer.row;
        let mut outer: Vec<Step> = Vec::new();
        for step in transfer.steps.iter().filter(|step| step.count != 1) {
            outer.push(*step);
        }
        while let Some(last) = outer.last() {
            if last.source_stride != row || last.destination_stride != row {
                break;
            }
            row *= last.count;
            outer.pop();
        }
        let mut inner = Vec::new();
        if let Some(rows) = outer.last().copied()
            && rows.source_stride >= row
            && rows.destination_stride >= row
        {
            outer.pop();
            inner.push(rows);
            if let Some(layers) = outer.last().copied()
                && can_be_layers(layers.source_stride, rows.source_stride, rows.count)
                && can_be_layers(
                    layers.destination_stride,
                    rows.destination_stride,
                    rows.count,
                )
            {
                outer.pop();
                inner.insert(0, layers);
            }
        }
        Self { row, outer, inner }
    }

    /// Its bytes, if they are one row.
    #[must_use]
    pub fn row_alone(&self) -> Option<u64> {
        (self.outer.is_empty() && self.inner.is_empty()).then_some(self.row)
    }

    /// True if it takes few calls, and its rectangles' rows are less than so many bytes apart.
    #[must_use]
    pub fn is_for_a_device(&self, most_pitch: u64) -> bool {
        let is_near = |step: &Step| step.source_stride.max(step.destination_stride) < most_pitch;
        if !self.inner.last().is_none_or(is_near) {
            return false;
        }
        let mut parts = self.outer.iter();
        let parts = parts.try_fold(1_u64, |parts, step| parts.checked_mul(step.count));
        parts.is_some_and(|parts| parts <= MOST_PARTS)
    }

    /// True if OpenCL's rectangle copies can do this transfer within one memory object. Source and
    /// destination must have equal pitches, and the boxes of each part must not
    /// [overlap](Part::is_apart). `source` and `destination` are the first bytes of the two sides.
    #[must_use]
    pub fn is_within_one(&self, source: u64, destination: u64) -> bool {
        let mut steps = self.inner.iter();
        steps.all(|step| step.source_stride == step.destination_stride)
            && self.parts().iter().all(|part| {
                let source = origin(source + part.source, part.source_pitch);
                let destination = origin(destination + part.destination, part.source_pitch);
                part.is_linear() || part.is_apart(source, destination)
            })
    }

    /// The part of each call, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let rows = self.inner.last();
        let layers = if self.inner.len() > 1 {
            self.inner.first()
        } else {
            None
        };
        let pitch = |stride: fn(&Step) -> u64| {
            [rows, layers].map(|step| step.map_or(0, |step| stride(step) as usize))
        };
        let first = Part {
            source: 0,
            destination: 0,
            row: self.row,
            counts: [rows, layers].map(|step| step.map_or(1, |step| step.count)),
            source_pitch: pitch(|step| step.source_stride),
            destination_pitch: pitch(|step| step.destination_stride),
        };
        let mut parts = vec![first];
        for step in &self.outer {
            let outer = std::mem::take(&mut parts);
            for part in outer {
                for index in 0..step.count {
                    parts.push(Part {
                        source: part.source + index * step.source_stride,
                        destination: part.destination + index * step.destination_stride,
                        ..part.clone()
                    });
                }
            }
        }
        parts
    }
}

/// The place of a byte of a memory object, which is taken for rows and layers so far apart: bytes,
/// rows, layers. Without a distance of layers it is one layer.
#[must_use]
pub fn origin(at: u64, [row, layer]: [usize; 2]) -> [usize; 3] {
    let at = at as usize;
    let layers = at.checked_div(layer).unwrap_or(0);
    let within = at - layers * layer;
    let rows = within.checked_div(row).unwrap_or(0);
    [within - rows * row, rows, layers]
}

/// True if a call takes layers so many bytes apart, of rows so many bytes apart.
fn can_be_layers(layer: u64, row: u64, rows: u64) -> bool {
    rows.checked_mul(row).is_some_and(|all| layer >= all) && layer.is_multiple_of(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_scheduler::operation::Endpoint;

    fn transfer(row: u64, steps: &[(u64, u64, u64)]) -> Transfer {
        Transfer {
            source: Endpoint::Argument(0),
            destination: Endpoint::Argument(1),
            row,
            steps: steps
                .iter()
                .map(|&(count, source_stride, destination_stride)| Step {
                    count,
                    source_stride,
                    destination_stride,
                })
                .collect(),
        }
    }

    /// Every byte that is moved, in order.
    fn moved(transfer: &Transfer) -> Vec<(u64, u64)> {
        fn steps(row: u64, steps_left: &[Step], from: u64, to: u64, moved: &mut Vec<(u64, u64)>) {
            match steps_left {
                [] => moved.extend((0..row).map(|byte| (from + byte, to + byte))),
                [step, inner @ ..] => {
                    for index in 0..step.count {
                        steps(
                            row,
                            inner,
                            from + index * step.source_stride,
                            to + index * step.destination_stride,
                            moved,
                        );
                    }
                }
            }
        }
        let mut all = Vec::new();
        steps(transfer.row, &transfer.steps, 0, 0, &mut all);
        all
    }

    /// As the calls do it.
    fn moved_by_parts(parts: Vec<Part>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for part in parts {
            let [row, rows, layers] = part.region();
            for layer in 0..layers {
                for line in 0..rows {
                    let at = |start: u64, pitch: [usize; 2]| {
                        start + (layer * pitch[1] + line * pitch[0]) as u64
                    };
                    let from = at(part.source, part.source_pitch);
                    let to = at(part.destination, part.destination_pitch);
                    all.extend((0..row as u64).map(|byte| (from + byte, to + byte)));
                }
            }
        }
        all
    }

    /// A part, taken to pieces.
    fn rows_of(part: Part) -> Vec<Part> {
        let Some((most, last)) = part.without_last() else {
            return vec![part];
        };
        assert!(most.whole_rows(most.source_pitch) < part.whole_rows(part.source_pitch));
        let mut rows = rows_of(most);
        rows.extend(rows_of(last));
        rows
    }

    #[test]
    fn parts_are_the_region() {
        for (row, steps, parts) in [
            (8, &[][..], 1),
            (4, &[(3, 4, 4)], 1),
            (4, &[(3, 8, 4)], 1),
            (2, &[(2, 40, 24), (3, 8, 4)], 1),
            (2, &[(2, 100, 60), (2, 40, 24), (3, 8, 4)], 2),
            // Layers that are no multiple of rows.
            (2, &[(3, 25, 13), (3, 8, 4)], 3),
            // Rows on top of each other in the source.
            (4, &[(5, 0, 4)], 5),
            (4, &[(5, 2, 8)], 5),
            (1, &[(7, 1, 1), (1, 99, 99)], 1),
        ] {
            let transfer = transfer(row, steps);
            let shape = Shape::of(&transfer);
            assert_eq!(
                moved_by_parts(shape.parts()),
                moved(&transfer),
                "{transfer:?}",
                transfer = steps
            );
            let rows = shape.parts().into_iter().flat_map(rows_of).collect();
            assert_eq!(moved_by_parts(rows), moved(&transfer), "{steps:?}");
            assert_eq!(shape.parts().len(), parts, "{steps:?}");
            assert!(shape.is_for_a_device(u64::MAX));
        }
    }

    #[test]
    fn parts_are_apart_where_boxes_are() {
        let is_apart = |row: u64, steps: &[(u64, u64, u64)], source: u64, destination: u64| {
            let transfer = transfer(row, steps);
            let parts = Shape::of(&transfer).parts();
            let [part] = &parts[..] else {
                panic!("{parts:?}")
            };
            let [from, to] = [source, destination].map(|at| origin(at, part.source_pitch));
            let is_apart = part.is_apart(from, to);
            let bytes = moved(&transfer);
            let shares = bytes.iter().any(|(from, _)| {
                bytes
                    .iter()
                    .any(|(_, to)| source + from == destination + to)
            });
            assert!(
                !is_apart || !shares,
                "{steps:?} from {source} to {destination}"
            );
            is_apart
        };
        let image = [(5, 40, 40)];
        assert_eq!(origin(95, [40, 0]), [15, 2, 0]);
        assert_eq!(origin(495, [40, 200]), [15, 2, 2]);
        for (source, destination, expected) in [
            (0, 20, true),
            (20, 0, true),
            (3, 60, false),
            (0, 200, true),
            (15, 35, false),
            (0, 19, false),
            (0, 160, false),
        ] {
            assert_eq!(is_apart(20, &image, source, destination), expected);
        }
        let planes = [(2, 120, 120), (3, 20, 20)];
        for (source, destination, expected) in [
            (0, 10, true),
            (0, 60, true),
            (0, 240, true),
            (10, 120, true),
            (0, 120, false),
            // Rows beside each other; some of them lead from one layer to the next.
            (80, 90, false),
        ] {
            assert_eq!(is_apart(9, &planes, source, destination), expected);
        }
        // Whatever it says, no byte is shared where it says so.
        for at in 0..300 {
            is_apart(20, &image, 37, at);
            is_apart(9, &planes, 37, at);
        }
    }

    #[test]
    fn rows_that_are_too_far_apart_are_for_the_host() {
        let shape = Shape::of(&transfer(4, &[(2, 100, 8)]));
        assert!(shape.is_for_a_device(101));
        assert!(!shape.is_for_a_device(100));
        assert_eq!(shape.row_alone(), None);
        let row = Shape::of(&transfer(4, &[(2, 4, 4)]));
        assert!(row.is_for_a_device(1));
        assert_eq!(row.row_alone(), Some(8));
    }

    #[test]
    fn what_takes_many_calls_is_for_the_host() {
        assert!(!Shape::of(&transfer(1, &[(1000, 0, 1)])).is_for_a_device(u64::MAX));
        assert!(!Shape::of(&transfer(1, &[(u64::MAX, 0, 0), (3, 0, 0)])).is_for_a_device(u64::MAX));
    }
}

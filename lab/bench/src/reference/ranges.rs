//! Parts of two objects that commands read and change, and the results if they run one after the
//! other.

use std::ops::Range;

/// The part that each command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangePattern {
    /// From one more element on, to the end.
    Sliding,
    /// One element less on both sides.
    Shrinking,
    /// A few elements, a stride further each time, around and around.
    Strided,
    /// Any elements.
    Random,
}

impl RangePattern {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sliding, Self::Shrinking, Self::Strided, Self::Random];

    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sliding => "sliding",
            Self::Shrinking => "shrinking",
            Self::Strided => "strided",
            Self::Random => "random",
        }
    }

    /// The parts that so many commands change, of as many elements.
    pub fn parts(self, commands: usize) -> Vec<Range<usize>> {
        let mut state = 1_u64;
        let mut random = move || {
            // Knuth's generator of the MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % commands
        };
        let part = |command: usize| match self {
            Self::Sliding => command..commands,
            Self::Shrinking => command / 2..commands - command / 2,
            Self::Strided => {
                let start = command * 7 % commands;
                start..(start + 4).min(commands)
            }
            Self::Random => {
                let (a, b) = (random(), random());
                a.min(b)..a.max(b) + 1
            }
        };
        (0..commands).map(part).collect()
    }
}

/// A command's result for the first element of the part that it changes, and the one at the same
/// place of the object that it reads.
#[inline]
pub fn changed(own: i64, other: i64) -> i64 {
    own.wrapping_mul(3).wrapping_add(other).wrapping_add(1)
}

/// The object that is changed last, if one command follows the other. The objects change places
/// after each, and are zero at first.
pub fn changed_in_order(parts: &[Range<usize>]) -> Vec<i64> {
    let (mut read, mut written) = (vec![0; parts.len()], vec![0; parts.len()]);
    for part in parts {
        written[part.start] = changed(written[part.start], read[part.start]);
        std::mem::swap(&mut read, &mut written);
    }
    read
}

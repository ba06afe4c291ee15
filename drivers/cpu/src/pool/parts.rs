//! The groups of a shared launch that are left: a *part* of neighbours for each
//! worker, which it claims piece by piece from the front, and of which a worker that has
//! none left takes half from the back.
//!
//! So a worker goes through memory in order, as memory is read ahead, through
//! the same place as in the last launch of as many groups, which its cache may still have,
//! and all end together, however long each group takes. (Self-scheduling with affinity:
//! Markatos and LeBlanc, 1994.)
//!
//! Every part is one word, which is all there is to know of it: whoever changes it from
//! what it was has the groups by which it became less, whatever happened between.

use quipu_core::sync::{AtomicU64, Ordering};
use smallvec::SmallVec;
use std::ops::Range;

/// In lines of its own: each is written every few microseconds.
#[repr(align(128))]
struct Part(AtomicU64);

fn pack(groups: &Range<u32>) -> u64 {
    u64::from(groups.start) << 32 | u64::from(groups.end)
}

fn unpack(part: u64) -> Range<u32> {
    (part >> 32) as u32..part as u32
}

pub(crate) struct Parts {
    parts: SmallVec<[Part; 2]>,
    /// Groups that are claimed at once, at least and at most.
    least: u32,
    most: u32,
}

impl Parts {
    /// Divides groups into a part for each of so many workers, or fewer, for none is to be shorter than a
    /// piece. Pieces of at least and at most so many groups are claimed, or of one.
    pub(crate) fn new(groups: Range<u32>, workers: usize, (least, most): (u64, u64)) -> Self {
        let bounded = |count| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let (least, most) = (bounded(least), bounded(most));
        let (first, count) = (groups.start, u64::from(groups.end - groups.start));
        let parts = workers.min(groups.len() / least as usize).max(1);
        let bound = |part| first + (count * part as u64 / parts as u64) as u32;
        Self {
            parts: (0..parts)
                .map(|part| Part(AtomicU64::new(pack(&(bound(part)..bound(part + 1))))))
                .collect(),
            least,
            most: most.max(least),
        }
    }

    /// How many pieces of the least size are left.
    pub(crate) fn pieces_left(&self) -> usize {
        let left: usize = (0..self.parts.len())
            .map(|part| self.left(part).len())
            .sum();
        left / self.least as usize
    }

    /// The next piece for a worker, or for somebody who is none and so owns no part. More than one own
    /// a part where there are fewer of these than workers.
    pub(crate) fn claim(&self, worker: Option<usize>) -> Option<Range<u32>> {
        let own = worker.map(|worker| worker % self.parts.len());
        if let Some(piece) = own.and_then(|own| self.take(own, |left| self.piece(left))) {
            return Some(piece);
        }
        loop {
            let most_left = (0..self.parts.len()).max_by_key(|part| self.left(*part).len())?;
            if self.left(most_left).is_empty() {
                return None;
            }
            let Some(own) = own else {
                if let Some(piece) = self.take(most_left, |left| self.piece(left)) {
                    return Some(piece);
                }
                continue;
            };
            if let Some(half) = self.take(most_left, |left| self.half(left)) {
                let piece = self.piece(&half);
                let rest = piece.end..half.end;
                // Others may have some of it, if nobody has filled the part meanwhile.
                return Some(if self.fill(own, &rest) { piece } else { half });
            }
        }
    }

    /// Gives an empty part these groups; false if it is not empty.
    fn fill(&self, part: usize, groups: &Range<u32>) -> bool {
        let word = &self.parts[part].0;
        let now = word.load(Ordering::Relaxed);
        let filled =
            |now| word.compare_exchange(now, pack(groups), Ordering::Relaxed, Ordering::Relaxed);
        unpack(now).is_empty() && filled(now).is_ok()
    }

    fn left(&self, part: usize) -> Range<u32> {
        unpack(self.parts[part].0.load(Ordering::Relaxed))
    }

    /// Takes from a part what is chosen of it: its front, or its back. Not if it is empty.
    fn take(&self, part: usize, choose: impl Fn(&Range<u32>) -> Range<u32>) -> Option<Range<u32>> {
        let word = &self.parts[part].0;
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let left = unpack(now);
            if left.is_empty() {
                return None;
            }
            let taken = choose(&left);
            let rest = if taken.start == left.start {
                taken.end..left.end
            } else {
                left.start..taken.start
            };
            // The groups' numbers are all that is shared here: what they work on came
            // with the launch, and what they did is seen when the last participant leaves.
            match word.compare_exchange_weak(now, pack(&rest), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(taken),
                Err(other) => now = other,
            }
        }
    }

    /// What an owner claims: less towards the end, so that others can have some.
    fn piece(&self, left: &Range<u32>) -> Range<u32> {
        let count = left.len() as u32;
        let piece = (count / 2).clamp(self.least, self.most).min(count);
        left.start..left.start + piece
    }

    /// What others take: all of what is too short to be divided.
    fn half(&self, left: &Range<u32>) -> Range<u32> {
        let count = left.len() as u32;
        let kept = if count > self.least { count / 2 } else { 0 };
        left.start + kept..left.end
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Pieces in the order in which one who is alone claims them.
    fn pieces(groups: Range<u32>, parts: usize, bounds: (u64, u64)) -> Vec<Range<u32>> {
        let parts = Parts::new(groups, parts, bounds);
        std::iter::from_fn(|| parts.claim(Some(0))).collect()
    }

    #[test]
    fn pieces_shrink_and_are_all_groups() {
        let lengths = |pieces: Vec<Range<u32>>| pieces.iter().map(Range::len).collect::<Vec<_>>();
        assert_eq!(lengths(pieces(0..8, 1, (1, 20))), [4, 2, 1, 1]);
        assert_eq!(lengths(pieces(0..20, 1, (6, 20))), [10, 6, 4]);
        assert_eq!(lengths(pieces(0..20, 1, (1, 6))), [6, 6, 4, 2, 1, 1]);
        assert!(pieces(7..7, 2, (1, 1)).is_empty());
        for groups in [0..1, 3..4, 3..8, 0..1000, u32::MAX - 40..u32::MAX] {
            let mut all: Vec<u32> = pieces(groups.clone(), 3, (2, 9))
                .into_iter()
                .flatten()
                .collect();
            all.sort_unstable();
            assert_eq!(all, groups.collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_owner_goes_through_its_own_part_first_and_in_order() {
        let parts = Parts::new(0..300, 3, (1, 10));
        let claimed: Vec<_> = std::iter::from_fn(|| parts.claim(Some(1))).collect();
        let own = claimed
            .iter()
            .take_while(|piece| piece.start >= 100 && piece.end <= 200);
        let own: Vec<u32> = own.cloned().flatten().collect();
        assert_eq!(own, (100..200).collect::<Vec<_>>());
        assert_eq!(claimed.into_iter().flatten().count(), 300);
    }

    /// How much later the last of so many workers ends than the first, where this is what groups cost.
    fn spread(count: u32, workers: usize, bounds: (u64, u64), cost: impl Fn(u32) -> u64) -> u64 {
        let parts = Parts::new(0..count, workers, bounds);
        let mut ends = vec![0; workers];
        let mut working: Vec<usize> = (0..workers).collect();
        while let Some(next) = working.iter().copied().min_by_key(|worker| ends[*worker]) {
            match parts.claim(Some(next)) {
                Some(piece) => ends[next] += piece.map(&cost).sum::<u64>(),
                None => working.retain(|worker| *worker != next),
            }
        }
        ends.sort_unstable();
        ends[workers - 1] - ends[0]
    }

    /// A quarter takes a hundred times as long as the rest: whoever had to do all of it would end last by far.
    #[test]
    fn groups_of_different_length_end_together() {
        let cost = |group| if group < 16 { 100 } else { 1 };
        for workers in [2, 3, 16] {
            let spread = spread(64, workers, (1, 1), cost);
            assert!(spread <= 100, "{spread} with {workers}");
        }
        // What is claimed at once is nobody else's.
        assert!(spread(64, 2, (16, 64), cost) > 1000);
    }

    #[test]
    fn every_group_is_claimed_once_by_threads_at_a_time() {
        for round in 0..400 {
            let (count, owners) = (1 + round * 7, 3);
            let parts = Parts::new(0..count, owners, (1, 5));
            let claimed = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for own in (0..owners).map(Some).chain([Some(0), Some(0), None]) {
                    let (parts, claimed) = (&parts, &claimed);
                    scope.spawn(move || {
                        let pieces: Vec<_> = std::iter::from_fn(|| parts.claim(own)).collect();
                        claimed.lock().unwrap().extend(pieces.into_iter().flatten());
                    });
                }
            });
            let mut claimed = claimed.into_inner().unwrap();
            claimed.sort_unstable();
            assert_eq!(claimed, (0..count).collect::<Vec<_>>());
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    /// Two claim as owners of one part: each group is claimed once.
    #[test]
    fn every_group_is_claimed_once() {
        loom::model(|| {
            let parts = Arc::new(Parts::new(0..6, 2, (1, 1)));
            // What is left is another's, who does not come.
            assert!((0..3).all(|group| parts.claim(Some(0)) == Some(group..group + 1)));
            let claim = |parts: &Parts, own| {
                std::iter::from_fn(|| parts.claim(own))
                    .flatten()
                    .collect::<Vec<_>>()
            };
            let other = {
                let parts = parts.clone();
                loom::thread::spawn(move || claim(&parts, Some(0)))
            };
            let mut claimed = claim(&parts, Some(0));
            claimed.extend(other.join().unwrap());
            claimed.sort_unstable();
            assert_eq!(claimed, [3, 4, 5]);
        });
    }
}

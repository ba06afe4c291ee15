//! The unclaimed groups of a shared launch. Each worker has a *part*, a range of
//! neighbouring groups, and claims pieces from its front. A worker with an empty part
//! takes half of another part from the back.
//!
//! So a worker goes through memory in order, which suits prefetching. It goes through the
//! same memory as in the last launch of as many groups, which its cache may still have. All
//! workers end together, however long each group takes. (Self-scheduling with affinity:
//! Markatos and LeBlanc, 1994.)
//!
//! Long groups that are few are dealt out singly instead, one to each part in turn. They
//! then begin in about their order, as in greedy list scheduling. Otherwise one worker
//! could have all of the longest groups, such as the last rows of a triangle, and others
//! would take them late. With many groups, neighbours are better: a group's end is then
//! not prefetched for another worker.
//!
//! Each part is one word. A worker claims groups by a compare-and-exchange of that word,
//! and then has the groups by which the part became less.

use quipu_scheduler::sync::{AtomicU64, Ordering};
use smallvec::SmallVec;
use std::ops::Range;

/// A part. In lines of its own: each is written often.
#[repr(align(128))]
struct Part(AtomicU64);

fn pack(groups: &Range<u32>) -> u64 {
    u64::from(groups.start) << 32 | u64::from(groups.end)
}

fn unpack(part: u64) -> Range<u32> {
    (part >> 32) as u32..part as u32
}

/// The groups of a part, and the number of them that are claimed at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Division {
    /// Neighbours; at least and at most so many, but at least one.
    Neighbours(u64, u64),
    /// Every so manieth; one.
    Dealt,
}

pub(crate) struct Parts {
    /// The parts, as ranges of places. Places are groups if parts are neighbours, and else go in
    /// the order of the parts that groups were dealt to.
    parts: SmallVec<[Part; 2]>,
    /// Places that are claimed at once, at least and at most.
    least: u32,
    most: u32,
    /// The groups that are dealt out, if they are.
    dealt: Option<Range<u32>>,
}

impl Parts {
    /// Divides groups into a part for each of so many workers, or fewer, for none is to be shorter
    /// than a piece.
    pub(crate) fn new(groups: Range<u32>, workers: usize, division: Division) -> Self {
        let bounded = |count| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let (least, most) = match division {
            Division::Neighbours(least, most) => (bounded(least), bounded(most)),
            Division::Dealt => (1, 1),
        };
        let parts = workers.min(groups.len() / least as usize).max(1);
        // The first have one more, if it does not come out even.
        let (each, longer) = (groups.len() / parts, groups.len() % parts);
        let bound = |part: usize| groups.start + (part * each + part.min(longer)) as u32;
        Self {
            parts: (0..parts)
                .map(|part| Part(AtomicU64::new(pack(&(bound(part)..bound(part + 1))))))
                .collect(),
            least,
            most: most.max(least),
            dealt: matches!(division, Division::Dealt).then_some(groups),
        }
    }

    /// The number of pieces of the least size that are left.
    pub(crate) fn pieces_left(&self) -> usize {
        let left: usize = (0..self.parts.len())
            .map(|part| self.left(part).len())
            .sum();
        left / self.least as usize
    }

    /// The next piece for a worker, or for a thread that is none and so owns no part. Several
    /// workers own a part if there are fewer parts than workers.
    pub(crate) fn claim(&self, worker: Option<usize>) -> Option<Range<u32>> {
        let places = self.claim_places(worker)?;
        let Some(groups) = &self.dealt else {
            return Some(places);
        };
        let group = self.dealt_to(places.start - groups.start, groups);
        Some(group..group + 1)
    }

    /// The group at a place, counted from the first, where they are dealt out.
    fn dealt_to(&self, place: u32, groups: &Range<u32>) -> u32 {
        let parts = self.parts.len() as u32;
        let count = groups.end - groups.start;
        let (each, longer) = (count / parts, count % parts);
        // Places of parts that have one more.
        let in_longer = longer * (each + 1);
        let (part, round) = if place < in_longer {
            (place / (each + 1), place % (each + 1))
        } else {
            let beyond = place - in_longer;
            (longer + beyond / each, beyond % each)
        };
        groups.start + round * parts + part
    }

    /// The next places of a piece: of a single one, where groups are dealt out.
    fn claim_places(&self, worker: Option<usize>) -> Option<Range<u32>> {
        let own = worker.map(|worker| worker % self.parts.len());
        if let Some(piece) = own.and_then(|own| self.take(own, |left| self.piece(left))) {
            return Some(piece);
        }
        loop {
            let most_left = (0..self.parts.len()).max_by_key(|part| self.left(*part).len())?;
            if self.left(most_left).is_empty() {
                return None;
            }
            // Of groups that are dealt out, the next: a worker that has none left goes on in about
            // their order.
            let Some(own) = own.filter(|_| self.dealt.is_none()) else {
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

    /// Takes from a part the range that `choose` chooses of it: its front, or its back. Not if it
    /// is empty.
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
            // The groups' numbers are all that is shared here: their data came with the launch, and
            // their results are seen when the last participant leaves.
            match word.compare_exchange_weak(now, pack(&rest), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(taken),
                Err(other) => now = other,
            }
        }
    }

    /// The piece that an owner claims: smaller towards the end, so that others can have some.
    fn piece(&self, left: &Range<u32>) -> Range<u32> {
        let count = left.len() as u32;
        let piece = (count / 2).clamp(self.least, self.most).min(count);
        left.start..left.start + piece
    }

    /// The range that others take: a part that is too short to be divided as a whole.
    fn half(&self, left: &Range<u32>) -> Range<u32> {
        let count = left.len() as u32;
        let kept = if count > self.least { count / 2 } else { 0 };
        left.start + kept..left.end
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Division::{Dealt, Neighbours};
    use super::*;
    use std::sync::Mutex;

    /// Pieces in the order in which a lone worker claims them.
    fn pieces(groups: Range<u32>, parts: usize, (least, most): (u64, u64)) -> Vec<Range<u32>> {
        let parts = Parts::new(groups, parts, Neighbours(least, most));
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
        let parts = Parts::new(0..300, 3, Neighbours(1, 10));
        let claimed: Vec<_> = std::iter::from_fn(|| parts.claim(Some(1))).collect();
        let own = claimed
            .iter()
            .take_while(|piece| piece.start >= 100 && piece.end <= 200);
        let own: Vec<u32> = own.cloned().flatten().collect();
        assert_eq!(own, (100..200).collect::<Vec<_>>());
        assert_eq!(claimed.into_iter().flatten().count(), 300);
    }

    /// The time at which each of so many workers ends, if groups have this cost.
    fn ends(count: u32, workers: usize, division: Division, cost: impl Fn(u32) -> u64) -> Vec<u64> {
        let parts = Parts::new(0..count, workers, division);
        let mut ends = vec![0; workers];
        let mut working: Vec<usize> = (0..workers).collect();
        while let Some(next) = working.iter().copied().min_by_key(|worker| ends[*worker]) {
            match parts.claim(Some(next)) {
                Some(piece) => ends[next] += piece.map(&cost).sum::<u64>(),
                None => working.retain(|worker| *worker != next),
            }
        }
        ends.sort_unstable();
        ends
    }

    /// A quarter takes a hundred times as long as the rest: a worker that had to do all of it would
    /// end last by far.
    #[test]
    fn groups_of_different_length_end_together() {
        let cost = |group| if group < 16 { 100 } else { 1 };
        let spread = |workers, division| {
            let ends = ends(64, workers, division, cost);
            ends[workers - 1] - ends[0]
        };
        for workers in [2, 3, 16] {
            for division in [Neighbours(1, 1), Dealt] {
                let spread = spread(workers, division);
                assert!(spread <= 100, "{spread} with {workers}, {division:?}");
            }
        }
        // A piece that is claimed at once is nobody else's.
        assert!(spread(2, Neighbours(16, 64)) > 1000);
    }

    /// The time at which all have ended, if the worker that is free first always begins the next
    /// group.
    fn list_scheduled(count: u32, workers: usize, cost: impl Fn(u32) -> u64) -> u64 {
        let mut ends = vec![0; workers];
        for group in 0..count {
            *ends.iter_mut().min().expect("a worker") += cost(group);
        }
        ends.into_iter().max().expect("a worker")
    }

    #[test]
    fn few_groups_that_are_dealt_out_end_as_if_they_were_begun_in_order() {
        let costs: [fn(u32) -> u64; 3] = [
            |group| u64::from(group) + 1,
            |group| if group < 48 { 5 } else { 50 },
            |group| u64::from(group.wrapping_mul(2_654_435_769) >> 28) + 1,
        ];
        for (number, cost) in costs.into_iter().enumerate() {
            for (count, workers) in [(4, 2), (8, 4), (16, 4), (64, 4), (33, 16), (64, 16)] {
                let dealt = ends(count, workers, Dealt, cost)[workers - 1];
                let in_order = list_scheduled(count, workers, cost);
                let what = format!("costs {number} of {count} groups on {workers} workers");
                assert!(
                    dealt * 100 <= in_order * 115,
                    "{what}: {dealt} and {in_order}"
                );
                if number < 2 {
                    assert_eq!(dealt, in_order, "{what}");
                }
            }
        }
        let neighbours = ends(4, 2, Neighbours(1, 1), costs[0])[1];
        assert!(
            neighbours > list_scheduled(4, 2, costs[0]),
            "then there were no need to"
        );
    }

    #[test]
    fn a_worker_is_dealt_the_same_groups_each_time() {
        let parts = Parts::new(2..13, 3, Dealt);
        let claimed: Vec<_> = std::iter::from_fn(|| parts.claim(Some(4)))
            .flatten()
            .collect();
        assert_eq!(claimed[..4], [3, 6, 9, 12], "its own");
        assert_eq!(
            claimed[4..],
            [2, 4, 5, 7, 8, 10, 11],
            "the others' in order"
        );
    }

    #[test]
    fn every_group_is_claimed_once_by_threads_at_a_time() {
        for round in 0..400 {
            let (count, owners) = (1 + round * 7, 3);
            let division = [Neighbours(1, 5), Dealt][round as usize % 2];
            let parts = Parts::new(0..count, owners, division);
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
            let parts = Arc::new(Parts::new(0..6, 2, Division::Neighbours(1, 1)));
            // The rest is another worker's, which does not come.
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

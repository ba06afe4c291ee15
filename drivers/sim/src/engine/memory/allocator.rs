//! The allocator of a range of addresses: first fit by address, neighbours coalesced when freed.

use std::collections::BTreeMap;

/// The allocator of one space. Every byte of the range is in exactly one free piece or one live
/// allocation, and no two free pieces touch.
#[derive(Debug)]
pub(crate) struct Allocator {
    capacity: u64,
    free_bytes: u64,
    /// Free pieces: start and length.
    free: BTreeMap<u64, u64>,
    /// Live allocations: start and length.
    live: BTreeMap<u64, u64>,
}

impl Allocator {
    pub(crate) fn new(first: u64, capacity: u64) -> Self {
        Self {
            capacity,
            free_bytes: capacity,
            free: (capacity > 0)
                .then_some((first, capacity))
                .into_iter()
                .collect(),
            live: BTreeMap::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    pub(crate) fn largest_free(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// The lowest address where `size` bytes fit with `alignment`, a power of two.
    pub(crate) fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let (piece, length, start) = self.free.iter().find_map(|(&piece, &length)| {
            let start = piece.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(size)?;
            (end <= piece + length).then_some((piece, length, start))
        })?;
        self.free.remove(&piece);
        if start > piece {
            self.free.insert(piece, start - piece);
        }
        let (end, piece_end) = (start + size, piece + length);
        if end < piece_end {
            self.free.insert(end, piece_end - end);
        }
        self.live.insert(start, size);
        self.free_bytes -= size;
        Some(start)
    }

    /// Frees the allocation that starts at `start`; whether there was one.
    pub(crate) fn free(&mut self, start: u64) -> bool {
        let Some(size) = self.live.remove(&start) else {
            return false;
        };
        self.free_bytes += size;
        let (mut piece, mut length) = (start, size);
        if let Some((&before, &before_length)) = self.free.range(..start).next_back()
            && before + before_length == start
        {
            self.free.remove(&before);
            piece = before;
            length += before_length;
        }
        if let Some(after_length) = self.free.remove(&(start + size)) {
            length += after_length;
        }
        self.free.insert(piece, length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flag per byte: the allocator cannot disagree with it and be right.
    struct Model {
        first: u64,
        used: Vec<bool>,
    }

    impl Model {
        fn first_fit(&self, size: u64, alignment: u64) -> Option<u64> {
            (0..self.used.len() as u64)
                .map(|index| self.first + index)
                .filter(|start| start % alignment == 0)
                .find(|start| {
                    let from = (start - self.first) as usize;
                    self.used
                        .get(from..from + size as usize)
                        .is_some_and(|bytes| bytes.iter().all(|used| !used))
                })
        }

        fn mark(&mut self, start: u64, size: u64, used: bool) {
            let from = (start - self.first) as usize;
            self.used[from..from + size as usize].fill(used);
        }

        fn largest_free(&self) -> u64 {
            self.used
                .split(|used| *used)
                .map(<[bool]>::len)
                .max()
                .unwrap_or(0) as u64
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 33
    }

    #[test]
    fn first_fit_agrees_with_a_model_of_one_flag_per_byte() {
        for seed in 0..200 {
            let mut state = seed;
            let first = random(&mut state) % 100;
            let capacity = 1 + random(&mut state) % 300;
            let mut allocator = Allocator::new(first, capacity);
            let mut model = Model {
                first,
                used: vec![false; capacity as usize],
            };
            let mut live = Vec::new();
            for _ in 0..300 {
                if random(&mut state) % 5 < 3 {
                    let size = 1 + random(&mut state) % 40;
                    let alignment = 1 << (random(&mut state) % 6);
                    let found = allocator.allocate(size, alignment);
                    assert_eq!(found, model.first_fit(size, alignment), "seed {seed}");
                    if let Some(start) = found {
                        model.mark(start, size, true);
                        live.push((start, size));
                    }
                } else if !live.is_empty() {
                    let index = random(&mut state) as usize % live.len();
                    let (start, size) = live.swap_remove(index);
                    assert!(allocator.free(start));
                    assert!(!allocator.free(start));
                    model.mark(start, size, false);
                }
                let free = model.used.iter().filter(|used| !**used).count() as u64;
                assert_eq!(allocator.free_bytes(), free, "seed {seed}");
                assert_eq!(
                    allocator.largest_free(),
                    model.largest_free(),
                    "seed {seed}"
                );
            }
            for (start, _) in live {
                assert!(allocator.free(start));
            }
            assert_eq!(allocator.free.len(), 1, "everything coalesces, seed {seed}");
            assert_eq!(allocator.largest_free(), capacity);
        }
    }

    #[test]
    fn an_empty_space_has_nothing_to_give() {
        let mut allocator = Allocator::new(64, 0);
        assert_eq!(allocator.allocate(1, 1), None);
        assert_eq!(allocator.largest_free(), 0);
    }
}

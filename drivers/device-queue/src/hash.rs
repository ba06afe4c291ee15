//! Hashes of numbers that nobody can choose, such as event ids: one multiplication for each number.

use std::hash::{BuildHasher, Hasher};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHash;

/// The hash of the numbers so far.
pub(crate) struct Multiplied(u64);

impl BuildHasher for NumberHash {
    type Hasher = Multiplied;

    fn build_hasher(&self) -> Multiplied {
        Multiplied(0)
    }
}

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing (Knuth, volume 3, 6.4); a table takes the upper bits and the lower ones, so both are mixed.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_in_memory_are_spread() {
        let hash = |number: u64| NumberHash.hash_one(number);
        let places = (0..4096_u64).map(|number| (1 << 48) + 0x7f00_0000_0000 + 192 * number);
        let hashes: Vec<u64> = places.map(hash).collect();
        let low: HashSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
        let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(
            low.len() > 2000 && high.len() > 100,
            "{} and {}",
            low.len(),
            high.len()
        );
    }
}

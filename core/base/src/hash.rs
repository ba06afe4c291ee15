//! Hashes: of bytes, for names that stay; of numbers, for tables.

use std::hash::{BuildHasher, Hasher};

/// The 128-bit FNV-1a hash (Fowler, Noll, Vo) of bytes, but on words in place of bytes, and mixed
/// at the end.
///
/// It is the same in each process and on each machine.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let step = |hash: u128, word: u64| (hash ^ u128::from(word)).wrapping_mul(PRIME);
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    let hash = words.chain(rest).fold(basis, step);
    // A word's upper bits have only reached the hash's upper bits.
    let mixed = (hash ^ hash >> 64).wrapping_mul(PRIME);
    mixed ^ mixed >> 64
}

/// For tables by numbers that nobody can choose, such as event ids: one multiplication for each
/// number.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHash;

/// The hash of the numbers so far.
#[derive(Debug)]
pub struct Multiplied(u64);

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
        // Fibonacci hashing (Knuth, volume 3, 6.4); a table takes the upper bits and the lower
        // ones, so both are mixed.
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

    #[test]
    fn each_bit_of_bytes_changes_their_hash_throughout() {
        let text = *b"sixteen and five more";
        for bit in 0..8 * text.len() {
            let mut other = text;
            other[bit / 8] ^= 1 << (bit % 8);
            let differing = of_bytes(&text) ^ of_bytes(&other);
            assert_ne!(differing as u32, 0, "bit {bit}");
        }
    }
}

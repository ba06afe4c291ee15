//! Philox4x32-10, and the numbers made of its words.

use crate::number::{Float, Integer, Number};
use crate::{KernelData, device};

/// The factors of a counter's words in each round.
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// The increments of the key's words from round to round: the golden ratio, and the square root of
/// 3 less 1.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Four random words: a function of the counter and the key, one to one in the counter.
///
/// ```
/// # use quipu_kernel::philox4x32;
/// assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[device(crate = crate)]
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let (high0, low0) = (MULTIPLIERS[0].mul_high(c0), MULTIPLIERS[0].wrapping_mul(c0));
        let (high1, low1) = (MULTIPLIERS[1].mul_high(c2), MULTIPLIERS[1].wrapping_mul(c2));
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// A stream of random numbers: one of 2^64 of a seed, each of 2^66 words.
///
/// Two streams have no numbers in common, as their counters have none. The words are the same on
/// every device, and so are the numbers made of them. Only [`normal`](Self::normal) and
/// [`normal_pair`](Self::normal_pair) go through functions that devices compute to some units in
/// the last place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, KernelData)]
#[kernel_data(crate = crate)]
#[repr(C)]
pub struct Philox {
    key: [u32; 2],
    stream: [u32; 2],
    /// The number of blocks of four words that have been made.
    block: u64,
    /// The next ones, which move up: an array that is never indexed is in registers.
    words: [u32; 4],
    /// The number of these that are left.
    left: u32,
}

/// A number of 64 bits as two of 32, the low one first.
#[device(crate = crate)]
#[inline(always)]
const fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

#[device(crate = crate)]
impl Philox {
    /// A stream of a seed, from its beginning. Usually the stream is the number of an element or a
    /// thread.
    #[inline(always)]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self {
            key: halves(seed),
            stream: halves(stream),
            block: 0,
            words: [0; 4],
            left: 0,
        }
    }

    /// The same stream from a word on, counted from 0: drawing so many words before would come
    /// there, too.
    #[inline(always)]
    #[must_use]
    pub fn at(self, word: u64) -> Self {
        let mut moved = Self {
            block: word / 4,
            left: 0,
            ..self
        };
        for _ in 0..word % 4 {
            moved.next_u32();
        }
        moved
    }

    /// The next word.
    #[inline(always)]
    pub fn next_u32(&mut self) -> u32 {
        if self.left == 0 {
            let [low, high] = halves(self.block);
            self.words = philox4x32([low, high, self.stream[0], self.stream[1]], self.key);
            self.block = self.block.wrapping_add(1);
            self.left = 4;
        }
        self.left -= 1;
        let [next, second, third, fourth] = self.words;
        self.words = [second, third, fourth, 0];
        next
    }

    /// The next two words, the low half first.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        let low = self.next_u32();
        u64::from(low) | u64::from(self.next_u32()) << 32
    }

    /// A float from 0, inclusive, to 1, exclusive, each of equally many as far apart: of 24 bits
    /// (`f32`, from one word) or 53 bits (`f64`, from two).
    #[inline(always)]
    pub fn uniform<T: Uniform>(&mut self) -> T {
        T::uniform(self)
    }

    /// An integer below `bound`, each with the same probability; 0 if that is 0.
    ///
    /// From one word, and with a probability of at most `bound` in 2^32 from one more each time (D.
    /// Lemire, "Fast random integer generation in an interval", 2019).
    #[inline(always)]
    pub fn below(&mut self, bound: u32) -> u32 {
        let mut word = self.next_u32();
        let mut low = word.wrapping_mul(bound);
        if low < bound {
            // Too few words are there for some of the numbers: so many are thrown away that all
            // have as many.
            let surplus = bound.wrapping_neg() % bound;
            while low < surplus {
                word = self.next_u32();
                low = word.wrapping_mul(bound);
            }
        }
        word.mul_high(bound)
    }

    /// As [`below`](Self::below), in 64 bits, from two words each time.
    #[inline(always)]
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        let mut word = self.next_u64();
        let mut low = word.wrapping_mul(bound);
        if low < bound {
            let surplus = bound.wrapping_neg() % bound;
            while low < surplus {
                word = self.next_u64();
                low = word.wrapping_mul(bound);
            }
        }
        word.mul_high(bound)
    }

    /// Two independent normally distributed floats, of mean 0 and variance 1: by [`box_muller`] of
    /// two uniform ones. None is further out than 5.8 (`f32`) or 8.6 (`f64`).
    #[inline(always)]
    pub fn normal_pair<T: Uniform>(&mut self) -> (T, T) {
        let first = T::uniform(self);
        box_muller(first, T::uniform(self))
    }

    /// The first of a [`normal_pair`](Self::normal_pair).
    #[inline(always)]
    pub fn normal<T: Uniform>(&mut self) -> T {
        self.normal_pair().0
    }
}

/// Two independent normally distributed floats, of mean 0 and variance 1, of two independent ones
/// that are uniform from 0, inclusive, to 1, exclusive (G. Box and M. Muller, "A note on the
/// generation of random normal deviates", 1958).
#[device(crate = crate)]
#[inline(always)]
pub fn box_muller<T: Uniform>(first: T, second: T) -> (T, T) {
    // From 0, exclusive, to 1.
    let first = T::ONE - first;
    let radius = (T::cast_from(-2_i32) * first.ln()).sqrt();
    let (sin, cos) = (T::TAU * second).sin_cos();
    (radius * cos, radius * sin)
}

/// Floats that are drawn.
#[device(crate = crate)]
pub trait Uniform: Float {
    /// As [`Philox::uniform`].
    fn uniform(random: &mut Philox) -> Self;
}

#[device(crate = crate)]
impl Uniform for f32 {
    #[inline(always)]
    fn uniform(random: &mut Philox) -> Self {
        (random.next_u32() >> 8).cast::<Self>() * (1.0 / 16_777_216.0)
    }
}

#[device(crate = crate)]
impl Uniform for f64 {
    #[inline(always)]
    fn uniform(random: &mut Philox) -> Self {
        (random.next_u64() >> 11).cast::<Self>() * (1.0 / 9_007_199_254_740_992.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that the authors publish with their code.
    #[test]
    fn known_answers() {
        for (counter, key, words) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox4x32(counter, key), words);
        }
    }

    #[test]
    fn streams_are_counters_and_can_be_entered_anywhere() {
        let mut random =
            Philox::new(0x299f_31d0_a409_3822, 0x0370_7344_1319_8a2e).at(4 * 0x05a3_08d3_243f_6a88);
        let block = philox4x32(
            [0x243f_6a88, 0x05a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
        );
        assert_eq!([(); 4].map(|()| random.next_u32()), block);

        let mut all = Philox::new(1, 2);
        for word in 0..20 {
            assert_eq!(Philox::new(1, 2).at(word).next_u32(), all.next_u32());
        }
        assert_ne!(Philox::new(1, 3).next_u64(), Philox::new(1, 2).next_u64());
        assert_ne!(Philox::new(2, 2).next_u64(), Philox::new(1, 2).next_u64());
    }

    /// Mean, variance, and counts in ten equal intervals, of which each is expected to have a
    /// tenth.
    fn moments(draw: impl FnMut() -> f64, interval: impl Fn(f64) -> usize) -> (f64, f64, f64) {
        const COUNT: usize = 100_000;
        let drawn: Vec<f64> = std::iter::repeat_with(draw).take(COUNT).collect();
        let mean = drawn.iter().sum::<f64>() / COUNT as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COUNT as f64;
        let mut counts = [0_u32; 10];
        drawn.iter().for_each(|x| counts[interval(*x)] += 1);
        let expected = COUNT as f64 / 10.0;
        let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
        (mean, variance, counts.iter().map(square).sum())
    }

    /// The chi-square statistic of nine degrees of freedom that one draw in a thousand exceeds.
    const CHI_SQUARE: f64 = 27.9;

    #[test]
    fn floats_are_uniform() {
        let interval = |x: f64| (x * 10.0) as usize;
        let mut random = Philox::new(3, 0);
        let (mean, variance, chi) = moments(|| random.uniform::<f32>().into(), interval);
        assert!(
            (mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001 && chi < CHI_SQUARE
        );
        let (mean, variance, chi) = moments(|| random.uniform(), interval);
        assert!(
            (mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001 && chi < CHI_SQUARE
        );
    }

    #[test]
    fn integers_are_below_their_bound_and_unbiased() {
        let mut random = Philox::new(4, 0);
        let (mean, _, chi) = moments(|| random.below(10).into(), |x| x as usize);
        assert!((mean - 4.5).abs() < 0.03 && chi < CHI_SQUARE);
        // Of such a bound, every word in three is thrown away; without that, the lower half would
        // come twice as often.
        let bound = 0xaaaa_aaaa;
        let (mean, _, chi) = moments(
            || f64::from(random.below(bound)) / f64::from(bound),
            |x| (x * 10.0) as usize,
        );
        assert!((mean - 0.5).abs() < 0.003 && chi < CHI_SQUARE);
        let bound = 0xaaaa_aaaa_aaaa_aaaa;
        let (mean, _, chi) = moments(
            || random.below_u64(bound) as f64 / bound as f64,
            |x| (x * 10.0) as usize,
        );
        assert!((mean - 0.5).abs() < 0.003 && chi < CHI_SQUARE);
        assert_eq!([0, 1].map(|bound| random.below(bound)), [0, 0]);
        assert_eq!([0, 1].map(|bound| random.below_u64(bound)), [0, 0]);
    }

    #[test]
    fn normal_floats_are_normal() {
        // Deciles of the normal distribution.
        let deciles = [
            -1.2816, -0.8416, -0.5244, -0.2533, 0.0, 0.2533, 0.5244, 0.8416, 1.2816,
        ];
        let interval = |x: f64| deciles.iter().filter(|decile| x > **decile).count();
        let mut random = Philox::new(5, 0);
        let (mean, variance, chi) = moments(|| random.normal::<f32>().into(), interval);
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02 && chi < CHI_SQUARE);
        let (mean, variance, chi) = moments(|| random.normal_pair::<f64>().1, interval);
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02 && chi < CHI_SQUARE);
    }
}

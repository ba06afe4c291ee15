//! Numbers that look random, the same on every machine.

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True once in so many times; never, if that is zero.
    pub(crate) fn once_in(&mut self, many: u64) -> bool {
        many != 0 && self.below(many) == 0
    }

    pub(crate) fn one_of<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let at = self.below(list.len() as u64);
        list.get(at as usize).cloned()
    }
}

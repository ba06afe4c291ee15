//! Loops over elements, piece by piece: the indices that a piece reads are checked once. The macros
//! write these loops (`stencil_loops.rs` there says which, and why).

use crate::extent::Vector;
use crate::view::GlobalRef;

/// A piece that is no longer is not worth to be halved.
const SHORT: usize = 16;

/// Elements that are gone through in pieces, in order.
#[doc(hidden)]
#[derive(Debug)]
pub struct Pieces<'e, T> {
    /// The number of the first of those that are left.
    first: usize,
    left: &'e mut [T],
    /// The number of positions that are tried next.
    tried: usize,
}

impl<'e, T> Pieces<'e, T> {
    /// Of elements of which the first has a number.
    #[inline(always)]
    pub fn new(first: usize, elements: &'e mut [T]) -> Self {
        Self {
            first,
            tried: elements.len(),
            left: elements,
        }
    }

    /// The number of the first element of the piece that is next, and how many these are.
    #[inline(always)]
    pub fn tried(&self) -> Option<(usize, usize)> {
        (self.tried > 0).then_some((self.first, self.tried))
    }

    /// Takes that piece. After it one of twice the length is tried: where one is at a border, those
    /// behind it rarely are.
    #[inline(always)]
    pub fn take(&mut self) -> &'e mut [T] {
        let length = self.tried;
        let (piece, left) = std::mem::take(&mut self.left).split_at_mut(length);
        self.first = self.first.wrapping_add(length);
        self.tried = left.len().min(length.saturating_mul(2));
        self.left = left;
        piece
    }

    /// As [`take`](Self::take), but lends the piece to a closure. The compiler then knows that
    /// nothing else reaches the elements, and can turn the loop into a memory copy.
    #[inline(always)]
    pub fn take_alone(&mut self, go_through: impl FnOnce(&mut [T])) {
        go_through(self.take());
    }

    /// Has half of the piece be tried. False if it is short.
    #[inline(always)]
    pub fn halve(&mut self) -> bool {
        let is_long = self.tried > SHORT;
        if is_long {
            self.tried /= 2;
        }
        is_long
    }
}

/// A container that is read by an index.
#[doc(hidden)]
pub trait Neighbours<const D: usize> {
    /// The type of its elements.
    type Element;

    /// So many neighbours from an index on, if all of these are there.
    fn neighbours(&self, first: [Option<usize>; D], count: usize) -> Option<&[Self::Element]>;
}

impl<T> Neighbours<1> for [T] {
    type Element = T;

    #[inline(always)]
    fn neighbours(&self, [first]: [Option<usize>; 1], count: usize) -> Option<&[T]> {
        self.get(first?..)?.get(..count)
    }
}

impl<T, const D: usize> Neighbours<D> for GlobalRef<'_, T, D> {
    type Element = T;

    #[inline(always)]
    fn neighbours(&self, first: [Option<usize>; D], count: usize) -> Option<&[T]> {
        let mut position = Vector::ZERO;
        for (dimension, first) in first.into_iter().enumerate() {
            position[dimension] = first?;
        }
        self.row(position)?.get(..count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_elements_in_order() {
        let mut elements: Vec<usize> = (7..207).collect();
        let mut pieces = Pieces::new(7, &mut elements);
        let mut taken = Vec::new();
        while let Some((first, length)) = pieces.tried() {
            // Those of the numbers 100 to 110 fit no piece.
            if (first..first + length).any(|number| (100..110).contains(&number)) && pieces.halve()
            {
                continue;
            }
            let piece = pieces.take();
            assert_eq!((piece[0], piece.len()), (first, length));
            taken.push((first, length));
        }
        assert_eq!(taken[0], (7, 50));
        let numbers: Vec<usize> = taken
            .iter()
            .flat_map(|(first, length)| *first..first + length)
            .collect();
        assert_eq!(numbers, elements);
        assert!(taken.iter().filter(|(_, length)| *length <= SHORT).count() < 8);
    }

    #[test]
    fn neighbours_are_inside() {
        let memory: Vec<u32> = (0..10).collect();
        assert_eq!(memory.neighbours([Some(3)], 7), Some(&memory[3..]));
        assert_eq!(memory.neighbours([Some(3)], 8), None);
        assert_eq!(memory.neighbours([Some(usize::MAX)], 2), None);
        assert_eq!(memory.neighbours([None], 1), None);
        let view = GlobalRef::from(&memory).in_strides([2, 3], [4, 1]).unwrap();
        assert_eq!(view.neighbours([Some(1), Some(1)], 2), Some(&[5, 6][..]));
        assert_eq!(view.neighbours([Some(1), Some(1)], 3), None);
        assert_eq!(view.neighbours([Some(2), Some(0)], 1), None);
        assert_eq!(view.neighbours([Some(0), None], 1), None);
    }
}

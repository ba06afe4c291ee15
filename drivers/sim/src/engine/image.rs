//! The program image of a device: kernels are only ever loaded together.
//!
//! A new image holds, as far as its capacity goes: the kernels that ready commands lack, oldest
//! command first; those that the host has named; those of other commands in the slots; those of the
//! old image, latest used first. So a launch of a loaded kernel builds nothing, and a flush with
//! several new kernels builds once.

use super::command::KernelId;

/// The loaded kernels, and those that are to be loaded.
#[derive(Debug, Default)]
pub(crate) struct Image {
    capacity: usize,
    /// Least recently used first.
    kernels: Vec<KernelId>,
    wanted: Vec<KernelId>,
}

impl Image {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    pub(crate) fn contains(&self, kernel: KernelId) -> bool {
        self.kernels.contains(&kernel)
    }

    /// Notes that a kernel is used.
    pub(crate) fn touch(&mut self, kernel: KernelId) {
        if let Some(index) = self.kernels.iter().position(|other| *other == kernel) {
            self.kernels[index..].rotate_left(1);
        }
    }

    /// Asks for kernels in the next image; whether one of them is missing.
    pub(crate) fn want(&mut self, kernels: &[KernelId]) -> bool {
        let mut missing = false;
        for kernel in kernels {
            missing |= !self.contains(*kernel);
        }
        if missing {
            self.wanted.extend_from_slice(kernels);
        }
        missing
    }

    /// True if kernels were asked for that no image has been built for.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Replaces the image. `required` comes first, `uploaded` after the kernels that the host has
    /// named.
    pub(crate) fn build(&mut self, required: &[KernelId], uploaded: &[KernelId]) -> usize {
        let wanted = std::mem::take(&mut self.wanted);
        let old = std::mem::take(&mut self.kernels);
        let candidates = required
            .iter()
            .chain(&wanted)
            .chain(uploaded)
            .chain(old.iter().rev());
        for kernel in candidates {
            if self.kernels.len() == self.capacity {
                break;
            }
            if !self.kernels.contains(kernel) {
                self.kernels.push(*kernel);
            }
        }
        self.kernels.reverse();
        self.kernels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u64]) -> Vec<KernelId> {
        numbers.iter().copied().map(KernelId).collect()
    }

    #[test]
    fn an_image_is_the_union_until_it_is_full_and_then_forgets_the_least_used() {
        let mut image = Image::new(3);
        assert!(image.want(&ids(&[1, 2])));
        assert_eq!(image.build(&[], &[]), 2);
        assert!(!image.want(&ids(&[2, 1])));
        assert!(image.want(&ids(&[3])));
        assert_eq!(image.build(&[], &[]), 3);
        image.touch(KernelId(1));
        image.touch(KernelId(3));
        assert_eq!(image.build(&ids(&[4]), &[]), 3);
        assert!(image.contains(KernelId(4)));
        assert!(image.contains(KernelId(3)));
        assert!(image.contains(KernelId(1)));
        assert!(!image.contains(KernelId(2)));
    }
}

//! Parts of devices: devices with numbers of their own, after those that the library lists, in the
//! memory of the device that they are parts of.
//!
//! A part is never dropped before the driver: commands name it by its number. When all parts of a
//! splitting are forgotten, the next splitting of that device in the same way has them again, so
//! there are never more than were used at once.

use quipu_scheduler::Partition;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The number of chunks, each twice as long as the one before.
const CHUNKS: usize = 32;

type Chunk<D> = OnceLock<Box<[OnceLock<D>]>>;

/// See the module.
pub(crate) struct Parts<D> {
    chunks: [Chunk<D>; CHUNKS],
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    count: usize,
    splittings: Vec<Splitting>,
}

struct Splitting {
    of: usize,
    partition: Partition,
    parts: Range<usize>,
    /// For each of them, true if it is in use.
    live: Vec<bool>,
}

impl<D> Default for Parts<D> {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            made: Mutex::default(),
        }
    }
}

/// The chunk of a part, and its place there.
fn place(part: usize) -> (usize, usize) {
    let chunk = (part + 1).ilog2() as usize;
    (chunk, part + 1 - (1 << chunk))
}

impl<D> Parts<D> {
    /// A part, by its number among them.
    pub(crate) fn get(&self, part: usize) -> Option<&D> {
        let (chunk, at) = place(part);
        self.chunks.get(chunk)?.get()?.get(at)?.get()
    }

    /// The parts of a splitting of the device of this number: those of an equal one that nobody
    /// uses, else those that `make` gives.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn split<E>(
        &self,
        of: usize,
        partition: &Partition,
        make: impl FnOnce() -> Result<Vec<D>, E>,
    ) -> Result<Range<usize>, E> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = made.splittings.iter_mut().find(|splitting| {
            splitting.of == of
                && splitting.partition == *partition
                && !splitting.live.contains(&true)
        });
        if let Some(splitting) = idle {
            splitting.live.fill(true);
            return Ok(splitting.parts.clone());
        }
        let devices = make()?;
        let parts = made.count..made.count + devices.len();
        made.count = parts.end;
        made.splittings.push(Splitting {
            of,
            partition: partition.clone(),
            parts: parts.clone(),
            live: vec![true; devices.len()],
        });
        for (part, device) in parts.clone().zip(devices) {
            let (chunk, at) = place(part);
            let slots = self.chunks[chunk].get_or_init(|| {
                let slots = std::iter::repeat_with(OnceLock::new);
                slots.take(1 << chunk).collect()
            });
            // Empty: each number is given once.
            let _ = slots[at].set(device);
        }
        Ok(parts)
    }

    /// Notes that nobody uses a part any more.
    pub(crate) fn forget(&self, part: usize) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let of = made
            .splittings
            .iter_mut()
            .find(|splitting| splitting.parts.contains(&part));
        if let Some(splitting) = of {
            let at = part - splitting.parts.start;
            splitting.live[at] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_places_and_splittings_are_used_again_when_all_of_one_is_forgotten() {
        let parts: Parts<(usize, usize)> = Parts::default();
        let mut made = 0;
        let mut split = |of: usize, count: u32| {
            let partition = Partition::Equally(count);
            let split = parts.split(of, &partition, || {
                made += 1;
                Ok::<_, ()>((0..3).map(|n| (made, n)).collect())
            });
            split.unwrap()
        };
        let (first, second) = (split(0, 1), split(0, 1));
        assert_eq!((&first, &second), (&(0..3), &(3..6)));
        assert_eq!(split(0, 2), 6..9);
        assert_eq!(split(1, 1), 9..12);
        for part in [3, 5] {
            parts.forget(part);
        }
        assert_eq!(split(0, 1), 12..15);
        parts.forget(4);
        assert_eq!(split(0, 1), second);
        for part in 0..15 {
            assert_eq!(parts.get(part), Some(&(part / 3 + 1, part % 3)));
        }
        assert_eq!(parts.get(15), None);
        assert_eq!(parts.get(usize::MAX - 1), None);
        let refused = parts.split(0, &Partition::Equally(9), || Err("no"));
        assert_eq!(refused, Err("no"));
    }
}

//! The replay buffer: bytes that were written and are not acknowledged, to be sent again after a
//! loss.
//!
//! Batches are kept as they were written, so keeping costs no copy; they go as a whole when their
//! last message is acknowledged. Only after a loss are they looked into: messages without numbers,
//! which concerned the lost connection alone, are left out then, and so are those that the other
//! side has.

use quipu_protocol::frame;
use std::collections::VecDeque;

/// Room that is kept for the next batches, at most. While much is sent, batches then lie where
/// others lay before, in the processor's caches, and not in memory that the system has to give
/// first.
const KEPT: usize = 8 << 20;

/// Batches that were written, oldest first.
#[derive(Debug, Default)]
pub(super) struct Replay {
    batches: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Bytes of those.
    spare_bytes: usize,
}

impl Replay {
    /// Keeps a batch whose last numbered message has this number.
    pub(super) fn keep(&mut self, last: u64, batch: Vec<u8>) {
        self.bytes += batch.len();
        self.batches.push_back((last, batch));
    }

    /// Everything up to a number is acknowledged. True if something was given up.
    pub(super) fn acknowledged(&mut self, received: u64) -> bool {
        let before = self.batches.len();
        while let Some((_, mut batch)) = self.batches.pop_front_if(|(last, _)| *last <= received) {
            self.bytes -= batch.len();
            if self.spare_bytes + batch.capacity() <= KEPT {
                batch.clear();
                self.spare_bytes += batch.capacity();
                self.spare.push(batch);
            }
        }
        self.batches.len() < before
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Room for another batch.
    pub(super) fn room(&mut self) -> Vec<u8> {
        let room = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= room.capacity();
        room
    }

    /// All messages that the other side has not received, in order: the kept ones, and then these.
    pub(super) fn after<'a>(
        &'a self,
        received: u64,
        unwritten: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<u8> {
        let mut all = Vec::new();
        let kept = self.batches.iter().map(|(_, batch)| batch.as_slice());
        for mut frames in kept.chain(unwritten) {
            // They were made here, and are whole.
            while let Ok(Some(length)) = frame::length(frames, u32::MAX)
                && let Some(bytes) = frames.get(..length)
                && let Ok(parsed) = frame::parse(bytes)
            {
                if parsed.sequence > received {
                    all.extend_from_slice(bytes);
                }
                frames = &frames[length..];
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_protocol::batch::Batch;
    use quipu_protocol::limits::MIN_FRAME;
    use quipu_protocol::message::{FreeBuffer, Message, Ping};

    fn batch(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
        let mut batch = Batch::new(MIN_FRAME);
        for number in numbers {
            let ping = Message::Ping(Ping {
                token: number,
                time_ns: 0,
            });
            batch.push(&ping, 0).unwrap();
            let free = Message::FreeBuffer(FreeBuffer { buffer: number });
            batch.push(&free, number).unwrap();
        }
        batch.bytes().to_vec()
    }

    fn numbers(mut frames: &[u8]) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(length) = frame::length(frames, MIN_FRAME).unwrap() {
            all.push(frame::parse(&frames[..length]).unwrap().sequence);
            frames = &frames[length..];
        }
        all
    }

    #[test]
    fn what_is_not_received_is_given_again_in_order_without_what_has_no_number() {
        for received in 0..=9 {
            let mut replay = Replay::default();
            replay.keep(3, batch(1..=3));
            replay.keep(4, batch(4..=4));
            replay.keep(6, batch(5..=6));
            replay.acknowledged(received);
            let (writing, pushed) = (batch(7..=8), batch(9..=9));
            let again = replay.after(received, [&writing[..], &pushed[..]]);
            let expected: Vec<u64> = (received + 1..=9).collect();
            assert_eq!(numbers(&again), expected);
        }
    }

    #[test]
    fn what_is_acknowledged_is_not_kept() {
        let mut replay = Replay::default();
        replay.keep(3, batch(1..=3));
        replay.keep(4, batch(4..=4));
        let all = replay.bytes();
        assert!(!replay.acknowledged(2) && replay.bytes() == all);
        assert!(replay.acknowledged(3) && replay.bytes() < all);
        assert!(replay.room().capacity() > 0, "its room is used again");
        assert!(replay.acknowledged(9) && replay.bytes() == 0);
    }
}

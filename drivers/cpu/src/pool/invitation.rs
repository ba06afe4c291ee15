//! An open invitation to share a launch: each worker has a place for one, where all others see it.
//!
//! It costs its owner a store, however many workers it is for. Tickets in the owner's deque, one
//! for each, would make the owner and the others begin later.
//!
//! `open` has the invitation's number in its upper half and the number of workers that may still
//! come in its lower. The owner writes the word before it opens, and only while none may come. A
//! worker that comes reads the word before it takes itself off the count. That fails if the count
//! was changed meanwhile, and so the worker did not read the word of a later invitation.

use quipu_scheduler::sync::{AtomicU64, Ordering};

/// An invitation. In a line of its own, which all workers that look for work read, and the next
/// line, which comes along.
#[repr(align(128))]
pub(crate) struct Invitation {
    open: AtomicU64,
    word: AtomicU64,
}

/// An invitation, among those of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

fn unpack(open: u64) -> (Number, u32) {
    (Number((open >> 32) as u32), open as u32)
}

fn pack(number: Number, count: u32) -> u64 {
    u64::from(number.0) << 32 | u64::from(count)
}

impl Invitation {
    pub(crate) fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            word: AtomicU64::new(0),
        }
    }

    /// The number that the next invitation has; `None` while an earlier one is open. Only for the
    /// place's owner.
    pub(crate) fn next(&self) -> Option<Number> {
        // Acquire: the worker that came last has read the word.
        let (number, count) = unpack(self.open.load(Ordering::Acquire));
        (count == 0).then(|| Number(number.0.wrapping_add(1)))
    }

    /// Invites so many: each gets the word. Only for the place's owner, with the [next](Self::next)
    /// number.
    pub(crate) fn open(&self, number: Number, word: u64, count: u32) {
        self.word.store(word, Ordering::Relaxed);
        self.open.store(pack(number, count), Ordering::Release);
    }

    /// True if a worker may come.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) as u32 != 0
    }

    /// Accepts the invitation, if one may come. Gives the word, and the number of workers that may
    /// still come.
    pub(crate) fn accept(&self) -> Option<(u64, u32)> {
        let mut open = self.open.load(Ordering::Acquire);
        loop {
            let (number, count) = unpack(open);
            let left = count.checked_sub(1)?;
            let word = self.word.load(Ordering::Relaxed);
            // Release: the owner writes another word only after this one was read.
            match self.open.compare_exchange_weak(
                open,
                pack(number, left),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((word, left)),
                Err(now) => open = now,
            }
        }
    }

    /// Withdraws the invitation of this number. Gives the number of workers that have not come. May
    /// be called any number of times.
    pub(crate) fn withdraw(&self, number: Number) -> u32 {
        let mut open = self.open.load(Ordering::Relaxed);
        loop {
            let (now, count) = unpack(open);
            if now != number || count == 0 {
                return 0;
            }
            match self.open.compare_exchange_weak(
                open,
                pack(number, 0),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return count,
                Err(now) => open = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn as_many_come_as_were_invited_and_no_more_once_it_is_withdrawn() {
        let place = Invitation::new();
        assert_eq!(place.accept(), None);
        let first = place.next().expect("nothing is open");
        place.open(first, 7, 3);
        assert!(place.is_open() && place.next().is_none());
        assert_eq!(place.accept(), Some((7, 2)));
        assert_eq!(place.withdraw(first), 2);
        assert_eq!(place.withdraw(first), 0);
        assert!(!place.is_open() && place.accept().is_none());
        let second = place.next().expect("nothing is open");
        place.open(second, 8, 1);
        assert_eq!(place.withdraw(first), 0, "that is another");
        assert_eq!(place.accept(), Some((8, 0)));
        assert_eq!(place.accept(), None);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::sleep::{Sleep, Workers};
    use super::*;
    use loom::sync::Arc;

    /// A worker comes while an invitation follows another: each word is had once, by a worker that
    /// comes or by the owner that withdraws it.
    #[test]
    fn every_word_is_had_by_as_many_as_were_invited() {
        loom::model(|| {
            let place = Arc::new(Invitation::new());
            let guest = {
                let place = place.clone();
                loom::thread::spawn(move || place.accept().map(|(word, _)| word))
            };
            let mut had = vec![];
            for word in [3, 4] {
                let number = place.next().expect("the last is withdrawn");
                place.open(number, word, 1);
                had.extend((0..place.withdraw(number)).map(|_| word));
            }
            had.extend(guest.join().unwrap());
            had.sort_unstable();
            assert_eq!(had, [3, 4]);
        });
    }

    /// Two come to one that is for two.
    #[test]
    fn nobody_comes_in_anothers_place() {
        loom::model(|| {
            let place = Arc::new(Invitation::new());
            let number = place.next().expect("nothing is open");
            place.open(number, 3, 2);
            let guest = {
                let place = place.clone();
                loom::thread::spawn(move || place.accept())
            };
            let came = [place.accept(), guest.join().unwrap()];
            assert!(came == [Some((3, 1)), Some((3, 0))] || came == [Some((3, 0)), Some((3, 1))]);
        });
    }

    /// An invitation is opened while a worker falls asleep: the worker sees it in its last look, or
    /// is chosen.
    #[test]
    fn an_invitation_is_not_slept_over() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let place = Arc::new(Invitation::new());
            sleep.start_spinning();
            let owner = {
                let (sleep, place) = (sleep.clone(), place.clone());
                loom::thread::spawn(move || {
                    let number = place.next().expect("nothing is open");
                    place.open(number, 3, 1);
                    sleep.wake_one(&Workers::range(0..1));
                })
            };
            sleep.announce(0);
            let is_seen = place.is_open();
            owner.join().unwrap();
            assert!(
                is_seen || sleep.is_chosen(0),
                "it is open and the worker sleeps"
            );
        });
    }
}

//! The progress of a queue: the set of its commands that are over, in program order.
//!
//! Each command of a queue has a sequence number and one byte in a page. The byte is set as the
//! command ends, just before its notify list is closed: a plain store, no read-modify-write,
//! whatever the number of workers. The *frontier* is the number of the first command that is not
//! over. It is only moved on demand: by a waiter, a marker, or an enqueue that needs a fresh page.
//!
//! So there is a moment in which a command is over here and its event is not, and the thread that
//! ends it may be preempted in it. No thread is to see both. Code that says that the commands below
//! a number are over has moved the frontier there first. And an event whose list is open looks at
//! the frontier too and, if that has passed its command, waits for the list to be closed.
//!
//! A party that wants to know when the frontier reaches a number becomes a *watcher*. The queue
//! then keeps a *sentinel*: one command that is not over and that the nearest watcher waits for.
//! Nothing can be served before the sentinel is over, so all other commands end without a second
//! look:
//!
//! 1. Under the lock, the watcher adds itself, stores the sentinel's number, and
//!    looks at the sentinel's byte again; if it is set, it takes the next.
//! 2. A thread that ends a command sets the byte, closes the notify list (a sequentially consistent
//!    exchange) and then compares the sentinel with its own number. Either it sees that it is the
//!    sentinel, and finds the next one or serves the watcher, or the watcher, which stored the
//!    sentinel before it looked, sees the byte.
//!
//! The sentinel is chosen at random among the commands waited for: in any order of their ends, each
//! new one halves, on average, the number of those left, so a wait for `n` commands takes about
//! `log n` sentinels.
//!
//! Pages are recycled when the frontier has passed them, so a queue that runs
//! for ever holds a few. They are never freed while the process runs.

use crate::bias::Bias;
use crate::command::slot::Slot;
use crate::limits::PAGE_COMMANDS;
use crate::observers::Observer;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering, fence};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// Commands per page. The models need pages that they come to the end of.
const PER_PAGE: u64 = if cfg!(loom) { 2 } else { PAGE_COMMANDS };

#[repr(C, align(64))]
pub(super) struct Page {
    base: AtomicU64,
    done: Flags,
}

#[repr(C, align(64))]
struct Flags([AtomicU8; PER_PAGE as usize]);

impl Page {
    fn new(base: u64) -> NonNull<Self> {
        let page = Box::new(Self {
            base: AtomicU64::new(base),
            done: Flags(std::array::from_fn(|_| AtomicU8::new(0))),
        });
        NonNull::from(Box::leak(page))
    }
}

/// The party to serve when the frontier reaches a number.
pub(crate) enum Watcher {
    /// A command that counts this as one of its waits.
    Command(NonNull<Slot>),
    /// Someone on the host.
    Observer(Arc<Observer>),
}

// SAFETY: a watching command is held by the queue until it is served.
unsafe impl Send for Watcher {}

struct Slow {
    /// Pages from the one that holds the frontier on.
    pages: VecDeque<PageRef>,
    spare: Vec<PageRef>,
    watchers: BTreeMap<(u64, u64), Watcher>,
    next_watcher: u64,
    /// All commands from the first number on, up to the nearest watcher's, which
    /// is the second, are over.
    search: (u64, u64),
    random: u64,
}

#[derive(Clone, Copy)]
struct PageRef(NonNull<Page>);
// SAFETY: pages are atomic and never freed.
unsafe impl Send for PageRef {}

impl PageRef {
    fn get(&self) -> &Page {
        // SAFETY: pages are never freed.
        unsafe { self.0.as_ref() }
    }
}

/// See the module.
pub(crate) struct Progress {
    enqueued: Enqueued,
    sentinel: Sentinel,
    frontier: AtomicU64,
    /// The page that holds the frontier, or one that did.
    frontier_page: AtomicPtr<Page>,
    slow: Mutex<Slow>,
}

/// Read as every command ends; on a cache line of its own.
#[repr(align(128))]
struct Sentinel(AtomicU64);

/// No sentinel.
const NONE: u64 = u64::MAX;

/// Written by enqueues only; on a cache line of its own.
#[repr(align(128))]
struct Enqueued {
    /// The bias to the one thread that enqueues, as long as there is one.
    bias: Bias,
    next: AtomicU64,
    page: AtomicPtr<Page>,
}

/// True if the byte of this number is not set, as far as this page tells. Then the command is not
/// over, or the frontier has passed it and its page been cleared for others. A later read of the
/// frontier tells which.
fn seems_unfinished(page: &AtomicPtr<Page>, sequence: u64) -> bool {
    // SAFETY: pages are never freed.
    let page = unsafe { &*page.load(Ordering::Acquire) };
    let offset = sequence.wrapping_sub(page.base.load(Ordering::Acquire));
    offset < PER_PAGE && page.done.0[offset as usize].load(Ordering::Acquire) == 0
}

impl Progress {
    pub(crate) fn new() -> Self {
        let first = Page::new(0);
        Self {
            enqueued: Enqueued {
                bias: Bias::new(),
                next: AtomicU64::new(0),
                page: AtomicPtr::new(first.as_ptr()),
            },
            sentinel: Sentinel(AtomicU64::new(NONE)),
            frontier: AtomicU64::new(0),
            frontier_page: AtomicPtr::new(first.as_ptr()),
            slow: Mutex::new(Slow {
                pages: VecDeque::from([PageRef(first)]),
                spare: Vec::new(),
                watchers: BTreeMap::new(),
                next_watcher: 0,
                search: (0, 0),
                random: 0x9e37_79b9_7f4a_7c15,
            }),
        }
    }

    fn slow(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the frontier where it is while the result lives.
    #[cfg(all(test, unix, not(miri)))]
    pub(crate) fn hold(&self) -> impl Drop {
        self.slow()
    }

    /// For another queue's commands, when there are none of this one's any more: they may come from
    /// another thread.
    pub(crate) fn reset(&self) {
        self.enqueued.bias.reset();
    }

    /// Gives the next command its number and its byte.
    #[inline]
    pub(crate) fn next(&self) -> (u64, *const AtomicU8) {
        let enqueued = &self.enqueued;
        let sequence = if enqueued.bias.enter() {
            let sequence = enqueued.next.load(Ordering::Relaxed);
            enqueued.next.store(sequence + 1, Ordering::Release);
            enqueued.bias.exit();
            sequence
        } else {
            enqueued.next.fetch_add(1, Ordering::SeqCst)
        };
        let page = self.enqueued.page.load(Ordering::Acquire);
        // SAFETY: pages are never freed. If the base fits, it is our page: ours
        // is not recycled before our command is over.
        let page = unsafe { &*page };
        let offset = sequence.wrapping_sub(page.base.load(Ordering::Acquire));
        if offset < PER_PAGE {
            return (sequence, &raw const page.done.0[offset as usize]);
        }
        (sequence, self.next_page(sequence))
    }

    #[cold]
    fn next_page(&self, sequence: u64) -> *const AtomicU8 {
        let mut slow = self.slow();
        self.advance(&mut slow);
        let base = sequence - sequence % PER_PAGE;
        loop {
            let last_base = slow
                .pages
                .back()
                .map_or(base, |page| page.get().base.load(Ordering::Relaxed));
            if slow.pages.is_empty() || last_base < base {
                let next = if slow.pages.is_empty() {
                    // The frontier's page: everything before it is over.
                    let frontier = self.frontier.load(Ordering::Relaxed);
                    frontier - frontier % PER_PAGE
                } else {
                    last_base + PER_PAGE
                };
                let page = slow.spare.pop().unwrap_or_else(|| PageRef(Page::new(0)));
                // Releasing: a thread that sees a flag cleared sees the frontier of that time,
                // which is beyond the page's old numbers.
                for flag in &page.get().done.0 {
                    flag.store(0, Ordering::Release);
                }
                page.get().base.store(next, Ordering::Release);
                slow.pages.push_back(page);
                continue;
            }
            let index = slow
                .pages
                .iter()
                .position(|page| page.get().base.load(Ordering::Relaxed) == base)
                .expect("pages are contiguous from the frontier to the last number given out");
            let page = slow.pages[index];
            if index + 1 == slow.pages.len() {
                self.enqueued.page.store(page.0.as_ptr(), Ordering::Release);
            }
            return &raw const page.get().done.0[(sequence - base) as usize];
        }
    }

    /// Moves the frontier as far as it goes, recycling the pages it passes.
    fn advance(&self, slow: &mut Slow) -> u64 {
        let mut frontier = self.frontier.load(Ordering::Relaxed);
        let end = self.enqueued.next.load(Ordering::SeqCst);
        while let Some(page) = slow.pages.front().copied() {
            let base = page.get().base.load(Ordering::Relaxed);
            let flags = &page.get().done.0[(frontier - base) as usize..];
            let stop = flags
                .iter()
                .take((end - frontier) as usize)
                .take_while(|flag| flag.load(Ordering::Acquire) != 0)
                .count();
            frontier += stop as u64;
            if frontier < base + PER_PAGE || slow.pages.len() == 1 {
                break;
            }
            slow.pages.pop_front();
            slow.spare.push(page);
        }
        // The only page may be passed completely; the next enqueue replaces it.
        if let [page] = slow.pages.make_contiguous()
            && frontier >= page.get().base.load(Ordering::Relaxed) + PER_PAGE
        {
            let page = *page;
            slow.pages.clear();
            slow.spare.push(page);
        }
        if let Some(page) = slow.pages.front() {
            self.frontier_page.store(page.0.as_ptr(), Ordering::Release);
        }
        self.frontier.store(frontier, Ordering::Release);
        frontier
    }

    /// The number that the next command gets.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.enqueued.next.load(Ordering::SeqCst)
    }

    /// True if every command numbered below `end` is over.
    pub(crate) fn reached(&self, end: u64) -> bool {
        let frontier = self.frontier.load(Ordering::Acquire);
        if frontier >= end {
            return true;
        }
        // A thread that helps while it waits asks after every command. Mostly the last is not over,
        // or, where they end in another order, the first: which takes no lock to see.
        if seems_unfinished(&self.enqueued.page, end - 1)
            && self.frontier.load(Ordering::Acquire) < end
            || seems_unfinished(&self.frontier_page, frontier)
                && self.frontier.load(Ordering::Acquire) == frontier
        {
            return false;
        }
        if crate::process::is_forked() {
            // Another thread may have had the lock, and nothing ends here.
            return false;
        }
        self.advance(&mut self.slow()) >= end
    }

    /// True if code may have been told that the command of this number is over: a mere look.
    #[inline]
    pub(crate) fn has_passed(&self, sequence: u64) -> bool {
        self.frontier.load(Ordering::Acquire) > sequence
    }

    /// True if the command of this number is the sentinel: its end may serve a watcher.
    #[inline]
    pub(crate) fn is_sentinel(&self, sequence: u64) -> bool {
        self.sentinel.0.load(Ordering::SeqCst) == sequence
    }

    /// Serves `watcher` when every command below `end` is over; gives it back
    /// if that is so already. The number returned takes it out again. Others
    /// that turn out to be served are added to `served`.
    pub(crate) fn watch(
        &self,
        end: u64,
        watcher: Watcher,
        served: &mut Vec<Watcher>,
    ) -> Result<(u64, u64), Watcher> {
        let mut slow = self.slow();
        let key = (end, slow.next_watcher);
        slow.next_watcher += 1;
        let nearest = slow
            .watchers
            .first_key_value()
            .is_none_or(|(k, _)| key < *k);
        slow.watchers.insert(key, watcher);
        if nearest {
            let before = served.len();
            self.aim(&mut slow, served);
            if !slow.watchers.contains_key(&key) {
                // It was the nearest, so it is the first of those served.
                return Err(served.remove(before));
            }
        }
        Ok(key)
    }

    /// Takes a watcher out again, if it was not served.
    pub(crate) fn unwatch(&self, key: (u64, u64), served: &mut Vec<Watcher>) {
        let mut slow = self.slow();
        if slow.watchers.remove(&key).is_some() {
            self.aim(&mut slow, served);
        }
    }

    /// Calls `look` with each command that waits for all below a number, for numbers from `low` on
    /// and up to `high`.
    pub(crate) fn each_watching_command(
        &self,
        low: u64,
        high: u64,
        mut look: impl FnMut(NonNull<Slot>),
    ) {
        if low > high {
            return;
        }
        let slow = self.slow();
        for watcher in slow.watchers.range((low, 0)..=(high, u64::MAX)) {
            if let (_, Watcher::Command(slot)) = watcher {
                look(*slot);
            }
        }
    }

    /// The sentinel is over: takes out the watchers that are due, and finds the next one.
    pub(crate) fn take_served(&self, served: &mut Vec<Watcher>) {
        self.aim(&mut self.slow(), served);
    }

    /// Finds the sentinel of the nearest watcher; serves those that have none.
    fn aim(&self, slow: &mut Slow, served: &mut Vec<Watcher>) {
        let mut frontier = self.advance(slow);
        while let Some((&(end, _), _)) = slow.watchers.first_key_value() {
            let high = match slow.search {
                (high, for_end) if for_end == end => high,
                _ => end,
            };
            match self.some_unfinished(slow, frontier, high) {
                Some((sequence, high)) => {
                    slow.search = (high, end);
                    self.sentinel.0.store(sequence, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                    if !self.is_done(slow, sequence) {
                        return;
                    }
                }
                None => {
                    if frontier < end {
                        // Before anybody hears of it, as the module says.
                        frontier = self.advance(slow);
                    }
                    let (_, watcher) = slow
                        .watchers
                        .pop_first()
                        .expect("the nearest watcher was just looked at");
                    served.push(watcher);
                }
            }
        }
        self.sentinel.0.store(NONE, Ordering::SeqCst);
    }

    /// A random command between `low` and `high` that is not over, and a number
    /// from which on all below `high` are.
    fn some_unfinished(&self, slow: &mut Slow, low: u64, high: u64) -> Option<(u64, u64)> {
        if low >= high {
            return None;
        }
        // Marsaglia's xorshift: good enough to be independent of the order in
        // which commands end.
        slow.random ^= slow.random << 13;
        slow.random ^= slow.random >> 7;
        slow.random ^= slow.random << 17;
        let start = low + slow.random % (high - low);
        if let Some(found) = (start..high).find(|sequence| !self.is_done(slow, *sequence)) {
            return Some((found, high));
        }
        let found = self.last_unfinished(slow, start)?;
        Some((found, start))
    }

    /// True if the command of this number is over. A number whose page is not
    /// made yet is not.
    fn is_done(&self, slow: &Slow, sequence: u64) -> bool {
        if sequence < self.frontier.load(Ordering::Relaxed) {
            return true;
        }
        let first = match slow.pages.front() {
            Some(page) => page.get().base.load(Ordering::Relaxed),
            None => return false,
        };
        let index = ((sequence - first) / PER_PAGE) as usize;
        slow.pages.get(index).is_some_and(|page| {
            let flag = &page.get().done.0[((sequence - first) % PER_PAGE) as usize];
            flag.load(Ordering::Acquire) != 0
        })
    }

    /// The last command below `end` that is not over.
    fn last_unfinished(&self, slow: &Slow, end: u64) -> Option<u64> {
        let frontier = self.frontier.load(Ordering::Relaxed);
        let covered = slow.pages.back().map_or(frontier, |page| {
            page.get().base.load(Ordering::Relaxed) + PER_PAGE
        });
        if end > covered {
            // Its enqueue has taken the number and not yet made the page.
            return Some(end - 1);
        }
        for page in slow.pages.iter().rev() {
            let base = page.get().base.load(Ordering::Relaxed);
            if base >= end {
                continue;
            }
            let flags = &page.get().done.0;
            let last = (end - base).min(PER_PAGE);
            let first = frontier.saturating_sub(base).min(last);
            if let Some(offset) = flags[first as usize..last as usize]
                .iter()
                .rposition(|flag| flag.load(Ordering::Acquire) == 0)
            {
                return Some(base + first + offset as u64);
            }
            if base <= frontier {
                break;
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_reached_while_its_page_is_used_again() {
        const COMMANDS: u64 = if cfg!(miri) { 3 } else { 1_000 } * PER_PAGE;
        let progress = Progress::new();
        let ended = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COMMANDS {
                    let (sequence, done) = progress.next();
                    assert_eq!(sequence, number);
                    assert!(!progress.reached(number + 1), "it has not ended");
                    // SAFETY: pages are never freed.
                    unsafe { (*done).store(1, Ordering::Release) };
                    ended.store(number + 1, Ordering::Release);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while seen < COMMANDS {
                        seen = ended.load(Ordering::Acquire);
                        for end in [seen, seen / 2, seen.saturating_sub(PER_PAGE)] {
                            assert!(progress.reached(end), "{end} of {seen}");
                        }
                        assert!(!progress.reached(COMMANDS + 1), "never enqueued");
                    }
                });
            }
        });
        assert!(progress.reached(COMMANDS));
    }

    #[test]
    fn a_queue_is_where_its_first_unfinished_command_is() {
        let progress = Progress::new();
        let done: Vec<_> = (0..3).map(|_| progress.next().1).collect();
        // SAFETY: pages are never freed.
        let end = |number: usize| unsafe { (*done[number]).store(1, Ordering::Release) };
        end(2);
        assert!(progress.reached(0) && !progress.reached(1));
        assert!(
            !progress.reached(3),
            "the last is over, those before are not"
        );
        end(0);
        assert!(progress.reached(1) && !progress.reached(2));
        end(1);
        assert!(progress.reached(3));
    }
}

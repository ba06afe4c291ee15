//! A budget of work that others cause: so much at once, and so much a second from then on.
//!
//! | for | beyond it |
//! |---|---|
//! | pings of a connection that only asks ([`questions`](crate::questions)) | the answer waits |
//! | handshakes of a client ([`strangers`](crate::strangers)) | they count as a stranger's |
//! | packets of a session's process (`process/parent.rs`) | the session ends |

use std::time::Duration;

/// See the module. It is a bucket of tokens, kept as the time at which it is full again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The time in which one more may be done.
    each: Duration,
    /// The time in which all of it comes back.
    whole: Duration,
    full_at: Duration,
}

impl Budget {
    pub(crate) fn new(at_once: u32, each_second: u32) -> Self {
        let each = Duration::from_secs(1) / each_second.max(1);
        Self {
            each,
            whole: each * at_once.max(1),
            full_at: Duration::ZERO,
        }
    }

    /// Takes one at this time.
    ///
    /// # Errors
    /// If there is none left: the time at which there is one.
    pub(crate) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + self.each;
        let due = full_at.saturating_sub(self.whole);
        if due > now {
            return Err(due);
        }
        self.full_at = full_at;
        Ok(())
    }

    /// True if nothing of it is taken at this time.
    pub(crate) fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_done_at_once_and_then_so_much_a_second() {
        let mut budget = Budget::new(8, 4);
        let start = Duration::from_secs(1000);
        assert!((0..8).all(|_| budget.take(start).is_ok()));
        let next = start + Duration::from_millis(250);
        assert_eq!(budget.take(start), Err(next));
        assert!(!budget.is_full(next));
        // A refusal takes nothing from the budget.
        assert_eq!(budget.take(start), Err(next));
        budget.take(next).unwrap();
        assert_eq!(budget.take(next), Err(next + Duration::from_millis(250)));
        let later = next + Duration::from_secs(2);
        assert!(budget.is_full(later));
        assert!((0..8).all(|_| budget.take(later).is_ok()));
        budget.take(later).unwrap_err();
    }
}

//! The lines that the operator is told without asking: some of each client in a minute. How many
//! there are is for clients to decide, and for strangers, who count as one.

use crate::OPERATOR;
use crate::locked;
use quipu_link::Fingerprint;
use quipu_link::timer::Timer;
use quipu_scheduler::panics::quietly;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time for which lines are counted.
const TIME: Duration = Duration::from_secs(60);

/// The most lines of a client that the operator is told in that time.
const MOST: u32 = 20;

/// The lines of one client in the last minute.
#[derive(Debug)]
struct Count {
    since: Duration,
    said: u32,
    left_out: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lines {
    timer: Arc<dyn Timer>,
    counts: Mutex<HashMap<Option<Fingerprint>, Count>>,
}

impl Lines {
    pub(crate) fn new(timer: Arc<dyn Timer>) -> Self {
        Self {
            timer,
            counts: Mutex::default(),
        }
    }

    /// True if the operator is to be told one more line of an enrolled client, or of somebody who
    /// is none.
    pub(crate) fn tell(&self, client: Option<Fingerprint>) -> bool {
        let now = self.timer.now();
        let mut counts = locked(&self.counts);
        let mut others = 0;
        // Of enrolled clients alone, so there are few.
        counts.retain(|_, count| {
            let is_kept = now.saturating_sub(count.since) < TIME;
            others += if is_kept { 0 } else { count.left_out };
            is_kept
        });
        if others > 0 {
            quietly(|| tracing::info!(target: OPERATOR, others, "more lines, which were not said"));
        }
        let count = counts.entry(client).or_insert(Count {
            since: now,
            said: 0,
            left_out: 0,
        });
        let tells = count.said < MOST;
        match tells {
            true => count.said += 1,
            false => count.left_out += 1,
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_link::timer::ManualTimer;

    #[test]
    fn the_operator_is_told_some_lines_of_each_client_in_a_minute() {
        let timer = Arc::new(ManualTimer::default());
        let lines = Lines::new(timer.clone());
        let [one, other] = [1, 2].map(|byte| Some(Fingerprint::of_bytes([byte; 32])));
        for _ in 0..2 {
            for client in [one, other, None] {
                let told = (0..1000).filter(|_| lines.tell(client)).count();
                assert_eq!(told, MOST as usize);
            }
            timer.advance(TIME);
        }
        assert!(lines.tell(None));
        assert_eq!(locked(&lines.counts).len(), 1);
    }
}

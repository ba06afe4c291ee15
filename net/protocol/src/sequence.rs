//! Numbers of messages: new messages, repetitions and acknowledgements.
//!
//! Every numbered message of a stream and direction has the number after the one before it. A
//! receiver acknowledges the highest number up to which it has taken over everything; a sender
//! keeps what is not acknowledged, and after the connection was lost sends it again, with the
//! numbers that it had. So each takes effect exactly once.

use crate::error::{Place, Problem, WireError};

/// The receiver's side of a stream and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    last: u64,
    acknowledged: u64,
}

/// The meaning of a message's number on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next.
    New,
    /// It was taken over before, and is left out.
    Repeated,
}

impl Received {
    /// A stream of which everything up to `last` was taken over, and acknowledged.
    #[must_use]
    pub fn after(last: u64) -> Self {
        Self {
            last,
            acknowledged: last,
        }
    }

    /// Takes note of a numbered message.
    ///
    /// # Errors
    /// If messages before it are missing.
    pub fn take(&mut self, sequence: u64) -> Result<Arrival, WireError> {
        if sequence <= self.last {
            return Ok(Arrival::Repeated);
        }
        if sequence - 1 != self.last {
            return Err(Problem::Bounds {
                field: "a message's number",
                value: sequence,
                least: 1,
                most: self.last.saturating_add(1),
            }
            .at(Place::Order));
        }
        self.last = sequence;
        Ok(Arrival::New)
    }

    /// The last message that was taken over.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The number to acknowledge, if anything is; it is taken to be, then.
    pub fn acknowledge(&mut self) -> Option<u64> {
        let due = self.last > self.acknowledged;
        self.acknowledged = self.last;
        due.then_some(self.last)
    }
}

/// The sender's side of a stream and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    last: u64,
    acknowledged: u64,
}

impl Sent {
    /// The number of the next message.
    #[allow(
        clippy::should_implement_trait,
        reason = "a counter, not a sequence of values that ends"
    )]
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number of the last message.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The other side has taken over everything up to a number.
    ///
    /// # Errors
    /// If so many were not sent, or fewer are acknowledged than were before.
    pub fn acknowledge(&mut self, received: u64) -> Result<(), WireError> {
        if !(self.acknowledged..=self.last).contains(&received) {
            return Err(Problem::Bounds {
                field: "what is acknowledged",
                value: received,
                least: self.acknowledged,
                most: self.last,
            }
            .at(Place::Order));
        }
        self.acknowledged = received;
        Ok(())
    }

    /// The number of messages that the other side has not acknowledged.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.last - self.acknowledged
    }

    /// Everything up to this was acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_left_out_and_gaps_refused() {
        let mut received = Received::default();
        assert_eq!(received.take(1), Ok(Arrival::New));
        assert_eq!(received.take(2), Ok(Arrival::New));
        assert_eq!(received.take(1), Ok(Arrival::Repeated));
        assert_eq!(received.take(2), Ok(Arrival::Repeated));
        let error = received.take(4).unwrap_err();
        assert!(error.to_string().contains("is 4; it is 1 to 3"), "{error}");
        assert_eq!(received.last(), 2);
        assert_eq!(received.acknowledge(), Some(2));
        assert_eq!(received.acknowledge(), None);
        assert_eq!(Received::after(7).take(8), Ok(Arrival::New));
        assert!(Received::after(u64::MAX).take(u64::MAX).is_ok());
    }

    #[test]
    fn acknowledgements_only_rise_and_only_to_what_was_sent() {
        let mut sent = Sent::default();
        assert_eq!((sent.next(), sent.next(), sent.next()), (1, 2, 3));
        assert_eq!(sent.outstanding(), 3);
        sent.acknowledge(2).unwrap();
        sent.acknowledge(2).unwrap();
        assert_eq!((sent.outstanding(), sent.acknowledged()), (1, 2));
        assert!(sent.acknowledge(1).is_err());
        assert!(sent.acknowledge(4).is_err());
        assert_eq!(sent.acknowledged(), 2);
    }
}

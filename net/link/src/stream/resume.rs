//! The loss of a connection, and going on with another.

use super::{Attached, Incoming, Loss, Shared, attach};
use crate::connection::{Connection, wire};
use crate::error::Result;
use crate::{locked, quietly};
use quipu_protocol::batch::Batch;
use std::net::Shutdown;
use std::sync::Arc;

impl Shared {
    /// Marks the connection as lost, or the given one, if it is still in use. A stream that ends
    /// with it has failed.
    pub(super) fn lose(&self, which: Option<&Arc<Attached>>, loss: Loss, reason: &str) {
        if !self.resumable {
            return self.fail(reason.to_owned());
        }
        let mut queue = self.queue();
        let is_it = |attached: &Arc<Attached>| which.is_none_or(|lost| Arc::ptr_eq(lost, attached));
        if queue.failure.is_some() || !queue.attached.as_ref().is_some_and(is_it) {
            return;
        }
        let attached = queue.attached.take();
        queue.loss = loss;
        drop(queue);
        quietly(|| {
            tracing::debug!(
                address = self.address,
                reason,
                ?loss,
                "a connection is lost"
            );
        });
        if let Some(attached) = attached {
            // Threads that receive, or wait for the socket, are told so.
            let _ = attached.socket.shutdown(Shutdown::Both);
        }
        self.room.notify_all();
        self.stuck.notify_all();
    }
}

impl Incoming {
    /// True if the connection is lost and the stream is not: it goes on when it is
    /// [resumed](Self::resume).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let queue = self.shared.queue();
        self.shared.resumable && queue.failure.is_none() && queue.attached.is_none()
    }

    /// The way in which the connection was lost, if it [is](Self::is_lost).
    #[must_use]
    pub fn loss(&self) -> Loss {
        self.shared.queue().loss
    }

    /// Goes on with another connection to the same side, which has said there that it has received
    /// everything up to a message. Other messages are sent again.
    ///
    /// # Errors
    /// If it claims a message that it cannot have received, takes smaller frames than before, or
    /// the stream has ended.
    pub fn resume(&mut self, connection: Connection, received: u64) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        // Also if no thread has noticed.
        shared.lose(None, Loss::Silent, "another connection takes its place");
        let is_same = connection.codecs() == shared.codecs;
        let (tls, socket, reader, most) = connection.into_parts()?;
        if !is_same {
            return Err(shared.failed("it takes other messages than before the loss"));
        }
        if most < shared.most {
            return Err(shared.failed("it takes smaller frames than before the loss"));
        }
        let attached = attach(tls, socket, &shared.counts);
        // A thread that writes finds the lost connection closed.
        let mut writing = locked(&shared.writer);
        let mut queue = shared.queue();
        if let Some(failure) = &queue.failure {
            return Err(shared.failed(failure));
        }
        let noted = queue.sent.acknowledge(received);
        noted.map_err(|source| wire(&shared.address, source))?;
        queue.replay.acknowledged(received);
        let replay = std::mem::take(&mut queue.replay);
        let again = replay.after(received, [&writing.plain[..], queue.batch.bytes()]);
        queue.batch = Batch::new(shared.most);
        queue.batch.replace(again);
        // The other side has been told, but messages that are sent again name commands that were
        // not known to be over then. It may forget these when it has come to the end of the
        // repetition.
        queue.told = 0;
        queue.is_stuck = false;
        queue.taken = 0;
        queue.pongs = 0;
        queue.attached = Some(Arc::clone(&attached));
        writing.attached = Arc::clone(&attached);
        writing.last = 0;
        writing.plain.clear();
        writing.encrypted_to = 0;
        shared.counts.resumed();
        drop(queue);
        drop(writing);
        self.go_on(attached, reader);
        shared.room.notify_all();
        shared.flush();
        Ok(())
    }
}

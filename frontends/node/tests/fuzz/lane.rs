//! A stream of a client that sends any messages.

use quipu_link::LinkError;
use quipu_link::connection::Connection;
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{Acknowledge, Message, Ping};

/// One stream of a session: what is to be sent, and under which numbers.
pub(crate) struct Lane {
    connection: Connection,
    batch: Batch,
    /// Numbers of the last messages that were sent and came.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    token: u64,
    /// A bit to be wrong in what is sent next.
    wrong_bit: Option<usize>,
}

impl Lane {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            batch: Batch::new(1 << 20),
            sent: 0,
            received: 0,
            token: 0,
            wrong_bit: None,
        }
    }

    /// Another connection, which goes on after what both sides have had.
    pub(crate) fn go_on(&mut self, connection: Connection, sent: u64) {
        self.connection = connection;
        self.batch.clear();
        self.sent = sent;
    }

    /// Puts a message behind the others; false if it breaks the rules of its fields, which nobody
    /// can send by accident.
    pub(crate) fn push(&mut self, message: &Message<'_>) -> bool {
        let number = self.sent + 1;
        match message.kind().is_numbered() {
            true => {
                let pushed = self.batch.push(message, number).is_ok();
                self.sent += u64::from(pushed);
                pushed
            }
            false => self.batch.push(message, 0).is_ok(),
        }
    }

    /// One bit of what is sent next will be wrong.
    pub(crate) fn twist(&mut self, bit: usize) {
        self.wrong_bit = Some(bit);
    }

    /// Sends what was put; false if the connection is lost.
    pub(crate) fn flush(&mut self) -> bool {
        let sent = match self.wrong_bit.take().filter(|_| !self.batch.is_empty()) {
            Some(bit) => {
                let mut bytes = self.batch.bytes().to_vec();
                let bit = bit % (8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
                self.connection.send_bytes(&bytes)
            }
            None => self.connection.send_batch(&self.batch),
        };
        self.batch.clear();
        sent.is_ok()
    }

    pub(crate) fn acknowledge(&mut self, received: u64) {
        self.push(&Message::Acknowledge(Acknowledge { received }));
    }

    /// Sends what was put, and has `hear` hear all that was said by the time it was taken; false if
    /// the connection is lost.
    pub(crate) fn meet(&mut self, mut hear: impl FnMut(&Message<'_>)) -> bool {
        self.token += 1;
        let token = self.token;
        self.push(&Message::Ping(Ping { token, time_ns: 0 }));
        if !self.flush() {
            return false;
        }
        loop {
            match self.next(&mut hear) {
                Ok(Some(answered)) if answered == token => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Hears one message; of which ping it is the answer, if it is one.
    pub(crate) fn next(
        &mut self,
        hear: impl FnOnce(&Message<'_>),
    ) -> Result<Option<u64>, LinkError> {
        let (is_numbered, token) = self.connection.receive_as(|message| {
            hear(message);
            let token = match message {
                Message::Pong(pong) => Some(pong.token),
                _ => None,
            };
            Ok((message.kind().is_numbered(), token))
        })?;
        self.received += u64::from(is_numbered);
        Ok(token)
    }
}

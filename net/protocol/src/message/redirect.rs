//! The redirect: the address of a new session, on a node whose sessions have processes of their
//! own.

use super::cursor::{Cursor, RESERVED, zero};
use super::{Body, SessionId};
use crate::error::{Problem, holds};
use crate::layout;
use zerocopy::IntoBytes;

/// A node's other answer to a hello for a new session: the session has a process of its own, with a
/// key of its own, made for it, which never leaves it. The node, whose key the client knows,
/// vouches for that key by saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The session.
    pub session: SessionId,
    /// The fingerprint of the session's key: its streams' connections are to show it.
    pub key: [u8; 32],
    /// The time for which the session waits for its first connection, in milliseconds.
    pub wait_ms: u32,
}

impl<'a> Body<'a> for Redirect {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Redirect = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            session: SessionId(fixed.session),
            key: fixed.key,
            wait_ms: fixed.wait_ms.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(self.session != SessionId::NONE, "a redirect to no session")
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Redirect {
            session: self.session.0,
            key: self.key,
            wait_ms: self.wait_ms.into(),
            reserved: [0; 12],
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

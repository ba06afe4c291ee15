//! Routing: the bytes before TLS on a connection that is for one session.

use crate::key::sha256;
use quipu_protocol::message::SessionId;
use quipu_protocol::{EARLY_MAGIC, ROUTE_MAGIC};

/// The way to a session: the beginning of a hash of its id. A node that dials another says this
/// before either side has proved a key, and the client has told it the id. No one can choose enough
/// of a hash to give it a meaning for another listener there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route([u8; 16]);

impl Route {
    /// Its length in bytes, as it is sent.
    pub const LENGTH: usize = ROUTE_MAGIC.len() + 16;

    /// The way to a session.
    #[must_use]
    pub fn to(session: SessionId) -> Self {
        let mut route = [0; 16];
        route.copy_from_slice(&sha256(&session.0)[..16]);
        Self(route)
    }

    /// As it is sent.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..ROUTE_MAGIC.len()].copy_from_slice(&ROUTE_MAGIC);
        bytes[ROUTE_MAGIC.len()..].copy_from_slice(&self.0);
        bytes
    }

    /// As it is sent where the session is not there yet, for its command stream or its bulk stream.
    #[must_use]
    pub fn encode_early(self, is_bulk: bool) -> [u8; Self::LENGTH] {
        let mut bytes = self.encode();
        bytes[..ROUTE_MAGIC.len()].copy_from_slice(&EARLY_MAGIC[usize::from(is_bulk)]);
        bytes
    }

    /// Reads a route from sent bytes; none if they are something else.
    #[must_use]
    pub fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        Self::behind(ROUTE_MAGIC, bytes)
    }

    /// Reads a route to a session that may not be there yet, and whether it is to the bulk stream;
    /// none if the bytes are something else.
    #[must_use]
    pub fn decode_early(bytes: [u8; Self::LENGTH]) -> Option<(Self, bool)> {
        let [command, bulk] = EARLY_MAGIC.map(|magic| Self::behind(magic, bytes));
        let command = command.map(|route| (route, false));
        command.or(bulk.map(|route| (route, true)))
    }

    fn behind(magic: [u8; 8], bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let (found, route) = bytes.split_first_chunk()?;
        let route = route.try_into().ok()?;
        (*found == magic).then_some(Self(route))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_found_again_and_shows_nothing_of_the_id() {
        // SHA-256 of sixteen zeros begins so.
        let route = Route::to(SessionId([0; 16]));
        assert_eq!(route.0[..4], [0x37, 0x47, 0x08, 0xff]);
        let sent = route.encode();
        assert_eq!(Route::decode(sent), Some(route));
        for at in 0..ROUTE_MAGIC.len() {
            let mut other = sent;
            other[at] ^= 1;
            assert_eq!(Route::decode(other), None);
        }
        assert_eq!(Route::decode_early(sent), None);
        for is_bulk in [false, true] {
            let early = route.encode_early(is_bulk);
            assert_eq!(Route::decode_early(early), Some((route, is_bulk)));
            assert_eq!(Route::decode(early), None);
        }
        let chosen = *b"\nFLUSHALL\r\n\r\n\r\n\r";
        let chosen = SessionId(chosen[..16].try_into().unwrap());
        let sent = Route::to(chosen).encode();
        let mut told = sent[ROUTE_MAGIC.len()..].windows(3);
        assert!(!told.any(|part| chosen.0.windows(3).any(|of| of == part)));
    }
}

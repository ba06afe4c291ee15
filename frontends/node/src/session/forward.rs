//! Bytes from one node to another: the commands that send and receive them.

use super::Broken;
use super::bulk::Source;
use super::commands::{Begun, Done, Work, access, plain};
use super::landing::Landing;
use super::peer_sender::{Parcel, PeerSender, SMALL};
use super::transfer::{not_larger, too_much};
use quipu_protocol::message::{self, Command};
use quipu_scheduler::memory::mapping::HostLease;
use quipu_scheduler::{AccessMode, Error, Event};
use std::sync::Arc;

type Enqueued = Result<Begun, Error>;

impl Work {
    /// Sends bytes to a peer.
    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        send: &message::SendBytes,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let peer_sender = self.way_to(send.peer)?;
        let range = send.offset..send.offset + send.row;
        let queue = self.queue(command)?;
        let memory = self.objects.buffer(send.buffer, &range)?;
        if !self.bulk.name(send.transfer) {
            return Err(not_larger());
        }
        let most = self.node.options.limits.session_bytes;
        let (queue, memory) = match (queue, memory) {
            (Ok(queue), Ok(memory)) => (queue, memory),
            (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
        };
        if !self.bulk.reserve(true, send.row, most) {
            return Ok(Err(too_much(send.row, most)));
        }
        let (bulk, send) = (self.bulk.clone(), *send);
        let pack = move |source| {
            let parcel = Parcel::new(send.transfer, send.remote, send.row as usize, source);
            peer_sender.send(parcel);
        };
        let from = access(&memory, &range, AccessMode::Read);
        let enqueued = if self.is_lent(command, &[]) {
            let begin = move |lent: Option<HostLease>| match lent {
                Some(lent) => send_lent(lent, pack),
                None => bulk.give_back(true, send.row),
            };
            let host = self.objects.host();
            host.and_then(|host| host.lend(from, waits, begin))
        } else {
            Landing::new(send.row).and_then(|landing| {
                // SAFETY: it is looked at when the read is over.
                let to = unsafe { landing.part(0..landing.len()) };
                let event = queue.read(from, to, send.row, &[], waits)?;
                event.on_complete(move |outcome| match outcome {
                    Ok(()) => pack(Source::Landing(landing)),
                    Err(_) => bulk.give_back(true, send.row),
                });
                Ok(event)
            })
        };
        let enqueued = enqueued.inspect_err(|_| self.bulk.give_back(true, send.row));
        Ok(enqueued.map(|event| plain(command, event)))
    }

    /// The sender to a peer.
    pub(super) fn way_to(&self, peer: u64) -> Done<Arc<PeerSender>> {
        let rule = "bytes are sent to a peer that was not named";
        self.peers
            .peer_sender(peer)
            .ok_or_else(|| Broken::rule(rule))
    }

    /// Receives bytes from a peer, or by way of the client: a write whose bytes come another way.
    pub(super) fn receive(
        &mut self,
        command: &Command<'_>,
        receive: &message::Receive,
        waits: &[Event],
    ) -> Done<Enqueued> {
        self.bulk.is_of_peer(receive.transfer, receive.peer);
        let write = message::Write {
            buffer: receive.buffer,
            offset: receive.offset,
            row: receive.row,
            steps: &[],
            transfer: receive.transfer,
            bytes: &[],
        };
        self.write(command, &write, waits)
    }
}

/// Sends lent bytes. A few bytes are copied, and given back at once.
fn send_lent(lent: HostLease, pack: impl FnOnce(Source)) {
    let bytes = lent.bytes();
    if bytes.length as u64 > SMALL {
        return pack(Source::HostLease(lent));
    }
    // SAFETY: lent to be read.
    let little = unsafe { std::slice::from_raw_parts(bytes.pointer, bytes.length) };
    match Landing::holding(little) {
        Ok(copy) => {
            pack(Source::Landing(copy));
            lent.finish(Ok(()));
        }
        Err(_) => pack(Source::HostLease(lent)),
    }
}

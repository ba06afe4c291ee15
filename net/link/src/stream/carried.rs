//! Statistics of a stream.

use super::{Attached, Outgoing};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Counted where bytes meet sockets, over all connections of a stream.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
    /// Bytes of chunks that have come, and their length as they came.
    chunks: [AtomicU64; 2],
    resumed: AtomicU32,
}

impl Counts {
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A chunk has come.
    pub(super) fn chunk(&self, plain: usize, packed: usize) {
        for (count, bytes) in self.chunks.iter().zip([plain, packed]) {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes that were sent, and that have come.
    pub(super) fn bytes(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The traffic of a stream so far, over all of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes that sockets have taken: TLS's records, with those that were sent again after a loss.
    pub sent: u64,
    /// Bytes that sockets have given.
    pub received: u64,
    /// Bytes of chunks that have come, and their length as they came: shorter, if they were
    /// compressed.
    pub chunks_received: [u64; 2],
    /// The number of times that another connection has taken the place of a lost one.
    pub resumed: u32,
    /// False while the connection is lost.
    pub is_connected: bool,
    /// The other side's address; none while the connection is lost.
    pub address: Option<SocketAddr>,
    /// The time there and back, as the system has found; none while the connection is lost, or
    /// where it does not say.
    pub round_trip: Option<Duration>,
}

impl Outgoing {
    /// The stream's traffic, in both directions.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let counts = &self.shared.counts;
        let attached = self.shared.queue().attached.clone();
        let attached = attached.as_deref();
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Carried {
            sent: number(&counts.sent),
            received: number(&counts.received),
            chunks_received: counts.chunks.each_ref().map(number),
            resumed: counts.resumed.load(Ordering::Relaxed),
            is_connected: attached.is_some(),
            address: attached.and_then(|attached| attached.socket.peer_addr().ok()),
            round_trip: attached.and_then(round_trip),
        }
    }
}

/// The time that the system has measured as it sent: nothing is sent for it.
#[cfg(target_os = "linux")]
fn round_trip(attached: &Attached) -> Option<Duration> {
    use std::os::fd::AsRawFd;
    // SAFETY: plain numbers, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: there is room for as much as is said, and it is there until the call returns. An
    // older system gives less.
    let got = unsafe {
        libc::getsockopt(
            attached.socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    let is_known = got == 0 && info.tcpi_rtt > 0;
    is_known.then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

/// Elsewhere, it is not asked.
#[cfg(not(target_os = "linux"))]
fn round_trip(_: &Attached) -> Option<Duration> {
    None
}

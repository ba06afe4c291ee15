//! Packets for a relay: IPv4, and TCP in it.

use std::net::Ipv4Addr;
use std::ops::Range;

/// A place in a network that a connection has its end at.
pub(crate) type End = (Ipv4Addr, u16);

const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Bytes of a packet's data that stay as they are: there is what comes before TLS, and routes a
/// connection.
const WHOLE: usize = 64;
/// Bytes of IPv4's and TCP's headers without options.
const HEADER: usize = 20;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The destination of an IPv4 packet; none if it is something else.
pub(crate) fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    (packet.len() >= HEADER && packet[0] >> 4 == 4).then(|| Ipv4Addr::from_bits(u32_at(packet, 16)))
}

/// A segment of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) begins: bool,
    pub(crate) resets: bool,
    /// The number that its sender expects next, if it says so.
    pub(crate) expects: Option<u32>,
    /// The part after it.
    pub(crate) next: u32,
    /// The places of TCP's header and data.
    header: usize,
    data: Range<usize>,
}

impl Segment {
    /// The segment in a packet, if there is one.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        destination(packet)?;
        let header = usize::from(packet[0] & 15) * 4;
        let end = usize::from(u16_at(packet, 2)).min(packet.len());
        let is_whole = u16_at(packet, 6) & 0x3fff == 0;
        if packet[9] != TCP || !is_whole || header < HEADER || end < header + HEADER {
            return None;
        }
        let tcp = &packet[header..end];
        let data = header + usize::from(tcp[12] >> 4) * 4;
        let flags = tcp[13];
        let length = (end - data.min(end)) as u32
            + u32::from(flags & SYN != 0)
            + u32::from(flags & FIN != 0);
        let host = |at| Ipv4Addr::from_bits(u32_at(packet, at));
        Some(Self {
            from: (host(12), u16_at(tcp, 0)),
            to: (host(16), u16_at(tcp, 2)),
            begins: flags & (SYN | ACK) == SYN,
            resets: flags & RST != 0,
            expects: (flags & ACK != 0).then(|| u32_at(tcp, 8)),
            next: u32_at(tcp, 4).wrapping_add(length),
            header,
            data: data.min(end)..end,
        })
    }

    /// The ends of its connection, in order.
    pub(crate) fn ends(&self) -> (End, End) {
        (self.from.min(self.to), self.from.max(self.to))
    }

    /// Changes a byte of the data behind the first [`WHOLE`], if there are any, and what says
    /// whether they are right.
    pub(crate) fn damage(&self, packet: &mut [u8], random: u64) {
        let first = self.data.start + WHOLE;
        let Some(length @ 1..) = self.data.end.checked_sub(first) else {
            return;
        };
        let at = first + random as usize % length;
        // Not zero: it is another byte afterwards.
        packet[at] ^= (random >> 32) as u8 | 1;
        seal(&mut packet[..self.data.end], self.header);
    }
}

/// The packet that tells one side, which expects this next, that the other knows nothing of their
/// connection.
pub(crate) fn reset(from: End, to: End, sequence: u32) -> [u8; 2 * HEADER] {
    let mut packet = [0; 2 * HEADER];
    packet[0] = 0x45;
    packet[3] = 2 * HEADER as u8;
    packet[8] = 64;
    packet[9] = TCP;
    packet[12..16].copy_from_slice(&from.0.octets());
    packet[16..20].copy_from_slice(&to.0.octets());
    packet[20..22].copy_from_slice(&from.1.to_be_bytes());
    packet[22..24].copy_from_slice(&to.1.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[32] = 0x50;
    packet[33] = RST;
    let sum = !sum(&packet[..HEADER], 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    seal(&mut packet, HEADER);
    packet
}

/// Writes TCP's checksum.
fn seal(packet: &mut [u8], header: usize) {
    packet[header + 16..header + 18].fill(0);
    let length = (packet.len() - header) as u32;
    let hosts = sum(&packet[12..20], u32::from(TCP) + length);
    let sum = !sum(&packet[header..], hosts.into());
    packet[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
}

/// The sum that checksums of the internet are (RFC 1071), from one of what was before.
fn sum(bytes: &[u8], before: u32) -> u16 {
    let pairs = bytes.chunks(2);
    let words = pairs.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = before + words.sum::<u32>();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: End = (Ipv4Addr::new(10, 0, 0, 1), 4760);
    const B: End = (Ipv4Addr::new(10, 0, 0, 2), 50_000);

    /// Zero, if the checksums of a packet are right.
    fn wrong(packet: &[u8]) -> (u16, u16) {
        let tcp = packet.len() - HEADER;
        let hosts = sum(&packet[12..20], u32::from(TCP) + tcp as u32);
        (
            !sum(&packet[..HEADER], 0),
            !sum(&packet[HEADER..], hosts.into()),
        )
    }

    #[test]
    fn what_is_made_can_be_read() {
        let packet = reset(A, B, 7);
        assert_eq!(wrong(&packet), (0, 0));
        let segment = Segment::of(&packet).unwrap();
        assert_eq!((segment.from, segment.to), (A, B));
        assert!(segment.resets && !segment.begins && segment.expects.is_none());
        assert_eq!(destination(&packet), Some(B.0));
    }

    #[test]
    fn damage_is_not_noticed_by_tcp() {
        for length in [1, WHOLE, WHOLE + 1, 1000] {
            let mut packet = reset(A, B, 7).to_vec();
            packet.extend((0..length).map(|at| at as u8));
            let bytes = packet.len() as u16;
            packet[2..4].copy_from_slice(&bytes.to_be_bytes());
            packet[10..12].fill(0);
            let header = !sum(&packet[..HEADER], 0);
            packet[10..12].copy_from_slice(&header.to_be_bytes());
            seal(&mut packet, HEADER);
            let before = packet.clone();
            let segment = Segment::of(&packet).unwrap();
            segment.damage(&mut packet, 0x1234_5678_9abc_def1);
            let changed = packet[2 * HEADER..].iter().zip(&before[2 * HEADER..]);
            let changed: Vec<_> = (0..)
                .zip(changed)
                .filter(|(_, (now, then))| now != then)
                .collect();
            assert_eq!(changed.len(), usize::from(length > WHOLE));
            assert!(changed.iter().all(|(at, _)| *at >= WHOLE));
            assert_eq!(wrong(&packet), (0, 0));
        }
    }

    #[test]
    fn anything_may_come() {
        let packet = reset(A, B, 7);
        for length in 0..packet.len() {
            assert_eq!(Segment::of(&packet[..length]), None);
        }
        let mut random = crate::lane::Random(1);
        for _ in 0..20_000 {
            let mut packet = packet.to_vec();
            packet.extend([0; 8]);
            for _ in 0..1 + random.next() % 4 {
                let at = random.next() as usize % packet.len();
                packet[at] = random.next() as u8;
            }
            if let Some(segment) = Segment::of(&packet) {
                segment.damage(&mut packet, random.next());
            }
        }
    }
}

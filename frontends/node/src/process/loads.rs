//! The load of a session's devices and the traffic of its links, as its process answers when the
//! node asks.

use super::channel::LONGEST;
use super::{ANSWERED, LINKS, LOAD};
use crate::load::{DeviceCount, QueueCount};
use crate::session::LinkCount;
use quipu_protocol::frame::parse;
use quipu_protocol::limits::{HEADER, MAX_LINKS, MAX_QUEUE_LOADS, MIN_FRAME};
use quipu_protocol::message::{LinkEntry, LinkLoad, Links, Message, decode as decode_message};
use quipu_scheduler::Device;
use std::collections::HashMap;

/// A device, as both sides know it: by its driver's name, and its number there. They need not have
/// the same devices.
type Name = (String, u64);

/// Bytes of a queue in a packet.
const QUEUE: usize = 28;

/// Links in a packet, at most.
const LINKS_IN_PACKET: usize = 32;

const _: () = assert!(1 + HEADER + 16 + LINKS_IN_PACKET * size_of::<LinkEntry>() <= LONGEST);
const _: () = assert!(1 + 1 + 255 + 24 + MAX_QUEUE_LOADS * QUEUE <= LONGEST);

fn name(device: &Device) -> Name {
    (device.driver_name().to_owned(), device.index() as u64)
}

/// The index of a device among these.
fn find(devices: &[Device], (driver, index): &Name) -> Option<usize> {
    let is_it = |device: &Device| device.driver_name() == driver && device.index() as u64 == *index;
    devices.iter().position(is_it)
}

/// The words of a session since its last answer: no more than one count for each of the node's
/// devices, and [`MAX_LINKS`] links, whatever its process says.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) devices: HashMap<usize, DeviceCount>,
    pub(super) links: LinkCount,
}

impl Said {
    /// Takes the load of one of these devices, in place of its load before. A load of another
    /// device, or one that cannot be read, is left out.
    pub(super) fn take_load(&mut self, packet: &[u8], devices: &[Device]) {
        let Some((name, count)) = decode(packet) else {
            return;
        };
        if let Some(device) = find(devices, &name) {
            self.devices.insert(device, count);
        }
    }
}

/// The load of a device, as bytes.
pub(super) fn encode(device: &Device, count: &DeviceCount) -> Vec<u8> {
    let (driver, index) = name(device);
    let driver = &driver.as_bytes()[..driver.len().min(255)];
    let mut packet = vec![LOAD, driver.len() as u8];
    packet.extend_from_slice(driver);
    for number in [index, count.busy_ns, count.buffer_bytes] {
        packet.extend_from_slice(&number.to_le_bytes());
    }
    // What finds no room is a part of the last.
    for (number, queues) in merged(&count.queues).into_iter().enumerate() {
        debug_assert!(number < MAX_QUEUE_LOADS);
        packet.extend_from_slice(&queues.queue.to_le_bytes());
        for number in [queues.waiting, queues.running, queues.over] {
            packet.extend_from_slice(&number.to_le_bytes());
        }
    }
    packet
}

/// No more queues than a client is told of: those beyond are one.
fn merged(queues: &[QueueCount]) -> Vec<QueueCount> {
    let (apart, rest) = queues.split_at(queues.len().min(MAX_QUEUE_LOADS - 1));
    let mut merged = apart.to_vec();
    merged.extend(rest.iter().copied().reduce(|all, queue| QueueCount {
        queue: u32::MAX,
        waiting: all.waiting + queue.waiting,
        running: all.running + queue.running,
        over: all.over + queue.over,
    }));
    merged
}

/// Links of a session, some in each packet: as the node tells its client, whose message checks what
/// comes here.
pub(super) fn encode_links(count: &LinkCount) -> Vec<Vec<u8>> {
    let packets = count.links.chunks(LINKS_IN_PACKET).enumerate();
    let packet = |(number, links): (usize, &[LinkLoad])| {
        let links: Vec<LinkEntry> = links.iter().map(LinkEntry::from).collect();
        let message = Message::Links(Links {
            more: if number == 0 { count.more } else { 0 },
            links: &links,
        });
        let mut packet = vec![LINKS];
        // They are valid, and find room.
        message.encode(0, MIN_FRAME, &mut packet).ok()?;
        Some(packet)
    };
    packets.filter_map(packet).collect()
}

/// Adds what [`encode_links`] has put into a packet, but for what is more than a session tells of.
pub(super) fn decode_links(packet: &[u8], count: &mut LinkCount) -> Option<()> {
    let frame = parse(packet.strip_prefix(&[LINKS])?).ok()?;
    let Message::Links(links) = decode_message(&frame).ok()? else {
        return None;
    };
    count.more = count.more.saturating_add(links.more);
    let room = MAX_LINKS.saturating_sub(count.links.len());
    let entries = links.links.iter().take(room);
    count.links.extend(entries.flat_map(LinkEntry::load));
    Some(())
}

/// The answer to a question is over.
pub(super) fn encode_answered(question: u64) -> Vec<u8> {
    [&[ANSWERED][..], &question.to_le_bytes()].concat()
}

/// The load that [`encode`] has made bytes of. The process is its client's: nothing that it says is
/// trusted but as numbers.
fn decode(packet: &[u8]) -> Option<(Name, DeviceCount)> {
    let (length, rest) = packet.strip_prefix(&[LOAD])?.split_first()?;
    let (driver, rest) = rest.split_at_checked((*length).into())?;
    let driver = std::str::from_utf8(driver).ok()?.to_owned();
    let (numbers, rest) = rest.split_first_chunk::<24>()?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let queue = |bytes: &[u8; QUEUE]| {
        let (queue, numbers) = bytes.split_first_chunk::<4>()?;
        Some(QueueCount {
            queue: u32::from_le_bytes(*queue),
            waiting: word(&numbers[..8])?,
            running: word(&numbers[8..16])?,
            over: word(&numbers[16..])?,
        })
    };
    let (queues, []) = rest.as_chunks::<QUEUE>() else {
        return None;
    };
    if queues.len() > MAX_QUEUE_LOADS {
        return None;
    }
    let count = DeviceCount {
        busy_ns: word(&numbers[8..16])?,
        buffer_bytes: word(&numbers[16..])?,
        queues: queues.iter().map(queue).collect::<Option<_>>()?,
    };
    Some(((driver, word(&numbers[..8])?), count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_protocol::message::{LinkKind, LinkState, PeerAddress};

    #[test]
    fn links_come_as_they_were_and_no_more_than_are_told_of() {
        let link = |sent| LinkLoad {
            session: 1,
            kind: LinkKind::ToNode,
            state: LinkState::Connected,
            resumed: 2,
            address: PeerAddress::of("10.1.2.3:4".parse().unwrap()),
            key: [5; 32],
            round_trip_ns: 6,
            sent,
            received: 8,
            chunks_sent: [9, 10],
            chunks_received: [11, 12],
        };
        for links in [1, 32, 33, MAX_LINKS as u64] {
            let count = LinkCount {
                links: (0..links).map(link).collect(),
                more: 3,
            };
            let mut came = LinkCount::default();
            let packets = encode_links(&count);
            for packet in &packets {
                assert!(packet.len() <= LONGEST);
                decode_links(packet, &mut came).unwrap();
            }
            assert_eq!(came, count);
            for length in 0..packets[0].len() {
                let mut cut = LinkCount::default();
                assert_eq!(decode_links(&packets[0][..length], &mut cut), None);
                assert_eq!(cut, LinkCount::default());
            }
            // A process that says more than that says it in vain.
            for packet in packets.iter().cycle().take(1000) {
                decode_links(packet, &mut came).unwrap();
            }
            assert_eq!(came.links.len(), MAX_LINKS);
        }
        assert_eq!(encode_links(&LinkCount::default()).len(), 0);
    }

    #[test]
    fn what_there_is_to_do_comes_as_it_was() {
        let driver: std::sync::Arc<dyn quipu_scheduler::Driver> =
            quipu_driver_cpu::CpuDriver::start(quipu_driver_cpu::Options::new()).unwrap();
        let devices = Device::all_of(&driver).unwrap();
        let queue = |number: u32| QueueCount {
            queue: number,
            waiting: 1,
            running: 2,
            over: u64::from(number),
        };
        for queues in [0, 1, 63, 64, 300] {
            let count = DeviceCount {
                busy_ns: 5,
                buffer_bytes: 6,
                queues: (0..queues).map(queue).collect(),
            };
            let packet = encode(&devices[0], &count);
            assert!(packet.len() <= LONGEST);
            let (name, came) = decode(&packet).unwrap();
            assert_eq!(find(&devices, &name), Some(0));
            assert_eq!((came.busy_ns, came.buffer_bytes), (5, 6));
            assert_eq!(came.queues.len(), MAX_QUEUE_LOADS.min(queues as usize));
            let all = |queues: &[QueueCount]| queues.iter().map(|queue| queue.over).sum::<u64>();
            assert_eq!(all(&came.queues), all(&count.queues));
            for length in 0..packet.len() {
                let cut = decode(&packet[..length]);
                assert!(cut.is_none_or(|(_, cut)| cut.queues.len() < came.queues.len()));
            }
        }
    }

    #[test]
    fn a_process_that_says_more_than_there_is_says_it_in_vain() {
        let driver: std::sync::Arc<dyn quipu_scheduler::Driver> =
            quipu_driver_cpu::CpuDriver::start(quipu_driver_cpu::Options::new()).unwrap();
        let devices = Device::all_of(&driver).unwrap();
        let count = |busy_ns| DeviceCount {
            busy_ns,
            ..DeviceCount::default()
        };
        let mut said = Said::default();
        for busy_ns in 0..100 {
            let packet = encode(&devices[0], &count(busy_ns));
            said.take_load(&packet, &devices);
            // As of a device that the node does not have.
            said.take_load(&packet, &[]);
            let mut other = packet;
            other[2] ^= 1;
            said.take_load(&other, &devices);
        }
        assert_eq!(said.devices, HashMap::from([(0, count(99))]));
        // More queues than a process tells of.
        let mut packet = encode(&devices[0], &count(1));
        packet.resize(packet.len() + QUEUE * MAX_QUEUE_LOADS, 0);
        assert!(decode(&packet).is_some());
        packet.resize(packet.len() + QUEUE, 0);
        assert!(packet.len() <= LONGEST && decode(&packet).is_none());
    }
}

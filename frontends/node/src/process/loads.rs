//! What there is to do on a session's devices, as its process says when the node asks.

use super::channel::LONGEST;
use super::{ANSWERED, LOAD};
use crate::load::{DeviceCount, QueueCount};
use quipu_core::Device;
use quipu_wire::limits::MAX_QUEUE_LOADS;

/// A device, as both sides know it: by its driver's name, and its number there. They need not have the same devices.
pub(super) type Name = (String, u64);

/// Bytes of a queue in a packet.
const QUEUE: usize = 28;

const _: () = assert!(1 + 1 + 255 + 24 + MAX_QUEUE_LOADS * QUEUE <= LONGEST);

fn name(device: &Device) -> Name {
    (device.driver_name().to_owned(), device.index() as u64)
}

/// Which of these a device is.
pub(super) fn find(devices: &[Device], of: &Name) -> Option<usize> {
    devices.iter().position(|device| name(device) == *of)
}

/// What there is to do on a device.
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

/// The answer to a question is over.
pub(super) fn encode_answered(question: u64) -> Vec<u8> {
    [&[ANSWERED][..], &question.to_le_bytes()].concat()
}

/// What [`encode`] has made. The process is its client's: nothing that it says is trusted but as numbers.
pub(super) fn decode(packet: &[u8]) -> Option<(Name, DeviceCount)> {
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
    let count = DeviceCount {
        busy_ns: word(&numbers[8..16])?,
        buffer_bytes: word(&numbers[16..])?,
        queues: queues.iter().map(queue).collect::<Option<_>>()?,
    };
    Some(((driver, word(&numbers[..8])?), count))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_to_do_comes_as_it_was() {
        let driver: std::sync::Arc<dyn quipu_core::Driver> =
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
}

//! Writes, reads, copies and fills of whole buffers and their parts.

use super::{Dropped, context, each_queue, pool};
use quipu::ErrorKind;
use quipu::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn what_is_written_is_read_and_its_container_comes_back() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<u32>(3).unwrap();
        let vector = queue.write(&buffer, vec![1, 2, 3]).unwrap().wait().unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), vector);
        let array = queue.write(&buffer, [4, 5, 6]).unwrap().wait().unwrap();
        assert_eq!(
            queue.read_to(&buffer, [0; 3]).unwrap().wait().unwrap(),
            array
        );
        let boxed: Box<[u32]> = queue
            .write(&buffer, Box::from([7, 8, 9]))
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(
            queue.read_to(&buffer, boxed).unwrap().wait().unwrap()[..],
            [7, 8, 9]
        );
        let shared: Arc<[u32]> = Arc::from([1, 1, 1]);
        let same = queue
            .write(&buffer, Arc::new(shared.to_vec()))
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(*same, [1, 1, 1]);
        drop(queue.write(&buffer, &[2u32, 2, 2][..]).unwrap());
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [2, 2, 2]);
    });
}

#[test]
fn fresh_memory_is_zero_everywhere() {
    each_queue(|_, queue| {
        let buffer = queue.allocate::<u64>(1000).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [0; 1000]);
    });
}

#[test]
fn parts_are_where_they_should_be() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[0u16, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        let part = buffer.slice(2..=5).unwrap();
        assert_eq!((part.len(), part.slice(1..).unwrap().len()), (4, 3));
        queue.fill(&part.slice(1..3).unwrap(), 9).unwrap();
        queue
            .copy(&buffer.slice(..2).unwrap(), &buffer.slice(6..).unwrap())
            .unwrap();
        assert_eq!(
            queue.read(&buffer).unwrap().wait().unwrap(),
            [0, 1, 2, 9, 9, 5, 0, 1]
        );
        assert_eq!(queue.read(&part).unwrap().wait().unwrap(), [2, 9, 9, 5]);
    });
}

#[test]
fn buffers_take_over_memory_of_the_host() {
    each_queue(|context, queue| {
        let mut buffer = context.buffer_from(vec![1.5f64; 100]).unwrap();
        queue
            .for_each(&mut buffer, (), |_, x, ()| *x *= 2.0)
            .unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [3.0; 100]);
    });
}

#[test]
fn values_of_any_size_fill() {
    each_queue(|context, queue| {
        let pairs = context.allocate::<[u8; 3]>(4).unwrap();
        queue.fill(&pairs, [1, 2, 3]).unwrap();
        assert_eq!(queue.read(&pairs).unwrap().wait().unwrap(), [[1, 2, 3]; 4]);
        let long = context.allocate::<[u64; 5]>(3).unwrap();
        queue.fill(&long, [1, 2, 3, 4, 5]).unwrap();
        assert_eq!(
            queue.read(&long).unwrap().wait().unwrap(),
            [[1, 2, 3, 4, 5]; 3]
        );
        let flags = context.allocate::<bool>(3).unwrap();
        queue.fill(&flags, true).unwrap();
        assert_eq!(queue.read(&flags).unwrap().wait().unwrap(), [true; 3]);
    });
}

#[test]
fn long_values_fill_as_short_ones_do() {
    each_queue(|context, queue| {
        // Every element of many work-groups, and none of their neighbours.
        let buffer = context.allocate::<[u64; 3]>(10_007).unwrap();
        let part = buffer.slice(1..10_000).unwrap();
        queue.fill(&part, [1, 2, 3]).unwrap();
        let read = queue.read(&buffer).unwrap().wait().unwrap();
        assert!(read[1..10_000].iter().all(|value| *value == [1, 2, 3]));
        assert_eq!((read[0], read[10_000]), ([0; 3], [0; 3]));
        // A content size is of transfers of what is there: a fill minds none.
        let size = context.buffer(&[24u64]).unwrap();
        let (short, long) = (buffer.slice(..2).unwrap(), buffer.slice(2..4).unwrap());
        for part in [&short, &long] {
            part.set_content_size(Some(&size)).unwrap();
            queue.fill(part, [9; 3]).unwrap().wait().unwrap();
            part.set_content_size(None).unwrap();
            assert_eq!(queue.read(part).unwrap().wait().unwrap(), [[9; 3]; 2]);
        }
    });
}

#[test]
fn a_fill_of_more_than_there_is_memory_for_fails_and_no_more() {
    // Nothing is taken before a command asks for it, and then on the simulated
    // device, whose memory is known to be less.
    let length = (1 << 41) / size_of::<[u64; 5]>();
    let context = context();
    let device = context.devices().last().unwrap();
    let queue = context.queue(device).unwrap();
    let buffer = context.allocate::<[u64; 5]>(length).unwrap();
    let error = queue.fill(&buffer, [7; 5]).unwrap().wait().unwrap_err();
    let cause = error.first_cause();
    assert!(
        matches!(cause.kind(), ErrorKind::OutOfMemory { .. }),
        "{error}"
    );
    assert_eq!(queue.host_task(|| 1).unwrap().wait().unwrap(), 1);
}

#[test]
fn bytes_find_their_way_between_devices() {
    let (context, queue) = pool();
    let mut buffer = context.allocate::<u32>(1000).unwrap();
    for round in 0..3u32 {
        for device in context.devices() {
            let queue = context.queue(device).unwrap();
            queue
                .for_each(&mut buffer, (round,), |i, x, (round,)| {
                    *x += i as u32 + round
                })
                .unwrap();
        }
    }
    let devices = context.devices().len() as u32;
    let expected: Vec<_> = (0..1000).map(|i| devices * (3 * i + 3)).collect();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), expected);
}

#[test]
fn pinned_memory_is_a_container() {
    each_queue(|context, queue| {
        let mut pinned = Pinned::new(5).unwrap();
        pinned.copy_from_slice(&[1u8, 2, 3, 4, 5]);
        let buffer = context.allocate(5).unwrap();
        let mut pinned = queue.write(&buffer, pinned).unwrap().wait().unwrap();
        pinned.fill(0);
        let pinned = queue.read_to(&buffer, pinned).unwrap().wait().unwrap();
        assert_eq!(pinned[..], [1, 2, 3, 4, 5]);
    });
    // Where the system's limits allow a page.
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Max locked memory"));
        let soft = line.unwrap().split_whitespace().nth(3).unwrap();
        let is_allowed = soft == "unlimited" || soft.parse::<u64>().unwrap() >= 1 << 16;
        let page = Pinned::<u8>::new(1).unwrap();
        assert!(page.is_locked() || !is_allowed, "{soft}");
    }
    assert!(Pinned::<u8>::new(0).is_ok());
    assert!(Pinned::<u64>::new(usize::MAX / 4).is_err());
}

#[test]
fn structs_enums_and_arrays_are_elements() {
    use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};

    #[derive(Clone, Copy, Debug, PartialEq, NoUninit, CheckedBitPattern, Zeroable)]
    #[repr(u8)]
    enum Colour {
        Red = 0,
        Blue = 7,
    }
    #[derive(Clone, Copy, Debug, PartialEq, NoUninit, CheckedBitPattern, Zeroable)]
    #[repr(C)]
    struct Ball {
        at: [f32; 3],
        colour: Colour,
        spins: bool,
        number: u16,
    }
    each_queue(|context, queue| {
        let mut balls = context.allocate::<Ball>(5).unwrap();
        queue
            .for_each(&mut balls, (), |i, ball, ()| {
                *ball = Ball {
                    at: [i as f32; 3],
                    colour: Colour::Blue,
                    spins: i == 2,
                    number: i as u16,
                };
            })
            .unwrap();
        queue
            .fill(&balls.slice(..1).unwrap(), Ball::zeroed())
            .unwrap();
        let balls = queue.read(&balls).unwrap().wait().unwrap();
        assert_eq!(
            (balls[0].colour, balls[2].spins, balls[4].at),
            (Colour::Red, true, [4.0; 3])
        );
        let rows = context.buffer(&[[1u8; 37], [2; 37]]).unwrap();
        assert_eq!(queue.read(&rows).unwrap().wait().unwrap()[1], [2; 37]);
    });
}

/// A container whose drop can be seen.
struct Watched(Vec<u8>, #[expect(dead_code, reason = "dropped")] Dropped);

impl HostView for Watched {
    type Element = u8;
    fn elements(&self) -> &[u8] {
        &self.0
    }
    fn elements_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn a_command_keeps_its_memory_when_its_future_is_gone() {
    each_queue(|context, queue| {
        let drops = Arc::new(AtomicU32::new(0));
        let gate = UserEvent::new();
        let later = queue.after([gate.event()]);
        let buffer = context.allocate(4).unwrap();
        drop(
            later
                .write(&buffer, Watched(vec![7; 4], Dropped(drops.clone())))
                .unwrap(),
        );
        drop(
            later
                .read_to(&buffer, Watched(vec![0; 4], Dropped(drops.clone())))
                .unwrap(),
        );
        std::mem::forget(later.read(&buffer).unwrap());
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        gate.complete();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [7; 4]);
        queue.wait().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 2);
    });
}

/// A container that looks at its elements as it is dropped.
struct Looked(Vec<char>, Arc<AtomicU32>);

impl HostView for Looked {
    type Element = char;
    fn elements(&self) -> &[char] {
        &self.0
    }
    fn elements_mut(&mut self) -> &mut [char] {
        &mut self.0
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        let bits: &[u32] = bytemuck::cast_slice(&self.0);
        self.1.store(bits[0], Ordering::SeqCst);
    }
}

/// Two bytes of four make a surrogate, which is no `char`.
#[test]
fn a_container_is_checked_before_its_destructor_sees_it() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&['\u{1D800}']).unwrap();
        let in_use = context.buffer(&[2_u64]).unwrap();
        buffer.set_content_size(Some(&in_use)).unwrap();
        let seen = Arc::new(AtomicU32::new(u32::MAX));
        let gate = UserEvent::new();
        let read = queue
            .after([gate.event()])
            .read_to(&buffer, Looked(vec!['a'], seen.clone()))
            .unwrap();
        drop(read);
        gate.complete();
        context.wait().unwrap();
        let seen = seen.load(Ordering::SeqCst);
        assert!(char::from_u32(seen).is_some(), "{seen:x}");
    });
}

#[test]
fn a_buffer_dropped_with_commands_on_it_lives_until_they_are_over() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let mut buffer = context.allocate::<u32>(100).unwrap();
        queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        let read = queue.read(&buffer).unwrap();
        drop(buffer);
        gate.complete();
        assert_eq!(read.wait().unwrap()[99], 99);
    });
}

#[test]
fn bits_that_are_no_value_do_not_come_back() {
    let (context, queue) = pool();
    let bytes = context.buffer(&[0u8, 1, 2]).unwrap();
    // Only `unsafe` code can bring such bits about: a kernel that lies.
    let mut flags = context.allocate::<bool>(3).unwrap();
    drop(
        queue
            .host_task_with((&bytes, &mut flags), |(bytes, flags)| {
                // SAFETY: none: this is the error that is to be found.
                unsafe { std::ptr::copy(bytes.as_ptr(), flags.as_mut_ptr().cast(), 3) };
            })
            .unwrap(),
    );
    let error = queue.read(&flags).unwrap().wait().unwrap_err().to_string();
    assert!(
        error.contains("element 2") && error.contains("bool"),
        "{error}"
    );
    // A container that has the elements in itself may use such bits to say that it is not there.
    let last = flags.slice(2..).unwrap();
    let read = queue.read_to(&last, [false]).unwrap();
    let error = read.wait().unwrap_err().to_string();
    assert!(
        error.contains("element 0") && error.contains("bool"),
        "{error}"
    );
    let mut host = [true; 3];
    assert!(queue.read_slice(&flags, &mut host).is_err());
    assert_eq!(host, [false; 3]);
    assert!(queue.map(&flags).unwrap().wait().is_err());
    assert_eq!(
        queue
            .read(&flags.slice(..2).unwrap())
            .unwrap()
            .wait()
            .unwrap(),
        [false, true]
    );
}

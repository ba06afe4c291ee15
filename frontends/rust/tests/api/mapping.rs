//! Mappings.

use super::{each_queue, pool};
use quipu::diagnostics::wait_graph;
use quipu::prelude::*;
use quipu::{ErrorKind, MapRead, Mapping};

#[test]
fn what_is_written_through_a_mapping_is_there() {
    each_queue(|context, queue| {
        let mut buffer = context.allocate::<u32>(100).unwrap();
        queue
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        let mut mapped = queue
            .map_mut(&buffer.slice(10..20).unwrap())
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(mapped[..3], [10, 11, 12]);
        mapped.fill(7);
        drop(mapped);
        let read = queue.read(&buffer).unwrap().wait().unwrap();
        assert_eq!(read[9..21], [9, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 20]);
        let mapped = queue.map(&buffer).unwrap().wait().unwrap();
        assert_eq!(mapped[..], read[..]);
    });
}

#[test]
fn a_fill_of_a_view_is_refused_as_a_whole() {
    each_queue(|context, queue| {
        let view = context
            .buffer(&[1_u32; 30])
            .unwrap()
            .shaped([5, 6])
            .unwrap();
        let column = view.region([0..5, 1..3]).unwrap();
        let mapped = view.buffer().slice(18..24).unwrap();
        let mapped = queue.map(&mapped).unwrap().wait().unwrap();
        assert!(queue.fill_nd(&column, 7).is_err());
        // Nor any of the rows above.
        let above = view.buffer().slice(..18).unwrap();
        assert_eq!(queue.read(&above).unwrap().wait().unwrap(), [1; 18]);
        drop(mapped);
        queue.fill_nd(&column, 7).unwrap();
        let filled = [1, 7, 7, 1, 1, 1].repeat(5);
        assert_eq!(queue.read_nd(&view).unwrap().wait().unwrap(), filled);
        // Of elements that no device's engine can repeat.
        let view = context.buffer(&[[1_u64; 3]; 30]).unwrap();
        let view = view.shaped([5, 6]).unwrap();
        let column = view.region([0..5, 1..3]).unwrap();
        queue.fill_nd(&column, [7, 8, 9]).unwrap();
        let one = [1; 3];
        let filled = [one, [7, 8, 9], [7, 8, 9], one, one, one].repeat(5);
        assert_eq!(queue.read_nd(&view).unwrap().wait().unwrap(), filled);
    });
}

#[test]
fn a_mapped_buffer_is_refused_and_the_error_names_the_guard() {
    each_queue(|context, queue| {
        let mut buffer = context.allocate::<u32>(100).unwrap();
        let half = buffer.slice(..50).unwrap();
        let (mapping, line) = (queue.map(&half).unwrap(), line!());
        let mapped = mapping.wait().unwrap();
        let other = context.queue(&context.devices()[0]).unwrap();
        let refused = [
            queue.fill(&buffer, 1).unwrap_err(),
            other.read(&buffer).unwrap_err(),
            other.write(&buffer, vec![0; 100]).unwrap_err(),
            queue.for_each(&mut buffer, (), |_, _, ()| ()).unwrap_err(),
            queue.map_mut(&buffer).unwrap_err(),
            queue.read_slice(&buffer, &mut [0; 100]).unwrap_err(),
        ];
        for error in refused {
            let ErrorKind::Mapped {
                guard, start, end, ..
            } = error.kind()
            else {
                panic!("{error}");
            };
            assert!(guard.contains(&format!("mapping.rs:{line}")), "{guard}");
            assert_eq!((*start, *end), (0, 50));
        }
        // What is not mapped can be used.
        queue
            .fill(&buffer.slice(50..).unwrap(), 1)
            .unwrap()
            .wait()
            .unwrap();
        drop(mapped);
        queue.fill(&buffer, 1).unwrap().wait().unwrap();
    });
}

#[test]
fn a_mapping_waits_for_what_writes_and_is_refused_from_the_call_on() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let mut buffer = context.allocate::<u32>(4).unwrap();
        queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        let mapping = queue.map(&buffer).unwrap();
        assert!(!mapping.is_complete());
        assert!(queue.fill(&buffer, 1).is_err());
        gate.complete();
        assert_eq!(mapping.wait().unwrap()[..], [0, 1, 2, 3]);
        queue.fill(&buffer, 1).unwrap();
    });
}

#[test]
fn a_mapping_that_is_given_up_holds_nothing() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let buffer = context.buffer(&[1u32; 4]).unwrap();
        queue.after([gate.event()]).fill(&buffer, 2).unwrap();
        drop(queue.map_mut(&buffer).unwrap()); // before its turn
        let fill = queue.fill(&buffer, 3).unwrap();
        gate.complete();
        fill.wait().unwrap();
        let mapping = queue.map(&buffer).unwrap();
        queue.wait().unwrap();
        drop(mapping); // after it
        queue.fill(&buffer, 4).unwrap().wait().unwrap();
    });
}

#[test]
fn a_mapping_of_what_failed_fails() {
    each_queue(|context, queue| {
        let mut buffer = context.allocate::<u32>(4).unwrap();
        queue
            .for_each(&mut buffer, (), |_, _, ()| panic!("on purpose"))
            .unwrap();
        let error = queue.map(&buffer).unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        // It is over, so the buffer can be written again.
        queue.fill(&buffer, 1).unwrap().wait().unwrap();
        assert_eq!(queue.map(&buffer).unwrap().wait().unwrap()[..], [1; 4]);
    });
}

#[test]
fn readers_may_go_on_while_a_mapping_reads() {
    let (context, queue) = pool();
    let gate = UserEvent::new();
    let buffer = context.buffer(&[5u32; 4]).unwrap();
    let read = queue.after([gate.event()]).read(&buffer).unwrap();
    // The mapping does not wait for the read, which is not over.
    let mapped = queue.map(&buffer).unwrap().wait().unwrap();
    assert_eq!(mapped[..], [5; 4]);
    assert!(!read.is_complete());
    gate.complete();
    assert_eq!(read.wait().unwrap(), mapped[..]);
}

#[test]
fn a_buffer_may_be_dropped_while_it_is_mapped() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[5u32; 4]).unwrap();
        let mapped = queue.map(&buffer).unwrap().wait().unwrap();
        drop(buffer);
        assert_eq!(mapped[..], [5; 4]);
    });
}

#[test]
fn a_mapping_on_the_serial_device_is_waited_for_until_another_thread_completes_its_event() {
    let platform = Platform::new().unwrap();
    let context = platform.device("serial").unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let gate = UserEvent::new();
    let buffer = context.allocate::<u8>(4).unwrap();
    queue
        .named("fill")
        .after([gate.event()])
        .fill(&buffer, 1)
        .unwrap();
    let mut mapping: Mapping<MapRead<u8>> = queue.map(&buffer).unwrap();
    let error = mapping.wait_timeout(std::time::Duration::ZERO).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The marker that grants it waits for the core's own event.
            while !wait_graph().contains("for 'marker'") {
                std::thread::yield_now();
            }
            gate.complete();
        });
        assert_eq!(mapping.wait().unwrap()[..], [1; 4]);
    });
}

#[test]
fn a_view_is_mapped_with_its_pitch() {
    each_queue(|context, queue| {
        let matrix = context.allocate_padded::<u16, 2>([4, 5]).unwrap();
        queue.fill_nd(&matrix, 1).unwrap();
        let part = matrix.region([1..3, 1..4]).unwrap();
        let mut mapped = queue.map_nd_mut(&part).unwrap().wait().unwrap();
        assert_eq!(mapped.extent(), [2, 3]);
        assert_eq!(mapped.pitch(), matrix.pitch());
        assert_eq!(mapped.elements().len(), mapped.layout().span());
        for (number, row) in mapped.rows_mut().enumerate() {
            row.fill(10 + number as u16);
        }
        mapped[[1, 2]] = 7;
        assert_eq!(mapped.rows().collect::<Vec<_>>(), [[10; 3], [11, 11, 7]]);
        assert_eq!(mapped.get([2, 0]), None);
        assert!(queue.fill(matrix.buffer(), 0).is_err(), "it is mapped");
        drop(mapped);
        let expected = [
            [1, 1, 1, 1, 1],
            [1, 10, 10, 10, 1],
            [1, 11, 11, 7, 1],
            [1, 1, 1, 1, 1],
        ];
        let read = queue.read_nd(&matrix).unwrap().wait().unwrap();
        assert_eq!(read, expected.as_flattened());

        let cube = context.allocate_padded::<u32, 3>([2, 3, 4]).unwrap();
        let mut mapped = queue.map_nd_mut(&cube).unwrap().wait().unwrap();
        for (number, row) in mapped.rows_mut().enumerate() {
            row.fill(number as u32);
        }
        drop(mapped);
        let mapped = queue.map_nd(&cube).unwrap().wait().unwrap();
        assert_eq!(mapped.rows().count(), 6);
        assert_eq!((mapped[[1, 0, 3]], mapped[[1, 2, 0]]), (3, 5));
        let rows: Vec<u32> = mapped.rows().flatten().copied().collect();
        drop(mapped);
        assert_eq!(queue.read_nd(&cube).unwrap().wait().unwrap(), rows);
    });
}

#[test]
#[should_panic(expected = "no element [0, 4]")]
fn a_position_beyond_a_mapped_view_panics_by_its_name() {
    let (context, queue) = pool();
    let matrix = context.allocate_padded::<u16, 2>([4, 4]).unwrap();
    let mapped = queue.map_nd(&matrix).unwrap().wait().unwrap();
    let _ = mapped[[0, 4]];
}

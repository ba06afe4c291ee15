//! Launches.

use super::{each_queue, pool};
use quipu::ErrorKind;
use quipu::prelude::*;

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

#[test]
fn a_kernel_runs_with_any_division() {
    each_queue(|context, queue| {
        let x = context
            .buffer(&(0..1000).map(|i| i as f32).collect::<Vec<_>>())
            .unwrap();
        let mut y = context.allocate(1000).unwrap();
        queue.launch(1000, saxpy(2.0, &x, &mut y)).unwrap();
        queue.launch([1000], saxpy(2.0, &x, &mut y)).unwrap();
        queue
            .launch(Extent::new([1000]), saxpy(2.0, &x, &mut y))
            .unwrap();
        queue
            .launch(WorkDivision::new(10, 1, 100), saxpy(2.0, &x, &mut y))
            .unwrap();
        let division = WorkDivision::new(7, 1, 13).unwrap(); // fewer than elements
        queue.post_launch(division, saxpy(2.0, &x, &mut y)).unwrap();
        let read = queue.read(&y).unwrap().wait().unwrap();
        assert!(read.iter().enumerate().all(|(i, y)| *y == 10.0 * i as f32));
    });
}

#[test]
fn a_division_beyond_the_device_is_refused_with_its_limits() {
    each_queue(|context, queue| {
        let x = context.allocate::<f32>(10).unwrap();
        let threads = queue.limits().block_thread_count + 1;
        let division = WorkDivision::new(1, threads, 1).unwrap();
        let error = queue
            .launch(division, saxpy(2.0, &x, &mut x.clone()))
            .unwrap_err();
        let message = error.to_string();
        let most = (threads - 1).to_string();
        for part in ["threads per block", "limits", &most] {
            assert!(message.contains(part), "'{part}' in {message}");
        }
        let overflow = WorkDivision::new(usize::MAX, 2, 1);
        let error = queue
            .launch(overflow, saxpy(2.0, &x, &mut x.clone()))
            .unwrap_err();
        assert!(error.to_string().contains("overflows"), "{error}");
    });
}

#[test]
fn a_division_that_makes_no_sense_ends_a_function_that_returns_quipus_errors() {
    fn divided(threads: usize) -> quipu::Result<WorkDivision<1>> {
        Ok(WorkDivision::new(usize::MAX / 2, threads, 1)?)
    }
    assert_eq!(divided(2).unwrap().block_threads().components(), [2]);
    for (threads, part) in [(0, "does nothing anywhere"), (3, "overflows")] {
        let error = divided(threads).unwrap_err();
        let is_told = matches!(
            error.kind(),
            ErrorKind::InvalidArgument { what: "launch a kernel", problem } if problem.contains(part)
        );
        assert!(is_told, "{error}");
    }
    // What comes of running a kernel is its failure, as it is of one that was enqueued.
    let no_memory = quipu::KernelError::OutOfMemory { bytes: 7 };
    let error = quipu::Error::from(no_memory);
    assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
}

#[kernel]
fn add_plainly(_acc: &impl Accelerator<1>, by: u8, mut y: OwnElements<u8>) {
    for (_, y) in y.each() {
        *y += by;
    }
}

#[test]
fn an_overflow_is_what_the_build_makes_of_it() {
    each_queue(|context, queue| {
        let mut y = context.buffer(&[200_u8; 3]).unwrap();
        let launch = queue.launch(3, add_plainly(100, &mut y)).unwrap();
        let ended = launch.wait();
        let checked = std::panic::catch_unwind(|| std::hint::black_box(200_u8) + 100).is_err();
        if checked {
            let text = ended.unwrap_err().to_string();
            assert!(text.contains("attempt to add with overflow"), "{text}");
        } else {
            ended.unwrap();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [44; 3]);
        }
    });
}

#[test]
fn a_written_range_that_overlaps_another_argument_is_refused() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<f32>(10).unwrap();
        let mut same = buffer.clone();
        let refused = [
            queue.launch(10, saxpy(1.0, &buffer, &mut same)),
            queue.launch(10, saxpy(1.0, &buffer, same.overwrite())),
            queue.launch(
                5,
                saxpy(
                    1.0,
                    &buffer.slice(..5).unwrap(),
                    &mut buffer.slice(4..9).unwrap(),
                ),
            ),
            queue.for_each(&mut same, (&buffer,), |_, _, _| ()),
        ];
        for refused in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("overlap"), "{error}");
        }
        let task = queue.host_task_with((&mut buffer.clone(), &mut same), |(_, _)| ());
        assert!(task.is_err());
        // Reading twice is fine, and so are parts that do not overlap.
        let (low, mut high) = buffer.split_at(5).unwrap();
        queue.launch(5, saxpy(1.0, &low, &mut high)).unwrap();
        queue
            .host_task_with((&low, &low), |(_, _)| ())
            .unwrap()
            .wait()
            .unwrap();
    });
}

#[test]
fn an_empty_grid_runs_nothing_and_keeps_its_place() {
    each_queue(|context, queue| {
        let x = context.buffer(&[1.0f32]).unwrap();
        let mut y = context.buffer(&[1.0f32]).unwrap();
        queue
            .launch(0, saxpy(1.0, &x, &mut y))
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [1.0]);
    });
}

#[test]
fn nothing_is_an_error_nowhere() {
    each_queue(crate::empty::nothing_is_an_error_nowhere);
}

#[test]
fn overwriting_ends_an_earlier_failure_and_reading_does_not() {
    each_queue(|context, queue| {
        let x = context.buffer(&[1.0f32; 4]).unwrap();
        let mut y = context.allocate::<f32>(4).unwrap();
        queue
            .for_each(&mut y, (), |_, _, ()| panic!("on purpose"))
            .unwrap();
        let failed = queue.launch(4, saxpy(1.0, &x, &mut y)).unwrap();
        assert!(failed.wait().is_err());
        queue.launch(4, saxpy(1.0, &x, y.overwrite())).unwrap();
        queue.read(&y).unwrap().wait().unwrap();
    });
}

#[kernel(block_threads = [2, 4])]
fn number_in_blocks(acc: &impl Accelerator<2>, mut y: OwnElements<u32, 2>) {
    let threads = acc.extent(Block, Threads);
    for (i, y) in y.each() {
        *y = (100 * i + 10 * threads[0] + threads[1]) as u32;
    }
}

#[kernel(max_block_threads = 8)]
fn count_threads(acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y = acc.extent(Block, Threads)[0] as u32;
    }
}

#[test]
fn a_launch_has_the_blocks_that_a_kernel_says() {
    each_queue(|context, queue| {
        let mut y = context.allocate_nd([5, 9]).unwrap();
        queue.launch([5, 9], number_in_blocks(&mut y)).unwrap();
        let expected: Vec<u32> = (0..45).map(|i| 100 * i + 24).collect();
        assert_eq!(queue.read_nd(&y).unwrap().wait().unwrap(), expected);
        let division = WorkDivision::new([1, 1], [2, 4], [3, 3]);
        queue.launch(division, number_in_blocks(&mut y)).unwrap();

        let division = WorkDivision::new([3, 9], [4, 2], [1, 1]);
        let error = queue.launch(division, number_in_blocks(&mut y));
        let error = error.unwrap_err().to_string();
        for part in [
            "number_in_blocks",
            "[4, 2]",
            "block_threads = [2, 4]",
            "WorkDivision::new(blocks, [2, 4], elements)?",
        ] {
            assert!(error.contains(part), "'{part}' in {error}");
        }

        let mut y = context.allocate(1000).unwrap();
        queue.launch(1000, count_threads(&mut y)).unwrap();
        let threads = queue.read(&y).unwrap().wait().unwrap();
        assert!(threads.iter().all(|threads| (1..=8).contains(threads)));
        queue
            .launch(WorkDivision::new(4, 8, 40), count_threads(&mut y))
            .unwrap();
        let error = queue.launch(WorkDivision::new(4, 9, 40), count_threads(&mut y));
        let error = error.unwrap_err().to_string();
        // A device that knows the kernel has no more for it.
        let by_device = error.contains("at most 8 allowed");
        assert!(
            by_device || error.contains("8 threads in a block at most"),
            "{error}"
        );

        // Recorded launches are no others.
        let recording = context.record();
        let recorded = recording
            .on(queue)
            .launch(WorkDivision::new(4, 9, 40), count_threads(&mut y));
        assert!(recorded.is_err());
    });
}

/// As kernels are written where each element has a thread.
#[kernel]
fn by_thread(acc: &impl Accelerator<1>, x: &[u32], y: RawMut<u32>) {
    let i = acc.index(Grid, Threads)[0];
    if i < x.len() {
        // SAFETY: each thread writes its own element.
        unsafe { y.write(i, x[i] + 1) };
    }
}

#[kernel]
fn by_first_element(acc: &impl Accelerator<2>, y: RawMut<u32>, mut own: OwnElements<u32, 2>) {
    let (row, column) = (acc.index(Grid, Elements)[0], acc.index(Grid, Elements)[1]);
    let (rows, columns) = (own.extent()[0], own.extent()[1]);
    if row < rows && column < columns {
        // SAFETY: each thread writes its own element.
        unsafe { y.write(row * columns + column, 7) };
    }
    for (i, own) in own.each() {
        *own = i as u32;
    }
}

#[kernel]
async fn by_thread_of_grid(acc: &impl GridAccelerator<1>, y: RawMut<u32>) {
    let i = acc.index(Grid, Threads)[0];
    for round in 0..2 {
        if i < y.len() {
            // SAFETY: between two barriers each thread writes its own element.
            unsafe { y.write(i, y.read(i) + round + 1) };
        }
        acc.sync_grid_threads().await;
    }
}

#[test]
fn a_kernel_that_asks_for_its_thread_has_one_for_each_element() {
    each_queue(|context, queue| {
        for n in [1, 5, 70, 1000, 100_003] {
            let x = context.buffer_from((0..n).collect::<Vec<u32>>()).unwrap();
            let mut y = context.allocate(x.len()).unwrap();
            queue.launch(x.len(), by_thread(&x, &mut y)).unwrap();
            assert!(
                queue
                    .read(&y)
                    .unwrap()
                    .wait()
                    .unwrap()
                    .into_iter()
                    .eq(1..=n)
            );
        }
        for extent in [[1, 1], [7, 300], [1000, 3]] {
            let mut y = context.allocate(extent[0] * extent[1]).unwrap();
            let mut own = context.allocate_nd(extent).unwrap();
            queue
                .launch(extent, by_first_element(&mut y, &mut own))
                .unwrap();
            assert!(
                queue
                    .read(&y)
                    .unwrap()
                    .wait()
                    .unwrap()
                    .iter()
                    .all(|y| *y == 7)
            );
            assert!(
                queue
                    .read_nd(&own)
                    .unwrap()
                    .wait()
                    .unwrap()
                    .into_iter()
                    .eq(0..y.len() as u32)
            );
        }
        if queue.device().has_grid_barrier() {
            let mut y = context.allocate(200).unwrap();
            queue.launch(200, by_thread_of_grid(&mut y)).unwrap();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [3; 200]);
        }
    });
}

#[kernel]
async fn reverse(
    acc: &impl BlockAccelerator<1>,
    input: &[u32],
    mut output: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut shared: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    shared.own()[0] = input[acc.index(Grid, Threads)[0]];
    let shared = acc.sync(shared).await;
    for (_, element) in output.each() {
        *element = shared[acc.extent(Block, Threads)[0] - 1 - thread];
    }
}

#[test]
fn the_threads_of_a_block_share_memory() {
    each_queue(|context, queue| {
        let threads = queue.limits().block_thread_count.min(16);
        let input: Vec<u32> = (0..).take(64 * threads).collect();
        let x = context.buffer(&input).unwrap();
        let mut y = context.allocate(x.len()).unwrap();
        queue
            .launch(WorkDivision::new(64, threads, 1), reverse(&x, &mut y))
            .unwrap();
        let expected: Vec<u32> = input
            .chunks(threads)
            .flat_map(|b| b.iter().rev().copied())
            .collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), expected);
    });
}

#[test]
fn what_a_kernel_is_on_a_device_is_told_without_a_launch() {
    each_queue(|context, queue| {
        let x = context.buffer(&[1, 2]).unwrap();
        let mut y = context.buffer(&[3, 4]).unwrap();
        let told = queue.kernel_attributes(reverse(&x, &mut y)).unwrap();
        let most = queue.device().properties().max_block_thread_count;
        assert_eq!((told.max_block_threads, told.registers), (most, None));
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [3, 4]);
    });
}

#[kernel]
async fn greedy(
    _acc: &impl BlockAccelerator<1>,
    _y: OwnElements<u32>,
    #[shared(1 << 28)] _shared: SharedWrite<u64>,
) {
}

#[test]
fn more_shared_memory_than_there_is_fails_the_launch() {
    each_queue(|context, queue| {
        let mut y = context.allocate(1).unwrap();
        let error = queue.launch(1, greedy(&mut y)).unwrap().wait().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("greedy") && message.contains("shared bytes"),
            "{message}"
        );
    });
}

#[test]
fn a_view_that_is_too_short_fails_the_launch() {
    fn short(x: GlobalRef<'_, f32>, y: GlobalMut<'_, f32>) -> impl Bound<2> {
        struct Never;
        impl Kernel<2> for Never {
            type Output = ByElement<f32>;
            fn run<A: Accelerator<2>>(&self, _: &A, _: OwnElements<'_, f32, 2>) {
                unreachable!("its output does not fit");
            }
        }
        y.in_extent([x.len(), 2]).map(|y| bind(Never, y))
    }
    each_queue(|context, queue| {
        let x = context.allocate(10).unwrap();
        let mut y = context.allocate(10).unwrap();
        let error = queue
            // SAFETY: the function binds its output, always in the same way.
            .launch([10, 2], unsafe { native(short, (&x, &mut y)) })
            .unwrap()
            .wait()
            .unwrap_err();
        assert!(
            error.to_string().contains("20") || error.to_string().contains("[10, 2]"),
            "{error}"
        );
    });
}

#[test]
fn values_of_all_kinds_are_arguments() {
    #[derive(Clone, Copy)]
    struct Settings {
        scale: i64,
    }
    each_queue(|context, queue| {
        let mut y = context.allocate::<i64>(3).unwrap();
        let arguments = (Value(Settings { scale: 2 }), [1i64, 2, 3], true, 4u8);
        queue
            .for_each(&mut y, arguments, |i, y, (settings, offsets, on, shift)| {
                *y = if on {
                    (settings.scale * offsets[i]) << shift
                } else {
                    0
                };
            })
            .unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [32, 64, 96]);
    });
}

#[test]
fn a_panic_of_a_kernel_fails_its_launch_and_names_it() {
    let (context, queue) = pool();
    let x = context.allocate::<f32>(3).unwrap(); // too short
    let mut y = context.allocate::<f32>(100_000).unwrap();
    let event = queue
        .named("upscale")
        .launch(y.len(), saxpy(1.0, &x, &mut y))
        .unwrap();
    let error = event.wait().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Panicked { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("upscale"), "{error}");
    let event = queue
        .launch(y.len(), saxpy(1.0, &x, y.overwrite()))
        .unwrap();
    assert!(event.wait().unwrap_err().to_string().contains("saxpy"));
}

#[kernel]
fn count_rows(_acc: &impl Accelerator<1>, mut rows: OwnRows<u32>) {
    for (i, row) in rows.each() {
        row[0] = i as u32;
    }
}

#[kernel]
fn count_blocks(acc: &impl Accelerator<1>, y: OwnBlock<u32>) {
    for y in y {
        *y = acc.index(Grid, Blocks)[0] as u32;
    }
}

#[kernel]
fn both(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>, mut z: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = i as u32;
    }
    for (i, z) in z.each() {
        *z = i as u32;
    }
}

#[kernel]
fn plane(_acc: &impl Accelerator<2>, mut y: OwnElements<u32, 2>) {
    for (i, y) in y.each() {
        *y = i as u32;
    }
}

/// A number of elements is that of each output that threads own parts of, and else a whole division
/// has to be said.
#[test]
fn a_launch_is_over_the_elements_of_its_outputs() {
    fn refused(launched: quipu::Result<Event>, words: &[&str]) {
        let text = launched.map(drop).unwrap_err().to_string();
        for words in words {
            assert!(text.contains(words), "{words} is not in: {text}");
        }
    }
    each_queue(|context, queue| {
        let x = context.buffer(&[1.0_f32; 1000]).unwrap();
        let mut y = context.allocate::<f32>(100).unwrap();
        for wrong in [99, 101, 1000, 1] {
            let said = format!(
                "'saxpy' is launched over {wrong}, and its argument 2, counted from 0, has 100 elements"
            );
            refused(
                queue.launch(wrong, saxpy(2.0, &x, &mut y)),
                &[&said, "`len()`", "WorkDivision::for_elements"],
            );
            refused(queue.launch(wrong, saxpy(2.0, &x, y.overwrite())), &[&said]);
        }
        queue.launch(100, saxpy(2.0, &x, &mut y)).unwrap();
        // A part, and a division that is said.
        queue
            .launch(50, saxpy(2.0, &x, &mut y.slice(50..).unwrap()))
            .unwrap();
        let division = WorkDivision::for_elements(1000, queue.limits());
        queue.launch(division, saxpy(2.0, &x, &mut y)).unwrap();
        let y = queue.read(&y).unwrap().wait().unwrap();
        assert_eq!((y[0], y[99]), (4.0, 6.0));

        let (mut y, mut z) = (
            context.allocate::<u32>(4).unwrap(),
            context.allocate(6).unwrap(),
        );
        for (number, argument) in [
            (4, "argument 1, counted from 0, has 6"),
            (6, "argument 0, counted from 0, has 4"),
        ] {
            refused(queue.launch(number, both(&mut y, &mut z)), &[argument]);
        }
        queue
            .launch(WorkDivision::new(1, 1, 6), both(&mut y, &mut z))
            .unwrap();

        let mut rows = context.allocate_nd::<u32, 2>([3, 5]).unwrap();
        refused(
            queue.launch(15, count_rows(&mut rows)),
            &["over 15", "3 rows"],
        );
        queue.launch(3, count_rows(&mut rows)).unwrap();
        refused(
            queue.launch([5, 3], plane(&mut rows)),
            &["over [5, 3]", "the extent [3, 5]"],
        );
        queue.launch([3, 5], plane(&mut rows)).unwrap();

        // How many blocks there are would be up to the device.
        let mut sums = context.allocate::<u32>(4).unwrap();
        for number in [4, 1000] {
            refused(
                queue.launch(number, count_blocks(&mut sums)),
                &[
                    "4 elements, which are shared out among the launch's blocks",
                    "how many blocks",
                ],
            );
        }
        queue
            .launch(WorkDivision::new(4, 1, 250), count_blocks(&mut sums))
            .unwrap();
        assert_eq!(queue.read(&sums).unwrap().wait().unwrap(), [0, 1, 2, 3]);
        // Nothing is done to any output.
        queue
            .launch(0, count_blocks(&mut sums))
            .unwrap()
            .wait()
            .unwrap();
    });
}

#[kernel]
fn beyond_the_end(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i + 1]; // beyond the end
    }
}

/// As devices of vendors say where a kernel went wrong.
#[test]
fn the_error_of_a_kernel_has_the_line() {
    let mut lines = include_str!("kernels.rs").lines().zip(1..);
    let (_, line) = lines
        .find(|(line, _)| line.ends_with("; // beyond the end"))
        .unwrap();
    each_queue(|context, queue| {
        let x = context.buffer(&[1_u32; 8]).unwrap();
        let mut y = context.allocate::<u32>(8).unwrap();
        let launched = queue.launch(8, beyond_the_end(&x, &mut y)).unwrap();
        let text = launched.wait().unwrap_err().to_string();
        let place = format!("api/kernels.rs:{line}");
        for words in ["beyond_the_end", "the len is 8 but the index is 8", &place] {
            assert!(text.contains(words), "{words} is not in: {text}");
        }
    });
}

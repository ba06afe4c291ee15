//! Tests for the devices of every driver that compiles the code of launches: kernels of every kind,
//! their faults, copies, chains, forbidden waits.

mod empty;
pub(crate) mod grid;
mod language;
mod mapped;

pub(crate) use grid::{
    blocks_of_a_graph_wait_for_each_other, blocks_wait_for_each_other,
    too_many_blocks_that_wait_are_refused,
};
pub(crate) use language::{
    a_fence_orders_what_blocks_do_to_memory, a_grid_has_more_dimensions_than_devices_have_axes,
    floats_of_16_bits_are_the_same_everywhere, threads_of_a_warp_exchange_values,
};
pub(crate) use mapped::{
    a_graph_uses_memory_of_the_host, kernels_use_memory_of_the_host,
    memory_with_other_handles_is_not_taken, pinned_memory_becomes_a_buffer,
    pinned_memory_is_taken_back, such_a_buffer_may_be_empty_or_dropped_in_use,
    the_host_sees_a_count_between_kernels,
};

use quipu::prelude::*;
use quipu::{Completion, ErrorKind};

/// Runs a test over queues.
pub(crate) type EachQueue = fn(&dyn Fn(&Context, &Queue));

/// Runs a test over queues of each device of a driver, in a context with all other devices; why
/// not, if there is none.
pub(crate) fn each_queue_of(
    driver: &str,
    platform: &Platform,
    test: &dyn Fn(&Context, &Queue),
) -> std::result::Result<(), String> {
    let devices = platform.devices().iter();
    let devices: Vec<_> = devices
        .filter(|device| device.driver_name() == driver)
        .collect();
    if devices.is_empty() {
        let mut without = platform.unavailable().iter();
        let why = without.find(|one| one.driver == driver);
        return Err(why.map(|one| one.error.to_string()).unwrap_or_default());
    }
    let context = platform.context().unwrap();
    for device in devices {
        for completion in [Completion::Callback, Completion::Polling] {
            let options = QueueOptions {
                completion,
                ..QueueOptions::default()
            };
            test(&context, &context.queue_with(device, options).unwrap());
        }
    }
    Ok(())
}

/// The processor's cores.
pub(crate) fn pool_of(context: &Context) -> quipu::Device {
    let mut devices = context.devices().iter();
    devices
        .find(|device| device.driver_name() == "cpu")
        .cloned()
        .unwrap()
}

/// Makes tests of this module's functions, over a driver's queues.
macro_rules! tests {
    ($each_queue:ident: $($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            crate::devices::$name($each_queue);
        }
    )*};
}

/// Makes a test of each function of this module, over a driver's queues.
macro_rules! all_tests {
    ($each_queue:ident) => {
        crate::devices::tests! {
            $each_queue:
            a_kernel_is_launched_as_anywhere,
            nothing_is_an_error_nowhere,
            parts_of_buffers_are_passed_with_their_start,
            devices_work_on_the_same_bytes_in_turn,
            values_are_laid_out_as_the_device_has_them,
            sizes_are_passed_whole,
            views_have_their_gaps,
            a_launch_reads_some_columns_and_writes_others,
            the_threads_of_a_block_share_memory,
            shared_arrays_are_as_long_as_arguments_say,
            what_a_kernel_is_on_a_device_is_told_without_a_launch,
            variables_are_the_same_for_all_devices,
            closures_bring_their_values_along,
            a_launch_allows_more_than_the_next,
            a_fault_fails_its_command_with_kernel_index_and_line,
            each_of_many_launches_fails_by_its_own_fault,
            a_division_beyond_the_device_is_refused_with_its_limits,
            native_code_is_refused_as_it_is_launched,
            fills_of_any_pattern_and_host_tasks_go,
            timestamps_are_in_order,
            threads_of_a_warp_exchange_values,
            a_fence_orders_what_blocks_do_to_memory,
            floats_of_16_bits_are_the_same_everywhere,
            blocks_wait_for_each_other,
            blocks_of_a_graph_wait_for_each_other,
            too_many_blocks_that_wait_are_refused,
            a_grid_has_more_dimensions_than_devices_have_axes,
            a_scheduler_of_the_users_polls_for_what_is_on_a_device,
            copies_of_every_size_come_through,
            what_is_mapped_is_what_kernels_see,
            kernels_use_memory_of_the_host,
            pinned_memory_becomes_a_buffer,
            pinned_memory_is_taken_back,
            memory_with_other_handles_is_not_taken,
            the_host_sees_a_count_between_kernels,
            a_graph_uses_memory_of_the_host,
            such_a_buffer_may_be_empty_or_dropped_in_use,
            long_chains_and_many_chains_keep_their_order,
            a_launch_is_passed_the_memory_that_is_in_place_of_anothers,
            a_callback_that_waits_ends_or_is_told_that_it_must_not,
            a_launch_of_nothing_is_over_after_what_it_waits_for,
            a_kernel_runs_in_grids_of_many_sizes_at_once,
        }
    };
}

pub(crate) use {all_tests, tests};

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

pub(crate) fn a_kernel_is_launched_as_anywhere(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        for length in [1, 7, 1000, 100_003] {
            let x: Vec<f32> = (0..length).map(|n| n as f32).collect();
            let x = context.buffer(&x).unwrap();
            let mut y = context.buffer(&vec![1.0f32; length]).unwrap();
            for _ in 0..3 {
                queue.launch(length, saxpy(2.0, &x, &mut y)).unwrap();
            }
            let y = queue.read(&y).unwrap().wait().unwrap();
            for (n, y) in y.into_iter().enumerate() {
                assert_eq!(y, 1.0 + 6.0 * n as f32);
            }
        }
    });
}

pub(crate) fn nothing_is_an_error_nowhere(each_queue: EachQueue) {
    each_queue(&empty::nothing_is_an_error_nowhere);
}

pub(crate) fn a_launch_allows_more_than_the_next(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        // Rounded once, the sum is not zero.
        let (a, sum) = (1.0 + f32::EPSILON, 1.0 + 2.0 * f32::EPSILON);
        let rounded_once = a.mul_add(a, -sum);
        assert!(rounded_once != 0.0 && a * a - sum == 0.0);
        let x = context.buffer(&[a; 1000]).unwrap();
        let mut y = context.allocate::<f32>(1000).unwrap();
        for _ in 0..2 {
            for allowed in ["nothing", "contract", "fast math", "unchecked"] {
                queue.fill(&y, -sum).unwrap();
                let call = saxpy(a, &x, &mut y);
                let call = match allowed {
                    "nothing" => call,
                    "contract" => call.contract(),
                    "fast math" => call.fast_math().flush_to_zero(),
                    // SAFETY: `x` has as many elements as `y`.
                    _ => unsafe { call.unchecked() },
                };
                queue.launch(1000, call).unwrap();
                let y = queue.read(&y).unwrap().wait().unwrap();
                let may_be_exact = matches!(allowed, "contract" | "fast math");
                let first = y[0];
                assert!(
                    first == 0.0 || may_be_exact && first == rounded_once,
                    "{allowed}: {first}"
                );
                assert!(y.iter().all(|y| *y == first), "{allowed}: {:?}", &y[..4]);
            }
        }
    });
}

pub(crate) fn parts_of_buffers_are_passed_with_their_start(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.buffer(&[1.0f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let y = context.buffer(&[0.0f32; 5]).unwrap();
        let mut part = y.slice(1..4).unwrap();
        queue
            .launch(3, saxpy(10.0, &x.slice(2..).unwrap(), &mut part))
            .unwrap();
        let y = queue.read(&y).unwrap().wait().unwrap();
        assert_eq!(y, [0.0, 30.0, 40.0, 50.0, 0.0]);
    });
}

pub(crate) fn devices_work_on_the_same_bytes_in_turn(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.buffer(&[1.0f32; 1000]).unwrap();
        let mut y = context.allocate::<f32>(1000).unwrap();
        let pool = context.queue(&pool_of(context)).unwrap();
        for _ in 0..4 {
            queue.launch(1000, saxpy(1.0, &x, &mut y)).unwrap();
            pool.launch(1000, saxpy(10.0, &x, &mut y)).unwrap();
            pool.for_each(&mut y, (), |_, y, ()| *y += 100.0).unwrap();
        }
        let y = pool.read(&y).unwrap().wait().unwrap();
        assert!(y.iter().all(|&y| y == 444.0), "{:?}", &y[..4]);
    });
}

/// With gaps between its fields.
#[derive(Clone, Copy, Debug, KernelData)]
#[repr(C)]
struct Step {
    small: u8,
    start: u64,
    by: [u16; 2],
    factor: f32,
}

#[kernel]
fn gather(_acc: &impl Accelerator<1>, step: Step, last: usize, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let place = step.start as usize + i * step.by[0] as usize + step.by[1] as usize;
        *y = if place < last {
            x[place] * step.factor
        } else {
            step.small as f32
        };
    }
}

pub(crate) fn values_are_laid_out_as_the_device_has_them(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x: Vec<f32> = (0..100).map(|n| n as f32).collect();
        let x = context.buffer(&x).unwrap();
        let mut y = context.allocate::<f32>(40).unwrap();
        let step = Step {
            small: 7,
            start: 3,
            by: [3, 1],
            factor: 2.0,
        };
        queue.launch(40, gather(step, 100, &x, &mut y)).unwrap();
        let y = queue.read(&y).unwrap().wait().unwrap();
        for (i, y) in y.into_iter().enumerate() {
            let place = 4 + 3 * i;
            let expected = if place < 100 { 2.0 * place as f32 } else { 7.0 };
            assert_eq!(y, expected, "{i}");
        }
    });
}

#[kernel]
fn parts(_acc: &impl Accelerator<1>, size: usize, signed: isize, mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        *y = if i == 0 {
            size as u64
        } else {
            signed as i64 as u64
        };
    }
}

pub(crate) fn sizes_are_passed_whole(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let pool = context.queue(&pool_of(context)).unwrap();
        let mut y = context.allocate::<u64>(2).unwrap();
        let narrow = 1_usize << 31;
        for (size, signed) in [
            (narrow - 1, -(narrow as isize)),
            (narrow, -1),
            (5_000_000_000, 3),
            (usize::MAX, 3),
            (3, 5_000_000_000),
            (3, -(narrow as isize) - 1),
            (3, isize::MIN),
        ] {
            for queue in [queue, &pool] {
                queue.launch(2, parts(size, signed, &mut y)).unwrap();
                let y = queue.read(&y).unwrap().wait().unwrap();
                assert_eq!(y, [size as u64, signed as i64 as u64]);
            }
        }
    });
}

#[kernel]
fn transpose(_acc: &impl Accelerator<2>, x: GlobalRef<u32, 2>, mut y: OwnElements<u32, 2>) {
    let columns = y.extent()[1];
    for (i, y) in y.each() {
        *y = x[[i % columns, i / columns]];
    }
}

pub(crate) fn views_have_their_gaps(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut x = context.allocate_padded::<u32, 2>([5, 7]).unwrap();
        let mut y = context.allocate_padded::<u32, 2>([7, 5]).unwrap();
        let pool = context.queue(&pool_of(context)).unwrap();
        pool.launch([5, 7], number(&mut x)).unwrap();
        queue.launch([7, 5], transpose(&x, &mut y)).unwrap();
        let y = queue.read_nd(&y).unwrap().wait().unwrap();
        let expected: Vec<u32> = (0..7)
            .flat_map(|a| (0..5).map(move |b| b * 7 + a))
            .collect();
        assert_eq!(y, expected);
    });
}

/// Takes a multiple of the column before each row from it.
#[kernel]
fn eliminate(_acc: &impl Accelerator<2>, column: GlobalRef<f32, 2>, mut rest: OwnElements<f32, 2>) {
    let columns = rest.extent()[1];
    for (i, y) in rest.each() {
        *y -= column[[i / columns, 0]] * (i % columns) as f32;
    }
}

pub(crate) fn a_launch_reads_some_columns_and_writes_others(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let (rows, columns) = (37, 20);
        let matrix: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let buffer = context.buffer(&matrix).unwrap();
        let view = buffer
            .view(Layout::dense([rows, columns]).unwrap())
            .unwrap();
        let column = view.region([1..rows, 2..3]).unwrap();
        let mut rest = view.region([1..rows, 3..columns]).unwrap();
        queue
            .launch([rows - 1, columns - 3], eliminate(&column, &mut rest))
            .unwrap();
        let eliminated = queue.read(&buffer).unwrap().wait().unwrap();
        for (i, (before, after)) in matrix.iter().zip(eliminated).enumerate() {
            let (row, at) = (i / columns, i % columns);
            let by = if row > 0 && at > 2 {
                (at - 3) as f32
            } else {
                0.0
            };
            assert_eq!(after, before - matrix[row * columns + 2] * by);
        }
    });
}

#[kernel]
fn number(_acc: &impl Accelerator<2>, mut x: OwnElements<u32, 2>) {
    for (i, x) in x.each() {
        *x = i as u32;
    }
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

pub(crate) fn the_threads_of_a_block_share_memory(each_queue: EachQueue) {
    each_queue(&|context, queue| {
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

#[kernel]
async fn count(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    bins: Atomics<u32>,
    #[shared(bins.len())] local: SharedAtomics<u32>,
) {
    for i in acc.elements(x.len()) {
        local.add(x[i] as usize, 1);
    }
    acc.sync_block_threads().await;
    let threads = acc.extent(Block, Threads)[0];
    let mut bin = acc.thread_index()[0];
    while bin < bins.len() {
        bins.add(bin, local.load(bin));
        bin += threads;
    }
}

pub(crate) fn shared_arrays_are_as_long_as_arguments_say(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x: Vec<u32> = (0..1000).map(|n| n % 5).collect();
        let x = context.buffer(&x).unwrap();
        let mut bins = context.allocate::<u32>(5).unwrap();
        queue
            .launch(WorkDivision::new(4, 8, 32), count(&x, &mut bins))
            .unwrap();
        assert_eq!(queue.read(&bins).unwrap().wait().unwrap(), [200; 5]);
    });
}

#[kernel]
async fn keep(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(100)] mut kept: SharedWrite<u32>,
) {
    for element in kept.own() {
        *element = 1;
    }
    let kept = acc.sync(kept).await;
    for (i, y) in y.each() {
        *y = kept[i % 100];
    }
}

pub(crate) fn what_a_kernel_is_on_a_device_is_told_without_a_launch(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut y = context.allocate(7).unwrap();
        let limits = queue.device().limits();
        for _ in 0..2 {
            let told = queue.kernel_attributes(keep(&mut y)).unwrap();
            let most = limits.block_thread_count as u64;
            assert!((1..=most).contains(&told.max_block_threads), "{told:?}");
            let shared = 400..=limits.shared_bytes as u64;
            assert!(
                told.shared_bytes
                    .is_some_and(|bytes| shared.contains(&bytes)),
                "{told:?}"
            );
            assert!(told.preferred_block_threads >= Some(1), "{told:?}");
            assert!(told.private_bytes.is_some(), "{told:?}");
            if queue.device().driver_name() == "cuda" {
                assert!((1..=255).contains(&told.registers.unwrap_or(0)), "{told:?}");
                let resident = told.resident_threads;
                assert!(resident >= told.preferred_block_threads, "{told:?}");
                assert!(resident <= Some(2048), "{told:?}");
            }
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [0; 7]);
        }
        queue.launch(7, keep(&mut y)).unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [1; 7]);
    });
}

static SQUARES: Constant<u32> = Constant::new(&[0, 1, 4, 9, 16]);
static CALLS: Variable<u32> = Variable::zeroed(2);

#[kernel]
fn look_up(
    _acc: &impl Accelerator<1>,
    mut y: OwnElements<u32>,
    #[variable(SQUARES)] squares: &[u32],
    #[variable(CALLS)] calls: Atomics<u32>,
) {
    for (i, y) in y.each() {
        *y = squares[i % squares.len()];
        calls.add(1, 1);
    }
}

pub(crate) fn variables_are_the_same_for_all_devices(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let calls = CALLS.buffer(context).unwrap();
        queue.write(&calls, vec![7, 0]).unwrap().wait().unwrap();
        let mut y = context.allocate(100).unwrap();
        let pool = context.queue(&pool_of(context)).unwrap();
        for _ in 0..3 {
            queue.launch(100, look_up(&mut y)).unwrap();
            pool.launch(100, look_up(&mut y)).unwrap();
        }
        let read = queue.read(&y).unwrap().wait().unwrap();
        assert_eq!(read[97..], [4, 9, 16]);
        assert_eq!(pool.read(&calls).unwrap().wait().unwrap(), [7, 600]);
    });
}

pub(crate) fn closures_bring_their_values_along(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let (factor, offset) = (3, [10_u32, 20]);
        let closure = kernel_closure!(
            [factor: u32, offset: [u32; 2]]
            |_acc: &impl Accelerator<1>, mut y: OwnElements<u32>| {
                for (i, y) in y.each() {
                    *y = factor * i as u32 + offset[i % 2];
                }
            }
        );
        let mut y = context.allocate(5).unwrap();
        queue.launch(5, closure.call(&mut y)).unwrap();
        let read = queue.read(&y).unwrap().wait().unwrap();
        assert_eq!(read, [10, 23, 16, 29, 22]);
    });
}

#[kernel]
fn beyond(_acc: &impl Accelerator<1>, x: &[f32], by: usize, mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = x[i + by];
    }
}

pub(crate) fn a_fault_fails_its_command_with_kernel_index_and_line(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.buffer(&[1.0f32; 10]).unwrap();
        let mut y = context.allocate::<f32>(10).unwrap();
        queue
            .launch(10, beyond(&x, 0, &mut y))
            .unwrap()
            .wait()
            .unwrap();
        let failed = queue.launch(10, beyond(&x, 3, &mut y)).unwrap();
        let read = queue.read(&y).unwrap();
        let error = failed.wait().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
        let text = error.to_string();
        for part in ["beyond", "of 10", "devices/mod.rs:", "by thread"] {
            assert!(text.contains(part), "'{part}' in {text}");
        }
        // What depends on it fails because of it.
        let error = read.wait().unwrap_err();
        assert!(
            matches!(error.first_cause().kind(), ErrorKind::Kernel { .. }),
            "{error}"
        );
        // And what comes after does not.
        queue.launch(10, beyond(&x, 0, y.overwrite())).unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [1.0; 10]);
    });
}

/// More launches than a device is given at once: some record faults, beside others that do not.
pub(crate) fn each_of_many_launches_fails_by_its_own_fault(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let xs: Vec<_> = (10..15)
            .map(|length| context.buffer(&vec![1.0f32; length]).unwrap())
            .collect();
        let launches: Vec<_> = (0..600)
            .map(|number| {
                let x = &xs[number % xs.len()];
                let fails = number % 3 == 0;
                let by = if fails { x.len() } else { 0 };
                let mut y = context.allocate::<f32>(10).unwrap();
                let launched = queue.launch(10, beyond(x, by, &mut y)).unwrap();
                (x.len(), fails, launched)
            })
            .collect();
        for (length, fails, launched) in launches {
            let outcome = launched.wait();
            if fails {
                let text = outcome.unwrap_err().to_string();
                assert!(text.contains(&format!("of {length}")), "{text}");
            } else {
                outcome.unwrap();
            }
        }
    });
}

pub(crate) fn a_division_beyond_the_device_is_refused_with_its_limits(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.allocate::<f32>(10).unwrap();
        let most = queue.limits().block_thread_count;
        let division = WorkDivision::new(1, most + 1, 1);
        let launch = queue.launch(division, saxpy(2.0, &x, &mut x.clone()));
        let text = launch.unwrap_err().to_string();
        for part in ["threads per block", "limits", &most.to_string()] {
            assert!(text.contains(part), "'{part}' in {text}");
        }
    });
}

pub(crate) fn native_code_is_refused_as_it_is_launched(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut y = context.allocate::<f32>(10).unwrap();
        let error = queue.for_each(&mut y, (), |_, _, ()| ()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("native code"), "{error}");
    });
}

pub(crate) fn fills_of_any_pattern_and_host_tasks_go(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.allocate::<[u8; 3]>(1000).unwrap();
        queue.fill(&x, [1, 2, 3]).unwrap();
        assert_eq!(queue.read(&x).unwrap().wait().unwrap(), [[1, 2, 3]; 1000]);
        let x = context.allocate::<[u64; 5]>(100).unwrap();
        queue.fill(&x, [1, 2, 3, 4, 5]).unwrap();
        assert_eq!(
            queue.read(&x).unwrap().wait().unwrap(),
            [[1, 2, 3, 4, 5]; 100]
        );
        let mut sum = context.allocate::<u64>(1).unwrap();
        let task = |(x, sum): (&[[u64; 5]], &mut [u64])| {
            sum[0] = x.iter().flatten().sum();
        };
        drop(queue.host_task_with((&x, &mut sum), task).unwrap());
        assert_eq!(queue.read(&sum).unwrap().wait().unwrap(), [1500]);
    });
}

pub(crate) fn timestamps_are_in_order(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let options = QueueOptions {
            profiling: true,
            ..*queue.options()
        };
        let queue = context.queue_with(queue.device(), options).unwrap();
        let x = context.buffer(&[1.0f32; 10_000]).unwrap();
        let mut y = context.allocate::<f32>(10_000).unwrap();
        let first = queue.launch(10_000, saxpy(1.0, &x, &mut y)).unwrap();
        let second = queue.launch(10_000, saxpy(1.0, &x, &mut y)).unwrap();
        second.wait().unwrap();
        let (first, second) = (first.profile().unwrap(), second.profile().unwrap());
        for profile in [&first, &second] {
            assert!(profile.queued_ns <= profile.submitted_ns, "{profile:?}");
            assert!(profile.submitted_ns <= profile.started_ns, "{profile:?}");
            assert!(profile.started_ns <= profile.ended_ns, "{profile:?}");
        }
    });
}

pub(crate) fn copies_of_every_size_come_through(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        // Through one block of pinned memory, through pieces, by several threads.
        for length in [1, 1000, 65_536, 65_537, 1 << 20, 5_000_001, 20_000_003] {
            let x: Vec<u32> = (0..length as u32)
                .map(|n| n.wrapping_mul(2_654_435_761))
                .collect();
            let y = context.allocate::<u32>(length).unwrap();
            drop(queue.write(&y, x.clone()).unwrap());
            assert!(queue.read(&y).unwrap().wait().unwrap() == x, "{length}");
            let z = context.buffer(&x).unwrap();
            queue.copy(&z, &y).unwrap();
            assert!(queue.read(&y).unwrap().wait().unwrap() == x, "{length}");
        }
    });
}

pub(crate) fn a_scheduler_of_the_users_polls_for_what_is_on_a_device(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut y = context.buffer(&[0_u32; 1000]).unwrap();
        for round in 1..=20 {
            let polling = context.polling();
            let event = queue.launch(1000, add_one(&mut y)).unwrap();
            while !event.is_complete() {
                context.poll();
            }
            drop(polling);
            assert_eq!(queue.read(&y).unwrap().wait().unwrap()[999], round);
        }
    });
}

pub(crate) fn what_is_mapped_is_what_kernels_see(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut y = context.buffer(&[1_u32; 3000]).unwrap();
        queue.launch(3000, add_one(&mut y)).unwrap();
        {
            let part = y.slice(1000..2000).unwrap();
            let mut mapped = queue.map_mut(&part).unwrap().wait().unwrap();
            assert!(mapped.iter().all(|y| *y == 2));
            mapped.iter_mut().zip(10..).for_each(|(y, n)| *y = n);
        }
        queue.launch(3000, add_one(&mut y)).unwrap();
        let mapped = queue.map(&y).unwrap().wait().unwrap();
        for (i, y) in mapped.iter().enumerate() {
            let expected = match i {
                1000..2000 => i as u32 - 1000 + 11,
                _ => 3,
            };
            assert_eq!(*y, expected, "element {i}");
        }
    });
}

#[kernel]
fn add_one(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y += 1;
    }
}

pub(crate) fn long_chains_and_many_chains_keep_their_order(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut all: Vec<_> = (0..12)
            .map(|_| context.allocate::<u32>(100).unwrap())
            .collect();
        for _ in 0..200 {
            for y in &mut all {
                drop(queue.launch(100, add_one(y)).unwrap());
            }
        }
        for y in &all {
            assert_eq!(queue.read(y).unwrap().wait().unwrap(), [200; 100]);
        }
    });
}

/// Of one size and one after the other, so that a library may make each where the one before was.
pub(crate) fn a_launch_is_passed_the_memory_that_is_in_place_of_anothers(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mut kept = context.allocate::<u32>(64).unwrap();
        for round in 1..=30 {
            let mut y = context.allocate::<u32>(64).unwrap();
            for _ in 0..round {
                queue.launch(64, add_one(&mut y)).unwrap().wait().unwrap();
            }
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [round; 64]);
            // In between, and not.
            if round % 2 == 0 {
                drop(queue.launch(64, add_one(&mut kept)).unwrap());
            }
        }
        assert_eq!(queue.read(&kept).unwrap().wait().unwrap(), [15; 64]);
    });
}

pub(crate) fn a_callback_that_waits_ends_or_is_told_that_it_must_not(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let other = context.queue(queue.device()).unwrap();
        let gate = UserEvent::new();
        let later = other.after([gate.event()]).host_task(|| 1).unwrap();
        let (go, gone) = std::sync::mpsc::channel();
        let (call, called) = std::sync::mpsc::channel();
        let (tell, told) = std::sync::mpsc::channel();
        // It ends when the callback is set, so that another thread calls that.
        let task = queue.host_task(move || gone.recv().unwrap()).unwrap();
        task.on_complete(move |_| {
            call.send(()).unwrap();
            tell.send(later.wait()).unwrap();
        });
        go.send(()).unwrap();
        // A driver's own thread must not wait. One that enqueues or waits elsewhere in this
        // process, and happens to see the end, may, and then it does until the gate opens.
        called.recv().unwrap();
        gate.complete();
        match told.recv().unwrap() {
            Ok(value) => assert_eq!(value, 1),
            Err(error) => {
                let is_refused = matches!(error.kind(), ErrorKind::WouldDeadlock { .. });
                assert!(is_refused, "{error}");
            }
        }
        other.wait().unwrap();
    });
}

pub(crate) fn a_launch_of_nothing_is_over_after_what_it_waits_for(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x = context.buffer(&[1.0f32; 8]).unwrap();
        let mut y = context.buffer(&[2.0f32; 8]).unwrap();
        let gate = UserEvent::new();
        let before = queue.after([gate.event()]).host_task(|| 1).unwrap();
        let nothing = queue.launch(0, saxpy(1.0, &x, &mut y)).unwrap();
        assert!(!nothing.is_complete());
        gate.complete();
        nothing.wait().unwrap();
        assert_eq!(before.wait().unwrap(), 1);
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [2.0; 8]);
        // What fails before it fails it, with the same cause.
        let failing = queue.host_task(|| panic!("on purpose")).unwrap();
        let after = queue.after([failing.event().clone()]);
        let nothing = after.launch(0, saxpy(1.0, &x, &mut y)).unwrap();
        let error = nothing.wait().unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{error}");
    });
}

/// Some work, and something to see of it.
#[kernel]
fn turns(_acc: &impl Accelerator<1>, rounds: u32, mut output: OwnElements<u32>) {
    for (i, output) in output.each() {
        let mut state = i as u32;
        for _ in 0..rounds {
            state = state * 1_664_525 + 1_013_904_223;
        }
        *output = state;
    }
}

pub(crate) fn a_kernel_runs_in_grids_of_many_sizes_at_once(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        // Smaller grids take longer, so that they end in another order than that in which they
        // began.
        let grids = (1..=6).map(|blocks| (blocks, 100_000 / blocks as u32));
        let mut grids: Vec<_> = grids
            .map(|(blocks, rounds)| (blocks, rounds, context.allocate::<u32>(blocks).unwrap()))
            .collect();
        for round in 0..20 {
            for (blocks, rounds, output) in &mut grids {
                let division = WorkDivision::new(*blocks, 1, 1);
                queue.launch(division, turns(*rounds, output)).unwrap();
            }
            grids.rotate_left(round % 3);
        }
        for (blocks, rounds, output) in &grids {
            let expected = (0..*blocks as u32).map(|i| {
                (0..*rounds).fold(i, |state, _| {
                    state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
                })
            });
            let output = queue.read(output).unwrap().wait().unwrap();
            assert_eq!(output, expected.collect::<Vec<_>>(), "{blocks} blocks");
        }
    });
}

//! Transfers of n-dimensional regions against a sequential model.

use super::{context, each_queue};
use proptest::prelude::*;
use quipu::prelude::*;
use std::ops::Range;

/// Each position of a region, in row-major order.
fn positions<const D: usize>(extent: [usize; D]) -> Vec<[usize; D]> {
    let count = extent.iter().product();
    (0..count)
        .map(|mut number: usize| {
            let mut position = [0; D];
            for dimension in (0..D).rev() {
                position[dimension] = number % extent[dimension];
                number /= extent[dimension];
            }
            position
        })
        .collect()
}

fn region<const D: usize>(
    extent: [usize; D],
    start: [usize; D],
    size: [usize; D],
) -> [Range<usize>; D] {
    std::array::from_fn(|dimension| {
        let extent = extent[dimension];
        let start = start[dimension] % extent;
        start..start + 1 + size[dimension] % (extent - start)
    })
}

fn check<const D: usize>(queue: &Queue, extent: [usize; D], gap: usize, ranges: [Range<usize>; D]) {
    let context = queue.context();
    let layout = Layout::padded(extent, extent[D - 1] + gap).unwrap();
    let buffer = context.allocate::<u32>(layout.span() + 3).unwrap();
    let view = buffer.view(layout).unwrap();

    // The model: host memory with the same layout.
    let mut model = vec![0u32; layout.span() + 3];
    let all: Vec<u32> = (1..).take(view.len()).collect();
    for (position, value) in positions(extent).into_iter().zip(&all) {
        model[layout.place(position).unwrap()] = *value;
    }
    drop(
        queue
            .write_nd(&view, all, &Layout::dense(extent).unwrap())
            .unwrap(),
    );
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), model);

    // Read a region, to a vector and into the middle of a host array.
    let part = view.region(ranges.clone()).unwrap();
    let region = layout.region(ranges.clone()).unwrap();
    let expected: Vec<u32> = positions(region.extent())
        .into_iter()
        .map(|position| model[region.place(position).unwrap()])
        .collect();
    assert_eq!(queue.read_nd(&part).unwrap().wait().unwrap(), expected);
    let host = vec![0; model.len()];
    let host = queue
        .read_nd_to(&part, host, &region)
        .unwrap()
        .wait()
        .unwrap();
    for (place, value) in host.iter().enumerate() {
        let inside = positions(region.extent())
            .iter()
            .any(|p| region.place(*p) == Some(place));
        assert_eq!(*value, if inside { model[place] } else { 0 });
    }

    // The same of borrowed memory: what is beside the region stays as it is.
    let mut host = vec![5; model.len()];
    queue.read_slice_nd(&part, &mut host, &region).unwrap();
    let places: Vec<_> = positions(region.extent())
        .into_iter()
        .map(|position| region.place(position).unwrap())
        .collect();
    let mut beside = vec![5; model.len()];
    for &place in &places {
        beside[place] = model[place];
    }
    assert_eq!(host, beside);
    for (number, &place) in (1000..).zip(&places) {
        host[place] = number;
        model[place] = number;
    }
    queue.write_slice_nd(&part, &host, &region).unwrap();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), model);
    let expected: Vec<u32> = places.iter().map(|&place| model[place]).collect();

    // Copy it to a view of another pitch, and fill it.
    let other = context.allocate_padded::<u32, D>(region.extent()).unwrap();
    queue.copy_nd(&part, &other).unwrap();
    assert_eq!(queue.read_nd(&other).unwrap().wait().unwrap(), expected);
    queue.fill_nd(&part, 77).unwrap();
    for position in positions(region.extent()) {
        model[region.place(position).unwrap()] = 77;
    }
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), model);
}

/// Copies one region to another of the same view, which may lie between its rows, or share elements
/// with it.
fn check_within<const D: usize>(
    queue: &Queue,
    extent: [usize; D],
    gap: usize,
    from: [Range<usize>; D],
    start: [usize; D],
    has_content_size: bool,
) {
    let context = queue.context();
    let layout = Layout::padded(extent, extent[D - 1] + gap).unwrap();
    let buffer = context.allocate::<u32>(layout.span()).unwrap();
    let size = context
        .buffer(&[size_of::<u32>() as u64 * layout.span() as u64])
        .unwrap();
    let view = buffer.view(layout).unwrap();
    let to: [Range<usize>; D] = std::array::from_fn(|dimension| {
        let length = from[dimension].len();
        let start = start[dimension] % (extent[dimension] - length + 1);
        start..start + length
    });
    let places = |ranges: &[Range<usize>; D]| -> Vec<usize> {
        let region = layout.region(ranges.clone()).unwrap();
        let places = positions(region.extent()).into_iter();
        places.map(|place| region.place(place).unwrap()).collect()
    };
    let (sources, targets) = (places(&from), places(&to));

    let mut model: Vec<u32> = (1..).take(layout.span()).collect();
    queue.write_slice(&buffer, &model).unwrap();
    let gate = UserEvent::new();
    let later = queue.after([gate.event()]);
    // The copy has to wait for this, and for nothing but the hazard's sake.
    later
        .fill_nd(&view.region(from.clone()).unwrap(), 70)
        .unwrap();
    sources.iter().for_each(|&place| model[place] = 70);
    buffer
        .set_content_size(has_content_size.then_some(&size))
        .unwrap();
    let copied = queue.copy_nd(
        &view.region(from).unwrap(),
        &view.region(to.clone()).unwrap(),
    );
    if sources.iter().any(|place| targets.contains(place)) {
        let error = copied.unwrap_err().to_string();
        assert!(error.contains("overlap"), "{error}");
    } else {
        copied.unwrap();
        targets.iter().for_each(|&place| model[place] = 70);
    }
    buffer.set_content_size(None).unwrap();
    // This comes after it, without an order of its own.
    let corner = std::array::from_fn(|dimension| to[dimension].start..to[dimension].start + 1);
    queue.fill_nd(&view.region(corner).unwrap(), 80).unwrap();
    model[targets[0]] = 80;
    gate.complete();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), model);
}

/// Adds to each element one of another array, which is repeated as often as it takes.
#[kernel]
fn add_repeated(_acc: &impl Accelerator<2>, x: GlobalRef<u32, 2>, mut y: OwnElements<u32, 2>) {
    let columns = y.extent()[1];
    for (i, y) in y.each() {
        *y += x[[i / columns % x.extent()[0], i % columns % x.extent()[1]]];
    }
}

/// Has a shared array that is shorter than a buffer by one.
#[kernel]
async fn add_beside(
    _acc: &impl BlockAccelerator<2>,
    shorter: &[u32],
    x: GlobalRef<u32, 2>,
    mut y: OwnElements<u32, 2>,
    #[shared(shorter.len() - 1)] _shared: SharedWrite<u32>,
) {
    let columns = y.extent()[1];
    for (i, y) in y.each() {
        *y += x[[i / columns, i % columns]] + shorter[0];
    }
}

#[test]
fn a_launch_on_two_regions_may_have_shared_arrays_whose_lengths_its_buffers_give() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[1_u32, 2, 3, 4]).unwrap();
        let shorter = context.buffer(&[10_u32, 20]).unwrap();
        let view = buffer.view(Layout::dense([2, 2]).unwrap()).unwrap();
        let x = view.region([0..2, 0..1]).unwrap();
        let mut y = view.region([0..2, 1..2]).unwrap();
        let call = add_beside(&shorter, &x, &mut y);
        queue.launch([2, 1], call).unwrap();
        let read = queue.read(&buffer).unwrap().wait().unwrap();
        assert_eq!(read, [1, 13, 3, 17]);
    });
}

/// A launch is given two regions of one view. It is refused only if they share an element.
fn check_launch(queue: &Queue, extent: [usize; 2], gap: usize, parts: [[Range<usize>; 2]; 2]) {
    let layout = Layout::padded(extent, extent[1] + gap).unwrap();
    let buffer = queue.context().allocate::<u32>(layout.span()).unwrap();
    let mut model: Vec<u32> = (1..).take(layout.span()).collect();
    queue.write_slice(&buffer, &model).unwrap();
    let view = buffer.view(layout).unwrap();
    let [from, to] = parts.clone().map(|ranges| layout.region(ranges).unwrap());
    let [x, mut y] = parts.map(|ranges| view.region(ranges).unwrap());
    let launched = queue.launch(to.extent(), add_repeated(&x, &mut y));
    let share = positions(from.extent()).into_iter().any(|one| {
        let place = from.place(one);
        let mut others = positions(to.extent()).into_iter();
        others.any(|other| to.place(other) == place)
    });
    if share {
        let error = launched.unwrap_err().to_string();
        assert!(error.contains("overlap"), "{error}");
    } else {
        launched.unwrap();
        for at in positions(to.extent()) {
            let repeated =
                std::array::from_fn(|dimension| at[dimension] % from.extent()[dimension]);
            model[to.place(at).unwrap()] += model[from.place(repeated).unwrap()];
        }
    }
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), model);
}

/// A queue that is ordered by hazards alone.
fn out_of_order(device: usize) -> Queue {
    let context = context();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let device = &context.devices()[device];
    context.queue_with(device, options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn regions_of_two_dimensions(
        extent in prop::array::uniform2(1usize..7), gap in 0usize..4,
        start in prop::array::uniform2(0usize..7), size in prop::array::uniform2(0usize..7), device in 0usize..3,
    ) {
        let context = context();
        let queue = context.queue(&context.devices()[device]).unwrap();
        check(&queue, extent, gap, region(extent, start, size));
    }

    #[test]
    fn regions_of_three_dimensions(
        extent in prop::array::uniform3(1usize..5), gap in 0usize..4,
        start in prop::array::uniform3(0usize..5), size in prop::array::uniform3(0usize..5), device in 0usize..3,
    ) {
        let context = context();
        let queue = context.queue(&context.devices()[device]).unwrap();
        check(&queue, extent, gap, region(extent, start, size));
    }

    #[test]
    fn launches_on_two_regions_of_a_view(
        extent in prop::array::uniform2(1usize..9), gap in 0usize..4,
        start in prop::array::uniform2(0usize..9), size in prop::array::uniform2(0usize..5),
        other_start in prop::array::uniform2(0usize..9), other_size in prop::array::uniform2(0usize..5), device in 0usize..3,
    ) {
        let parts = [region(extent, start, size), region(extent, other_start, other_size)];
        check_launch(&out_of_order(device), extent, gap, parts);
    }

    #[test]
    fn copies_within_a_view_of_two_dimensions(
        extent in prop::array::uniform2(1usize..9), gap in 0usize..4,
        start in prop::array::uniform2(0usize..9), size in prop::array::uniform2(0usize..5),
        to in prop::array::uniform2(0usize..9), device in 0usize..3, has_content_size: bool,
    ) {
        let queue = out_of_order(device);
        check_within(&queue, extent, gap, region(extent, start, size), to, has_content_size);
    }

    #[test]
    fn copies_within_a_view_of_three_dimensions(
        extent in prop::array::uniform3(1usize..6), gap in 0usize..4,
        start in prop::array::uniform3(0usize..6), size in prop::array::uniform3(0usize..4),
        to in prop::array::uniform3(0usize..6), device in 0usize..3, has_content_size: bool,
    ) {
        let queue = out_of_order(device);
        check_within(&queue, extent, gap, region(extent, start, size), to, has_content_size);
    }
}

#[test]
fn rows_of_padded_views_start_at_cache_lines() {
    each_queue(|context, _| {
        assert_eq!(
            context.allocate_padded::<u16, 2>([3, 33]).unwrap().pitch(),
            [128, 2]
        );
        assert_eq!(
            context
                .allocate_padded::<f64, 3>([2, 3, 8])
                .unwrap()
                .pitch(),
            [192, 64, 8]
        );
        // Elements that do not divide a cache line have rows without gaps.
        assert_eq!(
            context
                .allocate_padded::<[u8; 3], 2>([2, 5])
                .unwrap()
                .pitch(),
            [15, 3]
        );
        assert_eq!(
            context.allocate_nd::<u16, 2>([3, 33]).unwrap().pitch(),
            [66, 2]
        );
    });
}

/// Writes to each element of the output that of the input in the same place,
/// plus a thousand times its row and its column.
struct Move<'a>(GlobalRef<'a, u64, 2>);

impl Kernel<2> for Move<'_> {
    type Output = ByElement<u64>;
    fn run<A: Accelerator<2>>(&self, _: &A, mut output: OwnElements<'_, u64, 2>) {
        let columns = output.extent()[1];
        for (start, row) in output.rows() {
            let from = self.0.row(start).unwrap();
            for (column, (to, from)) in row.iter_mut().zip(from).enumerate() {
                *to = from + (1000 * start[0] + start[1] + column) as u64;
            }
        }
        // The numbers of elements know nothing of gaps.
        for (number, to) in output.each() {
            let from = self.0.at([number / columns, number % columns]).unwrap();
            assert_eq!(
                *to - from,
                (1000 * (number / columns) + number % columns) as u64
            );
        }
    }
}

fn move_to<'a>(
    input: GlobalRef<'a, u64, 2>,
    output: GlobalMut<'a, u64, 2>,
) -> impl Bound<2> + use<'a> {
    bind(Move(input), output)
}

#[test]
fn views_are_arguments_of_kernels_with_gaps_and_without() {
    const EXTENT: [usize; 2] = [30, 50];
    each_queue(|context, queue| {
        let whole = context.allocate_padded::<u64, 2>([40, 60]).unwrap();
        queue.fill(whole.buffer(), 7).unwrap();
        let views = || {
            [
                context.allocate_nd::<u64, 2>(EXTENT).unwrap(),
                context.allocate_padded::<u64, 2>(EXTENT).unwrap(),
                whole.region([5..35, 10..60]).unwrap(),
            ]
        };
        for (input, mut output) in views().into_iter().zip(views().into_iter().rev()) {
            queue.fill_nd(&input, 5_000_000).unwrap();
            queue
                // SAFETY: the function binds its output, always in the same way.
                .launch(EXTENT, unsafe { native(move_to, (&input, &mut output)) })
                .unwrap();
            let cells = queue.read_nd(&output).unwrap().wait().unwrap();
            for (index, cell) in cells.into_iter().enumerate() {
                assert_eq!(cell, 5_000_000 + (1000 * (index / 50) + index % 50) as u64);
            }
        }
        // What is around the region is as it was.
        let around = queue.read_nd(&whole).unwrap().wait().unwrap();
        let outside =
            (0..40 * 60).filter(|cell| cell / 60 < 5 || cell / 60 >= 35 || cell % 60 < 10);
        assert!(outside.into_iter().all(|cell| around[cell] == 7));
    });
}

#[test]
fn a_view_of_three_dimensions_keeps_its_strides() {
    struct Number;
    impl Kernel<3> for Number {
        type Output = ByElement<u32>;
        fn run<A: Accelerator<3>>(&self, _: &A, mut output: OwnElements<'_, u32, 3>) {
            output
                .each()
                .for_each(|(number, cell)| *cell = number as u32);
        }
    }
    fn number(output: GlobalMut<'_, u32, 3>) -> impl Bound<3> {
        bind(Number, output)
    }
    each_queue(|context, queue| {
        let whole = context.allocate_padded::<u32, 3>([4, 5, 6]).unwrap();
        let mut part = whole.region([1..3, 1..4, 2..6]).unwrap();
        queue
            // SAFETY: the function binds its output, always in the same way.
            .launch([2, 3, 4], unsafe { native(number, (&mut part,)) })
            .unwrap();
        let cells = queue.read_nd(&part).unwrap().wait().unwrap();
        assert_eq!(cells, (0..24).collect::<Vec<_>>());
        let all = queue.read_nd(&whole).unwrap().wait().unwrap();
        assert_eq!(all.iter().filter(|&&cell| cell != 0).count(), 23);
    });
}

#[test]
fn views_with_gaps_are_no_slices() {
    each_queue(|context, queue| {
        let mut padded = context.allocate_padded::<u64, 2>([3, 5]).unwrap();
        let mut output = context.allocate::<u64>(3).unwrap();
        let refused = |error: quipu::Error| {
            let error = error.to_string();
            assert!(error.contains("gaps"), "{error}");
        };
        refused(queue.host_task_with((&padded,), |_| ()).unwrap_err());
        refused(queue.host_task_with((&mut padded,), |_| ()).unwrap_err());
        let each = queue.for_each(&mut output, (&padded,), |_, to, (from,)| *to = from[0]);
        refused(each.unwrap_err());
        let dense = context.allocate_nd::<u64, 2>([3, 5]).unwrap();
        let length = queue.host_task_with((&dense,), |(cells,)| cells.len());
        assert_eq!(length.unwrap().wait().unwrap(), 15);
    });
}

//! Variables: memory that kernels use without a parameter for it.

use super::{context, each_queue, pool};
use quipu::kernel::print::{self, Dialect, IndexWidth, Options};
use quipu::prelude::*;
use std::sync::Barrier;

static SUM: Variable<u64> = Variable::new(&[1000]);
static WEIGHTS: Constant<f32> = Constant::new(&[1.0, 2.0, 4.0]);
static PLACES: Variable<u32> = Variable::zeroed(64);

/// Sums up weighted numbers, and counts launches of itself for each place.
#[kernel]
fn weigh(
    _acc: &impl Accelerator<1>,
    x: &[f32],
    mut y: OwnElements<f32>,
    #[variable(WEIGHTS)] weights: &[f32],
    #[variable(PLACES)] mut places: OwnElements<u32>,
    #[variable(SUM)] sum: Atomics<u64>,
) {
    for (i, y) in y.each() {
        *y = x[i] * weights[i % weights.len()];
        sum.add(0, x[i] as u64);
    }
    for (i, place) in places.each() {
        *place += i as u32;
    }
}

#[test]
fn a_kernel_has_variables_without_being_passed_them() {
    each_queue(|context, queue| {
        // The context may have been used on another device before.
        let sum = SUM.buffer(context).unwrap();
        let before = queue.read(&sum).unwrap().wait().unwrap()[0];
        let places = PLACES.buffer(context).unwrap();
        let launches = queue.read(&places).unwrap().wait().unwrap()[1];

        let x = context.buffer(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        let mut y = context.allocate(4).unwrap();
        queue.launch(4, weigh(&x, &mut y)).unwrap();
        queue.launch(4, weigh(&x, &mut y)).unwrap();

        assert_eq!(
            queue.read(&y).unwrap().wait().unwrap(),
            [1.0, 4.0, 12.0, 4.0]
        );
        assert_eq!(queue.read(&sum).unwrap().wait().unwrap(), [before + 20]);
        let read = queue.read(&places).unwrap().wait().unwrap();
        let expected = (0..64).map(|i| i * (launches + 2));
        assert!(read.into_iter().eq(expected));
    });
}

#[test]
fn each_context_has_its_own_which_begin_as_the_program_says() {
    for _ in 0..2 {
        let (context, queue) = pool();
        let sum = SUM.buffer(&context).unwrap();
        assert_eq!(queue.read(&sum).unwrap().wait().unwrap(), [1000]);
        queue.write(&sum, vec![7]).unwrap().wait().unwrap();
        let again = SUM.buffer(&context).unwrap();
        assert_eq!(queue.read(&again).unwrap().wait().unwrap(), [7]);
        let weights = WEIGHTS.buffer(&context).unwrap();
        assert_eq!(
            queue.read(&weights).unwrap().wait().unwrap(),
            [1.0, 2.0, 4.0]
        );
    }
}

#[test]
fn launches_see_what_the_host_has_written_on_whichever_queue() {
    let context = context();
    let queues: Vec<Queue> = context
        .devices()
        .iter()
        .map(|device| context.queue(device).unwrap())
        .collect();
    let x = context.buffer(&[1.0; 3]).unwrap();
    let mut y = context.allocate(3).unwrap();
    let weights = WEIGHTS.buffer(&context).unwrap();
    for round in 0..20 {
        let (one, other) = (
            &queues[round % queues.len()],
            &queues[(round / 2) % queues.len()],
        );
        let expected = [round as f32, 1.0, 0.5];
        drop(one.write(&weights, expected.to_vec()).unwrap());
        other.launch(3, weigh(&x, &mut y)).unwrap();
        assert_eq!(one.read(&y).unwrap().wait().unwrap(), expected);
    }
}

#[test]
fn a_recorded_graph_has_those_of_its_context() {
    each_queue(|context, queue| {
        let sum = SUM.buffer(context).unwrap();
        queue.write(&sum, vec![0]).unwrap().wait().unwrap();
        let x = context.buffer(&[5.0; 4]).unwrap();
        let mut y = context.allocate(4).unwrap();
        let recording = context.record();
        recording.on(queue).launch(4, weigh(&x, &mut y)).unwrap();
        let graph = recording.finish().unwrap();
        for _ in 0..3 {
            queue.launch_graph(&graph).unwrap();
        }
        assert_eq!(queue.read(&sum).unwrap().wait().unwrap(), [60]);
    });
}

#[test]
fn threads_that_use_a_variable_first_use_the_same() {
    static COUNT: Variable<u32> = Variable::zeroed(1);
    #[kernel]
    fn count(_acc: &impl Accelerator<1>, #[variable(COUNT)] count: Atomics<u32>) {
        count.add(0, 1);
    }
    let (context, queue) = pool();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let one = WorkDivision::new(1, 1, 1).unwrap();
                queue.launch(one, count()).unwrap();
            });
        }
    });
    let count = COUNT.buffer(&context).unwrap();
    assert_eq!(queue.read(&count).unwrap().wait().unwrap(), [4]);
}

#[test]
fn a_variable_that_is_passed_as_well_is_refused() {
    #[kernel]
    fn twice(
        _acc: &impl Accelerator<1>,
        mut y: OwnElements<u32>,
        #[variable(PLACES)] places: &[u32],
    ) {
        for (i, y) in y.each() {
            *y = places[i];
        }
    }
    let (context, queue) = pool();
    let mut places = PLACES.buffer(&context).unwrap();
    let error = queue.launch(places.len(), twice(&mut places)).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    let mut half = places.slice(..32).unwrap();
    assert!(queue.launch(4, twice(&mut half)).is_err());
    let mut other = context.allocate(4).unwrap();
    queue.launch(4, twice(&mut other)).unwrap().wait().unwrap();
}

#[test]
fn a_variable_of_nothing_has_no_elements() {
    static NOTHING: Variable<u32> = Variable::zeroed(0);
    static EMPTY: Constant<u32> = Constant::new(&[]);
    #[kernel]
    fn look(
        _acc: &impl Accelerator<1>,
        mut y: OwnElements<u32>,
        #[variable(NOTHING)] nothing: &[u32],
    ) {
        for (_, y) in y.each() {
            *y = nothing.len() as u32;
        }
    }
    let (context, queue) = pool();
    let mut y = context.allocate(4).unwrap();
    queue.launch(4, look(&mut y)).unwrap();
    assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [0; 4]);
    assert!(EMPTY.buffer(&context).unwrap().is_empty());
}

/// The source does not depend on a parameter's being passed.
#[test]
fn the_source_is_that_of_a_kernel_that_is_passed_them() {
    mod passed {
        use quipu::prelude::*;

        #[kernel]
        pub(super) fn add(
            acc: &impl Accelerator<1>,
            x: &[u32],
            at: RawMut<u32>,
            mut y: OwnElements<u32>,
        ) {
            for (i, y) in y.each() {
                *y += x[i] + acc.extent(Grid, Blocks)[0] as u32;
            }
            // SAFETY: one thread does.
            unsafe { at.write(0, 3) };
        }
    }
    #[kernel]
    fn add(
        acc: &impl Accelerator<1>,
        #[variable(PLACES)] x: &[u32],
        #[variable(PLACES)] at: RawMut<u32>,
        mut y: OwnElements<u32>,
    ) {
        for (i, y) in y.each() {
            *y += x[i] + acc.extent(Grid, Blocks)[0] as u32;
        }
        // SAFETY: one thread does.
        unsafe { at.write(0, 3) };
    }
    let context = context();
    let (x, mut at) = (
        context.allocate::<u32>(9).unwrap(),
        context.allocate::<u32>(9).unwrap(),
    );
    let mut y = context.allocate::<u32>(9).unwrap();
    let features = print::OpenClFeatures::USUAL;
    for dialect in [Dialect::C99, Dialect::Cuda, Dialect::OpenCl(features)] {
        let options = Options::new(dialect, IndexWidth::Bits32);
        let source = |module: print::Module| {
            let printed = module.print(dialect, &options).unwrap().source;
            let lines = printed.lines().filter(|line| !line.starts_with("#line"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let ours = source(add(&mut y).module().unwrap());
        let theirs = source(passed::add(&x, &mut at, &mut y).module().unwrap());
        assert_eq!(ours, theirs);
    }
}

//! Times two ways to do the same, in turn, and prints how they compare.

use quipu::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long both are run before they are timed.
const SETTLING: Duration = Duration::from_millis(500);
/// How long both are timed at least: the median of a few short ones is what the machine did in a
/// few milliseconds.
const TIMING: Duration = Duration::from_secs(1);

/// How often each is run at least, and which rows.
pub(crate) struct Table {
    pub(crate) rounds: usize,
    pub(crate) filter: String,
    /// The number of the pair that is run.
    round: Rc<Cell<usize>>,
    /// What rows below their gates are called, and how fast they are.
    missed: RefCell<Vec<String>>,
}

/// Memory of both ways, which they exchange with each round: what is where in memory is worth some
/// percent. Who is first has the first, so that nobody finds in a cache what was there a moment
/// before.
pub(crate) struct Both<T: Element> {
    buffers: [Buffer<T>; 2],
    memory: [*mut T; 2],
    length: usize,
    round: Rc<Cell<usize>>,
}

impl<T: Element> Both<T> {
    /// Two buffers with these elements.
    pub(crate) fn new(table: &Table, context: &Context, elements: &[T]) -> quipu::Result<Self> {
        let queue = context.queue(&context.fastest())?;
        let buffers = [context.buffer(elements)?, context.buffer(elements)?];
        let mut memory = [std::ptr::null_mut(); 2];
        for (memory, buffer) in memory.iter_mut().zip(&buffers) {
            *memory = queue.map_mut(buffer)?.wait()?.as_mut_ptr();
        }
        Ok(Self {
            buffers,
            memory,
            length: elements.len(),
            round: table.round.clone(),
        })
    }

    /// The buffer of who runs kernels.
    pub(crate) fn buffer(&self) -> Buffer<T> {
        self.buffers[self.round.get() % 2].clone()
    }

    fn buffers_memory(&self) -> *mut T {
        self.memory[self.round.get() % 2]
    }

    fn memory(&self) -> *mut T {
        self.memory[1 - self.round.get() % 2]
    }

    /// The memory of who goes by hand.
    pub(crate) fn by_hand(&self) -> &[T] {
        // SAFETY: the pool's buffers stay where they are; all commands are waited for, and what
        // this lends is given back before the next is run.
        unsafe { std::slice::from_raw_parts(self.memory(), self.length) }
    }

    /// As [`by_hand`](Self::by_hand), to be written.
    #[expect(
        clippy::mut_from_ref,
        reason = "lent once at a time, in a closure that runs alone"
    )]
    pub(crate) fn by_hand_mut(&self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory(), self.length) }
    }
}

impl<T: Element + Near> Both<T> {
    fn elements(&self, memory: *mut T) -> &[T] {
        // SAFETY: as of `by_hand`.
        unsafe { std::slice::from_raw_parts(memory, self.length) }
    }

    /// Leaves in both what neither way does, and is not the same in both: so that what is not
    /// written is found.
    fn spoil(&self) {
        for (memory, byte) in self.memory.into_iter().zip([0x35, 0x36]) {
            // SAFETY: the memory has `length` elements, is borrowed as in `by_hand`, and each
            // element is plain data, of any bytes.
            unsafe {
                memory
                    .cast::<u8>()
                    .write_bytes(byte, self.length * size_of::<T>())
            };
        }
    }

    /// Leaves the same in both.
    fn level(&self) {
        let [from, to] = self.memory;
        // SAFETY: each is a buffer of so many elements, which nothing else uses meanwhile; they are
        // two.
        unsafe { to.copy_from_nonoverlapping(from, self.length) };
    }
}

/// What both ways come to, side by side.
pub(crate) trait Near: Copy + std::fmt::Debug {
    /// The same, but for the order in which floats are added.
    fn is_near(self, other: Self) -> bool;
}

impl Near for f32 {
    fn is_near(self, other: Self) -> bool {
        (self - other).abs() <= 1e-5 * other.abs().max(1.0)
    }
}

impl<T: Near, const N: usize> Near for [T; N] {
    fn is_near(self, other: Self) -> bool {
        self.iter().zip(other).all(|(a, b)| a.is_near(b))
    }
}

macro_rules! near_if_equal {
    ($($integer:ty),*) => {$(
        impl Near for $integer {
            fn is_near(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}

near_if_equal!(u8, u32, u64);

/// The ratio that a row is to reach, if it is held to one: not where the other is another
/// algorithm.
fn gate(name: &str) -> Option<f64> {
    match name.split_once(" / ") {
        None => Some(0.97),
        Some((_, "bandwidth")) => Some(0.95),
        Some(_) => None,
    }
}

/// The median and the least.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) least: f64,
}

fn times(seconds: impl Iterator<Item = f64>) -> Times {
    let mut seconds: Vec<f64> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    Times {
        median: seconds[seconds.len() / 2],
        least: seconds[0],
    }
}

/// Something that is timed, after something that is not.
pub(crate) struct Timed<'t> {
    prepare: Box<dyn FnMut() + 't>,
    run: Box<dyn FnMut() + 't>,
}

/// Only what is timed.
pub(crate) fn run<'t>(run: impl FnMut() + 't) -> Timed<'t> {
    after(|| {}, run)
}

/// With what comes before, each time.
pub(crate) fn after<'t>(prepare: impl FnMut() + 't, run: impl FnMut() + 't) -> Timed<'t> {
    Timed {
        prepare: Box::new(prepare),
        run: Box::new(run),
    }
}

impl Timed<'_> {
    fn seconds(&mut self) -> f64 {
        (self.prepare)();
        let start = Instant::now();
        (self.run)();
        start.elapsed().as_secs_f64()
    }
}

impl Table {
    pub(crate) fn new(filter: String, rounds: usize) -> Self {
        Self {
            rounds,
            filter,
            round: Rc::default(),
            missed: RefCell::default(),
        }
    }

    /// Prints which rows are below their gates, in the medians. False if there are some.
    pub(crate) fn print_missed(&self) -> bool {
        let missed = self.missed.borrow();
        if missed.is_empty() {
            println!("all rows reach their gates");
        }
        for row in &*missed {
            println!("below its gate: {row}");
        }
        missed.is_empty()
    }

    /// As [`row`](Self::row), of two ways that write all of `y`; ends with an error if they do not
    /// come to the same.
    pub(crate) fn row_into<T: Element + Near>(
        &self,
        y: &Both<T>,
        name: &str,
        bytes: usize,
        ours: Timed<'_>,
        other: Timed<'_>,
    ) {
        self.row_over(y, Both::spoil, name, bytes, ours, other);
    }

    /// As [`row_into`](Self::row_into), of two ways that change what is in `y`.
    pub(crate) fn row_within<T: Element + Near>(
        &self,
        y: &Both<T>,
        name: &str,
        bytes: usize,
        ours: Timed<'_>,
        other: Timed<'_>,
    ) {
        self.row_over(y, Both::level, name, bytes, ours, other);
    }

    fn row_over<T: Element + Near>(
        &self,
        y: &Both<T>,
        prepare: fn(&Both<T>),
        name: &str,
        bytes: usize,
        mut ours: Timed<'_>,
        mut other: Timed<'_>,
    ) {
        if !self.has(name) {
            return;
        }
        self.time(name, bytes, &mut ours, &mut other);
        prepare(y);
        ours.seconds();
        other.seconds();
        let [of_ours, of_other] = [y.buffers_memory(), y.memory()].map(|memory| y.elements(memory));
        self.compare(name, of_ours, of_other);
    }

    /// Ends with an error if the two ways of a row that was run did not come to the same.
    pub(crate) fn compare<T: Near>(&self, name: &str, ours: &[T], other: &[T]) {
        if !self.has(name) {
            return;
        }
        assert_eq!(ours.len(), other.len(), "{name}: as many results");
        let differs = |(ours, other): &(&T, &T)| !ours.is_near(**other);
        let first = ours
            .iter()
            .zip(other)
            .enumerate()
            .find(|(_, both)| differs(both));
        if let Some((i, (ours, other))) = first {
            panic!("{name}: result {i} is {ours:?}, and {other:?} by hand");
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Medians in milliseconds, and the ratios of the medians and of the least times: above 1 the
    /// first is faster. With `bytes`, the rate at which the first goes through so many, in the
    /// median.
    pub(crate) fn row(&self, name: &str, bytes: usize, mut ours: Timed<'_>, mut other: Timed<'_>) {
        if self.has(name) {
            self.time(name, bytes, &mut ours, &mut other);
        }
    }

    fn time(&self, name: &str, bytes: usize, ours: &mut Timed<'_>, other: &mut Timed<'_>) {
        // Until what is measured while kernels run for the first times is known.
        let start = Instant::now();
        for round in 0.. {
            if round >= 4 && start.elapsed() > SETTLING {
                break;
            }
            self.round.set(round);
            ours.seconds();
            other.seconds();
        }
        // Each is the first of every other pair, so that neither finds the machine better than the
        // other does.
        let start = Instant::now();
        let pairs: Vec<_> = (0..)
            .take_while(|round| *round < self.rounds || start.elapsed() < TIMING)
            .map(|round| {
                self.round.set(round);
                if round % 2 == 0 {
                    (ours.seconds(), other.seconds())
                } else {
                    let other = other.seconds();
                    (ours.seconds(), other)
                }
            })
            .collect();
        let ours = times(pairs.iter().map(|pair| pair.0));
        let other = times(pairs.iter().map(|pair| pair.1));
        let rate = if bytes > 0 {
            format!("{:6.2} GB/s", bytes as f64 / ours.median * 1e-9)
        } else {
            String::new()
        };
        let (ratio, of_least) = (other.median / ours.median, other.least / ours.least);
        if let Some(gate) = gate(name)
            && ratio < gate
        {
            self.missed.borrow_mut().push(format!(
                "{name}, {ratio:.3} for {gate} (of the least {of_least:.3})"
            ));
        }
        println!(
            "{name:34} {:8.3} ms against {:8.3} ms, ratio {ratio:.3}, of the least {of_least:.3}  {rate}",
            ours.median * 1e3,
            other.median * 1e3,
        );
    }

    /// The times of one alone.
    pub(crate) fn alone(&self, mut timed: Timed<'_>) -> Times {
        timed.seconds();
        times((0..self.rounds).map(|_| timed.seconds()))
    }
}

//! Kernels with parameters of every kind.

use quipu::kernels::f16;
use quipu::prelude::*;
use quipu::serve::{Kernels, Unpassed};
use std::ops::Mul;

#[kernel]
pub(crate) fn scale<T: Mul<Output = T>>(_acc: &impl Accelerator<1>, by: T, mut y: OwnElements<T>) {
    for (_, y) in y.each() {
        *y = *y * by;
    }
}

#[kernel]
pub(crate) fn never_served(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y += 3.0;
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, KernelData, bytemuck::NoUninit, bytemuck::CheckedBitPattern,
)]
#[repr(u32)]
pub(crate) enum Mode {
    Add = 1,
    Subtract = 5,
}

// SAFETY: not zeroed by anybody here; fresh memory of it is never read.
unsafe impl bytemuck::Zeroable for Mode {}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct Settings {
    pub(crate) small: u8,
    pub(crate) scale: f32,
    pub(crate) is_on: bool,
    pub(crate) half: f16,
    pub(crate) weights: [f64; 2],
    pub(crate) mode: Mode,
}

#[kernel]
pub(crate) fn values(
    _acc: &impl Accelerator<1>,
    settings: Settings,
    shift: usize,
    mode: Mode,
    is_on: bool,
    x: &[f32],
    mut y: OwnElements<f64>,
) {
    for (i, y) in y.each() {
        let mut value = (x[(i + shift) % x.len()] * settings.scale) as f64;
        if settings.is_on {
            value += settings.weights[i % 2] + settings.half.to_f32() as f64;
        }
        if is_on {
            value += settings.small as f64;
        }
        value += match mode {
            Mode::Add => 1.0,
            Mode::Subtract => -1.0,
        };
        *y = match settings.mode {
            Mode::Add => *y + value,
            Mode::Subtract => *y - value,
        };
    }
}

/// Each element of a region, and those of a layer below it.
#[kernel]
pub(crate) fn region(_acc: &impl Accelerator<3>, x: GlobalRef<i32, 2>, mut y: OwnElements<i32, 3>) {
    for (at, row) in y.rows() {
        for (k, y) in row.iter_mut().enumerate() {
            *y += 100 * at[0] as i32 + x[[at[1], at[2] + k]];
        }
    }
}

#[kernel]
pub(crate) fn boxes(_acc: &impl Accelerator<2>, mut y: OwnTile<u32, 2>) {
    let start = y.start();
    for (at, y) in y.each() {
        *y = *y * 7 + (1000 * (start[0] + at[0]) + start[1] + at[1]) as u32;
    }
}

#[kernel]
pub(crate) async fn block_boxes(
    acc: &impl BlockAccelerator<2>,
    mut y: OwnBlockTile<u32, 2>,
    #[shared(acc.extent(Block, Threads)[0] * acc.extent(Block, Threads)[1])] mut sums: SharedWrite<
        u32,
    >,
) {
    for (_, y) in y.each() {
        sums.own()[0] += *y;
    }
    let sums = acc.sync(sums).await;
    let mut sum = 0;
    for part in sums.iter() {
        sum += *part;
    }
    for (position, y) in y.each() {
        *y = sum + (position[0] * 10 + position[1]) as u32;
    }
}

#[kernel]
pub(crate) fn normalise(_acc: &impl Accelerator<1>, mut shares: OwnRows<f32>) {
    for (_, row) in shares.each() {
        let mut sum = 0.0;
        for share in row.iter() {
            sum += *share;
        }
        for share in row.iter_mut() {
            *share /= sum;
        }
    }
}

#[kernel]
pub(crate) async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[u64],
    result: OwnBlock<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
    #[shared(x.len() / 100 + 1)] mut extra: SharedWrite<u64>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    sums.own()[0] = own;
    for extra in extra.own().iter_mut() {
        *extra = 1;
    }
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    for result in result {
        *result = sums.own()[0];
    }
}

#[kernel]
pub(crate) fn histogram(acc: &impl Accelerator<1>, bytes: &[u8], counts: Atomics<u32>) {
    for i in acc.elements(bytes.len()) {
        counts.add(bytes[i] as usize % counts.len(), 1);
    }
}

#[kernel]
pub(crate) fn reverse(acc: &impl Accelerator<1>, x: &[u32], y: RawMut<u32>) {
    for i in acc.elements(x.len()) {
        if i < y.len() {
            // SAFETY: each element is written by one thread.
            unsafe { y.write(y.len() - 1 - i, x[i]) };
        }
    }
}

/// Memory of types that not all bits are a value of.
#[kernel]
pub(crate) fn choose(
    _acc: &impl Accelerator<1>,
    modes: &[Mode],
    flags: GlobalRef<bool>,
    mut y: OwnElements<bool>,
) {
    for (i, y) in y.each() {
        *y = match modes[i % modes.len()] {
            Mode::Add => flags[[i % flags.extent()[0]]],
            Mode::Subtract => !*y,
        };
    }
}

pub(crate) static CALLS: Variable<u32> = Variable::new(&[5]);
pub(crate) static WEIGHTS: Constant<f32> = Constant::new(&[0.25, 0.5, 0.125]);

#[kernel]
pub(crate) fn with_variables(
    _acc: &impl Accelerator<1>,
    mut y: OwnElements<f32>,
    #[variable(CALLS)] calls: Atomics<u32>,
    #[variable(WEIGHTS)] weights: &[f32],
) {
    for (i, y) in y.each() {
        *y = weights[i % weights.len()];
        calls.add(0, 1);
    }
}

/// A closure, and what it is called with.
macro_rules! offset_by {
    ($offset:expr) => {{
        let offset: f32 = $offset;
        kernel_closure!([offset: f32] |_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>| {
            for (i, y) in y.each() {
                *y = x[i] + offset;
            }
        })
    }};
}

/// A kernel whose type has no name.
pub(crate) fn offset<'b>(by: f32, x: &'b Buffer<f32>, y: &'b mut Buffer<f32>) -> impl Nameless<'b> {
    offset_by!(by).call(x, y)
}

/// The operations of a test on one.
pub(crate) trait Nameless<'b> {
    fn launch(self, queue: &Queue, length: usize) -> quipu::Result<Event>;
    fn register(kernels: Kernels, call: impl FnOnce(Unpassed) -> Self) -> Kernels;
}

impl<'b, K, A> Nameless<'b> for quipu::kernel::Call<K, A, 1>
where
    K: quipu::kernels::Entry<1, Parameters: quipu::serve::Served<1>>,
    A: quipu::kernel::PassAll<'b, K::Parameters, 1>,
{
    fn launch(self, queue: &Queue, length: usize) -> quipu::Result<Event> {
        queue.launch(length, self)
    }

    fn register(kernels: Kernels, call: impl FnOnce(Unpassed) -> Self) -> Kernels {
        kernels.with_that_of(call)
    }
}

fn register<'b, N: Nameless<'b>>(kernels: Kernels, call: impl FnOnce(Unpassed) -> N) -> Kernels {
    N::register(kernels, call)
}

/// Each element becomes that behind it, as often as there are rounds.
#[kernel]
pub(crate) async fn rotated(acc: &impl GridAccelerator<1>, rounds: u32, x: RawMut<u32>) {
    for _ in 0..rounds {
        let at = acc.index(Grid, Threads)[0];
        // SAFETY: between two barriers all threads only read, or each writes its own element.
        let next = unsafe { x.read((at + 1) % x.len()) };
        acc.sync_grid_threads().await;
        // SAFETY: as above.
        unsafe { x.write(at, next) };
        acc.sync_grid_threads().await;
    }
}

pub(crate) fn served() -> Kernels {
    let kernels = Kernels::new()
        .with::<scale<f32>, _>()
        .with::<scale<u64>, _>()
        .with::<values, _>()
        .with::<region, _>()
        .with::<boxes, _>()
        .with::<block_boxes, _>()
        .with::<normalise, _>()
        .with::<block_sum, _>()
        .with::<histogram, _>()
        .with::<reverse, _>()
        .with::<choose, _>()
        .with::<with_variables, _>()
        .with::<rotated, _>();
    register(kernels, |any| offset(0.0, any.of(), any.of()))
}

//! Gravity between bodies.

use crate::division::{refuse, threads};
use crate::function::Item;
use quipu::kernels::{
    Block, BlockAccelerator, Float, Grid, KernelData, OwnElements, SharedWrite, Threads, device,
    kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// The acceleration of a body by others, added to a sum.
#[device]
fn pulled<T: Float>(softening: T, body: [T; 4], others: &[[T; 4]], sum: [T; 4]) -> [T; 4] {
    let mut sum = sum;
    for other in others {
        let x = other[0] - body[0];
        let y = other[1] - body[1];
        let z = other[2] - body[2];
        let square = x * x + y * y + z * z + softening;
        let weight = other[3] / (square * square.sqrt());
        sum[0] += x * weight;
        sum[1] += y * weight;
        sum[2] += z * weight;
    }
    sum
}

/// Sets element `i` of the acceleration to that of body `i` by all bodies. A block takes as many
/// bodies at a time into its shared memory as it has threads, of one element each.
///
/// A body is its place and its mass; an acceleration has a fourth component, 0.
#[kernel]
pub async fn attract_tiles<T: Float + KernelData>(
    acc: &impl BlockAccelerator<1>,
    softening: T,
    bodies: &[[T; 4]],
    mut acceleration: OwnElements<[T; 4]>,
    #[shared(acc.extent(Block, Threads)[0])] mut tile: SharedWrite<[T; 4]>,
) {
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let body = bodies[acc.index(Grid, Threads)[0].min(bodies.len() - 1)];
    let mut sum = [T::ZERO; 4];
    let mut from = 0;
    while from < bodies.len() {
        if from + thread < bodies.len() {
            tile.own()[0] = bodies[from + thread];
        }
        let read = acc.sync(tile).await;
        // In a function of its own, as variables of an `async fn` are in memory.
        let others = threads.min(bodies.len() - from);
        sum = pulled(softening, body, &read[..others], sum);
        tile = acc.sync(read).await;
        from += threads;
    }
    for (_, acceleration) in acceleration.each() {
        *acceleration = sum;
    }
}

/// Sets each `[x, y, z, 0]` of `acceleration` to the sum over all bodies, each `[x, y, z, mass]`,
/// of mass times distance over the third power of (the square of the distance plus `softening`)'s
/// square root: gravity with a constant of 1. `softening`, the square of a length, keeps near
/// bodies, and a body and itself, from dividing by zero: it has to be greater than that.
///
/// Sums are made in the order of the bodies: the same bits on every device. n^2 interactions of 21
/// operations. (Nyland, Harris and Prins, "Fast N-Body Simulation with CUDA", 2007.)
///
/// # Errors
/// If the lengths differ; as [`Queue::launch`].
pub fn attract<T: Item + Float>(
    queue: &Queue,
    softening: T,
    bodies: &Buffer<[T; 4]>,
    acceleration: &mut Buffer<[T; 4]>,
) -> Result<Event>
where
    [T; 4]: Item,
{
    if bodies.len() != acceleration.len() {
        return refuse(
            "compute gravity",
            format!(
                "there are {} bodies and {} accelerations; make them equally many",
                bodies.len(),
                acceleration.len()
            ),
        );
    }
    // A barrier for each tile, so that there are many bodies in one also where the device would
    // have single threads.
    let threads = threads(queue.limits()).max(64);
    queue.launch(
        WorkDivision::new(bodies.len().div_ceil(threads), threads, 1),
        attract_tiles(softening, bodies, acceleration.overwrite()),
    )
}

// More kernels of `docs/kernels.md` and of the front end's examples, letter by letter, which nobody
// times.

/// The place of each element's thread.
#[kernel]
fn places(acc: &impl Accelerator<1>, mut blocks: OwnElements<u32>, mut threads: OwnElements<u32>) {
    for (_, block) in blocks.each() {
        *block = acc.index(Grid, Blocks)[0] as u32;
    }
    for (_, thread) in threads.each() {
        *thread = acc.index(Block, Threads)[0] as u32;
    }
}

/// Turns an array round along all of its axes.
#[kernel]
fn across<const D: usize>(_acc: &impl Accelerator<D>, x: GlobalRef<u32, D>, mut y: OwnElements<u32, D>) {
    let extent = y.extent();
    for (i, y) in y.each() {
        let mut position = extent.position_of(i);
        for d in 0..D {
            position[d] = extent[d] - 1 - position[d];
        }
        *y = x[position];
    }
}

const GRAVITY: f32 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, NoUninit, AnyBitPattern, KernelData)]
#[repr(C)]
struct Ball {
    height: f32,
    speed: f32,
}

#[kernel]
fn fall(_acc: &impl Accelerator<1>, seconds: f32, mut balls: OwnElements<Ball>) {
    for (_, ball) in balls.each() {
        ball.speed -= GRAVITY * seconds;
        ball.height += ball.speed * seconds;
        if ball.height < 0.0 {
            *ball = Ball { height: -ball.height, speed: -ball.speed };
        }
    }
}

#[kernel]
async fn rounds(acc: &impl BlockAccelerator<1>, equal: &[u32], mut y: OwnElements<u32>) {
    let own = equal[acc.index(Grid, Threads)[0]];
    // SAFETY: whoever launches this passes elements that are all equal.
    let rounds = unsafe { acc.assume_uniform(own) };
    for _ in 0..rounds {
        acc.sync_block_threads().await;
        for (_, y) in y.each() {
            *y += 1;
        }
    }
}

/// The number of even numbers.
#[kernel]
async fn count_even(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    total: Atomics<u32>,
    #[shared(1)] of_block: SharedAtomics<u32>,
) {
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += 1 - x[i] % 2;
    }
    if acc.warp_size() > 1 {
        let mut distance = acc.warp_size() / 2;
        while distance > 0 {
            own += acc.warp_shuffle_xor(own, distance).await;
            distance /= 2;
        }
    }
    if acc.lane() == 0 {
        of_block.add(0, own);
    }
    acc.sync_block_threads().await;
    if acc.once_per_block() {
        total.add(0, of_block.load(0));
    }
}

/// Half of each number, rounded down: exactly where that is possible.
#[kernel]
fn halves(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = if acc.has_f64() {
            (x[i] as f64 / 2.0).floor() as f32
        } else {
            (x[i] / 2) as f32
        };
    }
}

#[kernel]
fn clear(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = 0.0;
    }
}

/// Heat flows along a rod, of which this computes the elements from `first` on.
#[kernel]
fn flow(_acc: &impl Accelerator<1>, first: u32, old: &[f32], mut new: OwnElements<f32>) {
    for (i, new) in new.each() {
        let at = first as usize + i;
        let left = old[at.saturating_sub(1)];
        let right = old[(at + 1).min(old.len() - 1)];
        *new = old[at] + 0.25 * (left - 2.0 * old[at] + right);
    }
}

#[kernel]
fn add_one(_acc: &impl Accelerator<1>, mut x: OwnElements<f32>) {
    for (_, x) in x.each() {
        *x += 1.0;
    }
}

// Kernels of `docs/kernels.md` and of the front end's example 08, letter by letter, which
// `guide.rs` includes. `src/tests/guide.rs` holds them to their sources.

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

#[kernel]
fn shift(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = if i == 0 { 0.0 } else { x[i - 1] };
    }
}

/// One step: each element becomes the average of its four neighbours. Beyond the border it is as
/// warm as on it.
#[kernel]
fn spread(_acc: &impl Accelerator<2>, before: GlobalRef<f32, 2>, mut after: OwnElements<f32, 2>) {
    let last_row = before.extent()[0] - 1;
    let last_column = before.extent()[1] - 1;
    for (position, part) in after.rows() {
        let i = position[0];
        for (k, after) in part.iter_mut().enumerate() {
            let j = position[1] + k;
            let above = before[[i.saturating_sub(1), j]];
            let below = before[[(i + 1).min(last_row), j]];
            let left = before[[i, j.saturating_sub(1)]];
            let right = before[[i, (j + 1).min(last_column)]];
            *after = (above + below + left + right) / 4.0;
        }
    }
}

/// Makes each row add up to one.
#[kernel]
fn normalise(_acc: &impl Accelerator<1>, mut shares: OwnRows<f32>) {
    for (_, row) in shares.each() {
        let mut sum = 0.0;
        for share in row.iter() {
            sum += share;
        }
        for share in row {
            *share /= sum;
        }
    }
}

#[device]
fn square<T: Mul<Output = T> + Copy>(x: T) -> T {
    x * x
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Line<T> {
    slope: T,
    offset: T,
}

#[device]
impl<T: Add<Output = T> + Mul<Output = T> + Copy> Line<T> {
    fn height(self, x: T) -> T {
        self.slope * x + self.offset
    }
}

#[kernel]
fn parabola<T: Add<Output = T> + Mul<Output = T>>(
    _acc: &impl Accelerator<1>,
    line: Line<T>,
    mut y: OwnElements<T>,
) {
    for (_, y) in y.each() {
        *y = square(line.height(*y));
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Vector {
    x: f32,
    y: f32,
}

#[device]
impl Add for Vector {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y }
    }
}

#[device]
impl Mul<Vector> for f32 {
    type Output = Vector;
    fn mul(self, vector: Vector) -> Vector {
        Vector { x: self * vector.x, y: self * vector.y }
    }
}

/// How many steps it takes until the sequence of each point leaves a circle, 100 at most.
#[kernel]
fn mandelbrot(_acc: &impl Accelerator<1>, from: Vector, step: Vector, mut steps: OwnElements<u32>) {
    for (i, steps) in steps.each() {
        let point = from + i as f32 * step;
        let c = Complex::new(point.x, point.y);
        let mut z = Complex::ZERO;
        while z.norm_sqr() < 4.0 && *steps < 100 {
            z = z * z + c;
            *steps += 1;
        }
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Clip {
    low: f32,
    high: f32,
}

/// The smallest number from 0 on for which something holds, below 1000.
#[device]
fn first_number(holds: impl Fn(f32) -> bool) -> f32 {
    let mut number = 0.0;
    while number < 1000.0 && !holds(number) {
        number += 1.0;
    }
    number
}

#[kernel]
impl Clip {
    fn roots(&self, _acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
        for (i, y) in y.each() {
            *y = first_number(|root| root * root >= x[i]).clamp(self.low, self.high);
        }
    }
}

/// The number of times that each byte occurs.
#[kernel]
fn histogram(acc: &impl Accelerator<1>, bytes: &[u8], counts: Atomics<u32>) {
    for i in acc.elements(bytes.len()) {
        counts.add(bytes[i] as usize, 1);
    }
}

/// The sum of each block's part of `x`, in blocks of a power of two threads.
#[kernel]
async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[u64],
    result: OwnBlock<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    sums.own()[0] = own;
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

const TILE: usize = 16;

/// `c = a * b`, in blocks of `TILE` by `TILE` threads of one element each. Beyond the borders are
/// zeros.
#[kernel]
async fn matrix_product(
    acc: &impl BlockAccelerator<2>,
    a: GlobalRef<f32, 2>,
    b: GlobalRef<f32, 2>,
    mut c: OwnElements<f32, 2>,
    #[shared(TILE * TILE)] mut a_tile: SharedWrite<f32>,
    #[shared(TILE * TILE)] mut b_tile: SharedWrite<f32>,
) {
    let (threads, elements) = (acc.extent(Block, Threads), acc.extent(Block, Elements));
    assert!(
        threads[0] == TILE && threads[1] == TILE && elements[0] == TILE && elements[1] == TILE,
        "launch it in blocks of TILE by TILE threads of one element"
    );
    let (rows, inner, columns) = (a.extent()[0], b.extent()[0], b.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);

    let mut sum = 0.0;
    for tile in 0..inner.div_ceil(TILE) {
        let (across, down) = (tile * TILE + j, tile * TILE + i);
        a_tile.own()[0] = if row < rows && across < inner {
            a[[row, across]]
        } else {
            0.0
        };
        b_tile.own()[0] = if down < inner && column < columns {
            b[[down, column]]
        } else {
            0.0
        };

        let (a_read, b_read) = acc.sync((a_tile, b_tile)).await;
        for k in 0..TILE {
            sum += a_read[i * TILE + k] * b_read[k * TILE + j];
        }
        (a_tile, b_tile) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum;
    }
}

#[device]
trait Shape {
    fn covers(&self, x: f32, y: f32) -> bool;
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Disc {
    centre: [f32; 2],
    radius: f32,
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Ring {
    outer: Disc,
    inner: Disc,
}

#[device]
impl Shape for Disc {
    fn covers(&self, x: f32, y: f32) -> bool {
        let (across, down) = (x - self.centre[0], y - self.centre[1]);
        across * across + down * down < self.radius * self.radius
    }
}

#[device]
impl Shape for Ring {
    fn covers(&self, x: f32, y: f32) -> bool {
        self.outer.covers(x, y) && !self.inner.covers(x, y)
    }
}

#[kernel]
fn draw<S: Shape>(_acc: &impl Accelerator<2>, shape: S, mut picture: OwnElements<u8, 2>) {
    let (rows, columns) = (picture.extent()[0] as f32, picture.extent()[1] as f32);
    for (position, part) in picture.rows() {
        for (k, pixel) in part.iter_mut().enumerate() {
            let x = ((position[1] + k) as f32 + 0.5) / columns;
            let y = (position[0] as f32 + 0.5) / rows;
            *pixel = if shape.covers(x, y) { 1 } else { 0 };
        }
    }
}

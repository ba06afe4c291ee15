//! Loops by hand for the processor's cores, on rayon.
//!
//! Compiled as the whole crate is, so for the oldest processor of the target unless `RUSTFLAGS`
//! says otherwise; our native kernels are compiled for several and choose at run time.

use crate::error::BenchError;
use crate::reference::rayon_executor::rayon_pool;
use rayon::ThreadPool;
use rayon::prelude::*;

/// Elements of a chunk: enough that handing it out costs nothing beside it.
const CHUNK: usize = 1 << 15;
/// Sums side by side, so that an addition need not wait for the one before.
const LANES: usize = 16;

/// Threads, and the loops on them.
pub struct Loops(ThreadPool);

impl Loops {
    /// So many threads.
    ///
    /// # Errors
    /// If the pool cannot be started.
    pub fn new(workers: usize) -> Result<Self, BenchError> {
        rayon_pool(workers).map(Loops)
    }

    /// y += a x
    pub fn saxpy(&self, a: f32, x: &[f32], y: &mut [f32]) {
        let chunks = |y: &mut [f32], x: &[f32]| {
            for (y, x) in y.iter_mut().zip(x) {
                *y += a * x;
            }
        };
        self.0.install(|| {
            let x = x.par_chunks(CHUNK);
            y.par_chunks_mut(CHUNK)
                .zip(x)
                .for_each(|(y, x)| chunks(y, x));
        });
    }

    /// The sum of x.
    pub fn sum(&self, x: &[f32]) -> f32 {
        let chunk = |x: &[f32]| -> f32 {
            let (lines, rest) = x.as_chunks::<LANES>();
            let mut sums = [0.0_f32; LANES];
            for line in lines {
                for (sum, x) in sums.iter_mut().zip(line) {
                    *sum += x;
                }
            }
            sums.iter().chain(rest).sum()
        };
        self.0.install(|| x.par_chunks(CHUNK).map(chunk).sum())
    }

    /// c = a b, of `n` x `n` elements, row after row: rows of b are added to rows of c, in steps
    /// that stay in a cache.
    pub fn gemm(&self, n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
        const ROWS: usize = 8;
        const STEP: usize = 64;
        self.0.install(|| {
            let bands = c.par_chunks_mut(ROWS * n).zip(a.par_chunks(ROWS * n));
            bands.for_each(|(c, a)| {
                c.fill(0.0);
                for from in (0..n).step_by(STEP) {
                    for (c, a) in c.chunks_mut(n).zip(a.chunks(n)) {
                        for k in from..(from + STEP).min(n) {
                            let factor = a[k];
                            for (c, b) in c.iter_mut().zip(&b[k * n..(k + 1) * n]) {
                                *c += factor * b;
                            }
                        }
                    }
                }
            });
        });
    }

    /// The acceleration of each body by all bodies, `[x, y, z, mass]`.
    pub fn pull(&self, softening: f32, bodies: &[[f32; 4]], acceleration: &mut [[f32; 4]]) {
        let one = |body: &[f32; 4]| {
            let mut sum = [0.0_f32; 4];
            for other in bodies {
                let [x, y, z] = [0, 1, 2].map(|k| other[k] - body[k]);
                let square = x * x + y * y + z * z + softening;
                let weight = other[3] / (square * square.sqrt());
                sum[0] += x * weight;
                sum[1] += y * weight;
                sum[2] += z * weight;
            }
            sum
        };
        self.0.install(|| {
            let bodies = bodies.par_iter().with_min_len(16);
            acceleration
                .par_iter_mut()
                .zip(bodies)
                .for_each(|(acceleration, body)| *acceleration = one(body));
        });
    }

    /// Steps until z = z^2 + c leaves a circle, for each point of a plane.
    pub fn escape(&self, plane: Plane, steps: &mut [u32]) {
        self.0.install(|| {
            let rows = steps.par_chunks_mut(plane.width).enumerate();
            rows.for_each(|(row, steps)| {
                let imaginary = plane.bottom + row as f32 * plane.step;
                for (column, steps) in steps.iter_mut().enumerate() {
                    let real = plane.left + column as f32 * plane.step;
                    let (mut x, mut y, mut count) = (0.0_f32, 0.0_f32, 0);
                    while count < plane.limit && x * x + y * y < 4.0 {
                        (x, y) = (x * x - y * y + real, 2.0 * x * y + imaginary);
                        count += 1;
                    }
                    *steps = count;
                }
            });
        });
    }
}

/// The points of `mandelbrot`.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// The first point's real part.
    pub left: f32,
    /// Its imaginary part.
    pub bottom: f32,
    /// The distance of points.
    pub step: f32,
    /// Points in a row.
    pub width: usize,
    /// The most steps.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_sums_are_right_for_sizes_that_do_not_divide() {
        let loops = Loops::new(2).expect("threads");
        let n = 77;
        let a: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32).collect();
        let b: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32).collect();
        let mut c = vec![1.0; n * n];
        loops.gemm(n, &a, &b, &mut c);
        for (row, column) in [(0, 0), (5, 70), (76, 76)] {
            let expected: f32 = (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum();
            assert_eq!(c[row * n + column], expected);
        }
        let x = vec![1.0; 3 * CHUNK + 17];
        assert_eq!(loops.sum(&x), x.len() as f32);
    }
}

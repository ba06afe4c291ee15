//! Random numbers that are functions of where they are drawn: the same on every device, in any
//! order.
//!
//! [`philox4x32`] makes four words of 32 bits from a *counter* and a *key*, so that each thread has
//! numbers of its own without any state that threads share: Philox4x32-10 of J. Salmon et al.,
//! "Parallel random numbers: as easy as 1, 2, 3" (2011), which passes TestU01's BigCrush.
//! [`Philox`] draws them one after the other:
//!
//! ```
//! use quipu_kernel::*;
//!
//! /// Points in the unit square that are inside of the circle, by thread.
//! struct Inside {
//!     seed: u64,
//! }
//!
//! impl Kernel<1> for Inside {
//!     type Output = ByElement<u32>;
//!     fn run<A: Accelerator<1>>(&self, _acc: &A, mut inside: OwnElements<'_, u32>) {
//!         for (i, inside) in inside.each() {
//!             let mut random = Philox::new(self.seed, i as u64); // a stream for each element
//!             for _ in 0..100 {
//!                 let (x, y): (f64, f64) = (random.uniform(), random.uniform());
//!                 *inside += u32::from(x * x + y * y < 1.0);
//!             }
//!         }
//!     }
//! }
//!
//! let mut inside = vec![0; 1000];
//! let division = WorkDivision::new(4, 1, 250)?;
//! erase(Inside { seed: 7 }, GlobalMut::from(&mut inside), division)?.run_all(&mut BlockScratch::new())?;
//! let pi = inside.iter().sum::<u32>() as f64 / 25_000.0;
//! assert!((pi - std::f64::consts::PI).abs() < 0.02);
//! # Ok::<(), KernelError>(())
//! ```

mod philox;

pub use philox::{Philox, Uniform, box_muller, philox4x32};

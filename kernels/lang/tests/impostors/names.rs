//! Variables of a kernel that have the names of those that the macro writes.

use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, OwnElements, SharedWrite, Threads, WorkDivision, kernel,
};

/// Kernels whose phases go one by one, and side by side in rounds, with a variable of such a name.
/// The variable is far outside of the arrays.
macro_rules! kernels {
    ($($name:ident)*) => {$(
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            #[kernel(crate = quipu_kernel)]
            async fn alone(
                acc: &impl BlockAccelerator<1>,
                far: usize,
                x: &[f32],
                mut y: OwnElements<f32>,
                #[shared(64)] mut a: SharedWrite<f32>,
            ) {
                let thread = acc.index(Block, Threads)[0];
                let mut v = x[thread] * 2.0;
                let $name = far + thread;
                for (_, y) in y.each() {
                    *y += $name as f32 * 0.0;
                    v += 1.0;
                }
                a.own()[0] = v;
                acc.sync_block_threads().await;
                for (_, y) in y.each() {
                    *y += v + $name as f32 * 0.0;
                }
                let a = acc.sync(a).await;
                for (_, y) in y.each() {
                    *y += a[thread];
                }
            }

            #[kernel(crate = quipu_kernel)]
            async fn together(
                acc: &impl BlockAccelerator<1>,
                far: usize,
                x: &[f32],
                mut y: OwnElements<f32>,
                #[shared(64)] mut a: SharedWrite<f32>,
            ) {
                let thread = acc.index(Block, Threads)[0];
                let $name = far;
                a.own()[0] = x[thread] + $name as f32 * 0.0;
                let read = acc.sync(a).await;
                let mut sum = 0.0;
                for i in 0..4 {
                    if thread + i < 64 {
                        sum += read[thread + i];
                    }
                }
                acc.sync_block_threads().await;
                for (_, y) in y.each() {
                    *y = sum + $name as f32 * 0.0;
                }
            }

            #[test]
            fn is_the_kernels_own() {
                const { assert!(UNOPTIMISED || <alone as BlockKernel<1>>::IN_PHASES) };
                const { assert!(UNOPTIMISED || <together as BlockKernel<1>>::IN_PHASES) };
                let division = WorkDivision::new(1, 64, 1).unwrap();
                let (x, far) = (vec![1.0_f32; 64], 1 << 40);
                let mut y = vec![0.0_f32; 64];
                alone(far, &x, &mut y).run(division.clone()).unwrap();
                assert_eq!(y, [6.0; 64]);
                together(far, &x, &mut y).run(division).unwrap();
                let expected: Vec<_> = (0..64).map(|at| 4.min(64 - at) as f32).collect();
                assert_eq!(y, expected);
            }
        }
    )*};
}

kernels! {
    __blocks __row __last __lane __number __guards __bounds __fits __first __end __until __value
    __from_0 __to_0 __taken_0 __taken_1 __kept_0 __kept_1 __lanes_0 __lanes_1 __own_a __lanes_of_a
    __lanes_a
}

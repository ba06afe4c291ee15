//! Ranges with their last element, as indices.

use super::{check, division};
use quipu_kernel::{Block, BlockAccelerator, GlobalRef, OwnElements, SharedWrite, Threads, kernel};

/// Slices with their last element: of what is read, of a view, of an array, of shared memory.
#[kernel(crate = quipu_kernel)]
async fn with_the_last(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    view: GlobalRef<u32, 1>,
    mut y: OwnElements<[u32; 5]>,
    #[shared(4)] mut shared: SharedWrite<u32>,
) {
    let own = acc.index(Block, Threads)[0];
    for s in shared.own() {
        *s = own as u32;
    }
    let shared = acc.sync(shared).await;
    for (i, y) in y.each() {
        let mut array = [0, 1, 2, 3, 4, 5, 6];
        for v in &mut array[..=i % 4] {
            *v += 10;
        }
        let range = i / 2..=i;
        let mut sum = 0;
        for v in &x[range] {
            sum += *v;
        }
        let mut of_array = 0;
        for v in array {
            of_array += v;
        }
        *y = [
            sum,
            (x[i / 2..=i].len() + 10 * x[..=i].len()) as u32,
            of_array,
            shared[own / 2..=own].len() as u32 + 10 * shared[..=own][own] + 1,
            view[i / 2..=i][0] + view[..=i].len() as u32,
        ];
    }
}

#[test]
fn runs_slices_with_their_last() {
    let x = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let mut y = vec![[0; 5]; 8];
    check!(with_the_last => (&x, &x, &mut y), division(2, 4, 1));
    assert_eq!(y[0], [3, 11, 31, 2, 4]);
    assert_eq!(y[7], [1 + 5 + 9 + 2 + 6, 85, 61, 34, 9]);
}

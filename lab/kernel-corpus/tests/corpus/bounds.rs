//! Attributes of blocks and of shared arrays; fences of one order.

use super::{check, division};
use quipu_kernel::{
    Accelerator, Atomics, Block, BlockAccelerator, Blocks, GlobalMut, Grid, OwnBlock, OwnElements,
    SharedWrite, Threads, WorkDivision, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Module, OpenClFeatures, Options};

fn printed(module: &Module, dialect: Dialect) -> String {
    let options = Options::new(dialect, IndexWidth::Bits32);
    module.print(dialect, &options).unwrap().source
}

const OPENCL: Dialect = Dialect::OpenCl(OpenClFeatures::USUAL);
const SIDE: usize = 4;

#[kernel(crate = quipu_kernel, block_threads = [2, SIDE])]
fn in_blocks(acc: &impl Accelerator<2>, mut y: OwnElements<u32, 2>) {
    let thread = acc.index(Block, Threads);
    for (i, y) in y.each() {
        *y = (i * 100 + thread[0] * 10 + thread[1]) as u32;
    }
}

#[test]
fn runs_in_blocks() {
    let mut y = vec![0_u32; 60];
    let division = WorkDivision::new([3, 3], [2, 4], [1, 1]).unwrap();
    let view = GlobalMut::from(&mut y).in_extent([6, 10]).unwrap();
    in_blocks(view).run(division).unwrap();
    assert_eq!((y[0], y[13], y[59]), (0, 1313, 5911));
    let view = GlobalMut::from(&mut y).in_extent([6, 10]).unwrap();
    let module = in_blocks(view).module().unwrap();
    let opencl = printed(&module, OPENCL);
    assert!(
        opencl.contains("__attribute__((reqd_work_group_size(4, 2, 1)))"),
        "{opencl}"
    );
    let cuda = printed(&module, Dialect::Cuda);
    assert!(cuda.contains("__launch_bounds__(8) "), "{cuda}");
    assert!(!printed(&module, Dialect::C99).contains("work_group_size"));
}

#[kernel(crate = quipu_kernel, max_block_threads = 64, min_blocks = 2)]
async fn sums_of_parts(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    sums: OwnBlock<u32>,
    #[shared(acc.extent(Block, Threads)[0], unsafe(uninit))] mut parts: SharedWrite<u32>,
    #[shared(2)] zeros: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    parts.own()[0] = x[acc.index(Grid, Threads)[0]];
    let (parts, zeros) = acc.sync((parts, zeros)).await;
    let mut sum = zeros[0] + zeros[1];
    for k in 0..parts.len() {
        sum += parts[k] * (thread == 0) as u32;
    }
    for total in sums {
        *total = sum;
    }
}

#[test]
fn runs_sums_of_parts() {
    let x: Vec<u32> = (0..24).map(|i| i * 7 % 11).collect();
    let mut y = vec![0; 3];
    check!(sums_of_parts => (&x, &mut y), division(3, 8, 1), 8);
    let expected: Vec<u32> = x.chunks(8).map(|part| part.iter().sum()).collect();
    assert_eq!(y, expected);
    let module = sums_of_parts(&x, &mut y).module().unwrap();
    let cuda = printed(&module, Dialect::Cuda);
    assert!(cuda.contains("__launch_bounds__(64, 2) "), "{cuda}");
    for dialect in [Dialect::Cuda, OPENCL] {
        let source = printed(&module, dialect);
        assert!(source.contains("zeros[quipu_at] = 0"), "{source}");
        assert!(!source.contains("parts[quipu_at]"), "{source}");
    }
}

/// All elements of the first four arrays are written before any is read. Elements of the last two
/// are read first, or written by some threads only.
#[kernel(crate = quipu_kernel)]
async fn written_first(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    sums: OwnBlock<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut one_each: SharedWrite<u32>,
    #[shared(13)] mut each: SharedWrite<u32>,
    #[shared(acc.extent(Block, Threads)[0] * 2)] mut filled: SharedWrite<u32>,
    #[shared(13)] mut some: SharedWrite<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut added: SharedWrite<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut later: SharedWrite<u32>,
) {
    let own = x[acc.index(Grid, Threads)[0]];
    one_each.own()[0] = own;
    for element in each.own() {
        *element = own + 1;
        *element *= 2;
    }
    filled.own().fill(own);
    some.own().fill(0);
    added.own()[0] += 2;
    if own > 3 {
        later.own()[0] = own;
    }
    let (one_each, each, filled) = acc.sync((one_each, each, filled)).await;
    let (some, added, later) = acc.sync((some, added, later)).await;
    let mut sum = 0;
    for k in 0..one_each.len() {
        sum += one_each[k] + filled[2 * k] + 2 * filled[2 * k + 1] + added[k] + later[k];
    }
    for k in 0..each.len() {
        sum += each[k] + some[k];
    }
    for total in sums {
        *total = sum;
    }
}

#[test]
fn runs_written_first() {
    let x: Vec<u32> = (0..24).map(|i| i * 7 % 11).collect();
    let mut y = vec![0; 3];
    check!(written_first => (&x, &mut y), division(3, 8, 1), 8, 16, 8, 8);
    let module = written_first(&x, &mut y).module().unwrap();
    for dialect in [Dialect::Cuda, OPENCL] {
        let source = printed(&module, dialect);
        for array in ["one_each", "each", "filled", "some"] {
            assert!(!source.contains(&format!(" {array}[quipu_at]")), "{source}");
        }
        for array in ["added", "later"] {
            assert!(
                source.contains(&format!(" {array}[quipu_at] = 0")),
                "{source}"
            );
        }
    }
}

/// The loop that writes an array ends early, so what it leaves is zero.
#[kernel(crate = quipu_kernel)]
async fn cut_short(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    sums: OwnBlock<u32>,
    #[shared(61)] mut cut: SharedWrite<u32>,
) {
    let own = x[acc.index(Grid, Threads)[0]];
    for element in cut.own() {
        *element = own;
        if own > 3 {
            break;
        }
    }
    let cut = acc.sync(cut).await;
    let mut sum = 0;
    for k in 0..cut.len() {
        sum += cut[k];
    }
    for total in sums {
        *total = sum;
    }
}

#[test]
fn runs_cut_short() {
    let x: Vec<u32> = (0..24).map(|i| i * 7 % 11).collect();
    let mut y = vec![0; 3];
    check!(cut_short => (&x, &mut y), division(3, 8, 1));
    let module = cut_short(&x, &mut y).module().unwrap();
    let source = printed(&module, Dialect::Cuda);
    assert!(source.contains(" cut[quipu_at] = 0"), "{source}");
}

/// The first thread of each block hands numbers on, and what comes later reads them: within the
/// block after a barrier, and by the last block that comes.
#[kernel(crate = quipu_kernel)]
async fn hand_on(
    acc: &impl BlockAccelerator<1>,
    data: Atomics<u32>,
    flags: Atomics<u32>,
    mut y: OwnElements<u32>,
) {
    let block = acc.index(Grid, Blocks)[0];
    if acc.once_per_block() {
        data.store(block, 1 + block as u32);
        acc.fence_block_release();
        if acc.has_device_fence() {
            acc.fence_device_release();
        }
        if acc.has_system_scope() {
            acc.fence_system_release();
        }
        flags.store(block, 1);
    }
    acc.sync_block_threads().await;
    let flag = flags.load(block);
    acc.fence_block_acquire();
    if acc.has_device_fence() {
        acc.fence_device_acquire();
    }
    if acc.has_system_scope() {
        acc.fence_system_acquire();
    }
    let value = data.load(block);
    for (_, y) in y.each() {
        *y = 10 * flag + value;
    }
}

#[test]
fn runs_hand_on() {
    let (mut data, mut flags, mut y) = (vec![0; 3], vec![0; 3], vec![0; 12]);
    check!(hand_on => (&mut data, &mut flags, &mut y), division(3, 4, 1));
    assert_eq!(y, [11, 11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13]);
}

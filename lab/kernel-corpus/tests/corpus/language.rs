//! The language, item by item: the place where each is tested, natively in every way and printed.
//! Items without a file of their own are tested here.
//!
//! | item | tested by |
//! |---|---|
//! | index and extent by origin and unit | `places` |
//! | linearise and delinearise | `numbers`, `tests/division.rs` |
//! | any number of dimensions, index type of the launch | `places`, `views`; both widths in `run_printed` |
//! | kernels as functions, methods, closures | all files, `functions`, `data`, `closures` |
//! | work division: explicit, automatic, validated, by occupancy | `tests/division.rs` |
//! | own elements, tiles, rows, blocks | `own`, `views`, `blocks`, `tests/parts.rs` |
//! | loops over elements and groups, independent and uniform | `shares`; `loops` |
//! | once per grid, once per block | `once` |
//! | block-shared memory, of a fixed length and of the launch's | `blocks::runs_votes`, `blocks::runs_block_sum` |
//! | variables, global and constant | `quipu`'s `tests/api/variables.rs` |
//! | barriers, with count, and, or | `blocks::runs_votes`, `tests/modes.rs` |
//! | atomics: each step, at each scope, of each type | `steps_of_…` |
//! | fences: block, grid, device, system | `fences`; their order, `blocks::runs_relay` |
//! | warps: size, lane, active mask, all, any, ballot, shuffles | `neighbours`, `warps`, `tests/modes.rs` |
//! | mathematical functions that are exact | `exact_functions_of_…` |
//! | and those that are not | `transcendental`; `sin_cos`, `library::runs_circles` |
//! | 16-bit floats | `halves`, `half_operations` |
//! | complex numbers; random numbers | `library` |
//! | functions and operators of users' types | `functions`, `operators` |
//! | popcount, first set, leading zeros; clock | `bits`; `library::clocks_do_not_go_back` |
//! | printf, assert | `control::runs_talks`, `failures` |
//! | constant memory | `data::runs_tables` |
//! | device properties | `quipu`'s `tests/api/devices.rs` |
//! | algorithms | `quipu-algorithms` |
//! | generics, constants as parameters, traits, other crates' functions | `functions`; `quipu-kernel-generated`'s `tests/crates.rs` |
//! | structs, as arguments, in buffers, changed; enums; tuples, arrays, slices | `data`, `warps::runs_steps` |
//! | `match`, `if`, `while`, `loop`, `for`, labels, early return, shadowing | `control`, `loops` |
//! | closures in place and as arguments | `functions` |
//! | several of these at a time | `combined` |
//! | branches on facts that are known when the source is made | `control::runs_unreached`, `warps::runs_steps` |

use super::{check, compare, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Atomics, Block, BlockAccelerator, Blocks, Elements, Float, GlobalMut, Grid,
    Integer, OwnElements, RawMut, SharedAtomics, Thread, Threads, WorkDivision, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Options};
use quipu_kernel_testing::Argument;

/// All indices and extents that there are, at the place of each thread.
#[kernel(crate = quipu_kernel)]
fn places(acc: &impl Accelerator<3>, y: RawMut<[u32; 11]>) {
    let mut all = [0; 11];
    for d in 0..3 {
        let parts = [
            acc.index(Grid, Blocks)[d],
            acc.index(Grid, Threads)[d],
            acc.index(Grid, Elements)[d],
            acc.index(Block, Threads)[d],
            acc.index(Block, Elements)[d],
            acc.extent(Grid, Blocks)[d],
            acc.extent(Grid, Threads)[d],
            acc.extent(Grid, Elements)[d],
            acc.extent(Block, Threads)[d],
            acc.extent(Block, Elements)[d],
            acc.extent(Thread, Elements)[d],
        ];
        for k in 0..11 {
            all[k] = all[k] * 100 + parts[k] as u32;
        }
    }
    let number = acc
        .extent(Grid, Threads)
        .number_of(acc.index(Grid, Threads));
    // SAFETY: each thread has a number of its own.
    unsafe { y.write(number, all) };
}

#[test]
fn runs_places() {
    let division = WorkDivision::new([2, 1, 3], [1, 3, 2], [2, 1, 4]).unwrap();
    let mut y = vec![[0; 11]; 36];
    check!(places => (&mut y), division);
    // Thread [1, 2, 5] of [2, 3, 6]: in block [1, 0, 2], thread [0, 2, 1].
    assert_eq!(
        y[35],
        [
            1_00_02, 1_02_05, 2_02_20, 0_02_01, 0_02_04, 2_01_03, 2_03_06, 4_03_24, 1_03_02,
            2_03_08, 2_01_04
        ]
    );
}

/// Numbers of positions, and positions of numbers.
#[kernel(crate = quipu_kernel)]
fn numbers(acc: &impl Accelerator<2>, mut y: OwnElements<[u32; 4], 2>) {
    let extent = y.extent();
    let threads = acc.extent(Grid, Threads);
    for (i, y) in y.each() {
        let position = extent.position_of(i);
        *y = [
            position[0] as u32,
            position[1] as u32,
            extent.number_of(position) as u32,
            threads.number_of(acc.index(Grid, Threads)) as u32,
        ];
    }
}

#[test]
fn runs_numbers() {
    let division = WorkDivision::new([2, 2], [2, 3], [1, 1]).unwrap();
    let mut y = vec![[0; 4]; 24];
    fn view(y: &mut Vec<[u32; 4]>) -> GlobalMut<'_, [u32; 4], 2> {
        GlobalMut::from(y).in_extent([4, 6]).unwrap()
    }
    let module = numbers(view(&mut y)).module().unwrap();
    let arguments = [Argument::view(&y, &[4, 6], &[6, 1])];
    natively(&mut y, |y, way| {
        way.run(numbers(view(y)).prepare(division).unwrap());
    });
    for (i, y) in (0..).zip(&y) {
        assert_eq!(*y, [i / 6, i % 6, i, i]);
    }
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&y, &launch.elements(0));
    });
}

/// Groups of a block, which may wait in their loop, and elements of all threads in as many rounds.
#[kernel(crate = quipu_kernel)]
async fn shares(
    acc: &impl BlockAccelerator<1>,
    groups: Atomics<u32>,
    elements: Atomics<u32>,
    rounds: Atomics<u32>,
    #[shared(1)] votes: SharedAtomics<u32>,
) {
    for group in acc.groups(groups.len()) {
        votes.add(0, 1);
        acc.sync_block_threads().await;
        if acc.once_per_block() {
            groups.add(group, votes.exchange(0, 0));
        }
        acc.sync_block_threads().await;
    }
    for element in acc.uniform_elements(elements.len()) {
        let inside = acc.sync_block_threads_count(element < elements.len()).await;
        rounds.add(0, 1);
        if element < elements.len() {
            elements.add(element, inside as u32);
        }
    }
}

#[test]
fn runs_shares() {
    let (mut groups, mut elements, mut rounds) = (vec![0; 7], vec![0; 29], vec![0]);
    check!(shares => (&mut groups, &mut elements, &mut rounds), division(3, 4, 1));
    assert_eq!(groups, [4; 7], "each group is one block's");
    // Blocks of 4 threads: the last round's have 4 and 1 elements, and none.
    assert_eq!(elements[..28], [4; 28]);
    assert_eq!(elements[28], 1);
    assert_eq!(rounds, [36], "all threads go through three rounds");
}

/// Each block counts itself, and the grid itself.
#[kernel(crate = quipu_kernel)]
fn once(acc: &impl Accelerator<2>, count: Atomics<u32>) {
    if acc.once_per_grid() {
        count.add(0, 1);
    }
    if acc.once_per_block() {
        count.add(1, 1);
    }
    count.add(2, 1);
}

#[test]
fn runs_once() {
    let mut count = vec![0; 3];
    let division = WorkDivision::new([2, 3], [3, 2], [1, 1]).unwrap();
    check!(once => (&mut count), division);
    assert_eq!(count, [1, 6, 36]);
}

/// Steps whose order does not matter, of all threads; and of one thread, what each gives.
macro_rules! steps {
    ($($test:ident, $kernel:ident: $of:ident, $scope:ident, $blocks:literal;)*) => {$(
        #[kernel(crate = quipu_kernel)]
        fn $kernel(
            acc: &impl Accelerator<1>,
            x: &[$of],
            all: Atomics<$of>,
            old: RawMut<[$of; 7]>,
        ) {
            for i in acc.elements(x.len()) {
                all.$scope().add(0, x[i]);
                all.$scope().sub(1, x[i]);
                all.$scope().min(2, x[i]);
                all.$scope().max(3, x[i]);
            }
            if acc.once_per_grid() {
                let own = all.$scope();
                let given = [
                    own.add(4, x[1]),
                    own.sub(4, x[2]),
                    own.min(4, x[3]),
                    own.max(4, x[4]),
                    own.exchange(4, x[5]),
                    own.compare_exchange(4, x[5], x[6]),
                    own.compare_exchange(4, x[5], x[7]),
                ];
                own.store(5, own.load(4) + x[1]);
                // SAFETY: one thread does.
                unsafe { old.write(0, given) };
            }
        }

        #[test]
        fn $test() {
            let x: Vec<$of> = (0..20_u8).map(|i| (i * 7 % 20 + 1) as $of).collect();
            let mut all = [100, 100, 100, 0, 50, 0].map(|number| number as $of).to_vec();
            let mut old = vec![[0 as $of; 7]];
            check!($kernel => (&x, &mut all, &mut old), division($blocks, 10 / $blocks, 2));
            let expected = [310_i64, -110, 1, 20, 3, 11].map(|number| number as $of);
            assert_eq!(all, expected);
            assert_eq!(old[0], [50, 58, 43, 2, 9, 16, 3].map(|number| number as $of));
        }
    )*};
}

steps! {
    steps_of_i32_at_device_scope, device_i32: i32, device, 2;
    steps_of_u32_at_block_scope, block_u32: u32, block, 1;
    steps_of_u32_at_device_scope, device_u32: u32, device, 2;
    steps_of_u32_at_grid_scope, grid_u32: u32, grid, 2;
    steps_of_u32_at_system_scope, system_u32: u32, system, 2;
    steps_of_i64_at_block_scope, block_i64: i64, block, 1;
    steps_of_i64_at_device_scope, device_i64: i64, device, 2;
    steps_of_u64_at_system_scope, system_u64: u64, system, 2;
    steps_of_f32_at_block_scope, block_f32: f32, block, 1;
    steps_of_f32_at_device_scope, device_f32: f32, device, 2;
    steps_of_f64_at_device_scope, device_f64: f64, device, 2;
    steps_of_f64_at_system_scope, system_f64: f64, system, 2;
}

/// Those of integers alone.
macro_rules! bit_steps {
    ($($test:ident, $kernel:ident: $of:ident, $scope:ident, $blocks:literal;)*) => {$(
        #[kernel(crate = quipu_kernel)]
        fn $kernel(acc: &impl Accelerator<1>, x: &[$of], all: Atomics<$of>, old: RawMut<[$of; 3]>) {
            for i in acc.elements(x.len()) {
                all.$scope().and(0, !(x[i] & 6));
                all.$scope().or(1, x[i] << 2);
                all.$scope().xor(2, x[i]);
            }
            if acc.once_per_grid() {
                let own = all.$scope();
                // SAFETY: one thread does.
                unsafe { old.write(0, [own.and(3, x[0]), own.or(3, x[1]), own.xor(3, x[2])]) };
            }
        }

        #[test]
        fn $test() {
            let x: Vec<$of> = vec![1, 2, 4, 8, 16, 32, 65, 7];
            let mut all = vec![!0, 0, 0, 5];
            let mut old = vec![[0; 3]];
            check!($kernel => (&x, &mut all, &mut old), division($blocks, 4 / $blocks, 2));
            assert_eq!(all, [!6, 127 << 2, 63 ^ 65 ^ 7, 7]);
            assert_eq!(old[0], [5, 1, 3]);
        }
    )*};
}

bit_steps! {
    steps_on_bits_of_i32, bits_i32: i32, device, 2;
    steps_on_bits_of_u32, bits_u32: u32, block, 1;
    steps_on_bits_of_i64, bits_i64: i64, system, 2;
    steps_on_bits_of_u64, bits_u64: u64, device, 2;
}

/// Numbers that go round.
#[kernel(crate = quipu_kernel)]
fn rounds(acc: &impl Accelerator<1>, count: usize, all: Atomics<u32>) {
    for _ in acc.elements(count) {
        all.grid().inc(0, 6);
        all.device().dec(1, 6);
        if acc.has_system_scope() {
            all.system().inc(2, 0);
        } else {
            all.inc(2, 0);
        }
    }
}

#[test]
fn steps_go_round() {
    let mut all = vec![0, 0, 5];
    check!(rounds => (20_usize, &mut all), division(2, 5, 2));
    assert_eq!(all, [20 % 7, 1, 0]);
}

/// Elements that one thread changes each.
#[kernel(crate = quipu_kernel)]
fn own_steps(acc: &impl Accelerator<1>, all: Atomics<u32>) {
    let own = all.thread();
    for i in acc.elements(all.len()) {
        own.add(i, 3);
        own.or(i, own.compare_exchange(i, 3, 4));
        own.min(i, i as u32);
    }
}

#[test]
fn steps_of_one_thread() {
    let mut all = vec![0; 20];
    check!(own_steps => (&mut all), division(2, 5, 2));
    let expected: Vec<u32> = (0..20).map(|i| i.min(7)).collect();
    assert_eq!(all, expected);
}

/// Each of the fences, which here order nothing that another thread could see.
#[kernel(crate = quipu_kernel)]
fn fences(acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = i as u32;
        acc.fence_block();
        *y += 1;
        acc.fence_grid();
        *y += 1;
        acc.fence_device();
        *y += 1;
        if acc.has_system_scope() {
            acc.fence_system();
        }
        *y += 1;
    }
}

#[test]
fn runs_fences() {
    let mut y = vec![0; 20];
    check!(fences => (&mut y), division(2, 5, 2));
    assert_eq!(y[3], 7);
    let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
    let module = fences(&mut y).module().unwrap();
    let source = module.print(Dialect::Cuda, &options).unwrap().source;
    for (fence, count) in [
        ("__threadfence_block()", 1),
        ("__threadfence()", 2),
        ("__threadfence_system()", 1),
    ] {
        assert_eq!(source.matches(fence).count(), count, "{source}");
    }
}

/// The words of neighbours in a warp, by those of their lanes: for any size of a warp.
#[kernel(crate = quipu_kernel)]
async fn neighbours(acc: &impl BlockAccelerator<1>, mut y: OwnElements<[u32; 4]>) {
    let (lane, size) = (acc.lane(), acc.warp_size());
    let thread = acc.index(Block, Threads)[0] as u32;
    let up = acc.warp_shuffle_up(thread, 1).await;
    let down = acc.warp_shuffle_down(thread, 1).await;
    let xor = acc.warp_shuffle_xor(thread, 1).await;
    let first = acc.warp_shuffle(thread, 0).await;
    acc.sync_block_threads().await;
    let flipped = if size == 1 { thread } else { thread ^ 1 };
    for (_, y) in y.each() {
        *y = [
            up + (lane > 0) as u32 - thread,
            down - (lane + 1 < size) as u32 - thread,
            xor ^ flipped,
            first + lane - thread,
        ];
    }
}

#[test]
fn runs_neighbours() {
    // As many threads as the largest warp has, so that none is cut off.
    let mut y = vec![[9; 4]; 128];
    check!(neighbours => (&mut y), division(2, 64, 1));
    assert_eq!(y, [[0; 4]; 128]);
}

/// The functions whose results are exact, and so the same everywhere.
#[kernel(crate = quipu_kernel)]
fn exact<T: Float>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[T; 20]>) {
    for (i, y) in y.each() {
        let (a, b, c) = (x[i], x[(i + 1) % x.len()], x[(i + 2) % x.len()]);
        let flag = |holds: bool| if holds { T::ONE } else { T::ZERO };
        *y = [
            a.abs(),
            a.ceil(),
            a.copysign(b),
            a.floor(),
            a.mul_add(b, c),
            a % b,
            flag(a.is_finite()),
            flag(a.is_infinite()),
            flag(a.is_nan()),
            a.greater(b),
            a.lesser(b),
            a.remainder(b),
            a.round(),
            a.round_ties_even(),
            a.sqrt(),
            a.trunc(),
            a.fract(),
            a.recip(),
            a.signum(),
            flag(a.is_sign_negative() && !a.is_nan()),
        ];
    }
}

macro_rules! exact_functions {
    ($($test:ident: $of:ident;)*) => {$(
        #[test]
        fn $test() {
            let x = [
                0.5, -0.5, 1.5, 2.5, -2.5, 0.0, 3.0, -7.25, 1e6, 0.1, -1e-3, $of::MAX,
                $of::MIN_POSITIVE, $of::INFINITY, 8.0, $of::NAN, 4.0, $of::NEG_INFINITY,
            ];
            let x = x.to_vec();
            let mut y = vec![[0.0; 20]; x.len()];
            // A NaN has no sign and bits that anybody promises.
            natively(&mut y, |y, way| {
                way.run(exact::<$of>(&x, y).prepare(division(3, 3, 2)).unwrap());
            });
            assert_eq!(y[0][..6], [0.5, 1.0, -0.5, 0.0, 1.25, 0.0]);
            assert_eq!(y[3][12..16], [3.0, 2.0, $of::sqrt(2.5), 2.0]);
            assert_eq!(y[4][16..], [-0.5, 1.0 / -2.5, -1.0, 1.0]);
            let arguments = [Argument::buffer(&x), Argument::buffer(&y)];
            let module = exact::<$of>(&x, &mut y).module().unwrap();
            run_printed(&module, &division(3, 3, 2), &arguments, &[], |launch| {
                for (native, printed) in y.iter().zip(launch.elements::<[$of; 20]>(1)) {
                    for (native, printed) in native.iter().zip(printed) {
                        let same = native.to_bits() == printed.to_bits();
                        assert!(same || native.is_nan() && printed.is_nan(), "{native} {printed}");
                    }
                }
            });
        }
    )*};
}

exact_functions! {
    exact_functions_of_f32: f32;
    exact_functions_of_f64: f64;
}

/// Bits counted and found.
#[kernel(crate = quipu_kernel)]
fn bits(_acc: &impl Accelerator<1>, x: &[u64], mut y: OwnElements<[u32; 8]>) {
    for (i, y) in y.each() {
        let (wide, narrow) = (x[i], x[i] as u32);
        *y = [
            wide.count_ones(),
            narrow.count_ones(),
            wide.leading_zeros(),
            narrow.leading_zeros(),
            wide.trailing_zeros(),
            narrow.trailing_zeros(),
            wide.find_first_set(),
            narrow.find_first_set(),
        ];
    }
}

#[test]
fn runs_bits() {
    let x = vec![0, 1, 1 << 40, 0xff00, u64::MAX, 1 << 31];
    let mut y = vec![[0; 8]; 6];
    check!(bits => (&x, &mut y), division(2, 3, 1));
    assert_eq!(y[0], [0, 0, 64, 32, 64, 32, 0, 0]);
    assert_eq!(y[2], [1, 0, 23, 32, 40, 32, 41, 0]);
    assert_eq!(y[3], [8, 8, 48, 16, 8, 8, 9, 9]);
}

static TABLE: [u32; 3] = [4, 5, 6];
static NAMED: &[u32] = &[7, 8];
static LARGEST: f32 = 9.0;

/// Statics that nobody can change are constants.
#[kernel(crate = quipu_kernel)]
fn of_statics(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = TABLE[i % 3].pow(TABLE[1] - 3) + TABLE.len() as u32;
        *y += NAMED[1].min(3) + NAMED.len() as u32 + LARGEST.sqrt() as u32;
    }
}

#[test]
fn runs_of_statics() {
    let mut y = vec![0; 12];
    check!(of_statics => (&mut y), division(2, 3, 2));
    assert_eq!(y[..3], [27, 36, 47]);
}

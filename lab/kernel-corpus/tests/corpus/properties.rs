//! Branches on properties of the accelerator: each way to run a kernel takes its own, and printed
//! code has no other.

use super::{check, division, natively};
use quipu_kernel::{Accelerator, Atomics, BlockAccelerator, OwnElements, device, kernel};
use quipu_kernel_ir::print::ElementOrder;
use quipu_kernel_ir::{Dialect, IndexWidth, Module, OpenClFeatures, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch};

const USUAL: Dialect = Dialect::OpenCl(OpenClFeatures::USUAL);

fn printed(module: &Module, dialect: Dialect, elements: ElementOrder) -> String {
    let options = Options {
        elements,
        ..Options::new(dialect, IndexWidth::Bits32)
    };
    module.print(dialect, &options).unwrap().source
}

/// The words among these that are in C99, in OpenCL C for a processor and for a GPU, and in CUDA C.
fn found<const N: usize>(module: &Module, words: [&str; N]) -> [[bool; 4]; N] {
    let sources = [
        printed(module, Dialect::C99, ElementOrder::Contiguous),
        printed(module, USUAL, ElementOrder::Contiguous),
        printed(module, USUAL, ElementOrder::Strided),
        printed(module, Dialect::Cuda, ElementOrder::Strided),
    ];
    words.map(|word| sources.each_ref().map(|source| source.contains(word)))
}

#[device(crate = quipu_kernel)]
fn for_gpus(x: u32) -> u32 {
    x * 3
}

#[device(crate = quipu_kernel)]
fn for_processors(x: u32) -> u32 {
    x + x + x
}

/// The same in both ways.
#[kernel(crate = quipu_kernel)]
fn thrice(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = if acc.is_gpu() {
            for_gpus(x[i])
        } else {
            for_processors(x[i])
        };
    }
}

#[test]
fn runs_thrice() {
    let x: Vec<u32> = (0..60).collect();
    let mut y = vec![0; 60];
    check!(thrice => (&x, &mut y), division(2, 5, 3));
    assert_eq!(y[7], 21);
    let module = thrice(&x, &mut y).module().unwrap();
    let [gpus, processors, branches] = found(&module, ["for_gpus", "for_processors", "else"]);
    assert_eq!(gpus, [false, false, true, true]);
    assert_eq!(processors, [true, true, false, false]);
    assert_eq!(branches, [false; 4]);
}

/// The sum of a block's numbers: by shuffles where there are warps, and one after the other where
/// there are none.
#[kernel(crate = quipu_kernel)]
async fn sum(acc: &impl BlockAccelerator<1>, x: &[u32], total: Atomics<u32>) {
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    if acc.warp_size() > 1 {
        let mut distance = acc.warp_size() / 2;
        while distance > 0 {
            own += acc.warp_shuffle_xor(own, distance).await;
            distance /= 2;
        }
        if acc.lane() == 0 {
            total.add(0, own);
        }
    } else {
        total.add(0, own);
    }
}

#[test]
fn runs_sum() {
    let x: Vec<u32> = (0..256).collect();
    let mut total = vec![0];
    check!(sum => (&x, &mut total), division(2, 64, 2));
    assert_eq!(total, [255 * 128]);
    let module = sum(&x, &mut total).module().unwrap();
    let [shuffles, loops] = found(&module, ["shuffle", "distance"]);
    assert_eq!(shuffles, [false, false, false, true]);
    assert_eq!(loops, [false, false, false, true]);
    // A warp whose size the device decides is asked for it.
    let features = OpenClFeatures {
        subgroups: true,
        subgroup_shuffle: true,
        ..OpenClFeatures::USUAL
    };
    let source = printed(&module, Dialect::OpenCl(features), ElementOrder::Strided);
    assert!(source.contains("get_max_sub_group_size()"), "{source}");
    assert!(source.contains("else"), "{source}");
}

/// Numbers that the accelerator decides, in types that hold less of them.
#[kernel(crate = quipu_kernel)]
fn cut_off(acc: &impl Accelerator<1>, mut y: OwnElements<[u32; 3]>) {
    let large = if acc.is_gpu() { 4_294_967_296_u64 } else { 1 };
    let odd = if acc.is_gpu() { 4_294_967_297_u64 } else { 2 };
    for (_, y) in y.each() {
        let words = if large as u32 == 0 { 1 } else { 2 };
        let indices = if odd as usize == 1 { 3 } else { 4 };
        let back = if odd as u32 as u64 == odd { 5 } else { 6 };
        *y = [words, indices, back];
    }
}

#[test]
fn runs_cut_off() {
    let mut y = vec![[0; 3]; 7];
    check!(cut_off => (&mut y), division(1, 3, 3));
    assert_eq!(y, [[2, 4, 5]; 7]);
    let module = cut_off(&mut y).module().unwrap();
    let written = |elements, width| {
        let options = Options {
            elements,
            keeps_width: true,
            ..Options::new(Dialect::C99, width)
        };
        let printed = module.print(Dialect::C99, &options).unwrap();
        // All of it is decided.
        assert!(!printed.source.contains("else"), "{}", printed.source);
        let program = C99Program::compile(&printed).unwrap();
        let mut launch = Launch::new(Division::new([1], [3], [3]), vec![Argument::buffer(&y)]);
        assert_eq!(program.run(&mut launch).unwrap(), None);
        launch.elements::<[u32; 3]>(0)[6]
    };
    let (contiguous, strided) = (ElementOrder::Contiguous, ElementOrder::Strided);
    assert_eq!(written(contiguous, IndexWidth::Bits32), [2, 4, 5]);
    assert_eq!(written(strided, IndexWidth::Bits32), [1, 3, 6]);
    assert_eq!(written(strided, IndexWidth::Bits64), [1, 4, 6]);
}

/// A kernel that would be refused on some devices, if it did not ask.
#[kernel(crate = quipu_kernel)]
fn asks(acc: &impl Accelerator<1>, total: Atomics<u32>, mut y: OwnElements<u32>) {
    let begin = if acc.has_clock() { acc.clock() } else { 0 };
    for (i, y) in y.each() {
        *y = if acc.has_f64() && !acc.is_gpu() {
            (i as f64 * 0.5) as u32
        } else {
            i as u32 / 2
        };
        if acc.has_system_scope() {
            total.system().add(0, 1);
            acc.fence_system();
        } else {
            total.add(0, 1);
        }
    }
    if acc.has_clock() && acc.clock() < begin {
        total.add(0, 1000);
    }
}

#[test]
fn runs_asks() {
    let (mut total, mut y) = (vec![0], vec![0; 100]);
    check!(asks => (&mut total, &mut y), division(2, 5, 3));
    assert_eq!(total, [100]);
    assert_eq!(y[99], 49);
    let module = asks(&mut total, &mut y).module().unwrap();
    let [doubles, clocks, system] = found(&module, ["double", "clock", "__threadfence_system"]);
    assert_eq!(doubles, [true, true, false, false]);
    assert_eq!(clocks, [true, false, false, true]);
    assert_eq!(system, [false, false, false, true]);
    let without = OpenClFeatures {
        doubles: false,
        ..OpenClFeatures::USUAL
    };
    let source = printed(&module, Dialect::OpenCl(without), ElementOrder::Contiguous);
    assert!(!source.contains("double"), "{source}");
}

/// What is not native is printed, and what is printed is not native.
#[kernel(crate = quipu_kernel)]
async fn natives(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    let mut size = 1;
    if acc.is_native() {
        acc.sync_block_threads().await;
        size = 2;
    }
    for (_, y) in y.each() {
        *y = size;
    }
}

#[test]
fn runs_natives() {
    let mut y = vec![0; 10];
    natively(&mut y, |y, way| {
        way.run(natives(y).prepare(division(1, 5, 2)).unwrap());
    });
    assert_eq!(y, [2; 10]);
    let module = natives(&mut y).module().unwrap();
    let [barriers] = found(&module, ["barrier("]);
    assert_eq!(barriers, [false; 4]);
}

//! The corpus gives its expected results, as C99 and as OpenCL C, in each way it can be printed.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use quipu_kernel_ir::print::{Fault, FaultKind};
use quipu_kernel_ir::{
    BinaryOperation, Dialect, ElementOrder, FunctionBuilder, IndexWidth, Module, ModuleBuilder,
    OpenClFeatures, Options, Origin, Unit,
};
use quipu_kernel_testing::{
    Argument, C99Program, Division, Launch, OpenClProgram, corpus, opencl_or_skip,
};

const OPENCL: Dialect = Dialect::OpenCl(OpenClFeatures::USUAL);

/// Runs a launch in each way, and hands what comes of it to a check.
#[track_caller]
fn everywhere(module: &Module, launch: &Launch, check: impl Fn(&Launch, Option<Fault>, &str)) {
    // Several elements are done at once with indices of 32 bits, in the order that GPUs like.
    for (index_width, elements) in [
        (IndexWidth::Bits32, ElementOrder::Contiguous),
        (IndexWidth::Bits32, ElementOrder::Strided),
        (IndexWidth::Bits64, ElementOrder::Strided),
    ] {
        on_c99(module, launch, index_width, elements, &check);
        if opencl_or_skip() {
            let options = Options {
                elements,
                ..Options::new(OPENCL, index_width)
            };
            let printed = module.print(OPENCL, &options).unwrap();
            let mut launch = launch.clone();
            let program =
                OpenClProgram::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
            let fault = program.run(&mut launch).unwrap();
            let how = format!("OpenCL C, {index_width:?}, {elements:?}");
            check(&launch, fault, &how);
        }
    }
}

fn on_c99(
    module: &Module,
    launch: &Launch,
    index_width: IndexWidth,
    elements: ElementOrder,
    check: &impl Fn(&Launch, Option<Fault>, &str),
) {
    let options = Options {
        elements,
        ..Options::new(Dialect::C99, index_width)
    };
    let printed = module.print(Dialect::C99, &options).unwrap();
    let mut launch = launch.clone();
    let program = C99Program::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
    let fault = program.run(&mut launch).unwrap();
    check(
        &launch,
        fault,
        &format!("C99, {index_width:?}, {elements:?}"),
    );
}

#[test]
fn saxpy() {
    let x: Vec<f32> = (0..100).map(|i| i as f32 * 0.1).collect();
    let y: Vec<f32> = (0..100).map(|i| 1.0 / (i as f32 + 1.0)).collect();
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| y + 2.5 * x).collect();
    let arguments = [
        Argument::uniform(2.5_f32),
        Argument::buffer(&x),
        Argument::buffer(&y),
    ];
    // Threads for each element and more, for not all, several elements each.
    for division in [
        Division::new([4], [32], [1]),
        Division::new([3], [7], [1]),
        Division::new([5], [2], [3]),
        Division::new([1], [1], [1000]),
    ] {
        let launch = Launch::new(division, arguments.clone());
        everywhere(&corpus::saxpy(), &launch, |launch, fault, how| {
            assert_eq!(fault, None, "{how}");
            assert_eq!(launch.elements::<f32>(2), expected, "{how}");
        });
    }
}

#[test]
fn a_bad_read_is_zero_and_recorded() {
    let arguments = [
        Argument::uniform(2.0_f32),
        Argument::buffer(&[1.0_f32; 9]),
        Argument::buffer(&[5.0_f32; 10]),
    ];
    let launch = Launch::new(Division::new([10], [1], [1]), arguments);
    everywhere(&corpus::saxpy(), &launch, |launch, fault, how| {
        let mut expected = [7.0; 10];
        expected[9] = 5.0;
        assert_eq!(launch.elements::<f32>(2), expected, "{how}");
        assert_eq!(
            fault.unwrap().to_string(),
            "read of element 9 of 9, in `saxpy` at src/kernels.rs:4, by thread 9",
            "{how}"
        );
    });
}

#[test]
fn what_has_nothing_to_record() {
    for barriers in [false, true] {
        let launch = Launch::new(
            Division::new([3], [4], [1]),
            [Argument::buffer(&[7_u32, 8, 9, 10, 11])],
        );
        everywhere(
            &corpus::increment(barriers),
            &launch,
            |launch, fault, how| {
                assert_eq!(fault, None, "{how}");
                assert_eq!(launch.elements::<u32>(0), [8, 9, 10, 11, 12], "{how}");
            },
        );
    }
}

#[test]
fn block_sum() {
    let x: Vec<f32> = (0..256).map(|i| (i % 17) as f32).collect();
    let expected: Vec<f32> = x.chunks(32).map(|block| block.iter().sum()).collect();
    let launch = Launch::new(
        Division::new([8], [32], [1]),
        [Argument::buffer(&x), Argument::buffer(&[0.0_f32; 8])],
    )
    .with_shared([32]);
    everywhere(&corpus::block_sum(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<f32>(1), expected, "{how}");
    });
}

#[test]
fn classify() {
    let x = [0, 1, 5, 9, 10, -1, i32::MIN, i32::MAX, 715_827_883];
    let expected: Vec<i32> = x
        .iter()
        .map(|x| match x {
            0 => 10,
            1..=9 => 20,
            &i32::MIN => 30,
            x => (x.wrapping_add(*x)).wrapping_mul(3).wrapping_neg(),
        })
        .collect();
    let launch = Launch::new(
        Division::new([2], [3], [1]),
        [Argument::buffer(&x), Argument::buffer(&[0; 9])],
    );
    everywhere(&corpus::classify(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<i32>(1), expected, "{how}");
    });
}

#[test]
fn transpose() {
    let (rows, columns, pitch) = (5, 7, 9);
    let x: Vec<f32> = (0..columns * rows).map(|i| i as f32).collect();
    let mut expected = vec![-1.0; rows * pitch];
    for i in 0..rows {
        for j in 0..columns {
            expected[i * pitch + j] = x[j * rows + i];
        }
    }
    let (rows, columns, pitch) = (rows as u64, columns as u64, pitch as u64);
    let launch = Launch::new(
        Division::new([3, 3], [2, 1], [1, 2]),
        [
            Argument::view(&x, &[columns, rows], &[rows, 1]),
            Argument::view(
                &vec![-1.0_f32; expected.len()],
                &[rows, columns],
                &[pitch, 1],
            ),
        ],
    );
    everywhere(&corpus::transpose(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<f32>(1), expected, "{how}");
    });
}

#[test]
fn four_dimensions() {
    let extents = [3, 4, 5, 6];
    let count = extents.iter().product::<u64>();
    let division = Division::new([2, 3, 1, 3], [2, 1, 2, 2], [1, 1, 1, 1]);
    let threads = 18 * 8;
    let launch = Launch::new(
        division,
        [
            Argument::view(&vec![0_u32; count as usize], &extents, &[120, 30, 6, 1]),
            Argument::buffer(&vec![9999_u32; threads]),
        ],
    );
    everywhere(&corpus::four_dimensions(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        let expected: Vec<u32> = (0..count as u32).map(|i| i + 1).collect();
        assert_eq!(launch.elements::<u32>(0), expected, "{how}");
        let expected: Vec<u32> = (0..threads as u32).collect();
        assert_eq!(launch.elements::<u32>(1), expected, "{how}");
    });
}

#[test]
fn points() {
    fn bytes(points: &[([f32; 2], bool, u8, u16)]) -> Vec<[u8; 12]> {
        points
            .iter()
            .map(|(position, flag, kind, count)| {
                let mut all = Vec::new();
                position
                    .iter()
                    .for_each(|x| all.extend_from_slice(&x.to_ne_bytes()));
                all.extend([u8::from(*flag), *kind]);
                all.extend_from_slice(&count.to_ne_bytes());
                all.try_into().unwrap()
            })
            .collect()
    }
    let old = [
        ([1.0, 2.0], true, 255, 3),
        ([-1.5, 0.0], false, 7, 65535),
        ([0.25, 1e30], true, 0, 256),
    ];
    let new = old.map(|([x, y], flag, kind, count): ([f32; 2], bool, u8, u16)| {
        (
            [x + 0.5, y - 3.0],
            !flag,
            kind.wrapping_add(1),
            count.wrapping_mul(count),
        )
    });
    let launch = Launch::new(
        Division::new([1], [2], [1]),
        [
            Argument::buffer(&bytes(&old)),
            Argument::uniform([0.5_f32, -3.0]),
        ],
    );
    everywhere(&corpus::points(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        let found: Vec<[u8; 12]> = launch.elements(0);
        assert_eq!(found, bytes(&new), "{how}");
    });
}

/// The results of `corpus::labels`, in Rust.
fn labels_natively(i: u32) -> u32 {
    let mut sum = 0;
    'outer: for outer in 0..i {
        if outer == 7 {
            break;
        }
        for inner in 0..10 {
            let product = outer * inner;
            if product % 3 == 1 {
                continue;
            }
            if product > 24 {
                continue 'outer;
            }
            if sum > 200 {
                break 'outer;
            }
            sum += product + 1;
        }
        sum += 100;
    }
    let mut counter = 0;
    while counter <= 30 {
        if counter % 2 == 0 {
            sum ^= counter;
        }
        counter += if counter > 10 { 2 } else { 1 };
    }
    sum
}

#[test]
fn labels() {
    let launch = Launch::new(
        Division::new([1], [1], [1]),
        [Argument::buffer(&[9999_u32; 50])],
    );
    // One thread, as it leaves its element loop.
    everywhere(&corpus::labels(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        let expected: Vec<u32> = (0..50)
            .map(|i| match i {
                5 | 41.. => 9999,
                _ => labels_natively(i),
            })
            .collect();
        assert_eq!(launch.elements::<u32>(0), expected, "{how}");
    });
}

#[test]
fn leaves() {
    let x: Vec<u32> = (0..21).map(|i| i * i * 3).collect();
    let expected: Vec<u32> = x
        .iter()
        .map(|x| (0..*x).find(|i| i * i >= *x).unwrap_or(*x))
        .collect();
    let launch = Launch::new(
        Division::new([4], [8], [1]),
        [Argument::buffer(&x), Argument::buffer(&[0_u32; 21])],
    );
    everywhere(&corpus::leaves(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<u32>(1), expected, "{how}");
    });
}

#[test]
fn histogram() {
    let x: Vec<u32> = (0..64).map(|i| i * 7 % 13).collect();
    let mut counts = [0_u32; 25];
    let mut others = [0, 100, 3, -3, -1, 1, 5];
    let mut wide = [0_u64, 100, 3, 5, u64::MAX, 1, 5];
    let (start_counts, start_others, start_wide) = (counts, others, wide);
    for &element in &x {
        counts[element as usize] += 1;
        let signed = element as i32 - 4;
        others[0] += signed;
        others[1] -= signed;
        others[2] = others[2].min(signed);
        others[3] = others[3].max(signed);
        others[4] &= signed;
        others[5] |= signed;
        others[6] ^= signed;
        let long = u64::from(element);
        wide[0] = wide[0].wrapping_add(long);
        wide[1] = wide[1].wrapping_sub(long);
        wide[2] = wide[2].min(long);
        wide[3] = wide[3].max(long);
        wide[4] &= long;
        wide[5] |= long;
        wide[6] ^= long;
        counts[20] = if counts[20] >= 9 { 0 } else { counts[20] + 1 };
        counts[21] = if counts[21] == 0 || counts[21] > 9 {
            9
        } else {
            counts[21] - 1
        };
        counts[22] = counts[22].max(element);
        counts[23] = 9;
        counts[24] += 1;
    }
    let sum = x.iter().sum::<u32>();
    let launch = Launch::new(
        Division::new([4], [4], [1]),
        [
            Argument::buffer(&x),
            Argument::buffer(&start_counts),
            Argument::buffer(&start_others),
            Argument::buffer(&start_wide),
            Argument::buffer(&[0.0_f32; 3]),
            Argument::buffer(&[0.5_f64; 1]),
        ],
    );
    everywhere(&corpus::histogram(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<u32>(1), counts, "{how}");
        assert_eq!(launch.elements::<i32>(2), others, "{how}");
        assert_eq!(launch.elements::<u64>(3), wide, "{how}");
        assert_eq!(launch.elements::<f32>(4), [sum as f32, 2.5, 2.5], "{how}");
        assert_eq!(launch.elements::<f64>(5), [f64::from(sum) + 0.5], "{how}");
    });
}

#[test]
fn copies() {
    let launch = Launch::new(
        Division::new([2], [3], [1]),
        [
            Argument::buffer(&[1_u32, 2, 3, 4, 5, u32::MAX, 0, 0, 0, 0, 0, 0]),
            Argument::buffer(&[1_i64, 2, 3, 4, 5, i64::MIN, 0, 0, 0, 0, 0, 0]),
            Argument::buffer(&[
                1_f32, 2.0, 3.0, -0.0, 5.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
            ]),
            Argument::buffer(&[
                1_f64, 2.0, 3.0, -0.0, 5.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
            ]),
        ],
    );
    everywhere(&corpus::copies(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        for argument in 0..4 {
            let Argument::Elements { bytes, .. } = &launch.arguments[argument] else {
                panic!("argument {argument} is a buffer");
            };
            let (from, to) = bytes.split_at(bytes.len() / 2);
            assert_eq!(from, to, "{how}: argument {argument}");
        }
    });
}

#[test]
fn a_store_in_one_step_out_of_bounds_is_dropped() {
    let launch = Launch::new(
        Division::new([1], [1], [1]),
        [
            Argument::buffer(&[7_u32]),
            Argument::buffer(&[7_i64, 0]),
            Argument::buffer(&[7_f32, 0.0]),
            Argument::buffer(&[7_f64, 0.0]),
        ],
    );
    everywhere(&corpus::copies(), &launch, |launch, fault, how| {
        assert!(fault.is_some(), "{how}");
        assert_eq!(launch.elements::<u32>(0), [7], "{how}");
        assert_eq!(launch.elements::<i64>(1), [7, 7], "{how}");
    });
}

#[test]
fn count() {
    let x: Vec<i32> = (0..40).map(|i| i * 5 % 11 - 4).collect();
    let mut expected = Vec::new();
    for block in x.chunks(10) {
        let positive = block.iter().filter(|x| **x > 0).count() as u32;
        let negative = block.iter().filter(|x| **x < 0).count() as u32;
        expected.extend(vec![100 * positive + negative; 10]);
    }
    let launch = Launch::new(
        Division::new([4], [10], [1]),
        [Argument::buffer(&x), Argument::buffer(&[0_u32; 40])],
    );
    everywhere(&corpus::count(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<u32>(1), expected, "{how}");
    });
}

#[test]
fn a_divergent_barrier_is_a_fault_in_c99() {
    let launch = Launch::new(
        Division::new([2], [4], [1]),
        [Argument::buffer(&[0_u32; 1])],
    );
    let (width, order) = (IndexWidth::Bits32, ElementOrder::Contiguous);
    on_c99(
        &corpus::divergent(),
        &launch,
        width,
        order,
        &|_, fault, _| {
            assert_eq!(
                fault.unwrap().to_string(),
                "a barrier that not every thread of the block came to, in `divergent` at src/kernels.rs:50, by thread 1"
            );
        },
    );
}

#[test]
fn threads_at_different_barriers_are_a_fault_in_c99() {
    // Odd threads come to one barrier, even ones to another; and odd ones to one that even ones end
    // before.
    for ends in [false, true] {
        let mut f = FunctionBuilder::new("apart");
        let thread = f.index(Origin::Block, Unit::Threads, 0);
        let one = f.index_literal(1);
        let odd = f.binary(BinaryOperation::And, thread, one);
        let odd = f.binary(BinaryOperation::Equal, odd, one);
        let odd = f.assume_uniform(odd);
        f.at(corpus::line(51));
        f.if_else(odd, FunctionBuilder::barrier, |f| {
            if ends {
                f.leave(None);
            } else {
                f.barrier();
            }
        });
        let module = ModuleBuilder::new().finish(f.kernel(1));
        let launch = Launch::new(Division::new([2], [4], [1]), []);
        let (width, order) = (IndexWidth::Bits64, ElementOrder::Contiguous);
        on_c99(&module, &launch, width, order, &|_, fault, _| {
            assert_eq!(fault.unwrap().site.kind, FaultKind::Divergence, "{ends}");
        });
    }
}

#[test]
fn slices() {
    let x: Vec<u32> = (0..8).map(|i| 1 << i).collect();
    let launch = |start, end| {
        Launch::new(
            Division::new([1], [1], [1]),
            [
                Argument::buffer(&x),
                Argument::buffer(&[0_u32; 10]),
                Argument::index(start),
                Argument::index(end),
            ],
        )
    };
    everywhere(&corpus::slices(), &launch(2, 5), |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        let found = launch.elements::<u32>(1);
        assert_eq!(found, [3, 28, 2, 255, 7, 349, 7, 0, 5, 4], "{how}");
    });
    everywhere(&corpus::slices(), &launch(5, 9), |launch, fault, how| {
        let fault = fault.unwrap();
        assert_eq!(fault.site.kind, FaultKind::Range, "{how}");
        assert_eq!((fault.index, fault.length), (5, 9), "{how}");
        assert_eq!(launch.elements::<u32>(1)[..2], [0, 0], "{how}");
    });
}

#[test]
fn loops_whose_checks_are_done_before() {
    let x: Vec<u32> = (10..18).collect();
    let launch = |[count, stride, first]: [u64; 3]| {
        Launch::new(
            Division::new([1], [1], [1]),
            [
                Argument::buffer(&x),
                Argument::buffer(&[1_u32; 6]),
                Argument::index(count),
                Argument::index(stride),
                Argument::index(first),
            ],
        )
    };
    let module = corpus::gather();
    everywhere(&module, &launch([4, 2, 1]), |launch, fault, how| {
        let y = launch.elements::<u32>(1);
        assert_eq!(fault, None, "{how}");
        assert_eq!(y, [11, 13, 15, 17, 1, 1], "{how}");
    });
    everywhere(
        &module,
        &launch([0, u64::from(u32::MAX), u64::from(u32::MAX)]),
        |launch, fault, how| {
            let y = launch.elements::<u32>(1);
            assert_eq!(fault, None, "{how}");
            assert_eq!(y, [1; 6], "{how}");
        },
    );
    // The last round is outside: those before are as they were, and the fault is where it was.
    everywhere(&module, &launch([5, 2, 1]), |launch, fault, how| {
        let y = launch.elements::<u32>(1);
        let fault = fault.unwrap();
        assert_eq!(
            (fault.site.kind, fault.index),
            (FaultKind::Read, 9),
            "{how}"
        );
        assert_eq!(y, [11, 13, 15, 17, 0, 1], "{how}");
    });
    everywhere(&module, &launch([7, 1, 0]), |launch, fault, how| {
        let y = launch.elements::<u32>(1);
        let fault = fault.unwrap();
        assert_eq!(
            (fault.site.kind, fault.index),
            (FaultKind::Write, 6),
            "{how}"
        );
        assert_eq!(y, [10, 11, 12, 13, 14, 15], "{how}");
    });
    // What wraps around to where it would be inside is not taken for it.
    everywhere(&module, &launch([3, 1 << 31, 0]), |launch, fault, how| {
        let y = launch.elements::<u32>(1);
        let fault = fault.unwrap();
        assert_eq!(
            (fault.site.kind, fault.index),
            (FaultKind::Read, 1 << 31),
            "{how}"
        );
        assert_eq!(y[..2], [10, 0], "{how}");
    });
    everywhere(
        &module,
        &launch([2, 1, u64::from(u32::MAX)]),
        |launch, fault, how| {
            let y = launch.elements::<u32>(1);
            let fault = fault.unwrap();
            assert_eq!(fault.index, u64::from(u32::MAX), "{how}");
            assert_eq!(y[0], 0, "{how}");
        },
    );
}

#[test]
fn a_loop_is_written_twice_if_that_spares_checks() {
    let checks = |width, checked| {
        let options = Options {
            checked,
            ..Options::new(Dialect::Cuda, width)
        };
        let printed = corpus::gather().print(Dialect::Cuda, &options).unwrap();
        let count = |what: &str| printed.source.matches(what).count();
        (count("for (; "), count("quipu_in(quipu, "))
    };
    // Bounds of 64 bits cannot be computed without leaving them.
    assert_eq!(checks(IndexWidth::Bits32, true), (2, 2));
    assert_eq!(checks(IndexWidth::Bits64, true), (1, 2));
    assert_eq!(checks(IndexWidth::Bits32, false), (1, 0));
}

#[test]
fn order() {
    let launch = Launch::new(
        Division::new([1], [1], [1]),
        [Argument::buffer(&[0_u32; 8])],
    );
    everywhere(&corpus::order(), &launch, |launch, fault, how| {
        let minus_ten = 10_u32.wrapping_neg();
        let expected = [2, 7, minus_ten.wrapping_add(7), 21, 122, 0, 10, 0];
        assert_eq!(launch.elements::<u32>(0), expected, "{how}");
        let fault = fault.unwrap();
        assert_eq!(fault.site.location, corpus::line(70), "{how}: {fault}");
    });
}

#[test]
fn checks() {
    let messages = [
        "read of element 18446744073709551615 of 4, in `checks` at src/kernels.rs:80, by thread 0",
        "write of element 4 of 4, in `checks` at src/kernels.rs:81, by thread 0",
        "range 3..2 outside of the slice, in `checks` at src/kernels.rs:82, by thread 0",
        "division by zero, in `checks` at src/kernels.rs:83, by thread 0",
        "division of the smallest number by -1, in `checks` at src/kernels.rs:84, by thread 0",
        "assertion failed: an element differs from itself, in `checks` at src/kernels.rs:85, by thread 0",
        "write of element 4294967296 of 4, in `checks` at src/kernels.rs:86, by thread 0",
    ];
    for (what, message) in messages.iter().enumerate() {
        let launch = Launch::new(
            Division::new([1], [1], [1]),
            [
                Argument::uniform(what as u32),
                Argument::buffer(&[5, 6, 7, 0]),
                Argument::buffer(&[9; 4]),
            ],
        );
        everywhere(&corpus::checks(), &launch, |launch, fault, how| {
            assert_eq!(fault.unwrap().to_string(), *message, "{how}");
            let first = match what {
                1 => 9,
                5 => 1,
                _ => 0,
            };
            assert_eq!(launch.elements::<i32>(2), [first, 9, 9, 9], "{how}");
        });
    }
}

#[test]
fn primes() {
    let expected: Vec<u8> = (0..64_u8)
        .map(|n| (2..n).filter(|i| (2..*i).all(|d| i % d != 0)).count() as u8)
        .collect();
    let launch = Launch::new(
        Division::new([4], [4], [1]),
        [Argument::buffer(&[0_u8; 64])],
    );
    everywhere(&corpus::primes(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<u8>(0), expected, "{how}");
    });
}

#[test]
fn warps_of_one_thread() {
    let launch = Launch::new(
        Division::new([2], [2], [1]),
        [Argument::buffer(&[0_u32; 36])],
    );
    let (width, order) = (IndexWidth::Bits32, ElementOrder::Contiguous);
    on_c99(
        &corpus::warps(),
        &launch,
        width,
        order,
        &|launch, fault, how| {
            assert_eq!(fault, None, "{how}");
            let expected: Vec<u32> = (0..4)
                .flat_map(|n| {
                    let odd = n % 2;
                    [1, 0, odd, odd, odd ^ 1, n, n, n, n + odd]
                })
                .collect();
            assert_eq!(launch.elements::<u32>(0), expected);
        },
    );
}

#[test]
fn words() {
    let launch = Launch::new(
        Division::new([2], [2], [1]),
        [Argument::buffer(&[4.0_f32, 9.0, 16.0])],
    );
    everywhere(&corpus::words(), &launch, |launch, fault, how| {
        assert_eq!(fault, None, "{how}");
        assert_eq!(launch.elements::<f32>(0), [0.0, 3.0, 8.0], "{how}");
    });
}

#[test]
fn unchecked_kernels_have_no_checks() {
    for dialect in [Dialect::C99, OPENCL, Dialect::Cuda] {
        let options = Options {
            checked: false,
            ..Options::new(dialect, IndexWidth::Bits32)
        };
        let printed = corpus::block_sum().print(dialect, &options).unwrap();
        assert!(!printed.source.contains("quipu_in"), "{}", printed.source);
        assert_eq!(
            printed
                .sites
                .iter()
                .filter(|s| s.kind == FaultKind::Read)
                .count(),
            0
        );
    }
    // They still run, and divide by zero without a trap.
    let options = Options {
        checked: false,
        ..Options::new(Dialect::C99, IndexWidth::Bits64)
    };
    let printed = corpus::checks().print(Dialect::C99, &options).unwrap();
    for what in [3_u32, 4] {
        let mut launch = Launch::new(
            Division::new([1], [1], [1]),
            [
                Argument::uniform(what),
                Argument::buffer(&[5, 6, 7, 0]),
                Argument::buffer(&[9; 4]),
            ],
        );
        let fault = C99Program::compile(&printed)
            .unwrap()
            .run(&mut launch)
            .unwrap();
        assert_eq!(fault, None);
        assert_eq!(launch.elements::<i32>(2), [0, 9, 9, 9]);
    }
}

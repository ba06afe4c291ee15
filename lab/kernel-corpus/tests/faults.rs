//! Mistakes that fail a launch. Each is made by one thread, and fails natively in every mode, and
//! printed, at the same line. A method of the language is in one of these kernels, or in the list
//! of those that give something for all arguments.

#![allow(
    clippy::unwrap_used,
    clippy::identity_op,
    clippy::erasing_op,
    clippy::reversed_empty_ranges,
    clippy::unnecessary_literal_unwrap,
    clippy::manual_div_ceil,
    clippy::style,
    clippy::complexity,
    reason = "an unwrap is an assertion, and all that is wrong here is meant"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use quipu_kernel::{
    Accelerator, Atomics, BlockScratch, Execution, Extent, GlobalMut, GlobalRef, Grid, KernelError,
    OwnElements, OwnTile, RawMut, RunOptions, Threads, WorkDivision, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Module, OpenClFeatures, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch, OpenClProgram, opencl_or_skip};

/// Methods of the language that give something for all arguments.
const NEVER: &str = "
    abs_diff acos acosh all and_then any asin asinh assume_uniform atan atan2 atanh block
    block_index cast cbrt ceil checked_abs checked_add checked_div checked_mul checked_neg
    checked_rem checked_shl checked_shr checked_sub clock cloned cmp components contains copied
    copysign cos cosh count_ones count_zeros device distance each elements enumerate erf err exp
    exp2 exp_m1 extent fence_block fence_block_acquire fence_block_release fence_device
    fence_device_acquire fence_device_release fence_grid fence_system fence_system_acquire
    fence_system_release fill filter find find_first_set first floor fold for_each fract get
    greater grid groups has_clock has_device_fence has_f64 has_grid_barrier has_system_scope
    hypot index into_raw is_empty is_eq is_err is_finite is_ge is_gpu is_gt is_infinite is_le
    is_lt is_multiple_of is_nan is_native is_ne is_negative is_none is_none_or is_ok is_positive
    is_power_of_two is_sign_negative is_sign_positive is_some is_some_and iter iter_mut lane
    last leading_ones leading_zeros len lesser ln ln_1p log log10 log2 map map_err map_or
    map_or_else max_by max_by_key min_by min_by_key mul_add mul_high number_of ok ok_or
    once_per_block once_per_grid or_else overflowing_abs overflowing_add overflowing_mul
    overflowing_neg overflowing_shl overflowing_shr overflowing_sub own own_range partial_cmp
    position powf powi range recip remainder rev reverse reverse_bits rotate_left rotate_right
    round round_ties_even row_mut rows rsqrt saturating_abs saturating_add saturating_mul
    saturating_neg saturating_sub signum sin sin_cos sinh skip sqrt start swap_bytes sync
    sync_block_threads sync_block_threads_and sync_block_threads_count sync_block_threads_or
    sync_grid_threads system take tan tanh then then_some thread thread_index to_be to_be_bytes
    to_bits to_degrees to_f32 to_f64 to_le to_le_bytes to_ne_bytes to_radians total_cmp
    trailing_ones trailing_zeros trunc uniform_elements unsigned_abs unwrap_or unwrap_or_default
    unwrap_or_else warp_active_mask warp_all warp_any warp_ballot warp_shuffle warp_shuffle_down
    warp_shuffle_up warp_shuffle_xor warp_size wrapping_abs wrapping_add wrapping_mul
    wrapping_neg wrapping_pow wrapping_shl wrapping_shr wrapping_sub zip zip_behind
";

/// Faults that std's own code may find natively: it names no line of the caller.
const IN_STD: &[&str] = &[
    "clamp, NaN",
    "next_multiple_of",
    "step_by",
    "wrapping_div",
    "wrapping_rem",
];

/// Methods whose results may be too large for their type. Such a result wraps around, and is an
/// error where rustc checks for overflow.
const OVERFLOW: &[&str] = &["abs", "pow", "next_power_of_two", "product", "sum"];

#[kernel(crate = quipu_kernel)]
fn numbers(_acc: &impl Accelerator<1>, how: u32, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        if i == 9 {
            let (none, one, least) = (x[0], x[1], x[1].wrapping_add(i32::MAX));
            let unsigned = none as u32;
            *y = match how {
                0 => one / none,                                        // fault: the operator `/`
                1 => one % none,                                        // fault: the operator `%`
                2 => least / -one,           // fault: the operator `/`, beyond
                3 => least % -one,           // fault: the operator `%`, beyond
                4 => one.div_euclid(none),   // fault: div_euclid
                5 => least.div_euclid(-one), // fault: div_euclid, beyond
                6 => one.rem_euclid(none),   // fault: rem_euclid
                7 => least.rem_euclid(-one), // fault: rem_euclid, beyond
                8 => 5_u32.div_euclid(unsigned) as i32, // fault: div_euclid, unsigned
                9 => 5_u32.rem_euclid(unsigned) as i32, // fault: rem_euclid, unsigned
                10 => 5_u32.div_ceil(unsigned) as i32, // fault: div_ceil
                11 => 5_u32.next_multiple_of(unsigned) as i32, // fault: next_multiple_of
                12 => one.wrapping_div(none), // fault: wrapping_div
                13 => one.wrapping_rem(none), // fault: wrapping_rem
                14 => none.ilog2() as i32,   // fault: ilog2
                15 => (-one).ilog2() as i32, // fault: ilog2, below
                16 => (none as u64).ilog2() as i32, // fault: ilog2, wide
                17 => (-one).isqrt(),        // fault: isqrt
                18 => (-one as i64).isqrt() as i32, // fault: isqrt, wide
                19 => none.clamp(one, -one), // fault: clamp
                20 => (none as f32).clamp(f32::NAN, one as f32) as i32, // fault: clamp, NaN
                21 => ((one as u8) / (none as u8)) as i32, // fault: the operator `/`, narrow
                22 => ((one as i64) % (none as i64)) as i32, // fault: the operator `%`, wide
                _ => {
                    let mut own = least;
                    own /= -one; // fault: the operator `/=`
                    own
                }
            };
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn slices(_acc: &impl Accelerator<1>, how: u32, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        if i == 9 {
            let (none, far) = (x[0] as usize, x[11] as usize + 2);
            let mut own = [1, 2, 3];
            if how == 0 {
                own[0] = x[far]; // fault: an index
            } else if how == 1 {
                own[far] = 1; // fault: an index, written
            } else if how == 2 {
                own[0] = x[far..].len() as i32; // fault: a range, from
            } else if how == 3 {
                own[0] = x[..far].len() as i32; // fault: a range, to
            } else if how == 4 {
                own[0] = x[far - 10..none + 2].len() as i32; // fault: a range, backward
            } else if how == 5 {
                own[0] = x[..=far - 1].len() as i32; // fault: a range, inclusive
            } else if how == 6 {
                own.swap(0, far); // fault: swap
            } else if how == 7 {
                own.swap(far, 0); // fault: swap, first
            } else if how == 8 {
                own.copy_from_slice(&x[..none + 2]); // fault: copy_from_slice
            } else if how == 9 {
                own.clone_from_slice(&x[..none + 4]); // fault: clone_from_slice
            } else if how == 10 {
                let (a, b) = x.split_at(far); // fault: split_at
                own[0] = (a.len() + b.len()) as i32;
            } else if how == 11 {
                let (a, b) = own.split_at_mut(far); // fault: split_at_mut
                a[0] = b.len() as i32;
            } else if how == 12 {
                let parts = x.windows(none); // fault: windows
                for part in parts {
                    own[0] += part[0];
                }
            } else if how == 13 {
                let parts = x.chunks(none); // fault: chunks
                for part in parts {
                    own[0] += part[0];
                }
            } else if how == 14 {
                let _ = x.chunks_exact(none); // fault: chunks_exact
            } else if how == 15 {
                own[0] = x.iter().step_by(none).copied().sum::<i32>(); // fault: step_by
            } else if how == 16 {
                own[0] = x.iter().map(|x| x + 1).fold(0, |a, b| a + b) + x[far]; // fault: an index, behind
            } else if how == 17 {
                let part: [i32; 3] = x[..none + 2].try_into().unwrap(); // fault: try_into_unwrap
                own = part;
            } else if how == 18 {
                let part: [i32; 3] = x[..none + 4].try_into().expect("three"); // fault: try_into, expect
                own = part;
            } else if how == 19 {
                own[0] = x.get(far).copied().unwrap(); // fault: unwrap
            } else if how == 20 {
                own[0] = *x[..none].first().expect("one element"); // fault: expect
            } else if how == 21 {
                let parts: Result<i32, u32> = x.last().copied().filter(|x| *x < 5).ok_or(3);
                own[0] = parts.unwrap(); // fault: unwrap, of a result
            } else if how == 22 {
                let parts: Result<i32, u32> = x.last().copied().filter(|x| *x < 5).ok_or(3);
                own[0] = parts.expect("a small number"); // fault: expect, of a result
            } else if how == 23 {
                own[0] = x[..none].iter().copied().max().unwrap(); // fault: unwrap, of a search
            } else if how == 24 {
                assert!(x[11] < 5, "small"); // fault: assert
            } else {
                assert_ne!(x[11], 11); // fault: assert_ne
            }
            *y = own[0];
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn handles(
    _acc: &impl Accelerator<1>,
    how: u32,
    x: &[i32],
    raw: RawMut<i32>,
    counts: Atomics<i32>,
    words: Atomics<u32>,
    mut y: OwnElements<i32>,
) {
    for (i, y) in y.each() {
        if i == 9 {
            let (none, far) = (x[0] as usize, x[11] as usize + 2);
            if how == 0 {
                // SAFETY: the check comes first.
                *y = unsafe { raw.read(far) }; // fault: read
            } else if how == 1 {
                // SAFETY: the check comes first.
                unsafe { raw.write(far, 1) }; // fault: write
            } else if how == 2 {
                // SAFETY: the check comes first.
                *y = unsafe { raw.slice(2..far) }.len() as i32; // fault: slice
            } else if how == 3 {
                // SAFETY: the check comes first.
                let part = unsafe { raw.slice_mut(2..none + 1) }; // fault: slice_mut
                part[0] = 1;
            } else if how == 4 {
                counts.add(far, 1); // fault: add
            } else if how == 5 {
                counts.store(far, 1); // fault: store
            } else if how == 6 {
                *y = counts.load(far); // fault: load
            } else if how == 7 {
                *y = counts.compare_exchange(far, 1, 2); // fault: compare_exchange
            } else if how == 8 {
                *y = counts.exchange(far, 1); // fault: exchange
            } else if how == 9 {
                counts.sub(far, 1); // fault: sub
            } else if how == 10 {
                counts.and(far, 1); // fault: and
            } else if how == 11 {
                counts.or(far, 1); // fault: or
            } else if how == 12 {
                counts.xor(far, 1); // fault: xor
            } else if how == 13 {
                counts.min(far, 1); // fault: min
            } else if how == 14 {
                counts.max(far, 1); // fault: max
            } else if how == 15 {
                words.inc(far, 1); // fault: inc
            } else if how == 16 {
                words.dec(far, 1); // fault: dec
            } else {
                let empty = Extent::new([3, none]);
                *y = empty.position_of(5)[0] as i32; // fault: position_of
            }
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn tiles(acc: &impl Accelerator<2>, how: u32, x: GlobalRef<i32, 2>, mut tile: OwnTile<i32, 2>) {
    if acc.index(Grid, Threads)[1] == 4 {
        let far = x[[0, 2]] as usize;
        if how == 0 {
            tile[[0, 0]] = x[[far - 1, far]]; // fault: an index of a view
        } else {
            tile[[0, far]] = 1; // fault: an index of a tile
        }
    }
}

fn natively() -> impl Iterator<Item = BlockScratch> {
    let executions = [
        Execution::Native,
        Execution::Lockstep { warp_size: 4 },
        Execution::OsThreads { warp_size: 1 },
    ];
    executions.into_iter().map(|execution| {
        let mut options = RunOptions::new();
        (options.check, options.execution) = (true, execution);
        BlockScratch::with_options(options)
    })
}

/// The lines of a kernel's mistakes, in order, with their names.
fn marks(kernel: &str) -> Vec<(u32, &'static str)> {
    let begin = format!("fn {kernel}(");
    let lines = include_str!("faults.rs").lines().zip(1..);
    let of_kernel = lines.skip_while(|(line, _)| !line.starts_with(&begin));
    let of_kernel = of_kernel.take_while(|(line, _)| *line != "}");
    of_kernel
        .filter_map(|(line, number)| Some((number, line.split_once("// fault: ")?.1)))
        .collect()
}

/// Launches a kernel with each of its mistakes, by number: all ways to run it name the line.
fn check(
    kernel: &str,
    module: &Module,
    arguments: impl Fn(u32) -> Vec<Argument>,
    mut run: impl FnMut(u32, &mut BlockScratch) -> Result<(), KernelError>,
) {
    let print = |dialect| {
        let options = Options::new(dialect, IndexWidth::Bits32);
        module.print(dialect, &options).unwrap()
    };
    let c99 = C99Program::compile(&print(Dialect::C99)).unwrap();
    let opencl = opencl_or_skip().then(|| {
        let printed = print(Dialect::OpenCl(OpenClFeatures::USUAL));
        OpenClProgram::compile(&printed).unwrap()
    });
    let is_flat = kernel == "tiles";
    let mut wrong = Vec::new();
    for (how, (line, mark)) in (0..).zip(marks(kernel)) {
        for mut scratch in natively() {
            let place = format!("faults.rs:{line}:");
            match run(how, &mut scratch) {
                Err(KernelError::Panicked {
                    group: 1,
                    thread: 1,
                    place: at,
                    ..
                }) if at.contains(&place)
                    || IN_STD.contains(&mark) && at.contains("/core/src/") => {}
                other => wrong.push(format!("{mark}, {scratch:?}: {other:?}")),
            }
        }
        let launch = || match is_flat {
            false => Launch::new(Division::new([2], [3], [2]), arguments(how)),
            true => Launch::new(Division::new([1, 2], [1, 3], [1, 2]), arguments(how)),
        };
        let mut printed = vec![("C99", c99.run(&mut launch()).unwrap())];
        if let Some(program) = &opencl {
            printed.push(("OpenCL C", program.run(&mut launch()).unwrap()));
        }
        for (dialect, fault) in printed {
            let at = fault.as_ref().and_then(|fault| fault.site.location);
            if at.is_none_or(|at| at.line != line || !at.file.ends_with("faults.rs")) {
                wrong.push(format!("{mark}, {dialect}: {fault:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn division() -> WorkDivision<1> {
    WorkDivision::new(2, 3, 2).unwrap()
}

fn numbered() -> Vec<i32> {
    (0..12).collect()
}

#[test]
fn numbers_fail_alike_everywhere() {
    let x = numbered();
    let module = numbers(0, &x, &mut vec![0; 12]).module().unwrap();
    let arguments = |how: u32| {
        vec![
            Argument::uniform(how),
            Argument::buffer(&x),
            Argument::buffer(&[0; 12]),
        ]
    };
    check("numbers", &module, arguments, |how, scratch| {
        numbers(how, &x, &mut vec![0; 12]).run_in(division(), scratch)
    });
}

#[test]
fn slices_fail_alike_everywhere() {
    let x = numbered();
    let module = slices(0, &x, &mut vec![0; 12]).module().unwrap();
    let arguments = |how: u32| {
        vec![
            Argument::uniform(how),
            Argument::buffer(&x),
            Argument::buffer(&[0; 12]),
        ]
    };
    check("slices", &module, arguments, |how, scratch| {
        slices(how, &x, &mut vec![0; 12]).run_in(division(), scratch)
    });
}

#[test]
fn handles_fail_alike_everywhere() {
    let x = numbered();
    let new = || vec![0; 12];
    let module = handles(0, &x, &mut new(), &mut new(), &mut vec![0; 12], &mut new())
        .module()
        .unwrap();
    let arguments = |how: u32| {
        let outputs = std::iter::repeat_with(|| Argument::buffer(&[0; 12])).take(4);
        let inputs = [Argument::uniform(how), Argument::buffer(&x)];
        inputs.into_iter().chain(outputs).collect()
    };
    check("handles", &module, arguments, |how, scratch| {
        let (mut raw, mut counts, mut words, mut y) = (new(), new(), vec![0; 12], new());
        let call = handles(how, &x, &mut raw, &mut counts, &mut words, &mut y);
        call.run_in(division(), scratch)
    });
}

#[test]
fn views_fail_alike_everywhere() {
    let x = numbered();
    let extent = [1, 12];
    let division = || WorkDivision::new([1, 2], [1, 3], [1, 2]).unwrap();
    let module = {
        let mut y = vec![0; 12];
        let view = GlobalRef::from(&x).in_strides(extent, [12, 1]).unwrap();
        let call = tiles(0, view, GlobalMut::from(&mut y).in_extent(extent).unwrap());
        call.module().unwrap()
    };
    let arguments = |how: u32| {
        let view = |elements: &[i32]| Argument::view(elements, &[1, 12], &[12, 1]);
        vec![Argument::uniform(how), view(&x), view(&[0; 12])]
    };
    check("tiles", &module, arguments, |how, scratch| {
        let mut y = vec![0; 12];
        let view = GlobalRef::from(&x).in_strides(extent, [12, 1]).unwrap();
        let call = tiles(
            how,
            view,
            GlobalMut::from(&mut y).in_extent(extent).unwrap(),
        );
        call.run_in(division(), scratch)
    });
}

/// The name that a text begins with.
fn name(text: &str) -> &str {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    &text[..end]
}

#[test]
fn every_method_is_a_fault_somewhere_or_never() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut methods = BTreeSet::new();
    for file in fs::read_dir(folder.join("kernels/lang/src/emit")).unwrap() {
        let path = file.unwrap().path();
        if !path.ends_with("refused.rs") {
            let text = fs::read_to_string(path).unwrap();
            let parts = text.split("__method_").skip(1);
            methods.extend(parts.map(|rest| name(rest).to_owned()));
        }
    }
    methods.remove("");
    let marks = ["numbers", "slices", "handles"].map(marks).concat();
    let failing: BTreeSet<_> = marks.iter().map(|(_, mark)| name(mark)).collect();
    let never: BTreeSet<_> = NEVER.split_whitespace().collect();
    let known = |method: &String| {
        let method = method.as_str();
        failing.contains(method) || never.contains(method) || OVERFLOW.contains(&method)
    };
    let unknown: Vec<_> = methods.iter().filter(|method| !known(method)).collect();
    assert!(
        unknown.is_empty(),
        "methods without a fault, of which `NEVER` does not say so: {unknown:?}"
    );
    // A list has no names of old.
    let gone = |method: &&&str| !methods.contains(**method);
    let gone: Vec<_> = never.iter().chain(OVERFLOW).filter(gone).collect();
    assert!(gone.is_empty(), "no methods: {gone:?}");

    let guide = fs::read_to_string(folder.join("docs/kernels.md")).unwrap();
    let (_, faults) = guide.split_once("## 10.").unwrap();
    let (faults, _) = faults.split_once("## 11.").unwrap();
    let is_method = |method: &&&str| methods.contains(**method) && **method != "try_into_unwrap";
    let untold: Vec<_> = failing
        .iter()
        .filter(is_method)
        .filter(|method| !faults.contains(&format!("`{method}`")))
        .collect();
    assert!(
        untold.is_empty(),
        "not in section 10 of the guide: {untold:?}"
    );
}

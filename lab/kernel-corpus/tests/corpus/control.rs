//! Control flow.

use std::process::Command;

use super::{check, division};
use quipu_kernel::{Accelerator, Grid, KernelData, OwnElements, Threads, device, kernel};
use quipu_kernel_ir::{Dialect, IndexWidth, OpenClFeatures, Options, Printed};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch, OpenClProgram, opencl_or_skip};

#[kernel(crate = quipu_kernel)]
fn collatz(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, steps) in y.each() {
        let mut n = x[i];
        if n == 0 {
            *steps = u32::MAX;
            continue;
        }
        let mut count = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            count += 1;
            if count > 500 {
                break;
            }
        }
        *steps = count;
    }
}

#[test]
fn runs_collatz() {
    let x: Vec<u32> = (0..100).collect();
    let mut y = vec![0; 100];
    check!(collatz => (&x, &mut y), division(5, 4, 5));
    assert_eq!(y[27], 111);
}

/// The right side of `&&` and `||` is a product and a sum, and reads variables that the loop
/// changes.
#[kernel(crate = quipu_kernel)]
fn escape(_acc: &impl Accelerator<1>, limit: u32, x: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (mut re, mut im, mut count) = (0.0_f32, 0.0_f32, 0);
        while count < limit && re.mul_add(re, im * im) < 4.0 {
            let next = re.mul_add(re, (-im).mul_add(im, x[i]));
            im = (2.0 * re).mul_add(im, 0.25);
            re = next;
            count += 1;
        }
        let far = count == limit || re.mul_add(re, im * im) > 16.0;
        *y = 2 * count + u32::from(far);
    }
}

#[test]
fn short_circuits_stay_conditions() {
    let x: Vec<f32> = (0..40).map(|i| i as f32 / 10.0 - 2.0).collect();
    let mut y = vec![0; 40];
    check!(escape => (100, &x, &mut y), division(2, 4, 5));
    assert!(y.contains(&201) && y.contains(&5), "{y:?}");
    let module = <escape as quipu_kernel::Entry<1>>::module().unwrap();
    let opencl = Dialect::OpenCl(OpenClFeatures::USUAL);
    for dialect in [Dialect::Cuda, Dialect::C99, opencl] {
        let options = Options::new(dialect, IndexWidth::Bits32);
        let source = module.print(dialect, &options).unwrap().source;
        // A variable for the condition would be made in each round.
        assert!(source.contains("while (count < limit && fma"), "{source}");
    }
}

#[derive(Clone, Copy, PartialEq, Eq, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u8)]
pub(super) enum Mode {
    Add,
    Subtract,
    Scale = 7,
}

#[kernel(crate = quipu_kernel)]
fn matches(_acc: &impl Accelerator<1>, mode: Mode, x: &[i32], mut y: OwnElements<i32>) {
    const LIMIT: i32 = 90;
    for (i, y) in y.each() {
        let v = x[i];
        let first = match mode {
            Mode::Add => v + 1,
            Mode::Subtract => v - 1,
            Mode::Scale => v * 2,
        };
        let second = match v {
            0 => 100,
            1 | 2 | 3 => 200,
            LIMIT => 9,
            10..=19 => 300,
            n if n % 7 == 0 => n,
            small @ 20..30 => small + 1,
            _ => -1,
        };
        let third = match (v % 2 == 0, v > 50) {
            (true, true) => 1,
            (true, false) => 2,
            (false, big) => {
                if big {
                    3
                } else {
                    4
                }
            }
        };
        let fourth = match (mode, v) {
            (Mode::Add | Mode::Scale, 5) => 50,
            (_, other) => other / 2,
        };
        *y = first + 10 * second + third + fourth + mode as i32;
    }
}

#[test]
fn runs_matches() {
    let x: Vec<i32> = (0..100).collect();
    for mode in [Mode::Add, Mode::Subtract, Mode::Scale] {
        let mut y = vec![0; 100];
        check!(matches => (mode, &x, &mut y), division(5, 4, 5));
    }
}

#[kernel(crate = quipu_kernel)]
fn jumps(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let v = x[i];
        let mut sum = 0;
        'outer: for a in 0..10 {
            for b in 0..10 {
                if a * b > v {
                    continue 'outer;
                }
                if a + b == 15 {
                    break 'outer;
                }
                sum += a ^ b;
            }
        }
        let mut n = 0;
        let found = loop {
            n += 1;
            if n * n > v {
                break n;
            }
        };
        let block = 'block: {
            if v < 3 {
                break 'block 1000;
            }
            if v > 90 {
                break 'block 2000;
            }
            v + 1
        };
        let late;
        if v % 3 == 0 {
            late = 1u32;
        } else {
            late = 2;
        }
        let chosen = if v == 4 {
            *y = 12;
            continue;
        } else if v > 10 && x[i - 1] < 50 || v == 1 {
            late
        } else {
            late + 4
        };
        *y = sum + found + block + chosen;
    }
}

#[test]
fn runs_jumps() {
    let x: Vec<u32> = (0..100).collect();
    let mut y = vec![0; 100];
    check!(jumps => (&x, &mut y), division(5, 4, 5));
}

#[kernel(crate = quipu_kernel)]
fn early(acc: &impl Accelerator<1>, n: usize, mut y: OwnElements<u32>) {
    if acc.index(quipu_kernel::Grid, quipu_kernel::Threads)[0] >= n {
        return;
    }
    let x = 1;
    let x = x + 1;
    {
        let x = x * 100;
        for (_, y) in y.each() {
            *y = x;
        }
    }
    for (_, y) in y.each() {
        *y += x;
    }
}

#[test]
fn runs_early() {
    let mut y = vec![0; 100];
    check!(early => (2usize, &mut y), division(5, 4, 5));
    assert_eq!((y[9], y[10]), (202, 0));
}

#[kernel(crate = quipu_kernel)]
fn talks(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        if i == 3 {
            let half = x[i] / 2.0;
            println!("element {i} is {}, and 100 % {{", x[i]);
            print!("half of it {half}, {}; ", half > 0.5);
            println!();
        }
        *y += 1;
    }
}

#[test]
fn runs_talks() {
    let x = vec![1.5; 10];
    let mut y = vec![0; 10];
    check!(talks => (&x, &mut y), division(2, 5, 1));
    let module = talks(&x, &mut y).module().unwrap();
    let options = quipu_kernel_ir::Options::new(
        quipu_kernel_ir::Dialect::Cuda,
        quipu_kernel_ir::IndexWidth::Bits32,
    );
    let printed = module
        .print(quipu_kernel_ir::Dialect::Cuda, &options)
        .unwrap();
    let expected =
        r#"printf("element %llu is %.9g, and 100 %% {\n", (unsigned long long)i, (double)"#;
    assert!(printed.source.contains(expected), "{}", printed.source);
    // OpenCL's `%s` takes a literal, and no choice of two.
    let opencl = Dialect::OpenCl(OpenClFeatures::USUAL);
    let options = quipu_kernel_ir::Options::new(opencl, quipu_kernel_ir::IndexWidth::Bits32);
    let source = module.print(opencl, &options).unwrap().source;
    assert!(!source.contains("%s"), "{source}");
    for said in ["half of it %.9g, true; ", "half of it %.9g, false; "] {
        assert!(source.contains(said), "{source}");
    }
}

/// More truths than have a call for each way that they can be.
#[kernel(crate = quipu_kernel)]
fn answers(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let a = x[i];
        let (b, c, d) = (a > 1, a > 2, a > 3);
        println!(
            "{a}: {}, {b}, {c}, {d}; {} and {} {a} {}",
            a > 0,
            a > 4,
            a > 5,
            a > 6
        );
        *y += 1;
    }
}

#[test]
fn many_truths_are_printed_by_several_calls() {
    let (x, mut y) = (vec![4], vec![0]);
    check!(answers => (&x, &mut y), division(1, 1, 1));
    let module = answers(&x, &mut y).module().unwrap();
    let calls = |dialect| {
        let options = quipu_kernel_ir::Options::new(dialect, quipu_kernel_ir::IndexWidth::Bits32);
        let source = module.print(dialect, &options).unwrap().source;
        let calls = source.lines().filter(|line| line.contains("printf(\""));
        calls.map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(calls(Dialect::C99).len(), 1);
    let calls = calls(Dialect::OpenCl(OpenClFeatures::USUAL));
    assert_eq!(calls.len(), 8 + 8 + 2);
    // Each piece from where all is true to where nothing is.
    assert_eq!(
        [0, 7, 8, 15, 16, 17].map(|at| &*calls[at]),
        [
            r#"printf("%lu: true, true, true, ", (ulong)a);"#,
            r#"printf("%lu: false, false, false, ", (ulong)a);"#,
            r#"printf("true; true and true %lu ", (ulong)a);"#,
            r#"printf("false; false and false %lu ", (ulong)a);"#,
            r#"printf("true\n");"#,
            r#"printf("false\n");"#,
        ]
    );
}

/// A number of each kind; floats of few digits, as of others a device shows more than Rust does.
#[kernel(crate = quipu_kernel)]
fn says(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (value, own) = (x[i], *y);
        let (small, large) = (own as u8 + 250, own as i64 - (1 << 40));
        let signed = i as i32 - 3;
        // A line at once, as others print meanwhile.
        println!(
            "element {i} is {value}, {{not}} {own}: {}, {large} and {signed}; {} 100 % of {}",
            small,
            value > 1.0,
            value as f64 / 4.0
        );
        *y = 0;
    }
}

/// The output of a process of its own, in any order, of the lines that `says` writes.
fn said_by(test: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("element "));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

const SAID: [(f32, u32); 6] = [
    (0.5, 0),
    (1.5, 1),
    (-2.25, 2),
    (1000.0, 3),
    (0.0, 4),
    (3.0, 5),
];

fn said() -> (Vec<f32>, Vec<u32>) {
    // After what the harness has written.
    println!();
    SAID.into_iter().unzip()
}

#[test]
#[ignore = "run by `all_print_the_same`"]
fn says_natively() {
    let (x, mut y) = said();
    says(&x, &mut y).run(division(2, 3, 1)).unwrap();
}

fn say_printed(dialect: Dialect, run: impl Fn(&Printed, &mut Launch)) {
    let (x, mut y) = said();
    let arguments = vec![Argument::buffer(&x), Argument::buffer(&y)];
    let module = says(&x, &mut y).module().unwrap();
    for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
        let printed = module.print(dialect, &Options::new(dialect, width));
        let mut launch = Launch::new(Division::new([2], [3], [1]), arguments.clone());
        run(&printed.unwrap(), &mut launch);
        assert_eq!(launch.elements::<u32>(1), [0; 6]);
    }
}

#[test]
#[ignore = "run by `all_print_the_same`"]
fn says_in_c99() {
    say_printed(Dialect::C99, |printed, launch| {
        let program = C99Program::compile(printed).unwrap();
        assert_eq!(program.run(launch).unwrap(), None);
    });
}

#[test]
#[ignore = "run by `all_print_the_same`"]
fn says_in_opencl() {
    say_printed(Dialect::OpenCl(OpenClFeatures::USUAL), |printed, launch| {
        let program = OpenClProgram::compile(printed).unwrap();
        assert_eq!(program.run(launch).unwrap(), None);
    });
}

#[test]
fn all_print_the_same() {
    let expected = [
        "element 0 is 0.5, {not} 0: 250, -1099511627776 and -3; false 100 % of 0.125",
        "element 1 is 1.5, {not} 1: 251, -1099511627775 and -2; true 100 % of 0.375",
        "element 2 is -2.25, {not} 2: 252, -1099511627774 and -1; false 100 % of -0.5625",
        "element 3 is 1000, {not} 3: 253, -1099511627773 and 0; true 100 % of 250",
        "element 4 is 0, {not} 4: 254, -1099511627772 and 1; false 100 % of 0",
        "element 5 is 3, {not} 5: 255, -1099511627771 and 2; true 100 % of 0.75",
    ];
    assert_eq!(said_by("corpus::control::says_natively"), expected);
    // With indices of both widths.
    let twice: Vec<_> = expected.iter().flat_map(|line| [*line; 2]).collect();
    assert_eq!(said_by("corpus::control::says_in_c99"), twice);
    if opencl_or_skip() {
        assert_eq!(said_by("corpus::control::says_in_opencl"), twice);
    }
}

#[kernel(crate = quipu_kernel)]
fn unreached<const STOP: bool>(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = 3.0;
        if STOP {
            break;
        }
        let mut n = x[i];
        // Where this is not reached, neither are the `break`s that would say what the loop gives.
        let found = loop {
            n += 1;
            if n % 5 == 0 {
                break n as f32;
            }
        };
        *y = found.sqrt() + if n > 10 { found } else { 0.5 };
    }
}

#[test]
fn runs_unreached() {
    let x: Vec<u32> = (0..10).collect();
    let mut y = vec![0.0; 10];
    check!(unreached::<false> => (&x, &mut y), division(5, 2, 1));
    check!(unreached::<true> => (&x, &mut y), division(5, 2, 1));
    assert_eq!(y, [3.0; 10]);
}

#[device(crate = quipu_kernel)]
fn root_of(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.sqrt() }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Both {
    x: f32,
    y: f32,
}

#[device(crate = quipu_kernel)]
fn both_of(x: f32, y: f32) -> Both {
    Both { x, y: y + x }
}

#[device(crate = quipu_kernel)]
fn powers_of<const N: usize>(x: u32) -> [u32; N] {
    let mut powers = [1; N];
    for n in 1..N {
        powers[n] = powers[n - 1] * x;
    }
    powers
}

#[device(crate = quipu_kernel)]
fn raise(x: &mut f32, by: f32) -> bool {
    *x += root_of(by);
    *x > by
}

#[kernel(crate = quipu_kernel)]
fn unreached_calls<const STOP: bool>(
    _acc: &impl Accelerator<1>,
    x: &[u32],
    mut y: OwnElements<f32>,
) {
    for (i, y) in y.each() {
        *y = root_of(9.0);
        if STOP {
            continue;
        }
        // Where this is not reached, it gives nothing that a function could be written for.
        let mut found = root_of(loop {
            *y += 1.0;
            if *y > 6.0 {
                break *y;
            }
        });
        let chosen = match x[i] {
            0 => continue,
            1 => found,
            n => powers_of::<3>(n)[2] as f32,
        };
        let both = both_of(found, root_of(chosen));
        let Both {
            x: first,
            y: second,
        } = both;
        let mut powers = powers_of::<4>(first as u32);
        powers[i % 4] += 1;
        powers.swap(0, 3);
        for power in &mut powers {
            *power += second as u32;
        }
        let is_more = raise(&mut found, both.y) || root_of(second) < both.x;
        let scaled = |by: f32| root_of(by) * second;
        *y = scaled(powers[i % 3] as f32).max(found) + if is_more { 1.0 } else { root_of(first) };
        assert!(found > 0.0, "with {} it is {found}", *y);
    }
}

#[test]
fn runs_unreached_calls() {
    let x: Vec<u32> = (0..10).collect();
    let mut y = vec![0.0; 10];
    check!(unreached_calls::<false> => (&x, &mut y), division(5, 2, 1));
    check!(unreached_calls::<true> => (&x, &mut y), division(5, 2, 1));
    assert_eq!(y, [3.0; 10]);
    // What only dead code calls is not printed.
    let module = unreached_calls::<true>(&x, &mut y).module().unwrap();
    let names: Vec<_> = module.functions.iter().map(|one| &one.name).collect();
    assert_eq!(names, ["root_of"]);
}

const BEFORE_PLACES: u32 = line!();

#[device(crate = quipu_kernel)]
fn seven_of(x: u32) -> u32 {
    if x > 3 {
        return 7;
    }
    return x;
}

#[kernel(crate = quipu_kernel)]
fn places(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let even = acc.index(Grid, Threads)[0] % 2 == 0;

    if even {
        for (i, y) in y.each() {
            *y = seven_of(x[i]);
        }

        return;
    } else if x.len() == 100 {
        return;
    }
    for (_, y) in y.each() {
        *y = 1;
    }
}

#[test]
fn branches_and_returns_are_where_the_user_wrote_them() {
    let x = vec![1u32; 3];
    let mut y = vec![0; 3];
    let module = places(&x, &mut y).module().unwrap();
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let source = module.print(Dialect::C99, &options).unwrap().source;
    // The user's line of each line, as a compiler counts.
    let mut at = 0;
    let mut lines = Vec::new();
    for line in source.lines() {
        if let Some(directive) = line.strip_prefix("#line ") {
            at = directive.split(' ').next().unwrap().parse().unwrap();
        } else {
            lines.push((line.trim(), at - i64::from(BEFORE_PLACES)));
            at += 1;
        }
    }
    for (begins, expected) in [
        ("if (x > ", 4),
        ("return 7", 5),
        ("return x", 7),
        ("if (even", 14),
    ] {
        let (line, at) = lines
            .iter()
            .find(|(line, _)| line.starts_with(begins))
            .unwrap_or_else(|| panic!("no line begins with {begins}\n{source}"));
        assert_eq!(*at, expected, "{line}\n{source}");
    }
    let left: Vec<_> = lines
        .iter()
        .filter(|(line, _)| *line == "return;" || line.starts_with("goto"))
        .map(|(_, at)| *at)
        .collect();
    assert_eq!(left, [19, 21], "{source}");
}

//! Output of kernels.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Grid};
use support::printed;

/// A kernel that prints in a function which it calls in hundreds of places.
fn often() -> String {
    let mut text = String::from(
        "void say(int i, int call, const int *v) {
            int sum = 0;
            for (int k = 0; k < call % 5; k++) { sum = sum * 31 + (v[k] ^ call); if (sum & 1) sum += v[k] >> 3; else sum ^= v[k] << 2; }
            if (call % 100 == 7) printf(\"<%d %d %d>\\n\", i, call, i);
        }
        kernel void often(int n) { int i = get_global_id(0), v[5] = {i, n, i + 1, n + 2, i * n};\n",
    );
    for call in 0..300 {
        text += &format!("            v[0] = i; say(i, {call}, v);\n");
    }
    text + "        }"
}

#[test]
fn numbers_and_vectors_are_printed_in_whole_lines() {
    let Some(program) = support::program(
        "constant char nothing[4] = \"\";
        kernel void forms(int n) {
            printf(\"\");
            printf(nothing);
            printf(\"%v4hlf|%v3hld|%v2hhd|%v2hx\\n\", (float4)(1, 2, 3, 4.5f), (int3)(-1, n, 3), (char2)(-2, 7), (ushort2)(65535, 16));
            printf(\"%v2lu|%v2lf|%5.1v2hlf|%-4v2hld|\\n\", (ulong2)(18446744073709551615ul, n), (double2)(0.5, -2), (float2)(1.25f, n), (int2)(n, 2));
            printf(\"%zu %td %zx %s %c %%\\n\", (size_t)5000000000ul, (ptrdiff_t)-5000000000l, (size_t)n, \"text\", 'c');
            printf(\"%v16hhu\\n\", (uchar16)(255));
            printf(\"%hhd %hhx %hhu %4hhd|\\n\", -128, -128, 511, 200 + n);
            printf(\"\\xe9 %s\\n\", \"\\xff\");
        }
        kernel void halves(int n) {
            half2 v = (half2)(n, -0.25h);
            printf(\"%f|%v2hg|%v4hf|%a\\n\", v.x / 4.0h, v, (half4)(1.5h, -2.0h, n, 0.0h), (half)0.5h);
        }
        kernel void lines(int n) {
            int i = get_global_id(0);
            printf(\"<%d %v8hld %d>\\n\", i, (int8)(i * n), i);
        }",
    ) else {
        return;
    };
    let often = support::program(&often()).unwrap();
    let n = 42_i32.to_ne_bytes().map(std::mem::MaybeUninit::new);
    let run = |kernel: &str, groups: std::ops::Range<u64>| {
        let size = if kernel == "lines" { 8 } else { 1 };
        let program = if kernel == "often" { &often } else { &program };
        let grid = Grid::new(1, [groups.end * u64::from(size), 1, 1], [size, 1, 1]);
        let kernel = program.compile(kernel, grid.local_size()).unwrap();
        // SAFETY: the kernels have no memory.
        unsafe { kernel.run(&grid, &[Argument::Value(&n)], groups) }.unwrap();
    };
    let forms = printed(|| run("forms", 0..1));
    let wanted = [
        "1.000000,2.000000,3.000000,4.500000|-1,42,3|-2,7|ffff,10",
        "18446744073709551615,42|0.500000,-2.000000|  1.2, 42.0|42  ,2   |",
        "5000000000 -5000000000 2a text c %",
        &["255"; 16].join(","),
        "-128 80 255  -14|",
        "\u{e9} \u{ff}",
    ];
    assert_eq!(forms.lines().collect::<Vec<_>>(), wanted);
    if quipu_clc::has_half() {
        let halves = printed(|| run("halves", 0..1));
        assert_eq!(
            halves,
            "10.500000|42,-0.25|1.500000,-2.000000,42.000000,0.000000|0x1p-1\n"
        );
    }
    // From several threads at once.
    let lines = printed(|| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let run = &run;
                scope.spawn(move || run("lines", thread * 50..(thread + 1) * 50));
            }
        });
    });
    let mut lines: Vec<&str> = lines.lines().collect();
    let mut wanted: Vec<String> = (0..1600)
        .map(|i| format!("<{i} {} {i}>", vec![(i * 42).to_string(); 8].join(",")))
        .collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    let lines = printed(|| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let run = &run;
                scope.spawn(move || run("often", thread * 50..(thread + 1) * 50));
            }
        });
    });
    let mut lines: Vec<&str> = lines.lines().collect();
    let each = |i: u32| [7, 107, 207].map(|call| format!("<{i} {call} {i}>"));
    let mut wanted: Vec<String> = (0..200).flat_map(each).collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
}

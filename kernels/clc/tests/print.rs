//! What kernels print.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

#[allow(dead_code, reason = "this prints alone")]
mod support;

use quipu_clc::{Argument, Grid};
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;

/// What the process writes to its standard output meanwhile. There is one test, so nothing else does.
fn printed(run: impl FnOnce()) -> String {
    let mut file = tempfile::tempfile().unwrap();
    // SAFETY: descriptors of this process, of which none is used elsewhere meanwhile.
    let own = unsafe {
        libc::fflush(std::ptr::null_mut());
        let own = libc::dup(1);
        libc::dup2(file.as_raw_fd(), 1);
        own
    };
    // What it prints is there when it has run.
    run();
    // SAFETY: as above.
    unsafe {
        libc::dup2(own, 1);
        libc::close(own);
    }
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn numbers_and_vectors_are_printed_in_whole_lines() {
    let Some(program) = support::program(
        "kernel void forms(int n) {
            printf(\"%v4hlf|%v3hld|%v2hhd|%v2hx\\n\", (float4)(1, 2, 3, 4.5f), (int3)(-1, n, 3), (char2)(-2, 7), (ushort2)(65535, 16));
            printf(\"%v2lu|%v2lf|%5.1v2hlf|%-4v2hld|\\n\", (ulong2)(18446744073709551615ul, n), (double2)(0.5, -2), (float2)(1.25f, n), (int2)(n, 2));
            printf(\"%zu %td %zx %s %c %%\\n\", (size_t)5000000000ul, (ptrdiff_t)-5000000000l, (size_t)n, \"text\", 'c');
            printf(\"%v16hhu\\n\", (uchar16)(255));
        }
        kernel void lines(int n) {
            int i = get_global_id(0);
            printf(\"<%d %v8hld %d>\\n\", i, (int8)(i * n), i);
        }",
    ) else {
        return;
    };
    let n = 42_i32.to_ne_bytes().map(std::mem::MaybeUninit::new);
    let run = |kernel: &str, groups: std::ops::Range<u64>| {
        let size = if kernel == "lines" { 8 } else { 1 };
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
    ];
    assert_eq!(forms.lines().collect::<Vec<_>>(), wanted);
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
}

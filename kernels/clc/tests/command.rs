//! The command line of `quipu-clc`.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

#[allow(dead_code, reason = "nothing is launched")]
mod support;

use std::process::{Command, Output};

/// Runs the compiler in a folder with a file `a.cl`; what it prints. None without LLVM.
fn compiler(text: &str, arguments: &[&str]) -> Option<(Output, tempfile::TempDir)> {
    support::program("kernel void f() {}")?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.cl"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu-clc"));
    command.current_dir(folder.path()).args(arguments);
    Some((command.output().unwrap(), folder))
}

fn printed(text: &str, arguments: &[&str]) -> Option<String> {
    let (output, _) = compiler(text, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Looks for words in the line of a text that begins with some.
#[track_caller]
fn says(text: &str, start: &str, words: &[&str]) {
    let mut lines = text.lines().map(str::trim_start);
    let is_it =
        |line: &str| line.starts_with(start) && words.iter().all(|word| line.contains(word));
    assert!(lines.any(is_it), "no '{start}' with {words:?} in\n{text}");
}

const SAXPY: &str = "#ifndef STEP
#error no STEP
#endif
kernel void saxpy(float a, global const float *x, global float *y, uint n) {
    size_t i = get_global_id(0) * STEP;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
kernel void other(local int *x) { x[0] = 1; }
";

#[test]
fn kernels_are_listed_with_what_they_do_to_memory() {
    let Some(text) = printed(SAXPY, &["a.cl", "-D", "STEP=1"]) else {
        return;
    };
    says(&text, "kernel saxpy", &[]);
    says(&text, "float* x: memory, read", &[]);
    says(&text, "float* y: memory, read and written", &[]);
    says(&text, "uint n: 4 bytes", &[]);
    says(&text, "int* x: local memory", &[]);
}

#[test]
fn text_of_each_stage_is_written_where_it_is_asked_for() {
    let arguments = [
        "a.cl",
        "-DSTEP=1",
        "--kernel",
        "saxpy",
        "--local=64",
        "--emit-llvm",
        "a.ll",
        "--emit-asm",
        "-",
    ];
    let Some((output, folder)) = compiler(SAXPY, &arguments) else {
        return;
    };
    assert!(output.status.success());
    let llvm = std::fs::read_to_string(folder.path().join("a.ll")).unwrap();
    assert!(llvm.starts_with("; kernel saxpy\n"), "{llvm}");
    assert!(
        llvm.contains("define") && llvm.contains(" x float>"),
        "{llvm}"
    );
    let assembly = String::from_utf8(output.stdout).unwrap();
    assert!(assembly.starts_with("# kernel saxpy\n"), "{assembly}");
    assert!(assembly.contains("quipu_run_groups:"), "{assembly}");
    assert!(!llvm.contains("kernel other") && !assembly.contains("kernel other"));
}

#[test]
fn faults_of_a_text_are_at_the_file_and_line_that_the_user_knows() {
    let text = "#include \"b.h\"\nkernel void f(global int *x) {\n    x[0] = missing;\n}\n";
    let Some((output, folder)) = compiler(text, &["a.cl"]) else {
        return;
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    says(&said, "a.cl:1:10: ", &["fatal error: 'b.h'"]);
    // Headers are looked for beside the text, and what they say of the text has its name.
    std::fs::write(folder.path().join("b.h"), "int wrong(;\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu-clc"));
    let output = command.arg(folder.path().join("a.cl")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let file = folder.path().join("a.cl").display().to_string();
    says(&said, &format!("In file included from {file}:1:"), &[]);
    says(&said, &format!("{file}:3:12: "), &["error", "'missing'"]);
}

#[test]
fn what_makes_no_sense_is_said_with_the_usage() {
    for (arguments, status, words) in [
        (&["a.cl", "--emit"][..], 2, "--emit is none of its options"),
        (&["a.cl", "-foo"], 1, "option '-foo' is not taken"),
        (&["b.cl"], 1, "b.cl: No such file"),
        (
            &["a.cl", "--kernel", "g"],
            1,
            "has no kernel 'g'; it has: f",
        ),
        (
            &["a.cl", "--local", "8", "--explain"],
            1,
            "wants work-groups of 4",
        ),
    ] {
        let text = "kernel __attribute__((reqd_work_group_size(4, 1, 1))) void f() {}";
        let Some((output, _folder)) = compiler(text, arguments) else {
            return;
        };
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn barriers_and_loops_are_explained_by_the_users_lines() {
    let text = "kernel void sum(global const float *x, global float *sums, local float *part) {
    uint l = get_local_id(0);
    float own = x[get_global_id(0)] * 2.0f;
    part[l] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = get_local_size(0) / 2; s > 0; s /= 2) {
        if (l < s)
            part[l] += part[l + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sums[get_global_id(0)] = part[0] + own;
}
";
    let Some(text) = printed(text, &["a.cl", "--local", "64", "--explain"]) else {
        return;
    };
    says(&text, "kernel sum, for work-groups of 64 work-items", &[]);
    says(
        &text,
        "memory of a group",
        &["and 4 bytes for each work-item"],
    );
    let own = "each keeps 4 bytes (1 number of line 3) across it";
    says(&text, "line 5: all work-items stop at this barrier", &[own]);
    says(
        &text,
        "line 6: all work-items go round this loop together; it has a barrier",
        &[own, "the group keeps 4 bytes (`s`)"],
    );
    says(&text, "line 7: the first work-items go one way", &[]);
    says(&text, "line 9: all work-items stop at this barrier", &[own]);
    says(&text, "work-items, lines 3, 4: vectors of", &[]);
}

#[test]
fn what_became_of_each_loop_is_explained() {
    let text = "kernel void product(global const float *a, global float *b, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[k * n + get_global_id(0)];
    b[get_global_id(0)] = sum;
}
kernel void mandelbrot(global int *out, int most) {
    float c = get_global_id(0) * 0.01f, z = 0;
    int n = 0;
    while (z < 4 && n < most) {
        z = z * z + c;
        n++;
    }
    out[get_global_id(0)] = n;
}
kernel void counts(global const int *start, global int *hits) {
    for (int j = 0; j < start[get_global_id(0)]; j++)
        atomic_add(&hits[j & 7], (int)pow((double)j, 1.5));
}
kernel void bounds(global const int *from, global int *to, int n) {
    int i = get_global_id(0);
    if (i >= n)
        return;
    to[i] = from[from[i]];
}
kernel void sorted(global const float *x, global float *y, int at) {
    float best[8];
    for (int i = 0; i < 8; i++)
        best[i] = x[get_global_id(0) + i];
    best[at] = 0;
    y[get_global_id(0)] = best[at / 2] + best[7];
}
";
    let Some(text) = printed(text, &["a.cl", "--local", "64", "--explain"]) else {
        return;
    };
    says(
        &text,
        "line 3: all work-items go round this loop together, strip by strip",
        &["each keeps 4 bytes (`sum`) from turn to turn"],
    );
    says(
        &text,
        "line 10: work-items leave this loop at different times",
        &["by masks", "`n`", "`z`"],
    );
    says(
        &text,
        "line 17: work-items go round this loop one after the other",
        &["an atomic operation in line 18"],
    );
    says(
        &text,
        "work-items, lines 17, 18: one after the other, no vectors (LLVM",
        &[],
    );
    says(&text, "line 18: `pow` of the system's library", &[]);
    says(
        &text,
        "groups of which all work-items are within the bounds of line 22:",
        &[],
    );
    says(&text, "the other groups:", &[]);
    says(&text, "line 22: work-items part at this branch", &[]);
    says(
        &text,
        "`best`, 32 bytes of each work-item's own, is in memory",
        &["side by side"],
    );
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vl") {
        says(
            &text,
            "line 24: the numbers of a vector are read from a place each",
            &[],
        );
    }
}

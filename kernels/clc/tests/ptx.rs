//! Kernels in PTX, for NVIDIA's GPUs.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

mod support;

/// A kernel of each kind that is to work, and a word of its PTX.
const KERNELS: &[(&str, &str, &str)] = &[
    (
        "saxpy",
        "kernel void saxpy(float a, global const float *x, global float *y) { size_t i = get_global_id(0); y[i] += a * x[i]; }",
        "fma.rn.f32",
    ),
    (
        "reduce",
        "kernel void reduce(global const float *x, global float *sums, local float *tile) {
            uint l = get_local_id(0); tile[l] = x[get_global_id(0)];
            for (uint n = get_local_size(0) / 2; n > 0; n /= 2) { barrier(CLK_LOCAL_MEM_FENCE); if (l < n) tile[l] += tile[l + n]; }
            if (l == 0) sums[get_group_id(0)] = tile[0]; }",
        "bar.sync",
    ),
    (
        "tiles",
        "kernel void tiles(global float4 *x, constant float *weights, uint n) {
            local float4 tile[64]; uint l = get_local_id(0); tile[l] = x[get_global_id(0)] * weights[l % n];
            barrier(CLK_LOCAL_MEM_FENCE); x[get_global_id(0)] = tile[63 - l] + sqrt(tile[l]); }",
        "sqrt.rn.f32",
    ),
    (
        "count",
        "kernel void count(global uint *bins, global const uchar *x) { atomic_inc(&bins[x[get_global_id(1) * get_global_size(0) + get_global_id(0)]]); }",
        "atom",
    ),
    (
        "calls",
        "typedef struct { float a; int b; } P; float f(const float *p, int n) { float s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
         constant float table[4] = {1, 2, 3, 4};
         kernel void calls(P p, global float *y) { float own[8]; for (int i = 0; i < 8; i++) own[i] = table[i % 4] * exp(p.a) + native_sin(p.a);
            y[get_global_id(0)] = f(own, p.b) + mad(p.a, 2.0f, get_global_offset(0)); }",
        "ld.param",
    ),
];

#[test]
fn kernels_become_ptx() {
    for (name, source, word) in KERNELS {
        let Some(program) = support::program(source) else {
            return;
        };
        for capability in [70, 90] {
            let ptx = program.ptx(name, capability);
            let ptx = ptx.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(ptx.contains(&format!(".visible .entry {name}")), "{ptx}");
            assert!(ptx.contains(&format!(".target sm_{capability}")), "{ptx}");
            assert!(ptx.contains(word), "{name} has no {word}:\n{ptx}");
            if let Ok(folder) = std::env::var("PTX_FOLDER") {
                std::fs::write(format!("{folder}/{name}-{capability}.ptx"), &ptx).unwrap();
            }
        }
    }
}

#[test]
fn what_processors_alone_have_is_refused_by_name() {
    for (source, named) in [
        (
            "kernel void k(global double *x) { x[0] = erf(x[1]); }",
            "'erf'",
        ),
        (
            "kernel void k(global int *x) { x[0] = work_group_reduce_add(x[get_global_id(0)]); }",
            "work-group",
        ),
        (
            "kernel void k(global uint4 *x) { x[0] = sub_group_ballot(x[1].x > 1); }",
            "work-group",
        ),
    ] {
        let options = "-cl-std=CL3.0";
        let Some(_) = support::program("kernel void k() {}") else {
            return;
        };
        let program = quipu_clc::Program::new(source, options).unwrap();
        let error = program.ptx("k", 90).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("NVIDIA"), "{error}");
    }
}

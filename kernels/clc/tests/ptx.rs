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
    (
        "functions",
        "kernel void functions(global float *x, global int *n, global float4 *v) { size_t i = get_global_id(0); float a = x[i], b; int e;
            x[i] = sin(a) + cos(a) + tan(a) + exp(a) + exp2(a) + exp10(a) + log(a) + log2(a) + log10(a) + pow(a, 2.5f) + powr(a, a)
                + pown(a, n[i]) + rootn(a, n[i]) + sinpi(a) + cospi(a) + tanpi(a) + tanh(a) + sincos(a, &b) + b + fract(a, &b) + modf(a, &b)
                + sqrt(a) + rsqrt(a) + fma(a, a, a) + floor(a) + ceil(a) + rint(a) + round(a) + trunc(a) + fmin(a, b) + fmax(a, b);
            v[i] = pown(v[i], 3) + sinpi(v[i]) + length(v[i]) + native_exp(v[i]) + half_cos(v[i]) + normalize(v[i]); }",
        "fma.rn.f32",
    ),
    (
        "doubles",
        "kernel void doubles(global double *x, global double4 *v) { size_t i = get_global_id(0); double a = x[i], b;
            x[i] = sqrt(a) + rsqrt(a) + fma(a, a, a) + floor(a) + ceil(a) + rint(a) + round(a) + trunc(a) + fmin(a, 2.0) + fmax(a, 3.0)
                + fract(a, &b) + modf(a, &b) + length(v[i]); }",
        "sqrt.rn.f64",
    ),
    (
        "prints",
        "void twice(local int *x) { for (int i = 0; i < 2; i++) printf(\"%s %p\\n\", \"local\", x); }
         kernel void prints(global float4 *x, global int *n, char c) {
            local int own[4]; own[0] = n[0];
            printf(\"%d %5.2v4hlf %c %ld %%\\n\", n[1], x[0], c, (long)n[2]); printf(\"nothing\\n\"); twice(own); n[0] = printf(\"%u\", 1u); }",
        "vprintf",
    ),
];

/// Keeps PTX for NVIDIA's assembler, in the folder that `PTX_FOLDER` names.
fn keep(ptx: &str, name: &str) {
    if let Ok(folder) = std::env::var("PTX_FOLDER") {
        std::fs::write(format!("{folder}/{name}.ptx"), ptx).unwrap();
    }
}

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
            keep(&ptx, &format!("{name}-{capability}"));
        }
    }
}

/// The PTX of a kernel of OpenCL C 3.0, for each of two devices; none without a compiler.
fn ptx_of(source: &str, name: &str) -> Option<[String; 2]> {
    support::program("kernel void k() {}")?;
    let program = quipu_clc::Program::new(source, "-cl-std=CL3.0").unwrap();
    Some([70, 90].map(|capability| {
        let ptx = program.ptx(name, capability);
        ptx.unwrap_or_else(|error| panic!("{name}: {error}"))
    }))
}

/// The words of PTX that order memory, and those of accesses to `global` memory and atomic ones, in
/// order.
fn ordered(ptx: &str) -> Vec<&str> {
    let words = ptx.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|word| !word.starts_with(['@', '{']))
    });
    let words = words.map(|word| word.trim_end_matches(';'));
    let is_access = |word: &&str| {
        let kind = word.split('.').next().unwrap_or_default();
        kind == "membar"
            || kind == "atom"
            || ["ld", "st"].contains(&kind) && !word.contains(".param")
    };
    let kinds = words.filter(is_access).map(|word| match word {
        word if word.starts_with("membar") => word,
        word => word.split('.').next().unwrap_or_default(),
    });
    kinds.collect()
}

#[test]
fn fences_and_ordered_accesses_are_barriers_of_memory() {
    const CASES: &[(&str, &[&str])] = &[
        (
            "mem_fence(CLK_GLOBAL_MEM_FENCE); y[0] = 1;",
            &["membar.gl", "st"],
        ),
        (
            "read_mem_fence(CLK_GLOBAL_MEM_FENCE); y[0] = 1;",
            &["membar.gl", "st"],
        ),
        (
            "write_mem_fence(CLK_GLOBAL_MEM_FENCE); y[0] = 1;",
            &["membar.gl", "st"],
        ),
        (
            "mem_fence(CLK_LOCAL_MEM_FENCE); y[0] = 1;",
            &["membar.cta", "st"],
        ),
        (
            "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device); y[0] = 1;",
            &["membar.gl", "st"],
        ),
        (
            "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, memory_scope_work_group); y[0] = 1;",
            &["membar.cta", "st"],
        ),
        (
            "y[0] = atomic_load_explicit(x, memory_order_acquire, memory_scope_device);",
            &["ld", "membar.gl", "st"],
        ),
        (
            "y[0] = atomic_load(x);",
            &["membar.gl", "ld", "membar.gl", "st"],
        ),
        (
            "y[0] = atomic_load_explicit(x, memory_order_relaxed);",
            &["ld", "st"],
        ),
        (
            "y[0] = 1; atomic_store_explicit(x, 1, memory_order_release, memory_scope_device);",
            &["st", "membar.gl", "st"],
        ),
        ("atomic_store(x, 1);", &["membar.gl", "st", "membar.gl"]),
        ("atomic_flag_clear(x);", &["membar.gl", "st", "membar.gl"]),
        (
            "y[0] = 1; atomic_fetch_add_explicit(x, 1, memory_order_release, memory_scope_device);",
            &["st", "membar.gl", "atom"],
        ),
        (
            "y[0] = atomic_exchange_explicit(x, 1, memory_order_acquire, memory_scope_device);",
            &["atom", "membar.gl", "st"],
        ),
        (
            "y[0] = atomic_fetch_add(x, 1);",
            &["membar.gl", "atom", "membar.gl", "st"],
        ),
        (
            "int e = 0; y[0] = atomic_compare_exchange_strong(x, &e, 1);",
            &["membar.gl", "atom", "membar.gl", "st"],
        ),
        (
            "y[0] = atomic_fetch_add_explicit(x, 1, memory_order_relaxed);",
            &["atom", "st"],
        ),
        (
            "y[0] = 1; work_group_barrier(CLK_GLOBAL_MEM_FENCE, memory_scope_device); y[1] = 2;",
            &["st", "membar.gl", "membar.gl", "st"],
        ),
    ];
    for (text, expected) in CASES {
        let source = format!(
            "kernel void k(volatile global atomic_int *x, volatile global int *y) {{ {text} }}"
        );
        let Some(each) = ptx_of(&source, "k") else {
            return;
        };
        for ptx in &each {
            // Addresses of generic memory are made ones of global memory, or not.
            assert_eq!(ordered(ptx), *expected, "{text}\n{ptx}");
        }
    }
}

#[test]
fn atomic_functions_of_all_types_and_places_become_ptx() {
    let each = |space: &str, name: &str, kind: &str| {
        let update = match kind {
            "float" | "double" => vec!["add", "sub", "min", "max"],
            _ => vec!["add", "sub", "min", "max", "and", "or", "xor"],
        };
        let calls = update
            .iter()
            .map(|of| format!("r += atomic_fetch_{of}({name}, r);"));
        format!(
            "{{ {kind} e = 0, r = atomic_load({name}); atomic_store({name}, r); r += atomic_exchange({name}, r);
               atomic_compare_exchange_weak({name}, &e, r); {} out[0] += r + e; }} /* {space} */",
            calls.collect::<String>()
        )
    };
    for kind in ["int", "uint", "long", "ulong", "float", "double"] {
        let source = format!(
            "kernel void k(global atomic_{kind} *g, local atomic_{kind} *l, global {kind} *out, int n) {{
               atomic_{kind} *any = n ? (atomic_{kind} *)g : (atomic_{kind} *)l; {} {} {} }}",
            each("global", "g", kind),
            each("local", "l", kind),
            each("generic", "any", kind)
        );
        if ptx_of(&source, "k").is_none() {
            return;
        }
    }
}

const IMAGES: &str = "
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
constant float weights[3] = {1, 2, 4};
kernel void images(read_only image2d_t from, write_only image2d_t to, sampler_t linear, global float *sums, int4 offset) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    float4 sum = 0;
    for (int i = 0; i < 3; i++) sum += weights[i] * read_imagef(from, nearest, at + i);
    sum += read_imagef(from, linear, convert_float2(at) / 7.0f) + convert_float4(read_imagei(from, at));
    write_imagef(to, at, sum);
    atomic_inc((volatile global int *)sums + get_image_width(from));
    sums[get_image_height(to)] = sum.x;
}
kernel void others(read_only image1d_array_t a, read_only image3d_t b, read_only image2d_array_t c, read_only image1d_buffer_t d,
    write_only image3d_t e, sampler_t s) {
    int i = get_global_id(0);
    uint4 all = read_imageui(a, s, (float2)(0.5f, i)) + read_imageui(b, s, (int4)(i)) + read_imageui(c, (int4)(i)) + read_imageui(d, i);
    write_imageui(e, (int4)(i, 0, 0, 0), all + get_image_channel_order(a));
}
";

#[test]
fn images_are_arguments_by_value() {
    let Some(program) = support::program(IMAGES) else {
        return;
    };
    for (kernel, images) in [("images", 0..2), ("others", 0..5)] {
        for capability in [70, 90] {
            let ptx = program.ptx(kernel, capability);
            let ptx = ptx.unwrap_or_else(|error| panic!("{kernel}: {error}"));
            for number in images.clone() {
                let parameter = format!(".param .align 8 .b8 {kernel}_param_{number}[56]");
                assert!(ptx.contains(&parameter), "{parameter}:\n{ptx}");
            }
            keep(&ptx, &format!("{kernel}-{capability}"));
        }
    }
}

/// Functions of one number that have no instructions of their own on any GPU.
const OF_ONE: [&str; 29] = [
    "sin", "cos", "tan", "sinpi", "cospi", "tanpi", "asin", "acos", "atan", "asinpi", "acospi",
    "atanpi", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2", "exp10", "expm1",
    "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc",
];
/// The rest of them, as expressions of `a` and `b`, a whole number `n`, and a place `i` of one.
const OTHERS: [&str; 22] = [
    "tgamma(a)",
    "lgamma(a)",
    "logb(a)",
    "pow(a, b)",
    "powr(a, b)",
    "atan2(a, b)",
    "atan2pi(a, b)",
    "fmod(a, b)",
    "remainder(a, b)",
    "hypot(a, b)",
    "fdim(a, b)",
    "nextafter(a, b)",
    "ldexp(a, n)",
    "pown(a, n)",
    "rootn(a, n)",
    "sincos(a, &b)",
    "frexp(a, i)",
    "lgamma_r(a, i)",
    "remquo(a, b, i)",
    "exp2(WHOLE(n))",
    "maxmag(a, b)",
    "ilogb(a)",
];

/// Comparisons: of vectors they give numbers as wide as what they compare.
const COMPARISONS: [&str; 10] = [
    "isless(a, b)",
    "islessequal(a, b)",
    "isgreater(a, b)",
    "isgreaterequal(a, b)",
    "islessgreater(a, b)",
    "isequal(a, b)",
    "isnotequal(a, b)",
    "isordered(a, b)",
    "isunordered(a, b)",
    "isnan(a)",
];

#[test]
fn two_bytes_are_passed_as_a_number_of_16_bits() {
    let source = "kernel void k(char2 a, uchar2 b, global int2 *y) { y[0] = convert_int2(a) + convert_int2(b); }";
    for ptx in ptx_of(source, "k").into_iter().flatten() {
        assert!(ptx.contains(".param .u16 k_param_0"), "{ptx}");
        assert!(ptx.contains(".param .u16 k_param_1"), "{ptx}");
    }
}

#[test]
fn comparisons_of_all_vectors_become_ptx() {
    for (kind, result) in [("half", "short"), ("float", "int"), ("double", "long")] {
        for size in ["2", "3", "4", "8", "16"] {
            let kernels: String = COMPARISONS
                .iter()
                .enumerate()
                .map(|(at, call)| {
                    format!(
                        "kernel void k{at}(global {result} *y, global const {kind} *x, global const {kind} *z) {{
                            size_t i = get_global_id(0); {kind}{size} a = vload{size}(i, x), b = vload{size}(i, z);
                            vstore{size}({call}, i, y); }}\n"
                    )
                })
                .collect();
            let Some(program) = support::program(&kernels) else {
                return;
            };
            for at in 0..COMPARISONS.len() {
                for capability in [70, 90] {
                    let ptx = program.ptx(&format!("k{at}"), capability);
                    ptx.unwrap_or_else(|error| panic!("{kind}{size}: {error}"));
                }
            }
        }
    }
}

/// Operations on two vectors of integers, `a` and `b`.
const OF_INTEGERS: [&str; 30] = [
    "a + b",
    "a - b",
    "a * b",
    "a / b",
    "a % b",
    "a & b",
    "a | b",
    "a ^ b",
    "~a",
    "-a",
    "a << b",
    "a >> b",
    "as_KIND(a < b)",
    "as_KIND(a <= b)",
    "as_KIND(a == b)",
    "as_KIND(a != b)",
    "as_KIND(!a)",
    "as_KIND(a && b)",
    "as_KIND(a || b)",
    "(a > b) ? a : b",
    "select(a, b, (b >= a))",
    "min(a, b)",
    "max(a, b)",
    "add_sat(a, b)",
    "sub_sat(a, b)",
    "hadd(a, b) + rhadd(a, b)",
    "mul_hi(a, b)",
    "rotate(a, b)",
    "clz(a) + popcount(b)",
    "bitselect(a, b, a + b)",
];

#[test]
fn operations_on_all_vectors_of_integers_become_ptx() {
    for kind in [
        "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
    ] {
        for size in ["2", "3", "4", "8", "16"] {
            let vector = format!("{kind}{size}");
            let stores: String = OF_INTEGERS
                .iter()
                .enumerate()
                .map(|(at, operation)| {
                    let result = operation.replace("KIND", &vector);
                    format!("vstore{size}({result}, {at} * n + i, y);\n")
                })
                .collect();
            let kernel = format!(
                "kernel void k(global {kind} *y, global const {kind} *x, global const {kind} *z, ulong n) {{
                    size_t i = get_global_id(0); {vector} a = vload{size}(i, x), b = vload{size}(i, z);
                    {stores} }}"
            );
            let Some(program) = support::program(&kernel) else {
                return;
            };
            for capability in [70, 90] {
                let ptx = program.ptx("k", capability);
                ptx.unwrap_or_else(|error| panic!("{vector}: {error}"));
            }
        }
    }
}

#[test]
fn all_mathematical_functions_become_ptx() {
    const TOGETHER: usize = 13;
    let mut calls: Vec<String> = OF_ONE.iter().map(|name| format!("{name}(a)")).collect();
    calls.extend(OTHERS.map(str::to_owned));
    for kind in ["half", "float", "double"] {
        for vector in ["", "4"] {
            let lines = calls.iter().map(|call| match call.as_str() {
                "ilogb(a)" => "*i = ilogb(a); ".to_owned(),
                call => format!("*x++ = {call}; "),
            });
            let lines: Vec<String> = lines.collect();
            let kernels = lines.chunks(TOGETHER).enumerate().map(|(at, some)| {
                let begin = "T a = x[1], b = x[2]; N n = *i;";
                format!(
                    "kernel void k{at}(global T *x, global N *i) {{ {begin} {} }}\n",
                    some.concat()
                )
            });
            let text = format!(
                "typedef {kind}{vector} T; typedef int{vector} N;\n#define WHOLE convert_{kind}{vector}\n{}",
                kernels.collect::<String>()
            );
            let Some(program) = support::program(&text) else {
                return;
            };
            for at in 0..calls.len().div_ceil(TOGETHER) {
                let ptx = program.ptx(&format!("k{at}"), 70);
                let ptx = ptx.unwrap_or_else(|error| panic!("{kind}{vector}: {error}"));
                let missing = ptx.lines().find(|line| line.contains(".extern .func"));
                assert_eq!(missing, None, "{kind}{vector}");
                // What LLVM takes for undefined has an exit in place of its code.
                assert!(!ptx.contains("exit;"), "{kind}{vector}: {ptx}");
                keep(&ptx, &format!("mathematics-{kind}{vector}-{at}-70"));
            }
        }
    }
}

#[test]
fn groups_and_sub_groups_exchange_values() {
    let all = "kernel void groups(global int *x, global double *y) {
            size_t i = get_global_id(0);
            x[i] = work_group_reduce_add(x[i]) + work_group_any(x[i]) + work_group_broadcast(x[i], 3);
            y[i] = work_group_scan_inclusive_max(y[i]);
        }
        kernel void sub_groups(global int *x, global uint4 *y, global float *z) {
            size_t i = get_global_id(0);
            sub_group_barrier(CLK_LOCAL_MEM_FENCE);
            x[i] = sub_group_reduce_add(x[i]) + sub_group_any(x[i]) + get_sub_group_local_id() + get_max_sub_group_size();
            if (x[i] & 1) { y[i] = sub_group_ballot(x[i] > 3); x[i] = sub_group_elect() + sub_group_non_uniform_reduce_mul(x[i]); }
            z[i] = sub_group_shuffle_xor(z[i], 5) + sub_group_rotate(z[i], 3) + sub_group_scan_exclusive_min(z[i]);
        }
        kernel void spaces(global int *x, local int *y) {
            int own = x[1], *p = x; if (x[0]) p = y; if (x[4]) p = &own;
            global int *g = to_global(p); local int *l = to_local(p); private int *o = to_private(p);
            x[2] = get_fence(p);
            if (g) atomic_inc(g); if (l) atomic_inc(l); if (o) x[3] = *o;
        }
        __attribute__((intel_reqd_sub_group_size(16), reqd_work_group_size(64, 1, 1))) kernel void halves(global int *x) {
            x[get_global_id(0)] = sub_group_clustered_reduce_add(x[get_global_id(0)], 8);
        }";
    for (kernel, word) in [
        ("groups", "bar.sync"),
        ("sub_groups", "bar.warp.sync"),
        ("halves", "activemask"),
        ("spaces", "isspacep.shared"),
    ] {
        let Some(each) = ptx_of(all, kernel) else {
            return;
        };
        for (ptx, capability) in each.iter().zip([70, 90]) {
            assert!(ptx.contains(word), "{ptx}");
            keep(ptx, &format!("{kernel}-{capability}"));
        }
    }
}

#[test]
fn the_size_that_a_kernel_requires_is_told() {
    for (size, told) in [
        ("1024, 1, 1", ".reqntid 1024"),
        ("16, 8, 2", ".reqntid 16, 8, 2"),
    ] {
        let source = format!(
            "kernel __attribute__((reqd_work_group_size({size}))) void k(global int *x) {{ x[get_global_id(0)] = 1; }}"
        );
        let Some(each) = ptx_of(&source, "k") else {
            return;
        };
        for ptx in &each {
            assert!(ptx.contains(told), "{ptx}");
        }
    }
}

#[test]
fn what_processors_alone_have_is_refused_by_name() {
    let source = "__attribute__((intel_reqd_sub_group_size(64))) kernel void k(global int *x) { x[0] = sub_group_any(x[1]); }";
    let Some(_) = support::program("kernel void k() {}") else {
        return;
    };
    let program = quipu_clc::Program::new(source, "-cl-std=CL3.0").unwrap();
    let error = program.ptx("k", 90).unwrap_err().to_string();
    assert!(
        error.contains("sub-groups") && error.contains("NVIDIA"),
        "{error}"
    );
}

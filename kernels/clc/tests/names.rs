//! Names of functions of C, which a program in OpenCL C may give to its own functions, kernels and
//! constants.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Image, Program};
use std::collections::BTreeSet;
use support::{Launch, program};

/// The language's functions that are the system's, with arguments, and the system's name of each
/// for `float`.
const FUNCTIONS: [(&str, &str, &str); 25] = [
    ("asin", "0.5f", "asinf"),
    ("acos", "0.5f", "acosf"),
    ("atan", "0.5f", "atanf"),
    ("sinh", "0.5f", "sinhf"),
    ("cosh", "0.5f", "coshf"),
    ("asinh", "0.5f", "asinhf"),
    ("acosh", "1.5f", "acoshf"),
    ("atanh", "0.5f", "atanhf"),
    ("cbrt", "0.5f", "cbrtf"),
    ("expm1", "0.5f", "expm1f"),
    ("log1p", "0.5f", "log1pf"),
    ("erf", "0.5f", "erff"),
    ("erfc", "0.5f", "erfcf"),
    ("tgamma", "0.5f", "tgammaf"),
    ("lgamma", "0.5f", "lgammaf"),
    ("logb", "5.0f", "logbf"),
    ("atan2", "0.5f, 2.0f", "atan2f"),
    ("fmod", "7.0f, 4.0f", "fmodf"),
    ("remainder", "7.0f, 4.0f", "remainderf"),
    ("hypot", "7.0f, 4.0f", "hypotf"),
    ("fdim", "7.0f, 4.0f", "fdimf"),
    ("nextafter", "7.0f, 4.0f", "nextafterf"),
    ("ldexp", "7.0f, 4", "ldexpf"),
    ("ilogb", "7.0f", "ilogbf"),
    ("frexp", "7.0f, &e", "frexpf"),
];

/// The result of a kernel with these arguments, which it does not know before it runs.
fn written(program: &Program, kernel: &str) -> f32 {
    let memory = [0.0_f32];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&memory);
    launch.value(0.0_f32);
    launch.run(program, kernel);
    // SAFETY: the launch has written there; it is over.
    unsafe { std::ptr::from_ref(&memory[0]).read_volatile() }
}

/// The kernel that writes a function's value, and something more.
fn kernel(kernel: &str, (function, arguments, _): (&str, &str, &str), more: &str) -> String {
    format!(
        "kernel void {kernel}(global float *x, float zero) {{ int e; x[0] = (float){function}(zero + {arguments}) {more}; }}\n"
    )
}

/// The results of functions that have their names for themselves; none if there is no compiler.
fn expected() -> Option<Vec<f32>> {
    let texts = FUNCTIONS.iter().enumerate();
    let text: String = texts
        .map(|(at, of)| kernel(&format!("k{at}"), *of, ""))
        .collect();
    let program = program(&text)?;
    let values = (0..FUNCTIONS.len()).map(|at| written(&program, &format!("k{at}")));
    Some(values.collect())
}

#[test]
fn functions_of_a_program_take_the_place_of_none() {
    let Some(expected) = expected() else { return };
    for (of, expected) in FUNCTIONS.into_iter().zip(expected) {
        let (function, arguments, name) = of;
        let parameters = match arguments.split_once(", ") {
            None => "float a",
            Some((_, "&e")) => "float a, int *b",
            Some((_, "4")) => "float a, int b",
            Some(_) => "float a, float b",
        };
        let passed = if parameters.contains(", ") {
            "a, b"
        } else {
            "a"
        };
        let own = [
            format!("float {name}({parameters}) {{ return 100; }}\n"),
            format!("float {name}({parameters}) {{ return {function}({passed}) + 100; }}\n"),
        ];
        for (own, value) in own.into_iter().zip([100.0, expected + 100.0]) {
            let called = kernel("own", (name, arguments, ""), "");
            let program = program(&format!("{own}{}{called}", kernel("k", of, ""))).unwrap();
            assert_eq!(written(&program, "k"), expected, "{name}");
            assert_eq!(written(&program, "own"), value, "{name}");
        }
    }
}

#[test]
fn kernels_and_constants_take_the_place_of_no_function() {
    let Some(expected) = expected() else { return };
    let kernels: String = FUNCTIONS.iter().map(|of| kernel(of.2, *of, "")).collect();
    let kernels = program(&kernels).unwrap();
    let constants = FUNCTIONS.iter().enumerate().map(|(at, of)| {
        let declared = format!("constant float {}[2] = {{1, 2}};\n", of.2);
        declared
            + &kernel(
                &format!("k{at}"),
                *of,
                &format!("+ {}[(int)zero + 1]", of.2),
            )
    });
    let constants = program(&constants.collect::<String>()).unwrap();
    for (at, (of, expected)) in FUNCTIONS.iter().zip(expected).enumerate() {
        assert_eq!(written(&kernels, of.2), expected, "{}", of.2);
        let value = written(&constants, &format!("k{at}"));
        assert_eq!(value, expected + 2.0, "{}", of.2);
    }
}

#[test]
fn kernels_may_have_names_of_the_language_and_others_still_use_those() {
    let functions = [
        ("asin", "asinpi(zero + 0.5)"),
        ("acos", "acospi(zero + 0.5)"),
        ("atan", "atanpi(zero + 0.5)"),
        ("atan2", "atan2pi(zero + 0.5, 2.0)"),
        ("fmod", "remquo(zero + 7.0, 4.0, &e)"),
        ("pow", "rootn(zero + 7.0, 3)"),
    ];
    for (name, call) in functions {
        let of = |name: &str| {
            format!(
                "kernel void {name}(global float *x, float zero) {{ int e; x[0] = (float)({call}); }}"
            )
        };
        let Some(usual) = program(&of("k")) else {
            return;
        };
        let own = program(&of(name)).unwrap();
        assert_eq!(written(&own, name), written(&usual, "k"), "{name}");
    }
}

#[test]
fn functions_that_the_code_generator_calls_keep_their_names() {
    let body = "(global float *x, float zero) { double a[64]; for (int i = 0; i < 64; i++) a[i] = zero; \
        float4 v = (float4)(pow((double)zero + 2, 3.0)); x[0] = (float)(a[(int)zero] + v.x + exp(zero + 0.0)); }\n";
    let names = ["memset", "memcpy", "memmove", "own", "quipu_run_groups"];
    let text: String = names
        .iter()
        .map(|name| format!("kernel void {name}{body}"))
        .collect();
    let Some(program) = program(&text) else {
        return;
    };
    for name in names {
        assert_eq!(written(&program, name), 9.0, "{name}");
    }
}

/// The texts of the library of built-in functions.
const LIBRARY: [&str; 3] = [
    include_str!("../src/compiler/single.cl"),
    include_str!("../src/compiler/builtins.cl"),
    include_str!("../src/compiler/later.cl"),
];

/// The names of functions that the library keeps to itself: the last word before the parameters.
fn names_within_library() -> BTreeSet<&'static str> {
    let lines = LIBRARY.iter().flat_map(|text| text.lines());
    let declared = lines.filter_map(|line| {
        let of = ["INNER ", "SINGLE ", "static "];
        of.iter().find_map(|start| line.strip_prefix(start))
    });
    let names = declared.filter_map(|rest| {
        let before = rest.split_once('(')?.0;
        let word = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        word.into_iter().next().filter(|word| !word.is_empty())
    });
    let names: BTreeSet<_> = names.collect();
    for known in ["nearest", "fraction", "place", "__q_scaled"] {
        assert!(names.contains(known), "{known} is not among {names:?}");
    }
    names
}

/// Two rows of three texels with four channels.
fn image<T>(texels: &mut Vec<T>, data: u32) -> Argument<'static> {
    let bytes = 4 * size_of::<T>() as u32;
    assert_eq!(texels.len(), 24);
    Argument::Image(Box::leak(Box::new(Image {
        texels: texels.as_mut_ptr().cast(),
        width: 3,
        height: 2,
        depth: 1,
        layers: 1,
        row: u64::from(3 * bytes),
        slice: u64::from(6 * bytes),
        order: 0x10b5,
        data,
        channels: 4,
        bytes,
    })))
}

/// The result of a kernel with the body [`USER_OF_LIBRARY`]: numbers, and texels of bytes and of
/// numbers.
fn written_with_images(program: &Program, kernel: &str) -> (Vec<f32>, Vec<u8>, Vec<i32>) {
    let mut texels: Vec<f32> = (0..24).map(|number| number as f32 * 0.75 - 2.0).collect();
    let mut numbers: Vec<i32> = (0..24).map(|number| number * number - 40).collect();
    let (mut to, mut to_numbers) = (vec![0_u8; 24], vec![0_i32; 24]);
    let out = vec![0.0_f32; 64];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&out);
    // Of `float`, normalised bytes and `int`: OpenCL's numbers.
    let images = [
        image(&mut texels, 0x10de),
        image(&mut numbers, 0x10d9),
        image(&mut to, 0x10d2),
        image(&mut to_numbers, 0x10d9),
    ];
    launch.arguments.extend(images);
    launch.run(program, kernel);
    (out, to, to_numbers)
}

/// Calls functions of the library that call others of it.
const USER_OF_LIBRARY: &str = "(global float *out, read_only image2d_t of, read_only image2d_t numbers, write_only image2d_t to,
    write_only image2d_t to_numbers) {
    const sampler_t linear = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_LINEAR;
    const sampler_t mirror = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_MIRRORED_REPEAT | CLK_FILTER_LINEAR;
    const sampler_t border = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    float x = 0.3f + get_global_id(0);
    vstore4(read_imagef(of, linear, (float2)(x, 0.7f)), 0, out);
    vstore4(read_imagef(of, mirror, (float2)(x + 1.0f, 1.2f)), 1, out);
    vstore4(read_imagef(of, border, (float2)(x + 1.0f, 1.2f)), 2, out);
    vstore4(read_imagef(of, border, (int2)(1, -1)), 3, out);
    vstore4(convert_float4(read_imagei(numbers, border, (float2)(x + 2.0f, 1.2f))), 4, out);
    vstore4(convert_float4(read_imagei(numbers, (int2)(2, 1))), 5, out);
    out[24] = exp(x); out[25] = log(x); out[26] = sin(x); out[27] = pow(x, 1.5f); out[28] = tanh(x); out[29] = cbrt(x);
    out[30] = exp2(x); out[31] = exp10(x); out[32] = cos(x * 1e6f); out[33] = tan(x); out[34] = sinpi(x); out[35] = log2(x);
    out[36] = log10(x); out[37] = cospi(x); out[38] = tanpi(x); out[39] = pown(x, 3);
    write_imagef(to, (int2)(1, 1), (float4)(x, 2.0f, -1.0f, 0.5f));
    write_imagei(to_numbers, (int2)(2, 0), (int4)(1, -2, 3, -4));
}
";

#[test]
fn functions_kernels_and_constants_may_have_the_names_that_the_library_keeps_to_itself() {
    let Some(usual) = program(&format!("kernel void k{USER_OF_LIBRARY}")) else {
        return;
    };
    let usual = written_with_images(&usual, "k");
    assert!(usual.0[..40].iter().all(|number| number.is_finite()));
    let names = names_within_library();
    let own = |of: &dyn Fn(&str) -> String| {
        let numbers = names.iter().map(|name| of(name));
        let numbers: Vec<String> = numbers.collect();
        format!(
            "kernel void own(global float *x, float zero) {{ x[0] = {}; }}\nkernel void k{USER_OF_LIBRARY}",
            numbers.join(" + ")
        )
    };
    let sum = (0..names.len()).map(|at| at as f32 + 0.5).sum::<f32>();
    for inline in ["", "inline ", "static ", "__attribute__((noinline)) "] {
        let defined = names
            .iter()
            .enumerate()
            .map(|(at, name)| format!("{inline}float {name}(float x) {{ return x + {at}.5f; }}\n"));
        let text = defined.collect::<String>() + &own(&|name| format!("{name}(zero)"));
        let program = program(&text).unwrap();
        assert_eq!(written_with_images(&program, "k"), usual, "{inline}");
        assert_eq!(written(&program, "own"), sum, "{inline}");
    }
    let kernels = names
        .iter()
        .map(|name| format!("kernel void {name}{USER_OF_LIBRARY}"));
    let kernels = program(&kernels.collect::<String>()).unwrap();
    for name in ["nearest", "fraction", "__q_scaled"] {
        assert_eq!(written_with_images(&kernels, name), usual, "{name}");
    }
    let constants = names
        .iter()
        .map(|name| format!("constant float {name}[2] = {{1, 2}};\n"));
    let text = constants.collect::<String>() + &own(&|name| format!("{name}[(int)zero]"));
    let constants = program(&text).unwrap();
    assert_eq!(written_with_images(&constants, "k"), usual);
    assert_eq!(written(&constants, "own"), names.len() as f32);
}

//! Names of functions of C, which a program in OpenCL C may give to its own functions, kernels and constants.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::Program;
use support::{Launch, program};

/// The language's functions that are the system's, with arguments, and the system's name of each for `float`.
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

/// What a kernel writes that is passed these arguments, which it does not know before it runs.
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

/// What the functions give that have their names for themselves; none if there is no compiler.
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

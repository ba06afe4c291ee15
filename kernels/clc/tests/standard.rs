//! Rules of the standard that optimisers do not have by themselves.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{
    Argument, ClcError, FEATURES, Feature, MemoryAccess, Need, ParameterKind, Program,
};
use std::mem::MaybeUninit;
use support::{Launch, aligned, program};

/// Numbers of a type, of which some divide by zero or have no quotient.
fn operands(bits: u32, is_signed: bool, length: usize) -> [Vec<i128>; 2] {
    let least = if is_signed {
        -(1_i128 << (bits - 1))
    } else {
        0
    };
    let most = least + (1_i128 << bits) - 1;
    let near = [0, 1, 2, 3, 7, most, most - 1, least, least / 2, most / 3];
    let all = near
        .into_iter()
        .chain(is_signed.then_some([-1, -2, -7]).into_iter().flatten());
    let all: Vec<i128> = all.collect();
    let at = |index: usize| all[index % all.len()];
    [
        (0..length).map(|index| at(index / all.len())).collect(),
        (0..length).map(at).collect(),
    ]
}

/// The bytes of numbers of a width.
fn bytes(numbers: &[i128], bits: u32) -> Vec<u8> {
    let of = |number: &i128| number.to_le_bytes()[..bits as usize / 8].to_vec();
    numbers.iter().flat_map(of).collect()
}

#[test]
fn division_by_zero_goes_on_whatever_the_width() {
    const LENGTH: usize = 512;
    const LOCAL: usize = 32;
    let scalars = [(8, "char"), (16, "short"), (32, "int"), (64, "long")];
    let signed = scalars.map(|(bits, name)| (bits, true, name.to_owned()));
    let unsigned = scalars.map(|(bits, name)| (bits, false, format!("u{name}")));
    let scalars = signed.into_iter().chain(unsigned);
    let types: Vec<_> = scalars
        .flat_map(|(bits, is_signed, name)| {
            [1, 4].map(|width| {
                let name = match width {
                    1 => name.clone(),
                    _ => format!("{name}{width}"),
                };
                (bits, is_signed, width, name)
            })
        })
        .collect();
    let kernels = types.iter().map(|(_, _, _, of)| {
        format!(
            "kernel void divide_{of}(global const {of} *a, global const {of} *b, {of} zero,
                                     global {of} *quotients, global {of} *rests) {{
                size_t i = get_global_id(0);
                quotients[i] = a[i] / b[i];
                rests[i] = a[i] % b[i];
                if (a == quotients) quotients[i] = i & 1 ? a[i] / zero : a[i] % zero;
            }}\n"
        )
    });
    let Some(program) = program(&kernels.collect::<String>()) else {
        return;
    };
    for (bits, is_signed, width, name) in types {
        let [a, b] = operands(bits, is_signed, LENGTH);
        let [of, by] = [&a, &b].map(|numbers| aligned(&bytes(numbers, bits)));
        let [quotients, rests] = [(); 2].map(|()| aligned(&vec![0; of.len()]));
        let each = bits as usize / 8;
        let zero = vec![MaybeUninit::new(0_u8); each * width].into_boxed_slice();
        let zero: &[_] = Box::leak(zero);
        let kernel = format!("divide_{name}");
        let run = |quotients: &[u8]| {
            let mut launch = Launch::new([LENGTH / width, 1, 1], [LOCAL, 1, 1]);
            launch.memory(of);
            launch.memory(by);
            launch.arguments.push(Argument::Value(zero));
            launch.memory(quotients);
            launch.memory(rests);
            launch.run(&program, &kernel);
        };
        run(quotients);
        let least = -(1_i128 << (bits - 1));
        for index in 0..LENGTH {
            let (a, b) = (a[index], b[index]);
            if b == 0 || is_signed && a == least && b == -1 {
                continue;
            }
            let at = index * each..(index + 1) * each;
            let case = format!("{name}: {a} {b}");
            assert_eq!(quotients[at.clone()], bytes(&[a / b], bits), "{case}");
            assert_eq!(rests[at], bytes(&[a % b], bits), "{case}");
        }
        // Then the dividends are the place of the quotients, and each is divided by zero.
        run(of);
    }
}

#[test]
fn a_divisor_may_be_compared_with_zero_after_the_division() {
    let Some(program) = program(
        "kernel void k(global const int *a, global const int *b, global int *to) {
            size_t i = get_global_id(0);
            int quotient = a[i] / b[i];
            if (b[i] == 0) quotient = -1;
            to[i] = quotient;
        }",
    ) else {
        return;
    };
    let (a, b, to) = (
        vec![12_i32; 64],
        (0..64).collect::<Vec<i32>>(),
        vec![0_i32; 64],
    );
    for local in [1, 32] {
        let mut launch = Launch::new([64, 1, 1], [local, 1, 1]);
        launch.memory(&a);
        launch.memory(&b);
        launch.memory(&to);
        launch.run(&program, "k");
        let wanted: Vec<i32> = b
            .iter()
            .map(|b| 12_i32.checked_div(*b).unwrap_or(-1))
            .collect();
        assert_eq!(to, wanted);
    }
}

#[test]
fn what_is_written_through_a_cast_is_written() {
    let Some(program) = program(
        "kernel void k(global const int *cast, global const int *kept, constant int *same, global int *to) {
            ((global int *)cast)[get_global_id(0)] = kept[get_global_id(0)] + same[0];
            to[get_global_id(0)] = 1;
        }",
    ) else {
        return;
    };
    let parameters = &program.kernel("k").unwrap().parameters;
    let wanted = [
        MemoryAccess::Write,
        MemoryAccess::Read,
        MemoryAccess::Read,
        MemoryAccess::Write,
    ];
    for (parameter, access) in parameters.iter().zip(wanted) {
        assert_eq!(
            parameter.kind,
            ParameterKind::Memory(access),
            "{}",
            parameter.name
        );
    }
}

#[test]
fn sub_groups_that_are_too_large_for_ballots_are_refused_by_name() {
    let of = |size: u32, body: &str| {
        let text = format!(
            "__attribute__((intel_reqd_sub_group_size({size}))) kernel void named(global uint *x) {{ x[get_global_id(0)] = {body}; }}"
        );
        Program::new(&text, "-cl-std=CL3.0")
    };
    if program("kernel void k() {}").is_none() {
        return;
    }
    match of(256, "sub_group_ballot(1).x").unwrap_err() {
        ClcError::Refused(log) => {
            assert!(
                log.contains("'named'") && log.contains("256 work-items"),
                "{log}"
            );
        }
        error => panic!("{error}"),
    }
    for (size, body) in [(128, "sub_group_ballot(1).x"), (256, "sub_group_any(1)")] {
        let kernels = of(size, body).unwrap();
        assert_eq!(kernels.kernels()[0].sub_group_size, Some(size));
    }
}

#[test]
fn atomic_numbers_take_operands_of_the_other_sign() {
    if program("kernel void nothing() {}").is_none() {
        return;
    }
    let text = "kernel void mixed(global atomic_ulong *a, global atomic_uintptr_t *b, global atomic_long *c, global ulong *old) {
        local atomic_ulong l;
        atomic_init(&l, 40);
        long less = -3;
        ulong more = 5;
        old[0] = atomic_fetch_add(a, less);
        old[1] = atomic_fetch_sub_explicit(a, less, memory_order_relaxed);
        old[2] = atomic_fetch_add_explicit(b, (ptrdiff_t)less, memory_order_relaxed, memory_scope_device);
        old[3] = atomic_fetch_sub(b, (ptrdiff_t)less);
        old[4] = atomic_fetch_or(b, (intptr_t)8);
        old[5] = atomic_fetch_xor(a, (intptr_t)3);
        old[6] = atomic_fetch_and_explicit(a, (intptr_t)-2, memory_order_acq_rel);
        old[7] = atomic_fetch_min(a, less);
        old[8] = atomic_fetch_or(c, (uintptr_t)more);
        old[9] = atomic_fetch_min(c, (uintptr_t)more);
        old[10] = atomic_fetch_add(&l, less);
        old[11] = atomic_load(&l);
    }";
    let program = Program::new(text, "-cl-std=CL3.0").unwrap();
    let (numbers, old) = (vec![100_u64, 200, 64], vec![0_u64; 12]);
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    for number in &numbers {
        launch.memory(std::slice::from_ref(number));
    }
    launch.memory(&old);
    launch.run(&program, "mixed");
    let wanted = [100, 97, 200, 197, 200, 100, 103, 102, 64, 69, 40, 37];
    assert_eq!(old, wanted);
    assert_eq!(numbers, [102, 200, 5]);
}

/// Macros come from clang, or from its header, as its version has it.
#[test]
fn programs_are_told_of_the_same_extensions_whatever_version_of_clang_there_is() {
    const NEVER: [&str; 6] = [
        "cl_khr_kernel_clock",
        "__opencl_c_pipes",
        "__opencl_c_device_enqueue",
        "__opencl_c_ext_fp16_global_atomic_add",
        "__opencl_c_ext_image_raw10_raw12",
        "__opencl_c_ext_image_unsigned_10x6_12x4_14x2",
    ];
    if program("kernel void f() {}").is_none() {
        return;
    }
    let told = |name: &str| format!("#ifndef {name}\n#error {name} is missing\n#endif\n");
    let untold = |name: &str| format!("#ifdef {name}\n#error {name} is there\n#endif\n");
    for (options, is_later) in [
        ("", false),
        ("-cl-std=CL1.1", false),
        ("-cl-std=CL1.2", false),
        ("-cl-std=CL2.0", true),
        ("-cl-std=CL3.0", true),
    ] {
        // Those that OpenCL C 3.0 leaves optional have macros there alone, and clang has images of
        // depths from 1.2 on.
        let has_name = |feature: &&Feature| {
            let is_too_new = options.ends_with("1.1") && feature.name == "cl_khr_depth_images";
            feature.is_extension() && !is_too_new || options.ends_with("3.0")
        };
        let of_device = FEATURES.iter().filter(has_name);
        let of_device = of_device.map(|feature| match is_later || !feature.is_later {
            true => told(feature.name),
            false => untold(feature.name),
        });
        let always = of_device.chain([told("__IMAGE_SUPPORT__")]);
        let lines: String = always.chain(NEVER.map(untold)).collect();
        Program::new(&format!("{lines}kernel void f() {{}}"), options)
            .unwrap_or_else(|error| panic!("{options}: {error}"));
    }
}

/// As a device that has none of it is told.
#[test]
fn what_a_device_lacks_has_no_macro_and_is_refused() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    let absent = Need::ALL.map(Need::absent).join(" ");
    let language = |feature: &&Feature| feature.need == Need::Language;
    for (version, has_language) in [("CL1.2", false), ("CL2.0", true), ("CL3.0", false)] {
        let options = format!("-cl-std={version} {absent}");
        let untold = FEATURES
            .iter()
            .filter(|feature| feature.need != Need::Nothing);
        let untold = untold.filter(|feature| !has_language || !language(feature));
        let untold = untold
            .map(|feature| feature.name)
            .chain(["__IMAGE_SUPPORT__"]);
        let lines: String = untold
            .map(|name| format!("#ifdef {name}\n#error {name} is there\n#endif\n"))
            .collect();
        let text = format!(
            "{lines}kernel void f(global float *x, global int *n) {{ int e; x[0] = frexp(x[0], &e); n[0] = atomic_add(n + 1, e); }}"
        );
        Program::new(&text, &options).unwrap_or_else(|error| panic!("{version}: {error}"));
        for (text, is_taken) in [
            ("kernel void f(global double *x) { x[0] = 1; }", false),
            (
                "kernel void f(global half *x) { x[0] = x[1] * x[1]; }",
                false,
            ),
            ("kernel void f(global long *x) { atom_add(x, 1L); }", false),
            (
                "kernel void f(global uint *x) { x[0] = sub_group_ballot(1).x; }",
                false,
            ),
            (
                "kernel void f(global int *x) { x[0] = dot_acc_sat((char4)1, (char4)1, 1); }",
                false,
            ),
            (
                "void g(int *x) { *x = 1; } kernel void f(global int *x) { g(x); }",
                has_language,
            ),
        ] {
            let read = Program::new(text, &options);
            assert_eq!(read.is_ok(), is_taken, "{version}: {text}: {read:?}");
        }
    }
}

#[test]
fn sub_groups_and_products_are_there_in_each_version_of_the_language() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    let text = "
    #if !defined(cl_khr_subgroups) || !defined(cl_khr_subgroup_ballot) || !defined(cl_khr_integer_dot_product)
    #error they are missing
    #endif
    kernel void sums(global int *x) {
        int i = get_local_id(0);
        x[i] = sub_group_reduce_add(x[i]) + (int)sub_group_ballot(i < 3).x + dot((char4)i, (char4)(1, 2, 3, 4));
    }";
    for version in ["CL1.0", "CL1.1", "CL1.2", "CL2.0", "CL3.0"] {
        let program = Program::new(text, &format!("-cl-std={version} -Werror")).unwrap();
        let numbers: Vec<i32> = (0..8).collect();
        let mut launch = Launch::new([8, 1, 1], [8, 1, 1]);
        launch.memory(&numbers);
        launch.run(&program, "sums");
        let expected: Vec<i32> = (0..8).map(|i| 28 + 7 + 10 * i).collect();
        assert_eq!(std::hint::black_box(&numbers), &expected, "{version}");
    }
}

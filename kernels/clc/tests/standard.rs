//! Rules of the standard that optimisers do not have by themselves.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, ClcError, MemoryAccess, ParameterKind, Program};
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
    const ALWAYS: [&str; 6] = [
        "cl_khr_fp16",
        "cl_khr_fp64",
        "cl_khr_int64_base_atomics",
        "cl_khr_byte_addressable_store",
        "cl_khr_extended_bit_ops",
        "__IMAGE_SUPPORT__",
    ];
    const LATER: [&str; 16] = [
        "cl_khr_subgroups",
        "cl_khr_subgroup_extended_types",
        "cl_khr_subgroup_non_uniform_vote",
        "cl_khr_subgroup_ballot",
        "cl_khr_subgroup_non_uniform_arithmetic",
        "cl_khr_subgroup_shuffle",
        "cl_khr_subgroup_shuffle_relative",
        "cl_khr_subgroup_clustered_reduce",
        "cl_khr_subgroup_rotate",
        "cl_khr_integer_dot_product",
        "__opencl_c_integer_dot_product_input_4x8bit_packed",
        "cl_ext_float_atomics",
        "__opencl_c_ext_fp32_global_atomic_add",
        "__opencl_c_ext_fp64_local_atomic_min_max",
        "__opencl_c_generic_address_space",
        "__opencl_c_work_group_collective_functions",
    ];
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
        let always = ALWAYS.map(told);
        let later = if is_later {
            LATER.map(told)
        } else {
            LATER.map(untold)
        };
        let never = NEVER.map(untold);
        let lines = [always.concat(), later.concat(), never.concat()].concat();
        Program::new(&format!("{lines}kernel void f() {{}}"), options)
            .unwrap_or_else(|error| panic!("{options}: {error}"));
    }
}

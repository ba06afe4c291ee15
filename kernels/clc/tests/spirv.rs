//! SPIR-V on processors: the results of modules, and the messages for faulty ones.
//!
//! Modules are assembled by `spirv-as`. Without it or the machine's translator these tests are left
//! out.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{
    Argument, ClcError, Image, KernelInfo, MemoryAccess, ParameterKind, Program, SpirV, Unit,
    set_compiler,
};
use std::io::Write;
use std::process::{Command, Stdio};
use support::{Launch, random};

const KERNELS: &str = include_str!("spirv/kernels.spvasm");
const KERNELS_TEXT: &str = include_str!("spirv/kernels.cl");
const SMALL: &str = include_str!("spirv/small.spvasm");
const LINES: &str = include_str!("spirv/lines.spvasm");
const IMAGES: &str = include_str!("spirv/images.spvasm");
const LATER: &str = include_str!("spirv/later.spvasm");

/// True if the machine has what these tests take; else a line says so.
fn is_tested() -> bool {
    set_compiler(env!("CARGO_BIN_EXE_quipu-clc").into(), Vec::new());
    let has_assembler = Command::new("spirv-as").arg("--version").output().is_ok();
    if has_assembler && quipu_clc::takes_spirv() {
        return true;
    }
    assert!(
        std::env::var_os("QUIPU_TEST_SPIRV").is_none(),
        "there is no spirv-as, or no llvm-spirv, and QUIPU_TEST_SPIRV wants them"
    );
    println!("NOT TESTED: SPIR-V on processors: no spirv-as, or no llvm-spirv");
    false
}

/// The bytes of a module, in a version of SPIR-V.
fn assembled(text: &str, version: &str) -> Vec<u8> {
    let mut child = Command::new("spirv-as")
        .args(["--target-env", &format!("spv{version}"), "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn program_of(bytes: &[u8]) -> Result<Program, ClcError> {
    Program::of_spirv(&SpirV::new(bytes)?)
}

/// The program of a module, and that of the text which it was made of.
fn both() -> [Program; 2] {
    let text = Program::new(KERNELS_TEXT, "-cl-std=CL3.0 -cl-opt-disable").unwrap();
    [program_of(&assembled(KERNELS, "1.4")).unwrap(), text]
}

fn numbers(count: usize, seed: u64) -> Vec<i32> {
    let numbers = random(count, seed).into_iter();
    numbers.map(|number| (number * 1e9) as i32).collect()
}

#[test]
fn what_a_module_says_of_its_kernels_is_known() {
    if !is_tested() {
        return;
    }
    let program = program_of(&assembled(KERNELS, "1.4")).unwrap();
    let names: Vec<&str> = program
        .kernels()
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    let wanted = [
        "sums",
        "mathematics",
        "integers",
        "counts",
        "copies",
        "prints",
    ];
    assert_eq!(names, wanted);
    let sums: &KernelInfo = program.kernel("sums").unwrap();
    assert_eq!(sums.required_local_size, Some([16, 1, 1]));
    assert_eq!(sums.attributes, ["reqd_work_group_size(16,1,1)"]);
    assert!(sums.has_barriers);
    let said: Vec<_> = sums
        .parameters
        .iter()
        .map(|it| {
            (
                it.name.as_str(),
                it.type_name.as_str(),
                it.qualifiers.as_str(),
                it.kind,
            )
        })
        .collect();
    let value = ParameterKind::Value {
        size: 32,
        align: 16,
    };
    let [read, written] = [MemoryAccess::Read, MemoryAccess::Write].map(ParameterKind::Memory);
    assert_eq!(
        said,
        [
            ("x", "float*", "restrict", read),
            ("to", "float*", "", written),
            ("part", "float*", "", ParameterKind::Local),
            ("settings", "struct Settings", "", value),
        ]
    );
    assert_eq!(program.kernel("counts").unwrap().local_bytes, 128);
}

#[test]
fn kernels_of_a_module_do_what_those_of_its_text_do() {
    if !is_tested() {
        return;
    }
    let programs = both();
    let x = random(256, 1);
    let sums = programs.each_ref().map(|program| {
        let to = vec![0_f32; 4];
        let mut launch = Launch::new([64, 1, 1], [16, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.arguments.push(Argument::Local(64));
        launch.value([3_u32, 0, 0, 0, 0, 0.5_f32.to_bits(), 0, 0]);
        launch.run(program, "sums");
        to
    });
    let mut wanted = vec![0.5_f32; 4];
    for (i, x) in x[..64].iter().enumerate() {
        wanted[i / 16] += x * [0.25, 0.5, 1.0, 2.0][i & 3] * 3.0;
    }
    for (got, wanted) in sums[0].iter().zip(&wanted) {
        assert!((got - wanted).abs() < 1e-4, "{got} {wanted}");
    }
    assert_eq!(sums[0], sums[1]);

    let mathematics = programs.each_ref().map(|program| {
        let to = vec![0_f32; 256];
        let mut launch = Launch::new([64, 1, 1], [32, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.run(program, "mathematics");
        to
    });
    assert!(mathematics[0].iter().any(|number| number.abs() > 0.1));
    for (module, text) in mathematics[0].iter().zip(&mathematics[1]) {
        // What is contracted to one operation may differ in the last bits.
        let near = (module - text).abs() <= 1e-5 * text.abs().max(1.0);
        assert!(
            near || module.to_bits() == text.to_bits(),
            "{module} {text}"
        );
    }

    let x = numbers(256, 2);
    let integers = programs.each_ref().map(|program| {
        let to = vec![0_i32; 256];
        let mut launch = Launch::new([64, 1, 1], [16, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.run(program, "integers");
        to
    });
    assert_eq!(integers[0], integers[1]);

    let counts = programs.each_ref().map(|program| {
        let (bins, sum, most) = (vec![0_i32; 16], vec![0_i64], vec![0_u32]);
        let mut launch = Launch::new([256, 1, 1], [32, 1, 1]);
        launch.memory(&x);
        launch.memory(&bins);
        launch.memory(&sum);
        launch.memory(&most);
        launch.run(program, "counts");
        (bins, sum, most)
    });
    let mut wanted = vec![0; 8];
    x.iter().for_each(|x| wanted[(x & 7) as usize] += 1);
    assert_eq!(counts[0].0[..8], wanted);
    assert_eq!(counts[0].0[8..], [5, 11, 255, 2, 2, 0, 0, 0]);
    assert_eq!(counts[0].1[0], 256 << 33);
    assert_eq!(counts[0], counts[1]);

    let x = random(64, 3);
    for program in &programs {
        let to = vec![0_f32; 128];
        let mut launch = Launch::new([64, 1, 1], [8, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.arguments.push(Argument::Local(32));
        launch.run(program, "copies");
        for i in 0..64 {
            let mirrored = i / 8 * 8 + 7 - i % 8;
            assert_eq!(to[2 * i], x[i] + x[mirrored]);
            assert_eq!(to[2 * i + 1], 0.0);
        }
    }
}

/// Run by the test below in a process of its own, whose output is looked at.
#[test]
fn prints_in_a_process_of_its_own() {
    if std::env::var_os("QUIPU_TEST_PRINTS").is_none() || !is_tested() {
        return;
    }
    let program = program_of(&assembled(KERNELS, "1.4")).unwrap();
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&[7_i32, -4]);
    launch.run(&program, "prints");
    let lines = program_of(&assembled(LINES, "1.0")).unwrap();
    Launch::new([1, 1, 1], [1, 1, 1]).run(&lines, "lines");
}

#[test]
fn a_module_prints() {
    if !is_tested() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "prints_in_a_process_of_its_own", "--nocapture"])
        .env("QUIPU_TEST_PRINTS", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("7| 1.50|1,2,3,-4|text|1099511627776\nline\ntwo\n!"),
        "{text}"
    );
}

/// The result of the small module's kernel.
fn constants(module: &SpirV) -> Vec<u64> {
    let program = Program::of_spirv(module).unwrap();
    let to = vec![0_u64; 6];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&to);
    launch.run(&program, "constants");
    to
}

#[test]
fn constants_are_specialised() {
    if !is_tested() {
        return;
    }
    let mut module = SpirV::new(&assembled(SMALL, "1.0")).unwrap();
    let product = |a: f64, b: f64| (a * b).to_bits();
    let wanted = [1, 7, 300, 5_000_000_000, 1, product(2.25, 1.5)];
    assert_eq!(constants(&module), wanted);
    let sizes: Vec<Option<usize>> = [0, 1, 2, 3, 4, 5, 6, 60]
        .map(|id| module.constant_size(id))
        .into();
    let some = [
        None,
        Some(1),
        Some(1),
        Some(2),
        Some(8),
        Some(4),
        None,
        Some(8),
    ];
    assert_eq!(sizes, some);
    module.specialise(1, &[0]).unwrap();
    module.specialise(2, &[0xff]).unwrap();
    module.specialise(3, &0xfff0_u16.to_ne_bytes()).unwrap();
    module.specialise(4, &u64::MAX.to_ne_bytes()).unwrap();
    module.specialise(5, &3.5_f32.to_ne_bytes()).unwrap();
    module.specialise(60, &0.125_f64.to_ne_bytes()).unwrap();
    let wanted = [0, 255, 0xfff0, u64::MAX, 3, product(0.125, 3.5)];
    assert_eq!(constants(&module), wanted);
    module.specialise(1, &[2]).unwrap();
    assert_eq!(constants(&module)[0], 1);
    for (id, value) in [
        (1, "false"),
        (2, "-1"),
        (3, "17"),
        (4, "9"),
        (5, "-0.5"),
        (60, "4"),
    ] {
        module.specialise_as(id, value).unwrap();
    }
    // A negative number is converted to one without a sign as the processor likes.
    assert_eq!(constants(&module)[..4], [0, 255, 17, 9]);
    assert_eq!(constants(&module)[5], product(4.0, -0.5));
    for (id, value) in [(1, "2"), (2, "256"), (3, "1.5"), (5, "x"), (9, "1")] {
        let said = module.specialise_as(id, value).unwrap_err().to_string();
        assert!(said.contains(&format!("constant {id}")), "{said}");
    }
    for (id, value) in [(7, &[0][..]), (1, &[0; 4]), (60, &[0; 4]), (4, &[])] {
        assert!(matches!(
            module.specialise(id, value),
            Err(ClcError::Refused(_))
        ));
    }
}

#[test]
fn each_version_and_order_of_bytes_is_read() {
    if !is_tested() {
        return;
    }
    let wanted = constants(&SpirV::new(&assembled(SMALL, "1.0")).unwrap());
    for version in ["1.1", "1.2", "1.3", "1.4", "1.5", "1.6"] {
        let module = SpirV::new(&assembled(SMALL, version)).unwrap();
        assert_eq!(constants(&module), wanted, "{version}");
    }
    let mut swapped = assembled(SMALL, "1.0");
    swapped.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    assert_eq!(constants(&SpirV::new(&swapped).unwrap()), wanted);
}

#[test]
fn instructions_of_later_versions_do_what_they_should() {
    if !is_tested() {
        return;
    }
    for version in ["1.4", "1.5", "1.6"] {
        let program = program_of(&assembled(LATER, version)).unwrap();
        let places = [[0_u32; 4]; 6];
        for (a, b) in [(0, 0), (0, 5), (1, 4), (5, 2)] {
            let to = vec![99_u32; 8];
            let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
            launch.memory(&to);
            launch.memory(&places[a..]);
            launch.memory(&places[b..]);
            launch.run(&program, "later");
            let (same, far) = (u32::from(a == b), (b as u32).wrapping_sub(a as u32));
            assert_eq!(to, [same, 1 - same, far, 7, 4, 5, far, 7], "{version}");
        }
    }
}

#[test]
fn a_module_and_a_text_are_linked() {
    if !is_tested() {
        return;
    }
    const IMPORTING: &str = "
        OpCapability Addresses
        OpCapability Linkage
        OpCapability Kernel
        OpMemoryModel Physical64 OpenCL
        OpEntryPoint Kernel %kernel \"k\"
        OpDecorate %twice LinkageAttributes \"twice\" Import
        %void = OpTypeVoid
        %uint = OpTypeInt 32 0
        %global = OpTypePointer CrossWorkgroup %uint
        %helper = OpTypeFunction %uint %uint
        %type = OpTypeFunction %void %global
        %twice = OpFunction %uint None %helper
        %given = OpFunctionParameter %uint
        OpFunctionEnd
        %kernel = OpFunction %void None %type
        %to = OpFunctionParameter %global
        %label = OpLabel
        %was = OpLoad %uint %to Aligned 4
        %is = OpFunctionCall %uint %twice %was
        OpStore %to %is Aligned 4
        OpReturn
        OpFunctionEnd";
    let module = SpirV::new(&assembled(IMPORTING, "1.2")).unwrap();
    let module = Unit::of_spirv(&module).unwrap();
    let text = Unit::new("uint twice(uint x) { return 2 * x; }", "", &[]).unwrap();
    for units in [[&module, &text], [&text, &module]] {
        let program = Program::of(&Unit::link(&units).unwrap()).unwrap();
        let to = vec![21_u32];
        let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
        launch.memory(&to);
        launch.run(&program, "k");
        assert_eq!(to, [42]);
    }
    let alone = Program::of(&module).unwrap_err().to_string();
    assert!(alone.contains("'twice'"), "{alone}");
}

#[test]
fn what_is_no_module_is_refused_by_name() {
    let module =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let head = |version: u32, bound: u32| vec![0x0723_0203, version, 0, bound, 0];
    let with = |rest: &[u32]| module(&[&head(0x10000, 8)[..], rest].concat());
    for (bytes, says) in [
        (Vec::new(), "does not begin"),
        (b"kernel void k() {}".to_vec(), "does not begin"),
        (module(&[0x0723_0203, 0x10000]), "cut off"),
        (module(&head(0x10700, 8)), "1.7"),
        (module(&head(0x20000, 8)), "2.0"),
        (module(&head(0x10000, 0)), "numbers"),
        (module(&head(0x10000, u32::MAX)), "numbers"),
        (module(&head(0x10000, 8)), "OpCapability Kernel"),
        (with(&[0]), "damaged, at word 5"),
        (with(&[2 << 16 | 17]), "damaged, at word 5"),
        // Shader, and memory of 32 bits.
        (with(&[2 << 16 | 17, 1]), "OpCapability Kernel"),
        (with(&[2 << 16 | 17, 6, 3 << 16 | 14, 1, 2]), "64 bits"),
        (with(&[2 << 16 | 17, 6, 3 << 16 | 14, 2, 1]), "64 bits"),
        (
            with(&[
                2 << 16 | 17,
                6,
                3 << 16 | 14,
                2,
                2,
                5 << 16 | 15,
                0,
                1,
                0x6b,
                0,
            ]),
            "no kernel",
        ),
    ] {
        match SpirV::new(&bytes) {
            Err(ClcError::Refused(said)) => assert!(said.contains(says), "{said}"),
            other => panic!("{other:?} where '{says}' is wanted"),
        }
    }
}

/// Looks that a module is taken, or refused with words.
fn is_answered(bytes: &[u8]) -> bool {
    match program_of(bytes) {
        Ok(_) => true,
        Err(ClcError::Refused(said) | ClcError::Failed(said)) => {
            assert!(!said.is_empty());
            false
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn modules_that_are_cut_off_are_refused() {
    if !is_tested() {
        return;
    }
    let whole = assembled(SMALL, "1.0");
    // Up to its first entry point it is a module without kernels, and of such a module a program
    // can be made.
    let word = |at: usize| u32::from_le_bytes(whole[4 * at..][..4].try_into().unwrap());
    const ENTRY_POINT: u32 = 15;
    let mut without_kernels = 5;
    while word(without_kernels) & 0xffff != ENTRY_POINT {
        without_kernels += (word(without_kernels) >> 16) as usize;
    }
    for words in 0..whole.len() / 4 {
        let is_whole = words == without_kernels;
        assert_eq!(is_answered(&whole[..4 * words]), is_whole, "{words} words");
    }
    assert!(is_answered(&whole));
}

#[test]
fn modules_with_wrong_bits_are_answered() {
    if !is_tested() {
        return;
    }
    let whole = assembled(SMALL, "1.0");
    let mut state = 0x5150_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..200 {
        let mut bytes = whole.clone();
        for _ in 0..=next(3) {
            bytes[next(whole.len())] ^= 1 << next(8);
        }
        is_answered(&bytes);
    }
}

#[test]
fn modules_read_images_by_samplers_and_write_them() {
    if !is_tested() {
        return;
    }
    // RGBA, and floating point: OpenCL's numbers.
    let image = |texels: &mut [f32], side: u32| -> &'static Image {
        Box::leak(Box::new(Image {
            texels: texels.as_mut_ptr().cast(),
            width: side,
            height: side,
            depth: 1,
            layers: 1,
            row: 16 * u64::from(side),
            slice: texels.len() as u64 * 4,
            order: 0x10b5,
            data: 0x10de,
            channels: 4,
            bytes: 16,
        }))
    };
    let mut texels: Vec<f32> = (0..16).map(|number| number as f32).collect();
    let from = image(&mut texels, 2);
    // To whole numbers of texels, and between them: of the last corner, that is the mean of all
    // four.
    const NEAREST: u32 = 2;
    const LINEAR: u32 = 0x20 | 2;
    // The assembler of this version may not know what the last one says of an access: its bit is
    // put in.
    let plain = IMAGES.replace("%NONTEMPORAL%", "").replace("%ALSO%", "");
    let later = IMAGES.replace("Lod%NONTEMPORAL%", "!0x4002");
    let later = later.replace("%ALSO%", " !0x4000");
    for (text, version) in [(plain, "1.0"), (later, "1.6")] {
        let program = program_of(&assembled(&text, version)).unwrap();
        let kind =
            |kernel: &str, index: usize| program.kernel(kernel).unwrap().parameters[index].kind;
        assert_eq!(kind("passed", 0), ParameterKind::Image(MemoryAccess::Read));
        assert_eq!(kind("passed", 1), ParameterKind::Image(MemoryAccess::Write));
        assert_eq!(kind("passed", 2), ParameterKind::Sampler);
        for (kernel, sampler, wanted) in [
            ("literal", None, [0.0, 1.0, 2.0, 3.0]),
            ("passed", Some(NEAREST), [12.0, 13.0, 14.0, 15.0]),
            ("passed", Some(LINEAR), [6.0, 7.0, 8.0, 9.0]),
        ] {
            let mut written = vec![-1.0_f32; 4];
            let to = image(&mut written, 1);
            let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
            launch.arguments.push(Argument::Image(from));
            launch.arguments.push(Argument::Image(to));
            if let Some(sampler) = sampler {
                launch.value(sampler);
            }
            launch.run(&program, kernel);
            assert_eq!(written, wanted, "{kernel} {sampler:?} {version}");
        }
    }
}

#[test]
fn kernels_of_a_module_become_ptx_as_those_of_its_text_do() {
    if !is_tested() {
        return;
    }
    let [of_module, of_text] = both();
    for kernel in of_module.kernels() {
        let [module, text] = [&of_module, &of_text].map(|program| program.ptx(&kernel.name, 90));
        match (module, text) {
            (Ok(module), Ok(_)) => {
                let entry = format!(".visible .entry {}(", kernel.name);
                assert!(module.contains(&entry), "{module}");
                if let Ok(folder) = std::env::var("PTX_FOLDER") {
                    std::fs::write(format!("{folder}/spirv-{}.ptx", kernel.name), &module).unwrap();
                }
            }
            // What there is on processors alone, of both.
            (Err(module), Err(text)) => assert_eq!(module.to_string(), text.to_string()),
            (module, text) => panic!("{}: {:?} and {:?}", kernel.name, module.err(), text.err()),
        }
    }
}

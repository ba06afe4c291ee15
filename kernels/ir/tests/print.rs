//! Printed text: it is readable and the same each time, and operations that a dialect lacks are
//! refused by name.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use std::path::PathBuf;

use quipu_kernel_ir::print::EntryKind;
use quipu_kernel_ir::{
    Allowances, AtomicOperation, BinaryOperation, Dialect, FenceOrder, FunctionBuilder, IndexWidth,
    Module, ModuleBuilder, OpenClFeatures, Operation, Options, Origin, Place, PrintError, Property,
    Scalar, Scope, SharedId, SharedLength, Statement, Type, UnaryOperation, Unit, WarpOperation,
};
use quipu_kernel_testing::{C99Program, CudaProgram, corpus};

const OPENCL: Dialect = Dialect::OpenCl(OpenClFeatures::USUAL);
const DIALECTS: [(Dialect, &str); 3] = [(Dialect::C99, "c"), (OPENCL, "cl"), (Dialect::Cuda, "cu")];

fn print(module: &Module, dialect: Dialect) -> String {
    let options = Options::new(dialect, IndexWidth::Bits32);
    module.print(dialect, &options).unwrap().source
}

/// Compares with `tests/golden/`; `QUIPU_UPDATE_GOLDEN=1` writes there instead, to be looked at
/// before it is committed.
#[track_caller]
fn golden(name: &str, module: &Module) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (dialect, ending) in DIALECTS {
        let source = print(module, dialect);
        let path = folder.join(format!("{name}.{ending}"));
        if std::env::var("QUIPU_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &source).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert!(
            source == expected,
            "{} is printed differently:\n{source}",
            path.display()
        );
    }
}

#[test]
fn versions_of_pocl_are_known() {
    let platform = |version| format!("Portable Computing Language OpenCL 3.0 {version}");
    for (version, major) in [
        ("pocl 1.8  Linux", Some(1)),
        ("PoCL 3.1+debian  Linux", Some(3)),
        ("PoCL 5.0+debian  Linux", Some(5)),
        ("PoCL 5.1-pre", Some(5)),
        ("PoCL 50.0", Some(50)),
        ("CUDA 12.4", None),
    ] {
        assert_eq!(
            OpenClFeatures::major_of_pocl(&platform(version)),
            major,
            "{version}"
        );
    }
}

#[test]
fn saxpy_is_readable() {
    golden("saxpy", &corpus::saxpy());
}

#[test]
fn a_reduction_is_readable() {
    golden("block_sum", &corpus::block_sum());
}

#[test]
fn a_match_is_readable() {
    golden("classify", &corpus::classify());
}

#[test]
fn printing_twice_gives_the_same() {
    for (name, module) in corpus::all() {
        for (dialect, _) in DIALECTS {
            let options = Options::new(dialect, IndexWidth::Bits64);
            assert_eq!(
                module.print(dialect, &options),
                module.clone().print(dialect, &options),
                "{name}"
            );
        }
    }
}

#[test]
fn what_a_module_allows_is_printed_as_if_asked_for() {
    let plain = corpus::saxpy();
    let allowed = |allow: fn(&mut Allowances)| {
        let mut module = plain.clone();
        allow(&mut module.allowances);
        module
    };
    for (dialect, _) in DIALECTS {
        let options = Options::new(dialect, IndexWidth::Bits32);
        let same = |allow: fn(&mut Allowances), asked: Options| {
            let printed = allowed(allow).print(dialect, &options).unwrap();
            assert_eq!(printed, plain.print(dialect, &asked).unwrap());
            assert_ne!(printed, plain.print(dialect, &options).unwrap());
        };
        same(
            |allowed| allowed.fast_math = true,
            Options {
                fast_math: true,
                ..options
            },
        );
        same(
            |allowed| allowed.contract = true,
            Options {
                contract: true,
                ..options
            },
        );
        same(
            |allowed| allowed.unchecked = true,
            Options {
                checked: false,
                ..options
            },
        );
        if dialect != Dialect::C99 {
            same(
                |allowed| allowed.flush_to_zero = true,
                Options {
                    flush_to_zero: true,
                    ..options
                },
            );
        }
    }
}

#[test]
fn options_are_followed() {
    let module = corpus::saxpy();
    for (dialect, _) in DIALECTS {
        let plain = Options::new(dialect, IndexWidth::Bits32);
        let said = |options: Options| module.print(dialect, &options).unwrap().compiler_options;
        let other = [
            Options {
                fast_math: true,
                ..plain
            },
            Options {
                contract: true,
                ..plain
            },
        ];
        for options in other {
            assert_ne!(said(plain), said(options), "{dialect:?}");
        }
        assert!(print(&module, dialect).contains("#line 4 \"src/kernels.rs\""));
        let silent = Options {
            line_directives: false,
            ..plain
        };
        assert!(
            !module
                .print(dialect, &silent)
                .unwrap()
                .source
                .contains("#line")
        );
    }
    for dialect in [OPENCL, Dialect::Cuda] {
        let plain = Options::new(dialect, IndexWidth::Bits32);
        let flushed = Options {
            flush_to_zero: true,
            ..plain
        };
        let said = |options: &Options| module.print(dialect, options).unwrap().compiler_options;
        assert_ne!(said(&plain), said(&flushed));
    }
}

#[test]
fn cudas_compiler_is_told_that_there_are_threads_to_divide_among() {
    let mut f = FunctionBuilder::new("share");
    let sums = f.buffer("sums", Scalar::F32.into(), true);
    let (n, threads) = (
        f.index_literal(1000),
        f.extent(Origin::Block, Unit::Threads, 0),
    );
    let share = f.binary(BinaryOperation::Divide, n, threads);
    let zero = f.index_literal(0);
    let share = f.cast(share, Scalar::F32);
    f.store(Place::element(sums, zero), share);
    let module = ModuleBuilder::new().finish(f.kernel(1));
    let said = "__builtin_assume(launch.grid_blocks[0] != 0 && launch.block_threads[0] != 0);";
    assert!(print(&module, Dialect::Cuda).contains(said));
    assert!(!print(&corpus::saxpy(), Dialect::Cuda).contains("__builtin_assume"));
}

#[test]
fn structs_are_aligned_as_they_ask_for() {
    let mut module = ModuleBuilder::new();
    let fields = [("x", Scalar::F32.into()), ("y", Scalar::F32.into())];
    let pair = module.aligned_structure("Pair", fields, 8);
    let mut f = FunctionBuilder::new("zero");
    f.buffer("pairs", Type::Struct(pair), true);
    let module = module.finish(f.kernel(1));
    for (dialect, said) in [
        (Dialect::C99, "typedef struct __attribute__((aligned(8))) {"),
        (OPENCL, "typedef struct __attribute__((aligned(8))) {"),
        (Dialect::Cuda, "typedef struct __align__(8) {"),
    ] {
        assert!(print(&module, dialect).contains(said), "{dialect:?}");
    }
}

/// A device takes time to be given a record, and more to be asked for what it says.
#[test]
fn what_has_nothing_to_record_is_given_no_record() {
    let is_given = |module: &Module, dialect| {
        let options = Options::new(dialect, IndexWidth::Bits32);
        let printed = module.print(dialect, &options).unwrap();
        let mut parameters = printed.parameters.iter();
        let given = parameters.any(|parameter| parameter.kind == EntryKind::Fault);
        assert_eq!(
            given,
            printed.source.contains("fault"),
            "{}",
            printed.source
        );
        assert!(given || printed.sites.is_empty());
        given
    };
    let mut nobody_comes = FunctionBuilder::new("nobody_comes");
    nobody_comes.leave(None);
    nobody_comes.barrier();
    let nobody_comes = ModuleBuilder::new().finish(nobody_comes.kernel(1));
    for (dialect, _) in DIALECTS {
        assert_eq!(is_given(&nobody_comes, dialect), dialect == Dialect::C99);
        assert!(!is_given(&corpus::increment(false), dialect));
        // Only C99 finds out that not all threads come to a barrier.
        let with_barriers = is_given(&corpus::increment(true), dialect);
        assert_eq!(with_barriers, dialect == Dialect::C99);
        assert!(is_given(&corpus::saxpy(), dialect));
    }
}

#[test]
fn the_protocol_is_said_in_data() {
    let module = corpus::block_sum();
    let options = Options::new(Dialect::Cuda, IndexWidth::Bits64);
    let printed = module.print(Dialect::Cuda, &options).unwrap();
    let shared = SharedId(0);
    let found: Vec<_> = printed
        .parameters
        .iter()
        .map(|parameter| (parameter.name.as_str(), parameter.kind, parameter.size))
        .collect();
    assert_eq!(
        found,
        [
            ("x", EntryKind::Pointer { parameter: 0 }, 8),
            ("x_length", EntryKind::Length { parameter: 0 }, 8),
            ("sums", EntryKind::Pointer { parameter: 1 }, 8),
            ("sums_length", EntryKind::Length { parameter: 1 }, 8),
            ("partial_offset", EntryKind::SharedOffset { shared }, 4),
            ("partial_length", EntryKind::SharedLength { shared }, 8),
            ("launch", EntryKind::Launch, 24),
            ("fault", EntryKind::Fault, 8),
        ]
    );
    assert!(printed.barriers);
    assert_eq!(printed.entry, "block_sum");
    assert_eq!(printed.dynamic_shared(&[100]), (vec![0], 400));
    // Arrays are aligned one after the other; one of fixed length has no part in it.
    let mut builder = ModuleBuilder::new();
    for (element, length) in [
        (Scalar::U8, SharedLength::Launch),
        (Scalar::F32, SharedLength::Fixed(10)),
        (Scalar::F64, SharedLength::Launch),
        (Scalar::U16, SharedLength::Launch),
    ] {
        builder.shared(Some("s"), element.into(), length);
    }
    let module = builder.finish(FunctionBuilder::new("k").kernel(1));
    let printed = module.print(Dialect::Cuda, &options).unwrap();
    assert_eq!(printed.dynamic_shared(&[5, 2, 3]), (vec![0, 8, 24], 30));
    assert_eq!(printed.shared[1].length, SharedLength::Fixed(10));
}

#[track_caller]
fn refused(module: &Module, dialect: Dialect, what: &str) {
    let options = Options::new(dialect, IndexWidth::Bits32);
    match module.print(dialect, &options) {
        Err(error @ PrintError::Unsupported { .. }) => {
            let message = error.to_string();
            assert!(message.contains(what), "{message}");
            assert!(message.starts_with("OpenCL C cannot do"), "{message}");
        }
        other => panic!("expected a refusal that names {what}: {other:?}"),
    }
}

#[test]
fn opencl_c_refuses_what_the_device_has_not() {
    let none = Dialect::OpenCl(OpenClFeatures {
        doubles: false,
        wide_atomics: false,
        ..OpenClFeatures::USUAL
    });
    let mut f = FunctionBuilder::new("k");
    f.literal(Scalar::F64, 0);
    refused(
        &ModuleBuilder::new().finish(f.kernel(1)),
        none,
        "`cl_khr_fp64`",
    );
    let atomic = |element: Scalar, scope| {
        let mut f = FunctionBuilder::new("k");
        let x = f.buffer("x", element.into(), true);
        let (zero, one) = (f.index_literal(0), f.literal(element, 1));
        f.atomic(
            AtomicOperation::Add,
            Place::element(x, zero),
            &[one],
            scope,
            element.into(),
        );
        ModuleBuilder::new().finish(f.kernel(1))
    };
    refused(
        &atomic(Scalar::U64, Scope::Device),
        none,
        "`cl_khr_int64_base_atomics`",
    );
    refused(
        &atomic(Scalar::U32, Scope::System),
        OPENCL,
        "for the host and other devices",
    );
    let mut f = FunctionBuilder::new("k");
    f.push(Statement::Fence(
        Scope::System,
        FenceOrder::SequentiallyConsistent,
    ));
    refused(
        &ModuleBuilder::new().finish(f.kernel(1)),
        OPENCL,
        "a fence for the host",
    );
}

/// A device that lacks some of the functions that a kernel uses has warps of one thread for it, in
/// all it does.
#[test]
fn warps_are_of_one_thread_without_sub_groups() {
    let features = OpenClFeatures {
        subgroups: true,
        subgroup_ballot: true,
        subgroup_shuffle: true,
        ..OpenClFeatures::USUAL
    };
    let with = |features| print(&corpus::warps(), Dialect::OpenCl(features));
    let all = with(features);
    assert!(all.contains("get_sub_group_size()"), "{all}");
    assert!(all.contains("sub_group_shuffle"), "{all}");
    for some in [
        OpenClFeatures::USUAL,
        OpenClFeatures {
            subgroups: false,
            ..features
        },
        OpenClFeatures {
            subgroup_ballot: false,
            ..features
        },
        OpenClFeatures {
            subgroup_shuffle: false,
            ..features
        },
    ] {
        let source = with(some);
        assert!(!source.contains("sub_group"), "{source}");
    }
}

/// Conditions that a target decides are not printed for it, and code that it never reaches is left
/// out.
#[test]
fn targets_leave_out_what_they_never_do() {
    // `if doubles { if gpu && warp_size > 1 { wide() } else { narrow() } }`
    let mut module = ModuleBuilder::new();
    let mut functions = ["wide", "narrow"].map(|name| {
        let mut f = FunctionBuilder::new(name).returning(Scalar::F64.into());
        let one = f.literal(Scalar::F64, 1.0_f64.to_bits());
        f.give(one);
        module.function(f.function())
    });
    functions.reverse();
    let [narrow, wide] = functions;
    let mut f = FunctionBuilder::new("k");
    let y = f.buffer("y", Scalar::U32.into(), true);
    let zero = f.index_literal(0);
    let gpu = f.property(Property::Gpu);
    let size = f.warp(WarpOperation::Size, &[]);
    let one = f.u32_literal(1);
    let many = f.binary(BinaryOperation::Greater, size, one);
    let both = f.binary(BinaryOperation::And, gpu, many);
    let doubles = f.property(Property::Doubles);
    let mut block = |function| {
        f.begin_block();
        let called = f.call(function, &[], Scalar::F64.into());
        let number = f.cast(called, Scalar::U32);
        f.store(Place::element(y, zero), number);
        f.end_block()
    };
    let (then, otherwise) = (block(wide), block(narrow));
    f.begin_block();
    f.branch(both, then, otherwise);
    let then = f.end_block();
    f.branch(doubles, then, Vec::new());
    let module = module.finish(f.kernel(1));
    module.verify().unwrap();
    let without = OpenClFeatures {
        doubles: false,
        ..OpenClFeatures::USUAL
    };
    let printed = [
        print(&module, Dialect::Cuda),
        print(&module, Dialect::C99),
        print(&module, OPENCL),
        print(&module, Dialect::OpenCl(without)),
    ];
    let has = |what: &str| printed.each_ref().map(|source| source.contains(what));
    assert_eq!(has("wide("), [true, false, false, false], "{printed:#?}");
    assert_eq!(has("narrow("), [false, true, true, false], "{printed:#?}");
    assert_eq!(has("double"), [true, true, true, false], "{printed:#?}");
    assert_eq!(has("else"), [false; 4], "{printed:#?}");
    assert_eq!(has("warp"), [false; 4], "{printed:#?}");
}

/// Two readings stay two, in their order, and what is between them is between them.
#[test]
fn clocks_are_read_where_they_are() {
    let mut f = FunctionBuilder::new("timed");
    let y = f.buffer("y", Scalar::U64.into(), true);
    let before = f.clock();
    let zero = f.index_literal(0);
    f.store(Place::element(y, zero), before);
    let after = f.clock();
    let difference = f.binary(BinaryOperation::Subtract, after, before);
    f.store(Place::element(y, zero), difference);
    let module = ModuleBuilder::new().finish(f.kernel(1));
    module.verify().unwrap();
    for (dialect, read) in [
        (Dialect::Cuda, "clock64()"),
        (Dialect::C99, "= quipu_clock()"),
    ] {
        let source = print(&module, dialect);
        assert_eq!(source.matches(read).count(), 2, "{source}");
        let (first, second) = (source.find(read).unwrap(), source.rfind(read).unwrap());
        assert!(source[first..second].contains("y[0u] ="), "{source}");
    }
    refused(&module, Dialect::OpenCl(OpenClFeatures::USUAL), "a clock");
}

/// A device of OpenCL 3.0 need not compile OpenCL C 2.0.
#[test]
fn sub_groups_are_compiled_as_what_the_device_has() {
    let standard = |subgroups, version_3| {
        let dialect = Dialect::OpenCl(OpenClFeatures {
            subgroups,
            version_3,
            ..OpenClFeatures::USUAL
        });
        let options = Options::new(dialect, IndexWidth::Bits32);
        let printed = corpus::saxpy().print(dialect, &options).unwrap();
        printed.compiler_options[0].clone()
    };
    assert_eq!(standard(false, true), "-cl-std=CL1.2");
    assert_eq!(standard(true, false), "-cl-std=CL2.0");
    assert_eq!(standard(true, true), "-cl-std=CL3.0");
}

#[test]
fn modules_that_are_not_valid_are_not_printed() {
    let mut f = FunctionBuilder::new("k");
    let one = f.u32_literal(1);
    f.define(
        Scalar::U32.into(),
        Operation::Unary(UnaryOperation::Negate, one),
    );
    let module = ModuleBuilder::new().finish(f.kernel(1));
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    assert!(matches!(
        module.print(Dialect::C99, &options),
        Err(PrintError::Invalid(_))
    ));
}

/// `gcc -Wall` has an eye for what is wrong in C though it compiles.
#[test]
fn the_corpus_compiles_without_warnings_that_matter() {
    for (name, module) in corpus::all() {
        let options = Options::new(Dialect::C99, IndexWidth::Bits32);
        let printed = module.print(Dialect::C99, &options).unwrap();
        let strict = [
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused",
            "-Wno-unused-parameter",
            "-Wno-parentheses",
            "-Wno-sign-compare",
            "-Wno-type-limits",
            "-Wno-missing-braces",
            "-Wno-bool-compare",
        ];
        C99Program::compile_with(&printed, &strict)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_corpus_compiles_as_cuda_c() {
    for (name, module) in corpus::all() {
        for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
            let printed = module
                .print(Dialect::Cuda, &Options::new(Dialect::Cuda, width))
                .unwrap();
            match CudaProgram::compile_or_skip(&printed) {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
}

#[test]
fn every_kind_of_type_can_be_everywhere() {
    // Structs of arrays of structs, with every scalar: as uniform, in a buffer, shared, in a
    // variable, given back.
    let mut module = ModuleBuilder::new();
    let scalars = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F32,
        Scalar::F64,
    ];
    let inner = module.structure(
        "Inner",
        scalars.map(|scalar| (format!("field_{}", scalar.rust_name()), scalar.into())),
    );
    let array = Type::Array(Box::new(Type::Struct(inner)), 3);
    let nested = Type::Array(Box::new(array.clone()), 2);
    let outer = module.structure("Outer", [("0", array), ("1", nested)]);
    let whole = Type::Struct(outer);
    let shared = module.shared(Some("all"), whole.clone(), SharedLength::Fixed(2));
    let mut same = FunctionBuilder::new("same").returning(whole.clone());
    let given = same.parameter("given", whole.clone());
    same.give(given);
    let same = module.function(same.function());
    let mut f = FunctionBuilder::new("everything");
    let uniform = f.uniform("uniform", whole.clone());
    let buffer = f.buffer("buffer", whole.clone(), true);
    let zero = f.index_literal(0);
    let value = f.call(same, &[uniform], whole.clone());
    let local = f.local(Some("local"), value);
    f.barrier();
    let local = f.load_local(local);
    f.store(Place::shared(shared).at(zero), local);
    let one = f.index_literal(1);
    let from = f.load(Place::shared(shared).at(one), whole);
    f.store(Place::element(buffer, zero), from);
    let module = module.finish(f.kernel(1));
    let printed = module
        .print(
            Dialect::C99,
            &Options::new(Dialect::C99, IndexWidth::Bits32),
        )
        .unwrap();
    assert_eq!(printed.parameters[0].size, 9 * 48);
    C99Program::compile(&printed).unwrap_or_else(|error| panic!("{error}"));
    if quipu_kernel_testing::opencl_or_skip() {
        let printed = module
            .print(OPENCL, &Options::new(OPENCL, IndexWidth::Bits32))
            .unwrap();
        quipu_kernel_testing::OpenClProgram::compile(&printed)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let printed = module
        .print(
            Dialect::Cuda,
            &Options::new(Dialect::Cuda, IndexWidth::Bits32),
        )
        .unwrap();
    CudaProgram::compile_or_skip(&printed).unwrap_or_else(|error| panic!("{error}"));
}

/// A fence of one order costs less where the target has it.
#[test]
fn fences_may_be_of_one_order() {
    let mut f = FunctionBuilder::new("k");
    for order in [FenceOrder::Acquire, FenceOrder::Release] {
        f.push(Statement::Fence(Scope::Block, order));
        f.push(Statement::Fence(Scope::Device, order));
    }
    let module = ModuleBuilder::new().finish(f.kernel(1));
    for (dialect, expected) in [
        (Dialect::C99, &["__ATOMIC_ACQUIRE", "__ATOMIC_RELEASE"][..]),
        (
            OPENCL,
            &[
                "memory_order_acquire, memory_scope_device",
                "memory_order_release, memory_scope_device",
                "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
            ],
        ),
        (
            Dialect::Cuda,
            &[
                "fence.acq_rel.cta",
                "fence.acq_rel.gpu",
                "quipu_fence_gpu();",
            ],
        ),
    ] {
        let source = print(&module, dialect);
        for part in expected {
            assert!(source.contains(part), "'{part}' in {source}");
        }
    }
}

/// A fence for other blocks is none for the block alone, and needs what OpenCL C 1.2 lacks.
#[test]
fn a_fence_for_the_device_is_one_for_other_blocks() {
    let module = |scope| {
        let mut f = FunctionBuilder::new("k");
        f.push(Statement::Fence(scope, FenceOrder::SequentiallyConsistent));
        ModuleBuilder::new().finish(f.kernel(1))
    };
    let printed = |scope, features| {
        let dialect = Dialect::OpenCl(features);
        let options = Options::new(dialect, IndexWidth::Bits32);
        module(scope).print(dialect, &options).unwrap()
    };
    let usual = OpenClFeatures::USUAL;
    let version_3 = OpenClFeatures {
        version_3: true,
        ..usual
    };
    let ptx = OpenClFeatures {
        ptx: true,
        device_fence: false,
        ..usual
    };
    for (features, expected, standard) in [
        (usual, "memory_order_seq_cst, memory_scope_device)", "CL2.0"),
        (
            version_3,
            "memory_order_seq_cst, memory_scope_device)",
            "CL3.0",
        ),
        (ptx, "membar.gl", "CL1.2"),
    ] {
        let printed = printed(Scope::Device, features);
        assert!(printed.source.contains(expected), "{}", printed.source);
        let said = format!("-cl-std={standard}");
        assert!(printed.compiler_options.contains(&said), "{printed:?}");
    }
    let of_block = printed(Scope::Block, usual);
    assert!(
        of_block.source.contains("mem_fence("),
        "{}",
        of_block.source
    );
    assert!(
        of_block
            .compiler_options
            .contains(&"-cl-std=CL1.2".to_owned())
    );
    let without = Dialect::OpenCl(OpenClFeatures {
        device_fence: false,
        ..usual
    });
    refused(&module(Scope::Device), without, "a fence for other blocks");
}

/// NVIDIA's compiler takes PTX, and so its warps are those of CUDA.
#[test]
fn warps_of_nvidia_are_written_in_ptx() {
    let features = OpenClFeatures {
        ptx: true,
        ..OpenClFeatures::USUAL
    };
    let source = print(&corpus::warps(), Dialect::OpenCl(features));
    for expected in ["shfl.sync.idx.b32", "vote.sync.ballot.b32"] {
        assert!(source.contains(expected), "{source}");
    }
    assert!(!source.contains("sub_group"), "{source}");
}

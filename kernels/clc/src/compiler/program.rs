//! From the text of a program to bitcode in which every kernel is one function, and to descriptions
//! of the kernels.
//!
//! 1. clang makes bitcode for `spir64`, where each address space has a number of its own.
//! 2. The built-in functions that it calls are linked.
//! 3. Everything is inlined into the kernels (but see [`calls`]), and made simple: values in
//!    registers, no empty blocks.
//! 4. A function that is still called and not there is refused by name, with the line that calls
//!    it.
//! 5. Each kernel's accesses by its pointers are read from the attributes that LLVM infers.

use super::llvm::*;
use super::tools::Tools;
use super::workgroup::sub_groups::{self, BALLOT_BITS, REQUIRED_SIZE};
use super::workgroup::{BARRIER, MEETING};
use super::{
    Answer, Fault, Reading, calls, division, half, library, llvm, object, print, variables,
    versions, words, workgroup,
};
use crate::features::{FEATURES, Feature, Need};
use crate::metadata::{KernelInfo, MemoryAccess, ParameterInfo, ParameterKind};
use quipu_threads::Start;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::c_uint;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{Builder, JoinHandle};

/// The calling convention of kernels for `spir64`.
const SPIR_KERNEL: c_uint = 76;

/// Attributes that no function may keep that is to be inlined, or to lie within a work-item loop.
const NOT_KEPT: [&str; 5] = ["noinline", "optnone", "minsize", "optsize", "alwaysinline"];

/// The attribute of a parameter that is a pointer with `restrict`. It is true of one work-item
/// alone: others write to the memory by the same parameter, and a barrier is where their writes
/// arrive.
const RESTRICTED: &str = "noalias";

/// The attribute that such a parameter of a kernel has instead.
const RESTRICTED_FOR_ITEM: &str = "quipu-restrict";

/// Links the bitcode of several texts, which lies in pieces of these lengths.
pub(super) fn link(tools: &Tools, pieces: &[u8], lengths: &[usize]) -> Result<Vec<u8>, Fault> {
    object::load_llvm(tools, object::Step::Read)?;
    let context = LLVMContextCreate();
    let mut rest = pieces;
    let mut linked: Option<Module> = None;
    for length in lengths {
        let piece = rest.split_at_checked(*length);
        let (piece, after) = piece.ok_or_else(|| Fault::Failed("a piece is missing".to_owned()))?;
        rest = after;
        let module = object::parse(context, piece)?;
        let Some(whole) = linked else {
            linked = Some(module);
            continue;
        };
        // libLLVM would end the process.
        let defined = definitions(whole);
        if let Some(twice) = definitions(module).intersection(&defined).next() {
            return Err(Fault::Refused(format!(
                "error: '{}' is defined in more than one of the programs that are linked",
                library::shown(twice)
            )));
        }
        if LLVMLinkModules2(whole, module) != 0 {
            return Err(Fault::Failed("the programs cannot be linked".to_owned()));
        }
    }
    let whole = linked.ok_or_else(|| Fault::Failed("there is nothing to link".to_owned()))?;
    Ok(llvm::contents(LLVMWriteBitcodeToMemoryBuffer(whole)).to_vec())
}

/// The names that a module has definitions of for others.
fn definitions(module: Module) -> BTreeSet<String> {
    let all = module.functions().into_iter().chain(module.globals());
    let shown = all.filter(|global| {
        LLVMIsDeclaration(*global) == 0 && LLVMGetLinkage(*global) == linkage::EXTERNAL
    });
    shown.map(Value::name).collect()
}

/// Reads a program that is bitcode of `spir64`.
pub(super) fn read(
    tools: &Tools,
    bitcode: &[u8],
    folder: Option<&Path>,
    reading: Reading,
    warnings: String,
) -> Result<(Answer, Vec<u8>), Fault> {
    object::load_llvm(tools, object::Step::Read)?;
    let context = LLVMContextCreate();
    let module = with_plain_images(context, object::parse(context, bitcode)?)?;
    let kernels: Vec<Value> = module
        .functions()
        .into_iter()
        .filter(|function| {
            LLVMIsDeclaration(*function) == 0 && LLVMGetFunctionCallConv(*function) == SPIR_KERNEL
        })
        .collect();
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name()).collect();
    let described: Vec<_> = kernels
        .iter()
        .map(|kernel| described(context, *kernel))
        .collect();
    print::lower(context, module);
    division::make_safe(context, module);
    half::of_doubles(context, module);
    library::link(context, module, tools, folder, reading.is_wide)?;
    mark_known(context, module);
    let machine = object::host_machine(module)?;
    for kernel in &kernels {
        own_arguments(context, module, *kernel, machine);
    }
    calls::keep(context, module, &kernels);
    make_inline(context, module, &names);
    // Only what is inlined away may be deleted: kernels stay. What is cheap to make again is not to
    // be carried from one place to another ("partial redundancies"): another barrier may lie
    // between.
    module.run("always-inline,globaldce,function(sroa,early-cse)", machine)?;
    half::of_whole_numbers(context, module);
    module.run(
        "function(instcombine<no-verify-fixpoint>,simplifycfg,sroa,loop-mssa(loop-rotate),loop(indvars))",
        machine,
    )?;
    for function in module.functions() {
        if LLVMIsDeclaration(function) == 0 {
            workgroup::keep_loops(context, function)?;
            words::of_vectors(context, function);
        }
    }
    module.run("function(loop(indvars,loop-unroll-full))", machine)?;
    let layout = LLVMCreateTargetDataLayout(machine);
    for function in module.functions() {
        if LLVMIsDeclaration(function) == 0 {
            workgroup::choose(context, function, layout);
        }
    }
    // Vectors are made across work-items, of scalars.
    let to_scalars = versions::to_scalars(tools.version);
    let passes = format!(
        "function(sroa,{to_scalars},instcombine<no-verify-fixpoint>,early-cse<memssa>,\
         gvn<no-pre;no-load-pre>,simplifycfg,adce),cgscc(function-attrs),globaldce"
    );
    module.run(&passes, machine)?;
    refuse_unknown(module)?;
    if !reading.keeps_lines {
        LLVMStripModuleDebugInfo(module);
    }
    let shared = variables::of(module);
    let mut infos = Vec::new();
    for (name, known) in names.iter().zip(described) {
        let function = module
            .function(name)
            .ok_or_else(|| Fault::Failed(format!("kernel '{name}' is lost")))?;
        let mut info = info(name, function, known, layout);
        // What it does to them, only it knows.
        info.reaches_beyond |= workgroup::uses(function, &shared);
        info.local_bytes = workgroup::local_bytes(module, function, layout);
        info.private_bytes = workgroup::private_bytes(function, layout);
        info.sub_group_size = sub_group_size(context, function, name)?;
        info.sees_groups |= info.local_bytes > 0;
        infos.push(info);
    }
    let sizes = shared.iter().map(|variable| {
        let of = LLVMGlobalGetValueType(*variable);
        LLVMABISizeOfType(layout, of)
    });
    let answer = Answer::Described {
        kernels: infos,
        variable_bytes: sizes.sum(),
        warnings,
    };
    let bitcode = llvm::contents(LLVMWriteBitcodeToMemoryBuffer(module)).to_vec();
    Ok((answer, bitcode))
}

/// Says of what every work-item has at hand that it is a number or an address. Divisions would be
/// of another one than addresses otherwise, of which nothing is known.
fn mark_known(context: Context, module: Module) {
    let known = LLVMCreateEnumAttribute(context, attribute_kind("noundef"), 0);
    for function in module.functions() {
        let of = LLVMGetReturnType(LLVMGlobalGetValueType(function));
        let is_given = LLVMIsDeclaration(function) != 0 && workgroup::has(&function.name());
        if is_given && of.kind() != kind::VOID {
            LLVMAddAttributeAtIndex(function, 0, known);
        }
    }
}

/// A module in which images are pointers and samplers numbers, as the built-in functions have them.
///
/// The types of values cannot be changed by libLLVM's C interface. Its text can be: the two are
/// types of their own there.
fn with_plain_images(context: Context, module: Module) -> Result<Module, Fault> {
    const TYPES: [(&str, &str); 2] = [
        ("target(\"spirv.Image\"", "ptr addrspace(1)"),
        ("target(\"spirv.Sampler\"", "i32"),
    ];
    let functions = module.functions().into_iter();
    let is_special = |value: Value| {
        let of = string(LLVMPrintTypeToString(value.ty()));
        TYPES.iter().any(|(special, _)| of.starts_with(special))
    };
    if !functions.flat_map(parameters).any(is_special) {
        return Ok(module);
    }
    let mut text = module.text();
    for (special, plain) in TYPES {
        let mut pieces = text.split(special);
        let mut changed = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            // The type's parameters are numbers and plain types.
            let rest = piece.split_once(')').map_or("", |(_, rest)| rest);
            changed.push_str(plain);
            changed.push_str(rest);
        }
        text = changed;
    }
    let mut changed = Module::NULL;
    let mut message = std::ptr::null_mut();
    let buffer = llvm::buffer(text.as_bytes());
    if LLVMParseIRInContext(context, buffer, &raw mut changed, &raw mut message) != 0 {
        return Err(Fault::Failed(string(message)));
    }
    Ok(changed)
}

/// An extension of clang's, which the standard does not know: `static` before OpenCL C 1.2.
const STATIC: &str = "cl_clang_storage_class_specifiers";

/// Macros that clang's header defines for each device of `spir64`, whatever its options say, and
/// that programs here do not have.
const ABSENT: [&str; 15] = [
    "cl_khr_kernel_clock",
    "__opencl_c_kernel_clock_scope_device",
    "__opencl_c_kernel_clock_scope_work_group",
    "__opencl_c_kernel_clock_scope_sub_group",
    "__opencl_c_ext_fp16_global_atomic_load_store",
    "__opencl_c_ext_fp16_local_atomic_load_store",
    "__opencl_c_ext_fp16_global_atomic_add",
    "__opencl_c_ext_fp16_local_atomic_add",
    "__opencl_c_ext_fp16_global_atomic_min_max",
    "__opencl_c_ext_fp16_local_atomic_min_max",
    "__opencl_c_ext_image_raw10_raw12",
    "__opencl_c_ext_image_unorm_int_2_101010",
    "__opencl_c_ext_image_unsigned_10x6_12x4_14x2",
    "__opencl_c_pipes",
    "__opencl_c_device_enqueue",
];

/// clang, with all options for a text but those for its output and its place. Its output depends on
/// these options alone, so a search for files that a text includes uses the same ones.
pub(crate) fn clang_for(tools: &Tools, options: &[String]) -> Command {
    let version = language(options);
    let is_later = version.is_some_and(|version| version != "cl" && !version.starts_with("cl1."));
    // Until clang 21 a header defines some of these macros itself, and clang takes no note of them
    // here. That header is silent from clang 22 on, and these count.
    let told = || {
        let possible = FEATURES.iter().filter(|it| is_later || !it.is_later);
        possible.filter(|feature| !is_absent(feature, version, options))
    };
    let extensions = [STATIC].into_iter().chain(told().map(|it| it.name));
    let extensions: String = extensions.map(|name| format!(",+{name}")).collect();
    let mut command = Command::new(&tools.clang);
    command.args([
        "-x",
        "cl",
        "-target",
        "spir64",
        // Less would have loops marked as not to be unrolled.
        "-O2",
        "-Xclang",
        "-disable-llvm-passes",
    ]);
    if version.is_none() {
        command.arg("-cl-std=CL1.2");
    }
    let by_macro = told().filter(|feature| feature.is_by_macro());
    command
        .args(by_macro.map(|feature| format!("-D{}=1", feature.name)))
        .args(
            Need::Images
                .is_absent(options)
                .then_some("-U__IMAGE_SUPPORT__"),
        )
        // The version of the standard, whichever that of the language is.
        .arg("-D__OPENCL_VERSION__=300")
        .args([
            "-fno-builtin-printf",
            "-fno-math-errno",
            "-fno-strict-aliasing",
            "-gline-tables-only",
            "-cl-kernel-arg-info",
            // A number that is a sampler is one here, whatever translators of SPIR to other forms
            // make of it.
            "-Wno-spir-compat",
        ])
        .args(["-fno-color-diagnostics", "-Xclang"])
        .arg(format!("-cl-ext=-all{extensions}"))
        .args(options);
    command
}

/// True if options have a program of a version of the language not have a feature.
fn is_absent(feature: &Feature, version: Option<&str>, options: &[String]) -> bool {
    // OpenCL C 2.0 is not to be had without them.
    let is_part = matches!(version, Some("cl2.0" | "clc++" | "clc++1.0"));
    feature.need.is_absent(options) && !(is_part && feature.need == Need::Language)
}

/// The version of the language that options name, in clang's small letters.
fn language(options: &[String]) -> Option<&str> {
    let mut versions = options.iter().rev();
    versions.find_map(|option| option.strip_prefix("-cl-std="))
}

/// clang's name for a program's text, in its messages and in notes of lines.
pub(crate) const TEXT_NAME: &str = "program";

/// A text as clang is given it. Before OpenCL C 1.2 there is no `static`, which programs use
/// whatever version they name, and clang has it as an extension. Other compilers have `half`
/// without asking for the pragma that clang asks for. Macros of features that are absent go, and
/// with them the functions that clang would declare.
pub(crate) fn text_for(source: &str, options: &[String]) -> String {
    let version = language(options);
    let extensions = [
        (matches!(version, Some("cl1.0" | "cl1.1")), STATIC),
        (!Need::Halves.is_absent(options), "cl_khr_fp16"),
    ];
    let enabled = extensions.iter().filter(|(is_wanted, _)| *is_wanted);
    let enabled = enabled.map(|(_, name)| format!("#pragma OPENCL EXTENSION {name} : enable\n"));
    let enabled: String = enabled.collect();
    let absent = FEATURES
        .iter()
        .filter(|feature| is_absent(feature, version, options));
    let absent = ABSENT.into_iter().chain(absent.map(|feature| feature.name));
    let absent: String = absent.map(|name| format!("#undef {name}\n")).collect();
    // A program may ask to be warned of all such names.
    let absent = format!(
        "#pragma clang diagnostic push\n\
         #pragma clang diagnostic ignored \"-Wreserved-macro-identifier\"\n\
         {absent}\
         #pragma clang diagnostic pop\n"
    );
    // Compilers leave out a byte order mark at the beginning of a text, and nowhere else.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    format!("{enabled}{absent}#line 1 \"{TEXT_NAME}\"\n{source}")
}

/// Has clang make bitcode of a text; and what it warns of. The text is in a file, or is `source`.
pub(super) fn clang(
    tools: &Tools,
    source: &str,
    file: Option<&Path>,
    options: &[String],
) -> Result<(Vec<u8>, String), Fault> {
    let clang = Clang::start(tools, source, file, options)?;
    // Takes as long as clang takes for a small text.
    object::load_llvm(tools, object::Step::Read)?;
    clang.bitcode()
}

/// clang, at work on a text.
struct Clang {
    child: Child,
    writer: JoinHandle<()>,
}

impl Clang {
    fn start(
        tools: &Tools,
        source: &str,
        file: Option<&Path>,
        options: &[String],
    ) -> Result<Self, Fault> {
        let mut command = clang_for(tools, options);
        command
            .args(["-emit-llvm", "-c", "-o", "-"])
            .arg(file.unwrap_or(Path::new("-")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut input = child
            .stdin
            .take()
            .ok_or_else(|| Fault::Failed("clang takes no input".to_owned()))?;
        // It may end before it has read all; what it says then is the answer.
        let text = text_for(source, options);
        let writer = Builder::new().start(move || {
            let _ = input.write_all(text.as_bytes());
        })?;
        Ok(Self { child, writer })
    }

    fn bitcode(self) -> Result<(Vec<u8>, String), Fault> {
        let output = self.child.wait_with_output()?;
        let _ = self.writer.join();
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_end().to_owned();
        match output.status.code() {
            Some(0) => Ok((output.stdout, said)),
            Some(_) => Err(Fault::Refused(said)),
            None => Err(Fault::Ended(format!("clang: {}; {said}", output.status))),
        }
    }
}

/// The facts of a kernel that only the front end's metadata has.
struct Described {
    spaces: Vec<u64>,
    types: Vec<String>,
    /// The types without the names that the text gives them.
    base_types: Vec<String>,
    accesses: Vec<String>,
    names: Vec<String>,
    qualifiers: Vec<String>,
    required: Option<[u32; 3]>,
    uniform_groups: bool,
    attributes: Vec<String>,
}

fn described(context: Context, kernel: Value) -> Described {
    let mut count = 0;
    let entries = LLVMGlobalCopyAllMetadata(kernel, &raw mut count);
    let nodes: BTreeMap<u32, Value> = (0..count as u32)
        .map(|at| {
            let node = LLVMValueMetadataEntriesGetMetadata(entries, at);
            let kind = LLVMValueMetadataEntriesGetKind(entries, at);
            (kind, LLVMMetadataAsValue(context, node))
        })
        .collect();
    let operands = |name: &str| {
        let node = nodes.get(&metadata_kind(context, name));
        node.map(|node| node_operands(*node)).unwrap_or_default()
    };
    let strings = |name: &str| -> Vec<String> {
        let of = operands(name).into_iter();
        of.map(|value| metadata_string(value).unwrap_or_default())
            .collect()
    };
    let numbers = |name: &str| -> Vec<u64> {
        let of = operands(name).into_iter();
        of.map(|value| value.number().unwrap_or(0)).collect()
    };
    let required = numbers("reqd_work_group_size");
    let mut attributes = Vec::new();
    for name in ["reqd_work_group_size", "work_group_size_hint"] {
        if let [x, y, z] = numbers(name)[..] {
            attributes.push(format!("{name}({x},{y},{z})"));
        }
    }
    let sub_group_size = numbers(REQUIRED_SIZE).first().copied();
    attributes.extend(sub_group_size.map(|size| format!("{REQUIRED_SIZE}({size})")));
    if let [of, signed] = operands("vec_type_hint")[..] {
        let name = type_name(of.ty(), signed.number() == Some(1));
        attributes.extend(name.map(|name| format!("vec_type_hint({name})")));
    }
    Described {
        spaces: numbers("kernel_arg_addr_space"),
        types: strings("kernel_arg_type"),
        base_types: strings("kernel_arg_base_type"),
        accesses: strings("kernel_arg_access_qual"),
        names: strings("kernel_arg_name"),
        qualifiers: strings("kernel_arg_type_qual")
            .into_iter()
            .map(|words: String| {
                // Translators of SPIR-V say one twice, with spaces between.
                let mut words: Vec<&str> = words.split_whitespace().collect();
                words.dedup();
                words.join(" ")
            })
            .collect(),
        required: match required[..] {
            [x, y, z] => Some([x as u32, y as u32, z as u32]),
            _ => None,
        },
        uniform_groups: has_uniform_groups(kernel),
        attributes,
    }
}

/// True if clang takes a kernel's work-groups to have one size. Translators of SPIR-V say nothing
/// of it.
fn has_uniform_groups(kernel: Value) -> bool {
    let name = "uniform-work-group-size";
    let (start, length) = (name.as_ptr().cast(), name.len() as u32);
    let attribute = LLVMGetStringAttributeAtIndex(kernel, u32::MAX, start, length);
    attribute.some().is_some_and(|attribute| {
        let mut length = 0;
        let value = LLVMGetStringAttributeValue(attribute, &raw mut length);
        llvm::bytes(value, length as usize) == b"true"
    })
}

/// The size of a kernel's sub-groups, if they are not whole work-groups. A ballot has a bit for
/// each work-item.
fn sub_group_size(context: Context, kernel: Value, name: &str) -> Result<Option<u32>, Fault> {
    let size = sub_groups::size(context, kernel);
    match size.filter(|size| *size > BALLOT_BITS && sub_groups::takes_ballots(kernel)) {
        Some(size) => Err(Fault::Refused(format!(
            "error: kernel '{name}' wants sub-groups of {size} work-items, and takes ballots, which are of {BALLOT_BITS}; leave the \
             size open, or have it be {BALLOT_BITS} at most"
        ))),
        None => Ok(size.and_then(|size| u32::try_from(size).ok())),
    }
}

/// The name of a number or vector in OpenCL C.
fn type_name(of: Type, is_signed: bool) -> Option<String> {
    let text = string(LLVMPrintTypeToString(of));
    let vector = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'));
    let (count, one) = match vector.and_then(|text| text.split_once(" x ")) {
        Some((count, one)) => (count, one),
        None => ("", text.as_str()),
    };
    let name = match one {
        "i8" => "char",
        "i16" => "short",
        "i32" => "int",
        "i64" => "long",
        "half" | "float" | "double" => return Some(format!("{one}{count}")),
        _ => return None,
    };
    let sign = if is_signed { "" } else { "u" };
    Some(format!("{sign}{name}{count}"))
}

/// The type of a structure that is passed by value, which the parameter points to.
pub(super) fn by_value(function: Value, index: usize) -> Option<Type> {
    let kind = attribute_kind("byval");
    let attribute = LLVMGetEnumAttributeAtIndex(function, index as u32 + 1, kind);
    attribute.some().map(LLVMGetTypeAttributeValue)
}

/// The parameters of a kernel that are the only way of a work-item to their memory.
pub(super) fn restricted(kernel: Value) -> HashSet<Value> {
    let name = RESTRICTED_FOR_ITEM;
    let is_restricted = |index: &u32| {
        let (start, length) = (name.as_ptr().cast(), name.len() as u32);
        let attribute = LLVMGetStringAttributeAtIndex(kernel, *index, start, length);
        attribute.some().is_some()
    };
    let all = (1..).zip(parameters(kernel));
    all.filter(|(index, _)| is_restricted(index))
        .map(|(_, parameter)| parameter)
        .collect()
}

/// Gives each work-item a copy of its own of structures that are passed by value: it may write to
/// them.
fn own_arguments(context: Context, _module: Module, kernel: Value, machine: Machine) {
    let layout = LLVMCreateTargetDataLayout(machine);
    let builder = LLVMCreateBuilderInContext(context);
    for (index, parameter) in parameters(kernel).into_iter().enumerate() {
        let Some(of) = by_value(kernel, index) else {
            continue;
        };
        let first = LLVMGetFirstInstruction(LLVMGetFirstBasicBlock(kernel));
        LLVMPositionBuilderBefore(builder, first);
        let copy = LLVMBuildAlloca(builder, of, UNNAMED);
        LLVMReplaceAllUsesWith(parameter, copy);
        let bytes = LLVMConstInt(
            LLVMIntTypeInContext(context, 64),
            LLVMABISizeOfType(layout, of),
            0,
        );
        let align = LLVMABIAlignmentOfType(layout, of);
        LLVMBuildMemCpy(builder, copy, align, parameter, align, bytes);
    }
}

/// Has everything but the kernels inlined, and calls of kernels too.
fn make_inline(context: Context, module: Module, kernels: &[String]) {
    let inline = LLVMCreateEnumAttribute(context, attribute_kind("alwaysinline"), 0);
    let function_index = u32::MAX;
    for function in module.functions() {
        LLVMSetFunctionCallConv(function, 0);
        if LLVMIsDeclaration(function) != 0 {
            continue;
        }
        let is_called = calls::are_kept(&function.name());
        for kind in NOT_KEPT
            .iter()
            .filter(|kind| !is_called || **kind != "noinline")
        {
            LLVMRemoveEnumAttributeAtIndex(function, function_index, attribute_kind(kind));
        }
        for name in ["target-cpu", "target-features", "tune-cpu"] {
            LLVMRemoveStringAttributeAtIndex(
                function,
                function_index,
                name.as_ptr().cast(),
                name.len() as u32,
            );
        }
        let restricted = attribute_kind(RESTRICTED);
        for index in 1..=LLVMCountParams(function) {
            let is_restricted = LLVMGetEnumAttributeAtIndex(function, index, restricted);
            if is_restricted.some().is_some() {
                LLVMRemoveEnumAttributeAtIndex(function, index, restricted);
                let name = RESTRICTED_FOR_ITEM;
                let (start, length) = (name.as_ptr().cast(), name.len() as u32);
                let instead = LLVMCreateStringAttribute(context, start, length, start, 0);
                LLVMAddAttributeAtIndex(function, index, instead);
            }
        }
        for block in blocks(function) {
            for instruction in block.instructions() {
                if instruction.opcode() == Some(op::CALL) {
                    LLVMSetInstructionCallConv(instruction, 0);
                    let operands = LLVMGetNumOperands(instruction).max(0) as u32;
                    for index in 1..operands {
                        LLVMRemoveCallSiteEnumAttribute(instruction, index, restricted);
                    }
                    // Translators of SPIR-V say so of calls, too.
                    for kind in NOT_KEPT {
                        let kind = attribute_kind(kind);
                        LLVMRemoveCallSiteEnumAttribute(instruction, function_index, kind);
                    }
                }
            }
        }
        if is_called {
            // It stays a function.
        } else if !kernels.contains(&function.name())
            || function
                .users()
                .iter()
                .any(|user| is_call_of(*user, function))
        {
            LLVMAddAttributeAtIndex(function, function_index, inline);
        }
        if !kernels.contains(&function.name()) {
            LLVMSetLinkage(function, linkage::INTERNAL);
        }
    }
}

fn is_call_of(user: Value, function: Value) -> bool {
    user.opcode() == Some(op::CALL) && LLVMGetCalledValue(user) == function
}

/// True if a function that is not there is one that the passes or the machine's libraries have.
fn is_known(name: &str) -> bool {
    name.starts_with("llvm.")
        || workgroup::has(name)
        || name.starts_with(library::MATHEMATICS)
        || name == "printf"
        // LLVM 18 calls these by itself, in place of powers of two.
        || matches!(name, "ldexp" | "ldexpf")
}

/// Refuses a program that calls what is not there, or calls itself.
fn refuse_unknown(module: Module) -> Result<(), Fault> {
    for function in module.functions() {
        let name = function.name();
        let calls: Vec<Value> = function
            .users()
            .into_iter()
            .filter(|user| is_call_of(*user, function))
            .collect();
        let Some(call) = calls.first() else { continue };
        let at = match LLVMGetDebugLocLine(*call) {
            0 => String::new(),
            line => format!("program:{line}: "),
        };
        if LLVMIsDeclaration(function) == 0 {
            if calls::are_kept(&name) {
                continue;
            }
            return Err(Fault::Refused(format!(
                "{at}error: function '{}' calls itself, which OpenCL C does not have",
                library::shown(&name)
            )));
        }
        if !is_known(&name) {
            return Err(Fault::Refused(format!(
                "{at}error: function '{}' is not supported on processors yet, or is declared and not defined",
                library::shown(&name)
            )));
        }
    }
    for function in module.functions() {
        for instruction in blocks(function).into_iter().flat_map(Block::instructions) {
            if instruction.opcode() == Some(op::CALL)
                && LLVMIsAFunction(LLVMGetCalledValue(instruction))
                    .some()
                    .is_none()
            {
                return Err(Fault::Refused(format!(
                    "program:{}: error: a call through a pointer, or inline assembly, is not supported on processors",
                    LLVMGetDebugLocLine(instruction)
                )));
            }
        }
    }
    Ok(())
}

fn info(name: &str, function: Value, known: Described, layout: DataLayout) -> KernelInfo {
    let text = |of: &[String], index: usize| of.get(index).cloned().unwrap_or_default();
    let parameters = parameters(function)
        .into_iter()
        .enumerate()
        .map(|(index, parameter)| {
            let space = known.spaces.get(index).copied().unwrap_or(0);
            let is_image = text(&known.base_types, index).starts_with("image")
                && text(&known.accesses, index) != "none";
            let kind = match space {
                // Translators of SPIR-V say constant memory of them.
                _ if text(&known.base_types, index) == "sampler_t" => ParameterKind::Sampler,
                1 if is_image => ParameterKind::Image(match &text(&known.accesses, index)[..] {
                    "write_only" => MemoryAccess::Write,
                    "read_write" => MemoryAccess::ReadWrite,
                    _ => MemoryAccess::Read,
                }),
                // A pointer to `const` may be cast to one that is written through.
                1 | 2 => ParameterKind::Memory(access(function, index, space == 2)),
                3 => ParameterKind::Local,
                _ => {
                    let of = by_value(function, index).unwrap_or(parameter.ty());
                    ParameterKind::Value {
                        size: LLVMABISizeOfType(layout, of) as u32,
                        align: LLVMABIAlignmentOfType(layout, of),
                    }
                }
            };
            ParameterInfo {
                name: text(&known.names, index),
                type_name: text(&known.types, index),
                qualifiers: text(&known.qualifiers, index),
                is_constant: space == 2,
                kind,
            }
        })
        .collect();
    let has_barriers = blocks(function)
        .into_iter()
        .flat_map(Block::instructions)
        .any(|instruction| matches!(instruction.callee().as_deref(), Some(BARRIER | MEETING)));
    let reaches_beyond = calls::with_kept(function)
        .into_iter()
        .flat_map(blocks)
        .flat_map(Block::instructions)
        .any(reaches_beyond);
    let mut instructions = blocks(function).into_iter().flat_map(Block::instructions);
    let has_local = known.spaces.contains(&3);
    KernelInfo {
        name: name.to_owned(),
        parameters,
        required_local_size: known.required,
        uniform_groups: known.uniform_groups,
        sees_groups: has_local || instructions.any(sees_groups),
        attributes: known.attributes,
        local_bytes: 0,
        private_bytes: 0,
        sub_group_size: None,
        has_barriers,
        reaches_beyond,
    }
}

/// True if an instruction tells something of the work-item's group.
fn sees_groups(instruction: Value) -> bool {
    let Some(name) = instruction.callee() else {
        return false;
    };
    match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "__q_gid" => false,
        // Global sizes, offsets and dimensions tell nothing.
        "__q_info" => {
            let number = LLVMGetOperand(instruction, 0).number();
            number.is_none_or(|number| (6..12).contains(&number) || number >= 17)
        }
        _ => workgroup::has(&name),
    }
}

/// True if an instruction makes a pointer of what is in memory, or prints.
fn reaches_beyond(instruction: Value) -> bool {
    match instruction.opcode() {
        Some(op::LOAD | op::INT_TO_PTR) => instruction.ty().kind() == kind::POINTER,
        Some(op::CALL) => instruction
            .callee()
            .is_some_and(|name| name.contains("printf")),
        _ => false,
    }
}

/// A kernel's access to memory, as LLVM has inferred.
fn access(function: Value, index: usize, is_constant: bool) -> MemoryAccess {
    let has = |name: &str| {
        let kind = attribute_kind(name);
        LLVMGetEnumAttributeAtIndex(function, index as u32 + 1, kind)
            .some()
            .is_some()
    };
    if has("readnone") {
        MemoryAccess::None
    } else if has("readonly") || is_constant {
        MemoryAccess::Read
    } else if has("writeonly") {
        MemoryAccess::Write
    } else {
        MemoryAccess::ReadWrite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_left_out() {
        let text = text_for("\u{feff}int a;", &[Need::Halves.absent().to_owned()]);
        assert!(text.ends_with("\n#line 1 \"program\"\nint a;"), "{text}");
    }
}

//! The built-in functions of the language, linked to a program that uses them.
//!
//! Their text is in parts, each of which is compiled by the same clang when a program first asks
//! for a function of it, and kept on disk. libLLVM links of a part only the functions that the
//! program calls, since all of it is `linkonce_odr`, or internal. Functions that are not internal
//! have names that no program may have.

use super::llvm::*;
use super::tools::Tools;
use super::{Fault, calls, llvm, versions};
use quipu_device_queue::disk::{self, Key};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const TEXT: &str = concat!(
    include_str!("single.cl"),
    include_str!("builtins.cl"),
    include_str!("half.cl"),
    include_str!("later.cl"),
    include_str!("sub_groups.cl"),
    include_str!("double.cl")
);

/// The name of a function of the language whose mangled name this is: `sqrt` of `_Z4sqrtf`.
pub(super) fn plain(mangled: &str) -> Option<&str> {
    let rest = mangled.strip_prefix("_Z")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = rest[..digits].parse().ok()?;
    rest.get(digits..digits + length)
}

/// The name by which a message calls a function.
pub(super) fn shown(name: &str) -> &str {
    let name = name.strip_prefix(versions::BODY).unwrap_or(name);
    plain(name).unwrap_or(name)
}

/// The parts that may have a function, in the order in which they are linked.
fn parts_with(mangled: &str) -> Vec<String> {
    if mangled == "__translate_sampler_initializer" {
        return vec!["image".to_owned()];
    }
    const OF_SPACES: [&str; 3] = ["__to_global", "__to_local", "__to_private"];
    let name = match plain(mangled) {
        Some(name) => name,
        None if OF_SPACES.contains(&mangled) => mangled,
        None => return Vec::new(),
    };
    const INTEGER: [&str; 15] = [
        "abs", "abs_diff", "add_sat", "sub_sat", "hadd", "rhadd", "rotate", "clz", "ctz",
        "popcount", "mul_hi", "mad_hi", "mad_sat", "mul24", "mad24",
    ];
    const WORK: [&str; 6] = [
        "barrier",
        "work_group_barrier",
        "mem_fence",
        "read_mem_fence",
        "write_mem_fence",
        "get_work_dim",
    ];
    const RELATIONAL: [&str; 5] = ["any", "all", "select", "bitselect", "signbit"];
    // `Dh` is the type `half`. A function's own name that has the letters only has one more part
    // looked into.
    let is_of_half = || {
        mangled.contains("Dh")
            || name.starts_with("convert_half")
            || name == "nan" && mangled.ends_with('t')
    };
    let parts: &[&str] = if let Some(to) = name.strip_prefix("convert_").filter(|_| !is_of_half()) {
        let of = to.split('_').next().unwrap_or_default();
        return vec![format!(
            "convert {}",
            of.trim_end_matches(|c: char| c.is_ascii_digit())
        )];
    } else if name.trim_start_matches("__q_").starts_with("async_")
        || ["wait_group_events", "prefetch"].contains(&name)
    {
        &["async"]
    } else if OF_SPACES.contains(&name) || name == "get_fence" {
        &["spaces"]
    } else if name.contains("sub_group_") || name.contains("sub_groups") {
        &["sub_group"]
    } else if name.starts_with("work_group_") && name != "work_group_barrier" {
        &["collective"]
    } else if name.starts_with("shuffle") {
        &["shuffle"]
    } else if mangled.contains("U7_Atomic") || name == "atomic_work_item_fence" {
        &["c11"]
    } else if name.starts_with("atom") {
        &["atomic"]
    } else if ["read_image", "write_image", "get_image_"]
        .iter()
        .any(|start| name.starts_with(start))
    {
        &["image"]
    } else if is_of_half() || name == HALF_OF_DOUBLE {
        &["half"]
    } else if name.starts_with("vload") || name.starts_with("vstore") {
        &["memory"]
    } else if name.starts_with("get_") || WORK.contains(&name) {
        &["work"]
    } else if INTEGER.contains(&name) || name == "upsample" {
        &["integer"]
    } else if RELATIONAL.contains(&name) || name.starts_with("is") {
        &["relational"]
    } else if ["bitfield_", "bit_reverse", "dot_"]
        .iter()
        .any(|start| name.starts_with(start))
        || name == "dot" && (mangled.contains("Dv4_h") || mangled.contains("Dv4_c"))
    {
        &["bits"]
    } else if ["max", "min", "clamp"].contains(&name) {
        &["math", "integer"]
    } else {
        &["math"]
    };
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// The function that makes a `half` of a `double`.
pub(super) const HALF_OF_DOUBLE: &str = "__q_half_of";

/// The beginning of the names of functions that are called, and not inlined: see the part of
/// images.
pub(super) const CALLED: &str = "quipu.image.";
/// Those of them that only read.
pub(super) const CALLED_TO_READ: &str = "quipu.image.read.";

/// The beginning of the names of the system's mathematical functions until a kernel is compiled.
/// OpenCL C has a program call its own functions, kernels and constants as C calls those.
pub(super) const MATHEMATICS: &str = "quipu.math.";

/// Gives the system's mathematical functions their names, and takes those names from what the
/// program has: the code generator calls functions of C for its own ends, too.
pub(super) fn name_mathematics(module: Module) {
    let name = |value: Value, name: &str| {
        LLVMSetValueName2(value, name.as_ptr().cast(), name.len());
    };
    for own in module.functions().into_iter().chain(module.globals()) {
        let of_program = own.name();
        if LLVMIsDeclaration(own) == 0
            && !of_program.starts_with("llvm.")
            && !calls::are_kept(&of_program)
        {
            name(own, &format!("own.{of_program}"));
        }
    }
    for function in module.functions() {
        let private = function.name();
        let Some(system) = private.strip_prefix(MATHEMATICS) else {
            continue;
        };
        match module.function(system) {
            // A pass has asked for it.
            Some(there) => LLVMReplaceAllUsesWith(function, there),
            None => name(function, system),
        }
    }
}

/// The functions that a module calls and does not have.
pub(super) fn missing(module: Module) -> Vec<Value> {
    let mut missing = module.functions();
    missing.retain(|function| {
        LLVMIsDeclaration(*function) != 0 && LLVMGetFirstUse(*function).some().is_some()
    });
    missing
}

/// Links what a module uses of the language's functions.
pub(super) fn link(
    context: Context,
    module: Module,
    tools: &Tools,
    folder: Option<&Path>,
    is_wide: bool,
) -> Result<(), Fault> {
    // A part may call functions of one that was linked before it, which is linked again then. A
    // name that is missing in spite of that is none of the language's.
    let mut before = BTreeSet::new();
    loop {
        let names = missing(module).into_iter().map(Value::name);
        let names: BTreeSet<String> = names.collect();
        let wanted: BTreeSet<String> = names.iter().flat_map(|name| parts_with(name)).collect();
        if wanted.is_empty() || names == before {
            return Ok(());
        }
        before = names;
        for part in wanted {
            if let Some(other) = loaded(context, module, tools, &part, folder, is_wide)?
                && LLVMLinkModules2(module, other) != 0
            {
                return Err(Fault::Failed(format!(
                    "the built-in functions of '{part}' cannot be linked"
                )));
            }
        }
    }
}

/// Links the mathematical functions that a module asks the system for, for devices without one. So
/// are those that LLVM has as functions of its own.
pub(super) fn link_mathematics(
    context: Context,
    module: Module,
    tools: &Tools,
    folder: Option<&Path>,
) -> Result<(), Fault> {
    let absent = missing(module);
    if absent.is_empty() {
        return Ok(());
    }
    let Some(other) = loaded(context, module, tools, "system", folder, false)? else {
        return Ok(());
    };
    for function in absent {
        let name = function.name();
        let own = format!("{MATHEMATICS}{}", of_system(&name));
        if name == own || other.function(&own).is_none() {
            continue;
        }
        let named = module.function(&own).unwrap_or_else(|| {
            let of = LLVMGlobalGetValueType(function);
            LLVMAddFunction(module, text(&own).as_ptr(), of)
        });
        LLVMReplaceAllUsesWith(function, named);
    }
    // The program's calls have C's convention by now. A call by another one is undefined.
    for function in other.functions() {
        LLVMSetFunctionCallConv(function, 0);
        for block in blocks(function) {
            let calls = block.instructions();
            for call in calls
                .into_iter()
                .filter(|one| one.opcode() == Some(op::CALL))
            {
                LLVMSetInstructionCallConv(call, 0);
            }
        }
    }
    match LLVMLinkModules2(module, other) {
        0 => Ok(()),
        _ => Err(Fault::Failed(
            "the mathematical functions cannot be linked".to_owned(),
        )),
    }
}

/// The system's name of a function: `sinf` of `llvm.sin.f32`.
fn of_system(name: &str) -> String {
    let Some(own) = name.strip_prefix("llvm.") else {
        return name.to_owned();
    };
    let mut words = own.split('.');
    let of = words.next().unwrap_or_default();
    match words.next() {
        Some("f64") => of.to_owned(),
        Some("f32") => format!("{of}f"),
        _ => name.to_owned(),
    }
}

/// A part, to be linked to a module; none if there is no such part.
fn loaded(
    context: Context,
    module: Module,
    tools: &Tools,
    part: &str,
    folder: Option<&Path>,
    is_wide: bool,
) -> Result<Option<Module>, Fault> {
    let Some(bitcode) = compiled(tools, part, folder, is_wide)? else {
        return Ok(None);
    };
    let mut other = Module::NULL;
    if LLVMGetBitcodeModuleInContext2(context, llvm::buffer(&bitcode), &raw mut other) != 0 {
        return Err(Fault::Failed(format!(
            "the built-in functions of '{part}' cannot be read"
        )));
    }
    LLVMSetTarget(other, LLVMGetTarget(module));
    LLVMSetDataLayout(other, LLVMGetDataLayoutStr(module));
    Ok(Some(other))
}

/// The types that numbers are converted to.
const TYPES: [&str; 10] = [
    "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double",
];

/// A part as bitcode; none if there is no such part.
fn compiled(
    tools: &Tools,
    part: &str,
    folder: Option<&Path>,
    is_wide: bool,
) -> Result<Option<Vec<u8>>, Fault> {
    // Generic memory and atomic types are of later versions of the language.
    let language = if ["c11", "spaces"].contains(&part) {
        "-cl-std=CL3.0"
    } else {
        "-cl-std=CL1.2"
    };
    let fixed = [
        "-x",
        "cl",
        language,
        "-cl-no-stdinc",
        "-O2",
        "-Xclang",
        "-disable-llvm-passes",
        "-fno-math-errno",
        // Programs read what they have stored as another type, and collective functions exchange
        // values of all types in one memory.
        "-fno-strict-aliasing",
        "-w",
    ];
    let target = match part {
        "atomic" | "c11" => versions::target_of_atomics(tools.version),
        _ => &["-target", "spir64"],
    };
    let options = target.iter().chain(&fixed);
    let mut options: Vec<String> = options.map(|word| (*word).to_owned()).collect();
    match part.strip_prefix("convert ") {
        Some(to) if TYPES.contains(&to) => {
            options.extend(["-DPART_convert".to_owned(), format!("-DTO={to}")]);
            if !["float", "double"].contains(&to) {
                options.push("-DTO_AN_INTEGER".to_owned());
            }
        }
        Some(_) => return Ok(None),
        None => options.push(format!("-DPART_{part}")),
    }
    if is_wide && part == "work" {
        options.push("-DWIDE".to_owned());
    }
    let key = Key::new(&identity(tools), &options.join(" "), TEXT);
    if let Some(kept) = folder.and_then(|folder| disk::load(folder, &key)) {
        return Ok(Some(kept));
    }
    let mut child = Command::new(&tools.clang)
        .args(options)
        .args(["-emit-llvm", "-c", "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(TEXT.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Fault::Failed(format!(
            "the built-in functions of '{part}' do not compile: {text}"
        )));
    }
    let context = LLVMContextCreate();
    let mut module = Module::NULL;
    if LLVMParseBitcodeInContext2(context, llvm::buffer(&output.stdout), &raw mut module) != 0 {
        return Err(Fault::Failed("clang's bitcode cannot be read".to_owned()));
    }
    for function in module.functions() {
        // Of what the library keeps to itself, a program may have the names.
        if LLVMIsDeclaration(function) == 0 && LLVMGetLinkage(function) != linkage::INTERNAL {
            LLVMSetLinkage(function, linkage::LINK_ONCE_ODR);
        }
    }
    let bitcode = llvm::contents(LLVMWriteBitcodeToMemoryBuffer(module)).to_vec();
    if let Some(Err(error)) = folder.map(|folder| disk::store(folder, &key, &bitcode)) {
        tracing::debug!(%error, "compiled built-in functions are not kept");
    }
    Ok(Some(bitcode))
}

/// The identity of everything that compiled code depends on beside its text.
pub(crate) fn identity(tools: &Tools) -> String {
    let changed = |path: &Path| {
        let about = std::fs::metadata(path)
            .and_then(|about| about.modified())
            .ok()?;
        let since = about.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_nanos())
    };
    format!(
        "quipu-clc {} {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        tools,
        changed(&tools.clang),
        changed(&tools.llvm)
    )
}

#[cfg(test)]
mod tests;

//! Kernels for NVIDIA's GPUs: PTX of a program that was read.
//!
//! A work-item is a thread there, so no pass makes loops of work-items. What is left is to say the
//! same for another kind of processor:
//!
//! 1. The address spaces of `spir64` become those of PTX. libLLVM's C interface cannot change the
//!    types of values, so this is done in the module's text.
//! 2. The numbers of work-items and groups, and the barrier, become LLVM's functions for PTX. The
//!    offset of a launch and its dimensions are passed by four parameters behind the kernel's own.
//! 3. Local memory that a launch passes begins at an offset from the memory that the blocks of a
//!    launch are given. A parameter has the offset.
//! 4. Atomic accesses keep their orders by barriers of memory ([`orders`]).
//! 5. The size that a kernel requires of its groups is written as PTX's `.reqntid`.
//! 6. `printf` becomes the function of their driver ([`print`]).
//! 7. Mathematical functions of the system's library become those of `double.cl`.
//! 8. An image is an argument by value: where its texels are, and their layout. Built-in functions
//!    read it.
//! 9. Work-groups and sub-groups exchange values in the group's memory ([`groups`]).
//! 10. Functions that are still called and not there are refused by name.

mod groups;
mod orders;
mod print;

use super::llvm::*;
use super::object::{ASSEMBLY, Step, emitted, load_llvm, parse};
use super::tools::Tools;
use super::workgroup::sub_groups;
use super::{Fault, forms, library, llvm};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The target of LLVM.
const TRIPLE: &str = "nvptx64-nvidia-cuda";
/// The latest compute capability that LLVM 18 makes code for. Later devices run its PTX.
const LATEST: u32 = 90;
/// The most images among the arguments of a kernel in all versions of PTX.
const MOST_IMAGES: usize = 64;
/// The type of an image as an argument, in LLVM's text: an address and a layout.
const IMAGE: &str = "[7 x i64]";
/// The address space of global memory, in both.
const GLOBAL: &str = " addrspace(1)";
/// The address spaces of local memory, in `spir64` and in PTX.
const LOCAL: &str = " addrspace(3)";

/// The functions that a kernel's text calls, made of LLVM's functions for PTX. `%o0` to `%o2` are
/// the launch's offset and `%dim` the number of its dimensions.
fn prelude() -> String {
    let mut text = String::from(
        "@quipu_launch_local = external addrspace(3) global [0 x i8], align 128\n\
         declare void @llvm.nvvm.barrier0()\n\
         define internal void @__q_barrier() alwaysinline convergent {\n  call void @llvm.nvvm.barrier0()\n  ret void\n}\n",
    );
    for axis in ["x", "y", "z"] {
        for register in ["tid", "ntid", "ctaid", "nctaid"] {
            let _ = writeln!(
                text,
                "declare i32 @llvm.nvvm.read.ptx.sreg.{register}.{axis}()"
            );
        }
    }
    let read = |to: &str, register: &str, axis: usize| {
        let axis = ["x", "y", "z"][axis];
        format!("  %{to} = call i32 @llvm.nvvm.read.ptx.sreg.{register}.{axis}()\n")
    };
    for axis in 0..3 {
        let _ = write!(
            text,
            "define internal i32 @__q_lid{axis}() alwaysinline {{\n{}  ret i32 %v\n}}\n\
             define internal i32 @__q_group{axis}() alwaysinline {{\n{}  ret i32 %v\n}}\n\
             define internal i32 @__q_gid{axis}(i32 %o0, i32 %o1, i32 %o2, i32 %dim) alwaysinline {{\n{}{}{}\
             \x20 %m = mul i32 %g, %n\n  %s = add i32 %m, %t\n  %r = add i32 %s, %o{axis}\n  ret i32 %r\n}}\n",
            read("v", "tid", axis),
            read("v", "ctaid", axis),
            read("g", "ctaid", axis),
            read("n", "ntid", axis),
            read("t", "tid", axis),
        );
    }
    // By number, as `Info` in the built-in functions has them: global sizes, offsets, local sizes,
    // numbers of groups, dimensions.
    text.push_str(
        "define internal i64 @__q_info(i32 %which, i32 %o0, i32 %o1, i32 %o2, i32 %dim) alwaysinline {\n\
         \x20 switch i32 %which, label %none [\n",
    );
    for number in 0..13 {
        let _ = writeln!(text, "    i32 {number}, label %case{number}");
    }
    // All groups of a launch have one size.
    for axis in 0..3 {
        let (asked, same) = (17 + axis, 6 + axis);
        let _ = writeln!(text, "    i32 {asked}, label %case{same}");
    }
    text.push_str("  ]\nnone:\n  ret i64 0\n");
    for number in 0..13 {
        let (kind, axis) = (number / 3, number % 3);
        let _ = writeln!(text, "case{number}:");
        match kind {
            0 => {
                text.push_str(&read(&format!("a{number}"), "nctaid", axis));
                text.push_str(&read(&format!("b{number}"), "ntid", axis));
                let _ = writeln!(
                    text,
                    "  %c{number} = zext i32 %a{number} to i64\n  %d{number} = zext i32 %b{number} to i64\n  \
                     %v{number} = mul i64 %c{number}, %d{number}"
                );
            }
            2 | 3 => {
                let register = if kind == 2 { "ntid" } else { "nctaid" };
                text.push_str(&read(&format!("a{number}"), register, axis));
                let _ = writeln!(text, "  %v{number} = zext i32 %a{number} to i64");
            }
            _ => {
                let of = if kind == 1 {
                    format!("o{axis}")
                } else {
                    "dim".to_owned()
                };
                let _ = writeln!(text, "  %v{number} = zext i32 %{of} to i64");
            }
        }
        let _ = writeln!(text, "  ret i64 %v{number}");
    }
    text.push_str("}\n");
    text
}

/// The kernel that PTX is wanted of, and the devices.
pub(super) struct Wanted<'a> {
    pub(super) kernel: &'a str,
    /// The compute capability of the devices, such as 90.
    pub(super) capability: u32,
    /// The numbers of the parameters that are images.
    pub(super) images: &'a [usize],
}

/// The PTX of a kernel.
pub(super) fn compile(
    tools: &Tools,
    bitcode: &[u8],
    wanted: &Wanted<'_>,
    library: Option<&Path>,
) -> Result<Vec<u8>, Fault> {
    let kernel = wanted.kernel;
    load_llvm(tools, Step::Read)?;
    for part in ["TargetInfo", "Target", "TargetMC", "AsmPrinter"] {
        if !call_by_name(&format!("LLVMInitializeNVPTX{part}")) {
            return Err(Fault::Failed(
                "libLLVM makes no code for NVIDIA's GPUs; install one that does, as Debian's and Ubuntu's".to_owned(),
            ));
        }
    }
    let context = LLVMContextCreate();
    let module = parse(context, bitcode)?;
    library::link_mathematics(context, module, tools, library)?;
    let function = module
        .function(kernel)
        .ok_or_else(|| Fault::Failed(format!("the program has no kernel '{kernel}'")))?;
    for other in module.functions() {
        if other != function && LLVMIsDeclaration(other) == 0 {
            LLVMSetLinkage(other, linkage::INTERNAL);
        }
    }
    for (number, parameter) in parameters(function).into_iter().enumerate() {
        let name = format!("q.{number}");
        LLVMSetValueName2(parameter, name.as_ptr().cast(), name.len());
    }
    let machine = machine(wanted)?;
    print::lower(context, module)?;
    module.run("globaldce", machine)?;
    let required = sub_groups::numbers(context, function, "reqd_work_group_size");
    let mut text = adapted(&module.text(), wanted);
    text.push_str(&groups::text(context, function, &required)?);
    if let [x, y, z] = required[..] {
        text.push_str(&of_size(kernel, [x, y, z]));
    }
    let module = parsed(context, &text)?;
    LLVMSetModuleDataLayout(module, LLVMCreateTargetDataLayout(machine));
    module
        .verify()
        .map_err(|error| Fault::Failed(format!("what was made for PTX is no code: {error}")))?;
    forms::marked_inline(context, module);
    module.run("always-inline,globaldce", machine)?;
    // The optimiser makes other functions of some.
    refuse_missing(module)?;
    module.run("default<O3>", machine)?;
    refuse_missing(module)?;
    compare_one_by_one(context, module);
    Ok(emitted(machine, module, ASSEMBLY)?.to_vec())
}

/// Compares the elements of vectors of `half` and of integers of 16 bits one by one: LLVM 19 has no
/// code that keeps the results of two together.
fn compare_one_by_one(context: Context, module: Module) {
    const BITS: u32 = 16;
    let builder = LLVMCreateBuilderInContext(context);
    let number = LLVMIntTypeInContext(context, 32);
    let all = module.functions().into_iter().flat_map(blocks);
    for one in all.flat_map(Block::instructions) {
        if !matches!(one.opcode(), Some(op::FCMP | op::ICMP)) {
            continue;
        }
        let [left, right] = [0, 1].map(|at| LLVMGetOperand(one, at));
        let of = left.ty();
        if of.kind() != kind::VECTOR {
            continue;
        }
        let element = LLVMGetElementType(of);
        let is_half = element.kind() == kind::HALF;
        if !is_half && (element.kind() != kind::INTEGER || LLVMGetIntTypeWidth(element) != BITS) {
            continue;
        }
        LLVMPositionBuilderBefore(builder, one);
        let mut results = LLVMGetUndef(one.ty());
        for at in 0..LLVMGetVectorSize(of) {
            let at = LLVMConstInt(number, u64::from(at), 0);
            let [left, right] =
                [left, right].map(|all| LLVMBuildExtractElement(builder, all, at, UNNAMED));
            let result = match is_half {
                true => {
                    let predicate = LLVMGetFCmpPredicate(one);
                    LLVMBuildFCmp(builder, predicate, left, right, UNNAMED)
                }
                false => {
                    let predicate = LLVMGetICmpPredicate(one);
                    LLVMBuildICmp(builder, predicate, left, right, UNNAMED)
                }
            };
            results = LLVMBuildInsertElement(builder, results, result, at, UNNAMED);
        }
        LLVMReplaceAllUsesWith(one, results);
        LLVMInstructionEraseFromParent(one);
    }
}

fn machine(wanted: &Wanted<'_>) -> Result<Machine, Fault> {
    let triple = text_of(TRIPLE);
    let mut target = Target::NULL;
    let mut message = std::ptr::null_mut();
    if LLVMGetTargetFromTriple(triple.as_ptr(), &raw mut target, &raw mut message) != 0 {
        return Err(Fault::Failed(string(message)));
    }
    let capability = wanted.capability.min(LATEST);
    let processor = text_of(&format!("sm_{capability}"));
    // The first version of PTX that knows all of these devices, or so large arguments.
    let features = text_of(match capability {
        _ if wanted.images.len() > MOST_IMAGES => "+ptx81",
        89.. => "+ptx78",
        _ => "+ptx70",
    });
    const AGGRESSIVE: i32 = 3;
    const DEFAULT: i32 = 0;
    Ok(LLVMCreateTargetMachine(
        target,
        triple.as_ptr().cast_mut(),
        processor.as_ptr().cast_mut(),
        features.as_ptr().cast_mut(),
        AGGRESSIVE,
        DEFAULT,
        DEFAULT,
    ))
}

fn text_of(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap_or_default()
}

fn parsed(context: Context, text: &str) -> Result<Module, Fault> {
    let mut module = Module::NULL;
    let mut message = std::ptr::null_mut();
    let buffer = llvm::buffer(text.as_bytes());
    if LLVMParseIRInContext(context, buffer, &raw mut module, &raw mut message) != 0 {
        return Err(Fault::Failed(string(message)));
    }
    Ok(module)
}

/// Refuses a program that calls what there is on processors alone.
fn refuse_missing(module: Module) -> Result<(), Fault> {
    for function in library::missing(module) {
        let name = function.name();
        if name == print::FUNCTION || name.starts_with("llvm.") {
            continue;
        }
        return Err(Fault::Refused(format!(
            "error: function '{}' is not supported on NVIDIA's GPUs by this driver; use the device of NVIDIA's OpenCL \
             (`opencl:0`)",
            library::shown(&name)
        )));
    }
    Ok(())
}

/// A module's text for PTX.
fn adapted(text: &str, wanted: &Wanted<'_>) -> String {
    let kernel = wanted.kernel;
    let has_images = !wanted.images.is_empty();
    let mut adapted = format!(
        "target triple = \"{TRIPLE}\"\n{}{}",
        prelude(),
        orders::DECLARED
    );
    let mut declared = BTreeSet::new();
    let mut shift = String::new();
    let begin = format!("@{}(", quoted(kernel));
    for line in text.lines() {
        if line.starts_with("target ") || line.starts_with("source_filename") {
            continue;
        }
        let line = with_spaces(line, has_images);
        if line.starts_with("declare ") {
            // Those that the prelude defines.
            let own = ["lid", "gid", "group", "info", "barrier"];
            let mut own = own.iter().chain(&groups::OWN);
            let is_own = own.any(|name| line.contains(&format!("@__q_{name}")));
            if !is_own && declared.insert(line.clone()) {
                adapted.push_str(&line);
                adapted.push('\n');
            }
            continue;
        }
        if line.starts_with("define ") && line.contains(&begin) {
            let (head, shifted) = entry(&line, &begin, wanted.images);
            adapted.push_str(&head);
            adapted.push('\n');
            shift = shifted;
            continue;
        }
        // The first block may have a name, which comes before its instructions.
        if line.starts_with(' ') {
            adapted.push_str(&std::mem::take(&mut shift));
        }
        adapted.push_str(&orders::kept(&with_launch(&line)));
    }
    adapted
}

/// What is said of a kernel all of whose groups have one size.
fn of_size(kernel: &str, [x, y, z]: [u64; 3]) -> String {
    // More than a module has nodes.
    const NODE: &str = "!1000000000";
    format!(
        "!nvvm.annotations = !{{{NODE}}}\n\
         {NODE} = !{{ptr @{}, !\"reqntidx\", i32 {x}, !\"reqntidy\", i32 {y}, !\"reqntidz\", i32 {z}}}\n",
        quoted(kernel)
    )
}

/// A name as it stands in LLVM's text.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._$-".contains(&byte);
    match name.bytes().all(plain) {
        true => name.to_owned(),
        false => format!("\"{name}\""),
    }
}

/// The type of `char2`.
const TWO_BYTES: &str = "<2 x i8>";

/// The first line of a kernel with the parameters of the launch, and the instructions that find
/// passed local memory and make other parameters what the kernel has.
fn entry(line: &str, begin: &str, images: &[usize]) -> (String, String) {
    let (before, rest) = line.split_once(begin).unwrap_or((line, ""));
    let end = closing(rest);
    let (parameters, after) = rest.split_at(end);
    let mut shifted = String::new();
    let mut own: Vec<String> = Vec::new();
    for parameter in commas(parameters) {
        let parameter = parameter.trim();
        let name = parameter.rsplit(' ').next().unwrap_or_default();
        if parameter.starts_with(&format!("ptr{LOCAL}")) {
            let _ = writeln!(
                shifted,
                "  {name} = getelementptr i8, ptr{LOCAL} @quipu_launch_local, i64 {name}.from"
            );
            own.push(format!("i64 {name}.from"));
        } else if images.iter().any(|number| name == format!("%q.{number}")) {
            own.push(format!("ptr byval({IMAGE}) align 8 {name}"));
        } else if parameter.starts_with(TWO_BYTES) {
            // LLVM would take such a parameter for one of two numbers of 16 bits.
            let _ = writeln!(shifted, "  {name} = bitcast i16 {name}.bits to {TWO_BYTES}");
            own.push(format!("i16 {name}.bits"));
        } else if !parameter.is_empty() {
            own.push(parameter.to_owned());
        }
    }
    own.extend(["%o0", "%o1", "%o2", "%dim"].map(|name| format!("i32 {name}")));
    let kind = before.replacen(" void ", " ptx_kernel void ", 1);
    (format!("{kind}{begin}{}{after}", own.join(", ")), shifted)
}

/// The place where the parenthesis closes that is open at a text's beginning.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The parts between commas that are in no brackets.
fn commas(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A line in which what depends on the launch is passed the launch.
fn with_launch(line: &str) -> String {
    const LAUNCH: &str = "i32 %o0, i32 %o1, i32 %o2, i32 %dim";
    let Some(at) = line.find("@__q_") else {
        return line.to_owned();
    };
    let is_of_launch = line[at..].starts_with("@__q_gid") || line[at..].starts_with("@__q_info");
    let Some(open) = line[at..].find('(').filter(|_| is_of_launch) else {
        return line.to_owned();
    };
    let (before, rest) = line.split_at(at + open + 1);
    let comma = if rest.starts_with(')') { "" } else { ", " };
    let (own, after) = rest.split_at(closing(rest));
    format!("{before}{own}{comma}{LAUNCH}{after}")
}

/// A line with the address spaces of PTX: constant memory lies in global memory, and generic memory
/// has the number 0, which is that of private memory as well. An image is an argument of the
/// kernel's own, and a pointer to global memory in the built-in functions. So global memory is
/// generic in a kernel that has images.
fn with_spaces(line: &str, has_images: bool) -> String {
    let is_of_llvm = line.contains("@llvm.");
    let mut line = line.to_owned();
    if has_images {
        line = line.replace(GLOBAL, "");
    }
    line = line
        .replace(" addrspace(4)", "")
        .replace(" addrspace(2)", GLOBAL);
    if is_of_llvm {
        let global = if has_images { ".p0." } else { ".p1." };
        line = line
            .replace(".p1.", global)
            .replace(".p4.", ".p0.")
            .replace(".p2.", ".p1.");
    }
    within_one_space(&line)
}

/// A line whose casts between address spaces that are one now are none.
fn within_one_space(line: &str) -> String {
    const CAST: &str = "addrspacecast ";
    let mut rest = line;
    let mut changed = String::new();
    while let Some(at) = rest.find(CAST) {
        let (before, cast) = rest.split_at(at);
        changed.push_str(before);
        let operand = &cast[CAST.len()..];
        let space = |text: &str| {
            let text = text.trim_start_matches('(').strip_prefix("ptr")?;
            let number = text.strip_prefix(" addrspace(")?;
            number.split(')').next().map(str::to_owned)
        };
        let from = space(operand);
        let to = operand.find(" to ptr").map(|at| &operand[at + 4..]);
        let is_one = to.is_some_and(|to| space(to) == from);
        changed.push_str(if is_one { "bitcast " } else { CAST });
        rest = operand;
    }
    changed.push_str(rest);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_become_those_of_ptx() {
        for (spir, ptx) in [
            (
                "  %a = load i32, ptr addrspace(4) %b, align 4",
                "  %a = load i32, ptr %b, align 4",
            ),
            (
                "  %a = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)",
                "  %a = addrspacecast ptr addrspace(1) %b to ptr",
            ),
            (
                "  %a = addrspacecast ptr %b to ptr addrspace(4)",
                "  %a = bitcast ptr %b to ptr",
            ),
            (
                "  %a = addrspacecast ptr addrspace(2) %b to ptr addrspace(1)",
                "  %a = bitcast ptr addrspace(1) %b to ptr addrspace(1)",
            ),
            (
                "  store i32 1, ptr addrspace(4) addrspacecast (ptr addrspace(3) @x to ptr addrspace(4))",
                "  store i32 1, ptr addrspacecast (ptr addrspace(3) @x to ptr)",
            ),
            (
                "declare void @llvm.memcpy.p4.p2.i64(ptr addrspace(4), ptr addrspace(2), i64, i1)",
                "declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)",
            ),
        ] {
            assert_eq!(with_spaces(spir, false), ptx);
        }
    }

    #[test]
    fn an_image_is_passed_by_value_and_global_memory_is_generic_then() {
        let line =
            "define dso_local void @k(ptr addrspace(1) readonly %q.0, ptr addrspace(1) %q.1) {";
        let (head, _) = entry(&with_spaces(line, true), "@k(", &[1]);
        assert_eq!(
            head,
            "define dso_local ptx_kernel void @k(ptr readonly %q.0, ptr byval([7 x i64]) align 8 %q.1, i32 %o0, i32 %o1, \
             i32 %o2, i32 %dim) {"
        );
        assert_eq!(
            with_spaces(
                "  call void @llvm.memcpy.p1.p2.i64(ptr addrspace(1) %a, ptr addrspace(2) %b)",
                true
            ),
            "  call void @llvm.memcpy.p0.p1.i64(ptr %a, ptr addrspace(1) %b)"
        );
        assert_eq!(
            with_spaces(
                "  %a = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)",
                true
            ),
            "  %a = bitcast ptr %b to ptr"
        );
    }

    #[test]
    fn a_kernel_is_given_the_launch_and_finds_its_local_memory() {
        let line = "define dso_local void @k(ptr addrspace(1) align 4 %q.0, ptr addrspace(3) align 4 %q.1) #0 !x !1 {";
        let (head, shifted) = entry(line, "@k(", &[]);
        assert_eq!(
            head,
            "define dso_local ptx_kernel void @k(ptr addrspace(1) align 4 %q.0, i64 %q.1.from, i32 %o0, i32 %o1, i32 %o2, \
             i32 %dim) #0 !x !1 {"
        );
        assert_eq!(
            shifted,
            "  %q.1 = getelementptr i8, ptr addrspace(3) @quipu_launch_local, i64 %q.1.from\n"
        );
        assert_eq!(
            with_launch("  %1 = tail call i32 @__q_gid0() #4"),
            "  %1 = tail call i32 @__q_gid0(i32 %o0, i32 %o1, i32 %o2, i32 %dim) #4"
        );
        assert_eq!(
            with_launch("  %1 = call i64 @__q_info(i32 noundef 3) #4"),
            "  %1 = call i64 @__q_info(i32 noundef 3, i32 %o0, i32 %o1, i32 %o2, i32 %dim) #4"
        );
    }
}

//! Machine code: the processor, the optimiser's pipeline, the linker.

use super::llvm::*;
use super::remarks::Remarks;
use super::tools::Tools;
use super::workgroup::{Notes, spaces, sub_groups};
use super::{
    Fault, Output, forms, library, llvm, neighbours, remarks, structures, variables, versions,
    workgroup,
};
use crate::metadata::Layout;
use std::ffi::CStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A step of the compiler that uses LLVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes each kernel of a program one function.
    Read,
    /// Makes machine code of a function of work-groups.
    Compile,
}

impl Step {
    /// LLVM's options for it.
    fn options(self) -> &'static [&'static CStr] {
        match self {
            Self::Read => &[
                // Rounds of hashes and ciphers, and arrays of a work-item's own that they index,
                // are registers once unrolled.
                c"-unroll-threshold=1000",
            ],
            Self::Compile => &[
                // A stride that an argument gives is not one: a loop would be made of vectors for
                // that case alone.
                c"-enable-mem-access-versioning=false",
                // A loop over work-items must not end in the middle of what one does, where both
                // make the same test.
                c"-jump-threading-threshold=0",
                // What is the same for a group is asked outside of the loop over its work-items.
                c"-unswitch-threshold=300",
            ],
        }
    }
}

/// Gives libLLVM options, beside those that it has been given.
pub(super) fn tell(options: &[&CStr]) {
    let options: Vec<_> = std::iter::once(&c"quipu-clc")
        .chain(options)
        .map(|option| option.as_ptr())
        .collect();
    LLVMParseCommandLineOptions(options.len() as i32, options.as_ptr(), UNNAMED);
}

/// Loads libLLVM and tells it what all compilations have in common.
pub(super) fn load_llvm(tools: &Tools, step: Step) -> Result<(), Fault> {
    llvm::load(&tools.llvm).map_err(|error| {
        Fault::Failed(format!(
            "{} cannot be loaded: {error}",
            tools.llvm.display()
        ))
    })?;
    tell(step.options());
    tell(versions::options(tools.version));
    let family = match std::env::consts::ARCH {
        "x86_64" | "x86" => "X86",
        "aarch64" => "AArch64",
        "riscv64" => "RISCV",
        other => {
            return Err(Fault::Failed(format!(
                "processors of kind '{other}' are not supported yet"
            )));
        }
    };
    for part in ["TargetInfo", "Target", "TargetMC", "AsmPrinter"] {
        if !call_by_name(&format!("LLVMInitialize{family}{part}")) {
            return Err(Fault::Failed(format!("libLLVM makes no code for {family}")));
        }
    }
    Ok(())
}

/// Reads bitcode.
pub(super) fn parse(context: Context, bitcode: &[u8]) -> Result<Module, Fault> {
    let mut module = Module::NULL;
    if LLVMParseBitcodeInContext2(context, llvm::buffer(bitcode), &raw mut module) != 0 {
        return Err(Fault::Failed(
            "libLLVM cannot read clang's bitcode: are they of different versions?".to_owned(),
        ));
    }
    Ok(module)
}

/// This processor, which the module is then made for.
pub(super) fn host_machine(module: Module) -> Result<Machine, Fault> {
    let triple = LLVMGetDefaultTargetTriple();
    let mut target = Target::NULL;
    let mut message = std::ptr::null_mut();
    if LLVMGetTargetFromTriple(triple, &raw mut target, &raw mut message) != 0 {
        return Err(Fault::Failed(string(message)));
    }
    const AGGRESSIVE: i32 = 3;
    const POSITION_INDEPENDENT: i32 = 2;
    const DEFAULT_MODEL: i32 = 0;
    // `half` is computed in `float` and rounded on every processor, so that all give the same
    // results.
    let without_half = if cfg!(target_arch = "x86_64") {
        ",-avx512fp16"
    } else {
        ""
    };
    let features = text(&(string(LLVMGetHostCPUFeatures()) + without_half));
    let machine = LLVMCreateTargetMachine(
        target,
        triple,
        LLVMGetHostCPUName(),
        features.as_ptr(),
        AGGRESSIVE,
        POSITION_INDEPENDENT,
        DEFAULT_MODEL,
    );
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, LLVMCreateTargetDataLayout(machine));
    Ok(machine)
}

/// Compiles a kernel of a program that was read.
pub(super) fn compile(
    tools: &Tools,
    bitcode: &[u8],
    kernel: &str,
    local_size: Option<[u32; 3]>,
    output: Output,
) -> Result<(Layout, Vec<u8>), Fault> {
    load_llvm(tools, Step::Compile)?;
    let context = LLVMContextCreate();
    let (module, machine, function) = resolved(context, bitcode, kernel, local_size)?;
    let mut notes = (output == Output::Explanation).then(Notes::default);
    let remarks = notes.is_some().then(|| Remarks::of(context));
    library::name_mathematics(module);
    for other in module.functions() {
        if other != function && LLVMIsDeclaration(other) == 0 {
            LLVMSetLinkage(other, linkage::INTERNAL);
        }
    }
    let switches = workgroup::switches_by_numbers(function);
    let has_forms = forms::call(context, module, machine, function)?;
    let layout = workgroup::transform(
        context,
        module,
        function,
        machine,
        local_size,
        notes.as_mut(),
    )?;
    // Places of loops are in no list of the module's, which the verifier wants.
    if notes.is_none() {
        module.verify().map_err(|error| {
            Fault::Failed(format!(
                "the work-group passes made what is no code: {error}"
            ))
        })?;
    }
    if output == Output::Passes {
        return Ok((layout, module.text().into_bytes()));
    }
    module.run(
        "globaldce,function(sroa,early-cse,simplifycfg),default<O3>",
        machine,
    )?;
    if switches {
        // LLVM before 20 makes no vectors of a loop with a switch, and its optimiser makes switches
        // of tests.
        let tests = versions::tests_of_switches(tools.version);
        let passes = format!("function({tests},loop-vectorize),default<O3>");
        module.run(&passes, machine)?;
    }
    let asks = match module.function(workgroup::ENTRY) {
        Some(made) => {
            let reads = structures::read_whole(context, module, machine, made)?;
            neighbours::ask(context, module, machine, made)? || reads
        }
        None => false,
    };
    if has_forms {
        forms::marked_inline(context, module);
    }
    if asks || has_forms {
        // A sine and a cosine of one angle share most of their arithmetic.
        let passes = "always-inline,globaldce,\
                      function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";
        module.run(passes, machine)?;
    }
    if let (Some(notes), Some(remarks)) = (notes, remarks) {
        let text = remarks::explanation(kernel, local_size, &layout, &notes, &remarks, module);
        return Ok((layout, text.into_bytes()));
    }
    if output == Output::Optimised {
        return Ok((layout, module.text().into_bytes()));
    }
    if output == Output::Assembly {
        return Ok((layout, emitted(machine, module, ASSEMBLY)?.to_vec()));
    }
    Ok((layout, link(tools, emitted(machine, module, OBJECT)?)?))
}

/// A kernel of a program, of which it is known how large its sub-groups are, and whether their
/// work-items meet at the same places.
fn resolved(
    context: Context,
    bitcode: &[u8],
    kernel: &str,
    local_size: Option<[u32; 3]>,
) -> Result<(Module, Machine, Value), Fault> {
    let mut are_apart = false;
    loop {
        let module = parse(context, bitcode)?;
        let machine = host_machine(module)?;
        let function = module
            .function(kernel)
            .ok_or_else(|| Fault::Failed(format!("the program has no kernel '{kernel}'")))?;
        spaces::resolve(context, module, function);
        if !sub_groups::resolve(context, function, local_size, are_apart) {
            return Ok((module, machine, function));
        }
        module.run(
            "function(instcombine<no-verify-fixpoint>,early-cse<memssa>,simplifycfg,adce)",
            machine,
        )?;
        // Results are known to be the same for all only where all are together, and where they are
        // depends on that.
        if are_apart || !sub_groups::are_apart(function) {
            return Ok((module, machine, function));
        }
        are_apart = true;
    }
}

/// Makes the variables that the kernels of a program share.
pub(super) fn variables(tools: &Tools, bitcode: &[u8]) -> Result<Vec<u8>, Fault> {
    load_llvm(tools, Step::Compile)?;
    let context = LLVMContextCreate();
    let module = parse(context, bitcode)?;
    let machine = host_machine(module)?;
    variables::only(context, module);
    module.run("globaldce", machine)?;
    link(tools, emitted(machine, module, OBJECT)?)
}

pub(super) const ASSEMBLY: i32 = 0;
const OBJECT: i32 = 1;

/// The code of a module, as assembly or an object.
pub(super) fn emitted(machine: Machine, module: Module, kind: i32) -> Result<&'static [u8], Fault> {
    let mut made = Buffer::NULL;
    let mut message = std::ptr::null_mut();
    if LLVMTargetMachineEmitToMemoryBuffer(machine, module, kind, &raw mut message, &raw mut made)
        != 0
    {
        return Err(Fault::Failed(string(message)));
    }
    Ok(llvm::contents(made))
}

/// Makes a shared object of an object, by the first linker that can.
fn link(tools: &Tools, object: &[u8]) -> Result<Vec<u8>, Fault> {
    let folder = Scratch::new()?;
    let (from, to) = (folder.0.join("kernel.o"), folder.0.join("kernel.so"));
    std::fs::write(&from, object)?;
    let mut said = Vec::new();
    for linker in &tools.linkers {
        let output = Command::new(linker)
            .args([
                "-shared",
                "-z",
                "now",
                "-z",
                "noexecstack",
                "--build-id=none",
                "-o",
            ])
            .args([&to, &from])
            .output();
        match output {
            Ok(output) if output.status.success() => return Ok(std::fs::read(to)?),
            Ok(output) => said.push(
                String::from_utf8_lossy(&output.stderr)
                    .trim_end()
                    .to_owned(),
            ),
            Err(error) => said.push(format!("{}: {error}", linker.display())),
        }
    }
    Err(Fault::Failed(format!(
        "the linker says: {}",
        said.join("; ")
    )))
}

/// A folder that is gone when it is dropped.
pub(crate) struct Scratch(std::path::PathBuf);

impl Scratch {
    pub(crate) fn new() -> std::io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let name = format!(
            "quipu-clc-{}-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed),
            now.map_or(0, |now| now.as_nanos())
        );
        let folder = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

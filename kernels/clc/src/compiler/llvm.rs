//! libLLVM's C interface, loaded when the compiler's process starts.
//!
//! The functions below have LLVM's own names and are declared once, by [`functions`]. They are safe
//! to call here because of two rules that this crate keeps: only the compiler's own process calls
//! them, which has one thread; and every handle comes from libLLVM and stays valid, since contexts
//! and modules are never disposed of before the process ends. A value that has been erased or a
//! module that has been linked into another is not used again.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub(crate) struct $name(*mut c_void);

        impl $name {
            /// No handle at all.
            #[allow(dead_code)]
            pub(crate) const NULL: Self = Self(std::ptr::null_mut());

            /// The handle, unless it is null.
            #[allow(dead_code)]
            pub(crate) fn some(self) -> Option<Self> {
                (!self.0.is_null()).then_some(self)
            }
        }
    )*};
}

handles! {
    /// A context: types and metadata live in one.
    Context,
    /// A module.
    Module,
    /// A value: a constant, an argument, an instruction, a global.
    Value,
    /// A basic block.
    Block,
    /// A type.
    Type,
    /// A builder of instructions.
    Builder,
    /// A use of a value.
    Use,
    /// Bytes that libLLVM owns.
    Buffer,
    /// Metadata.
    Metadata,
    /// Metadata of a global, by kind.
    Entries,
    /// An attribute.
    Attribute,
    /// Sizes and alignments of types.
    DataLayout,
    /// A kind of processor.
    Target,
    /// A processor that code is made for.
    Machine,
    /// An error, or null.
    Failure,
    /// Settings of the optimiser's pipeline.
    PassOptions,
}

/// A function that libLLVM calls with a message, and with the pointer that it was given for it.
pub(crate) type DiagnosticHandler = extern "C" fn(*mut c_void, *mut c_void);

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)]
        struct Api {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
            library: libloading::Library,
        }

        impl Api {
            fn load(library: libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of LLVM's C interface, which has been the same
                    // since LLVM 18.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    library,
                })
            }
        }

        $(
            #[allow(non_snake_case)]
            pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: see the module: one thread, and handles that are valid.
                unsafe { (api().$name)($($argument),*) }
            }
        )*
    };
}

static API: OnceLock<Api> = OnceLock::new();

fn api() -> &'static Api {
    API.get().expect("libLLVM is loaded before it is called")
}

/// Loads libLLVM from a file.
///
/// # Errors
/// If it cannot be loaded, or lacks a function.
pub(crate) fn load(path: &std::path::Path) -> Result<(), String> {
    if API.get().is_some() {
        return Ok(());
    }
    // SAFETY: libLLVM's initialisers have no requirements.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    let api = Api::load(library).map_err(|error| error.to_string())?;
    let _ = API.set(api);
    Ok(())
}

/// Calls a function that takes nothing, such as `LLVMInitializeX86Target`.
pub(crate) fn call_by_name(name: &str) -> bool {
    let name = text(name);
    // SAFETY: these functions take nothing and return nothing.
    unsafe {
        let function = api()
            .library
            .get::<unsafe extern "C" fn()>(name.as_bytes_with_nul());
        function.map(|function| function()).is_ok()
    }
}

functions! {
    LLVMParseCommandLineOptions(count: c_int, arguments: *const *const c_char, overview: *const c_char);
    LLVMContextCreate() -> Context;
    LLVMCreateMemoryBufferWithMemoryRangeCopy(data: *const c_char, length: usize, name: *const c_char) -> Buffer;
    LLVMGetBufferStart(buffer: Buffer) -> *const c_char;
    LLVMGetBufferSize(buffer: Buffer) -> usize;
    LLVMParseBitcodeInContext2(context: Context, buffer: Buffer, module: *mut Module) -> c_int;
    LLVMGetBitcodeModuleInContext2(context: Context, buffer: Buffer, module: *mut Module) -> c_int;
    LLVMParseIRInContext(context: Context, buffer: Buffer, module: *mut Module, message: *mut *mut c_char) -> c_int;
    LLVMWriteBitcodeToMemoryBuffer(module: Module) -> Buffer;
    LLVMLinkModules2(to: Module, from: Module) -> c_int;
    LLVMPrintTypeToString(of: Type) -> *mut c_char;
    LLVMPrintModuleToString(module: Module) -> *mut c_char;
    LLVMVerifyModule(module: Module, action: c_int, message: *mut *mut c_char) -> c_int;
    LLVMStripModuleDebugInfo(module: Module) -> c_int;
    LLVMGetTarget(module: Module) -> *const c_char;
    LLVMSetTarget(module: Module, triple: *const c_char);
    LLVMGetDataLayoutStr(module: Module) -> *const c_char;
    LLVMSetDataLayout(module: Module, layout: *const c_char);
    LLVMSetModuleDataLayout(module: Module, layout: DataLayout);
    LLVMGetFirstFunction(module: Module) -> Value;
    LLVMGetNextFunction(function: Value) -> Value;
    LLVMGetNamedFunction(module: Module, name: *const c_char) -> Value;
    LLVMAddFunction(module: Module, name: *const c_char, of: Type) -> Value;
    LLVMGetFirstGlobal(module: Module) -> Value;
    LLVMGetNextGlobal(global: Value) -> Value;
    LLVMGlobalGetValueType(global: Value) -> Type;
    LLVMIsDeclaration(global: Value) -> c_int;
    LLVMGetLinkage(global: Value) -> c_int;
    LLVMSetLinkage(global: Value, linkage: c_int);
    LLVMGetAlignment(value: Value) -> c_uint;
    LLVMSetAlignment(value: Value, bytes: c_uint);
    LLVMBuildFreeze(builder: Builder, value: Value, name: *const c_char) -> Value;
    LLVMBuildInsertElement(builder: Builder, vector: Value, element: Value, index: Value, name: *const c_char) -> Value;
    LLVMGetFunctionCallConv(function: Value) -> c_uint;
    LLVMSetFunctionCallConv(function: Value, convention: c_uint);
    LLVMSetInstructionCallConv(call: Value, convention: c_uint);
    LLVMCountParams(function: Value) -> c_uint;
    LLVMGetParam(function: Value, index: c_uint) -> Value;
    LLVMGlobalCopyAllMetadata(global: Value, count: *mut usize) -> Entries;
    LLVMValueMetadataEntriesGetKind(entries: Entries, index: c_uint) -> c_uint;
    LLVMValueMetadataEntriesGetMetadata(entries: Entries, index: c_uint) -> Metadata;
    LLVMMetadataAsValue(context: Context, metadata: Metadata) -> Value;
    LLVMGetMDKindIDInContext(context: Context, name: *const c_char, length: c_uint) -> c_uint;
    LLVMGetMDNodeNumOperands(node: Value) -> c_uint;
    LLVMGetMDNodeOperands(node: Value, operands: *mut Value);
    LLVMGetMDString(value: Value, length: *mut c_uint) -> *const c_char;
    LLVMGetNamedMetadataOperands(module: Module, name: *const c_char, operands: *mut Value);
    LLVMGetMetadata(instruction: Value, kind: c_uint) -> Value;
    LLVMSetMetadata(instruction: Value, kind: c_uint, node: Value);
    LLVMGetDebugLocLine(value: Value) -> c_uint;
    LLVMInstructionGetDebugLoc(instruction: Value) -> Metadata;
    LLVMDILocationGetLine(location: Metadata) -> c_uint;
    LLVMDILocationGetScope(location: Metadata) -> Metadata;
    LLVMDILocationGetInlinedAt(location: Metadata) -> Metadata;
    LLVMDIScopeGetFile(scope: Metadata) -> Metadata;
    LLVMDIFileGetFilename(file: Metadata, length: *mut c_uint) -> *const c_char;
    LLVMDIBuilderCreateDebugLocation(context: Context, line: c_uint, column: c_uint, scope: Metadata, inlined_at: Metadata) -> Metadata;
    LLVMSetCurrentDebugLocation2(builder: Builder, location: Metadata);
    LLVMValueAsMetadata(value: Value) -> Metadata;
    LLVMGetMetadataKind(metadata: Metadata) -> c_int;
    LLVMContextSetDiagnosticHandler(context: Context, handler: DiagnosticHandler, of: *mut c_void);
    LLVMGetDiagInfoDescription(diagnostic: *mut c_void) -> *mut c_char;
    LLVMGetEnumAttributeKindForName(name: *const c_char, length: usize) -> c_uint;
    LLVMCreateEnumAttribute(context: Context, kind: c_uint, value: u64) -> Attribute;
    LLVMGetEnumAttributeAtIndex(function: Value, index: c_uint, kind: c_uint) -> Attribute;
    LLVMGetStringAttributeAtIndex(function: Value, index: c_uint, name: *const c_char, length: c_uint) -> Attribute;
    LLVMGetStringAttributeValue(attribute: Attribute, length: *mut c_uint) -> *const c_char;
    LLVMCreateStringAttribute(context: Context, name: *const c_char, name_length: c_uint, value: *const c_char, value_length: c_uint) -> Attribute;
    LLVMGetTypeAttributeValue(attribute: Attribute) -> Type;
    LLVMAddAttributeAtIndex(function: Value, index: c_uint, attribute: Attribute);
    LLVMRemoveEnumAttributeAtIndex(function: Value, index: c_uint, kind: c_uint);
    LLVMRemoveCallSiteEnumAttribute(call: Value, index: c_uint, kind: c_uint);
    LLVMRemoveStringAttributeAtIndex(function: Value, index: c_uint, name: *const c_char, length: c_uint);
    LLVMTypeOf(value: Value) -> Type;
    LLVMGetTypeKind(of: Type) -> c_int;
    LLVMGetIntTypeWidth(of: Type) -> c_uint;
    LLVMGetPointerAddressSpace(of: Type) -> c_uint;
    LLVMVoidTypeInContext(context: Context) -> Type;
    LLVMIntTypeInContext(context: Context, bits: c_uint) -> Type;
    LLVMPointerTypeInContext(context: Context, space: c_uint) -> Type;
    LLVMArrayType2(of: Type, count: u64) -> Type;
    LLVMConstStructInContext(context: Context, values: *const Value, count: c_uint, packed: c_int) -> Value;
    LLVMGetAggregateElement(constant: Value, at: c_uint) -> Value;
    LLVMConstBitCast(value: Value, to: Type) -> Value;
    LLVMConstPointerNull(of: Type) -> Value;
    LLVMMDNodeInContext2(context: Context, operands: *const Metadata, count: usize) -> Metadata;
    LLVMMDStringInContext2(context: Context, text: *const c_char, length: usize) -> Metadata;
    LLVMFunctionType(result: Type, parameters: *const Type, count: c_uint, variadic: c_int) -> Type;
    LLVMGetReturnType(of: Type) -> Type;
    LLVMConstNull(of: Type) -> Value;
    LLVMConstAllOnes(of: Type) -> Value;
    LLVMConstVector(values: *const Value, count: c_uint) -> Value;
    LLVMGetVectorSize(of: Type) -> c_uint;
    LLVMConstInt(of: Type, value: u64, signed: c_int) -> Value;
    LLVMGetUndef(of: Type) -> Value;
    LLVMGetPoison(of: Type) -> Value;
    LLVMSetValueName2(value: Value, name: *const c_char, length: usize);
    LLVMGetValueName2(value: Value, length: *mut usize) -> *const c_char;
    LLVMGetFirstBasicBlock(function: Value) -> Block;
    LLVMGetNextBasicBlock(block: Block) -> Block;
    LLVMAppendBasicBlockInContext(context: Context, function: Value, name: *const c_char) -> Block;
    LLVMGetBasicBlockTerminator(block: Block) -> Value;
    LLVMGetFirstInstruction(block: Block) -> Value;
    LLVMGetNextInstruction(instruction: Value) -> Value;
    LLVMGetInstructionOpcode(instruction: Value) -> c_int;
    LLVMGetNumOperands(value: Value) -> c_int;
    LLVMGetOperand(value: Value, index: c_uint) -> Value;
    LLVMSetOperand(value: Value, index: c_uint, operand: Value);
    LLVMGetNumSuccessors(terminator: Value) -> c_uint;
    LLVMGetSuccessor(terminator: Value, index: c_uint) -> Block;
    LLVMSetSuccessor(terminator: Value, index: c_uint, block: Block);
    LLVMInstructionClone(instruction: Value) -> Value;
    LLVMGetCalledValue(call: Value) -> Value;
    LLVMCountIncoming(phi: Value) -> c_uint;
    LLVMGetIncomingValue(phi: Value, index: c_uint) -> Value;
    LLVMGetIncomingBlock(phi: Value, index: c_uint) -> Block;
    LLVMBuildPhi(builder: Builder, of: Type, name: *const c_char) -> Value;
    LLVMGetOrdering(access: Value) -> c_int;
    LLVMGetAtomicRMWBinOp(access: Value) -> c_int;
    LLVMAddIncoming(phi: Value, values: *const Value, blocks: *const Block, count: c_uint);
    LLVMGetFirstUse(value: Value) -> Use;
    LLVMGetNextUse(of: Use) -> Use;
    LLVMGetUser(of: Use) -> Value;
    LLVMReplaceAllUsesWith(value: Value, with: Value);
    LLVMGetICmpPredicate(value: Value) -> c_int;
    LLVMGetFCmpPredicate(value: Value) -> c_int;
    LLVMGetVolatile(access: Value) -> c_int;
    LLVMSetVolatile(access: Value, volatile: c_int);
    LLVMIsAInstruction(value: Value) -> Value;
    LLVMIsAArgument(value: Value) -> Value;
    LLVMIsAConstantDataArray(value: Value) -> Value;
    LLVMIsAConstantExpr(value: Value) -> Value;
    LLVMIsAConstantInt(value: Value) -> Value;
    LLVMIsAFunction(value: Value) -> Value;
    LLVMConstIntGetZExtValue(value: Value) -> u64;
    LLVMGetConstOpcode(value: Value) -> c_int;
    LLVMGetGEPSourceElementType(value: Value) -> Type;
    LLVMGetElementType(of: Type) -> Type;
    LLVMGetAllocatedType(alloca: Value) -> Type;
    LLVMCreateBuilderInContext(context: Context) -> Builder;
    LLVMPositionBuilderAtEnd(builder: Builder, block: Block);
    LLVMPositionBuilderBefore(builder: Builder, instruction: Value);
    LLVMInsertIntoBuilder(builder: Builder, instruction: Value);
    LLVMBuildBr(builder: Builder, to: Block) -> Value;
    LLVMBuildCondBr(builder: Builder, condition: Value, yes: Block, no: Block) -> Value;
    LLVMBuildSwitch(builder: Builder, on: Value, otherwise: Block, count: c_uint) -> Value;
    LLVMAddCase(switch: Value, value: Value, block: Block);
    LLVMBuildRetVoid(builder: Builder) -> Value;
    LLVMBuildUnreachable(builder: Builder) -> Value;
    LLVMBuildAlloca(builder: Builder, of: Type, name: *const c_char) -> Value;
    LLVMBuildLoad2(builder: Builder, of: Type, from: Value, name: *const c_char) -> Value;
    LLVMBuildStore(builder: Builder, value: Value, to: Value) -> Value;
    LLVMBuildMemCpy(builder: Builder, to: Value, to_align: c_uint, from: Value, from_align: c_uint, bytes: Value) -> Value;
    LLVMBuildGEP2(builder: Builder, of: Type, pointer: Value, indices: *const Value, count: c_uint, name: *const c_char) -> Value;
    LLVMBuildInBoundsGEP2(builder: Builder, of: Type, pointer: Value, indices: *const Value, count: c_uint, name: *const c_char) -> Value;
    LLVMBuildBinOp(builder: Builder, operation: c_int, left: Value, right: Value, name: *const c_char) -> Value;
    LLVMBuildInsertValue(builder: Builder, whole: Value, part: Value, index: c_uint, name: *const c_char) -> Value;
    LLVMBuildExtractValue(builder: Builder, whole: Value, at: c_uint, name: *const c_char) -> Value;
    LLVMSetNUW(arithmetic: Value, set: c_int);
    LLVMSetNSW(arithmetic: Value, set: c_int);
    LLVMGetNUW(arithmetic: Value) -> c_int;
    LLVMGetNSW(arithmetic: Value) -> c_int;
    LLVMGetIsDisjoint(or: Value) -> c_int;
    LLVMGetInsertBlock(builder: Builder) -> Block;
    LLVMBuildICmp(builder: Builder, predicate: c_int, left: Value, right: Value, name: *const c_char) -> Value;
    LLVMBuildSelect(builder: Builder, condition: Value, yes: Value, no: Value, name: *const c_char) -> Value;
    LLVMBuildCast(builder: Builder, operation: c_int, value: Value, to: Type, name: *const c_char) -> Value;
    LLVMBuildFCmp(builder: Builder, predicate: c_int, left: Value, right: Value, name: *const c_char) -> Value;
    LLVMBuildExtractElement(builder: Builder, vector: Value, index: Value, name: *const c_char) -> Value;
    LLVMInstructionEraseFromParent(instruction: Value);
    LLVMIsAGlobalVariable(value: Value) -> Value;
    LLVMIsGlobalConstant(global: Value) -> c_int;
    LLVMGetInitializer(global: Value) -> Value;
    LLVMSetInitializer(global: Value, value: Value);
    LLVMSetGlobalConstant(global: Value, is: c_int);
    LLVMAddGlobalInAddressSpace(module: Module, of: Type, name: *const c_char, space: c_uint) -> Value;
    LLVMConstReal(of: Type, number: f64) -> Value;
    LLVMIsConstantString(value: Value) -> c_int;
    LLVMGetAsString(value: Value, length: *mut usize) -> *const c_char;
    LLVMConstStringInContext(context: Context, text: *const c_char, length: c_uint, without_zero: c_int) -> Value;
    LLVMDoubleTypeInContext(context: Context) -> Type;
    LLVMHalfTypeInContext(context: Context) -> Type;
    LLVMBuildCall2(builder: Builder, of: Type, function: Value, arguments: *const Value, count: c_uint, name: *const c_char) -> Value;
    LLVMGetDefaultTargetTriple() -> *mut c_char;
    LLVMGetHostCPUName() -> *mut c_char;
    LLVMGetHostCPUFeatures() -> *mut c_char;
    LLVMGetTargetFromTriple(triple: *const c_char, target: *mut Target, message: *mut *mut c_char) -> c_int;
    LLVMCreateTargetMachine(target: Target, triple: *const c_char, cpu: *const c_char, features: *const c_char, level: c_int, relocation: c_int, model: c_int) -> Machine;
    LLVMCreateTargetDataLayout(machine: Machine) -> DataLayout;
    LLVMABISizeOfType(layout: DataLayout, of: Type) -> u64;
    LLVMOffsetOfElement(layout: DataLayout, of: Type, member: c_uint) -> u64;
    LLVMStructGetTypeAtIndex(of: Type, member: c_uint) -> Type;
    LLVMABIAlignmentOfType(layout: DataLayout, of: Type) -> c_uint;
    LLVMTargetMachineEmitToMemoryBuffer(machine: Machine, module: Module, kind: c_int, message: *mut *mut c_char, buffer: *mut Buffer) -> c_int;
    LLVMCreatePassBuilderOptions() -> PassOptions;
    LLVMRunPasses(module: Module, passes: *const c_char, machine: Machine, options: PassOptions) -> Failure;
    LLVMGetErrorMessage(failure: Failure) -> *mut c_char;
}

/// Opcodes of instructions, as the C interface numbers them.
pub(crate) mod op {
    pub(crate) const RET: i32 = 1;
    pub(crate) const BR: i32 = 2;
    pub(crate) const SWITCH: i32 = 3;
    pub(crate) const UNREACHABLE: i32 = 7;
    pub(crate) const ADD: i32 = 8;
    pub(crate) const SUB: i32 = 10;
    pub(crate) const MUL: i32 = 12;
    pub(crate) const FDIV: i32 = 16;
    pub(crate) const UDIV: i32 = 14;
    pub(crate) const SDIV: i32 = 15;
    pub(crate) const UREM: i32 = 17;
    pub(crate) const SREM: i32 = 18;
    pub(crate) const SHL: i32 = 20;
    pub(crate) const LSHR: i32 = 21;
    pub(crate) const ASHR: i32 = 22;
    pub(crate) const AND: i32 = 23;
    pub(crate) const OR: i32 = 24;
    pub(crate) const XOR: i32 = 25;
    pub(crate) const ALLOCA: i32 = 26;
    pub(crate) const LOAD: i32 = 27;
    pub(crate) const STORE: i32 = 28;
    pub(crate) const GEP: i32 = 29;
    pub(crate) const TRUNC: i32 = 30;
    pub(crate) const ZEXT: i32 = 31;
    pub(crate) const SEXT: i32 = 32;
    pub(crate) const FP_TO_UI: i32 = 33;
    pub(crate) const FP_TO_SI: i32 = 34;
    pub(crate) const UI_TO_FP: i32 = 35;
    pub(crate) const SI_TO_FP: i32 = 36;
    pub(crate) const FP_TRUNC: i32 = 37;
    pub(crate) const FP_EXT: i32 = 38;
    pub(crate) const PTR_TO_INT: i32 = 39;
    pub(crate) const INT_TO_PTR: i32 = 40;
    pub(crate) const ICMP: i32 = 42;
    pub(crate) const FCMP: i32 = 43;
    pub(crate) const PHI: i32 = 44;
    pub(crate) const CALL: i32 = 45;
    pub(crate) const SELECT: i32 = 46;
    pub(crate) const INSERT_ELEMENT: i32 = 51;
    pub(crate) const SHUFFLE_VECTOR: i32 = 52;
    pub(crate) const EXTRACT_VALUE: i32 = 53;
    pub(crate) const FENCE: i32 = 55;
    pub(crate) const ATOMIC_CMPXCHG: i32 = 56;
    pub(crate) const ATOMIC_RMW: i32 = 57;
    pub(crate) const BIT_CAST: i32 = 41;
    pub(crate) const ADDRESS_SPACE_CAST: i32 = 60;
    pub(crate) const FREEZE: i32 = 68;
}

/// Kinds of types, as the C interface numbers them.
pub(crate) mod kind {
    pub(crate) const VOID: i32 = 0;
    pub(crate) const HALF: i32 = 1;
    pub(crate) const FLOAT: i32 = 2;
    pub(crate) const DOUBLE: i32 = 3;
    pub(crate) const INTEGER: i32 = 8;
    pub(crate) const STRUCT: i32 = 10;
    pub(crate) const ARRAY: i32 = 11;
    pub(crate) const POINTER: i32 = 12;
    pub(crate) const VECTOR: i32 = 13;
}

/// Predicates of integer comparisons.
pub(crate) mod compare {
    pub(crate) const EQ: i32 = 32;
    pub(crate) const NE: i32 = 33;
    pub(crate) const UGT: i32 = 34;
    pub(crate) const UGE: i32 = 35;
    pub(crate) const ULT: i32 = 36;
    pub(crate) const ULE: i32 = 37;
    pub(crate) const SGT: i32 = 38;
    pub(crate) const SGE: i32 = 39;
    pub(crate) const SLT: i32 = 40;
    pub(crate) const SLE: i32 = 41;
}

/// Linkage of globals.
pub(crate) mod linkage {
    pub(crate) const EXTERNAL: i32 = 0;
    pub(crate) const LINK_ONCE_ODR: i32 = 3;
    pub(crate) const INTERNAL: i32 = 8;
}

/// No name, for what is made.
pub(crate) const UNNAMED: *const c_char = c"".as_ptr();

/// Text as libLLVM takes it. A zero within ends it.
pub(crate) fn text(text: &str) -> CString {
    let until = text.split('\0').next().unwrap_or_default();
    CString::new(until).unwrap_or_default()
}

/// A string that libLLVM has made.
pub(crate) fn string(made: *const c_char) -> String {
    if made.is_null() {
        return String::new();
    }
    // SAFETY: libLLVM ends its strings with a zero, and nobody frees them here.
    let made = unsafe { CStr::from_ptr(made) };
    made.to_string_lossy().into_owned()
}

pub(crate) fn bytes<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: libLLVM says that so many bytes are there; they stay until the process ends.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

/// The bytes of a buffer.
pub(crate) fn contents(buffer: Buffer) -> &'static [u8] {
    bytes(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer))
}

/// A buffer of these bytes.
pub(crate) fn buffer(of: &[u8]) -> Buffer {
    LLVMCreateMemoryBufferWithMemoryRangeCopy(of.as_ptr().cast(), of.len(), UNNAMED)
}

impl Value {
    /// Its name.
    pub(crate) fn name(self) -> String {
        let mut length = 0;
        let start = LLVMGetValueName2(self, &raw mut length);
        String::from_utf8_lossy(bytes(start, length)).into_owned()
    }

    /// Its type.
    pub(crate) fn ty(self) -> Type {
        LLVMTypeOf(self)
    }

    /// Its opcode, if it is an instruction.
    pub(crate) fn opcode(self) -> Option<i32> {
        LLVMIsAInstruction(self)
            .some()
            .map(LLVMGetInstructionOpcode)
    }

    /// Its operands.
    pub(crate) fn operands(self) -> impl Iterator<Item = Value> {
        let count = LLVMGetNumOperands(self).max(0) as u32;
        (0..count).map(move |at| LLVMGetOperand(self, at))
    }

    /// The instructions that use it.
    pub(crate) fn users(self) -> Vec<Value> {
        let mut users = Vec::new();
        let mut at = LLVMGetFirstUse(self);
        while let Some(of) = at.some() {
            users.push(LLVMGetUser(of));
            at = LLVMGetNextUse(of);
        }
        users
    }

    /// The name of the function that it calls, if it is a direct call.
    pub(crate) fn callee(self) -> Option<String> {
        if self.opcode() != Some(op::CALL) {
            return None;
        }
        let called = LLVMGetCalledValue(self);
        LLVMIsAFunction(called).some().map(Value::name)
    }

    /// The number that it is, if it is a constant integer.
    pub(crate) fn number(self) -> Option<u64> {
        LLVMIsAConstantInt(self)
            .some()
            .map(LLVMConstIntGetZExtValue)
    }
}

impl Block {
    /// Its instructions.
    pub(crate) fn instructions(self) -> Vec<Value> {
        chain(LLVMGetFirstInstruction(self), LLVMGetNextInstruction)
    }

    /// Its terminator.
    pub(crate) fn terminator(self) -> Value {
        LLVMGetBasicBlockTerminator(self)
    }
}

impl Type {
    /// Its kind.
    pub(crate) fn kind(self) -> i32 {
        LLVMGetTypeKind(self)
    }

    /// True if it is an integer of so many bits.
    pub(crate) fn is_integer(self, bits: u32) -> bool {
        self.kind() == kind::INTEGER && LLVMGetIntTypeWidth(self) == bits
    }
}

fn chain(first: Value, next: impl Fn(Value) -> Value) -> Vec<Value> {
    let mut all = Vec::new();
    let mut at = first;
    while let Some(value) = at.some() {
        all.push(value);
        at = next(value);
    }
    all
}

impl Module {
    /// Its functions.
    pub(crate) fn functions(self) -> Vec<Value> {
        chain(LLVMGetFirstFunction(self), LLVMGetNextFunction)
    }

    /// Its global variables.
    pub(crate) fn globals(self) -> Vec<Value> {
        chain(LLVMGetFirstGlobal(self), LLVMGetNextGlobal)
    }

    /// A function of it, by name.
    pub(crate) fn function(self, name: &str) -> Option<Value> {
        LLVMGetNamedFunction(self, text(name).as_ptr()).some()
    }

    /// Its text.
    pub(crate) fn text(self) -> String {
        string(LLVMPrintModuleToString(self))
    }

    /// Runs passes over it.
    ///
    /// # Errors
    /// libLLVM's message.
    pub(crate) fn run(self, passes: &str, machine: Machine) -> Result<(), String> {
        let options = LLVMCreatePassBuilderOptions();
        match LLVMRunPasses(self, text(passes).as_ptr(), machine, options).some() {
            Some(failure) => Err(string(LLVMGetErrorMessage(failure))),
            None => Ok(()),
        }
    }

    /// Looks whether it is well formed.
    ///
    /// # Errors
    /// The fault.
    pub(crate) fn verify(self) -> Result<(), String> {
        const RETURN_STATUS: c_int = 2;
        let mut message = std::ptr::null_mut();
        match LLVMVerifyModule(self, RETURN_STATUS, &raw mut message) {
            0 => Ok(()),
            _ => Err(string(message)),
        }
    }
}

/// The blocks of a function.
pub(crate) fn blocks(function: Value) -> Vec<Block> {
    let mut all = Vec::new();
    let mut at = LLVMGetFirstBasicBlock(function);
    while let Some(block) = at.some() {
        all.push(block);
        at = LLVMGetNextBasicBlock(block);
    }
    all
}

/// The parameters of a function.
pub(crate) fn parameters(function: Value) -> Vec<Value> {
    let count = LLVMCountParams(function);
    (0..count).map(|at| LLVMGetParam(function, at)).collect()
}

/// The number of a kind of attribute.
pub(crate) fn attribute_kind(name: &str) -> u32 {
    LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len())
}

/// The number of a kind of metadata.
pub(crate) fn metadata_kind(context: Context, name: &str) -> u32 {
    LLVMGetMDKindIDInContext(context, name.as_ptr().cast(), name.len() as u32)
}

/// The operands of a node of metadata.
pub(crate) fn node_operands(node: Value) -> Vec<Value> {
    let mut operands = vec![Value::NULL; LLVMGetMDNodeNumOperands(node) as usize];
    LLVMGetMDNodeOperands(node, operands.as_mut_ptr());
    operands
}

/// A string of metadata.
pub(crate) fn metadata_string(value: Value) -> Option<String> {
    let mut length = 0;
    let start = LLVMGetMDString(value, &raw mut length);
    (!start.is_null()).then(|| {
        let text = bytes(start, length as usize);
        String::from_utf8_lossy(text).into_owned()
    })
}

//! Names of native kernels, by which clients and nodes of Quipu refer to them.
//!
//! The name of a native kernel is a hash of its CUDA C source and of the layout of its parameters.
//! Two programs built from the same kernel compute the same name. CUDA C is the dialect that has
//! all operations.

use quipu_kernel_ir::{
    Allowances, Dialect, IndexWidth, Module, Options, ParameterKind, PrintError,
};
use ring::digest::{Context, SHA256};

/// The name of a kernel that a node has natively.
pub type NativeName = [u8; 32];

/// The name of a module's native form.
///
/// # Errors
/// If the module cannot be printed.
pub fn native_name(module: &Module) -> Result<NativeName, PrintError> {
    let dialect = Dialect::Cuda;
    let options = Options {
        // The path of its source file is no part of its meaning.
        line_directives: false,
        ..Options::new(dialect, IndexWidth::Bits64)
    };
    // Nor are the freedoms of the printed form: the native one is the same.
    let module = &Module {
        allowances: Allowances::default(),
        ..module.clone()
    };
    let printed = module.print(dialect, &options)?;
    let mut context = Context::new(&SHA256);
    let mut part = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_le_bytes());
        context.update(bytes);
    };
    part(b"quipu native kernel 1");
    part(printed.source.as_bytes());
    part(&[module.kernel.dimensions]);
    for parameter in &module.kernel.parameters {
        let kind: &[u8] = match &parameter.kind {
            ParameterKind::Uniform(_) => b"value",
            ParameterKind::Buffer(_) => b"buffer",
            ParameterKind::View { .. } => b"view",
            ParameterKind::Nothing => b"nothing",
        };
        part(kind);
    }
    for entry in &printed.parameters {
        part(&entry.size.to_le_bytes());
    }
    let mut name = NativeName::default();
    name.copy_from_slice(context.finish().as_ref());
    Ok(name)
}

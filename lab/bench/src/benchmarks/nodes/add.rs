//! The kernel of these benchmarks: adds one to a number. Natively, as a module that names it, and
//! as a node makes it.

use quipu_kernel_ir::{BinaryOperation, FunctionBuilder, Module, ModuleBuilder, Place, Scalar};
use quipu_kernel_names::native_name;
use quipu_node::Maker;
use quipu_node::native::Name;
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::portable::PortableKernel;
use quipu_scheduler::{CodeKey, ErrorKind, Passed, PassedParameter, RawArgument, Result};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
pub(super) struct Add;

impl NativeKernel for Add {
    fn name(&self) -> &'static str {
        "add one"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> Result<()> {
        let number = arguments.first().filter(|number| number.length >= 4);
        let number = number.ok_or(ErrorKind::InvalidArgument {
            what: "add one",
            problem: "there is no number to add to".to_owned(),
        })?;
        // SAFETY: so many bytes are there, which this command alone writes; they may lie anywhere.
        unsafe {
            let number = number.pointer.cast::<u32>();
            number.write_unaligned(number.read_unaligned().wrapping_add(1));
        }
        Ok(())
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }

    fn serves_many_launches(&self) -> bool {
        true
    }
}

// SAFETY: the module has one parameter, and changes the first number there alone, if there is one.
unsafe impl PortableKernel for Add {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        Ok(Arc::new(module()))
    }

    fn pass(&self, _: &[Argument], passed: &mut Passed) -> Result<()> {
        let parameter = PassedParameter::Memory {
            element: 4,
            shape: None,
        };
        for extents in [
            &mut passed.blocks,
            &mut passed.threads,
            &mut passed.elements,
        ] {
            extents.push(1);
        }
        passed.parameters.push(parameter);
        Ok(())
    }
}

fn module() -> Module {
    let mut f = FunctionBuilder::new("add_one");
    let numbers = f.buffer("numbers", Scalar::U32.into(), true);
    let first = f.index_literal(0);
    let old = f.load(Place::element(numbers, first), Scalar::U32.into());
    let one = f.literal(Scalar::U32, 1);
    let sum = f.binary(BinaryOperation::Add, old, one);
    f.store(Place::element(numbers, first), sum);
    ModuleBuilder::new().finish(f.kernel(1))
}

/// The native kernels of a node.
pub(super) fn makers() -> HashMap<Name, Maker> {
    let maker: Maker = Arc::new(|_| Ok(Box::new(Add)));
    let name = native_name(&module());
    name.map(|name| (name, maker)).into_iter().collect()
}

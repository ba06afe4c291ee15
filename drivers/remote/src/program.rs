//! Kernels, as a node is told of them: texts as they are, alone or to be linked; modules by the
//! name of the native kernel that they have there; built-in kernels of its devices by their names.

use crate::device::Device;
use crate::failure::Refusal;
use crate::link::{Link, State};
use quipu_clc::{LinkedKernel, Part};
use quipu_device_queue::VendorDevice;
use quipu_kernel_ir::{KernelText, Module, ParameterKind, Scalar, Type};
use quipu_kernel_names::native_name;
use quipu_protocol::error::WireError;
use quipu_protocol::limits::ProgramLimits;
use quipu_protocol::message::{
    self, CreateProgram, FreeProgram, Message, PartForm, ProgramFormat, ProgramSource, Takes,
};
use quipu_scheduler::{BuiltIn, BuiltInKernel, Error, ErrorKind, Result};
use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A program of a node. It is freed with its last launch.
pub struct Program {
    pub(crate) id: u64,
    link: Arc<Link>,
    /// For each value that is passed, which of its bytes are anything; none where that is not
    /// known.
    masks: Option<Vec<Vec<bool>>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.link.free_program(self.id);
    }
}

impl Program {
    /// True if its node takes launches with an offset, and local memory for a parameter.
    pub(crate) fn takes_offsets(&self) -> bool {
        self.link.terms.takes_offsets()
    }

    /// The most parameters that its node takes in a launch.
    pub(crate) fn most_parameters(&self) -> usize {
        self.link.terms.program_limits().parameters
    }

    /// True if its node takes launches with memory of no bytes for a parameter.
    pub(crate) fn takes_empty_memory(&self) -> bool {
        self.link.terms.takes_empty_memory()
    }

    /// The bytes of the value of this number, with zeros where it has gaps.
    pub(crate) fn value(&self, number: usize, bytes: &[MaybeUninit<u8>]) -> Vec<u8> {
        let bytes = settled(bytes);
        let Some(mask) = self.masks.as_ref().and_then(|masks| masks.get(number)) else {
            return bytes;
        };
        let is_there = |at: usize| mask.get(at).copied().unwrap_or(false);
        let bytes = bytes.into_iter().enumerate();
        bytes
            .map(|(at, byte)| if is_there(at) { byte } else { 0 })
            .collect()
    }
}

/// The bytes as they happen to be in memory, where some may never have been written.
fn settled(bytes: &[MaybeUninit<u8>]) -> Vec<u8> {
    let mut copy: Vec<MaybeUninit<u8>> = bytes.to_vec();
    let pointer = copy.as_mut_ptr();
    // SAFETY: it does nothing. For all that the compiler knows, it writes every byte behind the
    // pointer.
    unsafe { std::arch::asm!("/* {0} */", in(reg) pointer, options(nostack, preserves_flags)) };
    let (length, capacity) = (copy.len(), copy.capacity());
    std::mem::forget(copy);
    // SAFETY: the vector's own parts; its bytes count as written, as said.
    unsafe { Vec::from_raw_parts(pointer.cast::<u8>(), length, capacity) }
}

/// The parts of a program as messages have them.
///
/// # Errors
/// If they are more than a node takes, or have longer options.
pub(crate) fn bytes_of(parts: &[Part], limits: &ProgramLimits) -> Result<Vec<u8>> {
    let refused = |problem: String| {
        let what = "link a program on a node";
        Err(ErrorKind::InvalidArgument { what, problem }.into())
    };
    if parts.len() > limits.parts {
        return refused(format!(
            "it has {} parts, and the node takes {}",
            parts.len(),
            limits.parts
        ));
    }
    let mut bytes = Vec::new();
    for part in parts {
        let part = match part {
            Part::Text { options, .. } if options.len() > limits.options => {
                return refused(format!(
                    "the node takes options of at most {} bytes",
                    limits.options
                ));
            }
            Part::Text { source, options } => message::ProgramPart {
                form: PartForm::OpenClC,
                // A text of nothing is none to a node.
                source: match source.as_bytes() {
                    [] => b"\n",
                    source => source,
                },
                options,
            },
            Part::SpirV(module) => message::ProgramPart {
                form: PartForm::SpirV,
                source: module,
                options: "",
            },
        };
        part.write(&mut bytes);
    }
    Ok(bytes)
}

/// Has a node know a kernel.
pub(crate) fn create(device: &Device, code: &Arc<dyn Any + Send + Sync>) -> Result<Program> {
    let link = &device.link;
    let refused = |what: String, instead| {
        Error::from(ErrorKind::Unsupported {
            driver: "remote",
            what: format!("{what} on device '{}'", device.name()),
            instead,
        })
    };
    let (created, masks) = if let Some(BuiltIn(name)) = code.downcast_ref::<BuiltIn>() {
        BuiltInKernel::find(&device.built_in_kernels(), name, device.name())?;
        let format = ProgramFormat::BuiltIn;
        (link.create_program(format, name.as_bytes(), "", ""), None)
    } else if let Some(text) = code.downcast_ref::<KernelText>() {
        if device.takes.0 & Takes::OPENCL_C == 0 {
            return Err(refused(
                format!("compile kernel '{}' in OpenCL C", text.entry),
                "use one of the node's devices that have a compiler for it",
            ));
        }
        let format = ProgramFormat::OpenClC;
        let source = text.source.as_bytes();
        let created = link.create_program(format, source, &text.entry, &text.options);
        (created, None)
    } else if let Some(kernel) = code.downcast_ref::<LinkedKernel>() {
        if device.takes.0 & Takes::PARTS == 0 {
            return Err(refused(
                format!("link a program for kernel '{}'", kernel.entry),
                "make the program of one text, or update Quipu on the node",
            ));
        }
        let format = ProgramFormat::Parts;
        let created = link.create_program(
            format,
            &bytes_of(&kernel.parts, link.terms.program_limits())?,
            &kernel.entry,
            "",
        );
        (created, None)
    } else if let Some(module) = code.downcast_ref::<Module>() {
        let entry = &module.kernel.function.name;
        if device.takes.0 & Takes::NATIVE == 0 {
            return Err(refused(
                format!("run kernel '{entry}'"),
                "use one of the node's devices that run native code, or write the kernel in OpenCL C",
            ));
        }
        let name = native_name(module).map_err(|error| {
            Error::from(ErrorKind::Kernel {
                what: format!("naming kernel '{entry}'"),
                message: error.to_string(),
            })
        })?;
        let entry = quipu_protocol::message::presentable(entry, link.terms.program_limits().name);
        let created = link.create_program(ProgramFormat::Native, &name, &entry, "");
        (created, Some(masks(module)))
    } else {
        return Err(refused(
            "compile code of this kind".to_owned(),
            "use another device",
        ));
    };
    let id = created.map_err(|failure: Refusal| {
        quipu_device_queue::error::of_call(device.name(), "take a kernel", &failure)
    })?;
    Ok(Program {
        id,
        link: link.clone(),
        masks,
    })
}

/// The result of a message to a node.
type Outcome<T> = std::result::Result<T, Refusal>;

impl Link {
    /// Fails if the node takes no further program of so many bytes.
    pub(crate) fn check_program(&self, state: &State, what: &str, bytes: usize) -> Outcome<()> {
        if let Some(lost) = self.loss() {
            return Err(lost);
        }
        let (node, most) = (&self.node, self.terms.max_program_bytes);
        if bytes > most as usize {
            return Err(Refusal::NotSent(format!(
                "{what} has {bytes} bytes, and node '{node}' takes programs of {most}"
            )));
        }
        if state.programs >= self.terms.max_programs {
            return Err(Refusal::Full(format!(
                "node '{node}' takes no more programs"
            )));
        }
        Ok(())
    }

    /// Puts a program's source before its message, if it has no room in it. Gives what the message
    /// has. Nothing is put if the message with all of the source breaks a rule: another program
    /// would have the source then.
    pub(crate) fn put_source<'s>(
        &self,
        source: &'s [u8],
        message: &Message<'_>,
    ) -> Outcome<&'s [u8]> {
        let most = self.out.max_frame() as usize / 2;
        if source.len() <= most || !self.terms.takes_long_programs() {
            return Ok(source);
        }
        let refused = |error: WireError| Refusal::NotSent(error.to_string());
        message.check().map_err(refused)?;
        for bytes in source.chunks(most) {
            self.put(&Message::ProgramSource(ProgramSource { bytes }))?;
        }
        Ok(&[])
    }

    /// A new program.
    pub(crate) fn create_program(
        &self,
        format: ProgramFormat,
        source: &[u8],
        entry: &str,
        options: &str,
    ) -> Outcome<u64> {
        let mut state = self.state();
        self.check_program(&state, &format!("kernel '{entry}'"), source.len())?;
        let limits = self.terms.program_limits();
        for (what, bytes, most) in [
            ("a name", entry.len(), limits.name),
            ("options", options.len(), limits.options),
        ] {
            if bytes > most {
                return Err(Refusal::NotSent(format!(
                    "kernel '{entry}' has {what} of {bytes} bytes, and node '{}' takes {most}",
                    self.node
                )));
            }
        }
        let program = state.last_program + 1;
        let create = CreateProgram {
            program,
            format,
            source,
            entry,
            options,
        };
        self.text.expect_of(&create);
        let source = self.put_source(source, &Message::CreateProgram(create))?;
        self.put(&Message::CreateProgram(CreateProgram { source, ..create }))?;
        state.last_program = program;
        state.programs += 1;
        Ok(program)
    }

    /// A program is not used any more.
    pub(crate) fn free_program(&self, program: u64) {
        let mut state = self.state();
        state.programs -= 1;
        // If it cannot be sent, the connection is lost, and the program with it.
        let _ = self.put(&Message::FreeProgram(FreeProgram { program }));
    }
}

/// Masks of the bytes of each passed value that may be anything.
fn masks(module: &Module) -> Vec<Vec<bool>> {
    let function = &module.kernel.function;
    let values = module.kernel.parameters.iter();
    let values = values.filter_map(|parameter| match &parameter.kind {
        ParameterKind::Uniform(value) => function
            .values
            .get(value.0 as usize)
            .map(|it| &it.value_type),
        ParameterKind::Buffer(_) | ParameterKind::View { .. } | ParameterKind::Nothing => None,
    });
    values
        .map(|of| {
            let mut mask = Vec::new();
            lay_out(module, of, &mut mask);
            mask
        })
        .collect()
}

/// Appends a type's bytes, laid out as C does; gives its alignment.
fn lay_out(module: &Module, of: &Type, mask: &mut Vec<bool>) -> usize {
    match of {
        Type::Unit | Type::Slice { .. } => 1,
        Type::Scalar(scalar) => {
            let size = scalar_size(*scalar);
            mask.resize(mask.len().next_multiple_of(size), false);
            mask.resize(mask.len() + size, true);
            size
        }
        Type::Array(element, count) => {
            let mut one = Vec::new();
            let align = lay_out(module, element, &mut one);
            mask.resize(mask.len().next_multiple_of(align), false);
            (0..*count).for_each(|_| mask.extend_from_slice(&one));
            align
        }
        Type::Struct(id) => {
            let (mut fields, mut align) = (Vec::new(), 1);
            for field in &module.structure(*id).fields {
                align = align.max(lay_out(module, &field.field_type, &mut fields));
            }
            fields.resize(fields.len().next_multiple_of(align), false);
            mask.resize(mask.len().next_multiple_of(align), false);
            mask.append(&mut fields);
            align
        }
    }
}

/// As Rust has it here: indices are `usize`.
fn scalar_size(scalar: Scalar) -> usize {
    scalar
        .size()
        .map_or(size_of::<usize>(), |size| size as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_protocol::limits::{LARGE, SMALL};

    fn text(source: &str, options: &str) -> Part {
        Part::Text {
            source: source.into(),
            options: options.to_owned(),
        }
    }

    #[test]
    fn parts_are_written_as_a_node_takes_them() {
        let module = Part::SpirV([3, 2, 0x23, 7].into());
        let bytes = bytes_of(&[text("int f();", "-w"), module, text("", "")], &SMALL).unwrap();
        let parts = message::parts(&bytes).unwrap();
        let sources: Vec<&[u8]> = parts.iter().map(|part| part.source).collect();
        assert_eq!(sources, [&b"int f();"[..], &[3, 2, 0x23, 7], b"\n"]);
        assert_eq!(parts[0].options, "-w");
        assert_eq!(parts[1].form, PartForm::SpirV);
        for limits in [&SMALL, &LARGE] {
            let most = text("a", &"w".repeat(limits.options));
            let many = vec![text("a", ""); limits.parts];
            for parts in [&[most][..], &many] {
                assert!(message::parts(&bytes_of(parts, limits).unwrap()).is_ok());
            }
        }
    }

    #[test]
    fn more_than_a_node_takes_is_not_sent() {
        let long = "w".repeat(SMALL.options + 1);
        let many = vec![text("a", ""); SMALL.parts + 1];
        for (parts, because) in [
            (&[text("a", &long)][..], "4096 bytes"),
            (&many, "257 parts"),
        ] {
            let error = bytes_of(parts, &SMALL).unwrap_err();
            assert!(error.to_string().contains(because), "{error}");
        }
    }
}

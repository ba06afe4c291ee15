//! Programs that a node reads for a client without a compiler: the question, and the kernels,
//! parameters and log of the answer.
//!
//! The question is a command, [`Describe`]. The answer comes before the command's end: the
//! [log](BuildLog) in parts, and for each kernel a [`KernelDescription`] with as many
//! [`ParameterDescription`]s behind it as it says. So each message fits the smallest frame, however
//! many kernels a program has. Both sides have agreed on [`DESCRIPTIONS`](crate::DESCRIPTIONS).

use super::command::{Parsed, read_waits};
use super::cursor::{Cursor, RESERVED, check_id, check_text, zero};
use super::parts::{check_source, parts};
use super::{Body, Operation, Word, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{LARGE, MAX_TEXT, ProgramLimits};
use zerocopy::IntoBytes;

numbers! {
    /// In which form a program is that a node is to read.
    DescribeForm, "the form of what is described" {
        /// OpenCL C, as text.
        Text = 0,
        /// [Parts](super::ProgramPart) that are linked. This and the next take the feature
        /// [`PARTS`](crate::PARTS).
        Linked = 1,
        /// Parts that are compiled, and not linked: functions that they lack are in others.
        Compiled = 2,
    }
}

/// Has the node read a program for the command's device, and say which kernels it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// Its form.
    pub form: DescribeForm,
    /// The program's text or parts; empty if they have come in
    /// [messages](super::ProgramSource) before.
    pub source: &'a [u8],
    /// The options for the compiler of a text; empty of parts.
    pub options: &'a str,
}

impl<'a> Describe<'a> {
    /// A program of one text.
    #[must_use]
    pub const fn text(source: &'a str, options: &'a str) -> Self {
        Self {
            form: DescribeForm::Text,
            source: source.as_bytes(),
            options,
        }
    }

    pub(super) fn read(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Describe = cursor.fixed()?;
        let waits = read_waits(waits, cursor)?;
        let describe = Self {
            form: DescribeForm::of(fixed.form.get())?,
            source: cursor.bytes("the source", fixed.source_length.get() as usize)?,
            options: cursor.text("the options", fixed.options_length.get().into())?,
        };
        Ok((waits, Operation::Describe(describe)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        check_text("the options", self.options, LARGE.options)?;
        let comes_before = self.source.is_empty();
        match self.form {
            DescribeForm::Text if comes_before => Ok(()),
            DescribeForm::Text => check_source(self.source),
            DescribeForm::Linked | DescribeForm::Compiled => {
                if !comes_before {
                    parts(self.source)?;
                }
                holds(
                    self.options.is_empty(),
                    "parts have no options but their own",
                )
            }
        }
    }

    pub(super) fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Describe {
            source_length: (self.source.len() as u32).into(),
            options_length: (self.options.len() as u16).into(),
            form: self.form.number().into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
        out.extend_from_slice(self.source);
        out.extend_from_slice(self.options.as_bytes());
    }
}

/// A kernel of a program that was described. Its parameters follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDescription<'a> {
    /// The event of the [`Describe`].
    pub event: u64,
    /// The kernel's name, which is not empty.
    pub name: &'a str,
    /// The attributes of the text, one a line: `vec_type_hint(float4)`.
    pub attributes: &'a str,
    /// The number of parameters.
    pub parameters: u16,
    /// The only size of work-group that the kernel may have, if the text says one.
    pub required_local_size: Option<[u32; 3]>,
    /// Bytes of local memory of the kernel's own variables.
    pub local_bytes: u64,
    /// True if work-items of a group wait for each other.
    pub has_barriers: bool,
    /// True if the kernel may touch memory other than its arguments, or prints.
    pub reaches_beyond: bool,
    /// True if the kernel's work-groups divide a launch evenly. This and the next take the feature
    /// [`GROUPS`](crate::GROUPS).
    pub uniform_groups: bool,
    /// The most work-items of a sub-group; zero if a sub-group is the whole work-group.
    pub sub_group_size: u32,
    /// Bytes of private memory that a work-item has beside its registers. Other numbers than zero
    /// take the feature [`DETAILS`](crate::DETAILS).
    pub private_bytes: u64,
}

const BARRIERS: u16 = 1;
const BEYOND: u16 = 2;
const REQUIRED: u16 = 4;
const UNIFORM: u16 = 8;
const PRIVATE: u16 = 16;

impl KernelDescription<'_> {
    /// True if it says nothing that takes other features than these.
    #[must_use]
    pub fn is_within(&self, features: u64) -> bool {
        let says_groups = self.uniform_groups || self.sub_group_size != 0;
        (features & crate::GROUPS != 0 || !says_groups)
            && (features & crate::DETAILS != 0 || self.private_bytes == 0)
            && self.name.len() <= ProgramLimits::with(features).name
            && usize::from(self.parameters) <= ProgramLimits::with(features).parameters
    }
}

impl<'a> Body<'a> for KernelDescription<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::KernelDescription = cursor.fixed()?;
        let flags = fixed.flags.get();
        if flags & !(BARRIERS | BEYOND | REQUIRED | UNIFORM | PRIVATE) != 0 {
            return Err(Problem::Unknown {
                field: "the flags",
                value: flags.into(),
            });
        }
        let size = fixed.required_local_size.map(|size| size.get());
        let is_required = flags & REQUIRED != 0;
        holds(
            is_required || size == [0; 3],
            "a size of work-group that is not required",
        )?;
        let private_bytes = match flags & PRIVATE {
            0 => 0,
            _ => cursor.fixed::<Word>()?.get(),
        };
        holds(
            (private_bytes != 0) == (flags & PRIVATE != 0),
            "bytes of private memory that are none",
        )?;
        Ok(Self {
            event: fixed.event.get(),
            private_bytes,
            name: cursor.text("the name", fixed.name_length.get().into())?,
            attributes: cursor.text("the attributes", fixed.attributes_length.get().into())?,
            parameters: fixed.parameter_count.get(),
            required_local_size: is_required.then_some(size),
            local_bytes: fixed.local_bytes.get(),
            has_barriers: flags & BARRIERS != 0,
            reaches_beyond: flags & BEYOND != 0,
            uniform_groups: flags & UNIFORM != 0,
            sub_group_size: fixed.sub_group_size.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        holds(!self.name.is_empty(), "a kernel without a name")?;
        check_text("the name", self.name, LARGE.name)?;
        check_text("the attributes", self.attributes, MAX_TEXT)?;
        within(
            "the number of parameters",
            self.parameters.into(),
            0,
            LARGE.parameters as u64,
        )?;
        let size = self.required_local_size.unwrap_or([1; 3]);
        holds(
            !size.contains(&0),
            "a work-group that is required and has no work-items",
        )?;
        let items = size
            .iter()
            .try_fold(1u32, |items, size| items.checked_mul(*size));
        holds(
            items.is_some(),
            "a work-group that is required and too large",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let flags = flag(self.has_barriers, BARRIERS)
            | flag(self.reaches_beyond, BEYOND)
            | flag(self.required_local_size.is_some(), REQUIRED)
            | flag(self.uniform_groups, UNIFORM)
            | flag(self.private_bytes != 0, PRIVATE);
        let fixed = layout::KernelDescription {
            event: self.event.into(),
            local_bytes: self.local_bytes.into(),
            required_local_size: self.required_local_size.unwrap_or_default().map(Into::into),
            parameter_count: self.parameters.into(),
            flags: flags.into(),
            name_length: (self.name.len() as u16).into(),
            attributes_length: (self.attributes.len() as u16).into(),
            sub_group_size: self.sub_group_size.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        if self.private_bytes != 0 {
            out.extend_from_slice(&self.private_bytes.to_le_bytes());
        }
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(self.attributes.as_bytes());
    }
}

numbers! {
    /// The class of argument for a parameter of a program's kernel.
    ParameterClass, "the parameter's class" {
        /// A value.
        Value = 1,
        /// Memory of the address space `global`.
        Global = 2,
        /// Memory of the address space `constant`.
        Constant = 3,
        /// A number of bytes of memory of the work-group's own.
        Local = 4,
        /// An image.
        Image = 5,
        /// A sampler.
        Sampler = 6,
    }
}

/// A parameter of the last kernel that was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    /// The event of the [`Describe`].
    pub event: u64,
    /// The class of its argument.
    pub class: ParameterClass,
    /// True of memory and images that the kernel may read.
    pub is_read: bool,
    /// True of memory and images that the kernel may write.
    pub is_written: bool,
    /// `const` in the text.
    pub is_const: bool,
    /// `restrict` in the text.
    pub is_restrict: bool,
    /// `volatile` in the text.
    pub is_volatile: bool,
    /// Bytes of a value, and the alignment of its address; else zero.
    pub size: [u32; 2],
    /// The parameter's name in the text.
    pub name: &'a str,
    /// The parameter's type in the text.
    pub type_name: &'a str,
}

const READ: u16 = 1;
const WRITTEN: u16 = 2;
const CONST: u16 = 4;
const RESTRICT: u16 = 8;
const VOLATILE: u16 = 16;

impl<'a> Body<'a> for ParameterDescription<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::ParameterDescription = cursor.fixed()?;
        let flags = fixed.flags.get();
        if flags & !(READ | WRITTEN | CONST | RESTRICT | VOLATILE) != 0 {
            return Err(Problem::Unknown {
                field: "the flags",
                value: flags.into(),
            });
        }
        Ok(Self {
            event: fixed.event.get(),
            class: ParameterClass::of(fixed.class.get())?,
            is_read: flags & READ != 0,
            is_written: flags & WRITTEN != 0,
            is_const: flags & CONST != 0,
            is_restrict: flags & RESTRICT != 0,
            is_volatile: flags & VOLATILE != 0,
            size: [fixed.size.get(), fixed.align.get()],
            name: cursor.text("the name", fixed.name_length.get().into())?,
            type_name: cursor.text("the type", fixed.type_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        use ParameterClass::{Constant, Global, Image, Value};
        check_id("the event", self.event)?;
        check_text("the name", self.name, LARGE.name)?;
        check_text("the type", self.type_name, LARGE.name)?;
        let [_, align] = self.size;
        match self.class {
            Value => holds(
                align.is_power_of_two(),
                "an alignment that is no power of two",
            )?,
            _ => holds(self.size == [0; 2], "only a value has a size")?,
        }
        holds(
            matches!(self.class, Global | Constant | Image) || !(self.is_read || self.is_written),
            "only memory and images are read or written",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let flags = [
            (self.is_read, READ),
            (self.is_written, WRITTEN),
            (self.is_const, CONST),
            (self.is_restrict, RESTRICT),
            (self.is_volatile, VOLATILE),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        let fixed = layout::ParameterDescription {
            event: self.event.into(),
            class: self.class.number().into(),
            flags: set.fold(0, |all, (_, flag)| all | flag).into(),
            size: self.size[0].into(),
            align: self.size[1].into(),
            name_length: (self.name.len() as u16).into(),
            type_length: (self.type_name.len() as u16).into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(self.type_name.as_bytes());
    }
}

/// The next part of what the compiler says of a program, whether or not it takes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildLog<'a> {
    /// The event of the [`Describe`].
    pub event: u64,
    /// The part, which is not empty.
    pub text: &'a str,
}

impl<'a> Body<'a> for BuildLog<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::BuildLog = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            event: fixed.event.get(),
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        holds(!self.text.is_empty(), "a part of a log without a text")?;
        check_text("the text", self.text, MAX_TEXT)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::BuildLog {
            event: self.event.into(),
            text_length: (self.text.len() as u16).into(),
            reserved: [0; 6],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

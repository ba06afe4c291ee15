//! Programs that a node reads for this machine.
//!
//! The question is a command. The node's answer comes in several messages before the command's end,
//! and is gathered where the thread that asked finds it afterwards.

use crate::device::Device;
use crate::failure::Refusal;
use crate::flights::{Flying, Rare};
use crate::link::{Link, Route};
use crate::locked;
use crate::point::Point;
use crate::program::bytes_of;
use crate::receive::is_receiver;
use crate::vendor::Remote;
use quipu_clc::{
    Description, KernelInfo, MemoryAccess, ParameterInfo, ParameterKind, Part, ProgramParts,
    ProgramText, has_uniform_groups,
};
use quipu_device_queue::{Vendor as _, VendorDevice as _, error};
use quipu_protocol::limits::{MAX_DESCRIPTION, MAX_LOG, ProgramLimits};
use quipu_protocol::message::{
    Command, Describe, DescribeForm, KernelDescription, Message, Operation, ParameterClass,
    ParameterDescription, Priority, Takes,
};
use quipu_scheduler::{ErrorKind, Result};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// A program that the node is to read, as its message has it.
pub(crate) struct Asked {
    form: DescribeForm,
    source: Arc<[u8]>,
    options: String,
    /// As far as its options say it, for nodes that do not.
    uniform_groups: bool,
}

impl Asked {
    /// The program that a front end asks about.
    ///
    /// # Errors
    /// If it is of another language, or goes beyond the node's limits.
    pub(crate) fn new(program: &(dyn Any + Send + Sync), limits: &ProgramLimits) -> Result<Self> {
        if let Some(text) = program.downcast_ref::<ProgramText>() {
            return Ok(Self {
                form: DescribeForm::Text,
                source: text.source.clone().into(),
                options: text.options.clone(),
                uniform_groups: has_uniform_groups(&text.options),
            });
        }
        let program = program.downcast_ref::<ProgramParts>();
        let program = program.ok_or_else(|| error::unread(Remote::NAME))?;
        Ok(Self {
            form: match program.is_linked {
                true => DescribeForm::Linked,
                false => DescribeForm::Compiled,
            },
            source: bytes_of(&program.parts, limits)?.into(),
            options: String::new(),
            // The kernels of one part may be so, and those of another not.
            uniform_groups: program.parts.iter().any(|part| match part {
                Part::Text { options, .. } => has_uniform_groups(options),
                Part::SpirV(_) => false,
            }),
        })
    }
}

/// A node's answer on a program so far.
#[derive(Clone, Default)]
pub(crate) struct Answer(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    description: Description,
    /// Parameters of the last kernel that are still to come.
    missing: usize,
    /// Bytes that its kernels and parameters take.
    bytes: usize,
}

/// The most of these. Strings that are parted in another way than the node's take more.
const MOST_BYTES: usize = 2 * MAX_DESCRIPTION;

impl Answer {
    /// True if no parameter is still to come.
    pub(crate) fn is_whole(&self) -> bool {
        locked(&self.0).missing == 0
    }

    /// Takes the next part of the log. False if the log gets too long.
    pub(crate) fn log(&self, text: &str) -> bool {
        let log = &mut locked(&self.0).description.log;
        log.push_str(text);
        log.len() <= MAX_LOG
    }

    /// Takes the next kernel. False if there are too many, they take too much memory, or one before
    /// lacks parameters.
    pub(crate) fn kernel(&self, kernel: &KernelDescription<'_>, limits: &ProgramLimits) -> bool {
        let mut told = locked(&self.0);
        let kernel_info = KernelInfo {
            name: kernel.name.to_owned(),
            parameters: Vec::new(),
            required_local_size: kernel.required_local_size,
            uniform_groups: kernel.uniform_groups,
            // Nodes do not say it.
            sees_groups: true,
            attributes: kernel.attributes.lines().map(str::to_owned).collect(),
            local_bytes: kernel.local_bytes,
            private_bytes: kernel.private_bytes,
            has_barriers: kernel.has_barriers,
            sub_group_size: (kernel.sub_group_size > 0).then_some(kernel.sub_group_size),
            reaches_beyond: kernel.reaches_beyond,
        };
        told.bytes += kernel_info.bytes();
        told.description.kernels.push(kernel_info);
        let has_room = told.description.kernels.len() <= limits.kernels && told.bytes <= MOST_BYTES;
        has_room && std::mem::replace(&mut told.missing, kernel.parameters.into()) == 0
    }

    /// Takes the next parameter of the last kernel. False if there is none to come, or they take
    /// too much memory.
    pub(crate) fn parameter(&self, parameter: &ParameterDescription<'_>) -> bool {
        let mut told = locked(&self.0);
        let Some(missing) = told.missing.checked_sub(1) else {
            return false;
        };
        told.missing = missing;
        let parameter = parameter_of(parameter);
        told.bytes += parameter.bytes();
        let has_room = told.bytes <= MOST_BYTES;
        let kernel = told.description.kernels.last_mut();
        kernel.is_some_and(|kernel| {
            kernel.parameters.push(parameter);
            has_room
        })
    }

    fn take(&self) -> Description {
        std::mem::take(&mut locked(&self.0).description)
    }
}

fn parameter_of(told: &ParameterDescription<'_>) -> ParameterInfo {
    let access = match (told.is_read, told.is_written) {
        (false, false) => MemoryAccess::None,
        (true, false) => MemoryAccess::Read,
        (false, true) => MemoryAccess::Write,
        (true, true) => MemoryAccess::ReadWrite,
    };
    let [size, align] = told.size;
    let qualifiers = [
        ("const", told.is_const),
        ("restrict", told.is_restrict),
        ("volatile", told.is_volatile),
    ];
    let qualifiers = qualifiers.iter().filter(|(_, is_there)| *is_there);
    let qualifiers: Vec<&str> = qualifiers.map(|(word, _)| *word).collect();
    ParameterInfo {
        name: told.name.to_owned(),
        type_name: told.type_name.to_owned(),
        qualifiers: qualifiers.join(" "),
        is_constant: told.class == ParameterClass::Constant,
        kind: match told.class {
            ParameterClass::Value => ParameterKind::Value { size, align },
            ParameterClass::Global | ParameterClass::Constant => ParameterKind::Memory(access),
            ParameterClass::Local => ParameterKind::Local,
            ParameterClass::Image => ParameterKind::Image(access),
            ParameterClass::Sampler => ParameterKind::Sampler,
        },
    }
}

impl Link {
    /// Has the node read a program. Its words come into the answer before the point is over.
    fn describe(
        &self,
        route: &Route,
        program: &Asked,
    ) -> std::result::Result<(Point, Answer), Refusal> {
        let mut state = self.state();
        self.check_room(&state)?;
        self.check_program(&state, "a program", program.source.len())?;
        let whole = Describe {
            form: program.form,
            source: &program.source,
            options: &program.options,
        };
        // As it will be, but for its number.
        let message = Message::Command(Command {
            event: 1,
            device: route.device,
            queue: route.queue,
            priority: Priority::Normal,
            profiled: false,
            waits: &[],
            operation: Operation::Describe(whole),
        });
        let source = self.put_source(&program.source, &message)?;
        let describe = Operation::Describe(Describe { source, ..whole });
        let point = Point::new(self.number, self.push(&mut state, route, &[], describe)?);
        let answer = Answer::default();
        let rare = Rare {
            answer: Some(answer.clone()),
            ..Rare::default()
        };
        self.fly(&mut state, Flying::new(point.clone(), 1).with(rare));
        state.programs += 1;
        Ok((point, answer))
    }

    /// The node says something of a program. False if no one has asked, or it makes no sense.
    pub(crate) fn answered(&self, event: u64, take: impl FnOnce(&Answer) -> bool) -> bool {
        let mut state = self.state();
        let flying = state.flying.get_mut(event);
        let answer = flying.and_then(|flying| flying.rare.as_ref()?.answer.as_ref());
        answer.is_some_and(take)
    }
}

impl Device {
    /// Has the node read a program, and waits for its findings.
    pub(crate) fn describe(&self, program: &Asked) -> Result<Description> {
        let link = &self.link;
        let unsupported = |what: String, instead| {
            let driver = "remote";
            Err(ErrorKind::Unsupported {
                driver,
                what,
                instead,
            }
            .into())
        };
        if self.takes.0 & Takes::OPENCL_C == 0 {
            return unsupported(
                format!("compile OpenCL C on device '{}'", self.name()),
                "install clang, lld and libLLVM on the node, or use a device that has a compiler",
            );
        }
        if !link.terms.describes() {
            return unsupported(
                format!("have node '{}' read a program", link.node),
                "update Quipu on the node, or install clang, lld and libLLVM on this machine",
            );
        }
        if program.source.trim_ascii().is_empty() {
            return Ok(Description::default());
        }
        if program.form != DescribeForm::Text && self.takes.0 & Takes::PARTS == 0 {
            return unsupported(
                format!("link a program on device '{}'", self.name()),
                "make the program of one text, or update Quipu on the node",
            );
        }
        let most = link.terms.program_limits().options;
        if program.options.len() > most {
            return Err(ErrorKind::InvalidArgument {
                what: "compile OpenCL C",
                problem: format!("node '{}' takes options of at most {most} bytes", link.node),
            }
            .into());
        }
        let failed = |refusal: Refusal| error::of_call(self.name(), "read a program", &refusal);
        if is_receiver() {
            let text = "the thread that hears of the node's ends would have to wait for one";
            return Err(failed(Refusal::Full(text.to_owned())));
        }
        let (point, answer) = link.describe(&self.here(), program).map_err(failed)?;
        let waited = self.wait_for_end(&point);
        link.state().programs -= 1;
        waited.map_err(failed)?;
        let mut description = answer.take();
        if !link.terms.tells_groups() {
            for kernel in &mut description.kernels {
                kernel.uniform_groups = program.uniform_groups;
            }
        }
        match point.take_failure() {
            None => Ok(description),
            Some(error) => Err(with_log(error, description.log)),
        }
    }
}

/// The error of a program that the compiler refuses, with all of its log.
fn with_log(error: quipu_scheduler::Error, log: String) -> quipu_scheduler::Error {
    match error.kind() {
        ErrorKind::Kernel { what, .. } if !log.is_empty() => ErrorKind::Kernel {
            what: what.clone(),
            message: log,
        }
        .into(),
        _ => error,
    }
}

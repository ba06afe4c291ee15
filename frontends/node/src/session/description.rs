//! Programs that are read for a client without a compiler.
//!
//! A session's first such command starts a thread, which reads one program after the other, so that
//! other commands do not wait for a compiler. When the session ends, the thread reads the program
//! that it has begun, and no other. Programs that wait for it count as programs of the session.

use super::ends::Outcome;
use crate::watch::Stopwatch;
use quipu_clc::{Description, KernelInfo, ParameterInfo, ParameterKind, ProgramParts, ProgramText};
use quipu_protocol::limits::{MAX_DESCRIPTION, MAX_LOG, MAX_TEXT, ProgramLimits};
use quipu_protocol::message::{
    BuildLog, KernelDescription, Message, ParameterClass, ParameterDescription, presentable,
};
use quipu_protocol::{DETAILS, GROUPS};
use quipu_scheduler::{Device, Error, ErrorKind, Event, UserEvent};
use quipu_threads::Start;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// The answer to a command that describes a program, once there is one.
pub(crate) type Answer = Arc<OnceLock<Described>>;

/// The result of a command that describes a program, and its end.
pub(crate) struct Described {
    description: Description,
    /// The limits that it is within.
    limits: &'static ProgramLimits,
    outcome: Outcome,
}

/// A program that a client asks about.
pub(crate) enum Asked {
    Text(ProgramText),
    Parts(ProgramParts),
}

struct Question {
    device: Device,
    program: Asked,
    limits: &'static ProgramLimits,
    answer: Answer,
    over: UserEvent,
    pending: Pending,
}

/// Counts a program that is not read yet.
struct Pending(Arc<AtomicUsize>);

impl Pending {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// See the module.
pub(crate) struct Describer {
    compiling: Option<Stopwatch>,
    /// Programs that are not read yet.
    pending: Arc<AtomicUsize>,
    /// The session is over: no program is read any more.
    is_closed: Arc<AtomicBool>,
    /// To the thread, if there is one.
    questions: Option<Sender<Question>>,
}

impl Drop for Describer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Describer {
    pub(crate) fn new(compiling: Option<Stopwatch>) -> Self {
        Self {
            compiling,
            pending: Arc::default(),
            is_closed: Arc::default(),
            questions: None,
        }
    }

    /// Has the thread read no other program, and end.
    pub(crate) fn close(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        self.questions = None;
    }

    /// Programs that are not read yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Has a program read. Gives the event of its end, and what the answer will be in.
    pub(crate) fn ask(
        &mut self,
        device: &Device,
        program: Asked,
        limits: &'static ProgramLimits,
    ) -> Result<(Event, Answer), Error> {
        let questions = match &self.questions {
            Some(questions) => questions,
            None => {
                let (sender, receiver) = channel();
                let (is_closed, compiling) = (self.is_closed.clone(), self.compiling.clone());
                let thread = std::thread::Builder::new().name("quipu-describe".to_owned());
                let started = thread.start(move || answer_all(&receiver, &is_closed, compiling));
                started.map_err(|error| ErrorKind::Device {
                    device: device.name().to_owned(),
                    what: "read a program".to_owned(),
                    message: format!("the system gives no thread: {error}"),
                })?;
                self.questions.insert(sender)
            }
        };
        let (over, answer) = (UserEvent::new(), Answer::default());
        let event = over.event();
        let question = Question {
            device: device.clone(),
            program,
            limits,
            answer: answer.clone(),
            over,
            pending: Pending::new(&self.pending),
        };
        // If the thread has panicked, the question is dropped, and its event fails.
        let _ = questions.send(question);
        Ok((event, answer))
    }
}

fn answer_all(
    questions: &Receiver<Question>,
    is_closed: &AtomicBool,
    compiling: Option<Stopwatch>,
) {
    for question in questions {
        if is_closed.load(Ordering::Acquire) {
            return;
        }
        let read = || match &question.program {
            Asked::Text(program) => quipu_clc::describe(&question.device, program),
            Asked::Parts(program) => quipu_clc::describe_parts(&question.device, program),
        };
        let read = match &compiling {
            Some(stopwatch) => stopwatch.time_compiler(read),
            None => read(),
        };
        let described = Described::of(read, question.limits);
        let outcome = described.outcome();
        // Set once, here.
        let _ = question.answer.set(described);
        // Before the client learns that it may send another.
        drop(question.pending);
        match outcome {
            Ok(()) => question.over.complete(),
            Err(error) => question.over.fail(&error.to_string()),
        }
    }
}

impl Described {
    fn of(read: Result<Description, Error>, limits: &'static ProgramLimits) -> Self {
        let described = read.and_then(|description| {
            check(&description, limits)?;
            Ok(description)
        });
        match described {
            Ok(description) => Self {
                description,
                limits,
                outcome: Ok(()),
            },
            Err(error) => {
                let log = match error.kind() {
                    ErrorKind::Kernel { message, .. } => message.clone(),
                    _ => String::new(),
                };
                let kernels = Vec::new();
                Self {
                    description: Description { kernels, log },
                    limits,
                    outcome: Err(error),
                }
            }
        }
    }

    /// The end of the command.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    /// Tells all that was found, before the command's end, and that a client with these features
    /// knows of.
    pub(super) fn tell(&self, event: u64, features: u64, mut tell: impl FnMut(&Message<'_>)) {
        let with = |feature| features & feature != 0;
        let log = presentable(&self.description.log, MAX_LOG);
        let mut rest = &log[..];
        while !rest.is_empty() {
            let (text, later) = rest.split_at(rest.floor_char_boundary(MAX_TEXT));
            tell(&Message::BuildLog(BuildLog { event, text }));
            rest = later;
        }
        for kernel in &self.description.kernels {
            let attributes = presentable(&kernel.attributes.join("\n"), MAX_TEXT);
            tell(&Message::KernelDescription(KernelDescription {
                event,
                name: &kernel.name,
                attributes: &attributes,
                parameters: kernel.parameters.len() as u16,
                required_local_size: kernel.required_local_size,
                local_bytes: kernel.local_bytes,
                has_barriers: kernel.has_barriers,
                reaches_beyond: kernel.reaches_beyond,
                uniform_groups: with(GROUPS) && kernel.uniform_groups,
                sub_group_size: kernel.sub_group_size.filter(|_| with(GROUPS)).unwrap_or(0),
                private_bytes: if with(DETAILS) {
                    kernel.private_bytes
                } else {
                    0
                },
            }));
            for parameter in &kernel.parameters {
                let name = presentable(&parameter.name, self.limits.name);
                let type_name = presentable(&parameter.type_name, self.limits.name);
                let told = described(event, parameter, &name, &type_name);
                tell(&Message::ParameterDescription(told));
            }
        }
    }
}

/// Fails if a program has more than messages can say.
fn check(description: &Description, limits: &ProgramLimits) -> Result<(), Error> {
    let is_long = |kernel: &&KernelInfo| {
        kernel.name.len() > limits.name || kernel.parameters.len() > limits.parameters
    };
    let is_large = |kernel: &&KernelInfo| {
        let size = kernel.required_local_size.unwrap_or([1; 3]);
        let mut size = size.iter();
        size.try_fold(1u32, |items, size| items.checked_mul(*size))
            .is_none()
    };
    let bytes: usize = description.kernels.iter().map(KernelInfo::bytes).sum();
    let problem = match description.kernels.iter().find(is_long) {
        Some(kernel) => format!(
            "kernel '{}' has a name of more than {} bytes, or more than {} parameters",
            kernel.name, limits.name, limits.parameters
        ),
        None if let Some(kernel) = description.kernels.iter().find(is_large) => {
            format!(
                "kernel '{}' requires work-groups of too many work-items",
                kernel.name
            )
        }
        None if description.kernels.len() > limits.kernels => {
            format!("the program has more than {} kernels", limits.kernels)
        }
        None if bytes > MAX_DESCRIPTION => {
            format!("the program's kernels and parameters take more than {MAX_DESCRIPTION} bytes")
        }
        None => return Ok(()),
    };
    Err(ErrorKind::Kernel {
        what: "compiling OpenCL C".to_owned(),
        message: format!("{problem}; a client of a node cannot launch it"),
    }
    .into())
}

fn described<'a>(
    event: u64,
    parameter: &ParameterInfo,
    name: &'a str,
    type_name: &'a str,
) -> ParameterDescription<'a> {
    let (class, access, size) = match parameter.kind {
        ParameterKind::Value { size, align } => (ParameterClass::Value, None, [size, align]),
        ParameterKind::Memory(access) if parameter.is_constant => {
            (ParameterClass::Constant, Some(access), [0; 2])
        }
        ParameterKind::Memory(access) => (ParameterClass::Global, Some(access), [0; 2]),
        ParameterKind::Local => (ParameterClass::Local, None, [0; 2]),
        ParameterKind::Image(access) => (ParameterClass::Image, Some(access), [0; 2]),
        ParameterKind::Sampler => (ParameterClass::Sampler, None, [0; 2]),
    };
    let has = |word: &str| parameter.qualifiers.split(' ').any(|one| one == word);
    ParameterDescription {
        event,
        class,
        is_read: access.is_some_and(|access| access.reads()),
        is_written: access.is_some_and(|access| access.writes()),
        is_const: has("const"),
        is_restrict: has("restrict"),
        is_volatile: has("volatile"),
        size,
        name,
        type_name,
    }
}

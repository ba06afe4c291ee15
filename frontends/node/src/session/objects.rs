//! A session's buffers, programs and queues.

use super::Broken;
use super::description::{Answer, Asked, Describer};
use super::kernel::{Kind, NodeKernel, Pace};
use super::text::{Code, Compiled, TextLaunch, runs_texts};
use crate::limits::Limits;
use crate::native::{Launch, Maker, Parameter};
use crate::node::Shared;
use crate::watch::Stopwatch;
use quipu_clc::{LinkedKernel, Part, ProgramParts, ProgramText};
use quipu_kernel_ir::{KernelText, TextLanguage};
use quipu_protocol::limits::ProgramLimits;
use quipu_protocol::message::{
    self, CreateBuffer, CreateProgram, Describe, DescribeForm, PartForm, ProgramFormat, ProgramPart,
};
use quipu_scheduler::error::{BufferName, Unit};
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{
    BuiltIn, BuiltInKernel, CodeKey, Context, Device, Error, ErrorKind, Event, MemoryRef, Passed,
    Priority, Queue, QueueOptions, Result,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A session's program.
#[derive(Clone)]
pub(crate) enum Program {
    /// A text or several, what drivers know it by, and what processors make of it.
    Code(Code, CodeKey, Arc<Compiled>),
    /// A kernel that devices have built in, and what drivers know it by.
    BuiltIn(Arc<BuiltIn>, CodeKey),
    /// A kernel of the node's own.
    Native(Maker, Arc<Pace>),
    /// None that this node has.
    Unknown(String),
}

/// See the module.
pub(crate) struct Objects {
    node: Arc<Shared>,
    /// The stopwatch of native kernels, and the next one of compilers, if there are limits.
    stopwatch: Option<Stopwatch>,
    compiling: Option<Stopwatch>,
    context: Context,
    /// In trees, as are the others: there are few of most, and who chooses the numbers is a
    /// stranger.
    buffers: BTreeMap<u64, MemoryRef>,
    last_buffer: u64,
    bytes: u64,
    programs: BTreeMap<u64, Program>,
    last_program: u64,
    /// The source of the next program, as far as it has come before its message.
    source: Vec<u8>,
    describer: Describer,
    queues: BTreeMap<(u32, u8, bool), Queue>,
    /// For what goes straight between buffers and the network.
    host: Option<HostQueue>,
}

fn invalid(what: &'static str, problem: String) -> Error {
    ErrorKind::InvalidArgument { what, problem }.into()
}

/// The text that a program is.
fn text(source: &[u8]) -> std::result::Result<&str, Broken> {
    let text = std::str::from_utf8(source).ok();
    let text = text.filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Broken::rule("a program's source is no text"))
}

/// The parts that a program is linked of, within these limits.
fn parts(bytes: &[u8], limits: &ProgramLimits) -> std::result::Result<Arc<[Part]>, Broken> {
    let parts = message::parts(bytes).map_err(|_| Broken::rule("a program's parts are none"))?;
    let is_long = |part: &ProgramPart<'_>| part.options.len() > limits.options;
    if parts.len() > limits.parts || parts.iter().any(is_long) {
        return Err(Broken::rule(
            "a program's parts are more, or have longer options, than was agreed on",
        ));
    }
    let parts = parts.into_iter().map(|part| match part.form {
        PartForm::OpenClC => Ok(Part::Text {
            source: text(part.source)?.into(),
            options: part.options.to_owned(),
        }),
        PartForm::SpirV => Ok(Part::SpirV(part.source.into())),
    });
    parts.collect()
}

impl Objects {
    pub(crate) fn new(node: Arc<Shared>, session: u64, context: Context) -> Self {
        let limits = &node.options.limits;
        let stopwatch = |limit: Duration| {
            let timer = &node.options.timer;
            (!limit.is_zero()).then(|| Stopwatch::new(timer.clone(), session))
        };
        let compiling = stopwatch(limits.compile_time);
        Self {
            stopwatch: stopwatch(limits.run_time),
            describer: Describer::new(compiling.clone()),
            compiling,
            node,
            context,
            buffers: BTreeMap::new(),
            last_buffer: 0,
            bytes: 0,
            programs: BTreeMap::new(),
            last_program: 0,
            source: Vec::new(),
            queues: BTreeMap::new(),
            host: None,
        }
    }

    fn limits(&self) -> &Limits {
        &self.node.options.limits
    }

    pub(crate) fn create_buffer(
        &mut self,
        create: &CreateBuffer,
    ) -> std::result::Result<(), Broken> {
        if create.buffer <= self.last_buffer {
            return Err(Broken::rule(
                "a buffer's id is not larger than those before",
            ));
        }
        let limits = *self.limits();
        let bytes = self.bytes.saturating_add(create.size);
        let all = bytes.saturating_add(self.source.len() as u64);
        if self.buffers.len() >= limits.buffers as usize
            || create.size > limits.buffer_bytes
            || all > limits.session_bytes
        {
            return Err(Broken::limit(
                "more buffers, or larger ones, than the welcome allows",
            ));
        }
        let memory = self
            .context
            .memory(create.size)
            .map_err(|error| Broken::of(&error))?;
        self.last_buffer = create.buffer;
        self.bytes = bytes;
        self.node.bytes.fetch_add(create.size, Ordering::AcqRel);
        self.buffers.insert(create.buffer, memory);
        Ok(())
    }

    pub(crate) fn free_buffer(&mut self, id: u64) -> std::result::Result<(), Broken> {
        // What was sent before still uses it: the core frees it when that is over.
        let Some(memory) = self.buffers.remove(&id) else {
            return Err(Broken::rule("a buffer is freed that is not there"));
        };
        self.bytes -= memory.size();
        self.node.bytes.fetch_sub(memory.size(), Ordering::AcqRel);
        Ok(())
    }

    /// A buffer, of which a command touches these bytes.
    pub(crate) fn buffer(
        &self,
        id: u64,
        range: &Range<u64>,
    ) -> std::result::Result<Result<MemoryRef>, Broken> {
        if id > self.last_buffer {
            return Err(Broken::rule("a command names a buffer that never was"));
        }
        let Some(memory) = self.buffers.get(&id) else {
            let problem = format!("buffer {id} was freed");
            return Ok(Err(invalid("use a buffer", problem)));
        };
        if range.end > memory.size() {
            let error = ErrorKind::OutOfBounds {
                what: "use a buffer",
                buffer: BufferName {
                    label: memory.label(),
                    argument: None,
                },
                unit: Unit::Bytes,
                start: range.start,
                end: range.end,
                size: memory.size(),
            };
            return Ok(Err(error.into()));
        }
        Ok(Ok(memory.clone()))
    }

    /// Fails if a program of so many bytes is more than the session may have.
    fn check_program(&self, bytes: usize) -> std::result::Result<(), Broken> {
        let limits = self.limits();
        let programs = self.programs.len() + self.describer.pending();
        if programs >= limits.programs as usize || bytes > limits.program_bytes as usize {
            return Err(Broken::limit(
                "more programs, or longer ones, than the welcome allows",
            ));
        }
        Ok(())
    }

    /// Takes a part of the source of the next program.
    pub(crate) fn add_source(&mut self, bytes: &[u8]) -> std::result::Result<(), Broken> {
        let length = self.source.len() + bytes.len();
        self.check_program(length)?;
        let all = self.bytes.saturating_add(length as u64);
        if all > self.limits().session_bytes {
            return Err(Broken::limit(
                "a program and buffers of more bytes than the welcome allows",
            ));
        }
        self.source.extend_from_slice(bytes);
        let added = bytes.len() as u64;
        self.node.bytes.fetch_add(added, Ordering::AcqRel);
        Ok(())
    }

    /// The source of a program whose message has this one: its own, or what has come before.
    fn whole<'s>(&mut self, source: &'s [u8]) -> std::result::Result<Cow<'s, [u8]>, Broken> {
        let before = std::mem::take(&mut self.source);
        let kept = before.len() as u64;
        self.node.bytes.fetch_sub(kept, Ordering::AcqRel);
        match (source.is_empty(), before.is_empty()) {
            (false, true) => Ok(source.into()),
            (true, false) => Ok(before.into()),
            _ => Err(Broken::rule(
                "a program's source comes in its own message, or before it, and not in both",
            )),
        }
    }

    /// Has a program read for a device. Gives the event of its end, and what the answer will be in.
    pub(crate) fn describe(
        &mut self,
        device: u32,
        describe: &Describe<'_>,
        limits: &'static ProgramLimits,
    ) -> std::result::Result<Result<(Event, Answer)>, Broken> {
        let source = self.whole(describe.source)?;
        self.check_program(source.len())?;
        let Some(device) = self.node.options.devices.get(device as usize) else {
            return Err(Broken::rule(
                "a command names a device that the node does not have",
            ));
        };
        let program = match describe.form {
            DescribeForm::Text => Asked::Text(ProgramText {
                source: text(&source)?.into(),
                options: describe.options.to_owned(),
            }),
            DescribeForm::Linked | DescribeForm::Compiled => Asked::Parts(ProgramParts {
                parts: parts(&source, limits)?,
                is_linked: describe.form == DescribeForm::Linked,
            }),
        };
        Ok(self.describer.ask(device, program, limits))
    }

    pub(crate) fn create_program(
        &mut self,
        create: &CreateProgram<'_>,
        limits: &ProgramLimits,
    ) -> std::result::Result<(), Broken> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if create.program <= self.last_program {
            return Err(Broken::rule(
                "a program's id is not larger than those before",
            ));
        }
        let source = self.whole(create.source)?;
        let create = &CreateProgram {
            source: &source,
            ..*create
        };
        self.check_program(source.len())?;
        if create.may_print()
            && let Some(printed) = self.node.printed()
        {
            printed.expect();
        }
        let program = match create.format {
            ProgramFormat::OpenClC => {
                let text = KernelText {
                    language: TextLanguage::OpenClC,
                    source: text(create.source)?.into(),
                    entry: create.entry.to_owned(),
                    options: create.options.to_owned(),
                };
                let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
                let code = Code::Text(Arc::new(text));
                Program::Code(code, CodeKey::of::<Program>(number), Arc::default())
            }
            ProgramFormat::Parts => {
                let kernel = LinkedKernel {
                    parts: parts(create.source, limits)?,
                    entry: create.entry.to_owned(),
                };
                let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
                let code = Code::Linked(Arc::new(kernel));
                Program::Code(code, CodeKey::of::<Program>(number), Arc::default())
            }
            ProgramFormat::Native => {
                let name = create.source.try_into();
                let name = name.map_err(|_| Broken::rule("a native kernel's name is too short"))?;
                match self.node.options.natives.find(&name) {
                    Some(maker) => Program::Native(maker, Arc::default()),
                    None => Program::Unknown(format!(
                        "run kernel '{}', which its program does not have natively in just this form",
                        create.entry
                    )),
                }
            }
            ProgramFormat::BuiltIn => {
                let name = std::str::from_utf8(create.source);
                let name = name.map_err(|_| Broken::rule("a built-in kernel's name is no text"))?;
                let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
                let key = CodeKey::of::<BuiltIn>(number);
                Program::BuiltIn(Arc::new(BuiltIn(name.to_owned())), key)
            }
            ProgramFormat::Module => Program::Unknown("take modules".to_owned()),
        };
        self.last_program = create.program;
        self.programs.insert(create.program, program);
        Ok(())
    }

    pub(crate) fn free_program(&mut self, id: u64) -> std::result::Result<(), Broken> {
        match self.programs.remove(&id) {
            Some(_) => Ok(()),
            None => Err(Broken::rule("a program is freed that is not there")),
        }
    }

    /// True if a program is a device's own, which takes as long as what it reads from lets it.
    pub(crate) fn is_built_in(&self, id: u64) -> bool {
        matches!(self.programs.get(&id), Some(Program::BuiltIn(..)))
    }

    /// A program, for a device.
    pub(crate) fn kernel(
        &self,
        id: u64,
        device: &Device,
        passed: &Passed,
        parameters: &[Parameter<'_>],
    ) -> std::result::Result<Result<NodeKernel>, Broken> {
        if id > self.last_program {
            return Err(Broken::rule("a launch names a program that never was"));
        }
        let unsupported = |what: String, instead| {
            let driver = device.driver_name();
            Ok(Err(ErrorKind::Unsupported {
                driver,
                what,
                instead,
            }
            .into()))
        };
        Ok(match self.programs.get(&id) {
            None => Err(invalid(
                "launch a kernel",
                format!("program {id} was freed"),
            )),
            Some(Program::Unknown(what)) => {
                return unsupported(
                    what.clone(),
                    "serve from a program that was built with the same kernel, or write it in OpenCL C",
                );
            }
            Some(Program::Code(code, _, compiled)) if runs_texts(device) => {
                let launch = TextLaunch::new(
                    code.clone(),
                    compiled.clone(),
                    passed.clone(),
                    self.compiling.clone(),
                    self.stopwatch.clone(),
                );
                Ok(NodeKernel::new(Kind::Compiled(launch)))
            }
            Some(Program::Code(code, key, _)) => {
                let driver = device.driver();
                match code {
                    _ if driver.takes_code(code.code_type()) => {}
                    Code::Linked(kernel) => {
                        return unsupported(
                            format!("link a program for kernel '{}'", kernel.entry),
                            "launch it on one of the node's processors, or make the program of one text",
                        );
                    }
                    Code::Text(text) => {
                        return unsupported(
                            format!("compile kernel '{}' in OpenCL C", text.entry),
                            "launch a kernel that the node's program has natively, or use one of its OpenCL devices",
                        );
                    }
                }
                let limit = self.compiling.clone();
                let kind = Kind::Text(code.clone(), *key, passed.clone(), limit);
                Ok(NodeKernel::new(kind))
            }
            Some(Program::BuiltIn(code, key)) => {
                let there = device.built_in_kernels();
                BuiltInKernel::find(&there, &code.0, device.name())
                    .map(|_| NodeKernel::new(Kind::BuiltIn(code.clone(), *key, passed.clone())))
            }
            Some(Program::Native(maker, pace)) => {
                let launch = Launch {
                    device,
                    passed,
                    parameters,
                };
                let kernel = maker(&launch);
                if device.driver().runs_native_code() {
                    let times = (pace.clone(), self.stopwatch.clone());
                    return Ok(kernel.map(|kernel| NodeKernel::new(Kind::Native(kernel, times))));
                }
                let takes = |of| device.driver().takes_code(of);
                match kernel {
                    Ok(kernel) if !kernel.portable().is_some_and(|it| takes(it.code_type())) => {
                        return unsupported(
                            "run native code".to_owned(),
                            "use one of the node's devices that do, or write the kernel in OpenCL C",
                        );
                    }
                    kernel => {
                        let limit = self.compiling.clone();
                        kernel.map(|kernel| NodeKernel::new(Kind::Printed(kernel, limit)))
                    }
                }
            }
        })
    }

    /// The queue of a device for commands of a kind.
    pub(crate) fn queue(
        &mut self,
        device: u32,
        priority: message::Priority,
        profiled: bool,
    ) -> std::result::Result<Result<&Queue>, Broken> {
        let vacant = match self.queues.entry((device, priority as u8, profiled)) {
            Entry::Occupied(known) => return Ok(Ok(known.into_mut())),
            Entry::Vacant(vacant) => vacant,
        };
        let Some(of) = self.node.options.devices.get(device as usize) else {
            return Err(Broken::rule(
                "a command names a device that the node does not have",
            ));
        };
        let options = QueueOptions {
            in_order: false,
            profiling: profiled,
            priority: match priority {
                message::Priority::Low => Priority::Low,
                message::Priority::Normal => Priority::Normal,
                message::Priority::High => Priority::High,
            },
            ..QueueOptions::default()
        };
        let queue = self.context.queue(of, options);
        Ok(queue.map(|queue| &*vacant.insert(queue)))
    }

    /// The queue of the host's turns.
    pub(crate) fn host(&mut self) -> Result<&HostQueue> {
        match &mut self.host {
            Some(host) => Ok(host),
            none => Ok(none.insert(HostQueue::new(&self.context)?)),
        }
    }

    /// Has all that was enqueued run eventually.
    pub(crate) fn flush(&self) {
        for queue in self.queues.values() {
            queue.flush();
        }
    }

    /// Gives everything back that is not in use; the rest goes when it is not in use any more.
    pub(crate) fn clear(&mut self) {
        let source = std::mem::take(&mut self.source);
        let bytes = self.bytes + source.len() as u64;
        self.node.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.bytes = 0;
        self.describer.close();
        self.buffers.clear();
        self.programs.clear();
        self.queues.clear();
        self.host = None;
    }
}

//! Programs of clients on this machine's processors.
//!
//! The session's process reads a program when a kernel of it first runs, and compiles a kernel for
//! each size of work-group. The compiler is a process of its own that the session's starts, within
//! the session's sandbox and limits.

use crate::watch::Stopwatch;
use quipu_clc::{ClcError, Kernel, LinkedKernel, Program};
use quipu_kernel_ir::KernelText;
use quipu_scheduler::{Device, Error, ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A kernel of a program, as its client has sent it.
#[derive(Clone)]
pub(crate) enum Code {
    /// Of a text.
    Text(Arc<KernelText>),
    /// Of a program that is linked of parts.
    Linked(Arc<LinkedKernel>),
}

impl Code {
    pub(super) fn entry(&self) -> &str {
        match self {
            Self::Text(text) => &text.entry,
            Self::Linked(kernel) => &kernel.entry,
        }
    }

    /// The type of the code, by which a driver takes it.
    pub(super) fn code_type(&self) -> TypeId {
        match self {
            Self::Text(_) => TypeId::of::<KernelText>(),
            Self::Linked(_) => TypeId::of::<LinkedKernel>(),
        }
    }

    /// The code for a driver that compiles it.
    pub(super) fn for_driver(&self) -> Arc<dyn Any + Send + Sync> {
        match self {
            Self::Text(text) => text.clone(),
            Self::Linked(kernel) => kernel.clone(),
        }
    }

    /// Has this machine's compiler read the program.
    fn read(&self) -> std::result::Result<Program, ClcError> {
        match self {
            Self::Text(text) => Program::new(&text.source, &text.options),
            Self::Linked(kernel) => Program::of_parts(&kernel.parts),
        }
    }
}

/// The compiler's result for a program, once it is asked.
pub(crate) type Compiled = OnceLock<std::result::Result<Program, Arc<ClcError>>>;

/// True if a device runs what this machine's compiler for processors makes of OpenCL C.
pub(crate) fn runs_texts(device: &Device) -> bool {
    let driver = device.driver();
    driver.runs_native_code()
        && !driver.takes_code(TypeId::of::<KernelText>())
        && quipu_clc::is_available()
}

/// A launch of a client's kernel.
pub(crate) struct TextLaunch {
    code: Code,
    program: Arc<Compiled>,
    passed: Passed,
    kernel: OnceLock<std::result::Result<Arc<Kernel>, Arc<ClcError>>>,
    /// Look that neither the compiler nor the kernel takes too long.
    compiling: Option<Stopwatch>,
    running: Option<Stopwatch>,
}

impl TextLaunch {
    pub(crate) fn new(
        code: Code,
        program: Arc<Compiled>,
        passed: Passed,
        compiling: Option<Stopwatch>,
        running: Option<Stopwatch>,
    ) -> Self {
        Self {
            code,
            program,
            passed,
            kernel: OnceLock::new(),
            compiling,
            running,
        }
    }

    fn compile(&self) -> std::result::Result<Arc<Kernel>, Arc<ClcError>> {
        let read = || self.code.read().map_err(Arc::new);
        let program = self.program.get_or_init(read).as_ref();
        program
            .map_err(Arc::clone)?
            .compile_for(self.code.entry(), &self.passed)
    }

    /// Runs work-groups, of a kernel that is compiled first if it is not yet.
    ///
    /// # Safety
    /// `arguments` are the launch's, valid for their modes; no group is run twice in a launch.
    pub(crate) unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        let failed = |error: &ClcError| {
            Error::from(ErrorKind::Kernel {
                what: format!("kernel '{}'", self.code.entry()),
                message: error.to_string(),
            })
        };
        let kernel = self.kernel.get_or_init(|| match &self.compiling {
            Some(stopwatch) => stopwatch.time_compiler(|| self.compile()),
            None => self.compile(),
        });
        let kernel = kernel.as_ref().map_err(|error| failed(error))?;
        let groups = u64::from(groups.start)..u64::from(groups.end);
        // SAFETY: as the caller promises; what the client's kernel does to this process is the
        // sandbox's matter.
        let run = || unsafe { kernel.run_passed(&self.passed, arguments, groups) };
        let result = match &self.running {
            Some(stopwatch) => stopwatch.time(run),
            None => run(),
        };
        result.map_err(|error| failed(&error))
    }
}

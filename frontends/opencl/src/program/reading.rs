//! The reader of a program's text, and the reasons why a program is not built.
//!
//! This machine's compiler reads texts, and has to where a program is for its processors. For other
//! devices, the driver of a device reads each text that this compiler refuses, and every text on a
//! machine without LLVM. The driver for nodes asks the node. Such a reader does not see this
//! machine's files, so a text comes to it with all files that it includes.

use super::*;
use crate::code::code_of;
use quipu_clc::{ProgramParts, ProgramText};
use quipu_scheduler::ErrorKind;
use std::any::Any;

/// The reason for which a program is not built.
pub(super) enum NotBuilt {
    /// By this machine's compiler.
    Here(ClcError),
    /// By a device's driver.
    There(quipu_scheduler::Error),
}

impl From<ClcError> for NotBuilt {
    fn from(error: ClcError) -> Self {
        Self::Here(error)
    }
}

impl NotBuilt {
    /// OpenCL's code. Those given are for options that are none, and for a text that is at fault.
    pub(super) fn code(&self, [bad_options, bad_text]: [cl_int; 2]) -> cl_int {
        match self {
            Self::Here(ClcError::Missing | ClcError::NoCompiler | ClcError::NoTranslator) => {
                tracing::error!("{}", self.log());
                CL_COMPILER_NOT_AVAILABLE
            }
            Self::Here(ClcError::Option(_)) => bad_options,
            Self::Here(_) => bad_text,
            Self::There(error) => match error.kind() {
                ErrorKind::Kernel { .. } => bad_text,
                ErrorKind::InvalidArgument { .. } => bad_options,
                ErrorKind::Unsupported { .. } => {
                    tracing::error!("{error}");
                    CL_COMPILER_NOT_AVAILABLE
                }
                _ => {
                    tracing::error!("{error}");
                    code_of(error)
                }
            },
        }
    }

    /// The program's log.
    pub(super) fn log(&self) -> String {
        match self {
            Self::Here(error) => error.to_string(),
            Self::There(error) => match error.kind() {
                ErrorKind::Kernel { message, .. } => message.clone(),
                ErrorKind::InvalidArgument { problem, .. } => problem.clone(),
                _ => error.to_string(),
            },
        }
    }
}

impl Program {
    /// Has the text read for some of the program's devices.
    pub(super) fn read(
        &self,
        numbers: &[usize],
        source: &str,
        options: &str,
    ) -> std::result::Result<Built, NotBuilt> {
        let (source, options) = quipu_clc::with_named_files(source, options);
        let (source, options) = (&*source, &*options);
        // Devices elsewhere do not see this machine's files, and a binary may be read where they
        // are gone.
        let included: Arc<str> = match quipu_clc::with_includes(source, options, &[]) {
            Ok(included) => included.into(),
            // They are too many together, which this machine's compiler may take.
            Err(_) if self.devices.iter().all(|device| device.is_native()) => source.into(),
            Err(error) => return Err(error.into()),
        };
        let mut refused = None;
        if quipu_clc::is_available() || self.has_native(numbers) {
            match quipu_clc::Program::new(source, options) {
                Ok(program) => return Ok(Built::read_here(program).of_text(included, options)),
                // The compiler of another vendor's device may take what is its vendor's own.
                Err(error) if error.is_refusal() && !self.has_native(numbers) => {
                    refused = Some(error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let text = ProgramText {
            source: included.clone(),
            options: options.to_owned(),
        };
        let read = self.read_there(numbers, &text);
        // Whoever has written the text knows this compiler's words for what is wrong, whichever the
        // device.
        let read = read.map_err(|error| refused.unwrap_or(error))?;
        Ok(Built::read_there(read).of_text(included, options))
    }

    /// Has the driver of one of these devices read a program, and says which device that is.
    pub(super) fn read_there<P: Any + Send + Sync>(
        &self,
        numbers: &[usize],
        program: &P,
    ) -> std::result::Result<(Description, u32), NotBuilt> {
        // The first whose compiler answers: what a program has is the same for all.
        let mut not_built = NotBuilt::Here(ClcError::Missing);
        for number in numbers {
            let device = &self.devices[*number].core;
            match quipu_clc::describe_by_driver(device, program) {
                Ok(description) => return Ok((description, device.id())),
                Err(error) => {
                    let is_answer = is_refusal(&error);
                    not_built = NotBuilt::There(error);
                    if is_answer {
                        break;
                    }
                }
            }
        }
        Err(not_built)
    }
}

/// True if a device's compiler refuses a program or an option.
fn is_refusal(error: &quipu_scheduler::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Kernel { .. } | ErrorKind::InvalidArgument { .. }
    )
}

/// Asks a device whether its own compiler takes a program that another has read: it may lack what
/// that has, and a launch would be too late to say so.
pub(super) fn accepted(device: &Device, made: &Made) -> std::result::Result<(), NotBuilt> {
    let Some(built) = made.executable().filter(|_| !device.is_native()) else {
        return Ok(());
    };
    if built.variable_bytes() != 0 {
        return Err(ClcError::Refused(quipu_clc::SHARED_VARIABLES.into()).into());
    }
    if built.unit.is_some() && built.parts.is_none() {
        return Err(ClcError::Refused(OF_PROCESSORS.into()).into());
    }
    if built.read_by == Some(device.core.id()) {
        return Ok(());
    }
    let described = match &built.parts {
        Some(parts) => {
            let program = ProgramParts {
                parts: parts.clone(),
                is_linked: true,
            };
            quipu_clc::describe_by_driver(&device.core, &program)
        }
        None => {
            let program = ProgramText {
                source: built.source.clone(),
                options: built.options.to_string(),
            };
            quipu_clc::describe_by_driver(&device.core, &program)
        }
    };
    match described {
        Err(error) if is_refusal(&error) => Err(NotBuilt::There(error)),
        Err(error) => {
            tracing::debug!("a device does not say whether it takes a program: {error}");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says_of_a_build_has_a_code_and_a_log() {
        let text = str::to_owned;
        let refused = ErrorKind::Kernel {
            what: text("compiling OpenCL C on node 'box'"),
            message: text("program:1:1: error: no"),
        };
        let bad_option = ErrorKind::InvalidArgument {
            what: "compile OpenCL C",
            problem: text("option '-x' is not taken"),
        };
        let none = ErrorKind::Unsupported {
            driver: "remote",
            what: text("compile OpenCL C on node 'box'"),
            instead: "install one",
        };
        let lost = ErrorKind::DeviceLost {
            device: text("a pool on box"),
            reason: text("the connection to node 'box' is lost"),
        };
        let codes = [CL_INVALID_BUILD_OPTIONS, CL_BUILD_PROGRAM_FAILURE];
        for (kind, code, log) in [
            (refused, CL_BUILD_PROGRAM_FAILURE, "program:1:1: error: no"),
            (
                bad_option,
                CL_INVALID_BUILD_OPTIONS,
                "option '-x' is not taken",
            ),
            (
                none,
                CL_COMPILER_NOT_AVAILABLE,
                "remote cannot compile OpenCL C on node 'box'; install one",
            ),
            (
                lost,
                CL_DEVICE_NOT_AVAILABLE,
                "device 'a pool on box' is lost: the connection to node 'box' is lost",
            ),
        ] {
            let error = NotBuilt::There(kind.into());
            assert_eq!(error.code(codes), code, "{log}");
            assert!(error.log().starts_with(log), "{}", error.log());
        }
    }
}

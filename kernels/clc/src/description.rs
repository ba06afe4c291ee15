//! Programs that are read for a device: by this machine's compiler, or by the device's driver.

use crate::client::{ClcError, is_available};
use crate::compiler::tools::MISSING;
use crate::metadata::{Description, ProgramText};
use crate::parts::ProgramParts;
use crate::program::Program;
use quipu_scheduler::{Device, Error, ErrorKind, Result};
use std::any::Any;

/// Reads a program for a client elsewhere: by this machine's compiler, or by the device's driver
/// where that refuses the program and on a machine without one. The client's launches share no
/// variables.
///
/// # Errors
/// [`ErrorKind::Kernel`] if the compiler refuses the text, with its log as the message;
/// [`ErrorKind::InvalidArgument`] if it refuses an option; [`ErrorKind::Unsupported`] if there is
/// no compiler.
pub fn describe(device: &Device, program: &ProgramText) -> Result<Description> {
    let is_native = device.driver().runs_native_code();
    if !is_available() && !is_native {
        return describe_by_driver(device, program);
    }
    let error = match Program::new(&program.source, &program.options) {
        Ok(read) => match read.unshared() {
            Ok(read) => {
                return Ok(Description {
                    kernels: read.kernels().to_vec(),
                    log: read.warnings().to_owned(),
                });
            }
            Err(error) => error,
        },
        Err(error) => {
            // The compiler of another vendor's device may take what is its vendor's own.
            if error.is_refusal()
                && !is_native
                && let Ok(description) = describe_by_driver(device, program)
            {
                return Ok(description);
            }
            error
        }
    };
    Err(error_of(&error, device.driver_name()))
}

/// The same of a program that is linked of parts.
///
/// # Errors
/// As [`describe`].
pub fn describe_parts(device: &Device, program: &ProgramParts) -> Result<Description> {
    if !device.driver().runs_native_code() {
        return describe_by_driver(device, program);
    }
    let read = program.read();
    read.map_err(|error| error_of(&error, device.driver_name()))
}

/// Has a device's driver read a program: a [`ProgramText`], or [`ProgramParts`].
///
/// # Errors
/// As [`describe`]; if the driver is lost.
pub fn describe_by_driver<P: Any + Send + Sync>(
    device: &Device,
    program: &P,
) -> Result<Description> {
    let description = device.driver().describe(device.index(), program)?;
    let description = description.downcast::<Description>();
    description
        .map(|description| *description)
        .map_err(|_| unsupported(device.driver_name(), "say what programs in OpenCL C have"))
}

fn unsupported(driver: &'static str, what: &str) -> Error {
    ErrorKind::Unsupported {
        driver,
        what: what.to_owned(),
        instead: MISSING,
    }
    .into()
}

fn error_of(error: &ClcError, driver: &'static str) -> Error {
    match error {
        ClcError::Missing | ClcError::NoCompiler | ClcError::NoTranslator => {
            unsupported(driver, "compile OpenCL C")
        }
        ClcError::Option(_) => ErrorKind::InvalidArgument {
            what: "compile OpenCL C",
            problem: error.to_string(),
        }
        .into(),
        _ => ErrorKind::Kernel {
            what: "compiling OpenCL C".to_owned(),
            message: error.to_string(),
        }
        .into(),
    }
}

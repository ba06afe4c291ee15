//! OpenCL's error codes, and the frame of every entry point.

use opencl_sys::*;
use quipu_scheduler::{Error, ErrorKind};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error code of OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) cl_int);

pub(crate) type Result<T> = std::result::Result<T, Code>;

/// An error code as an error.
pub(crate) fn fail<T>(code: cl_int) -> Result<T> {
    Err(Code(code))
}

/// The error code, unless the condition holds.
pub(crate) fn ensure(condition: bool, code: cl_int) -> Result<()> {
    if condition { Ok(()) } else { fail(code) }
}

impl From<Error> for Code {
    /// The code of an error of the core. The error's text is logged, because a code says little.
    fn from(error: Error) -> Self {
        tracing::warn!("{error}");
        Self(code_of(&error))
    }
}

/// The code that is nearest to an error of the core.
pub(crate) fn code_of(error: &Error) -> cl_int {
    match error.kind() {
        ErrorKind::InvalidSize { .. }
        | ErrorKind::OutOfBounds { .. }
        | ErrorKind::InvalidArgument { .. } => CL_INVALID_VALUE,
        ErrorKind::WrongContext { .. } => CL_INVALID_CONTEXT,
        ErrorKind::OutOfMemory { .. } => CL_MEM_OBJECT_ALLOCATION_FAILURE,
        ErrorKind::DeviceLost { .. } | ErrorKind::ContextLost { .. } | ErrorKind::Forked { .. } => {
            CL_DEVICE_NOT_AVAILABLE
        }
        ErrorKind::Dependency { .. }
        | ErrorKind::FailedByHost { .. }
        | ErrorKind::Abandoned { .. }
        | ErrorKind::Cancelled { .. } => CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        ErrorKind::Unsupported { .. } => CL_INVALID_OPERATION,
        _ => CL_OUT_OF_RESOURCES,
    }
}

/// Runs the body of an entry point that gives a code. A panic ends there.
pub(crate) fn entry(body: impl FnOnce() -> Result<()>) -> cl_int {
    match contain(body) {
        Ok(()) => CL_SUCCESS,
        Err(Code(code)) => code,
    }
}

/// Runs the body of an entry point that gives an object or address, and its code by a pointer.
///
/// # Safety
/// `code` is null, or valid for a write.
pub(crate) unsafe fn create(
    code: *mut cl_int,
    body: impl FnOnce() -> Result<*mut c_void>,
) -> *mut c_void {
    let (made, number) = match contain(body) {
        Ok(made) => (made, CL_SUCCESS),
        Err(Code(number)) => (std::ptr::null_mut(), number),
    };
    if !code.is_null() {
        // SAFETY: as the caller promises.
        unsafe { code.write(number) };
    }
    made
}

fn contain<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // A payload's destructor may panic as well.
        std::mem::forget(payload);
        fail(CL_OUT_OF_RESOURCES)
    })
}

/// A list that a program passes as a length and a pointer: `None` if one says that there is none
/// and the other does not.
///
/// # Safety
/// The pointer is null, or valid for reads of so many elements for `'a`.
pub(crate) unsafe fn list<'a, T>(length: usize, pointer: *const T) -> Option<&'a [T]> {
    match (length, pointer.is_null()) {
        (0, true) => Some(&[]),
        (0, false) | (_, true) => None,
        // SAFETY: as the caller promises.
        (length, false) => Some(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

//! Warnings of kernels that have no source: devices other than processors would refuse them.
//!
//! A processor runs a kernel as rustc compiled it, and needs no source of it. So a kernel that has
//! no source would run there, and fail on the first GPU that it meets. In debug builds the first
//! launch on a processor makes each kernel's source once, and tells of a failure. `QUIPU_CHECK=1`
//! does so in any build, and makes it an error; `QUIPU_CHECK=0` in none.

use super::prepared::Prepared;
use quipu_environment::CHECK;
use quipu_kernel::emit::ir::Module;
use quipu_scheduler::{CodeKey, Error, Result};
use std::any::TypeId;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Each kernel that was launched on a processor, and why it has no source.
static MADE: LazyLock<Mutex<HashMap<CodeKey, Option<Error>>>> = LazyLock::new(Mutex::default);

/// True if sources of kernels are made that a processor runs.
pub(crate) fn are_checked() -> bool {
    match CHECK.get() {
        Ok(Some(check)) => check,
        // A wrong value in the environment is the launch's error.
        Ok(None) | Err(_) => cfg!(debug_assertions),
    }
}

/// True if a kernel without a source is refused.
fn is_checking() -> bool {
    matches!(CHECK.get(), Ok(Some(true)))
}

/// Makes a kernel's source, if this is its first launch. That it has none is a warning on standard
/// error.
///
/// # Errors
/// With `QUIPU_CHECK=1`, why it has none, at each of its launches.
#[cold]
pub(crate) fn check<const D: usize>(prepared: &dyn Prepared<D>) -> Result<()> {
    if prepared.code_type() != Some(TypeId::of::<Module>()) {
        return Ok(());
    }
    let key = prepared.key();
    // Nothing can have panicked while it was changed.
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = made().get(&key).cloned();
    let error = match known {
        Some(error) => error,
        // Another thread may make it meanwhile, with the same result. One of the two tells of it.
        None => {
            let error = prepared.code().err();
            let is_first = made().insert(key, error.clone()).is_none();
            if is_first
                && let Some(error) = &error
                && !is_checking()
            {
                // `eprintln` would panic where standard error is closed.
                let _ = writeln!(
                    std::io::stderr(),
                    "quipu: warning: other devices than processors cannot run this kernel: {error}"
                );
            }
            error
        }
    };
    match error {
        Some(error) if is_checking() => Err(error),
        _ => Ok(()),
    }
}

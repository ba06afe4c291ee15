//! Answers to `clGet…Info`.

use crate::code::{Code, Result};
use opencl_sys::{CL_FALSE, CL_INVALID_VALUE, CL_TRUE, cl_bool};
use std::ffi::c_void;

/// The place where a program wants an answer.
pub(crate) struct Answer {
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
}

impl Answer {
    /// # Safety
    /// `value` is null or valid for writes of `size` bytes, and `size_ret` null or valid for a
    /// write, until the answer is given.
    pub(crate) unsafe fn new(size: usize, value: *mut c_void, size_ret: *mut usize) -> Self {
        Self {
            size,
            value,
            size_ret,
        }
    }

    /// Answers with so many bytes, if there is room for them. `put` writes them there.
    fn bytes(self, bytes: usize, put: impl FnOnce(*mut u8)) -> Result<()> {
        if !self.value.is_null() {
            if self.size < bytes {
                return Err(Code(CL_INVALID_VALUE));
            }
            put(self.value.cast());
        }
        if !self.size_ret.is_null() {
            // SAFETY: as `new` was promised.
            unsafe { self.size_ret.write(bytes) };
        }
        Ok(())
    }

    /// Answers with values that are laid out as C has them.
    pub(crate) fn slice<T: Copy>(self, values: &[T]) -> Result<()> {
        let bytes = size_of_val(values);
        self.bytes(bytes, |to| {
            // SAFETY: there is room for as many bytes, as `bytes` has compared.
            unsafe { to.copy_from_nonoverlapping(values.as_ptr().cast(), bytes) };
        })
    }

    /// Answers with one value.
    pub(crate) fn value<T: Copy>(self, value: T) -> Result<()> {
        self.slice(&[value])
    }

    /// Answers with yes or no.
    pub(crate) fn truth(self, value: bool) -> Result<()> {
        self.value::<cl_bool>(if value { CL_TRUE } else { CL_FALSE })
    }

    /// Answers with a text.
    pub(crate) fn text(self, text: &str) -> Result<()> {
        self.text_of(text.as_bytes())
    }

    /// Answers with a text, which need not be UTF-8.
    pub(crate) fn text_of(self, text: &[u8]) -> Result<()> {
        self.bytes(text.len() + 1, |to| {
            // SAFETY: there is room for the text and a zero, as `bytes` has compared.
            unsafe {
                to.copy_from_nonoverlapping(text.as_ptr(), text.len());
                to.add(text.len()).write(0);
            }
        })
    }

    /// The pointers that a program has put where the answer goes: as the sizes and addresses of
    /// binaries.
    pub(crate) fn pointers(&self, count: usize) -> Result<Option<Vec<*mut u8>>> {
        if self.value.is_null() {
            return Ok(None);
        }
        if self.size < count * size_of::<*mut u8>() {
            return Err(Code(CL_INVALID_VALUE));
        }
        let first = self.value.cast::<*mut u8>();
        // SAFETY: there are as many, as `new` was promised.
        Ok(Some(
            (0..count)
                .map(|at| unsafe { first.add(at).read_unaligned() })
                .collect(),
        ))
    }

    /// Says how large the answer is, where it went another way.
    pub(crate) fn only_size(self, bytes: usize) -> Result<()> {
        if !self.size_ret.is_null() {
            // SAFETY: as `new` was promised.
            unsafe { self.size_ret.write(bytes) };
        }
        Ok(())
    }
}

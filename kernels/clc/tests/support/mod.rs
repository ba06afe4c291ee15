//! Helpers that tests of kernels share.

// Helpers of tests are tests: unwrap is their assertion too.
#![allow(clippy::unwrap_used)]

use quipu_clc::{Argument, Grid, Program, set_compiler};
use std::mem::MaybeUninit;

#[allow(dead_code)]
/// A program; none, and a line that says so, on a machine without a compiler. The compiler is the
/// one that was built with the test, unless `QUIPU_CLC` names one: on a machine that has no
/// sources.
pub(crate) fn program(text: &str) -> Option<Program> {
    if std::env::var_os("QUIPU_CLC").is_none() {
        set_compiler(env!("CARGO_BIN_EXE_quipu-clc").into(), Vec::new());
    }
    if !quipu_clc::is_available() {
        assert!(
            std::env::var_os("QUIPU_TEST_CLC").is_none(),
            "there is no LLVM, and QUIPU_TEST_CLC wants it"
        );
        println!(
            "NOT TESTED: OpenCL C on processors: no clang, lld and libLLVM of a version from 18 to 22"
        );
        return None;
    }
    match Program::new(text, "") {
        Ok(program) => Some(program),
        Err(error) => panic!("{error}"),
    }
}

/// Numbers between -1 and 1, the same each time.
#[allow(dead_code)]
pub(crate) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A copy that begins where buffers do: at a multiple of the largest type's size. It is leaked.
#[allow(dead_code)]
pub(crate) fn aligned(bytes: &[u8]) -> &'static [u8] {
    #[derive(Clone, Copy)]
    #[repr(align(128))]
    struct Line([u8; 128]);
    let mut lines = vec![Line([0; 128]); bytes.len().div_ceil(128)];
    for (line, bytes) in lines.iter_mut().zip(bytes.chunks(128)) {
        line.0[..bytes.len()].copy_from_slice(bytes);
    }
    let lines = lines.leak();
    // SAFETY: the lines' own bytes, which stay: `leak` gives them away for good.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), bytes.len()) }
}

/// A launch, whose values are leaked.
#[allow(dead_code)]
pub(crate) struct Launch {
    pub(crate) grid: Grid,
    pub(crate) arguments: Vec<Argument<'static>>,
}

#[allow(dead_code)]
impl Launch {
    pub(crate) fn new(global: [usize; 3], local: [usize; 3]) -> Self {
        let (global, local) = (
            global.map(|size| size as u64),
            local.map(|size| size as u32),
        );
        Self {
            grid: Grid::new(3, global, local),
            arguments: Vec::new(),
        }
    }

    pub(crate) fn value<T: Copy>(&mut self, value: T) {
        let leaked: *const T = Box::leak(Box::new(value));
        // SAFETY: the value's own bytes, which stay.
        let bytes =
            unsafe { std::slice::from_raw_parts(leaked.cast::<MaybeUninit<u8>>(), size_of::<T>()) };
        self.arguments.push(Argument::Value(bytes));
    }

    /// Memory that the launch may write to, though it is lent as if to be read: tests look at it
    /// afterwards alone.
    pub(crate) fn memory<T: Copy>(&mut self, memory: &[T]) {
        let start = memory.as_ptr().cast_mut().cast();
        self.arguments
            .push(Argument::Memory(start, size_of_val(memory)));
    }

    pub(crate) fn local(&mut self, bytes: u64) {
        self.arguments.push(Argument::Local(bytes));
    }

    pub(crate) fn run(&self, program: &Program, kernel: &str) {
        self.run_by(program, kernel, u64::MAX);
    }

    /// Runs so many groups at once.
    pub(crate) fn run_by(&self, program: &Program, kernel: &str, step: u64) {
        let kernel = program.compile_for_grid(kernel, &self.grid).unwrap();
        let groups: u64 = self.grid.groups().iter().product();
        let mut next = 0;
        while next < groups {
            let end = groups.min(next.saturating_add(step));
            // SAFETY: the tests' kernels stay within their arguments, and run on this thread.
            unsafe { kernel.run(&self.grid, &self.arguments, next..end) }.unwrap();
            next = end;
        }
    }
}

/// The process's standard output meanwhile. The test is the only one there, so nothing else writes
/// to it.
#[cfg(unix)]
#[allow(dead_code)]
pub(crate) fn printed(run: impl FnOnce()) -> String {
    use std::io::{Read, Seek};
    use std::os::fd::AsRawFd;
    let mut file = tempfile::tempfile().unwrap();
    // SAFETY: descriptors of this process, of which none is used elsewhere meanwhile.
    let own = unsafe {
        libc::fflush(std::ptr::null_mut());
        let own = libc::dup(1);
        libc::dup2(file.as_raw_fd(), 1);
        own
    };
    // What it prints is there when it has run.
    run();
    // SAFETY: as above.
    unsafe {
        libc::dup2(own, 1);
        libc::close(own);
    }
    let mut text = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut text).unwrap();
    text.into_iter().map(char::from).collect()
}

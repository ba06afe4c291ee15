//! CUDA C through NVRTC, which needs no GPU to compile for one.

use std::ffi::{CString, c_char, c_void};
use std::ptr::null;

use libloading::Library;
use quipu_kernel_ir::Printed;

use crate::{TestingError, numbered};

/// Compiles printed CUDA C for a GPU of compute capability 8.0; false where there is no NVRTC to do it, which is said
/// loudly.
///
/// It is looked for as `QUIPU_NVRTC` says, and by its usual names.
///
/// # Errors
/// What the compiler says, with the source.
pub fn compile_cuda_or_skip(printed: &Printed) -> Result<bool, TestingError> {
    let named = std::env::var("QUIPU_NVRTC").ok();
    let usual = [
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
    ];
    let found = named.as_deref().into_iter().chain(usual).find_map(|name| {
        // SAFETY: loading the compiler runs its initialisers, which ask nothing of us.
        unsafe { Library::new(name) }.ok()
    });
    let Some(library) = found else {
        eprintln!(
            "\n*** NOT TESTED: CUDA C, as there is no NVRTC (set QUIPU_NVRTC to its library).\n"
        );
        return Ok(false);
    };
    type Object = *mut c_void;
    type Create = unsafe extern "C" fn(
        *mut Object,
        *const c_char,
        *const c_char,
        i32,
        *const *const c_char,
        *const *const c_char,
    ) -> i32;
    type Compile = unsafe extern "C" fn(Object, i32, *const *const c_char) -> i32;
    type LogSize = unsafe extern "C" fn(Object, *mut usize) -> i32;
    type Log = unsafe extern "C" fn(Object, *mut c_char) -> i32;
    type Destroy = unsafe extern "C" fn(*mut Object) -> i32;
    let text = |text: &str| {
        CString::new(text).map_err(|_| TestingError::Launch("a zero in a source".into()))
    };
    let source = text(&printed.source)?;
    let mut options = vec![text("--gpu-architecture=sm_80")?];
    for option in &printed.compiler_options {
        options.push(text(option)?);
    }
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: these are NVRTC's types of these functions; strings end with zero, the numbers of headers and options
    // are right, and the log has the length that was asked for.
    let (code, log) = unsafe {
        let create = library.get::<Create>(b"nvrtcCreateProgram\0")?;
        let compile = library.get::<Compile>(b"nvrtcCompileProgram\0")?;
        let log_size = library.get::<LogSize>(b"nvrtcGetProgramLogSize\0")?;
        let get_log = library.get::<Log>(b"nvrtcGetProgramLog\0")?;
        let destroy = library.get::<Destroy>(b"nvrtcDestroyProgram\0")?;
        create(&mut program, source.as_ptr(), null(), 0, null(), null());
        // Options are fewer than 2^31.
        let code = compile(program, pointers.len() as i32, pointers.as_ptr());
        let mut length = 0;
        log_size(program, &mut length);
        let mut log = vec![0_u8; length.max(1)];
        get_log(program, log.as_mut_ptr().cast());
        destroy(&mut program);
        (code, String::from_utf8_lossy(&log).into_owned())
    };
    if code == 0 {
        Ok(true)
    } else {
        Err(TestingError::Compiler {
            log: format!("{code}: {log}"),
            source_text: numbered(&printed.source),
        })
    }
}

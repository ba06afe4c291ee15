//! NVRTC, from where the system or the user (`QUIPU_NVRTC`) has it.

use super::{RawError, RawResult};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

type Object = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Object,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Object, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Object, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Object, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Object) -> c_int;

/// The usual names of the library.
const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
/// The place of a toolkit that the loader does not know.
const FOLDERS: [&str; 2] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
];

fn load() -> RawResult<Library> {
    let asked = std::env::var_os("QUIPU_NVRTC").filter(|asked| !asked.is_empty());
    let named = NAMES.iter().map(PathBuf::from);
    let in_folders = FOLDERS.iter().flat_map(|folder| {
        NAMES
            .iter()
            .map(move |name| PathBuf::from(folder).join(name))
    });
    let places: Vec<PathBuf> = match asked {
        Some(asked) => vec![asked.into()],
        None => named.chain(in_folders).collect(),
    };
    // SAFETY: loading the compiler runs its initialisers, which ask nothing of us.
    let found = places
        .iter()
        .find_map(|place| unsafe { Library::new(place) }.ok());
    found.ok_or_else(|| {
        RawError::Absent(
            "there is no NVRTC to compile the hand-written CUDA C; install CUDA's toolkit, or set QUIPU_NVRTC to the \
             library"
                .into(),
        )
    })
}

/// Machine code for a compute capability (90 for 9.0), compiled with NVRTC's defaults.
pub(super) fn compile(source: &str, capability: i32) -> RawResult<Vec<u8>> {
    let library = load()?;
    let text = |text: &str| {
        CString::new(text).map_err(|_| RawError::Compile("there is a zero in a text".into()))
    };
    let (source, option) = (
        text(source)?,
        text(&format!("--gpu-architecture=sm_{capability}"))?,
    );
    let unfit = |error: libloading::Error| RawError::Absent(format!("this is no NVRTC: {error}"));
    // SAFETY: these are NVRTC's types of these functions; strings end with zero, numbers of headers
    // and options are right, and texts have the length that was asked for.
    unsafe {
        let create = library
            .get::<Create>(b"nvrtcCreateProgram\0")
            .map_err(unfit)?;
        let compile = library
            .get::<Compile>(b"nvrtcCompileProgram\0")
            .map_err(unfit)?;
        let log_size = library
            .get::<Size>(b"nvrtcGetProgramLogSize\0")
            .map_err(unfit)?;
        let log = library
            .get::<Bytes>(b"nvrtcGetProgramLog\0")
            .map_err(unfit)?;
        let code_size = library.get::<Size>(b"nvrtcGetCUBINSize\0").map_err(unfit)?;
        let code = library.get::<Bytes>(b"nvrtcGetCUBIN\0").map_err(unfit)?;
        let destroy = library
            .get::<Destroy>(b"nvrtcDestroyProgram\0")
            .map_err(unfit)?;

        let mut program = null_mut();
        let made = create(&mut program, source.as_ptr(), null(), 0, null(), null());
        if made != 0 {
            return Err(RawError::Call {
                call: "nvrtcCreateProgram",
                code: made,
            });
        }
        let compiled = compile(program, 1, [option.as_ptr()].as_ptr());
        let get = |size: &Size, bytes: &Bytes| {
            let mut length = 0;
            size(program, &mut length);
            let mut text = vec![0_u8; length];
            bytes(program, text.as_mut_ptr().cast());
            text
        };
        let result = if compiled == 0 {
            Ok(get(&code_size, &code))
        } else {
            let log = get(&log_size, &log);
            let log = String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .to_owned();
            Err(RawError::Compile(format!("code {compiled}\n{log}")))
        };
        destroy(&mut program);
        result
    }
}

//! NVRTC, the compiler, of the system's or the user's installation.
//!
//! It is looked for as `QUIPU_NVRTC` says (a path, or a name), by its usual names, and in the usual
//! folders of CUDA's toolkit. It is loaded here and not by `cudarc`, which knows only names, and
//! ends the process if none is there.

use libloading::Library;
use quipu_environment::{Misused, NVRTC};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

type Object = *mut c_void;

/// The functions that are used.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    explain: unsafe extern "C" fn(c_int) -> *const c_char,
    architectures: unsafe extern "C" fn(*mut c_int) -> c_int,
    architecture_list: unsafe extern "C" fn(*mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Object,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Object) -> c_int,
    compile: unsafe extern "C" fn(Object, c_int, *const *const c_char) -> c_int,
    log: Get,
    ptx: Get,
    cubin: Get,
}

/// The two calls for a text: its size, then it.
struct Get {
    size: unsafe extern "C" fn(Object, *mut usize) -> c_int,
    bytes: unsafe extern "C" fn(Object, *mut c_char) -> c_int,
}

/// See the module.
pub(super) struct Nvrtc {
    functions: Functions,
    /// The version of the compiler, as `13.0`.
    pub(super) version: String,
    /// The architectures that it compiles for, as `90`.
    architectures: Vec<u32>,
    _library: Library,
}

/// The result of a compilation.
pub(super) struct Output {
    /// Code for `cuModuleLoadData`: machine code, or PTX that ends with a zero.
    pub(super) image: Vec<u8>,
    /// PTX, if the compiler has made any.
    pub(super) ptx: Vec<u8>,
    pub(super) log: String,
}

/// The reason for which there is no code.
pub(super) enum Problem {
    /// The text is wrong.
    Refused(String),
    /// Something else is.
    Failed(String),
}

impl Nvrtc {
    /// The process's.
    ///
    /// # Errors
    /// The places in which it was looked for.
    pub(super) fn get() -> Result<&'static Self, String> {
        static LOADED: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
        LOADED.get_or_init(load).as_ref().map_err(String::clone)
    }

    /// The option for the target of a compilation, and true if that is machine code.
    pub(super) fn target(&self, capability: u32) -> (String, bool) {
        let known = |architecture: &&u32| **architecture <= capability;
        match self.architectures.iter().filter(known).max() {
            Some(best) if *best < capability => {
                (format!("--gpu-architecture=compute_{best}"), false)
            }
            _ => (format!("--gpu-architecture=sm_{capability}"), true),
        }
    }

    /// Compiles a text.
    pub(super) fn compile(
        &self,
        source: &str,
        name: &str,
        options: &[String],
        is_machine_code: bool,
    ) -> Result<Output, Problem> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| Problem::Refused("a zero in the source".to_owned()))
        };
        let (source, name) = (text(source)?, text(name)?);
        let options = options.iter().map(|option| text(option));
        let options: Vec<CString> = options.collect::<Result<_, _>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let functions = &self.functions;
        let mut program = null_mut();
        // SAFETY: both texts end with a zero; there are no headers.
        let code = unsafe {
            (functions.create)(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                null(),
                null(),
            )
        };
        self.check("nvrtcCreateProgram", code)?;
        let program = Program {
            object: program,
            functions,
        };
        // SAFETY: as many options as said, which are fewer than 2^31, and end with a zero each.
        let code = unsafe {
            (functions.compile)(program.object, pointers.len() as c_int, pointers.as_ptr())
        };
        let log = program.get(&functions.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log)
            .trim_end_matches('\0')
            .trim_end()
            .to_owned();
        // NVRTC_ERROR_COMPILATION.
        if code == 6 {
            return Err(Problem::Refused(log));
        }
        self.check("nvrtcCompileProgram", code)?;
        let ptx = program.get(&functions.ptx).unwrap_or_default();
        let image = match is_machine_code {
            true => program.get(&functions.cubin).unwrap_or_default(),
            false => ptx.clone(),
        };
        if image.is_empty() {
            return Err(Problem::Failed("NVRTC gave no code".to_owned()));
        }
        Ok(Output { image, ptx, log })
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), Problem> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: gives a text that is always there.
        let why = unsafe { CStr::from_ptr((self.functions.explain)(code)) };
        let why = why.to_string_lossy();
        Err(Problem::Failed(format!("{call}: {why} ({code})")))
    }
}

/// A text in the compiler.
struct Program<'a> {
    object: Object,
    functions: &'a Functions,
}

impl Program<'_> {
    fn get(&self, what: &Get) -> Option<Vec<u8>> {
        let mut size = 0;
        // SAFETY: `self` owns the program, and the call writes one number into `size`.
        if unsafe { (what.size)(self.object, &raw mut size) } != 0 || size == 0 {
            return None;
        }
        let mut bytes = vec![0_u8; size];
        // SAFETY: as many bytes as it said.
        let code = unsafe { (what.bytes)(self.object, bytes.as_mut_ptr().cast()) };
        (code == 0).then_some(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { (self.functions.destroy)(&raw mut self.object) };
    }
}

/// The folder in which a toolkit keeps the libraries of this processor.
const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "targets/sbsa-linux/lib"
} else {
    "targets/x86_64-linux/lib"
};

/// The toolkits where they are installed by default: the one that is chosen, then the others, the
/// newest first.
fn installed() -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir("/usr/local")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((version_of(path.file_name()?.to_str()?)?, path))
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    let versions = versions.into_iter().map(|(_, path)| path);
    std::iter::once("/usr/local/cuda".into())
        .chain(versions)
        .collect()
}

/// The version in a toolkit's folder's name, such as `cuda-12.10`.
fn version_of(folder: &str) -> Option<Vec<u32>> {
    let version = folder.strip_prefix("cuda-")?;
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// The places in which the library may be.
fn places() -> Result<Vec<PathBuf>, Misused> {
    let names = [
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
    ];
    if let Some(said) = NVRTC.get()? {
        return Ok(vec![said]);
    }
    let mut places: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from);
    for toolkit in toolkits.chain(installed()) {
        for folder in ["lib64", TARGET] {
            let folder = toolkit.join(folder);
            places.extend(names.iter().map(|name| folder.join(name)));
        }
    }
    Ok(places)
}

fn load() -> Result<Nvrtc, String> {
    let places = places().map_err(|misused| misused.to_string())?;
    for place in &places {
        // SAFETY: loading the compiler runs its initialisers, which ask nothing of us.
        let Ok(library) = (unsafe { Library::new(place) }) else {
            continue;
        };
        return begin(library)
            .map_err(|error| format!("{} is not NVRTC: {error}", place.display()));
    }
    let first: Vec<_> = places
        .iter()
        .take(4)
        .map(|place| place.display().to_string())
        .collect();
    Err(format!(
        "there is no NVRTC, which compiles kernels (looked for {}, and in CUDA's folders); install CUDA's toolkit, or \
         set QUIPU_NVRTC to the library",
        first.join(", ")
    ))
}

fn begin(library: Library) -> Result<Nvrtc, libloading::Error> {
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: these are NVRTC's types of these functions, and the library stays loaded.
            unsafe { *library.get(concat!($name, "\0").as_bytes())? }
        };
    }
    let functions = Functions {
        version: function!("nvrtcVersion"),
        explain: function!("nvrtcGetErrorString"),
        architectures: function!("nvrtcGetNumSupportedArchs"),
        architecture_list: function!("nvrtcGetSupportedArchs"),
        create: function!("nvrtcCreateProgram"),
        destroy: function!("nvrtcDestroyProgram"),
        compile: function!("nvrtcCompileProgram"),
        log: Get {
            size: function!("nvrtcGetProgramLogSize"),
            bytes: function!("nvrtcGetProgramLog"),
        },
        ptx: Get {
            size: function!("nvrtcGetPTXSize"),
            bytes: function!("nvrtcGetPTX"),
        },
        cubin: Get {
            size: function!("nvrtcGetCUBINSize"),
            bytes: function!("nvrtcGetCUBIN"),
        },
    };
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: the functions have these types in NVRTC. They write one number into each local
    // variable.
    unsafe {
        (functions.version)(&raw mut major, &raw mut minor);
        (functions.architectures)(&raw mut count);
    }
    let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
    if !list.is_empty() {
        // SAFETY: as many numbers as it said.
        unsafe { (functions.architecture_list)(list.as_mut_ptr()) };
    }
    let architectures = list.into_iter().filter_map(|one| u32::try_from(one).ok());
    Ok(Nvrtc {
        version: format!("{major}.{minor}"),
        architectures: architectures.collect(),
        functions,
        _library: library,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_toolkits_are_read_as_numbers() {
        let newer = version_of("cuda-12.10");
        assert_eq!(newer, Some(vec![12, 10]));
        assert!(newer > version_of("cuda-12.9"));
        for other in ["cuda", "cuda-", "cuda-samples", "cuda-12.x"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_refused_is_explained_with_the_users_line() {
        let nvrtc = match Nvrtc::get() {
            Ok(nvrtc) => nvrtc,
            Err(why) => {
                let is_there = std::env::var("QUIPU_TEST_CUDA").is_ok();
                assert!(!is_there, "QUIPU_TEST_CUDA is set: {why}");
                eprintln!("\n*** NOT TESTED: what NVRTC refuses. {why}\n");
                return;
            }
        };
        let text =
            "extern \"C\" __global__ void k(int* x) {\n#line 41 \"user.rs\"\n  *x = nothing;\n}\n";
        let Err(Problem::Refused(log)) = nvrtc.compile(text, "k.cu", &[], false) else {
            panic!("it is compiled");
        };
        assert!(
            log.contains("user.rs(41)") && log.contains("nothing"),
            "{log}"
        );
        let error = quipu_device_queue::error::refused("a device", "k", &log).to_string();
        assert!(error.contains("user.rs(41)"), "{error}");
    }
}

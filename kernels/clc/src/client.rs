//! The compiler for the rest of the program: starts its process, and keeps its results on disk.

use crate::child;
use crate::compiler::tools::{self, MISSING, NO_TRANSLATOR, Tools};
use crate::compiler::{
    Answer, Asked, MOST_BYTES, Output, Reading, Request, Scratch, clang_for, receive, send,
    text_for,
};
use crate::metadata::{KernelInfo, Layout};
use crate::spirv::SpirV;
use quipu_device_queue::disk::{self, Key};
use quipu_environment::CLC;
use std::ffi::OsString;
#[cfg(unix)]
use std::ffi::{CStr, OsStr, c_void};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason for which OpenCL C is not compiled, or does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClcError {
    /// The machine has no LLVM, or none that is known.
    #[error("{}", MISSING)]
    Missing,
    /// The machine has no translator of SPIR-V, or none whose output the machine's LLVM reads.
    #[error("{}", NO_TRANSLATOR)]
    NoTranslator,
    /// The compiler's own program is not found.
    #[error(
        "the compiler's program is not found; put `quipu` or `quipu-clc` beside this program, beside Quipu's library or into PATH, \
         or name it in QUIPU_CLC"
    )]
    NoCompiler,
    /// The text is at fault: clang's messages on it.
    #[error("{0}")]
    Refused(String),
    /// An option is none that is taken.
    #[error(
        "option '{0}' is not taken; OpenCL's own are: -D NAME, -D NAME=VALUE, -I FOLDER, -cl-…, -w, -W…, -Werror, -O0 to -O3, -g"
    )]
    Option(String),
    /// The program has no such kernel.
    #[error("the program has no kernel '{name}'; {}", kernels_there(there))]
    NoKernel {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        there: Vec<String>,
    },
    /// A launch is not what the kernel takes.
    #[error("{0}")]
    Launch(String),
    /// The compiler has failed: it crashed, or took more time or memory than it may.
    #[error("the compiler failed: {0}")]
    Failed(String),
}

impl ClcError {
    /// True if the text or an option is at fault, for this machine's compiler: another may take
    /// them.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Option(_))
    }
}

/// The kernels of a program, for whoever asked for one that is not there.
#[must_use]
pub fn kernels_there<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [] => "no function in it is declared `kernel void NAME(…)`".to_owned(),
        _ => format!("it has: {}", names.join(", ")),
    }
}

static COMPILER: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Says which program is the compiler, and with which arguments: one that calls
/// [`serve_compiler`](crate::serve_compiler). The first call counts.
pub fn set_compiler(program: PathBuf, arguments: Vec<OsString>) {
    let _ = COMPILER.set((program, arguments));
}

/// Seconds of a processor's time that the compiler's process may take, and each program that it
/// starts. Large programs whose kernels are all inlined take minutes.
static MOST_SECONDS: AtomicU64 = AtomicU64::new(15 * 60);

/// Says how many seconds of a processor's time the compiler's process may take for each compilation
/// from now on, and each program that it starts: for those who compile the texts of others. Without
/// it they are 900.
pub fn limit_compiler(seconds: u64) {
    MOST_SECONDS.store(seconds, Ordering::Relaxed);
}

/// The folder in which compiled programs are kept, if they are.
fn cache_folder() -> Option<PathBuf> {
    disk::folder("clc").ok().flatten()
}

/// The compiler's program, if it is found: a process that compiles has to be able to read and run
/// it.
#[must_use]
pub fn compiler_program() -> Option<&'static Path> {
    compiler().map(|(program, _)| program.as_path())
}

/// True if the machine has what it takes to compile.
#[must_use]
pub fn is_available() -> bool {
    tools().is_some() && compiler().is_some()
}

/// The version of LLVM that compiles on this machine, if there is one. Bitcode is of one version.
#[must_use]
pub fn llvm_version() -> Option<u32> {
    tools().map(|tools| tools.version)
}

/// True if the machine has what it takes to compile SPIR-V.
#[must_use]
pub fn takes_spirv() -> bool {
    tools().is_some_and(|tools| tools.translator.is_some()) && compiler().is_some()
}

/// True if this machine's processor makes numbers of 16 bits of those of 32 bits, and back:
/// arithmetic of `half` needs that.
#[must_use]
pub fn has_half() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// The machine's LLVM.
fn tools() -> Option<&'static Tools> {
    static TOOLS: OnceLock<Option<Tools>> = OnceLock::new();
    TOOLS.get_or_init(tools::find).as_ref()
}

/// The compiler's program, and what it is started with.
fn compiler() -> Option<&'static (PathBuf, Vec<OsString>)> {
    static FOUND: OnceLock<Option<(PathBuf, Vec<OsString>)>> = OnceLock::new();
    COMPILER.get().or_else(|| FOUND.get_or_init(found).as_ref())
}

/// Looks for the compiler's program.
fn found() -> Option<(PathBuf, Vec<OsString>)> {
    if let Some(named) = CLC.get().ok().flatten() {
        let arguments = with_subcommand(&named);
        return Some((named, arguments));
    }
    let own = std::env::current_exe().ok();
    // Tests and examples are in folders within that of programs.
    let beside = own.iter().flat_map(|own| own.ancestors().skip(1).take(2));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = beside
        .map(Path::to_owned)
        .chain(own_file().iter().flat_map(|own| near(own)))
        .chain(std::env::split_paths(&path))
        .collect();
    let found = folders
        .iter()
        .flat_map(|folder| ["quipu-clc", "quipu"].map(|name| folder.join(name)))
        .find(|path| path.is_file())?;
    let arguments = with_subcommand(&found);
    Some((found, arguments))
}

/// The file that this code is in: the program, or a library that it has loaded.
#[cfg(unix)]
fn own_file() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let code: fn() -> Option<PathBuf> = own_file;
    let mut about = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: an address of code, which is only looked up, and room for the answer.
    let is_known = unsafe { libc::dladdr(code as *const c_void, about.as_mut_ptr()) } != 0;
    // SAFETY: zeros are an answer, too.
    let name = unsafe { about.assume_init() }.dli_fname;
    if !is_known || name.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a zero, and lasts while the code is loaded.
    let name = unsafe { CStr::from_ptr(name) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    // The program itself is named as it was started, which may be a name in PATH.
    path.is_absolute().then(|| path.canonicalize().ok())?
}

#[cfg(not(unix))]
fn own_file() -> Option<PathBuf> {
    None
}

/// The folders of programs that are installed, or built, with a library: beside it, around it
/// (`target/debug/deps`), or `bin` where it is in `lib` or a folder there.
fn near(library: &Path) -> Vec<PathBuf> {
    let mut around = library.ancestors().skip(1);
    let (own, outer, outermost) = (around.next(), around.next(), around.next());
    let beside = [own, outer].into_iter().flatten().map(Path::to_owned);
    let installed = [outer, outermost].into_iter().flatten();
    beside
        .chain(installed.map(|folder| folder.join("bin")))
        .collect()
}

fn with_subcommand(program: &Path) -> Vec<OsString> {
    match program.file_stem() {
        Some(name) if name == "quipu" => vec!["clc".into()],
        _ => Vec::new(),
    }
}

/// The identity of everything that compiled programs depend on beside their text: the compiler,
/// this program, the processor.
fn identity(tools: &Tools) -> &'static str {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let about = |path: &Path| {
            let about = std::fs::metadata(path).ok();
            about.map(|about| (about.len(), about.modified().ok()))
        };
        let own = compiler()
            .map(|(program, _)| program.clone())
            .unwrap_or_default();
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor: Vec<&str> = processor
            .lines()
            .take_while(|line| !line.is_empty())
            .filter(|line| {
                ["model name", "flags", "Features", "isa"]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .collect();
        format!(
            "{} {tools:?} {:?} {:?} {:?} {:?} {processor:?}",
            env!("CARGO_PKG_VERSION"),
            about(&own),
            about(&tools.clang),
            about(&tools.llvm),
            tools.translator.as_deref().map(about),
        )
    })
}

/// The compiler's description of a program.
pub(crate) struct Described {
    pub(crate) kernels: Vec<KernelInfo>,
    pub(crate) variable_bytes: u64,
    pub(crate) bitcode: Vec<u8>,
    /// Warnings, as clang prints them.
    pub(crate) warnings: String,
}

impl Described {
    fn of((answer, bitcode): (Answer, Vec<u8>)) -> Result<Self, ClcError> {
        match answer {
            Answer::Described {
                kernels,
                variable_bytes,
                warnings,
            } => Ok(Self {
                kernels,
                variable_bytes,
                bitcode,
                warnings,
            }),
            _ => Err(unexpected()),
        }
    }
}

/// The compiler's description of a text.
pub(crate) fn describe(
    source: &str,
    options: &[String],
    reading: Reading,
) -> Result<Described, ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let whole = || match is_whole(source) {
        true => Some(source.to_owned()),
        false => preprocessed(tools, source, None, options),
    };
    let said = format!("{options:?} {reading:?}");
    let key = || whole().map(|text| Key::new(identity(tools), &said, text));
    let request = Request::Describe {
        tools: tools.clone(),
        source: source.to_owned(),
        options: options.to_vec(),
        library: cache_folder(),
        reading,
    };
    Described::of(ask_unchanged(key, &request)?)
}

/// The bitcode of a text that is to be linked with others, and warnings. The headers are files that
/// it may include, by their names.
pub(crate) fn unit(
    source: &str,
    options: &[String],
    headers: &[(String, String)],
) -> Result<(Vec<u8>, String), ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let said = format!("unit {options:?} {headers:?}");
    let folder = match headers.is_empty() {
        true => None,
        false => Some(with_headers(&text_for(source, options), headers)?),
    };
    let place = folder.as_ref().map(|folder| folder.path());
    let file = place.map(|place| place.join(TEXT));
    let mut options = options.to_vec();
    if let Some(place) = place {
        let headers = place.join(HEADERS);
        let headers = headers.display();
        // They are looked for first, whatever the working folder has.
        let folders = [
            format!("-iquote{headers}"),
            "-iquote.".to_owned(),
            format!("-I{headers}"),
        ];
        options.splice(0..0, folders);
    }
    let whole = || match is_whole(source) {
        true => Some(source.to_owned()),
        false => preprocessed(tools, source, file.as_deref(), &options),
    };
    let key = || {
        // Where the headers lie for the moment makes no difference.
        let text = whole().map(|text| match place {
            Some(place) => text.replace(&place.display().to_string(), ""),
            None => text,
        });
        text.map(|text| Key::new(identity(tools), &said, text))
    };
    let request = Request::Unit {
        tools: tools.clone(),
        source: source.to_owned(),
        file: file.clone(),
        options: options.clone(),
    };
    as_unit(ask_unchanged(key, &request)?)
}

/// The name of a text in a folder with its headers: one that no text includes.
const TEXT: &str = "text/of the program";
/// The folder of its headers there.
const HEADERS: &str = "headers";

/// A folder with a text and the headers that it may include, by their names. The text is in a file
/// of its own, because the compiler looks for files in the folder of a text first.
fn with_headers(text: &str, headers: &[(String, String)]) -> Result<Scratch, ClcError> {
    let failed = |error: std::io::Error| ClcError::Failed(error.to_string());
    let folder = Scratch::new().map_err(failed)?;
    let put = |name: &Path, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder.path())).map_err(failed)?;
        std::fs::write(path, text).map_err(failed)
    };
    put(Path::new(TEXT), text)?;
    for (name, text) in headers {
        let mut parts = Path::new(name).components();
        if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(ClcError::Refused(format!(
                "header '{name}': its name leads elsewhere; use a name as in #include \"folder/name.h\""
            )));
        }
        put(&Path::new(HEADERS).join(name), text)?;
    }
    Ok(folder)
}

/// The bitcode of a module of SPIR-V, and warnings.
pub(crate) fn translated(module: &SpirV) -> Result<(Vec<u8>, String), ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    tools.translator.as_ref().ok_or(ClcError::NoTranslator)?;
    let module = module.lowered()?;
    let request = Request::Translate {
        tools: tools.clone(),
    };
    let key = Key::new(identity(tools), "translate", &module);
    as_unit(ask(Some(&key), &request, &module)?)
}

/// The bitcode of several texts as that of one.
pub(crate) fn link(units: &[&[u8]]) -> Result<Vec<u8>, ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let lengths: Vec<usize> = units.iter().map(|unit| unit.len()).collect();
    let bytes = units.concat();
    let key = Key::new(identity(tools), &format!("link {lengths:?}"), &bytes);
    let request = Request::Link {
        tools: tools.clone(),
        lengths,
    };
    as_unit(ask(Some(&key), &request, &bytes)?).map(|(bitcode, _)| bitcode)
}

fn as_unit(answer: (Answer, Vec<u8>)) -> Result<(Vec<u8>, String), ClcError> {
    match answer {
        (Answer::Unit { warnings }, bitcode) => Ok((bitcode, warnings)),
        _ => Err(unexpected()),
    }
}

/// The description that [`describe`] gives, for a program that is bitcode.
pub(crate) fn read(bitcode: &[u8], reading: Reading) -> Result<Described, ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let request = Request::Read {
        tools: tools.clone(),
        library: cache_folder(),
        reading,
    };
    let key = Key::new(identity(tools), &format!("read {reading:?}"), bitcode);
    Described::of(ask(Some(&key), &request, bitcode)?)
}

/// The shared object with the variables that the kernels of a program share.
pub(crate) fn variables(bitcode: &[u8]) -> Result<Vec<u8>, ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let request = Request::Variables {
        tools: tools.clone(),
    };
    let key = Key::new(identity(tools), "variables", bitcode);
    match ask(Some(&key), &request, bitcode)? {
        (Answer::Variables, object) => Ok(object),
        _ => Err(unexpected()),
    }
}

/// A kernel's shared object, or what else of it is wanted.
pub(crate) fn compile(
    bitcode: &[u8],
    kernel: &str,
    local_size: Option<[u32; 3]>,
    output: Output,
) -> Result<(Layout, Vec<u8>), ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let what = format!("{kernel} {local_size:?} {output:?}");
    let key = Key::new(identity(tools), &what, bitcode);
    let request = Request::Compile {
        tools: tools.clone(),
        kernel: kernel.to_owned(),
        local_size,
        output,
    };
    match ask(Some(&key), &request, bitcode)? {
        (Answer::Compiled(layout), bytes) => Ok((layout, bytes)),
        _ => Err(unexpected()),
    }
}

/// The PTX of a kernel for devices of a compute capability, such as 90. The parameters of these
/// numbers are images.
pub(crate) fn ptx(
    bitcode: &[u8],
    kernel: &str,
    capability: u32,
    images: Vec<usize>,
) -> Result<Vec<u8>, ClcError> {
    let tools = tools().ok_or(ClcError::Missing)?;
    let what = format!("ptx {kernel} {capability}");
    let key = Key::new(identity(tools), &what, bitcode);
    let request = Request::Ptx {
        tools: tools.clone(),
        kernel: kernel.to_owned(),
        capability,
        images,
        library: cache_folder(),
    };
    match ask(Some(&key), &request, bitcode)? {
        (Answer::Ptx, text) => Ok(text),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> ClcError {
    ClcError::Failed("its answer is none; is it of another version?".to_owned())
}

/// True if a text depends on no file.
pub(crate) fn is_whole(source: &str) -> bool {
    let joined = source.replace("\\\r\n", "").replace("\\\n", "");
    // A directive's name stands in the text as it is, whatever macros there are.
    !["include", "import", "embed"]
        .iter()
        .any(|name| joined.contains(name))
}

/// A text with all that the compiler will include; none if there is an error in it, which the
/// compiler then tells of. The text is in a file, or is `source`.
fn preprocessed(
    tools: &Tools,
    source: &str,
    file: Option<&Path>,
    options: &[String],
) -> Option<String> {
    let mut command = clang_for(tools, options);
    command
        .args(["-E", "-w", "-o", "-"])
        .arg(file.unwrap_or(Path::new("-")));
    let output = child::run(command, text_for(source, options).as_bytes()).ok()?;
    (!output.has_failed()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The compiler's answer to a request: from disk if it was asked before with the key. Without one
/// nothing is kept.
fn ask(key: Option<&Key>, request: &Request, bytes: &[u8]) -> Result<(Answer, Vec<u8>), ClcError> {
    ask_and_keep(key, request, bytes, || true)
}

/// The compiler's answer to a request about a text. The compiler reads the files that the text
/// includes after `key` has read them, so the answer is kept only if they still have the same key
/// then.
fn ask_unchanged(
    key: impl Fn() -> Option<Key>,
    request: &Request,
) -> Result<(Answer, Vec<u8>), ClcError> {
    let first = key();
    ask_and_keep(first.as_ref(), request, &[], || key() == first)
}

/// As [`ask`]; the answer is kept if `is_right` says so afterwards.
fn ask_and_keep(
    key: Option<&Key>,
    request: &Request,
    bytes: &[u8],
    is_right: impl FnOnce() -> bool,
) -> Result<(Answer, Vec<u8>), ClcError> {
    let kept = key.and_then(|key| Some((cache_folder()?, key)));
    if let Some((folder, key)) = &kept
        && let Some(kept) = disk::load(folder, key)
        && let Some((answer, bytes)) = receive::<Answer>(&kept)
    {
        return Ok((answer, bytes.to_vec()));
    }
    let (program, arguments) = compiler().ok_or(ClcError::NoCompiler)?;
    let (mut message, seconds) = (Vec::new(), MOST_SECONDS.load(Ordering::Relaxed));
    let ended = |text: &dyn std::fmt::Display| {
        ClcError::Failed(format!(
            "{text}; it may take {seconds} s of a processor's time, and {} GiB of memory",
            MOST_BYTES >> 30
        ))
    };
    let asked = Asked { seconds, request };
    send(&mut message, &asked, bytes).map_err(|error| ClcError::Failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    let output = child::run(command, &message)
        .map_err(|error| ClcError::Failed(format!("{}: {error}", program.display())))?;
    let answer = receive::<Answer>(&output.stdout).filter(|_| !output.has_failed());
    let Some((answer, bytes)) = answer else {
        return Err(ended(&output));
    };
    match answer {
        Answer::Ended(text) => return Err(ended(&text)),
        Answer::Refused(text) => return Err(ClcError::Refused(text)),
        Answer::Failed(text) => return Err(ClcError::Failed(text)),
        _ => {}
    }
    let kept = kept.filter(|_| is_right());
    if let Some(Err(error)) = kept.map(|(folder, key)| disk::store(&folder, key, &output.stdout)) {
        tracing::debug!(%error, "a compiled program is not kept");
    }
    Ok((answer, bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_looked_for_near_the_library() {
        let installed = near(Path::new("/usr/lib/quipu/libquipu_opencl.so"));
        let folders = ["/usr/lib/quipu", "/usr/lib", "/usr/lib/bin", "/usr/bin"];
        assert_eq!(installed, folders.map(PathBuf::from));
        // The program is known as it was started.
        let started = std::env::args_os().next().map(PathBuf::from).unwrap();
        let own = started
            .is_absolute()
            .then(|| started.canonicalize().unwrap());
        assert_eq!(own_file(), own);
        assert_eq!(
            near(Path::new("/l.so")),
            ["/", "/bin"].map(PathBuf::from)[..1]
        );
    }

    #[test]
    fn what_may_read_a_file_is_told_by_its_text() {
        assert!(is_whole("kernel void k(global int *x) { x[0] = 1; }"));
        for text in [
            "#include <a.h>",
            "# inc\\\nlude \"a.h\"",
            "#import \"a.h\"",
            "int x[] = {\n#embed \"a\"\n};",
            "#if __has_include(\"a.h\")\n#endif",
        ] {
            assert!(!is_whole(text), "{text}");
        }
    }
}

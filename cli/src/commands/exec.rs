//! `quipu exec`: runs another program with Quipu as its OpenCL.
//!
//! The program takes this process's place, unless a table is to be printed at its end. It finds our
//! library in one of two ways:
//!
//! * A loader, the system's or one that the program brings, is told of a folder that names our
//!   library alone (`OCL_ICD_VENDORS`). Other platforms are then not seen by the program. Their
//!   devices are ours: our library is told where they are listed.
//! * On a machine without a loader, or with one that may look elsewhere, too, the library takes the
//!   loader's place: the folder has it under the loader's name ([`loader`](loader::loader)), and
//!   the system's linker looks there first (`LD_LIBRARY_PATH`).

mod loader;

use crate::error::CommandError;
use quipu::drivers::remote::paired;
use quipu_cli::timeline;
use quipu_environment::{CLC, NODES, OPENCL_DEVICES, OPENCL_VENDORS};
use quipu_link::nodes::Node;
use quipu_scheduler::hash;
use quipu_scheduler::said::say;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The command's options.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quipu exec -- clinfo
  quipu exec -- python3 program.py
  quipu exec --node gpu-box -- ./program
  quipu exec --profile -- ./program
Devices are named as `quipu devices` names them (cpu:0, gpu-box/opencl:0). A driver (opencl) or a node (gpu-box) means those of its \
devices that run OpenCL C.")]
pub(crate) struct Options {
    /// The program sees the devices of this paired node that run OpenCL C, and no others; can be
    /// given several times.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,

    /// The program sees this device, also one of a paired node, and no others; can be given several
    /// times. Without it: all that run OpenCL C.
    #[arg(long = "device", value_name = "NAME")]
    devices: Vec<String>,

    /// Record each command with its device and its time in this file; `quipu trace` shows it.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// When the program has ended, print a table of times and bytes: kernels and transfers by
    /// device.
    #[arg(long)]
    profile: bool,

    /// Print the library's file, and the way in which the program finds it.
    #[arg(long)]
    verbose: bool,

    /// The program, with its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The library's file.
const LIBRARY: &str = "libquipu_opencl.so";
/// The loader's name, as programs are linked with it.
const LOADER: &str = "libOpenCL.so.1";

/// The variable with the path at which `cl3` looks for the loader, if it is set.
const CL3_LOADER: &str = "OPENCL_DYLIB_PATH";

/// A reason for which a program is not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    #[error(
        "{LIBRARY} is not found beside {}; build it with \"cargo build --release -p quipu-opencl\"", beside.display()
    )]
    NoLibrary { beside: PathBuf },
    #[error(
        "{} is not a folder of yours alone; remove it, or have QUIPU_CACHE name a folder of yours", path.display()
    )]
    NotOwn { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "cannot make a folder for the trace in {}: {source}; have TMPDIR name a folder of yours, or say --trace FILE", path.display()
    )]
    TraceFolder { path: PathBuf, source: io::Error },
    #[error("cannot tell how {} has ended: {source}", program.display())]
    Wait { program: PathBuf, source: io::Error },
    #[error("cannot run {}: {source}", program.display())]
    Run { program: PathBuf, source: io::Error },
}

/// Runs the program. Comes back only if that fails.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let own = std::env::current_exe().map_err(CommandError::OwnProgram)?;
    let library = library(&own)?;
    let folder = folder(&library)?;
    let [program, arguments @ ..] = &options.program[..] else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    // A program that is run so may run another: then ours is in the loader's place already.
    let is_other = |loader: &PathBuf| loader.canonicalize().is_ok_and(|loader| loader != library);
    let loader = loader_of_system().filter(is_other);
    let has_loader = loader.as_deref().is_some_and(is_obedient);
    command
        .env("OCL_ICD_VENDORS", &folder)
        // Lists of further libraries, in loaders of other makes.
        .env_remove("OCL_ICD_FILENAMES")
        .env_remove("OPENCL_VENDOR_PATH");
    if !has_loader {
        let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", first_of(&others, &folder));
        // Our library reaches other platforms by way of a loader, which is not to be itself.
        if let Some(loader) = loader
            && std::env::var_os(CL3_LOADER).is_none()
        {
            command.env(CL3_LOADER, loader);
        }
    }
    if matches!(OPENCL_VENDORS.get(), Ok(None))
        && let Some(vendors) = vendors()
    {
        command.env(OPENCL_VENDORS.name(), vendors);
    }
    if CLC.get().ok().flatten().is_none() {
        command.env(CLC.name(), &own);
    }
    if let Some(nodes) = nodes(options)? {
        command.env(NODES.name(), nodes.join(","));
    }
    let devices = match (&options.devices[..], options.nodes.is_empty()) {
        ([], true) => None,
        ([], false) => Some("remote".to_owned()),
        (names, _) => Some(names.join(",")),
    };
    if let Some(devices) = devices {
        command.env(OPENCL_DEVICES.name(), devices);
    }
    let passing = match (&options.trace, options.profile) {
        (None, true) => Some(trace_folder(&std::env::temp_dir())?),
        _ => None,
    };
    let trace = match &passing {
        Some(folder) => Some(folder.path().join("trace.json")),
        None => options.trace.clone(),
    };
    let trace = trace.map(absolute);
    if let Some(trace) = &trace {
        command.env(quipu_environment::TRACE.name(), trace);
    }
    if options.verbose {
        let found_by = match has_loader {
            true => "the system's loader",
            false => "the system's linker, in place of a loader",
        };
        say(format_args!("{}, found by {found_by}", library.display()));
    }
    if let Some(trace) = trace.filter(|_| options.profile) {
        return profile(command, &trace, passing);
    }
    let source = command.exec();
    let program = program.into();
    Err(ExecError::Run { program, source }.into())
}

/// A path that means the same to the program, which may change its folder before it is used.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Makes a folder of this user's alone, for a trace that the user has given no name.
fn trace_folder(of_all: &Path) -> Result<tempfile::TempDir, ExecError> {
    tempfile::tempdir_in(of_all).map_err(|source| ExecError::TraceFolder {
        path: of_all.to_owned(),
        source,
    })
}

/// The node of a device's name, if it is that of a node's device: `lab/cpu:0`, or the name of a
/// node that this machine is paired with. A name of a device may have a `/` itself, as those of
/// some processors.
fn node_of<'n>(device: &'n str, paired: &[Node]) -> Option<&'n str> {
    let is_paired = |name: &str| paired.iter().any(|node| node.name == name);
    match device.rsplit_once('/') {
        Some((node, own)) => (is_paired(node) || !own.contains(' ')).then_some(node),
        None => is_paired(device).then_some(device),
    }
}

/// The nodes to connect to, if the options name any: by `--node`, or as the machine of a
/// `--device`.
fn nodes(options: &Options) -> Result<Option<Vec<String>>, CommandError> {
    let paired = paired::all().unwrap_or_default();
    let names = options.nodes.iter().map(String::as_str);
    let of_devices = options.devices.iter().map(String::as_str);
    let of_devices = of_devices.filter_map(|device| node_of(device, &paired));
    let names: Vec<&str> = names.chain(of_devices).collect();
    if names.is_empty() {
        return Ok(None);
    }
    // Says which are known, if one is not. One may be named by its address, too.
    let mut nodes: Vec<String> = Vec::new();
    for node in paired::find(&names).map_err(CommandError::Node)? {
        if !nodes.contains(&node.name) {
            nodes.push(node.name);
        }
    }
    if options.nodes.is_empty() {
        // A device may be named without its machine.
        let (asked, _) = paired::asked_for().unwrap_or_default();
        for node in asked {
            if !nodes.contains(&node.name) {
                nodes.push(node.name);
            }
        }
    }
    Ok(Some(nodes))
}

/// Runs the program as a child, prints the table of its trace, and ends as it has ended.
fn profile(
    mut command: Command,
    trace: &Path,
    passing: Option<tempfile::TempDir>,
) -> Result<(), CommandError> {
    let program = PathBuf::from(command.get_program());
    let child = command.spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(source) => return Err(ExecError::Run { program, source }.into()),
    };
    // An interrupt from the terminal ends the program and not this process, which prints the table
    // then. SAFETY: signals that there are, and the system's own way of ignoring them.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGQUIT, libc::SIG_IGN);
    }
    let status = child.wait();
    let status = status.map_err(|source| ExecError::Wait { program, source })?;
    let read = match trace.exists() {
        true => super::trace::read(trace).map(Some),
        // It has not used OpenCL.
        false => Ok(None),
    };
    // This process ends without dropping it.
    drop(passing);
    match read? {
        Some(trace) => say(format_args!("\n{}", timeline::by_name(&trace).trim_end())),
        None => say("\nThe program ran no commands of OpenCL's."),
    }
    let signal = || 128 + status.signal().unwrap_or(0);
    std::process::exit(status.code().unwrap_or_else(signal));
}

/// Finds the library: beside this program, where it is installed, or where it was built.
fn library(own: &Path) -> Result<PathBuf, ExecError> {
    let folder = own.parent().unwrap_or(Path::new("."));
    let places = ["", "deps", "../lib", "../lib/quipu"];
    let mut places = places.iter().map(|place| folder.join(place).join(LIBRARY));
    let found = places.find(|place| place.is_file());
    let found = found.ok_or_else(|| ExecError::NoLibrary {
        beside: own.to_owned(),
    })?;
    Ok(found.canonicalize().unwrap_or(found))
}

/// The file of the system's loader, if it has one.
fn loader_of_system() -> Option<PathBuf> {
    // SAFETY: loaders have initialisers that read their own variables, and nothing else.
    let loader = unsafe { libloading::Library::new(LOADER) }.ok()?;
    // SAFETY: it is not called.
    let function = unsafe { loader.get::<unsafe extern "C" fn()>(c"clGetPlatformIDs") }.ok()?;
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address lies in a loaded library. `found` has room for the answer, and zeros are
    // a valid `Dl_info`.
    let found = unsafe {
        libc::dladdr(*function as *const libc::c_void, found.as_mut_ptr());
        found.assume_init()
    };
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the library's name, which ends with a zero and is there as long as the library.
    let name = unsafe { std::ffi::CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// True if a loader looks where `OCL_ICD_VENDORS` says, and nowhere else. Those that do know this
/// function's name. Older ones, as that of CUDA's, look at the system's list, too.
fn is_obedient(loader: &Path) -> bool {
    let name = b"clGetICDLoaderInfoOCLICD";
    fs::read(loader).is_ok_and(|bytes| bytes.windows(name.len()).any(|part| part == name))
}

/// The folder in which the loader would find other platforms: their devices are ours, too.
fn vendors() -> Option<PathBuf> {
    let told = std::env::var_os("OCL_ICD_VENDORS").map(PathBuf::from);
    let vendors = told.unwrap_or_else(|| PathBuf::from("/etc/OpenCL/vendors"));
    vendors.exists().then(|| absolute(vendors))
}

/// A list of folders that begins with this one.
fn first_of(others: &OsStr, folder: &Path) -> OsString {
    let others = std::env::split_paths(others).filter(|other| !other.as_os_str().is_empty());
    let all = std::iter::once(folder.to_owned()).chain(others);
    std::env::join_paths(all).unwrap_or_else(|_| folder.into())
}

/// A folder that names the library for loaders, and has it under a loader's name. It is the user's
/// own, and stays: a program may start others after this one has ended.
fn folder(library: &Path) -> Result<PathBuf, ExecError> {
    // A cache that is off keeps no compiled code, and the program needs the library nevertheless.
    let root = quipu_environment::cache_root().ok().flatten();
    let base = match root.or_else(quipu_environment::user_cache_root) {
        Some(root) => root,
        None => own_folder(&std::env::temp_dir())?,
    };
    let base = absolute(base);
    // One for each library: programs that are running go on with theirs.
    let hash = hash::of_bytes(library.as_os_str().as_encoded_bytes());
    let folder = base.join("opencl").join(format!("{hash:032x}"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ExecError::Write { path, source }
    };
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let list = folder.join("quipu.icd");
    let mut line = library.as_os_str().to_owned();
    line.push("\n");
    if fs::read(&list).ok().as_deref() != Some(line.as_encoded_bytes()) {
        // Whole or not at all, for others may be reading it.
        let new = folder.join(format!("new-{}", std::process::id()));
        fs::write(&new, line.as_encoded_bytes()).map_err(failed(&new))?;
        fs::rename(&new, &list).map_err(failed(&list))?;
    }
    let mut header = Vec::new();
    let read = fs::File::open(library).and_then(|file| file.take(64).read_to_end(&mut header));
    read.map_err(failed(library))?;
    let loader = folder.join(LOADER);
    let new = folder.join(format!("{LOADER}.new-{}", std::process::id()));
    match loader::loader(LOADER, library.as_os_str(), &header) {
        Some(bytes) if fs::read(&loader).is_ok_and(|there| there == bytes) => {}
        Some(bytes) => {
            fs::write(&new, bytes).map_err(failed(&new))?;
            fs::rename(&new, &loader).map_err(failed(&loader))?;
        }
        None => link(library, &loader).map_err(failed(&loader))?,
    }
    let loader = folder.join("libOpenCL.so");
    link(Path::new(LOADER), &loader).map_err(failed(&loader))?;
    Ok(folder)
}

/// Has a name stand for a file.
fn link(to: &Path, name: &Path) -> io::Result<()> {
    if fs::read_link(name).is_ok_and(|known| known == to) {
        return Ok(());
    }
    let new = name.with_extension(format!("new-{}", std::process::id()));
    std::os::unix::fs::symlink(to, &new)?;
    fs::rename(&new, name)
}

/// A folder of this user's in one that all users write to. Programs load a library from it, so no
/// other user may have made it.
fn own_folder(of_all: &Path) -> Result<PathBuf, ExecError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    // SAFETY: it takes nothing.
    let user = unsafe { libc::geteuid() };
    let path = of_all.join(format!("quipu-{user}"));
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(ExecError::Write { path, source });
        }
        _ => {}
    }
    let is_own = fs::symlink_metadata(&path)
        .is_ok_and(|folder| folder.is_dir() && folder.uid() == user && folder.mode() & 0o077 == 0);
    match is_own {
        true => Ok(path),
        false => Err(ExecError::NotOwn { path }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_has_no_place_says_which_folder_is_missing() {
        let missing = Path::new("/nowhere/at/all");
        let error = CommandError::from(trace_folder(missing).unwrap_err()).to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
        assert!(error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn a_folder_that_somebody_else_may_have_made_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let of_all = tempfile::tempdir().unwrap();
        let own = own_folder(of_all.path()).unwrap();
        assert_eq!(own_folder(of_all.path()).unwrap(), own);
        fs::set_permissions(&own, PermissionsExt::from_mode(0o770)).unwrap();
        own_folder(of_all.path()).unwrap_err();
        fs::remove_dir(&own).unwrap();
        std::os::unix::fs::symlink("/tmp", &own).unwrap();
        own_folder(of_all.path()).unwrap_err();
    }

    #[test]
    fn the_folder_comes_first_and_others_stay() {
        let folder = Path::new("/somewhere/quipu");
        assert_eq!(first_of(OsStr::new(""), folder), "/somewhere/quipu");
        let both = first_of(OsStr::new("/usr/lib"), folder);
        assert_eq!(both, "/somewhere/quipu:/usr/lib");
    }
}

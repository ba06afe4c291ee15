//! The clang, libLLVM and linker of the machine.

use super::versions;
use crate::child;
use quipu_environment::LLVM;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and the library that a compilation takes, all of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tools {
    /// LLVM's version.
    pub(crate) version: u32,
    pub(crate) clang: PathBuf,
    pub(crate) llvm: PathBuf,
    /// Those that may link, the one that starts fastest first.
    pub(crate) linkers: Vec<PathBuf>,
    /// The translator of SPIR-V, if there is one: `llvm-spirv`, of this version or an older one,
    /// since LLVM reads the bitcode of older ones.
    pub(crate) translator: Option<PathBuf>,
}

/// The oldest version of LLVM whose translator is taken.
const OLDEST_TRANSLATOR: u32 = 14;

/// Looks for them. `QUIPU_LLVM` may name a folder with `bin` and `lib` that is looked at first.
pub(crate) fn find() -> Option<Tools> {
    let own = LLVM.get().ok().flatten();
    versions::ALL
        .into_iter()
        .find_map(|version| of_version(version, own.as_deref()))
}

fn of_version(version: u32, own: Option<&Path>) -> Option<Tools> {
    let system: [PathBuf; 6] = [
        format!("/usr/lib/llvm-{version}").into(),
        format!("/usr/lib/llvm{version}").into(),
        format!("/usr/lib64/llvm{version}").into(),
        format!("/opt/homebrew/opt/llvm@{version}").into(),
        "/usr".into(),
        "/usr/local".into(),
    ];
    // libLLVM may be in a folder of the system's while the programs are in their own, as Debian's
    // is. Its name has the version.
    let of_library = own.into_iter().chain(system.iter().map(PathBuf::as_path));
    let llvm = library(version, of_library)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let roots = own.map_or(system.to_vec(), |own| vec![own.to_owned()]);
    let of_roots: Vec<PathBuf> = roots.iter().map(|root| root.join("bin")).collect();
    let everywhere = [of_roots.clone(), path].concat();
    let of_programs = if own.is_some() {
        &of_roots
    } else {
        &everywhere
    };
    let program = |name: &str| {
        named(of_programs, &format!("{name}-{version}")).or_else(|| named(of_programs, name))
    };
    let clang = program("clang").filter(|clang| is_version(clang, version))?;
    // lld loads libLLVM, which takes it longer than to link. The system's own may be for other
    // machines.
    let linkers: Vec<PathBuf> = [program("ld"), program("ld.lld")]
        .into_iter()
        .flatten()
        .collect();
    if linkers.is_empty() {
        return None;
    }
    let mut versions = (OLDEST_TRANSLATOR..=version).rev();
    let translator = versions
        .find_map(|version| named(&everywhere, &format!("llvm-spirv-{version}")))
        .or_else(|| {
            named(&everywhere, "llvm-spirv").filter(|program| is_readable(program, version))
        });
    Some(Tools {
        version,
        clang,
        llvm,
        linkers,
        translator,
    })
}

/// The first file of a name in some folders.
fn named(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let mut paths = folders.iter().map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}

/// True if a translator is of a version whose bitcode LLVM of this one reads.
fn is_readable(translator: &Path, version: u32) -> bool {
    let said = said(translator, "--version");
    let number = said.split_once("version ").map(|(_, rest)| rest);
    let number = number.and_then(|rest| rest.split('.').next()?.trim().parse().ok());
    number.is_some_and(|number| (OLDEST_TRANSLATOR..=version).contains(&number))
}

/// libLLVM of a version.
fn library<'a>(version: u32, roots: impl Iterator<Item = &'a Path>) -> Option<PathBuf> {
    let names = [
        format!("libLLVM.so.{version}.1"),
        format!("libLLVM-{version}.so.1"),
        format!("libLLVM-{version}.so"),
        format!("libLLVM.so.{version}.1.0"),
    ];
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = roots.flat_map(|root| {
        ["lib", "lib64", &multiarch]
            .into_iter()
            .map(|folder| root.join(folder))
            .collect::<Vec<_>>()
    });
    folders
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|path| path.is_file())
}

/// True if the name says so already, or else if the program does.
fn is_version(clang: &Path, version: u32) -> bool {
    let number = version.to_string();
    if clang
        .to_string_lossy()
        .split(|c: char| !c.is_ascii_digit())
        .any(|part| part == number)
    {
        return true;
    }
    let said = said(clang, "-dumpversion");
    said.trim().split('.').next() == Some(number.as_str())
}

/// A program's answer to an option.
fn said(program: &Path, option: &str) -> String {
    let mut command = Command::new(program);
    command.arg(option);
    let said = child::run(command, &[]);
    said.map_or(String::new(), |said| {
        String::from_utf8_lossy(&said.stdout).into_owned()
    })
}

/// Advice for a machine that has none.
pub(crate) const MISSING: &str = "OpenCL C on processors takes clang, lld and libLLVM of one version from 18 to 22, and \
     they are not there; install them (on Debian and Ubuntu: apt install clang-19 lld-19), or say by QUIPU_LLVM where they are";

/// Advice for a machine that has no translator.
pub(crate) const NO_TRANSLATOR: &str = "SPIR-V on processors takes the translator llvm-spirv, of the version of the machine's \
     LLVM or an older one, and it is not there; install it (on Debian and Ubuntu: apt install llvm-spirv-15)";

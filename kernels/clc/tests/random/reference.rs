//! Random programs as compiled by clang without optimisation, for this machine, with a stack for
//! each work-item.

use crate::program::Program;
use crate::types::{Scalar, Type};
use libloading::Library;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Run =
    unsafe extern "C" fn(*const c_void, *const *mut c_void, *const usize, *const usize, i32) -> i32;

/// The compiler of references.
pub(crate) struct Reference {
    folder: tempfile::TempDir,
    clang: PathBuf,
    linker: PathBuf,
}

/// Some that are compiled.
pub(crate) struct Compiled {
    library: Library,
}

/// The options that the functions' text and programs are compiled with.
const OPTIONS: [&str; 8] = [
    "-x",
    "cl",
    "-cl-std=CL3.0",
    "-cl-no-stdinc",
    "-w",
    "-O0",
    "-fPIC",
    "-ffp-contract=off",
];

impl Reference {
    /// Finds clang and its linker, and compiles what all programs need.
    pub(crate) fn new() -> Self {
        let own = std::env::var_os("QUIPU_LLVM").map(PathBuf::from);
        let find = |name: &str| {
            let versions = [19, 21, 22, 20, 18].map(|version| format!("{name}-{version}"));
            versions
                .into_iter()
                .chain([name.to_owned()])
                .find_map(|name| {
                    let own = own.iter().map(|folder| folder.join("bin"));
                    let path = std::env::var_os("PATH").unwrap_or_default();
                    let folders: Vec<PathBuf> = own.chain(std::env::split_paths(&path)).collect();
                    let mut paths = folders.iter().map(|folder| folder.join(&name));
                    paths.find(|path| path.is_file())
                })
        };
        let (Some(clang), Some(linker)) = (find("clang"), find("ld.lld")) else {
            panic!("random programs take clang and ld.lld, which are not there");
        };
        let this = Self {
            folder: tempfile::tempdir().unwrap(),
            clang,
            linker,
        };
        let at = this.folder.path();
        std::fs::write(at.join("fibres.c"), include_str!("fibres.c")).unwrap();
        let fibres = ["-O1", "-fPIC", "-c", "fibres.c", "-o", "fibres.o"];
        this.run(&this.clang, &fibres).unwrap();
        let mut text = include_str!("reference.cl").to_owned();
        for of in Scalar::ALL {
            for width in [1, 2, 3, 4, 8, 16] {
                let of = Type { of, width };
                let _ = writeln!(text, "#define as_{of}(x) __builtin_astype((x), {of})");
            }
        }
        std::fs::write(at.join("reference.cl"), text).unwrap();
        let mut options = OPTIONS.to_vec();
        options.extend([
            "-Xclang",
            "-emit-pch",
            "-c",
            "reference.cl",
            "-o",
            "reference.pch",
        ]);
        this.run(&this.clang, &options).unwrap();
        this
    }

    fn run(&self, program: &Path, options: &[&str]) -> Result<(), String> {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(options);
        let output = command.stdin(Stdio::null()).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Compiles a text; what clang says of it if it cannot be.
    pub(crate) fn compile(&self, text: &str) -> Result<Compiled, String> {
        let part = tempfile::tempdir_in(&self.folder).unwrap();
        let path = |name: &str| part.path().join(name).to_str().unwrap().to_owned();
        let (source, object, whole) = (path("text.cl"), path("text.o"), path("text.so"));
        std::fs::write(&source, text).unwrap();
        let mut options = OPTIONS.to_vec();
        options.extend([
            "-include-pch",
            "reference.pch",
            "-c",
            &source,
            "-o",
            &object,
        ]);
        self.run(&self.clang, &options)?;
        self.run(
            &self.linker,
            &["-shared", "-o", &whole, &object, "fibres.o"],
        )?;
        // SAFETY: it has no code that runs as it is loaded.
        let library = unsafe { Library::new(&whole) };
        Ok(Compiled {
            library: library.map_err(|error| error.to_string())?,
        })
    }
}

impl Compiled {
    /// Runs a program; what is wrong with it if it cannot be run.
    pub(crate) fn run(
        &self,
        program: &Program,
        memory: [*mut c_void; 7],
        backwards: bool,
    ) -> Result<(), String> {
        let (mut first, mut second) = program.numbers;
        let [.., own, same] = memory;
        let mut arguments = memory[..5].to_vec();
        arguments.push((&raw mut first).cast());
        arguments.push((&raw mut second).cast());
        arguments.extend([own, same]);
        // SAFETY: `fibres.c` and the program define functions of these types, which stay within the
        // arguments.
        let status = unsafe {
            let run = self.library.get::<Run>(b"reference_run").unwrap();
            let kernel = self.library.get::<*const c_void>(program.name.as_bytes());
            let kernel = kernel.map_err(|error| error.to_string())?;
            run(
                kernel.try_as_raw_ptr().unwrap(),
                arguments.as_ptr(),
                program.local.as_ptr(),
                program.groups.as_ptr(),
                i32::from(backwards),
            )
        };
        match status {
            0 => Ok(()),
            1 => Err("work-items wait for each other at different places".to_owned()),
            _ => Err("there is no memory for stacks".to_owned()),
        }
    }
}

//! `quipu bench`: runs `quipu-bench`, a program of its own, since few programs need the libraries
//! that it measures Quipu beside.

use crate::error::CommandError;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, as it lies beside this one.
const PROGRAM: &str = "quipu-bench";

/// The command's options.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// The benchmarks, and the options of `quipu-bench`; `--help` lists them.
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Runs the program that lies beside this one. In a source tree it is built first.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let own = std::env::current_exe().map_err(CommandError::OwnProgram)?;
    let program = own.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
    let program = match source_tree(&own) {
        Some((tree, profile)) => build(&tree, &profile, program)?,
        None if program.is_file() => program,
        None => return Err(CommandError::NoBenchmarks { program }),
    };
    let mut command = Command::new(&program);
    command.args(&options.arguments);
    start(&mut command).map_err(|source| CommandError::StartBenchmarks { program, source })
}

/// Becomes the program.
#[cfg(unix)]
fn start(command: &mut Command) -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

/// Runs the program, and ends as it has ended.
#[cfg(not(unix))]
fn start(command: &mut Command) -> io::Result<()> {
    std::process::exit(command.status()?.code().unwrap_or(1))
}

/// The source tree that this program was built in, and the profile, if it still lies in the tree's
/// folder for that.
fn source_tree(own: &Path) -> Option<(PathBuf, String)> {
    let folder = own.parent()?;
    let profile = folder.file_name()?.to_str()?;
    let target = folder.parent()?;
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let is_there = target.starts_with(tree) && tree.join("lab/bench/Cargo.toml").is_file();
    is_there.then(|| (tree.to_owned(), profile.to_owned()))
}

/// Has cargo bring the program up to date.
fn build(tree: &Path, profile: &str, program: PathBuf) -> Result<PathBuf, CommandError> {
    let profile = if profile == "debug" { "dev" } else { profile };
    let target = program.parent().and_then(Path::parent);
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--package", PROGRAM, "--profile", profile]);
    cargo.arg("--manifest-path").arg(tree.join("Cargo.toml"));
    if let Some(target) = target {
        cargo.arg("--target-dir").arg(target);
    }
    match cargo.status() {
        Ok(status) if status.success() => Ok(program),
        // Where there is no cargo, an earlier build serves.
        Err(error) if error.kind() == io::ErrorKind::NotFound && program.is_file() => Ok(program),
        Ok(_) => Err(CommandError::BuildBenchmarks),
        Err(_) => Err(CommandError::NoBenchmarks { program }),
    }
}

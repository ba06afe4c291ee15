//! `quipu cache`: the compiled programs that are kept on disk.

use crate::error::CommandError;
use quipu_cli::units;
use quipu_device_queue::disk;
use std::fs;
use std::io::ErrorKind;

/// The folders of the cache: those of the compiler for processors, and of the drivers that compile.
const FOLDERS: [&str; 3] = ["clc", "cuda", "opencl"];

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Option<Action>,
}

/// An action on the cache.
#[derive(clap::Subcommand)]
enum Action {
    /// Print the folder of the compiled code and its size.
    Show,
    /// Remove the compiled code. Programs that run are not harmed.
    Clear,
}

/// Shows the cache, or clears it.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let Some(root) = quipu_environment::cache_root()? else {
        return super::print("nothing is kept: QUIPU_CACHE is off, or there is no home folder\n");
    };
    let (mut files, mut bytes) = (0, 0);
    for name in FOLDERS {
        let folder = root.join(name);
        let kept = disk::kept(&folder).map_err(|source| CommandError::Read {
            path: folder,
            source,
        })?;
        for file in kept {
            if let Some(Action::Clear) = options.action {
                match fs::remove_file(&file.path) {
                    // Another program may have removed it meanwhile.
                    Err(source) if source.kind() != ErrorKind::NotFound => {
                        let path = file.path;
                        return Err(CommandError::Write { path, source });
                    }
                    _ => {}
                }
            }
            files += 1;
            bytes += file.bytes;
        }
    }
    let what = units::counted(files, "compiled program");
    let size = units::bytes(bytes);
    let root = root.display();
    super::print(&match options.action {
        Some(Action::Clear) => format!("removed {what}, {size}, from {root}\n"),
        _ => format!("{what}, {size}, in {root}\n"),
    })
}

//! `quipu cache`: the compiled programs that are kept on disk.

use crate::error::CommandError;
use quipu_cli::units;
use std::fs;
use std::io::Write;

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
    let mut out = std::io::stdout().lock();
    let Some(folder) = quipu_clc::cache_folder() else {
        writeln!(
            out,
            "nothing is kept: QUIPU_CACHE is off, or there is no home folder"
        )?;
        return Ok(());
    };
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if !about.is_file() {
            continue;
        }
        if let Some(Action::Clear) = options.action {
            let path = entry.path();
            match fs::remove_file(&path) {
                // Another program may have removed it meanwhile.
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(CommandError::Write { path, source });
                }
                _ => {}
            }
        }
        files += 1;
        bytes += about.len();
    }
    let what = units::counted(files, "compiled program");
    let size = units::bytes(bytes);
    match options.action {
        Some(Action::Clear) => writeln!(out, "removed {what}, {size}, from {}", folder.display())?,
        _ => writeln!(out, "{what}, {size}, in {}", folder.display())?,
    }
    Ok(())
}

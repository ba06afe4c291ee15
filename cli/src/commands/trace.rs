//! `quipu trace`: shows the record of a traced program.

use crate::error::CommandError;
use crate::progress::{Busy, Watched};
use quipu_cli::timeline::{self, Look, Trace};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Pixels across a still picture.
const SVG_WIDTH: u32 = 1600;

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trace, which a program run with QUIPU_TRACE=FILE has written.
    #[arg(value_name = "FILE")]
    trace: PathBuf,

    /// File to write the timeline to: a page that needs no other file, or a still picture if the
    /// name ends in .svg.
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
}

/// Prints the table and writes the page.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let trace = read(&options.trace)?;
    if let Some(output) = &options.output {
        write(output, &options.trace, &trace)?;
    }
    let mut text = timeline::summary(&trace);
    if let Some(output) = &options.output {
        text.push_str(&format!("\nThe timeline is in {}\n", output.display()));
    }
    super::print(&text)
}

pub(super) fn read(path: &Path) -> Result<Trace, CommandError> {
    let open = || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    };
    let (file, length) = open().map_err(|source| CommandError::OpenTrace {
        path: path.to_owned(),
        source,
    })?;
    let watched = Watched::new(file, "reading the trace", length);
    Trace::read(watched).map_err(|source| CommandError::ReadTrace {
        path: path.to_owned(),
        source,
    })
}

fn write(output: &Path, input: &Path, trace: &Trace) -> Result<(), CommandError> {
    // Only files that are there have a canonical name: then the output is none yet.
    if let (Ok(output), Ok(input)) = (output.canonicalize(), input.canonicalize())
        && output == input
    {
        return Err(CommandError::SameFile { path: input });
    }
    let picture = output
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
    let _busy = Busy::new("writing the timeline", 0);
    let text = if picture {
        timeline::render_svg(
            trace,
            &Look {
                width: SVG_WIDTH,
                ..Look::default()
            },
        )
    } else {
        let title = input.file_name().unwrap_or(input.as_os_str());
        timeline::page(trace, &timeline::Options::titled(title.to_string_lossy()))
    };
    std::fs::write(output, text).map_err(|source| CommandError::Write {
        path: output.to_owned(),
        source,
    })
}

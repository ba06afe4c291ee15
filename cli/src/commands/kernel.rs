//! `quipu kernel`: prints the source of a kernel as a device gets it.

use crate::error::CommandError;
use quipu::kernel::print::{self, IndexWidth, OpenClFeatures};
use quipu_cli::kernels::{REGISTERED, find};

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

/// The actions of `quipu kernel`.
#[derive(clap::Subcommand)]
enum Action {
    /// List the kernels that can be printed: those of the guide to kernels.
    List,
    /// Print a kernel's source.
    Print(PrintOptions),
}

/// The options of `quipu kernel print`.
#[derive(clap::Args)]
struct PrintOptions {
    /// The kernel; `quipu kernel list` names them.
    name: String,

    /// The language to print it in.
    #[arg(long, value_enum, default_value_t = Dialect::C99)]
    dialect: Dialect,

    /// Bits of an index: 32 for launches whose extents fit, 64 for all others.
    #[arg(long, value_name = "BITS", default_value = "32", value_parser = index_width)]
    index_width: IndexWidth,

    /// Mark each line with `#line` and the kernel's own line.
    #[arg(long)]
    lines: bool,
}

/// A language that kernels are printed in.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Dialect {
    /// C with GNU builtins.
    C99,
    /// OpenCL C 1.2, with 64-bit floats and atomics.
    Opencl,
    /// CUDA C.
    Cuda,
}

impl From<Dialect> for print::Dialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::C99 => Self::C99,
            Dialect::Opencl => Self::OpenCl(OpenClFeatures::USUAL),
            Dialect::Cuda => Self::Cuda,
        }
    }
}

fn index_width(text: &str) -> Result<IndexWidth, &'static str> {
    match text {
        "32" => Ok(IndexWidth::Bits32),
        "64" => Ok(IndexWidth::Bits64),
        _ => Err("use 32 or 64"),
    }
}

/// Lists kernels, or prints one.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let text = match &options.action {
        Action::List => list(),
        Action::Print(options) => source(options)?,
    };
    super::print(&text)
}

fn list() -> String {
    let width = REGISTERED.iter().map(|kernel| kernel.name.len()).max();
    let width = width.unwrap_or(0);
    REGISTERED
        .iter()
        .map(|kernel| format!("{:width$}  {}\n", kernel.name, kernel.summary))
        .collect()
}

fn source(asked: &PrintOptions) -> Result<String, CommandError> {
    let kernel = find(&asked.name).ok_or_else(|| CommandError::UnknownKernel {
        asked: asked.name.clone(),
        known: REGISTERED.map(|kernel| kernel.name).join(", "),
    })?;
    let dialect = print::Dialect::from(asked.dialect);
    let mut options = print::Options::new(dialect, asked.index_width);
    options.line_directives = asked.lines;
    Ok((kernel.module)()?.print(dialect, &options)?.source)
}

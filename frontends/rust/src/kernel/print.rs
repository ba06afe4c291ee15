//! The source of kernels, to be read: the code that `#[kernel]` made, in the languages of devices.
//!
//! ```
//! use quipu::kernel::print::{self, Dialect, IndexWidth, Options};
//! use quipu::prelude::*;
//!
//! #[kernel]
//! fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
//!     for (i, y) in y.each() {
//!         *y += a * x[i];
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let module = print::module::<saxpy, _>()?;
//! let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
//! let printed = module.print(Dialect::Cuda, &options)?;
//! assert!(printed.source.contains("__global__"));
//! # Ok(()) }
//! ```
//!
//! The type of a kernel has its name: `saxpy` here, `generic::<f32>` of a generic one. Where there
//! is a [`Call`](super::Call), its [`module`](super::Call::module) is the same with the types that
//! were inferred. How the source is compiled and launched is said by [`Printed`], and in the
//! documentation of the printers in `quipu_kernel_ir`. [`Kernels`] are a program's own, by name, as
//! the command `quipu kernel` has those of the guide.
//!
//! Another language needs no change here: a type that is a [`Printer`] writes a kernel, a
//! [`Module`], down in it, and [`Kernels::printer`] registers it. The items that it goes through
//! are in [`ir`]. The example `16_printer` registers the printer in `lab/python`.

pub use quipu_kernel::emit::ir::print::{
    EntryKind, EntryParameter, FAULT_WORDS, Fault, FaultKind, SharedMemory, Site,
};
pub use quipu_kernel::emit::ir::{
    self, Dialect, ElementOrder, IndexWidth, Module, OpenClFeatures, Options, PrintError, Printed,
    Printer, Target, VerifyError,
};
pub use quipu_kernel::{BuildError, Entry};

use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The source of a kernel, by its type, in the intermediate representation: [`Module::print`]
/// writes it down.
///
/// # Errors
/// If a part of the kernel has no source: the error says which, and where.
pub fn module<K: Entry<D>, const D: usize>() -> std::result::Result<Module, BuildError> {
    K::module()
}

/// Kernels by name, for a program that shows their sources for devices: [`Kernels::command`] is the
/// `quipu kernel` of such a program.
#[derive(Debug, Clone)]
pub struct Kernels {
    kernels: Vec<Kernel>,
    /// For each language there is one.
    printers: Vec<Arc<dyn Printer>>,
}

impl Default for Kernels {
    fn default() -> Self {
        let opencl = Dialect::OpenCl(OpenClFeatures::USUAL);
        let of = |dialect: Dialect| Arc::new(dialect) as Arc<dyn Printer>;
        Self {
            kernels: Vec::new(),
            printers: [Dialect::C99, opencl, Dialect::Cuda].map(of).into(),
        }
    }
}

/// One of them.
#[derive(Debug, Clone)]
struct Kernel {
    name: &'static str,
    /// As it is in the source: with its types, if it is generic.
    full_name: &'static str,
    module: fn() -> std::result::Result<Module, BuildError>,
}

impl Kernels {
    /// None; with the printers of C99, OpenCL C and CUDA C.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a kernel, by its type: `.with::<saxpy, _>()`, of a generic one with the types that it
    /// is called with. The second parameter is how many dimensions it has, which the compiler
    /// knows.
    #[must_use]
    pub fn with<K: Entry<D>, const D: usize>(mut self) -> Self {
        self.kernels.push(Kernel {
            name: K::NAME,
            full_name: std::any::type_name::<K>(),
            module: K::module,
        });
        self
    }

    /// With a printer, for the `--dialect` that its language's name is. It takes the place of
    /// another one of that name.
    #[must_use]
    pub fn printer(mut self, printer: impl Printer + 'static) -> Self {
        self.printers
            .retain(|other| other.language() != printer.language());
        self.printers.push(Arc::new(printer));
        self
    }

    /// The usage of [`Self::command`].
    fn usage(&self) -> String {
        let languages: Vec<_> = self.printers.iter().map(|of| of.language()).collect();
        let languages = languages.join("|");
        format!("list, or print NAME [--dialect {languages}] [--index-width 32|64] [--lines]")
    }

    /// Carries out a command with these arguments, and gives the text to show:
    ///
    /// * `list`, or nothing: names the kernels, each with its type.
    /// * `print NAME`: the source of a kernel as C99, for launches whose indices fit 32 bits; with
    ///   `--dialect opencl`, `cuda`, or the language of a [registered](Self::printer) printer,
    ///   `--index-width 64`, and `--lines`, which says with `#line` which line of the kernel each
    ///   line is of. Of several kernels of a name, the type says which one is meant.
    ///
    /// ```
    /// use quipu::kernel::print::Kernels;
    /// use quipu::prelude::*;
    ///
    /// #[kernel]
    /// fn clear<T: KernelData + Default>(_acc: &impl Accelerator<1>, zero: T, mut y: OwnElements<T>) {
    ///     for (_, y) in y.each() {
    ///         *y = zero;
    ///     }
    /// }
    ///
    /// let kernels = Kernels::new().with::<clear<f32>, _>();
    /// assert!(kernels.command(["list"])?.starts_with("clear "));
    /// let source = kernels.command(["print", "clear", "--dialect", "opencl"])?;
    /// assert!(source.contains("__kernel void clear("));
    /// # Ok::<(), quipu::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such command, option or kernel, or the kernel has no source.
    pub fn command<A: Into<String>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String> {
        let mut arguments = arguments.into_iter().map(Into::into);
        match arguments.next().as_deref() {
            None | Some("list") => Ok(self.list()),
            Some("print") => self.print(arguments),
            Some(other) => {
                let usage = self.usage();
                Err(wrong(format!("'{other}' is no command; use {usage}")))
            }
        }
    }

    fn list(&self) -> String {
        let names = self.kernels.iter().map(|kernel| kernel.name.len());
        let width = names.max().unwrap_or(0);
        let line = |kernel: &Kernel| format!("{:width$}  {}\n", kernel.name, kernel.full_name);
        self.kernels.iter().map(line).collect()
    }

    fn print(&self, mut arguments: impl Iterator<Item = String>) -> Result<String> {
        let Some(name) = arguments.next() else {
            let usage = self.usage();
            return Err(wrong(format!("a kernel's name is missing; use {usage}")));
        };
        let of_language = |language: &str| {
            let mut printers = self.printers.iter();
            printers.find(|printer| printer.language() == language)
        };
        let mut printer: &dyn Printer = &Dialect::C99;
        let (mut width, mut lines) = (IndexWidth::Bits32, false);
        while let Some(option) = arguments.next() {
            let value = if option == "--lines" {
                None
            } else {
                arguments.next()
            };
            match (option.as_str(), value.as_deref()) {
                ("--dialect", Some(language)) if let Some(found) = of_language(language) => {
                    printer = &**found;
                }
                ("--index-width", Some("32")) => width = IndexWidth::Bits32,
                ("--index-width", Some("64")) => width = IndexWidth::Bits64,
                ("--lines", None) => lines = true,
                (option, value) => {
                    let given = format!("{option} {}", value.unwrap_or_default());
                    let given = given.trim_end();
                    let usage = self.usage();
                    return Err(wrong(format!("'{given}' is no option; use {usage}")));
                }
            }
        }
        let module = self.module(&name)?;
        let mut options = Options::new(printer, width);
        options.line_directives = lines;
        let printed = module.print(printer, &options);
        Ok(printed.map_err(|error| failed(&name, &error))?.source)
    }

    /// The source of the kernel of a name.
    fn module(&self, name: &str) -> Result<Module> {
        let is_meant = |kernel: &&Kernel| kernel.name == name || kernel.full_name == name;
        let found: Vec<_> = self.kernels.iter().filter(is_meant).collect();
        match found[..] {
            [kernel] => (kernel.module)().map_err(|error| failed(name, &error)),
            [] => {
                let names: Vec<_> = self.kernels.iter().map(|kernel| kernel.name).collect();
                let names = names.join(", ");
                let problem = format!("there is no kernel named '{name}'; the names are: {names}");
                Err(wrong(problem))
            }
            _ => {
                let types: Vec<_> = found.iter().map(|kernel| kernel.full_name).collect();
                let types = types.join(", ");
                let problem =
                    format!("there are several kernels named '{name}'; use one of: {types}");
                Err(wrong(problem))
            }
        }
    }
}

fn wrong(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "showing kernels",
        problem,
    }
    .into()
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Error {
    let (what, message) = (format!("printing kernel '{name}'"), error.to_string());
    ErrorKind::Kernel { what, message }.into()
}

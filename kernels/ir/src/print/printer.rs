//! Printers: they write kernels down in a language, also in one that this crate does not know.

use std::fmt;

use crate::module::Module;

use super::module;
use super::target::{self, Target};
use super::{Dialect, ElementOrder, Options, PrintError, Printed};

/// A printer: it writes kernels down in a language. [`Dialect`] is the printer of this crate's own;
/// any other type may be one, too.
///
/// [`Module::print`] takes any printer. It verifies the module before, so a printer is given valid
/// ones only, and adds what the module needs to the options.
///
/// 1. A printer decides what its target has, by [`Module::on_target`]: branches of a kernel that
///    ask for something else are left out.
/// 2. It goes through [`Module::kernel`](crate::Module::kernel), and the functions that it calls.
///    Statements are structured, and each value is defined once, before it is used.
/// 3. For an operation that its language has no words for it gives [`PrintError::Unsupported`],
///    with the operation's place.
///
/// `lab/python` is a printer that is no part of this project. It writes Python.
pub trait Printer: fmt::Debug + Send + Sync {
    /// The language's name: a short word in lower case, which people type to choose it.
    fn language(&self) -> &'static str;

    /// The order in which threads go through their elements where [`Options::new`] is not told
    /// another.
    fn elements(&self) -> ElementOrder {
        ElementOrder::Strided
    }

    /// Writes down a module, which is valid.
    ///
    /// # Errors
    /// [`PrintError::Unsupported`] if the language cannot express an operation of the module.
    fn print(&self, module: &Module, options: &Options) -> Result<Printed, PrintError>;
}

impl<P: Printer + ?Sized> Printer for &P {
    fn language(&self) -> &'static str {
        (**self).language()
    }

    fn elements(&self) -> ElementOrder {
        (**self).elements()
    }

    fn print(&self, module: &Module, options: &Options) -> Result<Printed, PrintError> {
        (**self).print(module, options)
    }
}

impl Printer for Dialect {
    fn language(&self) -> &'static str {
        match self {
            Self::C99 => "c99",
            Self::OpenCl(_) => "opencl",
            Self::Cuda => "cuda",
        }
    }

    fn elements(&self) -> ElementOrder {
        match self {
            Self::C99 => ElementOrder::Contiguous,
            Self::OpenCl(_) | Self::Cuda => ElementOrder::Strided,
        }
    }

    fn print(&self, module: &Module, options: &Options) -> Result<Printed, PrintError> {
        let dialect = target::dialect_for(module, *self);
        let module = module.on_target(&Target::of(dialect), options);
        let dialect = target::with_used_fences(&module, dialect);
        module::print(&module, dialect, options)
    }
}

impl Module {
    /// Writes the module down in a language.
    ///
    /// # Errors
    /// [`PrintError::Invalid`] if the module is not valid; [`PrintError::Unsupported`] if the
    /// language cannot express one of its operations.
    pub fn print(&self, printer: impl Printer, options: &Options) -> Result<Printed, PrintError> {
        self.verify()?;
        let allowed = self.allowances;
        let options = Options {
            index_width: target::index_width_for(self, options),
            checked: options.checked && !allowed.unchecked,
            fast_math: options.fast_math || allowed.fast_math,
            contract: options.contract || allowed.contract,
            flush_to_zero: options.flush_to_zero || allowed.flush_to_zero,
            ..*options
        };
        printer.print(self, &options)
    }
}

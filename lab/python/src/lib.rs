//! A printer of kernels from outside of Quipu: it writes Python.
//!
//! A kernel becomes a function of its parameters. Buffers are lists. The function does the work of
//! a whole grid by one thread, which has all elements. That is enough to read what a kernel does,
//! or to try it on a few numbers.
//!
//! The printer shows what a language has to say for itself:
//!
//! 1. [`Python`] is the [`Printer`]: the language's name, and the way from a module to its text.
//! 2. [`Target`] has the answers to the questions that a kernel may ask of a device.
//! 3. Integers of Python have no width, and its floats have 64 bits. So a result is brought back to
//!    its type (`wrapped`, `single`).
//! 4. All else is refused by [`PrintError::Unsupported`], with the place in the kernel.
//!
//! ```
//! use kernel_python::Python;
//! use quipu::kernel::print::{self, IndexWidth, Options};
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
//! let options = Options::new(Python, IndexWidth::Bits64);
//! let printed = print::module::<saxpy, _>()?.print(Python, &options)?;
//! assert!(printed.source.contains("def saxpy(a, x, y):"));
//! # Ok(()) }
//! ```

mod function;

use function::{FunctionPrinter, Names};
use quipu::kernel::print::ir::{Function, Location, Module};
use quipu::kernel::print::{ElementOrder, Options, PrintError, Printed, Printer, Target};

/// Functions that printed kernels call.
const RUNTIME: &str = "\
import math
import struct


def wrapped(number, bits, signed):
    number &= (1 << bits) - 1
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def single(number):
    try:
        return struct.unpack('f', struct.pack('f', number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def divided(a, b):
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def quotient(a, b):
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def saturated(number, low, high):
    return 0 if number != number else int(min(max(number, low), high))
";

/// The language.
#[derive(Clone, Copy, Debug)]
pub struct Python;

/// The abilities of Python's side.
const TARGET: Target = Target {
    doubles: true,
    clock: false,
    system_scope: false,
    device_fence: false,
    grid_barrier: false,
    warp_size: Some(1),
};

impl Printer for Python {
    fn language(&self) -> &'static str {
        "python"
    }

    fn elements(&self) -> ElementOrder {
        ElementOrder::Contiguous
    }

    fn print(&self, module: &Module, options: &Options) -> Result<Printed, PrintError> {
        let module = module.on_target(&TARGET, options);
        let module = &*module;
        let kernel = &module.kernel.function;
        if let Some(array) = module.shared.first() {
            let name = array.name.unwrap_or("array");
            let what = format!("memory of a block, as `{name}`");
            return Err(unsupported(module, what, kernel.location));
        }
        let mut source = RUNTIME.to_owned();
        let mut names = Names::new();
        let mut functions = Vec::new();
        for function in &module.functions {
            functions.push(names.unique(&function.name));
        }
        let entry = names.unique(&kernel.name);
        let all = module.functions.iter().zip(&functions);
        for (function, name) in all.chain([(kernel, &entry)]) {
            let print = |function: &Function| {
                FunctionPrinter::new(module, options, &functions, function, names.clone())
                    .print(name)
            };
            source.push_str("\n\n");
            source.push_str(&print(function)?);
        }
        Ok(Printed {
            language: self.language(),
            source,
            entry,
            compiler_options: Vec::new(),
            // Python's functions take lists and numbers, and no bytes.
            parameters: Vec::new(),
            shared: Vec::new(),
            dimensions: module.kernel.dimensions.into(),
            index_width: options.index_width,
            barriers: false,
            grid_barriers: false,
            reads_ahead: false,
            sites: Vec::new(),
        })
    }
}

/// The error for something that a kernel asks for and Python has not.
fn unsupported(module: &Module, what: String, location: Option<Location>) -> PrintError {
    PrintError::Unsupported {
        language: "Python",
        what,
        kernel: module.kernel.function.name.clone(),
        location,
    }
}

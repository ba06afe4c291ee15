//! The kernel language's intermediate representation: `#[kernel]` builds it when a kernel is called
//! for its source, and the printers write it as OpenCL C, CUDA C or C99.
//!
//! A [`Module`] is one kernel with everything it needs: structs, device functions, block-shared
//! arrays. It is *typed* (every value has a [`Type`]), *structured* (control flow is `if` and
//! `loop`, never a jump) and in *three-address form*: an [`Operation`] takes [`Value`]s and defines
//! one. So things happen in the order in which they are written down, in every language that it is
//! printed in. That language's order of evaluation of operands does not matter. The user's names of
//! variables, and their places, are kept beside it ([`Name`], [`Location`]); printers fold values
//! that are used once back into expressions.
//!
//! # Meaning
//!
//! Operations have the meaning of Rust's in a release build, on every target:
//!
//! * Integers wrap. A shift takes its amount modulo the width.
//! * Integer division and remainder by zero, and of the smallest number by -1, are *faults*.
//! * `as` from float to integer saturates, NaN becomes 0. Floats round to nearest, ties to even;
//!   nothing is contracted to a fused multiply-add, reassociated, or computed in more precision.
//!   Which NaN a result is, is not defined, also of `-x` and `abs`: NVIDIA's GPUs make it theirs.
//! * An index out of bounds is a *fault*.
//! * A *fault* never traps: a bad read, a division and a remainder give zero, a bad write is
//!   dropped, and the first fault of a launch is recorded with thread and [`Location`]; the launch
//!   then fails.
//! * Every thread of a block comes to each barrier, and every thread of a warp to each function of
//!   a warp: the conditions for that are [seen to be the same](Module::verify_uniformity) for them,
//!   or [vouched for](Operation::AssumeUniform).
//! * [`Scalar::Index`] and [`Scalar::SignedIndex`] are `usize` and `isize`. A printer gives them 32
//!   bits when every extent of the launch and every constant of the module fits, 64 otherwise:
//!   values computed from them beyond extents wrap at that width.
//!
//! # The pipeline
//!
//! ```text
//! #[kernel] fn, called for its source ─┐
//!                                      ├─> Module ──verify──> print ──> Printed ──> a driver's compiler and launch
//! FunctionBuilder, by hand ────────────┘                        │
//!                                                               └─> C99, OpenCL C, CUDA C; or by another Printer
//! ```
//!
//! * [`builder`] makes modules by hand.
//! * [`Module::verify`] checks everything that this crate's documentation demands of a module; its
//!   errors name function, statement and line.
//! * [`Module::print`] writes a valid module in a [`Dialect`], or in the language of another
//!   [`Printer`]. The launch of the result is described in [`print`](mod@print).
//! * The crate `quipu-kernel-testing` compiles and runs printed modules, and has a corpus of
//!   modules to read.

pub mod builder;
mod function;
mod half;
mod module;
mod operation;
pub mod print;
mod statement;
mod text;
mod types;
mod verify;

pub use builder::{FunctionBuilder, ModuleBuilder};
pub use function::{Function, FunctionId, Local, LocalId, Location, Name, Value, ValueInfo};
pub use module::{
    Allowances, Constant, ConstantId, KernelInfo, LaunchBounds, Module, Parameter, ParameterKind,
    SharedArray, SharedId, SharedInitial, SharedLength,
};
pub use operation::{
    AtomicOperation, BinaryOperation, FenceOrder, Literal, MathFunction, Operation, Origin,
    Property, Scope, UnaryOperation, Unit, WarpOperation,
};
pub use print::{
    Dialect, ElementOrder, IndexWidth, OpenClFeatures, Options, PrintError, Printed, Printer,
    Target,
};
pub use statement::{Block, LoopId, Place, Projection, Root, Statement};
pub use text::{KernelText, TextLanguage};
pub use types::{Field, MOST_ALIGNMENT, Scalar, Space, Struct, StructId, Type};
pub use verify::VerifyError;

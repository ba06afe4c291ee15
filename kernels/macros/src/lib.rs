//! The attribute macros of Quipu's kernel language. Their documentation is that of `quipu_kernel`,
//! which re-exports them.
//!
//! A kernel is written down twice. Once as the user wrote it, which runs natively: rustc checks it,
//! and its messages point at the user's lines. And once as a function that makes its source: every
//! operation is replaced by a call of a function of `quipu_kernel::emit`. Code that cannot be
//! replaced so is refused (`refuse.rs`), at its line, with the remedy.
//!
//! | file | contents |
//! |---|---|
//! | `kernel.rs` | `#[kernel]` functions |
//! | `method.rs` | `#[kernel]` methods, as functions |
//! | `closure.rs` | `kernel_closure!`, as a method of a struct of its values |
//! | `device.rs` | `#[device]` functions, traits and `impl` blocks |
//! | `data.rs` | structs and enums with `#[derive(KernelData)]` |
//! | `written_first.rs` | shared arrays that devices need not set to zero |
//! | `components.rs` | arrays as patterns of indices, extents and positions |
//! | `function_type.rs` | parameters that are closures |
//! | `signature.rs`, `passed.rs` | parameters, their types, generics |
//! | `scope.rs` | the state of what is written: variables, loops, refusals |
//! | `statement.rs`, `pattern.rs`, `expression.rs`, `control.rs`, `call.rs`, `chain.rs`, `print.rs` | bodies |
//! | `divergence.rs` | bodies that wait for threads that have gone elsewhere |
//! | `registers.rs`, `stencil_loops.rs`, `phases/` | fast native forms of kernels |
//! | `refuse.rs` | the words of refusals |
//! | `host_variable.rs` | `static mut`, which no device has |
//! | `options.rs` | the attributes' options |
//!
//! Names of generated variables have the hygiene of the macro (`Span::mixed_site`), so they are not
//! the user's, whatever these are called. Generated calls have the span of the code that they stand
//! for: `std::panic::Location::caller()` in the called function is its place in the user's source.

mod call;
mod chain;
mod closure;
mod components;
mod control;
mod data;
mod device;
mod divergence;
mod expression;
mod function_type;
mod host_variable;
mod kernel;
mod method;
mod options;
mod passed;
mod pattern;
mod phases;
mod print;
mod refuse;
mod registers;
mod scope;
mod signature;
mod statement;
mod stencil_loops;
mod written_first;

use proc_macro::TokenStream;

/// Makes a kernel of a function: something that can be called with buffers, launched, and asked for
/// its source.
///
/// ```ignore
/// #[kernel]
/// fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
///     for (i, y) in y.each() {
///         *y += a * x[i];
///     }
/// }
/// queue.launch(y.len(), saxpy(2.0, &x, &mut y))?;
/// ```
///
/// The first parameter is the accelerator. The types of the others say how they are passed:
///
/// | type | a thread's view |
/// |---|---|
/// | numbers (`f16` and `bf16`, too), `bool`, arrays of them, what has `#[derive(KernelData)]`, generic types | the value |
/// | `&[T]`, `GlobalRef<T, D>` | all elements, to read |
/// | `OwnElements<T, D>` | their own elements, to write |
/// | `OwnTile<T, D>`, `OwnRows<T>` | a box of neighbouring elements, whole rows |
/// | `OwnBlockTile<T, D>` | their share of their block's box |
/// | `OwnBlock<T>` | their part of their block's part |
/// | `Atomics<T>` | all elements, to change in single steps |
/// | `RawMut<T>` | all elements, through `unsafe` methods |
/// | `#[shared(length)] SharedWrite<T>`, `SharedAtomics<T>` | memory of their block; in an `async fn` |
/// | `#[variable(NAME)]` at one of those that are memory | the same of a `static NAME: Variable<T>`; nothing is passed |
///
/// `#[shared(length, unsafe(uninit))]` leaves a shared array as it is when a block begins: the
/// kernel writes each element before it reads it.
///
/// A kernel with barriers is an `async fn` of a `&impl BlockAccelerator<D>`, and awaits each
/// barrier. One with barriers of the whole grid takes a `&impl GridAccelerator<D>`.
///
/// # Methods
///
/// A struct with `#[derive(KernelData)]` may have methods that are kernels, and so carry the values
/// that a launch needs:
///
/// ```ignore
/// #[kernel]
/// impl Scale {
///     fn apply(self, _acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
///         for (i, y) in y.each() {
///             *y = self.factor * x[i];
///         }
///     }
/// }
/// queue.launch(y.len(), Scale { factor: 2.0 }.apply(&x, &mut y))?;
/// ```
///
/// A kernel that is launched in one place may be written there: [`macro@kernel_closure`].
///
/// # The language
///
/// Rust without the features that devices lack: no allocation, strings, trait objects, closures as
/// values, recursion. There are
///
/// * `let` with patterns, also with `else`, shadowing, assignment, also to several at once and to
///   parts, `const`s;
/// * `if`, `match` on numbers, ranges, `bool`s, enums and tuples and structs of them, with guards
///   and alternatives; `if let`, `while let` and `matches!` of the same, with `&&` between them;
///   `while`, `loop` with a value, labels, early `return`;
/// * `Option` and `Result` as values within kernels, with their methods and `?`; slices' `get`,
///   `first` and `last`;
/// * `for` over ranges, also open ones, arrays, `slice.iter()` and `.iter_mut()`, `.windows(n)`,
///   `.chunks(n)`, `acc.elements(n)`, `y.each()` of `OwnElements`, with `.zip(other)`,
///   `.enumerate()`, `.rev()`, `.step_by(n)`, `.skip(n)`, `.take(n)`, `.copied()` in any order (of
///   a thread's own elements `zip` with others of these, and `enumerate` of those with numbers);
///   over `y.rows()` and `y.each()` of other outputs; and behind all of these `.map(f)`,
///   `.filter(f)`, `.take_while(f)`, of closures and functions (behind which stand `enumerate`, and
///   behind `map` alone the other adapters);
/// * in place of the loop `sum`, `product`, `fold`, `any`, `all`, `find`, `position`, `min`, `max`
///   and those by a key or comparison, `last`, `for_each`, and `count` behind a closure (sums and
///   products not of `f16` and `bf16`, which round differently from machine to machine);
///   `contains`, of numbers in slices and ranges;
/// * operators and methods of numbers, `as`, `from`, `into`, their bytes, `checked_…` and
///   `overflowing_…`, `cmp` and its like with their `Ordering`; `max`, `min` and `swap` of std's,
///   also by `use`, `mem::replace` and `take` by these paths;
/// * structs, tuples, arrays, slices and parts of them, enums with fields; shared arrays and slices
///   that change places;
/// * operators of structs, where [`macro@device`] is above the `impl` of the operator's trait, or
///   above a struct and its `#[derive(PartialEq, PartialOrd)]`; `From`, `Index`, `IndexMut` and
///   `Iterator` of them in the same way; `Complex`, `Philox`;
/// * calls of [`macro@device`] functions and methods, also with closures as arguments, and of
///   closures in the function where they are;
/// * generics over types and constants, traits with `#[device]`, `unsafe` blocks;
/// * `assert!(condition, "message {x}")`, `assert_eq!` and `assert_ne!`, which fail the launch and
///   show two values at most, and `print!` and `println!`, of numbers as `{}` and `{name}`.
///
/// A condition that is known when the source is made (of a constant, a const parameter) leaves out
/// the other branch. Everything else is refused at its line, in words that name the remedy.
///
/// # Options
///
/// `#[kernel(block_threads = [16, 16])]` says how many threads the blocks of all launches have,
/// along each dimension, `max_block_threads = 256` how many they have at most in all, and with
/// either of them `min_blocks = 2` how many blocks a multiprocessor is to have room for. The values
/// are constants. Compilers of devices are told (`__launch_bounds__` in CUDA,
/// `reqd_work_group_size` in OpenCL), and a launch that disagrees is refused.
///
/// `#[kernel(crate = path)]` names the crate that the kernel language is in, if that is not
/// `::quipu`. The path has to lead to that crate, as the code that is written, with `unsafe`
/// blocks, believes what it finds there.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    options::of_kernel(options)
        .and_then(|options| kernel::expand(&options, syn::parse(item)?))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// A kernel where it is launched, with values of the code around it: a value whose method `call`
/// takes a kernel's arguments.
///
/// ```ignore
/// let factor = 2.0;
/// let scale = kernel_closure!([factor: f32] |_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>| {
///     for (i, y) in y.each() {
///         *y = factor * x[i];
///     }
/// });
/// queue.launch(y.len(), scale.call(&x, &mut y))?;
/// ```
///
/// In brackets are the values that it has from around it, with their types, as a kernel's source
/// needs them: `[a: f32, n: u32]`, also computed, `[half: f32 = a / 2.0]`, and changed in each
/// thread by itself, `[mut a: f32]`. The rest is a closure with parameters as a [`macro@kernel`]'s;
/// with barriers it is `async`. The value may be copied and passed on, and carries its values with
/// it.
///
/// Types are those that are known without the code around: a type parameter of the function that it
/// is written in is not. `kernel_closure!(crate = path, [a: f32] |…| …)` names the crate that the
/// kernel language is in.
#[proc_macro]
pub fn kernel_closure(item: TokenStream) -> TokenStream {
    syn::parse(item)
        .and_then(|item| closure::expand(&item))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Lets kernels call a function, or the functions of a trait or `impl` block. It stays the same for
/// all other callers.
///
/// ```ignore
/// #[device]
/// fn square<T: Float>(x: T) -> T {
///     x * x
/// }
///
/// #[device]
/// trait Shape {
///     fn area(&self) -> f32;
/// }
/// ```
///
/// Of an `impl` of `Add`, `AddAssign`, `Neg`, `PartialEq` and the like it makes the operator one of
/// kernels, and so it does with conversions (`From`), indices (`Index`, `IndexMut`) and iterators
/// (`Iterator`):
///
/// ```ignore
/// #[device]
/// impl Add for Vector {
///     type Output = Self;
///     fn add(self, other: Self) -> Self {
///         Self { x: self.x + other.x, y: self.y + other.y }
///     }
/// }
/// ```
///
/// Above a struct with a derived `PartialEq`, and `PartialOrd`, it makes these comparisons ones of
/// kernels. It stands above the derives:
///
/// ```ignore
/// #[device]
/// #[derive(Clone, Copy, PartialEq, PartialOrd, KernelData)]
/// #[repr(C)]
/// struct Version {
///     major: u32,
///     minor: u32,
/// }
/// ```
///
/// A parameter `f: impl Fn(u32) -> u32`, or of a type with such a bound, takes a closure.
///
/// It is written in the language of [`macro@kernel`]s, and may take `acc: &impl Accelerator<D>`
/// too; one that waits at barriers is an `async fn`. It may change its arguments by `&mut`. On a
/// processor it is inlined into its callers, where it is compiled for their vectors, unless it has
/// an `#[inline]` attribute of its own or is `#[cold]`.
#[proc_macro_attribute]
pub fn device(options: TokenStream, item: TokenStream) -> TokenStream {
    options::of_others(options)
        .and_then(|options| device::expand(&options, syn::parse(item)?))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Lets kernels compute with a struct, which has to be `#[repr(C)]` or `#[repr(transparent)]`
/// unless it has no fields, or an enum. One whose variants have no fields has to be of a known
/// integer, as `#[repr(u32)]`; one whose variants have fields is for values within kernels, and
/// lies in no buffer. All have to be `Copy`. A struct may be aligned to up to 16 bytes
/// (`#[repr(C, align(16))]`), which devices read at once; it cannot be packed.
///
/// The type is `KernelData` if its fields are, and so can be passed and lie in memory. With a
/// tuple, a `usize` or an `isize` among them it is a `KernelValue`: one to compute with, within
/// kernels.
///
/// `#[kernel_data(crate = path)]` names the crate that the kernel language is in, if that is not
/// `::quipu`.
#[proc_macro_derive(KernelData, attributes(kernel_data))]
pub fn derive_kernel_data(item: TokenStream) -> TokenStream {
    syn::parse(item)
        .and_then(|item| data::expand(&item))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[cfg(test)]
mod tests;

//! Calls of device functions.
//!
//! A function whose arguments are values becomes a function of the module, one for each set of type
//! parameters and types of arguments. One that is given a reference to a place, a part of the
//! accelerator, or the accelerator itself is written into its caller, as no target could pass
//! these. A call that is never reached is not written at all. A function that calls itself is
//! refused, directly or through others: it would be written for ever, or has no end on devices
//! without a stack.

use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{Operation, Statement, Type};

use super::control::inlined;
use super::expression::{Expr, is_indexed, variable};
use super::state::{self, Frame, Known, Mode, Raw, State};

/// A device function's arguments, and its identity.
#[derive(Debug)]
pub struct Callee {
    /// The user's name.
    pub name: &'static str,
    /// The type whose function it is.
    pub key: &'static str,
    /// The types that a generic one is made for.
    pub types: Vec<String>,
    /// The place where the user wrote it: file, line and column.
    pub place: (&'static str, u32, u32),
    /// True if it is always written into its caller.
    pub inline: bool,
    /// True if it takes closures, which may call it in turn without end to it: each is written
    /// where it is called.
    pub takes_closures: bool,
}

/// The most times that functions that take closures are written into themselves. Closures of one
/// function may have the same name. So a call of `twice` in the closure for `twice` is only told
/// from one without end by its depth.
const MOST_NESTED: usize = 16;

const RECURSION: &str = "a device function that calls itself, directly or through others, has no end on some devices; write a loop";

/// Calls a device function. `write` writes its body for arguments.
#[track_caller]
pub fn call<R: ?Sized, W: FnMut(&[Raw]) -> Expr<R>>(
    callee: &Callee,
    arguments: &[(&'static str, Raw)],
    mut write: W,
) -> Expr<R> {
    Expr::from_raw(call_raw(
        callee,
        arguments,
        // The type of the body tells functions of one trait apart that differ in the trait's
        // parameters: `Operator<u32>` and `Operator<f32>` of one operator.
        [std::any::type_name::<R>(), std::any::type_name::<W>()],
        &mut |arguments| write(arguments).raw(),
        Location::caller(),
    ))
}

fn call_raw(
    callee: &Callee,
    arguments: &[(&'static str, Raw)],
    types_of_body: [&'static str; 2],
    write: &mut dyn FnMut(&[Raw]) -> Raw,
    location: &'static Location<'static>,
) -> Raw {
    // The arguments of a call that is never reached may be no values, and the function would be
    // written for these. Such is the result of a loop, say, whose `break`s are not reached either.
    // And after a problem nothing is written that counts: two calls of itself in a function would
    // be written 2^16 times.
    if !state::current(|s| s.frame().is_live() && !s.has_problem()) {
        return Raw::Nothing;
    }
    // Evaluated here: the value in a place is copied out of it.
    let arguments: Vec<_> = state::at(location, |s| {
        arguments
            .iter()
            .map(|(name, raw)| (*name, s.frame().copied(*raw)))
            .collect()
    });
    let raws: Vec<_> = arguments.iter().map(|(_, raw)| *raw).collect();
    let types = state::at(location, |s| plain(s, &raws));
    let types = types.filter(|_| !callee.inline);
    let key = format!(
        "{} {:?} {:?} {types:?} {types_of_body:?}",
        callee.key, callee.types, callee.place,
    );
    let Some(types) = types else {
        let may_be_written = state::at(location, |s| {
            let most = if callee.takes_closures {
                MOST_NESTED
            } else {
                0
            };
            let around = s.inlined.iter().filter(|around| **around == key).count();
            if around > most {
                s.refuse(location, RECURSION);
                return false;
            }
            s.inlined.push(key);
            true
        });
        if !may_be_written {
            return Raw::Nothing;
        }
        let raw = inlined(&mut || write(&raws), location);
        state::at(location, |s| s.inlined.pop());
        return raw;
    };
    let known = state::at(location, |s| match s.functions.get(&key) {
        Some(Known::Done(id, result)) => Some(Some((*id, result.clone()))),
        Some(Known::InProgress) => {
            s.refuse(location, RECURSION);
            Some(None)
        }
        None => None,
    });
    let (id, result) = match known {
        Some(Some(known)) => known,
        Some(None) => return Raw::Nothing,
        None => {
            let parameters: Vec<_> = state::at(location, |s| {
                s.functions.insert(key.clone(), Known::InProgress);
                s.frames.push(Frame::new(callee.name));
                arguments
                    .iter()
                    .zip(&types)
                    .map(|((name, _), of)| match of {
                        Some(of) => Raw::Value(s.frame().function.parameter(name, of.clone())),
                        None => Raw::Nothing,
                    })
                    .collect::<Vec<_>>()
                    .into_iter()
                    .zip(&arguments)
                    .map(|(raw, (name, _))| {
                        if is_indexed(s, raw) {
                            variable(s, name, raw, location)
                        } else {
                            raw
                        }
                    })
                    .collect()
            });
            let raw = write(&parameters);
            state::at(location, |s| finish(s, callee, key, raw, location))
        }
    };
    state::at(location, |s| {
        let values = raws
            .iter()
            .filter(|raw| **raw != Raw::Nothing)
            .map(|raw| s.value(*raw, location))
            .collect();
        let call = Operation::Call(id, values);
        let of = result.clone().unwrap_or(Type::Unit);
        let value = s.frame().function.define(of, call);
        match result {
            Some(Type::Unit) => Raw::Nothing,
            Some(_) => Raw::Value(value),
            None => {
                // The code after it is never reached, and only a loop tells the source's compiler
                // so.
                let id = s.frame().function.loop_id();
                let (body, step) = (ir::Block::new(), ir::Block::new());
                let endless = Statement::Loop { id, body, step };
                s.frame().end_with(Some(endless));
                Raw::Nothing
            }
        }
    })
}

/// The types of arguments, if all are values.
fn plain(s: &mut State, arguments: &[Raw]) -> Option<Vec<Option<Type>>> {
    arguments
        .iter()
        .map(|raw| match raw {
            Raw::Nothing => Some(None),
            Raw::Value(_) => Some(s.frame().type_of(*raw)),
            Raw::Aggregate(_) => match s.frame().type_of(*raw) {
                Some(of @ (Type::Struct(_) | Type::Array(..))) => Some(Some(of)),
                _ => None,
            },
            Raw::Place(_, Mode::Reference | Mode::Itself) | Raw::Shared(_) => None,
        })
        .collect()
}

/// Ends the function that is being written.
fn finish(
    s: &mut State,
    callee: &Callee,
    key: String,
    raw: Raw,
    location: &'static Location<'static>,
) -> (ir::FunctionId, Option<Type>) {
    if s.frame().is_live() && raw != Raw::Nothing {
        let result = s.value(raw, location);
        s.frame().function.give(result);
    }
    let frame = s.frames.pop().unwrap_or_else(|| Frame::new(callee.name));
    let result = frame.result(raw);
    let (file, line, _) = callee.place;
    let of = result.clone().unwrap_or(Type::Unit);
    let function = frame.finish(of, ir::Location { file, line });
    let id = s.module.function(function);
    s.functions.insert(key, Known::Done(id, result.clone()));
    (id, result)
}

/// The target of a call of a function without `#[device]`.
///
/// A function is a value, and `#[device]` adds a type of its name, which writes calls. So a call
/// brings in all that there is of its function's name under one of these names, for the number of
/// its arguments, and these types for where there is no type.
pub mod plain {
    use std::marker::PhantomData;

    use super::Expr;
    use crate::emit::KernelValue;

    /// Nothing is.
    #[diagnostic::on_unimplemented(
        message = "kernels on other devices do not know this function",
        label = "write `#[device]` above its `fn`",
        note = "of a library's function, write what it does in a `#[device] fn` of your own; `swap`, `replace`, `take`, `max` and `min` of std's are known by their modules: `mem::swap`, `cmp::max`"
    )]
    pub trait Device {}

    /// A type that may have methods that kernels do not know.
    #[diagnostic::on_unimplemented(
        message = "kernels do not know this method",
        label = "not in the kernel language"
    )]
    pub trait Value: KernelValue {}

    impl<T: KernelValue> Value for T {}

    /// Nothing has a method without `#[device]`.
    #[diagnostic::on_unimplemented(
        message = "kernels on other devices do not know this method of `{Self}`",
        label = "write `#[device]` above the `impl` that has it, and above its trait",
        note = "of a method of std's, write what it does in a `#[device] fn` of your own"
    )]
    pub trait HasMethod {}

    /// The stand-in for such a function, of which no more is known.
    #[derive(Debug)]
    pub struct Plain;

    macro_rules! functions {
        ($($name:ident($($argument:ident),*);)*) => {$(
            #[allow(non_camel_case_types)]
            #[derive(Debug)]
            #[doc = "One with so many arguments."]
            pub struct $name<F = Plain>(PhantomData<F>);

            #[doc(hidden)]
            impl<F> $name<F> {
                pub fn __call<$($argument,)* R>($(_: $argument),*) -> Expr<R>
                where
                    F: Device,
                {
                    super::super::control::never()
                }
            }
        )*};
    }

    functions! {
        __function_0();
        __function_1(A);
        __function_2(A, B);
        __function_3(A, B, C);
        __function_4(A, B, C, D);
        __function_5(A, B, C, D, E);
        __function_6(A, B, C, D, E, G);
        __function_7(A, B, C, D, E, G, H);
    }
}

/// A parameter as it is in the function: of the type of the argument.
#[must_use]
pub fn rebound<T: ?Sized>(_: Expr<T>, raw: Raw) -> Expr<T> {
    Expr::from_raw(raw)
}

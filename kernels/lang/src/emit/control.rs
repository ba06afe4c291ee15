//! Branches and returns: the user's block in braces is written between two calls. Loops are in
//! `repeat.rs`.
//!
//! Code after a `return`, `break` or `continue` in its block is written and thrown away. A result
//! of a branch or loop goes through a variable.

use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{BinaryOperation, LocalId, Operation, Place, Root, Statement, Value};

use super::expression::Expr;
use super::state::{self, Mode, Raw, State, Target};

/// Ends a block, which gives this.
fn end(s: &mut State, raw: Raw) -> Written {
    let raw = if s.frame().is_live() {
        s.frame().copied(raw)
    } else {
        Raw::Nothing
    };
    let (block, live) = s.frame().end_block();
    (block, raw, live)
}

/// The joint result of several branches, of the `break`s of a loop, or of the `return`s of a
/// function.
#[derive(Default)]
pub(super) struct Joined {
    /// The variable that values go through.
    local: Option<(LocalId, ir::Type)>,
    /// The shared array that all of them gave that came to their end: it needs no variable.
    only: Option<Raw>,
    /// The joint results of the parts of a tuple that has slices, and so is no value.
    parts: Vec<Joined>,
}

impl Joined {
    /// Adds the store of a branch's result.
    pub(super) fn join(
        &mut self,
        s: &mut State,
        block: &mut ir::Block,
        raw: Raw,
        location: &'static Location<'static>,
    ) {
        match raw {
            Raw::Nothing => return,
            Raw::Shared(_) => {
                // The choice of an array cannot depend on a condition.
                match self.only {
                    Some(before) if before != raw => {
                        s.refuse(location, "every branch has to give the same shared array");
                    }
                    _ => self.only = Some(raw),
                }
                return;
            }
            // One to a slice is the slice.
            Raw::Place(_, Mode::Reference)
                if matches!(s.frame().type_of(raw), Some(ir::Type::Slice { .. })) => {}
            Raw::Place(_, Mode::Reference) => {
                s.refuse(
                    location,
                    "a reference cannot depend on a condition; choose an index, or write the branches with what is done to each",
                );
                return;
            }
            Raw::Aggregate(id) if s.frame().are_values(id) => {
                let parts = s.frame().parts(id).to_vec();
                self.parts.resize_with(parts.len(), Self::default);
                for (joined, part) in self.parts.iter_mut().zip(parts) {
                    joined.join(s, block, part, location);
                }
                return;
            }
            _ => {}
        }
        s.frame().begin_block();
        let value = s.value(raw, location);
        let of = s.frame().function.type_of(value).clone();
        let local = match &self.local {
            Some((local, _)) => *local,
            None => {
                let local = s.frame().function.declare(None, of.clone());
                self.local = Some((local, of));
                local
            }
        };
        s.frame().function.store_local(local, value);
        let (statements, _) = s.frame().end_block();
        block.extend(statements);
    }

    /// The statements that begin the variables, before the branches.
    pub(super) fn begin(&self, s: &mut State) {
        for part in &self.parts {
            part.begin(s);
        }
        if let Some((local, _)) = self.local {
            s.frame().function.push(Statement::Local {
                local,
                initial: None,
            });
        }
    }

    /// The result of the branches, after them.
    pub(super) fn result(self, s: &mut State) -> Raw {
        match self.local {
            Some((local, _)) => Raw::Value(s.frame().function.load_local(local)),
            None if self.parts.is_empty() => self.only.unwrap_or(Raw::Nothing),
            None => {
                let parts = self.parts.into_iter().map(|part| part.result(s)).collect();
                s.frame().aggregate(parts, None)
            }
        }
    }
}

/// A branch that is being written, which gives a `T`.
///
/// The block in braces in the user's source is written between two calls, and not in a closure:
/// each `if` would have closures of its own. They would be most of the time that a kernel adds to
/// the compilation of its crate.
///
/// 1. [`branch`], [`and`] or [`or`] begins it.
/// 2. If [`begins_then`](Self::begins_then), its first block is written, and
///    [`ends_then`](Self::ends_then) called with its result.
/// 3. The same with the other block, of a branch that has one.
/// 4. [`result`](Self::result) is the branch's result.
///
/// Of a condition that is known when the kernel is built only the block is written that is taken.
pub struct Branch<T: ?Sized> {
    known: Option<bool>,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for Branch<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Branch<T> {}

impl<T: ?Sized> std::fmt::Debug for Branch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Branch({:?})", self.known)
    }
}

/// A block that is written: its statements, its result, and true if its end is reached.
type Written = (ir::Block, Raw, bool);

/// The state of a branch while it is written.
pub(super) struct BranchState {
    condition: Value,
    /// Of `&&` and `||`, which one it is.
    short: Option<BinaryOperation>,
    then: Option<Written>,
    otherwise: Option<Written>,
    /// The result of the block that is taken, if that is known.
    known: Option<Raw>,
    location: &'static Location<'static>,
}

/// `if condition`.
#[track_caller]
pub fn branch<T: ?Sized>(condition: Expr<bool>) -> Branch<T> {
    Branch {
        known: branch_raw(condition.raw(), None, Location::caller()),
        of: PhantomData,
    }
}

/// `left && right`: its first block is the right side, and it has no other.
#[track_caller]
pub fn and(left: Expr<bool>) -> Branch<bool> {
    Branch {
        known: branch_raw(left.raw(), Some(BinaryOperation::And), Location::caller()),
        of: PhantomData,
    }
}

/// `left || right`: as [`and`].
#[track_caller]
pub fn or(left: Expr<bool>) -> Branch<bool> {
    let known = branch_raw(left.raw(), Some(BinaryOperation::Or), Location::caller());
    Branch {
        known: known.map(|is_true| !is_true),
        of: PhantomData,
    }
}

/// Begins a branch, and gives the value of its condition, if that is known.
fn branch_raw(
    condition: Raw,
    short: Option<BinaryOperation>,
    location: &'static Location<'static>,
) -> Option<bool> {
    state::at(location, |s| {
        let value = s.value(condition, location);
        let known = s.frame().known(Raw::Value(value)).map(|bits| bits != 0);
        s.frame().branches.push(BranchState {
            condition: value,
            short,
            then: None,
            otherwise: None,
            known: known.map(|_| Raw::Value(value)).filter(|_| short.is_some()),
            location,
        });
        known
    })
}

impl<T: ?Sized> Branch<T> {
    /// Begins the first block, unless it is never taken.
    pub fn begins_then(self) -> bool {
        begins_block(self.known.map(|known| !known))
    }

    /// Ends the first block, which gives this.
    pub fn ends_then(self, result: Expr<T>) {
        ends_block(self.known.is_some(), true, result.raw());
    }

    /// Begins the other block, unless it is never taken.
    pub fn begins_otherwise(self) -> bool {
        begins_block(self.known)
    }

    /// Ends the other block, which gives this.
    pub fn ends_otherwise(self, result: Expr<T>) {
        ends_block(self.known.is_some(), false, result.raw());
    }

    /// Ends the branch, and gives its result.
    pub fn result(self) -> Expr<T> {
        Expr::from_raw(end_branch(self.known.is_some()))
    }
}

/// Begins a block of a branch; not one that is known to be left out.
fn begins_block(left_out: Option<bool>) -> bool {
    if left_out.is_none() {
        state::current(|s| s.frame().begin_block());
    }
    left_out != Some(true)
}

fn ends_block(is_known: bool, is_then: bool, raw: Raw) {
    state::current(|s| {
        if is_known {
            if let Some(branch) = s.frame().branches.last_mut() {
                branch.known = Some(raw);
            }
            return;
        }
        let written = end(s, raw);
        if let Some(branch) = s.frame().branches.last_mut() {
            if is_then {
                branch.then = Some(written);
            } else {
                branch.otherwise = Some(written);
            }
        }
    });
}

fn end_branch(is_known: bool) -> Raw {
    let branch = state::current(|s| s.frame().branches.pop());
    let branch = branch.expect("every branch that ends has begun");
    let location = branch.location;
    if is_known {
        // A branch without the block that is taken gives nothing.
        return branch.known.unwrap_or(Raw::Nothing);
    }
    let empty = || (ir::Block::new(), Raw::Nothing, true);
    let then = branch.then.unwrap_or_else(empty);
    match branch.short {
        Some(operation) => joined_short(branch.condition, then, operation, location),
        None => {
            let otherwise = branch.otherwise.unwrap_or_else(empty);
            branched(branch.condition, then, otherwise, location)
        }
    }
}

/// Writes a branch of two blocks that are written.
fn branched(
    condition: Value,
    (mut then, then_raw, then_live): Written,
    (mut otherwise, otherwise_raw, otherwise_live): Written,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        if let (Raw::Value(first), Raw::Value(second)) = (then_raw, otherwise_raw)
            && is_cheap(&then)
            && is_cheap(&otherwise)
            && s.frame().function.type_of(first).scalar().is_some()
        {
            s.frame().push_all(then);
            s.frame().push_all(otherwise);
            return Raw::Value(s.frame().function.select(condition, first, second));
        }
        let (mut then_raw, mut otherwise_raw) = (then_raw, otherwise_raw);
        if then_live && otherwise_live {
            (then_raw, otherwise_raw) = as_slices(
                s,
                (&mut then, then_raw),
                (&mut otherwise, otherwise_raw),
                location,
            );
        }
        let mut joined = Joined::default();
        if then_live {
            joined.join(s, &mut then, then_raw, location);
        }
        if otherwise_live {
            joined.join(s, &mut otherwise, otherwise_raw, location);
        }
        joined.begin(s);
        let both_end = !then_live && !otherwise_live;
        s.frame().function.branch(condition, then, otherwise);
        if both_end {
            s.frame().end_with(None);
        }
        joined.result(s)
    })
}

/// The results of two branches, with slices in place of shared arrays where they give different
/// ones.
fn as_slices(
    s: &mut State,
    (then, one): (&mut ir::Block, Raw),
    (otherwise, other): (&mut ir::Block, Raw),
    location: &'static Location<'static>,
) -> (Raw, Raw) {
    if let (Raw::Aggregate(of_one), Raw::Aggregate(of_other)) = (one, other)
        && s.frame().type_of(one).is_none()
        && s.frame().parts(of_one).len() == s.frame().parts(of_other).len()
    {
        let [ones, others] = [of_one, of_other].map(|id| s.frame().parts(id).to_vec());
        let parts = ones.into_iter().zip(others);
        let parts = parts.map(|(one, other)| {
            as_slices(s, (&mut *then, one), (&mut *otherwise, other), location)
        });
        let (ones, others): (Vec<_>, Vec<_>) = parts.unzip();
        return (
            s.frame().aggregate(ones, None),
            s.frame().aggregate(others, None),
        );
    }
    if one == other {
        return (one, other);
    }
    let mut sliced = |block: &mut ir::Block, raw| {
        if !matches!(raw, Raw::Shared(_)) {
            return raw;
        }
        s.frame().begin_block();
        let slice = super::place::whole_slice(s, raw, location);
        let (statements, _) = s.frame().end_block();
        block.extend(statements);
        slice
    };
    (sliced(then, one), sliced(otherwise, other))
}

/// True if a block is a few operations without effects that cost little, so that it may be
/// evaluated for nothing.
fn is_cheap(block: &ir::Block) -> bool {
    const MOST: usize = 4;
    is_pure(block, MOST)
        && block.iter().all(|statement| {
            !matches!(
                statement,
                Statement::Define {
                    operation: Operation::Math(..),
                    ..
                }
            )
        })
}

/// True if a block is at most so many operations that change nothing and cannot be a fault.
fn is_pure(block: &ir::Block, most: usize) -> bool {
    block.len() <= most
        && block.iter().all(|statement| match statement {
            Statement::Define { operation, .. } => match operation {
                Operation::Literal(_)
                | Operation::Unary(..)
                | Operation::Cast(..)
                | Operation::Bitcast(..)
                | Operation::Math(..)
                | Operation::Length(_)
                | Operation::SharedLength(_)
                | Operation::Index(..)
                | Operation::Extent(..)
                | Operation::Field(..) => true,
                Operation::Binary(operation, ..) => !matches!(
                    operation,
                    BinaryOperation::Divide | BinaryOperation::Remainder
                ),
                Operation::Load(Place {
                    root: Root::Local(_),
                    path,
                }) => path.is_empty(),
                _ => false,
            },
            _ => false,
        })
}

/// `()`.
#[must_use]
pub fn nothing() -> Expr<()> {
    Expr::from_raw(Raw::Nothing)
}

/// An expression that never comes to be, of any type.
#[must_use]
pub fn never<T: ?Sized>() -> Expr<T> {
    Expr::from_raw(Raw::Nothing)
}

/// An expression whose value is not used.
pub fn discard<T: ?Sized>(_: Expr<T>) -> Expr<()> {
    nothing()
}

fn joined_short(
    left: Value,
    (mut block, raw, live): Written,
    operation: BinaryOperation,
    location: &'static Location<'static>,
) -> Raw {
    /// A printer puts the right side behind `&&` or `||`, where it is evaluated only if it decides.
    const MOST: usize = 16;
    let is_and = operation == BinaryOperation::And;
    state::at(location, |s| {
        if let (Raw::Value(right), true) = (raw, is_pure(&block, MOST)) {
            s.frame().push_all(block);
            return Raw::Value(s.frame().function.binary(operation, left, right));
        }
        let mut joined = Joined::default();
        s.frame().begin_block();
        let short = s.frame().literal(ir::Scalar::Bool, u64::from(!is_and));
        let (mut other, _) = s.frame().end_block();
        if live {
            joined.join(s, &mut block, raw, location);
        }
        joined.join(s, &mut other, Raw::Value(short), location);
        joined.begin(s);
        let (then, otherwise) = if is_and {
            (block, other)
        } else {
            (other, block)
        };
        s.frame().function.branch(left, then, otherwise);
        joined.result(s)
    })
}

/// `return value`; of a kernel `return`.
#[track_caller]
pub fn give<T: ?Sized>(value: Expr<T>) {
    give_raw(value.raw(), Location::caller());
}

fn give_raw(raw: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        if !s.frame().is_live() {
            return;
        }
        let raw = s.frame().copied(raw);
        let target = s.frame().returns.pop().unwrap_or(Target::Function);
        let target = match target {
            Target::Function => {
                let result = (raw != Raw::Nothing).then(|| s.value(raw, location));
                let of = result.map(|result| s.frame().function.type_of(result).clone());
                s.frame().result = Some(of.unwrap_or(ir::Type::Unit));
                s.frame().function.leave(result);
                s.frame().end_with(None);
                Target::Function
            }
            Target::Inlined { id, mut joined, .. } => {
                let mut block = ir::Block::new();
                joined.join(s, &mut block, raw, location);
                s.frame().push_all(block);
                s.frame().end_with(Some(Statement::Break(id)));
                Target::Inlined {
                    id,
                    used: true,
                    joined,
                }
            }
        };
        s.frame().returns.push(target);
    });
}

/// Writes a function into its caller. A `return` in it leaves a loop that runs once.
pub(super) fn inlined(write: &mut dyn FnMut() -> Raw, location: &'static Location<'static>) -> Raw {
    state::at(location, |s| {
        let id = s.frame().function.loop_id();
        s.frame().returns.push(Target::Inlined {
            id,
            used: false,
            joined: Joined::default(),
        });
    });
    state::at(location, |s| s.frame().begin_block());
    let raw = write();
    state::at(location, |s| {
        let live = s.frame().is_live();
        let raw = if live {
            s.frame().copied(raw)
        } else {
            Raw::Nothing
        };
        let (mut body, live) = s.frame().end_block();
        let Some(Target::Inlined {
            id,
            used,
            mut joined,
        }) = s.frame().returns.pop()
        else {
            return raw;
        };
        if !used {
            s.frame().push_all(body);
            if !live {
                s.frame().end_with(None);
            }
            return raw;
        }
        if live {
            joined.join(s, &mut body, raw, location);
            body.push(Statement::Break(id));
        }
        joined.begin(s);
        s.frame().function.push(Statement::Loop {
            id,
            body,
            step: ir::Block::new(),
        });
        joined.result(s)
    })
}

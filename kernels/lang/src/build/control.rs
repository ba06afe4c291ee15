//! Control flow: what the user writes in braces comes here as closures that write it.
//!
//! What follows a `return`, `break` or `continue` in its block is written and thrown away. A result of a branch or
//! loop goes through a variable.

use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{BinaryOperation, LocalId, LoopId, Operation, Place, Root, Statement, Value};

use super::expression::Expr;
use super::state::{self, Mode, Raw, State, Target};

/// Writes a block: its statements, what it gives, and whether its end is reached.
fn block<T: ?Sized>(
    location: &'static Location<'static>,
    write: impl FnOnce() -> Expr<T>,
) -> (ir::Block, Raw, bool) {
    begin(location);
    let raw = write().raw();
    end(raw, location)
}

fn begin(location: &'static Location<'static>) {
    state::at(location, |s| s.frame().begin_block());
}

fn end(raw: Raw, location: &'static Location<'static>) -> (ir::Block, Raw, bool) {
    state::at(location, |s| {
        let raw = if s.frame().is_live() {
            s.frame().copied(raw)
        } else {
            Raw::Nothing
        };
        let (block, live) = s.frame().end_block();
        (block, raw, live)
    })
}

/// A variable for the result of several branches.
struct Joined {
    local: Option<(LocalId, ir::Type)>,
    /// What the only branch that has come to its end gave, if that needs no variable.
    only: Option<Raw>,
}

impl Joined {
    /// Adds the store of what a branch gave.
    fn join(
        &mut self,
        s: &mut State,
        block: &mut ir::Block,
        raw: Raw,
        location: &'static Location<'static>,
    ) {
        match raw {
            Raw::Nothing => return,
            Raw::Shared(_) => {
                // Which array it is cannot depend on a condition.
                match self.only {
                    Some(before) if before != raw => {
                        s.refuse(location, "every branch has to give the same shared array");
                    }
                    _ => self.only = Some(raw),
                }
                return;
            }
            Raw::Place(_, Mode::Reference) => {
                s.refuse(
                    location,
                    "a reference cannot depend on a condition; choose an index, or write the branches with what is done to each",
                );
                return;
            }
            Raw::Aggregate(_) if s.frame().type_of(raw).is_none() => {
                s.frame().begin_block();
                let value = s.value(raw, location);
                let (statements, _) = s.frame().end_block();
                block.extend(statements);
                return self.join(s, block, Raw::Value(value), location);
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

    /// The statement that begins the variable, before the branches.
    fn begin(&self, s: &mut State) {
        if let Some((local, _)) = self.local {
            s.frame().function.push(Statement::Local {
                local,
                initial: None,
            });
        }
    }

    /// What the branches gave, after them.
    fn result(self, s: &mut State) -> Raw {
        match self.local {
            Some((local, _)) => Raw::Value(s.frame().function.load_local(local)),
            None => self.only.unwrap_or(Raw::Nothing),
        }
    }
}

const UNJOINED: Joined = Joined {
    local: None,
    only: None,
};

/// `if condition { then } else { otherwise }`. A condition that is known when the kernel is built has only the
/// branch written that is taken.
#[track_caller]
pub fn if_else<T: ?Sized>(
    condition: Expr<bool>,
    then: impl FnOnce() -> Expr<T>,
    otherwise: impl FnOnce() -> Expr<T>,
) -> Expr<T> {
    let location = Location::caller();
    let (condition, known) = known_value(condition.raw(), location);
    match known {
        Some(0) => return otherwise(),
        Some(_) => return then(),
        None => {}
    }
    let then = block(location, then);
    let otherwise = block(location, otherwise);
    Expr::from_raw(branched(condition, then, otherwise, location))
}

/// The value of a condition, and what it is if that is known.
fn known_value(raw: Raw, location: &'static Location<'static>) -> (Value, Option<u64>) {
    state::at(location, |s| (s.value(raw, location), s.frame().known(raw)))
}

/// Writes a branch of two blocks that are written.
fn branched(
    condition: Value,
    (mut then, then_raw, then_live): (ir::Block, Raw, bool),
    (mut otherwise, otherwise_raw, otherwise_live): (ir::Block, Raw, bool),
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
        let mut joined = UNJOINED;
        if then_live {
            joined.join(s, &mut then, then_raw, location);
        }
        if otherwise_live {
            joined.join(s, &mut otherwise, otherwise_raw, location);
        }
        joined.begin(s);
        let both_end = !then_live && !otherwise_live;
        s.frame().function.push(Statement::If {
            condition,
            then,
            otherwise,
        });
        if both_end {
            s.frame().end_with(None);
        }
        joined.result(s)
    })
}

/// `if condition { then }`.
#[track_caller]
pub fn if_then(condition: Expr<bool>, then: impl FnOnce() -> Expr<()>) -> Expr<()> {
    if_else(condition, then, nothing)
}

/// Whether a block has nothing in it that costs much, changes something, or may be a fault.
fn is_cheap(block: &ir::Block) -> bool {
    const MOST: usize = 4;
    block.len() <= MOST
        && block.iter().all(|statement| match statement {
            Statement::Define { operation, .. } => match operation {
                Operation::Literal(_)
                | Operation::Unary(..)
                | Operation::Cast(..)
                | Operation::Bitcast(..)
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

/// An expression whose value nobody wants.
pub fn discard<T: ?Sized>(_: Expr<T>) -> Expr<()> {
    nothing()
}

/// `left && right`.
#[track_caller]
pub fn and(left: Expr<bool>, right: impl FnOnce() -> Expr<bool>) -> Expr<bool> {
    short_circuit(left, right, BinaryOperation::And)
}

/// `left || right`.
#[track_caller]
pub fn or(left: Expr<bool>, right: impl FnOnce() -> Expr<bool>) -> Expr<bool> {
    short_circuit(left, right, BinaryOperation::Or)
}

#[track_caller]
fn short_circuit(
    left: Expr<bool>,
    right: impl FnOnce() -> Expr<bool>,
    operation: BinaryOperation,
) -> Expr<bool> {
    let location = Location::caller();
    let (left, known) = known_value(left.raw(), location);
    let is_and = operation == BinaryOperation::And;
    if let Some(known) = known {
        return if (known != 0) == is_and {
            right()
        } else {
            Expr::from_raw(Raw::Value(left))
        };
    }
    let right = block(location, right);
    Expr::from_raw(joined_short(left, right, operation, location))
}

fn joined_short(
    left: Value,
    (mut block, raw, live): (ir::Block, Raw, bool),
    operation: BinaryOperation,
    location: &'static Location<'static>,
) -> Raw {
    let is_and = operation == BinaryOperation::And;
    state::at(location, |s| {
        if let (Raw::Value(right), true) = (raw, is_cheap(&block)) {
            s.frame().push_all(block);
            return Raw::Value(s.frame().function.binary(operation, left, right));
        }
        let mut joined = UNJOINED;
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
        s.frame().function.push(Statement::If {
            condition: left,
            then,
            otherwise,
        });
        joined.result(s)
    })
}

/// A loop that is being written, whose `break`s give a `T`.
pub struct Loop<T: ?Sized> {
    id: LoopId,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for Loop<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Loop<T> {}

impl<T: ?Sized> std::fmt::Debug for Loop<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loop({})", self.id.0)
    }
}

/// What is known of a loop while it is written.
#[derive(Default)]
pub(super) struct LoopState {
    left: bool,
    joined: Option<(LocalId, ir::Type)>,
}

/// A loop: its body, then its step. What its `break`s give.
#[track_caller]
fn repeat<T: ?Sized>(body: impl FnOnce(Loop<T>) -> Expr<()>, step: impl FnOnce()) -> Expr<T> {
    let location = Location::caller();
    let id = new_loop(location);
    let (body, _, _) = block(location, || {
        body(Loop {
            id,
            of: PhantomData,
        })
    });
    let (step, _, _) = block(location, || {
        step();
        nothing()
    });
    Expr::from_raw(looped(id, body, step, location))
}

fn new_loop(location: &'static Location<'static>) -> LoopId {
    state::at(location, |s| {
        let id = s.frame().function.loop_id();
        s.frame().loops.insert(id, LoopState::default());
        id
    })
}

/// Writes a loop of two blocks that are written.
fn looped(
    id: LoopId,
    body: ir::Block,
    step: ir::Block,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let known = s.frame().loops.remove(&id).unwrap_or_default();
        let joined = Joined {
            local: known.joined,
            only: None,
        };
        joined.begin(s);
        s.frame().function.push(Statement::Loop { id, body, step });
        if !known.left {
            s.frame().end_with(None);
        }
        joined.result(s)
    })
}

/// `loop { body }`.
#[track_caller]
pub fn forever<T: ?Sized>(body: impl FnOnce(Loop<T>) -> Expr<()>) -> Expr<T> {
    repeat(body, || ())
}

/// `while condition { body }`.
#[track_caller]
pub fn while_loop(
    condition: impl FnOnce() -> Expr<bool>,
    body: impl FnOnce(Loop<()>) -> Expr<()>,
) -> Expr<()> {
    repeat::<()>(
        |this| {
            break_unless(condition(), this);
            body(this)
        },
        || (),
    )
}

/// A loop with a step after each round, which its body leaves by `break`.
#[track_caller]
pub(super) fn stepped(body: impl FnOnce(Loop<()>) -> Expr<()>, step: impl FnOnce()) {
    repeat::<()>(body, step);
}

/// `'label: { body }`, which `break 'label` leaves.
#[track_caller]
pub fn labelled<T: ?Sized>(body: impl FnOnce(Loop<T>) -> Expr<T>) -> Expr<T> {
    repeat::<T>(
        |this| {
            let result = body(this);
            break_with(this, result);
            nothing()
        },
        || (),
    )
}

/// Leaves a loop unless the condition holds.
#[track_caller]
pub(super) fn break_unless<T: ?Sized>(condition: Expr<bool>, this: Loop<T>) {
    let location = Location::caller();
    if_else(condition, nothing, || {
        state::at(location, |s| leave(s, this.id));
        nothing()
    });
}

fn leave(s: &mut State, id: LoopId) {
    if !s.frame().is_live() {
        return;
    }
    if let Some(known) = s.frame().loops.get_mut(&id) {
        known.left = true;
    }
    s.frame().end_with(Some(Statement::Break(id)));
}

/// `break`.
#[track_caller]
pub fn break_loop(this: Loop<()>) {
    break_with(this, nothing());
}

/// `break value`.
#[track_caller]
pub fn break_with<T: ?Sized>(this: Loop<T>, value: Expr<T>) {
    break_raw(this.id, value.raw(), Location::caller());
}

fn break_raw(id: LoopId, raw: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        if !s.frame().is_live() {
            return;
        }
        let local = s
            .frame()
            .loops
            .get_mut(&id)
            .and_then(|known| known.joined.take());
        let mut joined = Joined { local, only: None };
        let mut block = ir::Block::new();
        let raw = s.frame().copied(raw);
        joined.join(s, &mut block, raw, location);
        s.frame().push_all(block);
        if let Some(known) = s.frame().loops.get_mut(&id) {
            known.joined = joined.local;
        }
        leave(s, id);
    });
}

/// `continue`.
#[track_caller]
pub fn continue_loop<T: ?Sized>(this: Loop<T>) {
    continue_raw(this.id, Location::caller());
}

fn continue_raw(id: LoopId, location: &'static Location<'static>) {
    state::at(location, |s| {
        s.frame().end_with(Some(Statement::Continue(id)));
    });
}

/// A loop over this thread's own positions.
pub(super) fn elements(
    location: &'static Location<'static>,
    extent: Vec<Value>,
    body: impl FnOnce(Loop<()>, Vec<Value>) -> Expr<()>,
) {
    let (id, position) = state::at(location, |s| {
        let id = s.frame().function.loop_id();
        s.frame().loops.insert(id, LoopState::default());
        let position: Vec<_> = extent
            .iter()
            .map(|_| s.frame().function.value(ir::Scalar::Index.into(), None))
            .collect();
        (id, position)
    });
    let this = Loop {
        id,
        of: PhantomData,
    };
    let (body, _, _) = block(location, || body(this, position.clone()));
    state::at(location, |s| {
        s.frame().loops.remove(&id);
        s.frame().function.push(Statement::Elements {
            id,
            position,
            extent,
            body,
        });
    });
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
                if let Some(result) = result {
                    let of = s.frame().function.type_of(result).clone();
                    s.frame().result = Some(of);
                }
                s.frame().end_with(Some(Statement::Return(result)));
                Target::Function
            }
            Target::Inlined { id, result, .. } => {
                let mut joined = Joined {
                    local: result,
                    only: None,
                };
                let mut block = ir::Block::new();
                joined.join(s, &mut block, raw, location);
                s.frame().push_all(block);
                s.frame().end_with(Some(Statement::Break(id)));
                Target::Inlined {
                    id,
                    used: true,
                    result: joined.local,
                }
            }
        };
        s.frame().returns.push(target);
    });
}

/// Writes a function into its caller. A `return` in it leaves a loop that runs once.
#[track_caller]
pub(super) fn inlined<T: ?Sized>(write: impl FnOnce() -> Expr<T>) -> Expr<T> {
    let location = Location::caller();
    state::at(location, |s| {
        let id = s.frame().function.loop_id();
        s.frame().returns.push(Target::Inlined {
            id,
            used: false,
            result: None,
        });
    });
    state::at(location, |s| s.frame().begin_block());
    let raw = write().raw();
    Expr::from_raw(state::at(location, |s| {
        let live = s.frame().is_live();
        let raw = if live {
            s.frame().copied(raw)
        } else {
            Raw::Nothing
        };
        let (mut body, live) = s.frame().end_block();
        let Some(Target::Inlined { id, used, result }) = s.frame().returns.pop() else {
            return raw;
        };
        if !used {
            s.frame().push_all(body);
            if !live {
                s.frame().end_with(None);
            }
            return raw;
        }
        let mut joined = Joined {
            local: result,
            only: None,
        };
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
    }))
}

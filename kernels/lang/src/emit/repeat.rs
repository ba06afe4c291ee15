//! Loops, and ways out of them.
//!
//! A loop is written between two calls: [`begin_loop`] and [`end_loop`], or
//! [`begin_for`](super::begin_for) and [`end_loop`]. The function that begins it says which other
//! code is to be written at its end.

use std::marker::PhantomData;
use std::mem::take;
use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{LoopId, Statement, Value};

use super::control::{Joined, nothing};
use super::expression::Expr;
use super::state::{self, Raw, State};

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

/// Writes the step after each round of a loop.
type Step = Box<dyn FnOnce(&mut State)>;

/// The end of a loop.
enum End {
    /// A step after each round, which may do nothing.
    Step(Option<Step>),
    /// It is over a thread's own positions.
    Elements {
        position: Vec<Value>,
        extent: Vec<Value>,
    },
}

/// The state of a loop while it is written.
pub(super) struct LoopState {
    left: bool,
    joined: Joined,
    end: End,
    location: &'static Location<'static>,
}

fn begin(s: &mut State, end: End, location: &'static Location<'static>) -> LoopId {
    let id = s.frame().function.loop_id();
    let known = LoopState {
        left: false,
        joined: Joined::default(),
        end,
        location,
    };
    s.frame().loops.insert(id, known);
    s.frame().begin_block();
    id
}

/// Begins a `loop`, a `while`, or a block with a label, which is a loop that runs once.
#[track_caller]
pub fn begin_loop<T: ?Sized>() -> Loop<T> {
    let location = Location::caller();
    Loop {
        id: state::at(location, |s| begin(s, End::Step(None), location)),
        of: PhantomData,
    }
}

/// Begins a loop with a step after each round, which its body leaves by `break`.
pub(super) fn begin_stepped(
    s: &mut State,
    step: impl FnOnce(&mut State) + 'static,
    location: &'static Location<'static>,
) -> Loop<()> {
    Loop {
        id: begin(s, End::Step(Some(Box::new(step))), location),
        of: PhantomData,
    }
}

/// Begins a loop without a step.
pub(super) fn begin_unstepped(s: &mut State, location: &'static Location<'static>) -> Loop<()> {
    Loop {
        id: begin(s, End::Step(None), location),
        of: PhantomData,
    }
}

/// Begins a loop over this thread's own positions: also one of them.
pub(super) fn begin_elements(
    s: &mut State,
    extent: Vec<Value>,
    location: &'static Location<'static>,
) -> (Loop<()>, Vec<Value>) {
    let position: Vec<_> = extent
        .iter()
        .map(|_| s.frame().function.value(ir::Scalar::Index.into(), None))
        .collect();
    let end = End::Elements {
        position: position.clone(),
        extent,
    };
    let of = PhantomData;
    let id = begin(s, end, location);
    (Loop { id, of }, position)
}

/// Ends a loop, and gives the result of its `break`s.
pub fn end_loop<T: ?Sized>(this: Loop<T>) -> Expr<T> {
    Expr::from_raw(end_raw(this.id))
}

fn end_raw(id: LoopId) -> Raw {
    state::current(|s| end_id(s, id))
}

/// As [`end_loop`], of a loop that gives nothing.
pub(super) fn end(s: &mut State, this: Loop<()>) {
    end_id(s, this.id);
}

fn end_id(s: &mut State, id: LoopId) -> Raw {
    let known = s.frame().loops.remove(&id);
    let known = known.expect("every loop that ends has begun");
    s.locate(known.location);
    let (body, _) = s.frame().end_block();
    let step = match known.end {
        End::Elements { position, extent } => {
            s.frame().function.push(Statement::Elements {
                id,
                position,
                extent,
                body,
            });
            return Raw::Nothing;
        }
        End::Step(step) => step,
    };
    s.frame().begin_block();
    if let Some(step) = step {
        step(s);
    }
    let (step, _) = s.frame().end_block();
    known.joined.begin(s);
    s.frame().function.push(Statement::Loop { id, body, step });
    if !known.left {
        s.frame().end_with(None);
    }
    known.joined.result(s)
}

/// Leaves a loop unless the condition holds.
#[track_caller]
pub fn break_unless<T: ?Sized>(condition: Expr<bool>, this: Loop<T>) {
    let location = Location::caller();
    state::at(location, |s| {
        let condition = s.value(condition.raw(), location);
        break_unless_value(s, condition, this.id);
    });
}

/// As [`break_unless`].
pub(super) fn leave_unless(s: &mut State, condition: Value, this: Loop<()>) {
    break_unless_value(s, condition, this.id);
}

fn break_unless_value(s: &mut State, condition: Value, id: LoopId) {
    match s.frame().known(Raw::Value(condition)) {
        Some(0) => leave(s, id),
        Some(_) => {}
        None => {
            s.frame().begin_block();
            leave(s, id);
            let (otherwise, _) = s.frame().end_block();
            let function = &mut s.frame().function;
            function.branch(condition, ir::Block::new(), otherwise);
        }
    }
}

/// Goes on with the next round unless the condition holds.
#[track_caller]
pub fn continue_unless(condition: Expr<bool>, this: Loop<()>) {
    let location = Location::caller();
    state::at(location, |s| {
        let condition = s.value(condition.raw(), location);
        s.frame().begin_block();
        s.frame().end_with(Some(Statement::Continue(this.id)));
        let (otherwise, _) = s.frame().end_block();
        let function = &mut s.frame().function;
        function.branch(condition, ir::Block::new(), otherwise);
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
        let known = s.frame().loops.get_mut(&id);
        let mut joined = known
            .map(|known| take(&mut known.joined))
            .unwrap_or_default();
        let mut block = ir::Block::new();
        let raw = s.frame().copied(raw);
        joined.join(s, &mut block, raw, location);
        s.frame().push_all(block);
        if let Some(known) = s.frame().loops.get_mut(&id) {
            known.joined = joined;
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

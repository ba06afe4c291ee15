//! The function under construction, of this thread.
//!
//! Functions are written one operation at a time by [`FunctionBuilder`]. The state beside it holds
//! things that the kernel language needs and the representation has no name for: places and
//! aggregates that expressions stand for, the target of `return`, and the blocks that have ended,
//! so that code after a `return` or `break` is not written.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{
    ConstantId, FunctionBuilder, Literal, LoopId, ModuleBuilder, Place, Scalar, SharedId,
    Statement, StructId, Type, Value,
};

use super::control::{BranchState, Joined};
use super::error::BuildError;
use super::repeat::LoopState;

/// The thing that an expression stands for. Places and aggregates are numbers in the tables of the
/// function that is being written, so that this is `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Nothing: `()`, a value that never comes to be, and a value without bits.
    Nothing,
    /// A value.
    Value(Value),
    /// A place; as a reference (`&place`) or as itself.
    Place(PlaceId, Mode),
    /// Several together, not (yet) one value.
    Aggregate(AggregateId),
    /// A block-shared array.
    Shared(SharedId),
}

/// The meaning of a place: the value in it or a reference to it. A variable that is initialised
/// with the first holds a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The value in the place.
    Itself,
    /// A reference to it.
    Reference,
}

/// A number in the table of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceId(usize);

/// A number in the table of aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateId(usize);

/// The target of `return`.
pub(super) enum Target {
    /// Out of the function.
    Function,
    /// To the end of a function that is written into its caller: out of a loop that runs once.
    Inlined {
        id: LoopId,
        /// True if anything returns early.
        used: bool,
        joined: Joined,
    },
}

/// A function that is being written.
pub(super) struct Frame {
    pub(super) function: FunctionBuilder,
    places: Vec<(Place, Type)>,
    aggregates: Vec<(Vec<Raw>, Option<Type>)>,
    literals: HashMap<Value, Literal>,
    /// For each block that is being written, how long it was when its end became unreachable.
    ended: Vec<Option<usize>>,
    pub(super) returns: Vec<Target>,
    pub(super) loops: HashMap<LoopId, LoopState>,
    /// The branches that have begun, the innermost last.
    pub(super) branches: Vec<BranchState>,
    /// The type of the value of a `return`.
    pub(super) result: Option<Type>,
    /// The statements that come before all others.
    prologue: ir::Block,
    /// A thread's own part of each shared array that was asked for: its start and end.
    pub(super) own_parts: HashMap<SharedId, (Value, Value)>,
}

impl Frame {
    pub(super) fn new(name: &str) -> Self {
        Self {
            function: FunctionBuilder::new(name),
            places: Vec::new(),
            aggregates: Vec::new(),
            literals: HashMap::new(),
            ended: vec![None],
            returns: vec![Target::Function],
            loops: HashMap::new(),
            branches: Vec::new(),
            result: None,
            prologue: ir::Block::new(),
            own_parts: HashMap::new(),
        }
    }

    /// Ends a block whose statements come before all else.
    pub(super) fn end_prologue(&mut self) {
        let (block, _) = self.end_block();
        self.prologue.extend(block);
    }

    pub(super) fn place(&mut self, place: Place, place_type: Type, mode: Mode) -> Raw {
        self.places.push((place, place_type));
        Raw::Place(PlaceId(self.places.len() - 1), mode)
    }

    pub(super) fn place_of(&self, id: PlaceId) -> &(Place, Type) {
        &self.places[id.0]
    }

    /// The type of the value at a place that is in the table.
    pub(super) fn type_at(&self, place: &Place) -> Option<Type> {
        let known = self.places.iter().rev().find(|(known, _)| known == place);
        known.map(|(_, of)| of.clone())
    }

    pub(super) fn aggregate(&mut self, parts: Vec<Raw>, of: Option<Type>) -> Raw {
        self.aggregates.push((parts, of));
        Raw::Aggregate(AggregateId(self.aggregates.len() - 1))
    }

    pub(super) fn parts(&self, id: AggregateId) -> &[Raw] {
        &self.aggregates[id.0].0
    }

    pub(super) fn literal(&mut self, scalar: Scalar, bits: u64) -> Value {
        let value = self.function.literal(scalar, bits);
        self.literals.insert(value, Literal { scalar, bits });
        value
    }

    /// The bits of a value that is known.
    pub(super) fn known(&self, raw: Raw) -> Option<u64> {
        match raw {
            Raw::Value(value) => self.literals.get(&value).map(|literal| literal.bits),
            _ => None,
        }
    }

    /// Adds all scalars of an array to a list; false if not all of them are known.
    fn literals_of(&self, raw: Raw, found: &mut Vec<Literal>) -> bool {
        match raw {
            Raw::Value(value) => match self.literals.get(&value) {
                Some(literal) => {
                    found.push(*literal);
                    true
                }
                None => false,
            },
            Raw::Aggregate(id) => {
                matches!(self.aggregates[id.0].1, Some(Type::Array(..)))
                    && self.aggregates[id.0]
                        .0
                        .iter()
                        .all(|part| self.literals_of(*part, found))
            }
            _ => false,
        }
    }

    /// The type of the thing that an expression stands for; none for a value without bits.
    pub(super) fn type_of(&self, raw: Raw) -> Option<Type> {
        match raw {
            Raw::Nothing => None,
            Raw::Value(value) => Some(self.function.type_of(value).clone()),
            Raw::Place(id, _) => Some(self.places[id.0].1.clone()),
            Raw::Aggregate(id) => self.aggregates[id.0].1.clone(),
            Raw::Shared(_) => None,
        }
    }

    /// The value of the thing that an expression stands for.
    pub(super) fn value(&mut self, raw: Raw) -> Result<Value, &'static str> {
        match raw {
            Raw::Value(value) => Ok(value),
            Raw::Place(id, _) => {
                let (place, place_type) = self.places[id.0].clone();
                Ok(self.function.load(place, place_type))
            }
            Raw::Aggregate(id) => {
                let (parts, of) = self.aggregates[id.0].clone();
                let values = parts
                    .into_iter()
                    .map(|part| self.value(part))
                    .collect::<Result<Vec<_>, _>>()?;
                match of {
                    Some(Type::Struct(structure)) => {
                        Ok(self.function.structure(structure, &values))
                    }
                    Some(Type::Array(element, _)) => Ok(self.function.array(*element, &values)),
                    // Positions, extents and ranges.
                    None if self.are_numbers(id)
                        && let Some(element) = self.common_type(&values) =>
                    {
                        Ok(self.function.array(element, &values))
                    }
                    _ => Err(
                        "this is no value that a variable can hold, or that branches can give: write it where it is used",
                    ),
                }
            }
            Raw::Nothing => Err("this has no bits, and so is no value on a device; leave it out"),
            Raw::Shared(_) => Err("a shared array is no value; take a slice of its elements"),
        }
    }

    /// The type that all of these have.
    fn common_type(&self, values: &[Value]) -> Option<Type> {
        let (first, rest) = values.split_first()?;
        let of = self.function.type_of(*first);
        let is_common = rest.iter().all(|value| self.function.type_of(*value) == of);
        is_common.then(|| of.clone())
    }

    /// True if the parts of an aggregate that is no value yet can be one: of a position, an extent
    /// or a range.
    pub(super) fn are_numbers(&self, id: AggregateId) -> bool {
        let (parts, of) = &self.aggregates[id.0];
        let is_number = |part: &Raw| self.type_of(*part).is_some_and(|of| of.scalar().is_some());
        of.is_none() && !parts.is_empty() && parts.iter().all(is_number)
    }

    /// True if the parts of an aggregate that is no value, as it has slices, are values each.
    pub(super) fn are_values(&self, id: AggregateId) -> bool {
        let (parts, of) = &self.aggregates[id.0];
        of.is_none()
            && !self.are_numbers(id)
            && parts.iter().all(|part| {
                matches!(
                    part,
                    Raw::Value(_) | Raw::Shared(_) | Raw::Place(_, Mode::Itself)
                )
            })
    }

    /// The thing that an expression stands for, with values in places copied out of them;
    /// references stay.
    pub(super) fn copied(&mut self, raw: Raw) -> Raw {
        match raw {
            Raw::Place(id, Mode::Itself) => {
                let (place, place_type) = self.places[id.0].clone();
                Raw::Value(self.function.load(place, place_type))
            }
            Raw::Aggregate(id) => {
                let (parts, of) = self.aggregates[id.0].clone();
                let copied: Vec<_> = parts.iter().map(|part| self.copied(*part)).collect();
                if copied == parts {
                    raw
                } else {
                    self.aggregate(copied, of)
                }
            }
            _ => raw,
        }
    }

    pub(super) fn begin_block(&mut self) {
        self.function.begin_block();
        self.ended.push(None);
    }

    /// Ends a block: its statements, and whether its end is reached.
    pub(super) fn end_block(&mut self) -> (ir::Block, bool) {
        let mut block = self.function.end_block();
        let ended = self.ended.pop().flatten();
        if let Some(length) = ended {
            block.truncate(length);
        }
        (block, ended.is_none())
    }

    /// True if the code that is written now is reached.
    pub(super) fn is_live(&self) -> bool {
        self.ended.iter().all(Option::is_none)
    }

    /// Adds the last statement of the block: code after it is never reached.
    pub(super) fn end_with(&mut self, statement: Option<Statement>) {
        if let Some(statement) = statement {
            self.function.push(statement);
        }
        let length = self.function.statements();
        if let Some(ended @ None) = self.ended.last_mut() {
            *ended = Some(length);
        }
    }

    pub(super) fn push_all(&mut self, block: ir::Block) {
        for statement in block {
            self.function.push(statement);
        }
    }

    /// The type of the function's result: of a value that it was seen to return, or of the end of
    /// its body. None, if neither that end nor a `return` is reached.
    pub(super) fn result(&self, last: Raw) -> Option<Type> {
        let of_end = || {
            self.is_live()
                .then(|| self.type_of(last).unwrap_or(Type::Unit))
        };
        self.result.clone().or_else(of_end)
    }

    /// The finished device function.
    pub(super) fn finish(mut self, result: Type, location: ir::Location) -> ir::Function {
        let (block, _) = self.end_block();
        self.function.begin_block();
        self.push_all(block);
        self.function
            .returning(result)
            .written_at(location)
            .function()
    }
}

/// The state of a device function.
pub(super) enum Known {
    /// It is being written: a function that calls it now is called by it.
    InProgress,
    /// It is there, and gives this; nothing at all, if it never comes to an end.
    Done(ir::FunctionId, Option<Type>),
}

/// The module under construction.
pub struct State {
    pub(super) module: ModuleBuilder,
    pub(super) structs: HashMap<String, StructId>,
    pub(super) shared_types: Vec<Type>,
    /// The constants in memory so far.
    constants: HashMap<(Type, Vec<Literal>), ConstantId>,
    pub(super) functions: HashMap<String, Known>,
    pub(super) frames: Vec<Frame>,
    /// The device functions that are being written into their callers, the innermost last.
    pub(super) inlined: Vec<String>,
    /// Of the kernel's grid.
    pub(super) dimensions: u8,
    problem: Option<BuildError>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl State {
    fn new(kernel: &str, dimensions: u8) -> Self {
        Self {
            module: ModuleBuilder::new(),
            structs: HashMap::new(),
            shared_types: Vec::new(),
            constants: HashMap::new(),
            functions: HashMap::new(),
            frames: vec![Frame::new(kernel)],
            inlined: Vec::new(),
            dimensions,
            problem: None,
        }
    }

    /// The function that is being written.
    pub(super) fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a function is being written")
    }

    /// Sets the source place of the statements that are written next.
    pub(super) fn locate(&mut self, location: &Location<'static>) {
        self.frame().function.at(Some(ir::Location {
            file: location.file(),
            line: location.line(),
        }));
    }

    /// True if something was refused.
    pub(super) fn has_problem(&self) -> bool {
        self.problem.is_some()
    }

    /// Keeps the first problem. Code that is never reached is thrown away, and has none: the result
    /// there of a loop that nothing leaves, say, is no value.
    ///
    /// Where rustc has seen fields, a length, a view, a shared array or a part of an output, and
    /// there is none here, a problem before it has left that, or it is never reached. Its refusal
    /// is not reported unless something is lost here.
    pub(super) fn refuse(&mut self, location: &Location<'static>, problem: &str) {
        if self.frames.last().is_some_and(|frame| !frame.is_live()) {
            return;
        }
        self.problem
            .get_or_insert_with(|| BuildError::refused(location, problem));
    }

    /// The type and all scalars of an array of constants that can be in the memory for them.
    pub(super) fn constant_values(&mut self, raw: Raw) -> Option<(Type, Vec<Literal>)> {
        /// More than that is not put there, as some devices have no more in all than four times
        /// that.
        const MOST_BYTES: usize = 16 << 10;
        let Some(of @ Type::Array(..)) = self.frame().type_of(raw) else {
            return None;
        };
        let mut values = Vec::new();
        if !self.frame().literals_of(raw, &mut values) || values.len() * 8 > MOST_BYTES {
            return None;
        }
        let is_finite = |literal: &Literal| match literal.scalar {
            Scalar::F32 => f32::from_bits(literal.bits as u32).is_finite(),
            Scalar::F64 => f64::from_bits(literal.bits).is_finite(),
            _ => true,
        };
        values.iter().all(is_finite).then_some((of, values))
    }

    /// An array of constants as a place in the memory for them, if it is one.
    pub(super) fn constant(&mut self, raw: Raw) -> Option<Raw> {
        let key = self.constant_values(raw)?;
        let of = key.0.clone();
        let id = match self.constants.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.module.constant(None, of.clone(), key.1.clone());
                self.constants.insert(key, id);
                id
            }
        };
        Some(self.frame().place(Place::constant(id), of, Mode::Itself))
    }

    /// The value of the thing that an expression stands for; a zero after a problem.
    pub(super) fn value(&mut self, raw: Raw, location: &'static Location<'static>) -> Value {
        match self.frame().value(raw) {
            Ok(value) => value,
            Err(problem) => {
                self.refuse(location, problem);
                self.frame().function.i32_literal(0)
            }
        }
    }
}

thread_local! {
    /// The module under construction; none outside of [`build`]. It has no destructor: a kernel may
    /// be written in that of another thread-local.
    static STATE: ManuallyDrop<Cell<Option<Box<State>>>> = const { ManuallyDrop::new(Cell::new(None)) };
}

/// The module under construction, taken from its thread-local; it goes back there when this is
/// dropped. So users' crates compile little more than the function itself for each function that
/// writes something.
struct Current(Option<Box<State>>);

impl Current {
    fn take() -> Self {
        Self(STATE.with(|state| state.take()))
    }

    fn take_at(location: &'static Location<'static>) -> Self {
        let mut current = Self::take();
        current.state().locate(location);
        current
    }

    fn state(&mut self) -> &mut State {
        self.0
            .as_mut()
            .expect("the functions that write a kernel's source are called while one is written")
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        STATE.with(|state| state.set(self.0.take()));
    }
}

/// Does something to the module under construction, as the user wrote it at this place.
pub(super) fn at<R>(location: &'static Location<'static>, work: impl FnOnce(&mut State) -> R) -> R {
    work(Current::take_at(location).state())
}

/// As [`at`], at the source place of the last written statement.
pub(super) fn current<R>(work: impl FnOnce(&mut State) -> R) -> R {
    work(Current::take().state())
}

/// Writes a module: its kernel, and whatever that calls.
///
/// # Errors
/// The first problem.
pub fn build(
    name: &str,
    dimensions: usize,
    write: &mut dyn FnMut(),
) -> Result<ir::Module, BuildError> {
    /// Leaves nothing behind, also when `write` panics.
    struct Restore(Option<Box<State>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            STATE.with(|state| state.set(self.0.take()));
        }
    }

    let dimensions = u8::try_from(dimensions).unwrap_or(u8::MAX);
    let outer =
        Restore(STATE.with(|state| state.replace(Some(Box::new(State::new(name, dimensions))))));
    write();
    let state = STATE.with(|state| state.take());
    drop(outer);
    let mut state = state.expect("what was put there is there");
    if let Some(problem) = state.problem {
        return Err(problem);
    }
    let mut frame = state.frames.pop().expect("a function is being written");
    let (block, _) = frame.end_block();
    frame.function.begin_block();
    let prologue = std::mem::take(&mut frame.prologue);
    frame.push_all(prologue);
    frame.push_all(block);
    let kernel = frame.function.kernel(dimensions);
    let module = state.module.finish(kernel);
    module.verify_uniformity().map_err(BuildError::of)?;
    Ok(module)
}

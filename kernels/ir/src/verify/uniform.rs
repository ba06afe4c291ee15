//! The uniformity analysis: whether every thread of a block reaches each barrier, every thread of
//! the grid each barrier of the grid, and every thread of a warp each function of a warp, as far as
//! the source shows it. On devices anything else is undefined: a value that is read behind a
//! barrier may not be written yet.
//!
//! It is the analysis of WebGPU's shading language (W3C, "WebGPU Shading Language", chapter
//! "Uniformity"), for structured control flow and with levels for warps and for the grid. It
//! computes for each value the threads for which it is [the same](Same), and for each statement the
//! threads that reach it [together](Way):
//!
//! | value | the same for | reason |
//! |---|---|---|
//! | constants, passed values, extents, lengths, the size of a warp | the grid | the launch has one of each |
//! | the block's index, and the number of threads that a barrier has counted | the block | the block has one of each |
//! | a value that [`Operation::AssumeUniform`] names | the grid | the kernel vouches for it |
//! | votes of a warp | the warp | the warp has one of each |
//! | in blocks of one dimension, the thread's index divided by the size of a warp | the warp | it is the warp's number |
//! | an element of memory that the kernel only reads | the threads for which its index is the same | nobody writes it |
//! | an element of shared memory | the threads of a block for which its index is the same | a thread that writes there meanwhile would race |
//! | an element of global memory that the kernel writes | no others | other blocks may write in between |
//! | the result of an atomic operation | no others | each thread gets its own |
//! | a value that is computed | the threads for which all operands are the same | |
//! | a variable | the threads for which all written values are the same, and that reach each write together | |
//! | a field of a struct or tuple | as a variable of its own | |
//!
//! Threads whose condition may differ no longer run together: in the branches of such an `if`, and
//! in each round of a loop that is left by such a condition. If threads leave from within such an
//! `if`, those after it do not run together either, up to the end of the statement that is left, or
//! the next round of the loop that is continued. The rounds of a loop over a thread's own elements
//! are that thread's own.
//!
//! Everything begins as the same for the grid, and is reduced until nothing changes any more.
//! Barriers are checked after that. A device function is analysed for each kind of arguments with
//! which it is called.
//!
//! The macro has an analysis of the same name (`phases/uniform.rs` there), which chooses the native
//! form of a block. It sees tokens without types, before generics are known and functions are
//! inlined, so it may always say no. This one must say yes wherever the source shows uniformity, so
//! it runs on the result of all that. It must also say yes wherever the macro does: for parameters
//! that are read, extents, properties, and values computed from these. The corpus of `quipu-kernel`
//! runs such kernels natively and prints them.

use std::collections::{HashMap, HashSet};

use crate::function::{Function, FunctionId, LocalId, Location, Value};
use crate::module::Module;
use crate::operation::{BinaryOperation, Operation, Origin, Unit, WarpOperation};
use crate::statement::{Block, LoopId, Place, Projection, Root, Statement};
use crate::types::{Space, Type};

use super::sameness::{Known, Same};
use super::{VerifyError, walk};

/// The threads that come to a statement together, and the cause that parted the others.
#[derive(Clone, Copy, Debug)]
struct Way {
    same: Same,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    /// An `if`, or the condition of a loop.
    Condition(Option<Location>),
    /// A loop over a thread's own elements.
    Elements(Option<Location>),
}

impl Way {
    /// Nothing has parted these.
    const ALL: Self = Self {
        same: Same::Grid,
        cause: Cause::Condition(None),
    };

    fn or(self, other: Self) -> Self {
        if other.same > self.same { other } else { self }
    }
}

/// The target of threads that leave, and those that leave together.
struct Jump {
    to: Target,
    way: Way,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Return,
    Break(LoopId),
    Continue(LoopId),
}

/// The end of a statement or block.
struct End {
    /// Its end may be reached.
    is_reached: bool,
    /// The threads that leave together, while others reach the end.
    left: Way,
    jumps: Vec<Jump>,
}

impl End {
    const REACHED: Self = Self {
        is_reached: true,
        left: Way::ALL,
        jumps: Vec::new(),
    };

    fn jump(to: Target, way: Way) -> Self {
        Self {
            is_reached: false,
            left: Way::ALL,
            jumps: vec![Jump { to, way }],
        }
    }

    /// The end of two blocks of which one is run, by threads that come together within the
    /// condition.
    fn of_either(mut self, other: Self, within: Way) -> Self {
        let left = |end: &Self| if end.is_reached { end.left } else { within };
        self.left = left(&self).or(left(&other));
        self.is_reached |= other.is_reached;
        self.jumps.extend(other.jumps);
        self
    }

    /// The end of a loop, once it is left: by threads that leave more than the loop.
    fn of_loop(mut self, id: LoopId) -> Self {
        self.jumps
            .retain(|jump| jump.to != Target::Break(id) && jump.to != Target::Continue(id));
        let jumps = self.jumps.iter();
        self.left = jumps.fold(Way::ALL, |left, jump| left.or(jump.way));
        self
    }
}

/// The findings of a function and all that it calls.
#[derive(Clone)]
struct Outcome {
    result: Known,
    /// The sameness of values that it writes through slices of its caller's variables, if any.
    written: Option<Same>,
    /// The threads that have to come to it together, if it has barriers or functions of a warp.
    needs: Option<Same>,
    problem: Option<VerifyError>,
}

/// Checks a module, which is valid otherwise.
pub(super) fn verify(module: &Module) -> Result<(), VerifyError> {
    let mut is_together = false;
    for function in module.functions.iter().chain([&module.kernel.function]) {
        walk(&function.body, &mut |statement| {
            is_together |= match statement {
                Statement::Barrier(_) | Statement::GridBarrier(_) => true,
                Statement::Define { operation, .. } => need(operation).is_some(),
                _ => false,
            };
        });
    }
    if !is_together {
        return Ok(());
    }
    let function = &module.kernel.function;
    let parameters: Vec<_> = function
        .parameters
        .iter()
        .map(|parameter| {
            let mut known = Known::of(Same::Grid);
            let of = &function.values[parameter.0 as usize].value_type;
            if let Type::Slice { mutable: true, .. } = of {
                known.content = Same::Thread;
            }
            known
        })
        .collect();
    let mut functions = HashMap::new();
    Walk::outcome(module, function, &parameters, &mut functions)
        .problem
        .map_or(Ok(()), Err)
}

/// The threads that have to come to an operation together.
fn need(operation: &Operation) -> Option<Same> {
    match operation {
        Operation::BarrierCount(_) => Some(Same::Block),
        Operation::Warp(WarpOperation::Size | WarpOperation::Lane, _) => None,
        Operation::Warp(..) => Some(Same::Warp),
        _ => None,
    }
}

type Functions = HashMap<(FunctionId, Vec<Known>), Outcome>;

/// One walk after the other through a function, until nothing changes.
struct Walk<'w, 'm> {
    module: &'m Module,
    function: &'m Function,
    functions: &'w mut Functions,
    values: Vec<Known>,
    locals: Vec<Known>,
    /// Variables that there are slices of.
    sliced: HashSet<LocalId>,
    /// The sameness of values written through slices of variables, if any.
    written: Option<Same>,
    /// The threads that are still there in the second round of a loop.
    loops: HashMap<LoopId, Way>,
    zeros: HashSet<Value>,
    /// The thread's number in the block, in whatever width.
    threads: HashSet<Value>,
    /// The size of a warp, too.
    sizes: HashSet<Value>,
    result: Known,
    needs: Option<Same>,
    problem: Option<VerifyError>,
    has_changed: bool,
}

impl<'w, 'm> Walk<'w, 'm> {
    fn outcome(
        module: &'m Module,
        function: &'m Function,
        parameters: &[Known],
        functions: &'w mut Functions,
    ) -> Outcome {
        let mut this = Self {
            module,
            function,
            functions,
            values: vec![Known::of(Same::Grid); function.values.len()],
            locals: vec![Known::of(Same::Grid); function.locals.len()],
            sliced: HashSet::new(),
            written: None,
            loops: HashMap::new(),
            zeros: HashSet::new(),
            threads: HashSet::new(),
            sizes: HashSet::new(),
            result: Known::of(Same::Grid),
            needs: None,
            problem: None,
            has_changed: false,
        };
        for (parameter, known) in function.parameters.iter().zip(parameters) {
            this.values[parameter.0 as usize] = known.clone();
        }
        loop {
            this.has_changed = false;
            this.problem = None;
            this.block(&function.body, Way::ALL);
            if !this.has_changed {
                return Outcome {
                    result: this.result,
                    written: this.written,
                    needs: this.needs,
                    problem: this.problem,
                };
            }
        }
    }

    fn known(&self, value: Value) -> Known {
        self.values[value.0 as usize].clone()
    }

    fn same(&self, value: Value) -> Same {
        self.values[value.0 as usize].same
    }

    fn all(&self, values: &[Value]) -> Same {
        let values = values.iter().map(|value| self.same(*value));
        values.fold(Same::Grid, Same::max)
    }

    fn block(&mut self, block: &'m Block, mut way: Way) -> End {
        let mut end = End::REACHED;
        for statement in block {
            let after = self.statement(statement, way);
            // Threads that have left are met again outside of this block.
            way = way.or(after.left);
            end.left = end.left.or(after.left);
            end.jumps.extend(after.jumps);
            if !after.is_reached {
                end.is_reached = false;
                break;
            }
        }
        end
    }

    fn statement(&mut self, statement: &'m Statement, way: Way) -> End {
        match statement {
            Statement::Define { value, operation } => {
                if let Some(need) = need(operation) {
                    let location = self.function.values[value.0 as usize].location;
                    self.demand(need, way, location);
                }
                let known = self.operation(*value, operation, way);
                self.has_changed |= raise(&mut self.values[value.0 as usize], &known);
            }
            Statement::Local { local, initial } => {
                if let Some(initial) = initial {
                    self.assigned(*local, &[], &self.known(*initial));
                }
            }
            Statement::Store { place, value, .. } => self.store(place, *value, way),
            Statement::If {
                condition,
                then,
                otherwise,
                location,
            } => {
                let within = way.or(Way {
                    same: self.same(*condition),
                    cause: Cause::Condition(*location),
                });
                let then = self.block(then, within);
                let otherwise = self.block(otherwise, within);
                return then.of_either(otherwise, within);
            }
            Statement::Loop { id, body, step } => return self.rounds(*id, body, step, way),
            Statement::Elements {
                id, position, body, ..
            } => {
                let first = position.first();
                let location = first.and_then(|at| self.function.values[at.0 as usize].location);
                for position in position {
                    self.values[position.0 as usize] = Known::of(Same::Thread);
                }
                let within = way.or(Way {
                    same: Same::Thread,
                    cause: Cause::Elements(location),
                });
                let end = self.block(body, within).of_loop(*id);
                return End {
                    is_reached: true,
                    ..end
                };
            }
            Statement::Break(id) => return End::jump(Target::Break(*id), way),
            Statement::Continue(id) => return End::jump(Target::Continue(*id), way),
            Statement::Return { value, .. } => {
                if let Some(value) = value {
                    let known = self.known(*value).or(&Known::of(way.same));
                    self.has_changed |= raise(&mut self.result, &known);
                }
                return End::jump(Target::Return, way);
            }
            Statement::Barrier(location) => self.demand(Same::Block, way, *location),
            Statement::GridBarrier(location) => self.demand(Same::Grid, way, *location),
            Statement::Fence(..) | Statement::Assert { .. } | Statement::Print { .. } => {}
        }
        End::REACHED
    }

    fn rounds(&mut self, id: LoopId, body: &'m Block, step: &'m Block, way: Way) -> End {
        let within = self.loops.get(&id).map_or(way, |known| way.or(*known));
        let mut end = self.block(body, within);
        let comes_again =
            end.is_reached || end.jumps.iter().any(|jump| jump.to == Target::Continue(id));
        if comes_again {
            // Threads that have continued are there again.
            end.jumps.extend(self.block(step, within).jumps);
            let stay = |jump: &&Jump| jump.to != Target::Continue(id);
            let left = end.jumps.iter().filter(stay);
            let left = left.fold(within, |left, jump| left.or(jump.way));
            if left.same > within.same {
                self.loops.insert(id, left);
                self.has_changed = true;
            }
        }
        end.is_reached = end.jumps.iter().any(|jump| jump.to == Target::Break(id));
        end.of_loop(id)
    }

    /// Something is written to a variable, or to a part of it.
    fn assigned(&mut self, local: LocalId, path: &[Projection], known: &Known) {
        let of = &self.function.locals[local.0 as usize].local_type;
        let known = self.written_to(&self.locals[local.0 as usize], of, path, known);
        self.has_changed |= raise(&mut self.locals[local.0 as usize], &known);
    }

    /// The facts of something of a type, once this is written to a part of it.
    fn written_to(&self, before: &Known, of: &Type, path: &[Projection], known: &Known) -> Known {
        match (path.split_first(), of) {
            (None, _) => before.or(known),
            (Some((Projection::Field(at), rest)), Type::Struct(id)) => {
                let (fields, at) = (&self.module.structure(*id).fields, *at as usize);
                let of = &fields[at].field_type;
                let field = self.written_to(&before.field(at), of, rest, known);
                before.with_field(at, fields.len(), field)
            }
            // Of an array one fact holds for all elements.
            (Some(_), _) => before.or(&Known::of(known.same)),
        }
    }

    /// Something is written through a slice of a variable.
    fn wrote(&mut self, same: Same) {
        self.has_changed |= Some(same) > self.written;
        self.written = self.written.max(Some(same));
    }

    fn store(&mut self, place: &Place, value: Value, way: Way) {
        let known = self
            .known(value)
            .or(&Known::of(way.same.max(self.indices(place))));
        match place.root {
            Root::Local(local) => self.assigned(local, &place.path, &known),
            Root::Slice(slice) if self.is_private(slice) => {
                self.wrote(known.same.max(self.same(slice)));
            }
            Root::Slice(_) | Root::Shared(_) | Root::Constant(_) => {}
        }
    }

    fn is_private(&self, slice: Value) -> bool {
        matches!(
            self.function.values[slice.0 as usize].value_type,
            Type::Slice {
                space: Space::Private,
                ..
            }
        )
    }

    /// The threads that see the same memory behind a slice.
    fn reach(&self, slice: Value) -> Same {
        match self.function.values[slice.0 as usize].value_type {
            Type::Slice {
                space: Space::Shared,
                ..
            } => Same::Block,
            _ => Same::Grid,
        }
    }

    /// The sameness of the value at one place in a slice.
    fn content(&self, slice: Value) -> Same {
        let content = self.values[slice.0 as usize].content;
        match self.written {
            Some(written) if self.is_private(slice) => content.max(written),
            _ => content,
        }
    }

    /// Of all indices in a place.
    fn indices(&self, place: &Place) -> Same {
        let indices = place.path.iter().map(|step| match step {
            Projection::Index { index, .. } => self.same(*index),
            Projection::Field(_) => Same::Grid,
        });
        indices.fold(Same::Grid, Same::max)
    }

    fn local(&self, local: LocalId) -> Known {
        let known = &self.locals[local.0 as usize];
        match self.written {
            Some(written) if self.sliced.contains(&local) => known.or(&Known::of(written)),
            _ => known.clone(),
        }
    }

    fn load(&self, place: &Place) -> Known {
        let indices = Known::of(self.indices(place));
        match place.root {
            Root::Local(local) => {
                let path = place.path.iter();
                let part = path.fold(self.local(local), |whole, step| match step {
                    Projection::Field(at) => whole.field(*at as usize),
                    Projection::Index { .. } => Known::of(whole.same),
                });
                part.or(&indices)
            }
            Root::Slice(slice) => {
                let same = self.same(slice).max(self.content(slice));
                indices.or(&Known::of(same.max(self.reach(slice))))
            }
            Root::Shared(_) => indices.or(&Known::of(Same::Block)),
            Root::Constant(_) => indices,
        }
    }

    fn operation(&mut self, value: Value, operation: &Operation, way: Way) -> Known {
        let same = match operation {
            Operation::Literal(literal) => {
                if literal.bits == 0 {
                    self.zeros.insert(value);
                }
                Same::Grid
            }
            Operation::Load(place) => return self.load(place),
            Operation::Slice { place, range, .. } => {
                let range = range.map_or(Same::Grid, |(start, end)| self.all(&[start, end]));
                let known = Known::of(range.max(self.indices(place)));
                return match place.root {
                    Root::Local(local) => {
                        self.has_changed |= self.sliced.insert(local);
                        Known {
                            content: self.locals[local.0 as usize].same,
                            ..known
                        }
                    }
                    Root::Slice(slice) => known.or(&self.values[slice.0 as usize]),
                    Root::Shared(_) | Root::Constant(_) => known,
                };
            }
            Operation::Call(callee, arguments) => return self.call(value, *callee, arguments, way),
            Operation::Struct(_, fields) => {
                let fields = fields.iter().map(|field| self.known(*field));
                return Known::structure(fields.collect());
            }
            Operation::Field(whole, at) => {
                return self.values[whole.0 as usize].field(*at as usize);
            }
            Operation::Select(condition, first, second) => {
                let values = self.known(*first).or(&self.values[second.0 as usize]);
                return values.or(&Known::of(self.same(*condition)));
            }
            Operation::SharedLength(_)
            | Operation::Extent(..)
            | Operation::Property(_)
            | Operation::AssumeUniform(_)
            | Operation::Index(Origin::Thread, ..) => Same::Grid,
            Operation::BarrierCount(_) | Operation::Index(Origin::Grid, Unit::Blocks, _) => {
                Same::Block
            }
            Operation::Index(..) | Operation::Atomic { .. } | Operation::Clock => {
                if self.module.kernel.dimensions == 1
                    && matches!(operation, Operation::Index(Origin::Block, Unit::Threads, _))
                {
                    self.threads.insert(value);
                }
                Same::Thread
            }
            Operation::Warp(operation, operands) => {
                if *operation == WarpOperation::Size {
                    self.sizes.insert(value);
                }
                self.warp(*operation, operands)
            }
            Operation::Cast(of, to) => {
                // Both fit in 32 bits, and a sign.
                if to.is_integer() && to.size().is_none_or(|bytes| bytes >= 4) {
                    for numbers in [&mut self.threads, &mut self.sizes] {
                        if numbers.contains(of) {
                            numbers.insert(value);
                        }
                    }
                }
                self.same(*of)
            }
            Operation::Binary(BinaryOperation::Divide, thread, size)
                if self.threads.contains(thread) && self.sizes.contains(size) =>
            {
                Same::Warp
            }
            Operation::Unary(..)
            | Operation::Binary(..)
            | Operation::Bitcast(..)
            | Operation::Math(..)
            | Operation::Length(_)
            | Operation::Array(..)
            | Operation::Repeat(..) => self.all(&operation.operands()),
        };
        Known::of(same)
    }

    fn warp(&self, operation: WarpOperation, operands: &[Value]) -> Same {
        match (operation, operands) {
            (WarpOperation::Size, _) => Same::Grid,
            // The last of a block may have fewer threads.
            (WarpOperation::ActiveMask | WarpOperation::Ballot, _) => Same::Warp,
            (WarpOperation::All | WarpOperation::Any, _) => self.all(operands).min(Same::Warp),
            // There always is a first lane.
            (WarpOperation::Shuffle, [value, lane]) if self.zeros.contains(lane) => {
                self.same(*value).min(Same::Warp)
            }
            (
                WarpOperation::Shuffle
                | WarpOperation::ShuffleUp
                | WarpOperation::ShuffleDown
                | WarpOperation::ShuffleXor,
                [value, ..],
            ) => self.same(*value),
            _ => Same::Thread,
        }
    }

    fn call(&mut self, value: Value, id: FunctionId, arguments: &[Value], way: Way) -> Known {
        let known: Vec<_> = arguments
            .iter()
            .map(|argument| Known {
                content: self.content(*argument),
                ..self.known(*argument)
            })
            .collect();
        let key = (id, known);
        let outcome = match self.functions.get(&key) {
            Some(outcome) => outcome.clone(),
            None => {
                let callee = self.module.function(id);
                let outcome = Walk::outcome(self.module, callee, &key.1, self.functions);
                self.functions.insert(key, outcome.clone());
                outcome
            }
        };
        if let Some(need) = outcome.needs {
            let location = self.function.values[value.0 as usize].location;
            self.demand(need, way, location);
        }
        if let Some(problem) = outcome.problem {
            self.problem.get_or_insert(problem);
        }
        if let Some(written) = outcome.written {
            self.wrote(written.max(way.same));
        }
        outcome.result
    }

    /// Demands that the threads that have to come to a place together do so.
    fn demand(&mut self, need: Same, way: Way, location: Option<Location>) {
        self.needs = Some(self.needs.map_or(need, |before| before.min(need)));
        if way.same <= need || self.problem.is_some() {
            return;
        }
        self.problem = Some(VerifyError {
            function: Some(self.function.name.clone()),
            statement: None,
            location: location.or(self.function.location),
            problem: words(need, way.cause, location),
        });
    }
}

/// Adds to what is known; true if that changes it.
fn raise(slot: &mut Known, known: &Known) -> bool {
    let raised = slot.or(known);
    let has_changed = *slot != raised;
    *slot = raised;
    has_changed
}

/// The fault, and the remedy.
fn words(need: Same, cause: Cause, here: Option<Location>) -> String {
    let (of, what, known) = match need {
        Same::Grid => (
            "the grid",
            "barrier of the grid",
            "a value that is passed, or an element of memory that is only read",
        ),
        Same::Block => (
            "a block",
            "barrier",
            "a value that is passed, or a vote (`acc.sync_block_threads_or(…)`)",
        ),
        _ => (
            "a warp",
            "function of a warp",
            "a value that is passed, a vote (`acc.warp_any(…)`), or which warp of its block it is (`acc.index(Block, Threads)[0] / acc.warp_size() as usize`, in blocks of one \
             dimension, and not by the index in the grid)",
        ),
    };
    let at = |location: Option<Location>| match (location, here) {
        (Some(at), Some(here)) if at.file == here.file => format!("line {}", at.line),
        (Some(Location { file, line }), _) => format!("{file}:{line}"),
        (None, _) => "a place before it".to_owned(),
    };
    let (why, instead) = match cause {
        Cause::Elements(location) => (
            format!(
                "the loop in {} is over a thread's own elements, of which some have more than others",
                at(location)
            ),
            "go over `acc.uniform_elements(n)`, or do this behind the loop".to_owned(),
        ),
        Cause::Condition(location) => (
            format!(
                "what is asked in {} may have another answer for some of them",
                at(location)
            ),
            format!(
                "have all of them come to it, some with nothing to do before and after; or ask what is the same for all, as a length, \
                 {known}. Where it is the same for a reason that cannot be seen, say so with \
                 `unsafe {{ acc.assume_uniform(…) }}`"
            ),
        ),
    };
    format!("every thread of {of} has to come to a {what}, and {why}; {instead}")
}

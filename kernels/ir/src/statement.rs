//! Statements, and the places they read and write.

use crate::function::{LocalId, Location, Value};
use crate::module::{ConstantId, SharedId};
use crate::operation::{FenceOrder, Operation, Scope};

/// Statements, one after the other.
pub type Block = Vec<Statement>;

/// Number of a loop in its function, for `break` and `continue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(pub u32);

/// A place in memory: where it starts, and the way from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The start of the path.
    pub root: Root,
    /// Fields and elements on the way.
    pub path: Vec<Projection>,
}

/// The start of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A variable.
    Local(LocalId),
    /// The elements of a slice: the path starts with an index.
    Slice(Value),
    /// A block-shared array: the path starts with an index.
    Shared(SharedId),
    /// A constant, which is only read.
    Constant(ConstantId),
}

/// One step on the way to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// A field of a struct, by position.
    Field(u32),
    /// An element of a slice, shared array or array.
    Index {
        /// The index: of any integer type.
        index: Value,
        /// False if the user vouches, or the builder knows, that it is in bounds. True: out of
        /// bounds is a fault.
        checked: bool,
    },
}

/// A statement of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Defines a value. An operation that is done for its effects only has one, too, of type `Unit`
    /// maybe.
    Define {
        /// The value.
        value: Value,
        /// Its operation.
        operation: Operation,
    },
    /// A variable begins, with a value at first or not yet: then it is stored to before it is
    /// loaded from.
    Local {
        /// The variable.
        local: LocalId,
        /// Its first value.
        initial: Option<Value>,
    },
    /// Writes a place.
    Store {
        /// The destination.
        place: Place,
        /// The value to store.
        value: Value,
        /// Its place in the user's source.
        location: Option<Location>,
    },
    /// `if`.
    If {
        /// A `bool`.
        condition: Value,
        /// If it is true.
        then: Block,
        /// If not.
        otherwise: Block,
        /// Its place in the user's source.
        location: Option<Location>,
    },
    /// For ever, until a `Break` or `Return`. Its end leads to its begin.
    Loop {
        /// Its number.
        id: LoopId,
        /// The repeated block.
        body: Block,
        /// The block between two rounds, after the body's end and after `Continue`: a step of a
        /// counter. Without `Break` and `Continue` of this loop, and without `Return`.
        step: Block,
    },
    /// Runs the body for each position of an extent that is this thread's own: of all threads of
    /// the grid, exactly one has each position. Which is the target's choice: neighbouring
    /// positions on a CPU, on a GPU those that are as many apart as the grid has threads, so that
    /// neighbouring threads have neighbouring positions.
    Elements {
        /// Its number, for `Break` and `Continue`.
        id: LoopId,
        /// Defined for the body: the position, of type `Index`, one value for each dimension of the
        /// grid.
        position: Vec<Value>,
        /// The number of positions along each dimension, of type `Index`.
        extent: Vec<Value>,
        /// The block for each position.
        body: Block,
    },
    /// Leaves a loop.
    Break(LoopId),
    /// Goes to a loop's step.
    Continue(LoopId),
    /// Leaves the function.
    Return {
        /// Its result, if it has one.
        value: Option<Value>,
        /// Its place in the user's source.
        location: Option<Location>,
    },
    /// Waits until every thread of the block is here. Memory accesses before it happen before those
    /// after it. With where the user wrote it.
    Barrier(Option<Location>),
    /// Waits until every thread of the grid is here. Otherwise as [`Barrier`](Self::Barrier).
    GridBarrier(Option<Location>),
    /// Orders memory accesses of this thread before it and after it, for the threads of the scope.
    Fence(Scope, FenceOrder),
    /// Fails the launch, with a message, if the condition is false; the thread goes on.
    Assert {
        /// A `bool`.
        condition: Value,
        /// The message, with `{}` for each value in turn.
        message: String,
        /// At most two words of 64 bits, which
        /// [`FunctionBuilder::word`](crate::FunctionBuilder::word) makes of values.
        values: Vec<Value>,
        /// The scalar types of the values, which are words.
        shown: Vec<crate::Scalar>,
        /// Its place in the user's source.
        location: Option<Location>,
    },
    /// Prints on the host: a text, with `{}` for each value in turn.
    Print {
        /// The text.
        format: String,
        /// Scalars.
        values: Vec<Value>,
        /// Its place in the user's source.
        location: Option<Location>,
    },
}

impl Statement {
    /// The blocks inside of it, to be changed.
    pub(crate) fn blocks_mut(&mut self) -> Vec<&mut Block> {
        match self {
            Self::If {
                then, otherwise, ..
            } => vec![then, otherwise],
            Self::Loop { body, step, .. } => vec![body, step],
            Self::Elements { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }

    /// The values that it uses itself, to be replaced.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Self::Define { operation, .. } => operation.operands_mut(),
            Self::Local { initial, .. } => initial.iter_mut().collect(),
            Self::Store { place, value, .. } => {
                let mut values = place.values_mut();
                values.push(value);
                values
            }
            Self::If { condition, .. } => vec![condition],
            Self::Elements { extent, .. } => extent.iter_mut().collect(),
            Self::Return { value, .. } => value.iter_mut().collect(),
            Self::Assert {
                condition, values, ..
            } => [condition].into_iter().chain(values).collect(),
            Self::Print { values, .. } => values.iter_mut().collect(),
            Self::Loop { .. }
            | Self::Break(_)
            | Self::Continue(_)
            | Self::Barrier(_)
            | Self::GridBarrier(_)
            | Self::Fence(..) => Vec::new(),
        }
    }
}

impl Place {
    /// The values in it, to be replaced.
    pub(crate) fn values_mut(&mut self) -> Vec<&mut Value> {
        let root = match &mut self.root {
            Root::Slice(value) => Some(value),
            Root::Local(_) | Root::Shared(_) | Root::Constant(_) => None,
        };
        let path = self.path.iter_mut().filter_map(|step| match step {
            Projection::Index { index, .. } => Some(index),
            Projection::Field(_) => None,
        });
        root.into_iter().chain(path).collect()
    }

    /// A variable as a whole.
    #[must_use]
    pub fn local(local: LocalId) -> Self {
        Self {
            root: Root::Local(local),
            path: Vec::new(),
        }
    }

    /// An element of a slice, its index checked.
    #[must_use]
    pub fn element(slice: Value, index: Value) -> Self {
        Self {
            root: Root::Slice(slice),
            path: Vec::new(),
        }
        .at(index)
    }

    /// An element of a slice, of whose index it is known that it is in bounds.
    #[must_use]
    pub fn element_unchecked(slice: Value, index: Value) -> Self {
        Self {
            root: Root::Slice(slice),
            path: vec![Projection::Index {
                index,
                checked: false,
            }],
        }
    }

    /// A slice as a whole.
    #[must_use]
    pub fn slice(slice: Value) -> Self {
        Self {
            root: Root::Slice(slice),
            path: Vec::new(),
        }
    }

    /// A shared array as a whole.
    #[must_use]
    pub fn shared(shared: SharedId) -> Self {
        Self {
            root: Root::Shared(shared),
            path: Vec::new(),
        }
    }

    /// A constant in memory.
    #[must_use]
    pub fn constant(constant: ConstantId) -> Self {
        Self {
            root: Root::Constant(constant),
            path: Vec::new(),
        }
    }

    /// An element of the value here, its index checked.
    #[must_use]
    pub fn at(mut self, index: Value) -> Self {
        self.path.push(Projection::Index {
            index,
            checked: true,
        });
        self
    }

    /// A field of the value here.
    #[must_use]
    pub fn field(mut self, field: u32) -> Self {
        self.path.push(Projection::Field(field));
        self
    }
}

//! The generator of kernels: random, well typed, and with one meaning.
//!
//! What Rust leaves open is left out, so that whatever differs is a mistake: the sign and the bits
//! of a NaN are looked at by nobody, nor is which zero `min` and `max` of two zeros give. Loops end
//! after some rounds. Divisors are not zero and indices are in bounds, but in kernels that are
//! meant to fail ([`Maker::faults`]).

mod expression;
mod function;
mod kernel;
mod loops;
mod number;
mod phases;
mod statement;
mod write;

pub use kernel::{Function, Kernel, Parameter, Passing, Shape, kernel};

use crate::random::Random;
use crate::tree::Expression;
use crate::types::{Scalar, Type};

/// Something with a name.
#[derive(Clone, Debug)]
struct Variable {
    name: String,
    of: Type,
    is_mutable: bool,
}

/// A struct of a kernel.
#[derive(Clone, Debug)]
struct Structure {
    name: String,
    /// Its fields; those of a tuple struct are called by their numbers.
    fields: Vec<(String, Scalar)>,
    is_tuple: bool,
    /// True if it lies in memory the same everywhere.
    is_data: bool,
}

/// An enum of a kernel, whose variants are called by their places.
#[derive(Clone, Debug)]
struct Enumeration {
    name: String,
    variants: usize,
}

/// A device function or closure.
#[derive(Clone, Debug)]
struct Callable {
    name: String,
    parameters: Vec<Argument>,
    result: Scalar,
}

/// A parameter of a device function.
#[derive(Clone, Debug)]
enum Argument {
    Value(Scalar),
    Mutable(Scalar),
    Slice(Scalar),
}

/// Loops that can be left or continued.
#[derive(Clone, Debug)]
struct LoopScope {
    label: Option<String>,
    /// Neither `continue` nor a `break` without a label are for blocks, nor a `break` without a
    /// value for loops with one.
    is_plain: bool,
    /// True if a `break` may leave it.
    is_left: bool,
}

/// The maker of one kernel.
#[derive(Debug)]
pub(crate) struct Maker {
    random: Random,
    /// The kernel's name, which those of its items begin with.
    name: String,
    variables: Vec<Variable>,
    closures: Vec<Callable>,
    structures: Vec<Structure>,
    enumerations: Vec<Enumeration>,
    functions: Vec<Callable>,
    /// Inputs: slices.
    inputs: Vec<(String, Scalar)>,
    /// Inputs: slices of structs, enums and arrays.
    aggregates: Vec<(String, Type)>,
    /// Inputs: views, with their dimensions.
    views: Vec<(String, Scalar, usize)>,
    /// A small `usize` in scope, if there is one.
    counters: Vec<String>,
    loops: Vec<LoopScope>,
    /// Of the grid.
    dimensions: usize,
    /// The value of a `return`, where there may be one.
    returns: Option<Type>,
    names: usize,
    /// The number of loops around.
    depth: usize,
    /// The number of indices around the code that is written.
    indices: usize,
    /// The budget of statements and expressions that is left.
    budget: usize,
    /// True if `usize` and `isize` are used for more than indices; then they are of 64 bits.
    wide: bool,
    /// True if divisions and indices may fail.
    faults: bool,
    /// True if elements may see whose they are, and leave something for the next.
    is_ordered: bool,
    /// True if there is an accelerator to ask.
    has_accelerator: bool,
    /// Variables that all threads of a block change together, for the rounds of loops around
    /// barriers and between them.
    agreed: Vec<(String, Scalar)>,
    /// The labels of loops that all threads of a block may leave together.
    rounds: Vec<String>,
    /// Device functions with barriers.
    waiting: Vec<Callable>,
    /// The number of barriers that may still be written.
    barriers: usize,
    /// The memory in which the threads of a block count, with the method that they do it by.
    counted: Vec<(Parameter, &'static str)>,
    /// The memory that the threads of a block write by unsafe methods: its name, and the number of
    /// elements for each.
    scattered: Vec<(String, Type, usize)>,
}

/// The variables in scope, to be restored later.
struct Scope {
    variables: usize,
    closures: usize,
    counters: usize,
    inputs: usize,
    agreed: usize,
    aggregates: usize,
}

impl Maker {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn enter(&self) -> Scope {
        Scope {
            variables: self.variables.len(),
            closures: self.closures.len(),
            counters: self.counters.len(),
            inputs: self.inputs.len(),
            agreed: self.agreed.len(),
            aggregates: self.aggregates.len(),
        }
    }

    fn leave(&mut self, scope: &Scope) {
        self.variables.truncate(scope.variables);
        self.closures.truncate(scope.closures);
        self.counters.truncate(scope.counters);
        self.inputs.truncate(scope.inputs);
        self.agreed.truncate(scope.agreed);
        self.aggregates.truncate(scope.aggregates);
    }

    fn define(&mut self, name: &str, of: Type, is_mutable: bool) {
        self.variables.push(Variable {
            name: name.to_owned(),
            of,
            is_mutable,
        });
    }

    /// A variable that is not shadowed, for which something holds.
    fn variable(&mut self, holds: impl Fn(&Variable) -> bool) -> Option<Variable> {
        let found: Vec<usize> = (0..self.variables.len())
            .filter(|&at| {
                let one = &self.variables[at];
                let is_shadowed = self.variables[at + 1..]
                    .iter()
                    .any(|later| later.name == one.name);
                !is_shadowed && holds(one)
            })
            .collect();
        if found.is_empty() {
            return None;
        }
        // Recent ones are of more interest.
        let at = self
            .random
            .below(found.len())
            .max(self.random.below(found.len()));
        Some(self.variables[found[at]].clone())
    }

    /// A scalar type of those that this kernel uses.
    fn any_scalar(&mut self) -> Scalar {
        if self.wide && self.random.chance(25) {
            return *self.random.pick(&[Scalar::Usize, Scalar::Isize]);
        }
        *self.random.pick(&Scalar::FIXED)
    }

    fn any_integer(&mut self) -> Scalar {
        loop {
            let scalar = self.any_scalar();
            if scalar.is_integer() {
                return scalar;
            }
        }
    }

    /// A type of what is in memory, which is of one size everywhere.
    fn any_data(&mut self) -> Type {
        let structures: Vec<usize> = (0..self.structures.len())
            .filter(|number| self.structures[*number].is_data)
            .collect();
        match self.random.below(12) {
            0..3 if !structures.is_empty() => Type::Struct(*self.random.pick(&structures)),
            3 if !self.enumerations.is_empty() => {
                Type::Enum(self.random.below(self.enumerations.len()))
            }
            4 => Type::Array(*self.random.pick(&Scalar::FIXED), 1 + self.random.below(3)),
            _ => Type::Scalar(*self.random.pick(&Scalar::FIXED)),
        }
    }

    /// As [`any_data`](Self::any_data), of which all-zero bytes are a value.
    fn any_zeroed(&mut self) -> Type {
        loop {
            let of = self.any_data();
            if !matches!(of, Type::Enum(_)) {
                return of;
            }
        }
    }

    /// Something to read, by its name.
    fn add_input(&mut self, name: &str, of: &Type) {
        match of {
            Type::Scalar(of) => self.inputs.push((name.to_owned(), *of)),
            of => self.aggregates.push((name.to_owned(), of.clone())),
        }
    }

    /// The inputs that are slices, not shared arrays.
    fn slices(&self) -> Vec<(String, Scalar)> {
        let is_slice = |(name, _): &&(String, Scalar)| name.starts_with('x');
        self.inputs.iter().filter(is_slice).cloned().collect()
    }

    /// True, and takes from what may be written.
    fn spend(&mut self) -> bool {
        if self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        true
    }

    /// Without what is around: for closures, and conditions of loops.
    fn outside_loops<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        let loops = std::mem::take(&mut self.loops);
        let returns = self.returns.take();
        let result = write(self);
        self.loops = loops;
        self.returns = returns;
        result
    }
}

impl Variable {
    /// The text by which its parts are reached: of a borrowed value as of another.
    fn whole(&self) -> &str {
        self.name.trim_start_matches('*')
    }
}

/// A text of a scalar type.
fn text(of: Scalar, text: impl Into<String>) -> Expression {
    Expression::text(Type::Scalar(of), text)
}

//! Checks everything that this crate's documentation demands of a module.
//!
//! | file | checks |
//! |---|---|
//! | here | structs, shared arrays, the kernel's parameters, that no function calls itself |
//! | `function` | statements: definitions before uses, variables assigned before they are loaded, loops, returns |
//! | `operation` | operations: types of operands and results |
//! | `place` | places: the way to them, and whether they may be written |
//! | `sameness` | the uniformity analysis' knowledge of a value |
//! | `uniform` | that threads come to barriers, and to functions of a warp, together |

mod function;
mod operation;
mod place;
mod sameness;
mod uniform;

use std::fmt;

use crate::function::{FunctionId, Location};
use crate::module::{Module, ParameterKind, SharedLength};
use crate::operation::Operation;
use crate::statement::{Block, Statement};
use crate::types::{MOST_ALIGNMENT, Scalar, Space, Type};

pub(crate) use place::place_type;

/// A fault of a module, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct VerifyError {
    /// The function, if it is in one.
    pub function: Option<String>,
    /// The statement, as the way to it: `body[2].then[0]`.
    pub statement: Option<String>,
    /// Its place in the user's source, as far as that is known.
    pub location: Option<Location>,
    /// The fault.
    pub problem: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel's representation is not valid: ")?;
        if let Some(function) = &self.function {
            write!(f, "in `{function}`")?;
            if let Some(statement) = &self.statement {
                write!(f, ", {statement}")?;
            }
            if let Some(Location { file, line }) = self.location {
                write!(f, " ({file}:{line})")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)
    }
}

impl VerifyError {
    fn of_module(problem: String) -> Self {
        Self {
            function: None,
            statement: None,
            location: None,
            problem,
        }
    }
}

/// The result of a check; its error is the fault, in words.
type Checked<T = ()> = Result<T, String>;

/// Fails with a message if a condition does not hold.
macro_rules! demand {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use demand;

impl Module {
    /// Checks everything that this crate's documentation demands of a module.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.verify_structs().map_err(VerifyError::of_module)?;
        self.verify_shared().map_err(VerifyError::of_module)?;
        self.verify_constants().map_err(VerifyError::of_module)?;
        self.verify_calls()?;
        self.verify_parameters().map_err(|problem| VerifyError {
            function: Some(self.kernel.function.name.clone()),
            statement: None,
            location: self.kernel.function.location,
            problem,
        })?;
        for function in self.functions.iter().chain([&self.kernel.function]) {
            function::verify(self, function)?;
        }
        self.verify_uniformity()
    }

    /// Checks that the source shows that every thread of a block reaches each barrier, and every
    /// thread of a warp each of its functions. Nothing else may be wrong with the module.
    /// [`verify`](Self::verify) does this, too.
    ///
    /// # Errors
    /// The first barrier or warp function that some threads may not reach. The error has its line,
    /// the value that may differ between threads, and a proposal.
    ///
    /// # Panics
    /// Perhaps, if something else is wrong with the module.
    pub fn verify_uniformity(&self) -> Result<(), VerifyError> {
        uniform::verify(self)
    }

    fn verify_structs(&self) -> Checked {
        for (number, structure) in self.structs.iter().enumerate() {
            demand!(
                !structure.fields.is_empty(),
                "the struct `{}` has no fields",
                structure.name
            );
            demand!(
                structure.alignment.is_power_of_two() && structure.alignment <= MOST_ALIGNMENT,
                "the struct `{}` is aligned to {} bytes; a power of two up to {MOST_ALIGNMENT} is possible",
                structure.name,
                structure.alignment
            );
            for field in &structure.fields {
                self.verify_type(&field.field_type, number)
                    .and_then(|()| {
                        demand!(
                            is_data(&field.field_type),
                            "it is neither number, struct nor array"
                        );
                        Ok(())
                    })
                    .map_err(|problem| {
                        format!(
                            "field `{}` of the struct `{}`: {problem}",
                            field.name, structure.name
                        )
                    })?;
            }
        }
        Ok(())
    }

    fn verify_shared(&self) -> Checked {
        for (number, array) in self.shared.iter().enumerate() {
            let name = array.name.unwrap_or("without a name");
            let context =
                |problem| format!("the block-shared array {number} (`{name}`): {problem}");
            self.verify_type(&array.element, self.structs.len())
                .and_then(|()| self.demand_memory(&array.element))
                .map_err(context)?;
            demand!(
                array.length != SharedLength::Fixed(0),
                "the block-shared array {number} (`{name}`) has no elements"
            );
        }
        Ok(())
    }

    fn verify_constants(&self) -> Checked {
        /// The number of scalars in a type, and their type.
        fn scalars(of: &Type) -> Option<(u64, Scalar)> {
            match of {
                Type::Scalar(scalar) => Some((1, *scalar)),
                Type::Array(element, length) => {
                    let (count, scalar) = scalars(element)?;
                    Some((count.checked_mul(*length)?, scalar))
                }
                _ => None,
            }
        }
        for (number, constant) in self.constants.iter().enumerate() {
            let name = constant.name.unwrap_or("without a name");
            let context = format!("the constant {number} (`{name}`)");
            self.verify_type(&constant.constant_type, self.structs.len())
                .map_err(|problem| format!("{context}: {problem}"))?;
            let found = match constant.constant_type {
                Type::Array(..) => scalars(&constant.constant_type),
                _ => None,
            };
            let Some((count, scalar)) = found else {
                return Err(format!("{context} is not an array of scalars"));
            };
            demand!(
                constant.values.len() as u64 == count,
                "{context} has {} values for {count} elements",
                constant.values.len()
            );
            for value in &constant.values {
                demand!(
                    value.scalar == scalar,
                    "{context} has a value of type `{}` among those of type `{}`",
                    value.scalar.rust_name(),
                    scalar.rust_name()
                );
                let is_finite = match scalar {
                    Scalar::F32 => f32::from_bits(value.bits as u32).is_finite(),
                    Scalar::F64 => f64::from_bits(value.bits).is_finite(),
                    _ => true,
                };
                demand!(is_finite, "{context} has a value that is not finite");
            }
        }
        Ok(())
    }

    /// Structs and arrays in a type, of structs before number `structs`.
    fn verify_type(&self, checked: &Type, structs: usize) -> Checked {
        match checked {
            Type::Unit | Type::Scalar(_) => {}
            Type::Struct(id) => demand!(
                (id.0 as usize) < structs,
                "there is no struct {} before it",
                id.0
            ),
            Type::Array(element, length) => {
                demand!(*length > 0, "an array has at least one element");
                demand!(is_data(element), "an array of `{}`", self.describe(element));
                self.verify_type(element, structs)?;
            }
            Type::Slice { element, .. } => {
                demand!(is_data(element), "a slice of `{}`", self.describe(element));
                self.verify_type(element, structs)?;
            }
        }
        Ok(())
    }

    /// Demands a type that lies in memory the same way whatever the width of indices is.
    fn demand_memory(&self, checked: &Type) -> Checked {
        demand!(
            self.is_memory(checked),
            "`{}` is not a type of memory",
            self.describe(checked)
        );
        Ok(())
    }

    fn is_memory(&self, checked: &Type) -> bool {
        match checked {
            Type::Unit | Type::Slice { .. } => false,
            Type::Scalar(scalar) => scalar.size().is_some(),
            Type::Struct(id) => self
                .structure(*id)
                .fields
                .iter()
                .all(|field| self.is_memory(&field.field_type)),
            Type::Array(element, _) => self.is_memory(element),
        }
    }

    fn verify_parameters(&self) -> Checked {
        let kernel = &self.kernel;
        demand!(
            kernel.dimensions > 0,
            "the grid of a kernel has at least one dimension"
        );
        demand!(
            kernel.function.result == Type::Unit,
            "a kernel gives nothing"
        );
        let values: Vec<_> = kernel
            .parameters
            .iter()
            .flat_map(|parameter| parameter.kind.values())
            .collect();
        demand!(
            values == kernel.function.parameters,
            "the kernel's parameters and those of its function differ"
        );
        for (number, parameter) in kernel.parameters.iter().enumerate() {
            let name = parameter.name.unwrap_or("without a name");
            self.verify_parameter(&parameter.kind)
                .map_err(|problem| format!("parameter {number} (`{name}`): {problem}"))?;
        }
        Ok(())
    }

    fn verify_parameter(&self, kind: &ParameterKind) -> Checked {
        let type_of = |value: crate::Value| {
            self.kernel
                .function
                .values
                .get(value.0 as usize)
                .map(|info| &info.value_type)
                .ok_or_else(|| format!("there is no value {}", value.0))
        };
        let demand_elements = |value| {
            let slice = type_of(value)?;
            let Type::Slice {
                element,
                space: Space::Global,
                ..
            } = slice
            else {
                return Err(format!(
                    "`{}` is not a slice in global memory",
                    self.describe(slice)
                ));
            };
            self.verify_type(slice, self.structs.len())?;
            self.demand_memory(element)
        };
        match kind {
            ParameterKind::Nothing => {}
            ParameterKind::Uniform(value) => {
                let uniform = type_of(*value)?;
                self.verify_type(uniform, self.structs.len())?;
                if !matches!(uniform, Type::Scalar(_)) {
                    self.demand_memory(uniform)?;
                }
            }
            ParameterKind::Buffer(value) => demand_elements(*value)?,
            ParameterKind::View {
                elements,
                extents,
                strides,
            } => {
                demand_elements(*elements)?;
                demand!(
                    !extents.is_empty() && extents.len() == strides.len(),
                    "a view has an extent and a stride for each of one or more dimensions, not {} and {}",
                    extents.len(),
                    strides.len()
                );
                for value in extents.iter().chain(strides) {
                    demand!(
                        *type_of(*value)? == Scalar::Index.into(),
                        "extents and strides are of type `usize`"
                    );
                }
            }
        }
        Ok(())
    }

    /// Checks that calls lead to existing functions, and never back.
    fn verify_calls(&self) -> Result<(), VerifyError> {
        #[derive(Clone, Copy, PartialEq)]
        enum Visit {
            New,
            Open,
            Done,
        }
        fn visit(module: &Module, id: FunctionId, visits: &mut [Visit]) -> Result<(), VerifyError> {
            let error = |problem| VerifyError {
                function: Some(module.function(id).name.clone()),
                statement: None,
                location: module.function(id).location,
                problem,
            };
            visits[id.0 as usize] = Visit::Open;
            for callee in callees(&module.function(id).body) {
                match visits.get(callee.0 as usize) {
                    None => {
                        return Err(error(format!("there is no function {} to call", callee.0)));
                    }
                    Some(Visit::Open) => {
                        return Err(error(format!(
                            "it calls `{}`, which is on the way to itself: kernels have no recursion",
                            module.function(callee).name
                        )));
                    }
                    Some(Visit::Done) => {}
                    Some(Visit::New) => visit(module, callee, visits)?,
                }
            }
            visits[id.0 as usize] = Visit::Done;
            Ok(())
        }
        let mut visits = vec![Visit::New; self.functions.len()];
        for number in 0..self.functions.len() {
            if visits[number] == Visit::New {
                // Fewer than 2^32, as the numbers of functions are.
                visit(self, FunctionId(number as u32), &mut visits)?;
            }
        }
        Ok(())
    }

    /// A type in Rust's words.
    pub(crate) fn describe(&self, described: &Type) -> String {
        match described {
            Type::Unit => "()".into(),
            Type::Scalar(scalar) => scalar.rust_name().into(),
            Type::Struct(id) => self
                .structs
                .get(id.0 as usize)
                .map_or_else(|| format!("struct {}", id.0), |found| found.name.clone()),
            Type::Array(element, length) => format!("[{}; {length}]", self.describe(element)),
            Type::Slice {
                element,
                space,
                mutable,
            } => format!(
                "&{}{}[{}]",
                match space {
                    Space::Global => "",
                    Space::Shared => "shared ",
                    Space::Private => "private ",
                },
                if *mutable { "mut " } else { "" },
                self.describe(element)
            ),
        }
    }
}

/// True for types that variables, fields and elements hold: no slices, and not `Unit`.
fn is_data(checked: &Type) -> bool {
    !matches!(checked, Type::Unit | Type::Slice { .. })
}

/// The functions that a block calls.
pub(crate) fn callees(block: &Block) -> Vec<FunctionId> {
    let mut found = Vec::new();
    walk(block, &mut |statement| {
        if let Statement::Define {
            operation: Operation::Call(function, _),
            ..
        } = statement
        {
            found.push(*function);
        }
    });
    found
}

/// Visits each statement of a block and of the blocks inside.
pub(crate) fn walk<'b>(block: &'b Block, visit: &mut impl FnMut(&'b Statement)) {
    for statement in block {
        visit(statement);
        match statement {
            Statement::If {
                then, otherwise, ..
            } => {
                walk(then, visit);
                walk(otherwise, visit);
            }
            Statement::Loop { body, step, .. } => {
                walk(body, visit);
                walk(step, visit);
            }
            Statement::Elements { body, .. } => walk(body, visit),
            _ => {}
        }
    }
}

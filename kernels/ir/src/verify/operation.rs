//! The types of operations.

use crate::function::{Function, FunctionId, Value};
use crate::module::Module;
use crate::operation::{
    AtomicOperation, BinaryOperation, Literal, MathFunction, Operation, Origin, UnaryOperation,
    Unit, WarpOperation,
};
use crate::statement::{Place, Root};
use crate::types::{Scalar, Space, StructId, Type};

use super::{Checked, demand, is_data, place_type};

/// The type of an operation's result; its operands have been found to be defined.
pub(super) fn result(module: &Module, function: &Function, operation: &Operation) -> Checked<Type> {
    Types { module, function }.result(operation)
}

/// True if a value of one type can be given where another is expected.
pub(super) fn fits(given: &Type, expected: &Type) -> bool {
    match (given, expected) {
        // As `&mut [T]` becomes `&[T]`.
        (
            Type::Slice {
                element: given,
                space: given_space,
                mutable: true,
            },
            Type::Slice {
                element,
                space,
                mutable: false,
            },
        ) => given == element && given_space == space,
        _ => given == expected,
    }
}

struct Types<'m> {
    module: &'m Module,
    function: &'m Function,
}

impl Types<'_> {
    fn of(&self, value: Value) -> &Type {
        &self.function.values[value.0 as usize].value_type
    }

    fn describe(&self, value: Value) -> String {
        self.module.describe(self.of(value))
    }

    fn scalar(&self, value: Value) -> Checked<Scalar> {
        self.of(value).scalar().ok_or_else(|| {
            format!(
                "an operand of type `{}`, which is not a scalar",
                self.describe(value)
            )
        })
    }

    fn demand_type(&self, value: Value, scalar: Scalar) -> Checked {
        demand!(
            *self.of(value) == scalar.into(),
            "an operand of type `{}` instead of `{}`",
            self.describe(value),
            scalar.rust_name()
        );
        Ok(())
    }

    fn demand_given(&self, value: Value, expected: &Type) -> Checked {
        demand!(
            fits(self.of(value), expected),
            "a value of type `{}` is given where `{}` is expected",
            self.describe(value),
            self.module.describe(expected)
        );
        Ok(())
    }

    fn result(&self, operation: &Operation) -> Checked<Type> {
        Ok(match operation {
            Operation::Literal(literal) => {
                verify_literal(*literal)?;
                literal.scalar.into()
            }
            Operation::Unary(operation, value) => self.unary(*operation, *value)?.into(),
            Operation::Binary(operation, first, second) => {
                self.binary(*operation, *first, *second)?.into()
            }
            Operation::Cast(value, to) => self.cast(*value, *to)?,
            Operation::Bitcast(value, to) => self.bitcast(*value, *to)?,
            Operation::Select(condition, first, second) => {
                self.selection(*condition, *first, *second)?
            }
            Operation::Math(math, operands) => self.math(*math, operands)?,
            Operation::Load(place) => self.load(place)?,
            Operation::Slice { place, range, .. } => self.slice(place, *range)?,
            Operation::Length(value) => {
                demand!(
                    matches!(self.of(*value), Type::Slice { .. }),
                    "the length of a `{}`, which is not a slice",
                    self.describe(*value)
                );
                Scalar::Index.into()
            }
            Operation::SharedLength(shared) => {
                demand!(
                    (shared.0 as usize) < self.module.shared.len(),
                    "there is no block-shared array {}",
                    shared.0
                );
                Scalar::Index.into()
            }
            Operation::Struct(id, fields) => self.structure(*id, fields)?,
            Operation::Array(element, elements) => {
                demand!(!elements.is_empty(), "an array has at least one element");
                demand!(
                    is_data(element),
                    "an array of `{}`",
                    self.module.describe(element)
                );
                for value in elements {
                    self.demand_given(*value, element)?;
                }
                Type::Array(Box::new(element.clone()), elements.len() as u64)
            }
            Operation::Repeat(value, count) => {
                demand!(*count > 0, "an array has at least one element");
                demand!(
                    is_data(self.of(*value)),
                    "an array of `{}`",
                    self.describe(*value)
                );
                Type::Array(Box::new(self.of(*value).clone()), *count)
            }
            Operation::Field(value, field) => self.field(*value, *field)?,
            Operation::Call(callee, arguments) => self.call(*callee, arguments)?,
            Operation::Index(origin, unit, dimension)
            | Operation::Extent(origin, unit, dimension) => {
                self.in_grid(*origin, *unit, *dimension)?
            }
            Operation::Atomic {
                operation,
                place,
                operands,
                ..
            } => self.atomic(*operation, place, operands)?,
            Operation::Warp(operation, operands) => self.warp(*operation, operands)?,
            Operation::Clock => Scalar::U64.into(),
            Operation::Property(_) => Scalar::Bool.into(),
            Operation::AssumeUniform(value) => self.scalar(*value)?.into(),
            Operation::BarrierCount(predicate) => {
                self.demand_type(*predicate, Scalar::Bool)?;
                Scalar::Index.into()
            }
        })
    }

    /// A cast: of numbers, and of the two short floats only from and to `f32`.
    fn cast(&self, value: Value, to: Scalar) -> Checked<Type> {
        let from = self.scalar(value)?;
        demand!(
            to != Scalar::Bool && (from != Scalar::Bool || to.is_integer()),
            "`{}` cannot be cast to `{}`",
            from.rust_name(),
            to.rust_name()
        );
        demand!(
            !(from.is_half() || to.is_half()) || from == Scalar::F32 || to == Scalar::F32,
            "`{}` is cast to `{}` by way of `f32`",
            from.rust_name(),
            to.rust_name()
        );
        Ok(to.into())
    }

    /// A number with the bits of another, which has the same size.
    fn bitcast(&self, value: Value, to: Scalar) -> Checked<Type> {
        let from = self.scalar(value)?;
        demand!(
            from.size() == to.size() && from != Scalar::Bool && to != Scalar::Bool,
            "the bits of a `{}` are not those of a `{}`",
            from.rust_name(),
            to.rust_name()
        );
        Ok(to.into())
    }

    /// One of two values of the same type.
    fn selection(&self, condition: Value, first: Value, second: Value) -> Checked<Type> {
        self.demand_type(condition, Scalar::Bool)?;
        let selected = self.of(first);
        demand!(
            is_data(selected) && selected == self.of(second),
            "a selection of `{}` or `{}`",
            self.describe(first),
            self.describe(second)
        );
        Ok(selected.clone())
    }

    /// A mathematical function of floats of 32 or 64 bits.
    fn math(&self, math: MathFunction, operands: &[Value]) -> Checked<Type> {
        demand!(
            operands.len() == math.operands(),
            "{math:?} takes {} operands, not {}",
            math.operands(),
            operands.len()
        );
        let scalar = self.scalar(operands[0])?;
        demand!(
            scalar.is_float() && !scalar.is_half(),
            "{math:?} of a `{}`, which is not a float of 32 or 64 bits",
            scalar.rust_name()
        );
        for operand in operands {
            self.demand_type(*operand, scalar)?;
        }
        Ok(if math.is_predicate() {
            Scalar::Bool
        } else {
            scalar
        }
        .into())
    }

    /// The elements of a place, or a range of them.
    fn slice(&self, place: &Place, range: Option<(Value, Value)>) -> Checked<Type> {
        if let Some((start, end)) = range {
            self.demand_type(start, Scalar::Index)?;
            self.demand_type(end, Scalar::Index)?;
        }
        demand!(
            !matches!(place.root, Root::Constant(_)),
            "a slice of a constant"
        );
        let at = place_type(self.module, self.function, place)?;
        let element = match at.held {
            Type::Array(element, _) => element,
            Type::Slice { element, .. } if !matches!(place.root, Root::Local(_)) => element,
            other => {
                return Err(format!("a slice of a `{}`", self.module.describe(&other)));
            }
        };
        Ok(Type::Slice {
            element,
            space: at.space,
            mutable: at.mutable,
        })
    }

    /// A struct of values, one for each field.
    fn structure(&self, id: StructId, fields: &[Value]) -> Checked<Type> {
        let structure = self
            .module
            .structs
            .get(id.0 as usize)
            .ok_or_else(|| format!("there is no struct {}", id.0))?;
        demand!(
            structure.fields.len() == fields.len(),
            "the struct `{}` has {} fields, not {}",
            structure.name,
            structure.fields.len(),
            fields.len()
        );
        for (field, value) in structure.fields.iter().zip(fields) {
            self.demand_given(*value, &field.field_type)?;
        }
        Ok(Type::Struct(id))
    }

    /// A field of a struct.
    fn field(&self, value: Value, field: u32) -> Checked<Type> {
        let Type::Struct(id) = self.of(value) else {
            return Err(format!(
                "field {field} of a `{}`, which is not a struct",
                self.describe(value)
            ));
        };
        let structure = self
            .module
            .structs
            .get(id.0 as usize)
            .ok_or_else(|| format!("there is no struct {}", id.0))?;
        Ok(structure
            .fields
            .get(field as usize)
            .ok_or_else(|| format!("the struct `{}` has no field {field}", structure.name))?
            .field_type
            .clone())
    }

    /// A call of a device function, with values for its parameters.
    fn call(&self, callee: FunctionId, arguments: &[Value]) -> Checked<Type> {
        // It exists: calls are checked before functions.
        let callee = self.module.function(callee);
        demand!(
            callee.parameters.len() == arguments.len(),
            "`{}` takes {} arguments, not {}",
            callee.name,
            callee.parameters.len(),
            arguments.len()
        );
        for (parameter, argument) in callee.parameters.iter().zip(arguments) {
            let expected = callee
                .values
                .get(parameter.0 as usize)
                .ok_or_else(|| format!("`{}` has no value {}", callee.name, parameter.0))?;
            self.demand_given(*argument, &expected.value_type)?;
        }
        Ok(callee.result.clone())
    }

    /// A function of a warp.
    fn warp(&self, operation: WarpOperation, operands: &[Value]) -> Checked<Type> {
        demand!(
            operands.len() == operation.operands(),
            "the warp's {operation:?} takes {} operands, not {}",
            operation.operands(),
            operands.len()
        );
        Ok(match (operation.result(), operands) {
            (None, [value, lane]) => {
                self.demand_type(*lane, Scalar::U32)?;
                self.scalar(*value)?.into()
            }
            (result, predicates) => {
                for predicate in predicates {
                    self.demand_type(*predicate, Scalar::Bool)?;
                }
                result.map_or(Type::Unit, Type::from)
            }
        })
    }

    /// An index or an extent of a kind of unit within the grid, a block or a thread.
    fn in_grid(&self, origin: Origin, unit: Unit, dimension: u8) -> Checked<Type> {
        demand!(
            dimension < self.module.kernel.dimensions,
            "dimension {dimension} of a grid that has {}",
            self.module.kernel.dimensions
        );
        demand!(
            matches!(
                (origin, unit),
                (Origin::Grid, _)
                    | (Origin::Block, Unit::Threads | Unit::Elements)
                    | (Origin::Thread, Unit::Elements)
            ),
            "{origin:?} has no {unit:?}"
        );
        Ok(Scalar::Index.into())
    }

    fn unary(&self, operation: UnaryOperation, value: Value) -> Checked<Scalar> {
        let scalar = self.scalar(value)?;
        let allowed = match operation {
            UnaryOperation::Negate => scalar.is_signed() && !scalar.is_half(),
            UnaryOperation::Not => scalar.is_integer() || scalar == Scalar::Bool,
            UnaryOperation::CountOnes
            | UnaryOperation::LeadingZeros
            | UnaryOperation::TrailingZeros
            | UnaryOperation::ReverseBits => scalar.is_integer(),
        };
        demand!(allowed, "{operation:?} of a `{}`", scalar.rust_name());
        Ok(scalar)
    }

    fn binary(&self, operation: BinaryOperation, first: Value, second: Value) -> Checked<Scalar> {
        use BinaryOperation as B;
        let scalar = self.scalar(first)?;
        if operation.takes_amount() {
            let amount = self.scalar(second)?;
            demand!(
                amount.is_integer(),
                "{operation:?} by a `{}`, which is not an integer",
                amount.rust_name()
            );
        } else {
            demand!(
                self.scalar(second)? == scalar,
                "{operation:?} of a `{}` and a `{}`",
                scalar.rust_name(),
                self.describe(second)
            );
        }
        let allowed = match operation {
            B::Add
            | B::Subtract
            | B::Multiply
            | B::Divide
            | B::Remainder
            | B::Minimum
            | B::Maximum => scalar != Scalar::Bool,
            B::And | B::Or | B::Xor => !scalar.is_float(),
            B::ShiftLeft
            | B::ShiftRight
            | B::RotateLeft
            | B::RotateRight
            | B::SaturatingAdd
            | B::SaturatingSubtract => scalar.is_integer(),
            B::MultiplyHigh => scalar.is_integer() && matches!(scalar.size(), None | Some(4 | 8)),
            B::Equal | B::NotEqual | B::Less | B::LessEqual | B::Greater | B::GreaterEqual => true,
        };
        demand!(
            allowed && !scalar.is_half(),
            "{operation:?} of `{}`",
            scalar.rust_name()
        );
        Ok(if operation.is_comparison() {
            Scalar::Bool
        } else {
            scalar
        })
    }

    fn load(&self, place: &Place) -> Checked<Type> {
        let held = place_type(self.module, self.function, place)?.held;
        demand!(
            !matches!(held, Type::Slice { .. }) || matches!(place.root, Root::Local(_)),
            "a slice as a whole is loaded: it takes an index, or `Slice`"
        );
        Ok(held)
    }

    fn atomic(
        &self,
        operation: AtomicOperation,
        place: &Place,
        operands: &[Value],
    ) -> Checked<Type> {
        use AtomicOperation as A;
        let at = place_type(self.module, self.function, place)?;
        demand!(
            at.space != Space::Private && at.mutable,
            "an atomic operation is on global or shared memory that may be written"
        );
        let Some(scalar) = at.held.scalar() else {
            return Err(format!(
                "an atomic operation on a `{}`, which is not a scalar",
                self.module.describe(&at.held)
            ));
        };
        let allowed = matches!(scalar.size(), Some(4 | 8))
            && match operation {
                A::Add | A::Exchange | A::CompareExchange | A::Load | A::Store => true,
                A::Subtract | A::Minimum | A::Maximum | A::And | A::Or | A::Xor => {
                    scalar.is_integer()
                }
                A::Increment | A::Decrement => scalar == Scalar::U32,
            };
        demand!(allowed, "atomic {operation:?} of `{}`", scalar.rust_name());
        let expected = match operation {
            A::Load => 0,
            A::CompareExchange => 2,
            _ => 1,
        };
        demand!(
            operands.len() == expected,
            "atomic {operation:?} takes {expected} operands, not {}",
            operands.len()
        );
        for operand in operands {
            self.demand_type(*operand, scalar)?;
        }
        Ok(match operation {
            A::Store => Type::Unit,
            _ => scalar.into(),
        })
    }
}

/// Checks that a literal's bits are a number of its type.
fn verify_literal(literal: Literal) -> Checked {
    let Literal { scalar, bits } = literal;
    let width = 8 * scalar.size().unwrap_or(8);
    let valid = if scalar == Scalar::Bool {
        bits <= 1
    } else if scalar.is_integer() && scalar.is_signed() {
        let unused = 64 - width;
        ((bits << unused) as i64 >> unused) as u64 == bits
    } else {
        width == 64 || bits >> width == 0
    };
    demand!(
        valid,
        "the bits {bits:#x} are not those of a `{}`",
        scalar.rust_name()
    );
    Ok(())
}

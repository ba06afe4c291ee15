//! Operations as expressions.

use crate::function::{FunctionId, Value};
use crate::operation::{AtomicOperation, Operation, Origin, Unit, WarpOperation};
use crate::statement::Root;
use crate::types::{Scalar, Type};

use super::arithmetic;
use super::dialect::AtomicCall;
use super::expression::{Expression, precedence};
use super::facts;
use super::function::FunctionPrinter;
use super::helpers;
use super::module::ModulePrinter;
use super::protocol::FaultKind;
use super::{ElementOrder, PrintError};

impl FunctionPrinter<'_, '_> {
    /// An operation without effects but for a fault.
    pub(super) fn pure(&mut self, value: Value, operation: &Operation) -> Expression {
        match operation {
            Operation::Literal(literal) => {
                let mut literal = *literal;
                literal.scalar = self.module.concrete(literal.scalar);
                arithmetic::literal(self.module, literal)
            }
            Operation::Unary(operation, operand) => {
                let scalar = self.scalar_of(*operand);
                let operand = self.take(*operand);
                arithmetic::unary(self.module, *operation, scalar, &operand)
            }
            Operation::Binary(operation, first, second) => {
                let scalar = self.scalar_of(*first);
                let amount = self.scalar_of(*second);
                let second_literal = self.literal(*second);
                let mut site = None;
                if self.module.options.checked
                    && arithmetic::may_fault(*operation, scalar, second_literal)
                {
                    let location = self.function.values[value.0 as usize].location;
                    let location = location.or(self.function.location);
                    let kind = FaultKind::Division;
                    site = Some(self.module.site(kind, self.function, location, None));
                }
                let first = self.take(*first);
                let second = self.take(*second);
                arithmetic::binary(
                    self.module,
                    *operation,
                    scalar,
                    amount,
                    &first,
                    &second,
                    site,
                )
            }
            Operation::Cast(operand, _) => {
                let from = self.scalar_of(*operand);
                let to = self.scalar_of(value);
                let operand = self.take(*operand);
                arithmetic::cast(self.module, from, to, &operand)
            }
            Operation::Bitcast(operand, _) => {
                let from = self.scalar_of(*operand);
                let to = self.scalar_of(value);
                let operand = self.take(*operand);
                arithmetic::bitcast(self.module, from, to, &operand)
            }
            Operation::AssumeUniform(operand) => self.take(*operand),
            Operation::Select(condition, first, second) => {
                // Both are evaluated, in C only one is.
                self.settle(&[*first, *second]);
                let condition = self.take(*condition);
                let first = self.take(*first);
                let second = self.take(*second);
                let text = format!(
                    "{} ? {} : {}",
                    condition.at(precedence::LOGICAL_OR),
                    first.at(precedence::ARGUMENT),
                    second.at(precedence::CONDITIONAL)
                );
                Expression::new(text, precedence::CONDITIONAL).with([&condition, &first, &second])
            }
            Operation::Math(function, operands) => {
                let scalar = self.scalar_of(operands[0]);
                let operands: Vec<_> = operands.iter().map(|value| self.take(*value)).collect();
                arithmetic::math(self.module, *function, scalar, &operands)
            }
            Operation::Load(place) => self.load(value, place),
            Operation::Length(slice) => Expression::primary(self.slice(*slice).length),
            Operation::SharedLength(shared) => {
                let length = self.module.shared_length(*shared, self.in_kernel());
                Expression::primary(length)
            }
            Operation::Struct(id, fields) => {
                let types: Vec<Type> = self
                    .module
                    .module
                    .structure(*id)
                    .fields
                    .iter()
                    .map(|field| field.field_type.clone())
                    .collect();
                self.aggregate(value, fields, &types, false)
            }
            Operation::Array(element, elements) => {
                let types = vec![element.clone(); elements.len()];
                self.aggregate(value, elements, &types, true)
            }
            Operation::Field(operand, field) => {
                let Type::Struct(id) = *self.type_of(*operand) else {
                    return Expression::primary("0");
                };
                let operand = self.take(*operand);
                let name = self.module.field_name(id, *field);
                let text = format!("{}.{name}", operand.at(precedence::PRIMARY));
                Expression::primary(text).with([&operand])
            }
            Operation::Index(origin, unit, dimension) => position(*origin, *unit, *dimension),
            Operation::Extent(origin, unit, dimension) => extent(*origin, *unit, *dimension),
            // Those with effects, those that give no scalar or struct, and those that `target` has
            // replaced, are not asked for.
            Operation::Slice { .. }
            | Operation::Repeat(..)
            | Operation::Call(..)
            | Operation::Atomic { .. }
            | Operation::Clock
            | Operation::Property(_)
            | Operation::Warp(..)
            | Operation::BarrierCount(_) => Expression::primary("0"),
        }
    }

    /// The number of a value that is a constant without a name.
    fn literal(&mut self, value: Value) -> Option<crate::Literal> {
        self.peek(value).and_then(|expression| expression.literal)
    }

    fn aggregate(
        &mut self,
        value: Value,
        fields: &[Value],
        types: &[Type],
        array: bool,
    ) -> Expression {
        let fields: Vec<_> = fields.iter().map(|field| self.take(*field)).collect();
        let texts: Vec<_> = fields
            .iter()
            .zip(types)
            .map(|(field, of)| self.field(of, field))
            .collect();
        let mut text = texts.join(", ");
        if array {
            text = format!("{{{text}}}");
        }
        let type_name = self.module.type_name(self.type_of(value));
        let text = self.module.language.aggregate(&type_name, &text);
        Expression::primary(text).with(&fields)
    }

    /// A value in an initialiser's braces, where C++ wants exactly the type that is there in
    /// memory.
    pub(super) fn field(&mut self, of: &Type, field: &Expression) -> String {
        match of {
            Type::Scalar(
                Scalar::Bool
                | Scalar::I8
                | Scalar::I16
                | Scalar::U8
                | Scalar::U16
                | Scalar::F16
                | Scalar::Bf16,
            ) if field.literal.is_none() => {
                let cast = format!("({})", self.module.memory_name(of));
                if field.precedence == precedence::UNARY && field.text.starts_with(&cast) {
                    return field.text.clone();
                }
                format!("{cast}{}", field.at(precedence::UNARY))
            }
            _ => field.at(precedence::ARGUMENT),
        }
    }

    /// A call of a device function.
    pub(super) fn call(&mut self, callee: FunctionId, arguments: &[Value]) -> Expression {
        let facts = self.module.facts(callee);
        let mut texts = Vec::new();
        if facts.context {
            texts.push("quipu".to_owned());
        }
        let mut taken = Vec::new();
        for argument in arguments {
            if matches!(self.type_of(*argument), Type::Slice { .. }) {
                let slice = self.slice(*argument);
                texts.extend([slice.pointer, slice.length]);
            } else {
                let expression = self.take(*argument);
                texts.push(expression.at(precedence::ARGUMENT));
                taken.push(expression);
            }
        }
        let name = self.module.function_name(callee);
        let text = format!("{name}({})", texts.join(", "));
        let mut expression = Expression::primary(text).with(&taken);
        expression.effects.faults |= facts.faults;
        if facts.reads {
            expression.effects.global = true;
            expression.effects.shared = true;
            expression.effects.private = true;
        }
        expression
    }

    /// An operation with effects.
    pub(super) fn effectful(
        &mut self,
        value: Value,
        operation: &Operation,
    ) -> Result<Expression, PrintError> {
        let location = self.function.values[value.0 as usize].location;
        let location = location.or(self.function.location);
        let language = self.module.language;
        match operation {
            Operation::Atomic {
                operation,
                place,
                operands,
                scope,
            } => {
                if self.has_checks(place) {
                    self.settle(operands);
                }
                let kind = FaultKind::Write;
                let at = self.place(place, kind, location);
                let stored = operands;
                let operands: Vec<_> = operands.iter().map(|value| self.take(*value)).collect();
                let texts: Vec<_> = operands
                    .iter()
                    .map(|o| o.at(precedence::ARGUMENT))
                    .collect();
                let is_store = *operation == AtomicOperation::Store;
                let scalar = if is_store {
                    self.scalar_of(stored[0])
                } else {
                    self.scalar_of(value)
                };
                self.module.wide_atomics |= helpers::width(scalar) == 64;
                let call = AtomicCall {
                    operation: *operation,
                    scalar,
                    space: match place.root {
                        Root::Shared(_) => crate::Space::Shared,
                        _ => facts::space(self.function, place),
                    },
                    scope: *scope,
                    pointer: format!("&{}", at.text),
                    operands: &texts,
                };
                let text = language
                    .atomic(&mut self.module.helpers, &call)
                    .map_err(|what| self.module.unsupported(what, location))?;
                let expression = if at.checks.is_empty() {
                    Expression::primary(text)
                } else {
                    let zero = if is_store {
                        "(void)0".to_owned()
                    } else {
                        self.module.zero(self.type_of(value))
                    };
                    Expression::new(
                        format!("{} ? {text} : {zero}", at.condition()),
                        precedence::CONDITIONAL,
                    )
                };
                Ok(expression.with(&operands))
            }
            Operation::Warp(operation, operands) => {
                let scalar = match operation {
                    WarpOperation::Shuffle
                    | WarpOperation::ShuffleUp
                    | WarpOperation::ShuffleDown
                    | WarpOperation::ShuffleXor => self.scalar_of(operands[0]),
                    _ => Scalar::U32,
                };
                // Not every dialect evaluates every operand.
                self.settle(operands);
                let operands: Vec<_> = operands.iter().map(|value| self.take(*value)).collect();
                let texts: Vec<_> = operands
                    .iter()
                    .map(|o| o.at(precedence::ARGUMENT))
                    .collect();
                let text = language
                    .warp(&mut self.module.helpers, *operation, scalar, &texts)
                    .map_err(|what| self.module.unsupported(what, location))?;
                Ok(Expression::primary(text).with(&operands))
            }
            Operation::Clock => {
                let text = language
                    .clock(&mut self.module.helpers)
                    .map_err(|what| self.module.unsupported(what, location))?;
                Ok(Expression::primary(text))
            }
            Operation::BarrierCount(predicate) => {
                let predicate = self.take(*predicate);
                let site = self.module.barrier_site(self.function, location);
                let text = language.barrier_count(
                    &mut self.module.helpers,
                    &predicate.at(precedence::ARGUMENT),
                    site,
                );
                Ok(Expression::primary(text).with([&predicate]))
            }
            _ => Ok(self.pure(value, operation)),
        }
    }
}

/// The index of a thread.
pub(super) fn position(origin: Origin, unit: Unit, d: u8) -> Expression {
    let block = format!("quipu->block[{d}]");
    let thread = format!("quipu->thread[{d}]");
    let threads = format!("quipu->launch.block_threads[{d}]");
    let elements = format!("quipu->launch.thread_elements[{d}]");
    match (origin, unit) {
        (Origin::Grid, Unit::Blocks) => Expression::primary(block),
        (Origin::Grid, Unit::Threads) => {
            Expression::new(format!("{block} * {threads} + {thread}"), precedence::ADD)
        }
        (Origin::Grid, Unit::Elements) => Expression::new(
            format!("({block} * {threads} + {thread}) * {elements}"),
            precedence::MULTIPLY,
        ),
        (Origin::Block, Unit::Elements) => {
            Expression::new(format!("{thread} * {elements}"), precedence::MULTIPLY)
        }
        (Origin::Thread, _) => Expression::primary("0"),
        (Origin::Block, _) => Expression::primary(thread),
    }
}

/// The extent of an origin, in a unit.
pub(super) fn extent(origin: Origin, unit: Unit, d: u8) -> Expression {
    let blocks = format!("quipu->launch.grid_blocks[{d}]");
    let threads = format!("quipu->launch.block_threads[{d}]");
    let elements = format!("quipu->launch.thread_elements[{d}]");
    let factors = match (origin, unit) {
        (Origin::Grid, Unit::Blocks) => vec![blocks],
        (Origin::Grid, Unit::Threads) => vec![blocks, threads],
        (Origin::Grid, Unit::Elements) => vec![blocks, threads, elements],
        (Origin::Block, Unit::Elements) => vec![threads, elements],
        (Origin::Thread, _) => vec![elements],
        (Origin::Block, _) => vec![threads],
    };
    let level = if factors.len() == 1 {
        precedence::PRIMARY
    } else {
        precedence::MULTIPLY
    };
    Expression::new(factors.join(" * "), level)
}

/// The functions that say which positions are a thread's own.
pub(super) fn element_helpers(module: &mut ModulePrinter<'_>, order: ElementOrder) {
    let language = module.language;
    let index = module.index();
    let (function, context) = (language.function(), language.context_pointer());
    let dimension = "int d";
    let helpers = &mut module.helpers;
    helpers.add("quipu_thread", |_| {
        format!(
            "/* The number of a thread in the grid, along a dimension. */\n\
             static {function}{index} quipu_thread({context}quipu, {dimension})\n{{\n    \
             return quipu->block[d] * quipu->launch.block_threads[d] + quipu->thread[d];\n}}"
        )
    });
    helpers.add("quipu_threads", |_| {
        format!(
            "/* The number of threads in the grid, along a dimension. */\n\
             static {function}{index} quipu_threads({context}quipu, {dimension})\n{{\n    \
             return quipu->launch.grid_blocks[d] * quipu->launch.block_threads[d];\n}}"
        )
    });
    if order == ElementOrder::Strided {
        return;
    }
    helpers.add("quipu_share", |_| {
        format!(
            "/* How many neighbouring positions each thread has, along a dimension. */\n\
             static {function}{index} quipu_share({context}quipu, {dimension}, {index} extent)\n{{\n    \
             const {index} threads = quipu_threads(quipu, d);\n    \
             const {index} share = extent / threads + (extent % threads != 0);\n    \
             return share > quipu->launch.thread_elements[d] ? share : quipu->launch.thread_elements[d];\n}}"
        )
    });
    for (name, plus) in [("begin", ""), ("end", " + 1")] {
        helpers.add(&format!("quipu_{name}"), |_| {
            let number = if plus.is_empty() {
                "quipu_thread(quipu, d)".to_owned()
            } else {
                format!("(quipu_thread(quipu, d){plus})")
            };
            format!(
                "static {function}{index} quipu_{name}({context}quipu, {dimension}, {index} extent)\n{{\n    \
                 const {index} at = {number} * quipu_share(quipu, d, extent);\n    \
                 return at < extent ? at : extent;\n}}"
            )
        });
    }
}

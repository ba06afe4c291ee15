//! A module as it is on a target: its [properties](Property) are numbers there, and so may be a
//! warp's size; branches that these decide are left out, with all that only they need.
//!
//! 1. Values that are known are replaced by numbers: properties, and comparisons, `!`, `&`, `|` and
//!    selections of these.
//! 2. Of an `if` whose condition is known, the statements that are run take its place.
//! 3. A variable that holds the result of such an `if` becomes the value that is written to it,
//!    and 1. and 2. are done again.
//! 4. Values without effects that nothing uses any more are left out: operands of a selection that
//!    was decided.
//! 5. Device functions that nothing calls any more are left out, and values and variables that
//!    nothing defines have the type [`Type::Unit`], which each target has.
//!
//! Code that does not depend on the target is printed as it was written.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::function::{Function, FunctionId, Local, LocalId, Value, ValueInfo};
use crate::module::Module;
use crate::operation::{
    BinaryOperation, Literal, Operation, Property, Scope, UnaryOperation, WarpOperation,
};
use crate::statement::{Block, Place, Root, Statement};
use crate::types::{Scalar, Type};
use crate::verify::walk;

use super::{Dialect, ElementOrder, IndexWidth, OpenClFeatures, Options};
use super::{facts, width};

/// The dialect for a module: without sub-groups, if some are missing that it uses. Warps are then
/// of one thread, as on a processor.
pub(super) fn dialect_for(module: &Module, dialect: Dialect) -> Dialect {
    let Dialect::OpenCl(features) = dialect else {
        return dialect;
    };
    let mut offered = true;
    each_operation(module, &mut |operation| {
        if let Operation::Warp(operation, _) = operation {
            offered &= features.offers(*operation);
        }
    });
    if offered {
        return dialect;
    }
    Dialect::OpenCl(OpenClFeatures {
        subgroups: false,
        subgroup_ballot: false,
        subgroup_shuffle: false,
        ..features
    })
}

/// The dialect for a module as it is on its target: OpenCL C 1.2, if it uses no fence of a later
/// one.
pub(super) fn with_used_fences(module: &Module, dialect: Dialect) -> Dialect {
    let Dialect::OpenCl(features) = dialect else {
        return dialect;
    };
    let mut fences = false;
    for function in module.functions.iter().chain([&module.kernel.function]) {
        walk(&function.body, &mut |statement| {
            fences |= matches!(statement, Statement::Fence(Scope::Device, _));
        });
    }
    Dialect::OpenCl(OpenClFeatures {
        device_fence: features.device_fence && fences,
        ..features
    })
}

/// The width of indices of a module where so many bits would do for its launch: 64 if it has a
/// constant that takes more, or computes a value that may take more.
pub(super) fn index_width_for(module: &Module, options: &Options) -> IndexWidth {
    let constants = module.constants.iter();
    let mut takes_more = constants
        .flat_map(|constant| &constant.values)
        .any(takes_64_bits);
    each_operation(module, &mut |operation| {
        takes_more |= matches!(operation, Operation::Literal(literal) if takes_64_bits(literal));
    });
    if takes_more || !options.keeps_width && width::takes_64_bits(module) {
        IndexWidth::Bits64
    } else {
        options.index_width
    }
}

/// True of an index that is not the same number in 32 bits. The largest of its width is that in
/// any.
fn takes_64_bits(literal: &Literal) -> bool {
    match literal.scalar {
        Scalar::Index => literal.bits != u64::MAX && u32::try_from(literal.bits).is_err(),
        Scalar::SignedIndex => i32::try_from(literal.bits.cast_signed()).is_err(),
        _ => false,
    }
}

impl Module {
    /// A valid module as it is on a target, printed with these options: values and branches that
    /// the target decides are left out, with all that only they need. For
    /// [printers](super::Printer).
    #[must_use]
    pub fn on_target(&self, target: &Target, options: &Options) -> Cow<'_, Self> {
        let mut depends = false;
        each_operation(self, &mut |operation| {
            depends |= matches!(
                operation,
                Operation::Property(_) | Operation::Warp(WarpOperation::Size, _)
            );
        });
        if !depends {
            return Cow::Borrowed(self);
        }
        let mut module = self.clone();
        for function in module
            .functions
            .iter_mut()
            .chain([&mut module.kernel.function])
        {
            let body = std::mem::take(&mut function.body);
            let mut decided = Decided {
                target,
                options,
                values: &function.values,
                numbers: HashMap::new(),
                decided: HashSet::new(),
                same: HashMap::new(),
                results: HashMap::new(),
            };
            let mut body = decided.block(body);
            loop {
                let results = results(&function.locals, &body);
                if results.is_empty() {
                    break;
                }
                decided.results = results.into_iter().map(|local| (local, None)).collect();
                body = decided.block(body);
            }
            function.body = body;
            leave_out_unused(function);
            forget_undefined(function);
        }
        leave_out_uncalled(&mut module);
        Cow::Owned(module)
    }
}

fn each_operation<'m>(module: &'m Module, visit: &mut impl FnMut(&'m Operation)) {
    for function in module.functions.iter().chain([&module.kernel.function]) {
        walk(&function.body, &mut |statement| {
            if let Statement::Define { operation, .. } = statement {
                visit(operation);
            }
        });
    }
}

/// A target of a printer: the answers of its devices to the questions that a kernel may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// There is `f64`.
    pub doubles: bool,
    /// There is [`Operation::Clock`](crate::Operation::Clock).
    pub clock: bool,
    /// There are atomics and fences of [`Scope::System`](crate::Scope::System).
    pub system_scope: bool,
    /// There are fences of [`Scope::Device`](crate::Scope::Device).
    pub device_fence: bool,
    /// There is [`Statement::GridBarrier`](crate::Statement::GridBarrier).
    pub grid_barrier: bool,
    /// The threads of a warp; `None` if it is known as a kernel runs.
    pub warp_size: Option<u32>,
}

impl Target {
    /// Of a dialect with its features.
    pub(super) fn of(dialect: Dialect) -> Self {
        let opencl = match dialect {
            Dialect::OpenCl(features) => Some(features),
            Dialect::C99 | Dialect::Cuda => None,
        };
        Self {
            doubles: opencl.is_none_or(|features| features.doubles),
            clock: opencl.is_none(),
            system_scope: opencl.is_none(),
            device_fence: opencl.is_none_or(OpenClFeatures::fences_device),
            grid_barrier: opencl.is_none(),
            warp_size: match dialect {
                Dialect::C99 => Some(1),
                Dialect::OpenCl(features) if features.ptx => Some(32),
                Dialect::OpenCl(features) => (!features.subgroups).then_some(1),
                Dialect::Cuda => Some(32),
            },
        }
    }
}

/// The known values of a function.
struct Decided<'t> {
    target: &'t Target,
    options: &'t Options,
    values: &'t [ValueInfo],
    /// The values that are truth values or numbers without a sign, and are known.
    numbers: HashMap<Value, u64>,
    /// Those of these that the target decides; the others are constants.
    decided: HashSet<Value>,
    /// The values that are equal to others.
    same: HashMap<Value, Value>,
    /// Variables that are written once, and the value: they become that value.
    results: HashMap<LocalId, Option<Value>>,
}

impl Decided<'_> {
    fn has(&self, property: Property) -> bool {
        match property {
            Property::Gpu => self.options.elements == ElementOrder::Strided,
            Property::Doubles => self.target.doubles,
            Property::Clock => self.target.clock,
            Property::SystemScope => self.target.system_scope,
            Property::DeviceFence => self.target.device_fence,
            Property::GridBarrier => self.target.grid_barrier,
        }
    }

    /// The bits of a number that a type without a sign holds.
    fn held(&self, scalar: Scalar, number: u64) -> u64 {
        let bytes = scalar
            .size()
            .map_or_else(|| self.options.index_width.bytes(), u64::from);
        number & (u64::MAX >> (64 - 8 * bytes))
    }

    fn block(&mut self, statements: Block) -> Block {
        let mut written = Block::new();
        for statement in statements {
            self.statement(statement, &mut written);
            if matches!(
                written.last(),
                Some(Statement::Break(_) | Statement::Continue(_) | Statement::Return { .. })
            ) {
                break;
            }
        }
        written
    }

    fn statement(&mut self, mut statement: Statement, written: &mut Block) {
        for value in statement.operands_mut() {
            *value = self.same.get(value).copied().unwrap_or(*value);
        }
        match statement {
            Statement::Local { local, .. } if self.results.contains_key(&local) => {}
            Statement::Store {
                place:
                    Place {
                        root: Root::Local(local),
                        ..
                    },
                value,
                ..
            } if self.results.contains_key(&local) => {
                self.results.insert(local, Some(value));
            }
            Statement::Define { value, operation } => self.definition(value, operation, written),
            Statement::If {
                condition,
                then,
                otherwise,
                location,
            } => match self.known(condition) {
                Some(0) => written.extend(self.block(otherwise)),
                Some(_) => written.extend(self.block(then)),
                None => {
                    let (then, otherwise) = (self.block(then), self.block(otherwise));
                    written.push(Statement::If {
                        condition,
                        then,
                        otherwise,
                        location,
                    });
                }
            },
            Statement::Loop { id, body, step } => {
                let (body, step) = (self.block(body), self.block(step));
                written.push(Statement::Loop { id, body, step });
            }
            Statement::Elements {
                id,
                position,
                extent,
                body,
            } => {
                let body = self.block(body);
                written.push(Statement::Elements {
                    id,
                    position,
                    extent,
                    body,
                });
            }
            other => written.push(other),
        }
    }

    /// The number of a value, if the target decides it.
    fn known(&self, value: Value) -> Option<u64> {
        let number = self.numbers.get(&value).copied();
        number.filter(|_| self.decided.contains(&value))
    }

    /// The truth of a value, if the target decides it.
    fn truth(&self, value: Value) -> Option<bool> {
        let is_bool = self.values[value.0 as usize].value_type == Scalar::Bool.into();
        self.known(value)
            .filter(|_| is_bool)
            .map(|number| number != 0)
    }

    /// A value that is another.
    fn is_same(&mut self, value: Value, other: Value) {
        self.same.insert(value, other);
        if self.numbers.contains_key(&other) {
            // A constant, perhaps, which the target has chosen.
            self.decided.insert(other);
        }
    }

    fn definition(&mut self, value: Value, operation: Operation, written: &mut Block) {
        let truth = match &operation {
            Operation::Load(Place {
                root: Root::Local(local),
                ..
            }) if let Some(Some(result)) = self.results.get(local).copied() => {
                return self.is_same(value, result);
            }
            Operation::Literal(Literal { scalar, bits }) => {
                if !scalar.is_signed() {
                    self.numbers.insert(value, self.held(*scalar, *bits));
                }
                None
            }
            Operation::Warp(WarpOperation::Size, _) => {
                if let Some(size) = self.target.warp_size.map(u64::from) {
                    return self.decide(value, Scalar::U32, size, written);
                }
                None
            }
            Operation::Cast(of, to @ (Scalar::U32 | Scalar::U64 | Scalar::Index)) => {
                let number = self.known(*of);
                self.is_number(value, number.map(|number| self.held(*to, number)));
                None
            }
            Operation::AssumeUniform(of) => {
                self.is_number(value, self.known(*of));
                None
            }
            Operation::Property(property) => Some(self.has(*property)),
            Operation::Unary(UnaryOperation::Not, of) => self.truth(*of).map(|truth| !truth),
            Operation::Binary(operation, first, second) => {
                match self.short(*operation, *first, *second) {
                    Some(Short::Known(truth)) => Some(truth),
                    Some(Short::Same(other)) => return self.is_same(value, other),
                    None => self.compared(*operation, *first, *second),
                }
            }
            Operation::Select(condition, first, second) => match self.truth(*condition) {
                Some(truth) => return self.is_same(value, if truth { *first } else { *second }),
                None => None,
            },
            _ => None,
        };
        match truth {
            Some(truth) => self.decide(value, Scalar::Bool, u64::from(truth), written),
            None => written.push(Statement::Define { value, operation }),
        }
    }

    /// Writes a value as the number that the target makes of it.
    fn decide(&mut self, value: Value, scalar: Scalar, bits: u64, written: &mut Block) {
        self.is_number(value, Some(bits));
        written.push(Statement::Define {
            value,
            operation: Operation::Literal(Literal { scalar, bits }),
        });
    }

    fn is_number(&mut self, value: Value, number: Option<u64>) {
        if let Some(number) = number {
            self.numbers.insert(value, number);
            self.decided.insert(value);
        }
    }

    /// `&` and `|` of truth values of which one is decided.
    fn short(&self, operation: BinaryOperation, first: Value, second: Value) -> Option<Short> {
        let decides = match operation {
            BinaryOperation::And => false,
            BinaryOperation::Or => true,
            _ => return None,
        };
        let (truth, rest) = match self.truth(first) {
            Some(truth) => (truth, second),
            None => (self.truth(second)?, first),
        };
        Some(if truth == decides {
            Short::Known(truth)
        } else {
            Short::Same(rest)
        })
    }

    /// A comparison of a decided value with a known one.
    fn compared(&self, comparison: BinaryOperation, first: Value, second: Value) -> Option<bool> {
        if self.known(first).is_none() && self.known(second).is_none() {
            return None;
        }
        let first = self.numbers.get(&first)?;
        let second = self.numbers.get(&second)?;
        Some(match comparison {
            BinaryOperation::Equal => first == second,
            BinaryOperation::NotEqual => first != second,
            BinaryOperation::Less => first < second,
            BinaryOperation::LessEqual => first <= second,
            BinaryOperation::Greater => first > second,
            BinaryOperation::GreaterEqual => first >= second,
            _ => return None,
        })
    }
}

/// The rest of `&` or `|`.
enum Short {
    Known(bool),
    Same(Value),
}

/// The variables without a name that hold the result of a branch of which one block is left: they
/// are written once, in the block that they begin in, and read as a whole.
fn results(locals: &[Local], body: &Block) -> Vec<LocalId> {
    let whole = |place: &Place| match place.root {
        Root::Local(local) => Some((local, place.path.is_empty())),
        _ => None,
    };
    let mut writes = vec![0_u32; locals.len()];
    let mut is_whole = vec![true; locals.len()];
    walk(body, &mut |statement| {
        let place = match statement {
            Statement::Store { place, .. } => Some(place),
            Statement::Define { operation, .. } => operation.place(),
            _ => None,
        };
        if let Some((local, whole)) = place.and_then(whole) {
            let number = local.0 as usize;
            writes[number] += u32::from(matches!(statement, Statement::Store { .. }));
            let is_read = matches!(
                statement,
                Statement::Store { .. }
                    | Statement::Define {
                        operation: Operation::Load(_),
                        ..
                    }
            );
            is_whole[number] &= whole && is_read;
        }
    });
    let mut found = Vec::new();
    each_block(body, &mut |block| {
        let begins = block.iter().filter_map(|statement| match statement {
            Statement::Local {
                local,
                initial: None,
            } => Some(*local),
            _ => None,
        });
        found.extend(begins.filter(|local| {
            let number = local.0 as usize;
            let is_written = |statement: &Statement| matches!(statement, Statement::Store { place, .. } if place.root == Root::Local(*local));
            locals[number].name.is_none()
                && writes[number] == 1
                && is_whole[number]
                && block.iter().any(is_written)
        }));
    });
    found
}

fn each_block<'b>(block: &'b Block, visit: &mut impl FnMut(&'b Block)) {
    visit(block);
    walk(block, &mut |statement| match statement {
        Statement::If {
            then, otherwise, ..
        } => {
            visit(then);
            visit(otherwise);
        }
        Statement::Loop { body, step, .. } => {
            visit(body);
            visit(step);
        }
        Statement::Elements { body, .. } => visit(body),
        _ => {}
    });
}

/// Leaves out values that nothing uses, and then those that only these used.
fn leave_out_unused(function: &mut Function) {
    loop {
        let uses = facts::uses(function);
        if !retain_used(&mut function.body, &uses) {
            return;
        }
    }
}

/// Leaves out unused definitions. True if any was left out.
fn retain_used(block: &mut Block, uses: &[u32]) -> bool {
    let before = block.len();
    block.retain(|statement| match statement {
        Statement::Define { value, operation } => {
            uses[value.0 as usize] > 0 || !has_no_effect(operation)
        }
        _ => true,
    });
    let mut any = block.len() < before;
    for statement in block {
        for inner in statement.blocks_mut() {
            any |= retain_used(inner, uses);
        }
    }
    any
}

/// True if an operation certainly does nothing but give its result.
fn has_no_effect(operation: &Operation) -> bool {
    match operation {
        Operation::Literal(_)
        | Operation::Unary(..)
        | Operation::Cast(..)
        | Operation::Bitcast(..)
        | Operation::AssumeUniform(_)
        | Operation::Select(..)
        | Operation::Math(..)
        | Operation::Struct(..)
        | Operation::Array(..)
        | Operation::Field(..) => true,
        // These may be a fault.
        Operation::Binary(operation, ..) => !matches!(
            operation,
            BinaryOperation::Divide | BinaryOperation::Remainder
        ),
        Operation::Load(place) => place.path.is_empty(),
        _ => false,
    }
}

/// Has values and variables that are not there any more be of no type that a target could lack.
fn forget_undefined(function: &mut Function) {
    let mut values: HashSet<Value> = function.parameters.iter().copied().collect();
    let mut locals = HashSet::new();
    walk(&function.body, &mut |statement| match statement {
        Statement::Define { value, .. } => {
            values.insert(*value);
        }
        Statement::Elements { position, .. } => values.extend(position),
        Statement::Local { local, .. } => {
            locals.insert(*local);
        }
        _ => {}
    });
    for (number, info) in function.values.iter_mut().enumerate() {
        if !values.contains(&Value(number as u32)) {
            info.value_type = Type::Unit;
        }
    }
    for (number, local) in function.locals.iter_mut().enumerate() {
        if !locals.contains(&LocalId(number as u32)) {
            local.local_type = Type::Unit;
        }
    }
}

/// Leaves out the device functions that the kernel does not come to.
fn leave_out_uncalled(module: &mut Module) {
    let mut called = vec![false; module.functions.len()];
    let mut open = calls(&module.kernel.function);
    while let Some(FunctionId(number)) = open.pop() {
        if !std::mem::replace(&mut called[number as usize], true) {
            open.extend(calls(&module.functions[number as usize]));
        }
    }
    let mut numbers = Vec::new();
    let mut next = 0;
    for called in &called {
        numbers.push(FunctionId(next));
        next += u32::from(*called);
    }
    let mut called = called.into_iter();
    module.functions.retain(|_| called.next() == Some(true));
    for function in module
        .functions
        .iter_mut()
        .chain([&mut module.kernel.function])
    {
        renumber(&mut function.body, &numbers);
    }
}

fn calls(function: &Function) -> Vec<FunctionId> {
    let mut calls = Vec::new();
    walk(&function.body, &mut |statement| {
        if let Statement::Define {
            operation: Operation::Call(callee, _),
            ..
        } = statement
        {
            calls.push(*callee);
        }
    });
    calls
}

fn renumber(block: &mut Block, numbers: &[FunctionId]) {
    for statement in block {
        if let Statement::Define {
            operation: Operation::Call(callee, _),
            ..
        } = statement
        {
            *callee = numbers[callee.0 as usize];
        }
        for inner in statement.blocks_mut() {
            renumber(inner, numbers);
        }
    }
}

//! Statements of a function.

mod hoist;
mod loops;
mod printf;

use std::collections::HashMap;

use crate::function::{Function, LocalId, Location, Value};
use crate::operation::Operation;
use crate::statement::{Block, LoopId, Place, Root, Statement};
use crate::types::{Scalar, Type};

use super::PrintError;
use super::expression::{Change, Expression, precedence};
use super::facts;
use super::helpers;
use super::module::ModulePrinter;
use super::names::Names;
use super::protocol::{FaultKind, Site};
use super::text::Text;

/// A slice's pointer and length: names or numbers.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) pointer: String,
    pub(super) length: String,
}

/// An expression that waits to be put where it is used.
struct Pending {
    value: Value,
    expression: Expression,
}

/// A loop that is being printed.
struct Loop {
    id: LoopId,
    /// The label by which it is continued from inside of another loop, or at all, if one was
    /// needed.
    continue_label: Option<String>,
    break_label: Option<String>,
    /// Loops in C that it is; `break` leaves the innermost.
    depth: usize,
    /// Its step stands at its body's end, where `continue` would leave it out.
    step_inside: bool,
}

/// A function being printed.
pub(super) struct FunctionPrinter<'p, 'm> {
    pub(super) module: &'p mut ModulePrinter<'m>,
    pub(super) function: &'m Function,
    pub(super) names: Names,
    pub(super) text: Text,
    /// For the kernel's own function, whether it is left early.
    kernel: Option<bool>,
    uses: Vec<u32>,
    known: HashMap<Value, Expression>,
    slices: HashMap<Value, Slice>,
    pub(super) locals: HashMap<LocalId, String>,
    pending: Vec<Pending>,
    loops: Vec<Loop>,
    /// Checks that were done before the loop that is being printed.
    pub(super) done: hoist::Spared,
    temporaries: u32,
    /// The location seen last: that of statements which have none.
    pub(super) latest: Option<Location>,
}

impl<'p, 'm> FunctionPrinter<'p, 'm> {
    pub(super) fn new(
        module: &'p mut ModulePrinter<'m>,
        function: &'m Function,
        text: Text,
        kernel: Option<bool>,
    ) -> Self {
        Self {
            names: module.names.clone(),
            module,
            function,
            text,
            kernel,
            uses: facts::uses(function),
            known: HashMap::new(),
            slices: HashMap::new(),
            locals: HashMap::new(),
            pending: Vec::new(),
            loops: Vec::new(),
            done: hoist::Spared::default(),
            temporaries: 0,
            latest: function.location,
        }
    }

    // Values.

    pub(super) fn in_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    pub(super) fn define_name(&mut self, value: Value, name: String) {
        self.known.insert(value, Expression::primary(name));
    }

    pub(super) fn define_slice(&mut self, value: Value, slice: Slice) {
        self.slices.insert(value, slice);
    }

    pub(super) fn slice(&self, value: Value) -> Slice {
        // Verified: slices are defined before they are used.
        self.slices[&value].clone()
    }

    pub(super) fn type_of(&self, value: Value) -> &'m Type {
        &self.function.values[value.0 as usize].value_type
    }

    /// The scalar type of a value, an index as the integer that it is.
    pub(super) fn scalar_of(&self, value: Value) -> Scalar {
        // Verified: only scalars are asked for.
        self.module
            .concrete(self.type_of(value).scalar().unwrap_or(Scalar::I32))
    }

    fn location_of(&self, value: Value) -> Option<Location> {
        self.function.values[value.0 as usize].location
    }

    /// A value's expression, to be put where it is used.
    pub(super) fn take(&mut self, value: Value) -> Expression {
        if let Some(at) = self.pending.iter().position(|p| p.value == value) {
            return self.pending.remove(at).expression;
        }
        // Verified: values are defined before they are used.
        self.known[&value].clone()
    }

    /// A value's expression, without putting it anywhere.
    pub(super) fn peek(&self, value: Value) -> Option<&Expression> {
        let pending = self.pending.iter().find(|p| p.value == value);
        pending.map_or_else(
            || self.known.get(&value),
            |pending| Some(&pending.expression),
        )
    }

    /// A name or number that a value has, which can be written several times.
    pub(super) fn simple(&mut self, value: Value) -> Expression {
        if self.pending.iter().any(|p| p.value == value) {
            let expression = self.take(value);
            if expression.is_simple() {
                return expression;
            }
            self.name(value, &expression);
        }
        self.known[&value].clone()
    }

    /// Gives the values names whose expressions may fault, as they are going to be evaluated maybe
    /// only.
    pub(super) fn settle(&mut self, values: &[Value]) {
        if self
            .pending
            .iter()
            .any(|p| values.contains(&p.value) && p.expression.effects.faults)
        {
            self.flush(Change::Fault);
        }
    }

    /// Gives names to the values whose expressions cannot move over a change.
    pub(super) fn flush(&mut self, change: Change) {
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].expression.effects.conflicts(change) {
                let Pending { value, expression } = self.pending.remove(at);
                self.name(value, &expression);
            } else {
                at += 1;
            }
        }
    }

    /// Gives names to all values that wait.
    fn flush_all(&mut self) {
        for Pending { value, expression } in std::mem::take(&mut self.pending) {
            self.name(value, &expression);
        }
    }

    fn new_name(&mut self, value: Value) -> String {
        match self.function.values[value.0 as usize].name {
            Some(wanted) => self.names.unique(wanted, &[]),
            None => self.temporary(),
        }
    }

    /// A name that no user's is like.
    pub(super) fn temporary(&mut self) -> String {
        self.temporaries += 1;
        format!("t{}", self.temporaries)
    }

    /// Writes down the definition of a value.
    fn name(&mut self, value: Value, expression: &Expression) {
        let type_name = self.module.type_name(self.type_of(value));
        let name = self.new_name(value);
        let line = format!(
            "const {type_name} {name} = {};",
            expression.at(precedence::ARGUMENT)
        );
        self.text.line_at(self.location_of(value), &line);
        self.define_name(value, name);
    }

    /// Defines a value by an expression: puts it aside, if it is used once, or writes it down.
    fn define(&mut self, value: Value, expression: Expression) {
        let named = self.function.values[value.0 as usize].name.is_some();
        let uses = self.uses[value.0 as usize];
        if expression.effects.faults {
            self.flush(Change::Fault);
        }
        if uses == 0 {
            if expression.effects.faults {
                let line = format!("(void){};", expression.at(precedence::UNARY));
                self.text.line_at(self.location_of(value), &line);
            }
        } else if expression.is_simple() && !named {
            self.known.insert(value, expression);
        } else if uses == 1 && !named {
            self.pending.push(Pending { value, expression });
        } else {
            self.name(value, &expression);
        }
    }

    /// Writes down an expression with effects, and the value that it gives if that is used.
    fn act(&mut self, value: Value, expression: &Expression) {
        self.flush(Change::All);
        if self.uses[value.0 as usize] == 0 || *self.type_of(value) == Type::Unit {
            let text = if expression.precedence < precedence::PRIMARY {
                format!("(void)({});", expression.text)
            } else {
                format!("{};", expression.text)
            };
            self.text.line_at(self.location_of(value), &text);
        } else {
            self.name(value, expression);
        }
    }

    // Statements.

    /// The statements of a block, at the text's indentation.
    pub(super) fn block(&mut self, block: &'m Block) -> Result<(), PrintError> {
        self.statements(block)?;
        self.flush(Change::Fault);
        // The rest would be used only by code that is never reached.
        self.pending.clear();
        Ok(())
    }

    fn statements(&mut self, statements: &'m [Statement]) -> Result<(), PrintError> {
        for (at, statement) in statements.iter().enumerate() {
            let last = at + 1 == statements.len();
            if let (Statement::Return { value: None, .. }, true, Some(_), true) = (
                statement,
                last,
                self.kernel,
                std::ptr::eq(statements, self.function.body.as_slice()),
            ) {
                // The kernel's end.
                continue;
            }
            self.statement(statement)?;
            if matches!(
                statement,
                Statement::Break(_) | Statement::Continue(_) | Statement::Return { .. }
            ) {
                break;
            }
        }
        Ok(())
    }

    /// A block in braces, whose opening line is written.
    fn inner(&mut self, block: &'m Block) -> Result<(), PrintError> {
        self.text.deeper();
        self.block(block)?;
        self.text.back();
        Ok(())
    }

    /// The text that a closure writes, kept apart.
    fn apart(
        &mut self,
        deeper: usize,
        write: impl FnOnce(&mut Self) -> Result<(), PrintError>,
    ) -> Result<Text, PrintError> {
        let inner = self.text.inner(deeper);
        let outer = std::mem::replace(&mut self.text, inner);
        let written = write(self);
        let text = std::mem::replace(&mut self.text, outer);
        written.map(|()| text)
    }

    fn statement(&mut self, statement: &'m Statement) -> Result<(), PrintError> {
        match statement {
            Statement::Define { value, operation } => {
                self.latest = self.location_of(*value).or(self.latest);
                self.definition(*value, operation)?;
            }
            Statement::Local { local, initial } => self.local(*local, *initial),
            Statement::Store {
                place,
                value,
                location,
            } => {
                self.latest = location.or(self.latest);
                self.store(place, *value, self.latest)?;
            }
            Statement::If {
                condition,
                then,
                otherwise,
                location,
            } => {
                self.latest = location.or(self.latest);
                let condition_text = self.condition(*condition);
                self.flush_all();
                self.branches("if", &condition_text, *location, then, otherwise)?;
            }
            Statement::Loop { id, body, step } => self.repeated(*id, body, step)?,
            Statement::Elements {
                id,
                position,
                extent,
                body,
            } => {
                self.elements(*id, position, extent, body)?;
            }
            Statement::Break(id) => {
                self.flush(Change::Fault);
                let line = self.jump(*id, true);
                self.text.line(&line);
            }
            Statement::Continue(id) => {
                self.flush(Change::Fault);
                let line = self.jump(*id, false);
                self.text.line(&line);
            }
            Statement::Return { value, location } => {
                self.latest = location.or(self.latest);
                self.leave(*value, *location);
            }
            Statement::Barrier(location) => {
                self.latest = location.or(self.latest);
                self.flush(Change::All);
                let site = self.module.barrier_site(self.function, self.latest);
                let line = format!("{};", self.module.language.barrier(site));
                self.text.line_at(*location, &line);
            }
            Statement::GridBarrier(location) => {
                self.latest = location.or(self.latest);
                self.flush(Change::All);
                let site = self.module.barrier_site(self.function, self.latest);
                let language = self.module.language;
                let barrier = language.grid_barrier(&mut self.module.helpers, site);
                let barrier = barrier.map_err(|what| self.module.unsupported(what, *location))?;
                self.text.line_at(*location, &format!("{barrier};"));
            }
            Statement::Fence(scope, order) => {
                self.flush(Change::All);
                let language = self.module.language;
                let fence = language.fence(&mut self.module.helpers, *scope, *order);
                let fence = fence.map_err(|what| self.module.unsupported(what, None))?;
                self.text.line(&format!("{fence};"));
            }
            Statement::Assert {
                condition,
                message,
                values,
                shown,
                location,
            } => {
                let condition = self.take(*condition);
                let values: Vec<_> = values.iter().map(|value| self.take(*value)).collect();
                self.flush(Change::Fault);
                let dimensions = usize::from(self.module.module.kernel.dimensions);
                let check = helpers::check_assertion(
                    &mut self.module.helpers,
                    self.module.language,
                    dimensions,
                    !values.is_empty(),
                );
                let site = self.module.site_of(Site {
                    kind: FaultKind::Assertion,
                    function: self.function.name.clone(),
                    location: *location,
                    message: Some(message.clone()),
                    values: shown.clone(),
                });
                let mut arguments = vec!["quipu".to_owned(), condition.at(precedence::ARGUMENT)];
                arguments.extend(values.iter().map(|value| value.at(precedence::ARGUMENT)));
                if values.len() == 1 {
                    arguments.push("0".to_owned());
                }
                arguments.push(site.to_string());
                let call = format!("{check}({});", arguments.join(", "));
                self.text.line_at(*location, &call);
            }
            Statement::Print {
                format,
                values,
                location,
            } => self.say(format, values, *location),
        }
        Ok(())
    }

    fn condition(&mut self, condition: Value) -> String {
        self.take(condition).text
    }

    /// `if`, and those in its `else`.
    fn branches(
        &mut self,
        head: &str,
        condition: &str,
        location: Option<Location>,
        then: &'m Block,
        otherwise: &'m Block,
    ) -> Result<(), PrintError> {
        // `if (!c) { … }` rather than an empty branch.
        if then.is_empty() && !otherwise.is_empty() {
            self.text
                .line_at(location, &format!("{head} (!({condition})) {{"));
            self.inner(otherwise)?;
            self.text.line("}");
            return Ok(());
        }
        // A directive may not stand between `}` and `else`.
        if head == "if" {
            self.text
                .line_at(location, &format!("{head} ({condition}) {{"));
        } else {
            self.text.line(&format!("{head} ({condition}) {{"));
        }
        self.inner(then)?;
        if otherwise.is_empty() {
            self.text.line("}");
            return Ok(());
        }
        if let Some((
            Statement::If {
                condition,
                then,
                otherwise: rest,
                location,
            },
            before,
        )) = otherwise.split_last()
            && before.iter().all(|s| matches!(s, Statement::Define { .. }))
        {
            let mut inner = None;
            let prefix = self.apart(1, |f| {
                f.statements(before)?;
                inner = Some(f.condition(*condition));
                f.flush_all();
                Ok(())
            })?;
            let inner = inner.unwrap_or_default();
            if prefix.is_empty() && !then.is_empty() {
                return self.branches("} else if", &inner, *location, then, rest);
            }
            self.text.line("} else {");
            self.text.append(&prefix);
            self.text.deeper();
            self.branches("if", &inner, *location, then, rest)?;
            self.text.back();
        } else {
            self.text.line("} else {");
            self.inner(otherwise)?;
        }
        self.text.line("}");
        Ok(())
    }

    fn local(&mut self, local: LocalId, initial: Option<Value>) {
        let variable = &self.function.locals[local.0 as usize];
        if variable.local_type == Type::Unit {
            self.locals.insert(local, String::new());
            return;
        }
        let type_name = self.module.type_name(&variable.local_type);
        let location = initial.and_then(|value| self.location_of(value));
        if matches!(variable.local_type, Type::Slice { .. }) {
            let name = self
                .names
                .unique(variable.name.unwrap_or("slice"), &["_length"]);
            let index = self.module.index();
            let (pointer, length) = match initial.map(|value| self.slice(value)) {
                Some(Slice { pointer, length }) => {
                    (format!(" = {pointer}"), format!(" = {length}"))
                }
                None => Default::default(),
            };
            self.text
                .line_at(location, &format!("{type_name}{name}{pointer};"));
            self.text.line(&format!("{index} {name}_length{length};"));
            self.locals.insert(local, name);
            return;
        }
        let initial = initial.map(|value| self.take(value));
        let name = match variable.name {
            Some(wanted) => self.names.unique(wanted, &[]),
            None => self.temporary(),
        };
        let line = match initial {
            Some(initial) => {
                format!("{type_name} {name} = {};", initial.at(precedence::ARGUMENT))
            }
            None => format!("{type_name} {name};"),
        };
        self.text.line_at(location, &line);
        self.locals.insert(local, name);
    }

    fn store(
        &mut self,
        place: &Place,
        value: Value,
        location: Option<Location>,
    ) -> Result<(), PrintError> {
        if *self.type_of(value) == Type::Unit {
            return Ok(());
        }
        if let (Root::Local(local), Type::Slice { .. }) = (place.root, self.type_of(value)) {
            let Slice { pointer, length } = self.slice(value);
            let name = self.locals[&local].clone();
            self.flush(Change::Local(local));
            self.text.line_at(location, &format!("{name} = {pointer};"));
            self.text
                .line_at(location, &format!("{name}_length = {length};"));
            return Ok(());
        }
        if self.has_checks(place) {
            self.settle(&[value]);
        }
        let at = self.place(place, FaultKind::Write, location);
        let value = self.take(value);
        self.flush(match place.root {
            Root::Local(local) => Change::Local(local),
            _ => Change::Memory(facts::space(self.function, place)),
        });
        let assignment = format!("{} = {};", at.text, value.at(precedence::ARGUMENT));
        if at.checks.is_empty() {
            self.text.line_at(location, &assignment);
        } else {
            self.flush(Change::Fault);
            self.text
                .line_at(location, &format!("if ({})", at.condition()));
            self.text.deeper();
            self.text.line(&assignment);
            self.text.back();
        }
        Ok(())
    }

    fn leave(&mut self, value: Option<Value>, location: Option<Location>) {
        let value = value.filter(|value| *self.type_of(*value) != Type::Unit);
        let line = match (value, self.kernel) {
            (Some(value), _) => format!("return {};", self.take(value).text),
            (None, Some(_)) => self.module.language.leave().to_owned(),
            (None, None) => "return;".to_owned(),
        };
        self.flush(Change::Fault);
        self.text.line_at(location, &line);
    }

    // Loops.

    /// A definition.
    fn definition(&mut self, value: Value, operation: &'m Operation) -> Result<(), PrintError> {
        match operation {
            Operation::Slice {
                place,
                range,
                checked,
            } => self.slice_of(value, place, *range, *checked),
            Operation::Load(place) if matches!(self.type_of(value), Type::Slice { .. }) => {
                let Root::Local(local) = place.root else {
                    return Ok(());
                };
                let name = self.locals[&local].clone();
                let length = format!("{name}_length");
                self.copy_slice(
                    value,
                    Slice {
                        pointer: name,
                        length,
                    },
                );
            }
            Operation::Repeat(element, count) => self.repetition(value, *element, *count),
            Operation::Call(callee, arguments) => {
                let expression = self.call(*callee, arguments);
                if self.module.facts(*callee).acts {
                    self.act(value, &expression);
                } else if *self.type_of(value) == Type::Unit {
                    if expression.effects.faults {
                        self.act(value, &expression);
                    }
                } else {
                    self.define(value, expression);
                }
            }
            Operation::Load(place) if *self.type_of(value) == Type::Unit => {
                let _ = place;
            }
            Operation::Atomic { .. }
            | Operation::Clock
            | Operation::Warp(..)
            | Operation::BarrierCount(_) => {
                let expression = self.effectful(value, operation)?;
                self.act(value, &expression);
            }
            _ => {
                let expression = self.pure(value, operation);
                self.define(value, expression);
            }
        }
        Ok(())
    }

    /// Gives a slice names of its own.
    pub(super) fn copy_slice(&mut self, value: Value, from: Slice) {
        let type_name = self.module.type_name(self.type_of(value));
        let index = self.module.index();
        let wanted = self.function.values[value.0 as usize]
            .name
            .unwrap_or("slice");
        let name = self.names.unique(wanted, &["_length"]);
        let location = self.location_of(value);
        self.text.line_at(
            location,
            &format!("{type_name}const {name} = {};", from.pointer),
        );
        self.text.line_at(
            location,
            &format!("const {index} {name}_length = {};", from.length),
        );
        let length = format!("{name}_length");
        self.define_slice(
            value,
            Slice {
                pointer: name,
                length,
            },
        );
    }

    /// An array of equal elements: zeros as an initialiser, others by a loop.
    fn repetition(&mut self, value: Value, element: Value, count: u64) {
        let expression = self.take(element);
        let element_type = self.type_of(element).clone();
        let is_zero = expression.literal.is_some_and(|literal| literal.bits == 0);
        if is_zero {
            let zero = self.module.zero(self.type_of(value));
            self.define(value, Expression::primary(zero));
            return;
        }
        if count <= 8 && (count == 1 || expression.is_simple()) {
            let field = self.field(&element_type, &expression);
            let fields = vec![field; count as usize].join(", ");
            let type_name = self.module.type_name(self.type_of(value));
            let text = self
                .module
                .language
                .aggregate(&type_name, &format!("{{{fields}}}"));
            self.define(value, Expression::primary(text).with([&expression]));
            return;
        }
        let type_name = self.module.type_name(self.type_of(value));
        let element = if expression.is_simple() {
            expression.text
        } else {
            let element_name = self.module.type_name(&element_type);
            let name = self.temporary();
            self.flush(Change::Fault);
            self.text.line(&format!(
                "const {element_name} {name} = {};",
                expression.at(precedence::ARGUMENT)
            ));
            name
        };
        let name = self.new_name(value);
        let index = self.module.index();
        self.text
            .line_at(self.location_of(value), &format!("{type_name} {name};"));
        self.text.line(&format!(
            "for ({index} quipu_at = 0; quipu_at < {count}; quipu_at++)"
        ));
        self.text.deeper();
        self.text.line(&format!("{name}.e[quipu_at] = {element};"));
        self.text.back();
        self.define_name(value, name);
    }
}

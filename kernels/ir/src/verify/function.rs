//! Statements: one walk through a function. At each statement it knows the defined values, the
//! variables with a value, the loops around, and whether the statement is reached.

use std::collections::HashMap;

use crate::function::{Function, LocalId, Location, Value};
use crate::module::Module;
use crate::operation::Operation;
use crate::statement::{Block, LoopId, Place, Projection, Root, Statement};
use crate::types::{Scalar, Type};

use super::operation::fits;
use super::{Checked, VerifyError, demand, operation, place_type};

/// Checks one function.
pub(super) fn verify(module: &Module, function: &Function) -> Result<(), VerifyError> {
    let mut walk = Walk {
        module,
        function,
        defined: vec![Definition::Never; function.values.len()],
        begun: vec![Definition::Never; function.locals.len()],
        assigned: Some(vec![false; function.locals.len()]),
        loops: HashMap::new(),
        inside: Vec::new(),
        steps: 0,
        way: String::from("body"),
        location: function.location,
    };
    let outcome = walk
        .signature()
        .map_err(|problem| (None, problem))
        .and_then(|()| {
            walk.block(&function.body)
                .map_err(|problem| (Some(walk.way.clone()), problem))
        })
        .and_then(|()| {
            if function.result != Type::Unit && walk.assigned.is_some() {
                return Err((
                    None,
                    format!(
                        "its end can be reached without a `Return` of its `{}`",
                        module.describe(&function.result)
                    ),
                ));
            }
            Ok(())
        });
    outcome.map_err(|(statement, problem)| VerifyError {
        function: Some(function.name.clone()),
        statement,
        location: walk.location,
        problem,
    })
}

/// The state of a definition at the walk's place.
#[derive(Clone, Copy, PartialEq)]
enum Definition {
    Never,
    Here,
    /// In a block that has ended.
    Elsewhere,
}

/// The variables that hold a value; `None` where no thread comes to, and so everything holds.
type Assigned = Option<Vec<bool>>;

/// The variables that hold a value on both ways.
fn both(first: Assigned, second: Assigned) -> Assigned {
    match (first, second) {
        (Some(first), Some(second)) => {
            Some(first.iter().zip(second).map(|(a, b)| *a && b).collect())
        }
        (first, second) => first.or(second),
    }
}

/// A loop that the walk is in.
struct Loop {
    id: LoopId,
    /// The variables that hold a value after all `Break`s and `Continue`s so far.
    at_break: Assigned,
    at_continue: Assigned,
    in_step: bool,
}

struct Walk<'m> {
    module: &'m Module,
    function: &'m Function,
    defined: Vec<Definition>,
    begun: Vec<Definition>,
    assigned: Assigned,
    loops: HashMap<LoopId, ()>,
    inside: Vec<Loop>,
    /// The number of steps of loops that the walk is in.
    steps: usize,
    way: String,
    location: Option<Location>,
}

impl<'m> Walk<'m> {
    fn describe(&self, described: &Type) -> String {
        self.module.describe(described)
    }

    fn type_of(&self, value: Value) -> &'m Type {
        &self.function.values[value.0 as usize].value_type
    }

    fn signature(&mut self) -> Checked {
        let (module, function) = (self.module, self.function);
        for (number, value) in function.values.iter().enumerate() {
            module
                .verify_type(&value.value_type, module.structs.len())
                .map_err(|problem| format!("value {number}: {problem}"))?;
        }
        for (number, local) in function.locals.iter().enumerate() {
            module
                .verify_type(&local.local_type, module.structs.len())
                .map_err(|problem| format!("variable {number}: {problem}"))?;
        }
        module
            .verify_type(&function.result, module.structs.len())
            .map_err(|problem| format!("its result: {problem}"))?;
        demand!(
            !matches!(function.result, Type::Slice { .. }),
            "it gives a slice; only parameters, arguments and variables hold those"
        );
        for parameter in &function.parameters {
            self.define(*parameter)?;
            demand!(
                *self.type_of(*parameter) != Type::Unit,
                "a parameter of type `()`"
            );
        }
        Ok(())
    }

    fn define(&mut self, value: Value) -> Checked {
        match self.defined.get_mut(value.0 as usize) {
            None => Err(format!("there is no value {}", value.0)),
            Some(defined @ Definition::Never) => {
                *defined = Definition::Here;
                Ok(())
            }
            Some(_) => Err(format!("value {} is defined a second time", value.0)),
        }
    }

    fn used(&self, value: Value) -> Checked<&'m Type> {
        match self.defined.get(value.0 as usize) {
            None => Err(format!("there is no value {}", value.0)),
            Some(Definition::Here) => Ok(self.type_of(value)),
            Some(Definition::Never) => {
                Err(format!("value {} is used before it is defined", value.0))
            }
            Some(Definition::Elsewhere) => Err(format!(
                "value {} is used outside of the block that defines it",
                value.0
            )),
        }
    }

    fn used_as(&self, value: Value, scalar: Scalar, what: &str) -> Checked {
        let found = self.used(value)?;
        demand!(
            *found == scalar.into(),
            "{what} of type `{}` instead of `{}`",
            self.describe(found),
            scalar.rust_name()
        );
        Ok(())
    }

    fn begun(&self, local: LocalId) -> Checked {
        match self.begun.get(local.0 as usize) {
            None => Err(format!("there is no variable {}", local.0)),
            Some(Definition::Here) => Ok(()),
            Some(_) => Err(format!(
                "variable {} is used where it has not begun",
                local.0
            )),
        }
    }

    /// The values and the variable in a place; `whole` if the variable as a whole is written.
    fn place(&self, place: &Place, whole: bool) -> Checked {
        match place.root {
            Root::Local(local) => {
                self.begun(local)?;
                let holds = self
                    .assigned
                    .as_ref()
                    .is_none_or(|assigned| assigned[local.0 as usize]);
                demand!(holds || whole, "variable {} may hold nothing yet", local.0);
            }
            Root::Slice(value) => {
                self.used(value)?;
            }
            Root::Shared(_) | Root::Constant(_) => {}
        }
        for projection in &place.path {
            if let Projection::Index { index, .. } = projection {
                self.used(*index)?;
            }
        }
        Ok(())
    }

    /// A block: its definitions are known to it only.
    fn block(&mut self, block: &'m Block) -> Checked {
        let (way, location) = (self.way.len(), self.location);
        let mut values = Vec::new();
        let mut locals = Vec::new();
        for (number, statement) in block.iter().enumerate() {
            self.way.truncate(way);
            self.way.push_str(&format!("[{number}]"));
            self.location = location;
            self.statement(statement)?;
            match statement {
                Statement::Define { value, .. } => values.push(*value),
                Statement::Local { local, .. } => locals.push(*local),
                _ => {}
            }
        }
        self.way.truncate(way);
        self.location = location;
        // The function's own block ends where nothing comes after.
        for value in values {
            self.defined[value.0 as usize] = Definition::Elsewhere;
        }
        for local in locals {
            self.begun[local.0 as usize] = Definition::Elsewhere;
        }
        Ok(())
    }

    /// A block inside of a statement, with its name there.
    fn inner(&mut self, name: &str, block: &'m Block) -> Checked {
        let way = self.way.len();
        self.way.push('.');
        self.way.push_str(name);
        self.block(block)?;
        self.way.truncate(way);
        Ok(())
    }

    fn enter(&mut self, id: LoopId) -> Checked {
        demand!(
            self.loops.insert(id, ()).is_none(),
            "there are two loops with the number {}",
            id.0
        );
        self.inside.push(Loop {
            id,
            at_break: None,
            at_continue: None,
            in_step: false,
        });
        Ok(())
    }

    fn current(&mut self, id: LoopId, what: &str) -> Checked<&mut Loop> {
        let found = self
            .inside
            .iter_mut()
            .find(|inside| inside.id == id)
            .ok_or_else(|| format!("`{what}` of loop {}, which it is not in", id.0))?;
        demand!(!found.in_step, "`{what}` of a loop in that loop's step");
        Ok(found)
    }

    fn statement(&mut self, statement: &'m Statement) -> Checked {
        match statement {
            Statement::Define { value, operation } => {
                if let Some(info) = self.function.values.get(value.0 as usize) {
                    self.location = info.location.or(self.location);
                }
                self.operands(operation)?;
                let result = operation::result(self.module, self.function, operation)?;
                self.define(*value)?;
                let declared = self.type_of(*value);
                demand!(
                    fits(&result, declared),
                    "value {} is declared as `{}`, and its operation gives `{}`",
                    value.0,
                    self.describe(declared),
                    self.describe(&result)
                );
            }
            Statement::Local { local, initial } => self.local(*local, *initial)?,
            Statement::Store {
                place,
                value,
                location,
            } => {
                self.location = location.or(self.location);
                self.store(place, *value)?;
            }
            Statement::If {
                condition,
                then,
                otherwise,
                location,
            } => {
                self.location = location.or(self.location);
                self.used_as(*condition, Scalar::Bool, "a condition")?;
                let before = self.assigned.clone();
                self.inner("then", then)?;
                let after = std::mem::replace(&mut self.assigned, before);
                self.inner("otherwise", otherwise)?;
                self.assigned = both(after, self.assigned.take());
            }
            Statement::Loop { id, body, step } => {
                self.enter(*id)?;
                self.inner("body", body)?;
                if let Some(inside) = self.inside.last_mut() {
                    inside.in_step = true;
                    self.assigned = both(self.assigned.take(), inside.at_continue.take());
                }
                self.steps += 1;
                self.inner("step", step)?;
                self.steps -= 1;
                self.assigned = self.inside.pop().and_then(|inside| inside.at_break);
            }
            Statement::Elements {
                id,
                position,
                extent,
                body,
            } => self.elements(*id, position, extent, body)?,
            Statement::Break(id) => {
                let assigned = self.assigned.take();
                let inside = self.current(*id, "Break")?;
                inside.at_break = both(inside.at_break.take(), assigned);
            }
            Statement::Continue(id) => {
                let assigned = self.assigned.take();
                let inside = self.current(*id, "Continue")?;
                inside.at_continue = both(inside.at_continue.take(), assigned);
            }
            Statement::Return { value, location } => {
                self.location = location.or(self.location);
                self.leave(*value)?;
            }
            Statement::Barrier(_) | Statement::GridBarrier(_) | Statement::Fence(..) => {}
            Statement::Assert {
                condition,
                values,
                shown,
                location,
                ..
            } => {
                self.location = location.or(self.location);
                self.used_as(*condition, Scalar::Bool, "a condition")?;
                for value in values {
                    self.used_as(*value, Scalar::U64, "a word that an assertion shows")?;
                }
                demand!(
                    values.len() <= 2 && values.len() == shown.len(),
                    "an assertion shows {} words of {} values; it may show two",
                    values.len(),
                    shown.len()
                );
            }
            Statement::Print {
                format,
                values,
                location,
            } => {
                self.location = location.or(self.location);
                let wanted = format.matches("{}").count();
                demand!(
                    wanted == values.len(),
                    "a text with {wanted} `{{}}` is printed with {} values",
                    values.len()
                );
                for value in values {
                    let printed = self.used(*value)?;
                    demand!(
                        printed.scalar().is_some(),
                        "a `{}` is printed, which is not a scalar",
                        self.describe(printed)
                    );
                }
            }
        }
        Ok(())
    }

    fn local(&mut self, local: LocalId, initial: Option<Value>) -> Checked {
        let number = local.0 as usize;
        match self.begun.get(number) {
            None => return Err(format!("there is no variable {}", local.0)),
            Some(Definition::Never) => self.begun[number] = Definition::Here,
            Some(_) => return Err(format!("variable {} begins a second time", local.0)),
        }
        if let Some(initial) = initial {
            let (given, expected) = (
                self.used(initial)?,
                &self.function.locals[number].local_type,
            );
            demand!(
                fits(given, expected),
                "variable {} of type `{}` begins with a `{}`",
                local.0,
                self.describe(expected),
                self.describe(given)
            );
        }
        if let Some(assigned) = &mut self.assigned {
            assigned[number] = initial.is_some();
        }
        Ok(())
    }

    fn store(&mut self, place: &Place, value: Value) -> Checked {
        self.place(place, place.path.is_empty())?;
        let given = self.used(value)?;
        let at = place_type(self.module, self.function, place)?;
        demand!(
            !matches!(place.root, Root::Constant(_)),
            "a store to a constant"
        );
        demand!(at.mutable, "a store through a slice that may only be read");
        demand!(
            matches!(place.root, Root::Local(_)) || !place.path.is_empty(),
            "a slice as a whole is stored to: it takes an index"
        );
        demand!(
            fits(given, &at.held),
            "a `{}` is stored to a place of type `{}`",
            self.describe(given),
            self.describe(&at.held)
        );
        if let (Root::Local(local), [], Some(assigned)) =
            (place.root, &place.path[..], &mut self.assigned)
        {
            assigned[local.0 as usize] = true;
        }
        Ok(())
    }

    fn elements(
        &mut self,
        id: LoopId,
        position: &[Value],
        extent: &[Value],
        body: &'m Block,
    ) -> Checked {
        let dimensions = usize::from(self.module.kernel.dimensions);
        demand!(
            position.len() == dimensions && extent.len() == dimensions,
            "an element loop over {} positions and {} extents in a grid of {dimensions} dimensions",
            position.len(),
            extent.len()
        );
        for extent in extent {
            self.used_as(*extent, Scalar::Index, "an extent")?;
        }
        self.enter(id)?;
        for position in position {
            self.define(*position)?;
            self.used_as(*position, Scalar::Index, "a position")?;
        }
        let before = self.assigned.clone();
        self.inner("body", body)?;
        // It may have run for no position at all.
        self.assigned = before;
        self.inside.pop();
        for position in position {
            self.defined[position.0 as usize] = Definition::Elsewhere;
        }
        Ok(())
    }

    fn leave(&mut self, result: Option<Value>) -> Checked {
        demand!(self.steps == 0, "`Return` in the step of a loop");
        let given = match result {
            Some(value) => self.used(value)?,
            None => &Type::Unit,
        };
        demand!(
            *given == self.function.result,
            "a function of result `{}` gives a `{}`",
            self.describe(&self.function.result),
            self.describe(given)
        );
        self.assigned = None;
        Ok(())
    }

    /// Checks that the operands of an operation are defined.
    fn operands(&self, operation: &Operation) -> Checked {
        match operation {
            Operation::Load(place) | Operation::Atomic { place, .. } => self.place(place, false)?,
            Operation::Slice { place, .. } => self.place(place, false)?,
            _ => {}
        }
        for value in operation.operands() {
            let used = self.used(value)?;
            demand!(
                *used != Type::Unit,
                "value {} of type `()` is an operand",
                value.0
            );
        }
        Ok(())
    }
}

//! Facts of functions, found before they are printed.

use crate::function::{Function, Value};
use crate::module::Module;
use crate::operation::{BinaryOperation, Operation};
use crate::statement::{Place, Projection, Root, Statement};
use crate::types::Space;
use crate::verify::walk;

/// The facts of a function, with all that it calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// Reads memory that is not its own.
    pub(super) reads: bool,
    /// Writes memory that is not its own, waits, prints: it is called when it is written.
    pub(super) acts: bool,
    /// May record a fault.
    pub(super) faults: bool,
    /// Is handed the context: its position, the shared memory of its block, the fault record.
    pub(super) context: bool,
    /// Has barriers.
    pub(super) barriers: bool,
    /// Has barriers that count.
    pub(super) counts: bool,
    /// Has barriers of the grid.
    pub(super) grid_barriers: bool,
}

/// The facts of all device functions and, last, of the kernel's own.
pub(super) fn of_module(module: &Module, checked: bool) -> Vec<Facts> {
    let mut facts = vec![None; module.functions.len()];
    for number in 0..module.functions.len() {
        of_function(
            module,
            &module.functions[number],
            checked,
            &mut facts,
            Some(number),
        );
    }
    let kernel = of_function(module, &module.kernel.function, checked, &mut facts, None);
    facts.into_iter().flatten().chain([kernel]).collect()
}

fn of_function(
    module: &Module,
    function: &Function,
    checked: bool,
    known: &mut Vec<Option<Facts>>,
    number: Option<usize>,
) -> Facts {
    if let Some(found) = number.and_then(|number| known[number]) {
        return found;
    }
    let mut facts = Facts::default();
    walk(&function.body, &mut |statement| match statement {
        Statement::Define { operation, .. } => {
            if let Some(place) = operation.place() {
                of_place(place, checked, &mut facts);
            }
            match operation {
                Operation::Load(place) => {
                    facts.reads |= !matches!(place.root, Root::Local(_) | Root::Constant(_));
                }
                Operation::Atomic { .. } | Operation::Clock | Operation::Warp(..) => {
                    facts.acts = true;
                }
                Operation::BarrierCount(_) => {
                    facts.acts = true;
                    facts.context = true;
                    facts.barriers = true;
                    facts.counts = true;
                }
                Operation::Slice {
                    range: Some(_),
                    checked: true,
                    ..
                } => {
                    facts.faults |= checked;
                    facts.context |= checked;
                }
                Operation::Index(..) | Operation::Extent(..) | Operation::SharedLength(_) => {
                    facts.context = true;
                }
                Operation::Binary(
                    BinaryOperation::Divide | BinaryOperation::Remainder,
                    first,
                    _,
                ) if checked
                    && !function.values[first.0 as usize]
                        .value_type
                        .scalar()
                        .is_some_and(|s| s.is_float()) =>
                {
                    facts.faults = true;
                    facts.context = true;
                }
                Operation::Call(callee, _) => {
                    let number = callee.0 as usize;
                    let called = of_function(
                        module,
                        &module.functions[number],
                        checked,
                        known,
                        Some(number),
                    );
                    facts.reads |= called.reads;
                    facts.acts |= called.acts;
                    facts.faults |= called.faults;
                    facts.context |= called.context;
                    facts.barriers |= called.barriers;
                    facts.counts |= called.counts;
                    facts.grid_barriers |= called.grid_barriers;
                }
                _ => {}
            }
        }
        Statement::Store { place, .. } => {
            of_place(place, checked, &mut facts);
            facts.acts |= !matches!(place.root, Root::Local(_));
        }
        Statement::Elements { .. } => facts.context = true,
        Statement::Barrier(_) | Statement::GridBarrier(_) => {
            facts.acts = true;
            facts.context = true;
            facts.barriers = true;
            facts.grid_barriers |= matches!(statement, Statement::GridBarrier(_));
        }
        Statement::Fence(..) | Statement::Print { .. } => facts.acts = true,
        Statement::Assert { .. } => {
            facts.faults = true;
            facts.context = true;
        }
        _ => {}
    });
    if let Some(number) = number {
        known[number] = Some(facts);
    }
    facts
}

fn of_place(place: &Place, checked: bool, facts: &mut Facts) {
    if checked && place.path.iter().any(is_checked) {
        facts.faults = true;
        facts.context = true;
    }
    if matches!(place.root, Root::Shared(_)) {
        facts.context = true;
    }
}

fn is_checked(projection: &Projection) -> bool {
    matches!(projection, Projection::Index { checked: true, .. })
}

/// The number of times that each value of a function is written as an operand.
pub(super) fn uses(function: &Function) -> Vec<u32> {
    let mut uses = vec![0; function.values.len()];
    let mut used = |value: Value| uses[value.0 as usize] += 1;
    let in_place = |place: &Place, used: &mut dyn FnMut(Value)| {
        if let Root::Slice(value) = place.root {
            used(value);
        }
        for projection in &place.path {
            if let Projection::Index { index, .. } = projection {
                used(*index);
            }
        }
    };
    walk(&function.body, &mut |statement| match statement {
        Statement::Define { operation, .. } => {
            operation.operands().into_iter().for_each(&mut used);
            if let Some(place) = operation.place() {
                in_place(place, &mut used);
            }
        }
        Statement::Local { initial, .. } => initial.iter().for_each(|value| used(*value)),
        Statement::Store { place, value, .. } => {
            in_place(place, &mut used);
            used(*value);
        }
        Statement::If { condition, .. } => used(*condition),
        Statement::Assert {
            condition, values, ..
        } => {
            used(*condition);
            values.iter().for_each(|value| used(*value));
        }
        Statement::Elements { extent, .. } => extent.iter().for_each(|value| used(*value)),
        Statement::Return {
            value: Some(value), ..
        } => used(*value),
        Statement::Print { values, .. } => values.iter().for_each(|value| used(*value)),
        _ => {}
    });
    uses
}

/// The memory that a place's root is in.
pub(super) fn space(function: &Function, place: &Place) -> Space {
    match place.root {
        Root::Local(_) | Root::Constant(_) => Space::Private,
        Root::Shared(_) => Space::Shared,
        Root::Slice(value) => match function.values[value.0 as usize].value_type {
            crate::Type::Slice { space, .. } => space,
            _ => Space::Private,
        },
    }
}

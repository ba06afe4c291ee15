//! Checks of indices that leave a loop.
//!
//! A loop that counts up to an end, and has nothing in it that threads do together, is written
//! twice if that spares it checks: once without those that one check before it answers for all
//! rounds, once as it is. So the first fault is found where it happens, and where there is none the
//! target's compiler sees a loop without branches.
//!
//! These are the checks of an index that is a sum of products of the counter, of numbers, and of
//! values that do not change in the loop. Such an index is greatest in the last round. It is
//! computed there with 64 bits, that it cannot leave, from operands of 32 bits; unsigned arithmetic
//! of 32 bits is that of whole numbers modulo 2^32. So an index whose greatest is less than a
//! length is the same whole number in each round.
//!
//! The same goes for the elements of a thread (`elements`), which are counted up to their extent,
//! and for ranges of slices that begin at such an index and end a sum further.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::function::{LocalId, Value};
use crate::operation::{BinaryOperation, Operation};
use crate::statement::{Block, LoopId, Place, Projection, Root, Statement};
use crate::types::{Scalar, Space, Type};
use crate::verify::walk;

use super::super::PrintError;
use super::super::expression::precedence;
use super::super::operation::{extent, position};
use super::FunctionPrinter;

/// More statements than these are not written twice.
const STATEMENTS: usize = 64;
/// Nor are more than these done for several elements at once, which need as many registers each.
const UNROLLED: usize = 48;

/// An index and the text of the length that it is compared with: a check that is done.
pub(in crate::print) type Done = (Value, String);

/// The facts of a loop with a counter.
struct Counted<'m> {
    /// The definitions of the values in it.
    definitions: HashMap<Value, &'m Operation>,
    /// Variables that change in it.
    changed: HashSet<LocalId>,
    counter: Counter,
    end: Value,
}

/// The counter that counts up to the end.
#[derive(Clone, Copy, PartialEq)]
enum Counter {
    Local(LocalId),
    /// A thread's own position.
    Position(Value),
}

/// The conditions that are known to hold in a loop: checks that are done before it.
#[derive(Clone, Debug, Default)]
pub(in crate::print) struct Spared {
    /// Indices, each with the text of the length that it is compared with.
    pub(in crate::print) indices: HashSet<Done>,
    /// Slices whose range is in bounds.
    pub(in crate::print) ranges: HashSet<Value>,
}

impl Spared {
    fn is_empty(&self) -> bool {
        self.indices.is_empty() && self.ranges.is_empty()
    }
}

/// The greatest value of an index.
struct Greatest {
    /// With 64 bits, to be multiplied.
    text: String,
    /// Its greatest value for any operands.
    bound: u128,
}

impl<'m> FunctionPrinter<'_, 'm> {
    /// A loop, twice if checks can leave it.
    pub(super) fn repeated(
        &mut self,
        id: LoopId,
        body: &'m Block,
        step: &'m Block,
    ) -> Result<(), PrintError> {
        self.flush_all();
        let (spared, conditions) = match self.counted(id, body, step) {
            Some(counted) => self.hoisted(&counted, body),
            None => Default::default(),
        };
        if spared.is_empty() {
            return self.endless(id, body, step);
        }
        let conditions: Vec<_> = conditions.into_iter().collect();
        self.text
            .line(&format!("if ({}) {{", conditions.join(" && ")));
        self.text.deeper();
        self.sparing(spared, |f| f.endless(id, body, step))?;
        self.text.back();
        self.text.line("} else {");
        self.text.deeper();
        self.endless(id, body, step)?;
        self.text.back();
        self.text.line("}");
        Ok(())
    }

    /// Writes something in which these checks are done, beside those that are anyway.
    pub(super) fn sparing(
        &mut self,
        spared: Spared,
        write: impl FnOnce(&mut Self) -> Result<(), PrintError>,
    ) -> Result<(), PrintError> {
        let outer = self.done.clone();
        self.done.indices.extend(spared.indices);
        self.done.ranges.extend(spared.ranges);
        let written = write(self);
        self.done = outer;
        written
    }

    /// The checks that one before a thread's elements replaces, and the conditions of that one.
    /// None if the body is not to be written twice, or reads no memory that no thread writes: then
    /// there is nothing to be read ahead.
    pub(super) fn of_elements(
        &mut self,
        position: Value,
        extent: Value,
        body: &'m Block,
    ) -> Option<(Spared, BTreeSet<String>)> {
        if !self.repeats() || !is_plain(body, None) {
            return None;
        }
        let (mut counted, mut statements, mut reads_ahead) = (
            Counted {
                definitions: HashMap::new(),
                changed: HashSet::new(),
                counter: Counter::Position(position),
                end: extent,
            },
            0,
            false,
        );
        let mut acts = false;
        walk(body, &mut |statement| {
            statements += 1;
            match statement {
                Statement::Define { value, operation } => {
                    acts |= match operation {
                        Operation::Call(callee, _) => self.module.facts(*callee).acts,
                        Operation::Clock
                        | Operation::Atomic { .. }
                        | Operation::Warp(..)
                        | Operation::BarrierCount(_) => true,
                        _ => false,
                    };
                    if let Operation::Load(Place {
                        root: Root::Slice(slice),
                        ..
                    }) = operation
                    {
                        reads_ahead |= self.is_only_read(*slice);
                    }
                    counted.definitions.insert(*value, operation);
                }
                Statement::Local { local, .. } => {
                    counted.changed.insert(*local);
                }
                Statement::Store { place, .. } => {
                    if let Root::Local(local) = place.root {
                        counted.changed.insert(local);
                    }
                }
                _ => {}
            }
        });
        if acts || !reads_ahead || statements > UNROLLED {
            return None;
        }
        if !self.module.options.checked {
            return Some(Default::default());
        }
        let (spared, conditions) = self.hoisted(&counted, body);
        self.is_spared(&counted, body, &spared)
            .then_some((spared, conditions))
    }

    /// True if none of a body's checks is left but those of places in slices that are made in
    /// there, which are seldom more than an element.
    fn is_spared(&self, counted: &Counted<'m>, body: &'m Block, spared: &Spared) -> bool {
        let mut is_spared = true;
        let mut look = |place: &Place| {
            let own = matches!(place.root, Root::Slice(slice) if counted.definitions.contains_key(&slice));
            let mut checked = place.path.iter().filter_map(|step| match step {
                Projection::Index {
                    index,
                    checked: true,
                } => Some(index),
                _ => None,
            });
            is_spared &= own
                || checked.all(|index| {
                    let all = [&spared.indices, &self.done.indices];
                    let mut known = all.into_iter().flatten();
                    known.any(|(known, _)| known == index)
                });
        };
        let mut ranges = true;
        walk(body, &mut |statement| match statement {
            Statement::Define { value, operation } => {
                if let Some(place) = operation.place() {
                    look(place);
                }
                if let Operation::Slice {
                    range: Some(_),
                    checked: true,
                    ..
                } = operation
                {
                    ranges &= spared.ranges.contains(value) || self.done.ranges.contains(value);
                }
            }
            Statement::Store { place, .. } => look(place),
            _ => {}
        });
        is_spared && ranges
    }

    /// True of global memory that a launch does not write.
    fn is_only_read(&self, slice: Value) -> bool {
        matches!(
            self.type_of(slice),
            Type::Slice {
                space: Space::Global,
                mutable: false,
                ..
            }
        )
    }

    /// True if loops may be written twice: with indices of 32 bits, which a check of 64 bits
    /// answers for.
    fn repeats(&self) -> bool {
        let is_narrow = self.module.concrete(Scalar::Index) == Scalar::U32;
        is_narrow
            && self
                .module
                .language
                .repeats(self.module.kernel_facts().barriers)
    }

    /// A loop whose rounds are counted up to an end, without other loops, jumps out of it, and
    /// joint operations of threads.
    fn counted(&self, id: LoopId, body: &'m Block, step: &'m Block) -> Option<Counted<'m>> {
        if !self.module.options.checked || !self.repeats() {
            return None;
        }
        let mut definitions = HashMap::new();
        let mut changed = HashSet::new();
        let (mut statements, mut is_plain) = (0, true);
        walk(body, &mut |statement| {
            statements += 1;
            match statement {
                Statement::Define { value, operation } => {
                    is_plain &= match operation {
                        Operation::Call(callee, _) => !self.module.facts(*callee).acts,
                        Operation::Clock | Operation::Warp(..) | Operation::BarrierCount(_) => {
                            false
                        }
                        _ => true,
                    };
                    definitions.insert(*value, operation);
                }
                Statement::Local { local, .. } => {
                    changed.insert(*local);
                }
                Statement::Store { place, .. } => {
                    if let Root::Local(local) = place.root {
                        changed.insert(local);
                    }
                }
                Statement::Break(left) => is_plain &= *left == id,
                Statement::If { .. } => {}
                _ => is_plain = false,
            }
        });
        if !is_plain || statements > STATEMENTS {
            return None;
        }
        let (at, condition) = body.iter().enumerate().find_map(|(at, statement)| {
            let Statement::If {
                condition,
                otherwise,
                ..
            } = statement
            else {
                return None;
            };
            matches!(otherwise[..], [Statement::Break(left)] if left == id)
                .then_some((at, *condition))
        })?;
        let begins = body[..at]
            .iter()
            .all(|statement| matches!(statement, Statement::Define { .. }));
        let Operation::Binary(BinaryOperation::Less, compared, end) =
            definitions.get(&condition)?
        else {
            return None;
        };
        let Operation::Load(Place {
            root: Root::Local(counter),
            path,
        }) = definitions.get(compared)?
        else {
            return None;
        };
        let (counter, end) = (*counter, *end);
        let is_counter = begins && path.is_empty() && !changed.contains(&counter);
        let is_number = self.is_number(*compared) && !definitions.contains_key(&end);
        if !is_counter || !is_number {
            return None;
        }
        walk(step, &mut |statement| {
            if let Statement::Store { place, .. } = statement
                && let Root::Local(local) = place.root
                && local != counter
            {
                changed.insert(local);
            }
        });
        Some(Counted {
            definitions,
            changed,
            counter: Counter::Local(counter),
            end,
        })
    }

    /// The checks that one before the loop replaces, and the conditions of that one.
    fn hoisted(&mut self, counted: &Counted<'m>, body: &'m Block) -> (Spared, BTreeSet<String>) {
        let (mut places, mut ranges) = (Vec::new(), Vec::new());
        walk(body, &mut |statement| match statement {
            Statement::Define { value, operation } => {
                places.extend(operation.place());
                if let Operation::Slice {
                    place,
                    range: Some(range),
                    checked: true,
                } = operation
                {
                    ranges.push((*value, place, *range));
                }
            }
            Statement::Store { place, .. } => places.push(place),
            _ => {}
        });
        let (mut spared, mut conditions) = (Spared::default(), BTreeSet::new());
        for (value, place, (start, end)) in ranges {
            // A sum that is at most a number in 64 bits has not wrapped in any round: so it is not
            // less than its parts.
            let is_after = matches!(
                counted.definitions.get(&end),
                Some(Operation::Binary(BinaryOperation::Add, first, second))
                    if *first == start || *second == start
            );
            if !is_after || !place.path.is_empty() || self.done.ranges.contains(&value) {
                continue;
            }
            if let Some(length) = self.length_of(counted, place)
                && let Some(greatest) = self.greatest(counted, end)
            {
                conditions.insert(format!("{} <= {length}", greatest.text));
                spared.ranges.insert(value);
            }
        }
        for place in places {
            let Some(Projection::Index {
                index,
                checked: true,
            }) = place.path.first()
            else {
                continue;
            };
            let Some(length) = self.length_of(counted, place) else {
                continue;
            };
            let key = (*index, length);
            if self.done.indices.contains(&key) {
                continue;
            }
            if let Some(greatest) = self.greatest(counted, *index) {
                conditions.insert(format!("{} < {}", greatest.text, key.1));
                spared.indices.insert(key);
            }
        }
        (spared, conditions)
    }

    /// The number of elements of a place's root, if that is the same in all rounds.
    fn length_of(&mut self, counted: &Counted<'m>, place: &Place) -> Option<String> {
        let of_type = |held: &Type| match held {
            Type::Array(_, length) => Some(*length),
            _ => None,
        };
        let length = match place.root {
            Root::Slice(slice) if counted.definitions.contains_key(&slice) => return None,
            Root::Slice(slice) => return Some(self.slice(slice).length),
            Root::Shared(shared) => {
                return Some(self.module.shared_length(shared, self.in_kernel()));
            }
            Root::Local(local) => of_type(&self.function.locals[local.0 as usize].local_type),
            Root::Constant(constant) => {
                of_type(&self.module.module.constants[constant.0 as usize].constant_type)
            }
        };
        let suffix = self.module.language.suffix(Scalar::U32);
        length.map(|length| format!("{length}{suffix}"))
    }

    fn is_number(&self, value: Value) -> bool {
        self.type_of(value).scalar().is_some() && self.scalar_of(value) == Scalar::U32
    }

    fn atom(&mut self, text: &str, bound: u64) -> Greatest {
        let wide = self.module.type_name(&Scalar::U64.into());
        Greatest {
            text: format!("({wide}){text}"),
            bound: bound.into(),
        }
    }

    /// The counter in the last round.
    fn last(&mut self, counted: &Counted<'m>) -> Option<Greatest> {
        let end = self.greatest(counted, counted.end)?;
        Some(Greatest {
            text: format!("({} - 1)", end.text),
            bound: end.bound,
        })
    }

    /// The value of an index in the last round, if it is greatest there and 64 bits hold it.
    fn greatest(&mut self, counted: &Counted<'m>, value: Value) -> Option<Greatest> {
        if !self.is_number(value) {
            return None;
        }
        if counted.counter == Counter::Position(value) {
            return self.last(counted);
        }
        let Some(operation) = counted.definitions.get(&value) else {
            let expression = self.simple(value);
            let bound = expression.literal.map_or(u32::MAX.into(), |l| l.bits);
            return Some(self.atom(&expression.at(precedence::UNARY), bound));
        };
        match operation {
            Operation::Literal(literal) => {
                let suffix = self.module.language.suffix(Scalar::U32);
                Some(self.atom(&format!("{}{suffix}", literal.bits), literal.bits))
            }
            Operation::Load(Place {
                root: Root::Local(local),
                path,
            }) if path.is_empty() => {
                if counted.counter == Counter::Local(*local) {
                    return self.last(counted);
                }
                let name = self.locals.get(local)?.clone();
                (!counted.changed.contains(local)).then(|| self.atom(&name, u32::MAX.into()))
            }
            Operation::Length(slice) => {
                // Of a part that is so many elements long wherever it begins.
                let Operation::Slice {
                    range: Some((start, end)),
                    checked: false,
                    ..
                } = counted.definitions.get(slice)?
                else {
                    return None;
                };
                let Operation::Binary(BinaryOperation::Add, first, second) =
                    counted.definitions.get(end)?
                else {
                    return None;
                };
                let more = match (first == start, second == start) {
                    (true, _) => *second,
                    (_, true) => *first,
                    _ => return None,
                };
                self.greatest(counted, more)
            }
            Operation::Index(origin, unit, dimension) => {
                let text = position(*origin, *unit, *dimension).at(precedence::UNARY);
                Some(self.atom(&text, u32::MAX.into()))
            }
            Operation::Extent(origin, unit, dimension) => {
                let text = extent(*origin, *unit, *dimension).at(precedence::UNARY);
                Some(self.atom(&text, u32::MAX.into()))
            }
            Operation::Binary(
                operator @ (BinaryOperation::Add | BinaryOperation::Multiply),
                first,
                second,
            ) => {
                let first = self.greatest(counted, *first)?;
                let second = self.greatest(counted, *second)?;
                let (sign, bound) = match operator {
                    BinaryOperation::Add => ("+", first.bound.checked_add(second.bound)?),
                    _ => ("*", first.bound.checked_mul(second.bound)?),
                };
                u64::try_from(bound).ok().map(|_| Greatest {
                    text: format!("({} {sign} {})", first.text, second.text),
                    bound,
                })
            }
            _ => None,
        }
    }
}

/// True if nothing leaves a block, nor a loop in it but that loop's own end, and threads do nothing
/// together in it.
fn is_plain(body: &Block, within: Option<LoopId>) -> bool {
    body.iter().all(|statement| match statement {
        Statement::Define { .. } | Statement::Local { .. } | Statement::Store { .. } => true,
        Statement::If {
            then, otherwise, ..
        } => is_plain(then, within) && is_plain(otherwise, within),
        Statement::Loop { id, body, step } => {
            is_plain(body, Some(*id)) && is_plain(step, Some(*id))
        }
        Statement::Break(left) => within == Some(*left),
        _ => false,
    })
}

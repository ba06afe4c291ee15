//! The width of indices that a module's arithmetic needs: 32 or 64 bits.
//!
//! Natively `usize` and `isize` have 64 bits. A launch whose lengths and extents are below 2^31 is
//! printed for indices of 32, in which arithmetic wraps around. That changes nothing where only the
//! low half of a result counts: in sums, differences, products, indices of elements, casts to
//! narrow integers. Elsewhere, as in divisions, comparisons and casts to floats, the number itself
//! counts. If such a number may be beyond 32 bits, the module is printed for indices of 64.
//!
//! This is asked of numbers that come from data, as `x[k] as usize * (k + i)` does, and of
//! variables that grow from round to round of a loop. Their bounds follow from the promises of a
//! launch ([`LAUNCH`]), from the types that they are cast from, and from the ends of the loops that
//! they are counted in. Where a variable grows in a loop that does not compare it, counting by ones
//! is taken to end below 2^31, as a thread counts no further in the time that devices give it.
//!
//! A product of lengths, extents and positions alone is taken to fit: such a product is mostly a
//! number of elements, which the launch has counted, and that cannot be seen.

use std::collections::HashMap;

use crate::function::{Function, LocalId, Value};
use crate::module::Module;
use crate::operation::{BinaryOperation, Operation, UnaryOperation};
use crate::statement::{Block, Place, Root, Statement};
use crate::types::Scalar;
use crate::verify::walk;

/// The bound below which lengths, extents, positions, and passed values are in a launch for 32
/// bits.
const LAUNCH: i128 = (1 << 31) - 1;

/// The bound of values that go through arrays, structs and calls, where they are not followed: a
/// little more.
const KEPT: i128 = LAUNCH + (1 << 24);

/// Rounds in which the variables of a function are looked at, before one that still grows is given
/// up.
const ROUNDS: usize = 4;

/// The most that a counting variable grows in a round, in all places where it does.
const MOST_COUNTED: i128 = 4;

/// The range of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    least: i128,
    most: i128,
    kind: Kind,
    /// True if it comes from data.
    of_data: bool,
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Any,
    /// An index or extent of the launch in these dimensions, a bit for each, or a combination of
    /// several: the number of a position, or the number of positions. None is more than the launch
    /// has in all.
    Launch {
        dimensions: u32,
        /// True if it is an extent, or a product of some.
        is_extent: bool,
        /// True if it is the number of a row, in elements: the index in its last dimension is to be
        /// added.
        is_scaled: bool,
    },
    /// At most a number divided by this, and so many more; the number is at most `of`.
    Share {
        divisor: Value,
        of: i128,
        more: i128,
    },
}

impl Range {
    /// No number is followed beyond 64 bits by more than one bit, so sums of two stay within 128.
    fn new(least: i128, most: i128) -> Self {
        const BEYOND: i128 = 1 << 65;
        Self {
            least: least.clamp(-BEYOND, BEYOND),
            most: most.clamp(-BEYOND, BEYOND),
            kind: Kind::Any,
            of_data: false,
        }
    }

    fn any() -> Self {
        Self::new(-(1 << 60), 1 << 64)
    }

    fn of_launch(dimensions: u32, is_extent: bool, is_scaled: bool) -> Self {
        Self {
            kind: Kind::Launch {
                dimensions,
                is_extent,
                is_scaled,
            },
            ..Self::new(0, LAUNCH)
        }
    }

    fn of_data(self) -> Self {
        Self {
            of_data: true,
            ..self
        }
    }

    fn joined(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            of_data: self.of_data || other.of_data,
            kind: if self.kind == other.kind {
                self.kind
            } else {
                Kind::Any
            },
        }
    }

    /// True if its 32 bits are the number.
    fn fits(self, scalar: Scalar) -> bool {
        match scalar {
            Scalar::SignedIndex => self.least >= i32::MIN.into() && self.most <= i32::MAX.into(),
            _ => self.least >= 0 && self.most <= u32::MAX.into(),
        }
    }
}

/// True if a number may be beyond 32 bits where it counts.
pub(super) fn takes_64_bits(module: &Module) -> bool {
    let mut functions = module.functions.iter().chain([&module.kernel.function]);
    functions.any(|function| {
        let mut reader = Reader {
            function,
            values: HashMap::new(),
            locals: HashMap::new(),
            counted: HashMap::new(),
            exceeds: false,
            changed: true,
        };
        // Facts that are given up in a round are asked for in one more.
        for round in 0..=ROUNDS + 1 {
            if !reader.changed {
                break;
            }
            reader.changed = false;
            reader.exceeds = false;
            reader.block(&function.body, round >= ROUNDS);
        }
        reader.exceeds
    })
}

/// The variables that are stored to in a block.
fn stored(block: &Block) -> std::vec::IntoIter<LocalId> {
    let mut found = Vec::new();
    walk(block, &mut |statement| match statement {
        Statement::Store { place, .. } => {
            if let Root::Local(local) = place.root {
                found.push(local);
            }
        }
        Statement::Local { local, .. } => found.push(*local),
        _ => {}
    });
    found.into_iter()
}

/// A dimension as a bit.
fn bit_of(dimension: u8) -> u32 {
    1_u32.checked_shl(dimension.into()).unwrap_or(0)
}

struct Reader<'f> {
    function: &'f Function,
    values: HashMap<Value, Range>,
    /// All that was stored to variables.
    locals: HashMap<LocalId, Range>,
    /// Variables that a loop has compared in this round of it, and not changed since.
    counted: HashMap<LocalId, Range>,
    exceeds: bool,
    changed: bool,
}

impl Reader<'_> {
    /// The type of an index; none of any other value.
    fn index(&self, value: Value) -> Option<Scalar> {
        let of = self.function.values.get(value.0 as usize)?;
        of.value_type
            .scalar()
            .filter(|scalar| matches!(scalar, Scalar::Index | Scalar::SignedIndex))
    }

    fn range(&self, value: Value) -> Range {
        // A value without a definition here is a parameter, or a position of a loop over elements.
        let unknown = match self.index(value) {
            Some(Scalar::SignedIndex) => Range::new(-KEPT, KEPT),
            _ => Range::new(0, KEPT),
        };
        self.values.get(&value).copied().unwrap_or(unknown)
    }

    /// A value whose number counts.
    fn counts(&mut self, value: Value) {
        if let Some(scalar) = self.index(value) {
            let range = self.range(value);
            self.exceeds |= range.of_data && !range.fits(scalar);
        }
    }

    /// A value that is not followed from here on.
    fn kept(&mut self, value: Value) {
        if self.index(value).is_some() {
            let range = self.range(value);
            self.exceeds |= range.of_data && (range.least < -KEPT || range.most > KEPT);
        }
    }

    fn block(&mut self, block: &Block, is_last: bool) {
        for statement in block {
            self.statement(statement, is_last);
        }
    }

    fn statement(&mut self, statement: &Statement, is_last: bool) {
        match statement {
            Statement::Define { value, operation } => self.define(*value, operation),
            Statement::Local { local, initial } => {
                if let Some(initial) = initial {
                    self.store(*local, *initial, is_last);
                }
            }
            Statement::Store { place, value, .. } => match place {
                Place {
                    root: Root::Local(local),
                    path,
                } if path.is_empty() => self.store(*local, *value, is_last),
                _ => self.kept(*value),
            },
            Statement::If {
                then, otherwise, ..
            } => {
                self.block(then, is_last);
                self.block(otherwise, is_last);
            }
            Statement::Loop { body, step, .. } => {
                // In all rounds but the first they may have been changed.
                for local in stored(body).chain(stored(step)) {
                    self.counted.remove(&local);
                }
                let outside = self.counted.clone();
                for (at, statement) in body.iter().enumerate() {
                    self.statement(statement, is_last);
                    if let Some((local, end)) = self.guard(&body[..=at]) {
                        self.counted.insert(local, end);
                        // The value that was loaded before the comparison is the compared one.
                        self.reload(&body[..at], local, end);
                    }
                }
                self.block(step, is_last);
                self.counted = outside;
            }
            Statement::Elements {
                position,
                extent,
                body,
                ..
            } => {
                for (position, extent) in position.iter().zip(extent) {
                    self.counts(*extent);
                    let most = self.range(*extent).most.min(LAUNCH);
                    self.values.insert(*position, Range::new(0, most));
                }
                self.block(body, is_last);
            }
            Statement::Return {
                value: Some(value), ..
            } => self.kept(*value),
            Statement::Assert { values, .. } | Statement::Print { values, .. } => {
                for value in values {
                    self.counts(*value);
                }
            }
            Statement::Return { value: None, .. }
            | Statement::Break(_)
            | Statement::Continue(_)
            | Statement::Barrier(_)
            | Statement::GridBarrier(_)
            | Statement::Fence(..) => {}
        }
    }

    /// A variable that a loop goes on with only while it, or its sum with something, is no more
    /// than an end, and its range then.
    fn guard(&self, body: &[Statement]) -> Option<(LocalId, Range)> {
        let (
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            },
            before,
        ) = body.split_last()?
        else {
            return None;
        };
        if !then.is_empty() || !matches!(otherwise.last(), Some(Statement::Break(_))) {
            return None;
        }
        let defined = |value: Value| {
            before.iter().find_map(|statement| match statement {
                Statement::Define {
                    value: defined,
                    operation,
                } if *defined == value => Some(operation),
                _ => None,
            })
        };
        let loaded = |value: Value| match defined(value)? {
            Operation::Load(Place {
                root: Root::Local(local),
                path,
            }) if path.is_empty() => Some(*local),
            _ => None,
        };
        let (at, end, is_less) = match defined(*condition)? {
            Operation::Binary(BinaryOperation::Less, at, end) => (*at, *end, true),
            Operation::Binary(BinaryOperation::LessEqual, at, end) => (*at, *end, false),
            _ => return None,
        };
        let local = loaded(at).or_else(|| match defined(at)? {
            // A sum is no less than either part, if the other is not negative.
            Operation::Binary(BinaryOperation::Add, first, second) => {
                [(first, second), (second, first)]
                    .into_iter()
                    .find_map(|(part, other)| {
                        loaded(*part).filter(|_| self.range(*other).least >= 0)
                    })
            }
            _ => None,
        })?;
        let end = self.range(end);
        let below = Range {
            of_data: end.of_data,
            least: self.locals.get(&local)?.least,
            most: end.most - i128::from(is_less),
            kind: match end.kind {
                Kind::Share { divisor, of, more } => Kind::Share {
                    divisor,
                    of,
                    more: (more - i128::from(is_less)).max(0),
                },
                _ => Kind::Any,
            },
        };
        Some((local, below))
    }

    /// Sets the range of values loaded from a variable that has been compared since.
    fn reload(&mut self, before: &[Statement], local: LocalId, range: Range) {
        for statement in before {
            if let Statement::Define {
                value,
                operation:
                    Operation::Load(Place {
                        root: Root::Local(loaded),
                        path,
                    }),
            } = statement
                && *loaded == local
                && path.is_empty()
            {
                self.values.insert(*value, range);
            }
        }
    }

    fn store(&mut self, local: LocalId, value: Value, is_last: bool) {
        self.counted.remove(&local);
        if self.index(value).is_none() {
            return;
        }
        let stored = self.range(value);
        let known = self.locals.get(&local).copied();
        let mut joined = known.map_or(stored, |known| known.joined(stored));
        if known == Some(joined) {
            return;
        }
        if is_last && let Some(known) = known {
            // It grows from round to round.
            let grows = (joined.most - known.most).max(known.least - joined.least);
            let counts = grows <= MOST_COUNTED;
            let of_data = joined.of_data;
            joined = if counts && self.index(value) == Some(Scalar::Index) {
                Range::new(0, joined.most.max(LAUNCH))
            } else if counts {
                Range::new(joined.least.min(-LAUNCH), joined.most.max(LAUNCH))
            } else {
                self.exceeds |= self.is_asked(local);
                Range::any()
            };
            joined.of_data = of_data;
        }
        self.changed = true;
        self.locals.insert(local, joined);
    }

    /// True if a variable is loaded at all. (Of one that grows without end the use does not
    /// matter.)
    fn is_asked(&self, local: LocalId) -> bool {
        let mut asked = false;
        walk(&self.function.body, &mut |statement| {
            asked |= matches!(
                statement,
                Statement::Define { operation: Operation::Load(place), .. } if place.root == Root::Local(local)
            );
        });
        asked
    }

    fn define(&mut self, value: Value, operation: &Operation) {
        let range = match operation {
            Operation::Literal(literal) => {
                let number = match literal.scalar {
                    Scalar::SignedIndex => literal.bits.cast_signed().into(),
                    // The greatest number of either width.
                    Scalar::Index if literal.bits == u64::MAX => u32::MAX.into(),
                    _ => literal.bits.into(),
                };
                Range::new(number, number)
            }
            Operation::Index(_, _, dimension) => Range::of_launch(bit_of(*dimension), false, false),
            Operation::Extent(_, _, dimension) => Range::of_launch(bit_of(*dimension), true, false),
            Operation::Length(_) | Operation::SharedLength(_) => Range::new(0, LAUNCH),
            Operation::Binary(operation, first, second) => Range {
                of_data: self.range(*first).of_data || self.range(*second).of_data,
                ..self.binary(*operation, *first, *second)
            },
            Operation::Unary(UnaryOperation::Negate, of) => {
                let of = self.range(*of);
                Range {
                    of_data: of.of_data,
                    ..Range::new(-of.most, -of.least)
                }
            }
            Operation::Unary(operation, of) => {
                if *operation != UnaryOperation::Not {
                    self.counts(*of);
                }
                self.of_type(value)
            }
            Operation::Cast(from, to) => match self.index(*from) {
                Some(_) => self.cast(*from, *to),
                None => self.cast(*from, *to).of_data(),
            },
            Operation::Select(_, first, second) => self.range(*first).joined(self.range(*second)),
            Operation::Load(Place {
                root: Root::Local(local),
                path,
            }) if path.is_empty() => match self.counted.get(local).or(self.locals.get(local)) {
                Some(range) => *range,
                None => self.of_type(value),
            },
            Operation::AssumeUniform(of) => self.range(*of),
            Operation::Load(_) | Operation::Slice { .. } => self.of_type(value),
            other => {
                for operand in other.operands() {
                    self.kept(operand);
                }
                self.of_type(value)
            }
        };
        if self.index(value).is_some() {
            self.values.insert(value, range);
        }
    }

    /// The range of a value that is not followed.
    fn of_type(&self, value: Value) -> Range {
        match self.index(value) {
            Some(Scalar::SignedIndex) => Range::new(-KEPT, KEPT),
            _ => Range::new(0, KEPT),
        }
    }

    fn cast(&mut self, from: Value, to: Scalar) -> Range {
        let of = self.function.values.get(from.0 as usize);
        let Some(scalar) = of.and_then(|of| of.value_type.scalar()) else {
            return Range::any();
        };
        let is_index = |scalar| matches!(scalar, Scalar::Index | Scalar::SignedIndex);
        if is_index(scalar) {
            // Of a narrow integer only the low half is asked for.
            if !is_index(to) && (to.is_float() || to.size() == Some(8)) {
                self.counts(from);
            }
            let range = self.range(from);
            return match to {
                // A negative one becomes one of the greatest; natively, too.
                Scalar::Index if range.least < 0 => Range {
                    of_data: range.of_data,
                    ..Range::new(0, range.most.max(u32::MAX.into()))
                },
                _ => range,
            };
        }
        match scalar {
            Scalar::Bool => Range::new(0, 1),
            Scalar::U8 => Range::new(0, u8::MAX.into()),
            Scalar::U16 => Range::new(0, u16::MAX.into()),
            Scalar::U32 => Range::new(0, u32::MAX.into()),
            Scalar::I8 | Scalar::I16 | Scalar::I32 if to == Scalar::SignedIndex => {
                Range::new(i32::MIN.into(), i32::MAX.into())
            }
            // A negative one is beyond all lengths, in either width.
            Scalar::I8 | Scalar::I16 | Scalar::I32 => Range::new(0, u32::MAX.into()),
            // A number beyond the width becomes the greatest of the width.
            of if of.is_float() && to == Scalar::Index => Range::new(0, u32::MAX.into()),
            of if of.is_float() => Range::new(i32::MIN.into(), i32::MAX.into()),
            _ => Range::any(),
        }
    }

    fn binary(&mut self, operation: BinaryOperation, first: Value, second: Value) -> Range {
        use BinaryOperation as B;
        let (a, b) = (self.range(first), self.range(second));
        let is_signed = self.index(first) == Some(Scalar::SignedIndex);
        match operation {
            B::Add => {
                let sum = Range::new(a.least + b.least, a.most + b.most);
                match (a.kind, b.kind) {
                    // One more, where something is left.
                    (Kind::Share { divisor, of, more }, _) if b.most <= 1 => Range {
                        kind: Kind::Share {
                            divisor,
                            of,
                            more: more.saturating_add(b.most),
                        },
                        ..sum
                    },
                    (
                        Kind::Launch {
                            dimensions,
                            is_scaled: true,
                            ..
                        },
                        Kind::Launch { dimensions: of, .. },
                    ) if of & !dimensions == 0 => Range::of_launch(dimensions, false, false),
                    _ => sum,
                }
            }
            B::Subtract if is_signed => Range::new(a.least - b.most, a.most - b.least),
            // Below zero it is a mistake, or meant to be beyond all lengths.
            B::Subtract => Range::new(0, a.most),
            B::Multiply => self.product((first, a), (second, b)),
            B::Xor | B::Or => Range::new(a.least.min(b.least), 2 * a.most.max(b.most)),
            B::And if a.least >= 0 && b.least >= 0 => Range::new(0, a.most.min(b.most)),
            B::ShiftLeft => {
                let by = self.range_of_amount(second);
                match u32::try_from(by) {
                    Ok(by @ 0..=32) => Range::new(a.least << by, a.most << by),
                    _ => Range::any(),
                }
            }
            B::Divide => {
                self.counts(first);
                self.counts(second);
                let least_divisor = b.least.max(1);
                let most = a.most.abs().max(a.least.abs());
                let quotient = if is_signed {
                    Range::new(-most, most)
                } else {
                    Range::new(0, most / least_divisor)
                };
                let (divisor, of) = (second, a.most);
                Range {
                    kind: Kind::Share {
                        divisor,
                        of,
                        more: 0,
                    },
                    ..quotient
                }
            }
            B::Remainder => {
                self.counts(first);
                self.counts(second);
                let most = a.most.min(b.most);
                Range::new(if is_signed { -most } else { 0 }, most)
            }
            B::Minimum => {
                self.counts(first);
                self.counts(second);
                Range::new(a.least.min(b.least), a.most.min(b.most))
            }
            B::Maximum => {
                self.counts(first);
                self.counts(second);
                Range::new(a.least.max(b.least), a.most.max(b.most))
            }
            B::SaturatingAdd => {
                self.counts(first);
                self.counts(second);
                Range::new(a.least + b.least, a.most + b.most)
            }
            B::SaturatingSubtract => {
                self.counts(first);
                self.counts(second);
                Range::new(if is_signed { a.least - b.most } else { 0 }, a.most)
            }
            B::ShiftRight => {
                self.counts(first);
                a
            }
            _ => {
                self.counts(first);
                self.counts(second);
                Range::new(a.least.min(b.least), u32::MAX.into())
            }
        }
    }

    /// The most that an amount of bits may be, if it is known.
    fn range_of_amount(&self, amount: Value) -> i128 {
        let mut known = 64;
        walk(&self.function.body, &mut |statement| {
            if let Statement::Define {
                value,
                operation: Operation::Literal(literal),
            } = statement
                && *value == amount
            {
                known = literal.bits.into();
            }
        });
        known
    }

    fn product(&self, (first, a): (Value, Range), (second, b): (Value, Range)) -> Range {
        let corners = [
            a.least.saturating_mul(b.least),
            a.least.saturating_mul(b.most),
            a.most.saturating_mul(b.least),
            a.most.saturating_mul(b.most),
        ];
        let least = corners.into_iter().min().unwrap_or(0);
        let most = corners.into_iter().max().unwrap_or(0);
        let product = Range::new(least.max(-(1 << 60)), most.min(1 << 64));
        match (a.kind, b.kind) {
            (
                Kind::Launch {
                    dimensions,
                    is_extent,
                    ..
                },
                Kind::Launch {
                    dimensions: others,
                    is_extent: true,
                    ..
                },
            ) if dimensions & others == 0 => {
                Range::of_launch(dimensions | others, is_extent, !is_extent)
            }
            (Kind::Share { divisor, of, more }, _) if divisor == second => Range::new(
                0,
                product
                    .most
                    .min(of.saturating_add(more.saturating_mul(b.most))),
            ),
            (_, Kind::Share { divisor, of, more }) if divisor == first => Range::new(
                0,
                product
                    .most
                    .min(of.saturating_add(more.saturating_mul(a.most))),
            ),
            // A thread's share among all of them: its number is below the divisor.
            (Kind::Launch { dimensions, .. }, Kind::Share { divisor, of, more }) => {
                match self.range(divisor).kind {
                    Kind::Launch {
                        dimensions: all,
                        is_extent: true,
                        ..
                    } if all == dimensions => Range::new(
                        0,
                        product
                            .most
                            .min(of.saturating_add(more.saturating_mul(LAUNCH))),
                    ),
                    _ => product,
                }
            }
            _ => product,
        }
    }
}

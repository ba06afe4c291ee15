//! Places: the way to them, and the checks of indices on it.

use crate::function::{Location, Value};
use crate::module::SharedLength;
use crate::statement::{Place, Projection, Root};
use crate::types::{Scalar, Type};

use super::expression::{Change, Effects, Expression, precedence};
use super::facts;
use super::function::{FunctionPrinter, Slice};
use super::helpers;
use super::protocol::FaultKind;

/// A place in C.
pub(super) struct PlaceText {
    /// The place.
    pub(super) text: String,
    /// The conditions for it to be one; a check that fails records a fault.
    pub(super) checks: Vec<String>,
    /// The effects that finding it depends on.
    pub(super) effects: Effects,
}

impl PlaceText {
    pub(super) fn condition(&self) -> String {
        self.checks.join(" && ")
    }
}

impl FunctionPrinter<'_, '_> {
    /// True if finding the place may fail.
    pub(super) fn has_checks(&self, place: &Place) -> bool {
        self.module.options.checked
            && place
                .path
                .iter()
                .any(|step| matches!(step, Projection::Index { checked: true, .. }))
    }

    /// The place, for an access to it.
    pub(super) fn place(
        &mut self,
        place: &Place,
        kind: FaultKind,
        location: Option<Location>,
    ) -> PlaceText {
        let mut effects = Effects::default();
        // Indices, which may fault on the way, are evaluated before.
        let indices: Vec<Value> = place
            .path
            .iter()
            .filter_map(|step| match step {
                Projection::Index { index, .. } => Some(*index),
                Projection::Field(_) => None,
            })
            .collect();
        if self.has_checks(place) || indices.len() > 1 {
            self.settle(&indices);
        }
        // The text so far, its type, and how many elements there are if it is a pointer.
        let (mut text, mut held, mut bound) = match place.root {
            Root::Local(local) => (
                self.locals[&local].clone(),
                self.function.locals[local.0 as usize].local_type.clone(),
                None,
            ),
            Root::Slice(value) => {
                let Slice { pointer, length } = self.slice(value);
                (pointer, self.type_of(value).clone(), Some(length))
            }
            Root::Constant(constant) => (
                self.module.constant_names[constant.0 as usize].clone(),
                self.module.module.constants[constant.0 as usize]
                    .constant_type
                    .clone(),
                None,
            ),
            Root::Shared(shared) => {
                let array = &self.module.module.shared[shared.0 as usize];
                let held = Type::Slice {
                    element: Box::new(array.element.clone()),
                    space: crate::Space::Shared,
                    mutable: true,
                };
                let in_kernel = self.in_kernel();
                (
                    self.module.shared_name(shared, in_kernel),
                    held,
                    Some(self.module.shared_length(shared, in_kernel)),
                )
            }
        };
        let fixed = match place.root {
            Root::Shared(shared) => match self.module.module.shared[shared.0 as usize].length {
                SharedLength::Fixed(length) => Some(length),
                SharedLength::Launch => None,
            },
            _ => None,
        };
        let mut checks = Vec::new();
        for step in &place.path {
            match step {
                Projection::Field(field) => {
                    let Type::Struct(id) = held else { break };
                    text = format!("{text}.{}", self.module.field_name(id, *field));
                    held = self.module.module.structure(id).fields[*field as usize]
                        .field_type
                        .clone();
                }
                Projection::Index { index, checked } => {
                    let (element, length, number) = match held {
                        Type::Array(element, length) => {
                            text.push_str(".e");
                            let suffix = self
                                .module
                                .language
                                .suffix(self.module.concrete(Scalar::Index));
                            (element, format!("{length}{suffix}"), Some(length))
                        }
                        Type::Slice { element, .. } => {
                            (element, bound.take().unwrap_or_default(), fixed)
                        }
                        _ => break,
                    };
                    let index = self.checked_index(
                        *index,
                        *checked && self.module.options.checked,
                        (&length, number),
                        (kind, location),
                        &mut checks,
                    );
                    effects.merge(&index.effects);
                    text = format!("{text}[{}]", index.text);
                    held = *element;
                }
            }
        }
        effects.faults |= !checks.is_empty();
        PlaceText {
            text,
            checks,
            effects,
        }
    }

    fn checked_index(
        &mut self,
        index: Value,
        checked: bool,
        (length, number): (&str, Option<u64>),
        (kind, location): (FaultKind, Option<Location>),
        checks: &mut Vec<String>,
    ) -> Expression {
        if !checked {
            return self.take(index);
        }
        if self.done.indices.contains(&(index, length.to_owned())) {
            return self.take(index);
        }
        let expression = self.simple(index);
        if let (Some(literal), Some(number)) = (expression.literal, number)
            && literal.bits < number
        {
            return expression;
        }
        let scalar = self.scalar_of(index);
        let own = self.module.concrete(Scalar::Index);
        let wide = helpers::width(scalar) > helpers::width(own);
        let compared = if wide { Scalar::U64 } else { own };
        let dimensions = usize::from(self.module.module.kernel.dimensions);
        let language = self.module.language;
        let check = helpers::check_index(
            &mut self.module.helpers,
            language,
            dimensions,
            compared,
            wide,
        );
        let site = self.module.site(kind, self.function, location, None);
        checks.push(format!(
            "{check}(quipu, {}, {length}, {site})",
            expression.at(precedence::ARGUMENT)
        ));
        expression
    }

    /// The value in a place.
    pub(super) fn load(&mut self, value: Value, place: &Place) -> Expression {
        let location = self.function.values[value.0 as usize].location;
        let at = self.place(place, FaultKind::Read, location.or(self.function.location));
        let mut expression = if at.checks.is_empty() {
            Expression::primary(at.text.clone())
        } else {
            let zero = self.module.zero(self.type_of(value));
            Expression::new(
                format!("{} ? {} : {zero}", at.condition(), at.text),
                precedence::CONDITIONAL,
            )
        };
        expression.effects = at.effects;
        match place.root {
            Root::Local(local) => {
                expression.effects.locals.insert(local);
            }
            // Nothing changes it.
            Root::Constant(_) => {}
            _ => expression.effects.read(facts::space(self.function, place)),
        }
        expression
    }

    /// A slice of a place.
    pub(super) fn slice_of(
        &mut self,
        value: Value,
        place: &Place,
        range: Option<(Value, Value)>,
        checked: bool,
    ) {
        let location = self.function.values[value.0 as usize].location;
        let location = location.or(self.function.location);
        if let Some((start, end)) = range {
            self.settle(&[start, end]);
        }
        let at = self.place(place, FaultKind::Read, location);
        let suffix = self
            .module
            .language
            .suffix(self.module.concrete(Scalar::Index));
        let whole = match (place.root, &place.path[..]) {
            (Root::Slice(slice), []) => self.slice(slice),
            (Root::Shared(shared), []) => Slice {
                length: self.module.shared_length(shared, self.in_kernel()),
                pointer: at.text,
            },
            // Verified: anything else that a slice is taken of is an array.
            _ => {
                let held = crate::verify::place_type(self.module.module, self.function, place);
                let length = match held.map(|found| found.held) {
                    Ok(Type::Array(_, length)) => length,
                    _ => 0,
                };
                Slice {
                    pointer: format!("{}.e", at.text),
                    length: format!("{length}{suffix}"),
                }
            }
        };
        // Its place depends on variables: it is found here and now.
        let moves = !place.path.is_empty();
        if range.is_none() && !moves {
            if self.function.values[value.0 as usize].name.is_some() {
                self.copy_slice(value, whole);
            } else {
                self.define_slice(value, whole);
            }
            return;
        }
        self.flush(Change::Fault);
        let mut conditions = at.checks;
        let bounds = range.map(|(start, end)| (self.simple(start), self.simple(end)));
        let checked = checked && self.module.options.checked && !self.done.ranges.contains(&value);
        if let (Some((start, end)), true) = (&bounds, checked) {
            let dimensions = usize::from(self.module.module.kernel.dimensions);
            let index = self.module.concrete(Scalar::Index);
            let language = self.module.language;
            let check = helpers::check_range(&mut self.module.helpers, language, dimensions, index);
            let site = self
                .module
                .site(FaultKind::Range, self.function, location, None);
            conditions.push(format!(
                "{check}(quipu, {}, {}, {}, {site})",
                start.text, end.text, whole.length
            ));
        }
        let inside = match &bounds {
            Some((start, end)) => Slice {
                pointer: format!("{} + {}", whole.pointer, start.at(precedence::MULTIPLY)),
                length: format!(
                    "{} - {}",
                    end.at(precedence::ADD),
                    start.at(precedence::MULTIPLY)
                ),
            },
            None => whole.clone(),
        };
        if conditions.is_empty() {
            self.copy_slice(value, inside);
            return;
        }
        let there = self.temporary();
        self.text.line_at(
            location,
            &format!("const bool {there} = {};", conditions.join(" && ")),
        );
        // Without elements it may point anywhere: to where nothing has to be looked up.
        let nowhere = match place.root {
            Root::Slice(slice) => self.slice(slice).pointer,
            Root::Shared(shared) => self.module.shared_name(shared, self.in_kernel()),
            Root::Local(_) | Root::Constant(_) => "0".to_owned(),
        };
        let nowhere = if place.path.is_empty() {
            nowhere
        } else {
            "0".to_owned()
        };
        self.copy_slice(
            value,
            Slice {
                pointer: format!("{there} ? {} : {nowhere}", inside.pointer),
                length: format!("{there} ? {} : 0", inside.length),
            },
        );
    }
}

//! Texts that a kernel prints.

use super::FunctionPrinter;
use crate::function::{Location, Value};
use crate::print::expression::{Change, Expression, precedence};
use crate::print::text::quoted;
use crate::types::Scalar;

/// The most truth values in one call where a text cannot be chosen, and a call is written for each
/// combination of them.
const MOST_TRUTHS: usize = 3;

/// A part of a printed text.
#[derive(Clone)]
enum Part {
    /// As it stands in a format.
    Text(String),
    /// A conversion, and its argument.
    Number(&'static str, String),
    Truth(Expression),
}

impl FunctionPrinter<'_, '_> {
    /// Says a text in which each `{}` stands for a value, in one call, as others say something
    /// meanwhile. Where texts cannot be chosen and there are more than [`MOST_TRUTHS`], it is one
    /// call after another, between which others may say something.
    pub(super) fn say(&mut self, format: &str, values: &[Value], location: Option<Location>) {
        let text = |piece: &str| Part::Text(piece.replace('%', "%%"));
        let mut pieces = format.split("{}");
        let mut parts = vec![text(pieces.next().unwrap_or_default())];
        for (piece, value) in pieces.zip(values) {
            let scalar = self.scalar_of(*value);
            let value = self.take(*value);
            parts.push(if scalar == Scalar::Bool {
                Part::Truth(value)
            } else {
                let (conversion, cast) = self.module.language.format(scalar);
                Part::Number(
                    conversion,
                    format!("({cast}){}", value.at(precedence::UNARY)),
                )
            });
            parts.push(text(piece));
        }
        self.flush(Change::All);
        let mut rest = &parts[..];
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(self.end_of_call(rest));
            self.printf(piece, location);
            rest = others;
        }
    }

    /// The number of these parts that one call prints.
    fn end_of_call(&self, parts: &[Part]) -> usize {
        if self.module.language.chooses_texts() {
            return parts.len();
        }
        let numbered = parts.iter().enumerate();
        let mut truths = numbered.filter(|(_, part)| matches!(part, Part::Truth(_)));
        truths.nth(MOST_TRUTHS).map_or(parts.len(), |(at, _)| at)
    }

    fn printf(&mut self, parts: &[Part], location: Option<Location>) {
        let mut format = String::new();
        let mut arguments = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Text(text) => format.push_str(text),
                Part::Number(conversion, argument) => {
                    format.push_str(conversion);
                    arguments.push(argument.clone());
                }
                Part::Truth(value) if self.module.language.chooses_texts() => {
                    format.push_str("%s");
                    let value = value.at(precedence::LOGICAL_OR);
                    arguments.push(format!("{value} ? \"true\" : \"false\""));
                }
                Part::Truth(value) => {
                    return self.printf_either(&value.text, (parts, at), location);
                }
            }
        }
        arguments.insert(0, quoted(&format));
        let call = format!("printf({});", arguments.join(", "));
        self.text.line_at(location, &call);
    }

    /// Prints parts, one of which says whether a condition holds: a call for each answer.
    fn printf_either(
        &mut self,
        condition: &str,
        (parts, at): (&[Part], usize),
        location: Option<Location>,
    ) {
        let mut parts = parts.to_vec();
        self.text.line_at(location, &format!("if ({condition}) {{"));
        for (word, end) in [("true", "} else {"), ("false", "}")] {
            parts[at] = Part::Text(word.to_owned());
            self.text.deeper();
            self.printf(&parts, location);
            self.text.back();
            self.text.line(end);
        }
    }
}

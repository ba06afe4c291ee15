//! Loops: their bodies and steps, the jumps that leave them, and a thread's own positions.

use std::collections::BTreeSet;

use crate::function::{Location, Value};
use crate::statement::{Block, LoopId, Statement};
use crate::types::Scalar;

use super::super::expression::{Change, precedence};
use super::super::text::Text;
use super::super::{ElementOrder, PrintError, operation};
use super::hoist::Spared;
use super::{FunctionPrinter, Loop};

/// So many elements of a thread are done at once.
const AT_ONCE: usize = 4;

impl<'m> FunctionPrinter<'_, 'm> {
    pub(super) fn enter(&mut self, id: LoopId, depth: usize) {
        self.loops.push(Loop {
            id,
            continue_label: None,
            break_label: None,
            depth,
            step_inside: false,
        });
    }

    /// The way out of a loop, or to its next round.
    pub(super) fn jump(&mut self, id: LoopId, leave: bool) -> String {
        // Verified: it is in that loop.
        let at = self
            .loops
            .iter()
            .position(|l| l.id == id)
            .unwrap_or_default();
        let innermost = at + 1 == self.loops.len();
        let found = &mut self.loops[at];
        let direct = if leave {
            found.depth == 1
        } else {
            !found.step_inside
        };
        if innermost && direct {
            return if leave { "break;" } else { "continue;" }.to_owned();
        }
        let label = if leave {
            &mut found.break_label
        } else {
            &mut found.continue_label
        };
        let what = if leave { "break" } else { "continue" };
        let label = label.get_or_insert_with(|| format!("quipu_{what}_{}", id.0));
        format!("goto {label};")
    }

    pub(super) fn endless(
        &mut self,
        id: LoopId,
        body: &'m Block,
        step: &'m Block,
    ) -> Result<(), PrintError> {
        self.flush_all();
        let step_text = {
            // Its line is part of the loop's head, where no directive can be.
            let mut inner = Text::new(0, false);
            std::mem::swap(&mut self.text, &mut inner);
            let written = self.block(step);
            std::mem::swap(&mut self.text, &mut inner);
            written?;
            inner
        };
        let clause = step_text.single().and_then(|line| line.strip_suffix(';'));
        let clause = clause.filter(|line| !line.starts_with("const ") && !line.starts_with("if "));
        let whole_step = clause.is_none() && !step_text.is_empty();
        self.enter(id, 1);
        if whole_step && let Some(entered) = self.loops.last_mut() {
            entered.step_inside = true;
        }
        let mut head = None;
        let body_text = self.apart(1, |f| f.loop_body(id, body, &mut head))?;
        let left = self.loops.pop();
        let (condition, location) = head.unwrap_or_default();
        let line = match (&condition, clause) {
            (None, None) => "for (;;) {".to_owned(),
            (None, Some(step)) => format!("for (;; {step}) {{"),
            (Some(condition), None) => format!("while ({condition}) {{"),
            (Some(condition), Some(step)) => format!("for (; {condition}; {step}) {{"),
        };
        self.text.line_at(location, &line);
        let Some(Loop {
            continue_label,
            break_label,
            ..
        }) = left
        else {
            return Ok(());
        };
        self.loop_end(&body_text, continue_label, |f| {
            for line in step_text.lines.lines().filter(|_| whole_step) {
                f.text.line(line);
            }
        });
        self.text.line("}");
        if let Some(label) = break_label {
            self.text.line(&format!("{label}: ;"));
        }
        Ok(())
    }

    /// The body of a loop, with braces of its own if one jumps to its end: a jump enters no scope
    /// of a variable.
    fn loop_end(
        &mut self,
        body: &Text,
        continue_label: Option<String>,
        step: impl FnOnce(&mut Self),
    ) {
        self.text.deeper();
        if let Some(label) = continue_label {
            self.text.line("{");
            self.text.append(body);
            self.text.line("}");
            self.text.line(&format!("{label}: ;"));
        } else {
            self.text.append(body);
        }
        step(self);
        self.text.back();
    }

    /// A loop's body; its condition goes to the head, if the body begins with one whose operands
    /// are part of it.
    fn loop_body(
        &mut self,
        id: LoopId,
        body: &'m Block,
        head: &mut Option<(Option<String>, Option<Location>)>,
    ) -> Result<(), PrintError> {
        let first = body
            .iter()
            .position(|statement| !matches!(statement, Statement::Define { .. }));
        let is_break = |block: &Block| matches!(block[..], [Statement::Break(left)] if left == id);
        let Some((
            at,
            Statement::If {
                condition,
                then,
                otherwise,
                location,
            },
        )) = first.map(|at| (at, &body[at]))
        else {
            return self.block(body);
        };
        let (negated, rest) = match (is_break(then), is_break(otherwise)) {
            (false, true) => (false, then),
            (true, false) => (true, otherwise),
            _ => return self.block(body),
        };
        self.statements(&body[..at])?;
        let expression = self.take(*condition);
        if self.text.is_empty() && self.pending.is_empty() {
            let text = if negated {
                format!("!{}", expression.at(precedence::UNARY))
            } else {
                expression.text
            };
            *head = Some((Some(text), *location));
        } else {
            self.flush_all();
            let text = if negated {
                expression.text
            } else {
                format!("!{}", expression.at(precedence::UNARY))
            };
            self.text.line_at(*location, &format!("if ({text})"));
            self.text.deeper();
            let leave = self.jump(id, true);
            self.text.line(&leave);
            self.text.back();
        }
        self.statements(rest)?;
        // Values of the branch are not used after it; variables of it have names of their own.
        self.statements(&body[at + 1..])?;
        self.flush(Change::Fault);
        self.pending.clear();
        Ok(())
    }

    pub(super) fn elements(
        &mut self,
        id: LoopId,
        position: &[Value],
        extent: &[Value],
        body: &'m Block,
    ) -> Result<(), PrintError> {
        let extents: Vec<_> = extent
            .iter()
            .map(|value| self.simple(*value).text)
            .collect();
        self.flush_all();
        if let ([position], [extent]) = (position, extent)
            && self.module.options.elements == ElementOrder::Strided
            && let Some((spared, conditions)) = self.of_elements(*position, *extent, body)
        {
            return self.several(id, (*position, &extents[0]), body, spared, &conditions);
        }
        let index = self.module.index();
        let positions: Vec<_> = position.iter().map(|value| self.new_name(*value)).collect();
        for (value, name) in position.iter().zip(&positions) {
            self.define_name(*value, name.clone());
        }
        self.enter(id, position.len());
        let body_text = self.apart(position.len(), |f| f.block(body))?;
        let left = self.loops.pop();
        for (d, (name, extent)) in positions.iter().zip(&extents).enumerate() {
            let order = self.module.options.elements;
            operation::element_helpers(self.module, order);
            let head = match order {
                ElementOrder::Strided => format!(
                    "for ({index} {name} = quipu_thread(quipu, {d}); {name} < {extent}; {name} += quipu_threads(quipu, {d})) {{"
                ),
                ElementOrder::Contiguous => format!(
                    "for ({index} {name} = quipu_begin(quipu, {d}, {extent}), {name}_end = quipu_end(quipu, {d}, {extent}); {name} < {name}_end; {name}++) {{"
                ),
            };
            self.text.line(&head);
            if d + 1 < positions.len() {
                self.text.deeper();
            }
        }
        let Some(Loop {
            continue_label,
            break_label,
            ..
        }) = left
        else {
            return Ok(());
        };
        self.loop_end(&body_text, continue_label, |_| ());
        for d in 0..positions.len() {
            if d > 0 {
                self.text.back();
            }
            self.text.line("}");
        }
        if let Some(label) = break_label {
            self.text.line(&format!("{label}: ;"));
        }
        Ok(())
    }

    /// A thread's elements, several at once as long as there are so many and earlier checks cover
    /// all: their reads are then on their way together. The rest as it is.
    fn several(
        &mut self,
        id: LoopId,
        (position, extent): (Value, &str),
        body: &'m Block,
        spared: Spared,
        conditions: &BTreeSet<String>,
    ) -> Result<(), PrintError> {
        self.module.reads_ahead = true;
        operation::element_helpers(self.module, ElementOrder::Strided);
        let index = self.module.index();
        let wide = self.module.type_name(&Scalar::U64.into());
        let (first, stride) = (self.new_name(position), self.temporary());
        self.text.line("{");
        self.text.deeper();
        self.text.line(&format!(
            "const {index} {stride} = quipu_threads(quipu, 0);"
        ));
        self.text
            .line(&format!("{index} {first} = quipu_thread(quipu, 0);"));
        let guarded = !conditions.is_empty();
        if guarded {
            let conditions: Vec<_> = conditions.iter().map(String::as_str).collect();
            self.text
                .line(&format!("if ({}) {{", conditions.join(" && ")));
            self.text.deeper();
        }
        let (last, number, at) = (AT_ONCE - 1, self.temporary(), self.new_name(position));
        self.text.line(&format!(
            "for (; {first} + ({wide}){stride} * {last} < {extent}; {first} += {stride} * {AT_ONCE}) {{"
        ));
        self.text.deeper();
        if let Some(unroll) = self.module.language.unroll() {
            self.text.line(unroll);
        }
        self.text.line(&format!(
            "for ({index} {number} = 0; {number} < {AT_ONCE}; {number}++) {{"
        ));
        self.text.deeper();
        self.text.line(&format!(
            "const {index} {at} = {first} + {stride} * {number};"
        ));
        self.define_name(position, at);
        self.sparing(spared, |f| f.own_elements(id, body))?;
        for _ in 0..2 + usize::from(guarded) {
            self.text.back();
            self.text.line("}");
        }
        self.text.line(&format!(
            "for (; {first} < {extent}; {first} += {stride}) {{"
        ));
        self.define_name(position, first);
        self.text.deeper();
        self.own_elements(id, body)?;
        for _ in 0..2 {
            self.text.back();
            self.text.line("}");
        }
        Ok(())
    }

    /// The body of a thread's elements, which nothing leaves.
    fn own_elements(&mut self, id: LoopId, body: &'m Block) -> Result<(), PrintError> {
        self.enter(id, 1);
        let written = self.block(body);
        self.loops.pop();
        written
    }
}

//! Loops as statements. Each ends after some rounds, with any body.

use super::{LoopScope, Maker};
use crate::tree::{Block, Piece, Statement, pieces};
use crate::types::{Scalar, Type};

impl Maker {
    /// A loop of some kind.
    pub(super) fn loop_statement(&mut self, depth: usize) -> Statement {
        match self.random.below(10) {
            0..2 => self.while_loop(depth),
            2 => self.forever(depth),
            3..5 => self.over_array(depth),
            _ => self.over_range(depth),
        }
    }

    /// The body of a loop, with what it defines, and perhaps a label before the loop.
    fn loop_body(
        &mut self,
        depth: usize,
        first: Vec<Statement>,
        define: impl FnOnce(&mut Self),
    ) -> (String, Block) {
        let scope = self.enter();
        let label = self.random.chance(40).then(|| self.fresh("'l"));
        self.loops.push(LoopScope {
            label: label.clone(),
            is_plain: true,
            is_left: true,
        });
        self.depth += 1;
        define(self);
        let mut block = Block {
            statements: first,
            value: None,
        };
        let count = 1 + self.random.below(3);
        self.statements(&mut block, count, depth);
        self.depth -= 1;
        self.loops.pop();
        self.leave(&scope);
        (
            label.map_or_else(String::new, |label| format!("{label}: ")),
            block,
        )
    }

    fn while_loop(&mut self, depth: usize) -> Statement {
        let counter = self.fresh("r");
        let rounds = self.random.below(6);
        let condition = if self.random.chance(50) {
            let condition = self.outside_loops(|this| this.scalar(Scalar::Bool, 1));
            pieces![" && ", condition]
        } else {
            Vec::new()
        };
        let first = Statement::fixed(pieces![format!("{counter} += 1;")]);
        let (label, body) = self.loop_body(depth, vec![first], |this| {
            this.define(&counter, Type::Scalar(Scalar::U8), false);
        });
        let mut all = pieces![format!(
            "{{ let mut {counter} = 0u8; {label}while {counter} < {rounds}"
        )];
        all.extend(condition);
        all.extend(pieces![" ", body, " }"]);
        Statement::new(all)
    }

    fn forever(&mut self, depth: usize) -> Statement {
        let counter = self.fresh("r");
        let rounds = self.random.below(6);
        let leave = Statement::fixed(pieces![format!(
            "{counter} += 1; if {counter} > {rounds} {{ break; }}"
        )]);
        let (label, body) = self.loop_body(depth, vec![leave], |this| {
            this.define(&counter, Type::Scalar(Scalar::I16), false);
        });
        Statement::new(pieces![
            format!("{{ let mut {counter} = 0i16; {label}loop "),
            body,
            " }"
        ])
    }

    fn over_range(&mut self, depth: usize) -> Statement {
        let of = if self.random.chance(25) {
            Scalar::Usize
        } else {
            self.any_integer()
        };
        let name = of.name();
        let counter = self.fresh("k");
        let few = self.random.below(6);
        let more = few + self.random.below(6);
        // A number of at most 7, of whatever is in scope.
        let varying = |this: &mut Self| -> Vec<Piece> {
            let number = this.outside_loops(|this| this.scalar(Scalar::U8, 1));
            pieces!["((", number, format!(" & 7) as {name})")]
        };
        let (mut range, is_small) = match self.random.below(8) {
            0 => (pieces![format!("{few}..{more}{name}")], true),
            1 => (pieces![format!("{few}..={more}{name}")], true),
            2 => {
                let end = varying(self);
                let mut pieces = pieces![format!("{few}{name}..")];
                pieces.extend(end);
                (pieces, true)
            }
            3 => {
                let end = varying(self);
                let mut pieces = pieces![format!("0{name}..=")];
                pieces.extend(end);
                (pieces, true)
            }
            4 if of != Scalar::Usize || self.wide => {
                (pieces![format!("{name}::MAX - {few}..={name}::MAX")], false)
            }
            5 if of != Scalar::Usize || self.wide => {
                (pieces![format!("{name}::MIN..{name}::MIN + {few}")], false)
            }
            6 if of.is_signed() => {
                let end = varying(self);
                let mut pieces = pieces![format!("-{few}{name}..")];
                pieces.extend(end);
                (pieces, false)
            }
            // The whole range of the type, in few steps.
            7 if of.bits() == 8 => {
                let step = 90 + self.random.below(100);
                (
                    pieces![format!("({name}::MIN..={name}::MAX).step_by({step})")],
                    false,
                )
            }
            _ => (pieces![format!("{few}..{more}{name}")], true),
        };
        if self.random.chance(40) {
            range.insert(0, "(".into());
            range.push(")".into());
            // Of longer ranges std does not know how long they are.
            let has_length = of.bits() <= 16;
            range.push(self.adapters(has_length).into());
        }
        let (label, body) = self.loop_body(depth, Vec::new(), |this| {
            if of != Scalar::Usize || this.wide {
                this.define(&counter, Type::Scalar(of), false);
            }
            if of == Scalar::Usize && is_small {
                this.counters.push(counter.clone());
            }
        });
        let mut all = pieces![format!("{label}for {counter} in ")];
        all.extend(range);
        all.extend(pieces![" ", body]);
        Statement::new(all)
    }

    /// Adapters of an iterator. What goes backwards comes first, unless the iterator has a length.
    pub(super) fn adapters(&mut self, has_length: bool) -> String {
        let mut adapters = String::new();
        for place in 0..1 + self.random.below(3) {
            let count = 1 + self.random.below(5);
            adapters += &match self.random.below(4) {
                0 if has_length || place == 0 => ".rev()".to_owned(),
                1 => format!(".skip({count})"),
                2 => format!(".take({count})"),
                _ => format!(".step_by({count})"),
            };
        }
        adapters
    }

    /// Adapters of an iterator over elements, or none.
    fn perhaps_adapters(&mut self) -> String {
        if self.random.chance(40) {
            self.adapters(true)
        } else {
            String::new()
        }
    }

    /// Over the elements of an array of the kernel's own, or some of an input.
    fn over_array(&mut self, depth: usize) -> Statement {
        let array = self.variable(|variable| {
            matches!(variable.of, Type::Array(..)) && !variable.name.starts_with('*')
        });
        let (item, number) = (self.fresh("e"), self.fresh("k"));
        let Some(array) = array.filter(|_| self.random.chance(60)) else {
            return self.over_input(depth, &item);
        };
        let Type::Array(element, length) = array.of else {
            return self.over_input(depth, &item);
        };
        let of = Type::Scalar(element);
        let name = &array.name;
        if array.is_mutable && self.random.chance(50) {
            // The iterated value is borrowed.
            let from = self.random.below(length);
            let over = *self.random.pick(&[0, 1, 2]);
            let all = self.variables.clone();
            self.variables.retain(|variable| variable.name != *name);
            let (label, mut body) = self.loop_body(depth.min(1), Vec::new(), |this| {
                this.define(&format!("*{item}"), of.clone(), true);
                if over == 2 {
                    this.counters.push(number.clone());
                }
            });
            let value = self.scalar(element, 1);
            body.statements
                .push(Statement::new(pieces![format!("*{item} = "), value, ";"]));
            self.variables = all;
            let adapters = self.perhaps_adapters();
            let over = match over {
                0 => format!("{item} in &mut {name}"),
                1 => format!("{item} in {name}[{from}..].iter_mut(){adapters}"),
                _ => format!("({number}, {item}) in {name}.iter_mut().enumerate(){adapters}"),
            };
            return Statement::new(pieces![format!("{label}for {over} "), body]);
        }
        let is_by_value = self.random.chance(40);
        let all = self.variables.clone();
        if !is_by_value {
            // The iterated value is borrowed, and not changed.
            for variable in &mut self.variables {
                variable.is_mutable &= variable.name != *name;
            }
        }
        let (label, body) = self.loop_body(depth, Vec::new(), |this| {
            let variable = if is_by_value {
                item.clone()
            } else {
                format!("*{item}")
            };
            this.define(&variable, of.clone(), false);
        });
        self.variables = all;
        Statement::new(if is_by_value {
            pieces![format!("{label}for {item} in {name} "), body]
        } else {
            pieces![format!("{label}for {item} in &{name} "), body]
        })
    }

    fn over_input(&mut self, depth: usize, item: &str) -> Statement {
        let inputs = self.slices();
        if inputs.is_empty() {
            return self.over_range(depth);
        }
        let (name, element) = self.random.pick(&inputs).clone();
        let length = format!("{name}.len()");
        let start = self.index(&length);
        let count = 1 + self.random.below(5);
        let (number, other) = (self.fresh("k"), self.fresh("e"));
        let is_numbered = self.random.chance(40);
        let (with, of_other) = self.random.pick(&inputs).clone();
        let is_zipped = self.random.chance(40);
        let (label, body) = self.loop_body(depth, Vec::new(), |this| {
            this.define(&format!("*{item}"), Type::Scalar(element), false);
            if is_numbered {
                this.counters.push(number.clone());
            }
            if is_zipped {
                this.define(&format!("*{other}"), Type::Scalar(of_other), false);
            }
        });
        let adapters = self.perhaps_adapters();
        let first = self.fresh("s");
        let mut all = pieces![format!("{{ let {first} = "), start];
        let end = format!("({first} + {count}).min({length})");
        let of = format!("{name}[{first}..{end}]");
        let over = match (is_numbered, is_zipped) {
            (false, false) => format!("{item} in &{of}"),
            (true, false) => format!("({number}, {item}) in {of}.iter().enumerate(){adapters}"),
            (false, true) => {
                format!("({item}, {other}) in {of}.iter().zip({with}.iter(){adapters})")
            }
            (true, true) => format!(
                "({number}, ({item}, {other})) in {of}.iter(){adapters}.zip(&{with}[..]).enumerate()"
            ),
        };
        all.push(format!("; {label}for {over} ").into());
        all.extend(pieces![body, " }"]);
        Statement::new(all)
    }
}

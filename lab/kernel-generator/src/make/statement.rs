//! Statements.

use super::{Argument, Callable, Maker};
use crate::tree::{Block, Statement, pieces};
use crate::types::{Scalar, Type};

impl Maker {
    /// Adds so many statements to a block; what they define is in scope after them.
    pub(super) fn statements(&mut self, block: &mut Block, count: usize, depth: usize) {
        for _ in 0..count {
            if !self.spend() {
                return;
            }
            let statement = self.statement(depth);
            block.statements.push(statement);
        }
    }

    fn statement(&mut self, depth: usize) -> Statement {
        match self.random.below(100) {
            0..22 => self.bind(),
            22..42 => self.assign(),
            42..52 => self.compound(),
            52..62 if depth > 0 => self.branch_statement(depth - 1),
            62..67 if depth > 0 => self.match_statement(depth - 1),
            67..79 if depth > 0 && self.depth < 2 => self.loop_statement(depth - 1),
            79..83 => self.jump().unwrap_or_else(|| self.bind()),
            83..87 => self.take_apart(),
            87..90 => self.exchange().unwrap_or_else(|| self.bind()),
            90..93 => self.call_statement().unwrap_or_else(|| self.assign()),
            93..96 => self.closure().unwrap_or_else(|| self.bind()),
            96 => self.late(),
            97 => self.part_of_input(),
            _ => self.array_method().unwrap_or_else(|| self.bind()),
        }
    }

    /// Some type of a variable.
    fn any_type(&mut self) -> Type {
        match self.random.below(12) {
            0 | 1 => {
                let element = self.any_scalar();
                Type::Array(element, 1 + self.random.below(5))
            }
            2 => Type::Pair(self.any_scalar(), self.any_scalar()),
            4 if !self.enumerations.is_empty() => {
                Type::Enum(self.random.below(self.enumerations.len()))
            }
            3 if !self.structures.is_empty() => {
                Type::Struct(self.random.below(self.structures.len()))
            }
            _ => Type::Scalar(self.any_scalar()),
        }
    }

    /// `let`.
    pub(super) fn bind(&mut self) -> Statement {
        let of = self.any_type();
        let value = self.expression(&of, 3);
        let is_mutable = self.random.chance(60);
        let shadowed = self.variable(|variable| variable.name.starts_with('v'));
        let name = match shadowed {
            Some(shadowed) if self.random.chance(15) => shadowed.name,
            _ => self.fresh("v"),
        };
        let annotation = if self.random.chance(30) {
            format!(": {}", self.type_name(&of))
        } else {
            String::new()
        };
        self.define(&name, of, is_mutable);
        let mutable = if is_mutable { "mut " } else { "" };
        Statement::new(pieces![
            format!("let {mutable}{name}{annotation} = "),
            value,
            ";"
        ])
    }

    pub(super) fn type_name(&self, of: &Type) -> String {
        match of {
            Type::Scalar(scalar) => scalar.name().to_owned(),
            Type::Array(element, length) => format!("[{}; {length}]", element.name()),
            Type::Pair(first, second) => format!("({}, {})", first.name(), second.name()),
            Type::Struct(number) => self.structures[*number].name.clone(),
            Type::Enum(number) => self.enumerations[*number].name.clone(),
            Type::Unit => "()".to_owned(),
        }
    }

    /// A place that can be written, as text, with its type.
    fn place(&mut self) -> Option<(Vec<crate::tree::Piece>, Type)> {
        let found = self.variable(|variable| variable.is_mutable)?;
        let whole = pieces![found.name.clone()];
        let of_whole = found.whole();
        if self.random.chance(25) {
            return Some((whole, found.of));
        }
        Some(match &found.of {
            Type::Array(element, length) => {
                let index = self.index(&length.to_string());
                (
                    pieces![format!("{of_whole}["), index, "]"],
                    Type::Scalar(*element),
                )
            }
            Type::Pair(first, second) => {
                let is_first = self.random.chance(50);
                let (number, of) = if is_first { (0, first) } else { (1, second) };
                (pieces![format!("{of_whole}.{number}")], Type::Scalar(*of))
            }
            Type::Struct(number) => {
                let fields = self.structures[*number].fields.clone();
                let (field, of) = self.random.pick(&fields);
                (pieces![format!("{of_whole}.{field}")], Type::Scalar(*of))
            }
            _ => (whole, found.of),
        })
    }

    fn assign(&mut self) -> Statement {
        let Some((mut place, of)) = self.place() else {
            return self.bind();
        };
        let value = self.expression(&of, 3);
        place.extend(pieces![" = ", value, ";"]);
        Statement::new(place)
    }

    /// `+=` and its like.
    fn compound(&mut self) -> Statement {
        let Some((mut place, Type::Scalar(of))) = self.place() else {
            return self.bind();
        };
        let signs: &[&str] = if of == Scalar::Bool {
            &["&=", "|=", "^="]
        } else if of.is_float() {
            &["+=", "-=", "*=", "/=", "%="]
        } else {
            &["+=", "-=", "*=", "&=", "|=", "^=", "<<=", ">>="]
        };
        let sign = *self.random.pick(signs);
        let value = if sign.len() == 3 {
            let amount = self.any_integer();
            self.scalar(amount, 2)
        } else {
            self.scalar(of, 3)
        };
        if of.is_half() {
            // No number of the compiler's own: what is on the right may not touch the place.
            let name = self.fresh("h");
            let mut whole = pieces![format!("{{ let {name} = "), value, "; "];
            whole.extend(place);
            whole.push(format!(" {sign} {name}; }}").into());
            return Statement::new(whole);
        }
        place.extend(pieces![format!(" {sign} "), value, ";"]);
        Statement::new(place)
    }

    /// A block of statements; what it defines is its own.
    pub(super) fn inner_block(&mut self, depth: usize) -> Block {
        let scope = self.enter();
        let mut block = Block::default();
        let count = 1 + self.random.below(3);
        self.statements(&mut block, count, depth);
        self.leave(&scope);
        block
    }

    fn branch_statement(&mut self, depth: usize) -> Statement {
        let condition = self.scalar(Scalar::Bool, 2);
        let mut all = pieces!["if ", condition, " ", self.inner_block(depth)];
        if self.random.chance(20) {
            let condition = self.scalar(Scalar::Bool, 1);
            all.extend(pieces![
                " else if ",
                condition,
                " ",
                self.inner_block(depth)
            ]);
        }
        if self.random.chance(50) {
            all.extend(pieces![" else ", self.inner_block(depth)]);
        }
        Statement::new(all)
    }

    fn match_statement(&mut self, depth: usize) -> Statement {
        let on = self.any_integer();
        let mut all = pieces!["match ", self.scalar(on, 2), " { "];
        for arm in self.patterns(on) {
            all.extend(pieces![format!("{arm} => "), self.inner_block(depth), " "]);
        }
        all.extend(pieces!["_ => ", self.inner_block(depth), " }"]);
        Statement::new(all)
    }

    /// `break`, `continue` or `return`, under a condition.
    fn jump(&mut self) -> Option<Statement> {
        let condition = self.scalar(Scalar::Bool, 2);
        if let Some(returned) = self.returns.clone()
            && self.random.chance(30)
        {
            let value = self.expression(&returned, 1);
            return Some(Statement::new(pieces![
                "if ",
                condition,
                " { return ",
                value,
                "; }"
            ]));
        }
        let inner = self.loops.last()?.clone();
        if inner.is_plain && self.random.chance(60) {
            let jump = self.way_out(inner.is_left);
            return Some(Statement::new(pieces![
                "if ",
                condition,
                format!(" {{ {jump}; }}")
            ]));
        }
        let labelled: Vec<(String, bool)> = self
            .loops
            .iter()
            .filter(|scope| scope.is_plain)
            .filter_map(|scope| Some((scope.label.clone()?, scope.is_left)))
            .collect();
        if labelled.is_empty() {
            return None;
        }
        let (label, is_left) = self.random.pick(&labelled).clone();
        let jump = self.way_out(is_left);
        Some(Statement::new(pieces![
            "if ",
            condition,
            format!(" {{ {jump} {label}; }}")
        ]))
    }

    fn way_out(&mut self, is_left: bool) -> &'static str {
        let most = if is_left { 2 } else { 1 };
        ["continue", "break"][self.random.below(most)]
    }

    /// Part of an input that is read, which is one itself.
    fn part_of_input(&mut self) -> Statement {
        let inputs = self.slices();
        if inputs.is_empty() {
            return self.bind();
        }
        let (name, element) = self.random.pick(&inputs).clone();
        let length = format!("{name}.len()");
        let (start, part) = (self.index(&length), self.fresh("xs"));
        self.inputs.push((part.clone(), element));
        let first = self.fresh("s");
        let mut all = pieces![format!("let {first} = "), start, "; "];
        let count = 1 + self.random.below(9);
        // Not empty, but where an index may be outside.
        all.push(
            match self.random.below(3) {
                0 => format!("let {part} = &{name}[{first}..];"),
                1 => format!("let {part} = &{name}[..{first} + 1];"),
                _ => format!("let {part} = &{name}[{first}..({first} + {count}).min({length})];"),
            }
            .into(),
        );
        Statement::new(all)
    }

    /// `let` of a pattern.
    fn take_apart(&mut self) -> Statement {
        if !self.structures.is_empty() && self.random.chance(30) {
            let number = self.random.below(self.structures.len());
            let value = self.expression(&Type::Struct(number), 2);
            let structure = self.structures[number].clone();
            if !structure.is_tuple {
                let (field, of) = structure.fields[0].clone();
                let name = self.fresh("v");
                self.define(&name, Type::Scalar(of), false);
                return Statement::new(pieces![
                    format!("let {} {{ {field}: {name}, .. }} = ", structure.name),
                    value,
                    ";"
                ]);
            }
        }
        let (first, second) = (self.any_scalar(), self.any_scalar());
        let value = self.expression(&Type::Pair(first, second), 3);
        let (a, b) = (self.fresh("v"), self.fresh("v"));
        self.define(&a, Type::Scalar(first), true);
        self.define(&b, Type::Scalar(second), false);
        Statement::new(pieces![format!("let (mut {a}, {b}) = "), value, ";"])
    }

    /// Two variables of a type change places.
    fn exchange(&mut self) -> Option<Statement> {
        let is_own = |variable: &super::Variable| {
            variable.is_mutable
                && variable.name.starts_with('v')
                && matches!(variable.of, Type::Scalar(_))
        };
        let first = self.variable(is_own)?;
        let second = self.variable(|variable| {
            is_own(variable) && variable.of == first.of && variable.name != first.name
        });
        let mut all = Vec::new();
        let a = first.name;
        let b = match second {
            Some(second) => second.name,
            None => {
                let value = self.expression(&first.of, 2);
                let name = self.fresh("v");
                self.define(&name, first.of, true);
                all.extend(pieces![format!("let mut {name} = "), value, "; "]);
                name
            }
        };
        all.push(if self.random.chance(50) {
            format!("({a}, {b}) = ({b}, {a});").into()
        } else {
            format!("std::mem::swap(&mut {a}, &mut {b});").into()
        });
        Some(Statement::new(all))
    }

    /// A device function that changes a variable.
    fn call_statement(&mut self) -> Option<Statement> {
        let fitting: Vec<Callable> = self
            .functions
            .iter()
            .filter(|one| matches!(one.parameters.first(), Some(Argument::Mutable(_))))
            .cloned()
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let called = self.random.pick(&fitting).clone();
        let Some(Argument::Mutable(of)) = called.parameters.first() else {
            return None;
        };
        let of = Type::Scalar(*of);
        let changed = self.variable(|v| v.is_mutable && v.of == of && v.name.starts_with('v'))?;
        // Other arguments must not read what is borrowed.
        let all = self.hide(&changed.name);
        let mut pieces = pieces![format!("let _ = {}(&mut {}", called.name, changed.name)];
        for argument in &called.parameters[1..] {
            if let Argument::Value(scalar) = argument {
                pieces.extend(pieces![", ", self.leaf(*scalar)]);
            }
        }
        self.variables = all;
        pieces.push(");".into());
        Some(Statement::new(pieces))
    }

    /// Hides all variables of a name; gives what was in scope.
    fn hide(&mut self, name: &str) -> Vec<super::Variable> {
        let all = self.variables.clone();
        self.variables.retain(|variable| variable.name != name);
        all
    }

    /// A closure with a name.
    fn closure(&mut self) -> Option<Statement> {
        if !self.loops.is_empty() && self.random.chance(50) {
            return None;
        }
        let result = self.any_scalar();
        let count = 1 + self.random.below(2);
        let parameters: Vec<Scalar> = (0..count).map(|_| self.any_scalar()).collect();
        let name = self.fresh("f");
        let scope = self.enter();
        let all = self.hide_mutable();
        let mut list = Vec::new();
        for parameter in &parameters {
            let argument = self.fresh("a");
            list.push(format!("{argument}: {}", parameter.name()));
            self.define(&argument, Type::Scalar(*parameter), false);
        }
        let body = self.outside_loops(|this| this.value_block(result, 2));
        self.variables = all;
        self.leave(&scope);
        self.closures.push(Callable {
            name: name.clone(),
            parameters: parameters.into_iter().map(Argument::Value).collect(),
            result,
        });
        Some(Statement::new(pieces![
            format!("let {name} = |{}| ", list.join(", ")),
            body,
            ";"
        ]))
    }

    /// A variable that gets its value in branches.
    fn late(&mut self) -> Statement {
        let of = self.any_scalar();
        let condition = self.scalar(Scalar::Bool, 2);
        let (a, b) = (self.scalar(of, 2), self.scalar(of, 2));
        let name = self.fresh("v");
        self.define(&name, Type::Scalar(of), false);
        Statement::new(pieces![
            format!("let {name}; if "),
            condition,
            format!(" {{ {name} = "),
            a,
            format!("; }} else {{ {name} = "),
            b,
            "; }"
        ])
    }

    fn array_method(&mut self) -> Option<Statement> {
        let array = self
            .variable(|variable| variable.is_mutable && matches!(variable.of, Type::Array(..)))?;
        let Type::Array(element, length) = array.of else {
            return None;
        };
        let (a, b) = (self.random.below(length), self.random.below(length));
        let name = array.whole();
        if self.random.chance(50) {
            return Some(Statement::new(pieces![format!("{name}.swap({a}, {b});")]));
        }
        let (from, to) = (a.min(b), a.max(b));
        let all = self.hide(&array.name);
        let value = self.scalar(element, 2);
        self.variables = all;
        Some(Statement::new(pieces![
            format!("{name}[{from}..{to}].fill("),
            value,
            ");"
        ]))
    }
}

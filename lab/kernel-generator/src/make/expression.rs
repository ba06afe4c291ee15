//! Expressions of any type: places, branches, blocks, calls; the operations of numbers are in
//! `number`.

use super::number::converted;
use super::{Argument, Enumeration, LoopScope, Maker, text};
use crate::tree::{Block, Expression, Piece, Statement, pieces};
use crate::types::{Scalar, Type};

impl Maker {
    /// An expression of a type.
    pub(super) fn expression(&mut self, of: &Type, depth: usize) -> Expression {
        match of {
            Type::Scalar(scalar) => self.scalar(*scalar, depth),
            Type::Unit => Expression::text(Type::Unit, "()"),
            Type::Array(element, length) => {
                if let Some(known) = self.same_type(of) {
                    return known;
                }
                let mut pieces = pieces!["["];
                if self.random.chance(30) {
                    pieces.push(self.scalar(*element, depth.saturating_sub(1)).into());
                    pieces.push(format!("; {length}]").into());
                } else {
                    for at in 0..*length {
                        if at > 0 {
                            pieces.push(", ".into());
                        }
                        pieces.push(self.scalar(*element, depth.saturating_sub(2)).into());
                    }
                    pieces.push("]".into());
                }
                Expression::new(of.clone(), pieces)
            }
            Type::Pair(first, second) => {
                if let Some(known) = self.same_type(of) {
                    return known;
                }
                let first = self.scalar(*first, depth.saturating_sub(1));
                let second = self.scalar(*second, depth.saturating_sub(1));
                Expression::new(of.clone(), pieces!["(", first, ", ", second, ")"])
            }
            Type::Struct(number) => {
                if let Some(known) = self.same_type(of) {
                    return known;
                }
                self.structure(*number, depth)
            }
            Type::Enum(number) => {
                if let Some(known) = self.same_type(of) {
                    return known;
                }
                let one = self.variant(*number);
                if depth > 0 && self.random.chance(40) {
                    let condition = self.scalar(Scalar::Bool, 1);
                    let other = self.variant(*number);
                    let pieces = pieces![
                        "(if ",
                        condition,
                        format!(" {{ {one} }} else {{ {other} }})")
                    ];
                    return Expression::new(of.clone(), pieces);
                }
                Expression::text(of.clone(), one)
            }
        }
    }

    /// One of an enum's variants.
    fn variant(&mut self, number: usize) -> String {
        let Enumeration { name, variants } = &self.enumerations[number];
        format!("{name}::V{}", self.random.below(*variants))
    }

    /// A variable of an aggregate type, now and then.
    fn same_type(&mut self, of: &Type) -> Option<Expression> {
        if !self.random.chance(35) {
            return None;
        }
        let read = self.aggregates.iter().filter(|(_, element)| element == of);
        let read: Vec<String> = read.map(|(name, _)| name.clone()).collect();
        if !read.is_empty() && self.random.chance(40) {
            let name = self.random.pick(&read).clone();
            let index = self.index(&format!("{name}.len()"));
            let pieces = pieces![format!("{name}["), index, "]"];
            return Some(Expression::new(of.clone(), pieces));
        }
        let known = self.variable(|variable| variable.of == *of)?;
        let text = if known.name.starts_with('*') {
            format!("({})", known.name)
        } else {
            known.name
        };
        Some(Expression::text(of.clone(), text))
    }

    fn structure(&mut self, number: usize, depth: usize) -> Expression {
        let structure = self.structures[number].clone();
        let of = Type::Struct(number);
        let (open, close) = if structure.is_tuple {
            ("(", ")")
        } else {
            (" { ", " }")
        };
        // All but the last field from another one.
        let other = self.variable(|variable| variable.of == of);
        let rest = other.filter(|_| !structure.is_tuple && self.random.chance(40));
        let written = match rest {
            Some(_) => 1,
            None => structure.fields.len(),
        };
        let mut pieces = pieces![format!("{}{open}", structure.name)];
        for (at, (name, scalar)) in structure.fields.iter().take(written).enumerate() {
            if at > 0 {
                pieces.push(", ".into());
            }
            if !structure.is_tuple {
                pieces.push(format!("{name}: ").into());
            }
            pieces.push(self.scalar(*scalar, depth.saturating_sub(1)).into());
        }
        if let Some(rest) = rest {
            pieces.push(format!(", ..{}", rest.name).into());
        }
        pieces.push(close.into());
        Expression::new(of, pieces)
    }

    /// A scalar.
    pub(super) fn scalar(&mut self, of: Scalar, depth: usize) -> Expression {
        if depth == 0 || !self.spend() {
            return self.leaf(of);
        }
        match self.random.below(100) {
            0..18 => self.leaf(of),
            18..72 => self.operation(of, depth - 1),
            72..74 => self.asked(of, depth - 1),
            74..76 => self.of_enumeration(of, depth - 1),
            76..83 => self.branch(of, depth - 1),
            83..87 => self.cases(of, depth - 1),
            87..91 => self.block_expression(of, depth - 1),
            91 => self.loop_expression(of, depth - 1),
            92..94 => self.chain(of, depth - 1),
            _ => self.call(of, depth - 1),
        }
    }

    /// Something that is there already, or a constant.
    pub(super) fn leaf(&mut self, of: Scalar) -> Expression {
        for _ in 0..3 {
            let found = match self.random.below(8) {
                0..3 => self
                    .variable(|variable| variable.of == Type::Scalar(of))
                    .map(|found| {
                        if found.name.starts_with('*') {
                            text(of, format!("({})", found.name))
                        } else {
                            text(of, found.name)
                        }
                    }),
                3..5 => self.read_input(of),
                5 => self.read_part(of).or_else(|| self.read_in_input(of)),
                6 => self.read_in_input(of).or_else(|| self.read_element(of)),
                _ => None,
            };
            if let Some(found) = found {
                return found;
            }
        }
        // Something of another type, rather than a constant.
        if of != Scalar::Bool && self.random.chance(60) {
            let found = self.variable(|variable| match variable.of {
                Type::Scalar(Scalar::Bool) => of.is_integer(),
                Type::Scalar(_) => !variable.name.starts_with('*'),
                _ => false,
            });
            if let Some(super::Variable {
                name,
                of: Type::Scalar(from),
                ..
            }) = found
            {
                return text(of, converted(format!("({name})"), from, of));
            }
        }
        text(of, of.literal(&mut self.random))
    }

    /// An element of an input.
    fn read_input(&mut self, of: Scalar) -> Option<Expression> {
        let fitting: Vec<String> = self
            .inputs
            .iter()
            .filter(|(_, element)| *element == of)
            .map(|(name, _)| name.clone())
            .collect();
        let views = self.views.iter().filter(|(_, element, _)| *element == of);
        let views: Vec<(String, usize)> = views
            .map(|(name, _, dimensions)| (name.clone(), *dimensions))
            .collect();
        if !views.is_empty() && (fitting.is_empty() || self.random.chance(50)) {
            let (name, dimensions) = self.random.pick(&views).clone();
            let mut pieces = pieces![format!("{name}[[")];
            for dimension in 0..dimensions {
                let extent = format!("{name}.extent()[{dimension}]");
                pieces.extend(pieces![self.index(&extent), ", "]);
            }
            pieces.push("]]".into());
            return Some(Expression::new(Type::Scalar(of), pieces));
        }
        if fitting.is_empty() {
            return None;
        }
        let name = self.random.pick(&fitting).clone();
        let index = self.index(&format!("{name}.len()"));
        Some(Expression::new(
            Type::Scalar(of),
            pieces![format!("{name}["), index, "]"],
        ))
    }

    /// An index below a length, which is not zero; or beyond it, where that may be.
    pub(super) fn index(&mut self, length: &str) -> Expression {
        let of = Type::Scalar(Scalar::Usize);
        let is_loose = self.faults && self.random.chance(10);
        if let Some(counter) = self.counters.last().cloned()
            && self.random.chance(60)
        {
            let counter = if self.counters.len() > 1 && self.random.chance(50) {
                self.counters[self.random.below(self.counters.len())].clone()
            } else {
                counter
            };
            let added = self.random.below(4);
            return Expression::text(
                of,
                if is_loose {
                    format!("{counter} + {added}")
                } else {
                    format!("({counter} + {added}) % {length}")
                },
            );
        }
        if self.indices == 3 {
            // Else an index may need elements, which need indices, without an end.
            return Expression::text(of, format!("{} % {length}", self.random.below(8)));
        }
        let wide = *self.random.pick(&[Scalar::U8, Scalar::U16]);
        let depth = self.random.below(2);
        self.indices += 1;
        let number = self.scalar(wide, depth);
        self.indices -= 1;
        let end = if is_loose {
            " & 63)".to_owned()
        } else {
            format!(" % {length})")
        };
        Expression::new(of, pieces!["(", number, " as usize", end])
    }

    /// A field of a struct or tuple.
    fn read_part(&mut self, of: Scalar) -> Option<Expression> {
        let structures = self.structures.clone();
        let parts = |variable: &super::Variable| match &variable.of {
            Type::Pair(first, second) => vec![("0".to_owned(), *first), ("1".to_owned(), *second)],
            Type::Struct(number) => structures[*number].fields.clone(),
            _ => Vec::new(),
        };
        let found =
            self.variable(|variable| parts(variable).iter().any(|(_, part)| *part == of))?;
        let fitting: Vec<String> = parts(&found)
            .into_iter()
            .filter(|(_, part)| *part == of)
            .map(|(name, _)| name)
            .collect();
        let part = self.random.pick(&fitting);
        Some(text(of, format!("{}.{part}", found.whole())))
    }

    /// A field or element of what is an element of an input.
    fn read_in_input(&mut self, of: Scalar) -> Option<Expression> {
        let mut found = Vec::new();
        for (name, element) in &self.aggregates {
            match element {
                Type::Struct(number) => {
                    let fields = &self.structures[*number].fields;
                    let fitting = fields.iter().filter(|(_, field)| *field == of);
                    found.extend(fitting.map(|(field, _)| (name.clone(), format!(".{field}"))));
                }
                Type::Array(element, length) if *element == of => {
                    let at = length - 1;
                    found.extend([
                        (name.clone(), "[0]".into()),
                        (name.clone(), format!("[{at}]")),
                    ]);
                }
                _ => {}
            }
        }
        if found.is_empty() {
            return None;
        }
        let (name, part) = self.random.pick(&found).clone();
        let index = self.index(&format!("{name}.len()"));
        let pieces = pieces![format!("{name}["), index, format!("]{part}")];
        Some(Expression::new(Type::Scalar(of), pieces))
    }

    /// An element of an array.
    fn read_element(&mut self, of: Scalar) -> Option<Expression> {
        let found = self.variable(|v| matches!(v.of, Type::Array(element, _) if element == of))?;
        let Type::Array(_, length) = found.of else {
            return None;
        };
        let index = self.index(&length.to_string());
        Some(Expression::new(
            Type::Scalar(of),
            pieces![format!("{}[", found.whole()), index, "]"],
        ))
    }

    /// `if`, in one of its forms.
    fn branch(&mut self, of: Scalar, depth: usize) -> Expression {
        let condition = self.scalar(Scalar::Bool, depth.min(2));
        let (then, otherwise) = (self.value_block(of, depth), self.value_block(of, depth));
        let mut pieces = pieces!["(if ", condition, " ", then];
        if self.random.chance(20) {
            let condition = self.scalar(Scalar::Bool, depth.min(1));
            let between = self.value_block(of, depth.min(2));
            pieces.extend(pieces![" else if ", condition, " ", between]);
        }
        pieces.extend(pieces![" else ", otherwise, ")"]);
        Expression::new(Type::Scalar(of), pieces)
    }

    /// A block that gives a value; what it defines is its own.
    pub(super) fn value_block(&mut self, of: Scalar, depth: usize) -> Block {
        let scope = self.enter();
        let mut block = Block::default();
        if self.random.chance(25) {
            let count = 1 + self.random.below(2);
            self.statements(&mut block, count, depth.min(2));
        }
        block.value = Some(Box::new(self.scalar(of, depth)));
        self.leave(&scope);
        block
    }

    /// `match` on an integer or two truth values.
    fn cases(&mut self, of: Scalar, depth: usize) -> Expression {
        let mut pieces = pieces!["(match "];
        if self.random.chance(20) {
            let (a, b) = (self.scalar(Scalar::Bool, 1), self.scalar(Scalar::Bool, 1));
            pieces.extend(pieces!["(", a, ", ", b, ") { "]);
            for pattern in ["(true, false)", "(false, _)"] {
                pieces.extend(pieces![
                    format!("{pattern} => "),
                    self.scalar(of, depth.min(2)),
                    ", "
                ]);
            }
            pieces.extend(pieces![
                "(true, true) => ",
                self.scalar(of, depth.min(2)),
                " })"
            ]);
            return Expression::new(Type::Scalar(of), pieces);
        }
        let on = self.any_integer();
        pieces.extend(pieces![self.scalar(on, depth.min(2)), " { "]);
        for arm in self.patterns(on) {
            pieces.extend(pieces![format!("{arm} => ")]);
            if self.random.chance(30) {
                pieces.extend(pieces![self.value_block(of, depth.min(2)), " "]);
            } else {
                pieces.extend(pieces![self.scalar(of, depth.min(2)), ", "]);
            }
        }
        let scope = self.enter();
        let rest = self.fresh("n");
        let is_named = self.random.chance(50);
        if is_named {
            self.define(&rest, Type::Scalar(on), false);
        }
        pieces.push(format!("{} => ", if is_named { &rest } else { "_" }).into());
        pieces.extend(pieces![self.scalar(of, depth), " })"]);
        self.leave(&scope);
        Expression::new(Type::Scalar(of), pieces)
    }

    /// A branch on what the accelerator is and has. What it is differs from way to way, and so the
    /// two give the same then, with something else beside.
    fn asked(&mut self, of: Scalar, depth: usize) -> Expression {
        if !self.has_accelerator {
            return self.branch(of, depth);
        }
        if self.random.chance(40) {
            let condition = *self.random.pick(&[
                "acc.has_f64()",
                "acc.warp_size() > 0",
                "acc.warp_size() == 0",
                "!acc.has_f64()",
                "(acc.is_gpu() || !acc.is_gpu())",
                "acc.is_native() && acc.is_gpu()",
            ]);
            let also = match self.random.below(3) {
                0 => pieces![" && ", self.scalar(Scalar::Bool, 1)],
                1 => pieces![" || ", self.scalar(Scalar::Bool, 1)],
                _ => Vec::new(),
            };
            let mut pieces = pieces![format!("(if {condition}")];
            pieces.extend(also);
            let (then, otherwise) = (self.value_block(of, depth), self.value_block(of, depth));
            pieces.extend(pieces![" ", then, " else ", otherwise, ")"]);
            return Expression::new(Type::Scalar(of), pieces);
        }
        let condition = *self.random.pick(&[
            "acc.is_gpu()",
            "!acc.is_native()",
            "acc.has_clock()",
            "acc.has_system_scope()",
            "acc.warp_size() > 1",
            "acc.is_gpu() && acc.warp_size() == 32",
        ]);
        let value = self.scalar(of, depth);
        let name = self.fresh("v");
        let pieces = pieces![
            format!("(if {condition} {{ "),
            value.clone(),
            format!(" }} else {{ let {name} = "),
            value,
            format!("; {name} }})")
        ];
        Expression::new(Type::Scalar(of), pieces)
    }

    /// The number of an enum's variant.
    fn of_enumeration(&mut self, of: Scalar, depth: usize) -> Expression {
        if self.enumerations.is_empty() {
            return self.cases(of, depth);
        }
        let number = self.random.below(self.enumerations.len());
        let value = self.expression(&Type::Enum(number), depth);
        if of.is_integer() && self.random.chance(30) {
            let pieces = pieces!["(", value, format!(" as {})", of.name())];
            return Expression::new(Type::Scalar(of), pieces);
        }
        if of == Scalar::Bool && self.random.chance(50) {
            let sign = *self.random.pick(&["==", "!="]);
            let other = self.variant(number);
            let pieces = pieces!["(", value, format!(" as i64 {sign} {other} as i64)")];
            return Expression::new(Type::Scalar(of), pieces);
        }
        let Enumeration { name, variants } = self.enumerations[number].clone();
        let mut pieces = pieces!["(match ", value, " { "];
        let mut next = 0;
        while next < variants {
            let last = (next + self.random.below(2)).min(variants - 1);
            let arms: Vec<String> = (next..=last).map(|at| format!("{name}::V{at}")).collect();
            let is_rest = last + 1 == variants && self.random.chance(30);
            let arm = if is_rest {
                "_".to_owned()
            } else {
                arms.join(" | ")
            };
            pieces.extend(pieces![
                format!("{arm} => "),
                self.scalar(of, depth.min(2)),
                ", "
            ]);
            next = last + 1;
        }
        pieces.push("})".into());
        Expression::new(Type::Scalar(of), pieces)
    }

    /// Patterns for an integer, which need not be disjoint nor all that there are.
    pub(super) fn patterns(&mut self, on: Scalar) -> Vec<String> {
        let name = on.name();
        let count = 1 + self.random.below(3);
        (0..count)
            .map(|_| {
                let (low, more) = (self.random.below(20), self.random.below(20));
                match self.random.below(7) {
                    0 => format!("{low} | {} | {}", low + 1, low + 3),
                    1 => format!("{low}..={}", low + more),
                    2 => format!("{low}..{}", low + more + 1),
                    3 => format!("{name}::MIN..={low}"),
                    4 => format!("{name}::MAX"),
                    5 if on.is_signed() => format!("-{}..=-{}", more + 5, 1 + low.min(4)),
                    _ => {
                        let named = self.fresh("n");
                        format!("{named} @ {low}..={} if {named} % 3 == 1", low + 40)
                    }
                }
            })
            .collect()
    }

    /// `{ …; value }`, perhaps with a label to leave it by.
    fn block_expression(&mut self, of: Scalar, depth: usize) -> Expression {
        if self.random.chance(50) {
            let block = self.value_block(of, depth);
            return Expression::new(Type::Scalar(of), pieces!["(", block, ")"]);
        }
        let label = self.fresh("'b");
        let scope = self.enter();
        let mut block = Block::default();
        self.loops.push(LoopScope {
            label: Some(label.clone()),
            is_plain: false,
            is_left: false,
        });
        self.statements(&mut block, 1, depth.min(2));
        let condition = self.scalar(Scalar::Bool, 1);
        let early = self.scalar(of, depth.min(1));
        block.statements.push(Statement::new(pieces![
            "if ",
            condition,
            format!(" {{ break {label} "),
            early,
            "; }"
        ]));
        block.value = Some(Box::new(self.scalar(of, depth)));
        self.loops.pop();
        self.leave(&scope);
        Expression::new(Type::Scalar(of), pieces![format!("({label}: "), block, ")"])
    }

    /// A `loop` that is left with a value.
    fn loop_expression(&mut self, of: Scalar, depth: usize) -> Expression {
        if self.depth >= 2 {
            return self.leaf(of);
        }
        let scope = self.enter();
        let counter = self.fresh("r");
        let rounds = 1 + self.random.below(5);
        self.depth += 1;
        self.loops.push(LoopScope {
            label: None,
            is_plain: false,
            is_left: false,
        });
        self.define(&counter, Type::Scalar(Scalar::U32), false);
        let mut body = Block::default();
        body.statements
            .push(Statement::fixed(pieces![format!("{counter} += 1;")]));
        let condition = self.scalar(Scalar::Bool, 1);
        let value = self.scalar(of, depth.min(2));
        body.statements.push(Statement::fixed(pieces![
            format!("if {counter} > {rounds} || "),
            condition,
            " { break ",
            value,
            "; }"
        ]));
        self.statements(&mut body, 1, depth.min(2));
        self.loops.pop();
        self.depth -= 1;
        self.leave(&scope);
        Expression::new(
            Type::Scalar(of),
            pieces![format!("({{ let mut {counter} = 0u32; loop "), body, " })"],
        )
    }

    /// A call of a device function or closure.
    fn call(&mut self, of: Scalar, depth: usize) -> Expression {
        let fitting: Vec<_> = self
            .functions
            .iter()
            .chain(&self.closures)
            .filter(|one| one.result == of)
            .cloned()
            .collect();
        if fitting.is_empty() {
            if self.random.chance(30) {
                return self.immediate_closure(of, depth);
            }
            return self.operation(of, depth);
        }
        let called = self.random.pick(&fitting).clone();
        let mut pieces = pieces![format!("{}(", called.name)];
        for (at, argument) in called.parameters.iter().enumerate() {
            if at > 0 {
                pieces.push(", ".into());
            }
            pieces.extend(self.argument(argument, depth));
        }
        pieces.push(")".into());
        Expression::new(Type::Scalar(of), pieces)
    }

    fn argument(&mut self, argument: &Argument, depth: usize) -> Vec<Piece> {
        match argument {
            Argument::Value(scalar) => pieces![self.scalar(*scalar, depth.min(2))],
            Argument::Mutable(scalar) => {
                // A variable of its own: arguments must not borrow what others use.
                let value = self.leaf(*scalar);
                pieces!["&mut {", value, "}"]
            }
            Argument::Slice(scalar) => {
                let input = self
                    .slices()
                    .into_iter()
                    .find(|(_, element)| element == scalar);
                let (name, length) = match input {
                    Some((name, _)) if self.random.chance(60) => {
                        let length = format!("{name}.len()");
                        (name, length)
                    }
                    _ => {
                        let (a, b) = (self.leaf(*scalar), self.leaf(*scalar));
                        return pieces!["&[", a, ", ", b, "]"];
                    }
                };
                match self.random.below(4) {
                    0 => pieces![name],
                    1 => pieces![format!("&{name}["), self.index(&length), "..]"],
                    2 => pieces![format!("&{name}[.."), self.index(&length), "]"],
                    _ => pieces![
                        format!("&{name}["),
                        self.index(&length),
                        format!("..{length}]")
                    ],
                }
            }
        }
    }

    /// `(|a: T| body)(value)`.
    fn immediate_closure(&mut self, of: Scalar, depth: usize) -> Expression {
        let given = self.any_scalar();
        let value = self.scalar(given, depth.min(2));
        let scope = self.enter();
        let hidden = self.hide_mutable();
        let name = self.fresh("a");
        self.define(&name, Type::Scalar(given), false);
        let body = self.outside_loops(|this| this.scalar(of, depth.min(3)));
        self.variables = hidden;
        self.leave(&scope);
        Expression::new(
            Type::Scalar(of),
            pieces![
                format!("(|{name}: {}| ", given.name()),
                body,
                ")(",
                value,
                ")"
            ],
        )
    }

    /// A value made of some elements of an input that go through closures.
    fn chain(&mut self, of: Scalar, depth: usize) -> Expression {
        let inputs = self.slices();
        if self.depth >= 2 || inputs.is_empty() {
            return self.operation(of, depth);
        }
        let (name, mut item) = self.random.pick(&inputs).clone();
        let scope = self.enter();
        let hidden = self.hide_mutable();
        self.depth += 1;
        let adapters = self.adapters(true);
        let mut pieces = pieces![format!("{name}.iter(){adapters}.take(6).copied()")];
        if self.random.chance(40) {
            let ([name], condition) = self.closure_of([item], Scalar::Bool);
            let adapter = *self.random.pick(&["filter", "take_while"]);
            pieces.extend(pieces![format!(".{adapter}(|&{name}| "), condition, ")"]);
        }
        if self.random.chance(40) {
            let to = self.any_scalar();
            let ([name], mapped) = self.closure_of([item], to);
            pieces.extend(pieces![format!(".map(|{name}| "), mapped, ")"]);
            item = to;
        }
        if of == Scalar::Bool {
            let ([name], condition) = self.closure_of([item], of);
            let question = *self.random.pick(&["any", "all"]);
            pieces.extend(pieces![format!(".{question}(|{name}| "), condition, ")"]);
        } else if matches!(of, Scalar::F32 | Scalar::F64) && self.random.chance(40) {
            let ([name], mapped) = self.closure_of([item], of);
            let total = *self.random.pick(&["sum", "product"]);
            pieces.extend(pieces![
                format!(".map(|{name}| "),
                mapped,
                format!(").{total}::<{}>()", of.name())
            ]);
        } else {
            let first = self.scalar(of, 1);
            let ([total, name], sum) = self.closure_of([of, item], of);
            pieces.extend(pieces![
                ".fold(",
                first,
                format!(", |{total}, {name}| "),
                sum,
                ")"
            ]);
        }
        self.depth -= 1;
        self.variables = hidden;
        self.leave(&scope);
        Expression::new(Type::Scalar(of), pieces)
    }

    /// The names of what a closure is given, and its body.
    fn closure_of<const N: usize>(
        &mut self,
        given: [Scalar; N],
        of: Scalar,
    ) -> ([String; N], Expression) {
        let scope = self.enter();
        let names = given.map(|given| {
            let name = self.fresh("a");
            self.define(&name, Type::Scalar(given), false);
            name
        });
        let body = self.outside_loops(|this| this.scalar(of, 1));
        self.leave(&scope);
        (names, body)
    }

    /// Hides what closures may not see, as it changes; gives what was in scope.
    pub(super) fn hide_mutable(&mut self) -> Vec<super::Variable> {
        let all = self.variables.clone();
        // A name that is hidden must not uncover one that it shadows.
        let visible: Vec<_> = (0..all.len())
            .filter(|&at| {
                !all[at].is_mutable
                    && !all[at].name.starts_with(['*', 'm'])
                    && !all[at + 1..].iter().any(|later| later.name == all[at].name)
            })
            .map(|at| all[at].clone())
            .collect();
        self.variables = visible;
        all
    }
}

//! Phases of memory that a block shares, and values that its threads agree on: barriers, and the
//! loops, branches and jumps around them.
//!
//! Every thread of a block has to come to every barrier. So what is around one is decided by what
//! is the same for all of them ([`Maker::agreed`]): whatever can be written of values that are
//! passed, of what the block reads at such places, of votes, and of variables that are changed
//! together. What threads do between barriers is their own.
//!
//! Names say who has what: variables with a `g` are the same for all threads of the block, those
//! with an `m` are, too, and change; those with a `u` are passed.

use super::kernel::{Function, Parameter, Passing};
use super::{Argument, Callable, Maker};
use crate::tree::{Block, Expression, Piece, Statement, pieces};
use crate::types::{Scalar, Type};

impl Maker {
    /// Phases of writing and reading what the block shares, in whatever all its threads agree on.
    pub(super) fn phases(&mut self, body: &mut Block, parameters: &[Parameter]) {
        let shared: Vec<&Parameter> = parameters
            .iter()
            .filter(|parameter| {
                matches!(parameter.passing, Passing::Shared(_) | Passing::SharedOf(_))
            })
            .collect();
        for parameter in &shared {
            self.write_own(body, parameter);
        }
        for parameter in parameters {
            match parameter.passing {
                Passing::SharedAtomic(_, method) => self.counted.push((parameter.clone(), method)),
                Passing::SharedRaw(times) => {
                    let name = format!("raw_{}", parameter.name);
                    body.statements.push(Statement::fixed(pieces![format!(
                        "let {name} = {}.into_raw();",
                        parameter.name
                    )]));
                    self.scattered.push((name, parameter.of.clone(), times));
                }
                _ => {}
            }
        }
        if !self.scattered.is_empty() {
            // In which order threads are counted does not matter.
            let mut number = "acc.index(Block, Threads)[0]".to_owned();
            let mut threads = "acc.extent(Block, Threads)[0]".to_owned();
            for dimension in 1..self.dimensions {
                let extent = format!("acc.extent(Block, Threads)[{dimension}]");
                number = format!("({number} * {extent} + acc.index(Block, Threads)[{dimension}])");
                threads = format!("{threads} * {extent}");
            }
            body.statements.push(Statement::fixed(pieces![format!(
                "let number = {number}; let threads = {threads};"
            )]));
        }
        self.barriers = 2 + self.random.below(5);
        self.flow(body, &shared, 0);
        if self.barriers > 2 {
            self.turn(body, &shared, 0);
        }
    }

    /// Some barriers, and what is around them.
    fn flow(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let count = 1 + self.random.below(if depth == 0 { 3 } else { 2 });
        let most = if depth < 3 { 22 } else { 10 };
        for _ in 0..count {
            if self.barriers == 0 {
                return;
            }
            match self.random.below(most) {
                0..5 if !shared.is_empty() => self.turn(body, shared, depth),
                0..7 => self.vote(body),
                7 => self.wait(body),
                8 => self.change_agreed(body),
                9 => self.leave_together(body, depth),
                10..13 => self.rounds_of_range(body, shared, depth + 1),
                13..15 => self.rounds_while(body, shared, depth + 1),
                15..17 => self.rounds_until(body, shared, depth + 1),
                17..20 => self.branch_together(body, shared, depth + 1),
                _ => self.match_together(body, shared, depth + 1),
            }
            if !self.counted.is_empty() && self.random.chance(30) {
                self.count_together(body);
            }
            if !self.scattered.is_empty() && self.random.chance(30) {
                self.scatter(body);
            }
            if !self.rounds.is_empty() && self.random.chance(25) {
                self.leave_together(body, depth);
            }
        }
    }

    /// A block of barriers, and what belongs in front of it.
    fn inner_flow(
        &mut self,
        first: Vec<Statement>,
        shared: &[&Parameter],
        depth: usize,
        define: impl FnOnce(&mut Self),
    ) -> Block {
        let scope = self.enter();
        define(self);
        let mut inner = Block {
            statements: first,
            value: None,
        };
        self.flow(&mut inner, shared, depth);
        self.leave(&scope);
        inner
    }

    /// The body of a loop that all threads leave together, and its label.
    fn rounds(
        &mut self,
        first: Vec<Statement>,
        shared: &[&Parameter],
        depth: usize,
        define: impl FnOnce(&mut Self),
    ) -> (String, Block) {
        let label = self.fresh("'g");
        self.rounds.push(label.clone());
        let inner = self.inner_flow(first, shared, depth, define);
        self.rounds.pop();
        (label, inner)
    }

    /// Writes with nothing in scope that may be another for some threads of a block.
    fn agreed<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.budget = self.budget.max(4);
        let (variables, closures) = (self.variables.clone(), self.closures.clone());
        let (counters, inputs) = (self.counters.clone(), self.inputs.clone());
        self.variables
            .retain(|variable| variable.name.starts_with(['u', 'g', 'm']));
        self.closures.clear();
        self.counters
            .retain(|counter| counter.starts_with('g') || counter == "block");
        // Parts of inputs begin where a thread has them begin.
        self.inputs.retain(|(name, _)| !name.starts_with("xs"));
        let result = self.outside_loops(write);
        self.variables = variables;
        self.closures = closures;
        self.counters = counters;
        self.inputs = inputs;
        result
    }

    /// Values that are the same for all threads of a block.
    fn agreed_condition(&mut self) -> Expression {
        self.agreed(|this| this.scalar(Scalar::Bool, 2))
    }

    /// Values that are the same for all threads of the grid: arguments.
    fn condition_of_all(&mut self) -> Expression {
        self.agreed(|this| {
            this.variables
                .retain(|variable| variable.name.starts_with('u'));
            this.counters.clear();
            this.inputs.retain(|(name, _)| name.starts_with('x'));
            let aggregates = this.aggregates.clone();
            this.aggregates.retain(|(name, _)| name.starts_with('x'));
            let condition = this.scalar(Scalar::Bool, 2);
            this.aggregates = aggregates;
            condition
        })
    }

    /// `for`, of as many rounds as all agree on.
    fn rounds_of_range(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let counter = self.fresh("g");
        if self.random.chance(15) {
            let groups = 1 + self.random.below(5);
            let (label, inner) = self.rounds(Vec::new(), shared, depth, |this| {
                this.counters.push(counter.clone());
            });
            body.statements.push(Statement::new(pieces![
                format!("{label}: for {counter} in acc.groups({groups}) "),
                inner
            ]));
            return;
        }
        if self.random.chance(20) {
            // The elements are each thread's own, the rounds are not.
            let (element, count) = (self.fresh("k"), 1 + self.random.below(20));
            let (label, inner) = self.rounds(Vec::new(), shared, depth, |this| {
                this.counters.push(element.clone());
            });
            body.statements.push(Statement::new(pieces![
                format!("{label}: for {element} in acc.uniform_elements({count}) "),
                inner
            ]));
            return;
        }
        let of = if self.random.chance(50) {
            Scalar::Usize
        } else {
            self.any_integer()
        };
        let name = of.name();
        let few = self.random.below(3);
        let mut range = if self.random.chance(50) {
            let number = self.agreed(|this| this.scalar(Scalar::U8, 2));
            pieces!["(0..((", number, format!(" & 3) as {name}))")]
        } else {
            pieces![format!("({few}..={}{name})", few + self.random.below(3))]
        };
        range.push(
            (*self
                .random
                .pick(&["", "", ".rev()", ".step_by(2)", ".skip(1)", ".take(2)"]))
            .into(),
        );
        let (label, inner) = self.rounds(Vec::new(), shared, depth, |this| {
            if of == Scalar::Usize {
                this.counters.push(counter.clone());
            }
            if of != Scalar::Usize || this.wide {
                this.define(&counter, Type::Scalar(of), false);
            }
        });
        let mut all = pieces![format!("{label}: for {counter} in ")];
        all.extend(range);
        all.extend(pieces![" ", inner]);
        body.statements.push(Statement::new(all));
    }

    /// `while`, with something that all agree on, or a vote.
    fn rounds_while(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let counter = self.fresh("m");
        let rounds = 1 + self.random.below(4);
        let condition: Vec<Piece> = match self.random.below(3) {
            0 => Vec::new(),
            1 => pieces![" && ", self.agreed_condition()],
            _ => {
                let own = self.scalar(Scalar::Bool, 2);
                pieces![" && acc.sync_block_threads_or(", own, ").await"]
            }
        };
        let change = if self.random.chance(50) {
            "-= 1"
        } else {
            "/= 2"
        };
        let first = Statement::fixed(pieces![format!("{counter} {change};")]);
        let (label, inner) = self.rounds(vec![first], shared, depth, |this| {
            this.define(&counter, Type::Scalar(Scalar::U32), false);
        });
        let mut all = pieces![format!(
            "{{ let mut {counter} = {rounds}u32; {label}: while {counter} > 0"
        )];
        all.extend(condition);
        all.extend(pieces![" ", inner, " }"]);
        body.statements.push(Statement::new(all));
    }

    /// `loop`, which all leave together.
    fn rounds_until(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let counter = self.fresh("m");
        let rounds = self.random.below(4);
        let mut leave = pieces![format!("{counter} += 1; if {counter} > {rounds}")];
        if self.random.chance(50) {
            leave.extend(pieces![" || ", self.agreed_condition()]);
        }
        leave.push(" { break; }".into());
        let first = Statement::fixed(leave);
        let (label, inner) = self.rounds(vec![first], shared, depth, |this| {
            this.define(&counter, Type::Scalar(Scalar::I16), false);
        });
        body.statements.push(Statement::new(pieces![
            format!("{{ let mut {counter} = 0i16; {label}: loop "),
            inner,
            " }"
        ]));
    }

    fn branch_together(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let condition = self.agreed_condition();
        let inner = self.inner_flow(Vec::new(), shared, depth, |_| {});
        let mut all = pieces!["if ", condition, " ", inner];
        if self.random.chance(20) {
            let condition = self.agreed_condition();
            let inner = self.inner_flow(Vec::new(), shared, depth, |_| {});
            all.extend(pieces![" else if ", condition, " ", inner]);
        }
        if self.random.chance(60) {
            let inner = self.inner_flow(Vec::new(), shared, depth, |_| {});
            all.extend(pieces![" else ", inner]);
        }
        body.statements.push(Statement::new(all));
    }

    fn match_together(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        let on = self.any_integer();
        let mut all = pieces!["match "];
        all.extend(pieces![
            self.agreed(|this| this.scalar(on, 2)),
            format!(" & 31 {{ ")
        ]);
        for arm in self.patterns(on) {
            let inner = self.inner_flow(Vec::new(), shared, depth, |_| {});
            all.extend(pieces![format!("{arm} => "), inner, " "]);
        }
        let inner = self.inner_flow(Vec::new(), shared, depth, |_| {});
        all.extend(pieces!["_ => ", inner, " }"]);
        body.statements.push(Statement::new(all));
    }

    /// `break`, `continue` or `return` of all threads of the block.
    fn leave_together(&mut self, body: &mut Block, depth: usize) {
        if let Some(returned) = self.returns.clone().filter(|_| self.random.chance(60)) {
            let condition = self.agreed_condition();
            let value = self.expression(&returned, 1);
            body.statements.push(Statement::new(pieces![
                "if ",
                condition,
                " { return ",
                value,
                "; }"
            ]));
            return;
        }
        let label = self.rounds.last().cloned();
        if let Some(inner) = label.filter(|_| self.random.chance(80)) {
            let condition = self.agreed_condition();
            let jump = *self.random.pick(&["break", "continue"]);
            let to = match self.random.below(3) {
                0 => String::new(),
                1 => format!(" {inner}"),
                _ => format!(" {}", self.random.pick(&self.rounds)),
            };
            body.statements.push(Statement::new(pieces![
                "if ",
                condition,
                format!(" {{ {jump}{to}; }}")
            ]));
            return;
        }
        // Whose elements are left as they were must not depend on which these are.
        if self.returns.is_some() || !self.is_ordered && depth > 0 {
            return;
        }
        let condition = if self.is_ordered {
            self.agreed_condition()
        } else {
            self.condition_of_all()
        };
        body.statements
            .push(Statement::new(pieces!["if ", condition, " { return; }"]));
    }

    /// A variable that all threads change together: a new one, or one more change.
    fn change_agreed(&mut self, body: &mut Block) {
        if !self.agreed.is_empty() && self.random.chance(60) {
            let (name, of) = self.random.pick(&self.agreed).clone();
            let value = self.agreed(|this| this.scalar(of, 2));
            body.statements
                .push(Statement::new(pieces![format!("{name} = "), value, ";"]));
            return;
        }
        let (name, of) = (self.fresh("m"), self.any_scalar());
        let value = self.agreed(|this| this.scalar(of, 2));
        body.statements.push(Statement::new(pieces![
            format!("let mut {name}: {} = ", of.name()),
            value,
            ";"
        ]));
        self.define(&name, Type::Scalar(of), false);
        self.agreed.push((name, of));
    }

    /// A barrier that counts, or what a warp says of what the block agrees on, which is the same
    /// for a warp of any size.
    fn vote(&mut self, body: &mut Block) {
        let name = self.fresh("g");
        if self.random.chance(15) {
            let of = *self
                .random
                .pick(&[Scalar::Bool, Scalar::U32, Scalar::I64, Scalar::F32]);
            let value = self.agreed(|this| this.scalar(of, 2));
            let (method, end) = match (of, self.random.chance(50)) {
                (Scalar::Bool, true) => ("any", ""),
                (Scalar::Bool, false) => ("all", ""),
                (_, true) => ("shuffle", ", 0"),
                (_, false) => ("shuffle_xor", ", 0"),
            };
            body.statements.push(Statement::new(pieces![
                format!("let {name} = acc.warp_{method}("),
                value,
                format!("{end}).await;")
            ]));
            self.define(&name, Type::Scalar(of), false);
            return;
        }
        self.barriers = self.barriers.saturating_sub(1);
        let condition = self.scalar(Scalar::Bool, 2);
        let (method, of, suffix) = match self.random.below(3) {
            0 => ("sync_block_threads_count", Scalar::U32, " as u32"),
            1 => ("sync_block_threads_and", Scalar::Bool, ""),
            _ => ("sync_block_threads_or", Scalar::Bool, ""),
        };
        body.statements.push(Statement::new(pieces![
            format!("let {name} = acc.{method}("),
            condition,
            format!(").await{suffix};")
        ]));
        self.define(&name, Type::Scalar(of), false);
    }

    /// A barrier that turns nothing, alone or in a device function.
    fn wait(&mut self, body: &mut Block) {
        self.barriers = self.barriers.saturating_sub(1);
        if self.waiting.is_empty() {
            body.statements
                .push(Statement::new(pieces!["acc.sync_block_threads().await;"]));
            return;
        }
        let called = self.random.pick(&self.waiting).clone();
        let mut all = Vec::new();
        for (at, argument) in called.parameters.iter().enumerate() {
            let Argument::Value(of) = *argument else {
                continue;
            };
            // The first one decides who comes to its barriers.
            let value = if at == 0 {
                self.agreed(|this| this.scalar(of, 2))
            } else {
                self.scalar(of, 2)
            };
            all.extend(pieces![", ", value]);
        }
        let name = self.fresh("v");
        let mut whole = pieces![format!("let {name} = {}(acc", called.name)];
        whole.extend(all);
        whole.push(").await;".into());
        body.statements.push(Statement::new(whole));
        self.define(&name, Type::Scalar(called.result), false);
    }

    /// Changes of what the block counts in; and between two barriers, where nobody changes it, what
    /// has become of it.
    fn count_together(&mut self, body: &mut Block) {
        let (parameter, method) = self.random.pick(&self.counted).clone();
        self.budget = self.budget.max(6);
        let change = self.atomic(&parameter, method);
        if self.random.chance(40) {
            let condition = self.scalar(Scalar::Bool, 2);
            let mut some = Block::default();
            some.statements.push(change);
            body.statements
                .push(Statement::new(pieces!["if ", condition, " ", some]));
        } else {
            body.statements.push(change);
        }
        if self.barriers == 0 || self.random.chance(40) {
            return;
        }
        self.barriers -= 1;
        let index = self.index(&format!("{}.len()", parameter.name));
        let (at, value) = (self.fresh("k"), self.fresh("v"));
        body.statements.push(Statement::new(pieces![
            format!("let {at} = "),
            index,
            format!(
                "; acc.sync_block_threads().await; let {value} = {}.load({at}); acc.sync_block_threads().await;",
                parameter.name
            )
        ]));
        self.define(&value, parameter.of, false);
    }

    /// Each thread writes what is another's, of an array without phases; behind a barrier others
    /// read it, and there is one more before anything is written again.
    fn scatter(&mut self, body: &mut Block) {
        let (name, of, times) = self.random.pick(&self.scattered).clone();
        self.barriers = self.barriers.saturating_sub(1);
        self.budget = self.budget.max(6);
        let (shift, part) = (self.random.below(5), self.random.below(times));
        let place = if self.random.chance(50) {
            format!("(number + {shift}) % threads + {part} * threads")
        } else {
            format!("(threads - 1 - number) * {times} + {part}")
        };
        let value = self.expression(&of, 3);
        let (written, read, at) = (self.fresh("v"), self.fresh("v"), self.fresh("k"));
        body.statements.push(Statement::new(pieces![
            format!("let {written} = "),
            value,
            format!("; unsafe {{ {name}.write({place}, {written}) }};")
        ]));
        let index = self.index(&format!("{name}.len()"));
        body.statements.push(Statement::new(pieces![
            format!("let {at} = "),
            index,
            format!(
                "; acc.sync_block_threads().await; let {read} = unsafe {{ {name}.read({at}) }}; acc.sync_block_threads().await;"
            )
        ]));
        self.define(&read, of, false);
    }

    /// A device function with barriers, of one value that all threads of a block have alike, and
    /// one of their own.
    pub(super) fn declare_waiting(&mut self) -> Function {
        let name = format!("{}_w", self.name);
        let (alike, own, result) = (self.any_scalar(), self.any_scalar(), self.any_scalar());
        let (first, second) = (self.fresh("g"), self.fresh("p"));
        let scope = self.enter();
        self.define(&first, Type::Scalar(alike), false);
        self.define(&second, Type::Scalar(own), false);
        self.returns = Some(Type::Scalar(result));
        self.barriers = 1 + self.random.below(2);
        self.budget = 8;
        let mut body = Block::default();
        self.flow(&mut body, &[], 1);
        // Behind the last barrier a thread may leave by itself.
        self.statements(&mut body, 1, 1);
        body.value = Some(Box::new(self.scalar(result, 3)));
        self.returns = None;
        self.leave(&scope);
        self.waiting.push(Callable {
            name: name.clone(),
            parameters: vec![Argument::Value(alike), Argument::Value(own)],
            result,
        });
        let head = format!(
            "#[device(crate = quipu_kernel)]\nasync fn {name}(acc: &impl BlockAccelerator<{}>, {first}: {}, {second}: {}) -> {} ",
            self.dimensions,
            alike.name(),
            own.name(),
            result.name()
        );
        Function { head, body }
    }

    /// Each thread writes its own elements of a shared array.
    fn write_own(&mut self, body: &mut Block, parameter: &Parameter) {
        self.budget = self.budget.max(5);
        let name = &parameter.name;
        let item = self.fresh("e");
        let scope = self.enter();
        let pieces = match self.random.below(3) {
            0 if matches!(parameter.passing, Passing::Shared(_)) => pieces![
                format!("{name}.own()[0] = "),
                self.expression(&parameter.of, 3),
                ";"
            ],
            0 | 1 => {
                self.define(&format!("*{item}"), parameter.of.clone(), true);
                let mut inner = Block::default();
                self.statements(&mut inner, 1, 1);
                let value = self.expression(&parameter.of, 2);
                inner
                    .statements
                    .push(Statement::new(pieces![format!("*{item} = "), value, ";"]));
                pieces![format!("for {item} in {name}.own() "), inner]
            }
            _ => {
                let at = self.fresh("k");
                self.counters.push(at.clone());
                let value = self.expression(&parameter.of, 3);
                pieces![
                    format!(
                        "for ({at}, {item}) in {name}.own().iter_mut().enumerate() {{ *{item} = "
                    ),
                    value,
                    "; }"
                ]
            }
        };
        self.leave(&scope);
        body.statements.push(Statement::new(pieces));
    }

    /// A phase of reading, of some arrays, and back to writing. The barriers stay together,
    /// whatever is taken away.
    fn turn(&mut self, body: &mut Block, shared: &[&Parameter], depth: usize) {
        self.barriers = self.barriers.saturating_sub(1);
        // The others are written meanwhile.
        let turned: Vec<&Parameter> = match shared {
            [_, _, ..] if self.random.chance(30) => vec![*self.random.pick(shared)],
            all => all.to_vec(),
        };
        let left: Vec<&Parameter> = shared
            .iter()
            .filter(|one| turned.iter().all(|turned| turned.name != one.name))
            .copied()
            .collect();
        let read: Vec<String> = turned
            .iter()
            .map(|parameter| format!("q{}", parameter.name))
            .collect();
        let names: Vec<String> = turned
            .iter()
            .map(|parameter| parameter.name.clone())
            .collect();
        let together = |names: &[String]| match names {
            [one] => one.clone(),
            all => format!("({})", all.join(", ")),
        };
        let (written, reading) = (together(&names), together(&read));
        body.statements.push(Statement::fixed(pieces![format!(
            "let {reading} = acc.sync({written}).await;"
        )]));
        let (inputs, aggregates) = (self.inputs.len(), self.aggregates.len());
        let closures = self.closures.len();
        for (name, parameter) in read.iter().zip(&turned) {
            self.add_input(name, &parameter.of);
        }
        self.budget = self.budget.max(8);
        for parameter in &turned {
            let value: Expression = self.expression(&parameter.of, 3);
            let name = self.fresh("v");
            body.statements.push(Statement::new(pieces![
                format!("let {name} = "),
                value,
                ";"
            ]));
            self.define(&name, parameter.of.clone(), false);
        }
        let count = self.random.below(3);
        self.statements(body, count, 2);
        if depth < 3 && self.random.chance(25) {
            // No loop is left with an array that is still to be turned back.
            let rounds = std::mem::take(&mut self.rounds);
            self.flow(body, &left, depth + 1);
            self.rounds = rounds;
        }
        self.inputs.truncate(inputs);
        self.aggregates.truncate(aggregates);
        // They may borrow what is turned back.
        self.closures.truncate(closures);
        body.statements.push(Statement::fixed(pieces![format!(
            "{written} = acc.sync({reading}).await;"
        )]));
        for parameter in &turned {
            self.write_own(body, parameter);
        }
    }
}

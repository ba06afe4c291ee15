//! Kernels: their parameters and the frame of their bodies.

use std::fmt::Write as _;

use super::{LoopScope, Maker};
use crate::random::Random;
use crate::tree::{self, Block, Expression, Statement, pieces};
use crate::types::{Scalar, Type};

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// By value.
    Value,
    /// A slice that is read, of so many elements.
    Read(usize),
    /// A view that is read: its rows, its columns, and how far its rows are apart.
    View([usize; 3]),
    /// Each thread's own elements, of so many.
    Own(usize),
    /// Each thread's own rows of a view.
    Rows([usize; 3]),
    /// Elements that are changed in single steps, all with the same method.
    Atomic(usize, &'static str),
    /// An array of the block, of so many elements for each thread.
    Shared(usize),
}

/// A parameter of a kernel.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The type of it, or of its elements.
    pub of: Scalar,
    /// How it is passed.
    pub passing: Passing,
}

/// A device function.
#[derive(Clone, Debug)]
pub struct Function {
    /// All before its body.
    pub head: String,
    /// Its body.
    pub body: Block,
}

/// A kernel, with all that it needs.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What it was made of.
    pub seed: u64,
    /// Its name.
    pub name: String,
    /// Its structs, as text.
    pub structures: Vec<String>,
    /// Its device functions.
    pub functions: Vec<Function>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Its body.
    pub body: Block,
    /// Whether it has barriers.
    pub is_block: bool,
    /// Whether its indices have to be of 64 bits.
    pub is_wide: bool,
    /// Whether it may fail.
    pub may_fail: bool,
    /// Blocks, threads, elements.
    pub division: [usize; 3],
}

/// The kernel of a seed.
#[must_use]
pub fn kernel(seed: u64) -> Kernel {
    let mut random = Random::new(seed);
    let name = format!("k{seed:x}");
    let is_block = random.chance(30);
    let wide = random.chance(20);
    let faults = random.chance(12);
    let division = [
        1 + random.below(3),
        1 + random.below(5),
        1 + random.below(4),
    ];
    let mut maker = Maker {
        random,
        name: name.clone(),
        variables: Vec::new(),
        closures: Vec::new(),
        structures: Vec::new(),
        functions: Vec::new(),
        inputs: Vec::new(),
        views: Vec::new(),
        counters: Vec::new(),
        loops: Vec::new(),
        returns: None,
        names: 0,
        depth: 0,
        budget: 0,
        wide,
        faults: false,
    };
    let count = maker.random.below(3);
    let structures = (0..count).map(|_| maker.declare_structure()).collect();
    let count = maker.random.below(3);
    let functions = (0..count).map(|_| maker.declare_function()).collect();
    maker.faults = faults;
    let parameters = maker.parameters(is_block, division);
    let body = maker.kernel_body(&parameters, is_block);
    Kernel {
        seed,
        name,
        structures,
        functions,
        parameters,
        body,
        is_block,
        is_wide: wide,
        may_fail: faults,
        division,
    }
}

impl Maker {
    fn parameters(
        &mut self,
        is_block: bool,
        [blocks, threads, elements]: [usize; 3],
    ) -> Vec<Parameter> {
        let mut all = Vec::new();
        let mut add = |name: String, of, passing| all.push(Parameter { name, of, passing });
        for at in 0..self.random.below(3) {
            let (name, of) = (format!("u{at}"), self.any_scalar());
            self.define(&name, Type::Scalar(of), false);
            add(name, of, Passing::Value);
        }
        // What is in memory is of one size everywhere.
        for at in 0..1 + self.random.below(3) {
            let (name, of) = (format!("x{at}"), *self.random.pick(&Scalar::FIXED));
            self.inputs.push((name.clone(), of));
            add(name, of, Passing::Read(1 + self.random.below(40)));
        }
        let shape = |random: &mut Random| {
            let columns = 1 + random.below(6);
            [1 + random.below(7), columns, columns + random.below(3)]
        };
        if self.random.chance(35) {
            let (name, of) = ("z0".to_owned(), *self.random.pick(&Scalar::FIXED));
            self.views.push((name.clone(), of));
            add(name, of, Passing::View(shape(&mut self.random)));
        }
        if self.random.chance(20) {
            let of = *self.random.pick(&Scalar::FIXED);
            let passing = Passing::Rows(shape(&mut self.random));
            add("w0".into(), of, passing);
        }
        for at in 0..1 + self.random.below(2) {
            let (name, of) = (format!("y{at}"), *self.random.pick(&Scalar::FIXED));
            // More or fewer than there are places.
            let length = (blocks * threads * elements + self.random.below(8))
                .saturating_sub(2)
                .max(1);
            add(name, of, Passing::Own(length));
        }
        if self.random.chance(20) {
            let of = *self
                .random
                .pick(&[Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64]);
            let method = *self
                .random
                .pick(&["add", "sub", "min", "max", "and", "or", "xor"]);
            add(
                "c0".into(),
                of,
                Passing::Atomic(1 + self.random.below(6), method),
            );
        }
        if is_block {
            for at in 0..1 + self.random.below(2) {
                let (name, of) = (format!("s{at}"), *self.random.pick(&Scalar::FIXED));
                add(name, of, Passing::Shared(1 + self.random.below(3)));
            }
        }
        all
    }

    fn kernel_body(&mut self, parameters: &[Parameter], is_block: bool) -> Block {
        let mut body = Block::default();
        self.budget = 14;
        let bind_index = |body: &mut Block, this: &mut Self, name: &str, index: &str| {
            body.statements
                .push(Statement::fixed(pieces![format!("let {name} = {index};")]));
            this.counters.push(name.to_owned());
        };
        if is_block {
            bind_index(&mut body, self, "thread", "acc.index(Block, Threads)[0]");
        } else if self.random.chance(30) {
            bind_index(&mut body, self, "thread", "acc.index(Grid, Threads)[0]");
        }
        if self.random.chance(30) {
            bind_index(&mut body, self, "block", "acc.index(Grid, Blocks)[0]");
        }
        let count = self.random.below(4);
        self.statements(&mut body, count, 2);
        if is_block {
            self.phases(&mut body, parameters);
        }
        for parameter in parameters {
            match parameter.passing {
                Passing::Own(_) => self.own_elements(&mut body, parameter, parameters),
                Passing::Rows(_) => self.own_rows(&mut body, parameter),
                Passing::Atomic(_, method) if self.random.chance(30) => {
                    let statement = self.atomic(parameter, method);
                    body.statements.push(statement);
                }
                _ => {}
            }
        }
        body
    }

    /// The loop over a thread's own elements of an output.
    fn own_elements(&mut self, body: &mut Block, parameter: &Parameter, all: &[Parameter]) {
        let scope = self.enter();
        let (i, y) = (self.fresh("i"), self.fresh("y"));
        let label = self.random.chance(20).then(|| self.fresh("'each"));
        self.counters.push(i.clone());
        if self.wide {
            self.define(&i, Type::Scalar(Scalar::Usize), false);
        }
        self.define(&format!("*{y}"), Type::Scalar(parameter.of), true);
        self.loops.push(LoopScope {
            label: label.clone(),
            is_plain: true,
        });
        self.budget = 24;
        let mut inner = Block::default();
        let count = 1 + self.random.below(6);
        self.statements(&mut inner, count, 3);
        for counted in all {
            if let Passing::Atomic(_, method) = counted.passing {
                let statement = self.atomic(counted, method);
                inner.statements.push(statement);
            }
        }
        self.budget = self.budget.max(8);
        let value = self.scalar(parameter.of, 4);
        inner
            .statements
            .push(Statement::new(pieces![format!("*{y} = "), value, ";"]));
        self.loops.pop();
        self.leave(&scope);
        let label = label.map_or_else(String::new, |label| format!("{label}: "));
        let name = &parameter.name;
        body.statements.push(Statement::new(pieces![
            format!("{label}for ({i}, {y}) in {name}.each() "),
            inner
        ]));
    }

    /// The loop over the rows of a thread, around one over the elements of each.
    fn own_rows(&mut self, body: &mut Block, parameter: &Parameter) {
        let scope = self.enter();
        let (row, of_row, at, element) = (
            self.fresh("i"),
            self.fresh("w"),
            self.fresh("k"),
            self.fresh("e"),
        );
        self.counters.extend([row.clone(), at.clone()]);
        self.define(&format!("*{element}"), Type::Scalar(parameter.of), true);
        self.budget = 12;
        let mut inner = Block::default();
        self.loops.push(LoopScope {
            label: None,
            is_plain: true,
        });
        self.statements(&mut inner, 1, 2);
        let value = self.scalar(parameter.of, 3);
        inner.statements.push(Statement::new(pieces![
            format!("*{element} = "),
            value,
            ";"
        ]));
        self.loops.pop();
        self.leave(&scope);
        let name = &parameter.name;
        let mut outer = Block::default();
        outer.statements.push(Statement::new(pieces![
            format!("for ({at}, {element}) in {of_row}.iter_mut().enumerate() "),
            inner
        ]));
        body.statements.push(Statement::new(pieces![
            format!("for ({row}, {of_row}) in {name}.each() "),
            outer
        ]));
    }

    fn atomic(&mut self, parameter: &Parameter, method: &str) -> Statement {
        let name = &parameter.name;
        let index = self.index(&format!("{name}.len()"));
        let value = self.scalar(parameter.of, 2);
        Statement::new(pieces![
            format!("{name}.{method}("),
            index,
            ", ",
            value,
            ");"
        ])
    }

    /// Phases of writing and reading what the block shares, in loops and branches that all its threads agree on.
    fn phases(&mut self, body: &mut Block, parameters: &[Parameter]) {
        let shared: Vec<&Parameter> = parameters
            .iter()
            .filter(|parameter| matches!(parameter.passing, Passing::Shared(_)))
            .collect();
        for parameter in &shared {
            self.write_own(body, parameter);
        }
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            match self.random.below(4) {
                0 => {
                    let round = self.fresh("r");
                    let rounds = 1 + self.random.below(4);
                    let scope = self.enter();
                    self.counters.push(round.clone());
                    let mut inner = Block::default();
                    self.turn(&mut inner, &shared);
                    self.leave(&scope);
                    body.statements.push(Statement::new(pieces![
                        format!("for {round} in 0..{rounds}usize "),
                        inner
                    ]));
                }
                1 => {
                    // What is passed by value all threads have alike.
                    let uniform = parameters.iter().find(|parameter| {
                        parameter.passing == Passing::Value && parameter.of.is_integer()
                    });
                    let condition = uniform.map_or_else(
                        || "acc.extent(Grid, Blocks)[0] > 1".to_owned(),
                        |uniform| format!("{} & 3 < 2", uniform.name),
                    );
                    let scope = self.enter();
                    let mut inner = Block::default();
                    self.turn(&mut inner, &shared);
                    self.leave(&scope);
                    body.statements
                        .push(Statement::new(pieces![format!("if {condition} "), inner]));
                }
                2 => self.vote(body),
                _ => self.turn(body, &shared),
            }
        }
    }

    /// A barrier that counts.
    fn vote(&mut self, body: &mut Block) {
        let condition = self.scalar(Scalar::Bool, 2);
        let name = self.fresh("v");
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

    /// Each thread writes its own elements of a shared array.
    fn write_own(&mut self, body: &mut Block, parameter: &Parameter) {
        self.budget = self.budget.max(5);
        let name = &parameter.name;
        let item = self.fresh("e");
        let scope = self.enter();
        let pieces = match self.random.below(3) {
            0 => pieces![
                format!("{name}.own()[0] = "),
                self.scalar(parameter.of, 3),
                ";"
            ],
            1 => {
                self.define(&format!("*{item}"), Type::Scalar(parameter.of), true);
                let mut inner = Block::default();
                self.statements(&mut inner, 1, 1);
                let value = self.scalar(parameter.of, 2);
                inner
                    .statements
                    .push(Statement::new(pieces![format!("*{item} = "), value, ";"]));
                pieces![format!("for {item} in {name}.own() "), inner]
            }
            _ => {
                let at = self.fresh("k");
                self.counters.push(at.clone());
                let value = self.scalar(parameter.of, 3);
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

    /// A phase of reading, and back to writing. The barriers stay together, whatever is taken away.
    fn turn(&mut self, body: &mut Block, shared: &[&Parameter]) {
        let read: Vec<String> = shared
            .iter()
            .map(|parameter| format!("q{}", parameter.name))
            .collect();
        let names: Vec<&str> = shared
            .iter()
            .map(|parameter| parameter.name.as_str())
            .collect();
        let together = |names: &[String]| match names {
            [one] => one.clone(),
            all => format!("({})", all.join(", ")),
        };
        let written = together(
            &names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        );
        let reading = together(&read);
        body.statements.push(Statement::fixed(pieces![format!(
            "let {reading} = acc.sync({written}).await;"
        )]));
        let inputs = self.inputs.len();
        for (name, parameter) in read.iter().zip(shared) {
            self.inputs.push((name.clone(), parameter.of));
        }
        self.budget = self.budget.max(8);
        let mut results = Vec::new();
        for parameter in shared {
            let value: Expression = self.scalar(parameter.of, 3);
            let name = self.fresh("v");
            body.statements.push(Statement::new(pieces![
                format!("let {name} = "),
                value,
                ";"
            ]));
            self.define(&name, Type::Scalar(parameter.of), false);
            results.push(name);
        }
        let count = self.random.below(3);
        self.statements(body, count, 2);
        self.inputs.truncate(inputs);
        body.statements.push(Statement::fixed(pieces![format!(
            "{written} = acc.sync({reading}).await;"
        )]));
        for parameter in shared {
            self.write_own(body, parameter);
        }
    }
}

impl Kernel {
    /// Its source: structs, device functions, the kernel.
    #[must_use]
    pub fn source(&self) -> String {
        let mut out = String::new();
        for structure in &self.structures {
            out.push_str(structure);
        }
        for function in &self.functions {
            out.push_str(&function.head);
            tree::write(&[function.body.clone().into()], 0, &mut out);
            out.push('\n');
        }
        let (keyword, accelerator) = if self.is_block {
            ("async fn", "BlockAccelerator")
        } else {
            ("fn", "Accelerator")
        };
        let _ = write!(
            out,
            "#[kernel(crate = quipu_kernel)]\n{keyword} {}(acc: &impl {accelerator}<1>",
            self.name
        );
        for Parameter { name, of, passing } in &self.parameters {
            let of = of.name();
            let _ = match passing {
                Passing::Value => write!(out, ", {name}: {of}"),
                Passing::Read(_) => write!(out, ", {name}: &[{of}]"),
                Passing::View(_) => write!(out, ", {name}: GlobalRef<{of}, 2>"),
                Passing::Own(_) => write!(out, ", mut {name}: OwnElements<{of}>"),
                Passing::Rows(_) => write!(out, ", mut {name}: OwnRows<{of}>"),
                Passing::Atomic(..) => write!(out, ", {name}: Atomics<{of}>"),
                Passing::Shared(times) => write!(
                    out,
                    ", #[shared({times} * acc.extent(Block, Threads)[0])] mut {name}: SharedWrite<{of}>"
                ),
            };
        }
        out.push_str(") ");
        tree::write(&[self.body.clone().into()], 0, &mut out);
        out.push('\n');
        out
    }

    /// How large it is: statements and expressions.
    #[must_use]
    pub fn size(&self) -> usize {
        let functions: usize = self.functions.iter().map(|one| tree::size(&one.body)).sum();
        functions + tree::size(&self.body)
    }

    /// What the tests know of it, as an item of Rust.
    #[must_use]
    pub fn case(&self) -> String {
        let (mut given, mut bound, mut passed, mut kept) =
            (String::new(), String::new(), String::new(), String::new());
        let mut shared = String::new();
        for (at, Parameter { name, of, passing }) in self.parameters.iter().enumerate() {
            let (kind, of) = (format!("Kind::{of:?}"), of.name());
            let shape = |[rows, columns, apart]: &[usize; 3]| {
                format!(".in_strides([{rows}, {columns}], [{apart}, 1]).unwrap()")
            };
            let given_view = |shape: &[usize; 3]| format!("Given::View({kind}, {shape:?}), ");
            let mut elements = |how: String, mutable: &str| {
                given.push_str(&how);
                let _ = write!(bound, "let {mutable}{name} = data.elements::<{of}>({at}); ");
                if !mutable.is_empty() {
                    let _ = write!(kept, "data.keep({at}, &{name}); ");
                }
            };
            match passing {
                Passing::Value => {
                    let _ = write!(given, "Given::Value({kind}), ");
                    let _ = write!(bound, "let {name} = data.value::<{of}>({at}); ");
                    let _ = write!(passed, "{name}, ");
                }
                Passing::Read(length) => {
                    elements(format!("Given::Elements({kind}, {length}), "), "");
                    let _ = write!(passed, "&{name}, ");
                }
                Passing::View(extent) => {
                    elements(given_view(extent), "");
                    let _ = write!(passed, "GlobalRef::from(&{name}){}, ", shape(extent));
                }
                Passing::Rows(extent) => {
                    elements(given_view(extent), "mut ");
                    let _ = write!(passed, "GlobalMut::from(&mut {name}){}, ", shape(extent));
                }
                Passing::Own(length) | Passing::Atomic(length, _) => {
                    elements(format!("Given::Elements({kind}, {length}), "), "mut ");
                    let _ = write!(passed, "&mut {name}, ");
                }
                Passing::Shared(times) => {
                    let _ = write!(shared, "{}, ", times * self.division[1]);
                }
            }
        }
        let Self {
            seed,
            name,
            is_block,
            is_wide,
            may_fail,
            division,
            ..
        } = self;
        format!(
            "Case {{ name: \"{name}\", seed: {seed:#x}, is_block: {is_block}, is_wide: {is_wide}, may_fail: {may_fail}, \
             division: {division:?}, shared: &[{shared}], given: &[{given}], \
             module: || <{name} as Entry<1>>::module(), \
             run: |data, way| {{ {bound}let result = way.run::<{name}, _>(({passed}), {division:?}); {kept}result }} }}"
        )
    }
}

//! Kernels: their parameters and the frame of their bodies.

use super::{LoopScope, Maker};
use crate::random::Random;
use crate::tree::{Block, Expression, Statement, pieces};
use crate::types::{Scalar, Type};

/// The extents of a view, and how far its rows are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of the extents.
    pub dimensions: usize,
    /// Elements along each dimension.
    pub extent: [usize; 3],
    /// The distance of neighbours along the last dimension but one.
    pub apart: usize,
}

impl Shape {
    fn new(extent: &[usize], gap: usize) -> Self {
        let mut all = [1; 3];
        all[..extent.len()].copy_from_slice(extent);
        Self {
            dimensions: extent.len(),
            extent: all,
            apart: extent[extent.len() - 1] + gap,
        }
    }

    /// Elements along each dimension.
    #[must_use]
    pub fn extents(&self) -> &[usize] {
        &self.extent[..self.dimensions]
    }

    /// The distance of neighbours along each dimension.
    #[must_use]
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.dimensions];
        let mut stride = self.apart;
        for dimension in (0..self.dimensions - 1).rev() {
            strides[dimension] = stride;
            stride *= self.extent[dimension];
        }
        strides
    }

    /// Places in memory, gaps included.
    #[must_use]
    pub fn places(&self) -> usize {
        self.extents()[..self.dimensions - 1]
            .iter()
            .product::<usize>()
            * self.apart
    }
}

/// The way of passing a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// By value.
    Value,
    /// A slice that is read, of so many elements.
    Read(usize),
    /// A view that is read.
    View(Shape),
    /// Each thread's own elements, of so many.
    Own(usize),
    /// Each thread's own elements of a view with the dimensions of the grid.
    OwnOfView(Shape),
    /// Each thread's own rows of a view.
    Rows(Shape),
    /// Elements that are changed in single steps, all with the same method.
    Atomic(usize, &'static str),
    /// Each thread's own box of elements, of an output with the dimensions of the grid.
    Tile(Shape),
    /// Each thread's share of its block's box, of such an output.
    BlockTile(Shape),
    /// Elements that are reached by unsafe methods, of which each thread reaches its own.
    Raw(usize),
    /// An array of the block, of so many elements for each thread.
    Shared(usize),
    /// An array of the block, of so many elements for all threads together; some may have none.
    SharedOf(usize),
    /// An array of the block of so many elements for each thread, who writes them by unsafe
    /// methods.
    SharedRaw(usize),
    /// So many elements of the block that are changed in single steps, all with the same method.
    SharedAtomic(usize, &'static str),
    /// Each block's part of so many elements, and each thread's part of that.
    OwnBlock(usize),
}

/// A parameter of a kernel.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The type of it, or of its elements.
    pub of: Type,
    /// As it is written.
    pub type_name: String,
    /// The way of passing it.
    pub passing: Passing,
}

impl Parameter {
    /// True if it is a float, or its elements are.
    pub(crate) fn has_floats(&self) -> bool {
        matches!(self.of, Type::Scalar(of) if of.is_float())
    }
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
    /// Its seed.
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
    /// True if it has barriers.
    pub is_block: bool,
    /// True if its indices have to be of 64 bits.
    pub is_wide: bool,
    /// True if it may fail.
    pub may_fail: bool,
    /// True if what it writes may depend on which elements a thread has, and in which order.
    pub is_ordered: bool,
    /// Blocks, threads, elements: each along all dimensions of the grid.
    pub division: [Vec<usize>; 3],
}

/// The kernel of a seed.
#[must_use]
pub fn kernel(seed: u64) -> Kernel {
    let mut random = Random::new(seed);
    let name = format!("k{seed:x}");
    let is_block = random.chance(30);
    let wide = random.chance(20);
    let faults = random.chance(12);
    let is_ordered = random.chance(35);
    let division = division(&mut random);
    let mut maker = Maker {
        random,
        name: name.clone(),
        variables: Vec::new(),
        closures: Vec::new(),
        structures: Vec::new(),
        enumerations: Vec::new(),
        functions: Vec::new(),
        inputs: Vec::new(),
        aggregates: Vec::new(),
        views: Vec::new(),
        counters: Vec::new(),
        loops: Vec::new(),
        dimensions: division[0].len(),
        returns: None,
        names: 0,
        depth: 0,
        indices: 0,
        budget: 0,
        wide,
        faults: false,
        is_ordered,
        has_accelerator: false,
        agreed: Vec::new(),
        rounds: Vec::new(),
        waiting: Vec::new(),
        barriers: 0,
        counted: Vec::new(),
        scattered: Vec::new(),
    };
    let count = maker.random.below(3);
    let mut structures: Vec<String> = (0..count).map(|_| maker.declare_structure()).collect();
    if maker.random.chance(40) {
        structures.push(maker.declare_enumeration());
    }
    let count = maker.random.below(3);
    let mut functions: Vec<Function> = (0..count).map(|_| maker.declare_function()).collect();
    maker.has_accelerator = true;
    if is_block && maker.random.chance(30) {
        functions.push(maker.declare_waiting());
    }
    maker.faults = faults;
    let parameters = maker.parameters(is_block, &division);
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
        is_ordered,
        division,
    }
}

/// Blocks, threads and elements, along one dimension mostly, or several, with fewer along each.
fn division(random: &mut Random) -> [Vec<usize>; 3] {
    let most: &[[usize; 3]] = match random.below(10) {
        0..6 => &[[3, 5, 4]],
        6..9 => &[[2, 3, 3]; 2],
        _ => &[[2, 2, 2]; 3],
    };
    [0, 1, 2].map(|of| most.iter().map(|most| 1 + random.below(most[of])).collect())
}

impl Maker {
    fn parameters(&mut self, is_block: bool, division: &[Vec<usize>; 3]) -> Vec<Parameter> {
        let dimensions = self.dimensions;
        let mut all = Vec::new();
        let mut add = |name: String, of: Type, passing| {
            let type_name = String::new();
            all.push(Parameter {
                name,
                of,
                type_name,
                passing,
            });
        };
        for at in 0..self.random.below(3) {
            let name = format!("u{at}");
            let of = if self.random.chance(70) {
                Type::Scalar(self.any_scalar())
            } else {
                self.any_data()
            };
            self.define(&name, of.clone(), false);
            add(name, of, Passing::Value);
        }
        // Types in memory have one size everywhere.
        let mut input = None;
        for at in 0..1 + self.random.below(3) {
            let (name, of) = (format!("x{at}"), self.any_data());
            self.add_input(&name, &of);
            let length = 1 + self.random.below(40);
            input = Some(length);
            add(name, of, Passing::Read(length));
        }
        let shape = |random: &mut Random| {
            let extent = [1 + random.below(7), 1 + random.below(6)];
            Shape::new(&extent, random.below(3))
        };
        if self.random.chance(35) {
            let (name, of) = ("z0".to_owned(), *self.random.pick(&Scalar::FIXED));
            let mut shape = shape(&mut self.random);
            if self.random.chance(25) {
                let [rows, columns, _] = shape.extent;
                let planes = 1 + self.random.below(3);
                shape = Shape::new(&[planes, rows, columns], shape.apart - columns);
            }
            self.views.push((name.clone(), of, shape.dimensions));
            add(name, Type::Scalar(of), Passing::View(shape));
        }
        if self.random.chance(20) {
            let of = self.any_data();
            let passing = Passing::Rows(shape(&mut self.random));
            add("w0".into(), of, passing);
        }
        for at in 0..1 + self.random.below(2) {
            let (name, of) = (format!("y{at}"), self.any_data());
            // More or fewer than there are places.
            let spread = if dimensions == 1 { 8 } else { 3 };
            let extent: Vec<usize> = (0..dimensions)
                .map(|dimension| {
                    let places: usize = division.iter().map(|extent| extent[dimension]).product();
                    let length = places + self.random.below(spread);
                    length.saturating_sub(spread / 3).max(1)
                })
                .collect();
            let passing = match extent[..] {
                [length] => Passing::Own(length),
                _ => Passing::OwnOfView(Shape::new(&extent, self.random.below(3))),
            };
            add(name, of, passing);
        }
        if self.random.chance(20) {
            let of = self.any_data();
            let extent: Vec<usize> = (0..dimensions).map(|_| 1 + self.random.below(9)).collect();
            let gap = if dimensions > 1 {
                self.random.below(3)
            } else {
                0
            };
            let shape = Shape::new(&extent, gap);
            // Whose a block's elements are decides whose mistakes are.
            if self.faults || self.random.chance(50) {
                add("t0".into(), of, Passing::Tile(shape));
            } else {
                add("t0".into(), of, Passing::BlockTile(shape));
            }
        }
        if dimensions == 1 && self.random.chance(25) {
            let of = self.any_data();
            add("r0".into(), of, Passing::Raw(1 + self.random.below(30)));
        }
        if self.random.chance(20) {
            let (of, method) = self.any_atomic();
            let count = 1 + self.random.below(6);
            add("c0".into(), of, Passing::Atomic(count, method));
        }
        if is_block && self.random.chance(70) {
            // As many for each thread; and some have one less, or none.
            let [blocks, threads, _] = division;
            let threads: usize = blocks.iter().chain(threads).product();
            let length = (1 + self.random.below(2)) * threads - self.random.below(2);
            let of = self.any_data();
            add("b0".into(), of, Passing::OwnBlock(length.max(1)));
        }
        if is_block {
            for at in 0..1 + self.random.below(2) {
                let (name, of) = (format!("s{at}"), self.any_zeroed());
                let passing = if self.random.chance(75) {
                    Passing::Shared(1 + self.random.below(3))
                } else {
                    // As long as what is read, at times.
                    let length = input.filter(|_| self.random.chance(50));
                    Passing::SharedOf(length.unwrap_or(1 + self.random.below(20)))
                };
                add(name, of, passing);
            }
            if self.random.chance(25) {
                let of = self.any_zeroed();
                add(
                    "o0".into(),
                    of,
                    Passing::SharedRaw(1 + self.random.below(2)),
                );
            }
            if self.random.chance(25) {
                let (of, method) = self.any_atomic();
                let count = 1 + self.random.below(4);
                add("a0".into(), of, Passing::SharedAtomic(count, method));
            }
        }
        for parameter in &mut all {
            parameter.type_name = self.type_name(&parameter.of);
        }
        all
    }

    /// A type that is changed in single steps, and the method: in any order it gives the same.
    fn any_atomic(&mut self) -> (Type, &'static str) {
        let of = *self.random.pick(&[
            Scalar::I32,
            Scalar::U32,
            Scalar::I64,
            Scalar::U64,
            Scalar::F32,
            Scalar::F64,
        ]);
        let methods = ["add", "sub", "min", "max", "and", "or", "xor"];
        let most = if of.is_float() { 4 } else { methods.len() };
        (Type::Scalar(of), methods[self.random.below(most)])
    }

    fn kernel_body(&mut self, parameters: &[Parameter], is_block: bool) -> Block {
        let mut body = Block::default();
        self.budget = 14;
        let bind_index = |body: &mut Block, this: &mut Self, name: &str, index: &str| {
            body.statements
                .push(Statement::fixed(pieces![format!("let {name} = {index};")]));
            this.counters.push(name.to_owned());
        };
        let any = |this: &mut Self| this.random.below(this.dimensions);
        if is_block {
            let index = format!("acc.index(Block, Threads)[{}]", any(self));
            bind_index(&mut body, self, "thread", &index);
        } else if self.is_ordered && self.random.chance(30) {
            let index = format!("acc.index(Grid, Threads)[{}]", any(self));
            bind_index(&mut body, self, "thread", &index);
        }
        let may_say_where = self.is_ordered || is_block;
        if may_say_where && self.random.chance(30) {
            let index = format!("acc.index(Grid, Blocks)[{}]", any(self));
            bind_index(&mut body, self, "block", &index);
        }
        if self.random.chance(15) {
            let all = [
                "extent(Grid, Threads)",
                "extent(Block, Elements)",
                "extent(Thread, Elements)",
                "index(Grid, Elements)",
                "index(Block, Elements)",
            ];
            let most = if self.is_ordered { all.len() } else { 3 };
            let what = all[self.random.below(most)];
            let index = format!("acc.{what}[{}]", any(self));
            bind_index(&mut body, self, "place", &index);
        }
        let count = self.random.below(4);
        self.statements(&mut body, count, 2);
        if is_block {
            self.phases(&mut body, parameters);
        }
        for parameter in parameters {
            match parameter.passing {
                Passing::OwnOfView(_) if self.random.chance(40) => {
                    self.apart(is_block, |this| {
                        this.own_parts_of_rows(&mut body, parameter, parameters);
                    });
                }
                Passing::Own(_) | Passing::OwnOfView(_) => {
                    self.apart(is_block, |this| {
                        this.own_elements(&mut body, parameter, parameters);
                    });
                }
                Passing::BlockTile(_) => {
                    // Which of its block's elements are a thread's is the device's choice,
                    // natively, too.
                    let is_ordered = std::mem::take(&mut self.is_ordered);
                    self.apart(true, |this| this.own_tile(&mut body, parameter, parameters));
                    self.is_ordered = is_ordered;
                }
                Passing::Tile(_) => {
                    self.apart(is_block, |this| {
                        this.own_tile(&mut body, parameter, parameters);
                    });
                }
                Passing::Raw(_) => {
                    self.apart(is_block, |this| this.own_raw(&mut body, parameter));
                }
                Passing::OwnBlock(_) => self.own_part_of_block(&mut body, parameter),
                Passing::Rows(_) => {
                    self.apart(is_block, |this| this.own_rows(&mut body, parameter));
                }
                Passing::Atomic(_, method) if self.random.chance(30) => {
                    let statement = self.atomic(parameter, method);
                    body.statements.push(statement);
                }
                _ => {}
            }
        }
        body
    }

    /// Elements of which it is all the same whose they are: they see nothing that depends on their
    /// thread, and leave nothing for each other. Of a kernel that is ordered they may.
    fn apart(&mut self, is_block: bool, write: impl FnOnce(&mut Self)) {
        if self.is_ordered {
            return write(self);
        }
        let (variables, closures) = (self.variables.clone(), self.closures.clone());
        let (counters, inputs) = (self.counters.clone(), self.inputs.clone());
        if is_block {
            // Arguments are the same for all threads.
            self.variables
                .retain(|variable| variable.name.starts_with('u'));
            self.closures.clear();
            self.counters.clear();
            // Parts of inputs begin where a thread has them begin.
            self.inputs.retain(|(name, _)| !name.starts_with("xs"));
        }
        for variable in &mut self.variables {
            variable.is_mutable = false;
        }
        write(self);
        self.variables = variables;
        self.closures = closures;
        self.counters = counters;
        self.inputs = inputs;
    }

    /// The loop over a thread's own elements of an output.
    fn own_elements(&mut self, body: &mut Block, parameter: &Parameter, all: &[Parameter]) {
        let (i, y) = (self.fresh("i"), self.fresh("y"));
        let (label, inner) = self.each_element(parameter, all, &y, true, |this| {
            this.counters.push(i.clone());
            if this.wide {
                this.define(&i, Type::Scalar(Scalar::Usize), false);
            }
        });
        let name = &parameter.name;
        body.statements.push(Statement::new(pieces![
            format!("{label}for ({i}, {y}) in {name}.each() "),
            inner
        ]));
    }

    /// The loops over the parts of rows that are a thread's own, and over the elements of each.
    /// Where a row is parted is the device's to choose, so only positions in the whole are looked
    /// at, and no loop is left early.
    fn own_parts_of_rows(&mut self, body: &mut Block, parameter: &Parameter, all: &[Parameter]) {
        let (at, row) = (self.fresh("p"), self.fresh("w"));
        let (k, y) = (self.fresh("k"), self.fresh("y"));
        let last = self.dimensions - 1;
        let (_, inner) = self.each_element(parameter, all, &y, false, |this| {
            let positions = (0..last).map(|dimension| format!("{at}[{dimension}]"));
            this.counters.extend(positions);
            this.counters.push(format!("({at}[{last}] + {k})"));
        });
        let mut outer = Block::default();
        outer.statements.push(Statement::new(pieces![
            format!("for ({k}, {y}) in {row}.iter_mut().enumerate() "),
            inner
        ]));
        let name = &parameter.name;
        body.statements.push(Statement::new(pieces![
            format!("for ({at}, {row}) in {name}.rows() "),
            outer
        ]));
    }

    /// Statements for an element of an output, and the label of the loop that they are in.
    fn each_element(
        &mut self,
        parameter: &Parameter,
        all: &[Parameter],
        y: &str,
        is_plain: bool,
        define: impl FnOnce(&mut Self),
    ) -> (String, Block) {
        let scope = self.enter();
        let label = (is_plain && self.random.chance(20)).then(|| self.fresh("'each"));
        let is_left = is_plain && self.is_ordered;
        define(self);
        self.define(&format!("*{y}"), parameter.of.clone(), true);
        self.loops.push(LoopScope {
            label: label.clone(),
            is_plain,
            is_left,
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
        let value = self.expression(&parameter.of, 4);
        inner
            .statements
            .push(Statement::new(pieces![format!("*{y} = "), value, ";"]));
        self.loops.pop();
        self.leave(&scope);
        (
            label.map_or_else(String::new, |label| format!("{label}: ")),
            inner,
        )
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
        self.define(&format!("*{element}"), parameter.of.clone(), true);
        self.budget = 12;
        let mut inner = Block::default();
        self.loops.push(LoopScope {
            label: None,
            is_plain: true,
            is_left: true,
        });
        self.statements(&mut inner, 1, 2);
        let value = self.expression(&parameter.of, 3);
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

    /// The loop over a thread's box, or its share of its block's.
    fn own_tile(&mut self, body: &mut Block, parameter: &Parameter, all: &[Parameter]) {
        let name = &parameter.name;
        let (at, y, start) = (self.fresh("p"), self.fresh("y"), self.fresh("p"));
        body.statements.push(Statement::new(pieces![format!(
            "let {start} = {name}.start();"
        )]));
        let (label, inner) = self.each_element(parameter, all, &y, true, |this| {
            for dimension in 0..this.dimensions {
                this.counters
                    .push(format!("({start}[{dimension}] + {at}[{dimension}])"));
            }
        });
        body.statements.push(Statement::new(pieces![
            format!("{label}for ({at}, {y}) in {name}.each() "),
            inner
        ]));
        if self.is_ordered && matches!(parameter.passing, Passing::Tile(_)) {
            // By position, too.
            let places: Vec<String> = (0..self.dimensions).map(|_| self.fresh("k")).collect();
            let scope = self.enter();
            self.counters.extend(places.iter().cloned());
            self.budget = self.budget.max(6);
            let value = self.expression(&parameter.of, 2);
            self.leave(&scope);
            let loops: Vec<String> = places
                .iter()
                .enumerate()
                .map(|(dimension, k)| format!("for {k} in 0..{name}.extent()[{dimension}] {{ "))
                .collect();
            body.statements.push(Statement::new(pieces![
                format!("{}{name}[[{}]] = ", loops.concat(), places.join(", ")),
                value,
                format!(";{}", " }".repeat(places.len()))
            ]));
        }
    }

    /// The loop over a thread's own elements of what it reaches by unsafe methods. What is read is
    /// changed a little.
    fn own_raw(&mut self, body: &mut Block, parameter: &Parameter) {
        let name = &parameter.name;
        let (i, before) = (self.fresh("i"), self.fresh("v"));
        let scope = self.enter();
        self.counters.push(i.clone());
        self.define(&before, parameter.of.clone(), true);
        self.budget = 12;
        let mut inner = Block::default();
        inner.statements.push(Statement::new(pieces![format!(
            "let mut {before} = unsafe {{ {name}.read({i}) }};"
        )]));
        self.statements(&mut inner, 1, 2);
        let value = self.expression(&parameter.of, 3);
        inner.statements.push(Statement::new(pieces![
            format!("unsafe {{ {name}.write({i}, "),
            value,
            ") };"
        ]));
        self.leave(&scope);
        body.statements.push(Statement::new(pieces![
            format!("for {i} in acc.elements({name}.len()) "),
            inner
        ]));
    }

    /// The loop over a thread's part of its block's part, which sees all that the thread has.
    fn own_part_of_block(&mut self, body: &mut Block, parameter: &Parameter) {
        let (at, element) = (self.fresh("k"), self.fresh("e"));
        let scope = self.enter();
        self.counters.push(at.clone());
        self.define(&format!("*{element}"), parameter.of.clone(), true);
        self.budget = 10;
        let mut inner = Block::default();
        self.statements(&mut inner, 1, 1);
        let value = self.expression(&parameter.of, 3);
        inner.statements.push(Statement::new(pieces![
            format!("*{element} = "),
            value,
            ";"
        ]));
        self.leave(&scope);
        let name = &parameter.name;
        body.statements.push(Statement::new(pieces![
            format!("for ({at}, {element}) in {name}.iter_mut().enumerate() "),
            inner
        ]));
    }

    pub(super) fn atomic(&mut self, parameter: &Parameter, method: &str) -> Statement {
        let name = &parameter.name;
        let index = self.index(&format!("{name}.len()"));
        let value = if parameter.has_floats() {
            // Small whole numbers, whose sums are the same in any order.
            let value = self.scalar(Scalar::I8, 2);
            let pieces = pieces!["(", value, format!(" as {})", parameter.type_name)];
            Expression::new(parameter.of.clone(), pieces)
        } else {
            self.expression(&parameter.of, 2)
        };
        Statement::new(pieces![
            format!("{name}.{method}("),
            index,
            ", ",
            value,
            ");"
        ])
    }
}

//! Random kernels. As a kernel is written, it is known which values are the same for all
//! work-items, and which statements all of them reach. They wait for each other only where all come
//! to, and each writes to memory that is its own alone, or all wait in between.

use crate::expressions::convert;
use crate::program::{Program, Statement};
use crate::types::{ELEMENTS, Random, Scalar, Type};
use Statement::{Fixed, Nested, Text};

/// The most work-items of a group; local arrays have as many elements.
pub(crate) const MOST_ITEMS: usize = 128;

/// A variable that may be read.
#[derive(Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) of: Type,
    /// True if it is the same for all work-items of a group.
    pub(crate) same: bool,
    /// True if it may be written.
    may_change: bool,
}

/// A private array.
#[derive(Clone)]
struct Array {
    name: String,
    of: Type,
    length: usize,
}

/// A function that kernels call.
#[derive(Clone)]
struct Function {
    name: String,
    gives: Type,
    takes: Vec<Type>,
    /// The type behind its pointer to private memory, if it takes one.
    changes: Option<Type>,
    /// True if work-items wait in it.
    waits: bool,
    /// True if it has functions that all work-items of a group have to call.
    is_collective: bool,
}

/// The place of a statement.
#[derive(Clone, Copy)]
struct Place {
    /// All work-items of the group come here together.
    together: bool,
    /// A loop that `break` and `continue` may be said of here.
    in_loop: bool,
    depth: usize,
    /// The type of the function's result; none in a kernel.
    gives: Option<Type>,
    /// Work-items may return while others go on.
    may_return: bool,
}

pub(crate) struct Generator {
    pub(crate) random: Random,
    pub(crate) variables: Vec<Variable>,
    arrays: Vec<Array>,
    /// Local arrays of the kernel.
    locals: Vec<(String, Type)>,
    functions: Vec<Function>,
    names: usize,
    /// The number of statements that there may still be.
    left: usize,
    /// True if the function that is written has functions that all work-items of a group have to
    /// call.
    is_collective: bool,
}

/// A program, the same each time for a seed.
pub(crate) fn program(seed: u64) -> Program {
    let mut this = Generator {
        random: Random::new(seed),
        variables: Vec::new(),
        arrays: Vec::new(),
        locals: Vec::new(),
        functions: Vec::new(),
        names: 0,
        is_collective: false,
        left: 0,
    };
    this.program(seed)
}

impl Generator {
    fn program(&mut self, seed: u64) -> Program {
        let mut functions = Vec::new();
        for _ in 0..self.random.below(4) {
            let waits = self.random.percent(40);
            functions.push(self.function(seed, waits));
        }
        let name = format!("kernel_{seed}");
        let kernel = self.kernel(&name);
        let local = self.random.one_of(&[
            [1, 1, 1],
            [4, 1, 1],
            [7, 1, 1],
            [16, 1, 1],
            [32, 1, 1],
            [64, 1, 1],
            [100, 1, 1],
            [4, 4, 1],
            [8, 2, 1],
            [16, 4, 1],
            [5, 3, 2],
            [2, 2, 8],
            [1, 9, 1],
        ]);
        Program {
            name,
            functions,
            kernel,
            local,
            groups: self
                .random
                .one_of(&[[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1]]),
            numbers: (self.random.below(9) as i32 - 1, self.random.next() as u32),
            is_of_size: self.random.percent(80),
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn know(&mut self, name: &str, of: Type, same: bool, may_change: bool) {
        self.variables.push(Variable {
            name: name.to_owned(),
            of,
            same,
            may_change,
        });
    }

    fn function(&mut self, seed: u64, waits: bool) -> Statement {
        self.variables.clear();
        self.arrays.clear();
        let name = format!("{}_{seed}", self.name("function"));
        let gives = Type::any(&mut self.random);
        let takes: Vec<Type> = (0..1 + self.random.below(3))
            .map(|_| Type::any(&mut self.random))
            .collect();
        let changes = self.random.percent(40).then(|| Type::any(&mut self.random));
        let mut head = format!(
            "{gives} {name}(uint l, uint n, uint g, int u, local uint *shared, global uint *mem, global uint *totals"
        );
        self.know("l", Type::UINT, false, false);
        self.know("n", Type::UINT, true, false);
        self.know("u", Type::INT, true, false);
        for of in &takes {
            let parameter = self.name("a");
            head += &format!(", {of} {parameter}");
            self.know(&parameter, *of, false, true);
        }
        if let Some(of) = changes {
            head += &format!(", private {of} *p");
            self.know("(*p)", of, false, true);
        }
        self.locals = vec![("shared".to_owned(), Type::UINT)];
        self.left = 6 + self.random.below(8);
        self.is_collective = false;
        let place = Place {
            together: waits,
            in_loop: false,
            depth: 0,
            gives: Some(gives),
            may_return: !waits,
        };
        let mut body = self.block(place, 8);
        body.push(Fixed(format!(
            "return ({gives})({});",
            self.expression(gives, 2, false)
        )));
        self.functions.push(Function {
            name,
            gives,
            takes,
            changes,
            waits,
            is_collective: self.is_collective,
        });
        Nested {
            parts: vec![(head + ") {", body)],
            end: "}".to_owned(),
        }
    }

    fn kernel(&mut self, name: &str) -> Statement {
        self.variables.clear();
        self.arrays.clear();
        self.locals = vec![("shared".to_owned(), Type::UINT)];
        let mut first = vec![Fixed(
            "const uint l = (uint)get_local_linear_id();\n\
             const uint n = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));\n\
             const uint group = (uint)((get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0));\n\
             const uint g = group * n + l;\n\
             ulong h = g;\n\
             shared[l] = in[g];\n\
             mem[g] = in[g] * 3u;"
                .to_owned(),
        )];
        first.push(Fixed(format!(
            "const size_t place = get_local_linear_id(), at = (size_t)group * n + place;\n\
             local uint parts[{}];\n\
             union {{ uint w[4]; uchar b[16]; ushort s[8]; ulong d[2]; }} both;\n\
             for (uint k = 0; k < 4u; k++) own[4 * at + k] = parts[4 * place + k] = both.w[k] = in[g] * (k + 5u);",
            4 * MOST_ITEMS
        )));
        for _ in 0..self.random.below(3) {
            let of = Type::any(&mut self.random);
            let array = self.name("t");
            first.push(Fixed(format!(
                "local {of} {array}[{MOST_ITEMS}];\n{array}[l] = ({of})({});",
                convert("in[g]", Type::UINT, Type::one(of.of))
            )));
            self.locals.push((array, of));
        }
        first.push(Fixed(
            "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);".to_owned(),
        ));
        self.know("l", Type::UINT, false, false);
        self.know("g", Type::UINT, false, false);
        self.know("n", Type::UINT, true, false);
        self.know("u", Type::INT, true, false);
        self.know("m", Type::UINT, true, false);
        self.know("group", Type::UINT, true, false);
        self.left = 12 + self.random.below(30);
        let place = Place {
            together: true,
            in_loop: false,
            depth: 0,
            gives: None,
            may_return: self.random.percent(30),
        };
        first.push(self.declaration(place));
        first.push(self.declaration(place));
        // What it has in the end goes out.
        let before = self.variables.len();
        first.extend(self.statements(place, 14));
        let known: Vec<Variable> = self.variables[before..].to_vec();
        first.extend(known.iter().map(|it| Text(hashed(&it.name, it.of))));
        first.push(Text(
            "for (uint k = 0; k < 4u; k++) h = h * 31ul + parts[4 * place + k] + 7ul * both.w[k];"
                .to_owned(),
        ));
        first.push(Fixed("out[g] = h;".to_owned()));
        let head = format!(
            "kernel void {name}(global const uint *in, global ulong *out, global uint *mem, global uint *totals, local uint *shared, int u, uint m, global uint *own, global uint *same) {{"
        );
        Nested {
            parts: vec![(head, first)],
            end: "}".to_owned(),
        }
    }

    /// Statements with a scope of their own.
    fn block(&mut self, place: Place, most: usize) -> Vec<Statement> {
        let (variables, arrays) = (self.variables.len(), self.arrays.len());
        let block = self.statements(place, most);
        self.variables.truncate(variables);
        self.arrays.truncate(arrays);
        block
    }

    fn statements(&mut self, place: Place, most: usize) -> Vec<Statement> {
        let mut all = Vec::new();
        for _ in 0..1 + self.random.below(most) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            all.extend(self.statement(place));
        }
        all
    }

    fn statement(&mut self, place: Place) -> Vec<Statement> {
        let kernel = place.gives.is_none();
        let can_nest = place.depth < 4;
        let one = match self.random.below(34) {
            0..=3 => self.declaration(place),
            4..=7 => self.assignment(place),
            8 | 9 if can_nest => self.branch(place, false),
            10 if can_nest && place.together => self.branch(place, true),
            11 | 12 if can_nest => self.repeated(place, false),
            13 | 14 if can_nest && place.together => self.repeated(place, true),
            15 if can_nest => self.switched(place),
            16..=18 if place.together => self.exchange(place),
            19 if place.together && kernel => self.counted(),
            20 | 21 if place.together && !(kernel && place.may_return) => self.collective(place),
            22 if kernel => self.total(),
            23 | 24 => match self.call(place) {
                Some(call) => call,
                None => self.assignment(place),
            },
            25 | 26 if self.random.percent(25) => self.structure(),
            25 | 26 => self.array(place),
            27 if kernel => {
                let at = self.variables.len() - 1;
                let (name, of) = (self.variables[at].name.clone(), self.variables[at].of);
                Text(hashed(&name, of))
            }
            28 if place.in_loop => {
                let condition = self.condition(1, place.together);
                let how = self.random.one_of(&["break", "continue"]);
                Text(format!("if ({condition}) {how};"))
            }
            29 => self.returned(place),
            30 if can_nest && place.together => self.branch(place, true),
            31 | 32 if kernel => self.owned(place),
            _ => self.assignment(place),
        };
        vec![one]
    }

    /// True if a value may be the same for all: only where all come to.
    fn may_be_same(&mut self, place: Place) -> bool {
        place.together && self.random.percent(40)
    }

    fn declaration(&mut self, place: Place) -> Statement {
        let of = Type::any(&mut self.random);
        let same = self.may_be_same(place);
        let value = self.expression(of, 3, same);
        let name = self.name(if same { "s" } else { "v" });
        self.know(&name, of, same, true);
        Fixed(format!("{of} {name} = ({of})({value});"))
    }

    /// A variable that may be written here.
    fn target(&mut self, place: Place) -> Option<Variable> {
        let all: Vec<Variable> = self
            .variables
            .iter()
            .filter(|it| it.may_change && (place.together || !it.same))
            .cloned()
            .collect();
        (!all.is_empty()).then(|| self.random.one_of(&all))
    }

    fn assignment(&mut self, place: Place) -> Statement {
        let Some(Variable { name, of, same, .. }) = self.target(place) else {
            return self.declaration(place);
        };
        if of.width > 1 && self.random.percent(40) {
            // Some elements, each once.
            let mut elements: Vec<char> = ELEMENTS[..of.width].chars().collect();
            let widths: Vec<usize> = [1, 2, 3, 4, 8]
                .into_iter()
                .filter(|width| *width <= of.width)
                .collect();
            let width = self.random.one_of(&widths);
            let some: String = (0..width)
                .map(|_| elements.remove(self.random.below(elements.len())))
                .collect();
            let part = of.with_width(width);
            let value = self.expression(part, 2, same);
            return Text(format!("{name}.s{some} = ({part})({value});"));
        }
        let value = self.expression(of, 3, same);
        match self.random.below(4) {
            0 if of.of.is_real() => {
                let how = self.random.one_of(&["+=", "-=", "*="]);
                Text(format!("{name} {how} ({of})({value});"))
            }
            0 => {
                let how = self.random.one_of(&["^=", "|=", "&="]);
                Text(format!("{name} {how} ({of})({value});"))
            }
            _ => Text(format!("{name} = ({of})({value});")),
        }
    }

    fn branch(&mut self, place: Place, same: bool) -> Statement {
        let condition = self.condition(2, same);
        let within = Place {
            together: place.together && same,
            // A loop that all go round together is left by all.
            in_loop: place.in_loop && (!place.together || same),
            depth: place.depth + 1,
            ..place
        };
        let mut parts = vec![(format!("if ({condition}) {{"), self.block(within, 5))];
        if self.random.percent(40) {
            parts.push(("} else {".to_owned(), self.block(within, 5)));
        }
        Nested {
            parts,
            end: "}".to_owned(),
        }
    }

    fn switched(&mut self, place: Place) -> Statement {
        let same = self.may_be_same(place);
        let of = self.expression(Type::UINT, 2, same);
        let within = Place {
            together: place.together && same,
            in_loop: false,
            depth: place.depth + 1,
            ..place
        };
        let mut parts = Vec::new();
        for case in 0..2 + self.random.below(3) {
            let head = match (case, self.random.percent(70)) {
                (0, _) => format!("switch (({of}) % 5u) {{ case {case}: {{"),
                (_, true) => format!("}} break; case {case}: {{"),
                (_, false) => format!("}} case {case}: {{"),
            };
            parts.push((head, self.block(within, 3)));
        }
        if self.random.percent(50) {
            parts.push(("} break; default: {".to_owned(), self.block(within, 3)));
        }
        Nested {
            parts,
            end: "} }".to_owned(),
        }
    }

    fn repeated(&mut self, place: Place, same: bool) -> Statement {
        let most = 1 + self.random.below(if place.depth > 1 { 3 } else { 6 });
        let bound = match self.random.percent(40) {
            true => format!("{most}u"),
            false => format!("({}) % {}u", self.expression(Type::UINT, 1, same), most + 1),
        };
        let counter = self.name("i");
        let known = self.variables.len();
        let limit = self.name("b");
        let within = Place {
            together: place.together && same,
            in_loop: true,
            depth: place.depth + 1,
            ..place
        };
        let is_known = place.together && same;
        self.know(&counter, Type::UINT, is_known, false);
        let body = self.block(within, 6);
        self.variables.truncate(known);
        let before = format!("{{ const uint {limit} = {bound}; uint {counter} = 0;");
        let (head, end) = match self.random.below(4) {
            0 => (
                format!("{before} while ({counter}++ < {limit}) {{"),
                "} }".to_owned(),
            ),
            1 => (
                format!("{before} do {{"),
                format!("}} while (++{counter} < {limit}); }}"),
            ),
            2 => (
                format!("{before} for (;; {counter} += 2) {{ if ({counter} >= {limit}) break;"),
                "} }".to_owned(),
            ),
            _ => (
                format!("{before} for (; {counter} < {limit}; {counter}++) {{"),
                "} }".to_owned(),
            ),
        };
        Nested {
            parts: vec![(head, body)],
            end,
        }
    }

    /// A work-item tells others something.
    fn exchange(&mut self, place: Place) -> Statement {
        let (array, of) = self.random.one_of(&self.locals.clone());
        let Some(Variable {
            name,
            of: to,
            same,
            may_change: _,
        }) = self.target(place)
        else {
            return self.declaration(place);
        };
        let at = match (same, self.random.below(5)) {
            (true, _) => format!("({}) % n", self.expression(Type::UINT, 1, true)),
            (_, 0) => "n - 1u - l".to_owned(),
            (_, 1) => format!("({}) % n", self.expression(Type::UINT, 1, false)),
            _ => format!("(l + {}u) % n", self.random.below(20)),
        };
        let value = self.expression(of, 3, false);
        let condition = self.condition(1, false);
        if self.random.percent(15) && array == "shared" {
            // Through global memory.
            let value = self.expression(Type::UINT, 2, false);
            let taken = self.converted_to(to, &format!("mem[g - l + {at}]"), Type::UINT);
            return Text(format!(
                "mem[g] = {value};\nbarrier(CLK_GLOBAL_MEM_FENCE);\n{name} = {taken};\nbarrier(CLK_GLOBAL_MEM_FENCE);"
            ));
        }
        let taken = self.converted_to(to, &format!("{array}[{at}]"), of);
        let write = match self.random.below(4) {
            0 => format!("if ({condition}) {array}[l] = ({of})({value});"),
            _ => format!("{array}[l] = ({of})({value});"),
        };
        if self.random.percent(20) && !of.of.is_real() && of.width == 1 {
            let s = self.name("half");
            return Text(format!(
                "{write}\nbarrier(CLK_LOCAL_MEM_FENCE);\n\
                 for (uint {s} = n / 2; {s} > 0; {s} /= 2) {{\n    if (l < {s}) {array}[l] ^= {array}[l + {s}];\n    \
                 barrier(CLK_LOCAL_MEM_FENCE);\n}}\n{name} = {taken};\nbarrier(CLK_LOCAL_MEM_FENCE);"
            ));
        }
        Text(format!(
            "{write}\nbarrier(CLK_LOCAL_MEM_FENCE);\n{name} = {taken};\nbarrier(CLK_LOCAL_MEM_FENCE);"
        ))
    }

    /// An expression of one type as one of another, whatever their widths.
    fn converted_to(&mut self, to: Type, text: &str, from: Type) -> String {
        if from.width == to.width {
            return convert(text, from, to);
        }
        let one = match from.width {
            1 => text.to_owned(),
            width => {
                let at = self.random.below(width);
                format!("{text}.s{}", &ELEMENTS[at..=at])
            }
        };
        let one = convert(&one, Type::one(from.of), Type::one(to.of));
        format!("({to})({one})")
    }

    /// Work-items count together in local memory.
    fn counted(&mut self) -> Statement {
        let all: Vec<Variable> = self
            .variables
            .iter()
            .filter(|it| it.may_change && it.of.width == 1 && !it.of.of.is_real())
            .cloned()
            .collect();
        if all.is_empty() {
            return Text(";".to_owned());
        }
        let Variable { name, of, same, .. } = self.random.one_of(&all);
        let how = self
            .random
            .one_of(&["add", "sub", "xor", "or", "and", "min", "max"]);
        let value = self.expression(Type::UINT, 2, false);
        let condition = self.condition(1, false);
        let bin = self.expression(Type::UINT, 1, false);
        let taken = self.expression(Type::UINT, 1, same);
        let first = self.random.below(20);
        // An array of its own each time, for others are read meanwhile.
        Text(format!(
            "if (l < n / 2u || l == 0u) shared[l] = {first}u;\nbarrier(CLK_LOCAL_MEM_FENCE);\n\
             if ({condition}) atomic_{how}(&shared[({bin}) % (n / 2u + 1u) % max(n / 2u, 1u)], {value});\n\
             barrier(CLK_LOCAL_MEM_FENCE);\n{name} = ({of})shared[({taken}) % n];\nbarrier(CLK_LOCAL_MEM_FENCE);"
        ))
    }

    fn total(&mut self) -> Statement {
        let at = self.random.below(5);
        let how = ["add", "xor", "or", "min", "max"][at];
        let value = self.expression(Type::UINT, 2, false);
        Text(format!("atomic_{how}(&totals[{at}], {value});"))
    }

    fn collective(&mut self, place: Place) -> Statement {
        self.is_collective = true;
        let group = self.random.one_of(&["work_group", "sub_group"]);
        let Some(Variable { name, of, same, .. }) = self.target(place) else {
            return self.declaration(place);
        };
        if self.random.percent(25) {
            let how = self.random.one_of(&["any", "all"]);
            let condition = self.condition(1, false);
            let taken = self.converted_to(of, &format!("{group}_{how}({condition})"), Type::INT);
            return Text(format!("{name} = {taken};"));
        }
        if self.random.percent(15) {
            let condition = self.condition(1, false);
            let ballot = format!("sub_group_ballot({condition}).s{}", self.random.below(4));
            let taken = self.converted_to(of, &ballot, Type::UINT);
            return Text(format!("{name} = {taken};"));
        }
        if !same && self.random.percent(25) {
            return self.of_some(&name, of);
        }
        if !same && self.random.percent(25) {
            let number = Type::one(self.random.one_of(&Scalar::ALL));
            let value = self.expression(number, 2, false);
            let kinds = [
                "shuffle",
                "shuffle_xor",
                "shuffle_up",
                "shuffle_down",
                "rotate",
            ];
            let how = self.random.one_of(&kinds);
            let by = match how {
                "rotate" => format!("{}", self.random.below(40) as i32 - 20),
                "shuffle" => format!("({}) % n", self.expression(Type::UINT, 1, false)),
                _ => format!("{}u", self.random.below(20)),
            };
            let taken = format!("sub_group_{how}(({number})({value}), {by})");
            let taken = self.converted_to(of, &taken, number);
            return Text(format!("{name} = {taken};"));
        }
        let kinds = [Scalar::Int, Scalar::Uint, Scalar::Long, Scalar::Ulong];
        let mut number = Type::one(self.random.one_of(&kinds));
        let how = match self.random.below(4) {
            0 => {
                let kinds = [Scalar::Half, Scalar::Float, Scalar::Double];
                let kind = self.random.one_of(&kinds);
                if self.random.percent(50) {
                    number = Type::one(kind);
                }
                "broadcast".to_owned()
            }
            1 if !same => {
                let scan = self.random.one_of(&["scan_inclusive", "scan_exclusive"]);
                format!("{scan}_{}", self.random.one_of(&["add", "min", "max"]))
            }
            _ => format!("reduce_{}", self.random.one_of(&["add", "min", "max"])),
        };
        let mut value = self.expression(number, 2, false);
        if how.ends_with("add") && number.of.is_signed() {
            // A sum of signed numbers has to be within bounds.
            value = format!("({value}) % 10000");
        }
        let mut all = format!("({number})({value})");
        if how == "broadcast" {
            let from = self.expression(Type::UINT, 1, true);
            all = format!("{all}, ({from}) % n");
        }
        let taken = self.converted_to(of, &format!("{group}_{how}({all})"), number);
        Text(format!("{name} = {taken};"))
    }

    /// Some work-items of a group come to a function of sub-groups.
    fn of_some(&mut self, name: &str, of: Type) -> Statement {
        let kinds = [Scalar::Uint, Scalar::Ulong, Scalar::Ushort, Scalar::Uchar];
        let number = Type::one(self.random.one_of(&kinds));
        let value = self.expression(number, 2, false);
        let condition = self.condition(1, false);
        let how = self
            .random
            .one_of(&["reduce", "scan_inclusive", "scan_exclusive"]);
        let with = self
            .random
            .one_of(&["add", "mul", "min", "max", "and", "or", "xor"]);
        let some = self.name("some");
        let taken = self.converted_to(of, &some, number);
        Text(format!(
            "{{ {number} {some} = 7; SOME({condition}, {some}, {how}_{with}, {number}, ({value})) {name} = {taken}; }}"
        ))
    }

    fn call(&mut self, place: Place) -> Option<Statement> {
        if place.gives.is_some() && place.depth > 1 {
            return None;
        }
        let all: Vec<Function> = self
            .functions
            .iter()
            .filter(|it| place.together || !it.waits)
            .filter(|it| !(it.is_collective && place.gives.is_none() && place.may_return))
            .cloned()
            .collect();
        if all.is_empty() {
            return None;
        }
        let Function {
            name,
            gives,
            takes,
            changes,
            is_collective,
            ..
        } = self.random.one_of(&all);
        self.is_collective |= is_collective;
        let same_number = match place.together {
            true => self.expression(Type::INT, 1, true),
            false => "u".to_owned(),
        };
        let mut text = format!("{name}(l, n, g, {same_number}, shared, mem, totals");
        for of in takes {
            let value = self.expression(of, 2, false);
            text += &format!(", ({of})({value})");
        }
        if let Some(of) = changes {
            let fitting: Vec<String> = self
                .variables
                .iter()
                .filter(|it| it.of == of && it.may_change && !it.same)
                .map(|it| it.name.clone())
                .collect();
            let variable = match fitting.is_empty() {
                true => {
                    let value = self.expression(of, 1, false);
                    let variable = self.name("v");
                    let result = self.name("v");
                    let before = format!("{of} {variable} = ({of})({value});");
                    self.know(&variable, of, false, true);
                    self.know(&result, gives, false, true);
                    return Some(Fixed(format!(
                        "{before}\n{gives} {result} = {text}, &{variable});"
                    )));
                }
                false => self.random.one_of(&fitting),
            };
            text += &format!(", &{variable}");
        }
        let result = self.name("v");
        self.know(&result, gives, false, true);
        Some(Fixed(format!("{gives} {result} = {text});")))
    }

    /// A structure, whose members are as variables are.
    fn structure(&mut self) -> Statement {
        let name = self.name("r");
        let (mut members, mut values) = (String::new(), String::new());
        let mut known = Vec::new();
        for at in 0..2 + self.random.below(3) {
            let of = Type::any(&mut self.random);
            let value = self.expression(of, 1, false);
            members += &format!("{of} m{at}; ");
            values += &format!("\n{name}.m{at} = ({of})({value});");
            known.push((format!("{name}.m{at}"), of));
        }
        for (member, of) in known {
            self.know(&member, of, false, true);
        }
        Fixed(format!("struct {{ {members}}} {name};{values}"))
    }

    /// A private array is declared, written or read.
    fn array(&mut self, place: Place) -> Statement {
        if self.arrays.is_empty() || self.random.percent(30) {
            let of = Type::any(&mut self.random);
            let length = self.random.one_of(&[2, 3, 4, 8, 16]);
            let name = self.name("p");
            let value = self.expression(of, 1, false);
            self.arrays.push(Array {
                name: name.clone(),
                of,
                length,
            });
            return Fixed(format!(
                "{of} {name}[{length}];\nfor (uint k = 0; k < {length}u; k++) {name}[k] = ({of})({value});"
            ));
        }
        let Array { name, of, length } = self.random.one_of(&self.arrays.clone());
        let at = match self.random.percent(50) {
            true => format!("{}", self.random.below(length)),
            false => format!("({}) % {length}u", self.expression(Type::UINT, 2, false)),
        };
        if self.random.percent(50) {
            let value = self.expression(of, 2, false);
            return Text(format!("{name}[{at}] = ({of})({value});"));
        }
        let place = Place {
            together: false,
            ..place
        };
        let Some(target) = self.target(place) else {
            return self.declaration(place);
        };
        if of.width == 1 && self.random.percent(30) {
            let widths = [2, 3, 4].into_iter().filter(|width| *width <= length);
            let width = self.random.one_of(&widths.collect::<Vec<_>>());
            let vector = of.with_width(width);
            let rest = length - width + 1;
            let at = self.expression(Type::UINT, 1, false);
            if self.random.percent(50) {
                let value = self.expression(vector, 1, false);
                return Text(format!(
                    "vstore{width}(({vector})({value}), 0, &{name}[({at}) % {rest}u]);"
                ));
            }
            let loaded = format!("vload{width}(0, &{name}[({at}) % {rest}u])");
            let taken = self.converted_to(target.of, &loaded, vector);
            return Text(format!("{} = {taken};", target.name));
        }
        let taken = self.converted_to(target.of, &format!("{name}[{at}]"), of);
        Text(format!("{} = {taken};", target.name))
    }

    /// A few accesses of what a work-item has of its own, as numbers of several sizes: in a buffer
    /// that two arguments are of, in local memory, and in a union.
    fn owned(&mut self, place: Place) -> Statement {
        const VIEWS: [(Scalar, usize, &str); 5] = [
            (Scalar::Uint, 4, "w"),
            (Scalar::Uint, 4, "w"),
            (Scalar::Uchar, 16, "b"),
            (Scalar::Ushort, 8, "s"),
            (Scalar::Ulong, 2, "d"),
        ];
        let memory = self.random.one_of(&["own", "own", "parts", "both"]);
        let place = Place {
            together: false,
            ..place
        };
        let mut text = String::new();
        for _ in 0..2 + self.random.below(4) {
            let (of, count, member) = self.random.one_of(&VIEWS);
            let of = Type::one(of);
            let at = match self.random.below(3) {
                0 => {
                    let same = self.random.percent(50);
                    format!("({}) % {count}u", self.expression(Type::UINT, 1, same))
                }
                _ => format!("{}u", self.random.below(count)),
            };
            let element = match memory {
                "own" => {
                    let pointer = self.random.one_of(&["own", "same"]);
                    format!("((global {of} *){pointer})[{count} * at + {at}]")
                }
                "parts" => format!("((local {of} *)parts)[{count} * place + {at}]"),
                _ => format!("both.{member}[{at}]"),
            };
            let target = self.target(place);
            text += &match target {
                Some(target) if self.random.percent(50) => {
                    let taken = self.converted_to(target.of, &element, of);
                    format!("{} = {taken};\n", target.name)
                }
                _ => format!("{element} = ({of})({});\n", self.expression(of, 1, false)),
            };
        }
        Text(text)
    }

    /// Work-items return: all, or, where that may be, some.
    fn returned(&mut self, place: Place) -> Statement {
        let same = place.together && (!place.may_return || self.random.percent(40));
        if !same && !place.may_return {
            return self.assignment(place);
        }
        let condition = self.condition(2, same);
        match place.gives {
            Some(gives) => {
                let value = self.expression(gives, 1, false);
                Text(format!("if ({condition}) return ({gives})({value});"))
            }
            None => {
                let code = self.random.below(9);
                Text(format!(
                    "if ({condition}) {{ out[g] = h + {code}u; return; }}"
                ))
            }
        }
    }
}

/// A variable's bits go into what the kernel gives.
fn hashed(name: &str, of: Type) -> String {
    let bits = |one: String| match of.of {
        Scalar::Half => format!("({one} == {one} ? (ulong)as_ushort({one}) : 1ul)"),
        Scalar::Float => format!("({one} == {one} ? (ulong)as_uint({one}) : 1ul)"),
        Scalar::Double => format!("({one} == {one} ? as_ulong({one}) : 1ul)"),
        _ => format!("(ulong)({one})"),
    };
    let all: Vec<String> = match of.width {
        1 => vec![bits(name.to_owned())],
        width => (0..width)
            .map(|at| {
                format!(
                    "{}ul * {}",
                    2 * at + 1,
                    bits(format!("{name}.s{}", &ELEMENTS[at..=at]))
                )
            })
            .collect(),
    };
    format!("h = h * 31ul + {};", all.join(" + "))
}

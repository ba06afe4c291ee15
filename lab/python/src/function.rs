//! Functions: a line for each value and statement.

use quipu::kernel::print::ir::{
    BinaryOperation, Block, Function, Location, LoopId, MathFunction, Module, Operation, Origin,
    Place, Projection, Root, Scalar, Statement, Type, UnaryOperation, Unit, Value,
};
use quipu::kernel::print::{IndexWidth, Options, PrintError};
use std::collections::{HashMap, HashSet};

use crate::unsupported;

/// Words of Python, and names of what printed kernels call.
const TAKEN: &str = "and as assert async await break class continue def del elif else except False finally for from global \
    if import in is lambda None nonlocal not or pass raise return True try while with yield abs float int len max min print \
    range math struct wrapped single divided quotient saturated";

/// Names that are given out.
#[derive(Clone)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    pub(crate) fn new() -> Self {
        Self(TAKEN.split_whitespace().map(str::to_owned).collect())
    }

    /// A name like this one that nothing has yet.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let wanted: String = wanted
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '_'
                }
            })
            .collect();
        let mut name = wanted.clone();
        let mut number = 1;
        while !self.0.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }
}

type Result<T> = std::result::Result<T, PrintError>;

/// A loop around a statement.
struct Loop<'m> {
    id: LoopId,
    /// The block between two rounds.
    step: &'m [Statement],
    /// True if it is one loop in Python, which `break` leaves.
    is_one: bool,
}

pub(crate) struct FunctionPrinter<'m> {
    module: &'m Module,
    options: &'m Options,
    /// The names of the module's functions.
    functions: &'m [String],
    function: &'m Function,
    names: Names,
    /// The names of values, or the numbers that they are.
    values: HashMap<Value, String>,
    locals: Vec<String>,
    loops: Vec<Loop<'m>>,
    lines: String,
    depth: usize,
}

impl<'m> FunctionPrinter<'m> {
    pub(crate) fn new(
        module: &'m Module,
        options: &'m Options,
        functions: &'m [String],
        function: &'m Function,
        mut names: Names,
    ) -> Self {
        let locals = function.locals.iter();
        let locals = locals
            .map(|local| names.unique(local.name.unwrap_or("result")))
            .collect();
        Self {
            module,
            options,
            functions,
            function,
            names,
            values: HashMap::new(),
            locals,
            loops: Vec::new(),
            lines: String::new(),
            depth: 1,
        }
    }

    /// The whole of it, under a name.
    pub(crate) fn print(mut self, name: &str) -> Result<String> {
        let parameters = self.function.parameters.iter();
        let parameters: Vec<_> = parameters.map(|value| self.named(*value)).collect();
        self.block(&self.function.body)?;
        let parameters = parameters.join(", ");
        Ok(format!("def {name}({parameters}):\n{}", self.lines))
    }

    fn line(&mut self, text: &str) {
        let indent = 4 * self.depth;
        self.lines.push_str(&format!("{:indent$}{text}\n", ""));
    }

    /// Gives a value a name.
    fn named(&mut self, value: Value) -> String {
        let wanted = self.function.values[value.0 as usize]
            .name
            .unwrap_or("value");
        let name = self.names.unique(wanted);
        self.values.insert(value, name.clone());
        name
    }

    fn value(&self, value: Value) -> &str {
        &self.values[&value]
    }

    fn type_of(&self, value: Value) -> &'m Type {
        &self.function.values[value.0 as usize].value_type
    }

    fn refuse<T>(&self, what: impl Into<String>, at: Option<Value>) -> Result<T> {
        self.refuse_at(what, at.and_then(|value| self.location(value)))
    }

    fn location(&self, value: Value) -> Option<Location> {
        self.function.values[value.0 as usize].location
    }

    fn refuse_at<T>(&self, what: impl Into<String>, location: Option<Location>) -> Result<T> {
        Err(unsupported(
            self.module,
            what.into(),
            location.or(self.function.location),
        ))
    }

    fn block(&mut self, block: &'m Block) -> Result<()> {
        let before = self.lines.len();
        for statement in block {
            self.statement(statement)?;
        }
        if self.lines.len() == before {
            self.line("pass");
        }
        Ok(())
    }

    fn within(&mut self, block: &'m Block) -> Result<()> {
        self.depth += 1;
        self.block(block)?;
        self.depth -= 1;
        Ok(())
    }

    fn statement(&mut self, statement: &'m Statement) -> Result<()> {
        match statement {
            Statement::Define { value, operation } => self.define(*value, operation)?,
            Statement::Local { local, initial } => {
                let initial = initial.map_or("None", |initial| self.value(initial));
                let text = format!("{} = {initial}", self.locals[local.0 as usize]);
                self.line(&text);
            }
            Statement::Store {
                place,
                value,
                location,
            } => {
                let text = format!("{} = {}", self.place(place, *location)?, self.value(*value));
                self.line(&text);
            }
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                let text = format!("if {}:", self.value(*condition));
                self.line(&text);
                self.within(then)?;
                if !otherwise.is_empty() {
                    self.line("else:");
                    self.within(otherwise)?;
                }
            }
            Statement::Loop { id, body, step } => {
                self.line("while True:");
                self.loops.push(Loop {
                    id: *id,
                    step,
                    is_one: true,
                });
                self.within(body)?;
                self.loops.pop();
                self.depth += 1;
                for statement in step {
                    self.statement(statement)?;
                }
                self.depth -= 1;
            }
            Statement::Elements {
                id,
                position,
                extent,
                body,
            } => {
                for (position, extent) in position.iter().zip(extent) {
                    let position = self.named(*position);
                    let text = format!("for {position} in range({}):", self.value(*extent));
                    self.line(&text);
                    self.depth += 1;
                }
                self.loops.push(Loop {
                    id: *id,
                    step: &[],
                    is_one: position.len() == 1,
                });
                self.block(body)?;
                self.loops.pop();
                self.depth -= position.len();
            }
            Statement::Break(id) => {
                if !self.innermost(*id)?.is_one {
                    return self.refuse("jumps out of two loops at once", None);
                }
                self.line("break");
            }
            Statement::Continue(id) => {
                let step = self.innermost(*id)?.step;
                for statement in step {
                    self.statement(statement)?;
                }
                self.line("continue");
            }
            Statement::Return { value, .. } => {
                let value = value.map_or("", |value| self.value(value));
                let text = format!("return {value}");
                self.line(text.trim_end());
            }
            Statement::Assert {
                condition, message, ..
            } => {
                let text = format!("assert {}, {message:?}", self.value(*condition));
                self.line(&text);
            }
            Statement::Print { format, values, .. } => {
                let values: Vec<_> = values.iter().map(|value| self.value(*value)).collect();
                let text = format!("print({format:?}.format({}), end='')", values.join(", "));
                self.line(&text);
            }
            Statement::Barrier(_) => return self.refuse("barriers of a block", None),
            Statement::GridBarrier(_) => return self.refuse("barriers of a grid", None),
            Statement::Fence(..) => {}
        }
        Ok(())
    }

    /// A loop, which has to be the one that Python's words mean.
    fn innermost(&self, id: LoopId) -> Result<&Loop<'m>> {
        match self.loops.last() {
            Some(innermost) if innermost.id == id => Ok(innermost),
            _ => self.refuse("jumps out of two loops at once", None),
        }
    }

    fn define(&mut self, value: Value, operation: &'m Operation) -> Result<()> {
        if let Operation::Literal(literal) = operation {
            let text = match literal.scalar {
                Scalar::Bool if literal.bits == 0 => "False".to_owned(),
                Scalar::Bool => "True".to_owned(),
                Scalar::F32 => float(f32::from_bits(literal.bits as u32).into()),
                Scalar::F64 => float(f64::from_bits(literal.bits)),
                scalar if scalar.is_half() => return self.refuse("floats of 16 bits", Some(value)),
                scalar if scalar.is_signed() => format!("{}", literal.bits.cast_signed()),
                // The greatest of its width, whichever that is.
                Scalar::Index if literal.bits == u64::MAX => {
                    format!("{}", u64::MAX >> (64 - self.bits(Scalar::Index)))
                }
                _ => format!("{}", literal.bits),
            };
            self.values.insert(value, text);
            return Ok(());
        }
        let text = self.operation(value, operation)?;
        if *self.type_of(value) == Type::Unit {
            self.line(&text);
            return Ok(());
        }
        let name = self.named(value);
        self.line(&format!("{name} = {text}"));
        Ok(())
    }

    fn operation(&self, value: Value, operation: &Operation) -> Result<String> {
        let scalar = self.type_of(value).scalar();
        let of = |value: &Value| self.value(*value);
        Ok(match operation {
            Operation::Unary(operation, operand) => {
                let text = match operation {
                    UnaryOperation::Negate => format!("-{}", of(operand)),
                    UnaryOperation::Not if scalar == Some(Scalar::Bool) => {
                        format!("not {}", of(operand))
                    }
                    UnaryOperation::Not => format!("~{}", of(operand)),
                    _ => return self.refuse(format!("{operation:?} of a number"), Some(value)),
                };
                self.held(scalar, text)
            }
            Operation::Binary(operation, first, second) => {
                self.binary(value, *operation, *first, *second)?
            }
            Operation::Cast(operand, to) => self.cast(*operand, *to),
            Operation::Select(condition, first, second) => {
                format!("{} if {} else {}", of(first), of(condition), of(second))
            }
            Operation::Math(function, operands) => {
                let name = match function {
                    MathFunction::Abs => "abs",
                    MathFunction::Sqrt => "math.sqrt",
                    MathFunction::Sin => "math.sin",
                    MathFunction::Cos => "math.cos",
                    MathFunction::Exp => "math.exp",
                    MathFunction::IsNan => "math.isnan",
                    _ => return self.refuse(format!("{function:?} of a float"), Some(value)),
                };
                let operands: Vec<_> = operands.iter().map(of).collect();
                self.held(scalar, format!("{name}({})", operands.join(", ")))
            }
            Operation::Load(place) => self.place(place, self.location(value))?,
            Operation::Length(slice) => format!("len({})", of(slice)),
            Operation::Call(function, arguments) => {
                let arguments: Vec<_> = arguments.iter().map(of).collect();
                let name = &self.functions[function.0 as usize];
                format!("{name}({})", arguments.join(", "))
            }
            // One thread has everything.
            Operation::Index(..) => "0".to_owned(),
            Operation::Extent(Origin::Grid | Origin::Block, Unit::Blocks | Unit::Threads, _) => {
                "1".to_owned()
            }
            Operation::AssumeUniform(operand) => of(operand).to_owned(),
            other => {
                let name = format!("{other:?}");
                let name = name.split(|letter: char| !letter.is_alphanumeric()).next();
                let what = format!("an operation of the kind `{}`", name.unwrap_or_default());
                return self.refuse(what, Some(value));
            }
        })
    }

    fn binary(
        &self,
        value: Value,
        operation: BinaryOperation,
        first: Value,
        second: Value,
    ) -> Result<String> {
        use BinaryOperation as B;
        let scalar = self.type_of(first).scalar();
        let is_float = scalar.is_some_and(Scalar::is_float);
        let (a, b) = (self.value(first), self.value(second));
        let text = match operation {
            B::Add => format!("{a} + {b}"),
            B::Subtract => format!("{a} - {b}"),
            B::Multiply => format!("{a} * {b}"),
            B::Divide if is_float => format!("quotient({a}, {b})"),
            B::Divide => format!("divided({a}, {b})"),
            B::Remainder if is_float => format!("math.fmod({a}, {b})"),
            B::Remainder => format!("{a} - {b} * divided({a}, {b})"),
            B::And => format!("{a} & {b}"),
            B::Or => format!("{a} | {b}"),
            B::Xor => format!("{a} ^ {b}"),
            B::Minimum if !is_float => format!("min({a}, {b})"),
            B::Maximum if !is_float => format!("max({a}, {b})"),
            B::Equal => format!("{a} == {b}"),
            B::NotEqual => format!("{a} != {b}"),
            B::Less => format!("{a} < {b}"),
            B::LessEqual => format!("{a} <= {b}"),
            B::Greater => format!("{a} > {b}"),
            B::GreaterEqual => format!("{a} >= {b}"),
            B::ShiftLeft | B::ShiftRight => {
                let sign = if operation == B::ShiftLeft {
                    "<<"
                } else {
                    ">>"
                };
                let bits = scalar.map_or(64, |scalar| self.bits(scalar));
                format!("{a} {sign} ({b} % {bits})")
            }
            _ => return self.refuse(format!("{operation:?} of two numbers"), Some(value)),
        };
        Ok(self.held(self.type_of(value).scalar(), text))
    }

    fn cast(&self, operand: Value, to: Scalar) -> String {
        let text = self.value(operand);
        let from_float = self.type_of(operand).scalar().is_some_and(Scalar::is_float);
        let text = match (from_float, to.is_float()) {
            (false, true) => format!("float({text})"),
            (true, false) => {
                let bits = self.bits(to);
                let (low, high) = match to.is_signed() {
                    true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
                    false => (0, (1_i128 << bits) - 1),
                };
                return format!("saturated({text}, {low}, {high})");
            }
            (true, true) => text.to_owned(),
            (false, false) => format!("int({text})"),
        };
        self.held(Some(to), text)
    }

    fn bits(&self, scalar: Scalar) -> u32 {
        let index = match self.options.index_width {
            IndexWidth::Bits32 => 4,
            IndexWidth::Bits64 => 8,
        };
        8 * scalar.size().unwrap_or(index)
    }

    /// A result, as its type holds it.
    fn held(&self, scalar: Option<Scalar>, text: String) -> String {
        match scalar {
            Some(Scalar::F32) => format!("single({text})"),
            Some(scalar) if scalar.is_integer() => {
                let signed = if scalar.is_signed() { "True" } else { "False" };
                format!("wrapped({text}, {}, {signed})", self.bits(scalar))
            }
            _ => text,
        }
    }

    fn place(&self, place: &Place, location: Option<Location>) -> Result<String> {
        let mut text = match place.root {
            Root::Local(local) => self.locals[local.0 as usize].clone(),
            Root::Slice(slice) => self.value(slice).to_owned(),
            Root::Shared(_) | Root::Constant(_) => {
                return self.refuse_at("memory for constants or of a block", location);
            }
        };
        let is_slice = matches!(place.root, Root::Slice(_));
        for (at, step) in place.path.iter().enumerate() {
            match step {
                Projection::Index { index, .. } if is_slice && at == 0 => {
                    if self.type_of(*index).scalar().is_some_and(Scalar::is_signed) {
                        return self.refuse_at("indices with a sign", location);
                    }
                    text.push_str(&format!("[{}]", self.value(*index)));
                }
                // A list that is copied would be one list under two names.
                Projection::Index { .. } => return self.refuse_at("arrays", location),
                Projection::Field(_) => return self.refuse_at("structs", location),
            }
        }
        Ok(text)
    }
}

fn float(number: f64) -> String {
    if number.is_nan() {
        "math.nan".to_owned()
    } else if number.is_infinite() {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}math.inf")
    } else {
        format!("{number:?}")
    }
}

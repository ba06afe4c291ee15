//! Makes functions and modules by hand, one operation at a time.
//!
//! [`FunctionBuilder`] gives out the numbers of values, variables and loops, and keeps the block
//! that is being written. It infers a result's type from operands where these tell, and takes it
//! where they do not. It checks nothing: [`Module::verify`](crate::Module::verify) checks the
//! finished module.
//!
//! ```
//! use quipu_kernel_ir::{BinaryOperation, FunctionBuilder, ModuleBuilder, Place, Scalar};
//!
//! let mut f = FunctionBuilder::new("saxpy");
//! let a = f.uniform("a", Scalar::F32.into());
//! let x = f.buffer("x", Scalar::F32.into(), false);
//! let y = f.buffer("y", Scalar::F32.into(), true);
//! let length = f.length(y);
//! f.elements(&["i"], &[length], |f, _, position| {
//!     let i = position[0];
//!     let element = f.load(Place::element(x, i), Scalar::F32.into());
//!     let old = f.load(Place::element_unchecked(y, i), Scalar::F32.into());
//!     let product = f.binary(BinaryOperation::Multiply, a, element);
//!     let sum = f.binary(BinaryOperation::Add, old, product);
//!     f.store(Place::element_unchecked(y, i), sum);
//! });
//! let module = ModuleBuilder::new().finish(f.kernel(1));
//! assert_eq!(module.kernel.parameters.len(), 3);
//! ```

use crate::function::{Function, FunctionId, Local, LocalId, Location, Name, Value, ValueInfo};
use crate::module::{
    Allowances, Constant, ConstantId, KernelInfo, LaunchBounds, Module, Parameter, ParameterKind,
    SharedArray, SharedId, SharedInitial, SharedLength,
};
use crate::operation::{
    AtomicOperation, BinaryOperation, Literal, MathFunction, Operation, Origin, Property, Scope,
    UnaryOperation, Unit, WarpOperation,
};
use crate::statement::{Block, LoopId, Place, Statement};
use crate::types::{Field, Scalar, Space, Struct, StructId, Type};

/// Gathers the parts of a module beside its kernel.
#[derive(Clone, Debug, Default)]
pub struct ModuleBuilder {
    structs: Vec<Struct>,
    functions: Vec<Function>,
    shared: Vec<SharedArray>,
    constants: Vec<Constant>,
}

impl ModuleBuilder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a struct of fields with names and types.
    pub fn structure<N: Into<String>>(
        &mut self,
        name: impl Into<String>,
        fields: impl IntoIterator<Item = (N, Type)>,
    ) -> StructId {
        self.aligned_structure(name, fields, 1)
    }

    /// The same, aligned to at least so many bytes, a power of two.
    pub fn aligned_structure<N: Into<String>>(
        &mut self,
        name: impl Into<String>,
        fields: impl IntoIterator<Item = (N, Type)>,
        alignment: u64,
    ) -> StructId {
        self.structs.push(Struct {
            name: name.into(),
            fields: fields
                .into_iter()
                .map(|(name, field_type)| Field {
                    name: name.into(),
                    field_type,
                })
                .collect(),
            alignment,
        });
        StructId(number(self.structs.len() - 1))
    }

    /// The type of a struct's field; `Unit` if there is no such field.
    #[must_use]
    pub fn field_type(&self, structure: StructId, field: usize) -> Type {
        self.structs
            .get(structure.0 as usize)
            .and_then(|structure| structure.fields.get(field))
            .map_or(Type::Unit, |field| field.field_type.clone())
    }

    /// The types of a struct's fields; none if there is no such struct.
    #[must_use]
    pub fn field_types(&self, structure: StructId) -> Vec<Type> {
        let known = self.structs.get(structure.0 as usize);
        known.map_or_else(Vec::new, |structure| {
            let fields = structure.fields.iter();
            fields.map(|field| field.field_type.clone()).collect()
        })
    }

    /// Adds a device function.
    pub fn function(&mut self, function: Function) -> FunctionId {
        self.functions.push(function);
        FunctionId(number(self.functions.len() - 1))
    }

    /// Adds a block-shared array.
    pub fn shared(&mut self, name: Name, element: Type, length: SharedLength) -> SharedId {
        self.shared.push(SharedArray {
            name,
            element,
            length,
            initial: SharedInitial::Zeros,
        });
        SharedId(number(self.shared.len() - 1))
    }

    /// Leaves a block-shared array as it is when a block begins: the kernel writes each element
    /// before it reads it.
    ///
    /// # Panics
    /// If the module has no such array.
    pub fn leave_uninitialised(&mut self, shared: SharedId) {
        self.shared[shared.0 as usize].initial = SharedInitial::Anything;
    }

    /// Adds a constant in memory.
    pub fn constant(
        &mut self,
        name: Name,
        constant_type: Type,
        values: Vec<Literal>,
    ) -> ConstantId {
        self.constants.push(Constant {
            name,
            constant_type,
            values,
        });
        ConstantId(number(self.constants.len() - 1))
    }

    /// The module with its kernel.
    #[must_use]
    pub fn finish(self, kernel: KernelInfo) -> Module {
        Module {
            structs: self.structs,
            functions: self.functions,
            shared: self.shared,
            constants: self.constants,
            kernel,
            allowances: Allowances::default(),
        }
    }
}

/// A function being written: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct FunctionBuilder {
    function: Function,
    entry: Vec<Parameter>,
    loops: u32,
    /// The blocks being written, outermost first; there is always one.
    blocks: Vec<Block>,
    /// The place in the user's source of the next operations.
    location: Option<Location>,
}

impl FunctionBuilder {
    /// A function of this name, so far without parameters, result and body.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            function: Function {
                name: name.into(),
                parameters: Vec::new(),
                result: Type::Unit,
                values: Vec::new(),
                locals: Vec::new(),
                body: Block::new(),
                location: None,
            },
            entry: Vec::new(),
            loops: 0,
            blocks: vec![Block::new()],
            location: None,
        }
    }

    /// Sets where the user wrote the function.
    #[must_use]
    pub fn written_at(mut self, location: Location) -> Self {
        self.function.location = Some(location);
        self
    }

    /// Sets the type of the function's result.
    #[must_use]
    pub fn returning(mut self, result: Type) -> Self {
        self.function.result = result;
        self
    }

    /// Sets the place in the user's source of the next operations.
    pub fn at(&mut self, location: Option<Location>) -> &mut Self {
        self.location = location;
        self
    }

    // Parameters.

    /// Adds a parameter of a device function.
    pub fn parameter(&mut self, name: &'static str, value_type: Type) -> Value {
        let value = self.value(value_type, Some(name));
        self.function.parameters.push(value);
        value
    }

    /// Adds a parameter of a kernel: a value that is the same for all threads.
    pub fn uniform(&mut self, name: &'static str, value_type: Type) -> Value {
        let value = self.parameter(name, value_type);
        self.entry.push(Parameter {
            name: Some(name),
            kind: ParameterKind::Uniform(value),
        });
        value
    }

    /// Adds a parameter of a kernel: a value without bits.
    pub fn nothing(&mut self, name: &'static str) {
        self.entry.push(Parameter {
            name: Some(name),
            kind: ParameterKind::Nothing,
        });
    }

    /// Adds a parameter of a kernel: elements in global memory with gaps nowhere. Its slice.
    pub fn buffer(&mut self, name: &'static str, element: Type, mutable: bool) -> Value {
        let value = self.parameter(name, slice(element, Space::Global, mutable));
        self.entry.push(Parameter {
            name: Some(name),
            kind: ParameterKind::Buffer(value),
        });
        value
    }

    /// Adds a parameter of a kernel: elements in several dimensions. Its slice, extents and
    /// strides.
    pub fn view(
        &mut self,
        name: &'static str,
        element: Type,
        mutable: bool,
        dimensions: usize,
    ) -> (Value, Vec<Value>, Vec<Value>) {
        let elements = self.parameter(name, slice(element, Space::Global, mutable));
        let mut indices = || {
            (0..dimensions)
                .map(|_| {
                    let value = self.value(Scalar::Index.into(), None);
                    self.function.parameters.push(value);
                    value
                })
                .collect::<Vec<_>>()
        };
        let (extents, strides) = (indices(), indices());
        self.entry.push(Parameter {
            name: Some(name),
            kind: ParameterKind::View {
                elements,
                extents: extents.clone(),
                strides: strides.clone(),
            },
        });
        (elements, extents, strides)
    }

    // Values.

    /// A new value that is not defined yet.
    pub fn value(&mut self, value_type: Type, name: Name) -> Value {
        self.function.values.push(ValueInfo {
            value_type,
            name,
            location: self.location,
        });
        Value(number(self.function.values.len() - 1))
    }

    /// Gives a value the user's name for it.
    ///
    /// # Panics
    /// If the function has no such value.
    pub fn name(&mut self, value: Value, name: &'static str) {
        self.function.values[value.0 as usize].name = Some(name);
    }

    /// The user's name of a value.
    ///
    /// # Panics
    /// If the function has no such value.
    #[must_use]
    pub fn name_of(&self, value: Value) -> Name {
        self.function.values[value.0 as usize].name
    }

    /// The type of a value.
    ///
    /// # Panics
    /// If the function has no such value.
    #[must_use]
    pub fn type_of(&self, value: Value) -> &Type {
        &self.function.values[value.0 as usize].value_type
    }

    /// Defines a value of a type by any operation.
    pub fn define(&mut self, value_type: Type, operation: Operation) -> Value {
        let value = self.value(value_type, None);
        self.push(Statement::Define { value, operation });
        value
    }

    /// A constant of its bits; see [`Literal::bits`].
    pub fn literal(&mut self, scalar: Scalar, bits: u64) -> Value {
        self.define(scalar.into(), Operation::Literal(Literal { scalar, bits }))
    }

    /// A constant of type [`Scalar::Index`].
    pub fn index_literal(&mut self, number: u64) -> Value {
        self.literal(Scalar::Index, number)
    }

    /// A `bool` constant.
    pub fn bool_literal(&mut self, value: bool) -> Value {
        self.literal(Scalar::Bool, value.into())
    }

    /// An `i32` constant.
    pub fn i32_literal(&mut self, value: i32) -> Value {
        self.literal(Scalar::I32, i64::from(value) as u64)
    }

    /// A `u32` constant.
    pub fn u32_literal(&mut self, value: u32) -> Value {
        self.literal(Scalar::U32, value.into())
    }

    /// An `f32` constant.
    pub fn f32_literal(&mut self, value: f32) -> Value {
        self.literal(Scalar::F32, value.to_bits().into())
    }

    /// An operation of one operand.
    pub fn unary(&mut self, operation: UnaryOperation, operand: Value) -> Value {
        if let Some(half) = self.half_of(operand) {
            return self.negated_half(operand, half);
        }
        let value_type = self.type_of(operand).clone();
        self.define(value_type, Operation::Unary(operation, operand))
    }

    /// An operation of two operands.
    pub fn binary(&mut self, operation: BinaryOperation, first: Value, second: Value) -> Value {
        if let Some(half) = self.half_of(first) {
            return self.binary_of_halves(operation, [first, second], half);
        }
        let value_type = if operation.is_comparison() {
            Scalar::Bool.into()
        } else {
            self.type_of(first).clone()
        };
        self.define(value_type, Operation::Binary(operation, first, second))
    }

    /// `as`.
    pub fn cast(&mut self, value: Value, scalar: Scalar) -> Value {
        if scalar.is_half() || self.half_of(value).is_some() {
            return self.cast_of_half(value, scalar);
        }
        self.define(scalar.into(), Operation::Cast(value, scalar))
    }

    /// The same bits as another type.
    pub fn bitcast(&mut self, value: Value, scalar: Scalar) -> Value {
        self.define(scalar.into(), Operation::Bitcast(value, scalar))
    }

    /// A scalar as a word of 64 bits: integers extended, floats by their bits, those of 16 bits as
    /// an `f32`. Also gives the scalar type of the word.
    ///
    /// # Panics
    /// If the value is no scalar.
    pub fn word(&mut self, value: Value) -> (Value, Scalar) {
        let scalar = self.type_of(value).scalar().expect("a scalar");
        if scalar.is_half() {
            let single = self.cast(value, Scalar::F32);
            return self.word(single);
        }
        let word = match scalar {
            Scalar::F32 => {
                let bits = self.bitcast(value, Scalar::U32);
                self.cast(bits, Scalar::U64)
            }
            Scalar::F64 => self.bitcast(value, Scalar::U64),
            Scalar::U64 => value,
            _ if scalar.is_signed() => {
                let wide = self.cast(value, Scalar::I64);
                self.cast(wide, Scalar::U64)
            }
            _ => self.cast(value, Scalar::U64),
        };
        (word, scalar)
    }

    /// One of two values.
    pub fn select(&mut self, condition: Value, first: Value, second: Value) -> Value {
        let value_type = self.type_of(first).clone();
        self.define(value_type, Operation::Select(condition, first, second))
    }

    /// A mathematical function.
    ///
    /// # Panics
    /// If there are no operands.
    pub fn math(&mut self, function: MathFunction, operands: &[Value]) -> Value {
        if let Some(half) = self.half_of(operands[0]) {
            return self.math_of_halves(function, operands, half);
        }
        let value_type = if function.is_predicate() {
            Scalar::Bool.into()
        } else {
            self.type_of(operands[0]).clone()
        };
        self.define(value_type, Operation::Math(function, operands.to_vec()))
    }

    /// The value in a place of this type.
    pub fn load(&mut self, place: Place, value_type: Type) -> Value {
        self.define(value_type, Operation::Load(place))
    }

    /// The value of a variable.
    ///
    /// # Panics
    /// If the function has no such variable.
    pub fn load_local(&mut self, local: LocalId) -> Value {
        let value_type = self.function.locals[local.0 as usize].local_type.clone();
        self.load(Place::local(local), value_type)
    }

    /// The number of elements of a slice.
    pub fn length(&mut self, slice: Value) -> Value {
        self.define(Scalar::Index.into(), Operation::Length(slice))
    }

    /// The number of elements of a shared array.
    pub fn shared_length(&mut self, shared: SharedId) -> Value {
        self.define(Scalar::Index.into(), Operation::SharedLength(shared))
    }

    /// A slice of an array-like place.
    pub fn slice(
        &mut self,
        place: Place,
        range: Option<(Value, Value)>,
        element: Type,
        space: Space,
        mutable: bool,
    ) -> Value {
        self.define(
            slice(element, space, mutable),
            Operation::Slice {
                place,
                range,
                checked: true,
            },
        )
    }

    /// Part of an array-like place, which is inside: start and end.
    pub fn slice_within(
        &mut self,
        place: Place,
        range: (Value, Value),
        element: Type,
        space: Space,
        mutable: bool,
    ) -> Value {
        self.define(
            slice(element, space, mutable),
            Operation::Slice {
                place,
                range: Some(range),
                checked: false,
            },
        )
    }

    /// A struct of its fields.
    pub fn structure(&mut self, structure: StructId, fields: &[Value]) -> Value {
        self.define(
            Type::Struct(structure),
            Operation::Struct(structure, fields.to_vec()),
        )
    }

    /// A field of a struct value.
    pub fn field(&mut self, value: Value, field: u32, field_type: Type) -> Value {
        self.define(field_type, Operation::Field(value, field))
    }

    /// An array of its elements.
    pub fn array(&mut self, element: Type, elements: &[Value]) -> Value {
        self.define(
            Type::Array(Box::new(element.clone()), elements.len() as u64),
            Operation::Array(element, elements.to_vec()),
        )
    }

    /// An array of equal elements.
    pub fn repeat(&mut self, element: Value, count: u64) -> Value {
        let element_type = self.type_of(element).clone();
        self.define(
            Type::Array(Box::new(element_type), count),
            Operation::Repeat(element, count),
        )
    }

    /// A call of a device function with this result.
    pub fn call(&mut self, function: FunctionId, arguments: &[Value], result: Type) -> Value {
        self.define(result, Operation::Call(function, arguments.to_vec()))
    }

    /// This thread's index.
    pub fn index(&mut self, origin: Origin, unit: Unit, dimension: u8) -> Value {
        self.define(
            Scalar::Index.into(),
            Operation::Index(origin, unit, dimension),
        )
    }

    /// The number of units of an origin.
    pub fn extent(&mut self, origin: Origin, unit: Unit, dimension: u8) -> Value {
        self.define(
            Scalar::Index.into(),
            Operation::Extent(origin, unit, dimension),
        )
    }

    /// An atomic operation on a place of this type: gives the old value, of a store nothing.
    pub fn atomic(
        &mut self,
        operation: AtomicOperation,
        place: Place,
        operands: &[Value],
        scope: Scope,
        value_type: Type,
    ) -> Value {
        let given = match operation {
            AtomicOperation::Store => Type::Unit,
            _ => value_type,
        };
        self.define(
            given,
            Operation::Atomic {
                operation,
                place,
                operands: operands.to_vec(),
                scope,
            },
        )
    }

    /// Something that the threads of a warp do together.
    ///
    /// # Panics
    /// If a shuffle has no operand.
    pub fn warp(&mut self, operation: WarpOperation, operands: &[Value]) -> Value {
        let value_type = match operation.result() {
            Some(scalar) => scalar.into(),
            None => self.type_of(operands[0]).clone(),
        };
        self.define(value_type, Operation::Warp(operation, operands.to_vec()))
    }

    /// A barrier that counts.
    pub fn barrier_count(&mut self, predicate: Value) -> Value {
        self.define(Scalar::Index.into(), Operation::BarrierCount(predicate))
    }

    /// A scalar, of which it is vouched that it is the same for all threads of the block that come
    /// here.
    pub fn assume_uniform(&mut self, value: Value) -> Value {
        let value_type = self.type_of(value).clone();
        self.define(value_type, Operation::AssumeUniform(value))
    }

    /// The time of a clock.
    pub fn clock(&mut self) -> Value {
        self.define(Scalar::U64.into(), Operation::Clock)
    }

    /// A property of the target.
    pub fn property(&mut self, property: Property) -> Value {
        self.define(Scalar::Bool.into(), Operation::Property(property))
    }

    // Statements.

    /// Adds a statement.
    ///
    /// # Panics
    /// If [`end_block`](Self::end_block) was called more often than
    /// [`begin_block`](Self::begin_block).
    pub fn push(&mut self, statement: Statement) {
        self.blocks
            .last_mut()
            .expect("a block is being written")
            .push(statement);
    }

    /// Begins a block: the next statements go there.
    pub fn begin_block(&mut self) {
        self.blocks.push(Block::new());
    }

    /// Ends the block that was begun last, and hands it out.
    ///
    /// # Panics
    /// If none was begun.
    pub fn end_block(&mut self) -> Block {
        self.blocks.pop().expect("a block is being written")
    }

    /// The number of statements so far of the block that is being written.
    #[must_use]
    pub fn statements(&self) -> usize {
        self.blocks.last().map_or(0, Vec::len)
    }

    /// Takes back the statements that the block that is being written has after so many.
    pub fn take_back(&mut self, first: usize) -> Block {
        let block = self.blocks.last_mut();
        block.map_or_else(Block::new, |block| block.split_off(first.min(block.len())))
    }

    /// The block that a closure writes.
    pub fn block(&mut self, write: impl FnOnce(&mut Self)) -> Block {
        self.begin_block();
        write(self);
        self.end_block()
    }

    /// The number of a new loop.
    pub fn loop_id(&mut self) -> LoopId {
        self.loops += 1;
        LoopId(self.loops - 1)
    }

    /// A new variable, whose [`Statement::Local`] is still to come.
    pub fn declare(&mut self, name: Name, local_type: Type) -> LocalId {
        self.function.locals.push(Local { local_type, name });
        LocalId(number(self.function.locals.len() - 1))
    }

    /// A variable with a first value.
    pub fn local(&mut self, name: Name, initial: Value) -> LocalId {
        let local = self.declare(name, self.type_of(initial).clone());
        self.push(Statement::Local {
            local,
            initial: Some(initial),
        });
        local
    }

    /// A variable without a value so far.
    pub fn uninitialised(&mut self, name: Name, local_type: Type) -> LocalId {
        let local = self.declare(name, local_type);
        self.push(Statement::Local {
            local,
            initial: None,
        });
        local
    }

    /// Writes a place.
    pub fn store(&mut self, place: Place, value: Value) {
        let location = self.location;
        self.push(Statement::Store {
            place,
            value,
            location,
        });
    }

    /// Writes a variable.
    pub fn store_local(&mut self, local: LocalId, value: Value) {
        self.store(Place::local(local), value);
    }

    /// `if`.
    pub fn if_else(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let location = self.location;
        let then = self.block(then);
        let otherwise = self.block(otherwise);
        self.push(Statement::If {
            condition,
            then,
            otherwise,
            location,
        });
    }

    /// `if`, of blocks that are written.
    pub fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        let location = self.location;
        self.push(Statement::If {
            condition,
            then,
            otherwise,
            location,
        });
    }

    /// `if` without `else`.
    pub fn if_then(&mut self, condition: Value, then: impl FnOnce(&mut Self)) {
        self.if_else(condition, then, |_| ());
    }

    /// `loop`.
    pub fn repeat_forever(&mut self, body: impl FnOnce(&mut Self, LoopId)) {
        self.repeat_with_step(body, |_| ());
    }

    /// `loop` with a step between two rounds.
    pub fn repeat_with_step(
        &mut self,
        body: impl FnOnce(&mut Self, LoopId),
        step: impl FnOnce(&mut Self),
    ) {
        let id = self.loop_id();
        let body = self.block(|f| body(f, id));
        let step = self.block(step);
        self.push(Statement::Loop { id, body, step });
    }

    /// `while`: the condition is written at the beginning of each round.
    pub fn while_loop(
        &mut self,
        condition: impl FnOnce(&mut Self) -> Value,
        body: impl FnOnce(&mut Self, LoopId),
    ) {
        self.repeat_forever(|f, id| {
            let condition = condition(f);
            f.if_else(condition, |_| (), |f| f.push(Statement::Break(id)));
            body(f, id);
        });
    }

    /// `for` over the integers from `start` up to `end`, exclusive; of any one integer type.
    pub fn for_range(
        &mut self,
        name: &'static str,
        start: Value,
        end: Value,
        body: impl FnOnce(&mut Self, LoopId, Value),
    ) {
        let counter = self.local(None, start);
        let counter_type = self.type_of(start).clone();
        self.repeat_with_step(
            |f, id| {
                let now = f.load_local(counter);
                let goes_on = f.binary(BinaryOperation::Less, now, end);
                f.if_else(goes_on, |_| (), |f| f.push(Statement::Break(id)));
                let now = f.load_local(counter);
                f.name(now, name);
                body(f, id, now);
            },
            |f| {
                let now = f.load_local(counter);
                let scalar = counter_type.scalar().unwrap_or(Scalar::Index);
                let one = f.literal(scalar, 1);
                let next = f.binary(BinaryOperation::Add, now, one);
                f.store_local(counter, next);
            },
        );
    }

    /// A loop over this thread's own positions of an extent, with names for the position's
    /// components.
    pub fn elements(
        &mut self,
        names: &[&'static str],
        extent: &[Value],
        body: impl FnOnce(&mut Self, LoopId, &[Value]),
    ) {
        let id = self.loop_id();
        let position: Vec<_> = (0..extent.len())
            .map(|d| self.value(Scalar::Index.into(), names.get(d).copied()))
            .collect();
        let body = self.block(|f| body(f, id, &position));
        self.push(Statement::Elements {
            id,
            position,
            extent: extent.to_vec(),
            body,
        });
    }

    /// Leaves the function with a result.
    pub fn give(&mut self, result: Value) {
        self.leave(Some(result));
    }

    /// Leaves the function, with its result if it has one.
    pub fn leave(&mut self, value: Option<Value>) {
        let location = self.location;
        self.push(Statement::Return { value, location });
    }

    /// Waits for the threads of the block.
    pub fn barrier(&mut self) {
        self.push(Statement::Barrier(self.location));
    }

    /// Waits for the threads of the grid.
    pub fn grid_barrier(&mut self) {
        self.push(Statement::GridBarrier(self.location));
    }

    // The end.

    /// The finished device function.
    ///
    /// # Panics
    /// If a block was begun and not ended.
    #[must_use]
    pub fn function(mut self) -> Function {
        assert_eq!(self.blocks.len(), 1, "every block that was begun is ended");
        self.function.body = self.end_block();
        self.function
    }

    /// The finished kernel, for a grid of so many dimensions.
    ///
    /// # Panics
    /// If a block was begun and not ended.
    #[must_use]
    pub fn kernel(mut self, dimensions: u8) -> KernelInfo {
        let parameters = std::mem::take(&mut self.entry);
        KernelInfo {
            function: self.function(),
            parameters,
            dimensions,
            bounds: LaunchBounds::default(),
        }
    }
}

/// The type of a slice.
fn slice(element: Type, space: Space, mutable: bool) -> Type {
    Type::Slice {
        element: Box::new(element),
        space,
        mutable,
    }
}

/// A number of something in a function or module, of which there are never as many as a `u32`
/// counts.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 of anything in a module")
}

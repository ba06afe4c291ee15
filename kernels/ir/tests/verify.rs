//! Each rule of `Module::verify` has a module that breaks it and nothing else.

use quipu_kernel_ir::{
    AtomicOperation, BinaryOperation, FunctionBuilder, FunctionId, Literal, LocalId, Location,
    LoopId, MathFunction, Module, ModuleBuilder, Operation, Origin, Parameter, ParameterKind,
    Place, Projection, Root, Scalar, Scope, SharedId, SharedLength, Space, Statement, StructId,
    Type, UnaryOperation, Unit, Value, WarpOperation,
};

/// A module whose kernel of one dimension does what `write` writes.
fn kernel(write: impl FnOnce(&mut FunctionBuilder)) -> Module {
    let mut f = FunctionBuilder::new("broken");
    write(&mut f);
    ModuleBuilder::new().finish(f.kernel(1))
}

/// A module with a device function `helper` that gives `result`.
fn with_function(result: Type, write: impl FnOnce(&mut FunctionBuilder)) -> Module {
    let mut helper = FunctionBuilder::new("helper").returning(result);
    write(&mut helper);
    let mut module = ModuleBuilder::new();
    module.function(helper.function());
    module.finish(FunctionBuilder::new("broken").kernel(1))
}

#[track_caller]
fn refused(module: &Module, problem: &str) {
    match module.verify() {
        Ok(()) => panic!("not refused, though: {problem}"),
        Err(error) => assert!(
            error.problem.contains(problem),
            "refused for another reason: {error}\nexpected: {problem}"
        ),
    }
}

fn f32_type() -> Type {
    Scalar::F32.into()
}

macro_rules! broken {
    ($($name:ident: $module:expr, $problem:expr;)*) => {$(
        #[test]
        fn $name() {
            refused(&$module, $problem);
        }
    )*};
}

// Modules.
broken! {
    struct_without_fields: {
        let mut module = ModuleBuilder::new();
        module.structure::<&str>("empty", []);
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "has no fields";
    struct_aligned_to_too_much: {
        let mut module = ModuleBuilder::new();
        module.aligned_structure("point", [("x", f32_type())], 32);
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "a power of two up to 16 is possible";
    struct_of_a_later_struct: {
        let mut module = ModuleBuilder::new();
        module.structure("first", [("second", Type::Struct(StructId(1)))]);
        module.structure("second", [("x", f32_type())]);
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "no struct 1 before it";
    struct_of_a_slice: {
        let mut module = ModuleBuilder::new();
        let slice = Type::Slice { element: Box::new(f32_type()), space: Space::Global, mutable: false };
        module.structure("first", [("slice", slice)]);
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "neither number, struct nor array";
    shared_array_of_indices: {
        let mut module = ModuleBuilder::new();
        module.shared(Some("sums"), Scalar::Index.into(), SharedLength::Launch);
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "`usize` is not a type of memory";
    shared_array_of_nothing: {
        let mut module = ModuleBuilder::new();
        module.shared(Some("sums"), f32_type(), SharedLength::Fixed(0));
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "has no elements";
    buffer_of_indices: kernel(|f| { f.buffer("x", Scalar::SignedIndex.into(), false); }), "not a type of memory";
    buffer_in_shared_memory: {
        let mut module = kernel(|f| { f.buffer("x", f32_type(), false); });
        module.kernel.function.values[0].value_type =
            Type::Slice { element: Box::new(f32_type()), space: Space::Shared, mutable: false };
        module
    }, "not a slice in global memory";
    uniform_struct_of_indices: {
        let mut module = ModuleBuilder::new();
        let pair = module.structure("pair", [("i", Scalar::Index.into())]);
        let mut f = FunctionBuilder::new("k");
        f.uniform("pair", Type::Struct(pair));
        module.finish(f.kernel(1))
    }, "not a type of memory";
    kernel_parameters_that_differ: {
        let mut module = kernel(|f| { f.uniform("a", f32_type()); });
        module.kernel.parameters.clear();
        module
    }, "differ";
    view_without_strides: {
        let mut module = kernel(|f| { f.view("x", f32_type(), false, 1); });
        module.kernel.function.parameters.pop();
        if let ParameterKind::View { strides, .. } = &mut module.kernel.parameters[0].kind {
            strides.clear();
        }
        module
    }, "an extent and a stride";
    view_with_extents_of_u32: {
        let mut module = kernel(|f| { f.view("x", f32_type(), false, 1); });
        module.kernel.function.values[1].value_type = Scalar::U32.into();
        module
    }, "of type `usize`";
    parameter_that_there_is_not: {
        let mut module = kernel(|_| ());
        module.kernel.parameters.push(Parameter { name: None, kind: ParameterKind::Uniform(Value(3)) });
        module.kernel.function.parameters.push(Value(3));
        module
    }, "no value 3";
    kernel_of_no_dimension: ModuleBuilder::new().finish(FunctionBuilder::new("k").kernel(0)),
        "at least one dimension";
    kernel_that_gives_something: ModuleBuilder::new().finish(
        FunctionBuilder::new("k").returning(f32_type()).kernel(1)), "a kernel gives nothing";
    recursion: {
        let mut module = ModuleBuilder::new();
        for callee in [1, 0] {
            let mut f = FunctionBuilder::new("f");
            f.call(FunctionId(callee), &[], Type::Unit);
            module.function(f.function());
        }
        module.finish(FunctionBuilder::new("k").kernel(1))
    }, "no recursion";
    call_of_no_function: with_function(Type::Unit, |f| { f.call(FunctionId(7), &[], Type::Unit); }),
        "no function 7";
}

// Functions.
broken! {
    value_that_there_is_not: kernel(|f| { f.push(Statement::Define {
        value: Value(9), operation: Operation::Literal(Literal { scalar: Scalar::I32, bits: 0 }) }); }),
        "no value 9";
    value_defined_twice: kernel(|f| {
        let value = f.i32_literal(1);
        f.push(Statement::Define { value, operation: Operation::Literal(Literal { scalar: Scalar::I32, bits: 0 }) });
    }), "a second time";
    use_before_definition: kernel(|f| {
        let later = f.value(Scalar::I32.into(), None);
        f.unary(UnaryOperation::Negate, later);
    }), "before it is defined";
    use_outside_of_its_block: kernel(|f| {
        let condition = f.bool_literal(true);
        let mut inner = None;
        f.if_then(condition, |f| inner = Some(f.i32_literal(1)));
        f.unary(UnaryOperation::Negate, inner.unwrap());
    }), "outside of the block";
    use_of_the_body_in_the_step: kernel(|f| {
        let mut inner = None;
        f.repeat_with_step(
            |f, id| { inner = Some(f.i32_literal(1)); f.push(Statement::Break(id)); },
            |_| ());
        let Some(Statement::Loop { id, body, mut step }) = Some(f.end_block().pop().unwrap()) else { panic!() };
        f.begin_block();
        let value = f.value(Scalar::I32.into(), None);
        step.push(Statement::Define { value, operation: Operation::Unary(UnaryOperation::Negate, inner.unwrap()) });
        f.push(Statement::Loop { id, body, step });
    }), "outside of the block";
    declared_type_that_differs: kernel(|f| {
        f.define(Scalar::U32.into(), Operation::Literal(Literal { scalar: Scalar::I32, bits: 0 }));
    }), "declared as `u32`";
    value_of_an_unknown_struct: kernel(|f| { f.uninitialised(None, Type::Struct(StructId(2))); }),
        "no struct 2";
    function_that_gives_a_slice: with_function(
        Type::Slice { element: Box::new(f32_type()), space: Space::Private, mutable: false }, |_| ()),
        "it gives a slice";
    parameter_of_no_type: with_function(Type::Unit, |f| { f.parameter("unit", Type::Unit); }),
        "parameter of type `()`";
    operand_of_no_type: {
        let mut module = ModuleBuilder::new();
        module.function(FunctionBuilder::new("nothing").function());
        let mut f = FunctionBuilder::new("k");
        let nothing = f.call(FunctionId(0), &[], Type::Unit);
        f.define(Type::Unit, Operation::Select(nothing, nothing, nothing));
        module.finish(f.kernel(1))
    }, "of type `()` is an operand";
    end_without_a_result: with_function(f32_type(), |f| {
        let condition = f.bool_literal(true);
        f.if_then(condition, |f| { let one = f.f32_literal(1.0); f.give(one); });
    }), "can be reached without a `Return`";
    wrong_result: with_function(f32_type(), |f| { let one = f.i32_literal(1); f.give(one); }),
        "gives a `i32`";
    no_result: with_function(f32_type(), |f| f.leave(None)), "gives a `()`";
}

// Variables.
broken! {
    variable_that_there_is_not: kernel(|f| { f.load(Place::local(LocalId(4)), f32_type()); }), "no variable 4";
    variable_before_its_begin: kernel(|f| {
        let local = f.declare(None, f32_type());
        f.load_local(local);
    }), "has not begun";
    variable_after_its_block: kernel(|f| {
        let condition = f.bool_literal(true);
        let mut inner = None;
        f.if_then(condition, |f| { let one = f.i32_literal(1); inner = Some(f.local(None, one)); });
        f.load_local(inner.unwrap());
    }), "has not begun";
    variable_begun_twice: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.local(None, one);
        f.push(Statement::Local { local, initial: None });
    }), "begins a second time";
    variable_of_another_type: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.declare(None, f32_type());
        f.push(Statement::Local { local, initial: Some(one) });
    }), "begins with a `i32`";
    load_before_any_store: kernel(|f| {
        let local = f.uninitialised(None, f32_type());
        f.load_local(local);
    }), "may hold nothing";
    load_after_a_store_on_one_way: kernel(|f| {
        let local = f.uninitialised(None, f32_type());
        let condition = f.bool_literal(true);
        f.if_then(condition, |f| { let one = f.f32_literal(1.0); f.store_local(local, one); });
        f.load_local(local);
    }), "may hold nothing";
    load_after_a_break_before_the_store: kernel(|f| {
        let local = f.uninitialised(None, f32_type());
        let condition = f.bool_literal(true);
        f.repeat_forever(|f, id| {
            f.if_then(condition, |f| f.push(Statement::Break(id)));
            let one = f.f32_literal(1.0);
            f.store_local(local, one);
        });
        f.load_local(local);
    }), "may hold nothing";
    load_after_an_element_loop: kernel(|f| {
        let local = f.uninitialised(None, f32_type());
        let extent = f.index_literal(1);
        f.elements(&["i"], &[extent], |f, _, _| { let one = f.f32_literal(1.0); f.store_local(local, one); });
        f.load_local(local);
    }), "may hold nothing";
    store_of_a_part_of_nothing: kernel(|f| {
        let array = f.uninitialised(None, Type::Array(Box::new(f32_type()), 2));
        let (zero, one) = (f.index_literal(0), f.f32_literal(1.0));
        f.store(Place::local(array).at(zero), one);
    }), "may hold nothing";
}

// Loops.
broken! {
    break_without_loop: kernel(|f| f.push(Statement::Break(LoopId(0)))), "which it is not in";
    continue_of_a_loop_that_is_over: kernel(|f| {
        let mut over = None;
        f.repeat_forever(|f, id| { over = Some(id); f.push(Statement::Break(id)); });
        f.push(Statement::Continue(over.unwrap()));
    }), "which it is not in";
    loops_of_one_number: kernel(|f| {
        for _ in 0..2 {
            let body = f.block(|f| f.push(Statement::Break(LoopId(0))));
            f.push(Statement::Loop { id: LoopId(0), body, step: Vec::new() });
        }
    }), "two loops with the number 0";
    break_in_a_step: kernel(|f| {
        let id = f.loop_id();
        f.push(Statement::Loop { id, body: Vec::new(), step: vec![Statement::Break(id)] });
    }), "in that loop's step";
    continue_in_a_step: kernel(|f| {
        let id = f.loop_id();
        f.push(Statement::Loop { id, body: Vec::new(), step: vec![Statement::Continue(id)] });
    }), "in that loop's step";
    return_in_a_step: kernel(|f| {
        let id = f.loop_id();
        f.push(Statement::Loop { id, body: Vec::new(), step: vec![Statement::Return { value: None, location: None }] });
    }), "`Return` in the step";
    element_loop_of_other_dimensions: kernel(|f| {
        let extent = f.index_literal(1);
        f.elements(&["i", "j"], &[extent, extent], |_, _, _| ());
    }), "2 positions";
    element_loop_over_a_float: kernel(|f| {
        let extent = f.f32_literal(1.0);
        f.elements(&["i"], &[extent], |_, _, _| ());
    }), "an extent of type `f32`";
    element_position_of_another_type: {
        let mut module = kernel(|f| {
            let extent = f.index_literal(1);
            f.elements(&["i"], &[extent], |_, _, _| ());
        });
        module.kernel.function.values[1].value_type = f32_type();
        module
    }, "a position of type `f32`";
    element_position_after_its_loop: kernel(|f| {
        let extent = f.index_literal(1);
        let mut inner = None;
        f.elements(&["i"], &[extent], |_, _, position| inner = Some(position[0]));
        f.unary(UnaryOperation::Not, inner.unwrap());
    }), "outside of the block";
    condition_of_a_number: kernel(|f| { let one = f.i32_literal(1); f.if_then(one, |_| ()); }),
        "a condition of type `i32`";
    assertion_of_a_number: kernel(|f| {
        let condition = f.i32_literal(1);
        f.push(Statement::Assert { condition, message: "so".into(), values: vec![], shown: vec![], location: None });
    }), "a condition of type `i32`";
    print_of_too_little: kernel(|f| f.push(Statement::Print { format: "{}".into(), values: vec![], location: None })),
        "1 `{}` is printed with 0 values";
    print_of_an_array: kernel(|f| {
        let one = f.i32_literal(1);
        let array = f.repeat(one, 2);
        f.push(Statement::Print { format: "{}".into(), values: vec![array], location: None });
    }), "not a scalar";
}

// Places.
broken! {
    store_through_a_read_only_slice: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let (zero, one) = (f.index_literal(0), f.f32_literal(1.0));
        f.store(Place::element(x, zero), one);
    }), "may only be read";
    store_of_another_type: kernel(|f| {
        let x = f.buffer("x", f32_type(), true);
        let zero = f.index_literal(0);
        f.store(Place::element(x, zero), zero);
    }), "a `usize` is stored to a place of type `f32`";
    store_to_a_slice_as_a_whole: kernel(|f| {
        let x = f.buffer("x", f32_type(), true);
        f.store(Place::slice(x), x);
    }), "it takes an index";
    load_of_a_slice_as_a_whole: kernel(|f| {
        let x = f.buffer("x", f32_type(), true);
        let slice = f.type_of(x).clone();
        f.load(Place::slice(x), slice);
    }), "a slice as a whole is loaded";
    place_in_a_number: kernel(|f| {
        let one = f.i32_literal(1);
        f.load(Place::slice(one).at(one), Scalar::I32.into());
    }), "which is not a slice";
    place_in_no_shared_array: kernel(|f| {
        let zero = f.index_literal(0);
        f.load(Place::shared(SharedId(1)).at(zero), f32_type());
    }), "no block-shared array 1";
    element_of_a_number: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.local(None, one);
        f.load(Place::local(local).at(one), Scalar::I32.into());
    }), "an element of a `i32`";
    element_of_a_slice_in_a_variable: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let local = f.local(None, x);
        let zero = f.index_literal(0);
        f.load(Place::local(local).at(zero), f32_type());
    }), "an element of a `&[f32]`";
    index_of_a_float: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let zero = f.f32_literal(0.0);
        f.load(Place::element(x, zero), f32_type());
    }), "which is not an integer";
    field_of_a_number: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.local(None, one);
        f.load(Place::local(local).field(0), Scalar::I32.into());
    }), "field 0 of a `i32`";
    field_that_a_struct_has_not: {
        let mut module = ModuleBuilder::new();
        let point = module.structure("point", [("x", f32_type())]);
        let mut f = FunctionBuilder::new("k");
        let points = f.buffer("points", Type::Struct(point), false);
        let zero = f.index_literal(0);
        f.load(Place::element(points, zero).field(1), f32_type());
        module.finish(f.kernel(1))
    }, "`point` has no field 1";
    undefined_index: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let index = f.value(Scalar::Index.into(), None);
        f.load(Place { root: Root::Slice(x), path: vec![Projection::Index { index, checked: true }] }, f32_type());
    }), "before it is defined";
    slice_of_a_number: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.local(None, one);
        f.slice(Place::local(local), None, Scalar::I32.into(), Space::Private, false);
    }), "a slice of a `i32`";
    slice_that_may_be_written_of_one_that_may_not: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        f.slice(Place::slice(x), None, f32_type(), Space::Global, true);
    }), "declared as `&mut [f32]`";
    slice_with_a_range_of_u32: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let one = f.u32_literal(1);
        f.slice(Place::slice(x), Some((one, one)), f32_type(), Space::Global, false);
    }), "`u32` instead of `usize`";
}

// Operations.
broken! {
    literal_too_wide: kernel(|f| { f.literal(Scalar::U8, 256); }), "not those of a `u8`";
    literal_not_sign_extended: kernel(|f| { f.literal(Scalar::I32, 0xffff_ffff); }), "not those of a `i32`";
    literal_bool_of_two: kernel(|f| { f.literal(Scalar::Bool, 2); }), "not those of a `bool`";
    negation_of_unsigned: kernel(|f| { let one = f.u32_literal(1); f.unary(UnaryOperation::Negate, one); }),
        "Negate of a `u32`";
    not_of_a_float: kernel(|f| { let one = f.f32_literal(1.0); f.unary(UnaryOperation::Not, one); }),
        "Not of a `f32`";
    bits_of_a_float: kernel(|f| { let one = f.f32_literal(1.0); f.unary(UnaryOperation::CountOnes, one); }),
        "CountOnes of a `f32`";
    sum_of_two_types: kernel(|f| {
        let (one, two) = (f.u32_literal(1), f.i32_literal(1));
        f.binary(BinaryOperation::Add, one, two);
    }), "Add of a `u32` and a `i32`";
    sum_of_truths: kernel(|f| { let yes = f.bool_literal(true); f.binary(BinaryOperation::Add, yes, yes); }),
        "Add of `bool`";
    bits_of_floats: kernel(|f| { let one = f.f32_literal(1.0); f.binary(BinaryOperation::And, one, one); }),
        "And of `f32`";
    shift_by_a_float: kernel(|f| {
        let (one, amount) = (f.u32_literal(1), f.f32_literal(1.0));
        f.binary(BinaryOperation::ShiftLeft, one, amount);
    }), "which is not an integer";
    rotation_of_a_float: kernel(|f| {
        let (one, amount) = (f.u32_literal(1), f.f32_literal(1.0));
        f.binary(BinaryOperation::RotateLeft, amount, one);
    }), "RotateLeft of `f32`";
    saturation_of_floats: kernel(|f| { let one = f.f32_literal(1.0); f.binary(BinaryOperation::SaturatingAdd, one, one); }),
        "SaturatingAdd of `f32`";
    high_half_of_bytes: kernel(|f| { let one = f.literal(Scalar::U8, 1); f.binary(BinaryOperation::MultiplyHigh, one, one); }),
        "MultiplyHigh of `u8`";
    sum_of_arrays: kernel(|f| {
        let one = f.i32_literal(1);
        let array = f.repeat(one, 2);
        f.binary(BinaryOperation::Add, array, array);
    }), "which is not a scalar";
    cast_to_bool: kernel(|f| { let one = f.i32_literal(1); f.cast(one, Scalar::Bool); }), "cannot be cast";
    cast_of_bool_to_float: kernel(|f| { let yes = f.bool_literal(true); f.cast(yes, Scalar::F32); }), "cannot be cast";
    bits_of_another_size: kernel(|f| { let one = f.f32_literal(1.0); f.bitcast(one, Scalar::U64); }), "are not those of";
    bits_of_an_index: kernel(|f| { let one = f.index_literal(1); f.bitcast(one, Scalar::U64); }), "are not those of";
    bits_to_a_bool: kernel(|f| { let one = f.literal(Scalar::U8, 1); f.bitcast(one, Scalar::Bool); }), "are not those of";
    selection_by_a_number: kernel(|f| { let one = f.i32_literal(1); f.select(one, one, one); }), "instead of `bool`";
    selection_of_two_types: kernel(|f| {
        let (yes, one, two) = (f.bool_literal(true), f.i32_literal(1), f.u32_literal(2));
        f.select(yes, one, two);
    }), "a selection of `i32` or `u32`";
    selection_of_slices: kernel(|f| {
        let x = f.buffer("x", f32_type(), false);
        let yes = f.bool_literal(true);
        f.select(yes, x, x);
    }), "a selection of `&[f32]`";
    mathematics_of_integers: kernel(|f| { let one = f.i32_literal(1); f.math(MathFunction::Sqrt, &[one]); }),
        "which is not a float";
    mathematics_of_too_many: kernel(|f| { let one = f.f32_literal(1.0); f.math(MathFunction::Sqrt, &[one, one]); }),
        "Sqrt takes 1 operands, not 2";
    mathematics_of_two_types: kernel(|f| {
        let (one, two) = (f.f32_literal(1.0), f.literal(Scalar::F64, 0));
        f.math(MathFunction::Powf, &[one, two]);
    }), "`f64` instead of `f32`";
    arithmetic_of_halves: kernel(|f| {
        let one = f.literal(Scalar::F16, 0x3c00);
        f.define(Scalar::F16.into(), Operation::Binary(BinaryOperation::Add, one, one));
    }), "Add of `f16`";
    negation_of_halves: kernel(|f| {
        let one = f.literal(Scalar::Bf16, 0x3f80);
        f.define(Scalar::Bf16.into(), Operation::Unary(UnaryOperation::Negate, one));
    }), "Negate of a `bf16`";
    mathematics_of_halves: kernel(|f| {
        let one = f.literal(Scalar::F16, 0x3c00);
        f.define(Scalar::F16.into(), Operation::Math(MathFunction::Sqrt, vec![one]));
    }), "which is not a float of 32 or 64 bits";
    cast_of_halves: kernel(|f| {
        let one = f.literal(Scalar::F16, 0x3c00);
        f.define(Scalar::I32.into(), Operation::Cast(one, Scalar::I32));
    }), "by way of `f32`";
    half_of_too_many_bits: kernel(|f| { f.literal(Scalar::F16, 0x1_0000); }), "are not those of a `f16`";
    assertion_of_three_words: kernel(|f| {
        let (condition, word) = (f.bool_literal(true), f.literal(Scalar::U64, 1));
        let shown = vec![Scalar::U64; 3];
        f.push(Statement::Assert { condition, message: "so".into(), values: vec![word; 3], shown, location: None });
    }), "it may show two";
    length_of_a_number: kernel(|f| { let one = f.i32_literal(1); f.length(one); }), "the length of a `i32`";
    length_of_no_shared_array: kernel(|f| { f.shared_length(SharedId(0)); }), "no block-shared array 0";
    struct_of_too_little: {
        let mut module = ModuleBuilder::new();
        let point = module.structure("point", [("x", f32_type())]);
        let mut f = FunctionBuilder::new("k");
        f.structure(point, &[]);
        module.finish(f.kernel(1))
    }, "has 1 fields, not 0";
    struct_of_another_type: {
        let mut module = ModuleBuilder::new();
        let point = module.structure("point", [("x", f32_type())]);
        let mut f = FunctionBuilder::new("k");
        let one = f.i32_literal(1);
        f.structure(point, &[one]);
        module.finish(f.kernel(1))
    }, "`i32` is given where `f32`";
    struct_that_there_is_not: kernel(|f| { f.structure(StructId(0), &[]); }), "no struct 0";
    array_of_nothing: kernel(|f| { f.define(
        Type::Array(Box::new(f32_type()), 1), Operation::Array(f32_type(), vec![])); }), "at least one element";
    array_of_two_types: kernel(|f| {
        let (one, two) = (f.i32_literal(1), f.u32_literal(1));
        f.array(Scalar::I32.into(), &[one, two]);
    }), "`u32` is given where `i32`";
    repetition_of_slices: {
        let mut module = kernel(|f| {
            let x = f.buffer("x", f32_type(), false);
            f.define(Type::Unit, Operation::Repeat(x, 2));
        });
        module.kernel.function.values[1].value_type = f32_type();
        module
    }, "an array of `&[f32]`";
    field_of_no_struct: kernel(|f| { let one = f.i32_literal(1); f.field(one, 0, f32_type()); }), "not a struct";
    call_with_too_little: {
        let mut module = ModuleBuilder::new();
        let mut helper = FunctionBuilder::new("helper");
        helper.parameter("x", f32_type());
        let helper = module.function(helper.function());
        let mut f = FunctionBuilder::new("k");
        f.call(helper, &[], Type::Unit);
        module.finish(f.kernel(1))
    }, "`helper` takes 1 arguments, not 0";
    call_with_another_type: {
        let mut module = ModuleBuilder::new();
        let mut helper = FunctionBuilder::new("helper");
        helper.parameter("x", f32_type());
        let helper = module.function(helper.function());
        let mut f = FunctionBuilder::new("k");
        let one = f.i32_literal(1);
        f.call(helper, &[one], Type::Unit);
        module.finish(f.kernel(1))
    }, "`i32` is given where `f32`";
    call_with_a_slice_that_may_only_be_read: {
        let mut module = ModuleBuilder::new();
        let mut helper = FunctionBuilder::new("helper");
        helper.parameter("x", Type::Slice { element: Box::new(f32_type()), space: Space::Global, mutable: true });
        let helper = module.function(helper.function());
        let mut f = FunctionBuilder::new("k");
        let x = f.buffer("x", f32_type(), false);
        f.call(helper, &[x], Type::Unit);
        module.finish(f.kernel(1))
    }, "`&[f32]` is given where `&mut [f32]`";
    index_in_a_dimension_too_many: kernel(|f| { f.index(Origin::Grid, Unit::Threads, 1); }), "dimension 1 of a grid that has 1";
    blocks_of_a_block: kernel(|f| { f.extent(Origin::Block, Unit::Blocks, 0); }), "Block has no Blocks";
    threads_of_a_thread: kernel(|f| { f.index(Origin::Thread, Unit::Threads, 0); }), "Thread has no Threads";
    atomic_on_a_variable: kernel(|f| {
        let one = f.i32_literal(1);
        let local = f.local(None, one);
        f.atomic(AtomicOperation::Add, Place::local(local), &[one], Scope::Device, Scalar::I32.into());
    }), "global or shared memory";
    atomic_through_a_read_only_slice: kernel(|f| {
        let x = f.buffer("x", Scalar::I32.into(), false);
        let (zero, one) = (f.index_literal(0), f.i32_literal(1));
        f.atomic(AtomicOperation::Add, Place::element(x, zero), &[one], Scope::Device, Scalar::I32.into());
    }), "may be written";
    atomic_of_two_bytes: kernel(|f| {
        let x = f.buffer("x", Scalar::I16.into(), true);
        let (zero, one) = (f.index_literal(0), f.literal(Scalar::I16, 1));
        f.atomic(AtomicOperation::Add, Place::element(x, zero), &[one], Scope::Device, Scalar::I16.into());
    }), "atomic Add of `i16`";
    atomic_and_of_floats: kernel(|f| {
        let x = f.buffer("x", f32_type(), true);
        let (zero, one) = (f.index_literal(0), f.f32_literal(1.0));
        f.atomic(AtomicOperation::And, Place::element(x, zero), &[one], Scope::Device, f32_type());
    }), "atomic And of `f32`";
    atomic_increment_of_u64: kernel(|f| {
        let x = f.buffer("x", Scalar::U64.into(), true);
        let (zero, one) = (f.index_literal(0), f.literal(Scalar::U64, 1));
        f.atomic(AtomicOperation::Increment, Place::element(x, zero), &[one], Scope::Device, Scalar::U64.into());
    }), "atomic Increment of `u64`";
    atomic_exchange_of_two: kernel(|f| {
        let x = f.buffer("x", Scalar::U32.into(), true);
        let (zero, one) = (f.index_literal(0), f.u32_literal(1));
        f.atomic(AtomicOperation::CompareExchange, Place::element(x, zero), &[one], Scope::Device, Scalar::U32.into());
    }), "takes 2 operands, not 1";
    atomic_load_with_an_operand: kernel(|f| {
        let x = f.buffer("x", Scalar::U32.into(), true);
        let (zero, one) = (f.index_literal(0), f.u32_literal(1));
        f.atomic(AtomicOperation::Load, Place::element(x, zero), &[one], Scope::Device, Scalar::U32.into());
    }), "takes 0 operands, not 1";
    atomic_load_of_two_bytes: kernel(|f| {
        let x = f.buffer("x", Scalar::U16.into(), true);
        let zero = f.index_literal(0);
        f.atomic(AtomicOperation::Load, Place::element(x, zero), &[], Scope::Device, Scalar::U16.into());
    }), "atomic Load of `u16`";
    atomic_with_another_type: kernel(|f| {
        let x = f.buffer("x", Scalar::U32.into(), true);
        let (zero, one) = (f.index_literal(0), f.i32_literal(1));
        f.atomic(AtomicOperation::Add, Place::element(x, zero), &[one], Scope::Device, Scalar::U32.into());
    }), "`i32` instead of `u32`";
    atomic_of_a_struct: {
        let mut module = ModuleBuilder::new();
        let point = module.structure("point", [("x", f32_type())]);
        let mut f = FunctionBuilder::new("k");
        let x = f.buffer("x", Type::Struct(point), true);
        let zero = f.index_literal(0);
        f.atomic(AtomicOperation::Exchange, Place::element(x, zero), &[zero], Scope::Device, Type::Struct(point));
        module.finish(f.kernel(1))
    }, "a `point`, which is not a scalar";
    vote_of_numbers: kernel(|f| { let one = f.i32_literal(1); f.warp(WarpOperation::All, &[one]); }), "instead of `bool`";
    vote_of_nobody: kernel(|f| { f.define(Scalar::Bool.into(), Operation::Warp(WarpOperation::All, vec![])); }),
        "All takes 1 operands, not 0";
    shuffle_by_i32: kernel(|f| { let one = f.i32_literal(1); f.warp(WarpOperation::Shuffle, &[one, one]); }),
        "`i32` instead of `u32`";
    shuffle_of_arrays: kernel(|f| {
        let one = f.u32_literal(1);
        let array = f.repeat(one, 2);
        f.warp(WarpOperation::Shuffle, &[array, one]);
    }), "which is not a scalar";
    count_of_numbers: kernel(|f| { let one = f.i32_literal(1); f.barrier_count(one); }), "instead of `bool`";
}

#[test]
fn what_may_look_wrong_and_is_not() {
    // A variable that every way assigns, one of them by never coming here.
    let module = kernel(|f| {
        let local = f.uninitialised(Some("x"), f32_type());
        let condition = f.bool_literal(true);
        f.if_else(
            condition,
            |f| {
                let one = f.f32_literal(1.0);
                f.store_local(local, one);
            },
            |f| f.leave(None),
        );
        f.load_local(local);
        // A loop that is left after the assignment only.
        let other = f.uninitialised(Some("y"), f32_type());
        f.repeat_forever(|f, id| {
            let one = f.f32_literal(1.0);
            f.store_local(other, one);
            f.push(Statement::Break(id));
        });
        f.load_local(other);
        // What nothing comes to.
        f.leave(None);
        let third = f.uninitialised(None, f32_type());
        f.load_local(third);
    });
    module.verify().unwrap();
    // A slice that may be written is given where one is read, and the end is not reached.
    let mut builder = ModuleBuilder::new();
    let mut helper = FunctionBuilder::new("helper").returning(f32_type());
    let slice = Type::Slice {
        element: Box::new(f32_type()),
        space: Space::Global,
        mutable: false,
    };
    let parameter = helper.parameter("x", slice);
    helper.repeat_forever(|f, _| {
        let zero = f.index_literal(0);
        let first = f.load(Place::element(parameter, zero), f32_type());
        f.give(first);
    });
    let helper = builder.function(helper.function());
    let mut f = FunctionBuilder::new("k");
    let x = f.buffer("x", f32_type(), true);
    f.call(helper, &[x], f32_type());
    builder.finish(f.kernel(1)).verify().unwrap();
}

#[test]
fn errors_say_where() {
    let module = kernel(|f| {
        let yes = f.bool_literal(true);
        f.at(Some(Location {
            file: "src/kernels.rs",
            line: 7,
        }));
        f.if_then(yes, |f| {
            f.i32_literal(1);
            let one = f.u32_literal(1);
            f.unary(UnaryOperation::Negate, one);
        });
    });
    assert_eq!(
        module.verify().unwrap_err().to_string(),
        "the kernel's representation is not valid: in `broken`, body[1].then[2] (src/kernels.rs:7): Negate of a `u32`"
    );
}

/// A kernel that has a constant of a type and values, and does something with its place.
fn with_constant(
    of: Type,
    values: Vec<Literal>,
    write: impl FnOnce(&mut FunctionBuilder, Place),
) -> Module {
    let mut module = ModuleBuilder::new();
    let constant = module.constant(Some("table"), of, values);
    let mut f = FunctionBuilder::new("reads");
    write(&mut f, Place::constant(constant));
    module.finish(f.kernel(1))
}

#[test]
fn constants_are_arrays_of_so_many_finite_scalars_and_are_read() {
    let literal = |scalar, bits| Literal { scalar, bits };
    let one = literal(Scalar::F32, u64::from(1.0_f32.to_bits()));
    let pair = Type::Array(Box::new(Scalar::F32.into()), 2);
    let pairs = Type::Array(Box::new(pair.clone()), 2);
    let nothing = |_: &mut FunctionBuilder, _: Place| ();
    let read = |f: &mut FunctionBuilder, place: Place| {
        let index = f.index_literal(1);
        f.load(place.at(index), Scalar::F32.into());
    };
    with_constant(pair.clone(), vec![one; 2], read)
        .verify()
        .unwrap();
    with_constant(pairs.clone(), vec![one; 4], nothing)
        .verify()
        .unwrap();

    let infinite = literal(Scalar::F32, u64::from(f32::INFINITY.to_bits()));
    let number = literal(Scalar::U32, 1);
    let refused: [(Module, &str); 6] = [
        (
            with_constant(pairs, vec![one; 3], nothing),
            "3 values for 4 elements",
        ),
        (
            with_constant(Scalar::F32.into(), vec![one], nothing),
            "not an array of scalars",
        ),
        (
            with_constant(pair.clone(), vec![one, number], nothing),
            "a value of type `u32`",
        ),
        (
            with_constant(pair.clone(), vec![one, infinite], nothing),
            "not finite",
        ),
        (
            with_constant(pair.clone(), vec![one; 2], |f, place| {
                let (index, value) = (f.index_literal(1), f.literal(Scalar::F32, 0));
                f.store(place.at(index), value);
            }),
            "a store to a constant",
        ),
        (
            with_constant(pair, vec![one; 2], |f, place| {
                f.slice(place, None, Scalar::F32.into(), Space::Private, false);
            }),
            "a slice of a constant",
        ),
    ];
    for (module, words) in refused {
        let error = module.verify().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

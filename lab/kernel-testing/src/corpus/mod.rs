//! Kernels made by hand, each for something that printers have to get right.

use quipu_kernel_ir::{
    AtomicOperation, BinaryOperation as B, FenceOrder, FunctionBuilder, Location, Module,
    ModuleBuilder, Origin, Place, Scalar, Scope, SharedLength, Space, Statement, Type,
    UnaryOperation, Unit, Value,
};

mod flow;

pub use flow::{checks, divergent, labels, leaves, order, primes, texts, warps, words};

/// All of them with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Module)> {
    vec![
        ("saxpy", saxpy()),
        ("increment", increment(false)),
        ("increment between barriers", increment(true)),
        ("block_sum", block_sum()),
        ("classify", classify()),
        ("transpose", transpose()),
        ("four_dimensions", four_dimensions()),
        ("points", points()),
        ("labels", labels()),
        ("leaves", leaves()),
        ("histogram", histogram()),
        ("copies", copies()),
        ("count", count()),
        ("divergent", divergent()),
        ("gather", gather()),
        ("slices", slices()),
        ("order", order()),
        ("checks", checks()),
        ("primes", primes()),
        ("texts", texts()),
        ("warps", warps()),
        ("words", words()),
    ]
}

/// A line of a source that there is not.
#[must_use]
pub fn line(line: u32) -> Option<Location> {
    Some(Location {
        file: "src/kernels.rs",
        line,
    })
}

fn f32_type() -> Type {
    Scalar::F32.into()
}

fn u32_type() -> Type {
    Scalar::U32.into()
}

/// `y[i] += a * x[i]`: `a: f32, x: [f32], y: mut [f32]`.
#[must_use]
pub fn saxpy() -> Module {
    let mut f = FunctionBuilder::new("saxpy");
    f.at(line(3));
    let a = f.uniform("a", f32_type());
    let x = f.buffer("x", f32_type(), false);
    let y = f.buffer("y", f32_type(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        f.at(line(4));
        let old = f.load(Place::element_unchecked(y, i), f32_type());
        let element = f.load(Place::element(x, i), f32_type());
        let product = f.binary(B::Multiply, a, element);
        let sum = f.binary(B::Add, old, product);
        f.store(Place::element_unchecked(y, i), sum);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// `x[i] += 1`, in which nothing can go wrong: `x: mut [u32]`; between two barriers, if so.
#[must_use]
pub fn increment(barriers: bool) -> Module {
    let mut f = FunctionBuilder::new("increment");
    let x = f.buffer("x", Scalar::U32.into(), true);
    let length = f.length(x);
    if barriers {
        f.barrier();
    }
    f.elements(&["i"], &[length], |f, _, position| {
        let place = Place::element_unchecked(x, position[0]);
        let old = f.load(place.clone(), Scalar::U32.into());
        let one = f.literal(Scalar::U32, 1);
        let sum = f.binary(B::Add, old, one);
        f.store(place, sum);
    });
    if barriers {
        f.barrier();
    }
    ModuleBuilder::new().finish(f.kernel(1))
}

/// The sum of each block's elements, one per thread, by halves in shared memory:
/// `x: [f32], sums: mut [f32]`, one shared array of as many elements as a block has threads, a
/// power of two.
#[must_use]
pub fn block_sum() -> Module {
    let mut module = ModuleBuilder::new();
    let shared = module.shared(Some("partial"), f32_type(), SharedLength::Launch);
    let mut f = FunctionBuilder::new("block_sum");
    let x = f.buffer("x", f32_type(), false);
    let sums = f.buffer("sums", f32_type(), true);
    let thread = f.index(Origin::Block, Unit::Threads, 0);
    f.name(thread, "thread");
    let global = f.index(Origin::Grid, Unit::Threads, 0);
    f.at(line(10));
    let element = f.load(Place::element(x, global), f32_type());
    f.store(Place::shared(shared).at(thread), element);
    f.barrier();
    let threads = f.extent(Origin::Block, Unit::Threads, 0);
    let two = f.index_literal(2);
    let half = f.binary(B::Divide, threads, two);
    let distance = f.local(Some("distance"), half);
    f.while_loop(
        |f| {
            let now = f.load_local(distance);
            let zero = f.index_literal(0);
            f.binary(B::Greater, now, zero)
        },
        |f, _| {
            f.at(line(13));
            let now = f.load_local(distance);
            let below = f.binary(B::Less, thread, now);
            f.if_then(below, |f| {
                f.at(line(14));
                let own = f.load(Place::shared(shared).at(thread), f32_type());
                let now = f.load_local(distance);
                let at = f.binary(B::Add, thread, now);
                let other = f.load(Place::shared(shared).at(at), f32_type());
                let sum = f.binary(B::Add, own, other);
                f.store(Place::shared(shared).at(thread), sum);
            });
            f.barrier();
            let now = f.load_local(distance);
            let two = f.index_literal(2);
            let half = f.binary(B::Divide, now, two);
            f.store_local(distance, half);
        },
    );
    let zero = f.index_literal(0);
    let first = f.binary(B::Equal, thread, zero);
    f.if_then(first, |f| {
        f.at(line(20));
        let block = f.index(Origin::Grid, Unit::Blocks, 0);
        let zero = f.index_literal(0);
        let sum = f.load(Place::shared(shared).at(zero), f32_type());
        f.store(Place::element(sums, block), sum);
    });
    module.finish(f.kernel(1))
}

/// A `match` on an integer: `x: [i32], y: mut [i32]`.
#[must_use]
pub fn classify() -> Module {
    let i32_type = Type::from(Scalar::I32);
    let mut f = FunctionBuilder::new("classify");
    let x = f.buffer("x", i32_type.clone(), false);
    let y = f.buffer("y", i32_type.clone(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        f.at(line(30));
        let element = f.load(Place::element(x, i), i32_type.clone());
        f.name(element, "x");
        let result = f.uninitialised(None, i32_type.clone());
        let arm = |f: &mut FunctionBuilder, number: i32| {
            let number = f.i32_literal(number);
            f.store_local(result, number);
        };
        let zero = f.i32_literal(0);
        let is_zero = f.binary(B::Equal, element, zero);
        f.if_else(
            is_zero,
            |f| arm(f, 10),
            |f| {
                let (one, nine) = (f.i32_literal(1), f.i32_literal(9));
                let from = f.binary(B::GreaterEqual, element, one);
                let to = f.binary(B::LessEqual, element, nine);
                let digit = f.binary(B::And, from, to);
                f.if_else(
                    digit,
                    |f| arm(f, 20),
                    |f| {
                        let least = f.i32_literal(i32::MIN);
                        let is_least = f.binary(B::Equal, element, least);
                        f.if_else(
                            is_least,
                            |f| arm(f, 30),
                            |f| {
                                let doubled = f.binary(B::Add, element, element);
                                let three = f.i32_literal(3);
                                let scaled = f.binary(B::Multiply, doubled, three);
                                let negative = f.unary(UnaryOperation::Negate, scaled);
                                f.store_local(result, negative);
                            },
                        );
                    },
                );
            },
        );
        let result = f.load_local(result);
        f.store(Place::element_unchecked(y, i), result);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// `y[i][j] = x[j][i]` of views in two dimensions: `x, y: mut`.
#[must_use]
pub fn transpose() -> Module {
    let mut f = FunctionBuilder::new("transpose");
    let (x, _, x_strides) = f.view("x", f32_type(), false, 2);
    let (y, extents, y_strides) = f.view("y", f32_type(), true, 2);
    f.elements(&["row", "column"], &extents, |f, _, position| {
        let place = |f: &mut FunctionBuilder, [i, j]: [Value; 2], strides: &[Value]| {
            let row = f.binary(B::Multiply, i, strides[0]);
            let column = f.binary(B::Multiply, j, strides[1]);
            f.binary(B::Add, row, column)
        };
        let from = place(f, [position[1], position[0]], &x_strides);
        let element = f.load(Place::element(x, from), f32_type());
        let to = place(f, [position[0], position[1]], &y_strides);
        f.store(Place::element(y, to), element);
    });
    ModuleBuilder::new().finish(f.kernel(2))
}

/// Each position counts itself, in four dimensions, and each thread its number:
/// `y: mut view of u32, z: mut [u32]`.
#[must_use]
pub fn four_dimensions() -> Module {
    let mut f = FunctionBuilder::new("four_dimensions");
    let (y, extents, strides) = f.view("y", u32_type(), true, 4);
    let z = f.buffer("z", u32_type(), true);
    f.elements(&["a", "b", "c", "d"], &extents, |f, _, position| {
        let mut place = f.index_literal(0);
        for (component, stride) in position.iter().zip(&strides) {
            let step = f.binary(B::Multiply, *component, *stride);
            place = f.binary(B::Add, place, step);
        }
        let old = f.load(Place::element(y, place), u32_type());
        let number = f.cast(place, Scalar::U32);
        let sum = f.binary(B::Add, old, number);
        let one = f.u32_literal(1);
        let sum = f.binary(B::Add, sum, one);
        f.store(Place::element(y, place), sum);
    });
    let mut number = f.index_literal(0);
    for d in 0..4 {
        let index = f.index(Origin::Grid, Unit::Threads, d);
        let extent = f.extent(Origin::Grid, Unit::Threads, d);
        let scaled = f.binary(B::Multiply, number, extent);
        number = f.binary(B::Add, scaled, index);
    }
    let value = f.cast(number, Scalar::U32);
    f.store(Place::element(z, number), value);
    ModuleBuilder::new().finish(f.kernel(4))
}

/// Structs in buffers, as values, as arguments, in arrays: `points: mut [Point { position: [f32;
/// 2], flag: bool, kind: u8, count: u16 }]` of 12 bytes, `offset: (f32, f32)`.
#[must_use]
pub fn points() -> Module {
    let mut module = ModuleBuilder::new();
    let pair = module.structure("(f32, f32)", [("0", f32_type()), ("1", f32_type())]);
    let array = Type::Array(Box::new(f32_type()), 2);
    let point = module.structure(
        "Point",
        [
            ("position", array.clone()),
            ("flag", Scalar::Bool.into()),
            ("kind", Scalar::U8.into()),
            ("count", Scalar::U16.into()),
        ],
    );
    let mut moved = FunctionBuilder::new("moved").returning(Type::Struct(point));
    let old = moved.parameter("point", Type::Struct(point));
    let by = moved.parameter("by", Type::Struct(pair));
    let old = moved.local(Some("point"), old);
    for (index, field) in [(0, 0), (1, 1)] {
        let at = moved.index_literal(index);
        let place = Place::local(old).field(0).at(at);
        let now = moved.load(place.clone(), f32_type());
        let step = moved.field(by, field, f32_type());
        let sum = moved.binary(B::Add, now, step);
        moved.store(place, sum);
    }
    let position = moved.load(Place::local(old).field(0), array);
    let flag = moved.load(Place::local(old).field(1), Scalar::Bool.into());
    let flag = moved.unary(UnaryOperation::Not, flag);
    let kind = moved.load(Place::local(old).field(2), Scalar::U8.into());
    let one = moved.literal(Scalar::U8, 1);
    let kind = moved.binary(B::Add, kind, one);
    let count = moved.load(Place::local(old).field(3), Scalar::U16.into());
    let count = moved.binary(B::Multiply, count, count);
    let new = moved.structure(point, &[position, flag, kind, count]);
    moved.give(new);
    let moved = module.function(moved.function());
    let mut f = FunctionBuilder::new("points");
    let points = f.buffer("points", Type::Struct(point), true);
    let offset = f.uniform("offset", Type::Struct(pair));
    let length = f.length(points);
    f.elements(&["i"], &[length], |f, _, position| {
        let old = f.load(Place::element(points, position[0]), Type::Struct(point));
        let new = f.call(moved, &[old, offset], Type::Struct(point));
        f.store(Place::element(points, position[0]), new);
    });
    module.finish(f.kernel(1))
}

/// Atomics of all kinds: `x: [u32], counts: mut [u32], others: mut [i32], wide: mut [u64], floats:
/// mut [f32], doubles: mut [f64]`.
#[must_use]
pub fn histogram() -> Module {
    use AtomicOperation as A;
    let mut module = ModuleBuilder::new();
    let shared = module.shared(Some("count"), u32_type(), SharedLength::Fixed(1));
    let mut f = FunctionBuilder::new("histogram");
    let x = f.buffer("x", u32_type(), false);
    let counts = f.buffer("counts", u32_type(), true);
    let others = f.buffer("others", Scalar::I32.into(), true);
    let wide = f.buffer("wide", Scalar::U64.into(), true);
    let floats = f.buffer("floats", f32_type(), true);
    let doubles = f.buffer("doubles", Scalar::F64.into(), true);
    let length = f.length(x);
    f.elements(&["i"], &[length], |f, _, position| {
        let element = f.load(Place::element(x, position[0]), u32_type());
        f.name(element, "element");
        let (zero, one) = (f.index_literal(0), f.u32_literal(1));
        f.atomic(
            A::Add,
            Place::element(counts, element),
            &[one],
            Scope::Device,
            u32_type(),
        );
        f.atomic(
            A::Add,
            Place::shared(shared).at(zero),
            &[one],
            Scope::Block,
            u32_type(),
        );
        let signed = f.cast(element, Scalar::I32);
        let four = f.i32_literal(4);
        let signed = f.binary(B::Subtract, signed, four);
        f.name(signed, "signed_element");
        let i32_type = Type::from(Scalar::I32);
        let operations = [
            A::Add,
            A::Subtract,
            A::Minimum,
            A::Maximum,
            A::And,
            A::Or,
            A::Xor,
        ];
        for (number, operation) in operations.into_iter().enumerate() {
            let at = f.index_literal(number as u64);
            let place = Place::element(others, at);
            f.atomic(operation, place, &[signed], Scope::Device, i32_type.clone());
        }
        let long = f.cast(element, Scalar::U64);
        f.name(long, "long_element");
        let u64_type = Type::from(Scalar::U64);
        for (number, operation) in operations.into_iter().enumerate() {
            let at = f.index_literal(number as u64);
            let place = Place::element(wide, at);
            f.atomic(operation, place, &[long], Scope::Device, u64_type.clone());
        }
        let float = f.cast(element, Scalar::F32);
        f.atomic(
            A::Add,
            Place::element(floats, zero),
            &[float],
            Scope::Device,
            f32_type(),
        );
        let double = f.cast(element, Scalar::F64);
        let f64_type = Type::from(Scalar::F64);
        f.atomic(
            A::Add,
            Place::element(doubles, zero),
            &[double],
            Scope::Device,
            f64_type,
        );
        // Counts through all the numbers to 9, and back again.
        let nine = f.u32_literal(9);
        let at = |f: &mut FunctionBuilder, number| {
            let at = f.index_literal(number);
            Place::element(counts, at)
        };
        let place = at(f, 20);
        f.atomic(A::Increment, place, &[nine], Scope::Device, u32_type());
        let place = at(f, 21);
        f.atomic(A::Decrement, place, &[nine], Scope::Device, u32_type());
        // The largest element, by compare-exchange; old is what was there before.
        let at_22 = f.index_literal(22);
        let place = Place::element(counts, at_22);
        f.repeat_forever(|f, id| {
            let seen = f.atomic(A::Load, place.clone(), &[], Scope::Device, u32_type());
            f.name(seen, "seen");
            let larger = f.binary(B::GreaterEqual, seen, element);
            f.if_then(larger, |f| f.push(Statement::Break(id)));
            let operation = A::CompareExchange;
            let old = f.atomic(
                operation,
                place.clone(),
                &[seen, element],
                Scope::Device,
                u32_type(),
            );
            let done = f.binary(B::Equal, old, seen);
            f.if_then(done, |f| f.push(Statement::Break(id)));
        });
        let place = at(f, 23);
        f.atomic(A::Exchange, place, &[nine], Scope::Device, u32_type());
        let one = f.index_literal(1);
        let float = f.f32_literal(2.5);
        f.atomic(
            A::Exchange,
            Place::element(floats, one),
            &[float],
            Scope::Device,
            f32_type(),
        );
        let zero_float = f.f32_literal(0.0);
        let two = f.index_literal(2);
        let place = Place::element(floats, two);
        f.atomic(
            A::CompareExchange,
            place,
            &[zero_float, float],
            Scope::Device,
            f32_type(),
        );
        // A bad one is dropped and recorded, in those launches that have one.
    });
    f.barrier();
    let thread = f.index(Origin::Block, Unit::Threads, 0);
    let zero = f.index_literal(0);
    let first = f.binary(B::Equal, thread, zero);
    f.if_then(first, |f| {
        let zero = f.index_literal(0);
        let count = f.load(Place::shared(shared).at(zero), u32_type());
        let at = f.index_literal(24);
        f.atomic(
            A::Add,
            Place::element(counts, at),
            &[count],
            Scope::Device,
            u32_type(),
        );
    });
    f.push(Statement::Fence(
        Scope::Block,
        FenceOrder::SequentiallyConsistent,
    ));
    f.push(Statement::Fence(
        Scope::Device,
        FenceOrder::SequentiallyConsistent,
    ));
    module.finish(f.kernel(1))
}

/// Loads and stores in one step: each of `a: mut [u32], b: mut [i64], c: mut [f32], d: mut [f64]`
/// has its first half copied to its second, of as many elements as the grid has threads.
#[must_use]
pub fn copies() -> Module {
    use AtomicOperation as A;
    let mut f = FunctionBuilder::new("copies");
    let buffers = [
        ("a", Scalar::U32),
        ("b", Scalar::I64),
        ("c", Scalar::F32),
        ("d", Scalar::F64),
    ]
    .map(|(name, scalar)| (f.buffer(name, scalar.into(), true), Type::from(scalar)));
    let thread = f.index(Origin::Grid, Unit::Threads, 0);
    let threads = f.extent(Origin::Grid, Unit::Threads, 0);
    let to = f.binary(B::Add, thread, threads);
    for (buffer, of) in buffers {
        let from = Place::element(buffer, thread);
        let held = f.atomic(A::Load, from, &[], Scope::Device, of.clone());
        let to = Place::element(buffer, to);
        f.atomic(A::Store, to, &[held], Scope::Device, of);
    }
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Barriers that count, in a device function that has the context: `x: [i32], y: mut [u32]`, one
/// element per thread.
#[must_use]
pub fn count() -> Module {
    let mut module = ModuleBuilder::new();
    let mut counted = FunctionBuilder::new("positive").returning(u32_type());
    let x = counted.parameter("x", Scalar::I32.into());
    let zero = counted.i32_literal(0);
    let positive = counted.binary(B::Greater, x, zero);
    let number = counted.barrier_count(positive);
    let number = counted.cast(number, Scalar::U32);
    counted.give(number);
    let counted = module.function(counted.function());
    let mut f = FunctionBuilder::new("count");
    let x = f.buffer("x", Scalar::I32.into(), false);
    let y = f.buffer("y", u32_type(), true);
    let thread = f.index(Origin::Grid, Unit::Threads, 0);
    f.name(thread, "thread");
    let element = f.load(Place::element(x, thread), Scalar::I32.into());
    f.name(element, "element");
    let positive = f.call(counted, &[element], u32_type());
    let negative = f.unary(UnaryOperation::Negate, element);
    let negative = f.call(counted, &[negative], u32_type());
    let hundred = f.u32_literal(100);
    let scaled = f.binary(B::Multiply, positive, hundred);
    let both = f.binary(B::Add, scaled, negative);
    f.store(Place::element(y, thread), both);
    module.finish(f.kernel(1))
}

/// A loop whose checks one before it answers for, where all is in bounds: `x: [u32], y: mut [u32],
/// count: usize, stride: usize, first: usize`, by one thread.
#[must_use]
pub fn gather() -> Module {
    let mut f = FunctionBuilder::new("gather");
    let x = f.buffer("x", u32_type(), false);
    let y = f.buffer("y", u32_type(), true);
    let [count, stride, first] =
        ["count", "stride", "first"].map(|name| f.uniform(name, Scalar::Index.into()));
    let zero = f.index_literal(0);
    f.at(line(90));
    f.for_range("k", zero, count, |f, _, k| {
        let at = f.binary(B::Multiply, k, stride);
        let at = f.binary(B::Add, at, first);
        let element = f.load(Place::element(x, at), u32_type());
        f.store(Place::element(y, k), element);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Slices of buffers, of local arrays and of shared memory, handed on, kept in variables:
/// `x: [u32], y: mut [u32], start: usize, end: usize`.
#[must_use]
pub fn slices() -> Module {
    let mut module = ModuleBuilder::new();
    let shared = module.shared(Some("block"), u32_type(), SharedLength::Fixed(4));
    let mut sums = Vec::new();
    for space in [Space::Global, Space::Private, Space::Shared] {
        let slice = Type::Slice {
            element: Box::new(u32_type()),
            space,
            mutable: false,
        };
        let mut sum = FunctionBuilder::new("sum").returning(u32_type());
        let x = sum.parameter("x", slice);
        let zero = sum.u32_literal(0);
        let total = sum.local(Some("total"), zero);
        let (start, end) = (sum.index_literal(0), sum.length(x));
        sum.for_range("i", start, end, |f, _, i| {
            let now = f.load_local(total);
            let element = f.load(Place::element(x, i), u32_type());
            let new = f.binary(B::Add, now, element);
            f.store_local(total, new);
        });
        let total = sum.load_local(total);
        sum.give(total);
        sums.push(module.function(sum.function()));
    }
    let mut fill = FunctionBuilder::new("fill");
    let private = Type::Slice {
        element: Box::new(u32_type()),
        space: Space::Private,
        mutable: true,
    };
    let x = fill.parameter("x", private);
    let value = fill.parameter("value", u32_type());
    let (start, end) = (fill.index_literal(0), fill.length(x));
    fill.for_range("i", start, end, |f, _, i| {
        f.store(Place::element(x, i), value)
    });
    let fill = module.function(fill.function());

    let mut f = FunctionBuilder::new("slices");
    let x = f.buffer("x", u32_type(), false);
    let y = f.buffer("y", u32_type(), true);
    let start = f.uniform("start", Scalar::Index.into());
    let end = f.uniform("end", Scalar::Index.into());
    let mut number = 0;
    let mut put = |f: &mut FunctionBuilder, value| {
        let at = f.index_literal(number);
        number += 1;
        f.store(Place::element(y, at), value);
    };
    // Of a buffer.
    f.at(line(60));
    let part = f.slice(
        Place::slice(x),
        Some((start, end)),
        u32_type(),
        Space::Global,
        false,
    );
    f.name(part, "part");
    let length = f.length(part);
    let length = f.cast(length, Scalar::U32);
    put(&mut f, length);
    let total = f.call(sums[0], &[part], u32_type());
    put(&mut f, total);
    // In a variable, which changes.
    let window = f.local(Some("window"), x);
    let whole = f.load_local(window);
    let (one, two) = (f.index_literal(1), f.index_literal(2));
    let rest = f.slice(
        Place::slice(whole),
        Some((one, two)),
        u32_type(),
        Space::Global,
        false,
    );
    f.store_local(window, rest);
    let kept = f.load_local(window);
    f.store_local(window, part);
    let total = f.call(sums[0], &[kept], u32_type());
    put(&mut f, total);
    let total = f.call(sums[0], &[whole], u32_type());
    put(&mut f, total);
    // Of a local array; a load of it moves over no store through its slice.
    let seven = f.u32_literal(7);
    let array = f.repeat(seven, 10);
    let array = f.local(Some("array"), array);
    let (three, six) = (f.index_literal(3), f.index_literal(6));
    let before = f.load(Place::local(array).at(three), u32_type());
    let part = f.slice(
        Place::local(array),
        Some((three, six)),
        u32_type(),
        Space::Private,
        true,
    );
    let hundred = f.u32_literal(100);
    f.call(fill, &[part, hundred], Type::Unit);
    put(&mut f, before);
    let whole = f.slice(Place::local(array), None, u32_type(), Space::Private, false);
    let total = f.call(sums[1], &[whole], u32_type());
    put(&mut f, total);
    let before = f.load(Place::local(array).at(six), u32_type());
    let first = f.slice(Place::local(array), None, u32_type(), Space::Private, true);
    let thousand = f.u32_literal(1000);
    f.store(Place::element(first, six), thousand);
    put(&mut f, before);
    // Of shared memory, which begins with zeros.
    let whole = f.slice(
        Place::shared(shared),
        None,
        u32_type(),
        Space::Shared,
        false,
    );
    let total = f.call(sums[2], &[whole], u32_type());
    put(&mut f, total);
    let five = f.u32_literal(5);
    f.store(Place::shared(shared).at(one), five);
    let total = f.call(sums[2], &[whole], u32_type());
    put(&mut f, total);
    let length = f.shared_length(shared);
    let length = f.cast(length, Scalar::U32);
    put(&mut f, length);
    module.finish(f.kernel(1))
}

//! Kernels whose threads go different ways, or whose parts are evaluated, checked or printed in a
//! certain order.

use super::{f32_type, line, u32_type};
use quipu_kernel_ir::{
    AtomicOperation, BinaryOperation as B, FunctionBuilder, MathFunction, Module, ModuleBuilder,
    Origin, Place, Projection, Root, Scalar, Scope, Space, Statement, Type, UnaryOperation, Unit,
    WarpOperation,
};

/// Nested loops that are left and continued from inside of each other, with steps: `y: mut [u32]`,
/// by one thread.
#[must_use]
pub fn labels() -> Module {
    let mut f = FunctionBuilder::new("labels");
    let y = f.buffer("y", u32_type(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, elements, position| {
        let i = position[0];
        let zero = f.u32_literal(0);
        let sum = f.local(Some("sum"), zero);
        let limit = f.index_literal(40);
        let far = f.binary(B::Greater, i, limit);
        f.if_then(far, |f| f.push(Statement::Break(elements)));
        let five = f.index_literal(5);
        let skipped = f.binary(B::Equal, i, five);
        f.if_then(skipped, |f| f.push(Statement::Continue(elements)));
        let number = f.cast(i, Scalar::U32);
        let start = f.u32_literal(0);
        f.for_range("outer", start, number, |f, outer_loop, outer| {
            let seven = f.u32_literal(7);
            let over = f.binary(B::Equal, outer, seven);
            f.if_then(over, |f| f.push(Statement::Break(outer_loop)));
            let start = f.u32_literal(0);
            let end = f.u32_literal(10);
            f.for_range("inner", start, end, |f, inner_loop, inner| {
                let three = f.u32_literal(3);
                let product = f.binary(B::Multiply, outer, inner);
                let rest = f.binary(B::Remainder, product, three);
                let one = f.u32_literal(1);
                let skip = f.binary(B::Equal, rest, one);
                f.if_then(skip, |f| f.push(Statement::Continue(inner_loop)));
                let limit = f.u32_literal(24);
                let next = f.binary(B::Greater, product, limit);
                f.if_then(next, |f| f.push(Statement::Continue(outer_loop)));
                let limit = f.u32_literal(200);
                let now = f.load_local(sum);
                let end = f.binary(B::Greater, now, limit);
                f.if_then(end, |f| f.push(Statement::Break(outer_loop)));
                let now = f.load_local(sum);
                let new = f.binary(B::Add, now, product);
                let new = f.binary(B::Add, new, one);
                f.store_local(sum, new);
            });
            let now = f.load_local(sum);
            let hundred = f.u32_literal(100);
            let new = f.binary(B::Add, now, hundred);
            f.store_local(sum, new);
        });
        // A step of several statements, with a branch.
        let counter = f.local(Some("counter"), start);
        f.repeat_with_step(
            |f, id| {
                let now = f.load_local(counter);
                let limit = f.u32_literal(30);
                let over = f.binary(B::Greater, now, limit);
                f.if_then(over, |f| f.push(Statement::Break(id)));
                let two = f.u32_literal(2);
                let now = f.load_local(counter);
                let odd = f.binary(B::Remainder, now, two);
                let zero = f.u32_literal(0);
                let odd = f.binary(B::NotEqual, odd, zero);
                f.if_then(odd, |f| f.push(Statement::Continue(id)));
                let now = f.load_local(sum);
                let counted = f.load_local(counter);
                let new = f.binary(B::Xor, now, counted);
                f.store_local(sum, new);
            },
            |f| {
                let now = f.load_local(counter);
                let ten = f.u32_literal(10);
                let large = f.binary(B::Greater, now, ten);
                f.if_then(large, |f| {
                    let now = f.load_local(counter);
                    let one = f.u32_literal(1);
                    let new = f.binary(B::Add, now, one);
                    f.store_local(counter, new);
                });
                let now = f.load_local(counter);
                let one = f.u32_literal(1);
                let new = f.binary(B::Add, now, one);
                f.store_local(counter, new);
            },
        );
        let result = f.load_local(sum);
        f.store(Place::element(y, i), result);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Threads that leave early, also a device function's loops: `x: [u32], y: mut [u32]`, one element
/// per thread.
#[must_use]
pub fn leaves() -> Module {
    let mut module = ModuleBuilder::new();
    let mut root = FunctionBuilder::new("root").returning(u32_type());
    let x = root.parameter("x", u32_type());
    let zero = root.u32_literal(0);
    root.for_range("i", zero, x, |f, _, i| {
        let square = f.binary(B::Multiply, i, i);
        let found = f.binary(B::GreaterEqual, square, x);
        f.if_then(found, |f| f.give(i));
    });
    root.give(x);
    let root = module.function(root.function());
    let mut f = FunctionBuilder::new("leaves");
    let x = f.buffer("x", u32_type(), false);
    let y = f.buffer("y", u32_type(), true);
    let thread = f.index(Origin::Grid, Unit::Threads, 0);
    f.name(thread, "thread");
    let length = f.length(y);
    let outside = f.binary(B::GreaterEqual, thread, length);
    f.if_then(outside, |f| f.leave(None));
    let element = f.load(Place::element(x, thread), u32_type());
    let found = f.call(root, &[element], u32_type());
    f.store(Place::element_unchecked(y, thread), found);
    f.leave(None);
    module.finish(f.kernel(1))
}

/// A barrier that only every other thread comes to, though it was vouched that all do. Not to be
/// run on a device: `y: mut [u32]`.
#[must_use]
pub fn divergent() -> Module {
    let mut f = FunctionBuilder::new("divergent");
    f.buffer("y", u32_type(), true);
    let thread = f.index(Origin::Block, Unit::Threads, 0);
    f.name(thread, "thread");
    let two = f.index_literal(2);
    f.at(line(50));
    let odd = f.binary(B::Remainder, thread, two);
    let one = f.index_literal(1);
    let odd = f.binary(B::Equal, odd, one);
    let odd = f.assume_uniform(odd);
    f.if_then(odd, FunctionBuilder::barrier);
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Values that may not be put where they are used, as something between changes what they depend
/// on: `y: mut [u32]`.
#[must_use]
pub fn order() -> Module {
    let mut module = ModuleBuilder::new();
    let slice = Type::Slice {
        element: Box::new(u32_type()),
        space: Space::Global,
        mutable: true,
    };
    let mut next = FunctionBuilder::new("next").returning(u32_type());
    let counter = next.parameter("counter", slice);
    let zero = next.index_literal(0);
    let old = next.load(Place::element(counter, zero), u32_type());
    let one = next.u32_literal(1);
    let new = next.binary(B::Add, old, one);
    next.store(Place::element(counter, zero), new);
    next.give(old);
    let next = module.function(next.function());
    let mut f = FunctionBuilder::new("order");
    let y = f.buffer("y", u32_type(), true);
    let at = |f: &mut FunctionBuilder, number| {
        let at = f.index_literal(number);
        Place::element(y, at)
    };
    // A call, whose order C does not say: 0 - 10 * 1.
    let first = f.call(next, &[y], u32_type());
    let second = f.call(next, &[y], u32_type());
    let ten = f.u32_literal(10);
    let scaled = f.binary(B::Multiply, second, ten);
    let difference = f.binary(B::Subtract, first, scaled);
    let place = at(&mut f, 1);
    f.store(place, difference);
    // A load before a store to the same place.
    let place = at(&mut f, 1);
    let before = f.load(place.clone(), u32_type());
    let seven = f.u32_literal(7);
    f.store(place.clone(), seven);
    let after = f.load(place, u32_type());
    let sum = f.binary(B::Add, before, after);
    let place = at(&mut f, 2);
    f.store(place, sum);
    // A variable that is swapped, and one that changes in a loop.
    let (one, two) = (f.u32_literal(1), f.u32_literal(2));
    let a = f.local(Some("a"), one);
    let b = f.local(Some("b"), two);
    let old_a = f.load_local(a);
    let old_b = f.load_local(b);
    f.store_local(a, old_b);
    f.store_local(b, old_a);
    let (new_a, new_b) = (f.load_local(a), f.load_local(b));
    let scaled = f.binary(B::Multiply, new_a, ten);
    let both = f.binary(B::Add, scaled, new_b);
    let place = at(&mut f, 3);
    f.store(place, both);
    let before = f.load_local(a);
    let (start, end) = (f.u32_literal(0), f.u32_literal(5));
    f.for_range("i", start, end, |f, _, i| {
        let now = f.load_local(a);
        let new = f.binary(B::Add, now, i);
        f.store_local(a, new);
    });
    let after = f.load_local(a);
    let scaled = f.binary(B::Multiply, after, ten);
    let both = f.binary(B::Add, scaled, before);
    let place = at(&mut f, 4);
    f.store(place, both);
    // The first fault is the first in order, whatever C does first; one that nobody uses is one,
    // too.
    f.at(line(70));
    let bad = f.index_literal(1000);
    f.load(Place::element(y, bad), u32_type());
    let zero = f.u32_literal(0);
    f.at(line(71));
    let quotient = f.binary(B::Divide, seven, zero);
    f.at(line(72));
    let also_bad = f.load(Place::element(y, bad), u32_type());
    let sum = f.binary(B::Add, also_bad, quotient);
    let place = at(&mut f, 5);
    f.store(place, sum);
    // Both of a selection are evaluated.
    let no = f.bool_literal(false);
    let selected = f.select(no, seven, ten);
    let place = at(&mut f, 6);
    f.store(place, selected);
    module.finish(f.kernel(1))
}

/// One fault, as `what` says, from 0: read, write, range, division, overflow, assertion, atomic,
/// none; `what: u32, x: [i32], y: mut [i32]` of four elements each, by any thread.
#[must_use]
pub fn checks() -> Module {
    let i32_type = Type::from(Scalar::I32);
    let mut f = FunctionBuilder::new("checks");
    let what = f.uniform("what", u32_type());
    let x = f.buffer("x", i32_type.clone(), false);
    let y = f.buffer("y", i32_type.clone(), true);
    let zero = f.index_literal(0);
    let case = |f: &mut FunctionBuilder, number: u32, write: &dyn Fn(&mut FunctionBuilder)| {
        let number_value = f.u32_literal(number);
        let this = f.binary(B::Equal, what, number_value);
        f.if_then(this, |f| {
            f.at(line(80 + number));
            write(f);
        });
    };
    case(&mut f, 0, &|f| {
        let bad = f.literal(Scalar::I64, -1_i64 as u64);
        let element = f.load(Place::element(x, bad), i32_type.clone());
        f.store(Place::element(y, zero), element);
    });
    case(&mut f, 1, &|f| {
        let (bad, seven) = (f.index_literal(4), f.i32_literal(7));
        f.store(Place::element(y, bad), seven);
    });
    case(&mut f, 2, &|f| {
        let (from, to) = (f.index_literal(3), f.index_literal(2));
        let part = f.slice(
            Place::slice(x),
            Some((from, to)),
            i32_type.clone(),
            Space::Global,
            false,
        );
        let length = f.length(part);
        let length = f.cast(length, Scalar::I32);
        f.store(Place::element(y, zero), length);
    });
    case(&mut f, 3, &|f| {
        let (one, nothing) = (f.index_literal(1), f.index_literal(3));
        let first = f.load(Place::element(x, one), i32_type.clone());
        let second = f.load(Place::element(x, nothing), i32_type.clone());
        let quotient = f.binary(B::Remainder, first, second);
        f.store(Place::element(y, zero), quotient);
    });
    case(&mut f, 4, &|f| {
        let (least, minus) = (f.i32_literal(i32::MIN), f.i32_literal(-1));
        let quotient = f.binary(B::Divide, least, minus);
        f.store(Place::element(y, zero), quotient);
    });
    case(&mut f, 5, &|f| {
        let element = f.load(Place::element(x, zero), i32_type.clone());
        let condition = f.binary(B::NotEqual, element, element);
        f.push(Statement::Assert {
            condition,
            message: "an element differs from itself".into(),
            values: Vec::new(),
            shown: Vec::new(),
            location: line(85),
        });
        // The thread goes on.
        let one = f.i32_literal(1);
        f.store(Place::element(y, zero), one);
    });
    case(&mut f, 6, &|f| {
        let bad = f.literal(Scalar::U64, 1 << 32);
        let seven = f.i32_literal(7);
        let operation = AtomicOperation::Add;
        let old = f.atomic(
            operation,
            Place::element(y, bad),
            &[seven],
            Scope::Device,
            i32_type.clone(),
        );
        f.store(Place::element(y, zero), old);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// The primes below each number, by a sieve in a local array of flags: `y: mut [u8]`, of up to 64
/// elements.
#[must_use]
pub fn primes() -> Module {
    let mut f = FunctionBuilder::new("primes");
    let y = f.buffer("y", Scalar::U8.into(), true);
    let length = f.length(y);
    f.elements(&["n"], &[length], |f, _, position| {
        let n = position[0];
        let yes = f.bool_literal(true);
        let flags = f.repeat(yes, 64);
        let flags = f.local(Some("is_prime"), flags);
        let zero = f.literal(Scalar::U8, 0);
        let count = f.local(Some("count"), zero);
        let two = f.index_literal(2);
        f.for_range("i", two, n, |f, id, i| {
            let prime = f.load(Place::local(flags).at(i), Scalar::Bool.into());
            let composite = f.unary(UnaryOperation::Not, prime);
            f.if_then(composite, |f| f.push(Statement::Continue(id)));
            let now = f.load_local(count);
            let one = f.literal(Scalar::U8, 1);
            let new = f.binary(B::Add, now, one);
            f.store_local(count, new);
            let square = f.binary(B::Multiply, i, i);
            let multiple = f.local(Some("multiple"), square);
            f.while_loop(
                |f| {
                    let now = f.load_local(multiple);
                    let end = f.index_literal(64);
                    f.binary(B::Less, now, end)
                },
                |f, _| {
                    let now = f.load_local(multiple);
                    let no = f.bool_literal(false);
                    let place = Place {
                        root: Root::Local(flags),
                        path: vec![Projection::Index {
                            index: now,
                            checked: false,
                        }],
                    };
                    f.store(place, no);
                    let now = f.load_local(multiple);
                    let new = f.binary(B::Add, now, i);
                    f.store_local(multiple, new);
                },
            );
        });
        let count = f.load_local(count);
        f.store(Place::element(y, n), count);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Texts on the host: `a: f32`.
#[must_use]
pub fn texts() -> Module {
    let mut f = FunctionBuilder::new("texts");
    let a = f.uniform("a", f32_type());
    let thread = f.index(Origin::Grid, Unit::Threads, 0);
    let yes = f.bool_literal(true);
    let small = f.literal(Scalar::I8, -5_i64 as u64);
    f.push(Statement::Print {
        format: "100 % \"{}\" of {}: {} {}\n".into(),
        values: vec![thread, a, yes, small],
        location: None,
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// The functions of warps: `y: mut [u32]`, eight results per thread.
#[must_use]
pub fn warps() -> Module {
    use WarpOperation as W;
    let mut f = FunctionBuilder::new("warps");
    let y = f.buffer("y", u32_type(), true);
    let thread = f.index(Origin::Grid, Unit::Threads, 0);
    f.name(thread, "thread");
    let number = f.cast(thread, Scalar::U32);
    f.name(number, "number");
    let one = f.u32_literal(1);
    let zero = f.u32_literal(0);
    let low = f.binary(B::And, number, one);
    let odd = f.binary(B::Equal, low, one);
    f.name(odd, "odd");
    let mut results = vec![f.warp(W::Size, &[]), f.warp(W::Lane, &[])];
    for operation in [W::All, W::Any] {
        let vote = f.warp(operation, &[odd]);
        results.push(f.cast(vote, Scalar::U32));
    }
    let votes = f.warp(W::Ballot, &[odd]);
    let active = f.warp(W::ActiveMask, &[]);
    let both = f.binary(B::Xor, votes, active);
    results.push(f.cast(both, Scalar::U32));
    for (operation, lane) in [
        (W::Shuffle, zero),
        (W::ShuffleUp, one),
        (W::ShuffleDown, one),
    ] {
        results.push(f.warp(operation, &[number, lane]));
    }
    let float = f.cast(number, Scalar::F64);
    let float = f.warp(W::ShuffleXor, &[float, one]);
    let flag = f.warp(W::Shuffle, &[odd, one]);
    let float = f.cast(float, Scalar::U32);
    let flag = f.cast(flag, Scalar::U32);
    results.push(f.binary(B::Add, float, flag));
    let count = f.index_literal(results.len() as u64);
    let first = f.binary(B::Multiply, thread, count);
    f.name(first, "first");
    for (offset, result) in results.into_iter().enumerate() {
        let offset = f.index_literal(offset as u64);
        let at = f.binary(B::Add, first, offset);
        f.store(Place::element(y, at), result);
    }
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Names that are words of some target, or twice there: `y: mut [f32]`.
#[must_use]
pub fn words() -> Module {
    let mut module = ModuleBuilder::new();
    let union = module.structure("union", [("int", f32_type()), ("template", f32_type())]);
    let mut float = FunctionBuilder::new("float").returning(f32_type());
    let kernel = float.parameter("kernel", f32_type());
    let kernel_root = float.math(MathFunction::Sqrt, &[kernel]);
    float.name(kernel_root, "kernel");
    let doubled = float.binary(B::Add, kernel_root, kernel_root);
    float.give(doubled);
    let float = module.function(float.function());
    let mut f = FunctionBuilder::new("main");
    let y = f.buffer("half", f32_type(), true);
    let length = f.length(y);
    f.elements(&["register"], &[length], |f, _, position| {
        let old = f.load(Place::element(y, position[0]), f32_type());
        f.name(old, "__local");
        let new = f.call(float, &[old], f32_type());
        f.name(new, "half");
        let pair = f.structure(union, &[old, new]);
        let pair = f.local(Some("struct"), pair);
        let first = f.load(Place::local(pair).field(0), f32_type());
        let second = f.load(Place::local(pair).field(1), f32_type());
        let negative = f.unary(UnaryOperation::Negate, second);
        let minus = f.unary(UnaryOperation::Negate, negative);
        let difference = f.binary(B::Subtract, first, minus);
        f.store(Place::element(y, position[0]), difference);
    });
    module.finish(f.kernel(1))
}

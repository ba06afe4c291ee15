//! The uniformity analysis: barriers and functions of a warp that all threads reach are accepted,
//! and others are refused with the line at which threads part.

#![expect(clippy::unwrap_used, reason = "an unwrap is an assertion")]

use quipu_kernel_ir::{
    AtomicOperation, BinaryOperation, FunctionBuilder, FunctionId, Location, Module, ModuleBuilder,
    Operation, Origin, Place, Scalar, Scope, SharedLength, Space, Statement, StructId, Type, Unit,
    Value, WarpOperation,
};

/// The lines where threads part, and where they have to come together.
const PARTS: u32 = 10;
const MEETS: u32 = 20;

fn at(f: &mut FunctionBuilder, line: u32) {
    f.at(Some(Location {
        file: "src/kernels.rs",
        line,
    }));
}

fn number() -> Type {
    Scalar::Index.into()
}

fn of_u32() -> Type {
    Scalar::U32.into()
}

/// This thread's index in the block.
fn thread(f: &mut FunctionBuilder) -> Value {
    f.index(Origin::Block, Unit::Threads, 0)
}

/// A value that is true if a number is 3.
fn is_three(f: &mut FunctionBuilder, value: Value) -> Value {
    let scalar = f.type_of(value).scalar().unwrap();
    let three = f.literal(scalar, 3);
    f.binary(BinaryOperation::Equal, value, three)
}

/// True in one thread.
fn differs(f: &mut FunctionBuilder) -> Value {
    let thread = thread(f);
    is_three(f, thread)
}

fn barrier(f: &mut FunctionBuilder) {
    at(f, MEETS);
    f.barrier();
}

fn vote(f: &mut FunctionBuilder) {
    at(f, MEETS);
    let yes = f.bool_literal(true);
    f.warp(WarpOperation::Any, &[yes]);
}

/// `if`, in the line that parts threads.
fn parts(f: &mut FunctionBuilder, condition: Value, then: impl FnOnce(&mut FunctionBuilder)) {
    at(f, PARTS);
    f.if_then(condition, then);
}

fn kernel(write: impl FnOnce(&mut FunctionBuilder)) -> Module {
    let mut f = FunctionBuilder::new("waits");
    at(&mut f, 1);
    write(&mut f);
    ModuleBuilder::new().finish(f.kernel(1))
}

/// A kernel that is given a device function.
fn with_function(
    function: FunctionBuilder,
    write: impl FnOnce(&mut FunctionBuilder, FunctionId),
) -> Module {
    let mut module = ModuleBuilder::new();
    let function = module.function(function.function());
    let mut f = FunctionBuilder::new("waits");
    write(&mut f, function);
    module.finish(f.kernel(1))
}

#[track_caller]
fn accepted(module: &Module) {
    module.verify().unwrap();
}

/// Refused, with the line at which threads part.
#[track_caller]
fn refused_at(module: &Module, function: &str, words: &[&str]) {
    let error = module.verify().unwrap_err();
    assert_eq!(error.function.as_deref(), Some(function), "{error}");
    assert_eq!(error.location.unwrap().line, MEETS, "{error}");
    for words in words {
        assert!(error.problem.contains(words), "{words}: {error}");
    }
}

#[track_caller]
fn refused(module: &Module) {
    refused_at(module, "waits", &["every thread of a block", "in line 10 "]);
}

#[test]
fn errors_say_what_to_write_instead() {
    let module = kernel(|f| {
        let condition = differs(f);
        parts(f, condition, barrier);
    });
    assert_eq!(
        module.verify().unwrap_err().to_string(),
        "the kernel's representation is not valid: in `waits` (src/kernels.rs:20): every thread of a block has to come to a barrier, and what is asked in line 10 may have another answer for some of them; have all of them come to it, some with nothing to do before and after; or ask what is the same for all, as a length, a value that is passed, or a vote (`acc.sync_block_threads_or(…)`). Where it is the same for a reason that cannot be seen, say so with `unsafe { acc.assume_uniform(…) }`"
    );
    let module = kernel(|f| {
        let condition = differs(f);
        parts(f, condition, vote);
    });
    let words = [
        "every thread of a warp has to come to a function of a warp",
        "line 10",
        "`acc.warp_any(…)`",
    ];
    refused_at(&module, "waits", &words);
}

#[test]
fn what_is_the_same_for_a_block_decides() {
    accepted(&kernel(|f| {
        let passed = f.uniform("n", of_u32());
        let x = f.buffer("x", of_u32(), false);
        let block = f.index(Origin::Grid, Unit::Blocks, 0);
        let threads = f.extent(Origin::Block, Unit::Threads, 0);
        let length = f.length(x);
        // What is read, at a place that is the same; and a vote.
        let read = f.load(Place::element(x, block), of_u32());
        let differing = differs(f);
        let votes = f.barrier_count(differing);
        let own = thread(f);
        let vouched = f.assume_uniform(own);
        let size = f.warp(WarpOperation::Size, &[]);
        for value in [passed, block, threads, length, read, votes, vouched, size] {
            let condition = is_three(f, value);
            parts(f, condition, |f| {
                barrier(f);
                vote(f);
            });
        }
        // A loop that halves, and one that is left in its middle.
        let half = f.local(Some("half"), threads);
        f.repeat_forever(|f, id| {
            let now = f.load_local(half);
            let one = f.index_literal(1);
            let is_finished = f.binary(BinaryOperation::Less, now, one);
            f.if_then(is_finished, |f| f.push(Statement::Break(id)));
            barrier(f);
            let is_three = is_three(f, now);
            f.if_then(is_three, |f| f.leave(None));
            let two = f.index_literal(2);
            let next = f.binary(BinaryOperation::Divide, now, two);
            f.store_local(half, next);
        });
        barrier(f);
    }));
}

#[test]
fn what_a_block_shares_is_the_same_at_one_place() {
    let shared = |own: bool| {
        let mut module = ModuleBuilder::new();
        let sums = module.shared(Some("sums"), of_u32(), SharedLength::Launch);
        let mut f = FunctionBuilder::new("waits");
        barrier(&mut f);
        let place = if own {
            thread(&mut f)
        } else {
            f.index_literal(0)
        };
        let sum = f.load(Place::shared(sums).at(place), of_u32());
        let condition = is_three(&mut f, sum);
        parts(&mut f, condition, barrier);
        module.finish(f.kernel(1))
    };
    accepted(&shared(false));
    refused(&shared(true));
}

#[test]
fn what_is_a_threads_own_does_not_decide() {
    let own: [fn(&mut FunctionBuilder) -> Value; 8] = [
        thread,
        |f| f.index(Origin::Grid, Unit::Threads, 0),
        |f| f.index(Origin::Block, Unit::Elements, 0),
        |f| f.warp(WarpOperation::Lane, &[]),
        FunctionBuilder::clock,
        |f| {
            let zero = f.index_literal(0);
            let x = f.buffer("x", of_u32(), true);
            f.load(Place::element(x, zero), of_u32())
        },
        |f| {
            let zero = f.index_literal(0);
            let x = f.buffer("x", of_u32(), true);
            let place = Place::element(x, zero);
            f.atomic(AtomicOperation::Load, place, &[], Scope::Device, of_u32())
        },
        |f| {
            // A thread's own part, whose length may be another.
            let x = f.buffer("x", of_u32(), false);
            let (start, end) = (thread(f), f.length(x));
            let part = f.slice(
                Place::slice(x),
                Some((start, end)),
                of_u32(),
                Space::Global,
                false,
            );
            f.length(part)
        },
    ];
    for (number, own) in own.into_iter().enumerate() {
        println!("{number}");
        refused(&kernel(|f| {
            let own = own(f);
            let condition = is_three(f, own);
            parts(f, condition, barrier);
        }));
        // What is computed of it, selected by it, or put together with it.
        refused(&kernel(|f| {
            let own = own(f);
            let is_three = is_three(f, own);
            let (one, two) = (f.u32_literal(1), f.u32_literal(2));
            let selected = f.select(is_three, one, two);
            let array = f.array(of_u32(), &[one, selected]);
            let variable = f.local(Some("both"), array);
            let zero = f.index_literal(0);
            let first = f.load(Place::local(variable).at(zero), of_u32());
            let is_one = f.binary(BinaryOperation::Equal, first, one);
            parts(f, is_one, barrier);
        }));
    }
}

#[test]
fn threads_that_part_meet_again() {
    accepted(&kernel(|f| {
        let condition = differs(f);
        parts(f, condition, |f| {
            f.u32_literal(1);
        });
        barrier(f);
        // Who leaves a function that is written into its caller, and who waits in it before.
        f.repeat_forever(|f, id| {
            barrier(f);
            let condition = differs(f);
            parts(f, condition, |f| f.push(Statement::Break(id)));
            f.u32_literal(1);
            f.push(Statement::Break(id));
        });
        barrier(f);
        // Who goes on with the next round.
        let (start, end) = (f.u32_literal(0), f.u32_literal(5));
        f.for_range("i", start, end, |f, id, _| {
            barrier(f);
            let condition = differs(f);
            parts(f, condition, |f| f.push(Statement::Continue(id)));
            f.u32_literal(1);
        });
        // All or none have left, one after the other.
        let passed = f.uniform("n", of_u32());
        let is_three = is_three(f, passed);
        f.if_then(is_three, |f| {
            let condition = differs(f);
            parts(f, condition, |f| f.leave(None));
            f.leave(None);
        });
        barrier(f);
        // A loop that each leaves when it likes.
        let (start, end) = (f.index_literal(0), thread(f));
        f.for_range("k", start, end, |_, _, _| ());
        barrier(f);
        f.elements(&["i"], &[end], |_, _, _| ());
        barrier(f);
    }));
}

#[test]
fn threads_that_have_left_do_not_come() {
    refused(&kernel(|f| {
        let condition = differs(f);
        parts(f, condition, |f| f.leave(None));
        barrier(f);
    }));
    refused(&kernel(|f| {
        let passed = f.uniform("n", of_u32());
        let is_three = is_three(f, passed);
        f.if_then(is_three, |f| {
            let condition = differs(f);
            parts(f, condition, |f| f.leave(None));
        });
        barrier(f);
    }));
    // All of a part have left, and those within it met no more.
    refused(&kernel(|f| {
        f.repeat_forever(|f, id| {
            barrier(f);
            let passed = f.uniform("n", of_u32());
            let is_three = is_three(f, passed);
            f.if_then(is_three, |f| {
                let condition = differs(f);
                parts(f, condition, |f| f.leave(None));
                f.push(Statement::Continue(id));
            });
            f.leave(None);
        });
    }));
    // From within a loop, for the second round of which others are alone.
    refused(&kernel(|f| {
        f.repeat_forever(|f, _| {
            barrier(f);
            let condition = differs(f);
            parts(f, condition, |f| f.leave(None));
        });
    }));
    refused(&kernel(|f| {
        f.repeat_forever(|f, id| {
            barrier(f);
            let condition = differs(f);
            parts(f, condition, |f| f.push(Statement::Break(id)));
        });
    }));
    // The rest of a round, of the inner and of the outer loop.
    refused(&kernel(|f| {
        f.repeat_forever(|f, id| {
            let condition = differs(f);
            parts(f, condition, |f| f.push(Statement::Continue(id)));
            barrier(f);
        });
    }));
    refused(&kernel(|f| {
        f.repeat_forever(|f, outer| {
            f.repeat_forever(|f, inner| {
                let condition = differs(f);
                parts(f, condition, |f| f.push(Statement::Continue(outer)));
                f.push(Statement::Break(inner));
            });
            barrier(f);
        });
    }));
    // As often as each has rounds.
    refused(&kernel(|f| {
        let (start, end) = (f.index_literal(0), thread(f));
        at(f, PARTS);
        f.for_range("k", start, end, |f, _, _| barrier(f));
    }));
    let module = kernel(|f| {
        let x = f.buffer("x", of_u32(), false);
        let end = f.length(x);
        at(f, PARTS);
        f.elements(&["i"], &[end], |f, _, _| barrier(f));
    });
    let words = [
        "the loop in line 10 is over a thread's own elements",
        "`acc.uniform_elements(n)`",
    ];
    refused_at(&module, "waits", &words);
}

#[test]
fn what_is_written_apart_differs() {
    refused(&kernel(|f| {
        let (one, three) = (f.u32_literal(1), f.u32_literal(3));
        let variable = f.local(Some("x"), one);
        let condition = differs(f);
        f.if_then(condition, |f| f.store_local(variable, three));
        let held = f.load_local(variable);
        let condition = is_three(f, held);
        parts(f, condition, barrier);
    }));
    // A count of rounds, which each has left after another.
    refused(&kernel(|f| {
        let (zero, end) = (f.index_literal(0), thread(f));
        let count = f.local(Some("count"), zero);
        f.for_range("k", zero, end, |f, _, k| f.store_local(count, k));
        let held = f.load_local(count);
        let condition = is_three(f, held);
        parts(f, condition, barrier);
    }));
    // It may be written later in the loop.
    refused(&kernel(|f| {
        let one = f.index_literal(1);
        let variable = f.local(Some("x"), one);
        let (start, end) = (f.u32_literal(0), f.u32_literal(5));
        f.for_range("i", start, end, |f, _, _| {
            let held = f.load_local(variable);
            let condition = is_three(f, held);
            parts(f, condition, barrier);
            let own = thread(f);
            f.store_local(variable, own);
        });
    }));
    // Through a slice, and at a place of each thread's own.
    for through_slice in [false, true] {
        for same in [false, true] {
            let module = kernel(|f| {
                let one = f.u32_literal(1);
                let array = f.repeat(one, 4);
                let array = f.local(Some("array"), array);
                let (zero, own) = (f.index_literal(0), thread(f));
                let at = if same { zero } else { own };
                let to = if through_slice {
                    let place = Place::local(array);
                    let slice = f.slice(place, None, of_u32(), Space::Private, true);
                    Place::element(slice, at)
                } else {
                    Place::local(array).at(at)
                };
                f.store(to, one);
                let first = f.load(Place::local(array).at(zero), of_u32());
                let condition = is_three(f, first);
                parts(f, condition, barrier);
            });
            if same {
                accepted(&module);
            } else {
                refused(&module);
            }
        }
    }
}

/// A condition that the field of this number decides, of a pair of the thread's index and a number
/// that is passed.
fn of_pair(write: impl FnOnce(&mut FunctionBuilder, StructId, Value, Value) -> Value) -> Module {
    let mut module = ModuleBuilder::new();
    let pair = module.structure("Pair", vec![("0", number()), ("1", number())]);
    let mut f = FunctionBuilder::new("waits");
    let (own, passed) = (thread(&mut f), f.uniform("n", number()));
    let held = write(&mut f, pair, own, passed);
    let condition = is_three(&mut f, held);
    parts(&mut f, condition, barrier);
    module.finish(f.kernel(1))
}

#[test]
fn each_field_is_looked_at_by_itself() {
    for (field, check) in [(0, refused as fn(&Module)), (1, accepted)] {
        // Of a value, and of one of two.
        check(&of_pair(|f, pair, own, passed| {
            let value = f.structure(pair, &[own, passed]);
            f.field(value, field, number())
        }));
        check(&of_pair(|f, pair, own, passed| {
            let first = f.structure(pair, &[own, passed]);
            let second = f.structure(pair, &[passed, passed]);
            let condition = is_three(f, passed);
            let value = f.select(condition, first, second);
            f.field(value, field, number())
        }));
        // Of a variable, as a whole and in parts.
        check(&of_pair(|f, pair, own, passed| {
            let value = f.structure(pair, &[own, passed]);
            let variable = f.local(Some("pair"), value);
            f.load(Place::local(variable).field(field), number())
        }));
        check(&of_pair(|f, pair, own, passed| {
            let value = f.structure(pair, &[passed, passed]);
            let variable = f.local(Some("pair"), value);
            f.store(Place::local(variable).field(0), own);
            let value = f.load_local(variable);
            f.field(value, field, number())
        }));
    }
    // Which threads write decides for all that is written.
    for field in [0, 1] {
        refused(&of_pair(|f, pair, own, passed| {
            let (first, second) = (f.structure(pair, &[own, passed]), f.index_literal(7));
            let variable = f.local(Some("pair"), first);
            let second = f.structure(pair, &[second, second]);
            let condition = differs(f);
            f.if_then(condition, |f| f.store_local(variable, second));
            f.load(Place::local(variable).field(field), number())
        }));
        refused(&of_pair(|f, pair, own, passed| {
            let (first, second) = (
                f.structure(pair, &[own, passed]),
                f.structure(pair, &[passed, own]),
            );
            let condition = is_three(f, own);
            let value = f.select(condition, first, second);
            f.field(value, field, number())
        }));
    }
    // A function gives both.
    for (field, check) in [(0, refused as fn(&Module)), (1, accepted)] {
        let mut module = ModuleBuilder::new();
        let pair = module.structure("Pair", vec![("0", number()), ("1", number())]);
        let mut place = FunctionBuilder::new("place").returning(Type::Struct(pair));
        let n = place.parameter("n", number());
        let own = thread(&mut place);
        let both = place.structure(pair, &[own, n]);
        place.give(both);
        let place = module.function(place.function());
        let mut f = FunctionBuilder::new("waits");
        let passed = f.uniform("n", number());
        let both = f.call(place, &[passed], Type::Struct(pair));
        let held = f.field(both, field, number());
        let condition = is_three(&mut f, held);
        parts(&mut f, condition, barrier);
        check(&module.finish(f.kernel(1)));
    }
}

/// `fn twice(x) { 2 * x }`.
fn twice() -> FunctionBuilder {
    let mut twice = FunctionBuilder::new("twice").returning(number());
    let x = twice.parameter("x", number());
    let two = twice.index_literal(2);
    let product = twice.binary(BinaryOperation::Multiply, x, two);
    twice.give(product);
    twice
}

#[test]
fn functions_are_gone_through() {
    let decides = |own: bool| {
        with_function(twice(), |f, twice| {
            let passed = f.uniform("n", number());
            let argument = if own { thread(f) } else { passed };
            let result = f.call(twice, &[argument], number());
            let condition = is_three(f, result);
            parts(f, condition, barrier);
        })
    };
    accepted(&decides(false));
    refused(&decides(true));

    // One that waits, if its argument says so.
    let waits = |own: bool, apart: bool| {
        let mut helper = FunctionBuilder::new("helper");
        let x = helper.parameter("x", number());
        let condition = is_three(&mut helper, x);
        parts(&mut helper, condition, barrier);
        with_function(helper, |f, helper| {
            let passed = f.uniform("n", number());
            let argument = if own { thread(f) } else { passed };
            let condition = if apart {
                differs(f)
            } else {
                is_three(f, passed)
            };
            parts(f, condition, |f| {
                at(f, MEETS);
                f.call(helper, &[argument], Type::Unit);
            });
        })
    };
    accepted(&waits(false, false));
    refused(&waits(false, true));
    refused_at(&waits(true, false), "helper", &["in line 10 "]);

    // One that leaves early, for its caller only.
    let mut early = FunctionBuilder::new("early").returning(number());
    let x = early.parameter("x", number());
    let condition = differs(&mut early);
    early.if_then(condition, |f| f.give(x));
    early.give(x);
    accepted(&with_function(early, |f, early| {
        let passed = f.uniform("n", number());
        f.call(early, &[passed], number());
        barrier(f);
    }));
}

#[test]
fn what_a_function_writes_and_gives_may_differ() {
    // Which of two results it gives.
    let mut early = FunctionBuilder::new("early").returning(number());
    let (one, three) = (early.index_literal(1), early.index_literal(3));
    let condition = differs(&mut early);
    early.if_then(condition, |f| f.give(one));
    early.give(three);
    refused(&with_function(early, |f, early| {
        let result = f.call(early, &[], number());
        let condition = is_three(f, result);
        parts(f, condition, barrier);
    }));
    // What it writes to its caller's array.
    for own in [false, true] {
        let slice = Type::Slice {
            element: Box::new(number()),
            space: Space::Private,
            mutable: true,
        };
        let mut fill = FunctionBuilder::new("fill");
        let to = fill.parameter("to", slice);
        let what = fill.parameter("what", number());
        let zero = fill.index_literal(0);
        fill.store(Place::element(to, zero), what);
        let module = with_function(fill, |f, fill| {
            let one = f.index_literal(1);
            let array = f.repeat(one, 4);
            let array = f.local(Some("array"), array);
            let slice = f.slice(Place::local(array), None, number(), Space::Private, true);
            let what = if own { thread(f) } else { one };
            f.call(fill, &[slice, what], Type::Unit);
            let first = f.load(Place::element(slice, one), number());
            let condition = is_three(f, first);
            parts(f, condition, barrier);
        });
        if own {
            refused(&module);
        } else {
            accepted(&module);
        }
    }
}

#[test]
fn warps_come_together_by_their_votes() {
    let says: [fn(&mut FunctionBuilder) -> Value; 4] = [
        |f| {
            let own = differs(f);
            f.warp(WarpOperation::Any, &[own])
        },
        |f| {
            let own = differs(f);
            let ballot = f.warp(WarpOperation::Ballot, &[own]);
            is_three(f, ballot)
        },
        |f| {
            let active = f.warp(WarpOperation::ActiveMask, &[]);
            is_three(f, active)
        },
        |f| {
            // The first lane's.
            let (own, zero) = (thread(f), f.u32_literal(0));
            let own = f.cast(own, Scalar::U32);
            let first = f.warp(WarpOperation::Shuffle, &[own, zero]);
            is_three(f, first)
        },
    ];
    for says in says {
        accepted(&kernel(|f| {
            let condition = says(f);
            parts(f, condition, vote);
            f.repeat_forever(|f, id| {
                vote(f);
                let condition = says(f);
                f.if_then(condition, |f| f.push(Statement::Break(id)));
            });
        }));
        // Another warp may say something else.
        refused(&kernel(|f| {
            let condition = says(f);
            parts(f, condition, barrier);
        }));
    }
    // Which warp of the block it is, in the widths that numbers of threads fit in.
    for (to, fits) in [
        (Scalar::U32, true),
        (Scalar::U64, true),
        (Scalar::U8, false),
    ] {
        let by_warp = |dimensions, meets: fn(&mut FunctionBuilder)| {
            let mut f = FunctionBuilder::new("waits");
            let (thread, size) = (thread(&mut f), f.warp(WarpOperation::Size, &[]));
            let (thread, size) = (f.cast(thread, to), f.cast(size, to));
            let warp = f.binary(BinaryOperation::Divide, thread, size);
            let condition = is_three(&mut f, warp);
            parts(&mut f, condition, meets);
            ModuleBuilder::new().finish(f.kernel(dimensions))
        };
        let of_warp = ["every thread of a warp", "in line 10 "];
        if fits {
            accepted(&by_warp(1, vote));
        } else {
            refused_at(&by_warp(1, vote), "waits", &of_warp);
        }
        refused_at(&by_warp(2, vote), "waits", &of_warp);
        refused(&by_warp(1, barrier));
    }
    // From another lane, which may have no thread, and by its distance.
    for operation in [WarpOperation::Shuffle, WarpOperation::ShuffleUp] {
        let module = kernel(|f| {
            let (own, one) = (thread(f), f.u32_literal(1));
            let own = f.cast(own, Scalar::U32);
            let other = f.warp(operation, &[own, one]);
            let condition = is_three(f, other);
            parts(f, condition, vote);
        });
        refused_at(&module, "waits", &["every thread of a warp", "in line 10 "]);
        // Of what is the same everywhere it is that.
        accepted(&kernel(|f| {
            let (passed, one) = (f.uniform("n", of_u32()), f.u32_literal(1));
            let other = f.warp(operation, &[passed, one]);
            let condition = is_three(f, other);
            parts(f, condition, barrier);
        }));
    }
}

#[test]
fn only_scalars_are_vouched_for() {
    let module = kernel(|f| {
        let one = f.u32_literal(1);
        let array = f.repeat(one, 4);
        let of = f.type_of(array).clone();
        f.define(of, Operation::AssumeUniform(array));
    });
    let error = module.verify().unwrap_err();
    assert!(error.problem.contains("not a scalar"), "{error}");
}

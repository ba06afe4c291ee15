//! Random kernels with barriers: of those that are accepted, all threads come to the same barriers,
//! one after the other.
//!
//! A kernel is written down as IR and run thread by thread, here: threads have nothing of each
//! other.

use quipu_kernel_ir::{
    BinaryOperation, FunctionBuilder, LocalId, LoopId, ModuleBuilder, Origin, Scalar, Statement,
    Unit, Value,
};

/// Rounds of a loop, at most.
const ROUNDS: u32 = 3;
const VARIABLES: u32 = 3;
const THREADS: u32 = 4;

#[derive(Clone, Copy)]
enum Number {
    Constant(u32),
    Thread,
    Passed,
    Variable(usize),
}

enum Step {
    /// Its number.
    Barrier(u32),
    /// A variable becomes the sum of two numbers.
    Assign(usize, [Number; 2]),
    /// If the sum of two numbers is odd.
    If([Number; 2], Vec<Step>, Vec<Step>),
    Loop(Vec<Step>),
    /// Out of so many loops but one.
    Break(usize),
    Continue(usize),
    Return,
}

/// A sequence of numbers that look random (Steele, Lea and Flood, "Fast Splittable Pseudorandom
/// Number Generators", 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % u64::from(end)) as u32
    }

    fn number(&mut self) -> Number {
        match self.below(8) {
            0 => Number::Thread,
            1 | 2 => Number::Passed,
            3..=5 => Number::Variable(self.below(VARIABLES) as usize),
            _ => Number::Constant(self.below(4)),
        }
    }

    fn steps(&mut self, depth: u32, loops: usize, barriers: &mut u32) -> Vec<Step> {
        let count = 1 + self.below(4);
        (0..count)
            .map(|_| match self.below(12) {
                0..=2 => {
                    *barriers += 1;
                    Step::Barrier(*barriers)
                }
                3..=5 => {
                    let to = self.below(VARIABLES) as usize;
                    Step::Assign(to, [self.number(), self.number()])
                }
                6..=8 if depth > 0 => {
                    let condition = [self.number(), self.number()];
                    let then = self.steps(depth - 1, loops, barriers);
                    let otherwise = if self.below(2) == 0 {
                        self.steps(depth - 1, loops, barriers)
                    } else {
                        Vec::new()
                    };
                    Step::If(condition, then, otherwise)
                }
                9 if depth > 0 => Step::Loop(self.steps(depth - 1, loops + 1, barriers)),
                10 if loops > 0 => {
                    let out = self.below(loops as u32) as usize;
                    if self.below(2) == 0 {
                        Step::Break(out)
                    } else {
                        Step::Continue(out)
                    }
                }
                11 if self.below(3) == 0 => Step::Return,
                _ => Step::Assign(0, [self.number(), Number::Variable(0)]),
            })
            .collect()
    }
}

struct Written {
    f: FunctionBuilder,
    passed: Value,
    thread: Value,
    variables: Vec<LocalId>,
    /// That the writer is in.
    loops: Vec<LoopId>,
}

impl Written {
    fn sum(&mut self, numbers: [Number; 2]) -> Value {
        let [first, second] = numbers.map(|number| match number {
            Number::Constant(constant) => self.f.u32_literal(constant),
            Number::Thread => self.thread,
            Number::Passed => self.passed,
            Number::Variable(at) => self.f.load_local(self.variables[at]),
        });
        self.f.binary(BinaryOperation::Add, first, second)
    }

    fn block(&mut self, steps: &[Step]) -> Vec<Statement> {
        self.f.begin_block();
        self.steps(steps);
        self.f.end_block()
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Barrier(_) => self.f.barrier(),
                Step::Assign(to, numbers) => {
                    let sum = self.sum(*numbers);
                    self.f.store_local(self.variables[*to], sum);
                }
                Step::If(numbers, then, otherwise) => {
                    let sum = self.sum(*numbers);
                    let one = self.f.u32_literal(1);
                    let last = self.f.binary(BinaryOperation::And, sum, one);
                    let is_odd = self.f.binary(BinaryOperation::Equal, last, one);
                    let (then, otherwise) = (self.block(then), self.block(otherwise));
                    self.f.branch(is_odd, then, otherwise);
                }
                Step::Loop(steps) => {
                    let zero = self.f.u32_literal(0);
                    let counter = self.f.local(None, zero);
                    let id = self.f.loop_id();
                    self.f.begin_block();
                    let (now, end) = (self.f.load_local(counter), self.f.u32_literal(ROUNDS));
                    let is_finished = self.f.binary(BinaryOperation::Equal, now, end);
                    self.f
                        .if_then(is_finished, |f| f.push(Statement::Break(id)));
                    self.loops.push(id);
                    self.steps(steps);
                    self.loops.pop();
                    let body = self.f.end_block();
                    self.f.begin_block();
                    let (now, one) = (self.f.load_local(counter), self.f.u32_literal(1));
                    let next = self.f.binary(BinaryOperation::Add, now, one);
                    self.f.store_local(counter, next);
                    let step = self.f.end_block();
                    self.f.push(Statement::Loop { id, body, step });
                }
                Step::Break(out) => {
                    let id = self.loops[self.loops.len() - 1 - out];
                    self.f.push(Statement::Break(id));
                }
                Step::Continue(out) => {
                    let id = self.loops[self.loops.len() - 1 - out];
                    self.f.push(Statement::Continue(id));
                }
                Step::Return => self.f.leave(None),
            }
        }
    }
}

fn is_accepted(steps: &[Step]) -> bool {
    let mut f = FunctionBuilder::new("random");
    let passed = f.uniform("passed", Scalar::U32.into());
    let thread = f.index(Origin::Block, Unit::Threads, 0);
    let thread = f.cast(thread, Scalar::U32);
    let zero = f.u32_literal(0);
    let variables = (0..VARIABLES).map(|_| f.local(None, zero)).collect();
    let mut written = Written {
        f,
        passed,
        thread,
        variables,
        loops: Vec::new(),
    };
    written.steps(steps);
    let module = ModuleBuilder::new().finish(written.f.kernel(1));
    match module.verify() {
        Ok(()) => true,
        Err(error) => {
            let words = "every thread of a block";
            assert!(error.problem.starts_with(words), "{error}");
            false
        }
    }
}

/// The next step of a thread.
#[derive(Clone, Copy, PartialEq)]
enum Goes {
    On,
    Out(usize),
    Again(usize),
    Away,
}

struct Thread {
    number: u32,
    passed: u32,
    variables: [u32; VARIABLES as usize],
    /// The barriers that it came to.
    came: Vec<u32>,
}

impl Thread {
    fn sum(&self, numbers: [Number; 2]) -> u32 {
        let [first, second] = numbers.map(|number| match number {
            Number::Constant(constant) => constant,
            Number::Thread => self.number,
            Number::Passed => self.passed,
            Number::Variable(at) => self.variables[at],
        });
        first.wrapping_add(second)
    }

    fn run(&mut self, steps: &[Step]) -> Goes {
        for step in steps {
            let goes = match step {
                Step::Barrier(number) => {
                    self.came.push(*number);
                    Goes::On
                }
                Step::Assign(to, numbers) => {
                    self.variables[*to] = self.sum(*numbers);
                    Goes::On
                }
                Step::If(numbers, then, otherwise) => {
                    let is_odd = self.sum(*numbers) % 2 == 1;
                    self.run(if is_odd { then } else { otherwise })
                }
                Step::Loop(steps) => self.rounds(steps),
                Step::Break(out) => Goes::Out(*out),
                Step::Continue(out) => Goes::Again(*out),
                Step::Return => Goes::Away,
            };
            if goes != Goes::On {
                return goes;
            }
        }
        Goes::On
    }

    fn rounds(&mut self, steps: &[Step]) -> Goes {
        for _ in 0..ROUNDS {
            match self.run(steps) {
                Goes::On | Goes::Again(0) => {}
                Goes::Out(0) => break,
                Goes::Out(out) => return Goes::Out(out - 1),
                Goes::Again(out) => return Goes::Again(out - 1),
                Goes::Away => return Goes::Away,
            }
        }
        Goes::On
    }
}

/// True if all threads come to the same barriers.
fn come_together(steps: &[Step], passed: u32) -> bool {
    let came = |number| {
        let mut thread = Thread {
            number,
            passed,
            variables: [0; VARIABLES as usize],
            came: Vec::new(),
        };
        thread.run(steps);
        thread.came
    };
    let first = came(0);
    (1..THREADS).all(|number| came(number) == first)
}

#[test]
fn threads_of_what_is_accepted_come_together() {
    let (mut accepted, mut apart, mut refused) = (0, 0, 0);
    for seed in 0..20_000 {
        let mut barriers = 0;
        let steps = Random(seed).steps(4, 0, &mut barriers);
        if barriers == 0 {
            continue;
        }
        let is_right = (0..4).all(|passed| come_together(&steps, passed));
        if is_accepted(&steps) {
            assert!(is_right, "seed {seed}");
            accepted += 1;
        } else if is_right {
            refused += 1;
        } else {
            apart += 1;
        }
    }
    // Enough of each, and not too many for nothing.
    println!("{accepted} accepted, {apart} apart, {refused} refused though right");
    assert!(accepted > 5_000 && apart > 500, "{accepted}, {apart}");
}

//! Tests of bounds that hold for a whole group: `if (i < n)`, `if (x >= w) return`,
//! `if (x > 0 && x < w - 1)`.
//!
//! A guard compares a value that grows with the work-item's number with a value that is the same
//! for all. It holds for all work-items of a group if it holds for the first, or for the last. Most
//! groups of a launch are such: they run a version of the kernel without the test, which then has
//! no branch that work-items might part at.
//!
//! So do a grid's edges: `x == 0 ? w - 1 : x - 1` is `x - 1` for most groups. Where an address
//! comes from such a choice, a group within the grid runs a version that has the choice made, in
//! which neighbours read neighbours.

use super::emit::Emitter;
use super::graph::{End, Graph};
use super::variables::is_leaf;
use crate::compiler::llvm::*;
use std::collections::HashMap;

/// A branch that goes one way, or a `select` that has one value, for all work-items of most groups.
pub(super) struct Guard {
    pub(super) decision: Value,
    /// The successor that it goes to, or which of its two values it has.
    pub(super) way: usize,
    tests: Vec<Test>,
}

/// A comparison that holds for all work-items if it does for its left side of one of them, and its
/// right side of one.
struct Test {
    sides: [Value; 2],
    predicate: i32,
    /// The value that it has to have.
    wanted: bool,
    /// For each side, whether the last work-item's decides, or the first one's.
    last: [bool; 2],
}

/// The change of a value from one work-item to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Not at all.
    Same,
    /// It grows.
    Up,
}

/// The guards of a kernel that are branches.
pub(super) fn branches(kernel: Value) -> Vec<Guard> {
    let graph = Graph::new(kernel, &HashMap::new());
    let mut guards = Vec::new();
    for node in &graph.nodes {
        let End::Branch(Some(branch)) = node.end else {
            continue;
        };
        if branch.opcode() != Some(op::BR) || node.next.len() != 2 {
            continue;
        }
        let condition = LLVMGetOperand(branch, 0);
        // Whichever way is within bounds, and has something to do.
        let guard = [true, false].into_iter().find_map(|wanted| {
            let way = usize::from(!wanted);
            let other = &graph.nodes[node.next[1 - way]];
            let is_all = other.body.is_empty() && other.end == End::Return;
            let mut tests = Vec::new();
            (collect(condition, wanted, is_all, &mut tests) && !tests.is_empty()).then_some(Guard {
                decision: branch,
                way,
                tests,
            })
        });
        guards.extend(guard);
    }
    guards
}

/// The guards of a kernel that choose between two addresses.
pub(super) fn selects(kernel: Value) -> Vec<Guard> {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let selects = all.filter(|one| one.opcode() == Some(op::SELECT) && leads_to_address(*one, 0));
    let guards = selects.filter_map(|decision| {
        let condition = LLVMGetOperand(decision, 0);
        [true, false].into_iter().find_map(|wanted| {
            let way = usize::from(!wanted);
            let mut tests = Vec::new();
            let is_guard = is_off_edge(condition, wanted, &mut tests)
                || collect(condition, wanted, false, &mut tests) && !tests.is_empty();
            is_guard.then_some(Guard {
                decision,
                way,
                tests,
            })
        })
    });
    guards.collect()
}

/// True if the address of an access comes from a number.
fn leads_to_address(number: Value, depth: usize) -> bool {
    const DEEPEST: usize = 8;
    depth < DEEPEST
        && number.users().into_iter().any(|user| match user.opcode() {
            Some(op::GEP) => true,
            Some(op::ADD | op::SUB | op::MUL | op::SHL | op::OR | op::SEXT | op::ZEXT) => {
                leads_to_address(user, depth + 1)
            }
            _ => false,
        })
}

/// Adds what has to hold for a number of work-items to differ from a bound that all of them are
/// below: the last column's.
fn is_off_edge(condition: Value, wanted: bool, tests: &mut Vec<Test>) -> bool {
    let unequal = if wanted { compare::NE } else { compare::EQ };
    if condition.opcode() != Some(op::ICMP) || LLVMGetICmpPredicate(condition) != unequal {
        return false;
    }
    let sides = [0, 1].map(|side| LLVMGetOperand(condition, side));
    let predicate = match sides.map(|side| growth(side, 0)) {
        [Some(Growth::Up), Some(Growth::Same)] if sides[1].number().is_none() => compare::SLT,
        [Some(Growth::Same), Some(Growth::Up)] if sides[0].number().is_none() => compare::SGT,
        _ => return false,
    };
    tests.push(Test {
        sides,
        predicate,
        wanted: true,
        last: [true; 2],
    });
    true
}

/// Adds what has to hold for a condition to be `wanted` for all work-items; false if that cannot be
/// told. `is_all`: work-items for which it is not are through.
fn collect(condition: Value, wanted: bool, is_all: bool, tests: &mut Vec<Test>) -> bool {
    let opcode = condition.opcode();
    if opcode == Some(if wanted { op::AND } else { op::OR }) {
        return condition
            .operands()
            .all(|operand| collect(operand, wanted, is_all, tests));
    }
    if opcode == Some(op::XOR) && LLVMGetOperand(condition, 1).number() == Some(1) {
        return collect(LLVMGetOperand(condition, 0), !wanted, is_all, tests);
    }
    if opcode == Some(op::SELECT) {
        // `a && b` is `a ? b : false`, `a || b` is `a ? true : b`.
        let [first, yes, no] = [0, 1, 2].map(|index| LLVMGetOperand(condition, index));
        return match wanted {
            true if no.number() == Some(0) => {
                collect(first, true, is_all, tests) && collect(yes, true, is_all, tests)
            }
            false if yes.number() == Some(1) => {
                collect(first, false, is_all, tests) && collect(no, false, is_all, tests)
            }
            _ => false,
        };
    }
    if opcode != Some(op::ICMP) {
        return false;
    }
    let (left, right) = (LLVMGetOperand(condition, 0), LLVMGetOperand(condition, 1));
    let (Some(left_growth), Some(right_growth)) = (growth(left, 0), growth(right, 0)) else {
        return false;
    };
    let predicate = LLVMGetICmpPredicate(condition);
    let stays = match (left_growth, right_growth) {
        (Growth::Up, Growth::Same) => right,
        (Growth::Same, Growth::Up) => left,
        (Growth::Up, Growth::Up) if is_all => {
            // It is hardest for the largest number to be below the smallest.
            let left_is_low = match predicate {
                compare::ULT | compare::ULE | compare::SLT | compare::SLE => wanted,
                compare::UGT | compare::UGE | compare::SGT | compare::SGE => !wanted,
                _ => return false,
            };
            tests.push(Test {
                sides: [left, right],
                predicate,
                wanted,
                last: [left_is_low, !left_is_low],
            });
            return true;
        }
        _ => return false,
    };
    let bound = stays.number();
    // Whether what grows is below what stays.
    let below = match predicate {
        compare::EQ | compare::NE if bound == Some(0) => predicate == compare::EQ,
        compare::ULT | compare::ULE | compare::SLT | compare::SLE => left_growth == Growth::Up,
        compare::UGT | compare::UGE | compare::SGT | compare::SGE => left_growth != Growth::Up,
        _ => return false,
    };
    // A small number is a lower bound, and anything else an upper one.
    const SMALL: u64 = 64;
    let within = below != bound.is_some_and(|bound| bound <= SMALL);
    if within != wanted {
        return false;
    }
    tests.push(Test {
        sides: [left, right],
        predicate,
        wanted,
        last: [below == wanted; 2],
    });
    true
}

/// The change of a value that comes from arguments and numbers of the work-item alone; none if that
/// cannot be told.
fn growth(value: Value, depth: usize) -> Option<Growth> {
    const DEEPEST: usize = 8;
    if value.opcode().is_none() {
        return Some(Growth::Same);
    }
    if depth > DEEPEST {
        return None;
    }
    if is_leaf(value) {
        let name = value.callee()?;
        // Of the number within the group, tests hold for a part of it.
        return match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "__q_gid" => Some(Growth::Up),
            "__q_group" | "__q_info" => Some(Growth::Same),
            _ => None,
        };
    }
    let of = |index: u32| growth(LLVMGetOperand(value, index), depth + 1);
    match value.opcode()? {
        // Numbers of work-items have at most 31 bits.
        op::ZEXT | op::SEXT => of(0),
        op::TRUNC if value.ty().is_integer(32) => {
            let from = LLVMGetOperand(value, 0);
            let is_number = from.opcode() == Some(op::ZEXT) && is_leaf(LLVMGetOperand(from, 0));
            match of(0)? {
                Growth::Up if !is_number => None,
                growth => Some(growth),
            }
        }
        // Sums of 64 bits do not overflow; others may.
        op::ADD => {
            let growth = match (of(0)?, of(1)?) {
                (Growth::Same, Growth::Same) => return Some(Growth::Same),
                _ => Growth::Up,
            };
            let small = 0..1 << 31;
            let is_small = |index| {
                LLVMGetOperand(value, index)
                    .number()
                    .is_some_and(|number| small.contains(&number))
            };
            (value.ty().is_integer(64) && (is_small(0) || is_small(1))).then_some(growth)
        }
        op::SUB | op::MUL | op::SHL | op::LSHR | op::ASHR | op::AND | op::OR | op::XOR => {
            match (of(0)?, of(1)?) {
                (Growth::Same, Growth::Same) => Some(Growth::Same),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A value that is true if all guards hold for the group that is written.
pub(super) fn holds(emitter: &mut Emitter, guards: &[&Guard]) -> Value {
    let mut all: Option<Value> = None;
    for test in guards.iter().flat_map(|guard| &guard.tests) {
        let sides = [0, 1].map(|side| emitter.at_corner(test.sides[side], test.last[side]));
        let mut held = emitter.compared(test.predicate, sides[0], sides[1]);
        if !test.wanted {
            held = emitter.inverted(held);
        }
        all = Some(match all {
            Some(all) => emitter.both(all, held),
            None => held,
        });
    }
    all.unwrap_or_else(|| emitter.truth())
}

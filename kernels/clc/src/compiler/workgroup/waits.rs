//! Loops in which a work-item waits until another one has changed memory: locks, tickets and flags.
//!
//! One thread runs the work-items of a group. Between two cuts it runs them one after the other, so
//! a work-item gives a lock back before the next one takes it. Two things that hold elsewhere do
//! not hold for a kernel with such a loop:
//!
//! * Work-items may not stop at cuts that only make a kernel faster. One that stops while it holds
//!   a lock waits for the others, and they wait for the lock.
//! * A read from one address may differ between work-items: the lock orders it with their writes.
//!
//! A loop waits if its exit depends on an atomic operation, or on a volatile read, within it. A
//! loop that tries an exchange again with the number that it has just seen, and that is left when
//! the exchange has succeeded, does not wait: a turn fails only if another thread has changed the
//! number. An atomic sum of `float` is such a loop.

use super::graph::{End, Graph, Loop};
use crate::compiler::llvm::*;
use std::collections::HashSet;

/// True if a work-item waits for others in one of the loops.
pub(super) fn any(graph: &Graph, loops: &[Loop]) -> bool {
    loops
        .iter()
        .any(|of| leaves_when_told(graph, of) && !tries_again(graph, of))
}

/// True if an access takes part in an order of threads, or the compiler is to take it for one that
/// does.
pub(super) fn is_shared(access: Value) -> bool {
    match access.opcode() {
        Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG) => true,
        Some(op::LOAD | op::STORE) => LLVMGetVolatile(access) != 0 || LLVMGetOrdering(access) != 0,
        _ => false,
    }
}

/// True if work-items leave a loop by what a shared number is.
fn leaves_when_told(graph: &Graph, of: &Loop) -> bool {
    let within: Vec<usize> = (0..of.nodes.len()).filter(|at| of.nodes[*at]).collect();
    let mut told: HashSet<Value> = HashSet::new();
    // Nodes in which values depend on the way that was taken to them.
    let mut meets = vec![false; graph.nodes.len()];
    loop {
        let mut changed = false;
        for at in &within {
            let node = &graph.nodes[*at];
            for phi in &node.phis {
                let mut values = graph.before[*at]
                    .iter()
                    .filter(|from| of.nodes[**from])
                    .filter_map(|from| graph.incoming(*phi, *from));
                let first = values.next();
                let differ = values.clone().any(|value| Some(value) != first);
                let is_told = first
                    .into_iter()
                    .chain(values)
                    .any(|value| told.contains(&value));
                if is_told || meets[*at] && differ {
                    changed |= told.insert(*phi);
                }
            }
            for one in &node.body {
                if is_shared(*one) || one.operands().any(|operand| told.contains(&operand)) {
                    changed |= told.insert(*one);
                }
            }
            let is_told = match &node.end {
                End::Branch(Some(branch)) if node.next.len() > 1 => {
                    told.contains(&LLVMGetOperand(*branch, 0))
                }
                _ => false,
            };
            if !is_told {
                continue;
            }
            if node.next.iter().any(|next| !of.nodes[*next]) {
                return true;
            }
            for next in ways(graph, of, *at) {
                changed |= !std::mem::replace(&mut meets[next], true);
            }
        }
        if !changed {
            return false;
        }
    }
}

/// The nodes of a loop from where a node branches to where its ways meet again, or the loop is gone
/// round again.
fn ways(graph: &Graph, of: &Loop, from: usize) -> Vec<usize> {
    let meeting = graph.after[from];
    let mut seen = vec![false; graph.nodes.len()];
    let mut open = graph.nodes[from].next.clone();
    let mut all = Vec::new();
    while let Some(at) = open.pop() {
        if !of.nodes[at] || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        all.push(at);
        if Some(at) != meeting && at != of.header {
            open.extend(&graph.nodes[at].next);
        }
    }
    all
}

/// True if each turn of a loop tries to exchange a number that it has seen, and no turn comes after
/// one that has succeeded.
fn tries_again(graph: &Graph, of: &Loop) -> bool {
    let latches: Vec<usize> = graph.before[of.header]
        .iter()
        .copied()
        .filter(|from| of.nodes[*from])
        .collect();
    let in_each_turn = (0..of.nodes.len())
        .filter(|at| of.nodes[*at] && latches.iter().all(|latch| graph.dominates(*at, *latch)));
    let mut all = in_each_turn.flat_map(|at| &graph.nodes[at].body);
    all.any(|one| {
        one.opcode() == Some(op::ATOMIC_CMPXCHG)
            && is_left_by(graph, of, *one)
            && has_seen(
                graph,
                of,
                *one,
                LLVMGetOperand(*one, 1),
                &mut HashSet::new(),
            )
    })
}

/// True if a loop is left when an exchange has succeeded, whatever else holds.
fn is_left_by(graph: &Graph, of: &Loop, exchange: Value) -> bool {
    let mut ends = (0..of.nodes.len()).filter(|at| of.nodes[*at]);
    ends.any(|at| {
        let node = &graph.nodes[at];
        let End::Branch(Some(branch)) = node.end else {
            return false;
        };
        if node.next.len() != 2 || branch.opcode() != Some(op::BR) {
            return false;
        }
        match once_exchanged(LLVMGetOperand(branch, 0), exchange) {
            Some(true) => !of.nodes[node.next[0]],
            Some(false) => !of.nodes[node.next[1]],
            None => false,
        }
    })
}

/// What a condition is when an exchange has succeeded; none if that depends on something else.
fn once_exchanged(condition: Value, exchange: Value) -> Option<bool> {
    /// LLVM's numbers of predicates.
    const EQUAL: i32 = 32;
    const UNEQUAL: i32 = 33;
    if let Some(number) = condition.number() {
        return Some(number != 0);
    }
    let operand = |at| LLVMGetOperand(condition, at);
    let of_operand = |at| once_exchanged(operand(at), exchange);
    match condition.opcode()? {
        op::EXTRACT_VALUE if operand(0) == exchange && condition.ty().is_integer(1) => Some(true),
        op::ICMP => {
            let is_found = |value: Value| {
                value.opcode() == Some(op::EXTRACT_VALUE)
                    && LLVMGetOperand(value, 0) == exchange
                    && !value.ty().is_integer(1)
            };
            let wanted = LLVMGetOperand(exchange, 1);
            let are_compared = is_found(operand(0)) && operand(1) == wanted
                || is_found(operand(1)) && operand(0) == wanted;
            match LLVMGetICmpPredicate(condition) {
                EQUAL if are_compared => Some(true),
                UNEQUAL if are_compared => Some(false),
                _ => None,
            }
        }
        op::FREEZE => of_operand(0),
        op::XOR => Some(of_operand(0)? ^ of_operand(1)?),
        op::OR => match (of_operand(0), of_operand(1)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        op::AND => match (of_operand(0), of_operand(1)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        op::SELECT => match of_operand(0)? {
            true => of_operand(1),
            false => of_operand(2),
        },
        _ => None,
    }
}

/// True if a value is what a turn of a loop has read where `exchange` writes.
fn has_seen(
    graph: &Graph,
    of: &Loop,
    exchange: Value,
    value: Value,
    seen: &mut HashSet<Value>,
) -> bool {
    let is_within = graph.home.get(&value).is_some_and(|home| of.nodes[*home]);
    if !is_within {
        return false;
    }
    if !seen.insert(value) {
        return true;
    }
    match value.opcode() {
        Some(op::LOAD) => LLVMGetOperand(value, 0) == LLVMGetOperand(exchange, 0),
        Some(op::EXTRACT_VALUE) => LLVMGetOperand(value, 0) == exchange,
        Some(op::BIT_CAST | op::FREEZE) => {
            has_seen(graph, of, exchange, LLVMGetOperand(value, 0), seen)
        }
        Some(op::PHI) => {
            let at = graph.home[&value];
            let mut froms = graph.before[at].iter().filter(|from| of.nodes[**from]);
            froms.all(|from| {
                let incoming = graph.incoming(value, *from);
                incoming.is_some_and(|value| has_seen(graph, of, exchange, value, seen))
            })
        }
        _ => false,
    }
}

//! Loops in which a work-item waits until another one has changed memory: locks, tickets and flags.
//!
//! One thread runs the work-items of a group. Between two barriers it runs them one after the
//! other, so a work-item gives a lock back before the next one takes it. A cut that only makes a
//! kernel faster may not break that: a work-item that stops while it holds a lock waits for the
//! others, and they wait for the lock.
//!
//! A loop *waits* if its exit depends on an atomic operation or a volatile read within it, unless
//! a work-item leaves it whatever the others do, since
//!
//! * each turn exchanges a number that it has seen, or otherwise leads to the exit if nobody
//!   interferes ([`alone`]): a turn fails only if another thread has changed memory meanwhile;
//! * it counts up to a bound that does not change: a queue of work ([`counts_out`]);
//! * what it finds is final: no work-item changes a slot of a table twice ([`alone`]).
//!
//! From one barrier to the next, a work-item has *begun* from the first atomic change that a wait
//! may follow, or from the wait itself. It *owes* a change as long as it may still make one that
//! another work-item waits for. Where it has begun and owes something, it may hold what another one
//! waits for: there
//!
//! * work-items do not stop at inner cuts, and run one after the other;
//! * reads from one address may differ between work-items: the lock orders them with writes.
//!
//! Before it and after it, the kernel is as any other. [`Order::frontiers`] finds where all
//! work-items stop before they begin, and when they owe nothing more.
//!
//! 1. [`alone`]: the loops that a work-item leaves if it is alone.
//! 2. [`places`]: the memory that an address is of.

mod alone;
mod places;

use super::graph::{End, Graph, Loop};
use super::uniform::Divergence;
use super::variables::{is_leaf, is_pure};
use crate::compiler::calls;
use crate::compiler::llvm::*;
use places::{Place, left, places, written};
use std::collections::{HashMap, HashSet};

/// Where work-items may hold what others wait for.
pub(super) struct Order {
    /// True of a node in which, or before which, a work-item may have begun.
    begun: Vec<bool>,
    /// True of a node in which, or after which, it may make a change that others wait for.
    owes: Vec<bool>,
}

impl Order {
    /// The order of a kernel.
    pub(super) fn of(graph: &Graph, loops: &[Loop]) -> Self {
        let count = graph.nodes.len();
        let waiting: Vec<&Loop> = loops.iter().filter(|of| waits(graph, of)).collect();
        if waiting.is_empty() {
            return Self {
                begun: vec![false; count],
                owes: vec![false; count],
            };
        }
        let within = |at: usize| waiting.iter().any(|of| of.nodes[at]);
        let awaited: Vec<Place> = (0..count)
            .filter(|at| within(*at))
            .flat_map(|at| &graph.nodes[at].body)
            .filter(|one| is_shared(**one))
            .flat_map(|one| places(address(*one)))
            .collect();
        let any = |of: &dyn Fn(Value) -> bool| -> Vec<bool> {
            let nodes = graph.nodes.iter();
            nodes
                .map(|node| node.body.iter().any(|one| of(*one)))
                .collect()
        };
        let changes = any(&|one| is_change(one));
        let writes = |one: Value, to: &[Place]| {
            written(one).is_some_and(|at| Place::any_meet(&places(at), to))
        };
        // Without a write that ends the wait, it ends by another argument for the same memory. So
        // it may where a constant is written by one. A loop that waits may begin by one write, and
        // ends what it has begun by another.
        let ends_of = |nodes: &dyn Fn(usize) -> bool| {
            let nodes = (0..count).filter(|at| nodes(*at));
            let all = nodes.flat_map(|at| &graph.nodes[at].body);
            all.filter(|one| writes(**one, &awaited)).count()
        };
        let is_end_seen = ends_of(&|at| !within(at)) > 0
            || waiting.iter().any(|of| ends_of(&|at| of.nodes[at]) > 1);
        let owes = any(&|one| {
            let ends = || match is_end_seen && left(one, None).is_none() {
                true => writes(one, &awaited),
                false => written(one).is_some_and(|at| Place::any_share(&places(at), &awaited)),
            };
            is_change(one) || calls::is_call(one) || ends()
        });
        let mut leads: Vec<bool> = (0..count).map(within).collect();
        backwards(graph, &mut leads);
        let begins = |at: usize| within(at) || changes[at] && leads[at];
        let mut begun: Vec<bool> = (0..count).map(begins).collect();
        onwards(graph, &mut begun);
        let mut owes = owes;
        backwards(graph, &mut owes);
        Self { begun, owes }
    }

    /// True if a work-item in a node may hold what others wait for.
    pub(super) fn holds(&self, at: usize) -> bool {
        self.begun[at] && self.owes[at]
    }

    /// True if some work-items may stop on edges from these nodes, and others on edges to those, or
    /// the same ones: none that has begun waits there for one that owes something.
    pub(super) fn may_stop(&self, mut from: impl Iterator<Item = usize>, to: [usize; 2]) -> bool {
        !from.any(|at| self.begun[at]) || !to.iter().any(|at| self.owes[*at])
    }

    /// The edges where all work-items stop before they begin, and when they owe nothing more, if
    /// there is any access of memory that is not among those in between.
    pub(super) fn frontiers(
        &self,
        graph: &Graph,
        loops: &[Loop],
        differs: &Divergence,
    ) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for part in self.parts(graph) {
            edges.extend(self.frontier_before(graph, loops, differs, &part));
            edges.extend(self.frontier_after(graph, loops, differs, &part));
        }
        edges
    }

    /// The nodes where work-items may hold something, by parts between which there is a barrier.
    fn parts(&self, graph: &Graph) -> Vec<Vec<usize>> {
        let reached = graph.reached();
        let mut seen = vec![false; graph.nodes.len()];
        let mut parts = Vec::new();
        for start in 0..graph.nodes.len() {
            let (mut part, mut open) = (Vec::new(), vec![start]);
            while let Some(at) = open.pop() {
                if !reached[at] || !self.holds(at) || std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                part.push(at);
                if !graph.stops(at) {
                    open.extend(&graph.nodes[at].next);
                }
                open.extend(graph.before[at].iter().filter(|from| !graph.stops(**from)));
            }
            parts.extend((!part.is_empty()).then_some(part));
        }
        parts
    }

    /// The edges to the last node before a part that all work-items come to.
    fn frontier_before(
        &self,
        graph: &Graph,
        loops: &[Loop],
        differs: &Divergence,
        part: &[usize],
    ) -> Vec<(usize, usize)> {
        let mut target = part[0];
        while differs.nodes[target] || !part.iter().all(|at| graph.dominates(target, *at)) {
            match graph.dominator(target) {
                Some(up) => target = up,
                None => return Vec::new(),
            }
        }
        let edges = edges_into(graph, loops, target);
        let is_first = edges
            .iter()
            .all(|(from, _)| !self.begun[*from] && !graph.stops(*from));
        let is_in_loop_before = loops
            .iter()
            .any(|of| of.nodes[target] && !part.iter().all(|at| of.nodes[*at]));
        let mut before: Vec<bool> = vec![false; graph.nodes.len()];
        edges.iter().for_each(|(from, _)| before[*from] = true);
        backwards(graph, &mut before);
        match is_first && !is_in_loop_before && accesses(graph, &before) {
            true => edges,
            false => Vec::new(),
        }
    }

    /// The edges to the first node after a part that all work-items come to.
    fn frontier_after(
        &self,
        graph: &Graph,
        loops: &[Loop],
        differs: &Divergence,
        part: &[usize],
    ) -> Vec<(usize, usize)> {
        let mut target = part[0];
        let comes_after = |target: usize, at: usize| {
            let mut at = Some(at);
            while let Some(here) = at.filter(|at| *at != target) {
                at = graph.after[here];
            }
            at.is_some()
        };
        while differs.nodes[target]
            || self.owes[target]
            || !part.iter().all(|at| comes_after(target, *at))
        {
            match graph.after[target].filter(|_| !graph.stops(target)) {
                Some(next) => target = next,
                None => return Vec::new(),
            }
        }
        let edges = edges_into(graph, loops, target);
        let is_first = edges.iter().all(|(from, _)| !graph.stops(*from));
        let is_in_another_loop = loops.iter().any(|of| {
            of.nodes[target] && of.header != target && !part.iter().all(|at| of.nodes[*at])
        });
        let mut after: Vec<bool> = vec![false; graph.nodes.len()];
        after[target] = true;
        onwards(graph, &mut after);
        match is_first && !is_in_another_loop && accesses(graph, &after) {
            true => edges,
            false => Vec::new(),
        }
    }
}

/// The edges to a node from outside of the loop that it is the header of.
fn edges_into(graph: &Graph, loops: &[Loop], target: usize) -> Vec<(usize, usize)> {
    let of = loops.iter().find(|of| of.header == target);
    let before = graph.before[target].iter();
    let outside = before.filter(|from| of.is_none_or(|of| !of.nodes[**from]));
    outside.map(|from| (*from, target)).collect()
}

/// True if there is an access of memory, or a call, in these nodes.
fn accesses(graph: &Graph, nodes: &[bool]) -> bool {
    let within = (0..nodes.len()).filter(|at| nodes[*at]);
    let mut all = within.flat_map(|at| &graph.nodes[at].body);
    all.any(|one| match one.opcode() {
        Some(op::LOAD | op::STORE) => true,
        Some(op::CALL) => !is_leaf(*one),
        _ => false,
    })
}

/// Adds the nodes that others lead to without a barrier.
fn onwards(graph: &Graph, nodes: &mut [bool]) {
    let mut open: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at]).collect();
    while let Some(at) = open.pop() {
        if graph.stops(at) {
            continue;
        }
        for next in &graph.nodes[at].next {
            if !std::mem::replace(&mut nodes[*next], true) {
                open.push(*next);
            }
        }
    }
}

/// Adds the nodes that lead to others without a barrier.
fn backwards(graph: &Graph, nodes: &mut [bool]) {
    let mut open: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at]).collect();
    while let Some(at) = open.pop() {
        for from in graph.before[at].iter().filter(|from| !graph.stops(**from)) {
            if !std::mem::replace(&mut nodes[*from], true) {
                open.push(*from);
            }
        }
    }
}

/// The graph of a kernel: see [`Graph::new`]. If work-items wait for each other, what comes before
/// an atomic change, after it, and before a branch is in nodes of its own.
pub(super) fn graph(kernel: Value, assumed: &HashMap<Value, usize>) -> Graph {
    let whole = Graph::new(kernel, assumed);
    match whole.loops().iter().any(|of| waits(&whole, of)) {
        true => Graph::with_ends(kernel, assumed, &ends(&whole)),
        false => whole,
    }
}

/// The instructions before which nodes are to end, for that.
fn ends(graph: &Graph) -> HashSet<Value> {
    let mut ends = HashSet::new();
    for node in &graph.nodes {
        let end = match node.end {
            End::Branch(end) => end,
            _ => None,
        };
        let mut after_change = false;
        for one in node.body.iter().chain(&end) {
            let is_change = is_change(*one) || written(*one).is_some();
            let parts = node.next.len() > 1 && Some(*one) == end;
            if is_change != after_change || is_change || parts {
                ends.insert(*one);
            }
            after_change = is_change;
        }
    }
    ends
}

/// True if a work-item waits for others in a loop.
fn waits(graph: &Graph, of: &Loop) -> bool {
    leaves_when_told(graph, of) && !counts_out(graph, of) && !alone::leaves(graph, of)
}

/// True if an access takes part in an order of threads, or the compiler is to take it for one that
/// does.
pub(in crate::compiler) fn is_shared(access: Value) -> bool {
    match access.opcode() {
        Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG) => true,
        Some(op::LOAD | op::STORE) => LLVMGetVolatile(access) != 0 || LLVMGetOrdering(access) != 0,
        _ => false,
    }
}

/// True if an access is such a one, and may change memory.
fn is_change(access: Value) -> bool {
    is_shared(access) && access.opcode() != Some(op::LOAD)
}

/// The address of an access.
fn address(access: Value) -> Value {
    let at = u32::from(access.opcode() == Some(op::STORE));
    LLVMGetOperand(access, at)
}

/// True if work-items leave a loop by what a shared number is.
fn leaves_when_told(graph: &Graph, of: &Loop) -> bool {
    let within: Vec<usize> = (0..of.nodes.len()).filter(|at| of.nodes[*at]).collect();
    let mut all = within.iter().flat_map(|at| &graph.nodes[*at].body);
    if !all.any(|one| is_shared(*one)) {
        return false;
    }
    let mut told: HashSet<Value> = HashSet::new();
    // Nodes in which values depend on the way that was taken to them.
    let mut meets = vec![false; graph.nodes.len()];
    // True if what a work-item has in memory of its own depends on it.
    let mut is_kept = false;
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
                let is_read_back =
                    is_kept && one.opcode() == Some(op::LOAD) && Place::is_own(address(*one));
                let comes_of_it = one.operands().any(|operand| told.contains(&operand));
                if is_shared(*one) || is_read_back || comes_of_it {
                    changed |= told.insert(*one);
                    is_kept |= comes_of_it && written(*one).is_some_and(Place::is_own);
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
            let leads_out =
                |next: &usize| !of.nodes[*next] && graph.nodes[*next].end != End::Unreachable;
            if node.next.iter().any(leads_out) {
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

/// True if each turn of a loop adds a constant to a number in memory that nothing else in the loop
/// changes, and the loop is left when the number has gone past a bound that stays as it is: each
/// work-item comes there by its own turns. Another argument may be for the same memory: what is
/// subtracted there may be what was added, and what is stored at the same index may replace it.
fn counts_out(graph: &Graph, of: &Loop) -> bool {
    let latches: Vec<usize> = graph.before[of.header]
        .iter()
        .copied()
        .filter(|from| of.nodes[*from])
        .collect();
    let is_in_each_turn =
        |at: usize| of.nodes[at] && latches.iter().all(|latch| graph.dominates(at, *latch));
    let in_each_turn = |at: &usize| is_in_each_turn(*at);
    let all: Vec<Value> = (0..of.nodes.len())
        .filter(|at| of.nodes[*at])
        .flat_map(|at| graph.nodes[at].body.iter().copied())
        .collect();
    // True if an atomic operation adds a constant above zero, false if it subtracts one.
    let goes_up = |one: Value| -> Option<bool> {
        const ADD: i32 = 1;
        const SUB: i32 = 2;
        if one.opcode() != Some(op::ATOMIC_RMW) {
            return None;
        }
        let step = LLVMGetOperand(one, 1);
        let bits = match step.ty().kind() {
            kind::INTEGER => LLVMGetIntTypeWidth(step.ty()),
            _ => return None,
        };
        let number = step.number().filter(|number| *number != 0)?;
        let is_positive = number >> (bits - 1) == 0;
        match LLVMGetAtomicRMWBinOp(one) {
            ADD => Some(is_positive),
            SUB => Some(!is_positive),
            _ => None,
        }
    };
    let counts = |count: Value| -> Option<bool> {
        let way = goes_up(count).filter(|_| stays(graph, of, address(count)))?;
        let to = places(address(count));
        let is_alone = all.iter().all(|other| {
            let Some(at) = written(*other).map(places) else {
                return !calls::is_call(*other);
            };
            let takes_back = || goes_up(*other) == Some(!way);
            let sets_back = || {
                other.opcode() == Some(op::STORE)
                    && indices(address(*other)) == indices(address(count))
            };
            let changes_it = Place::any_meet(&at, &to)
                || Place::any_share(&at, &to) && (takes_back() || sets_back());
            !changes_it || *other == count
        });
        is_alone.then_some(way)
    };
    let leaves_past = |count: Value, goes_up: bool| {
        let mut ends = (0..of.nodes.len()).filter(in_each_turn);
        ends.any(|at| {
            let node = &graph.nodes[at];
            let End::Branch(Some(branch)) = node.end else {
                return false;
            };
            let condition = LLVMGetOperand(branch, 0);
            if node.next.len() != 2 || condition.opcode() != Some(op::ICMP) {
                return false;
            }
            let sides = [0, 1].map(|side| LLVMGetOperand(condition, side));
            let is_left = match sides {
                [left, bound] if left == count && stays(graph, of, bound) => true,
                [bound, right] if right == count && stays(graph, of, bound) => false,
                _ => return false,
            };
            let is_low = match LLVMGetICmpPredicate(condition) {
                compare::ULT | compare::ULE | compare::SLT | compare::SLE => is_left,
                compare::UGT | compare::UGE | compare::SGT | compare::SGE => !is_left,
                _ => return false,
            };
            // The way that is taken when the number is past the bound.
            let past = usize::from(is_low == goes_up);
            leads_out(graph, of, at, node.next[past])
        })
    };
    let mut counters = (0..of.nodes.len())
        .filter(in_each_turn)
        .flat_map(|at| &graph.nodes[at].body);
    counters.any(|count| counts(*count).is_some_and(|goes_up| leaves_past(*count, goes_up)))
}

/// The indices by which an address differs from a pointer that a kernel has.
fn indices(address: Value) -> Vec<Value> {
    match address.opcode() {
        Some(op::GEP) => address.operands().skip(1).collect(),
        _ => Vec::new(),
    }
}

/// True if an edge leaves a loop, or leads to where a number that comes with it decides that the
/// loop is left, as a `break` out of a scope does.
fn leads_out(graph: &Graph, of: &Loop, mut from: usize, mut to: usize) -> bool {
    const FARTHEST: usize = 8;
    for _ in 0..FARTHEST {
        if !of.nodes[to] || to == of.header {
            return !of.nodes[to];
        }
        let node = &graph.nodes[to];
        let way = match node.end {
            End::Branch(_) if node.next.len() == 1 => 0,
            End::Branch(Some(branch)) => {
                let on = LLVMGetOperand(branch, 0);
                let comes_with_it = node.phis.contains(&on);
                let number = comes_with_it.then(|| graph.incoming(on, from)).flatten();
                let Some(number) = number.and_then(Value::number) else {
                    return false;
                };
                let case = |at: &usize| LLVMGetOperand(branch, 2 * *at as u32).number();
                match branch.opcode() {
                    Some(op::SWITCH) => (1..node.next.len())
                        .find(|at| case(at) == Some(number))
                        .unwrap_or(0),
                    _ => usize::from(number == 0),
                }
            }
            _ => return false,
        };
        (from, to) = (to, node.next[way]);
    }
    false
}

/// True if a value is the same in all turns of a loop.
fn stays(graph: &Graph, of: &Loop, value: Value) -> bool {
    let is_within = graph.home.get(&value).is_some_and(|home| of.nodes[*home]);
    !is_within
        || is_leaf(value)
        || is_pure(value) && value.operands().all(|operand| stays(graph, of, operand))
}

//! Values that are the same for all work-items inside a masked loop.
//!
//! All that are inside have made as many turns. So a counter that begins as the same number for all
//! of them is the same in each turn, as `at` is in `while (at < length && text[i + at] ==
//! sought[at]) at++`. It differs for those that have left, and so behind the loop. A strip keeps
//! one number for all that are inside, and one for each that has left. A value at an address that
//! comes from such numbers alone (`sought[at]`) is read once a turn, if all that are inside come to
//! it.

use super::access::keeps_reads_in_place;
use super::graph::{End, Graph, Loop};
use super::uniform::Divergence;
use super::variables::{Variable, Variables, is_leaf, is_pure};
use crate::compiler::llvm::*;
use std::collections::HashSet;

/// A phi of a loop's header that is the same for all that are inside.
pub(super) struct Counter {
    pub(super) phi: Value,
    /// Its value at the beginning, and the one in each next turn.
    pub(super) first: Value,
    pub(super) next: Value,
}

/// A node that all that are inside come to, if they went on in those before.
pub(super) struct Step {
    /// Loads that are the same for all.
    pub(super) reads: Vec<Value>,
    /// The condition by which they go on, and the value that it has to have; none if they do in any
    /// case.
    pub(super) onward: Option<(Value, bool)>,
}

/// The values that are the same for all that are inside a loop.
#[derive(Default)]
pub(super) struct Common {
    pub(super) counters: Vec<Counter>,
    /// From the header on.
    pub(super) steps: Vec<Step>,
    /// The counters, and what comes from them and from what is the same for the group.
    values: HashSet<Value>,
}

impl Common {
    /// The common values of a loop, of which the variables at its header are known.
    pub(super) fn of(
        graph: &Graph,
        of: &Loop,
        differs: &Divergence,
        variables: &Variables,
    ) -> Self {
        let mut this = Self::default();
        for phi in &graph.nodes[of.header].phis {
            let backs = graph.before[of.header]
                .iter()
                .filter(|from| of.nodes[**from]);
            let mut next: Vec<Value> = backs
                .filter_map(|from| graph.incoming(*phi, *from))
                .collect();
            next.dedup();
            if let (Some(first), [next]) = (of.first(graph, *phi), &next[..]) {
                this.counters.push(Counter {
                    phi: *phi,
                    first,
                    next: *next,
                });
            }
        }
        let is_before = |value: Value| {
            let is_at_hand = || {
                let number = variables.number(Variable::Value(value));
                is_leaf(value)
                    || variables.was_made_again(value)
                    || number.is_some_and(|number| variables.alive[of.header].has(number))
            };
            let is_within = graph.home.get(&value).is_some_and(|home| of.nodes[*home]);
            value.opcode().is_none() || !is_within && !differs.differs(value) && is_at_hand()
        };
        this.counters.retain(|counter| is_before(counter.first));
        loop {
            this.values = this.counters.iter().map(|counter| counter.phi).collect();
            let is_common =
                |values: &HashSet<Value>, value: Value| values.contains(&value) || is_before(value);
            let mut changed = true;
            while changed {
                changed = false;
                let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
                for instruction in within.flat_map(|at| &graph.nodes[at].body) {
                    if is_pure(*instruction)
                        && instruction
                            .operands()
                            .all(|operand| is_common(&this.values, operand))
                    {
                        changed |= this.values.insert(*instruction);
                    }
                }
            }
            let count = this.counters.len();
            let values = &this.values;
            this.counters
                .retain(|counter| is_common(values, counter.next));
            if this.counters.len() == count {
                break;
            }
        }
        // If none of a strip may be inside, nothing is to be read for them.
        let may_be_through = |at: usize| graph.nodes[at].end == End::Barrier && differs.nodes[at];
        if !differs.is_gone_by(of) && !(0..graph.nodes.len()).any(may_be_through) {
            this.find_steps(graph, of);
        }
        this
    }

    /// Finds what is read once a turn: in a loop in which nothing keeps reads in their places.
    fn find_steps(&mut self, graph: &Graph, of: &Loop) {
        let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
        let mut all = within.flat_map(|at| &graph.nodes[at].body);
        if self.counters.is_empty() || all.any(|one| keeps_reads_in_place(*one)) {
            return;
        }
        let (mut at, mut seen) = (of.header, HashSet::new());
        while seen.insert(at) {
            let node = &graph.nodes[at];
            let is_read = |one: &Value| {
                one.opcode() == Some(op::LOAD)
                    && LLVMGetVolatile(*one) == 0
                    && LLVMGetOrdering(*one) == 0
                    && self.has(LLVMGetOperand(*one, 0))
            };
            let reads = node.body.iter().copied().filter(is_read).collect();
            let way = node.next.iter().position(|next| of.nodes[*next]);
            let condition = match (&node.end, &node.next[..]) {
                (End::Branch(_), [_]) => None,
                (End::Branch(Some(branch)), [_, _]) if branch.opcode() == Some(op::BR) => {
                    Some(LLVMGetOperand(*branch, 0))
                }
                _ => {
                    self.steps.push(Step {
                        reads,
                        onward: None,
                    });
                    break;
                }
            };
            let onward = condition
                .zip(way)
                .map(|(condition, way)| (condition, way == 0));
            self.steps.push(Step { reads, onward });
            let ways = node.next.iter().filter(|next| of.nodes[**next]).count();
            match way {
                Some(way) if ways == 1 && condition.is_none_or(|it| self.has(it)) => {
                    at = node.next[way];
                }
                _ => break,
            }
        }
        if let Some(last) = self.steps.iter().rposition(|step| !step.reads.is_empty()) {
            self.steps.truncate(last + 1);
        } else {
            self.steps.clear();
        }
    }

    /// True if a value within the loop is the same for all.
    pub(super) fn has(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    /// True if a load is made once a turn.
    pub(super) fn reads(&self, load: Value) -> bool {
        self.steps.iter().any(|step| step.reads.contains(&load))
    }
}

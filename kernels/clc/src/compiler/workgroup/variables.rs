//! Variables: values that are kept between nodes, the places where they are alive, and values that
//! are made again instead.

use super::graph::{End, Graph, Loop};
use super::uniform::Divergence;
use crate::compiler::llvm::*;
use std::collections::HashMap;

/// The most instructions that are made again rather than kept.
const MOST_AGAIN: usize = 12;

/// The functions whose values every work-item has at hand.
const AT_HAND: [&str; 17] = [
    "__q_lid0",
    "__q_lid1",
    "__q_lid2",
    "__q_gid0",
    "__q_gid1",
    "__q_gid2",
    "__q_group0",
    "__q_group1",
    "__q_group2",
    "__q_info",
    "__q_local",
    "__q_place_of_local",
    "__q_place_of_kept",
    "__q_slots",
    "__q_result",
    "__q_results",
    "__q_states",
];

/// True if a function of this name is one of these.
pub(super) fn is_at_hand(name: &str) -> bool {
    AT_HAND.contains(&name)
}

/// True if every work-item has a value at hand: its own memory, or the result of such a function.
pub(super) fn is_leaf(value: Value) -> bool {
    match value.opcode() {
        Some(op::ALLOCA) => true,
        Some(op::CALL) => value.callee().is_some_and(|name| is_at_hand(&name)),
        _ => false,
    }
}

/// True if an instruction has no effect, and cannot fail.
pub(super) fn is_pure(value: Value) -> bool {
    const PURE: [i32; 17] = [
        op::ADD,
        op::SUB,
        op::MUL,
        op::SHL,
        op::LSHR,
        op::ASHR,
        op::AND,
        op::OR,
        op::XOR,
        op::GEP,
        op::TRUNC,
        op::ZEXT,
        op::SEXT,
        op::ICMP,
        op::SELECT,
        op::FREEZE,
        op::ADDRESS_SPACE_CAST,
    ];
    value.opcode().is_some_and(|opcode| PURE.contains(&opcode))
}

/// A variable: a value of the kernel that another node uses, or what a phi will become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    /// A value.
    Value(Value),
    /// The value of a phi when its node is reached next.
    Phi(Value),
}

impl Variable {
    /// The value, or the phi.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Value(value) | Self::Phi(value) => value,
        }
    }
}

/// A set of variables, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set(Vec<u64>);

impl Set {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// True if the variable of this number is in it.
    pub(super) fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    /// The numbers in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |word: usize| (0..64).map(move |bit| word * 64 + bit);
        (0..self.0.len()).flat_map(bits).filter(|at| self.has(*at))
    }

    /// Adds those of another that are not in a third; true if there were any new ones.
    fn add(&mut self, other: &Self, without: &Self) -> bool {
        let mut changed = false;
        for ((word, other), without) in self.0.iter_mut().zip(&other.0).zip(&without.0) {
            let new = *word | (other & !without);
            changed |= new != *word;
            *word = new;
        }
        changed
    }
}

/// The variables of a kernel.
pub(super) struct Variables {
    pub(super) all: Vec<Variable>,
    number: HashMap<Variable, usize>,
    again: HashMap<Value, Option<usize>>,
    /// Those that are alive where a node begins.
    pub(super) alive: Vec<Set>,
    /// Those that each node sets.
    pub(super) set_by: Vec<Set>,
}

impl Variables {
    /// Finds them. The first values of loops' counters are wanted at their headers, if work-items
    /// leave these at different times.
    pub(super) fn of(graph: &Graph, loops: &[Loop], differs: &Divergence) -> Self {
        let mut this = Self {
            all: Vec::new(),
            number: HashMap::new(),
            again: HashMap::new(),
            alive: Vec::new(),
            set_by: Vec::new(),
        };
        let reached = graph.reached();
        let count = graph.nodes.len();
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut sets: Vec<Vec<usize>> = vec![Vec::new(); count];
        for at in (0..count).filter(|at| reached[*at]) {
            let node = &graph.nodes[at];
            for phi in &node.phis {
                let number = this.number_of(Variable::Phi(*phi));
                uses[at].push(number);
            }
            for operand in operands_of(graph, at) {
                if graph.home.get(&operand).is_some_and(|home| *home != at)
                    && !this.is_made_again(operand)
                {
                    let number = this.number_of(Variable::Value(operand));
                    uses[at].push(number);
                }
            }
            for next in &node.next {
                for phi in &graph.nodes[*next].phis {
                    let number = this.number_of(Variable::Phi(*phi));
                    sets[at].push(number);
                }
            }
        }
        for of in loops.iter().filter(|of| !differs.goes_together(graph, of)) {
            for phi in &graph.nodes[of.header].phis {
                let first = of.first(graph, *phi).filter(|first| {
                    graph.home.contains_key(first)
                        && !differs.differs(*first)
                        && !this.is_made_again(*first)
                });
                if let Some(first) = first {
                    let number = this.number_of(Variable::Value(first));
                    uses[of.header].push(number);
                }
            }
        }
        for (number, variable) in this.all.iter().enumerate() {
            if let Variable::Value(value) = variable {
                sets[graph.home[value]].push(number);
            }
        }
        let total = this.all.len();
        let set = |numbers: &Vec<usize>| {
            let mut set = Set::new(total);
            numbers.iter().for_each(|number| set.insert(*number));
            set
        };
        this.set_by = sets.iter().map(set).collect();
        this.alive = uses.iter().map(set).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..count).rev() {
                let mut alive = this.alive[at].clone();
                for next in &graph.nodes[at].next {
                    let after = this.alive[*next].clone();
                    changed |= alive.add(&after, &this.set_by[at]);
                }
                this.alive[at] = alive;
            }
        }
        this
    }

    fn number_of(&mut self, variable: Variable) -> usize {
        let next = self.all.len();
        let number = *self.number.entry(variable).or_insert(next);
        if number == next {
            self.all.push(variable);
        }
        number
    }

    /// The number of a variable, if it is one.
    pub(super) fn number(&self, variable: Variable) -> Option<usize> {
        self.number.get(&variable).copied()
    }

    /// True if a value is made again in each node that uses it: it comes from arguments and numbers
    /// of the work-item by few operations that cannot fail.
    pub(super) fn is_made_again(&mut self, value: Value) -> bool {
        self.cost(value, 0).is_some()
    }

    /// As [`is_made_again`](Self::is_made_again), once all variables are known.
    pub(super) fn was_made_again(&self, value: Value) -> bool {
        self.again.get(&value).is_some_and(Option::is_some)
    }

    fn cost(&mut self, value: Value, depth: usize) -> Option<usize> {
        if value.opcode().is_none() {
            return Some(0);
        }
        if is_leaf(value) {
            self.again.insert(value, Some(0));
            return Some(0);
        }
        if let Some(known) = self.again.get(&value) {
            return *known;
        }
        let pure = is_pure(value) && depth < MOST_AGAIN;
        let mut cost = pure.then_some(1);
        if pure {
            for operand in value.operands() {
                cost = cost.and_then(|cost| Some(cost + self.cost(operand, depth + 1)?));
            }
        }
        let cost = cost.filter(|cost| *cost <= MOST_AGAIN);
        self.again.insert(value, cost);
        cost
    }
}

/// The instructions that a node's own use, and those that phis of its successors become.
pub(super) fn operands_of(graph: &Graph, at: usize) -> Vec<Value> {
    let node = &graph.nodes[at];
    let end = match node.end {
        End::Branch(branch) => branch,
        _ => None,
    };
    let mut operands: Vec<Value> = Vec::new();
    for instruction in node.body.iter().chain(&end) {
        operands.extend(instruction.operands());
    }
    for next in &node.next {
        let phis = graph.nodes[*next].phis.iter();
        operands.extend(phis.filter_map(|phi| graph.incoming(*phi, at)));
    }
    operands.retain(|operand| operand.opcode().is_some());
    operands
}

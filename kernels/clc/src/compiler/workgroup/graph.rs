//! A kernel as a graph of nodes: its blocks, split where work-items wait for each other.
//!
//! libLLVM's C interface cannot split, copy or move blocks. So the passes leave the kernel's own
//! blocks alone, look at them through this graph, and make copies of single instructions elsewhere.

use super::variables::is_leaf;
use crate::compiler::llvm::*;
use std::collections::{HashMap, HashSet};

/// The function by which work-items of a group wait for each other.
pub(in crate::compiler) const BARRIER: &str = "__q_barrier";

/// The function by which work-items of a group meet that have come to it: all of them, or, where
/// they are apart, some.
pub(in crate::compiler) const MEETING: &str = "__q_meet";

/// The end of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All work-items of the group wait for each other, and go on in another node.
    Barrier,
    /// The work-items that are together meet, and go on in another node.
    Meeting,
    /// A branch or switch; none where the graph assumes which way it goes, or there is one way.
    Branch(Option<Value>),
    /// The work-item is through.
    Return,
    /// Never reached.
    Unreachable,
}

/// A block, or a part of one without barriers.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) phis: Vec<Value>,
    pub(super) body: Vec<Value>,
    pub(super) end: End,
    /// The nodes where it goes on: as many as the terminator has successors. A switch that has a
    /// case for each number goes to the first one where there is none: work-items would seem to
    /// leave its loop there.
    pub(super) next: Vec<usize>,
}

/// A kernel.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The node that each instruction is in.
    pub(super) home: HashMap<Value, usize>,
    /// `select` instructions, and which of its two values each is assumed to have.
    pub(super) selected: HashMap<Value, usize>,
    /// Fences next to a barrier, by the node after it: one thread makes them once for all
    /// work-items. Any other fence is at the start of a node, of which the one before is the only
    /// one to lead to it.
    pub(super) fences: HashMap<usize, Vec<Value>>,
    /// The last node of each block.
    last: HashMap<Block, usize>,
    pub(super) before: Vec<Vec<usize>>,
    /// The immediate dominator of each node that is reached.
    dominator: Vec<Option<usize>>,
    /// The immediate post-dominator of each node; none where it is the end of the kernel.
    pub(super) after: Vec<Option<usize>>,
}

/// A loop: all nodes from which a back edge is reached without passing its header.
pub(super) struct Loop {
    pub(super) header: usize,
    pub(super) nodes: Vec<bool>,
}

impl Graph {
    /// The graph of a kernel, in which each branch of `assumed` goes to the successor of that
    /// number, and each `select` has the value of that number.
    pub(super) fn new(kernel: Value, assumed: &HashMap<Value, usize>) -> Self {
        Self::with_ends(kernel, assumed, &HashSet::new())
    }

    /// The same, in which nodes end before these instructions, too.
    pub(super) fn with_ends(
        kernel: Value,
        assumed: &HashMap<Value, usize>,
        ends: &HashSet<Value>,
    ) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut fences: HashMap<usize, Vec<Value>> = HashMap::new();
        let (mut first, mut last) = (HashMap::new(), HashMap::new());
        let mut home = HashMap::new();
        let all = blocks(kernel);
        for block in &all {
            first.insert(*block, nodes.len());
            let new = || Node {
                phis: Vec::new(),
                body: Vec::new(),
                end: End::Unreachable,
                next: Vec::new(),
            };
            let mut node = new();
            for instruction in block.instructions() {
                let is_fence = instruction.opcode() == Some(op::FENCE);
                let is_after_fence = |node: &Node| {
                    let last = node.body.last();
                    last.is_some_and(|last| last.opcode() == Some(op::FENCE))
                };
                if ends.contains(&instruction) || is_fence && !is_after_fence(&node) {
                    node.end = End::Branch(None);
                    node.next = vec![nodes.len() + 1];
                    nodes.push(std::mem::replace(&mut node, new()));
                }
                home.insert(instruction, nodes.len());
                let stops = match instruction.callee().as_deref() {
                    Some(BARRIER) => Some(End::Barrier),
                    Some(MEETING) => Some(End::Meeting),
                    _ => None,
                };
                if let Some(end) = stops {
                    if node.body.iter().all(|one| !is_access(*one)) {
                        fences.insert(nodes.len() + 1, take_fences(&mut node));
                    }
                    node.end = end;
                    node.next = vec![nodes.len() + 1];
                    nodes.push(std::mem::replace(&mut node, new()));
                } else if instruction.opcode() == Some(op::PHI) {
                    node.phis.push(instruction);
                } else if instruction != block.terminator() {
                    node.body.push(instruction);
                }
            }
            last.insert(*block, nodes.len());
            nodes.push(node);
        }
        for block in &all {
            let terminator = block.terminator();
            let node: &mut Node = &mut nodes[last[block]];
            match terminator.opcode() {
                Some(op::RET) => node.end = End::Return,
                Some(op::BR | op::SWITCH) => {
                    let count = LLVMGetNumSuccessors(terminator);
                    let successors = (0..count).map(|at| first[&LLVMGetSuccessor(terminator, at)]);
                    node.next = successors.collect();
                    node.end = End::Branch(Some(terminator));
                    let otherwise = LLVMGetSuccessor(terminator, 0).instructions();
                    let is_never = otherwise[0].opcode() == Some(op::UNREACHABLE);
                    if count > 1 && is_never && terminator.opcode() == Some(op::SWITCH) {
                        node.next[0] = node.next[1];
                    }
                    if let Some(way) = assumed.get(&terminator) {
                        node.next = vec![node.next[*way]];
                        node.end = End::Branch(None);
                    }
                }
                _ => node.end = End::Unreachable,
            }
        }
        for at in 0..nodes.len() {
            let after = nodes[at].next.first().copied();
            if let (End::Barrier | End::Meeting, Some(after)) = (&nodes[at].end, after) {
                // A node of its own is what the fence begins.
                let is_way = nodes[after].body.iter().all(|one| !is_access(*one));
                let next = match (&nodes[after].end, &nodes[after].next[..]) {
                    (End::Branch(None), [next]) if is_way => *next,
                    _ => continue,
                };
                let more = take_fences(&mut nodes[next]);
                fences.entry(after).or_default().extend(more);
            }
        }
        fences.retain(|_, fences| !fences.is_empty());
        let mut graph = Self {
            fences,
            before: vec![Vec::new(); nodes.len()],
            dominator: Vec::new(),
            after: Vec::new(),
            nodes,
            home,
            selected: assumed
                .iter()
                .filter(|(one, _)| one.opcode() == Some(op::SELECT))
                .map(|(one, way)| (*one, *way))
                .collect(),
            last,
        };
        graph.connect();
        graph
    }

    fn connect(&mut self) {
        let count = self.nodes.len();
        let reached = self.reached();
        for at in (0..count).filter(|at| reached[*at]) {
            for next in self.nodes[at].next.clone() {
                if !self.before[next].contains(&at) {
                    self.before[next].push(at);
                }
            }
        }
        let next: Vec<Vec<usize>> = self.nodes.iter().map(|node| node.next.clone()).collect();
        self.dominator = dominators(0, &next, &self.before);
        // The end of the kernel is a node of its own, after all that have no other.
        let end = count;
        let mut backwards = self.before.clone();
        let ends: Vec<usize> = (0..count)
            .filter(|at| reached[*at] && next[*at].is_empty())
            .collect();
        let mut onwards = next;
        for at in &ends {
            onwards[*at].push(end);
        }
        backwards.push(ends);
        onwards.push(Vec::new());
        let after = dominators(end, &backwards, &onwards);
        self.after = after[..count]
            .iter()
            .map(|after| after.filter(|after| *after != end))
            .collect();
    }

    /// The nodes that are reached at all.
    pub(super) fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                open.extend(&self.nodes[at].next);
            }
        }
        reached
    }

    /// True if work-items stop at the end of a node.
    pub(super) fn stops(&self, at: usize) -> bool {
        matches!(self.nodes[at].end, End::Barrier | End::Meeting)
    }

    /// The value of a phi if `from` comes before its node.
    pub(super) fn incoming(&self, phi: Value, from: usize) -> Option<Value> {
        let count = LLVMCountIncoming(phi);
        (0..count)
            .find(|at| self.last.get(&LLVMGetIncomingBlock(phi, *at)) == Some(&from))
            .map(|at| LLVMGetIncomingValue(phi, at))
    }

    /// True if a work-item comes to a node only by way of another one, or if the two are one.
    pub(super) fn dominates(&self, one: usize, other: usize) -> bool {
        let mut at = other;
        loop {
            if at == one {
                return true;
            }
            match self.dominator[at] {
                Some(up) if up != at => at = up,
                _ => return false,
            }
        }
    }

    /// The node by way of which a work-item comes to another one; none of the first.
    pub(super) fn dominator(&self, at: usize) -> Option<usize> {
        self.dominator[at].filter(|up| *up != at)
    }

    /// A number for each node: a work-item comes to it after those with lower ones, but where it
    /// goes round a loop again.
    pub(super) fn order(&self) -> Vec<usize> {
        let count = self.nodes.len();
        let loops = self.loops();
        // How many loops a node is in that another one is in, too.
        let depth = |at: usize, to: usize| {
            let both = loops.iter().filter(|of| of.nodes[at] && of.nodes[to]);
            both.count()
        };
        let mut order = vec![usize::MAX; count];
        let mut seen = vec![false; count];
        let mut last = count;
        // Nodes with those next ones that are still to be visited, of which the last is visited
        // first: the one that leaves most loops.
        let visit = |at: usize| {
            let mut next = self.nodes[at].next.clone();
            next.sort_by_key(|to| std::cmp::Reverse(depth(at, *to)));
            (at, next)
        };
        let mut open = vec![visit(0)];
        seen[0] = true;
        while let Some((at, next)) = open.last_mut() {
            match next.pop() {
                Some(to) if seen[to] => {}
                Some(to) => {
                    seen[to] = true;
                    open.push(visit(to));
                }
                None => {
                    last -= 1;
                    order[*at] = last;
                    open.pop();
                }
            }
        }
        order
    }

    /// The loops, each with a header that dominates it.
    pub(super) fn loops(&self) -> Vec<Loop> {
        let mut loops: Vec<Loop> = Vec::new();
        for header in 0..self.nodes.len() {
            let backs: Vec<usize> = self.before[header]
                .iter()
                .copied()
                .filter(|from| self.dominates(header, *from))
                .collect();
            if backs.is_empty() {
                continue;
            }
            let mut nodes = vec![false; self.nodes.len()];
            nodes[header] = true;
            let mut open = backs;
            while let Some(at) = open.pop() {
                if !std::mem::replace(&mut nodes[at], true) {
                    open.extend(&self.before[at]);
                }
            }
            loops.push(Loop { header, nodes });
        }
        loops
    }
}

/// True if an instruction may read or write memory: fences are of an order with these.
fn is_access(instruction: Value) -> bool {
    match instruction.opcode() {
        Some(op::LOAD | op::STORE | op::ATOMIC_RMW | op::ATOMIC_CMPXCHG) => true,
        Some(op::CALL) => !is_leaf(instruction),
        _ => false,
    }
}

/// Takes the fences out of a node.
fn take_fences(node: &mut Node) -> Vec<Value> {
    let is_fence = |one: &Value| one.opcode() == Some(op::FENCE);
    let fences = node.body.iter().copied().filter(is_fence).collect();
    node.body.retain(|one| !is_fence(one));
    fences
}

impl Loop {
    /// The first value of a phi of the header; none if there are several such values.
    pub(super) fn first(&self, graph: &Graph, phi: Value) -> Option<Value> {
        let outside = graph.before[self.header]
            .iter()
            .filter(|from| !self.nodes[**from]);
        let mut firsts = outside.filter_map(|from| graph.incoming(phi, *from));
        let first = firsts.next()?;
        firsts.all(|other| other == first).then_some(first)
    }

    /// The loop with the nodes that work-items come to between it and the node where all that left
    /// it meet: the code after a `break`. The loop itself if there is more than a little of that.
    pub(super) fn with_ways_out(&self, graph: &Graph) -> Self {
        const MOST: usize = 4;
        let mut nodes = self.nodes.clone();
        let mut meeting = graph.after[self.header];
        while let Some(node) = meeting.filter(|node| nodes[*node]) {
            meeting = graph.after[node];
        }
        let mut open: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at]).collect();
        let mut count = 0;
        while let Some(at) = open.pop() {
            for next in &graph.nodes[at].next {
                if nodes[*next] || Some(*next) == meeting {
                    continue;
                }
                count += 1;
                nodes[*next] = true;
                open.push(*next);
            }
        }
        let are_its_own = (0..nodes.len())
            .filter(|at| nodes[*at] && !self.nodes[*at])
            .all(|at| graph.before[at].iter().all(|from| nodes[*from]));
        match meeting.is_some() && count <= MOST && are_its_own {
            true => Self {
                header: self.header,
                nodes,
            },
            false => Self {
                header: self.header,
                nodes: self.nodes.clone(),
            },
        }
    }
}

/// The immediate dominators of a graph (Cooper, Harvey and Kennedy, 2001).
fn dominators(root: usize, next: &[Vec<usize>], before: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut order = Vec::new();
    let mut seen = vec![false; next.len()];
    let mut open = vec![(root, 0)];
    seen[root] = true;
    while let Some((at, child)) = open.pop() {
        match next[at].get(child) {
            Some(to) => {
                open.push((at, child + 1));
                if !std::mem::replace(&mut seen[*to], true) {
                    open.push((*to, 0));
                }
            }
            None => order.push(at),
        }
    }
    let mut number = vec![usize::MAX; next.len()];
    for (at, node) in order.iter().enumerate() {
        number[*node] = at;
    }
    let mut dominator = vec![None; next.len()];
    dominator[root] = Some(root);
    let mut changed = true;
    while changed {
        changed = false;
        for at in order.iter().rev().copied().filter(|at| *at != root) {
            let mut new: Option<usize> = None;
            for from in before[at].iter().copied() {
                if dominator[from].is_none() {
                    continue;
                }
                new = Some(match new {
                    None => from,
                    Some(mut one) => {
                        let mut other = from;
                        while one != other {
                            while number[one] < number[other] {
                                one = dominator[one].unwrap_or(root);
                            }
                            while number[other] < number[one] {
                                other = dominator[other].unwrap_or(root);
                            }
                        }
                        one
                    }
                });
            }
            if new.is_some() && dominator[at] != new {
                dominator[at] = new;
                changed = true;
            }
        }
    }
    dominator
}

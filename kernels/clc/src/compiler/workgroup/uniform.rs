//! Uniformity: the values that are the same for all work-items of a group, and the nodes that all
//! of them run together.
//!
//! A value is divergent if it comes from the work-item's own number, from its own memory or from an
//! atomic operation; if an operand of it is; if it is a phi where ways meet that work-items of a
//! group take differently; or if it leaves a loop that they leave at different times. A load from a
//! uniform address is uniform: another work-item that writes there meanwhile would race. Where
//! work-items may hold what others [wait](super::waits) for, no load is.

use super::access::{is_arithmetic, masks_bytes};
use super::common::Common;
use super::graph::{End, Graph, Loop};
use super::private::SideBySide;
use super::variables::is_leaf;
use super::waits::{Order, is_shared};
use crate::compiler::calls;
use crate::compiler::library::CALLED_TO_READ;
use crate::compiler::llvm::*;
use std::collections::HashSet;

/// The address space of memory of a work-item's own.
const PRIVATE: u32 = 0;
/// The address space of memory that no kernel writes.
const CONSTANT: u32 = 2;

/// The reason for which work-items go round a loop one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// They part at several branches on their way to it, or have something to do between the branch
    /// and the loop.
    Entered,
    /// There is a loop in it.
    HasLoop,
    /// An instruction that many cannot do at once, of which some do not take part.
    Instruction(Value),
    /// They leave it to several places.
    Left,
    /// It fetches numbers from where each has its own, and does little with them.
    Fetches,
    /// Each goes along a row of its own, of which vectors may be made.
    Rows,
    /// They stop in it, or at its ends, for another reason.
    Stops,
    /// They may hold there what others wait for.
    Waits,
}

/// The values and ways that differ within a group.
pub(super) struct Divergence {
    /// Where work-items may hold what others wait for.
    pub(super) order: Order,
    /// Values that differ.
    values: HashSet<Value>,
    /// Nodes that some work-items of a group may run and others not, or another number of times.
    pub(super) nodes: Vec<bool>,
    /// Nodes at whose end work-items part, each with those that they may run before they meet
    /// again.
    parted: Vec<(usize, Vec<bool>)>,
}

impl Divergence {
    /// Finds what differs in a kernel.
    pub(super) fn of(graph: &Graph, loops: &[Loop]) -> Self {
        let mut this = Self {
            order: Order::of(graph, loops),
            values: HashSet::new(),
            nodes: vec![false; graph.nodes.len()],
            parted: Vec::new(),
        };
        let reached = graph.reached();
        let mut split = vec![false; graph.nodes.len()];
        let mut meets = vec![false; graph.nodes.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (at, node) in graph.nodes.iter().enumerate() {
                if !reached[at] {
                    continue;
                }
                for phi in &node.phis {
                    let any = graph.before[at].iter().any(|from| {
                        graph
                            .incoming(*phi, *from)
                            .is_some_and(|value| this.differs(value))
                    });
                    if (meets[at] || any) && this.values.insert(*phi) {
                        changed = true;
                    }
                }
                for instruction in &node.body {
                    if !this.differs(*instruction)
                        && this.comes_to_differ(at, *instruction)
                        && this.values.insert(*instruction)
                    {
                        changed = true;
                    }
                }
                if let End::Branch(Some(branch)) = node.end
                    && node.next.len() > 1
                    && !split[at]
                    && this.differs(LLVMGetOperand(branch, 0))
                {
                    split[at] = true;
                    changed = true;
                    this.part(graph, loops, at, &mut meets);
                }
            }
        }
        this
    }

    /// The divergence in which nothing is known to be the same: work-items of a group are apart.
    pub(super) fn apart(graph: &Graph, loops: &[Loop]) -> Self {
        let all = graph.nodes.iter();
        Self {
            order: Order::of(graph, loops),
            values: all
                .flat_map(|node| node.phis.iter().chain(&node.body))
                .copied()
                .collect(),
            nodes: vec![true; graph.nodes.len()],
            parted: Vec::new(),
        }
    }

    /// True if a value may differ within a group.
    pub(super) fn differs(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    fn comes_to_differ(&self, at: usize, instruction: Value) -> bool {
        match instruction.opcode() {
            Some(op::ALLOCA) => return true,
            _ if is_shared(instruction) => return true,
            Some(op::LOAD) if self.order.holds(at) => {
                let space = LLVMGetPointerAddressSpace(LLVMGetOperand(instruction, 0).ty());
                if space != CONSTANT {
                    return true;
                }
            }
            Some(op::CALL) => {
                let callee = instruction.callee().unwrap_or_default();
                let reads = callee.starts_with(CALLED_TO_READ) || calls::is_call(instruction);
                if self.order.holds(at) && reads
                    || callee.starts_with("__q_lid")
                    || callee.starts_with("__q_gid")
                    || callee == "printf"
                {
                    return true;
                }
            }
            _ => {}
        }
        instruction.operands().any(|operand| self.differs(operand))
    }

    /// Notes that work-items take different ways at the end of a node.
    fn part(&mut self, graph: &Graph, loops: &[Loop], at: usize, meets: &mut [bool]) {
        let together = graph.after[at];
        let mut region = vec![false; graph.nodes.len()];
        let mut open: Vec<usize> = graph.nodes[at].next.clone();
        while let Some(node) = open.pop() {
            if Some(node) != together && !std::mem::replace(&mut region[node], true) {
                open.extend(&graph.nodes[node].next);
            }
        }
        for (node, within) in region.iter().enumerate() {
            if *within {
                self.nodes[node] = true;
                meets[node] = true;
            }
        }
        if let Some(node) = together {
            meets[node] = true;
        }
        self.parted.push((at, region));
        // Loops that they leave at different times: what is used outside is of each one's last
        // time.
        for of in loops {
            let leaves = of.nodes[at] && together.is_none_or(|together| !of.nodes[together]);
            if !leaves {
                continue;
            }
            for (node, within) in of.nodes.iter().enumerate() {
                if !*within {
                    continue;
                }
                let node = &graph.nodes[node];
                for value in node.phis.iter().chain(&node.body) {
                    let outside = value
                        .users()
                        .iter()
                        .any(|user| graph.home.get(user).is_some_and(|home| !of.nodes[*home]));
                    if outside {
                        self.values.insert(*value);
                    }
                }
            }
        }
    }

    /// The node that work-items go on in after a loop that they leave at different times, if a loop
    /// over work-items may be within it, or why none may: they come to it together, or to a branch
    /// from which all others go on after it; they all leave it to the same node, and there is no
    /// other loop in it, no atomic operation, and no access that cannot be one of a vector.
    pub(super) fn meeting_after(
        &self,
        graph: &Graph,
        loops: &[Loop],
        of: &Loop,
        common: &Common,
        private: &SideBySide,
    ) -> Result<usize, Alone> {
        let mut partings = self
            .parted
            .iter()
            .filter(|(at, region)| !of.nodes[*at] && region[of.header]);
        let parting = partings.next();
        if partings.next().is_some() {
            return Err(Alone::Entered);
        }
        let has_loop = loops
            .iter()
            .any(|other| other.header != of.header && of.nodes[other.header]);
        if has_loop {
            return Err(Alone::HasLoop);
        }
        let mut after = None;
        for at in (0..graph.nodes.len()).filter(|at| of.nodes[*at]) {
            let node = &graph.nodes[at];
            let is_quiet = |instruction: &Value| match instruction.opcode() {
                Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG | op::ALLOCA) => false,
                Some(op::LOAD) => {
                    common.reads(*instruction)
                        || self.is_vector_of(*instruction, instruction.ty(), 0, common, private)
                }
                Some(op::STORE) => {
                    let stored = LLVMGetOperand(*instruction, 0);
                    self.is_vector_of(*instruction, stored.ty(), 1, common, private)
                }
                Some(op::CALL) => {
                    let callee = instruction.callee().unwrap_or_default();
                    is_leaf(*instruction)
                        || is_arithmetic(&callee)
                        || callee.starts_with(CALLED_TO_READ)
                }
                _ => true,
            };
            if let Some(loud) = node.body.iter().find(|one| !is_quiet(one)) {
                return Err(Alone::Instruction(*loud));
            }
            if !matches!(node.end, End::Branch(_)) {
                return Err(Alone::Left);
            }
            for next in node.next.iter().filter(|next| !of.nodes[**next]) {
                if *after.get_or_insert(*next) != *next {
                    return Err(Alone::Left);
                }
            }
        }
        let after = after.ok_or(Alone::Left)?;
        let Some((at, region)) = parting else {
            return Ok(after);
        };
        // Between the branch and the loop there is nothing but the way to it.
        let on_the_way = (0..graph.nodes.len()).filter(|node| region[*node] && !of.nodes[*node]);
        let is_way = |node: usize| {
            matches!(graph.nodes[node].end, End::Branch(_))
                && loops.iter().all(|other| other.header != node)
        };
        let is_guard =
            !self.nodes[*at] && graph.after[*at] == Some(after) && on_the_way.clone().all(is_way);
        match (is_guard, self.computes(graph, of)) {
            (true, true) => Ok(after),
            (true, false) => Err(Alone::Fetches),
            (false, _) => Err(Alone::Entered),
        }
    }

    /// True if work-items may go by a loop that others enter.
    pub(super) fn is_gone_by(&self, of: &Loop) -> bool {
        let mut partings = self.parted.iter();
        partings.any(|(at, region)| !of.nodes[*at] && region[of.header])
    }

    /// True if a loop does more with numbers than fetch them from where each work-item has its own.
    /// Vectors of such fetches are no faster than one fetch after the other, and wait for the
    /// work-item that goes round most often.
    fn computes(&self, graph: &Graph, of: &Loop) -> bool {
        const FOR_EACH_FETCH: usize = 2;
        let (mut fetches, mut operations) = (0, 0);
        let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
        // A row or a segment begins where it was read that it does.
        let begins_anywhere = |phi: &Value| {
            let mut first = of.first(graph, *phi);
            while let Some(value) = first
                && let Some(op::SEXT | op::ZEXT | op::TRUNC) = value.opcode()
            {
                first = Some(LLVMGetOperand(value, 0));
            }
            first.is_some_and(|first| first.opcode() == Some(op::LOAD) && self.differs(first))
        };
        let phis = graph.nodes[of.header].phis.iter();
        let counters: Vec<&Value> = phis.filter(|phi| begins_anywhere(phi)).collect();
        for instruction in within.flat_map(|at| &graph.nodes[at].body) {
            match instruction.opcode() {
                // To count is to go on, and nothing that is done with numbers.
                Some(op::ADD) if counters.contains(&&LLVMGetOperand(*instruction, 0)) => {}
                Some(op::LOAD) => {
                    fetches += usize::from(self.differs(LLVMGetOperand(*instruction, 0)))
                }
                Some(op::STORE) => {
                    fetches += usize::from(self.differs(LLVMGetOperand(*instruction, 1)))
                }
                Some(op::GEP | op::SEXT | op::ZEXT | op::TRUNC | op::ICMP) => {}
                _ => operations += 1,
            }
        }
        operations >= FOR_EACH_FETCH * fetches
    }

    /// True if an access of many work-items, some of which do not make it, can be one of a vector:
    /// processors gather and scatter words, and nothing narrower. Some mask bytes that lie side by
    /// side.
    fn is_vector_of(
        &self,
        access: Value,
        of: Type,
        address: u32,
        common: &Common,
        private: &SideBySide,
    ) -> bool {
        let is_word = ![8, 16].into_iter().any(|bits| of.is_integer(bits));
        let address = LLVMGetOperand(access, address);
        let is_same = || !self.differs(address) || common.has(address);
        !is_shared(access)
            && (is_word
                || is_same()
                || masks_bytes() && self.number_of_x(address, common, private, 0) == Some(1))
    }

    /// True if a load is of a byte or two, of which work-items find the places by numbers that they
    /// have read, or rounded: the places are anywhere then.
    pub(super) fn is_looked_up(&self, load: Value) -> bool {
        let bytes = match load.ty() {
            of if of.is_integer(8) => 1,
            of if of.is_integer(16) => 2,
            _ => return false,
        };
        let address = LLVMGetOperand(load, 0);
        if LLVMGetVolatile(load) != 0
            || LLVMGetOrdering(load) != 0
            || LLVMGetAlignment(load) < bytes
            || LLVMGetPointerAddressSpace(address.ty()) == PRIVATE
        {
            return false;
        }
        let (mut open, mut seen) = (vec![address], HashSet::new());
        while let Some(value) = open.pop() {
            if !self.differs(value) || !seen.insert(value) {
                continue;
            }
            match value.opcode() {
                Some(op::LOAD | op::FP_TO_SI | op::FP_TO_UI) => return true,
                Some(op::PHI) => {
                    let count = LLVMCountIncoming(value);
                    open.extend((0..count).map(|at| LLVMGetIncomingValue(value, at)));
                }
                _ => open.extend(value.operands()),
            }
        }
        false
    }

    /// The factor of the work-item's number along x in a sum, whose other parts are the same for
    /// all; none if that is not known. Of addresses, in bytes. Sums of sums are looked at so far as
    /// users write them.
    fn number_of_x(
        &self,
        value: Value,
        common: &Common,
        private: &SideBySide,
        depth: u32,
    ) -> Option<u32> {
        const DEEPEST: u32 = 8;
        if !self.differs(value) || common.has(value) {
            return Some(0);
        }
        if depth == DEEPEST {
            return None;
        }
        let of = |index: u32| {
            let operand = LLVMGetOperand(value, index);
            self.number_of_x(operand, common, private, depth + 1)
        };
        match value.opcode()? {
            op::ALLOCA => private.bytes(value).map(|_| 1),
            // Its elements are as far apart as there are work-items.
            op::GEP if private.bytes(value).is_some() => {
                let is_same = |index: &Value| !self.differs(*index) || common.has(*index);
                of(0).filter(|_| value.operands().skip(1).all(|index| is_same(&index)))
            }
            op::CALL => {
                let name = value.callee()?;
                ["__q_lid0", "__q_gid0"]
                    .contains(&name.as_str())
                    .then_some(1)
            }
            op::SEXT | op::ZEXT => of(0),
            op::ADD => Some(of(0)? + of(1)?),
            op::GEP if LLVMGetGEPSourceElementType(value).is_integer(8) => Some(of(0)? + of(1)?),
            _ => None,
        }
    }

    /// The edges by which work-items go by a loop that others enter: see
    /// [`meeting_after`](Self::meeting_after).
    pub(super) fn ways_by(&self, graph: &Graph, of: &Loop, after: usize) -> Vec<(usize, usize)> {
        let partings = self
            .parted
            .iter()
            .filter(|(at, region)| !of.nodes[*at] && region[of.header]);
        let froms = partings.flat_map(|(at, region)| {
            let within = (0..graph.nodes.len()).filter(|node| region[*node] && !of.nodes[*node]);
            within.chain([*at])
        });
        froms
            .filter(|from| graph.nodes[*from].next.contains(&after))
            .map(|from| (from, after))
            .collect()
    }

    /// The edges to fences that all work-items come to, where those of a strip may stop: one fence
    /// is of an order with the accesses of all of them then.
    pub(super) fn fences(&self, graph: &Graph) -> Vec<(usize, usize)> {
        let begins = |at: &usize| {
            let first = graph.nodes[*at].body.first();
            first.is_some_and(|first| first.opcode() == Some(op::FENCE))
        };
        let all = (0..graph.nodes.len()).filter(|at| begins(at) && !self.nodes[*at]);
        let edges = all.filter_map(|at| match graph.before[at][..] {
            [from] => Some((from, at)),
            _ => None,
        });
        let may_stop =
            |(from, to): &(usize, usize)| self.order.may_stop(std::iter::once(*from), [*to; 2]);
        edges.filter(may_stop).collect()
    }

    /// True if all work-items of a group go through a loop together, the same number of times.
    pub(super) fn goes_together(&self, graph: &Graph, of: &Loop) -> bool {
        if self.nodes[of.header] {
            return false;
        }
        let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
        for at in within {
            let node = &graph.nodes[at];
            let exits = node.next.iter().any(|next| !of.nodes[*next])
                || matches!(node.end, End::Return | End::Unreachable);
            if !exits {
                continue;
            }
            if self.nodes[at] {
                return false;
            }
            if let End::Branch(Some(branch)) = node.end
                && node.next.len() > 1
                && self.differs(LLVMGetOperand(branch, 0))
            {
                return false;
            }
        }
        true
    }
}

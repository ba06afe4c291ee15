//! Work-items of a group that do not all meet at the same places: functions of sub-groups in
//! branches and loops that some take.
//!
//! 1. Nothing counts as the same for all, so that each work-item has variables of its own.
//! 2. Work-items stop where they meet or wait, and before they go round a loop again in which they
//!    do.
//! 3. Each has a number of the place where it goes on. The places are numbered in the order in
//!    which a work-item comes to them: those in a loop before that where it goes round again, this
//!    before those after the loop, and those behind barriers last.
//! 4. The work-items at the lowest place go on, until all are through. So those wait that are
//!    further, as they do on a GPU.

use super::super::graph::{End, Graph};
use super::super::uniform::Divergence;
use super::{Cut, Emitter, Item};
use crate::compiler::llvm::*;
use std::collections::{BTreeMap, BTreeSet};

/// The places of work-items.
pub(super) struct Apart {
    /// For each work-item, the number of the place where it goes on.
    places: Value,
    /// Those numbers, by nodes; the kernel's start has the lowest.
    pub(super) order: BTreeMap<usize, u64>,
}

impl Apart {
    pub(super) fn new(graph: &Graph, targets: &BTreeSet<usize>, places: Value) -> Self {
        let mut all: Vec<usize> = targets.iter().copied().collect();
        let order = graph.order();
        let loops = graph.loops();
        let stops = |from: &&usize| graph.stops(**from);
        all.sort_by_key(|at| {
            let Some(from) = graph.before[*at].iter().find(stops) else {
                // Where a loop is gone round again: behind the last place in it, and before those
                // of loops around it.
                let again = loops.iter().find(|of| of.header == *at);
                let is_within = |node: &usize| again.is_some_and(|of| of.nodes[*node]);
                let within: Vec<usize> = (0..order.len()).filter(is_within).collect();
                let last = within.iter().map(|node| order[*node]).max();
                return (false, last.unwrap_or_default(), within.len());
            };
            (graph.nodes[*from].end == End::Barrier, order[*at], 0)
        });
        let numbers = std::iter::once(0).chain(all).zip(0..);
        Self {
            places,
            order: numbers.collect(),
        }
    }

    /// The number of a work-item that is through.
    fn through(&self) -> u64 {
        self.order.len() as u64
    }
}

/// True if work-items may meet where others of the group do not come.
pub(in crate::compiler::workgroup) fn are_apart(graph: &Graph, differs: &Divergence) -> bool {
    let reached = graph.reached();
    (0..graph.nodes.len())
        .any(|at| reached[at] && differs.nodes[at] && graph.nodes[at].end == End::Meeting)
}

/// The edges where work-items stop that are apart.
pub(super) fn cuts(graph: &Graph) -> BTreeMap<(usize, usize), Cut> {
    let reached = graph.reached();
    let stops: Vec<usize> = (0..graph.nodes.len())
        .filter(|at| reached[*at] && graph.stops(*at))
        .collect();
    let loops = graph.loops().into_iter();
    let with_stops = loops.filter(|of| stops.iter().any(|at| of.nodes[*at]));
    let again = with_stops.flat_map(|of| {
        let from = graph.before[of.header].iter().copied();
        let from: Vec<usize> = from.filter(|from| of.nodes[*from]).collect();
        from.into_iter().map(move |from| (from, of.header))
    });
    let ways = stops.iter().map(|at| (*at, graph.nodes[*at].next[0]));
    ways.chain(again).map(|way| (way, Cut::Outer)).collect()
}

impl Emitter {
    /// Writes that a work-item goes on at a place, or is through.
    pub(super) fn go_apart(&self, apart: &Apart, place: Option<&u64>, item: &Item) {
        let place = place.copied().unwrap_or(apart.through());
        let number = self.narrow(place);
        self.keep(number, self.int(32), apart.places, item.in_group, item);
    }

    /// Has only those work-items run what comes who are at this place.
    pub(super) fn only_those_here(&self, apart: &Apart, start: usize, item: &Item) {
        let place = self.kept(self.int(32), self.states, item.in_group, item);
        let here = self.narrow(apart.order[&start]);
        let is_here = self.compared(compare::EQ, place, here);
        let going = self.block("here");
        LLVMBuildCondBr(self.builder, is_here, going, item.latch);
        self.go_on(going);
    }

    /// Goes on with those at the lowest place. Where all are then stays as it is until these stop
    /// again.
    pub(super) fn next_of_those_apart(
        &self,
        apart: &Apart,
        starts: &BTreeMap<usize, Block>,
        after: Block,
    ) {
        let number = self.int(32);
        let lowest = self.alloca(number, false);
        LLVMBuildStore(self.builder, self.narrow(apart.through()), lowest);
        let each = self.count(self.narrowed(self.count), 1);
        let at = self.extended(each.number);
        let place = self.load(number, self.at(number, apart.places, at));
        LLVMBuildStore(self.builder, place, self.at(number, self.states, at));
        let so_far = self.load(number, lowest);
        let is_lower = self.compared(compare::ULT, place, so_far);
        let lower = LLVMBuildSelect(self.builder, is_lower, place, so_far, UNNAMED);
        LLVMBuildStore(self.builder, lower, lowest);
        self.counted(&each, None);
        let lowest = self.load(number, lowest);
        let switch = LLVMBuildSwitch(self.builder, lowest, after, starts.len() as u32);
        for (start, block) in starts {
            LLVMAddCase(switch, self.narrow(apart.order[start]), *block);
        }
    }
}

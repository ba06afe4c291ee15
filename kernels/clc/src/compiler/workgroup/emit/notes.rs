//! Notes on a version as it is written, if somebody asks: see
//! [`Notes`](super::super::notes::Notes).

use super::super::graph::{End, Graph, Loop};
use super::super::guard::Guard;
use super::super::notes::{self, line, line_of_loop, listed};
use super::super::uniform::Alone;
use super::super::waits::is_shared;
use super::{Cut, Emitter, Key, Version};
use crate::compiler::llvm::*;
use std::collections::{BTreeMap, BTreeSet};

impl Emitter {
    /// Notes where the instructions that follow are of, if they are of a loop over work-items.
    pub(super) fn at_line_of(&mut self, instruction: Value) {
        let Some(notes) = &mut self.notes else { return };
        if let Some(place) = notes.place(self.context, line(instruction)) {
            LLVMSetCurrentDebugLocation2(self.builder, place);
        }
    }

    /// Begins what is noted of the version that groups run for which these guards hold.
    pub(in super::super) fn begin_notes(&mut self, guards: &[&Guard]) {
        let Some(notes) = &mut self.notes else { return };
        let lines: BTreeSet<u32> = guards
            .iter()
            .filter_map(|guard| line(guard.decision))
            .collect();
        let groups = match (guards.is_empty(), notes.versions.is_empty()) {
            _ if self.disjoint.are => {
                "these groups, in launches whose arguments share no memory".to_owned()
            }
            (false, _) => format!(
                "groups of which all work-items are within the bounds of {}",
                notes::lines(&lines)
            ),
            (true, true) => "all groups".to_owned(),
            (true, false) => "the other groups".to_owned(),
        };
        notes.begin(groups);
    }

    /// Ends what is noted of a loop over work-items.
    pub(super) fn leave_loop(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.leave();
            LLVMSetCurrentDebugLocation2(self.builder, Metadata::NULL);
        }
    }

    /// Notes where work-items of a version stop, part, and go round loops.
    pub(super) fn note(
        &mut self,
        version: &Version<'_>,
        loops: &[Loop],
        alone: &BTreeMap<usize, Alone>,
    ) {
        let Some(mut notes) = self.notes.take() else {
            return;
        };
        let graph = version.graph;
        let reached = graph.reached();
        // What is said of a loop says enough of the test before it.
        let starts: Vec<Option<u32>> = loops.iter().map(|of| self.start(graph, of)).collect();
        for (instruction, at) in &graph.home {
            let is_barrier = reached[*at]
                && graph.stops(*at)
                && !graph.nodes[*at].body.contains(instruction)
                && instruction.callee().is_some();
            if is_barrier {
                let kept = self.kept_across(version, graph.nodes[*at].next[0]);
                notes.say(
                    line(*instruction),
                    format!("all work-items stop at this barrier; {kept}"),
                );
            }
        }
        for (at, node) in graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| reached[*at])
        {
            for alloca in node
                .body
                .iter()
                .filter(|it| it.opcode() == Some(op::ALLOCA))
            {
                notes.say(None, self.array(*alloca));
            }
            let is_of_loop =
                |of: &Loop| of.nodes[at] && node.next.iter().any(|next| !of.nodes[*next]);
            let End::Branch(Some(branch)) = node.end else {
                continue;
            };
            if node.next.len() < 2 || loops.iter().any(is_of_loop) {
                continue;
            }
            let Some(line) = line(branch).filter(|line| !starts.contains(&Some(*line))) else {
                continue;
            };
            match version.differs.differs(LLVMGetOperand(branch, 0)) {
                true => notes.version().parted.insert(line),
                false => notes.version().same.insert(line),
            };
        }
        for of in loops {
            let into = |cut: Cut| {
                let mut cuts = version.cuts.iter();
                cuts.any(|((_, to), kind)| *to == of.header && *kind == cut)
            };
            let sentence = if version.apart.is_some() {
                continue;
            } else if into(Cut::Outer) {
                let kept = self.kept_across(version, of.header);
                format!(
                    "all work-items go round this loop together; it has a barrier, so they stop where it begins and where it \
                     ends, too; {kept}"
                )
            } else if let Some(why) = alone.get(&of.header) {
                format!(
                    "work-items go round this loop one after the other: {}",
                    because(*why)
                )
            } else {
                continue;
            };
            notes.say(self.start(graph, of), sentence);
        }
        if version.apart.is_some() {
            notes.say(
                None,
                "work-items meet in sub-groups at places that not all of the group come to: each goes on by itself, and each \
                 place takes a loop over the whole group"
                    .to_owned(),
            );
        }
        if version.through.is_some() {
            notes.say(
                None,
                "some work-items may have returned where others wait at a barrier: each loop over work-items asks for that"
                    .to_owned(),
            );
        }
        self.notes = Some(notes);
    }

    /// Notes the loops that are cut for strips of work-items: where regions begin that are reached
    /// from one outer cut.
    pub(super) fn note_strips(&mut self, version: &Version<'_>, keys: &[Key], strip: Option<u64>) {
        let Some(strip) = strip else { return };
        let Some(mut notes) = self.notes.take() else {
            return;
        };
        for of in version.graph.loops() {
            if !keys.contains(&(of.header, false)) {
                continue;
            }
            let alive = version.variables.alive[of.header].iter();
            let values = alive.map(|at| version.variables.all[at].value());
            let own: Vec<Value> = values
                .filter(|value| version.differs.differs(*value))
                .collect();
            let how = match version.masked.contains_key(&of.header) {
                true => {
                    "work-items leave this loop at different times: those of a strip go round it together until all have left, \
                     by masks"
                }
                false => "all work-items go round this loop together, strip by strip",
            };
            let own = match own[..] {
                [] => "none keeps anything of its own from turn to turn".to_owned(),
                _ => format!("each keeps {} from turn to turn", self.named(&own)),
            };
            let sentence = format!("{how}; a strip has {strip} of them at most, and {own}");
            notes.say(self.start(version.graph, &of), sentence);
        }
        self.notes = Some(notes);
    }

    /// Notes a branch that parts the first work-items from the others.
    pub(super) fn note_split(&mut self, branch: Value) {
        if let (Some(notes), Some(line)) = (&mut self.notes, line(branch)) {
            notes.version().split.insert(line);
        }
    }

    /// The line where a loop begins.
    fn start(&self, graph: &Graph, of: &Loop) -> Option<u32> {
        let before = graph.before[of.header].iter();
        let mut ends = before
            .filter(|at| of.nodes[**at])
            .map(|at| &graph.nodes[*at].end);
        ends.find_map(|end| match end {
            End::Branch(Some(branch)) => line_of_loop(self.context, *branch),
            _ => None,
        })
    }

    /// A sentence on the values that work-items keep for the place where they go on.
    fn kept_across(&self, version: &Version<'_>, target: usize) -> String {
        let alive = version.variables.alive[target].iter();
        let kept = alive.filter(|at| version.outer.contains_key(at));
        let values = kept.map(|at| version.variables.all[at].value());
        let (own, common): (Vec<Value>, Vec<Value>) =
            values.partition(|value| version.differs.differs(*value));
        let own = match own[..] {
            [] => "no work-item keeps anything of its own across it".to_owned(),
            _ => format!("each keeps {} across it", self.named(&own)),
        };
        match common[..] {
            [] => own,
            _ => format!("{own}; the group keeps {}", self.named(&common)),
        }
    }

    /// Values, as people know them: by the variables of the text, or by the lines that they come
    /// from; and their bytes.
    fn named(&self, values: &[Value]) -> String {
        let bytes = values
            .iter()
            .map(|value| LLVMABISizeOfType(self.layout, self.memory_type(value.ty())));
        let bytes: u64 = bytes.sum();
        let mut variables = BTreeSet::new();
        let mut others = BTreeSet::new();
        let mut count = 0;
        for value in values {
            match variable(*value) {
                Some(name) => _ = variables.insert(format!("`{name}`")),
                None => {
                    count += 1;
                    others.extend(line(*value));
                }
            }
        }
        let mut all: Vec<String> = variables.into_iter().collect();
        let number = if count == 1 {
            "1 number"
        } else {
            &format!("{count} numbers")
        };
        match (count, others.is_empty()) {
            (0, _) => {}
            (_, true) => all.push(number.to_owned()),
            (_, false) => all.push(format!("{number} of {}", notes::lines(&others))),
        }
        format!("{bytes} bytes ({})", listed(&all))
    }

    /// A sentence on an array of a work-item's own.
    fn array(&self, alloca: Value) -> String {
        let bytes = LLVMABISizeOfType(self.layout, self.own_memory(alloca));
        let name = alloca.name();
        let name = name.split('.').next().unwrap_or_default();
        let lies = match self.side_by_side.bytes(alloca) {
            Some(_) => "the same element of all work-items lies side by side",
            None => {
                "work-items' elements lie apart, for it is not only read and written as numbers of one size"
            }
        };
        format!(
            "`{name}`, {bytes} bytes of each work-item's own, is in memory, as an index reaches it that is no constant; {lies}"
        )
    }
}

/// The variable of the text that a value is of, as far as its name tells: a value that is changed
/// has the variable's name, and a computed one has a name that clang gives such instructions.
fn variable(value: Value) -> Option<String> {
    const OF_CLANG: [&str; 27] = [
        "", "add", "and", "arrayidx", "call", "cmp", "cond", "conv", "dec", "div", "idxprom",
        "inc", "indvars", "lnot", "mul", "neg", "not", "or", "rem", "select", "shl", "shr", "spec",
        "sub", "tmp", "tobool", "xor",
    ];
    let name = value.name();
    let name = name.split('.').next()?;
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (value.opcode() == Some(op::PHI) && !OF_CLANG.contains(&word)).then(|| name.to_owned())
}

/// The reason for which work-items go round a loop alone.
fn because(why: Alone) -> String {
    match why {
        Alone::Entered => {
            "some do not come to it, and there is more before it than the test for that".to_owned()
        }
        Alone::HasLoop => {
            "they leave it at different times, and there is another loop in it".to_owned()
        }
        Alone::Left => {
            "they leave it at different times, and to several places (return, break)".to_owned()
        }
        Alone::Fetches => {
            "it does little with what each fetches from a place of its own, and vectors of that are no faster".to_owned()
        }
        Alone::Rows => "each goes along a row of its own, so vectors are of turns".to_owned(),
        Alone::Stops => "they leave it at different times, and stop in it or at its ends".to_owned(),
        Alone::Waits => {
            "work-items wait for each other by an atomic operation, so none stops while it may hold a lock".to_owned()
        }
        Alone::Instruction(one) => {
            let at = line(one).map_or_else(String::new, |line| format!(" in line {line}"));
            let what = match one.opcode() {
                Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG) => "an atomic operation".to_owned(),
                _ if is_shared(one) => "a volatile or an atomic access".to_owned(),
                Some(op::LOAD) => "a read of bytes that do not lie side by side".to_owned(),
                Some(op::STORE) => "a write of bytes that do not lie side by side".to_owned(),
                Some(op::CALL) => {
                    format!("a call of `{}`", one.callee().unwrap_or_default())
                }
                _ => "something".to_owned(),
            };
            format!("they leave it at different times, and there is {what}{at} that is no instruction of vectors with a mask")
        }
    }
}

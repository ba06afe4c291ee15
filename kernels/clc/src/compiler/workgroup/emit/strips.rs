//! Loops over strips, and over the work-items of a strip, from one cut to the next ones.

use super::super::access::{Registers, widest_stride};
use super::super::graph::End;
use super::super::variables::Variable;
use super::{
    Counted, Cut, Emitter, Item, Key, MOST_IN_STRIP, Part, Split, Strip, Version, inner_regions,
    is_number_along_x,
};
use crate::compiler::Fault;
use crate::compiler::llvm::*;
use std::collections::{BTreeSet, HashMap};

/// The comparison of a number with the bound that it is below.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Signed,
    Unsigned,
    /// The bound itself counts as below it.
    SignedOrEqual,
    UnsignedOrEqual,
}

impl Below {
    fn is_signed(self) -> bool {
        matches!(self, Self::Signed | Self::SignedOrEqual)
    }

    fn takes_bound(self) -> bool {
        matches!(self, Self::SignedOrEqual | Self::UnsignedOrEqual)
    }

    /// The comparison of a bound with a number that holds if neither that number nor any larger one
    /// is below the bound.
    fn none(self) -> i32 {
        match self {
            Self::Signed => compare::SLE,
            Self::Unsigned => compare::ULE,
            Self::SignedOrEqual => compare::SLT,
            Self::UnsignedOrEqual => compare::ULT,
        }
    }
}

/// The numbers for which a comparison holds: true for those below its right side, and false for the
/// others; none if it holds for neither.
fn below(predicate: i32) -> Option<(bool, Below)> {
    Some(match predicate {
        compare::ULT => (true, Below::Unsigned),
        compare::SLT => (true, Below::Signed),
        compare::ULE => (true, Below::UnsignedOrEqual),
        compare::SLE => (true, Below::SignedOrEqual),
        compare::UGE => (false, Below::Unsigned),
        compare::SGE => (false, Below::Signed),
        compare::UGT => (false, Below::UnsignedOrEqual),
        compare::SGT => (false, Below::SignedOrEqual),
        _ => return None,
    })
}

/// A comparison with its sides exchanged.
fn mirrored(predicate: i32) -> i32 {
    match predicate {
        compare::ULT => compare::UGT,
        compare::ULE => compare::UGE,
        compare::UGT => compare::ULT,
        compare::UGE => compare::ULE,
        compare::SLT => compare::SGT,
        compare::SLE => compare::SGE,
        compare::SGT => compare::SLT,
        compare::SGE => compare::SLE,
        same => same,
    }
}

impl Emitter {
    /// Writes what work-items do from an outer cut to the next ones.
    pub(super) fn outer_region(
        &mut self,
        version: &mut Version<'_>,
        target: usize,
    ) -> Result<(), Fault> {
        let through = version.graph.nodes.len() as u64;
        LLVMBuildStore(self.builder, self.narrow(through), version.next_outer);
        if let Some(fences) = version.graph.fences.get(&target) {
            self.fence(fences);
        }
        let mut taken = HashMap::new();
        for variable in version.variables.alive[target].iter() {
            let value = version.variables.all[variable].value();
            if let Some(place) = version.outer.get(&variable)
                && !version.differs.differs(value)
            {
                taken.insert(variable, self.load(value.ty(), *place));
            }
        }
        let keys = inner_regions(version, target);
        let crossing: BTreeSet<usize> = keys
            .iter()
            .filter(|(_, from_outer)| !from_outer)
            .flat_map(|(at, _)| version.variables.alive[*at].iter().collect::<Vec<_>>())
            .collect();
        let wide_ones = crossing
            .iter()
            .filter(|at| version.differs.differs(version.variables.all[**at].value()))
            .count() as u64;
        let strip = match keys.len() {
            1 => None,
            _ => Some(self.strip_length(wide_ones, widest_stride(version.graph, self.layout))),
        };
        self.note_strips(version, &keys, strip);
        let inner: HashMap<usize, Value> = crossing
            .iter()
            .map(|at| (*at, self.place(version, *at, strip)))
            .collect();

        let z = self.count(self.sizes[2], 1);
        let y = self.count(self.sizes[1], 1);
        let step = strip.unwrap_or(u64::from(u32::MAX >> 1));
        let x = match strip {
            Some(_) => self.count(self.sizes[0], step),
            None => Counted {
                before: self.here(),
                head: self.here(),
                number: self.narrow(0),
                bound: self.sizes[0],
                step,
            },
        };
        let length = match (strip, self.local_size) {
            (None, _) => self.sizes[0],
            (Some(strip), Some(_)) => self.narrow(strip),
            (Some(strip), None) => {
                let rest = self.operate(op::SUB, self.sizes[0], x.number);
                let less = self.compared(compare::ULT, rest, self.narrow(strip));
                LLVMBuildSelect(self.builder, less, rest, self.narrow(strip), UNNAMED)
            }
        };
        let strip = Strip {
            first: x.number,
            length,
            y: y.number,
            z: z.number,
            inner,
            taken,
            blocks: keys.iter().map(|key| (*key, self.block("strip"))).collect(),
            done: self.block("done"),
        };
        LLVMBuildBr(self.builder, strip.blocks[&(target, true)]);
        for key in keys {
            self.go_on(strip.blocks[&key]);
            match version.masked.get(&key.0).copied() {
                Some(masked) => self.turn(version, &strip, key.0, masked)?,
                None => self.inner_region(version, &strip, key)?,
            }
        }
        self.go_on(strip.done);
        for of in [x, y, z] {
            self.counted(&of, None);
        }
        Ok(())
    }

    /// Writes fences once for all work-items that come to them.
    fn fence(&self, fences: &[Value]) {
        for fence in fences {
            LLVMInsertIntoBuilder(self.builder, LLVMInstructionClone(*fence));
        }
    }

    /// The number of work-items of a strip. Values that cross inner cuts may then stay in
    /// registers, and the lines that are read, of which a loop may take one number at a time, in
    /// the cache.
    pub(super) fn strip_length(&self, crossing: u64, stride: u64) -> u64 {
        // Of the numbers that vector registers have, half: the others are for what is computed.
        let Registers { count, numbers } = self.registers;
        let fits = count / 2 * numbers / crossing.max(1);
        const BYTES: u64 = 16 << 10;
        let fits = fits.min(BYTES / stride.max(1));
        let fits = fits.clamp(numbers, MOST_IN_STRIP);
        let wanted = 1 << fits.ilog2();
        match self.local_size {
            Some([x, _, _]) => {
                let x = u64::from(x);
                (1..=wanted.min(x))
                    .rev()
                    .find(|length| x.is_multiple_of(*length))
                    .unwrap_or(1)
            }
            None => wanted,
        }
    }

    /// Writes what the work-items of a strip do from one cut to the next ones.
    pub(super) fn inner_region(
        &mut self,
        version: &mut Version<'_>,
        strip: &Strip,
        key: Key,
    ) -> Result<(), Fault> {
        let (start, from_outer) = key;
        if version.fenced.contains(&start) {
            let body = version.graph.nodes[start].body.iter();
            let fences = body.filter(|one| one.opcode() == Some(op::FENCE));
            self.fence(&fences.copied().collect::<Vec<Value>>());
        }
        let alive: Vec<usize> = version.variables.alive[start].iter().collect();
        let mut taken = HashMap::new();
        for variable in &alive {
            let value = version.variables.all[*variable].value();
            if version.differs.differs(value) {
                continue;
            }
            let value = match from_outer {
                true => strip
                    .taken
                    .get(variable)
                    .copied()
                    .unwrap_or_else(|| LLVMGetUndef(value.ty())),
                false => self.load(value.ty(), strip.inner[variable]),
            };
            taken.insert(*variable, value);
        }
        let mut exits = BTreeSet::new();
        match self.split(version, strip, start, &taken) {
            None => {
                let every = Part {
                    first: None,
                    length: strip.length,
                    assumed: None,
                };
                exits.extend(self.items(version, strip, key, &taken, every)?);
            }
            Some(Split { branch, way, below }) => {
                self.note_split(branch);
                let rest = self.operate(op::SUB, strip.length, below);
                for (first, length, way) in [(None, below, way), (Some(below), rest, 1 - way)] {
                    let (some, none) = (self.block("part"), self.block("next"));
                    let is_any = self.compared(compare::NE, length, self.narrow(0));
                    LLVMBuildCondBr(self.builder, is_any, some, none);
                    self.go_on(some);
                    let part = Part {
                        first,
                        length,
                        assumed: Some((branch, way)),
                    };
                    exits.extend(self.items(version, strip, key, &taken, part)?);
                    LLVMBuildBr(self.builder, none);
                    self.go_on(none);
                }
            }
        }
        let inner: Vec<usize> = exits
            .iter()
            .filter(|(cut, _)| *cut == Some(Cut::Inner))
            .map(|(_, to)| *to)
            .collect();
        match inner[..] {
            [] => {
                LLVMBuildBr(self.builder, strip.done);
            }
            [only] if exits.len() == 1 => {
                LLVMBuildBr(self.builder, strip.blocks[&(only, false)]);
            }
            _ => {
                let next = self.load(self.int(32), version.next_inner);
                let switch = LLVMBuildSwitch(self.builder, next, strip.done, inner.len() as u32);
                for to in inner {
                    LLVMAddCase(switch, self.narrow(to as u64), strip.blocks[&(to, false)]);
                }
            }
        }
        Ok(())
    }

    /// Writes the loop over some work-items of a strip; the cuts that they may come to.
    pub(super) fn items(
        &mut self,
        version: &mut Version<'_>,
        strip: &Strip,
        key: Key,
        taken: &HashMap<usize, Value>,
        part: Part,
    ) -> Result<BTreeSet<(Option<Cut>, usize)>, Fault> {
        let (start, from_outer) = key;
        let alive: Vec<usize> = version.variables.alive[start].iter().collect();
        let (accesses, properties) = self.loop_properties(!strip.inner.is_empty(), None)?;
        let each = self.count(part.length, 1);
        let number = match part.first {
            Some(first) => self.sum(first, each.number),
            None => each.number,
        };
        let item = self.item(strip, number, accesses);
        if let Some(through) = version.through {
            let mark = self.kept(self.int(8), through, item.in_group, &item);
            let is_through = self.compared(compare::NE, mark, LLVMConstInt(self.int(8), 0, 0));
            let going = self.block("going");
            LLVMBuildCondBr(self.builder, is_through, item.latch, going);
            self.go_on(going);
        }
        if let Some(apart) = &version.apart {
            self.only_those_here(apart, start, &item);
        }
        for variable in &alive {
            let value = version.variables.all[*variable].value();
            let now = match taken.get(variable) {
                Some(value) => *value,
                None if from_outer => match version.outer.get(variable) {
                    Some(place) => self.kept(value.ty(), *place, item.in_group, &item),
                    None => LLVMGetUndef(value.ty()),
                },
                None => self.kept(value.ty(), strip.inner[variable], item.in_strip, &item),
            };
            LLVMBuildStore(self.builder, now, self.home(version, *variable));
        }
        let exits = self.nodes(version, strip, &item, key, None, part.assumed);
        self.go_on(item.latch);
        self.counted(&each, Some(properties));
        self.leave_loop();
        Ok(exits)
    }

    /// The place where the work-items of a strip part at a branch that compares the number within
    /// the group, along x, with a value that is the same for all: the first so many go one way, and
    /// the others the other.
    pub(super) fn split(
        &mut self,
        version: &Version<'_>,
        strip: &Strip,
        start: usize,
        taken: &HashMap<usize, Value>,
    ) -> Option<Split> {
        let region = version.region(start);
        let comes_back = region.iter().any(|at| {
            let next = &version.graph.nodes[*at].next;
            next.contains(&start) && !version.cuts.contains_key(&(*at, start))
        });
        if comes_back {
            return None;
        }
        for at in &region {
            let node = &version.graph.nodes[*at];
            let End::Branch(Some(branch)) = node.end else {
                continue;
            };
            if node.next.len() != 2 || branch.opcode() != Some(op::BR) {
                continue;
            }
            let condition = LLVMGetOperand(branch, 0);
            if condition.opcode() != Some(op::ICMP) {
                continue;
            }
            let (left, right) = (LLVMGetOperand(condition, 0), LLVMGetOperand(condition, 1));
            let predicate = LLVMGetICmpPredicate(condition);
            let (bound, predicate) = match (is_number_along_x(left), is_number_along_x(right)) {
                (true, false) => (right, predicate),
                (false, true) => (left, mirrored(predicate)),
                _ => continue,
            };
            if predicate == compare::EQ && bound.number() == Some(0) {
                // Only the first one is.
                let below = self.first_of(strip, self.wide(1), Below::Unsigned);
                return Some(Split {
                    branch,
                    way: 0,
                    below,
                });
            }
            let Some((is_below, below)) = below(predicate) else {
                continue;
            };
            if below.takes_bound() && bound.number().is_some() {
                // `l > 0`: a mask costs less than a part of one.
                continue;
            }
            let Some(bound) = self.at_start(version, &region, taken, bound) else {
                continue;
            };
            let extend = if below.is_signed() {
                op::SEXT
            } else {
                op::ZEXT
            };
            let bound = match bound.ty().is_integer(64) {
                true => bound,
                false => LLVMBuildCast(self.builder, extend, bound, self.int(64), UNNAMED),
            };
            let below = self.first_of(strip, bound, below);
            let way = usize::from(!is_below);
            return Some(Split { branch, way, below });
        }
        None
    }

    /// The number of work-items of a strip whose number along x is below a bound.
    pub(super) fn first_of(&self, strip: &Strip, bound: Value, below: Below) -> Value {
        let first = self.extended(strip.first);
        let length = self.extended(strip.length);
        let none = self.compared(below.none(), bound, first);
        let mut rest = self.operate(op::SUB, bound, first);
        let is_part = self.compared(compare::ULT, rest, length);
        if below.takes_bound() {
            rest = self.operate(op::ADD, rest, self.wide(1));
        }
        let some = LLVMBuildSelect(self.builder, is_part, rest, length, UNNAMED);
        let below = LLVMBuildSelect(self.builder, none, self.wide(0), some, UNNAMED);
        self.narrowed(below)
    }

    /// A uniform value as it is where a region begins, of these nodes, if it is known there.
    pub(super) fn at_start(
        &self,
        version: &Version<'_>,
        region: &[usize],
        taken: &HashMap<usize, Value>,
        value: Value,
    ) -> Option<Value> {
        if value.opcode().is_none() {
            return Some(self.constant_or_argument(value));
        }
        let is_phi_there = version.graph.nodes[region[0]].phis.contains(&value);
        let variable = match is_phi_there {
            true => Variable::Phi(value),
            false => Variable::Value(value),
        };
        // It must be what it was there: nothing in the region sets it anew.
        let home = version.graph.home.get(&value)?;
        if !is_phi_there && region.contains(home) {
            return None;
        }
        let number = version.variables.number(variable)?;
        taken.get(&number).copied()
    }

    /// The work-item of a strip that a loop is at.
    pub(super) fn item(&self, strip: &Strip, number: Value, accesses: Value) -> Item {
        let x = self.sum(strip.first, number);
        let local = [x, strip.y, strip.z];
        let row = self.operate(op::MUL, self.extended(strip.z), self.info[7]);
        let row = self.operate(op::ADD, row, self.extended(strip.y));
        let row = self.operate(op::MUL, row, self.info[6]);
        Item {
            local,
            global: std::array::from_fn(|axis| self.sum(self.base[axis], local[axis])),
            in_strip: self.extended(number),
            in_group: self.operate(op::ADD, row, self.extended(x)),
            accesses,
            latch: self.block("latch"),
        }
    }
}

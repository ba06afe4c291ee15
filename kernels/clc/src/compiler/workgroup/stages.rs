//! The order of a work-item's own accesses, where the optimiser makes one access of several.
//!
//! The loop over work-items says of its accesses that those of one work-item do not depend on those
//! of another. One of the optimiser's passes makes one access of several, as of `a[2 * i]` and
//! `a[2 * i + 1]`. It takes the loop's word for more: it has reads come with the first of them, and
//! writes with the last one, whatever lies in between.
//!
//! So each such access is of a *stage*. Between two reads of a stage nothing writes to what they
//! read, and between two writes of one nothing reads or writes what they write. The addresses of a
//! stage are moved by a number of its own. The number is nothing, but the optimiser does not know
//! that. So it knows no distance between accesses of two stages, and leaves them apart.
//!
//! In a loop that it may unroll, a write of one turn lies between accesses of two others. Their
//! addresses are moved by a number that seems to change from one work-item to the next, so each
//! stays an access of its own.

use super::graph::Graph;
use super::private::{SideBySide, parts_of};
use super::uniform::Divergence;
use super::{LOCAL, access, own_bytes};
use crate::compiler::llvm::*;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The address spaces of buffers, of constants, and of pointers to anything.
const GLOBAL: u32 = 1;
const CONSTANT: u32 = 2;
const GENERIC: u32 = 4;

/// The stage of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The one of this number, which is not 0: an access of the first stage is left as it is.
    Number(usize),
    /// One of its own, whatever becomes of the loop that it is in.
    Own,
}

/// Memory that is known to be none of another object's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Object {
    /// That of an `alloca`, of which each work-item has one.
    Own(Value),
    /// That of a local variable, by its place in local memory.
    Local(u64),
    /// That behind an argument, which may be another one's, too.
    Argument(Value),
    /// That behind an argument which is none of another one's, by the text or by the launch.
    Restricted(Value),
}

/// A number that a distance grows by: a value, and whether it is extended as a signed one.
type Term = (Value, Option<bool>);

/// An access, or something that may be any.
struct Access {
    writes: bool,
    space: u32,
    object: Option<Object>,
    /// The distance from the object's start: a sum of terms, each times so many, and of bytes. None
    /// if it is not known.
    distance: Option<Sum>,
    bytes: u64,
    /// True if it is in a loop that one work-item goes round after the other.
    repeated: bool,
}

#[derive(Default, PartialEq, Eq)]
struct Sum {
    terms: BTreeMap<Term, u64>,
    bytes: u64,
}

/// What the stages of a kernel are found by.
pub(super) struct Stages<'a> {
    pub(super) graph: &'a Graph,
    pub(super) differs: &'a Divergence,
    pub(super) side_by_side: &'a SideBySide,
    /// Arguments with `restrict`.
    pub(super) restricted: &'a HashSet<Value>,
    /// True if no two arguments share memory.
    pub(super) are_disjoint: bool,
    pub(super) layout: DataLayout,
    /// Numbers of nodes: see [`Graph::order`].
    pub(super) order: &'a [usize],
    /// Nodes of loops that one work-item goes round after the other.
    pub(super) repeated: &'a [bool],
}

/// The writes of a stage that goes on.
struct Writes {
    stage: usize,
    all: Vec<usize>,
}

impl Stages<'_> {
    /// The stages of the accesses of a region, in which work-items do not stop. Those that are of
    /// the first one are left out, and those that become no part of another access.
    pub(super) fn of(&self, region: &[usize]) -> HashMap<Value, Stage> {
        let mut nodes = region.to_vec();
        nodes.sort_by_key(|at| self.order[*at]);
        let mut all = Vec::new();
        for at in nodes {
            let body = self.graph.nodes[at].body.iter();
            all.extend(body.filter_map(|one| Some((*one, self.access(*one, at)?))));
        }
        let mut stages = HashMap::new();
        let mut last = 0;
        let mut new = || {
            last += 1;
            last
        };
        // The stage of an object's reads, and the number of accesses before it.
        let mut reads: HashMap<Option<Object>, (usize, usize)> = HashMap::new();
        let mut writes: HashMap<Option<Object>, Writes> = HashMap::new();
        for (number, (instruction, access)) in all.iter().enumerate() {
            writes.retain(|_, those| !those.all.iter().any(|one| access.meets(&all[*one].1)));
            let mut joins = self.may_be_joined(*instruction, access);
            if joins && access.repeated {
                let mut others = all.iter().map(|(_, other)| other);
                let is_between = |other: &Access| {
                    other.repeated && (other.writes || access.writes) && other.shares(access)
                };
                if others.any(is_between) {
                    stages.insert(*instruction, Stage::Own);
                    joins = false;
                }
            }
            if !joins {
                continue;
            }
            let stage = match access.writes {
                false => {
                    let (stage, since) = reads.entry(access.object).or_insert((0, 0));
                    let between = &all[*since..number];
                    let is_changed =
                        |(_, other): &(Value, Access)| other.writes && access.meets(other);
                    if between.iter().any(is_changed) {
                        (*stage, *since) = (new(), number);
                    }
                    *stage
                }
                true => {
                    // What it is of may turn out to be one of the others.
                    let is_first = access.object.is_some()
                        && !all[..number]
                            .iter()
                            .any(|(_, other)| other.object == access.object && other.writes);
                    let those = writes.entry(access.object).or_insert_with(|| Writes {
                        stage: if is_first { 0 } else { new() },
                        all: Vec::new(),
                    });
                    those.all.push(number);
                    those.stage
                }
            };
            if stage != 0 {
                stages.insert(*instruction, Stage::Number(stage));
            }
        }
        stages
    }

    fn access(&self, instruction: Value, at: usize) -> Option<Access> {
        let repeated = self.repeated[at];
        let (address, of, writes) = match instruction.opcode()? {
            op::LOAD => (LLVMGetOperand(instruction, 0), instruction.ty(), false),
            op::STORE => {
                let stored = LLVMGetOperand(instruction, 0);
                (LLVMGetOperand(instruction, 1), stored.ty(), true)
            }
            op::ATOMIC_RMW | op::ATOMIC_CMPXCHG => {
                let by = LLVMGetOperand(instruction, 1);
                (LLVMGetOperand(instruction, 0), by.ty(), true)
            }
            _ if access::keeps_reads_in_place(instruction) => {
                return Some(Access {
                    writes: true,
                    space: GENERIC,
                    object: None,
                    distance: None,
                    bytes: 0,
                    repeated,
                });
            }
            _ => return None,
        };
        let (space, object, distance) = self.place(address);
        Some(Access {
            writes,
            space,
            object,
            distance,
            bytes: LLVMABISizeOfType(self.layout, of),
            repeated,
        })
    }

    /// The memory that an address is of, and where it is there.
    fn place(&self, address: Value) -> (u32, Option<Object>, Option<Sum>) {
        let mut distance = Some(Sum::default());
        let mut at = address;
        while let Some(op::GEP | op::BIT_CAST | op::ADDRESS_SPACE_CAST) = at.opcode() {
            let from = LLVMGetOperand(at, 0);
            if at.opcode() == Some(op::GEP) {
                let parts = parts_of(at, self.layout);
                if from.callee().as_deref() == Some("__q_local")
                    && let Some([part]) = parts.as_deref()
                    && part.index.is_none()
                {
                    return (LOCAL, Some(Object::Local(part.bytes)), distance);
                }
                match (&mut distance, parts) {
                    (Some(sum), Some(parts)) => {
                        for part in parts {
                            match part.index {
                                Some(index) => {
                                    let is_narrow = !index.ty().is_integer(64);
                                    sum.add(index, part.bytes, is_narrow.then_some(true));
                                }
                                None => sum.bytes = sum.bytes.wrapping_add(part.bytes),
                            }
                        }
                    }
                    (distance, _) => *distance = None,
                }
            }
            at = from;
        }
        let object = if at.opcode() == Some(op::ALLOCA) {
            Some(Object::Own(at))
        } else if LLVMIsAArgument(at).some().is_some() {
            Some(match self.are_disjoint || self.restricted.contains(&at) {
                true => Object::Restricted(at),
                false => Object::Argument(at),
            })
        } else {
            None
        };
        (LLVMGetPointerAddressSpace(at.ty()), object, distance)
    }

    /// True if the optimiser may make one access of this one and others: where neighbours' are
    /// several numbers apart.
    fn may_be_joined(&self, instruction: Value, access: &Access) -> bool {
        const MOST_APART: u64 = 8;
        if !matches!(instruction.opcode(), Some(op::LOAD | op::STORE)) || access.space == CONSTANT {
            return false;
        }
        let Some(bytes) = self.between_neighbours(access) else {
            return true;
        };
        let bytes = (bytes as i64).unsigned_abs();
        let numbers = bytes / access.bytes.max(1);
        bytes.is_multiple_of(access.bytes.max(1)) && (2..=MOST_APART).contains(&numbers)
    }

    /// Bytes from what a work-item accesses to what its neighbour does; none if that is not known.
    fn between_neighbours(&self, access: &Access) -> Option<u64> {
        let distance = access.distance.as_ref()?;
        let is_same = |value: Value| value.opcode().is_none() || !self.differs.differs(value);
        let mut apart = match access.object? {
            Object::Own(alloca) => match self.side_by_side.bytes(alloca) {
                Some(bytes) => {
                    let mut terms = distance.terms.keys();
                    return terms.all(|(term, _)| is_same(*term)).then_some(bytes);
                }
                None => own_bytes(alloca, self.layout),
            },
            _ => 0,
        };
        for ((term, _), times) in &distance.terms {
            let name = term.callee().unwrap_or_default();
            if ["__q_lid0", "__q_gid0"].contains(&name.as_str()) {
                apart = apart.wrapping_add(*times);
            } else if !is_same(*term) {
                return None;
            }
        }
        Some(apart)
    }
}

impl Access {
    /// True if both may be of one object.
    fn shares(&self, other: &Self) -> bool {
        let spaces = [self.space, other.space];
        if spaces.contains(&CONSTANT) {
            return false;
        }
        if self.space != other.space && !spaces.contains(&GENERIC) {
            return false;
        }
        match (self.object, other.object) {
            (Some(one), Some(another)) if one == another => true,
            (Some(Object::Argument(_)), Some(Object::Argument(_))) => self.space == GLOBAL,
            (Some(_), Some(_)) => false,
            _ => true,
        }
    }

    /// True if both may be of the same bytes.
    fn meets(&self, other: &Self) -> bool {
        if !self.shares(other) || self.repeated || other.repeated {
            return self.shares(other);
        }
        let (Some(one), Some(another)) = (&self.distance, &other.distance) else {
            return true;
        };
        if self.object.is_none() || self.object != other.object || one.terms != another.terms {
            return true;
        }
        let on = another.bytes.wrapping_sub(one.bytes) as i64;
        match on >= 0 {
            true => on.unsigned_abs() < self.bytes,
            false => on.unsigned_abs() < other.bytes,
        }
    }
}

impl Sum {
    /// Adds a number times so many bytes. It is extended to 64 bits as a signed one, or as one that
    /// is not, unless it has them.
    fn add(&mut self, number: Value, times: u64, signed: Option<bool>) {
        let bits = LLVMGetIntTypeWidth(number.ty());
        if let Some(constant) = number.number() {
            let constant = match signed {
                Some(true) => ((constant << (64 - bits)) as i64 >> (64 - bits)) as u64,
                _ => constant,
            };
            self.bytes = self.bytes.wrapping_add(constant.wrapping_mul(times));
            return;
        }
        let operand = |at: u32| LLVMGetOperand(number, at);
        // What is extended must not go around.
        let stays = |number: Value| match signed {
            None => bits == 64,
            Some(true) => LLVMGetNSW(number) != 0,
            Some(false) => LLVMGetNUW(number) != 0,
        };
        let factor = || operand(1).number().filter(|by| *by < 31);
        match number.opcode() {
            Some(op::SEXT) if bits == 64 => self.add(operand(0), times, Some(true)),
            Some(op::ZEXT) if bits == 64 => self.add(operand(0), times, Some(false)),
            Some(op::ADD) if stays(number) => {
                self.add(operand(0), times, signed);
                self.add(operand(1), times, signed);
            }
            Some(op::OR)
                if LLVMGetIsDisjoint(number) != 0
                    && operand(1).number().is_some_and(|bits| bits < 1 << 30) =>
            {
                self.add(operand(0), times, signed);
                self.add(operand(1), times, signed);
            }
            Some(op::SUB) if stays(number) => {
                self.add(operand(0), times, signed);
                self.add(operand(1), times.wrapping_neg(), signed);
            }
            Some(op::SHL) if stays(number) && factor().is_some() => {
                let by = factor().unwrap_or_default();
                self.add(operand(0), times.wrapping_mul(1 << by), signed);
            }
            Some(op::MUL) if stays(number) && factor().is_some() => {
                let by = factor().unwrap_or_default();
                self.add(operand(0), times.wrapping_mul(by), signed);
            }
            _ => {
                let so_far = self.terms.entry((number, signed)).or_default();
                *so_far = so_far.wrapping_add(times);
            }
        }
        self.terms.retain(|_, times| *times != 0);
    }
}

//! Loops that a work-item leaves if it is alone.
//!
//! The turns of a loop are gone through in terms of what is in memory and of what the work-item has
//! at hand as a turn begins, while nobody else changes memory. Where a branch depends on that, both
//! ways are taken. If all ways leave the loop after few turns, the work-item waits for nobody: it
//! goes round again only if another thread has come between. So does an exchange that is tried with
//! the number that memory has, in all its forms, and
//! `while (atomic_xchg(p, atomic_xchg(p, 0) + x))`. A lock is none of these: one way is that it is
//! taken, and stays so.
//!
//! A turn that does not leave may still be one that no other work-item can help: if each shared
//! number that it has read is final, or each that the turn before has. A number is final if all
//! that a kernel does to such numbers is to exchange one constant for something else, and this one
//! is no longer that constant: a slot of a table of which each is filled once.

use super::super::access::is_arithmetic;
use super::super::graph::{End, Graph, Loop};
use super::super::variables::is_leaf;
use super::places::{Place, left, places, written};
use super::{address, is_shared};
use crate::compiler::calls;
use crate::compiler::llvm::*;
use std::collections::HashMap;

/// Turns after which a work-item that is alone must have left: an exchange fails once with the
/// number of a turn before, succeeds, and is seen to have.
const TURNS: u32 = 4;

/// The most instructions that are looked at, and the most ways.
const MOST_STEPS: usize = 20_000;
const MOST_WAYS: usize = 500;

/// The number of a term.
type Id = usize;

/// A value in terms of what is not known.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Term {
    /// A constant, or a value from before the loop.
    Fixed(Value),
    /// Something that is read, or of another turn.
    Unknown(usize, Type),
    /// The result of an operation: its opcode, what tells it from others of that, and its operands.
    Made(i32, Detail, Vec<Id>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Detail {
    of: Type,
    number: i32,
    name: String,
}

/// A number in memory.
#[derive(Clone)]
struct Kept {
    address: Id,
    places: Vec<Place>,
    now: Id,
}

/// A way through the loop so far.
#[derive(Clone)]
struct Way {
    node: usize,
    /// The instruction of the node that comes next.
    next: usize,
    turn: u32,
    values: HashMap<Value, Id>,
    /// Exchanges that were tried, and whether they succeeded.
    exchanged: HashMap<Value, bool>,
    memory: Vec<Kept>,
    /// What conditions are taken to be.
    facts: HashMap<Id, bool>,
    /// Shared numbers that the turn has read, with their memory, and those of the turn before: a
    /// loop may test what it has read a turn later.
    read: Vec<(Id, Vec<Place>)>,
    read_before: Vec<(Id, Vec<Place>)>,
}

/// What a condition is.
enum Decision {
    Is(bool),
    /// It depends on this one.
    On(Id),
}

/// The end of a step.
enum Step {
    On,
    /// The same once more, with this condition known.
    Fork(Id),
    /// The way has left the loop, or does not count.
    Over,
    Stuck,
}

struct Turns<'a> {
    graph: &'a Graph,
    of: &'a Loop,
    terms: Vec<Term>,
    ids: HashMap<Term, Id>,
    /// Memory of which all numbers are changed once, from a constant.
    final_ones: Vec<(Place, Value)>,
}

/// True if a work-item leaves a loop whatever others do, as far as is known.
pub(super) fn leaves(graph: &Graph, of: &Loop) -> bool {
    let mut turns = Turns {
        graph,
        of,
        terms: Vec::new(),
        ids: HashMap::new(),
        final_ones: final_ones(graph, of),
    };
    let mut first = Way {
        node: of.header,
        next: 0,
        turn: 1,
        values: HashMap::new(),
        exchanged: HashMap::new(),
        memory: Vec::new(),
        facts: HashMap::new(),
        read: Vec::new(),
        read_before: Vec::new(),
    };
    for phi in &graph.nodes[of.header].phis {
        first.values.insert(*phi, turns.unknown(phi.ty()));
    }
    let mut open = vec![first];
    let (mut steps, mut ways) = (0, 1);
    while let Some(mut way) = open.pop() {
        loop {
            steps += 1;
            if steps > MOST_STEPS || ways > MOST_WAYS {
                return false;
            }
            match turns.step(&mut way, &mut open) {
                Step::On => {}
                Step::Fork(condition) => {
                    let mut other = way.clone();
                    other.facts.insert(condition, false);
                    open.push(other);
                    way.facts.insert(condition, true);
                    ways += 1;
                }
                Step::Over => break,
                Step::Stuck => return false,
            }
        }
    }
    true
}

/// The places in memory where a loop exchanges numbers, each with the one constant that the kernel
/// exchanges for others there. A
/// write through another argument, which may be for the same memory, does not count unless it makes
/// that constant of what was exchanged for it.
fn final_ones(graph: &Graph, of: &Loop) -> Vec<(Place, Value)> {
    let wanted = |one: Value| {
        let is_exchange = one.opcode() == Some(op::ATOMIC_CMPXCHG);
        let wanted = is_exchange.then(|| LLVMGetOperand(one, 1));
        wanted.filter(|wanted| wanted.number().is_some())
    };
    let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
    let all = || graph.nodes.iter().flat_map(|node| &node.body);
    let exchanges = within.flat_map(|at| &graph.nodes[at].body);
    let found = exchanges.filter_map(|one| {
        let constant = wanted(*one)?;
        let [place] = places(address(*one))[..] else {
            return None;
        };
        let filled = LLVMGetOperand(*one, 2).number();
        let are_such = all().all(|other| {
            let Some(to) = written(*other).map(places) else {
                return !calls::is_call(*other);
            };
            let gives_back = || left(*other, filled) == constant.number();
            let changes_it =
                Place::any_meet(&to, &[place]) || Place::any_share(&to, &[place]) && gives_back();
            !changes_it || wanted(*other) == Some(constant)
        });
        (place.is_named() && are_such).then_some((place, constant))
    });
    found.collect()
}

impl Turns<'_> {
    fn id(&mut self, term: Term) -> Id {
        if let Some(id) = self.ids.get(&term) {
            return *id;
        }
        let id = self.terms.len();
        self.terms.push(term.clone());
        self.ids.insert(term, id);
        id
    }

    /// Something unknown of a type.
    fn unknown(&mut self, of: Type) -> Id {
        self.id(Term::Unknown(self.terms.len(), of))
    }

    /// The constant that a term is.
    fn number(&self, id: Id) -> Option<u64> {
        match self.terms[id] {
            Term::Fixed(value) => value.number(),
            _ => None,
        }
    }

    fn value(&mut self, way: &Way, value: Value) -> Id {
        match way.values.get(&value) {
            Some(id) => *id,
            None => self.id(Term::Fixed(value)),
        }
    }

    fn made(&mut self, opcode: i32, of: Type, number: i32, operands: Vec<Id>) -> Id {
        let numbers: Vec<Option<u64>> = operands.iter().map(|id| self.number(*id)).collect();
        match (opcode, &numbers[..]) {
            (op::FREEZE, _) => return operands[0],
            (op::ADD | op::SUB | op::OR | op::XOR, [_, Some(0)]) => return operands[0],
            (op::ADD | op::SUB | op::AND | op::OR | op::XOR, [Some(left), Some(right)]) => {
                let result = match opcode {
                    op::ADD => left.wrapping_add(*right),
                    op::SUB => left.wrapping_sub(*right),
                    op::AND => left & right,
                    op::OR => left | right,
                    _ => left ^ right,
                };
                return self.id(Term::Fixed(LLVMConstInt(of, result, 0)));
            }
            _ => {}
        }
        let name = String::new();
        self.id(Term::Made(opcode, Detail { of, number, name }, operands))
    }

    /// A term as one of another type with the same bits.
    fn cast(&mut self, id: Id, from: Type, to: Type) -> Id {
        match &self.terms[id] {
            _ if from == to => id,
            Term::Fixed(value) if is_constant(*value) && ![from, to].iter().any(is_pointer) => {
                let cast = LLVMConstBitCast(*value, to);
                self.id(Term::Fixed(cast))
            }
            Term::Made(op::BIT_CAST, detail, operands) if detail.number == kind_and_bits(to) => {
                operands[0]
            }
            _ => {
                let number = kind_and_bits(from);
                self.made(op::BIT_CAST, to, number, vec![id])
            }
        }
    }

    /// What is in memory.
    fn read(&mut self, way: &mut Way, address: Value, of: Type) -> Id {
        let at = self.value(way, address);
        let of_address = places(address);
        if let Some(kept) = way.memory.iter().find(|kept| kept.address == at) {
            let now = kept.now;
            let is_of = self.type_of(now, of);
            return match is_of {
                Some(from) => self.cast(now, from, of),
                None => self.unknown(of),
            };
        }
        let now = self.unknown(of);
        way.memory.push(Kept {
            address: at,
            places: of_address,
            now,
        });
        now
    }

    /// The type of what is in memory, if it has as many bits as this one.
    fn type_of(&self, id: Id, wanted: Type) -> Option<Type> {
        let of = match &self.terms[id] {
            Term::Fixed(value) => value.ty(),
            Term::Made(_, detail, _) => detail.of,
            Term::Unknown(_, of) => *of,
        };
        (bits(of)? == bits(wanted)?).then_some(of)
    }

    /// Writes to memory. What may be of the same place is not known any more.
    fn write(&mut self, way: &mut Way, address: Value, now: Id) {
        let at = self.value(way, address);
        let places = places(address);
        way.memory
            .retain(|kept| kept.address != at && !Place::any_meet(&kept.places, &places));
        way.memory.push(Kept {
            address: at,
            places,
            now,
        });
    }

    /// The condition that decides whether two terms are equal.
    fn equal(&mut self, of: Type, left: Id, right: Id) -> Id {
        let operands = vec![left.min(right), left.max(right)];
        self.made(op::ICMP, of, compare::EQ, operands)
    }

    fn decided(&self, way: &Way, id: Id) -> Decision {
        if let Some(number) = self.number(id) {
            return Decision::Is(number != 0);
        }
        if let Some(fact) = way.facts.get(&id) {
            return Decision::Is(*fact);
        }
        let Term::Made(opcode, detail, operands) = &self.terms[id] else {
            return Decision::On(id);
        };
        let of = |at: usize| self.decided(way, operands[at]);
        match *opcode {
            op::ICMP | op::FCMP => {
                match self.compared(*opcode, detail.number, operands[0], operands[1]) {
                    Some(is) => Decision::Is(is),
                    None => Decision::On(id),
                }
            }
            op::XOR => match (of(0), of(1)) {
                (Decision::Is(left), Decision::Is(right)) => Decision::Is(left ^ right),
                (Decision::On(on), _) | (_, Decision::On(on)) => Decision::On(on),
            },
            op::AND | op::OR => {
                let ends_it = *opcode == op::OR;
                match (of(0), of(1)) {
                    (Decision::Is(is), _) | (_, Decision::Is(is)) if is == ends_it => {
                        Decision::Is(ends_it)
                    }
                    (Decision::Is(_), Decision::Is(_)) => Decision::Is(!ends_it),
                    (Decision::On(on), _) | (_, Decision::On(on)) => Decision::On(on),
                }
            }
            _ => Decision::On(id),
        }
    }

    /// What a comparison of two terms is, if that is known.
    fn compared(&self, opcode: i32, predicate: i32, left: Id, right: Id) -> Option<bool> {
        if left == right {
            return Some(match opcode {
                // LLVM's predicates of floats that hold for equal numbers have odd numbers. What
                // is no number is not looked at: a loop that tests it never ends.
                op::FCMP => predicate & 1 != 0,
                _ => matches!(
                    predicate,
                    compare::EQ | compare::UGE | compare::ULE | compare::SGE | compare::SLE
                ),
            });
        }
        if opcode == op::FCMP {
            return None;
        }
        let (Term::Fixed(one), Term::Fixed(other)) = (&self.terms[left], &self.terms[right]) else {
            return None;
        };
        let (one, other) = (one.number()?, other.number()?);
        match predicate {
            compare::EQ => Some(one == other),
            compare::NE => Some(one != other),
            compare::ULT => Some(one < other),
            compare::ULE => Some(one <= other),
            compare::UGT => Some(one > other),
            compare::UGE => Some(one >= other),
            _ => None,
        }
    }

    fn step(&mut self, way: &mut Way, open: &mut Vec<Way>) -> Step {
        let graph = self.graph;
        let node = &graph.nodes[way.node];
        let Some(one) = node.body.get(way.next).copied() else {
            return self.end(way, open);
        };
        match self.instruction(way, one) {
            Ok(Some(id)) => {
                way.values.insert(one, id);
            }
            Ok(None) => {}
            Err(condition) => return Step::Fork(condition),
        }
        way.next += 1;
        Step::On
    }

    /// What an instruction gives; the condition that has to be known first, if there is one.
    fn instruction(&mut self, way: &mut Way, one: Value) -> Result<Option<Id>, Id> {
        let Some(opcode) = one.opcode() else {
            return Ok(None);
        };
        let operand = |at: u32| LLVMGetOperand(one, at);
        if is_shared(one) {
            let at = self.value(way, address(one));
            way.read.push((at, places(address(one))));
        }
        Ok(Some(match opcode {
            op::LOAD => self.read(way, operand(0), one.ty()),
            op::STORE => {
                let now = self.value(way, operand(0));
                self.write(way, operand(1), now);
                return Ok(None);
            }
            op::ATOMIC_RMW => {
                let old = self.read(way, operand(0), one.ty());
                let by = self.value(way, operand(1));
                let now = match LLVMGetAtomicRMWBinOp(one) {
                    0 => by,
                    1 => self.made(op::ADD, one.ty(), 0, vec![old, by]),
                    2 => self.made(op::SUB, one.ty(), 0, vec![old, by]),
                    3 => self.made(op::AND, one.ty(), 0, vec![old, by]),
                    5 => self.made(op::OR, one.ty(), 0, vec![old, by]),
                    6 => self.made(op::XOR, one.ty(), 0, vec![old, by]),
                    other => self.made(op::ATOMIC_RMW, one.ty(), other, vec![old, by]),
                };
                self.write(way, operand(0), now);
                old
            }
            op::ATOMIC_CMPXCHG => {
                let of = operand(1).ty();
                let old = self.read(way, operand(0), of);
                let wanted = self.value(way, operand(1));
                let condition = self.equal(of, old, wanted);
                let succeeds = match self.decided(way, condition) {
                    Decision::Is(is) => is,
                    Decision::On(on) => {
                        way.read.pop();
                        return Err(on);
                    }
                };
                way.exchanged.insert(one, succeeds);
                if !succeeds {
                    return Ok(Some(old));
                }
                let now = self.value(way, operand(2));
                self.write(way, operand(0), now);
                // The two are equal: this is the one of which more is known.
                match (&self.terms[old], self.number(wanted)) {
                    (Term::Unknown(..), _) | (_, Some(_)) => wanted,
                    _ => old,
                }
            }
            op::EXTRACT_VALUE => match way.exchanged.get(&operand(0)) {
                Some(succeeded) if one.ty().is_integer(1) => {
                    let known = LLVMConstInt(one.ty(), u64::from(*succeeded), 0);
                    self.id(Term::Fixed(known))
                }
                Some(_) => self.value(way, operand(0)),
                None => self.unknown(one.ty()),
            },
            op::SELECT => {
                let condition = self.value(way, operand(0));
                match self.decided(way, condition) {
                    Decision::Is(true) => self.value(way, operand(1)),
                    Decision::Is(false) => self.value(way, operand(2)),
                    Decision::On(on) => return Err(on),
                }
            }
            op::ICMP => {
                let sides = [0, 1].map(|at| self.value(way, operand(at)));
                let predicate = LLVMGetICmpPredicate(one);
                match predicate {
                    compare::EQ => self.equal(operand(0).ty(), sides[0], sides[1]),
                    compare::NE => {
                        let equal = self.equal(operand(0).ty(), sides[0], sides[1]);
                        let truth = self.id(Term::Fixed(LLVMConstInt(one.ty(), 1, 0)));
                        self.made(op::XOR, one.ty(), 0, vec![equal, truth])
                    }
                    _ => self.made(op::ICMP, operand(0).ty(), predicate, sides.to_vec()),
                }
            }
            op::FCMP => {
                let sides = [0, 1].map(|at| self.value(way, operand(at)));
                let predicate = LLVMGetFCmpPredicate(one);
                self.made(op::FCMP, operand(0).ty(), predicate, sides.to_vec())
            }
            op::BIT_CAST => {
                let id = self.value(way, operand(0));
                self.cast(id, operand(0).ty(), one.ty())
            }
            op::CALL => {
                let name = one.callee().unwrap_or_default();
                if !is_leaf(one) && !is_arithmetic(&name) {
                    way.memory.clear();
                    return Ok(Some(self.unknown(one.ty())));
                }
                let count = one.operands().count().saturating_sub(1);
                let operands = one.operands().take(count);
                let operands = operands.map(|it| self.value(way, it)).collect();
                let (of, number) = (one.ty(), 0);
                self.id(Term::Made(op::CALL, Detail { of, number, name }, operands))
            }
            op::ALLOCA => self.id(Term::Fixed(one)),
            op::FENCE => return Ok(None),
            op::GEP | op::ADD..=op::XOR | op::TRUNC..=op::INT_TO_PTR | op::FREEZE => {
                let operands: Vec<Id> = one.operands().map(|it| self.value(way, it)).collect();
                match opcode {
                    op::GEP => {
                        let element = LLVMGetGEPSourceElementType(one);
                        self.made(opcode, element, 0, operands)
                    }
                    _ => self.made(opcode, one.ty(), 0, operands),
                }
            }
            _ => self.unknown(one.ty()),
        }))
    }

    /// Goes on behind a node.
    fn end(&mut self, way: &mut Way, open: &mut Vec<Way>) -> Step {
        let node = &self.graph.nodes[way.node];
        let to = match node.end {
            // There all others go on.
            End::Barrier | End::Meeting | End::Return | End::Unreachable => return Step::Over,
            End::Branch(Some(branch)) if node.next.len() > 1 => {
                let condition = self.value(way, LLVMGetOperand(branch, 0));
                if branch.opcode() == Some(op::SWITCH) {
                    let mut cases = 1..node.next.len();
                    let case = |at: &usize| LLVMGetOperand(branch, 2 * *at as u32).number();
                    let mut ways: Vec<usize> = match self.number(condition) {
                        Some(number) => {
                            let case = cases.find(|at| case(at) == Some(number));
                            vec![node.next[case.unwrap_or(0)]]
                        }
                        None => node.next.clone(),
                    };
                    let last = ways.pop().unwrap_or(way.node);
                    for to in ways {
                        let mut other = way.clone();
                        match self.go_to(&mut other, to) {
                            Step::On => open.push(other),
                            Step::Over => {}
                            stuck => return stuck,
                        }
                    }
                    last
                } else {
                    match self.decided(way, condition) {
                        Decision::Is(is) => node.next[usize::from(!is)],
                        Decision::On(on) => return Step::Fork(on),
                    }
                }
            }
            End::Branch(_) => node.next[0],
        };
        self.go_to(way, to)
    }

    fn go_to(&mut self, way: &mut Way, to: usize) -> Step {
        if !self.of.nodes[to] {
            return Step::Over;
        }
        if to == self.of.header {
            if self.are_final(way, &way.read) || self.are_final(way, &way.read_before) {
                return Step::Over;
            }
            way.turn += 1;
            way.read_before = std::mem::take(&mut way.read);
            if way.turn > TURNS {
                return Step::Stuck;
            }
        }
        let phis = &self.graph.nodes[to].phis;
        let becoming: Vec<(Value, Id)> = phis
            .iter()
            .map(|phi| {
                let id = match self.graph.incoming(*phi, way.node) {
                    Some(value) => self.value(way, value),
                    None => self.unknown(phi.ty()),
                };
                (*phi, id)
            })
            .collect();
        way.values.extend(becoming);
        way.node = to;
        way.next = 0;
        Step::On
    }

    /// True if no other work-item can change the numbers that a turn has read.
    fn are_final(&mut self, way: &Way, read: &[(Id, Vec<Place>)]) -> bool {
        !read.is_empty()
            && read.iter().all(|(address, places)| {
                let [place] = places[..] else { return false };
                let known = self.final_ones.iter().find(|(of, _)| *of == place);
                let Some(constant) = known.map(|(_, constant)| *constant) else {
                    return false;
                };
                let kept = way.memory.iter().find(|kept| kept.address == *address);
                let Some(now) = kept.map(|kept| kept.now) else {
                    return false;
                };
                let constant_id = self.id(Term::Fixed(constant));
                let condition = self.equal(constant.ty(), now, constant_id);
                matches!(self.decided(way, condition), Decision::Is(false))
            })
    }
}

fn is_constant(value: Value) -> bool {
    value.opcode().is_none() && LLVMIsAArgument(value).some().is_none()
}

fn is_pointer(of: &Type) -> bool {
    of.kind() == kind::POINTER
}

/// The bits of a number or an address.
fn bits(of: Type) -> Option<u32> {
    Some(match of.kind() {
        kind::INTEGER => LLVMGetIntTypeWidth(of),
        kind::HALF => 16,
        kind::FLOAT => 32,
        kind::DOUBLE | kind::POINTER => 64,
        _ => return None,
    })
}

/// A number that tells such types apart.
fn kind_and_bits(of: Type) -> i32 {
    of.kind() * 256 + bits(of).unwrap_or(0) as i32
}

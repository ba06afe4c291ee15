//! The instructions of a region for one work-item, and where it has the variables at hand.

use super::super::access::{Plain, Registers, gathers_words, is_atomic_in_local, plain_operation};
use super::super::common::Common;
use super::super::graph::End;
use super::super::private::parts_of;
use super::super::stages::Stage;
use super::super::variables::{Variable, is_leaf};
use super::super::waits::is_shared;
use super::{Cut, Emitter, Exit, Item, Key, Masked, Strip, Turn, Version};
use crate::compiler::Fault;
use crate::compiler::llvm::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Emitter {
    /// Writes a turn of a loop that work-items leave at different times. All take what they have in
    /// hand and put it back, so that the loop over work-items has no access that depends on whether
    /// one is in the loop still.
    pub(super) fn turn(
        &mut self,
        version: &mut Version<'_>,
        strip: &Strip,
        header: usize,
        masked: Masked,
    ) -> Result<(), Fault> {
        let mut alive: BTreeSet<usize> = version.variables.alive[header].iter().collect();
        alive.extend(version.variables.alive[masked.after].iter());
        let common = version.common[&header].clone();
        let counters = self.counters(version, strip, &mut alive, &common);
        let again = self.block("again");
        LLVMBuildBr(self.builder, again);
        self.go_on(again);
        let differs = |version: &Version<'_>, variable: usize| {
            version
                .differs
                .differs(version.variables.all[variable].value())
        };
        let mut taken = HashMap::new();
        for variable in &alive {
            if !differs(version, *variable) {
                let of = version.variables.all[*variable].value().ty();
                taken.insert(*variable, self.load(of, strip.inner[variable]));
            }
        }
        self.common_reads(version, &taken, &counters, &common);
        let flag = self.int(32);
        let any = self.alloca(flag, false);
        LLVMBuildStore(self.builder, self.narrow(0), any);
        let together = self.together(version, header);
        let (accesses, properties) = self.loop_properties(!strip.inner.is_empty(), together)?;
        let each = self.count(strip.length, 1);
        let item = self.item(strip, each.number, accesses);
        for variable in &alive {
            let of = version.variables.all[*variable].value().ty();
            let now = match taken.get(variable) {
                Some(value) => *value,
                None => self.kept(of, strip.inner[variable], item.in_strip, &item),
            };
            LLVMBuildStore(self.builder, now, self.home(version, *variable));
        }
        let turn = Turn {
            header,
            again: self.alloca(flag, false),
            end: self.block("turned"),
        };
        let inside = self.kept(flag, masked.inside, item.in_strip, &item);
        LLVMBuildStore(self.builder, inside, turn.again);
        let is_inside = self.compared(compare::NE, inside, self.narrow(0));
        let (going, gone) = (self.block("going"), self.block("gone"));
        LLVMBuildCondBr(self.builder, is_inside, going, gone);
        self.go_on(gone);
        for variable in &alive {
            // Nobody looks at it any more. Were it kept, each turn would wait for the test that
            // ended the one before.
            let is_over = !version.variables.alive[masked.after].has(*variable);
            if is_over && differs(version, *variable) {
                let of = version.variables.all[*variable].value().ty();
                let home = self.home(version, *variable);
                LLVMBuildStore(self.builder, LLVMGetPoison(of), home);
            }
        }
        LLVMBuildBr(self.builder, turn.end);
        self.go_on(going);
        self.nodes(version, strip, &item, (header, false), Some(turn), None);
        self.go_on(turn.end);
        for variable in &alive {
            let of = version.variables.all[*variable].value().ty();
            let home = self.home(version, *variable);
            let now = self.load(of, home);
            if differs(version, *variable) {
                self.keep(now, of, strip.inner[variable], item.in_strip, &item);
            } else {
                LLVMBuildStore(self.builder, now, strip.inner[variable]);
            }
        }
        let goes_on = self.load(flag, turn.again);
        self.keep(goes_on, flag, masked.inside, item.in_strip, &item);
        let so_far = self.load(flag, any);
        LLVMBuildStore(self.builder, self.operate(op::OR, so_far, goes_on), any);
        LLVMBuildBr(self.builder, item.latch);
        self.go_on(item.latch);
        self.counted(&each, Some(properties));
        self.leave_loop();
        version.at_hand.clear();
        self.count_on(version, &taken, &counters, &common);
        let any = self.load(flag, any);
        let more = self.compared(compare::NE, any, self.narrow(0));
        let after = strip.blocks[&(masked.after, false)];
        LLVMBuildCondBr(self.builder, more, again, after);
        Ok(())
    }

    /// The number of work-items in a vector, where a masked loop reads or writes bytes: as many as
    /// a vector has words. The optimiser would have it be half of them if a number of 64 bits is
    /// kept, as indices are.
    fn together(&self, version: &Version<'_>, header: usize) -> Option<u64> {
        let Registers { numbers, .. } = self.registers;
        let is_narrow = |of: Type| of.is_integer(8) || of.is_integer(16);
        let loops = version.graph.loops();
        let of = loops.iter().find(|of| of.header == header)?;
        let within = (0..version.graph.nodes.len()).filter(|at| of.nodes[*at]);
        let mut all = within.flat_map(|at| &version.graph.nodes[at].body);
        let narrow = all.any(|one| match one.opcode() {
            Some(op::LOAD) => is_narrow(one.ty()),
            Some(op::STORE) => is_narrow(LLVMGetOperand(*one, 0).ty()),
            _ => false,
        });
        let length = self.local_size?[0];
        (narrow && u64::from(length).is_multiple_of(numbers)).then_some(numbers)
    }

    /// Places for a loop's counters, with what they begin as. They are no longer variables of each
    /// work-item.
    fn counters(
        &mut self,
        version: &mut Version<'_>,
        strip: &Strip,
        alive: &mut BTreeSet<usize>,
        common: &Common,
    ) -> Vec<Value> {
        let mut before = HashMap::new();
        for variable in alive.iter() {
            let value = version.variables.all[*variable].value();
            if !version.differs.differs(value) {
                before.insert(*variable, self.load(value.ty(), strip.inner[variable]));
            }
        }
        let mut made = HashMap::new();
        let counters = common.counters.iter().map(|counter| {
            let first = self.in_common(version, &before, &mut made, counter.first);
            let place = self.alloca(counter.phi.ty(), false);
            LLVMBuildStore(self.builder, first, place);
            if let Some(number) = version.variables.number(Variable::Phi(counter.phi)) {
                alive.remove(&number);
            }
            place
        });
        counters.collect()
    }

    /// Writes what is the same for all in a turn, before it: the counters, and what is read by them
    /// alone.
    fn common_reads(
        &mut self,
        version: &mut Version<'_>,
        taken: &HashMap<usize, Value>,
        counters: &[Value],
        common: &Common,
    ) {
        let mut made = self.counted_so_far(counters, common);
        version.at_hand = made.clone();
        let items = self.block("items");
        let mut places = Vec::new();
        for step in &common.steps {
            for read in &step.reads {
                let from = self.in_common(version, taken, &mut made, LLVMGetOperand(*read, 0));
                let copy = LLVMInstructionClone(*read);
                LLVMSetOperand(copy, 0, from);
                LLVMInsertIntoBuilder(self.builder, copy);
                for name in ["alias.scope", "noalias"] {
                    LLVMSetMetadata(copy, metadata_kind(self.context, name), Value::NULL);
                }
                let place = self.alloca(read.ty(), false);
                LLVMBuildStore(self.builder, copy, place);
                places.push((*read, place));
            }
            if let Some((condition, wanted)) = step.onward
                && common.has(condition)
            {
                let holds = self.in_common(version, taken, &mut made, condition);
                let on = self.block("on");
                let ways = if wanted { [on, items] } else { [items, on] };
                LLVMBuildCondBr(self.builder, holds, ways[0], ways[1]);
                self.go_on(on);
            }
        }
        LLVMBuildBr(self.builder, items);
        self.go_on(items);
        for (read, place) in places {
            let value = self.load(read.ty(), place);
            version.at_hand.insert(read, value);
        }
    }

    /// Writes what counters become after a turn.
    fn count_on(
        &mut self,
        version: &mut Version<'_>,
        taken: &HashMap<usize, Value>,
        counters: &[Value],
        common: &Common,
    ) {
        let mut made = self.counted_so_far(counters, common);
        let next: Vec<Value> = common
            .counters
            .iter()
            .map(|counter| self.in_common(version, taken, &mut made, counter.next))
            .collect();
        for (place, next) in counters.iter().zip(next) {
            LLVMBuildStore(self.builder, next, *place);
        }
    }

    fn counted_so_far(&self, counters: &[Value], common: &Common) -> HashMap<Value, Value> {
        let all = common.counters.iter().zip(counters);
        all.map(|(counter, place)| (counter.phi, self.load(counter.phi.ty(), *place)))
            .collect()
    }

    /// A value that all inside a loop have in common, or the whole group.
    fn in_common(
        &mut self,
        version: &Version<'_>,
        taken: &HashMap<usize, Value>,
        made: &mut HashMap<Value, Value>,
        value: Value,
    ) -> Value {
        if value.opcode().is_none() {
            return self.constant_or_argument(value);
        }
        if let Some(made) = made.get(&value) {
            return *made;
        }
        let number = version.variables.number(Variable::Value(value));
        let result = match number.and_then(|number| taken.get(&number)) {
            Some(taken) => *taken,
            None if is_leaf(value) => {
                let none = [self.narrow(0); 3];
                self.leaf(value, &none, &none)
            }
            None => {
                let operands: Vec<Value> = value
                    .operands()
                    .map(|operand| self.in_common(version, taken, made, operand))
                    .collect();
                let copy = LLVMInstructionClone(value);
                for (index, operand) in operands.into_iter().enumerate() {
                    LLVMSetOperand(copy, index as u32, operand);
                }
                LLVMInsertIntoBuilder(self.builder, copy);
                copy
            }
        };
        made.insert(value, result);
        result
    }

    /// The place where a work-item has a variable at hand.
    pub(super) fn home(&self, version: &mut Version<'_>, variable: usize) -> Value {
        let of = version.variables.all[variable].value().ty();
        *version.homes[variable].get_or_insert_with(|| self.alloca(of, false))
    }

    /// Writes the nodes of a region for a work-item; the cuts that it may come to, none for the end
    /// of the kernel.
    pub(super) fn nodes(
        &mut self,
        version: &mut Version<'_>,
        strip: &Strip,
        item: &Item,
        key: Key,
        turn: Option<Turn>,
        assumed: Option<(Value, usize)>,
    ) -> BTreeSet<(Option<Cut>, usize)> {
        let mut blocks: BTreeMap<usize, Block> = BTreeMap::new();
        let mut exits: BTreeMap<Exit, Block> = BTreeMap::new();
        let mut open = vec![key.0];
        blocks.insert(key.0, self.block("node"));
        LLVMBuildBr(self.builder, blocks[&key.0]);
        let mut region = Vec::new();
        let stages = self.stages(version, key.0);
        while let Some(at) = open.pop() {
            region.push(at);
            self.go_on(blocks[&at]);
            let mut known = HashMap::new();
            self.instructions(version, item, at, &mut known, &stages);
            let mut node = version.graph.nodes[at].clone();
            if let Some((branch, way)) = assumed
                && node.end == End::Branch(Some(branch))
            {
                node.next = vec![node.next[way]];
                node.end = End::Branch(None);
            }
            let mut ways = Vec::new();
            for to in &node.next {
                ways.push(match version.cuts.get(&(at, *to)) {
                    Some(cut) => *exits
                        .entry(Exit {
                            cut: Some(*cut),
                            to: *to,
                            by: version.passes.get(&(at, *to)).copied(),
                        })
                        .or_insert_with(|| self.block("exit")),
                    None => *blocks.entry(*to).or_insert_with(|| {
                        open.push(*to);
                        self.block("node")
                    }),
                });
            }
            match node.end {
                End::Barrier | End::Meeting | End::Branch(None) => {
                    LLVMBuildBr(self.builder, ways[0]);
                }
                End::Branch(Some(branch)) => {
                    self.at_line_of(branch);
                    let mut condition = None;
                    if LLVMGetNumOperands(branch) > 1 {
                        let of = LLVMGetOperand(branch, 0);
                        condition = Some(self.resolved(version, item, at, &mut known, of));
                    }
                    let copy = LLVMInstructionClone(branch);
                    LLVMInsertIntoBuilder(self.builder, copy);
                    for (index, way) in ways.iter().enumerate() {
                        LLVMSetSuccessor(copy, index as u32, *way);
                    }
                    if let Some(condition) = condition {
                        LLVMSetOperand(copy, 0, condition);
                    }
                    LLVMSetMetadata(copy, metadata_kind(self.context, "llvm.loop"), Value::NULL);
                }
                End::Return => {
                    let exit = exits
                        .entry(Exit {
                            cut: None,
                            to: version.graph.nodes.len(),
                            by: None,
                        })
                        .or_insert_with(|| self.block("return"));
                    LLVMBuildBr(self.builder, *exit);
                }
                End::Unreachable => {
                    LLVMBuildUnreachable(self.builder);
                }
            }
        }
        let is_set = |version: &Version<'_>, variable: usize| {
            region
                .iter()
                .any(|at| version.variables.set_by[*at].has(variable))
        };
        let leave = self.narrow(version.graph.nodes.len() as u64 + 1);
        for (Exit { cut, to, by }, block) in &exits {
            self.go_on(*block);
            if let Some(turn) = turn {
                let again = self.narrow(u64::from(*to == turn.header));
                LLVMBuildStore(self.builder, again, turn.again);
                LLVMBuildBr(self.builder, turn.end);
                continue;
            }
            let stop = by.unwrap_or(*to);
            if let Some(masked) = version.masked.get(&stop) {
                self.keep(
                    self.narrow(u64::from(by.is_none())),
                    self.int(32),
                    masked.inside,
                    item.in_strip,
                    item,
                );
            }
            let number = self.narrow(stop as u64);
            match cut {
                Some(Cut::Inner) => {
                    LLVMBuildStore(self.builder, number, version.next_inner);
                }
                Some(Cut::Outer) => {
                    LLVMBuildStore(self.builder, leave, version.next_inner);
                    if let Some(apart) = &version.apart {
                        self.go_apart(apart, apart.order.get(&stop), item);
                    }
                    LLVMBuildStore(self.builder, number, version.next_outer);
                }
                None => {
                    LLVMBuildStore(self.builder, leave, version.next_inner);
                    if let Some(apart) = &version.apart {
                        self.go_apart(apart, None, item);
                    }
                    if let Some(through) = version.through {
                        let one = LLVMConstInt(self.int(8), 1, 0);
                        self.keep(one, self.int(8), through, item.in_group, item);
                    }
                }
            }
            self.forget(version, strip, *to, stop);
            if let Some(cut) = cut {
                let alive: Vec<usize> = version.variables.alive[*to].iter().collect();
                for variable in alive {
                    let value = version.variables.all[variable].value();
                    let is_there = key.1 == (*cut == Cut::Outer) && !is_set(version, variable);
                    if is_there {
                        continue;
                    }
                    let home = self.home(version, variable);
                    let now = self.load(value.ty(), home);
                    let (place, index) = match cut {
                        Cut::Outer => (version.outer[&variable], item.in_group),
                        Cut::Inner => (strip.inner[&variable], item.in_strip),
                    };
                    if version.differs.differs(value) {
                        self.keep(now, value.ty(), place, index, item);
                    } else {
                        LLVMBuildStore(self.builder, now, place);
                    }
                }
            }
            LLVMBuildBr(self.builder, item.latch);
        }
        let stops = exits
            .into_keys()
            .map(|exit| (exit.cut, exit.by.unwrap_or(exit.to)));
        stops.collect()
    }

    /// Leaves uniform variables that are not alive where work-items go on undefined. Were they left
    /// alone, the loop over work-items would seem to carry them from one to the next where there is
    /// another way on, on which they are set.
    pub(super) fn forget(&self, version: &Version<'_>, strip: &Strip, to: usize, stop: usize) {
        // Work-items that are through go no way that others do not.
        if version.through.is_some() {
            return;
        }
        let after = version.masked.get(&stop).map_or(to, |masked| masked.after);
        let is_alive = |variable: usize| {
            [to, stop, after].iter().any(|at| {
                let alive = version.variables.alive.get(*at);
                alive.is_some_and(|alive| alive.has(variable))
            })
        };
        let kept = [&strip.inner, &version.outer];
        let places: BTreeMap<(usize, usize), Value> = kept
            .into_iter()
            .enumerate()
            .flat_map(|(kind, places)| places.iter().map(move |(at, place)| ((*at, kind), *place)))
            .collect();
        for ((variable, _), place) in places {
            let value = version.variables.all[variable].value();
            if !is_alive(variable) && !version.differs.differs(value) {
                LLVMBuildStore(self.builder, LLVMGetUndef(value.ty()), place);
            }
        }
    }

    /// Writes a node's instructions, and what phis of the next nodes become.
    pub(super) fn instructions(
        &mut self,
        version: &mut Version<'_>,
        item: &Item,
        at: usize,
        known: &mut HashMap<Value, Value>,
        stages: &HashMap<Value, Stage>,
    ) {
        let node = version.graph.nodes[at].clone();
        for phi in &node.phis {
            if let Some(number) = version.variables.number(Variable::Phi(*phi)) {
                let value = match version.at_hand.get(phi) {
                    Some(counter) => *counter,
                    None => {
                        let home = self.home(version, number);
                        self.load(phi.ty(), home)
                    }
                };
                known.insert(*phi, value);
                self.set_home(version, *phi, value);
            }
        }
        for instruction in &node.body {
            if let Some(read) = version.at_hand.get(instruction) {
                let read = *read;
                known.insert(*instruction, read);
                self.set_home(version, *instruction, read);
                continue;
            }
            if is_leaf(*instruction) {
                let value = self.leaf_of(version, item, *instruction);
                known.insert(*instruction, value);
                continue;
            }
            if instruction.opcode() == Some(op::FENCE) && version.fenced.contains(&at) {
                continue;
            }
            self.at_line_of(*instruction);
            let callee = instruction.callee().unwrap_or_default();
            if callee.starts_with("llvm.lifetime")
                || callee.starts_with("llvm.experimental.noalias")
            {
                continue;
            }
            let is_narrow = gathers_words()
                && instruction.opcode() == Some(op::LOAD)
                && !version.one_by_one[at]
                && version.differs.is_looked_up(*instruction);
            let copy = match is_narrow {
                true => {
                    let address = LLVMGetOperand(*instruction, 0);
                    let address = self.resolved(version, item, at, known, address);
                    self.part_of_word(address, instruction.ty(), item)
                }
                false => self.copied(version, item, at, known, *instruction),
            };
            known.insert(*instruction, copy);
            if !is_narrow
                && matches!(instruction.opcode(), Some(op::LOAD | op::STORE))
                && !is_shared(*instruction)
                && !version.differs.order.holds(at)
            {
                self.independent(copy, item);
                self.set_scopes(*instruction, copy);
                if let Some(stage) = stages.get(instruction) {
                    self.set_stage(copy, *stage, item);
                }
            }
            self.set_home(version, *instruction, copy);
        }
        let mut becoming = Vec::new();
        for next in &node.next {
            for phi in version.graph.nodes[*next].phis.clone() {
                let number = version.variables.number(Variable::Phi(phi));
                if let (Some(number), Some(value)) = (number, version.graph.incoming(phi, at)) {
                    becoming.push((number, self.resolved(version, item, at, known, value)));
                }
            }
        }
        for (number, value) in becoming {
            let home = self.home(version, number);
            LLVMBuildStore(self.builder, value, home);
        }
    }

    pub(super) fn set_home(&mut self, version: &mut Version<'_>, of: Value, value: Value) {
        if let Some(number) = version.variables.number(Variable::Value(of)) {
            let home = self.home(version, number);
            LLVMBuildStore(self.builder, value, home);
        }
    }

    pub(super) fn leaf_of(&self, version: &Version<'_>, item: &Item, value: Value) -> Value {
        if value.opcode() != Some(op::ALLOCA) {
            return self.leaf(value, &item.local, &item.global);
        }
        let element = match self.side_by_side.bytes(value) {
            Some(bytes) => self.int(8 * bytes as u32),
            None => self.own_memory(value),
        };
        self.at(element, version.private[&value], item.in_group)
    }

    /// An address in memory that lies side by side, this far from another one as each work-item
    /// counts.
    fn beside(&self, from: Value, parts: impl Iterator<Item = (Option<Value>, u64)>) -> Value {
        let mut distance = self.wide(0);
        for (index, bytes) in parts {
            let part = match index {
                Some(index) => {
                    let index = LLVMBuildCast(self.builder, op::SEXT, index, self.int(64), UNNAMED);
                    self.operate(op::MUL, index, self.wide(bytes))
                }
                None => self.wide(bytes),
            };
            distance = self.operate(op::ADD, distance, part);
        }
        let distance = self.operate(op::MUL, distance, self.count);
        self.at(self.int(8), from, distance)
    }

    /// A byte, or two, as a part of the word that it lies in: processors gather words alone. A word
    /// that is aligned is there as a whole if a part of it is.
    fn part_of_word(&self, address: Value, of: Type, item: &Item) -> Value {
        let number = LLVMBuildCast(self.builder, op::PTR_TO_INT, address, self.int(64), UNNAMED);
        let within = self.operate(op::AND, number, self.wide(3));
        let back = self.operate(op::SUB, self.wide(0), within);
        let start = LLVMBuildGEP2(
            self.builder,
            self.int(8),
            address,
            &raw const back,
            1,
            UNNAMED,
        );
        let word = self.load(self.int(32), start);
        LLVMSetAlignment(word, 4);
        self.independent(word, item);
        let bits = self.operate(op::SHL, self.narrowed(within), self.narrow(3));
        let part = self.operate(op::LSHR, word, bits);
        LLVMBuildCast(self.builder, op::TRUNC, part, of, UNNAMED)
    }

    /// A copy of an instruction, with what its operands are here.
    pub(super) fn copied(
        &mut self,
        version: &mut Version<'_>,
        item: &Item,
        at: usize,
        known: &mut HashMap<Value, Value>,
        instruction: Value,
    ) -> Value {
        if let Some(way) = version.graph.selected.get(&instruction) {
            let chosen = LLVMGetOperand(instruction, 1 + *way as u32);
            return self.resolved(version, item, at, known, chosen);
        }
        let operands: Vec<Value> = instruction
            .operands()
            .map(|operand| self.resolved(version, item, at, known, operand))
            .collect();
        if is_atomic_in_local(instruction)
            && let Some(result) = self.by_one_thread(instruction, &operands)
        {
            return result;
        }
        if self.side_by_side.bytes(instruction).is_some()
            && let Some(parts) = parts_of(instruction, self.layout)
        {
            let mut indices = instruction.operands().zip(&operands).skip(1);
            let parts = parts.into_iter().map(|part| {
                let index = part.index.and_then(|index| {
                    let (_, copy) = indices.find(|(one, _)| *one == index)?;
                    Some(*copy)
                });
                (index, part.bytes)
            });
            return self.beside(operands[0], parts);
        }
        let copy = LLVMInstructionClone(instruction);
        for (index, operand) in operands.into_iter().enumerate() {
            LLVMSetOperand(copy, index as u32, operand);
        }
        LLVMInsertIntoBuilder(self.builder, copy);
        let address = match instruction.opcode() {
            Some(op::LOAD) => Some(LLVMGetOperand(instruction, 0)),
            Some(op::STORE) => Some(LLVMGetOperand(instruction, 1)),
            _ => None,
        };
        if let Some(bytes) = address.and_then(|address| self.side_by_side.bytes(address)) {
            LLVMSetAlignment(copy, bytes as u32);
        }
        if self.cyclic.contains(&instruction) && copy.ty().kind() == kind::INTEGER {
            return self.going_around(copy);
        }
        // These speak of one work-item alone.
        for name in ["alias.scope", "noalias"] {
            LLVMSetMetadata(copy, metadata_kind(self.context, name), Value::NULL);
        }
        copy
    }

    /// A number that goes around, with this not to be seen. LLVM up to 21 takes it for one that
    /// does not where it makes one access of several (llvm-project issue 156849), or makes vectors
    /// for the case alone that it does not.
    fn going_around(&mut self, copy: Value) -> Value {
        if copy.opcode() == Some(op::AND)
            && let by = LLVMGetOperand(copy, 1)
            && by.number().is_some()
        {
            let hidden = self.hidden(by);
            LLVMSetOperand(copy, 1, hidden);
            return copy;
        }
        let every_bit = self.hidden(LLVMConstInt(copy.ty(), u64::MAX, 0));
        self.operate(op::AND, copy, every_bit)
    }

    /// An atomic change of memory that only this thread has at hand, as plain accesses; none if it
    /// is one that has no such form.
    pub(super) fn by_one_thread(&self, change: Value, operands: &[Value]) -> Option<Value> {
        let place = operands[0];
        if change.opcode() == Some(op::ATOMIC_CMPXCHG) {
            let (wanted, new) = (operands[1], operands[2]);
            let old = self.load(wanted.ty(), place);
            let is_same = self.compared(compare::EQ, old, wanted);
            let then = LLVMBuildSelect(self.builder, is_same, new, old, UNNAMED);
            LLVMBuildStore(self.builder, then, place);
            let none = LLVMGetUndef(change.ty());
            let with_old = LLVMBuildInsertValue(self.builder, none, old, 0, UNNAMED);
            return Some(LLVMBuildInsertValue(
                self.builder,
                with_old,
                is_same,
                1,
                UNNAMED,
            ));
        }
        let by = operands[1];
        let operation = plain_operation(LLVMGetAtomicRMWBinOp(change))?;
        let old = self.load(by.ty(), place);
        let then = match operation {
            Plain::Exchange => by,
            Plain::Operation(operation) => self.operate(operation, old, by),
            Plain::Choice(predicate) => {
                let stays = self.compared(predicate, old, by);
                LLVMBuildSelect(self.builder, stays, old, by, UNNAMED)
            }
        };
        LLVMBuildStore(self.builder, then, place);
        Some(old)
    }

    /// A value of the kernel in a node.
    pub(super) fn resolved(
        &mut self,
        version: &mut Version<'_>,
        item: &Item,
        at: usize,
        known: &mut HashMap<Value, Value>,
        value: Value,
    ) -> Value {
        if value.opcode().is_none() {
            return self.constant_or_argument(value);
        }
        if let Some(known) = known.get(&value) {
            return *known;
        }
        let made = if is_leaf(value) {
            self.leaf_of(version, item, value)
        } else if version.variables.was_made_again(value) {
            self.copied(version, item, at, known, value)
        } else {
            match version.variables.number(Variable::Value(value)) {
                Some(number) => {
                    let home = self.home(version, number);
                    self.load(value.ty(), home)
                }
                None => LLVMGetUndef(value.ty()),
            }
        };
        known.insert(value, made);
        made
    }
}

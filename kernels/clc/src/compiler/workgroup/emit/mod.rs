//! Writes the function of work-groups: loops over groups and work-items, around copies of the
//! kernel's instructions.
//!
//! Its arguments, in order: the arguments (see [`place_of_arguments`]), the launch (30 numbers of
//! 64 bits: global size, offset, local size and number of groups along x, y and z, then the
//! dimensions, the address where memory that is kept ends, the enqueued local size from the 17th
//! on, and as the 29th whether no two arguments share memory), local memory, memory that is kept
//! across barriers, and the first group and the one after the last, in order of x, y, z.
//!
//! A wide launch is run in parts, whose numbers have few bits. For it the numbers of groups are
//! those of the part, and the offset is nothing. The part's first work-item is from the 14th number
//! on; from the 20th on are its first group, the launch's groups, and the launch's offset.
//!
//! The groups of a call have one size. Those at the ends of a launch may have fewer work-items than
//! was enqueued: code for any size runs them.
//!
//! Within a version of the kernel, each work-item has a *home* for each variable: an alloca, of
//! which the optimiser makes registers. Where a region begins, homes are filled from where the
//! variables were kept; where it ends, they are kept.

mod apart;
mod disjoint;
mod hidden;
mod loops;
mod nodes;
mod notes;
mod strips;

use self::apart::Apart;
pub(super) use self::apart::are_apart;
use self::disjoint::Disjoint;
use self::loops::Counted;
use super::access::{Registers, cyclic, goes_along_rows, true_divisions, widest_vectors};
use super::common::Common;
use super::graph::{End, Graph, Loop};
use super::notes::Notes;
use super::private::SideBySide;
use super::uniform::{Alone, Divergence};
use super::variables::{Variables, is_leaf};
use super::{ALIGNMENT, ENTRY, own_bytes};
use crate::compiler::llvm::*;
use crate::compiler::{Fault, program};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Bytes from the start of the arguments to that of each: each begins at a multiple of 16, or of
/// its own alignment.
pub(crate) fn place_of_arguments(sizes: impl IntoIterator<Item = (u64, u64)>) -> (Vec<u64>, u64) {
    let mut end = 0_u64;
    let places = sizes
        .into_iter()
        .map(|(size, align)| {
            let place = end.next_multiple_of(align.max(16));
            end = place + size;
            place
        })
        .collect();
    (places, end.next_multiple_of(ALIGNMENT))
}

/// The numbers of a launch.
pub(crate) const NUMBERS: usize = 30;

/// The most work-items of a strip.
const MOST_IN_STRIP: u64 = 64;

/// An edge where all work-items of a group stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    /// Those of a strip.
    Inner,
    /// All of them.
    Outer,
}

/// The state of the function that is being made.
pub(super) struct Emitter {
    context: Context,
    kernel: Value,
    layout: DataLayout,
    builder: Builder,
    function: Value,
    /// The block of allocas.
    allocas: Block,
    local_size: Option<[u32; 3]>,
    registers: Registers,
    arguments: Vec<Value>,
    info: Vec<Value>,
    local: Value,
    spill: Value,
    /// Work-items of a group along each axis, and in all.
    sizes: [Value; 3],
    count: Value,
    /// The group, and the global number of its first work-item.
    group: [Value; 3],
    base: [Value; 3],
    current: Option<(Value, Value)>,
    /// Operations of addresses that go around, and constants that the optimiser does not see in
    /// them.
    cyclic: HashSet<Value>,
    hidden: HashMap<Value, Value>,
    /// Numbers that are nothing, by stages of accesses, and arguments with `restrict`.
    nothings: Vec<Value>,
    restricted: HashSet<Value>,
    /// The memory of arguments, as it is for the launches of the version that is written.
    disjoint: Disjoint,
    /// Memory of each work-item's own that lies side by side.
    side_by_side: SideBySide,
    /// The memory through which collective functions exchange values: 8 bytes for each work-item,
    /// and a result of so many.
    slots: Value,
    result: Value,
    /// The memory through which sub-groups exchange values: two results for each work-item, and the
    /// places of those that may be apart.
    results: Value,
    states: Value,
    /// The bytes that a version keeps for each work-item and group, and the most of any version.
    per_item: u64,
    fixed: u64,
    most: (u64, u64),
    /// Notes for the kernel's user, if somebody asks.
    pub(super) notes: Option<Notes>,
}

/// A version of the kernel, as it is written.
struct Version<'a> {
    graph: &'a Graph,
    differs: Divergence,
    variables: Variables,
    cuts: BTreeMap<(usize, usize), Cut>,
    /// Headers of loops that work-items leave at different times, and where they go on.
    masked: BTreeMap<usize, Masked>,
    /// The values that those inside have in common, by the same headers, and the part of them that
    /// they have at hand.
    common: BTreeMap<usize, Rc<Common>>,
    at_hand: HashMap<Value, Value>,
    /// Ways by such loops, with their headers: work-items wait there for those that go round.
    passes: BTreeMap<(usize, usize), usize>,
    /// Nodes that begin with fences which a strip makes once.
    fenced: HashSet<usize>,
    homes: Vec<Option<Value>>,
    /// Nodes of loops that one work-item goes round after the other.
    one_by_one: Vec<bool>,
    /// See [`Graph::order`].
    order: Vec<usize>,
    /// The memory of variables across outer cuts: an array of all work-items, or, of uniform ones,
    /// a place.
    outer: HashMap<usize, Value>,
    /// Memory of each work-item's own.
    private: HashMap<Value, Value>,
    /// A byte for each work-item that is through while others are not, if there may be any.
    through: Option<Value>,
    /// The place of each work-item, if they do not all meet at the same places.
    apart: Option<Apart>,
    next_outer: Value,
    next_inner: Value,
}

/// Some work-items of a strip, and the branch of which it is known which way they go.
#[derive(Clone, Copy)]
struct Part {
    /// The number of work-items before them.
    first: Option<Value>,
    length: Value,
    assumed: Option<(Value, usize)>,
}

/// A branch at which the first work-items of a strip go one way, and the others the other.
struct Split {
    branch: Value,
    /// The way of the first ones, and their number.
    way: usize,
    below: Value,
}

/// A loop that work-items of a strip leave at different times: they go round together until all
/// have left, and those that have do nothing more.
#[derive(Clone, Copy)]
struct Masked {
    /// The node where they go on.
    after: usize,
    /// For each work-item of a strip, 1 if it is in the loop still, and else 0.
    inside: Value,
}

/// The end of a turn of such a loop.
#[derive(Clone, Copy)]
struct Turn {
    header: usize,
    /// True if the work-item goes round again.
    again: Value,
    end: Block,
}

/// An edge where work-items leave a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Exit {
    /// None where they are through.
    cut: Option<Cut>,
    to: usize,
    /// The header of the loop that they go by, at which they wait.
    by: Option<usize>,
}

/// A region that is written: where it begins, and whether work-items come there from an outer cut.
type Key = (usize, bool);

/// The strip that is written.
struct Strip {
    /// The number along x of its first work-item.
    first: Value,
    /// Its work-items.
    length: Value,
    y: Value,
    z: Value,
    /// Variables that cross inner cuts.
    inner: HashMap<usize, Value>,
    /// Uniform variables as they were where the outer region began.
    taken: HashMap<usize, Value>,
    blocks: BTreeMap<Key, Block>,
    done: Block,
}

/// The work-item that is written.
struct Item {
    local: [Value; 3],
    global: [Value; 3],
    /// Its number in its strip, and in its group.
    in_strip: Value,
    in_group: Value,
    /// The loop's accesses, which do not depend on those of other work-items.
    accesses: Value,
    latch: Block,
}

impl Emitter {
    /// Makes the function, of which nothing is written.
    pub(super) fn new(
        context: Context,
        module: Module,
        kernel: Value,
        layout: DataLayout,
        local_size: Option<[u32; 3]>,
    ) -> Result<Self, Fault> {
        let pointer = LLVMPointerTypeInContext(context, 0);
        let local = LLVMPointerTypeInContext(context, 3);
        let wide = LLVMIntTypeInContext(context, 64);
        let types = [pointer, pointer, local, pointer, wide, wide];
        let of = LLVMFunctionType(
            LLVMVoidTypeInContext(context),
            types.as_ptr(),
            types.len() as u32,
            0,
        );
        let function = LLVMAddFunction(module, text(ENTRY).as_ptr(), of);
        let attribute = |name: &str| LLVMCreateEnumAttribute(context, attribute_kind(name), 0);
        LLVMAddAttributeAtIndex(function, u32::MAX, attribute("nounwind"));
        LLVMAddAttributeAtIndex(function, u32::MAX, widest_vectors(context));
        LLVMAddAttributeAtIndex(function, u32::MAX, true_divisions(context));
        for index in [1, 2, 4] {
            LLVMAddAttributeAtIndex(function, index, attribute("noalias"));
        }
        let zero = LLVMConstInt(LLVMIntTypeInContext(context, 32), 0, 0);
        let allocas = LLVMAppendBasicBlockInContext(context, function, c"allocas".as_ptr());
        Ok(Self {
            context,
            kernel,
            layout,
            builder: LLVMCreateBuilderInContext(context),
            function,
            allocas,
            local_size,
            registers: Registers::of_host(),
            arguments: Vec::new(),
            info: Vec::new(),
            local: LLVMGetParam(function, 2),
            spill: LLVMGetParam(function, 3),
            sizes: [zero; 3],
            count: zero,
            group: [zero; 3],
            base: [zero; 3],
            current: None,
            cyclic: cyclic(kernel),
            hidden: HashMap::new(),
            nothings: Vec::new(),
            restricted: program::restricted(kernel),
            disjoint: Disjoint::default(),
            side_by_side: SideBySide::of(kernel, layout),
            slots: Value::NULL,
            result: Value::NULL,
            results: Value::NULL,
            states: Value::NULL,
            per_item: 0,
            fixed: 0,
            most: (0, 0),
            notes: None,
        })
    }

    fn int(&self, bits: u32) -> Type {
        LLVMIntTypeInContext(self.context, bits)
    }

    fn narrow(&self, number: u64) -> Value {
        LLVMConstInt(self.int(32), number, 0)
    }

    fn wide(&self, number: u64) -> Value {
        LLVMConstInt(self.int(64), number, 0)
    }

    fn block(&self, name: &str) -> Block {
        LLVMAppendBasicBlockInContext(self.context, self.function, text(name).as_ptr())
    }

    /// Goes on at the end of a block.
    pub(super) fn go_on(&self, block: Block) {
        LLVMPositionBuilderAtEnd(self.builder, block);
    }

    fn here(&self) -> Block {
        LLVMGetInsertBlock(self.builder)
    }

    fn operate(&self, operation: i32, left: Value, right: Value) -> Value {
        LLVMBuildBinOp(self.builder, operation, left, right, UNNAMED)
    }

    /// A sum that does not overflow, as a signed and as an unsigned one.
    fn sum(&self, left: Value, right: Value) -> Value {
        let sum = self.operate(op::ADD, left, right);
        if sum.opcode() == Some(op::ADD) {
            LLVMSetNUW(sum, 1);
            LLVMSetNSW(sum, 1);
        }
        sum
    }

    fn narrowed(&self, number: Value) -> Value {
        LLVMBuildCast(self.builder, op::TRUNC, number, self.int(32), UNNAMED)
    }

    fn extended(&self, number: Value) -> Value {
        LLVMBuildCast(self.builder, op::ZEXT, number, self.int(64), UNNAMED)
    }

    pub(super) fn compared(&self, predicate: i32, left: Value, right: Value) -> Value {
        LLVMBuildICmp(self.builder, predicate, left, right, UNNAMED)
    }

    /// The opposite of a condition.
    pub(super) fn inverted(&self, condition: Value) -> Value {
        self.operate(op::XOR, condition, self.truth())
    }

    /// The constant that is true.
    pub(super) fn truth(&self) -> Value {
        LLVMConstInt(self.int(1), 1, 0)
    }

    /// Both of two conditions.
    pub(super) fn both(&self, one: Value, other: Value) -> Value {
        self.operate(op::AND, one, other)
    }

    fn alloca(&self, of: Type, aligned: bool) -> Value {
        let here = self.here();
        self.go_on(self.allocas);
        let alloca = LLVMBuildAlloca(self.builder, of, UNNAMED);
        if aligned {
            LLVMSetAlignment(alloca, ALIGNMENT as u32);
        }
        self.go_on(here);
        alloca
    }

    fn load(&self, of: Type, from: Value) -> Value {
        LLVMBuildLoad2(self.builder, of, from, UNNAMED)
    }

    fn at(&self, of: Type, pointer: Value, index: Value) -> Value {
        LLVMBuildInBoundsGEP2(self.builder, of, pointer, &raw const index, 1, UNNAMED)
    }

    /// Writes the code before the first version: arguments, and the loop over groups. Gives the
    /// block that the versions go to.
    pub(super) fn begin(&mut self) -> Block {
        let start = self.block("start");
        self.go_on(start);
        let sizes = parameters(self.kernel)
            .into_iter()
            .enumerate()
            .map(|(index, parameter)| {
                let of = program::by_value(self.kernel, index).unwrap_or(parameter.ty());
                let size = LLVMABISizeOfType(self.layout, of);
                (size, u64::from(LLVMABIAlignmentOfType(self.layout, of)))
            });
        let (places, _) = place_of_arguments(sizes);
        let given = LLVMGetParam(self.function, 0);
        for (index, parameter) in parameters(self.kernel).into_iter().enumerate() {
            let place = self.at(self.int(8), given, self.wide(places[index]));
            let value = match program::by_value(self.kernel, index) {
                Some(_) => place,
                None => self.load(parameter.ty(), place),
            };
            self.arguments.push(value);
        }
        let info = LLVMGetParam(self.function, 1);
        for index in 0..NUMBERS {
            let value = match self.local_size {
                Some(size) if (6..9).contains(&index) => self.wide(u64::from(size[index - 6])),
                Some(size) if (17..20).contains(&index) => self.wide(u64::from(size[index - 17])),
                _ => {
                    let place = self.at(self.int(64), info, self.wide(index as u64));
                    self.load(self.int(64), place)
                }
            };
            self.info.push(value);
        }
        self.sizes = std::array::from_fn(|axis| self.narrowed(self.info[6 + axis]));
        self.count = self.operate(op::MUL, self.info[6], self.info[7]);
        self.count = self.operate(op::MUL, self.count, self.info[8]);

        let (head, body, after, end) = (
            self.block("groups"),
            self.block("group"),
            self.block("through"),
            self.block("end"),
        );
        LLVMBuildBr(self.builder, head);
        self.go_on(head);
        let current = LLVMBuildPhi(self.builder, self.int(64), UNNAMED);
        let more = self.compared(compare::ULT, current, LLVMGetParam(self.function, 5));
        LLVMBuildCondBr(self.builder, more, body, end);
        self.go_on(after);
        let next = self.sum(current, self.wide(1));
        LLVMBuildBr(self.builder, head);
        for (value, from) in [(LLVMGetParam(self.function, 4), start), (next, after)] {
            LLVMAddIncoming(current, &raw const value, &raw const from, 1);
        }
        self.go_on(end);
        LLVMBuildRetVoid(self.builder);
        self.go_on(body);
        let mut rest = current;
        for axis in 0..3 {
            let (at, groups) = match axis {
                2 => (rest, rest),
                _ => (
                    self.operate(op::UREM, rest, self.info[9 + axis]),
                    self.operate(op::UDIV, rest, self.info[9 + axis]),
                ),
            };
            rest = groups;
            self.group[axis] = self.narrowed(at);
            let first = self.operate(op::MUL, at, self.info[17 + axis]);
            self.base[axis] = self.narrowed(self.operate(op::ADD, first, self.info[3 + axis]));
        }
        after
    }

    /// Ends the function; bytes that are kept for each work-item, and for the group.
    pub(super) fn end(&mut self, _after: Block) -> (u64, u64) {
        let start = LLVMGetNextBasicBlock(self.allocas);
        self.go_on(self.allocas);
        LLVMBuildBr(self.builder, start);
        self.most
    }

    /// Goes on in one of two blocks, by a condition.
    pub(super) fn fork(&mut self, condition: impl FnOnce(&mut Self) -> Value) -> [Block; 2] {
        let condition = condition(self);
        let ways = [self.block("within"), self.block("other")];
        LLVMBuildCondBr(self.builder, condition, ways[0], ways[1]);
        ways
    }

    /// The value of an instruction without effect for the first work-item of the group, or for the
    /// last.
    pub(super) fn at_corner(&mut self, value: Value, last: bool) -> Value {
        if value.opcode().is_none() {
            return self.constant_or_argument(value);
        }
        if is_leaf(value) {
            let local: [Value; 3] = std::array::from_fn(|axis| match last {
                true => self.operate(op::SUB, self.sizes[axis], self.narrow(1)),
                false => self.narrow(0),
            });
            let global = std::array::from_fn(|axis| self.sum(self.base[axis], local[axis]));
            return self.leaf(value, &local, &global);
        }
        let copy = LLVMInstructionClone(value);
        for (index, operand) in value.operands().enumerate() {
            let operand = self.at_corner(operand, last);
            LLVMSetOperand(copy, index as u32, operand);
        }
        LLVMInsertIntoBuilder(self.builder, copy);
        copy
    }

    /// A value that is no instruction, as the function has it.
    fn constant_or_argument(&self, value: Value) -> Value {
        if LLVMIsAArgument(value).some().is_none() {
            return value;
        }
        let at = parameters(self.kernel).iter().position(|it| *it == value);
        at.map_or(value, |at| self.arguments[at])
    }

    /// The result of a function that every work-item has at hand.
    fn leaf(&self, call: Value, local: &[Value; 3], global: &[Value; 3]) -> Value {
        let name = call.callee().unwrap_or_default();
        let axis = match name.bytes().last() {
            Some(b'1') => 1,
            Some(b'2') => 2,
            _ => 0,
        };
        match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "__q_lid" => local[axis],
            "__q_gid" => global[axis],
            "__q_group" => self.group[axis],
            "__q_local" | "__q_place_of_local" => self.local,
            "__q_place_of_kept" => self.spill,
            "__q_slots" => self.slots,
            "__q_result" => self.result,
            "__q_results" => self.results,
            "__q_states" => self.states,
            _ => {
                let index = LLVMGetOperand(call, 0).number().unwrap_or(0) as usize;
                self.info[index.min(NUMBERS - 1)]
            }
        }
    }

    /// The type of a work-item's own memory for an `alloca`: its type, or bytes where those of that
    /// type do not suffice.
    pub(super) fn own_memory(&self, alloca: Value) -> Type {
        let of = LLVMGetAllocatedType(alloca);
        match own_bytes(alloca, self.layout) {
            bytes if bytes == LLVMABISizeOfType(self.layout, of) => of,
            bytes => LLVMArrayType2(self.int(8), bytes),
        }
    }

    /// A place in the memory that is kept, of so many bytes for each work-item.
    fn kept_array(&mut self, of: Type) -> Value {
        let bytes = LLVMABISizeOfType(self.layout, of);
        let items = self.operate(op::MUL, self.count, self.wide(bytes));
        // Each array begins at a whole line.
        let rounded = self.operate(op::ADD, items, self.wide(ALIGNMENT - 1));
        let rounded = self.operate(op::AND, rounded, self.wide(!(ALIGNMENT - 1)));
        let (pointer, offset) = self.current.unwrap_or((self.spill, self.wide(0)));
        let place = self.at(self.int(8), pointer, offset);
        let end = self.operate(op::ADD, offset, rounded);
        self.current = Some((pointer, end));
        self.per_item += bytes;
        self.fixed += ALIGNMENT;
        place
    }

    /// The type of a value in memory.
    fn memory_type(&self, of: Type) -> Type {
        if of.is_integer(1) { self.int(8) } else { of }
    }

    fn keep(&self, value: Value, of: Type, array: Value, index: Value, item: &Item) {
        let memory = self.memory_type(of);
        let value = match of.is_integer(1) {
            true => LLVMBuildCast(self.builder, op::ZEXT, value, memory, UNNAMED),
            false => value,
        };
        let store = LLVMBuildStore(self.builder, value, self.at(memory, array, index));
        self.independent(store, item);
    }

    fn kept(&self, of: Type, array: Value, index: Value, item: &Item) -> Value {
        let memory = self.memory_type(of);
        let load = self.load(memory, self.at(memory, array, index));
        self.independent(load, item);
        match of.is_integer(1) {
            true => LLVMBuildCast(self.builder, op::TRUNC, load, of, UNNAMED),
            false => load,
        }
    }

    /// Says of an access that other work-items' do not depend on it.
    fn independent(&self, access: Value, item: &Item) {
        let kind = metadata_kind(self.context, "llvm.access.group");
        LLVMSetMetadata(access, kind, item.accesses);
    }

    /// Writes a version of the kernel, which goes on at `after` when the group is through.
    fn version(&mut self, graph: &Graph, after: Block) -> Result<(), Fault> {
        self.current = None;
        (self.per_item, self.fixed) = (0, 0);
        let loops = graph.loops();
        let mut differs = Divergence::of(graph, &loops);
        let are_apart = apart::are_apart(graph, &differs);
        let is_innermost = |of: &&Loop| {
            let mut others = loops.iter().filter(|other| other.header != of.header);
            !others.any(|other| of.nodes[other.header])
        };
        let along = loops.iter().filter(is_innermost).filter(|of| {
            differs.goes_together(graph, of) && goes_along_rows(graph, of, &differs, self.layout)
        });
        let rows: BTreeSet<usize> = along.map(|of| of.header).collect();
        let mut cuts = match are_apart {
            true => apart::cuts(graph),
            false => cuts(graph, &loops, &differs, &rows),
        };
        if are_apart {
            differs = Divergence::apart(graph, &loops);
        }
        let mut fenced = HashSet::new();
        if !are_apart {
            for (from, to) in differs.fences(graph) {
                cuts.entry((from, to)).or_insert(Cut::Inner);
                fenced.insert(to);
            }
        }
        let mut masked = BTreeMap::new();
        let mut passes = BTreeMap::new();
        let mut commons = BTreeMap::new();
        let mut alone = BTreeMap::new();
        let variables = Variables::of(graph, &loops, &differs);
        let together = loops.iter().filter(|_| !are_apart);
        for of in together.map(|of| of.with_ways_out(graph)) {
            let of = &of;
            if differs.order.holds(of.header) {
                alone.insert(of.header, Alone::Waits);
                continue;
            }
            if rows.contains(&of.header) {
                alone.insert(of.header, Alone::Rows);
                continue;
            }
            let common = Common::of(graph, of, &differs, &variables);
            let meeting = differs.meeting_after(graph, &loops, of, &common, &self.side_by_side);
            let after = match meeting {
                Ok(after) => after,
                Err(why) => {
                    alone.insert(of.header, why);
                    continue;
                }
            };
            let ways_by = differs.ways_by(graph, of, after);
            let froms = ways_by.iter().map(|(from, _)| *from).chain([of.header]);
            if !differs.order.may_stop(froms, [of.header, after]) {
                alone.insert(of.header, Alone::Waits);
                continue;
            }
            let is_cut = cuts.keys().any(|(from, to)| {
                *to == of.header
                    || of.nodes[*from] && of.nodes[*to]
                    || *to == after && (of.nodes[*from] || ways_by.contains(&(*from, *to)))
            });
            if is_cut {
                alone.insert(of.header, Alone::Stops);
                continue;
            }
            for from in &graph.before[of.header] {
                cuts.entry((*from, of.header)).or_insert(Cut::Inner);
            }
            for from in graph.before[after].iter().filter(|from| of.nodes[**from]) {
                cuts.entry((*from, after)).or_insert(Cut::Inner);
            }
            for way in ways_by {
                cuts.entry(way).or_insert(Cut::Inner);
                passes.insert(way, of.header);
            }
            let flags = LLVMArrayType2(self.int(32), MOST_IN_STRIP);
            let inside = self.alloca(flags, true);
            masked.insert(of.header, Masked { after, inside });
            commons.insert(of.header, Rc::new(common));
        }
        if !are_apart {
            for edge in differs.order.frontiers(graph, &loops, &differs) {
                cuts.entry(edge).or_insert(Cut::Inner);
            }
        }
        let mut one_by_one = vec![false; graph.nodes.len()];
        for of in &loops {
            if !cuts.keys().any(|(_, to)| *to == of.header) {
                let nodes = one_by_one.iter_mut().zip(&of.nodes);
                nodes.for_each(|(one, within)| *one |= within);
            }
        }
        let number = self.int(32);
        let mut version = Version {
            one_by_one,
            order: graph.order(),
            homes: vec![None; variables.all.len()],
            outer: HashMap::new(),
            private: HashMap::new(),
            through: None,
            apart: None,
            next_outer: self.alloca(number, false),
            next_inner: self.alloca(number, false),
            graph,
            differs,
            variables,
            cuts,
            masked,
            common: commons,
            at_hand: HashMap::new(),
            passes,
            fenced,
        };
        let reached = graph.reached();
        let targets: BTreeSet<usize> = version
            .cuts
            .iter()
            .filter(|(_, cut)| **cut == Cut::Outer)
            .map(|((_, to), _)| *to)
            .collect();
        for target in &targets {
            for variable in version.variables.alive[*target].iter() {
                if !version.outer.contains_key(&variable) {
                    let place = self.place(&version, variable, None);
                    version.outer.insert(variable, place);
                }
            }
        }
        for (at, node) in graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| reached[*at])
        {
            let _ = at;
            for alloca in node
                .body
                .iter()
                .filter(|it| it.opcode() == Some(op::ALLOCA))
            {
                let place = self.kept_array(self.own_memory(*alloca));
                version.private.insert(*alloca, place);
            }
        }
        let calls = |name: &str| {
            let mut all = graph.nodes.iter().flat_map(|node| &node.body);
            all.any(|one| one.callee().as_deref() == Some(name))
        };
        if calls("__q_slots") {
            self.slots = self.kept_array(self.int(64));
        }
        if calls("__q_result") {
            self.result = self.alloca(self.int(64), false);
        }
        if calls("__q_results") {
            self.results = self.kept_array(LLVMArrayType2(self.int(64), 2));
        }
        if are_apart || calls("__q_states") {
            self.states = self.kept_array(number);
            self.clear(self.states, number);
        }
        // At a barrier that is not known to be come to by all, some may be through already.
        let is_parted = |at: &usize| {
            reached[*at] && graph.nodes[*at].end == End::Barrier && version.differs.nodes[*at]
        };
        if are_apart {
            let places = self.kept_array(number);
            self.clear(places, number);
            version.apart = Some(Apart::new(graph, &targets, places));
        } else if (0..graph.nodes.len()).any(|at| is_parted(&at)) {
            let through = self.kept_array(self.int(8));
            self.clear(through, self.int(8));
            version.through = Some(through);
        }

        alone.retain(|header, _| version.one_by_one[*header]);
        self.note(&version, &loops, &alone);
        let dispatch = self.block("dispatch");
        let starts: BTreeMap<usize, Block> = std::iter::once(0)
            .chain(targets.iter().copied())
            .map(|target| (target, self.block("region")))
            .collect();
        let first = if are_apart { dispatch } else { starts[&0] };
        LLVMBuildBr(self.builder, first);
        for (target, start) in &starts {
            self.go_on(*start);
            self.outer_region(&mut version, *target)?;
            LLVMBuildBr(self.builder, dispatch);
        }
        self.go_on(dispatch);
        if let Some(apart) = &version.apart {
            self.next_of_those_apart(apart, &starts, after);
        } else {
            let next = self.load(number, version.next_outer);
            let switch = LLVMBuildSwitch(self.builder, next, after, targets.len() as u32);
            for target in &targets {
                LLVMAddCase(switch, self.narrow(*target as u64), starts[target]);
            }
        }
        self.most = (self.most.0.max(self.per_item), self.most.1.max(self.fixed));
        Ok(())
    }

    /// Sets a number of each work-item to zero.
    fn clear(&self, numbers: Value, of: Type) {
        let each = self.count(self.narrowed(self.count), 1);
        let place = self.at(of, numbers, self.extended(each.number));
        LLVMBuildStore(self.builder, LLVMConstInt(of, 0, 0), place);
        self.counted(&each, None);
    }

    /// The memory of a variable: of a strip of so many work-items, or of the group.
    fn place(&mut self, version: &Version<'_>, variable: usize, strip: Option<u64>) -> Value {
        let value = version.variables.all[variable].value();
        let memory = self.memory_type(value.ty());
        match strip {
            _ if !version.differs.differs(value) => self.alloca(value.ty(), false),
            Some(length) => self.alloca(LLVMArrayType2(memory, length), true),
            None => self.kept_array(memory),
        }
    }
}

/// True if a value is the work-item's number within its group, along x.
fn is_number_along_x(value: Value) -> bool {
    match value.opcode() {
        Some(op::ZEXT | op::SEXT) => is_number_along_x(LLVMGetOperand(value, 0)),
        _ => value.callee().as_deref() == Some("__q_lid0"),
    }
}

/// The edges where all work-items of a group, or of a strip, stop.
fn cuts(
    graph: &Graph,
    loops: &[Loop],
    differs: &Divergence,
    rows: &BTreeSet<usize>,
) -> BTreeMap<(usize, usize), Cut> {
    let mut cuts = BTreeMap::new();
    let is_barrier = |at: &usize| graph.stops(*at);
    let reached = graph.reached();
    for at in (0..graph.nodes.len()).filter(|at| reached[*at]) {
        if is_barrier(&at) {
            cuts.insert((at, graph.nodes[at].next[0]), Cut::Outer);
        }
    }
    for of in loops {
        if !differs.goes_together(graph, of) {
            continue;
        }
        let has_barrier = (0..graph.nodes.len()).any(|at| of.nodes[at] && is_barrier(&at));
        if !has_barrier && (differs.order.holds(of.header) || rows.contains(&of.header)) {
            continue;
        }
        let cut = if has_barrier { Cut::Outer } else { Cut::Inner };
        let mut add = |from: usize, to: usize| {
            let known: &mut Cut = cuts.entry((from, to)).or_insert(cut);
            *known = (*known).max(cut);
        };
        for from in &graph.before[of.header] {
            add(*from, of.header);
        }
        for at in (0..graph.nodes.len()).filter(|at| of.nodes[*at]) {
            for to in graph.nodes[at].next.iter().filter(|to| !of.nodes[**to]) {
                add(at, *to);
            }
        }
    }
    cuts
}

/// The regions between inner cuts that work-items come to from an outer one before they come to
/// another.
fn inner_regions(version: &Version<'_>, target: usize) -> Vec<Key> {
    let mut keys = vec![(target, true)];
    let mut at = 0;
    while let Some((start, _)) = keys.get(at).copied() {
        at += 1;
        let mut seen = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            for to in &version.graph.nodes[node].next {
                match version.cuts.get(&(node, *to)) {
                    None if seen.insert(*to) => open.push(*to),
                    Some(Cut::Inner) if !keys.contains(&(*to, false)) => keys.push((*to, false)),
                    _ => {}
                }
            }
        }
    }
    keys
}

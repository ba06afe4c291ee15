//! CUDA graphs that stand for recorded graphs and for batches of commands.
//!
//! * The graph for a recorded graph is made at the first launch, when its code is compiled and its
//!   memory allocated. It is made anew when memory that its nodes name has moved.
//! * The graph for a batch is made while the batch's commands are held back, and launched once.

use crate::Cuda;
use crate::device::{Device, Live};
use crate::forward::MOST_PITCH;
use crate::mark::Mark;
use crate::native::{CallError, Called, Context, named, version};
use crate::program::{Compiled, FaultRead, Launch, Values};
use crate::transfer::region;
use cudarc::driver::sys::{
    self, CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphExec, CUgraphNode, CUmemorytype,
};
use quipu_device_queue::batch::{self, Plan, Planned};
use quipu_device_queue::graph::TakenGraph;
use quipu_device_queue::launch::Code;
use quipu_device_queue::region::{Part, Shape};
use quipu_device_queue::{Obstacle, Vendor};
use quipu_scheduler::access::{Argument, PackedAccess};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::memory::Memory;
use quipu_scheduler::operation::{Endpoint, Fill, Operation};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Command, CommandView, Error, Graph, SpaceId};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The CUDA that has all functions that are called here, where devices are content with
/// [less](crate::device): 12.0.
const OLDEST: c_int = 12_000;
/// The most nodes that a fill is made of.
const MOST_FILLS: u64 = 4;

/// The object that is kept with a recorded graph.
pub(crate) struct Recorded {
    /// The device's memory.
    space: SpaceId,
    /// An argument for each memory object that its commands use.
    memories: Vec<PackedAccess>,
    /// The graph of CUDA's, and the addresses of the memories that it was made for.
    made: Mutex<Option<(Arc<Executable>, Vec<CUdeviceptr>)>>,
    /// See [`Recorded::may_fail`]; known once it is made.
    may_fail: AtomicBool,
}

impl Recorded {
    /// The object to keep with a graph of commands of this device, if all of them can be nodes.
    pub(crate) fn take(device: &Device, graph: &Graph) -> Option<Self> {
        if version().ok()? < OLDEST {
            return None;
        }
        let (mut space, mut is_whole) = (None, true);
        let mut memories: HashMap<*const Memory, usize> = HashMap::new();
        let mut arguments = Vec::new();
        graph.for_each_command(|command, _| {
            if command.needs_no_device() || !is_whole {
                return;
            }
            is_whole = can_be_nodes(command);
            space = command.queue().device().map(|device| device.space());
            for argument in command.arguments() {
                memories
                    .entry(std::ptr::from_ref(argument.memory()))
                    .or_insert_with(|| {
                        arguments.push(**argument);
                        arguments.len() - 1
                    });
            }
        });
        quietly(|| {
            tracing::debug!(
                device = device.number,
                commands = graph.len(),
                is_whole,
                "a recorded graph"
            );
        });
        Some(Self {
            space: space.filter(|_| is_whole)?,
            memories: arguments,
            made: Mutex::new(None),
            may_fail: AtomicBool::new(true),
        })
    }

    /// The object that is kept with a graph.
    ///
    /// # Errors
    /// If it was not taken.
    pub(crate) fn of(graph: &Graph) -> Result<&Self> {
        let taken = TakenGraph::<Compiled>::of(graph);
        taken.and_then(TakenGraph::made).ok_or_else(not_taken)
    }

    /// True if a kernel of the graph can say that it has failed, or that is not known yet.
    pub(crate) fn may_fail(graph: &Graph) -> bool {
        let recorded = Self::of(graph);
        recorded.is_ok_and(|recorded| recorded.may_fail.load(Ordering::Relaxed))
    }

    fn made(&self) -> MutexGuard<'_, Option<(Arc<Executable>, Vec<CUdeviceptr>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory space of its device.
    pub(crate) fn space(&self) -> SpaceId {
        self.space
    }

    /// An argument for each memory object that its commands use.
    pub(crate) fn memories<'g>(&self, graph: &'g Graph) -> Vec<Argument<'g>> {
        let is_its = Self::of(graph).is_ok_and(|own| std::ptr::eq(own, self));
        let memories = self.memories.iter().filter(|_| is_its);
        // SAFETY: arguments of the graph's commands (`take`), and the graph lives.
        memories
            .map(|access| unsafe { access.of_live_command() })
            .collect()
    }

    /// CUDA's graph over memory that begins at these addresses, in the order of
    /// [`Recorded::memories`].
    ///
    /// # Errors
    /// If it has to be made, and cannot be.
    pub(crate) fn executable(
        &self,
        vendor: &Cuda,
        graph: &Graph,
        addresses: &[CUdeviceptr],
    ) -> std::result::Result<Arc<Executable>, Obstacle<CallError>> {
        let mut made = self.made();
        if let Some((known, _)) = made.as_ref().filter(|(_, of)| of == addresses) {
            return Ok(known.clone());
        }
        // Its fault records are used again.
        *made = None;
        let taken = TakenGraph::<Compiled>::of(graph).ok_or_else(not_taken)?;
        let device = vendor.devices().get(taken.device());
        let device = device.ok_or_else(not_taken)?;
        let memories = self.memories(graph).into_iter();
        let pointers = memories.map(|it| std::ptr::from_ref(it.memory()));
        let starts: HashMap<*const Memory, CUdeviceptr> =
            pointers.zip(addresses.iter().copied()).collect();
        let mut builder = Builder::new(device)?;
        let (mut codes, mut outcome) = (taken.codes().iter(), Ok(()));
        graph.for_each_command(|command, edges| {
            if outcome.is_ok() {
                let code = codes.next().and_then(Option::as_ref);
                let after = edges.iter().map(|edge| edge.command as usize);
                // All arguments' memory was listed when the graph was taken.
                let start =
                    |argument: &Argument<'_>| starts[&std::ptr::from_ref(argument.memory())];
                let starts: Vec<CUdeviceptr> = command.arguments().iter().map(start).collect();
                let parts;
                let does = match (command.operation(), code) {
                    (Operation::Launch { .. }, Some(code)) => Does::Launch(code),
                    (Operation::Fill(fill), _) => Does::Fill(fill),
                    (Operation::Transfer(transfer), _) if transfer.bytes() > 0 => {
                        let number = |side: &Endpoint| match side {
                            Endpoint::Argument(number) => Ok(*number),
                            Endpoint::Host(_) => Err(not_taken()),
                        };
                        match (number(&transfer.source), number(&transfer.destination)) {
                            (Ok(from), Ok(to)) => {
                                parts = Shape::of(transfer).parts();
                                Does::Copy(from, to, &parts)
                            }
                            (Err(error), _) | (_, Err(error)) => {
                                outcome = Err(error.into());
                                return;
                            }
                        }
                    }
                    _ => Does::Nothing,
                };
                let accesses = Argument::packed(command.arguments());
                outcome = builder.add(&does, (accesses, &starts), after);
            }
        });
        outcome?;
        let executable = Arc::new(builder.finish()?);
        let may_fail = !executable.faults.is_empty();
        self.may_fail.store(may_fail, Ordering::Relaxed);
        quietly(|| {
            tracing::debug!(
                device = device.number,
                commands = graph.len(),
                "a recorded graph is made one of CUDA's"
            );
        });
        let (executable, _) = made.insert((executable, addresses.to_vec()));
        Ok(executable.clone())
    }
}

/// Commands that were held back, as a graph of CUDA's that is launched once.
pub struct Batch {
    executable: Executable,
    /// Its commands, until it is launched.
    members: Mutex<Vec<Member>>,
}

/// A command of a batch.
#[derive(Default)]
pub(crate) struct Member {
    /// Its own error, once it is over.
    pub(crate) fault: Option<FaultRead>,
    /// The mark that is set when it is over, if that is not the end of the batch.
    pub(crate) mark: Option<Mark>,
}

impl Batch {
    /// Makes one, and brings it to its device: its launch takes no longer than that of one launched
    /// before.
    pub(crate) fn of(
        device: &Device,
        plan: &Plan<Cuda>,
    ) -> std::result::Result<Self, Obstacle<CallError>> {
        let live = device.live()?;
        let _entered = live.context.enter()?;
        let mut builder = Builder::new(device)?;
        let told = plan.commands.split_last().map_or(0, |(_, others)| {
            others.iter().filter(|command| command.is_told).count()
        });
        let can_tell = told > 0 && {
            let marker = live.marker().inspect_err(|error| {
                quietly(|| {
                    tracing::debug!(?error, "what ends within batches is told of with them");
                });
            });
            marker.is_ok()
        };
        let marks = match can_tell {
            true => Mark::several(live, told)?,
            false => Vec::new(),
        };
        let (mut marks, mut told) = (marks.into_iter(), 0);
        let mut members: Vec<Member> = plan.commands.iter().map(|_| Member::default()).collect();
        for (number, command) in plan.commands.iter().enumerate() {
            let does = match &command.does {
                batch::Does::Launch(code) => Does::Launch(code),
                batch::Does::Fill(fill) => Does::Fill(fill),
                batch::Does::Copy { from, to, parts } => Does::Copy(*from, *to, parts),
            };
            let places = (&command.arguments[..], &command.starts[..]);
            let after = command.after.iter().map(|number| *number as usize);
            builder.add(&does, places, after)?;
            if command.is_told
                && let Some(mark) = marks.next()
            {
                builder.tell(&plan.commands[told..=number], told, &mark)?;
                for member in &mut members[told..=number] {
                    member.mark = Some(mark.clone());
                }
                told = number + 1;
            }
        }
        for (number, fault) in std::mem::take(&mut builder.faults) {
            members[number].fault = Some(fault);
        }
        let executable = builder.finish()?;
        live.with_stream(|stream| {
            // SAFETY: `executable` and `stream` own what is passed, and outlive the call.
            let code = unsafe { sys::cuGraphUpload(executable.raw, stream.raw()) };
            named("cuGraphUpload", code)?;
            stream.synchronize()
        })?;
        Ok(Self {
            executable,
            members: Mutex::new(members),
        })
    }

    /// The graph, for calls.
    pub(crate) fn raw(&self) -> CUgraphExec {
        self.executable.raw
    }

    /// Its commands, in their order.
    pub(crate) fn take_members(&self) -> Vec<Member> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *members)
    }
}

/// True if a command may be one of a batch.
pub(crate) fn can_be_batched(command: &Command) -> bool {
    static IS_NEW: OnceLock<bool> = OnceLock::new();
    *IS_NEW.get_or_init(|| version().is_ok_and(|version| version >= OLDEST))
        && can_be_nodes(command)
}

fn not_taken() -> Error {
    ErrorKind::InvalidArgument {
        what: "launch a graph",
        problem: "it is not this driver's as a whole; this is an error of the driver".to_owned(),
    }
    .into()
}

/// True if CUDA has nodes for a command.
pub(crate) fn can_be_nodes(command: &CommandView) -> bool {
    match command.operation() {
        Operation::Launch { .. } => true,
        Operation::Fill(fill) => command
            .arguments()
            .first()
            .is_some_and(|to| Pattern::of(fill, to.offset()).nodes() <= MOST_FILLS),
        Operation::Transfer(transfer) => {
            let shape = Shape::of(transfer);
            let is_near = |part: &Part| part.row < MOST_PITCH;
            shape.is_for_a_device(MOST_PITCH) && shape.parts().iter().all(is_near)
        }
        _ => false,
    }
}

/// A fill's pattern as words of 1, 2 or 4 bytes, from a place where those are aligned on.
struct Pattern {
    words: Vec<u32>,
    /// Bytes of a word.
    width: u64,
}

impl Pattern {
    fn of(fill: &Fill, offset: u64) -> Self {
        let pattern = fill.pattern();
        let repeats = |length: &usize| {
            let mut pieces = pattern.chunks(*length);
            pattern.len().is_multiple_of(*length)
                && pieces.all(|piece| *piece == pattern[..*length])
        };
        let period = (1..pattern.len()).find(repeats).unwrap_or(pattern.len());
        let fits =
            |width: &usize| period.is_multiple_of(*width) && offset.is_multiple_of(*width as u64);
        let width = [4, 2].into_iter().find(fits).unwrap_or(1);
        let words = pattern[..period].chunks(width).map(|word| {
            let bytes = word.iter().rev();
            bytes.fold(0, |word, byte| word << 8 | u32::from(*byte))
        });
        Self {
            words: words.collect(),
            width: width as u64,
        }
    }

    /// The number of nodes that it takes: one for each of its words.
    fn nodes(&self) -> u64 {
        self.words.len() as u64
    }
}

/// A graph of CUDA's that can be launched.
pub(crate) struct Executable {
    raw: CUgraphExec,
    /// The fault records of those of its commands that can fail by themselves.
    faults: Vec<(usize, FaultRead)>,
    /// Nothing is in the records.
    is_clean: AtomicBool,
    context: Arc<Context>,
}

// SAFETY: CUDA's objects may be used by any thread.
unsafe impl Send for Executable {}
// SAFETY: and it is launched by one at a time, the one that pumps.
unsafe impl Sync for Executable {}

impl Executable {
    /// The graph, for calls.
    pub(crate) fn raw(&self) -> CUgraphExec {
        self.raw
    }

    /// Empties its fault records before a launch, if the one before has not said that they are
    /// empty. If there are any, that one is over.
    pub(crate) fn prepare(&self) {
        if !self.is_clean.swap(false, Ordering::Relaxed) {
            self.faults.iter().for_each(|(_, fault)| fault.clear());
        }
    }

    /// The result of its kernels, once a launch is over: the first that has failed, in the order of
    /// recording.
    pub(crate) fn outcome(&self, graph: &Graph) -> Result<()> {
        let Some((number, fault)) = self.faults.iter().find(|(_, fault)| fault.is_written()) else {
            self.is_clean.store(true, Ordering::Relaxed);
            return Ok(());
        };
        let (mut outcome, mut at) = (Ok(()), 0);
        graph.for_each_command(|command, _| {
            if at == *number {
                outcome = fault.outcome(command.label());
            }
            at += 1;
        });
        outcome
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let _entered = self.context.enter();
        // SAFETY: made once, destroyed once; launches of it are over, for each keeps it.
        let code = unsafe { sys::cuGraphExecDestroy(self.raw) };
        if let Err(error) = named("cuGraphExecDestroy", code) {
            quietly(|| tracing::debug!(?error, "a graph was not released"));
        }
    }
}

/// A graph of CUDA's that is being made.
struct Definition(CUgraph);

impl Drop for Definition {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        let code = unsafe { sys::cuGraphDestroy(self.0) };
        if let Err(error) = named("cuGraphDestroy", code) {
            quietly(|| tracing::debug!(?error, "a graph was not released"));
        }
    }
}

/// The work of a command of a graph.
enum Does<'a> {
    Launch(&'a Code<Compiled>),
    Fill(&'a Fill),
    /// From this argument to that.
    Copy(usize, usize, &'a [Part]),
    Nothing,
}

/// Makes a graph of CUDA's.
struct Builder<'a> {
    device: &'a Device,
    live: &'a Live,
    /// The last node of each command.
    nodes: Vec<CUgraphNode>,
    faults: Vec<(usize, FaultRead)>,
    definition: Definition,
}

impl<'a> Builder<'a> {
    fn new(device: &'a Device) -> Called<Self> {
        let live = device.live()?;
        let mut raw = null_mut();
        // SAFETY: no flags are known.
        named("cuGraphCreate", unsafe {
            sys::cuGraphCreate(&raw mut raw, 0)
        })?;
        Ok(Self {
            device,
            live,
            nodes: Vec::new(),
            faults: Vec::new(),
            definition: Definition(raw),
        })
    }

    /// Adds the next command, after those of these numbers.
    fn add(
        &mut self,
        does: &Does<'_>,
        (arguments, starts): (&[PackedAccess], &[CUdeviceptr]),
        after: impl Iterator<Item = usize>,
    ) -> std::result::Result<(), Obstacle<CallError>> {
        let after: Vec<CUgraphNode> = after.map(|number| self.nodes[number]).collect();
        let place = |number: usize| starts[number] + arguments[number].offset();
        let mut made = match *does {
            Does::Launch(code) => vec![self.launch(arguments, starts, code, &after)?],
            Does::Fill(fill) => self.fill(&arguments[0], place(0), fill, &after)?,
            Does::Copy(from, to, parts) => self.copy(place(from), place(to), parts, &after)?,
            Does::Nothing => Vec::new(),
        };
        let last = match (made.pop(), made.is_empty()) {
            (Some(only), true) => only,
            (Some(last), false) => {
                made.push(last);
                self.join(&made)?
            }
            (None, _) => self.join(&after)?,
        };
        self.nodes.push(last);
        Ok(())
    }

    /// Instantiates the graph.
    fn finish(self) -> Called<Executable> {
        let _entered = self.live.context.enter()?;
        let mut raw = null_mut();
        // SAFETY: a graph; no flags.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut raw, self.definition.0, 0) };
        named("cuGraphInstantiate", code)?;
        Ok(Executable {
            raw,
            faults: self.faults,
            is_clean: AtomicBool::new(true),
            context: self.live.context.clone(),
        })
    }

    /// Has a mark set when these commands are over. The first of them has the number `first`. In a
    /// chain the next command comes after that; beside others, it would wait for all of them.
    fn tell(&mut self, commands: &[Planned<Cuda>], first: usize, mark: &Mark) -> Called<()> {
        let is_awaited = |number: &usize| {
            let mut later = commands[number - first..].iter().skip(1);
            later.any(|it| it.after.contains(&(*number as u32)))
        };
        let last: Vec<usize> = (first..first + commands.len())
            .filter(|number| !is_awaited(number))
            .collect();
        let after: Vec<CUgraphNode> = last.iter().map(|number| self.nodes[*number]).collect();
        let marker = self.live.marker()?;
        let node = marker.add(mark, self.definition.0, &after)?;
        if let [last] = last[..] {
            self.nodes[last] = node;
        }
        Ok(())
    }

    /// Does nothing.
    fn join(&self, after: &[CUgraphNode]) -> Called<CUgraphNode> {
        let mut node = null_mut();
        // SAFETY: the nodes are the graph's.
        let code = unsafe {
            sys::cuGraphAddEmptyNode(
                &raw mut node,
                self.definition.0,
                after.as_ptr(),
                after.len(),
            )
        };
        named("cuGraphAddEmptyNode", code).map(|()| node)
    }

    fn launch(
        &mut self,
        arguments: &[PackedAccess],
        starts: &[CUdeviceptr],
        code: &Code<Compiled>,
        after: &[CUgraphNode],
    ) -> std::result::Result<CUgraphNode, Obstacle<CallError>> {
        let launch = Launch {
            device: self.device,
            compiled: &code.compiled,
            passed: &code.passed,
            arguments,
            memories: SmallVec::from_slice(starts),
        };
        let (graph, context) = (self.definition.0, self.live.context.raw());
        let mut values = Values::default();
        let own = launch.own_memory(self.live)?;
        let call = launch.call(&own, &mut values)?;
        let node = call.add(&mut values, graph, context, after)?;
        if !own.is_empty() {
            let fault = launch.fault(own);
            self.faults.push((self.nodes.len(), fault));
        }
        Ok(node)
    }

    fn fill(
        &self,
        to: &PackedAccess,
        first: CUdeviceptr,
        fill: &Fill,
        after: &[CUgraphNode],
    ) -> Called<Vec<CUgraphNode>> {
        let pattern = Pattern::of(fill, to.offset());
        let period = pattern.nodes() * pattern.width;
        let count = (to.length() / period) as usize;
        if count == 0 {
            return Ok(Vec::new());
        }
        // Of several words, each is written once in every row, and a row is a period.
        let (width, height) = match pattern.nodes() {
            1 => (count, 1),
            _ => (1, count),
        };
        let nodes = (0_u64..).zip(&pattern.words).map(|(number, word)| {
            let parameters = CUDA_MEMSET_NODE_PARAMS {
                dst: first + number * pattern.width,
                pitch: if height > 1 { period as usize } else { 0 },
                value: *word,
                elementSize: pattern.width as u32,
                width,
                height,
            };
            let mut node = null_mut();
            // SAFETY: the range is the command's, and its words are aligned; the nodes are the
            // graph's.
            let code = unsafe {
                sys::cuGraphAddMemsetNode(
                    &raw mut node,
                    self.definition.0,
                    after.as_ptr(),
                    after.len(),
                    &raw const parameters,
                    self.live.context.raw(),
                )
            };
            named("cuGraphAddMemsetNode", code).map(|()| node)
        });
        nodes.collect()
    }

    fn copy(
        &self,
        from: CUdeviceptr,
        to: CUdeviceptr,
        parts: &[Part],
        after: &[CUgraphNode],
    ) -> Called<Vec<CUgraphNode>> {
        let mut nodes = Vec::new();
        for part in parts {
            let there = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            let copy = region(
                part,
                (there, null_mut(), from + part.source),
                (there, null_mut(), to + part.destination),
            );
            let mut node = null_mut();
            // SAFETY: the region lies within both arguments, which the core has checked; the nodes
            // are the graph's.
            let code = unsafe {
                sys::cuGraphAddMemcpyNode(
                    &raw mut node,
                    self.definition.0,
                    after.as_ptr(),
                    after.len(),
                    &raw const copy,
                    self.live.context.raw(),
                )
            };
            named("cuGraphAddMemcpyNode", code)?;
            nodes.push(node);
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(bytes: &[u8], offset: u64) -> (Vec<u32>, u64) {
        let fill = Fill::new(bytes).expect("1 to 16 bytes");
        let pattern = Pattern::of(&fill, offset);
        (pattern.words, pattern.width)
    }

    #[test]
    fn patterns_are_as_few_words_as_their_place_allows() {
        assert_eq!(pattern(&[7], 3), (vec![7], 1));
        assert_eq!(pattern(&[0; 16], 4), (vec![0], 1));
        assert_eq!(pattern(&[1, 2], 2), (vec![0x0201], 2));
        assert_eq!(pattern(&[1, 2], 1), (vec![1, 2], 1));
        assert_eq!(pattern(&[1, 2, 1, 2], 0), (vec![0x0201], 2));
        assert_eq!(pattern(&[1, 2, 3, 4], 8), (vec![0x0403_0201], 4));
        assert_eq!(pattern(&[1, 2, 3, 4], 6), (vec![0x0201, 0x0403], 2));
        assert_eq!(pattern(&[1, 2, 3], 0), (vec![1, 2, 3], 1));
        let eight = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(pattern(&eight, 4), (vec![0x0403_0201, 0x0807_0605], 4));
    }
}

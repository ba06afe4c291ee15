//! Random programs on several queues give the results of their commands one after another.
//!
//! A program is a list of commands in in-order and out-of-order queues, on buffers and on arrays of
//! the host, with events and user events. [`Program`] knows the order that OpenCL promises, and
//! adds the waits without which two commands would race, and no others. So each program has one
//! result: that of its commands in the order of their enqueues.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use proptest::prelude::*;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::time::{Duration, Instant};
use support::*;

/// Numbers of a buffer or an array.
const COUNT: usize = 64;
const BUFFERS: usize = 4;
/// Buffers come first, then arrays of the host.
const OBJECTS: usize = 2 * BUFFERS;
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

const SOURCE: &str = "kernel void mix(global int *to, global const int *from, int first) {
    size_t at = first + get_global_id(0);
    to[at] = to[at] * 3 + from[at];
}";

/// Numbers that decide about one step of a program.
type Choice = [u8; 8];

/// Commands and user events, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    fn add(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn add_all(&mut self, others: &Self) {
        for (own, other) in self.0.iter_mut().zip(others.0) {
            *own |= other;
        }
    }

    fn room() -> usize {
        size_of::<Self>() * 8
    }
}

/// Numbers of an object that a command uses.
#[derive(Clone)]
struct Use {
    object: usize,
    range: Range<usize>,
    writes: bool,
}

impl Use {
    fn whole(object: usize, writes: bool) -> Self {
        Self {
            object,
            range: 0..COUNT,
            writes,
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.object == other.object
            && (self.writes || other.writes)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// A command, or an event of the program's own.
struct Node {
    event: cl_event,
    /// None of a user event.
    queue: Option<usize>,
    uses: Vec<Use>,
    /// All that is over when this begins.
    before: Set,
    /// Of a user event: it has no status yet.
    is_open: bool,
}

struct Line {
    handle: cl_command_queue,
    in_order: bool,
    on_host: bool,
    /// All that later commands come after: those of an in-order queue, or before a barrier.
    behind: Set,
    /// All commands.
    all: Set,
}

struct Program<'a> {
    place: &'a Place,
    lines: Vec<Line>,
    buffers: Vec<cl_mem>,
    arrays: Vec<Vec<i32>>,
    model: Vec<Vec<i32>>,
    nodes: Vec<Node>,
    /// All that the host knows to be over.
    known: Set,
    /// The calls, for people.
    calls: String,
}

/// A context, and the devices of its queues.
struct Place {
    context: cl_context,
    devices: Vec<(cl_device_id, bool)>,
    kernel: Option<cl_kernel>,
}

impl Place {
    fn new(kinds: &[cl_device_type]) -> Self {
        static TOLD: Once = Once::new();
        // SAFETY: no other thread reads the environment before the library is loaded.
        TOLD.call_once(|| unsafe { std::env::set_var("QUIPU_OPENCL_DEVICES", "cpu,sim") });
        let compiles = compiles();
        let devices: Vec<_> = kinds
            .iter()
            .map(|kind| {
                let mut device = null_mut();
                // SAFETY: room for one device.
                ok(unsafe { clGetDeviceIDs()(null_mut(), *kind, 1, &raw mut device, null_mut()) });
                (device, *kind == CL_DEVICE_TYPE_CPU)
            })
            .collect();
        let handles: Vec<_> = devices.iter().map(|(device, _)| *device).collect();
        let count = handles.len() as u32;
        // SAFETY: so many devices.
        let context = made(|code| unsafe {
            clCreateContext()(null(), count, handles.as_ptr(), None, null_mut(), code)
        });
        let setup = Setup {
            device: devices[0].0,
            context,
            queue: null_mut(),
        };
        let kernel = compiles.then(|| {
            let text = std::ffi::CString::new(SOURCE).unwrap();
            let mut first = text.as_ptr();
            // SAFETY: a text that ends with a zero; no device is named, so it is built for all.
            unsafe {
                let program = made(|code| {
                    clCreateProgramWithSource()(setup.context, 1, &raw mut first, null(), code)
                });
                ok(clBuildProgram()(
                    program,
                    0,
                    null(),
                    null(),
                    None,
                    null_mut(),
                ));
                made(|code| clCreateKernel()(program, c"mix".as_ptr(), code))
            }
        });
        Self {
            context,
            devices,
            kernel,
        }
    }
}

/// A list of waits as a call takes it.
fn listed(events: &[cl_event]) -> (u32, *const cl_event) {
    match events {
        [] => (0, null()),
        _ => (events.len() as u32, events.as_ptr()),
    }
}

impl<'a> Program<'a> {
    fn new(place: &'a Place) -> Self {
        let out_of_order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        let lines = [0, 0, out_of_order, CL_QUEUE_PROFILING_ENABLE]
            .into_iter()
            .enumerate()
            .map(|(number, properties)| {
                let (device, on_host) = place.devices[number % place.devices.len()];
                Line {
                    // SAFETY: the context's device.
                    handle: made(|code| unsafe {
                        clCreateCommandQueue()(place.context, device, properties, code)
                    }),
                    in_order: properties != out_of_order,
                    on_host,
                    behind: Set::default(),
                    all: Set::default(),
                }
            })
            .collect();
        let start = |object: usize| {
            let numbers = 0..COUNT as i32;
            numbers
                .map(|at| 1000 * object as i32 + at)
                .collect::<Vec<_>>()
        };
        let model: Vec<Vec<i32>> = (0..OBJECTS).map(start).collect();
        let buffers = model[..BUFFERS]
            .iter()
            .map(|values| {
                let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
                let from = values.as_ptr().cast_mut().cast();
                // SAFETY: there are as many bytes.
                made(|code| unsafe {
                    clCreateBuffer()(place.context, flags, 4 * COUNT, from, code)
                })
            })
            .collect();
        Self {
            place,
            lines,
            buffers,
            arrays: model[BUFFERS..].to_vec(),
            model,
            nodes: Vec::new(),
            known: Set::default(),
            calls: String::new(),
        }
    }

    /// All that is over when an event is.
    fn over(&self, node: usize) -> Set {
        let mut over = self.nodes[node].before;
        over.add(node);
        over
    }

    fn user_event(&mut self) -> usize {
        // SAFETY: a handle.
        let event = made(|code| unsafe { clCreateUserEvent()(self.place.context, code) });
        self.nodes.push(Node {
            event,
            queue: None,
            uses: Vec::new(),
            before: Set::default(),
            is_open: true,
        });
        self.nodes.len() - 1
    }

    fn complete(&mut self, user: usize) {
        if std::mem::take(&mut self.nodes[user].is_open) {
            let _ = writeln!(self.calls, "complete {user}");
            // SAFETY: a user event without a status.
            ok(unsafe { clSetUserEventStatus()(self.nodes[user].event, CL_COMPLETE) });
            self.known.add(user);
        }
    }

    /// True if nothing keeps a command from running.
    fn can_end(&self, node: usize) -> bool {
        let over = self.over(node);
        let mut all = self.nodes.iter().enumerate();
        !all.any(|(at, node)| node.is_open && over.has(at))
    }

    /// Waits for events that nothing holds back.
    fn await_all(&mut self, nodes: &[usize]) {
        for node in nodes {
            let (event, start) = (self.nodes[*node].event, Instant::now());
            while status(event) > CL_COMPLETE {
                assert!(start.elapsed() < LONG, "{node} never ends\n{}", self.calls);
                std::thread::yield_now();
            }
            // SAFETY: a handle.
            ok(unsafe { clWaitForEvents()(1, &raw const event) });
            let over = self.over(*node);
            self.known.add_all(&over);
        }
    }

    /// Has the host know that a command is over.
    fn sync(&mut self, node: usize) {
        if self.known.has(node) {
            return;
        }
        // Before the commands go on that wait for the program, those run that do not.
        let free: Vec<_> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].queue.is_some() && self.can_end(*node))
            .collect();
        self.await_all(&free);
        let over = self.over(node);
        for user in (0..self.nodes.len()).filter(|at| over.has(*at)) {
            self.complete(user);
        }
        let _ = writeln!(self.calls, "await {node}");
        self.await_all(&[node]);
    }

    /// Has the host know that all is over that conflicts with its own use of an array.
    fn sync_uses(&mut self, uses: &[Use]) {
        for node in 0..self.nodes.len() {
            let mut own = self.nodes[node].uses.iter();
            if own.any(|own| uses.iter().any(|other| own.conflicts(other))) {
                self.sync(node);
            }
        }
    }

    /// The list of waits of a command on such memory, and all that is over when the command begins.
    fn waits(&mut self, queue: usize, uses: &[Use], choice: Choice) -> (Vec<usize>, Set) {
        let mut list = Vec::new();
        if choice[4].is_multiple_of(5) {
            let open = (0..self.nodes.len()).filter(|at| self.nodes[*at].is_open);
            let open: Vec<_> = open.collect();
            let at = usize::from(choice[5]) % (open.len() + 1);
            let user = open.get(at).copied();
            let user = user.unwrap_or_else(|| self.user_event());
            list.push(user);
        } else if choice[4].is_multiple_of(3) && !self.nodes.is_empty() {
            list.push(usize::from(choice[5]) % self.nodes.len());
        }
        for node in 0..self.nodes.len() {
            let mut before = self.known;
            before.add_all(&self.lines[queue].behind);
            for wait in &list {
                before.add_all(&self.over(*wait));
            }
            let mut own = self.nodes[node].uses.iter();
            if before.has(node) || !own.any(|own| uses.iter().any(|other| own.conflicts(other))) {
                continue;
            }
            // Any event that implies it.
            let after = (0..self.nodes.len()).filter(|other| self.over(*other).has(node));
            let after: Vec<_> = after.collect();
            let wait = after[usize::from(choice[6]) % after.len()];
            match choice[7] % 4 {
                0 => self.sync(node),
                1 if self.lines[queue].in_order => self.point(queue, vec![wait], false),
                2 => self.point(queue, vec![wait], true),
                _ => list.push(wait),
            }
        }
        let mut before = self.known;
        before.add_all(&self.lines[queue].behind);
        for wait in &list {
            before.add_all(&self.over(*wait));
        }
        (list, before)
    }

    /// A marker or a barrier.
    fn point(&mut self, queue: usize, list: Vec<usize>, is_barrier: bool) {
        let mut before = self.known;
        before.add_all(&self.lines[queue].behind);
        if list.is_empty() {
            before.add_all(&self.lines[queue].all.clone());
            for node in (0..self.nodes.len()).filter(|at| self.lines[queue].all.has(*at)) {
                before.add_all(&self.nodes[node].before);
            }
        }
        for wait in &list {
            before.add_all(&self.over(*wait));
        }
        let name = if is_barrier { "barrier" } else { "marker" };
        self.enqueue(
            name,
            queue,
            &list,
            before,
            Vec::new(),
            |line, count, events, event| {
                // SAFETY: the list has so many events; room for one.
                unsafe {
                    match is_barrier {
                        true => clEnqueueBarrierWithWaitList()(line, count, events, event),
                        false => clEnqueueMarkerWithWaitList()(line, count, events, event),
                    }
                }
            },
        );
        if is_barrier {
            let over = self.over(self.nodes.len() - 1);
            self.lines[queue].behind.add_all(&over);
        }
    }

    fn enqueue(
        &mut self,
        name: &str,
        queue: usize,
        list: &[usize],
        before: Set,
        uses: Vec<Use>,
        call: impl FnOnce(cl_command_queue, u32, *const cl_event, *mut cl_event) -> cl_int,
    ) {
        let used: Vec<_> = uses
            .iter()
            .map(|of| {
                format!(
                    "{}{}{:?}",
                    if of.writes { "=" } else { "" },
                    of.object,
                    of.range
                )
            })
            .collect();
        let number = self.nodes.len();
        let _ = writeln!(
            self.calls,
            "{number}: queue {queue} {name} {used:?} after {list:?}"
        );
        let events: Vec<_> = list.iter().map(|node| self.nodes[*node].event).collect();
        let (count, first) = listed(&events);
        let line = &mut self.lines[queue];
        let mut event = null_mut();
        ok(call(line.handle, count, first, &raw mut event));
        // SAFETY: a handle.
        ok(unsafe { clFlush()(line.handle) });
        line.all.add(number);
        if line.in_order {
            line.behind.add_all(&before);
            line.behind.add(number);
        }
        self.nodes.push(Node {
            event,
            queue: Some(queue),
            uses,
            before,
            is_open: false,
        });
    }

    /// A command on a range of a source and a destination, with its effect on the model.
    fn step(&mut self, choice: Choice) {
        let [kind, queue, from, to, ..] = choice.map(usize::from);
        let queue = queue % self.lines.len();
        let range = match choice[1] / 16 % 3 {
            0 => 0..COUNT,
            1 => 0..COUNT / 2,
            _ => COUNT / 2..COUNT,
        };
        let buffer = |number: usize| number % BUFFERS;
        let array = |number: usize| BUFFERS + number % BUFFERS;
        let value = i32::from(choice[5]) * 7 + i32::from(choice[6]);
        let (offset, bytes) = (4 * range.start, 4 * range.len());
        let used = |object, writes| Use {
            object,
            range: range.clone(),
            writes,
        };
        let address = |program: &mut Self, object: usize| -> *mut c_void {
            let first = program.arrays[object - BUFFERS].as_mut_ptr();
            first.wrapping_add(range.start).cast()
        };
        match kind % 16 {
            0..=2 => {
                let (from, to) = (array(from), buffer(to));
                let uses = vec![used(from, false), used(to, true)];
                let (list, before) = self.waits(queue, &uses, choice);
                let (pointer, memory) = (address(self, from), self.buffers[to]);
                self.enqueue(
                    "write",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        // SAFETY: the array stays, and the host does not use it meanwhile.
                        unsafe {
                            clEnqueueWriteBuffer()(
                                line, memory, CL_FALSE, offset, bytes, pointer, count, events,
                                event,
                            )
                        }
                    },
                );
                self.copy(from, to, range);
            }
            3 | 4 => {
                let (from, to) = (buffer(from), array(to));
                let uses = vec![used(from, false), used(to, true)];
                let (list, before) = self.waits(queue, &uses, choice);
                let (pointer, memory) = (address(self, to), self.buffers[from]);
                self.enqueue(
                    "read",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        // SAFETY: the array stays, and the host does not use it meanwhile.
                        unsafe {
                            clEnqueueReadBuffer()(
                                line, memory, CL_FALSE, offset, bytes, pointer, count, events,
                                event,
                            )
                        }
                    },
                );
                self.copy(from, to, range);
            }
            5 | 6 => {
                let (from, to) = (buffer(from), buffer(to));
                if from == to {
                    return;
                }
                let kernel = self.place.kernel.filter(|_| kind.is_multiple_of(2));
                // Commands that may not overlap are those on whole buffers, if one is a kernel.
                let uses = match kernel {
                    Some(_) => vec![Use::whole(from, false), Use::whole(to, true)],
                    None => vec![used(from, false), used(to, true)],
                };
                let (list, before) = self.waits(queue, &uses, choice);
                let (source, destination) = (self.buffers[from], self.buffers[to]);
                if let Some(kernel) = kernel {
                    let first = range.start as i32;
                    ok(set(kernel, 0, &destination));
                    ok(set(kernel, 1, &source));
                    ok(set(kernel, 2, &first));
                    let items = range.len();
                    let name = "kernel";
                    self.enqueue(
                        name,
                        queue,
                        &list,
                        before,
                        uses,
                        |line, count, events, event| {
                            // SAFETY: one dimension.
                            unsafe {
                                clEnqueueNDRangeKernel()(
                                    line,
                                    kernel,
                                    1,
                                    null(),
                                    &raw const items,
                                    null(),
                                    count,
                                    events,
                                    event,
                                )
                            }
                        },
                    );
                    for at in range {
                        self.model[to][at] = self.model[to][at]
                            .wrapping_mul(3)
                            .wrapping_add(self.model[from][at]);
                    }
                    return;
                }
                self.enqueue(
                    "copy",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        // SAFETY: the list has so many events; room for one.
                        unsafe {
                            clEnqueueCopyBuffer()(
                                line,
                                source,
                                destination,
                                offset,
                                offset,
                                bytes,
                                count,
                                events,
                                event,
                            )
                        }
                    },
                );
                self.copy(from, to, range);
            }
            7 | 8 => {
                let to = buffer(to);
                let uses = vec![used(to, true)];
                let (list, before) = self.waits(queue, &uses, choice);
                let memory = self.buffers[to];
                self.enqueue(
                    "fill",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        // SAFETY: a pattern of four bytes.
                        unsafe {
                            clEnqueueFillBuffer()(
                                line,
                                memory,
                                (&raw const value).cast(),
                                4,
                                offset,
                                bytes,
                                count,
                                events,
                                event,
                            )
                        }
                    },
                );
                self.model[to][range].fill(value);
            }
            9 | 10 => {
                let (list, _) = self.waits(queue, &[], choice);
                self.point(queue, list, kind.is_multiple_of(2));
            }
            11 => {
                let to = array(to);
                self.sync_uses(&[used(to, true)]);
                let _ = writeln!(self.calls, "host ={to}{range:?}");
                self.arrays[to - BUFFERS][range.clone()].fill(value);
                self.model[to][range].fill(value);
            }
            12 => self.map(queue, buffer(to), range, value, choice),
            13 => {
                let to = buffer(to);
                // To the host it is read; to a device it is only said to be used soon.
                let (flags, uses) = match choice[0] / 16 % 2 {
                    0 => (0, vec![]),
                    _ => (CL_MIGRATE_MEM_OBJECT_HOST, vec![Use::whole(to, false)]),
                };
                let (list, before) = self.waits(queue, &uses, choice);
                let memory = self.buffers[to];
                self.enqueue(
                    "migrate",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        let one = &raw const memory;
                        // SAFETY: one object.
                        unsafe {
                            clEnqueueMigrateMemObjects()(line, 1, one, flags, count, events, event)
                        }
                    },
                );
            }
            14 => {
                let (from, to) = (array(from), array(to));
                if from == to || !self.lines[queue].on_host {
                    return;
                }
                let uses = vec![used(from, false), used(to, true)];
                let (list, before) = self.waits(queue, &uses, choice);
                let (source, destination) = (address(self, from), address(self, to));
                self.enqueue(
                    "memcpy",
                    queue,
                    &list,
                    before,
                    uses,
                    |line, count, events, event| {
                        // SAFETY: the arrays stay, and the host does not use them meanwhile.
                        unsafe {
                            clEnqueueSVMMemcpy()(
                                line,
                                CL_FALSE,
                                destination,
                                source,
                                bytes,
                                count,
                                events,
                                event,
                            )
                        }
                    },
                );
                self.copy(from, to, range);
            }
            _ => {
                let open = (0..self.nodes.len()).find(|at| self.nodes[*at].is_open);
                if let Some(open) = open {
                    self.complete(open);
                }
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize, range: Range<usize>) {
        let values = self.model[from][range.clone()].to_vec();
        self.model[to][range].copy_from_slice(&values);
    }

    /// Maps a part of a buffer, writes to it, and gives it back.
    fn map(&mut self, queue: usize, to: usize, range: Range<usize>, value: i32, choice: Choice) {
        let uses = vec![Use {
            object: to,
            range: range.clone(),
            writes: true,
        }];
        let (list, before) = self.waits(queue, &uses, choice);
        let (memory, offset, bytes) = (self.buffers[to], 4 * range.start, 4 * range.len());
        let flags = CL_MAP_READ | CL_MAP_WRITE;
        let mut mapped = null_mut();
        let into = &mut mapped;
        self.enqueue(
            "map",
            queue,
            &list,
            before,
            uses.clone(),
            |line, count, events, event| {
                let mut code = 0;
                // SAFETY: the list has so many events; room for one, and for the code.
                *into = unsafe {
                    clEnqueueMapBuffer()(
                        line,
                        memory,
                        CL_FALSE,
                        flags,
                        offset,
                        bytes,
                        count,
                        events,
                        event,
                        &raw mut code,
                    )
                };
                code
            },
        );
        self.sync(self.nodes.len() - 1);
        // SAFETY: the part is mapped, and no command uses it.
        let values = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<i32>(), range.len()) };
        assert_eq!(
            values,
            &self.model[to][range.clone()],
            "mapped {to}\n{}",
            self.calls
        );
        values.fill(value);
        self.model[to][range].fill(value);
        let mut before = self.known;
        before.add_all(&self.lines[queue].behind);
        self.enqueue(
            "unmap",
            queue,
            &[],
            before,
            uses,
            |line, count, events, event| {
                // SAFETY: as it was mapped.
                unsafe { clEnqueueUnmapMemObject()(line, memory, mapped, count, events, event) }
            },
        );
    }

    /// Has everything end, and looks at the results.
    fn check(mut self) {
        for node in 0..self.nodes.len() {
            self.sync(node);
        }
        for line in &self.lines {
            // SAFETY: a handle.
            ok(unsafe { clFinish()(line.handle) });
        }
        for (array, expected) in self.arrays.iter().zip(&self.model[BUFFERS..]) {
            assert_eq!(array, expected, "an array\n{}", self.calls);
        }
        for (number, buffer) in self.buffers.iter().enumerate() {
            let setup = Setup {
                device: self.place.devices[0].0,
                context: self.place.context,
                queue: self.lines[0].handle,
            };
            let values = setup.read::<i32>(*buffer, COUNT);
            assert_eq!(
                values, self.model[number],
                "buffer {number}\n{}",
                self.calls
            );
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // Also after a failure: its commands use the arrays.
        for node in &self.nodes {
            // SAFETY: handles, each released once.
            unsafe {
                if node.is_open {
                    clSetUserEventStatus()(node.event, CL_COMPLETE);
                }
                clReleaseEvent()(node.event);
            }
        }
        // SAFETY: as above.
        unsafe {
            for line in &self.lines {
                clFinish()(line.handle);
                clReleaseCommandQueue()(line.handle);
            }
            for buffer in &self.buffers {
                clReleaseMemObject()(*buffer);
            }
        }
    }
}

fn run_all(kinds: &[cl_device_type]) {
    let place = Place::new(kinds);
    let steps = proptest::collection::vec(any::<Choice>(), 1..32);
    let config = ProptestConfig {
        // A failure prints its steps, and the calls that they are.
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    };
    proptest!(config, |(steps in steps)| {
        let mut program = Program::new(&place);
        for step in steps {
            // Room for all that one step may add.
            if program.nodes.len() + 64 < Set::room() {
                program.step(step);
            }
        }
        program.check();
    });
}

#[test]
fn queues_of_a_processor_give_the_results_of_one_command_after_another() {
    run_all(&[CL_DEVICE_TYPE_CPU]);
}

#[test]
fn queues_of_a_device_with_memory_of_its_own_give_the_results_of_one_command_after_another() {
    run_all(&[CL_DEVICE_TYPE_ACCELERATOR]);
}

#[test]
fn queues_of_two_devices_give_the_results_of_one_command_after_another() {
    run_all(&[CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_ACCELERATOR]);
}

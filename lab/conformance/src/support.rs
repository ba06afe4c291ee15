//! Functions that cases share.

use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::memory::pinned::Pinning;
use quipu_scheduler::operation::{HostMemory, NativeKernel};
use quipu_scheduler::portable::{Passed, PortableKernel};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Error, Event, MemoryRef, Queue, QueueOptions, RawArgument,
    Recording, Request,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Fixture;
use crate::printed::{self, Printed, passed};
use quipu_kernel_ir::Module;

pub(crate) use std::slice::from_ref;

/// A context over a fixture's devices.
pub(crate) struct Stage {
    pub(crate) context: Context,
    pub(crate) devices: Vec<Device>,
}

impl Stage {
    pub(crate) fn new(fixture: &dyn Fixture) -> Self {
        let devices = fixture.devices();
        let context = Context::new(&devices).expect("a context over fresh devices");
        Self { context, devices }
    }

    pub(crate) fn queue(&self, options: QueueOptions) -> Queue {
        self.queue_on(0, options)
    }

    pub(crate) fn queue_on(&self, device: usize, options: QueueOptions) -> Queue {
        self.context
            .queue(&self.devices[device], options)
            .expect("a queue of one of the context's devices")
    }

    pub(crate) fn in_order(&self) -> Queue {
        self.queue(QueueOptions::default())
    }

    pub(crate) fn out_of_order(&self) -> Queue {
        self.queue(OUT_OF_ORDER)
    }

    pub(crate) fn memory(&self, bytes: u64) -> MemoryRef {
        self.context.memory(bytes).expect("a small buffer")
    }
}

pub(crate) const OUT_OF_ORDER: QueueOptions = QueueOptions {
    in_order: false,
    one_at_a_time: false,
    blocking: false,
    profiling: false,
    priority: quipu_scheduler::Priority::Normal,
    completion: quipu_scheduler::Completion::Callback,
    hazards: quipu_scheduler::Hazards::ACROSS_QUEUES,
};

/// A closure as a kernel: called with its arguments and a range of groups.
pub(crate) struct Kernel<F>(pub(crate) F);

impl<F> NativeKernel for Kernel<F>
where
    F: Fn(&[RawArgument], Range<u32>) -> Result<()> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        "case"
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        (self.0)(arguments, groups)
    }
}

pub(crate) fn part(memory: &MemoryRef, range: Range<u64>, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: range.start,
        length: range.end - range.start,
        mode,
    }
}

pub(crate) fn reads(memory: &MemoryRef) -> Access<'_> {
    part(memory, 0..memory.size(), AccessMode::Read)
}

pub(crate) fn updates(memory: &MemoryRef) -> Access<'_> {
    part(memory, 0..memory.size(), AccessMode::ReadWrite)
}

pub(crate) fn overwrites(memory: &MemoryRef) -> Access<'_> {
    part(memory, 0..memory.size(), AccessMode::Overwrite)
}

/// Launches a closure as one group.
pub(crate) fn launch<F>(queue: &Queue, accesses: &[Access<'_>], waits: &[Event], run: F) -> Event
where
    F: Fn(&[RawArgument]) -> Result<()> + Send + Sync + 'static,
{
    let request = Request {
        accesses,
        waits,
        ..Request::default()
    };
    let kernel = Kernel(move |a: &[RawArgument], _: Range<u32>| run(a));
    launch_native(queue, kernel, 1, &request).expect("a valid launch")
}

/// Launches native code; on a device that runs none, as a host task that touches
/// the same.
pub(crate) fn launch_native<K: NativeKernel>(
    queue: &Queue,
    kernel: K,
    groups: u64,
    request: &Request<'_>,
) -> Result<Event> {
    let groups = match u32::try_from(groups) {
        Ok(groups) if !runs(queue, &kernel) => groups,
        _ => return queue.launch(kernel, groups, request),
    };
    let task = move |arguments: &[RawArgument]| match groups {
        0 => Ok(()),
        // SAFETY: the arguments are the request's; each group is run once.
        groups => unsafe { kernel.run(arguments, 0..groups) },
    };
    queue.host_task(task, request)
}

/// As [`launch_native`], in a recording.
pub(crate) fn record_native<K: NativeKernel>(
    recording: &Recording,
    queue: &Queue,
    kernel: K,
    groups: u64,
    request: &NodeRequest<'_>,
) -> Result<Node> {
    let groups = match u32::try_from(groups) {
        Ok(groups) if !runs(queue, &kernel) => groups,
        _ => return recording.launch(queue, kernel, groups, request),
    };
    let task = move |arguments: &[RawArgument]| match groups {
        0 => Ok(()),
        // SAFETY: the arguments are the request's; each group is run once.
        groups => unsafe { kernel.run(arguments, 0..groups) },
    };
    recording.host_task(queue, task, request)
}

/// True if the queue's device runs the kernel in a form that it has.
fn runs(queue: &Queue, kernel: &impl NativeKernel) -> bool {
    let driver = queue.shared().driver();
    let code = kernel.portable().map(PortableKernel::code_type);
    driver.runs_native_code() || code.is_some_and(|code| driver.takes_code(code))
}

/// Launches a closure as one group, or, on a device that runs none, the same as
/// code.
fn launch_printed<F>(
    queue: &Queue,
    accesses: &[Access<'_>],
    waits: &[Event],
    code: (fn() -> Module, Passed),
    run: F,
) -> Event
where
    F: Fn(&[RawArgument]) -> Result<()> + Send + Sync + 'static,
{
    let request = Request {
        accesses,
        waits,
        ..Request::default()
    };
    let (module, passed) = code;
    let kernel = Printed {
        native: Kernel(move |a: &[RawArgument], _: Range<u32>| run(a)),
        number: module as usize as u64,
        module,
        passed,
    };
    launch_native(queue, kernel, 1, &request).expect("a valid launch")
}

/// As [`launch_native`], one-way.
pub(crate) fn post_native<K: NativeKernel>(
    queue: &Queue,
    kernel: K,
    groups: u64,
    request: &Request<'_>,
) -> Result<()> {
    if runs(queue, &kernel) {
        queue.post_launch(kernel, groups, request)
    } else {
        launch_native(queue, kernel, groups, request).map(drop)
    }
}

/// Launches a kernel that does nothing.
pub(crate) fn nothing(queue: &Queue, accesses: &[Access<'_>], waits: &[Event]) -> Event {
    let code = (printed::nothing as fn() -> Module, passed(1, &[], 0, 1));
    launch_printed(queue, accesses, waits, code, |_| Ok(()))
}

/// Launches a kernel that fails.
pub(crate) fn failing(queue: &Queue, accesses: &[Access<'_>], waits: &[Event]) -> Event {
    launch(queue, accesses, waits, |_| Err(boom("boom")))
}

/// A kernel's own error.
pub(crate) fn boom(message: &str) -> Error {
    ErrorKind::Kernel {
        what: "case".to_owned(),
        message: message.to_owned(),
    }
    .into()
}

/// The first eight bytes of an argument.
pub(crate) fn load(argument: &RawArgument) -> u64 {
    assert!(argument.length >= 8);
    // SAFETY: a driver resolves arguments to valid bytes for the kernel's run.
    unsafe { argument.pointer.cast::<u64>().read_unaligned() }
}

/// Sets the first eight bytes of an argument.
pub(crate) fn store(argument: &RawArgument, value: u64) {
    assert!(argument.length >= 8);
    // SAFETY: as above; the case declared that it writes them.
    unsafe { argument.pointer.cast::<u64>().write_unaligned(value) };
}

/// Sets byte `index` of an argument.
pub(crate) fn store_byte(argument: &RawArgument, index: usize, value: u8) {
    assert!(index < argument.length);
    // SAFETY: as above.
    unsafe { argument.pointer.add(index).write(value) };
}

/// Byte `index` of an argument.
pub(crate) fn load_byte(argument: &RawArgument, index: usize) -> u8 {
    assert!(index < argument.length);
    // SAFETY: as above.
    unsafe { argument.pointer.add(index).read() }
}

/// Overwrites eight bytes or more with a value.
pub(crate) fn put(queue: &Queue, memory: &MemoryRef, value: u64, waits: &[Event]) -> Event {
    let code = (printed::put as fn() -> Module, passed(1, &[value], 1, 1));
    launch_printed(queue, &[overwrites(memory)], waits, code, move |a| {
        for index in 0..a[0].length {
            store_byte(&a[0], index, value.to_le_bytes()[index % 8]);
        }
        Ok(())
    })
}

/// Replaces x by 31 x + n: the result tells the order.
pub(crate) fn fold(queue: &Queue, memory: &MemoryRef, n: u64, waits: &[Event]) -> Event {
    let code = (printed::fold as fn() -> Module, passed(1, &[n], 1, 8));
    launch_printed(queue, &[updates(memory)], waits, code, move |a| {
        store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(n));
        Ok(())
    })
}

/// The result of `fold` on zero with these numbers.
pub(crate) fn folded(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .fold(0, |x: u64, n| x.wrapping_mul(31).wrapping_add(n))
}

/// A kernel that reads the first eight bytes; where it puts what it saw.
pub(crate) fn observe(
    queue: &Queue,
    memory: &MemoryRef,
    waits: &[Event],
) -> (Event, Arc<AtomicU64>) {
    let seen = Arc::new(AtomicU64::new(u64::MAX));
    let to = seen.clone();
    let event = launch(queue, &[reads(memory)], waits, move |a| {
        to.store(load(&a[0]), Ordering::SeqCst);
        Ok(())
    });
    (event, seen)
}

/// Host bytes that a transfer may use as long as it likes.
pub(crate) struct HostBytes(Arc<Box<[UnsafeByte]>>);

#[repr(transparent)]
struct UnsafeByte(UnsafeCell<u8>);
// SAFETY: cases look at the bytes only while no transfer uses them.
unsafe impl Sync for UnsafeByte {}

impl HostBytes {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let cells = bytes.iter().map(|b| UnsafeByte(UnsafeCell::new(*b)));
        Self(Arc::new(cells.collect()))
    }

    pub(crate) fn memory(&self) -> HostMemory {
        let pointer = self.0.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the bytes are kept; cases do not look meanwhile.
        unsafe { HostMemory::new(pointer, self.0.len(), Some(self.0.clone())) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: called when the transfer is over.
        self.0.iter().map(|cell| unsafe { *cell.0.get() }).collect()
    }
}

/// Reads a range through a read command.
pub(crate) fn read_range(queue: &Queue, memory: &MemoryRef, range: Range<u64>) -> Result<Vec<u8>> {
    let length = range.end - range.start;
    let host = HostBytes::new(&vec![0xEE; length as usize]);
    queue
        .read(
            part(memory, range, AccessMode::Read),
            host.memory(),
            length,
            &[],
            &[],
        )?
        .wait()?;
    Ok(host.bytes())
}

/// Reads all bytes through a read command.
pub(crate) fn read_all(queue: &Queue, memory: &MemoryRef) -> Vec<u8> {
    read_range(queue, memory, 0..memory.size()).expect("a readable buffer")
}

/// Reads the first eight bytes as a number.
pub(crate) fn read_number(queue: &Queue, memory: &MemoryRef) -> u64 {
    let bytes = read_range(queue, memory, 0..8).expect("a readable buffer");
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Writes all bytes through a write command.
pub(crate) fn write_all(queue: &Queue, memory: &MemoryRef, bytes: &[u8]) -> Event {
    let host = HostBytes::new(bytes);
    queue
        .write(
            host.memory(),
            overwrites(memory),
            bytes.len() as u64,
            &[],
            &[],
        )
        .expect("a valid write")
}

/// Memory of the host in whole pages, all zero, that drivers know to stay where it is.
pub(crate) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
    /// Ends before the memory does.
    pinning: Option<Pinning>,
    /// Set when the memory is gone.
    gone: Flag,
}

// SAFETY: it only frees the memory.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: u64) -> Self {
        const PAGE: usize = 4096;
        let layout = Layout::from_size_align(bytes as usize, PAGE).map(|it| it.pad_to_align());
        let layout = layout.expect("a small buffer");
        // SAFETY: no buffer has no bytes.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("a small buffer");
        // SAFETY: allocated until this is dropped; memory objects over it keep this.
        let pinning = unsafe { Pinning::new(start.as_ptr(), layout.size()) };
        Self {
            start,
            layout,
            pinning: Some(pinning),
            gone: Flag::new(),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.pinning = None;
        // SAFETY: allocated so, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
        self.gone.set();
    }
}

/// A memory object that devices use where it is, if they can; its bytes, and a flag that is set
/// when they are gone.
pub(crate) fn in_place(context: &Context, bytes: u64) -> (MemoryRef, NonNull<u8>, Flag) {
    let pages = Pages::new(bytes);
    let (start, gone) = (pages.start, pages.gone.clone());
    // SAFETY: `pages` keeps whole pages, pinned; cases look at them only while no command does.
    let memory = unsafe { context.memory_in_place(start, bytes, Box::new(pages)) };
    (memory.expect("a small buffer"), start, gone)
}

/// A memory object, all zero, in memory of the host that devices use where it is, if they can.
#[must_use]
pub fn memory_in_place(context: &Context, bytes: u64) -> MemoryRef {
    in_place(context, bytes).0
}

/// A flag that kernels and the host share.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns when it is set; whoever sets it runs elsewhere.
    pub(crate) fn wait(&self) {
        while !self.is_set() {
            std::thread::yield_now();
        }
    }
}

/// Sets a flag when it is dropped.
pub(crate) struct SetOnDrop(pub(crate) Flag);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// The error of an event that must have failed.
pub(crate) fn error_of(event: &Event) -> Error {
    event.wait().expect_err("the command should have failed")
}

/// Asserts that an event failed because of another, by the very same first
/// cause.
pub(crate) fn assert_caused_by(event: &Event, origin: &Event) {
    let (error, cause) = (error_of(event), error_of(origin));
    assert!(
        std::ptr::eq(error.first_cause().kind(), cause.first_cause().kind()),
        "failed because of '{}', not of '{cause}'",
        error.first_cause()
    );
    assert!(
        matches!(error.kind(), ErrorKind::Dependency { .. }),
        "'{error}' does not say that a dependency failed"
    );
}

/// A wait inside either ends or is refused with the reason.
pub(crate) fn waited_or_refused(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if !matches!(error.kind(), ErrorKind::WouldDeadlock { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Asserts that something is refused because waiting would never end.
pub(crate) fn assert_would_deadlock<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.expect_err("waiting here could never end");
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "refused with '{error}'"
    );
}

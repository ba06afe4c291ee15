//! Operations: the work of a command, as its driver sees it, and the bodies that front
//! ends give to commands.
//!
//! A body's state lives in the command's slot if it is small, else in a box. A native body (a Rust
//! closure or kernel) is run by [`Command::run_native`](crate::command::CommandView::run_native).
//! Transfers and fills are data that a driver carries out with its own engines, or with
//! [`Transfer::copy`] and [`Fill::fill`] where it can address the memory. Long ones have pieces,
//! which are run like groups of a launch: [`Transfer::pieces`], [`Fill::pieces`].

use crate::access::{PackedAccess, RawArgument};
use crate::command::CommandView;
use crate::command::recorded::Graph;
use crate::command::slot::{INLINE_ARGUMENTS, Kind, PAYLOAD_BYTES, Rare, Vtable};
use crate::error::{Error, Result};
pub use crate::fill::Fill;
use crate::fill::PAST_CACHES;
use crate::memory::SpaceId;
use crate::native::NativeEnqueue;
pub use crate::panics::drop_panic;
use crate::panics::quietly;
use crate::portable::PortableKernel;
use quipu_choice::{Choice, Share, Variant};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// A kernel as native code, erased: run over ranges of its work-groups by any
/// number of threads at once.
pub trait NativeKernel: Send + Sync + 'static {
    /// The kernel's name, as logs and traces show it.
    fn name(&self) -> &'static str;

    /// Runs the work-groups `groups`.
    ///
    /// # Errors
    /// A message for people; it fails the command.
    ///
    /// # Safety
    /// `arguments` are the launch's, in order, valid for their modes; no group
    /// is run twice in a launch. Before the first of several calls for a launch,
    /// [`begin`](Self::begin) was called, and gave no error.
    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<(), Error>;

    /// Looks at the arguments of a launch that a driver runs in several calls of
    /// [`run`](Self::run), before any of these. A call of `run` with all work-groups does it by
    /// itself.
    ///
    /// # Errors
    /// As [`run`](Self::run). An error fails the command, and no work-group is run.
    ///
    /// # Safety
    /// As for [`run`](Self::run), and no group of the launch has begun.
    unsafe fn begin(&self, arguments: &[RawArgument]) -> Result<(), Error> {
        let _ = arguments;
        Ok(())
    }

    /// The kernel as code that drivers of other devices compile, if it has any.
    fn portable(&self) -> Option<&dyn PortableKernel> {
        None
    }

    /// True if it may run any launch that passes the same, several at once. Such a kernel keeps
    /// nothing of one launch, such as a pointer into its memory.
    fn serves_many_launches(&self) -> bool {
        false
    }

    /// True if so many work-groups are known to take a few microseconds at most: then a thread that
    /// [lends itself](crate::driver::InlineExecutor) to a driver may run them.
    fn is_brief(&self, groups: u32) -> bool {
        let _ = groups;
        false
    }
}

/// Bytes of a transfer or fill that one thread carries out at a time: some ten microseconds, many
/// times the cost of handing them out. The least multiple of all numbers up to 16, so that every
/// pattern fits.
pub(crate) const PIECE: usize = 720_720;

/// The number of pieces of so many bytes: at least one. One, if there are more than can be counted.
pub(crate) fn pieces_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE as u64))
        .unwrap_or(1)
        .max(1)
}

/// The bytes of some of the pieces of `bytes` bytes. The last piece ends where these do.
pub(crate) fn bytes_of_pieces(pieces: Range<u32>, bytes: usize) -> Range<usize> {
    let end = if pieces.end == pieces_of(bytes as u64) {
        bytes
    } else {
        pieces.end as usize * PIECE
    };
    pieces.start as usize * PIECE..end
}

/// One side of a transfer.
#[derive(Clone)]
pub enum Endpoint {
    /// The command's argument of this number.
    Argument(usize),
    /// Host memory, kept alive by its owner.
    Host(HostMemory),
}

/// Host memory that a transfer reads or writes.
#[derive(Clone)]
pub struct HostMemory {
    pointer: *mut u8,
    length: usize,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: whoever makes one promises that the memory may be used from any
// thread until the transfer is over.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Host memory at `pointer`, of `length` bytes.
    ///
    /// # Safety
    /// The memory stays valid on every thread until all transfers of this value and of its clones
    /// are over: for reads if it is the source, for writes if it is the destination. A source is
    /// not written meanwhile. A destination is neither read nor written by others meanwhile.
    ///
    /// `keep` may own the memory. It may be dropped on whichever thread ends a transfer. So its
    /// destructor must not take a lock that any thread holds during one of the calls that
    /// [`Event::on_complete`](crate::Event::on_complete) lists. An enqueue to a blocking queue that
    /// fails with [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) may leave the
    /// transfer running; then only `keep` keeps the memory valid.
    #[must_use]
    pub unsafe fn new(
        pointer: *mut u8,
        length: usize,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self {
            pointer,
            length,
            _keep: keep,
        }
    }

    /// The first byte. [`HostMemory::new`] says how it may be used.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// One dimension of a transfer's region, outermost first: so many steps, and
/// how far each is apart on either side, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Steps.
    pub count: u64,
    /// Bytes from one step to the next in the source.
    pub source_stride: u64,
    /// Bytes from one step to the next in the destination.
    pub destination_stride: u64,
}

/// A copy of an n-dimensional region: rows of contiguous bytes, and the steps
/// between them.
#[derive(Clone)]
pub struct Transfer {
    /// The source. The region starts at its first byte.
    pub source: Endpoint,
    /// The destination. The region starts at its first byte.
    pub destination: Endpoint,
    /// Bytes of a row.
    pub row: u64,
    /// Outer dimensions, outermost first; none for a linear copy.
    pub steps: Vec<Step>,
}

impl Transfer {
    /// Bytes moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps
            .iter()
            .fold(self.row, |bytes, step| bytes.saturating_mul(step.count))
    }

    /// The number of pieces of neighbouring bytes in which several threads can carry the transfer
    /// out. For as many groups [`Command::run_native`](crate::command::CommandView::run_native) is
    /// then to be called. One if it is short, not linear, or its sides overlap.
    #[must_use]
    pub fn pieces(&self, arguments: &[RawArgument]) -> u32 {
        let [source, destination] =
            [&self.source, &self.destination].map(|side| Self::resolve(side, arguments));
        let apart = source.pointer.addr().abs_diff(destination.pointer.addr());
        if !self.steps.is_empty() || (apart as u64) < self.row {
            return 1;
        }
        pieces_of(self.row)
    }

    /// Carries out some pieces, where both sides can be addressed.
    ///
    /// # Safety
    /// As [`Transfer::copy`], and no piece is carried out twice at the same time.
    unsafe fn copy_pieces(&self, arguments: &[RawArgument], pieces: Range<u32>) {
        if pieces == (0..self.pieces(arguments)) {
            // SAFETY: as the caller promises.
            return unsafe { self.copy(arguments) };
        }
        let [source, destination] =
            [&self.source, &self.destination].map(|side| Self::resolve(side, arguments));
        let length = self.row as usize;
        assert!(
            bytes_of_pieces(pieces.clone(), length).end <= source.length.min(destination.length),
            "a transfer's region was checked against its endpoints at enqueue"
        );
        let is_far = self.row >= PAST_CACHES as u64;
        let share = Share {
            groups: pieces.len(),
            of: self.pieces(arguments) as usize,
        };
        // SAFETY: as the caller promises; the ranges were just checked.
        let copy = |copy| unsafe { copy_each(source, destination, pieces, length, copy) };
        if is_far {
            BY_LINES.run(share, |variant| match variant {
                Variant::First => copy(copy_by_library),
                Variant::Second => copy(copy_by_lines),
            });
        } else {
            copy(copy_by_library);
        }
    }

    /// The pointer and length of an endpoint.
    fn resolve(endpoint: &Endpoint, arguments: &[RawArgument]) -> RawArgument {
        match endpoint {
            Endpoint::Argument(index) => arguments[*index],
            Endpoint::Host(memory) => RawArgument {
                pointer: memory.pointer,
                length: memory.length,
            },
        }
    }

    /// Carries the transfer out where both sides can be addressed.
    ///
    /// # Safety
    /// `arguments` are the command's, resolved to valid memory that nobody
    /// else writes meanwhile.
    pub unsafe fn copy(&self, arguments: &[RawArgument]) {
        let source = Self::resolve(&self.source, arguments);
        let destination = Self::resolve(&self.destination, arguments);
        let span = |stride: fn(&Step) -> u64| {
            self.steps
                .iter()
                .map(|step| stride(step) * step.count.saturating_sub(1))
                .sum::<u64>()
                + self.row
        };
        assert!(
            span(|s| s.source_stride) <= source.length as u64
                && span(|s| s.destination_stride) <= destination.length as u64,
            "a transfer's region was checked against its endpoints at enqueue"
        );
        // SAFETY: the whole region lies within both sides, as just checked.
        unsafe { copy_steps(source.pointer, destination.pointer, self.row, &self.steps) };
    }
}

/// The choice whether copies that are too large for caches go line by line instead of by the
/// system's function, which may go around the caches: see [`fill`](crate::fill).
static BY_LINES: Choice = Choice::new();

/// A variant to copy bytes that do not overlap.
type Copying = unsafe fn(*const u8, *mut u8, usize);

/// Copies pieces of so many bytes.
///
/// # Safety
/// Both sides have so many bytes, which do not overlap; nobody writes the pieces' meanwhile.
unsafe fn copy_each(
    source: RawArgument,
    destination: RawArgument,
    pieces: Range<u32>,
    bytes: usize,
    copy: Copying,
) {
    // One after the other: a copy of many megabytes goes around the caches, which was a fifth
    // slower here.
    for piece in pieces {
        let bytes = bytes_of_pieces(piece..piece + 1, bytes);
        // SAFETY: the range lies within both sides, as the caller promises.
        unsafe {
            copy(
                source.pointer.add(bytes.start),
                destination.pointer.add(bytes.start),
                bytes.len(),
            );
        }
    }
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
unsafe fn copy_by_library(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// Copies 32 bytes at a time: four words are read before they are written, so that the compiler
/// does not make a call of the system's copy of it. (Words stay in registers, each by its name;
/// arrays of bytes would go through the stack.)
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
unsafe fn copy_by_lines(from: *const u8, to: *mut u8, bytes: usize) {
    const LINE: usize = 32;
    for line in 0..bytes / LINE {
        // SAFETY: the line is within the bytes, and as the caller promises.
        unsafe {
            let from: *const u64 = from.add(line * LINE).cast();
            let to: *mut u64 = to.add(line * LINE).cast();
            let first = from.read_unaligned();
            let second = from.add(1).read_unaligned();
            let third = from.add(2).read_unaligned();
            let fourth = from.add(3).read_unaligned();
            to.write_unaligned(first);
            to.add(1).write_unaligned(second);
            to.add(2).write_unaligned(third);
            to.add(3).write_unaligned(fourth);
        }
    }
    let done = bytes / LINE * LINE;
    // SAFETY: as above.
    unsafe { copy_by_library(from.add(done), to.add(done), bytes - done) };
}

/// # Safety
/// The region lies within valid memory on both sides.
unsafe fn copy_steps(source: *const u8, destination: *mut u8, row: u64, steps: &[Step]) {
    match steps {
        // SAFETY: as the caller promises; `copy` allows overlap.
        [] => unsafe { std::ptr::copy(source, destination, row as usize) },
        [step, inner @ ..] => {
            for index in 0..step.count {
                // SAFETY: as the caller promises.
                unsafe {
                    copy_steps(
                        source.add((index * step.source_stride) as usize),
                        destination.add((index * step.destination_stride) as usize),
                        row,
                        inner,
                    );
                }
            }
        }
    }
}

/// Bytes brought from one space to another. The first argument says which.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// The space that has a valid copy.
    pub from: SpaceId,
    /// The space that needs one.
    pub to: SpaceId,
    /// The space in which the migration finds its second argument, if only the bytes in use are to
    /// be moved, and zeros written in place of the rest. That argument is eight bytes that hold
    /// their number ([`Migration::used`]). The space is `from`, or the host.
    pub content: Option<SpaceId>,
}

impl Migration {
    /// The number of an argument's bytes, from its first on, that are in use, if the content size
    /// is this number, little-endian. At most all of them.
    #[must_use]
    pub fn used(argument: &PackedAccess, content_size: [u8; 8]) -> usize {
        u64::from_le_bytes(content_size)
            .saturating_sub(argument.offset())
            .min(argument.length()) as usize
    }
}

/// The work of a command.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Native code over this many work-groups, by
    /// [`Command::run_native`](crate::command::CommandView::run_native). If several calls run them,
    /// [`begin_native`](crate::command::CommandView::begin_native) comes first.
    Launch {
        /// The number of work-groups.
        groups: u32,
    },
    /// A copy between arguments and host memory.
    Transfer(&'a Transfer),
    /// A fill of the first argument.
    Fill(&'a Fill),
    /// The first argument's bytes, from space to space.
    Migrate(&'a Migration),
    /// A closure on the host, by [`Command::run_native`](crate::command::CommandView::run_native)
    /// over `0..1`.
    HostTask,
    /// A closure that puts work of its own into the driver's queue: only on drivers that
    /// [take it](crate::Driver::takes_native).
    NativeEnqueue(&'a NativeEnqueue),
    /// A recorded graph that the driver has [taken](crate::Driver::take_graph).
    Graph(&'a Graph),
    /// Nothing.
    Nothing,
}

// The parts that a `CommandView` gives to any thread: see there.
const _: () = {
    const fn is_shared<T: Sync + ?Sized>() {}
    is_shared::<Operation<'static>>();
};

impl CommandView {
    /// The work of the command.
    #[must_use]
    pub fn operation(&self) -> Operation<'_> {
        match self.kind() {
            Kind::Launch => Operation::Launch {
                groups: self.groups(),
            },
            Kind::Copy | Kind::Read | Kind::Write => {
                // SAFETY: the vtables of these kinds, below, keep this state.
                let transfer = unsafe { &*self.state_pointer().cast::<Box<Transfer>>() };
                Operation::Transfer(transfer)
            }
            Kind::Fill => {
                // SAFETY: as above.
                Operation::Fill(unsafe { &*self.state_pointer().cast::<Fill>() })
            }
            Kind::Migrate => {
                // SAFETY: as above.
                Operation::Migrate(unsafe { &*self.state_pointer().cast::<Migration>() })
            }
            Kind::HostTask | Kind::NativeCall => Operation::HostTask,
            Kind::NativeEnqueue => {
                // SAFETY: as above.
                let enqueue = unsafe { &*self.state_pointer().cast::<Box<NativeEnqueue>>() };
                Operation::NativeEnqueue(enqueue)
            }
            // SAFETY: as above.
            Kind::Graph => Operation::Graph(unsafe { &*self.state_pointer().cast::<Graph>() }),
            Kind::Marker | Kind::Barrier | Kind::Map | Kind::UserEvent => Operation::Nothing,
        }
    }
}

/// A command's body: its vtable, and its state as the slot keeps it.
pub(crate) trait Body: Sized {
    const VTABLE: &'static Vtable;

    /// True if the state fits into the slot beside so many arguments.
    #[inline]
    fn fits(arguments: usize) -> bool {
        let inline = if arguments <= INLINE_ARGUMENTS {
            arguments
        } else {
            0
        };
        size_of::<Self>() + inline * size_of::<PackedAccess>() <= PAYLOAD_BYTES
            && align_of::<Self>() <= 8
    }
}

/// # Safety
/// `state` points to a `T`, dropped once.
unsafe fn drop_in_slot<T>(state: *mut u8) {
    // A panic here must not keep the command from ending.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::drop_in_place(state.cast::<T>()) };
    }));
    if let Err(panic) = outcome {
        drop_panic(panic);
        quietly(|| {
            tracing::error!(
                "what a command owned panicked as it was dropped; the command is unaffected"
            );
        });
    }
}

/// The destructor of a `T` in a slot, if that does anything.
pub(crate) const fn drop_state<T>() -> Option<unsafe fn(*mut u8)> {
    if std::mem::needs_drop::<T>() {
        Some(drop_in_slot::<T>)
    } else {
        None
    }
}

pub(crate) unsafe fn no_run(_: *mut u8, _: &[RawArgument], _: Range<u32>) -> Result<()> {
    Ok(())
}

/// A kernel launch.
pub(crate) struct NativeLaunch<K>(pub(crate) K);

impl<K: NativeKernel> Body for NativeLaunch<K> {
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::Launch,
        needs_no_device: false,
        // SAFETY: the state is a `NativeLaunch<K>`.
        name: |state| unsafe { (*state.cast::<Self>()).0.name() },
        // SAFETY: as above; the rest as the caller promises.
        run: |state, arguments, groups| unsafe { (*state.cast::<Self>()).0.run(arguments, groups) },
        // SAFETY: as above.
        portable: |state| unsafe { (*state.cast::<Self>()).0.portable().map(std::ptr::from_ref) },
        // SAFETY: as above.
        brief: |state, groups| unsafe { (*state.cast::<Self>()).0.is_brief(groups) },
        rare: Rare {
            // SAFETY: as above.
            look: Some(|state, arguments| unsafe { (*state.cast::<Self>()).0.begin(arguments) }),
            ..Rare::NONE
        },
        drop: drop_state::<Self>(),
    };
}

/// A boxed kernel launch, for kernels that do not fit. One body for all of them spares every
/// program that launches kernels a second copy of the code that enqueues them.
pub(crate) struct BoxedLaunch(pub(crate) Box<dyn NativeKernel>);

impl Body for BoxedLaunch {
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::Launch,
        needs_no_device: false,
        // SAFETY: the state is a `BoxedLaunch`.
        name: |state| unsafe { (*state.cast::<Self>()).0.name() },
        // SAFETY: as above; the rest as the caller promises.
        run: |state, arguments, groups| unsafe { (*state.cast::<Self>()).0.run(arguments, groups) },
        // SAFETY: as above.
        portable: |state| unsafe { (*state.cast::<Self>()).0.portable().map(std::ptr::from_ref) },
        // SAFETY: as above.
        brief: |state, groups| unsafe { (*state.cast::<Self>()).0.is_brief(groups) },
        rare: Rare {
            // SAFETY: as above.
            look: Some(|state, arguments| unsafe { (*state.cast::<Self>()).0.begin(arguments) }),
            ..Rare::NONE
        },
        drop: drop_state::<Self>(),
    };
}

/// A host task of a recorded graph, which runs once in each launch.
pub(crate) struct RepeatedTask<F>(pub(crate) Box<F>);

impl<F> Body for RepeatedTask<F>
where
    F: FnMut(&[RawArgument]) -> Result<()> + Send + 'static,
{
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::HostTask,
        needs_no_device: false,
        name: |_| "host task",
        // SAFETY: the state is a `RepeatedTask<F>`; launches of a graph come one
        // after another.
        run: |state, arguments, _| unsafe { (*state.cast::<Self>()).0(arguments) },
        portable: |_| None,
        brief: |_, _| false,
        rare: Rare::NONE,
        drop: drop_state::<Self>(),
    };
}

/// A host task, or a native call: run once, with its declared accesses resolved.
pub(crate) struct TaskBody<const NATIVE: bool, F>(pub(crate) Option<Box<F>>);

impl<const NATIVE: bool, F> Body for TaskBody<NATIVE, F>
where
    F: FnOnce(&[RawArgument]) -> Result<()> + Send + 'static,
{
    const VTABLE: &'static Vtable = &Vtable {
        kind: if NATIVE {
            Kind::NativeCall
        } else {
            Kind::HostTask
        },
        needs_no_device: false,
        name: |_| if NATIVE { "native call" } else { "host task" },
        // SAFETY: the state is a `TaskBody<F>`; a task runs once.
        run: |state, arguments, _| match unsafe { (*state.cast::<Self>()).0.take() } {
            Some(task) => task(arguments),
            None => Ok(()),
        },
        portable: |_| None,
        brief: |_, _| false,
        rare: Rare::NONE,
        drop: drop_state::<Self>(),
    };
}

macro_rules! data_body {
    ($body:ty, $kind:expr, $name:literal) => {
        data_body!($body, $kind, $name, no_run);
    };
    ($body:ty, $kind:expr, $name:literal, $run:expr) => {
        impl Body for $body {
            const VTABLE: &'static Vtable = &Vtable {
                kind: $kind,
                needs_no_device: matches!($kind, Kind::Barrier),
                name: |_| $name,
                run: $run,
                portable: |_| None,
                brief: |_, _| false,
                rare: Rare::NONE,
                drop: drop_state::<Self>(),
            };
        }
    };
}

pub(crate) use data_body;

/// # Safety
/// `state` is that of a transfer's body; the rest as [`Transfer::copy_pieces`].
unsafe fn run_transfer(
    state: *mut u8,
    arguments: &[RawArgument],
    pieces: Range<u32>,
) -> Result<()> {
    // SAFETY: as the caller promises; all transfers' bodies are a box.
    unsafe { (*state.cast::<Box<Transfer>>()).copy_pieces(arguments, pieces) };
    Ok(())
}

/// # Safety
/// `state` is a [`Fill`]; the rest as [`Fill::fill_pieces`].
unsafe fn run_fill(state: *mut u8, arguments: &[RawArgument], pieces: Range<u32>) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { (*state.cast::<Fill>()).fill_pieces(arguments[0], pieces) };
    Ok(())
}

/// A transfer of one of the kinds copy, read and write.
#[repr(transparent)]
pub(crate) struct TransferBody<const KIND: u8>(pub(crate) Box<Transfer>);
pub(crate) const COPY: u8 = 0;
pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
data_body!(TransferBody<COPY>, Kind::Copy, "copy", run_transfer);
data_body!(TransferBody<READ>, Kind::Read, "read", run_transfer);
data_body!(TransferBody<WRITE>, Kind::Write, "write", run_transfer);
data_body!(Fill, Kind::Fill, "fill", run_fill);
data_body!(Migration, Kind::Migrate, "migrate");

/// A closure for the driver's queue.
#[repr(transparent)]
pub(crate) struct NativeEnqueueBody(pub(crate) Box<NativeEnqueue>);
data_body!(NativeEnqueueBody, Kind::NativeEnqueue, "native enqueue");

/// A marker; may carry something to drop when it is over.
pub(crate) struct MarkerBody<T>(pub(crate) T);
impl<T: Send> Body for MarkerBody<T> {
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::Marker,
        needs_no_device: true,
        name: |_| "marker",
        run: no_run,
        portable: |_| None,
        brief: |_, _| false,
        rare: Rare::NONE,
        drop: drop_state::<Self>(),
    };
}

/// A barrier.
pub(crate) struct BarrierBody;
data_body!(BarrierBody, Kind::Barrier, "barrier");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_the_same_either_way() {
        let from: Vec<u8> = (0..1000).map(|at| at as u8).collect();
        for copy in [copy_by_library as Copying, copy_by_lines] {
            for start in [0, 1, 7, 16] {
                for length in [0, 1, 63, 64, 65, 128, 200, 777] {
                    let mut to = vec![0; 1000];
                    // SAFETY: both have so many bytes from there on, and are apart.
                    unsafe { copy(from[start..].as_ptr(), to[start..].as_mut_ptr(), length) };
                    assert_eq!(to[start..start + length], from[start..start + length]);
                    assert!(to[start + length..].iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}

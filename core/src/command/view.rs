//! Views of commands, for code that does not own them.

use super::id::EventId;
use super::running;
use super::slot::{Kind, Slot, Vtable};
use crate::access::Argument;
use crate::error::{Error, ErrorKind, Result};
use crate::portable::PortableKernel;
use crate::queue::place::QueueShared;
use crate::region::Region;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A command, to look at: its owner, if there is one, is somebody else. An owned
/// [`Command`](super::Command) is one, too.
///
/// It starts, links and ends nothing. The commands of a [`Graph`](crate::Graph) are lent as this:
///
/// ```
/// use quipu_scheduler::Graph;
///
/// fn names(graph: &Graph) -> Vec<String> {
///     let mut names = Vec::new();
///     graph.for_each_command(|command, _| names.push(command.label().to_owned()));
///     names
/// }
/// ```
///
/// A graph's launch may run them meanwhile, so nobody else may start one:
///
/// ```compile_fail,E0599
/// fn start_all(graph: &quipu_scheduler::Graph) {
///     graph.for_each_command(|command, _| command.start().unwrap());
/// }
/// ```
///
/// or use the word that its owner links it by:
///
/// ```compile_fail,E0599
/// fn link_all(graph: &quipu_scheduler::Graph) {
///     graph.for_each_command(|command, _| command.set_link(1));
/// }
/// ```
///
/// or run code as if it were inside of one:
///
/// ```compile_fail,E0599
/// fn wait_inside(graph: &quipu_scheduler::Graph, event: &quipu_scheduler::Event) {
///     graph.for_each_command(|command, _| command.run_inside(|| event.wait().unwrap()));
/// }
/// ```
#[repr(transparent)]
pub struct CommandView(pub(super) NonNull<Slot>);

// SAFETY: what a shared view gives does not change while its command is anybody's, or it is atomic
// or locked. Of a body's state it gives what is `Sync` (a `PortableKernel`, the parts of an
// `Operation`), and to run it is `unsafe`.
unsafe impl Sync for CommandView {}

const _: () = {
    const fn is_shared<T: Sync + ?Sized>() {}
    is_shared::<dyn PortableKernel>();
};

/// Bytes that are copied in a few microseconds.
const BRIEF_BYTES: u64 = 1 << 15;

impl CommandView {
    /// # Safety
    /// The command is not over, and its body is there, for as long as the view is.
    #[inline]
    pub(crate) unsafe fn of(slot: &NonNull<Slot>) -> &Self {
        // SAFETY: transparent over the pointer; the rest is the caller's to see to.
        unsafe { &*std::ptr::from_ref(slot).cast::<Self>() }
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: an owned command's slot is in use by it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn vtable(&self) -> &'static Vtable {
        let vtable = self.slot().vtable.get();
        debug_assert!(vtable.is_some());
        // SAFETY: a command has a vtable from its construction on; only user
        // events have none, and they are never commands.
        unsafe { vtable.unwrap_unchecked() }
    }

    /// True if its end runs destructors of values that it owns. A graph is not ended by the thread
    /// that begins it.
    #[inline]
    pub(super) fn owns_values(&self) -> bool {
        let vtable = self.vtable();
        vtable.drop.is_some() && vtable.kind != Kind::Graph
    }

    /// The command's event.
    #[inline]
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::new(self.0, self.slot().notify.generation())
    }

    /// The route of the command's queue, in a word: see [`QueueShared::route`].
    #[inline]
    #[must_use]
    pub fn route(&self) -> u64 {
        self.queue().route()
    }

    /// The command's kind.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.vtable().kind
    }

    /// A number for the type of the command's body: the same for launches of
    /// the same kernel type.
    #[inline]
    #[must_use]
    pub fn body_key(&self) -> usize {
        std::ptr::from_ref(self.vtable()).addr()
    }

    /// The queue it was enqueued to.
    #[inline]
    #[must_use]
    pub fn queue(&self) -> &QueueShared {
        let place = self.slot().queue.get();
        debug_assert!(place.is_some());
        // SAFETY: a command has a queue from its construction on; only user events have none, and
        // they are never commands. It is not over, so its queue is in use.
        unsafe { place.unwrap_unchecked().in_use() }
    }

    /// Its name: the user's label, or the body's name.
    #[must_use]
    pub fn label(&self) -> &str {
        self.slot().label()
    }

    /// The error of a driver that cannot do its operation.
    #[must_use]
    pub fn unsupported(&self, driver: &'static str) -> Error {
        ErrorKind::Unsupported {
            driver,
            what: format!("do '{}', a command of kind {:?}", self.label(), self.kind()),
            instead: "enqueue it to a device of another driver",
        }
        .into()
    }

    /// The command's accesses.
    #[inline]
    #[must_use]
    pub fn arguments(&self) -> &[Argument<'_>] {
        // SAFETY: owned and not over.
        unsafe { self.slot().arguments() }
    }

    /// The rows of an argument with gaps between them, in bytes of its memory object: other
    /// commands may use the gaps meanwhile.
    #[must_use]
    pub fn region(&self, argument: usize) -> Option<&Region> {
        let mut regions = self.slot().extension()?.regions.iter();
        regions
            .find(|(of, _)| *of == argument)
            .map(|(_, region)| region)
    }

    /// The address of the body's state.
    #[inline]
    pub(crate) fn state_pointer(&self) -> *mut u8 {
        self.slot().state_pointer()
    }

    /// Work-groups of a launch; 1 for anything else.
    #[inline]
    #[must_use]
    pub fn groups(&self) -> u32 {
        (self.slot().work.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Runs the body natively over a range of its work-groups, with its
    /// arguments resolved by the driver. Unwinds if the body panics.
    ///
    /// # Errors
    /// The error that the body returns.
    ///
    /// # Safety
    /// The command was started; `arguments` point to its arguments' bytes,
    /// valid, and written by nobody else meanwhile as their modes demand; each
    /// group is run at most once. A launch that several calls run was begun by
    /// [`begin_native`](Self::begin_native), which gave no error.
    #[inline]
    pub unsafe fn run_native(
        &self,
        arguments: &[crate::access::RawArgument],
        groups: std::ops::Range<u32>,
    ) -> Result<()> {
        // SAFETY: the state is the vtable's own; the rest as the caller promises.
        let run = || unsafe { (self.vtable().run)(self.state_pointer(), arguments, groups) };
        running::within(self.0, run)
    }

    /// Has the body look at its arguments, resolved by the driver: once, before the first call of
    /// [`run_native`](Self::run_native), if several calls run a launch. Unwinds if the body panics.
    ///
    /// # Errors
    /// The error that the body returns: the command fails, and none of its work-groups is run.
    ///
    /// # Safety
    /// As for [`run_native`](Self::run_native), which was not called for the command yet.
    pub unsafe fn begin_native(&self, arguments: &[crate::access::RawArgument]) -> Result<()> {
        match self.vtable().rare.look {
            Some(look) => {
                // SAFETY: the state is the vtable's own; the rest as the caller promises.
                let look = || unsafe { look(self.state_pointer(), arguments) };
                running::within(self.0, look)
            }
            None => Ok(()),
        }
    }

    /// The kernel as code that drivers compile, if it is a launch of one that has
    /// any.
    #[must_use]
    pub fn portable(&self) -> Option<&dyn PortableKernel> {
        // SAFETY: the state is the vtable's own, and is there for as long as the
        // command is.
        unsafe { (self.vtable().portable)(self.state_pointer()).map(|portable| &*portable) }
    }

    /// True if it is known to be over in a few microseconds once it runs.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        match self.kind() {
            // SAFETY: the state is the vtable's own.
            Kind::Launch => unsafe { (self.vtable().brief)(self.state_pointer(), self.groups()) },
            Kind::Copy | Kind::Fill | Kind::Write | Kind::Read => {
                let bytes =
                    |sum: u64, argument: &Argument<'_>| sum.saturating_add(argument.length());
                self.arguments().iter().fold(0, bytes) <= BRIEF_BYTES
            }
            _ => self.needs_no_device(),
        }
    }

    /// True if the command must not run: cancelled or poisoned.
    #[inline]
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.slot().is_refused()
    }

    /// True for markers, barriers and other commands that any thread can do and
    /// end: by [`Command::finish_without_device`](crate::Command::finish_without_device).
    #[inline]
    #[must_use]
    pub fn needs_no_device(&self) -> bool {
        self.vtable().needs_no_device
    }
}

impl std::fmt::Debug for CommandView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.label(), self.id())
    }
}

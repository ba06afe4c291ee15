//! Launches of kernels, and of closures over indices.

use super::Queue;
use crate::buffer::Buffer;
use crate::element::Element;
use crate::kernel::source;
use crate::kernel::{
    Accesses, EachBody, FillBody, Launch, LaunchBody, Lengths, Passing, Prepared, Shared,
    SharedArguments, Stored, cannot_run, placed, refuse_gaps, refuse_overlap, rows_with_gaps,
};
use crate::layout::Layout;
use crate::parcel::Contained;
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{AcceleratorLimits, Extent, KernelError, WorkDivision};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, BuiltInKernel, DeviceKind, Event, KernelAttributes, RawArgument, Region,
    Request, Result,
};
use std::any::TypeId;
use std::marker::PhantomData;

/// The size or division of a launch: a [`WorkDivision`] (or a result of its constructors), which is
/// checked against the device's limits. Or it is a number of elements (or an extent of them in
/// several dimensions), for which the division that suits the device is found. These are the
/// elements of each output that the threads own parts of.
///
/// ```
/// # use quipu::prelude::*;
/// use quipu::WorkDivision;
///
/// #[kernel]
/// fn double(_acc: &impl Accelerator<1>, mut x: OwnElements<u32>) {
///     for (_, x) in x.each() {
///         *x *= 2;
///     }
/// }
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let mut x = context.buffer(&[1; 100])?;
/// queue.launch(100, double(&mut x))?;
/// assert!(queue.launch(50, double(&mut x)).is_err(), "it has 100");
/// let division = WorkDivision::new(10, 1, 10)?;
/// println!("{} blocks", division.block_count());
/// queue.launch(division, double(&mut x))?;
/// assert_eq!(queue.read(&x)?.wait()?, [4; 100]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no size of a launch",
    label = "write a number of elements, as a `usize`, an array of them, `[rows, columns]`, or a `WorkDivision`",
    note = "a division of blocks, threads and elements is `WorkDivision::new(blocks, threads, elements)?`"
)]
pub trait IntoDivision<const D: usize> {
    /// The division for a device of these limits.
    ///
    /// # Errors
    /// If the device cannot run it.
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<D>, KernelError>;

    /// The elements, if it names nothing else. Then the outputs that threads own parts of have that
    /// extent, and a device that compiles the kernel may choose other blocks, when it knows how
    /// many threads of it it has room for.
    fn elements(&self) -> Option<Extent<D>> {
        None
    }
}

impl<const D: usize> IntoDivision<D> for WorkDivision<D> {
    #[inline]
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<D>, KernelError> {
        self.validate(limits)?;
        Ok(self)
    }
}

impl<const D: usize> IntoDivision<D> for Result<WorkDivision<D>, KernelError> {
    #[inline]
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<D>, KernelError> {
        self?.into_division(limits)
    }
}

impl<const D: usize> IntoDivision<D> for Extent<D> {
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<D>, KernelError> {
        WorkDivision::for_elements(self, limits)
    }

    #[inline]
    fn elements(&self) -> Option<Extent<D>> {
        Some(*self)
    }
}

impl<const D: usize> IntoDivision<D> for [usize; D] {
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<D>, KernelError> {
        WorkDivision::for_elements(self, limits)
    }

    #[inline]
    fn elements(&self) -> Option<Extent<D>> {
        Some((*self).into())
    }
}

impl IntoDivision<1> for usize {
    fn into_division(self, limits: &AcceleratorLimits) -> Result<WorkDivision<1>, KernelError> {
        WorkDivision::for_elements(self, limits)
    }

    #[inline]
    fn elements(&self) -> Option<Extent<1>> {
        Some((*self).into())
    }
}

/// The destination of a launch's body.
pub(crate) trait Enqueue {
    /// The result of enqueuing it.
    type Output;

    /// Has it go there.
    fn enqueue(
        self,
        core: &quipu_scheduler::Queue,
        body: impl NativeKernel,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<Self::Output>;
}

/// To the queue, for an event.
struct Launching;

impl Enqueue for Launching {
    type Output = Event;

    #[inline]
    fn enqueue(
        self,
        core: &quipu_scheduler::Queue,
        body: impl NativeKernel,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<Event> {
        core.launch(body, groups, request)
    }
}

/// To the queue, one-way.
struct Posting;

impl Enqueue for Posting {
    type Output = ();

    #[inline]
    fn enqueue(
        self,
        core: &quipu_scheduler::Queue,
        body: impl NativeKernel,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<()> {
        core.post_launch(body, groups, request)
    }
}

type Boxed<const D: usize> = LaunchBody<Box<dyn Prepared<D>>, D>;

/// Has the code that launches of up to three dimensions have in common compiled with this crate,
/// where it is not optimised. In a debug build the code of many kernels is compiled there, too.
/// rustc takes generic code from there, and crates with kernels need not compile it again.
#[doc(hidden)]
pub fn compiled_here() -> usize {
    fn of<const D: usize>() -> usize {
        let launch: fn(&Queue, Boxed<D>, &[Access<'_>], _) -> _ =
            Queue::enqueue_boxed::<Launching, D>;
        let post: fn(&Queue, Boxed<D>, &[Access<'_>], _) -> _ = Queue::enqueue_boxed::<Posting, D>;
        let pass: fn(Passing<'static>, WorkDivision<D>, Lengths<D>) -> _ = Passing::finish::<D>;
        launch as usize ^ post as usize ^ pass as usize
    }
    if !UNOPTIMISED {
        return 0;
    }
    #[cfg(debug_assertions)]
    let kernels = crate::kernel::precompiled();
    #[cfg(not(debug_assertions))]
    let kernels = 0;
    of::<1>() ^ of::<2>() ^ of::<3>() ^ kernels
}

#[inline]
fn divided<I: IntoDivision<D>, const D: usize>(
    division: I,
    limits: &AcceleratorLimits,
) -> Result<WorkDivision<D>> {
    Ok(division.into_division(limits)?)
}

/// The rows that a launch touches of views with gaps between them.
#[inline]
fn rows_of<P: Prepared<D>, const D: usize>(
    prepared: &P,
    accesses: &[Access<'_>],
) -> Vec<(usize, Region)> {
    if prepared.has_gaps() {
        rows_with_gaps(accesses, |passed| prepared.add_parameters(passed))
    } else {
        Vec::new()
    }
}

impl Queue {
    /// Launches a kernel: a [call](crate::kernel::Call) of one that `#[kernel]` made, or a
    /// [native](crate::native) one.
    ///
    /// `division` says how the work is divided: by a number of elements, or an array of numbers for
    /// several dimensions, or by a [`WorkDivision`]. A number of elements is the length of each
    /// output that the threads own parts of: else the launch is refused.
    ///
    /// A kernel has the memory that it writes for itself:
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// #[kernel]
    /// fn copy(_acc: &impl Accelerator<1>, from: &[u32], mut to: OwnElements<u32>) {
    ///     for (i, to) in to.each() {
    ///         *to = from[i];
    ///     }
    /// }
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let x = context.allocate::<u32>(100)?;
    /// assert!(queue.launch(100, copy(&x, &mut x.clone())).is_err());
    /// assert!(queue.launch(50, copy(&x.slice(..50)?, &mut x.slice(50..)?)).is_ok());
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0502
    /// # use quipu::prelude::*;
    /// # #[kernel]
    /// # fn copy(_acc: &impl Accelerator<1>, from: &[u32], mut to: OwnElements<u32>) {
    /// #     for (i, to) in to.each() { *to = from[i]; }
    /// # }
    /// # fn test(queue: &Queue, mut x: Buffer<u32>) -> quipu::Result<()> {
    /// queue.launch(100, copy(&x, &mut x))?;
    /// # Ok(()) }
    /// ```
    ///
    /// The arguments have to be the kernel's:
    ///
    /// ```compile_fail,E0277
    /// # use quipu::prelude::*;
    /// # #[kernel]
    /// # fn clear(_acc: &impl Accelerator<1>, mut to: OwnElements<u32>) {
    /// #     for (_, to) in to.each() { *to = 0; }
    /// # }
    /// # fn test(queue: &Queue, x: Buffer<u32>) -> quipu::Result<()> {
    /// queue.launch(100, clear(&x))?; // read only
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device cannot run the kernel or the division, the elements are not those of an
    /// output, a written argument overlaps another, a buffer is mapped or of another context, or
    /// the device is lost.
    #[inline]
    pub fn launch<'b, const D: usize>(
        &self,
        division: impl IntoDivision<D>,
        call: impl Launch<'b, D>,
    ) -> Result<Event> {
        self.prepare(division, call, Launching)
    }

    /// As [`Queue::launch`], one-way: gives no future, and costs least.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    #[inline]
    pub fn post_launch<'b, const D: usize>(
        &self,
        division: impl IntoDivision<D>,
        call: impl Launch<'b, D>,
    ) -> Result<()> {
        self.prepare(division, call, Posting)
    }

    /// The attributes of a kernel on the queue's device, as its compiler has made it: registers,
    /// memory, threads that a block can have. Nothing is launched. The kernel is compiled for
    /// indices of 32 bits, which takes as long as it takes, if it was not yet for a launch. Devices
    /// that run native code give the same for all kernels.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # #[kernel]
    /// # fn copy(_acc: &impl Accelerator<1>, from: &[u32], mut to: OwnElements<u32>) {
    /// #     for (i, to) in to.each() { *to = from[i]; }
    /// # }
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// # let (x, mut y) = (context.buffer(&[1, 2])?, context.allocate(2)?);
    /// let attributes = queue.kernel_attributes(copy(&x, &mut y))?;
    /// assert!(attributes.max_block_threads >= 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device cannot run the kernel, or its driver is not told.
    pub fn kernel_attributes<'b, const D: usize>(
        &self,
        call: impl Launch<'b, D>,
    ) -> Result<KernelAttributes> {
        let allowances = call.allowances();
        let prepared = call.prepare(&self.shared.context, &mut Accesses::new())?;
        if !(prepared.is_native() && self.shared.runs_native_code) {
            self.check_code(prepared.name(), prepared.is_native(), prepared.code_type())?;
        }
        let body = LaunchBody {
            prepared,
            division: WorkDivision::new([1; D], [1; D], [1; D])?,
            limits: self.shared.limits,
            automatic: false,
            allowances,
        };
        self.device().core().kernel_attributes(&body)
    }

    /// Makes a launch's body and has it enqueued. Always inlined: the body is then made in the
    /// memory where the core wants it.
    #[inline(always)]
    pub(crate) fn prepare<'b, L: Launch<'b, D>, E: Enqueue, const D: usize>(
        &self,
        division: impl IntoDivision<D>,
        call: L,
        enqueue: E,
    ) -> Result<E::Output> {
        let limits = self.shared.limits;
        let elements = division.elements();
        if let Some(elements) = elements {
            call.check_extent(elements)?;
        }
        let bounds = call.bounds();
        let automatic = elements.is_some() && bounds.leave_division();
        let division = match elements.and_then(|elements| bounds.divide(elements)) {
            Some(in_blocks) => divided(in_blocks, limits)?,
            None => divided(division, &call.limits(limits))?,
        };
        let mut accesses = Accesses::new();
        let allowances = call.allowances();
        let prepared = call.prepare(&self.shared.context, &mut accesses)?;
        if UNOPTIMISED {
            let body = LaunchBody {
                prepared: Box::new(prepared) as Box<dyn Prepared<D>>,
                division,
                limits,
                automatic,
                allowances,
            };
            return self.enqueue_boxed(body, &accesses, enqueue);
        }
        self.check_launch(&prepared, &division, &accesses)?;
        let places = prepared.places();
        let body = LaunchBody {
            prepared,
            division,
            limits,
            automatic,
            allowances,
        };
        let groups = division.block_count() as u64;
        let rows = rows_of(&body.prepared, &accesses);
        let request = Request {
            regions: &rows,
            ..self.request(&accesses)
        };
        let enqueued = enqueue.enqueue(self.core(), body, groups, &request);
        enqueued.map_err(|error| placed(error, places))
    }

    /// The rest of a launch, compiled once for all kernels.
    fn enqueue_boxed<E: Enqueue, const D: usize>(
        &self,
        body: Boxed<D>,
        accesses: &[Access<'_>],
        enqueue: E,
    ) -> Result<E::Output> {
        self.check_launch(&body.prepared, &body.division, accesses)?;
        let places = body.prepared.places();
        let groups = body.division.block_count() as u64;
        let rows = rows_of(&body.prepared, accesses);
        let request = Request {
            regions: &rows,
            ..self.request(accesses)
        };
        let enqueued = enqueue.enqueue(self.core(), body, groups, &request);
        enqueued.map_err(|error| placed(error, places))
    }

    /// Refuses a launch that the device cannot run, or that would race with itself.
    #[inline(always)]
    fn check_launch<P: Prepared<D>, const D: usize>(
        &self,
        prepared: &P,
        division: &WorkDivision<D>,
        accesses: &[Access<'_>],
    ) -> Result<()> {
        prepared.check_blocks(division)?;
        if !(prepared.is_native() && self.shared.runs_native_code) {
            self.check_code(prepared.name(), prepared.is_native(), prepared.code_type())?;
        } else if self.shared.checks_sources {
            source::check(prepared)?;
        }
        refuse_overlap("launch a kernel", accesses, |passed| {
            prepared.add_parameters(passed)
        })
    }

    /// Calls a closure for every element of `output`, in parallel, with its index and the other
    /// arguments, which are read. A closure is native code, which processors of this machine run;
    /// for GPUs, write a `#[kernel]`.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::new()?;
    /// let context = platform.context()?;
    /// let queue = context.queue(&platform.device("cpu")?)?;
    /// let x = context.buffer(&[1.0, 2.0, 3.0])?;
    /// let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
    /// queue.for_each(&mut y, (2.0, &x), |i, y, (a, x)| *y += a * x[i])?;
    /// assert_eq!(queue.read(&y)?.wait()?, [12.0, 24.0, 36.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// Nothing but its own element can be written:
    ///
    /// ```compile_fail,E0277
    /// # use quipu::prelude::*;
    /// # fn test(queue: &Queue, x: &mut Buffer<u32>, y: &mut Buffer<u32>) -> quipu::Result<()> {
    /// queue.for_each(y, (x,), |i, y, (x,)| ())?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the queue's device runs no native code, and as [`Queue::launch`].
    pub fn for_each<'b, T, A, F>(
        &self,
        output: &'b mut Buffer<T>,
        arguments: A,
        each: F,
    ) -> Result<Event>
    where
        T: Element,
        A: SharedArguments<'b>,
        F: for<'a> Fn(usize, &'a mut T, <A::Stored as Shared>::Each<'a>) + Send + Sync + 'static,
    {
        self.prepare_each(output, arguments, each, |core, body, groups, request| {
            core.launch(body, groups, request)
        })
    }

    /// As [`Queue::for_each`], without an event: it enqueues faster. Readers of the output see a
    /// failure.
    ///
    /// # Errors
    /// As [`Queue::for_each`].
    pub fn post_for_each<'b, T, A, F>(
        &self,
        output: &'b mut Buffer<T>,
        arguments: A,
        each: F,
    ) -> Result<()>
    where
        T: Element,
        A: SharedArguments<'b>,
        F: for<'a> Fn(usize, &'a mut T, <A::Stored as Shared>::Each<'a>) + Send + Sync + 'static,
    {
        self.prepare_each(output, arguments, each, |core, body, groups, request| {
            core.post_launch(body, groups, request)
        })
    }

    /// As [`Queue::prepare`], of a closure.
    #[inline(always)]
    pub(crate) fn prepare_each<'b, T, A, F, R>(
        &self,
        output: &'b mut Buffer<T>,
        arguments: A,
        each: F,
        enqueue: impl FnOnce(
            &quipu_scheduler::Queue,
            EachBody<F, T, A::Stored>,
            u64,
            &Request<'_>,
        ) -> Result<R>,
    ) -> Result<R>
    where
        T: Element,
        A: SharedArguments<'b>,
    {
        self.needs_native_code("a closure")?;
        let division = divided(output.len(), self.shared.limits)?;
        let mut accesses = Accesses::new();
        accesses.push(output.access(AccessMode::ReadWrite));
        let stored = arguments.store(&mut accesses)?;
        refuse_overlap("launch a kernel", &accesses, |_| ())?;
        refuse_gaps("launch a kernel", &stored)?;
        let body = EachBody {
            function: Contained::new(each),
            stored,
            share: division.block_elements()[0],
            elements: PhantomData,
        };
        let groups = division.block_count() as u64;
        let enqueued = enqueue(self.core(), body, groups, &self.request(&accesses));
        // The written buffer comes first.
        enqueued.map_err(|error| placed(error, 1 | A::Stored::PLACES << 1))
    }

    /// Refuses a kernel that the queue's device cannot run, because it runs no native code.
    #[inline]
    fn needs_native_code(&self, kernel: &str) -> Result<()> {
        if self.shared.runs_native_code {
            return Ok(());
        }
        Err(cannot_run(self.device(), kernel, true))
    }

    /// Refuses a kernel whose code the queue's device has no compiler for.
    #[cold]
    fn check_code(&self, kernel: &str, is_native: bool, code: Option<TypeId>) -> Result<()> {
        if code == Some(TypeId::of::<quipu_scheduler::BuiltIn>()) {
            let there = self.device().built_in_kernels();
            return BuiltInKernel::find(&there, kernel, self.device().name()).map(drop);
        }
        let driver = self.device().core().driver();
        let is_custom = self.device().kind() == DeviceKind::Custom;
        if !is_custom && code.is_some_and(|code| driver.takes_code(code)) {
            return Ok(());
        }
        Err(cannot_run(self.device(), kernel, is_native))
    }

    /// A fill with a pattern that only native code can repeat.
    pub(super) fn launch_fill<T: Element>(&self, buffer: &Buffer<T>, value: T) -> Result<Event> {
        let accesses = [buffer.access(AccessMode::Overwrite)];
        let request = self.request(&accesses);
        if !self.shared.runs_native_code {
            return self.core().host_task(fill_task(buffer, value), &request);
        }
        let (body, groups) = self.fill_body(buffer, value)?;
        self.core().launch(body, groups, &request)
    }

    /// The body of such a fill, and its groups.
    pub(crate) fn fill_body<T: Element>(
        &self,
        buffer: &Buffer<T>,
        value: T,
    ) -> Result<(FillBody<T>, u64)> {
        let division = divided(buffer.len(), self.shared.limits)?;
        let body = FillBody {
            value,
            share: division.block_elements()[0],
        };
        Ok((body, division.block_count() as u64))
    }
}

/// A fill as a task of the host, on whose access it is called.
pub(crate) fn fill_task<T: Element>(
    buffer: &Buffer<T>,
    value: T,
) -> impl Fn(&[RawArgument]) -> Result<()> + Send + 'static {
    let body = FillBody {
        value,
        share: buffer.len(),
    };
    // SAFETY: the argument is the access, in one group, run once.
    move |arguments| unsafe { body.run(arguments, 0..1) }
}

/// As [`fill_task`], of a view whose rows are apart.
pub(crate) fn fill_rows_task<T: Element, const D: usize>(
    layout: Layout<D>,
    value: T,
) -> impl Fn(&[RawArgument]) -> Result<()> + Send + 'static {
    let row = layout.extent()[D - 1];
    move |arguments| {
        for start in layout.row_starts() {
            let (start, bytes) = (start * size_of::<T>(), row * size_of::<T>());
            assert!(
                start + bytes <= arguments[0].length,
                "a view is within its buffer"
            );
            // SAFETY: within the access, as just checked.
            let pointer = unsafe { arguments[0].pointer.add(start) };
            let of_row = RawArgument {
                pointer,
                length: bytes,
            };
            let body = FillBody { value, share: row };
            // SAFETY: the argument is a part of the access, in one group, run once.
            unsafe { body.run(&[of_row], 0..1) }?;
        }
        Ok(())
    }
}

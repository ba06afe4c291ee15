//! Contexts: devices that share buffers and events.

use crate::buffer::{Buffer, bytes_of};
use crate::device::Device;
use crate::element::Element;
use crate::host::HostView;
use crate::kernel::Program;
use crate::layout::{Layout, View};
use crate::pinned::Pinned;
use crate::queue::Queue;
use crate::variable::Variables;
use quipu_kernel::Extent;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Polling, QueueOptions, Result};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A context. Clones are the same one. Buffers and queues of one context work
/// together, whichever of its devices they are used on; bytes move by
/// themselves.
#[derive(Clone)]
pub struct Context(Arc<ContextShared>);

pub(crate) struct ContextShared {
    variables: Variables,
    core: quipu_scheduler::Context,
    devices: Vec<Device>,
    host: HostQueue,
    queues: Mutex<Vec<Known>>,
    _traced: Traced,
}

/// A queue of the context that may have work in it. The core's queue is kept
/// here until it is empty, also when the last handle to it is gone: so there is
/// no moment at which a wait could miss it.
struct Known {
    device: Device,
    core: quipu_scheduler::Queue,
    dropped: bool,
}

impl Context {
    /// A context of these devices.
    ///
    /// # Errors
    /// If there are none, or one is lost.
    pub fn new(devices: &[Device]) -> Result<Self> {
        let cores: Vec<_> = devices.iter().map(|device| device.core().clone()).collect();
        let traced = Traced::new();
        let core = quipu_scheduler::Context::new(&cores)?;
        Ok(Self(Arc::new(ContextShared {
            variables: Variables::default(),
            host: HostQueue::new(&core)?,
            core,
            devices: devices.to_vec(),
            queues: Mutex::default(),
            _traced: traced,
        })))
    }

    /// Its devices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// The device that is probably fastest. A GPU comes before an accelerator, an accelerator
    /// before a CPU, and a CPU before a simulated device. Among equals, the device with most
    /// multiprocessors comes first. A CPU that works in the host's memory comes before the same CPU
    /// as an OpenCL device. The serial device comes after all of these, then lost devices, then
    /// devices with built-in kernels alone. Devices of nodes count as those of this machine.
    #[must_use]
    pub fn fastest(&self) -> Device {
        use quipu_scheduler::DeviceKind::{Accelerator, Cpu, Custom, Gpu};
        use quipu_scheduler::MemorySpace;
        let rank = |device: &&Device| {
            let properties = device.properties();
            let kind = match properties.kind {
                Gpu => 3,
                Accelerator => 2,
                Cpu => 1,
                _ => 0,
            };
            (
                properties.kind != Custom,
                device.lost().is_none(),
                !properties.caller_runs,
                kind,
                properties.kind == Cpu && properties.memory == MemorySpace::Host,
                properties.multiprocessors,
            )
        };
        let fastest = self.0.devices.iter().rev().max_by_key(rank);
        fastest.cloned().expect("a context has at least one device")
    }

    /// A new queue of one of its devices: in-order, non-blocking, without
    /// timestamps, of normal priority.
    ///
    /// # Errors
    /// If the device is not one of the context's or a part of one, or lost.
    pub fn queue(&self, device: &Device) -> Result<Queue> {
        self.queue_with(device, QueueOptions::default())
    }

    /// A new queue of one of its devices.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// let options = QueueOptions { in_order: false, profiling: true, ..QueueOptions::default() };
    /// let queue = context.queue_with(&context.fastest(), options)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device is not one of the context's or a part of one, or lost.
    pub fn queue_with(&self, device: &Device, options: QueueOptions) -> Result<Queue> {
        let core = self.0.core.queue(device.core(), options)?;
        self.0.forget_empty();
        self.0.queues().push(Known {
            device: device.clone(),
            core: core.clone(),
            dropped: false,
        });
        Ok(Queue::new(core, self.clone(), device.clone()))
    }

    /// Waits until everything that was enqueued to queues of the device or of
    /// its parts before the call is over, in this context, also to queues that
    /// were dropped since. Failed commands are over too.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait_for_device(&self, device: &Device) -> Result<()> {
        self.wait_for_queues(|of| of.is_part_of(device))
    }

    /// Waits until everything that was enqueued in the context before the call
    /// is over: to queues of its devices and of their parts, also to those that
    /// were dropped since. Failed commands are over too.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait(&self) -> Result<()> {
        self.wait_for_queues(|_| true)
    }

    fn wait_for_queues(&self, which: impl Fn(&Device) -> bool) -> Result<()> {
        // In a child of `fork`, another thread may have had the lock.
        quipu_scheduler::process::check()?;
        // Without the lock: a waiting thread may run commands, which may make, drop and wait for
        // queues.
        let cores: Vec<_> = {
            let queues = self.0.queues();
            let chosen = queues.iter().filter(|known| which(&known.device));
            chosen.map(|known| known.core.clone()).collect()
        };
        cores.iter().try_for_each(quipu_scheduler::Queue::wait)?;
        self.0.forget_empty();
        Ok(())
    }

    /// A buffer of so many elements, all zero. Memory is taken where and when a
    /// command first uses it.
    ///
    /// # Errors
    /// If the size overflows.
    pub fn allocate<T: Element>(&self, length: usize) -> Result<Buffer<T>> {
        // No elements are a part of memory for one: every driver allocates at least a byte.
        let bytes = bytes_of::<T>("allocate a buffer", length)?;
        let memory = self.0.core.memory(bytes.max(size_of::<T>() as u64))?;
        memory.set_element_size(size_of::<T>() as u64);
        Ok(Buffer::whole(memory, length))
    }

    /// A view of so many elements in several dimensions, all zero, with no gaps.
    ///
    /// # Errors
    /// If the extent overflows.
    pub fn allocate_nd<T: Element, const D: usize>(
        &self,
        extent: impl Into<Extent<D>>,
    ) -> Result<View<T, D>> {
        self.allocate_layout(Layout::dense(extent)?)
    }

    /// As [`Context::allocate_nd`], with gaps that start each row at a cache
    /// line: its [pitch](Layout::pitch) is a multiple of 64 bytes, if that is
    /// one of the element's size.
    ///
    /// # Errors
    /// If the extent is empty or overflows.
    pub fn allocate_padded<T: Element, const D: usize>(
        &self,
        extent: impl Into<Extent<D>>,
    ) -> Result<View<T, D>> {
        const LINE: usize = 64;
        let extent = extent.into();
        let row = extent.components()[D - 1];
        let step = if size_of::<T>() > 0 && LINE.is_multiple_of(size_of::<T>()) {
            LINE / size_of::<T>()
        } else {
            1
        };
        let pitch = row.checked_next_multiple_of(step).unwrap_or(row);
        self.allocate_layout(Layout::padded(extent, pitch)?)
    }

    fn allocate_layout<T: Element, const D: usize>(&self, layout: Layout<D>) -> Result<View<T, D>> {
        self.allocate(layout.span())?.view(layout)
    }

    /// A buffer with a copy of a container's elements.
    ///
    /// # Errors
    /// If it is larger than the largest buffer.
    pub fn buffer<V: HostView + ?Sized>(&self, host: &V) -> Result<Buffer<V::Element>> {
        self.buffer_from(host.elements().to_vec())
    }

    /// A buffer that *is* the given memory on the host: nothing is copied there.
    /// Devices with memory of their own get copies, as always.
    ///
    /// # Errors
    /// If it is larger than the largest buffer.
    pub fn buffer_from<T: Element>(&self, elements: Vec<T>) -> Result<Buffer<T>> {
        let length = elements.len();
        if length == 0 {
            return self.allocate(0);
        }
        let bytes = bytes_of::<T>("create a buffer", length)?;
        let owner = OwnedVec::new(elements);
        let pointer = owner.pointer.cast();
        // SAFETY: the vector's memory is valid for reads and writes of its
        // length, and reached by nobody until `owner` frees it.
        let memory = unsafe { self.0.core.memory_over(pointer, bytes, Box::new(owner)) }?;
        memory.set_element_size(size_of::<T>() as u64);
        Ok(Buffer::whole(memory, length))
    }

    /// A buffer of so many elements, all zero, in [pinned](Pinned) memory of the host that kernels
    /// read and write where it is. No command copies its elements to a device or back: a GPU
    /// reaches them over the bus, each time that a kernel uses them.
    ///
    /// This pays for elements that are used once, such as input that is read in order, and for a
    /// few that the host looks at between kernels, such as a flag or a count of results. With CUDA
    /// such a buffer may be larger than the device's memory. It takes as much memory of the host,
    /// and is never moved to make room. Elements that a kernel uses several times are better in an
    /// ordinary buffer.
    ///
    /// It is used as any buffer. Commands are ordered by the bytes that they touch, on whichever
    /// devices. [`Queue::map`](crate::Queue::map) and [`map_mut`](crate::Queue::map_mut) wait for
    /// the commands that they have to, and then lend the memory itself. While it is lent, no
    /// command may use it.
    ///
    /// A device that cannot use memory of the host where it is has a copy, as of any buffer.
    /// Results are the same; only the copying is not saved. [`Device::uses_host_memory`] says which
    /// it is: devices of nodes have copies, for they are other machines'.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// #[kernel]
    /// fn double(_acc: &impl Accelerator<1>, mut samples: OwnElements<f32>) {
    ///     for (_, sample) in samples.each() {
    ///         *sample *= 2.0;
    ///     }
    /// }
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let mut samples = context.allocate_mapped::<f32>(1000)?;
    /// queue.map_mut(&samples)?.wait()?.fill(0.5);
    /// queue.launch(1000, double(&mut samples))?;
    /// assert_eq!(queue.map(&samples)?.wait()?[999], 1.0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If it is larger than the largest buffer, or the host has no memory for it. A command fails
    /// if a device's library refuses this memory. After the loss of a device that was using it, it
    /// cannot be used any more: the device may still write there.
    pub fn allocate_mapped<T: Element>(&self, length: usize) -> Result<Buffer<T>> {
        bytes_of::<T>("allocate a buffer", length)?;
        self.mapped_from(Pinned::new(length)?)
    }

    /// As [`Context::allocate_mapped`], a buffer that *is* the given pinned memory, with the
    /// elements that are there. [`Queue::take`](crate::Queue::take) gives the memory back.
    ///
    /// # Errors
    /// If it is larger than the largest buffer.
    pub fn mapped_from<T: Element>(&self, elements: Pinned<T>) -> Result<Buffer<T>> {
        let length = elements.len();
        let bytes = bytes_of::<T>("create a buffer", length)?;
        let (pointer, keeper) = elements.into_keeper();
        // No elements have the memory for one, as everywhere.
        let bytes = bytes.max(size_of::<T>() as u64);
        // SAFETY: pinned memory is valid for reads and writes of its elements, and of one if it has
        // none. It lies in whole pages of its own, which `keeper` keeps pinned and nobody else
        // reaches.
        let memory = unsafe {
            self.0
                .core
                .memory_in_place(pointer, bytes, Box::new(keeper))
        }?;
        memory.set_element_size(size_of::<T>() as u64);
        Ok(Buffer::whole(memory, length))
    }

    /// As [`Context::allocate_mapped`], in managed memory of the context's first device that has
    /// any: a page moves to where it is used, the device's memory or the host's, and stays there
    /// until the other side uses it. NVIDIA GPUs have such memory with CUDA on Linux
    /// ([`managed_memory`](crate::DeviceProperties::managed_memory)). Without such a device the
    /// buffer is mapped.
    ///
    /// This pays for elements that a device uses several times and of which nobody knows before
    /// which they are, as in a large graph or tree, also if all of them are larger than the
    /// device's memory. Where all elements are used, an ordinary buffer is faster: it is copied in
    /// one go. The first use of each page on another side takes longer. The host zeroes all of it
    /// first, so it has to fit in the host's memory, too. What a device has left in its memory is
    /// gone if the device is lost.
    ///
    /// # Errors
    /// If it is larger than the largest buffer, or there is no memory for it.
    pub fn allocate_managed<T: Element>(&self, length: usize) -> Result<Buffer<T>> {
        let bytes = bytes_of::<T>("allocate a buffer", length)?;
        let has_any =
            |device: &&Device| device.properties().managed_memory && device.lost().is_none();
        let Some(device) = self.devices().iter().find(has_any) else {
            return self.allocate_mapped(length);
        };
        let bytes = bytes.max(size_of::<T>() as u64);
        let memory = self.0.core.managed_memory(device.core(), bytes)?;
        memory.set_element_size(size_of::<T>() as u64);
        Ok(Buffer::whole(memory, length))
    }

    /// A program in OpenCL C, for devices that have a compiler for it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::new()?;
    /// let Ok(device) = platform.device("opencl") else {
    ///     return Ok(()); // a machine without OpenCL
    /// };
    /// let context = platform.context()?;
    /// let queue = context.queue(&device)?;
    /// let program = context.program(
    ///     "kernel void saxpy(float a, global const float *x, global float *y, uint n) {
    ///         uint i = get_global_id(0);
    ///         if (i < n) y[i] += a * x[i];
    ///     }",
    /// );
    /// let saxpy = program.kernel("saxpy");
    /// let x = context.buffer(&[1.0f32, 2.0, 3.0])?;
    /// let mut y = context.buffer(&[10.0f32, 20.0, 30.0])?;
    /// // SAFETY: these are its parameters, and it minds `n`.
    /// queue.launch(3, unsafe { saxpy.call((2.0f32, &x, &mut y, 3u32)) })?;
    /// assert_eq!(queue.read(&y)?.wait()?, [12.0, 24.0, 36.0]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn program(&self, source: &str) -> Program {
        Program::new(source)
    }

    /// A program that is a module of SPIR-V, with kernels as OpenCL has them, for devices that run
    /// native code. The machine has to have a translator, `llvm-spirv`.
    ///
    /// # Errors
    /// If it is no such module. Its instructions are read when a kernel of it is first launched.
    pub fn spirv(&self, module: &[u8]) -> Result<Program> {
        Program::of_spirv(module)
    }

    /// Hands polling over to the caller until the returned [`Polling`] is dropped. The caller must
    /// call [`Context::poll`] to notice finished commands, for example between the tasks of a
    /// scheduler. Quipu's threads do not poll meanwhile. This concerns queues with
    /// [`Completion::Polling`](crate::Completion::Polling) on devices of vendors' libraries, in all
    /// contexts. Other queues work as before.
    ///
    /// While any thread waits ([`Event::wait`](crate::Event::wait) and the like), Quipu polls
    /// again, so nothing hangs. Futures and callbacks do not count as waits.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # use quipu::Completion;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// let options = QueueOptions { completion: Completion::Polling, ..QueueOptions::default() };
    /// let queue = context.queue_with(&context.fastest(), options)?;
    /// let polling = context.polling();
    /// let event = queue.marker()?;
    /// while !event.is_complete() {
    ///     context.poll(); // and now and then a task of one's own
    /// }
    /// drop(polling); // from here on, Quipu's threads poll
    /// # Ok(()) }
    /// ```
    pub fn polling(&self) -> Polling {
        self.0.core.polling()
    }

    /// Looks once for commands that have ended on the context's devices: their futures are woken,
    /// their callbacks called, and the commands that waited for them go to their devices. Never
    /// blocks; of several threads one looks. True if there is something on a device still. May be
    /// called without [`Context::polling`], too.
    pub fn poll(&self) -> bool {
        self.0.core.poll()
    }

    /// Marks the context as lost: from now on its queues refuse commands; running commands go on.
    pub fn lose(&self, reason: &str) {
        self.0.core.lose(reason);
    }

    /// The error with which the context was lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&quipu_scheduler::Error> {
        self.0.core.lost()
    }

    /// The context as the core knows it.
    #[must_use]
    pub fn core(&self) -> &quipu_scheduler::Context {
        &self.0.core
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.0.variables
    }

    pub(crate) fn host(&self) -> &HostQueue {
        &self.0.host
    }

    /// Takes note that the last handle to a queue is gone: the commands in it still run.
    pub(crate) fn queue_dropped(&self, core: &quipu_scheduler::Queue) {
        let same = |known: &&mut Known| std::ptr::eq(known.core.shared(), core.shared());
        if let Some(known) = self.0.queues().iter_mut().find(same) {
            known.dropped = true;
        }
        core.flush();
        self.0.forget_empty();
    }
}

impl ContextShared {
    fn queues(&self) -> MutexGuard<'_, Vec<Known>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the dropped queues in which nothing is left.
    fn forget_empty(&self) {
        let empty = |known: &mut Known| known.dropped && known.core.is_empty();
        let forgotten: Vec<_> = self.queues().extract_if(.., empty).collect();
        // Without the lock: the end of a queue is the core's to handle.
        drop(forgotten);
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("devices", &self.0.devices)
            .finish_non_exhaustive()
    }
}

/// A vector's memory, without a vector that would claim to be the only one to
/// reach it.
struct OwnedVec<T> {
    pointer: NonNull<T>,
    length: usize,
    capacity: usize,
}

impl<T> OwnedVec<T> {
    fn new(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        Self {
            pointer: NonNull::from(elements.as_mut_slice()).cast(),
            length: elements.len(),
            capacity: elements.capacity(),
        }
    }
}

// SAFETY: it owns its elements as a vector does.
unsafe impl<T: Send> Send for OwnedVec<T> {}
// SAFETY: a shared one gives nothing.
unsafe impl<T: Sync> Sync for OwnedVec<T> {}

impl<T> Drop for OwnedVec<T> {
    fn drop(&mut self) {
        // SAFETY: taken from a vector by `new`, given back once.
        drop(unsafe { Vec::from_raw_parts(self.pointer.as_ptr(), self.length, self.capacity) });
    }
}

/// Counts the contexts of the process: the last to go completes the trace.
struct Traced(());

static LIVE: AtomicUsize = AtomicUsize::new(0);

impl Traced {
    fn new() -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if LIVE.fetch_sub(1, Ordering::AcqRel) == 1
            && let Err(error) = quipu_scheduler::trace::finish()
        {
            quietly(|| tracing::error!(%error, "the trace could not be completed"));
        }
    }
}

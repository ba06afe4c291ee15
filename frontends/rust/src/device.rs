//! Devices.

use crate::context::Context;
use crate::kernel::BuiltIn;
use quipu_kernel::{AcceleratorLimits, PerDimension};
use quipu_scheduler::driver::Driver;
use quipu_scheduler::{BuiltInKernel, DeviceKind, DeviceProperties, Error, Partition, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A device of a [`Platform`](crate::Platform). Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Device(quipu_scheduler::Device);

impl Device {
    /// The devices of a driver.
    pub(crate) fn all_of(driver: &Arc<dyn Driver>) -> Result<Vec<Self>> {
        let devices = quipu_scheduler::Device::all_of(driver)?;
        Ok(devices.into_iter().map(Self).collect())
    }

    /// A device that the core knows.
    #[cfg(feature = "serve")]
    pub(crate) fn of_core(device: quipu_scheduler::Device) -> Self {
        Self(device)
    }

    /// The device as the core knows it.
    #[must_use]
    pub fn core(&self) -> &quipu_scheduler::Device {
        &self.0
    }

    /// Its name, as people know it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.properties().kind
    }

    /// The name of its driver.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.0.driver_name()
    }

    /// The device's selector, which [`Platform::device`](crate::Platform::device) takes: `cpu:0`,
    /// or `node-1/cuda:1` on another machine.
    #[must_use]
    pub fn selector(&self) -> String {
        self.0.selector()
    }

    /// True if a name means this device: its selector, with or without the number, its machine, or
    /// its driver.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.0.is_called(name)
    }

    /// Everything that is known about it: name, vendor, multiprocessors, the
    /// largest extents and counts of grids, blocks and threads, memory, shared
    /// memory, warp sizes, clock rate.
    #[must_use]
    pub fn properties(&self) -> &DeviceProperties {
        self.0.properties()
    }

    /// Its limits and preferences for work divisions.
    #[must_use]
    pub fn limits(&self) -> AcceleratorLimits {
        limits(self.properties())
    }

    /// The same for as long as the process runs, so that launches can keep it for
    /// nothing. There are as many as there are kinds of devices.
    pub(crate) fn shared_limits(&self) -> &'static AcceleratorLimits {
        static KNOWN: Mutex<Vec<&'static AcceleratorLimits>> = Mutex::new(Vec::new());
        let limits = self.limits();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter().find(|known| ***known == limits) {
            Some(known) => known,
            None => {
                let leaked: &'static _ = Box::leak(Box::new(limits));
                known.push(leaked);
                leaked
            }
        }
    }

    /// True if kernels there can wait for all blocks of their launch
    /// ([`GridAccelerator`](crate::kernels::GridAccelerator)). Processors and NVIDIA GPUs with CUDA
    /// can, also those of nodes. Of an older node's device it is not known, and this is false.
    #[must_use]
    pub fn has_grid_barrier(&self) -> bool {
        self.0.has_grid_barrier()
    }

    /// True if kernels there can order memory accesses of different blocks by
    /// [`fence_device`](crate::kernels::Accelerator::fence_device). All devices can but those of
    /// OpenCL whose language is 1.2, or 3.0 without that. Of an older node's device it is not
    /// known, and this is false.
    #[must_use]
    pub fn has_device_fence(&self) -> bool {
        self.0.has_device_fence()
    }

    /// True if kernels there read and write [mapped](Context::allocate_mapped) buffers where they
    /// are, in memory of the host: on processors, NVIDIA GPUs with CUDA, simulated devices, and
    /// processors as devices of OpenCL. Other devices have copies, as of any buffer.
    #[must_use]
    pub fn uses_host_memory(&self) -> bool {
        self.0.uses_host_memory()
    }

    /// The kernels that it has built in: a camera's next frame, a decoder's output. Devices of the
    /// kind [`Custom`](DeviceKind::Custom) run these and no others.
    #[must_use]
    pub fn built_in_kernels(&self) -> Vec<BuiltInKernel> {
        self.0.built_in_kernels()
    }

    /// A kernel that it has built in, to be [called](BuiltIn::call) and launched there.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// use quipu::drivers::sources::{Options, Source};
    /// # fn main() -> quipu::Result<()> {
    /// let camera = Source::frames("camera", vec![b"a frame".to_vec(), b"another one".to_vec()]);
    /// let sources = Options::new().source(camera).start()?;
    /// let context = Platform::builder().driver(sources).build()?.context()?;
    /// let camera = context.devices().iter().find(|device| device.name() == "camera").unwrap();
    /// let next_frame = camera.built_in_kernel("next_frame")?;
    ///
    /// let queue = context.queue(camera)?;
    /// let (mut position, mut size) = (context.allocate::<u64>(1)?, context.allocate::<u64>(1)?);
    /// let mut frame = context.allocate::<u8>(100)?;
    /// frame.set_content_size(Some(&size))?;
    /// for _ in 0..2 {
    ///     queue.launch(1, next_frame.call((&mut position, frame.overwrite(), &mut size)))?;
    /// }
    /// assert_eq!(queue.read(&frame)?.wait()?[..12], *b"another one\0");
    /// assert_eq!(queue.read(&size)?.wait()?, [11]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If it has none of this name; lists those that it has.
    pub fn built_in_kernel(&self, name: &str) -> Result<BuiltIn> {
        let kernels = self.built_in_kernels();
        BuiltInKernel::find(&kernels, name, self.name()).map(BuiltIn::new)
    }

    /// Bytes of its memory that are free, if known.
    #[must_use]
    pub fn free_memory(&self) -> Option<u64> {
        self.0.free_memory()
    }

    /// Splits the device into parts that are devices themselves.
    ///
    /// # Errors
    /// If it cannot be split so.
    pub fn partition(&self, partition: &Partition) -> Result<Vec<Self>> {
        let parts = self.0.partition(partition)?;
        Ok(parts.into_iter().map(Self).collect())
    }

    /// True if it is the other device, or a part of it, or of a part of it.
    pub(crate) fn is_part_of(&self, other: &Self) -> bool {
        let mut ancestors = std::iter::successors(Some(&self.0), |device| device.parent());
        ancestors.any(|device| *device == other.0)
    }

    /// Resets the device, for every context: the commands that run on it fail, their output is as
    /// lost as after any failure, and the device is usable again.
    ///
    /// # Errors
    /// If it cannot be reset. Devices whose memory is the host's keep nothing
    /// that could be.
    pub fn reset(&self) -> Result<()> {
        quipu_scheduler::process::check()?;
        self.0.driver().reset(self.0.index())
    }

    /// The error with which the device was lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&Error> {
        self.0.lost()
    }

    /// A context of this device alone.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn context(&self) -> Result<Context> {
        Context::new(std::slice::from_ref(self))
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {})",
            self.name(),
            self.kind(),
            self.driver_name()
        )
    }
}

/// Properties as the kernel language wants them.
fn limits(properties: &DeviceProperties) -> AcceleratorLimits {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let each = |[slower, second, fastest]: [u64; 3]| PerDimension {
        fastest: count(fastest),
        second: count(second),
        slower: count(slower),
    };
    let mut limits = AcceleratorLimits::native(properties.multiprocessors as usize);
    limits.warp_size = properties.warp_sizes.iter().copied().max().unwrap_or(1) as usize;
    limits.grid_blocks = each(properties.max_grid_blocks);
    limits.grid_block_count = count(properties.max_grid_block_count);
    limits.block_threads = each(properties.max_block_threads);
    limits.block_thread_count = count(properties.max_block_thread_count);
    limits.thread_elements = each(properties.max_thread_elements);
    limits.thread_element_count = count(properties.max_thread_element_count);
    limits.shared_bytes = count(properties.shared_memory_per_block);
    if properties.kind == DeviceKind::Gpu {
        // Enough threads to hide the latency of memory, few elements for each.
        limits.preferred_block_threads = 256;
        limits.preferred_thread_elements = 4;
    }
    limits
}

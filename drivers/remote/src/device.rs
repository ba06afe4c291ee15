//! Properties of a node's devices.

use crate::link::Link;
use quipu_clc::{Image, LinkedKernel, SpirV};
use quipu_device_queue::VendorDevice;
use quipu_kernel_ir::KernelText;
use quipu_link::session::NodeDevice;
use quipu_protocol::message::{self, DeviceBits, DeviceDetails, Takes};
use quipu_scheduler::{
    BuiltIn, BuiltInKernel, DeviceKind, DeviceProperties, MemoryCache, MemorySpace, TextFeatures,
};
use std::any::TypeId;
use std::sync::Arc;

/// A device of a node.
pub struct Device {
    properties: DeviceProperties,
    /// Its selector on the node.
    selector: String,
    pub(crate) number: u32,
    pub(crate) takes: Takes,
    details: Option<DeviceDetails>,
    kernels: Vec<BuiltInKernel>,
    pub(crate) link: Arc<Link>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.properties.name.fmt(formatter)
    }
}

impl VendorDevice for Device {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn selector(&self) -> Option<String> {
        Some(format!("{}/{}", self.link.node, self.selector))
    }

    fn built_in_kernels(&self) -> Vec<BuiltInKernel> {
        self.kernels.clone()
    }

    fn has_device_fence(&self) -> bool {
        self.is(DeviceBits::DEVICE_FENCE)
    }

    fn has_grid_barrier(&self) -> bool {
        self.is(DeviceBits::GRID_BARRIER)
    }

    fn text_features(&self) -> TextFeatures {
        let has = |bit: u16| self.takes.0 & bit != 0;
        let details = self.details.unwrap_or_default();
        let is = |bit: u32| self.is(bit);
        let known = |number: u64| (number != 0).then_some(number);
        let known_32 = |number: u32| (number != 0).then_some(number);
        TextFeatures {
            doubles: has(Takes::DOUBLES),
            halves: has(Takes::HALVES),
            wide_atomics: has(Takes::WIDE_ATOMICS),
            optional_language: has(Takes::OPTIONAL_LANGUAGE),
            non_uniform_blocks: has(Takes::NON_UNIFORM_BLOCKS),
            denormals: is(DeviceBits::DENORMALS),
            fused_multiply_add: is(DeviceBits::FUSED_MULTIPLY_ADD),
            constant_bytes: known(details.constant_bytes),
            vendor_number: known_32(details.vendor_number),
            part_alignment: known(details.part_alignment),
            address_bits: known_32(details.address_bits),
            cache: is(DeviceBits::CACHE).then(|| MemoryCache {
                bytes: details.cache_bytes,
                line: details.cache_line,
                takes_writes: is(DeviceBits::CACHE_TAKES_WRITES),
            }),
            corrects_errors: is(DeviceBits::CORRECTS_ERRORS),
            extended_language: is(DeviceBits::EXTENDED_LANGUAGE),
            argument_bytes: known(details.argument_bytes),
            uuid: Some(details.uuid).filter(|uuid| *uuid != [0; 16]),
        }
    }

    fn takes_code(&self, of: TypeId) -> bool {
        let needed = if of == TypeId::of::<KernelText>() {
            Takes::OPENCL_C
        } else if of == TypeId::of::<LinkedKernel>() {
            Takes::PARTS
        } else if of == TypeId::of::<SpirV>() {
            Takes::SPIRV
        } else if of == TypeId::of::<Image>() {
            Takes::IMAGES
        } else if of == TypeId::of::<BuiltIn>() {
            Takes::BUILT_IN
        } else {
            Takes::NATIVE
        };
        self.takes.0 & needed != 0
    }
}

impl Device {
    /// True if the node says that it has this property.
    fn is(&self, property: u32) -> bool {
        let details = self.details.as_ref();
        details.is_some_and(|details| details.properties.has(property))
    }

    /// A device, if the node's description of it makes sense.
    pub(crate) fn new(
        number: usize,
        device: &NodeDevice,
        link: &Arc<Link>,
        space: usize,
    ) -> Result<Self, String> {
        let kernels = device.kernels.lines().map(str::parse);
        let kernels: Result<Vec<BuiltInKernel>, String> = kernels.collect();
        let kernels = kernels.map_err(|problem| {
            format!(
                "node '{}' offers a built-in kernel that makes no sense: {problem}",
                link.node
            )
        })?;
        let kind = match device.kind {
            message::DeviceKind::Cpu => DeviceKind::Cpu,
            message::DeviceKind::Gpu => DeviceKind::Gpu,
            message::DeviceKind::Accelerator => DeviceKind::Accelerator,
            message::DeviceKind::Simulated => DeviceKind::Simulated,
            message::DeviceKind::Custom => DeviceKind::Custom,
        };
        let terms = &link.terms;
        let properties = DeviceProperties {
            name: format!("{} on {}", device.name, link.node),
            kind,
            vendor: device.vendor.clone(),
            multiprocessors: device.multiprocessors,
            max_grid_blocks: device.max_grid_blocks,
            max_grid_block_count: device.max_grid_block_count,
            max_block_threads: device.max_block_threads,
            max_block_thread_count: device.max_block_thread_count,
            max_thread_elements: device.max_thread_elements,
            max_thread_element_count: device.max_thread_element_count,
            shared_memory_per_block: device.shared_memory_per_block,
            global_memory: device.global_memory.min(terms.max_session_bytes),
            max_buffer: device.max_buffer.min(terms.max_buffer_bytes),
            warp_sizes: device.warp_sizes.clone(),
            clock_mhz: (device.clock_mhz != 0).then_some(device.clock_mhz),
            // The place of a buffer's bytes on the node is the node's affair.
            memory: MemorySpace::Own(space as u32),
            domain: Some(0),
            concurrent_commands: device.concurrent_commands,
            caller_runs: false,
            // Another machine cannot reach this one's memory: its devices have copies.
            maps_host_memory: false,
            managed_memory: false,
        };
        Ok(Self {
            properties,
            selector: device.selector.clone(),
            number: number as u32,
            takes: device.takes,
            details: device.details,
            kernels,
            link: link.clone(),
        })
    }
}

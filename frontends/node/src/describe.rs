//! Descriptions of devices in the protocol's words.

use crate::session::runs_texts;
use quipu_clc::{Image, LinkedKernel};
use quipu_kernel_ir::{KernelText, Module};
use quipu_protocol::limits::{LARGE, MAX_NAME, MAX_TEXT, MAX_WARP_SIZES};
use quipu_protocol::message::{self, DeviceBits, DeviceDetails, Takes, presentable};
use quipu_scheduler::{Device, DeviceKind};
use std::any::TypeId;

/// Makes `use_them` see all devices as messages, which borrow.
pub(crate) fn described<R>(
    devices: &[Device],
    use_them: impl FnOnce(&[message::Device<'_>]) -> R,
) -> R {
    let texts: Vec<_> = devices
        .iter()
        .map(|device| {
            let properties = device.properties();
            let text = |text: &str| presentable(text, MAX_NAME);
            let sizes = properties.warp_sizes.iter().copied();
            let sizes = sizes.filter(|size| size.is_power_of_two());
            let sizes: Vec<_> = sizes.take(MAX_WARP_SIZES).map(Into::into).collect();
            let selector = text(&device.selector());
            let mut kernels = String::new();
            for kernel in device.built_in_kernels() {
                let line = kernel.to_string();
                // What finds no room is not offered.
                if kernels.len() + 1 + line.len() <= MAX_TEXT {
                    let before = if kernels.is_empty() { "" } else { "\n" };
                    kernels.push_str(before);
                    kernels.push_str(&line);
                }
            }
            (
                kernels,
                text(&properties.name),
                text(&properties.vendor),
                selector,
                sizes,
            )
        })
        .collect();
    let all = devices.iter().zip(&texts).enumerate();
    let messages: Vec<_> = all
        .map(
            |(number, (device, (kernels, name, vendor, selector, warp_sizes)))| {
                let properties = device.properties();
                message::Device {
                    number: number as u32,
                    kind: kind(properties.kind),
                    takes: takes(device, kernels, devices),
                    multiprocessors: properties.multiprocessors,
                    clock_mhz: properties.clock_mhz.unwrap_or(0),
                    max_grid_blocks: properties.max_grid_blocks,
                    max_grid_block_count: properties.max_grid_block_count,
                    max_block_threads: properties.max_block_threads,
                    max_block_thread_count: properties.max_block_thread_count,
                    max_thread_elements: properties.max_thread_elements,
                    max_thread_element_count: properties.max_thread_element_count,
                    shared_memory_per_block: properties.shared_memory_per_block,
                    global_memory: properties.global_memory,
                    max_buffer: properties.max_buffer,
                    concurrent_commands: properties.concurrent_commands,
                    warp_sizes,
                    name,
                    vendor,
                    selector,
                    kernels,
                    details: Some(details(device)),
                }
            },
        )
        .collect();
    use_them(&messages)
}

fn kind(kind: DeviceKind) -> message::DeviceKind {
    match kind {
        DeviceKind::Cpu => message::DeviceKind::Cpu,
        DeviceKind::Gpu => message::DeviceKind::Gpu,
        DeviceKind::Simulated => message::DeviceKind::Simulated,
        DeviceKind::Custom => message::DeviceKind::Custom,
        _ => message::DeviceKind::Accelerator,
    }
}

/// The programs that a device takes, one of all that the node has.
fn takes(device: &Device, kernels: &str, all: &[Device]) -> Takes {
    let driver = device.driver();
    let mut takes = 0;
    let is_native = runs_texts(device);
    let is_twice = driver.name() == "cuda" && all.iter().any(is_nvidias);
    let compiles = |of| is_native || driver.takes_code(of) && !is_twice;
    if compiles(TypeId::of::<KernelText>()) {
        takes |= Takes::OPENCL_C;
    }
    if compiles(TypeId::of::<LinkedKernel>()) {
        takes |= Takes::PARTS;
        if quipu_clc::takes_spirv() {
            takes |= Takes::SPIRV;
        }
    }
    if compiles(TypeId::of::<Image>()) {
        takes |= Takes::IMAGES;
    }
    // What the node's program has natively it also has as a module.
    if driver.runs_native_code() || driver.takes_code(TypeId::of::<Module>()) {
        takes |= Takes::NATIVE;
    }
    if !kernels.is_empty() {
        takes |= Takes::BUILT_IN;
    }
    if takes & Takes::OPENCL_C != 0 {
        takes |= text_features(device);
    }
    Takes(takes)
}

/// True for a GPU of NVIDIA's OpenCL. Programs for OpenCL have such GPUs once, by that.
fn is_nvidias(device: &Device) -> bool {
    let properties = device.properties();
    device.driver_name() == "opencl"
        && properties.kind == DeviceKind::Gpu
        && properties.vendor.to_ascii_lowercase().contains("nvidia")
}

/// The details of a device, as its driver says. This machine's compiler
/// for native code has all of the language, and takes all arguments that a launch can have.
fn details(device: &Device) -> DeviceDetails {
    let features = device.text_features();
    let is_native = runs_texts(device);
    let cache = features.cache;
    let bits = [
        (features.denormals, DeviceBits::DENORMALS),
        (features.fused_multiply_add, DeviceBits::FUSED_MULTIPLY_ADD),
        (features.corrects_errors, DeviceBits::CORRECTS_ERRORS),
        (cache.is_some(), DeviceBits::CACHE),
        (
            cache.is_some_and(|cache| cache.takes_writes),
            DeviceBits::CACHE_TAKES_WRITES,
        ),
        (
            features.extended_language || is_native,
            DeviceBits::EXTENDED_LANGUAGE,
        ),
        (device.has_device_fence(), DeviceBits::DEVICE_FENCE),
        (device.has_grid_barrier(), DeviceBits::GRID_BARRIER),
    ];
    let bits = bits.into_iter().filter(|(has, _)| *has);
    let most_arguments = is_native.then_some(LARGE.parameters as u64);
    let alignment = features.part_alignment.filter(|it| it.is_power_of_two());
    DeviceDetails {
        properties: DeviceBits(bits.fold(0, |all, (_, bit)| all | bit)),
        address_bits: features.address_bits.unwrap_or(0),
        vendor_number: features.vendor_number.unwrap_or(0),
        cache_line: cache.map_or(0, |cache| cache.line),
        cache_bytes: cache.map_or(0, |cache| cache.bytes),
        constant_bytes: features.constant_bytes.unwrap_or(0),
        part_alignment: alignment.unwrap_or(0),
        argument_bytes: features.argument_bytes.or(most_arguments).unwrap_or(0),
        uuid: features.uuid.unwrap_or_default(),
    }
}

/// The features of OpenCL C of a device's compiler. This machine's compiler for native code has all
/// of them, and `half` arithmetic if the processor has it.
fn text_features(device: &Device) -> u16 {
    let features = device.text_features();
    let bits = [
        (features.doubles, Takes::DOUBLES),
        (features.wide_atomics, Takes::WIDE_ATOMICS),
        (features.optional_language, Takes::OPTIONAL_LANGUAGE),
        (features.non_uniform_blocks, Takes::NON_UNIFORM_BLOCKS),
    ];
    let is_native = device.driver().runs_native_code();
    let bits = bits.into_iter().filter(|(has, _)| *has || is_native);
    let has_half = features.halves || is_native && quipu_clc::has_half();
    let halves = if has_half { Takes::HALVES } else { 0 };
    bits.fold(halves, |all, (_, bit)| all | bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_driver_cpu::{CpuDriver, Options};
    use quipu_scheduler::Driver;
    use std::sync::Arc;

    #[test]
    fn a_processor_that_takes_texts_takes_all_that_the_compiler_has() {
        let driver: Arc<dyn Driver> = CpuDriver::start(Options::new()).unwrap();
        let devices = Device::all_of(&driver).unwrap();
        let told = takes(&devices[0], "", &devices).0;
        let wanted = match told & Takes::OPENCL_C {
            0 => 0,
            _ => Takes::TEXT_FEATURES,
        };
        assert_eq!(told & Takes::TEXT_FEATURES, wanted);
    }
}

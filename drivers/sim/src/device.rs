//! Properties of the simulated devices, from the machine's configuration.

use crate::engine::Configuration;
use quipu_scheduler::{DeviceKind, DeviceProperties, MemorySpace};

/// Bytes that a block may share: as many as a multiprocessor of a small accelerator has.
const SHARED_MEMORY: u64 = 64 << 10;
/// Threads of a block, in all and per dimension.
const BLOCK_THREADS: u64 = 1024;

/// A device's name.
pub(crate) fn name(index: usize) -> String {
    format!("simulated device {index}")
}

/// The properties of all devices of the machine.
pub(crate) fn properties(
    configuration: &Configuration,
    caller_runs: bool,
) -> Vec<DeviceProperties> {
    configuration
        .devices
        .iter()
        .enumerate()
        .map(|(index, device)| {
            let space = u32::from(device.space.0);
            let capacity = configuration.spaces[usize::from(device.space.0)].capacity;
            DeviceProperties {
                name: name(index),
                kind: DeviceKind::Simulated,
                vendor: "Quipu".to_owned(),
                multiprocessors: u32::try_from(device.parallel_groups).unwrap_or(u32::MAX),
                max_grid_blocks: [quipu_scheduler::front::MAX_GROUPS; 3],
                max_grid_block_count: quipu_scheduler::front::MAX_GROUPS,
                max_block_threads: [BLOCK_THREADS; 3],
                max_block_thread_count: BLOCK_THREADS,
                max_thread_elements: [u64::MAX; 3],
                max_thread_element_count: u64::MAX,
                shared_memory_per_block: SHARED_MEMORY,
                global_memory: capacity,
                max_buffer: capacity.min(quipu_scheduler::access::MAX_MEMORY_BYTES),
                warp_sizes: vec![1],
                clock_mhz: None,
                memory: MemorySpace::Own(space),
                // Devices of one space poll one event-status area.
                domain: Some(space),
                // However their simulated times overlap, bodies are run one after another: two that
                // meet never would.
                concurrent_commands: 1,
                caller_runs,
                maps_host_memory: true,
                managed_memory: false,
            }
        })
        .collect()
}

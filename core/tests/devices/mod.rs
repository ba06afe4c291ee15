//! Device properties for the drivers of tests.

use quipu_scheduler::{DeviceKind, DeviceProperties, MemorySpace};

/// One device that works in the host's memory, without a sync domain.
pub(crate) fn one(name: &str) -> Vec<DeviceProperties> {
    vec![DeviceProperties {
        name: name.to_owned(),
        kind: DeviceKind::Accelerator,
        vendor: "the test".to_owned(),
        multiprocessors: 1,
        max_grid_blocks: [1; 3],
        max_grid_block_count: 1,
        max_block_threads: [1; 3],
        max_block_thread_count: 1,
        max_thread_elements: [1; 3],
        max_thread_element_count: 1,
        shared_memory_per_block: 0,
        global_memory: 0,
        max_buffer: 0,
        warp_sizes: vec![1],
        clock_mhz: None,
        memory: MemorySpace::Host,
        domain: None,
        concurrent_commands: 1,
        caller_runs: false,
    }]
}

//! Properties of the CPU's devices.

use quipu_scheduler::{DeviceKind, DeviceProperties, MemorySpace};

/// Bytes that a block may share: they fit a core's second-level cache.
const SHARED_MEMORY: u64 = 1 << 20;

/// The properties of a device of `cores` workers.
pub(crate) fn properties(name: String, cores: usize, caller_runs: bool) -> DeviceProperties {
    let (total, _) = memory();
    DeviceProperties {
        name,
        kind: DeviceKind::Cpu,
        vendor: vendor(),
        multiprocessors: cores as u32,
        max_grid_blocks: [u64::from(u32::MAX) / 2; 3],
        max_grid_block_count: quipu_scheduler::front::MAX_GROUPS,
        max_block_threads: [1024; 3],
        max_block_thread_count: 1024,
        max_thread_elements: [u64::MAX; 3],
        max_thread_element_count: u64::MAX,
        shared_memory_per_block: SHARED_MEMORY,
        global_memory: total,
        max_buffer: quipu_scheduler::access::MAX_MEMORY_BYTES.min(total),
        warp_sizes: vec![1],
        clock_mhz: clock_mhz(),
        memory: MemorySpace::Host,
        domain: None,
        concurrent_commands: cores as u32,
        caller_runs,
    }
}

/// Total and available bytes of the host's memory; zeros where the system does
/// not say.
pub(crate) fn memory() -> (u64, u64) {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else {
        return (0, 0);
    };
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| {
                rest.trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<u64>()
                    .ok()
            })
            .map_or(0, |kib| kib * 1024)
    };
    (field("MemTotal:"), field("MemAvailable:"))
}

fn cpuinfo(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines()
        .find(|line| line.starts_with(name))
        .and_then(|line| line.split_once(':'))
        .map(|(_, value)| value.trim().to_owned())
}

/// The processor's name.
pub(crate) fn model() -> String {
    cpuinfo("model name").unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

fn vendor() -> String {
    cpuinfo("vendor_id").unwrap_or_else(|| "unknown".to_owned())
}

fn clock_mhz() -> Option<u32> {
    cpuinfo("cpu MHz")?
        .parse::<f64>()
        .ok()
        .map(|mhz| mhz as u32)
}

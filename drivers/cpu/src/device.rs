//! Properties of the CPU's devices.

use quipu_scheduler::{DeviceKind, DeviceProperties, MemorySpace};
use std::path::Path;

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
        // Its own memory is the host's.
        maps_host_memory: false,
        managed_memory: false,
    }
}

/// Total and available bytes of the memory that this process may have: the host's, or at most its
/// control groups' limit. Zeros where the system does not say.
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
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let most = limit_of_groups(Path::new(GROUPS), &groups);
    (
        field("MemTotal:").min(most),
        field("MemAvailable:").min(most),
    )
}

/// The folder in which the system shows control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// The least memory that a control group of this process, or a group around it, may have. `groups`
/// says which groups it is in; within a container they may be named as the host names them, and the
/// container's own is the outermost that is shown.
fn limit_of_groups(shown: &Path, groups: &str) -> u64 {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (controllers, own) = (parts.nth(1), parts.next().unwrap_or_default());
        let (folder, file) = match controllers {
            Some("") => (shown.to_owned(), "memory.max"),
            Some(names) if names.split(',').any(|name| name == "memory") => {
                (shown.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let own = Path::new(own.trim_start_matches('/'));
        let around = own.ancestors().map(|group| folder.join(group).join(file));
        around.collect()
    });
    let limits = limits.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.min().unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_groups_of_the_process_may_have() {
        let shown = tempfile::tempdir().unwrap();
        let put = |name: &str, limit: &str| {
            let path = shown.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, limit).unwrap();
        };
        put("a/memory.max", "5000\n");
        put("a/b/memory.max", "max\n");
        put("memory/c/memory.limit_in_bytes", "4000\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        for (groups, most) in [
            ("0::/a/b\n", 5000),
            ("0::/\n", u64::MAX),
            ("0::/of/a/host/named\n", u64::MAX),
            ("7:cpu,cpuacct:/c\n3:memory:/c/d\n1:name=systemd:/a\n", 4000),
            ("3:memory:/\n0::/a\n", 5000),
            ("3:memory:/elsewhere\n", 9_223_372_036_854_771_712),
            ("", u64::MAX),
        ] {
            assert_eq!(limit_of_groups(shown.path(), groups), most, "{groups}");
        }
        // A container's own group is the outermost that it sees.
        put("memory.max", "3000\n");
        assert_eq!(limit_of_groups(shown.path(), "0::/of/a/host/named"), 3000);
    }
}

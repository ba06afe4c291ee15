//! This process's use of the machine: processor time, context switches, resident memory.

use std::time::Duration;

/// Processor time and context switches of all threads of this process since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor, in user code and in the kernel.
    pub processor: Duration,
    /// The number of times that a thread went to sleep or was taken off a processor.
    pub switches: u64,
}

impl Usage {
    /// The usage so far; `None` where the system does not tell.
    #[cfg(unix)]
    pub fn now() -> Option<Self> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid timespec for the call to write; the clock exists on every Unix
        // that libc names it for, and an error is told by the return value.
        if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0 {
            return None;
        }
        // SAFETY: rusage is plain integers, for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid rusage for the call to write.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
            return None;
        }
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
        Some(Usage {
            processor: Duration::new(seconds, nanoseconds),
            switches: u64::try_from(usage.ru_nvcsw).ok()? + u64::try_from(usage.ru_nivcsw).ok()?,
        })
    }

    /// The usage so far; `None` where the system does not tell.
    #[cfg(not(unix))]
    pub fn now() -> Option<Self> {
        None
    }

    /// The use since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            processor: self.processor.saturating_sub(before.processor),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// The time for which the calling thread has had a processor; `None` where the system does not
/// tell.
#[cfg(unix)]
pub fn thread_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to what it is given, which is there; the clock exists on every Unix
    // that libc names it for.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return None;
    }
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Some(Duration::new(seconds.ok()?, nanoseconds.ok()?))
}

/// The time for which the calling thread has had a processor; `None` where the system does not
/// tell.
#[cfg(not(unix))]
pub fn thread_time() -> Option<Duration> {
    None
}

/// Bytes of this process that lie in main memory; `None` where the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn computing_uses_processor_time() {
        let before = Usage::now().expect("Linux tells");
        let mut sum = 0_u64;
        for number in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let used = Usage::now().expect("Linux tells").since(before);
        assert!(used.processor > Duration::ZERO);
    }

    #[test]
    fn touched_memory_becomes_resident() {
        let grows = || {
            let before = resident_bytes().expect("Linux tells");
            let block = std::hint::black_box(vec![1_u8; 64 << 20]);
            let after = resident_bytes().expect("Linux tells");
            drop(block);
            after >= before + (32 << 20)
        };
        // Other tests of this process may give back as much meanwhile.
        assert!((0..100).any(|_| grows()));
    }
}

//! Pinning threads to cores.

/// Pins the calling thread to a core. Where that is not possible, says so in
/// the log and goes on.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(core: usize) {
    // SAFETY: an all-zero set is valid; the macros stay within it for cores
    // below its size, which is checked.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core >= libc::CPU_SETSIZE as usize {
            -1
        } else {
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
        }
    };
    if outcome != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!(core, %error, "a worker could not be pinned; it runs anywhere");
    }
}

/// Pins the calling thread to a core. Not possible on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to(core: usize) {
    tracing::warn!(core, "pinning is not supported on this system");
}

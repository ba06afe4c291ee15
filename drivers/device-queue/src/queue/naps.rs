//! Sleeping for microseconds: a system that is free to wake threads late, or several at once, is
//! told not to.

/// As long as this lives, this thread is woken at the time that it asked for, as far as the system
/// can: Linux otherwise adds 50 µs.
pub(crate) struct PreciseNaps {
    #[cfg(target_os = "linux")]
    slack: libc::c_int,
}

impl PreciseNaps {
    #[cfg(target_os = "linux")]
    pub(crate) fn begin() -> Self {
        // SAFETY: about this thread, and reads no memory.
        let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        set_slack(1);
        Self { slack }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn begin() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for PreciseNaps {
    fn drop(&mut self) {
        if self.slack > 0 {
            set_slack(self.slack);
        }
    }
}

/// Sets the nanoseconds by which this thread may be woken late. If the system refuses, they stay as
/// they are.
#[cfg(target_os = "linux")]
fn set_slack(nanoseconds: libc::c_int) {
    let nanoseconds = libc::c_ulong::try_from(nanoseconds).unwrap_or(1);
    // SAFETY: about this thread, and reads no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::PreciseNaps;

    #[test]
    fn the_threads_own_slack_is_given_back() {
        // SAFETY: about this thread, and reads no memory.
        let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let before = slack();
        {
            let _precisely = PreciseNaps::begin();
            assert_eq!(slack(), 1);
        }
        assert_eq!(slack(), before);
    }
}

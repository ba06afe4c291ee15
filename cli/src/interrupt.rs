//! Clean-up before Ctrl-C, or another process, ends this one.

#[cfg(unix)]
pub(crate) use unix::{give_way, on_interrupt};

/// Does nothing: the system removes the files in its temporary folder.
#[cfg(not(unix))]
pub(crate) fn on_interrupt(_then: impl FnOnce() + Send + 'static) {}

/// Nothing waits for interrupts.
#[cfg(not(unix))]
pub(crate) fn give_way() {}

#[cfg(unix)]
mod unix {
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// An interrupt has come, and the process is about to end.
    static ENDING: AtomicBool = AtomicBool::new(false);

    /// Does not return if an interrupt ends the process: a failure then has come of the files that
    /// were removed before that.
    pub(crate) fn give_way() {
        while ENDING.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    /// Calls it, and ends the process, when an interrupt comes. Called before the process starts
    /// the threads that it has then: they inherit that interrupts are not theirs.
    pub(crate) fn on_interrupt(then: impl FnOnce() + Send + 'static) {
        let mut awaited = MaybeUninit::uninit();
        // SAFETY: the set is made before it is used, and of signals that there are.
        let awaited = unsafe {
            libc::sigemptyset(awaited.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(awaited.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, awaited.as_ptr(), std::ptr::null_mut());
            awaited.assume_init()
        };
        let wait = move || {
            let mut signal = 0;
            // SAFETY: the set was made above, and both are there meanwhile.
            if unsafe { libc::sigwait(&raw const awaited, &raw mut signal) } == 0 {
                ENDING.store(true, Ordering::Release);
                then();
                // It ends the process as if it had not been waited for: so its parent sees the
                // reason of its end. SAFETY: as above; the signal is one of the set.
                unsafe {
                    libc::pthread_sigmask(
                        libc::SIG_UNBLOCK,
                        &raw const awaited,
                        std::ptr::null_mut(),
                    );
                    libc::raise(signal);
                }
                // Unless its parent has such signals ignored.
                std::process::exit(128 + signal);
            }
        };
        let waiting = std::thread::Builder::new().name("quipu-interrupt".to_owned());
        if let Err(error) = waiting.spawn(wait) {
            tracing::warn!(%error, "an interrupt leaves files behind");
        }
    }
}

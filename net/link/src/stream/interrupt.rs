//! Receiving by a thread that waits for something else, which others may bring about.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// The time that a thread may sleep before it asks again; none if it does not go on.
pub(super) type GoesOn<'a> = &'a dyn Fn() -> Option<Duration>;

/// Interrupts one thread that [receives](super::Incoming::receive_while), so that it looks whether
/// it goes on.
#[derive(Debug)]
pub struct Interrupt {
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
    #[cfg(unix)]
    ends: (
        std::os::unix::net::UnixStream,
        std::os::unix::net::UnixStream,
    ),
}

impl Interrupt {
    /// One that was not raised.
    ///
    /// # Errors
    /// If the system gives no files; and where a thread cannot wait for two things at once.
    #[cfg(unix)]
    pub fn new() -> io::Result<Self> {
        let ends = std::os::unix::net::UnixStream::pair()?;
        ends.0.set_nonblocking(true)?;
        ends.1.set_nonblocking(true)?;
        Ok(Self {
            asleep: AtomicBool::new(false),
            ends,
        })
    }

    /// As above.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Wakes the thread if it sleeps. The state that ends its wait was changed before.
    pub fn raise(&self) {
        // Either this sees that it sleeps, or it sees the change before it does, however weakly
        // that is written and read.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.write();
        }
    }

    #[cfg(unix)]
    fn write(&self) {
        use std::io::Write;
        // If it is full it wakes as well.
        let _ = (&self.ends.0).write(&[1]);
    }

    #[cfg(not(unix))]
    fn write(&self) {}

    /// Sleeps until something has come; false if it does not go on.
    #[cfg(unix)]
    pub(super) fn wait_for(&self, socket: &TcpStream, goes_on: GoesOn<'_>) -> io::Result<bool> {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = [entry(socket.as_raw_fd()), entry(self.ends.1.as_raw_fd())];
        loop {
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let Some(time) = goes_on() else {
                self.asleep.store(false, Ordering::SeqCst);
                return Ok(false);
            };
            // Rounded up; a time that is too long for the call is as good as for ever.
            let milliseconds = time.as_nanos().div_ceil(1_000_000);
            let milliseconds = libc::c_int::try_from(milliseconds).unwrap_or(-1);
            // SAFETY: the entries are there until the call returns, and as many as it says.
            let polled = unsafe { libc::poll(entries.as_mut_ptr(), 2, milliseconds) };
            let error = io::Error::last_os_error();
            self.asleep.store(false, Ordering::SeqCst);
            if polled < 0 && error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
            if polled > 0 && entries[1].revents != 0 {
                let _ = (&self.ends.1).read(&mut [0; 64]);
            }
            // Also when the other side has closed it, or it is broken.
            if polled > 0 && entries[0].revents != 0 {
                return Ok(true);
            }
        }
    }

    #[cfg(not(unix))]
    pub(super) fn wait_for(&self, _: &TcpStream, goes_on: GoesOn<'_>) -> io::Result<bool> {
        Ok(goes_on().is_some())
    }
}

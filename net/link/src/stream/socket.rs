//! Sending and receiving, with and without waiting, on a socket on which others wait.

use super::Attached;
use crate::{locked, quietly};
use std::io;
use std::net::TcpStream;

/// Sends all that is encrypted, and waits until the socket has taken it. TLS is not locked while
/// this waits.
///
/// # Errors
/// As the system says.
#[cfg(unix)]
pub(super) fn send_and_wait(attached: &Attached) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    loop {
        match send_now(attached) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return sent,
        }
        let mut entry = libc::pollfd {
            fd: attached.socket.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: the entry is there until the call returns. Should it fail, that is seen at the
        // next try.
        unsafe { libc::poll(&raw mut entry, 1, -1) };
    }
}

/// Sends as many of the encrypted bytes as the socket takes now.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if it does not take all.
#[cfg(unix)]
pub(super) fn send_now(attached: &Attached) -> io::Result<()> {
    let mut tls = locked(&attached.tls);
    while tls.wants_write() {
        match tls.write_tls(&mut Now(&attached.socket)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => attached.counts.sent(sent),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Err(_) => {}
        }
    }
    Ok(())
}

/// A socket that takes as many bytes as it can at once.
#[cfg(unix)]
struct Now<'a>(&'a TcpStream);

#[cfg(unix)]
impl io::Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        use std::os::fd::AsRawFd;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: plain numbers and pointers, for which zeros are values. A slice for output is
        // laid out as the system's vector is; both are there until the call returns, and only read.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = pieces.as_ptr().cast_mut().cast();
            message.msg_iovlen = pieces.len() as _;
            libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the bytes that have come by now.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has.
#[cfg(unix)]
pub(super) fn receive_now(socket: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: the bytes are there until the call returns, nobody else uses them, and no more are
    // written than there are.
    let received = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Has the system wake the thread that waits for this socket when so many bytes have come, or the
/// connection ends. As good as it goes: a system that cannot do it wakes sooner.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn wake_at(socket: &TcpStream, bytes: usize) {
    use std::os::fd::AsRawFd;
    let bytes = libc::c_int::try_from(bytes).unwrap_or(1);
    // SAFETY: the value is there until the call returns, and of the size that is said.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// Elsewhere, it may not reach a thread that waits for more than one thing.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn wake_at(_: &TcpStream, _: usize) {}

/// Receives bytes when [as many as were asked for](wake_at) have come. It waits for that, unless
/// the caller has. A receiving call that itself waits would not do: Linux has it take the bytes
/// that are there first, and then sleep until as many again have come, which may be more than will.
///
/// # Errors
/// As the system says; [`WouldBlock`](io::ErrorKind::WouldBlock) and
/// [`Interrupted`](io::ErrorKind::Interrupted) if it was woken for nothing.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn receive_much(socket: &TcpStream, bytes: &mut [u8], waits: bool) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    if waits {
        let mut entry = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the entry is there until the call returns. Should it fail, there is nothing to
        // receive, or that fails as well.
        unsafe { libc::poll(&raw mut entry, 1, -1) };
    }
    receive_now(socket, bytes)
}

/// Elsewhere, nothing was asked for.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn receive_much(mut socket: &TcpStream, bytes: &mut [u8], _: bool) -> io::Result<usize> {
    io::Read::read(&mut socket, bytes)
}

/// Elsewhere, it is left to a thread that may wait.
#[cfg(not(unix))]
pub(super) fn send_now(attached: &Attached) -> io::Result<()> {
    match locked(&attached.tls).wants_write() {
        true => Err(io::ErrorKind::WouldBlock.into()),
        false => Ok(()),
    }
}

/// There, the encrypted bytes are taken out of TLS before any thread waits.
#[cfg(not(unix))]
pub(super) fn send_and_wait(attached: &Attached) -> io::Result<()> {
    let mut cipher = Vec::new();
    let mut tls = locked(&attached.tls);
    while tls.wants_write() {
        tls.write_tls(&mut cipher)?;
    }
    drop(tls);
    io::Write::write_all(&mut &attached.socket, &cipher)?;
    attached.counts.sent(cipher.len());
    Ok(())
}

/// Elsewhere, one waits at once.
#[cfg(not(unix))]
pub(super) fn receive_now(_: &TcpStream, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// True if the system has something of the other side's that is not read yet: bytes, or the
/// connection's end.
#[cfg(unix)]
pub(super) fn has_something(socket: &TcpStream) -> bool {
    use std::os::fd::AsRawFd;
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: there is room for one byte until the call returns.
    let seen = unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    seen >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// Elsewhere, no thread can look without waiting.
#[cfg(not(unix))]
pub(super) fn has_something(_: &TcpStream) -> bool {
    true
}

/// Waits until the other side has ended the connection, whatever of it was not read, and no longer
/// than so.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn wait_for_end(socket: &TcpStream, until: std::time::Instant) {
    use std::os::fd::AsRawFd;
    let mut entry = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        // Up, so that the rest of a millisecond is no reason to ask all the time.
        let left = libc::c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(-1);
        // SAFETY: the entry is there until the call returns.
        let polled = unsafe { libc::poll(&raw mut entry, 1, left) };
        let is_interrupted =
            polled < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !is_interrupted {
            return;
        }
    }
}

/// Elsewhere, the system does not tell before all is read.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn wait_for_end(_: &TcpStream, _: std::time::Instant) {}

/// The time for which the other side's machine may say nothing at all before the connection is
/// taken to be lost, in seconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DEAD_AFTER: libc::c_int = 30;

/// The longest that a loss goes unnoticed, if the system sees to that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub const NOTICED_WITHIN: Option<std::time::Duration> =
    Some(std::time::Duration::from_secs(DEAD_AFTER as u64));
/// The longest that a loss goes unnoticed, if the system sees to that.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub const NOTICED_WITHIN: Option<std::time::Duration> = None;

/// Has the system find out that the other side's machine, or the way there, is gone: no other check
/// would, on a connection on which nothing is sent. As good as it goes: a system that cannot do it
/// says so, and is not asked again.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn give_up_when_dead(socket: &TcpStream) {
    use std::os::fd::AsRawFd;
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, DEAD_AFTER / 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, DEAD_AFTER / 6),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, DEAD_AFTER * 1000),
    ];
    for (level, option, value) in options {
        // SAFETY: the value is there until the call returns, and of the size that is said.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set != 0 {
            let error = io::Error::last_os_error();
            quietly(|| {
                tracing::debug!(%error, option, "the system does not watch the connection");
            });
        }
    }
}

/// Elsewhere, the system does it when it will.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn give_up_when_dead(_: &TcpStream) {}

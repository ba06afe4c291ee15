//! Sending and receiving, with and without waiting, on a socket on which others wait.

use std::io::{self, Write};
use std::net::TcpStream;

/// Sends as much as the socket takes, and waits until it takes something.
///
/// # Errors
/// As the system says.
pub(super) fn send_and_wait(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Sends as much as the socket takes now.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if it takes nothing.
#[cfg(unix)]
pub(super) fn send_now(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the bytes are there until the call returns, and only read.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives what has come by now.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has.
#[cfg(unix)]
pub(super) fn receive_now(socket: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: the bytes are there until the call returns, nobody else uses them, and no more are written than there are.
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

/// Elsewhere, it is left to who may wait.
#[cfg(not(unix))]
pub(super) fn send_now(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// Elsewhere, one waits at once.
#[cfg(not(unix))]
pub(super) fn receive_now(_: &TcpStream, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// For how long the other side's machine may say nothing at all before the connection is taken to be lost, in seconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DEAD_AFTER: libc::c_int = 30;

/// The longest that a loss goes unnoticed, if the system sees to that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub const NOTICED_WITHIN: Option<std::time::Duration> =
    Some(std::time::Duration::from_secs(DEAD_AFTER as u64));
/// The longest that a loss goes unnoticed, if the system sees to that.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub const NOTICED_WITHIN: Option<std::time::Duration> = None;

/// Has the system find out that the other side's machine, or the way there, is gone: nobody else would, on a connection
/// on which nothing is sent. As good as it goes: a system that cannot do it says so, and is not asked again.
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
            tracing::debug!(%error, option, "the system does not watch the connection");
        }
    }
}

/// Elsewhere, the system does it when it will.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn give_up_when_dead(_: &TcpStream) {}

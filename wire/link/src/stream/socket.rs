//! Sending and receiving without waiting, on a socket on which others wait.

use std::io;
use std::net::TcpStream;

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

//! The channel between a node and a session's process: packets, which may carry an open connection.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// One end.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

/// Bytes of a packet, at most.
pub(super) const LONGEST: usize = 4096;

/// Room for one descriptor with a packet, aligned as the system wants it.
type Control = [u64; 4];

/// A packet that has come.
#[derive(Debug)]
pub(super) enum Packet {
    /// Bytes, and a connection.
    Some(Vec<u8>, Option<OwnedFd>),
    /// Nothing, for so long.
    Nothing,
    /// The other side is gone.
    End,
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

impl Channel {
    /// Both ends, neither of which a new program inherits by itself.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two descriptors.
        checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: just made, and nobody else's.
        let [ours, theirs] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok((Self(ours), theirs))
    }

    /// The end that this process was started with.
    pub(super) fn over(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Sends a packet, and with it a connection. Never waits.
    ///
    /// # Errors
    /// If the other side is gone, or lets too many lie.
    pub(super) fn send(&self, bytes: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control: Control = [0; 4];
        // SAFETY: a header of zeros names nothing.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if let Some(with) = with {
            let size = size_of::<RawFd>() as libc::c_uint;
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: they only compute.
            let (space, length) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
            header.msg_controllen = space as _;
            // SAFETY: the header names room for one message with one descriptor, aligned, which is
            // `control`.
            unsafe {
                let message = libc::CMSG_FIRSTHDR(&raw const header);
                (*message).cmsg_level = libc::SOL_SOCKET;
                (*message).cmsg_type = libc::SCM_RIGHTS;
                (*message).cmsg_len = length as _;
                libc::CMSG_DATA(message)
                    .cast::<RawFd>()
                    .write_unaligned(with.as_raw_fd());
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: all that the header names is there until the call returns; the bytes are only
        // read.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits for a packet, for so long.
    ///
    /// # Errors
    /// If the system does not give it.
    pub(super) fn receive(&self, wait: Option<Duration>) -> io::Result<Packet> {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let wait = wait.map_or(-1, |wait| {
            i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        // SAFETY: `poll` is one entry, as the call says.
        match checked(unsafe { libc::poll(&raw mut poll, 1, wait) }) {
            Ok(0) => return Ok(Packet::Nothing),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Packet::Nothing),
            Err(error) => return Err(error),
        }
        let mut bytes = vec![0_u8; LONGEST];
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut control: MaybeUninit<Control> = MaybeUninit::uninit();
        // SAFETY: as above.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        // Room for one descriptor, and not for what alignment adds: the system closes all others.
        // SAFETY: it only computes.
        header.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as libc::c_uint) } as _;
        let flags = libc::MSG_CMSG_CLOEXEC;
        // SAFETY: all that the header names is there until the call returns, of the sizes that it
        // says.
        let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: as the system has filled it.
        let with = unsafe {
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            if message.is_null()
                || (*message).cmsg_level != libc::SOL_SOCKET
                || (*message).cmsg_type != libc::SCM_RIGHTS
            {
                None
            } else {
                let descriptor = libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned();
                Some(OwnedFd::from_raw_fd(descriptor))
            }
        };
        // An empty packet is none that anybody sends. A descriptor that came with it is closed.
        if length == 0 {
            return Ok(Packet::End);
        }
        bytes.truncate(length);
        Ok(Packet::Some(bytes, with))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn packets_come_whole_and_bring_connections() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::over(theirs);
        let (mut near, far) = UnixStream::pair().unwrap();
        ours.send(b"one", None).unwrap();
        ours.send(b"two", Some(far.as_fd())).unwrap();
        drop(far);
        let Packet::Some(bytes, None) = theirs.receive(None).unwrap() else {
            panic!("the first packet");
        };
        assert_eq!(bytes, b"one");
        let Packet::Some(bytes, Some(far)) = theirs.receive(None).unwrap() else {
            panic!("the second packet");
        };
        assert_eq!(bytes, b"two");
        UnixStream::from(far).write_all(b"here").unwrap();
        let mut read = String::new();
        near.read_to_string(&mut read).unwrap();
        assert_eq!(read, "here");
        assert!(matches!(
            theirs.receive(Some(Duration::ZERO)).unwrap(),
            Packet::Nothing
        ));
        drop(ours);
        assert!(matches!(theirs.receive(None).unwrap(), Packet::End));
        assert!(theirs.send(b"three", None).is_err());
    }

    /// Sends a packet of so many bytes with four descriptors, as a session may whose code is not
    /// ours.
    fn send_four(channel: &Channel, length: usize, each: &impl AsFd) {
        let descriptors = [each.as_fd().as_raw_fd(); 4];
        let size = size_of_val(&descriptors) as libc::c_uint;
        let mut byte = 0_u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: length,
        };
        let mut control = [0_u64; 8];
        // SAFETY: the header names a byte, and room for one message with four descriptors, all of
        // which outlive the call.
        unsafe {
            let mut header: libc::msghdr = zeroed();
            header.msg_iov = &raw mut part;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(size) as _;
            libc::CMSG_DATA(message)
                .cast::<[RawFd; 4]>()
                .write_unaligned(descriptors);
            checked(libc::sendmsg(channel.as_raw_fd(), &raw const header, 0) as _).unwrap();
        }
    }

    #[test]
    fn of_several_descriptors_none_is_left_open() {
        for length in [1, 0] {
            let (ours, theirs) = Channel::pair().unwrap();
            let theirs = Channel::over(theirs);
            let (mut near, far) = UnixStream::pair().unwrap();
            send_four(&ours, length, &far);
            drop(far);
            let packet = theirs.receive(None).unwrap();
            assert_eq!(
                matches!(packet, Packet::Some(_, Some(_))),
                length == 1,
                "{packet:?}"
            );
            drop(packet);
            // The other end is closed, wherever it was open.
            near.set_nonblocking(true).unwrap();
            assert_eq!(near.read(&mut [0]).unwrap(), 0);
        }
    }

    #[test]
    fn who_does_not_read_is_not_waited_for() {
        let (ours, _theirs) = Channel::pair().unwrap();
        while ours.send(&[0; 1000], None).is_ok() {}
    }
}

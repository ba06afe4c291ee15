//! Network interfaces of the calling thread's namespace.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The most bytes of a packet on interfaces that a program passes on.
pub(crate) const MTU: usize = 1500;

/// A request about the interface of a name.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: it is numbers, and pointers that nobody follows while they are zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from.cast_signed();
    }
    request
}

fn ask(file: &impl AsRawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all that is asked here is about a request of this form.
    match unsafe { libc::ioctl(file.as_raw_fd(), what, std::ptr::from_mut(request)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Any socket, to ask through.
fn socket() -> io::Result<std::net::UdpSocket> {
    std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Has an interface pass packets on.
pub(crate) fn up(name: &str) -> io::Result<()> {
    set_up(name, true)
}

/// Has an interface pass packets on, or not, as if its cable were out.
pub(crate) fn set_up(name: &str, up: bool) -> io::Result<()> {
    let socket = socket()?;
    let mut request = request(name);
    ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the flags are what was just asked for.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let bits = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = if up { flags | bits } else { flags & !bits };
    ask(&socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Gives an interface an address, of which the first 24 bits are its network's, in place of the one
/// that it has.
pub(crate) fn set_address(name: &str, address: Ipv4Addr) -> io::Result<()> {
    let socket = socket()?;
    for (what, value) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, Ipv4Addr::new(255, 255, 255, 0)),
    ] {
        let mut request = request(name);
        let internet = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from(value).to_be(),
            },
            sin_zero: [0; 8],
        };
        // SAFETY: both are addresses of 16 bytes, the second in the more general form.
        request.ifr_ifru.ifru_addr =
            unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(internet) };
        ask(&socket, what, &mut request)?;
    }
    Ok(())
}

/// A new interface, whose packets are read from, and written to, the file, one at a time.
pub(crate) fn tun(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut tun = request(name);
    tun.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    ask(&file, libc::TUNSETIFF as libc::Ioctl, &mut tun)?;
    let mut size = request(name);
    size.ifr_ifru.ifru_mtu = MTU as libc::c_int;
    ask(&socket()?, libc::SIOCSIFMTU, &mut size)?;
    Ok(file)
}

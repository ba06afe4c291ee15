//! The listening thread (Linux): it takes connections and looks for the first words of all of them.
//! A connection without first words costs no place.
//!
//! | first words | the connection |
//! |---|---|
//! | the name of a session that is there | goes to the session at once |
//! | the name of a session that is coming | waits for the session, [without a place](crate::early) |
//! | TLS's, or another session's name | waits for a place, among [strangers](crate::strangers) |
//! | others | is closed |
//! | none | is closed after a while, or if too many come of its network |
//!
//! A client speaks as soon as it is connected, so its words come right behind its connection,
//! however far away it is.

use crate::node::Shared;
use crate::strangers::{Crowd, One};
use quipu_threads::Start;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts the thread.
///
/// # Errors
/// If the system gives none, or does not do with the listener what that needs.
pub(crate) fn start(shared: &Arc<Shared>, listener: TcpListener) -> io::Result<JoinHandle<()>> {
    #[cfg(target_os = "linux")]
    words::prepare(&listener)?;
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("quipu-node".to_owned());
    thread.start(move || listen(&own, &listener))
}

/// There are no more files, or whoever came has gone.
fn is_not_taken(error: &io::Error) {
    quipu_scheduler::panics::quietly(|| tracing::warn!(%error, "a connection was not taken"));
    std::thread::sleep(Duration::from_millis(10));
}

#[cfg(not(target_os = "linux"))]
fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => shared
                .stranger(stream)
                .into_iter()
                .for_each(|one| shared.come(one)),
            Err(error) => is_not_taken(&error),
        }
    }
}

#[cfg(target_os = "linux")]
fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut silent = Crowd::new();
    while !shared.stopping.load(Ordering::SeqCst) {
        let patience = shared.gate.patience();
        let oldest = silent.iter().next().map(|one: &One<_>| one.since);
        let oldest = oldest.into_iter().chain(shared.early.oldest()).min();
        let left = oldest.map(|since| patience.saturating_sub(since.elapsed()));
        let streams = silent.iter().map(|one| &one.stream);
        let mut have_spoken = words::wait(listener, streams, left).into_iter();
        let has_come = have_spoken.next().unwrap_or(false);
        for one in silent.take(|_| have_spoken.next().unwrap_or(false)) {
            shared.hear(one);
        }
        drop(silent.take(|one| one.since.elapsed() >= patience));
        shared.early.expire(patience);
        // So that those that have spoken wait for no more than this.
        for _ in 0..words::TURN * usize::from(has_come) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let Some(one) = shared.stranger(stream) else {
                        continue;
                    };
                    drop(shared.strangers.wait_in(&mut silent, one));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    is_not_taken(&error);
                    break;
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
impl Shared {
    /// A connection has said its first words, or has ended.
    fn hear(self: &Arc<Self>, one: One<TcpStream>) {
        match words::first(&one.stream) {
            // That needs no thread, which the system may not give. A session that has ended
            // meanwhile is asked for again.
            Some(words::First::Route(route)) if self.has_session(route) => {
                drop(self.route(one.stream));
            }
            Some(words::First::Early(route, is_bulk)) => self.come_early(one, route, is_bulk),
            Some(_) => self.come(one),
            None => quipu_scheduler::panics::quietly(|| {
                let address = match one.stream.peer_addr() {
                    Ok(address) => address.to_string(),
                    Err(_) => "a client".to_owned(),
                };
                let error = format!("'{address}' does not speak Quipu's protocol");
                tracing::info!(%error, "not let in");
            }),
        }
    }

    pub(crate) fn has_session(&self, route: quipu_link::Route) -> bool {
        match self.home() {
            crate::node::Home::Processes(processes) => processes.has(route),
            _ => false,
        }
    }

    /// Hands a connection to the session that it names before TLS, if it does; else gives it back.
    pub(crate) fn route(&self, mut stream: TcpStream) -> Option<TcpStream> {
        let crate::node::Home::Processes(processes) = self.home() else {
            return Some(stream);
        };
        let words::First::Route(route) = words::first(&stream)? else {
            return Some(stream);
        };
        let mut named = [0; quipu_link::Route::LENGTH];
        io::Read::read_exact(&mut stream, &mut named).ok()?;
        // Who asks for a session that is no more is answered by the node itself, and sees that by
        // the key.
        processes.hand_over(route, stream).err()
    }
}

/// First words of connections.
#[cfg(target_os = "linux")]
mod words {
    use quipu_link::Route;
    use quipu_protocol::ROUTE_MAGIC;
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    /// So many connections are taken before others are looked at.
    pub(super) const TURN: usize = 64;

    /// The first byte of TLS: a handshake.
    const HANDSHAKE: u8 = 22;

    pub(super) enum First {
        Tls,
        Route(Route),
        /// Of a session that may not be there yet; and whether it is its bulk stream.
        Early(Route, bool),
    }

    /// Has the system keep as many connections as it can for who takes them, for the standard
    /// library asks for few, and one for which there is no room is tried again a second later. And
    /// has it take no connection of this listener's for one that has spoken as long as it has said
    /// less than the name of a session is.
    pub(super) fn prepare(listener: &TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        least(listener, Route::LENGTH)?;
        // SAFETY: it takes numbers, of a socket that is open.
        match unsafe { libc::listen(listener.as_raw_fd(), libc::c_int::MAX) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of bytes that have to be there for the system to say that there are some.
    fn least(socket: &impl AsRawFd, bytes: usize) -> io::Result<()> {
        let bytes = bytes as libc::c_int;
        // SAFETY: a number of that size, which is there until the call returns.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits, for so long at most, until somebody comes to a listener, or one of these that came to
    /// it has spoken or ended. Of each, in this order, whether that is so.
    pub(super) fn wait<'a>(
        listener: &TcpListener,
        streams: impl Iterator<Item = &'a TcpStream>,
        most: Option<Duration>,
    ) -> Vec<bool> {
        let fds = std::iter::once(listener.as_raw_fd()).chain(streams.map(AsRawFd::as_raw_fd));
        let mut polled: Vec<libc::pollfd> = fds
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // Not before the time is over.
        let most = most.map_or(-1, |most| {
            libc::c_int::try_from(most.as_millis() + 1).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: as many places, which are there until the call returns. If it fails, nothing has
        // happened.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, most) };
        polled.iter().map(|polled| polled.revents != 0).collect()
    }

    /// The first words of a connection that has spoken; none if they are no client's. From then on,
    /// the system says of each byte that it is there.
    pub(super) fn first(stream: &TcpStream) -> Option<First> {
        let mut bytes = [0; Route::LENGTH];
        // The system says of fewer bytes as well that they are there, if it is short of memory for
        // more: this must not wait for the others, and the connection is given up.
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: the bytes are there until the call returns, as many as it says.
        let peeked = unsafe {
            libc::recv(
                stream.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                flags,
            )
        };
        if usize::try_from(peeked).ok()? < bytes.len() {
            return None;
        }
        least(stream, 1).ok()?;
        match bytes[0] {
            HANDSHAKE => Some(First::Tls),
            first if first == ROUTE_MAGIC[0] => {
                let early = Route::decode_early(bytes);
                let early = early.map(|(route, is_bulk)| First::Early(route, is_bulk));
                early.or_else(|| Route::decode(bytes).map(First::Route))
            }
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use quipu_protocol::message::SessionId;
        use std::io::{Read, Write};

        #[test]
        fn nobody_is_waited_for_who_has_said_less_than_a_name() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            prepare(&listener).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert_eq!(wait(&listener, [].into_iter(), None), [true]);
            let (stream, _) = listener.accept().unwrap();
            // As where the system is short of memory and says that it has spoken.
            assert!(first(&stream).is_none());
            client.write_all(&[HANDSHAKE]).unwrap();
            assert!(first(&stream).is_none());
        }

        #[test]
        fn who_has_said_less_than_a_name_has_not_spoken_and_later_bytes_come_as_they_are() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            prepare(&listener).unwrap();
            let connected = || {
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                client.set_nodelay(true).unwrap();
                assert_eq!(wait(&listener, [].into_iter(), None), [true]);
                (client, listener.accept().unwrap().0)
            };
            let ((mut some, taken), (mut other, other_taken)) = (connected(), connected());
            let name = Route::to(SessionId([1; 16])).encode();
            some.write_all(&name[..23]).unwrap();
            other.write_all(&name).unwrap();
            let of_both = || wait(&listener, [&taken, &other_taken].into_iter(), None);
            assert_eq!(of_both(), [false, false, true]);
            assert!(matches!(first(&other_taken), Some(First::Route(_))));
            some.write_all(&name[23..]).unwrap();
            assert_eq!(wait(&listener, [&taken].into_iter(), None), [false, true]);
            assert!(matches!(first(&taken), Some(First::Route(_))));
            // One byte is enough from now on.
            (&taken).read_exact(&mut [0; Route::LENGTH]).unwrap();
            some.write_all(b"x").unwrap();
            assert_eq!((&taken).read(&mut [0; 2]).unwrap(), 1);
        }

        #[test]
        fn others_than_clients_have_not_said_what_clients_say() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            prepare(&listener).unwrap();
            let hears = |words: &[u8]| {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                client.write_all(words).unwrap();
                drop(client);
                assert_eq!(wait(&listener, [].into_iter(), None), [true]);
                let taken = listener.accept().unwrap().0;
                assert_eq!(wait(&listener, [&taken].into_iter(), None), [false, true]);
                first(&taken)
            };
            assert!(hears(b"").is_none());
            assert!(hears(&[HANDSHAKE; Route::LENGTH - 1]).is_none());
            assert!(hears(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").is_none());
            // It begins as a name does.
            assert!(hears(&[ROUTE_MAGIC[0]; Route::LENGTH]).is_none());
            assert!(matches!(hears(&[HANDSHAKE; 100]), Some(First::Tls)));
        }
    }
}

//! The time of TCP and TLS alone, on loopback or over a network that is made for it: the floor of
//! all messages.
//!
//! Both ends block on their sockets, with `TCP_NODELAY`. TLS is the same as between a client and a
//! node, from the handshake on, without anything of the protocol's; it is written in pieces of 64
//! KiB, and read into the memory where the bytes are wanted.

#[cfg(target_os = "linux")]
use super::affinity::{Confined, cores};
use super::paced::Paced;
use crate::error::BenchError;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::gate::{Arrival, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::{Folder, Key};
use quipu_protocol::message::{DataOrder, SessionId, Welcome};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time of a handshake.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// The layers that bytes go through.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// The network between the two ends.
#[derive(Debug, Default)]
pub enum Way {
    /// This machine's loopback interface.
    #[default]
    Loopback,
    /// The same, as slow as a network.
    Paced(Paced),
    /// The same, each end's threads on a core of its own, or both ends' on one.
    #[cfg(target_os = "linux")]
    Cores {
        /// The core of what is at the near end.
        near: usize,
        /// The core of what is at the far end.
        far: usize,
    },
    /// Between two machines within this one.
    #[cfg(target_os = "linux")]
    Machines(Box<Machines>),
}

/// Two machines, and what is between them.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Machines {
    near: quipu_lab_network::Machine,
    far: quipu_lab_network::Machine,
    /// The address of the far end.
    address: std::net::Ipv4Addr,
    _between: Between,
}

/// The thing that they are attached to, dropped with its last holder.
#[cfg(target_os = "linux")]
#[derive(Debug)]
enum Between {
    Relay {
        _relay: quipu_lab_network::Relay,
    },
    Switch {
        _switch: Arc<quipu_lab_network::Switch>,
    },
}

impl Way {
    /// Both ends on one core, and each on a core of its own, as far as there are cores and the
    /// system lets a thread choose; with the words for it.
    pub fn placed() -> Vec<(&'static str, Self)> {
        #[cfg(target_os = "linux")]
        if let [near, others @ ..] = &cores()[..] {
            let one = std::iter::once(("on one core", near));
            let two = others.first().map(|far| ("on two cores", far));
            let way = |(name, far): (_, &usize)| {
                let (near, far) = (*near, *far);
                (name, Self::Cores { near, far })
            };
            return one.chain(two).map(way).collect();
        }
        vec![("on any core", Self::Loopback)]
    }

    /// Two machines, of which the near one has a link of this shape, and the far one an ideal one.
    ///
    /// # Errors
    /// If the system gives no such network: that takes root.
    #[cfg(target_os = "linux")]
    pub fn shaped(shape: quipu_lab_network::Shape) -> Result<Self, BenchError> {
        let make = || -> io::Result<_> {
            let relay = quipu_lab_network::Relay::new(1)?;
            let (near, far) = (
                quipu_lab_network::Machine::new()?,
                quipu_lab_network::Machine::new()?,
            );
            let [own, address] = [1, 2].map(|host| std::net::Ipv4Addr::new(10, 7, 0, host));
            relay.attach(&near, own, shape)?;
            relay.attach(&far, address, quipu_lab_network::Shape::default())?;
            Ok(Machines {
                near,
                far,
                address,
                _between: Between::Relay { _relay: relay },
            })
        };
        let made = make().map_err(|error| failed(format!("{error}; it takes root")))?;
        Ok(Self::Machines(Box::new(made)))
    }

    /// The ways from one machine to so many others, all at one switch, each on a cable with so many
    /// bits in a second each way.
    ///
    /// # Errors
    /// If the system gives no such network: that takes root.
    #[cfg(target_os = "linux")]
    pub fn switched(others: usize, rate: u64) -> Result<Vec<Self>, BenchError> {
        let make = || -> io::Result<_> {
            let switch = Arc::new(quipu_lab_network::Switch::new()?);
            let host = |number: usize| {
                let number = u8::try_from(number).map_err(io::Error::other)?;
                Ok::<_, io::Error>(std::net::Ipv4Addr::new(10, 8, 0, number))
            };
            let near = quipu_lab_network::Machine::new()?;
            switch.attach(&near, host(1)?, Some(rate))?;
            let to_one = |number: usize| -> io::Result<_> {
                let (far, address) = (quipu_lab_network::Machine::new()?, host(number + 2)?);
                switch.attach(&far, address, Some(rate))?;
                let between = Between::Switch {
                    _switch: Arc::clone(&switch),
                };
                Ok(Self::Machines(Box::new(Machines {
                    near: near.clone(),
                    far,
                    address,
                    _between: between,
                })))
            };
            (0..others).map(to_one).collect()
        };
        make().map_err(|error| failed(format!("{error}; it takes root")))
    }

    /// Does something at the near end.
    pub(crate) fn near<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        match self {
            Self::Loopback | Self::Paced(_) => what(),
            #[cfg(target_os = "linux")]
            Self::Cores { near, .. } => on_core(*near, what),
            #[cfg(target_os = "linux")]
            Self::Machines(machines) => machines.near.enter(what),
        }
    }

    /// Does something at the far end.
    pub(crate) fn far<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        match self {
            Self::Loopback | Self::Paced(_) => what(),
            #[cfg(target_os = "linux")]
            Self::Cores { far, .. } => on_core(*far, what),
            #[cfg(target_os = "linux")]
            Self::Machines(machines) => machines.far.enter(what),
        }
    }

    /// Listens at the far end, where the near one gets.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Cores { .. } => TcpListener::bind("127.0.0.1:0"),
            Self::Loopback | Self::Paced(_) => TcpListener::bind("127.0.0.1:0"),
            #[cfg(target_os = "linux")]
            Self::Machines(machines) => self.far(|| TcpListener::bind((machines.address, 0))),
        }
    }

    /// The address at which the near end reaches the listener.
    pub(crate) fn address(&self, listener: &TcpListener) -> io::Result<String> {
        let own = listener.local_addr()?.to_string();
        match self {
            Self::Paced(network) => network.to(&own),
            _ => Ok(own),
        }
    }
}

/// Does something on a core, if the system lets this thread.
#[cfg(target_os = "linux")]
fn on_core<T>(core: usize, what: impl FnOnce() -> T) -> T {
    let _confined = Confined::to(core);
    what()
}

/// This end of a connection, whose other end is on a thread of its own and does what it is told.
pub struct Pair {
    near: Box<dyn Wire>,
    far: Option<JoinHandle<io::Result<()>>>,
    bytes: Vec<u8>,
}

/// The far end's task: the number of bytes that it takes, and that it gives back.
type Order = [u8; 16];

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BenchError {
    BenchError::Network(source.into())
}

impl Pair {
    /// Over TCP, with this in between.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn tcp(way: &Way) -> Result<Self, BenchError> {
        let ends = || -> io::Result<_> {
            let listener = way.listen()?;
            let address = way.address(&listener)?;
            let near = way.near(|| TcpStream::connect(address))?;
            let (far, _) = listener.accept()?;
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            Ok((near, far))
        };
        let (near, far) = ends().map_err(failed)?;
        Self::new(way, Box::new(near), Box::new(far))
    }

    /// Over TLS, with this in between.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn tls(way: &Way) -> Result<Self, BenchError> {
        let (near, far) = tls_ends(way)?;
        Self::new(
            way,
            Box::new(near.into_stream()),
            Box::new(far.into_stream()),
        )
    }

    /// Over each, with what it is called in a row.
    pub(crate) fn both(way: &Way) -> Result<[(&'static str, Self); 2], BenchError> {
        Ok([
            ("TLS alone", Self::tls(way)?),
            ("TCP alone", Self::tcp(way)?),
        ])
    }

    fn new(way: &Way, near: Box<dyn Wire>, mut far: Box<dyn Wire>) -> Result<Self, BenchError> {
        let thread = std::thread::Builder::new().name("far".to_owned());
        let far = way.far(|| thread.spawn(move || obey(&mut *far)));
        let far = far.map_err(failed)?;
        Ok(Self {
            near,
            far: Some(far),
            bytes: Vec::new(),
        })
    }

    /// Sends so many bytes, and waits until so many others have come.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn exchange(&mut self, out: usize, back: usize) -> Result<(), BenchError> {
        let most = out.max(back);
        if self.bytes.len() < most {
            self.bytes.resize(most, 1);
        }
        let mut order = Order::default();
        order[..8].copy_from_slice(&(out as u64).to_le_bytes());
        order[8..].copy_from_slice(&(back as u64).to_le_bytes());
        let mut exchange = || {
            if out < PIECE {
                // In one, as anybody would.
                let mut all = Vec::with_capacity(order.len() + out);
                all.extend_from_slice(&order);
                all.extend_from_slice(&self.bytes[..out]);
                self.near.write_all(&all)?;
            } else {
                self.near.write_all(&order)?;
                write(&mut *self.near, &self.bytes[..out])?;
            }
            self.near.read_exact(&mut self.bytes[..back])
        };
        exchange().map_err(failed)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let mut order = Order::default();
        order[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        // If it is gone it need not be told.
        let _ = self.near.write_all(&order);
        if let Some(far) = self.far.take() {
            let _ = far.join();
        }
    }
}

fn write(wire: &mut dyn Wire, bytes: &[u8]) -> io::Result<()> {
    let mut pieces = bytes.chunks(PIECE);
    pieces.try_for_each(|piece| wire.write_all(piece))
}

/// The far end.
fn obey(wire: &mut dyn Wire) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let mut order = Order::default();
        wire.read_exact(&mut order)?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&order[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let (takes, gives) = (number(0), number(8));
        if takes == u64::MAX {
            return Ok(());
        }
        let (takes, gives) = (takes as usize, gives as usize);
        if bytes.len() < takes.max(gives) {
            bytes.resize(takes.max(gives), 1);
        }
        wire.read_exact(&mut bytes[..takes])?;
        write(wire, &bytes[..gives])?;
    }
}

/// Both ends of a connection such as clients and nodes have, the near one first.
fn tls_ends(way: &Way) -> Result<(Connection, Connection), BenchError> {
    let folder = tempfile::tempdir().map_err(failed)?;
    let node = Folder::open(folder.path().join("node")).map_err(failed)?;
    let client = Folder::open(folder.path().join("client")).map_err(failed)?;
    let gate = Gate::new(&node, "node", PATIENCE, Arc::new(SystemClock)).map_err(failed)?;
    let key = Key::of(&client, "client.key").map_err(failed)?;
    let listener = way.listen().map_err(failed)?;
    let address = way.address(&listener).map_err(failed)?;
    let invitations = Invitations::of(&node);
    let invitation = invitations.invite(gate.fingerprint(), &address, &SystemClock);
    let invitation = invitation.map_err(failed)?;
    let admit = || -> Result<Connection, BenchError> {
        loop {
            let (stream, _) = listener.accept().map_err(failed)?;
            if let Arrival::Caller(caller) = gate.admit(stream).map_err(failed)? {
                return caller.welcome(welcome(), &[]).map_err(failed);
            }
        }
    };
    std::thread::scope(|scope| {
        let node = scope.spawn(admit);
        let dial = || -> Result<Connection, BenchError> {
            let enrolled = invitation.take_up(&key, "client", PATIENCE);
            enrolled.map_err(failed)?;
            let dial = quipu_link::client::Dial {
                address: &address,
                node: gate.fingerprint(),
                key: &key,
                name: "bench",
                patience: PATIENCE,
            };
            Ok(dial.ask().map_err(failed)?.into_connection())
        };
        let client = way.near(dial);
        if client.is_err() {
            // It waits for somebody to come.
            let _ = way.near(|| TcpStream::connect(&address));
        }
        let node = node
            .join()
            .unwrap_or_else(|_| Err(failed("a thread panicked")));
        Ok((client?, node?))
    })
}

fn welcome() -> Welcome<'static> {
    Welcome {
        version: 0,
        data_order: DataOrder::Little,
        devices: 0,
        features: 0,
        session: SessionId::NONE,
        epoch: 0,
        patience_ms: 0,
        received: 0,
        max_frame: 1 << 20,
        max_inline: 0,
        max_commands: 0,
        max_buffers: 0,
        max_programs: 0,
        max_program_bytes: 0,
        max_buffer_bytes: 0,
        max_session_bytes: 0,
        idle_ms: 0,
        peer_address: None,
        name: "node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back_over_both() {
        for make in [Pair::tcp, Pair::tls] {
            let mut pair = make(&Way::Loopback).expect("a pair");
            for (out, back) in [(0, 1), (1, 0), (100, 5000), (1 << 20, 1), (1, 1 << 20)] {
                pair.exchange(out, back).expect("an exchange");
                assert!(pair.bytes[..back].iter().all(|byte| *byte == 1));
            }
        }
    }
}

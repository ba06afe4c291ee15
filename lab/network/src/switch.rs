//! A switch: machines on cables, which are the system's own (`veth`), at a bridge.

use crate::{Machine, interface, path_of, run};
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bridge, in a machine of its own. When it is dropped it is gone, and all cables with it.
#[derive(Debug)]
pub struct Switch(Machine);

/// A machine's cable to a switch.
#[derive(Debug)]
pub struct Cable {
    machine: Machine,
    interface: String,
}

/// The bridge's name.
const BRIDGE: &str = "bridge";

impl Switch {
    /// A switch without machines.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn new() -> io::Result<Self> {
        let machine = Machine::new()?;
        let mut make = machine.command("ip");
        make.args([
            "link",
            "add",
            BRIDGE,
            "type",
            "bridge",
            "mcast_snooping",
            "0",
        ]);
        run(make)?;
        machine.enter(|| interface::up(BRIDGE))?;
        Ok(Self(machine))
    }

    /// Plugs a machine in, and gives it an address. Machines whose addresses agree in the first 24
    /// bits reach each other, with so many bits in a second in each direction at most.
    ///
    /// # Errors
    /// If the system gives no such interface.
    pub fn attach(
        &self,
        machine: &Machine,
        address: Ipv4Addr,
        rate: Option<u64>,
    ) -> io::Result<Cable> {
        static INTERFACES: AtomicUsize = AtomicUsize::new(0);
        let number = INTERFACES.fetch_add(1, Ordering::Relaxed);
        let (outer, inner) = (format!("port{number}"), format!("cable{number}"));
        let mut make = self.0.command("ip");
        make.args([
            "link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns",
        ]);
        make.arg(path_of(machine.namespace()));
        run(make)?;
        let mut plug = self.0.command("ip");
        plug.args(["link", "set", &outer, "master", BRIDGE]);
        run(plug)?;
        if let Some(rate) = rate {
            for (machine, interface) in [(&self.0, &outer), (machine, &inner)] {
                let mut limit = machine.command("tc");
                limit.args([
                    "qdisc", "add", "dev", interface, "root", "tbf", "latency", "50ms",
                ]);
                // As much as a tick of a slow timer lets through.
                let burst = (rate / 8 / 250).max(1 << 14);
                limit.args(["rate", &format!("{rate}bit"), "burst", &burst.to_string()]);
                run(limit)?;
            }
        }
        self.0.enter(|| interface::up(&outer))?;
        machine.enter(|| {
            interface::set_address(&inner, address)?;
            interface::up(&inner)
        })?;
        Ok(Cable {
            machine: machine.clone(),
            interface: inner,
        })
    }
}

impl Cable {
    /// Pulls it out.
    ///
    /// # Errors
    /// If the system does not do it.
    pub fn cut(&self) -> io::Result<()> {
        self.set_up(false)
    }

    /// Plugs it in again.
    ///
    /// # Errors
    /// If the system does not do it.
    pub fn restore(&self) -> io::Result<()> {
        self.set_up(true)
    }

    fn set_up(&self, up: bool) -> io::Result<()> {
        self.machine
            .enter(|| interface::set_up(&self.interface, up))
    }

    /// The machine has another address from now on.
    ///
    /// # Errors
    /// If the system takes no such address.
    pub fn move_to(&self, address: Ipv4Addr) -> io::Result<()> {
        let set = || interface::set_address(&self.interface, address);
        self.machine.enter(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    const A: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);

    #[test]
    fn machines_reach_each_other_and_a_cable_can_be_pulled() {
        if !crate::lab_or_skip() {
            return;
        }
        let switch = Switch::new().unwrap();
        let [a, b] = [(); 2].map(|()| Machine::new().unwrap());
        let cable = switch.attach(&a, A, Some(100_000_000)).unwrap();
        switch.attach(&b, B, None).unwrap();
        let listener = b.enter(|| TcpListener::bind((B, 7)).unwrap());
        let dial = || TcpStream::connect((B, 7));
        a.enter(dial).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), A);
        cable.cut().unwrap();
        a.enter(dial).unwrap_err();
        cable.restore().unwrap();
        let other = Ipv4Addr::new(10, 2, 0, 3);
        cable.move_to(other).unwrap();
        a.enter(dial).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), other);
    }

    #[test]
    fn what_goes_to_all_gets_there() {
        if !crate::lab_or_skip() {
            return;
        }
        let switch = Switch::new().unwrap();
        let [a, b] = [(); 2].map(|()| Machine::new().unwrap());
        switch.attach(&a, A, None).unwrap();
        switch.attach(&b, B, None).unwrap();
        let group = Ipv4Addr::new(224, 0, 0, 251);
        let hears = b.enter(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 5353)).unwrap();
            socket.join_multicast_v4(&group, &B).unwrap();
            socket
        });
        let sends = a.enter(|| UdpSocket::bind((A, 5353)).unwrap());
        hears
            .set_read_timeout(Some(std::time::Duration::from_millis(20)))
            .unwrap();
        // The cables take a moment until they are ready, and nobody sends it again.
        loop {
            sends.send_to(b"who is there", (group, 5353)).unwrap();
            let mut bytes = [0; 64];
            match hears.recv_from(&mut bytes) {
                Ok((length, from)) => {
                    assert_eq!(
                        (&bytes[..length], from.ip()),
                        (&b"who is there"[..], A.into())
                    );
                    break;
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
}

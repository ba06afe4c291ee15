//! Real TCP over a relay.

use super::*;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

struct Pair {
    relay: Relay,
    machines: [Machine; 2],
    links: [Link; 2],
    listener: TcpListener,
}

impl Pair {
    fn new(shape: Shape) -> Option<Self> {
        if !crate::lab_or_skip() {
            return None;
        }
        let relay = Relay::new(5).unwrap();
        let machines = [(); 2].map(|()| Machine::new().unwrap());
        let links = [
            relay.attach(&machines[0], A, shape).unwrap(),
            relay.attach(&machines[1], B, shape).unwrap(),
        ];
        let listener = machines[1].enter(|| TcpListener::bind((B, 7)).unwrap());
        Some(Self {
            relay,
            machines,
            links,
            listener,
        })
    }

    /// Both ends of a connection, and where the first comes from.
    fn connect(&self) -> (TcpStream, TcpStream, SocketAddr) {
        let dial = || TcpStream::connect((B, 7)).unwrap();
        let there = self.machines[0].enter(dial);
        let (here, from) = self.listener.accept().unwrap();
        (there, here, from)
    }
}

/// Sends so many bytes from one to the other; what came.
fn send(mut from: &TcpStream, mut to: &TcpStream, count: usize) -> io::Result<bool> {
    let bytes: Vec<u8> = (0..count).map(|at| ((at * 31) >> 3) as u8).collect();
    std::thread::scope(|scope| {
        let reads = scope.spawn(move || {
            let mut came = vec![0; count];
            to.read_exact(&mut came).map(|()| came)
        });
        from.write_all(&bytes)?;
        Ok(reads.join().unwrap()? == bytes)
    })
}

#[test]
fn tcp_sends_again_what_is_lost() {
    let Some(pair) = Pair::new(Shape {
        loss: 0.02,
        jitter: Duration::from_millis(1),
        ..Shape::default()
    }) else {
        return;
    };
    let (there, here, from) = pair.connect();
    assert_eq!(from.ip(), A);
    assert!(send(&there, &here, 300_000).unwrap());
    assert!(send(&here, &there, 300_000).unwrap());
}

#[test]
fn what_is_cut_goes_on_when_it_is_restored() {
    let Some(pair) = Pair::new(Shape::default()) else {
        return;
    };
    let (there, here, _) = pair.connect();
    pair.links[0].cut();
    (&there).write_all(b"x").unwrap();
    here.set_nonblocking(true).unwrap();
    let mut byte = [0];
    let nothing = (&here).read(&mut byte).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    here.set_nonblocking(false).unwrap();
    pair.links[0].restore();
    (&here).read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
    assert!(send(&there, &here, 100_000).unwrap());
}

#[test]
fn both_ends_of_what_is_reset_are_told() {
    let Some(pair) = Pair::new(Shape::default()) else {
        return;
    };
    let ways = [(0, false), (1, false), (0, true), (1, true)];
    for (link, cuts) in ways.map(|(at, cuts)| (&pair.links[at], cuts)) {
        let (there, here, _) = pair.connect();
        assert!(send(&there, &here, 10).unwrap());
        assert!(send(&here, &there, 10).unwrap());
        if cuts {
            link.sever();
        } else {
            link.reset();
        }
        // Neither sends anything: they wait.
        for mut end in [&here, &there] {
            let error = end.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        // Others are not.
        link.restore();
        let (there, here, _) = pair.connect();
        assert!(send(&there, &here, 10).unwrap());
    }
}

#[test]
fn machines_that_are_parted_reach_others() {
    let Some(pair) = Pair::new(Shape::default()) else {
        return;
    };
    let third = Machine::new().unwrap();
    let address = Ipv4Addr::new(10, 1, 0, 9);
    let _link = pair
        .relay
        .attach(&third, address, Shape::default())
        .unwrap();
    let [a, b] = &pair.links;
    let (there, here, _) = pair.connect();
    b.part_from(a, true);
    (&there).write_all(b"x").unwrap();
    third.enter(|| TcpStream::connect((B, 7)).unwrap());
    assert_eq!(pair.listener.accept().unwrap().1.ip(), address);
    here.set_nonblocking(true).unwrap();
    assert!((&here).read(&mut [0]).is_err());
    here.set_nonblocking(false).unwrap();
    a.part_from(b, false);
    let mut byte = [0];
    (&here).read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
}

#[test]
fn a_machine_moves() {
    let Some(pair) = Pair::new(Shape::default()) else {
        return;
    };
    let (there, here, _) = pair.connect();
    let other = Ipv4Addr::new(10, 1, 0, 3);
    pair.links[0].move_to(other).unwrap();
    let _ = (&there).write(b"x");
    here.set_nonblocking(true).unwrap();
    assert!((&here).read(&mut [0]).is_err());
    let (there, here, from) = pair.connect();
    assert_eq!(from.ip(), other);
    assert!(send(&there, &here, 10).unwrap());
}

#[test]
fn tcp_takes_damage_for_what_was_sent() {
    let Some(pair) = Pair::new(Shape {
        damage: 0.5,
        ..Shape::default()
    }) else {
        return;
    };
    let (there, here, _) = pair.connect();
    assert!(!send(&there, &here, 300_000).unwrap());
}

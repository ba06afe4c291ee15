//! Losses that cost the program only time: connections that come back, also as the client's address
//! changes.

use crate::intruder::Intruder;
use crate::site::{Site, address};
use crate::support::lossy::Random;
use crate::support::{pool, rounds};
use crate::watchdog;
use quipu_conformance::{fixture, folding, graph};
use quipu_lab_network::Shape;
use quipu_link::Folder;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Queue, QueueOptions, Request};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A link on which everything happens, often.
const BAD: Shape = Shape {
    delay: Duration::from_micros(200),
    jitter: Duration::from_micros(300),
    loss: 0.005,
    damage: 0.002,
    resets: 0.02,
    outages: 0.001,
    outage: Duration::from_millis(30),
    rate: Some(1_000_000_000),
};

/// So many connections are to be reset, or lost, for a test to have shown something.
const ENOUGH: u64 = 20;

#[test]
fn random_graphs_lose_nothing_over_a_network_that_loses_damages_resets_and_stops() {
    let _watchdog = watchdog("random graphs over a bad network");
    let Some(site) = Site::new(3, 1) else {
        return;
    };
    // Meanwhile somebody says what makes no sense, and somebody who is enrolled what it may not;
    // both are sent away.
    let stranger = quipu_lab_network::Machine::new().unwrap();
    let _link = site
        .relay
        .attach(&stranger, Ipv4Addr::new(10, 9, 0, 200), Shape::default())
        .unwrap();
    let over = AtomicBool::new(false);
    let node = &site.nodes[0];
    let mut refused = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stranger.enter(|| {
                let mut random = Random(9);
                while !over.load(Ordering::SeqCst) {
                    babble(&node.address, &mut random);
                }
            });
        });
        let intruding = scope.spawn(|| {
            stranger.enter(|| {
                let folder = Folder::open(&node.folder).unwrap();
                let mut intruder = Intruder::enrolled(&node.address, node.fingerprint, &folder);
                // Often enough to have shown something, however few of its turns come while there
                // are graphs.
                while !over.load(Ordering::SeqCst) || intruder.refused < 50 {
                    intruder.intrude();
                }
                intruder.refused
            })
        });
        let bad = fixture::of("a node over a bad network", || {
            // The first words of a session are not resumed: whoever connects is told that it
            // failed.
            site.link.shape(Shape::default());
            let devices = site.devices(0)?;
            site.link.shape(BAD);
            Ok([pool(1), devices].concat())
        });
        let bad = bad.without_priorities().with_longest_chain(2000);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // How many packets there are to be lost with their connections is for both ends to
            // choose: mostly sixty graphs have enough of them.
            for seed in (71..).step_by(1000).take(5) {
                graph::random_graphs(60, seed, &bad);
                if site.relay.resets() >= ENOUGH {
                    break;
                }
            }
        }));
        over.store(true, Ordering::SeqCst);
        refused = intruding.join().unwrap();
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let resets = site.relay.resets();
    assert!(resets >= ENOUGH, "{resets} resets");
    assert!(refused >= 50, "{refused} times");
    site.link.shape(Shape::default());
}

/// Says something to a node that it cannot understand, in one of several ways.
fn babble(address: &str, random: &mut Random) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let beginnings: [&[u8]; 4] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        // A handshake of TLS, and a session's name.
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        b"quipu\r\n\0",
    ];
    let beginning = beginnings[random.below(beginnings.len())];
    let rest: Vec<u8> = (0..random.below(2000))
        .map(|_| random.below(256) as u8)
        .collect();
    // Who is sent away before the end does not mind. Some wait for an answer, until they are.
    let _ = stream.write_all(&[beginning, &rest].concat());
    if random.below(2) == 0 {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// Adds numbers up on the node, in an order of which each matters; the sum in the end.
struct Sum<'a> {
    queue: &'a Queue,
    memory: quipu_scheduler::MemoryRef,
    expected: u64,
}

impl<'a> Sum<'a> {
    fn new(context: &Context, queue: &'a Queue) -> Self {
        let memory = context.memory(64).unwrap();
        let to = Access::whole(&memory, AccessMode::Overwrite);
        queue.fill(to, &[0], &[]).unwrap().wait().unwrap();
        Self {
            queue,
            memory,
            expected: 0,
        }
    }

    fn add(&mut self, number: u64) -> quipu_scheduler::Event {
        let request = Request {
            accesses: &[Access::whole(&self.memory, AccessMode::ReadWrite)],
            ..Request::default()
        };
        self.expected = self.expected.wrapping_mul(31).wrapping_add(number);
        self.queue.launch(folding(number), 1, &request).unwrap()
    }

    fn check(&self) {
        let mut back = [0; 64];
        // SAFETY: kept, and not looked at, until the command is over.
        let to = unsafe { HostMemory::new(back.as_mut_ptr(), back.len(), None) };
        let from = Access::whole(&self.memory, AccessMode::Read);
        self.queue
            .read(from, to, 64, &[], &[])
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(back[..8], self.expected.to_le_bytes());
    }
}

#[test]
fn a_client_moves_and_each_command_takes_effect_once() {
    let _watchdog = watchdog("a client that moves");
    let Some(site) = Site::new(4, 1) else {
        return;
    };
    let devices = site.devices(0).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let mut sum = Sum::new(&context, &queue);
    let mut random = Random(8);
    for round in 0..rounds(8) {
        let moment = random.below(20) as u64;
        for number in 0..20 {
            let event = sum.add(round * 20 + number);
            if random.below(4) == 0 {
                event.wait().unwrap();
            }
            if number == moment {
                // It leaves a network, which says so, and tries in vain until it has another.
                site.link.sever();
                site.link.move_to(address(1 + round as u8 % 50)).unwrap();
                site.link.restore();
            }
        }
    }
    sum.check();
    assert_eq!(site.status(0).sessions, 1);
}

#[test]
fn random_graphs_lose_nothing_while_their_client_moves() {
    let _watchdog = watchdog("random graphs of a client that moves");
    let Some(site) = Site::new(13, 1) else {
        return;
    };
    let over = AtomicBool::new(false);
    let graphs = 3 * rounds(5);
    // The first words of a session are not resumed: it stays while it says them.
    let stays = Mutex::new(());
    let moved = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let mut random = Random(14);
            loop {
                // Somewhere in a graph, or as it comes back from the last time.
                let until = site.relay.packets() + random.below(400) as u64;
                while site.relay.packets() < until {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    std::thread::yield_now();
                }
                let _stays = stays.lock();
                let times = moved.fetch_add(1, Ordering::SeqCst) + 1;
                site.link.sever();
                site.link.move_to(address((times % 50) as u8)).unwrap();
                site.link.restore();
            }
        });
        let nomad = fixture::of("a node of a client that moves", || {
            let _stays = stays.lock();
            Ok([pool(1), site.devices(0)?].concat())
        });
        let nomad = nomad.without_priorities().with_longest_chain(2000);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // Until it has moved often enough to have shown something. Those of other tests take
            // less time each.
            for seed in (74..).step_by(1000) {
                let summary = graph::run(graphs, seed, 1, &nomad, &mut |_| ());
                if let Some(failure) = summary.failures.first() {
                    panic!("{failure}");
                }
                if moved.load(Ordering::SeqCst) >= graphs / 4 {
                    break;
                }
            }
        }));
        over.store(true, Ordering::SeqCst);
        moving.join().unwrap();
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_client_moves_and_nobody_says_so() {
    let _watchdog = watchdog("a client that moves in silence");
    let Some(site) = Site::new(5, 1) else {
        return;
    };
    let devices = site.devices(0).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let mut sum = Sum::new(&context, &queue);
    for number in 0..10 {
        sum.add(number);
    }
    site.link.move_to(address(1)).unwrap();
    // On connections that nobody answers on, until the system gives them up.
    for number in 0..10 {
        sum.add(number);
    }
    sum.check();
    assert_eq!(site.status(0).sessions, 1);
}

/// Each of two nodes reaches the client, and the other now and then.
#[test]
fn random_graphs_lose_nothing_over_two_nodes_that_lose_each_other() {
    let _watchdog = watchdog("random graphs over nodes that lose each other");
    let Some(site) = Site::new(10, 2) else {
        return;
    };
    let (over, lost) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let losing = scope.spawn(|| {
            let [one, other] = [0, 1].map(|node: usize| &site.nodes[node].link);
            let mut random = Random(12);
            // Until so much has been said, unless nobody has anything to say any more.
            let mut pass = |most| {
                let until = site.relay.packets() + random.below(most) as u64;
                while site.relay.packets() < until && !over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            };
            while !over.load(Ordering::SeqCst) {
                pass(400);
                one.sever_from(other);
                lost.fetch_add(1, Ordering::SeqCst);
                pass(200);
                one.part_from(other, false);
            }
        });
        let nodes = fixture::of("two nodes that lose each other", || {
            Ok([pool(1), site.together()?].concat())
        });
        let nodes = nodes.without_priorities().with_longest_chain(2000);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // Until they have lost each other often enough to have shown something, and with
            // connections that were there.
            for seed in (73..).step_by(1000) {
                graph::random_graphs(60, seed, &nodes);
                if lost.load(Ordering::SeqCst) >= ENOUGH && site.relay.resets() > 0 {
                    break;
                }
            }
        }));
        over.store(true, Ordering::SeqCst);
        losing.join().unwrap();
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

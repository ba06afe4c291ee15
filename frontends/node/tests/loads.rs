//! Reports of a node's load: their contents, and the clients that get them.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_link::client::Look;
use quipu_link::session::NodeLoad;
use quipu_node::{Limits, LinkStates, LinkTotals, Maker};
use quipu_protocol::message::{
    CreateProgram, DataOrder, Hello, LinkKind, LinkState, Message, Ping, ProgramFormat, Role,
    SessionId, Wait,
};
use quipu_protocol::{FEATURES, LINKS, LOADS, NEWEST_VERSION, OLDEST_VERSION, PRINTED, PULSE};
use quipu_scheduler::RawArgument;
use quipu_scheduler::operation::NativeKernel;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use support::{Rig, buffer, command, fill, one_thread};

/// A kernel that says that it runs, and does so until it is told.
struct Held(Arc<(Sender<()>, Mutex<Receiver<()>>)>);

impl NativeKernel for Held {
    fn name(&self) -> &'static str {
        "held"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        let (runs, go) = &*self.0;
        // A test that has failed is gone.
        let _ = runs.send(());
        let _ = go.lock().unwrap().recv();
        Ok(())
    }
}

/// As a client's command of this queue.
fn of_queue(mut message: Message<'_>, queue: u32) -> Message<'_> {
    if let Message::Command(command) = &mut message {
        command.queue = queue;
    }
    message
}

/// Session and queue, and how many of its commands wait, run, are over.
fn queues(load: &NodeLoad) -> Vec<(u32, u32, u64, u64, u64)> {
    let queues = load.queues.iter().map(|queue| {
        let [waiting, running, over] =
            [queue.waiting, queue.running, queue.over].map(|count| count.get());
        let names = (queue.session.get(), queue.queue.get());
        (names.0, names.1, waiting, running, over)
    });
    queues.collect()
}

#[test]
fn what_there_is_to_do_is_told_by_device_and_to_its_client_by_queue() {
    let (tell, runs) = channel();
    let (go, may) = channel();
    let gates = Arc::new((tell, Mutex::new(may)));
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        let maker: Maker = Arc::new(move |_| Ok(Box::new(Held(gates.clone())) as Box<_>));
        options.natives = Arc::new(HashMap::from([([1; 32], maker)]));
    });
    let mut other = rig.client_of(1);
    other.send(&[buffer(1, 64), of_queue(command(1, &[], fill(1, 64)), 77)]);
    assert_eq!(other.end_of(1), None);
    let _first = rig.client();
    let mut client = rig.client();
    client.send(&[buffer(1, 4096), command(1, &[], fill(1, 4096))]);
    assert_eq!(client.end_of(1), None);
    let program = Message::CreateProgram(CreateProgram {
        program: 1,
        format: ProgramFormat::Native,
        source: &[1; 32],
        entry: "held",
        options: "",
    });
    client.send(&[program, of_queue(command(2, &[], one_thread(1)), 5)]);
    runs.recv().unwrap();
    let waits = [Wait::needs(2)];
    client.send(&[
        of_queue(command(3, &waits, fill(1, 64)), 5),
        of_queue(command(4, &waits, fill(1, 64)), 6),
    ]);
    while rig.node.status()().commands_held < 3 {
        std::thread::yield_now();
    }
    let mut own = rig.dial(0).ask().unwrap();
    let mut others = rig.dial(1).ask().unwrap();
    // It is looked at while somebody asks.
    let own_load = loop {
        let mut loads = own.look().unwrap().loads;
        assert_eq!(loads.len(), 1);
        if !loads[0].busy.is_zero() {
            break loads.remove(0);
        }
    };
    assert_eq!(
        queues(&own_load),
        [(2, 0, 0, 0, 1), (2, 5, 1, 1, 0), (2, 6, 1, 0, 0)]
    );
    let loads = others.look().unwrap().loads;
    assert_eq!(queues(&loads[0]), [(1, 77, 0, 0, 1)]);
    for load in [&own_load, &loads[0]] {
        assert_eq!((load.waiting, load.running, load.over), (2, 1, 2));
        assert_eq!(load.buffer_bytes, 4096 + 64);
        assert!(load.free_bytes > 0);
    }
    go.send(()).unwrap();
    while rig.node.status()().commands_held > 0 {
        std::thread::yield_now();
    }
    let Look { status, loads, .. } = own.look().unwrap();
    assert_eq!(
        (loads[0].waiting, loads[0].running, loads[0].over),
        (0, 0, 5)
    );
    assert_eq!(status.commands_over, 5);
    // What has ended is counted no more.
    drop((client, other));
    while rig.node.sessions() > 1 {
        std::thread::yield_now();
    }
    let loads = own.look().unwrap().loads;
    assert_eq!((loads[0].over, loads[0].buffer_bytes), (0, 0));
}

/// The answers to a client that asks how a node is and whether it is there, and knows these
/// features.
fn answered(rig: &Rig, features: u64) -> Vec<&'static str> {
    let mut connection = rig.dial(0).open().unwrap();
    let hello = Message::Hello(Hello {
        versions: (OLDEST_VERSION, NEWEST_VERSION),
        role: Role::Status,
        features,
        session: SessionId::NONE,
        epoch: 0,
        data_order: DataOrder::Little,
        received: 0,
        max_frame: 1 << 14,
        patience_ms: 0,
        name: "an older one",
    });
    connection.send(&hello).unwrap();
    let taken = connection.receive_as(|message| match message {
        Message::Welcome(welcome) => Ok(welcome.features),
        _ => Err("a welcome"),
    });
    // Nodes of these tests take no part in pings, so that clients may be silent. Their own output
    // is no kernel's.
    assert_eq!(taken.unwrap(), features & !(PULSE | PRINTED));
    let device = connection.receive_as(|message| match message {
        Message::Device(_) => Ok(()),
        _ => Err("a device"),
    });
    device.unwrap();
    for message in [
        Message::StatusRequest,
        Message::Ping(Ping {
            token: 1,
            time_ns: 2,
        }),
    ] {
        connection.send(&message).unwrap();
    }
    let mut kinds = Vec::new();
    while kinds.last() != Some(&"pong") {
        let kind = connection.receive_as(|message| Ok(message.kind().name()));
        kinds.push(kind.unwrap());
    }
    kinds
}

#[test]
fn a_client_is_told_only_what_it_knows_of() {
    let rig = Rig::new(Limits::default());
    let told = |features| answered(&rig, features);
    assert_eq!(told(FEATURES), ["status", "load", "links", "pong"]);
    assert_eq!(told(FEATURES & !LINKS), ["status", "load", "pong"]);
    assert_eq!(told(FEATURES & !LOADS), ["status", "links", "pong"]);
    assert_eq!(told(0), ["status", "pong"]);
}

#[test]
fn a_clients_own_links_are_told_and_others_are_not() {
    let rig = Rig::new(Limits::default());
    let [mut client, mut other] = [rig.client(), rig.client_of(1)];
    for client in [&mut client, &mut other] {
        client.send(&[buffer(1, 4096), command(1, &[], fill(1, 4096))]);
        assert_eq!(client.end_of(1), None);
    }
    let mut asking = rig.dial(0).ask().unwrap();
    let [commands] = asking.look().unwrap().links.links[..] else {
        panic!("a session without bulk stream has one link");
    };
    assert_eq!((commands.session, commands.kind), (1, LinkKind::Commands));
    assert_eq!(
        (commands.state, commands.resumed),
        (LinkState::Connected, 0)
    );
    assert_eq!(commands.key, rig.node.fingerprint().bytes());
    assert!(commands.sent > 0 && commands.received > 0);
    assert!(commands.address.unwrap().socket().ip().is_loopback());
    let bulk = rig.dial(0).bulk(client.session.0, None);
    let _bulk = bulk.unwrap().connection;
    let links = loop {
        let links = asking.look().unwrap().links;
        if links.links.len() > 1 {
            break links;
        }
    };
    assert_eq!((links.links.len(), links.more), (2, 0));
    assert_eq!(links.links[1].kind, LinkKind::Bulk);
    let LinkTotals { clients, nodes } = rig.node.links()();
    let connected = LinkStates {
        connected: 3,
        ..LinkStates::default()
    };
    assert_eq!(
        (clients.states, nodes.states),
        (connected, LinkStates::default())
    );
    assert!(clients.sent > commands.sent && clients.received > commands.received);
}

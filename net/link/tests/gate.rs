//! A node's gate and its clients, over loopback: clients that come in, clients that do not, and the
//! answers to each.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_link::client::{Dial, key_at};
use quipu_link::clients::Clients;
use quipu_link::clock::{Clock, SystemClock};
use quipu_link::connection::Connection;
use quipu_link::gate::{Arrival, Caller, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::peer::{Destination, Networks};
use quipu_link::{Folder, Invitation, Key, LinkError, Result, Rights, Route};
use quipu_protocol::message::*;
use quipu_protocol::{
    BETWEEN_BLOCKS, DETAILS, EARLY, HALVES, IMAGES, NON_UNIFORM, PARTS, TEXT_FEATURES,
};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node's folder, gate and socket.
struct House {
    parent: tempfile::TempDir,
    folder: Folder,
    gate: Arc<Gate>,
    listener: Arc<TcpListener>,
    address: String,
}

impl House {
    fn with_clock(clock: Arc<dyn Clock>, patience: Duration) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let gate = Gate::new(&folder, "node-a", patience, clock).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self {
            parent,
            folder,
            gate: Arc::new(gate),
            listener: Arc::new(listener),
            address,
        }
    }

    fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock), PATIENCE)
    }

    /// Sees to the next connection.
    fn admit(&self) -> JoinHandle<Result<Arrival>> {
        let (gate, listener) = (self.gate.clone(), self.listener.clone());
        std::thread::spawn(move || gate.admit(listener.accept().unwrap().0))
    }

    /// Sees to the next connection with a closure, which has a caller.
    fn serve<T: Send + 'static>(
        &self,
        serve: impl FnOnce(Caller) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let admitting = self.admit();
        std::thread::spawn(move || match admitting.join().unwrap().unwrap() {
            Arrival::Caller(caller) => serve(*caller),
            other => panic!("{other:?} is no caller"),
        })
    }

    fn key(&self, name: &str) -> Key {
        let folder = Folder::open(self.parent.path().join(name)).unwrap();
        Key::of(&folder, "client.key").unwrap()
    }

    fn invite(&self) -> Invitation {
        let invitations = Invitations::of(&self.folder);
        let node = self.gate.fingerprint();
        invitations
            .invite(node, &self.address, &SystemClock)
            .unwrap()
    }

    /// A key that is enrolled.
    fn enrolled(&self, name: &str) -> Key {
        let (key, invitation) = (self.key(name), self.invite());
        let admitting = self.admit();
        let joined = invitation.take_up(&key, name, PATIENCE).unwrap();
        assert_eq!(
            (joined.name.as_str(), &joined.address),
            ("node-a", &self.address)
        );
        assert!(matches!(
            admitting.join().unwrap(),
            Ok(Arrival::Enrolled(_))
        ));
        key
    }

    fn dial<'a>(&'a self, key: &'a Key) -> Dial<'a> {
        Dial {
            address: &self.address,
            node: self.gate.fingerprint(),
            key,
            name: "a test",
            patience: PATIENCE,
        }
    }
}

#[test]
fn patience_without_an_end_is_as_good_as_long_patience() {
    let house = House::with_clock(Arc::new(SystemClock), Duration::MAX);
    let key = house.key("client");
    let (invitation, admitting) = (house.invite(), house.admit());
    invitation.take_up(&key, "client", Duration::MAX).unwrap();
    assert!(matches!(
        admitting.join().unwrap(),
        Ok(Arrival::Enrolled(_))
    ));
    let serving = house.serve(|caller| caller.welcome(welcome(), &[]).map(drop));
    let dial = Dial {
        patience: Duration::MAX,
        ..house.dial(&key)
    };
    let mut link = dial.ask().unwrap();
    link.set_patience(Duration::MAX);
    serving.join().unwrap().unwrap();
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
        name: "node-a",
    }
}

fn device(number: u32) -> Device<'static> {
    Device {
        number,
        kind: DeviceKind::Gpu,
        takes: Takes(Takes::OPENCL_C),
        multiprocessors: 4,
        clock_mhz: 0,
        max_grid_blocks: [1; 3],
        max_grid_block_count: 1,
        max_block_threads: [1; 3],
        max_block_thread_count: 1,
        max_thread_elements: [1; 3],
        max_thread_element_count: 1,
        shared_memory_per_block: 0,
        global_memory: 1 << 30,
        max_buffer: 1 << 20,
        concurrent_commands: 1,
        warp_sizes: &[],
        name: "a GPU",
        vendor: "somebody",
        selector: "opencl:0",
        kernels: "",
        details: Some(DeviceDetails {
            properties: DeviceBits(DeviceBits::ALL),
            address_bits: 64,
            ..DeviceDetails::default()
        }),
    }
}

/// Answers until the other side says goodbye.
fn answer(mut connection: Connection) -> LinkError {
    loop {
        let asked = connection.receive_as(|message| match message {
            Message::Ping(ping) => Ok(Some(*ping)),
            Message::StatusRequest => Ok(None),
            _ => Err("a question"),
        });
        let answer = match asked {
            Ok(Some(ping)) => Message::Pong(Pong {
                token: ping.token,
                time_ns: ping.time_ns,
                received_ns: 1_000_000,
                sent_ns: 1_000_001,
            }),
            Ok(None) => Message::Status(quipu_protocol::message::Status {
                sessions: 3,
                ..Default::default()
            }),
            Err(error) => return error,
        };
        connection.send(&answer).unwrap();
    }
}

#[test]
fn a_client_pairs_is_welcomed_and_asks() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let serving = house.serve(|caller| {
        assert_eq!(
            (caller.client().name.as_str(), caller.program()),
            ("laptop", "a test")
        );
        assert_eq!(caller.role(), Role::Status);
        answer(caller.welcome(welcome(), &[device(0), device(1)]).unwrap())
    });
    let mut link = house.dial(&key).ask().unwrap();
    assert_eq!(
        (link.name(), link.version()),
        ("node-a", quipu_protocol::NEWEST_VERSION)
    );
    let names: Vec<_> = link
        .devices()
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    assert_eq!(names, ["a GPU", "a GPU"]);
    link.set_patience(PATIENCE);
    assert_eq!(link.status().unwrap().sessions, 3);
    // A node that does not report the loads of its devices is asked as before.
    assert_eq!(link.look().unwrap().loads, []);
    let times = link.ping().unwrap();
    assert!(times.round_trip < PATIENCE);
    link.close();
    let end = serving.join().unwrap();
    assert!(
        matches!(
            end,
            LinkError::Goodbye {
                reason: GoodbyeReason::Done,
                ..
            }
        ),
        "{end}"
    );
}

#[test]
fn a_device_says_what_both_sides_understand() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let always = Takes::OPENCL_C | Takes::MODULE | Takes::NATIVE;
    for (features, takes) in [
        (0, always),
        (PARTS, always | Takes::PARTS | Takes::SPIRV),
        (
            PARTS | IMAGES,
            always | Takes::PARTS | Takes::SPIRV | Takes::IMAGES,
        ),
        (
            PARTS | IMAGES | TEXT_FEATURES,
            Takes::ALL & !Takes::BUILT_IN & !Takes::NON_UNIFORM_BLOCKS & !Takes::HALVES,
        ),
        (
            PARTS | IMAGES | TEXT_FEATURES | NON_UNIFORM,
            Takes::ALL & !Takes::BUILT_IN & !Takes::HALVES,
        ),
        (
            PARTS | IMAGES | TEXT_FEATURES | NON_UNIFORM | HALVES,
            Takes::ALL & !Takes::BUILT_IN,
        ),
        (DETAILS, always),
        (DETAILS | BETWEEN_BLOCKS, always),
    ] {
        let serving = house.serve(move |caller| {
            let welcome = Welcome {
                features,
                ..welcome()
            };
            let device = Device {
                takes: Takes(Takes::ALL & !Takes::BUILT_IN),
                ..device(0)
            };
            answer(caller.welcome(welcome, &[device]).unwrap())
        });
        let link = house.dial(&key).ask().unwrap();
        assert_eq!(link.devices()[0].takes, Takes(takes));
        let details = link.devices()[0].details;
        assert_eq!(details.is_some(), features & DETAILS != 0);
        let waits = details.is_some_and(|it| it.properties.has(DeviceBits::GRID_BARRIER));
        assert_eq!(waits, features & BETWEEN_BLOCKS != 0);
        link.close();
        serving.join().unwrap();
    }
}

#[test]
fn who_is_not_enrolled_is_told_so_and_not_read() {
    let house = House::new();
    let key = house.key("stranger");
    let admitting = house.admit();
    let error = house.dial(&key).ask().unwrap_err();
    let LinkError::Refused { refusal, text, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*refusal, Refusal::NotEnrolled);
    assert!(text.contains(&key.fingerprint().to_string()), "{text}");
    assert!(error.to_string().contains("quipu pair"), "{error}");
    // The node's own log names the client, and gives it no advice.
    let said = admitting.join().unwrap().unwrap_err();
    assert!(
        matches!(&said, LinkError::TurnedAway { refusal: Refusal::NotEnrolled, key: who, .. } if *who == key.fingerprint()),
        "{said}"
    );
    assert!(said.to_string().starts_with("'127.0.0.1:"), "{said}");
    assert!(!said.to_string().contains("quipu pair"), "{said}");
}

/// Bytes read of it would be waited for, and nothing comes.
#[test]
fn who_is_not_enrolled_is_told_so_before_it_says_anything() {
    let house = House::new();
    let key = house.key("stranger");
    let admitting = house.admit();
    let mut connection = house.dial(&key).open().unwrap();
    let refusal = connection.receive_as(|message| match message {
        Message::Refuse(refuse) => Ok(refuse.refusal),
        _ => Err("a refusal"),
    });
    assert_eq!(refusal.unwrap(), Refusal::NotEnrolled);
    assert!(admitting.join().unwrap().is_err());
}

#[test]
fn an_insecure_gate_lets_everybody_in_and_keeps_the_rights_of_who_is_enrolled() {
    let mut house = House::new();
    let limited = house.enrolled("laptop");
    let rights: Rights = "peers=no".parse().unwrap();
    let clients = Clients::of(&house.folder);
    clients.grant("laptop", rights.clone()).unwrap();
    let gate = Gate::new(&house.folder, "node-a", PATIENCE, Arc::new(SystemClock)).unwrap();
    house.gate = Arc::new(gate.insecure());
    // The stranger has not been told the node's key, nor the node the stranger's.
    let stranger = house.key("stranger");
    let admitting = house.admit();
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = format!("{},{}", nowhere.local_addr().unwrap(), house.address);
    let (found, address) = key_at(&addresses, &stranger, PATIENCE).unwrap();
    assert_eq!(
        (found, &address),
        (house.gate.fingerprint(), &house.address)
    );
    // It has said nothing.
    assert!(admitting.join().unwrap().is_err());
    for (key, expected) in [(&stranger, Rights::default()), (&limited, rights)] {
        assert!(house.gate.rights_of(key.fingerprint()).unwrap().is_some());
        let serving = house.serve(|caller| {
            let client = caller.client().clone();
            caller.welcome(welcome(), &[]).unwrap();
            client
        });
        house.dial(key).ask().unwrap();
        let client = serving.join().unwrap();
        assert_eq!(
            (client.fingerprint, client.rights),
            (key.fingerprint(), expected)
        );
    }
    // Nor is any client enrolled by it.
    assert_eq!(clients.list().unwrap().len(), 1);
}

#[test]
fn what_is_revoked_is_not_enrolled() {
    let house = House::new();
    let key = house.enrolled("laptop");
    Clients::of(&house.folder).revoke("laptop").unwrap();
    let admitting = house.admit();
    let error = house.dial(&key).ask().unwrap_err();
    assert!(
        matches!(
            error,
            LinkError::Refused {
                refusal: Refusal::NotEnrolled,
                ..
            }
        ),
        "{error}"
    );
    assert!(admitting.join().unwrap().is_err());
}

#[test]
fn an_invitation_enrols_one_client_and_not_a_second() {
    let house = House::new();
    let invitation = house.invite();
    let (first, second) = (house.key("first"), house.key("second"));
    let admitting = house.admit();
    invitation.take_up(&first, "first", PATIENCE).unwrap();
    admitting.join().unwrap().unwrap();
    let admitting = house.admit();
    let error = invitation.take_up(&second, "second", PATIENCE).unwrap_err();
    assert!(
        matches!(
            error,
            LinkError::Refused {
                refusal: Refusal::Invitation,
                ..
            }
        ),
        "{error}"
    );
    assert!(admitting.join().unwrap().is_err());
    let clients = Clients::of(&house.folder).list().unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!(clients[0].fingerprint, first.fingerprint());
}

/// Passes on all bytes, until either side has closed.
fn pass_on(mut from: TcpStream, mut to: TcpStream) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // Either side may have closed it.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    })
}

#[test]
fn what_a_node_has_dialled_for_a_session_is_a_peer_or_nothing() {
    let house = House::new();
    let (key, invitation) = (house.enrolled("laptop"), house.invite());
    // As a session's code passes on a client's bytes, once the node that dials for it has had the
    // proof.
    let session = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = session.local_addr().unwrap().to_string();
    let to = Destination {
        address: house.address.parse().unwrap(),
        key: house.gate.fingerprint(),
        session: None,
    };
    let passing = std::thread::spawn(move || {
        for _ in 0..2 {
            let (client, _) = session.accept().unwrap();
            let everywhere: Networks = "0.0.0.0/0".parse().unwrap();
            let node = everywhere.prove(&to, Instant::now() + PATIENCE).unwrap();
            let there = pass_on(client.try_clone().unwrap(), node.try_clone().unwrap());
            pass_on(node, client).join().unwrap();
            there.join().unwrap();
        }
    });
    let is_refused = |admitting: JoinHandle<Result<Arrival>>| {
        let refused = admitting.join().unwrap().unwrap_err();
        assert!(matches!(refused, LinkError::Tls { .. }), "{refused}");
    };
    let admitting = house.admit();
    let dial = Dial {
        address: &address,
        ..house.dial(&key)
    };
    dial.ask().unwrap_err();
    is_refused(admitting);
    let admitting = house.admit();
    let invitation = Invitation {
        address,
        ..invitation
    };
    let stranger = house.key("stranger");
    invitation
        .take_up(&stranger, "stranger", PATIENCE)
        .unwrap_err();
    is_refused(admitting);
    passing.join().unwrap();
    assert_eq!(Clients::of(&house.folder).list().unwrap().len(), 1);
}

#[test]
fn a_client_waits_for_a_session_that_starts_and_is_told_so_if_it_understands_that() {
    for lacks in [0, EARLY] {
        let mut house = House::new();
        let gate = Gate::new(&house.folder, "node-a", PATIENCE, Arc::new(SystemClock));
        house.gate = Arc::new(gate.unwrap().lacking(lacks));
        let key = house.enrolled("laptop");
        let serving = house.serve(move |mut caller| {
            for _ in 0..3 {
                caller.is_starting().unwrap();
            }
            let own = caller.own_session();
            assert_eq!(own.is_none(), lacks != 0);
            let session = own.unwrap_or(SessionId([1; 16]));
            let welcome = Welcome {
                session,
                epoch: 1,
                ..welcome()
            };
            caller.welcome(welcome, &[]).unwrap();
            session
        });
        let greeted = house.dial(&key).begin(Duration::ZERO).unwrap();
        let (session, _) = greeted.terms.session;
        assert_eq!(session, serving.join().unwrap());
    }
}

#[test]
fn an_early_connection_is_for_the_key_that_the_node_has_named() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let [right, wrong] = [(); 2].map(|()| Key::passing().unwrap());
    let client = Clients::of(&house.folder).list().unwrap().remove(0);
    let impostor = Gate::of_session(&wrong, client, "node-a", PATIENCE).unwrap();
    let (gate, listener) = (house.gate.clone(), house.listener.clone());
    let serving = std::thread::spawn(move || {
        let first = listener.accept().unwrap().0;
        let admitting = std::thread::spawn(move || gate.admit(first));
        let mut early = [(); 2].map(|()| listener.accept().unwrap().0);
        let Ok(Arrival::Caller(caller)) = admitting.join().unwrap() else {
            panic!("no caller");
        };
        let session = caller.own_session().unwrap();
        let mut words = [[0; Route::LENGTH]; 2];
        for (stream, words) in early.iter_mut().zip(&mut words) {
            stream.read_exact(words).unwrap();
        }
        let mut named = words.map(|words| Route::decode_early(words).unwrap());
        named.sort_by_key(|(_, is_bulk)| *is_bulk);
        let route = Route::to(session);
        assert_eq!(named, [(route, false), (route, true)]);
        let redirect = Redirect {
            session,
            key: right.fingerprint().bytes(),
            wait_ms: 1,
        };
        caller.redirect(redirect).unwrap();
        for stream in early {
            // The client goes before it says hello.
            impostor.admit(stream).unwrap_err();
        }
        // It looks for the session in the way that an older client does.
        let (mut again, _) = listener.accept().unwrap();
        let mut words = [0; Route::LENGTH];
        again.read_exact(&mut words).unwrap();
        assert_eq!(Route::decode(words), Some(route));
    });
    let begun = house.dial(&key).begin_both(Duration::ZERO, false);
    begun.map(|_| ()).unwrap_err();
    serving.join().unwrap();
}

/// A clock that stands still until it is set.
struct Set(AtomicU64);

impl Clock for Set {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn an_old_invitation_is_answered_as_an_unknown_one() {
    let clock = Arc::new(Set(1_000_000.into()));
    let house = House::with_clock(clock.clone(), PATIENCE);
    let invitations = Invitations::of(&house.folder);
    let old = invitations
        .invite(house.gate.fingerprint(), &house.address, &*clock)
        .unwrap();
    clock.0.store(1_000_600, Ordering::Relaxed);
    let unknown = Invitation {
        token: [7; 32],
        ..old.clone()
    };
    let said = [old, unknown].map(|invitation| {
        let admitting = house.admit();
        let key = house.key("late");
        let error = invitation.take_up(&key, "late", PATIENCE).unwrap_err();
        assert!(admitting.join().unwrap().is_err());
        error.to_string()
    });
    assert_eq!(said[0], said[1]);
    assert!(Clients::of(&house.folder).list().unwrap().is_empty());
}

#[test]
fn another_nodes_key_is_refused_before_anything_is_said() {
    let (house, other) = (House::new(), House::new());
    let key = house.enrolled("laptop");
    // The address of one, the key of the other.
    let dial = Dial {
        node: other.gate.fingerprint(),
        ..house.dial(&key)
    };
    let admitting = house.admit();
    let error = dial.ask().unwrap_err();
    let LinkError::WrongKey {
        expected, found, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*expected, *found), (dial.node, house.gate.fingerprint()));
    // The node is told by TLS, or finds the socket closed.
    let end = admitting.join().unwrap().unwrap_err();
    assert!(
        matches!(end, LinkError::Tls { .. } | LinkError::Ended { .. }),
        "{end}"
    );
    // An invitation's secret is not said to another node, either.
    let invitation = Invitation {
        node: other.gate.fingerprint(),
        ..house.invite()
    };
    let admitting = house.admit();
    let error = invitation.take_up(&key, "laptop", PATIENCE).unwrap_err();
    assert!(matches!(error, LinkError::WrongKey { .. }), "{error}");
    assert!(admitting.join().unwrap().is_err());
}

#[test]
fn a_caller_can_be_refused() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let serving = house.serve(|caller| caller.refuse(Refusal::Full, "64 sessions are open\u{7}"));
    let error = house.dial(&key).ask().unwrap_err();
    assert!(
        matches!(&error, LinkError::Refused { refusal: Refusal::Full, text, .. } if text == "64 sessions are open "),
        "{error}"
    );
    serving.join().unwrap();
}

#[test]
fn bytes_that_are_not_tls_end_the_connection_and_no_other() {
    let house = House::new();
    let key = house.enrolled("laptop");
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        &[0x16; 700],
        &[0xff; 4096],
    ] {
        let admitting = house.admit();
        let mut stream = TcpStream::connect(&house.address).unwrap();
        // It may be closed while this is written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let error = admitting.join().unwrap().unwrap_err();
        assert!(
            matches!(error, LinkError::Tls { .. } | LinkError::Ended { .. }),
            "{error}"
        );
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let serving = house.serve(|caller| answer(caller.welcome(welcome(), &[]).unwrap()));
    house.dial(&key).ask().unwrap().close();
    serving.join().unwrap();
}

#[test]
fn who_says_nothing_is_given_up() {
    let house = House::with_clock(Arc::new(SystemClock), Duration::from_millis(50));
    let admitting = house.admit();
    let silent = TcpStream::connect(&house.address).unwrap();
    let error = admitting.join().unwrap().unwrap_err();
    assert!(matches!(error, LinkError::TimedOut { .. }), "{error}");
    drop(silent);
    // And the other way round: no one there ever answers.
    let key = house.key("laptop");
    let dial = Dial {
        patience: Duration::from_millis(50),
        ..house.dial(&key)
    };
    let error = dial.ask().unwrap_err();
    assert!(matches!(error, LinkError::TimedOut { .. }), "{error}");
}

#[test]
fn nobody_at_an_address_is_said_with_what_to_do() {
    let house = House::new();
    let key = house.key("laptop");
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let dial = Dial {
        address: &free,
        ..house.dial(&key)
    };
    let error = dial.ask().unwrap_err();
    assert!(error.to_string().contains("quipu serve"), "{error}");
    for address in ["nowhere", "x:0", ""] {
        let dial = Dial { address, ..dial };
        assert!(matches!(dial.ask(), Err(LinkError::BadText { .. })));
    }
}

#[test]
fn a_node_that_breaks_the_rules_is_not_believed() {
    let house = House::new();
    let key = house.enrolled("laptop");
    // A feature that no side offered.
    let serving = house.serve(|caller| {
        let greedy = Welcome {
            features: 1 << 47,
            ..welcome()
        };
        answer(caller.welcome(greedy, &[]).unwrap())
    });
    let error = house.dial(&key).ask().unwrap_err();
    assert!(
        matches!(
            error,
            LinkError::Unexpected {
                kind: "welcome",
                ..
            }
        ),
        "{error}"
    );
    serving.join().unwrap();
    // A device that has another's number.
    let serving = house.serve(|caller| answer(caller.welcome(welcome(), &[device(5)]).unwrap()));
    let error = house.dial(&key).ask().unwrap_err();
    assert!(
        matches!(error, LinkError::Unexpected { kind: "device", .. }),
        "{error}"
    );
    serving.join().unwrap();
    // An answer to another question.
    let serving = house.serve(|caller| {
        let mut connection = caller.welcome(welcome(), &[]).unwrap();
        connection.receive().unwrap();
        connection
            .send(&Message::Pong(Pong {
                token: 0,
                time_ns: 0,
                received_ns: 0,
                sent_ns: 0,
            }))
            .unwrap();
        answer(connection)
    });
    let mut link = house.dial(&key).ask().unwrap();
    assert!(matches!(link.status(), Err(LinkError::Unexpected { .. })));
    drop(link);
    let end = serving.join().unwrap();
    assert!(matches!(end, LinkError::Ended { .. }), "{end}");
}

/// A node's answer to an enrolled client that begins with this message, and its reason to close.
fn answer_to(house: &House, key: &Key, first: &Message<'_>) -> (Option<Refusal>, LinkError) {
    let admitting = house.admit();
    let mut connection = house.dial(key).open().unwrap();
    connection.send(first).unwrap();
    let answer = connection.receive_as(|message| match message {
        Message::Refuse(refuse) => Ok(refuse.refusal),
        _ => Err("a refusal"),
    });
    (answer.ok(), admitting.join().unwrap().unwrap_err())
}

#[test]
fn an_enrolled_client_that_begins_wrongly_is_not_taken() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let hello = Hello {
        versions: (
            quipu_protocol::OLDEST_VERSION,
            quipu_protocol::NEWEST_VERSION,
        ),
        role: Role::Session,
        features: 0,
        session: SessionId::NONE,
        epoch: 0,
        data_order: if cfg!(target_endian = "big") {
            DataOrder::Big
        } else {
            DataOrder::Little
        },
        received: 0,
        max_frame: 1 << 20,
        patience_ms: 0,
        name: "a test",
    };
    let newer = Message::Hello(Hello {
        versions: (7, 9),
        ..hello
    });
    let (refusal, error) = answer_to(&house, &key, &newer);
    assert_eq!(refusal, Some(Refusal::Version));
    assert!(error.to_string().contains("7 to 9"), "{error}");
    let order = if cfg!(target_endian = "big") {
        DataOrder::Little
    } else {
        DataOrder::Big
    };
    let other = Message::Hello(Hello {
        data_order: order,
        ..hello
    });
    let (refusal, _) = answer_to(&house, &key, &other);
    assert_eq!(refusal, Some(Refusal::DataOrder));
    // A message that is no hello gets no answer.
    let enrol = Message::Enrol(Enrol {
        token: [1; 32],
        name: "x",
    });
    for first in [Message::StatusRequest, enrol] {
        let (refusal, error) = answer_to(&house, &key, &first);
        assert_eq!(refusal, None);
        assert!(
            matches!(
                error,
                LinkError::Unexpected {
                    expected: "a hello",
                    ..
                }
            ),
            "{error}"
        );
    }
    // Its last text is a part of a line, in a log.
    let goodbye = Message::Goodbye(Goodbye {
        reason: GoodbyeReason::Done,
        text: "so long\n2026-11-25 INFO enrolled\tclient=root",
    });
    let (_, error) = answer_to(&house, &key, &goodbye);
    let said = error.to_string();
    assert!(
        said.contains("so long 2026-11-25 INFO enrolled client=root"),
        "{said}"
    );
    assert!(!said.contains(char::is_control), "{said:?}");
    // One that understands more than the node is spoken to with the features that the node
    // understands.
    let serving = house.serve(|caller| {
        drop(caller.welcome(welcome(), &[]).unwrap());
    });
    let mut connection = house.dial(&key).open().unwrap();
    let both = Hello {
        versions: (1, 9),
        features: u64::MAX,
        ..hello
    };
    connection.send(&Message::Hello(both)).unwrap();
    let version = connection.receive_as(|message| match message {
        Message::Welcome(welcome) => Ok((welcome.version, welcome.features)),
        _ => Err("a welcome"),
    });
    assert_eq!(version.unwrap(), (quipu_protocol::NEWEST_VERSION, 0));
    serving.join().unwrap();
}

#[test]
fn a_frame_that_is_too_large_before_the_welcome_is_not_waited_for() {
    let house = House::new();
    let key = house.enrolled("laptop");
    let admitting = house.admit();
    let mut connection = house.dial(&key).open().unwrap();
    connection.allow_frames(1 << 20, 1 << 20);
    let bytes = vec![1; 20_000];
    let mut batch = quipu_protocol::batch::Batch::new(1 << 20);
    let chunk = Message::Chunk(Chunk {
        transfer: 1,
        offset: 0,
        bytes: &bytes,
    });
    batch.push(&chunk, 1).unwrap();
    // The node may close while this is sent.
    let _ = connection.send_batch(&batch);
    let error = admitting.join().unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Wire { .. }), "{error}");
    assert!(error.to_string().contains("16 to 16384"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_signal_does_not_end_a_wait_for_a_hello() {
    use std::os::unix::thread::JoinHandleExt as _;
    /// The number of signals.
    static SIGNALS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the handler does nothing else, and no other test sends this signal.
    unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
    let house = House::new();
    let silent = TcpStream::connect(&house.address).unwrap();
    let admitting = house.admit();
    // So many that it is waiting when the last ones come.
    for sent in 1..=1000 {
        // SAFETY: it has not been joined.
        unsafe { libc::pthread_kill(admitting.as_pthread_t(), libc::SIGUSR1) };
        while SIGNALS.load(Ordering::SeqCst) < sent && !admitting.is_finished() {
            std::thread::yield_now();
        }
    }
    assert!(!admitting.is_finished(), "{:?}", admitting.join());
    drop(silent);
    let error = admitting.join().unwrap().unwrap_err();
    assert!(!error.to_string().contains("Interrupted"), "{error}");
}

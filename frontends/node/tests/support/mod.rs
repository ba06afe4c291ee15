//! A node on loopback, and clients that speak to it message by message.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

pub(crate) mod honest;

use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_link::client::Dial;
use quipu_link::clients::Clients;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::session::{Greeted, Terms};
use quipu_link::{Fingerprint, Folder, Key, LinkError};
use quipu_node::{Limits, Node, Options};
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    Acknowledge, Command, CreateBuffer, Failure, Fill, GoodbyeReason, Launch, Message, Operation,
    Priority, Read, Wait, Word,
};
use quipu_scheduler::{Device, Driver};
use std::net::TcpListener;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A pool of two workers.
pub(crate) fn pool() -> Vec<Device> {
    let workers = NonZero::new(2).unwrap();
    let pool: Arc<dyn Driver> = CpuDriver::start(CpuOptions::new().workers(workers)).unwrap();
    Device::all_of(&pool).unwrap()
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A node, and two clients that are enrolled there.
pub(crate) struct Rig {
    pub(crate) node: Node,
    keys: [Key; 2],
    pub(crate) address: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_folder(limits, |_, _| ())
    }

    /// With other options of the node's, and of whoever knows where it keeps its files.
    pub(crate) fn with_folder(limits: Limits, set: impl FnOnce(&mut Options, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |name| Folder::open(folder.path().join(name)).unwrap();
        let of_node = open("node");
        let gate = Gate::new(&of_node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut options = Options {
            limits,
            ..Options::new(pool())
        };
        // Clients here are silent for as long as a test likes.
        options.lacks |= quipu_protocol::PULSE;
        set(&mut options, folder.path());
        let node = Node::serve(options, gate, listener).unwrap();
        let keys = ["one", "two"].map(|name| {
            let key = Key::of(&open(name), "client.key").unwrap();
            let invitations = Invitations::of(&of_node);
            let invitation = invitations.invite(node.fingerprint(), &address, &SystemClock);
            invitation.unwrap().take_up(&key, name, PATIENCE).unwrap();
            key
        });
        Self {
            node,
            keys,
            address,
            folder,
        }
    }

    pub(crate) fn dial(&self, key: usize) -> Dial<'_> {
        Dial {
            address: &self.address,
            node: self.node.fingerprint(),
            key: &self.keys[key],
            name: "test",
            patience: PATIENCE,
        }
    }

    /// Gives a client these rights, and no others.
    pub(crate) fn grant(&self, name: &str, rights: &str) {
        let folder = Folder::open(self.folder.path().join("node")).unwrap();
        let rights = rights.parse().unwrap();
        Clients::of(&folder).grant(name, rights).unwrap();
    }

    /// Takes back that a client may come in.
    pub(crate) fn revoke(&self, name: &str) {
        let folder = Folder::open(self.folder.path().join("node")).unwrap();
        Clients::of(&folder).revoke(name).unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(0)
    }

    pub(crate) fn client_of(&self, key: usize) -> Client {
        let Greeted {
            connection, terms, ..
        } = self.dial(key).begin(Duration::ZERO).unwrap();
        Client::over(connection, &terms, 0)
    }

    /// Returns when the node has no session left, and nothing of any.
    pub(crate) fn is_empty(&self) {
        while self.node.sessions() > 0 || self.node.session_bytes() > 0 {
            std::thread::yield_now();
        }
    }
}

/// A session's command stream, message by message.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) session: (quipu_protocol::message::SessionId, u32),
    /// The session's own key, if it has a process.
    pub(crate) key: Option<Fingerprint>,
    sent: u64,
    /// Messages with numbers that came, if it is the stream's first connection.
    received: u64,
    /// The ends of commands that nobody has asked for yet.
    ended: Vec<(u64, Option<(Failure, String)>)>,
}

impl Client {
    /// Over a connection, on which so many messages were received before.
    pub(crate) fn over(connection: Connection, terms: &Terms, sent: u64) -> Self {
        Self {
            connection,
            session: terms.session,
            key: terms.key,
            sent,
            received: 0,
            ended: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, messages: &[Message<'_>]) {
        let mut batch = Batch::new(1 << 20);
        for message in messages {
            self.sent += u64::from(message.kind().is_numbered());
            let number = if message.kind().is_numbered() {
                self.sent
            } else {
                0
            };
            batch.push(message, number).unwrap();
        }
        // A node that has sent us away does not take it all.
        let _ = self.connection.send_batch(&batch);
    }

    /// Acknowledges all that has come.
    pub(crate) fn acknowledge(&mut self) {
        let received = self.received;
        let message = Message::Acknowledge(Acknowledge { received });
        // A node that has sent us away does not take it.
        let _ = self.connection.send(&message);
    }

    /// The next message that is not an acknowledgement.
    pub(crate) fn next<T>(&mut self, take: impl Fn(&Message<'_>) -> T) -> Result<T, LinkError> {
        loop {
            let taken = self.connection.receive_as(|message| match message {
                Message::Acknowledge(_) => Ok(None),
                message => Ok(Some((message.kind().is_numbered(), take(message)))),
            })?;
            if let Some((is_numbered, taken)) = taken {
                self.received += u64::from(is_numbered);
                return Ok(taken);
            }
        }
    }

    /// The end of a command: those that do not wait for each other end in any order.
    pub(crate) fn end_of(&mut self, wanted: u64) -> Option<(Failure, String)> {
        loop {
            if let Some(at) = self.ended.iter().position(|(event, _)| *event == wanted) {
                return self.ended.swap_remove(at).1;
            }
            let ended = self.next(|message| match message {
                Message::Completed(completed) => {
                    let events = completed.events.iter();
                    events.map(|event| (event.get(), None)).collect()
                }
                Message::Failed(failed) => {
                    let how = (failed.failure, failed.text.to_owned());
                    vec![(failed.event, Some(how))]
                }
                _ => Vec::new(),
            });
            self.ended.extend(ended.unwrap());
        }
    }

    /// Returns when the node has sent us away. It may say why, but waits for nobody who does not
    /// hear it for a while.
    pub(crate) fn sent_away(&mut self) -> Option<GoodbyeReason> {
        loop {
            match self.next(|_| ()) {
                Ok(()) => {}
                Err(LinkError::Goodbye { reason, .. }) => return Some(reason),
                Err(LinkError::Ended { .. }) => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The reason for which the node sends us away.
    pub(crate) fn goodbye(&mut self) -> GoodbyeReason {
        loop {
            match self.next(|_| ()) {
                Ok(()) => {}
                Err(LinkError::Goodbye { reason, .. }) => return reason,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(crate) fn buffer(buffer: u64, size: u64) -> Message<'static> {
    Message::CreateBuffer(CreateBuffer { buffer, size })
}

pub(crate) fn command<'a>(event: u64, waits: &'a [Wait], operation: Operation<'a>) -> Message<'a> {
    Message::Command(Command {
        event,
        device: 0,
        queue: 0,
        priority: Priority::Normal,
        profiled: false,
        waits,
        operation,
    })
}

pub(crate) fn fill(buffer: u64, length: u64) -> Operation<'static> {
    let mut pattern = [0; 16];
    pattern[0] = 7;
    Operation::Fill(Fill {
        buffer,
        offset: 0,
        length,
        pattern,
        pattern_length: 1,
    })
}

/// A launch of one thread, which nothing is passed to.
pub(crate) fn one_thread(program: u64) -> Operation<'static> {
    const ONE: &[Word] = &[Word::new(1)];
    Operation::Launch(Launch {
        program,
        blocks: ONE,
        threads: ONE,
        elements: ONE,
        offset: &[],
        all_threads: &[],
        shared: &[],
        parameters: &[],
        extents: &[],
        values: &[],
    })
}

pub(crate) fn read(buffer: u64, offset: u64, row: u64, transfer: u64) -> Operation<'static> {
    Operation::Read(Read {
        buffer,
        offset,
        row,
        steps: &[],
        transfer,
    })
}

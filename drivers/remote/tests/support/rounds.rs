//! A network on which time is counted in round trips. A node's answers in a round wait until the
//! client has sent all its messages of that round, on all its connections. So a client that waits
//! for an answer before it sends something else waits for ever.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// TLS's change of ciphers, which says nothing in version 1.3: a client sends it in the middle of
/// an answer.
const CHANGE: [u8; 6] = [20, 3, 3, 0, 1, 1];

/// A round trip: the connections that have come by its end, and those on which the client speaks in
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) connections: usize,
    pub(crate) speak: usize,
}

/// See the module.
pub(crate) struct Rounds {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    rounds: Vec<Round>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The round that it is.
    round: usize,
    connections: usize,
    /// On how many connections the client has spoken in this round.
    spoken: usize,
    /// In which round the client has spoken on each connection, if nothing was answered since.
    unanswered: HashMap<usize, usize>,
}

impl State {
    /// The round is over, if all has come.
    fn advance(&mut self, rounds: &[Round]) {
        let Some(round) = rounds.get(self.round) else {
            return;
        };
        if self.connections >= round.connections && self.spoken >= round.speak {
            self.round += 1;
            self.spoken = 0;
        }
    }
}

impl Rounds {
    /// A relay to an address, for a client that is done after these rounds.
    pub(crate) fn to(address: &str, rounds: &[Round]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            rounds: rounds.to_vec(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (of_thread, address) = (shared.clone(), address.to_owned());
        // It ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let node = TcpStream::connect(&address).unwrap();
                let _ = (client.set_nodelay(true), node.set_nodelay(true));
                of_thread.pass_on(&client, &node);
            }
        });
        Self {
            address: own,
            shared,
        }
    }

    /// The number of rounds in which the client has spoken, and the number of connections. More
    /// rounds than were expected are one for each time that the client has spoken.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.shared.state.lock().unwrap();
        (state.round + state.spoken, state.connections)
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        state.advance(&self.rounds);
        drop(state);
        self.changed.notify_all();
    }

    fn pass_on(self: &Arc<Self>, client: &TcpStream, node: &TcpStream) {
        let mut number = 0;
        self.change(|state| {
            number = state.connections;
            state.connections += 1;
        });
        for is_answer in [false, true] {
            let [mut from, mut to] = match is_answer {
                false => [client, node],
                true => [node, client],
            }
            .map(|side| side.try_clone().unwrap());
            let own = self.clone();
            std::thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    match is_answer {
                        false if bytes[..length] == CHANGE => {}
                        false => own.change(|state| {
                            // What it says in pieces is of the round in which it began.
                            if !state.unanswered.contains_key(&number) {
                                state.unanswered.insert(number, state.round);
                                state.spoken += 1;
                            }
                        }),
                        true => own.answer(number),
                    }
                    if to.write_all(&bytes[..length]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }

    /// Waits until what the client has said on a connection is of a round that is over.
    fn answer(&self, connection: usize) {
        let state = self.state.lock().unwrap();
        let is_early = |state: &mut State| {
            let spoken = state.unanswered.get(&connection);
            spoken.is_some_and(|round| *round >= state.round && *round < self.rounds.len())
        };
        let mut state = self.changed.wait_while(state, is_early).unwrap();
        state.unanswered.remove(&connection);
    }
}

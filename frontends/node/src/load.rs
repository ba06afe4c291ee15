//! The load of the node's devices and the traffic of its links, as clients ask for them.
//!
//! 1. Each session counts its commands by queue ([`counters`](crate::session)). Sums are made when
//!    somebody asks.
//! 2. Sessions in processes of their own are asked by the node, and waited for, but not for long.
//! 3. Whether something runs on a device is looked at now and then, for as long as somebody asks.
//!    It costs nothing else.

use crate::locked;
use crate::node::{Home, Shared};
use crate::session::LinkCount;
use quipu_link::Fingerprint;
use quipu_protocol::limits::{MAX_LINKS, MAX_QUEUE_LOADS};
use quipu_protocol::message::{LinkEntry, LinkKind, LinkLoad, LinkState, QueueLoad};
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what runs.
const LOOKING: Duration = Duration::from_millis(20);

/// The time for which devices are looked at after somebody has asked.
const ATTENTION: Duration = Duration::from_secs(3);

/// The load of one queue of a session on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueCount {
    pub(crate) queue: u32,
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) over: u64,
}

/// The load of a session, or of the sessions of a process, on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCount {
    pub(crate) busy_ns: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) queues: Vec<QueueCount>,
}

/// The load of one session on the node's devices, by their numbers.
pub(crate) struct SessionCount {
    pub(crate) client: Fingerprint,
    /// Larger than those of sessions that began before.
    pub(crate) number: u64,
    pub(crate) devices: HashMap<usize, DeviceCount>,
    pub(crate) links: LinkCount,
}

/// The load of one device, as one client is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceLoad {
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) over: u64,
    pub(crate) busy_ns: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) queues: Vec<QueueLoad>,
}

/// The time for which something ran on each device of this process while somebody asked.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    nanoseconds: Vec<AtomicU64>,
    /// Until when it is looked at; none while nobody looks.
    until: Mutex<Option<Instant>>,
}

impl Busy {
    pub(crate) fn of(devices: usize) -> Self {
        Self {
            nanoseconds: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            until: Mutex::default(),
        }
    }

    fn on(&self, device: usize) -> u64 {
        self.nanoseconds[device].load(Ordering::Relaxed)
    }
}

/// The traffic of links, as one client is told: of its own sessions, and the number of links beside
/// these.
pub(crate) fn links(sessions: &[SessionCount], client: Fingerprint) -> (Vec<LinkEntry>, u32) {
    let own = sessions.iter().filter(|session| session.client == client);
    let (mut entries, mut more) = (Vec::new(), 0_u32);
    for (number, session) in (1..).zip(own) {
        more = more.saturating_add(session.links.more);
        for link in &session.links.links {
            if entries.len() == MAX_LINKS {
                more = more.saturating_add(1);
                continue;
            }
            entries.push(LinkEntry::from(&LinkLoad {
                session: number,
                ..*link
            }));
        }
    }
    (entries, more)
}

/// Links of all sessions together: numbers by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStates {
    /// Links that are connected.
    pub connected: u64,
    /// Links whose connection is awaited.
    pub awaited: u64,
    /// Links that go by way of the client.
    pub by_client: u64,
}

/// Links of all sessions together: with clients, and with other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTotals {
    /// Links with clients.
    pub clients: LinkSums,
    /// Links with other nodes.
    pub nodes: LinkSums,
}

/// Links of all sessions together, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSums {
    /// The numbers of links, by state.
    pub states: LinkStates,
    /// The number of times that another connection has taken the place of one that was lost.
    pub resumed: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that have come.
    pub received: u64,
}

impl LinkTotals {
    /// The links of these sessions.
    pub(crate) fn of(sessions: &[SessionCount]) -> Self {
        let mut totals = Self::default();
        for link in sessions.iter().flat_map(|session| &session.links.links) {
            let sum = match link.kind {
                LinkKind::Commands | LinkKind::Bulk => &mut totals.clients,
                LinkKind::ToNode | LinkKind::FromNode => &mut totals.nodes,
            };
            let links = match link.state {
                LinkState::Connected => &mut sum.states.connected,
                LinkState::Awaited => &mut sum.states.awaited,
                LinkState::ByClient => &mut sum.states.by_client,
            };
            *links += 1;
            sum.resumed += u64::from(link.resumed);
            // A session's process says what it will.
            sum.sent = sum.sent.saturating_add(link.sent);
            sum.received = sum.received.saturating_add(link.received);
        }
        totals
    }
}

impl Shared {
    /// The loads of all sessions, in the order in which they began.
    pub(crate) fn seen(self: &Arc<Self>) -> Vec<SessionCount> {
        let mut sessions = self.session_counts();
        sessions.sort_unstable_by_key(|session| session.number);
        sessions
    }

    /// The load of each device, as a client is told.
    pub(crate) fn loads(&self, sessions: &[SessionCount], client: Fingerprint) -> Vec<DeviceLoad> {
        let mut loads: Vec<DeviceLoad> = Vec::new();
        for device in 0..self.options.devices.len() {
            loads.push(DeviceLoad {
                busy_ns: self.busy.on(device),
                ..DeviceLoad::default()
            });
        }
        let mut own = 0;
        for session in sessions {
            let is_own = session.client == client;
            own += u32::from(is_own);
            for (device, count) in &session.devices {
                let Some(load) = loads.get_mut(*device) else {
                    continue;
                };
                load.busy_ns = load.busy_ns.saturating_add(count.busy_ns);
                load.buffer_bytes = load.buffer_bytes.saturating_add(count.buffer_bytes);
                for queue in &count.queues {
                    load.waiting = load.waiting.saturating_add(queue.waiting);
                    load.running = load.running.saturating_add(queue.running);
                    load.over = load.over.saturating_add(queue.over);
                    if is_own && load.queues.len() < MAX_QUEUE_LOADS {
                        load.queues.push(QueueLoad {
                            session: own.into(),
                            queue: queue.queue.into(),
                            waiting: queue.waiting.into(),
                            running: queue.running.into(),
                            over: queue.over.into(),
                        });
                    }
                }
            }
        }
        loads
    }

    fn session_counts(self: &Arc<Self>) -> Vec<SessionCount> {
        match self.home() {
            #[cfg(target_os = "linux")]
            Home::Processes(processes) => processes.session_counts(),
            _ => {
                self.attend();
                self.own_counts()
            }
        }
    }

    /// The loads of the sessions in this process on its devices.
    pub(crate) fn own_counts(&self) -> Vec<SessionCount> {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let count = |session: &Arc<crate::session::Session>| {
            let mut devices: HashMap<usize, DeviceCount> = HashMap::new();
            for (device, queue) in session.counters().counts() {
                let device = devices.entry(device as usize).or_default();
                device.queues.push(queue);
            }
            for (number, device) in self.options.devices.iter().enumerate() {
                let buffer_bytes = session.bytes_on(device);
                if buffer_bytes > 0 {
                    devices.entry(number).or_default().buffer_bytes = buffer_bytes;
                }
            }
            SessionCount {
                client: session.client(),
                number: session.number(),
                devices,
                links: session.links(self),
            }
        };
        sessions.iter().map(count).collect()
    }

    /// The time for which something ran on a device of this process.
    #[cfg(target_os = "linux")]
    pub(crate) fn busy_on(&self, device: usize) -> u64 {
        self.busy.on(device)
    }

    /// Has a thread look for a while at what runs in this process.
    pub(crate) fn attend(self: &Arc<Self>) {
        let mut until = self
            .busy
            .until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if until.replace(Instant::now() + ATTENTION).is_some() {
            return;
        }
        let shared = Arc::downgrade(self);
        let begun = std::thread::Builder::new()
            .name("quipu-looks".to_owned())
            .stack_size(1 << 17)
            .start(move || {
                let mut last = Instant::now();
                loop {
                    std::thread::sleep(LOOKING);
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    let now = Instant::now();
                    shared.look_at_devices(now - last);
                    last = now;
                    let mut until = locked(&shared.busy.until);
                    if until.is_none_or(|until| until < now) {
                        *until = None;
                        return;
                    }
                }
            });
        if let Err(error) = begun {
            quietly(|| tracing::warn!(%error, "no thread looks at how busy devices are"));
            *until = None;
        }
    }

    /// Counts the time since the last look for each device on which something runs.
    fn look_at_devices(&self, passed: Duration) {
        let mut runs = vec![false; self.options.devices.len()];
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in sessions {
            session.counters().note_running(&mut runs);
        }
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        for (busy, runs) in self.busy.nanoseconds.iter().zip(runs) {
            if runs {
                busy.fetch_add(passed, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(client: u8, links: usize, more: u32) -> SessionCount {
        let link = LinkLoad {
            session: 1,
            kind: LinkKind::Commands,
            state: LinkState::Connected,
            resumed: 1,
            address: None,
            key: [0; 32],
            round_trip_ns: 0,
            sent: u64::MAX / 2,
            received: 1,
            chunks_sent: [0; 2],
            chunks_received: [0; 2],
        };
        SessionCount {
            client: Fingerprint::of_bytes([client; 32]),
            number: 0,
            devices: HashMap::new(),
            links: LinkCount {
                links: vec![link; links],
                more,
            },
        }
    }

    #[test]
    fn a_client_is_told_of_links_of_its_own_sessions_and_how_many_find_no_room() {
        let sessions = [session(1, 2, 0), session(2, 3, 9), session(1, MAX_LINKS, 4)];
        let own = |client| {
            let (entries, more) = links(&sessions, Fingerprint::of_bytes([client; 32]));
            let loads = entries.iter().flat_map(LinkEntry::load);
            let numbers: Vec<u32> = loads.map(|load| load.session).collect();
            (numbers, more)
        };
        let (numbers, more) = own(1);
        assert_eq!((numbers.len(), more), (MAX_LINKS, 6));
        assert!(numbers[..2].iter().all(|number| *number == 1));
        assert!(numbers[2..].iter().all(|number| *number == 2));
        assert_eq!(own(2), (vec![1; 3], 9));
        assert_eq!(own(3), (Vec::new(), 0));
        // What a process says is never too much.
        let LinkTotals { clients, nodes } = LinkTotals::of(&sessions);
        let connected = LinkStates {
            connected: 133,
            ..LinkStates::default()
        };
        assert_eq!((clients.states, clients.sent), (connected, u64::MAX));
        assert_eq!((clients.resumed, clients.received), (133, 133));
        assert_eq!(nodes, LinkSums::default());
    }
}

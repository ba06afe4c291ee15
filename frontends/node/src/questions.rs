//! Answers to clients that only ask for a node's status.

use crate::budget::Budget;
use crate::describe::described;
use crate::load::{DeviceLoad, SessionCount, links};
use crate::locked;
use crate::node::{Shared, allowed};
use quipu_link::connection::Connection;
use quipu_link::gate::Caller;
use quipu_link::{Fingerprint, LinkError};
use quipu_protocol::message::{GoodbyeReason, Links, Load, Message, Pong, Refusal, Status};
use quipu_protocol::{LINKS, LOADS};
use quipu_scheduler::Device;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest silence of a connection that only asks.
const QUESTION_PATIENCE: Duration = Duration::from_secs(60);

/// Pings that are answered at once on a connection that only asks, and in each second from then on.
const PINGS: (u32, u32) = (64, 16);

/// An answer to all that ask: sessions, and the status.
pub(crate) type Look = (Vec<SessionCount>, Status);

/// The answers that a client takes beside a status.
struct Told<'a> {
    client: Fingerprint,
    /// The load of these devices.
    loads: Option<&'a [Device]>,
    /// The traffic of its sessions' links.
    links: bool,
}

/// One connection of a client's that asks.
struct Asking<'a>(&'a Shared, Fingerprint);

impl<'a> Asking<'a> {
    /// None if there are as many as may be.
    fn one(shared: &'a Shared, client: Fingerprint) -> Option<Self> {
        let limits = &shared.options.limits;
        let mut questions = locked(&shared.questions);
        let own = questions.get(&client).copied().unwrap_or(0);
        if own >= limits.client_questions || questions.values().sum::<usize>() >= limits.questions {
            return None;
        }
        questions.insert(client, own + 1);
        drop(questions);
        Some(Self(shared, client))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut questions = locked(&self.0.questions);
        match questions.get_mut(&self.1) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(questions.remove(&self.1)),
        }
    }
}

impl Shared {
    /// Answers questions about the node.
    pub(crate) fn answer(self: &Arc<Self>, caller: Caller) -> Result<(), LinkError> {
        let client = caller.client().fingerprint;
        let Some(_asking) = Asking::one(self, client) else {
            return Err(caller.refuse(Refusal::Full, "too many ask at once; try again later"));
        };
        let devices = allowed(&self.options.devices, &caller.client().rights);
        let features = caller.features();
        let told = Told {
            client,
            loads: (features & LOADS != 0).then_some(&devices[..]),
            links: features & LINKS != 0,
        };
        let connection = described(&devices, |devices| {
            caller.welcome(self.welcome(None), devices)
        });
        match connection.and_then(|connection| self.answer_on(connection, &told)) {
            Err(LinkError::Goodbye { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// Answers on a connection.
    fn answer_on(
        self: &Arc<Self>,
        mut connection: Connection,
        told: &Told<'_>,
    ) -> Result<(), LinkError> {
        let mut pings = Budget::new(PINGS.0, PINGS.1);
        while !self.stopping.load(Ordering::SeqCst) {
            connection.set_deadline(Some(Instant::now() + QUESTION_PATIENCE));
            let ping = connection.receive_as(|message| match message {
                Message::StatusRequest => Ok(None),
                Message::Ping(ping) => Ok(Some(*ping)),
                _ => Err("a question"),
            })?;
            if let Some(ping) = ping {
                let timer = &self.options.timer;
                while let Err(due) = pings.take(timer.now()) {
                    timer.park_until(due);
                }
                let now = self.begun.elapsed();
                let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                connection.send(&Message::Pong(Pong {
                    token: ping.token,
                    time_ns: ping.time_ns,
                    received_ns: now_ns,
                    sent_ns: now_ns,
                }))?;
                continue;
            }
            let looked = match told.loads.is_some() || told.links {
                true => self.paced_look(),
                false => self.paced_status(),
            };
            let (sessions, status) = &*looked;
            let mut answer = vec![Message::Status(*status)];
            let loads = self.loads(sessions, told.client);
            if let Some(devices) = told.loads {
                let numbers = devices.iter().enumerate();
                answer.extend(numbers.filter_map(|(number, device)| {
                    let own = self.options.devices.iter().position(|own| own == device)?;
                    Some(Message::Load(message(number, device, &loads[own])))
                }));
            }
            let (links, more) = links(sessions, told.client);
            if told.links {
                let links = &links[..];
                answer.push(Message::Links(Links { more, links }));
            }
            connection.send_all(&answer)?;
        }
        connection.close(GoodbyeReason::ShuttingDown, "the node is shutting down");
        Ok(())
    }

    /// All sessions and the status. Whoever asks all the time, and in many places, keeps nobody
    /// busy for it: neither this process nor the sessions'.
    pub(crate) fn paced_look(self: &Arc<Self>) -> Arc<Look> {
        // The status last, whose time is that of both.
        self.looks.get(|| (self.seen(), self.status()))
    }

    /// The status, without a session.
    pub(crate) fn paced_status(&self) -> Arc<Look> {
        self.statuses.get(|| (Vec::new(), self.status()))
    }

    fn status(&self) -> Status {
        let totals = self.totals();
        let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32);
        let (memory_bytes, memory_free) = machine_memory();
        Status {
            uptime_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            sessions: self.session_count() as u32,
            cores,
            load_thousandths: load_thousandths(),
            memory_bytes,
            memory_free: memory_free.min(memory_bytes),
            session_bytes: totals.buffer_bytes,
            commands_held: totals.commands_held,
            commands_over: totals.commands.saturating_sub(totals.commands_held),
            bulk_bytes: totals.bulk_bytes,
            bulk_sent: totals.bulk_sent,
        }
    }
}

/// The message to a client about a device that it knows by this number.
fn message<'a>(number: usize, device: &Device, load: &'a DeviceLoad) -> Load<'a> {
    Load {
        device: number as u32,
        waiting: load.waiting,
        running: load.running,
        over: load.over,
        busy_ns: load.busy_ns,
        buffer_bytes: load.buffer_bytes,
        free_bytes: device.free_memory().unwrap_or(0),
        queues: &load.queues,
    }
}

/// Threads that wanted a core in the last minute, in thousandths; zero where the system does not
/// say.
fn load_thousandths() -> u32 {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    load.map_or(0, |load| (load * 1000.0) as u32)
}

/// Bytes of the machine's memory, and of it that are free; zeros where the system does not say.
pub(crate) fn machine_memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let all = field("MemTotal:").unwrap_or(0);
    (all, field("MemAvailable:").unwrap_or(0))
}

//! What there is to do on the node's devices, for who asks.
//!
//! 1. Each session counts its commands by queue ([`tally`](crate::session)). Sums are made when somebody asks.
//! 2. Sessions in processes of their own are asked by the node, and waited for, but not for long.
//! 3. Whether something runs on a device is looked at now and then, for as long as somebody asks. It costs nothing else.

use crate::locked;
use crate::node::{Home, Shared};
use quipu_link::Fingerprint;
use quipu_wire::limits::MAX_QUEUE_LOADS;
use quipu_wire::message::QueueLoad;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what runs.
const LOOKING: Duration = Duration::from_millis(20);

/// For how long it is looked at after somebody has asked.
const ATTENTION: Duration = Duration::from_secs(3);

/// What there is to do for one queue of a session on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueCount {
    pub(crate) queue: u32,
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) over: u64,
}

/// What there is to do for a session, or for the sessions of a process, on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCount {
    pub(crate) busy_ns: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) queues: Vec<QueueCount>,
}

/// What one session has on the node's devices, by their numbers.
pub(crate) struct SessionCount {
    pub(crate) client: Fingerprint,
    /// Larger than those of sessions that began before.
    pub(crate) number: u64,
    pub(crate) devices: HashMap<usize, DeviceCount>,
}

/// What there is to do on one device, as one client is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceLoad {
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) over: u64,
    pub(crate) busy_ns: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) queues: Vec<QueueLoad>,
}

/// For how long something ran on each device of this process while somebody asked.
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

impl Shared {
    /// What there is to do on each device, as a client is told.
    pub(crate) fn loads(self: &Arc<Self>, client: Fingerprint) -> Vec<DeviceLoad> {
        let mut sessions = self.session_counts();
        sessions.sort_unstable_by_key(|session| session.number);
        let mut loads: Vec<DeviceLoad> = Vec::new();
        for device in 0..self.options.devices.len() {
            loads.push(DeviceLoad {
                busy_ns: self.busy.on(device),
                ..DeviceLoad::default()
            });
        }
        let mut own = 0;
        for session in &sessions {
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
            Home::Processes(processes) => processes.session_counts(&self.options.devices),
            _ => {
                self.attend();
                self.own_counts()
            }
        }
    }

    /// What the sessions in this process have on its devices.
    pub(crate) fn own_counts(&self) -> Vec<SessionCount> {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let count = |session: &Arc<crate::session::Session>| {
            let mut devices: HashMap<usize, DeviceCount> = HashMap::new();
            for (device, queue) in session.tally().counts() {
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
            }
        };
        sessions.iter().map(count).collect()
    }

    /// For how long something ran on a device of this process.
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
            .spawn(move || {
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
            tracing::warn!(%error, "no thread looks at how busy devices are");
            *until = None;
        }
    }

    /// Counts the time since the last look for each device on which something runs.
    fn look_at_devices(&self, passed: Duration) {
        let mut runs = vec![false; self.options.devices.len()];
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in sessions {
            session.tally().note_running(&mut runs);
        }
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        for (busy, runs) in self.busy.nanoseconds.iter().zip(runs) {
            if runs {
                busy.fetch_add(passed, Ordering::Relaxed);
            }
        }
    }
}

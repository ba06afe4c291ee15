//! Limits of a session's resources.

#[cfg(target_os = "linux")]
use quipu_link::Rights;
use quipu_link::stream::NOTICED_WITHIN;
use quipu_protocol::limits::{MAX_BUFFER, MAX_FRAME, MAX_PROGRAM, MIN_FRAME};
use quipu_scheduler::access::MAX_MEMORY_BYTES;
use std::time::Duration;

/// Limits of a session, and of all sessions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: usize,
    /// Sessions of one client at once.
    pub client_sessions: usize,
    /// Connections that have not said hello yet; of more, those from the address that most come
    /// from are given up.
    pub strangers: usize,
    /// Connections that only ask how the node is.
    pub questions: usize,
    /// Those of one client.
    pub client_questions: usize,
    /// The largest frame, in bytes.
    pub frame: u32,
    /// Bytes that ride with a write or come with a read.
    pub inline: u32,
    /// Commands and placeholders of a session whose ends were not acknowledged.
    pub commands: u32,
    /// Buffers of a session; fewer, if its process has not the memory to keep so many.
    pub buffers: u32,
    /// Programs of a session.
    pub programs: u32,
    /// Bytes of a program; half a frame, if its client sends it in one message.
    pub program_bytes: u32,
    /// Bytes of a buffer.
    pub buffer_bytes: u64,
    /// Bytes of all buffers of a session, and of its transfers in each direction. Parts of a
    /// program that has not come whole count as bytes of a buffer. If sessions have processes, also
    /// of the buffers of all sessions of a client together.
    pub session_bytes: u64,
    /// The share of a device's own memory that a session may have, in hundredths, if sessions have
    /// processes.
    pub device_percent: u32,
    /// The longest time for which a session is kept after its connection is lost. Zero: it ends
    /// with its connection.
    pub patience: Duration,
    /// The longest time for which a kernel may run: a native one on one core without a pause,
    /// another on its device. Zero: for ever, or until its client goes.
    pub run_time: Duration,
    /// The longest time for which one of a client's programs may be compiled. Zero: for ever, or
    /// until its client goes.
    pub compile_time: Duration,
    /// Bytes that a session's process may have, beside half a gigabyte of its own, and those of all
    /// sessions of a client together; if sessions have processes.
    pub process_bytes: u64,
    /// Files and connections that a session's process may have open at once.
    pub files: u64,
    /// Cores of the machine that a session's process may keep busy; zero: all.
    pub cores: u32,
}

impl Default for Limits {
    /// 256 sessions, 64 of them one client's, of 65,536 commands, [`MOST_BUFFERS`] buffers and 4096
    /// programs each, kept for a minute after a loss; a minute for each program to be compiled, and
    /// ten for a kernel to run. A client's processes have half of the machine's memory, and a
    /// session nine tenths of that of each device.
    fn default() -> Self {
        Self {
            sessions: 256,
            client_sessions: 64,
            strangers: 64,
            questions: 64,
            client_questions: 16,
            frame: 1 << 20,
            inline: 1 << 16,
            commands: 1 << 16,
            buffers: MOST_BUFFERS,
            programs: 1 << 12,
            program_bytes: MAX_PROGRAM,
            buffer_bytes: MAX_BUFFER,
            session_bytes: u64::MAX,
            device_percent: 90,
            patience: Duration::from_secs(60),
            run_time: Duration::from_secs(600),
            compile_time: Duration::from_secs(60),
            process_bytes: half_the_memory(),
            files: 1024,
            cores: 0,
        }
    }
}

/// Buffers of a session, at most, without another limit.
pub const MOST_BUFFERS: u32 = 1 << 24;

/// Bytes that a session's process has for each buffer beside its contents, at most.
const OF_BUFFER: u64 = 1 << 10;

/// Half of what the machine has, or eight gigabytes where the system does not say.
fn half_the_memory() -> u64 {
    match crate::questions::machine_memory() {
        (0, _) => 8 << 30,
        (all, _) => all / 2,
    }
}

/// By how much the node gives a session up before its client does, beside what it takes to notice a
/// loss.
const EARLIER: Duration = Duration::from_secs(1);

impl Limits {
    /// The time for which a session is kept after the node has noticed the loss of its connection,
    /// if its client waits for so long after it has noticed: less by the longest that a loss goes
    /// unnoticed here, so that nothing is written any more when the client's patience ends. Zero
    /// where the system does not notice.
    #[must_use]
    pub fn patience_with(&self, client: Duration) -> Duration {
        let Some(noticed) = NOTICED_WITHIN else {
            return Duration::ZERO;
        };
        self.patience
            .min(client.saturating_sub(noticed).saturating_sub(EARLIER))
    }

    /// The number of these numbers.
    #[cfg(target_os = "linux")]
    pub(crate) const NUMBERS: usize = 20;

    /// All of them, as they are told to a session's process.
    #[cfg(target_os = "linux")]
    pub(crate) fn numbers(&self) -> [u64; Self::NUMBERS] {
        let time = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        [
            self.sessions as u64,
            self.client_sessions as u64,
            self.strangers as u64,
            self.questions as u64,
            self.client_questions as u64,
            self.frame.into(),
            self.inline.into(),
            self.commands.into(),
            self.buffers.into(),
            self.programs.into(),
            self.program_bytes.into(),
            self.buffer_bytes,
            self.session_bytes,
            self.device_percent.into(),
            time(self.patience),
            time(self.run_time),
            time(self.compile_time),
            self.process_bytes,
            self.files,
            self.cores.into(),
        ]
    }

    /// The limits that had these [`numbers`](Self::numbers).
    #[cfg(target_os = "linux")]
    pub(crate) fn of_numbers(numbers: [u64; Self::NUMBERS]) -> Self {
        let [
            sessions,
            client_sessions,
            strangers,
            questions,
            client_questions,
            frame,
            inline,
            commands,
            buffers,
            programs,
            program_bytes,
            buffer_bytes,
            session_bytes,
            device_percent,
            patience,
            run_time,
            compile_time,
            process_bytes,
            files,
            cores,
        ] = numbers;
        Self {
            sessions: sessions as usize,
            client_sessions: client_sessions as usize,
            strangers: strangers as usize,
            questions: questions as usize,
            client_questions: client_questions as usize,
            frame: frame as u32,
            inline: inline as u32,
            commands: commands as u32,
            buffers: buffers as u32,
            programs: programs as u32,
            program_bytes: program_bytes as u32,
            buffer_bytes,
            session_bytes,
            device_percent: device_percent as u32,
            patience: Duration::from_nanos(patience),
            run_time: Duration::from_nanos(run_time),
            compile_time: Duration::from_nanos(compile_time),
            process_bytes,
            files,
            cores: cores as u32,
        }
    }

    /// The limits of a client with these rights.
    #[cfg(target_os = "linux")]
    pub(crate) fn within(self, rights: &Rights) -> Self {
        let memory = rights.memory.unwrap_or(u64::MAX);
        // Zero is no limit.
        let cores = rights.cores.unwrap_or(0);
        let run_time = rights.run_time.unwrap_or_default();
        let sessions = rights.sessions.map_or(usize::MAX, |most| most as usize);
        Self {
            client_sessions: self.client_sessions.min(sessions),
            process_bytes: self.process_bytes.min(memory),
            session_bytes: self.session_bytes.min(memory),
            cores: match self.cores {
                0 => cores,
                own if cores == 0 => own,
                own => own.min(cores),
            },
            run_time: match self.run_time {
                Duration::ZERO => run_time,
                own if run_time.is_zero() => own,
                own => own.min(run_time),
            },
            ..self
        }
    }

    /// Checks that there is room for one more session of a client's, where there are so many, and
    /// so many of them its own. The error says why there is none.
    pub(crate) fn room_for(&self, all: usize, own: usize) -> Result<(), String> {
        if all >= self.sessions {
            return Err("the node has as many sessions as it takes; try again later".to_owned());
        }
        if own >= self.client_sessions {
            return Err(format!(
                "this client has {own} sessions, which is all that the node gives it at once (`quipu serve --sessions`, \
                 `quipu rights --sessions`); try again when one has ended"
            ));
        }
        Ok(())
    }

    /// The same within what the protocol and the core allow.
    pub(crate) fn sound(self) -> Self {
        let frame = self.frame.clamp(MIN_FRAME, MAX_FRAME);
        let rides = frame - MIN_FRAME / 2;
        Self {
            frame,
            inline: self.inline.min(rides),
            program_bytes: self.program_bytes.min(MAX_PROGRAM),
            commands: self.commands.max(1),
            // What is kept for each is memory of the process, too.
            buffers: u32::try_from(self.process_bytes / OF_BUFFER)
                .map_or(self.buffers, |most| self.buffers.min(most)),
            buffer_bytes: self.buffer_bytes.min(MAX_BUFFER).min(MAX_MEMORY_BYTES),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn rights_take_from_limits_and_never_add() {
        let limits = |cores, seconds, bytes| Limits {
            cores,
            run_time: Duration::from_secs(seconds),
            process_bytes: bytes,
            session_bytes: bytes,
            client_sessions: if bytes > 100 { 5 } else { 3 },
            ..Limits::default()
        };
        let rights: Rights = "memory=100 cores=2 run-time=5 sessions=3"
            .parse()
            .unwrap_or_default();
        for (own, left) in [
            (limits(0, 0, u64::MAX), limits(2, 5, 100)),
            (limits(8, 60, 1000), limits(2, 5, 100)),
            (limits(1, 1, 10), limits(1, 1, 10)),
        ] {
            assert_eq!(own.within(&rights), left);
            assert_eq!(own.within(&Rights::default()), own);
        }
    }

    #[test]
    fn a_node_gives_a_session_up_before_its_client_does() {
        let noticed = NOTICED_WITHIN.unwrap_or_default();
        for patience in [0, 1, 60, 3600] {
            let limits = Limits {
                patience: Duration::from_secs(patience),
                ..Limits::default()
            };
            for client in [0, 5, 30, 31, 32, 90, 10_000].map(Duration::from_secs) {
                let kept = limits.patience_with(client);
                assert!(kept.is_zero() || kept + noticed < client);
                assert!(kept <= limits.patience);
            }
        }
    }
}

//! The session's side: one session, in a process that may do little else.

use super::channel::{Channel, Packet};
use super::dials::Dials;
use super::{ASK, CONNECTION, COUNTS, DIALLED, READY, Start, decode_end, keeper, loads, sandbox};
use crate::limits::Limits;
use crate::load::DeviceCount;
use crate::locked;
use crate::node::{Home, Options, Peering, Shared};
use crate::printed::Printed;
use crate::totals::Totals;
use quipu_link::Key;
use quipu_link::gate::Gate;
use quipu_link::peer::Networks;
use quipu_threads::Start as _;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two words about how much the session has.
const COUNTING: Duration = Duration::from_millis(250);

/// Serves one session: the work of a process that a node has [started](super::Spawn), before it
/// starts a thread or opens a file. `options` makes the node's own options, within the limits that
/// it is handed; it is called in the sandbox. Ends the process with the session.
///
/// # Errors
/// If it was not a node that has started the process; if it cannot be restricted as its limits say,
/// or the devices cannot be used.
pub fn serve_session<E>(
    options: impl FnOnce(&Limits) -> Result<Options, E>,
) -> io::Result<std::convert::Infallible>
where
    E: std::fmt::Display,
{
    serve_session_reading(&[], options)
}

/// As [`serve_session`], where these files may be read beside what every session may: those that a
/// node's devices read, as sources of data do. Sessions can read them whole.
///
/// # Errors
/// As [`serve_session`].
pub fn serve_session_reading<E>(
    readable: &[PathBuf],
    options: impl FnOnce(&Limits) -> Result<Options, E>,
) -> io::Result<std::convert::Infallible>
where
    E: std::fmt::Display,
{
    let channel = take_channel()?;
    let not_started =
        || io::Error::other("a session's process is started by a node, and by nobody else");
    let packet = channel.receive(None).map_err(|_| not_started())?;
    let Packet::Some(packet, Some(node)) = packet else {
        return Err(not_started());
    };
    let start = Start::decode(&packet).ok_or_else(not_started)?;
    keeper::keep(node, &channel)?;
    let channel = Arc::new(channel);
    let output = take_output()?;
    let printed = Arc::new(Printed::new(output.try_clone()?));
    let rights = start.client.rights.clone();
    let limits = start.limits.within(&rights);
    // The program that compiles what clients bring for processors.
    let compiler = quipu_clc::compiler_program().map(Path::to_owned);
    let readable: Vec<PathBuf> = readable.iter().cloned().chain(compiler).collect();
    let accepts_weak = start.accepts_weak_sandbox;
    let files = sandbox::Files {
        scratch: &start.scratch,
        readable: &readable,
        hidden: start.hidden.as_deref(),
    };
    sandbox::enter((&limits, accepts_weak), &files)?;
    let mut options = options(&limits).map_err(|error| io::Error::other(error.to_string()))?;
    options
        .devices
        .retain(|device| rights.allow(device.driver_name(), device.index()));
    for device in &options.devices {
        let all = u128::from(device.properties().global_memory);
        let most = all * u128::from(limits.device_percent) / 100;
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        device.driver().limit_memory(device.index(), most);
    }
    let failed = |error: quipu_link::LinkError| io::Error::other(error.to_string());
    let key = Key::passing().map_err(failed)?;
    let ready = [&[READY][..], &key.fingerprint().bytes()].concat();
    let gate = Gate::of_session(&key, start.client, &start.node_name, start.patience);
    let options = Options {
        limits,
        peers: Peering {
            address: start.peers.flatten(),
            // Where is for the node to say.
            networks: match start.peers {
                Some(_) => "::/0".parse().map_err(failed)?,
                None => Networks::none(),
            },
        },
        ..options
    };
    let dials = Dials::new(channel.clone());
    let home = Home::Session(start.session, dials.clone(), printed.clone());
    let shared = Shared::new(options, gate.map_err(failed)?, home);
    crate::watch::start(&shared)?;
    shared.start_usher()?;
    watch_output(output, printed)?;
    channel.send(&ready, None)?;
    let (mut counts, mut waited) = (Counts::default(), Duration::ZERO);
    // By the clock: a node that asks all the time is to be told, too.
    let mut due = Instant::now() + COUNTING;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            due = Instant::now() + COUNTING;
            counts.tell(&channel, shared.totals());
            // Whoever was told of the session has not come.
            waited += COUNTING;
            if waited > start.patience && !shared.has_begun.load(Ordering::Acquire) {
                end();
            }
            continue;
        }
        match channel.receive(Some(left))? {
            Packet::Some(packet, Some(connection)) if packet == [CONNECTION] => {
                waited = Duration::ZERO;
                let one = shared.stranger(TcpStream::from(connection));
                one.into_iter().for_each(|one| shared.come(one));
            }
            Packet::Some(packet, connection) if packet.first() == Some(&DIALLED) => {
                dials.answered(&packet, connection);
            }
            Packet::Some(packet, _) if packet.first() == Some(&ASK) => {
                shared.tell_loads(&channel, &packet);
            }
            Packet::Some(packet, _) => {
                if let Some((reason, text)) = decode_end(&packet) {
                    let sessions: Vec<_> = locked(&shared.sessions).values().cloned().collect();
                    for session in sessions {
                        session.end(reason, &text);
                    }
                    end();
                }
            }
            Packet::Nothing => {}
            // The node is gone.
            Packet::End => end(),
        }
    }
}

/// The channel that this process was started with. Its place is taken by nothing at all: programs
/// that the session starts have that place as their input, and would keep the channel open.
fn take_channel() -> io::Result<Channel> {
    let stdin = io::stdin();
    let channel = stdin.as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    // SAFETY: both are open.
    if unsafe { libc::dup2(nothing.as_raw_fd(), stdin.as_raw_fd()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Channel::over(channel))
}

/// The end of a pipe from which this process's standard output comes, which kernels write when they
/// print.
fn take_output() -> io::Result<io::PipeReader> {
    let (output, input) = io::pipe()?;
    // SAFETY: both are open, and the call on the first takes numbers.
    let is_ready = unsafe {
        libc::fcntl(output.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) >= 0
            && libc::dup2(input.as_raw_fd(), libc::STDOUT_FILENO) >= 0
    };
    match is_ready {
        true => Ok(output),
        false => Err(io::Error::last_os_error()),
    }
}

/// Has a thread take what comes from this process's standard output.
fn watch_output(output: io::PipeReader, printed: Arc<Printed>) -> io::Result<()> {
    let watch = move || {
        let mut asked = libc::pollfd {
            fd: output.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure, of a file that the closure keeps open.
        while unsafe { libc::poll(&raw mut asked, 1, -1) } >= 0 || is_interrupted() {
            if !printed.take() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("quipu-printed".to_owned());
    thread.start(watch).map(drop)
}

fn is_interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// The totals of the session that the node was told of.
#[derive(Default)]
struct Counts(Totals);

impl Counts {
    /// Tells it how much that is now, if it does not know. If it cannot be told now, it is the next
    /// time.
    fn tell(&mut self, channel: &Channel, now: Totals) {
        if now != self.0
            && channel
                .send(&[&[COUNTS][..], &now.to_bytes()].concat(), None)
                .is_ok()
        {
            self.0 = now;
        }
    }
}

/// Ends the process, whatever its other threads do: nothing of it is to be kept.
pub(crate) fn end() -> ! {
    // SAFETY: it returns to nobody.
    unsafe { libc::_exit(0) }
}

impl Shared {
    /// Answers what there is to do on the devices, and what goes over links.
    fn tell_loads(self: &Arc<Self>, channel: &Channel, question: &[u8]) {
        let Some(Ok(number)) = question.get(1..).map(<[u8; 8]>::try_from) else {
            return;
        };
        self.attend();
        for mut session in self.own_counts() {
            for (number, device) in self.options.devices.iter().enumerate() {
                let mut count = session.devices.remove(&number).unwrap_or_default();
                count.busy_ns = self.busy_on(number);
                if count != DeviceCount::default() {
                    // If it cannot be told now, it is the next time.
                    let _ = channel.send(&loads::encode(device, &count), None);
                }
            }
            for packet in loads::encode_links(&session.links) {
                let _ = channel.send(&packet, None);
            }
        }
        let _ = channel.send(&loads::encode_answered(u64::from_le_bytes(number)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_told_is_told_the_next_time_and_once() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::over(theirs);
        let mut sent = 0;
        while ours.send(&[0], None).is_ok() {
            sent += 1;
        }
        let mut counts = Counts::default();
        let now = Totals {
            commands: 3,
            ..Totals::default()
        };
        counts.tell(&ours, now);
        for _ in 0..sent {
            theirs.receive(None).unwrap();
        }
        counts.tell(&ours, now);
        counts.tell(&ours, now);
        drop(ours);
        let Packet::Some(told, None) = theirs.receive(None).unwrap() else {
            panic!("it was not told");
        };
        assert_eq!(told, [&[COUNTS][..], &now.to_bytes()].concat());
        assert!(matches!(theirs.receive(None).unwrap(), Packet::End));
    }
}

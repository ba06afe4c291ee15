//! `quipu top`: the nodes that were paired with, their devices, and one's own queues and links
//! there, live.

use super::node::{Home, PATIENCE, sent_in_bulk, shown};
use super::print;
use crate::error::CommandError;
use quipu::drivers::remote::paired::{self, CLIENT_KEY};
use quipu_cli::table::align;
use quipu_cli::units::{bytes, count, duration};
use quipu_link::client::{Dial, Look, NodeLink, PingTimes};
use quipu_link::nodes::Node;
use quipu_link::session::{NodeDevice, NodeLoad};
use quipu_link::{Key, LinkError};
use quipu_protocol::message::{LinkKind, LinkLoad, LinkState};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Show this paired node, by name or address; can be given several times. Without it: all of
    /// them.
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,

    /// Seconds between two looks.
    #[arg(long, default_value_t = 1.0, value_parser = interval)]
    interval: f64,

    /// Print one picture, of two looks, and end. This is the default where standard output is no
    /// terminal.
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("say how many seconds, from 0.1 to 3600".to_owned()),
    }
}

/// Shows the nodes until the process is ended, or once.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let home = Home::open()?;
    let names: Vec<&str> = options.nodes.iter().map(String::as_str).collect();
    let chosen = match names[..] {
        [] => paired::all(),
        _ => paired::find(&names),
    };
    let chosen = chosen.map_err(CommandError::Node)?;
    if chosen.is_empty() {
        return print(super::node::NO_NODE);
    }
    let key = Arc::new(Key::of(home.folder(), CLIENT_KEY)?);
    let interval = Duration::from_secs_f64(options.interval);
    if options.once || !io::stdout().is_terminal() {
        let watches: Vec<_> = chosen.into_iter().map(Watch::new).collect();
        std::thread::scope(|scope| {
            for watch in &watches {
                scope.spawn(|| {
                    if watch.look(&key) {
                        std::thread::sleep(interval);
                        watch.look(&key);
                    }
                });
            }
        });
        return print(&picture(&watches));
    }
    let watches: Arc<[_]> = chosen.into_iter().map(Watch::new).collect();
    for at in 0..watches.len() {
        // One each, so that a node that does not answer holds up no other. They end with the
        // process.
        let (watches, key) = (Arc::clone(&watches), Arc::clone(&key));
        std::thread::spawn(move || {
            loop {
                watches[at].look(&key);
                std::thread::sleep(interval);
            }
        });
    }
    loop {
        // From the upper left corner, each line to its end, and then all below: unchanged parts do
        // not flicker.
        let picture = picture(&watches).replace('\n', "\x1b[K\n");
        print(&format!("\x1b[H{picture}\x1b[J"))?;
        std::thread::sleep(interval.min(Duration::from_millis(500)));
    }
}

/// A node that is looked at again and again.
struct Watch {
    node: Node,
    link: Mutex<Option<NodeLink>>,
    seen: Mutex<Seen>,
}

/// The last view of a node.
enum Seen {
    Nothing,
    Up(Box<Up>),
    Down(String),
}

struct Up {
    ping: PingTimes,
    now: Look,
    devices: Vec<NodeDevice>,
    /// The look before, of the same life of the node.
    before: Option<Look>,
}

impl Up {
    /// The time since the look before, by the node's own clock; none if no time has passed, or the
    /// node was started anew.
    fn passed(&self) -> Option<(&Look, f64)> {
        let before = self.before.as_ref()?;
        let now = self.now.status.uptime_ms;
        let milliseconds = now.checked_sub(before.status.uptime_ms)?;
        (milliseconds > 0).then(|| (before, milliseconds as f64 / 1000.0))
    }

    /// The growth of a number in a second, from its value in the look before; none if it has become
    /// less, as that of a session that has ended.
    fn rate(&self, now: u64, was: impl FnOnce(&Look) -> Option<u64>) -> Option<f64> {
        let (before, seconds) = self.passed()?;
        Some(now.checked_sub(was(before)?)? as f64 / seconds)
    }
}

impl Watch {
    fn new(node: Node) -> Self {
        Self {
            node,
            link: Mutex::new(None),
            seen: Mutex::new(Seen::Nothing),
        }
    }

    /// Looks at the node, over the connection of the last look if there is one. True if it has
    /// answered.
    fn look(&self, key: &Key) -> bool {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.ask(&mut link, key);
        if answered.is_err() {
            *link = None;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = answered.is_ok();
        *seen = match answered {
            Ok((ping, now, devices)) => {
                let before = match std::mem::replace(&mut *seen, Seen::Nothing) {
                    Seen::Up(up) => Some(up.now),
                    _ => None,
                };
                Seen::Up(Box::new(Up {
                    ping,
                    now,
                    devices,
                    before,
                }))
            }
            Err(error) => Seen::Down(shown(&error.to_string().replace('\n', " "))),
        };
        is_up
    }

    fn ask(
        &self,
        link: &mut Option<NodeLink>,
        key: &Key,
    ) -> Result<(PingTimes, Look, Vec<NodeDevice>), LinkError> {
        let link = match link {
            Some(link) => link,
            None => link.insert(
                Dial {
                    address: &self.node.address,
                    node: self.node.fingerprint,
                    key,
                    name: "quipu top",
                    patience: PATIENCE,
                }
                .ask()?,
            ),
        };
        link.set_patience(PATIENCE);
        let ping = link.ping()?;
        let now = link.look()?;
        Ok((ping, now, link.devices().to_vec()))
    }
}

/// The names of keys: those of nodes, and of our own sessions there.
fn names(watches: &[Watch]) -> HashMap<[u8; 32], String> {
    let mut names = HashMap::new();
    for Watch { node, seen, .. } in watches {
        names.insert(node.fingerprint.bytes(), node.name.clone());
        if let Seen::Up(up) = &*seen.lock().unwrap_or_else(PoisonError::into_inner) {
            let own = up.now.links.links.iter();
            let own = own.filter(|link| link.kind == LinkKind::Commands);
            names.extend(own.map(|link| (link.key, node.name.clone())));
        }
    }
    names
}

/// All nodes, their devices and links, for the terminal.
fn picture(watches: &[Watch]) -> String {
    const LEFT: [bool; 10] = [
        true, false, false, false, false, false, false, false, false, true,
    ];
    let heading = [
        "node",
        "away",
        "up",
        "sessions",
        "in flight",
        "commands/s",
        "buffers",
        "free memory",
        "load",
        "address",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    let mut below = Vec::new();
    let names = names(watches);
    for Watch { node, seen, .. } in watches {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut row: [String; 10] = std::array::from_fn(|_| "-".to_owned());
        row[0] = shown(&node.name);
        row[9] = shown(&node.address);
        let mut lines = String::new();
        match &*seen {
            Seen::Nothing => lines.push_str("  asked\n"),
            Seen::Down(why) => {
                let _ = writeln!(lines, "  {why}");
            }
            Seen::Up(up) => {
                cells(&mut row, up);
                if let Some(sent) = sent_in_bulk(&up.now.status) {
                    let _ = writeln!(lines, "  {sent}");
                }
                lines.push_str(&devices(up));
                lines.push_str(&links(up, &names));
            }
        }
        rows.push(row);
        below.push(lines);
    }
    // The lines below a node are no part of the columns.
    let table = align(&rows, LEFT);
    let mut lines = table.lines();
    let mut text = lines.next().unwrap_or_default().to_owned() + "\n";
    for (line, below) in lines.zip(below) {
        let _ = write!(text, "{line}\n{below}");
    }
    text
}

/// A node's devices and our queues there; of a node that does not report their loads, their
/// descriptions.
fn devices(up: &Up) -> String {
    const LEFT: [bool; 8] = [true, false, false, false, false, false, true, true];
    if up.now.loads.len() != up.devices.len() {
        let device = |device: &NodeDevice| format!("  {}\n", described(device));
        return up.devices.iter().map(device).collect();
    }
    let heading = [
        "device",
        "running",
        "waiting",
        "commands/s",
        "busy",
        "buffers",
        "memory",
        "",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| count(rate.round() as u64));
    for (number, (device, load)) in up.devices.iter().zip(&up.now.loads).enumerate() {
        let was = |before: &Look, of: fn(&NodeLoad) -> u64| before.loads.get(number).map(of);
        let busy_ns = |load: &NodeLoad| u64::try_from(load.busy.as_nanos()).unwrap_or(u64::MAX);
        let busy = up.rate(busy_ns(load), |before| was(before, busy_ns));
        rows.push([
            shown(&device.name),
            count(load.running),
            count(load.waiting),
            rate(up.rate(load.over, |before| was(before, |load| load.over))),
            // Of several sessions' processes it is the sum.
            busy.map_or("-".to_owned(), |busy| {
                format!("{:.0} %", (busy / 1e7).min(100.0))
            }),
            bytes(load.buffer_bytes),
            memory(device, load),
            format!(
                "{} units, by {}",
                device.multiprocessors,
                shown(&device.selector)
            ),
        ]);
        for queue in &load.queues {
            let name = (queue.session, queue.queue);
            let over_before = |before: &Look| {
                let mut queues = before.loads.get(number)?.queues.iter();
                Some(
                    queues
                        .find(|queue| (queue.session, queue.queue) == name)?
                        .over
                        .get(),
                )
            };
            let mut row: [String; 8] = Default::default();
            row[0] = match queue.queue.get() {
                u32::MAX => format!("  own session {}, other queues", queue.session),
                number => format!("  own session {}, queue {number}", queue.session),
            };
            row[1] = count(queue.running.get());
            row[2] = count(queue.waiting.get());
            row[3] = rate(up.rate(queue.over.get(), over_before));
            rows.push(row);
        }
    }
    indented(&align(&rows, LEFT))
}

fn indented(table: &str) -> String {
    let lines = table.lines();
    lines
        .map(|line| format!("  {}\n", line.trim_end()))
        .collect()
}

/// The links of our own sessions at a node.
fn links(up: &Up, names: &HashMap<[u8; 32], String>) -> String {
    const LEFT: [bool; 8] = [true, true, false, false, false, false, false, false];
    let all = &up.now.links;
    if all.links.is_empty() {
        return String::new();
    }
    let heading = [
        "link",
        "",
        "round trip",
        "sent/s",
        "packed",
        "received/s",
        "packed",
        "resumed",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    let none = || "-".to_owned();
    for link in &all.links {
        let rate = |of: fn(&LinkLoad) -> u64| {
            let was = |before: &Look| {
                let mut links = before.links.links.iter();
                let name = |link: &LinkLoad| (link.session, link.kind, link.key);
                links.find(|was| name(was) == name(link)).map(of)
            };
            let rate = up.rate(of(link), was);
            rate.map_or_else(none, |rate| bytes(rate.round() as u64))
        };
        let packed = |[plain, packed]: [u64; 2]| match plain {
            0 => none(),
            _ => format!("{:.0} %", packed as f64 * 100.0 / plain as f64),
        };
        rows.push([
            format!("own session {}, {}", link.session, other_end(link, names)),
            state(link).to_owned(),
            match link.round_trip_ns {
                0 => none(),
                nanoseconds => duration(nanoseconds),
            },
            rate(|link| link.sent),
            packed(link.chunks_sent),
            rate(|link| link.received),
            packed(link.chunks_received),
            count(link.resumed.into()),
        ]);
    }
    let mut text = indented(&align(&rows, LEFT));
    if all.more > 0 {
        let _ = writeln!(text, "  and {} more", count(all.more.into()));
    }
    text
}

/// The purpose of a link, or the node at its other end: by the node's name if we look at it, else
/// by its address.
fn other_end(link: &LinkLoad, names: &HashMap<[u8; 32], String>) -> String {
    let node = || match (names.get(&link.key), link.address) {
        (Some(name), _) => shown(name),
        (None, Some(address)) => address.socket().to_string(),
        (None, None) => "another node".to_owned(),
    };
    match link.kind {
        LinkKind::Commands => "commands".to_owned(),
        LinkKind::Bulk => "bulk".to_owned(),
        LinkKind::ToNode => format!("to {}", node()),
        LinkKind::FromNode => format!("from {}", node()),
    }
}

fn state(link: &LinkLoad) -> &'static str {
    match (link.state, link.kind) {
        (LinkState::Connected, _) => "connected",
        (LinkState::Awaited, LinkKind::Commands | LinkKind::Bulk) => "waits for its client",
        (LinkState::Awaited, _) => "being made",
        (LinkState::ByClient, _) => "by way of the client",
    }
}

/// A device in a line.
fn described(device: &NodeDevice) -> String {
    format!(
        "{}, {} units, {}, by {}",
        shown(&device.name),
        device.multiprocessors,
        bytes(device.global_memory),
        shown(&device.selector),
    )
}

/// The bytes of a device's memory that are in use, if its driver can tell, and all of them.
fn memory(device: &NodeDevice, load: &NodeLoad) -> String {
    let all = device.global_memory;
    match load.free_bytes {
        0 => bytes(all),
        free => format!("{} of {}", bytes(all.saturating_sub(free)), bytes(all)),
    }
}

fn cells(row: &mut [String; 10], up: &Up) {
    let status = &up.now.status;
    let nanoseconds = u64::try_from(up.ping.round_trip.as_nanos()).unwrap_or(u64::MAX);
    row[1] = duration(nanoseconds);
    row[2] = time_up(status.uptime_ms / 1000);
    row[3] = count(status.sessions.into());
    row[4] = count(status.commands_held);
    let over = |before: &Look| Some(before.status.commands_over);
    if let Some(rate) = up.rate(status.commands_over, over) {
        row[5] = count(rate.round() as u64);
    }
    row[6] = bytes(status.session_bytes);
    if status.memory_bytes > 0 {
        row[7] = format!(
            "{} of {}",
            bytes(status.memory_free),
            bytes(status.memory_bytes)
        );
    }
    row[8] = format!(
        "{:.2} of {}",
        f64::from(status.load_thousandths) / 1000.0,
        status.cores
    );
}

/// A long time in its two largest units.
fn time_up(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_link::session::NodeLinks;
    use quipu_protocol::message::{DeviceKind, PeerAddress, QueueLoad, Status, Takes};

    fn watch(name: &str, seen: Seen) -> Watch {
        let watch = Watch::new(Node {
            fingerprint: "a".repeat(52).parse().expect("a fingerprint"),
            address: format!("{name}.example:4760"),
            name: name.to_owned(),
        });
        *watch.seen.lock().expect("nobody panics") = seen;
        watch
    }

    fn device() -> NodeDevice {
        NodeDevice {
            kind: DeviceKind::Gpu,
            takes: Takes::default(),
            name: "GPU\x1b[2J".to_owned(),
            vendor: "somebody".to_owned(),
            selector: "cuda:0".to_owned(),
            kernels: String::new(),
            multiprocessors: 132,
            clock_mhz: 0,
            max_grid_blocks: [1; 3],
            max_grid_block_count: 1,
            max_block_threads: [1; 3],
            max_block_thread_count: 1,
            max_thread_elements: [1; 3],
            max_thread_element_count: 1,
            shared_memory_per_block: 0,
            global_memory: 80 << 30,
            max_buffer: 1 << 30,
            concurrent_commands: 1,
            warp_sizes: vec![32],
            details: None,
        }
    }

    fn up(now: Look, before: Option<Look>) -> Up {
        Up {
            ping: PingTimes {
                round_trip: Duration::from_micros(82),
                ahead_ns: 0,
            },
            now,
            devices: vec![device()],
            before,
        }
    }

    fn queue(session: u32, queue: u32, [waiting, running, over]: [u64; 3]) -> QueueLoad {
        QueueLoad {
            session: session.into(),
            queue: queue.into(),
            waiting: waiting.into(),
            running: running.into(),
            over: over.into(),
        }
    }

    #[test]
    fn nodes_are_shown_with_their_devices_or_what_is_wrong() {
        let status = Status {
            uptime_ms: 3_720_000,
            sessions: 2,
            cores: 16,
            load_thousandths: 1_250,
            memory_bytes: 64 << 30,
            memory_free: 12 << 30,
            session_bytes: 3 << 29,
            commands_held: 12,
            commands_over: 1_000_000,
            bulk_bytes: 4 << 30,
            bulk_sent: 1 << 30,
        };
        let before = Look {
            status: Status {
                uptime_ms: 3_718_000,
                commands_over: 977_532,
                ..Status::default()
            },
            loads: vec![NodeLoad {
                over: 900_000,
                busy: Duration::from_millis(500),
                queues: vec![queue(1, 3, [0, 0, 900])],
                ..NodeLoad::default()
            }],
            ..Look::default()
        };
        let load = NodeLoad {
            waiting: 11,
            running: 1,
            over: 920_000,
            busy: Duration::from_millis(1250),
            buffer_bytes: 3 << 29,
            free_bytes: 60 << 30,
            queues: vec![queue(1, 3, [7, 1, 1300]), queue(1, u32::MAX, [0, 0, 5])],
        };
        let older = Look {
            status: Status {
                uptime_ms: 61_000,
                ..Status::default()
            },
            ..Look::default()
        };
        let watches = [
            watch(
                "lab",
                Seen::Up(Box::new(up(
                    Look {
                        status,
                        loads: vec![load],
                        ..Look::default()
                    },
                    Some(before),
                ))),
            ),
            watch("older", Seen::Up(Box::new(up(older, None)))),
            watch("attic", Seen::Down("cannot reach it".to_owned())),
            watch("cellar", Seen::Nothing),
        ];
        let text = picture(&watches);
        let expected = [
            "node       away         up  sessions  in flight  commands/s   buffers           free memory        load  address",
            "lab     82.0 µs  1 h 2 min         2         12      11,234  1.50 GiB  12.0 GiB of 64.0 GiB  1.25 of 16  lab.example:4760",
            "  sent in bulk: 4.00 GiB as 1.00 GiB, 25 %",
            "  device                         running  waiting  commands/s  busy   buffers  memory",
            "  GPU\\u{1b}[2J                         1       11      10,000  38 %  1.50 GiB  20.0 GiB of 80.0 GiB  132 units, by cuda:0",
            "    own session 1, queue 3             1        7         200",
            "    own session 1, other queues        0        0           -",
            "older   82.0 µs  1 min 1 s         0          0           -       0 B                     -   0.00 of 0  older.example:4760",
            "  GPU\\u{1b}[2J, 132 units, 80.0 GiB, by cuda:0",
            "attic         -          -         -          -           -         -                     -           -  attic.example:4760",
            "  cannot reach it",
            "cellar        -          -         -          -           -         -                     -           -  cellar.example:4760",
            "  asked",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    fn link(kind: LinkKind, state: LinkState, key: u8) -> LinkLoad {
        LinkLoad {
            session: 1,
            kind,
            state,
            resumed: 0,
            address: None,
            key: [key; 32],
            round_trip_ns: 0,
            sent: 0,
            received: 0,
            chunks_sent: [0; 2],
            chunks_received: [0; 2],
        }
    }

    #[test]
    fn links_are_shown_with_what_goes_over_them_and_the_nodes_at_their_other_ends() {
        use LinkKind::{Bulk, Commands, FromNode, ToNode};
        use LinkState::{Awaited, ByClient, Connected};
        let look = |uptime_ms, links| Look {
            status: Status {
                uptime_ms,
                ..Status::default()
            },
            links: NodeLinks { links, more: 1200 },
            ..Look::default()
        };
        let commands = |sent, received| LinkLoad {
            round_trip_ns: 82_000,
            sent,
            received,
            resumed: 2,
            ..link(Commands, Connected, 7)
        };
        let bulk = LinkLoad {
            sent: 9,
            chunks_sent: [400, 100],
            chunks_received: [400, 398],
            ..link(Bulk, Awaited, 7)
        };
        let elsewhere = LinkLoad {
            address: PeerAddress::of("10.1.0.7:4760".parse().expect("an address")),
            ..link(FromNode, Awaited, 3)
        };
        let now = vec![
            commands(3 << 20, 2048),
            bulk,
            link(ToNode, Connected, 8),
            link(FromNode, ByClient, 8),
            elsewhere,
            link(ToNode, ByClient, 4),
        ];
        let mut own = link(Commands, Connected, 8);
        own.session = 3;
        // Of a link that was not there before there is no rate; nor of one that had carried more.
        let was = vec![
            commands(1 << 20, 4096),
            link(ToNode, Connected, 8),
            link(FromNode, ByClient, 8),
        ];
        let watches = [
            watch(
                "lab",
                Seen::Up(Box::new(up(look(3000, now), Some(look(1000, was))))),
            ),
            watch("attic", Seen::Up(Box::new(up(look(5, vec![own]), None)))),
        ];
        let text = picture(&watches);
        let expected = [
            "  link                                                     round trip    sent/s  packed  received/s  packed  resumed",
            "  own session 1, commands            connected                82.0 µs  1.00 MiB       -           -       -        2",
            "  own session 1, bulk                waits for its client           -         -    25 %           -   100 %        0",
            "  own session 1, to attic            connected                      -       0 B       -         0 B       -        0",
            "  own session 1, from attic          by way of the client           -       0 B       -         0 B       -        0",
            "  own session 1, from 10.1.0.7:4760  being made                     -         -       -           -       -        0",
            "  own session 1, to another node     by way of the client           -         -       -           -       -        0",
            "  and 1,200 more",
        ];
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[3..3 + expected.len()], expected, "{text}");
    }

    #[test]
    fn rates_are_of_one_life_of_a_node() {
        let status = |uptime_ms, commands_over| Look {
            status: Status {
                uptime_ms,
                commands_over,
                ..Status::default()
            },
            ..Look::default()
        };
        let rate = |was: Look, now: Look| {
            let over = now.status.commands_over;
            up(now, Some(was)).rate(over, |before| Some(before.status.commands_over))
        };
        assert_eq!(rate(status(1000, 10), status(3000, 30)), Some(10.0));
        assert_eq!(rate(status(1000, 10), status(1000, 10)), None);
        assert_eq!(rate(status(5000, 10), status(1000, 30)), None);
        assert_eq!(rate(status(1000, 10), status(2000, 3)), None);
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [
            (59, "59 s"),
            (61, "1 min 1 s"),
            (7_260, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(time_up(seconds), text);
        }
    }

    #[test]
    fn an_interval_is_neither_none_nor_for_ever() {
        assert_eq!(interval("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "NaN", "x"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}

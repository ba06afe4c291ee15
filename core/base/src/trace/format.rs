//! The file: Chrome's trace events in their array form, one event per line.
//!
//! | events | process (`pid`) | thread (`tid`) | category |
//! |---|---|---|---|
//! | a command as its device ran it, started to ended | 2 + device | 1000 pid + 1 + lane | `command`, or `migration` |
//! | a command as its queue saw it, queued to ended | 1, called `queues` | 10⁹ + 4 queue + row | `queue` |
//! | a dependency, `s` in the one and `f` in the other | as the command | as the command | `dependency` |
//! | the way of a command to another machine: `s` where its queue saw it, `f` where its device ran it | as these | as these | `enqueue` |
//! | names and sort orders, `ph: "M"` | as the object that they name | | |
//! | `by way of this program`, `ph: "i"`: bytes that should have gone straight from one node to another | as the device that they were for | | `detour` |
//! | `quipu_clock`, `ph: "M"`: the clock of a device's machine, each time it is known better | as the device | | |
//!
//! The event of the device holds all facts of the command in its `args`: `id`, `kind`, `bytes`,
//! `device`, `lane`, `queue`, `queued_ns`, `submitted_ns`, `waits`, and `failed` where it did. The
//! names repeat their `device`, `lane` or `queue`, so that a reader need not know the numbers
//! above. (Threads are numbered across processes because Perfetto has taken the name of one thread
//! for another process's thread of the same number.)
//!
//! Three peculiarities of readers:
//!
//! * *Fractions of a microsecond.* Readers multiply by 1000 and cut off, so that `1.001` becomes
//!   1000 ns and a command seems to begin before its predecessor has ended. Start times are
//!   therefore written a quarter of a nanosecond late (`1.00125`), which survives; durations are
//!   not, and come out at worst one nanosecond short.
//! * *Overlap.* Slices of one thread must nest; Perfetto drops those that do not. The commands of a
//!   queue do overlap, so a queue has up to [`QUEUE_ROWS`] rows. A command that finds them all
//!   taken is shown from when the first of them is free, which for a queue with many commands
//!   means: from when it came to the front. The true time is in its `args`.
//! * *Arrows.* They bind to the slice that is open at their time, in the order of the file: the
//!   start of both commands is the moment at which that is certain, and `s` comes before `f`.

use super::flow::{Arrow, Place};
use super::record::{CommandKind, CommandRecord, Detour, NodeClock};
use std::fmt::Write;

/// The number of commands of one queue that are shown side by side.
pub(super) const QUEUE_ROWS: usize = 4;
/// The process of the queues.
const QUEUES_PID: u64 = 1;

/// `pid` of a device.
fn device_pid(device: u32) -> u64 {
    QUEUES_PID + 1 + u64::from(device)
}

/// `tid` of a lane.
fn lane_tid(device: u32, lane: u32) -> u64 {
    1000 * device_pid(device) + 1 + u64::from(lane)
}

/// `tid` of a row of a queue.
fn queue_tid(queue: u32, row: usize) -> u64 {
    1_000_000_000 + u64::from(queue) * QUEUE_ROWS as u64 + row as u64
}

/// Appends `text` as a JSON string, quotes included.
pub(super) fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Also DEL and the C1 controls, and the separators that are line ends in JavaScript.
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                put(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(text);
}

/// The separator and the opening of an event at `ns`.
fn open(out: &mut String, phase: char, ns: u64) {
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"{phase}\",\"ts\":{}.{:03}25,",
            ns / 1000,
            ns % 1000
        ),
    );
}

/// A command on the lane that ran it.
pub(super) fn command(out: &mut String, command: &CommandRecord) {
    open(out, 'X', command.started_ns);
    let duration = command.ended_ns - command.started_ns;
    let category = if command.kind == CommandKind::Migrate {
        "migration"
    } else {
        "command"
    };
    put(
        out,
        format_args!(
            "\"dur\":{}.{:03},\"pid\":{},",
            duration / 1000,
            duration % 1000,
            device_pid(command.device)
        ),
    );
    put(
        out,
        format_args!(
            "\"tid\":{},\"cat\":\"{category}\",\"name\":",
            lane_tid(command.device, command.worker)
        ),
    );
    name(out, command);
    put(
        out,
        format_args!(
            ",\"args\":{{\"id\":{},\"kind\":\"{}\"",
            command.id, command.kind
        ),
    );
    put(
        out,
        format_args!(",\"bytes\":{},\"device\":{}", command.bytes, command.device),
    );
    put(
        out,
        format_args!(",\"lane\":{},\"queue\":{}", command.worker, command.queue),
    );
    put(
        out,
        format_args!(
            ",\"queued_ns\":{},\"submitted_ns\":{}",
            command.queued_ns, command.submitted_ns
        ),
    );
    out.push_str(",\"waits\":[");
    for (position, wait) in command.waits.iter().enumerate() {
        put(
            out,
            format_args!("{}{wait}", if position == 0 { "" } else { "," }),
        );
    }
    out.push(']');
    if let Some(reason) = &command.failed {
        out.push_str(",\"failed\":");
        string(out, reason);
    }
    out.push_str("}}");
}

/// A command on a row of its queue, shown from `from_ns`.
pub(super) fn queued(out: &mut String, command: &CommandRecord, row: usize, from_ns: u64) {
    open(out, 'X', from_ns);
    let duration = command.ended_ns - from_ns;
    put(
        out,
        format_args!(
            "\"dur\":{}.{:03},\"pid\":{QUEUES_PID},",
            duration / 1000,
            duration % 1000
        ),
    );
    put(
        out,
        format_args!(
            "\"tid\":{},\"cat\":\"queue\",\"name\":",
            queue_tid(command.queue, row)
        ),
    );
    name(out, command);
    put(
        out,
        format_args!(
            ",\"args\":{{\"id\":{},\"queued_ns\":{}}}}}",
            command.id, command.queued_ns
        ),
    );
}

/// The way of a command from its queue to its device, which is another machine's: the slice of
/// [`queued`] comes before it.
pub(super) fn sent(out: &mut String, command: &CommandRecord, row: usize, from_ns: u64) {
    let here = (QUEUES_PID, queue_tid(command.queue, row));
    let there = (
        device_pid(command.device),
        lane_tid(command.device, command.worker),
    );
    for (phase, (pid, tid), ns) in [('s', here, from_ns), ('f', there, command.started_ns)] {
        open(out, phase, ns);
        put(
            out,
            format_args!(
                "\"pid\":{pid},\"tid\":{tid},\"cat\":\"enqueue\",\"name\":\"enqueued\",\"id\":{}",
                command.id
            ),
        );
        out.push_str(if phase == 's' { "}" } else { ",\"bp\":\"e\"}" });
    }
}

/// Viewers show a slice without a name badly: the kind stands in.
fn name(out: &mut String, command: &CommandRecord) {
    let name = command.name.as_str();
    string(
        out,
        if name.is_empty() {
            command.kind.as_str()
        } else {
            name
        },
    );
}

/// Both ends of a dependency.
pub(super) fn arrow(out: &mut String, arrow: &Arrow) {
    end_of_arrow(out, 's', &arrow.from, arrow.id);
    out.push('}');
    end_of_arrow(out, 'f', &arrow.to, arrow.id);
    out.push_str(",\"bp\":\"e\"}");
}

fn end_of_arrow(out: &mut String, phase: char, place: &Place, id: u64) {
    open(out, phase, place.started_ns);
    put(
        out,
        format_args!(
            "\"pid\":{},\"tid\":{}",
            device_pid(place.device),
            lane_tid(place.device, place.lane)
        ),
    );
    put(
        out,
        format_args!(",\"cat\":\"dependency\",\"name\":\"waits for\",\"id\":{id}"),
    );
}

/// The first event of the file: which format this is, and the process of the queues.
pub(super) fn header(out: &mut String) {
    out.push_str("[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"queues\",\"quipu_trace\":1}}");
    out.push_str(
        ",\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":0}}",
    );
}

/// The name of a device.
pub(super) fn device(out: &mut String, device: u32, name: &str) {
    let pid = device_pid(device);
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":"
        ),
    );
    string(out, name);
    put(out, format_args!(",\"device\":{device}}}}}"));
    put(
        out,
        format_args!(",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\","),
    );
    put(out, format_args!("\"args\":{{\"sort_index\":{pid}}}}}"));
}

/// The event with the facts about the clock of a device's machine.
pub(super) fn clock(out: &mut String, device: u32, clock: &NodeClock<'_>) {
    let pid = device_pid(device);
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"quipu_clock\",\"args\":{{\"node\":"
        ),
    );
    string(out, clock.node);
    put(
        out,
        format_args!(
            ",\"device\":{device},\"ahead_ns\":{},\"error_ns\":{},\"drift_ppb\":{},\"drift_error_ppb\":{}}}}}",
            clock.ahead_ns, clock.error_ns, clock.drift_ppb, clock.drift_error_ppb
        ),
    );
}

/// Bytes that went a longer way: a mark on all of a device, where the migration is.
pub(super) fn detour(out: &mut String, device: u32, detour: &Detour<'_>) {
    open(out, 'i', detour.at_ns);
    put(
        out,
        format_args!(
            "\"pid\":{},\"s\":\"p\",\"cat\":\"detour\",\"name\":\"by way of this program\",\"args\":{{\"from\":",
            device_pid(device)
        ),
    );
    string(out, detour.from);
    out.push_str(",\"to\":");
    string(out, detour.to);
    put(out, format_args!(",\"bytes\":{}}}}}", detour.bytes));
}

/// The name of a lane.
pub(super) fn lane(out: &mut String, device: u32, lane: u32, name: &str) {
    thread(
        out,
        device_pid(device),
        lane_tid(device, lane),
        name,
        format_args!("\"device\":{device},\"lane\":{lane}"),
    );
}

/// The name of a row of a queue.
pub(super) fn queue(out: &mut String, queue: u32, row: usize, name: &str) {
    let tid = queue_tid(queue, row);
    if row == 0 {
        thread(
            out,
            QUEUES_PID,
            tid,
            name,
            format_args!("\"queue\":{queue}"),
        );
    } else {
        // Without the key that names the queue itself.
        thread(
            out,
            QUEUES_PID,
            tid,
            &format!("{name} ({})", row + 1),
            format_args!("\"row\":{row}"),
        );
    }
}

fn thread(out: &mut String, pid: u64, tid: u64, name: &str, key: std::fmt::Arguments<'_>) {
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":"
        ),
    );
    string(out, name);
    put(out, format_args!(",{key}}}}}"));
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_sort_index\","
        ),
    );
    put(out, format_args!("\"args\":{{\"sort_index\":{tid}}}}}"));
}

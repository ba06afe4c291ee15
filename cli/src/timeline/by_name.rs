//! The times of the commands of each name, as a table for the terminal.

use super::Trace;
use crate::escape;
use crate::table::align;
use crate::units::{bytes, count, duration, percent};
use std::collections::BTreeMap;

/// The most rows: the names after them take next to no time.
const ROWS: usize = 30;

/// A row for each device, kind and name of commands: their number, their time and the bytes that
/// they moved, those that took longest first. Ends in a line break.
///
/// ```text
/// device  command   name      count     time      each   share  bytes
/// cpu     launch    saxpy     1,000  38.1 ms   38.1 µs  77.4 %    0 B
/// ```
#[must_use]
pub fn by_name(trace: &Trace) -> String {
    #[derive(Default)]
    struct Sum {
        count: u64,
        ns: u64,
        bytes: u64,
    }
    let mut sums: BTreeMap<(u32, &str, &str), Sum> = BTreeMap::new();
    for command in &trace.commands {
        let key = (command.device, &*command.kind, &*command.name);
        let sum = sums.entry(key).or_default();
        sum.count += 1;
        sum.ns += command.ended_ns.saturating_sub(command.started_ns);
        sum.bytes += command.bytes;
    }
    let all: u64 = sums.values().map(|sum| sum.ns).sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let heading = [
        "device", "command", "name", "count", "time", "each", "share", "bytes",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    let left_out = sums.len().saturating_sub(ROWS);
    for ((device, kind, name), sum) in sums.into_iter().take(ROWS) {
        let mut devices = trace.devices.iter();
        let device = devices.find(|one| one.id == device);
        let device = device.map_or("?", |device| &device.name);
        rows.push([
            escape::terminal(device).into_owned(),
            escape::terminal(kind).into_owned(),
            escape::terminal(name).into_owned(),
            count(sum.count),
            duration(sum.ns),
            duration(sum.ns / sum.count.max(1)),
            percent(sum.ns as f64 / all.max(1) as f64),
            bytes(sum.bytes),
        ]);
    }
    let left = [true, true, true, false, false, false, false, false];
    let mut table = align(&rows, left);
    if left_out > 0 {
        table.push_str(&format!("and {left_out} more that took less\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Command, Device};

    #[test]
    fn what_took_longest_comes_first() {
        let command = |name: &str, ns: u64| Command {
            id: 0,
            name: name.into(),
            kind: "launch".into(),
            device: 1,
            lane: 0,
            queue: 0,
            bytes: 8,
            queued_ns: 0,
            submitted_ns: 0,
            started_ns: 1000,
            ended_ns: 1000 + ns,
            failed: None,
            waits: Vec::new(),
        };
        let mut trace = Trace::default();
        trace.devices.push(Device {
            id: 1,
            name: "cpu".to_owned(),
            lanes: Vec::new(),
            idle_lanes: 0,
        });
        trace.commands = vec![command("a", 1000), command("b", 6000), command("a", 1000)];
        let table = by_name(&trace);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1][..4], ["cpu", "launch", "b", "1"]);
        assert_eq!(rows[2][..4], ["cpu", "launch", "a", "2"]);
        assert!(
            table.contains("75.0 %") && table.contains("16 B"),
            "{table}"
        );
    }
}

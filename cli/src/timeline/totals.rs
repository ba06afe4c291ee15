//! The totals of each device's work.

use super::trace::{Command, Trace};
use std::collections::BTreeMap;

/// The sums of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// The device's id.
    pub device: u32,
    /// The number of its lanes.
    pub lanes: u64,
    /// The number of commands that it ran, failed ones included.
    pub commands: u64,
    /// The number of them that failed.
    pub failed: u64,
    /// The time its lanes were busy, added up over the lanes. A lane that ran one command inside
    /// another was busy once.
    pub busy_ns: u64,
    /// `busy_ns` as a share of its maximum: the trace's span on every lane. 0 in a trace without
    /// time.
    pub utilisation: f64,
    /// The bytes that copies, reads, writes, maps and migrations moved.
    pub bytes_moved: u64,
    /// The number of migrations.
    pub migrations: u64,
    /// The bytes that migrations moved.
    pub bytes_migrated: u64,
}

impl Trace {
    /// The totals of every device, in the order of [`Trace::devices`].
    pub fn totals(&self) -> Vec<Totals> {
        let (first_ns, last_ns) = self.span_ns();
        let mut devices: BTreeMap<u32, Totals> = BTreeMap::new();
        for device in &self.devices {
            let lanes = (device.lanes.len() + device.idle_lanes) as u64;
            devices.insert(
                device.id,
                Totals {
                    device: device.id,
                    lanes,
                    ..Totals::default()
                },
            );
        }
        // Until when each lane is known to be busy: commands come in the order of their start.
        let mut busy_until: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for command in &self.commands {
            let until = busy_until
                .entry((command.device, command.lane))
                .or_insert(0);
            let Some(totals) = devices.get_mut(&command.device) else {
                continue;
            };
            totals.busy_ns += command
                .ended_ns
                .saturating_sub(command.started_ns.max(*until));
            *until = (*until).max(command.ended_ns);
            totals.add(command);
        }
        let span_ns = last_ns - first_ns;
        for totals in devices.values_mut() {
            let possible = span_ns as f64 * totals.lanes as f64;
            totals.utilisation = if possible > 0.0 {
                totals.busy_ns as f64 / possible
            } else {
                0.0
            };
        }
        devices.into_values().collect()
    }
}

impl Totals {
    fn add(&mut self, command: &Command) {
        self.commands += 1;
        self.failed += u64::from(command.failed.is_some());
        if command.moves_bytes() {
            self.bytes_moved = self.bytes_moved.saturating_add(command.bytes);
        }
        if command.is_migration() {
            self.migrations += 1;
            self.bytes_migrated = self.bytes_migrated.saturating_add(command.bytes);
        }
    }
}

//! The totals as a table for the terminal.

use super::trace::{Clock, Trace};
use crate::escape;
use crate::table::align;
use crate::units::{bytes, count, counted, duration, percent};

/// A heading line and a table with a row per device, for the terminal.
///
/// ```text
/// 2,000 commands on 3 devices and 4 queues in 12.3 ms; 3 failed
///
/// device    lanes  commands  failed     busy  utilisation     moved  migrations  migrated
/// cpu           4     1,200       1  38.1 ms       77.4 %       0 B           0       0 B
/// ```
pub fn summary(trace: &Trace) -> String {
    let mut out = headline(trace);
    out.push('\n');
    if trace.devices.is_empty() {
        return out;
    }
    let heading = [
        "device",
        "lanes",
        "commands",
        "failed",
        "busy",
        "utilisation",
        "moved",
        "migrations",
        "migrated",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for (device, totals) in trace.devices.iter().zip(trace.totals()) {
        rows.push([
            escape::terminal(&device.name).into_owned(),
            count(totals.lanes),
            count(totals.commands),
            count(totals.failed),
            duration(totals.busy_ns),
            percent(totals.utilisation),
            bytes(totals.bytes_moved),
            count(totals.migrations),
            bytes(totals.bytes_migrated),
        ]);
    }
    out.push('\n');
    let mut left = [false; 9];
    left[0] = true;
    out.push_str(&align(&rows, left));
    if !trace.clocks.is_empty() || !trace.detours.is_empty() {
        out.push('\n');
    }
    for clock in &trace.clocks {
        out.push_str(&told(clock));
    }
    for detour in &trace.detours {
        out.push_str(&format!(
            "{} of {} from {} to {} went by way of the program, as these nodes did not reach each other\n",
            counted(detour.transfers, "transfer"),
            bytes(detour.bytes),
            escape::terminal(&detour.from),
            escape::terminal(&detour.to),
        ));
    }
    out
}

/// The precision of the times of a machine's devices, in a line.
fn told(clock: &Clock) -> String {
    let signed = |ns: i64| {
        let way = if ns < 0 { "behind" } else { "ahead" };
        format!("{} {way}", duration(ns.unsigned_abs()))
    };
    let drift = clock.drift_ppb as f64 / 1000.0;
    let drift_error = clock.drift_error_ppb as f64 / 1000.0;
    let first = match clock.first_error_ns {
        first if first > clock.error_ns => format!(", at first {}", duration(first)),
        _ => String::new(),
    };
    format!(
        "the clock of {} is {}, and drifts by {drift:.1} ppm (± {drift_error:.1}); its times are right within {}{first}\n",
        escape::terminal(&clock.node),
        signed(clock.ahead_ns),
        duration(clock.error_ns),
    )
}

/// The content of the trace, in one line.
pub(super) fn headline(trace: &Trace) -> String {
    let (first_ns, last_ns) = trace.span_ns();
    let failed = trace
        .commands
        .iter()
        .filter(|command| command.failed.is_some())
        .count() as u64;
    let mut line = format!(
        "{} on {} and {} in {}",
        counted(trace.commands.len() as u64, "command"),
        counted(trace.devices.len() as u64, "device"),
        counted(trace.queues.len() as u64, "queue"),
        duration(last_ns - first_ns),
    );
    if failed > 0 {
        line.push_str(&format!("; {} failed", count(failed)));
    }
    if trace.foreign > 0 {
        line.push_str(&format!(
            "; {} of other programs left out",
            counted(trace.foreign, "slice")
        ));
    }
    if trace.truncated {
        line.push_str("; the file has no end: the program died, or still runs");
    }
    line
}

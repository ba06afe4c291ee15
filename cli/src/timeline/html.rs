//! The page: a template, its style and its scripts, and the trace as data.
//!
//! The data are columns rather than a list of objects, with times as differences. That makes the
//! page small and quick to load. They are in a script element of a type that is not run, through
//! [`escape::json_in_script`]; the page's scripts put text on the page only as text nodes. A
//! content security policy in the page forbids it to load anything from anywhere. The scripts are
//! tested in `tests/page/`.

use super::palette::{self, COLOURS};
use super::summary::headline;
use super::trace::Trace;
use crate::escape;
use crate::units::{bytes, count, duration, percent};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("page/model.js"),
    include_str!("page/draw.js"),
    include_str!("page/details.js"),
    include_str!("page/main.js"),
];

/// The page's settings besides the trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The page's title; the name of the trace file is a good one.
    pub title: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            title: "Quipu trace".to_owned(),
        }
    }
}

impl Options {
    /// A page with this title.
    pub fn titled(title: impl Into<String>) -> Self {
        Options {
            title: title.into(),
        }
    }
}

/// The page of a trace: HTML that needs no other file and no network.
pub fn page(trace: &Trace, options: &Options) -> String {
    let data = serde_json::to_string(&Data::of(trace)).expect("plain numbers and strings are JSON");
    let title = escape::markup(&options.title);
    let scripts = SCRIPTS.concat();
    // The filled-in text may contain anything, a placeholder's name too: the template is cut once,
    // from left to right.
    let mut out =
        String::with_capacity(TEMPLATE.len() + STYLE.len() + scripts.len() + data.len() * 9 / 8);
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after
            .split_once("}}")
            .expect("the template closes its placeholders");
        out.push_str(before);
        match name {
            "title" => out.push_str(&title),
            "headline" => out.push_str(&escape::markup(&headline(trace))),
            "colours" => colours(&mut out),
            "style" => out.push_str(STYLE),
            "totals" => totals(&mut out, trace),
            "data" => out.push_str(&escape::json_in_script(&data)),
            "scripts" => out.push_str(&scripts),
            _ => unreachable!("the template has no other placeholder"),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The palette as style variables.
fn colours(out: &mut String) {
    let mut rule = |head: &str, pick: fn(&palette::Colour) -> &'static str, tail: &str| {
        out.push_str(head);
        for (position, colour) in COLOURS.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = write!(out, "--kind-{position}:{};", pick(colour));
        }
        out.push_str(tail);
    };
    rule(":root{", |colour| colour.light, "}");
    rule(
        "@media (prefers-color-scheme:dark){:root{",
        |colour| colour.dark,
        "}}",
    );
}

/// The rows of the table of totals.
fn totals(out: &mut String, trace: &Trace) {
    for (device, totals) in trace.devices.iter().zip(trace.totals()) {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th>",
            escape::markup(&device.name)
        );
        let share = (totals.utilisation * 100.0).clamp(0.0, 100.0);
        let cells = [
            count(totals.lanes),
            count(totals.commands),
            count(totals.failed),
            duration(totals.busy_ns),
            format!(
                "<span class=\"meter\"><i style=\"width:{share:.1}%\"></i></span>{}",
                percent(totals.utilisation)
            ),
            bytes(totals.bytes_moved),
            count(totals.migrations),
            bytes(totals.bytes_migrated),
        ];
        for (column, cell) in cells.iter().enumerate() {
            let class = if column == 2 && totals.failed > 0 {
                " class=\"bad\""
            } else {
                ""
            };
            let _ = write!(out, "<td{class}>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    if trace.devices.is_empty() {
        out.push_str("<tr><td colspan=\"9\">No device ran a command.</td></tr>\n");
    }
}

/// A trace as the page's scripts read it (`page/model.js`).
#[derive(Serialize)]
struct Data<'a> {
    /// The span in nanoseconds; its start is the zero of every time.
    span: u64,
    devices: Vec<DeviceData<'a>>,
    queues: Vec<QueueData<'a>>,
    /// The kinds of the palette, in its order.
    kinds: Vec<&'static str>,
    names: Vec<&'a str>,
    columns: Columns,
    /// Position and reason of each command that failed.
    failed: Vec<(usize, &'a str)>,
    /// Position of each command of a kind that the palette does not have, and the kind.
    others: Vec<(usize, &'a str)>,
}

#[derive(Serialize)]
struct DeviceData<'a> {
    id: u32,
    name: &'a str,
    lanes: Vec<(u32, &'a str)>,
}

#[derive(Serialize)]
struct QueueData<'a> {
    id: u32,
    name: &'a str,
}

/// One entry per command, except for `waits`.
#[derive(Default, Serialize)]
struct Columns {
    /// As text: a script's numbers do not hold every id.
    id: Vec<String>,
    name: Vec<usize>,
    kind: Vec<usize>,
    /// Counted through all devices.
    lane: Vec<usize>,
    queue: Vec<usize>,
    bytes: Vec<u64>,
    /// Since the start of the command before.
    start: Vec<u64>,
    duration: Vec<u64>,
    /// From submitted to started.
    submitted: Vec<u64>,
    /// From queued to submitted.
    queued: Vec<u64>,
    /// The number of entries of `waits` that are this one's.
    wait_count: Vec<usize>,
    /// The number of waits for commands that the trace does not have.
    missing: Vec<usize>,
    /// Positions of commands.
    waits: Vec<usize>,
}

impl<'a> Data<'a> {
    fn of(trace: &'a Trace) -> Self {
        let (first_ns, last_ns) = trace.span_ns();
        let mut lanes = HashMap::new();
        let mut devices = Vec::new();
        for device in &trace.devices {
            for lane in &device.lanes {
                lanes.insert((device.id, lane.id), lanes.len());
            }
            let lanes = device
                .lanes
                .iter()
                .map(|lane| (lane.id, lane.name.as_str()))
                .collect();
            devices.push(DeviceData {
                id: device.id,
                name: &device.name,
                lanes,
            });
        }
        let queues: HashMap<u32, usize> = trace
            .queues
            .iter()
            .enumerate()
            .map(|(position, queue)| (queue.id, position))
            .collect();
        let positions: HashMap<u64, usize> = trace
            .commands
            .iter()
            .enumerate()
            .map(|(position, command)| (command.id, position))
            .collect();
        let mut data = Data {
            span: last_ns - first_ns,
            devices,
            queues: trace
                .queues
                .iter()
                .map(|queue| QueueData {
                    id: queue.id,
                    name: &queue.name,
                })
                .collect(),
            kinds: COLOURS.iter().map(|colour| colour.kind).collect(),
            names: Vec::new(),
            columns: Columns::default(),
            failed: Vec::new(),
            others: Vec::new(),
        };
        let mut names = HashMap::new();
        let mut before_ns = first_ns;
        for (position, command) in trace.commands.iter().enumerate() {
            let name = *names.entry(&*command.name).or_insert_with(|| {
                data.names.push(&command.name);
                data.names.len() - 1
            });
            let kind = palette::position(&command.kind);
            if COLOURS[kind].kind != &*command.kind {
                data.others.push((position, &command.kind));
            }
            if let Some(reason) = &command.failed {
                data.failed.push((position, reason));
            }
            let columns = &mut data.columns;
            columns.id.push(command.id.to_string());
            columns.name.push(name);
            columns.kind.push(kind);
            columns.lane.push(lanes[&(command.device, command.lane)]);
            columns.queue.push(queues[&command.queue]);
            columns.bytes.push(command.bytes);
            columns.start.push(command.started_ns - before_ns);
            before_ns = command.started_ns;
            columns.duration.push(command.duration_ns());
            columns
                .submitted
                .push(command.started_ns - command.submitted_ns);
            columns
                .queued
                .push(command.submitted_ns - command.queued_ns);
            let known = columns.waits.len();
            columns
                .waits
                .extend(command.waits.iter().filter_map(|id| positions.get(id)));
            let known = columns.waits.len() - known;
            columns.wait_count.push(known);
            columns.missing.push(command.waits.len() - known);
        }
        data
    }
}

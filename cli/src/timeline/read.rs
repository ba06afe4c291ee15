//! From the file's events to a [`Trace`], one event at a time.
//!
//! The parser is serde_json's over a buffered reader; a [`Builder`] is handed through it and takes
//! each event as it is parsed. So the events that the builder has when the input ends early are the
//! trace as far as it goes. A fault *in* an event is reported at that event's place in the file.

use super::error::TimelineError;
use super::trace::{Clock, Command, Detour, Device, Lane, Queue, Trace};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{BufReader, Read};
use std::sync::Arc;

impl Trace {
    /// Reads a trace file. One that ends early, as a program that dies leaves it, is read as far as
    /// its last complete event and marked [`Trace::truncated`]. Slices of other programs are
    /// counted and left out.
    ///
    /// # Errors
    ///
    /// [`TimelineError::Empty`] without a first byte, [`TimelineError::Malformed`] with the place
    /// where the file is no trace, [`TimelineError::Read`] when the input fails.
    pub fn read(input: impl Read) -> Result<Trace, TimelineError> {
        let mut builder = Builder::default();
        let mut parser =
            serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, input));
        let parsed = File(&mut builder).deserialize(&mut parser);
        match parsed.and_then(|()| parser.end()) {
            Ok(()) if !builder.opened => return Err(TimelineError::NoEvents),
            Ok(()) => {}
            Err(error) if error.is_eof() && builder.opened => builder.trace.truncated = true,
            Err(error) if error.is_eof() && !builder.begun => return Err(TimelineError::Empty),
            Err(error) => return Err(error.into()),
        }
        Ok(builder.finish())
    }
}

/// The trace so far.
#[derive(Default)]
struct Builder {
    trace: Trace,
    devices: BTreeMap<u32, NamedDevice>,
    queues: BTreeMap<u32, Option<String>>,
    /// Names and kinds repeat thousands of times.
    strings: HashSet<Arc<str>>,
    /// The first bracket or brace has been seen.
    begun: bool,
    /// The list of events has been seen.
    opened: bool,
}

/// A device and its lanes, as far as they have been named.
#[derive(Default)]
struct NamedDevice {
    name: Option<String>,
    lanes: BTreeMap<u32, Option<String>>,
}

/// An event, with the fields of all that matter here.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
struct Args {
    id: Option<u64>,
    kind: Option<String>,
    #[serde(default)]
    bytes: u64,
    device: Option<u32>,
    lane: Option<u32>,
    queue: Option<u32>,
    queued_ns: Option<u64>,
    submitted_ns: Option<u64>,
    #[serde(default)]
    waits: Vec<u64>,
    failed: Option<String>,
    name: Option<String>,
    node: Option<String>,
    from: Option<String>,
    to: Option<String>,
    #[serde(default)]
    ahead_ns: i64,
    #[serde(default)]
    error_ns: u64,
    #[serde(default)]
    drift_ppb: i64,
    #[serde(default)]
    drift_error_ppb: u64,
}

impl Builder {
    fn take(&mut self, event: Event) -> Result<(), String> {
        match (event.ph.as_str(), event.cat.as_str()) {
            ("X", "command" | "migration") => self.command(event),
            // The same commands once more, for Perfetto.
            ("X", "queue") => Ok(()),
            ("X" | "B", _) => {
                self.trace.foreign += 1;
                Ok(())
            }
            ("i", "detour") => {
                self.detour(event.args);
                Ok(())
            }
            ("M", _) if event.name == "quipu_clock" => {
                self.clock(event.args);
                Ok(())
            }
            ("M", _) => {
                self.name(event);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn command(&mut self, event: Event) -> Result<(), String> {
        let args = event.args;
        let need =
            |what: Option<u32>, name: &str| what.ok_or(format!("a command without args.{name}"));
        let (device, lane) = (need(args.device, "device")?, need(args.lane, "lane")?);
        let queue = need(args.queue, "queue")?;
        let id = args.id.ok_or("a command without args.id")?;
        let started_ns = nanoseconds(event.ts, "ts")?;
        let ended_ns = started_ns + nanoseconds(event.dur, "dur")?;
        let submitted_ns = args.submitted_ns.unwrap_or(started_ns).min(started_ns);
        let queued_ns = args.queued_ns.unwrap_or(submitted_ns).min(submitted_ns);
        self.devices
            .entry(device)
            .or_default()
            .lanes
            .entry(lane)
            .or_default();
        self.queues.entry(queue).or_default();
        let name = self.shared(event.name);
        let kind = self.shared(args.kind.unwrap_or_else(|| "command".to_owned()));
        self.trace.commands.push(Command {
            id,
            name,
            kind,
            device,
            lane,
            queue,
            bytes: args.bytes,
            queued_ns,
            submitted_ns,
            started_ns,
            ended_ns,
            failed: args.failed,
            waits: args.waits,
        });
        Ok(())
    }

    /// The last report counts, for all devices of a machine.
    fn clock(&mut self, args: Args) {
        let Some(node) = args.node else { return };
        let clocks = &mut self.trace.clocks;
        let before = clocks.iter().position(|clock| clock.node == node);
        let first = before.map_or(args.error_ns, |at| clocks[at].first_error_ns);
        let clock = Clock {
            node,
            ahead_ns: args.ahead_ns,
            error_ns: args.error_ns,
            first_error_ns: first.max(args.error_ns),
            drift_ppb: args.drift_ppb,
            drift_error_ppb: args.drift_error_ppb,
        };
        match before {
            Some(at) => clocks[at] = clock,
            None => clocks.push(clock),
        }
    }

    fn detour(&mut self, args: Args) {
        let (Some(from), Some(to)) = (args.from, args.to) else {
            return;
        };
        let detours = &mut self.trace.detours;
        let mut known = detours.iter_mut();
        match known.find(|known| known.from == from && known.to == to) {
            Some(known) => {
                known.transfers += 1;
                known.bytes = known.bytes.saturating_add(args.bytes);
            }
            None => detours.push(Detour {
                from,
                to,
                transfers: 1,
                bytes: args.bytes,
            }),
        }
    }

    fn name(&mut self, event: Event) {
        let Some(name) = event.args.name else { return };
        match (event.args.device, event.args.lane, event.args.queue) {
            (Some(device), Some(lane), _) => {
                self.devices
                    .entry(device)
                    .or_default()
                    .lanes
                    .insert(lane, Some(name));
            }
            (Some(device), None, _) => self.devices.entry(device).or_default().name = Some(name),
            (None, _, Some(queue)) => {
                self.queues.insert(queue, Some(name));
            }
            (None, _, None) => {}
        }
    }

    fn shared(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.strings.get(text.as_str()) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.strings.insert(new.clone());
        new
    }

    fn finish(self) -> Trace {
        let mut trace = self.trace;
        trace
            .commands
            .sort_by_key(|command| (command.started_ns, command.ended_ns, command.id));
        let lane = |(id, name): (u32, Option<String>)| Lane {
            id,
            name: name.unwrap_or(format!("lane {id}")),
        };
        // Programs name all devices, lanes and queues that they have. Those on which nothing ran
        // are left out.
        let commands = trace.commands.iter();
        let used: HashSet<_> = commands.map(|it| (it.device, it.lane)).collect();
        let queues: HashSet<_> = trace.commands.iter().map(|it| it.queue).collect();
        let device = |(id, device): (u32, NamedDevice)| {
            let all = device.lanes.len();
            let lanes = device.lanes.into_iter();
            let lanes: Vec<_> = lanes
                .filter(|(lane, _)| used.contains(&(id, *lane)))
                .map(lane)
                .collect();
            Device {
                id,
                name: device.name.unwrap_or(format!("device {id}")),
                idle_lanes: all - lanes.len(),
                lanes,
            }
        };
        let queue = |(id, name): (u32, Option<String>)| Queue {
            id,
            name: name.unwrap_or(format!("queue {id}")),
        };
        let between = |it: &Detour| (it.from.clone(), it.to.clone());
        trace.detours.sort_by_key(between);
        trace.clocks.sort_by(|one, other| one.node.cmp(&other.node));
        let devices = self.devices.into_iter().map(device);
        trace.devices = devices.filter(|it| !it.lanes.is_empty()).collect();
        let named = self.queues.into_iter();
        trace.queues = named
            .filter(|(id, _)| queues.contains(id))
            .map(queue)
            .collect();
        trace
    }
}

/// A time of the file, in microseconds, in nanoseconds.
fn nanoseconds(microseconds: Option<f64>, name: &str) -> Result<u64, String> {
    /// A hundred years: the sum of two is far from overflowing, and no clock gives more.
    const MOST: f64 = 3.2e18;
    let value = microseconds.ok_or(format!("a command without \"{name}\""))?;
    let ns = (value * 1000.0).round();
    if (0.0..=MOST).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(format!(
            "\"{name}\" is {value:?}: expected microseconds from 0 to a hundred years"
        ))
    }
}

/// The whole file: the list of events, or an object that has it under `traceEvents`.
struct File<'a>(&'a mut Builder);
/// The list of events.
struct Events<'a>(&'a mut Builder);
/// One event of it.
struct Element<'a>(&'a mut Builder);

impl<'de> DeserializeSeed<'de> for File<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of trace events, or an object with \"traceEvents\"")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, events: A) -> Result<(), A::Error> {
        self.0.begun = true;
        Events(self.0).visit_seq(events)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.0.begun = true;
        while let Some(name) = fields.next_key::<String>()? {
            if name == "traceEvents" {
                fields.next_value_seed(Events(self.0))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        self.0.opened = true;
        while events.next_element_seed(Element(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a trace event, which is an object")
    }

    // The parser adds the place to errors that come from in here: the end of this very event.
    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error> {
        let event = Event::deserialize(MapAccessDeserializer::new(fields))?;
        self.0.take(event).map_err(de::Error::custom)
    }
}

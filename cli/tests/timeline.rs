//! The trace from end to end: `quipu trace` reads the files of the core's recorder, and makes safe
//! pages and pictures of any trace.

// Helpers of tests are tests: unwrap is their assertion too.
#![allow(clippy::unwrap_used)]

use quipu_cli::escape;
use quipu_cli::timeline::{Look, Options, TimelineError, Trace, page, render, summary};
use quipu_scheduler::trace::{CommandKind, CommandRecord, Recorder};
use std::collections::HashMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

/// A file in memory that can be read while it is written.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().get_ref().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

/// The recorder's file for these commands.
fn recorded(records: &[CommandRecord]) -> Vec<u8> {
    let memory = Memory::default();
    let recorder = Recorder::into_output(memory.clone(), "memory").unwrap();
    recorder.name_device(0, "cpu");
    recorder.name_device(1, "sim 0");
    recorder.name_lane(0, 0, "worker 0");
    recorder.name_lane(1, 0, "compute");
    recorder.name_queue(0, "main");
    for record in records {
        recorder.record(record.clone()).unwrap();
    }
    drop(recorder);
    memory.bytes()
}

/// A plausible program: a chain over two devices, every tenth command a migration, every fiftieth a
/// failure.
fn program(commands: u64) -> Vec<CommandRecord> {
    let record = |id: u64| {
        let migrates = id % 10 == 3;
        let started_ns = id * 1_001 + 77;
        CommandRecord {
            queue: (id % 3) as u32,
            device: (id % 2) as u32,
            worker: (id % 4 / 2) as u32,
            bytes: if migrates { 4096 } else { 0 },
            queued_ns: id * 500,
            submitted_ns: id * 500 + 11,
            started_ns,
            ended_ns: started_ns + 999,
            failed: (id % 50 == 7).then(|| format!("fault {id}")),
            waits: if id > 2 { vec![id - 1, id - 3] } else { vec![] },
            ..if migrates {
                CommandRecord::new(id, CommandKind::Migrate, "migrate image")
            } else {
                CommandRecord::new(id, CommandKind::Launch, format!("stage {}", id % 5))
            }
        }
    };
    (0..commands).map(record).collect()
}

fn read(bytes: &[u8]) -> Result<Trace, TimelineError> {
    Trace::read(bytes)
}

#[test]
fn devices_and_lanes_on_which_nothing_ran_are_left_out() {
    let memory = Memory::default();
    let recorder = Recorder::into_output(memory.clone(), "memory").unwrap();
    for (device, name) in [(0, "cpu"), (1, "idle")] {
        recorder.name_device(device, name);
        for lane in 0..4 {
            recorder.name_lane(device, lane, &format!("worker {lane}"));
        }
    }
    for (queue, name) in [(0, "unused"), (1, "used")] {
        recorder.name_queue(queue, name);
    }
    let record = CommandRecord {
        device: 0,
        worker: 2,
        queue: 1,
        started_ns: 100,
        ended_ns: 200,
        ..CommandRecord::new(0, CommandKind::Launch, "saxpy")
    };
    recorder.record(record).unwrap();
    drop(recorder);
    let trace = read(&memory.bytes()).unwrap();
    let [device] = &trace.devices[..] else {
        panic!("{:?}", trace.devices)
    };
    assert_eq!((&device.name[..], device.idle_lanes), ("cpu", 3));
    assert_eq!(device.lanes.len(), 1);
    assert_eq!(device.lanes[0].name, "worker 2");
    assert_eq!(trace.queues.len(), 1);
    // A device is as busy as all of its lanes are.
    assert_eq!(trace.totals()[0].lanes, 4);
}

#[test]
fn what_was_recorded_is_read() {
    let records = program(1_000);
    let trace = read(&recorded(&records)).unwrap();
    assert!(!trace.truncated);
    assert_eq!(trace.foreign, 0);
    assert_eq!(trace.commands.len(), records.len());
    for (command, record) in trace.commands.iter().zip(&records) {
        assert_eq!(
            (command.id, &*command.name),
            (record.id, record.name.as_str())
        );
        assert_eq!(&*command.kind, record.kind.as_str());
        assert_eq!(
            (command.device, command.lane, command.queue),
            (record.device, record.worker, record.queue)
        );
        assert_eq!(
            (command.queued_ns, command.submitted_ns),
            (record.queued_ns, record.submitted_ns)
        );
        assert_eq!(
            (command.started_ns, command.ended_ns),
            (record.started_ns, record.ended_ns)
        );
        assert_eq!(
            (&command.failed, &command.waits, command.bytes),
            (&record.failed, &record.waits, record.bytes)
        );
    }
    let names: Vec<&str> = trace
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    assert_eq!(names, ["cpu", "sim 0"]);
    let lanes: Vec<&str> = trace.devices[1]
        .lanes
        .iter()
        .map(|lane| lane.name.as_str())
        .collect();
    assert_eq!(lanes, ["compute", "lane 1"]);
    let queues: Vec<&str> = trace
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(queues, ["main", "queue 1", "queue 2"]);
}

#[test]
fn every_kind_and_name_survives() {
    let hostile = "a\"b\\c\n\t\u{0}\u{7f}\u{2028}</script>🪢";
    let records: Vec<CommandRecord> = CommandKind::ALL
        .iter()
        .enumerate()
        .map(|(id, &kind)| CommandRecord {
            failed: Some(hostile.to_owned()),
            ..CommandRecord::new(id as u64, kind, hostile.to_owned())
        })
        .collect();
    let trace = read(&recorded(&records)).unwrap();
    let kinds: Vec<&str> = trace
        .commands
        .iter()
        .map(|command| &*command.kind)
        .collect();
    assert_eq!(kinds, CommandKind::ALL.map(CommandKind::as_str));
    for command in &trace.commands {
        assert_eq!(
            (&*command.name, command.failed.as_deref()),
            (hostile, Some(hostile))
        );
    }
}

#[test]
fn times_of_a_month_are_read_to_the_nanosecond() {
    let month_ns = 30 * 24 * 3600 * 1_000_000_000_u64;
    let started_ns = month_ns / 2 + 123_456_789;
    let record = CommandRecord {
        started_ns,
        ended_ns: started_ns + 1,
        ..CommandRecord::new(1, CommandKind::Launch, "k")
    };
    let trace = read(&recorded(&[record])).unwrap();
    assert_eq!(
        (trace.commands[0].started_ns, trace.commands[0].ended_ns),
        (started_ns, started_ns + 1)
    );
}

#[test]
fn the_file_is_json_and_its_arrows_have_two_ends_on_their_commands() {
    let records = program(600);
    let events: Vec<serde_json::Value> = serde_json::from_slice(&recorded(&records)).unwrap();
    // Where each command's slice is: process, thread, start.
    let mut slices = HashMap::new();
    for event in events
        .iter()
        .filter(|event| event["ph"] == "X" && event["cat"] != "queue")
    {
        let place = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
            event["ts"].to_string(),
        );
        slices.insert(place, event["args"]["id"].as_u64().unwrap());
    }
    let mut arrows: HashMap<u64, (Option<u64>, Option<u64>)> = HashMap::new();
    for event in &events {
        let (is_start, is_end) = (event["ph"] == "s", event["ph"] == "f");
        if !is_start && !is_end {
            continue;
        }
        let place = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
            event["ts"].to_string(),
        );
        let command = slices
            .get(&place)
            .copied()
            .expect("an arrow ends on a slice");
        let arrow = arrows.entry(event["id"].as_u64().unwrap()).or_default();
        let end = if is_start { &mut arrow.0 } else { &mut arrow.1 };
        assert_eq!(end.replace(command), None, "one start and one end");
        assert_eq!(event["bp"] == "e", is_end);
    }
    let mut drawn: Vec<(u64, u64)> = arrows
        .into_values()
        .map(|(from, to)| (from.expect("a start"), to.expect("an end")))
        .collect();
    let mut waits: Vec<(u64, u64)> = records
        .iter()
        .flat_map(|record| record.waits.iter().map(|&from| (from, record.id)))
        .collect();
    drawn.sort_unstable();
    waits.sort_unstable();
    assert_eq!(drawn, waits);
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    let bytes = recorded(&program(16));
    let whole = read(&bytes).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    for cut in 1..bytes.len() {
        let trace = match read(&bytes[..cut]) {
            Ok(trace) => trace,
            Err(error) => panic!("cut at {cut}: {error}"),
        };
        // Complete lines up to the cut: those that are followed by a comma, or end with the cut
        // itself.
        let complete = text[..cut].matches("\"cat\":\"command\"").count()
            + text[..cut].matches("\"cat\":\"migration\"").count();
        let read = trace.commands.len();
        assert!(
            read == complete || read + 1 == complete,
            "cut at {cut}: {read} of {complete} commands"
        );
        assert_eq!(
            trace.truncated,
            !text[..cut].trim_end().ends_with(']') || cut < text.trim_end().len()
        );
        assert_eq!(trace.commands, whole.commands[..read]);
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let event = r#"{"ph":"X","cat":"command","ts":1,"dur":1,"args":{"id":1,"device":0,"lane":0,"queue":0}}"#;
    assert!(read(format!("[{event}]").as_bytes()).is_ok());
    for (text, line, column, says) in [
        ("hello".to_owned(), 1, 1, "expected value"),
        (
            "[\n{\"ph\":\"X\" \"ts\":1}]".to_owned(),
            2,
            11,
            "expected `,` or `}`",
        ),
        ("[\n{}\n{}]".to_owned(), 3, 1, "expected `,` or `]`"),
        (format!("[{event}\n] more"), 2, 3, "trailing characters"),
        (
            "7".to_owned(),
            1,
            1,
            "invalid type: integer `7`, expected an array of trace events",
        ),
        (
            r#"{"traceEvents":7}"#.to_owned(),
            1,
            16,
            "expected an array of trace events",
        ),
        ("[\n7]".to_owned(), 2, 1, "invalid type: integer `7`"),
        (
            format!("[\n{},\n{event}]", event.replace("\"lane\":0,", "")),
            2,
            82,
            "a command without args.lane",
        ),
        (
            format!("[\n{}]", event.replace("\"id\":1,", "")),
            2,
            82,
            "a command without args.id",
        ),
        (
            format!("[{}]", event.replace("\"dur\":1,", "")),
            1,
            83,
            "a command without \"dur\"",
        ),
        (
            format!("[{}]", event.replace("\"ts\":1", "\"ts\":-1")),
            1,
            92,
            "\"ts\" is -1.0: expected microseconds",
        ),
        (
            format!("[{}]", event.replace("\"ts\":1", "\"ts\":1e300")),
            1,
            95,
            "\"ts\" is 1e300",
        ),
        (
            format!(
                "[{}]",
                event.replace("\"device\":0", "\"device\":4294967296")
            ),
            1,
            83,
            "expected u32",
        ),
        (
            "[{\"name\":\"\u{1}\"}]".to_owned(),
            1,
            11,
            "control character",
        ),
    ] {
        match read(text.as_bytes()) {
            Err(TimelineError::Malformed {
                line: at_line,
                column: at_column,
                what,
            }) => {
                assert!(what.contains(says), "{text}: {what}");
                assert_eq!(at_line, line, "{text}: {what}");
                assert!(
                    at_column.abs_diff(column) <= 8,
                    "{text}: {what} at column {at_column}, not {column}"
                );
                assert!(
                    !what.contains(" at line "),
                    "the place is said once: {what}"
                );
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        read(b"[\n\xff\xfe]"),
        Err(TimelineError::Malformed { line: 2, .. })
    ));
    assert!(matches!(
        read(b"[{\"name\":\"\xff\"}]"),
        Err(TimelineError::Malformed { line: 1, .. })
    ));
    assert!(matches!(read(b""), Err(TimelineError::Empty)));
    assert!(matches!(read(b" \n "), Err(TimelineError::Empty)));
    assert!(matches!(read(b"{\"a\":[1]}"), Err(TimelineError::NoEvents)));
    let deep = "[".repeat(100_000);
    assert!(read(deep.as_bytes()).is_err());
    assert!(read(format!("{{\"a\":{deep}").as_bytes()).is_err());
}

#[test]
fn an_input_that_fails_is_not_a_malformed_trace() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let error = Trace::read(b"[{}".chain(Broken)).unwrap_err();
    assert!(matches!(error, TimelineError::Read(_)), "{error}");
    assert!(error.to_string().contains("the cable is out"));
}

#[test]
fn other_programs_traces_are_counted_and_left_out() {
    let text = r#"{"displayTimeUnit":"ns","traceEvents":[
        {"ph":"M","pid":1,"name":"process_name","args":{"name":"browser"}},
        {"ph":"X","cat":"v8","name":"run","ts":1.5,"dur":2,"pid":1,"tid":1},
        {"ph":"i","name":"now","ts":3,"s":"g"}],"metadata":{"x":[1,{"y":null}]}}"#;
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(
        (trace.commands.len(), trace.foreign, trace.truncated),
        (0, 1, false)
    );
    assert!(summary(&trace).contains("1 slice of other programs left out"));
}

#[test]
fn a_timeline_of_no_commands_is_a_page_all_the_same() {
    for bytes in [recorded(&[]), b"[]".to_vec(), b"[".to_vec()] {
        let trace = read(&bytes).unwrap();
        assert_eq!(trace.commands.len(), 0);
        let html = page(&trace, &Options::default());
        assert!(html.contains("0 commands on "));
        let data = data_of(&html);
        assert_eq!(data["columns"]["id"], serde_json::json!([]));
        assert!(render_svg(&trace, 800).contains("</svg>"));
        assert!(summary(&trace).starts_with("0 commands"));
    }
}

/// The data in a page, as its script would parse them.
fn data_of(html: &str) -> serde_json::Value {
    let (_, rest) = html
        .split_once("<script type=\"application/json\" id=\"data\">")
        .expect("the data element");
    // As a browser does it: the element ends at the first such tag, whatever is inside.
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("the data are JSON")
}

const ATTACKS: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "{{data}}{{scripts}}",
    "]]>&amp;'\u{2028}\u{0}\u{1b}[31m",
];

#[test]
fn names_stay_text_wherever_they_go() {
    for attack in ATTACKS {
        let memory = Memory::default();
        let recorder = Recorder::into_output(memory.clone(), "memory").unwrap();
        recorder.name_device(0, attack);
        recorder.name_lane(0, 0, attack);
        recorder.name_queue(0, attack);
        let failed = Some(attack.to_owned());
        let record = CommandRecord {
            failed,
            ..CommandRecord::new(1, CommandKind::Launch, attack.to_owned())
        };
        recorder.record(record).unwrap();
        drop(recorder);

        let html = render(&*memory.bytes(), &Options::titled(attack)).unwrap();
        let plain = render(&*recorded(&[]), &Options::titled("plain")).unwrap();
        for tag in ["<script", "</script", "<!--", "<img", "<svg"] {
            assert_eq!(
                html.matches(tag).count(),
                plain.matches(tag).count(),
                "{tag} of {attack}"
            );
        }
        let data = data_of(&html);
        assert_eq!(data["names"][0], attack);
        assert_eq!(data["failed"][0][1], attack);
        assert_eq!(data["devices"][0]["name"], attack);
        assert_eq!(data["devices"][0]["lanes"][0][1], attack);
        assert_eq!(data["queues"][0]["name"], attack);

        let trace = read(&memory.bytes()).unwrap();
        let svg = render_svg(&trace, 2_000);
        for tag in ["<script", "<img", "<svg onload", "<!--"] {
            assert!(!svg.contains(tag), "{tag} of {attack}");
        }
        assert!(
            svg.chars()
                .all(|character| character == '\n' || !character.is_control()),
            "XML has no controls"
        );
        assert!(
            summary(&trace)
                .chars()
                .all(|character| character == '\n' || !character.is_control())
        );
    }
}

#[test]
fn a_kind_from_a_later_version_is_shown_by_its_name() {
    let text = r#"[{"ph":"X","cat":"command","name":"<i>","ts":1,"dur":1,
        "args":{"id":18446744073709551615,"kind":"</script>","device":0,"lane":0,"queue":0,"waits":[5]}}]"#;
    let html = render(text.as_bytes(), &Options::default()).unwrap();
    let data = data_of(&html);
    assert_eq!(data["others"], serde_json::json!([[0, "</script>"]]));
    assert_eq!(data["columns"]["id"][0], "18446744073709551615");
    assert_eq!(data["columns"]["missing"], serde_json::json!([1]));
}

#[test]
fn the_page_needs_no_other_file_and_asks_for_none() {
    let html = render(&*recorded(&program(10)), &Options::default()).unwrap();
    for reference in [
        "src=",
        "href=",
        "url(",
        "@import",
        "http://",
        "https://",
        "fetch(",
        "innerHTML",
        "eval(",
    ] {
        assert!(!html.contains(reference), "{reference}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("prefers-color-scheme"));
}

#[test]
fn the_pages_columns_are_the_commands() {
    let records = program(200);
    let data = data_of(&render(&*recorded(&records), &Options::default()).unwrap());
    let columns = &data["columns"];
    let number = |column: &str, at: usize| columns[column][at].as_u64().unwrap();
    let (mut time, mut wait) = (0, 0);
    for (at, record) in records.iter().enumerate() {
        time += number("start", at);
        assert_eq!(time, record.started_ns);
        assert_eq!(time - number("submitted", at), record.submitted_ns);
        assert_eq!(
            time - number("submitted", at) - number("queued", at),
            record.queued_ns
        );
        assert_eq!(number("duration", at), record.ended_ns - record.started_ns);
        assert_eq!(
            data["names"][number("name", at) as usize],
            record.name.as_str()
        );
        assert_eq!(
            data["kinds"][number("kind", at) as usize],
            record.kind.as_str()
        );
        // Two lanes per device, counted through.
        assert_eq!(
            number("lane", at),
            u64::from(record.device * 2 + record.worker)
        );
        let waits: Vec<u64> = (0..number("wait_count", at) as usize)
            .map(|n| columns["waits"][wait + n].as_u64().unwrap())
            .collect();
        wait += waits.len();
        assert_eq!(waits, record.waits);
    }
}

#[test]
fn totals_add_up() {
    let record = |id, device, worker, started_ns, ended_ns, kind| CommandRecord {
        device,
        worker,
        started_ns,
        ended_ns,
        bytes: 1 << 20,
        ..CommandRecord::new(id, kind, "c")
    };
    let mut records = vec![
        // One inside another, on one lane: 100 ns; and 50 on the other.
        record(1, 0, 0, 0, 100, CommandKind::Launch),
        record(2, 0, 0, 20, 60, CommandKind::HostTask),
        record(3, 0, 1, 50, 100, CommandKind::Copy),
        record(4, 1, 0, 0, 200, CommandKind::Migrate),
    ];
    records[1].failed = Some("no".to_owned());
    let trace = read(&recorded(&records)).unwrap();
    assert_eq!(trace.span_ns(), (0, 200));
    let totals = trace.totals();
    let [cpu, sim] = &totals[..] else {
        panic!("two devices")
    };
    assert_eq!(
        (cpu.commands, cpu.failed, cpu.busy_ns, cpu.lanes),
        (3, 1, 150, 2)
    );
    assert_eq!(
        (cpu.bytes_moved, cpu.migrations, cpu.bytes_migrated),
        (1 << 20, 0, 0)
    );
    assert_eq!(cpu.utilisation, 0.375);
    assert_eq!(
        (
            sim.commands,
            sim.busy_ns,
            sim.migrations,
            sim.bytes_migrated
        ),
        (1, 200, 1, 1 << 20)
    );
    assert_eq!(sim.utilisation, 1.0);
    assert_eq!(
        summary(&trace),
        "4 commands on 2 devices and 1 queue in 200 ns; 1 failed\n\
         \n\
         device  lanes  commands  failed    busy  utilisation     moved  migrations  migrated\n\
         cpu         2         3       1  150 ns       37.5 %  1.00 MiB           0       0 B\n\
         sim 0       1         1       0  200 ns      100.0 %  1.00 MiB           1  1.00 MiB\n"
    );
}

/// The picture of a trace with the usual look.
fn render_svg(trace: &Trace, width: u32) -> String {
    let look = Look {
        width,
        ..Look::default()
    };
    quipu_cli::timeline::render_svg(trace, &look)
}

#[test]
fn commands_of_a_name_have_its_colour_and_the_picture_its_title() {
    let mut trace = read(&recorded(&program(4))).unwrap();
    let names = ["edge", "edges 3", "edges 4", "edges"];
    for (command, name) in trace.commands.iter_mut().zip(names) {
        command.name = name.into();
    }
    let look = Look {
        width: 1_000,
        title: Some("a < b"),
        names: &[("edges", "#123456")],
    };
    let svg = quipu_cli::timeline::render_svg(&trace, &look);
    assert!(svg.contains(".k12{fill:#123456}") && svg.contains(">edges<"));
    // One of the legend, and the three commands.
    assert_eq!(svg.matches("class=\"k12\"").count(), 4, "{svg}");
    assert!(svg.contains("<title>edges 3: ") && svg.contains("Timeline: a &lt; b<"));
}

#[test]
fn the_pictures_size_does_not_grow_with_the_commands() {
    // Four lanes of 256 pixels: a rectangle of 80 bytes for each pixel at the very most.
    let crowded = render_svg(&read(&recorded(&program(20_000))).unwrap(), 400);
    assert!(crowded.len() < 4 * 256 * 80, "{} bytes", crowded.len());
    let svg = render_svg(&read(&recorded(&program(100))).unwrap(), 1_000);
    assert!(
        svg.contains("migrate")
            && svg.contains("url(#stripes)")
            && svg.contains("class=\"failed\"")
    );
    assert!(svg.contains(">sim 0<") && svg.contains(">compute<"));
}

#[test]
fn text_is_escaped_for_where_it_goes() {
    assert_eq!(
        escape::json_in_script("[\"a</script>&\u{2028}\"]"),
        "[\"a\\u003c/script\\u003e\\u0026\\u2028\"]"
    );
    assert_eq!(
        escape::markup("<a b=\"c\">'&\u{1}\n"),
        "&lt;a b=&quot;c&quot;&gt;&#39;&amp;\u{fffd} "
    );
    assert_eq!(escape::terminal("a\u{1b}[31mé\n"), "a\\u{1b}[31mé\\n");
    assert!(matches!(
        escape::markup("plain"),
        std::borrow::Cow::Borrowed("plain")
    ));
}

#[test]
fn how_well_other_machines_times_are_known_is_told() {
    let told = |node: &str, device: u32, ahead: i64, error: u64, drift: i64| {
        format!(
            r#"{{"ph":"M","pid":{0},"name":"quipu_clock","args":{{"node":"{node}","device":{device},"ahead_ns":{ahead},"error_ns":{error},"drift_ppb":{drift},"drift_error_ppb":500}}}}"#,
            device + 2
        )
    };
    let text = format!(
        "[{},{},{},{}\n]",
        told("lab\\u001b[31m", 1, 5_000_000, 90_000, 0),
        told("attic", 2, -1_500, 40_000, -2_300),
        told("lab\\u001b[31m", 1, 5_010_000, 12_000, 700),
        r#"{"ph":"X","cat":"command","name":"a","ts":1,"dur":1,"args":{"id":1,"device":1,"lane":0,"queue":0}}"#,
    );
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(trace.clocks.len(), 2);
    assert_eq!(trace.clocks[1].first_error_ns, 90_000);
    let summary = summary(&trace);
    for line in [
        "the clock of attic is 1.50 µs behind, and drifts by -2.3 ppm (± 0.5); its times are right within 40.0 µs\n",
        "is 5.01 ms ahead, and drifts by 0.7 ppm (± 0.5); its times are right within 12.0 µs, at first 90.0 µs\n",
    ] {
        assert!(summary.contains(line), "{summary}");
    }
    assert!(!summary.contains('\u{1b}'), "{summary}");
}

#[test]
fn what_went_from_node_to_node_by_way_of_the_program_is_told() {
    let mark = |from: &str, to: &str, bytes: u64| {
        format!(
            r#"{{"ph":"i","ts":5,"pid":3,"s":"p","cat":"detour","name":"by way of this program","args":{{"from":"{from}","to":"{to}","bytes":{bytes}}}}}"#
        )
    };
    let text = format!(
        "[{},{},{},{}\n]",
        mark("lab\\u001b[31m", "attic", 1 << 20),
        mark("attic", "cellar", 5),
        mark("lab\\u001b[31m", "attic", 1 << 20),
        r#"{"ph":"X","cat":"command","name":"a","ts":1,"dur":1,"args":{"id":1,"device":1,"lane":0,"queue":0}}"#,
    );
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(trace.detours.len(), 2);
    assert_eq!(trace.foreign, 0);
    let summary = summary(&trace);
    for part in [
        "1 transfer of 5 B from attic to cellar went by way of the program",
        "2 transfers of 2.00 MiB from lab",
    ] {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(!summary.contains('\u{1b}'), "{summary}");
}

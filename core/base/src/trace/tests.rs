//! The recorder against its promises: valid JSON at every moment it is finished, bounded memory,
//! matching arrows. `cli/tests/timeline.rs` tests with the reader that it understands the file.

use super::*;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::Arc;

/// An output that can be looked at while it is written, and fails when it is told to.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    file: Cursor<Vec<u8>>,
    fails: bool,
    writes: usize,
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().file.get_ref().clone()).unwrap()
    }

    /// The events of a complete file, one line each, without the separators.
    fn events(&self) -> Vec<String> {
        let text = self.text();
        let inner = text
            .strip_prefix("[\n")
            .and_then(|rest| rest.strip_suffix("\n]\n"))
            .expect("a complete array");
        inner.split(",\n").map(str::to_owned).collect()
    }

    fn count(&self, what: &str) -> usize {
        self.events()
            .iter()
            .filter(|event| event.contains(what))
            .count()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        if state.fails {
            return Err(io::Error::other("the disk is on fire"));
        }
        state.writes += 1;
        state.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Shared {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap().file.seek(to)
    }
}

fn recorder() -> (Recorder, Shared) {
    let output = Shared::default();
    (
        Recorder::into_output(output.clone(), "memory").unwrap(),
        output,
    )
}

fn launch(id: u64, started_ns: u64, ended_ns: u64) -> CommandRecord {
    CommandRecord {
        started_ns,
        ended_ns,
        ..CommandRecord::new(id, CommandKind::Launch, "k")
    }
}

const DEVICE_EVENT: &str = "\"cat\":\"command\"";
const QUEUE_EVENT: &str = "\"cat\":\"queue\"";

#[test]
fn a_trace_without_commands_is_complete() {
    let (_recorder, output) = recorder();
    assert_eq!(output.count("\"ph\":\"M\""), 2);
    assert_eq!(output.events().len(), 2);
}

#[test]
fn everything_about_a_command_is_in_its_event() {
    let (recorder, output) = recorder();
    recorder
        .record(CommandRecord {
            id: 9,
            queue: 3,
            device: 1,
            worker: 2,
            name: "blur \"x\"\n".into(),
            kind: CommandKind::Migrate,
            bytes: 4096,
            queued_ns: 5,
            submitted_ns: 1_010,
            started_ns: 2_001,
            ended_ns: 1_234_567,
            failed: Some("out of\tmemory".to_owned()),
            waits: vec![4, 5],
        })
        .unwrap();
    recorder.finish().unwrap();
    let events = output.events();
    let command = events
        .iter()
        .find(|event| event.contains("migration"))
        .unwrap();
    assert_eq!(
        command,
        "{\"ph\":\"X\",\"ts\":2.00125,\"dur\":1232.566,\"pid\":3,\"tid\":3003,\"cat\":\"migration\",\
         \"name\":\"blur \\\"x\\\"\\n\",\"args\":{\"id\":9,\"kind\":\"migrate\",\"bytes\":4096,\"device\":1,\"lane\":2,\
         \"queue\":3,\"queued_ns\":5,\"submitted_ns\":1010,\"waits\":[4,5],\"failed\":\"out of\\tmemory\"}}"
    );
}

#[test]
fn recording_goes_on_after_it_was_finished() {
    let (recorder, output) = recorder();
    for id in 0..3 {
        recorder.record(launch(id, id * 10, id * 10 + 5)).unwrap();
        recorder.finish().unwrap();
        recorder.finish().unwrap();
        assert_eq!(output.count(DEVICE_EVENT), id as usize + 1);
    }
    recorder.record(launch(3, 30, 35)).unwrap();
    drop(recorder);
    assert_eq!(output.count(DEVICE_EVENT), 4);
}

#[test]
fn a_long_program_is_written_as_it_goes() {
    let (recorder, output) = recorder();
    for id in 0..10_000 {
        recorder.record(launch(id, id, id + 1)).unwrap();
        if id % 1_000 == 999 {
            let held = id as usize + 1 - output.text().matches(DEVICE_EVENT).count();
            assert!(held < 256, "{held} records held back");
        }
    }
    assert!(
        output.0.lock().unwrap().writes < 60,
        "a write per block, not per record"
    );
}

#[test]
fn a_slow_program_is_written_every_second_of_its_time() {
    let (recorder, output) = recorder();
    recorder.record(launch(1, 0, 10)).unwrap();
    assert!(!output.text().contains(DEVICE_EVENT));
    recorder.record(launch(2, 0, 1_000_000_010)).unwrap();
    assert_eq!(output.text().matches(DEVICE_EVENT).count(), 2);
}

#[test]
fn without_its_bracket_the_file_is_whole_lines() {
    let (recorder, output) = recorder();
    for id in 0..256 {
        recorder.record(launch(id, id, id + 1)).unwrap();
    }
    let text = output.text();
    assert!(
        text.starts_with("[\n{") && text.ends_with('}'),
        "only the bracket is missing"
    );
}

#[test]
fn threads_lose_nothing() {
    let (recorder, output) = recorder();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let recorder = &recorder;
            scope.spawn(move || {
                for number in 0..1_000 {
                    let id = number * 8 + thread;
                    recorder
                        .record(CommandRecord {
                            worker: thread as u32,
                            ..launch(id, id, id + 1)
                        })
                        .unwrap();
                }
            });
        }
    });
    recorder.finish().unwrap();
    assert_eq!(output.count(DEVICE_EVENT), 8_000);
    let mut ids: Vec<u64> = output
        .events()
        .iter()
        .filter(|event| event.contains(DEVICE_EVENT))
        .map(|event| number(event, "id"))
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..8_000));
}

#[test]
fn what_threads_recorded_is_written_in_the_order_in_which_it_ended() {
    let (recorder, output) = recorder();
    // Two blocks whose times interleave, and a queue so full that an earlier end after a later one
    // has no room.
    std::thread::scope(|scope| {
        for first in 0..2 {
            let recorder = &recorder;
            let thread = scope.spawn(move || {
                for id in (first..100).step_by(2) {
                    recorder.record(launch(id, 10 * id, 10 * id + 10)).unwrap();
                }
            });
            thread.join().unwrap();
        }
    });
    recorder.finish().unwrap();
    let events = output.events();
    let ids = events
        .iter()
        .filter(|event| event.contains(DEVICE_EVENT))
        .map(|event| number(event, "id"));
    assert!(ids.eq(0..100));
    assert_eq!(output.count(QUEUE_EVENT), 100);
}

/// The number after `"key":`.
fn number(event: &str, key: &str) -> u64 {
    let start = event.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    let digits: String = event[start..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

#[test]
fn the_slices_of_a_row_of_a_queue_never_overlap() {
    let (recorder, output) = recorder();
    // A hundred commands enqueued at once, ending one after the other.
    for id in 0..100 {
        recorder
            .record(CommandRecord {
                queued_ns: id,
                ..launch(id, 1_000 * id, 1_000 * id + 1_000)
            })
            .unwrap();
    }
    recorder.finish().unwrap();
    let mut ends = std::collections::HashMap::new();
    let mut seen = 0;
    for event in output
        .events()
        .iter()
        .filter(|event| event.contains(QUEUE_EVENT))
    {
        let from = nanoseconds(event, "ts");
        let until = from + nanoseconds(event, "dur");
        let end = ends.entry(number(event, "tid")).or_insert(0);
        assert!(*end <= from, "{event}");
        *end = until;
        seen += 1;
    }
    assert_eq!((seen, ends.len()), (100, format::QUEUE_ROWS));
}

/// A time as a reader that cuts fractions off sees it.
fn nanoseconds(event: &str, key: &str) -> u64 {
    let start = event.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    let text: String = event[start..]
        .chars()
        .take_while(|c| *c == '.' || c.is_ascii_digit())
        .collect();
    (text.parse::<f64>().unwrap() * 1000.0) as u64
}

#[test]
fn start_times_survive_readers_that_cut_fractions_off() {
    let (recorder, output) = recorder();
    // 1.001 * 1000.0 is less than 1001.
    let times: Vec<u64> = (0..5_000).map(|step| step * 7_919 + 1_001).collect();
    for (id, &ns) in times.iter().enumerate() {
        recorder.record(launch(id as u64, ns, ns)).unwrap();
    }
    recorder.finish().unwrap();
    let events = output.events();
    let read = events
        .iter()
        .filter(|event| event.contains(DEVICE_EVENT))
        .map(|event| nanoseconds(event, "ts"));
    assert!(read.eq(times));
}

#[test]
fn arrows_have_two_ends_in_the_order_of_time() {
    let (recorder, output) = recorder();
    for id in 0..500 {
        // Recorded in pairs the wrong way round, across the edges of blocks.
        let id = id ^ 1;
        let waits = if id == 0 { vec![] } else { vec![id - 1] };
        recorder
            .record(CommandRecord {
                waits,
                worker: (id % 3) as u32,
                ..launch(id, id * 10, id * 10 + 9)
            })
            .unwrap();
    }
    recorder.finish().unwrap();
    let events = output.events();
    let arrows: Vec<&String> = events
        .iter()
        .filter(|event| event.contains("\"cat\":\"dependency\""))
        .collect();
    assert_eq!(arrows.len(), 2 * 499);
    for pair in arrows.chunks(2) {
        assert!(pair[0].contains("\"ph\":\"s\"") && pair[1].contains("\"ph\":\"f\""));
        assert!(pair[1].contains("\"bp\":\"e\""));
        assert_eq!(number(pair[0], "id"), number(pair[1], "id"));
        assert_eq!(nanoseconds(pair[0], "ts") + 10, nanoseconds(pair[1], "ts"));
    }
}

#[test]
fn times_that_decrease_are_straightened() {
    let (recorder, output) = recorder();
    recorder
        .record(CommandRecord {
            queued_ns: 50,
            ..launch(1, 20, 10)
        })
        .unwrap();
    recorder.finish().unwrap();
    let events = output.events();
    let command = events
        .iter()
        .find(|event| event.contains(DEVICE_EVENT))
        .unwrap();
    assert!(
        command.contains("\"ts\":0.05025,\"dur\":0.000,"),
        "{command}"
    );
}

#[test]
fn names_are_given_or_made_up_and_can_change() {
    let (recorder, output) = recorder();
    recorder.name_device(0, "cpu");
    recorder.name_lane(0, 0, "worker 0");
    recorder.name_queue(0, "main");
    recorder.record(launch(1, 0, 1)).unwrap();
    recorder
        .record(CommandRecord {
            device: 4,
            worker: 1,
            queue: 2,
            ..launch(2, 1, 2)
        })
        .unwrap();
    recorder.finish().unwrap();
    for name in ["cpu", "worker 0", "main", "device 4", "lane 1", "queue 2"] {
        assert_eq!(
            output.count(&format!("{{\"name\":\"{name}\",")),
            1,
            "{name}"
        );
    }
    recorder.name_queue(2, "later");
    recorder.finish().unwrap();
    assert_eq!(output.count("{\"name\":\"later\",\"queue\":2}"), 1);
}

#[test]
fn a_failing_output_ends_the_trace_and_says_so_once() {
    let (recorder, output) = recorder();
    output.0.lock().unwrap().fails = true;
    let errors: Vec<TraceError> = (0..1_000)
        .filter_map(|id| recorder.record(launch(id, id, id)).err())
        .collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].to_string(),
        "writing the trace memory failed: the disk is on fire; the trace ends here"
    );
    output.0.lock().unwrap().fails = false;
}

#[test]
fn a_full_trace_ends_complete() {
    let (mut recorder, output) = recorder();
    recorder.set_limit(200_000);
    let errors: Vec<TraceError> = (0..5_000)
        .filter_map(|id| recorder.record(launch(id, id, id)).err())
        .collect();
    assert!(
        matches!(errors[..], [TraceError::Full { limit: 200_000, .. }]),
        "{errors:?}"
    );
    recorder.finish().unwrap();
    let written = output.count(DEVICE_EVENT);
    assert!(
        written > 0 && written.is_multiple_of(256),
        "{written} records in whole blocks"
    );
    assert!(output.text().len() < 400_000);
}

#[test]
fn a_file_that_cannot_be_created_is_an_error_with_its_name() {
    let path = std::env::temp_dir()
        .join("no such folder")
        .join("trace.json");
    let error = Recorder::create(&path)
        .err()
        .expect("the folder does not exist");
    assert!(matches!(&error, TraceError::Create { path: named, .. } if *named == path));
    assert!(error.to_string().contains("trace.json"));
}

#[test]
fn strings_are_escaped() {
    let mut out = String::new();
    format::string(&mut out, "a\"b\\c\n\r\t\0\u{1b}\u{7f}\u{2028}é🪢</script>");
    assert_eq!(
        out,
        "\"a\\\"b\\\\c\\n\\r\\t\\u0000\\u001b\\u007f\\u2028é🪢</script>\""
    );
}

#[test]
fn the_process_id_goes_into_the_name() {
    let expanded = expand("a-{pid}.json".into());
    assert_eq!(
        expanded,
        PathBuf::from(format!("a-{}.json", std::process::id()))
    );
}

#[test]
fn a_kind_has_one_word() {
    let words: std::collections::HashSet<&str> =
        CommandKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), CommandKind::ALL.len());
}

/// A traced program, in a process of its own: `QUIPU_TRACE` decides once per process.
#[test]
#[ignore = "the child of the tests below"]
fn child() {
    if !enabled() {
        assert!(path().is_none());
        start(std::env::var_os("QUIPU_TEST_START").expect("the parent says which file")).unwrap();
    }
    assert!(matches!(
        start("another.json"),
        Err(TraceError::AlreadyStarted { .. })
    ));
    name_device(0, "cpu");
    for id in 0..300 {
        record(launch(id, id, id + 1));
    }
    if std::env::var_os("QUIPU_TEST_ABORT").is_some() {
        std::process::abort();
    }
}

/// Runs [`child`] with a variable set to a file, and gives back its exit and the content of the
/// file.
#[cfg(not(miri))]
fn run_child(name: &str, variable: &str, abort: bool) -> (std::process::ExitStatus, String) {
    let file = std::env::temp_dir().join(format!("quipu-trace-{name}-{}.json", std::process::id()));
    let (_, module) = module_path!()
        .split_once("::")
        .expect("the crate comes first");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([
        format!("{module}::child").as_str(),
        "--exact",
        "--ignored",
        "--quiet",
    ]);
    command.env_remove("QUIPU_TRACE").env(variable, &file);
    if abort {
        command.env("QUIPU_TEST_ABORT", "1");
    }
    let output = command.output().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    (output.status, text)
}

#[test]
#[cfg(not(miri))]
fn a_process_completes_its_trace_as_it_exits() {
    for variable in ["QUIPU_TRACE", "QUIPU_TEST_START"] {
        let (status, text) = run_child("exits", variable, false);
        assert!(status.success());
        assert!(text.ends_with("}\n]\n"));
        assert_eq!(text.matches(DEVICE_EVENT).count(), 300);
    }
}

#[test]
#[cfg(not(miri))]
fn a_process_that_dies_leaves_what_it_had_written() {
    let (status, text) = run_child("dies", "QUIPU_TRACE", true);
    assert!(!status.success());
    assert!(text.ends_with('}'));
    assert_eq!(text.matches(DEVICE_EVENT).count(), 256);
}

#[test]
fn clocks_of_other_machines_are_told() {
    let (recorder, output) = recorder();
    let clock = NodeClock {
        node: "the \"lab\"",
        ahead_ns: -5,
        error_ns: 7,
        drift_ppb: -11,
        drift_error_ppb: 13,
    };
    recorder.note_clock(3, &clock);
    recorder.finish().unwrap();
    let events = output.events();
    let told = events.iter().find(|event| event.contains("quipu_clock"));
    for part in [
        r#""node":"the \"lab\"""#,
        r#""device":3,"ahead_ns":-5,"error_ns":7,"drift_ppb":-11,"drift_error_ppb":13"#,
    ] {
        assert!(told.unwrap().contains(part), "{told:?}");
    }
    // The device has a name, though nothing else is known of it.
    assert_eq!(output.count("device 3"), 1);
}

#[test]
fn what_goes_a_longer_way_is_marked_on_its_device() {
    let (recorder, output) = recorder();
    let detour = Detour {
        from: "the \"lab\"",
        to: "attic",
        bytes: 4096,
        at_ns: 12_345,
    };
    recorder.note_detour(3, &detour);
    recorder.finish().unwrap();
    let events = output.events();
    let told = events.iter().find(|event| event.contains("detour"));
    let told = told.unwrap();
    assert_eq!(nanoseconds(told, "ts"), 12_345);
    for part in [
        r#""ph":"i""#,
        r#""s":"p""#,
        r#""args":{"from":"the \"lab\"","to":"attic","bytes":4096}"#,
    ] {
        assert!(told.contains(part), "{told}");
    }
    // The device has a name, though nothing else is known of it.
    assert_eq!(output.count("device 3"), 1);
}

#[test]
fn commands_of_other_machines_have_an_arrow_from_their_queue() {
    let (recorder, output) = recorder();
    let clock = NodeClock {
        node: "attic",
        ahead_ns: 5,
        error_ns: 2,
        drift_ppb: 0,
        drift_error_ppb: 0,
    };
    recorder.note_clock(3, &clock);
    for (id, device) in [(7, 3), (8, 4)] {
        recorder
            .record(CommandRecord {
                device,
                worker: 2,
                queue: 9,
                queued_ns: 100,
                ..launch(id, 400, 500)
            })
            .unwrap();
    }
    recorder.finish().unwrap();
    let events = output.events();
    let arrows = events
        .iter()
        .filter(|event| event.contains("\"cat\":\"enqueue\""));
    let [from, to] = arrows.collect::<Vec<_>>()[..] else {
        panic!("one arrow, of the command on another machine: {events:?}");
    };
    assert!(from.contains("\"ph\":\"s\"") && to.contains("\"ph\":\"f\""));
    assert_eq!((number(from, "id"), number(to, "id")), (7, 7));
    // From the slice in its queue to the one on its lane.
    assert_eq!((number(from, "pid"), number(to, "pid")), (1, 5));
    assert_eq!(number(to, "tid"), 5003);
    assert_eq!(nanoseconds(from, "ts"), 100);
    assert_eq!(nanoseconds(to, "ts"), 400);
}

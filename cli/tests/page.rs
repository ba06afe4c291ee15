//! The timeline's page as it is used: its scripts run in Node.js, with as much of a browser as they
//! need (`page/browser.js`).
//!
//! Without Node.js these tests fail, or are left out if `QUIPU_TEST_WITHOUT_JAVASCRIPT=1`, and say
//! so.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the scripts of these tests, and of the trace that one of them is about.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page")
}

/// True if there is a Node.js that knows what the scripts need (18 or later does).
fn has_node_js() -> bool {
    let probe = ["-e", "require('node:test'); Object.hasOwn({}, 'name')"];
    let found = Command::new("node").args(probe).output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(
        std::env::var("QUIPU_TEST_WITHOUT_JAVASCRIPT").is_ok_and(|value| value == "1"),
        "no Node.js of version 18 or later\nInstall it (Debian: nodejs), or set QUIPU_TEST_WITHOUT_JAVASCRIPT=1"
    );
    eprintln!("\n*** NOT TESTED: the scripts of the timeline's page. There is no Node.js.\n");
    false
}

/// The page that `quipu trace` makes of a trace, in the same folder.
fn page_of(trace: &Path, page: &Path) {
    let made = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .arg("trace")
        .arg(trace)
        .arg("--output")
        .arg(page)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{}: {said}", trace.display());
}

/// Runs a script of tests with these pages.
fn run(script: &str, pages: &[PathBuf]) {
    let script = folder().join(script);
    let ended = Command::new("node")
        .arg(script)
        .args(pages)
        .output()
        .unwrap();
    let [said, failed] =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(ended.status.success(), "{said}{failed}");
}

#[test]
fn the_page_shows_and_does_what_it_says() {
    if !has_node_js() {
        return;
    }
    let pages = tempfile::tempdir().unwrap();
    let page = pages.path().join("program.html");
    page_of(&folder().join("program.json"), &page);
    run("program.js", &[page]);
}

/// A trace with these commands.
fn commands(events: impl IntoIterator<Item = String>) -> String {
    let events: Vec<String> = events.into_iter().collect();
    format!("[{}]", events.join(",\n"))
}

/// A command of one lane, from and for how many microseconds it ran, and more of its `args`.
fn command(id: u64, from: f64, duration: f64, more: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"command","name":"a","ts":{from:?},"dur":{duration:?},"args":{{"id":{id},"device":0,"lane":0,"queue":0{more}}}}}"#
    )
}

/// Traces of which there is little to show, or too much.
fn odd_traces() -> Vec<(&'static str, String)> {
    let program = include_str!("page/program.json");
    let hundred_years = 3.1e15;
    let mut names = String::new();
    for name in [
        "__proto__",
        "constructor",
        "</script>",
        "",
        "\\u0000\\u2028{{data}}",
    ] {
        let lane = names.len();
        let event = command(lane as u64, lane as f64, 5.0, r#","kind":"toString""#)
            .replace(r#""name":"a""#, &format!(r#""name":"{name}""#))
            .replace(r#""lane":0"#, &format!(r#""lane":{lane}"#));
        let named = format!(
            r#"{{"ph":"M","name":"thread_name","args":{{"name":"{name}","device":0,"lane":{lane}}}}}"#
        );
        let comma = if names.is_empty() { "" } else { "," };
        write!(names, "{comma}{event},{named}").unwrap();
    }
    vec![
        ("the program itself", program.to_owned()),
        ("nothing", "[]".to_owned()),
        ("not even an end", "[".to_owned()),
        (
            "cut within a command",
            program[..program.len() * 2 / 3].to_owned(),
        ),
        (
            "devices that did nothing",
            r#"[{"ph":"M","name":"process_name","args":{"name":"idle","device":0}}]"#.to_owned(),
        ),
        (
            "only what another program did",
            r#"[{"ph":"X","cat":"v8","name":"run","ts":1.5,"dur":2,"pid":1,"tid":1}]"#.to_owned(),
        ),
        ("no time at all", commands([command(1, 0.0, 0.0, "")])),
        ("a nanosecond", commands([command(1, 5.0, 0.001, "")])),
        (
            "a hundred years",
            commands([
                command(1, 0.0, hundred_years, ""),
                command(
                    2,
                    hundred_years,
                    0.001,
                    r#","bytes":18446744073709551615,"waits":[1]"#,
                ),
            ]),
        ),
        (
            "waits in a circle, for itself and for nobody",
            commands([
                command(1, 0.0, 1.0, r#","waits":[2,1,1,77]"#),
                command(2, 1.0, 1.0, r#","waits":[1]"#),
                command(2, 2.0, 1.0, r#","waits":[2]"#),
            ]),
        ),
        // More at once than a lane and a queue have rows.
        (
            "a hundred at once",
            commands((0..100).map(|id| command(id, 0.1 * id as f64, 1e3, r#","failed":"no""#))),
        ),
        (
            "many",
            commands((0..3000_u64).map(|id| {
                let kind = ["launch", "migrate", "graph", "copy"][id as usize % 4];
                let waits = id.saturating_sub(3);
                let more = format!(r#","kind":"{kind}","bytes":{id},"waits":[{waits}]"#);
                command(id, id as f64, 2.5, &more)
            })),
        ),
        ("names that mean something elsewhere", format!("[{names}]")),
    ]
}

#[test]
fn no_trace_is_too_odd_for_the_page() {
    if !has_node_js() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pages: Vec<PathBuf> = odd_traces()
        .into_iter()
        .map(|(what, text)| {
            let trace = folder.path().join(format!("{what}.json"));
            std::fs::write(&trace, text).unwrap();
            let page = folder.path().join(format!("{what}.html"));
            page_of(&trace, &page);
            page
        })
        .collect();
    run("anything.js", &pages);
}

//! Refusals: a command that cannot do its work says so in one line, with advice.

use super::{output, stdout};

#[test]
fn what_means_nothing_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let refused = |arguments: &[&str], because: &str| {
        let refused = output(&home, arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(because), "{arguments:?}: {said}");
    };
    refused(
        &["serve", "--address", "127.0.0.1:0", "--name", "all"],
        "means all nodes",
    );
    refused(
        &["pair", "--name", "a,b", "quipu1.x.y@z:1"],
        "without commas",
    );
    let invite = ["invite", "--address", "lab:4760", "--devices"];
    for device in ["nosuch:9", "cpu:9", "nosuch"] {
        let because = format!("no device is called '{device}' here");
        refused(&[&invite[..], &[device]].concat(), &because);
        refused(&["rights", "laptop", "--devices", device], &because);
    }
    assert!(stdout(&home, &[&invite[..], &["cpu:0"]].concat()).contains("quipu pair"));
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for (arguments, advice) in [
        (&["invite"][..], "quipu serve"),
        (&["pair", "nonsense"], "quipu invite"),
        (&["revoke", "nobody"], "is not enrolled here"),
        (&["rights", "nobody", "--all"], "is not enrolled here"),
        (&["rights", "laptop"], "Say `--all`"),
        (&["rights", "--cores", "1"], "Name a client"),
        (
            &["rights", "laptop", "--devices", "cuda:x"],
            "devices=cuda:0,cpu",
        ),
        (&["top", "--node", "nowhere"], "`quipu pair` adds one"),
        (
            &["devices", "--node", "nowhere"],
            "no node 'nowhere' was paired with",
        ),
        (&["serve", "--address", "nonsense"], "--address"),
        (&["serve", "--source", "camera"], "name=path"),
        (&["serve", "--source", "a=/nowhere/b.jpg"], "/nowhere/b.jpg"),
        (
            &["serve", "--address", "127.0.0.1:0", "--metrics", "nonsense"],
            "--metrics",
        ),
    ] {
        let output = output(&home, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(advice), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

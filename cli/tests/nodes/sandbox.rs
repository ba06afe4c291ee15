//! A node of a system whose kernel has no Landlock.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

#[path = "../../../frontends/node/tests/support/landlock.rs"]
mod landlock;

use super::{Serving, quipu, stdout, told};
use quipu_conformance::Watchdog;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Has a program that is started so find no Landlock, as in a kernel without it.
fn without_landlock(command: &mut Command) -> &mut Command {
    // SAFETY: it calls the system alone.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, landlock::enter_without) }
}

#[test]
fn a_key_where_sessions_read_is_refused_by_the_options_name() {
    let serve = ["serve", "--address", "127.0.0.1:0", "--name", "lab"];
    let folder = std::path::Path::new("/usr/none/quipu");
    let refused = quipu(folder, &serve).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["/usr/none/quipu", "--accept-weak-sandbox"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!folder.exists());
}

#[test]
fn a_system_without_landlock_serves_nobody_unless_that_is_accepted_and_says_so() {
    let _watchdog = Watchdog::start(
        Duration::from_secs(900),
        "a node without Landlock".to_owned(),
    );
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
        "--invite",
    ];
    let refused = without_landlock(&mut quipu(&node, &serve))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in [
        "the kernel has no Landlock",
        "this node's key",
        "--accept-weak-sandbox",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Nor has it made a key, or said where it is.
    assert!(!node.exists());
    for (is_without, arguments) in [(true, &["--accept-weak-sandbox"][..]), (false, &[])] {
        let mut command = quipu(&node, &[&serve[..], arguments].concat());
        if is_without {
            without_landlock(&mut command);
        }
        let mut serving = command.stdout(Stdio::piped()).spawn().map(Serving).unwrap();
        let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
        let mut weak = false;
        let invitation = lines.map(Result::unwrap).find(|line| {
            weak |= line.starts_with("WEAK SANDBOX: the kernel has no Landlock");
            line.starts_with("quipu pair ")
        });
        assert_eq!(weak, is_without);
        // Its sessions are served.
        let paired = told(&client, &["pair"], &invitation.unwrap());
        assert!(paired.status.success(), "{paired:?}");
        let devices = stdout(&client, &["devices", "--node", "lab"]);
        assert!(devices.contains(" on lab"), "{devices}");
    }
}

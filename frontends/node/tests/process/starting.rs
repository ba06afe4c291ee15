//! Sessions that take their time to start.

use crate::support::Rig;
use crate::{IS_SESSION, devices, watchdog};
use quipu_link::client::own_order;
use quipu_node::{Limits, Spawn};
use quipu_protocol::limits::MAX_FRAME;
use quipu_protocol::message::{Hello, Message, Role, SessionId};
use quipu_protocol::{FEATURES, NEWEST_VERSION, OLDEST_VERSION};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_client_is_told_that_its_session_starts_for_as_long_as_that_takes() {
    let _watchdog = watchdog();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let named = CString::new(gate.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is there until the call returns.
    assert_eq!(unsafe { libc::mkfifo(named.as_ptr(), 0o600) }, 0);
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let own = Spawn::own(this).unwrap();
        // A session's process that begins when something is written there.
        let waits = "read line < \"$0\"; exec \"$@\"";
        let mut arguments = vec!["-c".into(), waits.into(), gate.clone().into_os_string()];
        arguments.push(own.program.into_os_string());
        arguments.extend(own.arguments);
        options.processes = Some(Spawn {
            program: "/bin/sh".into(),
            arguments,
            environment: vec![(IS_SESSION.into(), Some("1".into()))],
        });
        options.devices = devices();
    });
    let mut connection = rig.dial(0).open().unwrap();
    let hello = Hello {
        versions: (OLDEST_VERSION, NEWEST_VERSION),
        role: Role::Session,
        features: FEATURES,
        session: SessionId::NONE,
        epoch: 0,
        data_order: own_order(),
        received: 0,
        max_frame: MAX_FRAME,
        patience_ms: 0,
        name: "test",
    };
    connection.send(&Message::Hello(hello)).unwrap();
    let mut is_starting = || {
        let said = connection.receive_as(|message| match message {
            Message::Ping(_) => Ok(true),
            Message::Redirect(_) => Ok(false),
            _ => Err("that a session starts, or where it is"),
        });
        said.unwrap()
    };
    assert!(is_starting() && is_starting());
    std::fs::write(&gate, "go on\n").unwrap();
    while is_starting() {}
}

//! Sessions in processes of their own: this program, started anew. It has no harness, which would
//! start threads before `main` serves.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

#[path = "../serve/forms.rs"]
mod forms;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "../serve/kernels.rs"]
mod kernels;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "../serve/loopback.rs"]
mod loopback;
mod opencl;

use kernels::served;
use loopback::{Loopback, server};
use std::process::{Command, Stdio};

fn main() {
    if std::env::args().any(|argument| argument == "--list") || cfg!(not(target_os = "linux")) {
        return;
    }
    if std::env::args().any(|argument| argument == "--with-a-thread") {
        std::thread::spawn(std::thread::park);
    }
    // Nothing is made before: a session's process comes here, too.
    let folder = std::env::temp_dir().join(format!("quipu-serves.{}", std::process::id()));
    for devices in opencl::ALL {
        if std::env::args().any(|argument| argument == devices.session) {
            panic!("{:?}", opencl::server(devices, &folder).start());
        }
    }
    let started = server(served(), &folder).start();
    let serving = match started {
        Ok(serving) => serving,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let another = server(served(), &folder.join("another")).start();
    let error = another.unwrap_err().to_string();
    assert!(error.contains("one_process"), "{error}");
    let node = Loopback::of(serving, folder.clone());
    forms::check(&node);
    assert_eq!(node.serving.sessions(), 1);
    drop(node);
    std::fs::remove_dir_all(&folder).unwrap();

    for devices in opencl::ALL {
        let server = || opencl::server(devices, &folder);
        for server in [server(), server().one_process()] {
            opencl::check(devices, server.start(), &folder);
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }

    let alone = without_a_node(&[]);
    assert!(alone.contains("started by a node"), "{alone}");
    let with_others = without_a_node(&["--with-a-thread"]);
    assert!(
        with_others.contains("before it starts any"),
        "{with_others}"
    );
}

/// The message of a session's process that no node has started.
fn without_a_node(arguments: &[&str]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).env("QUIPU_SERVES_SESSION", "1");
    let run = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    String::from_utf8_lossy(&run.stderr).into_owned()
}

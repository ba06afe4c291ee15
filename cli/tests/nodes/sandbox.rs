//! A node of a system whose kernel has no Landlock.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use super::{Serving, quipu, stdout, told};
use quipu_conformance::Watchdog;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Has a program that is started so find no Landlock, as in a kernel without it.
fn without_landlock(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let gives = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The call's number is first of what it looks at.
        step(load, 0, 0, 0),
        step(jump, 0, 1, libc::SYS_landlock_create_ruleset as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let enter = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: numbers, and a filter that is there until the call returns.
        let entered = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const filter,
                ) == 0
        };
        match entered {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: it calls the system alone, twice.
    unsafe { command.pre_exec(enter) }
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

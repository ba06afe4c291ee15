//! What the system says of a session's processes, and what it answers them.

use crate::{descendants, good, has_sandbox, rig, watchdog};
use quipu_node::Limits;
use quipu_system_calls::Role;

/// Calls of the system that are not on the list of those of a session, and that are not missing.
pub(super) fn other_calls() -> Vec<String> {
    let role = Role::Session {
        chooses_cores: true,
        has_nameless_files: std::path::Path::new("/dev/nvidiactl").exists(),
    };
    /// `uretprobe` and `uprobe` of x86-64, which the kernel hides from filters.
    const PROBES: [i64; 2] = [335, 336];
    let others = (0..1024).filter(|number| !role.has_call(*number) && !PROBES.contains(number));
    let is_there = |number: &i64| {
        // SAFETY: the call is refused, or finds zeros.
        let result = unsafe { libc::syscall(*number, 0, 0, 0, 0, 0, 0) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        result != -1 || errno != Some(libc::ENOSYS)
    };
    others
        .filter(is_there)
        .map(|number| format!("made call {number}"))
        .collect()
}

/// A line of what the system says of a process.
fn status_of(process: &str, line: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|each| each.strip_prefix(line));
    line.map(|rest| rest.trim().to_owned())
}

/// True if a filter looks at its calls.
fn is_held(process: &str) -> bool {
    status_of(process, "Seccomp:").as_deref() == Some("2")
}

#[test]
fn a_session_and_its_keeper_are_held_to_their_calls_and_share_no_namespace_with_the_node() {
    if !has_sandbox() {
        eprintln!("left out: this kernel has no Landlock");
        return;
    }
    let _watchdog = watchdog();
    let rig = rig(Limits::default());
    let _client = good(&rig);
    let own = std::process::id().to_string();
    let is_given = !quipu_node::weaknesses()
        .iter()
        .any(|weakness| weakness.what.contains("namespaces"));
    // A session is the child of a keeper, which is this process's. There are those of other tests, which may end meanwhile.
    let (session, keeper) = loop {
        let held = descendants(std::process::id())
            .into_iter()
            .filter(|process| is_held(process));
        let of_keeper = held.filter_map(|process| Some((status_of(&process, "PPid:")?, process)));
        let mut found = of_keeper.filter(|(keeper, _)| *keeper != own);
        if let Some((keeper, session)) = found.next() {
            break (session, keeper);
        }
    };
    // The keeper gives them up when it has started the session, which is not to wait for that.
    while status_of(&keeper, "PPid:").is_some() && !is_held(&keeper) {
        std::thread::yield_now();
    }
    let namespace = |process: &str, kind| std::fs::read_link(format!("/proc/{process}/ns/{kind}"));
    for kind in ["user", "net", "ipc"] {
        let of_node = namespace("self", kind).unwrap();
        if let Ok(of_session) = namespace(&session, kind) {
            assert_eq!(of_session != of_node, is_given, "{kind}");
        }
    }
}

//! The sandbox of a session's processes, as the system reports it, and calls that it refuses.

use crate::{WITHOUT_LANDLOCK, descendants, good, has_sandbox, rig, watchdog};
use quipu_node::Limits;
use quipu_system_calls::Role;
use std::path::{Path, PathBuf};

/// Calls of the system that are not on the list of those of a session, and that are not missing.
pub(super) fn other_calls() -> Vec<String> {
    let role = Role::Session {
        chooses_cores: true,
        has_nameless_files: Path::new("/dev/nvidiactl").exists(),
    };
    /// `uretprobe` and `uprobe` of x86-64, which the kernel hides from filters.
    const PROBES: [i64; 2] = [335, 336];
    let others = (0..1024).filter(|number| !PROBES.contains(number));
    let others = others.filter_map(|number| Some((number, role.refusal(number)?)));
    let is_there = |(number, refusal): &(i64, i32)| {
        // SAFETY: the call is refused, or finds zeros.
        let result = unsafe { libc::syscall(*number, 0, 0, 0, 0, 0, 0) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        result != -1 || errno != Some(*refusal)
    };
    others
        .filter(is_there)
        .map(|(number, _)| format!("made call {number}"))
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

/// True if it has a test's filter before it comes to the sandbox.
fn is_held_before(process: &str) -> bool {
    let variables = std::fs::read_to_string(format!("/proc/{process}/environ"));
    variables.is_ok_and(|variables| variables.contains(WITHOUT_LANDLOCK))
}

/// A session is the child of a keeper, which is this process's. There are those of other tests,
/// which may end meanwhile.
fn session_and_keeper() -> (String, String) {
    let own = std::process::id().to_string();
    loop {
        let held = descendants(std::process::id())
            .into_iter()
            .filter(|process| is_held(process) && !is_held_before(process));
        let of_keeper =
            held.filter_map(|process| Some((process.clone(), status_of(&process, "PPid:")?)));
        let mut found = of_keeper.filter(|(_, keeper)| *keeper != own);
        if let Some(found) = found.next() {
            return found;
        }
    }
}

pub(super) fn are_namespaces_given() -> bool {
    let weaknesses = quipu_node::weaknesses();
    let mut weaknesses = weaknesses.iter();
    !weaknesses.any(|weakness| weakness.what.contains("gives this user no namespaces"))
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
    let is_given = are_namespaces_given();
    let (session, keeper) = session_and_keeper();
    // The keeper gives them up when it has started the session, which is not to wait for that.
    while status_of(&keeper, "PPid:").is_some() && !is_held(&keeper) {
        std::thread::yield_now();
    }
    let namespace = |process: &str, kind| std::fs::read_link(format!("/proc/{process}/ns/{kind}"));
    for kind in ["user", "net", "ipc", "mnt"] {
        let of_node = namespace("self", kind).unwrap();
        if let Ok(of_session) = namespace(&session, kind) {
            assert_eq!(of_session != of_node, is_given, "{kind}");
        }
    }
}

/// The folders of a process's control groups that were made for a session, of either version.
fn groups_of(process: &str) -> Option<Vec<PathBuf>> {
    let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let made = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let name = path.rsplit('/').next()?;
        // The node's own may be beside those of its sessions.
        let is_sessions = name.starts_with("quipu-") && !name.ends_with("-node");
        let path = is_sessions.then(|| path.trim_start_matches('/'))?;
        Some(Path::new("/sys/fs/cgroup").join(controllers).join(path))
    });
    Some(made.collect())
}

/// The limit of memory of a control group, in either version; none if it has none.
fn memory_of(group: &Path) -> Option<String> {
    let files = ["memory.max", "memory.limit_in_bytes"];
    let mut texts = files
        .iter()
        .map(|file| std::fs::read_to_string(group.join(file)));
    texts.find_map(Result::ok)
}

#[test]
fn a_session_is_in_a_control_group_that_is_gone_after_it() {
    let _watchdog = watchdog();
    let rig = rig(Limits {
        process_bytes: 1 << 30,
        ..Limits::default()
    });
    if let Some(why) = rig.node.why_no_control_groups() {
        eprintln!("left out: there are no control groups: {why}");
        return;
    }
    let client = rig.client();
    // Sessions of other tests have other limits.
    let limit = (9_u64 << 30) / 4;
    let is_limited =
        |group: &PathBuf| memory_of(group).is_some_and(|memory| memory.trim() == limit.to_string());
    let groups = loop {
        let (session, keeper) = session_and_keeper();
        let groups = groups_of(&session).unwrap_or_default();
        if !groups.is_empty() && groups.iter().all(|group| memory_of(group).is_none()) {
            eprintln!("left out: control groups do not limit memory here");
            return;
        }
        if groups.iter().any(is_limited) {
            assert_eq!(groups_of(&keeper), Some(Vec::new()));
            break groups;
        }
    };
    drop(client);
    while groups.iter().any(|group| group.exists()) {
        std::thread::yield_now();
    }
}

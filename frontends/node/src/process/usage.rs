//! What sessions' processes have, looked at from outside: resource limits hold for a process alone, and it may start others.
//!
//! 1. While there are sessions, a thread looks at all processes of each session's group once a second: how many processes and
//!    threads, their memory, the files that they have written, with those that they have unlinked and still have open.
//! 2. It looks at once if many have been started on the machine meanwhile, which takes one small file to see.
//! 3. A session that has more than its limits at two looks, or the one that has the most of a client whose sessions have more
//!    together than it may, is told so and ends; if it has not by the next look, its keeper ends it. One that has too many processes
//!    is killed at once. (At a single look a process that is about to become a compiler may have all that its parent has.)
//!
//! No session is stopped while it is counted. One pass over the machine's processes counts all sessions, and asks the system for
//! one number of each process, so it is short however many there are. A process that is there during the pass is counted, whoever its
//! parent is by then, because nobody leaves a session's group (`sandbox`).
//!
//! Where the system gives [control groups](super::groups), the kernel limits what a session takes between two looks, to a little more
//! than what a look finds too much. So a session is told why it ends, and a burst of its processes or memory meets nobody else.
//!
//! What a session says of itself counts only for memory that the system does not see, as that of GPUs.

use super::groups::Most;
use super::parent::{Hosted, Processes};
use super::sandbox::OWN_MEMORY;
use crate::limits::Limits;
use crate::locked;
use quipu_link::Fingerprint;
use quipu_protocol::message::GoodbyeReason;
use quipu_scheduler::panics::quietly;
use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOKING: Duration = Duration::from_secs(1);

/// Between two looks at whether many processes were started.
const GLANCING: Duration = Duration::from_millis(25);

/// Processes and threads that are worth a look if they have come since the last: more than a session begins with.
fn many() -> u64 {
    64 + 4 * cores() as u64
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processes of a session, at most.
const PROCESSES: usize = 256;

/// Threads of a session's processes, at most: those of drivers, some for each core, and those of compilers.
fn most_threads() -> usize {
    1024 + 16 * cores()
}

/// The processor's memory of a session's processes, beside its clients' buffers: its own, and its compilers'.
const MEMORY: u64 = 2 * OWN_MEMORY;

/// Bytes, and files and folders, that a session's processes may leave in its own folder.
const WRITTEN: (u64, usize) = (1 << 30, 1 << 14);

/// The processor's memory of a session's processes, with its clients' buffers.
fn most_memory(limits: &Limits) -> u64 {
    limits.process_bytes.saturating_add(MEMORY)
}

/// What a session's control group may have: more than what a look finds too much, with what the kernel keeps for it.
pub(super) fn most(limits: &Limits) -> Most {
    let memory = most_memory(limits);
    Most {
        tasks: most_threads() as u64,
        memory: memory.saturating_add(memory / 8),
    }
}

/// The processes of a group.
#[derive(Debug, Default)]
struct Members {
    processes: Vec<u32>,
    threads: usize,
}

impl Members {
    fn are_too_many(&self) -> bool {
        self.processes.len() > PROCESSES || self.threads > most_threads()
    }

    /// Bytes of memory, what is shared among them counted for each.
    fn bytes(&self) -> u64 {
        let each = self.processes.iter();
        each.map(|one| kept(*one, "status", MEMORY_FIELDS)).sum()
    }
}

/// The processes of these groups.
fn members(groups: impl Iterator<Item = libc::pid_t>) -> HashMap<libc::pid_t, Members> {
    let mut all: HashMap<_, _> = groups.map(|group| (group, Members::default())).collect();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // SAFETY: it takes a number, and gives -1, which is no group's, for a process that is gone.
        let group = unsafe { libc::getpgid(process.cast_signed()) };
        if let Some(members) = all.get_mut(&group) {
            members.processes.push(process);
            members.threads += threads(process);
        }
    }
    all
}

/// How many threads a process has; none if it has ended.
fn threads(process: u32) -> usize {
    // The folder has a folder for each, and each of those is a link to it; two are its own.
    let folder = std::fs::metadata(format!("/proc/{process}/task"));
    folder.map_or(0, |folder| folder.nlink().saturating_sub(2) as usize)
}

/// The first process that another has started: a session, if that is a keeper.
pub(super) fn first_child(process: u32) -> Option<libc::pid_t> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let lists = tasks.into_iter().flatten().flatten();
    let mut lists = lists.filter_map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children"));
        list.ok()?.split_whitespace().next()?.parse().ok()
    });
    lists.next()
}

/// What memory is, as the system says it of a process.
const MEMORY_FIELDS: &[&str] = &["RssAnon:", "RssShmem:", "VmSwap:"];

/// The sum of some of what the system says of a process's memory, in bytes; zero if it is gone.
fn kept(process: u32, file: &str, fields: &[&str]) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let of = |line: &str| {
        let rest = fields.iter().find_map(|field| line.strip_prefix(field))?;
        let kib: u64 = rest.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    text.lines().filter_map(of).sum()
}

/// Bytes of memory of processes, what is shared among them counted once.
fn bytes_together(processes: &[u32]) -> u64 {
    let of = |process: &u32| {
        let share = kept(
            *process,
            "smaps_rollup",
            &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"],
        );
        match share {
            // It does not let others look, or the system does not say.
            0 => kept(*process, "status", MEMORY_FIELDS),
            share => share,
        }
    };
    processes.iter().map(of).sum()
}

/// What a file takes: what it holds, or is kept free for it, whichever is more.
fn taken(file: &Metadata) -> u64 {
    file.len().max(file.blocks().saturating_mul(512))
}

/// Bytes of files that processes have open and nobody finds any more, on the file system of a folder; each counted once.
/// Nothing of processes that do not let others look.
fn unlinked(processes: &[u32], folder: &Metadata) -> u64 {
    let mut all = HashMap::new();
    for process in processes {
        let open = std::fs::read_dir(format!("/proc/{process}/fd"));
        for entry in open.into_iter().flatten().flatten() {
            // That of the file, and not of the link.
            if let Ok(file) = std::fs::metadata(entry.path())
                && file.is_file()
                && file.nlink() == 0
                && file.dev() == folder.dev()
            {
                all.insert(file.ino(), taken(&file));
            }
        }
    }
    all.into_values().fold(0, u64::saturating_add)
}

/// True if there is more in a folder than sessions may leave there, with what processes have open of what was there.
fn is_overfull(folder: &Path, processes: &[u32]) -> bool {
    let gone = std::fs::metadata(folder).map(|folder| unlinked(processes, &folder));
    let (mut bytes, mut count) = (gone.unwrap_or(0), 0);
    if bytes > WRITTEN.0 {
        return true;
    }
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // What is in there is not known: it hides itself, or is deeper than a path is long.
            Err(_) => return true,
        };
        for entry in entries.flatten() {
            count += 1;
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            bytes = bytes.saturating_add(taken(&metadata));
            if metadata.is_dir() {
                next.push(entry.path());
            }
            if bytes > WRITTEN.0 || count > WRITTEN.1 {
                return true;
            }
        }
    }
    false
}

/// Processes and threads on this machine.
fn tasks() -> u64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load
        .split(' ')
        .nth(3)
        .and_then(|both| both.split('/').nth(1));
    tasks.and_then(|tasks| tasks.parse().ok()).unwrap_or(0)
}

/// Looks after the sessions' processes for as long as there are any.
pub(super) fn watch(processes: &std::sync::Weak<Processes>) {
    let (mut before, mut last, mut suspects) = (tasks(), Instant::now(), false);
    loop {
        std::thread::sleep(GLANCING);
        let Some(processes) = processes.upgrade() else {
            return;
        };
        let now = tasks();
        if suspects || now > before + many() || last.elapsed() >= LOOKING {
            suspects = judge(processes.count());
            last = Instant::now();
            before = tasks();
        }
        before = before.min(now);
        if processes.are_over() {
            return;
        }
    }
}

/// What a session was seen to have: of the system's memory, and of buffers.
struct Seen {
    client: Fingerprint,
    bytes: [u64; 2],
    /// What it may have.
    most: [u64; 2],
}

/// Those of sessions that end because their clients have more together than they may: of each client with several the one that has the
/// most. What one may have by itself is looked at twice.
fn beyond_together(all: &[Seen]) -> Vec<usize> {
    let mut clients: HashMap<Fingerprint, Vec<usize>> = HashMap::new();
    for (number, seen) in all.iter().enumerate() {
        clients.entry(seen.client).or_default().push(number);
    }
    let mut ending = Vec::new();
    for own in clients.values().filter(|own| own.len() > 1) {
        for kind in [0, 1] {
            let bytes = own.iter().map(|number| all[*number].bytes[kind]);
            let bytes = bytes.fold(0, u64::saturating_add);
            let largest = own.iter().max_by_key(|number| all[**number].bytes[kind]);
            // Each may have this for itself.
            let beside = if kind == 0 { MEMORY } else { 0 };
            ending.extend(largest.filter(|number| {
                let beside = beside.saturating_mul(own.len() as u64);
                bytes > all[**number].most[kind].saturating_add(beside)
            }));
        }
    }
    ending
}

/// A session, the bytes of its processes, and these.
type Found = (Arc<Hosted>, u64, Vec<u32>);

/// Looks at what sessions have, which may take as long as they have files. True if that is to be done again soon.
fn judge(found: Vec<Found>) -> bool {
    let (mut all, mut seen, mut suspects) = (Vec::new(), Vec::new(), false);
    for (session, mut bytes, processes) in found {
        let limits = &session.limits;
        let most = most_memory(limits);
        if bytes > most {
            bytes = bytes_together(&processes);
        }
        let is_beyond = bytes > most || session.has_run_out();
        if session.is_suspect.swap(is_beyond, Ordering::AcqRel) && is_beyond {
            session.end_by_limit("its processes have more memory than a session may");
        }
        if is_overfull(&session.scratch, &processes) {
            session.end_by_limit("its processes have written more files than a session may");
        }
        suspects |= is_beyond;
        seen.push(Seen {
            client: session.client,
            bytes: [bytes, session.counts[0].load(Ordering::Acquire)],
            most: [limits.process_bytes, limits.session_bytes],
        });
        all.push(session);
    }
    for number in beyond_together(&seen) {
        all[number].end_by_limit(
            "its client's sessions have more memory together than a client may (`quipu serve --memory`, \
             `quipu rights --memory`), and this one has the most",
        );
    }
    suspects
}

impl Processes {
    /// Counts the processes of all sessions, and ends those that have too many. Gives the others.
    fn count(&self) -> Vec<Found> {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let groups = sessions.iter().filter_map(|session| session.group());
        let mut counted = members(groups);
        let mut found = Vec::new();
        for session in sessions {
            let members = session.group().and_then(|group| counted.remove(&group));
            let members = members.unwrap_or_default();
            if members.are_too_many() {
                let (processes, threads) = (members.processes.len(), members.threads);
                quietly(|| {
                    tracing::warn!(
                        processes,
                        threads,
                        "a session has started too many processes; it ends"
                    )
                });
                // All at once: its keeper may wait long for a processor.
                session.signal(libc::SIGKILL);
                session.kill();
                continue;
            }
            found.push((session, members.bytes(), members.processes));
        }
        found
    }
}

impl Hosted {
    /// Tells a session that it has more than it may, and has it end; if it was told before, ends it.
    fn end_by_limit(&self, text: &str) {
        quietly(|| tracing::warn!(text, "a session ends"));
        self.end(GoodbyeReason::Limit, text);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    #[test]
    fn all_processes_of_a_group_count_and_what_they_share_counts_once() {
        // Three: the shell, and a shell whose parent is gone, with what it has started.
        let (mut shell, _tell, _says) = shell("sh -c '(sleep 1000; true) &'; read line");
        let group = shell.id().cast_signed();
        let count = || members([group].into_iter()).remove(&group).unwrap();
        // They are read one after the other, and what has just been started grows yet.
        let agree = || {
            let members = count();
            std::thread::yield_now();
            let bytes = members.bytes();
            (members.processes.len(), members.threads) == (3, 3)
                && bytes > 0
                && (1..=bytes).contains(&bytes_together(&members.processes))
        };
        assert!((0..10_000).any(|_| agree()));
        // SAFETY: it takes numbers, of a group that this has started.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        shell.wait().unwrap();
        while !count().processes.is_empty() {
            std::thread::yield_now();
        }
        assert!(tasks() > 0);
    }

    /// A shell with this script, in a group of its own, that has said that it is there.
    fn shell(script: &str) -> (Child, ChildStdin, BufReader<ChildStdout>) {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("echo there; {script}")])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, says) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let mut says = BufReader::new(says);
        assert_eq!(line(&mut says), "there\n");
        (shell, tell, says)
    }

    fn line(from: &mut impl BufRead) -> String {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn nobody_but_who_starts_processes_without_end_is_touched() {
        // A process that was stopped is told when it goes on.
        let stopped = "trap 'echo stopped' CONT; echo ready; read line; echo $line";
        let (other, mut tell_other, mut other_says) = shell(stopped);
        assert_eq!(line(&mut other_says), "ready\n");
        let count = PROCESSES + 100;
        let forks = format!("read line; for one in $(seq {count}); do sleep 1000 & done; wait");
        let (bad, mut tell_bad, mut bad_says) = shell(&forks);
        let processes = Arc::new(super::super::parent::tests::processes_of([other, bad]));
        let looked_at = Arc::downgrade(&processes);
        let looking = std::thread::spawn(move || watch(&looked_at));
        writeln!(tell_bad, "go on").unwrap();
        // The end: all that could say something are gone.
        assert_eq!(line(&mut bad_says), "");
        writeln!(tell_other, "done").unwrap();
        assert_eq!(line(&mut other_says), "done\n");
        for (_, session) in locked(&processes.sessions).drain() {
            session.reap().unwrap();
        }
        looking.join().unwrap();
    }

    #[test]
    fn of_a_client_that_has_too_much_the_largest_session_ends_and_nobody_elses() {
        let seen = |client: u8, processes: u64, buffers: u64| Seen {
            client: Fingerprint::of_bytes([client; 32]),
            bytes: [processes, buffers],
            most: [100, 50],
        };
        let all = [
            seen(1, MEMORY + 99, 50),
            seen(2, MEMORY + 10, 0),
            seen(2, MEMORY + 91, 50),
            seen(3, 0, 20),
            seen(3, 0, 30),
        ];
        assert_eq!(beyond_together(&all), [2]);
        let all = [seen(1, 0, 50), seen(2, 0, 21), seen(2, 0, 30)];
        assert_eq!(beyond_together(&all), [2]);
        assert!(beyond_together(&[]).is_empty());
    }

    #[test]
    fn a_folder_of_too_many_files_or_bytes_is_overfull() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::create_dir(&path).unwrap();
        assert!(!is_overfull(folder.path(), &[]));
        // One with holes: it takes no room.
        let file = std::fs::File::create(path.join("large")).unwrap();
        file.set_len(WRITTEN.0 + 1).unwrap();
        assert!(is_overfull(folder.path(), &[]));
        // Nor does it leave by being unlinked while it is open.
        std::fs::remove_file(path.join("large")).unwrap();
        assert!(!is_overfull(folder.path(), &[]));
        let own = [std::process::id(); 2];
        assert!(is_overfull(folder.path(), &own));
        file.set_len(1).unwrap();
        assert!(!is_overfull(folder.path(), &own));
        // What is kept free for a file is taken, though it holds nothing.
        let kept = std::fs::File::create(path.join("kept")).unwrap();
        // SAFETY: it takes numbers, of a file that is open.
        let is_kept = unsafe {
            libc::fallocate(kept.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0
        };
        let kept = kept.metadata().unwrap();
        assert_eq!(kept.len(), 0);
        // Not every file system keeps room.
        assert!(!is_kept || taken(&kept) >= 1 << 20);
        for number in 0..WRITTEN.1 {
            std::fs::File::create(path.join(number.to_string())).unwrap();
        }
        assert!(is_overfull(folder.path(), &[]));
    }
}

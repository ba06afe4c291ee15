//! The resources that sessions' processes use, looked at from outside. The system's limits hold for
//! a process alone, and it may start others.
//!
//! 1. While there are sessions, a thread looks at all processes of each session's group once a
//!    second: how many processes and threads, their memory, and whether the system still ends them
//!    before others where memory runs out.
//! 2. It looks at once if many have been started on the machine meanwhile, which takes one small
//!    file to see.
//! 3. Between these looks it looks at the files of one session after the other: those that are in
//!    its folder, and those that its processes have unlinked and still have open or mapped. That
//!    takes time, which a session can make long. So the next session is one of the client that has
//!    waited longest.
//! 4. A session that has more than its limits at two looks, or the one that has the most of a
//!    client whose sessions have more together than it may, is told so and ends; if it has not by
//!    the next look, its keeper ends it. One that has too many processes is killed at once. (At a
//!    single look a process that is about to become a compiler may have all that its parent has.)
//!
//! No session is stopped while it is counted. One pass over the machine's processes counts all
//! sessions, and asks the system for one number of each process, so it is short however many there
//! are. A process that is there during the pass is counted, whoever its parent is by then, because
//! nobody leaves a session's group (`sandbox`).
//!
//! Where the system gives [control groups](super::groups), the kernel limits what a session takes
//! between two looks, to a little more than what a look finds too much. So a session is told why it
//! ends, and a burst of its processes or memory meets nobody else.
//!
//! A process that lets nobody look, or one more that ends after others than at the session's begin,
//! ends the session, too.
//!
//! A session's own report counts only for memory that the system does not see, as that of GPUs.

use super::groups::Most;
use super::parent::{Hosted, Processes};
use super::sandbox::{FILE, OWN_MEMORY};
use crate::limits::Limits;
use crate::locked;
use quipu_link::Fingerprint;
use quipu_protocol::message::GoodbyeReason;
use quipu_scheduler::panics::quietly;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOKING: Duration = Duration::from_secs(1);

/// Between two looks at whether many processes were started.
const GLANCING: Duration = Duration::from_millis(25);

/// Processes and threads that are worth a look if they have come since the last: more than a
/// session begins with.
fn many() -> u64 {
    64 + 4 * cores() as u64
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processes of a session, at most.
const PROCESSES: usize = 256;

/// Threads of a session's processes, at most: those of drivers, some for each core, and those of
/// compilers.
fn most_threads() -> usize {
    1024 + 16 * cores()
}

/// The processor's memory of a session's processes, beside its clients' buffers: its own, and its
/// compilers'.
const MEMORY: u64 = 2 * OWN_MEMORY;

/// Mappings of a session's processes, at most: each look goes through them.
const MAPPINGS: usize = 1 << 18;

/// Open files of a session's processes, at most, for the same reason.
const OPEN: usize = 1 << 14;

/// Bytes, and files and folders, that a session's processes may leave in its own folder.
const WRITTEN: (u64, usize) = (1 << 30, 1 << 14);

/// The processor's memory of a session's processes, with its clients' buffers.
fn most_memory(limits: &Limits) -> u64 {
    limits.process_bytes.saturating_add(MEMORY)
}

/// The limits of a session's control group: more than a look finds too much, with the memory that
/// the kernel keeps for it.
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
        each.map(|one| bytes_of(*one)).sum()
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

/// The number of threads of a process; none if it has ended.
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

/// The folder in which the system tells of what a process has, and its status there; none if it has
/// nothing any more. A process whose first thread has ended goes on with the others, and then only
/// these tell.
fn face(process: u32) -> Option<(PathBuf, String)> {
    let own = PathBuf::from(format!("/proc/{process}"));
    let tells = |folder: PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        // Of a thread that has ended it says nothing of memory.
        status.contains("\nVmSize:").then_some((folder, status))
    };
    tells(own.clone()).or_else(|| {
        let threads = std::fs::read_dir(own.join("task"));
        let mut threads = threads.into_iter().flatten().flatten();
        threads.find_map(|thread| tells(thread.path()))
    })
}

/// The kinds of memory of a process, as the system names them: its own, that it shares, that is
/// swapped out, of the machine's pool of large pages, and tables of where all that is.
const MEMORY_FIELDS: &[&str] = &[
    "RssAnon:",
    "RssShmem:",
    "VmSwap:",
    "HugetlbPages:",
    "VmPTE:",
];

/// The sum of some of what a text of the system says of a process's memory, in bytes.
fn sum(text: &str, fields: &[&str]) -> u64 {
    let of = |line: &str| {
        let rest = fields.iter().find_map(|field| line.strip_prefix(field))?;
        let kib: u64 = rest.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    text.lines().filter_map(of).sum()
}

/// The system's text on a process's memory; nothing if the process is gone.
fn status(process: u32) -> String {
    face(process).map_or_else(String::new, |(_, status)| status)
}

/// Bytes of memory of a process, what it shares with others included.
fn bytes_of(process: u32) -> u64 {
    sum(&status(process), MEMORY_FIELDS)
}

/// Bytes of memory of processes, what is shared among them counted once.
fn bytes_together(processes: &[u32]) -> u64 {
    let of = |process: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
        let text = text.unwrap_or_default();
        match sum(&text, &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]) {
            // It does not let others look, or the system does not say.
            0 => bytes_of(*process),
            share => share.saturating_add(sum(&status(*process), &["HugetlbPages:", "VmPTE:"])),
        }
    };
    processes.iter().map(of).sum()
}

/// The room of a file: its content, or the room kept free for it, whichever is more.
fn taken(file: &Metadata) -> u64 {
    file.len().max(file.blocks().saturating_mul(512))
}

/// The room of files of a folder that nobody finds there any more, by their numbers: those that
/// processes have open, and those that they have mapped, of which the system does not say how large
/// they are.
///
/// # Errors
/// If there is more of these than anybody needs, or a process does not let others look.
fn unlinked(processes: &[u32], folder: &Path) -> Result<HashMap<u64, u64>, &'static str> {
    let (mut all, mut open, mut mappings) = (HashMap::new(), 0, 0);
    // As the system writes it.
    let Ok(folder) = folder.canonicalize() else {
        return Ok(all);
    };
    for process in processes {
        let Some((face, _)) = face(*process) else {
            continue;
        };
        let seen = unlinked_open(&face, &folder, &mut all)
            .and_then(|open| Ok((open, unlinked_mapped(&face, &folder, &mut all)?)));
        match seen {
            Ok((more_open, more_mappings)) => {
                open += more_open;
                mappings += more_mappings;
            }
            // Or it has just ended.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if self::face(*process).is_some() {
                    return Err("one of its processes hides its open files");
                }
            }
            Err(_) => {}
        }
        if open > OPEN {
            return Err("its processes have more open files together than a session may");
        }
        if mappings > MAPPINGS {
            return Err("its processes have more mappings than a session may");
        }
    }
    Ok(all)
}

/// Adds those files without a name, on a folder's file system, that a process has open. Gives the
/// number of all that it has open.
fn unlinked_open(face: &Path, folder: &Path, all: &mut HashMap<u64, u64>) -> io::Result<usize> {
    let device = std::fs::metadata(folder)?.dev();
    let mut count = 0;
    for entry in std::fs::read_dir(face.join("fd"))?.flatten() {
        count += 1;
        // That of the file, and not of the link.
        match std::fs::metadata(entry.path()) {
            Ok(file) if file.is_file() && file.nlink() == 0 && file.dev() == device => {
                all.insert(file.ino(), taken(&file));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // Or it was closed meanwhile.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(count)
}

/// Adds those files of a folder without a name that a process has mapped, as large as a file may be
/// if it has not open them. Gives the number of its mappings.
fn unlinked_mapped(face: &Path, folder: &Path, all: &mut HashMap<u64, u64>) -> io::Result<usize> {
    let mut maps = io::BufReader::new(std::fs::File::open(face.join("maps"))?);
    let (mut line, mut count) = (Vec::new(), 0);
    loop {
        line.clear();
        if maps.read_until(b'\n', &mut line)? == 0 || count > MAPPINGS {
            return Ok(count);
        }
        count += 1;
        // Where, what it may do, from which byte on, of which device, of which file; and its path,
        // or the last that it had.
        let mut fields = line.trim_ascii_end().splitn(6, |byte| *byte == b' ');
        let file = fields.nth(4).and_then(|file| str::from_utf8(file).ok());
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        let path = path.strip_suffix(b" (deleted)").map(OsStr::from_bytes);
        if let (Some(Ok(file)), Some(path)) = (file.map(str::parse), path)
            && Path::new(path).starts_with(folder)
        {
            all.entry(file).or_insert(FILE);
        }
    }
}

/// True if there is more in a folder than sessions may leave there, with what is left of files that
/// were there.
fn is_overfull(folder: &Path, unlinked: &HashMap<u64, u64>) -> bool {
    let bytes = unlinked.values().copied();
    let (mut bytes, mut count) = (bytes.fold(0, u64::saturating_add), unlinked.len());
    if bytes > WRITTEN.0 || count > WRITTEN.1 {
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

/// The node's look at a session before that has a client, whose code may change it.
#[derive(Debug)]
pub(super) struct Begun {
    /// Its rank among the processes that the system ends where memory runs out.
    score: Option<i32>,
    /// It lets others look.
    is_open: bool,
}

impl Begun {
    pub(super) fn of(process: u32, folder: &Path) -> Self {
        let is_open = unlinked(&[process], folder).is_ok();
        if !is_open {
            quietly(|| {
                tracing::warn!(
                    "the system does not let the node see a session's open files: those that it has unlinked do not count"
                );
            });
        }
        Self {
            score: score(process),
            is_open,
        }
    }

    /// True if one of these processes has had the system end others before it.
    fn has_stepped_back(&self, processes: &[u32]) -> bool {
        let mut scores = processes.iter().filter_map(|process| score(*process));
        self.score
            .is_some_and(|begun| scores.any(|score| score < begun))
    }
}

/// The rank of a process among those that the system ends where memory runs out, as it has been
/// set; none if the process is gone.
fn score(process: u32) -> Option<i32> {
    let score = std::fs::read_to_string(format!("/proc/{process}/oom_score_adj"));
    score.ok()?.trim().parse().ok()
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
    let mut has_looked = false;
    loop {
        if !has_looked {
            std::thread::sleep(GLANCING);
        }
        let Some(processes) = processes.upgrade() else {
            return;
        };
        let (now, since) = (tasks(), last.elapsed());
        if suspects && since >= GLANCING || now > before + many() || since >= LOOKING {
            suspects = judge(processes.count());
            last = Instant::now();
            before = tasks();
        }
        before = before.min(now);
        has_looked = processes.look_at_files();
        if processes.are_over() {
            return;
        }
    }
}

/// The session whose files are looked at next, of these clients and last looks: one that was not
/// looked at for a while, of the client of whose sessions none was for longest.
fn next(all: &[(Fingerprint, Option<Instant>)], now: Instant) -> Option<usize> {
    let mut latest: HashMap<Fingerprint, Option<Instant>> = HashMap::new();
    for (client, looked) in all {
        let latest = latest.entry(*client).or_default();
        *latest = (*latest).max(*looked);
    }
    let is_due = |looked: Option<Instant>| {
        looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOKING)
    };
    let due = (0..all.len()).filter(|one| is_due(all[*one].1));
    due.min_by_key(|one| (latest[&all[*one].0], all[*one].1))
}

/// What a session was seen to have: the system's memory, buffers, and threads.
struct Seen {
    client: Fingerprint,
    has: [u64; 3],
    /// The most that all sessions of the client may have together, but for what each may have
    /// beside.
    most: [u64; 3],
}

/// The reasons for which a session ends whose client has too much.
const MEMORY_TOGETHER: &str = "its client's sessions have more memory together than a client may (`quipu serve --memory`, \
     `quipu rights --memory`), and this one has the most";
const THREADS_TOGETHER: &str =
    "its client's sessions have more threads together than a client may, and this one has the most";

/// Those of sessions that end because their clients have more together than they may, and the
/// reasons: of each client with several the one that has the most. The limit of a single session is
/// looked at twice.
fn beyond_together(all: &[Seen]) -> HashMap<usize, &'static str> {
    let mut clients: HashMap<Fingerprint, Vec<usize>> = HashMap::new();
    for (number, seen) in all.iter().enumerate() {
        clients.entry(seen.client).or_default().push(number);
    }
    let kinds = [
        (MEMORY, MEMORY_TOGETHER),
        (0, MEMORY_TOGETHER),
        (many(), THREADS_TOGETHER),
    ];
    let mut ending = HashMap::new();
    for own in clients.values().filter(|own| own.len() > 1) {
        for (kind, (beside, because)) in kinds.into_iter().enumerate() {
            let have = own.iter().map(|number| all[*number].has[kind]);
            let have = have.fold(0, u64::saturating_add);
            let largest = own.iter().max_by_key(|number| all[**number].has[kind]);
            // Each may have this for itself.
            let beside = beside.saturating_mul(own.len() as u64);
            let largest = largest.filter(|number| {
                let most = all[**number].most[kind];
                have > most.saturating_add(beside)
            });
            if let Some(largest) = largest {
                ending.entry(*largest).or_insert(because);
            }
        }
    }
    ending
}

/// A session, the bytes of its processes, and these.
type Found = (Arc<Hosted>, u64, Members);

/// Looks at what sessions have, but for their files. True if that is to be done again soon.
fn judge(found: Vec<Found>) -> bool {
    let (mut all, mut seen, mut suspects) = (Vec::new(), Vec::new(), false);
    for (session, mut bytes, members) in found {
        let (processes, threads) = (members.processes, members.threads as u64);
        let limits = &session.limits;
        let begun = session.begun.get();
        if begun.is_some_and(|begun| begun.has_stepped_back(&processes)) {
            session.end_at_once(
                "one of its processes has had the system end others before it where memory runs out",
            );
            continue;
        }
        let most = most_memory(limits);
        if bytes > most {
            bytes = bytes_together(&processes);
        }
        let is_beyond = bytes > most || session.has_run_out();
        if session.is_suspect.swap(is_beyond, Ordering::AcqRel) && is_beyond {
            session.end_by_limit("its processes have more memory than a session may");
        }
        suspects |= is_beyond;
        seen.push(Seen {
            client: session.client,
            has: [bytes, locked(&session.totals).buffer_bytes, threads],
            most: [
                limits.process_bytes,
                limits.session_bytes,
                most_threads() as u64,
            ],
        });
        all.push(session);
    }
    for (number, because) in beyond_together(&seen) {
        all[number].end_by_limit(because);
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
                quietly(|| tracing::warn!(processes, threads, "a session has too many processes"));
                session.end_at_once("it has started more processes than a session may");
                continue;
            }
            found.push((session, members.bytes(), members));
        }
        found
    }
}

impl Processes {
    /// Looks at the files of the session whose turn it is. False if it is nobody's.
    fn look_at_files(&self) -> bool {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let last = sessions
            .iter()
            .map(|one| (one.client, *locked(&one.looked)));
        let Some(number) = next(&last.collect::<Vec<_>>(), Instant::now()) else {
            return false;
        };
        sessions[number].look_at_files();
        *locked(&sessions[number].looked) = Some(Instant::now());
        true
    }
}

impl Hosted {
    /// Ends the session if there are more of its files than it may have.
    fn look_at_files(&self) {
        // Those that it has now: numbers of processes that have ended are others'.
        let members = members(self.group().into_iter()).into_values().next();
        let processes = members.map_or_else(Vec::new, |members| members.processes);
        let is_open = self.begun.get().is_some_and(|begun| begun.is_open);
        match unlinked(&processes, &self.scratch) {
            Ok(unlinked) if is_overfull(&self.scratch, &unlinked) => {
                self.end_by_limit("its processes have written more files than a session may");
            }
            Err(text) if is_open => self.end_by_limit(text),
            Ok(_) | Err(_) => {}
        }
    }

    /// Ends a session and all that it has started, which nobody in it hears of before.
    pub(super) fn end_at_once(&self, text: &str) {
        quietly(|| tracing::warn!(text, "a session is ended"));
        self.note_end(text);
        // Its keeper may wait long for a processor.
        self.signal(libc::SIGKILL);
        self.kill();
    }

    /// Tells a session that it has more than it may, and has it end; if it was told before, ends
    /// it.
    fn end_by_limit(&self, text: &str) {
        quietly(|| tracing::warn!(text, "a session ends"));
        self.end(GoodbyeReason::Limit, text);
    }
}

#[cfg(test)]
mod tests;

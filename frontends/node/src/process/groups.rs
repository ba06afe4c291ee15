//! Control groups of sessions, if the system lets the node make some. The kernel limits the
//! resources of all processes of a session together, as they take them. Without control groups, and
//! up to these limits, [looks from outside](super::usage) do it.
//!
//! | resource | in version 2 | in version 1 |
//! |---|---|---|
//! | processes and threads | `pids.max` | `pids.max` |
//! | memory, with that of files and of the kernel | `memory.max` | `memory.limit_in_bytes` |
//!
//! 1. The groups are within the node's own. In version 2 a group has either processes or groups
//!    that are limited. So if the node is alone in its group, as a service that systemd delegates
//!    one to, it goes into a group within that.
//! 2. A session comes into its group before its client hears of it. Processes that it starts from
//!    then on are in that group, too. Its keeper is not. Nothing of a session can leave, because
//!    its sandbox lets nothing of it write there.
//! 3. A group goes with its session, and that of the node itself when the node stops. Groups of a
//!    node that was killed go with the next start of a node.

use quipu_scheduler::panics::quietly;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The beginning of the names of groups. The node's process follows, and a number.
const PREFIX: &str = "quipu-";

/// The files of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Tasks,
    Memory,
}

/// A group within which others are made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    /// True if it is of version 2, and not of version 1.
    is_second: bool,
    limits: Vec<Limit>,
    /// This process has gone into a group within it, so that others can be limited.
    has_moved: bool,
}

/// The places where a node makes groups of its sessions: one, or one for each limit.
#[derive(Clone, Debug)]
pub(super) struct Groups(Vec<Parent>);

/// Both limits of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) tasks: u64,
    /// In bytes.
    pub(super) memory: u64,
}

impl Limit {
    /// As the kernel calls what sees to it.
    fn controller(self) -> &'static str {
        match self {
            Self::Tasks => "pids",
            Self::Memory => "memory",
        }
    }

    fn file(self, is_second: bool) -> &'static str {
        match (self, is_second) {
            (Self::Tasks, _) => "pids.max",
            (Self::Memory, true) => "memory.max",
            (Self::Memory, false) => "memory.limit_in_bytes",
        }
    }

    fn of(self, most: Most) -> u64 {
        match self {
            Self::Tasks => most.tasks,
            Self::Memory => most.memory,
        }
    }
}

/// The groups of a process, as the system says what it is in, and where such groups are mounted.
fn parents(groups: &str, mounts: &str) -> Vec<Parent> {
    let (mut all, mut seen) = (Vec::new(), Vec::new());
    for line in mounts.lines() {
        let Some((place, system)) = line.split_once(" - ") else {
            continue;
        };
        let place: Vec<&str> = place.split(' ').collect();
        let system: Vec<&str> = system.split(' ').collect();
        let ([_, _, device, root, point, ..], [kind, _, options, ..]) = (&place[..], &system[..])
        else {
            continue;
        };
        // The same groups, mounted in another place.
        if seen.contains(device) {
            continue;
        }
        let is_second = *kind == "cgroup2";
        let has = |list: &str, limit: &Limit| list.split(',').any(|one| one == limit.controller());
        let mut limits = vec![Limit::Tasks, Limit::Memory];
        match *kind {
            "cgroup2" => {}
            "cgroup" => limits.retain(|limit| has(options, limit)),
            _ => continue,
        }
        let own = groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match is_second {
                true => number == "0",
                false => limits.iter().any(|limit| has(controllers, limit)),
            };
            is_it.then_some(path)
        });
        // Of a container, another part may be mounted than the one that it is in.
        let within = own.and_then(|own| Path::new(own).strip_prefix(root).ok());
        let Some(within) = within else {
            continue;
        };
        seen.push(*device);
        all.push(Parent {
            folder: Path::new(point).join(within),
            is_second,
            limits,
            has_moved: false,
        });
    }
    all
}

impl Parent {
    /// Prepares the group, and keeps those of its limits that groups within it can have.
    fn prepare(mut self) -> io::Result<Self> {
        if self.is_second {
            let given = fs::read_to_string(self.folder.join("cgroup.controllers"))?;
            let is_given = |limit: &Limit| {
                given
                    .split_whitespace()
                    .any(|one| one == limit.controller())
            };
            self.limits.retain(is_given);
            if !self.limits.is_empty() {
                self.has_moved = hand_on(&self.folder, &self.limits)?;
            }
        }
        if self.limits.is_empty() {
            let text = "it limits neither processes nor memory of groups within it";
            return Err(io::Error::new(ErrorKind::Unsupported, text));
        }
        self.collect();
        Ok(self)
    }

    /// Has this process go back from the group within it, if there are no others.
    fn go_back(&self) {
        let own = own_group(&self.folder);
        let groups = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut groups = groups
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        if !self.has_moved || groups.any(|group| group != own) {
            return;
        }
        let told = tell_limits(&self.folder, &self.limits, '-');
        let moved = told.and_then(|()| write(&self.folder.join(PROCESSES), OWN));
        if let Err(error) = moved.and_then(|()| fs::remove_dir(own)) {
            quietly(|| tracing::debug!(%error, "the node's control group is left"));
        }
    }

    /// Removes what nodes have left that were killed.
    fn collect(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let node = of.and_then(|of| of.split('-').next()?.parse::<u32>().ok());
            if node.is_some_and(|node| !Path::new("/proc").join(node.to_string()).exists()) {
                // If there is somebody in it yet, that is for the next.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// The file of a group's processes.
const PROCESSES: &str = "cgroup.procs";
/// The process that writes it there.
const OWN: &str = "0";

/// The group that this process goes into within another.
fn own_group(folder: &Path) -> PathBuf {
    folder.join(format!("{PREFIX}{}-node", std::process::id()))
}

/// Gives these limits to groups within one of version 2 (`+`), or takes them back (`-`).
fn tell_limits(folder: &Path, limits: &[Limit], sign: char) -> io::Result<()> {
    let words = limits
        .iter()
        .map(|limit| format!("{sign}{}", limit.controller()));
    let words: Vec<String> = words.collect();
    write(&folder.join("cgroup.subtree_control"), &words.join(" "))
}

/// Has groups within one of version 2 have these limits. True if this process has gone into a group
/// within it for that.
fn hand_on(folder: &Path, limits: &[Limit]) -> io::Result<bool> {
    match tell_limits(folder, limits, '+') {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
        other => return other.map(|()| false),
    }
    // There are processes in it. If there is none but this, it goes where it is in no way.
    let own = own_group(folder);
    match fs::create_dir(&own) {
        // Of an earlier process of this number.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let moved = write(&own.join(PROCESSES), OWN);
    let told = moved.and_then(|()| tell_limits(folder, limits, '+'));
    told.map(|()| true).inspect_err(|_| {
        let _ = write(&folder.join(PROCESSES), OWN);
        let _ = fs::remove_dir(&own);
    })
}

/// Says something to a file that is there.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(file)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// The number of the next group of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Makes a group within another. One of its name is of a node that was killed and had the number of
/// this process, as nodes in containers have: it goes, or if somebody is in it yet, the next number
/// is taken.
fn new_folder(parent: &Path) -> io::Result<PathBuf> {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let made = match fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::remove_dir(&folder).is_err() {
                    continue;
                }
                fs::create_dir(&folder)
            }
            made => made,
        };
        return made.map(|()| folder);
    }
}

impl Groups {
    /// Those that this process may make.
    ///
    /// # Errors
    /// If it may make none: the reason, for the operator.
    pub(super) fn of_this_process() -> Result<Self, String> {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self::of(parents(
            &read("/proc/self/cgroup"),
            &read("/proc/self/mountinfo"),
        ))
    }

    /// Those within these, as far as the system gives them.
    fn of(all: Vec<Parent>) -> Result<Self, String> {
        let (mut prepared, mut failed) = (Vec::new(), Vec::new());
        for parent in all {
            let folder = parent.folder.display().to_string();
            match parent.prepare() {
                Ok(parent) => prepared.push(parent),
                Err(error) => failed.push(format!("{folder}: {error}")),
            }
        }
        if prepared.is_empty() {
            return Err(match failed.is_empty() {
                true => "the system shows this process no control groups".to_owned(),
                false => failed.join("; "),
            });
        }
        let groups = Self(prepared);
        // Whether groups can be made is seen by making one.
        let most = Most {
            tasks: 1,
            memory: 1 << 20,
        };
        match groups.make(most) {
            Ok(_) => Ok(groups),
            Err(error) => {
                let folders = groups.0.iter().map(|parent| parent.folder.display());
                let folders: Vec<String> = folders.map(|folder| folder.to_string()).collect();
                Err(format!("{}: {error}", folders.join(", ")))
            }
        }
    }

    /// This process makes no more.
    pub(super) fn go_back(&self) {
        self.0.iter().for_each(Parent::go_back);
    }

    /// Makes one, for nobody yet.
    ///
    /// # Errors
    /// If the system does not let this process make it.
    pub(super) fn make(&self, most: Most) -> io::Result<Group> {
        let mut group = Group(Vec::new());
        for parent in &self.0 {
            let folder = new_folder(&parent.folder)?;
            group.0.push(folder.clone());
            for limit in &parent.limits {
                let file = folder.join(limit.file(parent.is_second));
                write(&file, &limit.of(most).to_string())?;
            }
        }
        Ok(group)
    }
}

/// A session's. It is gone when it is dropped, if nobody is in it any more.
#[derive(Debug)]
pub(super) struct Group(Vec<PathBuf>);

impl Group {
    /// Has a process in it, and what that starts from then on: in all of it, or in none.
    ///
    /// # Errors
    /// If it is gone, or the system does not let this process do it.
    pub(super) fn take(&self, process: libc::pid_t) -> io::Result<()> {
        let process = process.to_string();
        for (taken, folder) in self.0.iter().enumerate() {
            write(&folder.join(PROCESSES), &process).inspect_err(|_| {
                let before = self.0[..taken].iter().filter_map(|folder| folder.parent());
                for folder in before {
                    let _ = write(&folder.join(PROCESSES), &process);
                }
            })?;
        }
        Ok(())
    }

    /// Removes it, if nobody is in it any more.
    pub(super) fn remove(&self) {
        for folder in &self.0 {
            match fs::remove_dir(folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    quietly(|| tracing::debug!(%error, "a session's control group is left"))
                }
                _ => {}
            }
        }
    }

    /// True if the kernel has ended a process for it, because all had more memory than they may.
    pub(super) fn has_run_out(&self) -> bool {
        let files = ["memory.events", "memory.oom_control"];
        let files = files.map(|file| self.0.iter().map(move |folder| folder.join(file)));
        files.into_iter().flatten().any(|file| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let mut counts = text
                .lines()
                .filter_map(|line| line.strip_prefix("oom_kill "));
            counts.any(|count| count.trim() != "0")
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_process_finds_its_groups_where_they_are_mounted() {
        let second = "28 22 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
                      29 22 0:26 / /proc rw - proc proc rw";
        let both = vec![Limit::Tasks, Limit::Memory];
        let expected = Parent {
            folder: "/sys/fs/cgroup/system.slice/quipu-node.service".into(),
            is_second: true,
            limits: both.clone(),
            has_moved: false,
        };
        assert_eq!(
            parents("0::/system.slice/quipu-node.service\n", second),
            [expected]
        );
        let first = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                     32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                     39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";
        let found = parents("8:pids:/a/b\n4:memory:/box/c\n1:cpu:/\n0::/\n", first);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.folder.to_str().unwrap(), &one.limits[..]))
            .collect();
        let expected = [
            ("/sys/fs/cgroup/memory/c", &[Limit::Memory][..]),
            ("/sys/fs/cgroup/pids/a/b", &[Limit::Tasks][..]),
        ];
        assert_eq!(found, expected);
        // It is mounted twice.
        let twice = format!("{first}\n40 31 0:36 / /mnt/pids rw - cgroup cgroup rw,pids");
        assert_eq!(parents("8:pids:/a/b\n", &twice).len(), 1);
        // Another part of the tree is mounted than the one that the process is in.
        assert_eq!(parents("4:memory:/other\n", first), []);
        assert_eq!(parents("", ""), []);
    }

    /// A group of version 2, as far as files can play one.
    fn played(controllers: &str, handed_on: &str) -> (tempfile::TempDir, Parent) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(folder.path().join("cgroup.subtree_control"), handed_on).unwrap();
        let parent = Parent {
            folder: folder.path().to_owned(),
            is_second: true,
            limits: vec![Limit::Tasks, Limit::Memory],
            has_moved: false,
        };
        (folder, parent)
    }

    #[test]
    fn what_a_group_is_given_it_hands_on_and_what_a_killed_node_left_goes() {
        let (_folder, parent) = played("hugetlb", "");
        assert_eq!(parent.prepare().unwrap_err().kind(), ErrorKind::Unsupported);
        let (folder, parent) = played("cpu memory pids", "");
        // Nobody has this number: it is beyond the most that the system gives.
        let left = folder.path().join("quipu-4194305-3");
        let kept = folder
            .path()
            .join(format!("quipu-{}-3", std::process::id()));
        fs::create_dir(&left).unwrap();
        fs::create_dir(&kept).unwrap();
        assert_eq!(
            parent.prepare().unwrap().limits,
            [Limit::Tasks, Limit::Memory]
        );
        let handed_on = fs::read_to_string(folder.path().join("cgroup.subtree_control"));
        assert_eq!(handed_on.unwrap(), "+pids +memory");
        assert!(!left.exists() && kept.exists());
    }

    #[test]
    fn who_gets_no_groups_is_told_why() {
        let none = Groups::of(Vec::new()).unwrap_err();
        assert!(none.contains("no control groups"), "{none}");
        let (folder, parent) = played("hugetlb", "");
        let none = Groups::of(vec![parent]).unwrap_err();
        let place = folder.path().display().to_string();
        assert!(none.contains(&place) && none.contains("limits"), "{none}");
    }

    #[test]
    fn groups_of_a_killed_node_of_the_same_number_are_in_nobodys_way() {
        let (folder, parent) = played("", "");
        let groups = Groups(vec![Parent {
            limits: Vec::new(),
            ..parent
        }]);
        let next = NEXT.load(Ordering::Relaxed);
        let left = (next..next + 100).map(|number| {
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            folder.path().join(name)
        });
        let left: Vec<PathBuf> = left.collect();
        for (number, group) in left.iter().enumerate() {
            // Somebody is in every other one yet.
            let inner = if number % 2 == 0 { "somebody" } else { "" };
            fs::create_dir_all(group.join(inner)).unwrap();
        }
        let most = Most {
            tasks: 1,
            memory: 1,
        };
        let made = groups.make(most).unwrap();
        assert!(left.contains(&made.0[0]));
        assert_eq!(fs::read_dir(&made.0[0]).unwrap().count(), 0);
        drop(made);
        assert_eq!(fs::read_dir(&left[0]).unwrap().count(), 1);
    }

    #[test]
    fn a_node_that_stops_leaves_its_group_as_it_was() {
        let (folder, parent) = played("pids", "");
        let moved = Parent {
            has_moved: true,
            limits: vec![Limit::Tasks],
            ..parent
        };
        fs::write(folder.path().join(PROCESSES), "").unwrap();
        let own = own_group(folder.path());
        let session = folder.path().join("quipu-1-1");
        fs::create_dir(&own).unwrap();
        fs::create_dir(&session).unwrap();
        moved.go_back();
        assert!(own.exists());
        fs::remove_dir(session).unwrap();
        moved.go_back();
        assert!(!own.exists());
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            [read("cgroup.subtree_control"), read(PROCESSES)],
            ["-pids", "0"]
        );
    }

    #[test]
    fn a_process_is_in_all_of_a_group_or_in_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["pids", "pids/session", "memory", "memory/session"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join(PROCESSES), "").unwrap();
        }
        let group = Group(vec![at("pids/session"), at("memory/session")]);
        group.take(7).unwrap();
        fs::remove_file(at("memory/session").join(PROCESSES)).unwrap();
        group.take(8).unwrap_err();
        // The system moves a process that is written to another group.
        assert_eq!(fs::read_to_string(at("pids").join(PROCESSES)).unwrap(), "8");
        assert_eq!(
            fs::read_to_string(at("memory").join(PROCESSES)).unwrap(),
            ""
        );
    }

    /// A shell with this script, once it is to go on; what it says.
    fn shell(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let says = BufReader::new(shell.stdout.take().unwrap());
        (shell, says)
    }

    fn go_on(shell: &mut Child) {
        shell.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    }

    #[test]
    fn who_starts_more_than_its_group_may_have_is_alone_with_that() {
        let groups = match Groups::of_this_process() {
            Ok(groups) => groups,
            Err(why) => return eprintln!("left out: there are no control groups: {why}"),
        };
        let limits = groups.0.iter().flat_map(|parent| &parent.limits);
        if limits.filter(|limit| **limit == Limit::Tasks).count() == 0 {
            eprintln!("left out: control groups do not limit processes here");
            return;
        }
        let most = Most {
            tasks: 8,
            memory: 1 << 30,
        };
        let group = groups.make(most).unwrap();
        let starts = "for one in $(seq 20); do sleep 60 & done; echo all";
        let (mut bad, mut bad_says) = shell(starts);
        let (mut good, mut good_says) =
            shell("for one in $(seq 20); do true & done; wait; echo all");
        group.take(bad.id().cast_signed()).unwrap();
        go_on(&mut bad);
        // It ends as it can start no more, and has not come to where it would say so.
        let mut said = String::new();
        let members = || {
            let folders = group.0.iter();
            let lists =
                folders.map(|folder| fs::read_to_string(folder.join("cgroup.procs")).unwrap());
            lists.map(|list| list.lines().count()).max().unwrap()
        };
        bad.wait().unwrap();
        assert!(members() < 8, "{} processes", members());
        go_on(&mut good);
        good_says.read_line(&mut said).unwrap();
        assert_eq!(said, "all\n");
        good.wait().unwrap();
        for folder in &group.0 {
            for process in fs::read_to_string(folder.join("cgroup.procs"))
                .unwrap()
                .lines()
            {
                // SAFETY: it takes numbers, of a process that this has started.
                unsafe { libc::kill(process.parse().unwrap(), libc::SIGKILL) };
            }
        }
        said.clear();
        bad_says.read_line(&mut said).unwrap();
        assert_eq!(said, "");
        let folders = group.0.clone();
        while !members_of(&folders).is_empty() {
            std::thread::yield_now();
        }
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }

    fn members_of(folders: &[PathBuf]) -> String {
        let lists = folders.iter();
        lists
            .map(|folder| fs::read_to_string(folder.join("cgroup.procs")).unwrap())
            .collect()
    }
}

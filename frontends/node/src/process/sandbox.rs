//! The sandbox of a session's process, as far as Linux gives one to a user without rights.
//!
//! | a session cannot | because of |
//! |---|---|
//! | have more memory, or open files, than the limits say, write large files, or leave its memory behind in one | resource limits |
//! | have memory that these limits do not see, in files without a name or shared with others | seccomp; Landlock, which leaves out `/dev/shm` |
//! | keep more cores busy than the limits say | the cores that its threads may run on, seccomp |
//! | have rights of the system's, or get them by starting a program | no capabilities, `no_new_privs` |
//! | open files but the system's libraries and devices | Landlock |
//! | see the connections that its node makes for it | Landlock, which leaves out other processes' folders below `/proc`; a network namespace |
//! | find the node's key | Landlock, a mount namespace |
//! | look into, or signal, other processes; the node's memory holds its key | Landlock, seccomp, a user namespace |
//! | change modes, owners or times of the user's files, or the priority of the user's other processes | seccomp |
//! | reach the network: its connections are handed to it | Landlock, seccomp, a network namespace |
//! | make calls of the kernel that no session needs | seccomp: a list of allowed calls ([`quipu_system_calls`]) |
//!
//! Where the kernel has no Landlock, or no seccomp, no session is served unless the operator has
//! accepted that ([`weaknesses`]): code of a client's could read and change the user's files, or
//! reach the network. It finds the node's key even then only where the system gives no namespaces.
//! All other parts that the kernel does not have are left out, and logged.
//!
//! # What vendors' drivers need of it
//!
//! CUDA's library refuses to begin, with a word about the operating system and no other, if it may
//! not do one of these, none of which it needs to compute:
//!
//! * name its threads, which the C library does by writing to `/proc/self/task/*/comm`. Landlock
//!   knows whole folders only, so there a session may write to what the system says of its own
//!   threads. That it does not put others before itself where memory runs out is looked at from
//!   outside;
//! * bind a socket without a file and listen there, so that other processes can ask it for memory.
//!   Nobody is let in: a session accepts no connection and makes none. So binding and listening are
//!   not refused, and of sockets there are only those of this machine.
//!
//! It also keeps pinned memory in shared memory, and makes files without a name. Whether it needs
//! to do the second is not known. Both are refused only where there is no NVIDIA driver.
//!
//! # What is counted from outside
//!
//! A process may start others, as compilers are, and each has the limits for itself. How many there
//! are, and what they have together, is looked at from outside ([`usage`](super::usage)).
//! `RLIMIT_NPROC` would not do: it counts what a user has on the whole machine, so one session that
//! reaches it, or the user's other programs, would keep honest ones from starting a thread.
//!
//! Libraries that the system's folders do not have are found as the environment says
//! ([`LIBRARIES`]): of those folders a session reads the libraries, and nothing else that is there.

use super::namespaces;
use crate::limits::Limits;
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use quipu_scheduler::panics::quietly;
use quipu_system_calls::{Filters, Role};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The folders that may be read and run from: libraries, compilers and their needs. Not those where
/// anybody keeps keys, nor what `/sys` shows to root alone, such as the kernel's traces.
const READABLE: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/opt",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/firmware/devicetree",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/module",
    "/etc/OpenCL",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nvidia",
    "/run/opengl-driver",
    "/nix/store",
];

/// The parts of `/proc` that may be read: on this process, and on the machine. Not those on other
/// processes: those of the node's show the connections that it makes for a session, and so what
/// answers in its networks.
const PROCESS: &[&str] = &[
    "/proc/self",
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];

/// Devices that may be used.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/dri",
    "/dev/kfd",
];

/// The file that processes map to share memory without a file, which their limits do not see: for
/// the vendor's library that makes such files.
const ZEROS: &str = "/dev/zero";

/// There where NVIDIA's driver is.
const NVIDIA: &str = "/dev/nvidiactl";

/// The system's files on the threads of this process.
const THREADS: &str = "/proc/self/task";

/// Variables that say where libraries are, with colons between folders, or which file is one.
const LIBRARIES: &[&str] = &["LD_LIBRARY_PATH", quipu_environment::NVRTC.name()];

/// The processor's memory of what the process has, beside its clients' buffers.
pub(super) const OWN_MEMORY: u64 = 512 << 20;

/// Bytes of a file that its compilers write, at most.
pub(super) const FILE: u64 = 256 << 20;

/// A part of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// Of memory and files; and to be the first that a lack of memory ends.
    Limits,
    /// A user, a network, shared memory and mounts of its own.
    Namespaces,
    /// No rights of the system's, and none to be had by starting a program.
    Rights,
    /// Landlock: files, devices, other processes' sockets and signals.
    Files,
    /// seccomp: the calls of the kernel that may be made.
    Calls,
}

impl Restriction {
    /// All of them, in the order in which they are entered.
    pub const ALL: [Self; 5] = [
        Self::Limits,
        Self::Namespaces,
        Self::Rights,
        Self::Files,
        Self::Calls,
    ];

    /// Its name, in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Namespaces => "namespaces",
            Self::Rights => "rights",
            Self::Files => "files",
            Self::Calls => "calls",
        }
    }

    /// The one of this [name](Self::name).
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|restriction| restriction.name() == name)
    }
}

/// A part of the sandbox that this system lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakness {
    /// No session is served with it unless the operator has accepted that.
    pub is_serious: bool,
    /// The missing part and its consequence, for the operator.
    pub what: String,
}

/// The oldest Landlock that keeps a session from signalling others: of Linux 6.12.
const SCOPED: libc::c_long = 6;

/// The parts of the sandbox that this system's kernel lacks.
#[must_use]
pub fn weaknesses() -> Vec<Weakness> {
    // SAFETY: it asks for a version, and takes numbers.
    let landlock = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            1_u32,
        )
    };
    let errno = libc::SECCOMP_RET_ERRNO;
    // SAFETY: it reads one number, which is there until the call returns.
    let seccomp = unsafe {
        let asks = libc::SECCOMP_GET_ACTION_AVAIL;
        libc::syscall(libc::SYS_seccomp, asks, 0, &raw const errno)
    };
    weaknesses_of(landlock, seccomp == 0, namespaces::are_given())
}

/// As [`weaknesses`], for a node whose key is in this folder.
#[must_use]
pub fn weaknesses_for(key: Option<&Path>) -> Vec<Weakness> {
    let mut all = weaknesses();
    if let Some((key, readable)) = key.and_then(|key| Some((key, readable_around(key)?))) {
        all.push(Weakness {
            is_serious: true,
            what: format!(
                "the node's key is in {}, and code of a client's can read all that is in {readable}: have {} name a folder elsewhere",
                key.display(),
                quipu_environment::HOME.name()
            ),
        });
    }
    all
}

/// The part of the system that every session may read and that the folder of the node's key is in,
/// if it is in one.
fn readable_around(key: &Path) -> Option<&'static str> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let key = real(key);
    let mut all = READABLE.iter().copied();
    all.find(|readable| key.starts_with(real(Path::new(readable))))
}

/// The parts that a kernel lacks whose Landlock is of this version, negative for none.
fn weaknesses_of(
    landlock: libc::c_long,
    has_seccomp: bool,
    gives_namespaces: bool,
) -> Vec<Weakness> {
    let mut all = Vec::new();
    let mut note = |is_serious, what: &str| {
        all.push(Weakness {
            is_serious,
            what: what.to_owned(),
        });
    };
    if landlock < 1 {
        let key = match gives_namespaces {
            true => "except the folder of this node's key",
            false => "this node's key too",
        };
        let what = format!(
            "the kernel has no Landlock, so code of a client's can read and change all that this user can, {key} \
             (Linux 5.13 and later have it, where /sys/kernel/security/lsm names it)"
        );
        note(true, &what);
    } else if landlock < SCOPED {
        note(
            false,
            "the kernel's Landlock is older than that of Linux 6.12, so code of a client's can send signals to this user's \
             programs in some ways",
        );
    }
    if !has_seccomp {
        note(
            true,
            "the kernel has no seccomp, so code of a client's can reach the network and look into this user's programs",
        );
    }
    if !gives_namespaces {
        note(
            false,
            "the system gives this user no namespaces, so only Landlock and seccomp keep code of a client's from the network and \
             from this user's programs",
        );
    }
    all
}

/// The files and folders that a session is told apart, beside those that all may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'a> {
    /// It may write here.
    pub(super) scratch: &'a Path,
    /// It may read these.
    pub(super) readable: &'a [PathBuf],
    /// It finds nothing here.
    pub(super) hidden: Option<&'a Path>,
}

/// Enters a part of the sandbox, for this thread and those that it starts from here on.
///
/// # Errors
/// If a limit cannot be set; without `accepts_weak`, if the kernel has nothing of a part without
/// which clients can read the node's key. Other parts that the kernel does not have are logged.
pub(super) fn restrict(
    by: Restriction,
    (limits, accepts_weak): (&Limits, bool),
    files: &Files<'_>,
) -> io::Result<()> {
    let tried = |what: &'static str, done: Result<(), String>| {
        if let Err(error) = done {
            quietly(|| {
                tracing::warn!(
                    what,
                    error,
                    "a session's process is less restricted than it should be"
                );
            });
        }
    };
    match by {
        Restriction::Limits => {
            limit(limits)?;
            tried("be kept to its cores", keep_to_cores(limits.cores));
            tried("be the first that a lack of memory ends", step_forward());
        }
        Restriction::Namespaces => {
            let entered = namespaces::enter(files.hidden);
            tried(
                "have namespaces of its own",
                entered.map_err(|error| error.to_string()),
            );
        }
        Restriction::Rights => {
            tried("be kept from getting rights", no_new_privileges());
            tried("give up what rights it has", drop_capabilities());
        }
        Restriction::Files => match restrict_files(files.scratch, files.readable) {
            Err(Kept::NotAtAll(error)) if !accepts_weak => return Err(io::Error::other(error)),
            kept => tried("be kept from files", kept.map_err(Kept::into_text)),
        },
        Restriction::Calls => match restrict_calls(limits) {
            Err(error) if !accepts_weak => return Err(io::Error::other(error)),
            kept => tried("be kept from the system's calls", kept),
        },
    }
    Ok(())
}

/// Enters the sandbox, for this thread and those that it starts from here on.
///
/// # Errors
/// As [`restrict`].
pub(super) fn enter(with: (&Limits, bool), files: &Files<'_>) -> io::Result<()> {
    Restriction::ALL
        .into_iter()
        .try_for_each(|by| restrict(by, with, files))
}

/// The degree to which a session is kept from files.
enum Kept {
    /// From some.
    Partly(String),
    /// From none.
    NotAtAll(String),
}

impl Kept {
    fn into_text(self) -> String {
        match self {
            Self::Partly(text) | Self::NotAtAll(text) => text,
        }
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn limit(limits: &Limits) -> io::Result<()> {
    let memory = limits.process_bytes.saturating_add(OWN_MEMORY);
    for (what, most) in [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_DATA, memory),
        (libc::RLIMIT_NOFILE, limits.files),
        (libc::RLIMIT_FSIZE, FILE),
    ] {
        let both = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        // SAFETY: the limits are there until the call returns.
        checked(unsafe { libc::setrlimit(what, &raw const both) })?;
    }
    Ok(())
}

/// Keeps this process to so many of the cores that it has; zero are all. Which, is another matter
/// for each process, so that all are used.
fn keep_to_cores(most: u32) -> Result<(), String> {
    if most == 0 {
        return Ok(());
    }
    let failed = || io::Error::last_os_error().to_string();
    // SAFETY: a set of bits, of which none is a value.
    let mut own: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as many bytes as said.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&own), &raw mut own) } != 0 {
        return Err(failed());
    }
    // SAFETY: within the set.
    let has = |core: &usize| unsafe { libc::CPU_ISSET(*core, &own) };
    let mut cores: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(has).collect();
    let first = std::process::id() as usize % cores.len().max(1);
    cores.rotate_left(first);
    // SAFETY: as above.
    let mut kept: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.iter().take(most as usize) {
        // SAFETY: within the set.
        unsafe { libc::CPU_SET(*core, &mut kept) };
    }
    // SAFETY: as many bytes as said.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&kept), &raw const kept) } != 0 {
        return Err(failed());
    }
    Ok(())
}

/// Where memory runs out, the process that has asked for it should be the one to end.
fn step_forward() -> Result<(), String> {
    std::fs::write("/proc/self/oom_score_adj", "800").map_err(|error| error.to_string())
}

fn no_new_privileges() -> Result<(), String> {
    // SAFETY: it takes numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
        .map_err(|error| error.to_string())
}

/// If somebody serves as root, sessions are not to have what that means.
fn drop_capabilities() -> Result<(), String> {
    /// As the system lays it out, version 3.
    #[repr(C)]
    struct Header {
        version: u32,
        process: libc::c_int,
    }
    const VERSION: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION,
        process: 0,
    };
    // Effective, permitted and inheritable, of 32 each, twice.
    let none = [0_u32; 6];
    // SAFETY: header and sets are there until the call returns, as the system lays them out.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if set != 0 {
        return Err(io::Error::last_os_error().to_string());
    }
    Ok(())
}

/// The libraries that the environment says are elsewhere than where the system has its own.
fn libraries() -> Vec<PathBuf> {
    let said = LIBRARIES
        .iter()
        .filter_map(std::env::var_os)
        .collect::<Vec<_>>();
    let paths = said.iter().flat_map(std::env::split_paths);
    // What is not said in full is where the node was started, and not the session.
    let folders = paths
        .filter(|path| path.is_absolute())
        .filter_map(|path| match path.is_dir() {
            true => Some(path),
            false => path.parent().map(Path::to_owned),
        });
    let files =
        folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    files
        .filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.ends_with(".so") || name.contains(".so.")
        })
        .map(|file| file.path())
        .filter(|path| path.is_file())
        .collect()
}

fn restrict_files(scratch: &Path, readable: &[PathBuf]) -> Result<(), Kept> {
    let abi = ABI::V6;
    let write = AccessFs::WriteFile | AccessFs::Truncate;
    // What a rule is about is forgotten by the system with the last who has it open, and found anew
    // as another.
    let threads = match has_nvidia() {
        true => Some(std::fs::File::open(THREADS)),
        false => None,
    };
    let threads = threads.transpose();
    let threads = threads.map_err(|error| Kept::NotAtAll(format!("{THREADS}: {error}")))?;
    let of_threads = threads
        .iter()
        .map(|threads| Ok::<_, RulesetError>(PathBeneath::new(threads.as_fd(), write)));
    let gpus = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let gpus = gpus
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("nvidia"))
        .map(|entry| entry.path());
    let zeros = has_nvidia().then(|| PathBuf::from(ZEROS));
    let of_process: Vec<_> = PROCESS
        .iter()
        .filter_map(|path| Some((PathFd::new(path).ok()?, Path::new(path).is_dir())))
        .collect();
    let read_process = of_process.iter().map(|(part, is_folder)| {
        let read = match is_folder {
            true => AccessFs::ReadFile | AccessFs::ReadDir,
            false => AccessFs::ReadFile.into(),
        };
        Ok::<_, RulesetError>(PathBeneath::new(part.as_fd(), read))
    });
    let written: Vec<PathBuf> = DEVICES
        .iter()
        .map(PathBuf::from)
        .chain(gpus)
        .chain(zeros)
        .chain([scratch.to_owned()])
        .collect();
    let restrict = || -> Result<RulesetStatus, RulesetError> {
        let status = Ruleset::default()
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .add_rules(path_beneath_rules(READABLE, AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(libraries(), AccessFs::from_read(abi)))?
            .add_rules(read_process)?
            .add_rules(of_threads)?
            .add_rules(path_beneath_rules(written, AccessFs::from_all(abi)))?
            .restrict_self()?;
        Ok(status.ruleset)
    };
    let status = restrict().map_err(|error| Kept::NotAtAll(error.to_string()))?;
    // Open as long as the process lasts.
    std::mem::forget((threads, of_process));
    match status {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => {
            Err(Kept::Partly("the kernel knows a part of it".to_owned()))
        }
        RulesetStatus::NotEnforced => Err(Kept::NotAtAll("the kernel has no Landlock".to_owned())),
    }
}

fn has_nvidia() -> bool {
    Path::new(NVIDIA).exists()
}

/// Holds this process, and all that it starts, to the calls of a session.
fn restrict_calls(limits: &Limits) -> Result<(), String> {
    let role = Role::Session {
        // Nobody gives himself more cores than the limits say.
        chooses_cores: limits.cores == 0,
        has_nameless_files: has_nvidia(),
    };
    let entered = Filters::of(role).and_then(|filters| filters.enter());
    entered.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_what_keeps_the_key_is_a_serious_weakness() {
        let serious = |landlock, has_seccomp| {
            let all = weaknesses_of(landlock, has_seccomp, true);
            all.iter()
                .map(|weakness| weakness.is_serious)
                .collect::<Vec<_>>()
        };
        assert!(serious(SCOPED, true).is_empty());
        assert_eq!(serious(1, true), [false]);
        assert_eq!(serious(-1, true), [true]);
        assert_eq!(serious(0, false), [true, true]);
        let key = |gives_namespaces| weaknesses_of(-1, true, gives_namespaces)[0].what.clone();
        assert!(key(true).contains("except") && key(false).contains("key too"));
        let without_namespaces = weaknesses_of(SCOPED, true, false);
        assert_eq!(without_namespaces.len(), 1);
        assert!(!without_namespaces[0].is_serious);
    }

    #[test]
    fn a_key_where_sessions_read_is_a_serious_weakness() {
        let serious = |key: &str| {
            let mut all = weaknesses_for(Some(Path::new(key)));
            all.retain(|weakness| weakness.what.contains(quipu_environment::HOME.name()));
            all.into_iter().any(|weakness| weakness.is_serious)
        };
        assert!(serious("/usr/local/quipu") && serious("/opt/quipu"));
        assert!(!serious("/var/lib/quipu") && !serious("/optional"));
        // However it is named.
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("keys");
        std::os::unix::fs::symlink("/usr/lib", &link).unwrap();
        assert!(serious(link.to_str().unwrap()));
    }
}

//! The table: groups of calls, the roles that have them, and the arguments with which they are
//! allowed.
//!
//! A call belongs here if a session, a vendor's driver or a compiler needs it to work, and if it
//! reaches nothing but the process itself, its children, and files that Landlock lets it open.
//! Landlock does not look at everything that takes a path: calls that change the mode, owner, times
//! or attributes of a file are left out, because a session has its node's user. So is `truncate`,
//! at which Landlock looks from Linux 6.2 on.
//!
//! The drivers' needs, as far as they are known: CUDA makes requests of its devices (`ioctl`), maps
//! much memory, starts threads, names them, and listens on a socket without a file that nobody
//! reaches. ROCm and Mesa make requests of their devices, lock memory and place it on NUMA nodes.
//! PoCL compiles in the process, and starts a linker.

// As many calls on a line as there is room for.
#![cfg_attr(rustfmt, rustfmt_skip)]
// Libraries of C differ in the types of these numbers.
#![allow(clippy::unnecessary_cast)]

use crate::Role;
use libc::*;

/// Roles, as the table has them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Session,
    /// Sessions that choose their cores.
    ChoosingSession,
    /// Sessions with files without a name.
    NamelessSession,
    SessionAndCompiler,
    Keeper,
    All,
}

impl For {
    fn has(self, role: Role) -> bool {
        match (self, role) {
            (Self::All, _)
            | (Self::Session | Self::SessionAndCompiler, Role::Session { .. })
            | (Self::SessionAndCompiler, Role::Compiler)
            | (Self::Keeper, Role::Keeper { .. }) => true,
            (Self::ChoosingSession, Role::Session { chooses_cores, .. }) => chooses_cores,
            (
                Self::NamelessSession,
                Role::Session {
                    has_nameless_files, ..
                },
            ) => has_nameless_files,
            _ => false,
        }
    }
}

/// A condition on an argument, which has this place. Arguments are 32 bits wide where nothing else
/// is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// The argument is this number.
    Is(u8, u32),
    /// Its bits in the mask, which is first, are these.
    Masked(u8, u32, u32),
    /// The argument is a null pointer.
    IsNull(u8),
    /// The argument is the number of this process.
    IsOwn(u8),
    /// The argument is the group of the session that this process keeps.
    IsKept(u8),
}
use Test::*;

/// A call is allowed if all tests of any of these rules hold, or if there is no rule.
pub(crate) type Rules = &'static [&'static [Test]];

const ANY: Rules = &[];

/// Groups of calls.
const TABLE: &[(For, &[c_long], Rules)] = &[
    // Reading and writing open files.
    (
        For::SessionAndCompiler,
        &[
            SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2,
            SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_pipe2, SYS_copy_file_range,
            SYS_sendfile, SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_fadvise64, SYS_flock,
        ],
        ANY,
    ),
    // Files by name: Landlock says which may be opened, made and removed.
    (
        For::SessionAndCompiler,
        &[
            SYS_openat, SYS_openat2, SYS_newfstatat, SYS_fstat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat,
            SYS_faccessat2, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_renameat, SYS_renameat2,
            SYS_mkdirat, SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_umask,
        ],
        ANY,
    ),
    // The same by the older numbers that x86-64 has beside them.
    #[cfg(target_arch = "x86_64")]
    (
        For::SessionAndCompiler,
        &[
            SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_rename, SYS_mkdir, SYS_rmdir,
            SYS_unlink, SYS_link, SYS_symlink, SYS_dup2, SYS_pipe, SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait,
            SYS_eventfd, SYS_signalfd, SYS_time, SYS_alarm, SYS_pause, SYS_getpgrp, SYS_fork, SYS_vfork, SYS_arch_prctl,
        ],
        ANY,
    ),
    // Memory of this process.
    (
        For::SessionAndCompiler,
        &[
            SYS_brk, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mincore, SYS_msync, SYS_membarrier,
            SYS_get_mempolicy,
        ],
        ANY,
    ),
    // Files, and memory that the process's limits count. Shared memory stays when it is not mapped
    // any more, and then belongs to no process; a mapping that grows is no data; and pages of the
    // machine's pool are nobody's memory.
    (
        For::SessionAndCompiler,
        &[SYS_mmap],
        &[
            &[Masked(3, (MAP_ANONYMOUS | UNCOUNTED) as u32, 0)],
            &[Masked(3, (MAP_TYPE | UNCOUNTED) as u32, MAP_PRIVATE as u32)],
        ],
    ),
    (For::NamelessSession, &[SYS_mmap], &[&[Masked(3, UNCOUNTED as u32, 0)]]),
    (For::Session, &[SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mbind, SYS_set_mempolicy], ANY),
    (For::Session, &[SYS_move_pages], &[&[Is(0, 0)]]),
    (For::NamelessSession, &[SYS_memfd_create], ANY),
    // Threads, waiting, clocks.
    (
        For::SessionAndCompiler,
        &[
            SYS_futex, SYS_set_robust_list, SYS_set_tid_address, SYS_rseq, SYS_sched_yield, SYS_nanosleep, SYS_clock_nanosleep,
            SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_times, SYS_getcpu, SYS_getrandom, SYS_ppoll,
            SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_signalfd4,
            SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_timer_create, SYS_timer_settime,
            SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_setitimer, SYS_getitimer,
        ],
        ANY,
    ),
    // Questions about this process and the machine.
    (
        For::SessionAndCompiler,
        &[
            SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid,
            SYS_getgroups, SYS_getpgid, SYS_getsid, SYS_getrusage, SYS_getrlimit, SYS_uname, SYS_sysinfo, SYS_capget,
            SYS_getpriority, SYS_sched_getaffinity, SYS_sched_getscheduler, SYS_sched_getparam, SYS_sched_getattr,
            SYS_sched_get_priority_max, SYS_sched_get_priority_min,
        ],
        ANY,
    ),
    // Its own limits, which no process without rights can lift; a compiler narrows them.
    (For::SessionAndCompiler, &[SYS_prlimit64], &[&[Is(0, 0)], &[IsOwn(0)]]),
    // The scheduling of the calling thread, but not before all others. Other threads cannot be told
    // from other processes, and a user's priority is that of all its processes.
    (
        For::Session,
        &[SYS_sched_setscheduler],
        &[
            &[Is(0, 0), Is(1, SCHED_OTHER as u32)],
            &[Is(0, 0), Is(1, SCHED_BATCH as u32)],
            &[Is(0, 0), Is(1, SCHED_IDLE as u32)],
        ],
    ),
    (For::Session, &[SYS_sched_setparam], &[&[Is(0, 0)]]),
    (For::ChoosingSession, &[SYS_sched_setaffinity], &[&[Is(0, 0)]]),
    (For::Session, &[SYS_setpriority], &[&[Is(0, PRIO_PROCESS as u32), Is(1, 0)]]),
    // Signals, to this process alone.
    (
        For::SessionAndCompiler,
        &[
            SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack,
        ],
        ANY,
    ),
    (For::SessionAndCompiler, &[SYS_kill, SYS_tgkill], &[&[IsOwn(0)]]),
    (For::All, &[SYS_rt_sigreturn, SYS_restart_syscall], ANY),
    // Threads and programs, in the same namespaces, and as children of the process that starts
    // them. A thread has the open files of its process, which are looked at from outside.
    (
        For::SessionAndCompiler,
        &[SYS_clone],
        &[
            &[Masked(0, NEW_SURROUNDINGS | CLONE_THREAD as u32, 0)],
            &[Masked(0, NEW_SURROUNDINGS | CLONE_FILES as u32, CLONE_FILES as u32)],
        ],
    ),
    (For::SessionAndCompiler, &[SYS_execve, SYS_waitid, SYS_exit], ANY),
    (For::All, &[SYS_wait4, SYS_exit_group], ANY),
    // Facts about the calling thread, such as its name, and settings of it.
    (
        For::SessionAndCompiler,
        &[SYS_prctl],
        &[
            &[Is(0, PR_SET_NAME as u32)],
            &[Is(0, PR_GET_NAME as u32)],
            &[Is(0, PR_GET_PDEATHSIG as u32)],
            &[Is(0, PR_GET_DUMPABLE as u32)],
            &[Is(0, PR_GET_SECCOMP as u32)],
            &[Is(0, PR_CAPBSET_READ as u32)],
            &[Is(0, PR_SET_TIMERSLACK as u32)],
            &[Is(0, PR_GET_TIMERSLACK as u32)],
            &[Is(0, PR_SET_NO_NEW_PRIVS as u32)],
            &[Is(0, PR_GET_NO_NEW_PRIVS as u32)],
            &[Is(0, PR_SET_THP_DISABLE as u32)],
            &[Is(0, PR_GET_THP_DISABLE as u32)],
            &[Is(0, PR_SVE_SET_VL)],
            &[Is(0, PR_SVE_GET_VL)],
            &[Is(0, PR_SME_SET_VL)],
            &[Is(0, PR_SME_GET_VL)],
            &[Is(0, PR_SET_VMA as u32)],
        ],
    ),
    // More filters, which only add up: the second and third of a role, and a compiler's. None that
    // asks another process for its answers.
    (
        For::All,
        &[SYS_seccomp],
        &[&[Is(0, SECCOMP_SET_MODE_FILTER), Masked(1, SECCOMP_FILTER_FLAG_NEW_LISTENER as u32, 0)]],
    ),
    // Operations on open files, but not to have signals sent for them.
    (
        For::SessionAndCompiler,
        &[SYS_fcntl],
        &[
            &[Is(1, F_DUPFD as u32)],
            &[Is(1, F_DUPFD_CLOEXEC as u32)],
            &[Is(1, F_GETFD as u32)],
            &[Is(1, F_SETFD as u32)],
            &[Is(1, F_GETFL as u32)],
            &[Is(1, F_SETFL as u32), Masked(2, O_ASYNC as u32, 0)],
            &[Is(1, F_GETLK as u32)],
            &[Is(1, F_SETLK as u32)],
            &[Is(1, F_SETLKW as u32)],
            &[Is(1, F_OFD_GETLK as u32)],
            &[Is(1, F_OFD_SETLK as u32)],
            &[Is(1, F_OFD_SETLKW as u32)],
            &[Is(1, F_GETPIPE_SZ as u32)],
            &[Is(1, F_ADD_SEALS as u32)],
            &[Is(1, F_GET_SEALS as u32)],
        ],
    ),
    // Requests of files and terminals.
    (
        For::SessionAndCompiler,
        &[SYS_ioctl],
        &[
            &[Is(1, FIONBIO as u32)],
            &[Is(1, FIOCLEX as u32)],
            &[Is(1, FIONCLEX as u32)],
            &[Is(1, FIONREAD as u32)],
            &[Is(1, TCGETS as u32)],
            &[Is(1, TIOCGWINSZ as u32)],
        ],
    ),
    // Requests of GPUs, by the byte that says whose they are. Console requests have AMD's byte too,
    // without a direction.
    (
        For::Session,
        &[SYS_ioctl],
        &[
            &[Masked(1, KIND_OF_REQUEST, DRM)],
            &[Masked(1, KIND_OF_REQUEST, DMA_BUF)],
            &[Masked(1, KIND_OF_REQUEST, SYNC_FILE)],
            &[Masked(1, DIRECTION | KIND_OF_REQUEST, WRITES | KFD)],
            &[Masked(1, DIRECTION | KIND_OF_REQUEST, READS | KFD)],
            &[Masked(1, DIRECTION | KIND_OF_REQUEST, WRITES | READS | KFD)],
            &[Masked(1, KIND_OF_REQUEST, NVIDIA)],
            &[Masked(1, KIND_OF_REQUEST, NVIDIA_MODESET)],
            &[Masked(1, !0xff, NVIDIA_UVM)],
            &[Masked(1, !0xff, NVIDIA_UVM_BEGIN)],
        ],
    ),
    // Sockets of this machine, with connections: datagrams go to any socket. None is ever connected
    // or accepted here, nor made with its other end: what lies in one is memory, or files, that
    // belong to no process.
    (
        For::Session,
        &[SYS_socket],
        &[
            &[Is(0, AF_UNIX as u32), Masked(1, KIND_OF_SOCKET, SOCK_STREAM as u32)],
            &[Is(0, AF_UNIX as u32), Masked(1, KIND_OF_SOCKET, SOCK_SEQPACKET as u32)],
        ],
    ),
    (
        For::Session,
        &[
            SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_shutdown, SYS_recvfrom, SYS_recvmsg,
        ],
        ANY,
    ),
    // Over connections that it has. A request for TCP's fast open is one for a new connection.
    (For::Session, &[SYS_sendto], &[&[IsNull(4), Masked(3, MSG_FASTOPEN as u32, 0)]]),
    (For::Session, &[SYS_sendmsg], &[&[Masked(2, MSG_FASTOPEN as u32, 0)]]),
    // How long the last who closes a connection waits for its bytes (`SO_LINGER`) is not to choose:
    // a session may give its node a connection to close.
    (
        For::Session,
        &[SYS_setsockopt],
        &[
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_RCVLOWAT as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_RCVTIMEO as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_SNDTIMEO as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_RCVBUF as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_SNDBUF as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_KEEPALIVE as u32)],
            &[Is(1, SOL_SOCKET as u32), Is(2, SO_PASSCRED as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_NODELAY as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_KEEPIDLE as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_KEEPINTVL as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_KEEPCNT as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_QUICKACK as u32)],
            &[Is(1, IPPROTO_TCP as u32), Is(2, TCP_USER_TIMEOUT as u32)],
        ],
    ),
    // The keeper waits for two events, and ends a group.
    (For::Keeper, &[SYS_ppoll], ANY),
    #[cfg(target_arch = "x86_64")]
    (For::Keeper, &[SYS_poll], ANY),
    (For::Keeper, &[SYS_kill], &[&[IsKept(0), Is(1, SIGKILL as u32)]]),
];

/// Calls that are tried in every process, or for every kernel, and done without: nobody needs to be
/// told of their refusal.
pub(crate) const EXPECTED: &[c_long] = &[SYS_clone3, SYS_memfd_create];

/// Calls that fail as where a file system does not do them. `fallocate` takes a file system's room
/// faster than anybody outside sees it, beyond the largest size of a file too; a program that gets
/// this answer writes instead.
pub(crate) const UNSUPPORTED: &[c_long] = &[SYS_fallocate];

/// Flags of `mmap` for memory that neither limits nor looks from outside count.
const UNCOUNTED: c_int = MAP_GROWSDOWN | MAP_HUGETLB;

/// Flags of `clone` for namespaces of its own, for another parent, and for a tracer's child.
const NEW_SURROUNDINGS: u32 = (CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | CLONE_PARENT
    | CLONE_PTRACE) as u32;

/// The kind of a socket, without its flags.
const KIND_OF_SOCKET: u32 = 0xf;

/// The byte of a request that says whose it is, and its two bits that say which way its argument
/// goes.
const KIND_OF_REQUEST: u32 = 0xff00;
const DIRECTION: u32 = 3 << 30;
const WRITES: u32 = 1 << 30;
const READS: u32 = 2 << 30;

const DRM: u32 = (b'd' as u32) << 8;
const DMA_BUF: u32 = (b'b' as u32) << 8;
const SYNC_FILE: u32 = (b'>' as u32) << 8;
const KFD: u32 = (b'K' as u32) << 8;
const NVIDIA: u32 = (b'F' as u32) << 8;
const NVIDIA_MODESET: u32 = (b'm' as u32) << 8;
/// The unified memory's driver numbers its requests from one on, but for the first and the last.
const NVIDIA_UVM: u32 = 0;
const NVIDIA_UVM_BEGIN: u32 = 0x3000_0000;

/// `PR_SVE_SET_VL` to `PR_SME_GET_VL`: lengths of AArch64's vectors, which the library of the
/// system names for that alone.
const PR_SVE_SET_VL: u32 = 50;
const PR_SVE_GET_VL: u32 = 51;
const PR_SME_SET_VL: u32 = 63;
const PR_SME_GET_VL: u32 = 64;

/// The calls of a role, each once for every group that has it.
pub(crate) fn calls_of(role: Role) -> impl Iterator<Item = (i64, Rules)> {
    let groups = TABLE.iter().filter(move |(roles, ..)| roles.has(role));
    groups.flat_map(|(_, calls, rules)| calls.iter().map(|call| (*call, *rules)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_call_that_is_allowed_with_any_arguments_has_no_rules_elsewhere() {
        let session = |free| Role::Session {
            chooses_cores: free,
            has_nameless_files: free,
        };
        for role in [session(false), session(true), Role::Compiler, Role::Keeper { session: 2 }] {
            let mut groups: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
            for (call, rules) in calls_of(role) {
                groups.entry(call).or_default().push(rules.len());
            }
            for (call, rules) in groups {
                assert!(!rules.contains(&0) || rules.len() == 1, "{call} of {role:?}: {rules:?}");
            }
        }
    }
}

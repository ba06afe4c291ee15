//! Processes of each role try every call that the role does not have, and those that it has with
//! arguments that it may not pass.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_system_calls::{Filters, Role};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

const SESSION: Role = Role::Session {
    chooses_cores: false,
    has_nameless_files: false,
};
const FREE_SESSION: Role = Role::Session {
    chooses_cores: true,
    has_nameless_files: true,
};

/// Memory that a process shares with the test, for its reports: it needs no call for that.
#[repr(C)]
struct Said {
    count: AtomicUsize,
    numbers: [AtomicI64; 64],
}

impl Said {
    fn say(&self, number: i64) {
        let place = self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(said) = self.numbers.get(place) {
            said.store(number, Ordering::SeqCst);
        }
    }
}

/// Has a process of this role do something; gives its reports, and its status.
fn within(role: Role, act: impl Fn(&Said)) -> (Vec<i64>, libc::c_int) {
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, of zeros, which are values of all of it. It lasts as long as the program.
    let said: &'static Said = unsafe {
        let bytes = size_of::<Said>();
        let memory = libc::mmap(std::ptr::null_mut(), bytes, both, shared, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        &*memory.cast()
    };
    // SAFETY: the child has the allocator, which the system's library hands it unlocked, and takes
    // no other lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let entered = Filters::of(role).and_then(|filters| filters.enter());
        match entered {
            Ok(()) => act(said),
            Err(_) => said.say(-1),
        }
        // SAFETY: it returns to nobody.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
    let mut status = 0;
    // SAFETY: the number is there until the call returns.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let count = said.count.load(Ordering::SeqCst);
    let numbers = said.numbers.iter().take(count);
    let numbers = numbers.map(|number| number.load(Ordering::SeqCst));
    (numbers.collect(), status)
}

/// Makes a call and gives its error; zero if there is none.
fn errno_of(number: i64, arguments: [i64; 6]) -> libc::c_int {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the call is refused, or passes numbers that are no addresses.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match result {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
        _ => 0,
    }
}

/// Bit 30 makes a call of x32 of a number, on x86-64.
const X32: i64 = 1 << 30;

/// `uretprobe` and `uprobe` of x86-64, which the kernel hides from filters: it ends a process that
/// was given no probe by it.
const PROBES: [i64; 2] = [335, 336];

fn lacks_all_other_calls(role: Role) {
    let (wrong, status) = within(role, |said| {
        for number in (0..1024).chain((0..1024).map(|number| number | X32)) {
            // Those of x32 are none of a role's.
            let Some(refusal) = role.refusal(number) else {
                continue;
            };
            if !PROBES.contains(&number) && errno_of(number, [0; 6]) != refusal {
                said.say(number);
            }
        }
    });
    assert_eq!((wrong, status), (Vec::new(), 0), "{role:?}");
}

/// This process, of whose child it is the parent.
fn keeper() -> Role {
    Role::Keeper {
        session: std::process::id(),
    }
}

#[test]
fn a_role_lacks_every_call_that_it_is_not_given() {
    for role in [SESSION, FREE_SESSION, Role::Compiler, keeper()] {
        lacks_all_other_calls(role);
    }
}

/// Calls that no role has, whatever the table says.
#[test]
fn no_role_has_a_call_that_reaches_others_or_the_machine() {
    let dangerous = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_tkill,
        libc::SYS_kcmp,
        libc::SYS_setsid,
        libc::SYS_setpgid,
        libc::SYS_connect,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendmmsg,
        libc::SYS_clone3,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_memfd_secret,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_mq_open,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_inotify_init1,
        libc::SYS_ioprio_set,
        libc::SYS_setuid,
        libc::SYS_capset,
        libc::SYS_personality,
        libc::SYS_setrlimit,
        libc::SYS_sync,
        libc::SYS_truncate,
        libc::SYS_fallocate,
        libc::SYS_socketpair,
        libc::SYS_sched_setattr,
    ];
    #[cfg(target_arch = "x86_64")]
    let older = [
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_utimes,
        libc::SYS_inotify_init,
        libc::SYS_mknod,
        libc::SYS_iopl,
        libc::SYS_modify_ldt,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let older = [];
    for call in dangerous.into_iter().chain(older) {
        for role in [SESSION, FREE_SESSION, Role::Compiler, keeper()] {
            assert!(!role.has_call(call), "{call} of {role:?}");
        }
    }
    for call in [
        libc::SYS_socket,
        libc::SYS_sendto,
        libc::SYS_sched_setscheduler,
        libc::SYS_setpriority,
    ] {
        assert!(!Role::Compiler.has_call(call), "{call} of a compiler");
    }
    assert!(!SESSION.has_call(libc::SYS_memfd_create));
    assert!(!SESSION.has_call(libc::SYS_sched_setaffinity));
}

/// A call, and arguments from the first on.
type Call = (i64, &'static [i64]);

fn answers(role: Role, calls: &[Call], is_right: impl Fn(libc::c_int) -> bool) {
    // Numbers of 32 bits are looked at as such, whatever is above them.
    for above in [0, 1 << 32] {
        let (wrong, status) = within(role, |said| {
            for (place, (number, given)) in calls.iter().enumerate() {
                let mut arguments = [0; 6];
                for (argument, given) in arguments.iter_mut().zip(*given) {
                    *argument = *given ^ above;
                }
                if !is_right(errno_of(*number, arguments)) {
                    said.say(place as i64);
                }
            }
        });
        let wrong: Vec<Call> = wrong
            .iter()
            .filter_map(|place| calls.get(usize::try_from(*place).ok()?).copied())
            .collect();
        assert_eq!((wrong, status), (Vec::new(), 0), "{role:?}");
    }
}

/// The first process, which is another one.
const OTHER: i64 = 1;

/// Commands of `fcntl`, requests and options that not every library of C names.
const F_SETSIG: i64 = 10;
const F_SETOWN_EX: i64 = 15;
const FIOSETOWN: i64 = 0x8901;
const SIOCSPGRP: i64 = 0x8902;
const TIOCLINUX: i64 = 0x541c;
const KDSKBSENT: i64 = 0x4b49;
const FS_IOC_SETFLAGS: i64 = 0x4008_6602;
const PR_SCHED_CORE: i64 = 62;

/// Flags of `mmap`.
const ANONYMOUS: i64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as i64;
const SHARED: i64 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as i64;
const GROWS: i64 = libc::MAP_GROWSDOWN as i64;
const POOLED: i64 = libc::MAP_HUGETLB as i64;

/// Memory that belongs to no process once it is not mapped.
const REFUSED_WITHOUT_NAMELESS_FILES: &[Call] = &[
    (libc::SYS_mmap, &[0, 4096, 3, SHARED, -1]),
    (
        libc::SYS_mmap,
        &[
            0,
            4096,
            3,
            (libc::MAP_SHARED_VALIDATE | libc::MAP_ANONYMOUS) as i64,
            -1,
        ],
    ),
];

/// Of every process that has these calls.
const REFUSED: &[Call] = &[
    (libc::SYS_fcntl, &[0, libc::F_SETOWN as i64, OTHER]),
    (libc::SYS_fcntl, &[0, F_SETSIG, 9]),
    (libc::SYS_fcntl, &[0, F_SETOWN_EX]),
    (libc::SYS_fcntl, &[0, libc::F_NOTIFY as i64]),
    (libc::SYS_fcntl, &[0, libc::F_SETLEASE as i64]),
    (libc::SYS_fcntl, &[0, libc::F_SETPIPE_SZ as i64, 1 << 20]),
    (
        libc::SYS_fcntl,
        &[0, libc::F_SETFL as i64, libc::O_ASYNC as i64],
    ),
    (libc::SYS_ioctl, &[0, libc::FIOASYNC as i64]),
    (libc::SYS_ioctl, &[0, libc::TIOCSTI as i64]),
    (libc::SYS_ioctl, &[0, libc::TIOCSCTTY as i64]),
    (libc::SYS_ioctl, &[0, libc::TIOCSETD as i64]),
    (libc::SYS_ioctl, &[0, libc::TCSETS as i64]),
    (libc::SYS_ioctl, &[0, FIOSETOWN]),
    (libc::SYS_ioctl, &[0, SIOCSPGRP]),
    (libc::SYS_ioctl, &[0, TIOCLINUX]),
    (libc::SYS_ioctl, &[0, KDSKBSENT]),
    (libc::SYS_ioctl, &[0, FS_IOC_SETFLAGS]),
    (libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as i64, 1]),
    (libc::SYS_prctl, &[libc::PR_SET_MM as i64]),
    (libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as i64, 0]),
    (libc::SYS_prctl, &[libc::PR_SET_PTRACER as i64, OTHER]),
    (libc::SYS_prctl, &[libc::PR_SET_SECCOMP as i64, 2]),
    (libc::SYS_prctl, &[libc::PR_SET_CHILD_SUBREAPER as i64, 1]),
    (libc::SYS_prctl, &[libc::PR_SET_KEEPCAPS as i64, 1]),
    (libc::SYS_prctl, &[PR_SCHED_CORE]),
    (libc::SYS_clone, &[libc::CLONE_NEWUSER as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWNS as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWPID as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWNET as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWIPC as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWUTS as i64]),
    (libc::SYS_clone, &[libc::CLONE_NEWCGROUP as i64]),
    (libc::SYS_clone, &[libc::CLONE_PARENT as i64]),
    (libc::SYS_clone, &[libc::CLONE_PTRACE as i64]),
    // A thread whose open files are not those of its process.
    (
        libc::SYS_clone,
        &[(libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM) as i64],
    ),
    // Memory that grows, that is of the machine's pool, or both.
    (libc::SYS_mmap, &[0, 4096, 3, ANONYMOUS | GROWS, -1]),
    (libc::SYS_mmap, &[0, 4096, 3, ANONYMOUS | POOLED, -1]),
    (libc::SYS_mmap, &[0, 4096, 3, SHARED | POOLED, -1]),
    (
        libc::SYS_mmap,
        &[0, 4096, 3, libc::MAP_PRIVATE as i64 | GROWS],
    ),
    (libc::SYS_kill, &[OTHER]),
    (libc::SYS_kill, &[0]),
    (libc::SYS_kill, &[-1]),
    (libc::SYS_tgkill, &[OTHER, OTHER]),
    (libc::SYS_prlimit64, &[OTHER]),
    (
        libc::SYS_seccomp,
        &[1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as i64],
    ),
    (libc::SYS_seccomp, &[0]),
];

/// Of a session, which alone has them.
const REFUSED_IN_SESSIONS: &[Call] = &[
    (libc::SYS_socket, &[libc::AF_INET as i64, 1]),
    (libc::SYS_socket, &[libc::AF_INET6 as i64, 1]),
    (libc::SYS_socket, &[libc::AF_NETLINK as i64, 3]),
    (libc::SYS_socket, &[libc::AF_PACKET as i64, 3]),
    (libc::SYS_socket, &[libc::AF_VSOCK as i64, 1]),
    (libc::SYS_socket, &[libc::AF_ALG as i64, 5]),
    (
        libc::SYS_socket,
        &[libc::AF_UNIX as i64, libc::SOCK_DGRAM as i64],
    ),
    // The system takes it for one of datagrams.
    (
        libc::SYS_socket,
        &[libc::AF_UNIX as i64, libc::SOCK_RAW as i64],
    ),
    (
        libc::SYS_socket,
        &[
            libc::AF_UNIX as i64,
            (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as i64,
        ],
    ),
    (libc::SYS_sendto, &[0, 0, 0, 0, 1, 16]),
    (libc::SYS_sendto, &[0, 0, 0, libc::MSG_FASTOPEN as i64]),
    (libc::SYS_sendmsg, &[0, 0, libc::MSG_FASTOPEN as i64]),
    (
        libc::SYS_setsockopt,
        &[0, libc::SOL_SOCKET as i64, libc::SO_ATTACH_FILTER as i64],
    ),
    (
        libc::SYS_setsockopt,
        &[0, libc::SOL_SOCKET as i64, libc::SO_LINGER as i64],
    ),
    (
        libc::SYS_setsockopt,
        &[0, libc::IPPROTO_TCP as i64, libc::TCP_ULP as i64],
    ),
    (
        libc::SYS_setsockopt,
        &[
            0,
            libc::IPPROTO_TCP as i64,
            libc::TCP_FASTOPEN_CONNECT as i64,
        ],
    ),
    (libc::SYS_sched_setscheduler, &[OTHER]),
    (libc::SYS_sched_setparam, &[OTHER]),
    (libc::SYS_sched_setscheduler, &[0, libc::SCHED_FIFO as i64]),
    (libc::SYS_setpriority, &[0, OTHER, 19]),
    (libc::SYS_setpriority, &[1, 0, 19]),
    // Of all processes of this user.
    (libc::SYS_setpriority, &[2, 0, 19]),
    (libc::SYS_move_pages, &[OTHER]),
];

#[test]
fn dangerous_arguments_of_calls_that_a_role_has_are_refused() {
    let is_refused = |errno| errno == libc::EPERM;
    for role in [SESSION, FREE_SESSION] {
        answers(role, REFUSED, is_refused);
        answers(role, REFUSED_IN_SESSIONS, is_refused);
    }
    answers(
        FREE_SESSION,
        &[(libc::SYS_sched_setaffinity, &[OTHER])],
        is_refused,
    );
    answers(Role::Compiler, REFUSED, is_refused);
    for role in [SESSION, Role::Compiler] {
        answers(role, REFUSED_WITHOUT_NAMELESS_FILES, is_refused);
    }
    answers(FREE_SESSION, REFUSED_WITHOUT_NAMELESS_FILES, |errno| {
        !is_refused(errno)
    });
    let gpu = [(libc::SYS_ioctl, &[-1, 0x6400][..])];
    answers(Role::Compiler, &gpu, is_refused);
    let ends = [
        (libc::SYS_kill, &[OTHER, 9][..]),
        (libc::SYS_kill, &[-1, 9]),
        (libc::SYS_kill, &[0, 9]),
    ];
    answers(keeper(), &ends, is_refused);
}

/// Requests of drivers of GPUs: `NV_ESC_CARD_INFO`, the unified memory's first and another,
/// `DRM_IOCTL_VERSION`, `AMDKFD_IOC_GET_VERSION`, and those of shared buffers.
const ALLOWED_REQUESTS: &[i64] = &[
    0xc00a_46c8,
    0x3000_0001,
    27,
    0xc040_6400,
    0x8008_4b01,
    0x4008_6200,
    0xc030_3e03,
];

#[test]
fn a_session_gets_what_drivers_ask_for() {
    let is_answered = |errno| ![libc::EPERM, libc::ENOSYS].contains(&errno);
    for request in ALLOWED_REQUESTS {
        let (wrong, _) = within(SESSION, |said| {
            if !is_answered(errno_of(libc::SYS_ioctl, [-1, *request, 0, 0, 0, 0])) {
                said.say(*request);
            }
        });
        assert_eq!(wrong, Vec::<i64>::new());
    }
    let (wrong, status) = within(FREE_SESSION, |said| {
        let calls: [Call; 8] = [
            (libc::SYS_fcntl, &[0, libc::F_GETFL as i64]),
            (libc::SYS_fcntl, &[-1, libc::F_SETFL as i64, 0x800]),
            (libc::SYS_prctl, &[libc::PR_GET_TIMERSLACK as i64]),
            (libc::SYS_prlimit64, &[0]),
            (libc::SYS_sched_setaffinity, &[0, 0, 0]),
            (libc::SYS_sendto, &[-1]),
            (libc::SYS_move_pages, &[0]),
            (libc::SYS_setpriority, &[0, 0, 5]),
        ];
        for (place, (number, given)) in calls.iter().enumerate() {
            let mut arguments = [0; 6];
            arguments[..given.len()].copy_from_slice(given);
            if !is_answered(errno_of(*number, arguments)) {
                said.say(place as i64);
            }
        }
        let own = i64::from(std::process::id());
        if errno_of(libc::SYS_kill, [own, 0, 0, 0, 0, 0]) != 0 {
            said.say(100);
        }
    });
    assert_eq!((wrong, status), (Vec::new(), 0));
}

/// Threads, programs and their ends.
#[test]
fn a_session_and_a_compiler_start_threads_and_programs() {
    for role in [SESSION, Role::Compiler] {
        let (wrong, status) = within(role, |said| {
            let thread = std::thread::Builder::new().name("named".to_owned());
            if thread
                .spawn(|| {})
                .is_ok_and(|thread| thread.join().is_ok())
            {
                let said_so = std::process::Command::new("sh")
                    .args(["-c", "uname >/dev/null && echo yes | cat"])
                    .output();
                if said_so.is_ok_and(|output| output.stdout == b"yes\n") {
                    return;
                }
            }
            said.say(1);
        });
        assert_eq!((wrong, status), (Vec::new(), 0), "{role:?}");
    }
}

/// A linker reserves the room of its output before it maps it.
#[test]
fn who_may_not_reserve_room_in_a_file_is_taken_at_its_word_and_writes() {
    let folder = std::env::temp_dir();
    let name = folder.join(format!("quipu-reserved-{}", std::process::id()));
    let file = std::fs::File::create_new(&name).unwrap();
    std::fs::remove_file(&name).unwrap();
    const BYTES: i64 = 100_000;
    const KEEP_SIZE: i64 = libc::FALLOC_FL_KEEP_SIZE as i64;
    for role in [SESSION, Role::Compiler] {
        let (wrong, status) = within(role, |said| {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            for mode in [0, KEEP_SIZE] {
                let errno = errno_of(libc::SYS_fallocate, [fd.into(), mode, 0, BYTES, 0, 0]);
                if errno != libc::EOPNOTSUPP {
                    said.say(mode);
                }
            }
            // SAFETY: it takes numbers.
            if unsafe { libc::posix_fallocate(fd, 0, BYTES) } != 0 {
                said.say(2);
            }
        });
        assert_eq!((wrong, status), (Vec::new(), 0), "{role:?}");
    }
    assert_eq!(file.metadata().unwrap().len(), BYTES.cast_unsigned());
}

#[test]
fn a_session_that_starts_a_compiler_narrows_it() {
    let (wrong, status) = within(SESSION, |said| {
        let narrowed = Filters::of(Role::Compiler).and_then(|filters| filters.enter());
        let socket = [i64::from(libc::AF_UNIX), 1, 0, 0, 0, 0];
        if narrowed.is_err() || errno_of(libc::SYS_socket, socket) != libc::ENOSYS {
            said.say(1);
        }
    });
    assert_eq!((wrong, status), (Vec::new(), 0));
}

#[test]
fn a_keeper_ends_the_group_that_it_keeps() {
    // Of a number that no process can have.
    const NOBODY: u32 = 0x3fff_ffff;
    let (wrong, status) = within(Role::Keeper { session: NOBODY }, |said| {
        let group = -i64::from(NOBODY);
        if errno_of(libc::SYS_kill, [group, 9, 0, 0, 0, 0]) != libc::ESRCH {
            said.say(1);
        }
        if errno_of(libc::SYS_kill, [group, 1, 0, 0, 0, 0]) != libc::EPERM {
            said.say(2);
        }
        if errno_of(libc::SYS_wait4, [-1, 0, 1, 0, 0, 0]) != libc::ECHILD {
            said.say(3);
        }
    });
    assert_eq!((wrong, status), (Vec::new(), 0));
}

/// The entry for programs of 32 bits has other numbers.
#[cfg(target_arch = "x86_64")]
#[test]
fn who_enters_the_system_as_a_program_of_32_bits_is_ended() {
    for role in [SESSION, Role::Compiler, keeper()] {
        let (wrong, status) = within(role, |said| {
            // SAFETY: it asks for the process's number, in the 32-bit call 20, which changes a
            // register that is named.
            unsafe {
                std::arch::asm!("int 0x80", inlateout("eax") 20 => _, options(nostack));
            }
            said.say(1);
        });
        assert_eq!(wrong, Vec::<i64>::new());
        assert_eq!(libc::WTERMSIG(status), libc::SIGSYS, "{status}");
    }
}

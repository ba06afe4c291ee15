//! Kernels that do their worst, and some that mean no harm.

use crate::KEYS;
use quipu_kernel_ir::Module;
use quipu_link::timer::ManualTimer;
use quipu_node::Maker;
use quipu_node::native::Name;
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{CodeKey, ErrorKind, Passed, PortableKernel, RawArgument};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

// Kernels are known by their addresses. Those that several modules name are not inlined, so that
// each has one.

/// The time of a session's process, which passes only when a kernel says so.
pub(super) static TIME: LazyLock<Arc<ManualTimer>> = LazyLock::new(Arc::default);

/// A kernel that means no good, or some.
struct Kernel(fn() -> Result<(), String>);

impl NativeKernel for Kernel {
    fn name(&self) -> &'static str {
        "a test's kernel"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        (self.0)().map_err(|message| {
            ErrorKind::Kernel {
                what: "a test's kernel".to_owned(),
                message,
            }
            .into()
        })
    }
}

/// A kernel for devices that take code, which is never compiled.
struct NeverCompiled;

impl NativeKernel for NeverCompiled {
    fn name(&self) -> &'static str {
        "a test's kernel"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        Ok(())
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }
}

// SAFETY: there is never any code.
unsafe impl PortableKernel for NeverCompiled {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> quipu_scheduler::Result<Arc<dyn Any + Send + Sync>> {
        loop {
            TIME.advance(Duration::from_secs(1));
        }
    }

    fn pass(&self, _: &[Argument<'_>], _: &mut Passed) -> quipu_scheduler::Result<()> {
        Ok(())
    }
}

/// The number of its program.
pub(super) const NEVER_COMPILED: u8 = 100;

pub(super) fn crash() -> Result<(), String> {
    // SAFETY: none at all. This is what kernels of others may do.
    unsafe { std::ptr::null_mut::<u8>().wrapping_add(8).write_volatile(1) };
    Ok(())
}

pub(super) fn abort() -> Result<(), String> {
    std::process::abort()
}

#[inline(never)]
pub(super) fn loop_for_ever() -> Result<(), String> {
    loop {
        std::hint::spin_loop();
    }
}

pub(super) fn let_time_pass_for_ever() -> Result<(), String> {
    loop {
        TIME.advance(Duration::from_secs(1));
    }
}

/// True on the thread that receives commands, which runs what is known to be brief.
fn is_on_receiver() -> bool {
    std::thread::current().name() == Some("quipu-session")
}

pub(super) fn let_time_pass_for_ever_once_brief() -> Result<(), String> {
    match is_on_receiver() {
        true => let_time_pass_for_ever(),
        false => Ok(()),
    }
}

/// Fails the first time, so that the client knows.
pub(super) fn loop_for_ever_once_brief() -> Result<(), String> {
    static BEFORE: AtomicBool = AtomicBool::new(false);
    match is_on_receiver() {
        true if BEFORE.swap(true, Ordering::SeqCst) => loop_for_ever(),
        true => Err("it is brief".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn eat_memory() -> Result<(), String> {
    let mut all = Vec::new();
    loop {
        // Written, so that it is there.
        all.push(vec![1_u8; 1 << 24]);
    }
}

/// Starts a process, in which `child` is called. Its number.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child calls what needs no lock that another thread may have.
    let process = unsafe { libc::fork() };
    if process == 0 {
        child();
        // SAFETY: it returns to nobody.
        unsafe { libc::_exit(0) };
    }
    process
}

fn sleep_for_ever() {
    loop {
        // SAFETY: it takes nothing.
        unsafe { libc::pause() };
    }
}

/// Leaves a process behind that has all that this has, and one that has been started by it and has
/// lost it.
#[inline(never)]
pub(super) fn leave_others_behind() -> Result<(), String> {
    match fork(sleep_for_ever) {
        -1 => return Err("it could start no process".to_owned()),
        _ => fork(|| {
            fork(sleep_for_ever);
        }),
    };
    Ok(())
}

/// As many as would get in others' way, and no more: the machine is not the test's alone.
pub(super) fn fork_and_fork() -> Result<(), String> {
    for _ in 0..1000 {
        fork(sleep_for_ever);
    }
    Ok(())
}

/// Memory that is written to, of which no process has more than it may.
pub(super) fn eat_memory_together() -> Result<(), String> {
    const BYTES: usize = 600 << 20;
    loop {
        fork(|| {
            // SAFETY: new memory, which nobody else knows of, is written to where it is.
            unsafe {
                let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
                let both = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(std::ptr::null_mut(), BYTES, both, kept, -1, 0);
            }
            sleep_for_ever();
        });
        // A few at a time, so that the machine has enough for who is to see it.
        // SAFETY: it takes a number.
        unsafe { libc::usleep(200_000) };
    }
}

pub(super) fn write_for_ever() -> Result<(), String> {
    for number in 0.. {
        let path = std::env::temp_dir().join(number.to_string());
        // With holes, so that it takes no room.
        std::fs::File::create(path)
            .and_then(|file| file.set_len(200 << 20))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

pub(super) fn stand_still() -> Result<(), String> {
    // SAFETY: it takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
    Ok(())
}

#[inline(never)]
pub(super) fn behave() -> Result<(), String> {
    Ok(())
}

/// Attempts at the node's key where the kernel has no Landlock: a file of the same user's, which it
/// may read; fails if it is found.
pub(super) fn look_for_key() -> Result<(), String> {
    std::fs::read("/etc/passwd").map_err(|error| format!("there is Landlock: {error}"))?;
    let keys = std::path::PathBuf::from(std::env::var(KEYS).unwrap());
    let path = std::ffi::CString::new(keys.to_str().unwrap()).unwrap();
    let is_found = || std::fs::read_dir(&keys).is_ok_and(|entries| entries.count() > 0);
    if is_found() {
        return Err("it is there".to_owned());
    }
    // SAFETY: numbers, and a text that is there until the call returns.
    unsafe {
        libc::umount2(path.as_ptr(), libc::MNT_DETACH);
        libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
        libc::umount2(path.as_ptr(), libc::MNT_DETACH);
    }
    match is_found() {
        true => Err("it is there again".to_owned()),
        false => Ok(()),
    }
}

/// Attempts at everything that nobody in a session should get at; the kernel fails with those that
/// succeeded.
pub(super) fn pry() -> Result<(), String> {
    let node = std::os::unix::process::parent_id();
    let mut done = Vec::new();
    let keys = std::path::PathBuf::from(std::env::var(KEYS).unwrap());
    for name in ["node.key", "clients", "lock"] {
        if std::fs::read(keys.join(name)).is_ok() {
            done.push(format!("read {name}"));
        }
    }
    for file in [
        "mem",
        "environ",
        "maps",
        "root/etc/passwd",
        "net/tcp",
        "stat",
    ] {
        let opened = std::fs::File::open(format!("/proc/{node}/{file}"));
        let mut byte = [0];
        // Some can be opened, and are empty then.
        if opened.is_ok_and(|mut file| {
            std::io::Read::read(&mut file, &mut byte).is_ok_and(|read| read > 0)
        }) {
            done.push(format!("looked into the node's {file}"));
        }
    }
    for file in ["/etc/passwd", "/root", "/home", "/sys/kernel", "/proc/1"] {
        if std::fs::File::open(file).is_ok() {
            done.push(format!("opened {file}"));
        }
    }
    for groups in ["", "pids", "memory"] {
        let processes = std::path::Path::new("/sys/fs/cgroup")
            .join(groups)
            .join("cgroup.procs");
        if std::fs::OpenOptions::new()
            .write(true)
            .open(processes)
            .is_ok()
        {
            done.push(format!("could leave its control group {groups}"));
        }
    }
    if std::fs::write("/usr/quipu-was-here", "").is_ok() {
        done.push("wrote to the system".to_owned());
    }
    // SAFETY: they take numbers.
    unsafe {
        if libc::kill(node.cast_signed(), 0) == 0 {
            done.push("could end the node".to_owned());
        }
        if libc::ptrace(libc::PTRACE_ATTACH, node.cast_signed(), 0, 0) == 0 {
            done.push("took the node over".to_owned());
        }
        if libc::setsid() >= 0 {
            done.push("got away".to_owned());
        }
        let more = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        if libc::setrlimit(libc::RLIMIT_DATA, &raw const more) == 0 {
            done.push("lifted its limits".to_owned());
        }
    }
    if std::net::TcpStream::connect("127.0.0.1:1")
        .is_err_and(|error| error.kind() != std::io::ErrorKind::PermissionDenied)
        || std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
    {
        done.push("reached the network".to_owned());
    }
    done.extend(memory_without_limits());
    done.extend(words_of_the_system());
    done.extend(gifts());
    done.extend(reach_of_others(node.cast_signed()));
    done.extend(crate::confinement::other_calls());
    // Landlock does not look at the modes of files.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    if std::fs::set_permissions(keys.join("node.key"), open).is_ok() {
        done.push("opened the key to everyone".to_owned());
    }
    // And what it needs works.
    let scratch = std::env::temp_dir().join("file");
    if let Err(error) = std::fs::write(scratch, "x") {
        done.push(format!("could not use its own folder: {error}"));
    }
    if done.is_empty() {
        return Ok(());
    }
    Err(done.join(", "))
}

/// Attempts that touch other processes of the user, and new namespaces, as far as they can be had.
fn reach_of_others(node: libc::pid_t) -> Vec<String> {
    let mut done = Vec::new();
    let mut tried = |what: &str, result: libc::c_long| {
        if result >= 0 {
            done.push(what.to_owned());
        }
    };
    let node = libc::c_long::from(node);
    let priority = libc::sched_param { sched_priority: 0 };
    let call = |number, arguments: [libc::c_long; 3]| {
        let [a, b, c] = arguments;
        // SAFETY: they take numbers, and one that is there until the call returns.
        unsafe { libc::syscall(number, a, b, c) }
    };
    let (local, datagram) = (libc::AF_UNIX.into(), libc::SOCK_DGRAM.into());
    tried(
        "a socket for datagrams",
        call(libc::SYS_socket, [local, datagram, 0]),
    );
    tried(
        "the node's signals",
        call(libc::SYS_fcntl, [0, libc::F_SETOWN.into(), node]),
    );
    tried("signals of a file", call(libc::SYS_fcntl, [0, 10, 9]));
    tried(
        "the node's priority",
        call(libc::SYS_setpriority, [0, node, 19]),
    );
    let priority = (&raw const priority).expose_provenance() as libc::c_long;
    let batch = libc::SCHED_BATCH.into();
    tried(
        "the user's priority",
        call(
            libc::SYS_setpriority,
            [libc::PRIO_USER as libc::c_long, 0, 19],
        ),
    );
    tried(
        "the node's cores",
        call(libc::SYS_sched_setaffinity, [node, 0, 0]),
    );
    tried("the node's limits", call(libc::SYS_prlimit64, [node, 7, 0]));
    tried(
        "the node's scheduling",
        call(libc::SYS_sched_setscheduler, [node, batch, priority]),
    );
    let file_system = c"tmpfs".as_ptr().expose_provenance() as libc::c_long;
    tried("a file system", call(libc::SYS_fsopen, [file_system, 0, 0]));
    let child = call(
        libc::SYS_clone,
        [(libc::CLONE_NEWUSER | libc::SIGCHLD).into(), 0, 0],
    );
    if child == 0 {
        // SAFETY: it returns to nobody.
        unsafe { libc::_exit(0) };
    }
    tried("a namespace", child);
    done
}

/// NVIDIA's library makes files without a name as it begins, and names threads of others.
fn has_nvidia() -> bool {
    std::path::Path::new("/dev/nvidiactl").exists()
}

/// The system's files on the process and its threads, as far as they can be changed.
fn words_of_the_system() -> Vec<String> {
    // SAFETY: it takes nothing.
    let thread = unsafe { libc::gettid() };
    let files = [
        "oom_score_adj",
        "oom_adj",
        "mem",
        "clear_refs",
        "comm",
        "uid_map",
        "attr/current",
        "coredump_filter",
        "timerslack_ns",
        "autogroup",
    ];
    let mut done = Vec::new();
    for folder in ["self".to_owned(), format!("self/task/{thread}")] {
        if has_nvidia() && folder != "self" {
            continue;
        }
        for file in files {
            let path = format!("/proc/{folder}/{file}");
            if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
                done.push(format!("could write to {path}"));
            }
        }
    }
    done
}

/// Gifts to another process, as far as they can be had without another's doing: it would keep
/// memory and files that belong to none.
fn gifts() -> Vec<String> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
    let made = (made == 0).then(|| "made a connection".to_owned());
    made.into_iter().collect()
}

/// Memory that a process's limits do not see, as far as it can be had.
fn memory_without_limits() -> Vec<String> {
    let mut done = Vec::new();
    let map = |flags: libc::c_int| {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory that nobody else knows of.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 4096, both, flags, -1, 0) };
        memory != libc::MAP_FAILED
    };
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    if map(anonymous | libc::MAP_GROWSDOWN) || map(anonymous | libc::MAP_HUGETLB) {
        done.push("mapped memory that does not count".to_owned());
    }
    if !has_nvidia() {
        if map(libc::MAP_SHARED | libc::MAP_ANONYMOUS) {
            done.push("mapped memory that it does not keep".to_owned());
        }
        if std::fs::File::open("/dev/zero").is_ok() {
            done.push("opened /dev/zero".to_owned());
        }
    }
    let name = format!("/dev/shm/quipu-test-{}", std::process::id());
    if std::fs::write(&name, "x").is_ok() {
        done.push("shared memory".to_owned());
        let _ = std::fs::remove_file(&name);
    }
    // SAFETY: they take numbers and names; what they give is not used.
    unsafe {
        // NVIDIA's library makes one as it begins.
        if !has_nvidia() && libc::memfd_create(c"quipu".as_ptr(), 0) >= 0 {
            done.push("made memory with a file".to_owned());
        }
        if libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) >= 0 {
            done.push("made memory without a process".to_owned());
        }
        if libc::msgget(libc::IPC_PRIVATE, 0o600) >= 0
            || libc::syscall(
                libc::SYS_mq_open,
                c"quipu".as_ptr(),
                libc::O_CREAT,
                0o600,
                0,
            ) >= 0
        {
            done.push("left messages behind".to_owned());
        }
        // It would end the process.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let large = std::env::temp_dir().join("large");
    let made = std::fs::File::create(&large);
    if made
        .as_ref()
        .is_ok_and(|file| file.set_len(1 << 40).is_ok())
    {
        done.push("wrote a file of any size".to_owned());
    }
    // SAFETY: it takes numbers.
    let is_kept = |fd| unsafe { libc::fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0 };
    if made.is_ok_and(|file| is_kept(std::os::fd::AsRawFd::as_raw_fd(&file))) {
        done.push("took a file system's room".to_owned());
    }
    let _ = std::fs::remove_file(large);
    done
}

/// A socket without a file that somebody could ask at, as CUDA's library makes one before it
/// begins.
fn listen_without_a_file() -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd};
    let name = format!("quipu-test-{}", std::process::id());
    // SAFETY: a number of plain fields, for which zeros are values.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let checked = |result: libc::c_int| match result {
        0.. => Ok(result),
        _ => Err(std::io::Error::last_os_error()),
    };
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the address is there, as long as said; the socket is open, and has one owner.
    unsafe {
        let raw = checked(libc::socket(libc::AF_UNIX, kind, 0))?;
        let socket = std::os::fd::OwnedFd::from_raw_fd(raw);
        let length = length as libc::socklen_t;
        checked(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length,
        ))?;
        checked(libc::listen(socket.as_raw_fd(), 1))?;
        Ok(socket)
    }
}

/// The steps of GPUs' libraries before they compute; the kernel fails with those that it could not
/// do.
pub(super) fn do_as_drivers_do() -> Result<(), String> {
    let mut failed = Vec::new();
    let mut tried = |what: &str, done: std::io::Result<()>| {
        if let Err(error) = done {
            failed.push(format!("{what}: {error}"));
        }
    };
    tried("listen without a file", listen_without_a_file().map(drop));
    // Of a thread that is started now, as the C library does it for others than the one that asks.
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        // SAFETY: it takes nothing.
        let _ = tell.send(unsafe { libc::gettid() });
        let _ = ended.recv();
    });
    let number = told.recv().unwrap();
    let name = format!("/proc/self/task/{number}/comm");
    // As the C library opens it.
    let opened = std::fs::File::options().read(true).write(true).open(name);
    let named = opened.and_then(|mut file| std::io::Write::write_all(&mut file, b"driver"));
    // For a vendor's library that needs it.
    if has_nvidia() {
        tried("name a thread", named);
    }
    drop(end);
    thread.join().unwrap();
    for file in [
        "/proc/self/maps",
        "/proc/thread-self/status",
        "/proc/cpuinfo",
        "/proc/devices",
        "/proc/meminfo",
        "/sys/devices/system/cpu/online",
    ] {
        tried(file, std::fs::read(file).map(drop));
    }
    let library = std::path::PathBuf::from(std::env::var("LD_LIBRARY_PATH").unwrap());
    tried(
        "read a library",
        std::fs::read(library.join("libdriver.so.1")).map(drop),
    );
    if std::fs::read(library.join("secret")).is_ok() {
        failed.push("read what is beside a library".to_owned());
    }
    // SAFETY: new memory that nobody else knows of.
    unsafe {
        // Addresses of all memory that a machine of GPUs may have.
        let (size, kept) = (
            1 << 40,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        let addresses = libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, kept, -1, 0);
        if addresses == libc::MAP_FAILED || libc::munmap(addresses, size) != 0 {
            failed.push("reserve addresses".to_owned());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join(", ")),
    }
}

/// Fails with what it could do though it is to keep to one core.
pub(super) fn take_more_cores() -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    if cores != 1 {
        return Err(format!("it has {cores} cores"));
    }
    // SAFETY: a set of bits, of which all are a value.
    let all: libc::cpu_set_t =
        unsafe { std::mem::transmute([u8::MAX; size_of::<libc::cpu_set_t>()]) };
    // SAFETY: as many bytes as said.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&all), &raw const all) } {
        0 => Err("it has taken more".to_owned()),
        _ => Ok(()),
    }
}

pub(super) const KERNELS: [fn() -> Result<(), String>; 17] = [
    behave,
    crash,
    abort,
    loop_for_ever,
    let_time_pass_for_ever,
    let_time_pass_for_ever_once_brief,
    loop_for_ever_once_brief,
    eat_memory,
    pry,
    do_as_drivers_do,
    take_more_cores,
    stand_still,
    leave_others_behind,
    fork_and_fork,
    eat_memory_together,
    write_for_ever,
    look_for_key,
];

pub(super) fn natives() -> HashMap<Name, Maker> {
    let never: Maker = Arc::new(|_| Ok(Box::new(NeverCompiled) as Box<_>));
    let all = KERNELS.iter().zip(0_u8..);
    all.map(|(kernel, number)| {
        let kernel = *kernel;
        let maker: Maker = Arc::new(move |_| Ok(Box::new(Kernel(kernel)) as Box<_>));
        ([number; 32], maker)
    })
    .chain([([NEVER_COMPILED; 32], never)])
    .collect()
}

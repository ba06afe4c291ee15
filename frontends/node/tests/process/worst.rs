//! Kernels that do their worst, and some that mean no harm.

use crate::KEYS;
use quipu_core::access::Argument;
use quipu_core::operation::NativeKernel;
use quipu_core::{CodeKey, ErrorKind, Passed, PortableKernel, RawArgument};
use quipu_kernel_ir::Module;
use quipu_link::timer::ManualTimer;
use quipu_node::Maker;
use quipu_node::native::Name;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The time of a session's process, which passes only when a kernel says so.
pub(super) static TIME: LazyLock<Arc<ManualTimer>> = LazyLock::new(Arc::default);

/// A kernel that means no good, or some.
struct Kernel(fn() -> Result<(), String>);

impl NativeKernel for Kernel {
    fn name(&self) -> &'static str {
        "a test's kernel"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_core::Result<()> {
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

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_core::Result<()> {
        Ok(())
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }
}

impl PortableKernel for NeverCompiled {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(0)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> quipu_core::Result<Arc<dyn Any + Send + Sync>> {
        loop {
            TIME.advance(Duration::from_secs(1));
        }
    }

    fn pass(&self, _: &[Argument], _: &mut Passed) -> quipu_core::Result<()> {
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

pub(super) fn stand_still() -> Result<(), String> {
    // SAFETY: it takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
    Ok(())
}

pub(super) fn behave() -> Result<(), String> {
    Ok(())
}

/// What nobody in a session should get at; the kernel fails with what it did.
pub(super) fn pry() -> Result<(), String> {
    let node = std::os::unix::process::parent_id();
    let mut done = Vec::new();
    let keys = std::path::PathBuf::from(std::env::var(KEYS).unwrap());
    for name in ["node.key", "clients", "lock"] {
        if std::fs::read(keys.join(name)).is_ok() {
            done.push(format!("read {name}"));
        }
    }
    for file in ["mem", "environ", "maps", "root/etc/passwd"] {
        let opened = std::fs::File::open(format!("/proc/{node}/{file}"));
        let mut byte = [0];
        // Some can be opened, and are empty then.
        if opened.is_ok_and(|mut file| {
            std::io::Read::read(&mut file, &mut byte).is_ok_and(|read| read > 0)
        }) {
            done.push(format!("looked into the node's {file}"));
        }
    }
    for file in ["/etc/passwd", "/root", "/home"] {
        if std::fs::File::open(file).is_ok() {
            done.push(format!("opened {file}"));
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

/// A socket without a file that somebody could ask at, as CUDA's library makes one before it begins.
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

/// What GPUs' libraries do before they compute; the kernel fails with what it could not do.
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
    tried("name a thread", named);
    drop(end);
    thread.join().unwrap();
    for file in [
        "/proc/self/maps",
        "/proc/devices",
        "/sys/devices/system/cpu/online",
    ] {
        tried(file, std::fs::read(file).map(drop));
    }
    let shared = format!("/dev/shm/quipu-test-{}", std::process::id());
    tried("share memory", std::fs::write(&shared, "x"));
    tried("take it back", std::fs::remove_file(&shared));
    let library = std::path::PathBuf::from(std::env::var("LD_LIBRARY_PATH").unwrap());
    tried(
        "read a library",
        std::fs::read(library.join("libdriver.so.1")).map(drop),
    );
    if std::fs::read(library.join("secret")).is_ok() {
        failed.push("read what is beside a library".to_owned());
    }
    // SAFETY: new memory that nobody else knows of, and its file.
    unsafe {
        let file = libc::memfd_create(c"driver".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 || libc::close(file) != 0 {
            failed.push("make memory with a file".to_owned());
        }
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

pub(super) const KERNELS: [fn() -> Result<(), String>; 12] = [
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

//! Signals of the program, which none of the library's threads takes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use support::*;

/// Signals by their numbers, as a set of bits.
fn set_of(signals: &[i32]) -> u64 {
    signals.iter().map(|signal| 1 << (signal - 1)).sum()
}

/// The names of the library's threads, and which signals each blocks.
fn threads() -> Vec<(String, u64)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let all = tasks.map(|task| {
        let task = task.unwrap().path();
        let status = read(task.join("status"));
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.map_or(0, |bits| u64::from_str_radix(bits.trim(), 16).unwrap());
        (read(task.join("comm")).trim().to_owned(), blocked)
    });
    all.filter(|(name, _)| name.starts_with("quipu")).collect()
}

unsafe extern "C" fn ended(_event: cl_event, _status: cl_int, data: *mut std::ffi::c_void) {
    // SAFETY: the test passes a sender.
    let sender = unsafe { &*data.cast::<Sender<()>>() };
    sender.send(()).unwrap();
}

#[test]
fn no_thread_of_the_library_takes_signals_of_the_program() {
    // Two contexts, a callback and commands: so there are all threads that a process has with
    // processors alone.
    let setups = [Setup::new(), Setup::new()];
    let (sender, is_called) = channel::<()>();
    let data = (&raw const sender).cast_mut().cast();
    for setup in &setups {
        let buffer = setup.buffer(&[0_u8; 1 << 16]);
        let mut event = null_mut();
        // SAFETY: a pattern of one byte; where the event goes; a function of the right type.
        unsafe {
            ok(clEnqueueFillBuffer()(
                setup.queue,
                buffer,
                [1_u8].as_ptr().cast(),
                1,
                0,
                1 << 16,
                0,
                null(),
                &raw mut event,
            ));
            ok(clSetEventCallback()(event, CL_COMPLETE, Some(ended), data));
        }
        is_called.recv_timeout(Duration::from_secs(30)).unwrap();
        setup.do_other_things();
    }
    let threads = threads();
    for name in ["quipu-cpu-0", "quipu-callbacks"] {
        assert!(threads.iter().any(|(one, _)| one == name), "{threads:?}");
    }
    let of_program = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGCHLD,
        libc::SIGPIPE,
    ];
    let own = [
        libc::SIGSEGV,
        libc::SIGFPE,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGPROF,
    ];
    let (of_program, own) = (set_of(&of_program), set_of(&own));
    for (name, blocked) in threads {
        assert_eq!(
            blocked & of_program,
            of_program,
            "{name} takes signals: {blocked:x}"
        );
        assert_eq!(
            blocked & own,
            0,
            "{name} holds back its own faults: {blocked:x}"
        );
    }
}

//! A kernel without Landlock, as far as a filter plays one.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io;

/// Has this thread, and all that it starts, find no Landlock. It calls the system alone, twice.
pub(crate) fn enter_without() -> io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let gives = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The call's number is first of what it looks at.
        step(load, 0, 0, 0),
        step(jump, 0, 1, libc::SYS_landlock_create_ruleset as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: numbers, and a filter that is there until the call returns.
    let entered = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter,
            ) == 0
    };
    match entered {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

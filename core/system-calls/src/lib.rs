//! Allow lists of system calls, one for each [`Role`] of a process.
//!
//! `table` lists the calls, with the roles that may make them and the arguments that are allowed.
//! `filter` makes seccomp filters of it and installs them:
//!
//! | the process makes | it gets |
//! |---|---|
//! | a call of the table, with allowed arguments | the call |
//! | a call of the table, with other arguments | `EPERM` |
//! | `fallocate` | `EOPNOTSUPP`, as of a file system without it, so that libraries write instead |
//! | any other call, also by the numbers of x32 | `ENOSYS`, as on a kernel without the call, so that libraries do without it |
//! | a call by the numbers of a 32-bit processor | its end by `SIGSYS` |
//!
//! Filters hold for all threads of the process, and for every process that it starts. A process may
//! enter a second role: then the filters of both hold. The kernel logs refused calls
//! (`SECCOMP_FILTER_FLAG_LOG`), but for those that libraries often try and do without.
//!
//! A filter sees numbers and no memory. So `clone3`, whose flags are in memory, is no call of the
//! table.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod filter;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod table;

use std::io;

/// The work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves one client of a node, whose code may run in it.
    Session {
        /// It may choose the cores that its threads run on.
        chooses_cores: bool,
        /// It may make files without a name, and memory that processes share, which are memory that
        /// its limits do not see.
        has_nameless_files: bool,
    },
    /// Compiles the code of a client or a program, and starts compilers.
    Compiler,
    /// Ends the processes of a session.
    Keeper {
        /// The session's process, whose number its group has too.
        session: u32,
    },
}

/// The filters of a role for this process, not yet installed.
#[derive(Debug)]
pub struct Filters(
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    filter::Programs,
);

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
impl Filters {
    /// The filters of a role. Only the process that this is called in may [enter](Self::enter)
    /// them: they have its number.
    ///
    /// # Errors
    /// If the role's part of the table is too long for a filter.
    pub fn of(role: Role) -> io::Result<Self> {
        filter::Programs::of(role).map(Self)
    }

    /// Holds all threads of this process to the role, and keeps them from getting rights by
    /// starting a program.
    ///
    /// # Errors
    /// If the kernel has no seccomp filters that log, which came with Linux 4.14, or another filter
    /// of the process refuses them.
    pub fn enter(&self) -> io::Result<()> {
        self.0.install()
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
impl Filters {
    /// The filters of a role.
    ///
    /// # Errors
    /// Always: there is no table for this system.
    pub fn of(_: Role) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "system calls are restricted on Linux for x86-64 and AArch64 only",
        ))
    }

    /// Holds this process to the role.
    ///
    /// # Errors
    /// Never, for there are no filters.
    pub fn enter(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Role {
    /// True if processes of this role may make the call of this number, if only with some
    /// arguments.
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    #[must_use]
    pub fn has_call(self, number: i64) -> bool {
        table::calls_of(self).any(|(call, _)| call == number)
    }

    /// The error of the call of this number, if processes of this role may not make it at all.
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    #[must_use]
    pub fn refusal(self, number: i64) -> Option<i32> {
        let error = match table::UNSUPPORTED.contains(&number) {
            true => libc::EOPNOTSUPP,
            false => libc::ENOSYS,
        };
        (!self.has_call(number)).then_some(error)
    }
}

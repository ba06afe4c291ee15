//! The table as seccomp filters.
//!
//! One filter looks at arguments, and answers `EPERM` to all calls that no rule allows. A second
//! one, installed after it, answers `ENOSYS` to calls that the role does not have. A third one does
//! so for those of them whose refusal is not logged, and a fourth answers `EOPNOTSUPP` to some. Of
//! several refusals the kernel takes that of the filter that came last.

use crate::Role;
use crate::table::{EXPECTED, Test, UNSUPPORTED, calls_of};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// The filters, in the order in which they are installed.
#[derive(Debug)]
pub(crate) struct Programs {
    logged: [BpfProgram; 2],
    silent: [BpfProgram; 2],
}

impl Programs {
    pub(crate) fn of(role: Role) -> io::Result<Self> {
        Self::compile(role).map_err(io::Error::other)
    }

    fn compile(role: Role) -> Result<Self, BackendError> {
        let mut with_arguments: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for (call, rules) in calls_of(role) {
            let all = with_arguments.entry(call).or_default();
            for tests in rules {
                let conditions = tests.iter().map(|test| condition(*test, role));
                all.push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
            }
        }
        let calls: BTreeMap<i64, Vec<SeccompRule>> = with_arguments
            .keys()
            .map(|call| (*call, Vec::new()))
            .collect();
        let expected = EXPECTED.iter().filter(|call| !calls.contains_key(call));
        let expected = expected.map(|call| (*call, Vec::new())).collect();
        let unsupported = UNSUPPORTED.iter().map(|call| (*call, Vec::new()));
        let unsupported = unsupported.collect();
        let errno = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
        let allow = SeccompAction::Allow;
        Ok(Self {
            logged: [
                program(with_arguments, errno(libc::EPERM), allow.clone())?,
                program(calls, errno(libc::ENOSYS), allow.clone())?,
            ],
            silent: [
                program(expected, allow.clone(), errno(libc::ENOSYS))?,
                program(unsupported, allow, errno(libc::EOPNOTSUPP))?,
            ],
        })
    }

    pub(crate) fn install(&self) -> io::Result<()> {
        // SAFETY: it takes numbers.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for program in &self.logged {
            install(program, libc::SECCOMP_FILTER_FLAG_LOG)?;
        }
        self.silent
            .iter()
            .try_for_each(|program| install(program, 0))
    }
}

/// A filter with an action for calls that no rule describes, and one for those that a rule does.
fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    described: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, described, architecture)?.try_into()
}

/// Installs a filter for all threads.
fn install(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program
            .len()
            .try_into()
            .map_err(|_| io::ErrorKind::InvalidInput)?,
        // Both types are the kernel's, which only reads them.
        filter: program.as_ptr().cast_mut().cast(),
    };
    let flags = flags | libc::SECCOMP_FILTER_FLAG_TSYNC;
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the filter, which is only read, is there until the call returns, as long as it says.
    match unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) } {
        0 => Ok(()),
        1.. => Err(io::Error::other(
            "another thread has filters that this one has not",
        )),
        _ => Err(io::Error::last_os_error()),
    }
}

fn condition(test: Test, role: Role) -> Result<SeccompCondition, BackendError> {
    let (argument, length, is, value) = match test {
        Test::Is(argument, value) => (
            argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            value.into(),
        ),
        Test::Masked(argument, mask, value) => {
            let masked = SeccompCmpOp::MaskedEq(mask.into());
            (argument, SeccompCmpArgLen::Dword, masked, value.into())
        }
        Test::IsNull(argument) => (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
        Test::IsOwn(argument) => {
            let own = std::process::id().into();
            (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)
        }
        Test::IsKept(argument) => {
            let group = match role {
                Role::Keeper { session } => session.wrapping_neg(),
                Role::Session { .. } | Role::Compiler => 0,
            };
            (
                argument,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::Eq,
                group.into(),
            )
        }
    };
    SeccompCondition::new(argument, length, is, value)
}

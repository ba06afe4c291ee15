//! A launch's kernel, and how long it takes.

use super::text::{Code, TextLaunch};
use crate::watch::Stopwatch;
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::portable::PortableKernel;
use quipu_scheduler::{BuiltIn, CodeKey, Error, ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A launch that takes less is run by the thread that hears of it.
const BRIEF: Duration = Duration::from_micros(5);

/// The time that a program's work-groups took, on the whole.
#[derive(Default)]
pub(crate) struct Pace {
    /// Picoseconds of one; zero if it is not known.
    group_ps: AtomicU64,
    /// Runs since it was last measured.
    unmeasured: AtomicU32,
}

/// One of so many runs is measured, as long as they are short.
const MEASURED: u32 = 8;

impl Pace {
    /// So many have taken so long.
    fn note(&self, took: Duration, groups: u64) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let new = took.saturating_mul(1000) / groups.max(1);
        let before = self.group_ps.load(Ordering::Relaxed);
        // A quarter of the new: one that was held up does not decide for long. Of two at once one
        // may be forgotten.
        let pace = match before {
            0 => new,
            before => before / 4 * 3 + new / 4,
        };
        self.group_ps.store(pace.max(1), Ordering::Relaxed);
    }

    /// True if the next run is to be measured.
    fn is_due(&self) -> bool {
        let runs = self.unmeasured.load(Ordering::Relaxed);
        // Of two at once one may not be counted.
        self.unmeasured
            .store(runs.wrapping_add(1), Ordering::Relaxed);
        runs.is_multiple_of(MEASURED) || !self.is_brief(1)
    }

    fn is_brief(&self, groups: u32) -> bool {
        let pace = self.group_ps.load(Ordering::Relaxed);
        let takes_ps = u128::from(pace) * u128::from(groups);
        pace != 0 && takes_ps < BRIEF.as_nanos() * 1000
    }
}

fn invalid(what: &'static str, problem: String) -> Error {
    ErrorKind::InvalidArgument { what, problem }.into()
}

/// The pace of a program's work-groups, and the stopwatch that looks that none takes too long, if
/// there is a limit.
type Times = (Arc<Pace>, Option<Stopwatch>);

/// A launch's kernel. Launches that say the same have it together.
#[derive(Clone)]
pub(crate) struct NodeKernel(Arc<Kind>);

pub(crate) enum Kind {
    /// A text, on this machine's processors.
    Compiled(TextLaunch),
    /// The same, on a device whose driver compiles it.
    Text(Code, CodeKey, Passed, Option<Stopwatch>),
    BuiltIn(Arc<BuiltIn>, CodeKey, Passed),
    Native(Box<dyn NativeKernel>, Times),
    /// A kernel of the node's own, on a device that runs no native code.
    Printed(Box<dyn NativeKernel>, Option<Stopwatch>),
}

impl NodeKernel {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Arc::new(kind))
    }

    /// True if it may be kept for launches that say the same.
    pub(crate) fn serves_many_launches(&self) -> bool {
        match &*self.0 {
            Kind::Compiled(..) | Kind::Text(..) | Kind::BuiltIn(..) => true,
            Kind::Native(kernel, _) | Kind::Printed(kernel, _) => kernel.serves_many_launches(),
        }
    }

    /// The printed form of a kernel of the node's own, for devices that run no native code.
    fn printed(&self) -> Option<&dyn PortableKernel> {
        match &*self.0 {
            Kind::Printed(kernel, _) => kernel.portable(),
            _ => None,
        }
    }
}

impl NativeKernel for NodeKernel {
    fn name(&self) -> &'static str {
        match &*self.0 {
            Kind::Compiled(..) | Kind::Text(..) => "a client's kernel",
            Kind::BuiltIn(..) => "a built-in kernel",
            Kind::Native(kernel, _) | Kind::Printed(kernel, _) => kernel.name(),
        }
    }

    unsafe fn begin(&self, arguments: &[RawArgument]) -> Result<()> {
        match &*self.0 {
            // SAFETY: the memory is the launch's, and no group has begun: `NativeKernel::begin`
            // asks its caller for the same.
            Kind::Native(kernel, _) => unsafe { kernel.begin(arguments) },
            _ => Ok(()),
        }
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        match &*self.0 {
            // SAFETY: the memory is the launch's, and no group runs twice: `NativeKernel::run` asks
            // its caller for the same.
            Kind::Compiled(launch) => unsafe { launch.run(arguments, groups) },
            Kind::Text(..) | Kind::BuiltIn(..) | Kind::Printed(..) => {
                let problem = "it has no native code".to_owned();
                Err(invalid("launch a kernel", problem))
            }
            Kind::Native(kernel, (pace, stopwatch)) => {
                let count = groups.len() as u64;
                let start = pace.is_due().then(Instant::now);
                // SAFETY: the memory is the launch's, and no group runs twice: `NativeKernel::run`
                // asks its caller for the same.
                let run = || unsafe { kernel.run(arguments, groups) };
                let result = match stopwatch {
                    Some(stopwatch) => stopwatch.time(run),
                    None => run(),
                };
                if let Some(start) = start {
                    pace.note(start.elapsed(), count);
                }
                result
            }
        }
    }

    fn is_brief(&self, groups: u32) -> bool {
        match &*self.0 {
            Kind::Compiled(..) | Kind::Text(..) | Kind::BuiltIn(..) | Kind::Printed(..) => false,
            Kind::Native(_, (pace, _)) => pace.is_brief(groups),
        }
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        match &*self.0 {
            Kind::Text(..) | Kind::BuiltIn(..) => Some(self),
            Kind::Compiled(..) | Kind::Native(..) => None,
            Kind::Printed(..) => self.printed().map(|_| self as _),
        }
    }
}

// SAFETY: a text may do anything, for which its client answers: it runs for this session alone,
// whose process has no memory of others. A built-in kernel checks what is passed to it. A kernel of
// the node's own has a `PortableKernel` itself, which is asked.
unsafe impl PortableKernel for NodeKernel {
    fn key(&self) -> CodeKey {
        match &*self.0 {
            Kind::Text(_, key, ..) => *key,
            Kind::BuiltIn(_, key, _) => *key,
            Kind::Compiled(..) | Kind::Native(..) | Kind::Printed(..) => self
                .printed()
                .map_or(CodeKey::of::<Self>(0), PortableKernel::key),
        }
    }

    fn code_type(&self) -> TypeId {
        match &*self.0 {
            Kind::Text(code, ..) => code.code_type(),
            Kind::BuiltIn(..) => TypeId::of::<BuiltIn>(),
            Kind::Compiled(..) | Kind::Native(..) | Kind::Printed(..) => self
                .printed()
                .map_or(TypeId::of::<Self>(), PortableKernel::code_type),
        }
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        match &*self.0 {
            Kind::Text(code, ..) => Ok(code.for_driver()),
            Kind::BuiltIn(kernel, ..) => Ok(kernel.clone()),
            Kind::Compiled(..) | Kind::Native(..) | Kind::Printed(..) => {
                self.printed().map_or_else(is_native, PortableKernel::code)
            }
        }
    }

    fn while_compiling(&self, compile: &mut dyn FnMut()) {
        let stopwatch = match &*self.0 {
            Kind::Text(.., stopwatch) => stopwatch.as_ref(),
            Kind::Printed(_, stopwatch) => stopwatch.as_ref(),
            Kind::Compiled(..) | Kind::BuiltIn(..) | Kind::Native(..) => None,
        };
        match stopwatch {
            Some(stopwatch) => stopwatch.time_compiler(compile),
            None => compile(),
        }
    }

    fn pass(&self, arguments: &[Argument<'_>], passed: &mut Passed) -> Result<()> {
        match &*self.0 {
            Kind::Text(_, _, own, _) => passed.clone_from(own),
            Kind::BuiltIn(_, _, own) => passed.clone_from(own),
            Kind::Compiled(..) | Kind::Native(..) | Kind::Printed(..) => {
                return self
                    .printed()
                    .map_or_else(is_native, |kernel| kernel.pass(arguments, passed));
            }
        }
        Ok(())
    }
}

fn is_native<T>() -> Result<T> {
    Err(invalid("compile a kernel", "it is native".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_or_takes_long_is_not_brief() {
        let pace = Pace::default();
        assert!(!pace.is_brief(1));
        pace.note(Duration::from_nanos(400), 4);
        assert!(pace.is_brief(1) && pace.is_brief(49) && !pace.is_brief(51));
        assert!(!pace.is_brief(u32::MAX));
        // One that takes long is not followed by another, and is made good by short ones.
        pace.note(Duration::from_secs(1), 1);
        assert!(!pace.is_brief(1));
        for _ in 0..100 {
            pace.note(Duration::from_nanos(100), 1);
        }
        assert!(pace.is_brief(1));
        pace.note(Duration::MAX, 1);
        assert!(!pace.is_brief(1));
    }

    #[test]
    fn what_takes_no_time_is_known() {
        let pace = Pace::default();
        pace.note(Duration::ZERO, 1);
        assert!(pace.is_brief(1));
    }
}

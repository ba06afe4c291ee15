//! Feature levels: native code is compiled once for each of a few generations of processors, and
//! the best that the machine has is run.
//!
//! A plain `cargo build` makes code for the oldest x86-64, which leaves a quarter or less of a
//! machine in use. So the loop over a launch's threads exists in a function of its own for each
//! level, marked with the level's `target_feature`s, and the kernel is inlined into each. (Each has
//! an accelerator type of its own, so that a kernel's `run` has a single caller.) Functions that a
//! kernel calls are compiled for the level where they are inlined, too. So `#[device]` makes
//! functions `#[inline(always)]` that do not say otherwise.
//!
//! | level | processors from | adds |
//! |---|---|---|
//! | `baseline` | 2003, or every aarch64 | SSE2; NEON |
//! | `x86-64-v2` | 2008 | SSE4.2, POPCNT |
//! | `x86-64-v3` | 2013 | AVX2, FMA, BMI, F16C |
//! | `x86-64-v4` | 2017 | AVX-512 F, BW, CD, DQ, VL |
//!
//! The results are the same bits: Rust fuses and reorders nothing by itself. So where a kernel is
//! faster at a level below the machine's highest, it is run there (see `trial.rs`).
//!
//! Code that is not optimised anyway is compiled for the baseline alone, as four times as much
//! would take as long to compile: that is where this crate has the `opt-level` 0 ([`UNOPTIMISED`]).
//! It has one way to run threads then, too. Where it has the `opt-level` 1, which is for builds
//! that are to be quick as well, there are the baseline and x86-64-v3. The other levels run the
//! code of those below them.
//!
//! The environment variable `QUIPU_FEATURE_LEVEL`, with a name of the table (or `v2`, `v3`, `v4`),
//! chooses a lower one.

#[cfg(all(target_arch = "x86_64", all_levels))]
mod trial;

pub use quipu_choice::Share;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A set of processor features that native code is compiled for: see the [module's
/// table](crate::level).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FeatureLevel {
    /// The features that every processor of the target has.
    Baseline,
    /// x86-64-v2.
    V2,
    /// x86-64-v3.
    V3,
    /// x86-64-v4.
    V4,
}

impl FeatureLevel {
    /// All of them, the lowest first.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::V2, Self::V3, Self::V4];

    /// The highest that this machine has.
    pub fn detected() -> Self {
        static DETECTED: OnceLock<FeatureLevel> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// Its name, as in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FeatureLevel {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let is = |level: &Self| {
            name == level.name() || Some(name) == level.name().strip_prefix("x86-64-")
        };
        Self::ALL.into_iter().find(is).ok_or(())
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> FeatureLevel {
    macro_rules! all {
        ($($feature:tt)*) => {
            true $(&& std::arch::is_x86_feature_detected!($feature))*
        };
    }
    if !all!("cmpxchg16b" "popcnt" "sse3" "ssse3" "sse4.1" "sse4.2") {
        FeatureLevel::Baseline
    } else if !all!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe") {
        FeatureLevel::V2
    } else if !all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
        FeatureLevel::V3
    } else {
        FeatureLevel::V4
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> FeatureLevel {
    FeatureLevel::Baseline
}

/// A feature level as a type: code that is generic over it exists once for each, with one caller.
pub trait Level: Copy + fmt::Debug + Send + Sync + 'static {
    /// True if a thread that asks to be watched is.
    #[doc(hidden)]
    fn watches(asked: bool) -> bool;
}

macro_rules! levels {
    ($($level:ident)*) => {$(
        /// [`FeatureLevel`] of the same name, as a type.
        #[derive(Debug, Clone, Copy)]
        pub struct $level;
        impl Level for $level {
            #[inline(always)]
            fn watches(asked: bool) -> bool {
                // There the checking mode has no code of its own.
                cfg!(unoptimised) && asked
            }
        }
    )*};
}

levels!(Baseline V2 V3 V4);

/// The baseline, of threads that are watched.
#[cfg(not(unoptimised))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watching;

#[cfg(not(unoptimised))]
impl Level for Watching {
    #[inline(always)]
    fn watches(_asked: bool) -> bool {
        true
    }
}

#[cfg(unoptimised)]
pub(crate) type Watching = Baseline;

/// True where this crate is not optimised: then the code that launches and runs a kernel is
/// compiled once for all of them, at the price of an allocation for each launch and a dynamic call
/// for each thread.
#[doc(hidden)]
pub const UNOPTIMISED: bool = cfg!(unoptimised);

/// Something that is worth compiling for every level.
pub trait Work {
    /// Its result.
    type Output;

    /// Does it. To be marked `#[inline(always)]`, or it is compiled for the baseline only.
    fn run<L: Level>(self) -> Self::Output;

    /// The share of a launch that it is. Launches of several groups are measured, to find the
    /// faster level.
    fn share(&self) -> Share;
}

/// Does some work in code for this level, or for the highest that the machine has if that is lower;
/// or for one below it, where that is found to be faster.
#[inline]
pub fn run_at<W: Work>(level: FeatureLevel, work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(any(unoptimised, all_levels))))]
    {
        match level.min(FeatureLevel::detected()) {
            FeatureLevel::Baseline | FeatureLevel::V2 => baseline(work),
            // SAFETY: the machine has been found to have these features.
            FeatureLevel::V3 | FeatureLevel::V4 => unsafe { v3(work) },
        }
    }
    #[cfg(all(target_arch = "x86_64", all_levels))]
    {
        match level.min(FeatureLevel::detected()) {
            FeatureLevel::Baseline => baseline(work),
            // SAFETY: the machine has been found to have these features.
            FeatureLevel::V2 => unsafe { v2(work) },
            highest => {
                let share = work.share();
                let run = |level| match level {
                    // SAFETY: as above; and a processor with the features of a level has those of
                    // the levels below.
                    FeatureLevel::V2 => unsafe { v2(work) },
                    // SAFETY: as above.
                    FeatureLevel::V4 => unsafe { v4(work) },
                    // SAFETY: as above.
                    _ => unsafe { v3(work) },
                };
                // Of one group no time is taken, and a level that is asked for is meant.
                if share.of < 2 || level < FeatureLevel::detected() {
                    return run(highest);
                }
                let kernel = v4::<W> as unsafe fn(W) -> W::Output as usize;
                trial::run(kernel, highest, share, run)
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(unoptimised))))]
    {
        let _ = level;
        baseline(work)
    }
}

#[inline(never)]
fn baseline<W: Work>(work: W) -> W::Output {
    work.run::<Baseline>()
}

#[cfg(all(target_arch = "x86_64", all_levels))]
#[inline(never)]
#[target_feature(enable = "cmpxchg16b,popcnt,sse3,ssse3,sse4.1,sse4.2")]
fn v2<W: Work>(work: W) -> W::Output {
    work.run::<V2>()
}

#[cfg(all(target_arch = "x86_64", not(unoptimised)))]
#[inline(never)]
#[target_feature(enable = "cmpxchg16b,popcnt,sse3,ssse3,sse4.1,sse4.2")]
#[target_feature(enable = "avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe")]
fn v3<W: Work>(work: W) -> W::Output {
    work.run::<V3>()
}

#[cfg(all(target_arch = "x86_64", all_levels))]
#[inline(never)]
#[target_feature(enable = "cmpxchg16b,popcnt,sse3,ssse3,sse4.1,sse4.2")]
#[target_feature(enable = "avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn v4<W: Work>(work: W) -> W::Output {
    work.run::<V4>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_are_in_order() {
        for level in FeatureLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert_eq!("v3".parse(), Ok(FeatureLevel::V3));
        assert!("v5".parse::<FeatureLevel>().is_err());
        assert!(FeatureLevel::ALL.is_sorted());
    }
}

//! The variables of the environment that Quipu reads: one [table](ALL) of all, with the values that
//! each takes.
//!
//! Only this crate makes a [`Variable`], and only [`Variable::get`] gives its value, which refuses
//! a value that makes no sense. So no variable is read that is not in the table, and none without
//! its check. `docs/environment.md` is this table for people.
//!
//! An empty value is as good as none, but for [`NODES`].

mod cache;
mod parse;

pub use cache::{cache_root, user_cache_root};
pub use parse::{Cache, Execution};

use std::ffi::{OsStr, OsString};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

/// The fault of a variable's value, in words; empty if the values that it takes say enough.
type Problem = String;

/// A variable whose values are of this type.
#[derive(Debug)]
pub struct Variable<T> {
    name: &'static str,
    takes: &'static str,
    concerns: &'static str,
    parse: fn(&OsStr) -> Result<T, Problem>,
}

/// A variable has a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: expected {takes}{}{problem}", if problem.is_empty() { "" } else { "; " })]
pub struct Misused {
    /// Its name.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// The values that it takes.
    pub takes: &'static str,
    /// The fault of the value, if there is more to say.
    pub problem: String,
    /// The driver that it concerns, or `environment`.
    pub concerns: &'static str,
}

impl<T> Variable<T> {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its value, if it is set.
    ///
    /// # Errors
    /// If that makes no sense.
    pub fn get(&self) -> Result<Option<T>, Misused> {
        self.get_from(std::env::var_os)
    }

    /// As [`get`](Self::get), in another environment than the process's.
    ///
    /// # Errors
    /// As there.
    pub fn get_from(
        &self,
        environment: impl FnOnce(&'static str) -> Option<OsString>,
    ) -> Result<Option<T>, Misused> {
        let Some(value) = environment(self.name).filter(|value| !self.is_none(value)) else {
            return Ok(None);
        };
        let parsed = (self.parse)(&value);
        parsed
            .map(Some)
            .map_err(|problem| self.refuse(&value, problem))
    }

    /// The error of a value whose fault is found by the code that uses it.
    #[must_use]
    pub fn refuse(&self, value: impl AsRef<OsStr>, problem: String) -> Misused {
        Misused {
            variable: self.name,
            value: value.as_ref().to_string_lossy().into_owned(),
            takes: self.takes,
            problem,
            concerns: self.concerns,
        }
    }

    fn is_none(&self, value: &OsStr) -> bool {
        value.is_empty() && self.name != NODES.name
    }
}

/// A variable of any type.
pub trait Known: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// The values that it takes, in words.
    fn takes(&self) -> &'static str;
    /// # Errors
    /// If its value makes no sense.
    fn check(&self) -> Result<(), Misused>;
}

impl<T> Known for Variable<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self) -> &'static str {
        self.takes
    }

    fn check(&self) -> Result<(), Misused> {
        self.get().map(drop)
    }
}

/// The variables whose values make no sense.
pub fn misused() -> impl Iterator<Item = Misused> {
    ALL.iter().filter_map(|variable| variable.check().err())
}

macro_rules! table {
    ($($(#[$about:meta])+ $constant:ident: $type:ty = $name:literal, $concerns:literal, $takes:literal, $parse:expr;)+) => {
        $($(#[$about])+
        pub static $constant: Variable<$type> =
            Variable { name: $name, takes: $takes, concerns: $concerns, parse: $parse };)+

        /// All of them.
        pub static ALL: &[&dyn Known] = &[$(&$constant),+];
    };
}

table! {
    /// The number of threads in the CPU's pool.
    CPU_WORKERS: NonZero<usize> = "QUIPU_CPU_WORKERS", "cpu", "a number from 1 to 256", parse::workers;
    /// Cores that these are bound to.
    CPU_PIN: Vec<usize> = "QUIPU_CPU_PIN", "cpu", "cores such as 0,2,4-7", parse::cores;
    /// Looks for NVIDIA's GPUs through CUDA, or not.
    CUDA: bool = "QUIPU_CUDA", "cuda", "on or off", parse::switch;
    /// Asks OpenCL's platforms for devices, or not.
    OPENCL: bool = "QUIPU_OPENCL", "opencl", "on or off", parse::switch;
    /// The devices that programs for OpenCL get.
    OPENCL_DEVICES: Vec<String> = "QUIPU_OPENCL_DEVICES", "environment",
        "drivers or devices with commas between them, such as cpu:0,gpu-box/opencl:0", parse::names;
    /// A folder that lists vendors' OpenCL libraries, in the place of the loader.
    OPENCL_VENDORS: PathBuf = "QUIPU_OPENCL_VENDORS", "opencl", "a folder with files *.icd, or one such file", parse::place;
    /// The file of CUDA's compiler.
    NVRTC: PathBuf = "QUIPU_NVRTC", "cuda", "the file of CUDA's compiler, libnvrtc.so", parse::library;
    /// Nodes to connect to. The empty text is none of them.
    NODES: String = "QUIPU_NODES", "remote",
        "names or addresses of nodes that were paired with, with commas between them, or all", parse::nodes;
    /// Asks the local network for a node that has moved, or not.
    DISCOVERY: bool = "QUIPU_DISCOVERY", "remote", "on or off", parse::switch;
    /// The folder of keys and of the list of nodes.
    HOME: PathBuf = "QUIPU_HOME", "remote", "a folder", parse::folder;
    /// The time for which a thread that waits for a node looks again and again before it sleeps.
    SPIN: Duration = "QUIPU_SPIN", "remote", "a number of microseconds from 0 to 1000000", parse::microseconds;
    /// The compression of data to nodes.
    COMPRESSION: &'static str = "QUIPU_COMPRESSION", "remote", "auto, adaptive, lz4, zstd or off",
        |value| parse::word(value, &["auto", "adaptive", "lz4", "zstd", "off"]);
    /// Searches kernels on the CPU for mistakes, or not.
    CHECK: bool = "QUIPU_CHECK", "environment", "0 or 1", parse::bit;
    /// The way in which kernels on the CPU are run.
    EXECUTION: Execution = "QUIPU_EXECUTION", "environment", "native, lockstep:N or threads:N, with N from 1 to 64",
        parse::execution;
    /// The instructions that kernels on the CPU are limited to. A name may stand without its
    /// `x86-64-`.
    FEATURE_LEVEL: &'static str = "QUIPU_FEATURE_LEVEL", "environment", "baseline, x86-64-v2, x86-64-v3 or x86-64-v4",
        |value| parse::word(value, &["baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4", "v2", "v3", "v4"]);
    /// The LLVM that compiles OpenCL C for processors.
    LLVM: PathBuf = "QUIPU_LLVM", "environment", "a folder", parse::folder;
    /// The program that compiles it.
    CLC: PathBuf = "QUIPU_CLC", "environment", "a program's file", parse::file;
    /// The folder that keeps kernels compiled for devices.
    CACHE: Cache = "QUIPU_CACHE", "environment", "a folder, or off", parse::cache;
    /// The folder in which every kernel for CUDA leaves its source.
    DUMP: PathBuf = "QUIPU_DUMP", "cuda", "a folder", parse::folder;
    /// The filter of the log.
    LOG: String = "QUIPU_LOG", "environment",
        "one of off, error, warn, info, debug and trace, or modules with levels as in quipu_scheduler=debug,quipu_driver_cpu=trace",
        parse::log;
    /// The time after which a wait is logged.
    WATCH: Duration = "QUIPU_WATCH", "environment", "seconds after which a wait is logged, 10 or 0.5 for example",
        parse::seconds;
    /// The file that a trace of everything is written to.
    TRACE: PathBuf = "QUIPU_TRACE", "environment", "a file in a folder that is there", parse::new_file;
    /// MiB at which a trace ends.
    TRACE_LIMIT: u64 = "QUIPU_TRACE_LIMIT", "environment", "a whole number of MiB, 2048 for example", parse::mebibytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_none_but_for_the_nodes() {
        let empty = |_| Some(OsString::new());
        assert_eq!(CUDA.get_from(empty), Ok(None));
        assert_eq!(HOME.get_from(empty), Ok(None));
        assert_eq!(NODES.get_from(empty), Ok(Some(String::new())));
        assert_eq!(NODES.get_from(|_| None), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_does() {
        let said = |value: &str| {
            let value = OsString::from(value);
            CUDA.get_from(|name| (name == "QUIPU_CUDA").then_some(value))
        };
        assert_eq!(said("off"), Ok(Some(false)));
        assert_eq!(said("on"), Ok(Some(true)));
        let error = said("1").unwrap_err();
        assert_eq!(error.to_string(), "QUIPU_CUDA=1: expected on or off");
        assert_eq!(error.concerns, "cuda");
    }

    #[test]
    fn a_watch_takes_seconds_and_parts_of_them() {
        let said = |value: &str| {
            let value = OsString::from(value);
            WATCH.get_from(|_| Some(value))
        };
        assert_eq!(said("10"), Ok(Some(Duration::from_secs(10))));
        assert_eq!(said("0.5"), Ok(Some(Duration::from_millis(500))));
        for value in ["soon", "0", "-1", "nan", "inf", "1e300", "5s", " "] {
            assert!(said(value).is_err(), "{value}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_text_makes_no_sense_where_a_text_is_expected() {
        use std::os::unix::ffi::OsStringExt;
        let value = OsString::from_vec(vec![b'o', b'n', 0xff]);
        let error = OPENCL.get_from(|_| Some(value)).unwrap_err();
        assert!(error.to_string().starts_with("QUIPU_OPENCL=on"), "{error}");
    }
}

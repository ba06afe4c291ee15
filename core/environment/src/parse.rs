//! Values: the checks of a variable's text.

use super::Problem;
use std::ffi::OsStr;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Result<T> = std::result::Result<T, Problem>;

/// The error of a value for which the values that the variable takes say enough.
fn nonsense<T>() -> Result<T> {
    Err(Problem::new())
}

fn text(value: &OsStr) -> Result<&str> {
    value.to_str().map_or_else(nonsense, Ok)
}

fn number(text: &str, within: RangeInclusive<u64>) -> Result<u64> {
    let number = text.trim().parse().ok();
    number
        .filter(|number| within.contains(number))
        .map_or_else(nonsense, Ok)
}

/// One of some words.
pub(super) fn word(value: &OsStr, words: &[&'static str]) -> Result<&'static str> {
    let text = text(value)?.trim();
    let word = words.iter().copied().find(|word| *word == text);
    word.map_or_else(nonsense, Ok)
}

pub(super) fn switch(value: &OsStr) -> Result<bool> {
    Ok(word(value, &["on", "off"])? == "on")
}

pub(super) fn bit(value: &OsStr) -> Result<bool> {
    Ok(word(value, &["0", "1"])? == "1")
}

pub(super) fn workers(value: &OsStr) -> Result<NonZero<usize>> {
    let number = number(text(value)?, 1..=256)?;
    let workers = usize::try_from(number).ok().and_then(NonZero::new);
    workers.map_or_else(nonsense, Ok)
}

pub(super) fn microseconds(value: &OsStr) -> Result<Duration> {
    number(text(value)?, 0..=1_000_000).map(Duration::from_micros)
}

/// A time of more than zero seconds.
pub(super) fn seconds(value: &OsStr) -> Result<Duration> {
    let seconds: Option<f64> = text(value)?.trim().parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero())
        .map_or_else(nonsense, Ok)
}

/// As bytes, they have to be countable.
pub(super) fn mebibytes(value: &OsStr) -> Result<u64> {
    number(text(value)?, 0..=u64::MAX >> 20)
}

/// Cores from a list such as `0,2,4-7`.
pub(super) fn cores(value: &OsStr) -> Result<Vec<usize>> {
    const LAST: u64 = 1 << 16;
    let core = |text: &str| number(text, 0..=LAST).map(|core| core as usize);
    let mut cores = Vec::new();
    for part in text(value)?.split(',') {
        match part.split_once('-') {
            None => cores.push(core(part)?),
            Some((first, last)) => match core(first)?..=core(last)? {
                range if range.is_empty() => return nonsense(),
                range => cores.extend(range),
            },
        }
    }
    Ok(cores)
}

/// The way in which kernels on the CPU are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As fast as it goes.
    Native,
    /// In warps of so many threads.
    Lockstep(u32),
    /// By threads of the system; so many are a warp.
    Threads(u32),
}

pub(super) fn execution(value: &OsStr) -> Result<Execution> {
    let text = text(value)?.trim();
    let (name, size) = match text.split_once(':') {
        Some((name, size)) => (name, number(size, 1..=64)? as u32),
        None if text == "native" => return Ok(Execution::Native),
        None => (text, 1),
    };
    match name {
        "lockstep" => Ok(Execution::Lockstep(size)),
        "threads" => Ok(Execution::Threads(size)),
        _ => nonsense(),
    }
}

/// The place for compiled kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Nowhere.
    Off,
    /// In this folder.
    Folder(PathBuf),
}

pub(super) fn cache(value: &OsStr) -> Result<Cache> {
    if value == "off" {
        return Ok(Cache::Off);
    }
    folder(value).map(Cache::Folder)
}

/// A folder that is there, or can be made where it is to be.
pub(super) fn folder(value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    let first = path
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok());
    match first {
        Some(first) if !first.is_dir() => Err(format!("{} is no folder", first.display())),
        _ => Ok(path.to_owned()),
    }
}

/// A file that is there.
pub(super) fn file(value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    match path.is_file() {
        true => Ok(path.to_owned()),
        false => Err(format!("{} is no file", path.display())),
    }
}

/// A file or a folder that is there.
pub(super) fn place(value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    match path.exists() {
        true => Ok(path.to_owned()),
        false => Err(format!("there is no {}", path.display())),
    }
}

/// A file that can be made.
pub(super) fn new_file(value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    if path.is_dir() {
        return Err("it is a folder".to_owned());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("{} is no folder", folder.display()))
        }
        _ => Ok(path.to_owned()),
    }
}

/// A library's file, or its name where the system finds it by that.
pub(super) fn library(value: &OsStr) -> Result<PathBuf> {
    let path = Path::new(value);
    let is_name = path.file_name() == Some(value) && text(value).is_ok_and(is_library_name);
    if is_name || path.is_file() {
        return Ok(path.to_owned());
    }
    Err("there is no such file".to_owned())
}

fn is_library_name(name: &str) -> bool {
    name.contains(".so") || name.ends_with(".dll") || name.ends_with(".dylib")
}

pub(super) fn nodes(value: &OsStr) -> Result<String> {
    text(value).map(str::to_owned)
}

pub(super) fn names(value: &OsStr) -> Result<Vec<String>> {
    let names = text(value)?.split(',').map(|name| name.trim().to_owned());
    let names: Vec<String> = names.collect();
    match names.iter().any(String::is_empty) {
        true => Err("a name is empty".to_owned()),
        false => Ok(names),
    }
}

/// Levels, and modules with levels. A word that is neither would be a filter that shows nothing.
pub(super) fn log(value: &OsStr) -> Result<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |text: &str| LEVELS.contains(&text.to_ascii_lowercase().as_str());
    let directives: Vec<&str> = text(value)?.split(',').map(str::trim).collect();
    for directive in &directives {
        match directive.split_once('=') {
            None if !is_level(directive) && !directive.starts_with("quipu") => {
                return Err(format!(
                    "\"{directive}\" is neither a level nor one of Quipu's modules"
                ));
            }
            Some((module, level)) if module.is_empty() || !is_level(level) => {
                return Err(format!("\"{directive}\" is no module with a level"));
            }
            _ => {}
        }
    }
    Ok(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists() {
        let cores = |text: &str| cores(OsStr::new(text)).ok();
        assert_eq!(cores("0,2,4-7"), Some(vec![0, 2, 4, 5, 6, 7]));
        assert_eq!(cores("3"), Some(vec![3]));
        for wrong in ["", "a", "3-1", "1-", "-", "1,,2", "0-99999999999"] {
            assert_eq!(cores(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_of_mebibytes_can_be_counted_in_bytes() {
        let mebibytes = |text: &str| mebibytes(OsStr::new(text)).ok();
        assert_eq!(mebibytes(" 2 "), Some(2));
        for wrong in ["-1", "much", "17592186044416", "99999999999999999999"] {
            assert_eq!(mebibytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn seconds_are_more_than_none() {
        let seconds = |text: &str| seconds(OsStr::new(text)).ok();
        assert_eq!(seconds("10"), Some(Duration::from_secs(10)));
        assert_eq!(seconds("0.5"), Some(Duration::from_millis(500)));
        for wrong in ["soon", "0", "-1", "nan", "inf", "1e300", "5s", " "] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ways_to_run_kernels() {
        let execution = |text: &str| execution(OsStr::new(text)).ok();
        assert_eq!(execution("native"), Some(Execution::Native));
        assert_eq!(execution("lockstep:8"), Some(Execution::Lockstep(8)));
        assert_eq!(execution("threads"), Some(Execution::Threads(1)));
        assert_eq!(execution("threads:64"), Some(Execution::Threads(64)));
        for wrong in ["lockstep:65", "lockstep:0", "native:5", "fast", "threads:"] {
            assert_eq!(execution(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn levels_and_modules_are_logs() {
        let log = |text: &str| log(OsStr::new(text));
        for given in [
            "info",
            "TRACE",
            "off",
            "quipu_scheduler",
            "quipu_scheduler=debug,quipu_driver_cpu=trace",
            "warn, quipu_scheduler::queue=trace",
            "my_program=debug",
        ] {
            assert!(log(given).is_ok(), "{given}");
        }
        for given in [
            "verbose",
            "info,everything",
            "quipu_scheduler=loud",
            ",",
            "=",
        ] {
            assert!(log(given).is_err(), "{given}");
        }
    }

    #[test]
    fn folders_and_files_are_where_they_can_be() {
        let program = std::env::current_exe().unwrap();
        let within = program.join("folder");
        let beside = program.with_file_name("there is no such thing");
        for (path, is_folder, is_new_file) in [
            (program.as_path(), false, true),
            (within.as_path(), false, false),
            (beside.as_path(), true, true),
            (beside.join("more").as_path(), true, false),
            (program.parent().unwrap(), true, false),
            (Path::new("relative"), true, true),
        ] {
            assert_eq!(folder(path.as_ref()).is_ok(), is_folder, "{path:?}");
            assert_eq!(new_file(path.as_ref()).is_ok(), is_new_file, "{path:?}");
        }
        assert!(library(program.as_ref()).is_ok());
        assert!(library(OsStr::new("libnvrtc.so.12")).is_ok());
        assert!(library(beside.as_ref()).is_err());
        assert!(library(OsStr::new("no")).is_err());
    }
}

//! Compiled kernels are kept on disk. In processes of their own, for the variable that says where
//! is the whole process's.

use quipu::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that this is such a process, and which options its kernel is compiled with.
const CHILD: &str = "QUIPU_TEST_KEPT_CHILD";

#[kernel]
fn kept(_acc: &impl Accelerator<1>, mut numbers: OwnElements<f32>) {
    for (_, number) in numbers.each() {
        *number = *number * 2.0 + 1.0;
    }
}

/// The files below a folder, with the numbers that the file system knows them by: one that is
/// written anew gets another.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.append(&mut self::files(&entry.path())),
            false => drop(files.insert(entry.path(), entry.metadata().unwrap().ino())),
        }
    }
    files
}

/// The test of this name, over a driver of which there is a device.
pub(crate) fn compiled_kernels_are_found_again(driver: &str, test: &str) {
    if let Ok(options) = std::env::var(CHILD) {
        return child(driver, &options).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, options)
            .env("QUIPU_CACHE", folder.path())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        files(folder.path())
    };
    let first = run("none");
    assert!(!first.is_empty(), "nothing is kept");
    assert_eq!(run("none"), first, "what is there was compiled again");
    let both = run("contract");
    assert!(both.len() > first.len(), "other options are another file");
    for path in both.keys() {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let repaired = run("none");
    for path in first.keys() {
        assert_ne!(repaired[path], first[path], "a damaged file was kept");
    }
    assert_eq!(run("none"), repaired);
}

fn child(driver: &str, options: &str) -> quipu::Result<()> {
    let builder = Platform::builder().cuda(driver == "cuda");
    let platform = builder.opencl(driver == "opencl").build_available();
    let context = platform.context()?;
    let queue = context.queue(&platform.device(driver)?)?;
    let mut numbers = context.buffer(&[1.0_f32, 2.0, 3.0])?;
    let call = kept(&mut numbers);
    let call = match options {
        "contract" => call.contract(),
        _ => call,
    };
    queue.launch(3, call)?;
    assert_eq!(queue.read(&numbers)?.wait()?, [3.0, 5.0, 7.0]);
    Ok(())
}

//! The files that `QUIPU_DUMP` keeps of a kernel. In a process of its own, for the variable is the
//! whole process's.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu::prelude::*;
use std::fs;
use support::cuda_or_skip;

/// Says that this is the process of its own.
const CHILD: &str = "QUIPU_TEST_DUMP_CHILD";

#[kernel]
fn doubled(_acc: &impl Accelerator<1>, mut numbers: OwnElements<u32>) {
    for (_, number) in numbers.each() {
        *number *= 2;
    }
}

#[test]
fn source_ptx_and_log_are_kept() {
    if !cuda_or_skip() {
        return;
    }
    if std::env::var(CHILD).is_ok() {
        return child().unwrap();
    }
    let folder = std::env::temp_dir().join(format!("quipu-dump-{}", std::process::id()));
    // The second finds it compiled, and keeps it nevertheless.
    for _ in 0..2 {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "source_ptx_and_log_are_kept", "--nocapture"])
            .env(CHILD, "1")
            .env("QUIPU_DUMP", &folder)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let kept = |ending: &str| {
            let files = fs::read_dir(&folder)
                .unwrap()
                .map(|file| file.unwrap().path());
            let mut files = files.filter(|file| file.extension().is_some_and(|it| it == ending));
            fs::read_to_string(files.next().unwrap()).unwrap()
        };
        let source = kept("cu");
        assert!(source.contains("doubled"), "{source}");
        assert!(source.contains("dump.rs"), "the user's lines: {source}");
        assert!(kept("log").starts_with("nvrtc "));
        if cfg!(target_os = "linux") {
            assert!(kept("ptx").contains(".loc"), "lines for profilers");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

fn child() -> quipu::Result<()> {
    let platform = Platform::builder().cuda(true).build_available();
    let context = platform.context()?;
    let queue = context.queue(&platform.device("cuda")?)?;
    let mut numbers = context.buffer(&[1_u32, 2, 3])?;
    queue.launch(numbers.len(), doubled(&mut numbers))?;
    assert_eq!(queue.read(&numbers)?.wait()?, [2, 4, 6]);
    Ok(())
}

//! What rustc says in the end, where a kernel is not accepted: at the user's line, in words that help, and nothing else.
//!
//! Each file in `tests/messages` is compiled. A line that ends with `//~ words` has an error with these words; no other
//! line has one. (That refusals come at all, and all of them, is tested where they are made.)

#![expect(clippy::unwrap_used, reason = "an unwrap is an assertion")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The errors of each line of each file, by the file's name and the line.
type Errors = BTreeMap<(String, usize), Vec<String>>;

/// What the files expect.
fn expected(files: &[PathBuf]) -> Errors {
    let mut expected = Errors::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (at, line) in fs::read_to_string(file).unwrap().lines().enumerate() {
            if let Some((_, words)) = line.split_once("//~ ") {
                expected.insert((name.clone(), at + 1), vec![words.to_owned()]);
            }
        }
    }
    expected
}

/// The errors in what cargo says in its short form: `src/bin/name.rs:12:5: error[E0308]: words`.
fn said(output: &str) -> Errors {
    let mut said = Errors::new();
    for line in output.lines() {
        let mut parts = line.splitn(4, ':');
        if let (Some(file), Some(number), Some(_), Some(message)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && let Ok(number) = number.parse()
            && message.trim_start().starts_with("error")
            && file.starts_with("src/bin")
        {
            let name = Path::new(file).file_name().unwrap().to_string_lossy();
            let words = message.trim().to_owned();
            said.entry((name.into_owned(), number))
                .or_default()
                .push(words);
        }
    }
    said
}

#[test]
fn errors_point_at_the_users_line() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(here.join("tests/messages"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();

    // A package of its own, in which each file is a program.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages");
    let programs = package.join("src/bin");
    let _ = fs::remove_dir_all(&programs);
    fs::create_dir_all(&programs).unwrap();
    for file in &files {
        fs::copy(file, programs.join(file.file_name().unwrap())).unwrap();
    }
    let manifest = format!(
        "[package]\nname = \"messages\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nquipu-kernel = {{ path = {:?} }}\n",
        here.to_string_lossy()
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // The versions that everything else is built with, which are at hand.
    fs::copy(here.join("../../Cargo.lock"), package.join("Cargo.lock")).unwrap();

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let checked = Command::new(cargo)
        .args([
            "check",
            "--offline",
            "--bins",
            "--keep-going",
            "--quiet",
            "--message-format=short",
        ])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let output =
        String::from_utf8_lossy(&checked.stderr) + String::from_utf8_lossy(&checked.stdout);

    let (expected, said) = (expected(&files), said(&output));
    assert!(!expected.is_empty());
    let lines = |errors: &Errors| errors.keys().cloned().collect::<Vec<_>>();
    assert_eq!(lines(&said), lines(&expected), "{output}");
    for (line, words) in expected {
        let said = &said[&line];
        let found = said.iter().any(|said| said.contains(&words[0]));
        assert!(found, "{line:?}: {words:?} was expected, and not {said:?}");
    }
}

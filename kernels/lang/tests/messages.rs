//! rustc's messages for kernels that are not accepted: at the user's line, in words that help, and
//! nothing else.
//!
//! Each file in `tests/messages` is compiled. A line that ends with `//~ words` has an error with
//! these words; no other line has one. And all that the macros refuse is compiled as one program
//! more.

#![expect(clippy::unwrap_used, reason = "an unwrap is an assertion")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Something that a macro refuses.
struct Refused {
    name: &'static str,
    /// The way in which it is written: `kernel`, say.
    how: &'static str,
    source: &'static str,
    /// The beginning of the text that the message points at.
    at: &'static str,
    words: &'static str,
}

macro_rules! refused {
    ($($name:ident: $how:ident($source:expr) at $at:literal says $words:literal;)*) => {
        const REFUSED: &[Refused] = &[$(Refused {
            name: stringify!($name),
            how: stringify!($how),
            source: $source,
            at: $at,
            words: $words,
        },)*];
    };
}

include!("../../macros/src/tests/refused.rs");

impl Refused {
    /// A module with it, in one line.
    fn module(&self) -> String {
        let Self { name, source, .. } = self;
        let passed = "x: &[f32], n: u32, mut y: OwnElements<f32>";
        let item = match self.how {
            "kernel" => format!("#[kernel(crate = quipu_kernel)] {source}"),
            "body" => format!(
                "#[kernel(crate = quipu_kernel)] fn k(acc: &impl Accelerator<1>, {passed}) {{ {source} }}"
            ),
            "waits" => format!(
                "#[kernel(crate = quipu_kernel)] async fn k(acc: &impl BlockAccelerator<1>, {passed}) {{ {source} }}"
            ),
            "device" => format!("#[device(crate = quipu_kernel)] {source}"),
            "closure" => {
                format!("fn f(a: u32) {{ kernel_closure!(crate = quipu_kernel, {source}); }}")
            }
            "derive" => {
                format!("#[derive(KernelData)] #[kernel_data(crate = quipu_kernel)] {source}")
            }
            how => panic!("{name} is written as a {how}, which is not known here"),
        };
        format!("mod {name} {{ use super::*; {item} }}")
    }
}

/// The name of the program that is made of what macros refuse.
const MACROS: &str = "macros.rs";

/// The files whose lines have one error each.
const ONE_EACH: [&str; 6] = [
    "calls.rs",
    "elements.rs",
    "newcomer.rs",
    "parameters.rs",
    "shares.rs",
    "traits_of_std.rs",
];

/// The lines above its modules.
const IMPORTS: [&str; 3] = ["use quipu_kernel::*;", "use std::ops::*;", "fn main() {}"];

/// The errors of each line of each file, by the file's name and the line: where in the line, and
/// the words.
type Errors = BTreeMap<(String, usize), Vec<(usize, String)>>;

/// The errors in what cargo says in its short form: `src/bin/name.rs:12:5: error[E0308]: words`.
fn said(output: &str) -> Errors {
    let mut said = Errors::new();
    for line in output.lines() {
        let mut parts = line.splitn(4, ':');
        if let (Some(file), Some(number), Some(column), Some(message)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && let (Ok(number), Ok(column)) = (number.parse(), column.parse())
            && message.trim_start().starts_with("error")
            && file.starts_with("src/bin")
        {
            let name = Path::new(file).file_name().unwrap().to_string_lossy();
            let words = message.trim().to_owned();
            said.entry((name.into_owned(), number))
                .or_default()
                .push((column, words));
        }
    }
    said
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder().join("tests/messages"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// rustc's messages for all of them.
static SAID: LazyLock<Errors> = LazyLock::new(|| {
    // A package of its own, in which each file is a program.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages");
    let programs = package.join("src/bin");
    let _ = fs::remove_dir_all(&programs);
    fs::create_dir_all(&programs).unwrap();
    for file in files() {
        fs::copy(&file, programs.join(file.file_name().unwrap())).unwrap();
    }
    let imports = IMPORTS.map(str::to_owned).into_iter();
    let lines: Vec<_> = imports.chain(REFUSED.iter().map(Refused::module)).collect();
    fs::write(programs.join(MACROS), lines.join("\n")).unwrap();
    let manifest = format!(
        "[package]\nname = \"messages\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nquipu-kernel = {{ path = {:?} }}\n",
        folder().to_string_lossy()
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    // The versions that everything else is built with, which are at hand.
    fs::copy(
        folder().join("../../Cargo.lock"),
        package.join("Cargo.lock"),
    )
    .unwrap();

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
    let said = said(&output);
    assert!(!said.is_empty(), "{output}");
    said
});

/// The lines of the files with the words that are expected of them.
fn expected() -> BTreeMap<(String, usize), String> {
    let mut expected = BTreeMap::new();
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (at, line) in fs::read_to_string(file).unwrap().lines().enumerate() {
            if let Some((_, words)) = line.split_once("//~ ") {
                expected.insert((name.clone(), at + 1), words.to_owned());
            }
        }
    }
    expected
}

#[test]
fn errors_point_at_the_users_line() {
    let expected = expected();
    assert!(!expected.is_empty());
    let said = SAID.iter().filter(|((file, _), _)| file != MACROS);
    let said: BTreeMap<_, _> = said.collect();
    let mut wrong = String::new();
    for (line, said) in said.iter().filter(|(line, _)| !expected.contains_key(line)) {
        writeln!(wrong, "{line:?}: nothing was expected, and not {said:?}").unwrap();
    }
    for (line, words) in expected {
        let said = said.get(&line).map_or(&[][..], |said| said);
        let found = said.iter().any(|(_, said)| said.contains(&words));
        if !found {
            writeln!(wrong, "{line:?}: {words:?} was expected, and not {said:?}").unwrap();
        } else if said.len() > 1 && ONE_EACH.contains(&&*line.0) {
            writeln!(wrong, "{line:?}: one error was expected, and not {said:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// That each refusal comes alone is tested where they are made: what is refused here is often wrong
/// in other ways, too.
#[test]
fn what_macros_refuse_reaches_the_user() {
    let mut missing = String::new();
    for (at, refused) in REFUSED.iter().enumerate() {
        let line = refused.module();
        let key = (MACROS.to_owned(), IMPORTS.len() + at + 1);
        let said = SAID.get(&key).map(Vec::as_slice).unwrap_or_default();
        let found = said.iter().any(|(column, words)| {
            line[column - 1..].starts_with(refused.at) && words.contains(refused.words)
        });
        if !found {
            let (name, words) = (refused.name, refused.words);
            writeln!(missing, "{name}: {words:?} was expected, and not {said:?}").unwrap();
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

/// The names of methods in a text, each after a mark.
fn methods(text: &str, mark: &str) -> BTreeSet<String> {
    let after = text.split(mark).skip(1);
    after
        .map(|rest| {
            let is_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
            rest.chars().take_while(is_name).collect()
        })
        .collect()
}

#[test]
fn every_refused_method_is_in_a_file() {
    let source = fs::read_to_string(folder().join("src/emit/refused.rs")).unwrap();
    let mut used = BTreeSet::new();
    for file in files() {
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().filter(|line| line.contains("//~ "));
        used.extend(lines.flat_map(|line| methods(line, ".")));
    }
    let refused = methods(&source, " __method_");
    assert!(refused.len() > 100);
    let missing: Vec<_> = refused.difference(&used).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

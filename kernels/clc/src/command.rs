//! The command line of `quipu-clc`: the compiler's stages for a file, for people who look at it.

use crate::compiler::{Output, TEXT_NAME};
use crate::metadata::{KernelInfo, MemoryAccess, ParameterInfo, ParameterKind};
use crate::{ClcError, Program, SpirV, set_compiler};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The program's usage.
const USAGE: &str = "\
Usage: quipu-clc FILE [OPTIONS]

Compiles a file in OpenCL C or SPIR-V for this machine's processor, and shows what becomes of its kernels. Without any option
that shows something, it lists them.

  -D NAME[=VALUE], -I FOLDER, -cl-…  options of OpenCL for the compiler
  --kernel NAME                      only this kernel
  --local X[,Y[,Z]]                  for work-groups of this size; without it, for those of any size
  --explain                          say which loops became vectors, what barriers cost, and what stood in the way
  --emit-llvm FILE                   write LLVM's text of the optimised kernels
  --emit-asm FILE                    write their assembly

A FILE that is - is standard output. Without any argument it serves programs that have OpenCL C compiled.
";

/// The request of a command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    file: PathBuf,
    options: Vec<String>,
    kernel: Option<String>,
    local: Option<[u32; 3]>,
    explains: bool,
    /// Outputs, and the files for them.
    emitted: Vec<(Output, PathBuf)>,
}

/// The reason for a missing result: a command line that makes no sense, or something else.
enum Refusal {
    Usage(String),
    Failure(String),
}

/// Does what the arguments of `quipu-clc`, without its own name, ask for. Gives the exit status: 0,
/// or 1 if the program or its options are at fault, or 2 if the arguments make no sense.
pub fn run_command(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let words = arguments.into_iter().map(OsString::into_string);
    let words: Vec<String> = match words.collect() {
        Ok(words) => words,
        Err(word) => {
            say(format_args!("quipu-clc: {word:?} is no text"));
            return 2;
        }
    };
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return u8::from(shown(USAGE.as_bytes()).is_err());
    }
    match parsed(words)
        .map_err(Refusal::Usage)
        .and_then(|asked| run(&asked))
    {
        Ok(()) => 0,
        Err(Refusal::Usage(text)) => {
            say(format_args!("quipu-clc: {text}\n\n{USAGE}"));
            2
        }
        Err(Refusal::Failure(text)) => {
            say(text);
            1
        }
    }
}

fn parsed(words: Vec<String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value = || {
            let next = value.clone().or_else(|| words.next());
            next.ok_or_else(|| format!("{name} wants a value"))
        };
        match name {
            "--kernel" => asked.kernel = Some(value()?),
            "--local" => asked.local = Some(size(&value()?)?),
            "--emit-llvm" => asked.emitted.push((Output::Optimised, value()?.into())),
            "--emit-asm" => asked.emitted.push((Output::Assembly, value()?.into())),
            "--explain" => asked.explains = true,
            "-D" | "-I" | "-U" => asked.options.push(format!("{name}{}", value()?)),
            _ if name.starts_with("--") => return Err(format!("{name} is none of its options")),
            _ if name.starts_with('-') => asked.options.push(word),
            _ if asked.file.as_os_str().is_empty() => asked.file = word.into(),
            _ => return Err(format!("'{word}' is one file too many")),
        }
    }
    match asked.file.as_os_str().is_empty() {
        true => Err("which file?".to_owned()),
        false => Ok(asked),
    }
}

/// A size of work-groups: `64`, `16,16`.
fn size(text: &str) -> Result<[u32; 3], String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let mut size = [1; 3];
    match numbers {
        Ok(numbers) if numbers.len() <= 3 && !numbers.contains(&0) => {
            size[..numbers.len()].copy_from_slice(&numbers);
            Ok(size)
        }
        _ => Err(format!(
            "'{text}' is no size of work-groups; write 64 or 16,16"
        )),
    }
}

fn run(asked: &Asked) -> Result<(), Refusal> {
    // This program compiles, too: each time in a process of its own.
    if let Ok(own) = std::env::current_exe() {
        set_compiler(own, Vec::new());
    }
    let name = asked.file.display().to_string();
    let failed = |error: ClcError| Refusal::Failure(with_name(&error.to_string(), &name));
    let written = |error: std::io::Error, to: &Path| {
        Refusal::Failure(format!("quipu-clc: {}: {error}", to.display()))
    };
    let bytes = std::fs::read(&asked.file).map_err(|error| written(error, &asked.file))?;
    let program = program(&bytes, asked).map_err(failed)?;
    if !program.warnings().is_empty() {
        say(with_name(program.warnings(), &name));
    }
    let kernels: Vec<&KernelInfo> = match &asked.kernel {
        Some(kernel) => vec![program.kernel(kernel).map_err(failed)?],
        None => program.kernels().iter().collect(),
    };
    let emit = |kernel: &KernelInfo, output| {
        let local = asked.local.or(kernel.required_local_size);
        program.emit(&kernel.name, local, output).map_err(failed)
    };
    for (output, to) in &asked.emitted {
        let comment = if *output == Output::Assembly {
            "#"
        } else {
            ";"
        };
        let mut text = Vec::new();
        for kernel in &kernels {
            text.extend(format!("{comment} kernel {}\n", kernel.name).bytes());
            text.extend(emit(kernel, *output)?);
        }
        let is_written = match to.as_os_str() == "-" {
            true => shown(&text),
            false => std::fs::write(to, &text),
        };
        is_written.map_err(|error| written(error, to))?;
    }
    let mut text = Vec::new();
    for kernel in &kernels {
        if asked.explains {
            text.extend(emit(kernel, Output::Explanation)?);
        } else if asked.emitted.is_empty() {
            text.extend(listed(kernel).bytes());
        }
    }
    shown(&text).map_err(|error| written(error, Path::new("standard output")))
}

/// Prints a line on standard error, as far as anybody reads that.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes to standard output. A reader that has had enough is no error.
fn shown(text: &[u8]) -> std::io::Result<()> {
    let mut to = std::io::stdout().lock();
    match to.write_all(text).and_then(|()| to.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn program(bytes: &[u8], asked: &Asked) -> Result<Program, ClcError> {
    let mut options = asked.options.clone();
    if SpirV::begins(bytes) {
        crate::checked_options(&as_text(&options))?;
        return Program::of_spirv(&SpirV::new(bytes)?);
    }
    // Files that the text includes are looked for beside it.
    let folder = asked
        .file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    options.extend(folder.map(|folder| format!("-I{}", folder.display())));
    Program::new(&crate::as_utf8(bytes), &as_text(&options))
}

/// Options as one text, in which a backslash is before what would end one of them.
fn as_text(options: &[String]) -> String {
    let escaped = |option: &String| {
        let mut text = String::new();
        for c in option.chars() {
            if c.is_whitespace() || matches!(c, '"' | '\'' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text
    };
    let options: Vec<String> = options.iter().map(escaped).collect();
    options.join(" ")
}

/// The compiler's message, with the file's own name in place of the one that texts without a name
/// have.
fn with_name(said: &str, name: &str) -> String {
    let mut text = String::new();
    for line in said.lines() {
        let (before, rest) = match line.strip_prefix("In file included from ") {
            Some(rest) => (&line[..line.len() - rest.len()], rest),
            None => ("", line),
        };
        let rest = match rest.strip_prefix(TEXT_NAME) {
            Some(place) if place.starts_with(':') => format!("{name}{place}"),
            _ => rest.to_owned(),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.extend([before, &rest]);
    }
    text
}

/// A kernel with its parameters, one a line.
fn listed(kernel: &KernelInfo) -> String {
    let mut text = format!("kernel {}", kernel.name);
    for attribute in &kernel.attributes {
        text.push_str(&format!(" {attribute}"));
    }
    text.push('\n');
    for parameter in &kernel.parameters {
        text.push_str(&format!("  {}\n", described(parameter)));
    }
    if kernel.local_bytes > 0 {
        text.push_str(&format!(
            "  {} bytes of local variables\n",
            kernel.local_bytes
        ));
    }
    if kernel.private_bytes > 0 {
        text.push_str(&format!(
            "  {} bytes of memory for each work-item\n",
            kernel.private_bytes
        ));
    }
    text
}

fn described(parameter: &ParameterInfo) -> String {
    let does = |access| match access {
        MemoryAccess::None => "neither read nor written",
        MemoryAccess::Read => "read",
        MemoryAccess::Write => "written",
        MemoryAccess::ReadWrite => "read and written",
    };
    let kind = match parameter.kind {
        ParameterKind::Value { size, .. } => format!("{size} bytes"),
        ParameterKind::Memory(_) if parameter.is_constant => "constant memory".to_owned(),
        ParameterKind::Memory(access) => format!("memory, {}", does(access)),
        ParameterKind::Local => "local memory".to_owned(),
        ParameterKind::Image(access) => format!("image, {}", does(access)),
        ParameterKind::Sampler => "sampler".to_owned(),
    };
    format!("{} {}: {kind}", parameter.type_name, parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Asked, String> {
        parsed(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn arguments_are_told_apart() {
        let asked = of(&[
            "a.cl",
            "-D",
            "N=4",
            "-cl-mad-enable",
            "--local",
            "16,8",
            "--emit-asm=-",
            "--emit-llvm",
            "x.ll",
        ]);
        let wanted = Asked {
            file: "a.cl".into(),
            options: vec!["-DN=4".to_owned(), "-cl-mad-enable".to_owned()],
            local: Some([16, 8, 1]),
            emitted: vec![
                (Output::Assembly, "-".into()),
                (Output::Optimised, "x.ll".into()),
            ],
            ..Asked::default()
        };
        assert_eq!(asked, Ok(wanted));
        for bad in [
            &["a.cl", "b.cl"][..],
            &["--explain"],
            &["a.cl", "--local"],
            &["a.cl", "--local", "0"],
            &["a.cl", "--local", "1,1,1,1"],
            &["a.cl", "--emit"],
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn options_stay_what_they_are_in_a_text() {
        let options = ["-DA=a b".to_owned(), r#"-DB="c\d""#.to_owned()];
        assert_eq!(
            crate::options::options(&as_text(&options)).unwrap(),
            options
        );
    }

    #[test]
    fn a_file_is_called_by_its_name() {
        let said = "In file included from program:1:\nprogram:2:1: error: program: no";
        assert_eq!(
            with_name(said, "a.cl"),
            "In file included from a.cl:1:\na.cl:2:1: error: program: no"
        );
    }
}

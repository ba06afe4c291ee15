//! Texts with all that they include, for compilers that do not see this machine's files: those of
//! nodes.
//!
//! 1. A directive `#include` gives way to the text of its file, between lines `#line` for the
//!    compiler's messages. No condition is evaluated, because only the compiler knows the device's
//!    macros: it also skips what lies in a group that is skipped.
//! 2. A file that counts once, by `#pragma once` or by a guard around all of it, is left out within
//!    itself, and after an include that is under no condition.
//! 3. A directive stays as it is if its file is not found, if its name comes from a macro that may
//!    stand for several, or if its file lies within itself and does not count once.
//! 4. `__has_include` of a file that is found gives way to 1.
//!
//! The bytes of the result and the depth of files within each other are bounded.

mod lines;
mod macros;

use crate::client::{ClcError, is_whole};
use crate::options;
use crate::text::as_utf8;
use lines::{Directive, Line, Lines, is_joined};
use macros::{Macros, When};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// The most bytes of a text with all that it includes.
const MOST_BYTES: usize = 16 << 20;
/// The most files within each other: clang's number.
const MOST_NESTED: usize = 200;
/// The name of the text itself in the compiler's messages.
const MAIN: &str = "program";

/// A text with all that it includes of this machine's files. Of a compiler's `options`, the folders
/// of `-I` count. `headers` are names and texts of files that are looked for first.
///
/// # Errors
/// If the result is too long, or files lie too deep within each other.
pub fn with_includes(
    source: &str,
    options: &str,
    headers: &[(String, String)],
) -> Result<String, ClcError> {
    if is_whole(source) {
        return Ok(source.to_owned());
    }
    let mut inliner = Inliner {
        folders: options::folders(options),
        headers,
        files: HashMap::new(),
        included: HashSet::new(),
        macros: Macros::of(options::defined(options)),
        around: Vec::new(),
        text: String::new(),
    };
    inliner.put(&with_plain_lines(source), &Once::No, MAIN, true)?;
    Ok(inliner.text)
}

/// The place of a file.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// Among the headers, by its name.
    Header(PathBuf),
    /// On this machine, by its whole path.
    File(PathBuf),
}

/// The reason for which a file counts once.
enum Once {
    /// It does not.
    No,
    Pragma,
    /// A condition around all of it, that this macro is not defined.
    Guard(String),
}

impl Once {
    fn of(text: &str) -> Self {
        let (mut guard, mut conditions, mut is_defined, mut is_whole) =
            (None, 0_usize, false, true);
        for (at, line) in Lines::new(text).filter(Line::has_code).enumerate() {
            if line.directive == Directive::Once {
                return Self::Pragma;
            }
            match (at, &line.directive) {
                (0, Directive::If(Some(name))) => guard = Some(name.clone()),
                (1, Directive::Define(name, _)) => is_defined = guard.as_ref() == Some(name),
                _ => {}
            }
            // Something lies before the condition, after it, or in its other branch.
            let is_outside = conditions == 0 && at != 0;
            let is_other = conditions == 1 && line.directive == Directive::Else;
            is_whole &= !is_outside && !is_other;
            match line.directive {
                Directive::If(_) => conditions += 1,
                Directive::EndIf => conditions = conditions.saturating_sub(1),
                _ => {}
            }
        }
        match guard {
            Some(guard) if is_defined && is_whole => Self::Guard(guard),
            _ => Self::No,
        }
    }
}

struct File {
    /// Its name in messages.
    name: String,
    text: String,
    once: Once,
    /// Tells it from others.
    number: usize,
}

struct Inliner<'a> {
    folders: Vec<PathBuf>,
    headers: &'a [(String, String)],
    /// The files that were read.
    files: HashMap<Place, Rc<File>>,
    /// Files that count once and were included under no condition.
    included: HashSet<Place>,
    macros: Macros,
    /// The files that the current line lies in, the innermost last.
    around: Vec<Place>,
    text: String,
}

impl Inliner<'_> {
    /// Appends a text with all that it includes. `is_certain` is false if it lies under a
    /// condition.
    fn put(
        &mut self,
        text: &str,
        once: &Once,
        name: &str,
        is_certain: bool,
    ) -> Result<(), ClcError> {
        // A guard's condition holds where the file is compiled first.
        let own = usize::from(matches!(once, Once::Guard(_)));
        // The macros of which each condition around is that they are not defined, if it is that of
        // one.
        let mut conditions: Vec<Option<String>> = Vec::new();
        let mut number = 1;
        for line in Lines::new(text) {
            match &line.directive {
                Directive::If(name) => conditions.push(name.clone()),
                Directive::Else => {
                    if let Some(innermost) = conditions.last_mut() {
                        *innermost = None;
                    }
                }
                Directive::EndIf => {
                    conditions.pop();
                }
                _ => {}
            }
            let is_certain = is_certain && conditions.len() <= own;
            match &line.directive {
                Directive::Define(name, file) => {
                    let when = match conditions.last() {
                        _ if is_certain => When::Certain,
                        Some(Some(missing)) if missing == name => When::IfNot,
                        _ => When::Possible,
                    };
                    self.macros.define(name, file, when);
                }
                Directive::Undefine(name) => self.macros.undefine(name, is_certain),
                _ => {}
            }
            match &line.directive {
                Directive::Include(what) => {
                    self.include(&line, what, is_certain, (name, number))?;
                }
                Directive::IncludeMacro(of) => match self.macros.file(of) {
                    Some(what) => self.include(&line, &what, is_certain, (name, number))?,
                    None => self.text.push_str(line.text),
                },
                Directive::If(_) | Directive::Else => {
                    let answered = lines::with_answers(line.text, |file| self.find(file).is_some());
                    self.text.push_str(&answered);
                }
                // Lines around the file say the same.
                Directive::Once if matches!(once, Once::Pragma) => self.leave_out(&line),
                _ => self.text.push_str(line.text),
            }
            if self.text.len() > MOST_BYTES {
                return Err(ClcError::Refused(format!(
                    "error: the program with the files that it includes has more than {MOST_BYTES} bytes"
                )));
            }
            number += line.count;
        }
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        // A backslash at a file's end joins nothing.
        let last = self
            .text
            .trim_end_matches('\n')
            .rfind('\n')
            .map_or(0, |at| at + 1);
        if is_joined(&self.text[last..]) {
            self.text.push('\n');
        }
        Ok(())
    }

    /// Appends the file that a directive includes, or the directive. It is on the line of this
    /// number in the file of this name.
    fn include(
        &mut self,
        line: &Line<'_>,
        what: &str,
        is_certain: bool,
        (name, number): (&str, usize),
    ) -> Result<(), ClcError> {
        let Some((place, file)) = self.find(what) else {
            self.text.push_str(line.text);
            return Ok(());
        };
        let counts_once = match &file.once {
            Once::No => false,
            Once::Pragma => true,
            Once::Guard(guard) => !self.macros.is_undefined(guard),
        };
        let is_within_itself = self.around.contains(&place);
        if counts_once && (is_within_itself || self.included.contains(&place)) {
            self.leave_out(line);
            return Ok(());
        }
        if is_within_itself {
            self.text.push_str(line.text);
            return Ok(());
        }
        if self.around.len() >= MOST_NESTED {
            return Err(ClcError::Refused(format!(
                "{name}:{number}: error: more than {MOST_NESTED} files lie within each other"
            )));
        }
        // Another file may have the same guard by mistake: then all of this one is skipped.
        let is_certain = is_certain
            && !matches!(&file.once, Once::Guard(guard) if self.macros.is_defined(guard));
        if counts_once && is_certain {
            self.included.insert(place.clone());
        }
        if line.begins_in_comment {
            self.text.push_str("*/\n");
        }
        let has_pragma = matches!(file.once, Once::Pragma);
        if has_pragma {
            let number = file.number;
            // Writing to a text cannot fail.
            let _ = write!(
                self.text,
                "#ifndef QUIPU_INCLUDED_{number}\n#define QUIPU_INCLUDED_{number}\n"
            );
        }
        self.put_position(1, &file.name);
        self.around.push(place);
        self.put(&file.text, &file.once, &file.name, is_certain)?;
        self.around.pop();
        if has_pragma {
            self.text.push_str("#endif\n");
        }
        match line.ends_in_comment {
            true => {
                self.put_position(number + line.count - 1, name);
                self.text.push_str("/*\n");
            }
            false => self.put_position(number + line.count, name),
        }
        Ok(())
    }

    /// Appends empty lines for a directive, and the ends of comments that reach into its line.
    fn leave_out(&mut self, line: &Line<'_>) {
        if line.begins_in_comment {
            self.text.push_str("*/");
        }
        if line.ends_in_comment {
            self.text.push_str("/*");
        }
        self.text.extend(std::iter::repeat_n('\n', line.count));
    }

    /// Says which line of which file the next one is.
    fn put_position(&mut self, number: usize, name: &str) {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "#line {number} \"{name}\"");
    }

    /// The file that a directive in the innermost file means by a name, which has its quotes.
    fn find(&mut self, what: &str) -> Option<(Place, Rc<File>)> {
        let is_near = what.starts_with('"');
        let name = Path::new(&what[1..what.len() - 1]);
        let mut places = Vec::new();
        if is_near {
            places.push(match self.around.last() {
                Some(Place::Header(header)) => Place::Header(header.with_file_name(name)),
                Some(Place::File(file)) => Place::File(file.with_file_name(name)),
                None => Place::Header(name.to_owned()),
            });
        }
        places.push(Place::Header(name.to_owned()));
        if is_near && self.around.is_empty() {
            places.push(Place::File(name.to_owned()));
        }
        let folders = self.folders.iter();
        places.extend(folders.map(|folder| Place::File(folder.join(name))));
        places.into_iter().find_map(|place| self.read(place))
    }

    fn read(&mut self, place: Place) -> Option<(Place, Rc<File>)> {
        let name = match &place {
            Place::Header(path) | Place::File(path) => path.display().to_string(),
        };
        let place = match place {
            // One file has one place.
            Place::File(path) => Place::File(path.canonicalize().ok()?),
            Place::Header(path) => Place::Header(plain(&path)),
        };
        if let Some(known) = self.files.get(&place) {
            let known = known.clone();
            return Some((place, known));
        }
        let mut text = match &place {
            Place::Header(path) => {
                let mut headers = self.headers.iter();
                let (_, text) = headers.find(|(name, _)| plain(Path::new(name)) == *path)?;
                text.clone()
            }
            Place::File(path) => text_of(path)?,
        };
        // A text has no zeros on its way to a compiler.
        text.retain(|c| c != '\0');
        let once = Once::of(&text);
        let number = self.files.len();
        let file = Rc::new(File {
            name,
            text,
            once,
            number,
        });
        self.files.insert(place.clone(), file.clone());
        Some((place, file))
    }
}

/// A path without parts that lead nowhere.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// The text of a file, and a little more than is taken of one that is too long.
fn text_of(path: &Path) -> Option<String> {
    // Others, as pipes, might never end.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    let most = MOST_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(with_plain_lines(&as_utf8(&bytes)))
}

/// A text without a byte order mark, in which each line ends with a line feed.
fn with_plain_lines(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut pieces = text.split('\r').peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(piece) = pieces.next() {
        plain.push_str(piece);
        match pieces.peek() {
            Some(next) if next.starts_with('\n') => plain.push('\r'),
            Some(_) => plain.push('\n'),
            None => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests;

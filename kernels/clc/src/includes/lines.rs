//! Lines of a text as C's preprocessor has them: joined by backslashes, without comments.

use std::iter::Peekable;
use std::str::Chars;

/// A directive, as far as including files depends on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The line is none, or another.
    None,
    /// A name in its quotes or angle brackets.
    Include(String),
    /// The macro that is the name.
    IncludeMacro(String),
    /// The beginning of a condition; with a name, that this macro is not defined.
    If(Option<String>),
    /// Another branch of one.
    Else,
    EndIf,
    /// A macro; the name of a file in its quotes or angle brackets, if it stands for that and
    /// nothing else.
    Define(String, Option<String>),
    Undefine(String),
    /// `#pragma once`
    Once,
}

/// A line, with those that are joined to it.
pub(super) struct Line<'a> {
    /// As it is in the file, with its end.
    pub(super) text: &'a str,
    /// The number of lines of the file that it stands for.
    pub(super) count: usize,
    pub(super) begins_in_comment: bool,
    pub(super) ends_in_comment: bool,
    pub(super) directive: Directive,
    has_code: bool,
}

impl Line<'_> {
    /// True if it has anything but comments.
    pub(super) fn has_code(&self) -> bool {
        self.has_code
    }
}

/// The lines of a text.
pub(super) struct Lines<'a> {
    rest: &'a str,
    is_in_comment: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            is_in_comment: false,
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut length, mut count) = (0, 0);
        for piece in self.rest.split_inclusive('\n') {
            length += piece.len();
            count += 1;
            if !is_joined(piece) {
                break;
            }
        }
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        let begins_in_comment = self.is_in_comment;
        let joined: String = text.split_inclusive('\n').map(without_join).collect();
        let code = without_comments(&joined, &mut self.is_in_comment);
        Some(Line {
            text,
            count,
            begins_in_comment,
            ends_in_comment: self.is_in_comment,
            directive: directive(code.trim()),
            has_code: !code.trim().is_empty(),
        })
    }
}

/// True if the next line is joined to one: blanks may follow the backslash, as compilers have it.
pub(super) fn is_joined(line: &str) -> bool {
    line.ends_with('\n') && line.trim_end().ends_with('\\')
}

/// A line without what joins the next to it.
fn without_join(line: &str) -> &str {
    match line.trim_end().strip_suffix('\\') {
        Some(code) if is_joined(line) => code,
        _ => line,
    }
}

/// A line with a space for each comment.
fn without_comments(line: &str, is_in_comment: &mut bool) -> String {
    let mut code = String::new();
    let mut rest = line.chars().peekable();
    if *is_in_comment {
        skip_comment(&mut rest, is_in_comment);
        code.push(' ');
    }
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('/')) => break,
            ('/', Some('*')) => {
                rest.next();
                *is_in_comment = true;
                skip_comment(&mut rest, is_in_comment);
                code.push(' ');
            }
            ('"' | '\'', _) => {
                code.push(c);
                put_literal(&mut rest, c, &mut code);
            }
            _ => code.push(c),
        }
    }
    code
}

/// Goes to behind the end of a comment, if the line has it.
fn skip_comment(rest: &mut Peekable<Chars<'_>>, is_in_comment: &mut bool) {
    while let Some(c) = rest.next() {
        if c == '*' && rest.next_if_eq(&'/').is_some() {
            *is_in_comment = false;
            return;
        }
    }
}

/// Appends a literal up to the quote that ends it.
fn put_literal(rest: &mut Peekable<Chars<'_>>, quote: char, code: &mut String) {
    while let Some(c) = rest.next() {
        code.push(c);
        match c {
            '\\' => code.extend(rest.next()),
            c if c == quote => return,
            _ => {}
        }
    }
}

fn directive(code: &str) -> Directive {
    let Some(code) = code.strip_prefix('#') else {
        return Directive::None;
    };
    let (word, rest) = word(code.trim_start());
    match word {
        "include" => match (included(rest), name(rest)) {
            (Some(file), _) => Directive::Include(file),
            (None, Some(name)) if name.len() == rest.len() => Directive::IncludeMacro(name),
            _ => Directive::None,
        },
        "ifndef" => Directive::If(name(rest)),
        "if" => Directive::If(undefined(rest)),
        "ifdef" => Directive::If(None),
        "else" | "elif" | "elifdef" | "elifndef" => Directive::Else,
        "endif" => Directive::EndIf,
        "define" => match name(rest) {
            Some(name) => {
                let file = file(&rest[name.len()..]);
                Directive::Define(name, file)
            }
            None => Directive::None,
        },
        "undef" => name(rest).map_or(Directive::None, Directive::Undefine),
        "pragma" if self::word(rest).0 == "once" => Directive::Once,
        _ => Directive::None,
    }
}

/// The word that a text begins with, and what follows its spaces.
fn word(text: &str) -> (&str, &str) {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

fn name(text: &str) -> Option<String> {
    let (name, _) = word(text);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The macro of a condition that it is not defined, and nothing else.
fn undefined(condition: &str) -> Option<String> {
    let rest = condition.strip_prefix('!')?.trim_start();
    let rest = rest.strip_prefix("defined")?.trim();
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.strip_suffix(')')?.trim(),
        None => rest,
    };
    let (name, after) = word(rest);
    (!name.is_empty() && after.is_empty()).then(|| name.to_owned())
}

/// The name of a file that is included, if it is written out.
fn included(text: &str) -> Option<String> {
    let end = match text.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    let (name, _) = text[1..].split_once(end)?;
    (!name.is_empty()).then(|| text[..name.len() + 2].to_owned())
}

/// The name of a file that a text is, between blanks.
pub(super) fn file(text: &str) -> Option<String> {
    let text = text.trim();
    included(text).filter(|file| file == text)
}

/// A line of a condition, with 1 in place of each `__has_include` of a file that `is_there`. Names
/// that come from macros stay.
pub(super) fn with_answers(line: &str, mut is_there: impl FnMut(&str) -> bool) -> String {
    const ASKS: &str = "__has_include";
    let (mut answered, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(ASKS) {
        let after = &rest[at + ASKS.len()..];
        let asked = after.trim_start().strip_prefix('(').map(str::trim_start);
        let asked = asked.and_then(|text| Some((included(text)?, text)));
        let end = asked.and_then(|(file, text)| {
            let after = text[file.len()..].trim_start().strip_prefix(')')?;
            is_there(&file).then_some(after)
        });
        answered.push_str(&rest[..at]);
        match end {
            Some(end) => {
                answered.push('1');
                rest = end;
            }
            None => {
                answered.push_str(ASKS);
                rest = after;
            }
        }
    }
    answered + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Vec<Directive> {
        Lines::new(text).map(|line| line.directive).collect()
    }

    #[test]
    fn directives_are_found_between_comments_and_joined_lines() {
        let include = |name: &str| Directive::Include(name.to_owned());
        assert_eq!(directives("#include \"a.h\""), [include("\"a.h\"")]);
        assert_eq!(
            directives("  # /* why */ inc\\\nlude <b/c.h> // b\n"),
            [include("<b/c.h>")]
        );
        assert_eq!(
            directives("/* begins\n #include \"no.h\"\n */ #include \"a//b.h\" /* goes on\n*/"),
            [
                Directive::None,
                Directive::None,
                include("\"a//b.h\""),
                Directive::None
            ]
        );
        for none in [
            "// #include \"a.h\"",
            "x = \"\\\"/*\"; // a comment\n",
            "char c = '\"';",
            "#include NAME(x)",
            "#include \"a",
            "#include \"\"",
            "# not a directive",
            "#",
            "#include_next <a.h>",
            "// joined \\\n#include \"a.h\"",
        ] {
            assert_eq!(directives(none), [Directive::None], "{none}");
        }
        assert_eq!(
            directives("a = '/'; b = \"/*\";\n#include \"a.h\""),
            [Directive::None, include("\"a.h\"")]
        );
        let lines: Vec<_> = Lines::new("a \\\r\n b\nc").map(|line| line.count).collect();
        assert_eq!(lines, [2, 1]);
    }

    #[test]
    fn conditions_and_macros_are_found() {
        let name = || Some("A_H".to_owned());
        let define = |file: &str| Directive::Define("A_H".to_owned(), Some(file.to_owned()));
        for (text, directive) in [
            ("#ifndef A_H", Directive::If(name())),
            ("#if !defined(A_H)", Directive::If(name())),
            ("#if ! defined A_H", Directive::If(name())),
            ("#if !defined(A_H) && B", Directive::If(None)),
            ("#if !defined(A_H) || defined(B)", Directive::If(None)),
            ("#ifdef A_H", Directive::If(None)),
            ("#elif B", Directive::Else),
            ("#endif // A_H", Directive::EndIf),
            (
                "#define A_H(x) 1",
                Directive::Define("A_H".to_owned(), None),
            ),
            (
                "#define A_H(x) \"a.h\"",
                Directive::Define("A_H".to_owned(), None),
            ),
            ("#define A_H \"a.h\" // a", define("\"a.h\"")),
            ("#define A_H <b/a.h>", define("<b/a.h>")),
            (
                "#define A_H \"a.h\" 1",
                Directive::Define("A_H".to_owned(), None),
            ),
            ("#include A_H", Directive::IncludeMacro("A_H".to_owned())),
            ("#undef A_H", Directive::Undefine("A_H".to_owned())),
            ("#pragma once", Directive::Once),
            ("#pragma onces", Directive::None),
        ] {
            assert_eq!(directives(text), [directive], "{text}");
        }
    }

    #[test]
    fn questions_for_files_are_answered_where_these_are_there() {
        let answered = |line: &str| with_answers(line, |file| file != "<no.h>");
        for (line, answer) in [
            ("#if __has_include(\"a.h\")\n", "#if 1\n"),
            (
                "#elif defined(__has_include) && __has_include( <a.h> ) && X",
                "#elif defined(__has_include) && 1 && X",
            ),
            (
                "#if __has_include(<no.h>) || __has_include(<a.h>)",
                "#if __has_include(<no.h>) || 1",
            ),
            ("#if __has_include(MACRO)", "#if __has_include(MACRO)"),
            ("#if __has_include(\"a.h\"", "#if __has_include(\"a.h\""),
        ] {
            assert_eq!(answered(line), answer);
        }
    }
}

//! Lines of source with indentation and `#line` directives.

use crate::function::Location;

/// Text being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) lines: String,
    indent: usize,
    directives: bool,
    /// The user's line that a compiler would take the next line for.
    expected: Option<Location>,
}

impl Text {
    pub(super) fn new(indent: usize, directives: bool) -> Self {
        Self {
            lines: String::new(),
            indent,
            directives,
            expected: None,
        }
    }

    /// A text of the same kind, to be appended later, deeper by some steps.
    pub(super) fn inner(&self, deeper: usize) -> Self {
        Self::new(self.indent + deeper, self.directives)
    }

    /// One line.
    pub(super) fn line(&mut self, line: &str) {
        for _ in 0..self.indent {
            self.lines.push_str("    ");
        }
        self.lines.push_str(line);
        self.lines.push('\n');
        if let Some(expected) = &mut self.expected {
            expected.line += 1;
        }
    }

    /// One line that stems from the user's.
    pub(super) fn line_at(&mut self, location: Option<Location>, line: &str) {
        if let (true, Some(location)) = (self.directives, location)
            && self.expected != Some(location)
        {
            self.lines.push_str(&format!(
                "#line {} {}\n",
                location.line,
                quoted(location.file)
            ));
            self.expected = Some(location);
        }
        self.line(line);
    }

    pub(super) fn deeper(&mut self) {
        self.indent += 1;
    }

    pub(super) fn back(&mut self) {
        self.indent -= 1;
    }

    /// Appends text that was written elsewhere.
    pub(super) fn append(&mut self, text: &Self) {
        self.lines.push_str(&text.lines);
        self.expected = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The line, if it is one.
    pub(super) fn single(&self) -> Option<&str> {
        let line = self.lines.strip_suffix('\n')?;
        (!line.contains('\n')).then(|| line.trim_start())
    }
}

/// A C string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\t' => quoted.push_str("\\t"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            // Three octal digits end the escape, whatever follows.
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

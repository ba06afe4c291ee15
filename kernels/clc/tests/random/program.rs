//! Random programs as trees of statements, which can be made smaller.

use std::fmt::Write;

/// A statement, or a few that belong together.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// One that may be left out.
    Text(String),
    /// One that what follows relies on.
    Fixed(String),
    /// One with others within: `if (…) {`, `} else {`, `}`.
    Nested {
        parts: Vec<(String, Vec<Statement>)>,
        end: String,
    },
}

/// A kernel with the functions that it calls, and how it is launched.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) functions: Vec<Statement>,
    pub(crate) kernel: Statement,
    pub(crate) local: [usize; 3],
    pub(crate) groups: [usize; 3],
    /// The kernel's last two arguments.
    pub(crate) numbers: (i32, u32),
    /// True if it is compiled for its size of work-groups alone, and not for any.
    pub(crate) is_of_size: bool,
}

impl Program {
    pub(crate) fn items(&self) -> usize {
        self.local.iter().product()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for statement in self.functions.iter().chain([&self.kernel]) {
            print(statement, 0, &mut text);
        }
        text
    }

    /// All that have one statement less, the largest one first, or one that is within another in
    /// its place.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.functions.len() {
            let mut less = self.clone();
            less.functions.remove(at);
            all.push(less);
        }
        for kernel in smaller(&self.kernel) {
            all.push(Self {
                kernel,
                ..self.clone()
            });
        }
        for (at, function) in self.functions.iter().enumerate() {
            for function in smaller(function) {
                let mut less = self.clone();
                less.functions[at] = function;
                all.push(less);
            }
        }
        if self.groups != [1; 3] {
            let groups = [1; 3];
            all.push(Self {
                groups,
                ..self.clone()
            });
        }
        all
    }
}

fn print(statement: &Statement, depth: usize, to: &mut String) {
    let indent = "    ".repeat(depth);
    match statement {
        Statement::Text(text) | Statement::Fixed(text) => {
            for line in text.lines() {
                let _ = writeln!(to, "{indent}{line}");
            }
        }
        Statement::Nested { parts, end } => {
            for (head, body) in parts {
                let _ = writeln!(to, "{indent}{head}");
                body.iter().for_each(|one| print(one, depth + 1, to));
            }
            let _ = writeln!(to, "{indent}{end}");
        }
    }
}

/// All that a statement with others within may become that is smaller.
fn smaller(statement: &Statement) -> Vec<Statement> {
    let Statement::Nested { parts, end } = statement else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut with = |part: usize, body: Vec<Statement>| {
        let mut parts = parts.clone();
        parts[part].1 = body;
        all.push(Statement::Nested {
            parts,
            end: end.clone(),
        });
    };
    for (part, (_, body)) in parts.iter().enumerate() {
        // Halves, then each.
        for length in [body.len() / 2, body.len() / 4, 1] {
            for start in (0..body.len())
                .step_by(length.max(1))
                .filter(|_| length > 0)
            {
                let range = start..(start + length).min(body.len());
                let is_fixed = |one: &Statement| matches!(one, Statement::Fixed(_));
                if !body[range.clone()].iter().any(is_fixed) {
                    let mut less = body.clone();
                    less.drain(range);
                    with(part, less);
                }
            }
        }
        for (at, inner) in body.iter().enumerate() {
            if let Statement::Nested { parts, .. } = inner {
                for (_, within) in parts {
                    let mut less = body.clone();
                    less.splice(at..=at, within.clone());
                    with(part, less);
                }
            }
            for inner in smaller(inner) {
                let mut less = body.clone();
                less[at] = inner;
                with(part, less);
            }
        }
    }
    all
}

//! Macros, as far as including files depends on them.

use super::lines;
use std::collections::{HashMap, HashSet};

/// The macros that a text and its compiler's options define. No condition is evaluated.
pub(super) struct Macros {
    /// Those that are defined somewhere.
    defined: HashSet<String>,
    /// Those that are undefined somewhere.
    undefined: HashSet<String>,
    /// Those that stand for something.
    values: HashMap<String, Value>,
}

/// The replacement of a macro.
#[derive(Clone, PartialEq, Eq)]
enum Value {
    /// A file, or something else, under no condition.
    Certain(Option<String>),
    /// The same, if a condition holds.
    Possible(Option<String>),
    /// One of several.
    Several,
}

/// The condition under which a macro is defined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Under no condition.
    Certain,
    /// If it is not defined yet, and other conditions around that hold.
    IfNot,
    /// If some condition holds.
    Possible,
}

impl Macros {
    /// Those of a compiler's options, with their values.
    pub(super) fn of(options: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut macros = Self {
            defined: HashSet::new(),
            undefined: HashSet::new(),
            values: HashMap::new(),
        };
        for (name, value) in options {
            macros.define(&name, &lines::file(&value), When::Certain);
        }
        macros
    }

    /// A macro is defined: under no condition, or under one, of which the innermost may be that it
    /// is not defined yet.
    pub(super) fn define(&mut self, name: &str, file: &Option<String>, when: When) {
        self.defined.insert(name.to_owned());
        let new = match (when == When::Certain, self.values.get(name)) {
            (true, _) => Value::Certain(file.clone()),
            (false, Some(Value::Certain(_))) if when == When::IfNot => return,
            (false, Some(Value::Certain(before))) if before == file => return,
            (false, None) => Value::Possible(file.clone()),
            (false, Some(Value::Possible(before))) if before == file => return,
            (false, Some(_)) => Value::Several,
        };
        self.values.insert(name.to_owned(), new);
    }

    pub(super) fn undefine(&mut self, name: &str, is_certain: bool) {
        self.undefined.insert(name.to_owned());
        match is_certain {
            true => self.values.remove(name),
            false => self.values.insert(name.to_owned(), Value::Several),
        };
    }

    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    pub(super) fn is_undefined(&self, name: &str) -> bool {
        self.undefined.contains(name)
    }

    /// The file that a macro stands for, in its quotes or angle brackets; none if it may stand for
    /// something else.
    pub(super) fn file(&self, name: &str) -> Option<String> {
        match self.values.get(name)? {
            Value::Certain(file) | Value::Possible(file) => file.clone(),
            Value::Several => None,
        }
    }
}

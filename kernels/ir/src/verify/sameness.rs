//! The uniformity analysis' knowledge of a value.

use std::rc::Rc;

/// The threads for which something is the same, as far as can be seen. Of two that are combined the
/// greater holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Same {
    /// All threads of the grid.
    Grid,
    /// All threads of the block.
    Block,
    /// All threads of a warp.
    Warp,
    /// It is a thread's own.
    Thread,
}

/// The facts of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// Itself; of a slice, where it is and how long.
    pub(super) same: Same,
    /// Of a slice, the sameness of the value at one place in it.
    pub(super) content: Same,
    /// Of a struct or tuple, the facts of each field, if they are not those of the whole.
    pub(super) fields: Option<Rc<[Known]>>,
}

impl Known {
    pub(super) fn of(same: Same) -> Self {
        Self {
            same,
            content: Same::Grid,
            fields: None,
        }
    }

    /// A struct of these fields.
    pub(super) fn structure(fields: Vec<Self>) -> Self {
        let all = |of: fn(&Self) -> Same| fields.iter().map(of).fold(Same::Grid, Same::max);
        let whole = Self {
            same: all(|field| field.same),
            content: all(|field| field.content),
            fields: None,
        };
        let is_plain = fields.iter().all(|field| *field == whole);
        Self {
            fields: (!is_plain).then(|| fields.into()),
            ..whole
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        let count = |of: &Self| of.fields.as_ref().map(|fields| fields.len());
        match count(self).or(count(other)) {
            Some(count) => Self::structure(
                (0..count)
                    .map(|at| self.field(at).or(&other.field(at)))
                    .collect(),
            ),
            None => Self {
                same: self.same.max(other.same),
                content: self.content.max(other.content),
                fields: None,
            },
        }
    }

    /// The facts of a field.
    pub(super) fn field(&self, at: usize) -> Self {
        match &self.fields {
            Some(fields) => fields[at].clone(),
            None => self.clone(),
        }
    }

    /// The facts if something known is written to a field, of so many.
    pub(super) fn with_field(&self, at: usize, count: usize, known: Self) -> Self {
        let field = |number| {
            if number == at {
                known.clone()
            } else {
                self.field(number)
            }
        };
        Self::structure((0..count).map(field).collect())
    }
}

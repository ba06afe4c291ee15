//! Expressions: text with its precedence and the effects of its evaluation.
//!
//! A value that is used once is not given a name: the expression that defines it is put where it is
//! used. That is done only where nothing between the two could change its value, as [`Effects`]
//! tell:
//!
//! * An expression that reads memory moves over no statement that may write that memory.
//! * An expression that may fault moves over no statement with an effect, and over no other that
//!   may fault; it is put only where it is evaluated for certain. So the first fault of a thread is
//!   the first in the user's order.
//! * Nothing moves into a loop or a branch.

use std::collections::BTreeSet;

use crate::function::LocalId;
use crate::operation::Literal;
use crate::types::Space;

/// The precedence of C's operators; more binds stronger.
pub(super) mod precedence {
    pub(crate) const PRIMARY: u8 = 15;
    pub(crate) const UNARY: u8 = 14;
    pub(crate) const MULTIPLY: u8 = 13;
    pub(crate) const ADD: u8 = 12;
    pub(crate) const SHIFT: u8 = 11;
    pub(crate) const RELATION: u8 = 10;
    pub(crate) const EQUALITY: u8 = 9;
    pub(crate) const AND: u8 = 8;
    pub(crate) const XOR: u8 = 7;
    pub(crate) const OR: u8 = 6;
    pub(crate) const LOGICAL_AND: u8 = 5;
    pub(crate) const LOGICAL_OR: u8 = 4;
    pub(crate) const CONDITIONAL: u8 = 3;
    pub(crate) const ARGUMENT: u8 = 2;
}

/// The things that the evaluation of an expression depends on and changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    /// It may record a fault.
    pub(super) faults: bool,
    /// Variables that it reads.
    pub(super) locals: BTreeSet<LocalId>,
    /// It reads variables through slices.
    pub(super) private: bool,
    /// It reads global memory.
    pub(super) global: bool,
    /// It reads shared memory.
    pub(super) shared: bool,
}

impl Effects {
    /// It reads some memory through a slice.
    pub(super) fn read(&mut self, space: Space) {
        match space {
            Space::Global => self.global = true,
            Space::Shared => self.shared = true,
            Space::Private => self.private = true,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.faults |= other.faults;
        self.locals.extend(&other.locals);
        self.private |= other.private;
        self.global |= other.global;
        self.shared |= other.shared;
    }

    /// It cannot move over a statement that does that.
    pub(super) fn conflicts(&self, change: Change) -> bool {
        match change {
            Change::Fault => self.faults,
            Change::Local(local) => self.private || self.locals.contains(&local),
            Change::Memory(Space::Private) => {
                self.faults || self.private || !self.locals.is_empty()
            }
            Change::Memory(Space::Global) => self.faults || self.global,
            Change::Memory(Space::Shared) => self.faults || self.shared,
            Change::All => {
                self.faults || self.private || self.global || self.shared || !self.locals.is_empty()
            }
        }
    }
}

/// The change of a statement that expressions do not move over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// May record a fault.
    Fault,
    /// Writes a variable.
    Local(LocalId),
    /// Writes memory through a slice.
    Memory(Space),
    /// Anything.
    All,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) precedence: u8,
    pub(super) effects: Effects,
    /// The number, if it is a constant.
    pub(super) literal: Option<Literal>,
    /// The same bits as an unsigned integer with its precedence: of wrapping arithmetic with signed
    /// integers, which is done in unsigned ones and cast back. Saves the cast there and back again
    /// inside of an expression.
    pub(super) unsigned: Option<(String, u8)>,
}

impl Expression {
    pub(super) fn new(text: impl Into<String>, precedence: u8) -> Self {
        Self {
            text: text.into(),
            precedence,
            effects: Effects::default(),
            literal: None,
            unsigned: None,
        }
    }

    pub(super) fn primary(text: impl Into<String>) -> Self {
        Self::new(text, precedence::PRIMARY)
    }

    /// With the effects of its parts.
    pub(super) fn with<'e>(mut self, parts: impl IntoIterator<Item = &'e Self>) -> Self {
        for part in parts {
            self.effects.merge(&part.effects);
        }
        self
    }

    /// The text where at least so strong a binding is needed.
    pub(super) fn at(&self, level: u8) -> String {
        parenthesised(&self.text, self.precedence, level)
    }

    /// A name or number, which can be written any number of times.
    pub(super) fn is_simple(&self) -> bool {
        self.precedence == precedence::PRIMARY
            && !self.effects.faults
            && !self.effects.conflicts(Change::All)
            && !self.text.contains(['(', '['])
            || self.literal.is_some()
    }
}

pub(super) fn parenthesised(text: &str, precedence: u8, level: u8) -> String {
    if precedence < level {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

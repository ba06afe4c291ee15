//! The tree of a kernel's body: text with parts in it that can be taken out or put in the place of
//! each other.
//!
//! Making kernels smaller needs no knowledge of the language beyond three things: what is an
//! expression, of what type; what is a statement; and what is a block of them. All else is text.

use std::fmt::Write as _;

use crate::types::Type;

/// A part of an expression or statement.
#[derive(Clone, Debug)]
pub enum Piece {
    /// As it is written.
    Text(String),
    /// An expression in it.
    Expression(Expression),
    /// A block in it, with its braces.
    Block(Block),
}

/// Something with a value.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The type of its value.
    pub of: Type,
    /// Its text.
    pub pieces: Vec<Piece>,
}

/// Something with an effect.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its text, with its semicolon.
    pub pieces: Vec<Piece>,
    /// True if it stays where it is, whatever is taken away.
    pub is_fixed: bool,
}

/// Statements in braces, and the expression at their end.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// One after the other.
    pub statements: Vec<Statement>,
    /// The value of the block.
    pub value: Option<Box<Expression>>,
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Expression> for Piece {
    fn from(expression: Expression) -> Self {
        Self::Expression(expression)
    }
}

impl From<Block> for Piece {
    fn from(block: Block) -> Self {
        Self::Block(block)
    }
}

/// Pieces, of anything that is one.
macro_rules! pieces {
    ($($piece:expr),* $(,)?) => { vec![$($crate::tree::Piece::from($piece)),*] };
}
pub(crate) use pieces;

impl Expression {
    /// Of a type, written so.
    #[must_use]
    pub fn new(of: Type, pieces: Vec<Piece>) -> Self {
        Self { of, pieces }
    }

    /// A text.
    pub fn text(of: Type, text: impl Into<String>) -> Self {
        Self::new(of, vec![Piece::Text(text.into())])
    }
}

impl Statement {
    /// Written so.
    #[must_use]
    pub fn new(pieces: Vec<Piece>) -> Self {
        Self {
            pieces,
            is_fixed: false,
        }
    }

    /// Written so, and never taken away.
    #[must_use]
    pub fn fixed(pieces: Vec<Piece>) -> Self {
        Self {
            pieces,
            is_fixed: true,
        }
    }
}

/// Pieces as text, at a depth of blocks.
pub(crate) fn write(pieces: &[Piece], depth: usize, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Expression(expression) => write(&expression.pieces, depth, out),
            Piece::Block(block) => write_block(block, depth, out),
        }
    }
}

fn write_block(block: &Block, depth: usize, out: &mut String) {
    let indent = |out: &mut String, depth: usize| {
        let _ = write!(out, "\n{:1$}", "", 4 * depth);
    };
    out.push('{');
    for statement in &block.statements {
        indent(out, depth + 1);
        write(&statement.pieces, depth + 1, out);
    }
    if let Some(value) = &block.value {
        indent(out, depth + 1);
        write(&value.pieces, depth + 1, out);
    }
    indent(out, depth);
    out.push('}');
}

/// The number of expressions and statements.
#[must_use]
pub fn size(block: &Block) -> usize {
    fn of(pieces: &[Piece]) -> usize {
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(_) => 0,
                Piece::Expression(expression) => 1 + of(&expression.pieces),
                Piece::Block(block) => size(block),
            })
            .sum()
    }
    block
        .statements
        .iter()
        .map(|statement| 1 + of(&statement.pieces))
        .sum::<usize>()
        + block
            .value
            .iter()
            .map(|value| 1 + of(&value.pieces))
            .sum::<usize>()
}

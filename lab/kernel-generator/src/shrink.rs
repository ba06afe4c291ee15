//! Smaller forms of a kernel that may still show its fault.
//!
//! Nothing is asked about the meaning: a statement is taken away, an expression gives way to one
//! inside of it or to a constant. Some of what comes of it does not compile, as a name is gone that
//! is needed; whoever tries finds that out.

use crate::Kernel;
use crate::tree::{Block, Expression, Piece, Statement};
use crate::types::{Scalar, Type};

/// Kernels that are smaller by a step, those that lack the most first. Their names are numbered.
#[must_use]
pub fn smaller(kernel: &Kernel, most: usize) -> Vec<Kernel> {
    let mut all = Vec::new();
    for at in 0..kernel.structures.len() {
        let mut without = kernel.clone();
        without.structures.remove(at);
        all.push(without);
    }
    for at in 0..kernel.functions.len() {
        let mut without = kernel.clone();
        without.functions.remove(at);
        all.push(without);
    }
    let bodies = 1 + kernel.functions.len();
    for which in 0..bodies {
        let body = if which == 0 {
            &kernel.body
        } else {
            &kernel.functions[which - 1].body
        };
        for step in 0.. {
            let mut changed = body.clone();
            let mut left = step;
            if !in_block(&mut changed, &mut left) {
                break;
            }
            let mut smaller = kernel.clone();
            if which == 0 {
                smaller.body = changed;
            } else {
                smaller.functions[which - 1].body = changed;
            }
            all.push(smaller);
        }
    }
    let size = |kernel: &Kernel| (kernel.size(), kernel.source().len());
    let own = size(kernel);
    all.retain(|other| size(other) < own);
    all.sort_by_key(size);
    // Some of all sizes, if there are too many.
    let count = all.len();
    if count > most {
        let mut number = 0;
        all.retain(|_| {
            number += 1;
            number <= most / 2 || number * (most / 2) / count != (number - 1) * (most / 2) / count
        });
    }
    for (number, smaller) in all.iter_mut().enumerate() {
        smaller.rename(&format!("{}_{number}", kernel.name));
    }
    all
}

impl Kernel {
    /// Gives the kernel and all that belongs to it another name.
    fn rename(&mut self, name: &str) {
        // Each kernel is in a module of its own, so what else is in there keeps its name.
        name.clone_into(&mut self.name);
    }
}

/// Makes the `left`-th change in a block; false, and fewer `left`, if it has not so many.
fn in_block(block: &mut Block, left: &mut usize) -> bool {
    for at in 0..block.statements.len() {
        if block.statements[at].is_fixed {
            continue;
        }
        if *left == 0 {
            block.statements.remove(at);
            return true;
        }
        *left -= 1;
        // The contents of its blocks, in its place.
        let inner = inner_blocks(&block.statements[at]);
        if *left < inner.len() {
            let inner = inner[*left].clone();
            let mut statement = Statement::new(vec![Piece::Block(inner)]);
            statement.is_fixed = false;
            block.statements[at] = statement;
            return true;
        }
        *left -= inner.len();
    }
    for statement in &mut block.statements {
        if in_pieces(&mut statement.pieces, left) {
            return true;
        }
    }
    match &mut block.value {
        Some(value) => in_expression(value, left),
        None => false,
    }
}

/// The blocks of a statement that is more than a block.
fn inner_blocks(statement: &Statement) -> Vec<Block> {
    if let [Piece::Block(_)] = statement.pieces.as_slice() {
        return Vec::new();
    }
    statement
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.clone()),
            _ => None,
        })
        .collect()
}

fn in_pieces(pieces: &mut [Piece], left: &mut usize) -> bool {
    for piece in pieces {
        let done = match piece {
            Piece::Text(_) => false,
            Piece::Expression(expression) => in_expression(expression, left),
            Piece::Block(block) => in_block(block, left),
        };
        if done {
            return true;
        }
    }
    false
}

fn in_expression(expression: &mut Expression, left: &mut usize) -> bool {
    // Constants of its type.
    for constant in constants(&expression.of) {
        if matches!(expression.pieces.as_slice(), [Piece::Text(_)]) {
            break;
        }
        if *left == 0 {
            expression.pieces = vec![Piece::Text(constant)];
            return true;
        }
        *left -= 1;
    }
    // The parts of it that have its type.
    let mut inner = Vec::new();
    same_type(&expression.pieces, &expression.of, &mut inner);
    if *left < inner.len() {
        *expression = inner.swap_remove(*left);
        return true;
    }
    *left -= inner.len();
    in_pieces(&mut expression.pieces, left)
}

fn constants(of: &Type) -> Vec<String> {
    match of {
        Type::Scalar(Scalar::Bool) => vec!["true".into(), "false".into()],
        Type::Scalar(scalar) if scalar.is_float() => vec![format!("1.5{}", scalar.name())],
        Type::Scalar(scalar) => vec![format!("1{}", scalar.name())],
        _ => Vec::new(),
    }
}

/// The outermost expressions of a type, in blocks, too.
fn same_type(pieces: &[Piece], of: &Type, found: &mut Vec<Expression>) {
    for piece in pieces {
        match piece {
            Piece::Text(_) => {}
            Piece::Expression(inner) if inner.of == *of => found.push(inner.clone()),
            Piece::Expression(inner) => same_type(&inner.pieces, of, found),
            Piece::Block(block) => {
                if let Some(value) = &block.value {
                    same_type(&[Piece::Expression((**value).clone())], of, found);
                }
            }
        }
    }
}

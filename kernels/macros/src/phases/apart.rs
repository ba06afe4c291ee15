//! Tuples of `let` taken apart: `let (a, b) = (x, y);` as `let a = x; let b = y;`.
//!
//! The facts about variables are found out for a `let` as a whole. So two variables of one `let`
//! would both be the thread's own if one is.

use std::collections::HashSet;

use syn::visit::{self, Visit};
use syn::{Block, Expr, Ident, Local, LocalInit, Macro, Pat, PatType, Stmt, Type};

/// A block in which each `let` binds what one value gives; so do those in the loops and branches
/// that are its statements.
pub(crate) fn apart(block: &Block) -> Block {
    let statements = block.stmts.iter().flat_map(|statement| match statement {
        Stmt::Local(local) => match parts(local) {
            Some(parts) => parts.into_iter().map(Stmt::Local).collect(),
            None => vec![statement.clone()],
        },
        Stmt::Expr(expression, end) => vec![Stmt::Expr(within(expression), *end)],
        _ => vec![statement.clone()],
    });
    Block {
        brace_token: block.brace_token,
        stmts: statements.collect(),
    }
}

/// A loop or branch of such blocks.
fn within(expression: &Expr) -> Expr {
    let mut expression = expression.clone();
    match &mut expression {
        Expr::ForLoop(looped) => looped.body = apart(&looped.body),
        Expr::While(looped) => looped.body = apart(&looped.body),
        Expr::Loop(looped) => looped.body = apart(&looped.body),
        Expr::Block(block) => block.block = apart(&block.block),
        Expr::If(branch) => {
            branch.then_branch = apart(&branch.then_branch);
            if let Some((_, otherwise)) = &mut branch.else_branch {
                **otherwise = within(otherwise);
            }
        }
        _ => {}
    }
    expression
}

/// The `let`s that a `let` of a tuple is. `None` if it is another, or a part would hide what a
/// later one names.
fn parts(local: &Local) -> Option<Vec<Local>> {
    let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
    let mut pairs = Vec::new();
    take_apart(&local.pat, None, &init.expr, &mut pairs);
    if pairs.len() < 2 {
        return None;
    }
    let mut hidden = HashSet::new();
    for (pattern, value) in &pairs {
        let mut names = Names::default();
        names.visit_expr(value);
        if names.has_macro || !hidden.is_disjoint(&names.found) {
            return None;
        }
        let mut bound = Names::default();
        bound.visit_pat(pattern);
        hidden.extend(bound.found);
    }
    let part = |(pat, expr): (Pat, &Expr)| Local {
        pat,
        init: Some(LocalInit {
            eq_token: init.eq_token,
            expr: Box::new(expr.clone()),
            diverge: None,
        }),
        ..local.clone()
    };
    Some(pairs.into_iter().map(part).collect())
}

/// Patterns with the values that they are bound to, in order.
fn take_apart<'v>(
    pattern: &Pat,
    annotation: Option<&Type>,
    value: &'v Expr,
    pairs: &mut Vec<(Pat, &'v Expr)>,
) {
    match (pattern, annotation, value) {
        (Pat::Paren(inner), ..) => take_apart(&inner.pat, annotation, value, pairs),
        (_, _, Expr::Paren(inner)) => take_apart(pattern, annotation, &inner.expr, pairs),
        (Pat::Type(typed), None, _) => take_apart(&typed.pat, Some(&typed.ty), value, pairs),
        (Pat::Tuple(patterns), None, Expr::Tuple(values))
            if patterns.elems.len() == values.elems.len() && has_no_rest(pattern) =>
        {
            for (pattern, value) in patterns.elems.iter().zip(&values.elems) {
                take_apart(pattern, None, value, pairs);
            }
        }
        (Pat::Tuple(patterns), Some(Type::Tuple(types)), Expr::Tuple(values))
            if patterns.elems.len() == values.elems.len()
                && patterns.elems.len() == types.elems.len()
                && has_no_rest(pattern) =>
        {
            let annotated = patterns.elems.iter().zip(&types.elems).zip(&values.elems);
            for ((pattern, annotation), value) in annotated {
                take_apart(pattern, Some(annotation), value, pairs);
            }
        }
        (_, Some(annotation), _) => {
            let typed = PatType {
                attrs: Vec::new(),
                pat: Box::new(pattern.clone()),
                colon_token: syn::Token![:](proc_macro2::Span::mixed_site()),
                ty: Box::new(annotation.clone()),
            };
            pairs.push((Pat::Type(typed), value));
        }
        (_, None, _) => pairs.push((pattern.clone(), value)),
    }
}

fn has_no_rest(pattern: &Pat) -> bool {
    match pattern {
        Pat::Tuple(tuple) => !tuple.elems.iter().any(|part| matches!(part, Pat::Rest(_))),
        _ => false,
    }
}

/// The names in an expression, or those that a pattern binds.
#[derive(Default)]
struct Names {
    found: HashSet<Ident>,
    has_macro: bool,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_ident(&mut self, name: &'ast Ident) {
        self.found.insert(name.clone());
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.has_macro = true;
        visit::visit_macro(self, called);
    }
}

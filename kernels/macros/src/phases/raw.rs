//! Raw shared arrays (`into_raw()`), which no phase splits.
//!
//! Such a handle is the place and the length of an array, so it is the same for all threads, and
//! the block has it once. Handles may be chosen and change places where all threads do so alike. A
//! phase does not know the array that a handle leads to: threads go through each phase one by one
//! or side by side, and each does what it does in its own order. That is all that counts, as
//! between two barriers no thread reaches an element that another one writes. That is what the
//! kernel's `unsafe` promises.

use std::collections::{HashMap, HashSet};

use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprMethodCall, Ident, Local, Pat, Stmt};

use super::structure::names_in;

/// The methods of a raw array, or of a shared one that becomes raw, which change its elements at
/// most.
const METHODS: [&str; 9] = [
    "as_ptr",
    "get_mut",
    "is_empty",
    "len",
    "own",
    "read",
    "slice",
    "slice_mut",
    "write",
];

/// True if a method leaves such a handle as it is.
pub(super) fn keeps(method: &Ident) -> bool {
    METHODS.iter().any(|name| method == name)
}

/// The names that mean raw arrays wherever they are bound by `let`. `locals` are those of what all
/// threads come to.
pub(super) fn names(body: &Block, locals: &[&Local]) -> HashSet<Ident> {
    let mut bindings = Bindings::default();
    bindings.visit_block(body);
    let mut others = HashSet::new();
    loop {
        let mut raw = HashSet::new();
        let mut counts: HashMap<Ident, usize> = HashMap::new();
        for local in locals {
            for (name, _) in bound(local, &raw).unwrap_or_default() {
                *counts.entry(name.clone()).or_default() += 1;
                if !others.contains(&name) {
                    raw.insert(name);
                }
            }
        }
        let before = others.len();
        let is_other = |name: &&Ident| counts.get(*name) != bindings.0.get(*name);
        others.extend(raw.iter().filter(is_other).cloned());
        if others.len() == before {
            return raw;
        }
    }
}

/// The names that a `let` binds, if all are of raw arrays; with each the array that it is
/// `into_raw()` of, if it is seen.
pub(super) fn bound(local: &Local, raw: &HashSet<Ident>) -> Option<Vec<(Ident, Option<Ident>)>> {
    let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
    bound_to(&local.pat, &init.expr, raw)
}

fn bound_to(
    pattern: &Pat,
    value: &Expr,
    raw: &HashSet<Ident>,
) -> Option<Vec<(Ident, Option<Ident>)>> {
    match (pattern, value) {
        (Pat::Type(typed), _) => bound_to(&typed.pat, value, raw),
        (_, Expr::Paren(inner)) => bound_to(pattern, &inner.expr, raw),
        (_, Expr::If(_)) => {
            let values = branches(value)?;
            let names: Option<Vec<_>> = values
                .into_iter()
                .map(|value| bound_to(pattern, value, raw))
                .collect();
            let names = names?.into_iter().next()?;
            Some(names.into_iter().map(|(name, _)| (name, None)).collect())
        }
        (Pat::Tuple(parts), Expr::Tuple(values)) if parts.elems.len() == values.elems.len() => {
            let names: Option<Vec<_>> = parts
                .elems
                .iter()
                .zip(&values.elems)
                .map(|(part, value)| bound_to(part, value, raw))
                .collect();
            Some(names?.concat())
        }
        (Pat::Ident(name), Expr::Path(_) | Expr::MethodCall(_))
            if name.by_ref.is_none() && name.subpat.is_none() && is_one(value, raw) =>
        {
            let of = match value {
                Expr::MethodCall(call) => made_of(call).cloned(),
                _ => None,
            };
            Some(vec![(name.ident.clone(), of)])
        }
        _ => None,
    }
}

fn is_one(value: &Expr, raw: &HashSet<Ident>) -> bool {
    match value {
        Expr::Path(path) => path.path.get_ident().is_some_and(|name| raw.contains(name)),
        Expr::MethodCall(call) => made_of(call).is_some(),
        _ => false,
    }
}

/// The array of `array.into_raw()`.
fn made_of(call: &ExprMethodCall) -> Option<&Ident> {
    match &*call.receiver {
        Expr::Path(path) if call.method == "into_raw" && call.args.is_empty() => {
            path.path.get_ident()
        }
        _ => None,
    }
}

/// The values that an `if` may have.
fn branches(value: &Expr) -> Option<Vec<&Expr>> {
    fn tail(block: &Block) -> Option<&Expr> {
        match &block.stmts[..] {
            [Stmt::Expr(tail, None)] => Some(tail),
            _ => None,
        }
    }
    match value {
        Expr::If(branch) => {
            let mut values = vec![tail(&branch.then_branch)?];
            values.extend(branches(&branch.else_branch.as_ref()?.1)?);
            Some(values)
        }
        Expr::Block(block) if block.label.is_none() => Some(vec![tail(&block.block)?]),
        _ => None,
    }
}

/// The conditions by which raw arrays are chosen in a statement that [`bound`] or [`exchanged`]
/// knows.
pub(super) fn conditions(statement: &Stmt) -> Vec<&Expr> {
    #[derive(Default)]
    struct Conditions<'s>(Vec<&'s Expr>);
    impl<'s> Visit<'s> for Conditions<'s> {
        fn visit_expr_if(&mut self, branch: &'s syn::ExprIf) {
            self.0.push(&branch.cond);
            visit::visit_expr_if(self, branch);
        }
    }
    let mut conditions = Conditions::default();
    conditions.visit_stmt(statement);
    conditions.0
}

/// The arrays that a statement makes raw.
pub(super) fn made(statement: &Stmt) -> Vec<Ident> {
    #[derive(Default)]
    struct Made(Vec<Ident>);
    impl<'s> Visit<'s> for Made {
        fn visit_expr_method_call(&mut self, call: &'s ExprMethodCall) {
            self.0.extend(made_of(call).cloned());
            visit::visit_expr_method_call(self, call);
        }
    }
    let mut made = Made::default();
    made.visit_stmt(statement);
    made.0
}

/// The names that a statement gives other raw arrays: `(a, b) = (b, a)`, or a `swap` of them.
pub(super) fn exchanged(statement: &Stmt, raw: &HashSet<Ident>) -> Option<Vec<Ident>> {
    let Stmt::Expr(expression, _) = statement else {
        return None;
    };
    let names = match expression {
        Expr::Assign(assign) => {
            let names = names_in(&assign.left)?;
            is_given(names.len(), &assign.right, raw).then_some(names)
        }
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else {
                return None;
            };
            (function.path.segments.last()?.ident == "swap").then_some(())?;
            let lent = |argument: &Expr| match argument {
                Expr::Reference(reference) if reference.mutability.is_some() => {
                    names_in(&reference.expr)
                }
                _ => None,
            };
            let names: Option<Vec<_>> = call.args.iter().map(lent).collect();
            Some(names?.concat())
        }
        _ => None,
    };
    names.filter(|names| names.iter().all(|name| raw.contains(name)))
}

/// True if a value is so many raw arrays.
fn is_given(count: usize, value: &Expr, raw: &HashSet<Ident>) -> bool {
    match value {
        Expr::Paren(inner) => is_given(count, &inner.expr, raw),
        Expr::If(_) => branches(value)
            .is_some_and(|values| values.iter().all(|value| is_given(count, value, raw))),
        Expr::Tuple(tuple) => {
            tuple.elems.len() == count && tuple.elems.iter().all(|value| is_one(value, raw))
        }
        _ => count == 1 && is_one(value, raw),
    }
}

/// The number of times that each name is bound.
#[derive(Default)]
struct Bindings(HashMap<Ident, usize>);

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        *self.0.entry(pattern.ident.clone()).or_default() += 1;
        visit::visit_pat_ident(self, pattern);
    }
}

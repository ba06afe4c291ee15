//! Loops without `await` in kernels with barriers, made so that their variables can be in
//! registers.
//!
//! A variable of an `async fn` that is used before and behind an `await` is in the thread's future,
//! that is in memory. The compiler loads and stores it at each step of a loop: it cannot know what
//! other code sees it. So a loop without `await` gets variables of its own for those that it
//! assigns, which are never there at an `await`:
//!
//! ```text
//!                              (sum,) = {
//! for k in 0..n {                  let mut sum = sum;
//!     sum += x[k];        →        for k in 0..n { sum += x[k]; }
//! }                                (sum,)
//!                              };
//! ```
//!
//! This is done of the outermost `for` and `while` loops that are statements and that are left only
//! for the code behind them, and of variables that
//!
//! 1. are assigned as a whole there, with `=`, `+=` and so on, and are not bound there;
//! 2. have no namesake in the kernel that is bound without `mut` or without a value;
//! 3. are nowhere in an awaited expression, by which they may have been moved.

use std::collections::{BTreeSet, HashSet};

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::visit::{self, Visit};
use syn::{Block, Expr, FnArg, Ident, ItemFn, Lifetime, Local, Pat, PatIdent, Stmt, Token};

use crate::expression::is_assignment;

/// The body of a kernel with barriers, rewritten.
pub(crate) fn in_registers(item: &ItemFn) -> Block {
    let mut bound = Bound::default();
    for input in &item.sig.inputs {
        if let FnArg::Typed(input) = input {
            bound.visit_pat(&input.pat);
        }
    }
    bound.visit_block(&item.block);
    bound.variables.retain(|name| !bound.others.contains(name));
    let mut block = (*item.block).clone();
    rewrite(&mut block, &bound.variables);
    block
}

/// The names that are bound somewhere.
#[derive(Default)]
struct Bound {
    /// With `mut` and a value.
    variables: HashSet<Ident>,
    /// Otherwise, or in an awaited expression.
    others: HashSet<Ident>,
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        if pattern.mutability.is_some() && pattern.by_ref.is_none() {
            self.variables.insert(pattern.ident.clone());
        } else {
            self.others.insert(pattern.ident.clone());
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if local.init.is_none() {
            let mut bound = Self::default();
            bound.visit_pat(&local.pat);
            self.others.extend(bound.variables);
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_await(&mut self, awaited: &'ast syn::ExprAwait) {
        let mut used = Used(&mut self.others);
        used.visit_expr(&awaited.base);
        visit::visit_expr_await(self, awaited);
    }
}

/// The names in an expression.
struct Used<'n>(&'n mut HashSet<Ident>);

impl<'ast> Visit<'ast> for Used<'_> {
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.0.extend(path.path.get_ident().cloned());
    }
}

/// The facts of a loop.
#[derive(Default)]
struct Looped {
    labels: Vec<Lifetime>,
    /// True if it may go on elsewhere than behind the loop, or waits, or if that cannot be seen.
    leaves: bool,
    bound: Bound,
    assigned: BTreeSet<Ident>,
}

impl Looped {
    fn assign(&mut self, place: &Expr) {
        match place {
            Expr::Path(path) => self.assigned.extend(path.path.get_ident().cloned()),
            Expr::Paren(place) => self.assign(&place.expr),
            Expr::Tuple(places) => places.elems.iter().for_each(|place| self.assign(place)),
            _ => {}
        }
    }

    fn go(&mut self, to: Option<&Lifetime>) {
        self.leaves |= to.is_some_and(|label| !self.labels.contains(label));
    }
}

impl<'ast> Visit<'ast> for Looped {
    fn visit_label(&mut self, label: &'ast syn::Label) {
        self.labels.push(label.name.clone());
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Break(jump) => self.go(jump.label.as_ref()),
            Expr::Continue(jump) => self.go(jump.label.as_ref()),
            Expr::Return(_) | Expr::Try(_) | Expr::Await(_) | Expr::Macro(_) => self.leaves = true,
            Expr::Assign(assign) => self.assign(&assign.left),
            Expr::Binary(binary) if is_assignment(&binary.op) => self.assign(&binary.left),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_stmt_macro(&mut self, _: &'ast syn::StmtMacro) {
        self.leaves = true;
    }

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        self.bound.visit_pat(pattern);
    }
}

/// Rewrites the loops of a block, and of the blocks in it.
fn rewrite(block: &mut Block, variables: &HashSet<Ident>) {
    for statement in &mut block.stmts {
        let Stmt::Expr(expression, _) = statement else {
            continue;
        };
        if let Expr::ForLoop(_) | Expr::While(_) = expression {
            let mut looped = Looped::default();
            looped.visit_expr(expression);
            let bound = looped.bound;
            let mut own = looped.assigned;
            own.retain(|name| {
                let is_bound = bound.variables.contains(name) || bound.others.contains(name);
                variables.contains(name) && !is_bound
            });
            if !looped.leaves {
                if !own.is_empty() {
                    let own = Expr::Verbatim(with_own(expression, &own));
                    // The last of a block, too: attributes are for statements alone.
                    *statement = Stmt::Expr(own, Some(Token![;](Span::mixed_site())));
                }
                continue;
            }
        }
        rewrite_within(expression, variables);
    }
}

/// The same of the blocks of a statement.
fn rewrite_within(expression: &mut Expr, variables: &HashSet<Ident>) {
    match expression {
        Expr::ForLoop(looped) => rewrite(&mut looped.body, variables),
        Expr::While(looped) => rewrite(&mut looped.body, variables),
        Expr::Loop(looped) => rewrite(&mut looped.body, variables),
        Expr::Block(block) => rewrite(&mut block.block, variables),
        Expr::If(condition) => {
            rewrite(&mut condition.then_branch, variables);
            if let Some((_, otherwise)) = &mut condition.else_branch {
                rewrite_within(otherwise, variables);
            }
        }
        Expr::Match(choice) => {
            for arm in &mut choice.arms {
                rewrite_within(&mut arm.body, variables);
            }
        }
        _ => {}
    }
}

/// A loop with variables of its own.
fn with_own(looped: &Expr, own: &BTreeSet<Ident>) -> TokenStream {
    let names: Vec<_> = own.iter().collect();
    quote! {
        #[allow(unused_assignments, clippy::shadow_same, clippy::shadow_reuse, clippy::shadow_unrelated)]
        {
            (#(#names,)*) = {
                #(let mut #names = #names;)*
                #looped
                (#(#names,)*)
            };
        }
    }
}

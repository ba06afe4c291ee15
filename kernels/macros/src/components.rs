//! Indices and extents that are taken apart as arrays: `let [i, j] = acc.index(Grid, Threads);`.
//!
//! A pattern of Rust's is one of an array alone. So rustc gets the array of the components.

use proc_macro2::Span;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprForLoop, ExprMethodCall, Ident, Local, Pat, Path, Stmt, parse_quote,
    parse_quote_spanned,
};

use crate::kernel::located;

/// Writes the arrays in the body of a function for rustc.
pub(crate) fn take_components(krate: &Path, body: &mut Block) {
    TakesApart(krate).visit_block_mut(body);
}

struct TakesApart<'a>(&'a Path);

impl VisitMut for TakesApart<'_> {
    /// `for ([i, j], element) in tile.each()`: the array is taken apart in the body.
    fn visit_expr_for_loop_mut(&mut self, each: &mut ExprForLoop) {
        visit_mut::visit_expr_for_loop_mut(self, each);
        let mut arrays = Vec::new();
        name_arrays(&mut each.pat, &mut arrays);
        let krate = self.0;
        let taken = arrays.into_iter().map(|(name, array)| -> Stmt {
            let span = array.span();
            let of = located(quote!(#krate::__macro::components(#name)), span);
            parse_quote_spanned!(span=> let #array = #of;)
        });
        each.body.stmts.splice(0..0, taken);
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        visit_mut::visit_local_mut(self, local);
        let Some(init) = &mut local.init else {
            return;
        };
        if !matches!(local.pat, Pat::Slice(_)) || init.diverge.is_some() {
            return;
        }
        let krate = self.0;
        let of = &init.expr;
        let written = match &**of {
            Expr::MethodCall(call) if is_measured(call) => {
                quote_spanned!(of.span()=> #of.components())
            }
            Expr::MethodCall(_) | Expr::Path(_) => {
                quote_spanned!(of.span()=> #krate::__macro::components(#of))
            }
            _ => return,
        };
        *init.expr = parse_quote!(#written);
    }
}

/// Gives names to the arrays in a pattern of a loop.
fn name_arrays(pattern: &mut Pat, arrays: &mut Vec<(Ident, Pat)>) {
    match pattern {
        Pat::Paren(paren) => name_arrays(&mut paren.pat, arrays),
        Pat::Tuple(tuple) => tuple
            .elems
            .iter_mut()
            .for_each(|part| name_arrays(part, arrays)),
        Pat::Slice(array) => {
            let span = array.span().resolved_at(Span::mixed_site());
            let name = format_ident!("array{}", arrays.len(), span = span);
            arrays.push((
                name.clone(),
                std::mem::replace(pattern, parse_quote!(#name)),
            ));
        }
        _ => {}
    }
}

/// True if a body asks for the index in the grid of its thread, or of that one's first element.
pub(crate) fn asks_for_place(body: &Block, acc: &Ident) -> bool {
    struct Asked<'a>(&'a Ident, bool);
    impl<'ast> Visit<'ast> for Asked<'_> {
        fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
            let is_named = |of: Option<&Expr>, name: &str| {
                matches!(of, Some(Expr::Path(path))
                    if path.path.segments.last().is_some_and(|last| last.ident == name))
            };
            let arguments = [call.args.first(), call.args.get(1)];
            self.1 |= call.method == "index"
                && matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident(self.0))
                && is_named(arguments[0], "Grid")
                && (is_named(arguments[1], "Threads") || is_named(arguments[1], "Elements"));
            visit::visit_expr_method_call(self, call);
        }
    }
    let mut asked = Asked(acc, false);
    asked.visit_block(body);
    asked.1
}

/// True if a call is `acc.index(Grid, Threads)`, or its like.
fn is_measured(call: &ExprMethodCall) -> bool {
    let is_asked = call.method == "index" || call.method == "extent";
    let origins = ["Grid", "Block", "Thread"];
    is_asked
        && matches!(call.args.first(), Some(Expr::Path(path))
            if origins.iter().any(|origin| path.path.is_ident(origin)))
}

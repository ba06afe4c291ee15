//! Indices and extents that are taken apart as arrays: `let [i, j] = acc.index(Grid, Threads);`.
//!
//! A pattern of Rust's is one of an array alone. So rustc gets the array of the components.

use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprMethodCall, Local, Pat, Path, parse_quote};

/// Writes the arrays in the body of a function for rustc.
pub(crate) fn take_components(krate: &Path, body: &mut Block) {
    TakesApart(krate).visit_block_mut(body);
}

struct TakesApart<'a>(&'a Path);

impl VisitMut for TakesApart<'_> {
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

/// True if a call is `acc.index(Grid, Threads)`, or its like.
fn is_measured(call: &ExprMethodCall) -> bool {
    let is_asked = call.method == "index" || call.method == "extent";
    let origins = ["Grid", "Block", "Thread"];
    is_asked
        && matches!(call.args.first(), Some(Expr::Path(path))
            if origins.iter().any(|origin| path.path.is_ident(origin)))
}

//! `assert!`s that all threads make alike: the block makes them once.

use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, Stmt, Token};

/// What an `assert!` asks, if the statement is one and its message shows no values: so all of it can be seen.
pub(super) fn condition(statement: &Stmt) -> Option<Expr> {
    let Stmt::Macro(of) = statement else {
        return None;
    };
    if !of.mac.path.is_ident("assert") {
        return None;
    }
    let arguments = of
        .mac
        .parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    let mut arguments = arguments.ok()?.into_iter();
    let condition = arguments.next()?;
    let shows_nothing = match arguments.next() {
        None => true,
        Some(Expr::Lit(ExprLit {
            lit: Lit::Str(message),
            ..
        })) => !message.value().contains(['{', '}']),
        Some(_) => false,
    };
    (shows_nothing && arguments.next().is_none()).then_some(condition)
}

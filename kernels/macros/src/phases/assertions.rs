//! `assert!`s and the like that all threads make alike: the block makes them once.

use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, Stmt, Token, parse_quote};

/// The condition of an `assert!`, `assert_eq!` or `assert_ne!`, if the statement is one and its
/// message shows no values: so all of it can be seen.
pub(super) fn condition(statement: &Stmt) -> Option<Expr> {
    let Stmt::Macro(of) = statement else {
        return None;
    };
    let name = of.mac.path.get_ident()?.to_string();
    if !matches!(&*name, "assert" | "assert_eq" | "assert_ne") {
        return None;
    }
    let arguments = of
        .mac
        .parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    let mut arguments = arguments.ok()?.into_iter();
    let mut condition = arguments.next()?;
    if name != "assert" {
        let other = arguments.next()?;
        condition = parse_quote!((#condition) == (#other));
    }
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

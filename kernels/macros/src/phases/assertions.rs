//! `assert!`s as branches: what is in a macro cannot be seen, and so would keep a kernel from having phases.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Block, Expr, ExprLit, ItemFn, Lit, Macro, Path, Stmt, Token, parse_quote_spanned};

use crate::registers::blocks_within;

/// The same function with a branch for each `assert!` that is a statement and whose message shows no values.
pub(super) fn opened(krate: &Path, item: &ItemFn) -> ItemFn {
    let mut item = item.clone();
    open(krate, &mut item.block);
    item
}

fn open(krate: &Path, block: &mut Block) {
    for statement in &mut block.stmts {
        match statement {
            Stmt::Macro(of) => {
                if let Some(branch) = branch(krate, &of.mac) {
                    *statement = branch;
                }
            }
            Stmt::Expr(expression, _) => blocks_within(expression, &mut |block| open(krate, block)),
            _ => {}
        }
    }
}

fn branch(krate: &Path, of: &Macro) -> Option<Stmt> {
    if !of.path.is_ident("assert") {
        return None;
    }
    let arguments = of.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    let mut arguments = arguments.ok()?.into_iter();
    let condition = arguments.next()?;
    let message = match arguments.next() {
        None => format!("assertion failed: {}", quote::quote!(#condition)),
        Some(Expr::Lit(ExprLit {
            lit: Lit::Str(message),
            ..
        })) => message.value(),
        Some(_) => return None,
    };
    if message.contains(['{', '}']) || arguments.next().is_some() {
        return None;
    }
    Some(parse_quote_spanned! {of.path.span()=>
        if !(#condition) {
            #krate::__macro::assertion_failed(#message)
        }
    })
}

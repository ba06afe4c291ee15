//! Block-shared arrays of which each element is written before any is read: a device need not set
//! these to zero.
//!
//! That is plain if the first statement of the body that names the array writes all of a thread's
//! own elements, and does so whatever the launch is. There are three such statements:
//!
//! | statement | of an array |
//! |---|---|
//! | `for element in a.own() { *element = …; … }` | of any length |
//! | `a.own().fill(…);` | of any length |
//! | `a.own()[0] = …;` | of one element for each thread: `#[shared(acc.extent(Block, Threads)[0])]`, in one dimension |
//!
//! Statements before it may leave the kernel. Then no thread reads the array: all come to the
//! barrier after which it is read, or none.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Block, Expr, Ident, Pat, Stmt, UnOp};

use crate::signature::AcceleratorParameter;

/// True if a body writes each element of an array, of such a length, before it reads one.
pub(crate) fn is_written_first(
    body: &Block,
    array: &Ident,
    length: &Expr,
    acc: &AcceleratorParameter,
) -> bool {
    let first = body.stmts.iter().find(|statement| names(statement, array));
    let Some(Stmt::Expr(statement, _)) = first else {
        return false;
    };
    match statement {
        Expr::ForLoop(each) => {
            let Pat::Ident(element) = &*each.pat else {
                return false;
            };
            is_own(&each.expr, array)
                && matches!(each.body.stmts.first(), Some(Stmt::Expr(Expr::Assign(assign), _))
                    if is_target_of(&assign.left, &element.ident) && !names(&assign.right, &element.ident))
                && !names(&each.body, array)
                && !may_leave(&each.body)
        }
        Expr::MethodCall(call) => {
            call.method == "fill"
                && is_own(&call.receiver, array)
                && !call
                    .args
                    .iter()
                    .any(|value| names(value, array) || may_leave(value))
        }
        Expr::Assign(assign) => {
            let Expr::Index(place) = &*assign.left else {
                return false;
            };
            is_own(&place.expr, array)
                && place.index.to_token_stream().to_string() == "0"
                && !names(&assign.right, array)
                && !may_leave(&assign.right)
                && is_one_for_each_thread(length, acc)
        }
        _ => false,
    }
}

/// `*element`
fn is_target_of(place: &Expr, element: &Ident) -> bool {
    let Expr::Unary(place) = place else {
        return false;
    };
    matches!(place.op, UnOp::Deref(_)) && is_name(&place.expr, element)
}

/// `a.own()`
fn is_own(expression: &Expr, array: &Ident) -> bool {
    let Expr::MethodCall(call) = expression else {
        return false;
    };
    call.method == "own" && call.args.is_empty() && is_name(&call.receiver, array)
}

fn is_name(expression: &Expr, name: &Ident) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}

/// `acc.extent(Block, Threads)[0]`, in one dimension.
fn is_one_for_each_thread(length: &Expr, acc: &AcceleratorParameter) -> bool {
    let name = &acc.name;
    acc.dimensions.to_string() == "1"
        && length.to_token_stream().to_string()
            == quote::quote!(#name.extent(Block, Threads)[0]).to_string()
}

/// True if a name is anywhere in code. A macro may name anything.
pub(crate) fn names(code: &impl ToTokens, name: &Ident) -> bool {
    has(
        code.to_token_stream(),
        &|token| matches!(token, TokenTree::Ident(ident) if ident == name),
    )
}

/// True if code may go on elsewhere, and leave elements as they are.
fn may_leave(code: &impl ToTokens) -> bool {
    has(code.to_token_stream(), &|token| match token {
        TokenTree::Ident(ident) => ident == "break" || ident == "continue" || ident == "return",
        TokenTree::Punct(mark) => mark.as_char() == '?',
        _ => false,
    })
}

/// True if one of these tokens, or of those in their groups, is such.
fn has(tokens: TokenStream, is_such: &impl Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => has(group.stream(), is_such),
        _ => is_such(&token),
    })
}

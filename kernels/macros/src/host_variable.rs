//! `static mut` in a kernel, which no device has.
//!
//! The macro knows no items, so it goes by names and by what else in a block may be `unsafe`.

use proc_macro2::{Ident, Span};
use syn::visit::{self, Visit};
use syn::{Block, Expr};

use crate::expression::is_assignment;
use crate::scope::Writer;

/// True of a name as constants and statics have.
fn is_of_constant(name: &Ident) -> bool {
    let name = name.to_string();
    name.starts_with(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// Looks for a `static mut` in a block that is `unsafe`.
struct HostVariable<'w> {
    writer: &'w Writer,
    /// The first that is assigned.
    assigned: Option<Span>,
    /// The first name that may be one.
    named: Option<Span>,
    /// True if something else in it may be what is `unsafe`.
    has_calls: bool,
}

impl HostVariable<'_> {
    fn name(&self, place: &Expr) -> Option<Span> {
        match place {
            Expr::Path(path) => {
                let last = &path.path.segments.last()?.ident;
                let is_host = is_of_constant(last) && self.writer.variable(&path.path).is_none();
                is_host.then(|| last.span())
            }
            Expr::Field(field) => self.name(&field.base),
            Expr::Index(index) => self.name(&index.expr),
            Expr::Paren(paren) => self.name(&paren.expr),
            _ => None,
        }
    }
}

impl<'ast> Visit<'ast> for HostVariable<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        let place = match expression {
            Expr::Assign(assign) => Some(&assign.left),
            Expr::Binary(binary) if is_assignment(&binary.op) => Some(&binary.left),
            Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
            _ => None,
        };
        self.assigned = self.assigned.or_else(|| self.name(place?));
        self.has_calls |= matches!(
            expression,
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Macro(_)
        );
        if matches!(expression, Expr::Path(_)) {
            self.named = self.named.or_else(|| self.name(expression));
        }
        visit::visit_expr(self, expression);
    }
}

impl Writer {
    /// The place in a block that is `unsafe` where it names a `static mut`, as far as that shows:
    /// the static is assigned, or there is nothing else that is `unsafe`.
    pub(crate) fn host_variable(&self, block: &Block) -> Option<Span> {
        let mut found = HostVariable {
            writer: self,
            assigned: None,
            named: None,
            has_calls: false,
        };
        found.visit_block(block);
        let named = found.named.filter(|_| !found.has_calls);
        found.assigned.or(named)
    }
}

//! Blocks and statements.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Block, Expr, ExprIf, ExprMethodCall, ExprTuple, Item, Local, Pat, PatTuple, Stmt, Token, Type,
    parse_quote_spanned,
};

use crate::control::{diverges, first_let};
use crate::refuse;
use crate::scope::{Kind, Want, Writer};

impl Writer {
    /// A block, as an expression: of its last expression, or of nothing.
    pub(crate) fn block(&mut self, block: &Block, want: Want) -> TokenStream {
        let body = self.scoped(|this| this.statements(&block.stmts, want));
        quote!({ #body })
    }

    pub(crate) fn statements(&mut self, statements: &[Stmt], want: Want) -> TokenStream {
        let mut written = TokenStream::new();
        let mut last = None;
        for (at, statement) in statements.iter().enumerate() {
            let is_last = at + 1 == statements.len();
            match statement {
                Stmt::Expr(expression, None) if is_last && want != Want::Nothing => {
                    last = Some(self.tail(expression, want));
                }
                Stmt::Expr(expression, _) => written.extend(self.effect(expression)),
                Stmt::Local(local) => written.extend(self.local(local)),
                Stmt::Item(item) => written.extend(self.item(item)),
                Stmt::Macro(mac) => written.extend(self.macro_statement(&mac.mac)),
            }
        }
        let last = last.unwrap_or_else(|| {
            if want != Want::Nothing && statements.iter().any(statement_diverges) {
                quote!(__quipu::never())
            } else {
                quote!(__quipu::nothing())
            }
        });
        quote!(#written #last)
    }

    /// The last expression of a block, or that of an arm, whose value it gives.
    pub(crate) fn tail(&mut self, expression: &Expr, want: Want) -> TokenStream {
        let value = self.expression(expression);
        if diverges(expression) {
            return value;
        }
        let span = expression.span();
        if want == Want::Choice && matches!(expression, Expr::Reference(_)) {
            return quote_spanned!(span=> __quipu::chosen(#value));
        }
        quote_spanned!(span=> __quipu::value(#value))
    }

    /// An expression whose value is not used, as a statement.
    pub(crate) fn effect(&mut self, expression: &Expr) -> TokenStream {
        let written = match expression {
            Expr::If(_) | Expr::Match(_) | Expr::Block(_) | Expr::Unsafe(_) | Expr::Loop(_) => {
                self.control(expression, Want::Nothing)
            }
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) => {
                let jump = self.jump(expression);
                return quote!(#jump;);
            }
            Expr::Paren(paren) => return self.effect(&paren.expr),
            _ => self.expression(expression),
        };
        quote!(let _ = #written;)
    }

    fn local(&mut self, local: &Local) -> TokenStream {
        let (pattern, annotation) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let shared = local.attrs.iter().find(|it| it.path().is_ident("shared"));
        if let Some(shared) = shared {
            // The names that it has are known from here on.
            let _ = self.declaration(pattern, annotation);
            return self.refuse(shared.span(), refuse::SHARED_LOCAL);
        }
        let Some(init) = &local.init else {
            return self.declaration(pattern, annotation);
        };
        if let Some((token, otherwise)) = &init.diverge {
            return self.let_else((pattern, annotation), &init.expr, token.span, otherwise);
        }
        if let (Pat::Ident(name), Expr::Closure(closure)) = (pattern, &*init.expr) {
            let kind = self.kind_of_closure(closure);
            let written = self.closure(closure);
            let name = &name.ident;
            self.define(name, kind);
            return quote!(let #name = #written;);
        }
        if let (Pat::Tuple(parts), Expr::Tuple(values), None) = (pattern, &*init.expr, annotation)
            && parts.elems.len() == values.elems.len()
            && !parts.elems.iter().any(|part| matches!(part, Pat::Rest(_)))
        {
            return self.each_of(&parts.elems, &values.elems);
        }
        if let (Pat::Tuple(parts), Expr::If(choice), None) = (pattern, &*init.expr, annotation)
            && let Some(choices) = choices(choice, parts)
        {
            return self.each_choice(parts, &choice.cond, &choices);
        }
        if let (Pat::Tuple(parts), Expr::MethodCall(call), None) =
            (pattern, &*init.expr, annotation)
            && parts.elems.len() == 2
            && (call.method == "split_at" || call.method == "split_at_mut")
            && let Some(middle) = call.args.first()
        {
            return self.split_at(parts, call, middle);
        }
        let mut value = self.expression(&init.expr);
        if let (Some(Type::Reference(_)), Expr::Reference(_)) = (annotation, &*init.expr) {
            value = quote_spanned!(init.expr.span()=> __quipu::coerced(#value));
        }
        let annotation = match annotation {
            Some(annotation) => self.expression_type(annotation),
            None => quote!(__quipu::Expr<_>),
        };
        if let Pat::Ident(name) = pattern
            && name.subpat.is_none()
            && name.by_ref.is_none()
        {
            let ident = &name.ident;
            let text = ident.to_string();
            let bind = self.binder(ident, name.mutability.is_some());
            // The value is evaluated before the name is bound to it.
            self.define(ident, Kind::of_variable(name.mutability.is_some()));
            return quote_spanned!(ident.span()=> let #ident: #annotation = __quipu::#bind(#text, #value););
        }
        let source = self.fresh("source");
        let parts = self.bind_pattern(pattern, &source);
        quote_spanned!(init.expr.span()=>
            let #source: #annotation = __quipu::value(#value);
            #parts
        )
    }

    /// `let (a, b) = if condition { (x, y) } else { (z, w) };`: of slices there is no tuple, so
    /// each part is a choice of its own.
    fn each_choice(
        &mut self,
        parts: &PatTuple,
        condition: &Expr,
        choices: &[[&Expr; 2]],
    ) -> TokenStream {
        let span = condition.span();
        let holds = self.fresh_at("holds", span);
        let choices = choices.iter().map(
            |[then, otherwise]| quote_spanned!(span=> if #holds { #then } else { #otherwise }),
        );
        let statements: [Stmt; 2] = [
            parse_quote_spanned!(span=> let #holds: ::core::primitive::bool = #condition;),
            parse_quote_spanned!(span=> let #parts = (#(#choices),*);),
        ];
        self.locals(&statements)
    }

    /// Bindings that stand for one of the user's.
    fn locals(&mut self, statements: &[Stmt]) -> TokenStream {
        let mut written = TokenStream::new();
        for statement in statements {
            if let Stmt::Local(local) = statement {
                written.extend(self.local(local));
            }
        }
        written
    }

    /// `let (a, b) = x.split_at(middle);`: two slices, of which there is no tuple.
    fn split_at(&mut self, parts: &PatTuple, call: &ExprMethodCall, middle: &Expr) -> TokenStream {
        let (span, receiver) = (call.method.span(), &call.receiver);
        let (whole, at) = (self.fresh_at("whole", span), self.fresh_at("middle", span));
        let statements: [Stmt; 3] = [
            parse_quote_spanned!(span=> let #whole = &#receiver;),
            parse_quote_spanned!(span=> let #at: ::core::primitive::usize = #middle;),
            parse_quote_spanned!(span=> let #parts = (&#whole[..#at], &#whole[#at..]);),
        ];
        self.locals(&statements)
    }

    /// `let (a, b) = (first, second);`, where the values may be of types that no tuple can have, as
    /// slices.
    fn each_of(
        &mut self,
        patterns: &Punctuated<Pat, Token![,]>,
        values: &Punctuated<Expr, Token![,]>,
    ) -> TokenStream {
        let (mut written, mut sources) = (TokenStream::new(), Vec::new());
        for value in values {
            let (part, source) = (self.expression(value), self.fresh("source"));
            written.extend(quote_spanned!(value.span()=> let #source = __quipu::value(#part);));
            sources.push(source);
        }
        for (pattern, source) in patterns.iter().zip(&sources) {
            written.extend(self.bind_pattern(pattern, source));
        }
        written
    }

    /// `let pattern = value else { … };`
    fn let_else(
        &mut self,
        (pattern, annotation): (&Pat, Option<&Type>),
        value: &Expr,
        span: Span,
        otherwise: &Expr,
    ) -> TokenStream {
        let annotation = match annotation {
            Some(annotation) => self.expression_type(annotation),
            None => quote!(__quipu::Expr<_>),
        };
        let (value_written, source) = (self.expression(value), self.fresh("source"));
        let branch = self.matches(pattern, &source).map(|matches| {
            let otherwise = self.control(otherwise, Want::Nothing);
            let branch = self.if_else(span, &matches, &quote!(__quipu::nothing()), &otherwise);
            quote!(let _ = #branch;)
        });
        let parts = self.bind_pattern(pattern, &source);
        quote_spanned!(value.span()=>
            let #source: #annotation = __quipu::value(#value_written);
            #branch
            #parts
        )
    }

    /// `let x;`
    fn declaration(&mut self, pattern: &Pat, annotation: Option<&Type>) -> TokenStream {
        let Pat::Ident(name) = pattern else {
            let refused = self.refuse(pattern.span(), refuse::PATTERN);
            return quote!(let _: __quipu::Expr<()> = #refused;);
        };
        let annotation = match annotation {
            Some(annotation) => self.expression_type(annotation),
            None => quote!(__quipu::Expr<_>),
        };
        let kind = Kind::of_variable(name.mutability.is_some());
        let name = &name.ident;
        let text = name.to_string();
        self.define(name, kind);
        quote_spanned!(name.span()=> let #name: #annotation = __quipu::declare(#text);)
    }

    fn item(&mut self, item: &Item) -> TokenStream {
        match item {
            // As they are, and so again in the function that makes the source.
            Item::Const(_) | Item::Use(_) => quote!(#item),
            _ => {
                let refused = self.refuse(item.span(), refuse::ITEMS);
                quote!(let _: __quipu::Expr<()> = #refused;)
            }
        }
    }
}

/// The parts of the tuples that an `if` chooses between, if these are names and references alone:
/// for each part of a pattern what it is if the condition holds, and otherwise.
fn choices<'e>(choice: &'e ExprIf, parts: &PatTuple) -> Option<Vec<[&'e Expr; 2]>> {
    let (_, otherwise) = choice.else_branch.as_ref()?;
    let Expr::Block(otherwise) = &**otherwise else {
        return None;
    };
    let (then, otherwise) = (tuple_of(&choice.then_branch)?, tuple_of(&otherwise.block)?);
    let length = parts.elems.len();
    let fit = then.elems.len() == length && otherwise.elems.len() == length;
    let are_plain = then.elems.iter().chain(&otherwise.elems).all(is_plain);
    (fit && are_plain && first_let(&choice.cond).is_none()).then(|| {
        then.elems
            .iter()
            .zip(&otherwise.elems)
            .map(|(then, otherwise)| [then, otherwise])
            .collect()
    })
}

/// The tuple that is all of a block.
fn tuple_of(block: &Block) -> Option<&ExprTuple> {
    match block.stmts.as_slice() {
        [Stmt::Expr(Expr::Tuple(tuple), None)] => Some(tuple),
        _ => None,
    }
}

fn is_plain(part: &Expr) -> bool {
    matches!(part, Expr::Path(_) | Expr::Reference(_))
}

/// True if code after a statement is never reached.
pub(crate) fn statement_diverges(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(expression, _) => diverges(expression),
        Stmt::Local(local) => local.init.as_ref().is_some_and(|init| diverges(&init.expr)),
        Stmt::Item(_) | Stmt::Macro(_) => false,
    }
}

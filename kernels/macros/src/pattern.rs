//! Patterns: their variables, and their conditions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprRange, FieldPat, Member, Pat, PatIdent, PatSlice, RangeLimits, Token};

use crate::refuse;
use crate::scope::{Kind, Writer, witness};

/// True if a name in a pattern is that of a constant: as rustc's lint has it, constants are in
/// capitals.
fn is_constant_name(name: &PatIdent) -> bool {
    let text = name.ident.to_string();
    name.subpat.is_none() && text.starts_with(|first: char| first.is_uppercase())
}

impl Writer {
    /// The variables of a pattern, bound to the parts of the value of the variable `source`.
    pub(crate) fn bind_pattern(&mut self, pattern: &Pat, source: &Ident) -> TokenStream {
        match pattern {
            Pat::Ident(name) if is_constant_name(name) => TokenStream::new(),
            Pat::Ident(name) => {
                // The value to change was copied out of its place.
                if let (Some(by_ref), Some(_)) = (&name.by_ref, &name.mutability) {
                    self.refuse(by_ref.span, refuse::BY_REFERENCE);
                }
                let ident = &name.ident;
                let text = ident.to_string();
                let bind = self.binder(ident, name.mutability.is_some());
                self.define(ident, Kind::of_variable(name.mutability.is_some()));
                let mut bound =
                    quote_spanned!(ident.span()=> let #ident = __quipu::#bind(#text, #source););
                if let Some((_, inner)) = &name.subpat {
                    bound.extend(self.bind_pattern(inner, source));
                }
                bound
            }
            Pat::Paren(paren) => self.bind_pattern(&paren.pat, source),
            Pat::Type(typed) => {
                let annotation = self.expression_type(&typed.ty);
                let same = self.fresh("typed");
                let inner = self.bind_pattern(&typed.pat, &same);
                quote!(let #same: #annotation = #source; #inner)
            }
            Pat::Reference(reference) => {
                let to = self.fresh("referred");
                let inner = self.bind_pattern(&reference.pat, &to);
                quote!(let #to = __quipu::dereference(#source); #inner)
            }
            Pat::Wild(_) | Pat::Lit(_) | Pat::Path(_) | Pat::Range(_) | Pat::Const(_) => {
                TokenStream::new()
            }
            Pat::Or(alternatives) => self.bind_alternatives(&alternatives.cases, source),
            Pat::Tuple(_) | Pat::Slice(_) | Pat::Struct(_) | Pat::TupleStruct(_) => {
                let Some(parts) = self.parts(pattern, source) else {
                    return TokenStream::new();
                };
                let mut bound = TokenStream::new();
                for (inner, part) in parts {
                    if needs_part(inner) {
                        let name = self.fresh("part");
                        let bind = self.bind_pattern(inner, &name);
                        bound.extend(quote!(let #name = #part; #bind));
                    }
                }
                bound
            }
            _ => {
                self.refuse_pattern(pattern);
                TokenStream::new()
            }
        }
    }

    /// The variables of alternatives, which all of them bind: each has the value that it has in the
    /// first that matches.
    fn bind_alternatives(
        &mut self,
        cases: &Punctuated<Pat, Token![|]>,
        source: &Ident,
    ) -> TokenStream {
        let Some((last, before)) = cases
            .iter()
            .collect::<Vec<_>>()
            .split_last()
            .map(|(last, before)| (*last, before.to_vec()))
        else {
            return TokenStream::new();
        };
        let mut bound = TokenStream::new();
        let mut values = Vec::new();
        for name in bound_names(last) {
            let ident = &name.ident;
            let of_case = |this: &mut Self, case| {
                this.scoped(|this| {
                    let bound = this.bind_pattern(case, source);
                    quote!({ #bound __quipu::value(#ident) })
                })
            };
            let mut value = of_case(self, last);
            for case in before.iter().rev() {
                // Alternatives behind one that always matches are never reached.
                value = match self.matches(case, source) {
                    Some(condition) => {
                        let then = of_case(self, case);
                        self.if_else(case.span(), &condition, &then, &value)
                    }
                    None => of_case(self, case),
                };
            }
            let kept = self.fresh("alternative");
            bound.extend(quote!(let #kept = #value;));
            values.push((name, kept));
        }
        for (name, kept) in values {
            let name = Pat::Ident(PatIdent {
                subpat: None,
                ..name.clone()
            });
            bound.extend(self.bind_pattern(&name, &kept));
        }
        bound
    }

    fn refuse_pattern(&mut self, pattern: &Pat) {
        self.refuse(pattern.span(), refuse::PATTERN);
    }

    /// The parts of a tuple, array or struct pattern, with the expressions that give them.
    fn parts<'p>(
        &mut self,
        pattern: &'p Pat,
        source: &Ident,
    ) -> Option<Vec<(&'p Pat, TokenStream)>> {
        match pattern {
            Pat::Tuple(tuple) => self.positions(pattern.span(), tuple.elems.iter(), |span, at| {
                let member = syn::Index::from(at);
                let witness = witness(span, &quote!(&__quipu::w_ref(#source).#member));
                quote_spanned!(span=> __quipu::part(#source, #at, #witness))
            }),
            Pat::TupleStruct(structure) => {
                let (path, variant) = (&structure.path, last_name(&structure.path));
                self.positions(pattern.span(), structure.elems.iter(), |span, at| {
                    let text = at.to_string();
                    let before = vec![quote!(_,); at];
                    let part = quote!(#path(#(#before)* part, ..));
                    let witness = witness(
                        span,
                        &quote!(match __quipu::w(#source) { #part => part, _ => loop {} }),
                    );
                    quote_spanned!(span=> __quipu::pattern_part(#source, #variant, #text, #witness))
                })
            }
            Pat::Slice(slice) => self.positions(pattern.span(), slice.elems.iter(), |span, at| {
                quote_spanned!(span=> __quipu::part(#source, #at, (&__quipu::Own::of(#source)).__part()))
            }),
            Pat::Struct(structure) => {
                let (path, variant) = (&structure.path, last_name(&structure.path));
                let part = |FieldPat { member, pat, .. }: &'p FieldPat| {
                    let (span, text) = (member.span(), member_text(member));
                    let part = quote!(#path { #member: part, .. });
                    let witness = witness(
                        span,
                        &quote!(match __quipu::w(#source) { #part => part, _ => loop {} }),
                    );
                    (
                        &**pat,
                        quote_spanned!(span=> __quipu::pattern_part(#source, #variant, #text, #witness)),
                    )
                };
                Some(structure.fields.iter().map(part).collect())
            }
            _ => None,
        }
    }

    fn positions<'p>(
        &mut self,
        span: Span,
        elements: impl ExactSizeIterator<Item = &'p Pat>,
        part: impl Fn(Span, usize) -> TokenStream,
    ) -> Option<Vec<(&'p Pat, TokenStream)>> {
        let count = elements.len();
        let mut parts = Vec::new();
        for (at, element) in elements.enumerate() {
            if let Pat::Rest(_) = element {
                if at + 1 != count {
                    self.refuse(span, refuse::REST_IN_THE_MIDDLE);
                    return None;
                }
                break;
            }
            parts.push((element, part(element.span(), at)));
        }
        Some(parts)
    }

    /// The condition under which a pattern matches; none if it always does.
    pub(crate) fn matches(&mut self, pattern: &Pat, source: &Ident) -> Option<TokenStream> {
        match pattern {
            Pat::Wild(_) | Pat::Rest(_) => None,
            Pat::Ident(name) if is_constant_name(name) => {
                let ident = &name.ident;
                Some(equal(ident.span(), source, &quote!(#ident)))
            }
            Pat::Ident(name) => {
                let (_, inner) = name.subpat.as_ref()?;
                self.matches(inner, source)
            }
            Pat::Paren(paren) => self.matches(&paren.pat, source),
            Pat::Reference(reference) => self.matches(&reference.pat, source),
            Pat::Type(typed) => self.matches(&typed.pat, source),
            Pat::Lit(literal) => {
                if matches!(
                    literal.lit,
                    syn::Lit::Str(_) | syn::Lit::Char(_) | syn::Lit::ByteStr(_)
                ) {
                    return Some(self.refuse(literal.span(), refuse::STRINGS));
                }
                Some(equal(literal.span(), source, &quote!(#literal)))
            }
            Pat::Path(path) => Some(equal(path.span(), source, &quote!(#path))),
            Pat::Range(range) => Some(self.in_range(range, source)),
            Pat::Or(alternatives) => {
                let mut condition: Option<TokenStream> = None;
                for case in &alternatives.cases {
                    // One that always matches: so does the whole.
                    let next = self.matches(case, source)?;
                    condition = Some(match condition {
                        None => next,
                        Some(before) => self.short_circuit(case.span(), "or", &before, &next),
                    });
                }
                condition
            }
            Pat::Tuple(_) | Pat::Slice(_) | Pat::Struct(_) | Pat::TupleStruct(_) => {
                let parts = self.parts(pattern, source)?;
                let mut condition = match pattern {
                    Pat::Slice(slice) => has_length(slice, source),
                    Pat::TupleStruct(structure) => Some(is_variant(&structure.path, source)),
                    Pat::Struct(structure) => Some(is_variant(&structure.path, source)),
                    _ => None,
                };
                for (inner, part) in parts {
                    let name = self.fresh("part");
                    let Some(next) = self.matches(inner, &name) else {
                        continue;
                    };
                    let next = quote!({ let #name = #part; #next });
                    condition = Some(match condition {
                        None => next,
                        Some(before) => self.short_circuit(inner.span(), "and", &before, &next),
                    });
                }
                condition
            }
            _ => {
                self.refuse_pattern(pattern);
                None
            }
        }
    }

    fn in_range(&mut self, range: &ExprRange, source: &Ident) -> TokenStream {
        let span = range.span();
        let comparison = |operation: &str, end: &Expr| {
            let operation = Ident::new(operation, span);
            quote_spanned!(span=> __quipu::compare(__quipu::ir::BinaryOperation::#operation, #source, __quipu::lit(#end)))
        };
        let low = range
            .start
            .as_deref()
            .map(|start| comparison("GreaterEqual", start));
        let high = range.end.as_deref().map(|end| match range.limits {
            RangeLimits::HalfOpen(_) => comparison("Less", end),
            RangeLimits::Closed(_) => comparison("LessEqual", end),
        });
        match (low, high) {
            (Some(low), Some(high)) => self.short_circuit(span, "and", &low, &high),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.refuse(span, refuse::PATTERN),
        }
    }
}

/// The name of a struct or variant.
pub(crate) fn last_name(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map(|last| last.ident.to_string()).unwrap_or_default()
}

/// The names that a pattern gives to something.
fn bound_names(pattern: &Pat) -> Vec<&PatIdent> {
    struct Found<'p>(Vec<&'p PatIdent>);
    impl<'p> Visit<'p> for Found<'p> {
        fn visit_pat_ident(&mut self, name: &'p PatIdent) {
            if !is_constant_name(name) {
                self.0.push(name);
            }
            visit::visit_pat_ident(self, name);
        }

        // The others bind the same.
        fn visit_pat_or(&mut self, alternatives: &'p syn::PatOr) {
            if let Some(first) = alternatives.cases.first() {
                self.visit_pat(first);
            }
        }
    }
    let mut found = Found(Vec::new());
    found.visit_pat(pattern);
    found.0
}

/// True if a pattern gives a name to something.
pub(crate) fn binds_any(pattern: &Pat) -> bool {
    !bound_names(pattern).is_empty()
}

/// True if a pattern gives this name to something.
pub(crate) fn binds_name(pattern: &Pat, name: &Ident) -> bool {
    struct Binds<'n>(&'n Ident, bool);
    impl<'ast> Visit<'ast> for Binds<'_> {
        fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
            self.1 |= pattern.ident == *self.0;
            visit::visit_pat_ident(self, pattern);
        }
    }
    let mut binds = Binds(name, false);
    binds.visit_pat(pattern);
    binds.1
}

/// True if there is anything to bind in a part, or to refuse.
fn needs_part(pattern: &Pat) -> bool {
    !matches!(
        pattern,
        Pat::Wild(_) | Pat::Lit(_) | Pat::Path(_) | Pat::Range(_)
    )
}

/// The condition that there are as many elements as a pattern has; none if any number of elements
/// matches.
fn has_length(pattern: &PatSlice, source: &Ident) -> Option<TokenStream> {
    let or_more = matches!(pattern.elems.last(), Some(Pat::Rest(_)));
    let count = pattern.elems.len() - usize::from(or_more);
    let is_any = or_more && count == 0;
    (!is_any)
        .then(|| quote_spanned!(pattern.span()=> __quipu::has_length(#source, #count, #or_more)))
}

fn equal(span: Span, source: &Ident, value: &TokenStream) -> TokenStream {
    quote_spanned!(span=> __quipu::is_constant(#source, __quipu::lit(#value)))
}

/// The condition that a value is of a variant; of a struct, which has none, one that always holds.
fn is_variant(path: &syn::Path, source: &Ident) -> TokenStream {
    let name = last_name(path);
    quote_spanned!(path.span()=> __quipu::is_variant(#source, #name))
}

/// The name of a field, or its number.
pub(crate) fn member_text(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

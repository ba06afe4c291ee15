//! Expressions that are no control flow and no calls.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    BinOp, Expr, ExprAssign, ExprBinary, ExprClosure, ExprPath, ExprRange, ExprStruct, ExprTry,
    ExprUnary, Lit, Macro, Pat, RangeLimits, ReturnType, Token, UnOp, parse_quote_spanned,
};

use crate::pattern::{binds_name, last_name, member_text};
use crate::refuse;
use crate::scope::{Access, Kind, Want, Writer, witness};
use crate::stencil_loops::changed_in;

impl Writer {
    /// An expression.
    pub(crate) fn expression(&mut self, expression: &Expr) -> TokenStream {
        self.accessed(expression, Access::Read)
    }

    /// An expression whose place may be changed.
    pub(crate) fn accessed(&mut self, expression: &Expr, access: Access) -> TokenStream {
        let span = expression.span();
        if self.is_constant(expression) {
            return match expression {
                Expr::Lit(_) | Expr::Path(_) => quote_spanned!(span=> __quipu::lit(#expression)),
                // A computed constant may overflow.
                _ => {
                    let checks = unchanging(expression);
                    quote_spanned!(span=> { #checks __quipu::computed(&|| #expression) })
                }
            };
        }
        match expression {
            Expr::Lit(literal) => self.refuse_literal(&literal.lit),
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) if name == "self" => {
                    let this = this_name(name.span());
                    quote!(#this)
                }
                Some(name) => match self.lookup(name) {
                    Some(Kind::Closure | Kind::ChangingClosure) => {
                        self.refuse(span, refuse::CLOSURE_VALUE)
                    }
                    _ => quote!(#name),
                },
                None => quote_spanned!(span=> __quipu::lit(#path)),
            },
            Expr::Paren(paren) => self.accessed(&paren.expr, access),
            Expr::Group(group) => self.accessed(&group.expr, access),
            Expr::Unary(unary) => self.unary(unary, access),
            Expr::Reference(reference) => {
                let access = match reference.mutability {
                    Some(_) => Access::Change,
                    None => Access::Read,
                };
                let to = self.accessed(&reference.expr, access);
                quote_spanned!(span=> __quipu::reference(#to))
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(assign) => self.assign(assign),
            Expr::Cast(cast) => {
                let value = self.expression(&cast.expr);
                let name = self.fresh("value");
                let to = &cast.ty;
                let witness = witness(span, &quote!(__quipu::w(#name) as #to));
                quote_spanned!(span=> { let #name = #value; __quipu::cast(#name, #witness) })
            }
            Expr::Field(field) => {
                let base = self.accessed(&field.base, access);
                let name = self.fresh("base");
                let member = &field.member;
                let text = member_text(member);
                let witness = witness(member.span(), &quote!(__quipu::w(#name).#member));
                quote_spanned!(member.span()=> {
                    let #name = #base;
                    (&__quipu::Own::of(#name)).__field(#name, #text, #witness)
                })
            }
            Expr::Index(index) => {
                if let Some(words) = self.misindexed(&index.expr, &index.index) {
                    return self.refuse(index.expr.span(), words);
                }
                let base = self.accessed(&index.expr, access);
                let at = self.expression(&index.index);
                let name = self.fresh_at("base", index.expr.span());
                let number = self.fresh_at("index", index.index.span());
                let element = quote_spanned!(index.index.span()=>
                    &__quipu::w_ref(#name)[__quipu::w(#number)]
                );
                let witness = witness(span, &element);
                let method = Ident::new(access.method(), span);
                quote_spanned!(span=> {
                    let #name = #base;
                    let #number = #at;
                    (&&&&__quipu::Indexing::new(#name, #number)).#method(#witness)
                })
            }
            Expr::Range(range) => self.range(range),
            Expr::Tuple(tuple) => self.tuple(tuple.elems.iter(), span, true),
            Expr::Array(array) => {
                let elements: Vec<_> = array.elems.iter().map(|e| self.expression(e)).collect();
                quote_spanned!(span=> __quipu::array([#(__quipu::value(#elements)),*]))
            }
            Expr::Repeat(repeat) => {
                let element = self.expression(&repeat.expr);
                let length = &repeat.len;
                quote_spanned!(span=> __quipu::repeat::<_, { #length }>(__quipu::value(#element)))
            }
            Expr::Struct(structure) => self.structure(structure),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Await(wait) => match &*wait.base {
                Expr::Call(_) | Expr::MethodCall(_) => self.expression(&wait.base),
                _ => self.refuse(wait.await_token.span, refuse::AWAIT),
            },
            Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) => {
                let jump = self.jump(expression);
                quote!({ #jump; __quipu::never() })
            }
            Expr::If(_)
            | Expr::Match(_)
            | Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Loop(_)
            | Expr::While(_)
            | Expr::ForLoop(_) => self.control(expression, Want::Value),
            Expr::Closure(_) => self.refuse(span, refuse::CLOSURE_VALUE),
            Expr::Macro(mac) => self.macro_expression(&mac.mac),
            Expr::Let(pattern) => self.refuse(pattern.let_token.span, refuse::IF_LET),
            Expr::Try(question) => self.question(question),
            Expr::Async(block) => self.refuse(block.async_token.span, refuse::ASYNC_BLOCK),
            Expr::Const(block) => self.refuse(block.const_token.span, refuse::CONST_BLOCK),
            Expr::Infer(infer) => self.refuse(infer.underscore_token.span, refuse::INFERRED),
            Expr::RawAddr(address) => self.refuse(address.raw.span, refuse::RAW_ADDRESS),
            _ => self.refuse(span, refuse::VERBATIM),
        }
    }

    /// True if an expression depends only on values that rustc knows: then it is computed as it
    /// stands.
    pub(crate) fn is_constant(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Lit(literal) => {
                matches!(
                    literal.lit,
                    Lit::Int(_) | Lit::Float(_) | Lit::Bool(_) | Lit::Byte(_)
                )
            }
            Expr::Path(path) => !path.path.is_ident("self") && self.variable(&path.path).is_none(),
            Expr::Paren(paren) => self.is_constant(&paren.expr),
            Expr::Group(group) => self.is_constant(&group.expr),
            Expr::Unary(unary) => {
                matches!(unary.op, UnOp::Neg(_) | UnOp::Not(_)) && self.is_constant(&unary.expr)
            }
            Expr::Binary(binary) => {
                !is_assignment(&binary.op)
                    && self.is_constant(&binary.left)
                    && self.is_constant(&binary.right)
            }
            Expr::Cast(cast) => self.is_constant(&cast.expr),
            Expr::Field(field) => self.is_constant(&field.base),
            Expr::Index(index) => self.is_constant(&index.expr) && self.is_constant(&index.index),
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Path(path)
                    if self.variable(&path.path).is_none() && is_associated(&path.path, path.qself.is_some()))
                    && call.args.iter().all(|argument| self.is_constant(argument))
                    && refuse::call(&call.func).is_none()
            }
            Expr::MethodCall(call) => {
                self.is_constant(&call.receiver)
                    && call.args.iter().all(|argument| self.is_constant(argument))
                    && refuse::method(&call.method.to_string()).is_none()
                    && !matches!(
                        call.method.to_string().as_str(),
                        "iter" | "into_iter" | "iter_mut"
                    )
            }
            _ => false,
        }
    }

    /// True if an expression only reads existing values.
    fn is_at_rest(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Path(_) => true,
            Expr::Paren(paren) => self.is_at_rest(&paren.expr),
            Expr::Field(field) => self.is_at_rest(&field.base),
            _ => self.is_constant(expression),
        }
    }

    fn refuse_literal(&mut self, literal: &Lit) -> TokenStream {
        self.refuse(literal.span(), refuse::STRINGS)
    }

    fn unary(&mut self, unary: &ExprUnary, access: Access) -> TokenStream {
        let span = unary.op.span();
        let operand = match unary.op {
            UnOp::Deref(_) => self.accessed(&unary.expr, access),
            _ => self.expression(&unary.expr),
        };
        let name = self.fresh("operand");
        let (operator, value) = match unary.op {
            UnOp::Deref(_) => return quote_spanned!(span=> __quipu::dereference(#operand)),
            UnOp::Neg(_) => (
                quote!(Neg),
                quote!({ let operand = __quipu::w(#name); -operand }),
            ),
            UnOp::Not(_) => (
                quote!(Not),
                quote!({ let operand = __quipu::w(#name); !operand }),
            ),
            _ => return self.refuse(span, refuse::VERBATIM),
        };
        let witness = witness(span, &value);
        quote_spanned!(span=> {
            let #name = #operand;
            (&__quipu::Operand::<__quipu::operator::#operator, _>::new(#name)).__operate(#witness)
        })
    }

    pub(crate) fn binary(&mut self, binary: &ExprBinary) -> TokenStream {
        let span = binary.op.span();
        let access = if is_assignment(&binary.op) {
            Access::Change
        } else {
            Access::Read
        };
        let (left, right) = (
            self.accessed(&binary.left, access),
            self.expression(&binary.right),
        );
        match &binary.op {
            BinOp::And(_) => {
                let (left, right) = (value_of(span, &left), value_of(span, &right));
                return self.short_circuit(span, "and", &left, &right);
            }
            BinOp::Or(_) => {
                let (left, right) = (value_of(span, &left), value_of(span, &right));
                return self.short_circuit(span, "or", &left, &right);
            }
            _ => {}
        }
        // An operator reads its operands. The left side is read before the right side is evaluated,
        // if that has any effect.
        let left_value = if self.is_at_rest(&binary.right) {
            left.clone()
        } else {
            value_of(span, &left)
        };
        let (first, second) = (
            self.fresh_at("left", binary.left.span()),
            self.fresh_at("right", binary.right.span()),
        );
        let op = &binary.op;
        // The right side is not made of the type that the left side expects: rustc says natively
        // what does not fit.
        let of_second = self.fresh_at("of_right", binary.right.span());
        let with_second = quote_spanned!(span=> let #of_second = __quipu::w(#second););
        let operated = quote_spanned!(binary.left.span()=> {
            #with_second
            __quipu::w(#first) #op #of_second
        });
        if let Some(comparison) = comparison(op) {
            let comparison = Ident::new(comparison, span);
            let witness = witness(span, &operated);
            return quote_spanned!(span=> {
                let #first = #left_value;
                let #second = #right;
                __quipu::ordered(__quipu::ir::BinaryOperation::#comparison, #first, #second, #witness)
            });
        }
        let Some(operator) = operator(op) else {
            return self.refuse(span, refuse::VERBATIM);
        };
        let operator = Ident::new(operator, span);
        if is_assignment(op) {
            // Of numbers the right side comes first.
            let check = witness(
                span,
                &quote!({ #with_second let mut left = __quipu::w(#first); left #op #of_second; }),
            );
            let right_value = if self.is_at_rest(&binary.left) {
                right
            } else {
                value_of(span, &right)
            };
            return quote_spanned!(span=> {
                let #second = #right_value;
                let #first = #left;
                (&__quipu::Operands::<__quipu::operator::#operator, _, _>::assigning(#first, #second)).__operate(#check)
            });
        }
        let witness = witness(span, &operated);
        quote_spanned!(span=> {
            let #first = #left_value;
            let #second = #right;
            (&__quipu::Operands::<__quipu::operator::#operator, _, _>::new(#first, #second)).__operate(#witness)
        })
    }

    fn assign(&mut self, assign: &ExprAssign) -> TokenStream {
        let span = assign.eq_token.span;
        if let (Expr::Tuple(places), Expr::Tuple(values)) = (&*assign.left, &*assign.right)
            && places.elems.len() == values.elems.len()
            && !is_taken_apart(&assign.left)
        {
            return self.assign_each(span, &places.elems, &values.elems);
        }
        let value = self.expression(&assign.right);
        if let Expr::Infer(_) = &*assign.left {
            return quote_spanned!(span=> __quipu::discard(__quipu::value(#value)));
        }
        if is_taken_apart(&assign.left) {
            return self.assign_parts(assign, &value);
        }
        let to = self.place(&assign.left);
        let value = if let Expr::Reference(reference) = &*assign.right {
            quote_spanned!(reference.span()=> __quipu::replaced(#value))
        } else {
            value
        };
        let name = self.fresh_at("value", assign.right.span());
        quote_spanned!(span=> {
            let #name = __quipu::value(#value);
            __quipu::assign(#to, #name);
            __quipu::nothing()
        })
    }

    /// `(a, b) = (b, a)`, where the values may be of types that no tuple can have, as slices.
    fn assign_each(
        &mut self,
        span: Span,
        places: &Punctuated<Expr, Token![,]>,
        values: &Punctuated<Expr, Token![,]>,
    ) -> TokenStream {
        let (mut written, mut names) = (TokenStream::new(), Vec::new());
        for value in values {
            let (part, name) = (self.expression(value), self.fresh("value"));
            written.extend(quote_spanned!(value.span()=> let #name = __quipu::value(#part);));
            names.push(name);
        }
        for (place, name) in places.iter().zip(&names) {
            written.extend(match place {
                Expr::Infer(_) => quote!(let _ = __quipu::discard(#name);),
                place => {
                    let to = self.place(place);
                    quote_spanned!(span=> __quipu::assign(#to, #name);)
                }
            });
        }
        quote_spanned!(span=> { #written __quipu::nothing() })
    }

    /// `[a, Pair { b, .. }] = value`: as a `let` with a pattern, and then an assignment for each
    /// name in it.
    fn assign_parts(&mut self, assign: &ExprAssign, value: &TokenStream) -> TokenStream {
        let span = assign.eq_token.span;
        let mut places = Vec::new();
        let Some(pattern) = self.assignee(&assign.left, &mut places) else {
            return self.refuse(assign.left.span(), refuse::DESTRUCTURED);
        };
        let source = self.fresh("source");
        self.scoped(|this| {
            let bound = this.bind_pattern(&pattern, &source);
            let assigned: Vec<_> = places
                .iter()
                .map(|(name, place)| {
                    let place = this.place(place);
                    quote_spanned!(span=> __quipu::assign(#place, __quipu::value(#name));)
                })
                .collect();
            quote_spanned!(span=> {
                let #source = __quipu::value(#value);
                #bound
                #(#assigned)*
                __quipu::nothing()
            })
        })
    }

    /// The left side of an assignment as a pattern, with a name for each place.
    fn assignee(&mut self, place: &Expr, places: &mut Vec<(Ident, Expr)>) -> Option<Pat> {
        let mut all = |elements: &mut dyn Iterator<Item = &Expr>| -> Option<Vec<Pat>> {
            elements
                .map(|element| self.assignee(element, places))
                .collect()
        };
        let span = place.span();
        Some(match place {
            Expr::Infer(_) => parse_quote_spanned!(span=> _),
            Expr::Range(range) if range.start.is_none() && range.end.is_none() => {
                parse_quote_spanned!(span=> ..)
            }
            Expr::Paren(paren) => self.assignee(&paren.expr, places)?,
            Expr::Tuple(tuple) => {
                let parts = all(&mut tuple.elems.iter())?;
                parse_quote_spanned!(span=> (#(#parts,)*))
            }
            Expr::Array(array) => {
                let parts = all(&mut array.elems.iter())?;
                parse_quote_spanned!(span=> [#(#parts),*])
            }
            Expr::Call(call) => {
                let Expr::Path(path) = &*call.func else {
                    return None;
                };
                let parts = all(&mut call.args.iter())?;
                parse_quote_spanned!(span=> #path(#(#parts),*))
            }
            Expr::Struct(structure) => {
                let path = &structure.path;
                let members: Vec<_> = structure.fields.iter().map(|field| &field.member).collect();
                let parts = all(&mut structure.fields.iter().map(|field| &field.expr))?;
                let rest = structure.dot2_token.map(|rest| quote!(#rest));
                parse_quote_spanned!(span=> #path { #(#members: #parts,)* #rest })
            }
            place => {
                let name = self.fresh("assigned");
                let pattern = parse_quote_spanned!(span=> #name);
                places.push((name, place.clone()));
                pattern
            }
        })
    }

    /// The target of an assignment.
    fn place(&mut self, place: &Expr) -> TokenStream {
        match place {
            Expr::Tuple(tuple) => self.tuple(tuple.elems.iter(), tuple.span(), false),
            Expr::Paren(paren) => self.place(&paren.expr),
            place => self.accessed(place, Access::Change),
        }
    }

    /// A tuple, of values or of places that are assigned to.
    fn tuple<'e>(
        &mut self,
        elements: impl Iterator<Item = &'e Expr>,
        span: Span,
        of_values: bool,
    ) -> TokenStream {
        let (mut names, mut bound) = (Vec::new(), TokenStream::new());
        for element in elements {
            let written = match element {
                Expr::Infer(_) if !of_values => quote!(__quipu::never()),
                element if !of_values => self.place(element),
                element => self.expression(element),
            };
            let name = self.fresh("element");
            bound.extend(if of_values {
                quote_spanned!(element.span()=> let #name = __quipu::value(#written);)
            } else {
                quote_spanned!(element.span()=> let #name = #written;)
            });
            names.push(name);
        }
        if names.is_empty() {
            return quote_spanned!(span=> __quipu::nothing());
        }
        let witness = witness(span, &quote!((#(__quipu::w(#names),)*)));
        quote_spanned!(span=> {
            #bound
            __quipu::tuple(&[#(#names.raw()),*], #witness)
        })
    }

    fn range(&mut self, range: &ExprRange) -> TokenStream {
        let span = range.limits.span();
        let mut end = |end: &Option<Box<Expr>>| {
            end.as_deref().map(|end| {
                let written = self.expression(end);
                quote_spanned!(end.span()=> __quipu::value(#written))
            })
        };
        let (start, end) = (end(&range.start), end(&range.end));
        match (start, end, &range.limits) {
            (Some(start), Some(end), RangeLimits::HalfOpen(_)) => {
                quote_spanned!(span=> __quipu::range_of(#start, #end))
            }
            (Some(start), Some(end), RangeLimits::Closed(_)) => {
                quote_spanned!(span=> __quipu::range_inclusive(#start, #end))
            }
            (Some(start), None, _) => quote_spanned!(span=> __quipu::range_from(#start)),
            (None, Some(end), RangeLimits::HalfOpen(_)) => {
                quote_spanned!(span=> __quipu::range_to(#end))
            }
            (None, Some(end), RangeLimits::Closed(_)) => {
                quote_spanned!(span=> __quipu::range_to_inclusive(#end))
            }
            (None, None, _) => quote_spanned!(span=> __quipu::range_full()),
        }
    }

    fn structure(&mut self, structure: &ExprStruct) -> TokenStream {
        let span = structure.path.span();
        let (mut bound, mut fields, mut witnesses) = (TokenStream::new(), Vec::new(), Vec::new());
        for field in &structure.fields {
            let written = self.expression(&field.expr);
            let name = self.fresh("field");
            let member = &field.member;
            let text = member_text(member);
            bound.extend(quote_spanned!(member.span()=> let #name = __quipu::value(#written);));
            fields.push(quote!((#text, #name.raw())));
            witnesses.push(quote!(#member: __quipu::w(#name)));
        }
        let path = &structure.path;
        let (rest, rest_witness) = match &structure.rest {
            None => (quote!(::core::option::Option::None), TokenStream::new()),
            Some(rest) => {
                let written = self.expression(rest);
                let name = self.fresh("rest");
                bound.extend(quote_spanned!(rest.span()=> let #name = #written;));
                (
                    quote!(::core::option::Option::Some(#name)),
                    quote!(..__quipu::w(#name)),
                )
            }
        };
        let witness = witness(span, &quote!(#path { #(#witnesses,)* #rest_witness }));
        let variant = last_name(path);
        quote_spanned!(span=> { #bound __quipu::structure(#variant, &[#(#fields),*], #rest, #witness) })
    }

    /// `value?`, which ends the function if there is none.
    fn question(&mut self, question: &ExprTry) -> TokenStream {
        let span = question.question_token.span;
        if self.closures > 0 {
            return self.refuse(span, refuse::CLOSURE_RETURN);
        }
        let value = self.expression(&question.expr);
        let (tried, branch) = (self.fresh("tried"), self.fresh("branch"));
        let result = self.result.clone();
        quote_spanned!(span=> {
            let #tried = __quipu::value(#value);
            let #branch = __quipu::branch::<()>(__quipu::goes_on(#tried));
            if #branch.begins_then() { #branch.ends_then(__quipu::nothing()); }
            if #branch.begins_otherwise() {
                __quipu::give::<#result>(__quipu::ended(#tried));
                #branch.ends_otherwise(__quipu::nothing());
            }
            let _ = #branch.result();
            __quipu::output(#tried)
        })
    }

    /// A closure that is called in place.
    pub(crate) fn closure(&mut self, closure: &ExprClosure) -> TokenStream {
        let (captured, written) = self.closure_parts(closure);
        if captured.is_empty() {
            return written;
        }
        quote!({ #captured #written })
    }

    /// The copies that a closure that moves has of its own, as statements, and the closure.
    pub(crate) fn closure_parts(&mut self, closure: &ExprClosure) -> (TokenStream, TokenStream) {
        if let Some(token) = &closure.asyncness {
            let refused = self.refuse(token.span, refuse::ASYNC_BLOCK);
            return (TokenStream::new(), refused);
        }
        // One that moves has its own copies of the variables that it sees, as they are where it is
        // made.
        let captured = match &closure.capture {
            Some(_) => self.captured(&closure.body),
            None => Vec::new(),
        };
        self.closures += 1;
        let loops = std::mem::take(&mut self.loops);
        let written = self.scoped(|this| {
            let (mut parameters, mut bound) = (Vec::new(), TokenStream::new());
            for input in &closure.inputs {
                let (pattern, annotation) = match input {
                    Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
                    pattern => (pattern, None),
                };
                let annotation = match annotation {
                    Some(annotation) => this.expression_type(annotation),
                    None => quote!(__quipu::Expr<_>),
                };
                let name = this.fresh("argument");
                bound.extend(this.bind_pattern(pattern, &name));
                parameters.push(quote!(#name: #annotation));
            }
            let result = match &closure.output {
                ReturnType::Default => quote!(__quipu::Expr<_>),
                ReturnType::Type(_, result) => this.expression_type(result),
            };
            let body = this.expression(&closure.body);
            let capture = (!captured.is_empty()).then(|| quote!(move));
            quote_spanned!(closure.span()=> #capture |#(#parameters),*| -> #result { #bound __quipu::value(#body) })
        });
        self.loops = loops;
        self.closures -= 1;
        if captured.is_empty() {
            return (TokenStream::new(), written);
        }
        let own: Vec<_> = captured.iter().map(|_| self.fresh("captured")).collect();
        let texts = captured.iter().map(Ident::to_string);
        (
            quote!(#(let #own = __quipu::captured(#texts, #captured);)*),
            quote!({ #(let #captured = #own;)* #written }),
        )
    }

    /// The kind of a closure's name.
    pub(crate) fn kind_of_closure(&self, closure: &ExprClosure) -> Kind {
        if closure.capture.is_none() {
            return Kind::Closure;
        }
        let is_captured = |name: &Ident| {
            let is_parameter = closure.inputs.iter().any(|input| binds_name(input, name));
            !is_parameter && self.lookup(&variable_name(name)) == Some(Kind::MutableVariable)
        };
        if changed_in(&closure.body).iter().any(is_captured) {
            Kind::ChangingClosure
        } else {
            Kind::Closure
        }
    }

    /// The variables around a closure that its body names. A closure among them is refused if it
    /// would be copied.
    fn captured(&mut self, body: &Expr) -> Vec<Ident> {
        struct Named<'w> {
            writer: &'w Writer,
            names: BTreeSet<Ident>,
        }
        impl Named<'_> {
            fn note(&mut self, name: &Ident) {
                let name = variable_name(name);
                if self.writer.lookup(&name).is_some() {
                    self.names.insert(name);
                }
            }

            /// Every name that is a variable's: of one that is something else here a copy is made
            /// for nothing.
            fn note_tokens(&mut self, tokens: TokenStream) {
                for token in tokens {
                    match token {
                        TokenTree::Ident(name) => self.note(&name),
                        TokenTree::Group(group) => self.note_tokens(group.stream()),
                        // `{name}` in a text.
                        TokenTree::Literal(text) => {
                            let (span, text) = (text.span(), text.to_string());
                            let after_braces = text.split('{').skip(1);
                            let names =
                                after_braces.filter_map(|after| after.split(['}', ':']).next());
                            let names = names.filter_map(|name| syn::parse_str::<Ident>(name).ok());
                            names.for_each(|name| self.note(&Ident::new(&name.to_string(), span)));
                        }
                        TokenTree::Punct(_) => {}
                    }
                }
            }
        }
        impl<'ast> Visit<'ast> for Named<'_> {
            fn visit_expr_path(&mut self, path: &'ast ExprPath) {
                if let Some(name) = path.path.get_ident() {
                    self.note(name);
                }
            }

            fn visit_macro(&mut self, mac: &'ast Macro) {
                self.note_tokens(mac.tokens.clone());
            }
        }
        let mut named = Named {
            writer: self,
            names: BTreeSet::new(),
        };
        named.visit_expr(body);
        let (variables, closures): (Vec<_>, Vec<_>) = named
            .names
            .into_iter()
            .partition(|name| self.is_variable(name));
        for name in closures {
            if self.lookup(&name) == Some(Kind::ChangingClosure) {
                self.refuse(name.span(), refuse::CLOSURE_COPY);
            }
        }
        variables
    }

    /// A macro call as an expression.
    fn macro_expression(&mut self, mac: &Macro) -> TokenStream {
        if mac.path.is_ident("matches") {
            return self.matching(mac);
        }
        let statement = self.macro_statement(mac);
        quote!({ #statement __quipu::nothing() })
    }

    /// `matches!(value, pattern if guard)`.
    fn matching(&mut self, mac: &Macro) -> TokenStream {
        match as_match(mac) {
            Ok(cases) => self.control(&cases, Want::Value),
            Err(_) => self.refuse(mac.path.span(), refuse::MATCHES),
        }
    }

    /// A macro call as a statement.
    pub(crate) fn macro_statement(&mut self, mac: &Macro) -> TokenStream {
        let span = mac.path.span();
        let name = mac
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string())
            .unwrap_or_default();
        match name.as_str() {
            // Of a release build, as all that devices run.
            "debug_assert" | "debug_assert_eq" | "debug_assert_ne" => TokenStream::new(),
            "print" | "println" => self.print(span, mac.tokens.clone(), name == "println"),
            "assert" => self.assertion(span, mac),
            "assert_eq" => self.comparison(span, mac, BinOp::Eq(Token![==]([span, span]))),
            "assert_ne" => self.comparison(span, mac, BinOp::Ne(Token![!=]([span, span]))),
            "matches" => {
                let value = self.matching(mac);
                quote!(let _ = #value;)
            }
            _ => {
                let refused = self.refuse(span, refuse::macro_call(&name));
                quote!(let _: __quipu::Expr<()> = #refused;)
            }
        }
    }
}

/// `matches!(value, pattern if guard)`, as the `match` that it stands for.
pub(crate) fn as_match(mac: &Macro) -> syn::Result<Expr> {
    let span = mac.path.span();
    mac.parse_body_with(|input: ParseStream| {
        let value: Expr = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = match input.parse::<Option<Token![if]>>()? {
            Some(token) => {
                let guard: Expr = input.parse()?;
                Some(quote!(#token #guard))
            }
            None => None,
        };
        input.parse::<Option<Token![,]>>()?;
        // A struct may stand here without parentheses, and before the braces of a `match` not.
        Ok(parse_quote_spanned!(span=> match (#value) { #pattern #guard => true, _ => false }))
    })
}

/// True if the target of an assignment is anything but places, and tuples of them.
fn is_taken_apart(place: &Expr) -> bool {
    match place {
        Expr::Tuple(tuple) => tuple.elems.iter().any(is_taken_apart),
        Expr::Paren(paren) => is_taken_apart(&paren.expr),
        Expr::Array(_) | Expr::Struct(_) | Expr::Call(_) | Expr::Range(_) => true,
        _ => false,
    }
}

/// The present value of an expression.
fn value_of(span: Span, expression: &TokenStream) -> TokenStream {
    quote_spanned!(span=> __quipu::value(#expression))
}

/// The name of the variable that stands for `self`.
pub(crate) fn this_name(span: Span) -> Ident {
    Ident::new("__quipu_self", span)
}

/// The name of the variable that a name stands for.
fn variable_name(name: &Ident) -> Ident {
    if name == "self" {
        this_name(name.span())
    } else {
        name.clone()
    }
}

/// Asks rustc whether the host can change the receivers of a constant's methods. See `emit::host`.
pub(crate) fn unchanging(constant: &Expr) -> TokenStream {
    struct Receivers(TokenStream);
    impl<'ast> Visit<'ast> for Receivers {
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            if is_named(&call.receiver) {
                let receiver = &call.receiver;
                self.0
                    .extend(quote_spanned!(receiver.span()=> if __quipu::DEAD {
                        (&&&&__quipu::OfHost::of(&#receiver)).__unchanging();
                    }));
            }
            syn::visit::visit_expr_method_call(self, call);
        }
    }
    let mut receivers = Receivers(TokenStream::new());
    receivers.visit_expr(constant);
    receivers.0
}

/// True if an expression is an item, or part of one.
fn is_named(expression: &Expr) -> bool {
    match expression {
        Expr::Path(_) => true,
        Expr::Paren(paren) => is_named(&paren.expr),
        Expr::Group(group) => is_named(&group.expr),
        Expr::Field(field) => is_named(&field.base),
        Expr::Index(index) => is_named(&index.expr),
        _ => false,
    }
}

pub(crate) fn is_associated(path: &syn::Path, has_self_type: bool) -> bool {
    if has_self_type {
        return true;
    }
    let count = path.segments.len();
    count >= 2 && is_type_name(&path.segments[count - 2].ident.to_string())
}

fn is_type_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
        || matches!(
            name,
            "i8" | "i16"
                | "i32"
                | "i64"
                | "isize"
                | "u8"
                | "u16"
                | "u32"
                | "u64"
                | "usize"
                | "f16"
                | "bf16"
                | "f32"
                | "f64"
                | "bool"
        )
}

pub(crate) fn is_assignment(operation: &BinOp) -> bool {
    matches!(
        operation,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// The name of an order in the representation.
fn comparison(operation: &BinOp) -> Option<&'static str> {
    Some(match operation {
        BinOp::Lt(_) => "Less",
        BinOp::Le(_) => "LessEqual",
        BinOp::Gt(_) => "Greater",
        BinOp::Ge(_) => "GreaterEqual",
        _ => return None,
    })
}

/// The name of an operator's trait; of those of `PartialEq` the comparison.
fn operator(operation: &BinOp) -> Option<&'static str> {
    Some(match operation {
        BinOp::Add(_) => "Add",
        BinOp::Sub(_) => "Sub",
        BinOp::Mul(_) => "Mul",
        BinOp::Div(_) => "Div",
        BinOp::Rem(_) => "Rem",
        BinOp::BitXor(_) => "BitXor",
        BinOp::BitAnd(_) => "BitAnd",
        BinOp::BitOr(_) => "BitOr",
        BinOp::Shl(_) => "Shl",
        BinOp::Shr(_) => "Shr",
        BinOp::AddAssign(_) => "AddAssign",
        BinOp::SubAssign(_) => "SubAssign",
        BinOp::MulAssign(_) => "MulAssign",
        BinOp::DivAssign(_) => "DivAssign",
        BinOp::RemAssign(_) => "RemAssign",
        BinOp::BitXorAssign(_) => "BitXorAssign",
        BinOp::BitAndAssign(_) => "BitAndAssign",
        BinOp::BitOrAssign(_) => "BitOrAssign",
        BinOp::ShlAssign(_) => "ShlAssign",
        BinOp::ShrAssign(_) => "ShrAssign",
        BinOp::Eq(_) => "Equal",
        BinOp::Ne(_) => "NotEqual",
        _ => return None,
    })
}

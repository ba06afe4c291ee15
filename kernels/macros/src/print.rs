//! `print!` and `println!`, and assertions with their messages: a text with values.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, Ident, LitStr, Macro, Token, parse_quote};

use crate::refuse;
use crate::scope::{Kind, Writer};

/// A format string as the representation has it, with `{}` for each value in turn, and the source
/// of each value: the next argument, or a variable.
type Format = (String, Vec<Option<Ident>>);

/// Reads one.
fn parsed(format: &LitStr) -> Result<Format, &'static str> {
    let (mut text, mut values) = (String::new(), Vec::new());
    let format_text = format.value();
    let mut letters = format_text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.next_if_eq(&letter).is_some() => text.push(letter),
            '{' => {
                let mut name = String::new();
                loop {
                    match letters.next() {
                        Some('}') => break,
                        Some(letter) => name.push(letter),
                        None => return Err(refuse::PRINT_FORMAT),
                    }
                }
                values.push(match name.as_str() {
                    "" => None,
                    name => {
                        let name =
                            syn::parse_str::<Ident>(name).map_err(|_| refuse::PRINT_FORMAT)?;
                        Some(Ident::new(&name.to_string(), format.span()))
                    }
                });
                text.push_str("{}");
            }
            '}' => return Err(refuse::PRINT_FORMAT),
            letter => text.push(letter),
        }
    }
    // The representation has no other way to write a pair of braces.
    if text.matches("{}").count() == values.len() {
        Ok((text, values))
    } else {
        Err(refuse::PRINT_BRACES)
    }
}

/// The message of an assertion, as `parsed` gives it; or the fault in it, and its place.
fn message(of: Expr) -> Result<Format, (Span, &'static str)> {
    let Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(format),
        ..
    }) = of
    else {
        return Err((of.span(), refuse::PRINT_FORMAT));
    };
    match parsed(&format) {
        Ok((_, values)) if values.len() > 2 => Err((format.span(), refuse::ASSERT_VALUES)),
        Ok(parsed) => Ok(parsed),
        Err(words) => Err((format.span(), words)),
    }
}

impl Writer {
    /// `print!(…)`, with a line's end if it is `println!(…)`.
    pub(crate) fn print(
        &mut self,
        span: Span,
        tokens: TokenStream,
        ends_line: bool,
    ) -> TokenStream {
        let refused = |this: &mut Self, span, words| {
            let refused = this.refuse(span, words);
            quote!(let _: __quipu::Expr<()> = #refused;)
        };
        let Ok(arguments) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens) else {
            return refused(self, span, refuse::PRINT_FORMAT);
        };
        let mut arguments = arguments.into_iter();
        let format = match arguments.next() {
            None => LitStr::new("", span),
            Some(Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(format),
                ..
            })) => format,
            Some(_) => return refused(self, span, refuse::PRINT_FORMAT),
        };
        let (mut text, values) = match parsed(&format) {
            Ok(parsed) => parsed,
            Err(words) => return refused(self, format.span(), words),
        };
        if ends_line {
            text.push('\n');
        }
        let (bound, names) = self.shown(span, values, arguments);
        quote_spanned!(span=> { #bound __quipu::print(#text, &[#(#names.raw()),*]); })
    }

    /// Binds the values that a text shows: variables, and arguments in their order.
    fn shown(
        &mut self,
        span: Span,
        values: Vec<Option<Ident>>,
        mut arguments: impl Iterator<Item = Expr>,
    ) -> (TokenStream, Vec<Ident>) {
        // rustc has counted them.
        let values: Vec<Expr> = values
            .into_iter()
            .filter_map(|value| {
                value.map_or_else(|| arguments.next(), |name| Some(parse_quote!(#name)))
            })
            .collect();
        let (mut bound, mut names) = (TokenStream::new(), Vec::new());
        for value in &values {
            let (written, name) = (self.expression(value), self.fresh("printed"));
            bound.extend(quote_spanned!(span=> let #name = __quipu::value(#written);));
            bound.extend(quote_spanned!(value.span()=> (&__quipu::Own::of(#name)).__prints();));
            names.push(name);
        }
        (bound, names)
    }

    /// `assert!(condition, "message {}", value)`.
    pub(crate) fn assertion(&mut self, span: Span, mac: &Macro) -> TokenStream {
        let refused = |this: &mut Self, span, words| {
            let refused = this.refuse(span, words);
            quote!(let _: __quipu::Expr<()> = #refused;)
        };
        let Ok(arguments) = mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        else {
            return refused(self, span, refuse::ASSERTION);
        };
        let mut arguments = arguments.into_iter();
        let Some(condition) = arguments.next() else {
            return TokenStream::new();
        };
        let (text, values) = match arguments.next().map(message) {
            None => (quote!(#condition).to_string(), Vec::new()),
            Some(Ok(message)) => message,
            Some(Err((span, words))) => return refused(self, span, words),
        };
        let (bound, names) = self.shown(span, values, arguments);
        let condition = self.expression(&condition);
        quote_spanned!(span=> { #bound __quipu::assert(#condition, #text, &[#(#names.raw()),*]); })
    }

    /// `assert_eq!(a, b, "message {}", value)`, and `assert_ne!`.
    pub(crate) fn comparison(&mut self, span: Span, mac: &Macro, op: BinOp) -> TokenStream {
        let refused = |this: &mut Self, span, words| {
            let refused = this.refuse(span, words);
            quote!(let _: __quipu::Expr<()> = #refused;)
        };
        let arguments = mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        let mut arguments = arguments.into_iter().flatten();
        let (Some(left), Some(right)) = (arguments.next(), arguments.next()) else {
            return refused(self, span, refuse::COMPARISON);
        };
        // Braces are where values are shown.
        let asked = quote!(#left #op #right).to_string().replace("{}", "{ }");
        let (left, right) = (self.expression(&left), self.expression(&right));
        let [first, second] = ["left", "right"].map(|side| self.fresh(side));
        let condition = self.scoped(|this| {
            this.define(&first, Kind::Variable);
            this.define(&second, Kind::Variable);
            this.binary(&ExprBinary {
                attrs: Vec::new(),
                left: parse_quote!(#first),
                op,
                right: parse_quote!(#second),
            })
        });
        let sides = quote_spanned!(span=>
            let #first = __quipu::value(#left);
            let #second = __quipu::value(#right);
        );
        match arguments.next().map(message) {
            None => {
                quote_spanned!(span=> {
                    #sides
                    __quipu::assert_compared(#condition, #asked, [#first.raw(), #second.raw()]);
                })
            }
            Some(Err((span, words))) => refused(self, span, words),
            Some(Ok((text, values))) => {
                let (bound, names) = self.shown(span, values, arguments);
                quote_spanned!(span=> {
                    #sides
                    #bound
                    __quipu::assert(#condition, #text, &[#(#names.raw()),*]);
                })
            }
        }
    }
}

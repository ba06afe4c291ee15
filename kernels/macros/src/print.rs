//! `print!` and `println!`, and the message of an `assert!`: a text with values.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, LitStr, Macro, Token, parse_quote};

use crate::refuse;
use crate::scope::Writer;

/// A format string as the representation has it, with `{}` for each value in turn, and what each value is: the next
/// argument, or a variable.
fn parsed(format: &LitStr) -> Result<(String, Vec<Option<Ident>>), &'static str> {
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

    /// Binds what a text shows: variables, and arguments in their order.
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
        let (text, values) = match arguments.next() {
            None => (quote!(#condition).to_string(), Vec::new()),
            Some(Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(format),
                ..
            })) => match parsed(&format) {
                Ok((_, values)) if values.len() > 2 => {
                    return refused(self, format.span(), refuse::ASSERT_VALUES);
                }
                Ok(parsed) => parsed,
                Err(words) => return refused(self, format.span(), words),
            },
            Some(other) => return refused(self, other.span(), refuse::PRINT_FORMAT),
        };
        let (bound, names) = self.shown(span, values, arguments);
        let condition = self.expression(&condition);
        quote_spanned!(span=> { #bound __quipu::assert(#condition, #text, &[#(#names.raw()),*]); })
    }
}

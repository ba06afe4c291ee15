//! Calls: of device functions, closures, methods and constructors.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, Path, PathArguments, Token};

use crate::expression::{is_assignment, is_associated, unchanging};
use crate::pattern::last_name;
use crate::refuse;
use crate::scope::{Access, Kind, Writer, witness};

/// Of functions without `#[device]` whose calls say so: see `emit::plain`.
const MOST_ARGUMENTS: usize = 7;

impl Writer {
    pub(crate) fn call(&mut self, call: &ExprCall) -> TokenStream {
        match &*call.func {
            Expr::Path(path) => self.call_path(path, call),
            Expr::Paren(paren) => match &*paren.expr {
                Expr::Closure(closure) => {
                    let closure = self.closure(closure);
                    let arguments = self.arguments(&call.args);
                    quote_spanned!(call.span()=> (#closure)(#(#arguments),*))
                }
                _ => self.refuse(call.func.span(), refuse::CLOSURE_VALUE),
            },
            _ => self.refuse(call.func.span(), refuse::CLOSURE_VALUE),
        }
    }

    fn arguments(&mut self, arguments: &Punctuated<Expr, Token![,]>) -> Vec<TokenStream> {
        arguments
            .iter()
            .map(|argument| {
                match argument {
                    Expr::Closure(closure) => return self.closure(closure),
                    Expr::Path(path) if self.is_closure(&path.path) => {
                        if self.variable(&path.path) == Some(Kind::ChangingClosure) {
                            self.refuse(path.span(), refuse::CLOSURE_COPY);
                        }
                        return quote!(&#path);
                    }
                    Expr::Path(path) if self.is_function(&path.path) => {
                        return self.refuse(path.span(), refuse::FUNCTION_VALUE);
                    }
                    Expr::Reference(reference) => match &*reference.expr {
                        Expr::Closure(closure) => return self.closure(closure),
                        Expr::Path(path) if self.is_closure(&path.path) => {
                            return quote!(&#path);
                        }
                        _ => {}
                    },
                    _ => {}
                }
                let written = self.expression(argument);
                let span = argument.span();
                match argument {
                    Expr::Reference(_) => quote_spanned!(span=> __quipu::coerced(#written)),
                    _ => quote_spanned!(span=> __quipu::value(#written)),
                }
            })
            .collect()
    }

    /// True of a path that is no variable, and has a name as functions have.
    fn is_function(&self, path: &Path) -> bool {
        let name = path.segments.last().map(|last| last.ident.to_string());
        let is_named = |name: &String| name != "self" && name.starts_with(char::is_lowercase);
        self.variable(path).is_none() && name.as_ref().is_some_and(is_named)
    }

    /// The present value of an expression.
    fn current(&mut self, expression: &Expr) -> TokenStream {
        let written = self.expression(expression);
        quote_spanned!(expression.span()=> __quipu::value(#written))
    }

    fn call_path(&mut self, path: &ExprPath, call: &ExprCall) -> TokenStream {
        let span = path.path.span();
        match self.variable(&path.path) {
            Some(Kind::Closure | Kind::ChangingClosure) => {
                let arguments = self.arguments(&call.args);
                return quote_spanned!(span=> #path(#(#arguments),*));
            }
            Some(_) => return self.refuse(span, refuse::CLOSURE_VALUE),
            None => {}
        }
        if let Some(name) = path.path.get_ident()
            && self.function.as_ref() == Some(name)
        {
            return self.refuse(span, refuse::RECURSION);
        }
        let Some(last) = path.path.segments.last() else {
            return self.refuse(span, refuse::VERBATIM);
        };
        let name = last.ident.to_string();
        if name.starts_with(|first: char| first.is_uppercase()) {
            return self.constructor(path, call);
        }
        if let Some(words) = refuse::call(&call.func) {
            return self.refuse(span, words);
        }
        if let Some(builder) = of_std(&path.path) {
            let builder = Ident::new(builder, span);
            let arguments = call.args.iter().map(|argument| self.current(argument));
            return quote_spanned!(span=> __quipu::#builder(#(#arguments),*));
        }
        let arguments = self.arguments(&call.args);
        if is_associated(&path.path, path.qself.is_some()) {
            let mut builder = path.clone();
            if let Some(last) = builder.path.segments.last_mut() {
                last.ident = format_ident!("__call_{}", last.ident, span = last.ident.span());
            }
            let written = quote_spanned!(span=> #builder(#(#arguments),*));
            return match name.as_str() {
                "from" => quote_spanned!(span=> (&&&#written).__converted()),
                _ => written,
            };
        }
        // A device function: its builder is one of a type of the same name.
        let mut builder = path.path.clone();
        let mut generics = PathArguments::None;
        if let Some(last) = builder.segments.last_mut() {
            generics = std::mem::replace(&mut last.arguments, PathArguments::None);
        }
        if let Some(name) = path.path.get_ident()
            && ["max", "min", "swap"].iter().any(|known| name == known)
            && arguments.len() == 2
        {
            let names = [self.fresh("argument"), self.fresh("argument")];
            return quote_spanned!(span=> {
                #[allow(unused_imports)]
                use __quipu::of_std::#name::*;
                #[allow(unused_imports)]
                use #builder as __function_2;
                #(let #names = #arguments;)*
                (&__quipu::of_std::Meant::<__function_2>::new()).__is(|| __quipu::of_std::#name::name_of(#path, #(#names),*));
                <__function_2>::__call #generics (#(#names),*)
            });
        }
        if arguments.len() > MOST_ARGUMENTS {
            return quote_spanned!(span=> <#builder>::__call #generics (#(#arguments),*));
        }
        // By a name that exists, too, where there is no such type: its error is of help.
        let name = format_ident!("__function_{}", arguments.len(), span = span);
        quote_spanned!(span=> {
            #[allow(unused_imports)]
            use __quipu::plain::*;
            #[allow(unused_imports)]
            use #builder as #name;
            <#name>::__call #generics (#(#arguments),*)
        })
    }

    /// A tuple struct of its fields.
    fn constructor(&mut self, path: &ExprPath, call: &ExprCall) -> TokenStream {
        let span = path.path.span();
        let (mut bound, mut names) = (TokenStream::new(), Vec::new());
        for argument in &call.args {
            let written = self.expression(argument);
            let name = self.fresh("field");
            bound.extend(quote_spanned!(argument.span()=> let #name = __quipu::value(#written);));
            names.push(name);
        }
        let numbers = (0..names.len()).map(|number| number.to_string());
        let witness = witness(span, &quote!(#path(#(__quipu::w(#names)),*)));
        let variant = last_name(&path.path);
        quote_spanned!(span=> { #bound __quipu::structure(#variant, &[#((#numbers, #names.raw())),*], ::core::option::Option::None, #witness) })
    }

    pub(crate) fn method_call(&mut self, call: &ExprMethodCall) -> TokenStream {
        let span = call.method.span();
        let method = call.method.to_string();
        if let Some(words) = refuse::method(&method) {
            return self.refuse(span, words);
        }
        if let Expr::Path(receiver) = &*call.receiver
            && let Some(Kind::Unindexed(words)) = self.variable(&receiver.path)
            && Some(words) == refuse::index("Atomics")
            && let Some(words) = refuse::atomic(&method, call.args.iter())
        {
            return self.refuse(span, words);
        }
        if let Some(written) = self.iteration(call) {
            return written;
        }
        if let Some(written) = self.array_of_slice(call) {
            return written;
        }
        let mut receiver = self.accessed(&call.receiver, Access::Receiver);
        if matches!(&*call.receiver, Expr::Path(_)) && self.is_constant(&call.receiver) {
            let checks = unchanging(&Expr::MethodCall(call.clone()));
            receiver = quote!({ #checks #receiver });
        }
        match method.as_str() {
            "clone" if call.args.is_empty() => {
                return quote_spanned!(span=> __quipu::value(__quipu::dereference(#receiver)));
            }
            "into" if call.args.is_empty() => {
                let name = self.fresh("receiver");
                let witness = witness(span, &quote!(__quipu::w(#name).into()));
                return quote_spanned!(span=> {
                    let #name = __quipu::value(#receiver);
                    (&&&__quipu::Conversion::new(#name, #witness)).__converted()
                });
            }
            _ => {}
        }
        let mut arguments = match method.as_str() {
            // Of whatever type it is: there is none that a reference has to be made.
            "zip" => call.args.iter().map(|other| self.current(other)).collect(),
            // Of an array or a slice: there are two that a reference to an array may become.
            "copy_from_slice" | "clone_from_slice" => {
                let written = call.args.iter().map(|other| self.expression(other));
                written.collect()
            }
            // Its message is a text, of which there are no others.
            "expect" if call.args.iter().all(is_text) => {
                call.args.iter().map(|text| quote!(#text)).collect()
            }
            _ => self.arguments(&call.args),
        };
        let generics = &call.turbofish;
        let builder = format_ident!("__method_{}", call.method, span = span);
        let name = self.fresh("receiver");
        let without = without_device(call, &builder);
        if may_assign(&call.receiver, &call.args) {
            // The receiver is evaluated before the effects of the arguments.
            let before = self.fresh("before");
            let mut bound = TokenStream::new();
            for (argument, written) in call.args.iter().zip(&mut arguments) {
                // The types of a closure's parameters come from the method that it is passed to.
                if !matches!(argument, Expr::Closure(_)) {
                    let name = self.fresh("argument");
                    bound.extend(quote_spanned!(argument.span()=> let #name = #written;));
                    *written = quote!(#name);
                }
            }
            return quote_spanned!(span=> {
                let #name = #receiver;
                let #before = __quipu::before_arguments();
                #bound
                let #name = __quipu::receiver(#name, #before);
                #without
                __quipu::subject(&#name).#builder #generics (#name, #(#arguments),*)
            });
        }
        quote_spanned!(span=> {
            let #name = #receiver;
            #without
            __quipu::subject(&#name).#builder #generics (#name, #(#arguments),*)
        })
    }

    /// `slice.try_into().unwrap()`, an array of the slice's elements.
    fn array_of_slice(&mut self, call: &ExprMethodCall) -> Option<TokenStream> {
        let tried = tried(call)?;
        let span = tried.method.span();
        let receiver = self.expression(&tried.receiver);
        let name = self.fresh("receiver");
        Some(quote_spanned!(span=> {
            let #name = #receiver;
            __quipu::subject(&#name).__method_try_into_unwrap(#name)
        }))
    }
}

/// `slice.try_into()`, of `slice.try_into().unwrap()`.
fn tried(call: &ExprMethodCall) -> Option<&ExprMethodCall> {
    let is_unwrapped = match call.method.to_string().as_str() {
        "unwrap" => call.args.is_empty(),
        "expect" => call.args.iter().all(is_text),
        _ => false,
    };
    match &*call.receiver {
        Expr::MethodCall(tried)
            if is_unwrapped && tried.method == "try_into" && tried.args.is_empty() =>
        {
            Some(tried)
        }
        _ => None,
    }
}

/// A method of the name of a call's, of types that have no other: its error is of help. It comes
/// last, as it asks for more of the type than any other; see `emit::plain`.
fn without_device(call: &ExprMethodCall, builder: &Ident) -> TokenStream {
    if call
        .args
        .iter()
        .any(|argument| matches!(argument, Expr::Closure(_)))
        || call.turbofish.is_some()
    {
        return TokenStream::new();
    }
    let types: Vec<_> = (0..call.args.len())
        .map(|number| format_ident!("A{number}"))
        .collect();
    quote! {
        #[allow(dead_code)]
        trait __WithoutDevice: __quipu::plain::Value {
            fn #builder<#(#types,)* __R>(&mut self, _: __quipu::Expr<Self>, #(_: #types),*) -> __quipu::Expr<__R>
            where
                Self: __quipu::plain::HasMethod,
            {
                __quipu::never()
            }
        }
        impl<T: __quipu::plain::Value> __WithoutDevice for T {}
    }
}

fn is_text(argument: &Expr) -> bool {
    matches!(argument, Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Str(_)))
}

/// True if a method's arguments may change its receiver before the method begins. A closure that is
/// passed does not.
fn may_assign(receiver: &Expr, arguments: &Punctuated<Expr, Token![,]>) -> bool {
    struct Found<'a> {
        receiver: Option<&'a Ident>,
        assigns: bool,
    }
    impl<'ast> Visit<'ast> for Found<'_> {
        fn visit_expr(&mut self, expression: &'ast Expr) {
            self.assigns |= match expression {
                Expr::Assign(_) | Expr::Block(_) | Expr::Macro(_) => true,
                Expr::Binary(binary) => is_assignment(&binary.op),
                Expr::Reference(reference) => reference.mutability.is_some(),
                // It may be one that takes `&mut self`.
                Expr::MethodCall(call) => {
                    self.receiver.is_some() && variable_of(&call.receiver) == self.receiver
                }
                _ => false,
            };
            visit::visit_expr(self, expression);
        }
    }
    let mut found = Found {
        receiver: variable_of(receiver),
        assigns: false,
    };
    for argument in arguments {
        if !matches!(argument, Expr::Closure(_)) {
            found.visit_expr(argument);
        }
    }
    found.assigns
}

/// The variable that a place is in.
fn variable_of(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => variable_of(&field.base),
        Expr::Index(index) => variable_of(&index.expr),
        Expr::Paren(paren) => variable_of(&paren.expr),
        Expr::Unary(unary) => variable_of(&unary.expr),
        _ => None,
    }
}

/// The name of the builder for a call of a function of std's: of `std::mem::swap`, say, or
/// `mem::swap`.
fn of_std(path: &Path) -> Option<&'static str> {
    let names = path.segments.iter().map(|part| part.ident.to_string());
    let names: Vec<_> = names.collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let function = match &names[..] {
        ["std" | "core", function @ ..] => function,
        function => function,
    };
    Some(match function {
        ["mem", "swap"] => "swap",
        ["mem", "replace"] => "replace",
        ["mem", "take"] => "take",
        ["cmp", "max"] => "maximum",
        ["cmp", "min"] => "minimum",
        _ => return None,
    })
}

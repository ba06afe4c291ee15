//! `kernel_closure!`: a kernel where it is launched, with values of the code around it.
//!
//! Its values are a struct of its own, and the kernel a method of that: so it is all that these
//! are, and there is nothing else to know of it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Block, DeriveInput, Error, Expr, ExprClosure, FnArg, Ident, ItemImpl, Pat, PatType, Result,
    ReturnType, Token, Type, bracketed, parse_quote, parse_quote_spanned,
};

use crate::options::Options;
use crate::refuse;

/// The content of the parentheses.
pub(crate) struct Closure {
    options: Options,
    captures: Punctuated<Capture, Token![,]>,
    closure: ExprClosure,
}

/// A value that it has from where it is written: `name: Type`, or `name: Type = value`.
struct Capture {
    mutability: Option<Token![mut]>,
    name: Ident,
    of: Type,
    value: Option<Expr>,
}

impl Parse for Capture {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mutability = input.parse()?;
        let name: Ident = input.parse()?;
        if !input.peek(Token![:]) {
            return Err(Error::new(name.span(), refuse::CAPTURE_TYPE));
        }
        input.parse::<Token![:]>()?;
        let of = input.parse()?;
        let has_value = input.parse::<Option<Token![=]>>()?.is_some();
        Ok(Self {
            mutability,
            name,
            of,
            value: has_value.then(|| input.parse()).transpose()?,
        })
    }
}

impl Parse for Closure {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Options::default();
        if input.peek(Token![crate]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            options.krate = input.call(syn::Path::parse_mod_style)?;
            input.parse::<Token![,]>()?;
        }
        let mut captures = Punctuated::new();
        if input.peek(syn::token::Bracket) {
            let content;
            bracketed!(content in input);
            captures = Punctuated::parse_terminated(&content)?;
        }
        let what = input.span();
        match input.parse()? {
            Expr::Closure(closure) => Ok(Self {
                options,
                captures,
                closure,
            }),
            _ => Err(Error::new(what, refuse::CLOSURE_KERNEL)),
        }
    }
}

/// A value whose method `call` is the kernel.
pub(crate) fn expand(closure: &Closure) -> Result<TokenStream> {
    let Closure {
        options,
        captures,
        closure,
    } = closure;
    if let ReturnType::Type(_, result) = &closure.output {
        return Err(Error::new(result.span(), refuse::RESULT));
    }
    let parameters = closure.inputs.iter().map(|input| match input {
        Pat::Type(PatType { attrs, pat, ty, .. }) => Ok(FnArg::Typed(PatType {
            attrs: attrs.clone(),
            pat: pat.clone(),
            colon_token: Token![:](pat.span()),
            ty: ty.clone(),
        })),
        other => Err(Error::new(other.span(), refuse::CLOSURE_PARAMETER)),
    });
    let parameters: Vec<FnArg> = parameters.collect::<Result<_>>()?;
    // Of the kernel, in errors and traces.
    let name = format_ident!("KernelClosure");
    let krate = &options.krate;
    let fields = captures.iter().map(|capture| {
        let Capture { name, of, .. } = capture;
        quote!(#name: #of)
    });
    let data: DeriveInput = parse_quote! {
        #[derive(Clone, Copy)]
        #[repr(C)]
        #[kernel_data(crate = #krate)]
        struct #name { #(#fields),* }
    };
    let own = captures.iter().map(|capture| -> syn::Stmt {
        let Capture {
            mutability, name, ..
        } = capture;
        parse_quote_spanned!(name.span()=> let #mutability #name = self.#name;)
    });
    let body: Block = match &*closure.body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => {
            let mut block = block.block.clone();
            block.stmts.splice(0..0, own);
            block
        }
        body => parse_quote!({ #(#own)* #body }),
    };
    let asyncness = &closure.asyncness;
    let kernel: ItemImpl = parse_quote! {
        impl #name {
            #[allow(clippy::trivially_copy_pass_by_ref)]
            #asyncness fn call(self, #(#parameters),*) #body
        }
    };
    let derived = crate::data::expand(&data)?;
    let kernel = crate::method::expand(options, &kernel)?;
    let mut declared = data;
    declared
        .attrs
        .retain(|attribute| !attribute.path().is_ident("kernel_data"));
    let values = captures
        .iter()
        .map(|Capture { name, value, .. }| match value {
            Some(value) => quote!(#name: #value),
            None => quote!(#name: #name),
        });
    Ok(quote!({
        #declared
        #derived
        #kernel
        #name { #(#values),* }
    }))
}

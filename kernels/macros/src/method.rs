//! `#[kernel] impl`: methods that are kernels.
//!
//! A method is made a kernel as the function would be that is named after the type and the method,
//! and has `self` as its first parameter but for the accelerator. The users' code stays in an
//! `impl` of their type, where `Self` has their meaning: the native body, the constructor of calls,
//! and the function that makes the source.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericParam, Generics, ImplItem, ImplItemFn, ItemFn, ItemImpl, Path,
    ReceiverKind, Result, Type, parse_quote,
};

use crate::expression::this_name;
use crate::kernel::function;
use crate::options::Options;
use crate::refuse;
use crate::signature::{is_mutable_reference, with_data_bounds};

/// The origin of a kernel that is a method.
pub(crate) struct Method<'a> {
    item: &'a ItemImpl,
    pub(crate) function: &'a ImplItemFn,
}

/// Makes kernels of all methods of an `impl`.
pub(crate) fn expand(options: &Options, item: &ItemImpl) -> Result<TokenStream> {
    if let Some((path, _)) = &item.trait_ {
        return Err(Error::new(path.span(), refuse::KERNEL_IMPL));
    }
    let type_name = match &*item.self_ty {
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        _ => None,
    };
    let Some(type_name) = type_name else {
        return Err(Error::new(item.self_ty.span(), refuse::KERNEL_TYPE));
    };
    let mut written = TokenStream::new();
    for member in &item.items {
        match member {
            ImplItem::Fn(method) if method.sig.receiver().is_some() => {
                let as_function = as_function(item, type_name, method)?;
                let method = Method {
                    item,
                    function: method,
                };
                written.extend(function(options, &as_function, Some(method))?);
            }
            other => return Err(Error::new(other.span(), refuse::KERNEL_METHOD)),
        }
    }
    Ok(written)
}

/// The function that a method would be by itself. Its body is the method's: it is read, not
/// compiled.
fn as_function(item: &ItemImpl, type_name: &Ident, method: &ImplItemFn) -> Result<ItemFn> {
    let mut signature = method.sig.clone();
    signature.ident = format_ident!("{type_name}_{}", method.sig.ident);
    let mut inputs = Vec::new();
    for input in &method.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                if is_mutable_reference(receiver) {
                    return Err(Error::new(receiver.span(), refuse::KERNEL_SELF));
                }
                let (this, of) = (this_name(receiver.self_token.span), &item.self_ty);
                let mutability = &receiver.mutability;
                inputs.push(parse_quote!(#mutability #this: #of));
            }
            FnArg::Typed(typed) => {
                let mut typed = typed.clone();
                typed.ty = syn::parse2(of_function(typed.ty.to_token_stream(), &item.self_ty))?;
                for attribute in &mut typed.attrs {
                    if let syn::Meta::List(list) = &mut attribute.meta {
                        list.tokens = of_function(list.tokens.clone(), &item.self_ty);
                    }
                }
                inputs.push(FnArg::Typed(typed));
            }
        }
    }
    signature.inputs = inputs.into_iter().collect();
    let mut generics = item.generics.clone();
    generics.params.extend(method.sig.generics.params.clone());
    if let Some(clause) = &method.sig.generics.where_clause {
        let predicates = clause.predicates.clone();
        generics.make_where_clause().predicates.extend(predicates);
    }
    signature.generics = generics;
    Ok(ItemFn {
        attrs: method.attrs.clone(),
        vis: method.vis.clone(),
        modifiers: method.modifiers.clone(),
        sig: signature,
        block: Box::new(method.block.clone()),
    })
}

/// A type or the length of a shared array as it is outside of the `impl`.
fn of_function(tokens: TokenStream, of: &Type) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut replaced = TokenStream::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) if name == "Self" => {
                let has_path =
                    matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                replaced.extend(if has_path { quote!(<#of>) } else { quote!(#of) });
            }
            TokenTree::Ident(name) if name == "self" => {
                replaced.extend(this_name(name.span()).into_token_stream());
            }
            TokenTree::Group(group) => {
                let stream = of_function(group.stream(), of);
                let mut inner = proc_macro2::Group::new(group.delimiter(), stream);
                inner.set_span(group.span());
                replaced.extend([TokenTree::from(inner)]);
            }
            other => replaced.extend([other]),
        }
    }
    replaced
}

/// True if a parameter stands for `self`.
pub(crate) fn is_this(name: &Ident) -> bool {
    *name == this_name(name.span())
}

impl Method<'_> {
    /// An `impl` of the type with something in it.
    pub(crate) fn inherent(&self, krate: &Path, inside: &TokenStream) -> TokenStream {
        let generics = with_data_bounds(&self.item.generics, krate);
        let (impl_generics, _, where_clause) = generics.split_for_impl();
        let of = &self.item.self_ty;
        quote! {
            #[allow(clippy::multiple_bound_locations)]
            impl #impl_generics #of #where_clause {
                #inside
            }
        }
    }

    /// The generics of the method itself.
    pub(crate) fn own_generics(&self, krate: &Path) -> Generics {
        with_data_bounds(&self.function.sig.generics, krate)
    }

    fn arguments(&self) -> TokenStream {
        let names =
            self.function
                .sig
                .generics
                .params
                .iter()
                .filter_map(|parameter| match parameter {
                    GenericParam::Type(parameter) => Some(&parameter.ident),
                    GenericParam::Const(parameter) => Some(&parameter.ident),
                    GenericParam::Lifetime(_) => None,
                });
        quote!(::<#(#names),*>)
    }

    /// Calls the native function.
    pub(crate) fn native_call(&self, name: &Ident, arguments: &TokenStream) -> TokenStream {
        let (of, generics) = (&self.item.self_ty, self.arguments());
        let is_reference = self
            .function
            .sig
            .receiver()
            .is_some_and(|of| matches!(of.kind, ReceiverKind::Reference(..)));
        let this = this_name(self.function.sig.ident.span());
        let this = if is_reference {
            quote!(&#this)
        } else {
            quote!(#this)
        };
        quote!(<#of>::#name #generics (#this, #arguments))
    }

    fn module_name(&self) -> Ident {
        format_ident!("__module_{}", self.function.sig.ident)
    }

    /// The function that makes the source.
    pub(crate) fn module(&self, krate: &Path, body: &TokenStream) -> TokenStream {
        let (name, generics) = (self.module_name(), self.own_generics(krate));
        let (parameters, clause) = (&generics.params, &generics.where_clause);
        self.inherent(
            krate,
            &quote! {
                fn #name<#parameters>() -> ::core::result::Result<
                    #krate::__macro::emit::ir::Module,
                    #krate::__macro::emit::BuildError,
                > #clause {
                    #body
                }
            },
        )
    }

    /// Calls it.
    pub(crate) fn module_call(&self) -> TokenStream {
        let (of, name, generics) = (&self.item.self_ty, self.module_name(), self.arguments());
        quote!(<#of>::#name #generics ())
    }
}

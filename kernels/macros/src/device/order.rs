//! The methods of derived orders: `cmp`, `max` and their like.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Path, Type, parse_quote};

/// A method of a derived order.
struct OrderMethod {
    name: &'static str,
    /// The trait that has it.
    of: &'static str,
    /// The number of values behind the receiver.
    arguments: usize,
    by_reference: bool,
    /// Its result, and the function that writes it.
    result: &'static str,
    builder: &'static str,
}

const ORDER_METHODS: [OrderMethod; 5] = {
    const fn method(name: &'static str, arguments: usize, builder: &'static str) -> OrderMethod {
        OrderMethod {
            name,
            of: "Ord",
            arguments,
            by_reference: false,
            result: "Self",
            builder,
        }
    }
    [
        OrderMethod {
            of: "PartialOrd",
            by_reference: true,
            result: "::core::option::Option<::core::cmp::Ordering>",
            ..method("partial_cmp", 1, "partially_compared")
        },
        OrderMethod {
            by_reference: true,
            result: "::core::cmp::Ordering",
            ..method("cmp", 1, "compared")
        },
        method("max", 1, "greatest"),
        method("min", 1, "least"),
        method("clamp", 2, "clamped"),
    ]
};

impl OrderMethod {
    /// The method as one of the type's own, and its builders. So there is no other of the name,
    /// that rustc would take natively.
    fn written(&self, krate: &Path) -> TokenStream {
        let emit = quote!(#krate::__macro::emit);
        let name = format_ident!("{}", self.name);
        let of = format_ident!("{}", self.of);
        let builder = format_ident!("{}", self.builder);
        let [call, method] = ["call", "method"].map(|kind| format_ident!("__{kind}_{}", self.name));
        let result: Type = syn::parse_str(self.result).unwrap_or_else(|_| parse_quote!(Self));
        let reference = self.by_reference.then(|| quote!(&));
        let arguments: Vec<_> = (0..self.arguments)
            .map(|at| format_ident!("other{at}"))
            .collect();
        quote! {
            #[doc(hidden)]
            #[inline]
            pub fn #name(#reference self, #(#arguments: #reference Self),*) -> #result
            where
                Self: ::core::cmp::#of,
            {
                ::core::cmp::#of::#name(self, #(#arguments),*)
            }

            #[doc(hidden)]
            #[track_caller]
            pub fn #call(
                this: #emit::Expr<Self>,
                #(#arguments: #emit::Expr<Self>),*
            ) -> #emit::Expr<#result> {
                #emit::#builder(this, #(#arguments),*)
            }

            #[doc(hidden)]
            #[track_caller]
            pub fn #method(
                &self,
                this: #emit::Expr<Self>,
                #(#arguments: #emit::Expr<Self>),*
            ) -> #emit::Expr<#result> {
                #emit::#builder(this, #(#arguments),*)
            }
        }
    }
}

/// Those of a type with a derived `PartialOrd`, and perhaps `Ord`.
pub(super) fn methods(krate: &Path, is_ordered: bool, is_total: bool) -> Vec<TokenStream> {
    let methods = ORDER_METHODS.iter().filter(|method| match method.of {
        "Ord" => is_total,
        _ => is_ordered,
    });
    methods.map(|method| method.written(krate)).collect()
}

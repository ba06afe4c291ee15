//! Parameters of device functions that are closures: `f: F` with `F: Fn(u32) -> u32`, or
//! `f: impl Fn(u32) -> u32`.
//!
//! Where a source is made, the argument for one is the closure that writes its body. So a function
//! that has such a parameter is always written into its caller.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{
    GenericParam, Generics, ParenthesizedGenericArguments, PathArguments, ReturnType, Signature,
    Token, Type, TypeParamBound, WherePredicate, parse_quote,
};

use crate::signature::handle;

/// The arguments and result of a closure in a bound, if it is one of `Fn`, `FnMut` and `FnOnce`.
fn function_of(
    bounds: &Punctuated<TypeParamBound, Token![+]>,
) -> Option<&ParenthesizedGenericArguments> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let last = bound.path.segments.last()?;
        match &last.arguments {
            PathArguments::Parenthesized(arguments)
                if ["Fn", "FnMut", "FnOnce"]
                    .iter()
                    .any(|name| last.ident == name) =>
            {
                Some(arguments)
            }
            _ => None,
        }
    })
}

/// The bound of the closure that writes a closure's body.
fn writer_bound(function: &ParenthesizedGenericArguments) -> TypeParamBound {
    let inputs = function.inputs.iter().map(|input| handle(&input.ty));
    let result = match &function.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, result) => handle(result),
    };
    parse_quote!(::core::ops::Fn(#(__Expr<#inputs>),*) -> __Expr<#result>)
}

/// The closure that a type parameter stands for.
fn of_parameter<'g>(
    generics: &'g Generics,
    name: &Ident,
) -> Option<&'g ParenthesizedGenericArguments> {
    let inline = generics.type_params().find(|of| of.ident == *name);
    if let Some(function) = inline.and_then(|of| function_of(&of.bounds)) {
        return Some(function);
    }
    let clause = generics.where_clause.as_ref()?;
    clause
        .predicates
        .iter()
        .find_map(|predicate| match predicate {
            WherePredicate::Type(predicate) if is_named(&predicate.bounded_ty, name) => {
                function_of(&predicate.bounds)
            }
            _ => None,
        })
}

/// The place where a function asks for closures that may change their captures, and that it copies.
pub(crate) fn copied_closure(signature: &Signature) -> Option<Span> {
    type Bounds = Punctuated<TypeParamBound, Token![+]>;

    #[derive(Default)]
    struct Copied(Option<Span>);

    impl Copied {
        fn look(&mut self, bounds: &Bounds) {
            let named = |names: &[&str]| {
                bounds.iter().find_map(|bound| match bound {
                    TypeParamBound::Trait(bound) => {
                        let last = &bound.path.segments.last()?.ident;
                        names.iter().any(|name| last == name).then(|| last.span())
                    }
                    _ => None,
                })
            };
            if named(&["FnMut", "FnOnce"]).is_some() {
                self.0 = self.0.or(named(&["Copy", "Clone"]));
            }
        }
    }

    impl<'ast> Visit<'ast> for Copied {
        fn visit_type_impl_trait(&mut self, of: &'ast syn::TypeImplTrait) {
            self.look(&of.bounds);
        }

        fn visit_type_param(&mut self, of: &'ast syn::TypeParam) {
            self.look(&of.bounds);
        }

        fn visit_predicate_type(&mut self, of: &'ast syn::PredicateType) {
            self.look(&of.bounds);
        }
    }

    let mut copied = Copied::default();
    copied.visit_signature(signature);
    copied.0
}

fn is_named(user_type: &Type, name: &Ident) -> bool {
    matches!(user_type, Type::Path(path) if path.qself.is_none() && path.path.is_ident(name))
}

/// The type of the writer of a closure, if a parameter of this type is a closure.
pub(crate) fn writer_type(generics: &Generics, user_type: &Type) -> Option<TokenStream> {
    match user_type {
        Type::Reference(reference) => writer_type(generics, &reference.elem),
        Type::Paren(paren) => writer_type(generics, &paren.elem),
        Type::ImplTrait(of) => {
            let bound = writer_bound(function_of(&of.bounds)?);
            Some(quote!(impl #bound))
        }
        Type::Path(path) => {
            let name = path.path.get_ident()?;
            of_parameter(generics, name)?;
            Some(quote!(#name))
        }
        _ => None,
    }
}

/// Splits generics into those that are types of kernels, and those that are closures as they are to
/// be bound.
pub(crate) fn without_closures(generics: &Generics) -> (Generics, Vec<GenericParam>) {
    let mut data = generics.clone();
    let mut closures = Vec::new();
    for parameter in generics.type_params() {
        let Some(function) = of_parameter(generics, &parameter.ident) else {
            continue;
        };
        let (name, bound) = (&parameter.ident, writer_bound(function));
        closures.push(parse_quote!(#name: #bound));
        data.params = data
            .params
            .into_iter()
            .filter(|of| !matches!(of, GenericParam::Type(of) if of.ident == *name))
            .collect();
        if let Some(clause) = &mut data.where_clause {
            let predicates = std::mem::take(&mut clause.predicates).into_iter();
            clause.predicates = predicates
                .filter(
                    |of| !matches!(of, WherePredicate::Type(of) if is_named(&of.bounded_ty, name)),
                )
                .collect();
        }
    }
    (data, closures)
}

//! `#[device]`: functions that kernels call, by themselves, in traits and in `impl` blocks.
//!
//! A function `f` gets a type of the same name with the function `__call`, which writes a call of
//! `f` where a source is made. A method `m` gets `__call_m` (for `T::m(x)`) and `__method_m` (for
//! `x.m()`) beside it.

mod of_std;
mod order;

use of_std::{TraitOfStd, is_of_std, iterator_impl, of_std_impl};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, FnArg, GenericParam, Generics, ImplItem, Item, ItemFn, ItemImpl, ItemStruct,
    ItemTrait, Pat, PatType, Path, Receiver, Result, ReturnType, Signature, TraitItem, Type,
    parse_quote,
};

use crate::components::take_components;
use crate::expression::this_name;
use crate::function_type::{copied_closure, without_closures, writer_type};
use crate::kernel::allowances;
use crate::options::Options;
use crate::pattern::member_text;
use crate::refuse;
use crate::scope::{Kind, Want, Writer};
use crate::signature::{
    accelerator, check_generics, handle, is_mutable_reference, is_mutable_value, is_prefix, kind,
    make_inline, make_native, operator_bounds, operator_impl_of, parameters, with_value_bounds,
    without_lifetimes,
};

/// Lets kernels call the functions of an item.
pub(crate) fn expand(options: &Options, item: Item) -> Result<TokenStream> {
    match item {
        // Its callers are right, whatever is wrong with it.
        Item::Fn(item) => Ok(function(&options.krate, &item)
            .unwrap_or_else(|error| stub(&options.krate, &item, error))),
        Item::Trait(item) => Ok(or_as_it_is(&item, trait_item(&options.krate, item.clone()))),
        Item::Impl(item) => Ok(or_as_it_is(&item, impl_block(&options.krate, item.clone()))),
        Item::Struct(item) => comparisons(&options.krate, &item),
        other => Err(Error::new(other.span(), refuse::DEVICE_ITEM)),
    }
}

/// A function whose parameters are refused: for the host as it is, and for kernels one that takes
/// anything.
fn stub(krate: &Path, item: &ItemFn, error: Error) -> TokenStream {
    let error = error.into_compile_error();
    if !item.sig.generics.params.is_empty() {
        return quote!(#item #error);
    }
    let (name, visibility) = (&item.sig.ident, &item.vis);
    let types: Vec<_> = (0..item.sig.inputs.len())
        .map(|number| format_ident!("__Ignored{number}"))
        .collect();
    let result = match &item.sig.output {
        ReturnType::Type(_, result) => substitute(handle(result), krate),
        ReturnType::Default => quote!(()),
    };
    let allow = allowances();
    quote! {
        #item

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #visibility struct #name {}

        const _: () = {
            impl #name {
                #[doc(hidden)]
                #allow
                #visibility fn __call<#(#types),*>(#(_: #types),*) -> #krate::__macro::emit::Expr<#result> {
                    ::core::unreachable!()
                }
            }
        };
        #error
    }
}

/// The text that was written of an item; or an error and the item, which the host may still use.
fn or_as_it_is(item: &impl ToTokens, written: Result<TokenStream>) -> TokenStream {
    written.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#item #error)
    })
}

fn value(krate: &Path) -> TokenStream {
    quote!(#krate::__macro::emit::KernelValue)
}

fn function(krate: &Path, item: &ItemFn) -> Result<TokenStream> {
    let (name, visibility) = (&item.sig.ident, &item.vis);
    let mut written = Written::of(krate, &item.sig, Some(&item.block), false)?;
    written.visibility = quote!(#visibility);
    let call = written.builder(&format_ident!("__call", span = name.span()), false);
    let refusals = written.refusals.map(Error::into_compile_error);
    let mut native = item.clone();
    if refusals.is_some() {
        // What rustc would say of it is noise.
        native.block = parse_quote!({ ::core::unreachable!() });
        native.attrs.push(parse_quote!(#[allow(unused)]));
    }
    take_components(krate, &mut native.block);
    make_native(&mut native.sig);
    make_inline(&mut native.attrs);
    Ok(quote! {
        #native

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #visibility struct #name {}

        const _: () = {
            impl #name {
                #call
            }
        };
        #refusals
    })
}

fn trait_item(krate: &Path, mut item: ItemTrait) -> Result<TokenStream> {
    let mut added = Vec::new();
    let mut refusals = TokenStream::new();
    for member in &mut item.items {
        let TraitItem::Fn(function) = member else {
            continue;
        };
        let body = function.default.as_ref();
        let written = Written::of(krate, &function.sig, body, true)?;
        let call = format_ident!(
            "__call_{}",
            function.sig.ident,
            span = function.sig.ident.span()
        );
        added.push(written.builder(&call, true));
        if let Some(method) = written.method(&function.sig, &call) {
            added.push(method);
        }
        refusals.extend(written.refusals.map(Error::into_compile_error));
        if let Some(body) = &mut function.default {
            take_components(krate, body);
            make_inline(&mut function.attrs);
        }
    }
    for tokens in added {
        item.items.push(TraitItem::Verbatim(tokens));
    }
    let operators = operator_bounds(&item.supertraits, krate);
    item.supertraits.extend(operators);
    Ok(quote!(#item #refusals))
}

/// A struct whose comparisons are derived below: their meaning is known from the derived traits,
/// which `#[derive(KernelData)]` does not see.
fn comparisons(krate: &Path, item: &ItemStruct) -> Result<TokenStream> {
    let is_derived = |name: &str| {
        item.attrs.iter().any(|attribute| {
            let mut found = false;
            if attribute.path().is_ident("derive") {
                // rustc refuses an attribute that is no list of traits.
                let _ = attribute.parse_nested_meta(|derived| {
                    found |= derived
                        .path
                        .segments
                        .last()
                        .is_some_and(|last| last.ident == name);
                    Ok(())
                });
            }
            found
        })
    };
    let [is_equated, is_ordered, is_total] = ["PartialEq", "PartialOrd", "Ord"].map(is_derived);
    if !is_equated {
        return Err(Error::new(item.struct_token.span, refuse::DEVICE_ITEM));
    }
    let emit = quote!(#krate::__macro::emit);
    let name = &item.ident;
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let (members, types): (Vec<_>, Vec<_>) = item
        .fields
        .members()
        .zip(item.fields.iter().map(|field| &field.ty))
        .unzip();
    let texts: Vec<_> = members.iter().map(member_text).collect();
    let parts = quote! {
        #({
            let [one, other] = [this, other]
                .map(|of| #emit::field(of, #texts, ::core::option::Option::None::<#types>));
            (&#emit::Operands::<#emit::operator::Equal, _, _>::new(one, other))
                .__operate(::core::option::Option::None::<bool>)
        }),*
    };
    let order = is_ordered.then(|| {
        quote! {
            impl #impl_generics #emit::DerivedOrder for #name #type_generics #where_clause {
                #[track_caller]
                fn derived_order(
                    this: #emit::Expr<Self>,
                    other: #emit::Expr<Self>,
                ) -> #emit::Expr<::core::option::Option<::core::cmp::Ordering>> {
                    #emit::lexicographic(::std::vec![
                        #({
                            let [one, other] = [this, other]
                                .map(|of| #emit::field(of, #texts, ::core::option::Option::None::<#types>));
                            #emit::order_of(one, other)
                        }),*
                    ])
                }
            }
        }
    });
    let methods = order::methods(krate, is_ordered, is_total);
    Ok(quote! {
        #item

        #[allow(clippy::all, clippy::pedantic, clippy::restriction, unused)]
        const _: () = {
            use #emit::{Operated as _, OperatedAsNumbers as _};

            impl #impl_generics #emit::Operates<#emit::operator::Equal> for #name #type_generics #where_clause {
                type Output = ::core::primitive::bool;

                #[track_caller]
                fn operate(this: #emit::Expr<Self>, other: #emit::Expr<Self>) -> #emit::Expr<bool> {
                    #emit::all_of(::std::vec![#parts])
                }
            }

            impl #impl_generics #emit::Operates<#emit::operator::NotEqual> for #name #type_generics #where_clause {
                type Output = ::core::primitive::bool;

                #[track_caller]
                fn operate(this: #emit::Expr<Self>, other: #emit::Expr<Self>) -> #emit::Expr<bool> {
                    let equal = <Self as #emit::Operates<#emit::operator::Equal>>::operate(this, other);
                    #emit::unary(#emit::ir::UnaryOperation::Not, equal, ::core::option::Option::None)
                }
            }

            #order

            impl #impl_generics #name #type_generics #where_clause {
                #(#methods)*
            }
        };
    })
}

/// `impl Add for …` and the like: the kernels' form of the operator is in a trait of our own, as
/// the operator's has no room for it.
fn operator_impl(
    krate: &Path,
    item: &ItemImpl,
    operator: &syn::Ident,
    other: Option<&Type>,
) -> Result<TokenStream> {
    for of in [Some(&*item.self_ty), other] {
        if let Some(Type::Reference(of)) = of {
            return Err(Error::new(of.span(), refuse::OPERATOR_OF_REFERENCES));
        }
    }
    let function = item.items.iter().find_map(|member| match member {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    });
    let Some(function) = function else {
        return Ok(quote!(#item));
    };
    let output = item.items.iter().find_map(|member| match member {
        ImplItem::Type(output) => Some(&output.ty),
        _ => None,
    });
    let output = output.map_or_else(|| quote!(()), |output| quote!(#output));
    let written = Written::of(krate, &function.sig, Some(&function.block), true)?;
    let operate = written.builder(&format_ident!("operate"), false);
    let refusals = written.refusals.map(Error::into_compile_error);
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let of = &item.self_ty;
    let build = quote!(#krate::__macro::emit);
    let other = other.map_or_else(|| quote!(Self), |other| quote!(#other));
    let (kind, output) = if is_prefix(operator) {
        let kind = quote!(#build::OperatesAlone<#build::operator::#operator>);
        (kind, output)
    } else if operator == "PartialEq" {
        let kind = quote!(#build::Operates<#build::operator::Equal, #other>);
        (kind, quote!(::core::primitive::bool))
    } else {
        let kind = quote!(#build::Operates<#build::operator::#operator, #other>);
        (kind, output)
    };
    let unequal = (operator == "PartialEq").then(|| {
        quote! {
            impl #impl_generics #build::Operates<#build::operator::NotEqual, #other> for #of #where_clause {
                type Output = ::core::primitive::bool;

                #[track_caller]
                fn operate(this: #build::Expr<Self>, other: #build::Expr<#other>) -> #build::Expr<bool> {
                    let equal = <Self as #build::Operates<#build::operator::Equal, #other>>::operate(this, other);
                    #build::unary(#build::ir::UnaryOperation::Not, equal, ::core::option::Option::None)
                }
            }
        }
    });
    let mut native = item.clone();
    for member in &mut native.items {
        if let ImplItem::Fn(function) = member {
            make_inline(&mut function.attrs);
        }
    }
    Ok(quote! {
        #native

        const _: () = {
            #[allow(clippy::all, clippy::pedantic, clippy::restriction)]
            impl #impl_generics #kind for #of #where_clause {
                type Output = #output;
                #operate
            }
            #unequal
        };
        #refusals
    })
}

fn impl_block(krate: &Path, mut item: ItemImpl) -> Result<TokenStream> {
    let mut added = Vec::new();
    let mut refusals = TokenStream::new();
    let is_trait = item.trait_.is_some();
    if let Some((path, _)) = &item.trait_
        && let Some((operator, other)) = operator_impl_of(path)
    {
        return operator_impl(krate, &item, operator, other);
    }
    // Its value is computed on the host, as a constant.
    if let Some((path, _)) = &item.trait_
        && path
            .segments
            .last()
            .is_some_and(|last| last.ident == "Default")
    {
        return Ok(quote!(#item));
    }
    if let Some((path, _)) = &item.trait_
        && path
            .segments
            .last()
            .is_some_and(|last| last.ident == "Iterator")
    {
        return iterator_impl(krate, &item);
    }
    if let Some((path, _)) = &item.trait_
        && let Some(last) = path.segments.last()
        && let Some(of_std) = TraitOfStd::named(&last.ident)
    {
        return of_std_impl(krate, &item, of_std, last);
    }
    if let Some((path, _)) = &item.trait_
        && is_of_std(path)
    {
        return Err(Error::new(path.span(), refuse::TRAIT_OF_STD));
    }
    for member in &mut item.items {
        let ImplItem::Fn(function) = member else {
            continue;
        };
        let mut written = Written::of(krate, &function.sig, Some(&function.block), true)?;
        let call = format_ident!(
            "__call_{}",
            function.sig.ident,
            span = function.sig.ident.span()
        );
        if !is_trait {
            let visibility = &function.vis;
            written.visibility = quote!(#visibility);
        }
        added.push(written.builder(&call, false));
        // A trait has it already.
        if !is_trait && let Some(method) = written.method(&function.sig, &call) {
            added.push(method);
        }
        refusals.extend(written.refusals.map(Error::into_compile_error));
        take_components(krate, &mut function.block);
        make_inline(&mut function.attrs);
    }
    if is_trait {
        for tokens in added {
            item.items.push(ImplItem::Verbatim(tokens));
        }
        // Added items can ask for no more than the trait does, so the whole is for such types
        // alone.
        item.generics = with_value_bounds(&item.generics, krate);
        return Ok(quote!(#item #refusals));
    }
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let of = &item.self_ty;
    Ok(quote! {
        #item

        const _: () = {
            impl #impl_generics #of #where_clause {
                #(#added)*
            }
        };
        #refusals
    })
}

/// Gives a name to each parameter that is a pattern, and takes it apart in the body.
fn name_parameters(signature: &mut Signature, body: Option<&mut Block>) {
    let mut taken_apart = Vec::new();
    for (at, input) in signature.inputs.iter_mut().enumerate() {
        if let FnArg::Typed(PatType { pat, ty, .. }) = input
            && !matches!(**pat, Pat::Ident(_))
            && accelerator(ty).is_none()
        {
            let name = format_ident!("argument{at}", span = pat.span());
            let pattern = std::mem::replace(&mut **pat, parse_quote!(#name));
            taken_apart.push(parse_quote!(let #pattern = #name;));
        }
    }
    if let Some(body) = body {
        body.stmts.splice(0..0, taken_apart);
    }
}

/// True if there are references in the type of a function's result.
fn has_reference(result: &Type) -> bool {
    match result {
        Type::Reference(_) => true,
        Type::Paren(paren) => has_reference(&paren.elem),
        Type::Group(group) => has_reference(&group.elem),
        Type::Tuple(tuple) => tuple.elems.iter().any(has_reference),
        _ => false,
    }
}

/// A device function, written.
struct Written<'a> {
    krate: &'a Path,
    name: String,
    span: Span,
    /// Its own generics.
    generics: Generics,
    /// `name: Expr<type>`, the receiver as `this`.
    inputs: Vec<TokenStream>,
    /// The names of the inputs.
    names: Vec<syn::Ident>,
    result: TokenStream,
    /// The code that writes the body; none of a function of a trait without one.
    body: Option<TokenStream>,
    inline: bool,
    takes_closures: bool,
    /// True if it is one of a type, which its key has to name.
    is_associated: bool,
    refusals: Option<Error>,
    /// Of the function by itself, or in an `impl` without a trait.
    visibility: TokenStream,
}

impl<'a> Written<'a> {
    fn of(
        krate: &'a Path,
        signature: &Signature,
        block: Option<&Block>,
        is_associated: bool,
    ) -> Result<Self> {
        let mut signature = Signature {
            generics: without_lifetimes(&signature.generics),
            ..signature.clone()
        };
        let mut block = block.cloned();
        name_parameters(&mut signature, block.as_mut());
        let (signature, block) = (&signature, block.as_ref());
        check_generics(&signature.generics)?;
        let (acc, parameters) = parameters(signature)?;
        if let Some(variable) = parameters.iter().find_map(|one| one.variable.as_ref()) {
            return Err(Error::new(variable.span(), refuse::VARIABLE_OF_DEVICE));
        }
        if let Some(span) = copied_closure(signature) {
            return Err(Error::new(span, refuse::CLOSURE_BOUND));
        }
        let result = match &signature.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, result) => handle(result),
        };
        let mut writer = Writer::new(krate, result.clone());
        writer.function = (!is_associated).then(|| signature.ident.clone());
        let (mut inputs, mut names, mut bound) = (Vec::new(), Vec::new(), TokenStream::new());
        let mut texts = Vec::new();
        if let Some(receiver) = signature.receiver() {
            let this = this_name(receiver.self_token.span);
            inputs.push(quote!(#this: __Expr<Self>));
            if is_mutable_value(receiver) {
                bound.extend(
                    quote_spanned!(this.span()=> let #this = __quipu::bind_mut("this", #this);),
                );
            }
            writer.define(&this, Kind::of_variable(is_mutable_value(receiver)));
            names.push(this);
            texts.push("this".to_owned());
        }
        let (data_generics, closures) = without_closures(&signature.generics);
        let mut takes_closures = false;
        let mut ordered = Vec::new();
        let mut rest = parameters.iter();
        for input in &signature.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let is_acc = acc.as_ref().is_some_and(|acc| {
                matches!(&*typed.pat, syn::Pat::Ident(name) if name.ident == acc.name)
                    || matches!(&*typed.pat, syn::Pat::Wild(_))
            });
            if is_acc && let Some(acc) = &acc {
                let dimensions = &acc.dimensions;
                ordered.push((
                    acc.name.clone(),
                    Some(quote!(#krate::__macro::emit::Sketch<#dimensions>)),
                    TokenStream::new(),
                    false,
                ));
            } else if let Some(parameter) = rest.next() {
                let name = parameter.name.clone();
                if let Some(closure) = writer_type(&signature.generics, &parameter.user_type) {
                    ordered.push((name, None, closure, false));
                    continue;
                }
                let by_value = matches!(parameter.passing, crate::signature::Passing::Value);
                let of = Some(handle(&parameter.user_type));
                let is_mutable = parameter.is_mutable && by_value;
                ordered.push((name, of, TokenStream::new(), is_mutable));
            }
        }
        let mut passed = names.clone();
        for (name, of, closure, is_mutable) in ordered {
            let text = name.to_string();
            passed.push(name.clone());
            let Some(of) = of else {
                takes_closures = true;
                inputs.push(quote!(#name: #closure));
                writer.define(&name, Kind::Closure);
                continue;
            };
            inputs.push(quote!(#name: __Expr<#of>));
            if is_mutable {
                bound.extend(
                    quote_spanned!(name.span()=> let #name = __quipu::bind_mut(#text, #name);),
                );
            }
            let parameter = parameters.iter().find(|parameter| parameter.name == name);
            writer.define(&name, parameter.map_or(Kind::Variable, kind));
            names.push(name);
            texts.push(text);
        }
        if let (Some(block), Some(acc)) = (block, &acc) {
            writer.refuse_parted(signature, block, &acc.name);
        }
        if let Some(block) = block {
            writer.note_exchanged(block);
        }
        let body = block.map(|block| {
            let body = writer.block(block, Want::Value);
            let raws = 0..names.len();
            quote! {
                &[#((#texts, #names.raw())),*],
                |__arguments| {
                    #(let #names = __quipu::rebound(#names, __arguments[#raws]);)*
                    #bound
                    #body
                }
            }
        });
        // Functions of the target give no slices.
        let lends =
            matches!(&signature.output, ReturnType::Type(_, result) if has_reference(result));
        let inline = acc.is_some() || signature.asyncness.is_some() || takes_closures || lends;
        let mut generics = with_value_bounds(&data_generics, krate);
        generics.params.extend(closures);
        Ok(Self {
            krate,
            name: signature.ident.to_string(),
            span: signature.ident.span(),
            generics,
            inputs,
            names: passed,
            result,
            body,
            inline,
            takes_closures,
            is_associated,
            refusals: writer.refusals(),
            visibility: TokenStream::new(),
        })
    }

    /// The bounds that calls need of the type whose function it is.
    fn where_clause(&self, in_trait: bool) -> TokenStream {
        let value = value(self.krate);
        let own = self
            .generics
            .where_clause
            .as_ref()
            .map(|clause| &clause.predicates);
        let of_self = in_trait.then(|| quote!(Self: #value,));
        quote!(where #of_self #own)
    }

    /// The function that writes a call.
    fn builder(&self, name: &syn::Ident, in_trait: bool) -> TokenStream {
        let Self {
            krate,
            inputs,
            result,
            name: text,
            span,
            inline,
            takes_closures,
            visibility,
            ..
        } = self;
        let generics = &self.generics.params;
        let where_clause = self.where_clause(in_trait);
        let writer = Writer::new(krate, quote!());
        let prelude = writer.prelude();
        let allow = allowances();
        let head = quote_spanned! {*span=>
            #[doc(hidden)]
            #[track_caller]
            #allow
            #visibility fn #name<#generics>(#(#inputs),*) -> #krate::__macro::emit::Expr<#result> #where_clause
        };
        let head = substitute(head, krate);
        let Some(body) = self.body.as_ref().filter(|_| self.refusals.is_none()) else {
            return if self.refusals.is_some() {
                quote!(#head { unreachable!() })
            } else {
                quote!(#head;)
            };
        };
        let key = if self.is_associated {
            quote!(::core::any::type_name::<Self>())
        } else {
            quote!("")
        };
        let types = generics.iter().map(|parameter| match parameter {
            GenericParam::Type(parameter) => {
                let name = &parameter.ident;
                quote!(::core::any::type_name::<#name>().to_owned())
            }
            GenericParam::Const(parameter) => {
                let name = &parameter.ident;
                quote!(::std::format!("{:?}", #name))
            }
            GenericParam::Lifetime(_) => quote!(::std::string::String::new()),
        });
        // The attribute is no name: the item decides whether it is public.
        quote_spanned! {*span=>
            #head {
                #prelude
                let __callee = __quipu::Callee {
                    name: #text,
                    key: #key,
                    types: ::std::vec![#(#types),*],
                    place: (::core::file!(), ::core::line!(), ::core::column!()),
                    inline: #inline,
                    takes_closures: #takes_closures,
                };
                __quipu::call::<#result, _>(&__callee, #body)
            }
        }
    }

    /// The function that writes a method call.
    fn method(&self, signature: &Signature, call: &syn::Ident) -> Option<TokenStream> {
        let Self {
            krate,
            inputs,
            names,
            result,
            span,
            visibility,
            ..
        } = self;
        let receiver: &Receiver = signature.receiver()?;
        let name = format_ident!("__method_{}", signature.ident, span = *span);
        let generics = &self.generics.params;
        let where_clause = self.where_clause(true);
        let allow = allowances();
        let arguments = self
            .generics
            .params
            .iter()
            .filter_map(|parameter| match parameter {
                GenericParam::Type(parameter) => Some(&parameter.ident),
                GenericParam::Const(parameter) => Some(&parameter.ident),
                GenericParam::Lifetime(_) => None,
            });
        let this = &names[0];
        let rest = &names[1..];
        let receiver = if is_mutable_reference(receiver) {
            quote!(#krate::__macro::emit::reference(#this))
        } else {
            quote!(#krate::__macro::emit::value(#krate::__macro::emit::dereference(#this)))
        };
        let head = quote_spanned! {*span=>
            #[doc(hidden)]
            #[track_caller]
            #allow
            #visibility fn #name<#generics>(&self, #(#inputs),*) -> #krate::__macro::emit::Expr<#result> #where_clause
        };
        let head = substitute(head, krate);
        Some(quote_spanned! {*span=>
            #head { Self::#call::<#(#arguments),*>(#receiver #(, #rest)*) }
        })
    }
}

/// `__Expr` and `__quipu` in a signature, where nothing is imported.
fn substitute(tokens: TokenStream, krate: &Path) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            proc_macro2::TokenTree::Ident(name) if name == "__Expr" => {
                quote!(#krate::__macro::emit::Expr)
            }
            proc_macro2::TokenTree::Ident(name) if name == "__quipu" => {
                quote!(#krate::__macro::emit)
            }
            proc_macro2::TokenTree::Group(group) => {
                let mut inner =
                    proc_macro2::Group::new(group.delimiter(), substitute(group.stream(), krate));
                inner.set_span(group.span());
                proc_macro2::TokenTree::Group(inner).into()
            }
            other => other.into(),
        })
        .collect()
}

//! `#[kernel]` functions.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, FnArg, GenericParam, Generics, Ident, Item, ItemFn, Lifetime, Result, ReturnType,
    Stmt, Type, WherePredicate, parse_quote,
};

use crate::components::{asks_for_place, take_components};
use crate::function_type::writer_type;
use crate::method::{Method, is_this};
use crate::options::Options;
use crate::passed;
use crate::phases::{Phases, phases};
use crate::refuse;
use crate::registers::in_registers;
use crate::scope::{Kind, Want, Writer};
use crate::signature::{
    AcceleratorParameter, Parameter, Passing, Waits, accelerator, check_generics, handle,
    has_other_dimensions, kind, make_native, named_element, parameters, with_data_bounds,
    with_lifetimes,
};
use crate::stencil_loops::in_pieces;
use crate::written_first::{is_written_first, names};

/// The lints that are allowed in the written code: rustc and clippy have looked at the user's own.
pub(crate) fn allowances() -> TokenStream {
    quote! {
        #[allow(
            unused,
            unreachable_code,
            dead_code,
            non_snake_case,
            clippy::all,
            clippy::pedantic,
            clippy::nursery,
            clippy::restriction,
            arithmetic_overflow,
            unconditional_panic
        )]
    }
}

/// Parameters that a kernel is passed: as many as there are traits for.
const MOST_PARAMETERS: usize = 12;

struct Kernel<'a> {
    krate: &'a syn::Path,
    item: &'a ItemFn,
    /// Of a method, the `impl` and the method.
    method: Option<Method<'a>>,
    acc: AcceleratorParameter,
    parameters: Vec<Parameter>,
    /// The user's, whose types kernels compute with.
    generics: Generics,
    /// The bounds of its blocks.
    bounds: Option<TokenStream>,
    /// Parameters of calls that nothing is done with.
    ignored: Vec<Ident>,
}

/// Makes a kernel of a function, or kernels of an `impl`'s methods.
pub(crate) fn expand(options: &Options, item: Item) -> Result<TokenStream> {
    match item {
        Item::Fn(item) => {
            if let Some(receiver) = item.sig.receiver() {
                return Err(Error::new(receiver.span(), refuse::SELF));
            }
            // Its callers are right, whatever is wrong with it.
            Ok(function(options, &item, None).unwrap_or_else(|error| stub(options, &item, error)))
        }
        Item::Impl(item) => crate::method::expand(options, &item),
        other => Err(Error::new(other.span(), refuse::KERNEL_ITEM)),
    }
}

/// A kernel that does nothing in place of one whose parameters are refused: with as many
/// parameters, of any type, so that nothing else is said of its calls.
fn stub(options: &Options, item: &ItemFn, error: Error) -> TokenStream {
    let is_passed = |attribute: &syn::Attribute| {
        !["shared", "variable"]
            .iter()
            .any(|name| attribute.path().is_ident(name))
    };
    let mut dimensions = quote!(1);
    let mut ignored = Vec::new();
    for input in &item.sig.inputs {
        match input {
            FnArg::Typed(typed) => match accelerator(&typed.ty) {
                Some((of, _)) if of.to_string().parse::<usize>().is_ok() => dimensions = of,
                Some(_) => {}
                None if typed.attrs.iter().all(is_passed) => {
                    ignored.push(format_ident!("__ignored_{}", ignored.len()));
                }
                None => {}
            },
            FnArg::Receiver(_) => {}
        }
    }
    let (visibility, name) = (&item.vis, &item.sig.ident);
    let empty: ItemFn = parse_quote! {
        #visibility fn #name(_acc: &impl Accelerator<#dimensions>) {}
    };
    let error = error.into_compile_error();
    // It has nothing that could be refused.
    let written = written(options, &empty, None, ignored).unwrap_or_default();
    quote!(#error #written)
}

/// Makes a kernel of a function by itself, or of a method in the form of one.
pub(crate) fn function(
    options: &Options,
    item: &ItemFn,
    method: Option<Method<'_>>,
) -> Result<TokenStream> {
    written(options, item, method, Vec::new())
}

/// The same, with parameters that are ignored behind its own.
fn written(
    options: &Options,
    item: &ItemFn,
    method: Option<Method<'_>>,
    ignored: Vec<Ident>,
) -> Result<TokenStream> {
    let signature = &item.sig;
    if let ReturnType::Type(_, result) = &signature.output {
        return Err(Error::new(result.span(), refuse::RESULT));
    }
    check_generics(&signature.generics)?;
    let (acc, parameters) = parameters(signature)?;
    let Some(acc) = acc else {
        return Err(Error::new(
            signature.paren_token.span.span(),
            refuse::ACCELERATOR,
        ));
    };
    let is_block = signature.asyncness.is_some();
    if (acc.waits != Waits::Never) != is_block {
        let words = if is_block {
            refuse::ASYNC
        } else {
            refuse::NOT_ASYNC
        };
        return Err(Error::new(signature.fn_token.span, words));
    }
    let mut passed = parameters
        .iter()
        .filter(|it| !matches!(it.passing, Passing::Shared(_)));
    if let Some(excess) = passed.nth(MOST_PARAMETERS) {
        return Err(Error::new(excess.name.span(), refuse::MOST_PARAMETERS));
    }
    for parameter in &parameters {
        if writer_type(&signature.generics, &parameter.user_type).is_some() {
            return Err(Error::new(
                parameter.user_type.span(),
                refuse::CLOSURE_OF_KERNEL,
            ));
        }
        if let Type::Reference(reference) = &parameter.user_type
            && reference.mutability.is_some()
            && matches!(*reference.elem, Type::Slice(_))
        {
            return Err(Error::new(
                parameter.user_type.span(),
                refuse::MUTABLE_SLICE,
            ));
        }
        let name = parameter.name.to_string();
        if let Some((span, words)) = passed::refused(&name, &parameter.user_type) {
            return Err(Error::new(span, words));
        }
        if has_other_dimensions(&parameter.user_type, &acc) {
            return Err(Error::new(
                parameter.user_type.span(),
                refuse::OTHER_DIMENSIONS,
            ));
        }
        let is_shared = parameter_is_shared(parameter);
        match &parameter.passing {
            Passing::View if is_shared => {
                return Err(Error::new(
                    parameter.user_type.span(),
                    refuse::SHARED_LENGTH,
                ));
            }
            Passing::Shared(length) if !is_block => {
                return Err(Error::new(length.span(), refuse::SHARED_ASYNC));
            }
            _ => {}
        }
    }
    let krate = &options.krate;
    let generics = with_data_bounds(&signature.generics, krate);
    let bounds = options.launch_bounds(
        asks_for_place(&item.block, &acc.name),
        acc.waits == Waits::Grid,
    );
    Ok(Kernel {
        krate,
        item,
        method,
        acc,
        parameters,
        generics,
        bounds,
        ignored,
    }
    .written())
}

/// Code at which an error points to a place in the user's.
pub(crate) fn located(code: TokenStream, at: Span) -> TokenStream {
    let token = code.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(at));
        token
    });
    token.collect()
}

fn parameter_is_shared(parameter: &Parameter) -> bool {
    matches!(&parameter.user_type, syn::Type::Path(path)
        if path.path.segments.last().is_some_and(|last| ["SharedWrite", "SharedRead", "SharedRaw", "SharedAtomics"].iter().any(|name| last.ident == name)))
}

impl Kernel<'_> {
    fn written(&self) -> TokenStream {
        let Self { krate, item, .. } = self;
        let (name, visibility) = (&item.sig.ident, &item.vis);
        let mut writer = Writer::new(krate, quote!(()));
        let module = self.module(&mut writer);
        let refusals = writer.refusals().map(Error::into_compile_error);
        // With refusals the messages of the code that was written around them would be noise.
        let module = match refusals {
            Some(_) => quote!(unreachable!()),
            None => module,
        };
        // `Self` in the code that makes a method's source means the same as in the method.
        let (module, of_method) = match &self.method {
            Some(method) => (method.module_call(), method.module(krate, &module)),
            None => (module, TokenStream::new()),
        };
        let constructor = self.constructor();
        let constructor = match &self.method {
            Some(method) => method.inherent(krate, &constructor),
            None => constructor,
        };
        let entry = self.entry(&module);
        let native = self.native(refusals.is_some());
        let (generics, where_clause) = (&item.sig.generics, &item.sig.generics.where_clause);
        let marker = self.marker_type();
        let count = self.shared().count();
        let allow = allowances();
        quote! {
            #constructor

            #[doc(hidden)]
            #[allow(non_camel_case_types, dead_code, missing_debug_implementations)]
            #visibility struct #name #generics #where_clause {
                lengths: [::core::primitive::usize; #count],
                of: ::core::marker::PhantomData<fn() -> #marker>,
            }

            #allow
            const _: () = {
                #of_method
                #entry
            };

            #native
            #refusals
        }
    }

    /// A type that has all type parameters.
    fn marker_type(&self) -> TokenStream {
        let types = self
            .item
            .sig
            .generics
            .type_params()
            .map(|parameter| &parameter.ident);
        quote!((#(#types,)*))
    }

    /// The partitions by which threads are handed parameters, as a tuple; shared arrays left out.
    fn partitions(&self) -> TokenStream {
        let (krate, dimensions) = (self.krate, &self.acc.dimensions);
        let partitions = self.passed().map(|parameter| {
            let of = with_lifetimes(&parameter.user_type);
            match parameter.passing {
                Passing::Value => quote_spanned!(of.span()=> #krate::__macro::ByValue<#of>),
                _ => {
                    quote_spanned!(of.span()=> <#of as #krate::__macro::Parameter<#dimensions>>::Partition)
                }
            }
        });
        quote!((#(#partitions,)*))
    }

    /// The parameters that a call is given, and variables.
    fn passed(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters
            .iter()
            .filter(|parameter| !matches!(parameter.passing, Passing::Shared(_)))
    }

    fn shared(&self) -> impl Iterator<Item = (&Parameter, &syn::Expr)> {
        self.parameters
            .iter()
            .filter_map(|parameter| match &parameter.passing {
                Passing::Shared(length) => Some((parameter, &**length)),
                _ => None,
            })
    }

    /// The function that users call: it gives the kernel with its arguments.
    fn constructor(&self) -> TokenStream {
        let Self {
            krate, item, acc, ..
        } = self;
        let (name, visibility, attributes) = (&item.sig.ident, &item.vis, &item.attrs);
        let dimensions = &acc.dimensions;
        let (_, type_generics, where_clause) = self.generics.split_for_impl();
        let lifetime = Lifetime::new("'__quipu", Span::mixed_site());
        let own_generics = self
            .method
            .as_ref()
            .map(|method| method.own_generics(krate));
        let where_clause = match &own_generics {
            Some(generics) => generics.where_clause.as_ref(),
            None => where_clause,
        };
        let mut generics = own_generics
            .clone()
            .unwrap_or_else(|| self.generics.clone());
        generics.params.insert(
            0,
            GenericParam::Lifetime(syn::LifetimeParam::new(lifetime.clone())),
        );
        // A caller of a kernel without generics of its own names none, so the arguments' types can
        // be some: rustc then looks once, where the call is used, whether they can be passed. A
        // caller may give a generic kernel its generics.
        let is_plain = generics.params.len() == 1 && self.ignored.is_empty();
        let is_plain = is_plain && self.passed().all(|parameter| parameter.variable.is_none());
        let types: Vec<_> = self
            .passed()
            .enumerate()
            .map(|(at, parameter)| match parameter.passing {
                Passing::Value => with_lifetimes(&parameter.user_type).into_token_stream(),
                _ => format_ident!("__Argument{at}").into_token_stream(),
            })
            .collect();
        let inputs = self.passed().zip(&types);
        let inputs = inputs.filter(|(parameter, _)| parameter.variable.is_none());
        let inputs = inputs.map(|(parameter, argument)| {
            let name = &parameter.name;
            let of = with_lifetimes(&parameter.user_type);
            match parameter.passing {
                Passing::Value if is_this(name) => quote!(self),
                Passing::Value => quote!(#name: #of),
                _ if is_plain => quote!(#name: #argument),
                _ => quote_spanned!(of.span()=>
                    #name: impl #krate::__macro::Pass<#lifetime, <#of as #krate::__macro::Parameter<#dimensions>>::Partition, #dimensions>
                ),
            }
        });
        let partitions = self.partitions();
        let (generics, arguments) = if is_plain {
            let memory = self.passed().zip(&types);
            let memory =
                memory.filter(|(parameter, _)| !matches!(parameter.passing, Passing::Value));
            let memory = memory.map(|(_, argument)| argument);
            (quote!(#(#memory),*), quote!((#(#types,)*)))
        } else {
            let generics = &generics.params;
            let arguments =
                quote!(impl #krate::__macro::PassAll<#lifetime, #partitions, #dimensions>);
            (quote!(#generics), arguments)
        };
        let ignored = self.ignored.iter();
        let inputs = inputs.chain(ignored.map(|name| quote!(#name: impl ::core::marker::Sized)));
        let names = self.passed().map(|parameter| match &parameter.name {
            _ if let Some(variable) = &parameter.variable => {
                quote_spanned!(variable.span()=> &#variable)
            }
            name if is_this(name) => quote!(self),
            name => quote!(#name),
        });
        let called = match &self.method {
            Some(method) => &method.function.sig.ident,
            None => name,
        };
        // If the type of elements or of a value is none of kernels, the error points at it.
        let mut types = self.parameters.iter().map(|parameter| &parameter.user_type);
        let at = types
            .find_map(named_element)
            .map_or(name.span(), Spanned::span);
        let made = located(quote!(#krate::__macro::Call::new), at);
        quote_spanned! {name.span()=>
            #(#attributes)*
            #[allow(clippy::too_many_arguments, clippy::type_complexity, clippy::multiple_bound_locations)]
            #[inline]
            #visibility fn #called<#generics>(#(#inputs),*) -> #krate::__macro::Call<
                #name #type_generics,
                #arguments,
                #dimensions,
            > #where_clause {
                #made((#(#names,)*))
            }
        }
    }

    /// The user's function, as it is, and the kernel that runs it. rustc's messages on a refused
    /// body would be noise, too.
    fn native(&self, is_refused: bool) -> TokenStream {
        let Self {
            krate, item, acc, ..
        } = self;
        let name = &item.sig.ident;
        let dimensions = &acc.dimensions;
        let mut signature = match &self.method {
            Some(method) => method.function.sig.clone(),
            None => item.sig.clone(),
        };
        make_native(&mut signature);
        // Not the kernel's, which may be that of a parameter, too.
        let native_name = format_ident!("__native_{}", signature.ident);
        signature.ident = native_name.clone();
        for parameter in &mut signature.generics.params {
            if let GenericParam::Type(parameter) = parameter {
                parameter
                    .bounds
                    .push(syn::parse_quote!(#krate::__macro::emit::KernelData));
            }
        }
        let mut apart = (*item).clone();
        take_components(krate, &mut apart.block);
        let block = if is_refused {
            parse_quote!({ ::core::unreachable!() })
        } else if item.sig.asyncness.is_some() {
            in_registers(&apart)
        } else {
            in_pieces(krate, &apart, &self.parameters)
        };
        let mut block: Block = block;
        // The length of a shared array uses it as well.
        let used = self.shared().flat_map(|(_, length)| {
            let parameters = self.parameters.iter().map(|parameter| &parameter.name);
            parameters.filter(|name| !is_this(name) && names(length, name))
        });
        let used = used.map(|name| -> Stmt { parse_quote!(let _ = &#name;) });
        block.stmts.splice(0..0, used);
        let unused = is_refused.then(|| quote!(#[allow(unused)]));
        let allowed = item.attrs.iter().filter(|attribute| {
            ["allow", "expect", "warn"]
                .iter()
                .any(|name| attribute.path().is_ident(name))
        });
        let generics = self.with_elements();
        let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
        let turbofish = type_generics.as_turbofish();
        let partitions = self.partitions();
        let handed: Vec<_> = self.passed().map(|parameter| &parameter.name).collect();
        let arguments = self
            .parameters
            .iter()
            .map(|parameter| &parameter.name)
            .filter(|name| !is_this(name));
        let arguments = quote!(acc #(, #arguments)*);
        let call = match &self.method {
            Some(method) => method.native_call(&native_name, &arguments),
            None => quote!(#native_name #turbofish (#arguments)),
        };
        // `acc` may be a name of the user's own.
        let function = if item.sig.asyncness.is_some() {
            let (arrays, names): (Vec<_>, Vec<_>) = self
                .shared()
                .map(|(parameter, _)| {
                    let of = with_lifetimes(&parameter.user_type);
                    (
                        quote!(<#of as #krate::__macro::emit::SharedParameter>::Array),
                        &parameter.name,
                    )
                })
                .unzip();
            let numbers = 0..arrays.len();
            let types = self
                .shared()
                .map(|(parameter, _)| with_lifetimes(&parameter.user_type));
            let (shared_type, shared_pattern, shared_value) = if arrays.is_empty() {
                (quote!(()), quote!(()), quote!())
            } else {
                (
                    quote!((#(#arrays,)*)),
                    quote!((#(#names,)*)),
                    quote!((#(<#types as #krate::__macro::emit::SharedParameter>::array(self.lengths[#numbers]),)*)),
                )
            };
            let waits_for_grid = (acc.waits == Waits::Grid).then(|| {
                quote!(
                    const WAITS_FOR_GRID: ::core::primitive::bool = true;
                )
            });
            let in_phases = match self.method {
                // Its body says `self`.
                Some(_) => None,
                None if is_refused || acc.waits == Waits::Grid => None,
                None => phases(krate, &apart, acc, &self.parameters),
            };
            let in_phases = in_phases.map(|Phases { blocks, body, witnesses }| {
                quote! {
                    #krate::__macro::optimised! {
                        const IN_PHASES: ::core::primitive::bool = #witnesses;

                        #[inline(always)]
                        #[allow(unused)]
                        fn run_phases<__Level: #krate::__macro::Level>(
                            &self,
                            #blocks: &#krate::__macro::Phases<'_, '_, Self, __Level, #dimensions>,
                        ) -> ::core::result::Result<(), #krate::__macro::KernelError> {
                            #body
                        }
                    }
                }
            });
            quote! {
                impl #impl_generics #krate::__macro::BlockKernel<#dimensions> for #name #type_generics #where_clause {
                    type Output = #partitions;
                    type Shared = #shared_type;

                    const IS_WRITTEN: ::core::primitive::bool = true;

                    #waits_for_grid

                    fn shared(&self, _: &#krate::__macro::WorkDivision<#dimensions>) -> Self::Shared {
                        #shared_value
                    }

                    #[inline(always)]
                    fn run<'t, __Acc: #krate::__macro::GridAccelerator<#dimensions>>(
                        &self,
                        acc: &'t __Acc,
                        (#(#handed,)*): #krate::__macro::Own<'t, Self::Output, #dimensions>,
                        #shared_pattern: <Self::Shared as #krate::__macro::Shared>::Write<'t>,
                    ) -> impl ::core::future::Future<Output = ()> {
                        #call
                    }

                    #in_phases
                }
            }
        } else {
            quote! {
                impl #impl_generics #krate::__macro::Kernel<#dimensions> for #name #type_generics #where_clause {
                    type Output = #partitions;

                    #[inline(always)]
                    fn run<'t, __Acc: #krate::__macro::Accelerator<#dimensions>>(
                        &self,
                        acc: &'t __Acc,
                        (#(#handed,)*): #krate::__macro::Own<'t, Self::Output, #dimensions>,
                    ) {
                        #call
                    }
                }
            }
        };
        let native = quote! {
            #(#allowed)*
            #unused
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::type_complexity, clippy::needless_pass_by_value, clippy::multiple_bound_locations, non_snake_case)]
            #signature #block
        };
        let native = match &self.method {
            Some(method) => method.inherent(krate, &native),
            None => native,
        };
        quote! {
            const _: () = {
                #native

                #[allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
                #function
            };
        }
    }

    /// The `impl` by which a launch finds the kernel.
    /// The generics, with bounds for the types of elements and values. The code that makes the
    /// source then takes them to be data, and only the function itself is told that they are not.
    /// (The lifetime stands for nothing; without it, a bound that does not hold is an error.)
    fn with_elements(&self) -> Generics {
        let mut generics = self.generics.clone();
        if generics.type_params().next().is_some() || self.method.is_some() {
            return generics;
        }
        let krate = self.krate;
        let elements = self.parameters.iter();
        let elements = elements.filter_map(|parameter| named_element(&parameter.user_type));
        let elements: Vec<WherePredicate> = elements
            .map(|of| {
                let data = located(quote!(#krate::__macro::emit::KernelData), of.span());
                parse_quote!(for<'__element> #of: #data)
            })
            .collect();
        if !elements.is_empty() {
            generics.make_where_clause().predicates.extend(elements);
        }
        generics
    }

    fn entry(&self, module: &TokenStream) -> TokenStream {
        let Self {
            krate, item, acc, ..
        } = self;
        let name = &item.sig.ident;
        let text = name.to_string();
        let dimensions = &acc.dimensions;
        let generics = self.with_elements();
        let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
        let partitions = self.partitions();
        let erase = if item.sig.asyncness.is_some() {
            format_ident!("erase_block")
        } else {
            format_ident!("erase")
        };
        let lengths = self.lengths();
        let shared_lengths = self.shared_lengths();
        let shared = self.shared().count();
        let bounds = self.bounds.as_ref().map(
            |bounds| quote!(const BOUNDS: #krate::__macro::LaunchBounds<#dimensions> = #bounds;),
        );
        let module = match &self.bounds {
            Some(_) => {
                let entry = quote!(<Self as #krate::__macro::Entry<#dimensions>>);
                let ir = quote!(#krate::__macro::emit::ir::Module);
                quote! {
                    let __module: ::core::result::Result<#ir, _> = { #module };
                    __module.map(|__module| #entry::BOUNDS.noted(__module))
                }
            }
            None => module.clone(),
        };
        quote! {
            // SAFETY: `prepare` runs the kernel's `impl` above, over the views of its partitions:
            // the user's function, which rustc checks, and phases written of it, whose own `unsafe`
            // says why it is right. `module` is made of the same function.
            unsafe impl #impl_generics #krate::__macro::Entry<#dimensions> for #name #type_generics #where_clause {
                type Parameters = #partitions;

                const NAME: &'static ::core::primitive::str = #text;

                const SHARED: ::core::primitive::usize = #shared;

                #bounds

                #[allow(unused_variables, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
                fn shared_lengths(
                    __parameters: &[&dyn ::core::any::Any],
                    __division: #krate::__macro::WorkDivision<#dimensions>,
                ) -> ::core::option::Option<::std::vec::Vec<::core::primitive::usize>> {
                    #shared_lengths
                }

                #[inline]
                fn prepare<'a>(
                    __views: #krate::__macro::View<'a, Self::Parameters, #dimensions>,
                    __division: #krate::__macro::WorkDivision<#dimensions>,
                ) -> ::core::result::Result<impl #krate::__macro::GroupKernel, #krate::__macro::KernelError> {
                    let __lengths = #lengths;
                    let __kernel = Self { lengths: __lengths, of: ::core::marker::PhantomData };
                    #krate::__macro::#erase(__kernel, __views, __division)
                }

                fn module() -> ::core::result::Result<
                    #krate::__macro::emit::ir::Module,
                    #krate::__macro::emit::BuildError,
                > {
                    #module
                }
            }
        }
    }

    /// True if these do not depend on the launch.
    fn has_constant_lengths(&self) -> bool {
        let mut writer = Writer::new(self.krate, quote!(()));
        writer.define(&self.acc.name, Kind::Variable);
        for parameter in &self.parameters {
            writer.define(&parameter.name, Kind::Variable);
        }
        self.shared().all(|(_, length)| writer.is_constant(length))
    }

    /// The lengths of the shared arrays of a launch.
    fn lengths(&self) -> TokenStream {
        let lengths: Vec<_> = self.shared().map(|(_, length)| length).collect();
        if lengths.is_empty() {
            return quote!([]);
        }
        if self.has_constant_lengths() {
            return quote!([#(#lengths),*]);
        }
        let krate = self.krate;
        let acc = &self.acc.name;
        let bound = self.passed().enumerate().map(|(at, parameter)| {
            let (name, at) = (&parameter.name, syn::Index::from(at));
            match parameter.passing {
                Passing::Value => quote!(let #name = __views.#at;),
                _ => quote!(let #name = &__views.#at;),
            }
        });
        quote!({
            use #krate::__macro::Accelerator as _;
            let #acc = &#krate::__macro::LaunchShape(__division);
            #(#bound)*
            [#(#lengths),*]
        })
    }

    /// The same, where the content of memory is not known.
    fn shared_lengths(&self) -> TokenStream {
        let lengths: Vec<_> = self.shared().map(|(_, length)| length).collect();
        if lengths.is_empty() {
            return quote!(::core::option::Option::Some(::std::vec::Vec::new()));
        }
        if self.has_constant_lengths() {
            return quote!(::core::option::Option::Some(::std::vec::Vec::from([#(#lengths),*])));
        }
        let krate = self.krate;
        let acc = &self.acc.name;
        let bound = self.passed().enumerate().map(|(at, parameter)| {
            let name = &parameter.name;
            let given = quote!(__parameters.get(#at)?.downcast_ref);
            match parameter.passing {
                Passing::Value => {
                    let of = with_lifetimes(&parameter.user_type);
                    quote!(let #name = *#given::<#of>()?;)
                }
                _ => quote!(let #name = #given::<#krate::__macro::Shape>()?;),
            }
        });
        quote!({
            use #krate::__macro::Accelerator as _;
            let #acc = &#krate::__macro::LaunchShape(__division);
            #(#bound)*
            ::core::option::Option::Some(::std::vec![#(#lengths),*])
        })
    }

    /// The body of the function that makes the source.
    fn module(&self, writer: &mut Writer) -> TokenStream {
        let Self { item, acc, .. } = self;
        let text = item.sig.ident.to_string();
        let prelude = writer.prelude();
        let dimensions = &acc.dimensions;
        let acc_name = &acc.name;
        writer.define(acc_name, Kind::Variable);
        writer.refuse_parted(&item.sig, &item.block, acc_name);
        writer.note_exchanged(&item.block);
        let mut declared = quote! {
            let #acc_name = __quipu::Expr::<__quipu::Sketch<#dimensions>>::from_raw(__quipu::Raw::Nothing);
        };
        for parameter in &self.parameters {
            let name = &parameter.name;
            let text = match name {
                name if is_this(name) => "this".to_owned(),
                name => name.to_string(),
            };
            let of = with_lifetimes(&parameter.user_type);
            let handle = handle(&parameter.user_type);
            let value = match &parameter.passing {
                Passing::Value => quote_spanned!(name.span()=> __quipu::uniform::<#of>(#text)),
                Passing::View => {
                    quote_spanned!(name.span()=> <#of as __quipu::Declared>::declare(#text))
                }
                Passing::Shared(length) => {
                    let is_uninitialised = parameter.is_uninitialised
                        || is_written_first(&item.block, &parameter.name, length, acc);
                    let length = if writer.is_constant(length) {
                        quote!(__quipu::ir::SharedLength::Fixed((#length) as ::core::primitive::u64))
                    } else {
                        quote!(__quipu::ir::SharedLength::Launch)
                    };
                    let shared = match is_uninitialised {
                        true => quote!(shared_uninitialised),
                        false => quote!(shared),
                    };
                    quote_spanned!(name.span()=> __quipu::#shared::<#of>(#text, #length))
                }
            };
            let value = if parameter.is_mutable && matches!(parameter.passing, Passing::Value) {
                quote_spanned!(name.span()=> __quipu::bind_mut(#text, #value))
            } else if parameter.is_mutable
                && matches!(parameter.passing, Passing::Shared(_))
                && writer.is_exchanged(name)
            {
                quote_spanned!(name.span()=> __quipu::bind_exchanged(#text, #value))
            } else {
                value
            };
            declared
                .extend(quote_spanned!(name.span()=> let #name: __quipu::Expr<#handle> = #value;));
            writer.define(name, kind(parameter));
        }
        let body = writer.block(&item.block, Want::Nothing);
        quote! {
            #prelude
            __quipu::build(#text, #dimensions, &mut || {
                #declared
                let _: __quipu::Expr<()> = #body;
            })
        }
    }
}

//! `#[derive(KernelData)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DataEnum, DataStruct, DeriveInput, Error, GenericParam, Generics, Path,
    Result, Type, Variant, WherePredicate, parse_quote,
};

use crate::pattern::member_text;
use crate::signature::{with_data_bounds, with_value_bounds};

/// Makes a struct or enum a type of the kernel language.
pub(crate) fn expand(item: &DeriveInput) -> Result<TokenStream> {
    let krate = krate(&item.attrs)?;
    let written = match &item.data {
        Data::Struct(data) if let Some(at) = reference_in(item, data) => {
            Err(Error::new(at, crate::refuse::REFERENCE_IN_STRUCT))
        }
        Data::Struct(data) => structure(item, data, &krate),
        Data::Enum(data) => enumeration(item, data, &krate),
        Data::Union(data) => Err(Error::new(
            data.union_token.span,
            "unions are not in the kernel language; use `to_bits` and `from_bits`, or two fields",
        )),
    };
    // The kernels with such a parameter are right, whatever is wrong with the type.
    Ok(written.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        let stub = without_bits(item, &krate, &quote!(::core::unreachable!()));
        quote!(#stub #error)
    }))
}

/// The place of a struct's first field that is a reference, or of its lifetime.
fn reference_in(item: &DeriveInput, data: &DataStruct) -> Option<Span> {
    let of_types = data.fields.iter().map(|field| &field.ty);
    let mut references = of_types.filter(|of| matches!(of, Type::Reference(_)));
    let reference = references.next().map(Spanned::span);
    reference.or_else(|| Some(item.generics.lifetimes().next()?.span()))
}

/// A type's parameters but lifetimes, and the type where these are `'static`.
fn without_lifetimes(item: &DeriveInput) -> (Generics, TokenStream) {
    let name = &item.ident;
    let mut generics = item.generics.clone();
    let of_others = generics.params.into_iter();
    generics.params = of_others
        .filter(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
        .collect();
    let arguments = item
        .generics
        .params
        .iter()
        .map(|parameter| match parameter {
            GenericParam::Lifetime(_) => quote!('static),
            GenericParam::Type(of) => of.ident.to_token_stream(),
            GenericParam::Const(of) => of.ident.to_token_stream(),
        });
    let of = quote!(#name<#(#arguments),*>);
    (generics, of)
}

/// `#[kernel_data(crate = path)]`.
fn krate(attributes: &[Attribute]) -> Result<Path> {
    let mut krate = parse_quote!(::quipu);
    for attribute in attributes {
        if attribute.path().is_ident("kernel_data") {
            let options: crate::options::Options = attribute.parse_args()?;
            krate = options.without_bounds()?.krate;
        }
    }
    Ok(krate)
}

/// As the intermediate representation has it: devices read no more at once.
const MOST_ALIGNMENT: u64 = 16;

/// The names in `#[repr(…)]`.
struct Representation {
    names: Vec<Ident>,
    /// The least alignment in bytes.
    alignment: u64,
}

fn representation(attributes: &[Attribute]) -> Result<Representation> {
    let mut found = Representation {
        names: Vec::new(),
        alignment: 1,
    };
    for attribute in attributes {
        if attribute.path().is_ident("repr") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("packed") {
                    return Err(Error::new(
                        meta.path.span(),
                        "devices have no packed structs; order the fields so that there is nothing between them",
                    ));
                }
                found.names.extend(meta.path.get_ident().cloned());
                if meta.input.peek(syn::token::Paren) {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    let literal = content.parse::<syn::LitInt>()?;
                    let bytes = literal.base10_parse()?;
                    if bytes > MOST_ALIGNMENT {
                        return Err(Error::new(
                            literal.span(),
                            "devices align to 16 bytes at most; write `align(16)`",
                        ));
                    }
                    found.alignment = found.alignment.max(bytes);
                }
                Ok(())
            })?;
        }
    }
    Ok(found)
}

fn structure(item: &DeriveInput, data: &DataStruct, krate: &Path) -> Result<TokenStream> {
    let name = &item.ident;
    let known = representation(&item.attrs)?;
    if data.fields.is_empty() {
        return Ok(without_bits(item, krate, &quote!(Self {})));
    }
    if !known
        .names
        .iter()
        .any(|repr| repr == "C" || repr == "transparent")
    {
        return Err(Error::new(
            name.span(),
            "devices lay out structs as C does: write `#[repr(C)]` above this one",
        ));
    }
    let build = quote!(#krate::__macro::emit);
    let core = quote!(#krate::__macro::core);
    let types: Vec<_> = data.fields.iter().map(|field| &field.ty).collect();
    // A struct of nothing else has no bits, as one without fields.
    let is_unit = |of: &&&Type| matches!(of, Type::Tuple(tuple) if tuple.elems.is_empty());
    if let Some(unit) = types.iter().find(is_unit)
        && !types.iter().all(|of| is_unit(&of))
    {
        return Err(Error::new(
            unit.span(),
            "devices have no type for `()`, which holds nothing: leave the field out",
        ));
    }
    let mut data_generics = with_data_bounds(&item.generics, krate);
    let bounds = &mut data_generics.make_where_clause().predicates;
    bounds.extend(types.iter().map(|of| -> WherePredicate {
        // Not for all: a type with other fields is a value within kernels only. (The lifetime
        // stands for nothing; without it, a bound that does not hold is an error here, and not
        // where it is asked for.)
        parse_quote!(for<'__field> #of: #krate::__macro::emit::KernelData)
    }));
    let (data_impl_generics, _, data_where_clause) = data_generics.split_for_impl();
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let text = name.to_string();
    let alignment = known.alignment;
    let members: Vec<_> = data.fields.members().collect();
    let names = members.iter().map(crate::pattern::member_text);
    Ok(quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::restriction, private_bounds)]
        const _: () = {
            // SAFETY: `#[repr(C)]` or `transparent` lays the fields out; all of these are values of
            // their types, and so is what is made of the words of each. `sample_value` below names
            // them all.
            unsafe impl #data_impl_generics #build::KernelData for #name #type_generics #data_where_clause {
                const ANY_BITS: #core::primitive::bool = true #(&& <#types as #build::KernelData>::ANY_BITS)*;
                const HAS_ZERO: #core::primitive::bool = true #(&& <#types as #build::KernelData>::HAS_ZERO)*;

                fn is_value(bytes: &[#core::primitive::u8]) -> #core::primitive::bool {
                    true #(&& #build::has_value_at::<#types>(bytes, #core::mem::offset_of!(Self, #members)))*
                }

                const WORDS: #core::primitive::usize = 0 #(+ <#types as #build::KernelData>::WORDS)*;

                #[inline]
                #[allow(unused)]
                fn word(&self, mut at: #core::primitive::usize) -> #core::primitive::u64 {
                    #(
                        if at < <#types as #build::KernelData>::WORDS {
                            return #build::KernelData::word(&self.#members, at);
                        }
                        at -= <#types as #build::KernelData>::WORDS;
                    )*
                    0
                }

                #[inline]
                #[allow(unused)]
                fn set_word(&mut self, mut at: #core::primitive::usize, word: #core::primitive::u64) {
                    #(
                        if at < <#types as #build::KernelData>::WORDS {
                            return #build::KernelData::set_word(&mut self.#members, at, word);
                        }
                        at -= <#types as #build::KernelData>::WORDS;
                    )*
                }
            }

            impl #impl_generics #build::Derived for #name #type_generics #where_clause {}

            // SAFETY: the fields lie as the derive has checked.

            unsafe impl #impl_generics #build::KernelValue for #name #type_generics #where_clause {
                const FIELDS: &'static [&'static #core::primitive::str] = &[#(#names),*];

                const IS_DERIVED: #core::primitive::bool = true;

                #[track_caller]
                fn __order_of(
                    this: #build::Expr<Self>,
                    other: #build::Expr<Self>,
                ) -> #core::option::Option<#build::Expr<#core::option::Option<#core::cmp::Ordering>>> {
                    use #build::{WithOrder as _, WithoutOrder as _};
                    (&#build::OrderOf::<Self>::new()).__order(this, other)
                }

                fn ir_type(state: &mut #build::State) -> #build::ir::Type {
                    #build::derived_type::<Self>(
                        state,
                        #text,
                        &[#(<#types as #build::KernelValue>::ir_type),*],
                        #alignment,
                    )
                }

                fn sample_value() -> Self {
                    Self { #(#members: <#types as #build::KernelValue>::sample_value()),* }
                }

                fn literal(self, state: &mut #build::State) -> #build::Raw {
                    let parts = ::std::vec![#(#build::KernelValue::literal(self.#members, state)),*];
                    #build::derived_literal::<Self>(state, parts)
                }
            }
        };
    })
}

/// A struct without fields, which has no bits: it is there for its type.
fn without_bits(item: &DeriveInput, krate: &Path, sample: &TokenStream) -> TokenStream {
    let build = quote!(#krate::__macro::emit);
    let core = quote!(#krate::__macro::core);
    let (generics, name) = without_lifetimes(item);
    let generics = with_value_bounds(&generics, krate);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let type_generics = TokenStream::new();
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::restriction)]
        const _: () = {
            // SAFETY: the one value has no bytes.
            unsafe impl #impl_generics #build::KernelData for #name #type_generics #where_clause {
                const ANY_BITS: #core::primitive::bool = true;
                const WORDS: #core::primitive::usize = 0;

                fn is_value(_: &[#core::primitive::u8]) -> #core::primitive::bool {
                    true
                }

                fn word(&self, _: #core::primitive::usize) -> #core::primitive::u64 {
                    0
                }

                fn set_word(&mut self, _: #core::primitive::usize, _: #core::primitive::u64) {}
            }

            impl #impl_generics #build::Derived for #name #type_generics #where_clause {}

            // SAFETY: the fields lie as the derive has checked.

            unsafe impl #impl_generics #build::KernelValue for #name #type_generics #where_clause {
                const IS_DERIVED: #core::primitive::bool = true;

                fn ir_type(_: &mut #build::State) -> #build::ir::Type {
                    #build::ir::Type::Unit
                }

                fn sample_value() -> Self {
                    #sample
                }

                fn literal(self, _: &mut #build::State) -> #build::Raw {
                    #build::Raw::Nothing
                }
            }
        };
    }
}

/// An enum whose variants have fields: kernels compute with its values, and have none in memory.
fn variants(item: &DeriveInput, data: &DataEnum, krate: &Path) -> TokenStream {
    let name = &item.ident;
    let emit = quote!(#krate::__macro::emit);
    let core = quote!(#krate::__macro::core);
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let (mut fields, mut types) = (Vec::new(), Vec::new());
    let (mut names, mut literals) = (Vec::new(), Vec::new());
    for (
        number,
        Variant {
            ident,
            fields: of_variant,
            ..
        },
    ) in data.variants.iter().enumerate()
    {
        names.push(ident.to_string());
        let members: Vec<_> = of_variant.members().collect();
        let values: Vec<_> = (0..members.len())
            .map(|at| format_ident!("field{at}"))
            .collect();
        let places = types.len()..types.len() + members.len();
        fields.extend(
            members
                .iter()
                .map(|member| format!("{ident}.{}", member_text(member))),
        );
        types.extend(of_variant.iter().map(|field| &field.ty));
        literals.push(quote! {
            Self::#ident { #(#members: #values),* } => {
                #(fields[#places] = #emit::KernelValue::literal(#values, state);)*
                #number
            }
        });
    }
    let Some(Variant {
        ident: first,
        fields: of_first,
        ..
    }) = data.variants.first()
    else {
        return TokenStream::new();
    };
    let samples = of_first.members().zip(of_first).map(|(member, field)| {
        let of = &field.ty;
        quote!(#member: <#of as #emit::KernelValue>::sample_value())
    });
    let text = name.to_string();
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::restriction, private_bounds)]
        const _: () = {
            impl #impl_generics #emit::Derived for #name #type_generics #where_clause {}

            // SAFETY: the fields lie as the derive has checked.

            unsafe impl #impl_generics #emit::KernelValue for #name #type_generics #where_clause {
                const FIELDS: &'static [&'static #core::primitive::str] = &["variant", #(#fields),*];
                const VARIANTS: &'static [&'static #core::primitive::str] = &[#(#names),*];
                const IS_DERIVED: #core::primitive::bool = true;

                fn ir_type(state: &mut #emit::State) -> #emit::ir::Type {
                    #emit::variants_type::<Self>(
                        state,
                        #text,
                        &[#(<#types as #emit::KernelValue>::ir_type),*],
                    )
                }

                fn sample_value() -> Self {
                    Self::#first { #(#samples),* }
                }

                fn literal(self, state: &mut #emit::State) -> #emit::Raw {
                    // A field that is not used has any value.
                    let mut fields = ::std::vec![
                        #(#emit::KernelValue::literal(<#types as #emit::KernelValue>::sample_value(), state)),*
                    ];
                    let number = match self { #(#literals)* };
                    #emit::variant_literal::<Self>(state, number, fields)
                }
            }
        };
    }
}

fn enumeration(item: &DeriveInput, data: &DataEnum, krate: &Path) -> Result<TokenStream> {
    let name = &item.ident;
    if data
        .variants
        .iter()
        .any(|variant| !variant.fields.is_empty())
    {
        return Ok(variants(item, data, krate));
    }
    let Some(first) = data.variants.first() else {
        return Err(Error::new(
            name.span(),
            "an enum in kernels has at least one variant",
        ));
    };
    let scalars = [
        ("u8", "U8"),
        ("u16", "U16"),
        ("u32", "U32"),
        ("u64", "U64"),
        ("i8", "I8"),
        ("i16", "I16"),
        ("i32", "I32"),
        ("i64", "I64"),
    ];
    let known = representation(&item.attrs)?.names;
    let Some((number, scalar)) = scalars
        .iter()
        .find(|(number, _)| known.iter().any(|repr| repr == number))
    else {
        return Err(Error::new(
            name.span(),
            "devices need to know how wide an enum is: write `#[repr(u32)]`, or another integer, above this one",
        ));
    };
    let (number, scalar) = (format_ident!("{number}"), format_ident!("{scalar}"));
    // What `repr` means by it. Where the enum is, the name alone may be of another type.
    let core = quote!(#krate::__macro::core);
    let number = quote!(#core::primitive::#number);
    let first = &first.ident;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let build = quote!(#krate::__macro::emit);
    Ok(quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::restriction)]
        const _: () = {
            // SAFETY: `#[repr(#number)]` makes it a number so wide, and `is_value` and `HAS_ZERO`
            // say which numbers are of variants, by the primitive type of that name.
            unsafe impl #build::KernelData for #name {
                const ANY_BITS: #core::primitive::bool = false;
                const HAS_ZERO: #core::primitive::bool = false #(|| Self::#variants as #number == 0)*;

                fn is_value(bytes: &[#core::primitive::u8]) -> #core::primitive::bool {
                    let #core::result::Result::Ok(bytes) = #core::convert::TryFrom::try_from(bytes) else {
                        return false;
                    };
                    let number = <#number>::from_ne_bytes(bytes);
                    false #(|| number == Self::#variants as #number)*
                }

                const WORDS: #core::primitive::usize = 1;

                #[inline]
                fn word(&self, _: #core::primitive::usize) -> #core::primitive::u64 {
                    *self as #number as #core::primitive::u64
                }

                #[inline]
                fn set_word(&mut self, _: #core::primitive::usize, word: #core::primitive::u64) {
                    #(
                        if word as #number == Self::#variants as #number {
                            *self = Self::#variants;
                        }
                    )*
                }
            }

            impl #build::Derived for #name {}

            // SAFETY: the fields lie as the derive has checked.

            unsafe impl #build::KernelValue for #name {
                const IS_DERIVED: #core::primitive::bool = true;

                fn is_equal_by_number() -> #core::primitive::bool {
                    use #build::{Equated as _, Incomparable as _};
                    (&#build::Variants(&[#((Self::#variants, Self::#variants as #number as #core::primitive::i128)),*])).are_equal_by_number()
                }

                fn is_ordered_by_number() -> #core::primitive::bool {
                    use #build::{Incomparable as _, Ordered as _};
                    (&#build::Variants(&[#((Self::#variants, Self::#variants as #number as #core::primitive::i128)),*])).are_ordered_by_number()
                }

                fn ir_type(_: &mut #build::State) -> #build::ir::Type {
                    #build::ir::Scalar::#scalar.into()
                }

                fn sample_value() -> Self {
                    Self::#first
                }

                fn literal(self, state: &mut #build::State) -> #build::Raw {
                    #build::enum_literal(state, #build::ir::Scalar::#scalar, self as #number as #core::primitive::i64 as #core::primitive::u64)
                }
            }
        };
    })
}

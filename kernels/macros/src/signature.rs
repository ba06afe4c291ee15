//! Parameters, their types, and generics.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, GenericParam, Generics, Ident, Lifetime, Pat,
    PatType, Path, PathArguments, Receiver, ReceiverKind, Result, Signature, Token, Type,
    TypeParamBound, TypePath, WherePredicate, parse_quote,
};

use crate::function_type::writer_type;
use crate::refuse;
use crate::scope::Kind;

/// The way in which a parameter of a kernel is passed.
pub(crate) enum Passing {
    /// By value.
    Value,
    /// As a view or slice.
    View,
    /// Not at all: it is a block-shared array of a length.
    Shared(Box<Expr>),
}

/// A parameter, the accelerator left out.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) is_mutable: bool,
    pub(crate) user_type: Type,
    pub(crate) passing: Passing,
    /// The variable that it is, instead of a caller's argument.
    pub(crate) variable: Option<Expr>,
    /// Of a block-shared array: it is left as it is when a block begins.
    pub(crate) is_uninitialised: bool,
}

/// The accelerator.
pub(crate) struct AcceleratorParameter {
    pub(crate) name: Ident,
    /// Of its grid.
    pub(crate) dimensions: TokenStream,
    pub(crate) waits: Waits,
}

/// The threads for which a thread can wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Never,
    Block,
    Grid,
}

/// The dimensions of a parameter's accelerator, and the threads for which it can wait; none if its
/// type is no reference to one.
pub(crate) fn accelerator(user_type: &Type) -> Option<(TokenStream, Waits)> {
    let Type::Reference(reference) = user_type else {
        return None;
    };
    let Type::ImplTrait(bounds) = &*reference.elem else {
        return None;
    };
    bounds.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let last = bound.path.segments.last()?;
        let waits = match last.ident.to_string().as_str() {
            "Accelerator" => Waits::Never,
            "BlockAccelerator" => Waits::Block,
            "GridAccelerator" => Waits::Grid,
            _ => return None,
        };
        let PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return None;
        };
        let dimensions = arguments.args.first()?;
        Some((quote!(#dimensions), waits))
    })
}

/// Reads the parameters of a function: the accelerator, if there is one, and the others.
pub(crate) fn parameters(
    signature: &Signature,
) -> Result<(Option<AcceleratorParameter>, Vec<Parameter>)> {
    let mut found = None;
    let mut parameters = Vec::new();
    for input in &signature.inputs {
        let FnArg::Typed(PatType { attrs, pat, ty, .. }) = input else {
            continue;
        };
        if found.is_some() && accelerator(ty).is_some() {
            return Err(Error::new(ty.span(), refuse::ACCELERATOR));
        }
        let Pat::Ident(name) = &**pat else {
            if let (Pat::Wild(wild), Some((dimensions, waits))) = (&**pat, accelerator(ty)) {
                found = Some(AcceleratorParameter {
                    name: Ident::new("_acc", wild.span()),
                    dimensions,
                    waits,
                });
                continue;
            }
            let words = match &**pat {
                Pat::Wild(_) => refuse::PARAMETER_NAME,
                _ => refuse::PARAMETER_PATTERN,
            };
            return Err(Error::new(pat.span(), words));
        };
        if let Some((dimensions, waits)) = accelerator(ty) {
            found = Some(AcceleratorParameter {
                name: name.ident.clone(),
                dimensions,
                waits,
            });
            continue;
        }
        check_type(ty)?;
        parameters.push(Parameter {
            name: name.ident.clone(),
            is_mutable: name.mutability.is_some(),
            user_type: (**ty).clone(),
            passing: passing(attrs, ty)?,
            variable: variable(attrs, ty)?,
            is_uninitialised: shared(attrs)?.is_some_and(|shared| shared.is_uninitialised),
        });
    }
    Ok((found, parameters))
}

/// The arguments of `#[shared(length)]` or `#[shared(length, unsafe(uninit))]`.
struct SharedArguments {
    length: Expr,
    is_uninitialised: bool,
}

impl Parse for SharedArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let length = input.parse()?;
        if let Expr::Array(sides) = &length {
            return Err(Error::new(sides.span(), refuse::SHARED_PLANE));
        }
        let mut is_uninitialised = false;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let wrong = |span| Error::new(span, refuse::SHARED_INITIAL);
            let span = input.span();
            if input.peek(syn::LitInt) || input.peek(Ident) {
                return Err(Error::new(span, refuse::SHARED_PLANE));
            }
            input
                .parse::<Token![unsafe]>()
                .map_err(|error| wrong(error.span()))?;
            let word;
            syn::parenthesized!(word in input);
            let word: Ident = word.parse().map_err(|error| wrong(error.span()))?;
            if word != "uninit" || !input.is_empty() {
                return Err(wrong(span));
            }
            is_uninitialised = true;
        }
        Ok(Self {
            length,
            is_uninitialised,
        })
    }
}

fn shared(attributes: &[Attribute]) -> Result<Option<SharedArguments>> {
    attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("shared"))
        .map(Attribute::parse_args)
        .transpose()
}

/// The expression of `#[shared(length)]`.
fn shared_length(attributes: &[Attribute]) -> Result<Option<Expr>> {
    Ok(shared(attributes)?.map(|shared| shared.length))
}

/// The expression of `#[variable(NAME)]`.
fn variable(attributes: &[Attribute], user_type: &Type) -> Result<Option<Expr>> {
    let named = attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("variable"));
    let Some(attribute) = named else {
        return Ok(None);
    };
    if !is_view(user_type) || shared_length(attributes)?.is_some() {
        return Err(Error::new(attribute.span(), refuse::VARIABLE_ONLY));
    }
    attribute.parse_args().map(Some)
}

fn passing(attributes: &[Attribute], user_type: &Type) -> Result<Passing> {
    let length = shared_length(attributes)?;
    let is_shared =
        view_name(user_type).is_some_and(|name| name == "SharedWrite" || name == "SharedAtomics");
    match (length, is_shared) {
        (Some(length), true) => Ok(Passing::Shared(Box::new(length))),
        (Some(_), false) if view_name(user_type).is_some_and(|name| name == "SharedRaw") => {
            Err(Error::new(user_type.span(), refuse::SHARED_RAW))
        }
        (Some(length), false) => Err(Error::new(length.span(), refuse::SHARED_ONLY)),
        // A device function takes it as it is; a kernel says how long it is.
        (None, true) => Ok(Passing::View),
        (None, false) if is_view(user_type) => Ok(Passing::View),
        (None, false) => Ok(Passing::Value),
    }
}

/// The signature as rustc takes it: without `#[shared(…)]` and `#[variable(…)]`, and of an
/// `async fn` with the lifetimes that it wants to see.
pub(crate) fn make_native(signature: &mut Signature) {
    let is_async = signature.asyncness.is_some();
    for input in &mut signature.inputs {
        if let FnArg::Typed(typed) = input {
            if is_async && view_name(&typed.ty).is_some() && !has_lifetime(&typed.ty) {
                *typed.ty = with_lifetime(&typed.ty, &parse_quote!('_));
            }
            typed.attrs.retain(|attribute| {
                !["shared", "variable"]
                    .iter()
                    .any(|name| attribute.path().is_ident(name))
            });
        }
    }
}

/// Has a device function inlined into the kernels that call it, where it is compiled for their
/// feature levels, unless its author has said otherwise.
pub(crate) fn make_inline(attributes: &mut Vec<syn::Attribute>) {
    if !attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("inline") || attribute.path().is_ident("cold"))
    {
        attributes.push(parse_quote!(#[inline(always)]));
    }
}

/// Refuses types that nothing stands for.
fn check_type(user_type: &Type) -> Result<()> {
    let (span, words) = match user_type {
        Type::ImplTrait(_) if writer_type(&Generics::default(), user_type).is_some() => {
            return Ok(());
        }
        Type::ImplTrait(of) => (of.span(), refuse::IMPL_TRAIT),
        Type::TraitObject(of) => (of.span(), refuse::TRAIT_OBJECT),
        Type::Ptr(of) => (of.span(), refuse::RAW_ADDRESS),
        Type::FnPtr(of) => (of.span(), refuse::CLOSURE_VALUE),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if is_named(path, "Vec") => (user_type.span(), refuse::VECTOR),
            of => return check_type(of),
        },
        Type::Path(path)
            if ["SharedWrite", "SharedRead", "SharedRaw", "SharedAtomics"]
                .iter()
                .any(|shared| is_named(path, shared))
                && has_dimensions(path) =>
        {
            (user_type.span(), refuse::SHARED_PLANE)
        }
        Type::Path(path) if view_name(user_type).is_none() && has_lifetime(user_type) => {
            (path.span(), refuse::REFERENCE_IN_STRUCT)
        }
        Type::Path(path) if is_named(path, "Atomics") || is_named(path, "SharedAtomics") => {
            match element_of(path) {
                Some(Type::Path(element))
                    if NOT_ATOMIC.iter().any(|name| element.path.is_ident(name)) =>
                {
                    (element.span(), refuse::ATOMIC_ELEMENTS)
                }
                Some(element @ (Type::Array(_) | Type::Tuple(_))) => {
                    (element.span(), refuse::ATOMIC_ELEMENTS)
                }
                _ => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    Err(Error::new(span, words))
}

/// True if a type's parameters are a type and something behind it.
fn has_dimensions(path: &TypePath) -> bool {
    let arguments = path.path.segments.last().map(|last| &last.arguments);
    let Some(PathArguments::AngleBracketed(arguments)) = arguments else {
        return false;
    };
    let of_types = arguments.args.iter();
    of_types
        .filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)))
        .count()
        > 1
}

/// Numbers that are not changed in one step.
const NOT_ATOMIC: [&str; 9] = [
    "bool", "u8", "i8", "u16", "i16", "f16", "bf16", "usize", "isize",
];

pub(crate) fn is_named(path: &TypePath, name: &str) -> bool {
    let last = path.path.segments.last();
    path.qself.is_none() && last.is_some_and(|last| last.ident == name)
}

/// The first of a type's parameters that is a type.
pub(crate) fn element_of(path: &TypePath) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(element) => Some(element),
        _ => None,
    })
}

/// The names of types that kernels are handed and that have a lifetime which is left out.
const VIEWS: [&str; 13] = [
    "GlobalRef",
    "OwnElements",
    "OwnTile",
    "OwnBlockTile",
    "OwnRows",
    "OwnBlock",
    "Atomics",
    "RawMut",
    "SharedWrite",
    "SharedRead",
    "SharedRaw",
    "SharedAtomics",
    "GlobalMut",
];

pub(crate) fn view_name(user_type: &Type) -> Option<&Ident> {
    let Type::Path(TypePath {
        qself: None, path, ..
    }) = user_type
    else {
        return None;
    };
    let last = path.segments.last()?;
    VIEWS
        .iter()
        .any(|name| last.ident == name)
        .then_some(&last.ident)
}

/// True if this is a thread's part of something that has another number of dimensions than the
/// accelerator, as far as both are written as numbers.
pub(crate) fn has_other_dimensions(user_type: &Type, acc: &AcceleratorParameter) -> bool {
    let Some(name) = view_name(user_type) else {
        return false;
    };
    if !["OwnElements", "OwnTile", "OwnBlockTile"]
        .iter()
        .any(|part| name == part)
    {
        return false;
    }
    let Type::Path(TypePath { path, .. }) = user_type else {
        return false;
    };
    let Some(PathArguments::AngleBracketed(arguments)) =
        path.segments.last().map(|last| &last.arguments)
    else {
        return false;
    };
    let arguments = arguments.args.iter();
    let mut arguments = arguments.filter(|it| !matches!(it, GenericArgument::Lifetime(_)));
    let own = match arguments.nth(1) {
        Some(dimensions) => quote!(#dimensions),
        None => quote!(1),
    };
    let number = |tokens: TokenStream| syn::parse2::<syn::LitInt>(tokens).ok()?.base10_parse().ok();
    let (own, all): (Option<usize>, Option<usize>) = (number(own), number(acc.dimensions.clone()));
    own.zip(all).is_some_and(|(own, all)| own != all)
}

/// The kind of a parameter's name.
pub(crate) fn kind(parameter: &Parameter) -> Kind {
    if is_plane_of_numbers(&parameter.user_type) {
        return Kind::Positioned;
    }
    let words = view_name(&parameter.user_type).and_then(|name| refuse::index(&name.to_string()));
    match words {
        Some(words) => Kind::Unindexed(words),
        None if view_name(&parameter.user_type).is_some() => Kind::View,
        None => Kind::of_variable(parameter.is_mutable),
    }
}

/// True of a `GlobalRef` of several dimensions whose elements have no parts.
fn is_plane_of_numbers(user_type: &Type) -> bool {
    let Type::Path(path) = user_type else {
        return false;
    };
    let Some(Type::Path(element)) = element_of(path).filter(|_| is_named(path, "GlobalRef")) else {
        return false;
    };
    let is_number = NUMBERS.iter().any(|name| element.path.is_ident(name));
    let dimensions = path.path.segments.last().map(|last| &last.arguments);
    let is_plane = matches!(dimensions, Some(PathArguments::AngleBracketed(arguments))
    if arguments.args.iter().any(|argument| match argument {
        GenericArgument::Const(Expr::Lit(dimensions)) => !dimensions.to_token_stream().to_string().starts_with('1'),
        _ => false,
    }));
    is_number && is_plane
}

/// Types of values without parts.
const NUMBERS: [&str; 13] = [
    "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool",
];

/// The type of a parameter's elements, or of its value, if it is one that users may have written.
pub(crate) fn named_element(user_type: &Type) -> Option<&Type> {
    match user_type {
        Type::Reference(reference) => named_element(&reference.elem),
        Type::Slice(slice) => named_element(&slice.elem),
        Type::Array(array) => named_element(&array.elem),
        Type::Paren(paren) => named_element(&paren.elem),
        Type::Group(group) => named_element(&group.elem),
        Type::Path(path) if view_name(user_type).is_some() => named_element(element_of(path)?),
        Type::Path(path) if path.qself.is_none() => {
            let is_known = |name: &&str| path.path.is_ident(name);
            let is_number = NUMBERS.iter().chain(&["usize", "isize"]).any(is_known);
            (!is_number).then_some(user_type)
        }
        _ => None,
    }
}

fn is_view(user_type: &Type) -> bool {
    matches!(user_type, Type::Reference(_)) || view_name(user_type).is_some()
}

/// True if a view's type has a lifetime.
fn has_lifetime(view: &Type) -> bool {
    let Type::Path(path) = view else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            matches!(arguments.args.first(), Some(GenericArgument::Lifetime(_)))
        }
        _ => false,
    })
}

/// A type with its missing lifetimes as `'static`.
pub(crate) fn with_lifetimes(user_type: &Type) -> Type {
    with_lifetime(user_type, &parse_quote!('static))
}

fn with_lifetime(user_type: &Type, lifetime: &Lifetime) -> Type {
    match user_type {
        Type::Reference(reference) => {
            let mut reference = reference.clone();
            reference.lifetime = Some(lifetime.clone());
            *reference.elem = with_lifetime(&reference.elem, lifetime);
            Type::Reference(reference)
        }
        Type::Paren(paren) => with_lifetime(&paren.elem, lifetime),
        Type::Group(group) => with_lifetime(&group.elem, lifetime),
        Type::Path(path) if view_name(user_type).is_some() => {
            let mut path = path.clone();
            if let Some(last) = path.path.segments.last_mut()
                && let PathArguments::AngleBracketed(arguments) = &mut last.arguments
            {
                match arguments.args.first_mut() {
                    Some(GenericArgument::Lifetime(own)) => *own = lifetime.clone(),
                    _ => arguments
                        .args
                        .insert(0, GenericArgument::Lifetime(lifetime.clone())),
                }
            }
            Type::Path(path)
        }
        other => other.clone(),
    }
}

/// The type that an expression is of, for a user's type: references are not counted, and views
/// become their handles.
pub(crate) fn handle(user_type: &Type) -> TokenStream {
    match user_type {
        Type::Reference(reference) => handle(&reference.elem),
        Type::Paren(paren) => handle(&paren.elem),
        Type::Group(group) => handle(&group.elem),
        Type::Path(_) if view_name(user_type).is_some() => {
            let view = with_lifetimes(user_type);
            quote!(<#view as __quipu::Handled>::Handle)
        }
        Type::Tuple(tuple) if !tuple.elems.is_empty() => {
            let elements = tuple.elems.iter().map(handle);
            quote!((#(#elements,)*))
        }
        // The value in an `Option` may be a reference, which is not counted.
        Type::Path(path) if is_option(&path.path) => {
            let mut path = path.clone();
            if let Some(last) = path.path.segments.last_mut()
                && let PathArguments::AngleBracketed(arguments) = &mut last.arguments
            {
                for argument in &mut arguments.args {
                    if let GenericArgument::Type(of) = argument {
                        *of = Type::Verbatim(handle(of));
                    }
                }
            }
            quote!(#path)
        }
        other => quote!(#other),
    }
}

/// True if a path is one to `Option` or `Result`.
fn is_option(path: &Path) -> bool {
    let last = path.segments.last();
    last.is_some_and(|last| last.ident == "Option" || last.ident == "Result")
}

/// Generics as they are where a source is made, in which nothing is borrowed.
pub(crate) fn without_lifetimes(generics: &Generics) -> Generics {
    fn retained(
        bounds: &Punctuated<TypeParamBound, Token![+]>,
    ) -> Punctuated<TypeParamBound, Token![+]> {
        let is_lifetime = |bound: &TypeParamBound| matches!(bound, TypeParamBound::Lifetime(_));
        let bounds = bounds.iter().filter(|bound| !is_lifetime(bound));
        bounds.cloned().collect()
    }
    let mut generics = generics.clone();
    let parameters = std::mem::take(&mut generics.params).into_iter();
    generics.params = parameters
        .filter(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
        .collect();
    for parameter in generics.type_params_mut() {
        parameter.bounds = retained(&parameter.bounds);
    }
    if let Some(clause) = &mut generics.where_clause {
        let predicates = std::mem::take(&mut clause.predicates).into_iter();
        clause.predicates = predicates
            .filter(|predicate| !matches!(predicate, WherePredicate::Lifetime(_)))
            .collect();
        for predicate in &mut clause.predicates {
            if let WherePredicate::Type(predicate) = predicate {
                predicate.bounds = retained(&predicate.bounds);
            }
        }
    }
    generics
}

/// Refuses generics that nothing stands for.
pub(crate) fn check_generics(generics: &Generics) -> Result<()> {
    for parameter in &generics.params {
        match parameter {
            GenericParam::Lifetime(lifetime) => {
                return Err(Error::new(lifetime.span(), refuse::LIFETIMES));
            }
            GenericParam::Type(parameter) => {
                for bound in &parameter.bounds {
                    if let TypeParamBound::Trait(bound) = bound
                        && bound.path.segments.last().is_some_and(|last| {
                            ["Accelerator", "BlockAccelerator", "GridAccelerator"]
                                .iter()
                                .any(|name| last.ident == name)
                        })
                    {
                        return Err(Error::new(parameter.span(), refuse::GENERIC_ACCELERATOR));
                    }
                }
            }
            GenericParam::Const(_) => {}
        }
    }
    Ok(())
}

/// Generics whose types are ones of kernels' data, and whose operators kernels know.
pub(crate) fn with_data_bounds(generics: &Generics, krate: &Path) -> Generics {
    with_bounds(
        generics,
        krate,
        &parse_quote!(#krate::__macro::emit::KernelData),
    )
}

/// Generics whose types are ones that kernels compute with, and whose operators kernels know.
pub(crate) fn with_value_bounds(generics: &Generics, krate: &Path) -> Generics {
    with_bounds(
        generics,
        krate,
        &parse_quote!(#krate::__macro::emit::KernelValue),
    )
}

fn with_bounds(generics: &Generics, krate: &Path, bound: &TypeParamBound) -> Generics {
    let mut generics = generics.clone();
    // Those of `Into<B>`: of a `B`.
    let mut converted: Vec<WherePredicate> = Vec::new();
    let mut convert = |of: &Type, bounds: &Punctuated<TypeParamBound, Token![+]>| {
        let into = bounds.iter().filter_map(|bound| match bound {
            TypeParamBound::Trait(bound) => argument_of(&bound.path, "Into"),
            _ => None,
        });
        converted
            .extend(into.map(|to| parse_quote!(#to: #krate::__macro::emit::ConvertedFrom<#of>)));
    };
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            let name = &parameter.ident;
            convert(&parse_quote!(#name), &parameter.bounds);
            let operators = operator_bounds(&parameter.bounds, krate);
            parameter.bounds.push(bound.clone());
            parameter.bounds.extend(operators);
        }
    }
    if let Some(clause) = &mut generics.where_clause {
        for predicate in &mut clause.predicates {
            if let WherePredicate::Type(predicate) = predicate
                && predicate.lifetimes.is_none()
                && !matches!(predicate.bounded_ty, Type::Reference(_))
            {
                convert(&predicate.bounded_ty, &predicate.bounds);
                let operators = operator_bounds(&predicate.bounds, krate);
                predicate.bounds.extend(operators);
            }
        }
    }
    if !converted.is_empty() {
        generics.make_where_clause().predicates.extend(converted);
    }
    generics
}

/// For each trait of operators, conversions and indices among bounds the one by which kernels know
/// it.
pub(crate) fn operator_bounds(
    bounds: &Punctuated<TypeParamBound, Token![+]>,
    krate: &Path,
) -> Vec<TypeParamBound> {
    let operator = |bound: &TypeParamBound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let build = quote!(#krate::__macro::emit);
        if let Some(from) = argument_of(&bound.path, "From") {
            return Some(parse_quote!(#build::ConvertedFrom<#from>));
        }
        for (of_std, name) in [("Index", "Indexes"), ("IndexMut", "IndexesToChange")] {
            if argument_of(&bound.path, of_std).is_some() {
                let name = Ident::new(name, bound.path.span());
                let arguments = &bound.path.segments.last()?.arguments;
                return Some(parse_quote!(#build::#name #arguments));
            }
        }
        let (name, other) = operator_of(&bound.path).filter(|_| bound.lifetimes.is_none())?;
        Some(match (is_prefix(name), other) {
            (true, _) => parse_quote!(#build::OperatesAlone<#build::operator::#name>),
            (false, None) => parse_quote!(#build::Operates<#build::operator::#name>),
            (false, Some(Type::Reference(_))) => return None,
            (false, Some(other)) => {
                parse_quote!(#build::Operates<#build::operator::#name, #other>)
            }
        })
    };
    bounds.iter().filter_map(operator).collect()
}

/// The `A` of a bound `From<A>`, or another of one argument, unless it is a reference.
fn argument_of<'p>(path: &'p Path, name: &str) -> Option<&'p Type> {
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(Type::Reference(_)) => None,
        GenericArgument::Type(of) => Some(of),
        _ => None,
    }
}

/// The operators that types may have besides numbers, by the names of their traits.
const OPERATORS: [&str; 22] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Rem",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Shl",
    "Shr",
    "AddAssign",
    "SubAssign",
    "MulAssign",
    "DivAssign",
    "RemAssign",
    "BitAndAssign",
    "BitOrAssign",
    "BitXorAssign",
    "ShlAssign",
    "ShrAssign",
    "Neg",
    "Not",
];

/// The operator's trait that a path names, and the type of the right operand if it says one.
fn operator_of(path: &Path) -> Option<(&Ident, Option<&Type>)> {
    operator_impl_of(path).filter(|(name, _)| *name != "PartialEq")
}

/// As an `impl` may be of: with `PartialEq`, which as a bound says no more than that a type has it
/// natively, as most do by derive.
pub(crate) fn operator_impl_of(path: &Path) -> Option<(&Ident, Option<&Type>)> {
    let last = path.segments.last()?;
    if last.ident != "PartialEq" && !OPERATORS.iter().any(|name| last.ident == name) {
        return None;
    }
    let other = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(other) => Some(other),
                _ => None,
            })
        }
        _ => None,
    };
    Some((&last.ident, other))
}

/// True if an operator has one operand.
pub(crate) fn is_prefix(operator: &Ident) -> bool {
    operator == "Neg" || operator == "Not"
}

/// True if a receiver is `mut self`.
pub(crate) fn is_mutable_value(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Value) && receiver.mutability.is_some()
}

/// True if a receiver is `&mut self`.
pub(crate) fn is_mutable_reference(receiver: &Receiver) -> bool {
    matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)))
}

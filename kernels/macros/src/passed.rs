//! Types that no parameter of a kernel can have, seen by their look: refused in words for the type
//! that was probably meant.
//!
//! Types say so, too (`Parameter` and `KernelData` of `quipu-kernel`), but in words for all types.
//! And they tell of what a type is made of, not of the way in which it is written.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Type, TypeReference};

use crate::refuse;
use crate::signature::{element_of, is_named, view_name};

/// A type, and what to write instead.
type Refused = Option<(Span, String)>;

/// Refuses the type of a parameter of this name.
pub(crate) fn refused(name: &str, user_type: &Type) -> Refused {
    let at = |words: &str| Some((user_type.span(), words.to_owned()));
    match user_type {
        Type::Paren(inner) => refused(name, &inner.elem),
        Type::Group(inner) => refused(name, &inner.elem),
        Type::Reference(reference) => reference_refused(name, reference),
        Type::Slice(slice) => {
            let element = text(&slice.elem);
            at(&format!(
                "a slice is passed by reference: write `{name}: &[{element}]`"
            ))
        }
        Type::Tuple(tuple) if !tuple.elems.is_empty() => at(refuse::TUPLE_PARAMETER),
        Type::Path(path) if view_name(user_type).is_some() => {
            let view = view_name(user_type)?;
            if view == "GlobalMut" {
                return at(refuse::GLOBAL_MUT);
            }
            match element_of(path) {
                Some(element) => memory_refused(element),
                None => at(&format!(
                    "say of which type its elements are: `{name}: {view}<f32>`"
                )),
            }
        }
        Type::Path(path) if is_named(path, "Option") || is_named(path, "Result") => {
            at(refuse::OPTION_PARAMETER)
        }
        Type::Path(path) if is_named(path, "Vec") => at(refuse::VECTOR),
        _ => value_refused(user_type),
    }
}

fn reference_refused(name: &str, reference: &TypeReference) -> Refused {
    let of = &*reference.elem;
    let at = |words: String| Some((reference.span(), words));
    let is_changed = reference.mutability.is_some();
    match of {
        Type::Slice(slice) => memory_refused(&slice.elem),
        Type::Path(_) if view_name(of).is_some() => at(format!(
            "a thread is handed this by value: write `{}{name}: {}`",
            if is_changed { "mut " } else { "" },
            text(of)
        )),
        Type::Path(path)
            if element_of(path).is_some()
                && ["Vec", "Buffer", "View"].iter().any(|it| is_named(path, it)) =>
        {
            at(match is_changed {
                true => refuse::MUTABLE_SLICE,
                false if is_named(path, "View") => refuse::VIEW_PARAMETER,
                false => refuse::VECTOR,
            }
            .to_owned())
        }
        Type::Path(path) if is_named(path, "str") => at(refuse::STRINGS.to_owned()),
        Type::Path(_) | Type::Array(_) if is_changed => at(refuse::MUTABLE_VALUE.to_owned()),
        Type::Path(_) | Type::Array(_) => value_refused(of).or_else(|| {
            at(format!(
                "a kernel is handed a copy of a value: write `{name}: {}`, and pass the value itself",
                text(of)
            ))
        }),
        Type::Tuple(_) => at(refuse::TUPLE_PARAMETER.to_owned()),
        _ => None,
    }
}

/// Refuses a type of elements in memory.
fn memory_refused(element: &Type) -> Refused {
    let at = |words: &str| Some((element.span(), words.to_owned()));
    match element {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => at(refuse::TUPLES_IN_MEMORY),
        Type::Path(path) if is_named(path, "usize") || is_named(path, "isize") => {
            at(refuse::INDICES_IN_MEMORY)
        }
        Type::Path(path) if is_named(path, "Option") || is_named(path, "Result") => {
            at(refuse::OPTION_PARAMETER)
        }
        Type::Path(path) if is_named(path, "Vec") => at(refuse::NESTED),
        Type::Reference(_) | Type::Slice(_) => at(refuse::NESTED),
        _ => value_refused(element),
    }
}

/// Refuses a type of values.
fn value_refused(user_type: &Type) -> Refused {
    let at = |words: &str| Some((user_type.span(), words.to_owned()));
    match user_type {
        Type::Array(array) => memory_refused(&array.elem),
        Type::Path(path) => {
            let is = |names: &[&str]| names.iter().any(|name| is_named(path, name));
            if is(&["String", "char"]) {
                at(refuse::STRINGS)
            } else if is(&["Box", "Rc", "Arc", "HashMap", "BTreeMap", "VecDeque"]) {
                at(refuse::ALLOCATED)
            } else if is(&["u128", "i128"]) {
                at(refuse::WIDE)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// A type as people write it.
fn text(of: &Type) -> String {
    let tokens = of.to_token_stream().to_string();
    let mut text = tokens.replace(" :: ", "::");
    for (spaced, close) in [
        (" < ", "<"),
        (" >", ">"),
        ("< ", "<"),
        (" ,", ","),
        ("& ", "&"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
    ] {
        text = text.replace(spaced, close);
    }
    text
}

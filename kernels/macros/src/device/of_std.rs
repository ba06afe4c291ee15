//! `impl` blocks of std's traits, which have no room for a kernel's form of their functions: these
//! are written beside them, as functions of the type by itself.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{
    Block, Error, Expr, ExprReturn, GenericArgument, ImplItem, ItemImpl, Path, PathArguments,
    PathSegment, Result, Stmt, Type,
};

use super::{Written, substitute};
use crate::components::take_components;
use crate::refuse;
use crate::signature::{handle, make_inline, with_value_bounds};

/// `Iterator` of a type: its `next`, for kernels, is a method of the type by itself.
pub(super) fn iterator_impl(krate: &Path, item: &ItemImpl) -> Result<TokenStream> {
    let of_item = item.items.iter().find_map(|member| match member {
        ImplItem::Type(of) if of.ident == "Item" => Some(&of.ty),
        _ => None,
    });
    let members = item.items.iter().filter_map(|member| match member {
        ImplItem::Fn(next) if next.sig.ident == "next" => {
            let mut next = next.clone();
            if let Some(of) = of_item {
                ItemOfSelf(of).visit_impl_item_fn_mut(&mut next);
            }
            Some(next)
        }
        _ => None,
    });
    let (mut added, mut refusals) = (TokenStream::new(), TokenStream::new());
    for next in members {
        let written = Written::of(krate, &next.sig, Some(&next.block), true)?;
        let call = format_ident!("__call_next", span = next.sig.ident.span());
        added.extend(written.builder(&call, false));
        added.extend(written.method(&next.sig, &call));
        refusals.extend(written.refusals.map(Error::into_compile_error));
    }
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let of = &item.self_ty;
    let emit = quote!(#krate::__macro::emit);
    let looped = of_item.map(|of_item| {
        let of_item = substitute(handle(of_item), krate);
        quote! {
            impl #impl_generics #emit::Iterate for #of #where_clause {
                type Item = #of_item;
                type Share = #emit::Whole;

                fn begin(
                    _: &mut #emit::State,
                    _: #emit::Raw,
                    _: &'static ::core::panic::Location<'static>,
                ) -> (#emit::Loop<()>, #emit::Raw) {
                    ::core::unreachable!("a loop over such an iterator begins with its `next`")
                }

                #[track_caller]
                fn begin_for(over: #emit::Expr<Self>) -> (#emit::Loop<()>, #emit::Expr<#of_item>) {
                    #emit::begin_own(over, Self::__call_next)
                }
            }
        }
    });
    Ok(quote! {
        #item

        const _: () = {
            impl #impl_generics #of #where_clause {
                #added
            }

            #looped

            impl #impl_generics #emit::RefusedOfIterators for #of #where_clause {}
        };
        #refusals
    })
}

/// A trait of std's whose work is in a trait of our own, as it has no room for the kernels' form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TraitOfStd {
    From,
    Index,
    IndexMut,
}

impl TraitOfStd {
    pub(super) fn named(name: &syn::Ident) -> Option<Self> {
        Some(match name.to_string().as_str() {
            "From" => Self::From,
            "Index" => Self::Index,
            "IndexMut" => Self::IndexMut,
            _ => return None,
        })
    }

    /// The names of our trait and of its function.
    fn written(self) -> (TokenStream, &'static str) {
        match self {
            Self::From => (quote!(ConvertedFrom), "converted_from"),
            Self::Index => (quote!(Indexes), "indexed"),
            Self::IndexMut => (quote!(IndexesToChange), "indexed_to_change"),
        }
    }
}

/// `impl From<A> for …` and the like.
pub(super) fn of_std_impl(
    krate: &Path,
    item: &ItemImpl,
    of_std: TraitOfStd,
    named: &PathSegment,
) -> Result<TokenStream> {
    let other = match &named.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.first(),
        _ => None,
    };
    let function = item.items.iter().find_map(|member| match member {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    });
    let (Some(GenericArgument::Type(other)), Some(function)) = (other, function) else {
        // rustc says what is missing.
        return Ok(quote!(#item));
    };
    for of in [&*item.self_ty, other] {
        if let Type::Reference(of) = of {
            return Err(Error::new(of.span(), refuse::STD_OF_REFERENCES));
        }
    }
    let mut read = function.clone();
    let chosen = match of_std {
        TraitOfStd::IndexMut => chosen_place(&read.block),
        TraitOfStd::From | TraitOfStd::Index => None,
    };
    if of_std == TraitOfStd::Index && gives_by_branches(&read.block) {
        lend_values(&mut read.block);
    }
    let (trait_name, name) = of_std.written();
    let name = format_ident!("{name}");
    let written = match chosen {
        Some(span) => Err(Error::new(span, refuse::CHOSEN_PLACE)),
        None => Written::of(krate, &read.sig, Some(&read.block), true),
    };
    let (builder, refusals) = match written {
        Ok(mut written) => {
            // An index is of the place itself.
            written.inline |= of_std != TraitOfStd::From;
            let builder = written.builder(&name, false);
            (builder, written.refusals)
        }
        // Its callers are right, whatever is wrong with it.
        Err(error) => {
            let emit = quote!(#krate::__macro::emit);
            let stub = match of_std {
                TraitOfStd::From => {
                    quote!(fn #name(_: #emit::Expr<#other>) -> #emit::Expr<Self> { ::core::unreachable!() })
                }
                TraitOfStd::Index | TraitOfStd::IndexMut => quote! {
                    fn #name(_: #emit::Expr<Self>, _: #emit::Expr<#other>) -> #emit::Expr<Self::Output> {
                        ::core::unreachable!()
                    }
                },
            };
            (stub, Some(error))
        }
    };
    let refusals = refusals.map(Error::into_compile_error);
    let generics = with_value_bounds(&item.generics, krate);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let of = &item.self_ty;
    let output = match of_std {
        TraitOfStd::From | TraitOfStd::IndexMut => TokenStream::new(),
        TraitOfStd::Index => quote!(type Output = <#of as ::core::ops::Index<#other>>::Output;),
    };
    let mut native = item.clone();
    for member in &mut native.items {
        if let ImplItem::Fn(function) = member {
            take_components(krate, &mut function.block);
            make_inline(&mut function.attrs);
        }
    }
    Ok(quote! {
        #native

        const _: () = {
            #[allow(clippy::all, clippy::pedantic, clippy::restriction)]
            impl #impl_generics #krate::__macro::emit::#trait_name<#other> for #of #where_clause {
                #output
                #builder
            }
        };
        #refusals
    })
}

/// True if a function's value is that of a branch, or comes of a `return`.
fn gives_by_branches(block: &Block) -> bool {
    struct Returns(bool);
    impl<'ast> Visit<'ast> for Returns {
        fn visit_expr_return(&mut self, _: &'ast ExprReturn) {
            self.0 = true;
        }
    }
    let mut returns = Returns(false);
    returns.visit_block(block);
    let is_branch = |of: &Expr| match of {
        Expr::If(_) | Expr::Match(_) => true,
        Expr::Unsafe(block) => gives_by_branches(&block.block),
        Expr::Block(block) => gives_by_branches(&block.block),
        _ => false,
    };
    returns.0 || matches!(block.stmts.last(), Some(Stmt::Expr(last, None)) if is_branch(last))
}

/// The values that a function may give, each of which is shown to a closure.
struct Given<F>(F);

impl<F: FnMut(&mut Expr)> Given<F> {
    fn of_function(mut self, block: &mut Block) {
        self.visit_block_mut(block);
        self.last(block);
    }

    fn last(&mut self, block: &mut Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last_mut() {
            self.value(last);
        }
    }

    fn value(&mut self, value: &mut Expr) {
        match value {
            Expr::Paren(paren) => self.value(&mut paren.expr),
            Expr::If(branch) => {
                self.last(&mut branch.then_branch);
                if let Some((_, otherwise)) = &mut branch.else_branch {
                    self.value(otherwise);
                }
            }
            Expr::Match(cases) => {
                let arms = cases.arms.iter_mut();
                arms.for_each(|arm| self.value(&mut arm.body));
            }
            Expr::Unsafe(block) => self.last(&mut block.block),
            Expr::Block(block) => self.last(&mut block.block),
            value => (self.0)(value),
        }
    }
}

impl<F: FnMut(&mut Expr)> VisitMut for Given<F> {
    fn visit_expr_return_mut(&mut self, returned: &mut ExprReturn) {
        if let Some(value) = &mut returned.expr {
            self.value(value);
        }
    }
}

/// Has a function that lends something give the value: devices have no reference that depends on a
/// condition.
fn lend_values(block: &mut Block) {
    let lend = |value: &mut Expr| {
        if let Expr::Reference(reference) = value {
            *value = (*reference.expr).clone();
        }
    };
    Given(lend).of_function(block);
}

/// Where a function gives one of several variables, elements or fields.
fn chosen_place(block: &Block) -> Option<Span> {
    let mut found = None;
    let note = |value: &mut Expr| {
        if let Expr::Reference(reference) = value {
            let is_slice = matches!(&*reference.expr, Expr::Index(index) if matches!(*index.index, Expr::Range(_)));
            if !is_slice {
                found.get_or_insert(reference.and_token.span);
            }
        }
    };
    Given(note).of_function(&mut block.clone());
    found.filter(|_| gives_by_branches(block))
}

/// Writes the type of an iterator's items in place of `Self::Item`.
struct ItemOfSelf<'a>(&'a Type);

impl VisitMut for ItemOfSelf<'_> {
    fn visit_type_mut(&mut self, of: &mut Type) {
        if let Type::Path(path) = of
            && let [first, second] = [0, 1].map(|at| path.path.segments.get(at))
            && first.is_some_and(|first| first.ident == "Self")
            && second.is_some_and(|second| second.ident == "Item")
        {
            *of = self.0.clone();
            return;
        }
        syn::visit_mut::visit_type_mut(self, of);
    }
}

/// True if a trait is one of std's, which has no room for the kernels' form of it.
pub(super) fn is_of_std(path: &Path) -> bool {
    let names: Vec<_> = path
        .segments
        .iter()
        .map(|part| part.ident.to_string())
        .collect();
    let is_known = |name: &String| {
        [
            "Into",
            "TryFrom",
            "PartialOrd",
            "Ord",
            "Deref",
            "DerefMut",
            "Iterator",
            "IntoIterator",
            "Display",
            "Debug",
        ]
        .contains(&&**name)
    };
    matches!(names.first().map(String::as_str), Some("std" | "core"))
        || names.last().is_some_and(is_known)
}

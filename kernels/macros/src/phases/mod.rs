//! Kernels with barriers as loops over a block's threads, where it can be seen that all threads
//! come to each barrier.
//!
//! An `async fn` makes each thread a state machine, and what a thread knows is in memory behind a
//! jump. Where all of a block's barriers are statements of the kernel itself, or of loops and
//! branches that go the same way for all threads, the kernel is also written as a block would be by
//! hand:
//!
//! ```text
//! let thread = acc.index(Block, Threads)[0];         let half = …;
//! let mut half = …;                                  while half > 0 {
//! while half > 0 {                                       for each thread {
//!     let read = acc.sync(sums).await;          →            let thread = …;
//!     let other = f(read, thread, half);                     let other = f(read, thread, half);
//!     sums = acc.sync(read).await;                           others.set(thread, other);
//!     sums.own()[0] += other;                            }
//!     half /= 2;                                         for each thread { … }
//! }                                                      half /= 2;
//!                                                    }
//! ```
//!
//! A *phase* is what threads do between two barriers; a variable of the kernel is one of these:
//!
//! 1. *Uniform*: the same for all threads, as it is made of what is the same for all, and assigned
//!    nowhere else ([`uniform`]). The block has it once. Each variable of a `let` of a tuple is
//!    looked at by itself ([`apart`](mod@apart)).
//! 2. *Computed again* in each phase that names it: it does not change, and costs next to nothing.
//! 3. *Kept*: the block has one for each thread, if it is named in other phases than its own.
//! 4. *Raw*: the handle that `into_raw()` gives of a shared array ([`raw`]). The block has it once.
//!
//! In phases of simple statements neighbouring threads go side by side ([`lanes`]).
//!
//! This analysis refuses no kernel. A kernel that is not plainly of this form stays an `async fn`,
//! and in the test modes all kernels are that. rustc checks the `async fn`, so types, borrows and
//! moves are right here, too. No thread can be at another barrier than the others. What is only
//! read off names, of indices and of views, is asked of the types once more ([`witnesses`]).

/// As `quote!`, but variables and labels that are written so are of this macro alone: a kernel's
/// own of the same name are others.
macro_rules! written {
    ($($code:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($code)*)
    };
}

mod apart;
mod assertions;
mod lanes;
mod raw;
mod structure;
mod uniform;
mod write;

use proc_macro2::TokenStream;
use quote::quote;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ItemFn, Local, Pat};

use crate::scope::exchanged;
use crate::signature::{AcceleratorParameter, Parameter, Passing, with_lifetimes};
pub(crate) use apart::apart;
pub(crate) use uniform::{bound_by, is_pure, is_read};

/// A kernel that can be run phase by phase.
pub(crate) struct Phases {
    /// The name of its parameter.
    pub(crate) blocks: TokenStream,
    /// The body of the function that runs blocks so.
    pub(crate) body: TokenStream,
    /// A constant: whether types are what their names say.
    pub(crate) witnesses: TokenStream,
}

/// A kernel as phases, if it can be run so.
pub(crate) fn phases(
    krate: &syn::Path,
    item: &ItemFn,
    acc: &AcceleratorParameter,
    parameters: &[Parameter],
) -> Option<Phases> {
    // Such a parameter may be a variable.
    let is_variable =
        |parameter: &Parameter| parameter.is_mutable && matches!(parameter.passing, Passing::Value);
    if parameters.iter().any(is_variable) {
        return None;
    }
    let block = apart(&item.block);
    let names = uniform::Names::of(&block, &acc.name, parameters)?;
    if exchanges_arrays(&block, parameters, &names) {
        return None;
    }
    let known = lanes::Known {
        krate,
        names: &names,
        parameters,
        dimensions: acc.dimensions.to_string().parse().ok(),
    };
    let steps = structure::steps(&block, &known)?;
    Some(Phases {
        blocks: written!(__blocks),
        body: write::write(&steps, &known),
        witnesses: witnesses(&block, acc, &known),
    })
}

/// Whether the origins and units of indices, and what all threads are taken to read, have the types
/// that their names say: `use Threads as Blocks` is possible. A macro cannot know it; so it is
/// asked where types are known, and a kernel of which it is not true is not run phase by phase.
fn witnesses(block: &Block, acc: &AcceleratorParameter, known: &lanes::Known) -> TokenStream {
    struct Indices<'n> {
        names: &'n uniform::Names,
        krate: &'n syn::Path,
        asked: Vec<TokenStream>,
    }
    impl<'ast> Visit<'ast> for Indices<'_> {
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            let (krate, arguments) = (self.krate, call.args.iter());
            let asked = match self.names.indexed(call) {
                Some(uniform::Indexed::Uniform) => quote!(counts_blocks),
                Some(uniform::Indexed::Threads) => quote!(counts_threads),
                None => quote!(),
            };
            if call.method == "index" && !asked.is_empty() {
                self.asked
                    .push(quote!(#krate::__macro::#asked(#(&#arguments),*)));
            }
            visit::visit_expr_method_call(self, call);
        }
    }
    let (krate, dimensions) = (known.krate, &acc.dimensions);
    let mut indices = Indices {
        names: known.names,
        krate,
        asked: Vec::new(),
    };
    indices.visit_block(block);
    let asked = indices.asked;
    let views = known
        .parameters
        .iter()
        .filter(|parameter| matches!(parameter.passing, Passing::View) && is_read(parameter));
    let views = views.map(|parameter| with_lifetimes(&parameter.user_type));
    quote! {
        true #(&& #asked)* #(&& #krate::__macro::is_read_by_all::<
            <#views as #krate::__macro::Parameter<#dimensions>>::Partition,
            #dimensions,
        >())*
    }
}

/// True if a variable may come to mean another shared array: which array a name is of has to be
/// seen, unless it is raw.
fn exchanges_arrays(body: &Block, parameters: &[Parameter], known: &uniform::Names) -> bool {
    /// The names of shared arrays.
    struct Arrays(Vec<String>);
    impl Arrays {
        fn is_array(&self, value: &Expr) -> bool {
            match value {
                Expr::Path(path) => {
                    let name = path.path.get_ident();
                    name.is_some_and(|name| self.0.contains(&name.to_string()))
                }
                Expr::Tuple(tuple) => tuple.elems.iter().any(|part| self.is_array(part)),
                Expr::Reference(reference) => self.is_array(&reference.expr),
                Expr::Paren(paren) => self.is_array(&paren.expr),
                Expr::Await(wait) => {
                    matches!(&*wait.base, Expr::MethodCall(call) if call.method == "sync")
                }
                _ => false,
            }
        }
    }
    impl<'ast> Visit<'ast> for Arrays {
        fn visit_local(&mut self, local: &'ast Local) {
            if let Some(init) = &local.init
                && self.is_array(&init.expr)
            {
                let mut names = Names(Vec::new());
                names.visit_pat(&local.pat);
                self.0.append(&mut names.0);
            }
            visit::visit_local(self, local);
        }
    }
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat(&mut self, pattern: &'ast Pat) {
            if let Pat::Ident(name) = pattern {
                self.0.push(name.ident.to_string());
            }
            visit::visit_pat(self, pattern);
        }
    }
    let shared = parameters
        .iter()
        .filter(|parameter| matches!(parameter.passing, Passing::Shared(_)));
    let mut arrays = Arrays(shared.map(|parameter| parameter.name.to_string()).collect());
    arrays.visit_block(body);
    let exchanged = exchanged(body);
    let is_raw = |name: &str| known.is_raw(&syn::Ident::new(name, proc_macro2::Span::call_site()));
    let mut arrays = arrays.0.iter().filter(|name| !is_raw(name));
    arrays.any(|name| exchanged.contains(name))
}

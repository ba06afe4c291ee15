//! Writes a kernel as loops over the threads of a block.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Expr, Ident, Path};

use super::structure::{Handle, Phase, Step, Steps};
use super::uniform::{Names, is_read};
use crate::signature::{Parameter, Passing};

struct Writer<'w> {
    krate: &'w Path,
    names: &'w Names,
    parameters: &'w [Parameter],
}

/// The body of `BlockKernel::run_phases`, of the parameter `__blocks`.
pub(super) fn write(
    krate: &Path,
    steps: &Steps,
    names: &Names,
    parameters: &[Parameter],
) -> TokenStream {
    let writer = Writer {
        krate,
        names,
        parameters,
    };
    let kept = (0..steps.kept).map(kept_name);
    let acc = &names.acc;
    let read = writer.handed(&|parameter| is_read(parameter));
    let body = writer.steps(&steps.steps);
    quote! {
        use #krate::__macro::{Accelerator as _, BlockAccelerator as _};
        #(let #kept = __blocks.kept()?;)*
        while __blocks.next() {
            let #acc = &__blocks.thread(0, 0);
            // SAFETY: what is handed out here is what all threads may read.
            let #read = unsafe { __blocks.own(#acc) };
            #body
        }
        ::core::result::Result::Ok(())
    }
}

fn kept_name(number: usize) -> Ident {
    format_ident!("__kept_{number}")
}

impl Writer<'_> {
    /// The pattern of what threads are handed, with the names of some parameters.
    fn handed(&self, named: &dyn Fn(&Parameter) -> bool) -> TokenStream {
        let parameters = self.parameters.iter();
        let patterns = parameters
            .filter(|parameter| !matches!(parameter.passing, Passing::Shared(_)))
            .map(|parameter| {
                let name = &parameter.name;
                match (named(parameter), parameter.is_mutable) {
                    (false, _) => quote!(_),
                    (true, false) => quote!(#name),
                    (true, true) => quote!(mut #name),
                }
            });
        quote!((#(#patterns,)*))
    }

    fn steps(&self, steps: &[Step]) -> TokenStream {
        let steps = steps.iter().map(|step| match step {
            Step::Block(statement) => quote!(#statement),
            Step::Threads(phase) => self.phase(phase),
            Step::Loop { head, body } => {
                let body = self.steps(body);
                match &**head {
                    Expr::While(head) => {
                        let condition = &head.cond;
                        quote!(while #condition { #body })
                    }
                    Expr::ForLoop(head) => {
                        let (pattern, range) = (&head.pat, &head.expr);
                        quote!(for #pattern in #range { #body })
                    }
                    _ => TokenStream::new(),
                }
            }
        });
        quote!(#(#steps)*)
    }

    /// A loop over the threads. (Two, as the inner one is then of neighbours.)
    fn phase(&self, phase: &Phase) -> TokenStream {
        let (krate, acc) = (self.krate, &self.names.acc);
        let is_named =
            |parameter: &Parameter| !is_read(parameter) && phase.named.contains(&parameter.name);
        let own = self.parameters.iter().any(|parameter| {
            !matches!(parameter.passing, Passing::Shared(_)) && is_named(parameter)
        });
        let own = own.then(|| {
            let own = self.handed(&is_named);
            quote! {
                // SAFETY: the thread is handed it for this phase, and has none of another.
                let #own = unsafe { __blocks.own(#acc) };
            }
        });
        let handles: Vec<_> = phase
            .handles
            .iter()
            .filter(|(name, _)| phase.named.contains(name))
            .collect();
        let shared = (!handles.is_empty()).then(|| {
            let arrays = self
                .parameters
                .iter()
                .filter(|parameter| matches!(parameter.passing, Passing::Shared(_)))
                .enumerate()
                .map(
                    |(array, _)| match handles.iter().find(|(_, handle)| handle.array == array) {
                        Some((name, _)) => quote!(mut #name),
                        None => quote!(_),
                    },
                );
            let turned = handles
                .iter()
                .filter(|(_, Handle { is_read, .. })| *is_read)
                // SAFETY: in what is written, a barrier lies between the phases of an array.
                .map(
                    |(name, _)| quote!(let mut #name = unsafe { #krate::__macro::turned(#name) };),
                );
            quote! {
                // SAFETY: as above; a barrier lies between the phases of an array.
                let (#(#arrays,)*) = unsafe { __blocks.hand_out(__number) };
                #(#turned)*
            }
        });
        let again = &phase.again;
        let taken = phase.used.iter().map(|(name, number)| {
            let kept = kept_name(*number);
            let mutable = self.names.is_mutable(name).then(|| quote!(mut));
            quote! {
                // SAFETY: an earlier phase has set it for each thread.
                let #mutable #name = unsafe { #kept.get(__number) };
            }
        });
        let changed = phase
            .used
            .iter()
            .filter(|(name, _)| self.names.is_mutable(name));
        let set = phase.made.iter().chain(changed).map(|(name, number)| {
            let kept = kept_name(*number);
            quote! {
                // SAFETY: there is room for each thread.
                unsafe { #kept.set(__number, #name) };
            }
        });
        let statements = &phase.statements;
        quote! {
            for __row in 0..__blocks.rows() {
                for __last in 0..__blocks.row_length() {
                    let #acc = &__blocks.thread(__row, __last);
                    let __number = __row * __blocks.row_length() + __last;
                    #own
                    #shared
                    #(#again)*
                    #(#taken)*
                    { #(#statements)* #(#set)* }
                }
            }
        }
    }
}

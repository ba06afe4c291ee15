//! The code that is being written: the variables and loops that are in scope, and the refusals.

use std::collections::{HashMap, HashSet};

use crate::refuse;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAssign, ExprCall, Lifetime, Path, Type};

/// The kind of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A variable: an expression in the function that makes the source.
    Variable,
    /// One that is bound with `mut`.
    MutableVariable,
    /// A closure there.
    Closure,
    /// A closure that has its own of a variable, and may change it: natively there is one of that
    /// for each copy of the closure.
    ChangingClosure,
    /// A variable that has no index, and [the remedy](crate::refuse::index).
    Unindexed(&'static str),
    /// A view of numbers in several dimensions, which is indexed by a position.
    Positioned,
    /// Any other view.
    View,
}

impl Kind {
    pub(crate) fn of_variable(is_mutable: bool) -> Self {
        if is_mutable {
            Self::MutableVariable
        } else {
            Self::Variable
        }
    }
}

/// A loop, or a block with a label.
pub(crate) struct LoopScope {
    pub(crate) label: Option<String>,
    pub(crate) token: Ident,
    pub(crate) is_block: bool,
}

/// The use of a written expression's value by the code around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Value,
    /// One of several that a branch may have.
    Choice,
    Nothing,
}

/// The use of a place: it decides between the `Index` and the `IndexMut` of a user's type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Change,
    /// By a method, whose type is not known here.
    Receiver,
}

impl Access {
    /// The method of `emit::Indexing` for it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Read => "__index",
            Self::Change => "__index_to_change",
            Self::Receiver => "__index_of_receiver",
        }
    }
}

/// A function body being written.
pub(crate) struct Writer {
    /// The path of the crate that the kernel language is in.
    pub(crate) krate: Path,
    scopes: Vec<HashMap<String, Kind>>,
    pub(crate) loops: Vec<LoopScope>,
    /// The number of closures around the code that is being written.
    pub(crate) closures: usize,
    /// The name of the function that is being written, if that alone calls it.
    pub(crate) function: Option<Ident>,
    /// The variables that may come to mean another shared array or slice: see
    /// [`note_exchanged`](Self::note_exchanged).
    exchanged: HashSet<String>,
    /// The function's result, as an expression's type.
    pub(crate) result: TokenStream,
    names: usize,
    refusals: Option<syn::Error>,
    /// The places and words of refusals.
    refused: HashSet<String>,
}

impl Writer {
    pub(crate) fn new(krate: &Path, result: TokenStream) -> Self {
        Self {
            krate: krate.clone(),
            scopes: vec![HashMap::new()],
            loops: Vec::new(),
            closures: 0,
            function: None,
            exchanged: HashSet::new(),
            result,
            names: 0,
            refusals: None,
            refused: HashSet::new(),
        }
    }

    /// The beginning of every function that makes a source.
    pub(crate) fn prelude(&self) -> TokenStream {
        let krate = &self.krate;
        quote! {
            use #krate::__macro::emit as __quipu;
            #[allow(unused_imports)]
            use __quipu::{
                AcceptedOfOthers as _, ArrayMethods as _, RefusedBehind as _, RefusedMap as _, RefusedOfIterators as _, of_std::MeansStd as _, of_std::MeansOwn as _, AskedOrderings as _, BoolMethods as _, ByteCalls as _, ByteMethods as _, Casts as _, Changing as _, ChangingReference as _, CheckedCalls as _, CheckedMethods as _, Unchanging as _, UnchangingReference as _, Conversions as _, Converted as _, ConvertedOfNumbers as _, ConvertedOfOwn as _, ConvertedToOwn as _, FieldOfOthers as _, FieldOfValue as _, FloatBits as _, HalfConversions as _, IndexedOfOthers as _, IndexedOfOwn as _, IndexedReceiver as _, IteratorMethods as _, MoreCalls as _, MoreMethods as _, NotTakenApart as _, NumberCalls as _, NumberMethods as _, Operated as _,
                OperatedAlone as _, OptionMethods as _, OrderingCalls as _, OrderingMethods as _, OwnIndexed as _, ResultMethods as _, OperatedAloneAsNumber as _, OperatedAsNumbers as _, RangeLength as _, RangeMethods as _,
                RefusedConversions as _, RefusedMethods as _, RefusedWithClosures as _, TakenApart as _, TakingMethods as _, RefusedOfDerived as _, RefusedOfHandles as _, RefusedOfNumbers as _, RefusedOfTiles as _,
                SliceMethods as _, UnsignedCalls as _, UnsignedMethods as _,
            };
        }
    }

    /// Notes the variables of a body that are exchanged. A shared array in one of these is a slice,
    /// so that the variable may change to another array.
    pub(crate) fn note_exchanged(&mut self, body: &Block) {
        self.exchanged = exchanged(body);
    }

    /// The function that binds a variable of a name.
    pub(crate) fn binder(&self, name: &Ident, is_mutable: bool) -> TokenStream {
        match is_mutable {
            false => quote!(bind),
            true if self.is_exchanged(name) => quote!(bind_exchanged),
            true => quote!(bind_mut),
        }
    }

    pub(crate) fn is_exchanged(&self, name: &Ident) -> bool {
        self.exchanged.contains(&name.to_string())
    }

    /// A name that is not the user's.
    pub(crate) fn fresh(&mut self, what: &str) -> Ident {
        self.names += 1;
        format_ident!("{what}{}", self.names, span = Span::mixed_site())
    }

    /// As [`fresh`](Self::fresh), for code on which rustc may report an error, or a launch a fault:
    /// these name the user's line.
    pub(crate) fn fresh_at(&mut self, what: &str, span: Span) -> Ident {
        self.names += 1;
        format_ident!("__quipu_{what}{}", self.names, span = span)
    }

    /// Writes something in a scope of its own.
    pub(crate) fn scoped<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.scopes.push(HashMap::new());
        let result = write(self);
        self.scopes.pop();
        result
    }

    pub(crate) fn define(&mut self, name: &Ident, kind: Kind) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), kind);
        }
    }

    pub(crate) fn lookup(&self, name: &Ident) -> Option<Kind> {
        let name = name.to_string();
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.get(&name).copied())
    }

    /// True of a variable's name, and not of a closure's.
    pub(crate) fn is_variable(&self, name: &Ident) -> bool {
        matches!(
            self.lookup(name),
            Some(
                Kind::Variable
                    | Kind::MutableVariable
                    | Kind::Unindexed(_)
                    | Kind::Positioned
                    | Kind::View
            )
        )
    }

    /// True of a closure's name.
    pub(crate) fn is_closure(&self, path: &Path) -> bool {
        matches!(
            self.variable(path),
            Some(Kind::Closure | Kind::ChangingClosure)
        )
    }

    /// The remedy for an index of something that has none, or is indexed by another.
    pub(crate) fn misindexed(&self, of: &Expr, index: &Expr) -> Option<&'static str> {
        let kind = |of: &Expr| match of {
            Expr::Path(path) => self.variable(&path.path),
            _ => None,
        };
        match (kind(of), of, index) {
            (Some(Kind::Unindexed(words)), ..) => Some(words),
            (_, Expr::Index(row), _) if kind(&row.expr) == Some(Kind::Positioned) => {
                Some(refuse::ROW_AND_COLUMN)
            }
            (Some(Kind::Positioned | Kind::View), _, Expr::Tuple(_)) => {
                Some(refuse::ROW_AND_COLUMN)
            }
            _ => None,
        }
    }

    /// The variable that a path is.
    pub(crate) fn variable(&self, path: &Path) -> Option<Kind> {
        self.lookup(path.get_ident()?)
    }

    /// Refuses something; the code in its place fits everywhere.
    pub(crate) fn refuse(&mut self, span: Span, words: impl std::fmt::Display) -> TokenStream {
        let error = syn::Error::new(span, words);
        // A pattern is looked at for its condition, and again for its variables.
        if self.refused.insert(format!("{span:?} {error}")) {
            self.keep(error);
        }
        quote_spanned!(span=> __quipu::never())
    }

    fn keep(&mut self, error: syn::Error) {
        match &mut self.refusals {
            Some(refusals) => refusals.combine(error),
            none => *none = Some(error),
        }
    }

    /// The refusals.
    pub(crate) fn refusals(&mut self) -> Option<syn::Error> {
        self.refusals.take()
    }

    /// The loop that `break` or `continue` means.
    pub(crate) fn target(&self, label: Option<&Lifetime>) -> Option<&LoopScope> {
        let mut loops = self.loops.iter().rev();
        match label {
            Some(label) => {
                let label = label.ident.to_string();
                loops.find(|scope| scope.label.as_ref() == Some(&label))
            }
            None => loops.find(|scope| !scope.is_block),
        }
    }

    /// The token of the innermost loop, of which there is one.
    pub(crate) fn this_loop(&self) -> Ident {
        let innermost = self.loops.last().map(|scope| scope.token.clone());
        innermost.expect("this is written within a loop")
    }

    /// The type of an expression of the user's type `user_type`.
    pub(crate) fn expression_type(&mut self, user_type: &Type) -> TokenStream {
        let handle = crate::signature::handle(user_type);
        quote!(__quipu::Expr<#handle>)
    }
}

/// The variables of a body that are swapped, or assigned a value that no barrier gives.
pub(crate) fn exchanged(body: &Block) -> HashSet<String> {
    struct Exchanged(HashSet<String>);
    impl Exchanged {
        fn note(&mut self, place: &Expr) {
            match place {
                Expr::Path(path) => {
                    self.0.extend(path.path.get_ident().map(Ident::to_string));
                }
                Expr::Reference(reference) => self.note(&reference.expr),
                Expr::Paren(paren) => self.note(&paren.expr),
                Expr::Tuple(tuple) => tuple.elems.iter().for_each(|part| self.note(part)),
                _ => {}
            }
        }
    }
    impl<'ast> Visit<'ast> for Exchanged {
        fn visit_expr_assign(&mut self, assign: &'ast ExprAssign) {
            if !matches!(*assign.right, Expr::Await(_)) {
                self.note(&assign.left);
            }
            visit::visit_expr_assign(self, assign);
        }

        fn visit_expr_call(&mut self, call: &'ast ExprCall) {
            if let Expr::Path(path) = &*call.func
                && let Some(last) = path.path.segments.last()
                && (last.ident == "swap" || last.ident == "replace")
            {
                call.args.iter().for_each(|argument| self.note(argument));
            }
            visit::visit_expr_call(self, call);
        }
    }
    let mut exchanged = Exchanged(HashSet::new());
    exchanged.visit_block(body);
    exchanged.0
}

/// Something of a type, for rustc to see and never to run.
pub(crate) fn witness(span: Span, value: &TokenStream) -> TokenStream {
    quote_spanned!(span=> if __quipu::DEAD { ::core::option::Option::Some(#value) } else { ::core::option::Option::None })
}

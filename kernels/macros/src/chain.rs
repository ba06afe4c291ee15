//! Iterators whose items go through closures, written as the loops that they stand for.
//!
//! Such a *chain* is the iterator that it goes over, its *stages*, and the consumer of the items.
//! It is a loop over the first, in whose body an item goes through the stages:
//!
//! ```text
//! x.iter().map(f).filter(g).fold(0.0, h)    →    let mut total = 0.0;
//!                                                for item in x.iter() {
//!                                                    let item = f(item);
//!                                                    if !g(&item) { continue; }
//!                                                    total = h(total, item);
//!                                                }
//! ```
//!
//! Adapters without closures are methods as any other, of the types of iterators that rustc finds
//! (`emit/adapt.rs`): they come before the stages.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, ExprMethodCall, Label, Token, parse_quote_spanned};

use crate::refuse;
use crate::scope::{Kind, Writer, witness};

/// A stage that an item goes through.
enum Stage {
    Closure(Adapter, Box<ExprClosure>),
    /// `copied` behind a closure.
    Copied(Span),
    /// `enumerate` behind a closure.
    Counted(Span),
    /// `zip`, with the stages that the parts of each item go through.
    Zipped(Span, [Vec<Stage>; 2]),
}

impl Stage {
    /// True if there are as many items behind it as before it.
    fn keeps_all(&self) -> bool {
        match self {
            Self::Closure(adapter, _) => matches!(adapter, Adapter::Map),
            Self::Copied(_) | Self::Counted(_) | Self::Zipped(..) => true,
        }
    }

    /// True if it makes each item of the one before it alone, of any number.
    fn is_of_items(&self) -> bool {
        self.keeps_all() && !matches!(self, Self::Counted(_))
    }
}

/// The use of a closure's value.
enum Adapter {
    Map,
    Filter,
    TakeWhile,
}

/// The consumer of a chain's items; some of these with a closure.
enum Consumer<'e> {
    Sum,
    Product,
    Count,
    /// From a first value on.
    Fold(&'e Expr),
    ForEach,
    /// True if a condition holds of one, or of all.
    Holds {
        of_all: bool,
    },
    /// The first of which it holds.
    Find,
    /// The number of that.
    Position,
    /// The last one.
    Last,
    /// The least or the greatest; by a function's value for each, or by a function that compares
    /// two.
    Extreme {
        is_least: bool,
        by: By,
    },
}

/// The thing that is compared for the least or the greatest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Itself,
    Key,
    Comparison,
}

/// True if an expression may be an iterator, and not an array or slice, which have methods of the
/// same names. For a variable its type tells, which is not known here.
fn may_be_iterator(expression: &Expr) -> bool {
    match expression {
        Expr::Paren(paren) => may_be_iterator(&paren.expr),
        Expr::Group(group) => may_be_iterator(&group.expr),
        Expr::Reference(reference) => may_be_iterator(&reference.expr),
        Expr::Path(path) => !path.path.is_ident("self"),
        Expr::MethodCall(call) => match &*call.method.to_string() {
            "iter" | "iter_mut" | "into_iter" | "elements" | "groups" | "uniform_elements"
            | "each" | "rows" | "own" => true,
            "map" | "filter" | "take_while" | "clone" | "copied" | "cloned" | "zip"
            | "enumerate" | "rev" | "step_by" | "skip" | "take" => may_be_iterator(&call.receiver),
            "windows" | "chunks" | "chunks_exact" => true,
            name => refuse::is_adapter(name) && may_be_iterator(&call.receiver),
        },
        Expr::Field(_)
        | Expr::Index(_)
        | Expr::Call(_)
        | Expr::Struct(_)
        | Expr::Tuple(_)
        | Expr::Unary(_)
        | Expr::Binary(_)
        | Expr::Cast(_)
        | Expr::Lit(_) => false,
        _ => true,
    }
}

/// True if only its type tells whether it is an iterator.
fn is_variable(expression: &Expr) -> bool {
    match expression {
        Expr::Paren(paren) => is_variable(&paren.expr),
        Expr::Path(path) => path.path.get_ident().is_some(),
        _ => false,
    }
}

/// A closure that calls a function with so many arguments.
fn called(function: &Expr, arguments: usize) -> ExprClosure {
    let span = function.span();
    let names = ["__first", "__second"].map(|name| Ident::new(name, span));
    let names = &names[..arguments];
    parse_quote_spanned!(span=> |#(#names),*| #function(#(#names),*))
}

impl Writer {
    /// The expression that an iterator goes over, and the stages behind it.
    fn chain(&self, iterator: &Expr) -> (Expr, Vec<Stage>) {
        let none = || (iterator.clone(), Vec::new());
        let call = match iterator {
            Expr::Paren(paren) => return self.chain(&paren.expr),
            Expr::MethodCall(call) => call,
            _ => return none(),
        };
        if !may_be_iterator(&call.receiver) {
            return none();
        }
        let (over, mut stages) = self.chain(&call.receiver);
        let span = call.method.span();
        // Adapters without closures are applied to the iterator that is gone over, where the
        // closures make no difference.
        let adapted = |over: Expr, method: Ident, arguments: Punctuated<Expr, Token![,]>| {
            Expr::MethodCall(ExprMethodCall {
                receiver: Box::new(over),
                method,
                args: arguments,
                ..call.clone()
            })
        };
        let adapter = match &*call.method.to_string() {
            "map" => Adapter::Map,
            "filter" => Adapter::Filter,
            "take_while" => Adapter::TakeWhile,
            "copied" | "cloned" if !stages.is_empty() => {
                stages.push(Stage::Copied(span));
                return (over, stages);
            }
            "enumerate" if !stages.is_empty() => {
                stages.push(Stage::Counted(span));
                return (over, stages);
            }
            "rev" | "skip" | "take" | "step_by"
                if !stages.is_empty() && stages.iter().all(Stage::is_of_items) =>
            {
                return (
                    adapted(over, call.method.clone(), call.args.clone()),
                    stages,
                );
            }
            "zip" if let Some(other) = call.args.first() => {
                let (other, of_other) = self.chain(other);
                let mut all = stages.iter().chain(&of_other);
                if stages.is_empty() && of_other.is_empty() || !all.all(Stage::keeps_all) {
                    return none();
                }
                // Behind closures a thread's own elements do not tell natively of which extent they
                // are.
                let method = match stages.is_empty() {
                    true => call.method.clone(),
                    false => Ident::new("zip_behind", span),
                };
                let over = adapted(over, method, std::iter::once(other).collect());
                return (over, vec![Stage::Zipped(span, [stages, of_other])]);
            }
            _ => return none(),
        };
        let Some(function) = call.args.first().and_then(|of| self.function(of, 1)) else {
            return none();
        };
        stages.push(Stage::Closure(adapter, Box::new(function)));
        (over, stages)
    }

    /// A closure that is passed to an iterator, or that calls the function which is.
    fn function(&self, argument: &Expr, arguments: usize) -> Option<ExprClosure> {
        match argument {
            Expr::Closure(closure) => Some(closure.clone()),
            Expr::Reference(reference) => match &*reference.expr {
                // Of one that changes its own there is one then.
                closure @ Expr::Path(path)
                    if self.variable(&path.path) == Some(Kind::ChangingClosure) =>
                {
                    Some(called(closure, arguments))
                }
                closure => self.function(closure, arguments),
            },
            Expr::Path(path) => {
                let is_function = match self.variable(&path.path) {
                    Some(kind) => kind == Kind::Closure,
                    None => {
                        let name = path.path.segments.last()?.ident.to_string();
                        name.starts_with(char::is_lowercase)
                    }
                };
                is_function.then(|| called(argument, arguments))
            }
            _ => None,
        }
    }

    /// The consumer of an iterator's items, if a call is of such a method and the items go through
    /// closures: also the closure that the consumer itself calls, if any.
    fn consumer<'e>(
        &self,
        call: &'e ExprMethodCall,
    ) -> Option<(Consumer<'e>, Option<ExprClosure>)> {
        let arguments: Vec<_> = call.args.iter().collect();
        let has_stages = || !self.chain(&call.receiver).1.is_empty();
        let (consumer, function) = match (&*call.method.to_string(), &arguments[..]) {
            ("sum", []) if has_stages() => return Some((Consumer::Sum, None)),
            ("product", []) if has_stages() => return Some((Consumer::Product, None)),
            ("count", []) if has_stages() => return Some((Consumer::Count, None)),
            ("fold", [first, function]) => (Consumer::Fold(first), self.function(function, 2)),
            ("for_each", [function]) => (Consumer::ForEach, self.function(function, 1)),
            ("find", [condition]) => (Consumer::Find, self.function(condition, 1)),
            ("position", [condition]) => (Consumer::Position, self.function(condition, 1)),
            ("last", []) if has_stages() => return Some((Consumer::Last, None)),
            (name @ ("min" | "max"), []) if has_stages() => {
                let (is_least, by) = (name == "min", By::Itself);
                return Some((Consumer::Extreme { is_least, by }, None));
            }
            (name @ ("min_by_key" | "max_by_key"), [key]) => {
                let (is_least, by) = (name == "min_by_key", By::Key);
                (Consumer::Extreme { is_least, by }, self.function(key, 1))
            }
            (name @ ("min_by" | "max_by"), [compare]) => {
                let (is_least, by) = (name == "min_by", By::Comparison);
                (
                    Consumer::Extreme { is_least, by },
                    self.function(compare, 2),
                )
            }
            (name @ ("any" | "all"), [condition]) => {
                let of_all = name == "all";
                (Consumer::Holds { of_all }, self.function(condition, 1))
            }
            _ => return None,
        };
        Some((consumer, Some(function?)))
    }

    /// A call of a method of iterators with closures, if it is seen to be one: those that kernels
    /// do not know are refused.
    pub(crate) fn iteration(&mut self, call: &ExprMethodCall) -> Option<TokenStream> {
        if !may_be_iterator(&call.receiver) {
            return None;
        }
        let takes_closure = call.args.iter().any(|e| matches!(e, Expr::Closure(_)));
        // A method as any other, of the type that it is of.
        if takes_closure && is_variable(&call.receiver) {
            return None;
        }
        if let Some((consumer, function)) = self.consumer(call) {
            return Some(self.consumed(call, &consumer, function.as_ref()));
        }
        if call.method == "collect" && !self.chain(&call.receiver).1.is_empty() {
            return Some(self.refuse(call.method.span(), refuse::COLLECTS));
        }
        if !takes_closure {
            return None;
        }
        let words = match &*call.method.to_string() {
            "reduce" => refuse::REDUCES,
            "map" | "filter" | "take_while" => refuse::STAGES,
            name if refuse::is_adapter(name) => refuse::ADAPTERS,
            _ => return None,
        };
        Some(self.refuse(call.method.span(), words))
    }

    fn consumed(
        &mut self,
        call: &ExprMethodCall,
        consumer: &Consumer,
        function: Option<&ExprClosure>,
    ) -> TokenStream {
        let (span, generics) = (call.method.span(), &call.turbofish);
        let total = self.fresh_at("total", span);
        let begins = match consumer {
            Consumer::Sum => quote_spanned!(span=> __quipu::sum #generics()),
            Consumer::Product => quote_spanned!(span=> __quipu::product #generics()),
            Consumer::Count => quote_spanned!(span=> __quipu::sum::<::core::primitive::usize>()),
            Consumer::Fold(first) => {
                let first = self.expression(first);
                quote_spanned!(span=> __quipu::bind_mut("total", __quipu::value(#first)))
            }
            Consumer::ForEach => quote!(__quipu::nothing()),
            Consumer::Holds { of_all } => {
                quote_spanned!(span=> __quipu::bind_mut("holds", __quipu::lit(#of_all)))
            }
            Consumer::Find | Consumer::Position | Consumer::Last | Consumer::Extreme { .. } => {
                quote_spanned!(span=> __quipu::bind_mut("found", __quipu::none()))
            }
        };
        let count = self.fresh("count");
        let counted = match consumer {
            Consumer::Position => {
                quote_spanned!(span=> let #count = __quipu::bind_mut("count", __quipu::lit(0usize));)
            }
            _ => TokenStream::new(),
        };
        let function = function.map(|function| self.closure_parts(function));
        let (captured, function) = function.unwrap_or_default();
        let begins = quote!(let #total = #begins; #counted #captured);
        let iterator = &call.receiver;
        let counts = matches!(consumer, Consumer::Position).then_some(span);
        let begins = (&begins, counts);
        let looped = self.looped(span, None, iterator, begins, |this, item| match consumer {
            Consumer::Sum => quote_spanned!(span=> __quipu::add(#total, #item)),
            Consumer::Product => quote_spanned!(span=> __quipu::multiply(#total, #item)),
            Consumer::Count => {
                quote_spanned!(span=> __quipu::add(#total, __quipu::lit(1usize)))
            }
            Consumer::Fold(_) => quote_spanned!(span=>
                __quipu::assign(#total, __quipu::combined(__quipu::value(#total), #item, #function))
            ),
            Consumer::ForEach => {
                quote_spanned!(span=> __quipu::discard(__quipu::applied(#item, #function)))
            }
            Consumer::Find => {
                let token = this.this_loop();
                quote_spanned!(span=> __quipu::find(#total, #item, __quipu::applied(#item, #function), #token))
            }
            Consumer::Position => {
                let token = this.this_loop();
                quote_spanned!(span=> {
                    __quipu::find(#total, __quipu::value(#count), __quipu::applied(#item, #function), #token);
                    __quipu::add(#count, __quipu::lit(1usize))
                })
            }
            Consumer::Last => {
                quote_spanned!(span=> __quipu::assign(#total, __quipu::some(#item)))
            }
            Consumer::Extreme { is_least, by } => match by {
                By::Itself => quote_spanned!(span=> __quipu::extreme(#total, #item, #is_least)),
                By::Key => {
                    quote_spanned!(span=> __quipu::extreme_by_key(#total, #item, __quipu::applied(#item, #function), #is_least))
                }
                By::Comparison => {
                    quote_spanned!(span=> __quipu::extreme_by(#total, #item, #function, #is_least))
                }
            },
            Consumer::Holds { of_all } => {
                let token = this.this_loop();
                quote_spanned!(span=>
                    __quipu::settle(#total, __quipu::applied(#item, #function), #of_all, #token)
                )
            }
        });
        let result = match consumer {
            Consumer::Extreme { by: By::Key, .. } => {
                quote_spanned!(span=> __quipu::without_key(#total))
            }
            _ => quote_spanned!(span=> __quipu::value(#total)),
        };
        quote_spanned!(span=> { #looped; #result })
    }

    /// A loop over an iterator: statements, of which the last gives nothing. The beginning is
    /// written between the expression that it goes over and the loop, with the place of what counts
    /// the items, if anything does. The body is told the name of an item.
    pub(crate) fn looped(
        &mut self,
        span: Span,
        label: Option<&Label>,
        iterator: &Expr,
        (begins, counts): (&TokenStream, Option<Span>),
        body: impl FnOnce(&mut Self, &Ident) -> TokenStream,
    ) -> TokenStream {
        let (over, stages) = self.chain(iterator);
        let over = self.expression(&over);
        let (mut before, mut within) = (TokenStream::new(), TokenStream::new());
        let first = self.fresh("item");
        let (token, body) = self.body(label, false, |this| {
            let (token, mut item) = (this.this_loop(), first.clone());
            for stage in &stages {
                let (captured, written) = this.stage(stage, &mut item, &token);
                before.extend(captured);
                within.extend(written);
            }
            body(this, &item)
        });
        if before.is_empty() && begins.is_empty() && within.is_empty() {
            return quote_spanned!(span=>
                let (#token, #first) = __quipu::begin_for(#over);
                #body;
                __quipu::end_loop(#token)
            );
        }
        let counts = counts.or_else(|| {
            stages.iter().find_map(|stage| match stage {
                Stage::Counted(span) => Some(*span),
                _ => None,
            })
        });
        let source = self.fresh_at("source", counts.unwrap_or(span));
        let counts = counts.map(|span| quote_spanned!(span=> __quipu::counted_alike(#source);));
        quote_spanned!(span=>
            let #source = __quipu::iterator(#over);
            #counts
            #before
            #begins
            let (#token, #first) = __quipu::begin_for(#source);
            #within
            #body;
            __quipu::end_loop(#token)
        )
    }

    /// Writes a stage that an item goes through in a loop, and sets `item` to the variable with its
    /// result. Gives the statements before the loop, and those in it.
    fn stage(
        &mut self,
        stage: &Stage,
        item: &mut Ident,
        token: &Ident,
    ) -> (TokenStream, TokenStream) {
        match stage {
            Stage::Closure(adapter, function) => {
                let span = function.span();
                let (captured, function) = self.closure_parts(function);
                let given = quote_spanned!(span=> __quipu::applied(#item, #function));
                let written = match adapter {
                    Adapter::Map => {
                        *item = self.fresh("item");
                        quote_spanned!(span=> let #item = #given;)
                    }
                    Adapter::Filter => {
                        quote_spanned!(span=> __quipu::continue_unless(#given, #token);)
                    }
                    Adapter::TakeWhile => {
                        quote_spanned!(span=> __quipu::break_unless(#given, #token);)
                    }
                };
                (captured, written)
            }
            Stage::Copied(span) => {
                let before = std::mem::replace(item, self.fresh("item"));
                let copied = quote_spanned!(*span=>
                    let #item = __quipu::value(__quipu::dereference(#before));
                );
                (TokenStream::new(), copied)
            }
            Stage::Counted(span) => {
                let (before, count) = (item.clone(), self.fresh("count"));
                *item = self.fresh("item");
                let begins = quote_spanned!(*span=>
                    let #count = __quipu::bind_mut("count", __quipu::lit(0usize));
                );
                (
                    begins,
                    quote_spanned!(*span=> let #item = __quipu::counted(#count, #before);),
                )
            }
            Stage::Zipped(span, stages) => {
                let (mut begins, mut written) = (TokenStream::new(), TokenStream::new());
                let mut parts = Vec::new();
                for (at, stages) in stages.iter().enumerate() {
                    let (member, mut part) = (syn::Index::from(at), self.fresh("part"));
                    let witness = witness(*span, &quote!(&__quipu::w_ref(#item).#member));
                    written.extend(
                        quote_spanned!(*span=> let #part = __quipu::part(#item, #at, #witness);),
                    );
                    for stage in stages {
                        let (before, within) = self.stage(stage, &mut part, token);
                        begins.extend(before);
                        written.extend(within);
                    }
                    parts.push(part);
                }
                *item = self.fresh("item");
                written.extend(quote_spanned!(*span=> let #item = __quipu::paired(#(#parts),*);));
                (begins, written)
            }
        }
    }
}

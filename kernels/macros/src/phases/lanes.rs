//! Phases whose threads can go side by side.
//!
//! Between two barriers no thread sees what another does, so neighbours may go through a phase
//! together: each variable is then an array of one element for each, and each statement a loop over
//! them, which is compiled to vectors. A `for` loop that goes round equally often for all threads
//! is outside of that loop, and its variables stay in registers:
//!
//! ```text
//! for each thread {                              for each 16 threads {
//!     let mut sum = …;                               let mut sum = [… of each];
//!     for k in 0..TILE {                             if a_read and b_read have all that is read below {
//!         sum += a_read[i * TILE + k]        →           for k in 0..TILE {
//!             * b_read[k * TILE + j];                        for each of them {
//!     }                                                          sum[…] += *element(a_read, i * TILE + k) * …;
//!     … = sum;
//! }
//! ```
//!
//! Where that is worth it, and how it is kept right:
//!
//! 1. An element that is read has to be the same for neighbours, or the next: indices are sums in
//!    which the thread's last index occurs once, by itself.
//! 2. Such a sum, of `usize` that are added and multiplied (or of which something is taken away
//!    that does not change), grows with the thread and the round. So the first thread's in the
//!    first round and the last's in the last, in arithmetic that notices overflow, say whether all
//!    between are inside.
//! 3. Conditions compare such sums. One that has the same answer there has it between, too.
//! 4. Of raw arrays the same is asked where they are written. Each thread does all in its own
//!    order, as no thread reaches what another one writes in the phase.
//! 5. If any of that does not hold (at borders, and where the kernel is about to fail), each of the
//!    threads goes alone, as the kernel says.
//!
//! What is checked and what is read unchecked must be one number, and names and operators mean what
//! rustc says, not what they look like. So:
//!
//! 1. An index that is read unchecked is not the user's expression. It is written anew, of library
//!    questions, of the rounds' counters, and of the values that its names had as the phase began,
//!    if these are `usize` by type; else the threads go alone.
//! 2. The bounds of the loops are computed once for a phase, and serve the check and the loops.
//! 3. No name that a phase of rounds binds hides one from around ([`Reader::is_hiding`]).
//! 4. What is asked and done for threads are inherent methods of the library's type, and the names
//!    that are written here are of this macro alone (`written!`). So nothing of the kernel's crate, a
//!    trait, a module or a variable, can stand in their place.
//! 5. Origins and units of indices, and what all threads read, are asked for by their types
//!    ([`witnesses`](super::witnesses)).

use std::collections::{BTreeSet, HashMap, HashSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::visit::Visit;
use syn::{BinOp, Expr, ExprIf, ExprMethodCall, Ident, Lit, Member, Path, Stmt, UnOp};

use super::structure::{Handles, Named};
use super::uniform::{Indexed, Names, bound_by, is_plain_method, is_pure, is_read};
use crate::expression::is_assignment;
use crate::signature::{Parameter, Passing};

/// A phase whose threads go side by side.
pub(super) struct Lanes {
    /// The loops around them, the outermost first: the counter of each, and its bounds.
    pub(super) rounds: Vec<Round>,
    /// The statements of each.
    pub(super) statements: Vec<Stmt>,
    /// The conditions on the first and on the last, or `'__fits` is broken with `None`; sets
    /// `__guards`.
    pub(super) check: TokenStream,
    /// The number of conditions.
    pub(super) guards: usize,
    /// The values that indices are made of, with the names of their `Option<usize>`.
    pub(super) taken: Vec<(Ident, TokenStream)>,
    /// Arrays of whose own elements each thread has one.
    pub(super) own: BTreeSet<Ident>,
}

/// A loop around threads.
pub(super) struct Round {
    pub(super) name: Ident,
    pub(super) from: Expr,
    pub(super) to: Expr,
}

/// The known facts of a kernel.
pub(super) struct Known<'k> {
    pub(super) krate: &'k Path,
    pub(super) names: &'k Names,
    pub(super) parameters: &'k [Parameter],
    /// The number of its dimensions, if that is a number.
    pub(super) dimensions: Option<usize>,
}

impl Known<'_> {
    /// The statements of a phase for threads that go side by side, if they can. `visible` are the
    /// names around.
    pub(super) fn lanes(
        &self,
        statements: &[Stmt],
        handles: &Handles,
        visible: &[Ident],
    ) -> Option<Lanes> {
        let mut reader = Reader {
            known: self,
            dimensions: self.dimensions?,
            handles,
            visible,
            locals: HashMap::new(),
            lanes: Lanes {
                rounds: Vec::new(),
                statements: statements.to_vec(),
                check: TokenStream::new(),
                guards: 0,
                taken: Vec::new(),
                own: BTreeSet::new(),
            },
        };
        while let [Stmt::Expr(Expr::ForLoop(looped), _)] = &reader.lanes.statements[..] {
            let looped = looped.clone();
            reader.round(looped)?;
        }
        let mut statements = std::mem::take(&mut reader.lanes.statements);
        for statement in &mut statements {
            reader.statement(statement)?;
        }
        // The others would only be in the way of type inference.
        let (mut used, check) = (HashSet::new(), &reader.lanes.check);
        words_of(quote!(#(#statements)* #check), &mut used);
        reader.lanes.taken.retain(|(name, _)| used.contains(name));
        reader.lanes.statements = statements;
        Some(reader.lanes)
    }
}

/// An index, as it is for one thread in one round.
#[derive(Clone)]
struct Sum {
    /// Its value, an `Option<usize>`.
    value: TokenStream,
    /// The same value where it is known to be one, an `usize`. It says the same wherever it stands
    /// in the phase, as nothing is hidden there.
    index: TokenStream,
    /// Each thread's is one more than that of the thread before.
    is_next: bool,
    /// It may be another in each round.
    turns: bool,
    /// It is an `usize` for sure.
    is_usize: bool,
}

struct Reader<'r> {
    known: &'r Known<'r>,
    dimensions: usize,
    handles: &'r Handles,
    visible: &'r [Ident],
    /// The names that have been bound; one is an index if it has a value here.
    locals: HashMap<Ident, Option<Sum>>,
    lanes: Lanes,
}

impl Reader<'_> {
    fn round(&mut self, looped: syn::ExprForLoop) -> Option<()> {
        let mut range = &*looped.expr;
        while let Expr::Paren(inner) = range {
            range = &inner.expr;
        }
        let (Expr::Range(range), None) = (range, looped.label) else {
            return None;
        };
        let syn::RangeLimits::HalfOpen(_) = range.limits else {
            return None;
        };
        let [name] = &bound_by(&looped.pat)?[..] else {
            return None;
        };
        let (from, to) = (range.start.as_ref()?, range.end.as_ref()?);
        let names = self.known.names;
        let mut bounds = Named::default();
        bounds.visit_expr(from);
        bounds.visit_expr(to);
        // These are computed before any round.
        let is_of_round = self
            .lanes
            .rounds
            .iter()
            .any(|of| bounds.0.contains(&of.name));
        let is_uniform = names.is_uniform(from) && names.is_uniform(to) && !is_of_round;
        if self.is_hiding(name) || names.is_mutable(name) || !is_uniform {
            return None;
        }
        self.lanes.rounds.push(Round {
            name: name.clone(),
            from: (**from).clone(),
            to: (**to).clone(),
        });
        self.lanes.statements = looped.body.stmts;
        Some(())
    }

    /// True if a name that is bound would hide another.
    fn is_hiding(&self, name: &Ident) -> bool {
        self.visible.contains(name) || *name == self.known.names.acc || self.turns(name)
    }

    fn statement(&mut self, statement: &mut Stmt) -> Option<()> {
        match statement {
            Stmt::Local(local) => {
                let init = local.init.as_mut().filter(|init| init.diverge.is_none())?;
                let bound = bound_by(&local.pat)?;
                // Those of a phase without rounds are visible themselves, and hide nothing, as
                // `structure` sees to.
                let is_within = !self.lanes.rounds.is_empty();
                if is_within && bound.iter().any(|name| self.is_hiding(name)) {
                    return None;
                }
                let sum = match &bound[..] {
                    [name] if !self.known.names.is_mutable(name) => self.sum(&init.expr),
                    _ => None,
                };
                self.expression(&mut init.expr)?;
                for name in bound {
                    let is_again = self.locals.insert(name, sum.clone()).is_some();
                    if is_again {
                        return None;
                    }
                }
                Some(())
            }
            Stmt::Expr(Expr::If(condition), _) => {
                self.condition(condition, &mut |reader, block| {
                    block
                        .stmts
                        .iter_mut()
                        .try_for_each(|statement| match statement {
                            Stmt::Local(_) => None,
                            _ => reader.statement(statement),
                        })
                })
            }
            Stmt::Expr(Expr::Unsafe(inner), _) => {
                let mut statements = inner.block.stmts.iter_mut();
                statements.try_for_each(|statement| match statement {
                    Stmt::Local(_) => None,
                    _ => self.statement(statement),
                })
            }
            Stmt::Expr(Expr::MethodCall(call), _) if call.method == "write" => self.raw(call),
            Stmt::Expr(Expr::Assign(assign), _) => {
                self.place(&mut assign.left)?;
                self.expression(&mut assign.right)
            }
            Stmt::Expr(Expr::Binary(binary), _) if is_assignment(&binary.op) => {
                self.place(&mut binary.left)?;
                self.expression(&mut binary.right)
            }
            _ => None,
        }
    }

    /// Reads the place that is assigned.
    fn place(&mut self, place: &mut Expr) -> Option<()> {
        if let Some(own) = self.own(place) {
            *place = own;
            return Some(());
        }
        match &*place {
            Expr::Path(path) => {
                let name = path.path.get_ident()?;
                self.known.names.is_mutable(name).then_some(())
            }
            Expr::Index(index) => match &*index.expr {
                Expr::Path(path) => {
                    let name = path.path.get_ident()?;
                    number(&index.index)?;
                    (self.known.names.is_mutable(name) && !self.is_view(&index.expr)).then_some(())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// An access to a raw array, by an index that is known to be inside.
    fn raw(&mut self, call: &mut ExprMethodCall) -> Option<()> {
        if !self.is_raw(&call.receiver) {
            return None;
        }
        let mut arguments = call.args.iter_mut();
        let at = arguments.next()?;
        let sum = self.sum(at)?;
        let (array, value) = (call.receiver.clone(), self.value(&sum));
        self.lanes.check.extend(written! {
            if !__blocks.raw_has(&#array, #value) {
                break '__fits __blocks.none();
            }
        });
        // As in `index`.
        let (krate, index, said) = (self.known.krate, &sum.index, &*at);
        *at = Expr::Verbatim(written!({
            let _ = || {
                let _: #krate::__macro::core::primitive::usize = #said;
            };
            #index
        }));
        arguments.try_for_each(|value| self.expression(value))?;
        *call.receiver = Expr::Verbatim(written!(__blocks));
        call.args.insert(0, Expr::Verbatim(written!(&#array)));
        call.method = format_ident!("raw_{}", call.method);
        Some(())
    }

    /// The variable that stands for a thread's own element of a shared array.
    fn own(&mut self, expression: &Expr) -> Option<Expr> {
        let Expr::Index(index) = expression else {
            return None;
        };
        let (Expr::MethodCall(call), Some(0)) = (&*index.expr, number(&index.index)) else {
            return None;
        };
        let Expr::Path(path) = &*call.receiver else {
            return None;
        };
        let name = path.path.get_ident()?;
        if call.method != "own" || self.handles.get(name).is_none_or(|of| of.is_read) {
            return None;
        }
        self.lanes.own.insert(name.clone());
        let own = own_name(name);
        Some(Expr::Verbatim(own.into_token_stream()))
    }

    fn condition(
        &mut self,
        condition: &mut ExprIf,
        block: &mut dyn FnMut(&mut Self, &mut syn::Block) -> Option<()>,
    ) -> Option<()> {
        self.guard(&mut condition.cond)?;
        let before = std::mem::take(&mut self.lanes.check);
        block(self, &mut condition.then_branch)?;
        let then = std::mem::take(&mut self.lanes.check);
        match &mut condition.else_branch {
            None => {}
            Some((_, otherwise)) => match &mut **otherwise {
                Expr::Block(otherwise) if otherwise.label.is_none() => {
                    block(self, &mut otherwise.block)?;
                }
                Expr::If(otherwise) => self.condition(otherwise, block)?,
                _ => return None,
            },
        }
        let otherwise = std::mem::take(&mut self.lanes.check);
        let cond = &condition.cond;
        self.lanes.check = written!(#before if #cond { #then } else { #otherwise });
        Some(())
    }

    /// Makes a condition one of what has been found out before.
    fn guard(&mut self, condition: &mut Expr) -> Option<()> {
        match condition {
            Expr::Paren(inner) => self.guard(&mut inner.expr),
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
                self.guard(&mut binary.left)?;
                self.guard(&mut binary.right)
            }
            Expr::Binary(binary) => {
                let (BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_)) = binary.op else {
                    return None;
                };
                let (left, right) = (self.sum(&binary.left)?, self.sum(&binary.right)?);
                let changes = |sum: &Sum| sum.is_next || sum.turns;
                // Of two that change the difference may come and go.
                if changes(&left) && changes(&right) || !left.is_usize && !right.is_usize {
                    return None;
                }
                let (left, right, operator) = (self.value(&left), self.value(&right), &binary.op);
                let number = self.lanes.guards;
                self.lanes.guards += 1;
                self.lanes.check.extend(written! {
                    __guards[#number] = #left #operator #right;
                });
                *condition = Expr::Verbatim(written!(__guards[#number]));
                Some(())
            }
            _ => None,
        }
    }

    /// The value of an index, or everything is left.
    fn value(&self, sum: &Sum) -> TokenStream {
        let value = &sum.value;
        let krate = self.known.krate;
        written!(match #value {
            #krate::__macro::core::option::Option::Some(__value) => __value,
            _ => break '__fits __blocks.none(),
        })
    }

    fn expression(&mut self, expression: &mut Expr) -> Option<()> {
        if self.known.names.is_uniform(expression) && !self.is_view(expression) {
            return Some(());
        }
        if let Some(own) = self.own(expression) {
            *expression = own;
            return Some(());
        }
        match expression {
            Expr::Lit(_) => Some(()),
            Expr::Path(_) => (!self.is_view(expression)).then_some(()),
            Expr::Paren(inner) => self.expression(&mut inner.expr),
            Expr::Group(inner) => self.expression(&mut inner.expr),
            Expr::Cast(cast) => self.expression(&mut cast.expr),
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                self.expression(&mut unary.expr)
            }
            Expr::Binary(binary) if !is_assignment(&binary.op) => {
                self.expression(&mut binary.left)?;
                self.expression(&mut binary.right)
            }
            Expr::Tuple(tuple) => tuple
                .elems
                .iter_mut()
                .try_for_each(|of| self.expression(of)),
            Expr::Array(array) => array
                .elems
                .iter_mut()
                .try_for_each(|of| self.expression(of)),
            Expr::Repeat(repeat) => self.expression(&mut repeat.expr),
            Expr::Field(field) => match field.member {
                Member::Named(_) | Member::Unnamed(_) => self.expression(&mut field.base),
            },
            Expr::Call(call) => {
                let Expr::Path(_) = &*call.func else {
                    return None;
                };
                call.args.iter_mut().try_for_each(|of| self.expression(of))
            }
            Expr::Unsafe(inner) => match &mut inner.block.stmts[..] {
                [Stmt::Expr(tail, None)] => self.expression(tail),
                _ => None,
            },
            Expr::MethodCall(call) if call.method == "read" && self.is_raw(&call.receiver) => {
                self.raw(call)
            }
            Expr::MethodCall(call) if is_pure(&call.method) || is_plain_method(&call.method) => {
                self.expression(&mut call.receiver)?;
                call.args.iter_mut().try_for_each(|of| self.expression(of))
            }
            Expr::If(condition) => {
                condition.else_branch.as_ref()?;
                self.condition(condition, &mut |reader, block| match &mut block.stmts[..] {
                    [Stmt::Expr(tail, None)] => reader.expression(tail),
                    _ => None,
                })
            }
            Expr::Index(_) => self.index(expression),
            _ => None,
        }
    }

    fn index(&mut self, expression: &mut Expr) -> Option<()> {
        // A thread's own indices.
        if self.sum(expression).is_some() {
            return Some(());
        }
        let Expr::Index(index) = &*expression else {
            return None;
        };
        if !self.is_view(&index.expr) {
            let Expr::Path(_) = &*index.expr else {
                return None;
            };
            return number(&index.index).map(|_| ());
        }
        if !self.is_readable(&index.expr) {
            return None;
        }
        let parts: Vec<&Expr> = match &*index.index {
            Expr::Array(array) => array.elems.iter().collect(),
            index => vec![index],
        };
        let sums: Vec<Sum> = parts
            .iter()
            .map(|part| self.sum(part))
            .collect::<Option<_>>()?;
        let (_, outer) = sums.split_last()?;
        if outer.iter().any(|sum| sum.is_next) {
            return None;
        }
        let base = &index.expr;
        let values = sums.iter().map(|sum| self.value(sum));
        let check = written! {
            if !__blocks.has(&#base, [#(#values),*]) {
                break '__fits __blocks.none();
            }
        };
        self.lanes.check.extend(check);
        let indices = sums.iter().map(|sum| &sum.index);
        // SAFETY: `has` was asked of the same container, as nothing hides its name, for the first
        // and the last thread and round. `Sum::index` is what `Sum::value` was there, and between
        // these it is between: sums of `usize` grow with the thread and the round. This is never
        // called. It gives numbers without a type the one that the kernel's index has.
        let said = &*expression;
        *expression = Expr::Verbatim(written! {
            (*{
                let _ = || {
                    let _ = &#said;
                };
                unsafe { __blocks.element(&#base, [#(#indices),*]) }
            })
        });
        Some(())
    }

    /// True if it is the name of memory that all threads read.
    fn is_readable(&self, expression: &Expr) -> bool {
        let Expr::Path(path) = expression else {
            return false;
        };
        path.path.get_ident().is_some_and(|name| {
            self.handles.get(name).is_some_and(|handle| handle.is_read)
                || self.known.parameters.iter().any(|parameter| {
                    parameter.name == *name
                        && matches!(parameter.passing, Passing::View)
                        && is_read(parameter)
                })
        })
    }

    /// True if it is the name of a raw array.
    fn is_raw(&self, expression: &Expr) -> bool {
        let Expr::Path(path) = expression else {
            return false;
        };
        path.path
            .get_ident()
            .is_some_and(|name| self.known.names.is_raw(name) && !self.handles.contains_key(name))
    }

    /// True if it is the name of memory that is handed out.
    fn is_view(&self, expression: &Expr) -> bool {
        let Expr::Path(path) = expression else {
            return false;
        };
        path.path.get_ident().is_some_and(|name| {
            self.handles.contains_key(name)
                || self.known.parameters.iter().any(|parameter| {
                    parameter.name == *name && !matches!(parameter.passing, Passing::Value)
                })
        })
    }

    /// A value that is an index if it is an `usize`, or a reference to one: the type tells.
    fn taken(&mut self, of: TokenStream, is_usize: bool) -> Sum {
        let text = of.to_string();
        let known = self.lanes.taken.iter();
        let known = known.filter(|(_, other)| other.to_string() == text);
        let name = match known.map(|(name, _)| name.clone()).next() {
            Some(name) => name,
            None => {
                let name = name(format_args!("__taken_{}", self.lanes.taken.len()));
                self.lanes.taken.push((name.clone(), of));
                name
            }
        };
        Sum {
            index: written!(__blocks.known(#name)),
            value: name.into_token_stream(),
            is_next: false,
            turns: false,
            is_usize,
        }
    }

    fn sum(&mut self, expression: &Expr) -> Option<Sum> {
        // What is an `usize`, and the same wherever it is asked for in one thread and round.
        let leaf = |value: TokenStream, is_usize: bool| Sum {
            value: written!(__blocks.whole(#value)),
            index: value,
            is_next: false,
            turns: false,
            is_usize,
        };
        // The library's answer, if the kernel's expression says the same.
        let answer = |answer: TokenStream| Sum {
            value: written!(__blocks.same(&#expression, #answer)),
            ..leaf(answer, true)
        };
        // An `Option` that has a value in every round.
        let counter = |value: TokenStream, is_usize: bool| Sum {
            index: written!(__blocks.known(#value)),
            turns: true,
            ..Sum {
                value,
                ..leaf(TokenStream::new(), is_usize)
            }
        };
        match expression {
            Expr::Paren(inner) => self.sum(&inner.expr),
            Expr::Group(inner) => self.sum(&inner.expr),
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(int) if ["", "usize"].contains(&int.suffix()) => {
                    Some(leaf(int.to_token_stream(), false))
                }
                _ => None,
            },
            Expr::Path(path) => {
                let Some(name) = path.path.get_ident() else {
                    return Some(self.taken(path.to_token_stream(), false));
                };
                if let Some(sum) = self.locals.get(name) {
                    return sum.clone();
                }
                if self.turns(name) {
                    return Some(counter(written!(__blocks.index(&#name)), false));
                }
                match self.known.names.value_again(name) {
                    Some(value) => self.sum(value),
                    None => (self.known.names.is_uniform(expression) && !self.is_view(expression))
                        .then(|| self.taken(name.to_token_stream(), false)),
                }
            }
            Expr::Cast(cast) => {
                let (Expr::Path(path), syn::Type::Path(to)) = (&*cast.expr, &*cast.ty) else {
                    return None;
                };
                let name = path.path.get_ident()?;
                if !to.path.is_ident("usize") || self.locals.contains_key(name) {
                    return None;
                }
                if self.turns(name) {
                    return Some(counter(written!(__blocks.cast(#name)), true));
                }
                (self.known.names.is_uniform(&cast.expr)).then(|| self.taken(quote!((#cast)), true))
            }
            Expr::MethodCall(call)
                if call.method == "len"
                    && (self.is_readable(&call.receiver) || self.is_raw(&call.receiver)) =>
            {
                let of = &call.receiver;
                Some(answer(match self.is_raw(of) {
                    true => written!(__blocks.raw_len(&#of)),
                    false => written!(__blocks.len(&#of)),
                }))
            }
            Expr::Index(index) => {
                let (Expr::MethodCall(call), Some(dimension)) =
                    (&*index.expr, number(&index.index))
                else {
                    return None;
                };
                if call.method == "extent" && self.is_readable(&call.receiver) {
                    let of = &call.receiver;
                    return Some(answer(written!(__blocks.extent(&#of, #dimension))));
                }
                // Methods of the thread itself, which no trait hides.
                let known = leaf(expression.to_token_stream(), true);
                let is_acc = matches!(&*call.receiver, Expr::Path(path)
                    if path.path.is_ident(&self.known.names.acc));
                if !is_acc || dimension >= self.dimensions {
                    return None;
                }
                let is_next = dimension + 1 == self.dimensions;
                match self.known.names.indexed(call)? {
                    Indexed::Uniform => Some(known),
                    Indexed::Threads => Some(Sum { is_next, ..known }),
                }
            }
            Expr::Binary(binary) => {
                let (function, operator) = match binary.op {
                    BinOp::Add(_) => (quote!(sum), quote!(+)),
                    BinOp::Sub(_) => (quote!(difference), quote!(-)),
                    BinOp::Mul(_) => (quote!(product), quote!(*)),
                    _ => return None,
                };
                let (left, right) = (self.sum(&binary.left)?, self.sum(&binary.right)?);
                match binary.op {
                    BinOp::Add(_) if left.is_next && right.is_next => return None,
                    BinOp::Sub(_) if right.is_next || right.turns => return None,
                    BinOp::Mul(_) if left.is_next || right.is_next => return None,
                    _ => {}
                }
                let (left_value, right_value) = (left.value, right.value);
                let (left_index, right_index) = (left.index, right.index);
                Some(Sum {
                    value: written!(__blocks.#function(#left_value, #right_value)),
                    index: written!((#left_index #operator #right_index)),
                    is_next: left.is_next || right.is_next,
                    turns: left.turns || right.turns,
                    is_usize: left.is_usize || right.is_usize,
                })
            }
            _ => None,
        }
    }

    fn turns(&self, name: &Ident) -> bool {
        self.lanes.rounds.iter().any(|round| round.name == *name)
    }
}

/// The variable of a thread's own element of an array.
pub(super) fn own_name(array: &Ident) -> Ident {
    name(format_args!("__own_{array}"))
}

/// A name of what is written here: none of the kernel's is the same, even if it reads so.
pub(super) fn name(text: std::fmt::Arguments) -> Ident {
    Ident::new(&text.to_string(), Span::mixed_site())
}

fn words_of(tokens: TokenStream, words: &mut HashSet<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                words.insert(word);
            }
            TokenTree::Group(group) => words_of(group.stream(), words),
            _ => {}
        }
    }
}

fn number(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) if int.suffix().is_empty() => int.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

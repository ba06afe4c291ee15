//! Loops over a thread's own elements, made so that their reads are checked once for many elements.
//!
//! A loop whose body asks of each element whether it is at a border, and of each index whether it
//! is inside, is not compiled to vectors. So where elements are gone through in order, such a loop
//! is written a second time for a piece of them: for which the answers are found out before, and of
//! which each index gives neighbours, so that these are a slice as long:
//!
//! ```text
//!                                            for each piece of y's elements, from the one of number `first` on {
//!                                                if none is number 0 and x has what is read from `first - 1` on {
//! for (i, y) in y.each() {                           let before = &x[first - 1..][..length];
//!     *y = if i == 0 { 0.0 } else { x[i - 1] };  →   for k in 0..length { piece[k] = before[k]; }
//! }                                                  continue;
//!                                                }
//!                                                try half of the piece, or go through it as it was written
//!                                            }
//! ```
//!
//! The steps, and the reasons for which they are right:
//!
//! 1. These are loops with the number of an element, over `each()` of an output's own elements or
//!    over `iter_mut().enumerate()`, that contain no loop and are not left by `break`.
//! 2. An index is a sum in which that number occurs once, and of which the rest does not change in
//!    the loop. Sums are computed in arithmetic that notices overflow, and computing them early
//!    does nothing else.
//! 3. A condition compares such a sum with an unchanging value, so its first and last answer tell
//!    those between. There is a version for elements that are inside (no number is *equal* to
//!    another, all inequalities hold), and one for those beyond (none holds). `min`, `max` and
//!    `saturating_sub` are taken for their values inside.
//! 4. A version is a closure that is lent the piece, unless it may end the kernel: an argument that
//!    is borrowed mutably is reached by nothing else, which the compiler knows of no local
//!    variable, and makes vectors without asking and copies of memory.
//! 5. Pieces are gone through in order, and one that does not fit a version is, in the end, gone
//!    through as written. So a kernel's effects and failures are the same. It is safe code: its
//!    safety does not rest on this analysis.

use std::collections::{HashMap, HashSet};

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    BinOp, Block, Expr, ExprForLoop, ExprIndex, ExprMethodCall, Ident, ItemFn, Lit, Macro, Pat,
    Path, Stmt, Token,
};

use crate::expression::{as_match, is_assignment};
use crate::kernel::allowances;
use crate::phases::{apart, bound_by, is_pure, is_read};
use crate::signature::{Parameter, Passing};

/// The body of a kernel without barriers, rewritten.
pub(crate) fn in_pieces(krate: &Path, item: &ItemFn, parameters: &[Parameter]) -> Block {
    let named = |holds: &dyn Fn(&Parameter) -> bool| {
        let named = parameters.iter().filter(|of| holds(of));
        named.map(|of| of.name.clone()).collect()
    };
    let known = Known {
        krate,
        read: named(&|of| !of.is_mutable && matches!(of.passing, Passing::View) && is_read(of)),
        own: named(&|of| {
            matches!(&of.user_type, syn::Type::Path(path)
                if path.path.segments.last().is_some_and(|last| last.ident == "OwnElements"))
        }),
    };
    let mut block = (*item.block).clone();
    known.rewrite(&mut block);
    block
}

/// The facts of a kernel.
#[derive(Clone)]
struct Known<'k> {
    krate: &'k Path,
    /// Parameters that all threads read.
    read: HashSet<Ident>,
    /// Parameters of which threads have their own elements.
    own: HashSet<Ident>,
}

impl Known<'_> {
    fn rewrite(&self, block: &mut Block) {
        let mut known = self.clone();
        for statement in &mut block.stmts {
            match statement {
                Stmt::Local(local) => known.forget(&Bound::of(&local.pat)),
                Stmt::Expr(expression, _) => known.rewrite_within(expression),
                _ => {}
            }
        }
    }

    fn rewrite_within(&self, expression: &mut Expr) {
        match expression {
            Expr::ForLoop(looped) => match self.written(looped) {
                Some(written) => *expression = Expr::Verbatim(written),
                None => {
                    let mut known = self.clone();
                    known.forget(&Bound::of(&looped.pat));
                    known.rewrite(&mut looped.body);
                }
            },
            Expr::Loop(looped) => self.rewrite(&mut looped.body),
            Expr::Block(block) => self.rewrite(&mut block.block),
            Expr::While(looped) if !matches!(&*looped.cond, Expr::Let(_)) => {
                self.rewrite(&mut looped.body);
            }
            Expr::If(condition) if !matches!(&*condition.cond, Expr::Let(_)) => {
                self.rewrite(&mut condition.then_branch);
                if let Some((_, otherwise)) = &mut condition.else_branch {
                    self.rewrite_within(otherwise);
                }
            }
            _ => {}
        }
    }

    /// These are the names of other variables now.
    fn forget(&mut self, bound: &Bound) {
        for names in [&mut self.read, &mut self.own] {
            names.retain(|name| !bound.0.contains_key(name));
        }
    }

    /// A loop in pieces, if it is one that can be, and gains by it.
    fn written(&self, looped: &ExprForLoop) -> Option<TokenStream> {
        let Pat::Tuple(pattern) = &*looped.pat else {
            return None;
        };
        let mut patterns = pattern.elems.iter();
        let (Some(number), Some(element), None) =
            (patterns.next(), patterns.next(), patterns.next())
        else {
            return None;
        };
        let number = match (number, &bound_by(number)?[..]) {
            (Pat::Ident(plain), [name]) if plain.mutability.is_none() => name.clone(),
            _ => return None,
        };
        let body = Body::of(looped, element)?;
        if body.bound.contains_key(&number) {
            return None;
        }
        let inside = self.version(&body, &number, true)?;
        let beyond = inside
            .has_beyond
            .then(|| self.version(&body, &number, false))
            .flatten();
        let versions = [Some(inside), beyond];
        let versions = versions
            .iter()
            .flatten()
            .map(|version| version.written(element));
        let (krate, block) = (self.krate, &looped.body);
        let pieces = quote! {
            while let ::core::option::Option::Some((__first, __length)) = __pieces.tried() {
                '__fits: {
                    #(#versions)*
                    if !__pieces.halve() {
                        for (__at, #element) in __pieces.take().iter_mut().enumerate() {
                            let #number = __first + __at;
                            #block
                        }
                    }
                }
            }
        };
        let in_pieces = match &*looped.expr {
            Expr::MethodCall(call) if call.method == "each" && call.args.is_empty() => {
                let own = path(&call.receiver).filter(|name| self.own.contains(name))?;
                quote! {
                    for (__start, __row) in #own.numbered_rows() {
                        let mut __pieces = #krate::__macro::Pieces::new(__start, __row);
                        #pieces
                    }
                }
            }
            Expr::MethodCall(call) if call.method == "enumerate" && call.args.is_empty() => {
                let Expr::MethodCall(call) = &*call.receiver else {
                    return None;
                };
                let elements = path(&call.receiver)
                    .filter(|_| call.method == "iter_mut" && call.args.is_empty())?;
                quote! {
                    let mut __pieces = #krate::__macro::Pieces::new(0, &mut #elements[..]);
                    #pieces
                }
            }
            _ => return None,
        };
        Some(quote!({
            #krate::__macro::optimised! { #in_pieces }
            #krate::__macro::unoptimised! { #looped }
        }))
    }

    /// The loop's body for elements inside, or beyond, if that is another.
    fn version<'v>(
        &'v self,
        body: &'v Body,
        number: &'v Ident,
        is_inside: bool,
    ) -> Option<Version<'v>> {
        let mut version = Version {
            known: self,
            body,
            number,
            is_inside,
            block: body.block.clone(),
            locals: HashMap::new(),
            is_certain: true,
            may_have_left: false,
            checks: TokenStream::new(),
            neighbours: Vec::new(),
            has_beyond: false,
            is_worth_it: false,
        };
        let mut block = version.block.clone();
        version.block(&mut block, true);
        version.block = block;
        version.is_worth_it.then_some(version)
    }
}

/// The variable that an expression is.
fn path(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Paren(inner) => path(&inner.expr),
        Expr::Group(inner) => path(&inner.expr),
        _ => None,
    }
}

/// The number of times that names are bound.
#[derive(Default)]
struct Bound(HashMap<Ident, usize>);

impl Bound {
    fn of(pattern: &Pat) -> Self {
        let mut bound = Self::default();
        bound.visit_pat(pattern);
        bound
    }
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        *self.0.entry(pattern.ident.clone()).or_default() += 1;
        visit::visit_pat_ident(self, pattern);
    }
}

/// A loop's body.
struct Body {
    block: Block,
    /// The number of times that names are bound in it.
    bound: HashMap<Ident, usize>,
    /// The variables that may be changed in it.
    changed: HashSet<Ident>,
}

impl Body {
    fn of(looped: &ExprForLoop, element: &Pat) -> Option<Self> {
        let mut bound = Bound::of(element);
        bound.visit_block(&looped.body);
        let mut seen = Seen::default();
        seen.visit_block(&looped.body);
        (looped.label.is_none() && !seen.is_left).then(|| Self {
            block: apart(&looped.body),
            bound: bound.0,
            changed: seen.changed,
        })
    }
}

/// The variables that an expression may change.
pub(crate) fn changed_in(expression: &Expr) -> HashSet<Ident> {
    let mut seen = Seen::default();
    seen.visit_expr(expression);
    seen.changed
}

/// The contents of a body.
#[derive(Default)]
struct Seen {
    /// Loops, and jumps that leave them.
    is_left: bool,
    changed: HashSet<Ident>,
}

impl Seen {
    fn change(&mut self, place: &Expr) {
        match place {
            Expr::Path(path) => self.changed.extend(path.path.get_ident().cloned()),
            Expr::Index(index) => self.change(&index.expr),
            Expr::Field(field) => self.change(&field.base),
            Expr::Paren(inner) => self.change(&inner.expr),
            Expr::Group(inner) => self.change(&inner.expr),
            Expr::Unary(unary) => self.change(&unary.expr),
            Expr::Tuple(places) => places.elems.iter().for_each(|place| self.change(place)),
            Expr::Array(places) => places.elems.iter().for_each(|place| self.change(place)),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) | Expr::Break(_) | Expr::Await(_) => {
                self.is_left = true;
            }
            Expr::Continue(jump) => self.is_left |= jump.label.is_some(),
            Expr::Assign(assign) => self.change(&assign.left),
            Expr::Binary(binary) if is_assignment(&binary.op) => self.change(&binary.left),
            Expr::Reference(reference) if reference.mutability.is_some() => {
                self.change(&reference.expr);
            }
            Expr::MethodCall(call) if !is_pure(&call.method) => self.change(&call.receiver),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.is_left |= !visit_arguments(self, called);
    }
}

/// Visits the expressions that a macro is called with. False if it is called with something else.
fn visit_arguments(visitor: &mut impl for<'ast> Visit<'ast>, called: &Macro) -> bool {
    if called.path.is_ident("matches") {
        let choice = as_match(called);
        return choice.is_ok_and(|choice| {
            visitor.visit_expr(&choice);
            true
        });
    }
    let arguments = called.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    arguments.is_ok_and(|arguments| {
        arguments.iter().for_each(|of| visitor.visit_expr(of));
        true
    })
}

/// The ways in which code may do something besides going on.
#[derive(Default)]
struct Jumps {
    /// Go on with the next element, or end the kernel.
    may_leave: bool,
    /// End the kernel.
    may_end: bool,
}

impl<'ast> Visit<'ast> for Jumps {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Continue(_) => self.may_leave = true,
            Expr::Return(_) => (self.may_leave, self.may_end) = (true, true),
            Expr::Closure(_) => {}
            _ => visit::visit_expr(self, expression),
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        if !visit_arguments(self, called) {
            (self.may_leave, self.may_end) = (true, true);
        }
    }
}

/// An index or a side of a comparison.
#[derive(Clone)]
struct Sum {
    /// Its value for the first element of a piece, an `Option<usize>`.
    value: TokenStream,
    /// Each element's is one more than that of the element before; else it is the same for all.
    is_next: bool,
}

/// A body that is made for pieces of which answers are known.
struct Version<'v> {
    known: &'v Known<'v>,
    body: &'v Body,
    number: &'v Ident,
    is_inside: bool,
    block: Block,
    /// The names that have been bound; each is a sum if it has a value here.
    locals: HashMap<Ident, Option<Sum>>,
    /// True if the code that is being read is certainly evaluated.
    is_certain: bool,
    /// True if an element may have been left before the code that is being read.
    may_have_left: bool,
    /// The conditions that have to hold, or `'__version` is left.
    checks: TokenStream,
    /// The expressions that are read of neighbours, and the names of these.
    neighbours: Vec<(String, Ident)>,
    /// True if there is a condition whose answer may be another.
    has_beyond: bool,
    is_worth_it: bool,
}

impl Version<'_> {
    fn written(&self, element: &Pat) -> TokenStream {
        let Self {
            number,
            block,
            checks,
            ..
        } = self;
        let (krate, allow) = (self.known.krate, allowances());
        let neighbours = self.neighbours.iter().map(|(_, name)| name);
        let through = quote! {
            #(let #neighbours = &#neighbours[..__length];)*
            let __piece = &mut __piece[..__length];
            #allow
            for __at in 0..__length {
                let #number = __first + __at;
                let #element = &mut __piece[__at];
                #block
            }
        };
        let mut jumps = Jumps::default();
        jumps.visit_block(block);
        let take = if jumps.may_end {
            quote!(let __piece = __pieces.take(); #through)
        } else {
            quote!(__pieces.take_alone(|__piece| { #through });)
        };
        quote! {
            '__version: {
                use #krate::__macro::Neighbours as _;
                #checks
                #take
                break '__fits;
            }
        }
    }

    fn block(&mut self, block: &mut Block, is_body: bool) {
        for statement in &mut block.stmts {
            match statement {
                Stmt::Local(local) => {
                    let Some(init) = &mut local.init else {
                        continue;
                    };
                    let name = match bound_by(&local.pat).as_deref() {
                        Some([name]) if is_body && init.diverge.is_none() => Some(name.clone()),
                        _ => None,
                    };
                    if let Some(name) = name {
                        let is_one = self.body.bound.get(&name) == Some(&1)
                            && !self.body.changed.contains(&name);
                        let sum = if is_one { self.sum(&init.expr) } else { None };
                        self.locals.insert(name, sum);
                    }
                    self.expression(&mut init.expr);
                    // The block after `else` does not come back.
                    self.may_have_left |= init.diverge.is_some();
                }
                Stmt::Expr(expression, _) => self.expression(expression),
                Stmt::Macro(called) => self.note_jumps(|jumps| jumps.visit_macro(&called.mac)),
                Stmt::Item(_) => {}
            }
        }
    }

    /// Notes if an element may be left in code that is not read.
    fn note_jumps(&mut self, look: impl FnOnce(&mut Jumps)) {
        let mut jumps = Jumps::default();
        look(&mut jumps);
        self.may_have_left |= jumps.may_leave;
    }

    /// The same, of code that may not be evaluated.
    fn perhaps(&mut self, read: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_certain, false);
        read(self);
        self.is_certain = before;
    }

    fn expression(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Index(index) => match self.neighbour(index) {
                Some(neighbour) => *expression = neighbour,
                None => {
                    self.expression(&mut index.expr);
                    self.expression(&mut index.index);
                }
            },
            Expr::If(condition) => {
                let answer = self.condition(&mut condition.cond);
                match (answer, &mut condition.else_branch) {
                    (Some(true), _) => self.block(&mut condition.then_branch, false),
                    (Some(false), Some((_, otherwise))) => self.expression(otherwise),
                    (Some(false), None) => {}
                    (None, otherwise) => self.perhaps(|version| {
                        version.block(&mut condition.then_branch, false);
                        if let Some((_, otherwise)) = otherwise {
                            version.expression(otherwise);
                        }
                    }),
                }
            }
            Expr::Binary(binary) => {
                self.expression(&mut binary.left);
                let right = &mut binary.right;
                match binary.op {
                    BinOp::And(_) | BinOp::Or(_) => {
                        self.perhaps(|version| version.expression(right));
                    }
                    _ => self.expression(right),
                }
            }
            Expr::Match(choice) => {
                self.expression(&mut choice.expr);
                self.perhaps(|version| {
                    for arm in &mut choice.arms {
                        version.note_jumps(|jumps| jumps.visit_pat(&arm.pat));
                        version.expression(&mut arm.body);
                    }
                });
            }
            Expr::Closure(closure) => self.perhaps(|version| version.expression(&mut closure.body)),
            Expr::Assign(assign) => {
                self.expression(&mut assign.right);
                self.expression(&mut assign.left);
            }
            Expr::Block(block) => self.block(&mut block.block, false),
            Expr::Paren(inner) => self.expression(&mut inner.expr),
            Expr::Group(inner) => self.expression(&mut inner.expr),
            Expr::Cast(cast) => self.expression(&mut cast.expr),
            Expr::Unary(unary) => self.expression(&mut unary.expr),
            Expr::Reference(reference) => self.expression(&mut reference.expr),
            Expr::Field(field) => self.expression(&mut field.base),
            Expr::Repeat(repeat) => self.expression(&mut repeat.expr),
            Expr::Call(call) => call.args.iter_mut().for_each(|of| self.expression(of)),
            Expr::MethodCall(call) => {
                self.expression(&mut call.receiver);
                call.args.iter_mut().for_each(|of| self.expression(of));
            }
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|of| self.expression(of)),
            Expr::Array(array) => array.elems.iter_mut().for_each(|of| self.expression(of)),
            Expr::Struct(made) => {
                for field in &mut made.fields {
                    self.expression(&mut field.expr);
                }
                if let Some(rest) = &mut made.rest {
                    self.expression(rest);
                }
            }
            other => self.note_jumps(|jumps| jumps.visit_expr(other)),
        }
    }

    /// Replaces the known parts of a condition by their answers, and gives that of the whole.
    fn condition(&mut self, condition: &mut Expr) -> Option<bool> {
        match condition {
            Expr::Paren(inner) => self.condition(&mut inner.expr),
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                let decisive = matches!(binary.op, BinOp::Or(_));
                let left = self.condition(&mut binary.left);
                if left == Some(decisive) {
                    return left;
                }
                let mut right = None;
                let of_right = &mut binary.right;
                if left.is_some() {
                    right = self.condition(of_right);
                } else {
                    self.perhaps(|version| right = version.condition(of_right));
                }
                match (left, right) {
                    (_, Some(answer)) if answer == decisive => right,
                    (Some(_), right) => right,
                    _ => None,
                }
            }
            Expr::Binary(binary) => match self.comparison(binary) {
                Some(answer) => {
                    *condition = syn::parse_quote!(#answer);
                    Some(answer)
                }
                None => {
                    self.expression(condition);
                    None
                }
            },
            other => {
                self.expression(other);
                None
            }
        }
    }

    /// The answer to a comparison, and that it is the same for all elements of a piece.
    fn comparison(&mut self, binary: &syn::ExprBinary) -> Option<bool> {
        let is_compared = matches!(
            binary.op,
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_)
        );
        if !is_compared {
            return None;
        }
        let (left, right) = (self.sum(&binary.left)?, self.sum(&binary.right)?);
        if left.is_next == right.is_next {
            return None;
        }
        let (number, limit) = if left.is_next {
            (left.value, right.value)
        } else {
            (right.value, left.value)
        };
        // As if the number was on the left.
        let (is_equality, is_less, or_equal) = match (binary.op, left.is_next) {
            (BinOp::Eq(_) | BinOp::Ne(_), _) => (true, false, false),
            (BinOp::Lt(_), is_left) => (false, is_left, false),
            (BinOp::Le(_), is_left) => (false, is_left, true),
            (BinOp::Gt(_), is_left) => (false, !is_left, false),
            (_, is_left) => (false, !is_left, true),
        };
        let answer = if is_equality {
            matches!(binary.op, BinOp::Ne(_))
        } else {
            self.has_beyond = true;
            self.is_inside
        };
        let last = self.last(&number);
        let holds = match (is_equality, is_less == answer, or_equal == answer) {
            (true, ..) => quote!(__last < __limit || __first_of > __limit),
            // All less, asked of the last; or none more.
            (_, true, false) => quote!(__last < __limit),
            (_, true, true) => quote!(__last <= __limit),
            (_, false, true) => quote!(__first_of >= __limit),
            (_, false, false) => quote!(__first_of > __limit),
        };
        self.checks.extend(quote! {
            match (#number, #last, #limit) {
                (
                    ::core::option::Option::Some(__first_of),
                    ::core::option::Option::Some(__last),
                    ::core::option::Option::Some(__limit),
                ) if #holds => {}
                _ => break '__version,
            }
        });
        self.is_worth_it = true;
        Some(answer)
    }

    /// The value of a sum for the last element of a piece.
    fn last(&self, value: &TokenStream) -> TokenStream {
        let krate = self.known.krate;
        quote!(#krate::__macro::sum(#value, ::core::option::Option::Some(__length - 1)))
    }

    /// An element as one of neighbours.
    fn neighbour(&mut self, index: &ExprIndex) -> Option<Expr> {
        let base = path(&index.expr)
            .filter(|name| self.known.read.contains(name) && !self.body.bound.contains_key(name))?;
        let is_plain = path(&index.index) == Some(self.number);
        let parts: Vec<&Expr> = match &*index.index {
            Expr::Array(array) => array.elems.iter().collect(),
            index => vec![index],
        };
        let sums: Option<Vec<Sum>> = parts.iter().map(|part| self.sum(part)).collect();
        let sums = sums?;
        let (last, outer) = sums.split_last()?;
        if !last.is_next || outer.iter().any(|sum| sum.is_next) {
            return None;
        }
        let values = sums.iter().map(|sum| &sum.value);
        let found = quote!(#base.neighbours([#(#values),*], __length));
        let text = found.to_string();
        let known = self.neighbours.iter().find(|(other, _)| *other == text);
        let name = match known {
            Some((_, name)) => name.clone(),
            None => {
                let name = format_ident!("__neighbours_{}", self.neighbours.len());
                self.checks.extend(quote! {
                    let ::core::option::Option::Some(#name) = #found else { break '__version };
                });
                self.neighbours.push((text, name.clone()));
                name
            }
        };
        self.is_worth_it |= !is_plain;
        Some(syn::parse_quote!(#name[__at]))
    }

    /// An expression as a sum, if it is one.
    fn sum(&mut self, expression: &Expr) -> Option<Sum> {
        let krate = self.known.krate;
        let same = |value: TokenStream| Sum {
            value,
            is_next: false,
        };
        match expression {
            Expr::Paren(inner) => self.sum(&inner.expr),
            Expr::Group(inner) => self.sum(&inner.expr),
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(int) if ["", "usize"].contains(&int.suffix()) => {
                    Some(same(quote!(::core::option::Option::Some::<usize>(#int))))
                }
                _ => None,
            },
            Expr::Path(of) if of.path.get_ident() == Some(self.number) => Some(Sum {
                value: quote!(::core::option::Option::Some(__first)),
                is_next: true,
            }),
            Expr::Path(of)
                if of
                    .path
                    .get_ident()
                    .is_some_and(|name| self.locals.contains_key(name)) =>
            {
                self.locals.get(of.path.get_ident()?)?.clone()
            }
            Expr::Binary(binary) => {
                let function = match binary.op {
                    BinOp::Add(_) => quote!(sum),
                    BinOp::Sub(_) => quote!(difference),
                    BinOp::Mul(_) => quote!(product),
                    _ => return None,
                };
                let (left, right) = (self.sum(&binary.left)?, self.sum(&binary.right)?);
                let is_next = match binary.op {
                    BinOp::Add(_) if !(left.is_next && right.is_next) => {
                        left.is_next || right.is_next
                    }
                    BinOp::Sub(_) if !right.is_next => left.is_next,
                    BinOp::Mul(_) if !left.is_next && !right.is_next => false,
                    _ => return None,
                };
                let (left, right) = (left.value, right.value);
                Some(Sum {
                    value: quote!(#krate::__macro::#function(#left, #right)),
                    is_next,
                })
            }
            Expr::MethodCall(call) if !self.is_same(expression) => self.bounded(call),
            _ if self.is_same(expression) => Some(same(quote! {
                ::core::option::Option::Some(*::core::borrow::Borrow::<usize>::borrow(&(#expression)))
            })),
            _ => None,
        }
    }

    /// `min`, `max` and `saturating_sub`, inside.
    fn bounded(&mut self, call: &ExprMethodCall) -> Option<Sum> {
        let krate = self.known.krate;
        let [argument] = &call.args.iter().collect::<Vec<_>>()[..] else {
            return None;
        };
        let name = call.method.to_string();
        if !self.is_inside || !["min", "max", "saturating_sub"].contains(&name.as_str()) {
            return None;
        }
        let (of, other) = (self.sum(&call.receiver)?, self.sum(argument)?);
        if name == "saturating_sub" {
            if !of.is_next || other.is_next {
                return None;
            }
            let (of, other) = (of.value, other.value);
            return Some(Sum {
                value: quote!(#krate::__macro::difference(#of, #other)),
                is_next: true,
            });
        }
        let (number, limit) = match (of.is_next, other.is_next) {
            (true, false) => (of, other.value),
            (false, true) => (other, of.value),
            _ => return None,
        };
        let last = self.last(&number.value);
        let (asked, holds) = match name.as_str() {
            "min" => (last, quote!(__asked <= __limit)),
            _ => (number.value.clone(), quote!(__asked >= __limit)),
        };
        self.checks.extend(quote! {
            match (#asked, #limit) {
                (::core::option::Option::Some(__asked), ::core::option::Option::Some(__limit)) if #holds => {}
                _ => break '__version,
            }
        });
        Some(number)
    }

    /// True if an expression is the same for all elements, and can be computed early without an
    /// effect.
    fn is_same(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_)),
            Expr::Path(path) => path.path.get_ident().is_none_or(|name| {
                name != self.number
                    && !self.body.bound.contains_key(name)
                    && !self.body.changed.contains(name)
            }),
            Expr::Paren(inner) => self.is_same(&inner.expr),
            Expr::Group(inner) => self.is_same(&inner.expr),
            Expr::Cast(cast) => self.is_same(&cast.expr),
            Expr::Field(field) => self.is_same(&field.base),
            Expr::MethodCall(call) => {
                let is_harmless = [
                    "extent",
                    "len",
                    "max",
                    "min",
                    "saturating_add",
                    "saturating_mul",
                    "saturating_sub",
                    "wrapping_add",
                    "wrapping_mul",
                    "wrapping_sub",
                ]
                .iter()
                .any(|name| call.method == name);
                is_harmless
                    && self.is_same(&call.receiver)
                    && call.args.iter().all(|of| self.is_same(of))
            }
            // Of a component that there is not it would be noticed, so it has to be computed
            // anyway.
            Expr::Index(index) => {
                let is_number = matches!(&*index.index, Expr::Lit(literal)
                    if matches!(literal.lit, Lit::Int(_)));
                let is_computed = self.is_certain && !self.may_have_left;
                is_computed && is_number && self.is_same(&index.expr)
            }
            _ => false,
        }
    }
}

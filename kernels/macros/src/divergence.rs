//! Barriers, and functions of a warp, that only some threads come to.
//!
//! The check that all come is made with a kernel's source (`verify/uniform.rs` of
//! `quipu-kernel-ir`). Where it takes no types to see that threads have parted, it is refused here
//! already, as the kernel is compiled:
//!
//! 1. in the branches of a condition that the index of the thread decides, and in loops of as many
//!    rounds as it says;
//! 2. behind such a condition in whose branches threads leave the code around it;
//! 3. in a loop over a thread's own elements.
//!
//! Nothing is refused here that would not be there, if it is come to at all; but for a call without
//! `await`, which rustc lets pass with a warning, and at which no thread waits.

use std::collections::{HashMap, HashSet};

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ExprMethodCall, Ident, Lifetime, Local, Pat, Signature, UnOp};

use crate::expression::is_assignment;
use crate::phases::bound_by;
use crate::refuse;
use crate::scope::Writer;

impl Writer {
    /// Refuses calls that only some threads of `acc` come to in a function.
    pub(crate) fn refuse_parted(&mut self, signature: &Signature, body: &Block, acc: &Ident) {
        let mut bound = Bound::default();
        bound.visit_signature(signature);
        bound.visit_block(body);
        let mut parted = Parted {
            acc,
            bound: bound.times,
            own: HashSet::new(),
            around: 0,
            has_left: false,
            found: Vec::new(),
        };
        parted.visit_block(body);
        for (span, words) in parted.found {
            self.refuse(span, words);
        }
    }
}

/// True if the accelerator's method has threads wait for each other.
fn is_awaited(method: &Ident) -> bool {
    let method = method.to_string();
    method.starts_with("sync") || method.starts_with("warp_") && method != "warp_size"
}

/// The number of times that each name is bound.
#[derive(Default)]
struct Bound {
    times: HashMap<Ident, usize>,
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        *self.times.entry(pattern.ident.clone()).or_default() += 1;
        visit::visit_pat_ident(self, pattern);
    }
}

struct Parted<'a> {
    acc: &'a Ident,
    bound: HashMap<Ident, usize>,
    /// Names of values that are a thread's own: its index, and values computed from it.
    own: HashSet<Ident>,
    /// The number of branches and loops around that threads come to by themselves.
    around: usize,
    /// Threads have left the block that is looked at.
    has_left: bool,
    found: Vec<(Span, &'static str)>,
}

impl Parted<'_> {
    fn is_of_acc(&self, call: &ExprMethodCall) -> bool {
        matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident(self.acc))
    }

    /// True if a value may differ between threads.
    fn is_own(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Path(path) => path
                .path
                .get_ident()
                .is_some_and(|name| self.own.contains(name)),
            Expr::Paren(inner) => self.is_own(&inner.expr),
            Expr::Group(inner) => self.is_own(&inner.expr),
            Expr::Cast(cast) => self.is_own(&cast.expr),
            Expr::Unary(unary) => !matches!(unary.op, UnOp::Deref(_)) && self.is_own(&unary.expr),
            Expr::Index(index) => self.is_own(&index.expr),
            Expr::Let(condition) => self.is_own(&condition.expr),
            Expr::MethodCall(call) if call.method == "components" => self.is_own(&call.receiver),
            Expr::Binary(binary) => {
                let (left, right) = (self.is_own(&binary.left), self.is_own(&binary.right));
                match binary.op {
                    // One that is known may decide.
                    BinOp::And(_) | BinOp::Or(_) => left && right,
                    // By a warp's size it is the same for the warp.
                    BinOp::Div(_) => false,
                    operator => !is_assignment(&operator) && (left || right),
                }
            }
            Expr::MethodCall(call) if self.is_of_acc(call) => {
                let argument = |at: usize| match call.args.get(at) {
                    Some(Expr::Path(path)) => {
                        path.path.segments.last().map(|last| last.ident.to_string())
                    }
                    _ => None,
                };
                match &*call.method.to_string() {
                    "thread_index" | "lane" | "once_per_block" | "once_per_grid" => true,
                    "index" => {
                        argument(0).is_some_and(|origin| origin == "Grid" || origin == "Block")
                            && argument(1)
                                .is_some_and(|unit| unit == "Threads" || unit == "Elements")
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Notes a name that a `let` binds, once and for all, to a thread's own value.
    fn bind(&mut self, pattern: &Pat, value: &Expr) {
        match (pattern, value) {
            (Pat::Type(typed), _) => self.bind(&typed.pat, value),
            (Pat::Ident(name), _) => {
                let is_once = self.bound.get(&name.ident) == Some(&1);
                if is_once && name.mutability.is_none() && self.is_own(value) {
                    self.own.insert(name.ident.clone());
                }
            }
            (Pat::Tuple(parts), Expr::Tuple(values)) if bound_by(pattern).is_some() => {
                for (part, value) in parts.elems.iter().zip(&values.elems) {
                    self.bind(part, value);
                }
            }
            (Pat::Slice(parts), Expr::Array(values)) if parts.elems.len() == values.elems.len() => {
                for (part, value) in parts.elems.iter().zip(&values.elems) {
                    self.bind(part, value);
                }
            }
            (Pat::Slice(parts), Expr::MethodCall(_)) => {
                for part in &parts.elems {
                    self.bind(part, value);
                }
            }
            _ => {}
        }
    }

    /// Looks at code that each thread runs by itself, if it does.
    fn within(&mut self, is_own: bool, whole: &Expr, look: impl FnOnce(&mut Self)) {
        self.around += usize::from(is_own);
        look(self);
        self.around -= usize::from(is_own);
        self.has_left |= is_own && leaves(whole);
    }
}

impl<'ast> Visit<'ast> for Parted<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        // Threads that have left within it may be met again behind it, or never have come to it.
        let has_left = self.has_left;
        visit::visit_block(self, block);
        self.has_left = has_left;
    }

    fn visit_local(&mut self, local: &'ast Local) {
        visit::visit_local(self, local);
        if let Some(init) = &local.init {
            self.bind(&local.pat, &init.expr);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::If(branch) => {
                self.visit_expr(&branch.cond);
                let is_own = self.is_own(&branch.cond);
                self.within(is_own, expression, |this| {
                    this.visit_block(&branch.then_branch);
                    if let Some((_, otherwise)) = &branch.else_branch {
                        let has_left = this.has_left;
                        this.visit_expr(otherwise);
                        this.has_left = has_left;
                    }
                });
            }
            Expr::Match(cases) => {
                self.visit_expr(&cases.expr);
                let is_own = self.is_own(&cases.expr);
                self.within(is_own, expression, |this| {
                    for arm in &cases.arms {
                        let has_left = this.has_left;
                        this.visit_arm(arm);
                        this.has_left = has_left;
                    }
                });
            }
            Expr::While(looped) => {
                let is_own = self.is_own(&looped.cond);
                self.within(is_own, expression, |this| {
                    this.visit_expr(&looped.cond);
                    this.visit_block(&looped.body);
                });
            }
            Expr::ForLoop(looped) => {
                self.visit_expr(&looped.expr);
                let is_own = match &*looped.expr {
                    // Without an end it is left in another way.
                    Expr::Range(range) => {
                        let mut ends = range.start.iter().chain(&range.end);
                        range.end.is_some() && ends.any(|end| self.is_own(end))
                    }
                    Expr::MethodCall(call) => self.is_of_acc(call) && call.method == "elements",
                    _ => false,
                };
                self.within(is_own, expression, |this| this.visit_block(&looped.body));
            }
            // Of these there is no waiting in the middle.
            Expr::Closure(_) => {}
            Expr::Await(wait) => {
                if let Expr::MethodCall(call) = &*wait.base
                    && self.is_of_acc(call)
                {
                    let method = call.method.to_string();
                    let is_parted = self.around > 0 || self.has_left;
                    if is_parted && method.starts_with("sync") {
                        self.found.push((call.method.span(), refuse::PARTED));
                    } else if is_parted && method.starts_with("warp_") {
                        self.found.push((call.method.span(), refuse::PARTED_WARP));
                    }
                    call.args
                        .iter()
                        .for_each(|argument| self.visit_expr(argument));
                } else {
                    visit::visit_expr(self, expression);
                }
            }
            Expr::MethodCall(call) if self.is_of_acc(call) && is_awaited(&call.method) => {
                self.found.push((call.method.span(), refuse::NOT_AWAITED));
                visit::visit_expr(self, expression);
            }
            _ => visit::visit_expr(self, expression),
        }
    }
}

/// True if something in a branch or loop leaves it, and more than it.
fn leaves(whole: &Expr) -> bool {
    #[derive(Default)]
    struct Leaves {
        /// The number of loops around, within.
        loops: usize,
        /// The labels of these, and of blocks.
        labels: Vec<Ident>,
        found: bool,
    }

    impl Leaves {
        fn jump(&mut self, label: Option<&Lifetime>) {
            let is_within = match label {
                None => self.loops > 0,
                Some(label) => self.labels.contains(&label.ident),
            };
            self.found |= !is_within;
        }
    }

    impl<'ast> Visit<'ast> for Leaves {
        fn visit_expr(&mut self, expression: &'ast Expr) {
            let (is_loop, label) = match expression {
                Expr::While(looped) => (true, looped.label.as_ref()),
                Expr::ForLoop(looped) => (true, looped.label.as_ref()),
                Expr::Loop(looped) => (true, looped.label.as_ref()),
                Expr::Block(block) => (false, block.label.as_ref()),
                _ => (false, None),
            };
            match expression {
                Expr::Closure(_) => return,
                Expr::Return(_) => self.found = true,
                Expr::Break(jump) => self.jump(jump.label.as_ref()),
                Expr::Continue(jump) => self.jump(jump.label.as_ref()),
                _ => {}
            }
            self.loops += usize::from(is_loop);
            self.labels
                .extend(label.map(|label| label.name.ident.clone()));
            visit::visit_expr(self, expression);
            self.loops -= usize::from(is_loop);
            if label.is_some() {
                self.labels.pop();
            }
        }
    }

    let mut leaves = Leaves::default();
    leaves.visit_expr(whole);
    leaves.found
}

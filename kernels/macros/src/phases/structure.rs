//! A kernel as phases, barriers, loops around them, and statements that are run once for the block.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprIf, Ident, Lifetime, Pat, Stmt, Token};

use super::lanes::{Known, Lanes};
use super::uniform::{Names, bound_by, bound_in, waits};
use super::{assertions, raw};
use crate::signature::{Parameter, Passing};

/// A shared array that a name is a handle of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle {
    /// The index of the kernel's array.
    pub(super) array: usize,
    /// In its read phase.
    pub(super) is_read: bool,
}

/// The arrays that the names of handles are of, at a place.
pub(super) type Handles = BTreeMap<Ident, Handle>;

/// A step of a block.
pub(super) enum Step {
    /// A statement of the block.
    Block(Box<Stmt>),
    /// A statement of the block about raw arrays, which makes some of these so.
    Raw { statement: Box<Stmt>, of: Handles },
    /// Statements of each thread.
    Threads(Box<Phase>),
    /// A loop of the block.
    Loop { head: Box<Expr>, body: Vec<Step> },
    /// A branch of the block.
    If {
        condition: Box<Expr>,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
}

/// The statements of a thread between two barriers.
pub(super) struct Phase {
    pub(super) statements: Vec<Stmt>,
    pub(super) handles: Handles,
    /// All names in the statements.
    pub(super) named: HashSet<Ident>,
    /// Variables that are bound here, and used in other phases, by their numbers.
    pub(super) made: Vec<(Ident, usize)>,
    /// Variables of other phases that are used here.
    pub(super) used: Vec<(Ident, usize)>,
    /// Variables that can be bound here.
    bound: Vec<(Ident, bool)>,
    /// Statements, that bind what is computed again, that are in scope.
    pub(super) again: Vec<syn::Local>,
    /// Its form for threads that go through it side by side.
    pub(super) lanes: Option<Lanes>,
}

/// The kernel's steps, and how many variables are kept.
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    pub(super) kept: usize,
}

/// Takes a kernel apart. `None` if it is not plainly of the form.
pub(super) fn steps(block: &Block, known: &Known) -> Option<Steps> {
    // A loop by itself may be around threads that go side by side; but what it shares with its
    // phase is kept then.
    steps_of(block, known, true).or_else(|| steps_of(block, known, false))
}

fn steps_of(block: &Block, known: &Known, splits: bool) -> Option<Steps> {
    let Known {
        names, parameters, ..
    } = *known;
    let shared = parameters
        .iter()
        .filter(|parameter| matches!(parameter.passing, Passing::Shared(_)));
    let handle = |(array, parameter): (usize, &Parameter)| {
        let is_read = false;
        (parameter.name.clone(), Handle { array, is_read })
    };
    let mut reader = Reader {
        known,
        names,
        splits,
        handles: shared.enumerate().map(handle).collect(),
        visible: parameters
            .iter()
            .map(|parameter| parameter.name.clone())
            .collect(),
        again: Vec::new(),
        plain: HashSet::new(),
        loops: 0,
    };
    let mut steps = reader.block(block)?;
    let mut kept = 0;
    keep(&mut steps, &mut HashMap::new(), &mut kept)?;
    Some(Steps { steps, kept })
}

struct Reader<'n> {
    known: &'n Known<'n>,
    names: &'n Names,
    /// True if loops that can be around threads are phases of their own.
    splits: bool,
    handles: Handles,
    /// The names that are bound where the reader is.
    visible: Vec<Ident>,
    again: Vec<syn::Local>,
    /// Variables that are plain data.
    plain: HashSet<Ident>,
    /// Loops of the block around the reader.
    loops: usize,
}

impl Reader<'_> {
    fn block(&mut self, block: &Block) -> Option<Vec<Step>> {
        let (outside, again) = (self.visible.len(), self.again.len());
        let mut steps = Vec::new();
        let mut phase = Vec::new();
        for statement in &block.stmts {
            if waits(statement) {
                self.finish(&mut phase, &mut steps);
                self.waiting(statement, &mut steps)?;
            } else if matches!(statement, Stmt::Item(_)) {
                return None;
            } else if self.names.is_of_raw(statement) {
                self.finish(&mut phase, &mut steps);
                let of = self.raw(statement)?;
                let statement = Box::new(statement.clone());
                steps.push(Step::Raw { statement, of });
            } else if self.is_made_once(statement) {
                self.finish(&mut phase, &mut steps);
                steps.push(Step::Block(Box::new(statement.clone())));
            } else if self.names.is_uniform_statement(statement) {
                self.bind(statement)?;
                is_contained(statement)?;
                // What threads do before cannot change what a `let` sees: so it may come first.
                // (Where both fail, it is this that the first thread finds.)
                if !matches!(statement, Stmt::Local(_)) {
                    self.finish(&mut phase, &mut steps);
                }
                steps.push(Step::Block(Box::new(statement.clone())));
            } else {
                self.bind(statement)?;
                is_contained(statement)?;
                match statement {
                    Stmt::Expr(Expr::ForLoop(_), _)
                        if self.splits && self.lanes(std::slice::from_ref(statement)).is_some() =>
                    {
                        self.finish(&mut phase, &mut steps);
                        self.finish(&mut vec![statement.clone()], &mut steps);
                    }
                    Stmt::Local(local) if self.names.is_again(local) => {
                        self.again.push(local.clone())
                    }
                    // The last of a block, too.
                    Stmt::Expr(expression, None) => {
                        phase.push(Stmt::Expr(
                            expression.clone(),
                            Some(Token![;](Span::mixed_site())),
                        ));
                    }
                    _ => phase.push(statement.clone()),
                }
            }
        }
        self.finish(&mut phase, &mut steps);
        for name in self.visible.drain(outside..) {
            self.handles.remove(&name);
        }
        self.again.truncate(again);
        Some(steps)
    }

    /// The arrays that a statement about raw arrays makes so.
    fn raw(&mut self, statement: &Stmt) -> Option<Handles> {
        let mut conditions = raw::conditions(statement).into_iter();
        if !conditions.all(|condition| self.names.is_uniform(condition)) {
            return None;
        }
        let made = raw::made(statement).into_iter().map(|name| {
            let handle = self.handles.remove(&name)?;
            (!handle.is_read).then_some((name, handle))
        });
        let made: Handles = made.collect::<Option<_>>()?;
        for (name, array) in self.names.raw_bound(statement).unwrap_or_default() {
            // An array's name may be hidden by its own raw handle.
            if !self.visible.contains(&name) && name != self.names.acc {
                self.visible.push(name);
            } else if array.as_ref() != Some(&name) {
                return None;
            }
        }
        // What is assigned is raw already.
        let is_there = |name| self.visible.contains(name) && !self.handles.contains_key(name);
        let assigned = self.names.raw_exchanged(statement).unwrap_or_default();
        assigned.iter().all(is_there).then_some(made)
    }

    /// An `assert!` of what is the same for all threads, or what leaves a round, a loop or the
    /// kernel for all.
    fn is_made_once(&self, statement: &Stmt) -> bool {
        let asserts = |asked: Expr| self.names.is_uniform(&asked);
        assertions::condition(statement).is_some_and(asserts)
            || ((self.loops > 0 || returns(statement)) && self.names.is_uniform_jump(statement))
    }

    /// Binds the names of a statement that does not wait. Two variables of one name are too much to
    /// tell apart.
    fn bind(&mut self, statement: &Stmt) -> Option<()> {
        if let Stmt::Local(local) = statement {
            let bound = Bound::of(&local.pat);
            if bound.iter().any(|name| self.is_hiding(name)) {
                return None;
            }
            if self.is_plain(local) {
                self.plain.extend(bound.iter().cloned());
            } else {
                self.plain.retain(|name| !bound.contains(name));
            }
            self.visible.extend(bound);
        }
        Some(())
    }

    /// True if a name that is bound would hide another.
    fn is_hiding(&self, name: &Ident) -> bool {
        self.visible.contains(name) || *name == self.names.acc
    }

    fn is_plain(&self, local: &syn::Local) -> bool {
        bound_by(&local.pat).is_some()
            && local.init.as_ref().is_some_and(|init| {
                init.diverge.is_none() && self.names.is_plain(&init.expr, &self.plain)
            })
    }

    fn lanes(&self, statements: &[Stmt]) -> Option<Lanes> {
        self.known.lanes(statements, &self.handles, &self.visible)
    }

    fn finish(&self, phase: &mut Vec<Stmt>, steps: &mut Vec<Step>) {
        let statements = std::mem::take(phase);
        if statements.is_empty() {
            return;
        }
        let mut named = Named::default();
        let mut bound = Vec::new();
        for statement in &statements {
            named.visit_stmt(statement);
            if let Stmt::Local(local) = statement {
                let is_plain = self.is_plain(local);
                let names = Bound::of(&local.pat).into_iter();
                bound.extend(names.map(|name| (name, is_plain)));
            }
        }
        // What is computed again may be of others.
        let mut again = Vec::new();
        for local in self.again.iter().rev() {
            if Bound::of(&local.pat)
                .iter()
                .any(|name| named.0.contains(name))
            {
                named.visit_local(local);
                again.push(local.clone());
            }
        }
        again.reverse();
        steps.push(Step::Threads(Box::new(Phase {
            lanes: self.lanes(&statements),
            statements,
            handles: self.handles.clone(),
            named: named.0,
            made: Vec::new(),
            used: Vec::new(),
            bound,
            again,
        })));
    }

    /// A statement that waits: a barrier, or a loop or branch around some.
    fn waiting(&mut self, statement: &Stmt, steps: &mut Vec<Step>) -> Option<()> {
        match statement {
            Stmt::Local(local) if local.init.as_ref()?.diverge.is_none() => {
                let to = bound_by(&local.pat)?;
                let (Pat::Ident(_) | Pat::Tuple(_)) = &local.pat else {
                    return None;
                };
                // By what it has been turned from a name may be hidden; by others not.
                let from = self.turned(&local.init.as_ref()?.expr)?;
                self.turn(&from, &to)?;
                for name in to {
                    if !from.contains(&name) && self.is_hiding(&name) {
                        return None;
                    }
                    if !self.visible.contains(&name) {
                        self.visible.push(name);
                    }
                }
                Some(())
            }
            Stmt::Expr(Expr::Assign(assign), _) => {
                let to = names_in(&assign.left)?;
                let from = self.turned(&assign.right)?;
                if !to.iter().all(|name| self.visible.contains(name)) {
                    return None;
                }
                self.turn(&from, &to)
            }
            Stmt::Expr(Expr::Await(waits), _) => match &*waits.base {
                Expr::MethodCall(call)
                    if call.method == "sync_block_threads"
                        && call.args.is_empty()
                        && self.is_acc(&call.receiver) =>
                {
                    Some(())
                }
                _ => None,
            },
            Stmt::Expr(head @ Expr::While(looped), _) => {
                if looped.label.is_some() || !self.names.is_uniform(&looped.cond) {
                    return None;
                }
                let bound = self.bound_in(&looped.cond)?;
                self.looped(head, &looped.body, bound, steps)
            }
            Stmt::Expr(head @ Expr::ForLoop(looped), _) => {
                if looped.label.is_some() || !self.names.is_uniform_range(&looped.expr) {
                    return None;
                }
                let counted = bound_by(&looped.pat)?;
                self.looped(head, &looped.body, counted, steps)
            }
            Stmt::Expr(head @ Expr::Loop(looped), _) if looped.label.is_none() => {
                self.looped(head, &looped.body, Vec::new(), steps)
            }
            Stmt::Expr(Expr::If(branches), _) => self.branched(branches, steps),
            _ => None,
        }
    }

    fn looped(
        &mut self,
        head: &Expr,
        body: &Block,
        counted: Vec<Ident>,
        steps: &mut Vec<Step>,
    ) -> Option<()> {
        if counted.iter().any(|name| self.is_hiding(name)) {
            return None;
        }
        let outside = self.visible.len();
        self.visible.extend(counted);
        let before = self.handles.clone();
        self.loops += 1;
        let body = self.block(body)?;
        self.loops -= 1;
        // Each round begins as the first did.
        if self.handles != before {
            return None;
        }
        self.visible.truncate(outside);
        let head = Box::new(head.clone());
        steps.push(Step::Loop { head, body });
        Some(())
    }

    fn branched(&mut self, branches: &ExprIf, steps: &mut Vec<Step>) -> Option<()> {
        if !self.names.is_uniform(&branches.cond) {
            return None;
        }
        let before = self.handles.clone();
        let bound = self.bound_in(&branches.cond)?;
        let outside = self.visible.len();
        self.visible.extend(bound);
        let then = self.block(&branches.then_branch)?;
        self.visible.truncate(outside);
        let after = std::mem::replace(&mut self.handles, before);
        let otherwise = match branches.else_branch.as_ref().map(|(_, branch)| &**branch) {
            None => Vec::new(),
            Some(Expr::Block(branch)) if branch.label.is_none() => self.block(&branch.block)?,
            Some(Expr::If(branches)) => {
                let mut steps = Vec::new();
                self.branched(branches, &mut steps)?;
                steps
            }
            Some(_) => return None,
        };
        // Whichever was taken.
        if self.handles != after {
            return None;
        }
        steps.push(Step::If {
            condition: branches.cond.clone(),
            then,
            otherwise,
        });
        Some(())
    }

    /// The names that a condition binds, if the block can have them.
    fn bound_in(&self, condition: &Expr) -> Option<Vec<Ident>> {
        let bound = bound_in(condition);
        (self.names.binds_uniform(condition) && !bound.iter().any(|name| self.is_hiding(name)))
            .then(|| bound.into_iter().collect())
    }

    fn is_acc(&self, receiver: &Expr) -> bool {
        matches!(receiver, Expr::Path(path) if path.path.is_ident(&self.names.acc))
    }

    /// The handles that `acc.sync(…).await` turns.
    fn turned(&self, expression: &Expr) -> Option<Vec<Ident>> {
        let Expr::Await(waits) = expression else {
            return None;
        };
        match &*waits.base {
            Expr::MethodCall(call)
                if call.method == "sync" && call.args.len() == 1 && self.is_acc(&call.receiver) =>
            {
                names_in(&call.args[0])
            }
            _ => None,
        }
    }

    fn turn(&mut self, from: &[Ident], to: &[Ident]) -> Option<()> {
        if from.len() != to.len() {
            return None;
        }
        let turned: Option<Vec<_>> = from.iter().map(|name| self.handles.remove(name)).collect();
        for (name, Handle { array, is_read }) in to.iter().zip(turned?) {
            let is_read = !is_read;
            let hidden = self.handles.insert(name.clone(), Handle { array, is_read });
            if hidden.is_some() {
                return None;
            }
        }
        Some(())
    }
}

/// Gives variables that several phases name their numbers. `None` if one may be more than plain
/// data.
fn keep(steps: &mut [Step], outside: &mut HashMap<Ident, usize>, kept: &mut usize) -> Option<()> {
    let mut here = Vec::new();
    for at in 0..steps.len() {
        let (step, rest) = steps[at..].split_first_mut()?;
        match step {
            Step::Block(_) | Step::Raw { .. } => {}
            Step::Loop { body, .. } => keep(body, outside, kept)?,
            Step::If {
                then, otherwise, ..
            } => {
                keep(then, outside, kept)?;
                keep(otherwise, outside, kept)?;
            }
            Step::Threads(phase) => {
                let used = phase.named.iter().filter_map(|name| {
                    let number = outside.get(name)?;
                    Some((name.clone(), *number))
                });
                phase.used = used.collect();
                phase.used.sort_by_key(|(_, number)| *number);
                for (name, is_plain) in std::mem::take(&mut phase.bound) {
                    if !rest.iter().any(|step| names_it(step, &name)) {
                        continue;
                    }
                    if !is_plain {
                        return None;
                    }
                    phase.made.push((name.clone(), *kept));
                    outside.insert(name.clone(), *kept);
                    here.push(name);
                    *kept += 1;
                }
            }
        }
    }
    for name in here {
        outside.remove(&name);
    }
    Some(())
}

fn names_it(step: &Step, name: &Ident) -> bool {
    match step {
        Step::Block(_) | Step::Raw { .. } => false,
        Step::Threads(phase) => phase.named.contains(name),
        Step::Loop { body, .. } => body.iter().any(|step| names_it(step, name)),
        Step::If {
            then, otherwise, ..
        } => {
            let mut steps = then.iter().chain(otherwise);
            steps.any(|step| names_it(step, name))
        }
    }
}

/// True if there is a `return` in a statement.
fn returns(statement: &Stmt) -> bool {
    struct Returns(bool);
    impl<'ast> Visit<'ast> for Returns {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.0 = true;
        }
    }
    let mut returns = Returns(false);
    returns.visit_stmt(statement);
    returns.0
}

/// A name, or a tuple of names.
pub(super) fn names_in(expression: &Expr) -> Option<Vec<Ident>> {
    match expression {
        Expr::Path(path) => Some(vec![path.path.get_ident()?.clone()]),
        Expr::Paren(inner) => names_in(&inner.expr),
        Expr::Tuple(tuple) => {
            let name = |of: &Expr| match of {
                Expr::Path(path) => path.path.get_ident().cloned(),
                _ => None,
            };
            tuple.elems.iter().map(name).collect()
        }
        _ => None,
    }
}

/// All names that a pattern binds.
struct Bound(Vec<Ident>);

impl Bound {
    fn of(pattern: &Pat) -> Vec<Ident> {
        let mut bound = Self(Vec::new());
        bound.visit_pat(pattern);
        bound.0
    }
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

/// The names in an expression.
#[derive(Default)]
pub(super) struct Named(pub(super) HashSet<Ident>);

impl<'ast> Visit<'ast> for Named {
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.0.extend(path.path.get_ident().cloned());
        visit::visit_expr_path(self, path);
    }
}

/// Checks that a statement goes on behind itself, and that all of it can be seen.
fn is_contained(statement: &Stmt) -> Option<()> {
    let mut contained = Contained::default();
    contained.visit_stmt(statement);
    (!contained.leaves).then_some(())
}

#[derive(Default)]
struct Contained {
    labels: Vec<Lifetime>,
    loops: usize,
    leaves: bool,
}

impl Contained {
    fn go(&mut self, to: Option<&Lifetime>) {
        self.leaves |= match to {
            Some(label) => !self.labels.contains(label),
            None => self.loops == 0,
        };
    }
}

impl<'ast> Visit<'ast> for Contained {
    fn visit_label(&mut self, label: &'ast syn::Label) {
        self.labels.push(label.name.clone());
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        let is_loop = matches!(
            expression,
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_)
        );
        match expression {
            Expr::Break(jump) => self.go(jump.label.as_ref()),
            Expr::Continue(jump) => self.go(jump.label.as_ref()),
            Expr::Return(_) | Expr::Try(_) | Expr::Macro(_) | Expr::Async(_) => self.leaves = true,
            // A future that nobody awaits would be found out.
            Expr::MethodCall(call) => {
                let method = call.method.to_string();
                let is_of_warp = method.starts_with("warp_") && method != "warp_size";
                self.leaves |= method.starts_with("sync") || is_of_warp;
            }
            _ => {}
        }
        self.loops += usize::from(is_loop);
        visit::visit_expr(self, expression);
        self.loops -= usize::from(is_loop);
    }

    fn visit_stmt_macro(&mut self, _: &'ast syn::StmtMacro) {
        self.leaves = true;
    }
}

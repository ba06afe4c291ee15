//! The variables of a kernel that are the same for all threads of a block.

use std::collections::{HashMap, HashSet};

use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprIf, ExprMethodCall, Ident, Local, Member, Pat, Stmt, UnOp, parse_quote,
};

use super::raw;
use crate::expression::is_assignment;
use crate::signature::{Parameter, Passing};

/// Methods of numbers and views that change nothing and give what depends on their arguments alone.
/// (None that another type might have to change itself.)
const PURE_METHODS: [&str; 24] = [
    "abs",
    "components",
    "count_ones",
    "div_ceil",
    "extent",
    "ilog2",
    "is_empty",
    "isqrt",
    "leading_zeros",
    "len",
    "max",
    "min",
    "mul_add",
    "pow",
    "powi",
    "rem_euclid",
    "saturating_add",
    "saturating_mul",
    "saturating_sub",
    "sqrt",
    "trailing_zeros",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_sub",
];

/// Adapters of iterators, which give what depends on their items and arguments alone.
const ADAPTERS: [&str; 8] = [
    "cloned",
    "copied",
    "enumerate",
    "rev",
    "skip",
    "step_by",
    "take",
    "zip",
];

/// Questions to the accelerator whose answer is the same for all threads of a launch.
const PROPERTIES: &[&str] = &[
    "is_native",
    "is_gpu",
    "has_f64",
    "has_clock",
    "has_system_scope",
];

/// Methods that give plain data, too.
const PLAIN_METHODS: [&str; 10] = [
    "cast",
    "clamp",
    "exp",
    "floor",
    "ln",
    "load",
    "multiply_add",
    "read",
    "rsqrt",
    "to_f32",
];

pub(crate) fn is_pure(method: &Ident) -> bool {
    PURE_METHODS.iter().any(|name| method == name)
}

pub(super) fn is_plain_method(method: &Ident) -> bool {
    PLAIN_METHODS.iter().any(|name| method == name)
}

/// The subject of `acc.index(…)` and its kind.
pub(super) enum Indexed {
    /// The block.
    Uniform,
    /// A thread: the next is the next thread's.
    Threads,
}

/// The meanings of a kernel's names.
pub(super) struct Names {
    pub(super) acc: Ident,
    /// All that are bound somewhere. Others are constants.
    bound: HashSet<Ident>,
    /// Bound with `mut` somewhere.
    mutable: HashSet<Ident>,
    /// Parameters, but for the accelerator.
    parameters: HashSet<Ident>,
    /// The same for all threads.
    uniform: HashSet<Ident>,
    /// Raw arrays, of which the block has the handles.
    raw: HashSet<Ident>,
    /// Computed again in each phase.
    again: HashSet<Ident>,
    /// The expressions of those among these.
    values: HashMap<Ident, Expr>,
}

impl Names {
    /// Finds out. `None` if a parameter is assigned, or a raw array by a thread alone.
    pub(super) fn of(block: &Block, acc: &Ident, parameters: &[Parameter]) -> Option<Self> {
        let mut bound = Bound::default();
        bound.visit_block(block);
        let named = |parameter: &Parameter| parameter.name.clone();
        let mut names = Self {
            acc: acc.clone(),
            mutable: bound.mutable,
            bound: bound.all,
            parameters: parameters.iter().map(named).collect(),
            uniform: parameters
                .iter()
                .filter(|of| is_read(of))
                .map(named)
                .collect(),
            raw: HashSet::new(),
            again: HashSet::new(),
            values: HashMap::new(),
        };
        names.bound.extend(parameters.iter().map(named));
        names.bound.insert(acc.clone());
        let (mut locals, mut rounds) = (Vec::new(), Vec::new());
        locals_of(block, &mut locals, &mut rounds);
        let patterns = locals.iter().map(|local| &local.pat).chain(rounds);
        for pattern in patterns {
            names.uniform.extend(bound_by(pattern).unwrap_or_default());
        }
        names.raw = raw::names(block, &locals);
        names.uniform.retain(|name| !names.raw.contains(name));
        loop {
            let mut others = Others::default();
            names.find_others(block, &mut others);
            let is_assigned = |name| names.parameters.contains(name);
            if others.assigned.iter().any(is_assigned) || !names.raw.is_disjoint(&others.names) {
                return None;
            }
            let before = names.uniform.len();
            names.uniform.retain(|name| !others.names.contains(name));
            if names.uniform.len() == before {
                break;
            }
        }
        // In order, as each may be made of those before it. Names of several variables are left
        // out.
        let bound: Vec<_> = locals
            .iter()
            .filter_map(|local| bound_by(&local.pat))
            .flatten()
            .collect();
        for local in locals {
            let own = bound_by(&local.pat).unwrap_or_default();
            let is_alone = |name| bound.iter().filter(|other| *other == name).count() == 1;
            if own.iter().all(is_alone) && names.is_computed_again(local) {
                if let Some(init) = &local.init {
                    names.know(&local.pat, &init.expr);
                }
                names.again.extend(own);
            }
        }
        Some(names)
    }

    fn know(&mut self, pattern: &Pat, value: &Expr) {
        match (pattern, value) {
            (Pat::Type(typed), _) => self.know(&typed.pat, value),
            (Pat::Ident(name), _) => {
                self.values.insert(name.ident.clone(), value.clone());
            }
            (Pat::Tuple(parts), Expr::Tuple(values)) => {
                for (part, value) in parts.elems.iter().zip(&values.elems) {
                    self.know(part, value);
                }
            }
            (Pat::Slice(parts), Expr::MethodCall(call)) if call.method == "components" => {
                let whole = &call.receiver;
                for (at, part) in parts.elems.iter().enumerate() {
                    self.know(part, &parse_quote!(#whole[#at]));
                }
            }
            _ => {}
        }
    }

    /// The value of a variable that is computed again.
    pub(super) fn value_again(&self, name: &Ident) -> Option<&Expr> {
        self.values.get(name)
    }

    /// The subject of the components of `acc.index(…)` and its kind.
    pub(super) fn indexed(&self, call: &ExprMethodCall) -> Option<Indexed> {
        if !self.is_of_acc(call) {
            return None;
        }
        let arguments: Vec<_> = call.args.iter().filter_map(last_name).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        match (&*call.method.to_string(), &arguments[..]) {
            ("extent", _) | ("block_index", []) | ("index", ["Grid", "Blocks"]) => {
                Some(Indexed::Uniform)
            }
            ("thread_index", []) | ("index", ["Grid" | "Block", "Threads"]) => {
                Some(Indexed::Threads)
            }
            _ => None,
        }
    }

    /// True if all names that a condition binds are the same for all threads.
    pub(super) fn binds_uniform(&self, condition: &Expr) -> bool {
        bound_in(condition).is_subset(&self.uniform)
    }

    pub(super) fn is_mutable(&self, name: &Ident) -> bool {
        self.mutable.contains(name)
    }

    pub(super) fn is_raw(&self, name: &Ident) -> bool {
        self.raw.contains(name)
    }

    /// True if a statement binds or assigns raw arrays, and does no more.
    pub(super) fn is_of_raw(&self, statement: &Stmt) -> bool {
        self.raw_bound(statement).is_some() || self.raw_exchanged(statement).is_some()
    }

    /// The names of raw arrays that a statement binds, as [`raw::bound`] says, and does no more.
    pub(super) fn raw_bound(&self, statement: &Stmt) -> Option<Vec<(Ident, Option<Ident>)>> {
        let Stmt::Local(local) = statement else {
            return None;
        };
        raw::bound(local, &self.raw)
            .filter(|bound| bound.iter().all(|(name, _)| self.raw.contains(name)))
    }

    /// The names of raw arrays that a statement assigns, and does no more.
    pub(super) fn raw_exchanged(&self, statement: &Stmt) -> Option<Vec<Ident>> {
        raw::exchanged(statement, &self.raw)
    }

    /// True if a statement is one of the block, done once.
    pub(super) fn is_uniform_statement(&self, statement: &Stmt) -> bool {
        match statement {
            Stmt::Local(local) => bound_by(&local.pat).is_some_and(|bound| {
                !bound.is_empty() && bound.iter().all(|name| self.uniform.contains(name))
            }),
            Stmt::Expr(Expr::Assign(assign), _) => {
                place(&assign.left).is_some_and(|name| self.uniform.contains(name))
            }
            Stmt::Expr(Expr::Binary(binary), _) if is_assignment(&binary.op) => {
                place(&binary.left).is_some_and(|name| self.uniform.contains(name))
            }
            _ => false,
        }
    }

    /// True if a statement leaves a round of a loop, the loop, or the kernel, for all threads or
    /// for none.
    pub(super) fn is_uniform_jump(&self, statement: &Stmt) -> bool {
        let Stmt::Expr(expression, _) = statement else {
            return false;
        };
        match expression {
            Expr::Break(jump) => jump.label.is_none() && jump.expr.is_none(),
            Expr::Continue(jump) => jump.label.is_none(),
            Expr::Return(end) => end.expr.is_none(),
            Expr::If(branch) => {
                branch.else_branch.is_none()
                    && self.is_uniform(&branch.cond)
                    && matches!(&branch.then_branch.stmts[..], [jump] if self.is_uniform_jump(jump))
            }
            _ => false,
        }
    }

    /// True if all names that a `let` binds are computed again where they are used.
    pub(super) fn is_again(&self, local: &Local) -> bool {
        bound_by(&local.pat).is_some_and(|bound| {
            !bound.is_empty() && bound.iter().all(|name| self.again.contains(name))
        })
    }

    fn is_computed_again(&self, local: &Local) -> bool {
        let Some(bound) = bound_by(&local.pat) else {
            return false;
        };
        let new = |name: &Ident| !self.uniform.contains(name) && !self.mutable.contains(name);
        bound.iter().all(new)
            && local
                .init
                .as_ref()
                .is_some_and(|init| init.diverge.is_none() && self.is_cheap(&init.expr))
    }

    /// The names, among those taken for uniform, that statements give what is not.
    fn find_others(&self, block: &Block, others: &mut Others) {
        for statement in &block.stmts {
            match statement {
                _ if self.is_of_raw(statement) => {}
                Stmt::Local(local) => {
                    let init = local.init.as_ref();
                    if !init
                        .is_some_and(|init| init.diverge.is_none() && self.is_uniform(&init.expr))
                    {
                        others
                            .names
                            .extend(bound_by(&local.pat).unwrap_or_default());
                        self.find_changed(statement, others);
                    }
                }
                Stmt::Expr(Expr::Assign(assign), _)
                    if place(&assign.left).is_some_and(|name| self.uniform.contains(name))
                        && self.is_uniform(&assign.right) => {}
                Stmt::Expr(Expr::Binary(binary), _)
                    if is_assignment(&binary.op)
                        && place(&binary.left).is_some_and(|name| self.uniform.contains(name))
                        && self.is_uniform(&binary.right) => {}
                Stmt::Expr(Expr::While(looped), _) if waits(statement) => {
                    self.find_matched(&looped.cond, others);
                    self.find_others(&looped.body, others);
                }
                Stmt::Expr(Expr::ForLoop(looped), _) if waits(statement) => {
                    if !self.is_uniform_range(&looped.expr) {
                        others
                            .names
                            .extend(bound_by(&looped.pat).unwrap_or_default());
                    }
                    self.find_others(&looped.body, others);
                }
                Stmt::Expr(Expr::Loop(looped), _) if waits(statement) => {
                    self.find_others(&looped.body, others);
                }
                Stmt::Expr(Expr::If(branches), _) if waits(statement) => {
                    for (condition, block) in blocks_of(branches) {
                        if let Some(condition) = condition {
                            self.find_matched(condition, others);
                        }
                        self.find_others(block, others);
                    }
                }
                _ if waits(statement) => {}
                _ => self.find_changed(statement, others),
            }
        }
    }

    /// The names that an `if let` or `while let` binds to what is not uniform.
    fn find_matched(&self, condition: &Expr, others: &mut Others) {
        if !self.is_uniform(condition) {
            others.names.extend(bound_in(condition));
        }
    }

    fn find_changed(&self, statement: &Stmt, others: &mut Others) {
        let mut changed = Changed {
            raw: &self.raw,
            assigned: HashSet::new(),
            inside: HashSet::new(),
        };
        changed.visit_stmt(statement);
        let names = changed.assigned.iter().chain(&changed.inside);
        others
            .names
            .extend(names.filter(|name| self.mutable.contains(name)).cloned());
        others.assigned.extend(changed.assigned);
    }

    /// True if all threads go round a loop over it equally often.
    pub(super) fn is_uniform_range(&self, range: &Expr) -> bool {
        match range {
            Expr::MethodCall(call) if call.method == "iter" => self.is_uniform(&call.receiver),
            Expr::MethodCall(call) if ADAPTERS.iter().any(|name| call.method == name) => {
                let is_uniform = |of: &Expr| self.is_uniform_range(of) || self.is_uniform(of);
                self.is_uniform_range(&call.receiver) && call.args.iter().all(is_uniform)
            }
            Expr::Paren(inner) => self.is_uniform_range(&inner.expr),
            Expr::Range(range) => self.is_between_uniform(range),
            _ => false,
        }
    }

    fn is_between_uniform(&self, range: &syn::ExprRange) -> bool {
        range.start.iter().all(|start| self.is_uniform(start))
            && range.end.iter().all(|end| self.is_uniform(end))
    }

    /// True if it is the same for all threads of a block, and changes nothing.
    pub(super) fn is_uniform(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => self.uniform.contains(name) || !self.bound.contains(name),
                None => true,
            },
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Path(path)
                    if path.path.get_ident().is_none_or(|name| !self.bound.contains(name)))
                    && call.args.iter().all(|argument| self.is_uniform(argument))
            }
            Expr::MethodCall(call) if self.is_of_acc(call) => {
                let name = call.method.to_string();
                let arguments: Vec<_> = call.args.iter().filter_map(last_name).collect();
                match name.as_str() {
                    "extent" | "warp_size" | "block_index" => true,
                    property if PROPERTIES.contains(&property) => true,
                    "index" => arguments == ["Grid", "Blocks"],
                    _ => false,
                }
            }
            Expr::Index(index) => {
                let Expr::Range(range) = &*index.index else {
                    return self.is_uniform(&index.expr) && self.is_uniform(&index.index);
                };
                self.is_uniform(&index.expr) && self.is_between_uniform(range)
            }
            Expr::Reference(reference) => {
                reference.mutability.is_none() && self.is_uniform(&reference.expr)
            }
            Expr::Let(condition) => self.is_uniform(&condition.expr),
            Expr::If(_) | Expr::Match(_) | Expr::Block(_) => {
                self.is_chosen_of(expression, &|part| self.is_uniform(part))
            }
            other => self.is_made_of(other, &|part| self.is_uniform(part)),
        }
    }

    /// True if it is one of several values of which this holds, as does the value that decides, and
    /// no more.
    fn is_chosen_of(&self, expression: &Expr, holds: &dyn Fn(&Expr) -> bool) -> bool {
        let tail = |block: &Block| match &block.stmts[..] {
            [Stmt::Expr(tail, None)] => holds(tail),
            _ => false,
        };
        // What is bound here has no value outside.
        let binds_nothing = |arm: &Arm| !crate::pattern::binds_any(&arm.pat);
        match expression {
            Expr::If(branch) => {
                let otherwise = branch.else_branch.as_ref();
                !matches!(&*branch.cond, Expr::Let(_))
                    && holds(&branch.cond)
                    && tail(&branch.then_branch)
                    && otherwise.is_some_and(|(_, otherwise)| holds(otherwise))
            }
            Expr::Match(cases) => {
                holds(&cases.expr)
                    && cases.arms.iter().all(|arm| {
                        let is_asked = match &arm.pat {
                            Pat::Guard(guarded) => holds(&guarded.guard),
                            _ => true,
                        };
                        binds_nothing(arm) && is_asked && holds(&arm.body)
                    })
            }
            Expr::Block(block) => block.label.is_none() && tail(&block.block),
            _ => false,
        }
    }

    /// True if it may as well be computed once more: it depends only on values that never change.
    fn is_cheap(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => {
                    self.again.contains(name)
                        || !self.bound.contains(name)
                        || self.uniform.contains(name) && !self.mutable.contains(name)
                }
                None => true,
            },
            Expr::MethodCall(call) if self.is_of_acc(call) => [
                "extent",
                "index",
                "block_index",
                "thread_index",
                "warp_size",
            ]
            .iter()
            .chain(PROPERTIES)
            .any(|name| call.method == name),
            Expr::MethodCall(call) if call.method == "extent" || call.method == "len" => {
                place(&call.receiver).is_some_and(|name| match self.raw.contains(name) {
                    true => !self.mutable.contains(name),
                    false => self.parameters.contains(name),
                })
            }
            // Nothing of memory that may be far away.
            Expr::Index(index) => {
                matches!(&*index.expr, Expr::MethodCall(_))
                    && self.is_made_of(expression, &|part| self.is_cheap(part))
            }
            Expr::Call(_) | Expr::Range(_) | Expr::Reference(_) => false,
            other => self.is_made_of(other, &|part| self.is_cheap(part)),
        }
    }

    /// True if a value is plain data for sure: made by operations that lend nothing, of variables
    /// that are `known` to be.
    pub(super) fn is_plain(&self, expression: &Expr, known: &HashSet<Ident>) -> bool {
        match expression {
            Expr::Path(path) => path.path.get_ident().is_none_or(|name| {
                known.contains(name)
                    || self.uniform.contains(name)
                    || self.again.contains(name)
                    || !self.bound.contains(name)
            }),
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Path(_))
                    && call
                        .args
                        .iter()
                        .all(|argument| self.is_plain(argument, known))
            }
            Expr::MethodCall(call) if self.is_of_acc(call) => [
                "extent",
                "index",
                "block_index",
                "thread_index",
                "warp_size",
                "lane",
            ]
            .iter()
            .chain(PROPERTIES)
            .any(|name| call.method == name),
            Expr::MethodCall(call)
                if call.method == "len"
                    && place(&call.receiver).is_some_and(|name| self.raw.contains(name)) =>
            {
                true
            }
            Expr::MethodCall(call) if PLAIN_METHODS.iter().any(|name| call.method == name) => call
                .args
                .iter()
                .all(|argument| self.is_plain(argument, known)),
            Expr::Unsafe(inner) => match &inner.block.stmts[..] {
                [Stmt::Expr(tail, None)] => self.is_plain(tail, known),
                _ => false,
            },
            Expr::If(condition) => {
                let tail = |block: &Block| match &block.stmts[..] {
                    [Stmt::Expr(tail, None)] => self.is_plain(tail, known),
                    _ => false,
                };
                tail(&condition.then_branch)
                    && condition
                        .else_branch
                        .as_ref()
                        .is_some_and(|(_, otherwise)| match &**otherwise {
                            Expr::Block(block) if block.label.is_none() => tail(&block.block),
                            Expr::If(_) => self.is_plain(otherwise, known),
                            _ => false,
                        })
            }
            Expr::Index(index) => !matches!(&*index.index, Expr::Range(_)),
            Expr::Range(_) | Expr::Reference(_) => false,
            other => self.is_made_of(other, &|part| self.is_plain(part, known)),
        }
    }

    fn is_of_acc(&self, call: &ExprMethodCall) -> bool {
        matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident(&self.acc))
    }

    /// True if it is an operation on parts of which this holds, and no more.
    fn is_made_of(&self, expression: &Expr, holds: &dyn Fn(&Expr) -> bool) -> bool {
        match expression {
            Expr::Lit(_) => true,
            Expr::Paren(inner) => holds(&inner.expr),
            Expr::Group(inner) => holds(&inner.expr),
            Expr::Cast(cast) => holds(&cast.expr),
            Expr::Unary(unary) => !matches!(unary.op, UnOp::Deref(_)) && holds(&unary.expr),
            Expr::Binary(binary) => {
                !is_assignment(&binary.op) && holds(&binary.left) && holds(&binary.right)
            }
            Expr::Tuple(tuple) => tuple.elems.iter().all(holds),
            Expr::Array(array) => array.elems.iter().all(holds),
            Expr::Repeat(repeat) => holds(&repeat.expr),
            Expr::Field(field) => {
                matches!(field.member, Member::Named(_) | Member::Unnamed(_)) && holds(&field.base)
            }
            Expr::Index(index) => holds(&index.expr) && holds(&index.index),
            Expr::MethodCall(call) => {
                is_pure(&call.method) && holds(&call.receiver) && call.args.iter().all(holds)
            }
            _ => false,
        }
    }
}

/// True if a parameter is the same for all threads, and changed by none.
pub(crate) fn is_read(parameter: &Parameter) -> bool {
    match (&parameter.passing, &parameter.user_type) {
        (Passing::Value, _) => true,
        (Passing::View, syn::Type::Reference(reference)) => reference.mutability.is_none(),
        (Passing::View, syn::Type::Path(path)) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "GlobalRef"),
        _ => false,
    }
}

fn last_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// The variable that is assigned as a whole.
fn place(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    }
}

/// The names that a pattern binds, if it is one of names, and of tuples, arrays and structs of
/// these.
pub(crate) fn bound_by(pattern: &Pat) -> Option<Vec<Ident>> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            Some(vec![name.ident.clone()])
        }
        Pat::Wild(_) => Some(Vec::new()),
        Pat::Type(typed) => bound_by(&typed.pat),
        Pat::Paren(inner) => bound_by(&inner.pat),
        Pat::Rest(_) => Some(Vec::new()),
        Pat::Tuple(tuple) => bound_by_all(tuple.elems.iter()),
        Pat::Slice(slice) => bound_by_all(slice.elems.iter()),
        Pat::TupleStruct(structure) => bound_by_all(structure.elems.iter()),
        Pat::Struct(structure) => bound_by_all(structure.fields.iter().map(|field| &*field.pat)),
        _ => None,
    }
}

fn bound_by_all<'p>(parts: impl Iterator<Item = &'p Pat>) -> Option<Vec<Ident>> {
    let all: Option<Vec<_>> = parts.map(bound_by).collect();
    Some(all?.concat())
}

/// The patterns that stand behind `let` in a condition.
fn lets_of(condition: &Expr) -> Vec<&Pat> {
    match condition {
        Expr::Let(condition) => vec![&*condition.pat],
        Expr::Paren(inner) => lets_of(&inner.expr),
        Expr::Binary(binary) => [lets_of(&binary.left), lets_of(&binary.right)].concat(),
        _ => Vec::new(),
    }
}

/// The names that a condition binds.
pub(super) fn bound_in(condition: &Expr) -> HashSet<Ident> {
    let mut bound = Bound::default();
    lets_of(condition)
        .into_iter()
        .for_each(|pattern| bound.visit_pat(pattern));
    bound.all
}

/// The `let`s of the kernel itself and of its loops and branches that wait, in order, and what
/// these loops count with and their conditions bind.
fn locals_of<'b>(block: &'b Block, locals: &mut Vec<&'b Local>, rounds: &mut Vec<&'b Pat>) {
    for statement in &block.stmts {
        match statement {
            Stmt::Local(local) => locals.push(local),
            Stmt::Expr(Expr::While(looped), _) if waits(statement) => {
                rounds.extend(lets_of(&looped.cond));
                locals_of(&looped.body, locals, rounds);
            }
            Stmt::Expr(Expr::ForLoop(looped), _) if waits(statement) => {
                rounds.push(&looped.pat);
                locals_of(&looped.body, locals, rounds);
            }
            Stmt::Expr(Expr::Loop(looped), _) if waits(statement) => {
                locals_of(&looped.body, locals, rounds);
            }
            Stmt::Expr(Expr::If(branches), _) if waits(statement) => {
                for (condition, block) in blocks_of(branches) {
                    rounds.extend(condition.into_iter().flat_map(lets_of));
                    locals_of(block, locals, rounds);
                }
            }
            _ => {}
        }
    }
}

/// The blocks of an `if` and all that is `else`, with the conditions before them.
fn blocks_of(branches: &ExprIf) -> Vec<(Option<&Expr>, &Block)> {
    let mut blocks = vec![(Some(&*branches.cond), &branches.then_branch)];
    match branches.else_branch.as_ref().map(|(_, branch)| &**branch) {
        Some(Expr::Block(branch)) => blocks.push((None, &branch.block)),
        Some(Expr::If(branches)) => blocks.extend(blocks_of(branches)),
        _ => {}
    }
    blocks
}

/// True if there is an `await` in a statement.
pub(super) fn waits(statement: &Stmt) -> bool {
    struct Waits(bool);
    impl<'ast> Visit<'ast> for Waits {
        fn visit_expr_await(&mut self, _: &'ast syn::ExprAwait) {
            self.0 = true;
        }
    }
    let mut waits = Waits(false);
    waits.visit_stmt(statement);
    waits.0
}

/// The names that are bound somewhere.
#[derive(Default)]
struct Bound {
    all: HashSet<Ident>,
    mutable: HashSet<Ident>,
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.all.insert(pattern.ident.clone());
        if pattern.mutability.is_some() {
            self.mutable.insert(pattern.ident.clone());
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// The names that are not uniform after all.
#[derive(Default)]
struct Others {
    names: HashSet<Ident>,
    /// Assigned as a whole by threads.
    assigned: HashSet<Ident>,
}

/// The names that may be changed.
struct Changed<'n> {
    /// Names of raw arrays.
    raw: &'n HashSet<Ident>,
    /// As a whole.
    assigned: HashSet<Ident>,
    /// In part, by reference or by a method.
    inside: HashSet<Ident>,
}

impl Changed<'_> {
    fn is_raw(&self, receiver: &Expr) -> bool {
        place(receiver).is_some_and(|name| self.raw.contains(name))
    }

    fn assign(&mut self, to: &Expr) {
        match to {
            Expr::Path(path) => self.assigned.extend(path.path.get_ident().cloned()),
            Expr::Paren(inner) => self.assign(&inner.expr),
            Expr::Tuple(places) => places.elems.iter().for_each(|place| self.assign(place)),
            Expr::Array(places) => places.elems.iter().for_each(|place| self.assign(place)),
            other => self.change(other),
        }
    }

    fn change(&mut self, place: &Expr) {
        match place {
            Expr::Path(path) => self.inside.extend(path.path.get_ident().cloned()),
            Expr::Index(index) => self.change(&index.expr),
            Expr::Field(field) => self.change(&field.base),
            Expr::Paren(inner) => self.change(&inner.expr),
            Expr::Group(inner) => self.change(&inner.expr),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Changed<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Assign(assign) => self.assign(&assign.left),
            Expr::Binary(binary) if is_assignment(&binary.op) => self.assign(&binary.left),
            Expr::Reference(reference) if reference.mutability.is_some() => {
                self.change(&reference.expr)
            }
            Expr::MethodCall(call) if raw::keeps(&call.method) && self.is_raw(&call.receiver) => {}
            Expr::MethodCall(call) if !is_pure(&call.method) => self.change(&call.receiver),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

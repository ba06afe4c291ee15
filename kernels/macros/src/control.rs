//! Branches, loops, and ways out of them.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Arm, BinOp, Block, Expr, ExprForLoop, ExprIf, ExprLet, ExprLoop, ExprMatch, ExprUnary,
    ExprWhile, Ident, Label, Pat, Stmt, UnOp, parse_quote, parse_quote_spanned,
};

use crate::refuse;
use crate::scope::{Kind, LoopScope, Want, Writer};
use crate::statement::statement_diverges;

impl Writer {
    /// A branch, loop or block.
    pub(crate) fn control(&mut self, expression: &Expr, want: Want) -> TokenStream {
        match expression {
            Expr::If(branch) => self.branch(branch, want),
            Expr::Match(cases) => self.cases(cases, want),
            Expr::Unsafe(block) => match self.host_variable(&block.block) {
                Some(span) => self.refuse(span, refuse::STATIC_MUT),
                None => self.block(&block.block, want),
            },
            Expr::Block(block) => match &block.label {
                None => self.block(&block.block, want),
                Some(label) => self.labelled(label, &block.block, want),
            },
            Expr::Loop(forever) => self.forever(forever, want),
            Expr::While(condition) => self.while_loop(condition),
            Expr::ForLoop(each) => self.for_loop(each),
            _ => self.expression(expression),
        }
    }

    fn condition(&mut self, condition: &Expr) -> TokenStream {
        if let Some(span) = first_let(condition) {
            return self.refuse(span, refuse::IF_LET);
        }
        let condition_written = self.expression(condition);
        quote_spanned!(condition.span()=> __quipu::value(#condition_written))
    }

    fn branch(&mut self, branch: &ExprIf, want: Want) -> TokenStream {
        let span = branch.if_token.span;
        if let Expr::Let(pattern) = &*branch.cond {
            let then = &branch.then_branch;
            let otherwise = match &branch.else_branch {
                Some((_, otherwise)) => (**otherwise).clone(),
                None => parse_quote!({}),
            };
            return self.cases(&either(span, pattern, then, &otherwise), want);
        }
        if first_let(&branch.cond).is_some() {
            return self.chained(branch, want);
        }
        let condition = self.condition(&branch.cond);
        let Some((_, otherwise)) = &branch.else_branch else {
            let then = self.block(&branch.then_branch, Want::Nothing);
            let token = self.fresh("branch");
            return quote_spanned!(span=> {
                let #token = __quipu::branch(#condition);
                if #token.begins_then() { #token.ends_then(#then); }
                #token.result()
            });
        };
        let want = self.choice(&branch.cond, want);
        let then = self.block(&branch.then_branch, want);
        let otherwise = match &**otherwise {
            Expr::Block(block) if block.label.is_none() => self.block(&block.block, want),
            otherwise => self.control(otherwise, want),
        };
        self.if_else(span, &condition, &then, &otherwise)
    }

    /// `if let … && …`: an `if` within the other for each condition. The value of the first block
    /// leaves a block around them, and the other block is behind them there.
    fn chained(&mut self, branch: &ExprIf, want: Want) -> TokenStream {
        let span = branch.if_token.span;
        let want = if branch.else_branch.is_some() {
            want
        } else {
            Want::Nothing
        };
        let want = if want == Want::Value {
            Want::Choice
        } else {
            want
        };
        let (token, body) = self.body(None, true, |this| {
            let token = this.this_loop();
            let then = this.links(&links(&branch.cond), &mut |this| {
                let then = this.block(&branch.then_branch, want);
                quote_spanned!(span=> __quipu::break_with(#token, #then);)
            });
            let otherwise = match &branch.else_branch {
                None => quote!(__quipu::nothing()),
                Some((_, otherwise)) => match &**otherwise {
                    Expr::Block(block) if block.label.is_none() => this.block(&block.block, want),
                    otherwise => this.control(otherwise, want),
                },
            };
            quote_spanned!(span=> #then __quipu::break_with(#token, #otherwise);)
        });
        quote_spanned!(span=> {
            let #token = __quipu::begin_loop();
            #body
            __quipu::end_loop(#token)
        })
    }

    /// The statement that is run if all of these conditions hold.
    fn links(
        &mut self,
        conditions: &[&Expr],
        then: &mut dyn FnMut(&mut Self) -> TokenStream,
    ) -> TokenStream {
        let Some((first, rest)) = conditions.split_first() else {
            return then(self);
        };
        let span = first.span();
        let Expr::Let(asked) = first else {
            let condition = self.condition(first);
            let then = self.links(rest, then);
            let branch = self.fresh("branch");
            return quote_spanned!(span=>
                let #branch = __quipu::branch::<()>(#condition);
                if #branch.begins_then() { #then #branch.ends_then(__quipu::nothing()); }
                let _ = #branch.result();
            );
        };
        let value = self.expression(&asked.expr);
        let source = self.fresh("scrutinee");
        let condition = self.matches(&asked.pat, &source);
        let then = self.scoped(|this| {
            let bound = this.bind_pattern(&asked.pat, &source);
            let then = this.links(rest, then);
            quote!(#bound #then)
        });
        let branch = self.fresh("branch");
        let then = match condition {
            None => quote!({ #then }),
            Some(condition) => quote_spanned!(span=>
                let #branch = __quipu::branch::<()>(#condition);
                if #branch.begins_then() { #then #branch.ends_then(__quipu::nothing()); }
                let _ = #branch.result();
            ),
        };
        quote_spanned!(span=> let #source = __quipu::value(#value); #then)
    }

    /// The want of branches: if the condition or value that chooses them is known, there is only
    /// one.
    fn choice(&self, by: &Expr, want: Want) -> Want {
        if want == Want::Value && !self.is_constant(by) {
            Want::Choice
        } else {
            want
        }
    }

    /// A branch of two blocks that are written.
    pub(crate) fn if_else(
        &mut self,
        span: Span,
        condition: &TokenStream,
        then: &TokenStream,
        otherwise: &TokenStream,
    ) -> TokenStream {
        let token = self.fresh("branch");
        quote_spanned!(span=> {
            let #token = __quipu::branch(#condition);
            if #token.begins_then() { #token.ends_then(#then); }
            if #token.begins_otherwise() { #token.ends_otherwise(#otherwise); }
            #token.result()
        })
    }

    /// `left && right` and `left || right`, by the name of the function that begins them.
    pub(crate) fn short_circuit(
        &mut self,
        span: Span,
        operator: &str,
        left: &TokenStream,
        right: &TokenStream,
    ) -> TokenStream {
        let (token, operator) = (self.fresh("branch"), syn::Ident::new(operator, span));
        quote_spanned!(span=> {
            let #token = __quipu::#operator(#left);
            if #token.begins_then() { #token.ends_then(#right); }
            #token.result()
        })
    }

    fn cases(&mut self, cases: &ExprMatch, want: Want) -> TokenStream {
        let span = cases.match_token.span;
        if let Expr::Tuple(tuple) = &*cases.expr
            && let Some(slice) = tuple.elems.iter().find(|part| is_slice(part))
        {
            return self.refuse(slice.span(), refuse::SLICE_IN_TUPLE);
        }
        let value = self.expression(&cases.expr);
        let source = self.fresh("scrutinee");
        let Some((last, before)) = cases.arms.split_last() else {
            return self.refuse(span, refuse::NO_ARMS);
        };
        let want = self.choice(&cases.expr, want);
        // An arm that rustc has seen to match always needs no condition.
        let (_, mut chain) = self.arm(last, &source, want, true);
        for arm in before.iter().rev() {
            let (condition, body) = self.arm(arm, &source, want, false);
            chain = match condition {
                Some(condition) => self.if_else(arm.span(), &condition, &body, &chain),
                None => body,
            };
        }
        quote_spanned!(span=> { let #source = __quipu::value(#value); #chain })
    }

    fn arm(
        &mut self,
        arm: &Arm,
        source: &syn::Ident,
        want: Want,
        is_last: bool,
    ) -> (Option<TokenStream>, TokenStream) {
        let (pattern, guard) = match &arm.pat {
            Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
            pattern => (pattern, None),
        };
        let mut condition = self.matches(pattern, source);
        if is_last {
            condition = None;
        }
        if let Some(guard) = guard {
            let guard = self.scoped(|this| {
                let bound = this.bind_pattern(pattern, source);
                let guard = this.condition(guard);
                quote!({ #bound #guard })
            });
            condition = Some(match condition {
                Some(condition) => self.short_circuit(arm.span(), "and", &condition, &guard),
                None => guard,
            });
        }
        let body = self.scoped(|this| {
            let bound = this.bind_pattern(pattern, source);
            let body = match want {
                Want::Nothing => {
                    let effect = this.effect(&arm.body);
                    quote!(#effect __quipu::nothing())
                }
                Want::Value | Want::Choice => this.tail(&arm.body, want),
            };
            quote!({ #bound #body })
        });
        (condition, body)
    }

    /// The body of a loop, with the token that `break` and `continue` in it name.
    pub(crate) fn body(
        &mut self,
        label: Option<&Label>,
        is_block: bool,
        write: impl FnOnce(&mut Self) -> TokenStream,
    ) -> (syn::Ident, TokenStream) {
        let token = self.fresh("this_loop");
        self.loops.push(LoopScope {
            label: label.map(|label| label.name.ident.to_string()),
            token: token.clone(),
            is_block,
        });
        let body = write(self);
        self.loops.pop();
        (token, body)
    }

    fn forever(&mut self, forever: &ExprLoop, want: Want) -> TokenStream {
        let span = forever.loop_token.span;
        let (token, body) = self.body(forever.label.as_ref(), false, |this| {
            this.block(&forever.body, Want::Nothing)
        });
        if want == Want::Nothing {
            // Of `break` without a value, or of none at all.
            return quote_spanned!(span=> {
                let #token = __quipu::begin_loop::<()>();
                #body;
                __quipu::end_loop(#token)
            });
        }
        quote_spanned!(span=> {
            let #token = __quipu::begin_loop();
            #body;
            __quipu::end_loop(#token)
        })
    }

    fn labelled(&mut self, label: &Label, block: &Block, want: Want) -> TokenStream {
        let (token, body) = self.body(Some(label), true, |this| this.block(block, want));
        let span = label.name.span();
        quote_spanned!(span=> {
            let #token = __quipu::begin_loop();
            __quipu::break_with(#token, #body);
            __quipu::end_loop(#token)
        })
    }

    pub(crate) fn while_loop(&mut self, while_loop: &ExprWhile) -> TokenStream {
        let span = while_loop.while_token.span;
        if let Expr::Let(pattern) = &*while_loop.cond {
            let cases = either(span, pattern, &while_loop.body, &parse_quote!(break));
            let forever = ExprLoop {
                attrs: Vec::new(),
                label: while_loop.label.clone(),
                loop_token: syn::Token![loop](span),
                body: parse_quote!({ #cases }),
            };
            return self.forever(&forever, Want::Nothing);
        }
        if first_let(&while_loop.cond).is_some() {
            let (condition, body) = (&while_loop.cond, &while_loop.body);
            let branch: ExprIf = parse_quote_spanned!(span=> if #condition #body else { break });
            let forever = ExprLoop {
                attrs: Vec::new(),
                label: while_loop.label.clone(),
                loop_token: syn::Token![loop](span),
                body: parse_quote!({ #branch }),
            };
            return self.forever(&forever, Want::Nothing);
        }
        let condition = self.condition(&while_loop.cond);
        let (token, body) = self.body(while_loop.label.as_ref(), false, |this| {
            this.block(&while_loop.body, Want::Nothing)
        });
        quote_spanned!(span=> {
            let #token = __quipu::begin_loop::<()>();
            __quipu::break_unless(#condition, #token);
            #body;
            __quipu::end_loop(#token)
        })
    }

    pub(crate) fn for_loop(&mut self, each: &ExprForLoop) -> TokenStream {
        let (span, label) = (each.for_token.span, each.label.as_ref());
        if let Some((at, words)) = self.misused_elements(each) {
            return self.refuse(at, words);
        }
        let looped = self.looped(
            span,
            label,
            &each.expr,
            (&TokenStream::new(), None),
            |this, item| {
                this.scoped(|this| {
                    let bound = this.bind_pattern(&each.pat, item);
                    let body = this.block(&each.body, Want::Nothing);
                    quote!({ #bound #body })
                })
            },
        );
        quote_spanned!(span=> { #looped })
    }

    /// A loop over a thread's own elements that takes their numbers for elements, and the remedy.
    fn misused_elements(&self, each: &ExprForLoop) -> Option<(Span, &'static str)> {
        let is_own = |expression: &Expr| {
            matches!(expression, Expr::Path(path) if path.path.get_ident().is_some_and(|name| {
                matches!(self.lookup(name), Some(Kind::Unindexed(words)) if Some(words) == refuse::index("OwnElements"))
            }))
        };
        let is_each = |expression: &Expr| matches!(expression, Expr::MethodCall(call) if call.method == "each" && is_own(&call.receiver));
        if is_own(&each.expr) {
            return Some((each.expr.span(), refuse::ELEMENTS_THEMSELVES));
        }
        // The name of an element with its number.
        let pair = match (&*each.expr, &*each.pat) {
            (expression, pattern) if is_each(expression) => pattern,
            (Expr::MethodCall(call), Pat::Tuple(pattern))
                if call.method == "enumerate" && is_each(&call.receiver) =>
            {
                pattern.elems.last()?
            }
            _ => return None,
        };
        let Pat::Ident(pair) = pair else {
            return None;
        };
        let is_written = is_dereferenced(&each.body, &pair.ident);
        is_written.then(|| (pair.ident.span(), refuse::ELEMENT_WITH_NUMBER))
    }

    /// `break`, `continue` or `return`, as a call that gives `()`.
    pub(crate) fn jump(&mut self, expression: &Expr) -> TokenStream {
        let span = expression.span();
        match expression {
            Expr::Break(jump) => {
                let Some(token) = self
                    .target(jump.label.as_ref())
                    .map(|scope| scope.token.clone())
                else {
                    return self.refuse(span, refuse::UNKNOWN_LABEL);
                };
                match &jump.expr {
                    None => quote_spanned!(span=> __quipu::break_loop(#token)),
                    Some(value) => {
                        let value = self.expression(value);
                        quote_spanned!(span=> __quipu::break_with(#token, #value))
                    }
                }
            }
            Expr::Continue(jump) => {
                match self
                    .target(jump.label.as_ref())
                    .map(|scope| scope.token.clone())
                {
                    Some(token) => quote_spanned!(span=> __quipu::continue_loop(#token)),
                    None => self.refuse(span, refuse::UNKNOWN_LABEL),
                }
            }
            Expr::Return(jump) => {
                if self.closures > 0 {
                    return self.refuse(span, refuse::CLOSURE_RETURN);
                }
                let result = self.result.clone();
                let value = match &jump.expr {
                    None => quote!(__quipu::nothing()),
                    Some(value) => self.expression(value),
                };
                quote_spanned!(span=> __quipu::give::<#result>(#value))
            }
            _ => self.expression(expression),
        }
    }
}

/// `if let` as the `match` that it is.
fn either(span: Span, pattern: &ExprLet, then: &Block, otherwise: &Expr) -> ExprMatch {
    let (value, pattern) = (&pattern.expr, &pattern.pat);
    parse_quote_spanned!(span=> match #value { #pattern => #then, _ => #otherwise })
}

/// The conditions between `&&`.
fn links(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            let mut conditions = links(&binary.left);
            conditions.extend(links(&binary.right));
            conditions
        }
        one => vec![one],
    }
}

/// The place of a `let` in a condition.
pub(crate) fn first_let(condition: &Expr) -> Option<Span> {
    match condition {
        Expr::Let(pattern) => Some(pattern.let_token.span),
        Expr::Binary(binary) => first_let(&binary.left).or_else(|| first_let(&binary.right)),
        Expr::Paren(paren) => first_let(&paren.expr),
        _ => None,
    }
}

/// True if an expression never comes to an end, as rustc sees it: then it fits every type.
pub(crate) fn diverges(expression: &Expr) -> bool {
    match expression {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Paren(paren) => diverges(&paren.expr),
        Expr::Block(block) => block.label.is_none() && block_diverges(&block.block),
        Expr::Unsafe(block) => block_diverges(&block.block),
        Expr::If(branch) => {
            diverges(&branch.cond)
                || (block_diverges(&branch.then_branch)
                    && branch
                        .else_branch
                        .as_ref()
                        .is_some_and(|(_, otherwise)| diverges(otherwise)))
        }
        Expr::Match(cases) => {
            !cases.arms.is_empty() && cases.arms.iter().all(|arm| diverges(&arm.body))
        }
        Expr::Loop(forever) => !has_break(forever),
        _ => false,
    }
}

pub(crate) fn block_diverges(block: &Block) -> bool {
    block
        .stmts
        .iter()
        .any(|statement: &Stmt| statement_diverges(statement))
}

/// True if a `break` in a loop is the loop's own.
fn has_break(forever: &ExprLoop) -> bool {
    struct Find<'l> {
        label: Option<&'l syn::Ident>,
        depth: usize,
        found: bool,
    }
    impl<'ast> Visit<'ast> for Find<'_> {
        fn visit_expr(&mut self, expression: &'ast Expr) {
            match expression {
                Expr::Break(jump) => {
                    self.found |= match &jump.label {
                        None => self.depth == 0,
                        Some(label) => Some(&label.ident) == self.label,
                    };
                    syn::visit::visit_expr(self, expression);
                }
                Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                    self.depth += 1;
                    syn::visit::visit_expr(self, expression);
                    self.depth -= 1;
                }
                Expr::Closure(_) | Expr::Async(_) => {}
                _ => syn::visit::visit_expr(self, expression),
            }
        }
    }
    let mut find = Find {
        label: forever.label.as_ref().map(|label| &label.name.ident),
        depth: 0,
        found: false,
    };
    find.visit_block(&forever.body);
    find.found
}

/// True if `*name` is somewhere in a block.
fn is_dereferenced(block: &Block, name: &Ident) -> bool {
    struct Find<'n>(&'n Ident, bool);
    impl Visit<'_> for Find<'_> {
        fn visit_expr_unary(&mut self, expression: &ExprUnary) {
            let is_name =
                matches!(&*expression.expr, Expr::Path(path) if path.path.is_ident(self.0));
            self.1 |= is_name && matches!(expression.op, UnOp::Deref(_));
            syn::visit::visit_expr_unary(self, expression);
        }
    }
    let mut find = Find(name, false);
    find.visit_block(block);
    find.1
}

/// True of `&x[a..b]`.
fn is_slice(expression: &Expr) -> bool {
    matches!(expression, Expr::Reference(reference)
        if matches!(&*reference.expr, Expr::Index(index) if matches!(&*index.index, Expr::Range(_))))
}

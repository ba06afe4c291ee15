//! Writes a kernel as loops over the threads of a block.

use proc_macro2::TokenStream;

use syn::{Expr, Ident, Path, Stmt};

use super::lanes::{Known, Lanes, name, own_name};
use super::structure::{Handle, Phase, Step, Steps};
use super::uniform::{Names, is_read};
use crate::signature::{Parameter, Passing};

struct Writer<'w> {
    krate: &'w Path,
    names: &'w Names,
    parameters: &'w [Parameter],
}

/// The body of `BlockKernel::run_phases`, of the parameter `__blocks`.
pub(super) fn write(steps: &Steps, known: &Known) -> TokenStream {
    let Known {
        krate,
        names,
        parameters,
        ..
    } = *known;
    let writer = Writer {
        krate,
        names,
        parameters,
    };
    let kept = (0..steps.kept).map(kept_name);
    let acc = &names.acc;
    let read = writer.handed(&|parameter| is_read(parameter));
    let body = writer.steps(&steps.steps);
    written! {
        use #krate::__macro::{Accelerator as _, BlockAccelerator as _};
        #(let #kept = __blocks.kept()?;)*
        '__blocks: while __blocks.next() {
            let #acc = &__blocks.thread(0, 0);
            // SAFETY: what is handed out here is what all threads may read (`IN_PHASES` asks the
            // types, and without it nobody calls this).
            let #read = unsafe { __blocks.own(#acc) };
            #body
        }
        #krate::__macro::core::result::Result::Ok(())
    }
}

fn kept_name(number: usize) -> Ident {
    name(format_args!("__kept_{number}"))
}

/// The names of the bounds of the loops around threads.
fn bound_names(lanes: &Lanes) -> (Vec<Ident>, Vec<Ident>) {
    let numbers = 0..lanes.rounds.len();
    let names = |number: usize| {
        (
            name(format_args!("__from_{number}")),
            name(format_args!("__to_{number}")),
        )
    };
    numbers.map(names).unzip()
}

/// The bounds of the loops around threads, unless one of these has no rounds, and the pattern of
/// them.
fn bounds_of(lanes: &Lanes) -> (TokenStream, TokenStream) {
    let (from, to) = bound_names(lanes);
    let pattern = written!((#((#from, #to),)*));
    let (starts, ends): (Vec<_>, Vec<_>) = lanes
        .rounds
        .iter()
        .map(|round| (&round.from, &round.to))
        .unzip();
    let bounds = written! {
        '__bounds: {
            #(
                let (#from, #to) = (#starts, #ends);
                if #from >= #to {
                    break '__bounds __blocks.none();
                }
            )*
            __blocks.some(#pattern)
        }
    };
    (bounds, pattern)
}

/// A statement of the block: where it leaves the kernel, the next block follows.
fn of_block(statement: &Stmt) -> TokenStream {
    match statement {
        Stmt::Expr(Expr::Return(_), _) => written!(continue '__blocks;),
        Stmt::Expr(Expr::If(branch), _) => {
            let condition = &branch.cond;
            let then = branch.then_branch.stmts.iter().map(of_block);
            written!(if #condition { #(#then)* })
        }
        _ => written!(#statement),
    }
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
                    (false, _) => written!(_),
                    (true, false) => written!(#name),
                    (true, true) => written!(mut #name),
                }
            });
        written!((#(#patterns,)*))
    }

    fn steps(&self, steps: &[Step]) -> TokenStream {
        let steps = steps.iter().map(|step| match step {
            Step::Block(statement) => of_block(statement),
            Step::Raw { statement, of } => {
                let of = self.handed_out(of.iter().collect(), written!(0));
                written!(#of #statement)
            }
            Step::Threads(phase) => self.phase(phase),
            Step::Loop { head, body } => {
                let body = self.steps(body);
                match &**head {
                    Expr::While(head) => {
                        let condition = &head.cond;
                        written!(while #condition { #body })
                    }
                    Expr::ForLoop(head) => {
                        let (pattern, range) = (&head.pat, &head.expr);
                        written!(for #pattern in #range { #body })
                    }
                    Expr::Loop(_) => written!(loop { #body }),
                    _ => TokenStream::new(),
                }
            }
            Step::If {
                condition,
                then,
                otherwise,
            } => {
                let (then, otherwise) = (self.steps(then), self.steps(otherwise));
                written!(if #condition { #then } else { #otherwise })
            }
        });
        written!(#(#steps)*)
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
            written! {
                // SAFETY: the thread is handed it for this phase, and has none of another.
                let #own = unsafe { __blocks.own(#acc) };
            }
        });
        let named = phase.handles.iter();
        let named = named.filter(|(name, _)| phase.named.contains(name));
        let shared = self.handed_out(named.collect(), written!(__number));
        let again = &phase.again;
        let taken = phase.used.iter().map(|(name, number)| {
            let kept = kept_name(*number);
            let mutable = self.mutable(name);
            written! {
                // SAFETY: an earlier phase has set it for each thread.
                let #mutable #name = unsafe { __blocks.get(&#kept, __number) };
            }
        });
        let set = self.set(phase).map(|(name, number)| {
            let kept = kept_name(*number);
            written! {
                // SAFETY: there is room for each thread.
                unsafe { __blocks.set(&#kept, __number, #name) };
            }
        });
        let statements = &phase.statements;
        let alone = written! {
            let #acc = &__blocks.thread(__row, __last);
            let __number = __blocks.number(__row, __last);
            #own
            #shared
            #(#again)*
            #(#taken)*
            { #(#statements)* #(#set)* }
        };
        match &phase.lanes {
            None => written! {
                for __row in 0..__blocks.rows() {
                    for __last in 0..__blocks.row_length() {
                        #alone
                    }
                }
            },
            Some(lanes) => {
                let (fits, together) = (
                    self.fits(lanes, &shared),
                    self.together(phase, lanes, &shared),
                );
                // As constants, so that nothing is asked for each thread. Mixed answers are rare.
                let guards = lanes.guards;
                let (bounds, bounded) = bounds_of(lanes);
                let (names, values): (Vec<_>, Vec<_>) = lanes.taken.iter().cloned().unzip();
                let answers: &[bool] = if guards == 0 { &[true] } else { &[true, false] };
                written! {
                    #(let #names = __blocks.index(&#values);)*
                    let __bounds = #bounds;
                    for __row in 0..__blocks.rows() {
                        let mut __last = 0;
                        while __last < __blocks.row_length() {
                            let __fits = #fits;
                            #(if __fits == __blocks.some([#answers; #guards]) {
                                let __guards = [#answers; #guards];
                                if let #krate::__macro::core::option::Option::Some(#bounded) = __bounds {
                                    #together
                                    __last += __blocks.width();
                                    continue;
                                }
                            })*
                            let __until = __blocks.until(__last);
                            while __last < __until {
                                { #alone }
                                __last += 1;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Shared arrays of a thread. None, if none are asked for.
    fn handed_out(
        &self,
        handles: Vec<(&Ident, &Handle)>,
        thread: TokenStream,
    ) -> Option<TokenStream> {
        (!handles.is_empty()).then(|| {
            let arrays = self
                .parameters
                .iter()
                .filter(|parameter| matches!(parameter.passing, Passing::Shared(_)))
                .enumerate()
                .map(
                    |(array, _)| match handles.iter().find(|(_, handle)| handle.array == array) {
                        Some((name, _)) => written!(mut #name),
                        None => written!(_),
                    },
                );
            let turned = handles
                .iter()
                .filter(|(_, Handle { is_read, .. })| *is_read)
                // SAFETY: in what is written, a barrier lies between the phases of an array.
                .map(|(name, _)| written!(let mut #name = unsafe { __blocks.turn(#name) };));
            written! {
                // SAFETY: the thread is handed these for this phase, and has none of another; a
                // barrier lies between the phases of an array.
                let (#(#arrays,)*) = unsafe { __blocks.hand_out(#thread) };
                #(#turned)*
            }
        })
    }

    fn mutable(&self, name: &Ident) -> Option<TokenStream> {
        self.names.is_mutable(name).then(|| written!(mut))
    }

    /// The variables that a phase keeps, with their numbers.
    fn set<'p>(&'p self, phase: &'p Phase) -> impl Iterator<Item = &'p (Ident, usize)> {
        let changed = phase
            .used
            .iter()
            .filter(|(name, _)| self.names.is_mutable(name));
        phase.made.iter().chain(changed)
    }

    /// The test whether the threads from the one of `__last` on can go side by side: the answers to
    /// their conditions, if so.
    fn fits(&self, lanes: &Lanes, shared: &Option<TokenStream>) -> TokenStream {
        let (krate, acc) = (self.krate, &self.names.acc);
        let (_, bounded) = bounds_of(lanes);
        let (from, to) = bound_names(lanes);
        let (guards, check) = (lanes.guards, &lanes.check);
        let names: Vec<_> = lanes.rounds.iter().map(|round| &round.name).collect();
        let own = &lanes.own;
        let end = |last: TokenStream, rounds: &[Ident]| {
            written! {{
                let #acc = &__blocks.thread(__row, #last);
                let __number = __blocks.number(__row, #last);
                #shared
                #(if !__blocks.is_single(&#own, __number) {
                    break '__fits __blocks.none();
                })*
                #(let #names = #rounds;)*
                let mut __guards = [false; #guards];
                #check
                __guards
            }}
        };
        let (first, last) = (
            end(written!(__last), &from),
            end(written!((__last + __blocks.width() - 1)), &to),
        );
        written! {
            '__fits: {
                if !__blocks.is_wide(__last) {
                    break '__fits __blocks.none();
                }
                let #krate::__macro::core::option::Option::Some(#bounded) = __bounds else {
                    break '__fits __blocks.none();
                };
                #(let #to = #to - 1;)*
                let (__first, __end) = (#first, #last);
                if __first == __end {
                    __blocks.some(__first)
                } else {
                    __blocks.none()
                }
            }
        }
    }

    /// Threads side by side.
    fn together(&self, phase: &Phase, lanes: &Lanes, shared: &Option<TokenStream>) -> TokenStream {
        let acc = &self.names.acc;
        let lanes_name = |number: &usize| name(format_args!("__lanes_{number}"));
        let made = phase.made.iter().map(|(_, number)| {
            let of = lanes_name(number);
            written!(let mut #of = __blocks.new_lanes();)
        });
        let loaded = phase.used.iter().map(|(_, number)| {
            let (kept, of) = (kept_name(*number), lanes_name(number));
            written! {
                // SAFETY: the block has so many threads.
                let mut #of = unsafe { __blocks.kept_lanes(&#kept, __number) };
            }
        });
        let own: Vec<_> = lanes.own.iter().collect();
        let own_names: Vec<_> = own.iter().map(|array| own_name(array)).collect();
        let own_lanes: Vec<_> = own
            .iter()
            .map(|array| name(format_args!("__lanes_of_{array}")))
            .collect();
        let taken = phase.used.iter().map(|(name, number)| {
            let (of, mutable) = (lanes_name(number), self.mutable(name));
            written! {
                // SAFETY: an earlier phase has set it for each thread.
                let #mutable #name = unsafe { __blocks.lane(&#of, __lane) };
            }
        });
        let set = self.set(phase).map(|(name, number)| {
            let of = lanes_name(number);
            written! {
                // SAFETY: there are so many.
                unsafe { __blocks.set_lane(&mut #of, __lane, #name) };
            }
        });
        let stored = self.set(phase).map(|(_, number)| {
            let (kept, of) = (kept_name(*number), lanes_name(number));
            written! {
                // SAFETY: the block has so many threads.
                unsafe { __blocks.set_kept_lanes(&#kept, __number, #of) };
            }
        });
        let statements = &lanes.statements;
        // What a loop's body binds ends with it.
        let statements = if lanes.rounds.is_empty() {
            written!(#(#statements)*)
        } else {
            written!({ #(#statements)* })
        };
        let again = &phase.again;
        let mut body = written! {
            for __lane in 0..__blocks.width() {
                let #acc = &__blocks.thread(__row, __last + __lane);
                #(#again)*
                #(#taken)*
                // SAFETY: there are so many, and all are set.
                #(let mut #own_names = unsafe { __blocks.lane(&#own_lanes, __lane) };)*
                {
                    #statements
                    #(#set)*
                    // SAFETY: there are so many.
                    #(unsafe { __blocks.set_lane(&mut #own_lanes, __lane, #own_names) };)*
                }
            }
        };
        let (from, to) = bound_names(lanes);
        for ((round, from), to) in lanes.rounds.iter().zip(&from).zip(&to).rev() {
            let name = &round.name;
            body = written!(for #name in #from..#to { #body });
        }
        written! {
            let __number = __blocks.number(__row, __last);
            #shared
            #(#made)*
            #(#loaded)*
            // SAFETY: `fits` has found each of these threads to have the element of its number.
            #(let mut #own_lanes = unsafe { __blocks.own_lanes(&#own, __number) };)*
            #body
            #(#stored)*
            // SAFETY: `fits` has found each of these threads to have the element of its number.
            #(unsafe { __blocks.set_own_lanes(&mut #own, __number, #own_lanes) };)*
        }
    }
}

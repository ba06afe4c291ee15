//! The promises, by subject.

#![expect(
    clippy::unwrap_used,
    reason = "cases are tests: unwrap is their assertion"
)]

mod barriers;
mod callbacks;
mod cancellation;
mod content;
mod destructors;
mod empty;
mod endings;
mod failure;
#[cfg(unix)]
mod forks;
mod graphs;
mod hazards;
mod in_place;
mod launches;
mod lifetime;
mod nesting;
mod observation;
mod order;
mod refusals;
mod rows;
mod scale;
mod tasks;
mod threads;
mod transfers;

use crate::{Case, Needs};

/// Makes the cases of a file from the names of its functions; what they need is
/// given once for a group of them.
macro_rules! cases {
    ($($needs:ident: $($name:ident),+ $(,)?;)+) => {
        pub(super) fn cases() -> Vec<crate::Case> {
            vec![$($(crate::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                needs: crate::Needs::$needs,
                run: $name,
            },)+)+]
        }
    };
}
pub(crate) use cases;

/// Every case, in the order in which they are run.
#[must_use]
pub fn suite() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        launches::cases(),
        transfers::cases(),
        content::cases(),
        empty::cases(),
        order::cases(),
        barriers::cases(),
        hazards::cases(),
        in_place::cases(),
        failure::cases(),
        graphs::cases(),
        cancellation::cases(),
        observation::cases(),
        callbacks::cases(),
        destructors::cases(),
        lifetime::cases(),
        nesting::cases(),
        tasks::cases(),
        threads::cases(),
        rows::cases(),
        endings::cases(),
        refusals::cases(),
        #[cfg(unix)]
        forks::cases(),
        scale::cases(),
    ]
    .concat();
    for case in &mut cases {
        case.name = case.name.trim_start_matches("quipu_conformance::cases::");
    }
    debug_assert!(cases.iter().any(|case| case.needs == Needs::Anything));
    cases
}

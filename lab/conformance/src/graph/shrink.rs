//! Shrinking of a failing plan: steps are left out while it still fails.
//!
//! The algorithm is delta debugging (Zeller, Hildebrandt: "Simplifying and
//! Isolating Failure-Inducing Input", IEEE TSE 2002), with several attempts at
//! each plan, because a failure may depend on timing.

use super::check;
use super::plan::Plan;
use crate::Fixture;
use std::time::Duration;

/// The number of times that a smaller plan is tried before it counts as going well.
const ATTEMPTS: u32 = 30;
/// The number of plans that are tried in all.
const BUDGET: u32 = 3000;
/// The longest time of a command now: it is known that something is wrong.
const PATIENCE: Duration = Duration::from_secs(2);

struct Search<'a> {
    fixture: &'a dyn Fixture,
    devices: Vec<quipu_scheduler::Device>,
    budget: u32,
}

impl Search<'_> {
    fn fails(&mut self, plan: &Plan) -> Option<String> {
        for _ in 0..ATTEMPTS {
            if self.budget == 0 {
                return None;
            }
            self.budget -= 1;
            if plan.fault.is_some() {
                self.devices = self.fixture.devices();
            }
            if let Err(message) = check(plan, &self.devices, self.fixture, PATIENCE) {
                // A command that hangs may hold the devices.
                self.devices = self.fixture.devices();
                return Some(message);
            }
        }
        None
    }
}

/// The smallest plan found that fails, and how.
pub(super) fn shrink(plan: Plan, message: String, fixture: &dyn Fixture) -> (Plan, String) {
    let mut search = Search {
        fixture,
        devices: fixture.devices(),
        budget: BUDGET,
    };
    let (mut best, mut message) = (plan, message);
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 && search.budget > 0 {
        let mut start = 0;
        let mut smaller = false;
        while start < best.steps.len() {
            let mut candidate = best.clone();
            let end = (start + size).min(candidate.steps.len());
            candidate.steps.drain(start..end);
            if let Some(now) = search.fails(&candidate) {
                (best, message) = (candidate, now);
                smaller = true;
            } else {
                start += size;
            }
        }
        if !smaller || size > 1 {
            if size == 1 {
                break;
            }
            size = size.div_ceil(2).min(size - 1);
        }
    }
    (best, message)
}

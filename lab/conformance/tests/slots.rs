//! Slots that are used up, over every driver. The only test of this process:
//! whoever enqueues beside it takes its slot away.

use quipu_conformance::fixture::{self, Fixture, simulated};
use quipu_conformance::slots::a_used_up_slot_is_retired;

#[test]
fn used_up_slots_are_retired() {
    let fixtures: [&dyn Fixture; 5] = [
        &fixture::serial(),
        &fixture::pool(2),
        &fixture::islands(2),
        &simulated::one(),
        &simulated::beside_a_pool(),
    ];
    for fixture in fixtures {
        a_used_up_slot_is_retired(fixture);
    }
}

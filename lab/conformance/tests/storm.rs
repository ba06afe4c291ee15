//! Storms over the devices that every machine has: the short form of `scripts/test storm`.

use quipu_conformance::fixture::{self, simulated};
use quipu_conformance::{Fixture, storm};

/// Seconds, also of a debug build and with small limits.
const COMMANDS: u64 = 20_000;

fn storms(seed: u64, fixture: &dyn Fixture) {
    storm::raise_many(COMMANDS, seed, fixture, &mut |_| ());
}

#[test]
fn over_one_worker() {
    storms(1, &fixture::pool(1));
}

#[test]
fn over_two_workers() {
    storms(2, &fixture::pool(2));
}

#[test]
fn over_four_workers() {
    storms(3, &fixture::pool(4));
}

#[test]
fn over_the_serial_device_beside_a_pool() {
    storms(4, &fixture::serial_beside_a_pool(2));
}

#[test]
fn over_islands() {
    storms(5, &fixture::islands(3));
}

#[test]
fn over_simulated_devices_beside_a_pool() {
    storms(6, &simulated::beside_a_pool());
}

#[test]
fn over_simulated_devices_with_few_slots() {
    storms(7, &simulated::cramped());
}

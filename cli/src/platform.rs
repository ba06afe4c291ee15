//! The devices there are, and the drivers that have none, with the reason.

use quipu::simulation::Configuration;
use quipu::{Platform, PlatformBuilder};

/// How many simulated accelerators there are.
const SIMULATED: u8 = 2;
/// Bytes of memory that each of them has.
const SIMULATED_MEMORY: u64 = 1 << 30;

/// Every driver of this build that can be started, without nodes but those that the environment names.
#[cfg(test)]
pub(crate) fn platform() -> Platform {
    builder().build_available()
}

fn builder() -> PlatformBuilder {
    // A program makes the machine that it wants; these are like the demo's.
    let machine = Configuration::separate_memory(SIMULATED, SIMULATED_MEMORY);
    Platform::builder().simulated(machine)
}

/// Every driver of this build that can be started, and these nodes' devices; without any, those of all that were paired with, unless the environment
/// names some.
pub(crate) fn platform_with(nodes: &[String]) -> Platform {
    let mut builder = builder();
    if nodes.is_empty() && std::env::var_os("QUIPU_NODES").is_none() {
        builder = builder.node("all");
    }
    for node in nodes {
        builder = builder.node(node);
    }
    builder.build_available()
}

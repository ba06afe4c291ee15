//! The devices there are, and the drivers that have none, with the reason.

use quipu::simulation::Configuration;
use quipu::{Platform, PlatformBuilder};
use quipu_environment::NODES;

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

/// These nodes' devices and no others; without any, every driver of this build that can be started, and the devices of all nodes
/// that were paired with, unless the environment names some.
pub(crate) fn platform_with(nodes: &[String]) -> Platform {
    let mut builder = if nodes.is_empty() {
        let all = matches!(NODES.get(), Ok(None)).then_some("all");
        all.into_iter().fold(builder(), PlatformBuilder::node)
    } else {
        Platform::builder().without_embedded()
    };
    for node in nodes {
        builder = builder.node(node);
    }
    builder.build_available()
}

//! The command's platforms: all drivers of this build, with the reason for each that cannot be
//! started.

use quipu::drivers::remote::paired;
use quipu::simulation::Configuration;
use quipu::{Platform, PlatformBuilder};

/// The number of simulated accelerators.
const SIMULATED: u8 = 2;
/// Bytes of memory that each of them has.
const SIMULATED_MEMORY: u64 = 1 << 30;

/// Every driver of this build that can be started, without nodes but those that the environment
/// names.
#[cfg(test)]
pub(crate) fn platform() -> Platform {
    builder().build_available()
}

fn builder() -> PlatformBuilder {
    // A program makes the machine that it wants; these are like the demo's.
    let machine = Configuration::separate_memory(SIMULATED, SIMULATED_MEMORY);
    Platform::builder().simulated(machine)
}

/// The devices of this machine: every driver of this build that can be started, and no nodes.
pub(crate) fn own_platform() -> Platform {
    builder().without_nodes().build_available()
}

/// The devices of these nodes and no others. Without any: every driver of this build that can be
/// started, and the devices of the nodes that the environment or the file `config` chooses, or of
/// all paired nodes if neither chooses any.
pub(crate) fn platform_with(nodes: &[String]) -> Platform {
    let mut builder = if nodes.is_empty() {
        let all = matches!(paired::are_chosen(), Ok(false)).then_some("all");
        all.into_iter().fold(builder(), PlatformBuilder::node)
    } else {
        Platform::builder().without_embedded()
    };
    for node in nodes {
        builder = builder.node(node);
    }
    builder.build_available()
}

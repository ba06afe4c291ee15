//! The devices there are, and the drivers that have none, with the reason.

use quipu::Platform;
use quipu::simulation::Configuration;

/// How many simulated accelerators there are.
const SIMULATED: u8 = 2;
/// Bytes of memory that each of them has.
const SIMULATED_MEMORY: u64 = 1 << 30;

/// Every driver of this build that can be started.
pub(crate) fn platform() -> Platform {
    // A program makes the machine that it wants; these are like the demo's.
    let machine = Configuration::separate_memory(SIMULATED, SIMULATED_MEMORY);
    Platform::builder().simulated(machine).build_available()
}

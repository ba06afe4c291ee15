//! The engine: a machine of several accelerators that exists only in software, in simulated time.
//!
//! # The model
//!
//! * **Devices** with a compute unit and two copy units ([`Unit`]) that run at the same time, each
//!   with its own bandwidth and latency ([`Configuration`]).
//! * **Memory spaces**, one shared by several devices or one each, that only commands can touch
//!   ([`DeviceAddress`], [`MemoryAccess`]).
//! * A **device-side command queue** per device: a fixed number of slots that the device polls. It
//!   starts ready commands, out of order on purpose ([`PickOrder`]).
//! * An **event-status area** per memory space ([`StatusSlot`]): devices of one space order their
//!   commands through it, without the host.
//! * **Images**: kernels are loaded together, and loading one that is missing costs a drained
//!   device and time.
//! * **Faults** on demand ([`Fault`]). Nothing is ever corrupted silently: a fault ends a command
//!   with a [`Failure`] or is counted in [`DeviceStatistics`].
//!
//! # Protocol
//!
//! 1. The host allocates memory ([`Simulation::allocate`]) and reserves a status slot for each
//!    command that another will wait for ([`Simulation::reserve_status`]), and one more for
//!    "everything outside this space" where needed.
//! 2. It names the kernels of a flush ([`Simulation::prepare_kernels`]), so that they become one
//!    image.
//! 3. It uploads commands ([`Simulation::try_upload`]). Without a free slot the command comes back,
//!    and [`Notice::SlotsFree`] says when to try again. A slot is the host's again when it has
//!    *seen* the completion.
//! 4. The device polls its slots; a command whose waits are all set starts when its unit is free.
//! 5. At its start, a command's [`Effect`] runs: it reads memory as it is *then*, and writes to a
//!    copy of its own. At its end the bytes it changed are published, its status slot is set, and
//!    the host is told.
//! 6. The host writes a status slot for an event outside ([`Simulation::set_status`]), and gives
//!    slots back ([`Simulation::release_status`]).
//!
//! Step 5 is chosen to be as unkind as real hardware may be: a reader that was not made to wait for
//! its writer sees the old bytes, every time. Faults that no single choice could make visible (a
//! writer that overtakes a running reader) are found from the declared accesses: commands that
//! conflict must be ordered, whichever is faster ([`Race`]).
//!
//! # Invariants
//!
//! * [`Simulation`] is a pure state machine: same calls, same log. No clock, no thread, no sleep,
//!   no randomness that is not seeded in the configuration.
//! * Every uploaded command comes back exactly once: in a [`Notice::Completed`] or a
//!   [`Notice::Recalled`].
//! * Effects run one at a time, and never while the machine's lock is held ([`Work`]).
//!
//! [`Machine`] puts a thread (or the caller's thread) behind a simulation.
//!
//! # For a driver: keep slots free of commands that cannot run
//!
//! Commands that wait for the host (directly, or through one that does) hold their slots until the
//! host acts. If they take *all* slots, a host that first waits for something else waits for ever.
//! A driver therefore keeps at least one slot per device for commands that wait for nothing outside
//! the machine, and uploads in enqueue order.

#![forbid(unsafe_code)]

mod agenda;
mod command;
mod configuration;
mod device;
mod fault;
mod image;
mod log;
mod machine;
mod memory;
mod order;
mod polling;
mod reset;
mod run;
mod simulation;
mod statistics;
mod status;
mod time;
mod upload;
mod work;

pub use command::{
    Command, CommandId, Completion, Cost, Effect, Failure, KernelId, Kind, Notice, Outcome, Unit,
    Wait,
};
pub use configuration::{
    Configuration, ConfigurationError, CopyConfiguration, DeviceConfiguration, DeviceId,
    ImageConfiguration, PickOrder, RacePolicy, SpaceConfiguration, SpaceId,
};
pub use fault::{Fault, KindFilter, Misreport};
pub use log::{Occurrence, Race, Record};
pub use machine::{Machine, MachineError, Mode, Progress, RunEnd};
pub use memory::{
    Access, AccessMode, DeviceAddress, HostMemory, MemoryAccess, MemoryError, Region,
};
pub use simulation::{HostError, Next, Simulation};
pub use statistics::{DeviceStatistics, HostInteractions, MemoryStatistics};
pub use status::{Status, StatusError, StatusSlot};
pub use time::{Bandwidth, Nanoseconds, Times};
pub use upload::{Refusal, RefusalReason};
pub use work::{Discarded, Work, Worked};

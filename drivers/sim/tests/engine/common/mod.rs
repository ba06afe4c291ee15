//! Helpers of the engine's tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use quipu_driver_sim::engine::{
    Access, Command, CommandId, Completion, Cost, DeviceAddress, DeviceId, KernelId, Kind, Region,
    Simulation, SpaceId, Unit,
};

pub(crate) const SPACE: SpaceId = SpaceId(0);

/// A command on the compute unit, not a kernel, that takes `time` besides the launch latency.
pub(crate) fn native(device: u16, time: u64) -> Command {
    Command::new(
        DeviceId(device),
        Kind::Native,
        Unit::Compute,
        Cost::time(time),
        |_| Ok(()),
    )
}

pub(crate) fn kernel(device: u16, kernel: u64) -> Command {
    Command::new(
        DeviceId(device),
        Kind::Kernel(KernelId(kernel)),
        Unit::Compute,
        Cost::time(100),
        |_| Ok(()),
    )
}

pub(crate) fn cell(simulation: &mut Simulation, space: SpaceId) -> Region {
    let address = simulation.allocate(space, 8, 8).unwrap();
    Region::new(address, 8)
}

pub(crate) fn region(address: DeviceAddress, length: u64) -> Region {
    Region::new(address, length)
}

pub(crate) fn value(simulation: &Simulation, cell: Region) -> u64 {
    u64::from_le_bytes(simulation.inspect(cell).unwrap().try_into().unwrap())
}

/// `to = f(from)`, as a command on the compute unit.
pub(crate) fn map(
    device: u16,
    time: u64,
    from: Region,
    to: Region,
    function: impl FnOnce(u64) -> u64 + Send + 'static,
) -> Command {
    Command::new(
        DeviceId(device),
        Kind::Native,
        Unit::Compute,
        Cost::time(time),
        move |access| {
            let bytes = access.read(from)?.try_into().expect("a cell has 8 bytes");
            let result = function(u64::from_le_bytes(bytes));
            access.write(to)?.copy_from_slice(&result.to_le_bytes());
            Ok(())
        },
    )
    .access(Access::read(from))
    .access(Access::write(to))
}

pub(crate) fn of(completions: &[Completion], command: CommandId) -> &Completion {
    let mut found = completions
        .iter()
        .filter(|completion| completion.command == command);
    let first = found.next().expect("the command has ended");
    assert!(found.next().is_none(), "{command} ended twice");
    first
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

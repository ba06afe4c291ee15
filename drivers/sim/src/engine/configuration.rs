//! The configuration of a simulated machine.
//!
//! Every number that a program could want to vary is here, with defaults that resemble a small
//! accelerator behind a PCI Express link. [`Configuration::validate`] refuses values that could not
//! work, before anything runs.

use super::command::{Cost, Unit};
use super::fault::Fault;
use super::time::{Bandwidth, Nanoseconds};

/// A device of the machine: its place in [`Configuration::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

impl std::fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "simulated device {}", self.0)
    }
}

impl DeviceId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A memory space of the machine: its place in [`Configuration::spaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u8);

impl std::fmt::Display for SpaceId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "simulated memory space {}", self.0)
    }
}

impl SpaceId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A copy unit: how fast one direction between the host and the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyConfiguration {
    /// Bytes per time once the transfer runs.
    pub bandwidth: Bandwidth,
    /// Time before the first byte moves.
    pub latency: Nanoseconds,
}

impl Default for CopyConfiguration {
    /// 16 bytes per nanosecond after one microsecond.
    fn default() -> Self {
        Self {
            bandwidth: Bandwidth::bytes_per_nanosecond(16),
            latency: 1_000,
        }
    }
}

/// The program image of a device: kernels are only ever loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageConfiguration {
    /// The number of kernels that fit.
    pub capacity: usize,
    /// Time to build an image.
    pub build_time: Nanoseconds,
    /// Time to upload it.
    pub upload_time: Nanoseconds,
}

impl Default for ImageConfiguration {
    /// 64 kernels, 50 µs to build, 20 µs to upload.
    fn default() -> Self {
        Self {
            capacity: 64,
            build_time: 50_000,
            upload_time: 20_000,
        }
    }
}

/// The order in which a device looks at the commands in its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickOrder {
    /// Oldest upload first.
    #[default]
    Age,
    /// Lowest slot first; slots are reused, so this is not the order of upload.
    Slot,
    /// Newest upload first: commands that the host forgot to order come out backwards.
    Youngest,
    /// A new order at every poll, from this seed.
    Shuffled(u64),
}

/// The reaction to two commands that declare conflicting accesses, and that nothing orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RacePolicy {
    /// Count it and log it. Right where overlapping declarations are allowed, as in an OpenCL
    /// out-of-order queue.
    #[default]
    Record,
    /// Also fail the command that started later. Right where something promises to track every
    /// hazard.
    Fail,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfiguration {
    /// The memory space it works in.
    pub space: SpaceId,
    /// Slots of its command queue.
    pub slots: usize,
    /// Work-groups that run at the same time.
    pub parallel_groups: u64,
    /// Time of one work-group.
    pub group_time: Nanoseconds,
    /// The rate at which the compute unit streams memory.
    pub memory_bandwidth: Bandwidth,
    /// Time from the start of a kernel to its first work-group.
    pub launch_latency: Nanoseconds,
    /// Kernels that run at the same time.
    pub kernels_at_once: usize,
    /// The unit that copies to the device.
    pub copy_in: CopyConfiguration,
    /// The unit that copies from the device.
    pub copy_out: CopyConfiguration,
    /// The device looks at its slots and the event-status area at multiples of this; zero for "at
    /// once".
    pub polling_interval: Nanoseconds,
    /// Its program image.
    pub image: ImageConfiguration,
    /// The order in which it looks at its slots.
    pub pick_order: PickOrder,
}

impl Default for DeviceConfiguration {
    fn default() -> Self {
        Self {
            space: SpaceId(0),
            slots: 32,
            parallel_groups: 64,
            group_time: 1_000,
            memory_bandwidth: Bandwidth::bytes_per_nanosecond(200),
            launch_latency: 2_000,
            kernels_at_once: 1,
            copy_in: CopyConfiguration::default(),
            copy_out: CopyConfiguration::default(),
            polling_interval: 100,
            image: ImageConfiguration::default(),
            pick_order: PickOrder::default(),
        }
    }
}

impl DeviceConfiguration {
    /// The time that `unit` takes for `cost`. Work-groups and memory traffic of a kernel overlap:
    /// the slower one counts.
    #[must_use]
    pub fn duration(&self, unit: Unit, cost: Cost) -> Nanoseconds {
        let work = match unit {
            Unit::Compute => {
                let waves = cost.groups.div_ceil(self.parallel_groups.max(1));
                waves
                    .saturating_mul(self.group_time)
                    .max(self.memory_bandwidth.time_for(cost.bytes))
                    .saturating_add(self.launch_latency)
            }
            Unit::CopyIn => self
                .copy_in
                .latency
                .saturating_add(self.copy_in.bandwidth.time_for(cost.bytes)),
            Unit::CopyOut => self
                .copy_out
                .latency
                .saturating_add(self.copy_out.bandwidth.time_for(cost.bytes)),
            Unit::Immediate => 0,
        };
        work.saturating_add(cost.extra)
    }
}

/// One memory space and its event-status area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceConfiguration {
    /// Bytes that can be allocated.
    pub capacity: u64,
    /// Status slots of the event-status area.
    pub status_slots: usize,
}

impl Default for SpaceConfiguration {
    /// A gibibyte and 4096 status slots.
    fn default() -> Self {
        Self {
            capacity: 1 << 30,
            status_slots: 4096,
        }
    }
}

/// A whole machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its devices.
    pub devices: Vec<DeviceConfiguration>,
    /// Its memory spaces.
    pub spaces: Vec<SpaceConfiguration>,
    /// Time from the host's write to the device's memory seeing it, and back.
    pub signal_latency: Nanoseconds,
    /// The reaction to conflicting commands that nothing orders.
    pub races: RacePolicy,
    /// The number of log records that are kept, the latest ones.
    pub log_capacity: usize,
    /// The faults to come.
    pub faults: Vec<Fault>,
}

impl Configuration {
    /// `devices` default devices that share one memory space of `capacity` bytes.
    #[must_use]
    pub fn shared_memory(devices: u16, capacity: u64) -> Self {
        Self {
            devices: vec![DeviceConfiguration::default(); usize::from(devices)],
            spaces: vec![SpaceConfiguration {
                capacity,
                ..SpaceConfiguration::default()
            }],
            ..Self::bare()
        }
    }

    /// `devices` default devices, each with a memory space of its own of `capacity` bytes.
    #[must_use]
    pub fn separate_memory(devices: u8, capacity: u64) -> Self {
        let space = SpaceConfiguration {
            capacity,
            ..SpaceConfiguration::default()
        };
        Self {
            devices: (0..devices)
                .map(|space| DeviceConfiguration {
                    space: SpaceId(space),
                    ..DeviceConfiguration::default()
                })
                .collect(),
            spaces: vec![space; usize::from(devices)],
            ..Self::bare()
        }
    }

    fn bare() -> Self {
        Self {
            devices: Vec::new(),
            spaces: Vec::new(),
            signal_latency: 500,
            races: RacePolicy::default(),
            log_capacity: 1 << 16,
            faults: Vec::new(),
        }
    }

    /// Checks that a machine can be made of this.
    ///
    /// # Errors
    ///
    /// The first thing found that could not work.
    pub fn validate(&self) -> Result<(), ConfigurationError> {
        use ConfigurationError as Error;
        if self.devices.is_empty() {
            return Err(Error::NoDevices);
        }
        if self.devices.len() > usize::from(u16::MAX) {
            return Err(Error::TooManyDevices {
                asked: self.devices.len(),
            });
        }
        if self.spaces.len() > usize::from(u8::MAX) {
            return Err(Error::TooManySpaces {
                asked: self.spaces.len(),
            });
        }
        for (index, space) in self.spaces.iter().enumerate() {
            if space.capacity > Self::LARGEST_CAPACITY {
                return Err(Error::CapacityTooLarge {
                    space: index,
                    asked: space.capacity,
                });
            }
            if u32::try_from(space.status_slots).is_err() {
                return Err(Error::TooManyStatusSlots {
                    space: index,
                    asked: space.status_slots,
                });
            }
        }
        for (index, device) in self.devices.iter().enumerate() {
            if device.space.index() >= self.spaces.len() {
                return Err(Error::UnknownSpace {
                    device: index,
                    space: device.space,
                    spaces: self.spaces.len(),
                });
            }
            let zero = |what| Error::Zero {
                device: index,
                what,
            };
            let must_be_positive = [
                (device.slots == 0, "slots"),
                (device.parallel_groups == 0, "parallel_groups"),
                (device.kernels_at_once == 0, "kernels_at_once"),
                (device.image.capacity == 0, "image.capacity"),
                (device.memory_bandwidth.is_zero(), "memory_bandwidth"),
                (device.copy_in.bandwidth.is_zero(), "copy_in.bandwidth"),
                (device.copy_out.bandwidth.is_zero(), "copy_out.bandwidth"),
            ];
            if let Some((_, what)) = must_be_positive.into_iter().find(|(is_zero, _)| *is_zero) {
                return Err(zero(what));
            }
        }
        for fault in &self.faults {
            fault
                .validate(self)
                .map_err(|reason| Error::Fault { reason })?;
        }
        Ok(())
    }

    /// The largest capacity of a space: an address leaves eight bits for the space.
    pub const LARGEST_CAPACITY: u64 = 1 << 55;
}

/// The reason for which no machine can be made of a [`Configuration`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// There is no device.
    #[error("the simulated machine has no devices: give it at least one")]
    NoDevices,
    /// More devices than ids.
    #[error("the simulated machine has {asked} devices: it can have at most 65535")]
    TooManyDevices {
        /// The number that was asked for.
        asked: usize,
    },
    /// More spaces than ids.
    #[error("the simulated machine has {asked} memory spaces: it can have at most 255")]
    TooManySpaces {
        /// The number that was asked for.
        asked: usize,
    },
    /// More status slots than ids.
    #[error("memory space {space} has {asked} status slots: it can have at most 2^32 - 1")]
    TooManyStatusSlots {
        /// The space.
        space: usize,
        /// The number that was asked for.
        asked: usize,
    },
    /// A device names a space that is not there.
    #[error(
        "device {device} works in {space}, but the machine has {spaces} spaces: name one below that"
    )]
    UnknownSpace {
        /// The device.
        device: usize,
        /// The space it names.
        space: SpaceId,
        /// The number of spaces.
        spaces: usize,
    },
    /// A space larger than addresses reach.
    #[error("memory space {space} has {asked} bytes: an address reaches at most 2^55")]
    CapacityTooLarge {
        /// The space.
        space: usize,
        /// The number of bytes that was asked for.
        asked: u64,
    },
    /// Something is zero that nothing could run with.
    #[error("device {device}: {what} is zero, so nothing could ever run: make it at least one")]
    Zero {
        /// The device.
        device: usize,
        /// The field.
        what: &'static str,
    },
    /// A fault that could never happen.
    #[error("a fault of the configuration cannot happen: {reason}")]
    Fault {
        /// The reason.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_the_slower_of_groups_and_bytes() {
        let device = DeviceConfiguration {
            parallel_groups: 4,
            group_time: 10,
            memory_bandwidth: Bandwidth::bytes_per_nanosecond(1),
            launch_latency: 5,
            ..DeviceConfiguration::default()
        };
        let cost = |groups, bytes| Cost {
            groups,
            bytes,
            extra: 0,
        };
        assert_eq!(device.duration(Unit::Compute, cost(5, 0)), 25);
        assert_eq!(device.duration(Unit::Compute, cost(5, 100)), 105);
        assert_eq!(device.duration(Unit::Immediate, cost(5, 100)), 0);
        assert_eq!(
            device.duration(Unit::Compute, cost(u64::MAX, u64::MAX)),
            u64::MAX
        );
        assert_eq!(device.duration(Unit::CopyIn, cost(0, 32)), 1_002);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let good = Configuration::separate_memory(2, 1024);
        assert_eq!(good.validate(), Ok(()));
        let mut none = good.clone();
        none.devices.clear();
        assert_eq!(none.validate(), Err(ConfigurationError::NoDevices));
        let mut slots = good.clone();
        slots.devices[1].slots = 0;
        assert!(slots.validate().unwrap_err().to_string().contains("slots"));
        let mut space = good.clone();
        space.devices[1].space = SpaceId(2);
        assert!(matches!(
            space.validate(),
            Err(ConfigurationError::UnknownSpace { device: 1, .. })
        ));
        let mut fault = good.clone();
        fault.faults.push(Fault::FailCommand {
            device: DeviceId(7),
            nth: 1,
        });
        assert!(matches!(
            fault.validate(),
            Err(ConfigurationError::Fault { .. })
        ));
        let mut large = good;
        large.spaces[0].capacity = u64::MAX;
        assert!(matches!(
            large.validate(),
            Err(ConfigurationError::CapacityTooLarge { .. })
        ));
    }
}

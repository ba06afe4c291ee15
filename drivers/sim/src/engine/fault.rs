//! Faults on demand.
//!
//! A fault is armed when it is given (with the configuration, or later), counts from then, and
//! fires once, except for [`Fault::FailKind`], which fires every time. `nth` counts from one.

use super::command::Kind;
use super::configuration::{Configuration, DeviceId, SpaceId};

/// The kinds of command that a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindFilter {
    /// Every launch, whatever the kernel.
    AnyKernel,
    /// Exactly this kind.
    Only(Kind),
}

impl KindFilter {
    fn matches(self, kind: Kind) -> bool {
        match self {
            Self::AnyKernel => matches!(kind, Kind::Kernel(_)),
            Self::Only(only) => only == kind,
        }
    }
}

/// Something that shall go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The n-th command that the device starts fails at its end.
    FailCommand {
        /// The device.
        device: DeviceId,
        /// The number of the command, counted from one.
        nth: u64,
    },
    /// Every command of a kind fails at its end.
    FailKind {
        /// The device, or all of them.
        device: Option<DeviceId>,
        /// The kind.
        kind: KindFilter,
    },
    /// The device is lost when it would start its n-th command.
    LoseDevice {
        /// The device.
        device: DeviceId,
        /// The number of the command, counted from one.
        nth: u64,
    },
    /// The n-th allocation in a space finds no memory.
    OutOfMemory {
        /// The space.
        space: SpaceId,
        /// The number of the allocation, counted from one.
        nth: u64,
    },
    /// The device does not report the end of its n-th command as it should.
    Misreport {
        /// The device.
        device: DeviceId,
        /// The number of the command, counted from one.
        nth: u64,
        /// The wrong report.
        how: Misreport,
    },
    /// The n-th command that the device starts takes `factor` times as long.
    Slow {
        /// The device.
        device: DeviceId,
        /// The number of the command, counted from one.
        nth: u64,
        /// The factor by which the command takes longer.
        factor: u64,
    },
}

/// A wrong report of a command's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misreport {
    /// A second time.
    Twice,
    /// Not at all. The host asks when nothing else happens, and is told.
    Never,
    /// As the command starts, and again when it has ended.
    Early,
}

impl Fault {
    pub(crate) fn validate(&self, configuration: &Configuration) -> Result<(), String> {
        let (device, space, nth) = match self {
            Self::FailCommand { device, nth }
            | Self::LoseDevice { device, nth }
            | Self::Misreport { device, nth, .. }
            | Self::Slow { device, nth, .. } => (Some(device), None, *nth),
            Self::FailKind { device, .. } => (device.as_ref(), None, 1),
            Self::OutOfMemory { space, nth } => (None, Some(space), *nth),
        };
        if let Some(device) = device.filter(|id| id.index() >= configuration.devices.len()) {
            return Err(format!(
                "{device} does not exist; there are {} devices",
                configuration.devices.len()
            ));
        }
        if let Some(space) = space.filter(|id| id.index() >= configuration.spaces.len()) {
            return Err(format!(
                "{space} does not exist; there are {} spaces",
                configuration.spaces.len()
            ));
        }
        if nth == 0 {
            return Err("nth is zero; the first one is 1".to_owned());
        }
        Ok(())
    }
}

/// The effect of the faults on a command that is about to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) fails: Option<String>,
    pub(crate) loses_device: bool,
    pub(crate) misreport: Option<Misreport>,
    pub(crate) factor: u64,
}

/// The faults that have not fired yet, each with the count that is left.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    armed: Vec<Fault>,
}

impl FaultPlan {
    pub(crate) fn new(faults: &[Fault]) -> Self {
        Self {
            armed: faults.to_vec(),
        }
    }

    pub(crate) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    /// Counts a command that `starting` is about to start, and gives the faults' effect on it.
    pub(crate) fn command_starts(&mut self, starting: DeviceId, kind: Kind) -> Verdict {
        let mut verdict = Verdict {
            factor: 1,
            ..Verdict::default()
        };
        self.armed.retain_mut(|fault| match fault {
            Fault::FailCommand { device, nth } if *device == starting => {
                let fires = counts_down(nth);
                if fires {
                    verdict.fails = Some("fail the n-th command".to_owned());
                }
                !fires
            }
            Fault::FailKind {
                device,
                kind: filter,
            } => {
                if device.is_none_or(|device| device == starting) && filter.matches(kind) {
                    verdict.fails = Some(format!("fail every command that matches {filter:?}"));
                }
                true
            }
            Fault::LoseDevice { device, nth } if *device == starting => {
                let fires = counts_down(nth);
                verdict.loses_device |= fires;
                !fires
            }
            Fault::Misreport { device, nth, how } if *device == starting => {
                let fires = counts_down(nth);
                if fires {
                    verdict.misreport = Some(*how);
                }
                !fires
            }
            Fault::Slow {
                device,
                nth,
                factor,
            } if *device == starting => {
                let fires = counts_down(nth);
                if fires {
                    verdict.factor = verdict.factor.saturating_mul(*factor);
                }
                !fires
            }
            _ => true,
        });
        verdict
    }

    /// Counts an allocation; whether it shall find no memory.
    pub(crate) fn allocation_fails(&mut self, allocating: SpaceId) -> bool {
        let mut fails = false;
        self.armed.retain_mut(|fault| match fault {
            Fault::OutOfMemory { space, nth } if *space == allocating => {
                let fires = counts_down(nth);
                fails |= fires;
                !fires
            }
            _ => true,
        });
        fails
    }
}

fn counts_down(nth: &mut u64) -> bool {
    *nth -= 1;
    *nth == 0
}

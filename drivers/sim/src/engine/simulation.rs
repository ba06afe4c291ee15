//! The simulation as the host sees it: memory, statuses, images, faults, counts. Uploads are in
//! [`upload`], the acts of devices in [`polling`], the clock in [`run`].
//!
//! [`upload`]: super::upload
//! [`polling`]: super::polling
//! [`run`]: super::run

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::agenda::{Agenda, Event};
use super::command::{Command, CommandId, Failure, KernelId, Notice, Outcome, Unit};
use super::configuration::{Configuration, ConfigurationError, DeviceId, SpaceId};
use super::device::Device;
use super::fault::{Fault, FaultPlan, Misreport};
use super::log::{Log, Occurrence, Record};
use super::memory::{Backing, DeviceAddress, HostMemory, MemoryError, Publication, Region, Space};
use super::order::Order;
use super::statistics::{DeviceStatistics, HostInteractions, MemoryStatistics};
use super::status::{Status, StatusArea, StatusError, StatusSlot};
use super::time::{Nanoseconds, Times};
use super::work::{Discarded, Work};

/// The phase of an uploaded command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// On its way to its slot.
    Travelling,
    /// In its slot.
    Waiting,
    /// Started.
    Running,
    /// Ended; the host does not know yet.
    Ended(Outcome),
    /// On its way back, unrun.
    Returning,
}

/// A command that is uploaded and not yet back.
pub(crate) struct InFlight {
    pub(crate) command: Command,
    pub(crate) slot: usize,
    pub(crate) phase: Phase,
    pub(crate) times: Times,
    pub(crate) backings: Vec<Backing>,
    /// The failure that it will have at its end.
    pub(crate) doomed: Option<Arc<Failure>>,
    /// The writes that it will make visible at its end.
    pub(crate) publication: Option<Publication>,
    pub(crate) slowed_by: u64,
    pub(crate) misreport: Option<Misreport>,
}

/// The reason for which the host cannot do that to a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such device.
    #[error("{device} does not exist; there are {devices} devices")]
    UnknownDevice {
        /// The device that was named.
        device: DeviceId,
        /// The number of devices.
        devices: usize,
    },
    /// The device is gone.
    #[error("{device} was lost")]
    DeviceLost {
        /// The device.
        device: DeviceId,
    },
}

/// The outcome of a step.
#[derive(Debug)]
pub enum Next {
    /// Nothing will happen until the host does something.
    Idle,
    /// [`Work`] is out that [`Simulation::finish`] has not got back.
    Busy,
    /// Something happened inside.
    Moved,
    /// Something to run first.
    Work(Work),
    /// Something the host wants to know.
    Notice(Notice),
}

/// A machine in simulated time: a pure state machine. See the [module](super) for its protocol.
pub struct Simulation {
    pub(crate) configuration: Configuration,
    pub(crate) now: Nanoseconds,
    pub(crate) agenda: Agenda,
    pub(crate) devices: Vec<Device>,
    pub(crate) spaces: Vec<Space>,
    pub(crate) areas: Vec<StatusArea>,
    pub(crate) commands: BTreeMap<CommandId, InFlight>,
    pub(crate) next_command: u64,
    pub(crate) works: VecDeque<Work>,
    pub(crate) work_is_out: bool,
    pub(crate) notices: VecDeque<Notice>,
    /// Have ended, and their device says nothing of it.
    pub(crate) unreported: VecDeque<(CommandId, DeviceId)>,
    pub(crate) faults: FaultPlan,
    pub(crate) log: Log,
    pub(crate) interactions: HostInteractions,
    pub(crate) order: Order,
    pub(crate) races: u64,
    pub(crate) discarded: Discarded,
    pub(crate) shut_down: bool,
}

impl Simulation {
    /// A machine, switched on at time zero.
    ///
    /// # Errors
    ///
    /// The error that [`Configuration::validate`] finds.
    pub fn new(configuration: Configuration) -> Result<Self, ConfigurationError> {
        configuration.validate()?;
        let ids = (0..=u8::MAX).map(SpaceId);
        let spaces = configuration.spaces.iter().zip(ids);
        Ok(Self {
            now: 0,
            agenda: Agenda::default(),
            devices: configuration.devices.iter().map(Device::new).collect(),
            spaces: spaces
                .clone()
                .map(|(space, id)| Space::new(id, space))
                .collect(),
            areas: spaces
                .map(|(space, id)| StatusArea::new(id, space.status_slots))
                .collect(),
            commands: BTreeMap::new(),
            next_command: 0,
            works: VecDeque::new(),
            work_is_out: false,
            notices: VecDeque::new(),
            unreported: VecDeque::new(),
            faults: FaultPlan::new(&configuration.faults),
            log: Log::new(configuration.log_capacity),
            interactions: HostInteractions::default(),
            order: Order::default(),
            races: 0,
            discarded: Discarded::default(),
            shut_down: false,
            configuration,
        })
    }

    /// The configuration of the machine.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The simulated time.
    #[must_use]
    pub fn now(&self) -> Nanoseconds {
        self.now
    }

    /// Zeroed memory of `size` bytes at an address that is a multiple of `alignment`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfMemory`] with all the sizes, or the fault of the request.
    pub fn allocate(
        &mut self,
        space: SpaceId,
        size: u64,
        alignment: u64,
    ) -> Result<DeviceAddress, MemoryError> {
        let memory = self
            .spaces
            .get_mut(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?;
        let fails = self.faults.allocation_fails(space);
        memory.allocate(size, alignment, fails)
    }

    /// The address of `size` bytes of memory of the host's, which the devices of a space use where
    /// it is, in no more simulated time than their own. To be [freed](Self::free) as an allocation.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate), but for the room in the space.
    pub fn map(
        &mut self,
        space: SpaceId,
        memory: Box<dyn HostMemory>,
        size: u64,
    ) -> Result<DeviceAddress, MemoryError> {
        self.spaces
            .get_mut(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?
            .map(memory, size)
    }

    /// Gives an allocation back; on a lost space too.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InUse`] while an uploaded command uses it, [`MemoryError::NotAllocated`]
    /// where none starts.
    pub fn free(&mut self, address: DeviceAddress) -> Result<(), MemoryError> {
        let space = address.space();
        self.spaces
            .get_mut(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?
            .free(address)
    }

    /// The bytes of a region as they are now, for tests and debugging: no simulated time, no
    /// dependencies.
    ///
    /// # Errors
    ///
    /// If the region is not within a live allocation, or [`MemoryError::OfHost`].
    pub fn inspect(&self, region: Region) -> Result<Vec<u8>, MemoryError> {
        let space = region.address.space();
        self.spaces
            .get(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?
            .inspect(region)
    }

    /// As [`inspect`](Self::inspect), and of the host's memory where the caller knows that nobody
    /// writes it.
    pub(crate) fn read(&self, region: Region) -> Result<Vec<u8>, MemoryError> {
        let space = region.address.space();
        self.spaces
            .get(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?
            .read(region)
    }

    /// Writes bytes to a region that no uploaded command uses, as a host does that has stopped the
    /// devices: no simulated time, no dependencies.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InUse`], or where the region is not within a live allocation.
    pub fn deposit(&mut self, address: DeviceAddress, bytes: &[u8]) -> Result<(), MemoryError> {
        let space = address.space();
        self.spaces
            .get_mut(space.index())
            .ok_or(MemoryError::UnknownSpace { space })?
            .deposit(Region::new(address, bytes.len() as u64), bytes)
    }

    /// True if an uploaded command uses the allocation that starts here.
    #[must_use]
    pub fn is_in_use(&self, address: DeviceAddress) -> bool {
        let space = self.spaces.get(address.space().index());
        space.is_some_and(|space| space.is_in_use(address))
    }

    /// The state of a space.
    #[must_use]
    pub fn memory(&self, space: SpaceId) -> Option<MemoryStatistics> {
        let memory = self.spaces.get(space.index())?;
        Some(MemoryStatistics {
            capacity: memory.capacity(),
            free: memory.free_bytes(),
            largest_free: memory.largest_free(),
            allocations: memory.live_allocations(),
            free_status_slots: self.areas[space.index()].free_slots(),
            lost: memory.is_lost(),
        })
    }

    /// Reserves a slot of a space's event-status area.
    ///
    /// # Errors
    ///
    /// [`StatusError::Exhausted`]; a [`Notice::StatusSlotsFree`] follows when that has changed.
    pub fn reserve_status(&mut self, space: SpaceId) -> Result<StatusSlot, StatusError> {
        self.areas
            .get_mut(space.index())
            .ok_or(StatusError::UnknownSpace { space })?
            .reserve()
    }

    /// Says that no further upload will name this slot. It is recycled when no uploaded command
    /// does.
    ///
    /// # Errors
    ///
    /// [`StatusError::Stale`] where that was said before.
    pub fn release_status(&mut self, slot: StatusSlot) -> Result<(), StatusError> {
        self.area(slot)?.release(slot)?;
        self.notice_free_statuses(slot.space);
        Ok(())
    }

    /// Sets a slot that no command signals, for an event outside. Devices see it after the latency.
    ///
    /// # Errors
    ///
    /// [`StatusError::TwoWriters`] if a command or the host does so already.
    pub fn set_status(&mut self, slot: StatusSlot, status: Status) -> Result<(), StatusError> {
        let before = self.order.seen_by_host();
        self.area(slot)?.host_writes(slot, &status, before)?;
        self.interactions.status_writes += 1;
        let lands = self.after_latency(1);
        self.agenda.plan(lands, Event::HostStatus(slot, status));
        Ok(())
    }

    /// The present status of a slot, if it is reserved.
    #[must_use]
    pub fn status(&self, slot: StatusSlot) -> Option<&Status> {
        self.areas.get(slot.space.index())?.status(slot)
    }

    /// Names the kernels of a flush. If the device's image lacks one, a new image is built, once
    /// running commands have ended. Commands whose kernel was never named make the device build
    /// when they are ready.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is lost.
    pub fn prepare_kernels(
        &mut self,
        device: DeviceId,
        kernels: &[KernelId],
    ) -> Result<(), HostError> {
        self.living(device)?;
        self.interactions.preparations += 1;
        let lands = self.after_latency(1);
        self.agenda
            .plan(lands, Event::Prepare(device, kernels.to_vec()));
        Ok(())
    }

    /// Asks for an uploaded command back. If the device has not started it when the request
    /// arrives, it comes back with [`Notice::Recalled`]; otherwise it ends as always. False if the
    /// command is not uploaded.
    pub fn recall(&mut self, command: CommandId) -> bool {
        let known = self.commands.contains_key(&command);
        if known {
            self.interactions.recalls += 1;
            let lands = self.after_latency(1);
            self.agenda.plan(lands, Event::Recall(command));
        }
        known
    }

    /// Loses a device, as soon as the simulation goes on.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is lost already.
    pub fn lose_device(&mut self, device: DeviceId) -> Result<(), HostError> {
        self.living(device)?;
        self.agenda.plan(self.now, Event::Lose(device));
        Ok(())
    }

    /// Arms one more fault; it counts from now.
    ///
    /// # Errors
    ///
    /// If it could never happen.
    pub fn arm(&mut self, fault: Fault) -> Result<(), ConfigurationError> {
        fault
            .validate(&self.configuration)
            .map_err(|reason| ConfigurationError::Fault { reason })?;
        self.faults.arm(fault);
        Ok(())
    }

    /// The number of uploads that the device takes now.
    #[must_use]
    pub fn credits(&self, device: DeviceId) -> usize {
        self.living(device)
            .map_or(0, |device| device.free_slots.len())
    }

    /// True if the device is lost, or never was.
    #[must_use]
    pub fn is_lost(&self, device: DeviceId) -> bool {
        self.living(device).is_err()
    }

    /// Commands that are uploaded and not yet back.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// The counts of a device.
    #[must_use]
    pub fn statistics(&self, device: DeviceId) -> Option<DeviceStatistics> {
        self.devices
            .get(device.index())
            .map(|device| device.statistics)
    }

    /// The number of images that a device has been given.
    #[must_use]
    pub fn image_builds(&self, device: DeviceId) -> u64 {
        self.statistics(device)
            .map_or(0, |statistics| statistics.image_builds)
    }

    /// The part of the time so far that a unit was busy, from 0 to 1, counting commands that have
    /// ended.
    #[must_use]
    pub fn utilisation(&self, device: DeviceId, unit: Unit) -> f64 {
        let Some(device) = self.devices.get(device.index()) else {
            return 0.0;
        };
        let possible = device.lanes(unit) as f64 * self.now as f64;
        if possible == 0.0 {
            return 0.0;
        }
        device.statistics.busy(unit) as f64 / possible
    }

    /// The counts of the host's acts on the machine.
    #[must_use]
    pub fn interactions(&self) -> HostInteractions {
        self.interactions
    }

    /// The number of commands that were started although they conflict with an earlier one and are
    /// not ordered after it.
    #[must_use]
    pub fn races(&self) -> u64 {
        self.races
    }

    /// The latest records of the log, oldest first.
    pub fn log(&self) -> impl Iterator<Item = &Record> {
        self.log.records()
    }

    pub(crate) fn record(&mut self, what: Occurrence) {
        self.log.write(self.now, what);
    }

    /// The device, if it is there.
    pub(crate) fn living(&self, device: DeviceId) -> Result<&Device, HostError> {
        let found = self
            .devices
            .get(device.index())
            .ok_or(HostError::UnknownDevice {
                device,
                devices: self.devices.len(),
            })?;
        if found.lost {
            return Err(HostError::DeviceLost { device });
        }
        Ok(found)
    }

    pub(crate) fn area(&mut self, slot: StatusSlot) -> Result<&mut StatusArea, StatusError> {
        self.areas
            .get_mut(slot.space.index())
            .ok_or(StatusError::UnknownSpace { space: slot.space })
    }

    /// The time when something sent now has crossed the link `times` times.
    pub(crate) fn after_latency(&self, times: u64) -> Nanoseconds {
        let latency = self.configuration.signal_latency.saturating_mul(times);
        self.now.saturating_add(latency)
    }

    pub(crate) fn notice_free_statuses(&mut self, space: SpaceId) {
        if self.areas[space.index()].take_refused() {
            self.notices.push_back(Notice::StatusSlotsFree { space });
        }
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Simulation")
            .field("now", &self.now)
            .field("devices", &self.devices.len())
            .field("spaces", &self.spaces.len())
            .field("in_flight", &self.commands.len())
            .finish_non_exhaustive()
    }
}

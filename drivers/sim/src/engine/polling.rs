//! Polling of a device: one look at its slots.
//!
//! 1. Each waiting command is *blocked* (a status it waits for is empty), *failed* (all are set,
//!    one that it needs says failed) or *ready*. A failed one is skipped only when *all* its waits
//!    are set: commands that are ordered after it may rely on the end of everything that it waited
//!    for. The first cause is that of the first failed wait in its list.
//! 2. If the oldest ready kernel is not in the image, or the host has named one that is not,
//!    nothing new starts until running commands have ended; then a new image is built. Only the
//!    *oldest* counts, so that an image that cannot hold all kernels lets its own run before the
//!    next one is built.
//! 3. Otherwise ready commands start in the device's order, as long as their unit has room.
//!
//! Polls are planned only when something has changed, at the next multiple of the polling interval:
//! an idle machine has an empty agenda.

use std::sync::Arc;

use super::agenda::Event;
use super::command::{CommandId, Failure, KernelId, Kind, Outcome};
use super::configuration::{DeviceId, PickOrder, RacePolicy, SpaceId};
use super::device::ImageState;
use super::fault::Misreport;
use super::log::{Occurrence, Race};
use super::memory::ViewPlan;
use super::simulation::{Phase, Simulation};
use super::status::Status;
use super::work::{Job, Work};

enum Readiness {
    Blocked,
    Failed(Arc<Failure>),
    Ready,
}

impl Simulation {
    /// Something has changed that `id` will see when it looks next.
    pub(crate) fn plan_poll(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.index()];
        if device.lost {
            return;
        }
        let interval = device.configuration.polling_interval.max(1);
        let at = self
            .now
            .checked_next_multiple_of(interval)
            .unwrap_or(self.now);
        if device.next_poll.is_none_or(|planned| planned > at) {
            device.next_poll = Some(at);
            self.agenda.plan(at, Event::Poll(id));
        }
    }

    /// Something has changed that all devices of a space will see.
    pub(crate) fn plan_polls(&mut self, space: SpaceId) {
        for index in 0..self.devices.len() {
            let device = &self.devices[index];
            if device.configuration.space == space && !device.waiting.is_empty() {
                self.plan_poll(DeviceId(index as u16));
            }
        }
    }

    /// The device looks at its slots.
    pub(crate) fn poll(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.index()];
        if device.next_poll != Some(self.now) {
            return;
        }
        device.next_poll = None;
        if device.lost || device.image_state == ImageState::Building {
            return;
        }
        device.statistics.polls += 1;
        let mut ready = Vec::new();
        for command in self.in_pick_order(id) {
            match self.readiness(command) {
                Readiness::Blocked => {}
                Readiness::Failed(cause) => self.end(command, Outcome::Skipped(cause), true),
                Readiness::Ready => ready.push(command),
            }
        }
        let oldest_kernel = ready
            .iter()
            .filter(|command| self.kernel_of(**command).is_some())
            .min();
        let lacks = oldest_kernel.is_some_and(|command| self.lacks_kernel(id, *command));
        let device = &mut self.devices[id.index()];
        if lacks || device.image.is_wanted() {
            device.image_state = ImageState::Draining;
            if device.running.is_empty() {
                self.build_image(id, &ready);
            }
            return;
        }
        // Also where the command that asked for a new image has been recalled.
        device.image_state = ImageState::Present;
        for command in ready {
            let unit = self.commands[&command].command.unit;
            if self.devices[id.index()].has_lane(unit) && !self.lacks_kernel(id, command) {
                self.start(command);
            }
            if self.devices[id.index()].lost {
                return;
            }
        }
    }

    fn in_pick_order(&mut self, id: DeviceId) -> Vec<CommandId> {
        let device = &mut self.devices[id.index()];
        let mut order: Vec<_> = device.waiting.iter().copied().collect();
        match device.configuration.pick_order {
            PickOrder::Age => {}
            PickOrder::Slot => order.sort_by_key(|command| self.commands[command].slot),
            PickOrder::Youngest => order.reverse(),
            PickOrder::Shuffled(seed) => {
                for last in (1..order.len()).rev() {
                    let other = device.shuffle(seed) % (last as u64 + 1);
                    order.swap(last, other as usize);
                }
            }
        }
        order
    }

    fn readiness(&self, id: CommandId) -> Readiness {
        let mut cause = None;
        for wait in &self.commands[&id].command.waits {
            match self.areas[wait.slot.space.index()].status(wait.slot) {
                Some(Status::Complete) => {}
                Some(Status::Failed(failure)) if wait.propagates => {
                    cause.get_or_insert_with(|| Arc::clone(failure));
                }
                Some(Status::Failed(_)) => {}
                Some(Status::Empty) | None => return Readiness::Blocked,
            }
        }
        cause.map_or(Readiness::Ready, Readiness::Failed)
    }

    /// True if a command waits for a status that is not set.
    pub(crate) fn is_blocked(&self, id: CommandId) -> bool {
        matches!(self.readiness(id), Readiness::Blocked)
    }

    fn kernel_of(&self, id: CommandId) -> Option<KernelId> {
        match self.commands[&id].command.kind {
            Kind::Kernel(kernel) => Some(kernel),
            _ => None,
        }
    }

    fn lacks_kernel(&self, device: DeviceId, id: CommandId) -> bool {
        self.kernel_of(id)
            .is_some_and(|kernel| !self.devices[device.index()].image.contains(kernel))
    }

    /// Gives a drained device a new image.
    fn build_image(&mut self, id: DeviceId, ready: &[CommandId]) {
        let mut by_age = ready.to_vec();
        by_age.sort_unstable();
        let required: Vec<_> = by_age
            .iter()
            .filter_map(|command| self.kernel_of(*command))
            .collect();
        let uploaded: Vec<_> = self.devices[id.index()]
            .waiting
            .iter()
            .filter_map(|command| self.kernel_of(*command))
            .collect();
        let device = &mut self.devices[id.index()];
        let kernels = device.image.build(&required, &uploaded);
        device.image_state = ImageState::Building;
        let image = device.configuration.image;
        let time = image.build_time.saturating_add(image.upload_time);
        device.statistics.image_builds += 1;
        device.statistics.image_time = device.statistics.image_time.saturating_add(time);
        self.agenda
            .plan(self.now.saturating_add(time), Event::ImageReady(id));
        self.record(Occurrence::ImageBuilt {
            device: id,
            kernels,
        });
    }

    /// Starts a ready command, or does to it as a fault demands.
    fn start(&mut self, id: CommandId) {
        let command = &self.commands[&id].command;
        let (device_id, kind, unit, tag) =
            (command.device, command.kind, command.unit, command.tag);
        let verdict = self.faults.command_starts(device_id, kind);
        if verdict.loses_device {
            self.lose(device_id);
            return;
        }
        self.resolve_order(id);
        let race = self
            .order
            .started(id)
            .map(|earlier| Race { earlier, later: id });
        let device = &mut self.devices[device_id.index()];
        device.waiting.remove(&id);
        device.running.insert(id);
        device.take_lane(unit);
        device.statistics.started += 1;
        if let Kind::Kernel(kernel) = kind {
            device.image.touch(kernel);
        }
        self.record(Occurrence::Started {
            command: id,
            device: device_id,
            unit,
        });
        let mut doomed = verdict.fails.map(|fault| Failure::Injected {
            device: device_id,
            command: id,
            tag,
            fault,
        });
        if let Some(race) = race {
            self.races += 1;
            self.record(Occurrence::Raced(race));
            if self.configuration.races == RacePolicy::Fail {
                doomed.get_or_insert(Failure::Race {
                    device: device_id,
                    command: id,
                    tag,
                    other: race.earlier,
                });
            }
        }
        if verdict.misreport == Some(Misreport::Early) {
            let seen = self.after_latency(1);
            self.agenda.plan(seen, Event::Report(id, device_id));
        }
        let now = self.now;
        let Some(flight) = self.commands.get_mut(&id) else {
            return;
        };
        flight.phase = Phase::Running;
        flight.times.started = now;
        flight.slowed_by = verdict.factor;
        flight.misreport = verdict.misreport;
        if let Some(failure) = doomed {
            flight.doomed = Some(Arc::new(failure));
            self.plan_end(id);
        } else {
            let effect = std::mem::replace(&mut flight.command.effect, Box::new(|_| Ok(())));
            let plan = ViewPlan {
                accesses: flight.command.accesses.clone(),
                rows: flight.command.rows.clone(),
                backings: flight.backings.clone(),
            };
            self.works.push_back(Work {
                command: id,
                job: Job::Effect(plan, effect),
            });
        }
    }

    /// Plans the end of a command that has just started.
    pub(crate) fn plan_end(&mut self, id: CommandId) {
        let flight = &self.commands[&id];
        let duration = self.devices[flight.command.device.index()]
            .configuration
            .duration(flight.command.unit, flight.command.cost)
            .saturating_mul(flight.slowed_by);
        let at = self.now.saturating_add(duration);
        self.agenda.plan(at, Event::End(id));
    }

    /// Notes the commands that a command is ordered after, now that its waits are set.
    pub(crate) fn resolve_order(&mut self, id: CommandId) {
        let areas = &self.areas;
        let waits = self.commands[&id]
            .command
            .waits
            .iter()
            .filter_map(|wait| areas[wait.slot.space.index()].before(wait.slot));
        self.order.resolved(id, waits);
    }
}

//! The clock: takes the next event from the agenda and does it.

use std::sync::Arc;

use super::agenda::Event;
use super::command::{CommandId, Completion, Failure, Notice, Outcome};
use super::configuration::DeviceId;
use super::device::ImageState;
use super::fault::Misreport;
use super::log::Occurrence;
use super::memory::EffectError;
use super::simulation::{Next, Phase, Simulation};
use super::status::Status;
use super::work::{Discarded, Job, Work, WorkResult, Worked};

impl Simulation {
    /// Does the next thing. [`Work`] that it hands out must be run and given to
    /// [`finish`](Self::finish) before anything else moves; until then it says [`Next::Busy`].
    pub fn advance(&mut self) -> Next {
        if self.work_is_out {
            return Next::Busy;
        }
        drop(self.take_discarded());
        if let Some(notice) = self.notices.pop_front() {
            return Next::Notice(notice);
        }
        while let Some(work) = self.works.pop_front() {
            // A device that was lost in the meantime runs nothing any more.
            if self
                .commands
                .get(&work.command)
                .is_some_and(|flight| flight.phase == Phase::Running)
            {
                self.work_is_out = true;
                return Next::Work(work);
            }
            self.discarded.works.push(work);
        }
        let Some((time, event)) = self.agenda.pop() else {
            return self.ask();
        };
        self.now = time;
        self.happen(event);
        Next::Moved
    }

    /// Nothing happens any more: the host asks after commands that it has heard nothing of.
    fn ask(&mut self) -> Next {
        let Some((id, device)) = self.unreported.pop_front() else {
            return Next::Idle;
        };
        if self.commands.contains_key(&id) {
            self.devices[device.index()].statistics.missing_reports += 1;
            self.record(Occurrence::MissingReport {
                device,
                command: id,
            });
            // There and back.
            let told = self.after_latency(2);
            self.agenda.plan(told, Event::Report(id, device));
        }
        Next::Moved
    }

    /// Takes back work that was run.
    pub fn finish(&mut self, worked: Worked) {
        self.work_is_out = false;
        let id = worked.command;
        let Some(flight) = self
            .commands
            .get_mut(&id)
            .filter(|flight| flight.phase == Phase::Running)
        else {
            self.discarded.results.push(worked);
            return;
        };
        let (device, tag) = (flight.command.device, flight.command.tag);
        let panicked = |message| Failure::Panicked {
            device,
            command: id,
            tag,
            message,
        };
        match worked.result {
            WorkResult::Ran(publication, cost) => {
                flight.publication = Some(publication);
                if let Some(cost) = cost {
                    flight.command.cost = cost;
                }
                self.plan_end(id);
            }
            // An effect that failed takes its time all the same.
            WorkResult::EffectFailed(error) => {
                flight.doomed = Some(Arc::new(match error {
                    EffectError::Panicked(message) => panicked(message),
                    EffectError::Failed(message) => Failure::Effect {
                        device,
                        command: id,
                        tag,
                        message,
                    },
                }));
                self.plan_end(id);
            }
            WorkResult::Published => self.end(id, Outcome::Complete, true),
            WorkResult::PublicationPanicked(message) => {
                self.end(id, Outcome::Failed(Arc::new(panicked(message))), true);
            }
        }
    }

    /// The objects that are over and only have to be dropped. A thread that holds a lock around the
    /// simulation takes them after each call; otherwise they are dropped as the simulation goes on.
    pub fn take_discarded(&mut self) -> Discarded {
        std::mem::take(&mut self.discarded)
    }

    /// As [`advance`](Self::advance), running any work at once: never [`Next::Work`].
    pub fn step(&mut self) -> Next {
        match self.advance() {
            Next::Work(work) => {
                self.finish(work.run());
                Next::Moved
            }
            other => other,
        }
    }

    /// Goes on until there is something to tell the host; nothing once idle.
    pub fn run_until_notice(&mut self) -> Option<Notice> {
        loop {
            match self.step() {
                Next::Idle | Next::Busy => return None,
                Next::Notice(notice) => return Some(notice),
                Next::Moved | Next::Work(_) => {}
            }
        }
    }

    /// Goes on until nothing moves without the host; the completions, in the order in which the
    /// host saw them. Other notices are dropped.
    pub fn run_until_idle(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.run_until_notice())
            .filter_map(Notice::completion)
            .collect()
    }

    /// True if nothing will happen until the host does something.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.work_is_out
            && self.works.is_empty()
            && self.notices.is_empty()
            && self.agenda.is_empty()
            && self.unreported.is_empty()
    }

    /// Switches the machine off. Commands that have not ended fail with [`Failure::ShutDown`];
    /// every command's notice follows.
    pub fn shut_down(&mut self) {
        self.shut_down = true;
        self.agenda.clear();
        self.discarded.works.extend(self.works.drain(..));
        let ids: Vec<_> = self.commands.keys().copied().collect();
        for id in ids {
            let flight = &self.commands[&id];
            if flight.phase == Phase::Returning {
                self.return_to_host(id);
                continue;
            }
            if !matches!(flight.phase, Phase::Ended(_)) {
                self.end(id, Outcome::Failed(Arc::new(Failure::ShutDown)), false);
            }
            self.report(id);
        }
        self.agenda.clear();
        self.unreported.clear();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(id) => self.arrive(id),
            Event::HostStatus(slot, status) => {
                let failed = matches!(status, Status::Failed(_));
                let area = &mut self.areas[slot.space.index()];
                if area.set(slot, status) {
                    self.record(Occurrence::StatusSet {
                        slot,
                        by: None,
                        failed,
                    });
                }
                self.areas[slot.space.index()].unhold(slot);
                self.notice_free_statuses(slot.space);
                self.plan_polls(slot.space);
            }
            Event::Prepare(id, kernels) => {
                let device = &mut self.devices[id.index()];
                if device.image.want(&kernels) && device.image_state == ImageState::Present {
                    device.image_state = ImageState::Draining;
                }
                self.plan_poll(id);
            }
            Event::Poll(id) => self.poll(id),
            Event::End(id) => self.run_out(id),
            Event::ImageReady(id) => self.image_ready(id),
            Event::Report(id, device) => {
                let phase = self.commands.get(&id).map(|flight| &flight.phase);
                let statistics = &mut self.devices[device.index()].statistics;
                match phase {
                    Some(Phase::Ended(_)) => self.report(id),
                    Some(_) => {
                        statistics.early_reports += 1;
                        self.record(Occurrence::EarlyReport {
                            device,
                            command: id,
                        });
                    }
                    None => {
                        statistics.duplicate_reports += 1;
                        self.record(Occurrence::DuplicateReport {
                            device,
                            command: id,
                        });
                    }
                }
            }
            Event::Recall(id) => {
                if let Some(flight) = self.commands.get_mut(&id)
                    && flight.phase == Phase::Waiting
                {
                    flight.phase = Phase::Returning;
                    let device = &mut self.devices[flight.command.device.index()];
                    device.waiting.remove(&id);
                    let back = self.after_latency(1);
                    self.agenda.plan(back, Event::Recalled(id));
                }
            }
            Event::Recalled(id) => self.return_to_host(id),
            Event::Lose(id) => self.lose(id),
            Event::LossSeen(id) => {
                let space = self.devices[id.index()].configuration.space;
                self.notices.push_back(Notice::DeviceLost {
                    device: id,
                    memory_lost: self.spaces[space.index()].is_lost(),
                });
            }
        }
    }

    fn arrive(&mut self, id: CommandId) {
        let Some(flight) = self
            .commands
            .get_mut(&id)
            .filter(|flight| flight.phase == Phase::Travelling)
        else {
            return;
        };
        flight.phase = Phase::Waiting;
        flight.times.submitted = self.now;
        let device = flight.command.device;
        self.devices[device.index()].waiting.insert(id);
        self.record(Occurrence::Arrived { command: id });
        // One that is blocked is looked at when a status is set.
        if !self.is_blocked(id) {
            self.plan_poll(device);
        }
    }

    /// A running command has run its time: it fails as it was bound to, or publishes first.
    fn run_out(&mut self, id: CommandId) {
        let Some(flight) = self
            .commands
            .get_mut(&id)
            .filter(|flight| flight.phase == Phase::Running)
        else {
            return;
        };
        flight.times.ended = self.now;
        if let Some(failure) = flight.doomed.take() {
            self.end(id, Outcome::Failed(failure), true);
        } else if let Some(publication) = flight.publication.take() {
            self.works.push_back(Work {
                command: id,
                job: Job::Publish(publication),
            });
        }
    }

    fn image_ready(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.index()];
        if device.lost {
            return;
        }
        // The host may have named more kernels while this image was being built.
        device.image_state = if device.image.is_wanted() {
            ImageState::Draining
        } else {
            ImageState::Present
        };
        self.record(Occurrence::ImageReady { device: id });
        self.plan_poll(id);
    }

    /// A command ends. A device that is there sets the command's status itself; for a lost one the
    /// host does, when it sees the loss.
    pub(crate) fn end(&mut self, id: CommandId, outcome: Outcome, by_device: bool) {
        let now = self.now;
        let Some(flight) = self.commands.get_mut(&id) else {
            return;
        };
        let device_id = flight.command.device;
        let device = &mut self.devices[device_id.index()];
        let had_started = flight.phase == Phase::Running;
        match flight.phase {
            Phase::Running => {
                device.running.remove(&id);
                device.give_lane(flight.command.unit, now - flight.times.started);
            }
            Phase::Waiting => {
                device.waiting.remove(&id);
                flight.times.started = now;
            }
            _ => {
                flight.times.submitted = now;
                flight.times.started = now;
            }
        }
        flight.times.ended = now;
        self.discarded
            .publications
            .extend(flight.publication.take());
        match outcome {
            Outcome::Complete => device.statistics.completed += 1,
            Outcome::Failed(_) => device.statistics.failed += 1,
            Outcome::Skipped(_) => device.statistics.skipped += 1,
        }
        let complete = outcome.is_complete();
        let misreport = flight.misreport;
        let space = device.configuration.space;
        let device_drains = device.image_state == ImageState::Draining;
        flight.phase = Phase::Ended(outcome);
        self.record(Occurrence::Ended {
            command: id,
            complete,
        });
        if !had_started {
            self.resolve_order(id);
        }
        if by_device {
            self.signal(id);
        }
        if misreport == Some(Misreport::Never) {
            self.unreported.push_back((id, device_id));
        } else {
            let seen = self.after_latency(1);
            self.agenda.plan(seen, Event::Report(id, device_id));
        }
        if misreport == Some(Misreport::Twice) {
            let again = self.after_latency(2).saturating_add(1);
            self.agenda.plan(again, Event::Report(id, device_id));
        }
        if device_drains {
            self.plan_poll(device_id);
        }
        self.plan_polls(space);
    }

    /// Sets the status of a command that has ended, unless that was done.
    fn signal(&mut self, id: CommandId) {
        let Some(flight) = self.commands.get(&id) else {
            return;
        };
        let (Some(slot), Phase::Ended(outcome)) = (flight.command.signals, &flight.phase) else {
            return;
        };
        let status = match outcome {
            Outcome::Complete => Status::Complete,
            Outcome::Failed(cause) | Outcome::Skipped(cause) => Status::Failed(Arc::clone(cause)),
        };
        let failed = status != Status::Complete;
        let before = self.order.signalled(id);
        let area = &mut self.areas[slot.space.index()];
        if area.set(slot, status) {
            area.order_after(slot, before);
            self.record(Occurrence::StatusSet {
                slot,
                by: Some(id),
                failed,
            });
            self.plan_polls(slot.space);
        }
    }

    /// The host sees the end of a command.
    fn report(&mut self, id: CommandId) {
        self.signal(id);
        let Some(mut flight) = self.take_out(id) else {
            return;
        };
        let Phase::Ended(outcome) = flight.phase else {
            return;
        };
        flight.times.reported = self.now;
        self.order.ended(id);
        let device = flight.command.device;
        self.record(Occurrence::Reported { command: id });
        self.notices.push_back(Notice::Completed(Completion {
            command: id,
            tag: flight.command.tag,
            device,
            outcome,
            times: flight.times,
        }));
        self.discarded.commands.push(flight.command);
        self.notice_free_slots(device);
    }

    /// A recalled command is back.
    fn return_to_host(&mut self, id: CommandId) {
        let Some(flight) = self.take_out(id) else {
            return;
        };
        let device = flight.command.device;
        self.devices[device.index()].statistics.recalled += 1;
        self.order.recalled(id);
        self.record(Occurrence::Recalled { command: id });
        self.notices.push_back(Notice::Recalled {
            id,
            command: flight.command,
        });
        self.notice_free_slots(device);
    }

    /// The device is gone, with all it had in flight, and with its memory if nobody else works
    /// there.
    pub(crate) fn lose(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.index()];
        if device.lost {
            return;
        }
        device.lost = true;
        let space = device.configuration.space;
        self.record(Occurrence::DeviceLost { device: id });
        let survivors =
            |device: &super::device::Device| device.configuration.space == space && !device.lost;
        if !self.devices.iter().any(survivors) {
            self.spaces[space.index()].lose();
            self.record(Occurrence::SpaceLost { space });
        }
        let seen = self.after_latency(1);
        self.agenda.plan(seen, Event::LossSeen(id));
        let failure = Arc::new(Failure::DeviceLost { device: id });
        let doomed: Vec<_> = self
            .commands
            .iter()
            .filter(|(_, flight)| {
                flight.command.device == id
                    && matches!(
                        flight.phase,
                        Phase::Travelling | Phase::Waiting | Phase::Running
                    )
            })
            .map(|(command, _)| *command)
            .collect();
        for command in doomed {
            self.end(command, Outcome::Failed(Arc::clone(&failure)), false);
        }
    }
}

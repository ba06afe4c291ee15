//! The state of one device, as the device and as the host see it.

use std::collections::BTreeSet;

use super::command::{CommandId, Unit};
use super::configuration::DeviceConfiguration;
use super::image::Image;
use super::statistics::{DeviceStatistics, unit_index};
use super::time::Nanoseconds;

/// The state of an image; it says whether commands may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageState {
    /// They may.
    Present,
    /// A new image waits for the end of running commands.
    Draining,
    /// A new image is being built and uploaded.
    Building,
}

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) configuration: DeviceConfiguration,
    pub(crate) lost: bool,
    /// Commands in slots that have not started, oldest first.
    pub(crate) waiting: BTreeSet<CommandId>,
    /// Commands that have started and not ended.
    pub(crate) running: BTreeSet<CommandId>,
    /// Slots that the host knows to be free.
    pub(crate) free_slots: BTreeSet<usize>,
    /// True if an upload was refused since the last notice of free slots.
    pub(crate) refused: bool,
    pub(crate) image: Image,
    pub(crate) image_state: ImageState,
    /// The time at which the device looks at its slots next.
    pub(crate) next_poll: Option<Nanoseconds>,
    pub(crate) statistics: DeviceStatistics,
    lanes: [usize; 3],
    busy_lanes: [usize; 3],
    shuffled: u64,
}

impl Device {
    pub(crate) fn new(configuration: &DeviceConfiguration) -> Self {
        Self {
            configuration: configuration.clone(),
            lost: false,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            free_slots: (0..configuration.slots).collect(),
            refused: false,
            image: Image::new(configuration.image.capacity),
            image_state: ImageState::Present,
            next_poll: None,
            statistics: DeviceStatistics::default(),
            lanes: [configuration.kernels_at_once, 1, 1],
            busy_lanes: [0; 3],
            shuffled: 0,
        }
    }

    pub(crate) fn has_lane(&self, unit: Unit) -> bool {
        unit_index(unit).is_none_or(|index| self.busy_lanes[index] < self.lanes[index])
    }

    pub(crate) fn take_lane(&mut self, unit: Unit) {
        if let Some(index) = unit_index(unit) {
            self.busy_lanes[index] += 1;
        }
    }

    pub(crate) fn give_lane(&mut self, unit: Unit, busy: Nanoseconds) {
        if let Some(index) = unit_index(unit) {
            self.busy_lanes[index] -= 1;
            let sum = &mut self.statistics.busy[index];
            *sum = sum.saturating_add(busy);
        }
    }

    pub(crate) fn lanes(&self, unit: Unit) -> usize {
        unit_index(unit).map_or(0, |index| self.lanes[index])
    }

    /// The next number of the device's own sequence: SplitMix64 (Steele, Lea and Flood, 2014).
    pub(crate) fn shuffle(&mut self, seed: u64) -> u64 {
        self.shuffled = self.shuffled.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.shuffled ^ seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

//! Commands on the node, by their events.

use crate::bulk::HostRegion;
use crate::description::Answer;
use crate::point::{Point, Times};
use quipu_scheduler::Error;
use std::collections::{HashMap, VecDeque};

/// A command on the node.
pub(crate) struct Flying {
    /// Its event on this node.
    event: u64,
    pub(crate) point: Point,
    /// The number of parts that are missing until it is over: its end, and bytes on the bulk
    /// stream.
    pub(crate) parts: u8,
    /// This node has told its end, so it may have forgotten it: bytes travel by themselves.
    pub(crate) told: bool,
    /// The fields that few commands need.
    pub(crate) rare: Option<Box<Rare>>,
}

/// The fields that few commands need.
#[derive(Default)]
pub(crate) struct Rare {
    /// The destination of the bytes of a read that come with a message.
    pub(crate) region: Option<HostRegion>,
    /// The transfer of a read.
    pub(crate) transfer: u64,
    /// The node is to say how much of a read is in use.
    pub(crate) awaits_content: bool,
    /// The node's answer on a program.
    pub(crate) answer: Option<Answer>,
    pub(crate) failure: Option<Error>,
    pub(crate) times: Option<Times>,
    /// The bytes that are sent to another node: its number, and the transfer there.
    pub(crate) carries: Option<(usize, u64)>,
    /// The bytes that come from another node: its number, and the transfer by which they may come
    /// here.
    pub(crate) brings: Option<(usize, u64)>,
}

impl Flying {
    pub(crate) fn new(point: Point, parts: u8) -> Self {
        Self::named(point.event(), point, parts)
    }

    /// One that is called so on this node.
    pub(crate) fn named(event: u64, point: Point, parts: u8) -> Self {
        Self {
            event,
            point,
            parts,
            told: false,
            rare: None,
        }
    }

    pub(crate) fn with(self, rare: Rare) -> Self {
        Self {
            rare: Some(Box::new(rare)),
            ..self
        }
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// Places that there are at most.
const PLACES: usize = 1 << 16;

/// Commands by their events, whose ids rise by one from command to command: a place for each of the
/// last ones, and a table for older ones, which are few.
#[derive(Default)]
pub(crate) struct Flights {
    places: VecDeque<Option<Flying>>,
    /// The id of the first place.
    first: u64,
    old: HashMap<u64, Flying>,
    count: usize,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a command, whose id is larger than those before.
    pub(crate) fn insert(&mut self, flying: Flying) {
        let event = flying.event;
        if self.places.is_empty() {
            self.first = event;
        }
        while self.first + (self.places.len() as u64) < event {
            self.push(None);
        }
        self.push(Some(flying));
        self.count += 1;
    }

    fn push(&mut self, place: Option<Flying>) {
        self.places.push_back(place);
        if self.places.len() > PLACES {
            if let Some(Some(oldest)) = self.places.pop_front() {
                self.old.insert(oldest.event, oldest);
            }
            self.first += 1;
        }
    }

    /// The position of a command that is not old.
    fn place(&self, event: u64) -> Option<usize> {
        usize::try_from(event.checked_sub(self.first)?).ok()
    }

    /// True if a command is there whose end the node has not told: it can be named to it.
    pub(crate) fn is_known_there(&self, event: u64) -> bool {
        let flying = match self.place(event) {
            Some(place) => self.places.get(place).and_then(Option::as_ref),
            None => self.old.get(&event),
        };
        flying.is_some_and(|flying| !flying.told)
    }

    pub(crate) fn get_mut(&mut self, event: u64) -> Option<&mut Flying> {
        match self.place(event) {
            Some(place) => self.places.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&event),
        }
    }

    pub(crate) fn remove(&mut self, event: u64) -> Option<Flying> {
        let flying = match self.place(event) {
            Some(place) => self.places.get_mut(place)?.take()?,
            None => self.old.remove(&event)?,
        };
        self.count -= 1;
        while matches!(self.places.front(), Some(None)) {
            self.places.pop_front();
            self.first += 1;
        }
        Some(flying)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Flying> {
        self.places.iter().flatten().chain(self.old.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(flights: &Flights) -> Vec<u64> {
        let ids = flights.values().map(|flying| flying.event);
        ids.collect()
    }

    fn add(flights: &mut Flights, event: u64) {
        flights.insert(Flying::new(Point::new(0, event), 1));
    }

    fn remove(flights: &mut Flights, event: u64) -> bool {
        let removed = flights.remove(event);
        removed.is_some_and(|flying| flying.point.event() == event)
    }

    #[test]
    fn commands_are_found_until_they_are_removed() {
        let mut flights = Flights::default();
        for event in [3, 4, 5, 9] {
            add(&mut flights, event);
        }
        assert_eq!((ids(&flights), flights.len()), (vec![3, 4, 5, 9], 4));
        for none in [0, 2, 6, 10, u64::MAX] {
            assert!(flights.get_mut(none).is_none() && flights.remove(none).is_none());
        }
        assert!(remove(&mut flights, 4));
        assert!(flights.remove(4).is_none() && flights.get_mut(5).is_some());
        assert_eq!((ids(&flights), flights.places.len()), (vec![3, 5, 9], 7));
        assert!(remove(&mut flights, 3) && remove(&mut flights, 5));
        assert_eq!((ids(&flights), flights.places.len()), (vec![9], 1));
        assert!(remove(&mut flights, 9));
        add(&mut flights, 1 << 40);
        assert_eq!((flights.len(), flights.places.len()), (1, 1));
    }

    #[test]
    fn one_that_takes_long_takes_no_more_room_than_others() {
        let mut flights = Flights::default();
        let many = 3 * PLACES as u64;
        add(&mut flights, 1);
        for event in 2..many {
            add(&mut flights, event);
            assert!(event % 1000 == 0 || remove(&mut flights, event));
        }
        assert!(flights.places.len() <= PLACES && flights.old.len() < PLACES / 400);
        let left: Vec<u64> = (1..many)
            .filter(|event| *event == 1 || event % 1000 == 0)
            .collect();
        assert_eq!(flights.len(), left.len());
        for event in left {
            assert!(flights.get_mut(event).is_some() && remove(&mut flights, event));
            assert!(!remove(&mut flights, event));
        }
        assert!(flights.len() == 0 && flights.places.is_empty() && flights.old.is_empty());
    }
}

//! Entries with keys: a place, and the number of its use. So a late word of an entry that is gone
//! is told from one of the next in its place.

/// See the module.
pub(crate) type Key = u64;

const PLACE_BITS: u32 = 32;

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// True if there is no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// The key of the entry that is inserted next.
    pub(super) fn next_key(&self) -> Key {
        match self.free.last() {
            Some(&place) => {
                let generation = self.places[place as usize].generation;
                Key::from(generation) << PLACE_BITS | Key::from(place)
            }
            None => self.places.len() as Key,
        }
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, entry: T) -> Key {
        let key = self.next_key();
        match self.free.pop() {
            Some(place) => self.places[place as usize].entry = Some(entry),
            None => self.places.push(Place {
                generation: 0,
                entry: Some(entry),
            }),
        }
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key as u32 as usize)?;
        let is_it = place.generation == (key >> PLACE_BITS) as u32;
        place.entry.as_ref().filter(|_| is_it)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key as u32 as usize)?;
        let is_it = place.generation == (key >> PLACE_BITS) as u32;
        place.entry.as_mut().filter(|_| is_it)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key as u32 as usize)?;
        if place.generation != (key >> PLACE_BITS) as u32 {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key as u32);
        Some(entry)
    }

    /// Drops an entry where it is: they are large.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(place) = self.places.get_mut(key as u32 as usize)
            && place.generation == (key >> PLACE_BITS) as u32
            && place.entry.is_some()
        {
            place.entry = None;
            place.generation = place.generation.wrapping_add(1);
            self.free.push(key as u32);
        }
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(number, place)| {
            let key = Key::from(place.generation) << PLACE_BITS | number as Key;
            Some((key, place.entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_under_another_key() {
        let mut slab = Slab::default();
        assert!(slab.is_empty());
        let keys: Vec<Key> = ["a", "b", "c"].map(|entry| slab.insert(entry)).to_vec();
        assert_eq!(slab.remove(keys[1]), Some("b"));
        assert_eq!(slab.remove(keys[1]), None);
        let expected = slab.next_key();
        let again = slab.insert("d");
        assert_eq!(again, expected);
        assert_ne!(again, keys[1]);
        assert_eq!((slab.get(keys[1]), slab.get(again)), (None, Some(&"d")));
        *slab.get_mut(again).unwrap() = "e";
        assert_eq!(slab.get_mut(keys[1]), None);
        let mut all: Vec<_> = slab.iter().map(|(key, entry)| (key, *entry)).collect();
        all.sort_unstable();
        let mut expected = vec![(keys[0], "a"), (again, "e"), (keys[2], "c")];
        expected.sort_unstable();
        assert_eq!(all, expected);
        slab.forget(keys[1]);
        assert_eq!(slab.get(again), Some(&"e"));
        for key in [keys[0], keys[2], again] {
            assert!(!slab.is_empty());
            slab.forget(key);
            assert_eq!(slab.get(key), None);
            slab.forget(key);
        }
        assert!(slab.is_empty());
        assert_ne!(slab.next_key(), again);
    }
}

//! Migrations bring bytes to the space in which a command needs them: a route, and a command for
//! each hop of it.
//!
//! Of memory with a content size only the bytes in use are moved, and zeros take the place of the
//! rest. Their number is known when the migration runs. It has a second argument then, the object
//! that holds the size. It finds the size's bytes in the space from which it takes the others, or
//! on the host ([`Migration::content`]). The copy that it makes is valid only until the size is
//! written again ([`ContentVersion`]).

use super::super::Queue;
use super::construct::{construct_and, id_of, open};
use super::waits::Waits;
use crate::access::AccessMode;
use crate::command::log::Enqueued;
use crate::context::ContextShared;
use crate::error::ErrorKind;
use crate::memory::access::Access;
use crate::memory::tracker::{ContentVersion, Missing};
use crate::memory::{CONTENT_SIZE_BYTES, Memory, MemoryRef, SpaceId, TrackerGuard};
use crate::operation::Migration;
use crate::panics::quietly;
use smallvec::SmallVec;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// The bytes that hold a content size.
const SIZE: Range<u64> = 0..CONTENT_SIZE_BYTES;

/// The content size of the memory that is migrated: the object that holds it, and its tracker,
/// locked.
pub(crate) struct Content<'c, 'g> {
    memory: &'c Memory,
    tracker: &'c mut TrackerGuard<'g>,
    version: ContentVersion,
}

/// A migration that was made, for the log.
pub(super) struct Migrated {
    memory: u64,
    range: Range<u64>,
    from: SpaceId,
    to: SpaceId,
    enqueued: Option<Enqueued>,
}

impl Migrated {
    /// Called with nothing locked: a subscriber is a user's code.
    pub(super) fn log(&self) {
        let Self {
            memory,
            range,
            from,
            to,
            enqueued,
        } = self;
        enqueued.iter().for_each(Enqueued::log);
        quietly(|| tracing::debug!(memory, ?range, ?from, ?to, "migrate"));
    }
}

/// A part of a route: where from, where to, and the space whose device does it.
pub(crate) struct Hop {
    pub(crate) from: SpaceId,
    pub(crate) to: SpaceId,
    pub(crate) by: SpaceId,
}

impl Hop {
    /// The name in traces.
    pub(crate) fn label(&self) -> &'static str {
        if self.to == SpaceId::HOST {
            "migrate to the host"
        } else if self.from != SpaceId::HOST && self.by == self.from {
            "migrate to another device"
        } else {
            "migrate to the device"
        }
    }
}

/// The route of missing bytes to `space`.
pub(crate) fn route(missing: &Missing, space: SpaceId) -> SmallVec<[Hop; 2]> {
    let hop = |from, to, by| Hop { from, to, by };
    let direct = [missing.from, space].into_iter().find(|s| {
        *s != SpaceId::HOST
            && crate::memory::space::owner(*s)
                .is_some_and(|(driver, _)| driver.brings_directly(missing.from, space))
    });
    let mut hops = SmallVec::new();
    if missing.from == SpaceId::HOST {
        hops.push(hop(missing.from, space, space));
    } else if let Some(by) = direct {
        hops.push(hop(missing.from, space, by));
    } else if space == SpaceId::HOST {
        hops.push(hop(missing.from, space, missing.from));
    } else {
        if !missing.on_host {
            hops.push(hop(missing.from, SpaceId::HOST, missing.from));
        }
        hops.push(hop(SpaceId::HOST, space, space));
    }
    hops
}

impl Queue {
    /// Brings missing bytes of the accesses to the space where they are used, before any of them is
    /// recorded: a command that changes a content size must not come before the migrations that are
    /// made for it.
    #[cold]
    pub(super) fn migrate_contents<'a>(
        &self,
        waits: &mut Waits<'a>,
        accesses: &[Access<'_>],
        sizes: &[Option<MemoryRef>],
    ) {
        for (access, size) in accesses.iter().zip(sizes) {
            let space = access.memory.space_on(self.shared().head());
            // SAFETY: locked by the caller; not dropped, so not unlocked.
            let mut tracker = ManuallyDrop::new(unsafe { access.memory.locked_tracker() });
            if !tracker.enter(space) || !access.mode.reads() {
                continue;
            }
            let Some(size) = size else {
                self.migrate(waits, access, &mut tracker, space, None);
                continue;
            };
            // SAFETY: as above; an object does not hold its own content size.
            let mut of_size = ManuallyDrop::new(unsafe { size.locked_tracker() });
            let content = Content {
                memory: size,
                version: ContentVersion {
                    size: size.id(),
                    writes: of_size.writes(),
                },
                tracker: &mut of_size,
            };
            self.migrate(waits, access, &mut tracker, space, Some(content));
        }
    }

    /// Brings missing bytes to `space`, before the access is recorded.
    #[cold]
    pub(crate) fn migrate<'a>(
        &self,
        waits: &mut Waits<'a>,
        access: &Access<'_>,
        tracker: &mut TrackerGuard<'_>,
        space: SpaceId,
        mut content: Option<Content<'_, '_>>,
    ) {
        let Some(context) = waits.context else {
            return;
        };
        let range = access.offset..access.offset + access.length;
        let version = content.as_ref().map(|content| content.version);
        for missing in tracker.missing(&range, space, version) {
            for hop in route(&missing, space) {
                let content = content.as_mut();
                self.migrate_leg(
                    context,
                    waits,
                    access.memory,
                    tracker,
                    &missing.range,
                    &hop,
                    content,
                );
            }
        }
    }

    /// The space in which a hop finds the content size: the source of its bytes, or the host, to
    /// which the size is brought then.
    fn place_of_size<'a>(
        &self,
        waits: &mut Waits<'a>,
        content: &mut Content<'_, '_>,
        from: SpaceId,
    ) -> SpaceId {
        if content.tracker.is_valid_in(&SIZE, from) {
            content.tracker.enter(from);
            return from;
        }
        let access = Access {
            memory: content.memory,
            offset: SIZE.start,
            length: SIZE.end,
            mode: AccessMode::Read,
        };
        content.tracker.enter(SpaceId::HOST);
        self.migrate(waits, &access, content.tracker, SpaceId::HOST, None);
        SpaceId::HOST
    }

    #[expect(clippy::too_many_arguments, reason = "one hop of a route, used once")]
    fn migrate_leg<'a>(
        &self,
        context: &'a Arc<ContextShared>,
        waits: &mut Waits<'a>,
        memory: &Memory,
        tracker: &mut TrackerGuard<'_>,
        range: &Range<u64>,
        hop: &Hop,
        mut content: Option<&mut Content<'_, '_>>,
    ) {
        let &Hop { from, to, by } = hop;
        let Some(queue) = context.transfer_queue(by) else {
            waits.rare().poison.get_or_insert_with(|| {
                ErrorKind::DeviceLost {
                    device: format!("{by:?}"),
                    reason: "no device of the context works in that memory space".to_owned(),
                }
                .into()
            });
            return;
        };
        let place_of_size = content
            .as_mut()
            .map(|content| self.place_of_size(waits, content, from));
        let shared = queue.shared();
        // It waits for its reads; the tracker's `migrate` knows that it writes the copy in the
        // other space.
        let read = |memory, range: &Range<u64>| Access {
            memory,
            offset: range.start,
            length: range.end - range.start,
            mode: AccessMode::Read,
        };
        let mut accesses: SmallVec<[Access<'_>; 2]> = SmallVec::new();
        accesses.push(read(memory, range));
        accesses.extend(content.iter().map(|content| read(content.memory, &SIZE)));
        let timed = shared.head().timed;
        let label = timed.then(|| hop.label());
        let body = Migration {
            from,
            to,
            content: place_of_size,
        };
        let mut enqueued = None;
        let later = |log| enqueued = Some(log);
        let slot = construct_and(shared, body, &accesses, 1, timed, false, label, later);
        let id = id_of(slot);
        let mut hop = Waits::new(slot);
        hop.context = Some(context);
        hop.rare().made_for = Some(waits.id());
        hop.s.take_number(shared);
        open(slot, id);
        let version = content.as_ref().map(|content| content.version);
        tracker.migrate(range, from, to, version, id, &mut hop);
        if let (Some(content), Some(place)) = (content, place_of_size) {
            content
                .tracker
                .record(SIZE, AccessMode::Read, place, id, &mut hop);
        }
        let ready = queue.register_slowly(&mut hop, shared.head(), id);
        let rare = waits.rare();
        if ready.is_some() && shared.head().needs_flush {
            // Nobody marks its queue as it is handed over.
            rare.flushes |= shared.mark_dirty();
        }
        rare.migrated.push(Migrated {
            memory: memory.id(),
            range: range.clone(),
            from,
            to,
            enqueued,
        });
        rare.flushes |= hop.rare().flushes;
        rare.discarded.append(&mut hop.rare().discarded);
        rare.panics.append(&mut hop.rare().panics);
        rare.ready.append(&mut hop.rare().ready);
        rare.ready.extend(ready);
        if hop.is_unsettled() {
            rare.hops.push((hop, id));
        }
    }
}

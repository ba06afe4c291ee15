//! Users of rows that have gaps between them: rectangles of a matrix, which share no byte though
//! their spans do.
//!
//! A segment is a range of bytes. It cannot say that one command writes the left half of a matrix
//! and another the right half. So commands that use a [`Region`] with gaps are not in the segments
//! but in this list, in enqueue order. A command waits for those users of the list whose regions
//! [meet](Region::meets) its own, if one of the two writes, and for users of segments that its
//! region meets.
//!
//! # The list and the wait lists stay short
//!
//! * A user loses the bytes that a later command uses, if that command comes after it and is waited
//!   for in its place. The rest of a rectangle is rectangles ([`Region::without`]). A user without
//!   bytes is forgotten, so the writers of one matrix share no bytes, as the segments do not.
//! * `User::followed` is the last command of the list that comes after the user and, if the user
//!   writes, fails with it. A command that waits for the follower does not wait for the user.
//! * A command that finds a user finished forgets it. Many readers are joined into one marker, as a
//!   segment's are.
//! * A region of more dimensions is recorded as several rectangles. If these are many, or there are
//!   more than [`MOST_USERS`] users, it is taken for its span, as an access of a range is.

use super::Recorder;
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::Error;
use crate::limits::{COMPACT_AT, MAX_READERS, MOST_USERS};
use crate::memory::space_id::SpaceId;
use crate::region::{MOST_RECTANGLES, Region, Regions};
use smallvec::SmallVec;

/// A command that uses a region.
#[derive(Clone, Debug)]
struct User {
    id: EventId,
    region: Region,
    writes: bool,
    /// See the module. `NONE` if there is no such command.
    followed: EventId,
    /// The bytes that a migration brings; none for other users, which came after all older users
    /// that they conflict with. A migration need not: it waits for no readers.
    brings: Option<Brings>,
    /// The error of a writer that has failed.
    poison: Option<Error>,
}

impl User {
    /// True if nothing has to be known of it any more.
    fn is_over(&self) -> bool {
        self.poison.is_none() && self.id.is_finished()
    }

    fn is_forgotten(&self) -> bool {
        self.id.is_none() && self.poison.is_none()
    }
}

/// Bytes that a migration brings, of which a writer of rows has changed where they are at home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brings {
    /// The space where they were at home before; `ANYWHERE` if that space is lost.
    pub(super) from: SpaceId,
    pub(super) to: SpaceId,
    /// The command that wrote them there.
    pub(super) writer: EventId,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rows {
    users: Vec<User>,
    compact_at: usize,
}

/// No users.
pub(super) fn new_rows() -> Box<Rows> {
    Box::new(Rows {
        users: Vec::new(),
        compact_at: COMPACT_AT,
    })
}

impl Rows {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The shape in which a new command's region is to be recorded: rectangles, or its span.
    pub(super) fn shape(&self, region: &Region) -> Regions {
        let most = if self.users.len() < MOST_USERS {
            MOST_RECTANGLES
        } else {
            0
        };
        region.in_rectangles(most)
    }

    /// Has a command wait for users whose regions its own meets, and takes the bytes from those
    /// that it stands for from now on. The caller records the command itself: by [`add`](Self::add)
    /// if `is_kept`, or in segments. True if it comes after `last`.
    pub(super) fn wait(
        &mut self,
        region: &Region,
        by: Use,
        is_kept: bool,
        last: EventId,
        recorder: &mut impl Recorder,
    ) -> bool {
        let Use { mode, id } = by;
        let mut known = Known::default();
        let mut is_any_gone = false;
        let mut left_over: Vec<(usize, Regions)> = Vec::new();
        // The youngest first: followers come before those that they follow.
        for (index, user) in self.users.iter_mut().enumerate().rev() {
            let shares = user.region.meets(region);
            let meets = shares && (mode.writes() || user.writes);
            if meets && user.is_over() {
                user.id = EventId::NONE;
                is_any_gone = true;
                continue;
            }
            let is_own = user.id == id;
            let fails = is_own
                || known.fails_with.contains(&user.followed)
                || (meets && user.writes && mode.reads());
            if !(meets || is_own || known.before.contains(&user.followed)) {
                continue;
            }
            if meets
                && mode.reads()
                && let Some(cause) = &user.poison
            {
                recorder.poisoned(cause);
            }
            // A migration that fails has brought nothing: readers fail, in every kind of context.
            let brings = user.brings.is_some() && mode.reads();
            if meets && !is_own && !user.id.is_none() && (brings || !known.implies(user, mode)) {
                if brings {
                    recorder.wait(user.id, true);
                } else if user.writes && mode.reads() {
                    recorder.wait_for_writer(user.id);
                } else {
                    recorder.wait(user.id, false);
                }
            }
            known.add(user.id, fails && user.writes);
            if is_kept && !is_own && (!user.writes || (fails && mode.writes())) {
                user.followed = id;
            }
            // Older users that meet this region have met the user's: the user comes after them.
            let is_last =
                meets && user.writes && user.brings.is_none() && user.region.covers(region);
            if shares
                && (mode.writes() || !user.writes)
                && let Some(left) = user.region.without(region)
            {
                is_any_gone |= left.is_empty();
                left_over.push((index, left));
            }
            // An overwrite takes bytes also from older users that have failed.
            if is_last && mode.reads() {
                break;
            }
        }
        self.leave(left_over, recorder);
        if is_any_gone {
            self.users.retain(|user| !user.is_forgotten());
        }
        known.before.contains(&last)
    }

    /// Leaves users the rest of their regions. The youngest user comes first.
    fn leave(&mut self, left_over: Vec<(usize, Regions)>, recorder: &mut impl Recorder) {
        for (index, mut left) in left_over {
            let Some(first) = left.pop() else {
                let user = &mut self.users[index];
                user.id = EventId::NONE;
                user.poison
                    .take()
                    .into_iter()
                    .for_each(|poison| recorder.discard(poison));
                continue;
            };
            self.users[index].region = first;
            for region in left {
                let user = User {
                    region,
                    ..self.users[index].clone()
                };
                self.users.insert(index + 1, user);
            }
        }
    }

    /// Records a command whose waits are known ([`wait`](Self::wait)).
    pub(super) fn add(
        &mut self,
        region: Region,
        writes: bool,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        if self.users.len() >= self.compact_at {
            self.compact();
            self.join_readers(recorder);
            self.compact_at = COMPACT_AT.max(2 * self.users.len());
        }
        self.users.push(User {
            id,
            region,
            writes,
            followed: EventId::NONE,
            brings: None,
            poison: None,
        });
    }

    /// The bytes in a space are gone: a migration from there that fails gives nothing back to it.
    pub(super) fn lose_space(&mut self, space: SpaceId) {
        for brings in self
            .users
            .iter_mut()
            .filter_map(|user| user.brings.as_mut())
        {
            if brings.from == space {
                brings.from = SpaceId::ANYWHERE;
            }
        }
    }

    /// Records a migration to these bytes.
    pub(super) fn add_migration(&mut self, bytes: Region, id: EventId, brings: Brings) {
        self.users.push(User {
            id,
            region: bytes,
            writes: true,
            followed: EventId::NONE,
            brings: Some(brings),
            poison: None,
        });
    }

    /// Forgets what of its bytes the migration `id` was to bring, where they are at home again:
    /// `give_back` says that.
    pub(super) fn forget_brought(
        &mut self,
        id: EventId,
        mut give_back: impl FnMut(&Region, Brings) -> bool,
    ) {
        self.users.retain(|user| {
            let brings = user.brings.filter(|_| user.id == id);
            !brings.is_some_and(|brings| give_back(&user.region, brings))
        });
    }

    /// Has the command `id` wait for the writers of these bytes, or all users, as pure ordering.
    pub(super) fn wait_in_order(
        &self,
        region: &Region,
        writers_alone: bool,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        let recording = recorder.recording();
        let mut before: SmallVec<[EventId; 8]> = SmallVec::new();
        for user in self.users.iter().rev() {
            let is_other = !user.id.is_none() && user.id != id && user.id != recording;
            let is_wanted = user.writes || !writers_alone;
            if !is_other || !is_wanted || !user.region.meets(region) {
                continue;
            }
            if !before.contains(&user.followed) {
                recorder.wait(user.id, false);
            }
            before.push(user.id);
        }
    }

    /// True if a command that writes these bytes is unfinished.
    pub(super) fn is_written(&self, region: &Region) -> bool {
        let mut writers = self.users.iter().filter(|user| user.writes);
        writers.any(|user| !user.id.is_finished() && user.region.meets(region))
    }

    /// Poisons the users of the failed command `id`. Gives the errors that this replaces; none if
    /// it has written nothing here.
    pub(super) fn poison(&mut self, id: EventId, cause: &Error) -> Option<Vec<Error>> {
        let own = self.users.iter_mut();
        let mut own = own.filter(|user| user.writes && user.id == id).peekable();
        own.peek()?;
        Some(
            own.filter_map(|user| user.poison.replace(cause.clone()))
                .collect(),
        )
    }

    pub(super) fn users(&self) -> impl Iterator<Item = EventId> {
        self.users.iter().map(|user| user.id)
    }

    /// Forgets commands that are over.
    pub(super) fn compact(&mut self) {
        for user in &mut self.users {
            if user.followed.is_finished() {
                user.followed = EventId::NONE;
            }
            if user.id.is_finished() {
                user.id = EventId::NONE;
            }
        }
        self.users.retain(|user| !user.is_forgotten());
    }

    /// Makes one marker of many readers of a region; of all readers, if there are too many users.
    ///
    /// The command that is being recorded stays a user of its own, as in `Segment::join_readers`.
    /// The marker comes last in the list. So it is younger than the commands that the readers wait
    /// for, and than writers that wait for them, which is allowed: a writer stands for older users
    /// alone.
    fn join_readers(&mut self, recorder: &mut impl Recorder) {
        let recording = recorder.recording();
        let are_too_many = self.users.len() >= MOST_USERS;
        let users = self.users.iter().enumerate();
        let readers = users.filter(|(_, user)| !user.writes && user.id != recording);
        let mut readers: Vec<usize> = readers.map(|(index, _)| index).collect();
        readers.sort_by(|a, b| self.users[*a].region.cmp(&self.users[*b].region));
        let same =
            |a: &usize, b: &usize| are_too_many || self.users[*a].region == self.users[*b].region;
        let groups: Vec<Vec<usize>> = readers.chunk_by(same).map(<[usize]>::to_vec).collect();
        for group in groups
            .into_iter()
            .filter(|group| group.len() >= MAX_READERS / 2)
        {
            let mut ids: Vec<EventId> = group.iter().map(|at| self.users[*at].id).collect();
            ids.dedup();
            let region = match &group[..] {
                [first, .., last] if self.users[*first].region != self.users[*last].region => {
                    let ranges = || group.iter().map(|at| self.users[*at].region.range());
                    let start = ranges().map(|range| range.start).min().unwrap_or_default();
                    let end = ranges().map(|range| range.end).max().unwrap_or_default();
                    Region::of(start..end)
                }
                _ => self.users[group[0]].region.clone(),
            };
            for at in group {
                self.users[at].id = EventId::NONE;
            }
            self.users.push(User {
                id: recorder.join(&ids),
                region,
                writes: false,
                followed: EventId::NONE,
                brings: None,
                poison: None,
            });
        }
        self.users.retain(|user| !user.is_forgotten());
    }
}

/// A command's use of a region.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) mode: AccessMode,
    pub(super) id: EventId,
}

/// The facts about a command that is being recorded.
#[derive(Default)]
struct Known {
    /// Commands that it comes after.
    before: SmallVec<[EventId; 8]>,
    /// The waits whose failure fails it.
    fails_with: SmallVec<[EventId; 8]>,
}

impl Known {
    /// True if the command comes after the user, and fails with it where it has to, without waiting
    /// for it.
    fn implies(&self, user: &User, mode: AccessMode) -> bool {
        if user.writes && mode.reads() {
            self.fails_with.contains(&user.followed)
        } else {
            self.before.contains(&user.followed)
        }
    }

    fn add(&mut self, id: EventId, fails: bool) {
        // `NONE` follows nobody.
        if id.is_none() {
            return;
        }
        self.before.push(id);
        if fails {
            self.fails_with.push(id);
        }
    }
}

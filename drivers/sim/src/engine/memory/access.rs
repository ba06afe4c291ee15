//! An effect's view of memory: as it is when the command starts, and with a copy of its own to
//! write to.
//!
//! # Protocol
//!
//! 1. [`ViewPlan::run`] joins overlapping declared accesses into segments. A segment with a write,
//!    or in memory of the host, gets a *shadow*, a copy of its bytes. Another one is read where it
//!    lies.
//! 2. The effect reads and writes through [`MemoryAccess`], only in declared regions.
//! 3. Its writes become a [`Publication`], which holds the shadows and the bytes that they were
//!    copied from.
//! 4. [`Publication::publish`] puts into memory the bytes that the effect *changed*, so that two
//!    commands that share a declared region but write different bytes of it do not undo each
//!    other's work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use quipu_scheduler::Region as Rows;
use quipu_scheduler::panics::text_of;

use super::super::command::{Cost, Effect};
use super::bytes::{AlignedBytes, Bytes};
use super::{DeviceAddress, MemoryError, Region};

/// A command's use of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// It only reads.
    Read,
    /// It may write, and reads the bytes from before.
    Write,
}

/// A region that a command declares to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The region.
    pub region: Region,
    /// The use of it.
    pub mode: AccessMode,
}

impl Access {
    /// Reads `region`.
    #[must_use]
    pub const fn read(region: Region) -> Self {
        Self {
            region,
            mode: AccessMode::Read,
        }
    }

    /// Writes `region`, and may read it.
    #[must_use]
    pub const fn write(region: Region) -> Self {
        Self {
            region,
            mode: AccessMode::Write,
        }
    }

    /// True if the two must not run at the same time.
    pub(crate) fn conflicts(self, other: Self) -> bool {
        (self.mode == AccessMode::Write || other.mode == AccessMode::Write)
            && self.region.overlaps(other.region)
    }
}

/// An allocation in use by a command.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    pub(crate) region: Region,
    pub(crate) bytes: Arc<RwLock<Bytes>>,
}

impl Backing {
    fn read(&self) -> RwLockReadGuard<'_, Bytes> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn offset_of(&self, address: DeviceAddress) -> usize {
        (address.to_raw() - self.region.address.to_raw()) as usize
    }
}

/// Declared accesses that overlap, as one.
#[derive(Debug)]
struct Segment {
    region: Region,
    /// The allocation: its place among the command's.
    backing: usize,
    shadow: Option<Shadow>,
}

#[derive(Debug)]
struct Shadow {
    written: AlignedBytes,
    original: Vec<u8>,
}

/// The declared accesses of a command, with the memory behind them.
#[derive(Debug)]
pub(crate) struct ViewPlan {
    pub(crate) accesses: Vec<Access>,
    /// See [`Command::rows`](super::super::Command::rows).
    pub(crate) rows: Vec<(usize, Rows)>,
    pub(crate) backings: Vec<Backing>,
}

/// The reason for which an effect published nothing.
#[derive(Debug)]
pub(crate) enum EffectError {
    Failed(String),
    Panicked(String),
}

impl ViewPlan {
    /// Runs an effect on memory as it is now.
    pub(crate) fn run(self, effect: Effect) -> Result<(Publication, Option<Cost>), EffectError> {
        let Self {
            accesses,
            rows,
            backings,
        } = self;
        let guards: Vec<_> = backings.iter().map(Backing::read).collect();
        let segments = segments(&accesses, &rows, &backings, &guards)
            .map_err(|error| EffectError::Failed(error.to_string()))?;
        let mut access = MemoryAccess {
            accesses: &accesses,
            backings: &backings,
            guards: &guards,
            segments,
            at_publication: Vec::new(),
            cost: None,
        };
        let result = catch_unwind(AssertUnwindSafe(|| effect(&mut access)));
        let MemoryAccess {
            segments,
            at_publication,
            cost,
            ..
        } = access;
        drop(guards);
        match result {
            Ok(Ok(())) => Ok((
                Publication {
                    accesses,
                    backings,
                    segments,
                    at_publication,
                },
                cost,
            )),
            Ok(Err(message)) => Err(EffectError::Failed(message)),
            Err(panic) => Err(EffectError::Panicked(text_of(panic))),
        }
    }
}

/// Joins overlapping accesses of the same allocation, and copies those that are written or in
/// memory of the host: of the host's, their rows alone.
fn segments(
    accesses: &[Access],
    rows: &[(usize, Rows)],
    backings: &[Backing],
    guards: &[RwLockReadGuard<'_, Bytes>],
) -> Result<Vec<Segment>, MemoryError> {
    let mut sorted: Vec<_> = accesses
        .iter()
        .filter(|access| access.region.length > 0)
        .copied()
        .collect();
    sorted.sort_by_key(|access| access.region.start());
    let mut joined: Vec<Access> = Vec::new();
    for access in sorted {
        match joined.last_mut() {
            Some(last) if last.region.overlaps(access.region) => {
                let end = last.region.end().max(access.region.end());
                last.region.length = end - last.region.start();
                if access.mode == AccessMode::Write {
                    last.mode = AccessMode::Write;
                }
            }
            _ => joined.push(access),
        }
    }
    // The ranges that the accesses within a region use, by their addresses.
    let used_in = |region: Region| {
        let within = accesses.iter().enumerate();
        let within =
            within.filter(move |(_, it)| it.region.length > 0 && region.contains(it.region));
        within.flat_map(|(at, it)| {
            let rows = rows.iter().find(|(of, _)| *of == at);
            let range = || Rows::new(it.region.start(), it.region.length, []);
            let rows = rows.map_or_else(range, |(_, rows)| rows.clone());
            rows.rows().collect::<Vec<_>>()
        })
    };
    joined
        .into_iter()
        .map(|Access { region, mode }| {
            let backing = backings
                .iter()
                .position(|backing| backing.region.contains(region))
                .ok_or(MemoryError::NotAllocated {
                    address: region.address,
                })?;
            let is_read_in_place = guards[backing].as_slice().is_some();
            let shadow = if mode == AccessMode::Write || !is_read_in_place {
                let from = backings[backing].offset_of(region.address);
                let place = |address: u64| from + (address - region.start()) as usize;
                let used = used_in(region).map(|used| place(used.start)..place(used.end));
                let range = from..from + region.length as usize;
                let original = guards[backing].copy_parts(range, used);
                // The shadow keeps the alignment that the region has in device memory, up to a
                // page's.
                let phase = region.address.to_raw();
                let written = AlignedBytes::copy_of(&original, 4096, phase);
                let written = written.ok_or(MemoryError::HostExhausted {
                    asked: region.length,
                })?;
                Some(Shadow { written, original })
            } else {
                None
            };
            Ok(Segment {
                region,
                backing,
                shadow,
            })
        })
        .collect()
}

/// Memory, as the effect of a command sees it.
///
/// Slices are for effects that touch one region at a time. A kernel that needs all of its arguments
/// at once takes pointers. They stay valid until the effect returns, with the alignment that the
/// allocation was made with (up to 4096 for regions that are written). A read through the pointer
/// to a region that the command also writes sees the new bytes.
pub struct MemoryAccess<'run> {
    accesses: &'run [Access],
    backings: &'run [Backing],
    guards: &'run [RwLockReadGuard<'run, Bytes>],
    segments: Vec<Segment>,
    at_publication: Vec<Box<dyn FnOnce() + Send>>,
    cost: Option<Cost>,
}

impl MemoryAccess<'_> {
    /// The bytes of a declared region.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Undeclared`] where the region is not within one declared access.
    pub fn read(&self, region: Region) -> Result<&[u8], MemoryError> {
        if region.length == 0 {
            return Ok(&[]);
        }
        let segment = &self.segments[self.find(region, AccessMode::Read)?];
        let (bytes, from) = match &segment.shadow {
            Some(shadow) => (Some(shadow.written.as_slice()), offset_in(segment, region)),
            None => (
                self.guards[segment.backing].as_slice(),
                self.backings[segment.backing].offset_of(region.address),
            ),
        };
        let bytes = bytes.ok_or_else(|| undeclared(region, AccessMode::Read))?;
        Ok(&bytes[from..from + region.length as usize])
    }

    /// The bytes of a region that was declared to be written.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Undeclared`] where the region is not within one declared write.
    pub fn write(&mut self, region: Region) -> Result<&mut [u8], MemoryError> {
        if region.length == 0 {
            return Ok(&mut []);
        }
        let index = self.find(region, AccessMode::Write)?;
        let segment = &mut self.segments[index];
        let from = offset_in(segment, region);
        let shadow = shadow_of(segment, region)?;
        Ok(&mut shadow.written.as_mut_slice()[from..from + region.length as usize])
    }

    /// A pointer to the first byte of a declared region; dangling for an empty one.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_pointer(&self, region: Region) -> Result<*const u8, MemoryError> {
        if region.length == 0 {
            return Ok(std::ptr::without_provenance(LARGEST_SHADOW_ALIGNMENT));
        }
        let segment = &self.segments[self.find(region, AccessMode::Read)?];
        Ok(match &segment.shadow {
            Some(shadow) => shadow.written.as_ptr(offset_in(segment, region)),
            None => {
                let from = self.backings[segment.backing].offset_of(region.address);
                let pointer = self.guards[segment.backing].as_ptr(from);
                pointer.ok_or_else(|| undeclared(region, AccessMode::Read))?
            }
        })
    }

    /// A pointer to the first byte of a region that was declared to be written; dangling for an
    /// empty one.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_pointer(&mut self, region: Region) -> Result<*mut u8, MemoryError> {
        if region.length == 0 {
            return Ok(std::ptr::without_provenance_mut(LARGEST_SHADOW_ALIGNMENT));
        }
        let index = self.find(region, AccessMode::Write)?;
        let segment = &mut self.segments[index];
        let from = offset_in(segment, region);
        Ok(shadow_of(segment, region)?.written.as_mut_ptr(from))
    }

    /// Copies `from` to `to`; the two may overlap.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read) and [`write`](Self::write).
    pub fn copy(&mut self, from: Region, to: DeviceAddress) -> Result<(), MemoryError> {
        let bytes = self.read(from)?.to_vec();
        self.write(Region::new(to, from.length))?
            .copy_from_slice(&bytes);
        Ok(())
    }

    /// Fills `region` with `pattern`, the last time only as far as it fits. An empty pattern
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn fill(&mut self, region: Region, pattern: &[u8]) -> Result<(), MemoryError> {
        let bytes = self.write(region)?;
        if !pattern.is_empty() {
            for chunk in bytes.chunks_mut(pattern.len()) {
                chunk.copy_from_slice(&pattern[..chunk.len()]);
            }
        }
        Ok(())
    }

    /// Does something outside device memory when the command ends well, just before its writes are
    /// visible: a copy to the host reads at its start and writes to the host here. Dropped unrun if
    /// the command fails.
    pub fn at_publication(&mut self, publish: impl FnOnce() + Send + 'static) {
        self.at_publication.push(Box::new(publish));
    }

    /// Replaces the command's cost by its actual one, as for a copy of a size that lies in memory.
    pub fn recost(&mut self, cost: Cost) {
        self.cost = Some(cost);
    }

    /// The segment of a region that one declared access allows to use so.
    fn find(&self, region: Region, mode: AccessMode) -> Result<usize, MemoryError> {
        let declared = self.accesses.iter().any(|access| {
            access.region.contains(region)
                && (mode == AccessMode::Read || access.mode == AccessMode::Write)
        });
        self.segments
            .iter()
            .position(|segment| declared && segment.region.contains(region))
            .ok_or_else(|| undeclared(region, mode))
    }
}

fn undeclared(region: Region, mode: AccessMode) -> MemoryError {
    MemoryError::Undeclared { region, mode }
}

const LARGEST_SHADOW_ALIGNMENT: usize = 4096;

fn offset_in(segment: &Segment, region: Region) -> usize {
    (region.start() - segment.region.start()) as usize
}

fn shadow_of(segment: &mut Segment, region: Region) -> Result<&mut Shadow, MemoryError> {
    let shadow = segment.shadow.as_mut();
    shadow.ok_or_else(|| undeclared(region, AccessMode::Write))
}

/// The writes of a command, not yet in memory.
pub(crate) struct Publication {
    accesses: Vec<Access>,
    backings: Vec<Backing>,
    segments: Vec<Segment>,
    at_publication: Vec<Box<dyn FnOnce() + Send>>,
}

impl Publication {
    /// Makes it visible, or says the message of a panic outside. After a panic no device memory has
    /// changed.
    pub(crate) fn publish(self) -> Result<(), String> {
        let host_side = self.at_publication;
        catch_unwind(AssertUnwindSafe(|| {
            for publish in host_side {
                publish();
            }
        }))
        .map_err(text_of)?;
        for segment in &self.segments {
            let Some(shadow) = &segment.shadow else {
                continue;
            };
            let backing = &self.backings[segment.backing];
            let mut bytes = backing
                .bytes
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let from = backing.offset_of(segment.region.address);
            for access in &self.accesses {
                let region = access.region;
                if access.mode != AccessMode::Write
                    || region.length == 0
                    || !segment.region.contains(region)
                {
                    continue;
                }
                let start = offset_in(segment, region);
                let range = start..start + region.length as usize;
                bytes.merge(
                    from + start,
                    &shadow.original[range.clone()],
                    &shadow.written.as_slice()[range],
                );
            }
        }
        Ok(())
    }
}

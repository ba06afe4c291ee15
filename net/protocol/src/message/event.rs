//! Events: cancelled commands, placeholders, and the ends of commands with their results.

use super::cursor::{Cursor, RESERVED, check_id, check_text, zero};
use super::resource::ids;
use super::{Body, Word, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{MAX_BUFFER, MAX_FRAME, MAX_ID, MAX_LANE, MAX_NAME, MAX_PRINTED, MAX_TEXT};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

ids! {
    /// A command is not to be run, if it has not begun.
    Cancel, event, "the event";
}

numbers! {
    /// The kind of a command's failure.
    Failure, "the failure" {
        /// It was cancelled.
        Cancelled = 1,
        /// A command that it needs has failed, with its `cause`.
        Dependency = 2,
        /// The kernel reported it, or could not be compiled.
        Kernel = 3,
        /// The device reported it.
        Device = 4,
        /// The device is lost.
        DeviceLost = 5,
        /// Memory could not be had: bytes asked for, bytes free, bytes in all.
        OutOfMemory = 6,
        /// The device cannot do it.
        Unsupported = 7,
        /// An argument makes no sense to it.
        InvalidArgument = 8,
        /// A size makes no sense.
        InvalidSize = 9,
        /// It panicked.
        Panicked = 10,
        /// Something that is not one of these.
        Other = 11,
    }
}

/// A placeholder has come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolve<'a> {
    /// Its event.
    pub event: u64,
    /// Its failure, if it has failed.
    pub failure: Option<Failure>,
    /// For people, if it has.
    pub text: &'a str,
}

impl<'a> Body<'a> for Resolve<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Resolve = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let failure = match fixed.failure.get() {
            0 => None,
            number => Some(Failure::of(number)?),
        };
        Ok(Self {
            event: fixed.event.get(),
            failure,
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        check_text("the text", self.text, MAX_TEXT)?;
        holds(
            self.failure.is_some() || self.text.is_empty(),
            "a success has no text",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Resolve {
            event: self.event.into(),
            failure: self.failure.map_or(0, Failure::number).into(),
            text_length: (self.text.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// Commands that have succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed<'a> {
    /// Their events.
    pub events: &'a [Word],
}

impl<'a> Body<'a> for Completed<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Completed = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            events: cursor.list("the events", fixed.count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(!self.events.is_empty(), "it names no event")?;
        let mut events = self.events.iter();
        events.try_for_each(|event| check_id("the event", event.get()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Completed {
            count: (self.events.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.events.as_bytes());
    }
}

/// A command that has succeeded, and when, in nanoseconds of the node's clock.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Profile {
    /// Its event.
    pub event: Word,
    /// The time at which it was handed to its device.
    pub submitted_ns: Word,
    /// The time at which it began.
    pub started_ns: Word,
    /// The time at which it ended.
    pub ended_ns: Word,
}

impl Profile {
    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event.get())?;
        let times = [self.submitted_ns, self.started_ns, self.ended_ns];
        holds(times.is_sorted(), "its times are not in order")
    }
}

/// Commands that have succeeded, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiled<'a> {
    /// Their events and times.
    pub profiles: &'a [Profile],
}

impl<'a> Body<'a> for Profiled<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Completed = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            profiles: cursor.list("the profiles", fixed.count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(!self.profiles.is_empty(), "it names no event")?;
        let mut profiles = self.profiles.iter();
        profiles.try_for_each(Profile::check)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Completed {
            count: (self.profiles.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.profiles.as_bytes());
    }
}

/// A command that has succeeded, when, and on which of its device's lanes: workers, engines.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Run {
    /// The event, and the times.
    pub profile: Profile,
    /// The lane's number. Those of a device that run at once have different ones.
    pub lane: Word,
}

/// Commands that have succeeded, when, and where: both sides have agreed on
/// [`LANES`](crate::LANES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran<'a> {
    /// Their events, times and lanes.
    pub runs: &'a [Run],
}

impl<'a> Body<'a> for Ran<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Completed = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            runs: cursor.list("the runs", fixed.count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(!self.runs.is_empty(), "it names no event")?;
        self.runs.iter().try_for_each(|run| {
            run.profile.check()?;
            within("the lane", run.lane.get(), 0, MAX_LANE)
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Completed {
            count: (self.runs.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.runs.as_bytes());
    }
}

/// A command that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed<'a> {
    /// Its event.
    pub event: u64,
    /// The event whose failure is the first cause, if that is one of this session; else zero.
    pub cause: u64,
    /// The kind of failure.
    pub failure: Failure,
    /// The numbers of a failure that has some; else zero.
    pub numbers: [u64; 3],
    /// The device, kernel or operation that it concerns.
    pub what: &'a str,
    /// For people.
    pub text: &'a str,
}

impl<'a> Body<'a> for Failed<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Failed = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        zero(RESERVED, fixed.reserved_2)?;
        Ok(Self {
            event: fixed.event.get(),
            cause: fixed.cause.get(),
            failure: Failure::of(fixed.failure.get())?,
            numbers: fixed.numbers.map(Word::get),
            what: cursor.text("what it concerns", fixed.what_length.get().into())?,
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        within("the cause", self.cause, 0, MAX_ID)?;
        check_text("what it concerns", self.what, MAX_NAME)?;
        check_text("the text", self.text, MAX_TEXT)?;
        holds(
            self.failure == Failure::OutOfMemory || self.numbers == [0; 3],
            "a failure that has no numbers",
        )?;
        holds(
            self.cause == 0 || self.failure == Failure::Dependency,
            "only what was not run has a cause",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Failed {
            event: self.event.into(),
            cause: self.cause.into(),
            failure: self.failure.number().into(),
            text_length: (self.text.len() as u16).into(),
            what_length: (self.what.len() as u16).into(),
            reserved: 0.into(),
            numbers: self.numbers.map(Word::new),
            reserved_2: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.what.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// The bytes of a read that no transfer brings. It comes before the read's completion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReadBytes<'a> {
    /// The read's event.
    pub event: u64,
    /// The bytes, one row after the other.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for ReadBytes<'_> {
    /// With the number of its bytes.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReadBytes")
            .field("event", &self.event)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Body<'a> for ReadBytes<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::ReadBytes = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            event: fixed.event.get(),
            bytes: cursor.bytes("the bytes", fixed.length.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        within("the bytes", self.bytes.len() as u64, 1, MAX_FRAME.into())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::ReadBytes {
            event: self.event.into(),
            length: (self.bytes.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.bytes);
    }
}

/// The number of bytes of a read that are in use, from its first on. It comes before them, if they
/// come with a message, and before the read's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The event of a [`ReadContent`](super::ReadContent).
    pub event: u64,
    /// Bytes.
    pub length: u64,
}

impl<'a> Body<'a> for Content {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Content = cursor.fixed()?;
        Ok(Self {
            event: fixed.event.get(),
            length: fixed.length.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        within("the bytes", self.length, 0, MAX_BUFFER)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Content {
            event: self.event.into(),
            length: self.length.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// The output of kernels of the session, in order: both sides have agreed on
/// [`PRINTED`](crate::PRINTED).
///
/// A command's output comes before its end, as far as it is not lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Printed<'a> {
    /// Bytes that were printed before these, and are lost.
    pub lost: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for Printed<'_> {
    /// With the number of its bytes.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Printed")
            .field("lost", &self.lost)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Body<'a> for Printed<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Printed = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            lost: fixed.lost.get(),
            bytes: cursor.bytes("the bytes", fixed.length.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        within("the bytes that are lost", self.lost, 0, MAX_BUFFER)?;
        within("the bytes", self.bytes.len() as u64, 0, MAX_PRINTED as u64)?;
        holds(
            self.lost > 0 || !self.bytes.is_empty(),
            "nothing was printed",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Printed {
            lost: self.lost.into(),
            length: (self.bytes.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.bytes);
    }
}

/// A device is lost: its commands fail, and nothing more is done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLost<'a> {
    /// Its number.
    pub device: u32,
    /// True if what was only in its memory is gone.
    pub memory_lost: bool,
    /// For people.
    pub text: &'a str,
}

impl<'a> Body<'a> for DeviceLost<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::DeviceLost = cursor.fixed()?;
        let memory_lost = match fixed.memory_lost.get() {
            0 => false,
            1 => true,
            other => {
                return Err(Problem::Unknown {
                    field: "whether memory is lost",
                    value: other.into(),
                });
            }
        };
        Ok(Self {
            device: fixed.device.get(),
            memory_lost,
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        within("the device's number", self.device.into(), 0, 1023)?;
        check_text("the text", self.text, MAX_TEXT)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::DeviceLost {
            device: self.device.into(),
            memory_lost: u16::from(self.memory_lost).into(),
            text_length: (self.text.len() as u16).into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

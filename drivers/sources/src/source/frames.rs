//! The frames of a source, by their numbers.

use super::file::File;
use super::generator::Generator;
use super::{Format, Origin, Source};

/// See the module.
pub(crate) enum Frames {
    File(File),
    Given(Vec<Vec<u8>>),
    Generated(Generator),
}

impl Frames {
    /// Opens the frames of a source.
    ///
    /// # Errors
    /// If its file cannot be read, or has no frames.
    pub(crate) fn open(source: Source) -> Result<Self, String> {
        Ok(match (source.origin, source.format) {
            (Origin::File(path), Format::Jpeg) => Self::File(File::of_jpeg(&path)?),
            (
                Origin::File(path),
                Format::Raw {
                    width,
                    height,
                    pixels,
                },
            ) => Self::File(File::of_equal(&path, pixels.bytes(width, height))?),
            (Origin::File(path), Format::Opaque) => Self::File(File::whole(&path)?),
            (Origin::Frames(frames), _) => Self::Given(frames),
            (Origin::Generator { width, height }, format) => {
                Self::Generated(Generator::new(width, height, format == Format::Jpeg))
            }
        })
    }

    /// The number of frames before they begin anew.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::File(file) => file.count(),
            Self::Given(frames) => frames.len() as u64,
            Self::Generated(_) => Generator::COUNT,
        }
    }

    /// Bytes of the longest.
    pub(crate) fn longest(&self) -> u64 {
        match self {
            Self::File(file) => file.longest(),
            Self::Given(frames) => frames.iter().map(Vec::len).max().unwrap_or(0) as u64,
            Self::Generated(generator) => generator.longest(),
        }
    }

    /// Writes one to the beginning of `room`; gives its length in bytes.
    ///
    /// # Errors
    /// If there is not enough room, or its file cannot be read.
    pub(crate) fn write(&self, number: u64, room: &mut [u8]) -> Result<usize, String> {
        let generated;
        let bytes: &[u8] = match self {
            Self::File(file) => return file.read(number, room),
            Self::Given(frames) => &frames[number as usize],
            Self::Generated(generator) => {
                generated = generator.frame(number);
                &generated
            }
        };
        fits(number, bytes.len() as u64, room.len())?;
        room[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// Fails unless a frame of so many bytes has room.
pub(super) fn fits(number: u64, bytes: u64, room: usize) -> Result<(), String> {
    if bytes <= room as u64 {
        return Ok(());
    }
    Err(format!(
        "frame {number} has {bytes} bytes, and the buffer {room}; `stream_info` tells the longest"
    ))
}

//! Frames in a file, which are read when they are asked for.

use super::frames::fits;
use super::jpeg::Splitter;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The places of the frames.
enum Index {
    /// One after the other, of so many bytes each.
    Equal(u64, u64),
    /// From these bytes on, so many each.
    Listed(Vec<(u64, u64)>),
}

/// See the module.
pub(crate) struct File {
    file: Mutex<std::fs::File>,
    index: Index,
}

/// The most frames of a file.
const MAX_FRAMES: usize = 1 << 24;

fn open(path: &Path) -> Result<(std::fs::File, u64), String> {
    let failed = |error: std::io::Error| format!("cannot read '{}': {error}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(format!("'{}' is no file", path.display()));
    }
    Ok((file, about.len()))
}

impl File {
    /// One JPEG after the other.
    pub(crate) fn of_jpeg(path: &Path) -> Result<Self, String> {
        let (file, _) = open(path)?;
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut splitter = Splitter::default();
        let mut listed = Vec::new();
        loop {
            let bytes = reader
                .fill_buf()
                .map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
            if bytes.is_empty() {
                break;
            }
            splitter.take(bytes, |start, length| listed.push((start, length)));
            let taken = bytes.len();
            reader.consume(taken);
            if listed.len() > MAX_FRAMES {
                return Err(format!(
                    "'{}' has more than {MAX_FRAMES} frames",
                    path.display()
                ));
            }
        }
        if listed.is_empty() {
            return Err(format!("'{}' has no whole JPEG in it", path.display()));
        }
        Ok(Self {
            file: Mutex::new(file),
            index: Index::Listed(listed),
        })
    }

    /// Frames of so many bytes each. A shorter rest at its end is left out.
    pub(crate) fn of_equal(path: &Path, bytes: u64) -> Result<Self, String> {
        let (file, length) = open(path)?;
        let count = length / bytes.max(1);
        if count == 0 {
            return Err(format!(
                "'{}' has {length} bytes, and a frame {bytes}; check width, height and pixels",
                path.display()
            ));
        }
        Ok(Self {
            file: Mutex::new(file),
            index: Index::Equal(bytes, count),
        })
    }

    /// One frame.
    pub(crate) fn whole(path: &Path) -> Result<Self, String> {
        let (_, length) = open(path)?;
        Self::of_equal(path, length)
    }

    pub(crate) fn count(&self) -> u64 {
        match &self.index {
            Index::Equal(_, count) => *count,
            Index::Listed(listed) => listed.len() as u64,
        }
    }

    pub(crate) fn longest(&self) -> u64 {
        match &self.index {
            Index::Equal(bytes, _) => *bytes,
            Index::Listed(listed) => listed.iter().map(|(_, length)| *length).max().unwrap_or(0),
        }
    }

    /// Reads a frame to the beginning of `room`; gives its length in bytes.
    pub(crate) fn read(&self, number: u64, room: &mut [u8]) -> Result<usize, String> {
        let (start, length) = match &self.index {
            Index::Equal(bytes, _) => (number * bytes, *bytes),
            Index::Listed(listed) => listed[number as usize],
        };
        fits(number, length, room.len())?;
        let room = &mut room[..length as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(room))
            .map_err(|error| format!("frame {number} cannot be read: {error}"))?;
        Ok(room.len())
    }
}

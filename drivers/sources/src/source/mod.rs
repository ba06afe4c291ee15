//! Sources of frames: files, a generator, the program.

mod file;
mod frames;
mod generator;
mod jpeg;
mod text;

pub(crate) use frames::Frames;

use std::path::{Path, PathBuf};

/// The layout of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pixels {
    /// One byte: how light it is.
    Gray,
    /// Red, green, blue, a byte each.
    Rgb,
    /// Red, green, blue, and how opaque it is, a byte each.
    Rgba,
    /// A byte each for the brightness of all, then one in four for each of the two differences of
    /// colour (I420).
    Yuv420,
}

impl Pixels {
    /// Bytes of a frame of so many pixels.
    pub(crate) fn bytes(self, width: u32, height: u32) -> u64 {
        let pixels = u64::from(width) * u64::from(height);
        match self {
            Self::Gray => pixels,
            Self::Rgb => pixels * 3,
            Self::Rgba => pixels * 4,
            Self::Yuv420 => {
                pixels + 2 * u64::from(width.div_ceil(2)) * u64::from(height.div_ceil(2))
            }
        }
    }
}

/// The format of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JPEG. Motion JPEG is a row of such frames.
    Jpeg,
    /// Pixels as they are.
    Raw {
        /// The pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
        /// The layout of each.
        pixels: Pixels,
    },
    /// Bytes whose meaning only the program knows.
    Opaque,
}

/// The origin of frames.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    File(PathBuf),
    Frames(Vec<Vec<u8>>),
    Generator { width: u32, height: u32 },
}

/// The most pixels along a side.
const MAX_SIDE: u32 = 1 << 16;
/// The most bytes of a frame that is not in a file.
const MAX_FRAME: u64 = 1 << 32;

/// A stream of frames, which is a device: see the [crate].
#[derive(Clone, Debug)]
#[must_use = "a source is one of a driver's `Options`"]
pub struct Source {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) format: Format,
    /// Frames per second.
    pub(crate) rate: Option<f64>,
    pub(crate) repeats: bool,
}

impl Source {
    fn new(name: &str, origin: Origin, format: Format) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            format,
            rate: None,
            repeats: true,
        }
    }

    /// The frames of a file: one JPEG after the other, or raw video.
    pub fn file(name: &str, path: impl AsRef<Path>, format: Format) -> Self {
        Self::new(name, Origin::File(path.as_ref().to_owned()), format)
    }

    /// A source of these frames.
    pub fn frames(name: &str, frames: Vec<Vec<u8>>) -> Self {
        Self::new(name, Origin::Frames(frames), Format::Opaque)
    }

    /// Pictures that move, made by a formula: as JPEG, or as pixels.
    pub fn synthetic(name: &str, width: u32, height: u32, jpeg: bool) -> Self {
        let raw = Format::Raw {
            width,
            height,
            pixels: Pixels::Rgb,
        };
        let format = if jpeg { Format::Jpeg } else { raw };
        Self::new(name, Origin::Generator { width, height }, format)
    }

    /// Sets the number of frames in a second, from the start of the driver on. A thread that asks
    /// sooner waits, and frames that nobody asks for in time are left out, as a camera does.
    /// Without a rate, each is there as soon as it is asked for.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Ends the source after the last frame: a frame of no bytes says so. Otherwise the first comes
    /// again.
    pub fn once(mut self) -> Self {
        self.repeats = false;
        self
    }

    /// Its name, and that of its device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that it reads, if it does.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File(path) => Some(path),
            _ => None,
        }
    }

    /// Checks it, as far as its faults can be known beforehand.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_word = |c: char| !c.is_control() && c != '=' && c != ',';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_word) {
            return Err("its name has to have 1 to 64 characters, without '=' and ','".to_owned());
        }
        if let Some(rate) = self.rate
            && !(0.1..=100_000.0).contains(&rate)
        {
            return Err(format!(
                "a rate of {rate} frames per second is not between 0.1 and 100000"
            ));
        }
        let sides = match (&self.origin, self.format) {
            (Origin::Generator { width, height }, _) => Some((*width, *height)),
            (_, Format::Raw { width, height, .. }) => Some((width, height)),
            _ => None,
        };
        if let Some((width, height)) = sides
            && !((1..=MAX_SIDE).contains(&width) && (1..=MAX_SIDE).contains(&height))
        {
            return Err(format!(
                "a picture of {width} x {height} pixels; both have to be 1 to {MAX_SIDE}"
            ));
        }
        match &self.origin {
            Origin::Frames(frames) if frames.is_empty() => {
                Err("it has no frames; give it at least one".to_owned())
            }
            Origin::Generator { width, height }
                if Pixels::Rgb.bytes(*width, *height) > MAX_FRAME =>
            {
                Err(format!(
                    "a picture of {width} x {height} pixels is too large to be made"
                ))
            }
            Origin::Generator { width, height }
                if self.format == Format::Jpeg && (*width).max(*height) >= MAX_SIDE =>
            {
                Err("JPEG has sides of at most 65535 pixels".to_owned())
            }
            _ => Ok(()),
        }
    }
}

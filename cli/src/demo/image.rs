//! Pictures in memory and on disk.
//!
//! An [`Image`] enters the pipeline and leaves it: opaque pixels, row after row with no padding,
//! each packed in one `u32` (red in the lowest byte, then green, blue and an alpha of 255). The
//! packing is arithmetic, not a reinterpretation of bytes, so it is the same on machines of either
//! byte order.
//!
//! Reading takes any PNG: grey, grey with alpha, RGB, RGBA and palette, 1 to 16 bits deep,
//! interlaced or not. In this order:
//!
//! 1. the first eight bytes are compared with the PNG signature, so that another format is named
//!    as such and not as a damaged PNG;
//! 2. width and height are held against [`MAX_SIDE`] and [`MAX_PIXELS`] before memory for the
//!    pixels is asked for;
//! 3. 16-bit samples are rounded to the nearest 8-bit ones, and transparency is composited over
//!    white.
//!
//! Samples are taken as they are stored: colour profiles and gamma chunks are not applied. Of an
//! animation the default image is read.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest side of an image that the demo takes, in pixels.
pub(crate) const MAX_SIDE: usize = 1 << 15;

/// The most pixels of an image that the demo takes: an 8K picture (7680x4320) fits.
pub(crate) const MAX_PIXELS: usize = 1 << 25;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n'];

/// An error of an image, in words for the user that gave it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ImageError {
    /// The input cannot be opened or read.
    #[error("cannot read the input image {}: {source}", path.display())]
    Read {
        /// The file that was asked for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The input is another kind of file.
    #[error("the input image {} is not a PNG: {found}; convert it to PNG first", path.display())]
    NotPng {
        /// The file that was asked for.
        path: PathBuf,
        /// The format that its first bytes look like.
        found: &'static str,
    },
    /// The input starts as a PNG does, and then breaks off or contradicts itself.
    #[error("the input image {} is a damaged PNG: {reason}", path.display())]
    Damaged {
        /// The file that was asked for.
        path: PathBuf,
        /// The decoder's reason.
        reason: String,
    },
    /// The image exceeds the demo's limits.
    #[error(
        "an image of {width}x{height} is too large for the demo: it takes at most {MAX_SIDE} \
         pixels a side and {MAX_PIXELS} in all; scale it down first"
    )]
    TooLarge {
        /// Its width in pixels.
        width: usize,
        /// Its height in pixels.
        height: usize,
    },
    /// The image has no pixels.
    #[error("an image of {width}x{height} has no pixels; give a width and a height of at least 1")]
    Empty {
        /// Its width in pixels.
        width: usize,
        /// Its height in pixels.
        height: usize,
    },
    /// A size that is not written as WIDTHxHEIGHT.
    #[error("`{given}` is not a size; write it as WIDTHxHEIGHT in pixels, as in 1920x1080")]
    SizeSyntax {
        /// The given text.
        given: String,
    },
    /// A picture cannot be written.
    #[error("cannot write {}: {source}; choose another path", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// The error of the system or the encoder.
        source: io::Error,
    },
}

/// Width and height in pixels, within the demo's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    width: usize,
    height: usize,
}

impl Size {
    /// A checked size: at least one pixel, at most [`MAX_SIDE`] a side and [`MAX_PIXELS`] in all.
    pub(crate) fn new(width: usize, height: usize) -> Result<Self, ImageError> {
        if width == 0 || height == 0 {
            return Err(ImageError::Empty { width, height });
        }
        if width > MAX_SIDE || height > MAX_SIDE || width * height > MAX_PIXELS {
            return Err(ImageError::TooLarge { width, height });
        }
        Ok(Self { width, height })
    }

    /// Pixels in a row.
    pub(crate) fn width(self) -> usize {
        self.width
    }

    /// Rows.
    pub(crate) fn height(self) -> usize {
        self.height
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = ImageError;

    fn from_str(given: &str) -> Result<Self, ImageError> {
        let syntax = || ImageError::SizeSyntax {
            given: given.to_owned(),
        };
        let (width, height) = given.split_once(['x', 'X']).ok_or_else(syntax)?;
        let number = |digits: &str| {
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(syntax());
            }
            // Digits that overflow are a number all the same, and a too large one.
            Ok(digits.parse::<usize>().unwrap_or(usize::MAX))
        };
        Self::new(number(width)?, number(height)?)
    }
}

/// An opaque picture: see the module's description for the layout.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    size: Size,
    pixels: Vec<u32>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({})", self.size)
    }
}

/// The first pixel in which two images of one size differ, in reading order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Column.
    pub(crate) x: usize,
    /// Row.
    pub(crate) y: usize,
    /// The pixel of the image that was asked.
    pub(crate) here: u32,
    /// The pixel of the other image.
    pub(crate) there: u32,
    /// The number of pixels that differ in all.
    pub(crate) count: usize,
}

/// An opaque pixel from three 8-bit samples.
#[inline]
pub(crate) fn pack(red: u8, green: u8, blue: u8) -> u32 {
    u32::from_le_bytes([red, green, blue, 255])
}

/// The red, green and blue samples of a packed pixel.
#[inline]
pub(crate) fn unpack(pixel: u32) -> [u8; 3] {
    let [red, green, blue, _] = pixel.to_le_bytes();
    [red, green, blue]
}

impl Image {
    /// An image from packed pixels in reading order.
    ///
    /// # Panics
    ///
    /// If there are not exactly width times height pixels; the callers compute both.
    pub(crate) fn new(size: Size, pixels: Vec<u32>) -> Self {
        assert_eq!(
            pixels.len(),
            size.width * size.height,
            "an image of {size} needs one packed value per pixel"
        );
        Self { size, pixels }
    }

    /// Its size.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Its packed pixels in reading order.
    pub(crate) fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// Reads the PNG file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, ImageError> {
        let failed = |source| ImageError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        Self::decode(BufReader::new(file), path)
    }

    /// Decodes a PNG from `reader`; errors name `path`.
    pub(crate) fn decode<R: io::BufRead + Seek>(
        mut reader: R,
        path: &Path,
    ) -> Result<Self, ImageError> {
        let failed = |source| ImageError::Read {
            path: path.to_owned(),
            source,
        };
        let mut start = Vec::with_capacity(SIGNATURE.len());
        reader
            .by_ref()
            .take(SIGNATURE.len() as u64)
            .read_to_end(&mut start)
            .map_err(failed)?;
        if start != SIGNATURE {
            return Err(ImageError::NotPng {
                path: path.to_owned(),
                found: guess_format(&start),
            });
        }
        reader.rewind().map_err(failed)?;
        let rejected = |error| match error {
            png::DecodingError::IoError(source)
                if source.kind() != io::ErrorKind::UnexpectedEof =>
            {
                failed(source)
            }
            other => ImageError::Damaged {
                path: path.to_owned(),
                reason: other.to_string(),
            },
        };

        let mut decoder = png::Decoder::new(reader);
        // Palettes and depths below 8 become 8-bit samples, transparency chunks an alpha channel.
        decoder.set_transformations(png::Transformations::EXPAND);
        let header = decoder.read_header_info().map_err(rejected)?;
        let size = Size::new(header.width as usize, header.height as usize)?;
        let mut frames = decoder.read_info().map_err(rejected)?;
        let (colour, depth) = frames.output_color_type();
        let bytes = frames.output_buffer_size().ok_or(ImageError::TooLarge {
            width: size.width,
            height: size.height,
        })?;
        let mut samples = vec![0; bytes];
        frames.next_frame(&mut samples).map_err(rejected)?;

        if depth == png::BitDepth::Sixteen {
            // In place: sample i is read from 2i and 2i + 1 and written to i, which is behind.
            for i in 0..samples.len() / 2 {
                let sample = u16::from_be_bytes([samples[2 * i], samples[2 * i + 1]]);
                samples[i] = reduce(sample);
            }
            samples.truncate(samples.len() / 2);
        }
        let pixels = match colour {
            png::ColorType::Grayscale => samples.iter().map(|&v| pack(v, v, v)).collect(),
            png::ColorType::GrayscaleAlpha => samples
                .as_chunks()
                .0
                .iter()
                .map(|&[v, a]| over_white([v, v, v], a))
                .collect(),
            png::ColorType::Rgb => samples
                .as_chunks()
                .0
                .iter()
                .map(|&[r, g, b]| pack(r, g, b))
                .collect(),
            png::ColorType::Rgba => samples
                .as_chunks()
                .0
                .iter()
                .map(|&[r, g, b, a]| over_white([r, g, b], a))
                .collect(),
            png::ColorType::Indexed => {
                return Err(ImageError::Damaged {
                    path: path.to_owned(),
                    reason: "its palette could not be expanded".to_owned(),
                });
            }
        };
        Ok(Self::new(size, pixels))
    }

    /// Writes the image to `path` as an 8-bit RGB PNG, replacing an existing file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ImageError> {
        let failed = |source| ImageError::Write {
            path: path.to_owned(),
            source,
        };
        let file = File::create(path).map_err(failed)?;
        let mut writer = BufWriter::new(file);
        self.encode(&mut writer).map_err(failed)?;
        writer.flush().map_err(failed)
    }

    /// Encodes the image as an 8-bit RGB PNG.
    pub(crate) fn encode<W: Write>(&self, writer: W) -> io::Result<()> {
        let mut encoder = png::Encoder::new(writer, side(self.size.width), side(self.size.height));
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
        let mut body = encoder.write_header()?;
        let samples: Vec<u8> = self.pixels.iter().flat_map(|&p| unpack(p)).collect();
        body.write_image_data(&samples)?;
        body.finish()?;
        Ok(())
    }

    /// The differences of `other`, of the same size; `None` if every bit is equal.
    ///
    /// # Panics
    ///
    /// If the sizes differ: the two results of one input cannot.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        assert_eq!(self.size, other.size, "only images of one size compare");
        let mut unequal = (0..self.pixels.len()).filter(|&i| self.pixels[i] != other.pixels[i]);
        let first = unequal.next()?;
        Some(Difference {
            x: first % self.size.width,
            y: first / self.size.width,
            here: self.pixels[first],
            there: other.pixels[first],
            count: 1 + unequal.count(),
        })
    }

    /// This image's left half beside the right half of `after`, with a light line between them.
    ///
    /// # Panics
    ///
    /// If the sizes differ: the two are one picture before and after.
    pub(crate) fn split(&self, after: &Self) -> Self {
        assert_eq!(self.size, after.size, "before and after have one size");
        let Size { width, height } = self.size;
        let middle = width / 2;
        let line = width / 640 + usize::from(width >= 64);
        let mut pixels = after.pixels.clone();
        for y in 0..height {
            let row = y * width;
            pixels[row..row + middle].copy_from_slice(&self.pixels[row..row + middle]);
            pixels[row + middle..row + middle + line].fill(pack(235, 235, 235));
        }
        Self::new(self.size, pixels)
    }
}

/// A side as the encoder wants it.
fn side(pixels: usize) -> u32 {
    u32::try_from(pixels).expect("a checked size is at most MAX_SIDE")
}

/// The 8-bit sample nearest to a 16-bit one.
fn reduce(sample: u16) -> u8 {
    ((u32::from(sample) * 255 + 32_767) / 65_535) as u8
}

/// A pixel of coverage `alpha` before a white background.
fn over_white(colour: [u8; 3], alpha: u8) -> u32 {
    let alpha = u32::from(alpha);
    let mix = |sample: u8| ((u32::from(sample) * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
    pack(mix(colour[0]), mix(colour[1]), mix(colour[2]))
}

/// The format that a file that is no PNG seems to have.
fn guess_format(start: &[u8]) -> &'static str {
    match start {
        [] => "the file is empty",
        [0xFF, 0xD8, 0xFF, ..] => "it looks like a JPEG",
        [b'G', b'I', b'F', b'8', ..] => "it looks like a GIF",
        [b'R', b'I', b'F', b'F', ..] => "it looks like a WebP",
        [b'B', b'M', ..] => "it looks like a BMP",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "it looks like a TIFF",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "it looks like a HEIC or AVIF",
        _ => "it does not start with the PNG signature",
    }
}

#[cfg(test)]
mod tests;

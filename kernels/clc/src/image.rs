//! Images, as kernels have them.

use crate::client::ClcError;

/// A kernel's argument for an image: the address of its texels, and their layout. Built-in
/// functions read it.
///
/// A texel (x, y, z) begins at `x * bytes + y * row + z * slice`. Layers of an array lie along z.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Image {
    /// The first texel.
    pub texels: *mut u8,
    /// Texels along x.
    pub width: u32,
    /// Texels along y; 1 of an image of one dimension.
    pub height: u32,
    /// Texels along z; 1 of an image of one or two dimensions.
    pub depth: u32,
    /// Layers; 1 of an image that is no array.
    pub layers: u32,
    /// Bytes from row to row.
    pub row: u64,
    /// Bytes from slice to slice, or layer to layer.
    pub slice: u64,
    /// The order of channels, by OpenCL's number.
    pub order: u32,
    /// The type of channels, by OpenCL's number.
    pub data: u32,
    /// The number of channels in memory.
    pub channels: u32,
    /// Bytes of a texel.
    pub bytes: u32,
}

/// Types of channels, by OpenCL's numbers.
const TYPES: std::ops::RangeInclusive<u32> = 0x10d0..=0x10e0;
/// Orders of channels, by OpenCL's numbers.
const ORDERS: std::ops::RangeInclusive<u32> = 0x10b0..=0x10c3;

/// Bytes of a channel of a type, or of a texel whose channels lie in one number.
fn channel_bytes(data: u32) -> (u64, bool) {
    match data {
        // `CL_UNORM_SHORT_565` and `CL_UNORM_SHORT_555`, `CL_UNORM_INT_101010` and its other form.
        0x10d4 | 0x10d5 => (2, true),
        0x10d6 | 0x10e0 => (4, true),
        // 8 bits: normalised, signed, unsigned.
        0x10d0 | 0x10d2 | 0x10d7 | 0x10da => (1, false),
        // 32 bits: signed, unsigned, `float`.
        0x10d9 | 0x10dc | 0x10de => (4, false),
        _ => (2, false),
    }
}

impl Image {
    /// Bytes of [`layout`](Self::layout).
    pub const LAYOUT_BYTES: usize = 48;

    /// All but where the texels are, as a launch elsewhere is passed it behind the image's memory:
    /// little-endian, in the order of the fields.
    #[must_use]
    pub fn layout(&self) -> [u8; Self::LAYOUT_BYTES] {
        let mut layout = [0; Self::LAYOUT_BYTES];
        let extents = [self.width, self.height, self.depth, self.layers];
        let format = [self.order, self.data, self.channels, self.bytes];
        let extents = extents.iter().flat_map(|number| number.to_le_bytes());
        let pitches = [self.row, self.slice];
        let pitches = pitches.iter().flat_map(|number| number.to_le_bytes());
        let format = format.iter().flat_map(|number| number.to_le_bytes());
        for (to, byte) in layout.iter_mut().zip(extents.chain(pitches).chain(format)) {
            *to = byte;
        }
        layout
    }

    /// The image of a layout whose texels are in so many bytes of memory.
    ///
    /// # Errors
    /// If it has no texels, some lie outside of the memory, or the format is none.
    pub fn new(
        layout: &[u8; Self::LAYOUT_BYTES],
        texels: *mut u8,
        length: u64,
    ) -> Result<Self, ClcError> {
        let bytes = |at: usize| [0, 1, 2, 3].map(|byte| layout[at + byte]);
        let word = |at: usize| u32::from_le_bytes(bytes(at));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let image = Self {
            texels,
            width: word(0),
            height: word(4),
            depth: word(8),
            layers: word(12),
            row: long(16),
            slice: long(24),
            order: word(32),
            data: word(36),
            channels: word(40),
            bytes: word(44),
        };
        let problem = match image.end() {
            _ if !image.has_format() => "has a format that is none".to_owned(),
            None => "has no texels, or too many".to_owned(),
            Some(end) if end > length => {
                format!("ends with byte {end}, and its memory with byte {length}")
            }
            Some(_) => return Ok(image),
        };
        Err(ClcError::Launch(format!("an image {problem}")))
    }

    fn has_format(&self) -> bool {
        let (each, is_packed) = channel_bytes(self.data);
        let channels = if is_packed {
            1
        } else {
            u64::from(self.channels)
        };
        ORDERS.contains(&self.order)
            && TYPES.contains(&self.data)
            && (1..=4).contains(&self.channels)
            && u64::from(self.bytes) == each * channels
    }

    /// The end of the last texel; none if there is no texel, or an extent is no `int`.
    fn end(&self) -> Option<u64> {
        let last = |extent: u32| {
            u64::from(extent)
                .checked_sub(1)
                .filter(|last| *last < 1 << 31)
        };
        let (x, y) = (last(self.width)?, last(self.height)?);
        let slices = self.depth.checked_mul(self.layers)?;
        let texel = x * u64::from(self.bytes);
        let row = y.checked_mul(self.row)?;
        let slice = last(slices)?.checked_mul(self.slice)?;
        let end = texel.checked_add(u64::from(self.bytes))?;
        end.checked_add(row)?.checked_add(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers of three rows with four texels of four bytes, with gaps.
    const IMAGE: Image = Image {
        texels: std::ptr::null_mut(),
        width: 4,
        height: 3,
        depth: 1,
        layers: 2,
        row: 20,
        slice: 100,
        order: 0x10b5,
        data: 0x10d2,
        channels: 4,
        bytes: 4,
    };
    const END: u64 = 100 + 40 + 16;

    #[test]
    fn a_layout_is_read_as_it_was_written() {
        let layout = IMAGE.layout();
        assert_eq!(layout[..4], [4, 0, 0, 0]);
        assert_eq!(layout[16..24], [20, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(layout[44..], [4, 0, 0, 0]);
        let mut byte = 0;
        let read = Image::new(&layout, &raw mut byte, END).unwrap();
        assert_eq!(read.texels, &raw mut byte);
        assert_eq!(read.layout(), layout);
    }

    #[test]
    fn a_layout_that_leads_beyond_its_memory_is_refused() {
        let refused = |image: Image, length| {
            let read = Image::new(&image.layout(), std::ptr::null_mut(), length);
            read.unwrap_err().to_string()
        };
        assert!(refused(IMAGE, END - 1).contains("ends with byte 156"));
        let most = u64::MAX;
        for (image, because) in [
            (Image { width: 0, ..IMAGE }, "no texels"),
            (Image { height: 0, ..IMAGE }, "no texels"),
            (Image { layers: 0, ..IMAGE }, "no texels"),
            (Image { depth: 0, ..IMAGE }, "no texels"),
            (
                Image {
                    width: u32::MAX,
                    ..IMAGE
                },
                "too many",
            ),
            (
                Image {
                    depth: 1 << 16,
                    layers: 1 << 16,
                    ..IMAGE
                },
                "too many",
            ),
            (Image { row: most, ..IMAGE }, "too many"),
            (
                Image {
                    slice: most,
                    ..IMAGE
                },
                "too many",
            ),
            (
                Image {
                    slice: most - 40,
                    ..IMAGE
                },
                "too many",
            ),
            (
                Image {
                    order: 0x10af,
                    ..IMAGE
                },
                "format",
            ),
            (
                Image {
                    data: 0x10e1,
                    ..IMAGE
                },
                "format",
            ),
            (
                Image {
                    channels: 0,
                    bytes: 0,
                    ..IMAGE
                },
                "format",
            ),
            (
                Image {
                    channels: 5,
                    bytes: 5,
                    ..IMAGE
                },
                "format",
            ),
            // More of a channel than a texel has bytes.
            (
                Image {
                    data: 0x10de,
                    ..IMAGE
                },
                "format",
            ),
            (
                Image {
                    data: 0x10d6,
                    bytes: 3,
                    ..IMAGE
                },
                "format",
            ),
        ] {
            let refused = refused(image, most);
            assert!(refused.contains(because), "{refused}: {image:?}");
        }
    }
}

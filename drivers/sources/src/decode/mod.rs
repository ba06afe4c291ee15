//! The decoder device: its built-in kernels decode JPEG, PNG and LZ4.
//!
//! Its data comes from anywhere. The size that a picture claims is checked against the room before
//! any is made for it, and malformed data fails its command and nothing else.

mod jpeg;
mod lz4;
mod png;

use crate::lane::BuiltInDevice;
use crate::passed::Arguments;
use crate::signatures;
use quipu_scheduler::BuiltInKernel;

/// The name of the device.
const NAME: &str = "decoder";

/// See the module.
pub(crate) struct Decoder {
    kernels: Vec<BuiltInKernel>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            kernels: signatures(&[
                "decode_jpeg(in u8 data, in u64 size, out u8 pixels, out u64 pixels_size, out u32 shape)",
                "decode_png(in u8 data, in u64 size, out u8 pixels, out u64 pixels_size, out u32 shape)",
                "decode_lz4(in u8 data, in u64 size, out u8 bytes, out u64 bytes_size)",
            ]),
        }
    }
}

/// A picture that was decoded: its bytes of pixels, and its rows, pixels in a row, and bytes of a
/// pixel.
struct Picture {
    bytes: usize,
    shape: [u32; 3],
}

impl Picture {
    /// One of these sides, if there is room for it.
    fn fitting(width: usize, height: usize, channels: usize, room: usize) -> Result<Self, String> {
        let bytes = width
            .checked_mul(height)
            .and_then(|pixels| pixels.checked_mul(channels));
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        match bytes {
            Some(0) | None => Err(format!("a picture of {width} x {height} pixels")),
            Some(bytes) if bytes > room => Err(format!(
                "a picture of {width} x {height} pixels has {bytes} bytes, and the buffer {room}"
            )),
            Some(bytes) => Ok(Self {
                bytes,
                shape: [side(height), side(width), side(channels)],
            }),
        }
    }
}

impl BuiltInDevice for Decoder {
    fn name(&self) -> &str {
        NAME
    }

    fn kernels(&self) -> &[BuiltInKernel] {
        &self.kernels
    }

    fn threads(&self) -> usize {
        crate::threads()
    }

    fn run(&self, kernel: &str, arguments: &mut Arguments<'_>) -> Result<(), String> {
        let (data, room) = arguments.content_and_room(0, 2)?;
        let bytes = match kernel {
            "decode_lz4" => lz4::decode(data, room)?,
            _ => {
                let decoded = if kernel == "decode_png" {
                    png::decode(data, room)
                } else {
                    jpeg::decode(data, room)
                };
                let picture = decoded?;
                arguments.write_numbers(4, &picture.shape.map(u32::to_ne_bytes))?;
                picture.bytes
            }
        };
        arguments.wrote(2, bytes);
        arguments.write_numbers(3, &[(bytes as u64).to_ne_bytes()])
    }
}

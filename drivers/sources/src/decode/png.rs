//! PNG.

use super::Picture;
use png::{Decoder, Limits, Transformations};
use std::io::Cursor;

/// Decodes a picture to the beginning of `room`, with 8 bits for each channel of its pixels: gray
/// or RGB, with or without opacity.
pub(super) fn decode(data: &[u8], room: &mut [u8]) -> Result<Picture, String> {
    let failed = |error: png::DecodingError| format!("no PNG: {error}");
    // A row of pixels and texts are kept beside the pixels.
    let limits = Limits {
        bytes: room.len().saturating_add(1 << 20),
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(data), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder.ignore_checksums(false);
    let mut reader = decoder.read_info().map_err(failed)?;
    let (colour, _) = reader.output_color_type();
    let (width, height) = reader.info().size();
    let channels = colour.samples();
    let picture = Picture::fitting(width as usize, height as usize, channels, room.len())?;
    let room = &mut room[..picture.bytes];
    reader.next_frame(room).map_err(failed)?;
    // The rest of the file may say that it is not all there.
    reader.finish().map_err(failed)?;
    Ok(picture)
}

//! JPEG.

use super::Picture;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Decodes a picture to the beginning of `room`, as RGB, or as gray if it has no colours.
pub(super) fn decode(data: &[u8], room: &mut [u8]) -> Result<Picture, String> {
    let failed = |error: zune_jpeg::errors::DecodeErrors| format!("no JPEG: {error:?}");
    let options = DecoderOptions::new_safe()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_headers().map_err(failed)?;
    let about = decoder.info().ok_or("no JPEG: it has no header")?;
    let (space, channels) = match about.components {
        1 => (ColorSpace::Luma, 1),
        _ => (ColorSpace::RGB, 3),
    };
    let (width, height) = (usize::from(about.width), usize::from(about.height));
    // Before anything is made that is as large as the picture says it is.
    let picture = Picture::fitting(width, height, channels, room.len())?;
    let options = options.jpeg_set_out_colorspace(space);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_into(room).map_err(failed)?;
    Ok(picture)
}

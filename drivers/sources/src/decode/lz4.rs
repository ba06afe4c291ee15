//! Blocks of LZ4.

/// Decodes a block to the beginning of `room`; gives its length in bytes.
pub(super) fn decode(data: &[u8], room: &mut [u8]) -> Result<usize, String> {
    let decoded = lz4_flex::block::decompress_into(data, room);
    decoded.map_err(|error| format!("no block of LZ4 that fits the buffer: {error}"))
}

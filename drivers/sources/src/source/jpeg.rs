//! The borders of pictures in motion JPEG, found in bytes that come piece by piece.
//!
//! A picture is a row of segments, each with its length, so thumbnails within them are stepped
//! over. After a segment that begins a scan come bytes in which only a marker ends it. Bytes
//! between pictures are left out.

/// The meaning of the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Between pictures.
    #[default]
    Between,
    /// Between pictures, after FF.
    Begins,
    /// The start of a marker.
    Marker,
    /// A marker's second byte.
    Kind,
    /// The first byte of a segment's length; true if a scan comes after it.
    Length(bool),
    /// The second.
    Low(bool, u8),
    /// So many more bytes of a segment.
    Segment(bool, u16),
    /// In a scan.
    Scan,
    /// In a scan, after FF.
    Escape,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Splitter {
    at: At,
    /// Bytes that have come.
    position: u64,
    /// The start of the picture.
    start: u64,
}

impl Splitter {
    /// Takes more bytes; `found` is told where each picture began, and how long it is.
    pub(crate) fn take(&mut self, bytes: &[u8], mut found: impl FnMut(u64, u64)) {
        let mut rest = bytes;
        while let [byte, more @ ..] = rest {
            // The bytes that make up most of a picture are not looked at one by one.
            let skipped = match self.at {
                At::Segment(_, left) => rest.len().min(left.into()),
                At::Scan => rest
                    .iter()
                    .position(|byte| *byte == 0xff)
                    .unwrap_or(rest.len()),
                _ => 0,
            };
            if skipped > 0 {
                if let At::Segment(scan, left) = self.at {
                    self.at = after(scan, left - skipped as u16);
                }
                self.position += skipped as u64;
                rest = &rest[skipped..];
                continue;
            }
            self.position += 1;
            self.at = self.step(*byte, &mut found);
            rest = more;
        }
    }

    fn step(&mut self, byte: u8, found: &mut impl FnMut(u64, u64)) -> At {
        match (self.at, byte) {
            (At::Between | At::Begins, 0xff) => At::Begins,
            (At::Begins, 0xd8) => {
                self.start = self.position - 2;
                At::Marker
            }
            (At::Between | At::Begins, _) => At::Between,
            (At::Marker | At::Kind, 0xff) => At::Kind,
            // Something else where a marker has to be: no picture.
            (At::Marker, _) => At::Between,
            (At::Kind | At::Escape, 0xd9) => {
                found(self.start, self.position - self.start);
                At::Between
            }
            (At::Escape, 0x00 | 0xd0..=0xd7) => At::Scan,
            (At::Escape, 0xff) => At::Escape,
            // A picture that begins within another: that one has no end.
            (At::Kind | At::Escape, 0xd8) => {
                self.start = self.position - 2;
                At::Marker
            }
            (At::Kind, 0x01 | 0xd0..=0xd7) => At::Marker,
            (At::Kind | At::Escape, kind) => At::Length(kind == 0xda),
            (At::Length(scan), high) => At::Low(scan, high),
            (At::Low(scan, high), low) => match u16::from_be_bytes([high, low]).checked_sub(2) {
                Some(left) => after(scan, left),
                None => At::Between,
            },
            (At::Segment(scan, left), _) => after(scan, left - 1),
            (At::Scan, 0xff) => At::Escape,
            (At::Scan, _) => At::Scan,
        }
    }
}

/// The state after all but so many bytes of a segment.
fn after(scan: bool, left: u16) -> At {
    match (scan, left) {
        (true, 0) => At::Scan,
        (false, 0) => At::Marker,
        (scan, left) => At::Segment(scan, left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8], piece: usize) -> Vec<(u64, u64)> {
        let (mut splitter, mut found) = (Splitter::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            splitter.take(piece, |start, length| found.push((start, length)));
        }
        found
    }

    /// A picture of 8 x 8 pixels, with a segment in which there is another.
    fn picture(shade: u8, segment: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
        encoder.add_app_segment(5, segment.to_vec()).unwrap();
        let pixels: Vec<u8> = (0..64 * 3).map(|at| shade.wrapping_mul(at)).collect();
        encoder
            .encode(&pixels, 8, 8, jpeg_encoder::ColorType::Rgb)
            .unwrap();
        bytes
    }

    #[test]
    fn pictures_are_found_whatever_is_within_and_between_them() {
        let inner = picture(3, &[]);
        let (one, two) = (picture(7, &inner), picture(201, &[0xff, 0xd9]));
        let mut all = b"--boundary\xff\x00".to_vec();
        let mut expected = Vec::new();
        for picture in [&one, &two, &inner] {
            expected.push((all.len() as u64, picture.len() as u64));
            all.extend_from_slice(picture);
            all.extend_from_slice(b"\r\n\xff\xff\x01");
        }
        // One that has no end.
        all.extend_from_slice(&one[..one.len() - 2]);
        for piece in [1, 2, 3, 7, 64, 1000, usize::MAX / 2] {
            assert_eq!(split(&all, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_between_pictures() {
        let whole = picture(9, &[]);
        for cut in 0..whole.len() {
            assert!(split(&whole[..cut], 16).is_empty());
        }
        // Whatever is in between, the next is found, if nothing claims it as its own.
        let mut bytes = b"\xff\xd8\x00\x01\xff\xd8\xff\xe1\x00\x01".to_vec();
        let start = bytes.len() as u64;
        bytes.extend_from_slice(&whole);
        assert_eq!(split(&bytes, 5), [(start, whole.len() as u64)]);
    }
}

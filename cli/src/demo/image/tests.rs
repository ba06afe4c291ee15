//! Every kind of PNG, good and bad.

use super::*;
use png::{BitDepth, ColorType};
use std::io::Cursor;

const NAME: &str = "picture.png";

fn decode(bytes: &[u8]) -> Result<Image, ImageError> {
    Image::decode(Cursor::new(bytes), Path::new(NAME))
}

fn encode(
    (width, height): (u32, u32),
    colour: ColorType,
    depth: BitDepth,
    palette: Option<(&[u8], &[u8])>,
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if let Some((colours, transparency)) = palette {
        encoder.set_palette(colours);
        encoder.set_trns(transparency);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    bytes
}

fn colours(image: &Image) -> Vec<[u8; 3]> {
    image.pixels().iter().map(|&p| unpack(p)).collect()
}

#[test]
fn every_colour_type_and_depth_is_read() {
    /// The file's content, and the two pixels that it stands for.
    type Case<'a> = (ColorType, BitDepth, &'a [u8], [[u8; 3]; 2]);
    let cases: [Case<'_>; 12] = [
        (
            ColorType::Grayscale,
            BitDepth::One,
            &[0b0100_0000],
            [[0; 3], [255; 3]],
        ),
        (
            ColorType::Grayscale,
            BitDepth::Two,
            &[0b0110_0000],
            [[85; 3], [170; 3]],
        ),
        (
            ColorType::Grayscale,
            BitDepth::Four,
            &[0x1F],
            [[17; 3], [255; 3]],
        ),
        (
            ColorType::Grayscale,
            BitDepth::Eight,
            &[7, 200],
            [[7; 3], [200; 3]],
        ),
        // 0x80FF is 128.99 in 8 bits: rounded, not cut.
        (
            ColorType::Grayscale,
            BitDepth::Sixteen,
            &[0x80, 0xFF, 0, 127],
            [[128; 3], [0; 3]],
        ),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Eight,
            &[10, 255, 10, 0],
            [[10; 3], [255; 3]],
        ),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Sixteen,
            &[0, 0, 255, 255, 0, 0, 128, 0],
            [[0; 3], [127; 3]],
        ),
        (
            ColorType::Rgb,
            BitDepth::Eight,
            &[1, 2, 3, 4, 5, 6],
            [[1, 2, 3], [4, 5, 6]],
        ),
        (
            ColorType::Rgb,
            BitDepth::Sixteen,
            &[1, 1, 2, 2, 3, 3, 255, 255, 0, 0, 0, 200],
            [[1, 2, 3], [255, 0, 1]],
        ),
        (
            ColorType::Rgba,
            BitDepth::Eight,
            &[1, 2, 3, 255, 100, 0, 200, 128],
            [[1, 2, 3], [177, 127, 227]],
        ),
        (
            ColorType::Rgba,
            BitDepth::Sixteen,
            &[9, 9, 8, 8, 7, 7, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0],
            [[9, 8, 7], [255; 3]],
        ),
        (
            ColorType::Indexed,
            BitDepth::Two,
            &[0b1001_0000],
            [[70, 80, 90], [255; 3]],
        ),
    ];
    for (colour, depth, data, expected) in cases {
        let palette: Option<(&[u8], &[u8])> =
            (colour == ColorType::Indexed).then_some((&[1, 2, 3, 4, 5, 6, 70, 80, 90], &[255, 0]));
        let bytes = encode((2, 1), colour, depth, palette, data);
        let image = decode(&bytes).unwrap();
        assert_eq!(colours(&image), expected, "{colour:?} {depth:?}");
    }
}

/// A 3x3 grey picture in Adam7 order, its one data chunk an uncompressed deflate block.
#[test]
fn an_interlaced_file_is_read() {
    // A filter byte of 0 before each row of each pass; a pixel's value is its index.
    #[rustfmt::skip]
    let raw: [u8; 15] = [
        0, 0,       // pass 1: (0, 0)
        0, 2,       // pass 4: (2, 0)
        0, 6, 8,    // pass 5: (0, 2) and (2, 2)
        0, 1, 0, 7, // pass 6: (1, 0), then (1, 2)
        0, 3, 4, 5, // pass 7: row 1
    ];
    let mut adler = (1u32, 0u32);
    for &byte in &raw {
        adler.0 = (adler.0 + u32::from(byte)) % 65_521;
        adler.1 = (adler.1 + adler.0) % 65_521;
    }
    let length = raw.len() as u16;
    let mut stream = vec![0x78, 0x01, 1];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(raw);
    stream.extend((adler.1 << 16 | adler.0).to_be_bytes());

    let mut bytes = SIGNATURE.to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend((data.len() as u32).to_be_bytes());
        let start = bytes.len();
        bytes.extend(kind);
        bytes.extend(data);
        let crc = !bytes[start..].iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
            })
        });
        bytes.extend(crc.to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 3, 0, 0, 0, 3, 8, 0, 0, 0, 1]);
    chunk(b"IDAT", &stream);
    chunk(b"IEND", &[]);
    let image = decode(&bytes).unwrap();
    let expected: Vec<[u8; 3]> = (0..9).map(|v| [v; 3]).collect();
    assert_eq!(colours(&image), expected);
}

#[test]
fn what_is_written_reads_back() {
    let size = Size::new(5, 3).unwrap();
    let image = Image::new(size, (0..15).map(|i| pack(i * 17, 255 - i, i)).collect());
    let mut bytes = Vec::new();
    image.encode(&mut bytes).unwrap();
    assert_eq!(decode(&bytes).unwrap(), image);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    image.write(&path).unwrap();
    assert_eq!(Image::read(&path).unwrap(), image);
    let missing = directory.path().join("no-such-directory").join(NAME);
    assert!(matches!(
        image.write(&missing),
        Err(ImageError::Write { .. })
    ));
}

#[test]
fn bad_files_are_named_as_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let missing = Image::read(&directory.path().join("missing.png"));
    assert!(matches!(missing, Err(ImageError::Read { .. })));
    assert!(matches!(
        Image::read(directory.path()),
        Err(ImageError::Read { .. })
    ));

    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"\x89PNG", "signature"),
        (b"\xFF\xD8\xFF\xE0\0\0\0\0\0", "JPEG"),
        (b"just some text", "signature"),
    ] {
        let error = decode(bytes).unwrap_err();
        assert!(matches!(error, ImageError::NotPng { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(NAME), "{text}");
    }

    let whole = encode((2, 1), ColorType::Rgb, BitDepth::Eight, None, &[1; 6]);
    for length in 8..whole.len() - 12 {
        let error = decode(&whole[..length]).unwrap_err();
        assert!(
            matches!(error, ImageError::Damaged { .. }),
            "{length}: {error}"
        );
    }
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    assert!(matches!(decode(&flipped), Err(ImageError::Damaged { .. })));
}

#[test]
fn a_huge_image_is_refused_by_its_header() {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 40_000, 2);
    encoder.set_color(ColorType::Grayscale);
    drop(encoder.write_header().unwrap());
    let error = decode(&bytes).unwrap_err();
    assert!(matches!(
        error,
        ImageError::TooLarge {
            width: 40_000,
            height: 2
        }
    ));
    assert!(error.to_string().contains("32768"));
}

#[test]
fn sizes_are_parsed_and_checked() {
    assert_eq!("3x7".parse::<Size>().unwrap(), Size::new(3, 7).unwrap());
    assert_eq!(
        "7680X4320".parse::<Size>().unwrap().to_string(),
        "7680x4320"
    );
    for bad in [
        "", "x", "3", "3x", "x7", "3x7x9", "-3x7", "+3x7", "3 x 7", "axb",
    ] {
        let error = bad.parse::<Size>().unwrap_err();
        assert!(matches!(error, ImageError::SizeSyntax { .. }), "{bad}");
    }
    assert!(matches!(
        "0x7".parse::<Size>(),
        Err(ImageError::Empty { .. })
    ));
    for large in ["32769x1", "1x32769", "8192x8192", "99999999999999999999x1"] {
        let error = large.parse::<Size>().unwrap_err();
        assert!(matches!(error, ImageError::TooLarge { .. }), "{large}");
    }
}

#[test]
fn differences_and_splits() {
    let size = Size::new(100, 2).unwrap();
    let before = Image::new(size, vec![pack(0, 0, 0); 200]);
    assert_eq!(before.difference(&before.clone()), None);
    let mut pixels = before.pixels().to_vec();
    pixels[103] = pack(1, 0, 0);
    pixels[199] = pack(2, 0, 0);
    let after = Image::new(size, pixels);
    assert_eq!(
        before.difference(&after),
        Some(Difference {
            x: 3,
            y: 1,
            here: pack(0, 0, 0),
            there: pack(1, 0, 0),
            count: 2
        })
    );
    let split = before.split(&after);
    assert_eq!(split.pixels()[103], before.pixels()[103]);
    assert_eq!(split.pixels()[199], after.pixels()[199]);
    assert_ne!(split.pixels()[150], before.pixels()[150]);
    let dot = Image::new(Size::new(1, 1).unwrap(), vec![pack(9, 9, 9)]);
    assert_eq!(dot.split(&dot), dot);
}

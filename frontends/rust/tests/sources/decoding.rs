//! The decoder, and any input for it.

use super::*;
use quipu::ErrorKind;

/// A decoder, and what it is given and gives.
pub(super) struct Decoding {
    pub(super) queue: Queue,
    pub(super) pixels: Buffer<u8>,
    pub(super) pixels_size: Buffer<u64>,
    shape: Buffer<u32>,
}

impl Decoding {
    pub(super) fn new(context: &Context, room: usize) -> Self {
        let (pixels, pixels_size) = (
            context.allocate(room).unwrap(),
            context.allocate(1).unwrap(),
        );
        pixels.set_content_size(Some(&pixels_size)).unwrap();
        Self {
            queue: context.queue(&named(context, "decoder")).unwrap(),
            pixels,
            pixels_size,
            shape: context.allocate(3).unwrap(),
        }
    }

    /// Has a picture decoded.
    pub(super) fn picture(
        &mut self,
        kernel: &str,
        data: &Buffer<u8>,
        size: &Buffer<u64>,
    ) -> Result<Event> {
        let decode = self.queue.device().built_in_kernel(kernel)?;
        let call = decode.call((
            data,
            size,
            self.pixels.overwrite(),
            self.pixels_size.overwrite(),
            self.shape.overwrite(),
        ));
        self.queue.launch(1, call)
    }

    /// The same, of these bytes; the picture's bytes and shape.
    fn decode(&mut self, kernel: &str, data: &[u8]) -> Result<(Vec<u8>, Vec<u32>)> {
        let context = self.queue.context().clone();
        let size = context.buffer(&[data.len() as u64])?;
        let data = context.buffer(data)?;
        self.picture(kernel, &data, &size)?.wait()?;
        Ok(self.result())
    }

    pub(super) fn result(&self) -> (Vec<u8>, Vec<u32>) {
        let size = self.queue.read(&self.pixels_size).unwrap().wait().unwrap()[0];
        let mut pixels = self.queue.read(&self.pixels).unwrap().wait().unwrap();
        pixels.truncate(size as usize);
        (
            pixels,
            self.queue.read(&self.shape).unwrap().wait().unwrap(),
        )
    }
}

/// A picture of the camera's as JPEG, and its pixels as they were before.
fn jpeg(context: &Context) -> (Vec<u8>, Vec<u8>) {
    let mut camera = Stream::new(context, "camera", 1 << 16);
    let mut raw = Stream::new(context, "raw", WIDTH * HEIGHT * 3);
    camera.next().unwrap();
    raw.next().unwrap();
    (camera.bytes(), raw.bytes())
}

fn png(pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

pub(super) fn is_like(one: &[u8], other: &[u8]) -> bool {
    let differences = one
        .iter()
        .zip(other)
        .map(|(one, other)| one.abs_diff(*other));
    let sum: u64 = differences.map(u64::from).sum();
    one.len() == other.len() && sum < 12 * one.len() as u64
}

#[test]
fn what_was_encoded_is_decoded() {
    let context = context();
    let (jpeg, pixels) = jpeg(&context);
    let mut decoding = Decoding::new(&context, 10_000);
    let shape = [HEIGHT as u32, WIDTH as u32, 3];
    let (decoded, there) = decoding.decode("decode_jpeg", &jpeg).unwrap();
    assert_eq!(there, shape);
    assert!(is_like(&decoded, &pixels));
    let (decoded, there) = decoding.decode("decode_png", &png(&pixels)).unwrap();
    assert_eq!((decoded, there), (pixels.clone(), shape.to_vec()));
    let packed = lz4_flex::block::compress(&pixels);
    let size = context.buffer(&[packed.len() as u64]).unwrap();
    let packed = context.buffer(&packed).unwrap();
    let lz4 = decoding
        .queue
        .device()
        .built_in_kernel("decode_lz4")
        .unwrap();
    let to = (
        decoding.pixels.overwrite(),
        decoding.pixels_size.overwrite(),
    );
    let call = lz4.call((&packed, &size, to.0, to.1));
    decoding.queue.launch(1, call).unwrap();
    assert_eq!(decoding.result().0, pixels);
}

#[test]
fn only_as_much_is_looked_at_as_is_in_use() {
    let context = context();
    let (mut jpeg, _) = jpeg(&context);
    let used = jpeg.len() as u64;
    jpeg.resize(20_000, 0xff);
    let data = context.buffer(&jpeg).unwrap();
    let mut decoding = Decoding::new(&context, 10_000);
    let mut decode = |size: u64| {
        let size = context.buffer(&[size]).unwrap();
        decoding
            .picture("decode_jpeg", &data, &size)
            .unwrap()
            .wait()
    };
    decode(used).unwrap();
    for size in [0, 1, used / 2, 20_001, u64::MAX] {
        let error = decode(size).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
    }
}

/// The camera's picture, said to be of other sides.
fn of_sides(jpeg: &[u8], width: u16, height: u16) -> Vec<u8> {
    let mut jpeg = jpeg.to_vec();
    let sides = jpeg
        .windows(2)
        .position(|marker| matches!(marker, [0xff, 0xc0..=0xc2]))
        .unwrap();
    jpeg[sides + 5..sides + 7].copy_from_slice(&height.to_be_bytes());
    jpeg[sides + 7..sides + 9].copy_from_slice(&width.to_be_bytes());
    jpeg
}

/// A picture that says that it is large is refused before there is room made for it.
#[test]
fn pictures_that_are_too_large_are_refused() {
    let context = context();
    let (jpeg, pixels) = jpeg(&context);
    let mut decoding = Decoding::new(&context, WIDTH * HEIGHT * 3);
    decoding.decode("decode_jpeg", &jpeg).unwrap();
    for (width, height) in [(65535, 65535), (49, 32), (48, 33), (0, 32), (48, 0)] {
        let bomb = of_sides(&jpeg, width, height);
        let error = decoding.decode("decode_jpeg", &bomb).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
    }
    let mut small = Decoding::new(&context, WIDTH * HEIGHT * 3 - 1);
    let error = small
        .decode("decode_png", &png(&pixels))
        .unwrap_err()
        .to_string();
    assert!(error.contains("4608 bytes, and the buffer 4607"), "{error}");
    assert!(small.decode("decode_jpeg", &jpeg).is_err());
}

/// Any bytes fail their command and nothing else.
#[test]
fn bytes_that_make_no_sense_fail_their_command_alone() {
    let context = context();
    let (jpeg, pixels) = jpeg(&context);
    let png = png(&pixels);
    let lz4 = lz4_flex::block::compress(&pixels);
    let mut decoding = Decoding::new(&context, WIDTH * HEIGHT * 3);
    for (kernel, whole) in [("decode_jpeg", &jpeg), ("decode_png", &png)] {
        for cut in (1..whole.len()).step_by(7) {
            let outcome = decoding.decode(kernel, &whole[..cut]);
            // The last bytes of a picture may be of no account.
            assert!(outcome.is_err() || cut + 16 > whole.len(), "{kernel} {cut}");
        }
    }
    let mut random = 1_u64;
    for round in 0..400 {
        let (kernel, whole) = [
            ("decode_jpeg", &jpeg),
            ("decode_png", &png),
            ("decode_lz4", &lz4),
        ][round % 3];
        let mut bytes = whole.clone();
        for _ in 0..=round % 5 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] = (random >> 20) as u8;
        }
        if kernel == "decode_lz4" {
            let size = context.buffer(&[bytes.len() as u64]).unwrap();
            let bytes = context.buffer(&bytes).unwrap();
            let lz4 = decoding.queue.device().built_in_kernel(kernel).unwrap();
            let to = (
                decoding.pixels.overwrite(),
                decoding.pixels_size.overwrite(),
            );
            let call = lz4.call((&bytes, &size, to.0, to.1));
            // Well or not: it ends.
            let _ = decoding.queue.launch(1, call).unwrap().wait();
        } else if let Err(error) = decoding.decode(kernel, &bytes) {
            let is_its_own = matches!(
                error.kind(),
                ErrorKind::Kernel { .. } | ErrorKind::Panicked { .. }
            );
            assert!(is_its_own, "{error}");
        }
    }
    let (decoded, _) = decoding.decode("decode_jpeg", &jpeg).unwrap();
    assert!(is_like(&decoded, &pixels));
}

//! Pictures that move, made by a formula.

use std::sync::OnceLock;

/// See the module.
pub(crate) struct Generator {
    width: u32,
    height: u32,
    /// Frames as JPEG, each made when it is first asked for; none if they are pixels.
    encoded: Option<Vec<OnceLock<Vec<u8>>>>,
}

impl Generator {
    /// Frames before they begin anew.
    pub(crate) const COUNT: u64 = 32;

    pub(crate) fn new(width: u32, height: u32, jpeg: bool) -> Self {
        Self {
            width,
            height,
            encoded: jpeg.then(|| (0..Self::COUNT).map(|_| OnceLock::new()).collect()),
        }
    }

    /// The pixels of a frame, as RGB: a disc before a gradient, with a little noise that no formula
    /// makes shorter.
    pub(crate) fn pixels(&self, number: u64) -> Vec<u8> {
        let (width, height) = (i64::from(self.width), i64::from(self.height));
        let shift = number as i64 % Self::COUNT as i64;
        let centre = (width * shift / Self::COUNT as i64, height / 2);
        let radius = (width.min(height) / 4).max(1);
        let mut pixels = Vec::with_capacity((width * height * 3) as usize);
        let mut noise = 0x9e37_79b9_u32.wrapping_mul(number as u32 + 1);
        for y in 0..height {
            for x in 0..width {
                // Xorshift.
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                let grain = (noise & 7) as i64;
                let (dx, dy) = (x - centre.0, y - centre.1);
                let within = dx * dx + dy * dy < radius * radius;
                let shade = |value: i64| (value + grain).clamp(0, 255) as u8;
                pixels.extend(if within {
                    [shade(230), shade(180 + shift), shade(60)]
                } else {
                    [
                        shade(x * 200 / width),
                        shade(y * 200 / height),
                        shade(60 + 4 * shift),
                    ]
                });
            }
        }
        pixels
    }

    /// A frame.
    pub(crate) fn frame(&self, number: u64) -> std::borrow::Cow<'_, [u8]> {
        match &self.encoded {
            None => self.pixels(number).into(),
            Some(encoded) => {
                let number = number % Self::COUNT;
                let frame = encoded[number as usize].get_or_init(|| self.encode(number));
                frame.as_slice().into()
            }
        }
    }

    fn encode(&self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut bytes, 80);
        let encoded = encoder.encode(
            &self.pixels(number),
            self.width as u16,
            self.height as u16,
            jpeg_encoder::ColorType::Rgb,
        );
        // The sides were checked, and a vector takes any bytes.
        debug_assert!(encoded.is_ok());
        bytes
    }

    /// Bytes of the longest frame.
    pub(crate) fn longest(&self) -> u64 {
        match &self.encoded {
            None => u64::from(self.width) * u64::from(self.height) * 3,
            Some(_) => {
                let frames = 0..Self::COUNT;
                frames
                    .map(|number| self.frame(number).len() as u64)
                    .max()
                    .unwrap_or(0)
            }
        }
    }
}

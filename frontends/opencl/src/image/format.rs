//! Formats of texels: which there are, and how a colour lies in memory.

#![allow(
    non_upper_case_globals,
    reason = "constants of the standard are patterns"
)]

use crate::code::{Code, Result, fail};
use opencl_sys::*;

/// A format that images have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) order: cl_channel_order,
    pub(crate) data: cl_channel_type,
}

/// Types of channels that are read as `float`, of any order.
const NORMALISED: [cl_channel_type; 4] =
    [CL_UNORM_INT8, CL_UNORM_INT16, CL_SNORM_INT8, CL_SNORM_INT16];
const FLOATS: [cl_channel_type; 2] = [CL_HALF_FLOAT, CL_FLOAT];
const INTEGERS: [cl_channel_type; 6] = [
    CL_SIGNED_INT8,
    CL_SIGNED_INT16,
    CL_SIGNED_INT32,
    CL_UNSIGNED_INT8,
    CL_UNSIGNED_INT16,
    CL_UNSIGNED_INT32,
];
const BYTES: [cl_channel_type; 4] = [
    CL_UNORM_INT8,
    CL_SNORM_INT8,
    CL_SIGNED_INT8,
    CL_UNSIGNED_INT8,
];
const PACKED: [cl_channel_type; 3] = [CL_UNORM_SHORT_565, CL_UNORM_SHORT_555, CL_UNORM_INT_101010];

/// Every number of a type of channels that the standard has.
const TYPES: std::ops::RangeInclusive<cl_channel_type> = CL_SNORM_INT8..=CL_UNORM_INT_101010_2;
/// Every number of an order of channels that the standard has.
const ORDERS: std::ops::RangeInclusive<cl_channel_order> = CL_R..=CL_ABGR;

impl Format {
    /// The formats that images of a type may have, if kernels use them so. Those of sRGB are only
    /// read; those of depth are of two dimensions.
    pub(crate) fn all(kind: cl_mem_object_type, flags: cl_mem_flags) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |order, types: &[cl_channel_type]| {
            all.extend(types.iter().map(|data| Self { order, data: *data }));
        };
        for order in [CL_RGBA, CL_RG, CL_R] {
            add(order, &NORMALISED);
            add(order, &INTEGERS);
            add(order, &FLOATS);
        }
        add(CL_BGRA, &BYTES);
        add(CL_ARGB, &BYTES);
        add(CL_ABGR, &BYTES);
        add(CL_A, &NORMALISED);
        add(CL_A, &FLOATS);
        for order in [CL_INTENSITY, CL_LUMINANCE] {
            add(order, &NORMALISED);
            add(order, &FLOATS);
        }
        add(CL_RGB, &PACKED);
        if matches!(kind, CL_MEM_OBJECT_IMAGE2D | CL_MEM_OBJECT_IMAGE2D_ARRAY) {
            add(CL_DEPTH, &[CL_UNORM_INT16, CL_FLOAT]);
        }
        let writes = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_KERNEL_READ_AND_WRITE;
        if flags & writes == 0 || flags & CL_MEM_READ_ONLY != 0 {
            add(CL_sRGBA, &[CL_UNORM_INT8]);
        }
        all
    }

    /// A format as a program says it.
    pub(crate) fn new(said: cl_image_format) -> Result<Self> {
        let (order, data) = (said.image_channel_order, said.image_channel_data_type);
        let is_packed = PACKED.contains(&data) || data == CL_UNORM_INT_101010_2;
        let fits = match order {
            CL_RGB | CL_RGBx => PACKED.contains(&data),
            CL_BGRA | CL_ARGB | CL_ABGR => BYTES.contains(&data),
            CL_INTENSITY | CL_LUMINANCE => NORMALISED.contains(&data) || FLOATS.contains(&data),
            CL_DEPTH => matches!(data, CL_UNORM_INT16 | CL_FLOAT),
            CL_sRGB | CL_sRGBx | CL_sRGBA | CL_sBGRA => data == CL_UNORM_INT8,
            CL_RGBA => !is_packed || data == CL_UNORM_INT_101010_2,
            _ => !is_packed,
        };
        match fits && ORDERS.contains(&order) && TYPES.contains(&data) {
            true => Ok(Self { order, data }),
            false => fail(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR),
        }
    }

    pub(crate) fn said(self) -> cl_image_format {
        cl_image_format {
            image_channel_order: self.order,
            image_channel_data_type: self.data,
        }
    }

    /// Channels that memory has.
    pub(crate) fn channels(self) -> u32 {
        match self.order {
            CL_RG | CL_RGx | CL_RA => 2,
            CL_RGB | CL_RGBx | CL_sRGB | CL_sRGBx => 3,
            CL_RGBA | CL_BGRA | CL_ARGB | CL_ABGR | CL_sRGBA | CL_sBGRA => 4,
            _ => 1,
        }
    }

    /// Bytes of a texel.
    pub(crate) fn bytes(self) -> u32 {
        let each = match self.data {
            CL_UNORM_SHORT_565 | CL_UNORM_SHORT_555 => return 2,
            CL_UNORM_INT_101010 | CL_UNORM_INT_101010_2 => return 4,
            CL_SNORM_INT8 | CL_UNORM_INT8 | CL_SIGNED_INT8 | CL_UNSIGNED_INT8 => 1,
            CL_SIGNED_INT32 | CL_UNSIGNED_INT32 | CL_FLOAT => 4,
            _ => 2,
        };
        each * self.channels()
    }

    /// True if texels of one format may be read as those of another: an image may be made of an
    /// image so.
    pub(crate) fn may_be_read_as(self, other: Self) -> bool {
        let plain = |order| match order {
            CL_sRGB => CL_RGB,
            CL_sRGBx => CL_RGBx,
            CL_sRGBA => CL_RGBA,
            CL_sBGRA => CL_BGRA,
            CL_DEPTH => CL_R,
            other => other,
        };
        self.data == other.data && plain(self.order) == plain(other.order)
    }

    /// A colour as memory has it: four numbers of 32 bits that are `float`, `int` or `uint` as the
    /// format is read.
    pub(crate) fn texel(self, colour: [u32; 4]) -> Result<Vec<u8>> {
        let [r, g, b, a] = colour;
        let stored = match self.order {
            CL_A => [a, a, a, a],
            CL_RA => [r, a, 0, 0],
            CL_BGRA | CL_sBGRA => [b, g, r, a],
            CL_ARGB => [a, r, g, b],
            CL_ABGR => [a, b, g, r],
            _ => colour,
        };
        let is_srgb = matches!(self.order, CL_sRGB | CL_sRGBx | CL_sRGBA | CL_sBGRA);
        let mut bytes = Vec::new();
        // Conversions of Rust's saturate, and make zero of what is no number.
        let scaled = |bits: u32, most: f32| (f32::from_bits(bits) * most).round_ties_even();
        let part = |bits: u32, most: f32| scaled(bits, most).clamp(0.0, most) as u32;
        match self.data {
            CL_UNORM_SHORT_565 => {
                let all = part(r, 31.0) << 11 | part(g, 63.0) << 5 | part(b, 31.0);
                bytes.extend((all as u16).to_ne_bytes());
            }
            CL_UNORM_SHORT_555 => {
                let all = part(r, 31.0) << 10 | part(g, 31.0) << 5 | part(b, 31.0);
                bytes.extend((all as u16).to_ne_bytes());
            }
            CL_UNORM_INT_101010 => {
                let all = part(r, 1023.0) << 20 | part(g, 1023.0) << 10 | part(b, 1023.0);
                bytes.extend(all.to_ne_bytes());
            }
            _ => {
                for (channel, bits) in stored
                    .into_iter()
                    .enumerate()
                    .take(self.channels() as usize)
                {
                    let bits = match is_srgb && channel < 3 {
                        true => gamma(f32::from_bits(bits)).to_bits(),
                        false => bits,
                    };
                    match self.data {
                        CL_UNORM_INT8 => bytes.push(scaled(bits, 255.0) as u8),
                        CL_SNORM_INT8 => bytes.extend((scaled(bits, 127.0) as i8).to_ne_bytes()),
                        CL_UNORM_INT16 => {
                            bytes.extend((scaled(bits, 65535.0) as u16).to_ne_bytes())
                        }
                        CL_SNORM_INT16 => {
                            bytes.extend((scaled(bits, 32767.0) as i16).to_ne_bytes())
                        }
                        CL_SIGNED_INT8 => {
                            let value = bits.cast_signed().clamp(i8::MIN.into(), i8::MAX.into());
                            bytes.extend((value as i8).to_ne_bytes());
                        }
                        CL_SIGNED_INT16 => {
                            let value = bits.cast_signed().clamp(i16::MIN.into(), i16::MAX.into());
                            bytes.extend((value as i16).to_ne_bytes());
                        }
                        CL_UNSIGNED_INT8 => bytes.push(bits.min(u8::MAX.into()) as u8),
                        CL_UNSIGNED_INT16 => {
                            bytes.extend((bits.min(u16::MAX.into()) as u16).to_ne_bytes())
                        }
                        CL_SIGNED_INT32 | CL_UNSIGNED_INT32 | CL_FLOAT => {
                            bytes.extend(bits.to_ne_bytes())
                        }
                        CL_HALF_FLOAT => bytes.extend(half(f32::from_bits(bits)).to_ne_bytes()),
                        _ => return Err(Code(CL_IMAGE_FORMAT_NOT_SUPPORTED)),
                    }
                }
            }
        }
        Ok(bytes)
    }
}

/// From linear to sRGB.
fn gamma(linear: f32) -> f32 {
    match linear.clamp(0.0, 1.0) {
        dark if dark < 0.003_130_8 => 12.92 * dark,
        light => 1.055 * light.powf(1.0 / 2.4) - 0.055,
    }
}

/// The nearest number of 16 bits.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let rest = bits & 0x7fff_ffff;
    // What is no number stays none.
    if rest > 0x7f80_0000 {
        return sign | 0x7e00 | (rest >> 13) as u16 & 0x1ff;
    }
    // From here on it would be rounded to more than the largest.
    if rest >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let exponent = (rest >> 23).cast_signed() - 127;
    if exponent < -25 {
        return sign;
    }
    // A number of the smallest exponent has no leading bit, and more of its bits are lost.
    let (kept, lost) = match exponent < -14 {
        true => (rest & 0x7f_ffff | 0x80_0000, (-1 - exponent) as u32),
        false => (rest - (112 << 23), 13),
    };
    let half = 1 << (lost - 1);
    let even = kept >> lost & 1;
    sign | ((kept + half - 1 + even) >> lost) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a number of 16 bits.
    fn value(half: u16) -> f64 {
        let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
        let (exponent, rest) = (i32::from(half >> 10 & 31), f64::from(half & 0x3ff));
        sign * match exponent {
            0 => rest * 2_f64.powi(-24),
            31 => f64::INFINITY,
            exponent => (1.0 + rest / 1024.0) * 2_f64.powi(exponent - 15),
        }
    }

    #[test]
    fn a_half_is_the_nearest_one_and_even_between_two() {
        for number in 0..0x7c00_u16 {
            assert_eq!(half(value(number) as f32), number);
            assert_eq!(half(-value(number) as f32), number | 0x8000);
            if number < 0x7bff {
                let between = f64::midpoint(value(number), value(number + 1)) as f32;
                assert_eq!(half(between), number + (number & 1), "{between}");
                assert_eq!(half(between.next_up()), number + 1);
                assert_eq!(half(between.next_down()), number);
            }
        }
        assert_eq!(half(65519.996), 0x7bff);
        assert_eq!(half(65520.0), 0x7c00);
        assert_eq!(half(f32::INFINITY), 0x7c00);
        assert!(half(f32::NAN) & 0x3ff != 0);
    }

    #[test]
    fn a_texel_has_as_many_bytes_as_its_format_says() {
        for format in Format::all(CL_MEM_OBJECT_IMAGE2D, CL_MEM_READ_ONLY) {
            assert_eq!(Format::new(format.said()), Ok(format));
            let texel = format.texel([0x3f80_0000; 4]).unwrap();
            assert_eq!(texel.len(), format.bytes() as usize, "{format:?}");
        }
    }
}

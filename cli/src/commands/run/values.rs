//! Values of arguments, as people write them.

use super::arrays::Element;
use super::size;
use crate::npy;

/// The bytes of a value of a type.
pub(super) fn value(type_name: &str, text: &str) -> Option<Vec<u8>> {
    let Element { scalar, lanes } = Element::of(type_name)?;
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    // One number is all of a vector's, as in OpenCL C.
    if parts.len() != lanes && parts.len() != 1 {
        return None;
    }
    let mut bytes = Vec::new();
    for lane in 0..lanes {
        let part = parts.get(lane).or_else(|| parts.first())?;
        bytes.extend(number(scalar, part)?);
    }
    Some(bytes)
}

fn number(element: &str, text: &str) -> Option<Vec<u8>> {
    if element.starts_with('f') {
        let number: f64 = text.trim_end_matches(['f', 'F']).parse().ok()?;
        return match element {
            "f2" => Some(half(number).to_le_bytes().to_vec()),
            "f4" => Some((number as f32).to_le_bytes().to_vec()),
            "f8" => Some(number.to_le_bytes().to_vec()),
            _ => None,
        };
    }
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let number = match digits.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok()?,
        None => match digits {
            "true" => 1,
            "false" => 0,
            digits => size(digits)
                .ok()
                .map(|size| size as i128)
                .or_else(|| digits.parse().ok())?,
        },
    };
    let bytes = npy::size_of(element)?;
    let bits = bytes as u32 * 8;
    let range = match element.starts_with('u') {
        true => 0..1 << bits,
        false => -(1 << (bits - 1))..1 << (bits - 1),
    };
    range
        .contains(&number)
        .then(|| number.to_le_bytes()[..bytes].to_vec())
}

/// The nearest number of 16 bits.
fn half(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let size = number.abs();
    if size.is_nan() {
        return 0x7e00;
    }
    // From here on it would be rounded to more than the largest.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = (size.to_bits() >> 52) as i32 - 1023;
    // The smallest numbers keep fewer bits.
    let exponent = exponent.max(-14);
    let kept = (size * 2_f64.powi(10 - exponent)).round_ties_even() as u16;
    // The leading bit, and what was rounded beyond all bits, are added to the exponent.
    let bits = (((exponent + 14) as u16) << 10) + kept;
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_the_nearest_one() {
        let some = [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.5, 0xc100),
            (65504.0, 0x7bff),
            (65519.999, 0x7bff),
            (65520.0, 0x7c00),
            (f64::NEG_INFINITY, 0xfc00),
            (2_f64.powi(-24), 1),
            (2_f64.powi(-25), 0),
            (1.5 * 2_f64.powi(-24), 2),
            (2_f64.powi(-14).next_down(), 0x400),
            // Between two numbers the even one; next to that, the nearest.
            (1.0 + 2_f64.powi(-11), 0x3c00),
            (1.0 + 2_f64.powi(-11) + 2_f64.powi(-40), 0x3c01),
            (1.0 + 3.0 * 2_f64.powi(-11), 0x3c02),
            (1e-300, 0),
        ];
        for (number, wanted) in some {
            assert_eq!(half(number), wanted, "{number:e}");
        }
        let two = [0x3c00_u16, 0x3800].map(u16::to_le_bytes).concat();
        assert_eq!(value("half2", "1,0.5"), Some(two));
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        assert_eq!(value("int", "-3"), Some((-3_i32).to_le_bytes().to_vec()));
        assert_eq!(
            value("uint", "1Mi"),
            Some((1_u32 << 20).to_le_bytes().to_vec())
        );
        assert_eq!(value("uint", "-1"), None);
        assert_eq!(value("uchar", "256"), None);
        assert_eq!(value("ulong", "0xff"), Some(255_u64.to_le_bytes().to_vec()));
        assert_eq!(
            value("float2", "1,2.5"),
            Some([1.0_f32, 2.5].map(f32::to_le_bytes).concat())
        );
        assert_eq!(
            value("float4", "1"),
            Some([1.0_f32; 4].map(f32::to_le_bytes).concat())
        );
        assert_eq!(value("float4", "1,2"), None);
        assert_eq!(value("struct pair", "1"), None);
    }
}

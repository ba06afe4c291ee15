//! Base 32 (RFC 4648) in lower case, without padding: for text that people may have to read to each
//! other.

const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 32 bytes as 52 characters.
pub(crate) fn encode(bytes: &[u8; 32]) -> String {
    let mut text = String::with_capacity(52);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(DIGITS[(bits >> count) as usize & 31]));
        }
    }
    // 256 bits are 51 digits and one bit.
    text.push(char::from(DIGITS[(bits << (5 - count)) as usize & 31]));
    text
}

/// The 32 bytes of a text, in whichever case. There is one text for each: bits that mean nothing
/// are zero.
pub(crate) fn decode(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut next = bytes.iter_mut();
    let (mut bits, mut count) = (0_u32, 0);
    if text.len() != 52 {
        return None;
    }
    for character in text.bytes() {
        let lower = character.to_ascii_lowercase();
        let digit = DIGITS.iter().position(|digit| *digit == lower)?;
        bits = bits << 5 | digit as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            *next.next()? = (bits >> count) as u8;
        }
    }
    (bits & ((1 << count) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_either_case() {
        for seed in 0..=255_u8 {
            let bytes = std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8 * 7));
            let text = encode(&bytes);
            assert_eq!(text.len(), 52);
            assert_eq!(decode(&text), Some(bytes));
            assert_eq!(decode(&text.to_uppercase()), Some(bytes));
        }
        // RFC 4648: "foobar" is "MZXW6YTBOI".
        let mut bytes = [0; 32];
        bytes[..6].copy_from_slice(b"foobar");
        assert!(encode(&bytes).starts_with("mzxw6ytboi"));
    }

    #[test]
    fn other_texts_are_refused() {
        let good = encode(&[0xff; 32]);
        assert_eq!(decode(&good[1..]), None);
        assert_eq!(decode(&format!("{good}a")), None);
        assert_eq!(decode(&good.replace('7', "1")), None);
        // A last digit with bits that belong to no byte.
        assert_eq!(decode(&format!("{}7", &good[..51])), None);
        assert_eq!(decode(""), None);
        assert_eq!(decode(&"ä".repeat(26)), None);
    }
}

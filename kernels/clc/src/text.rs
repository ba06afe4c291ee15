//! Texts of programs that are not UTF-8.

use std::borrow::Cow;
use std::fmt::Write;

/// A text as UTF-8. Each byte that is none of it becomes its octal escape: that is the same byte in
/// a literal, and nothing in a comment.
pub fn as_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::as_utf8;

    #[test]
    fn bytes_that_are_no_utf8_become_octal_escapes() {
        let text = "// caf\u{e9}\nkernel void k() {}";
        assert_eq!(as_utf8(text.as_bytes()), text);
        assert_eq!(
            as_utf8(b"\"\xe91\" // \xff\xc3"),
            "\"\\3511\" // \\377\\303"
        );
    }
}

//! Names and messages of a trace are text from anywhere, and stay text in everything made of them.
//!
//! There are three places a name can get to, and a function for each: JSON inside an HTML script
//! element, HTML or XML text, and the terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Makes JSON safe inside `<script type="application/json">`.
///
/// A script element ends at the first `</script`, and `<!--` changes how it is parsed, wherever
/// they are. In JSON a `<` can only be inside a string, where `\u003c` says the same. `>` and `&`
/// are escaped to be beyond doubt, and the two line separators because they once ended lines in
/// scripts.
pub fn json_in_script(json: &str) -> Cow<'_, str> {
    replace(json, |character| match character {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
            Some(format!("\\u{:04x}", u32::from(character)))
        }
        _ => None,
    })
}

/// Makes text safe in HTML and XML, between tags and inside quoted attributes. Control characters,
/// which XML does not allow, become the replacement character.
pub fn markup(text: &str) -> Cow<'_, str> {
    replace(text, |character| {
        let entity = match character {
            '<' => "&lt;",
            '>' => "&gt;",
            '&' => "&amp;",
            '"' => "&quot;",
            '\'' => "&#39;",
            '\u{fffe}' | '\u{ffff}' => "\u{fffd}",
            '\t' | '\n' => " ",
            _ if character.is_control() => "\u{fffd}",
            _ => return None,
        };
        Some(entity.to_owned())
    })
}

/// Makes text safe to print: no control character of it reaches the terminal.
pub fn terminal(text: &str) -> Cow<'_, str> {
    replace(text, |character| {
        character.is_control().then(|| {
            let mut shown = String::new();
            // Writing to a String does not fail.
            let _ = write!(shown, "{}", character.escape_default());
            shown
        })
    })
}

/// `text` with some characters replaced; borrowed when there were none.
fn replace(text: &str, replacement: impl Fn(char) -> Option<String>) -> Cow<'_, str> {
    if text
        .chars()
        .all(|character| replacement(character).is_none())
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match replacement(character) {
            Some(other) => out.push_str(&other),
            None => out.push(character),
        }
    }
    Cow::Owned(out)
}

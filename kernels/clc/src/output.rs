//! The standard output, as kernels print to it: by the C library's stream, in which a program's own
//! text stands.

use std::io::IsTerminal;
use std::marker::PhantomData;
#[cfg(unix)]
use std::ptr::null_mut;
#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::{Mutex, PoisonError};

/// The C library's stream.
#[cfg(unix)]
fn stream() -> *mut libc::FILE {
    unsafe extern "C" {
        #[cfg_attr(
            any(target_vendor = "apple", target_os = "freebsd"),
            link_name = "__stdoutp"
        )]
        static stdout: *mut libc::FILE;
    }
    // SAFETY: the C library opens the stream before any code of the program runs.
    unsafe { stdout }
}

/// The C library's own locale on this thread, until it is dropped: kernels print numbers as OpenCL
/// C has them, whatever the program's locale is.
pub(crate) struct PlainLocale {
    /// The thread's locale before.
    #[cfg(unix)]
    before: Option<libc::locale_t>,
    /// It is this thread's alone.
    _here: PhantomData<*const ()>,
}

impl PlainLocale {
    pub(crate) fn enter() -> Self {
        Self {
            #[cfg(unix)]
            before: plain().map(|plain| {
                // SAFETY: a locale that is never freed.
                unsafe { libc::uselocale(plain.0) }
            }),
            _here: PhantomData,
        }
    }
}

impl Drop for PlainLocale {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = self.before {
            // SAFETY: the locale that this thread had.
            unsafe { libc::uselocale(before) };
        }
    }
}

/// The locale `C`, if there is memory for it.
#[cfg(unix)]
fn plain() -> Option<&'static Locale> {
    static PLAIN: OnceLock<Option<Locale>> = OnceLock::new();
    let make = || {
        // SAFETY: a name that ends with a zero; no locale is changed.
        let made = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), null_mut()) };
        (!made.is_null()).then_some(Locale(made))
    };
    PLAIN.get_or_init(make).as_ref()
}

/// A locale that nothing changes.
#[cfg(unix)]
struct Locale(libc::locale_t);

// SAFETY: threads may use a locale together.
#[cfg(unix)]
unsafe impl Send for Locale {}
// SAFETY: as for `Send`.
#[cfg(unix)]
unsafe impl Sync for Locale {}

/// Has the C library write what it keeps.
pub(crate) fn flush() {
    #[cfg(unix)]
    // SAFETY: the stream is open, and the C library locks it.
    unsafe {
        libc::fflush(stream())
    };
}

/// Text that came from elsewhere, for a terminal: characters that a terminal acts on become spaces,
/// but for ends of lines and tabs. A character may come in parts.
struct ForTerminal {
    /// Bytes of a character in UTF-8 that are missing yet, and whether it may be one of those.
    missing: u8,
    may_act: bool,
}

impl ForTerminal {
    /// A byte in the place of this one.
    fn byte(&mut self, byte: u8) -> u8 {
        let (missing, may_act) = (self.missing, self.may_act);
        (self.missing, self.may_act) = match byte {
            0xc2 => (1, true),
            0xc3..=0xdf => (1, false),
            0xe0..=0xef => (2, false),
            0xf0..=0xf4 => (3, false),
            0x80..=0xbf => (missing.saturating_sub(1), false),
            _ => (0, false),
        };
        let is_shown = match byte {
            b'\n' | b'\r' | b'\t' | b' '..=b'~' | 0xc2..=0xf4 => true,
            0x80..=0x9f => missing > 0 && !may_act,
            0xa0..=0xbf => missing > 0,
            _ => false,
        };
        if is_shown { byte } else { b' ' }
    }
}

/// The state of the terminal's output.
static TERMINAL: Mutex<ForTerminal> = Mutex::new(ForTerminal {
    missing: 0,
    may_act: false,
});

/// Writes what kernels printed elsewhere, behind what the program and kernels here have printed. An
/// output that takes nothing more, as a closed pipe, loses it, as it loses what kernels here print.
/// To a terminal it writes spaces in place of characters that terminals act on, but for ends of
/// lines and tabs.
pub fn print_for_kernels(bytes: &[u8]) {
    if std::io::stdout().is_terminal() {
        let mut terminal = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
        let shown: Vec<u8> = bytes.iter().map(|byte| terminal.byte(*byte)).collect();
        write(&shown);
    } else {
        write(bytes);
    }
}

fn write(bytes: &[u8]) {
    #[cfg(unix)]
    {
        // SAFETY: the stream is open, the C library locks it, and so many bytes can be read there.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream()) };
        flush();
    }
    #[cfg(not(unix))]
    {
        use std::io::Write;
        let mut output = std::io::stdout();
        let _ = output.write_all(bytes).and_then(|()| output.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that comes in these parts, as a terminal is told it.
    fn told(parts: &[&[u8]]) -> Vec<u8> {
        let mut terminal = ForTerminal {
            missing: 0,
            may_act: false,
        };
        let bytes = parts.iter().flat_map(|part| part.iter());
        bytes.map(|byte| terminal.byte(*byte)).collect()
    }

    #[test]
    fn a_terminal_is_told_nothing_that_it_acts_on() {
        let text = "größer – 火 🦀\tand\r\nmore ±\u{a0}";
        assert_eq!(told(&[text.as_bytes()]), text.as_bytes());
        let parts: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(told(&parts), text.as_bytes());
        assert_eq!(
            told(&[b"\x1b]0;title\x07\x1b[2J\x7f\x00"]),
            b" ]0;title  [2J  "
        );
        // The same by one character, in one byte and in two, that come in two messages.
        assert_eq!(told(&[b"\x9b2J a\x85"]), b" 2J a ");
        assert_eq!(told(&[b"\xc2\x9b2J"]), b"\xc2 2J");
        assert_eq!(told(&[b"\xc2", b"\x9b2J"]), b"\xc2 2J");
        assert_eq!(
            told(&[b"\xc2\xc2\x9b\xe2\x1b\x9b\xff\x9b"]),
            b"\xc2\xc2 \xe2    "
        );
    }
}

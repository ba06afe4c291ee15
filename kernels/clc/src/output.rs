//! The standard output, as kernels print to it: by the C library's stream, in which a program's own text stands.

use std::marker::PhantomData;
#[cfg(unix)]
use std::ptr::null_mut;
#[cfg(unix)]
use std::sync::OnceLock;

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

/// The C library's own locale on this thread, until it is dropped: kernels print numbers as OpenCL C has them, whatever the
/// program's locale is.
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

/// Writes what kernels printed elsewhere, behind what the program and kernels here have printed. An output that takes nothing
/// more, as a closed pipe, loses it, as it loses what kernels here print.
pub fn print_for_kernels(bytes: &[u8]) {
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

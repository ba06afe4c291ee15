//! The standard output, as kernels print to it: by the C library's stream, in which a program's own text stands.

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

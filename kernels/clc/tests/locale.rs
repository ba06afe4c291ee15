//! Output of kernels in a program with a locale of its own.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::Grid;
use std::ffi::CString;
use std::process::Command;
use support::printed;

/// Has the program write numbers with a comma. False if the machine has no such locale and cannot
/// make one.
fn write_with_commas(folder: &std::path::Path) -> bool {
    let name = "de_DE.UTF-8";
    let made = Command::new("localedef")
        .args(["-i", "de_DE", "-f", "UTF-8"])
        .arg(folder.join(name))
        .output();
    if made.is_ok_and(|made| made.status.success()) {
        let folder = CString::new(folder.to_str().unwrap()).unwrap();
        // SAFETY: texts that end with a zero; no other thread reads the environment meanwhile.
        unsafe { libc::setenv(c"LOCPATH".as_ptr(), folder.as_ptr(), 1) };
    }
    let name = CString::new(name).unwrap();
    // SAFETY: a text that ends with a zero.
    !unsafe { libc::setlocale(libc::LC_ALL, name.as_ptr()) }.is_null()
}

/// A number as the program writes it.
fn written() -> String {
    let mut text = [0_u8; 16];
    // SAFETY: room for so many bytes; a format with one number.
    unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.1f".as_ptr(), 1.5) };
    let end = text.iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8_lossy(&text[..end]).into_owned()
}

#[test]
fn kernels_print_numbers_as_the_language_has_them() {
    let text = "kernel void k() { printf(\"%.2f %v2hlf\\n\", 0.25f, (float2)(1, -2)); }";
    let Some(program) = support::program(text) else {
        return;
    };
    let grid = Grid::new(1, [1; 3], [1; 3]);
    let kernel = program.compile("k", [1; 3]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    if !write_with_commas(folder.path()) {
        println!("NOT TESTED: printing with a locale: localedef makes no de_DE.UTF-8");
        return;
    }
    assert_eq!(written(), "1,5");
    // SAFETY: the kernel has no memory.
    let text = printed(|| unsafe { kernel.run(&grid, &[], 0..1) }.unwrap());
    assert_eq!(text, "0.25 1.000000,-2.000000\n");
    assert_eq!(written(), "1,5");
}

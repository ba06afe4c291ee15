//! The differences between versions of LLVM and clang.
//!
//! All other parts hold for each version. Bitcode and text of LLVM are read by the libLLVM that has
//! written them, or by a later one. So what is changed in the text of a module is found by words
//! that all versions write alike: address spaces, orders of memory, the beginnings of functions.

use std::ffi::CStr;

/// The versions of LLVM that the passes are made for, the best first.
pub(super) const ALL: [u32; 5] = [19, 21, 22, 20, 18];

/// The beginning of the name of a function that is the body of a kernel. From clang 21 on, a kernel
/// calls such a function.
pub(super) const BODY: &str = "__clang_ocl_kern_imp_";

/// LLVM's options for a version, whatever it is asked to do.
pub(super) fn options(version: u32) -> &'static [&'static CStr] {
    match version {
        // Where instructions of one work-item stand side by side, LLVM makes vectors of some that
        // are not the same, as of `x & 255` and `x >> 24`, and their numbers are wrong
        // (llvm-project issues 161140 and 165878). Vectors of work-items are made by another pass.
        21.. => &[c"-vectorize-slp=false"],
        // See `to_scalars`.
        _ => &[c"-scalarize-load-store"],
    }
}

/// The pass that makes scalars of vectors, and of reads and writes of vectors. LLVM goes on without
/// a word if it does not know an option, so the pass itself is told.
pub(super) fn to_scalars(version: u32) -> &'static str {
    match version {
        21.. => "scalarizer<load-store>",
        _ => "scalarizer",
    }
}

/// The pass that makes tests of switches.
pub(super) fn tests_of_switches(version: u32) -> &'static str {
    match version {
        ..19 => "lowerswitch",
        _ => "lower-switch",
    }
}

/// clang's options for the kind of processor that atomic functions of the library are for. Their
/// bitcode is that of `spir64` in all that counts.
pub(super) fn target_of_atomics(version: u32) -> &'static [&'static str] {
    match version {
        // clang 18 makes calls of functions in place of each atomic instruction for `spir64`, which
        // are the same for signed, unsigned and floating numbers.
        ..19 => &[
            "-target",
            "x86_64",
            "-Xclang",
            "-ffake-address-space-map",
            "-Xclang",
            "-faddress-space-map-mangling=yes",
        ],
        _ => &["-target", "spir64"],
    }
}

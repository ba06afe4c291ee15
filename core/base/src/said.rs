//! What is said on standard error, where no caller is there to be handed it.

use std::fmt;
use std::io::Write as _;

/// Prints a line on standard error. If nobody reads that any more, the line is lost: `eprintln`
/// would panic.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

//! `quipu-clc`: the compiler's process, as [`quipu_clc::serve_compiler`] says.

use std::process::ExitCode;

fn main() -> ExitCode {
    match quipu_clc::serve_compiler() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

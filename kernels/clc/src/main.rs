//! `quipu-clc`: the compiler's process, as [`quipu_clc::serve_compiler`] says; with arguments, the
//! compiler's command line.

use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some() || std::io::stdin().is_terminal() {
        return quipu_clc::run_command(arguments).into();
    }
    match quipu_clc::serve_compiler() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

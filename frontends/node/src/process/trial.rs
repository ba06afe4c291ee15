//! Trials: the search for the part of the sandbox that hides something from a program. The program
//! is started without the sandbox, in all of it, and in each [part](Restriction) alone, and prints
//! what it finds.

use super::Spawn;
use super::sandbox::{self, Restriction};
use super::scratch;
use crate::limits::Limits;
use quipu_protocol::message::SessionId;
use std::io;
use std::path::PathBuf;
use std::process::Output;

/// The output of a program within these parts of the sandbox.
#[derive(Debug)]
pub struct Trial {
    /// The parts; none of them, all, or one.
    pub within: Vec<Restriction>,
    /// The program's output, and its end.
    pub output: Output,
}

/// Starts a program as sessions' are, once for each trial, with one argument more: the names of the
/// parts with commas between them, which are for [`enter_trial`].
///
/// # Errors
/// If it cannot be started.
pub fn trials(spawn: &Spawn) -> io::Result<Vec<Trial>> {
    let all = Restriction::ALL;
    let sets = [Vec::new(), all.to_vec()]
        .into_iter()
        .chain(all.map(|one| vec![one]));
    let tried = |(within, number): (Vec<Restriction>, u8)| {
        let names: Vec<&str> = within.iter().map(|part| part.name()).collect();
        let scratch = scratch::make(SessionId([number; 16]))?;
        let output = spawn.command(&scratch).arg(names.join(",")).output();
        scratch::remove(&scratch)?;
        let output = output?;
        Ok(Trial { within, output })
    };
    sets.zip(0_u8..).map(tried).collect()
}

/// Enters the parts of the sandbox that [`trials`] has named, before a thread is started or a file
/// opened.
///
/// # Errors
/// If there is no part of a name, or a limit cannot be set.
pub fn enter_trial(within: &str, limits: &Limits, readable: &[PathBuf]) -> io::Result<()> {
    let scratch = std::env::temp_dir();
    for name in within.split(',').filter(|name| !name.is_empty()) {
        let part = Restriction::of_name(name)
            .ok_or_else(|| io::Error::other(format!("the sandbox has no part called {name}")))?;
        // What the kernel has not hides nothing.
        let files = sandbox::Files {
            scratch: &scratch,
            readable,
            hidden: None,
        };
        sandbox::restrict(part, (limits, true), &files)?;
    }
    Ok(())
}

//! `quipu trace`: the commands of a traced program, as a page, a picture and a table.
//!
//! A trace is the file that `QUIPU_TRACE=file.json` makes any program write
//! (`quipu_scheduler::trace` describes the format). It goes through three steps. Each can be had on
//! its own:
//!
//! 1. [`Trace::read`] takes the events in one at a time, so the file's size is no matter, only the
//!    number of commands is; a file without its end, from a program that died, is read as far as it
//!    goes.
//! 2. [`Trace::totals`] adds up each device's work.
//! 3. [`page`] makes a self-contained HTML page of it, [`render_svg`] a still picture, [`summary`]
//!    a table for the terminal. They neither read nor write anything.
//!
//! Names and messages in a trace come from anywhere. None of the outputs lets them be more than
//! text: see [`escape`](crate::escape).

mod by_name;
mod error;
mod html;
mod palette;
mod read;
mod summary;
mod svg;
mod totals;
mod trace;

pub use by_name::by_name;
pub use error::TimelineError;
pub use html::{Options, page};
pub use summary::summary;
pub use svg::{Look, render_svg};
pub use totals::Totals;
pub use trace::{Clock, Command, Device, Lane, Queue, Trace};

use std::io::Read;

/// Reads a trace and makes the page of it: [`Trace::read`] and [`page`] in one.
///
/// # Errors
///
/// As [`Trace::read`].
pub fn render(input: impl Read, options: &Options) -> Result<String, TimelineError> {
    Ok(page(&Trace::read(input)?, options))
}

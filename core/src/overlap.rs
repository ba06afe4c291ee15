//! The check for copies whose two sides share bytes, which are refused.

use crate::error::{ErrorKind, Result};
use crate::memory::access::Access;
use crate::operation::Step;
use crate::region::Region;

/// Refuses a copy between regions that share bytes. They lie within their accesses, each from its
/// first byte on.
///
/// # Errors
/// If they overlap.
pub fn refuse_overlap(
    source: &Access<'_>,
    destination: &Access<'_>,
    row: u64,
    steps: &[Step],
) -> Result<()> {
    if !std::ptr::eq(source.memory, destination.memory) {
        return Ok(());
    }
    let from = steps.iter().map(|step| (step.count, step.source_stride));
    let to = steps
        .iter()
        .map(|step| (step.count, step.destination_stride));
    let from = Region::new(source.offset, row, from);
    if !from.meets(&Region::new(destination.offset, row, to)) {
        return Ok(());
    }
    Err(ErrorKind::InvalidArgument {
        what: "copy",
        problem: "source and destination overlap; copy through another buffer".to_owned(),
    }
    .into())
}

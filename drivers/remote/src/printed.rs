//! What kernels on the node print.
//!
//! The thread that receives writes it, so it is written before the end of the command that printed it is known. An output that
//! takes nothing for a while holds back what comes from the node, as it holds back kernels of a processor here.

use crate::link::Link;
use quipu_protocol::message::Printed;
use quipu_scheduler::panics::quietly;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes after which what was printed is acknowledged, if nothing else is sent: far less than a node keeps.
const ACKNOWLEDGED: usize = 1 << 16;

/// Bytes since something was last sent for them.
#[derive(Default)]
pub(crate) struct Unacknowledged(AtomicUsize);

impl Unacknowledged {
    /// True if it is time to acknowledge.
    fn add(&self, bytes: usize) -> bool {
        let is_due = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes >= ACKNOWLEDGED;
        if is_due {
            self.0.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

impl Link {
    /// Prints what kernels on the node have printed.
    pub(crate) fn printed(&self, printed: &Printed<'_>) {
        if printed.lost > 0 {
            let (node, bytes) = (&self.node, printed.lost);
            quietly(|| {
                tracing::warn!(
                    node,
                    bytes,
                    "kernels have printed more than could be sent; this much of it is lost"
                );
            });
        }
        quipu_clc::print_for_kernels(printed.bytes);
        if self.unacknowledged_text.add(printed.bytes.len()) {
            self.flush();
        }
    }
}

//! The output of kernels on the node.
//!
//! The thread that receives writes it, so it is written before the end of the command that printed
//! it is known. An output that takes nothing for a while holds back what comes from the node, as it
//! holds back kernels of a processor here.

use crate::link::Link;
use quipu_protocol::message::{CreateProgram, Printed};
use quipu_scheduler::panics::quietly;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes after which what was printed is acknowledged, if nothing else is sent: far less than a
/// node keeps.
const ACKNOWLEDGED: usize = 1 << 16;

/// The text of kernels, as far as it is expected and not acknowledged.
#[derive(Default)]
pub(crate) struct Text {
    /// A program was sent that may print.
    is_expected: AtomicBool,
    /// Bytes since something was last sent for them.
    unacknowledged: AtomicUsize,
}

impl Text {
    /// A program is sent.
    pub(crate) fn expect_of(&self, create: &CreateProgram<'_>) {
        if create.may_print() {
            self.is_expected.store(true, Ordering::Relaxed);
        }
    }

    /// True if it is time to acknowledge.
    fn add(&self, bytes: usize) -> bool {
        let is_due =
            self.unacknowledged.fetch_add(bytes, Ordering::Relaxed) + bytes >= ACKNOWLEDGED;
        if is_due {
            self.unacknowledged.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

impl Link {
    /// Prints what kernels on the node have printed. False if there is none that may print.
    pub(crate) fn printed(&self, printed: &Printed<'_>) -> bool {
        if !self.text.is_expected.load(Ordering::Relaxed) {
            return false;
        }
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
        if self.text.add(printed.bytes.len()) {
            self.flush();
        }
        true
    }
}

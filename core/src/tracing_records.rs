//! Records of the trace, made from finished commands.

use crate::command::EventId;
use crate::command::slot::{Kind, Slot, Times};
use crate::error::Error;
use crate::panics::quietly;
use crate::trace::{self, CommandKind, CommandRecord};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The numbers of traced commands that are not over. Trace numbers count up;
/// event ids do not.
fn numbers() -> MutexGuard<'static, HashMap<EventId, u64>> {
    static NUMBERS: OnceLock<Mutex<HashMap<EventId, u64>>> = OnceLock::new();
    NUMBERS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Gives a command under construction its number in the trace.
pub(crate) fn number(id: EventId) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if trace::enabled() {
        numbers().insert(id, number);
    }
    number
}

/// The number of a traced command that is not over.
pub(crate) fn number_of(id: EventId) -> Option<u64> {
    numbers().get(&id).copied()
}

/// Records a finished command, if tracing is on.
pub(crate) fn record(slot: &Slot, id: EventId, times: &Times, failed: Option<&Error>) {
    if !trace::enabled() {
        return;
    }
    numbers().remove(&id);
    let Some(vtable) = slot.vtable.get() else {
        return;
    };
    let kind = match vtable.kind {
        Kind::Launch => CommandKind::Launch,
        Kind::Copy => CommandKind::Copy,
        Kind::Fill => CommandKind::Fill,
        Kind::Write => CommandKind::Write,
        Kind::Read => CommandKind::Read,
        Kind::Migrate => CommandKind::Migrate,
        Kind::Marker => CommandKind::Marker,
        Kind::Barrier => CommandKind::Barrier,
        Kind::HostTask => CommandKind::HostTask,
        Kind::NativeCall | Kind::NativeEnqueue => CommandKind::Native,
        Kind::Map => CommandKind::Map,
        Kind::Graph => CommandKind::Graph,
        Kind::UserEvent => return,
    };
    let Some(place) = slot.queue.get() else {
        return;
    };
    // SAFETY: the command's byte is not set yet, so it is not over for its queue.
    let queue = unsafe { place.in_use() };
    let name = match slot.extension().and_then(|e| e.label.clone()) {
        Some(label) => trace::Name::from(label),
        None => trace::Name::from(times.name),
    };
    let mut record = CommandRecord::new(times.number.load(Ordering::Relaxed), kind, name);
    record.queue = queue.id();
    record.device = queue.head().device.as_ref().map_or(0, |device| device.id);
    record.worker = times.lane.load(Ordering::Relaxed);
    record.bytes = times.bytes;
    record.queued_ns = times.queued.load(Ordering::Relaxed);
    record.submitted_ns = times.submitted.load(Ordering::Relaxed);
    record.started_ns = times.started.load(Ordering::Relaxed);
    record.ended_ns = times.ended.load(Ordering::Relaxed);
    if vtable.kind == Kind::Graph && vtable.needs_no_device {
        // No device has run it: the commands are shown themselves.
        record.started_ns = record.ended_ns;
    }
    // The text of a user's error is a user's code, and the command is in the middle of its end.
    record.failed = failed.map(|error| {
        let mut text = "failed, with an error whose text panics".to_owned();
        quietly(|| text = error.to_string());
        text
    });
    record.waits = std::mem::take(
        &mut *times
            .waits
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    );
    trace::record(record);
}

//! The first context of a process, made while its thread unwinds: the panic hook cannot be changed
//! there. A process of its own, with one test.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::driver::Notification;
use quipu_scheduler::panics::text_of;
use quipu_scheduler::{Context, Device, DeviceProperties, Driver};
use std::panic::catch_unwind;
use std::sync::Arc;

mod devices;

struct Idle;

// SAFETY: it does nothing with commands, and gets none.
unsafe impl Driver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("idle")
    }

    fn notify(&self, _: Notification) {}
}

fn context() -> Context {
    let driver: Arc<dyn Driver> = Arc::new(Idle);
    Context::new(&Device::all_of(&driver).unwrap()).unwrap()
}

/// Makes a context as it is dropped.
struct Makes;

impl Drop for Makes {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        drop(context());
    }
}

#[test]
fn the_first_context_may_be_made_in_a_thread_that_unwinds() {
    let unwound = catch_unwind(|| {
        let _makes = Makes;
        panic!("on purpose");
    });
    assert!(unwound.is_err());
    // A later one has the places of panics noted.
    drop(context());
    let panic = catch_unwind(|| panic!("a task's")).unwrap_err();
    let text = text_of(panic);
    assert!(
        text.starts_with("a task's, at ") && text.contains("unwinding.rs"),
        "{text}"
    );
}

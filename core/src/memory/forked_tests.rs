//! Tests: calls end in a child of `fork` whose parent had the locks that they take.

use super::owner::Owner;
use crate::driver::Notification;
use crate::error::ErrorKind;
use crate::{
    Context, Device, DeviceKind, DeviceProperties, Driver, Recording, Result, SpaceId, process,
};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

struct Idle;

// SAFETY: it runs no command.
unsafe impl Driver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties::new(DeviceKind::Accelerator, "idle")]
    }

    fn notify(&self, notification: Notification) {
        drop(notification);
    }
}

/// True if `work` ends in a child, and says that all is well.
fn is_well_in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls Quipu alone, which takes care of that.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: the call takes a number. It ends a child that hangs.
            unsafe { libc::alarm(60) };
            let is_well = process::is_forked() && work();
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is there until the call returns.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        }
    }
}

fn is_told<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| matches!(error.kind(), ErrorKind::Forked { .. }))
}

#[test]
fn no_call_waits_in_a_child_for_a_lock_of_another_thread() {
    let driver: Arc<dyn Driver> = Arc::new(Idle);
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let memory = context.memory(64).unwrap();
    let recording = Mutex::new(Some(Recording::new(&context)));
    let kept = Arc::new(());
    let drop_kept = || {
        context.drop_after_users(&memory, kept.clone());
        Arc::strong_count(&kept) == 2
    };
    let finish = || is_told(recording.lock().unwrap().take().unwrap().finish());
    let calls: [(&str, &dyn Fn() -> bool); 11] = [
        ("label", &|| !memory.label().is_empty()),
        ("set_label", &|| {
            memory.set_label("child's");
            true
        }),
        ("content_size", &|| memory.content_size().is_none()),
        ("set_element_size", &|| {
            memory.set_element_size(4);
            true
        }),
        ("allocated_in", &|| memory.allocated_in().is_empty()),
        ("host_pointer", &|| is_told(memory.host_pointer())),
        ("is_unshared", &|| !memory.is_unshared(1)),
        ("bytes_in", &|| context.bytes_in(SpaceId::HOST) == 0),
        ("drop_after_users", &drop_kept),
        ("free_memory", &|| devices[0].free_memory().is_none()),
        ("finish", &finish),
    ];
    let (tell, told) = channel();
    let (release, released) = channel::<()>();
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _cold = memory.cold();
            let _tracker = memory.tracker();
            let mut hold = Some((tell, released));
            context.shared().objects().for_each(|_| {
                if let Some((tell, released)) = hold.take() {
                    tell.send(()).unwrap();
                    // An error, as nobody sends.
                    let _ = released.recv();
                }
            });
        });
        told.recv().unwrap();
        let failed = calls.iter().filter(|(_, call)| !is_well_in_child(call));
        let failed: Vec<&str> = failed.map(|(name, _)| *name).collect();
        drop(release);
        failed
    });
    assert!(failed.is_empty(), "not in a child of fork: {failed:?}");
}

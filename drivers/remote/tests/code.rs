//! The types of code that a node's devices take.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_cpu::SerialDriver;
use quipu_kernel_ir::{KernelText, Module};
use quipu_node::Limits;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::{Device, DeviceProperties, Driver, MemorySpace, Result};
use std::any::TypeId;
use std::sync::Arc;
use support::Rig;

/// A device that takes code of one type alone.
struct Of(&'static str, TypeId);

// SAFETY: it runs no command.
unsafe impl Driver for Of {
    fn name(&self) -> &'static str {
        self.0
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let like = SerialDriver::new().devices().remove(0);
        vec![DeviceProperties {
            memory: MemorySpace::Host,
            ..like
        }]
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        waiter.sleep();
        Ok(())
    }

    fn notify(&self, _: Notification) {}

    fn runs_native_code(&self) -> bool {
        false
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == self.1
    }
}

#[test]
fn each_device_of_a_node_takes_what_it_takes_there() {
    let [modules, texts] = [TypeId::of::<Module>(), TypeId::of::<KernelText>()];
    let device = |name, of| {
        let driver: Arc<dyn Driver> = Arc::new(Of(name, of));
        Device::all_of(&driver).unwrap().remove(0)
    };
    let devices = vec![device("modules", modules), device("texts", texts)];
    let rig = Rig::new(devices, Limits::default());
    let takes = |of: TypeId| {
        let devices = rig.devices();
        let takes = |device: &Device| device.driver().device_takes_code(device.index(), of);
        devices.iter().map(takes).collect::<Vec<_>>()
    };
    assert_eq!(takes(modules), [true, false]);
    assert_eq!(takes(texts), [false, true]);
}

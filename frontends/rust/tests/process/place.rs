//! Devices for the tests, one of each driver, each with the platform that it needs.

use crate::loopback::Loopback;
use quipu::prelude::*;
use quipu::serve::Kernels;
use quipu::simulation::Configuration;

pub(crate) const DRIVERS: [&str; 5] = ["cpu", "serial", "sim", "opencl", "remote"];

/// The message where there is no such device.
pub(crate) const NOT_HERE: &str = "there is no such device";

/// A queue of a device, and what keeps it.
pub(crate) struct Place {
    pub(crate) context: Context,
    pub(crate) queue: Queue,
    _node: Option<Loopback>,
}

/// The embedded drivers alone, as the platform's builder.
pub(crate) fn embedded() -> quipu::PlatformBuilder {
    Platform::builder()
        .cuda(false)
        .opencl(false)
        .without_nodes()
}

impl Place {
    /// A device of this driver. Where there is none, the process says so and ends.
    pub(crate) fn of(driver: &str) -> Self {
        let platform = match driver {
            "remote" => return Self::on_a_node(),
            "sim" => Platform::builder()
                .without_embedded()
                .simulated(Configuration::separate_memory(1, 1 << 24))
                .build(),
            "opencl" => Platform::builder().without_embedded().opencl(true).build(),
            _ => embedded().build(),
        };
        let Ok(device) = platform.unwrap().device(driver) else {
            println!("{NOT_HERE}");
            std::process::exit(0);
        };
        let context = device.context().unwrap();
        Self {
            queue: context.queue(&device).unwrap(),
            context,
            _node: None,
        }
    }

    fn on_a_node() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Loopback::start(Kernels::new(), &folder);
        Self {
            context: node.context.clone(),
            queue: node.remote.clone(),
            _node: Some(node),
        }
    }
}

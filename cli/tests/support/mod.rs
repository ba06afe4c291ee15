//! Helpers that tests of the command share.

use quipu::serve::{Kernels, Server, Serving};
use std::path::Path;

/// A node called lab, in this process, whose only device is an accelerator.
pub(crate) fn accelerator(folder: &Path) -> Serving {
    let devices = || {
        let platform = quipu::Platform::builder().without_embedded();
        let platform = platform.driver(abacus::Abacus::new()).build()?;
        Ok(platform.devices().to_vec())
    };
    let server = Server::new(Kernels::new())
        .devices(devices)
        .folder(folder)
        .address("127.0.0.1:0")
        .name("lab")
        .one_process();
    server.start().unwrap()
}

//! A program that serves its kernels, and a client of it: here both are one program.

use quipu::drivers::remote::paired;
use quipu::prelude::*;
use quipu::serve::{Kernels, Server};
use std::time::Duration;

/// How long the node may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

/// Offers this machine's devices, with the kernel above, and launches it there.
pub fn main() -> quipu::Result<()> {
    let keys = std::env::temp_dir().join(format!("quipu-15-serve.{}", std::process::id()));
    let kernels = Kernels::new().with::<saxpy, _>();
    let server = Server::new(kernels)
        .address("127.0.0.1:0")
        .folder(keys.join("node"));
    // Without `one_process` each client has a process of its own, which is this program, started
    // anew.
    let serving = server.one_process().start()?;

    // On another machine, `quipu pair` does this once, and `QUIPU_NODES` asks for the node.
    let line = serving.invite()?;
    let node = paired::pair(&keys.join("client"), &line, PATIENCE)?;
    let driver = paired::connect_from(&keys.join("client"), &node, PATIENCE)?;
    let platform = Platform::builder()
        .without_embedded()
        .driver(driver)
        .build()?;

    // From here on it is a device as any.
    let context = platform.context()?;
    let queue = context.queue(&context.fastest())?;
    let x = context.buffer(&[1.0, 2.0, 3.0])?;
    let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
    queue.launch(x.len(), saxpy(2.0, &x, &mut y))?;

    let y = queue.read(&y)?.wait()?;
    println!("{y:?} from {} of {}", queue.device().name(), node.name);
    assert_eq!(y, [12.0, 24.0, 36.0]);
    drop(serving);
    std::fs::remove_dir_all(keys).expect("the keys' folder was made above");
    Ok(())
}

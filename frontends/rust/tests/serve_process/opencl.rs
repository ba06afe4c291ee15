//! A node's devices whose drivers compile, those of OpenCL and of CUDA: kernels are texts, or
//! kernels of the node's program as the driver prints them. The compiler works in the sandbox of
//! the session's process.

use crate::forms;
use crate::kernels::{region, scale, served};
use crate::loopback::Loopback;
use quipu::prelude::*;
use quipu::serve::Server;
use quipu::{DeviceKind, ErrorKind, PlatformBuilder};
use std::path::Path;

/// The devices of a driver.
#[derive(Clone, Copy)]
pub(crate) struct Devices {
    /// The argument by which this program is started for a session of a node of these devices.
    pub(crate) session: &'static str,
    name: &'static str,
    find: fn() -> quipu::Result<Vec<Device>>,
    /// The advice to a machine without such devices; none if tests may leave them out.
    wanted: fn() -> Option<&'static str>,
}

pub(crate) const ALL: [Devices; 2] = [
    Devices {
        session: "--opencl",
        name: "OpenCL",
        find: || all_of(Platform::builder().without_embedded().opencl(true)),
        wanted: || {
            let without = std::env::var("QUIPU_TEST_WITHOUT_OPENCL");
            let may_be_absent = without.is_ok_and(|value| value == "1");
            (!may_be_absent).then_some(
                "Install one (Debian: pocl-opencl-icd ocl-icd-libopencl1), or set QUIPU_TEST_WITHOUT_OPENCL=1",
            )
        },
    },
    Devices {
        session: "--cuda",
        name: "CUDA",
        find: || all_of(Platform::builder().without_embedded().cuda(true)),
        wanted: || {
            let is_wanted = std::env::var("QUIPU_TEST_CUDA").is_ok();
            is_wanted.then_some("QUIPU_TEST_CUDA is set")
        },
    },
];

fn all_of(platform: PlatformBuilder) -> quipu::Result<Vec<Device>> {
    let platform = platform.build_available();
    if platform.devices().is_empty() {
        return Err(platform.unavailable()[0].error.clone());
    }
    Ok(platform.devices().to_vec())
}

pub(crate) fn server(devices: Devices, folder: &Path) -> Server {
    Server::new(served())
        .address("127.0.0.1:0")
        .name("node")
        .folder(folder.join("node"))
        .devices(devices.find)
        .session_arguments([devices.session])
}

/// Checks a node, if there is such a device here.
pub(crate) fn check(
    devices: Devices,
    serving: quipu::Result<quipu::serve::Serving>,
    folder: &Path,
) {
    let serving = match serving {
        Ok(serving) => serving,
        Err(why) => {
            if let Some(wanted) = (devices.wanted)() {
                panic!("{why}\n{wanted}");
            }
            eprintln!(
                "\n*** NOT TESTED: {} devices of nodes. {why}\n",
                devices.name
            );
            return;
        }
    };
    let node = Loopback::of(serving, folder.to_owned());
    // The driver `cuda` compiles texts by clang and LLVM.
    if devices.name == "OpenCL" || quipu_clc::is_available() {
        texts(&node);
        errors(&node);
    } else {
        eprintln!("\n*** NOT TESTED: OpenCL C on CUDA devices of nodes. There is no LLVM.\n");
    }
    // What is computed to the same bits on every device, of one launch after another, also of the
    // same program.
    for _ in 0..2 {
        numbers(&node);
    }
    // Of processors it has all that the language has.
    if node.remote.device().kind() == DeviceKind::Cpu {
        forms::blocks(&node);
        forms::planes(&node);
    }
}

const TEXT: &str = "
kernel void scale(float a, global const float *x, global float *y, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + OFFSET;
}
kernel void broken(global float *y) {
    y[0] = nowhere;
}
";

fn texts(node: &Loopback) {
    let whole = TEXT.split("kernel void broken").next().unwrap();
    let scale = node
        .context
        .program(whole)
        .options("-D OFFSET=0.5f")
        .kernel("scale");
    let x = node.context.buffer(&[1.0_f32, 2.0, 3.0]).unwrap();
    for factor in [2.0_f32, 10.0] {
        let mut y = node.context.allocate::<f32>(3).unwrap();
        // SAFETY: these are its parameters, and it minds the length.
        let call = unsafe { scale.call((factor, &x, &mut y, 3_u32)) };
        node.remote.launch(3, call).unwrap();
        let y = node.remote.read(&y).unwrap().wait().unwrap();
        assert_eq!(y, [1.0, 2.0, 3.0].map(|x| factor * x + 0.5));
    }
}

fn errors(node: &Loopback) {
    let program = node.context.program(TEXT).options("-D OFFSET=0.5f");
    let mut y = node.context.allocate::<f32>(1).unwrap();
    // SAFETY: it is not compiled.
    let call = unsafe { program.kernel("broken").call((&mut y,)) };
    let error = node
        .remote
        .launch(1, call)
        .and_then(|event| event.wait())
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
    // The compiler's own words come along.
    let text = error.to_string();
    assert!(
        text.contains("nowhere") && text.contains("node 'node'"),
        "{text}"
    );
    let good = node
        .context
        .program("kernel void good(global float *y) { y[0] = 1.0f; }");
    let mut y = node.context.allocate::<f32>(1).unwrap();
    // SAFETY: there is none of this name.
    let call = unsafe { good.kernel("bad").call((&mut y,)) };
    let error = node
        .remote
        .launch(1, call)
        .and_then(|event| event.wait())
        .unwrap_err();
    assert!(error.to_string().contains("bad"), "{error}");
    // It goes on.
    let mut y = node.context.allocate::<f32>(1).unwrap();
    // SAFETY: this is its parameter.
    let call = unsafe { good.kernel("good").call((&mut y,)) };
    node.remote.launch(1, call).unwrap();
    assert_eq!(node.remote.read(&y).unwrap().wait().unwrap(), [1.0]);
}

fn numbers(node: &Loopback) {
    node.same(|context, queue| {
        let mut y = context.buffer_from((0..1000).collect::<Vec<u64>>())?;
        queue.launch(1000, scale(3_u64, &mut y))?;
        Ok(y)
    });
    node.same(|context, queue| {
        let x = context.buffer_from((0..28).collect::<Vec<i32>>())?;
        let y = context.allocate::<i32>(3 * 4 * 7)?;
        let x = x.view(Layout::dense([4, 7])?)?;
        let mut all = y.view(Layout::dense([3, 4, 7])?)?;
        queue.launch([3, 4, 7], region(&x, &mut all))?;
        Ok(y)
    });
}

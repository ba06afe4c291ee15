//! Programs that serve: clients launch their kernels as they do here, and get the same bits.
#![allow(
    clippy::unwrap_used,
    clippy::manual_div_ceil,
    reason = "tests say what they expect by failing, and kernels have no `div_ceil`"
)]

mod forms;
mod kernels;
mod loopback;

use kernels::{never_served, scale, served};
use loopback::Loopback;
use quipu::ErrorKind;
use quipu::serve::{Kernels, Server};
use std::fmt::Write as _;

#[test]
fn a_node_computes_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    forms::check(&node);
}

/// The node is gone: the context goes on with its other device, and so does one without the node.
#[test]
fn a_node_that_is_lost_leaves_the_others_and_a_new_platform_finds_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    let Loopback {
        remote,
        local,
        context,
        serving,
        folder: path,
    } = node;
    let there = context.allocate::<u32>(8).unwrap();
    there.set_label("sums");
    remote.fill(&there, 3).unwrap().wait().unwrap();
    drop(serving);
    let other = context.allocate::<u32>(8).unwrap();
    let error = remote
        .fill(&other, 4)
        .and_then(|event| event.wait())
        .unwrap_err();
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("other devices go on"), "{error}");
    let error = local.read(&there).unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("'sums'"), "{error}");
    local.fill(&there, 6).unwrap();
    assert_eq!(local.read(&there).unwrap().wait().unwrap(), [6; 8]);
    assert!(quipu::Context::new(context.devices()).is_err());
    let without = quipu::Context::new(&[local.device().clone()]).unwrap();
    let own = without.buffer(&[1_u32; 8]).unwrap();
    without
        .queue(local.device())
        .unwrap()
        .fill(&own, 2)
        .unwrap()
        .wait()
        .unwrap();
    drop((remote, local, context));
    // The node is there again, for a new platform.
    let next = loopback::server(served(), &path)
        .one_process()
        .start()
        .unwrap();
    let next = Loopback::of(next, path);
    let buffer = next.context.buffer(&[1_u32; 8]).unwrap();
    next.remote.fill(&buffer, 2).unwrap().wait().unwrap();
}

#[test]
fn a_kernel_that_the_node_does_not_have_fails_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    let mut y = node.context.buffer(&[1.0_f32; 8]).unwrap();
    let error = node
        .remote
        .launch(8, never_served(&mut y))
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
    let text = error.to_string();
    for part in ["never_served", "built with the same kernel"] {
        assert!(text.contains(part), "{text}");
    }
    // Of a generic kernel it has some types, and not others.
    let mut y = node.context.buffer(&[1_u16; 8]).unwrap();
    let error = node.remote.launch(8, scale(2_u16, &mut y)).unwrap().wait();
    assert!(error.unwrap_err().to_string().contains("scale"));
    // Nothing else is lost.
    let mut y = node.context.buffer(&[3.0_f32; 8]).unwrap();
    node.remote.launch(8, scale(2.0_f32, &mut y)).unwrap();
    assert_eq!(node.remote.read(&y).unwrap().wait().unwrap(), [6.0; 8]);
    // What a launch allows is nothing that kernels are told apart by.
    // SAFETY: there are no indices.
    let call = unsafe { scale(2.0_f32, &mut y).fast_math().unchecked() };
    node.remote.launch(8, call).unwrap();
    assert_eq!(node.remote.read(&y).unwrap().wait().unwrap(), [12.0; 8]);
}

#[test]
fn kernels_are_found_by_what_they_are() {
    let kernels = Kernels::new().with::<scale<f32>, _>();
    assert!(Kernels::new().is_empty() && kernels.len() == 1);
    assert_eq!(served().and(kernels).len(), served().len() + 1);
    let mut listed = String::new();
    write!(listed, "{:?}", Kernels::new().with::<scale<f32>, _>()).unwrap();
    assert_eq!(listed, r#"["scale"]"#);
    served().check().unwrap();
}

#[test]
fn who_may_come_in_is_asked_listed_and_sent_away() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    assert_eq!(node.serving.clients().unwrap().len(), 1);
    let name = node.serving.clients().unwrap().remove(0);
    assert_eq!(node.serving.sessions(), 1);
    let error = node.serving.revoke("nobody").unwrap_err();
    assert!(error.to_string().contains("nobody"), "{error}");
    node.serving.revoke(&name).unwrap();
    assert!(node.serving.clients().unwrap().is_empty());
}

#[test]
fn what_cannot_be_served_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = || {
        Server::new(served())
            .folder(folder.path().join("node"))
            .one_process()
    };
    let text = |server: Server| server.start().unwrap_err().to_string();
    let error = text(server().address("nowhere"));
    assert!(
        error.contains("nowhere") && error.contains("host:port"),
        "{error}"
    );
    let none = server().address("127.0.0.1:0").devices(|| Ok(Vec::new()));
    assert!(text(none).contains("no device"));
    let failing = server().address("127.0.0.1:0").devices(|| {
        let platform = quipu::Platform::builder().without_embedded().build()?;
        platform.device("cpu").map(|device| vec![device])
    });
    assert!(text(failing).contains("no device is called 'cpu'"));
    let other = loopback::taken();
    let address = other.local_addr().unwrap().to_string();
    assert!(text(server().address(&address)).contains(&address));
    let _first = server().address("127.0.0.1:0").start().unwrap();
    let error = text(server().address("127.0.0.1:0"));
    let process = format!("process {} serves a node from", std::process::id());
    assert!(error.contains(&process), "{error}");
}

#[test]
fn an_invitation_is_good_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    let line = node.serving.invite().unwrap();
    let folder = |name| node.folder.join(name);
    let pair =
        |name| quipu::drivers::remote::paired::pair(&folder(name), &line, loopback::PATIENCE);
    pair("second").unwrap();
    let error = pair("third").unwrap_err().to_string();
    assert!(error.contains("pair with a node"), "{error}");
    let error =
        quipu::drivers::remote::paired::pair(&folder("fourth"), "nonsense", loopback::PATIENCE);
    assert!(error.is_err());
}

/// Modes of these numbers, of which some may be none.
fn modes(numbers: [u32; 4]) -> Vec<kernels::Mode> {
    let mut modes = vec![kernels::Mode::Add; 4];
    for (mode, number) in modes.iter_mut().zip(numbers) {
        // SAFETY: as many bytes. What is no mode is only sent.
        unsafe { std::ptr::from_mut(mode).cast::<u32>().write(number) };
    }
    modes
}

#[test]
fn memory_is_looked_at_for_each_launch_of_those_that_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let node = Loopback::start(served(), &folder);
    let flags = node.context.buffer(&[true, false]).unwrap();
    let mut y = node.context.buffer_from(vec![true; 8]).unwrap();
    let all = node.context.allocate::<kernels::Mode>(4).unwrap();
    let (good, bad) = ([1, 5, 1, 5], [1, 5, 7, 5]);
    for numbers in [good, bad, bad, good, good, bad] {
        let written = node.remote.write(&all, modes(numbers)).unwrap();
        written.wait().unwrap();
        let call = kernels::choose(&all, &flags, &mut y);
        let launched = node.remote.launch(8, call).unwrap().wait();
        assert_eq!(launched.is_ok(), numbers == good, "{launched:?}");
        // What has failed has left what it wrote void.
        node.remote.fill(&y, true).unwrap().wait().unwrap();
    }
}

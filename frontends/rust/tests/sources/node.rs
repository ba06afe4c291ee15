//! A node's sources and decoder: the bytes that stay there, and those that come here.

use super::decoding::{Decoding, is_like};
use super::*;
use quipu::drivers::remote;
use quipu_link::clock::SystemClock;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::{Folder, Key};
use quipu_node::{Node, Options as NodeOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// As long as a machine may be stopped for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node of these devices, behind a way that counts bytes; a context of its devices.
struct Rig {
    _node: Node,
    context: Context,
    bytes: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let of_node = Folder::open(folder.path().join("node")).unwrap();
        let of_client = Folder::open(folder.path().join("client")).unwrap();
        let gate = Gate::new(&of_node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bytes = Arc::new(AtomicU64::new(0));
        let address = count(&listener.local_addr().unwrap().to_string(), &bytes);
        let invitations = Invitations::of(&of_node);
        let invitation = invitations.invite(gate.fingerprint(), &address, &SystemClock);
        let offered = super::builder().build().unwrap();
        let offered = offered.devices().iter();
        let offered = offered.filter(|device| !device.properties().caller_runs);
        let devices = offered.map(|device| device.core().clone()).collect();
        let node = Node::serve(NodeOptions::new(devices), gate, listener).unwrap();
        let key = Key::of(&of_client, "client.key").unwrap();
        invitation
            .unwrap()
            .take_up(&key, "client", PATIENCE)
            .unwrap();
        let options = remote::Options {
            patience: PATIENCE,
            ..remote::Options::new("node", &address, node.fingerprint())
        };
        let driver = remote::connect(&options, &key).unwrap();
        let platform = Platform::builder().without_embedded().driver(driver);
        let context = platform.build().unwrap().context().unwrap();
        Self {
            _node: node,
            context,
            bytes,
            _folder: folder,
        }
    }

    /// Bytes that went either way so far.
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }
}

/// A relay to an address that counts the bytes there and back.
fn count(to: &str, bytes: &Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().to_string();
    let (to, bytes) = (to.to_owned(), Arc::clone(bytes));
    // It ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(std::io::Result::ok) {
            let Ok(node) = TcpStream::connect(&to) else {
                continue;
            };
            let clone = |stream: &TcpStream| stream.try_clone().unwrap();
            for (mut from, mut to) in [(clone(&client), clone(&node)), (node, client)] {
                let _ = to.set_nodelay(true);
                let bytes = Arc::clone(&bytes);
                std::thread::spawn(move || {
                    let mut piece = vec![0; 1 << 16];
                    while let Ok(length @ 1..) = from.read(&mut piece) {
                        bytes.fetch_add(length as u64, Ordering::SeqCst);
                        if to.write_all(&piece[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    own
}

#[test]
fn a_nodes_devices_say_what_they_have_built_in() {
    let rig = Rig::new();
    let here = super::context();
    for name in ["raw", "camera", "decoder"] {
        let (there, here) = (named(&rig.context, name), named(&here, name));
        assert_eq!(there.kind(), DeviceKind::Custom);
        assert_eq!(there.built_in_kernels(), here.built_in_kernels());
        assert!(!there.built_in_kernels().is_empty());
        let error = there.built_in_kernel("nothing").unwrap_err().to_string();
        assert!(
            error.contains(&here.built_in_kernels()[0].to_string()),
            "{error}"
        );
    }
    assert_ne!(rig.context.fastest().kind(), DeviceKind::Custom);
    // Others are refused before anything is sent.
    let queue = rig.context.queue(&named(&rig.context, "camera")).unwrap();
    let text = rig.context.program("kernel void f() {}").kernel("f");
    // SAFETY: it never runs.
    let error = queue.launch(1, unsafe { text.call(()) }).unwrap_err();
    assert!(error.to_string().contains("next_frame"), "{error}");
}

/// A frame goes from the source to the decoder where they are: of what they do only words are sent.
#[test]
fn frames_are_decoded_where_they_are() {
    const FRAMES: u64 = 50;
    let rig = Rig::new();
    let mut camera = Stream::new(&rig.context, "camera", 1 << 20);
    let mut decoding = Decoding::new(&rig.context, 1 << 20);
    camera.next().unwrap().wait().unwrap();
    let decode = |camera: &Stream, decoding: &mut Decoding| {
        decoding
            .picture("decode_jpeg", &camera.frame, &camera.size)
            .unwrap()
    };
    decode(&camera, &mut decoding).wait().unwrap();
    let before = rig.bytes();
    for _ in 1..FRAMES {
        camera.next().unwrap();
        decode(&camera, &mut decoding);
    }
    rig.context.wait().unwrap();
    let each = (rig.bytes() - before) / (FRAMES - 1);
    // Two launches, each with five parameters at most, and two ends, with what TLS adds.
    assert!(each < 1200, "{each} bytes for each frame");
    let (pixels, shape) = decoding.result();
    assert_eq!(shape, [HEIGHT as u32, WIDTH as u32, 3]);
    let here = super::context();
    let mut raw = Stream::new(&here, "raw", WIDTH * HEIGHT * 3);
    for _ in 0..FRAMES {
        raw.next().unwrap();
    }
    assert!(is_like(&pixels, &raw.bytes()));
}

/// Bytes that make no sense fail there, and the session goes on.
#[test]
fn a_node_outlives_what_makes_no_sense() {
    let rig = Rig::new();
    let mut decoding = Decoding::new(&rig.context, 1 << 16);
    for bytes in [
        &b"nothing of the kind"[..],
        &[0xff, 0xd8, 0xff, 0xe1, 0xff, 0xff],
    ] {
        let size = rig.context.buffer(&[bytes.len() as u64]).unwrap();
        let data = rig.context.buffer(bytes).unwrap();
        for kernel in ["decode_jpeg", "decode_png"] {
            let event = decoding.picture(kernel, &data, &size).unwrap();
            let error = event.wait().unwrap_err().to_string();
            assert!(error.contains(kernel), "{error}");
        }
    }
    let mut camera = Stream::new(&rig.context, "camera", 1 << 20);
    camera.next().unwrap();
    let event = decoding.picture("decode_jpeg", &camera.frame, &camera.size);
    event.unwrap().wait().unwrap();
}

/// Only bytes in use are read, written, copied and brought from one side to the other.
#[test]
fn only_what_is_in_use_is_sent() {
    const ROOM: usize = 1 << 20;
    const USED: usize = 3000;
    // What is in use, four times at most, and some words.
    const MOST: u64 = 4 * USED as u64 + 8000;
    let rig = Rig::new();
    let there = rig.context.queue(&rig.context.fastest()).unwrap();
    let check = |what: &str, done: &mut dyn FnMut()| {
        rig.context.wait().unwrap();
        let before = rig.bytes();
        done();
        rig.context.wait().unwrap();
        let bytes = rig.bytes() - before;
        assert!(bytes < MOST, "{what} sends {bytes} bytes");
    };
    let whole: Vec<u8> = (0..ROOM).map(|at| at as u8 | 1).collect();
    let mut expected = vec![0; ROOM];
    expected[..USED].copy_from_slice(&whole[..USED]);
    let size = rig.context.buffer(&[USED as u64]).unwrap();
    let buffer = || {
        let buffer = rig.context.allocate::<u8>(ROOM).unwrap();
        // It is there before it has a content size.
        there.fill(&buffer, 0xff).unwrap();
        rig.context.wait().unwrap();
        buffer.set_content_size(Some(&size)).unwrap();
        buffer
    };
    let (one, two, three) = (buffer(), buffer(), buffer());
    check("a write", &mut || {
        there.write(&one, whole.clone()).unwrap().wait().unwrap();
        // Where it is needed.
        touch(&rig.context, &one, &size);
    });
    check("a read", &mut || {
        assert_eq!(there.read(&one).unwrap().wait().unwrap(), expected);
    });
    check("a borrowing write and read", &mut || {
        there.write_slice(&two, &whole).unwrap();
        touch(&rig.context, &two, &size);
        let mut bytes = vec![7; ROOM];
        there.read_slice(&two, &mut bytes).unwrap();
        assert_eq!(bytes, expected);
    });
    check("a copy", &mut || {
        there.copy(&one, &three).unwrap();
        touch(&rig.context, &three, &size);
        assert_eq!(there.read(&three).unwrap().wait().unwrap(), expected);
    });
    check("none in use", &mut || {
        there.fill(&size, 0).unwrap();
        there.write(&two, whole.clone()).unwrap().wait().unwrap();
        touch(&rig.context, &two, &size);
        assert_eq!(there.read(&two).unwrap().wait().unwrap(), vec![0; ROOM]);
    });
}

/// Has a buffer needed at the node: a command there reads it, whatever comes of that.
fn touch(context: &Context, buffer: &Buffer<u8>, size: &Buffer<u64>) {
    let queue = context.queue(&named(context, "decoder")).unwrap();
    let decode = queue.device().built_in_kernel("decode_lz4").unwrap();
    let mut bytes = context.allocate::<u8>(1).unwrap();
    let mut bytes_size = context.allocate::<u64>(1).unwrap();
    let call = decode.call((buffer, size, bytes.overwrite(), bytes_size.overwrite()));
    let _ = queue.launch(1, call).unwrap().wait();
}

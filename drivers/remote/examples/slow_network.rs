//! Compression on networks of several speeds. A node in this process is behind a relay that passes
//! on so many bytes in a second. Transfers are of a picture, of text, of bytes that only Zstandard
//! makes shorter, and of bytes that no codec does.
//!
//! `cargo run --release -p quipu-driver-remote --example slow_network`

use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_driver_remote::{Compression, Options, connect};
use quipu_link::clock::SystemClock;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::{Folder, Key};
use quipu_node::Node;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, QueueOptions};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a transfer.
const BYTES: usize = 8 << 20;
/// Transfers of each kind.
const ROUNDS: usize = 3;

/// A way to an address of so many bytes in a second each way; zero for as many as there are.
fn paced(to: String, rate: f64) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(node) = TcpStream::connect(&to) else {
                continue;
            };
            let ways = [
                (client.try_clone(), node.try_clone()),
                (node.try_clone(), client.try_clone()),
            ];
            for (from, to) in ways {
                let (Ok(mut from), Ok(mut to)) = (from, to) else {
                    continue;
                };
                std::thread::spawn(move || {
                    let _ = to.set_nodelay(true);
                    let (mut piece, mut free) = (vec![0; 1 << 14], Instant::now());
                    while let Ok(length @ 1..) = from.read(&mut piece) {
                        if rate > 0.0 {
                            let took = Duration::from_secs_f64(length as f64 / rate);
                            free = free.max(Instant::now()) + took;
                            std::thread::sleep(free.saturating_duration_since(Instant::now()));
                        }
                        if to.write_all(&piece[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    Ok(own)
}

/// Numbers that look random.
fn random() -> impl FnMut() -> u32 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 32) as u32
    }
}

/// A picture of a camera of 8 bits with some noise, as floats.
fn picture() -> Vec<u8> {
    const WIDTH: usize = 2048;
    let mut random = random();
    let sample = |at: usize| {
        let (x, y) = ((at % WIDTH) as f32 / 2048.0, (at / WIDTH) as f32 / 1024.0);
        let light = 0.5 + 0.3 * (x * 9.0).sin() * (y * 7.0).cos() + 0.1 * ((x - y) * 40.0).sin();
        let noise = (random() % 4) as f32 - 1.5;
        ((light * 255.0 + noise).round() / 255.0).to_le_bytes()
    };
    (0..BYTES / 4).flat_map(sample).collect()
}

/// Lines of a log.
fn text() -> Vec<u8> {
    let mut random = random();
    let mut text = String::with_capacity(BYTES + 100);
    while text.len() < BYTES {
        let [event, queue, kind, length] = [(); 4].map(|()| random() >> 4);
        let kind = ["write", "read", "launch", "copy", "fill"][kind as usize % 5];
        text += &format!(
            "event {event} of queue {}: {kind} of {} bytes is over\n",
            queue % 8,
            length % 100_000
        );
    }
    text.truncate(BYTES);
    text.into_bytes()
}

/// Bytes of which so many bits in each look random.
fn noise(bits: u32) -> Vec<u8> {
    let mut random = random();
    (0..BYTES)
        .map(|_| (random() >> (32 - bits)) as u8)
        .collect()
}

/// Megabytes in a second to the node and back, and what part of the bytes was sent.
fn measure(rate: f64, compression: Compression, sent: &[u8]) -> Result<[f64; 4], Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let of_node = Folder::open(folder.path().join("node"))?;
    let of_client = Folder::open(folder.path().join("client"))?;
    let gate = Gate::new(&of_node, "node", PATIENCE, Arc::new(SystemClock))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = paced(listener.local_addr()?.to_string(), rate)?;
    let invitations = Invitations::of(&of_node);
    let invitation = invitations.invite(gate.fingerprint(), &address, &SystemClock)?;
    let pool: Arc<dyn Driver> = CpuDriver::start(CpuOptions::new())?;
    let options = quipu_node::Options {
        compression,
        ..quipu_node::Options::new(Device::all_of(&pool)?)
    };
    let node = Node::serve(options, gate, listener)?;
    let key = Key::of(&of_client, "client.key")?;
    invitation.take_up(&key, "client", PATIENCE)?;
    let options = Options {
        compression,
        ..Options::new("node", &address, node.fingerprint())
    };
    let remote = connect(&options, &key)?;
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver)?;
    let context = Context::new(&devices)?;
    let queue = context.queue(&devices[0], QueueOptions::default())?;
    let memory = context.memory(BYTES as u64)?;
    let access = |mode| Access {
        memory: &memory,
        offset: 0,
        length: BYTES as u64,
        mode,
    };
    let mut sent = sent.to_vec();
    let mut back = vec![0; BYTES];
    let mut took = [Duration::ZERO; 2];
    // The first is not counted: what is measured on the way is not known yet.
    for round in 0..=ROUNDS {
        let start = Instant::now();
        // SAFETY: kept, and not looked at, until the command is over, which is waited for.
        let from = unsafe { HostMemory::new(sent.as_mut_ptr(), BYTES, None) };
        let to = access(AccessMode::Overwrite);
        queue.write(from, to, BYTES as u64, &[], &[])?.wait()?;
        let middle = Instant::now();
        // SAFETY: as above.
        let to = unsafe { HostMemory::new(back.as_mut_ptr(), BYTES, None) };
        let from = access(AccessMode::Read);
        queue.read(from, to, BYTES as u64, &[], &[])?.wait()?;
        assert!(sent == back, "bytes have changed");
        if round > 0 {
            took[0] += middle - start;
            took[1] += middle.elapsed();
        }
    }
    let speed = took.map(|took| (ROUNDS * BYTES) as f64 / took.as_secs_f64() / 1e6);
    let part = |[plain, sent]: [u64; 2]| sent as f64 / plain as f64;
    let status = node.status()();
    let node = part([status.bulk_bytes, status.bulk_sent]);
    Ok([speed[0], speed[1], part(remote.vendor().bulk_bytes()), node])
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{BYTES} bytes there and back, {ROUNDS} times, in MB/s; what part of all bytes was sent"
    );
    let kinds = [
        ("picture", picture()),
        ("text", text()),
        ("4 bits of 8", noise(4)),
        ("random", noise(8)),
    ];
    let modes = [
        Compression::Off,
        Compression::Lz4,
        Compression::Zstd,
        Compression::Adaptive,
    ];
    for megabytes in [5.0, 20.0, 100.0, 400.0, 0.0] {
        for (what, bytes) in &kinds {
            for compression in modes {
                let [there, back, sent, received] = measure(megabytes * 1e6, compression, bytes)?;
                println!(
                    "{megabytes:>4} MB/s, {what:11} {compression:8} there {there:7.1} ({sent:.2}), back {back:7.1} ({received:.2})",
                );
            }
        }
    }
    Ok(())
}

//! A way to an address on loopback that is as slow as a network: so many bytes in a second each way, each of which takes so
//! long. Nothing is lost on it, and nothing overtaken.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// A network.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// Bytes in a second to the node, and from there.
    pub rates: [f64; 2],
    /// How long a byte takes one way.
    pub delay: Duration,
}

/// Wi-Fi 6 in the same room: 600 Mbit/s either way, 2 ms one way.
pub const WIFI_6: Shape = Shape {
    name: "Wi-Fi 6",
    rates: [75e6, 75e6],
    delay: Duration::from_millis(2),
};

/// 5G below 6 GHz: 50 Mbit/s to the node, 200 from there, 10 ms one way.
pub const FIVE_G: Shape = Shape {
    name: "5G",
    rates: [6.25e6, 25e6],
    delay: Duration::from_millis(10),
};

/// Bytes that are passed on at once.
const PIECE: usize = 1 << 14;
/// Pieces that are on their way: a queue such as networks have.
const QUEUED: usize = 64;

/// A way.
#[derive(Debug)]
pub struct Paced {
    /// Where it begins.
    pub address: String,
    bytes: Arc<AtomicU64>,
}

impl Paced {
    /// A way to an address, for as long as the process runs.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn to(address: &str, shape: Shape) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let paced = Self {
            address: listener.local_addr()?.to_string(),
            bytes: Arc::default(),
        };
        let (to, bytes) = (address.to_owned(), Arc::clone(&paced.bytes));
        std::thread::Builder::new()
            .name("paced".to_owned())
            .spawn(move || {
                for client in listener.incoming().map_while(Result::ok) {
                    // Whoever came finds it closed.
                    let _ = pass_on(client, &to, shape, &bytes);
                }
            })?;
        Ok(paced)
    }

    /// Bytes that went either way so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn pass_on(client: TcpStream, to: &str, shape: Shape, bytes: &Arc<AtomicU64>) -> io::Result<()> {
    let node = TcpStream::connect(to)?;
    let ways = [
        (client.try_clone()?, node.try_clone()?, shape.rates[0]),
        (node, client, shape.rates[1]),
    ];
    for (mut from, mut to, rate) in ways {
        to.set_nodelay(true)?;
        let bytes = Arc::clone(bytes);
        let (queue, queued) = sync_channel::<(Instant, Vec<u8>)>(QUEUED);
        let name = || std::thread::Builder::new().name("paced".to_owned());
        name().spawn(move || {
            let (mut piece, mut free) = (vec![0; PIECE], Instant::now());
            while let Ok(length @ 1..) = from.read(&mut piece) {
                bytes.fetch_add(length as u64, Ordering::Relaxed);
                free = free.max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate);
                if queue.send((free, piece[..length].to_vec())).is_err() {
                    break;
                }
            }
        })?;
        name().spawn(move || {
            for (sent, piece) in queued {
                let due = sent + shape.delay;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&piece).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    Ok(())
}

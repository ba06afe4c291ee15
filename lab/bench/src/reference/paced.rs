//! Ways to addresses on loopback that are together as slow as a network: so many bytes in a second
//! each way, each of which takes so long. Nothing is lost on them, and nothing overtaken.

use super::process::thread_time;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A network.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Bytes in a second to the node, and from there.
    pub rates: [f64; 2],
    /// The time that a byte takes one way.
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

/// A network, which all ways share.
#[derive(Clone, Debug)]
pub struct Paced(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    shape: Shape,
    /// The times at which the next byte can go, to the node and from there.
    free: [Mutex<Instant>; 2],
    bytes: AtomicU64,
    /// Nanoseconds that threads of this have had a processor.
    processor: AtomicU64,
}

impl Paced {
    /// A network of this shape.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let now = Instant::now();
        Self(Arc::new(Shared {
            shape,
            free: [Mutex::new(now), Mutex::new(now)],
            bytes: AtomicU64::new(0),
            processor: AtomicU64::new(0),
        }))
    }

    /// The near end of a route over it to an address, for as long as the process runs.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn to(&self, address: &str) -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let own = listener.local_addr()?.to_string();
        let (to, shared) = (address.to_owned(), Arc::clone(&self.0));
        std::thread::Builder::new()
            .name("paced".to_owned())
            .spawn(move || {
                for client in listener.incoming().map_while(Result::ok) {
                    // Whoever came finds it closed.
                    let _ = pass_on(client, &to, &shared);
                }
            })?;
        Ok(own)
    }

    /// Bytes that went either way so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// The time for which its threads have had a processor so far, which is no time of whom the
    /// network is for.
    #[must_use]
    pub fn processor(&self) -> Duration {
        Duration::from_nanos(self.0.processor.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// The time at which so many bytes have gone in a direction, if they are to go now.
    fn take(&self, direction: usize, bytes: usize) -> Instant {
        let lasts = Duration::from_secs_f64(bytes as f64 / self.shape.rates[direction]);
        let mut free = self.free[direction]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(Instant::now()) + lasts;
        *free
    }

    /// Counts what the calling thread has had of a processor since it last did.
    fn count(&self, before: &mut Duration) {
        let now = thread_time().unwrap_or_default();
        let more = now.saturating_sub(*before).as_nanos();
        self.processor
            .fetch_add(u64::try_from(more).unwrap_or(0), Ordering::Relaxed);
        *before = now;
    }
}

fn pass_on(client: TcpStream, to: &str, shared: &Arc<Shared>) -> io::Result<()> {
    let node = TcpStream::connect(to)?;
    let ways = [
        (client.try_clone()?, node.try_clone()?, 0),
        (node, client, 1),
    ];
    for (mut from, mut to, direction) in ways {
        to.set_nodelay(true)?;
        let [reads, writes] = [Arc::clone(shared), Arc::clone(shared)];
        let (queue, queued) = sync_channel::<(Instant, Vec<u8>)>(QUEUED);
        let name = || std::thread::Builder::new().name("paced".to_owned());
        name().spawn(move || {
            let (mut piece, mut counted) = (vec![0; PIECE], Duration::ZERO);
            while let Ok(length @ 1..) = from.read(&mut piece) {
                reads.bytes.fetch_add(length as u64, Ordering::Relaxed);
                let free = reads.take(direction, length);
                if queue.send((free, piece[..length].to_vec())).is_err() {
                    break;
                }
                reads.count(&mut counted);
            }
        })?;
        name().spawn(move || {
            let mut counted = Duration::ZERO;
            for (sent, piece) in queued {
                let due = sent + writes.shape.delay;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&piece).is_err() {
                    break;
                }
                writes.count(&mut counted);
            }
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    Ok(())
}

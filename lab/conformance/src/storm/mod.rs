//! Storms: several threads of the host share queues, buffers, graphs and events, and enqueue
//! whatever comes.
//!
//! A random graph (see [`graph`](crate::graph)) comes from one thread, so its outcome can be
//! predicted. A storm's order is decided as it happens. What must hold of it whatever happens is
//! checked instead:
//!
//! * *Nothing hangs.* A watchdog ends the process, with the seed and with who waits for whom.
//! * *Hazards hold.* A command that writes bytes is alone with them, and one that reads them sees
//!   the last value written. Each eight bytes of a buffer have a cell on the host that knows what
//!   they hold and who is at them.
//! * *Program order holds.* What one thread enqueues has its effects on the same bytes in that
//!   order.
//! * *Nothing is lost.* At the end all buffers hold what their cells say, and all that was enqueued
//!   has run.
//!
//! A storm passes every threshold of the core if it is built with `--cfg quipu_small_limits`.
//!
//! | file | contents |
//! |---|---|
//! | `cells` | the contents of a buffer, the commands that use them, and the faults that were seen |
//! | `world` | shared by the threads: devices, queues, buffers, graphs, events |
//! | `host` | a thread of the host: which steps it takes |

mod cells;
mod host;
mod world;

use crate::graph::random::Random;
use crate::{Fixture, Watchdog};
use host::Host;
use std::sync::atomic::Ordering;
use std::time::Duration;
use world::World;

/// A storm of some ten thousand commands takes seconds; the process ends after this.
const LAST_RESORT: Duration = Duration::from_secs(300);

/// The properties of a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Threads of the host.
    pub threads: usize,
    /// Steps that each takes. A step enqueues one command mostly, and now and then a hundred.
    pub steps: usize,
}

/// Raises a storm over fresh devices of the fixture. Gives how many commands it ran.
///
/// # Panics
/// If anything is not as it must be, with the seed. A storm that hangs ends the process.
pub fn raise(storm: Storm, seed: u64, fixture: &dyn Fixture) -> u64 {
    let name = format!("the storm of seed {seed:#x} over {}", fixture.name());
    let devices = fixture.devices();
    let mut random = Random::new(seed);
    let world = World::new(&devices, storm.threads, &mut random);
    let watched = world.clone();
    let what = name.clone();
    let _watchdog = Watchdog::describing(LAST_RESORT, move || {
        format!("{what}\n{}", watched.describe())
    });
    let seeds: Vec<u64> = (0..storm.threads).map(|_| random.next()).collect();
    std::thread::scope(|scope| {
        for (number, seed) in seeds.into_iter().enumerate() {
            let host = Host::new(world.clone(), number, seed);
            scope.spawn(move || host.run(storm.steps));
        }
    });
    world.finish();
    let problems = world.log.problems();
    assert!(problems.is_empty(), "{name}: {problems:#?}");
    let (enqueued, ran) = (
        world.enqueued.load(Ordering::SeqCst),
        world.ran.load(Ordering::SeqCst),
    );
    assert_eq!(ran, enqueued, "{name}: of {enqueued} commands {ran} ran");
    enqueued
}

/// Raises the storm of one seed. Gives how many commands it ran.
///
/// # Panics
/// As [`raise`].
pub fn one(seed: u64, fixture: &dyn Fixture) -> u64 {
    let mut random = Random::new(seed);
    let storm = Storm {
        threads: 1 + random.index(4),
        steps: 50 + random.index(600),
    };
    raise(storm, seed, fixture)
}

/// Raises storms until so many commands have run, each from another seed. `progress` is called with
/// the number of commands. `QUIPU_STORM` in the environment sets another number.
///
/// # Panics
/// As [`raise`].
pub fn raise_many(commands: u64, seed: u64, fixture: &dyn Fixture, progress: &mut dyn FnMut(u64)) {
    let commands = std::env::var("QUIPU_STORM")
        .ok()
        .and_then(|commands| commands.parse().ok())
        .unwrap_or(commands);
    let mut seeds = Random::new(seed);
    let mut done = 0;
    while done < commands {
        done += one(seeds.next(), fixture);
        progress(done);
    }
}

//! The cost of the drivers' common part by itself: fills over a library that does nothing, and says
//! at once that all is over. `cargo run --release -p quipu-device-queue --example common_overhead`
//!
//! Nanoseconds of the process's time on all cores per command: the core's part is in there, too.

use quipu_device_queue::batch::Plan;
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::queue::Wake;
use quipu_device_queue::{
    Bytes, Executor, Failure, Flight, Obstacle, Status, Vendor, VendorDevice, VendorDriver, Work,
};
use quipu_kernel_ir::IndexWidth;
use quipu_scheduler::{
    Access, AccessMode, Command, Completion, Context, Device, DeviceKind, DeviceProperties, Driver,
    MemorySpace, QueueOptions, Result, UserEvent, clock,
};
use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CHAIN: usize = 10_000;
/// Lengths of chains that are held back: the longer ones are in no cache.
const HELD: [usize; 2] = [2_000, 10_000];
const ROUNDS: usize = 50;
/// The time without a new batch after which there will be none.
const SETTLED: Duration = Duration::from_millis(20);
const BYTES: u64 = 64;

/// The times at which the last command was put on the device, and at which the device was last
/// asked whether it is over.
static PUT: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// The library refuses nothing.
#[derive(Clone, Debug)]
enum Never {}

impl Failure for Never {
    fn is_loss(&self) -> bool {
        false
    }

    fn is_out_of_memory(&self) -> bool {
        false
    }

    fn text(&self) -> String {
        String::new()
    }
}

struct Null(DeviceProperties);

impl VendorDevice for Null {
    fn properties(&self) -> &DeviceProperties {
        &self.0
    }
}

struct Nothing([Null; 1]);

/// As many bytes as come with a command of CUDA's.
#[derive(Default)]
struct Cargo {
    _bytes: [u64; 8],
}

/// It has no queues.
enum NoQueue {}
impl quipu_scheduler::NativeQueue for NoQueue {
    type Memory = ();
}

type Called<T> = std::result::Result<T, Never>;

impl Vendor for Nothing {
    const NAME: &'static str = "nothing";
    const TITLE: &'static str = "null";
    const INSTEAD: &'static str = "measure something else";

    type Device = Null;
    type Failure = Never;
    type Signal = ();
    type Cargo = Cargo;
    type Compiled = ();
    type Batch = usize;
    type Allocation = ();
    type NativeQueue = NoQueue;

    fn open() -> Result<Self> {
        Ok(Self([Null(DeviceProperties {
            global_memory: 1 << 20,
            max_buffer: 1 << 20,
            memory: MemorySpace::Own(0),
            domain: Some(0),
            ..DeviceProperties::new(DeviceKind::Gpu, "nothing")
        })]))
    }

    fn devices(&self) -> &[Null] {
        &self.0
    }

    fn executor_of(_device: &Null, _command: &Command) -> Executor {
        Executor::Device
    }

    fn put(
        &self,
        work: &Work<'_, Self>,
        _code: Option<CodeRef<'_, ()>>,
        _waits: &[()],
    ) -> std::result::Result<Flight<Self>, Obstacle<Never>> {
        for argument in work.command().arguments() {
            work.bytes(argument)?;
        }
        PUT.store(clock::now_ns(), Ordering::Relaxed);
        Ok(Flight {
            signal: (),
            done: None,
            line: Some(0),
            failure: None,
            error: None,
            cargo: Cargo::default(),
        })
    }

    fn status(&self, _signal: &()) -> Called<Status<Never>> {
        ASKED.store(clock::now_ns(), Ordering::Relaxed);
        Ok(Some(Ok(())))
    }

    fn call_when_over(&self, _signal: &(), wake: Wake) -> Called<()> {
        wake.ring();
        Ok(())
    }

    fn land(&self, _work: &Work<'_, Self>, _flight: Flight<Self>) -> Result<()> {
        Ok(())
    }

    fn note_times(&self, _work: &Work<'_, Self>, _flight: &Flight<Self>, _: u64) -> Option<u64> {
        None
    }

    fn can_be_batched(_command: &Command) -> bool {
        true
    }

    fn make_batch(
        &self,
        _device: &Null,
        plan: &Plan<Self>,
    ) -> std::result::Result<usize, Obstacle<Never>> {
        Ok(plan.commands.len())
    }

    fn put_batch(
        &self,
        _work: &Work<'_, Self>,
        batch: &usize,
        _memories: &[Bytes<'_, Self>],
        _waits: &[()],
    ) -> std::result::Result<Vec<Flight<Self>>, Obstacle<Never>> {
        let flight = || Flight {
            signal: (),
            done: None,
            line: Some(0),
            failure: None,
            error: None,
            cargo: Cargo::default(),
        };
        Ok((0..*batch).map(|_| flight()).collect())
    }

    fn takes_code(&self, _of: TypeId) -> bool {
        false
    }

    fn compile(
        &self,
        _device: &Null,
        _code: &Arc<dyn Any + Send + Sync>,
        _width: IndexWidth,
    ) -> Result<()> {
        Ok(())
    }

    fn reserve(&self, _device: &Null, _size: u64) -> Called<()> {
        Ok(())
    }

    fn release(&self, _device: &Null, _allocation: ()) {}

    fn read(&self, _device: &Null, _from: &(), _offset: u64, _bytes: &mut [u8]) -> Called<()> {
        Ok(())
    }

    fn write(&self, _device: &Null, _to: &(), _offset: u64, _bytes: &[u8]) -> Called<()> {
        Ok(())
    }

    fn has_route(&self, _from: &Null, _to: &Null) -> bool {
        true
    }

    fn native_queue(&self, _device: &Null) -> Option<NoQueue> {
        None
    }
}

/// Nanoseconds that the process has run, on all cores.
fn processor_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for one time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn main() -> Result<()> {
    let driver = VendorDriver::<Nothing>::start()?;
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&dynamic)?;
    let context = Context::new(&devices)?;
    let queue = context.queue(&devices[0], QueueOptions::default())?;
    for (name, count) in [("in a chain", 1), ("in eight chains", 8)] {
        let memories = (0..count).map(|_| context.memory(BYTES));
        let memories: Vec<_> = memories.collect::<Result<_>>()?;
        let round = || -> Result<()> {
            for number in 0..CHAIN {
                let access = Access {
                    memory: &memories[number % count],
                    offset: 0,
                    length: BYTES,
                    mode: AccessMode::Overwrite,
                };
                drop(queue.fill(access, &[7; 4], &[])?);
            }
            queue.wait()
        };
        round()?;
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let before = processor_time();
            round()?;
            times.push((processor_time() - before) / CHAIN as f64);
        }
        times.sort_by(f64::total_cmp);
        let (least, median) = (times[0], times[ROUNDS / 2]);
        println!("{name:<18}{median:8.0} ns per command, at least {least:.0}");
    }
    for completion in [Completion::Callback, Completion::Polling] {
        one_by_one(&context, &devices[0], completion)?;
    }
    held_back(&driver, &context, &queue)
}

/// A command and its wait: the time that passes before it is on the device, then until it is known
/// to be over, and then until the wait returns. A device works during the second.
fn one_by_one(context: &Context, device: &Device, completion: Completion) -> Result<()> {
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    let (queue, memory) = (context.queue(device, options)?, context.memory(BYTES)?);
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..CHAIN {
        let begun = clock::now_ns();
        let access = Access {
            memory: &memory,
            offset: 0,
            length: BYTES,
            mode: AccessMode::Overwrite,
        };
        queue.fill(access, &[7; 4], &[])?.wait()?;
        let ended = clock::now_ns();
        let [put, asked] = [&PUT, &ASKED].map(|at| at.load(Ordering::Relaxed));
        let parts = [ended - begun, put - begun, asked - put, ended - asked];
        for (times, part) in times.iter_mut().zip(parts) {
            times.push(part);
        }
    }
    let [all, before, between, after] = times.map(|mut times| {
        times.sort_unstable();
        times[CHAIN / 2]
    });
    println!(
        "enqueued and waited for, {completion:?}: {all} ns: {before} until it is put, {between} until it is over, \
         {after} after"
    );
    Ok(())
}

/// A chain that a user event holds back: the time that passes from when that lets it go.
fn held_back(
    driver: &VendorDriver<Nothing>,
    context: &Context,
    queue: &quipu_scheduler::Queue,
) -> Result<()> {
    let memory = context.memory(BYTES)?;
    let ways = HELD.map(|length| [true, false].map(|batched| (length, batched)));
    for (length, batched) in ways.into_iter().flatten() {
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let gate = UserEvent::new();
            for number in 0..length {
                let access = Access {
                    memory: &memory,
                    offset: 0,
                    length: BYTES,
                    mode: AccessMode::Overwrite,
                };
                let waits = [gate.event()];
                // A command that waits for the host's own work is not in a batch.
                let all = usize::from(number > 0 && batched);
                drop(queue.fill(access, &[7; 4], &waits[all..])?);
            }
            queue.flush();
            // Until no more become ready: those that seemed to take long are in no batch.
            let (mut ready, mut since) = (0, Instant::now());
            while batched && since.elapsed() < SETTLED {
                let now = driver.batches().ready;
                if std::mem::replace(&mut ready, now) != now {
                    since = Instant::now();
                }
                std::thread::yield_now();
            }
            let begun = Instant::now();
            gate.complete();
            queue.wait()?;
            times.push(begun.elapsed().as_secs_f64() * 1e9 / length as f64);
        }
        times.sort_by(f64::total_cmp);
        let how = if batched {
            let counts = driver.batches();
            format!("in batches ({} made so far)", counts.made)
        } else {
            "one by one".to_owned()
        };
        println!(
            "{length} held back, {how}: {:.0} ns per command from when it is let go, at least {:.0}",
            times[ROUNDS / 2],
            times[0]
        );
    }
    Ok(())
}

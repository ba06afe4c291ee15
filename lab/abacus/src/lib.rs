//! A driver that is no part of Quipu, as anybody may write one: programs register it at run time,
//! as the example `12_driver` does.
//!
//! The device is an *abacus*: it has memory of its own, and a thread that moves its beads, one
//! command after another. The rest of Quipu knows nothing of it but the trait
//! [`Driver`](quipu::driver::Driver), whose documentation has the contract.

#![deny(missing_docs)]

use quipu::driver::{
    Command, Driver, MemorySpace, Notification, Operation, RawArgument, SpaceId, ToDrivers,
    refuse_waits, slab,
};
use quipu::{DeviceKind, DeviceProperties, ErrorKind};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of its memory.
const CAPACITY: u64 = 1 << 20;

/// Its name.
const NAME: &str = "an abacus";

/// The driver of one abacus.
pub struct Abacus {
    /// Its memory: allocations by address.
    beads: Mutex<HashMap<u64, Box<[u128]>>>,
    /// The source of its thread's commands. The thread ends when this is gone.
    ready: Sender<Command>,
    /// Its thread's end of that: locked by the thread for as long as it runs.
    commands: Arc<Mutex<Receiver<Command>>>,
    /// True once its thread is started.
    is_started: Mutex<bool>,
    counts: Arc<Counts>,
}

/// The state that the driver and its thread share.
#[derive(Default)]
struct Counts {
    /// Commands that are not over.
    unfinished: AtomicU64,
    /// Bytes brought to the abacus and back.
    migrated: AtomicU64,
}

/// The place of our allocation's bytes.
fn pointer(address: u64, offset: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut((address + offset) as usize)
}

impl std::fmt::Debug for Abacus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Abacus")
    }
}

impl Abacus {
    /// An abacus without beads. Its thread starts with the first context.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let (ready, commands) = channel();
        Arc::new(Self {
            beads: Mutex::default(),
            ready,
            commands: Arc::new(Mutex::new(commands)),
            is_started: Mutex::default(),
            counts: Arc::default(),
        })
    }

    /// The number of bytes that were brought to the abacus and back.
    #[must_use]
    pub fn migrated(&self) -> u64 {
        self.counts.migrated.load(Ordering::Relaxed)
    }

    /// True if nothing is allocated on it.
    ///
    /// # Panics
    /// Never: nothing panics under the lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.beads().is_empty()
    }

    fn beads(&self) -> MutexGuard<'_, HashMap<u64, Box<[u128]>>> {
        self.beads.lock().expect("nothing panics under it")
    }
}

impl Counts {
    /// The thread's work.
    fn run_all(&self, commands: &Receiver<Command>) {
        // What a host task or a callback waits for here may be a command that needs this thread.
        refuse_waits(Some(
            "the abacus has one thread; wait on another one, or enqueue what comes after",
        ));
        loop {
            let command = match commands.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    // Before it sleeps, it gives back what it has freed.
                    slab::flush();
                    let Ok(command) = commands.recv() else { return };
                    command
                }
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run(&command)));
            let result = outcome.unwrap_or_else(|_| {
                Err(ErrorKind::Panicked {
                    what: command.label().to_owned(),
                    message: "beads everywhere".to_owned(),
                }
                .into())
            });
            command.finish(result, &mut ToDrivers);
            self.unfinished.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn run(&self, command: &Command) -> quipu::Result<()> {
        command.start()?;
        let space = command
            .queue()
            .device()
            .map_or(SpaceId::HOST, |device| device.space());
        let mut arguments = Vec::new();
        for argument in command.arguments() {
            // SAFETY: the space is this driver's, whose command uses the memory; nothing of it is
            // ever swapped out.
            let allocation = unsafe { argument.memory().allocation(space) }?;
            arguments.push(RawArgument {
                pointer: pointer(allocation.address, argument.offset()),
                length: argument.length() as usize,
            });
        }
        match command.operation() {
            // SAFETY: the command is started, its arguments are resolved, and
            // hazards keep everybody else away from their bytes until it is
            // finished.
            Operation::Launch { groups } => unsafe { command.run_native(&arguments, 0..groups) },
            // SAFETY: as above.
            Operation::HostTask => unsafe { command.run_native(&arguments, 0..1) },
            // SAFETY: as above.
            Operation::Transfer(transfer) => unsafe {
                transfer.copy(&arguments);
                Ok(())
            },
            // SAFETY: as above.
            Operation::Fill(fill) => unsafe {
                fill.fill(arguments[0]);
                Ok(())
            },
            Operation::Migrate(migration) => {
                let host = command.arguments()[0].on_host()?;
                let (from, to) = if migration.to == SpaceId::HOST {
                    (arguments[0], host)
                } else {
                    (host, arguments[0])
                };
                self.migrated.fetch_add(to.length as u64, Ordering::Relaxed);
                // SAFETY: as above; the two are different allocations.
                unsafe { std::ptr::copy_nonoverlapping(from.pointer, to.pointer, to.length) };
                Ok(())
            }
            Operation::Nothing => Ok(()),
            // A command that is reported as done must be done. A later Quipu may send operations
            // that this driver lacks.
            _ => Err(ErrorKind::Unsupported {
                driver: "abacus",
                what: format!("run '{}'", command.label()),
                instead: "run it on another device",
            }
            .into()),
        }
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Abacus {
    fn name(&self) -> &'static str {
        "abacus"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties {
            vendor: "ourselves".to_owned(),
            global_memory: CAPACITY,
            max_buffer: CAPACITY,
            memory: MemorySpace::Own(0),
            ..DeviceProperties::new(DeviceKind::Accelerator, NAME)
        }]
    }

    /// Called as a context is made: a process that only lists devices has no thread.
    fn start_threads(&self) -> quipu::Result<()> {
        let mut is_started = self.is_started.lock().expect("nothing panics under it");
        if *is_started {
            return Ok(());
        }
        let (counts, commands) = (self.counts.clone(), self.commands.clone());
        std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || counts.run_all(&commands.lock().expect("nothing panics under it")))
            .map_err(|error| ErrorKind::Device {
                device: NAME.to_owned(),
                what: "start its thread".to_owned(),
                message: error.to_string(),
            })?;
        *is_started = true;
        Ok(())
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        self.counts.unfinished.fetch_add(1, Ordering::SeqCst);
        // The other end is there for as long as the driver is.
        self.ready.send(command).expect("the thread takes commands");
    }

    fn is_idle(&self) -> bool {
        self.counts.unfinished.load(Ordering::SeqCst) == 0
    }

    fn allocate(&self, _space: u32, size: u64) -> quipu::Result<u64> {
        let mut all = self.beads();
        let used: u64 = all.values().map(|beads| size_of_val(&**beads) as u64).sum();
        let free = CAPACITY - used;
        let count = size.div_ceil(size_of::<u128>() as u64);
        // Also where the host has none: a vector of so many would end the program.
        let mut beads: Vec<u128> = Vec::new();
        if size > free || beads.try_reserve_exact(count as usize).is_err() {
            return Err(ErrorKind::OutOfMemory {
                device: NAME.to_owned(),
                asked: size,
                free,
                capacity: CAPACITY,
            }
            .into());
        }
        beads.resize(count as usize, 0);
        let beads = beads.into_boxed_slice();
        let address = beads.as_ptr().expose_provenance() as u64;
        all.insert(address, beads);
        Ok(address)
    }

    unsafe fn free(&self, _space: u32, address: u64, _size: u64) {
        self.beads().remove(&address);
    }

    /// For the core, which makes room by bringing to the host what no command uses.
    unsafe fn read_allocation(
        &self,
        _space: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> quipu::Result<()> {
        let from = pointer(address, offset);
        // SAFETY: an allocation of ours, within which the bytes lie and which no command writes
        // meanwhile (`Driver::read_allocation`); they are not the host's.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

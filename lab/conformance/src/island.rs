//! A small driver whose devices have memory of their own: the duties of every driver of an
//! accelerator, and nothing else.
//!
//! Each device is one thread that runs one command after another, in the order
//! in which they became ready, and one memory space of ordinary allocations that
//! the core must bring bytes to. Islands with neighbouring numbers have a direct
//! route; others go through the host, so that both kinds of migration happen.

use quipu_scheduler::command::{ToDrivers, slab};
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::event::refuse_waits;
use quipu_scheduler::operation::{Migration, Operation};
use quipu_scheduler::{
    Command, DeviceKind, DeviceProperties, Driver, Error, MemorySpace, RawArgument, SpaceId,
};
use quipu_threads::Start as _;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The driver. Its threads end when it is dropped.
#[derive(Debug)]
pub struct IslandDriver {
    lanes: Mutex<Vec<Sender<Command>>>,
    count: u32,
}

const ALIGN: usize = 64;

impl IslandDriver {
    /// Starts so many islands.
    ///
    /// # Panics
    /// If a thread cannot be started.
    #[must_use]
    pub fn start(count: u32) -> Arc<Self> {
        let lanes = (0..count)
            .map(|island| {
                let (lane, commands) = channel::<Command>();
                std::thread::Builder::new()
                    .name(format!("island-{island}"))
                    .start(move || {
                        refuse_waits(Some(
                            "an island runs one command at a time; return before you wait",
                        ));
                        commands.into_iter().for_each(run);
                    })
                    .expect("a machine that cannot start one more thread cannot run the suite");
                lane
            })
            .collect();
        Arc::new(Self {
            lanes: Mutex::new(lanes),
            count,
        })
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for IslandDriver {
    fn name(&self) -> &'static str {
        "island"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        (0..self.count).map(properties).collect()
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        let island = command.queue().device_index();
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // A lane goes with the driver, which commands keep alive; if it were
        // gone, the command would be dropped and fail.
        let _ = lanes[island].send(command);
    }

    fn allocate(&self, _key: u32, size: u64) -> Result<u64> {
        let out_of_memory = || {
            Error::from(ErrorKind::OutOfMemory {
                device: "an island".to_owned(),
                asked: size,
                free: 0,
                capacity: 0,
            })
        };
        let layout = layout(size).ok_or_else(out_of_memory)?;
        // SAFETY: the core allocates no zero bytes.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(out_of_memory());
        }
        Ok(memory.expose_provenance() as u64)
    }

    unsafe fn free(&self, _key: u32, address: u64, size: u64) {
        if let Some(layout) = layout(size) {
            // SAFETY: `allocate` made it with this layout, and it is freed once (`Driver::free`).
            unsafe { dealloc(pointer(address), layout) };
        }
    }

    unsafe fn read_allocation(
        &self,
        _key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        // SAFETY: the bytes lie within an allocation that nothing writes meanwhile
        // (`Driver::read_allocation`).
        unsafe {
            let from = pointer(address).add(offset as usize);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        from != SpaceId::HOST
            && to != SpaceId::HOST
            && from.number().abs_diff(to.number()) == 1
            && from.number().min(to.number()).is_multiple_of(2)
    }
}

fn layout(size: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(size).ok()?, ALIGN).ok()
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

fn properties(island: u32) -> DeviceProperties {
    DeviceProperties {
        shared_memory_per_block: 1 << 16,
        global_memory: 1 << 30,
        max_buffer: 1 << 30,
        memory: MemorySpace::Own(island),
        ..DeviceProperties::new(DeviceKind::Simulated, format!("island {island}"))
    }
}

fn run(command: Command) {
    let result = command.start().and_then(|()| perform(&command));
    command.finish(result, &mut ToDrivers);
    // The lane may sleep now, and others want what it has freed.
    slab::flush();
}

fn perform(command: &Command) -> Result<()> {
    if let Operation::Migrate(migration) = command.operation() {
        return migrate(command, migration);
    }
    let space = command
        .queue()
        .device()
        .map_or(SpaceId::HOST, quipu_scheduler::Device::space);
    let mut arguments = Vec::new();
    for argument in command.arguments() {
        arguments.push(RawArgument {
            pointer: bytes_in(argument, space)?,
            length: argument.length() as usize,
        });
    }
    let groups = match command.operation() {
        Operation::Transfer(transfer) => {
            // SAFETY: the arguments were just resolved; hazards keep others away.
            unsafe { transfer.copy(&arguments) };
            return Ok(());
        }
        Operation::Fill(fill) => {
            // SAFETY: as above.
            unsafe { fill.fill(arguments[0]) };
            return Ok(());
        }
        Operation::Launch { groups: 0 } => return Ok(()),
        Operation::Launch { groups } => groups,
        Operation::HostTask => 1,
        _ => return Ok(()),
    };
    // SAFETY: started, resolved, each group once.
    catch_unwind(AssertUnwindSafe(|| unsafe {
        command.run_native(&arguments, 0..groups)
    }))
    .unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(ErrorKind::Panicked {
            what: format!("'{}'", command.label()),
            message,
        }
        .into())
    })
}

/// The argument's first byte in a space.
fn bytes_in(argument: &quipu_scheduler::access::Argument, space: SpaceId) -> Result<*mut u8> {
    if space == SpaceId::HOST {
        return Ok(argument.on_host()?.pointer);
    }
    // SAFETY: the space is this driver's, whose command uses the memory; it swaps nothing out that
    // is in use.
    let allocation = unsafe { argument.memory().allocation(space) }?;
    // SAFETY: the range was checked against the object at enqueue.
    Ok(unsafe { pointer(allocation.address).add(argument.offset() as usize) })
}

fn migrate(command: &Command, migration: &Migration) -> Result<()> {
    let [argument, size @ ..] = command.arguments() else {
        return Ok(());
    };
    let source = bytes_in(argument, migration.from)?;
    let destination = bytes_in(argument, migration.to)?;
    let all = argument.length() as usize;
    let used = match (migration.content, size) {
        (Some(space), [size]) => {
            // SAFETY: the argument is eight bytes, valid in that space.
            let size = unsafe { bytes_in(size, space)?.cast::<[u8; 8]>().read() };
            Migration::used(argument, size)
        }
        _ => all,
    };
    // SAFETY: two allocations of the same object, in different spaces; hazards
    // keep others away. No more is used than there is.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, used);
        destination.add(used).write_bytes(0, all - used);
    }
    Ok(())
}

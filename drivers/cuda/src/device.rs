//! The devices: their properties, and the objects that are made when one is first used: its context
//! and its streams. A program that only lists devices does not pay for them.

use crate::grid_barrier::GridBarriers;
use crate::mark::{Mark, Marker};
use crate::native::{CallError, Called, Context, Event, Pinned, Stream, named, version};
use crate::staging::Staging;
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUmemoryPool};
use quipu_device_queue::clock::{Clock, difference};
use quipu_device_queue::error::{no_devices, of_call};
use quipu_device_queue::{Failure, VendorDevice, made_once};
use quipu_scheduler::error::Result;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{
    DeviceKind, DeviceProperties, Error, MemoryCache, MemorySpace, TextFeatures, clock,
};
use std::ffi::{CStr, c_char, c_int};
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The CUDA whose driver has all functions that are called here, but for [graphs](crate::graph):
/// 11.7.
const OLDEST: c_int = 11_070;

/// Streams for kernels, fills, and copies within a device: as many commands run at once.
const COMPUTE: usize = 8;
/// Streams for copies from the host, and for copies to it: a copy that waits for a kernel holds up
/// no others.
const COPIES: usize = 4;
/// All of them.
const TRACKS: usize = COMPUTE + 2 * COPIES;
/// The lanes of copies from and to the host, for traces.
pub(crate) const UPLOADS: u32 = 1;
pub(crate) const DOWNLOADS: u32 = 2;
/// The time that a device is given to say that a command is over before it is asked. The answer
/// also tells of a fault. Shorter than the time after which nobody asks without a call from the
/// device.
const TOLD_NS: u64 = 50_000;
/// Bytes from one stream's mark to the next: a cache line.
const MARK: usize = 64;
/// The time for which a point of the device's time is used: elapsed times have 24 bits, so for so
/// long they are exact to 0.1 µs.
const POINT_NS: u64 = 1_000_000_000;

/// The direction of a command: each has streams of its own, so that copies run beside kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Compute,
    Upload,
    Download,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Compute, Self::Upload, Self::Download];

    /// The numbers of its streams.
    fn tracks(self) -> Range<usize> {
        let (first, count) = match self {
            Self::Compute => (0, COMPUTE),
            Self::Upload => (COMPUTE, COPIES),
            Self::Download => (COMPUTE + COPIES, COPIES),
        };
        first..first + count
    }
}

/// The signal of a command in a stream, for those that wait for it.
#[derive(Clone, Debug)]
pub struct Signal {
    pub(crate) device: usize,
    /// The number of the stream.
    pub(crate) track: usize,
    /// The how-manyeth of the stream it is.
    pub(crate) ticket: u64,
    pub(crate) event: Event,
    /// The device's report of its end, if there is one.
    pub(crate) told: Option<Told>,
}

/// A device's report of a command's end: a number that it writes to pinned memory.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The time at which the command was put there, on the process's clock.
    put: u64,
    /// The mark with the report, if it is not the one of its [stream](Track::tell).
    mark: Option<Mark>,
}

impl Told {
    /// The report of a command that was just put there as a part of something, and has a mark of
    /// its own.
    pub(crate) fn by(mark: Mark) -> Self {
        Self {
            put: clock::now_ns(),
            mark: Some(mark),
        }
    }
}

/// A stream for commands.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) stream: Stream,
    /// The stream in which the drain thread asks to be woken, beside the other and so in no
    /// command's way.
    pub(crate) echo: Stream,
    /// The number of commands that were put into it. Written by the thread that pumps.
    last: AtomicU64,
    /// The number of them that the host knows to be over.
    seen: AtomicU64,
    /// The word in which the device counts its finished commands, if it can: pinned memory, which
    /// lives as long.
    mark: Option<NonNull<AtomicU64>>,
}

// SAFETY: the mark is an atomic, in memory that lives as long.
unsafe impl Send for Track {}
// SAFETY: as above.
unsafe impl Sync for Track {}

impl Track {
    /// Has the device write, after the commands in the stream and before the next event there, that
    /// the command of this number is over. Gives the report if it will. The host reads it without a
    /// call, while a question after an event is one. Each such write takes the device time, too, so
    /// only a command is told so that finds the stream empty: one that a thread may be waiting for.
    pub(crate) fn tell(&self, ticket: u64) -> Option<Told> {
        let mark = self.mark?;
        if self.seen.load(Ordering::Relaxed) + 1 < ticket {
            return None;
        }
        let address = mark.as_ptr().expose_provenance() as u64;
        // SAFETY: the stream is alive, and the mark a number of 64 bits of pinned memory. All that
        // came before in the stream is seen before the number is.
        let code = unsafe { sys::cuStreamWriteValue64_v2(self.stream.raw(), address, ticket, 0) };
        named("cuStreamWriteValue64", code).ok().map(|()| Told {
            put: clock::now_ns(),
            mark: None,
        })
    }

    /// True if the host knows that this command is over; false if the device will yet say so, and
    /// is to be given time for it; none if it has to be asked.
    pub(crate) fn is_finished(&self, signal: &Signal) -> Option<bool> {
        if self.seen.load(Ordering::Acquire) >= signal.ticket {
            return Some(true);
        }
        let told = signal.told.as_ref()?;
        match &told.mark {
            Some(mark) if mark.is_set() => return Some(true),
            Some(_) => {}
            // SAFETY: an atomic, which the device writes.
            None if unsafe { self.mark?.as_ref() }.load(Ordering::Acquire) >= signal.ticket => {
                self.note(signal.ticket);
                return Some(true);
            }
            None => {}
        }
        (clock::now_ns() < told.put + TOLD_NS).then_some(false)
    }

    /// The host has learnt that this command is over, and so all before it.
    pub(crate) fn note(&self, ticket: u64) {
        self.seen.fetch_max(ticket, Ordering::Release);
    }

    /// True if the host knows that all that was put there is over.
    fn is_empty(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.last.load(Ordering::Relaxed)
    }

    /// The next command's number.
    pub(crate) fn ticket(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A device in use.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) context: Arc<Context>,
    pub(crate) tracks: Vec<Track>,
    /// The stream in which memory is allocated and zeroed, and of commands for which the enqueuing
    /// thread waits at once.
    pub(crate) service: Stream,
    pub(crate) staging: Arc<Staging>,
    /// The words of barriers of the grid.
    pub(crate) grid_barriers: Arc<GridBarriers>,
    /// Streams of large copies.
    copying: Mutex<Vec<Stream>>,
    /// The pool that memory comes from, if the device has pools.
    pub(crate) pool: Option<Pool>,
    /// For each lane, which of its streams was last used.
    last_used: [AtomicUsize; Lane::ALL.len()],
    /// The point that times of the device are told from.
    point: Mutex<Option<Point>>,
    /// The module that sets marks in batches.
    marker: OnceLock<Marker>,
    /// The memory of the streams' marks. After the streams, so that it is given back after them.
    _marks: Option<Pinned>,
}

/// A point of the device's time, from which others are told.
#[derive(Debug)]
struct Point {
    event: Event,
    /// The time at which it was chosen, on the process's clock.
    since: u64,
    /// Its time on that clock.
    clock: Clock,
}

/// Tells whether a device can write a number of 64 bits to memory from within a stream.
const WRITES_NUMBERS: Attribute = Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;

/// A device's default pool of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool(pub(crate) CUmemoryPool);
// SAFETY: CUDA's objects may be used by any thread, by several at a time; this one is never gone.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Gives back memory in it that is not in use, once this stream, whose context is current, has
    /// come to its frees.
    pub(crate) fn trim(self, frees: &Stream) -> Called<()> {
        frees.synchronize()?;
        // SAFETY: the device's own pool.
        let code = unsafe { sys::cuMemPoolTrimTo(self.0, 0) };
        named("cuMemPoolTrimTo", code)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The pool is the device's: memory that is kept in it for later allocations would stay
        // there.
        let (Some(pool), Ok(_entered)) = (self.pool, self.context.enter()) else {
            return;
        };
        if let Err(error) = pool.trim(&self.service) {
            quietly(|| tracing::debug!(reason = error.text(), "memory was not given back"));
        }
    }
}

impl Live {
    fn of(device: CUdevice) -> Called<Self> {
        let context = Context::of(device)?;
        let marks = match attribute(device, WRITES_NUMBERS)? {
            0 => None,
            _ => Some(Pinned::of(&context, TRACKS * MARK)?),
        };
        let track = |number: usize| {
            let mark = marks.as_ref().map(|marks| {
                // SAFETY: within the memory, and of the alignment.
                unsafe { marks.pointer().add(number * MARK) }
            });
            Ok(Track {
                stream: Stream::of(&context)?,
                echo: Stream::of(&context)?,
                last: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                mark: mark.and_then(|mark| NonNull::new(mark.cast())),
            })
        };
        Ok(Self {
            tracks: (0..TRACKS).map(track).collect::<Called<_>>()?,
            service: Stream::of(&context)?,
            staging: Staging::of(&context),
            grid_barriers: GridBarriers::of(&context),
            copying: Mutex::default(),
            pool: pool_of(device)?,
            last_used: Default::default(),
            point: Mutex::new(None),
            marker: OnceLock::new(),
            _marks: marks,
            context,
        })
    }

    /// The number of the stream for a command that waits for these. It is that of one that is the
    /// last in its stream, so that a chain stays where it is; else the one that was last used if
    /// nothing is left there, because device and host have it at hand. Otherwise it is another with
    /// nothing in it, or the next in turn.
    pub(crate) fn choose(&self, device: usize, lane: Lane, waits: &[Signal]) -> usize {
        let Range { start, end } = lane.tracks();
        let is_last = |wait: &&Signal| {
            wait.device == device
                && (start..end).contains(&wait.track)
                && self.tracks[wait.track].last.load(Ordering::Relaxed) == wait.ticket
        };
        let last_used = &self.last_used[lane as usize];
        let used = start + last_used.load(Ordering::Relaxed);
        let chosen = if let Some(wait) = waits.iter().find(is_last) {
            wait.track
        } else if self.tracks[used].is_empty() {
            used
        } else {
            let empty = (start..end).find(|track| self.tracks[*track].is_empty());
            empty.unwrap_or(if used + 1 < end { used + 1 } else { start })
        };
        last_used.store(chosen - start, Ordering::Relaxed);
        chosen
    }

    /// The module that sets marks in batches.
    pub(crate) fn marker(&self) -> Called<&Marker> {
        made_once(&self.marker, || Marker::of(&self.context))
    }

    /// The lane of a stream, for traces.
    pub(crate) fn lane_number(track: usize) -> u32 {
        if Lane::Upload.tracks().contains(&track) {
            UPLOADS
        } else if Lane::Download.tracks().contains(&track) {
            DOWNLOADS
        } else {
            0
        }
    }

    /// Lends a stream for a copy that a thread of the host looks after. A new stream takes memory
    /// of the device, and such a copy may be the one that makes room there. Then it goes into the
    /// stream of allocations, with the commands of others there.
    pub(crate) fn with_stream<R>(&self, copy: impl FnOnce(&Stream) -> Called<R>) -> Called<R> {
        let copying = || self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let known = copying().pop();
        let stream = match known.map_or_else(|| Stream::of(&self.context), Ok) {
            Err(error) if error.is_out_of_memory() => return copy(&self.service),
            stream => stream?,
        };
        let copied = copy(&stream);
        copying().push(stream);
        copied
    }

    /// The times at which a command began on the device and ended, on the process's clock. It has
    /// ended; the host put it into its stream no earlier than `before`, and saw its end at `seen`.
    pub(crate) fn times(
        &self,
        began: &Event,
        ended: &Event,
        before: u64,
        seen: u64,
    ) -> Option<(u64, u64)> {
        let mut point = self.point.lock().unwrap_or_else(PoisonError::into_inner);
        let is_near = |point: &Point| clock::now_ns() < point.since + POINT_NS;
        let point = match &mut *point {
            Some(point) if is_near(point) => point,
            other => other.insert(Point {
                event: began.clone(),
                since: clock::now_ns(),
                clock: Clock::default(),
            }),
        };
        let since = |event: &Event| Some(point.event.nanoseconds_to(event)?.cast_unsigned());
        let (began, ended) = (since(began)?, since(ended)?);
        let (least, most) = (difference(before, began), difference(seen, ended));
        let offset = point.clock.offset(least, most).cast_unsigned();
        Some((began.wrapping_add(offset), ended.wrapping_add(offset)))
    }
}

fn pool_of(device: CUdevice) -> Called<Option<Pool>> {
    if attribute(
        device,
        Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    )? == 0
    {
        return Ok(None);
    }
    let mut pool = null_mut();
    // SAFETY: the device is one that CUDA has named.
    let code = unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, device) };
    named("cuDeviceGetDefaultMemPool", code)?;
    // Freed memory is kept for later allocations.
    let mut all = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: this attribute is a number of 64 bits.
    let code = unsafe { sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut all).cast()) };
    named("cuMemPoolSetAttribute", code)?;
    Ok(Some(Pool(pool)))
}

/// A device.
#[derive(Debug)]
pub struct Device {
    pub(crate) number: usize,
    pub(crate) handle: CUdevice,
    pub(crate) properties: DeviceProperties,
    /// Compute capability, as `90` for 9.0.
    pub(crate) capability: u32,
    /// True if it can run all blocks of a launch at once, and says how many that may be.
    launches_together: bool,
    /// The cache of its memory, if it says that there is one.
    cache: Option<MemoryCache>,
    corrects_errors: bool,
    uuid: Option<[u8; 16]>,
    /// The facts that compiled code depends on.
    pub(crate) build: String,
    live: OnceLock<Live>,
}

impl VendorDevice for Device {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn has_device_fence(&self) -> bool {
        true
    }

    fn has_grid_barrier(&self) -> bool {
        self.launches_together
    }

    /// Those of programs that come as PTX.
    fn text_features(&self) -> TextFeatures {
        TextFeatures {
            doubles: true,
            halves: true,
            wide_atomics: true,
            optional_language: true,
            extended_language: true,
            denormals: true,
            fused_multiply_add: true,
            vendor_number: Some(NVIDIA),
            // A part is passed as the address of its first byte.
            part_alignment: Some(1),
            cache: self.cache,
            corrects_errors: self.corrects_errors,
            uuid: self.uuid,
            ..TextFeatures::default()
        }
    }
}

/// NVIDIA's number at PCI's registry.
const NVIDIA: u32 = 0x10de;
/// Bytes of a line of the cache. CUDA has no question for it, and NVIDIA's OpenCL gives this answer
/// for its GPUs.
const CACHE_LINE: u32 = 128;

impl Device {
    /// Its context and streams.
    pub(crate) fn live(&self) -> Called<&Live> {
        made_once(&self.live, || Live::of(self.handle))
    }

    /// The same, if it was used before.
    pub(crate) fn live_if_any(&self) -> Option<&Live> {
        self.live.get()
    }

    /// A call failed that was to do something here.
    pub(crate) fn failed(&self, what: &str, error: &CallError) -> Error {
        of_call(self.name(), what, error)
    }
}

fn attribute(device: CUdevice, which: Attribute) -> Called<u64> {
    let mut value: c_int = 0;
    // SAFETY: the device is one that CUDA has named.
    let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) };
    named("cuDeviceGetAttribute", code)?;
    Ok(u64::try_from(value).unwrap_or(0))
}

/// Every device that the system's CUDA driver knows. One that cannot be described is left out.
///
/// # Errors
/// If there is no CUDA driver, or it has no device: says which.
pub(crate) fn all() -> Result<Vec<Device>> {
    const LOOK: &str = "look for CUDA devices";
    // SAFETY: loading the library runs its initialisers, which ask nothing of us.
    if !unsafe { sys::is_culib_present() } {
        let problem = "the system has no CUDA driver (libcuda.so.1); install NVIDIA's driver if there is a GPU of NVIDIA's";
        return Err(no_devices(LOOK, problem.to_owned()));
    }
    let version = version().map_err(|error| no_devices(LOOK, error.text()))?;
    if let Some(problem) = too_old(version) {
        return Err(no_devices(LOOK, problem));
    }
    found(version).map_err(|error| no_devices(LOOK, error.text()))
}

/// The reason for which a driver of this version is of no use, if there is one: a call of a
/// function that it lacks would end with a panic.
fn too_old(version: c_int) -> Option<String> {
    let name = |version: c_int| format!("{}.{}", version / 1000, version % 1000 / 10);
    (version < OLDEST).then(|| {
        format!(
            "NVIDIA's driver is of CUDA {}, and this needs one of {} or later; install a newer driver, or use the GPU by NVIDIA's OpenCL",
            name(version),
            name(OLDEST)
        )
    })
}

fn found(version: c_int) -> Called<Vec<Device>> {
    // SAFETY: may be called by any thread, any number of times.
    named("cuInit", unsafe { sys::cuInit(0) })?;
    let mut count: c_int = 0;
    // SAFETY: the call writes one number into `count`, a local variable.
    named("cuDeviceGetCount", unsafe {
        sys::cuDeviceGetCount(&raw mut count)
    })?;
    let (mut devices, mut problem) = (Vec::<Device>::new(), None);
    for ordinal in 0..count {
        match device(ordinal, devices.len(), version) {
            Ok(device) => devices.push(device),
            Err(error) => {
                quietly(|| {
                    tracing::warn!(ordinal, problem = error.text(), "a CUDA device is left out");
                });
                problem.get_or_insert(error);
            }
        }
    }
    // A GPU without managed memory must not use what another one has allocated while the host does.
    let have_managed = devices
        .iter()
        .all(|device| device.properties.managed_memory);
    for device in &mut devices {
        device.properties.managed_memory = have_managed;
    }
    if devices.is_empty() {
        return Err(problem.unwrap_or(CallError {
            call: "cuDeviceGetCount",
            code: sys::CUresult::CUDA_ERROR_NO_DEVICE,
        }));
    }
    Ok(devices)
}

/// The device that is CUDA's `ordinal`th, and our `number`th.
fn device(ordinal: c_int, number: usize, version: c_int) -> Called<Device> {
    use Attribute as A;
    let mut handle: CUdevice = 0;
    // SAFETY: the call writes one number into `handle`, a local variable.
    named("cuDeviceGet", unsafe {
        sys::cuDeviceGet(&raw mut handle, ordinal)
    })?;
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: as many bytes as said; one less, so that it ends with a zero whatever happens.
    named("cuDeviceGetName", unsafe {
        sys::cuDeviceGetName(name.as_mut_ptr(), 255, handle)
    })?;
    // SAFETY: it ends with a zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let mut memory = 0;
    // SAFETY: the call writes one number into `memory`, a local variable.
    named("cuDeviceTotalMem", unsafe {
        sys::cuDeviceTotalMem_v2(&raw mut memory, handle)
    })?;
    let ask = |which| attribute(handle, which);
    let (major, minor) = (
        ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let shared = ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let usual = ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
    // Not all drivers tell it any more.
    let clock = ask(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0) / 1000;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let cache_bytes = ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
    let properties = DeviceProperties {
        name: name.to_string_lossy().trim().to_owned(),
        kind: DeviceKind::Gpu,
        vendor: "NVIDIA".to_owned(),
        multiprocessors: narrow(ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).max(1),
        // Kernels loop over blocks: the hardware's limit is none.
        max_grid_blocks: [quipu_scheduler::front::MAX_GROUPS; 3],
        max_grid_block_count: quipu_scheduler::front::MAX_GROUPS,
        // The last dimension is the hardware's first.
        max_block_threads: [
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
        ],
        max_block_thread_count: ask(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?.max(1),
        max_thread_elements: [u64::MAX; 3],
        max_thread_element_count: u64::MAX,
        shared_memory_per_block: shared.max(usual),
        global_memory: memory as u64,
        max_buffer: (memory as u64).min(quipu_scheduler::access::MAX_MEMORY_BYTES),
        warp_sizes: vec![narrow(ask(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?).max(1)],
        clock_mhz: u32::try_from(clock).ok().filter(|clock| *clock > 0),
        memory: MemorySpace::Own(number as u32),
        domain: Some(0),
        concurrent_commands: COMPUTE as u32,
        caller_runs: false,
        maps_host_memory: ask(A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? != 0,
        // The host uses such memory while kernels run.
        managed_memory: ask(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)? != 0
            && ask(A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? != 0,
    };
    Ok(Device {
        number,
        handle,
        capability: narrow(major * 10 + minor),
        build: format!("CUDA {version}\n{}\nsm_{major}{minor}", properties.name),
        launches_together: ask(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
        cache: (cache_bytes != 0).then_some(MemoryCache {
            bytes: cache_bytes,
            line: CACHE_LINE,
            takes_writes: true,
        }),
        corrects_errors: ask(A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED)? != 0,
        uuid: uuid_of(handle),
        properties,
        live: OnceLock::new(),
    })
}

/// The number by which NVIDIA's libraries name a device, if CUDA says it.
fn uuid_of(device: CUdevice) -> Option<[u8; 16]> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the device is one that CUDA has named, and the call writes one number into `uuid`, a
    // local variable. Every driver that is not too old has the function.
    let code = unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) };
    named("cuDeviceGetUuid", code).ok()?;
    Some(uuid.bytes.map(|byte| byte as u8))
}

#[cfg(test)]
mod tests {
    use super::too_old;

    #[test]
    fn a_driver_that_lacks_functions_is_refused_in_words() {
        for (version, name) in [(0, "0.0"), (9_020, "9.2"), (11_060, "11.6")] {
            let problem = too_old(version).unwrap_or_default();
            for part in [
                &format!("CUDA {name},"),
                "11.7 or later",
                "install a newer driver",
            ] {
                assert!(problem.contains(part), "'{part}' in {problem}");
            }
        }
        for version in [11_070, 11_080, 12_000, 13_000] {
            assert_eq!(too_old(version), None);
        }
    }
}

//! The devices of every platform that the loader knows, and their properties.
//!
//! A platform's devices share one OpenCL context, so that bytes go from one to another without
//! passing through the host. It is made, as the queues are, when a device is first used: a program
//! that only lists devices does not pay for them.

use crate::native::{CallError, Called, Context, Queue, named};
use crate::pinned::Places;
use crate::program::{FaultRecord, Whereabouts, forget};
use crate::queues::{Fed, IN_ORDER_QUEUES, Queues, worst};
use crate::staging::{Staged, Stages};
use crate::vendors::platforms;
use cl3::device as info;
use cl3::info_type::InfoType;
use cl3::types::{cl_device_id, cl_platform_id};
use quipu_device_queue::clock::Clock;
use quipu_device_queue::error::{no_devices, of_call};
use quipu_device_queue::{Failure, VendorDevice, made_once};
use quipu_kernel_ir::OpenClFeatures;
use quipu_scheduler::error::Result;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{
    DeviceKind, DeviceProperties, Error, MemoryCache, MemorySpace, TextFeatures,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The name of the platform that our own front end offers to the loader: its devices are listed by
/// other drivers.
const OURSELVES: &str = "Quipu";
/// The name of NVIDIA's platform.
const NVIDIA: &str = "NVIDIA CUDA";
/// `CL_DEVICE_SUB_GROUP_SIZES_INTEL`.
const SUB_GROUP_SIZES_INTEL: u32 = 0x4108;
/// The work of this module, for errors.
pub(crate) const LOOK: &str = "look for OpenCL devices";

/// A device's handle. They live as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceHandle(pub(crate) cl_device_id);
// SAFETY: OpenCL's objects may be used by any thread.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above, by several at a time.
unsafe impl Sync for DeviceHandle {}

/// A platform's handle. They live as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlatformHandle(pub(crate) cl_platform_id);
// SAFETY: OpenCL's objects may be used by any thread.
unsafe impl Send for PlatformHandle {}
// SAFETY: as above, by several at a time.
unsafe impl Sync for PlatformHandle {}

/// A platform: a vendor's implementation.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) handle: PlatformHandle,
    /// Its number among the platforms that have devices; that of its devices' sync domain.
    pub(crate) number: u32,
    /// Name and version, which compiled programs depend on.
    pub(crate) version: String,
    /// True if its queues are streams of CUDA, in which one command begins after the other however
    /// they were made, and none after one that has failed, which ends the context.
    pub(crate) is_of_streams: bool,
    handles: Vec<DeviceHandle>,
    /// Parts of them that were made before the context.
    pub(crate) parts: Mutex<Vec<DeviceHandle>>,
    context: OnceLock<Context>,
    /// True if grids of one kernel must not be in use at once.
    pub(crate) keeps_grids_apart: AtomicBool,
}

impl Platform {
    /// Its context, if it was used before.
    pub(crate) fn context_if_any(&self) -> Option<&Context> {
        self.context.get()
    }

    /// The context of all its devices, and of the parts that there are when it is made.
    pub(crate) fn context(&self) -> Called<&Context> {
        made_once(&self.context, || {
            let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            let handles = self.handles.iter().chain(parts.iter());
            let handles: Vec<_> = handles.map(|handle| handle.0).collect();
            Context::of(&handles)
        })
    }
}

/// A device.
#[derive(Debug)]
pub struct Device {
    pub(crate) handle: DeviceHandle,
    pub(crate) platform: Arc<Platform>,
    pub(crate) properties: DeviceProperties,
    /// The optional features of its compiler.
    pub(crate) features: OpenClFeatures,
    /// The features of its compiler for kernels that are texts.
    pub(crate) text: TextFeatures,
    /// Everything that compiled programs depend on.
    pub(crate) build: String,
    pub(crate) out_of_order: bool,
    queues: OnceLock<Queues>,
    profiled: OnceLock<Queues>,
    /// Fault records that nothing uses now.
    pub(crate) records: Mutex<Vec<FaultRecord>>,
    /// The places on the host for fault records, if they are pinned.
    pub(crate) places: Places,
    /// The places on the host through which reads come, if they are pinned.
    pub(crate) landings: Places,
    pub(crate) clock: Clock,
    /// The copies that go through pinned memory.
    pub(crate) staged: Staged,
    /// The stages that they go through.
    pub(crate) stages: [Stages; 2],
    /// The handle that keeps it, if it is a part of another.
    pub(crate) part: Option<Part>,
}

impl Device {
    pub(crate) fn whereabouts(&self, context: &Context) -> Whereabouts {
        Whereabouts {
            context: context.raw() as usize,
            device: self.handle.0 as usize,
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.platform.keeps_grids_apart.load(Ordering::Relaxed)
            && let Some(context) = self.platform.context.get()
        {
            forget(self.whereabouts(context));
        }
    }
}

/// A device that was made by splitting another, which OpenCL counts.
#[derive(Debug)]
pub(crate) struct Part(pub(crate) DeviceHandle);

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: this reference is given up once.
        if let Err(code) = unsafe { info::release_device(self.0.0) } {
            quietly(|| tracing::error!(code, "a part of a device was not released"));
        }
    }
}

impl VendorDevice for Device {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn has_device_fence(&self) -> bool {
        self.features.fences_device()
    }

    fn text_features(&self) -> TextFeatures {
        self.text
    }
}

impl Device {
    /// Its queues; those with timestamps are others, for they cost more.
    pub(crate) fn queues(&self, profiling: bool) -> Called<&Queues> {
        let queues = if profiling {
            &self.profiled
        } else {
            &self.queues
        };
        made_once(queues, || {
            Queues::of(self.platform.context()?, self, profiling)
        })
    }

    /// A queue of its own, in order.
    pub(crate) fn own_queue(&self) -> Called<Queue> {
        Queue::of(self.platform.context()?, self.handle.0, false, false)
    }

    /// An in-order queue for the commands of a user's closure.
    pub(crate) fn native_queue(&self, profiling: bool) -> Called<&Fed> {
        self.queues(profiling)?.native()
    }

    /// Has the device begin with everything.
    pub(crate) fn flush(&self) -> Called<()> {
        let both = [&self.queues, &self.profiled].into_iter();
        worst(both.filter_map(|queues| Some(queues.get()?.flush())))
    }
}

/// A property that a device is asked for, and the form of its answer.
struct Asked<'a> {
    device: DeviceHandle,
    problem: &'a mut Option<CallError>,
}

impl Asked<'_> {
    fn get(&mut self, what: u32) -> Option<InfoType> {
        match named(
            "clGetDeviceInfo",
            info::get_device_info(self.device.0, what),
        ) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem.get_or_insert(error);
                None
            }
        }
    }

    fn text(&mut self, what: u32) -> String {
        let text = self.get(what).map(|value| value.to_string());
        text.unwrap_or_default()
            .trim_matches(['\0', ' '])
            .to_owned()
    }

    fn number(&mut self, what: u32) -> u64 {
        self.get(what).map_or(0, |value| value.to_uint().into())
    }

    fn long(&mut self, what: u32) -> u64 {
        self.get(what).map_or(0, |value| value.to_ulong())
    }

    fn size(&mut self, what: u32) -> u64 {
        self.get(what).map_or(0, |value| value.to_size() as u64)
    }
}

/// Every device of every platform: see [`vendors`](crate::vendors).
///
/// # Errors
/// If there is no loader, no platform, or no device, says which.
pub(crate) fn all() -> Result<Vec<Device>> {
    // Vendors' libraries are initialised by the first call, and not all of them stand two threads
    // that make it (PoCL 3.1 has no devices for one of them, or ends the process).
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let mut left_out = Vec::new();
    let found = {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        look(&mut left_out)
    };
    // A subscriber of the log may look for devices itself, so the lock is not held.
    for LeftOut { what, problem } in left_out {
        quietly(|| tracing::warn!(problem, "an OpenCL {what} is left out"));
    }
    found
}

/// A platform or device that cannot be used.
pub(crate) struct LeftOut {
    pub(crate) what: &'static str,
    pub(crate) problem: String,
}

/// As [`all`], for a thread that is alone at it.
fn look(left_out: &mut Vec<LeftOut>) -> Result<Vec<Device>> {
    if let Err(error) = cl3::load_library() {
        return Err(no_devices(
            LOOK,
            format!(
                "the system has no OpenCL loader ({error}); install one (Debian: ocl-icd-libopencl1) and a vendor's OpenCL"
            ),
        ));
    }
    let platforms = platforms(left_out)?;
    let mut problems: Vec<String> = left_out.iter().map(|one| one.problem.clone()).collect();
    let mut devices = Vec::new();
    let mut number = 0;
    for platform in platforms {
        match devices_of(platform, number, devices.len(), left_out) {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                number += 1;
                devices.extend(found);
            }
            Err(problem) => {
                problems.push(problem.clone());
                let what = "platform";
                left_out.push(LeftOut { what, problem });
            }
        }
    }
    if devices.is_empty() {
        problems.insert(0, "no OpenCL platform has a device".to_owned());
        return Err(no_devices(LOOK, problems.join("; ")));
    }
    Ok(devices)
}

fn devices_of(
    platform: cl_platform_id,
    number: u32,
    first: usize,
    left_out: &mut Vec<LeftOut>,
) -> std::result::Result<Vec<Device>, String> {
    let about = |what| {
        let info = cl3::platform::get_platform_info(platform, what);
        let text = info.map(|value| value.to_string()).unwrap_or_default();
        text.trim_matches(['\0', ' ']).to_owned()
    };
    let name = about(cl3::platform::CL_PLATFORM_NAME);
    if name == OURSELVES {
        return Ok(Vec::new());
    }
    let handles = match cl3::device::get_device_ids(platform, info::CL_DEVICE_TYPE_ALL) {
        Ok(handles) => handles,
        // A platform without devices is no problem.
        Err(-1) => return Ok(Vec::new()),
        Err(code) => {
            let call = "clGetDeviceIDs";
            return Err(format!("{name}: {}", CallError { call, code }.text()));
        }
    };
    let handles = handles.into_iter().map(DeviceHandle);
    let (handles, absent): (Vec<_>, Vec<_>) = handles.partition(|handle| is_available(*handle));
    let what = "device";
    left_out.extend(absent.iter().map(|_| {
        let problem = format!("{name}: it is not available");
        LeftOut { what, problem }
    }));
    let version = format!("{name} {}", about(cl3::platform::CL_PLATFORM_VERSION));
    let platform = Arc::new(Platform {
        handle: PlatformHandle(platform),
        number,
        is_of_streams: name == NVIDIA,
        keeps_grids_apart: OpenClFeatures::major_of_pocl(&version)
            .is_some_and(|major| major < 6)
            .into(),
        version,
        handles: handles.clone(),
        parts: Mutex::default(),
        context: OnceLock::new(),
    });
    let mut devices = Vec::new();
    let mut problem = None;
    for handle in handles {
        let key = u32::try_from(first + devices.len()).unwrap_or(u32::MAX);
        match describe(handle, &platform, key) {
            Ok(device) => devices.push(device),
            Err(error) => {
                let text = format!("{name}: {}", error.text());
                problem.get_or_insert(text.clone());
                let problem = text;
                left_out.push(LeftOut { what, problem });
            }
        }
    }
    match problem {
        Some(problem) if devices.is_empty() => Err(problem),
        _ => Ok(devices),
    }
}

/// True if a device can be used now. One that does not say so is asked for the rest, and that names
/// the fault.
fn is_available(handle: DeviceHandle) -> bool {
    let is_available = info::get_device_info(handle.0, info::CL_DEVICE_AVAILABLE);
    is_available.map_or(true, |value| value.to_uint() != 0)
}

/// Asks a device for all that is to be known. `key` is that of its memory.
pub(crate) fn describe(
    handle: DeviceHandle,
    platform: &Arc<Platform>,
    key: u32,
) -> Result<Device, CallError> {
    let mut problem = None;
    let mut ask = Asked {
        device: handle,
        problem: &mut problem,
    };
    let name = ask.text(info::CL_DEVICE_NAME);
    let vendor = ask.text(info::CL_DEVICE_VENDOR);
    let kind = match ask.long(info::CL_DEVICE_TYPE) {
        kind if kind & info::CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
        kind if kind & info::CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
        _ => DeviceKind::Accelerator,
    };
    let extensions = ask.text(info::CL_DEVICE_EXTENSIONS);
    // "OpenCL 3.0 …".
    let about_version = ask.text(info::CL_DEVICE_VERSION);
    let has = |name: &str| extensions.split_whitespace().any(|known| known == name);
    // Before OpenCL 3.0 no device knows the question.
    let fences = info::get_device_info(handle.0, info::CL_DEVICE_ATOMIC_FENCE_CAPABILITIES);
    let fences = fences.map_or(0, |value| value.to_ulong());
    let features = OpenClFeatures {
        doubles: has("cl_khr_fp64"),
        wide_atomics: has("cl_khr_int64_base_atomics") && has("cl_khr_int64_extended_atomics"),
        subgroups: has("cl_khr_subgroups"),
        subgroup_ballot: has("cl_khr_subgroup_ballot"),
        subgroup_shuffle: has("cl_khr_subgroup_shuffle") && has("cl_khr_subgroup_shuffle_relative"),
        ..OpenClFeatures::usual_on(&platform.version).with_fences(&about_version, fences)
    };
    let warp_sizes = warp_sizes(handle, features);
    let out_of_order = !platform.is_of_streams
        && ask.long(info::CL_DEVICE_QUEUE_ON_HOST_PROPERTIES)
            & cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
            != 0;
    let threads = ask.size(info::CL_DEVICE_MAX_WORK_GROUP_SIZE).max(1);
    let along = ask
        .get(info::CL_DEVICE_MAX_WORK_ITEM_SIZES)
        .map(|sizes| sizes.to_vec_size())
        .unwrap_or_default();
    let axis = |number: usize| along.get(number).map_or(1, |size| *size as u64).max(1);
    let global_memory = ask.long(info::CL_DEVICE_GLOBAL_MEM_SIZE);
    let clock = ask.number(info::CL_DEVICE_MAX_CLOCK_FREQUENCY);
    let properties = DeviceProperties {
        kind,
        vendor: if vendor.is_empty() {
            "unknown".to_owned()
        } else {
            vendor
        },
        multiprocessors: u32::try_from(ask.number(info::CL_DEVICE_MAX_COMPUTE_UNITS))
            .unwrap_or(u32::MAX)
            .max(1),
        // Larger grids than a device takes are launched in pieces.
        max_grid_blocks: [quipu_scheduler::front::MAX_GROUPS; 3],
        max_grid_block_count: quipu_scheduler::front::MAX_GROUPS,
        // The last dimension is the hardware's first.
        max_block_threads: [axis(2), axis(1), axis(0)].map(|size| size.min(threads)),
        max_block_thread_count: threads,
        max_thread_elements: [u64::MAX; 3],
        max_thread_element_count: u64::MAX,
        shared_memory_per_block: ask.long(info::CL_DEVICE_LOCAL_MEM_SIZE),
        global_memory,
        max_buffer: ask
            .long(info::CL_DEVICE_MAX_MEM_ALLOC_SIZE)
            .min(quipu_scheduler::access::MAX_MEMORY_BYTES),
        warp_sizes,
        clock_mhz: u32::try_from(clock).ok().filter(|clock| *clock > 0),
        memory: MemorySpace::Own(key),
        domain: Some(platform.number),
        concurrent_commands: IN_ORDER_QUEUES as u32,
        caller_runs: false,
        maps_host_memory: uses_host_memory(handle, kind),
        managed_memory: false,
        name,
    };
    let text = text_features(handle, features, &extensions, &mut ask);
    // Deprecated, and known to all. One that does not say so has nothing to gain for sure.
    let unified = info::get_device_info(handle.0, info::CL_DEVICE_HOST_UNIFIED_MEMORY);
    let unified = unified.map_or(true, |value| value.to_uint() != 0);
    let build = format!(
        "{}\n{}\n{}\n{}\n{}",
        platform.version,
        properties.vendor,
        properties.name,
        about_version,
        ask.text(info::CL_DRIVER_VERSION),
    );
    match problem {
        Some(problem) => Err(problem),
        None => Ok(Device {
            handle,
            platform: platform.clone(),
            properties,
            features,
            text,
            build,
            out_of_order,
            queues: OnceLock::new(),
            profiled: OnceLock::new(),
            records: Mutex::default(),
            places: Places::of_records(),
            landings: Places::of_landings(),
            clock: Clock::default(),
            staged: if unified {
                Staged::Nothing
            } else {
                Staged::WhatGains
            },
            stages: Default::default(),
            part: None,
        }),
    }
}

/// The features of a device's compiler for kernels that are texts, and the facts of its memory.
fn text_features(
    handle: DeviceHandle,
    features: OpenClFeatures,
    extensions: &str,
    ask: &mut Asked<'_>,
) -> TextFeatures {
    let has = |name: &str| extensions.split_whitespace().any(|known| known == name);
    // Questions that not every device knows.
    let told = |what| info::get_device_info(handle.0, what).ok();
    let non_uniform = told(info::CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT);
    let vendor_number = told(info::CL_DEVICE_VENDOR_ID);
    let uuid = told(info::CL_DEVICE_UUID_KHR).filter(|_| has("cl_khr_device_uuid"));
    let uuid = uuid.and_then(|value| match value {
        InfoType::Uuid(uuid) => Some(uuid),
        _ => None,
    });
    let single_config = ask.long(info::CL_DEVICE_SINGLE_FP_CONFIG);
    let cache = u32::try_from(ask.number(info::CL_DEVICE_GLOBAL_MEM_CACHE_TYPE)).unwrap_or(0);
    let cache = (cache != info::CL_NONE).then(|| MemoryCache {
        bytes: ask.long(info::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE),
        line: u32::try_from(ask.number(info::CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE)).unwrap_or(0),
        takes_writes: cache == info::CL_READ_WRITE_CACHE,
    });
    TextFeatures {
        doubles: features.doubles,
        halves: has("cl_khr_fp16"),
        wide_atomics: features.wide_atomics,
        // The compiler that reads a program here takes it, and the vendor's may not.
        optional_language: false,
        extended_language: false,
        non_uniform_blocks: non_uniform.is_some_and(|value| value.to_uint() != 0),
        denormals: single_config & info::CL_FP_DENORM != 0,
        fused_multiply_add: single_config & info::CL_FP_FMA != 0,
        constant_bytes: Some(ask.long(info::CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE)),
        vendor_number: vendor_number.map(|value| value.to_uint()),
        // The answer is in bits.
        part_alignment: Some((ask.number(info::CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8).max(1)),
        address_bits: u32::try_from(ask.number(info::CL_DEVICE_ADDRESS_BITS)).ok(),
        cache,
        corrects_errors: ask.number(info::CL_DEVICE_ERROR_CORRECTION_SUPPORT) != 0,
        // A launch may pass more than the program's arguments.
        argument_bytes: None,
        // One without a number of its own may say zeros.
        uuid: uuid.filter(|uuid| *uuid != [0; 16]),
    }
}

/// True if memory objects over host memory are that memory, with nothing to be done where the host
/// and the device take turns. OpenCL lets any device cache such memory. A processor whose memory is
/// the host's has no place for a cache. One that also has fine-grained shared virtual memory is of
/// this machine: platforms that reach other machines pass on the rest of what a processor says
/// there.
fn uses_host_memory(handle: DeviceHandle, kind: DeviceKind) -> bool {
    let unified = info::get_device_info(handle.0, info::CL_DEVICE_HOST_UNIFIED_MEMORY);
    let is_unified = unified.is_ok_and(|value| value.to_uint() != 0);
    // Before OpenCL 2.0 no device knows the question.
    let shared = info::get_device_info(handle.0, info::CL_DEVICE_SVM_CAPABILITIES);
    let shared = shared.map_or(0, |value| value.to_ulong());
    let is_shared = shared & info::CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0;
    kind == DeviceKind::Cpu && is_unified && is_shared
}

/// The sizes that warps of kernels can have; none, if the device does not say.
fn warp_sizes(handle: DeviceHandle, features: OpenClFeatures) -> Vec<u32> {
    let number = |what| {
        let value = info::get_device_info(handle.0, what).ok()?;
        Some(value.to_uint()).filter(|size| *size > 0)
    };
    if features.ptx {
        return vec![number(info::CL_DEVICE_WARP_SIZE_NV).unwrap_or(32)];
    }
    if !(features.subgroups && features.subgroup_ballot && features.subgroup_shuffle) {
        // A kernel that is printed without sub-groups has warps of one thread.
        return vec![1];
    }
    if let Ok(bytes) = info::get_device_data(handle.0, SUB_GROUP_SIZES_INTEL) {
        let sizes = bytes.chunks_exact(size_of::<usize>());
        let size = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
        let sizes = sizes
            .filter_map(size)
            .filter_map(|size| u32::try_from(size).ok());
        return sizes.filter(|size| *size > 0).collect();
    }
    number(info::CL_DEVICE_WAVEFRONT_WIDTH_AMD)
        .into_iter()
        .collect()
}

impl Device {
    /// A call failed that was to do something here.
    pub(crate) fn failed(&self, what: &str, error: &CallError) -> Error {
        of_call(self.name(), what, error)
    }
}

/// A device for a test of `what`; none, with a message, where tests go without OpenCL.
#[cfg(test)]
pub(crate) fn any(what: &str) -> Option<Device> {
    match all() {
        Ok(mut devices) => Some(devices.swap_remove(0)),
        Err(error) => {
            assert!(
                std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
                "{error}"
            );
            eprintln!("\n*** NOT TESTED: {what}. {error}\n");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cl3::types::{cl_device_type, cl_int, cl_platform_info, cl_uint};
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The first word of a vendor's platform as a loader finds it: the table of its functions, in
    /// the order of `cl_icd.h`, which it calls.
    #[repr(C)]
    struct Functions {
        get_platform_ids: *const c_void,
        get_platform_info: unsafe extern "system" fn(
            *const MadeUp,
            cl_platform_info,
            usize,
            *mut c_void,
            *mut usize,
        ) -> cl_int,
        get_device_ids: unsafe extern "system" fn(
            *const MadeUp,
            cl_device_type,
            cl_uint,
            *mut cl_device_id,
            *mut cl_uint,
        ) -> cl_int,
        /// Functions that nobody calls.
        others: [*const c_void; 200],
    }

    /// A platform that is called something, and has no devices.
    #[repr(C)]
    struct MadeUp {
        functions: *const Functions,
        name: &'static str,
        says: cl_int,
        /// The number of times that it was asked for its devices.
        asked: AtomicUsize,
    }

    static FUNCTIONS: Table = Table(Functions {
        get_platform_ids: std::ptr::null(),
        get_platform_info,
        get_device_ids,
        others: [std::ptr::null(); 200],
    });

    struct Table(Functions);
    // SAFETY: nobody writes to it.
    unsafe impl Sync for Table {}

    /// Its name, whatever is asked.
    unsafe extern "system" fn get_platform_info(
        platform: *const MadeUp,
        _what: cl_platform_info,
        room: usize,
        value: *mut c_void,
        length: *mut usize,
    ) -> cl_int {
        // SAFETY: the test hands out such a platform, and OpenCL's rules say that each of these is
        // null or valid, for so many bytes.
        unsafe {
            let name = (*platform).name.as_bytes();
            if !value.is_null() && room >= name.len() {
                std::ptr::copy_nonoverlapping(name.as_ptr(), value.cast(), name.len());
            }
            if let Some(length) = length.as_mut() {
                *length = name.len();
            }
        }
        0
    }

    unsafe extern "system" fn get_device_ids(
        platform: *const MadeUp,
        _kind: cl_device_type,
        _room: cl_uint,
        _devices: *mut cl_device_id,
        count: *mut cl_uint,
    ) -> cl_int {
        // SAFETY: as above.
        unsafe {
            (*platform).asked.fetch_add(1, Ordering::Relaxed);
            if let Some(count) = count.as_mut() {
                *count = 0;
            }
            (*platform).says
        }
    }

    /// The number of devices of a platform that answers so when it is asked for them, and true if
    /// it was asked.
    fn found(name: &'static str, says: cl_int) -> (std::result::Result<usize, String>, bool) {
        let platform = MadeUp {
            functions: &FUNCTIONS.0,
            name,
            says,
            asked: AtomicUsize::new(0),
        };
        let handle = std::ptr::from_ref(&platform).cast_mut().cast();
        let devices = devices_of(handle, 0, 0, &mut Vec::new()).map(|devices| devices.len());
        (devices, platform.asked.into_inner() > 0)
    }

    #[test]
    fn our_own_platform_is_left_out_and_no_other() {
        if let Err(error) = cl3::load_library() {
            assert!(
                std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
                "{error}"
            );
            eprintln!("\n*** NOT TESTED: which platforms are left out. {error}\n");
            return;
        }
        // CL_DEVICE_NOT_FOUND, and CL_OUT_OF_HOST_MEMORY.
        const NONE: cl_int = -1;
        const BROKEN: cl_int = -6;
        // It is not even asked: its devices are those of other drivers, which would list them
        // through it again.
        for name in ["Quipu\0", "Quipu", " Quipu \0"] {
            for says in [0, NONE, BROKEN] {
                assert_eq!(found(name, says), (Ok(0), false), "{name:?}");
            }
        }
        for name in [
            "Portable Computing Language\0",
            "quipu\0",
            "Quipu 2\0",
            "A Quipu\0",
            "\0",
        ] {
            assert_eq!(found(name, NONE), (Ok(0), true), "{name:?}");
            let (devices, asked) = found(name, BROKEN);
            let problem = devices.unwrap_err();
            assert!(asked && problem.starts_with(name.trim_matches('\0')));
            assert!(problem.contains("clGetDeviceIDs"), "{problem}");
        }
    }
}

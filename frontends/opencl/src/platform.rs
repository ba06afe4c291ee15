//! The platform: one, with every device that the environment asks for.
//!
//! Devices are looked for when they are first asked for. A loader that only lists platforms costs
//! nothing.

use crate::code::{Code, Result, ensure, entry, fail};
use crate::command_buffer;
use crate::device::Device;
use crate::dispatch::{DISPATCH, Table, function};
use crate::handle::Ref;
use crate::info::Answer;
use crate::semaphore;
use opencl_sys::*;
use quipu::DeviceKind;
use quipu_scheduler::MemorySpace;
use quipu_scheduler::said::say;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The version of the API, as the platform and its devices say it.
pub(crate) const VERSION: cl_version = version(3, 0, 0);
pub(crate) const VERSION_TEXT: &str = concat!("OpenCL 3.0 Quipu ", env!("CARGO_PKG_VERSION"));
pub(crate) const NAME: &str = "Quipu";
/// `CL_PLATFORM_ICD_SUFFIX_KHR`: what the names of our own functions would end with.
const SUFFIX: &str = "QUIPU";

/// The number of simulated accelerators, and the bytes of memory of each.
const SIMULATED: u8 = 2;
const SIMULATED_BYTES: u64 = 1 << 30;

/// A version number as OpenCL packs it.
pub(crate) const fn version(major: u32, minor: u32, patch: u32) -> cl_version {
    major << 22 | minor << 12 | patch
}

/// A name with a version, as OpenCL lists them.
pub(crate) fn named(name: &str, version: cl_version) -> cl_name_version {
    let mut bytes = [0; CL_NAME_VERSION_MAX_NAME_SIZE];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    cl_name_version {
        version,
        name: bytes,
    }
}

/// Extensions that the platform and all of its devices have.
pub(crate) const EXTENSIONS: [(&str, cl_version); 9] = [
    ("cl_khr_icd", version(2, 0, 0)),
    ("cl_khr_create_command_queue", version(1, 0, 0)),
    ("cl_khr_extended_versioning", version(1, 0, 0)),
    ("cl_khr_priority_hints", version(1, 0, 0)),
    ("cl_khr_semaphore", version(1, 0, 0)),
    ("cl_pocl_content_size", version(1, 0, 0)),
    ("cl_khr_command_buffer", version(0, 9, 8)),
    ("cl_khr_command_buffer_multi_device", version(0, 9, 2)),
    ("cl_khr_command_buffer_mutable_dispatch", version(0, 9, 5)),
];

/// Names of extensions, as `CL_DEVICE_EXTENSIONS` lists them.
pub(crate) fn names(extensions: &[(&str, cl_version)]) -> String {
    let names: Vec<&str> = extensions.iter().map(|(name, _)| *name).collect();
    names.join(" ")
}

/// Extensions with their versions, as `CL_DEVICE_EXTENSIONS_WITH_VERSION` lists them.
pub(crate) fn versions(extensions: &[(&str, cl_version)]) -> Vec<cl_name_version> {
    let all = extensions.iter();
    all.map(|(name, version)| named(name, *version)).collect()
}

#[repr(C)]
pub(crate) struct PlatformHandle {
    dispatch: &'static Table,
    /// The loader's data for the platform.
    data: AtomicPtr<c_void>,
}

static PLATFORM: PlatformHandle = PlatformHandle {
    dispatch: &DISPATCH,
    data: AtomicPtr::new(null_mut()),
};

/// Has the platform, and its devices as far as there are any yet, point to what the loader has for
/// it.
pub(crate) fn set_data(data: *mut c_void) {
    PLATFORM.data.store(data, Ordering::Release);
    for device in DEVICES.get().into_iter().flatten() {
        device.set_data(data);
    }
}

/// The handle of the platform.
pub(crate) fn handle() -> cl_platform_id {
    std::ptr::from_ref(&PLATFORM).cast_mut().cast()
}

/// Looks at a handle of the platform; none is the platform as well.
pub(crate) fn check(platform: cl_platform_id) -> Result<()> {
    ensure(
        platform.is_null() || platform == handle(),
        CL_INVALID_PLATFORM,
    )
}

static DEVICES: OnceLock<Vec<Ref<Device>>> = OnceLock::new();

/// The devices of the platform. They live as long as the process.
pub(crate) fn devices() -> &'static [Ref<Device>] {
    DEVICES.get_or_init(find)
}

fn find() -> Vec<Ref<Device>> {
    if let Err(error) = quipu::init_logging_from_env() {
        say(format_args!("quipu: {error}"));
    }
    let asked = quipu_environment::OPENCL_DEVICES.get();
    let asked = asked.unwrap_or_else(|error| {
        say(format_args!("quipu: {error}"));
        None
    });
    let mut builder = quipu::Platform::builder();
    // There are none on any machine, but for programs that ask for some.
    let is_simulated = |name: &String| name.split(':').next() == Some("sim");
    if asked.iter().flatten().any(is_simulated) {
        let machine = quipu::simulation::Configuration::separate_memory(SIMULATED, SIMULATED_BYTES);
        builder = builder.simulated(machine);
    }
    // A loader lists its platforms before it asks one for devices, so it can be asked for those of
    // other platforms now.
    let platform = builder.build_available();
    for driver in platform.unavailable() {
        match driver.driver {
            "remote" => say(format_args!(
                "quipu: goes on without a node: {}",
                driver.error
            )),
            name => tracing::debug!(driver = name, "no devices: {}", driver.error),
        }
    }
    let devices = platform.devices().iter().map(quipu::Device::core);
    let listed: Vec<_> = match &asked {
        Some(names) => chosen(names, devices.collect()),
        None => {
            let all: Vec<_> = devices.collect();
            let is_shown_twice = |device: &quipu_scheduler::Device| {
                device.driver_name() == "cuda"
                    && all.iter().any(|other| is_nvidias(other) && is_usual(other))
            };
            let listed = all.iter().copied();
            listed
                .filter(|device| is_usual(device) && !is_shown_twice(device))
                .collect()
        }
    };
    let listed = listed.into_iter();
    listed
        .filter_map(|device| Device::root(device.clone()).ok())
        .collect()
}

/// The devices of these names. Of a name for several, as a node's, those that can have kernels in
/// OpenCL C, or all if none can: an error of its compiler says what to install.
fn chosen<'d>(
    names: &[String],
    devices: Vec<&'d quipu_scheduler::Device>,
) -> Vec<&'d quipu_scheduler::Device> {
    let is_one = |name: &str| {
        let number = name.rsplit_once(':').map(|(_, number)| number);
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    };
    let is_listed = |device: &quipu_scheduler::Device, name: &String| {
        let is_called = device.is_called(name);
        let siblings = || devices.iter().filter(|other| other.is_called(name));
        let takes_text =
            || Device::takes_text(device) || !siblings().any(|other| Device::takes_text(other));
        device.name() == name || is_called && (is_one(name) || takes_text())
    };
    let all = devices.iter().copied();
    all.filter(|device| names.iter().any(|name| is_listed(device, name)))
        .collect()
}

/// True for devices that a program gets without asking for them by name.
fn is_usual(device: &quipu_scheduler::Device) -> bool {
    let properties = device.properties();
    let runs_kernels = !matches!(properties.kind, DeviceKind::Custom | DeviceKind::Simulated);
    // Another platform's device for this processor is the same cores once more.
    let is_again = device.driver_name() == "opencl" && properties.kind == DeviceKind::Cpu;
    // A driver's list of devices may have one for debugging, which is the caller's thread.
    runs_kernels && !is_again && !properties.caller_runs && Device::takes_text(device)
}

/// True for a device that NVIDIA's own platform shows.
fn is_nvidias(device: &quipu_scheduler::Device) -> bool {
    let properties = device.properties();
    device.driver_name() == "opencl"
        && properties.kind == DeviceKind::Gpu
        && properties.vendor.to_ascii_lowercase().contains("nvidia")
}

/// True if a program asks for devices of every type. Programs in languages without unsigned numbers
/// pass -1.
fn is_all(kind: cl_device_type) -> bool {
    kind & CL_DEVICE_TYPE_ALL == CL_DEVICE_TYPE_ALL
}

/// Looks at a type of devices that a program asks for.
pub(crate) fn check_type(kind: cl_device_type) -> Result<()> {
    const TYPES: cl_device_type = CL_DEVICE_TYPE_DEFAULT
        | CL_DEVICE_TYPE_CPU
        | CL_DEVICE_TYPE_GPU
        | CL_DEVICE_TYPE_ACCELERATOR
        | CL_DEVICE_TYPE_CUSTOM;
    ensure(
        is_all(kind) || kind != 0 && kind & !TYPES == 0,
        CL_INVALID_DEVICE_TYPE,
    )
}

/// The devices of a type.
pub(crate) fn devices_of(kind: cl_device_type) -> Vec<Ref<Device>> {
    let all = devices();
    let is_usual = |device: &&Ref<Device>| device.kind() != CL_DEVICE_TYPE_CUSTOM;
    if is_all(kind) {
        return all.iter().filter(is_usual).cloned().collect();
    }
    let is_first = |device: &Ref<Device>| all.first().is_some_and(|first| first.is(device));
    let fits = |device: &&Ref<Device>| {
        device.kind() & kind != 0 || kind & CL_DEVICE_TYPE_DEFAULT != 0 && is_first(device)
    };
    all.iter().filter(fits).cloned().collect()
}

/// True if a device works in the host's memory.
pub(crate) fn is_on_host(device: &quipu_scheduler::Device) -> bool {
    device.properties().memory == MemorySpace::Host
}

#[unsafe(export_name = "clGetPlatformIDs")]
pub(crate) unsafe extern "C" fn get_platform_ids(
    entries: cl_uint,
    platforms: *mut cl_platform_id,
    count: *mut cl_uint,
) -> cl_int {
    entry(|| {
        ensure(
            (entries != 0 || platforms.is_null()) && !(platforms.is_null() && count.is_null()),
            CL_INVALID_VALUE,
        )?;
        if !platforms.is_null() {
            // SAFETY: the program passes room for at least one.
            unsafe { platforms.write(handle()) };
        }
        if !count.is_null() {
            // SAFETY: the program passes where the number goes.
            unsafe { count.write(1) };
        }
        Ok(())
    })
}

#[unsafe(export_name = "clGetPlatformInfo")]
pub(crate) unsafe extern "C" fn get_platform_info(
    platform: cl_platform_id,
    name: cl_platform_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        check(platform)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_PLATFORM_PROFILE => answer.text("FULL_PROFILE"),
            CL_PLATFORM_VERSION => answer.text(VERSION_TEXT),
            CL_PLATFORM_NAME => answer.text(NAME),
            CL_PLATFORM_VENDOR => answer.text("The Quipu project"),
            CL_PLATFORM_EXTENSIONS => answer.text(&names(&EXTENSIONS)),
            CL_PLATFORM_ICD_SUFFIX_KHR => answer.text(SUFFIX),
            CL_PLATFORM_HOST_TIMER_RESOLUTION => answer.value::<cl_ulong>(1),
            CL_PLATFORM_NUMERIC_VERSION => answer.value(VERSION),
            CL_PLATFORM_EXTENSIONS_WITH_VERSION => answer.slice(&versions(&EXTENSIONS)),
            CL_PLATFORM_SEMAPHORE_TYPES_KHR => answer.slice(&semaphore::TYPES),
            CL_PLATFORM_COMMAND_BUFFER_CAPABILITIES_KHR => {
                answer.value(command_buffer::PLATFORM_CAPABILITIES)
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clGetDeviceIDs")]
pub(crate) unsafe extern "C" fn get_device_ids(
    platform: cl_platform_id,
    kind: cl_device_type,
    entries: cl_uint,
    devices: *mut cl_device_id,
    count: *mut cl_uint,
) -> cl_int {
    entry(|| {
        check(platform)?;
        check_type(kind)?;
        ensure(
            (entries != 0 || devices.is_null()) && !(devices.is_null() && count.is_null()),
            CL_INVALID_VALUE,
        )?;
        let found = devices_of(kind);
        if !count.is_null() {
            // SAFETY: the program passes where the number goes.
            unsafe { count.write(found.len() as cl_uint) };
        }
        let room = if devices.is_null() { 0 } else { entries };
        for (index, device) in found.iter().enumerate().take(room as usize) {
            // SAFETY: the program passes room for so many entries.
            unsafe { devices.add(index).write(device.handle()) };
        }
        ensure(!found.is_empty(), CL_DEVICE_NOT_FOUND)
    })
}

#[unsafe(export_name = "clUnloadPlatformCompiler")]
pub(crate) unsafe extern "C" fn unload_platform_compiler(platform: cl_platform_id) -> cl_int {
    // The compiler is a process that ends by itself.
    entry(|| ensure(platform == handle(), CL_INVALID_PLATFORM))
}

#[unsafe(export_name = "clUnloadCompiler")]
pub(crate) unsafe extern "C" fn unload_compiler() -> cl_int {
    CL_SUCCESS
}

#[unsafe(export_name = "clGetExtensionFunctionAddress")]
pub(crate) unsafe extern "C" fn get_extension_function_address(name: *const c_char) -> *mut c_void {
    let address = || {
        if name.is_null() {
            return Err(Code(CL_INVALID_VALUE));
        }
        // SAFETY: the program passes a text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(function(name.to_bytes()))
    };
    // SAFETY: no code is asked for.
    unsafe { crate::code::create(std::ptr::null_mut(), address) }
}

#[unsafe(export_name = "clGetExtensionFunctionAddressForPlatform")]
pub(crate) unsafe extern "C" fn get_extension_function_address_for_platform(
    platform: cl_platform_id,
    name: *const c_char,
) -> *mut c_void {
    if check(platform).is_err() {
        return std::ptr::null_mut();
    }
    // SAFETY: as the program promises there.
    unsafe { get_extension_function_address(name) }
}

//! Contexts: devices that share buffers, programs and events.

use crate::callbacks;
use crate::code::{Code, Result, create, ensure, entry, fail};
use crate::device::Device;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use crate::platform::{self, check_type, devices_of, handle};
use crate::svm::Shared;
use opencl_sys::*;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{Failures, Hazards, Phase, QueueOptions};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) struct Context {
    pub(crate) core: quipu_scheduler::Context,
    /// The queue of commands that the host carries out: see [`host`](Self::host).
    host: HostQueue,
    /// The same for queues that keep timestamps.
    timed_host: OnceLock<HostQueue>,
    pub(crate) devices: Vec<Ref<Device>>,
    /// True if all devices work in the host's memory: then no bytes ever move.
    pub(crate) is_on_host: bool,
    /// The commands that hazards order. OpenCL has a program order those of different queues by
    /// events alone.
    pub(crate) hazards: Hazards,
    /// True if any device works in the host's memory: then there is shared virtual memory, for
    /// those that do.
    pub(crate) shares_memory: bool,
    pub(crate) shared: Shared,
    pub(crate) queues: Queues,
    /// As the program said them.
    properties: Vec<cl_context_properties>,
    callbacks: Callbacks,
    /// The program's function for errors, with the pointer that it is passed.
    told: Option<(Tell, usize)>,
}

object!(Context, CL_INVALID_CONTEXT);

/// A function of the program's that is called with a handle and a pointer of its own.
type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Functions of the program's that are called when an object goes, the last one first.
#[derive(Default)]
pub(crate) struct Callbacks(Mutex<Vec<(Callback, usize, usize)>>);

impl Callbacks {
    pub(crate) fn is_empty(&self) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.is_empty()
    }

    pub(crate) fn add(&self, call: Callback, of: *mut c_void, data: *mut c_void) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((call, of.expose_provenance(), data.expose_provenance()));
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        let calls = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        for (call, of, data) in calls.into_iter().rev() {
            callbacks::later(move || {
                let [of, data] = [of, data].map(std::ptr::with_exposed_provenance_mut);
                // SAFETY: the program gave the function to be called so.
                unsafe { call(of, data) };
            });
        }
    }
}

/// True if an event is over, however it ended.
pub(crate) fn is_finished(event: &quipu_scheduler::Event) -> bool {
    matches!(event.phase(), Phase::Complete | Phase::Failed)
}

/// The queues of a context, for what waits for all commands of it.
#[derive(Default)]
pub(crate) struct Queues {
    in_use: Mutex<InUse>,
}

#[derive(Default)]
struct InUse {
    /// By a number of each.
    queues: BTreeMap<u64, quipu_scheduler::Queue>,
    /// The ends of what queues that are gone had in flight.
    left: Vec<quipu_scheduler::Event>,
    next: u64,
}

impl Queues {
    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a queue, and gives it a number.
    pub(crate) fn add(&self, queue: &quipu_scheduler::Queue) -> u64 {
        let mut in_use = self.in_use();
        in_use.left.retain(|event| !is_finished(event));
        let number = in_use.next;
        in_use.next += 1;
        in_use.queues.insert(number, queue.clone());
        number
    }

    /// A queue goes. Its commands in flight are still waited for: gives their end.
    pub(crate) fn remove(&self, number: u64) -> Option<quipu_scheduler::Event> {
        let queue = self.in_use().queues.remove(&number);
        let end = queue.and_then(|queue| queue.marker(&[]).ok())?;
        let mut in_use = self.in_use();
        in_use.left.retain(|event| !is_finished(event));
        if is_finished(&end) {
            return None;
        }
        in_use.left.push(end.clone());
        Some(end)
    }

    /// Waits for everything that was enqueued. Whether it fails makes no difference.
    pub(crate) fn wait(&self) {
        let (queues, left) = {
            let in_use = self.in_use();
            let queues: Vec<_> = in_use.queues.values().cloned().collect();
            (queues, in_use.left.clone())
        };
        for queue in queues {
            let _ = queue.wait();
        }
        for event in left {
            let _ = event.wait();
        }
    }
}

impl Context {
    /// The queue of commands that the host carries out.
    pub(crate) fn host(&self, profiling: bool) -> Result<&HostQueue> {
        if !profiling {
            return Ok(&self.host);
        }
        if let Some(host) = self.timed_host.get() {
            return Ok(host);
        }
        let options = QueueOptions {
            profiling: true,
            hazards: self.hazards,
            ..QueueOptions::default()
        };
        let host = HostQueue::with_options(&self.core, options)?;
        Ok(self.timed_host.get_or_init(|| host))
    }

    /// True if the program has a function for errors.
    pub(crate) fn tells_errors(&self) -> bool {
        self.told.is_some()
    }

    /// Has the program's function for errors be called if a command fails of which the program has
    /// no event.
    pub(crate) fn tell_failure_of(&self, command: &quipu_scheduler::Event) {
        let Some((tell, data)) = self.told else {
            return;
        };
        command.on_complete(move |result| {
            let Err(error) = result else { return };
            let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
            callbacks::later(move || {
                let data = std::ptr::with_exposed_provenance_mut(data);
                // SAFETY: the program gave the function to be called so; the text ends with a zero.
                unsafe { tell(text.as_ptr(), std::ptr::null(), 0, data) };
            });
        });
    }

    /// True if a device of it has images.
    pub(crate) fn has_images(&self) -> bool {
        self.devices.iter().any(|device| device.has_images())
    }

    /// The device that a program means, which has to be of this context.
    pub(crate) fn device(&self, device: cl_device_id) -> Result<&Ref<Device>> {
        let mut devices = self.devices.iter();
        let ours = devices.find(|ours| ours.handle() == device);
        ours.ok_or(Code(CL_INVALID_DEVICE))
    }
}

/// A list of properties that ends with a zero, as pairs; and as it was said.
///
/// # Safety
/// The list ends so, or is null.
pub(crate) unsafe fn pairs<T: Copy + PartialEq + Default>(
    first: *const T,
) -> (Vec<(T, T)>, Vec<T>) {
    let (mut pairs, mut said) = (Vec::new(), Vec::new());
    if first.is_null() {
        return (pairs, said);
    }
    // SAFETY: as the caller promises.
    let at = |index: usize| unsafe { first.add(index).read() };
    while at(said.len()) != T::default() {
        let (key, value) = (at(said.len()), at(said.len() + 1));
        said.extend([key, value]);
        pairs.push((key, value));
    }
    said.push(T::default());
    (pairs, said)
}

fn make(
    devices: Vec<Ref<Device>>,
    properties: *const cl_context_properties,
    told: Option<(Tell, usize)>,
) -> Result<*mut c_void> {
    // SAFETY: the program passes a list that ends with a zero, or null.
    let (pairs, properties) = unsafe { pairs(properties) };
    let mut seen = Vec::new();
    for (key, value) in pairs {
        ensure(!seen.contains(&key), CL_INVALID_PROPERTY)?;
        seen.push(key);
        match key {
            CL_CONTEXT_PLATFORM => {
                let platform: *mut c_void = std::ptr::with_exposed_provenance_mut(value as usize);
                ensure(platform == handle(), CL_INVALID_PLATFORM)?;
            }
            CL_CONTEXT_INTEROP_USER_SYNC => {
                ensure(matches!(value, 0 | 1), CL_INVALID_PROPERTY)?;
            }
            _ => return fail(CL_INVALID_PROPERTY),
        }
    }
    let cores: Vec<_> = devices.iter().map(|device| device.core.clone()).collect();
    let core = quipu_scheduler::Context::with_failures(&cores, Failures::StayWithEvents)?;
    let is_on_host = cores.iter().all(platform::is_on_host);
    let hazards = match is_on_host {
        // SAFETY: the standard gives no meaning to races of a program's commands. The memory is in
        // the host's space alone.
        true => unsafe { Hazards::within_queue() },
        false => Hazards::ACROSS_QUEUES,
    };
    let options = QueueOptions {
        hazards,
        ..QueueOptions::default()
    };
    let context = Ref::new(Context {
        host: HostQueue::with_options(&core, options)?,
        timed_host: OnceLock::new(),
        is_on_host,
        hazards,
        shares_memory: cores.iter().any(platform::is_on_host),
        shared: Shared::default(),
        queues: Queues::default(),
        core,
        devices,
        properties,
        callbacks: Callbacks::default(),
        told,
    })?;
    Ok(context.give())
}

/// A function that is told of errors of a context: of what calls do not report.
type Tell = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

/// Such a function, if a program passes one, with its pointer.
fn told(tell: Option<Tell>, data: *mut c_void) -> Result<Option<(Tell, usize)>> {
    ensure(tell.is_some() || data.is_null(), CL_INVALID_VALUE)?;
    Ok(tell.map(|tell| (tell, data.expose_provenance())))
}

#[unsafe(export_name = "clCreateContext")]
pub(crate) unsafe extern "C" fn create_context(
    properties: *const cl_context_properties,
    count: cl_uint,
    devices: *const cl_device_id,
    tell: Option<Tell>,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let body = || {
        // SAFETY: the program passes so many handles.
        let devices = unsafe { crate::code::list(count as usize, devices) };
        let devices = devices
            .filter(|devices| !devices.is_empty())
            .ok_or(Code(CL_INVALID_VALUE))?;
        let told = told(tell, data)?;
        let mut known: Vec<Ref<Device>> = Vec::new();
        for device in devices {
            let device = Ref::<Device>::of(*device)?;
            // One that is named twice counts once.
            if !known.iter().any(|one| one.is(&device)) {
                known.push(device);
            }
        }
        make(known, properties, told)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateContextFromType")]
pub(crate) unsafe extern "C" fn create_context_from_type(
    properties: *const cl_context_properties,
    kind: cl_device_type,
    tell: Option<Tell>,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let body = || {
        let told = told(tell, data)?;
        check_type(kind)?;
        let devices = devices_of(kind);
        ensure(!devices.is_empty(), CL_DEVICE_NOT_FOUND)?;
        make(devices, properties, told)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainContext")]
pub(crate) unsafe extern "C" fn retain_context(context: cl_context) -> cl_int {
    entry(|| retain::<Context>(context))
}

#[unsafe(export_name = "clReleaseContext")]
pub(crate) unsafe extern "C" fn release_context(context: cl_context) -> cl_int {
    entry(|| release::<Context>(context))
}

#[unsafe(export_name = "clGetContextInfo")]
pub(crate) unsafe extern "C" fn get_context_info(
    context: cl_context,
    name: cl_context_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let context = Ref::<Context>::of(context)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_CONTEXT_REFERENCE_COUNT => answer.value(context.references()),
            CL_CONTEXT_NUM_DEVICES => answer.value(context.devices.len() as cl_uint),
            CL_CONTEXT_DEVICES => {
                let devices: Vec<_> = context.devices.iter().map(Ref::handle).collect();
                answer.slice(&devices)
            }
            CL_CONTEXT_PROPERTIES => answer.slice(&context.properties),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clSetContextDestructorCallback")]
pub(crate) unsafe extern "C" fn set_context_destructor_callback(
    context: cl_context,
    call: Option<Callback>,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        let object = Ref::<Context>::of(context)?;
        let call = call.ok_or(Code(CL_INVALID_VALUE))?;
        object.callbacks.add(call, context, data);
        Ok(())
    })
}

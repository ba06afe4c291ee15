//! Programs: texts in OpenCL C, and their builds for devices.
//!
//! The compiler for processors reads a text for any devices: it finds the kernels, their
//! parameters, and the text's errors. On a machine without that compiler a device's driver reads it
//! (`reading`). Devices that compile OpenCL C themselves are given the text with the first launch,
//! and those that also link (nodes) the parts of a program that was linked (`link`) or is SPIR-V
//! (`il`). Compiled code is kept on disk. So a program's binary is its text, with all that it
//! includes, and its options. One that was linked for this machine's processors alone is bitcode
//! (`binary`).

mod binary;
mod il;
mod link;
mod reading;

pub(crate) use il::*;
pub(crate) use link::*;

use crate::callbacks::{self, Data};
use crate::code::{Code, Result, create, ensure, entry, fail, list};
use crate::context::Context;
use crate::device::Device;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use binary::Read;
use opencl_sys::*;
use quipu_clc::{ClcError, Description, KernelInfo, Need, Part, Unit};
use reading::{NotBuilt, accepted};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Program {
    pub(crate) context: Ref<Context>,
    pub(crate) source: Arc<str>,
    origin: Origin,
    devices: Vec<Ref<Device>>,
    builds: Mutex<Vec<Build>>,
    /// Kernels that the program has of it: while there are any, it is not built again.
    pub(crate) kernels: AtomicU32,
}

object!(Program, CL_INVALID_PROGRAM);

/// The origin of a program.
enum Origin {
    /// A text, as the program passed it.
    Text(Box<[u8]>),
    /// A binary for each device.
    Binaries(Vec<Read>),
    /// A module of SPIR-V.
    Il(Il),
    /// Others, by linking.
    Linked,
}

/// The last build of a program for a device.
#[derive(Clone)]
struct Build {
    status: cl_build_status,
    options: String,
    log: String,
    made: Option<Made>,
}

/// The result of a build.
#[derive(Clone)]
enum Made {
    Executable(Built),
    /// It was compiled, to be linked.
    Object(Linkable),
    Library(Linkable),
}

/// The result of a compilation, or of several programs that were linked to a library.
#[derive(Clone, PartialEq)]
struct Linkable {
    /// By this machine's compiler; none if a device's driver has looked at it, of a program without
    /// native devices.
    unit: Option<Arc<Unit>>,
    /// The parts for devices that link and do not run native code; none if the program has no such
    /// device, or is made of bitcode.
    parts: Option<Arc<[Part]>>,
    warnings: String,
}

/// A program whose kernels run.
#[derive(Clone)]
pub(crate) struct Built {
    description: Arc<Description>,
    /// The program that this machine's compiler has read; none if a device's driver has, of a
    /// program without native devices.
    pub(crate) program: Option<Arc<quipu_clc::Program>>,
    pub(crate) options: Arc<str>,
    /// The text for binaries and for devices that do not run native code. Neither see the files
    /// that it includes, so it has them.
    pub(crate) source: Arc<str>,
    /// Of a program that was linked, or is SPIR-V, what devices link that do not run native code.
    pub(crate) parts: Option<Arc<[Part]>>,
    /// The number of the device whose driver has read it, if one has.
    read_by: Option<u32>,
    /// Of a program that was linked, what it was read from.
    unit: Option<Arc<Unit>>,
}

impl Built {
    /// A program that this machine's compiler has read.
    fn read_here(program: quipu_clc::Program) -> Self {
        let description = Description {
            kernels: program.kernels().to_vec(),
            log: program.warnings().to_owned(),
        };
        Self {
            program: Some(Arc::new(program)),
            ..Self::of(description)
        }
    }

    /// A program that a device's driver has read.
    fn read_there((description, device): (Description, u32)) -> Self {
        Self {
            read_by: Some(device),
            ..Self::of(description)
        }
    }

    /// A program of which nothing but this is known.
    fn of(description: Description) -> Self {
        Self {
            description: Arc::new(description),
            program: None,
            options: "".into(),
            source: "".into(),
            parts: None,
            read_by: None,
            unit: None,
        }
    }

    /// The same, of a text.
    fn of_text(self, source: Arc<str>, options: &str) -> Self {
        Self {
            source,
            options: options.into(),
            ..self
        }
    }

    /// True if both are of one build.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.description, &other.description)
    }

    pub(crate) fn kernels(&self) -> &[KernelInfo] {
        &self.description.kernels
    }

    fn variable_bytes(&self) -> u64 {
        let program = self.program.as_ref();
        program.map_or(0, |program| program.variable_bytes())
    }
}

impl Made {
    fn executable(&self) -> Option<&Built> {
        match self {
            Self::Executable(built) => Some(built),
            _ => None,
        }
    }

    /// The part of it that may be linked.
    fn linkable(&self) -> Option<&Linkable> {
        match self {
            Self::Object(linkable) | Self::Library(linkable) => Some(linkable),
            Self::Executable(_) => None,
        }
    }

    /// The compiler's warnings.
    fn warnings(&self) -> &str {
        match self {
            Self::Executable(built) => &built.description.log,
            Self::Object(linkable) | Self::Library(linkable) => &linkable.warnings,
        }
    }

    fn binary_type(&self) -> cl_program_binary_type {
        match self {
            Self::Executable(_) => CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
            Self::Object(_) => CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT,
            Self::Library(_) => CL_PROGRAM_BINARY_TYPE_LIBRARY,
        }
    }

    fn binary(&self) -> Vec<u8> {
        match self {
            Self::Executable(built) => match (&built.parts, &built.unit) {
                (Some(parts), _) => binary::of_parts(b'e', parts),
                (None, Some(unit)) => binary::of_unit(b'e', unit),
                (None, None) => binary::of_text(&built.source, &built.options),
            },
            Self::Object(linkable) => linkable.binary(b'o'),
            Self::Library(linkable) => linkable.binary(b'l'),
        }
    }
}

impl Build {
    fn none() -> Self {
        Self {
            status: CL_BUILD_NONE,
            options: String::new(),
            log: String::new(),
            made: None,
        }
    }
}

impl Program {
    fn create(
        context: Ref<Context>,
        devices: Vec<Ref<Device>>,
        source: &str,
        origin: Origin,
        build: Build,
    ) -> Result<Ref<Self>> {
        let builds = Mutex::new(vec![build; devices.len()]);
        Ref::new(Self {
            context,
            source: source.into(),
            origin,
            devices,
            builds,
            kernels: AtomicU32::new(0),
        })
    }

    fn builds(&self) -> MutexGuard<'_, Vec<Build>> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of its build for the first device for which it was built.
    fn built(&self) -> Result<Built> {
        Ok(self.built_for_each()?.swap_remove(0).1)
    }

    /// The devices for which it was built, of which there is one at least, and what it was built to
    /// for each.
    pub(crate) fn built_for_each(&self) -> Result<Vec<(Ref<Device>, Built)>> {
        let builds = self.builds();
        let pairs = self.devices.iter().zip(builds.iter());
        let built = pairs.filter_map(|(device, build)| {
            let built = build.made.as_ref().and_then(Made::executable)?;
            Some((device.clone(), built.clone()))
        });
        let built: Vec<_> = built.collect();
        ensure(!built.is_empty(), CL_INVALID_PROGRAM_EXECUTABLE)?;
        Ok(built)
    }

    fn is_il(&self) -> bool {
        matches!(self.origin, Origin::Il(_))
    }

    fn number_of(&self, device: cl_device_id) -> Result<usize> {
        let device = Ref::<Device>::of(device)?;
        let number = self.devices.iter().position(|one| one.is(&device));
        number.ok_or(Code(CL_INVALID_DEVICE))
    }

    /// The numbers of devices that a program means: of all that take it, if it names none. A build
    /// for a device is a build for its parts.
    ///
    /// # Safety
    /// The pointer is null, or valid for reads of so many handles.
    unsafe fn numbers(&self, count: cl_uint, devices: *const cl_device_id) -> Result<Vec<usize>> {
        // SAFETY: as the caller promises.
        let devices = unsafe { list(count as usize, devices) }.ok_or(Code(CL_INVALID_VALUE))?;
        match devices {
            [] => {
                let all = self.devices.iter().enumerate();
                let taking = all.filter(|(_, device)| !self.is_il() || device.takes_il());
                Ok(taking.map(|(number, _)| number).collect())
            }
            some => {
                let mut numbers = Vec::new();
                for device in some {
                    let whole = &self.devices[self.number_of(*device)?];
                    let parts = self.devices.iter().enumerate();
                    let parts = parts.filter(|(_, part)| Device::is_of(part, whole));
                    ensure(!self.is_il() || whole.takes_il(), CL_INVALID_OPERATION)?;
                    numbers.extend(parts.map(|(number, _)| number));
                }
                Ok(numbers)
            }
        }
    }

    /// Has something made of the program for some of its devices, of which each may refuse it, and
    /// keeps how that went. The codes are those of options that are none, and of a text that is at
    /// fault.
    fn make(
        &self,
        numbers: &[usize],
        options: &str,
        codes: [cl_int; 2],
        make: impl FnOnce() -> std::result::Result<Made, NotBuilt>,
    ) -> Result<()> {
        ensure(
            self.kernels.load(Ordering::Acquire) == 0,
            CL_INVALID_OPERATION,
        )?;
        let build = |status| Build {
            status,
            options: options.to_owned(),
            ..Build::none()
        };
        {
            let mut builds = self.builds();
            let is_going_on =
                |number: &usize| matches!(builds[*number].status, CL_BUILD_IN_PROGRESS);
            ensure(!numbers.iter().any(is_going_on), CL_INVALID_OPERATION)?;
            for number in numbers {
                builds[*number] = build(CL_BUILD_IN_PROGRESS);
            }
        }
        let made = make();
        let (mut ended, mut result) = (Vec::new(), Ok(()));
        for number in numbers {
            let refused = match &made {
                Ok(made) => accepted(&self.devices[*number], made).err(),
                Err(_) => None,
            };
            ended.push(match (&made, &refused) {
                (Ok(made), None) => Build {
                    log: made.warnings().to_owned(),
                    made: Some(made.clone()),
                    ..build(CL_BUILD_SUCCESS)
                },
                (_, Some(error)) | (Err(error), None) => {
                    result = result.and(fail(error.code(codes)));
                    Build {
                        log: error.log(),
                        ..build(CL_BUILD_ERROR)
                    }
                }
            });
        }
        let mut builds = self.builds();
        for (number, build) in numbers.iter().zip(ended) {
            builds[*number] = build;
        }
        result
    }

    /// Builds the program for some of its devices.
    fn build(&self, numbers: &[usize], options: &str) -> Result<()> {
        let mut result = Ok(());
        for alike in self.alike(numbers) {
            result = result.and(self.build_alike(&alike, options));
        }
        result
    }

    /// Groups of devices that share what is made of the program: their binaries are the same, and
    /// they have the same features.
    fn alike(&self, numbers: &[usize]) -> Vec<Vec<usize>> {
        let (mut groups, mut left) = (Vec::new(), numbers.to_vec());
        while let Some(first) = left.first().copied() {
            let has_same = |number: &usize| match &self.origin {
                Origin::Binaries(binaries) => binaries[*number] == binaries[first],
                _ => true,
            };
            let absent = absent(&self.devices[first]);
            let is_alike =
                |number: &usize| has_same(number) && self::absent(&self.devices[*number]) == absent;
            let (alike, others) = left.into_iter().partition::<Vec<_>, _>(is_alike);
            groups.push(alike);
            left = others;
        }
        groups
    }

    /// The binary of the program for devices that share one, if it was made of binaries.
    fn binary_for(&self, numbers: &[usize]) -> Option<&Read> {
        match (&self.origin, numbers.first()) {
            (Origin::Binaries(binaries), Some(first)) => Some(&binaries[*first]),
            _ => None,
        }
    }

    /// Builds the program for devices for which it is made of the same.
    fn build_alike(&self, numbers: &[usize], options: &str) -> Result<()> {
        let binary = self.binary_for(numbers);
        // A binary is compiled already: what it was compiled with is what counts.
        let (source, used) = match (&self.origin, binary) {
            (Origin::Linked, _) => return fail(CL_INVALID_OPERATION),
            (_, Some(Read::Text { source, options })) => (source, &**options),
            _ => (&self.source, options),
        };
        let used = &self.with_truth_of_devices(numbers, used);
        let codes = [CL_INVALID_BUILD_OPTIONS, CL_BUILD_PROGRAM_FAILURE];
        self.make(numbers, options, codes, || {
            let built = match (&self.origin, binary.and_then(Read::linkable)) {
                (_, Some(linkable)) => self.link(numbers, &[linkable])?,
                (Origin::Il(_), None) => {
                    self.link(numbers, &[self.compile(numbers, options, &[])?])?
                }
                _ => self.read(numbers, source, used)?,
            };
            Ok(Made::Executable(built))
        })
    }

    /// True if one of these devices runs native code: only this machine's compiler makes that.
    fn has_native(&self, numbers: &[usize]) -> bool {
        let mut devices = numbers.iter().map(|number| &self.devices[*number]);
        devices.any(|device| device.is_native())
    }

    /// Options with those that have the compiler not tell the program of what these devices lack,
    /// which are alike.
    fn with_truth_of_devices(&self, numbers: &[usize], options: &str) -> String {
        let first = numbers.first().map(|first| &self.devices[*first]);
        let absent = first.map_or_else(Vec::new, |device| absent(device));
        let all = [options].into_iter().chain(absent);
        all.collect::<Vec<_>>().join(" ")
    }
}

/// Options for what a device lacks.
fn absent(device: &Device) -> Vec<&'static str> {
    let lacking = Need::ALL.into_iter().filter(|need| !device.has(*need));
    lacking.map(Need::absent).collect()
}

/// Options that a program passes as a text, or not.
///
/// # Safety
/// The pointer is null, or that of a text that ends with a zero.
unsafe fn options_of(options: *const c_char) -> String {
    match options.is_null() {
        true => String::new(),
        // SAFETY: as the caller promises.
        false => quipu_clc::as_utf8(unsafe { CStr::from_ptr(options) }.to_bytes()).into_owned(),
    }
}

#[unsafe(export_name = "clCreateProgramWithSource")]
pub(crate) unsafe extern "C" fn create_program_with_source(
    context: cl_context,
    count: cl_uint,
    texts: *mut *const c_char,
    lengths: *const usize,
    code: *mut cl_int,
) -> cl_program {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        // SAFETY: the program passes so many texts.
        let texts = unsafe { list(count as usize, texts) };
        let texts = texts
            .filter(|texts| !texts.is_empty())
            .ok_or(Code(CL_INVALID_VALUE))?;
        let mut source = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            ensure(!text.is_null(), CL_INVALID_VALUE)?;
            let length = match lengths.is_null() {
                true => 0,
                // SAFETY: the program passes as many lengths as texts.
                false => unsafe { lengths.add(number).read() },
            };
            let bytes = match length {
                // SAFETY: a text without a length ends with a zero.
                0 => unsafe { CStr::from_ptr(*text) }.to_bytes(),
                // SAFETY: the program passes so many bytes.
                length => unsafe { std::slice::from_raw_parts(text.cast(), length) },
            };
            source.extend_from_slice(bytes);
        }
        // A length may count the zero that ends a text.
        source.retain(|byte| *byte != 0);
        let devices = context.devices.clone();
        let text = quipu_clc::as_utf8(&source).into_owned();
        let origin = Origin::Text(source.into());
        Ok(Program::create(context, devices, &text, origin, Build::none())?.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateProgramWithBinary")]
pub(crate) unsafe extern "C" fn create_program_with_binary(
    context: cl_context,
    count: cl_uint,
    devices: *const cl_device_id,
    lengths: *const usize,
    binaries: *mut *const u8,
    statuses: *mut cl_int,
    code: *mut cl_int,
) -> cl_program {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        // SAFETY: the program passes so many of each.
        let lists = unsafe {
            (
                list(count as usize, devices),
                list(count as usize, lengths),
                list(count as usize, binaries),
            )
        };
        let (Some(devices), Some(lengths), Some(binaries)) = lists else {
            return fail(CL_INVALID_VALUE);
        };
        ensure(!devices.is_empty(), CL_INVALID_VALUE)?;
        let devices: Result<Vec<_>> = devices
            .iter()
            .enumerate()
            .map(|(number, device)| {
                // One device has one binary.
                ensure(!devices[..number].contains(device), CL_INVALID_DEVICE)?;
                context.device(*device).cloned()
            })
            .collect();
        let mut read = Vec::new();
        let mut result = Ok(());
        for (number, (length, binary)) in lengths.iter().zip(binaries).enumerate() {
            let status = if *length == 0 || binary.is_null() {
                CL_INVALID_VALUE
            } else {
                // SAFETY: the program passes so many bytes.
                let bytes = unsafe { std::slice::from_raw_parts(*binary, *length) };
                let known = Read::new(bytes);
                let is_one = known.is_some();
                read.extend(known);
                if is_one {
                    CL_SUCCESS
                } else {
                    CL_INVALID_BINARY
                }
            };
            if !statuses.is_null() {
                // SAFETY: the program passes room for as many codes.
                unsafe { statuses.add(number).write(status) };
            }
            result = result.and(ensure(status == CL_SUCCESS, status));
        }
        result?;
        let builds: Vec<Build> = read.iter().map(Read::build).collect();
        let source = match &read[0] {
            Read::Text { source, .. } => source.clone(),
            Read::Unit { .. } | Read::Parts { .. } => "".into(),
        };
        let origin = Origin::Binaries(read);
        let program = Program::create(context, devices?, &source, origin, Build::none())?;
        *program.builds() = builds;
        Ok(program.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateProgramWithBuiltInKernels")]
pub(crate) unsafe extern "C" fn create_program_with_built_in_kernels(
    context: cl_context,
    _count: cl_uint,
    _devices: *const cl_device_id,
    _names: *const c_char,
    code: *mut cl_int,
) -> cl_program {
    let body = || {
        Ref::<Context>::of(context)?;
        // No device lists any.
        fail(CL_INVALID_VALUE)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clSetProgramReleaseCallback")]
pub(crate) unsafe extern "C" fn set_program_release_callback(
    program: cl_program,
    _call: Option<unsafe extern "C" fn(cl_program, *mut c_void)>,
    _data: *mut c_void,
) -> cl_int {
    entry(|| {
        Ref::<Program>::of(program)?;
        // Programs have no destructors at program scope: deprecated by OpenCL 3.0.
        fail(CL_INVALID_OPERATION)
    })
}

#[unsafe(export_name = "clRetainProgram")]
pub(crate) unsafe extern "C" fn retain_program(program: cl_program) -> cl_int {
    entry(|| retain::<Program>(program))
}

#[unsafe(export_name = "clReleaseProgram")]
pub(crate) unsafe extern "C" fn release_program(program: cl_program) -> cl_int {
    entry(|| release::<Program>(program))
}

/// A function that is called when a build is over.
type BuildCallback = Option<unsafe extern "C" fn(cl_program, *mut c_void)>;

#[unsafe(export_name = "clBuildProgram")]
pub(crate) unsafe extern "C" fn build_program(
    handle: cl_program,
    count: cl_uint,
    devices: *const cl_device_id,
    options: *const c_char,
    call: BuildCallback,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(handle)?;
        ensure(call.is_some() || data.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes so many handles.
        let numbers = unsafe { program.numbers(count, devices) }?;
        // SAFETY: the program passes a text that ends with a zero.
        let options = unsafe { options_of(options) };
        let result = program.build(&numbers, &options);
        // SAFETY: the program gave the function to be called so.
        unsafe { call_back(call, handle, data, result) }
    })
}

/// Tells a program that asked to be told that something was made, once the call that made it may
/// have returned. The outcome is asked for then.
///
/// # Safety
/// The function may be called with the handle and the pointer, on another thread.
unsafe fn call_back(
    call: BuildCallback,
    handle: cl_program,
    data: *mut c_void,
    result: Result<()>,
) -> Result<()> {
    let Some(call) = call else { return result };
    let was_tried = matches!(
        result,
        Ok(())
            | Err(Code(
                CL_BUILD_PROGRAM_FAILURE | CL_COMPILE_PROGRAM_FAILURE | CL_LINK_PROGRAM_FAILURE
            ))
    );
    if !was_tried {
        return result;
    }
    let (program, data) = (Ref::<Program>::of(handle)?, Data::new(data));
    callbacks::later(move || {
        // The program may have released its last reference. Until the call is over there is one
        // more.
        let handle = program.give();
        // SAFETY: as the caller promises.
        unsafe { call(handle, data.get()) };
        let _ = release::<Program>(handle);
    });
    Ok(())
}

#[unsafe(export_name = "clGetProgramInfo")]
pub(crate) unsafe extern "C" fn get_program_info(
    program: cl_program,
    name: cl_program_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(program)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let binaries = || -> Vec<Vec<u8>> {
            let builds = program.builds();
            let binaries = builds.iter().enumerate();
            let binaries = binaries.map(|(number, build)| match (&build.made, &program.origin) {
                (Some(made), _) => made.binary(),
                (None, Origin::Binaries(binaries)) => binaries[number].bytes(),
                _ => Vec::new(),
            });
            binaries.collect()
        };
        match name {
            CL_PROGRAM_REFERENCE_COUNT => answer.value(program.references()),
            CL_PROGRAM_CONTEXT => answer.value(program.context.handle()),
            CL_PROGRAM_NUM_DEVICES => answer.value(program.devices.len() as cl_uint),
            CL_PROGRAM_DEVICES => {
                let devices: Vec<_> = program.devices.iter().map(Ref::handle).collect();
                answer.slice(&devices)
            }
            CL_PROGRAM_SOURCE => match &program.origin {
                Origin::Text(text) => answer.text_of(text),
                _ => answer.text(""),
            },
            CL_PROGRAM_IL => match &program.origin {
                Origin::Il(il) => answer.slice(il.bytes()),
                _ => answer.slice::<u8>(&[]),
            },
            CL_PROGRAM_BINARY_SIZES => {
                let sizes: Vec<usize> = binaries().iter().map(Vec::len).collect();
                answer.slice(&sizes)
            }
            CL_PROGRAM_BINARIES => {
                let binaries = binaries();
                let places = answer.pointers(binaries.len())?;
                for (place, binary) in places.into_iter().flatten().zip(&binaries) {
                    if !place.is_null() {
                        // SAFETY: the program passes room for as many bytes as
                        // `CL_PROGRAM_BINARY_SIZES` says.
                        unsafe { place.copy_from_nonoverlapping(binary.as_ptr(), binary.len()) };
                    }
                }
                answer.only_size(binaries.len() * size_of::<*mut u8>())
            }
            CL_PROGRAM_NUM_KERNELS => answer.value(program.built()?.kernels().len()),
            CL_PROGRAM_KERNEL_NAMES => {
                let built = program.built()?;
                let kernels = built.kernels().iter();
                let names: Vec<&str> = kernels.map(|kernel| kernel.name.as_str()).collect();
                answer.text(&names.join(";"))
            }
            CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
                answer.truth(false)
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clGetProgramBuildInfo")]
pub(crate) unsafe extern "C" fn get_program_build_info(
    program: cl_program,
    device: cl_device_id,
    name: cl_program_build_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(program)?;
        let number = program.number_of(device)?;
        let build = program.builds()[number].clone();
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_PROGRAM_BUILD_STATUS => answer.value(build.status),
            CL_PROGRAM_BUILD_OPTIONS => answer.text(&build.options),
            CL_PROGRAM_BUILD_LOG => answer.text(&build.log),
            CL_PROGRAM_BINARY_TYPE => {
                let made = build.made.as_ref();
                // A binary of a program that was built is that before it is built again.
                let unbuilt = match program.origin {
                    Origin::Binaries(_) => CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
                    Origin::Text(_) | Origin::Il(_) | Origin::Linked => CL_PROGRAM_BINARY_TYPE_NONE,
                };
                answer.value(made.map_or(unbuilt, Made::binary_type))
            }
            CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => {
                let made = build.made.as_ref().and_then(Made::executable);
                answer.value(made.map_or(0, |built| built.variable_bytes() as usize))
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

//! Kernels, and the arguments that are set for their next launch.

use crate::code::{Code, Result, create, ensure, entry, fail, list};
use crate::context::Context;
use crate::device::{Device, SUB_GROUP_ON_GPUS};
use crate::enqueue::Launch;
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use crate::memory::Memory;
use crate::program::{Built, Program};
use crate::sampler::Sampler;
use opencl_sys::*;
use quipu_clc::{Grid, KernelInfo, LinkedKernel, MemoryAccess, ParameterKind};
use quipu_kernel_ir::{KernelText, TextLanguage};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::{CodeKey, ErrorKind, KernelAttributes, Passed, PortableKernel};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) struct Kernel {
    /// The code for each device for which the program was built: one at least.
    codes: Codes,
    program: Ref<Program>,
    arguments: Mutex<Arguments>,
    /// The reasons for which it may reach memory by pointers that it finds: the [kinds](Reach) that
    /// the program has said.
    reaches: AtomicU32,
}

/// Devices, and the code of a kernel for each.
type Codes = Vec<(Ref<Device>, Arc<KernelCode>)>;

/// A kind of memory that a kernel reaches by pointers, as a program can say; kinds make a set.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    SharedPointers = 1,
    UnifiedPointers = 2,
    SystemMemory = 4,
    HostMemory = 8,
    DeviceMemory = 16,
    SharedMemory = 32,
    BuffersByAddress = 64,
}

object!(Kernel, CL_INVALID_KERNEL);

/// The code of a kernel, which its launches share.
pub(crate) struct KernelCode {
    pub(crate) built: Built,
    pub(crate) info: KernelInfo,
    /// The name, for as long as the process runs: commands show it.
    pub(crate) name: &'static str,
    /// Tells the code from that of other kernels.
    pub(crate) number: u64,
    portable: OnceLock<Portable>,
    last: Mutex<Option<LastLaunch>>,
    /// The limits that devices' own compilers say, by the devices' numbers; none of a compiler
    /// that does not say.
    known: Mutex<Vec<(u32, Option<KernelAttributes>)>>,
}

/// The form of a kernel that its last launch had.
struct LastLaunch {
    grid: Grid,
    compiled: Arc<quipu_clc::Kernel>,
}

/// A [`KernelText`] or a [`LinkedKernel`].
type Portable = Arc<dyn Any + Send + Sync>;

/// The bytes of a value.
pub(crate) type Value = SmallVec<[MaybeUninit<u8>; 16]>;

/// An argument that is set.
#[derive(Clone)]
pub(crate) enum Argument {
    Value(Value),
    /// A handle of a buffer or image, or null. The kernel keeps no reference to it, as OpenCL has
    /// it.
    Memory(usize),
    /// An address that means the same to the host.
    Address(usize),
    Local(u64),
}

/// The arguments that are set, and the last launch with them.
pub(crate) struct Arguments {
    pub(crate) set: Vec<Option<Argument>>,
    pub(crate) last: Option<Arc<Launch>>,
}

impl KernelCode {
    fn new(built: &Built, info: &KernelInfo) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            built: built.clone(),
            name: quipu_clc::interned(&info.name),
            info: info.clone(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            portable: OnceLock::new(),
            last: Mutex::new(None),
            known: Mutex::default(),
        }
    }

    /// True if both take the same arguments.
    fn takes_what(&self, other: &Self) -> bool {
        let alike = |one: &ParameterKind, other: &ParameterKind| match (one, other) {
            (ParameterKind::Value { size: one, .. }, ParameterKind::Value { size: other, .. }) => {
                one == other
            }
            (ParameterKind::Image(one), ParameterKind::Image(other)) => one == other,
            // How memory is accessed is no matter of its type.
            _ => std::mem::discriminant(one) == std::mem::discriminant(other),
        };
        let [one, other] = [self, other].map(|code| &code.info.parameters);
        let mut pairs = one.iter().zip(other);
        one.len() == other.len()
            && pairs.all(|(one, other)| {
                let is_image = matches!(one.kind, ParameterKind::Image(_));
                alike(&one.kind, &other.kind) && (!is_image || one.type_name == other.type_name)
            })
    }

    /// The limits that a device's own compiler says of the kernel, if the device has one, and it
    /// says so. It is asked once, because that may compile the kernel.
    fn attributes(&self, device: &Device) -> Option<KernelAttributes> {
        if device.is_native() {
            return None;
        }
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let number = device.core.id();
        if let Some((_, attributes)) = known().iter().find(|(of, _)| *of == number) {
            return *attributes;
        }
        // Other threads ask about other devices meanwhile.
        let attributes = match device.core.kernel_attributes(self) {
            Ok(attributes) => Some(attributes),
            Err(error) => {
                tracing::debug!(kernel = self.name, "{error}");
                // The answer after any other error may be another one.
                if !matches!(error.kind(), ErrorKind::Unsupported { .. }) {
                    return None;
                }
                None
            }
        };
        known().push((number, attributes));
        attributes
    }

    /// The most work-items that a work-group of a launch may have on a device.
    pub(crate) fn most_items(&self, device: &Device) -> u64 {
        let of_kernel = match (self.info.required_local_size, device.has_own_compiler()) {
            // A launch has no other size than the required one.
            (Some(_), true) => u64::MAX,
            (None, true) => self.info.most_items(),
            (_, false) => {
                let attributes = self.attributes(device);
                attributes.map_or(u64::MAX, |attributes| attributes.max_block_threads)
            }
        };
        of_kernel.min(device.most_items() as u64)
    }

    /// The most work-items of a work-group on a device: those that the kernel requires, or those
    /// that it may have.
    fn group_items(&self, device: &Device) -> usize {
        if let Some(size) = self.info.required_local_size {
            return size.iter().map(|size| *size as usize).product();
        }
        usize::try_from(self.most_items(device)).unwrap_or(usize::MAX)
    }

    /// The kernel for devices that compile it themselves.
    fn portable(&self) -> &Portable {
        self.portable.get_or_init(|| match &self.built.parts {
            Some(parts) => Arc::new(LinkedKernel {
                parts: parts.clone(),
                entry: self.name.to_owned(),
            }),
            None => Arc::new(KernelText {
                language: TextLanguage::OpenClC,
                source: self.built.source.clone(),
                entry: self.name.to_owned(),
                options: self.built.options.to_string(),
            }),
        })
    }

    /// The kernel for a launch, compiled if it is not yet.
    pub(crate) fn compiled(&self, grid: &Grid) -> Result<Arc<quipu_clc::Kernel>> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last()
            && last.grid.shares_kernel_with(grid)
        {
            return Ok(last.compiled.clone());
        }
        // Others launch what is compiled meanwhile.
        let program = self.built.program.as_ref();
        let program = program.ok_or(Code(CL_INVALID_PROGRAM_EXECUTABLE))?;
        let compiled = program.compile_for_grid(self.name, grid).map_err(|error| {
            tracing::error!(kernel = self.name, "{error}");
            Code(CL_OUT_OF_RESOURCES)
        })?;
        *last() = Some(LastLaunch {
            grid: *grid,
            compiled: compiled.clone(),
        });
        Ok(compiled)
    }
}

impl Kernel {
    /// A kernel of a program by its name, as it was built for each device.
    fn make(
        program: &Ref<Program>,
        each: &[(Ref<Device>, Built)],
        name: &str,
    ) -> Result<Ref<Self>> {
        let mut codes = Codes::new();
        for (device, built) in each {
            let mut kernels = built.kernels().iter();
            let Some(info) = kernels.find(|kernel| kernel.name == name) else {
                continue;
            };
            let known = codes.iter().find(|(_, code)| code.built.is(built));
            let code = match known {
                Some((_, code)) => code.clone(),
                None => Arc::new(KernelCode::new(built, info)),
            };
            codes.push((device.clone(), code));
        }
        let (_, first) = codes.first().ok_or(Code(CL_INVALID_KERNEL_NAME))?;
        let are_alike = codes.iter().all(|(_, code)| code.takes_what(first));
        ensure(are_alike, CL_INVALID_KERNEL_DEFINITION)?;
        Self::with(program.clone(), codes, None)
    }

    fn with(
        program: Ref<Program>,
        codes: Codes,
        arguments: Option<Vec<Option<Argument>>>,
    ) -> Result<Ref<Self>> {
        let arguments = arguments.unwrap_or_else(|| vec![None; codes[0].1.info.parameters.len()]);
        program.kernels.fetch_add(1, Ordering::AcqRel);
        // If there is no slot for it, the kernel is dropped, and counted out.
        Ref::new(Self {
            codes,
            program,
            arguments: Mutex::new(Arguments {
                set: arguments,
                last: None,
            }),
            reaches: AtomicU32::new(0),
        })
    }

    /// Its later launches reach this memory by pointers, or do not.
    pub(crate) fn set_reach(&self, reach: Reach, reaches: bool) {
        match reaches {
            true => self.reaches.fetch_or(reach as u32, Ordering::Relaxed),
            false => self.reaches.fetch_and(!(reach as u32), Ordering::Relaxed),
        };
    }

    /// True if the program has said that it reaches memory by pointers that it finds.
    pub(crate) fn follows_pointers(&self) -> bool {
        self.reaches.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn context(&self) -> &Ref<Context> {
        &self.program.context
    }

    /// The part that is the same for all devices: its name and its parameters.
    pub(crate) fn code(&self) -> &Arc<KernelCode> {
        &self.codes[0].1
    }

    /// The code for a device, if its program was built for that.
    pub(crate) fn code_for(&self, device: &Ref<Device>) -> Result<&Arc<KernelCode>> {
        let mut codes = self.codes.iter();
        let code = codes.find(|(of, _)| of.is(device));
        code.map(|(_, code)| code)
            .ok_or(Code(CL_INVALID_PROGRAM_EXECUTABLE))
    }

    pub(crate) fn arguments(&self) -> MutexGuard<'_, Arguments> {
        self.arguments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The program's value for an argument.
    ///
    /// # Safety
    /// The pointer is null, or valid for reads of so many bytes.
    pub(crate) unsafe fn argument(
        &self,
        index: cl_uint,
        size: usize,
        value: *const c_void,
    ) -> Result<Argument> {
        let parameter = self.code().info.parameters.get(index as usize);
        let parameter = parameter.ok_or(Code(CL_INVALID_ARG_INDEX))?;
        Ok(match parameter.kind {
            ParameterKind::Value { size: wanted, .. } => {
                ensure(!value.is_null(), CL_INVALID_ARG_VALUE)?;
                let wanted = wanted as usize;
                let is_packed = is_vector_of_three(&parameter.type_name) && size == wanted / 4 * 3;
                ensure(size == wanted || is_packed, CL_INVALID_ARG_SIZE)?;
                // SAFETY: the program passes so many bytes, of which some may be between the fields
                // of a structure.
                let bytes =
                    unsafe { std::slice::from_raw_parts(value.cast::<MaybeUninit<u8>>(), size) };
                let gap = std::iter::repeat_n(MaybeUninit::new(0), wanted - size);
                Argument::Value(bytes.iter().copied().chain(gap).collect())
            }
            ParameterKind::Memory(_) => {
                ensure(size == size_of::<cl_mem>(), CL_INVALID_ARG_SIZE)?;
                let handle = match value.is_null() {
                    true => std::ptr::null_mut(),
                    // SAFETY: the program passes a handle, as the size says.
                    false => unsafe { value.cast::<cl_mem>().read_unaligned() },
                };
                if !handle.is_null() {
                    let memory = Ref::<Memory>::of(handle)?;
                    ensure(memory.image.is_none(), CL_INVALID_MEM_OBJECT)?;
                    ensure(memory.context.is(self.context()), CL_INVALID_CONTEXT)?;
                }
                Argument::Memory(handle.expose_provenance())
            }
            ParameterKind::Image(access) => {
                ensure(!value.is_null(), CL_INVALID_MEM_OBJECT)?;
                ensure(size == size_of::<cl_mem>(), CL_INVALID_ARG_SIZE)?;
                // SAFETY: the program passes a handle, as the size says.
                let handle = unsafe { value.cast::<cl_mem>().read_unaligned() };
                let memory = Ref::<Memory>::of(handle)?;
                let image = memory.image.ok_or(Code(CL_INVALID_MEM_OBJECT))?;
                ensure(memory.context.is(self.context()), CL_INVALID_CONTEXT)?;
                ensure(
                    image.fits(&parameter.type_name)
                        && !(access.reads() && memory.is_write_only())
                        && !(access.writes() && memory.is_read_only()),
                    CL_INVALID_ARG_VALUE,
                )?;
                Argument::Memory(handle.expose_provenance())
            }
            ParameterKind::Sampler => {
                ensure(!value.is_null(), CL_INVALID_SAMPLER)?;
                ensure(size == size_of::<cl_sampler>(), CL_INVALID_ARG_SIZE)?;
                // SAFETY: the program passes a handle, as the size says.
                let sampler = unsafe { value.cast::<cl_sampler>().read_unaligned() };
                let sampler = Ref::<Sampler>::of(sampler)?;
                ensure(sampler.context.is(self.context()), CL_INVALID_CONTEXT)?;
                let literal = sampler.literal().to_ne_bytes().map(MaybeUninit::new);
                Argument::Value(literal.into_iter().collect())
            }
            ParameterKind::Local => {
                ensure(value.is_null(), CL_INVALID_ARG_VALUE)?;
                // From OpenCL 3.1 on it may have none.
                ensure(size != 0, CL_INVALID_ARG_SIZE)?;
                Argument::Local(size as u64)
            }
        })
    }

    /// An address that a program passes as an argument.
    pub(crate) fn address_argument(
        &self,
        index: cl_uint,
        value: *const c_void,
    ) -> Result<Argument> {
        ensure(self.context().shares_memory, CL_INVALID_OPERATION)?;
        let parameter = self.code().info.parameters.get(index as usize);
        let parameter = parameter.ok_or(Code(CL_INVALID_ARG_INDEX))?;
        ensure(
            matches!(parameter.kind, ParameterKind::Memory(_)),
            CL_INVALID_ARG_VALUE,
        )?;
        Ok(Argument::Address(value.expose_provenance()))
    }

    /// Sets an argument of a number that there is.
    pub(crate) fn set(&self, index: cl_uint, argument: Argument) {
        let mut arguments = self.arguments();
        arguments.set[index as usize] = Some(argument);
        arguments.last = None;
    }

    /// The device that a program asks about: it may leave it out if there is one.
    fn device(&self, device: cl_device_id) -> Result<&Ref<Device>> {
        match &self.context().devices[..] {
            [one] if device.is_null() => Ok(one),
            _ => self.context().device(device),
        }
    }
}

/// True of a vector of three numbers. It has room for four, but programs that are written for PoCL
/// pass the three alone.
fn is_vector_of_three(type_name: &str) -> bool {
    const SCALARS: [&str; 11] = [
        "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float",
        "double",
    ];
    let scalar = type_name.strip_suffix('3');
    scalar.is_some_and(|scalar| SCALARS.contains(&scalar))
}

/// A kernel that is asked about, and not launched.
// SAFETY: no arguments are passed to it, so no launch runs the code. Each code has a number of its
// own.
unsafe impl PortableKernel for KernelCode {
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(self.number)
    }

    fn code_type(&self) -> TypeId {
        match self.built.parts {
            Some(_) => TypeId::of::<LinkedKernel>(),
            None => TypeId::of::<KernelText>(),
        }
    }

    fn code(&self) -> quipu_scheduler::Result<Arc<dyn Any + Send + Sync>> {
        Ok(self.portable().clone())
    }

    fn pass(
        &self,
        _arguments: &[PackedArgument<'_>],
        _passed: &mut Passed,
    ) -> quipu_scheduler::Result<()> {
        let refused = ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: "it has no arguments yet".to_owned(),
        };
        Err(refused.into())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.program.kernels.fetch_sub(1, Ordering::AcqRel);
    }
}

#[unsafe(export_name = "clCreateKernel")]
pub(crate) unsafe extern "C" fn create_kernel(
    program: cl_program,
    name: *const c_char,
    code: *mut cl_int,
) -> cl_kernel {
    let body = || {
        let program = Ref::<Program>::of(program)?;
        ensure(!name.is_null(), CL_INVALID_VALUE)?;
        let each = program.built_for_each()?;
        // SAFETY: the program passes a text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        let name = name.map_err(|_| Code(CL_INVALID_KERNEL_NAME))?;
        Ok(Kernel::make(&program, &each, name)?.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateKernelsInProgram")]
pub(crate) unsafe extern "C" fn create_kernels_in_program(
    program: cl_program,
    count: cl_uint,
    kernels: *mut cl_kernel,
    count_ret: *mut cl_uint,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(program)?;
        let each = program.built_for_each()?;
        let made = each[0].1.kernels().iter();
        let made = made.map(|info| Kernel::make(&program, &each, &info.name));
        // One that devices have with other arguments is left out.
        let made: Vec<_> = made
            .filter(|made| !matches!(made, Err(Code(CL_INVALID_KERNEL_DEFINITION))))
            .collect::<Result<_>>()?;
        ensure(
            kernels.is_null() || count as usize >= made.len(),
            CL_INVALID_VALUE,
        )?;
        let number_of_kernels = made.len() as cl_uint;
        if !kernels.is_null() {
            for (number, kernel) in made.iter().enumerate() {
                // SAFETY: the program passes room for as many, as was just compared.
                unsafe { kernels.add(number).write(kernel.give()) };
            }
        }
        if !count_ret.is_null() {
            // SAFETY: the program passes where the number goes.
            unsafe { count_ret.write(number_of_kernels) };
        }
        Ok(())
    })
}

#[unsafe(export_name = "clCloneKernel")]
pub(crate) unsafe extern "C" fn clone_kernel(kernel: cl_kernel, code: *mut cl_int) -> cl_kernel {
    let body = || {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let arguments = kernel.arguments().set.clone();
        let clone = Kernel::with(
            kernel.program.clone(),
            kernel.codes.clone(),
            Some(arguments),
        )?;
        let reaches = kernel.reaches.load(Ordering::Relaxed);
        clone.reaches.store(reaches, Ordering::Relaxed);
        Ok(clone.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainKernel")]
pub(crate) unsafe extern "C" fn retain_kernel(kernel: cl_kernel) -> cl_int {
    entry(|| retain::<Kernel>(kernel))
}

#[unsafe(export_name = "clReleaseKernel")]
pub(crate) unsafe extern "C" fn release_kernel(kernel: cl_kernel) -> cl_int {
    entry(|| release::<Kernel>(kernel))
}

#[unsafe(export_name = "clSetKernelArg")]
pub(crate) unsafe extern "C" fn set_kernel_arg(
    kernel: cl_kernel,
    index: cl_uint,
    size: usize,
    value: *const c_void,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        // SAFETY: as the program promises.
        let argument = unsafe { kernel.argument(index, size, value) }?;
        kernel.set(index, argument);
        Ok(())
    })
}

#[unsafe(export_name = "clGetKernelInfo")]
pub(crate) unsafe extern "C" fn get_kernel_info(
    kernel: cl_kernel,
    name: cl_kernel_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_KERNEL_FUNCTION_NAME => answer.text(kernel.code().name),
            CL_KERNEL_NUM_ARGS => answer.value(kernel.code().info.parameters.len() as cl_uint),
            CL_KERNEL_REFERENCE_COUNT => answer.value(kernel.references()),
            CL_KERNEL_CONTEXT => answer.value(kernel.context().handle()),
            CL_KERNEL_PROGRAM => answer.value(kernel.program.handle()),
            CL_KERNEL_ATTRIBUTES => answer.text(&kernel.code().info.attributes.join(" ")),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clGetKernelArgInfo")]
pub(crate) unsafe extern "C" fn get_kernel_arg_info(
    kernel: cl_kernel,
    index: cl_uint,
    name: cl_kernel_arg_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let parameter = kernel.code().info.parameters.get(index as usize);
        let parameter = parameter.ok_or(Code(CL_INVALID_ARG_INDEX))?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_KERNEL_ARG_ADDRESS_QUALIFIER => answer.value(match parameter.kind {
                ParameterKind::Value { .. } | ParameterKind::Sampler => {
                    CL_KERNEL_ARG_ADDRESS_PRIVATE
                }
                ParameterKind::Memory(_) if parameter.is_constant => CL_KERNEL_ARG_ADDRESS_CONSTANT,
                ParameterKind::Memory(_) | ParameterKind::Image(_) => CL_KERNEL_ARG_ADDRESS_GLOBAL,
                ParameterKind::Local => CL_KERNEL_ARG_ADDRESS_LOCAL,
            }),
            CL_KERNEL_ARG_ACCESS_QUALIFIER => answer.value(match parameter.kind {
                ParameterKind::Image(MemoryAccess::Write) => CL_KERNEL_ARG_ACCESS_WRITE_ONLY,
                ParameterKind::Image(MemoryAccess::ReadWrite) => CL_KERNEL_ARG_ACCESS_READ_WRITE,
                ParameterKind::Image(_) => CL_KERNEL_ARG_ACCESS_READ_ONLY,
                _ => CL_KERNEL_ARG_ACCESS_NONE,
            }),
            CL_KERNEL_ARG_TYPE_NAME => answer.text(&parameter.type_name),
            CL_KERNEL_ARG_TYPE_QUALIFIER => {
                let has = |word: &str| parameter.qualifiers.split(' ').any(|one| one == word);
                let bits = [
                    ("const", CL_KERNEL_ARG_TYPE_CONST),
                    ("restrict", CL_KERNEL_ARG_TYPE_RESTRICT),
                    ("volatile", CL_KERNEL_ARG_TYPE_VOLATILE),
                ];
                let bits = bits.into_iter().filter(|(word, _)| has(word));
                let bits = bits.fold(CL_KERNEL_ARG_TYPE_NONE, |all, (_, bit)| all | bit);
                // The standard's type has 64 bits; that of the constants here has not.
                answer.value(cl_bitfield::from(bits))
            }
            CL_KERNEL_ARG_NAME => answer.text(&parameter.name),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clGetKernelWorkGroupInfo")]
pub(crate) unsafe extern "C" fn get_kernel_work_group_info(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_work_group_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let device = kernel.device(device)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let code = kernel.code_for(device);
        let code = code.map_err(|_| Code(CL_INVALID_DEVICE))?;
        let required = code.info.required_local_size;
        match name {
            CL_KERNEL_WORK_GROUP_SIZE => answer.value(code.group_items(device)),
            CL_KERNEL_COMPILE_WORK_GROUP_SIZE => {
                answer.slice(&required.unwrap_or_default().map(|size| size as usize))
            }
            CL_KERNEL_LOCAL_MEM_SIZE => {
                let attributes = code.attributes(device);
                let arguments = kernel.arguments();
                let bytes = arguments
                    .set
                    .iter()
                    .flatten()
                    .map(|argument| match argument {
                        Argument::Local(bytes) => *bytes,
                        _ => 0,
                    });
                let own = attributes.and_then(|attributes| attributes.shared_bytes);
                let own = own.unwrap_or(code.info.local_bytes);
                answer.value::<cl_ulong>(bytes.fold(own, u64::saturating_add))
            }
            CL_KERNEL_PRIVATE_MEM_SIZE => {
                let attributes = code.attributes(device);
                let own = attributes.and_then(|attributes| attributes.private_bytes);
                answer.value::<cl_ulong>(own.unwrap_or(code.info.private_bytes))
            }
            CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => {
                let attributes = code.attributes(device);
                let multiple = attributes.and_then(|attributes| attributes.preferred_block_threads);
                let multiple = multiple.map(|multiple| multiple as usize);
                answer.value(multiple.unwrap_or_else(|| device.preferred_multiple()))
            }
            // Only kernels of custom devices have a global size of their own.
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clGetKernelSubGroupInfo")]
pub(crate) unsafe extern "C" fn get_kernel_sub_group_info(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_sub_group_info,
    input_size: usize,
    input: *const c_void,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let device = kernel.device(device)?;
        let code = kernel.code_for(device);
        let code = code.map_err(|_| Code(CL_INVALID_DEVICE))?;
        // Other compilers do not say how they divide a group into sub-groups.
        ensure(device.features().extended_language, CL_INVALID_OPERATION)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let given = || {
            // SAFETY: the program passes so many bytes.
            let given = unsafe { list(input_size / size_of::<usize>(), input.cast::<usize>()) };
            let given = given.filter(|given| (1..=3).contains(&given.len()));
            given.ok_or(Code(CL_INVALID_VALUE))
        };
        // A work-group is one sub-group, unless the kernel has smaller ones. On GPUs they are warps
        // at most.
        let warp = (!device.has_own_compiler()).then_some(SUB_GROUP_ON_GPUS);
        let least = code.info.sub_group_size.into_iter().chain(warp).min();
        let least = least.map(|items| (items as usize).max(1));
        let items = |of: &[usize]| of.iter().copied().fold(1_usize, usize::saturating_mul);
        match name {
            CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE => {
                let items = items(given()?);
                answer.value(least.map_or(items, |least| least.min(items)))
            }
            CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE => {
                let items = items(given()?);
                answer.value(least.map_or(1, |least| items.div_ceil(least)))
            }
            CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT => {
                let required = code.info.required_local_size;
                let required = required.map(|size| size.map(|size| size as usize));
                let [count] = given()? else {
                    return fail(CL_INVALID_VALUE);
                };
                let most = code.group_items(device).min(device.most_items_along()[0]);
                let wanted = match least {
                    Some(least) => count.saturating_mul(least),
                    None if *count == 1 => most,
                    None => 0,
                };
                let local = match required {
                    Some(size) => {
                        let there = least.map_or(1, |least| items(&size).div_ceil(least));
                        if there == *count { size } else { [0; 3] }
                    }
                    None if (1..=most).contains(&wanted) => [wanted, 1, 1],
                    None => [0; 3],
                };
                let dimensions = size / size_of::<usize>();
                let is_whole = size.is_multiple_of(size_of::<usize>());
                ensure(
                    value.is_null() || is_whole && (1..=3).contains(&dimensions),
                    CL_INVALID_VALUE,
                )?;
                match value.is_null() {
                    true => answer.slice(&local),
                    false => answer.slice(&local[..dimensions]),
                }
            }
            CL_KERNEL_MAX_NUM_SUB_GROUPS => {
                let most = code.group_items(device);
                answer.value(least.map_or(1, |least| most.div_ceil(least)))
            }
            // None is wanted by an attribute.
            CL_KERNEL_COMPILE_NUM_SUB_GROUPS => answer.value(0_usize),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

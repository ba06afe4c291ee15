//! Devices: their answers to questions. Parts of devices are in `part`.

mod part;

pub(crate) use part::create_sub_devices;

use crate::code::{Result, ensure, entry, fail};
use crate::command_buffer;
use crate::handle::{Ref, object, release, retain};
use crate::image::{MOST, MOST_DEPTH, MOST_OF_BUFFER, PITCH_ALIGNMENT};
use crate::info::Answer;
use crate::platform::{
    EXTENSIONS, VERSION, VERSION_TEXT, handle, is_on_host, named, names, version, versions,
};
use crate::semaphore;
use crate::svm;
use crate::unified;
use opencl_sys::*;
use quipu::DeviceKind;
use quipu_clc::{FEATURES, Feature, KernelInfo, LinkedKernel, Need, SpirV};
use quipu_kernel_ir::KernelText;
use quipu_scheduler::{MemoryCache, TextFeatures, hash};
use std::any::TypeId;
use std::ffi::c_void;

pub(crate) struct Device {
    pub(crate) core: quipu_scheduler::Device,
    /// The device that this one is a part of.
    parent: Option<Ref<Device>>,
    /// The split of the parent, as the program asked for it.
    partition: Vec<cl_device_partition_property>,
}

object!(Device, CL_INVALID_DEVICE);

/// The largest work-group on devices that run native code. A program may have any; so large a one
/// still fits caches.
const MOST_ITEMS: usize = 4096;
/// Bytes of local memory on devices that run native code: no memory of its own, so it is bound by
/// nothing but sense.
const LOCAL_BYTES: u64 = 256 << 10;
/// Bytes of `constant` memory that an argument may have on devices that run native code. It is
/// memory as any other; programs that ask use all of it.
const CONSTANT_BYTES: u64 = 64 << 20;
/// The least that the standard has of them, and of arguments in such memory: others have it apart.
const LEAST_CONSTANT_BYTES: u64 = 64 << 10;
const LEAST_CONSTANT_ARGUMENTS: cl_uint = 8;
/// Bytes of a variable at program scope. It is memory as any other.
const VARIABLE_BYTES: usize = 64 << 20;
/// Work-items that vectors of native code hold.
const PREFERRED_MULTIPLE: usize = 8;
/// The minor versions of SPIR-V 1 that the compiler for processors reads.
const SPIRV_VERSIONS: std::ops::Range<u32> = 0..7;
/// Bytes of all arguments together.
const ARGUMENT_BYTES: u64 = 4096;
/// The least that the standard has of them.
const LEAST_ARGUMENT_BYTES: u64 = 1024;

/// The bytes of the largest type of OpenCL C: no device may say less of the alignment of
/// sub-buffers.
const LEAST_ALIGNMENT: u64 = 128;
/// The largest alignment of sub-buffers that a vendor is known to ask for.
const MOST_ALIGNMENT: u64 = 512;
/// The cache that processors report.
const CACHE: MemoryCache = MemoryCache {
    bytes: 1 << 20,
    line: 64,
    takes_writes: true,
};

/// The atomic functions and fences of devices with all of OpenCL C 3.0.
const ATOMICS: cl_device_atomic_capabilities = CL_DEVICE_ATOMIC_ORDER_RELAXED
    | CL_DEVICE_ATOMIC_ORDER_ACQ_REL
    | CL_DEVICE_ATOMIC_ORDER_SEQ_CST
    | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP
    | CL_DEVICE_ATOMIC_SCOPE_DEVICE
    | CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES;

/// The least of them.
const LEAST_ATOMICS: cl_device_atomic_capabilities =
    CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP;

/// The most sub-groups of a work-group on processors, where a kernel takes ballots: each has as
/// many work-items as a ballot bits.
const MOST_SUB_GROUPS: cl_uint = MOST_ITEMS as cl_uint / 128;
/// The most work-items of a sub-group on GPUs whose kernels the compiler for processors makes.
pub(crate) const SUB_GROUP_ON_GPUS: u32 = 32;

/// A question under a name that patterns may have.
const PACKED_PROPERTIES: cl_device_info =
    CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED;
/// The questions of `cl_ext_float_atomics`, by type.
const SINGLE_FP_ATOMICS: cl_device_info = 0x4231;
const DOUBLE_FP_ATOMICS: cl_device_info = 0x4232;
const HALF_FP_ATOMICS: cl_device_info = 0x4233;
/// Loads and stores, sums, minima and maxima, in global and in local memory.
const FP_ATOMICS: cl_bitfield = 0b111 | 0b111 << 16;

impl Device {
    /// A device of the platform.
    pub(crate) fn root(core: quipu_scheduler::Device) -> Result<Ref<Self>> {
        let device = Ref::new(Self {
            core,
            parent: None,
            partition: Vec::new(),
        })?;
        device.give();
        Ok(device)
    }

    /// True if it is a device, or a part of it.
    pub(crate) fn is_of(this: &Ref<Self>, whole: &Ref<Self>) -> bool {
        this.is(whole)
            || this
                .parent
                .as_ref()
                .is_some_and(|parent| Self::is_of(parent, whole))
    }

    /// True if parts of it can be devices: processors here can be parted, and others cannot.
    fn has_parts(&self) -> bool {
        is_on_host(&self.core) && self.core.properties().multiprocessors > 1
    }

    /// True if the device runs what the compiler for processors makes.
    pub(crate) fn is_native(&self) -> bool {
        self.core.driver().runs_native_code()
    }

    /// True if the device runs kernels of SPIR-V.
    pub(crate) fn takes_il(&self) -> bool {
        match self.is_native() {
            true => quipu_clc::takes_spirv(),
            false => self.takes_code(TypeId::of::<SpirV>()),
        }
    }

    /// True if the device runs kernels of programs that are linked.
    pub(crate) fn links(&self) -> bool {
        match self.is_native() {
            true => quipu_clc::is_available(),
            false => self.takes_code(TypeId::of::<LinkedKernel>()),
        }
    }

    fn takes_code(&self, of: TypeId) -> bool {
        self.core.driver().device_takes_code(self.core.index(), of)
    }

    /// True if the compiler for processors makes its kernels, here or on a node. Of GPUs it makes
    /// those in PTX, and the limits are the GPU's.
    pub(crate) fn has_own_compiler(&self) -> bool {
        let is_gpu = matches!(self.core.properties().kind, DeviceKind::Gpu);
        self.has_images() && !is_gpu
    }

    /// True if its kernels may have images: only the compiler for processors makes what reads and
    /// writes them.
    pub(crate) fn has_images(&self) -> bool {
        self.is_native() || self.takes_code(TypeId::of::<quipu_clc::Image>())
    }

    /// True if a device can have kernels in OpenCL C.
    pub(crate) fn takes_text(device: &quipu_scheduler::Device) -> bool {
        let driver = device.driver();
        let text = TypeId::of::<KernelText>();
        driver.runs_native_code() || driver.device_takes_code(device.index(), text)
    }

    /// Its type.
    pub(crate) fn kind(&self) -> cl_device_type {
        match self.core.properties().kind {
            DeviceKind::Cpu => CL_DEVICE_TYPE_CPU,
            DeviceKind::Gpu => CL_DEVICE_TYPE_GPU,
            DeviceKind::Custom => CL_DEVICE_TYPE_CUSTOM,
            _ => CL_DEVICE_TYPE_ACCELERATOR,
        }
    }

    /// The most work-items of a group, in all.
    pub(crate) fn most_items(&self) -> usize {
        if self.has_own_compiler() {
            return MOST_ITEMS;
        }
        usize::try_from(self.core.properties().max_block_thread_count).unwrap_or(usize::MAX)
    }

    /// The most work-items of a group along x, y and z.
    pub(crate) fn most_items_along(&self) -> [usize; 3] {
        if self.has_own_compiler() {
            return [MOST_ITEMS; 3];
        }
        // The core counts the slowest dimension first.
        let [z, y, x] = self.core.properties().max_block_threads;
        [x, y, z].map(|most| {
            usize::try_from(most)
                .unwrap_or(usize::MAX)
                .min(self.most_items())
        })
    }

    pub(crate) fn local_bytes(&self) -> u64 {
        if self.has_own_compiler() {
            return LOCAL_BYTES;
        }
        self.core.properties().shared_memory_per_block
    }

    /// The features of its compiler's language beyond those that all have. That for processors has
    /// all of it.
    pub(crate) fn features(&self) -> TextFeatures {
        match self.is_native() {
            true => TextFeatures {
                doubles: true,
                halves: quipu_clc::has_half(),
                wide_atomics: true,
                optional_language: true,
                non_uniform_blocks: true,
                extended_language: true,
                argument_bytes: Some(ARGUMENT_BYTES),
                ..self.core.text_features()
            },
            false => self.core.text_features(),
        }
    }

    /// Bytes of `constant` memory that an argument may have.
    fn constant_bytes(&self) -> u64 {
        let most = match self.has_own_compiler() {
            true => CONSTANT_BYTES,
            false => {
                let told = self.core.text_features().constant_bytes;
                told.unwrap_or(LEAST_CONSTANT_BYTES)
            }
        };
        most.min(self.largest_buffer())
    }

    /// The bytes of the largest buffer. A node gives its clients less memory than a buffer of its
    /// device could have.
    pub(crate) fn largest_buffer(&self) -> u64 {
        let properties = self.core.properties();
        properties.max_buffer.min(properties.global_memory)
    }

    /// The number of bytes that the first byte of a sub-buffer is a multiple of for a kernel:
    /// `CL_DEVICE_MEM_BASE_ADDR_ALIGN`, which is in bits.
    pub(crate) fn part_alignment(&self) -> u64 {
        if self.has_own_compiler() {
            return LEAST_ALIGNMENT;
        }
        let told = self.core.text_features().part_alignment;
        // An older node does not say it of another vendor's device.
        told.unwrap_or(MOST_ALIGNMENT).max(LEAST_ALIGNMENT)
    }

    /// The cache of its memory, if it has one and says so.
    fn cache(&self) -> Option<MemoryCache> {
        let told = self.core.text_features();
        // An older node does not describe the memory of another vendor's device.
        match self.has_own_compiler() || told.part_alignment.is_none() {
            true => Some(CACHE),
            false => told.cache,
        }
    }

    /// Numbers of a type in the vectors that suit the device: its own compiler makes vectors of
    /// work-items, where it has any.
    fn vector_width(&self, is_there: bool, of_processors: cl_uint) -> cl_uint {
        match (is_there, self.has_own_compiler()) {
            (false, _) => 0,
            (true, true) => of_processors,
            (true, false) => 1,
        }
    }

    /// True if the last groups of a kernel's launch along an axis may have fewer work-items than
    /// the others.
    pub(crate) fn has_smaller_groups(&self, kernel: &KernelInfo) -> bool {
        self.features().non_uniform_blocks && !kernel.uniform_groups
    }

    /// True if they may where the program leaves the size of groups open.
    pub(crate) fn chooses_smaller_groups(&self, kernel: &KernelInfo) -> bool {
        match self.is_native() {
            true => kernel.takes_rest(),
            false => self.has_smaller_groups(kernel),
        }
    }

    /// The number of its vendor at PCI's registry; zero if it is not known.
    fn vendor_number(&self) -> cl_uint {
        let number = self.core.text_features().vendor_number;
        number.unwrap_or(match self.core.properties().vendor.as_str() {
            "GenuineIntel" => 0x8086,
            "AuthenticAMD" => 0x1022,
            _ => 0,
        })
    }

    /// The number of work-items of which a work-group best has a multiple.
    pub(crate) fn preferred_multiple(&self) -> usize {
        if self.has_own_compiler() {
            return PREFERRED_MULTIPLE;
        }
        let warps = self.core.properties().warp_sizes.iter();
        warps.max().map_or(1, |size| *size as usize)
    }

    /// The versions of SPIR-V 1 that it takes.
    fn il_versions(&self) -> std::ops::Range<u32> {
        match self.takes_il() {
            true => SPIRV_VERSIONS,
            false => 0..0,
        }
    }

    /// The extensions that it has.
    fn extensions(&self) -> Vec<(&'static str, cl_version)> {
        let mut extensions = EXTENSIONS.to_vec();
        extensions.push(("cl_khr_device_uuid", version(1, 0, 0)));
        extensions.push(("cl_khr_suggested_local_work_size", version(1, 0, 0)));
        if is_on_host(&self.core) {
            extensions.push(("cl_intel_unified_shared_memory", version(1, 2, 0)));
            extensions.push(("cl_ext_buffer_device_address", version(1, 0, 2)));
        }
        if self.takes_il() {
            extensions.push(("cl_khr_il_program", version(1, 0, 0)));
        }
        if self.has_images() {
            // The language has the same functions without it.
            extensions.push(("cl_khr_image2d_from_buffer", version(1, 0, 0)));
        }
        let of_language = self.listed().filter(|feature| feature.is_extension());
        extensions.extend(of_language.map(|feature| match feature.name {
            name @ "cl_khr_integer_dot_product" => (name, version(2, 0, 0)),
            name => (name, version(1, 0, 0)),
        }));
        extensions
    }

    /// True if it has what extensions and features of OpenCL C need.
    pub(crate) fn has(&self, need: Need) -> bool {
        let features = self.features();
        match need {
            Need::Nothing => true,
            Need::Doubles => features.doubles,
            Need::Halves => features.halves,
            Need::WideAtomics => features.wide_atomics,
            Need::Language | Need::SubGroups => features.optional_language,
            Need::Images => self.has_images(),
            Need::Extended => features.extended_language,
            Need::Here => self.is_native(),
        }
    }

    /// The extensions and optional features of OpenCL C that it has.
    fn listed(&self) -> impl Iterator<Item = &'static Feature> {
        FEATURES.iter().filter(|feature| self.has(feature.need))
    }

    /// A number for the device that stays the same: its vendor's, or one of what is known of it.
    fn uuid(&self) -> [u8; 16] {
        if let Some(uuid) = self.core.text_features().uuid {
            return uuid;
        }
        let mut text = format!("{} {:?}", self.core.driver_name(), self.core);
        if is_on_host(&self.core) {
            // Other machines have processors of the same name.
            let machine = std::fs::read_to_string("/etc/machine-id");
            text.push_str(&machine.unwrap_or_default());
        }
        uuid_of(&text)
    }

    #[allow(clippy::too_many_lines, reason = "a table of answers")]
    fn answer(&self, this: &Ref<Self>, name: cl_device_info, answer: Answer) -> Result<()> {
        let properties = self.core.properties();
        // Most answers need none of them.
        let features = || self.features();
        const NO_FP: cl_device_fp_config = 0;
        // The least that the standard has of numbers of 32 bits.
        const LEAST_FP: cl_device_fp_config = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST;
        const FP: cl_device_fp_config = CL_FP_DENORM
            | CL_FP_INF_NAN
            | CL_FP_ROUND_TO_NEAREST
            | CL_FP_ROUND_TO_ZERO
            | CL_FP_ROUND_TO_INF
            | CL_FP_FMA;
        match name {
            CL_DEVICE_TYPE => answer.value(self.kind()),
            CL_DEVICE_VENDOR_ID => answer.value(self.vendor_number()),
            CL_DEVICE_MAX_COMPUTE_UNITS => answer.value::<cl_uint>(properties.multiprocessors),
            CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS => answer.value::<cl_uint>(3),
            CL_DEVICE_MAX_WORK_GROUP_SIZE => answer.value(self.most_items()),
            CL_DEVICE_MAX_WORK_ITEM_SIZES => answer.slice(&self.most_items_along()),
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR | CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR => {
                answer.value(self.vector_width(true, 16))
            }
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT | CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT => {
                answer.value(self.vector_width(true, 8))
            }
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT
            | CL_DEVICE_NATIVE_VECTOR_WIDTH_INT
            | CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT
            | CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT => answer.value(self.vector_width(true, 4)),
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG | CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG => {
                answer.value(self.vector_width(true, 2))
            }
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE | CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE => {
                answer.value(self.vector_width(features().doubles, 2))
            }
            CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF | CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF => {
                answer.value(self.vector_width(features().halves, 8))
            }
            CL_DEVICE_MAX_CLOCK_FREQUENCY => {
                answer.value::<cl_uint>(properties.clock_mhz.unwrap_or(0))
            }
            CL_DEVICE_ADDRESS_BITS => {
                answer.value::<cl_uint>(features().address_bits.unwrap_or(usize::BITS))
            }
            CL_DEVICE_MAX_MEM_ALLOC_SIZE => answer.value::<cl_ulong>(self.largest_buffer()),
            CL_DEVICE_GLOBAL_MEM_SIZE => answer.value::<cl_ulong>(properties.global_memory),
            CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE => {
                answer.value::<cl_ulong>(self.constant_bytes())
            }
            CL_DEVICE_MAX_CONSTANT_ARGS => answer.value::<cl_uint>(match self.has_own_compiler() {
                true => 64,
                false => LEAST_CONSTANT_ARGUMENTS,
            }),
            CL_DEVICE_LOCAL_MEM_SIZE => answer.value::<cl_ulong>(self.local_bytes()),
            CL_DEVICE_LOCAL_MEM_TYPE => answer.value(if self.has_own_compiler() {
                CL_GLOBAL
            } else {
                CL_LOCAL
            }),
            CL_DEVICE_GLOBAL_MEM_CACHE_TYPE => answer.value(match self.cache() {
                Some(cache) if cache.takes_writes => CL_READ_WRITE_CACHE,
                Some(_) => CL_READ_ONLY_CACHE,
                None => CL_NONE,
            }),
            CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE => {
                answer.value::<cl_uint>(self.cache().map_or(0, |cache| cache.line))
            }
            CL_DEVICE_GLOBAL_MEM_CACHE_SIZE => {
                answer.value::<cl_ulong>(self.cache().map_or(0, |cache| cache.bytes))
            }
            CL_DEVICE_MAX_PARAMETER_SIZE => {
                let most = features().argument_bytes.unwrap_or(LEAST_ARGUMENT_BYTES);
                answer.value(usize::try_from(most).unwrap_or(usize::MAX))
            }
            CL_DEVICE_MEM_BASE_ADDR_ALIGN => {
                answer.value::<cl_uint>(self.part_alignment() as cl_uint * 8)
            }
            CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE => answer.value::<cl_uint>(128),
            CL_DEVICE_SINGLE_FP_CONFIG => answer.value(match self.has_own_compiler() {
                true => FP | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT,
                false => {
                    let denormals = if features().denormals { CL_FP_DENORM } else { NO_FP };
                    let fused = if features().fused_multiply_add { CL_FP_FMA } else { NO_FP };
                    LEAST_FP | denormals | fused
                }
            }),
            CL_DEVICE_DOUBLE_FP_CONFIG => answer.value(if features().doubles { FP } else { NO_FP }),
            CL_DEVICE_HALF_FP_CONFIG => answer.value(match (features().halves, self.has_own_compiler()) {
                (true, true) => CL_FP_DENORM | LEAST_FP | CL_FP_FMA,
                (true, false) => LEAST_FP,
                _ => NO_FP,
            }),
            CL_DEVICE_ERROR_CORRECTION_SUPPORT => answer.truth(features().corrects_errors),
            CL_DEVICE_PROFILING_TIMER_RESOLUTION => answer.value(1_usize),
            CL_DEVICE_ENDIAN_LITTLE => answer.truth(cfg!(target_endian = "little")),
            CL_DEVICE_AVAILABLE => answer.truth(self.core.lost().is_none()),
            // Other devices take texts, which their drivers read where this machine cannot.
            CL_DEVICE_COMPILER_AVAILABLE => {
                let takes_text = !self.is_native() && Self::takes_text(&self.core);
                answer.truth(takes_text || quipu_clc::is_available())
            }
            CL_DEVICE_LINKER_AVAILABLE => answer.truth(self.links()),
            CL_DEVICE_EXECUTION_CAPABILITIES => {
                let native = if is_on_host(&self.core) {
                    CL_EXEC_NATIVE_KERNEL
                } else {
                    0
                };
                answer.value(CL_EXEC_KERNEL | native)
            }
            CL_DEVICE_QUEUE_ON_HOST_PROPERTIES => {
                answer.value(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE)
            }
            CL_DEVICE_HOST_UNIFIED_MEMORY => answer.truth(is_on_host(&self.core)),
            CL_DEVICE_NAME => answer.text(self.core.name()),
            CL_DEVICE_VENDOR => answer.text(&properties.vendor),
            CL_DRIVER_VERSION => answer.text(&driver_version()),
            CL_DEVICE_PROFILE => answer.text("FULL_PROFILE"),
            CL_DEVICE_VERSION => answer.text(VERSION_TEXT),
            CL_DEVICE_NUMERIC_VERSION => answer.value(VERSION),
            // The newest one that every older program is one of; 3.0 lacks what 2.0 has.
            CL_DEVICE_OPENCL_C_VERSION => answer.text("OpenCL C 1.2 clc"),
            CL_DEVICE_OPENCL_C_NUMERIC_VERSION_KHR => answer.value(version(1, 2, 0)),
            CL_DEVICE_OPENCL_C_ALL_VERSIONS => {
                let versions = [(1, 0), (1, 1), (1, 2), (3, 0)];
                let named = |(major, minor)| named("OpenCL C", version(major, minor, 0));
                answer.slice(&versions.map(named))
            }
            CL_DEVICE_OPENCL_C_FEATURES => {
                let features = self.listed().filter(|feature| !feature.is_extension());
                let features = features.map(|feature| named(feature.name, version(3, 0, 0)));
                answer.slice(&features.collect::<Vec<_>>())
            }
            CL_DEVICE_EXTENSIONS => answer.text(&names(&self.extensions())),
            CL_DEVICE_EXTENSIONS_WITH_VERSION => answer.slice(&versions(&self.extensions())),
            CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL
            | CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL
            | CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
            | CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
            | CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL => {
                answer.value(match is_on_host(&self.core) {
                    true => unified::CAPABILITIES,
                    false => 0,
                })
            }
            CL_DEVICE_SEMAPHORE_TYPES_KHR => answer.slice(&semaphore::TYPES),
            CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR => answer.value(command_buffer::CAPABILITIES),
            CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR => {
                answer.value(command_buffer::QUEUE_PROPERTIES)
            }
            CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR => {
                answer.value::<cl_command_queue_properties>(0)
            }
            CL_DEVICE_MUTABLE_DISPATCH_CAPABILITIES_KHR => answer.value(command_buffer::UPDATABLE),
            // Devices are synchronised by the host.
            CL_DEVICE_COMMAND_BUFFER_NUM_SYNC_DEVICES_KHR => answer.value::<cl_uint>(0),
            CL_DEVICE_COMMAND_BUFFER_SYNC_DEVICES_KHR => answer.slice::<cl_device_id>(&[]),
            CL_DEVICE_PLATFORM => answer.value(handle()),
            CL_DEVICE_PARENT_DEVICE => answer.value(
                self.parent
                    .as_ref()
                    .map_or(std::ptr::null_mut(), Ref::handle),
            ),
            CL_DEVICE_REFERENCE_COUNT => answer.value(if self.parent.is_some() {
                this.references()
            } else {
                1
            }),
            CL_DEVICE_PARTITION_MAX_SUB_DEVICES => {
                let most = match self.has_parts() {
                    true => properties.multiprocessors,
                    false => 1,
                };
                answer.value::<cl_uint>(most)
            }
            CL_DEVICE_PARTITION_PROPERTIES if self.has_parts() => {
                answer.slice(&[CL_DEVICE_PARTITION_EQUALLY, CL_DEVICE_PARTITION_BY_COUNTS])
            }
            CL_DEVICE_PARTITION_PROPERTIES => answer.slice::<cl_device_partition_property>(&[0]),
            CL_DEVICE_PARTITION_AFFINITY_DOMAIN => answer.value::<cl_device_affinity_domain>(0),
            CL_DEVICE_PARTITION_TYPE if self.partition.is_empty() => {
                answer.slice::<cl_device_partition_property>(&[0])
            }
            CL_DEVICE_PARTITION_TYPE => answer.slice(&self.partition),
            CL_DEVICE_PRINTF_BUFFER_SIZE => answer.value(1_usize << 20),
            CL_DEVICE_PREFERRED_INTEROP_USER_SYNC => answer.truth(true),
            CL_DEVICE_BUILT_IN_KERNELS => answer.text(""),
            CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION => answer.slice::<cl_name_version>(&[]),
            CL_DEVICE_ILS_WITH_VERSION => {
                let versions = self.il_versions();
                let versions = versions.map(|minor| named("SPIR-V", version(1, minor, 0)));
                answer.slice(&versions.collect::<Vec<_>>())
            }
            CL_DEVICE_IL_VERSION => {
                let versions = self.il_versions();
                let versions = versions.map(|minor| format!("SPIR-V_1.{minor}"));
                answer.text(&versions.collect::<Vec<_>>().join(" "))
            }
            // None: it has to be a day, and so is one before there were any.
            CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED => answer.text("v0000-01-01-00"),
            CL_DEVICE_SVM_CAPABILITIES => answer.value(svm::capabilities(self)),
            CL_DEVICE_UUID_KHR => answer.value(self.uuid()),
            CL_DRIVER_UUID_KHR => answer.value(uuid_of(&format!("Quipu {}", driver_version()))),
            CL_DEVICE_LUID_VALID_KHR => answer.truth(false),
            CL_DEVICE_LUID_KHR => answer.value([0_u8; 8]),
            CL_DEVICE_NODE_MASK_KHR => answer.value::<cl_uint>(0),
            CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT
            | CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT
            // There is no other sub-group of a work-group that one could wait for, unless a kernel
            // takes ballots or names a size.
            | CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS => {
                answer.truth(features().optional_language)
            }
            CL_DEVICE_MAX_NUM_SUB_GROUPS => {
                let most = match features().extended_language {
                    true if self.has_own_compiler() => MOST_SUB_GROUPS,
                    true => (self.most_items() as cl_uint).div_ceil(SUB_GROUP_ON_GPUS),
                    false => 1,
                };
                answer.value::<cl_uint>(if features().optional_language { most } else { 0 })
            }
            CL_DEVICE_IMAGE_SUPPORT => answer.truth(self.has_images()),
            CL_DEVICE_IMAGE2D_MAX_WIDTH | CL_DEVICE_IMAGE2D_MAX_HEIGHT if self.has_images() => {
                answer.value(MOST)
            }
            CL_DEVICE_IMAGE3D_MAX_WIDTH
            | CL_DEVICE_IMAGE3D_MAX_HEIGHT
            | CL_DEVICE_IMAGE3D_MAX_DEPTH
            | CL_DEVICE_IMAGE_MAX_ARRAY_SIZE
                if self.has_images() =>
            {
                answer.value(MOST_DEPTH)
            }
            CL_DEVICE_IMAGE_MAX_BUFFER_SIZE if self.has_images() => answer.value(MOST_OF_BUFFER),
            CL_DEVICE_MAX_READ_IMAGE_ARGS
            | CL_DEVICE_MAX_WRITE_IMAGE_ARGS
            | CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS
                if self.has_images() =>
            {
                answer.value::<cl_uint>(128)
            }
            CL_DEVICE_MAX_SAMPLERS if self.has_images() => answer.value::<cl_uint>(16),
            CL_DEVICE_IMAGE_PITCH_ALIGNMENT | CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT
                if self.has_images() =>
            {
                answer.value(PITCH_ALIGNMENT)
            }
            CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE | CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE => {
                answer.value(if self.is_native() { VARIABLE_BYTES } else { 0 })
            }
            CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT => {
                answer.truth(features().non_uniform_blocks)
            }
            // What follows is absent.
            CL_DEVICE_PIPE_SUPPORT => answer.truth(false),
            CL_DEVICE_IMAGE2D_MAX_WIDTH
            | CL_DEVICE_IMAGE2D_MAX_HEIGHT
            | CL_DEVICE_IMAGE3D_MAX_WIDTH
            | CL_DEVICE_IMAGE3D_MAX_HEIGHT
            | CL_DEVICE_IMAGE3D_MAX_DEPTH
            | CL_DEVICE_IMAGE_MAX_BUFFER_SIZE
            | CL_DEVICE_IMAGE_MAX_ARRAY_SIZE => answer.value(0_usize),
            CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => {
                answer.value(self.preferred_multiple())
            }
            CL_DEVICE_MAX_READ_IMAGE_ARGS
            | CL_DEVICE_MAX_WRITE_IMAGE_ARGS
            | CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS
            | CL_DEVICE_MAX_SAMPLERS
            | CL_DEVICE_IMAGE_PITCH_ALIGNMENT
            | CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT
            | CL_DEVICE_MAX_PIPE_ARGS
            | CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS
            | CL_DEVICE_PIPE_MAX_PACKET_SIZE
            | CL_DEVICE_MAX_ON_DEVICE_QUEUES
            | CL_DEVICE_MAX_ON_DEVICE_EVENTS
            | CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE
            | CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE
            | CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT
            | CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT
            | CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT => answer.value::<cl_uint>(0),
            CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES | CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES => {
                answer.value::<cl_bitfield>(0)
            }
            CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES => {
                answer.value(if features().optional_language { ATOMICS } else { LEAST_ATOMICS })
            }
            CL_DEVICE_ATOMIC_FENCE_CAPABILITIES => answer.value(match features().optional_language {
                true => ATOMICS | CL_DEVICE_ATOMIC_SCOPE_WORK_ITEM,
                false => LEAST_ATOMICS | CL_DEVICE_ATOMIC_ORDER_ACQ_REL,
            }),
            // OpenCL C has them; no other device tells.
            CL_DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES => answer.value(match features().extended_language {
                true => {
                    CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_PACKED
                        | CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT
                }
                false => 0,
            }),
            // They are made of other instructions.
            CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT | PACKED_PROPERTIES => {
                answer.value([CL_FALSE; 6])
            }
            SINGLE_FP_ATOMICS | DOUBLE_FP_ATOMICS if features().extended_language => answer.value(FP_ATOMICS),
            HALF_FP_ATOMICS if features().extended_language => answer.value::<cl_bitfield>(0),
            _ => fail(CL_INVALID_VALUE),
        }
    }
}

/// `CL_DRIVER_VERSION`: all that binaries of programs depend on. Programs that keep binaries
/// compare it.
fn driver_version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    match quipu_clc::llvm_version() {
        Some(version) => format!("{own} (LLVM {version})"),
        None => own.to_owned(),
    }
}

/// A number of what a text says.
fn uuid_of(text: &str) -> [u8; 16] {
    let mut uuid = hash::of_bytes(text.as_bytes()).to_be_bytes();
    // Version 8, of one's own making.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[unsafe(export_name = "clGetDeviceInfo")]
pub(crate) unsafe extern "C" fn get_device_info(
    device: cl_device_id,
    name: cl_device_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let device = Ref::<Device>::of(device)?;
        // SAFETY: the program passes what it wants the answer in.
        device.answer(&device, name, unsafe { Answer::new(size, value, size_ret) })
    })
}

#[unsafe(export_name = "clRetainDevice")]
pub(crate) unsafe extern "C" fn retain_device(device: cl_device_id) -> cl_int {
    entry(|| match Ref::<Device>::of(device)?.parent {
        Some(_) => retain::<Device>(device),
        None => Ok(()),
    })
}

#[unsafe(export_name = "clReleaseDevice")]
pub(crate) unsafe extern "C" fn release_device(device: cl_device_id) -> cl_int {
    entry(|| match Ref::<Device>::of(device)?.parent {
        Some(_) => release::<Device>(device),
        None => Ok(()),
    })
}

#[unsafe(export_name = "clGetDeviceAndHostTimer")]
pub(crate) unsafe extern "C" fn get_device_and_host_timer(
    device: cl_device_id,
    device_time: *mut cl_ulong,
    host_time: *mut cl_ulong,
) -> cl_int {
    entry(|| {
        Ref::<Device>::of(device)?;
        ensure(
            !device_time.is_null() && !host_time.is_null(),
            CL_INVALID_VALUE,
        )?;
        let now = quipu_scheduler::clock::now_ns();
        // SAFETY: the program passes where the times go.
        unsafe {
            device_time.write(now);
            host_time.write(now);
        }
        Ok(())
    })
}

#[unsafe(export_name = "clGetHostTimer")]
pub(crate) unsafe extern "C" fn get_host_timer(
    device: cl_device_id,
    host_time: *mut cl_ulong,
) -> cl_int {
    entry(|| {
        Ref::<Device>::of(device)?;
        ensure(!host_time.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes where the time goes.
        unsafe { host_time.write(quipu_scheduler::clock::now_ns()) };
        Ok(())
    })
}

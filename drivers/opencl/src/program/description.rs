//! The description of a program in OpenCL C by OpenCL: its kernels and their parameters.
//!
//! OpenCL does not say whether a kernel writes its memory, nor the size of a value. So memory
//! counts as written unless the text says `const`. A value of a type of the language has a known
//! size, and a structure the only size that `clSetKernelArg` takes. A library that takes any size
//! for a structure cannot describe such a kernel.

use super::compile::{build_log, build_program, kernels_of};
use crate::device::Device;
use crate::native::{CallError, Called, Kernel, Program, named};
use cl3::info_type::InfoType;
use cl3::kernel as info;
use quipu_clc::{Description, KernelInfo, MemoryAccess, ParameterInfo, ParameterKind, ProgramText};
use quipu_device_queue::VendorDevice;
use quipu_scheduler::Result;
use quipu_scheduler::error::ErrorKind;

/// The largest value that is looked for: as many bytes as all arguments of a kernel may have on
/// most devices.
const LARGEST_VALUE: usize = 4096;

/// Has a device's compiler read a program.
///
/// # Errors
/// The compiler's log, if it refuses the program; any other error of the library.
pub(crate) fn describe(device: &Device, text: &ProgramText) -> Result<Description> {
    let failed = |error: CallError| device.failed("read a program for it", &error);
    if text.source.trim().is_empty() {
        // OpenCL takes a text of no bytes for one that ends with a zero, wherever that is.
        return Ok(Description::default());
    }
    let context = device.platform.context().map_err(failed)?;
    let made = cl3::program::create_program_with_source(context.raw(), &[&text.source]);
    let program = named("clCreateProgramWithSource", made);
    let program = program.map(Program::new).map_err(failed)?;
    let options = format!("{} -cl-kernel-arg-info", text.options);
    let built = build_program(device, &program, &options);
    let log = build_log(device, program.raw());
    match built {
        Err(error) if error.code == cl3::error_codes::CL_INVALID_BUILD_OPTIONS => {
            return Err(ErrorKind::InvalidArgument {
                what: "compile OpenCL C",
                problem: format!(
                    "device '{}' takes no options '{}'",
                    device.name(),
                    text.options
                ),
            }
            .into());
        }
        Err(_) if !log.trim().is_empty() => {
            return Err(ErrorKind::Kernel {
                what: format!("compiling OpenCL C for device '{}'", device.name()),
                message: log,
            }
            .into());
        }
        Err(error) => return Err(failed(error)),
        Ok(()) => {}
    }
    let kernels = kernels_of(&program, &options);
    let kernels: Result<Vec<KernelInfo>> = kernels
        .iter()
        .map(|kernel| kernel_info(device, kernel, &text.options))
        .collect();
    Ok(Description {
        kernels: kernels?,
        log,
    })
}

fn text_of(info: InfoType) -> String {
    info.to_string().trim_end_matches('\0').to_owned()
}

fn kernel_info(device: &Device, kernel: &Kernel, options: &str) -> Result<KernelInfo> {
    let failed = |error: CallError| device.failed("look at a kernel", &error);
    let ask = |what| named("clGetKernelInfo", info::get_kernel_info(kernel.raw(), what));
    let of_group = |what| {
        let told = info::get_kernel_work_group_info(kernel.raw(), device.handle.0, what);
        named("clGetKernelWorkGroupInfo", told)
    };
    let name = text_of(ask(info::CL_KERNEL_FUNCTION_NAME).map_err(failed)?);
    let attributes = ask(info::CL_KERNEL_ATTRIBUTES).map(text_of);
    let required = of_group(info::CL_KERNEL_COMPILE_WORK_GROUP_SIZE).map_err(failed)?;
    let required = required.to_vec_size();
    let required: Vec<u32> = required
        .iter()
        .filter_map(|size| u32::try_from(*size).ok())
        .collect();
    let local_bytes = of_group(info::CL_KERNEL_LOCAL_MEM_SIZE).map_err(failed)?;
    let count = ask(info::CL_KERNEL_NUM_ARGS).map_err(failed)?.to_uint();
    let parameters: Result<Vec<ParameterInfo>> = (0..count)
        .map(|index| {
            let parameter = parameter_info(kernel, index).map_err(failed)?;
            parameter.map_err(|type_name| {
                ErrorKind::Unsupported {
                    driver: "opencl",
                    what: format!(
                        "find out the size of type '{type_name}', which kernel '{name}' takes, on device '{}'",
                        device.name()
                    ),
                    instead: "install clang, lld and libLLVM on the device's machine",
                }
                .into()
            })
        })
        .collect();
    let attributes = attributes.unwrap_or_default();
    Ok(KernelInfo {
        parameters: parameters?,
        required_local_size: required
            .try_into()
            .ok()
            .filter(|size: &[u32; 3]| !size.contains(&0)),
        uniform_groups: quipu_clc::has_uniform_groups(options),
        attributes: attributes.split_whitespace().map(str::to_owned).collect(),
        local_bytes: local_bytes.to_ulong(),
        // Its driver answers for the memory of work-items.
        private_bytes: 0,
        // OpenCL does not say.
        sees_groups: true,
        has_barriers: true,
        sub_group_size: None,
        reaches_beyond: true,
        name,
    })
}

/// A parameter, or the name of its type if the size of its value is not known.
fn parameter_info(
    kernel: &Kernel,
    index: u32,
) -> Called<std::result::Result<ParameterInfo, String>> {
    let ask = |what| {
        let told = info::get_kernel_arg_info(kernel.raw(), index, what);
        named("clGetKernelArgInfo", told)
    };
    let address = ask(info::CL_KERNEL_ARG_ADDRESS_QUALIFIER)?.to_uint();
    let access = ask(info::CL_KERNEL_ARG_ACCESS_QUALIFIER)?.to_uint();
    let type_name = text_of(ask(info::CL_KERNEL_ARG_TYPE_NAME)?);
    let qualifiers = ask(info::CL_KERNEL_ARG_TYPE_QUALIFIER)?.to_ulong();
    let has = |bit: u32| qualifiers & u64::from(bit) != 0;
    let is_image = access != info::CL_KERNEL_ARG_ACCESS_NONE && !has(info::CL_KERNEL_ARG_TYPE_PIPE);
    let kind = match address {
        info::CL_KERNEL_ARG_ADDRESS_LOCAL => ParameterKind::Local,
        _ if is_image => ParameterKind::Image(match access {
            info::CL_KERNEL_ARG_ACCESS_WRITE_ONLY => MemoryAccess::Write,
            info::CL_KERNEL_ARG_ACCESS_READ_WRITE => MemoryAccess::ReadWrite,
            _ => MemoryAccess::Read,
        }),
        info::CL_KERNEL_ARG_ADDRESS_CONSTANT => ParameterKind::Memory(MemoryAccess::Read),
        info::CL_KERNEL_ARG_ADDRESS_GLOBAL if has(info::CL_KERNEL_ARG_TYPE_CONST) => {
            ParameterKind::Memory(MemoryAccess::Read)
        }
        info::CL_KERNEL_ARG_ADDRESS_GLOBAL => ParameterKind::Memory(MemoryAccess::ReadWrite),
        _ if type_name == "sampler_t" => ParameterKind::Sampler,
        _ => match known_size(&type_name).or_else(|| value_size(kernel, index)) {
            Some(size) => ParameterKind::Value {
                size,
                align: 1 << size.trailing_zeros().min(7),
            },
            None => return Ok(Err(type_name)),
        },
    };
    let words = [
        ("const", info::CL_KERNEL_ARG_TYPE_CONST),
        ("restrict", info::CL_KERNEL_ARG_TYPE_RESTRICT),
        ("volatile", info::CL_KERNEL_ARG_TYPE_VOLATILE),
    ];
    let words = words.iter().filter(|(_, bit)| has(*bit));
    let words: Vec<&str> = words.map(|(word, _)| *word).collect();
    Ok(Ok(ParameterInfo {
        name: text_of(ask(info::CL_KERNEL_ARG_NAME)?),
        type_name,
        qualifiers: words.join(" "),
        is_constant: address == info::CL_KERNEL_ARG_ADDRESS_CONSTANT,
        kind,
    }))
}

/// The size of a type of the language: a scalar, or a vector.
fn known_size(type_name: &str) -> Option<u32> {
    let scalar = type_name.trim_end_matches(|character: char| character.is_ascii_digit());
    let lanes = match &type_name[scalar.len()..] {
        "" => 1,
        // A vector of three takes as much room as one of four.
        "3" => 4,
        lanes => lanes.parse().ok()?,
    };
    let size: u32 = match scalar {
        "char" | "uchar" | "unsigned char" => 1,
        "short" | "ushort" | "unsigned short" | "half" => 2,
        "int" | "uint" | "unsigned int" | "float" => 4,
        "long" | "ulong" | "unsigned long" | "double" => 8,
        _ => return None,
    };
    size.checked_mul(lanes)
}

/// The size of a value: the only one that may be set.
fn value_size(kernel: &Kernel, index: u32) -> Option<u32> {
    let zeros = [0_u64; LARGEST_VALUE / 8];
    let takes = |size: &usize| {
        // SAFETY: there are as many bytes, all of them zero; no other thread has the kernel.
        unsafe { info::set_kernel_arg(kernel.raw(), index, *size, zeros.as_ptr().cast()) }.is_ok()
    };
    let mut sizes = (1..=LARGEST_VALUE).filter(takes);
    let size = sizes.next()?;
    // A library that takes any size does not tell.
    sizes.next().is_none().then_some(size as u32)
}

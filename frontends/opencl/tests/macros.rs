//! The extensions and features that a program is told of by macros, and those that its device
//! lists.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};
use support::*;

/// The macros that clang and its header define, in any version of LLVM that compiles here. Left out
/// are `cl_clang_…` and `__opencl_c_named_address_space_builtins`: the standard has no such names.
const MACROS: [&str; 64] = [
    "cl_ext_float_atomics",
    "cl_ext_image_raw10_raw12",
    "cl_ext_image_unorm_int_2_101010",
    "cl_intel_device_side_avc_motion_estimation",
    "cl_intel_subgroups",
    "cl_intel_subgroups_short",
    "cl_khr_3d_image_writes",
    "cl_khr_byte_addressable_store",
    "cl_khr_depth_images",
    "cl_khr_extended_bit_ops",
    "cl_khr_fp16",
    "cl_khr_fp64",
    "cl_khr_gl_msaa_sharing",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_integer_dot_product",
    "cl_khr_kernel_clock",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_mipmap_image",
    "cl_khr_mipmap_image_writes",
    "cl_khr_select_fprounding_mode",
    "cl_khr_srgb_image_writes",
    "cl_khr_subgroup_ballot",
    "cl_khr_subgroup_clustered_reduce",
    "cl_khr_subgroup_extended_types",
    "cl_khr_subgroup_non_uniform_arithmetic",
    "cl_khr_subgroup_non_uniform_vote",
    "cl_khr_subgroup_rotate",
    "cl_khr_subgroup_shuffle",
    "cl_khr_subgroup_shuffle_relative",
    "cl_khr_subgroups",
    "__opencl_c_3d_image_writes",
    "__opencl_c_atomic_order_acq_rel",
    "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_all_devices",
    "__opencl_c_atomic_scope_device",
    "__opencl_c_device_enqueue",
    "__opencl_c_ext_fp16_global_atomic_add",
    "__opencl_c_ext_fp16_global_atomic_load_store",
    "__opencl_c_ext_fp16_global_atomic_min_max",
    "__opencl_c_ext_fp16_local_atomic_add",
    "__opencl_c_ext_fp16_local_atomic_load_store",
    "__opencl_c_ext_fp16_local_atomic_min_max",
    "__opencl_c_ext_fp32_global_atomic_add",
    "__opencl_c_ext_fp32_global_atomic_min_max",
    "__opencl_c_ext_fp32_local_atomic_add",
    "__opencl_c_ext_fp32_local_atomic_min_max",
    "__opencl_c_ext_fp64_global_atomic_add",
    "__opencl_c_ext_fp64_global_atomic_min_max",
    "__opencl_c_ext_fp64_local_atomic_add",
    "__opencl_c_ext_fp64_local_atomic_min_max",
    "__opencl_c_fp64",
    "__opencl_c_generic_address_space",
    "__opencl_c_images",
    "__opencl_c_int64",
    "__opencl_c_integer_dot_product_input_4x8bit",
    "__opencl_c_integer_dot_product_input_4x8bit_packed",
    "__opencl_c_pipes",
    "__opencl_c_read_write_images",
    "__opencl_c_subgroups",
    "__opencl_c_work_group_collective_functions",
];

/// A device's answer; none if it takes no such question.
fn told<T: Copy + Default>(device: cl_device_id, question: cl_device_info) -> Option<Vec<T>> {
    let mut bytes = 0;
    // SAFETY: no room, and a number for the size.
    let code = unsafe { clGetDeviceInfo()(device, question, 0, null_mut(), &raw mut bytes) };
    if code != CL_SUCCESS {
        assert_eq!(code, CL_INVALID_VALUE);
        return None;
    }
    let mut answer = vec![T::default(); bytes / size_of::<T>()];
    // SAFETY: room for so many bytes.
    ok(unsafe {
        clGetDeviceInfo()(
            device,
            question,
            bytes,
            answer.as_mut_ptr().cast(),
            null_mut(),
        )
    });
    Some(answer)
}

/// The extensions that a device lists, and its features of OpenCL C.
fn listed(device: cl_device_id) -> Vec<String> {
    let extensions = told::<u8>(device, CL_DEVICE_EXTENSIONS).unwrap();
    let extensions = String::from_utf8(extensions).unwrap();
    let extensions = extensions.trim_end_matches('\0').split_whitespace();
    let mut all: Vec<String> = extensions.map(str::to_owned).collect();
    // A name of 64 letters follows each version.
    let features = told::<u8>(device, CL_DEVICE_OPENCL_C_FEATURES).unwrap();
    for feature in features.chunks(size_of::<cl_name_version>()) {
        let name = feature[4..].split(|byte| *byte == 0).next().unwrap();
        all.push(String::from_utf8(name.to_vec()).unwrap());
    }
    all
}

#[test]
fn what_macros_say_is_what_the_device_lists() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let lines = MACROS.iter().enumerate().map(|(at, name)| {
        format!("#ifdef {name}\nout[{at}] = 1;\n#else\nout[{at}] = 0;\n#endif\n")
    });
    let text = format!(
        "kernel void k(global int *out) {{\n{}}}",
        lines.collect::<String>()
    );
    let (program, code, log) = setup.try_build(&text, "-cl-std=CL3.0");
    assert_eq!(code, CL_SUCCESS, "{log}");
    let name = CString::new("k").unwrap();
    // SAFETY: a text that ends with a zero.
    let kernel = made(|code| unsafe { clCreateKernel()(program, name.as_ptr(), code) });
    let out = setup.buffer(&[-1_i32; MACROS.len()]);
    assert_eq!(set(kernel, 0, &out), CL_SUCCESS);
    let one = 1_usize;
    // SAFETY: one dimension, and no events.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const one,
            null(),
            0,
            null(),
            null_mut(),
        )
    });
    let listed = listed(setup.device);
    for (name, is_defined) in MACROS.iter().zip(setup.read::<i32>(out, MACROS.len())) {
        let is_listed = listed.iter().any(|one| one == name);
        assert_eq!(is_defined == 1, is_listed, "{name}: {listed:?}");
    }
}

#[test]
fn a_processor_tells_its_products_and_atomic_functions() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let device = setup.device;
    let products = told::<u64>(device, CL_DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES);
    assert_eq!(products, Some(vec![3]));
    for question in [
        CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT,
        CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED,
    ] {
        assert_eq!(told::<cl_bool>(device, question), Some(vec![CL_FALSE; 6]));
    }
    // Of `float`, `double` and `half`.
    let atomics = [0x4231, 0x4232, 0x4233].map(|of| told::<u64>(device, of).unwrap());
    assert_eq!(atomics, [[0x7_0007], [0x7_0007], [0]]);
}

//! Programs of SPIR-V.
//!
//! Modules are assembled by `spirv-as`. Without it, or where the device takes none, these tests are
//! left out.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::{
    clCompileProgram_t, clCreateProgramWithIL_t, clLinkProgram_t,
    clSetProgramSpecializationConstant_t,
};
use opencl_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::io::Write;
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};
use support::*;

/// `to[0] = twice(to[0] + constant 7)`, where `twice` is imported or is here.
fn module(is_imported: bool) -> Vec<u8> {
    let (decoration, body) = match is_imported {
        true => ("OpDecorate %twice LinkageAttributes \"twice\" Import", ""),
        false => (
            "",
            "%l = OpLabel
             %double = OpIMul %uint %given %two
             OpReturnValue %double",
        ),
    };
    let linkage = if is_imported {
        "OpCapability Linkage"
    } else {
        ""
    };
    let text = format!(
        "OpCapability Addresses
         OpCapability Kernel
         {linkage}
         OpMemoryModel Physical64 OpenCL
         OpEntryPoint Kernel %kernel \"k\"
         OpExecutionMode %kernel LocalSize 2 1 1
         OpName %to \"to\"
         {decoration}
         OpDecorate %constant SpecId 7
         %void = OpTypeVoid
         %uint = OpTypeInt 32 0
         %global = OpTypePointer CrossWorkgroup %uint
         %helper = OpTypeFunction %uint %uint
         %type = OpTypeFunction %void %global
         %constant = OpSpecConstant %uint 100
         %two = OpConstant %uint 2
         %twice = OpFunction %uint None %helper
         %given = OpFunctionParameter %uint
         {body}
         OpFunctionEnd
         %kernel = OpFunction %void None %type
         %to = OpFunctionParameter %global
         %label = OpLabel
         %was = OpLoad %uint %to Aligned 4
         %sum = OpIAdd %uint %was %constant
         %is = OpFunctionCall %uint %twice %sum
         OpStore %to %is Aligned 4
         OpReturn
         OpFunctionEnd"
    );
    let mut child = Command::new("spirv-as")
        .args(["--target-env", "spv1.2", "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn function<T: Copy>(name: &str) -> T {
    let address = api().address(name).unwrap();
    assert_eq!(size_of::<T>(), size_of_val(&address));
    // SAFETY: the caller names the function's own type, which is an optional pointer.
    unsafe { std::mem::transmute_copy(&address) }
}

/// A device's answer in text.
fn said(setup: &Setup, name: cl_device_info) -> String {
    let mut text = vec![0_u8; 1 << 12];
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            name,
            text.len(),
            text.as_mut_ptr().cast(),
            null_mut(),
        )
    });
    let text = CStr::from_bytes_until_nul(&text).unwrap();
    text.to_str().unwrap().to_owned()
}

fn create(setup: &Setup, bytes: &[u8]) -> (cl_program, cl_int) {
    let create: clCreateProgramWithIL_t = function("clCreateProgramWithIL");
    let mut code = 1;
    let (at, length) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: so many bytes.
    let program = unsafe { create.unwrap()(setup.context, at, length, &raw mut code) };
    (program, code)
}

fn build(program: cl_program, options: &CStr) -> cl_int {
    // SAFETY: a handle, and a text that ends with a zero.
    unsafe { clBuildProgram()(program, 0, null(), options.as_ptr(), None, null_mut()) }
}

fn specialise(program: cl_program, id: cl_uint, value: &[u8]) -> cl_int {
    let set: clSetProgramSpecializationConstant_t = function("clSetProgramSpecializationConstant");
    // SAFETY: so many bytes.
    unsafe { set.unwrap()(program, id, value.len(), value.as_ptr().cast()) }
}

/// True if the device takes SPIR-V, and there is an assembler.
fn is_tested(setup: &Setup) -> bool {
    let has_assembler = Command::new("spirv-as").arg("--version").output().is_ok();
    if has_assembler && compiles() && !said(setup, CL_DEVICE_IL_VERSION).is_empty() {
        return true;
    }
    assert!(
        std::env::var_os("QUIPU_TEST_SPIRV").is_none(),
        "there is no spirv-as, or no llvm-spirv, and QUIPU_TEST_SPIRV wants them"
    );
    println!("NOT TESTED: programs of SPIR-V: no spirv-as, or no llvm-spirv");
    false
}

/// The expected result of two work-items for a number, one after the other.
fn wanted(number: u32, constant: u32) -> u32 {
    let first = (number + constant) * 2;
    (first + constant) * 2
}

/// Runs kernel `k` over two work-items of one group, which do the same to one number one after the
/// other.
fn run(setup: &Setup, program: cl_program, number: u32) -> u32 {
    // SAFETY: a name that ends with a zero; one number for one dimension.
    unsafe {
        let kernel = made(|code| clCreateKernel()(program, c"k".as_ptr(), code));
        let buffer = setup.buffer(&[number]);
        ok(set(kernel, 0, &buffer));
        let two = 2_usize;
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const two,
            &raw const two,
            0,
            null(),
            null_mut(),
        ));
        let number = setup.read::<u32>(buffer, 1)[0];
        ok(clReleaseKernel()(kernel));
        number
    }
}

#[test]
fn a_device_says_which_versions_it_takes() {
    let setup = Setup::new();
    let versions = said(&setup, CL_DEVICE_IL_VERSION);
    let extensions = said(&setup, CL_DEVICE_EXTENSIONS);
    let has_extension = extensions
        .split(' ')
        .any(|name| name == "cl_khr_il_program");
    assert_eq!(has_extension, !versions.is_empty());
    let mut list = vec![
        cl_name_version {
            version: 0,
            name: [0; 64]
        };
        16
    ];
    let mut length = 0;
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_ILS_WITH_VERSION,
            size_of_val(&list[..]),
            list.as_mut_ptr().cast(),
            &raw mut length,
        )
    });
    list.truncate(length / size_of::<cl_name_version>());
    let listed: Vec<String> = list
        .iter()
        .map(|one| {
            let name = one.name.iter().take_while(|byte| **byte != 0);
            let name: Vec<u8> = name.copied().collect();
            let name = String::from_utf8(name).unwrap();
            format!("{name}_{}.{}", one.version >> 22, one.version >> 12 & 0x3ff)
        })
        .collect();
    assert_eq!(listed.join(" "), versions);
    if is_tested(&setup) {
        assert!(versions.starts_with("SPIR-V_1.0 ") && versions.ends_with(" SPIR-V_1.6"));
        // SAFETY: no platform, and a name that ends with a zero.
        let address = unsafe {
            clGetExtensionFunctionAddressForPlatform()(
                null_mut(),
                c"clCreateProgramWithILKHR".as_ptr(),
            )
        };
        assert!(!address.is_null());
    } else {
        assert_eq!(create(&setup, &[3, 2, 35, 7]).1, CL_INVALID_OPERATION);
    }
}

#[test]
fn a_module_is_built_and_specialised_and_is_a_binary() {
    let setup = Setup::new();
    if !is_tested(&setup) {
        return;
    }
    let bytes = module(false);
    let (program, code) = create(&setup, &bytes);
    ok(code);
    ok(build(program, c""));
    assert_eq!(run(&setup, program, 1), wanted(1, 100));
    assert_eq!(specialise(program, 8, &[0; 4]), CL_INVALID_SPEC_ID);
    assert_eq!(specialise(program, 7, &[0; 8]), CL_INVALID_VALUE);
    ok(specialise(program, 7, &5_u32.to_ne_bytes()));
    ok(build(program, c"-cl-fast-relaxed-math"));
    assert_eq!(run(&setup, program, 1), wanted(1, 5));
    assert_eq!(build(program, c"-what"), CL_INVALID_BUILD_OPTIONS);
    ok(build(program, c""));

    let ask = |name, value: *mut c_void, size| {
        let mut length = 0;
        // SAFETY: room for so many bytes.
        ok(unsafe { clGetProgramInfo()(program, name, size, value, &raw mut length) });
        length
    };
    let mut given = vec![0_u8; bytes.len()];
    assert_eq!(ask(CL_PROGRAM_IL, null_mut(), 0), bytes.len());
    ask(CL_PROGRAM_IL, given.as_mut_ptr().cast(), given.len());
    assert_eq!(given, bytes);
    assert_eq!(ask(CL_PROGRAM_SOURCE, null_mut(), 0), 1);

    // SAFETY: a name that ends with a zero; room for what is asked.
    unsafe {
        let kernel = made(|code| clCreateKernel()(program, c"k".as_ptr(), code));
        let (mut text, mut address, mut sizes) = ([0_u8; 64], 0_u32, [0_usize; 3]);
        let at = text.as_mut_ptr().cast();
        for (name, wanted) in [
            (CL_KERNEL_ARG_NAME, c"to"),
            (CL_KERNEL_ARG_TYPE_NAME, c"int*"),
        ] {
            ok(clGetKernelArgInfo()(kernel, 0, name, 64, at, null_mut()));
            assert_eq!(CStr::from_bytes_until_nul(&text).unwrap(), wanted);
        }
        let at = (&raw mut address).cast();
        let name = CL_KERNEL_ARG_ADDRESS_QUALIFIER;
        ok(clGetKernelArgInfo()(kernel, 0, name, 4, at, null_mut()));
        assert_eq!(address, CL_KERNEL_ARG_ADDRESS_GLOBAL);
        let at = sizes.as_mut_ptr().cast();
        let name = CL_KERNEL_COMPILE_WORK_GROUP_SIZE;
        let device = setup.device;
        ok(clGetKernelWorkGroupInfo()(
            kernel,
            device,
            name,
            24,
            at,
            null_mut(),
        ));
        assert_eq!(sizes, [2, 1, 1]);
        ok(clReleaseKernel()(kernel));
    }

    // Its binary is a program again.
    let mut length = 0_usize;
    ask(CL_PROGRAM_BINARY_SIZES, (&raw mut length).cast(), 8);
    let mut binary = vec![0_u8; length];
    let mut first = binary.as_mut_ptr();
    ask(CL_PROGRAM_BINARIES, (&raw mut first).cast(), 8);
    let mut first = first.cast_const();
    let (context, device) = (setup.context, &raw const setup.device);
    // SAFETY: so many bytes for one device.
    let again = made(|code| unsafe {
        let lengths = &raw const length;
        clCreateProgramWithBinary()(
            context,
            1,
            device,
            lengths,
            &raw mut first,
            null_mut(),
            code,
        )
    });
    ok(build(again, c""));
    assert_eq!(run(&setup, again, 2), wanted(2, 5));
    assert_eq!(specialise(again, 7, &[0; 4]), CL_INVALID_PROGRAM);
}

#[test]
fn a_module_and_a_text_are_linked() {
    let setup = Setup::new();
    if !is_tested(&setup) {
        return;
    }
    let (imports, code) = create(&setup, &module(true));
    ok(code);
    let text = CString::new("uint twice(uint x) { return 2 * x; }").unwrap();
    let mut first = text.as_ptr();
    // SAFETY: one text that ends with a zero.
    let text = made(|code| unsafe {
        clCreateProgramWithSource()(setup.context, 1, &raw mut first, null(), code)
    });
    // Alone it lacks a function.
    assert_eq!(build(imports, c""), CL_BUILD_PROGRAM_FAILURE);
    ok(specialise(imports, 7, &4_u32.to_ne_bytes()));
    let compile: clCompileProgram_t = function("clCompileProgram");
    for program in [imports, text] {
        // SAFETY: a handle; no options, and no headers.
        ok(unsafe {
            compile.unwrap()(
                program,
                0,
                null(),
                null(),
                0,
                null(),
                null_mut(),
                None,
                null_mut(),
            )
        });
    }
    let link: clLinkProgram_t = function("clLinkProgram");
    let programs = [imports, text];
    let (context, at) = (setup.context, programs.as_ptr());
    // SAFETY: two handles.
    let linked = made(|code| unsafe {
        link.unwrap()(context, 0, null(), null(), 2, at, None, null_mut(), code)
    });
    assert_eq!(run(&setup, linked, 3), wanted(3, 4));
}

#[test]
fn what_is_no_module_has_a_code() {
    let setup = Setup::new();
    if !is_tested(&setup) {
        return;
    }
    let bytes = module(false);
    for bad in [
        &[][..],
        b"kernel void k() {}",
        &bytes[..16],
        &bytes[..bytes.len() - 12],
    ] {
        assert_eq!(create(&setup, bad), (null_mut(), CL_INVALID_VALUE));
    }
    // An instruction that there is not: the module's form is one, and it is refused when it is
    // built.
    let mut bad = bytes.clone();
    bad.extend((1_u32 << 16 | 0x7777).to_le_bytes());
    let (program, code) = create(&setup, &bad);
    ok(code);
    assert_eq!(build(program, c""), CL_BUILD_PROGRAM_FAILURE);
    let mut log = vec![0_u8; 1 << 12];
    // SAFETY: room for the log.
    ok(unsafe {
        clGetProgramBuildInfo()(
            program,
            setup.device,
            CL_PROGRAM_BUILD_LOG,
            log.len(),
            log.as_mut_ptr().cast(),
            null_mut(),
        )
    });
    let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert!(log.contains("SPIR-V"), "{log}");
}

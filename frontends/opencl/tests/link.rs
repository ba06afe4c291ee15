//! Programs that are compiled by themselves, and linked.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::{clCompileProgram_t, clLinkProgram_t};
use opencl_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};
use support::*;

fn function<T: Copy>(name: &str) -> T {
    let address = api().address(name).unwrap();
    assert_eq!(size_of::<T>(), size_of_val(&address));
    // SAFETY: the caller names the function's own type, which is an optional pointer.
    unsafe { std::mem::transmute_copy(&address) }
}

fn text(setup: &Setup, text: &str) -> cl_program {
    let text = CString::new(text).unwrap();
    let mut first = text.as_ptr();
    // SAFETY: one text that ends with a zero.
    made(|code| unsafe {
        clCreateProgramWithSource()(setup.context, 1, &raw mut first, null(), code)
    })
}

fn compile(program: cl_program, headers: &[(&CStr, cl_program)]) -> cl_int {
    let compile: clCompileProgram_t = function("clCompileProgram");
    let texts: Vec<cl_program> = headers.iter().map(|(_, text)| *text).collect();
    let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let (texts, names) = match headers.is_empty() {
        true => (null(), null_mut()),
        false => (texts.as_ptr(), names.as_mut_ptr()),
    };
    // SAFETY: as many names as texts.
    unsafe {
        compile.unwrap()(
            program,
            0,
            null(),
            null(),
            headers.len() as u32,
            texts,
            names,
            None,
            null_mut(),
        )
    }
}

fn link(setup: &Setup, options: &CStr, programs: &[cl_program]) -> (cl_program, cl_int) {
    let link: clLinkProgram_t = function("clLinkProgram");
    let mut code = 1;
    let count = programs.len() as u32;
    // SAFETY: as many handles.
    let linked = unsafe {
        link.unwrap()(
            setup.context,
            0,
            null(),
            options.as_ptr(),
            count,
            programs.as_ptr(),
            None,
            null_mut(),
            &raw mut code,
        )
    };
    (linked, code)
}

fn kind(setup: &Setup, program: cl_program) -> cl_program_binary_type {
    let mut kind: cl_program_binary_type = 77;
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetProgramBuildInfo()(
            program,
            setup.device,
            CL_PROGRAM_BINARY_TYPE,
            size_of_val(&kind),
            (&raw mut kind).cast(),
            null_mut(),
        )
    });
    kind
}

/// Runs kernel `k`, which sets a number.
fn run(setup: &Setup, program: cl_program) -> i32 {
    // SAFETY: a name that ends with a zero; one number for one dimension.
    unsafe {
        let kernel = made(|code| clCreateKernel()(program, c"k".as_ptr(), code));
        let buffer = setup.buffer(&[0_i32]);
        ok(set(kernel, 0, &buffer));
        let one = 1_usize;
        let (queue, none) = (setup.queue, null_mut());
        ok(clEnqueueNDRangeKernel()(
            queue,
            kernel,
            1,
            null(),
            &raw const one,
            null(),
            0,
            null(),
            none,
        ));
        let number = setup.read::<i32>(buffer, 1)[0];
        ok(clReleaseKernel()(kernel));
        number
    }
}

const KERNEL: &str = "#include \"deep/header.h\"
    int twice(int); kernel void k(global int *to) { *to = twice(NUMBER); }";
const HELPER: &str = "int twice(int x) { return 2 * x; }";

#[test]
fn texts_are_compiled_with_headers_and_linked_through_libraries_and_binaries() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let (kernel, helper) = (text(&setup, KERNEL), text(&setup, HELPER));
    for number in [21, 4] {
        let header = text(&setup, &format!("#define NUMBER {number}"));
        ok(compile(kernel, &[(c"deep/header.h", header)]));
        ok(compile(helper, &[]));
        assert_eq!(kind(&setup, kernel), CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT);
        let (linked, code) = link(&setup, c"", &[kernel, helper]);
        ok(code);
        assert_eq!(kind(&setup, linked), CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
        assert_eq!(run(&setup, linked), 2 * number);
    }
    let (library, code) = link(&setup, c"-create-library", &[helper]);
    ok(code);
    assert_eq!(kind(&setup, library), CL_PROGRAM_BINARY_TYPE_LIBRARY);
    let (linked, code) = link(&setup, c"", &[kernel, library]);
    ok(code);
    assert_eq!(run(&setup, linked), 8);
    for program in [linked, kernel, library] {
        let was = kind(&setup, program);
        let mut length = 0_usize;
        // SAFETY: room for one length, one address, and so many bytes.
        let again = unsafe {
            let size = size_of::<usize>();
            let (at, none) = ((&raw mut length).cast::<c_void>(), null_mut());
            ok(clGetProgramInfo()(
                program,
                CL_PROGRAM_BINARY_SIZES,
                size,
                at,
                none,
            ));
            let mut bytes = vec![0_u8; length];
            let mut first = bytes.as_mut_ptr();
            let at = (&raw mut first).cast::<c_void>();
            ok(clGetProgramInfo()(
                program,
                CL_PROGRAM_BINARIES,
                size,
                at,
                none,
            ));
            let mut binary = first.cast_const();
            let (context, device) = (setup.context, &raw const setup.device);
            made(|code| {
                clCreateProgramWithBinary()(
                    context,
                    1,
                    device,
                    &raw const length,
                    &raw mut binary,
                    null_mut(),
                    code,
                )
            })
        };
        assert_eq!(kind(&setup, again), was);
        if program == linked {
            // SAFETY: handles; no options.
            ok(unsafe { clBuildProgram()(again, 0, null(), null(), None, null_mut()) });
            assert_eq!(run(&setup, again), 8);
        }
    }
}

#[test]
fn what_cannot_be_linked_has_a_code_and_a_log() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let helper = text(&setup, HELPER);
    let again = text(&setup, HELPER);
    let kernel = text(
        &setup,
        "int twice(int); kernel void k(global int *to) { *to = twice(3); }",
    );
    // What was not compiled is no part of a program.
    assert_eq!(
        link(&setup, c"", &[kernel, helper]),
        (null_mut(), CL_INVALID_OPERATION)
    );
    for program in [helper, again, kernel] {
        ok(compile(program, &[]));
    }
    assert_eq!(
        link(&setup, c"-what", &[kernel, helper]),
        (null_mut(), CL_INVALID_LINKER_OPTIONS)
    );
    assert_eq!(link(&setup, c"", &[]), (null_mut(), CL_INVALID_VALUE));
    for (programs, says) in [
        (&[kernel][..], "twice"),
        (&[kernel, helper, again], "more than one"),
    ] {
        let (linked, code) = link(&setup, c"", programs);
        assert_eq!(code, CL_LINK_PROGRAM_FAILURE);
        let mut log = vec![0_u8; 1 << 12];
        // SAFETY: room for the log.
        ok(unsafe {
            clGetProgramBuildInfo()(
                linked,
                setup.device,
                CL_PROGRAM_BUILD_LOG,
                log.len(),
                log.as_mut_ptr().cast(),
                null_mut(),
            )
        });
        let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
        assert!(log.contains(says), "{log}");
    }
    // A name of a header does not lead out of where headers are.
    let header = text(&setup, "");
    let code = compile(kernel, &[(c"../header.h", header)]);
    assert_eq!(code, CL_COMPILE_PROGRAM_FAILURE);
}

//! Builds: their options and logs, and programs that do not wait for their children.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use std::time::{SystemTime, UNIX_EPOCH};
use support::*;

const WARNED: &str = "kernel void k(global int *x) { int forgotten; x[0] = 1; }";

/// A text that no compiler has seen yet, so that nothing is kept of it on disk.
fn new(text: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("{text}\n// {} {now:?}\n", std::process::id())
}

#[test]
fn a_build_that_succeeds_has_warnings_in_its_log() {
    let setup = Setup::new();
    let text = new(WARNED);
    // The second time it comes from disk.
    for _ in 0..2 {
        let (_, code, log) = setup.try_build(&text, "-Wall");
        assert_eq!(code, CL_SUCCESS, "{log}");
        assert!(log.starts_with("program:1:"), "{log}");
        assert!(log.contains("unused variable 'forgotten'"), "{log}");
    }
    for options in ["", "-Wall -w", "-w -Wall", "-Wall -Wno-unused-variable"] {
        let (_, code, log) = setup.try_build(WARNED, options);
        assert_eq!((code, log.as_str()), (CL_SUCCESS, ""), "{options}");
    }
    let (_, code, log) = setup.try_build(WARNED, "-Wall -Werror");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE);
    assert!(log.contains("error: unused variable"), "{log}");
}

#[test]
fn a_text_that_is_no_utf8_keeps_its_bytes() {
    let setup = Setup::new();
    let text = b"// caf\xe9\nconstant char there[] = \"\xfc1\", own[] = OWN;
        kernel void k(global uchar *x) { x[0] = there[0]; x[1] = there[1]; x[2] = own[0]; }";
    let options = b"-DOWN=\\\"\xdf\\\"\0";
    let mut first = text.as_ptr().cast();
    let bytes = setup.buffer(&[0_u8; 3]);
    // SAFETY: a text of this length, options that end with a zero, and room for the answers.
    unsafe {
        let program = made(|code| {
            clCreateProgramWithSource()(setup.context, 1, &raw mut first, &text.len(), code)
        });
        let mut source = vec![0_u8; text.len() + 1];
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_SOURCE,
            source.len(),
            source.as_mut_ptr().cast(),
            null_mut(),
        ));
        assert_eq!(source.strip_suffix(&[0]), Some(&text[..]));
        if !compiles() {
            return;
        }
        let options = options.as_ptr().cast();
        ok(clBuildProgram()(
            program,
            1,
            &setup.device,
            options,
            None,
            null_mut(),
        ));
        let kernel = made(|code| clCreateKernel()(program, c"k".as_ptr(), code));
        ok(set(kernel, 0, &bytes));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &1,
            null(),
            0,
            null(),
            null_mut(),
        ));
    }
    assert_eq!(setup.read::<u8>(bytes, 3), [0xfc, b'1', 0xdf]);
}

#[test]
fn an_option_that_is_none_has_a_code_of_its_own() {
    let setup = Setup::new();
    let text = "kernel void k(global int *x) { x[0] = 1; }";
    let bad = ["-foo", "-cl-bogus", "-cl-std=CL9.0", "-Wl,-x", "-D", "x.cl"];
    for options in bad {
        let (_, code, log) = setup.try_build(text, options);
        assert_eq!(code, CL_INVALID_BUILD_OPTIONS, "{options}: {log}");
        assert!(log.contains("is not taken"), "{options}: {log}");
    }
    let good = [
        "-cl-std=CL1.1 -g -O3 -cl-opt-disable -cl-kernel-arg-info",
        "-cl-std=CL1.2 -cl-strict-aliasing -cl-denorms-are-zero",
        "-cl-std=CL3.0 -cl-uniform-work-group-size -cl-no-subgroup-ifp",
        "-cl-fast-relaxed-math -cl-mad-enable -cl-no-signed-zeros -cl-finite-math-only",
        "-cl-single-precision-constant -cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-unsafe-math-optimizations -D A=1 -DB -I . -Werror",
        "-cl-std=CL2.1 -fno-alias -ffp-contract=off -gline-tables-only -g -s \"a file.cl\"",
        "-cl-std=CL2.2 -fno-bin-amdil -fbin-source -fbin-llvmir -fbin-amdil -fbin-as -I /a\\ b -DS=\\\"ab\\\"",
        "-cl-nv-maxrregcount 32 -cl-nv-opt-level 3 -cl-nv-arch sm_80 -ze-opt-level=2 -igc_opts 'A=1' -cl-std=CL3.1 -Oz -g2",
        "-cl-nv-verbose -cl-amd-media-ops -fno-bin-source -save-temps -x clc -m64 -D A=1 -U A",
    ];
    for options in good {
        let (_, code, log) = setup.try_build(text, options);
        assert_eq!((code, log.as_str()), (CL_SUCCESS, ""), "{options}");
    }
}

#[test]
fn a_text_is_told_what_there_is_and_no_more() {
    let setup = Setup::new();
    let absent = [
        "cl_khr_kernel_clock",
        "__opencl_c_kernel_clock_scope_device",
        "__opencl_c_ext_fp16_global_atomic_add",
        "__opencl_c_ext_fp16_local_atomic_load_store",
        "__opencl_c_ext_image_raw10_raw12",
        "__opencl_c_pipes",
        "__opencl_c_device_enqueue",
    ];
    let mut text = String::new();
    for name in absent {
        text.push_str(&format!("#ifdef {name}\n#error {name}\n#endif\n"));
    }
    // It is reported, whichever the version.
    text.push_str(
        "#ifndef cl_khr_extended_bit_ops\n#error bits\n#endif\n\
         kernel void k(global uint *x) { x[0] = bit_reverse(x[0]) + bitfield_extract_unsigned(x[1], 2, 3); }",
    );
    for options in ["", "-cl-std=CL1.1", "-cl-std=CL2.0", "-cl-std=CL3.0"] {
        let options = format!("{options} -Wall -Wextra -Werror");
        let (_, code, log) = setup.try_build(&text, &options);
        assert_eq!((code, log.as_str()), (CL_SUCCESS, ""), "{options}");
    }
}

#[test]
fn warnings_of_other_targets_are_no_errors() {
    let setup = Setup::new();
    let text = "kernel void k(read_only image2d_t from, global float4 *x) {
        const sampler_t s = CLK_ADDRESS_CLAMP;
        x[0] = read_imagef(from, s, (int2)(0, 0));
    }";
    let (_, code, log) = setup.try_build(text, "-Werror");
    assert_eq!((code, log.as_str()), (CL_SUCCESS, ""));
}

#[test]
fn a_file_that_options_name_is_included_before_the_text() {
    let setup = Setup::new();
    let name = format!("quipu named {}.h", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, "#define VALUE 3\n").unwrap();
    let options = format!("-w -include \"{}\" -DX='a b'", file.display());
    let text = new("kernel void k(global int *x) { x[0] = VALUE; }");
    let (_, code, log) = setup.try_build(&text, &options);
    assert_eq!((code, log.as_str()), (CL_SUCCESS, ""));
    // Another file of that name is another program.
    std::fs::write(&file, "#define VALUE y\n").unwrap();
    let (_, code, log) = setup.try_build(&text, &options);
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE, "{log}");
    assert!(log.contains("program:1:"), "{log}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_binary_needs_no_file_that_its_text_includes() {
    let setup = Setup::new();
    let folder = std::env::temp_dir().join(format!("quipu-included-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("value.h"), "#define VALUE 5\n").unwrap();
    let text = new("#include <value.h>\nkernel void k(global int *x) { *x = VALUE; }");
    let (program, code, log) = setup.try_build(&text, &format!("-I {}", folder.display()));
    assert_eq!(code, CL_SUCCESS, "{log}");
    std::fs::remove_dir_all(&folder).unwrap();
    // SAFETY: room for one size, one pointer, and so many bytes; one device; a text that ends with
    // a zero.
    unsafe {
        let mut size = 0_usize;
        let room = (&raw mut size).cast();
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_BINARY_SIZES,
            8,
            room,
            std::ptr::null_mut(),
        ));
        let mut binary = vec![0_u8; size];
        let mut place = binary.as_mut_ptr();
        let room = (&raw mut place).cast();
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_BINARIES,
            8,
            room,
            std::ptr::null_mut(),
        ));
        let mut bytes = binary.as_ptr();
        let again = made(|code| {
            clCreateProgramWithBinary()(
                setup.context,
                1,
                &raw const setup.device,
                &raw const size,
                &raw mut bytes,
                std::ptr::null_mut(),
                code,
            )
        });
        ok(clBuildProgram()(
            again,
            1,
            &raw const setup.device,
            std::ptr::null(),
            None,
            std::ptr::null_mut(),
        ));
        let kernel = made(|code| clCreateKernel()(again, c"k".as_ptr(), code));
        let buffer = setup.buffer(&[0_i32]);
        assert_eq!(set(kernel, 0, &buffer), CL_SUCCESS);
        ok(clEnqueueTask()(
            setup.queue,
            kernel,
            0,
            std::ptr::null(),
            std::ptr::null_mut(),
        ));
        assert_eq!(setup.read::<i32>(buffer, 1), [5]);
    }
}

#[test]
#[cfg(unix)]
fn programs_that_ignore_what_becomes_of_their_children_build() {
    // SAFETY: no code of ours. The other tests here hold with and without it.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let setup = Setup::new();
    let kernel = setup.kernel(&new("kernel void k(global int *x) { x[0] = 7; }"), "k");
    let buffer = setup.buffer(&[1_i32]);
    assert_eq!(set(kernel, 0, &buffer), CL_SUCCESS);
    let one = 1;
    // SAFETY: one dimension.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            std::ptr::null(),
            &raw const one,
            std::ptr::null(),
            0,
            std::ptr::null(),
            std::ptr::null_mut(),
        )
    });
    assert_eq!(setup.read::<i32>(buffer, 1), [7]);
    let (_, code, log) = setup.try_build(&new("kernel void k() { nothing(); }"), "");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE);
    assert!(log.contains("nothing"), "{log}");
}

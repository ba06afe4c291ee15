//! Launches as the core has them: images, as a client of a node passes them.

mod support;

use quipu_clc::{ClcError, Image};
use quipu_scheduler::{Passed, PassedParameter, RawArgument};

/// Two rows of three numbers of 32 bits, with a gap behind each.
fn image() -> Image {
    Image {
        texels: std::ptr::null_mut(),
        width: 3,
        height: 2,
        depth: 1,
        layers: 1,
        row: 16,
        slice: 32,
        // `CL_R`, `CL_UNSIGNED_INT32`.
        order: 0x10b0,
        data: 0x10dc,
        channels: 1,
        bytes: 4,
    }
}

fn memory() -> PassedParameter {
    PassedParameter::Memory {
        element: 1,
        shape: None,
    }
}

#[test]
fn an_image_is_its_memory_and_a_layout_that_lies_within() {
    let text = "kernel void add(read_only image2d_t from, int by, write_only image2d_t to) {
        int2 at = (int2)(get_global_id(0), get_global_id(1));
        write_imageui(to, at, read_imageui(from, at) + (uint)by);
    }";
    let Some(program) = support::program(text) else {
        return;
    };
    let by = || PassedParameter::value(&5_i32);
    let layout = |image: Image| PassedParameter::value(&image.layout());
    let run = |parameters: Vec<PassedParameter>, length: usize| {
        let passed = Passed {
            blocks: [2, 3].into_iter().collect(),
            threads: [1, 1].into_iter().collect(),
            elements: [1, 1].into_iter().collect(),
            parameters: parameters.into(),
            ..Passed::default()
        };
        let mut from: Vec<u32> = (0..8).collect();
        let mut to = vec![9_u32; 8];
        let memories = [&mut from, &mut to].map(|memory| RawArgument {
            pointer: memory.as_mut_ptr().cast(),
            length,
        });
        let kernel = program.compile_for("add", &passed).unwrap();
        // SAFETY: the kernel reads and writes the images, which are looked at before; the memory is
        // this function's.
        let ran = unsafe { kernel.run_passed(&passed, &memories, 0..6) };
        ran.map(|()| to)
    };
    let good = || vec![memory(), layout(image()), by(), memory(), layout(image())];
    assert_eq!(run(good(), 32).unwrap(), [5, 6, 7, 9, 9, 10, 11, 9]);
    // The gap behind the last row is nobody's.
    assert!(run(good(), 28).is_ok());
    let refused = |parameters, length, because: &str| match run(parameters, length) {
        Err(ClcError::Launch(text)) => assert!(text.contains(because), "{text}"),
        other => panic!("{other:?}"),
    };
    refused(good(), 27, "ends with byte 28");
    let far = Image {
        row: 1 << 62,
        ..image()
    };
    let last = vec![memory(), layout(image()), by(), memory(), layout(far)];
    refused(last, 32, "ends with byte");
    for parameters in [
        vec![memory(), by(), memory(), layout(image())],
        vec![
            memory(),
            PassedParameter::value(&[0_u8; 47]),
            by(),
            memory(),
        ],
        vec![by(), layout(image()), by(), memory(), layout(image())],
        vec![memory(), layout(image()), by(), memory()],
        vec![memory()],
        vec![],
    ] {
        refused(parameters, 32, "takes an image as");
    }
    let mut many = good();
    many.push(by());
    refused(many, 32, "has 3 parameters, and 4 arguments");
}

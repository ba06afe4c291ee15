//! Kernels in OpenCL C, on devices of each driver that takes them.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu::prelude::*;

/// Calls a test with a context and a queue of each device.
type Each = fn(&dyn Fn(&Context, &Queue));

const TEXT: &str = "
kernel void scale(float a, global const float *x, global float *y, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + OFFSET;
}
kernel void swapped(global float *y, uint columns, uint rows) {
    uint column = get_global_id(0), row = get_global_id(1);
    if (column < columns && row < rows) y[row * columns + column] = 100 * row + column;
}
";

/// Kernels of a text run, with values, parts of buffers and options.
pub(crate) fn kernels_may_be_texts(each_queue: Each) {
    each_queue(&|context, queue| {
        let program = context.program(TEXT).options("-D OFFSET=0.5f");
        let scale = program.kernel("scale");
        let x = context.buffer(&[1.0f32, 2.0, 3.0]).unwrap();
        let y = context.allocate::<f32>(1000).unwrap();
        // These are its parameters, and it minds the length.
        let mut first = y.slice(..3).unwrap();
        // SAFETY: the arguments are of its parameters' types, and it minds the length.
        let call = unsafe { scale.call((2.0f32, &x, &mut first, 3u32)) };
        queue.launch(3, call).unwrap();
        let mut later = y.slice(512..).unwrap();
        // SAFETY: the arguments are of its parameters' types, and it minds the length.
        let call = unsafe { scale.call((10.0f32, &x, &mut later, 3u32)) };
        queue.launch(3, call).unwrap();
        let read = queue.read(&y).unwrap().wait().unwrap();
        assert_eq!(read[..4], [2.5, 4.5, 6.5, 0.0]);
        assert_eq!(read[512..516], [10.5, 20.5, 30.5, 0.0]);
        // SAFETY: nothing is launched.
        let call = unsafe { scale.call((2.0f32, &x, &mut first, 3u32)) };
        let told = queue.kernel_attributes::<1>(call).unwrap();
        assert!(told.max_block_threads >= 1, "{told:?}");
        let missing = program.kernel("missing");
        // SAFETY: as above.
        let call = unsafe { missing.call((&x,)) };
        let error = queue.kernel_attributes::<1>(call).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        let swapped = program.kernel("swapped");
        let mut z = context.allocate::<f32>(6).unwrap();
        // SAFETY: as above.
        let call = unsafe { swapped.call((&mut z, 3u32, 2u32)) };
        queue.launch([2, 3], call).unwrap();
        let z = queue.read(&z).unwrap().wait().unwrap();
        assert_eq!(z, [0.0, 1.0, 2.0, 100.0, 101.0, 102.0]);
    });
}

/// A kernel sees the numbers of a grid that is larger than a printed kernel is launched with.
pub(crate) fn a_text_sees_the_whole_of_its_grid(each_queue: Each) {
    const PLACES: &str = "
kernel void places(global ulong *x) {
    if (get_local_id(0) != 0) return;
    if (get_group_id(0) + 1 == get_num_groups(0)) {
        x[0] = get_group_id(0);
        x[1] = get_global_size(0) / get_local_size(0);
        x[2] = get_work_dim();
    }
}
";
    each_queue(&|context, queue| {
        let places = context.program(PLACES).kernel("places");
        let mut x = context.allocate::<u64>(3).unwrap();
        // More blocks than a call launches of a printed kernel.
        let blocks = (1 << 20) + 3;
        let division = WorkDivision::new(blocks, 1, 1);
        // SAFETY: this is its parameter, and it has three elements.
        queue
            .launch(division, unsafe { places.call((&mut x,)) })
            .unwrap();
        let x = queue.read(&x).unwrap().wait().unwrap();
        assert_eq!(x, [blocks as u64 - 1, blocks as u64, 1]);
    });
}

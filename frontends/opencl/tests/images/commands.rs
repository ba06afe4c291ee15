//! Commands that write, fill, copy, map and read regions, in random order against a model.

use super::{Random, format, image, read};
use crate::support::*;
use opencl_sys::*;
use std::ptr::{null, null_mut};

const KINDS: [(cl_mem_object_type, [usize; 3]); 5] = [
    (CL_MEM_OBJECT_IMAGE1D, [17, 1, 1]),
    (CL_MEM_OBJECT_IMAGE1D_ARRAY, [9, 6, 1]),
    (CL_MEM_OBJECT_IMAGE2D, [9, 7, 1]),
    (CL_MEM_OBJECT_IMAGE2D_ARRAY, [5, 4, 3]),
    (CL_MEM_OBJECT_IMAGE3D, [5, 4, 3]),
];

/// The places of a region in an image without gaps, in order.
fn places(extents: [usize; 3], origin: [usize; 3], region: [usize; 3]) -> Vec<usize> {
    let mut all = Vec::new();
    for z in origin[2]..origin[2] + region[2] {
        for y in origin[1]..origin[1] + region[1] {
            for x in origin[0]..origin[0] + region[0] {
                all.push((z * extents[1] + y) * extents[0] + x);
            }
        }
    }
    all
}

#[test]
fn commands_move_what_a_model_moves() {
    let setup = Setup::new();
    let mut random = Random(0x1234_5678_9abc_def1);
    let of = format(CL_RGBA, CL_UNSIGNED_INT8);
    for (kind, extents) in KINDS {
        let count: usize = extents.iter().product();
        let bytes = random.bytes(count * 4);
        let texels = |bytes: &[u8]| -> Vec<[u8; 4]> {
            bytes
                .chunks(4)
                .map(|texel| texel.try_into().unwrap())
                .collect()
        };
        let handles = [0, 1].map(|_| image(&setup, of, kind, extents, &bytes));
        let buffer = setup.buffer(&bytes);
        let mut models = [texels(&bytes), texels(&bytes)];
        let mut buffered = texels(&bytes);
        for step in 0..300 {
            let origin = extents.map(|extent| random.below(extent));
            let mut region = [0; 3];
            for axis in 0..3 {
                region[axis] = 1 + random.below(extents[axis] - origin[axis]);
            }
            let area = places(extents, origin, region);
            let which = random.below(2);
            let (handle, queue) = (handles[which], setup.queue);
            let new = random.bytes(area.len() * 4);
            let offset = random.below(count - area.len() + 1);
            // SAFETY: three numbers each, and as many bytes as the region has.
            unsafe {
                match step % 7 {
                    0 => {
                        ok(clEnqueueWriteImage()(
                            queue,
                            handle,
                            CL_TRUE,
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            0,
                            new.as_ptr().cast(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (place, texel) in area.iter().zip(texels(&new)) {
                            models[which][*place] = texel;
                        }
                    }
                    1 => {
                        let colour = [0, 0, 0, 0].map(|_: i32| random.below(256) as u32);
                        ok(clEnqueueFillImage()(
                            queue,
                            handle,
                            colour.as_ptr().cast(),
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for place in &area {
                            models[which][*place] = colour.map(|channel| channel as u8);
                        }
                    }
                    2 => {
                        let to: [usize; 3] = std::array::from_fn(|axis| {
                            random.below(extents[axis] - region[axis] + 1)
                        });
                        ok(clEnqueueCopyImage()(
                            queue,
                            handle,
                            handles[1 - which],
                            origin.as_ptr(),
                            to.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (from, to) in area.iter().zip(places(extents, to, region)) {
                            models[1 - which][to] = models[which][*from];
                        }
                    }
                    3 => {
                        ok(clEnqueueCopyImageToBuffer()(
                            queue,
                            handle,
                            buffer,
                            origin.as_ptr(),
                            region.as_ptr(),
                            offset * 4,
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (at, place) in area.iter().enumerate() {
                            buffered[offset + at] = models[which][*place];
                        }
                    }
                    4 => {
                        ok(clEnqueueCopyBufferToImage()(
                            queue,
                            buffer,
                            handle,
                            offset * 4,
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (at, place) in area.iter().enumerate() {
                            models[which][*place] = buffered[offset + at];
                        }
                    }
                    5 => {
                        let (mut row, mut slice) = (0, 0);
                        let first = made(|code| {
                            clEnqueueMapImage()(
                                queue,
                                handle,
                                CL_TRUE,
                                CL_MAP_READ | CL_MAP_WRITE,
                                origin.as_ptr(),
                                region.as_ptr(),
                                &raw mut row,
                                &raw mut slice,
                                0,
                                null(),
                                null_mut(),
                                code,
                            )
                        });
                        // Layers of an array of one dimension are slices.
                        let rows = if kind == CL_MEM_OBJECT_IMAGE1D_ARRAY {
                            slice
                        } else {
                            row
                        };
                        let mut news = texels(&new).into_iter();
                        let mut areas = area.iter();
                        for z in 0..region[2] {
                            for y in 0..region[1] {
                                for x in 0..region[0] {
                                    let at = first
                                        .cast::<u8>()
                                        .add(z * slice + y * rows + x * 4)
                                        .cast::<[u8; 4]>();
                                    let place = areas.next().unwrap();
                                    assert_eq!(at.read(), models[which][*place]);
                                    let texel = news.next().unwrap();
                                    at.write(texel);
                                    models[which][*place] = texel;
                                }
                            }
                        }
                        ok(clEnqueueUnmapMemObject()(
                            queue,
                            handle,
                            first,
                            0,
                            null(),
                            null_mut(),
                        ));
                    }
                    _ => {
                        let mut got = vec![0; area.len() * 4];
                        read(&setup, handle, origin, region, &mut got);
                        let wanted: Vec<_> =
                            area.iter().map(|place| models[which][*place]).collect();
                        assert_eq!(texels(&got), wanted, "kind {kind:x}, step {step}");
                    }
                }
            }
        }
        for (handle, model) in handles.iter().zip(&models) {
            let mut got = vec![0; count * 4];
            read(&setup, *handle, [0; 3], extents, &mut got);
            assert_eq!(&texels(&got), model, "kind {kind:x}");
        }
        assert_eq!(
            texels(&setup.read::<u8>(buffer, count * 4)),
            buffered,
            "kind {kind:x}"
        );
    }
}

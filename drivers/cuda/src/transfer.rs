//! Transfers: their parts, and the call of each.

use crate::device::Lane;
use crate::forward::{Bytes, Work, address};
use crate::native::{Called, Stream, named};
use cudarc::driver::sys::{self, CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype};
use quipu_device_queue::region::Part;
use quipu_scheduler::Error;
use quipu_scheduler::operation::{Endpoint, Transfer};
use std::ffi::c_void;

/// One side of a transfer.
pub(crate) enum Side<'a> {
    Host(*mut u8),
    Device(Bytes<'a>),
}

/// A transfer's source and destination.
pub(crate) fn sides<'a>(
    work: &Work<'a>,
    transfer: &Transfer,
) -> std::result::Result<(Side<'a>, Side<'a>), Error> {
    let side = |endpoint: &Endpoint| -> std::result::Result<_, Error> {
        Ok(match endpoint {
            Endpoint::Host(memory) => Side::Host(memory.pointer()),
            Endpoint::Argument(index) => {
                Side::Device(work.bytes(&work.command().arguments()[*index])?)
            }
        })
    };
    Ok((side(&transfer.source)?, side(&transfer.destination)?))
}

/// The lane of a transfer, by its direction.
pub(crate) fn lane_of(transfer: &Transfer) -> Lane {
    match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(_), _) => Lane::Upload,
        (_, Endpoint::Host(_)) => Lane::Download,
        _ => Lane::Compute,
    }
}

/// Moves a part of a transfer's region: a row, or rows of rows. A side that is the host's is read,
/// or written, before this returns or when its turn has come, as CUDA pleases.
pub(crate) fn put_part(
    stream: &Stream,
    source: &Side<'_>,
    destination: &Side<'_>,
    part: &Part,
) -> Called<()> {
    let (from_type, from_host, from_device) = match source {
        Side::Host(from) => (
            CUmemorytype::CU_MEMORYTYPE_HOST,
            from.wrapping_add(part.source as usize).cast_const().cast(),
            0,
        ),
        Side::Device(from) => (
            CUmemorytype::CU_MEMORYTYPE_DEVICE,
            std::ptr::null(),
            address(from) + part.source,
        ),
    };
    let (to_type, to_host, to_device) = match destination {
        Side::Host(to) => (
            CUmemorytype::CU_MEMORYTYPE_HOST,
            to.wrapping_add(part.destination as usize).cast(),
            0,
        ),
        Side::Device(to) => (
            CUmemorytype::CU_MEMORYTYPE_DEVICE,
            std::ptr::null_mut(),
            address(to) + part.destination,
        ),
    };
    if part.is_linear()
        && let (Side::Device(_), Side::Device(_)) = (source, destination)
    {
        // SAFETY: both ranges lie within the region, which the core has checked against both sides.
        let code = unsafe {
            sys::cuMemcpyDtoDAsync_v2(to_device, from_device, part.row as usize, stream.raw())
        };
        return named("cuMemcpyDtoDAsync", code);
    }
    let copy = region(
        part,
        (from_type, from_host, from_device),
        (to_type, to_host, to_device),
    );
    // SAFETY: the region lies within both sides, which are the command's.
    named("cuMemcpy3DAsync", unsafe {
        sys::cuMemcpy3DAsync_v2(&raw const copy, stream.raw())
    })
}

/// The call for a part of a transfer's region, with the memory and the place on each side, on the
/// host or on a device.
pub(crate) fn region(
    part: &Part,
    (from_type, from_host, from_device): (CUmemorytype, *const c_void, CUdeviceptr),
    (to_type, to_host, to_device): (CUmemorytype, *mut c_void, CUdeviceptr),
) -> CUDA_MEMCPY3D {
    let [row, rows, layers] = part.region();
    let rows_between = |pitch: [usize; 2]| match pitch {
        [_, 0] => rows,
        [pitch, layer] => layer / pitch,
    };
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from_type,
        srcHost: from_host,
        srcDevice: from_device,
        srcArray: std::ptr::null_mut(),
        reserved0: std::ptr::null_mut(),
        srcPitch: part.source_pitch[0].max(row),
        srcHeight: rows_between(part.source_pitch),
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to_type,
        dstHost: to_host,
        dstDevice: to_device,
        dstArray: std::ptr::null_mut(),
        reserved1: std::ptr::null_mut(),
        dstPitch: part.destination_pitch[0].max(row),
        dstHeight: rows_between(part.destination_pitch),
        WidthInBytes: row,
        Height: rows,
        Depth: layers,
    }
}

//! Images: memory as buffers are, with texels in rows and slices.
//!
//! An image's storage is one of the core's buffers. So hazards, moves between devices and events
//! are those of buffers. Rows and slices follow each other with the pitches of the program's own
//! memory, where it gives some, and without gaps elsewhere. Layers of an array lie as slices do,
//! also those of an array of one dimension.

mod format;

pub(crate) use format::Format;

use crate::code::{Code, Result, create, ensure, entry, fail};
use crate::context::{Context, pairs};
use crate::handle::Ref;
use crate::info::Answer;
use crate::memory::{HOST_POINTER, Memory, Parts, flags, inherited, storage};
use opencl_sys::*;
use std::ffi::c_void;

/// The most texels along an axis of an image of one or two dimensions, and layers of an array.
pub(crate) const MOST: usize = 16384;
/// The most texels along an axis of an image of three dimensions, and layers of an array.
pub(crate) const MOST_DEPTH: usize = 2048;
/// The most texels of an image over a buffer.
pub(crate) const MOST_OF_BUFFER: usize = 1 << 27;
/// Texels that the pitch of an image over a buffer is a multiple of.
pub(crate) const PITCH_ALIGNMENT: cl_uint = 1;

/// The properties that make memory an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) kind: cl_mem_object_type,
    pub(crate) format: Format,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    pub(crate) layers: u64,
    /// Bytes from row to row.
    pub(crate) row: u64,
    /// Bytes from slice to slice, or layer to layer.
    pub(crate) slice: u64,
}

impl Image {
    /// Bytes of a texel.
    pub(crate) fn texel(&self) -> u64 {
        u64::from(self.format.bytes())
    }

    /// True if it has layers.
    pub(crate) fn is_array(&self) -> bool {
        matches!(
            self.kind,
            CL_MEM_OBJECT_IMAGE1D_ARRAY | CL_MEM_OBJECT_IMAGE2D_ARRAY
        )
    }

    /// Texels along x, y, and z or through layers.
    pub(crate) fn extents(&self) -> [u64; 3] {
        [self.width, self.height, self.depth * self.layers]
    }

    /// A place or size as programs say it, with layers where they lie: along z. `one` stands for an
    /// axis that the image does not have.
    pub(crate) fn axes(&self, [x, y, z]: [u64; 3], one: u64) -> Result<[u64; 3]> {
        match self.kind {
            CL_MEM_OBJECT_IMAGE1D_ARRAY => {
                ensure(z == one, CL_INVALID_VALUE)?;
                Ok([x, one, y])
            }
            _ => Ok([x, y, z]),
        }
    }

    /// A kernel's argument for it, but for its address.
    pub(crate) fn passed(&self) -> quipu_clc::Image {
        quipu_clc::Image {
            texels: std::ptr::null_mut(),
            width: self.width as u32,
            height: self.height as u32,
            depth: self.depth as u32,
            layers: self.layers as u32,
            row: self.row,
            slice: self.slice,
            order: self.format.order,
            data: self.format.data,
            channels: self.format.channels(),
            bytes: self.format.bytes(),
        }
    }

    /// True if a parameter of a kernel may have it, by the parameter's type as the text has it.
    pub(crate) fn fits(&self, type_name: &str) -> bool {
        let is_depth = self.format.order == CL_DEPTH;
        let (kind, wants_depth) = match type_name {
            "image1d_t" => (CL_MEM_OBJECT_IMAGE1D, false),
            "image1d_array_t" => (CL_MEM_OBJECT_IMAGE1D_ARRAY, false),
            "image1d_buffer_t" => (CL_MEM_OBJECT_IMAGE1D_BUFFER, false),
            "image2d_t" => (CL_MEM_OBJECT_IMAGE2D, false),
            "image2d_array_t" => (CL_MEM_OBJECT_IMAGE2D_ARRAY, false),
            "image2d_depth_t" => (CL_MEM_OBJECT_IMAGE2D, true),
            "image2d_array_depth_t" => (CL_MEM_OBJECT_IMAGE2D_ARRAY, true),
            "image3d_t" => (CL_MEM_OBJECT_IMAGE3D, false),
            // A name that the text has given it. What is passed says all that reads and writes go
            // by.
            _ => return true,
        };
        kind == self.kind && wants_depth == is_depth
    }

    fn new(format: Format, desc: &cl_image_desc, has_pointer: bool) -> Result<Self> {
        let size = |size: usize, most: usize| -> Result<u64> {
            ensure(size != 0, CL_INVALID_IMAGE_SIZE)?;
            ensure(size <= most, CL_INVALID_IMAGE_SIZE)?;
            Ok(size as u64)
        };
        let kind = desc.image_type;
        let along = match kind {
            CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_ARRAY => [MOST, 0, 0],
            CL_MEM_OBJECT_IMAGE1D_BUFFER => [MOST_OF_BUFFER, 0, 0],
            CL_MEM_OBJECT_IMAGE2D | CL_MEM_OBJECT_IMAGE2D_ARRAY => [MOST, MOST, 0],
            CL_MEM_OBJECT_IMAGE3D => [MOST_DEPTH; 3],
            _ => return fail(CL_INVALID_IMAGE_DESCRIPTOR),
        };
        ensure(
            desc.num_mip_levels == 0 && desc.num_samples == 0,
            CL_INVALID_IMAGE_DESCRIPTOR,
        )?;
        let axis = |said, most| if most == 0 { Ok(1) } else { size(said, most) };
        let mut image = Self {
            kind,
            format,
            width: axis(desc.image_width, along[0])?,
            height: axis(desc.image_height, along[1])?,
            depth: axis(desc.image_depth, along[2])?,
            layers: 1,
            row: 0,
            slice: 0,
        };
        if image.is_array() {
            image.layers = size(desc.image_array_size, MOST_DEPTH)?;
        }
        let (row, slice) = (desc.image_row_pitch as u64, desc.image_slice_pitch as u64);
        ensure(
            has_pointer || row == 0 && slice == 0,
            CL_INVALID_IMAGE_DESCRIPTOR,
        )?;
        let least = image.width * image.texel();
        image.row = if row == 0 { least } else { row };
        ensure(
            image.row >= least && image.row.is_multiple_of(image.texel()),
            CL_INVALID_IMAGE_DESCRIPTOR,
        )?;
        let least = image.row.checked_mul(image.height);
        let least = least.ok_or(Code(CL_INVALID_IMAGE_DESCRIPTOR))?;
        let has_slices = image.is_array() || kind == CL_MEM_OBJECT_IMAGE3D;
        image.slice = if slice == 0 || !has_slices {
            least
        } else {
            slice
        };
        ensure(
            image.slice >= least && image.slice.is_multiple_of(image.row),
            CL_INVALID_IMAGE_DESCRIPTOR,
        )?;
        Ok(image)
    }

    fn size(&self) -> Result<u64> {
        let slices = self.depth * self.layers;
        self.slice
            .checked_mul(slices)
            .ok_or(Code(CL_INVALID_IMAGE_SIZE))
    }
}

fn make(
    context: cl_context,
    properties: Vec<cl_mem_properties>,
    said: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    pointer: *mut c_void,
) -> Result<*mut c_void> {
    let context = Ref::<Context>::of(context)?;
    let own = flags(said)?;
    ensure(!format.is_null(), CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)?;
    // SAFETY: the program passes a format.
    let format = Format::new(unsafe { format.read_unaligned() })?;
    ensure(!desc.is_null(), CL_INVALID_IMAGE_DESCRIPTOR)?;
    // SAFETY: the program passes a description.
    let desc = unsafe { desc.read_unaligned() };
    ensure(context.has_images(), CL_INVALID_OPERATION)?;
    if !desc.buffer.is_null() {
        return over(context, properties, said, format, desc, pointer);
    }
    ensure(
        desc.image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER,
        CL_INVALID_IMAGE_DESCRIPTOR,
    )?;
    let takes_pointer = own & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    let image = Image::new(format, &desc, !pointer.is_null())?;
    let size = image.size()?;
    let most = context.devices.iter();
    let most = most.map(|device| device.largest_buffer());
    ensure(
        most.max().is_some_and(|most| size <= most),
        CL_INVALID_IMAGE_SIZE,
    )?;
    ensure(takes_pointer != pointer.is_null(), CL_INVALID_HOST_PTR)?;
    ensure(
        Format::all(image.kind, own).contains(&format),
        CL_IMAGE_FORMAT_NOT_SUPPORTED,
    )?;
    let core = storage(&context, own, size, pointer)?;
    Memory::create(Parts {
        core,
        offset: 0,
        size,
        flags: own,
        host_pointer: match own & CL_MEM_USE_HOST_PTR {
            0 => std::ptr::null_mut(),
            _ => pointer,
        },
        address: None,
        parent: None,
        properties,
        image: Some(image),
        context,
    })
}

/// An image over a buffer's memory, or over another image's.
fn over(
    context: Ref<Context>,
    properties: Vec<cl_mem_properties>,
    said: cl_mem_flags,
    format: Format,
    desc: cl_image_desc,
    pointer: *mut c_void,
) -> Result<*mut c_void> {
    let parent = Ref::<Memory>::of(desc.buffer);
    let parent = parent.map_err(|_| Code(CL_INVALID_IMAGE_DESCRIPTOR))?;
    ensure(parent.context.is(&context), CL_INVALID_CONTEXT)?;
    ensure(
        matches!(
            desc.image_type,
            CL_MEM_OBJECT_IMAGE1D_BUFFER | CL_MEM_OBJECT_IMAGE2D
        ),
        CL_INVALID_IMAGE_DESCRIPTOR,
    )?;
    ensure(said & HOST_POINTER == 0, CL_INVALID_VALUE)?;
    ensure(pointer.is_null(), CL_INVALID_HOST_PTR)?;
    let flags = inherited(&parent, said)?;
    let mut image = Image::new(format, &desc, true)?;
    let of_buffer = parent.image.is_none();
    match &parent.image {
        None => {
            // The last row ends with its last texel.
            let end = image.row * (image.height - 1) + image.width * image.texel();
            ensure(
                end <= parent.size,
                match image.kind {
                    CL_MEM_OBJECT_IMAGE2D => CL_INVALID_IMAGE_DESCRIPTOR,
                    _ => CL_INVALID_IMAGE_SIZE,
                },
            )?;
        }
        Some(of) => {
            ensure(
                of.kind == CL_MEM_OBJECT_IMAGE2D
                    && image.kind == CL_MEM_OBJECT_IMAGE2D
                    && [of.width, of.height] == [image.width, image.height],
                CL_INVALID_IMAGE_DESCRIPTOR,
            )?;
            ensure(
                of.format.may_be_read_as(format) && of.format != format,
                CL_INVALID_IMAGE_FORMAT_DESCRIPTOR,
            )?;
            (image.row, image.slice) = (of.row, of.slice);
        }
    }
    ensure(
        Format::all(image.kind, flags).contains(&format),
        CL_IMAGE_FORMAT_NOT_SUPPORTED,
    )?;
    let size = image.size()?.min(parent.size);
    debug_assert!(of_buffer || size <= parent.size);
    Memory::create(Parts {
        context,
        core: parent.core.clone(),
        offset: parent.offset,
        size,
        flags,
        host_pointer: parent.host_pointer,
        image: Some(image),
        address: None,
        parent: Some(parent),
        properties,
    })
}

#[unsafe(export_name = "clCreateImage")]
pub(crate) unsafe extern "C" fn create_image(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let body = || make(context, Vec::new(), flags, format, desc, pointer);
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateImageWithProperties")]
pub(crate) unsafe extern "C" fn create_image_with_properties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    desc: *const cl_image_desc,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let body = || {
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        ensure(pairs.is_empty(), CL_INVALID_PROPERTY)?;
        make(context, said, flags, format, desc, pointer)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

/// A description of an image with nothing said.
fn described(kind: cl_mem_object_type) -> cl_image_desc {
    cl_image_desc {
        image_type: kind,
        image_width: 0,
        image_height: 0,
        image_depth: 0,
        image_array_size: 0,
        image_row_pitch: 0,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer: std::ptr::null_mut(),
    }
}

/// The code for what older functions take as arguments of their own, and newer ones in a
/// description.
fn of_arguments(made: Result<*mut c_void>) -> Result<*mut c_void> {
    made.map_err(|code| match code {
        Code(CL_INVALID_IMAGE_DESCRIPTOR) => Code(CL_INVALID_IMAGE_SIZE),
        other => other,
    })
}

#[unsafe(export_name = "clCreateImage2D")]
pub(crate) unsafe extern "C" fn create_image_2d(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    row_pitch: usize,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let desc = cl_image_desc {
        image_width: width,
        image_height: height,
        image_row_pitch: row_pitch,
        ..described(CL_MEM_OBJECT_IMAGE2D)
    };
    let body = || of_arguments(make(context, Vec::new(), flags, format, &desc, pointer));
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateImage3D")]
pub(crate) unsafe extern "C" fn create_image_3d(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    depth: usize,
    row_pitch: usize,
    slice_pitch: usize,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let desc = cl_image_desc {
        image_width: width,
        image_height: height,
        image_depth: depth,
        image_row_pitch: row_pitch,
        image_slice_pitch: slice_pitch,
        ..described(CL_MEM_OBJECT_IMAGE3D)
    };
    let body = || of_arguments(make(context, Vec::new(), flags, format, &desc, pointer));
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clGetSupportedImageFormats")]
pub(crate) unsafe extern "C" fn get_supported_image_formats(
    context: cl_context,
    said: cl_mem_flags,
    kind: cl_mem_object_type,
    entries: cl_uint,
    formats: *mut cl_image_format,
    count: *mut cl_uint,
) -> cl_int {
    entry(|| {
        let context = Ref::<Context>::of(context)?;
        flags(said & !CL_MEM_KERNEL_READ_AND_WRITE)?;
        ensure(
            matches!(
                kind,
                CL_MEM_OBJECT_IMAGE1D
                    | CL_MEM_OBJECT_IMAGE1D_ARRAY
                    | CL_MEM_OBJECT_IMAGE1D_BUFFER
                    | CL_MEM_OBJECT_IMAGE2D
                    | CL_MEM_OBJECT_IMAGE2D_ARRAY
                    | CL_MEM_OBJECT_IMAGE3D
            ),
            CL_INVALID_VALUE,
        )?;
        ensure(entries != 0 || formats.is_null(), CL_INVALID_VALUE)?;
        let all = match context.has_images() {
            true if said == 0 => Format::all(kind, CL_MEM_READ_WRITE),
            true => Format::all(kind, said),
            false => Vec::new(),
        };
        if !count.is_null() {
            // SAFETY: the program passes where the number goes.
            unsafe { count.write(all.len() as cl_uint) };
        }
        if formats.is_null() {
            return Ok(());
        }
        for (index, format) in all.into_iter().enumerate().take(entries as usize) {
            // SAFETY: the program passes room for so many.
            unsafe { formats.add(index).write(format.said()) };
        }
        Ok(())
    })
}

#[unsafe(export_name = "clGetImageInfo")]
pub(crate) unsafe extern "C" fn get_image_info(
    memory: cl_mem,
    name: cl_image_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let memory = Ref::<Memory>::of(memory)?;
        let image = memory.image.ok_or(Code(CL_INVALID_MEM_OBJECT))?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let has = |has: bool, extent: u64| if has { extent as usize } else { 0 };
        let is_volume = image.kind == CL_MEM_OBJECT_IMAGE3D;
        let has_height = matches!(
            image.kind,
            CL_MEM_OBJECT_IMAGE2D | CL_MEM_OBJECT_IMAGE2D_ARRAY | CL_MEM_OBJECT_IMAGE3D
        );
        match name {
            CL_IMAGE_FORMAT => answer.value(image.format.said()),
            CL_IMAGE_ELEMENT_SIZE => answer.value(image.texel() as usize),
            CL_IMAGE_ROW_PITCH => answer.value(image.row as usize),
            CL_IMAGE_SLICE_PITCH => answer.value(has(is_volume || image.is_array(), image.slice)),
            CL_IMAGE_WIDTH => answer.value(image.width as usize),
            CL_IMAGE_HEIGHT => answer.value(has(has_height, image.height)),
            CL_IMAGE_DEPTH => answer.value(has(is_volume, image.depth)),
            CL_IMAGE_ARRAY_SIZE => answer.value(has(image.is_array(), image.layers)),
            CL_IMAGE_BUFFER => answer.value(match &memory.parent {
                Some(parent) if parent.image.is_none() => parent.handle(),
                _ => std::ptr::null_mut(),
            }),
            CL_IMAGE_NUM_MIP_LEVELS | CL_IMAGE_NUM_SAMPLES => answer.value::<cl_uint>(0),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

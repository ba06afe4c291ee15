//! Memory objects: buffers, parts of buffers, and the common part of buffers and images.

use crate::address::is_asked_for;
use crate::code::{Code, Result, create, ensure, entry, fail};
use crate::context::{Callbacks, Context, pairs};
use crate::handle::{Ref, object, release, retain};
use crate::image::Image;
use crate::info::Answer;
use crate::mapped::Mapped;
use opencl_sys::*;
use quipu_scheduler::{Access, AccessMode, MemoryRef};
use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

pub(crate) struct Memory {
    pub(crate) context: Ref<Context>,
    pub(crate) core: MemoryRef,
    /// Its first byte in that.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    flags: cl_mem_flags,
    pub(crate) host_pointer: *mut c_void,
    /// The address at which devices have it, if the program may know.
    address: Option<usize>,
    pub(crate) parent: Option<Ref<Memory>>,
    /// As the program said them.
    properties: Vec<cl_mem_properties>,
    /// The properties of an image, if it is one.
    pub(crate) image: Option<Image>,
    pub(crate) mapped: Mapped,
    callbacks: Callbacks,
    /// The buffer whose first eight bytes hold the number of this one's bytes in use, where copies
    /// look at it.
    content_size: Mutex<Option<MemoryRef>>,
}

object!(Memory, CL_INVALID_MEM_OBJECT);

// SAFETY: the pointer is the program's own, and is only shown to it.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

const ACCESS: cl_mem_flags = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
pub(crate) const HOST_POINTER: cl_mem_flags =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
const HOST_ACCESS: cl_mem_flags =
    CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS;

/// Memory of our own that a buffer is in.
struct Owned {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: nobody else has the memory.
unsafe impl Send for Owned {}
// SAFETY: it is reached through the buffer alone.
unsafe impl Sync for Owned {}

impl Owned {
    /// So many bytes, which are made by a function of their layout.
    fn made(length: usize, make: unsafe fn(Layout) -> *mut u8) -> Result<Self> {
        let out_of_memory = Code(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        let layout = Layout::from_size_align(length, 4096).map_err(|_| out_of_memory)?;
        // SAFETY: the layout has a size: no buffer has none.
        let pointer = NonNull::new(unsafe { make(layout) }).ok_or(out_of_memory)?;
        Ok(Self { pointer, layout })
    }

    /// So many zeros.
    fn zeros(length: usize) -> Result<Self> {
        Self::made(length, std::alloc::alloc_zeroed)
    }

    /// A copy of so many bytes.
    ///
    /// # Safety
    /// They are valid for reads.
    unsafe fn copy_of(bytes: *const u8, length: usize) -> Result<Self> {
        let owned = Self::made(length, std::alloc::alloc)?;
        // SAFETY: as the caller promises; the memory was just allocated with this length.
        unsafe {
            owned
                .pointer
                .as_ptr()
                .copy_from_nonoverlapping(bytes, length)
        };
        Ok(owned)
    }

    /// An object in it.
    fn into_memory(self, context: &Context) -> Result<MemoryRef> {
        let (pointer, bytes) = (self.pointer, self.layout.size() as u64);
        // SAFETY: the memory is `self`'s, which lives as long as the object, and nobody else has
        // it.
        Ok(unsafe { context.core.memory_over(pointer, bytes, Box::new(self)) }?)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

impl Drop for Memory {
    /// The program's functions are called once no command uses the memory any more.
    fn drop(&mut self) {
        if self.callbacks.is_empty() {
            return;
        }
        let callbacks = std::mem::take(&mut self.callbacks);
        // In this order: until the object is gone, its bytes may be written back to the program's
        // memory.
        let held = (self.core.clone(), callbacks);
        self.context.core.drop_after_users(&self.core, held);
    }
}

/// The parts that memory is made of.
pub(crate) struct Parts {
    pub(crate) context: Ref<Context>,
    pub(crate) core: MemoryRef,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) flags: cl_mem_flags,
    pub(crate) host_pointer: *mut c_void,
    pub(crate) address: Option<usize>,
    pub(crate) parent: Option<Ref<Memory>>,
    pub(crate) properties: Vec<cl_mem_properties>,
    pub(crate) image: Option<Image>,
}

impl Memory {
    /// A new object, for the program.
    pub(crate) fn create(of: Parts) -> Result<*mut c_void> {
        let memory = Ref::new(Self {
            context: of.context,
            core: of.core,
            offset: of.offset,
            size: of.size,
            flags: of.flags,
            host_pointer: of.host_pointer,
            address: of.address,
            parent: of.parent,
            properties: of.properties,
            image: of.image,
            mapped: Mapped::default(),
            callbacks: Callbacks::default(),
            content_size: Mutex::default(),
        })?;
        Ok(memory.give())
    }

    /// The buffer that has its content size, which lies in the first eight bytes, where copies look
    /// at it.
    pub(crate) fn content_size(&self) -> Option<MemoryRef> {
        let size = self.content_size.lock();
        size.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_content_size(&self, size: MemoryRef) {
        let old = {
            let place = self.content_size.lock();
            place.unwrap_or_else(PoisonError::into_inner).replace(size)
        };
        // It may be the last handle: dropped with nothing locked.
        drop(old);
    }

    /// An access of so many of its bytes.
    pub(crate) fn access(&self, offset: u64, length: u64, mode: AccessMode) -> Access<'_> {
        Access {
            memory: &self.core,
            offset: self.offset + offset,
            length,
            mode,
        }
    }

    /// An access of all of it.
    pub(crate) fn whole(&self, mode: AccessMode) -> Access<'_> {
        self.access(0, self.size, mode)
    }

    /// True if so many bytes from a first one on lie within it.
    pub(crate) fn holds(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size)
    }

    /// True if the host may read it, by the flags that it was made with.
    pub(crate) fn is_readable(&self) -> bool {
        self.flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS) == 0
    }

    /// True if the host may write it, by the flags that it was made with.
    pub(crate) fn is_writable(&self) -> bool {
        self.flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS) == 0
    }

    /// True if kernels may only write it.
    pub(crate) fn is_write_only(&self) -> bool {
        self.flags & CL_MEM_WRITE_ONLY != 0
    }

    /// True if kernels may only read it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.flags & CL_MEM_READ_ONLY != 0
    }

    /// True if it is an image over a buffer or another image.
    fn is_image_over(&self) -> bool {
        self.image.is_some() && self.parent.is_some()
    }

    fn answer(&self, this: &Ref<Self>, name: cl_mem_info, answer: Answer) -> Result<()> {
        match name {
            CL_MEM_TYPE => answer.value(match &self.image {
                None => CL_MEM_OBJECT_BUFFER,
                Some(image) => image.kind,
            }),
            CL_MEM_FLAGS => answer.value(self.flags),
            CL_MEM_SIZE => answer.value(self.size as usize),
            // What an image over a buffer shares with it is the buffer's.
            CL_MEM_HOST_PTR | CL_MEM_OFFSET if self.is_image_over() => answer.value(0_usize),
            CL_MEM_HOST_PTR => answer.value(self.host_pointer),
            CL_MEM_MAP_COUNT => answer.value(self.mapped.count() as cl_uint),
            CL_MEM_REFERENCE_COUNT => answer.value(this.references()),
            CL_MEM_CONTEXT => answer.value(self.context.handle()),
            CL_MEM_ASSOCIATED_MEMOBJECT => answer.value(
                self.parent
                    .as_ref()
                    .map_or(std::ptr::null_mut(), Ref::handle),
            ),
            CL_MEM_OFFSET => answer.value(self.offset as usize),
            CL_MEM_USES_SVM_POINTER => answer.truth(self.context.shared.has(self.host_pointer)),
            CL_MEM_PROPERTIES => answer.slice(&self.properties),
            CL_MEM_DEVICE_ADDRESS_EXT => {
                let address = self.address.ok_or(Code(CL_INVALID_OPERATION))?;
                let each = self.context.devices.iter();
                let each: Vec<_> = each.map(|_| address as cl_mem_device_address_ext).collect();
                answer.slice(&each)
            }
            _ => fail(CL_INVALID_VALUE),
        }
    }
}

/// Flags with what is meant where nothing is said.
pub(crate) fn flags(said: cl_mem_flags) -> Result<cl_mem_flags> {
    let one_at_most = |of: cl_mem_flags| (said & of).count_ones() <= 1;
    let pointers = said & HOST_POINTER;
    ensure(
        said & !(ACCESS | HOST_POINTER | HOST_ACCESS) == 0
            && one_at_most(ACCESS)
            && one_at_most(HOST_ACCESS)
            && (pointers & CL_MEM_USE_HOST_PTR == 0 || pointers == CL_MEM_USE_HOST_PTR),
        CL_INVALID_VALUE,
    )?;
    Ok(if said & ACCESS == 0 {
        said | CL_MEM_READ_WRITE
    } else {
        said
    })
}

/// Memory of so many bytes, over what the program lends or with a copy of that.
pub(crate) fn storage(
    context: &Context,
    flags: cl_mem_flags,
    bytes: u64,
    pointer: *mut c_void,
) -> Result<MemoryRef> {
    Ok(match NonNull::new(pointer.cast::<u8>()) {
        None => context.core.memory(bytes)?,
        Some(pointer) if flags & CL_MEM_USE_HOST_PTR != 0 => {
            // SAFETY: the program lends the bytes for as long as the object lives, as
            // `CL_MEM_USE_HOST_PTR` says.
            unsafe { context.core.memory_over(pointer, bytes, Box::new(())) }?
        }
        Some(pointer) => {
            // SAFETY: the program passes so many bytes.
            unsafe { Owned::copy_of(pointer.as_ptr(), bytes as usize) }?.into_memory(context)?
        }
    })
}

/// As [`storage`], and where it is: for contexts whose devices all work in the host's memory.
fn storage_with_address(
    context: &Context,
    flags: cl_mem_flags,
    bytes: u64,
    pointer: *mut c_void,
) -> Result<(MemoryRef, usize)> {
    ensure(context.is_on_host, CL_INVALID_OPERATION)?;
    if flags & CL_MEM_USE_HOST_PTR != 0 {
        let core = storage(context, flags, bytes, pointer)?;
        return Ok((core, pointer.expose_provenance()));
    }
    let owned = match pointer.is_null() {
        true => Owned::zeros(bytes as usize)?,
        // SAFETY: the program passes so many bytes.
        false => unsafe { Owned::copy_of(pointer.cast(), bytes as usize) }?,
    };
    let address = owned.pointer.as_ptr().expose_provenance();
    Ok((owned.into_memory(context)?, address))
}

/// Flags of an object over a parent's memory: no part allows accesses that the parent does not
/// allow.
pub(crate) fn inherited(parent: &Memory, said: cl_mem_flags) -> Result<cl_mem_flags> {
    let own = flags(said)?;
    let inherit = |of: cl_mem_flags| match said & of {
        0 => parent.flags & of,
        own => own,
    };
    let restricts = |parents: cl_mem_flags, refused: cl_mem_flags| {
        parent.flags & parents == 0 || said & refused == 0
    };
    ensure(
        restricts(CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)
            && restricts(CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY)
            && restricts(CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY)
            && restricts(CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY)
            && restricts(
                CL_MEM_HOST_NO_ACCESS,
                CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY,
            ),
        CL_INVALID_VALUE,
    )?;
    debug_assert!(own & ACCESS != 0);
    Ok(inherit(ACCESS) | parent.flags & HOST_POINTER | inherit(HOST_ACCESS))
}

fn make(
    context: cl_context,
    said: cl_mem_flags,
    size: usize,
    pointer: *mut c_void,
    has_address: bool,
    properties: Vec<cl_mem_properties>,
) -> Result<*mut c_void> {
    let context = Ref::<Context>::of(context)?;
    let flags = flags(said)?;
    let most = context.devices.iter().map(|device| device.largest_buffer());
    ensure(
        size != 0 && most.max().is_some_and(|most| size as u64 <= most),
        CL_INVALID_BUFFER_SIZE,
    )?;
    let takes_pointer = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    ensure(takes_pointer != pointer.is_null(), CL_INVALID_HOST_PTR)?;
    // Shared memory that the buffer would be in has to hold all of it.
    let within = context.shared.bytes_from(pointer);
    ensure(
        flags & CL_MEM_USE_HOST_PTR == 0 || within.is_none_or(|within| size <= within),
        CL_INVALID_BUFFER_SIZE,
    )?;
    let bytes = size as u64;
    let (core, address) = match has_address {
        true => {
            let (core, address) = storage_with_address(&context, flags, bytes, pointer)?;
            (core, Some(address))
        }
        false => (storage(&context, flags, bytes, pointer)?, None),
    };
    let shown = match flags & CL_MEM_USE_HOST_PTR {
        0 => std::ptr::null_mut(),
        _ => pointer,
    };
    Memory::create(Parts {
        context,
        core,
        offset: 0,
        size: bytes,
        flags,
        host_pointer: shown,
        address,
        parent: None,
        properties,
        image: None,
    })
}

#[unsafe(export_name = "clCreateBuffer")]
pub(crate) unsafe extern "C" fn create_buffer(
    context: cl_context,
    flags: cl_mem_flags,
    size: usize,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    // SAFETY: the program passes where the code goes.
    unsafe {
        create(code, || {
            make(context, flags, size, pointer, false, Vec::new())
        })
    }
}

#[unsafe(export_name = "clCreateBufferWithProperties")]
pub(crate) unsafe extern "C" fn create_buffer_with_properties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    size: usize,
    pointer: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let body = || {
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        let has_address = is_asked_for(&pairs)?;
        make(context, flags, size, pointer, has_address, said)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateSubBuffer")]
pub(crate) unsafe extern "C" fn create_sub_buffer(
    buffer: cl_mem,
    said: cl_mem_flags,
    kind: cl_buffer_create_type,
    info: *const c_void,
    code: *mut cl_int,
) -> cl_mem {
    let body = || {
        let parent = Ref::<Memory>::of(buffer)?;
        ensure(
            parent.parent.is_none() && parent.image.is_none(),
            CL_INVALID_MEM_OBJECT,
        )?;
        ensure(
            kind == CL_BUFFER_CREATE_TYPE_REGION && !info.is_null() && said & HOST_POINTER == 0,
            CL_INVALID_VALUE,
        )?;
        let flags = inherited(&parent, said)?;
        // SAFETY: the program passes a region, as the type says.
        let region = unsafe { info.cast::<cl_buffer_region>().read_unaligned() };
        ensure(region.size != 0, CL_INVALID_BUFFER_SIZE)?;
        ensure(
            parent.holds(region.origin as u64, region.size as u64),
            CL_INVALID_VALUE,
        )?;
        // It is for those devices to which it can be passed.
        let mut devices = parent.context.devices.iter();
        let is_aligned = devices.any(|device| {
            let origin = region.origin as u64;
            origin.is_multiple_of(device.part_alignment())
        });
        ensure(is_aligned, CL_MISALIGNED_SUB_BUFFER_OFFSET)?;
        let host_pointer = match parent.host_pointer.is_null() {
            true => std::ptr::null_mut(),
            false => parent.host_pointer.wrapping_byte_add(region.origin),
        };
        Memory::create(Parts {
            context: parent.context.clone(),
            core: parent.core.clone(),
            offset: region.origin as u64,
            size: region.size as u64,
            flags,
            host_pointer,
            address: parent.address.map(|address| address + region.origin),
            parent: Some(parent),
            properties: Vec::new(),
            image: None,
        })
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainMemObject")]
pub(crate) unsafe extern "C" fn retain_mem_object(memory: cl_mem) -> cl_int {
    entry(|| retain::<Memory>(memory))
}

#[unsafe(export_name = "clReleaseMemObject")]
pub(crate) unsafe extern "C" fn release_mem_object(memory: cl_mem) -> cl_int {
    entry(|| release::<Memory>(memory))
}

#[unsafe(export_name = "clGetMemObjectInfo")]
pub(crate) unsafe extern "C" fn get_mem_object_info(
    memory: cl_mem,
    name: cl_mem_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let memory = Ref::<Memory>::of(memory)?;
        // SAFETY: the program passes what it wants the answer in.
        memory.answer(&memory, name, unsafe { Answer::new(size, value, size_ret) })
    })
}

#[unsafe(export_name = "clSetMemObjectDestructorCallback")]
pub(crate) unsafe extern "C" fn set_mem_object_destructor_callback(
    memory: cl_mem,
    call: Option<unsafe extern "C" fn(cl_mem, *mut c_void)>,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        let object = Ref::<Memory>::of(memory)?;
        let call = call.ok_or(Code(CL_INVALID_VALUE))?;
        object.callbacks.add(call, memory, data);
        Ok(())
    })
}

//! Content sizes (`cl_pocl_content_size`): numbers of bytes in use of a buffer, which kernels write
//! into another buffer.

use crate::code::{ensure, entry};
use crate::handle::Ref;
use crate::memory::Memory;
use opencl_sys::*;

pub(crate) unsafe extern "C" fn set_content_size_buffer(buffer: cl_mem, size: cl_mem) -> cl_int {
    entry(|| {
        let (buffer, size) = (Ref::<Memory>::of(buffer), Ref::<Memory>::of(size));
        let (buffer, size) = (buffer?, size?);
        ensure(buffer.context.is(&size.context), CL_INVALID_CONTEXT)?;
        let is_buffer = |memory: &Memory| memory.image.is_none();
        ensure(is_buffer(&buffer) && is_buffer(&size), CL_INVALID_VALUE)?;
        ensure(
            size.size >= size_of::<cl_ulong>() as u64 && !buffer.is(&size),
            CL_INVALID_VALUE,
        )?;
        // Such numbers are the first bytes of whole objects, and for whole objects; of parts all
        // counts.
        if buffer.parent.is_some() || size.parent.is_some() {
            return Ok(());
        }
        if buffer.context.is_on_host {
            // Nothing is brought anywhere, but copied.
            buffer.set_content_size(size.core.clone());
            return Ok(());
        }
        Ok(buffer.core.set_content_size(Some(size.core.clone()))?)
    })
}

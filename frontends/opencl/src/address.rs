//! Buffers whose addresses programs know (`cl_ext_buffer_device_address`), where all devices work
//! in the host's memory.
//!
//! Such a buffer lies in one place, and every device of its context has it there. A kernel's
//! accesses by an address are not tracked: see [`svm`](crate::svm).

use crate::code::{Code, Result, ensure, entry, fail};
use crate::handle::Ref;
use crate::kernel::Kernel;
use opencl_sys::*;

/// True if a list of properties asks for a buffer with an address.
pub(crate) fn is_asked_for(pairs: &[(cl_mem_properties, cl_mem_properties)]) -> Result<bool> {
    match *pairs {
        [] => Ok(false),
        [(CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT, value)] if value <= 1 => Ok(value == 1),
        _ => fail(CL_INVALID_PROPERTY),
    }
}

pub(crate) unsafe extern "C" fn set_kernel_arg_device_pointer(
    kernel: cl_kernel,
    index: cl_uint,
    value: cl_mem_device_address_ext,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let address = usize::try_from(value);
        ensure(address.is_ok(), CL_INVALID_ARG_VALUE)?;
        let address = std::ptr::with_exposed_provenance(address.unwrap_or_default());
        // What is no pointer to global memory counts as no such argument.
        let argument = kernel.address_argument(index, address);
        let argument = argument.map_err(|Code(code)| match code {
            CL_INVALID_ARG_VALUE => Code(CL_INVALID_ARG_INDEX),
            code => Code(code),
        })?;
        kernel.set(index, argument);
        Ok(())
    })
}

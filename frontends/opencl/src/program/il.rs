//! Programs of SPIR-V.
//!
//! The compiler for processors has a module translated, and goes on as with a program that was
//! compiled by itself. A node's compiler does the same.

use super::*;
use quipu_clc::SpirV;

/// A module.
pub(super) struct Il {
    /// As the program gave it.
    given: Vec<u8>,
    /// With the specialisation constants that are set.
    module: Mutex<SpirV>,
}

impl Il {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.given
    }

    fn module(&self) -> MutexGuard<'_, SpirV> {
        self.module.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The module with the constants that are set now.
    pub(super) fn specialised(&self) -> SpirV {
        self.module().clone()
    }
}

#[unsafe(export_name = "clCreateProgramWithIL")]
pub(crate) unsafe extern "C" fn create_program_with_il(
    context: cl_context,
    bytes: *const c_void,
    length: usize,
    code: *mut cl_int,
) -> cl_program {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        let any = context.devices.iter().any(|device| device.takes_il());
        ensure(any, CL_INVALID_OPERATION)?;
        ensure(!bytes.is_null() && length != 0, CL_INVALID_VALUE)?;
        // SAFETY: the program passes so many bytes.
        let given = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        let module = SpirV::new(given).or_else(|error| {
            tracing::error!("{error}");
            fail(CL_INVALID_VALUE)
        })?;
        let il = Il {
            given: given.to_vec(),
            module: Mutex::new(module),
        };
        let devices = context.devices.clone();
        Ok(Program::create(context, devices, "", Origin::Il(il), Build::none())?.give())
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateProgramWithILKHR")]
pub(crate) unsafe extern "C" fn create_program_with_il_khr(
    context: cl_context,
    bytes: *const c_void,
    length: usize,
    code: *mut cl_int,
) -> cl_program {
    // SAFETY: what the extension asks of a program is what the standard does.
    unsafe { create_program_with_il(context, bytes, length, code) }
}

#[unsafe(export_name = "clSetProgramSpecializationConstant")]
pub(crate) unsafe extern "C" fn set_program_specialization_constant(
    program: cl_program,
    id: cl_uint,
    size: usize,
    value: *const c_void,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(program)?;
        let any = program.devices.iter().any(|device| device.takes_il());
        ensure(any, CL_INVALID_OPERATION)?;
        let Origin::Il(il) = &program.origin else {
            return fail(CL_INVALID_PROGRAM);
        };
        let mut module = il.module();
        let wanted = module.constant_size(id).ok_or(Code(CL_INVALID_SPEC_ID))?;
        ensure(!value.is_null() && size == wanted, CL_INVALID_VALUE)?;
        // SAFETY: the program passes so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) };
        module.specialise(id, bytes).or(fail(CL_INVALID_VALUE))
    })
}
